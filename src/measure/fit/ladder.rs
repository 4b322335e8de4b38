//! Work in one rank's memory (copies and additions) as a line with knots over its sizes.

use super::bootstrap::{Estimate, draws};
use super::knots;
use super::model::{Basis, Design, Entry};
use super::path::{Kind, Path, Sent};
use super::point::{Point, Statistic};
use crate::base::quantity::{Bytes, Ratio, Seconds, SecondsPerByte, Volume};
use crate::base::random::Random;
use crate::machine::link::Exchange;
use crate::machine::sample::Op;

/// The cost per byte between two sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// From this byte on.
    pub from: Bytes,
    /// To this one; absent: unbounded.
    pub to: Option<Bytes>,
    /// The time of each byte between.
    pub each: Estimate<SecondsPerByte>,
}

/// A start and slopes.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// The time of no bytes.
    pub start: Estimate<Seconds>,
    /// The slopes, from the smallest sizes on; at least one.
    pub slopes: Vec<Slope>,
    /// How many sizes were measured.
    pub count: usize,
}

impl Ladder {
    /// The last slope.
    #[must_use]
    pub fn last(&self) -> Option<Estimate<SecondsPerByte>> {
        self.slopes.last().map(|s| s.each)
    }

    /// Half the width of the last slope's interval over it.
    #[must_use]
    pub fn precision(&self) -> Option<Ratio> {
        self.last().map(|e| Ratio(e.map(|s| s.0).half()))
    }
}

/// The fewest sizes that suffice.
const LEAST: usize = 4;

/// The ladder of `op`, up to `largest` bytes.
pub(super) fn ladder(
    points: &[Point],
    op: &Op,
    largest: f64,
    (statistic, times, seed): (Statistic, u32, u64),
) -> Option<Ladder> {
    let own = points.iter().filter(|p| p.op == *op && p.size.0 as f64 <= largest && !p.lost);
    let entries: Vec<Entry> = own
        .map(|p| Entry {
            path: Path {
                messages: vec![Sent { count: 1, bytes: p.size.into(), both_ways: false }],
                reduced: Volume(0.0),
                kind: Kind::OneWay,
                in_turns: false,
                tree: None,
            },
            time: p.time(statistic).0,
            weight: 1.0,
            group: 0,
            point: 0,
        })
        .collect();
    if entries.len() < LEAST {
        return None;
    }
    let plain =
        Basis { knots: Vec::new(), prior: None, bucket: None, exchange: Exchange::AS_ONE_WAY };
    let basis = Basis { knots: knots::search(&entries, &plain).best, ..plain };
    let design = Design::new(&basis, &entries);
    let every: Vec<usize> = (0..entries.len()).collect();
    let x = design.fit_jointly(&every);
    let mut fits = Vec::new();
    draws(&[every], times, &mut Random::new(seed), |drawn| fits.push(design.fit_jointly(drawn)));
    let estimate = |i: usize| Estimate::of(x[i], fits.iter().map(|f| f[i]).collect());
    Some(Ladder {
        start: estimate(0).map(Seconds),
        slopes: slopes(&basis.knots, |j| estimate(1 + j)),
        count: entries.len(),
    })
}

/// The slopes between knots.
pub(super) fn slopes(knots: &[f64], each: impl Fn(usize) -> Estimate<f64>) -> Vec<Slope> {
    let bytes = |at: f64| Bytes(at.round() as u64);
    (0..=knots.len())
        .map(|j| Slope {
            from: bytes(if j == 0 { 0.0 } else { knots[j - 1] }),
            to: knots.get(j).map(|&at| bytes(at)),
            each: each(j).map(SecondsPerByte),
        })
        .collect()
}
