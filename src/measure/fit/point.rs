//! From samples to points: one time for each operation, number of ranks and size.

use std::collections::BTreeMap;

use super::stretches::STRETCHES;
use crate::base::order::sorted;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::stats::{half_width, median, quantile};
use crate::base::words::words;
use crate::machine::sample::{self, Block, LEAST_QUIET, Mode, Op, Origin, Sample, Wait};

words! {
    /// Which of a point's times is fitted.
    #[derive(serde::Deserialize)]
    pub enum Statistic {
        /// The median over undisturbed runs: a typical call.
        Typical = "typical",
        /// The fastest tenth of all runs: what the machine can do, whatever else runs on it.
        Floor = "floor",
    }
}

/// Ranks that wait in half of all blocks for this part of the usual run share their CPUs.
const SHARED: f64 = 0.1;

/// In seconds; longer runs over a network are far longer than time slices of processes.
const LONG: f64 = 10e-3;

/// Ranks do not always lose their CPUs at once, so what is left of a run without the longest wait is its
/// time or more. Beside one, two and four busy processes the first quartile was within 2 % of the median of
/// undisturbed runs, where both were known, and the median 3 to 5 % above it.
const LOWER: f64 = 0.25;

/// A fit needs four points that latency decides and four that bytes decide.
const LEAST_FITTED: usize = 8;

/// The samples of one operation at one size.
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
    /// How many of them were disturbed.
    pub disturbed: usize,
    /// The median over undisturbed runs, or over all if hardly any are undisturbed.
    pub typical: Seconds,
    /// The median in each stretch of time relative to that, by the stretch's index; empty if it was
    /// measured in only one.
    pub by_stretch: Vec<(u32, Ratio)>,
    /// Whether hardly any run was undisturbed though ranks have their own CPUs: its times then show only
    /// how long other processes' time slices are.
    pub lost: bool,
    /// The tenth quantile of all.
    pub floor: Seconds,
    /// Half the width of the median's 95 % interval, over the median.
    pub precision: Ratio,
    /// Largest minus smallest block median, over the median; `None` for one block.
    pub spread: Option<Ratio>,
    /// The part of the variance that is between blocks; `None` for one block.
    pub icc: Option<Ratio>,
    /// How much the time grew within its blocks, over the median; `None` for short blocks.
    pub drift: Option<Ratio>,
    /// The part of a rank's time that it waited for a CPU; `None` if unknown.
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

/// A block with the stretch of time in which it was measured.
type Placed<'a> = (u32, &'a Block);

/// Whether a block is of isolated runs, and not of a library's own.
pub(crate) fn is_fitted(block: &Block) -> bool {
    block.mode == Mode::Isolated && !matches!(block.op, Op::Library(_) | Op::Forced(_))
}

/// The points of isolated runs, without those of libraries, ordered by operation, ranks and size.
pub(super) fn points(blocks: &[Block], origin: &Origin) -> Vec<Point> {
    let mut groups: BTreeMap<(&Op, u32, Bytes), Vec<Placed<'_>>> = BTreeMap::new();
    let count = blocks.iter().filter(|b| is_fitted(b)).count();
    for (at, block) in blocks.iter().filter(|b| is_fitted(b)).enumerate() {
        let stretch = (at * STRETCHES / count) as u32;
        groups.entry((&block.op, block.ranks, block.size)).or_default().push((stretch, block));
    }
    let all = |own: bool| -> Vec<Point> {
        groups.values().filter_map(|blocks| point(blocks, origin, own)).collect()
    };
    if !has_own_cpus(groups.values().flatten().map(|(_, block)| *block)) {
        return all(false);
    }
    // If quiet runs are too few to fit anything, disturbed ones are better than none.
    let points = all(true);
    let sent = points.iter().filter(|p| p.op.moves_data() && !p.lost);
    if sent.count() < LEAST_FITTED { all(false) } else { points }
}

/// Whether ranks have their own CPUs: then other processes cause the waiting. If ranks share CPUs,
/// waiting is part of a call's time.
fn has_own_cpus<'a>(blocks: impl Iterator<Item = &'a Block>) -> bool {
    let usual = |block: &Block| {
        let part = |s: &Sample| s.run_delay.map(|delay| delay.0 / s.span.0);
        median(block.samples.iter().filter_map(part).collect())
    };
    median(blocks.filter_map(usual).collect()).is_some_and(|waited| waited < SHARED)
}

