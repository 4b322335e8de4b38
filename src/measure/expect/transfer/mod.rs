//! Predicts a machine without measurements from measured machines.
//!
//! ```text
//! T = d · e^(Σ κ·A)          never faster than the links allow
//! d   a launch floor and a pipelined hierarchy: 47 constants (base)
//! A   the residual of one measured series (machine, collective, ranks, nodes) over d, by size
//! κ   the similarity of that series: collective, ranks, nodes, generation, network
//! ```
//!
//! A machine is described by its hardware: how its GPUs are connected, their generation, the network and
//! its rate. Between processes on hosts MPI runs, with 28 constants of its own and no series (hosts). The
//! constants, the series and the bands are fitted to published points of the machines in `evidence/`
//! ([`learn`] produces [`learned`] from them); errors and bands are those on held-out machines
//! (docs/background/accuracy.md).

mod base;
mod features;
mod hosts;
mod learn;
#[allow(clippy::approx_constant, reason = "fitted numbers may look like others")]
mod learned;
mod model;
mod series;

pub(super) use features::Features;
pub use learn::{Clusters, Smooth, Study, smooth};
pub use model::Learned;

use std::array::from_fn;

use base::{Asked, Base, What};
use model::{Model, Widths};
use series::likeness;

use super::{Basis, Expectation, HeldOut};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::placement::Placement;

/// Octaves at which a series has residuals: 1 B to 1 TiB.
const OCTAVES: usize = 41;

/// A value at each of them.
type Octaves = [f64; OCTAVES];

/// One query, for any size.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    base: Base,
    /// Σ κ·A at each octave.
    residual: Octaves,
    /// The sizes, as octaves, that evidence of each class of nearness covers, the nearest first.
    covered: [(f64, f64); 3],
    /// Those at which this very board was measured, and not only one of its generation.
    board: (f64, f64),
    /// Series of the same collective on as many ranks, fewer or more; none is covered by another.
    speaks: Vec<Speaks>,
    widths: Widths,
    /// What it is based on by size, each from a size on: it changes with the evidence and with the region.
    bases: Vec<(u64, Stated)>,
    /// Half the width of the band at each octave, downwards and upwards, as logarithms.
    half: [[f64; 2]; OCTAVES],
}

/// What an expectation is based on.
#[derive(Debug, Clone, Copy)]
struct Stated {
    basis: Basis,
    error: HeldOut,
}

/// A series that shows how far the requested ranks are from measured ones.
#[derive(Debug, Clone, Copy)]
struct Speaks {
    from: f64,
    to: f64,
    ranks: f64,
    board: bool,
}

impl Speaks {
    /// Whether it covers all that `other` covers, from the same side of `asked` ranks.
    fn covers(&self, other: &Self, asked: f64) -> bool {
        let board = self.board || !other.board;
        let nearer = match (self.ranks <= asked, other.ranks <= asked) {
            (true, true) => other.ranks <= self.ranks,
            (false, false) => self.ranks <= other.ranks,
            _ => false,
        };
        board && nearer && self.from <= other.from && other.to <= self.to
    }
}

/// The most ranks on which one NVLink domain was measured.
const MEASURED_DOMAIN: f64 = 8.0;

/// The part of a line rate that is left for data: published runs reach at most 49 of 50 GB/s of a NIC.
const MOST_REACHED: f64 = 0.98;

/// How near the evidence is: the same collective and ranks, the same collective, another collective
/// on the same board (over nodes, also the same network), none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Near {
    Same,
    Ranks,
    Collective,
    None,
}

/// Octaves over which what was seen of a gather or a scatter fades for larger sizes.
const ROOTED_FADES: f64 = 3.0;

impl Transfer {
    /// `None` for collectives for which nothing was learned.
    pub(super) fn new(
        learned: &Learned,
        features: &Features,
        collective: Collective,
        placement: Placement,
    ) -> Option<Self> {
        let asked = Asked::new(collective, placement, features.is_host())?;
        Some(Self::of(learned.of(asked.family()), features, asked))
    }

