//! The measuring loop: block after block, each saved as soon as it is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::bucket::{self, Care};
use super::links;
use super::plan::{BLOCKS, Plan};
use super::point::{NEVER, OVERHEAD, Point, Rates};
use super::refine::{Known, between};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::base::random::Random;
use crate::machine::link::Bucket;
use crate::machine::sample::{Block, Clock, LaunchRecord, Mode, Op, Record, Samples};
use crate::measure::fit::{Asked, DISTURBED, Gate, Verdict, fit};
use crate::model::algorithm::Registry;
use crate::run::execute::{self, Check, Runner, Start};

/// Ranks that are ready to run.
pub struct Launch {
    /// The runner that times them; they end with it.
    pub runner: Box<dyn Runner>,
    /// Their record; its number is set here.
    pub record: LaunchRecord,
    /// How their runs start.
    pub start: Start,
}

/// What measuring needs from its environment: processes, a file, a progress display.
pub trait Outside {
    /// Restarts the ranks.
    ///
    /// # Errors
    /// The machine refuses.
    fn launch(&mut self) -> Result<Launch>;

    /// Saves a record, so that no later failure can lose it.
    ///
    /// # Errors
    /// It cannot be saved.
    fn keep(&mut self, record: &Record) -> Result<()>;

    /// The name of a rank, with its host where that is known.
    fn name(&self, rank: u32) -> String {
        format!("rank {rank}")
    }

    /// Reports the progress, after each block.
    fn show(&mut self, progress: &Progress);
}

/// The progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Points known precisely enough.
    pub finished: usize,
    /// All points.
    pub points: usize,
    /// The remaining time, about; absent while too little is known.
    pub left: Option<Duration>,
    /// The least precisely known point of those measured.
    pub worst: Option<Worst>,
    /// The share of blocks in which a rank waited for a CPU for more than a quarter of the time.
    pub disturbed: Ratio,
}

/// The least precisely known point.
#[derive(Debug, Clone, PartialEq)]
pub struct Worst {
    /// The operation.
    pub op: Op,
    /// Its size.
    pub size: Bytes,
    /// Half the 95 % interval of its median, over the median.
    pub precision: Ratio,
}

/// The part of the time spent looking for a token bucket.
pub(super) const LOOK: f64 = 0.05;
/// So many messages of sizes of their own show the rate of a link behind a token bucket.
const SETTLED: u64 = 4;
/// How many bursts large each is, at least, and the part of the time that all may take then. The
/// bucket is emptied right before each; the larger a message, the less it matters what fills again
/// meanwhile.
const BURSTS: [(u64, f64); 3] = [(64, 0.5), (32, 0.5), (Bucket::LEAST, 0.8)];
/// The part of the time at the end that they leave to the other points, though these come late.
const REST: f64 = 0.1;
/// What a stream may miss the messages' times show, and only large exchanges show the rate then. They
/// are measured over every network, for a bucket of up to [`Bucket::UNSEEN`], as far as this part of the
/// time is enough …
const UNSEEN_PART: f64 = 0.15;
/// … for so many runs of each: the first run of a block is compared with what it should give, which
/// takes three times as long, and another empties the bucket before one is timed.
const UNSEEN_RUNS: u64 = 5;

/// How often a first guess is made, if others took CPUs in each of its runs.
const PROBES: u32 = 8;

/// The time that blocks take besides their runs is the mean of about so many.
const OF_BLOCKS: f64 = 16.0;

/// Points that are weak at the end of the budget are measured further, this long at a time.
const MORE: Duration = Duration::from_secs(8);

/// Measures the part of `plan` that `before` lacks, then the least precisely known points until
/// they are known or the time is up. Returns all samples together.
///
/// # Errors
/// Errors of [`Outside`] and its runner; everything measured before was saved.
pub fn measure(
    registry: &Registry,
    plan: &Plan,
    clock_step: Seconds,
    before: Samples,
    outside: &mut dyn Outside,
) -> Result<Samples> {
    let mut work = Work::new(registry, plan, clock_step, before)?;
    for pass in 0..plan.launches {
        if work.time_is_up() {
            break;
        }
        let share = f64::from(pass + 1) / f64::from(plan.launches.max(1));
        // Everything else builds on the first pass.
        let share = if pass == 0 { share.max(0.6) } else { share };
        work.pass(pass, work.began + plan.budget.mul_f64(share.min(1.0)), outside)?;
    }
    let mut pass = plan.launches;
    while plan.longest > plan.budget && is_weak(registry, &work.samples) {
        let left = plan.longest.saturating_sub(work.began.elapsed());
        if left < MORE / 2 {
            break;
        }
        let before = work.done.len();
        work.goes_on = true;
        work.pass(pass, Instant::now() + left.min(MORE), outside)?;
        pass += 1;
        // No point is open: another start would not find any either.
        if work.done.len() == before {
            break;
        }
    }
    Ok(work.samples)
}

/// Whether more measurements of the same points would improve the result.
fn is_weak(registry: &Registry, samples: &Samples) -> bool {
    // Intervals from a few draws are good enough for this decision.
    let asked = Asked { draws: 60, ..Asked::default() };
    let weak = |gate: &Gate| gate.verdict != Verdict::Good && gate.yields_to_time();
    fit(registry, samples, &asked).map_or(true, |fitted| fitted.gates.iter().any(weak))
}

