//! All-to-all on large graphs: the largest concurrent flow of all pairs, between two bounds.
//!
//! Lengths of links prove an upper bound on every flow: Σ rate·length over the sum of all distances
//! (Leighton, Rao, J. ACM 46(6) 1999). A given flow is a lower bound. Each step sends one unit from
//! each rank to each other over the shortest paths, under lengths that grow exponentially with the
//! load of links (Garg, Könemann, SIAM J. Comput. 37(2) 2007), and moves the flow towards that, as
//! long as the sum of these exponentials falls (Frank, Wolfe, Naval Research Logistics 3, 1956). A few
//! ranks at a time move their own flow, by as much as suits them, and the others' lengths follow at
//! once (Lacoste-Julien, Jaggi, Schmidt, Pletscher, ICML 2013, arXiv 1207.4747): that needs a tenth
//! of the steps. Equally short paths share in proportion to their rates, so a graph with equal links
//! needs only one step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::base::quantity::nearest;
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// The relative gap allowed between the bounds.
const GAP: f64 = 0.01;
/// The most link visits: less than a minute.
pub(super) const WORK: u64 = 1 << 31;
/// As many as take no time: on graphs with equal links one step is enough.
pub(super) const LITTLE: u64 = 1 << 22;
/// How sharply the sum of exponentials follows the fullest link, for a gap of 1 between the bounds: smooth
/// at first, which is far faster on most graphs, up to what is certain to follow it.
const SHARP: Range<f64> = 0.1..1.0;
/// By how much sharper it gets if the gap has hardly become smaller since the last proof.
const SHARPER: f64 = 1.5;
const HARDLY: f64 = 0.9;
/// Every second proof is by lengths so many times as sharp: where links are unlike, they prove more.
const EDGE: f64 = 10.0;
/// Ranks move in so many parts, or fewer: their own flows are kept.
const PARTS: usize = 128;
/// The most uses of links that are kept of all parts.
const KEPT: usize = 1 << 23;
/// Every so many passes all ranks see the same lengths, which prove a bound.
const PROOF: u64 = 8;
/// How exactly a step's length is found: to 2^-12 of it.
const HALVINGS: u32 = 12;
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

/// Bounds on what every pair can send at once, by so many link visits; `None` if one pass alone takes more.
pub(super) fn between(graph: &Graph, rates: &[i64], work: u64) -> Option<Between> {
    let links = graph.links.len();
    let mut flow = Flow::new(graph.ranks as usize, links);
    // A step's length looks at about half of the links each time.
    let pass = u64::from(graph.ranks) * (graph.nodes.len() + 2 * links) as u64
        + u64::from(HALVINGS / 2) * (flow.parts.len() * links) as u64;
    let all = rates.iter().try_fold(0_i64, |all, &rate| all.checked_add(rate))?;
    let long = ((1 << 60) / all).min(LONG[0]);
    if pass > work || long < LONG[1] {
        return None;
    }
    let slowest = rates.iter().copied().min()? as f64;
    let length =
        |weight: f64, rate: i64| 1 + (weight.min(1.0) * slowest / rate as f64 * long as f64) as u64;
    let mut lengths: Vec<u64> = rates.iter().map(|&rate| length(1.0, rate)).collect();
    let mut ways = Ways::new(graph, rates);
    let mut proven: Option<(Rational, Vec<u64>)> = None;
    let (mut follows, mut last) = (SHARP.start, f64::INFINITY);
    let (mut sharp, mut fullest) = (0.0, 0.0);
    for pass in 0..work / pass {
        let weight = |used: f64| (sharp * (used - fullest)).exp();
        let seen_by_all = (pass % PROOF == 0).then(|| match pass / PROOF % 2 {
            0 => lengths.clone(),
            _ => {
                let each = flow.used.iter().zip(rates);
                each.map(|(&used, &rate)| length(weight(used).powf(EDGE), rate)).collect()
            }
        });
        let mut distances = 0;
        for part in 0..flow.parts.len() {
            let seen = seen_by_all.as_ref().unwrap_or(&lengths);
            distances += ways.route(flow.ranks(part), seen);
            flow.approach(part, &ways.uses, &weight);
            for &link in &flow.moved {
                lengths[link] = length(weight(flow.used[link]), rates[link]);
            }
        }
        let is_proof = seen_by_all.is_some();
        if let Some(seen) = seen_by_all {
            let bound = bound(rates, &seen, distances)?;
            if proven.as_ref().is_none_or(|(most, _)| bound < *most) {
                proven = Some((bound, seen));
            }
        }
        fullest = flow.fullest();
        let gap = nearest(proven.as_ref()?.0) * fullest - 1.0;
        if gap <= GAP {
            break;
        }
        if is_proof {
            if gap > HARDLY * last {
                follows = (follows * SHARPER).min(SHARP.end);
            }
            last = gap;
        }
        // Sharper as the bounds approach each other: a sum of exponentials approximates the
        // maximum.
        sharp = follows * (rates.len() as f64).ln() / gap / fullest;
        for (length_of, (&used, &rate)) in lengths.iter_mut().zip(flow.used.iter().zip(rates)) {
            *length_of = length((sharp * (used - fullest)).exp(), rate);
        }
    }
    let (most, lengths) = proven?;
    let lengths = lengths.into_iter().map(i128::from).collect();
    Some(Between { most, lengths, reached: 1.0 / flow.fullest() })
}

