//! Bruck's algorithms: all-to-all, all-gather and its reversal in ⌈lg N⌉ rounds, at any N.
//!
//! ```text
//!   round b   i ──► i + 2^b      every block whose remaining offset has bit b travels
//!
//!   offset    1    2    3    4    5    6    7
//!   round 0   ●         ●         ●         ●
//!   round 1        ●    ●              ●    ●
//!   round 2                  ●    ●    ●    ●
//! ```
//!
//! All-to-all: a block of offset j is sent popcount(j) times, which gives ⌈lg N⌉·α +
//! popcounts(N)/N·M/BW, where popcounts(N) = Σ_{j<N} popcount(j). The textbook prints ⌈lg N⌉/2·M/BW,
//! which is the same only at powers of two (K15; at N = 72 it is 2.94, not 3.5). The local rotations
//! before and after are not priced.
//!
//! All-gather: in round b rank i sends the min(2^b, N − 2^b) chunks starting with its own to i −
//! 2^b. The reversal, with additions, is a reduce-scatter. ⌈lg N⌉·α + (N − 1)/N·M/BW.
//!
//! Exact on one full-duplex port. With further ports rounds that share no block may overlap, so the
//! formula is an upper bound there. One half-duplex port: ×3 at most.

use super::rounds::{LogGather, back, gather_schedule, on, repeat, shift_turns};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, AllToAll, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Function, Named, Shape, ceil_lg};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// Bruck's algorithms.
pub static FAMILY: &[&dyn Algorithm] = &[&Exchange, &GATHER];

const SOURCE: &str = "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11) 1997";

/// Blocks of offsets 0 … n − 1 that are sent in round b.
fn blocks(n: u64, b: u32) -> u64 {
    let half = 1 << b;
    n / (2 * half) * half + (n % (2 * half)).saturating_sub(half)
}

/// How many blocks a rank sends in all rounds together.
static POPCOUNTS: Named = Named {
    name: "popcounts",
    means: "popcounts(N) is the number of ones in the binary numbers from 0 to N − 1",
    rule: popcounts,
};

fn popcounts(arguments: &[u64]) -> u64 {
    let n = arguments.first().copied().unwrap_or(0);
    (0..u64::BITS - n.leading_zeros()).map(|b| blocks(n, b)).sum()
}

/// popcounts(N)/N.
fn volume<F: Field>(v: &At<F>) -> F {
    let value = popcounts(&[v.shape.ranks.into()]);
    F::call(Function::Named(&POPCOUNTS), &[&v.n], value) / v.n.clone()
}

/// The all-to-all.
struct Exchange;

impl ClosedForm for Exchange {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "bruck",
            title: "Bruck",
            collectives: &[AllToAll],
            aliases: &["bruck_a2a", "brucks"],
            known_as: &[
                (Library::OpenMpi, &[AllToAll], "3 modified_bruck"),
                (Library::Mpich, &[AllToAll], "brucks"),
            ],
            summary: "in round b the blocks whose remaining distance has bit b set move on by 2^b ranks",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        match shift_turns(&v.shape) {
            1 => Cost::new(v.ceil_lg(), volume(v)),
            turns => {
                let turns = F::int(turns.into());
                Cost::new(turns.clone() * v.ceil_lg(), turns * volume(v))
            }
        }
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        volume(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        for b in 0..ceil_lg(n) {
            let share = Share::new(blocks(n.into(), b), n);
            repeat(Step::new(1_u32, share, Route::Offset(1 << b)), shift_turns(shape), emit);
        }
    }

    /// 003 App. B.5 prints ⌈lg N⌉(α + M/2BW) for any N.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(Cost::new(v.ceil_lg(), v.ceil_lg() / F::int(2)))
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        // Blocks are numbered in a u32.
        shape.ranks.checked_mul(shape.ranks)?;
        Some(Box::new(Offsets { ranks: shape.ranks }))
    }
}

/// The all-gather, and its reversal, the reduce-scatter.
static GATHER: LogGather = LogGather {
    meta: &Meta {
        id: "bruck",
        title: "Bruck",
        collectives: &[AllGather, ReduceScatter],
        aliases: &["bruck_ag", "bruck_rs", "brucks"],
        known_as: &[
            (Library::OpenMpi, &[AllGather], "2 bruck"),
            (Library::Mpich, &[AllGather], "brucks"),
        ],
        summary: "in round b rank i sends everything it has to rank i − 2^b",
        source: SOURCE,
    },
    rounds: gather_rounds,
    schedule: |shape| gather_schedule(shape, Doubling::backwards(shape.ranks)),
};

/// The rounds of the all-gather, with chunks of M/N.
pub(super) fn gather_rounds(n: u32) -> Vec<Step> {
    let round = |b: u32| {
        let d = 1 << b;
        Step::new(1_u32, Share::new(d.min(n - d), n), Route::Offset(d))
    };
    (0..ceil_lg(n)).map(round).collect()
}

/// The all-to-all: before round b a block of offset j has moved by the bits of j below b.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    ranks: u32,
}

impl Schedule for Offsets {
    fn frame(&self) -> Frame {
        Frame::new(AllToAll, self.ranks, self.ranks, ceil_lg(self.ranks).into()).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let bit = 1_u32 << round;
        let blocks = (0..bit).flat_map(|come| {
            let source = back(rank, come, n);
            let offsets = (come + bit..n).step_by(2 * bit as usize);
            offsets.map(move |offset| Run::one(source * n + on(source, offset, n)))
        });
        out.push(Endpoint::Rank(on(rank, bit, n)), Op::Copy, blocks);
    }
}

/// The all-gather: in round b every rank sends the chunks nearest to its own over 2^b ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubling {
    ranks: u32,
    onwards: bool,
}

impl Doubling {
    /// A rank's own chunk and those after it go 2^b ranks back: Bruck's order.
    pub(super) fn backwards(ranks: u32) -> Self {
        Self { ranks, onwards: false }
    }

    /// A rank's own chunk and those before it go 2^b ranks forwards.
    pub(super) fn onwards(ranks: u32) -> Self {
        Self { ranks, onwards: true }
    }
}

impl Schedule for Doubling {
    fn frame(&self) -> Frame {
        Frame::new(AllGather, self.ranks, self.ranks, ceil_lg(self.ranks).into()).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let distance = 1_u32 << round;
        let chunks = distance.min(n - distance);
        let (to, first) = match self.onwards {
            true => (on(rank, distance, n), back(rank, chunks - 1, n)),
            false => (back(rank, distance, n), rank),
        };
        out.push(Endpoint::Rank(to), Op::Copy, Run::around(first, chunks, n));
    }
}
