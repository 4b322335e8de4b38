//! Packs trees from all roots at once into integer links between ranks.
//!
//! Trees can be packed if every set of ranks is entered by as much as the roots outside it send
//! (Edmonds 1972; Schrijver, Combinatorial Optimization, chapter 53); the surplus is the set's slack.
//! Trees grow greedily, by the link with the most left. Whether the rest can still be packed is asked
//! of maximum flows only where growth ends too early. A set that falls short then is watched from
//! there on: trees are taken back until nothing falls short, and a later tree enters the set twice
//! only while it has slack. A tree that still fails grows with a flow for every link (Lovász 1976),
//! which cannot fail.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flow::Flow;
use super::trees::EDGES;
use crate::machine::graph::Node;

/// The most visits of links in all, by growing trees and by flows: some seconds.
const WORK: u64 = 1 << 30;
/// How often a tree that falls short grows again before every link of it is asked for.
const TRIES: u32 = 4;
/// The most sets that a search for those that fall short returns.
const AT_ONCE: usize = 8;
/// More than any flow.
const ALL: i64 = i64::MAX / 4;

/// Equal trees from one root.
pub(super) struct Grown {
    pub root: Node,
    pub times: i64,
    /// The numbers of their links, parents first.
    pub edges: Vec<u32>,
}

/// A set of ranks that falls short, or did.
struct Watched {
    inside: Vec<bool>,
    slack: i64,
}

struct Packer<'a> {
    links: &'a [(Node, Node, i64)],
    leaving: Vec<Vec<u32>>,
    /// What is left of each link, and what each rank has still to send.
    left: Vec<i64>,
    open: Vec<i64>,
    watched: Vec<Watched>,
    found: Vec<Grown>,
    flow: Flow,
    work: u64,
}

/// A tree while it grows.
struct Growing {
    root: Node,
    times: i64,
    edges: Vec<u32>,
    reached: Vec<bool>,
    /// How often it enters each watched set; a root inside counts as once.
    enters: Vec<i64>,
}

/// A link that a tree can grow by: how much it has left, roughly; how late its start was reached,
/// earlier first; its number; how much.
type Candidate = (u32, Reverse<u32>, u32, i64);

/// Amounts within a factor of √2 are alike, which keeps trees shallow: earlier ranks go on first.
fn level(room: i64) -> u32 {
    (i128::from(room) * i128::from(room)).ilog2()
}

/// Trees that carry what each root sends to every one of `ranks` ranks, over links (from, to, units);
/// `None` if there are none, or it takes too long.
pub(super) fn pack(
    ranks: usize,
    links: &[(Node, Node, i64)],
    sends: &[(Node, i64)],
) -> Option<Vec<Grown>> {
    if ranks.checked_mul(sends.len())? > EDGES {
        return None;
    }
    let mut packer = Packer::new(ranks, links, sends);
    packer.pack()?;
    Some(packer.found)
}

impl<'a> Packer<'a> {
    fn new(ranks: usize, links: &'a [(Node, Node, i64)], sends: &[(Node, i64)]) -> Self {
        let mut open = vec![0; ranks];
        sends.iter().for_each(|&(root, amount)| open[root as usize] += amount);
        let mut flow = Flow::new(ranks + 1);
        let mut leaving = vec![Vec::new(); ranks];
        for (i, &(from, to, units)) in (0..).zip(links) {
            flow.edge(from, to, units);
            leaving[from as usize].push(i);
        }
        (0..ranks).for_each(|rank| {
            flow.edge(ranks as u32, rank as u32, 0);
        });
        let left = links.iter().map(|link| link.2).collect();
        let (watched, found) = (Vec::new(), Vec::new());
        Self { links, leaving, left, open, watched, found, flow, work: 0 }
    }

