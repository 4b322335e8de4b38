//! Machines with two states, each of which lasts for many blocks.
//!
//! A hypervisor may move a virtual CPU to a core that shares no cache with the other: from then on every
//! message takes two to five times as long, until it moves it back after seconds or minutes. A fit to
//! both states describes neither. Blocks of different points cannot be compared, but each with the other
//! blocks of its own point; the sequence of states that explains all of them, with as few changes as
//! possible, is found by Viterbi's algorithm, in turns with the points' times and the states' ratios.

use std::collections::BTreeMap;

use super::held_out::{Part, bands, harder};
use super::point::is_fitted;
use super::{Fitted, gates};
use crate::base::order::sorted;
use crate::base::quantity::{Ratio, Seconds};
use crate::base::stats::{median, quantile};
use crate::machine::profile::StatedBands;
use crate::machine::sample::{Block, Samples};

/// The state of a machine that a fit does not describe.
#[derive(Debug, Clone)]
pub struct OtherState {
    /// The part of the blocks that were measured in it.
    pub part: Ratio,
    /// The fit of them; absent if they are too few.
    pub fit: Option<Box<Fitted>>,
}

/// The blocks of the state that is fitted, and of the other. Work that moves no messages is in both.
pub(super) struct Apart {
    pub main: Vec<Block>,
    pub other: Vec<Block>,
    /// The part of the other.
    pub part: Ratio,
}

/// The blocks of each state of a machine that shows two; only in memory, where both ends of a link are
/// processors that may move.
pub(super) fn apart(samples: &Samples) -> Option<Apart> {
    let slow = if samples.origin.is_in_memory() { slower(&samples.blocks) } else { None }?;
    let moved = || samples.blocks.iter().zip(&slow).filter(|(block, _)| block.op.moves_data());
    let part = moved().filter(|(_, slow)| **slow).count() as f64 / moved().count() as f64;
    let is_slow = 1.0 - part < ENOUGH;
    let of = |wanted: bool| {
        let own = samples.blocks.iter().zip(&slow);
        let own = own.filter(|(block, slow)| !block.op.moves_data() || **slow == wanted);
        own.map(|(block, _)| block.clone()).collect()
    };
    let part = Ratio(if is_slow { 1.0 - part } else { part });
    Some(Apart { main: of(is_slow), other: of(!is_slow), part })
}

impl Fitted {
    /// The same with a band for both states, and with the other state's parameters.
    pub(super) fn beside(mut self, other: Option<Self>, part: Ratio) -> Self {
        if let Some(other) = &other {
            self.bands = self.of_both(other, part);
        }
        self.other_state = Some(OtherState { part, fit: other.map(Box::new) });
        self.gates.extend(gates::states(&self));
        self
    }

    /// Bands of the times of both states, relative to the prediction for this one.
    fn of_both(&self, other: &Self, part: Ratio) -> StatedBands {
        let own = self.points.iter().zip(&self.predicted);
        let predicted: BTreeMap<_, _> =
            own.filter_map(|(p, time)| Some(((&p.op, p.ranks, p.size), (*time)?))).collect();
        let others = other.points.iter().filter(|p| !p.lost).filter_map(|p| {
            let predicted = *predicted.get(&(&p.op, p.ranks, p.size))?;
            Some((predicted, p.time(other.link.statistic).0 / predicted.0))
        });
        let others: Vec<(Seconds, f64)> = others.collect();
        let own = harder(&self.by_algorithm, &self.by_size);
        // Together they weigh as much as those of one state would.
        let weight = part.0 * own.len() as f64 / others.len().max(1) as f64;
        let own = own.iter().map(|told| Part { weight: 1.0 - part.0, ..Part::of(told) });
        let others = others.iter().map(|&(predicted, part)| Part { predicted, part, weight });
        bands(&own.chain(others).collect::<Vec<_>>(), self.alpha())
    }
}

