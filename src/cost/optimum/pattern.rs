//! The patterns of sending, trees and paths through a graph, and the cheapest of them under
//! lengths.
//!
//! Lengths on links are prices. The cheapest trees under some lengths are the next to use. Any
//! lengths prove a bound: everything sent pays at least the cheapest path, and all links together
//! cost Σ rate·length.

use super::arborescence::{Cost, cheapest};
use crate::base::collective::Collective;
use crate::machine::graph::{Graph, Node};

/// The demand of a collective on the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// From every rank a tree to all others, all with equal shares: all-gather, and reduce-scatter
    /// in reverse.
    FromAll,
    /// From one rank a tree to all others: broadcast, and reduce in reverse.
    FromOne(Node),
    /// Up a tree to some rank and down another from there, with any root: all-reduce.
    UpAndDown,
    /// From every rank a path to every other, all with equal shares: all-to-all.
    Pairs,
}

/// A tree: for each rank except the root, the path to it from its parent, as links.
pub type Tree = Vec<Vec<u32>>;

/// A unit of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Its owner: a rank, or 0 if all have one share in common.
    pub commodity: u32,
    /// The root, or the sender.
    pub root: Node,
    /// The trees: one out of the root; one up and one down; or the paths from the sender.
    pub trees: Vec<Tree>,
}

impl Demand {
    /// The demand of a collective; in reverse if the graph is to be reversed. `None` if it has no
    /// such demand.
    /// of this kind.
    #[must_use]
    pub fn of(collective: Collective, root: Node) -> Option<(Self, bool)> {
        match collective {
            Collective::AllGather => Some((Self::FromAll, false)),
            Collective::ReduceScatter => Some((Self::FromAll, true)),
            Collective::Broadcast => Some((Self::FromOne(root), false)),
            Collective::Reduce => Some((Self::FromOne(root), true)),
            Collective::AllReduce => Some((Self::UpAndDown, false)),
            Collective::AllToAll => Some((Self::Pairs, false)),
            _ => None,
        }
    }

    /// How many commodities have their own share.
    #[must_use]
    pub fn commodities(self, graph: &Graph) -> u32 {
        match self {
            Self::FromAll | Self::Pairs => graph.ranks,
            Self::FromOne(_) | Self::UpAndDown => 1,
        }
    }
}

impl Pattern {
    /// How often it uses each link.
    pub fn loads(&self) -> Vec<(u32, u32)> {
        let mut links: Vec<u32> = self.trees.iter().flatten().flatten().copied().collect();
        links.sort_unstable();
        let mut loads: Vec<(u32, u32)> = Vec::with_capacity(links.len());
        for link in links {
            match loads.last_mut() {
                Some((last, times)) if *last == link => *times += 1,
                _ => loads.push((link, 1)),
            }
        }
        loads
    }
}

/// Distances from one rank, and the link by which each node is reached.
struct Reach<T> {
    far: Vec<Option<T>>,
    by: Vec<u32>,
}

/// Finds cheapest paths and trees of one graph.
pub(super) struct Oracle<'a> {
    graph: &'a Graph,
    leaving: Vec<Vec<u32>>,
}

