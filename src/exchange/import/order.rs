//! Operations in an order that their dependencies allow, and messages in rounds.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Placed, runs, within};
use crate::base::refused::Refused;
use crate::model::schedule::{Endpoint, Op};

/// Operations of all ranks, each with its dependencies.
#[derive(Default)]
pub(super) struct Program {
    nodes: Vec<Node>,
}

struct Node {
    line: usize,
    after: Vec<usize>,
}

/// The operations in order.
pub(super) struct Order {
    /// The operations, first to last.
    pub nodes: Vec<usize>,
    /// The position of each operation.
    place: Vec<usize>,
}

/// A message between the operation that sends it and the one that stores it.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub from: u32,
    pub to: u32,
    pub op: Op,
    pub chunks: Vec<u32>,
    /// The round that the file gives it; 0 if it gives none.
    pub round: u64,
    pub send: usize,
    pub store: usize,
    pub line: usize,
}

/// A use of a chunk of a rank: the position in the order, whether it reads, the message.
type Use = (usize, bool, usize);

impl Program {
    /// Adds the operation of a line.
    pub fn push(&mut self, line: usize) -> usize {
        self.nodes.push(Node { line, after: Vec::new() });
        self.nodes.len() - 1
    }

    /// `node` comes after `earlier`.
    pub fn require(&mut self, node: usize, earlier: usize) {
        self.nodes[node].after.push(earlier);
    }

    pub fn line(&self, node: usize) -> usize {
        self.nodes[node].line
    }

    /// A topological order: by the longest chain of dependencies, and at equal length by the file.
    pub fn order(&self) -> Result<Order, Refused> {
        let count = self.nodes.len();
        let (level, waits) = self.levels();
        if waits.iter().any(|&waits| waits > 0) {
            let path = self.path(&waits);
            let lines: Vec<String> = path.iter().map(|&n| self.line(n).to_string()).collect();
            let first = path.first().map_or(1, |&node| self.line(node));
            let what = format!("a cycle: lines {} wait for each other", lines.join(", "));
            return Err(Refused::at(first, what).help(
                "each of them waits for the next, by order, by a dependency or as a receive for its \
                 send: leave out one dependency, or send before receiving",
            ));
        }
        let mut nodes: Vec<usize> = (0..count).collect();
        nodes.sort_by_key(|&node| (level[node], node));
        let mut place = vec![0; count];
        nodes.iter().enumerate().for_each(|(i, &node)| place[node] = i);
        Ok(Order { nodes, place })
    }

    /// Operations that wait for each other, if there are any.
    pub fn cycle(&self) -> Option<Vec<usize>> {
        let (_, waits) = self.levels();
        let path = self.path(&waits);
        (!path.is_empty()).then_some(path)
    }

    /// The longest chain before each operation, and for how many it waits in the end: above 0 where
    /// it is part of a cycle, or waits for one.
    fn levels(&self) -> (Vec<u64>, Vec<usize>) {
        let count = self.nodes.len();
        let mut waits: Vec<usize> = self.nodes.iter().map(|node| node.after.len()).collect();
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (node, Node { after, .. }) in self.nodes.iter().enumerate() {
            after.iter().for_each(|&earlier| next[earlier].push(node));
        }
        let mut level = vec![0_u64; count];
        let mut ready: VecDeque<usize> = (0..count).filter(|&node| waits[node] == 0).collect();
        while let Some(node) = ready.pop_front() {
            for &later in &next[node] {
                level[later] = level[later].max(level[node] + 1);
                waits[later] -= 1;
                if waits[later] == 0 {
                    ready.push_back(later);
                }
            }
        }
        (level, waits)
    }

    /// A cycle of waits; `waits` is above 0 for operations that were never ready.
    fn path(&self, waits: &[usize]) -> Vec<usize> {
        let stuck = |node: &usize| waits[*node] > 0;
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let mut path: Vec<usize> = Vec::new();
        let mut at = (0..self.nodes.len()).find(stuck);
        while let Some(node) = at {
            if let Some(&first) = seen.get(&node) {
                path.drain(..first);
                break;
            }
            seen.insert(node, path.len());
            path.push(node);
            at = self.nodes[node].after.iter().copied().find(stuck);
        }
        path
    }

