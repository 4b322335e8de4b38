//! One operation with one size: what is known about it, and how much is still to be measured.

use std::collections::BTreeSet;

use super::plan::Plan;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::base::stats::{half_width, median, quantile};
use crate::machine::link::Link;
use crate::machine::sample::{self, Block, LEAST_QUIET, Op};
use crate::measure::fit::{Kind, Path};
use crate::model::algorithm::Registry;

/// After this many runs a point is finished, whatever their spread.
const MOST_RUNS: usize = 600;
/// Runs that a point needs to be finished.
const LEAST_RUNS: usize = 20;
/// Runs that a point with long runs needs.
const LEAST_LONG: usize = 6;
/// From this many blocks on, their medians tell how precisely the median is known.
const LEAST_BLOCKS: f64 = 6.0;
/// Runs longer than this are long, s.
const LONG: f64 = 10e-3;
/// A block takes at least this long, in s, and half of the time that it takes besides its runs, …
const BLOCK: f64 = 3e-3;
/// … and has at least so many runs, if they are not long …
const BLOCK_RUNS: f64 = 5.0;
/// … and at most so many.
const MOST_BLOCK_RUNS: f64 = 100.0;
/// How many steps of the clock the time between two readings must be.
pub(super) const CLOCK_STEPS: f64 = 50.0;
/// The time of a block besides its runs, before it is known: starting, windows, messages to the ranks.
/// Beside busy processes it is far longer, and so are blocks then.
pub(super) const OVERHEAD: Seconds = Seconds(2e-3);
/// The share that a rank with its own CPU always waits for it.
pub(super) const NEVER: Ratio = Ratio(0.0);
/// A first guess at the rate of copies and additions in memory.
const LOCAL_RATE: f64 = 3e9;

/// A first guess at a machine's parameters, from a few runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// A message without bytes.
    pub alpha: Seconds,
    /// A byte.
    pub beta: SecondsPerByte,
}

/// What is known about an operation with a size.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) op: Op,
    pub(super) size: Bytes,
    path: Path,
    /// Before anything is measured.
    guess: Seconds,
    /// The times of runs that nothing disturbed, sorted.
    quiet: Vec<f64>,
    /// For how long all ranks had a CPU in each, sorted.
    with_cpus: Vec<f64>,
    /// The times of all runs, sorted.
    all: Vec<f64>,
    /// The medians of the blocks, sorted.
    blocks: Vec<f64>,
    /// Half the 95 % interval of the median, over the median; infinite before the first run.
    pub(super) precision: Ratio,
    launches: BTreeSet<u32>,
    /// Whether its result has been compared.
    pub(super) checked: bool,
    /// Whether it is measured at all.
    pub(super) wanted: bool,
}

impl Point {
    pub(super) fn new(registry: &Registry, ranks: u32, op: Op, size: Bytes) -> Result<Self> {
        let path = Path::of(registry, &op, ranks, size.into())?;
        Ok(Self {
            op,
            size,
            path,
            guess: Seconds(0.0),
            quiet: Vec::new(),
            with_cpus: Vec::new(),
            all: Vec::new(),
            blocks: Vec::new(),
            precision: Ratio(f64::INFINITY),
            launches: BTreeSet::new(),
            checked: false,
            wanted: true,
        })
    }

    /// Uses the time that `rates` predict until there is a measured one.
    pub(super) fn expect(&mut self, rates: Rates) {
        self.guess = match self.path.kind {
            Kind::Local => Seconds(self.size.0 as f64 / LOCAL_RATE),
            _ => {
                let link = Link::new(rates.alpha, Bandwidth(1.0 / rates.beta.0));
                link.times().map_or(self.guess, |times| self.path.time(&times))
            }
        };
    }

    /// Adds a block.
    pub(super) fn add(&mut self, block: &Block) {
        // In a block with little waiting, the waiting of single runs does not move the median.
        let quiet = if block.is_disturbed(NEVER) { block.quiet() } else { block.spans() };
        let [quiet, all] = [quiet, block.spans()]
            .map(|spans| spans.into_iter().map(|span| span.0).collect::<Vec<f64>>());
        self.blocks.extend(median(if quiet.is_empty() { all.clone() } else { quiet.clone() }));
        self.quiet.extend(quiet);
        self.all.extend(all);
        self.with_cpus.extend(block.with_cpus().into_iter().map(|time| time.0));
        for times in [&mut self.quiet, &mut self.with_cpus, &mut self.all, &mut self.blocks] {
            times.sort_by(f64::total_cmp);
        }
        self.launches.insert(block.launch);
        self.precision = self.known();
    }

    /// How precisely the median is known. Runs of one block resemble each other more than those of
    /// several, so blocks are compared; with few blocks chance dominates.
    fn known(&self) -> Ratio {
        let Some(median) = self.median().filter(|median| median.0 > 0.0) else {
            return Ratio(f64::INFINITY);
        };
        let spread = half_width(if self.blocks.len() > 1 { &self.blocks } else { self.times() });
        Ratio(spread / median.0 * (LEAST_BLOCKS / self.blocks.len() as f64).max(1.0))
    }

