//! Races between algorithms: which of a few is the fastest, and whether it surely beats the library's
//! own choice.
//!
//! In a round each contender runs once, so that what disturbs the machine meets all of them. The ratio
//! of two contenders is that of the runs of the same rounds, with Student's interval of the mean of its
//! logarithms. Who is surely slower than the fastest runs no more; a heat ends when the fastest is known,
//! or cannot be told from the others.

use std::time::{Duration, Instant};

use crate::base::error::Result;
use crate::base::quantity::{Ratio, Seconds};
use crate::base::stats::half_of_mean;

/// Fewer rounds give no interval.
const LEAST_ROUNDS: usize = 3;
/// So many are run if the fastest is not known before.
const MOST_ROUNDS: usize = 30;
/// Contenders that differ by less than this surely are alike. A rule that saves less is not worth
/// having.
pub const ALIKE: Ratio = Ratio(0.03);
/// What a forced call saves of the library's own deciding, in s: a tuning file does not.
const DECIDING: f64 = 100e-9;

/// A ratio of two contenders' times, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Its value.
    pub value: Ratio,
    /// From here …
    pub low: Ratio,
    /// … to here.
    pub high: Ratio,
}

/// Contenders at one operation and size; the first is the library's own choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// How long a round is expected to take: of all contenders.
    pub round: Seconds,
    /// The times of each contender, by round.
    times: Vec<Vec<Seconds>>,
    runs: Vec<bool>,
}

/// The library's own choice.
pub const OWN: usize = 0;

impl Heat {
    /// A heat of so many contenders.
    #[must_use]
    pub fn new(contenders: usize, round: Seconds) -> Self {
        Self { round, times: vec![Vec::new(); contenders], runs: vec![true; contenders] }
    }

    /// The times of a contender, in the order of the rounds.
    #[must_use]
    pub fn times(&self, contender: usize) -> &[Seconds] {
        self.times.get(contender).map_or(&[], Vec::as_slice)
    }

    /// Adds a round: who ran, and for how long.
    pub fn add(&mut self, round: &[(usize, Seconds)]) {
        for &(contender, time) in round {
            self.times[contender].push(time);
        }
    }

    /// Leaves a contender out that cannot run.
    fn leave_out(&mut self, contender: usize) {
        self.runs[contender] = false;
        self.times[contender].clear();
    }

    /// The mean time of a contender, on a logarithmic scale; absent if it did not run.
    #[must_use]
    pub fn time(&self, contender: usize) -> Option<Seconds> {
        let times = self.times(contender);
        let sum: f64 = times.iter().map(|t| t.0.ln()).sum();
        (!times.is_empty()).then(|| Seconds((sum / times.len() as f64).exp()))
    }

    /// The time of `a` over that of `b`, over the rounds of both; absent before three of them.
    #[must_use]
    pub fn ratio(&self, a: usize, b: usize) -> Option<Compared> {
        let pairs = self.times(a).iter().zip(self.times(b));
        let logs: Vec<f64> = pairs.map(|(a, b)| (a.0 / b.0).ln()).collect();
        if logs.len() < LEAST_ROUNDS {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let half = half_of_mean(&logs);
        let [value, low, high] = [mean, mean - half, mean + half].map(|x| Ratio(x.exp()));
        Some(Compared { value, low, high })
    }

    /// The fastest so far.
    fn leader(&self) -> usize {
        let all = (0..self.times.len()).filter_map(|i| Some((i, self.time(i)?)));
        all.min_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(OWN, |(i, _)| i)
    }

    /// Who surely is faster than the library's own choice, and by [`ALIKE`] and more as measured; absent if
    /// nobody is.
    #[must_use]
    pub fn winner(&self) -> Option<usize> {
        let leader = self.leader();
        let ratio = self.ratio(leader, OWN).filter(|_| leader != OWN)?;
        let saved = self.time(OWN)?.0 - self.time(leader)?.0;
        let is_sure = ratio.high.0 < 1.0 && ratio.value.0 <= 1.0 - ALIKE.0;
        (is_sure && saved > DECIDING).then_some(leader)
    }

    /// Ends the part of those of whom nothing more is to be learned.
    fn settle(&mut self) {
        let leader = self.leader();
        let within = |x: Ratio| (1.0 - ALIKE.0..=1.0 + ALIKE.0).contains(&x.0);
        let is_known = |other: usize| {
            let ratio = self.ratio(other, leader);
            ratio.is_some_and(|r| r.low.0 > 1.0 || within(r.low) && within(r.high))
        };
        let known: Vec<usize> =
            (0..self.times.len()).filter(|&i| i != leader && is_known(i)).collect();
        for i in known {
            self.runs[i] = false;
        }
    }

    /// Whether there was no time for the rounds that an interval needs.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.rounds() < LEAST_ROUNDS && !self.next().is_empty()
    }

