//! Finds ranks and links that are slower than the others, in N − 1 rounds.
//!
//! In round k every rank sends to the rank k after it, all at once: over all rounds each link is
//! used once. The late ranks identify the cause. A rank that sends slowly makes the receiver of each round
//! late, one that receives slowly is late itself in every round, and a slow link makes one receiver late in
//! one round. The sender of a slow message may be late too, or not: where the network buffers, its bytes
//! leave at its own rate. So the cause is looked for that explains the most, receivers first.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::time::Duration;

use super::point::Rates;
use crate::base::error::Result;
use crate::base::order::{falling, sorted};
use crate::base::quantity::{Bytes, Ratio};
use crate::machine::link::Bucket;
use crate::machine::sample::Op;
use crate::run::execute::{self, Check, Runner, Start};

/// A rank or link is named if it takes this many times as long as the others.
const SLOW: f64 = 1.2;
/// Runs of a round; the fastest counts, since a slow rank is slow each time.
const RUNS: u32 = 5;
/// The fewest runs: a single one, other processes may have slowed.
const LEAST: u32 = 2;
/// How often a round is measured again that alone shows a slow link.
const AGAIN: u32 = 3;
/// Target duration of one run, s.
const RUN: f64 = 0.02;
/// How many times what a token bucket holds a message is. Ranks that wait for others fill theirs again, the
/// last one never does: of four bursts it would send one more than they, and take 1.33 times as long.
const BURSTS: f64 = 8.0;

/// A rank or link slower than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Slow {
    /// All messages that this rank sends.
    Sends(u32, Ratio),
    /// All messages that it receives.
    Receives(u32, Ratio),
    /// Messages from the first to the second.
    Link(u32, u32, Ratio),
}

impl Slow {
    /// The only round that shows it, if one does.
    fn round(self, ranks: u32) -> Option<u32> {
        match self {
            Self::Link(from, to, _) => Some((to + ranks - from) % ranks),
            _ => None,
        }
    }

    /// In words: `rank 2 (c, 10.0.0.3): sends at 0.25 of the others`.
    pub(super) fn words(self, name: &dyn Fn(u32) -> String) -> String {
        match self {
            Self::Sends(rank, part) => {
                format!("{}: sends at {:.2} of the others", name(rank), part.0)
            }
            Self::Receives(rank, part) => {
                format!("{}: receives at {:.2} of the others", name(rank), part.0)
            }
            Self::Link(from, to, part) => {
                let (from, to) = (name(from), name(to));
                format!("{from} to {to}: {:.2} of the other links", part.0)
            }
        }
    }
}

/// Looks for them, for about `most`; with two ranks the cause cannot be determined, and nobody is
/// named where the messages that a token bucket requires take longer than that.
pub(super) fn slow(
    runner: &mut dyn Runner,
    start: Start,
    (rates, bucket): (Rates, Option<Bucket>),
    most: Duration,
) -> Result<Vec<Slow>> {
    let ranks = runner.ranks();
    if ranks < 3 || rates.beta.0 <= 0.0 {
        return Ok(Vec::new());
    }
    let rounds = f64::from(ranks - 1);
    let each = RUN.min(most.as_secs_f64() / rounds / f64::from(RUNS + 1));
    // Bytes must dominate the time, and no bucket may hide them.
    let burst = bucket.map_or(0.0, |bucket| BURSTS * bucket.burst.0 as f64);
    let least = (20.0 * rates.alpha.0 / rates.beta.0).max(burst).max(64e3);
    let size = Bytes((each / rates.beta.0).max(least).min(256e6) as u64 / 4096 * 4096);
    let runs = match burst > 0.0 {
        true => {
            let run = rates.alpha.0 + rates.beta.0 * size.0 as f64;
            // One run comes before those that count.
            ((most.as_secs_f64() / rounds / run) as u32).saturating_sub(1).min(RUNS)
        }
        false => RUNS,
    };
    if runs < LEAST {
        return Ok(Vec::new());
    }
    let block = execute::Block {
        warm: 1,
        reps: runs,
        start,
        check: Check::Not,
        ..execute::Block::default()
    };
    let mut round = |k: u32| -> Result<Option<Vec<f64>>> {
        let Some(by) = NonZeroU32::new(k) else { return Ok(None) };
        let timed = runner.time(&Op::ShiftBy(by), size, &block)?;
        let all = timed.ends.len() == ranks as usize && !timed.samples.is_empty();
        Ok(all.then(|| timed.ends.iter().map(|end| end.0).collect()))
    };
    let mut ends = Vec::new();
    for k in 1..ranks {
        let Some(seen) = round(k)? else { return Ok(Vec::new()) };
        ends.push(seen);
    }
    // One round alone may have been disturbed: what is slow is slow again and again.
    for _ in 0..AGAIN {
        let again: BTreeSet<u32> =
            told(&ends).iter().filter_map(|slow| slow.round(ranks)).collect();
        for k in again {
            let Some(seen) = round(k)? else { return Ok(Vec::new()) };
            for (end, once_more) in ends[k as usize - 1].iter_mut().zip(seen) {
                *end = end.min(once_more);
            }
        }
    }
    Ok(told(&ends))
}

