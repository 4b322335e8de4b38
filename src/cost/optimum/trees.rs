//! Trees that attain the rate of the tightest cut.
//!
//! Without switches ([`super::split`]) only ranks remain, and trees from all roots at once are
//! packed into integer links (Edmonds 1972; in batches of equal trees Bérczi and Frank, RIMS
//! Kôkyûroku Bessatsu B23 2010; Schrijver, Combinatorial Optimization, chapter 53). A group of
//! equal partial trees grows by a link whenever the rest still carries all other groups.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::Cut;
use super::flow::Flow;
use super::groups;
use super::pattern::{self, Demand, Pattern};
use super::split::{Split, Ways};
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// The most ranks, or groups of ranks, for which trees are packed.
pub(super) const RANKS: u32 = 256;
/// The most ranks for which no groups are looked for.
const ALONE: u32 = 32;

/// Equal partial trees from one root.
#[derive(Clone)]
struct Group {
    root: Node,
    times: i64,
    /// Ranks in the order in which they were reached, and the set of them.
    order: Vec<Node>,
    reached: Vec<bool>,
    edges: Vec<(Node, Node)>,
}

/// Trees, each with its part of its root's data; `None` if switches are not balanced, or there are
/// too many ranks.
pub(super) fn pack(
    graph: &Graph,
    rates: &[i64],
    demand: Demand,
    roots: &[Node],
    cut: &Cut,
) -> Option<Vec<(Rational, Pattern)>> {
    let units = Units::new(rates, cut);
    let sends: Vec<(Node, i64)> = roots.iter().map(|&root| (root, units.each)).collect();
    let direct = || trees(graph, &units.carries, &sends);
    let grouped = || groups::trees(graph, &units.carries, &sends);
    let found = match graph.ranks {
        0..=ALONE => direct()?,
        _ => grouped().or_else(direct)?,
    };
    let commodity = |root| if matches!(demand, Demand::FromOne(_)) { 0 } else { root };
    let part = |units_of: i64| Rational::new(units_of.into(), units.each.into());
    let pattern = |Tree { root, times, edges }| {
        (part(times), Pattern { commodity: commodity(root), root, trees: vec![edges] })
    };
    Some(found.into_iter().map(pattern).collect())
}

/// The rate of a cut in whole units: what links carry, and what each root sends.
struct Units {
    carries: Vec<i64>,
    each: i64,
}

impl Units {
    /// 1/x = p/q: links carry p/g times their rate, each root has q/g trees.
    fn new(rates: &[i64], cut: &Cut) -> Self {
        let common = num_integer::gcd(cut.leaves, cut.roots);
        let (p, q) = (cut.roots / common, cut.leaves / common);
        let g = rates.iter().fold(q, |g, &rate| num_integer::gcd(g, rate));
        Self { carries: rates.iter().map(|&rate| rate / g * p).collect(), each: q / g }
    }
}

/// Equal trees.
pub(super) struct Tree {
    pub root: Node,
    pub times: i64,
    /// The path to each other rank from its parent, which comes earlier.
    pub edges: pattern::Tree,
}

/// Trees that carry what each root sends to every rank, over links that carry so much.
pub(super) fn trees(graph: &Graph, carries: &[i64], sends: &[(Node, i64)]) -> Option<Vec<Tree>> {
    if graph.ranks > RANKS {
        return None;
    }
    let mut ways = Split::new(graph, carries, sends).without_switches()?;
    ways.retain(|(from, to), ways| from != to && !ways.is_empty());
    let sum = |ways: &Ways| ways.iter().map(|way| way.1).sum::<i64>();
    let links = ways.iter().map(|(&link, ways)| (link, sum(ways))).collect();
    let packer =
        Packer { ranks: graph.ranks as usize, links, groups: Vec::new(), taken: BTreeSet::new() };
    let mut found = Vec::new();
    for group in packer.pack(sends)? {
        lay(&group, &mut ways, &mut found)?;
    }
    Some(found)
}