    fn of(learned: &Model, features: &Features, asked: Asked) -> Self {
        let base = Base::new(&learned.constants, features, asked);
        let mut residual = [0.0; OCTAVES];
        let mut speaks = Vec::new();
        let mut covered = [(f64::INFINITY, f64::NEG_INFINITY); 3];
        let mut board = (f64::INFINITY, f64::NEG_INFINITY);
        for series in learned.series.iter() {
            let part = likeness(&asked, features, series);
            for (sum, left) in residual.iter_mut().zip(&series.left) {
                *sum += part * f64::from(*left);
            }
            let reach = (f64::from(series.from) - 1.0, f64::from(series.to) + 1.0);
            let level = series.nearness(&asked, features);
            if series.is_of(&asked) {
                let (from, to) = reach;
                let ranks = f64::from(series.ranks);
                let new = Speaks { from, to, ranks, board: level.is_some() };
                if !speaks.iter().any(|s: &Speaks| s.covers(&new, asked.ranks)) {
                    speaks.retain(|s| !new.covers(s, asked.ranks));
                    speaks.push(new);
                }
            }
            if let Some(level) = level {
                let and = |(from, to): (f64, f64)| (from.min(reach.0), to.max(reach.1));
                covered[level] = and(covered[level]);
                if series.is_of(&asked) && series.board == features.board {
                    board = and(board);
                }
            }
        }
        rise(&base, &mut residual);
        let several = asked.nodes > 1.0;
        let widths = learned.widths(features.group(&asked), several, asked.is_domain());
        let (bases, half) = (Vec::new(), [[0.0; 2]; OCTAVES]);
        let mut own = Self { base, residual, covered, board, speaks, widths, bases, half };
        own.bases = own.bases();
        own.half = own.halves();
        own
    }

