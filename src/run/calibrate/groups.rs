//! Finds groups of ranks that are nearer to each other than to the others: those of one host among several,
//! the hosts of one rack, cores that share a cache.
//!
//! In N − 1 rounds every two ranks exchange messages once, N/2 pairs at once. Where the times fall apart into
//! short ones within groups of one size and long ones between them, the links are of two tiers, and each
//! tier is measured by itself: within one group, and between one rank of each.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::bucket::{self, Care};
use super::measure::LOOK;
use super::plan::Plan;
use crate::base::error::Result;
use crate::base::order::sorted;
use crate::base::quantity::Bytes;
use crate::base::stats::median;
use crate::machine::link::Bucket;
use crate::machine::sample::{Block, Clock, Mode, Op, Sample, Samples, partner, rounds};
use crate::run::execute::{self, Check, Runner, Start};

/// Messages between groups take at least this many times as long as those within.
const APART: f64 = 1.5;
/// The messages that show the latency.
const SMALL: Bytes = Bytes(8);
/// How many of them follow each other between two readings of the clock: those of several hosts differ.
const SMALL_RUNS: u32 = 50;
/// The messages that show the rate: the first that take this long, s, or the largest.
const LONG: f64 = 0.02;
const FIRST: u64 = 4 << 10;
const LARGEST: u64 = 16 << 20;
/// Ranks that wait for a CPU for a larger part of their time may be as near as the scheduler lets them: those
/// that poll wait for it with nothing to do as well.
const WAITED: f64 = 0.2;
/// A message that is the links' matter takes longer by so many times where it is [`STEP`] times as large.
const GROWN: std::ops::Range<f64> = 2.0..8.0;
const STEP: u64 = 4;
/// Runs of a round; the fastest counts.
const RUNS: u32 = 3;

/// The sizes of collectives over all ranks, and the runs of each.
const WHOLE: [Bytes; 5] =
    [Bytes(512), Bytes(4 << 10), Bytes(32 << 10), Bytes(256 << 10), Bytes(2 << 20)];
const WHOLE_RUNS: u32 = 5;

/// Ranks in groups of one size, each in ascending order; the first contains rank 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups(Vec<Vec<u32>>);

impl Groups {
    /// The ranks of each.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// The ranks of the first.
    #[must_use]
    pub fn first(&self) -> &[u32] {
        &self.0[0]
    }

    /// The ranks of all.
    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        let mut all = self.0.concat();
        all.sort_unstable();
        all
    }

    /// One rank of each.
    #[must_use]
    pub fn heads(&self) -> Vec<u32> {
        self.0.iter().map(|group| group[0]).collect()
    }

    /// How many ranks each has.
    #[must_use]
    pub fn span(&self) -> NonZeroU32 {
        NonZeroU32::new(self.first().len() as u32).unwrap_or(NonZeroU32::MIN)
    }

    /// `0,1 2,3`.
    #[must_use]
    pub fn words(&self) -> String {
        let words =
            |group: &[u32]| group.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        self.iter().map(words).collect::<Vec<_>>().join(" ")
    }

    fn of(&self, rank: u32) -> Option<usize> {
        self.0.iter().position(|group| group.contains(&rank))
    }

    /// Whether the ranks of an exchange are of two groups.
    fn parts(&self, met: &Met) -> bool {
        self.of(met.ranks.0) != self.of(met.ranks.1)
    }

    /// Whether an exchange between groups may be as long for want of CPUs.
    fn starved(&self, times: &[Met]) -> bool {
        times.iter().any(|met| met.starved && self.parts(met))
    }

    /// Whether every exchange between groups takes so much longer than that of the `smaller` message.
    fn grows(&self, smaller: &[Met], times: &[Met]) -> bool {
        let grown = |met: &Met| {
            let before = smaller.iter().find(|before| before.ranks == met.ranks);
            before.is_some_and(|before| GROWN.contains(&(met.time / before.time)))
        };
        times.iter().filter(|met| self.parts(met)).all(grown)
    }

    /// A distance at which every rank finds one of another group.
    fn across(&self) -> Option<NonZeroU32> {
        let ranks = self.0.iter().map(Vec::len).sum::<usize>() as u32;
        let leaves = |by: u32| (0..ranks).all(|rank| self.of(rank) != self.of((rank + by) % ranks));
        (1..ranks).find(|&by| leaves(by)).and_then(NonZeroU32::new)
    }
}