    /// The first of `all` that does not come before `then` in every allowed order, and the operations looked at.
    pub fn unordered(&self, all: &[usize], then: usize, order: &Order) -> (Option<usize>, usize) {
        let Some(least) = all.iter().map(|node| order.place[*node]).min() else { return (None, 0) };
        let mut left: BTreeSet<usize> = all.iter().copied().collect();
        let mut seen = BTreeSet::new();
        let mut open = vec![then];
        while let Some(node) = open.pop() {
            left.remove(&node);
            if left.is_empty() {
                break;
            }
            // Operations before the least in the order do not depend on it.
            if order.place[node] > least && seen.insert(node) {
                open.extend(&self.nodes[node].after);
            }
        }
        (all.iter().copied().find(|node| left.contains(node)), seen.len())
    }

    /// What is wrong with two operations that use one place, `what`, without an order.
    pub fn without_order(&self, what: &str, one: usize, other: usize) -> Refused {
        let (one, other) = (self.line(one), self.line(other));
        let first = one.min(other);
        let what = format!(
            "{what} is used here and in line {first}, and nothing defines which comes first"
        );
        Refused::at(one.max(other), what)
    }

    /// The messages in their rounds.
    pub fn placed(&self, order: &Order, messages: Vec<Carried>) -> Result<Vec<Placed>, Refused> {
        let rounds = self.rounds(order, &messages)?;
        let placed = messages.into_iter().zip(rounds).map(|(message, round)| Placed {
            round,
            from: Endpoint::Rank(message.from),
            to: Endpoint::Rank(message.to),
            op: message.op,
            runs: runs(&message.chunks),
            line: message.line,
        });
        Ok(placed.collect())
    }

    /// The round of each message: not before that of the file, after the messages that wrote its data, and
    /// not before those that read the data that it overwrites.
    fn rounds(&self, order: &Order, messages: &[Carried]) -> Result<Vec<u64>, Refused> {
        let edges = self.edges(order, messages)?;
        messages.iter().try_for_each(|message| within(message.round, message.line))?;
        let mut rounds: Vec<u64> = messages.iter().map(|message| message.round).collect();
        let most = rounds.iter().max().map_or(0, |last| last + messages.len() as u64);
        let mut open: VecDeque<usize> = (0..messages.len()).collect();
        let mut is_open = vec![true; messages.len()];
        while let Some(message) = open.pop_front() {
            is_open[message] = false;
            for &(later, apart) in &edges[message] {
                let least = rounds[message] + apart;
                if rounds[later] >= least {
                    continue;
                }
                if least > most {
                    return Err(Refused::at(
                        messages[later].line,
                        "the message needs data that are overwritten before it is sent",
                    ));
                }
                rounds[later] = least;
                if !std::mem::replace(&mut is_open[later], true) {
                    open.push_back(later);
                }
            }
        }
        Ok(rounds)
    }

    /// For each message, those that come later, and by how many rounds at least.
    fn edges(
        &self,
        order: &Order,
        messages: &[Carried],
    ) -> Result<Vec<Vec<(usize, u64)>>, Refused> {
        let mut uses: BTreeMap<(u32, u32), Vec<Use>> = BTreeMap::new();
        for (index, message) in messages.iter().enumerate() {
            for &chunk in &message.chunks {
                let read = (order.place[message.send], true, index);
                uses.entry((message.from, chunk)).or_default().push(read);
                let write = (order.place[message.store], false, index);
                uses.entry((message.to, chunk)).or_default().push(write);
            }
        }
        let mut edges = vec![Vec::new(); messages.len()];
        for ((rank, chunk), mut uses) in uses {
            // One step that receives and sends on writes first.
            uses.sort_unstable();
            let mut written: Option<usize> = None;
            let mut read: Vec<usize> = Vec::new();
            let ordered = |first: usize, then: usize| {
                if self.unordered(&[first], then, order).0.is_none() {
                    return Ok(());
                }
                let what = format!("chunk {chunk} of rank {rank}");
                Err(self.without_order(&what, first, then))
            };
            for (_, reads, index) in uses {
                let message = &messages[index];
                if reads {
                    if let Some(writer) = written {
                        ordered(messages[writer].store, message.send)?;
                        edges[writer].push((index, 1));
                    }
                    read.push(index);
                    continue;
                }
                for reader in read.drain(..) {
                    ordered(messages[reader].send, message.store)?;
                    edges[reader].push((index, 0));
                }
                if let Some(writer) = written.replace(index) {
                    ordered(messages[writer].store, message.store)?;
                    let both = [messages[writer].op, message.op];
                    let together = both == [Op::Reduce; 2] || both == [Op::Or; 2];
                    edges[writer].push((index, u64::from(!together)));
                }
            }
        }
        Ok(edges)
    }
}
