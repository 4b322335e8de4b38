//! Rings, chains and trees that the messages of a schedule form, found from the messages alone.
//!
//! ```text
//! ring    0 → 1 → 2 → 3 → 0           every rank sends to one and receives from one
//! tree 1  root 0, 2 deep, 1 2 1       every chunk comes to a rank over one parent
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{End, Step, Transfer};
use crate::base::words::words;
use crate::cost::simulate::Timed;
use crate::machine::query::Query;
use crate::model::schedule::{Endpoint, Op, Schedule};

/// The maximum number of trees that are shown; with more, or as many as ranks, every chunk has its
/// own path.
const MOST_TREES: usize = 8;

/// The maximum number of edges by chunk; with more, only the whole is examined.
const MOST_EDGES: usize = 1 << 20;

/// The structures that the messages form.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Members {
    /// Rings and chains.
    pub lines: Vec<Line>,
    /// Trees, if the messages form no rings or chains.
    pub trees: Vec<Tree>,
    /// The ranks of each node, if there are several.
    pub nodes: Vec<Vec<u32>>,
}

/// A ring or a chain.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Whether the last sends to the first.
    pub closed: bool,
    /// Whether messages go both ways.
    pub both_ways: bool,
    /// The name of the tier that it uses, if the ranks span several.
    pub tier: Option<String>,
    /// Its members, in order.
    pub ranks: Vec<u32>,
}

/// The direction in which the data of a tree flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// To the root.
    Up,
    /// From the root.
    Down,
    /// Both ways.
    Both,
}

words! {
    /// The role of a rank in a tree.
    pub enum Part {
        /// It has no parent.
        Root = "root",
        /// It has a parent and children.
        Internal = "internal",
        /// It has no children.
        Leaf = "leaf",
    }
}

/// A tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tree {
    /// The direction of the data: `up` to the root, `down` from it, or `both`.
    pub flow: Flow,
    /// The chunks that use it; empty: all.
    pub chunks: Vec<u32>,
    /// Its root.
    pub root: End,
    /// The number of ranks and switches at depth 0, 1, …
    pub at_depth: Vec<u32>,
    /// Its members.
    pub roles: Vec<Role>,
}

/// The part of one rank in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Role {
    /// The rank or switch.
    pub of: End,
    /// `root`, `internal` or `leaf`.
    pub role: Part,
    /// Its parent.
    pub parent: Option<End>,
    /// Its children.
    pub children: Vec<End>,
}

/// Sender and receiver, by index.
type Pairs = BTreeSet<(u32, u32)>;

/// The pairs of sender and receiver, collected message by message.
#[derive(Default)]
pub(super) struct Edges {
    /// By tier; those through a switch have none.
    tiers: BTreeMap<Option<usize>, Pairs>,
    /// Data that is added or joined on the way, and data that is stored.
    up: Pairs,
    down: Pairs,
    /// The same by chunk; `None` if there are too many.
    chunks: BTreeMap<u32, (Pairs, Pairs)>,
    entries: usize,
}

impl Edges {
    pub fn add(&mut self, message: &Timed<'_>, schedule: &dyn Schedule) {
        let place = |endpoint: Endpoint| endpoint.place(schedule).map_or(0, |place| place as u32);
        let pair = (place(message.from), place(message.to));
        self.tiers.entry(message.tier).or_default().insert(pair);
        let side = |(up, down): (&mut Pairs, &mut Pairs)| {
            if message.op == Op::Copy {
                down.insert(pair)
            } else {
                up.insert(pair)
            };
        };
        side((&mut self.up, &mut self.down));
        for chunk in message.runs.iter().flat_map(|run| run.chunks()) {
            self.entries += 1;
            if self.entries > MOST_EDGES {
                return self.chunks.clear();
            }
            let (up, down) = self.chunks.entry(chunk).or_default();
            side((up, down));
        }
    }

    /// Rings before trees, and trees before chains, since two chains may start at one root; a tree
    /// that does not branch is a chain.
    pub fn members(&self, schedule: &dyn Schedule, query: &Query) -> Members {
        let (lines, nodes) = (self.lines(schedule, query), nodes(query));
        if !lines.is_empty() && lines.iter().all(|line| line.closed) {
            return Members { lines, nodes, ..Members::default() };
        }
        let trees = self.trees(schedule);
        let branches = |tree: &Tree| tree.at_depth.iter().any(|&ranks| ranks > 1);
        if lines.is_empty() || trees.iter().any(branches) {
            return Members { trees, nodes, ..Members::default() };
        }
        Members { lines, nodes, ..Members::default() }
    }