/// Whether `ranks` could form groups at all.
#[must_use]
pub fn possible(ranks: u32) -> bool {
    (2..ranks).any(|span| ranks.is_multiple_of(span))
}

/// What is known before anything is measured.
#[derive(Debug, Default)]
pub struct Survey {
    /// Groups of ranks.
    pub groups: Option<Groups>,
    /// A token bucket, and the rate of a stream; nothing else.
    pub before: Samples,
}

/// Looks for a token bucket, if `plan` is over a network, and for groups of ranks, for twice as long.
///
/// # Errors
/// Those of `runner`.
pub fn survey(runner: &mut dyn Runner, start: Start, plan: &Plan) -> Result<Survey> {
    let most = plan.budget.mul_f64(LOOK);
    let mut before = Samples::default();
    // First, while it is full: no rank has sent anything yet.
    if plan.wire {
        let found = bucket::find(runner, start, most)?;
        (before.bucket, before.stream) = (found.bucket, found.rate);
    }
    Ok(Survey { groups: groups(runner, start, &before, 2 * most)?, before })
}

fn groups(
    runner: &mut dyn Runner,
    start: Start,
    before: &Samples,
    most: Duration,
) -> Result<Option<Groups>> {
    let ranks = runner.ranks();
    let blocks = 4 * rounds(ranks);
    let dear = |bucket: Bucket| f64::from(blocks) * Care { bucket }.cost() > most.as_secs_f64();
    let bucket = before.bucket.filter(|bucket| !dear(*bucket));
    let mut look = Look { runner, start, ranks, bucket };
    // Where ranks share CPUs, a small message takes as long as the scheduler lets it.
    if start == Start::Window {
        let times = look.times(SMALL, SMALL_RUNS)?;
        if let Some(found) = look.again(&times, &[], SMALL, SMALL_RUNS)? {
            return Ok(Some(found));
        }
    }
    let (began, mut size, mut smaller) = (Instant::now(), FIRST, Vec::new());
    loop {
        let before = began.elapsed();
        let times = look.times(Bytes(size), 1)?;
        let slowest = times.iter().map(|met| met.time).fold(0.0, f64::max);
        let took = (began.elapsed() - before).as_secs_f64();
        // The next messages take four times as long, and again if they show groups.
        let sent = (slowest * f64::from(rounds(ranks) * (RUNS + 1))).min(took);
        let next = began.elapsed().as_secs_f64() + 2.0 * (took + 3.0 * sent);
        if slowest >= LONG || size >= LARGEST || next > most.as_secs_f64() {
            return look.again(&times, &smaller, Bytes(size), 1);
        }
        (size, smaller) = (size * STEP, times);
    }
}

/// How many ports the ranks of a group share towards the others: all of them send as far as one of each did
/// in `alone`, the samples between groups. Unknown without such a run, and where ranks are placed so that no
/// distance leads all of them out of their groups.
///
/// # Errors
/// Those of `runner`.
pub fn ports(
    runner: &mut dyn Runner,
    start: Start,
    groups: &Groups,
    alone: &Samples,
) -> Result<Option<NonZeroU32>> {
    let exchanges = || alone.blocks.iter().filter(|block| block.op == Op::Shift);
    let (Some(by), Some(size)) = (groups.across(), exchanges().map(|block| block.size).max())
    else {
        return Ok(None);
    };
    let largest = exchanges().filter(|block| block.size == size).flat_map(Block::spans);
    let Some(one) = median(largest.map(|span| span.0).collect()) else { return Ok(None) };
    let asked = block(start, RUNS, alone.bucket);
    let Some(all) = runner.time(&Op::ShiftBy(by), size, &asked)?.median() else { return Ok(None) };
    let span = f64::from(groups.span().get());
    Ok(NonZeroU32::new((span * one / all.0).round().clamp(1.0, span) as u32))
}

