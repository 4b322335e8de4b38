//! Trees between groups of ranks, completed within each group.
//!
//! Ranks behind fast links, such as the GPUs of a node, are one rank of a smaller graph, on which trees
//! are packed as on any other. Where a tree enters a group, the rank at the link's end passes the data
//! on to the others. Contracted, a graph keeps a part of its cuts, so its rate is no lower; whether links
//! within groups carry what is passed on is checked in whole numbers for every link.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::pattern;
use super::trees::{self, Tree};
use crate::base::quantity::Rate;
use crate::machine::graph::{Graph, Link, Node};

/// The most groups, if there are ways to have fewer.
const FEW: u32 = 256;

/// Trees that carry what each root sends to every rank; `None` if there are no such groups, or their
/// links do not suffice.
pub(super) fn trees(graph: &Graph, carries: &[i64], sends: &[(Node, i64)]) -> Option<Vec<Tree>> {
    let groups = Groups::fastest(graph)?;
    let (between, outer) = groups.contracted(graph)?;
    let outer_carries: Vec<i64> = outer.iter().map(|&i| carries[i as usize]).collect();
    let mut outer_sends: Vec<(Node, i64)> = (0..groups.count).map(|group| (group, 0)).collect();
    for &(root, amount) in sends {
        outer_sends[groups.of[root as usize] as usize].1 += amount;
    }
    outer_sends.retain(|(_, amount)| *amount > 0);
    let found = trees::trees(&between, &outer_carries, &outer_sends)?;
    let pieces = pieces(&groups, found, sends);
    if pieces.len().checked_mul(graph.ranks as usize)? > trees::EDGES {
        return None;
    }
    let shapes = [Within::star, Within::chain];
    shapes.into_iter().find_map(|shape| {
        let within = shape(graph, &groups)?;
        let complete = |tree: &Tree| within.complete(graph, &outer, tree);
        let all: Vec<Tree> = pieces.iter().map(complete).collect();
        trees::fits(&all, carries).then_some(all)
    })
}

/// Which group each node is in.
struct Groups {
    of: Vec<u32>,
    count: u32,
    /// The ranks of each.
    ranks: Vec<Vec<Node>>,
}

/// The group of a switch between groups.
const NONE: u32 = u32::MAX;

impl Groups {
    /// What is joined by the fastest links: as fast as needed for fewer groups than ranks, and for few.
    fn fastest(graph: &Graph) -> Option<Self> {
        let mut rates: Vec<_> = graph.links.iter().map(|link| link.rate).collect();
        rates.sort_by_key(|rate| Reverse(rate.0));
        rates.dedup();
        let mut joined = rates
            .into_iter()
            .map(|least| Self::joined(graph, |rate| rate.0 >= least.0))
            .filter(|groups| groups.count < graph.ranks);
        let first = joined.next()?;
        if first.count <= FEW {
            return Some(first);
        }
        joined.find(|groups| (2..=FEW).contains(&groups.count)).or(Some(first))
    }

    fn joined(graph: &Graph, is_fast: impl Fn(Rate) -> bool) -> Self {
        let nodes = graph.nodes.len();
        let mut first: Vec<Node> = (0..nodes as Node).collect();
        fn root(first: &mut [Node], mut at: Node) -> Node {
            while first[at as usize] != at {
                first[at as usize] = first[first[at as usize] as usize];
                at = first[at as usize];
            }
            at
        }
        for link in graph.links.iter().filter(|link| is_fast(link.rate)) {
            let (a, b) = (root(&mut first, link.from), root(&mut first, link.to));
            // Ranks come before switches, so a group is called by its first rank.
            first[a.max(b) as usize] = a.min(b);
        }
        let mut groups = Self { of: vec![NONE; nodes], count: 0, ranks: Vec::new() };
        for node in 0..nodes as Node {
            let first = root(&mut first, node);
            if first == node && graph.is_rank(node) {
                groups.of[node as usize] = groups.count;
                groups.count += 1;
                groups.ranks.push(Vec::new());
            }
            groups.of[node as usize] = groups.of[first as usize];
            if graph.is_rank(node) {
                groups.ranks[groups.of[node as usize] as usize].push(node);
            }
        }
        groups
    }

    /// The graph of groups and of the switches between them, and the number that each of its links has
    /// in the original; `None` if a group's link does not end at a rank.
    fn contracted(&self, graph: &Graph) -> Option<(Graph, Vec<u32>)> {
        let mut nodes: Vec<String> =
            self.ranks.iter().map(|ranks| graph.name_of(ranks[0]).to_owned()).collect();
        let mut number = self.of.clone();
        for (node, number) in number.iter_mut().enumerate().filter(|(_, number)| **number == NONE) {
            *number = nodes.len() as u32;
            nodes.push(graph.nodes[node].clone());
        }
        let (mut links, mut outer) = (Vec::new(), Vec::new());
        for (i, &link) in (0..).zip(&graph.links) {
            let (from, to) = (number[link.from as usize], number[link.to as usize]);
            if from == to {
                continue;
            }
            for (node, number) in [(link.from, from), (link.to, to)] {
                if number < self.count && !graph.is_rank(node) {
                    return None;
                }
            }
            links.push(Link { from, to, ..link });
            outer.push(i);
        }
        let ranks = self.count;
        Some((Graph { nodes, ranks, links, ..graph.clone() }, outer))
    }
}