    fn pack(&mut self) -> Option<()> {
        // So many trees are known to leave enough for the rest.
        let mut safe = 0;
        let mut batch = usize::MAX;
        let mut tries = 0;
        loop {
            let is_stuck = !self.extend(batch)?;
            let grown = self.found.len() - safe;
            if self.open.iter().all(|&open| open == 0) {
                return Some(());
            }
            let short =
                if self.found.len() == safe && is_stuck { Vec::new() } else { self.short()? };
            let is_safe = short.is_empty();
            if is_safe {
                (safe, tries) = (self.found.len(), 0);
                batch = batch.saturating_mul(2).max(1);
            } else {
                short.into_iter().for_each(|set| self.watch(set));
                tries += 1;
                while self.found.len() > safe && self.watched.iter().any(|set| set.slack < 0) {
                    self.take_back();
                }
                batch = if self.found.len() > safe { 0 } else { (grown / 2).max(1) };
            }
            if is_safe && is_stuck || tries > TRIES && self.found.len() == safe {
                let tree = self.grow(true)??;
                self.take(tree);
                (safe, tries, batch) = (self.found.len(), 0, 1);
            }
        }
    }

    fn within_limit(&self) -> Option<()> {
        (self.work + self.flow.looked <= WORK).then_some(())
    }

    /// Grows up to so many more trees, without flows; whether it could.
    fn extend(&mut self, most: usize) -> Option<bool> {
        for _ in 0..most {
            if self.open.iter().all(|&open| open == 0) {
                break;
            }
            if (self.found.len() + 1) * self.open.len() > EDGES {
                return None;
            }
            match self.grow(false)? {
                Some(tree) => self.take(tree),
                None => return Some(false),
            }
        }
        Some(true)
    }

    fn take(&mut self, tree: Growing) {
        for &edge in &tree.edges {
            self.left[edge as usize] -= tree.times;
        }
        self.open[tree.root as usize] -= tree.times;
        for (set, enters) in self.watched.iter_mut().zip(&tree.enters) {
            set.slack -= tree.times * (enters - 1);
        }
        self.found.push(Grown { root: tree.root, times: tree.times, edges: tree.edges });
    }

    fn take_back(&mut self) {
        let Some(tree) = self.found.pop() else { return };
        self.work += (self.watched.len() * tree.edges.len()) as u64;
        for &edge in &tree.edges {
            self.left[edge as usize] += tree.times;
        }
        self.open[tree.root as usize] += tree.times;
        for set in &mut self.watched {
            let enters = enters(self.links, &set.inside, tree.root, &tree.edges);
            set.slack += tree.times * (enters - 1);
        }
    }

    /// Watches a set; its slack is that of what is left now.
    fn watch(&mut self, inside: Vec<bool>) {
        if self.watched.iter().any(|set| set.inside == inside) {
            return;
        }
        let entering = self.links.iter().zip(&self.left);
        let entering =
            entering.filter(|((a, b, _), _)| !inside[*a as usize] && inside[*b as usize]);
        let outside = self.open.iter().zip(&inside).filter(|(_, inside)| !**inside);
        let slack = entering.map(|(_, left)| left).sum::<i64>()
            - outside.map(|(open, _)| open).sum::<i64>();
        self.watched.push(Watched { inside, slack });
    }

