//! A graph without its switches: a path in and out of a switch becomes a direct link.
//!
//! Edge splitting in integers (Frank; Mader; Bang-Jensen, Frank, Jackson, SIAM J. Discrete Math.
//! 8(2) 1995; for collectives Zhao et al., ForestColl, arXiv 2402.06787): the roots' data still
//! reach every rank at the same rate, and every direct link remembers the path that it replaces.

use std::collections::BTreeMap;

use super::flow::Flow;
use crate::machine::graph::{Graph, Node};

/// The most visits of links by flows: ten to twenty seconds.
const WORK: u64 = 1 << 32;

/// A network is made of links in the time of so many visits of each.
const MAKING: u64 = 24;

/// A link between remaining nodes: paths through switches, with the units that each carries.
pub(super) type Ways = Vec<(Vec<u32>, i64)>;

/// The remaining graph.
pub(super) struct Split<'a> {
    graph: &'a Graph,
    /// The roots, each with the amount that it sends.
    sends: &'a [(Node, i64)],
    /// Direct links and what they carry.
    pub ways: BTreeMap<(Node, Node), Ways>,
    carries: BTreeMap<(Node, Node), i64>,
    looked: u64,
}

impl<'a> Split<'a> {
    /// The original graph: links carry `rates`, and each root sends its amount to every rank.
    pub fn new(graph: &'a Graph, rates: &[i64], sends: &'a [(Node, i64)]) -> Self {
        let (mut ways, mut carries) = (BTreeMap::<_, Ways>::new(), BTreeMap::new());
        for ((i, link), &rate) in (0_u32..).zip(&graph.links).zip(rates) {
            ways.entry((link.from, link.to)).or_default().push((vec![i], rate));
            *carries.entry((link.from, link.to)).or_default() += rate;
        }
        Self { graph, sends, ways, carries, looked: 0 }
    }

    /// Removes all switches; `None` if some switch does not send as much as it receives.
    pub fn without_switches(mut self) -> Option<BTreeMap<(Node, Node), Ways>> {
        for switch in self.graph.ranks..self.graph.nodes.len() as Node {
            self.remove(switch)?;
        }
        Some(self.ways)
    }

    fn remove(&mut self, switch: Node) -> Option<()> {
        let ends = |out: bool, all: &BTreeMap<(Node, Node), i64>| -> Vec<Node> {
            let near = all.keys().filter(|(a, b)| if out { *a == switch } else { *b == switch });
            near.map(|&(a, b)| if out { b } else { a }).collect()
        };
        self.looked += self.carries.len() as u64;
        for to in ends(true, &self.carries) {
            self.looked += self.carries.len() as u64;
            // Its predecessor first: in a star this makes a ring.
            let mut sources = ends(false, &self.carries);
            let before = sources.iter().filter(|&&from| from < to).count();
            sources.rotate_left(before);
            sources.reverse();
            for from in sources {
                let (a, b) = (self.carried(from, switch), self.carried(switch, to));
                let fits = self.shifted(from, switch, to, a.min(b))?;
                self.join(from, switch, to, fits);
            }
            if self.carried(switch, to) > 0 {
                return None;
            }
        }
        Some(())
    }

    fn carried(&self, from: Node, to: Node) -> i64 {
        self.carries.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Moves this many units from the two links at a switch to the direct one.
    fn shift(&mut self, from: Node, switch: Node, to: Node, units: i64) {
        let direct = (from != to).then_some(((from, to), units));
        for (link, units) in
            [((from, switch), -units), ((switch, to), -units)].into_iter().chain(direct)
        {
            let carries = self.carries.entry(link).or_default();
            *carries += units;
            if *carries == 0 {
                self.carries.remove(&link);
            }
        }
    }

    /// The paths of the moved units.
    fn join(&mut self, from: Node, switch: Node, to: Node, mut units: i64) {
        while units > 0 {
            let (Some(first), Some(second)) = (
                self.ways.get(&(from, switch)).and_then(|ways| ways.last()).cloned(),
                self.ways.get(&(switch, to)).and_then(|ways| ways.last()).cloned(),
            ) else {
                return;
            };
            let part = units.min(first.1).min(second.1);
            take(self.ways.get_mut(&(from, switch)), part);
            take(self.ways.get_mut(&(switch, to)), part);
            if from != to {
                let way = [first.0, second.0].concat();
                self.ways.entry((from, to)).or_default().push((way, part));
            }
            units -= part;
        }
    }

    fn flow(&self) -> (Flow, u32) {
        let source = self.graph.nodes.len() as u32;
        let mut flow = Flow::new(self.graph.nodes.len() + 1);
        for (&(from, to), &carries) in &self.carries {
            flow.edge(from, to, carries);
        }
        self.sends.iter().for_each(|&(root, amount)| {
            flow.edge(source, root, amount);
        });
        (flow, source)
    }

    /// Moves as many units as leave all ranks reached, at most `most`; `None` if that takes too long.
    fn shifted(&mut self, from: Node, switch: Node, to: Node, most: i64) -> Option<i64> {
        let mut fits = most;
        while fits > 0 {
            self.shift(from, switch, to, fits);
            // A set that falls short lost every moved unit once, so that many must stay.
            let short = self.short()?;
            if short == 0 {
                break;
            }
            self.shift(from, switch, to, -fits);
            fits -= short;
        }
        Some(fits.max(0))
    }

    /// What some rank lacks of what all roots send together; 0 if no rank lacks anything.
    fn short(&mut self) -> Option<i64> {
        let (mut flow, mut at) = self.flow();
        let wanted = self.sends.iter().map(|(_, amount)| amount).sum();
        let lacks = (0..self.graph.ranks).map(|rank| {
            let sent = flow.push(at, rank, wanted);
            at = rank;
            wanted - sent
        });
        let short = lacks.into_iter().find(|short| *short > 0).unwrap_or(0);
        self.looked += flow.looked + MAKING * self.carries.len() as u64;
        (self.looked <= WORK).then_some(short)
    }
}

/// Takes units from the last of the paths.
fn take(ways: Option<&mut Ways>, units: i64) {
    let Some(ways) = ways else { return };
    if let Some(last) = ways.last_mut() {
        last.1 -= units;
    }
    ways.retain(|way| way.1 > 0);
}
