//! Predicts a machine without measurements from measured machines.
//!
//! ```text
//! T = d · e^(Σ κ·A)          never faster than the links allow
//! d   a launch floor and a pipelined hierarchy: 33 constants (base)
//! A   the residual of one measured series (machine, collective, ranks, nodes) over d, by size
//! κ   the similarity of that series: collective, ranks, nodes, generation, network
//! ```
//!
//! A machine is described by its hardware: how its GPUs are connected, their generation, the network and
//! its rate. The constants, the series and the bands are fitted to published points of 30 machines
//! ([`learn`] produces [`learned`] from them); errors and bands are those on held-out machines
//! (docs/background/accuracy.md).

mod base;
mod features;
mod learn;
#[allow(clippy::approx_constant, reason = "fitted numbers may look like others")]
mod learned;
mod model;
mod series;

pub(super) use features::Features;
pub use learn::{Clusters, Smooth, Study, smooth};
pub use model::Learned;

use base::{Asked, Base};
use features::Class;
use model::Widths;
use series::likeness;

use super::{Basis, Expectation, HeldOut, SEEN_TRUST};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::placement::Placement;

/// Octaves at which a series has residuals: 1 B to 1 TiB.
const OCTAVES: usize = 41;

/// One query, for any size.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    base: Base,
    /// Σ κ·A at each octave.
    residual: [f64; OCTAVES],
    /// The sizes, as octaves, that evidence of each class of nearness covers, the nearest first.
    covered: [(f64, f64); 3],
    /// Series of the same collective on at most as many ranks; none is covered by another.
    speaks: Vec<Speaks>,
    widths: Widths,
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
    /// Whether it covers all that `other` covers.
    fn covers(&self, other: &Self) -> bool {
        let board = self.board || !other.board;
        board && self.from <= other.from && other.to <= self.to && other.ranks <= self.ranks
    }
}

/// The most ranks on which one NVLink domain was measured.
const MEASURED_DOMAIN: f64 = 8.0;

/// How near the evidence is: the same collective and ranks, the same collective, another collective
/// on the same board (over nodes, also the same network), none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Near {
    Same,
    Ranks,
    Collective,
    None,
}

impl Transfer {
    /// `None` for collectives for which nothing was learned.
    pub(super) fn new(
        learned: &Learned,
        features: &Features,
        collective: Collective,
        placement: Placement,
    ) -> Option<Self> {
        let asked = Asked::new(collective, placement.ranks, placement.nodes())?;
        Some(Self::of(learned, features, asked))
    }

    fn of(learned: &Learned, features: &Features, asked: Asked) -> Self {
        let base = Base::new(&learned.constants, features, asked);
        let mut residual = [0.0; OCTAVES];
        let mut speaks = Vec::new();
        let mut covered = [(f64::INFINITY, f64::NEG_INFINITY); 3];
        for series in learned.series.iter() {
            let part = likeness(&asked, features, series);
            for (sum, left) in residual.iter_mut().zip(&series.left) {
                *sum += part * f64::from(*left);
            }
            let reach = (f64::from(series.from) - 1.0, f64::from(series.to) + 1.0);
            let level = series.nearness(&asked, features);
            let ranks = f64::from(series.ranks);
            if series.is_of(&asked) && ranks <= asked.ranks {
                let (from, to) = reach;
                let new = Speaks { from, to, ranks, board: level.is_some() };
                if !speaks.iter().any(|s: &Speaks| s.covers(&new)) {
                    speaks.retain(|s| !new.covers(s));
                    speaks.push(new);
                }
            }
            if let Some(level) = level {
                let (from, to) = &mut covered[level];
                (*from, *to) = (from.min(reach.0), to.max(reach.1));
            }
        }
        let several = asked.nodes > 1.0;
        let domain = !several && asked.ranks > MEASURED_DOMAIN;
        let widths = learned.widths(features.class == Class::Pcie, several, domain);
        Self { base, residual, covered, speaks, widths }
    }

