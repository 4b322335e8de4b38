//! All-to-all on large graphs: the largest concurrent flow of all pairs, between two bounds.
//!
//! Lengths of links prove an upper bound on every flow: Σ rate·length over the sum of all distances
//! (Leighton, Rao, J. ACM 46(6) 1999). A given flow is a lower bound. Each step sends one unit from
//! each rank to each other over the shortest paths, under lengths that grow exponentially with the
//! load of links (Garg, Könemann, SIAM J. Comput. 37(2) 2007), and moves the flow towards that, as
//! long as the sum of these exponentials falls (Frank, Wolfe, Naval Research Logistics 3, 1956).
//! Equally short paths share in proportion to their rates, so a graph with equal links needs only
//! one step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::quantity::nearest;
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// The relative gap allowed between the bounds.
const GAP: f64 = 0.01;
/// The most link visits: less than a minute.
const WORK: u64 = 1 << 31;
/// How much closer the sum of exponentials is to the maximum than the bounds are to each other.
const SHARP: f64 = 6.0;
/// The largest possible longest link, and the smallest; rates times lengths stay far below 64 bits.
const LONG: [i64; 2] = [1 << 32, 1 << 16];

/// An upper bound on what every pair can send, and a value known to be attainable, in the integer
/// rates' unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Between {
    pub most: Rational,
    /// Lengths that prove the upper bound.
    pub lengths: Vec<i128>,
    pub reached: f64,
}

/// Bounds on what every pair can send at once; `None` if one step alone takes too long.
pub(super) fn between(graph: &Graph, rates: &[i64]) -> Option<Between> {
    let step = u64::from(graph.ranks) * (graph.nodes.len() + 2 * graph.links.len()) as u64;
    let all = rates.iter().try_fold(0_i64, |all, &rate| all.checked_add(rate))?;
    let long = ((1 << 60) / all).min(LONG[0]);
    if step > WORK || long < LONG[1] {
        return None;
    }
    let mut ways = Ways::new(graph, rates);
    let slowest = rates.iter().copied().min()? as f64;
    let length = |used: f64, &rate: &i64| 1 + (used * slowest / rate as f64 * long as f64) as u64;
    let mut proof: Vec<u64> = rates.iter().map(|rate| length(1.0, rate)).collect();
    let mut most = ways.route(&proof)?;
    let mut used = ways.uses.clone();
    // The target of the last step.
    let mut target = used.clone();
    for _ in 1..WORK / step {
        let fullest = fullest(&used);
        let gap = nearest(most) * fullest - 1.0;
        if gap <= GAP {
            break;
        }
        // Sharper as the bounds approach each other: a sum of exponentials approximates the
        // maximum.
        let sharp = SHARP * (rates.len() as f64).ln() / gap / fullest;
        let weight = |used: f64| (sharp * (used - fullest)).exp();
        let weights: Vec<f64> = used.iter().map(|&used| weight(used)).collect();
        let lengths: Vec<u64> =
            weights.iter().zip(rates).map(|(&w, rate)| length(w, rate)).collect();
        let bound = ways.route(&lengths)?;
        if bound < most {
            (most, proof) = (bound, lengths);
        }
        let keep = conjugate(&used, &target, &ways.uses, &weights);
        for (target, new) in target.iter_mut().zip(&ways.uses) {
            *target = keep * *target + (1.0 - keep) * new;
        }
        let part = best_part(&used, &target, &weight);
        used.iter_mut().zip(&target).for_each(|(used, target)| *used += part * (target - *used));
    }
    let lengths = proof.into_iter().map(i128::from).collect();
    Some(Between { most, lengths, reached: 1.0 / fullest(&used) })
}

fn fullest(used: &[f64]) -> f64 {
    used.iter().copied().fold(0.0, f64::max)
}

/// The part of the last target to keep in the next, so that the step does not undo the last one
/// (Mitradjieva, Lindberg, Transportation Science 47(2) 2013).
fn conjugate(used: &[f64], last: &[f64], new: &[f64], weights: &[f64]) -> f64 {
    let (mut both, mut own) = (0.0, 0.0);
    for (((used, last), new), weight) in used.iter().zip(last).zip(new).zip(weights) {
        both += weight * (last - used) * (new - used);
        own += weight * (last - used) * (new - last);
    }
    if own == 0.0 { 0.0 } else { (both / own).clamp(0.0, 0.99) }
}