fn point(placed: &[Placed<'_>], origin: &Origin, own_cpus: bool) -> Option<Point> {
    let blocks: Vec<&Block> = placed.iter().map(|(_, block)| *block).collect();
    let first = blocks.first()?;
    let quietest = blocks.iter().filter_map(|b| b.run_delay()).map(|r| r.0).reduce(f64::min);
    let is_disturbed = |b: &&&Block| {
        let waited = b.is_disturbed(Ratio(quietest.unwrap_or(0.0)));
        // Ranks that sleep are often switched out; a rank that spins should never be.
        let runs = b.samples.len() as u64;
        let switched = origin.wait == Some(Wait::Spin) && b.preempted.is_some_and(|n| n >= runs);
        waited || switched
    };
    let disturbed = blocks.iter().filter(is_disturbed).count();
    let all = merged(blocks.iter().map(|b| b.spans()));
    let quiet = match own_cpus {
        true => merged(blocks.iter().map(|b| b.quiet())),
        false => merged(blocks.iter().filter(|b| !is_disturbed(b)).map(|b| b.spans())),
    };
    // A link with a queue of its own goes on while a rank waits for a CPU.
    let goes_on = !origin.is_in_memory() && quantile(&all, 0.5) > LONG;
    let few = own_cpus && !goes_on && quiet.len() < LEAST_QUIET.min(all.len());
    let with_cpus = few.then(|| merged(blocks.iter().map(|b| b.with_cpus())));
    let with_cpus = with_cpus.filter(|times| sample::tell(times));
    let lost = few && with_cpus.is_none();
    let enough = quiet.len() >= LEAST_QUIET && (own_cpus || blocks.len() - disturbed > 1);
    let floor = quantile(with_cpus.as_ref().unwrap_or(&all), 0.1);
    let middle = if with_cpus.is_some() { LOWER } else { 0.5 };
    let undisturbed = with_cpus.unwrap_or_else(|| if enough { quiet } else { all.clone() });
    let typical = quantile(&undisturbed, middle);
    let medians: Vec<f64> = blocks.iter().map(|b| quantile(&merged([b.spans()]), 0.5)).collect();
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
        by_stretch: by_stretch(placed, own_cpus, typical),
        lost,
        floor: Seconds(floor),
        precision: Ratio(half_width(&undisturbed) / typical),
        spread: several.then_some(Ratio(widest / typical)),
        icc: several.then(|| icc(&blocks)).flatten(),
        drift: median(drifts).map(Ratio),
        waited: waited.and_then(median).map(|w| Ratio(w / ranks)),
    })
}