    /// A tree of the next root; `None` inside if it does not reach all ranks. With `flows` each link
    /// leaves enough for the rest.
    fn grow(&mut self, flows: bool) -> Option<Option<Growing>> {
        let Some(root) = self.open.iter().position(|&open| open > 0) else { return Some(None) };
        let ranks = self.open.len();
        let mut reached = vec![false; ranks];
        reached[root] = true;
        let enters = self.watched.iter().map(|set| i64::from(set.inside[root])).collect();
        let (root, times) = (root as Node, self.open[root]);
        let mut tree = Growing { root, times, edges: Vec::with_capacity(ranks), reached, enters };
        let mut heap = BinaryHeap::new();
        self.open_links(&tree, root, &mut heap);
        while let Some((_, place, edge, most)) = heap.pop() {
            self.work += 1;
            self.within_limit()?;
            let (from, to, _) = self.links[edge as usize];
            if tree.reached[to as usize] {
                continue;
            }
            let room = most.min(self.slack(&tree, from, to));
            if room < most {
                heap.extend((room > 0).then(|| (level(room), place, edge, room)));
                continue;
            }
            let wanted = most.min(tree.times);
            let room = if flows { self.room(&mut tree, edge, wanted) } else { wanted };
            if room < wanted {
                heap.extend((room > 0).then(|| (level(room), place, edge, room)));
                continue;
            }
            tree.times = room;
            tree.edges.push(edge);
            tree.reached[to as usize] = true;
            for (set, enters) in self.watched.iter().zip(&mut tree.enters) {
                *enters += i64::from(!set.inside[from as usize] && set.inside[to as usize]);
            }
            if tree.edges.len() + 1 == ranks {
                return Some(Some(tree));
            }
            self.open_links(&tree, to, &mut heap);
        }
        Some(None)
    }

    fn open_links(&mut self, tree: &Growing, from: Node, heap: &mut BinaryHeap<Candidate>) {
        let place = Reverse(tree.edges.len() as u32);
        for &edge in &self.leaving[from as usize] {
            let left = self.left[edge as usize];
            if left > 0 && !tree.reached[self.links[edge as usize].1 as usize] {
                heap.push((level(left), place, edge, left));
            }
        }
        self.work += self.leaving[from as usize].len() as u64;
    }

    /// How often the tree may be used if it takes a link: what the watched sets allow.
    fn slack(&mut self, tree: &Growing, from: Node, to: Node) -> i64 {
        self.work += self.watched.len() as u64;
        let sets = self.watched.iter().zip(&tree.enters);
        let entered = sets.filter(|(set, enters)| {
            **enters > 0 && set.inside[to as usize] && !set.inside[from as usize]
        });
        entered.map(|(set, enters)| set.slack / enters).min().unwrap_or(ALL)
    }

    /// Fills the network with what is left, without the growing tree.
    fn fill(&mut self, tree: Option<&Growing>) -> i64 {
        self.work += (self.left.len() + self.open.len()) as u64;
        for (edge, &left) in (0..).zip(&self.left) {
            self.flow.set(2 * edge, left);
        }
        let roots = self.left.len() as u32;
        for (rank, &open) in (0..).zip(&self.open) {
            self.flow.set(2 * (roots + rank), open);
        }
        let mut wanted = self.open.iter().sum();
        if let Some(tree) = tree {
            for &edge in &tree.edges {
                self.flow.set(2 * edge, self.left[edge as usize] - tree.times);
            }
            self.flow.set(2 * (roots + tree.root), self.open[tree.root as usize] - tree.times);
            wanted -= tree.times;
        }
        wanted
    }

    /// How often the tree may be used if it takes a link: what flows allow. A set that forbids it is
    /// watched.
    fn room(&mut self, tree: &mut Growing, edge: u32, most: i64) -> i64 {
        let (from, to, _) = self.links[edge as usize];
        let wanted = self.fill(Some(tree));
        let source = self.open.len() as u32;
        self.flow.set(2 * (self.left.len() as u32 + from), ALL);
        let room = self.flow.push(source, to, wanted + most) - wanted;
        if room < most {
            let inside = self.flow.reaching(to)[..self.open.len()].to_vec();
            let known = self.watched.len();
            self.watch(inside);
            for set in &self.watched[known..] {
                tree.enters.push(enters(self.links, &set.inside, tree.root, &tree.edges));
            }
        }
        room
    }