impl<'a> Oracle<'a> {
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph, leaving: graph.leaving() }
    }

    /// Dijkstra over `lengths`; ranks forward only if `through`.
    fn reach<T: Cost>(&self, from: Node, lengths: &[T], zero: T, through: bool) -> Reach<T> {
        let nodes = self.graph.nodes.len();
        let mut reach = Reach { far: vec![None; nodes], by: vec![u32::MAX; nodes] };
        let mut heap: Vec<(T, Node)> = vec![(zero, from)];
        reach.far[from as usize] = Some(zero);
        let mut done = vec![false; nodes];
        // Few nodes, and costs that need not be Ord: the heap is simply a sorted list.
        while let Some(at) = least(&heap) {
            let (cost, node) = heap.swap_remove(at);
            if std::mem::replace(&mut done[node as usize], true) {
                continue;
            }
            if node != from && self.graph.is_rank(node) && !through {
                continue;
            }
            for &i in &self.leaving[node as usize] {
                let to = self.graph.links[i as usize].to;
                let next = cost + lengths[i as usize];
                if !done[to as usize] && reach.far[to as usize].is_none_or(|far| next < far) {
                    reach.far[to as usize] = Some(next);
                    reach.by[to as usize] = i;
                    heap.push((next, to));
                }
            }
        }
        reach
    }

    /// The links from the start of `reach` to `to`.
    fn way<T>(&self, reach: &Reach<T>, from: Node, to: Node) -> Vec<u32> {
        let mut way = Vec::new();
        let mut at = to;
        while at != from {
            let link = reach.by[at as usize];
            way.push(link);
            at = self.graph.links[link as usize].from;
        }
        way.reverse();
        way
    }

    /// For each commodity the cheapest patterns and their costs; `None` if a rank is cut off.
    pub fn cheapest<T: Cost>(
        &self,
        demand: Demand,
        lengths: &[T],
        zero: T,
    ) -> Option<Vec<(T, Pattern)>> {
        let ranks = self.graph.ranks;
        let through = demand == Demand::Pairs;
        let reaches: Vec<Reach<T>> =
            (0..ranks).map(|rank| self.reach(rank, lengths, zero, through)).collect();
        if demand == Demand::Pairs {
            return (0..ranks).map(|rank| self.ways(rank, &reaches[rank as usize], zero)).collect();
        }
        let mut edges = Vec::new();
        for (from, reach) in (0..).zip(&reaches) {
            for to in (0..ranks).filter(|&to| to != from) {
                if let Some(cost) = reach.far[to as usize] {
                    edges.push((from, to, cost));
                }
            }
        }
        let back: Vec<(u32, u32, T)> = edges.iter().map(|&(a, b, c)| (b, a, c)).collect();
        let tree = |root: Node, edges: &[(u32, u32, T)]| -> Option<(T, Vec<u32>)> {
            let chosen = cheapest(ranks as usize, root, edges)?;
            Some((chosen.iter().fold(zero, |sum, &i| sum + edges[i as usize].2), chosen))
        };
        let ways = |chosen: Vec<u32>| -> Tree {
            let way = |i: u32| {
                let (from, to, _) = edges[i as usize];
                self.way(&reaches[from as usize], from, to)
            };
            chosen.into_iter().map(way).collect()
        };
        let out = |root: Node, commodity: u32| {
            let (cost, chosen) = tree(root, &edges)?;
            Some((cost, Pattern { commodity, root, trees: vec![ways(chosen)] }))
        };
        match demand {
            Demand::FromOne(root) => Some(vec![out(root, 0)?]),
            Demand::FromAll => (0..ranks).map(|root| out(root, root)).collect(),
            _ => (0..ranks)
                .map(|root| {
                    let (up, above) = tree(root, &back)?;
                    let (down, below) = tree(root, &edges)?;
                    let trees = vec![ways(above), ways(below)];
                    Some((up + down, Pattern { commodity: 0, root, trees }))
                })
                .collect(),
        }
    }

    /// From one rank to all others.
    fn ways<T: Cost>(&self, rank: Node, reach: &Reach<T>, zero: T) -> Option<(T, Pattern)> {
        let others = || (0..self.graph.ranks).filter(|&to| to != rank);
        let cost = others().try_fold(zero, |sum, to| Some(sum + reach.far[to as usize]?))?;
        let tree = others().map(|to| self.way(reach, rank, to)).collect();
        Some((cost, Pattern { commodity: rank, root: rank, trees: vec![tree] }))
    }
}

fn least<T: Cost>(heap: &[(T, Node)]) -> Option<usize> {
    (0..heap.len()).reduce(|a, b| if heap[b].0 < heap[a].0 { b } else { a })
}

/// The bound that integer lengths prove: Σ rate·length over the least cost of one share of
/// everything, in the unit of the rates. `None` if a rank is cut off or nothing costs anything.
pub fn bound(
    graph: &Graph,
    rates: &[i64],
    demand: Demand,
    lengths: &[i128],
) -> Option<crate::model::formula::Rational> {
    let costs = Oracle::new(graph).cheapest(demand, lengths, 0)?;
    let costs = costs.into_iter().map(|(cost, _)| cost);
    let least: i128 = match demand {
        Demand::UpAndDown => costs.min()?,
        _ => costs.sum(),
    };
    let products = rates.iter().zip(lengths).map(|(&r, &l)| i128::from(r).checked_mul(l));
    let all = products.sum::<Option<i128>>()?;
    (least > 0).then(|| crate::model::formula::Rational::new(all, least))
}