/// The trees of each group as trees of its ranks: each has as many as it sends.
fn pieces(groups: &Groups, found: Vec<Tree>, sends: &[(Node, i64)]) -> Vec<Tree> {
    let mut of_group: Vec<Vec<Tree>> = groups.ranks.iter().map(|_| Vec::new()).collect();
    for tree in found {
        of_group[tree.root as usize].push(tree);
    }
    let mut pieces = Vec::new();
    for &(root, amount) in sends {
        let all = &mut of_group[groups.of[root as usize] as usize];
        let mut left = amount;
        while left > 0
            && let Some(last) = all.last_mut()
        {
            let times = left.min(last.times);
            pieces.push(Tree { root, times, edges: last.edges.clone() });
            left -= times;
            last.times -= times;
            if last.times == 0 {
                all.pop();
            }
        }
    }
    pieces
}

/// For each rank the paths by which its group gets what it has.
struct Within {
    from: Vec<pattern::Tree>,
}

impl Within {
    /// To each other rank by the fewest hops.
    fn star(graph: &Graph, groups: &Groups) -> Option<Self> {
        let near = Near::new(graph, groups);
        (0..graph.ranks)
            .map(|root| near.tree(root))
            .collect::<Option<_>>()
            .map(|from| Self { from })
    }

    /// From each rank to the next one.
    fn chain(graph: &Graph, groups: &Groups) -> Option<Self> {
        let near = Near::new(graph, groups);
        let place = |rank: Node| {
            let ranks = &groups.ranks[groups.of[rank as usize] as usize];
            ranks.iter().position(|&own| own == rank).map(|at| (ranks, at))
        };
        let next = |rank: Node| {
            let (ranks, at) = place(rank)?;
            match ranks.len() {
                1 => Some(Vec::new()),
                n => near.path(rank, ranks[(at + 1) % n]),
            }
        };
        let next: Vec<Vec<u32>> = (0..graph.ranks).map(next).collect::<Option<_>>()?;
        let tree = |root: Node| {
            let (ranks, at) = place(root)?;
            let order = ranks.iter().cycle().skip(at).take(ranks.len() - 1);
            Some(order.map(|&rank| next[rank as usize].clone()).collect())
        };
        (0..graph.ranks).map(tree).collect::<Option<_>>().map(|from| Self { from })
    }

    /// A tree between groups as one between ranks.
    fn complete(&self, graph: &Graph, outer: &[u32], tree: &Tree) -> Tree {
        let mut edges = Vec::with_capacity(graph.ranks as usize);
        edges.extend_from_slice(&self.from[tree.root as usize]);
        for path in &tree.edges {
            let path: Vec<u32> = path.iter().map(|&i| outer[i as usize]).collect();
            let end = path.last().map(|&i| graph.links[i as usize].to);
            edges.push(path);
            edges.extend(end.iter().flat_map(|&end| self.from[end as usize].iter().cloned()));
        }
        Tree { root: tree.root, times: tree.times, edges }
    }
}

/// Shortest paths within groups.
struct Near<'a> {
    graph: &'a Graph,
    groups: &'a Groups,
    leaving: Vec<Vec<u32>>,
}

impl<'a> Near<'a> {
    fn new(graph: &'a Graph, groups: &'a Groups) -> Self {
        Self { graph, groups, leaving: graph.leaving() }
    }

    /// By which link each node of a rank's group is reached first, and the nodes in that order; other ranks
    /// pass data on only if `through`.
    fn reached(&self, root: Node, through: bool) -> (Vec<u32>, Vec<Node>) {
        let group = self.groups.of[root as usize];
        let (mut by, mut order) = (vec![NONE; self.graph.nodes.len()], Vec::new());
        let mut queue = VecDeque::from([root]);
        while let Some(node) = queue.pop_front() {
            if node != root && self.graph.is_rank(node) && !through {
                continue;
            }
            for &i in &self.leaving[node as usize] {
                let to = self.graph.links[i as usize].to;
                let is_new = to != root && by[to as usize] == NONE;
                if is_new && self.groups.of[to as usize] == group {
                    by[to as usize] = i;
                    order.push(to);
                    queue.push_back(to);
                }
            }
        }
        (by, order)
    }

    /// The path to a node from the rank before it.
    fn back(&self, by: &[u32], to: Node) -> Option<Vec<u32>> {
        let mut path = Vec::new();
        let mut at = to;
        loop {
            let link = Some(by[at as usize]).filter(|&link| link != NONE)?;
            path.push(link);
            at = self.graph.links[link as usize].from;
            if self.graph.is_rank(at) {
                path.reverse();
                return Some(path);
            }
        }
    }

    fn path(&self, from: Node, to: Node) -> Option<Vec<u32>> {
        self.back(&self.reached(from, false).0, to)
    }

    /// The tree of shortest paths; `None` if a rank of the group is not reached.
    fn tree(&self, root: Node) -> Option<pattern::Tree> {
        let (by, order) = self.reached(root, true);
        let ranks = order.into_iter().filter(|&node| self.graph.is_rank(node));
        let tree: Option<pattern::Tree> = ranks.map(|rank| self.back(&by, rank)).collect();
        let others = self.groups.ranks[self.groups.of[root as usize] as usize].len() - 1;
        tree.filter(|tree| tree.len() == others)
    }
}