struct Packer {
    ranks: usize,
    links: BTreeMap<(Node, Node), i64>,
    groups: Vec<Group>,
    /// Links that the growing group cannot have: the other groups need all that can flow where the
    /// links lead, and need no less of it while the group grows.
    taken: BTreeSet<(Node, Node)>,
}

impl Packer {
    fn pack(mut self, sends: &[(Node, i64)]) -> Option<Vec<Group>> {
        for &(root, times) in sends {
            let mut reached = vec![false; self.ranks];
            reached[root as usize] = true;
            let (order, edges) = (vec![root], Vec::new());
            self.groups.push(Group { root, times, order, reached, edges });
        }
        let mut at = 0;
        while at < self.groups.len() {
            self.taken.clear();
            while self.groups[at].order.len() < self.ranks {
                self.grow(at)?;
            }
            at += 1;
        }
        Some(self.groups)
    }

    /// Adds a rank to a group, or to a part split off from it.
    fn grow(&mut self, at: usize) -> Option<()> {
        let group = &self.groups[at];
        let ends = |from: Node| {
            let links = self.links.range((from, 0)..=(from, Node::MAX));
            links.filter(|((_, to), left)| **left > 0 && !group.reached[*to as usize])
        };
        let mut taken = Vec::new();
        let edges = group.order.iter().flat_map(|&from| ends(from));
        let (edge, times) = edges
            .filter(|(edge, _)| !self.taken.contains(edge))
            .map(|(&edge, &left)| (edge, self.room(at, edge, left.min(group.times))))
            .inspect(|&(edge, times)| taken.extend((times == 0).then_some(edge)))
            .find(|(_, times)| *times > 0)?;
        self.taken.extend(taken);
        *self.links.get_mut(&edge)? -= times;
        if times < self.groups[at].times {
            let mut rest = self.groups[at].clone();
            rest.times -= times;
            self.groups.push(rest);
        }
        let group = &mut self.groups[at];
        group.times = times;
        group.order.push(edge.1);
        group.reached[edge.1 as usize] = true;
        group.edges.push(edge);
        Some(())
    }

    /// The number of trees of a group that a link can be added to.
    fn room(&self, at: usize, (from, to): (Node, Node), most: i64) -> i64 {
        let others = self.groups.iter().enumerate();
        let others = others.filter(|(i, group)| *i != at && group.order.len() < self.ranks);
        // Groups that have not grown are only at their roots: they need a link there, and no
        // separate node.
        let (grown, alone): (Vec<_>, Vec<_>) =
            others.map(|(_, group)| group).partition(|group| group.order.len() > 1);
        let mut flow = Flow::new(self.ranks + grown.len());
        for (&(from, to), &left) in self.links.iter().filter(|(_, left)| **left > 0) {
            flow.edge(from, to, left);
        }
        let mut needed = 0;
        for group in alone {
            needed += group.times;
            if group.root != from {
                flow.edge(from, group.root, group.times);
            }
        }
        for (number, group) in (self.ranks as u32..).zip(grown) {
            needed += group.times;
            flow.edge(from, number, group.times);
            for &rank in &group.order {
                flow.edge(number, rank, i64::MAX / 4);
            }
        }
        flow.push(from, to, needed + most) - needed
    }
}

/// Gives every edge of a group's trees paths through switches; trees with different paths are
/// split.
fn lay(
    group: &Group,
    ways: &mut BTreeMap<(Node, Node), Ways>,
    found: &mut Vec<Tree>,
) -> Option<()> {
    let mut left = group.times;
    while left > 0 {
        let mut times = left;
        for edge in &group.edges {
            times = times.min(ways.get(edge)?.last()?.1);
        }
        let mut edges = Vec::with_capacity(group.edges.len());
        for edge in &group.edges {
            let all = ways.get_mut(edge)?;
            let last = all.last_mut()?;
            edges.push(last.0.clone());
            last.1 -= times;
            if last.1 == 0 {
                all.pop();
            }
        }
        left -= times;
        found.push(Tree { root: group.root, times, edges });
    }
    Some(())
}
