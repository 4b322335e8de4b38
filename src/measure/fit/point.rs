//! From samples to points: one time for each operation, number of ranks and size.

use std::collections::BTreeMap;

use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::stats::{half_width, median, quantile};
use crate::machine::sample::{Block, Mode, Op, Wait};

/// Which of a point's times is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The median over the blocks that nothing disturbed: what a call takes.
    Typical,
    /// The tenth of all runs that was fastest: what the machine can, whatever else it does.
    Floor,
}

impl Statistic {
    /// The name in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Typical => "typical",
            Self::Floor => "floor",
        }
    }
}

/// A block that waited this much longer for CPUs than the quietest of its point is disturbed.
const DISTURBED: f64 = 0.25;

/// What the samples say about one operation with one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The operation.
    pub op: Op,
    /// N.
    pub ranks: u32,
    /// M.
    pub size: Bytes,
    /// How many runs were timed.
    pub count: usize,
    /// How many blocks.
    pub blocks: usize,
    /// How many of them something disturbed.
    pub disturbed: usize,
    /// The median over undisturbed blocks; over all where fewer than two are.
    pub typical: Seconds,
    /// The tenth quantile of all.
    pub floor: Seconds,
    /// Half the width of the median's 95 % interval, over the median.
    pub precision: Ratio,
    /// Largest minus smallest block median, over the median; none for one block.
    pub spread: Option<Ratio>,
    /// The part of the variance that lies between blocks; none for one block.
    pub icc: Option<Ratio>,
    /// How much the time grew within its blocks, over the median; none for short blocks.
    pub drift: Option<Ratio>,
    /// The part of a rank's time for which it waited for a CPU; none where unknown.
    pub waited: Option<Ratio>,
}

impl Point {
    /// The time that is fitted.
    #[must_use]
    pub fn time(&self, statistic: Statistic) -> Seconds {
        match statistic {
            Statistic::Typical => self.typical,
            Statistic::Floor => self.floor,
        }
    }
}

/// The points of isolated runs, without those of libraries, ordered by operation, ranks and size.
pub(super) fn points(blocks: &[Block], wait: Option<Wait>) -> Vec<Point> {
    let mut groups: BTreeMap<(&Op, u32, Bytes), Vec<&Block>> = BTreeMap::new();
    let of_library = |b: &Block| matches!(b.op, Op::Library(_) | Op::Forced(_));
    let is_fitted = |b: &&Block| b.mode == Mode::Isolated && !of_library(b);
    for block in blocks.iter().filter(is_fitted) {
        groups.entry((&block.op, block.ranks, block.size)).or_default().push(block);
    }
    groups.into_values().filter_map(|blocks| point(&blocks, wait)).collect()
}

fn point(blocks: &[&Block], wait: Option<Wait>) -> Option<Point> {
    let first = blocks.first()?;
    let quietest = blocks.iter().filter_map(|b| b.run_delay()).map(|r| r.0).reduce(f64::min);
    let is_disturbed = |b: &&&Block| {
        let waited = b.run_delay().zip(quietest).is_some_and(|(own, q)| own.0 - q > DISTURBED);
        // Ranks that sleep are switched all the time; a rank that spins should never be.
        let runs = b.samples.len() as u64;
        let switched = wait == Some(Wait::Spin) && b.preempted.is_some_and(|n| n >= runs);
        waited || switched
    };
    let disturbed = blocks.iter().filter(is_disturbed).count();
    let kept: Vec<Vec<f64>> = match blocks.len() - disturbed {
        0 | 1 => blocks.iter().map(|b| sorted(b)).collect(),
        _ => blocks.iter().filter(|b| !is_disturbed(b)).map(|b| sorted(b)).collect(),
    };
    let all = merged(&blocks.iter().map(|b| sorted(b)).collect::<Vec<_>>());
    let undisturbed = merged(&kept);
    let typical = quantile(&undisturbed, 0.5);
    let medians: Vec<f64> = blocks.iter().map(|b| quantile(&sorted(b), 0.5)).collect();
    let several = medians.len() > 1;
    let widest = medians.iter().fold(0.0, |a: f64, &b| a.max(b))
        - medians.iter().fold(f64::INFINITY, |a, &b| a.min(b));
    let drifts: Vec<f64> = blocks.iter().filter_map(|b| drift(b)).collect();
    let ranks = f64::from(first.ranks);
    let waited: Option<Vec<f64>> = blocks.iter().map(|b| b.run_delay().map(|r| r.0)).collect();
    Some(Point {
        op: first.op.clone(),
        ranks: first.ranks,
        size: first.size,
        count: all.len(),
        blocks: blocks.len(),
        disturbed,
        typical: Seconds(typical),
        floor: Seconds(quantile(&all, 0.1)),
        precision: Ratio(half_width(&undisturbed) / typical),
        spread: several.then_some(Ratio(widest / typical)),
        icc: several.then(|| icc(blocks)).flatten(),
        drift: median(drifts).map(Ratio),
        waited: waited.and_then(median).map(|w| Ratio(w / ranks)),
    })
}

fn sorted(block: &Block) -> Vec<f64> {
    let mut spans: Vec<f64> = block.spans().iter().map(|s| s.0).collect();
    spans.sort_by(f64::total_cmp);
    spans
}

fn merged(blocks: &[Vec<f64>]) -> Vec<f64> {
    let mut all = blocks.concat();
    all.sort_by(f64::total_cmp);
    all
}

/// The growth over a block by the Theil–Sen slope, over its median; for at least ten runs.
fn drift(block: &Block) -> Option<f64> {
    const LEAST: usize = 10;
    // All pairs of sixty runs are enough, and few.
    const MOST: usize = 60;
    let times: Vec<f64> = block.samples.iter().map(|s| s.span.0).collect();
    if times.len() < LEAST {
        return None;
    }
    let stride = times.len().div_ceil(MOST);
    let taken: Vec<(f64, f64)> =
        (0..times.len()).step_by(stride).map(|i| (i as f64, times[i])).collect();
    let mut slopes = Vec::new();
    for (i, a) in taken.iter().enumerate() {
        slopes.extend(taken[i + 1..].iter().map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    let slope = median(slopes)?;
    median(times.clone()).map(|middle| slope * times.len() as f64 / middle)
}

/// The intraclass correlation of blocks: what part of the variance lies between them.
fn icc(blocks: &[&Block]) -> Option<Ratio> {
    // Logarithms, so that single runs that took ten times as long do not decide.
    let logs: Vec<Vec<f64>> =
        blocks.iter().map(|b| b.samples.iter().map(|s| s.span.0.ln()).collect()).collect();
    let count: usize = logs.iter().map(Vec::len).sum();
    if count <= logs.len() {
        return None;
    }
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let whole = mean(&logs.concat());
    let between: f64 = logs.iter().map(|b| b.len() as f64 * (mean(b) - whole).powi(2)).sum::<f64>()
        / (logs.len() - 1) as f64;
    let within: f64 =
        logs.iter().map(|b| b.iter().map(|x| (x - mean(b)).powi(2)).sum::<f64>()).sum::<f64>()
            / (count - logs.len()) as f64;
    let each = count as f64 / logs.len() as f64;
    let whole = between + (each - 1.0) * within;
    (whole > 0.0).then(|| Ratio(((between - within) / whole).max(0.0)))
}
