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
//!
//! Ranks with one cable to the same switch are alike to everything behind it: they start there together,
//! and what their own links carry is the same in every flow.

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
    let starts = Starts::new(graph);
    let mut flow = Flow::new(&starts, rates);
    // A step's length looks at about half of the links each time.
    let pass = starts.visits(graph) + u64::from(HALVINGS / 2) * (flow.parts.len() * links) as u64;
    let all = rates.iter().try_fold(0_i64, |all, &rate| all.checked_add(rate))?;
    let long = ((1 << 60) / all).min(LONG[0]);
    if pass > work || long < LONG[1] {
        return None;
    }
    let slowest = rates.iter().copied().min()? as f64;
    let length =
        |weight: f64, rate: i64| 1 + (weight.min(1.0) * slowest / rate as f64 * long as f64) as u64;
    let mut lengths: Vec<u64> = rates.iter().map(|&rate| length(1.0, rate)).collect();
    let mut ways = Ways::new(graph, rates, &starts);
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
            distances += ways.route(flow.starts(part), seen);
            flow.approach(part, &ways.uses, &weight);
            for &link in &flow.moved {
                lengths[link] = length(weight(flow.used[link]), rates[link]);
            }
        }
        let is_proof = seen_by_all.is_some();
        if let Some(seen) = seen_by_all {
            let bound = bound(rates, &seen, distances + starts.own_distances(&seen))?;
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

/// What lengths prove of every pair; `None` if no pair is apart, or they are too long.
pub(super) fn proven_by(graph: &Graph, rates: &[i64], lengths: &[i128]) -> Option<Rational> {
    let fits =
        |&length: &i128| u64::try_from(length).ok().filter(|&length| length <= LONG[0] as u64);
    let lengths: Vec<u64> = lengths.iter().map(fits).collect::<Option<_>>()?;
    let starts = Starts::new(graph);
    let mut ways = Ways::new(graph, rates, &starts);
    let distances: i128 = (0..starts.all.len())
        .map(|start| {
            ways.reach(starts.all[start], &lengths);
            ways.distances(start)
        })
        .sum();
    bound(rates, &lengths, distances + starts.own_distances(&lengths))
}

/// Σ rate·length over the sum of all distances.
fn bound(rates: &[i64], lengths: &[u64], distances: i128) -> Option<Rational> {
    let all = rates.iter().zip(lengths);
    let all: i128 = all.map(|(&rate, &length)| i128::from(rate) * i128::from(length)).sum();
    (distances > 0).then(|| Rational::new(all, distances))
}

/// Where the ranks' paths begin and end: at themselves, or at the switch that their only cable leads to.
struct Starts {
    all: Vec<Node>,
    /// How many ranks start at each node.
    ranks: Vec<u32>,
    /// N, and the links of ranks that start at a switch.
    count: u32,
    is_own: Vec<bool>,
}

impl Starts {
    fn new(graph: &Graph) -> Self {
        // How many links leave and enter each node, and where the last of them leads to or comes from.
        let (mut to, mut from) = (vec![(0, 0); graph.nodes.len()], vec![(0, 0); graph.nodes.len()]);
        for link in &graph.links {
            let (a, b) = (&mut to[link.from as usize], &mut from[link.to as usize]);
            (*a, *b) = ((a.0 + 1, link.to), (b.0 + 1, link.from));
        }
        let of = |rank: Node| match (to[rank as usize], from[rank as usize]) {
            ((1, to), (1, from)) if to == from && !graph.is_rank(to) => to,
            _ => rank,
        };
        let mut ranks = vec![0; graph.nodes.len()];
        (0..graph.ranks).for_each(|rank| ranks[of(rank) as usize] += 1);
        let is_own = |node: Node| graph.is_rank(node) && of(node) != node;
        Self {
            all: (0..).zip(&ranks).filter(|(_, ranks)| **ranks > 0).map(|(node, _)| node).collect(),
            ranks,
            count: graph.ranks,
            is_own: graph.links.iter().map(|link| is_own(link.from) || is_own(link.to)).collect(),
        }
    }

    /// The link visits of one search from each start.
    fn visits(&self, graph: &Graph) -> u64 {
        let links = self.is_own.iter().filter(|is_own| !**is_own).count();
        self.all.len() as u64 * (graph.nodes.len() + 2 * links) as u64
    }

    /// The part of all distances that lies on ranks' own links: each leads from or to all others.
    fn own_distances(&self, lengths: &[u64]) -> i128 {
        let own = lengths.iter().zip(&self.is_own).filter(|(_, is_own)| **is_own);
        i128::from(self.count - 1) * own.map(|(&length, _)| i128::from(length)).sum::<i128>()
    }
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
    fn new(starts: &Starts, rates: &[i64]) -> Self {
        let (count, links) = (starts.all.len(), rates.len());
        let parts = PARTS.min(count).min(KEPT / links.max(1)).max(1);
        let others = f64::from(starts.count - 1);
        let own = |(&is_own, &rate): (&bool, &i64)| if is_own { others / rate as f64 } else { 0.0 };
        let used = starts.is_own.iter().zip(rates).map(own).collect();
        Self { count, used, parts: vec![Vec::new(); parts], moved: Vec::new() }
    }

    fn starts(&self, part: usize) -> Range<usize> {
        let start = |part: usize| part * self.count / self.parts.len();
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

/// Shortest paths from one start after another.
struct Ways<'a> {
    rates: &'a [i64],
    starts: &'a Starts,
    /// Links by node, each with its other end.
    leaving: Vec<Vec<(u32, Node)>>,
    entering: Vec<Vec<(u32, Node)>>,
    /// The distances of nodes from the current start, and the order in which they were reached.
    far: Vec<u64>,
    order: Vec<Node>,
    units: Vec<f64>,
    /// The use of each link.
    uses: Vec<f64>,
}

impl<'a> Ways<'a> {
    fn new(graph: &Graph, rates: &'a [i64], starts: &'a Starts) -> Self {
        let (mut leaving, mut entering) =
            (vec![Vec::new(); graph.nodes.len()], vec![Vec::new(); graph.nodes.len()]);
        for ((i, link), _) in (0..).zip(&graph.links).zip(&starts.is_own).filter(|(_, own)| !**own)
        {
            leaving[link.from as usize].push((i, link.to));
            entering[link.to as usize].push((i, link.from));
        }
        let (far, order, units, uses) = Default::default();
        Self { rates, starts, leaving, entering, far, order, units, uses }
    }

    /// Sends one unit from each rank of `starts` to each that starts elsewhere; returns the sum of their
    /// distances.
    fn route(&mut self, starts: Range<usize>, lengths: &[u64]) -> i128 {
        self.uses.clear();
        self.uses.resize(lengths.len(), 0.0);
        let mut distances = 0;
        for start in starts {
            self.reach(self.starts.all[start], lengths);
            distances += self.distances(start);
            self.send(f64::from(self.ranks(self.starts.all[start])), lengths);
        }
        distances
    }

    fn ranks(&self, node: Node) -> u32 {
        self.starts.ranks[node as usize]
    }

    /// The sum of the distances of all pairs from the current start.
    fn distances(&self, start: usize) -> i128 {
        let all = self.starts.all.iter();
        let far = all.map(|&to| i128::from(self.ranks(to)) * i128::from(self.far[to as usize]));
        i128::from(self.ranks(self.starts.all[start])) * far.sum::<i128>()
    }

    /// Sends `ranks` units from the current start to each rank elsewhere.
    fn send(&mut self, ranks: f64, lengths: &[u64]) {
        let Self { rates, starts, entering, far, order, units, uses, .. } = self;
        units.clear();
        units.resize(far.len(), 0.0);
        for &node in order.iter().skip(1).rev() {
            units[node as usize] += ranks * f64::from(starts.ranks[node as usize]);
            let here = units[node as usize];
            if here == 0.0 {
                continue;
            }
            // Flow into a node arrives over all its links on shortest paths.
            let is_short = |&(link, from): &(usize, usize)| {
                far[from].checked_add(lengths[link]) == Some(far[node as usize])
            };
            let all =
                || entering[node as usize].iter().map(|&(l, from)| (l as usize, from as usize));
            let rate: i64 = all().filter(is_short).map(|(link, _)| rates[link]).sum();
            let each = here / rate as f64;
            for (link, from) in all().filter(is_short) {
                uses[link] += each;
                units[from] += each * rates[link] as f64;
            }
        }
    }

    /// Dijkstra from one start.
    fn reach(&mut self, start: Node, lengths: &[u64]) {
        let Self { leaving, far, order, .. } = self;
        far.clear();
        far.resize(leaving.len(), u64::MAX);
        order.clear();
        far[start as usize] = 0;
        let mut open = BinaryHeap::from([Reverse((0, start))]);
        while let Some(Reverse((distance, node))) = open.pop() {
            if distance > far[node as usize] {
                continue;
            }
            order.push(node);
            for &(link, to) in &leaving[node as usize] {
                let next = distance + lengths[link as usize];
                if next < far[to as usize] {
                    far[to as usize] = next;
                    open.push(Reverse((next, to)));
                }
            }
        }
    }
}