/// Whether the stream was far slower than the messages.
fn is_contradicted(registry: &Registry, samples: &Samples) -> bool {
    let asked = Asked { draws: 1, ..Asked::default() };
    samples.stream.is_some()
        && fit(registry, samples, &asked)
            .is_ok_and(|fitted| fitted.gates.iter().any(|gate| gate.name == "stream"))
}

struct Work<'a> {
    registry: &'a Registry,
    plan: &'a Plan,
    clock_step: Seconds,
    began: Instant,
    /// Operations × sizes of the plan, then those that were inserted.
    points: Vec<Point>,
    /// How many of them are the plan's.
    planned: usize,
    /// Those that show the rate of a link behind a token bucket.
    settled: Vec<usize>,
    rates: Option<Rates>,
    /// How a token bucket is handled; absent if none was found, or not yet looked for.
    care: Option<Care>,
    samples: Samples,
    /// The numbers of existing blocks.
    done: BTreeSet<u32>,
    launch: u32,
    /// The time of a block besides its runs, in the mean of the last ones.
    overhead: Seconds,
    disturbed: usize,
    /// Whether there are earlier measurements.
    goes_on: bool,
}

impl<'a> Work<'a> {
    fn new(
        registry: &'a Registry,
        plan: &'a Plan,
        clock_step: Seconds,
        before: Samples,
    ) -> Result<Self> {
        let point = |op: &Op, size| Point::new(registry, plan.ranks, op.clone(), size);
        let grid = plan.ops.iter().flat_map(|op| plan.sizes.iter().map(move |size| (op, *size)));
        let mut points = grid.map(|(op, size)| point(op, size)).collect::<Result<Vec<_>>>()?;
        let planned = points.len();
        for block in &before.blocks {
            let found = points.iter().position(|p| p.op == block.op && p.size == block.size);
            let index = match found {
                Some(index) => index,
                None => {
                    points.push(point(&block.op, block.size)?);
                    points.len() - 1
                }
            };
            points[index].add(block);
        }
        Ok(Self {
            registry,
            plan,
            clock_step,
            began: Instant::now(),
            points,
            planned,
            settled: Vec::new(),
            rates: None,
            care: before.bucket.map(|bucket| Care { bucket }),
            done: before.blocks.iter().map(|b| b.block).collect(),
            launch: before.launches(),
            overhead: OVERHEAD,
            goes_on: !before.blocks.is_empty(),
            samples: before,
            disturbed: 0,
        })
    }

    /// One start of the processes, and everything measured on them; beyond the planned starts only
    /// the least precisely known points.
    fn pass(&mut self, pass: u32, until: Instant, outside: &mut dyn Outside) -> Result<()> {
        let Launch { mut runner, record, start } = outside.launch()?;
        let launch = self.launch;
        let looked = self.look(pass, (&mut *runner, start), &*outside);
        let (bucket, stream) = (self.samples.bucket, self.samples.stream);
        let slow = self.samples.slow.clone();
        outside.keep(&Record::Launch(LaunchRecord { launch, bucket, stream, slow, ..record }))?;
        self.launch += 1;
        let turn = Turn { launch, start, until, runner: &mut *runner, outside };
        let done = looked.and_then(|()| self.blocks(pass, turn));
        match &done {
            Ok(()) => outside.keep(&Record::End { launch })?,
            // The first error is more informative than a failure to save this one.
            Err(error) => {
                let _ = outside.keep(&Record::Abort { launch, reason: error.what().to_owned() });
            }
        }
        done
    }

    /// Looks for conditions that blocks must respect: a token bucket, and slow links.
    fn look(
        &mut self,
        pass: u32,
        (runner, start): (&mut dyn Runner, Start),
        outside: &dyn Outside,
    ) -> Result<()> {
        // This comes first, while the bucket is full: no rank has sent anything yet.
        let known = self.care.is_some() || self.samples.stream.is_some();
        if pass == 0 && self.plan.wire && self.plan.ranks > 1 && !known {
            let found = bucket::find(runner, start, self.plan.budget.mul_f64(LOOK))?;
            self.care = found.bucket.map(|bucket| Care { bucket });
            (self.samples.bucket, self.samples.stream) = (found.bucket, found.rate);
        } else if self.plan.wire
            && self.care.is_none()
            && is_contradicted(self.registry, &self.samples)
        {
            // A bucket's rate is the same at another time; that of a machine of two states is not.
            let again = bucket::find(runner, start, self.plan.budget.mul_f64(LOOK))?.rate;
            let faster = self.samples.stream.into_iter().chain(again);
            self.samples.stream = faster.max_by(|a, b| a.0.total_cmp(&b.0));
        }
        if pass == 0 && self.plan.wire && self.samples.slow.is_empty() {
            let rates = self.guess(runner, start)?;
            // A bucket requires larger messages.
            let part = if self.care.is_some() { 2.0 * LOOK } else { LOOK };
            let most = self.plan.budget.mul_f64(part);
            let found = links::slow(runner, start, (rates, self.samples.bucket), most)?;
            let name = |rank: u32| outside.name(rank);
            self.samples.slow = found.iter().map(|slow| slow.words(&name)).collect();
        }
        Ok(())
    }