/// From the time of each rank in each round.
fn told(ends: &[Vec<f64>]) -> Vec<Slow> {
    // The ranks that are not slow: one slow rank of three makes four of six times late.
    let all = sorted(ends.iter().flatten().copied());
    let Some(&usual) = all.get(all.len().saturating_sub(1) / 4).filter(|usual| **usual > 0.0)
    else {
        return Vec::new();
    };
    let mut late: Vec<Vec<f64>> =
        ends.iter().map(|round| round.iter().map(|end| end / usual).collect()).collect();
    let mut found = slow_ranks(&mut late);
    found.extend(slow_links(&late));
    found
}

/// A round, from 1, and a rank.
type End = (usize, usize);

/// A rank that may be slow.
struct Suspect {
    slow: Slow,
    /// Who is late if it is.
    must: Vec<End>,
    /// Who may be.
    may: Vec<End>,
    /// Who may be, all of them or none.
    together: Vec<End>,
}

impl Suspect {
    /// Both ways in which a rank may be slow, where the rounds speak for it.
    fn of(rank: usize, late: &[Vec<f64>]) -> impl Iterator<Item = Self> {
        let ranks = late.len() + 1;
        let round = |other: &dyn Fn(usize) -> usize| -> Vec<End> {
            (1..ranks).map(|k| (k, other(k) % ranks)).collect()
        };
        let own = round(&|_| rank);
        let (to, from) = (round(&|k| rank + k), round(&|k| rank + ranks - k));
        let suspect = |slow: fn(u32, Ratio) -> Slow, must: Vec<End>, may, together| {
            let times = sorted(must.iter().map(|&(k, rank)| late[k - 1][rank]));
            // The lower of the two middle values: with two rounds, another slow rank makes one late.
            let level = times[(times.len() - 1) / 2];
            (level > SLOW).then(|| {
                let slow = slow(rank as u32, Ratio(1.0 / level));
                Self { slow, must, may, together }
            })
        };
        // Acknowledgements wait behind what it sends, and make those late that send to it. Of three ranks
        // they are the others of both rounds, and each of them would seem to receive slowly.
        let answered = if ranks == 3 { from.clone() } else { Vec::new() };
        let sends = suspect(Slow::Sends, to.clone(), own.clone(), answered);
        // Acknowledgements of what it sends arrive late, too.
        let mut others = [from, to].concat();
        others.sort_unstable();
        others.dedup();
        sends.into_iter().chain(suspect(Slow::Receives, own, others, Vec::new()))
    }

    /// How much of the lateness it explains; nothing if most of those who must be late are not: one round
    /// alone is that of a link.
    fn explains(&self, late: &[Vec<f64>]) -> f64 {
        let late = |ends: &[End]| -> Vec<f64> {
            ends.iter().map(|&(k, rank)| late[k - 1][rank]).filter(|late| *late > SLOW).collect()
        };
        let (must, mut may) = (late(&self.must), late(&self.may));
        let together = late(&self.together);
        if together.len() == self.together.len() {
            may.extend(together);
        }
        if 2 * must.len() < self.must.len() {
            return 0.0;
        }
        let sum = |ends: Vec<f64>| ends.into_iter().map(f64::ln).sum::<f64>();
        // Where its receivers are as late as a rank itself, it sends slowly.
        let bias = if matches!(self.slow, Slow::Sends(..)) { 1.05 } else { 1.0 };
        bias * (sum(must) + 0.5 * sum(may))
    }
}

/// Named ranks, those that explain the most first; the ends that they explain are not late any more.
fn slow_ranks(late: &mut [Vec<f64>]) -> Vec<Slow> {
    let suspects: Vec<Suspect> =
        (0..=late.len()).flat_map(|rank| Suspect::of(rank, late)).collect();
    let mut found = Vec::new();
    loop {
        let scored = suspects.iter().map(|suspect| (suspect.explains(late), suspect));
        let most = scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(most, _)| *most > 0.0);
        let Some((_, suspect)) = most else { return found };
        found.push(suspect.slow);
        for &(k, rank) in suspect.must.iter().chain(&suspect.may).chain(&suspect.together) {
            late[k - 1][rank] = 1.0;
        }
    }
}