    /// Every basis from the first size that has it. Evidence covers whole octaves with both ends.
    fn bases(&self) -> Vec<(u64, Stated)> {
        let covered = self.covered.iter().filter(|(from, to)| from <= to);
        let speaks = self.speaks.iter().map(|s| (s.from, s.to));
        let ends = covered.copied().chain(speaks);
        let sizes = ends.flat_map(|(from, to)| [from.exp2().ceil() as u64, to.exp2() as u64 + 1]);
        let mut sizes: Vec<u64> = sizes.chain(REGIONS.map(|most| most + 1)).chain([1]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.retain(|size| *size > 0);
        sizes.into_iter().map(|size| (size, self.stated(size))).collect()
    }

    fn stated(&self, size: u64) -> Stated {
        let octave = (size as f64).log2();
        let held = self.held(octave, region(Bytes(size)));
        Stated {
            basis: match self.near(octave) {
                Near::Same | Near::Ranks => Basis::SameBoard,
                Near::Collective | Near::None => Basis::Transferred,
            },
            error: HeldOut { median: Ratio(held.median), p90: Ratio(held.p90) },
        }
    }

    /// The widths pass into one another over two octaves around where the evidence or the region changes. And
    /// fewer bytes take no longer than more: no band reaches above that of more bytes, or below that of fewer.
    fn halves(&self) -> [[f64; 2]; OCTAVES] {
        let ln: Octaves = from_fn(|k| self.time((k as f64).exp2()).ln());
        let held: Octaves = from_fn(|k| self.held(k as f64, region(Bytes(1 << k))).half);
        let half: Octaves = from_fn(|k| {
            let beside = held[k.saturating_sub(1)] + held[(k + 1).min(OCTAVES - 1)];
            0.5 * held[k] + 0.25 * beside
        });
        let mut low: Octaves = from_fn(|k| ln[k] - half[k]);
        let mut high: Octaves = from_fn(|k| ln[k] + half[k]);
        for k in 1..OCTAVES {
            low[k] = low[k].max(low[k - 1].min(ln[k]));
            let k = OCTAVES - 1 - k;
            high[k] = high[k].min(high[k + 1].max(ln[k]));
        }
        from_fn(|k| [ln[k] - low[k], high[k] - ln[k]])
    }

    /// Whether ranks are processes on hosts.
    pub(super) fn is_of_hosts(&self) -> bool {
        self.base.asked().hosts
    }

    /// Whether this very board was measured there.
    pub(super) fn has_board(&self, size: Bytes) -> bool {
        let octave = (size.0.max(1) as f64).log2();
        self.board.0 <= octave && octave <= self.board.1
    }

    /// Seconds for a number of bytes.
    #[inline]
    fn time(&self, bytes: f64) -> f64 {
        let time = self.base.time(bytes) * self.residual(bytes.log2()).exp();
        time.max(self.base.floor(bytes) / MOST_REACHED)
    }

    /// What the links take at their line rate for the least data that any algorithm moves.
    #[inline]
    pub(super) fn floor(&self, size: Bytes) -> Seconds {
        Seconds(self.base.floor(size.0 as f64))
    }

    /// The errors there: those of such evidence, or, if they are larger, of so many more ranks than were
    /// measured.
    fn held(&self, octave: f64, region: usize) -> model::Band {
        let near = self.near(octave);
        let own = self.widths.near[near as usize][region];
        match self.beyond(octave, near).map(|step| self.widths.beyond[step][region]) {
            Some(more) if more.half > own.half => more,
            _ => own.plus(hosts::beyond(&self.base.asked())),
        }
    }

    /// The expected time of `size` bytes; `size` is at least one.
    #[inline]
    pub(super) fn at(&self, size: Bytes) -> Expectation {
        let size = size.0.max(1);
        let time = self.time(size as f64);
        let after = self.bases.partition_point(|&(from, _)| from <= size);
        // The first is from 1 byte on.
        let (_, Stated { basis, error }) = self.bases[after - 1];
        let (below, part) = knot((size as f64).log2());
        let half =
            |side: usize| self.half[below][side] * (1.0 - part) + self.half[below + 1][side] * part;
        Expectation {
            time: Seconds(time),
            low: Seconds(time * (-half(0)).exp()),
            high: Seconds(time * half(1).exp()),
            basis,
            reach: None,
            // Beyond what was measured nothing was held out.
            error: (hosts::beyond(&self.base.asked()) <= 0.0).then_some(error),
        }
    }

    /// How far the ranks are from the nearest that were measured, where those below end: 0 for twice, 1 for
    /// four times, 2 for more; `None` if about as many were measured.
    fn beyond(&self, octave: f64, near: Near) -> Option<usize> {
        let (fewer, more) = self.measured_ranks(octave, near);
        let asked = self.base.asked().ranks;
        match (asked / fewer).min(more / asked) {
            _ if fewer <= 0.0 => None,
            ..1.5 => None,
            ..2.5 => Some(0),
            ..5.0 => Some(1),
            _ => Some(2),
        }
    }

    /// The most ranks with such evidence among those that are no more, and the fewest among the others: 0
    /// and infinity if there are none.
    fn measured_ranks(&self, octave: f64, near: Near) -> (f64, f64) {
        let board = matches!(near, Near::Same | Near::Ranks);
        let there = self.speaks.iter().filter(|s| s.from <= octave && octave <= s.to);
        there.filter(|s| s.board || !board).fold((0.0, f64::INFINITY), |(fewer, more), s| {
            match s.ranks <= self.base.asked().ranks {
                true => (s.ranks.max(fewer), more),
                false => (fewer, s.ranks.min(more)),
            }
        })
    }

    /// Whether it goes to other ranks than were measured, or to several nodes where nothing was.
    pub(super) fn extrapolates(&self, size: Bytes) -> bool {
        let octave = (size.0.max(1) as f64).log2();
        match self.near(octave) {
            Near::None => self.base.asked().nodes > 2.0,
            near => self.beyond(octave, near).is_some(),
        }
    }

    /// The nearest ranks that were measured, the fewer and the more, if others are asked.
    pub(super) fn other_ranks(&self, size: Bytes) -> Option<(u32, Option<u32>)> {
        let octave = (size.0.max(1) as f64).log2();
        let near = self.near(octave);
        self.beyond(octave, near)?;
        let (fewer, more) = self.measured_ranks(octave, near);
        Some((fewer as u32, more.is_finite().then_some(more as u32)))
    }

    /// What this machine's own error at one size implies for another: as much as on other machines.
    pub(super) fn shared(&self, seen: Bytes, asked: Bytes) -> Ratio {
        let apart = (asked.0.max(1) as f64 / seen.0.max(1) as f64).log2();
        let gain = self.widths.gains[usize::from(apart > 0.0)].at(apart);
        // A root starts its messages one after another; the rate of its links says nothing of that, nor does that of it.
        let rooted = matches!(self.base.asked().what, What::Gather | What::Scatter);
        let fades = if rooted && apart > 0.0 { (-apart / ROOTED_FADES).exp() } else { 1.0 };
        Ratio(gain * fades)
    }

    /// After one size was seen: half the width of the band, as a logarithm, and the error.
    pub(super) fn seen(&self, seen: Bytes, asked: Bytes) -> (f64, HeldOut) {
        let apart = (asked.0.max(1) as f64 / seen.0.max(1) as f64).log2();
        let held = self.widths.seen[usize::from(apart > 0.0)][far(apart)];
        (held.half, HeldOut { median: Ratio(held.median), p90: Ratio(held.p90) })
    }

    #[inline]
    fn residual(&self, octave: f64) -> f64 {
        let (below, part) = knot(octave);
        self.residual[below] * (1.0 - part) + self.residual[below + 1] * part
    }

    fn near(&self, octave: f64) -> Near {
        const LEVELS: [Near; 3] = [Near::Same, Near::Ranks, Near::Collective];
        let covers = |&(_, (from, to)): &(Near, (f64, f64))| from <= octave && octave <= to;
        LEVELS.into_iter().zip(self.covered).find(covers).map_or(Near::None, |(near, _)| near)
    }
}

/// The octave below, and the part of the way to the next.
#[inline]
fn knot(octave: f64) -> (usize, f64) {
    let at = octave.clamp(0.0, (OCTAVES - 1) as f64);
    let below = (at as usize).min(OCTAVES - 2);
    (below, at - below as f64)
}

/// Lets no small size take longer than a larger one: the first rows of published logs do, which is how their
/// benchmarks begin.
fn rise(base: &Base, residual: &mut Octaves) {
    let ln = |octave: usize| base.time((octave as f64).exp2()).ln();
    let mut above = residual[SMALL] + ln(SMALL);
    for octave in (0..SMALL).rev() {
        let own = ln(octave);
        residual[octave] = residual[octave].min(above - own);
        above = residual[octave] + own;
    }
}

/// The octave up to which sizes are small: 4 KiB.
const SMALL: usize = 12;

/// The class of the distance from a seen size, in octaves.
fn far(apart: f64) -> usize {
    match apart.abs() {
        ..2.5 => 0,
        ..5.5 => 1,
        _ => 2,
    }
}

/// Where regions of sizes end: 64 KiB, 16 MiB; the last does not.
const REGIONS: [u64; 2] = [1 << 16, 1 << 24];

fn region(size: Bytes) -> usize {
    REGIONS.iter().filter(|most| size.0 > **most).count()
}

#[cfg(test)]
mod tests {
    use super::base::Family;
    use super::features::Class;
    use super::*;
    use crate::machine::fabric::Order;
    use crate::machine::wires::Wires;

