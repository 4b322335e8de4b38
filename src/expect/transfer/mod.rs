//! What measured machines teach about one that nobody measured.
//!
//! ```text
//! T = d · e^(Σ κ·A)          never below what the links carry
//! d   a launch floor and a pipelined hierarchy: 33 constants (base)
//! A   what one measured series (machine, collective, ranks, nodes) left over d, by size
//! κ   how alike that series is: collective, ranks, nodes, generation, network
//! ```
//!
//! A machine is known by its hardware: how its GPUs are joined, their generation, the network and
//! its rate. The constants, the series and the bands are fitted to published points of 30 machines
//! ([`learned`]); errors and bands are those on machines that were left out (docs/ACCURACY.md).

mod base;
mod features;
mod learned;
mod series;

pub(super) use features::Features;

use base::Base;
use features::Class;
use series::likeness;

use super::{Basis, Expectation, HeldOut};
use crate::collective::Collective;
use crate::placement::Placement;
use crate::quantity::{Bytes, Ratio, Seconds};

/// Octaves at which a series says what it left over: 1 B to 1 TiB.
const OCTAVES: usize = 41;

/// One question, whatever its size.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    base: Base,
    /// Σ κ·A at each octave.
    residual: [f64; OCTAVES],
    /// The sizes, as octaves, that evidence of each nearness covers, the nearest first.
    covered: [(f64, f64); 3],
    /// Series of the same collective, by the sizes that they cover.
    speaks: Vec<Speaks>,
    pcie: bool,
    several: bool,
    /// Ranks of one node, where more were never measured together.
    domain: bool,
}

/// A series that says something of how far the ranks asked are from measured ones.
#[derive(Debug, Clone, Copy)]
struct Speaks {
    from: f64,
    to: f64,
    ranks: f64,
    board: bool,
}

/// One NVLink domain was measured up to so many ranks.
const MEASURED_DOMAIN: f64 = 8.0;

/// How near the evidence is: the same collective and ranks, the same collective, another collective
/// of the same board (over nodes of the same network, too), none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Near {
    Same,
    Ranks,
    Collective,
    None,
}

impl Transfer {
    /// None for collectives that nothing was learned of.
    pub(super) fn new(
        features: &Features,
        collective: Collective,
        placement: Placement,
    ) -> Option<Self> {
        let base = Base::new(features, collective, placement)?;
        let mut residual = [0.0; OCTAVES];
        let mut speaks = Vec::new();
        let mut covered = [(f64::INFINITY, f64::NEG_INFINITY); 3];
        let asked = base.asked();
        for series in learned::SERIES {
            let part = likeness(&asked, features, series);
            for (sum, left) in residual.iter_mut().zip(series.left) {
                *sum += part * f64::from(*left);
            }
            let reach = (f64::from(series.from) - 1.0, f64::from(series.to) + 1.0);
            let level = series.nearness(&asked, features);
            if series.is_of(&asked) {
                let (from, to) = reach;
                let ranks = f64::from(series.ranks);
                speaks.push(Speaks { from, to, ranks, board: level.is_some() });
            }
            if let Some(level) = level {
                let (from, to) = &mut covered[level];
                (*from, *to) = (from.min(reach.0), to.max(reach.1));
            }
        }
        let several = placement.is_spread();
        let domain = !several && asked.ranks > MEASURED_DOMAIN;
        let pcie = features.class == Class::Pcie;
        Some(Self { base, residual, covered, speaks, pcie, several, domain })
    }

    /// What `size` bytes are expected to take; at least one.
    pub(super) fn at(&self, size: Bytes) -> Expectation {
        let bytes = size.0.max(1) as f64;
        let octave = bytes.log2();
        let time = self.base.time(bytes) * self.residual(octave).exp();
        let time = time.max(self.base.floor(bytes));
        let near = self.near(octave);
        let band = learned::band(self.pcie, self.several, near as usize, region(size));
        let half = band.half.max(self.beyond(octave, near, region(size)));
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

    /// Half the width of a band so many times the most ranks away that were measured; 0 where as
    /// many were.
    fn beyond(&self, octave: f64, near: Near, region: usize) -> f64 {
        let asked = self.base.asked().ranks;
        let board = matches!(near, Near::Same | Near::Ranks);
        let most = self
            .speaks
            .iter()
            .filter(|s| s.from <= octave && octave <= s.to && s.ranks <= asked)
            .filter(|s| s.board || !board)
            .map(|s| s.ranks)
            .fold(0.0, f64::max);
        let step = match asked / most {
            _ if most <= 0.0 => return 0.0,
            ..1.5 => return 0.0,
            ..2.5 => 0,
            ..5.0 => 1,
            _ => 2,
        };
        learned::beyond(self.pcie, self.several || self.domain, step, region)
    }

    /// What this machine's own difference at one size says of another: as much as they share of
    /// latency, and of bytes, and the nearer they are.
    pub(super) fn shared(&self, seen: Bytes, asked: Bytes) -> Ratio {
        let latency = |size: Bytes| self.base.latency_share(size.0.max(1) as f64);
        let (a, b) = (latency(seen), latency(asked));
        let apart = (asked.0.max(1) as f64 / seen.0.max(1) as f64).log2().abs();
        let bytes = learned::SEEN_BYTES * learned::SEEN_BYTES;
        let near = learned::SEEN_NEAR * learned::SEEN_NEAR;
        let of =
            a * b + (1.0 - a) * (1.0 - b) * bytes + near * (-apart / learned::SEEN_FADES).exp();
        Ratio(of / (a * a + (1.0 - a) * (1.0 - a) * bytes + near))
    }

    /// Half the width of the band where one size was seen, as a logarithm.
    pub(super) fn seen_half(&self, seen: Bytes, asked: Bytes) -> f64 {
        let apart = (asked.0.max(1) as f64 / seen.0.max(1) as f64).log2();
        learned::seen_half(self.pcie, self.several, apart)
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

/// Sizes up to 64 KiB, up to 16 MiB, and above.
fn region(size: Bytes) -> usize {
    match size.0 {
        ..=0x1_0000 => 0,
        ..=0x100_0000 => 1,
        _ => 2,
    }
}