/// Below this ratio of their times two states are one that varies.
const LEAST_RATIO: f64 = 1.4;
/// A state in which fewer of the blocks were measured is chance, and medians do without it.
const LEAST_PART: f64 = 0.03;
/// The faster state describes the machine if at least so many of the blocks were measured in it: what
/// prevails changes from minute to minute, what the faster one is does not.
const ENOUGH: f64 = 0.15;
/// Fewer blocks show no states.
const LEAST_BLOCKS: usize = 60;
/// Each block by itself must say what the sequence says, for so many of those that can.
const AGREE: f64 = 0.9;
/// A change of state costs as much as so many blocks that do not fit at all.
const CHANGE: f64 = 3.0;
/// Turns of assigning states and estimating their ratios: it settles within five.
const TURNS: usize = 12;
/// Blocks next to each other that show the first guess of a block's state.
const NEIGHBOURS: usize = 9;

/// A block's logarithm of its time, the point that it belongs to, and the class of its size: the larger
/// a message, the more of it waits for the farther cache.
struct Seen {
    block: usize,
    point: usize,
    class: usize,
    time: f64,
}

/// How much longer the slow state takes, by class of size, as a logarithm.
type Ratios = BTreeMap<usize, f64>;

/// For each block whether the machine was in the slower of its two states; `None` if it shows only one.
fn slower(blocks: &[Block]) -> Option<Vec<bool>> {
    let seen = seen(blocks);
    if seen.len() < LEAST_BLOCKS {
        return None;
    }
    let slow = [guess(&seen, quantile_of(0.0)), guess(&seen, quantile_of(0.5))];
    let slow = slow.into_iter().flatten().find_map(|guess| settled(&seen, guess))?;
    // Blocks that say nothing by themselves were measured in the state of the one before.
    let mut state = slow[0];
    let mut of: BTreeMap<usize, bool> = seen.iter().map(|s| s.block).zip(slow).collect();
    let mut next = |block: usize| {
        state = of.remove(&block).unwrap_or(state);
        state
    };
    Some((0..blocks.len()).map(&mut next).collect())
}

/// The sequence of states that follows from a guess; `None` if that shows no two states.
fn settled(seen: &[Seen], mut slow: Vec<bool>) -> Option<Vec<bool>> {
    let mut ratios = Ratios::new();
    for _ in 0..TURNS {
        ratios = self::ratios(seen, &slow, &fast(seen, &slow, &ratios));
        let next = sequence(seen, &fast(seen, &slow, &ratios), &ratios);
        if next == slow {
            break;
        }
        slow = next;
    }
    let part = slow.iter().filter(|slow| **slow).count() as f64 / slow.len() as f64;
    let usual = median(ratios.values().copied().collect())?;
    let both = (LEAST_PART..=1.0 - LEAST_PART).contains(&part);
    (both && usual >= LEAST_RATIO.ln() && agrees(seen, &slow, &ratios)).then_some(slow)
}

fn seen(blocks: &[Block]) -> Vec<Seen> {
    let mut points = BTreeMap::new();
    let numbered = blocks.iter().enumerate().filter(|(_, b)| is_fitted(b) && b.op.moves_data());
    numbered
        .filter_map(|(block, b)| {
            let time = median(b.quiet().iter().map(|span| span.0).collect())?.ln();
            let next = points.len();
            let point = *points.entry((&b.op, b.ranks, b.size)).or_insert(next);
            let class = b.size.0.max(1).ilog2() as usize / 4;
            Some(Seen { block, point, class, time })
        })
        .collect()
}

/// This quantile of numbers.
fn quantile_of(part: f64) -> impl Fn(Vec<f64>) -> f64 {
    move |numbers| quantile(&sorted(numbers), part)
}