fn by_stretch(blocks: &[Placed<'_>], own_cpus: bool, typical: f64) -> Vec<(u32, Ratio)> {
    let mut stretches: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (stretch, block) in blocks {
        let spans = if own_cpus { block.quiet() } else { block.spans() };
        stretches.entry(*stretch).or_default().extend(spans.iter().map(|span| span.0));
    }
    if stretches.len() < 2 {
        return Vec::new();
    }
    let part = |(stretch, times)| Some((stretch, Ratio(median(times)? / typical)));
    stretches.into_iter().filter_map(part).collect()
}

/// All of them, sorted.
fn merged(spans: impl IntoIterator<Item = Vec<Seconds>>) -> Vec<f64> {
    sorted(spans.into_iter().flatten().map(|s| s.0))
}

/// The growth over a block by the Theil–Sen slope, over its median; for at least ten runs.
fn drift(block: &Block) -> Option<f64> {
    const LEAST: usize = 10;
    // All pairs of sixty runs are enough, and cheap.
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

/// The intraclass correlation of blocks: the part of the variance that is between them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::sample::Clock;

    /// A block of runs, each with its time and how long of it its ranks had no CPU, in µs.
    fn block(size: u64, runs: &[(f64, f64)]) -> Block {
        let micro = |us: f64| Seconds(us * 1e-6);
        let sample = |&(span, waited): &(f64, f64)| Sample {
            span: micro(span),
            late: false,
            run_delay: Some(micro(waited)),
            with_cpus: None,
        };
        Block {
            op: Op::OneWay,
            ranks: 2,
            nodes: None,
            size: Bytes(size),
            launch: 0,
            block: 0,
            mode: Mode::Isolated,
            inner: 1,
            preempted: None,
            clock: Clock::default(),
            chose: None,
            samples: runs.iter().map(sample).collect(),
        }
    }

    fn over(transport: &str) -> Origin {
        let transport = Some(transport.to_owned());
        Origin { wait: Some(Wait::Poll), transport, ..Origin::default() }
    }

    fn typical(points: &[Point], size: u64) -> (f64, bool) {
        let point = points.iter().find(|p| p.size == Bytes(size)).unwrap();
        ((point.typical.0 * 1e6).round(), point.lost)
    }

    #[test]
    fn runs_that_lost_a_cpu_to_others_do_not_count() {
        let quiet = [(5.0, 0.0), (5.0, 1.0), (6.0, 0.0)];
        let some = [(200.0, 0.0), (210.0, 0.0), (3200.0, 2900.0), (3300.0, 3000.0), (190.0, 9.0)];
        let most = [(3200.0, 2900.0), (400.0, 0.0), (3300.0, 3000.0), (3500.0, 3100.0)];
        let small = (3..10).map(|bits| block(1 << bits, &quiet));
        let large = [block(1 << 20, &some), block(1 << 23, &most)];
        let blocks: Vec<Block> = small.chain(large).collect();
        let own = points(&blocks, &over("shm"));
        assert_eq!(typical(&own, 1 << 20), (200.0, false));
        assert_eq!(typical(&own, 1 << 23), (3250.0, true));
        assert_eq!(typical(&points(&blocks, &over("tcp")), 1 << 23), (3250.0, true));
    }

    #[test]
    fn long_runs_are_known_without_what_others_took() {
        let quiet = [(5.0, 0.0), (5.0, 1.0), (6.0, 0.0)];
        let lost = |size, runs: &[(f64, f64)]| {
            let mut block = block(size, runs);
            for sample in &mut block.samples {
                // Both ranks lost their CPUs at once, each for half of the sum.
                let waited = sample.run_delay.unwrap();
                sample.with_cpus = Some(sample.span - waited * Ratio(0.5));
            }
            block
        };
        let long = [(15300.0, 15900.0), (51300.0, 51500.0), (15600.0, 16000.0), (11300.0, 7900.0)];
        let short = [(4200.0, 7900.0), (4300.0, 8000.0), (4100.0, 7800.0)];
        let small = (3..10).map(|bits| block(1 << bits, &quiet));
        let all = [lost(1 << 20, &short), lost(1 << 26, &long)];
        let points = points(&small.chain(all).collect::<Vec<_>>(), &over("shm"));
        assert_eq!(typical(&points, 1 << 26), (7350.0, false));
        // Getting a CPU back takes a part of what is left of these.
        assert_eq!(typical(&points, 1 << 20), (4200.0, true));
    }

    #[test]
    fn a_network_goes_on_while_ranks_wait() {
        let quiet = [(5.0, 0.0), (5.0, 0.1), (6.0, 0.0)];
        let small = (3..13).map(|bits| block(1 << bits, &quiet));
        let blocks: Vec<Block> = small.chain([block(1 << 20, &[(166e3, 72e3)])]).collect();
        assert_eq!(typical(&points(&blocks, &over("tcp")), 1 << 20), (166e3, false));
        assert_eq!(typical(&points(&blocks, &over("shm")), 1 << 20), (166e3, true));
    }

    #[test]
    fn points_are_not_left_out_if_too_few_would_stay() {
        let quiet = [(5.0, 0.0), (5.0, 0.1), (6.0, 0.0)];
        let most = [(3200.0, 2900.0), (400.0, 0.0), (3300.0, 3000.0), (3500.0, 3100.0)];
        let of = |op: Op, block: Block| Block { op, ..block };
        let local = (3..10).map(|bits| of(Op::Copy, block(1 << bits, &quiet)));
        let sent = [block(8, &quiet), block(1 << 20, &most), block(1 << 23, &most)];
        let points = points(&local.chain(sent).collect::<Vec<_>>(), &over("shm"));
        assert_eq!(points.iter().filter(|p| p.lost).count(), 0);
        let large = points.iter().find(|p| p.size == Bytes(1 << 20)).unwrap();
        assert_eq!((large.typical.0 * 1e6).round(), 3250.0);
    }

    #[test]
    fn waiting_for_shared_cpus_is_a_part_of_the_call() {
        let shared = [(50.0, 20.0), (60.0, 30.0), (55.0, 25.0)];
        let large = [(3200.0, 2000.0), (400.0, 0.0), (3300.0, 2100.0), (410.0, 0.0), (420.0, 0.0)];
        let blocks = [block(8, &shared), block(16, &shared), block(1 << 20, &large)];
        let points = points(&blocks, &over("shm"));
        assert_eq!(typical(&points, 1 << 20), (420.0, false));
    }
}
