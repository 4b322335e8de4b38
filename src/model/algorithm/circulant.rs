//! Circulant graphs: round-optimal broadcast, reduce and all-reduce; the hypercube's pipeline.
//!
//! ```text
//!   N = 6: skips 1, 2, 3, used in turn
//!   round i   r ──► r + skip[i mod ⌈lg N⌉]     every rank sends and receives one block a round
//! ```
//!
//! `circulant`, broadcast and reduce of P blocks: (⌈lg N⌉ + P − 1)(α + M/(P·BW)), at any N. No
//! schedule on one port has fewer rounds. Träff's receive schedule determines which block goes when;
//! the reduce is the broadcast reversed. The best P is √((⌈lg N⌉ − 1)·M/(α·BW)). `binomial-pipeline`
//! reaches the same on a hypercube, N = 2^d, with dimension t mod d in round t.
//!
//! `circulant-rs-ag`: the reversal of Bruck's all-gather, then that all-gather, 2⌈lg N⌉·α + 2(N −
//! 1)/N·M/BW, at any N. Counting only α and β it is never worse than the ring, than Rabenseifner
//! with a fold, or than a double binary tree on one port. Those have the advantage of local links
//! and contiguous buffers.
//!
//! `circulant-pipelined`: the reduce of P blocks, then the broadcast,
//! 2(⌈lg N⌉ + P − 1)(α + M/(P·BW)).
//!
//! All are exact on one full-duplex port (the pipelined ones with a barrier after each round). With
//! further ports rounds may overlap, so these are upper bounds. One half-duplex port: ×3 at most, ×2
//! for the hypercube's pairs.

mod pipeline;

use super::bruck::{Doubling, gather_rounds};
use super::rounds::{LogGather, exchange_turns, gather_schedule, repeat, shift_turns};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{AllReduce, Broadcast, Reduce};
use crate::model::formula::{At, Cost, Field, Ports, Shape, ceil_lg};
use crate::model::schedule::Schedule;
use crate::model::schedule::combine::Then;
use pipeline::{Blocks, Hypercube};

/// The circulant algorithms.
pub static FAMILY: &[&dyn Algorithm] =
    &[&Circulant, &BinomialPipeline, &SCATTER_GATHER, &Pipelined];

fn guarantee(shape: &Shape) -> Guarantee {
    Guarantee::on_one_port(shape)
}

/// ⌈lg N⌉ + P − 1 rounds of one block, `turns` times.
fn pipeline_cost<F: Field>(v: &At<F>, turns: u32) -> Cost<F> {
    let rounds = v.ceil_lg() + v.p.clone() - F::int(1);
    let volume = rounds.clone() / v.p.clone();
    let gamma = if v.shape.collective.reduces() { volume.clone() } else { F::int(0) };
    let turns = F::int(turns.into());
    Cost::new(turns.clone() * rounds, turns * volume).reducing(gamma)
}

/// The root of a broadcast sends in every round; in a reduce each block leaves a rank only once.
fn pipeline_sent<F: Field>(v: &At<F>) -> F {
    if v.shape.collective == Reduce {
        return F::int(1);
    }
    (v.ceil_lg() + v.p.clone() - F::int(1)) / v.p.clone()
}

/// The skips 1 = s₀ < s₁ < … of N, halves rounded up.
pub(crate) fn skips(n: u32) -> Vec<u32> {
    let halves = std::iter::successors(Some(n), |&s| (s > 1).then(|| s.div_ceil(2)));
    let mut skips: Vec<u32> = halves.skip(1).collect();
    skips.reverse();
    skips
}

/// Each distance once, then `further` for every further segment.
///
/// In fact the rounds use the distances in turn. But the number of rounds per distance is not linear
/// in P, so the best P could not be derived from it. `further` stands for their mean, or for the
/// distances that cross domains.
fn pipeline_steps(
    shape: &Shape,
    turns: u32,
    (distances, further): (&[Route], Route),
    adds: bool,
    emit: &mut dyn FnMut(Step),
) {
    let p = shape.segments();
    let mut rounds = |count: u32, route: Route| {
        let step = Step::new(count, Share::new(1_u32, p), route);
        let step = Step { meets: (!shape.passes_on()).then_some(Share::NONE), ..step };
        repeat(if adds { step.reducing() } else { step }, turns, emit);
    };
    distances.iter().for_each(|&route| rounds(1, route));
    if p > 1 {
        rounds(p - 1, further);
    }
}

fn circulant_steps(shape: &Shape, adds: bool, emit: &mut dyn FnMut(Step)) {
    let n = shape.ranks;
    let distances: Vec<Route> = skips(n).into_iter().map(Route::Offset).collect();
    let routes = (&distances[..], Route::Skips);
    pipeline_steps(shape, shift_turns(shape), routes, adds, emit);
}