/// A first guess: slow where the neighbours took clearly longer than elsewhere, relative to what `usual`
/// makes of a point's times. Its fastest block shows the fast state if that is seldom left; its median
/// shows the slow one if that is. Points that always took the same say nothing.
fn guess(seen: &[Seen], usual: impl Fn(Vec<f64>) -> f64) -> Option<Vec<bool>> {
    let mut times: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for s in seen {
        times.entry(s.point).or_default().push(s.time);
    }
    let range = |t: &[f64]| {
        let (low, high) =
            t.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &t| (a.min(t), b.max(t)));
        high - low
    };
    times.retain(|_, t| range(t) > LEAST_RATIO.ln());
    let usual: BTreeMap<usize, f64> = times.into_iter().map(|(p, t)| (p, usual(t))).collect();
    let longer: Vec<(usize, f64)> = (0..seen.len())
        .filter_map(|i| Some((i, seen[i].time - usual.get(&seen[i].point)?)))
        .collect();
    let around = |i: usize| {
        let from = i.saturating_sub(NEIGHBOURS / 2);
        let near = &longer[from..(from + NEIGHBOURS).min(longer.len())];
        median(near.iter().map(|(_, time)| *time).collect())
    };
    let smooth: Vec<f64> = (0..longer.len()).filter_map(around).collect();
    if smooth.len() < LEAST_BLOCKS / 2 {
        return None;
    }
    let (low, high) = (quantile_of(LEAST_PART / 2.0), quantile_of(1.0 - LEAST_PART / 2.0));
    let (low, high) = (low(smooth.clone()), high(smooth.clone()));
    let middle = f64::midpoint(low, high);
    let near = |i: usize| longer.partition_point(|(at, _)| *at < i).min(smooth.len() - 1);
    (high - low > LEAST_RATIO.ln())
        .then(|| (0..seen.len()).map(|i| smooth[near(i)] > middle).collect())
}

/// The time of each point in the fast state, from its blocks in both where the ratios are known: a few
/// that were assigned wrongly must not decide.
fn fast(seen: &[Seen], slow: &[bool], ratios: &Ratios) -> BTreeMap<usize, f64> {
    let usual = median(ratios.values().copied().collect());
    let mut of: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
    for (s, slow) in seen.iter().zip(slow) {
        let by = ratios.get(&s.class).copied().or(usual).unwrap_or(LEAST_RATIO.ln());
        let time = if *slow { s.time - by } else { s.time };
        of.entry(s.point).or_default()[usize::from(*slow)].push(time);
    }
    let time = |(point, [fast, slow]): (usize, [Vec<f64>; 2])| {
        let own = match (usual, fast.is_empty()) {
            (None, false) => fast,
            _ => [fast, slow].concat(),
        };
        Some((point, median(own)?))
    };
    of.into_iter().filter_map(time).collect()
}

/// The ratios, from points that were measured in both.
fn ratios(seen: &[Seen], slow: &[bool], fast: &BTreeMap<usize, f64>) -> Ratios {
    let both = in_both(seen, slow);
    let mut of: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (s, _) in seen.iter().zip(slow).filter(|(s, slow)| **slow && both[s.point]) {
        of.entry(s.class).or_default().push(s.time - fast[&s.point]);
    }
    of.into_iter().filter_map(|(class, longer)| Some((class, median(longer)?))).collect()
}

/// Whether a point has blocks in both states.
fn in_both(seen: &[Seen], slow: &[bool]) -> Vec<bool> {
    let points = seen.iter().map(|s| s.point + 1).max().unwrap_or(0);
    let mut of = vec![[false; 2]; points];
    for (s, slow) in seen.iter().zip(slow) {
        of[s.point][usize::from(*slow)] = true;
    }
    of.into_iter().map(|[fast, slow]| fast && slow).collect()
}

/// How far a block is from each state, in ratios of the two, at most 1.
fn far(s: &Seen, fast: &BTreeMap<usize, f64>, ratios: &Ratios) -> [f64; 2] {
    let Some(by) = ratios.get(&s.class).filter(|by| **by > 0.0) else { return [0.0; 2] };
    let off = (s.time - fast[&s.point]) / by;
    [off.abs().min(1.0), (off - 1.0).abs().min(1.0)]
}

/// The sequence of states that is nearest to all blocks, changes counted.
fn sequence(seen: &[Seen], fast: &BTreeMap<usize, f64>, ratios: &Ratios) -> Vec<bool> {
    let mut cost = [0.0, 0.0];
    let mut came = Vec::with_capacity(seen.len());
    for s in seen {
        let far = far(s, fast, ratios);
        let from =
            [0, 1].map(|to: usize| if cost[1 - to] + CHANGE < cost[to] { 1 - to } else { to });
        let change = |to: usize| if from[to] == to { 0.0 } else { CHANGE };
        cost = [0, 1].map(|to| cost[from[to]] + change(to) + far[to]);
        came.push(from);
    }
    let mut state = usize::from(cost[1] < cost[0]);
    let mut slow: Vec<bool> = came
        .iter()
        .rev()
        .map(|from| {
            let own = state;
            state = from[state];
            own == 1
        })
        .collect();
    slow.reverse();
    slow
}