/// What lengths prove of every pair: Σ rate·length over the sum of all distances.
fn bound(rates: &[i64], lengths: &[u64], distances: i128) -> Option<Rational> {
    let all = rates.iter().zip(lengths);
    let all: i128 = all.map(|(&rate, &length)| i128::from(rate) * i128::from(length)).sum();
    (distances > 0).then(|| Rational::new(all, distances))
}

/// One unit from each rank to each other.
struct Flow {
    count: usize,
    /// The use of each link, by all and by the ranks of each part.
    used: Vec<f64>,
    parts: Vec<Vec<f64>>,
    /// The links whose use the last step changed.
    moved: Vec<usize>,
}

impl Flow {
    fn new(count: usize, links: usize) -> Self {
        let parts = PARTS.min(count).min(KEPT / links.max(1)).max(1);
        Self { count, used: vec![0.0; links], parts: vec![Vec::new(); parts], moved: Vec::new() }
    }

    fn ranks(&self, part: usize) -> Range<Node> {
        let start = |part: usize| (part * self.count / self.parts.len()) as Node;
        start(part)..start(part + 1)
    }

    fn fullest(&self) -> f64 {
        self.used.iter().copied().fold(0.0, f64::max)
    }

    /// Moves a part's flow towards `new`, as far as the sum of all weights' integrals falls.
    fn approach(&mut self, part: usize, new: &[f64], weight: &impl Fn(f64) -> f64) {
        let Self { used, parts, moved, .. } = self;
        let own = &mut parts[part];
        // All of it if nothing flows yet.
        let is_first = own.is_empty();
        own.resize(new.len(), 0.0);
        moved.clear();
        moved.extend((0..new.len()).filter(|&link| new[link] != own[link]));
        // The derivative grows with the part of the way.
        let slope = |part: f64| -> f64 {
            let one = |&link: &usize| {
                let step = new[link] - own[link];
                weight(used[link] + part * step) * step
            };
            moved.iter().map(one).sum()
        };
        let (mut low, mut high) = (1.0, 1.0);
        if !is_first && slope(1.0) > 0.0 {
            low = 0.0;
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                if slope(middle) > 0.0 { high = middle } else { low = middle }
            }
        }
        for &link in &*moved {
            let step = low * (new[link] - own[link]);
            own[link] += step;
            used[link] += step;
        }
    }
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

    /// Sends one unit from each of `ranks` to each other rank; returns the sum of their distances.
    fn route(&mut self, ranks: Range<Node>, lengths: &[u64]) -> i128 {
        self.uses.clear();
        self.uses.resize(lengths.len(), 0.0);
        let mut distances = 0;
        for rank in ranks {
            self.reach(rank, lengths);
            let far = &self.far[..self.graph.ranks as usize];
            distances += far.iter().map(|&far| i128::from(far)).sum::<i128>();
            self.send(lengths);
        }
        distances
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
