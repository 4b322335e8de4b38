//! The way of a message: fixed by its two ends and the routing of the fabric file.
//!
//! `shortest`, `spread` and `dimension-order` give each pair of nodes one path, as routing tables and
//! hashes of flows do. `minimal` and `valiant` send the packets of one message over several paths
//! at once, each over its share; `sprayed.rs` has both.

mod sprayed;

use super::{Graph, Node, Routing};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Ratio, Seconds};
use sprayed::Sprayed;

/// How a message gets from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The numbers of its links: in order if it has one path, ascending if its packets take several.
    pub links: Vec<u32>,
    /// The share of the message that each of these links carries; empty if each carries all of it.
    pub shares: Vec<Ratio>,
    /// The latencies of its path, or of the longest of its paths.
    pub latency: Seconds,
}

/// The ways of one graph, found on demand.
pub struct Routes<'a> {
    net: Net<'a>,
    /// By receiver, for receivers that were used: the remaining links from each node, through
    /// switches only and, if there is no such path, also through ranks.
    distances: Vec<Option<[Vec<u32>; 2]>>,
    sprayed: Sprayed,
}

/// A graph, and the numbers of the links at each node.
struct Net<'a> {
    graph: &'a Graph,
    leaving: Vec<Vec<u32>>,
    entering: Vec<Vec<u32>>,
    /// The group of each node, where routes go by groups.
    groups: &'a [Option<u32>],
}

const FAR: u32 = u32::MAX;

impl<'a> Routes<'a> {
    /// Routes of which none is found yet.
    #[must_use]
    pub fn new(graph: &'a Graph) -> Self {
        let mut entering = vec![Vec::new(); graph.nodes.len()];
        for (i, link) in (0..).zip(&graph.links) {
            entering[link.to as usize].push(i);
        }
        let groups: &[Option<u32>] = match &graph.routing {
            Routing::Minimal { groups } | Routing::Valiant { groups } => groups,
            _ => &[],
        };
        Self {
            net: Net { graph, leaving: graph.leaving(), entering, groups },
            distances: vec![None; graph.nodes.len()],
            sprayed: Sprayed::new(graph, groups),
        }
    }

    /// The way from one node to another.
    ///
    /// # Errors
    /// There is no path.
    pub fn route(&mut self, from: Node, to: Node) -> Result<Route> {
        let graph = self.net.graph;
        let found = match &graph.routing {
            Routing::Minimal { .. } => self.sprayed.minimal(&self.net, from, to),
            Routing::Valiant { .. } => self.sprayed.valiant(&self.net, from, to),
            Routing::DimensionOrder { sides, wraps } if graph.is_rank(from.max(to)) => {
                self.corrected(from, to, sides, *wraps).map(|path| self.single(path))
            }
            Routing::Spread => self.shortest(from, to, true).map(|path| self.single(path)),
            Routing::DimensionOrder { .. } | Routing::Shortest => {
                self.shortest(from, to, false).map(|path| self.single(path))
            }
        };
        found.ok_or_else(|| {
            let by = match graph.routing {
                Routing::DimensionOrder { .. } => " by dimension order",
                _ => "",
            };
            let [from, to] = [from, to].map(|node| graph.name_of(node));
            Error::input(format!("there is no path from {from} to {to}{by}"))
        })
    }

    fn single(&self, links: Vec<u32>) -> Route {
        let latency = links.iter().map(|&i| self.net.graph.links[i as usize].latency.0).sum();
        Route { links, shares: Vec::new(), latency: Seconds(latency) }
    }

    fn shortest(&mut self, from: Node, to: Node, spreads: bool) -> Option<Vec<u32>> {
        let Net { graph, leaving, entering, .. } = &self.net;
        let distances = self.distances[to as usize].get_or_insert_with(|| {
            [false, true].map(|through| distances(graph, entering, to, through))
        });
        let through = distances[0][from as usize] == FAR;
        let left = &distances[usize::from(through)];
        let mut path = Vec::new();
        let mut at = from;
        if left[at as usize] == FAR {
            return None;
        }
        while at != to {
            let nearer = |&&i: &&u32| {
                let next = graph.links[i as usize].to;
                let may_pass = through || next == to || !graph.is_rank(next);
                may_pass && left[next as usize].checked_add(1) == Some(left[at as usize])
            };
            let next: Vec<u32> = leaving[at as usize].iter().filter(nearer).copied().collect();
            let turn = if spreads { (from as usize + to as usize) % next.len().max(1) } else { 0 };
            let link = *next.get(turn)?;
            path.push(link);
            at = graph.links[link as usize].to;
        }
        Some(path)
    }

    /// One coordinate after the other, in the shorter direction; ties go upwards.
    fn corrected(&self, from: Node, to: Node, sides: &[u32], wraps: bool) -> Option<Vec<u32>> {
        let mut path = Vec::new();
        let (mut at, mut stride) = (from, self.net.graph.ranks);
        for &side in sides {
            stride /= side;
            let wanted = to / stride % side;
            while at / stride % side != wanted {
                let place = at / stride % side;
                let up = (wanted + side - place) % side;
                let rises = match wraps && side > 2 {
                    true => 2 * up <= side,
                    false => wanted > place,
                };
                let next = if rises { (place + 1) % side } else { (place + side - 1) % side };
                let next = at - place * stride + next * stride;
                let links = &self.net.leaving[at as usize];
                path.push(*links.iter().find(|&&i| self.net.graph.links[i as usize].to == next)?);
                at = next;
            }
        }
        Some(path)
    }
}

/// Links from every node to `to`; the path may contain ranks only if they forward too.
fn distances(graph: &Graph, entering: &[Vec<u32>], to: Node, through: bool) -> Vec<u32> {
    let mut far = vec![FAR; graph.nodes.len()];
    far[to as usize] = 0;
    let mut open = std::collections::VecDeque::from([to]);
    while let Some(node) = open.pop_front() {
        if node != to && graph.is_rank(node) && !through {
            continue;
        }
        for &i in &entering[node as usize] {
            let from = graph.links[i as usize].from as usize;
            if far[from] == FAR {
                far[from] = far[node as usize] + 1;
                open.push_back(from as Node);
            }
        }
    }
    far
}