/// Whether blocks of points that were measured in both states say the same by themselves.
fn agrees(seen: &[Seen], slow: &[bool], ratios: &Ratios) -> bool {
    let fast = fast(seen, slow, ratios);
    let both = in_both(seen, slow);
    let own: Vec<bool> = seen
        .iter()
        .zip(slow)
        .filter(|(s, _)| both[s.point])
        .map(|(s, slow)| {
            let [to_fast, to_slow] = far(s, &fast, ratios);
            (to_slow < to_fast) == *slow
        })
        .collect();
    let same = own.iter().filter(|same| **same).count() as f64;
    own.len() >= LEAST_BLOCKS / 2 && same >= AGREE * own.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Bytes;
    use crate::base::random::Random;
    use crate::machine::sample::{Clock, Mode, Sample};

    /// Blocks of eight operations of fifteen sizes in shuffled order, three times; `state` says by how
    /// much the k-th of them takes longer.
    fn blocks(state: impl Fn(usize, Bytes) -> f64) -> Vec<Block> {
        let mut random = Random::new(7);
        let mut blocks = Vec::new();
        for launch in 0..3 {
            let mut points: Vec<(u32, u32)> =
                (1..9).flat_map(|n| (3..18).map(move |k| (n, k))).collect();
            random.shuffle(&mut points);
            for (segments, power) in points {
                let size = Bytes(1 << power);
                let time = (1e-7 + size.0 as f64 * 1e-10) * f64::from(segments);
                let noise = 1.0 + 0.1 * (random.below(1000) as f64 / 1000.0 - 0.5);
                let span = Seconds(time * noise * state(blocks.len(), size));
                blocks.push(Block {
                    op: format!("allreduce/double-binary-tree/P={segments}").parse().unwrap(),
                    ranks: 2,
                    nodes: None,
                    size,
                    launch,
                    block: blocks.len() as u32,
                    mode: Mode::Isolated,
                    inner: 1,
                    preempted: None,
                    clock: Clock::default(),
                    chose: None,
                    samples: vec![Sample::of(span); 5],
                });
            }
        }
        blocks
    }

    /// Bytes suffer more than starts do.
    fn longer(size: Bytes) -> f64 {
        if size.0 > 4096 { 4.5 } else { 2.5 }
    }

    #[test]
    fn two_states_are_told_apart() {
        let cases: [&[(usize, usize)]; 4] =
            [&[(30, 150)], &[(0, 40), (100, 130), (300, 360)], &[(90, 330)], &[(30, 360)]];
        for slow in cases {
            let is_slow = |k: usize| slow.iter().any(|(from, to)| (*from..*to).contains(&k));
            let blocks = blocks(|k, size| if is_slow(k) { longer(size) } else { 1.0 });
            let found = slower(&blocks).unwrap();
            let wrong = (0..blocks.len()).filter(|&k| found[k] != is_slow(k)).count();
            assert!(wrong <= 6, "{slow:?}: {wrong} of {} blocks", blocks.len());
        }
    }

    #[test]
    fn one_state_is_one() {
        assert_eq!(slower(&blocks(|_, _| 1.0)), None);
        // One that slows down by and by, one that is slow now and then, and one whose blocks are slow at
        // random, as when others use the memory.
        assert_eq!(slower(&blocks(|k, _| 1.0 + k as f64 / 1500.0)), None);
        assert_eq!(slower(&blocks(|k, size| if k % 40 < 2 { longer(size) } else { 1.0 })), None);
        assert_eq!(
            slower(&blocks(|k, size| if k * 7919 % 13 < 5 { longer(size) } else { 1.0 })),
            None
        );
        assert_eq!(slower(&blocks(|_, size| longer(size))), None);
    }
}