/// Träff's broadcast, and reduce, of P blocks.
struct Circulant;

impl ClosedForm for Circulant {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "circulant",
            title: "circulant (pipelined)",
            collectives: &[Broadcast, Reduce],
            aliases: &["circulant_bcast", "circulant_reduce"],
            known_as: &[],
            summary: "in round i rank r sends one block to rank r + skip[i mod ⌈lg N⌉]",
            source: "Träff, arXiv:2312.11236 and arXiv:2407.18004",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        pipeline_cost(v, shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        guarantee(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        pipeline_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        circulant_steps(shape, shape.collective.reduces(), emit);
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Blocks::new(shape.collective, shape.ranks, shape.segments())))
    }
}

/// The same pipeline on a hypercube.
struct BinomialPipeline;

impl ClosedForm for BinomialPipeline {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "binomial-pipeline",
            title: "binomial pipeline",
            collectives: &[Broadcast, Reduce],
            aliases: &["binomial_pipeline_bcast", "binomial_pipeline_reduce"],
            known_as: &[],
            summary: "in round t ranks exchange their newest blocks along dimension t mod d",
            source: "Ganesan, Seshadri, ICDCS 2005",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        if shape.is_power_of_two() {
            return Ok(());
        }
        Err(Reason::from(format!("{} ranks do not form a hypercube", shape.ranks)))
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        pipeline_cost(v, exchange_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        guarantee(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        pipeline_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        let distances: Vec<Route> = (0..ceil_lg(n)).map(|k| Route::Xor(1 << k)).collect();
        let routes = (&distances[..], Route::Xor((n / 2) | 1));
        let adds = shape.collective.reduces();
        pipeline_steps(shape, exchange_turns(shape), routes, adds, emit);
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Hypercube::new(shape.collective, shape.ranks, shape.segments())))
    }
}

/// Reduce-scatter, then all-gather.
static SCATTER_GATHER: LogGather = LogGather {
    meta: &Meta {
        id: "circulant-rs-ag",
        title: "circulant",
        collectives: &[AllReduce],
        aliases: &["circulant", "circulant_rs_ag", "circulant_ar"],
        known_as: &[],
        summary: "Bruck's all-gather reversed, with additions, then Bruck's all-gather",
        source: "Träff, Optimal, non-pipelined reduce-scatter and allreduce, 2024",
    },
    rounds: gather_rounds,
    schedule: |shape| gather_schedule(shape, Doubling::backwards(shape.ranks)),
};

/// Reduce of P blocks, then broadcast.
struct Pipelined;

impl ClosedForm for Pipelined {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "circulant-pipelined",
            title: "circulant reduce + broadcast",
            collectives: &[AllReduce],
            aliases: &["circulant_pipelined"],
            known_as: &[],
            summary: "a circulant reduce of P blocks to rank 0, then the broadcast of the sums",
            source: "Träff, arXiv:2312.11236 and arXiv:2407.18004",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        pipeline_cost(v, 2 * shift_turns(&v.shape))
    }

    /// The broadcast of the first blocks begins while the last ones are still being reduced.
    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.ports == Ports::ONE { Guarantee::EqualInRounds } else { Guarantee::UpperBound }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let p = u64::from(v.shape.segments());
        let root = u64::from(ceil_lg(v.shape.ranks)) + p - 1;
        let most = root.max(p + most_forwarded(v.shape.ranks, p));
        F::int(most as i64) / v.p.clone()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        circulant_steps(shape, true, emit);
        circulant_steps(shape, false, emit);
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let part = |collective| Blocks::new(collective, shape.ranks, shape.segments());
        Some(Box::new(Then::new(AllReduce, part(Reduce), part(Broadcast))))
    }
}

/// The number of blocks that the busiest rank other than the root sends in a broadcast of p blocks.
fn most_forwarded(n: u32, p: u64) -> u64 {
    let skips = skips(n);
    let (p, q) = (p as i64, skips.len() as i64);
    // Rounds first … last; in round k + q·j the entry e means block e + q·j − first.
    let first = (q - (p - 1) % q) % q;
    let last = first + q + p - 2;
    let mut sends = vec![0_i64; n as usize];
    for to in 1..n {
        let receives = receive_schedule(n, &skips, to);
        for ((k, &skip), &entry) in (0_i64..).zip(&skips).zip(&receives) {
            let starts = (first - k).max(first - entry);
            let from = (starts + q - 1).div_euclid(q).max(0);
            let rounds = (last - k).div_euclid(q) - from + 1;
            sends[((to + n - skip) % n) as usize] += rounds.max(0);
        }
    }
    sends[1..].iter().copied().max().unwrap_or(0) as u64
}