/// Links whose receivers are late without a rank that explains it, the latest first. The sender of a named
/// one may be late for it.
fn slow_links(late: &[Vec<f64>]) -> Vec<Slow> {
    let ranks = late.len() + 1;
    let ends = (1..ranks).flat_map(|k| (0..ranks).map(move |rank| (k, rank)));
    let mut open: Vec<(f64, End)> = ends.map(|(k, r)| (late[k - 1][r], (k, r))).collect();
    open.retain(|(late, _)| *late > SLOW);
    falling(&mut open, |a| a.0);
    let mut excused: HashSet<End> = HashSet::new();
    let mut found = Vec::new();
    for (late, (k, to)) in open {
        if excused.contains(&(k, to)) {
            continue;
        }
        let from = (to + ranks - k) % ranks;
        excused.insert((k, from));
        found.push(Slow::Link(from as u32, to as u32, Ratio(1.0 / late)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of ranks whose message from i to j takes `cost(i, j)`.
    fn rounds(ranks: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
        let end = |k: usize, rank: usize| {
            let noise = 1.0 + 0.03 * ((rank * 7 + k * 5) % 11) as f64 / 11.0;
            cost(rank, (rank + k) % ranks).max(cost((rank + ranks - k) % ranks, rank)) * noise
        };
        (1..ranks).map(|k| (0..ranks).map(|rank| end(k, rank)).collect()).collect()
    }

    #[test]
    fn who_is_slow_is_named() {
        for ranks in [3, 4, 5, 6, 8] {
            for who in 0..ranks {
                let found = told(&rounds(ranks, |from, _| if from == who { 4.0 } else { 1.0 }));
                let [Slow::Sends(rank, part)] = found[..] else { panic!("{ranks}: {found:?}") };
                assert_eq!(rank, who as u32);
                assert!((part.0 - 0.25).abs() < 0.02, "{part:?}");
                let found = told(&rounds(ranks, |_, to| if to == who { 1.35 } else { 1.0 }));
                assert!(matches!(found[..], [Slow::Receives(rank, _)] if rank == who as u32));
            }
        }
    }

    /// Where the network buffers, only receivers are late.
    #[test]
    fn senders_need_not_be_late() {
        for ranks in [3, 4, 5, 8] {
            let only = |is_slow: &dyn Fn(usize, usize) -> bool| -> Vec<Vec<f64>> {
                let end = |k: usize, to: usize| {
                    if is_slow((to + ranks - k) % ranks, to) { 1.3 } else { 1.0 }
                };
                (1..ranks).map(|k| (0..ranks).map(|to| end(k, to)).collect()).collect()
            };
            let found = told(&only(&|_, to| to == 2));
            assert!(matches!(found[..], [Slow::Receives(2, _)]), "{ranks}: {found:?}");
            let found = told(&only(&|from, _| from == 2));
            assert!(matches!(found[..], [Slow::Sends(2, _)]), "{ranks}: {found:?}");
            let found = told(&only(&|from, to| (from, to) == (0, 2)));
            assert!(matches!(found[..], [Slow::Link(0, 2, _)]), "{ranks}: {found:?}");
        }
    }

    /// Of three ranks, one that sends slowly makes the two that send to it late, too: their
    /// acknowledgements wait behind what it sends.
    #[test]
    fn one_of_three_that_sends_slowly_is_named_where_acknowledgements_wait() {
        for who in 0..3 {
            for (answered, own) in [(1.25, 1.0), (1.35, 1.0), (1.35, 1.5), (1.7, 1.0), (1.7, 1.5)] {
                let end = |k: usize, rank: usize| match rank {
                    _ if (rank + 3 - k) % 3 == who => 2.0,
                    _ if rank == who => own,
                    _ => answered,
                };
                let late: Vec<Vec<f64>> =
                    (1..3).map(|k| (0..3).map(|rank| end(k, rank)).collect()).collect();
                let found = told(&late);
                let [Slow::Sends(rank, _)] = found[..] else {
                    panic!("{answered} {own}: {found:?}")
                };
                assert_eq!(rank, who as u32);
            }
        }
    }

    #[test]
    fn a_slow_link_is_told_from_a_slow_rank_and_nobody_is_named_without_one() {
        for ranks in [4, 6, 8] {
            let link = |from, to| if (from, to) == (1, 2) { 2.0 } else { 1.0 };
            let found = told(&rounds(ranks, link));
            assert!(matches!(found[..], [Slow::Link(1, 2, _)]), "{ranks}: {found:?}");
            assert_eq!(told(&rounds(ranks, |_, _| 1.0)), []);
        }
        let words = Slow::Sends(2, Ratio(0.25)).words(&|rank| format!("rank {rank} (c)"));
        assert_eq!(words, "rank 2 (c): sends at 0.25 of the others");
    }
}
