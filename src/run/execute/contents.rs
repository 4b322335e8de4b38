//! What ranks contribute, and what the result must be, bit by bit.
//!
//! The numbers that are added are small integers, so every partial sum is exact in `f32`. Whatever
//! the order of the additions, which a network does not guarantee, the bits of the result are the
//! same, and each rank can compute what they must be. The numbers look random, so a part that is
//! missing, duplicated or misplaced is detected.

use serde::{Deserialize, Serialize};

use super::program::{Patch, Program};
use crate::base::random::STEP;
use crate::run::transport::{Fault, Transport};

/// The elements of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Element {
    /// Bytes, which are only copied.
    Byte,
    /// `f32`, which are added.
    Float,
    /// 64 bits, one per rank, which are joined.
    Bits,
}

/// Whose numbers a part of a buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Those of one rank.
    Rank(u32),
    /// The sum over all ranks.
    All,
}

/// The first wrong element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    /// The byte of the buffer at which the element begins.
    pub at: usize,
    /// The expected bits.
    pub wanted: u64,
    /// The bits found.
    pub found: u64,
}

/// The byte in places where a rank has nothing: not a number of any rank.
const NOTHING: u8 = 0xA5;
/// Bytes that are written or compared at a time.
const PIECE: usize = 64 << 10;

impl Element {
    /// Its size in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Float => 4,
            Self::Bits => 8,
        }
    }

    /// Element `number` of a vector, as bits.
    #[inline(always)]
    fn value(self, source: Source, number: u64, ranks: u32) -> u64 {
        match (self, source) {
            (Self::Byte, Source::Rank(rank)) => mix(rank, number) & 0xFF,
            (Self::Byte, Source::All) => NOTHING.into(),
            (Self::Float, Source::Rank(rank)) => whole(rank, number).to_bits().into(),
            (Self::Float, Source::All) => {
                let sum: f32 = (0..ranks).map(|rank| whole(rank, number)).sum();
                sum.to_bits().into()
            }
            // Word w has the bits of ranks from 64w on.
            (Self::Bits, Source::Rank(rank)) => {
                if u64::from(rank / 64) == number {
                    1 << (rank % 64)
                } else {
                    0
                }
            }
            (Self::Bits, Source::All) => {
                let here = u64::from(ranks).saturating_sub(64 * number).min(64);
                if here == 64 { u64::MAX } else { (1 << here) - 1 }
            }
        }
    }

    /// Writes the elements from `first` on.
    fn write(self, patch: &Patch, first: u64, ranks: u32, out: &mut [u8]) {
        // One loop for each kind, so the kind is not checked again for every element.
        let value = |kind: Self, number| kind.value(patch.source, number, ranks);
        match self {
            Self::Byte => put(out, first, |n| [value(Self::Byte, n) as u8]),
            Self::Float => put(out, first, |n| (value(Self::Float, n) as u32).to_ne_bytes()),
            Self::Bits => put(out, first, |n| value(Self::Bits, n).to_ne_bytes()),
        }
    }
}

#[inline(always)]
fn put<const BYTES: usize>(out: &mut [u8], first: u64, value: impl Fn(u64) -> [u8; BYTES]) {
    let (places, _) = out.as_chunks_mut::<BYTES>();
    for (number, place) in (first..).zip(places) {
        *place = value(number);
    }
}

/// A number that looks random: a step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(rank: u32, number: u64) -> u64 {
    let mut z = (number ^ u64::from(rank) << 40).wrapping_add(1).wrapping_mul(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// 1 … 4096: sums over 4096 ranks stay below 2^24, up to which `f32` has every integer.
fn whole(rank: u32, number: u64) -> f32 {
    (1 + (mix(rank, number) & 0xFFF)) as f32
}

/// Sets every byte to the same value: enough for runs that are timed and not compared. As numbers,
/// its sums are never so small that additions slow down.
pub(super) fn wipe(transport: &mut dyn Transport, program: &Program) -> Result<(), Fault> {
    let nothing = vec![NOTHING; PIECE.min(program.bytes)];
    for start in (0..program.bytes).step_by(PIECE) {
        transport.write(start, &nothing[..PIECE.min(program.bytes - start)])?;
    }
    Ok(())
}

/// Writes the rank's contribution, and other values everywhere else.
pub(super) fn fill(transport: &mut dyn Transport, program: &Program) -> Result<(), Fault> {
    wipe(transport, program)?;
    let mut piece = vec![0; PIECE];
    for (patch, start, bytes, first) in pieces(program, &program.start) {
        program.element.write(patch, first, program.ranks, &mut piece[..bytes]);
        transport.write(start, &piece[..bytes])?;
    }
    Ok(())
}

/// Compares every bit with the expected result.
pub(super) fn check(
    transport: &mut dyn Transport,
    program: &Program,
) -> Result<Option<Wrong>, Fault> {
    let (mut wanted, mut found) = (vec![0; PIECE], vec![0; PIECE]);
    for (patch, start, bytes, first) in pieces(program, &program.end) {
        let (wanted, found) = (&mut wanted[..bytes], &mut found[..bytes]);
        program.element.write(patch, first, program.ranks, wanted);
        transport.read(start, found)?;
        if wanted == found {
            continue;
        }
        let each = program.element.bytes();
        let pairs = wanted.chunks_exact(each).zip(found.chunks_exact(each));
        if let Some((i, (wanted, found))) = pairs.enumerate().find(|(_, (a, b))| a != b) {
            let (wanted, found) = (bits(wanted), bits(found));
            return Ok(Some(Wrong { at: start + i * each, wanted, found }));
        }
    }
    Ok(None)
}

/// Patches cut into pieces: the start of each, its bytes, and the number of its first element.
fn pieces<'a>(
    program: &'a Program,
    patches: &'a [Patch],
) -> impl Iterator<Item = (&'a Patch, usize, usize, u64)> {
    let each = program.element.bytes();
    patches.iter().flat_map(move |patch| {
        patch.span.clone().step_by(PIECE).map(move |start| {
            let first = patch.first + ((start - patch.span.start) / each) as u64;
            (patch, start, PIECE.min(patch.span.end - start), first)
        })
    })
}

fn bits(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_in_any_order() {
        let numbers: Vec<f32> = (0..4096).map(|rank| whole(rank, 7)).collect();
        let forward: f32 = numbers.iter().sum();
        let backward: f32 = numbers.iter().rev().sum();
        let exact: f64 = numbers.iter().map(|&x| f64::from(x)).sum();
        assert_eq!((forward.to_bits(), f64::from(forward)), (backward.to_bits(), exact));
    }

    #[test]
    fn ranks_bring_different_numbers() {
        let row = |rank| (0..64).map(|i| whole(rank, i).to_bits()).collect::<Vec<_>>();
        assert!((1..20).all(|rank| row(rank) != row(0)));
    }

    #[test]
    fn all_have_come_when_every_bit_is_set() {
        let joined = |ranks, word| {
            let one = |rank| Element::Bits.value(Source::Rank(rank), word, ranks);
            (0..ranks).map(one).fold(0, |a, b| a | b)
        };
        for (ranks, word) in [(1, 0), (64, 0), (65, 0), (65, 1), (100, 1)] {
            assert_eq!(joined(ranks, word), Element::Bits.value(Source::All, word, ranks));
        }
    }
}