/// The block that rank r receives in each round, as an offset to the number of past rounds.
fn receive_schedule(n: u32, skips: &[u32], r: u32) -> Vec<i64> {
    let q = skips.len();
    let mut full: Vec<u64> = skips.iter().map(|&s| s.into()).collect();
    // skip[q] is N, and skip[q + 1] is never reached.
    full.extend([u64::from(n), u64::MAX / 2]);
    let base = base_block(&full[..q], r.into());
    let order: Vec<usize> = (0..=q).rev().filter(|&e| e != base).collect();
    let mut search = Search {
        skips: &full,
        target: u64::from(n) + u64::from(r),
        limit: 2 * u64::from(n),
        next: vec![END; q + 2],
        before: vec![q + 1; q + 2],
        blocks: Vec::new(),
    };
    let mut before = q + 1;
    for e in order {
        search.next[before] = e;
        search.before[e] = before;
        before = e;
    }
    search.extend(0, search.next[q + 1]);
    let entry = |&e: &usize| if e == q { base as i64 } else { e as i64 - q as i64 };
    search.blocks.iter().map(entry).collect()
}

const END: usize = usize::MAX;

/// The first skip at which the greedy sum of skips up to r hits r; q for r = 0.
fn base_block(skips: &[u64], r: u64) -> usize {
    let mut sum = 0;
    for (k, &skip) in skips.iter().enumerate().rev() {
        if sum + skip == r {
            return k;
        }
        if sum + skip < r {
            sum += skip;
        }
    }
    skips.len()
}

/// The depth-first search over sums of skips that finds a receive schedule.
struct Search<'a> {
    skips: &'a [u64],
    target: u64,
    limit: u64,
    /// The remaining blocks, as a linked list; its head has the index q + 1.
    next: Vec<usize>,
    before: Vec<usize>,
    blocks: Vec<usize>,
}

impl Search<'_> {
    fn is_done(&self) -> bool {
        self.blocks.len() + 2 == self.skips.len()
    }

    /// Picks blocks from e on for the rounds that have none, at the sum of skips `sum`.
    fn extend(&mut self, sum: u64, mut e: usize) {
        while e != END {
            let here = sum + self.skips[e];
            let round = self.blocks.len();
            if here <= self.target - self.skips[round] && here < self.limit {
                // The signed comparison: skip[q + 1] is larger than any target.
                if here + self.skips[round + 1] <= self.target {
                    self.extend(here, e);
                    if self.is_done() {
                        return;
                    }
                }
                let round = self.blocks.len();
                if sum + self.skips[round + 1] > self.target {
                    return;
                }
                self.limit = here;
                self.blocks.push(e);
                self.unlink(e);
                if self.is_done() {
                    return;
                }
            }
            e = self.next[e];
        }
    }

    fn unlink(&mut self, e: usize) {
        let (before, next) = (self.before[e], self.next[e]);
        self.next[before] = next;
        if next != END {
            self.before[next] = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_halves_rounded_up() {
        assert_eq!(skips(6), [1, 2, 3]);
        assert_eq!(skips(17), [1, 2, 3, 5, 9]);
        assert_eq!(skips(2), [1]);
    }

    /// Every rank except the root receives every block, from a rank that has it.
    #[test]
    fn the_receive_schedule_delivers() {
        for n in 2..=40_u32 {
            let skips = skips(n);
            let q = skips.len();
            let table: Vec<_> = (0..n).map(|r| receive_schedule(n, &skips, r)).collect();
            for p in [1_i64, 2, 3, 7] {
                let q_i = q as i64;
                let first = (q_i - (p - 1) % q_i) % q_i;
                let mut has = vec![vec![false; p as usize]; n as usize];
                has[0].fill(true);
                let mut sent = vec![0_u64; n as usize];
                for i in first..first + q_i + p - 1 {
                    let k = (i % q_i) as usize;
                    let block = |to: u32| table[to as usize][k] + q_i * (i / q_i) - first;
                    let mut arrived = Vec::new();
                    for r in 0..n {
                        let to = (r + skips[k]) % n;
                        if to == 0 || block(to) < 0 {
                            continue;
                        }
                        let b = block(to).min(p - 1) as usize;
                        assert!(has[r as usize][b], "N = {n}, P = {p}, round {i}, rank {r}");
                        sent[r as usize] += 1;
                        arrived.push((to as usize, b));
                    }
                    arrived.into_iter().for_each(|(to, b)| has[to][b] = true);
                }
                assert!(has.iter().flatten().all(|&b| b), "N = {n}, P = {p}");
                assert_eq!(sent[0], (q_i + p - 1) as u64);
                let most = sent[1..].iter().copied().max();
                assert_eq!(most, Some(most_forwarded(n, p as u64)), "N = {n}, P = {p}");
            }
        }
    }
}