    #[test]
    fn bands_change_where_the_evidence_does() {
        let learned = Learned::built_in().of(Family::Collectives);
        let features = Features {
            class: Class::NvLink,
            generation: 4,
            board: "h100".to_owned(),
            rate: 450.0,
            wires: Wires::Switch,
            bridged: false,
            span: 8,
            nvls: true,
            levels: 0,
            net: features::Net::Ib,
            nic: 50.0,
            nics: 8.0,
            beside: 1.0,
            one: 50.0,
            alpha: 0.0,
        };
        for (ranks, nodes) in [(2, 1), (8, 1), (16, 1), (64, 8), (4096, 512)] {
            let placement = Placement { ranks, per_node: ranks / nodes, order: Order::Block };
            let asked = Asked::new(Collective::AllReduce, placement, false).unwrap();
            let transfer = Transfer::of(learned, &features, asked);
            let mut sizes: Vec<u64> = (0..45).flat_map(|k| [1 << k, (1 << k) + 1]).collect();
            sizes.extend((1..45).flat_map(|k| [(1 << k) - 1, 3 << k]));
            sizes.sort_unstable();
            let mut before: Option<(f64, Expectation)> = None;
            for size in sizes {
                let (found, octave) = (transfer.at(Bytes(size)), (size as f64).log2());
                let board = matches!(transfer.near(octave), Near::Same | Near::Ranks);
                assert_eq!(found.basis == Basis::SameBoard, board, "{size} B, {ranks} ranks");
                let held = transfer.held(octave, region(Bytes(size)));
                assert_eq!(found.error.unwrap().p90.0, held.p90, "{size} B, {ranks} ranks");
                assert!(found.low.0 <= found.time.0 && found.time.0 <= found.high.0, "{size} B");
                // No end jumps: an octave changes it by no more than the time and half of the widest band.
                if let Some((from, before)) = before.replace((octave, found)) {
                    let ln = |a: Seconds, b: Seconds| (b.0 / a.0).ln();
                    let most = 0.75 * (octave - from) + 1e-9 + ln(before.time, found.time).abs();
                    assert!(ln(before.low, found.low).abs() < most, "{size} B, {ranks} ranks: low");
                    assert!(
                        ln(before.high, found.high).abs() < most,
                        "{size} B, {ranks} ranks: high"
                    );
                }
            }
            assert!(transfer.bases.len() > 3, "{ranks} ranks: the evidence changes with size");
        }
    }
}
