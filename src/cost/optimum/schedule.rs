//! Trees and paths as a schedule: chunks, rounds, and the messages.
//!
//! A tree's part of its root's data is a number of chunks of equal size. Down a tree a chunk moves
//! one edge per round; up a tree sums do. Switches on the path only forward, so the schedule's
//! messages go from rank to rank, and the paths stay with the trees.

use std::collections::BTreeMap;

use super::pattern::{Pattern, Tree};
use crate::base::collective::Collective;
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;
use crate::model::schedule::{Endpoint, Frame, List, MOST_FOLLOWED, Op, Run};

/// The schedule of the patterns that attain an optimum; `None` if parts have no common denominator
/// small enough to cut a vector by. Every tree carries its part in one piece: the optimum is reached
/// when many pieces follow each other.
///
/// `graph` is the original one. The patterns are those of [`super::optimum`], which for
/// reduce-scatter and reduce are trees of the reversed graph.
#[must_use]
pub fn schedule(
    graph: &Graph,
    collective: Collective,
    root: Node,
    patterns: &[(Rational, Pattern)],
) -> Option<List> {
    let common = patterns.iter().try_fold(1_i128, |common, (part, _)| {
        let next = common / num_integer::gcd(common, *part.denom()) * part.denom();
        (next <= MOST_FOLLOWED.into()).then_some(next)
    })?;
    let n = graph.ranks;
    let blocks = match collective {
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => n,
        _ => 1,
    };
    let each = u32::try_from(common).ok()?;
    if i128::from(n) * i128::from(blocks) * common > MOST_FOLLOWED.into() {
        return None;
    }
    let frame = Frame { root, ..Frame::new(collective, n, blocks * each, 0) };
    let mut writer = Writer { graph, sends: BTreeMap::new() };
    let mut used: BTreeMap<(Node, Node), u32> = BTreeMap::new();
    let mut take = |key: (Node, Node), part: &Rational| -> Option<Run> {
        let len = u32::try_from(part.numer() * (common / part.denom())).ok()?;
        let before = used.entry(key).or_insert(0);
        *before += len;
        Some(Run { start: *before - len, len })
    };
    for (part, pattern) in patterns {
        let block = |run: Run, block: u32| Run { start: block * each + run.start, ..run };
        match &pattern.trees[..] {
            [up, down] => {
                let run = take((0, 0), part)?;
                let rounds = writer.up(pattern.root, &writer.edges(up), run);
                writer.down(pattern.root, &writer.edges(down), run, rounds);
            }
            [ways] if collective == Collective::AllToAll => {
                for way in ways {
                    let to = writer.end(way)?;
                    let run = take((pattern.root, to), part)?;
                    writer.along(way, block(run, pattern.root * n + to));
                }
            }
            [tree] => {
                let run = take((pattern.root, 0), part)?;
                let run = if blocks > 1 { block(run, pattern.root) } else { run };
                let edges = writer.edges(tree);
                if matches!(collective, Collective::ReduceScatter | Collective::Reduce) {
                    writer.up(pattern.root, &edges, run);
                } else {
                    writer.down(pattern.root, &edges, run, 0);
                }
            }
            _ => return None,
        }
    }
    let mut list = List::new(frame);
    for ((round, from, to, op), runs) in writer.sends {
        let (from, to) = (Endpoint::Rank(from), Endpoint::Rank(to));
        list.push(round, from, to, if op { Op::Reduce } else { Op::Copy }, &runs);
    }
    Some(list)
}

struct Writer<'a> {
    graph: &'a Graph,
    /// The chunks by round, sender, receiver and whether they are added.
    sends: BTreeMap<(u64, Node, Node, bool), Vec<Run>>,
}

impl Writer<'_> {
    /// The two ranks that each path of a tree joins, without direction.
    fn edges(&self, tree: &Tree) -> Vec<[Node; 2]> {
        let ends = |way: &Vec<u32>| {
            let links = way.iter().map(|&i| self.graph.links[i as usize]);
            let mut ranks = links.flat_map(|link| [link.from, link.to]);
            let ranks: Vec<Node> =
                ranks.by_ref().filter(|&node| self.graph.is_rank(node)).collect();
            let first = *ranks.first()?;
            Some([first, *ranks.iter().find(|&&rank| rank != first)?])
        };
        tree.iter().filter_map(ends).collect()
    }

    /// Each rank's depth and parent.
    fn depths(&self, root: Node, edges: &[[Node; 2]]) -> Vec<(u64, Node, Node)> {
        let mut found = Vec::with_capacity(edges.len());
        let mut level = vec![root];
        let mut open = edges.to_vec();
        for depth in 0.. {
            let mut next = Vec::new();
            open.retain(|&[a, b]| {
                let joins = level.contains(&a) || level.contains(&b);
                if joins {
                    let (above, below) = if level.contains(&a) { (a, b) } else { (b, a) };
                    found.push((depth, above, below));
                    next.push(below);
                }
                !joins
            });
            if next.is_empty() {
                break;
            }
            level = next;
        }
        found
    }

    fn push(&mut self, round: u64, from: Node, to: Node, adds: bool, run: Run) {
        self.sends.entry((round, from, to, adds)).or_default().push(run);
    }

    /// Sums go up; returns the number of rounds.
    fn up(&mut self, root: Node, edges: &[[Node; 2]], run: Run) -> u64 {
        let depths = self.depths(root, edges);
        let height = depths.last().map_or(0, |edge| edge.0 + 1);
        for (depth, above, below) in depths {
            self.push(height - 1 - depth, below, above, true, run);
        }
        height
    }

    fn down(&mut self, root: Node, edges: &[[Node; 2]], run: Run, after: u64) {
        for (depth, above, below) in self.depths(root, edges) {
            self.push(after + depth, above, below, false, run);
        }
    }

    /// The end of a path.
    fn end(&self, way: &[u32]) -> Option<Node> {
        way.last().map(|&i| self.graph.links[i as usize].to)
    }

    /// From rank to rank along a path.
    fn along(&mut self, way: &[u32], run: Run) {
        let Some(&first) = way.first() else { return };
        let mut from = self.graph.links[first as usize].from;
        let ends = way.iter().map(|&i| self.graph.links[i as usize].to);
        let ranks: Vec<Node> = ends.filter(|&node| self.graph.is_rank(node)).collect();
        for (round, to) in (0..).zip(ranks) {
            self.push(round, from, to, false, run);
            from = to;
        }
    }
}
