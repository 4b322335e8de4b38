//! Trees that attain the rate of the tightest cut.
//!
//! Without switches ([`super::split`]) only ranks remain, and trees from all roots at once are
//! packed into integer links between them ([`super::growth`]). On large graphs groups of ranks are
//! tried first as ranks of a smaller one ([`super::groups`]).

use super::cut::Cut;
use super::groups;
use super::growth::{self, Grown};
use super::pattern::{self, Demand, Pattern};
use super::split::{Split, Ways};
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// The most edges of all trees together.
pub(super) const EDGES: usize = 1 << 21;
/// The most ranks for which no groups are looked for.
const ALONE: u32 = 32;

/// Trees, each with its part of its root's data; `None` if switches are not balanced, or it takes
/// too long.
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
        0..=ALONE => direct(),
        _ => grouped().or_else(direct),
    };
    let found = found.filter(|found| fits(found, &units.carries))?;
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
    let mut ways = Split::new(graph, carries, sends).without_switches()?;
    ways.retain(|(from, to), ways| from != to && !ways.is_empty());
    let sum = |ways: &Ways| ways.iter().map(|way| way.1).sum::<i64>();
    let links: Vec<_> = ways.iter().map(|(&(from, to), ways)| (from, to, sum(ways))).collect();
    let mut ways: Vec<Ways> = ways.into_values().collect();
    let mut found = Vec::new();
    for tree in growth::pack(graph.ranks as usize, &links, sends)? {
        lay(&tree, &mut ways, &mut found)?;
    }
    Some(found)
}

/// Gives every edge of equal trees paths through switches; trees with different paths are split.
fn lay(grown: &Grown, ways: &mut [Ways], found: &mut Vec<Tree>) -> Option<()> {
    let mut left = grown.times;
    while left > 0 {
        let mut times = left;
        for &edge in &grown.edges {
            times = times.min(ways[edge as usize].last()?.1);
        }
        let mut edges = Vec::with_capacity(grown.edges.len());
        for &edge in &grown.edges {
            let all = &mut ways[edge as usize];
            let last = all.last_mut()?;
            edges.push(last.0.clone());
            last.1 -= times;
            if last.1 == 0 {
                all.pop();
            }
        }
        if (found.len() + 1) * (edges.len() + 1) > EDGES {
            return None;
        }
        left -= times;
        found.push(Tree { root: grown.root, times, edges });
    }
    Some(())
}

/// Whether no link has to carry more than it does.
pub(super) fn fits(all: &[Tree], carries: &[i64]) -> bool {
    let mut left = carries.to_vec();
    for tree in all {
        for &link in tree.edges.iter().flatten() {
            left[link as usize] -= tree.times;
        }
    }
    left.iter().all(|&left| left >= 0)
}