    /// The times that count: those of undisturbed runs, or all if hardly any are undisturbed.
    fn times(&self) -> &[f64] {
        self.undisturbed().unwrap_or(&self.all)
    }

    /// Whether what others did is not in its time.
    pub(super) fn is_known(&self) -> bool {
        self.undisturbed().is_some()
    }

    /// The times of undisturbed runs; if hardly any are, those of long ones without what others took.
    fn undisturbed(&self) -> Option<&[f64]> {
        match (&self.quiet, &self.with_cpus) {
            (quiet, _) if quiet.len() >= LEAST_QUIET => Some(quiet),
            (_, rest) if sample::tell(rest) => Some(rest),
            _ => None,
        }
    }

    pub(super) fn median(&self) -> Option<Seconds> {
        let times = self.times();
        (!times.is_empty()).then(|| Seconds(quantile(times, 0.5)))
    }

    /// The expected time of one run that others leave alone.
    pub(super) fn expected(&self) -> Seconds {
        match self.undisturbed() {
            Some(times) => Seconds(quantile(times, 0.5)),
            // If others took a CPU in nearly all runs, the median is how long they had it.
            None => self.all.first().map_or(self.guess, |&fastest| Seconds(fastest)),
        }
    }

    /// The number of runs that it needs, and the number that is enough whatever their spread.
    fn needed(&self) -> (usize, usize) {
        match self.expected().0 > LONG {
            true => (LEAST_LONG, 3 * LEAST_LONG),
            false => (LEAST_RUNS, MOST_RUNS),
        }
    }

    /// Whether it is known precisely enough, from more than one launch if several are planned.
    pub(super) fn is_finished(&self, plan: &Plan) -> bool {
        let (quiet, all) = (self.quiet.len(), self.count());
        let (least, most) = self.needed();
        // If other processes never rest, more runs do not improve the result.
        let enough = quiet >= least && self.precision.0 <= plan.precision.0 || all >= most;
        enough && self.launches.len() >= plan.launches.min(2) as usize
    }

    /// Whether back-to-back runs take as long as separate ones: each rank waits for others.
    fn is_closed(&self) -> bool {
        self.op == Op::OneWay || matches!(self.path.kind, Kind::Exchange | Kind::Local)
    }

    /// How many runs to put between two readings of a clock with such steps; `None` if the
    /// operation is too short and must not run back to back, since runs would overlap.
    pub(super) fn inner(&self, step: Seconds) -> Option<u32> {
        let least = CLOCK_STEPS * step.0 / self.expected().0.max(1e-9);
        match least {
            l if l <= 1.0 => Some(1),
            l if self.is_closed() => Some((l.ceil().min(1024.0) as u32).next_power_of_two()),
            _ => None,
        }
    }

    /// Warm-up runs, and runs that count, in one block that takes `overhead` besides.
    pub(super) fn runs(&self, overhead: Seconds) -> (u32, u32) {
        let time = self.expected().0.max(1e-9);
        let reps = (BLOCK.max(overhead.0 / 2.0) / time).ceil();
        if time > LONG {
            return (1, reps as u32);
        }
        let warm = (1e-3 / time).ceil().clamp(2.0, 20.0);
        (warm as u32, reps.clamp(BLOCK_RUNS, MOST_BLOCK_RUNS) as u32)
    }

    /// The expected time of one block.
    pub(super) fn cost(&self, overhead: Seconds) -> Seconds {
        let (warm, reps) = self.runs(overhead);
        // The first run is checked; filling and comparing take about as long again.
        let runs = f64::from(warm + reps) + if self.checked { 0.0 } else { 3.0 };
        let each = if self.all.is_empty() { self.guess.0 } else { quantile(&self.all, 0.5) };
        Seconds(overhead.0 + runs * each)
    }

    /// About how many blocks are left.
    pub(super) fn blocks_left(&self, plan: &Plan, overhead: Seconds) -> f64 {
        if !self.wanted || self.is_finished(plan) {
            return 0.0;
        }
        let missing = self.needed().0.saturating_sub(self.quiet.len()).max(1) as f64;
        (missing / f64::from(self.runs(overhead).1)).ceil()
    }

    /// How urgent another block is: the gain falls with the number of existing blocks. Long points,
    /// which determine the time per byte, may use more time than short ones.
    pub(super) fn urgency(&self, plan: &Plan, overhead: Seconds) -> f64 {
        /// A point known no better than this counts as unknown.
        const UNKNOWN: f64 = 25.0;
        let known = (self.precision.0 / plan.precision.0).min(UNKNOWN);
        known / (self.blocks.len().max(1) as f64 * self.cost(overhead).0.sqrt())
    }

    /// How many runs were timed.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }
}