    fn blocks(&mut self, pass: u32, mut turn: Turn<'_>) -> Result<()> {
        let rates = match self.rates {
            Some(rates) => rates,
            None => self.guess(turn.runner, turn.start)?,
        };
        self.drain(turn.runner, turn.start, rates)?;
        // These come first, also where they take more than a launch's part of the time.
        let rest = self.plan.budget.mul_f64(REST);
        let until = turn.until;
        turn.until = until.max(self.began + self.plan.budget.saturating_sub(rest));
        for index in self.settled.clone() {
            let point = &self.points[index];
            if point.count() == 0 || !self.plan.wire && !point.is_known() {
                self.extra(index, &mut turn)?;
            }
        }
        turn.until = until.max((Instant::now() + rest).min(self.began + self.plan.budget));
        for (index, number) in self.order(pass) {
            // Times differ between launches, so each launch measures one block of every point.
            let first = number % BLOCKS == 0;
            if first || !self.points[index].is_finished(self.plan) {
                self.block(index, number, &mut turn)?;
            }
        }
        let known = self.planned + self.settled.iter().filter(|&&at| at >= self.planned).count();
        if pass == 0 && self.points.len() == known {
            self.insert()?;
            for index in known..self.points.len() {
                for _ in 0..BLOCKS {
                    self.extra(index, &mut turn)?;
                }
            }
        } else {
            while let Some(index) = self.most_urgent(&turn) {
                if !self.extra(index, &mut turn)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Guesses α and β from exchanges, and from them the time of each point.
    fn guess(&mut self, runner: &mut dyn Runner, start: Start) -> Result<Rates> {
        let probe = |runner: &mut dyn Runner, size, reps| {
            let block = execute::Block { warm: 2, reps, start, ..execute::Block::default() };
            // The fastest: with other processes running the median may be a hundred times as long,
            // and a plan based on it would leave everything out. Points that are too slow show
            // block by block.
            let mut fastest = f64::INFINITY;
            for _ in 0..PROBES {
                let mut timed = runner.time(&Op::Shift, Bytes(size), &block)?;
                if timed.samples.is_empty() {
                    // Too short for the uncertainty of the hosts' clocks; there and back uses one
                    // clock.
                    timed = runner.time(&Op::OneWay, Bytes(size), &block)?;
                }
                fastest = timed.samples.iter().map(|s| s.span.0).fold(fastest, f64::min);
                if timed.samples.iter().any(|s| s.is_quiet(1)) {
                    break;
                }
            }
            let known = fastest.is_finite().then_some(Seconds(fastest));
            known.ok_or_else(|| Error::lost("a probe gave no time"))
        };
        // One rank has no partner to exchange with: only local work is measured.
        let rates = match self.plan.ranks {
            0 | 1 => Rates { alpha: Seconds(0.0), beta: SecondsPerByte(0.0) },
            _ => {
                let alpha = probe(runner, 8, 15)?;
                if let Some(Care { bucket }) = self.care {
                    let beta = SecondsPerByte(1.0 / bucket.rate.0);
                    return self.expect(Rates { alpha, beta });
                }
                let mut size = 16 << 10;
                let mut time = probe(runner, size, 5)?;
                while time.0 < (4.0 * alpha.0).max(2e-3) && size < 4 << 20 {
                    size *= 4;
                    time = probe(runner, size, 3)?;
                }
                let beta = (time.0 - alpha.0).max(time.0 * 0.1) / size as f64;
                Rates { alpha, beta: SecondsPerByte(beta) }
            }
        };
        self.expect(rates)
    }

    /// What each point will take at these rates, and which are measured.
    fn expect(&mut self, rates: Rates) -> Result<Rates> {
        self.rates = Some(rates);
        self.settle()?;
        for point in &mut self.points {
            point.expect(rates);
        }
        self.limit();
        Ok(rates)
    }

    /// Leaves out what takes so long that the time would not be enough for the rest, though it were all
    /// of it: where the budget is enough, a part of the blocks is, and the largest sizes are there.
    fn limit(&mut self) {
        /// The part of the time that the plan may fill; the rest is a reserve for slower points.
        const PART: f64 = 0.6;
        const LONGEST: f64 = 0.3;
        let blocks = f64::from(self.plan.launches * BLOCKS);
        let dear = self.settled.iter().map(|&at| self.cost(at));
        let room = PART * self.plan.longest.as_secs_f64() - dear.sum::<f64>();
        let mut longest = LONGEST;
        // What the guess takes as a start-up time may be the time slice of another process. Without
        // points dominated by bytes there is no rate; the end of the time limits the rest.
        let least = self.rates.map_or(0.0, |rates| 10.0 * rates.alpha.0).max(1e-4);
        loop {
            for (at, point) in self.points.iter_mut().enumerate() {
                let hidden =
                    point.op.moves_data() && self.care.is_some_and(|care| care.hides(point.size));
                let short = point.expected().0 <= longest && !hidden || point.count() > 0;
                let wanted = short || self.settled.contains(&at);
                point.wanted = wanted && point.inner(self.clock_step).is_some();
            }
            let wanted = (0..self.points.len()).filter(|&at| self.points[at].wanted);
            let others = wanted.filter(|at| !self.settled.contains(at));
            let all: f64 = others.map(|at| blocks * self.cost(at)).sum();
            if all <= room.max(0.0) || longest < least {
                return;
            }
            longest *= 0.7;
        }
    }

    /// Exchanges that show the rate, if there is time for all of them: with a token bucket, and over a
    /// network, which may hide one, of sizes near each other; in memory, of the largest.
    fn settle(&mut self) -> Result<()> {
        if !self.settled.is_empty() {
            return Ok(());
        }
        let sizes = match self.care {
            Some(care) => settling(care, self.plan.longest),
            None if self.plan.wire && self.plan.ranks > 1 => {
                self.samples.stream.and_then(|rate| unseen(rate, self.plan.longest))
            }
            None if !self.plan.wire => self.rates.and_then(|rates| self.largest(rates)),
            None => None,
        };
        for size in sizes.into_iter().flatten() {
            let at = self.points.iter().position(|p| p.op == Op::Shift && p.size == size);
            if at.is_none() {
                self.points.push(Point::new(self.registry, self.plan.ranks, Op::Shift, size)?);
            }
            self.settled.push(at.unwrap_or(self.points.len() - 1));
        }
        Ok(())
    }

    /// The largest sizes of the plan, if a part of the time is enough for them.
    fn largest(&self, rates: Rates) -> Option<Vec<Bytes>> {
        let most = UNSEEN_PART * self.plan.longest.as_secs_f64() / UNSEEN_RUNS as f64;
        let takes = |size: &Bytes| size.0 as f64 * rates.beta.0;
        let mut sizes = self.plan.sizes.windows(SETTLED as usize).rev();
        let fits = sizes.find(|sizes| sizes.iter().map(takes).sum::<f64>() <= most);
        fits.map(<[Bytes]>::to_vec)
    }

    /// The time to empty the bucket before a block of a point, s.
    fn emptied(&self, at: usize) -> f64 {
        let point = &self.points[at];
        let care = self.care.filter(|care| point.op.moves_data() && care.empties(point.size));
        care.map_or(0.0, Care::cost)
    }

    /// The time of a block of a point besides its runs. Where a bucket is emptied first, a block is as short
    /// as if nothing else took time.
    fn besides(&self, at: usize) -> Seconds {
        if self.emptied(at) > 0.0 { OVERHEAD } else { self.overhead }
    }

    /// The time of a block of a point, s.
    fn cost(&self, at: usize) -> f64 {
        let point = &self.points[at];
        // What shows the rate is run once and not compared: others of its kind are.
        let once = self.care.is_some() && self.settled.contains(&at);
        let runs = if once { point.expected() } else { point.cost(self.besides(at)) };
        runs.0 + self.emptied(at)
    }

    /// Keeps the links busy until buckets are empty.
    fn drain(&mut self, runner: &mut dyn Runner, start: Start, rates: Rates) -> Result<()> {
        const PIECE: u64 = 1 << 20;
        if self.plan.ranks < 2 {
            return Ok(());
        }
        let each = rates.alpha.0 + rates.beta.0 * PIECE as f64;
        let runs = (self.plan.drain.0 / each).ceil().clamp(1.0, 1e6);
        // Each recorded time goes over the control channel.
        let inner = (runs / 1e3).ceil() as u32;
        let reps = (runs / f64::from(inner)).ceil() as u32;
        let block = execute::Block { warm: 0, reps, inner, start, ..execute::Block::default() };
        runner.time(&Op::Shift, Bytes(PIECE), &block).map(drop)
    }

    /// The blocks of a pass not yet measured, with their numbers, in shuffled order.
    fn order(&self, pass: u32) -> Vec<(usize, u32)> {
        if pass >= self.plan.launches {
            return Vec::new();
        }
        let grid = self.planned as u32;
        let numbered = |index: usize| {
            (0..BLOCKS).map(move |k| (index, (pass * grid + index as u32) * BLOCKS + k))
        };
        let mut blocks: Vec<(usize, u32)> = (0..self.planned).flat_map(numbered).collect();
        // All of them are shuffled, so the remaining ones keep the order they would have had.
        Random::new(self.plan.seed.wrapping_add(u64::from(pass))).shuffle(&mut blocks);
        blocks.retain(|(_, number)| !self.done.contains(number));
        blocks
    }

    /// A block beyond the plan: of an inserted size, or of the least precisely known point.
    fn extra(&mut self, index: usize, turn: &mut Turn<'_>) -> Result<bool> {
        let first = self.plan.launches * self.planned as u32 * BLOCKS;
        let next = self.done.last().map_or(first, |last| (last + 1).max(first));
        self.block(index, next, turn)
    }

    /// Measures one block, if it is wanted and there is time; returns whether it did.
    fn block(&mut self, index: usize, number: u32, turn: &mut Turn<'_>) -> Result<bool> {
        let (emptied, settled) = (self.emptied(index), self.settled.contains(&index));
        let left = turn.until.saturating_duration_since(Instant::now()).as_secs_f64();
        let (cost, besides) = (self.cost(index), self.besides(index));
        let point = &mut self.points[index];
        if !point.wanted || cost > left {
            return Ok(false);
        }
        let Some(inner) = point.inner(self.clock_step) else { return Ok(false) };
        let (mut warm, reps) = point.runs(besides);
        let mut check = if point.checked { Check::Not } else { Check::Once };
        let care = self.care.filter(|_| emptied > 0.0);
        if care.is_some() {
            // More warm-up runs would have the same effect and take longer.
            warm = if settled { 0 } else { 1 };
            if settled {
                check = Check::Not;
            }
        }
        let predicted = Some(point.expected());
        let (start, spill) = (turn.start, care.map_or(Bytes(0), Care::spill));
        let asked = execute::Block { warm, reps, inner, start, check, spill, predicted };
        let began = Instant::now();
        let mut timed = turn.runner.time(&point.op, point.size, &asked)?;
        if emptied == 0.0 {
            let spans: f64 = timed.samples.iter().map(|s| s.span.0 * f64::from(inner)).sum();
            let runs = spans * f64::from(warm + reps) / f64::from(reps);
            let took = (began.elapsed().as_secs_f64() - runs).max(0.0);
            self.overhead.0 += (took - self.overhead.0) / OF_BLOCKS;
        }
        if self.plan.wire {
            // A network goes on while a rank waits.
            timed.samples.iter_mut().for_each(|sample| sample.with_cpus = None);
        }
        if timed.samples.is_empty() {
            // Too short for the uncertainty of the hosts' clocks.
            point.wanted = false;
            return Ok(true);
        }
        let block = Block {
            op: point.op.clone(),
            ranks: self.plan.ranks,
            size: point.size,
            launch: turn.launch,
            block: number,
            mode: Mode::Isolated,
            inner,
            nodes: None,
            preempted: Some(timed.switches),
            clock: Clock::default(),
            chose: None,
            samples: timed.samples,
        };
        point.checked |= check == Check::Once;
        point.add(&block);
        turn.outside.keep(&Record::Block(block.clone()))?;
        self.done.insert(number);
        self.disturbed += usize::from(block.is_disturbed(NEVER));
        self.samples.blocks.push(block);
        let progress = self.progress();
        turn.outside.show(&progress);
        Ok(true)
    }

    /// Inserts sizes where the time is not linear in the size.
    fn insert(&mut self) -> Result<()> {
        let mut of: BTreeMap<&Op, Vec<Known>> = BTreeMap::new();
        for point in self.points.iter().filter(|p| p.wanted) {
            if let Some(time) = point.median() {
                let (size, precision) = (point.size, point.precision);
                of.entry(&point.op).or_default().push(Known { size, time, precision });
            }
        }
        let mut new: Vec<(Op, Bytes)> = Vec::new();
        for (op, mut known) in of {
            known.sort_by_key(|k| k.size);
            new.extend(between(&known).into_iter().map(|size| (op.clone(), size)));
        }
        for (op, size) in new {
            let mut point = Point::new(self.registry, self.plan.ranks, op, size)?;
            if let Some(rates) = self.rates {
                point.expect(rates);
            }
            point.wanted = point.inner(self.clock_step).is_some();
            self.points.push(point);
        }
        Ok(())
    }

    fn urgency(&self, at: usize) -> f64 {
        self.points[at].urgency(self.plan, self.besides(at))
    }

    /// The point that most needs another block, among those for which there is time.
    fn most_urgent(&self, turn: &Turn<'_>) -> Option<usize> {
        let left = turn.until.saturating_duration_since(Instant::now()).as_secs_f64();
        let open = (0..self.points.len()).filter(|&at| {
            let p = &self.points[at];
            p.wanted
                && !p.is_finished(self.plan)
                && self.cost(at) <= left
                && p.inner(self.clock_step).is_some()
        });
        open.max_by(|a, b| self.urgency(*a).total_cmp(&self.urgency(*b)))
    }

    fn time_is_up(&self) -> bool {
        self.began.elapsed() >= self.plan.budget
    }

    fn progress(&self) -> Progress {
        let wanted = || self.points.iter().filter(|p| p.wanted);
        let finished = wanted().filter(|p| p.is_finished(self.plan)).count();
        let measured = wanted().filter(|p| p.count() > 0).count();
        let points = wanted().count();
        let elapsed = self.began.elapsed();
        let left = |at: usize| {
            let (point, besides) = (&self.points[at], self.besides(at));
            point.blocks_left(self.plan, besides) * point.cost(besides).0
        };
        let left: f64 = (0..self.points.len()).map(left).sum();
        let disturbed = self.disturbed as f64 / self.done.len().max(1) as f64;
        // Points disturbed by other processes stay weak, and points that were weak once mostly stay
        // so.
        let weak = disturbed > DISTURBED || self.goes_on;
        let rest = |end: Duration| end.saturating_sub(elapsed);
        let left = match weak && self.plan.longest > self.plan.budget {
            true => rest(self.plan.longest),
            false => Duration::from_secs_f64(left.clamp(0.0, 1e6)).min(rest(self.plan.budget)),
        };
        let known = measured * 20 >= points;
        let worst = wanted().filter(|p| p.count() > 0 && !p.is_finished(self.plan));
        let worst = worst.max_by(|a, b| a.precision.0.total_cmp(&b.precision.0));
        Progress {
            finished,
            points,
            left: known.then_some(left),
            worst: worst.map(|p| Worst { op: p.op.clone(), size: p.size, precision: p.precision }),
            disturbed: Ratio(disturbed),
        }
    }
}

/// The sizes of the messages that show the rate of a link behind a bucket, if `time` is enough for
/// those of 16 bursts; larger ones where it is enough for them.
fn settling(care: Care, time: Duration) -> Option<Vec<Bytes>> {
    let takes = |sizes: &[Bytes]| -> f64 {
        sizes.iter().map(|size| size.0 as f64 / care.bucket.rate.0 + care.cost()).sum()
    };
    BURSTS.into_iter().find_map(|(bursts, part)| {
        let sizes = near(bursts.checked_mul(care.bucket.burst.0)?);
        sizes.filter(|sizes| takes(sizes) <= part * time.as_secs_f64())
    })
}

/// Those of a link of `rate` whose bucket was not seen.
fn unseen(rate: Bandwidth, time: Duration) -> Option<Vec<Bytes>> {
    let most = rate.0 * UNSEEN_PART * time.as_secs_f64() / (UNSEEN_RUNS * SETTLED) as f64;
    near((Bucket::LEAST * Bucket::UNSEEN.0).min(most as u64))
}

/// `SETTLED` sizes from `least`, in bytes, near each other.
fn near(least: u64) -> Option<Vec<Bytes>> {
    let size = |k| least.checked_add(least / 32 * k)?.checked_next_multiple_of(4096);
    (0..SETTLED).map(|k| size(k).map(Bytes)).collect()
}

/// The launch being measured.
struct Turn<'a> {
    launch: u32,
    start: Start,
    until: Instant,
    runner: &'a mut dyn Runner,
    outside: &'a mut dyn Outside,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::link::Link;
    use crate::machine::sample::{Origin, Sample};
    use crate::measure::fit::{Asked, Kind, Path, fit};
    use crate::run::calibrate::{design, ladder};
    use crate::run::execute::Timed;

    const ALPHA: f64 = 2e-5;
    const BETA: f64 = 1e-8;

    /// A machine of α and β, whose clock is the model itself.
    struct Model {
        fails_after: Option<u32>,
        /// What a token bucket holds before each block.
        burst: u64,
        /// So many blocks take three times as long.
        slow: u32,
        /// In so many others keep a CPU for a time slice.
        lost: u32,
        blocks: u32,
    }

    impl Runner for Model {
        fn ranks(&self) -> u32 {
            4
        }

        fn time(&mut self, op: &Op, size: Bytes, block: &execute::Block) -> Result<Timed> {
            self.blocks += 1;
            if self.fails_after.is_some_and(|most| self.blocks > most) {
                return Err(Error::lost("rank 1 was lost"));
            }
            let path = Path::of(&Registry::builtin(), op, 4, size.into())?;
            let link = Link::new(Seconds(ALPHA), Bandwidth(1.0 / BETA)).times();
            let time = match path.kind {
                Kind::Local => 1e-7 + size.0 as f64 * 1e-10,
                _ => link.map_or(0.0, |times| path.time(&times).0),
            };
            let time = if self.blocks <= self.slow { 3.0 * time } else { time };
            let waited = if self.blocks <= self.lost { 4e-3 } else { 0.0 };
            let time = time + waited;
            // The first run that counts finds what the block has not sent before it.
            let sent = block.spill.0 + u64::from(block.warm) * size.0;
            let held = self.burst.saturating_sub(sent).min(size.0) as f64 * BETA;
            let saved = match path.kind {
                Kind::Local => 0.0,
                _ => held.min(time - ALPHA).max(0.0),
            };
            let noise = |rep: u32| 1.0 + 1e-3 * f64::from((rep * 7 + self.blocks * 3) % 11);
            let sample = |rep| Sample {
                span: Seconds((time - if rep == 0 { saved } else { 0.0 }) * noise(rep)),
                late: false,
                run_delay: Some(Seconds(waited)),
                with_cpus: None,
            };
            Ok(Timed {
                samples: (0..block.reps).map(sample).collect(),
                checked: 1,
                ..Timed::default()
            })
        }
    }

    #[derive(Default)]
    struct Desk {
        fails_after: Option<u32>,
        burst: u64,
        /// Blocks of the first launch.
        slow: u32,
        records: Vec<Record>,
        last: Option<Progress>,
    }

    impl Outside for Desk {
        fn launch(&mut self) -> Result<Launch> {
            let slow = std::mem::take(&mut self.slow);
            let (fails_after, burst) = (self.fails_after, self.burst);
            let runner = Box::new(Model { fails_after, burst, slow, lost: 0, blocks: 0 });
            Ok(Launch { runner, record: LaunchRecord::default(), start: Start::Window })
        }

        fn keep(&mut self, record: &Record) -> Result<()> {
            self.records.push(record.clone());
            Ok(())
        }

        fn show(&mut self, progress: &Progress) {
            self.last = Some(progress.clone());
        }
    }

    fn plan() -> Plan {
        Plan {
            ranks: 4,
            ops: design(&Registry::builtin(), 4),
            sizes: ladder(Bytes(1 << 20)),
            launches: 3,
            seed: 7,
            precision: Ratio(0.02),
            budget: Duration::from_secs(600),
            longest: Duration::from_secs(600),
            drain: Seconds(0.0),
            wire: false,
        }
    }

    fn blocks(records: &[Record]) -> Vec<(u32, u32, String, u64)> {
        let block = |record: &Record| match record {
            Record::Block(b) => Some((b.launch, b.block, b.op.to_string(), b.size.0)),
            _ => None,
        };
        records.iter().filter_map(block).collect()
    }

    #[test]
    fn every_point_is_measured_in_every_launch() {
        let (registry, plan, mut desk) = (Registry::builtin(), plan(), Desk::default());
        let samples =
            measure(&registry, &plan, Seconds(2e-8), Samples::default(), &mut desk).unwrap();
        let blocks = blocks(&desk.records);
        assert_eq!(samples.blocks.len(), blocks.len());
        for op in &plan.ops {
            for size in &plan.sizes {
                for launch in 0..3 {
                    let of = |b: &&(u32, u32, String, u64)| {
                        b.0 == launch && b.2 == op.to_string() && b.3 == size.0
                    };
                    assert!(blocks.iter().any(|b| of(&b)), "{op} {size} launch {launch}");
                }
            }
        }
        let numbers: BTreeSet<u32> = blocks.iter().map(|b| b.1).collect();
        assert_eq!(numbers.len(), blocks.len());
        // The first block differs by launch: the order is shuffled.
        let first = |launch| blocks.iter().find(|b| b.0 == launch).map(|b| (&b.2, b.3));
        assert_ne!(first(0), first(1));
        let last = desk.last.unwrap();
        assert_eq!((last.finished, last.worst), (last.points, None));
    }

    #[test]
    fn what_is_measured_is_fitted() {
        let (registry, mut desk) = (Registry::builtin(), Desk::default());
        let mut samples =
            measure(&registry, &plan(), Seconds(2e-8), Samples::default(), &mut desk).unwrap();
        samples.origin = Origin { transport: Some("tcp".to_owned()), ..Origin::default() };
        let fitted = fit(&registry, &samples, &Asked { draws: 40, ..Asked::default() }).unwrap();
        let link = fitted.link;
        assert!((link.alpha.value.0 / ALPHA - 1.0).abs() < 0.02, "{:?}", link.alpha);
        assert!((link.beta.value.0 / BETA - 1.0).abs() < 0.02, "{:?}", link.beta);
    }

    #[test]
    fn a_bucket_that_fills_again_before_a_block_is_emptied_in_it() {
        // Sixteen bursts take 2.7 s: four such messages and no larger ones fit.
        let bucket = Bucket { rate: Bandwidth(1.0 / BETA), burst: Bytes(16 << 20) };
        let time = Duration::from_secs(18);
        let plan = Plan { budget: time, longest: time, wire: true, ..plan() };
        let before = Samples { bucket: Some(bucket), ..Samples::default() };
        let mut desk = Desk { burst: bucket.burst.0, ..Desk::default() };
        let registry = Registry::builtin();
        let samples = measure(&registry, &plan, Seconds(2e-8), before, &mut desk).unwrap();
        let settled = samples.blocks.iter().filter(|block| block.size >= bucket.settled());
        let times: Vec<(f64, f64)> = settled
            .flat_map(|block| block.samples.iter().map(|s| (block.size.0 as f64, s.span.0)))
            .collect();
        assert!(times.len() >= 4, "{times:?}");
        for (size, time) in times {
            assert!((time / (ALPHA + BETA * size) - 1.0).abs() < 0.02, "{size}: {time}");
        }
        let fitted = fit(&registry, &samples, &Asked::default()).unwrap();
        assert!((fitted.link.beta.value.0 / BETA - 1.0).abs() < 0.02, "{:?}", fitted.link.beta);
        assert!(fitted.gates.iter().all(|g| g.name != "bucket" || g.verdict == Verdict::Good));
    }

    #[test]
    fn messages_that_settle_are_of_16_bursts_or_there_are_none() {
        let of = |rate, burst, time| {
            let care = Care { bucket: Bucket { rate: Bandwidth(rate), burst: Bytes(burst) } };
            settling(care, Duration::from_secs(time))
        };
        let smallest = |rate, burst, time| of(rate, burst, time).map(|s| s[0].0.div_euclid(burst));
        // Small buckets are no reason for small messages.
        assert_eq!(smallest(15e6, 1 << 14, 10), Some(64));
        assert_eq!(smallest(15e6, 1 << 20, 10), Some(16));
        assert_eq!(smallest(87.5e6, 16_000_000, 20), Some(16));
        assert_eq!(of(15e6, 16 << 20, 10), None, "one takes 18 s");
        assert_eq!(of(1e6, u64::MAX / 8, 10), None);
        for burst in [1 << 14, 1 << 18, 1 << 20] {
            let sizes = of(15e6, burst, 10).unwrap();
            assert_eq!(sizes.len() as u64, SETTLED);
            assert!(sizes.iter().all(|size| size.0 >= 16 * burst && size.0 % 4096 == 0));
            assert!(sizes.is_sorted() && sizes.windows(2).all(|two| two[0] != two[1]));
        }
    }

    #[test]
    fn a_network_that_showed_no_bucket_has_large_exchanges_all_the_same() {
        let (registry, mut desk) = (Registry::builtin(), Desk::default());
        let plan = Plan { wire: true, ..plan() };
        let samples =
            measure(&registry, &plan, Seconds(2e-8), Samples::default(), &mut desk).unwrap();
        assert_eq!(samples.bucket, None);
        let large = |b: &&Block| b.op == Op::Shift && b.size.0 >= 4 << 20;
        let sizes: BTreeSet<Bytes> = samples.blocks.iter().filter(large).map(|b| b.size).collect();
        assert_eq!(sizes.len() as u64, SETTLED);

        let smallest = |rate, time| unseen(Bandwidth(rate), Duration::from_secs(time)).unwrap()[0];
        assert_eq!(smallest(82e6, 20), Bytes(4 << 20));
        // 3 s for five runs of each of four: 0.15 s for a run.
        assert!((1_500_000..1_504_096).contains(&smallest(10e6, 20).0));
    }

    #[test]
    fn a_stream_far_slower_than_the_messages_is_looked_at_again() {
        let plan = Plan { wire: true, ..plan() };
        let registry = Registry::builtin();
        let stream = |slow| {
            let mut desk = Desk { slow, ..Desk::default() };
            let samples =
                measure(&registry, &plan, Seconds(2e-8), Samples::default(), &mut desk).unwrap();
            let launches = desk.records.iter().filter_map(|record| match record {
                Record::Launch(launch) => launch.stream,
                _ => None,
            });
            let first = launches.map(|rate| rate.0 * BETA).next().unwrap();
            (first, samples.stream.unwrap().0 * BETA)
        };
        let (first, last) = stream(45);
        assert!(first < 0.5 && last > 0.9, "{first} {last}");
        let (first, last) = stream(0);
        assert_eq!(first, last, "there was no reason to look again");
    }

    #[test]
    fn a_run_that_is_lost_goes_on_where_it_was() {
        let (registry, plan) = (Registry::builtin(), plan());
        let mut desk = Desk { fails_after: Some(100), ..Desk::default() };
        let lost = measure(&registry, &plan, Seconds(2e-8), Samples::default(), &mut desk);
        assert!(lost.unwrap_err().is_lost());
        assert!(matches!(desk.records.last(), Some(Record::Abort { launch: 0, .. })));
        let kept: Vec<Block> = desk
            .records
            .iter()
            .filter_map(|record| match record {
                Record::Block(block) => Some(block.clone()),
                _ => None,
            })
            .collect();
        let before = Samples { blocks: kept.clone(), ..Samples::default() };
        let mut again = Desk::default();
        let all = measure(&registry, &plan, Seconds(2e-8), before, &mut again).unwrap();
        let new = blocks(&again.records);
        assert_eq!(all.blocks.len(), kept.len() + new.len());
        assert!(new.iter().all(|(launch, ..)| *launch > 0));
        let numbers: BTreeSet<u32> = all.blocks.iter().map(|b| b.block).collect();
        assert_eq!(numbers.len(), all.blocks.len(), "no block was measured twice");
    }

    #[test]
    fn the_order_is_the_seeds() {
        let run = |seed| {
            let mut desk = Desk::default();
            let plan = Plan { seed, launches: 1, ..plan() };
            measure(&Registry::builtin(), &plan, Seconds(2e-8), Samples::default(), &mut desk)
                .unwrap();
            blocks(&desk.records)
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn the_first_guess_waits_for_a_run_that_others_leave_alone() {
        let (registry, plan) = (Registry::builtin(), plan());
        let guess = |lost| {
            let mut work = Work::new(&registry, &plan, Seconds(2e-8), Samples::default()).unwrap();
            let mut model = Model { fails_after: None, burst: 0, slow: 0, lost, blocks: 0 };
            work.guess(&mut model, Start::Window).unwrap().alpha.0
        };
        assert!((guess(PROBES - 1) / ALPHA - 1.0).abs() < 0.02);
        assert!(guess(PROBES) > 4e-3, "it does not wait for ever");
    }

    #[test]
    fn time_that_is_short_ends_it() {
        let (registry, mut desk) = (Registry::builtin(), Desk::default());
        let plan = Plan { budget: Duration::ZERO, longest: Duration::ZERO, ..plan() };
        let samples =
            measure(&registry, &plan, Seconds(2e-8), Samples::default(), &mut desk).unwrap();
        assert!(samples.blocks.is_empty() && desk.records.is_empty());
    }

    #[test]
    fn what_is_weak_at_the_end_of_the_budget_is_measured_on() {
        let (registry, mut desk) = (Registry::builtin(), Desk::default());
        let plan = Plan { budget: Duration::ZERO, ..plan() };
        let samples =
            measure(&registry, &plan, Seconds(2e-8), Samples::default(), &mut desk).unwrap();
        assert!(!is_weak(&registry, &samples));
        // Beyond the plan's starts, and not under its numbers.
        let planned = plan.launches * (plan.ops.len() * plan.sizes.len()) as u32 * BLOCKS;
        assert!(blocks(&desk.records).iter().all(|&(_, number, ..)| number >= planned));
    }
}
