//! Finds ranks and links that are slower than the others, in N − 1 rounds.
//!
//! In round k every rank sends to the rank k after it, all at once: over all rounds each link is
//! used once. The late ranks identify the cause. A rank that sends slowly is late in every round,
//! and so is the rank that it sends to in that round. A rank that receives slowly is late together
//! with the rank it receives from. A slow link makes its two ends late only in its own round.
//! Between ranks half the ring apart both directions are in the same round, and both are named.

use std::num::NonZeroU32;
use std::time::Duration;

use super::point::Rates;
use crate::base::error::Result;
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
/// Target duration of one run, s.
const RUN: f64 = 0.02;

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
    let burst = bucket.map_or(0.0, |bucket| 4.0 * bucket.burst.0 as f64);
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
    let mut ends = Vec::new();
    for k in 1..ranks {
        let Some(by) = NonZeroU32::new(k) else { continue };
        let block = execute::Block {
            warm: 1,
            reps: runs,
            start,
            check: Check::Not,
            ..execute::Block::default()
        };
        let timed = runner.time(&Op::ShiftBy(by), size, &block)?;
        if timed.ends.len() != ranks as usize || timed.samples.is_empty() {
            return Ok(Vec::new());
        }
        ends.push(timed.ends.iter().map(|end| end.0).collect());
    }
    Ok(told(&ends))
}

/// From the time of each rank in each round.
fn told(ends: &[Vec<f64>]) -> Vec<Slow> {
    let ranks = ends.len() + 1;
    // The ranks that are not slow: one slow rank of three makes four of six times late.
    let mut all: Vec<f64> = ends.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let Some(&usual) = all.get(all.len().saturating_sub(1) / 4).filter(|usual| **usual > 0.0)
    else {
        return Vec::new();
    };
    // A message is late at both of its ends.
    let late =
        |k: usize, from: usize| ends[k - 1][from].min(ends[k - 1][(from + k) % ranks]) / usual;
    // The lower of the two middle values: with two rounds, another rank's slow sender makes one
    // late.
    let over = |of: &dyn Fn(usize) -> f64| {
        let mut rounds: Vec<f64> = (1..ranks).map(of).collect();
        rounds.sort_by(f64::total_cmp);
        rounds[(rounds.len() - 1) / 2]
    };
    let mut found = Vec::new();
    for rank in 0..ranks {
        let sends = over(&|k| late(k, rank));
        let receives = over(&|k| late(k, (rank + ranks - k) % ranks));
        if sends > SLOW {
            found.push(Slow::Sends(rank as u32, Ratio(1.0 / sends)));
        }
        if receives > SLOW {
            found.push(Slow::Receives(rank as u32, Ratio(1.0 / receives)));
        }
    }
    let is_named = |from: usize, to: usize| {
        found.iter().any(|slow| match slow {
            Slow::Sends(rank, _) => [from, to].contains(&(*rank as usize)),
            Slow::Receives(rank, _) => [from, to].contains(&(*rank as usize)),
            Slow::Link(..) => false,
        })
    };
    let mut links = Vec::new();
    for k in 1..ranks {
        for from in 0..ranks {
            let (to, part) = ((from + k) % ranks, late(k, from));
            if part > SLOW && !is_named(from, to) {
                links.push(Slow::Link(from as u32, to as u32, Ratio(1.0 / part)));
            }
        }
    }
    found.extend(links);
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