    /// Rings and chains over every tier; `None` if one tier has something else.
    fn lines(&self, schedule: &dyn Schedule, query: &Query) -> Vec<Line> {
        if schedule.switches() > 0 {
            return Vec::new();
        }
        // The whole may be one line while its parts on single tiers are pieces of it.
        let whole: Pairs = self.tiers.values().flatten().copied().collect();
        if let Some(lines) = lines(&whole, None).filter(|_| !whole.is_empty()) {
            return lines;
        }
        let name = |tier: usize| query.machine.fabric.tiers.get(tier).map(|t| t.name.clone());
        let of_tier = |(tier, pairs): (&Option<usize>, &Pairs)| lines(pairs, tier.and_then(name));
        if self.tiers.len() < 2 {
            return Vec::new();
        }
        let found: Option<Vec<Vec<Line>>> = self.tiers.iter().map(of_tier).collect();
        found.unwrap_or_default().into_iter().flatten().collect()
    }

    /// One tree for all chunks, or several, each for its own chunks.
    fn trees(&self, schedule: &dyn Schedule) -> Vec<Tree> {
        if let Some(trees) = trees(&self.up, &self.down, schedule) {
            return trees;
        }
        let mut groups: Vec<(&(Pairs, Pairs), Vec<u32>)> = Vec::new();
        for (&chunk, pairs) in &self.chunks {
            match groups.iter_mut().find(|(known, _)| *known == pairs) {
                Some((_, chunks)) => chunks.push(chunk),
                None => groups.push((pairs, vec![chunk])),
            }
            if groups.len() > MOST_TREES || groups.len() >= schedule.ranks() as usize {
                return Vec::new();
            }
        }
        let mut found = Vec::new();
        for ((up, down), chunks) in groups {
            let Some(trees) = trees(up, down, schedule) else { return Vec::new() };
            found.extend(trees.into_iter().map(|t| Tree { chunks: chunks.clone(), ..t }));
        }
        found
    }
}

/// The ranks of each node.
fn nodes(query: &Query) -> Vec<Vec<u32>> {
    let (n, nodes) = (query.shape.ranks, query.placement.nodes());
    if nodes < 2 {
        return Vec::new();
    }
    (0..nodes)
        .map(|here| (0..n).filter(|&rank| query.placement.node_of(rank) == here).collect())
        .collect()
}

/// The pairs as rings and chains, if each rank has at most one neighbour on each side.
fn lines(pairs: &Pairs, tier: Option<String>) -> Option<Vec<Line>> {
    let both_ways = pairs.len() > 2 && pairs.iter().all(|&(from, to)| pairs.contains(&(to, from)));
    let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut heard: BTreeMap<u32, usize> = BTreeMap::new();
    for &(from, to) in pairs {
        next.entry(from).or_default().push(to);
        *heard.entry(to).or_default() += 1;
    }
    let most = if both_ways { 2 } else { 1 };
    if next.values().any(|to| to.len() > most) || heard.values().any(|&from| from > most) {
        return None;
    }
    let is_end = |rank: &u32| match both_ways {
        true => next[rank].len() == 1,
        false => !heard.contains_key(rank),
    };
    // Chains from their ends, then rings from their lowest rank.
    let starts: Vec<u32> =
        next.keys().copied().filter(is_end).chain(next.keys().copied()).collect();
    let (mut seen, mut lines) = (BTreeSet::new(), Vec::new());
    for start in starts {
        if !seen.insert(start) {
            continue;
        }
        let mut ranks = vec![start];
        let mut here = start;
        while let Some(&to) = next.get(&here).into_iter().flatten().find(|to| !seen.contains(to)) {
            seen.insert(to);
            ranks.push(to);
            here = to;
        }
        let closed = ranks.len() > usize::from(both_ways) + 1
            && next.get(&here).is_some_and(|to| to.contains(&start));
        // Four ranks that exchange over doubling distances also form a circle, by coincidence.
        if both_ways && closed && !is_even(&ranks) {
            return None;
        }
        lines.push(Line { closed, both_ways, tier: tier.clone(), ranks });
    }
    lines.sort_by_key(|line| line.ranks.first().copied());
    Some(lines)
}