    /// Some sets that fall short; none if the rest can be packed.
    fn short(&mut self) -> Option<Vec<Vec<bool>>> {
        let mut found: Vec<Vec<bool>> = Vec::new();
        let ranks = self.open.len();
        let source = ranks as u32;
        let wanted = self.fill(None);
        let mut at = source;
        for rank in 0..ranks {
            if found.iter().any(|set| set[rank]) {
                continue;
            }
            self.within_limit()?;
            if self.flow.push(at, rank as u32, wanted) == wanted {
                at = rank as u32;
                continue;
            }
            // What had arrived at the rank before is more than this: the set has neither.
            let near = self.flow.reached(at);
            let far = self.flow.reaching(rank as u32);
            found.push((0..ranks).map(|node| !near[node]).collect());
            found.push(far[..ranks].to_vec());
            if found.len() >= AT_ONCE {
                break;
            }
            self.fill(None);
            at = source;
        }
        Some(found)
    }
}

/// How often a tree enters a set; a root inside counts as once.
fn enters(links: &[(Node, Node, i64)], inside: &[bool], root: Node, edges: &[u32]) -> i64 {
    let entering = edges.iter().filter(|&&edge| {
        let (from, to, _) = links[edge as usize];
        !inside[from as usize] && inside[to as usize]
    });
    i64::from(inside[root as usize]) + entering.count() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    /// The tightest of all cuts: what enters a set, and how many ranks are outside.
    fn tightest(ranks: usize, links: &[(Node, Node, i64)]) -> (i64, i64) {
        let cut = |set: u32| {
            let has = |rank: Node| set >> rank & 1 == 1;
            let entering = links.iter().filter(|link| !has(link.0) && has(link.1));
            (entering.map(|link| link.2).sum(), ranks as i64 - i64::from(set.count_ones()))
        };
        let all = (1..(1 << ranks) - 1).map(cut);
        all.min_by_key(|&(enters, outside)| num_rational::Ratio::new(enters, outside)).unwrap()
    }

    /// Every tree spans, roots send what they have to, and no link carries more than it does.
    fn check(ranks: usize, links: &[(Node, Node, i64)], sends: &[(Node, i64)], found: &[Grown]) {
        let mut left: Vec<i64> = links.iter().map(|link| link.2).collect();
        let mut sent = vec![0; ranks];
        for tree in found {
            let mut reached = vec![false; ranks];
            reached[tree.root as usize] = true;
            for &edge in &tree.edges {
                let (from, to, _) = links[edge as usize];
                assert!(reached[from as usize] && !reached[to as usize]);
                reached[to as usize] = true;
                left[edge as usize] -= tree.times;
            }
            assert!(tree.times > 0 && reached.iter().all(|reached| *reached));
            sent[tree.root as usize] += tree.times;
        }
        assert!(left.iter().all(|left| *left >= 0));
        sends.iter().for_each(|&(root, amount)| assert_eq!(sent[root as usize], amount));
    }

    /// All cuts of small graphs decide what can be packed: so much, and not a unit more.
    #[test]
    fn what_the_tightest_cut_allows_is_packed() {
        let mut random = Random::new(3);
        let mut seen = 0;
        for _ in 0..3000 {
            let ranks = 2 + random.below(6);
            let mut links = Vec::new();
            for (from, to) in (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b))) {
                let units = [0, 0, 0, 1, 1, 2, 3, 7][random.below(8)];
                if from != to && units > 0 {
                    links.push((from as Node, to as Node, units));
                }
            }
            let (enters, outside) = tightest(ranks, &links);
            if enters == 0 {
                continue;
            }
            seen += 1;
            links.iter_mut().for_each(|link| link.2 *= outside);
            let mut sends: Vec<(Node, i64)> = (0..ranks as Node).map(|r| (r, enters)).collect();
            check(ranks, &links, &sends, &pack(ranks, &links, &sends).unwrap());
            sends.iter_mut().for_each(|(_, amount)| *amount += 1);
            assert!(pack(ranks, &links, &sends).is_none(), "{links:?}");
        }
        assert!(seen > 1000, "{seen}");
    }
}