    fn rounds(&self) -> usize {
        self.times.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Who runs in the next round.
    fn next(&self) -> Vec<usize> {
        let running: Vec<usize> = (0..self.runs.len()).filter(|&i| self.runs[i]).collect();
        let is_over = running.len() < 2 || self.rounds() >= MOST_ROUNDS;
        if is_over { Vec::new() } else { running }
    }
}

/// Who runs the contenders, and keeps what was timed.
pub trait Track {
    /// Runs a contender of a heat once; `None` if it cannot run.
    ///
    /// # Errors
    /// What ends the race.
    fn time(&mut self, heat: usize, contender: usize) -> Result<Option<Seconds>>;

    /// Keeps a round: the contenders that ran, with their times.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep(&mut self, heat: usize, round: &[(usize, Seconds)]) -> Result<()>;
}

/// Runs all heats: first the rounds that every interval needs, then more where the fastest is not
/// known. No round begins that would not end within `budget`.
///
/// # Errors
/// Those of the track; all rounds before were kept.
pub fn race(heats: &mut [Heat], budget: Duration, track: &mut dyn Track) -> Result<()> {
    let began = Instant::now();
    for pass in 0..MOST_ROUNDS {
        for (at, heat) in heats.iter_mut().enumerate() {
            // All rounds that an interval needs at once: neighbours in time meet the same machine.
            let rounds = if pass == 0 { LEAST_ROUNDS.saturating_sub(heat.rounds()) } else { 1 };
            let left = budget.saturating_sub(began.elapsed()).as_secs_f64();
            if rounds as f64 * heat.round.0 > left {
                continue;
            }
            for _ in 0..rounds {
                let mut running = heat.next();
                let turn = heat.rounds() % running.len().max(1);
                running.rotate_left(turn);
                let from = Instant::now();
                let mut round = Vec::new();
                for contender in running {
                    match track.time(at, contender)? {
                        Some(taken) => round.push((contender, taken)),
                        None => heat.leave_out(contender),
                    }
                }
                if !round.is_empty() {
                    track.keep(at, &round)?;
                    heat.add(&round);
                    heat.round = Seconds(from.elapsed().as_secs_f64());
                }
            }
            if heat.rounds() >= LEAST_ROUNDS {
                heat.settle();
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;
    use crate::base::random::Random;

    type Round = Vec<(usize, Seconds)>;

    struct Timed<F>(F, Vec<Round>);

    impl<F: FnMut(usize) -> Result<Option<Seconds>>> Track for Timed<F> {
        fn time(&mut self, _: usize, contender: usize) -> Result<Option<Seconds>> {
            (self.0)(contender)
        }

        fn keep(&mut self, _: usize, round: &[(usize, Seconds)]) -> Result<()> {
            self.1.push(round.to_vec());
            Ok(())
        }
    }

    /// Runs heats for so many seconds; returns the rounds.
    fn run(
        heats: &mut [Heat],
        seconds: u64,
        time: impl FnMut(usize) -> Result<Option<Seconds>>,
    ) -> Result<Vec<Round>> {
        let mut timed = Timed(time, Vec::new());
        race(heats, Duration::from_secs(seconds), &mut timed)?;
        Ok(timed.1)
    }

    /// A heat of contenders that take `means`, with so much noise; returns how often each ran, too.
    fn of(means: &[f64], noise: f64) -> (Heat, Vec<usize>) {
        let mut heats = [Heat::new(means.len(), Seconds(0.0))];
        let mut random = Random::new(7);
        let kept = run(&mut heats, 60, |contender| {
            let part = random.below(2001) as f64 / 1000.0 - 1.0;
            Ok(Some(Seconds(means[contender] * (1.0 + noise * part))))
        });
        // What was kept says the same.
        let mut again = Heat::new(means.len(), Seconds(0.0));
        kept.unwrap().iter().for_each(|round| again.add(round));
        assert_eq!(again.times, heats[0].times);
        let [heat] = heats;
        let runs = (0..means.len()).map(|i| heat.times(i).len()).collect();
        (heat, runs)
    }

    #[test]
    fn the_faster_wins_after_few_rounds_and_the_slower_stop() {
        let (heat, runs) = of(&[2e-3, 1e-3, 1.5e-3], 0.01);
        assert_eq!((heat.winner(), runs), (Some(1), vec![3, 3, 3]));
        let ratio = heat.ratio(1, OWN).unwrap();
        assert!((ratio.low.0..ratio.high.0).contains(&0.5), "{ratio:?}");
        // The two fastest need more rounds; the library's own choice does not.
        let (heat, runs) = of(&[2e-3, 1e-3, 1.08e-3], 0.1);
        assert_eq!(heat.winner(), Some(1));
        assert!(runs[1] > runs[0] && runs[0] < 10, "{runs:?}");
    }

    #[test]
    fn what_is_alike_or_not_known_changes_nothing() {
        for (means, noise) in
            [([1e-3, 0.99e-3], 0.01), ([1e-3, 0.97e-3], 0.5), ([1e-3, 2e-3], 0.01)]
        {
            assert_eq!(of(&means, noise).0.winner(), None, "{means:?} {noise}");
        }
        let (_, runs) = of(&[1e-3, 0.97e-3], 0.5);
        assert_eq!(runs, [MOST_ROUNDS, MOST_ROUNDS]);
    }

    #[test]
    fn what_cannot_run_is_left_out_and_an_error_ends_it() {
        let mut heats = [Heat::new(3, Seconds(0.0))];
        let times = |contender: usize| (contender != 1).then_some(Seconds(1.0 + contender as f64));
        run(&mut heats, 60, |c| Ok(times(c))).unwrap();
        assert_eq!((heats[0].time(1), heats[0].winner()), (None, None));
        assert!(
            run(&mut heats, 60, |_| Err(Error::lost("gone"))).is_ok(),
            "nothing is left to run"
        );
        let mut new = [Heat::new(2, Seconds(0.0))];
        assert!(run(&mut new, 60, |_| Err(Error::lost("gone"))).is_err());
    }

    #[test]
    fn no_round_begins_that_does_not_end_in_time() {
        let mut heats = [Heat::new(2, Seconds(1e-6)), Heat::new(2, Seconds(100.0))];
        run(&mut heats, 10, |c| Ok(Some(Seconds(1.0 + c as f64)))).unwrap();
        assert_eq!((heats[0].times(0).len(), heats[1].times(0).len()), (LEAST_ROUNDS, 0));
    }

    #[test]
    fn a_race_goes_on_where_it_was() {
        let mut heats = [Heat::new(2, Seconds(0.0))];
        for _ in 0..2 {
            heats[0].add(&[(0, Seconds(2.0)), (1, Seconds(1.0))]);
        }
        let mut ran = 0;
        run(&mut heats, 60, |c| {
            ran += 1;
            Ok(Some(Seconds(2.0 - c as f64)))
        })
        .unwrap();
        assert_eq!((ran, heats[0].winner()), (2, Some(1)));
    }
}