/// Whether neighbours are equally far apart.
fn is_even(ranks: &[u32]) -> bool {
    let gap = |pair: &[u32]| i64::from(pair[1]) - i64::from(pair[0]);
    ranks.windows(2).all(|pair| gap(pair) == gap(&ranks[..2]))
}

/// The trees up and down, one where they are the same.
fn trees(up: &Pairs, down: &Pairs, schedule: &dyn Schedule) -> Option<Vec<Tree>> {
    let turned = |pairs: &Pairs| pairs.iter().map(|&(from, to)| (to, from)).collect::<Pairs>();
    let tree = |pairs: &Pairs, flow| rooted(pairs, flow, schedule);
    match (up.is_empty(), down.is_empty()) {
        (true, true) => None,
        // A gather stores on its way up.
        (true, false) => {
            let found = tree(down, Flow::Down).or_else(|| tree(&turned(down), Flow::Up));
            found.map(|tree| vec![tree])
        }
        (false, true) => tree(&turned(up), Flow::Up).map(|tree| vec![tree]),
        (false, false) if turned(up) == *down => tree(down, Flow::Both).map(|tree| vec![tree]),
        (false, false) => Some(vec![tree(&turned(up), Flow::Up)?, tree(down, Flow::Down)?]),
    }
}

/// Pairs of parent and child as a tree, if they form one.
fn rooted(pairs: &Pairs, flow: Flow, schedule: &dyn Schedule) -> Option<Tree> {
    let mut parent: BTreeMap<u32, u32> = BTreeMap::new();
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &(above, below) in pairs {
        if parent.insert(below, above).is_some() {
            return None;
        }
        children.entry(above).or_default().push(below);
    }
    let mut roots = children.keys().filter(|place| !parent.contains_key(place));
    let (Some(&root), None) = (roots.next(), roots.next()) else { return None };
    // Level by level; pairs that cannot be reached from the root form cycles.
    let (mut level, mut at_depth, mut reached) = (vec![root], Vec::new(), 0);
    while !level.is_empty() {
        at_depth.push(level.len() as u32);
        reached += level.len();
        level = level.iter().flat_map(|place| children.get(place)).flatten().copied().collect();
    }
    if reached != parent.len() + 1 {
        return None;
    }
    let end = |place: u32| match place.checked_sub(schedule.ranks()) {
        None => End::Rank(place),
        Some(switch) => Endpoint::Switch(switch).into(),
    };
    let members: BTreeSet<u32> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    let roles = members.into_iter().map(|place| {
        let below = children.get(&place).map_or(&[][..], Vec::as_slice);
        Role {
            of: end(place),
            role: match (place == root, below.is_empty()) {
                (true, _) => Part::Root,
                (false, true) => Part::Leaf,
                (false, false) => Part::Internal,
            },
            parent: parent.get(&place).map(|&p| end(p)),
            children: below.iter().map(|&c| end(c)).collect(),
        }
    });
    Some(Tree { flow, chunks: Vec::new(), root: end(root), at_depth, roles: roles.collect() })
}

/// The maximum number of distances that a pattern lists.
const MOST_DISTANCES: usize = 4;

/// Describes the senders and receivers of every step, if every sender does the same: the same
/// distances modulo N, or one exclusive or. A single sender makes no pattern.
pub(super) fn patterns(steps: &mut [Step], ranks: u32) {
    let found = |step: &Step| {
        let to_of = receivers(&step.transfers).filter(|to_of| to_of.len() > 1);
        to_of.map_or((None, None), |to_of| (exchange(&to_of), distances(&to_of, ranks)))
    };
    let found: Vec<(Option<String>, Option<String>)> = steps.iter().map(found).collect();
    // Half way round is both: the other steps show which one is meant.
    let exchanges = found.iter().any(|(xor, distance)| xor.is_some() && distance.is_none());
    for (step, (xor, distance)) in steps.iter_mut().zip(found) {
        step.pattern = if exchanges { xor.or(distance) } else { distance.or(xor) };
    }
}