/// Runs the collectives `ops` over all ranks, which nothing is fitted to: for about `most`, small sizes first.
/// `alone` are the samples between groups.
///
/// # Errors
/// Those of `runner` and `keep`.
pub fn whole(
    runner: &mut dyn Runner,
    (start, ops): (Start, &[Op]),
    alone: &Samples,
    most: Duration,
    mut keep: impl FnMut(Block) -> Result<()>,
) -> Result<()> {
    let (began, launch) = (Instant::now(), alone.launches());
    let (asked, mut number) = (block(start, WHOLE_RUNS, alone.bucket), 0);
    for size in WHOLE {
        for op in ops.iter().filter(|op| matches!(op, Op::Run(_))) {
            let before = Instant::now();
            let timed = runner.time(op, size, &asked)?;
            let took = before.elapsed();
            if !timed.samples.is_empty() {
                keep(Block {
                    op: op.clone(),
                    ranks: runner.ranks(),
                    size,
                    launch,
                    block: number,
                    mode: Mode::Isolated,
                    inner: 1,
                    nodes: None,
                    preempted: Some(timed.switches),
                    clock: Clock::default(),
                    chose: None,
                    samples: timed.samples,
                })?;
                number += 1;
            }
            if began.elapsed() + took > most {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Behind a token bucket, which is emptied first.
fn block(start: Start, reps: u32, bucket: Option<Bucket>) -> execute::Block {
    let spill = bucket.map_or(Bytes(0), |bucket| Care { bucket }.spill());
    execute::Block { warm: 1, reps, start, check: Check::Not, spill, ..execute::Block::default() }
}

struct Look<'a> {
    runner: &'a mut dyn Runner,
    start: Start,
    ranks: u32,
    bucket: Option<Bucket>,
}

/// An exchange.
struct Met {
    /// The ranks, the lower one first.
    ranks: (u32, u32),
    /// Its time, s.
    time: f64,
    /// Whether it may be as long for want of CPUs.
    starved: bool,
}

impl Look<'_> {
    /// The groups that messages of this size show once more: what others did meanwhile is not there again.
    /// Where ranks waited for CPUs, those of `smaller` messages show them too, and what lies between them
    /// grows with the size, as what a scheduler takes does not.
    fn again(
        &mut self,
        times: &[Met],
        smaller: &[Met],
        size: Bytes,
        inner: u32,
    ) -> Result<Option<Groups>> {
        let Some(found) = apart(times, self.ranks) else { return Ok(None) };
        let again = self.times(size, inner)?;
        let is = |met: &[Met]| apart(met, self.ranks).as_ref() == Some(&found);
        let links = |met: &[Met]| !found.starved(met) || (is(smaller) && found.grows(smaller, met));
        Ok((is(&again) && links(times) && links(&again)).then_some(found))
    }

    /// Every two ranks that have times.
    fn times(&mut self, size: Bytes, inner: u32) -> Result<Vec<Met>> {
        let asked = execute::Block { inner, ..block(self.start, RUNS, self.bucket) };
        let mut times = Vec::new();
        for round in (1..=rounds(self.ranks)).filter_map(NonZeroU32::new) {
            let timed = self.runner.time(&Op::Pairs(round), size, &asked)?;
            let starved = waited(&timed.samples) > WAITED * f64::from(self.ranks);
            // A rank that meets nobody has no end.
            let busy =
                (0..self.ranks).filter_map(|rank| Some((rank, partner(rank, self.ranks, round)?)));
            let ends: Vec<(u32, u32, f64)> =
                busy.zip(&timed.ends).map(|((rank, other), end)| (rank, other, end.0)).collect();
            for &(rank, other, end) in ends.iter().filter(|(rank, other, _)| rank < other) {
                let back = ends.iter().find(|(from, ..)| *from == other);
                let met = |back: f64| Met { ranks: (rank, other), time: end.max(back), starved };
                times.extend(back.map(|&(.., back)| met(back)));
            }
        }
        Ok(times)
    }
}

/// The part of the time for which ranks waited for a CPU, summed over them.
fn waited(samples: &[Sample]) -> f64 {
    let sum = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>();
    let span = sum(|sample| sample.span.0);
    if span > 0.0 {
        sum(|sample| sample.run_delay.map_or(0.0, |delay| delay.0)) / span
    } else {
        0.0
    }
}

/// The finest groups within which all times are short, and between which all are long.
fn apart(times: &[Met], ranks: u32) -> Option<Groups> {
    let sorted = sorted(times.iter().map(|met| met.time));
    let gaps = sorted.windows(2).filter(|two| two[1] > APART * two[0]).map(|two| two[0]);
    gaps.into_iter().find_map(|longest| within(times, ranks, longest))
}

/// The groups whose ranks are no farther apart than `longest`, if there are several of one size.
fn within(times: &[Met], ranks: u32, longest: f64) -> Option<Groups> {
    let short = times.iter().filter(|met| met.time <= longest);
    let near: BTreeSet<(u32, u32)> = short.map(|met| met.ranks).collect();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for rank in 0..ranks {
        let near = |first: u32| near.contains(&(first, rank));
        match groups.iter_mut().find(|group| near(group[0])) {
            Some(group) => group.push(rank),
            None => groups.push(vec![rank]),
        }
    }
    let span = groups[0].len();
    let alike = span > 1 && groups.len() > 1 && groups.iter().all(|group| group.len() == span);
    let inside = groups.len() * span * (span - 1) / 2;
    let complete = times.len() as u32 == ranks * (ranks - 1) / 2;
    let found = Groups(groups);
    let all = near.iter().all(|&(a, b)| found.of(a) == found.of(b));
    (complete && alike && all && near.len() == inside).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Seconds;
    use crate::run::execute::Timed;

    /// Ranks whose exchange takes `cost` at once with the others of its group that leave it.
    struct Model {
        groups: Vec<Vec<u32>>,
        inside: f64,
        between: f64,
        /// Rounds that take three times as long.
        disturbed: u32,
        /// Whether ranks wait for CPUs for half of the time.
        waits: bool,
        /// What each message takes besides, inside and between, s.
        base: [f64; 2],
    }

    impl Model {
        fn cost(&self, size: Bytes, a: u32, b: u32) -> f64 {
            let group = |rank| self.groups.iter().position(|group| group.contains(&rank));
            let near = group(a) == group(b);
            let each = if near { self.inside } else { self.between };
            self.base[usize::from(!near)]
                + size.0 as f64 * each * (1.0 + 0.02 * f64::from((a * 7 + b * 5) % 3))
        }
    }

    impl Runner for Model {
        fn ranks(&self) -> u32 {
            self.groups.iter().map(Vec::len).sum::<usize>() as u32
        }

        fn time(&mut self, op: &Op, size: Bytes, _: &execute::Block) -> Result<Timed> {
            let ranks = self.ranks();
            let slow = if self.disturbed > 0 { 3.0 } else { 1.0 };
            self.disturbed = self.disturbed.saturating_sub(1);
            let peers: Vec<(u32, u32)> = (0..ranks)
                .filter_map(|rank| match op {
                    Op::Pairs(round) => Some((rank, partner(rank, ranks, *round)?)),
                    Op::ShiftBy(by) => Some((rank, (rank + by.get()) % ranks)),
                    _ => None,
                })
                .collect();
            let ends = peers.iter().map(|&(a, b)| Seconds(slow * self.cost(size, a, b))).collect();
            let delay = self.waits.then_some(Seconds(0.5 * f64::from(ranks)));
            let samples = vec![Sample { run_delay: delay, ..Sample::of(Seconds(1.0)) }];
            Ok(Timed { ends, samples, ..Timed::default() })
        }
    }

    fn found(groups: &[&[u32]], (inside, between): (f64, f64), disturbed: u32) -> Option<Groups> {
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        let mut model = Model { groups, inside, between, disturbed, waits: false, base: [1e-5; 2] };
        super::groups(&mut model, Start::Window, &Samples::default(), Duration::from_secs(4))
            .unwrap()
    }

    #[test]
    fn ranks_that_wait_for_cpus_are_told_apart_by_what_grows_with_the_size() {
        let found = |(inside, between), base| {
            let groups = vec![vec![0, 1], vec![2, 3]];
            let mut model = Model { groups, inside, between, disturbed: 0, base, waits: true };
            let most = Duration::from_secs(4);
            super::groups(&mut model, Start::Barrier, &Samples::default(), most).unwrap()
        };
        assert!(found((1e-9, 4e-8), [1e-5; 2]).is_some(), "a network");
        assert_eq!(found((1e-10, 1e-10), [1e-6, 4e-3]), None, "a scheduler");
    }

    #[test]
    fn groups_of_one_size_are_found_wherever_their_ranks_are() {
        let cases: [&[&[u32]]; 5] = [
            &[&[0, 1], &[2, 3]],
            &[&[0, 2], &[1, 3]],
            &[&[0, 1, 2], &[3, 4, 5]],
            &[&[0, 3, 6], &[1, 4, 7], &[2, 5, 8]],
            &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]],
        ];
        for groups in cases {
            let told = found(groups, (1e-9, 2e-9), 0).unwrap();
            assert!(told.iter().eq(groups.iter().copied()), "{told:?}");
            assert_eq!(told.span().get() as usize, groups[0].len());
            assert!(told.heads().iter().zip(groups).all(|(head, group)| *head == group[0]));
            assert!(told.across().is_some(), "{groups:?}");
        }
    }

    #[test]
    fn none_are_found_where_there_are_none() {
        assert_eq!(found(&[&[0, 1, 2, 3]], (1e-9, 1e-9), 0), None);
        assert_eq!(found(&[&[0, 1], &[2, 3]], (1e-9, 1.3e-9), 0), None, "nearly alike");
        assert_eq!(found(&[&[0, 1, 2], &[3]], (1e-9, 4e-9), 0), None, "of two sizes");
        assert_eq!(found(&[&[0], &[1], &[2]], (1e-9, 4e-9), 0), None, "a prime");
        for disturbed in 0..20 {
            assert_eq!(found(&[&[0, 1, 2, 3]], (1e-9, 1e-9), disturbed), None, "{disturbed}");
        }
    }

    #[test]
    fn ports_are_those_that_the_ranks_of_a_group_share() {
        fn sample(span: f64) -> Sample {
            Sample { span: Seconds(span), late: false, run_delay: None, with_cpus: None }
        }
        let groups = Groups(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
        /// Every rank sends at once, through this many ports of its group.
        struct Shared(u32);
        impl Runner for Shared {
            fn ranks(&self) -> u32 {
                8
            }
            fn time(&mut self, op: &Op, _: Bytes, _: &execute::Block) -> Result<Timed> {
                assert_eq!(*op, Op::ShiftBy(NonZeroU32::new(4).unwrap()));
                let samples = vec![sample(0.05 * 4.0 / f64::from(self.0) * 1.03)];
                Ok(Timed { samples, ..Timed::default() })
            }
        }
        let block = |size, span| Block {
            op: Op::Shift,
            ranks: 2,
            size: Bytes(size),
            launch: 0,
            block: 0,
            mode: Mode::Isolated,
            inner: 1,
            nodes: None,
            preempted: None,
            clock: Clock::default(),
            chose: None,
            samples: vec![sample(span)],
        };
        let blocks = vec![block(1 << 10, 1e-4), block(1 << 20, 0.05)];
        let alone = Samples { blocks, ..Samples::default() };
        for shared in [1, 2, 4] {
            let found = ports(&mut Shared(shared), Start::Barrier, &groups, &alone).unwrap();
            assert_eq!(found.map(NonZeroU32::get), Some(shared));
        }
        let none = ports(&mut Shared(1), Start::Barrier, &groups, &Samples::default()).unwrap();
        assert_eq!(none, None, "nothing to compare with");
    }
}