    /// Whether more ranks of one node are requested than were ever measured together.
    fn domain(&self) -> bool {
        let asked = self.base.asked();
        asked.nodes <= 1.0 && asked.ranks > MEASURED_DOMAIN
    }

    /// Seconds for a number of bytes.
    fn time(&self, bytes: f64) -> f64 {
        let time = self.base.time(bytes) * self.residual(bytes.log2()).exp();
        time.max(self.base.floor(bytes))
    }

    /// Half the width of the band, as a logarithm.
    fn half(&self, octave: f64, region: usize) -> f64 {
        let near = self.near(octave);
        let own = self.widths.near[near as usize][region].half;
        own.max(self.beyond(octave, near).map_or(0.0, |step| self.widths.beyond[step][region]))
    }

    /// The expected time of `size` bytes; `size` is at least one.
    pub(super) fn at(&self, size: Bytes) -> Expectation {
        let bytes = size.0.max(1) as f64;
        let octave = bytes.log2();
        let time = self.time(bytes);
        let near = self.near(octave);
        let band = self.widths.near[near as usize][region(size)];
        let half = self.half(octave, region(size));
        let basis = match near {
            Near::Same | Near::Ranks => Basis::SameBoard,
            Near::Collective | Near::None => Basis::Transferred,
        };
        Expectation {
            time: Seconds(time),
            low: Seconds(time * (-half).exp()),
            high: Seconds(time * half.exp()),
            basis,
            reach: None,
            error: Some(HeldOut { median: Ratio(band.median), p90: Ratio(band.p90) }),
        }
    }

    /// How many times more ranks than the most that were measured: 0 for twice, 1 for four times, 2 for
    /// more; `None` if as many were measured.
    fn beyond(&self, octave: f64, near: Near) -> Option<usize> {
        let asked = self.base.asked().ranks;
        let board = matches!(near, Near::Same | Near::Ranks);
        let most = self
            .speaks
            .iter()
            .filter(|s| s.from <= octave && octave <= s.to)
            .filter(|s| s.board || !board)
            .map(|s| s.ranks)
            .fold(0.0, f64::max);
        match asked / most {
            _ if most <= 0.0 => None,
            ..1.5 => None,
            ..2.5 => Some(0),
            ..5.0 => Some(1),
            _ => Some(2),
        }
    }

    /// What this machine's own error at one size implies for another: as much as on other machines.
    pub(super) fn shared(&self, seen: Bytes, asked: Bytes) -> Ratio {
        let apart = (asked.0.max(1) as f64 / seen.0.max(1) as f64).log2();
        Ratio(self.widths.gains[usize::from(apart > 0.0)].at(apart))
    }

    /// Half the width of the band after one size was seen, as a logarithm.
    pub(super) fn seen_half(&self, seen: Bytes, asked: Bytes) -> f64 {
        let apart = (asked.0.max(1) as f64 / seen.0.max(1) as f64).log2();
        self.widths.seen[usize::from(apart > 0.0)][far(apart)]
    }

    fn residual(&self, octave: f64) -> f64 {
        let at = octave.clamp(0.0, (OCTAVES - 1) as f64);
        let below = (at as usize).min(OCTAVES - 2);
        let part = at - below as f64;
        self.residual[below] * (1.0 - part) + self.residual[below + 1] * part
    }

    fn near(&self, octave: f64) -> Near {
        const LEVELS: [Near; 3] = [Near::Same, Near::Ranks, Near::Collective];
        let covers = |&(_, (from, to)): &(Near, (f64, f64))| from <= octave && octave <= to;
        LEVELS.into_iter().zip(self.covered).find(covers).map_or(Near::None, |(near, _)| near)
    }
}

/// The class of the distance from a seen size, in octaves.
fn far(apart: f64) -> usize {
    match apart.abs() {
        ..2.5 => 0,
        ..5.5 => 1,
        _ => 2,
    }
}

/// Sizes up to 64 KiB, up to 16 MiB, and above.
fn region(size: Bytes) -> usize {
    match size.0 {
        0..=0x1_0000 => 0,
        0x1_0001..=0x100_0000 => 1,
        _ => 2,
    }
}