/// The receivers of each sender; `None` if a switch takes part.
fn receivers(transfers: &[Transfer]) -> Option<BTreeMap<u32, BTreeSet<u32>>> {
    let mut to_of: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for transfer in transfers {
        let (End::Rank(from), End::Rank(to)) = (&transfer.from, &transfer.to) else { return None };
        to_of.entry(*from).or_default().insert(*to);
    }
    Some(to_of)
}

/// `i with i xor 4`: every rank sends to one rank and receives from it.
fn exchange(to_of: &BTreeMap<u32, BTreeSet<u32>>) -> Option<String> {
    let (from, to) = to_of.first_key_value()?;
    let xor = from ^ to.first()?;
    let other = |(from, to): (&u32, &BTreeSet<u32>)| {
        to.len() == 1 && to.contains(&(from ^ xor)) && to_of.contains_key(&(from ^ xor))
    };
    to_of.iter().all(other).then(|| format!("i with i xor {xor}"))
}

/// `i → i + 1, i − 1`.
fn distances(to_of: &BTreeMap<u32, BTreeSet<u32>>, ranks: u32) -> Option<String> {
    let n = u64::from(ranks);
    let of = |(from, to): (&u32, &BTreeSet<u32>)| {
        let distance = |to: &u32| (u64::from(*to) + n - u64::from(*from)) % n;
        to.iter().map(distance).collect::<BTreeSet<u64>>()
    };
    let first = of(to_of.first_key_value()?);
    if !to_of.iter().all(|pair| of(pair) == first) {
        return None;
    }
    if first.len() > 1 && first.len() + 1 == ranks as usize {
        return Some("i → all others".to_owned());
    }
    if first.len() > MOST_DISTANCES {
        return None;
    }
    let one = |&d: &u64| if 2 * d > n { format!("i − {}", n - d) } else { format!("i + {d}") };
    Some(format!("i → {}", first.iter().map(one).collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(u32, u32)]) -> Pairs {
        pairs.iter().copied().collect()
    }

    fn found(of: &[(u32, u32)]) -> Vec<(bool, bool, Vec<u32>)> {
        let lines = lines(&pairs(of), None).unwrap_or_default();
        lines.into_iter().map(|l| (l.closed, l.both_ways, l.ranks)).collect()
    }

    #[test]
    fn rings_and_chains_either_way() {
        assert_eq!(found(&[(0, 1), (1, 2), (2, 0)]), [(true, false, vec![0, 1, 2])]);
        assert_eq!(found(&[(2, 1), (1, 0)]), [(false, false, vec![2, 1, 0])]);
        assert_eq!(found(&[(0, 1), (1, 0)]), [(true, false, vec![0, 1])]);
        let both = [(0, 1), (1, 0), (1, 2), (2, 1)];
        assert_eq!(found(&both), [(false, true, vec![0, 1, 2])]);
        let round = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)];
        assert_eq!(found(&round), [(true, true, vec![0, 1, 2])]);
        assert_eq!(found(&[(0, 1), (0, 2)]), []);
        let exchanges = [(0, 1), (1, 0), (2, 3), (3, 2), (0, 2), (2, 0), (1, 3), (3, 1)];
        assert_eq!(found(&exchanges), []);
    }

    #[test]
    fn two_rings_are_told_apart() {
        let two = [(0, 2), (2, 0), (1, 3), (3, 1)];
        // Each pair goes both ways, as a ring of two does.
        assert_eq!(found(&two), [(false, true, vec![0, 2]), (false, true, vec![1, 3])]);
    }

    #[test]
    fn a_circle_is_no_tree() {
        let schedule =
            crate::model::schedule::chain::Chain::new(crate::Collective::Broadcast, 5, 1);
        let tree = rooted(&pairs(&[(0, 1), (0, 2), (2, 3)]), Flow::Down, &schedule).unwrap();
        assert_eq!((tree.root, tree.at_depth), (End::Rank(0), vec![1, 2, 1]));
        assert!(rooted(&pairs(&[(0, 1), (2, 3), (3, 2)]), Flow::Down, &schedule).is_none());
        assert!(rooted(&pairs(&[(0, 1), (2, 1)]), Flow::Down, &schedule).is_none());
    }
}