/// How far to go towards `target` to minimize the sum of all weights' integrals.
fn best_part(used: &[f64], target: &[f64], weight: &impl Fn(f64) -> f64) -> f64 {
    // The derivative grows with the part.
    let slope = |part: f64| -> f64 {
        let moves = used.iter().zip(target);
        moves.map(|(used, target)| weight(used + part * (target - used)) * (target - used)).sum()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        if slope(middle) > 0.0 { high = middle } else { low = middle }
    }
    low
}

/// Shortest paths from one rank after another.
struct Ways<'a> {
    graph: &'a Graph,
    rates: &'a [i64],
    leaving: Vec<Vec<u32>>,
    entering: Vec<Vec<u32>>,
    /// The distances of nodes from the current rank, and the order in which they were reached.
    far: Vec<u64>,
    order: Vec<Node>,
    units: Vec<f64>,
    /// The use of each link.
    uses: Vec<f64>,
}

impl<'a> Ways<'a> {
    fn new(graph: &'a Graph, rates: &'a [i64]) -> Self {
        let mut entering = vec![Vec::new(); graph.nodes.len()];
        for (i, link) in (0..).zip(&graph.links) {
            entering[link.to as usize].push(i);
        }
        let (far, order, units, uses) = Default::default();
        Self { graph, rates, leaving: graph.leaving(), entering, far, order, units, uses }
    }

    /// Sends one unit from each rank to each other; returns the upper bound for every pair that
    /// these lengths prove.
    fn route(&mut self, lengths: &[u64]) -> Option<Rational> {
        self.uses.clear();
        self.uses.resize(lengths.len(), 0.0);
        let mut distances = 0;
        for rank in 0..self.graph.ranks {
            self.reach(rank, lengths);
            let far = &self.far[..self.graph.ranks as usize];
            distances += far.iter().map(|&far| i128::from(far)).sum::<i128>();
            self.send(lengths);
        }
        let all = self.rates.iter().zip(lengths);
        let all: i128 = all.map(|(&rate, &length)| i128::from(rate) * i128::from(length)).sum();
        (distances > 0).then(|| Rational::new(all, distances))
    }

    /// Sends one unit from the current rank to each other.
    fn send(&mut self, lengths: &[u64]) {
        let Self { graph, rates, entering, far, order, units, uses, .. } = self;
        units.clear();
        units.resize(far.len(), 0.0);
        for &node in order.iter().skip(1).rev() {
            units[node as usize] += f64::from(u8::from(graph.is_rank(node)));
            let here = units[node as usize];
            if here == 0.0 {
                continue;
            }
            // Flow into a node arrives over all its links on shortest paths.
            let from = |link: usize| graph.links[link].from as usize;
            let is_short = |&link: &usize| {
                far[from(link)].checked_add(lengths[link]) == Some(far[node as usize])
            };
            let short =
                || entering[node as usize].iter().map(|&link| link as usize).filter(is_short);
            let all: i64 = short().map(|link| rates[link]).sum();
            for link in short() {
                let each = here / all as f64;
                uses[link] += each;
                units[from(link)] += each * rates[link] as f64;
            }
        }
    }

    /// Dijkstra from one rank.
    fn reach(&mut self, rank: Node, lengths: &[u64]) {
        let Self { graph, leaving, far, order, .. } = self;
        far.clear();
        far.resize(graph.nodes.len(), u64::MAX);
        order.clear();
        far[rank as usize] = 0;
        let mut open = BinaryHeap::from([Reverse((0, rank))]);
        while let Some(Reverse((distance, node))) = open.pop() {
            if distance > far[node as usize] {
                continue;
            }
            order.push(node);
            for &link in &leaving[node as usize] {
                let to = graph.links[link as usize].to;
                let next = distance + lengths[link as usize];
                if next < far[to as usize] {
                    far[to as usize] = next;
                    open.push(Reverse((next, to)));
                }
            }
        }
    }
}
