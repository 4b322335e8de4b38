//! Length of NCCL's double binary tree all-reduce on one full-duplex port.
//!
//! Half of the vector runs on each tree, in P segments: up to the root, then down. One segment
//! of each half (a *pair*) makes 4(N−1) transfers. Every rank sends and receives at most W of
//! them, so W colours suffice (König), and a transfer of colour c may run in every slot
//! ≡ c mod W. Pair q repeats the slots of pair 0, W·q later, without a port conflict.
//!
//! ```text
//! N = 2, W = 2     slot 0    slot 1
//! tree 1           1 → 0 up  0 → 1 down
//! tree 2           0 → 1 up  1 → 0 down
//! ```
//!
//! In each colour the slots of all pairs run from the first one of pair 0 to the last one of
//! pair P−1: at most P−1 more than pair 0 spans. A slot in which nothing moves is no round.
//! The sum over the colours is the price: T = (W(P−1) + S)(α + x/2P) with S = Σ spans
//! ([`Slots`]). S is what a search found: an upper bound on the best, but one with a schedule.

use std::collections::{BTreeMap, BTreeSet};

const NONE: usize = usize::MAX;

/// Length and period of the segmented schedule: P segment pairs take
/// `period * (P - 1) + length` rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Rounds of one pair, as far as they are not shared with the next pairs.
    pub length: u32,
    /// Rounds that each further pair adds: the transfers of the busiest port.
    pub period: u32,
}

/// The schedule's length and period for `ranks` ranks.
///
/// Up to 1024 ranks the length is the best that [`search`] found under [`effort`]. Above, it is
/// 8⌈lg N⌉, which every colouring keeps: a role's parent has a higher lowest set bit, so no role
/// is deeper than ⌈lg N⌉; a chain up and down has at most 2⌈lg N⌉ transfers; each starts at most
/// W ≤ 4 slots after its predecessor, since its colour returns every W slots. A search
/// finds about 40% less (1024 ranks: 48), so expect a step at 1025 (88).
#[must_use]
pub fn one_port_slots(ranks: u32) -> Slots {
    let length = LENGTH.get(ranks as usize).map_or_else(|| 8 * ceil_log2(ranks), |&s| u32::from(s));
    Slots { length, period: period(ranks) }
}

/// Rounds of the all-reduce with one segment a half, each transfer started as soon as its data
/// and both ports are free (event-driven; ties as in [`unsegmented_flow`]).
///
/// Tabulated up to 1024 ranks. Above, 4 lg N − 2 for a power of two, else the length of the
/// coloured schedule, which one segment can follow as well.
#[must_use]
pub fn unsegmented_steps(ranks: u32) -> u32 {
    match STEPS.get(ranks as usize) {
        Some(&s) => u32::from(s),
        None if ranks.is_power_of_two() => 4 * ceil_log2(ranks) - 2,
        None => one_port_slots(ranks).length,
    }
}

/// Seeds and flips that made the table: seeds `0..seeds`, the shortest result.
///
/// Sizes that jobs have (1, 3 or 9 times a power of two, above 16) get more of both.
#[must_use]
pub fn effort(ranks: u32) -> (u64, u32) {
    let odd = ranks >> ranks.trailing_zeros().min(31);
    match ranks {
        _ if ranks > 16 && matches!(odd, 1 | 3 | 9) => (12, 200_000),
        0..=32 => (20, 20_000),
        33..=256 => (3, 40_000),
        _ => (1, 60_000),
    }
}

fn ceil_log2(n: u32) -> u32 {
    u32::BITS - n.saturating_sub(1).leading_zeros()
}

/// Most transfers of one pair that a rank sends (or receives).
fn period(ranks: u32) -> u32 {
    if ranks < 2 { 0 } else { ranks.min(4) }
}

/// Direction of a transfer in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Reduce, to the parent.
    Up,
    /// Broadcast, from the parent.
    Down,
}

/// One transfer of pair 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// 0 or 1; tree t carries half t of the vector.
    pub tree: u8,
    /// Reduce or broadcast.
    pub phase: Phase,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Slot of pair 0; pair q sends `period * q` later.
    pub slot: u32,
}

/// Both trees as one forest. Node `tree * ranks + role`; the role is the rank in tree 0, its
/// mirror (even N) or left neighbour (odd N) in tree 1. Role 0 is the root and has one child.
/// Edge `node` goes up from the node, edge `2 * ranks + node` comes down to it.
#[derive(Clone, Debug)]
struct Forest {
    ranks: usize,
    /// Transfers of a pair.
    size: u32,
    parent: Vec<usize>,
    kids: Vec<[usize; 2]>,
    from: Vec<u32>,
    to: Vec<u32>,
    /// Nodes but the roots, children before parents.
    leaves_first: Vec<usize>,
}

/// NCCL's in-order tree (`trees.cc`).
fn parent_role(role: u32, ranks: u32) -> u32 {
    let bit = role & role.wrapping_neg();
    let upper = (role ^ bit) | (bit << 1);
    if upper < ranks { upper } else { role ^ bit }
}

impl Forest {
    fn new(ranks: u32) -> Self {
        let n = ranks as usize;
        let mut forest = Self {
            ranks: n,
            size: 4 * ranks.saturating_sub(1),
            parent: vec![NONE; 2 * n],
            kids: vec![[NONE; 2]; 2 * n],
            from: vec![0; 4 * n],
            to: vec![0; 4 * n],
            leaves_first: Vec::with_capacity(2 * n),
        };
        // A parent's lowest set bit is higher than its child's.
        let mut roles: Vec<u32> = (1..ranks).collect();
        roles.sort_by_key(|role| role.trailing_zeros());
        for tree in 0..2 {
            let rank = |role: u32| match (tree, ranks % 2) {
                (0, _) => role,
                (_, 0) => ranks - 1 - role,
                _ => (role + 1) % ranks,
            };
            for &role in &roles {
                let upper = parent_role(role, ranks);
                let (node, parent) = (tree * n + role as usize, tree * n + upper as usize);
                forest.parent[node] = parent;
                let place = usize::from(forest.kids[parent][0] != NONE);
                forest.kids[parent][place] = node;
                (forest.from[node], forest.to[node]) = (rank(role), rank(upper));
                (forest.from[2 * n + node], forest.to[2 * n + node]) = (rank(upper), rank(role));
                forest.leaves_first.push(node);
            }
        }
        forest
    }

    fn kids(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        self.kids[node].into_iter().filter(|&kid| kid != NONE)
    }

    fn is_root(&self, node: usize) -> bool {
        node.is_multiple_of(self.ranks)
    }

    /// Up edges, then down edges; predecessors first.
    fn edges(&self) -> impl Iterator<Item = usize> {
        let down = self.leaves_first.iter().rev();
        (self.leaves_first.iter().copied()).chain(down.map(|node| 2 * self.ranks + node))
    }

    /// Edges whose data `edge` passes on: those into its sender, in its tree.
    fn before(&self, edge: usize) -> impl Iterator<Item = usize> + use<> {
        let down = 2 * self.ranks;
        let (kids, above) = if edge < down {
            (self.kids[edge], NONE)
        } else {
            let sender = self.parent[edge - down];
            if self.is_root(sender) {
                (self.kids[sender], NONE)
            } else {
                ([NONE; 2], down + sender)
            }
        };
        kids.into_iter().chain([above]).filter(|&e| e != NONE)
    }

    fn transfer(&self, edge: usize, slot: u32) -> Transfer {
        let down = 2 * self.ranks;
        Transfer {
            tree: u8::from(edge % down >= self.ranks),
            phase: if edge < down { Phase::Up } else { Phase::Down },
            from: self.from[edge],
            to: self.to[edge],
            slot,
        }
    }
}

/// Slots for every transfer of one pair.
#[derive(Clone, Debug)]
pub struct Colouring {
    forest: Forest,
    period: u32,
    slot: Vec<u32>,
}

impl Colouring {
    /// Slots between the starts of two pairs, the number of colours.
    #[must_use]
    pub fn period(&self) -> u32 {
        self.period
    }

    /// The S of the price: over the colours, the sum of the periods that pair 0 spans.
    #[must_use]
    pub fn length(&self) -> u32 {
        let mut spans = Spans::default();
        for edge in self.forest.edges() {
            spans.add(self.slot[edge] % self.period, self.slot[edge]);
        }
        spans.total(self.period)
    }

    /// Transfers of pair 0, each after those whose data it passes on.
    pub fn transfers(&self) -> impl Iterator<Item = Transfer> {
        let edges = self.forest.edges();
        edges.map(|edge| self.forest.transfer(edge, self.slot[edge]))
    }

    /// Slots in which something moves when `pairs` pairs follow each other.
    #[must_use]
    pub fn rounds(&self, pairs: u32) -> usize {
        let slots = self.transfers().map(|t| t.slot);
        slots
            .flat_map(|slot| (0..pairs).map(move |q| slot + q * self.period))
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Checks ports and data flow for any number of pairs.
    ///
    /// # Errors
    /// Names the first two transfers that share a port in one colour, or the first transfer that
    /// runs before its data is there.
    pub fn verify(&self) -> Result<(), String> {
        let mut ports = BTreeMap::new();
        for edge in self.forest.edges() {
            let this = self.forest.transfer(edge, self.slot[edge]);
            let colour = this.slot % self.period;
            for port in [(this.from, "sends"), (this.to, "receives")] {
                if let Some(other) = ports.insert((port, colour), this) {
                    return Err(format!("rank {} {} twice: {other:?}, {this:?}", port.0, port.1));
                }
            }
            for source in self.forest.before(edge) {
                if self.slot[source] >= this.slot {
                    let source = self.forest.transfer(source, self.slot[source]);
                    return Err(format!("{this:?} is not after {source:?}"));
                }
            }
        }
        Ok(())
    }
}

/// First and last slot of each colour.
#[derive(Default)]
struct Spans([Option<(u32, u32)>; 4]);

impl Spans {
    fn add(&mut self, colour: u32, slot: u32) {
        let span = self.0[colour as usize].get_or_insert((slot, slot));
        *span = (span.0.min(slot), span.1.max(slot));
    }

    fn last(&self, colour: u32) -> u32 {
        self.0[colour as usize].map_or(0, |span| span.1)
    }

    fn total(&self, period: u32) -> u32 {
        let spans = self.0.iter().flatten();
        spans.map(|(first, last)| (last - first) / period + 1).sum()
    }
}

/// `SplitMix64`: the table must come out the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // The product's upper half is below n.
        (((z >> 32) * u64::from(n)) >> 32) as u32
    }

    /// True `n` times in 1024.
    fn chance(&mut self, n: u64) -> bool {
        u64::from(self.below(1024)) < n
    }
}

/// Up to this size a flip is judged by S itself; above, by the last slot + 1, which is never
/// less than S, seldom more there, and costs O(log N) per edge to update.
const JUDGED_BY_SPANS: usize = 40;

/// Looks for a short schedule: a random edge colouring, then `flips` flips of two-colour
/// (Kempe) chains, annealed. The same arguments give the same result on every machine.
#[must_use]
pub fn search(ranks: u32, seed: u64, flips: u32) -> Colouring {
    let mut state = Search::new(ranks, &mut Random(seed));
    let mut best = state.schedule();
    if ranks < 2 {
        return best;
    }
    let mut random = Random(!seed);
    let mut cost = state.cost();
    let mut least = cost;
    for flip in 0..flips {
        // One slot more passes with probability 1/4 at first, 0 at last.
        let heat = u64::from(flips - flip) * 256 / u64::from(flips);
        let (edge, colour) = state.propose(&mut random);
        let old = state.colour[edge];
        state.flip(edge, colour);
        let new = state.cost();
        if (cost..new).all(|_| random.chance(heat)) {
            cost = new;
            if new < least {
                least = new;
                best = state.schedule();
            }
        } else {
            state.flip(edge, old);
        }
    }
    best
}

struct Search {
    forest: Forest,
    period: u32,
    colour: Vec<u32>,
    /// Edge that a rank sends (receives) in a colour.
    sends: Vec<[usize; 4]>,
    receives: Vec<[usize; 4]>,
    /// Node's earliest slot up.
    up: Vec<u32>,
    /// Slots from the node's receipt of the result to the last receipt below it.
    tail: Vec<u32>,
    /// Slots of the last `place`, and the chain last flipped.
    slot: Vec<u32>,
    chain: Vec<usize>,
}

impl Search {
    fn new(ranks: u32, random: &mut Random) -> Self {
        let forest = Forest::new(ranks);
        let n = forest.ranks;
        let mut edges: Vec<usize> = forest.edges().collect();
        let mut state = Self {
            forest,
            period: period(ranks),
            colour: vec![0; 4 * n],
            sends: vec![[NONE; 4]; n],
            receives: vec![[NONE; 4]; n],
            up: vec![0; 2 * n],
            tail: vec![0; 2 * n],
            slot: vec![0; 4 * n],
            chain: Vec::new(),
        };
        for left in (1..=state.forest.size).rev() {
            edges.swap(left as usize - 1, random.below(left) as usize);
        }
        for edge in edges {
            state.insert(edge);
        }
        for i in 0..state.forest.leaves_first.len() {
            state.refresh(state.forest.leaves_first[i]);
        }
        state
    }

    /// Colours an edge. With no colour free at both ends, the chain of the sender's and the
    /// receiver's free colours is flipped at the receiver; it cannot end at the sender.
    fn insert(&mut self, edge: usize) {
        let (from, to) = self.ends(edge);
        let free = |taken: &[usize; 4], c: u32| taken[c as usize] == NONE;
        let sender = |c: &u32| free(&self.sends[from], *c);
        let receiver = |c: &u32| free(&self.receives[to], *c);
        let colours = 0..self.period;
        if let Some(both) = colours.clone().find(|c| sender(c) && receiver(c)) {
            self.paint(edge, both);
        } else if let (Some(a), Some(b)) =
            (colours.clone().find(sender), { colours }.find(receiver))
        {
            self.swap_chain(self.receives[to][a as usize], b);
            self.paint(edge, a);
        }
    }

    fn ends(&self, edge: usize) -> (usize, usize) {
        (self.forest.from[edge] as usize, self.forest.to[edge] as usize)
    }

    fn paint(&mut self, edge: usize, colour: u32) {
        let (from, to) = self.ends(edge);
        self.colour[edge] = colour;
        self.sends[from][colour as usize] = edge;
        self.receives[to][colour as usize] = edge;
    }

    /// Swaps an edge's colour and `other` along the chain of both through the edge.
    fn swap_chain(&mut self, edge: usize, other: u32) {
        let sum = self.colour[edge] + other;
        self.chain.clear();
        self.chain.push(edge);
        'ends: for start_at_receiver in [true, false] {
            let (mut at, mut want, mut receiver) = (edge, other, start_at_receiver);
            loop {
                let (from, to) = self.ends(at);
                at = if receiver {
                    self.receives[to][want as usize]
                } else {
                    self.sends[from][want as usize]
                };
                if at == NONE {
                    break;
                }
                if at == edge {
                    break 'ends; // a cycle
                }
                self.chain.push(at);
                want = sum - want;
                receiver = !receiver;
            }
        }
        for i in 0..self.chain.len() {
            let (from, to) = self.ends(self.chain[i]);
            let colour = self.colour[self.chain[i]] as usize;
            self.sends[from][colour] = NONE;
            self.receives[to][colour] = NONE;
        }
        for i in 0..self.chain.len() {
            let edge = self.chain[i];
            self.paint(edge, sum - self.colour[edge]);
        }
    }

    /// Swaps a chain and brings `up` and `tail` up to date.
    fn flip(&mut self, edge: usize, other: u32) {
        self.swap_chain(edge, other);
        for i in 0..self.chain.len() {
            let mut node = self.chain[i] % (2 * self.forest.ranks);
            self.refresh(node);
            // The parent sees the colour even where up and tail stay.
            loop {
                node = self.forest.parent[node];
                if self.forest.is_root(node) || !self.refresh(node) {
                    break;
                }
            }
        }
    }

    fn refresh(&mut self, node: usize) -> bool {
        let (mut up, mut tail) = (self.colour[node], 0);
        for kid in self.forest.kids(node) {
            up = up.max(self.up[kid] + self.wait(kid, node));
            tail = tail.max(self.tail_through(node, kid));
        }
        let changed = (up, tail) != (self.up[node], self.tail[node]);
        (self.up[node], self.tail[node]) = (up, tail);
        changed
    }

    /// Slots from `first` to the next slot in which `second` may run: 1 to the period.
    fn wait(&self, first: usize, second: usize) -> u32 {
        let (a, b) = (self.colour[first], self.colour[second]);
        if b > a { b - a } else { b + self.period - a }
    }

    fn down(&self, node: usize) -> usize {
        2 * self.forest.ranks + node
    }

    fn tail_through(&self, node: usize, kid: usize) -> u32 {
        self.wait(self.down(node), self.down(kid)) + self.tail[kid]
    }

    /// The root's only child.
    fn top(&self, tree: usize) -> usize {
        self.forest.kids[tree * self.forest.ranks][0]
    }

    fn last_slot(&self, tree: usize) -> u32 {
        let top = self.top(tree);
        self.up[top] + self.wait(top, self.down(top)) + self.tail[top]
    }

    fn cost(&mut self) -> u32 {
        if self.forest.ranks <= JUDGED_BY_SPANS {
            self.place()
        } else {
            self.last_slot(0).max(self.last_slot(1)) + 1
        }
    }

    /// Puts each edge in the latest slot that keeps its colour's last one (late starts shorten
    /// the spans) and returns the sum of the spans.
    fn place(&mut self) -> u32 {
        let mut slot = std::mem::take(&mut self.slot);
        let order = &self.forest.leaves_first;
        let mut earliest = Spans::default();
        for &node in order.iter().rev() {
            let (down, parent) = (self.down(node), self.forest.parent[node]);
            let top = self.forest.is_root(parent);
            let source = if top { node } else { self.down(parent) };
            slot[node] = self.up[node];
            slot[down] = slot[source] + self.wait(source, down);
            for edge in [node, down] {
                earliest.add(self.colour[edge], slot[edge]);
            }
        }
        // The edge that set a colour's last slot cannot move, so the last slots stay.
        let last = |edge: usize| earliest.last(self.colour[edge]);
        for &node in order {
            let down = self.down(node);
            let kids = self.forest.kids(node).map(|kid| self.down(kid));
            let limits = kids.map(|kid| slot[kid] - self.wait(down, kid));
            slot[down] = limits.fold(last(down), u32::min);
        }
        let mut spans = Spans::default();
        for &node in order.iter().rev() {
            let (down, parent) = (self.down(node), self.forest.parent[node]);
            let next = if self.forest.is_root(parent) { down } else { parent };
            slot[node] = last(node).min(slot[next] - self.wait(node, next));
            for edge in [node, down] {
                spans.add(self.colour[edge], slot[edge]);
            }
        }
        self.slot = slot;
        spans.total(self.period)
    }

    fn schedule(&mut self) -> Colouring {
        if self.period > 0 {
            self.place();
        }
        Colouring { forest: self.forest.clone(), period: self.period, slot: self.slot.clone() }
    }

    /// An edge and its new colour: most often one that shortens a wait on the longest chain.
    fn propose(&self, random: &mut Random) -> (usize, u32) {
        if !random.chance(300)
            && let Some(found) = self.wait_on_longest_chain(random)
        {
            return found;
        }
        let pick = random.below(self.forest.size) as usize;
        let edge = self.forest.leaves_first[pick / 2] + 2 * self.forest.ranks * (pick % 2);
        let step = 1 + random.below(self.period - 1);
        (edge, (self.colour[edge] + step) % self.period)
    }

    /// Walks the longest chain up, then down, and draws one of the edges that wait there; they
    /// get a colour that comes earlier.
    fn wait_on_longest_chain(&self, random: &mut Random) -> Option<(usize, u32)> {
        let ends = [self.last_slot(0), self.last_slot(1)];
        let mut tree = random.below(2) as usize;
        if ends[tree] < ends[1 - tree] {
            tree = 1 - tree;
        }
        let mut found = None;
        let mut seen = 0;
        // `idle` slots pass before the edge runs, the first of them of colour `first`.
        let mut consider = |edge: usize, first: u32, idle: u32, random: &mut Random| {
            if idle > 0 {
                seen += 1;
                if random.below(seen) == 0 {
                    found = Some((edge, (first + random.below(idle)) % self.period));
                }
            }
        };
        let top = self.top(tree);
        let turn = self.wait(top, self.down(top)) - 1;
        consider(self.down(top), self.colour[top] + 1, turn, random);
        let mut node = top;
        while let Some(kid) = self.forest.kids(node).max_by_key(|&kid| self.up[kid]) {
            let idle = self.up[node] - self.up[kid] - 1;
            consider(node, self.colour[kid] + 1, idle, random);
            node = kid;
        }
        consider(node, 0, self.up[node], random);
        node = top;
        while let Some(kid) =
            (self.forest.kids(node)).max_by_key(|&kid| self.tail_through(node, kid))
        {
            let (above, below) = (self.down(node), self.down(kid));
            let idle = self.wait(above, below) - 1;
            consider(below, self.colour[above] + 1, idle, random);
            node = kid;
        }
        found
    }
}

/// Rounds of one pair, event-driven: what [`unsegmented_steps`] tabulates.
///
/// Among ready transfers the order is that of the slots of depth d in a tree of height H (up
/// H−d, down H+d−1), then copies before reduces, tree 1 before tree 2, sender, and distance to
/// the receiver. Another order may take a round more or less.
#[must_use]
pub fn unsegmented_flow(ranks: u32) -> u32 {
    let forest = Forest::new(ranks);
    let mut depth = vec![0_u32; 2 * forest.ranks];
    for &node in forest.leaves_first.iter().rev() {
        depth[node] = depth[forest.parent[node]] + 1;
    }
    let height = depth.iter().max().copied().unwrap_or(0);
    let mut waiting: Vec<usize> = forest.edges().collect();
    waiting.sort_by_key(|&edge| {
        let d = depth[edge % (2 * forest.ranks)];
        let t = forest.transfer(edge, 0);
        let (slot, reduce) = match t.phase {
            Phase::Up => (height - d, true),
            Phase::Down => (height + d - 1, false),
        };
        (slot, reduce, t.tree, t.from, (t.to + ranks - t.from) % ranks)
    });
    // Round in which an edge ends, and in which a port is free again.
    let mut end = vec![u32::MAX; 4 * forest.ranks];
    let mut sent = vec![0_u32; forest.ranks];
    let mut received = vec![0_u32; forest.ranks];
    let mut round = 0;
    while !waiting.is_empty() {
        waiting.retain(|&edge| {
            let (from, to) = (forest.from[edge] as usize, forest.to[edge] as usize);
            let idle = sent[from] <= round && received[to] <= round;
            let starts = idle && forest.before(edge).all(|source| end[source] <= round);
            if starts {
                (end[edge], sent[from], received[to]) = (round + 1, round + 1, round + 1);
            }
            !starts
        });
        round += 1;
    }
    round
}

/// `Slots::length` by ranks, as `examples/dbt_table.rs` prints it.
#[rustfmt::skip]
static LENGTH: [u8; 1025] = [
    0, 0, 2, 6, 6, 8, 8, 8, 10, 12, 12, 12, 12, 12, 12, 12, 16, 18, 18, 18, 18, 18, 19, 18,
    18, 20, 20, 20, 19, 20, 21, 20, 20, 24, 24, 24, 23, 23, 24, 23, 23, 24, 25, 24, 24, 23, 25, 25,
    24, 27, 26, 27, 26, 27, 27, 27, 27, 26, 27, 27, 27, 28, 26, 27, 26, 28, 29, 29, 29, 29, 29, 29,
    28, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 30, 29, 30, 30, 30, 29, 30, 30, 31, 30, 30, 31, 31,
    30, 32, 32, 33, 32, 32, 32, 33, 31, 32, 32, 33, 31, 31, 32, 33, 33, 32, 32, 33, 31, 33, 31, 33,
    33, 31, 32, 33, 33, 33, 33, 34, 31, 34, 34, 34, 33, 34, 33, 34, 33, 34, 34, 34, 33, 34, 34, 33,
    33, 33, 33, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 35, 34, 34, 35, 35, 34, 35, 35, 35, 34,
    34, 35, 35, 35, 35, 34, 35, 34, 35, 36, 36, 36, 36, 35, 36, 37, 37, 35, 35, 36, 37, 37, 38, 37,
    35, 38, 37, 37, 36, 38, 36, 38, 36, 38, 36, 38, 36, 38, 38, 38, 38, 38, 38, 38, 37, 37, 38, 38,
    38, 39, 37, 39, 37, 39, 37, 38, 38, 40, 37, 39, 36, 39, 37, 39, 38, 39, 39, 39, 38, 39, 39, 39,
    39, 38, 38, 38, 38, 39, 39, 39, 39, 39, 37, 39, 38, 39, 38, 39, 38, 40, 39, 39, 40, 40, 40, 39,
    38, 38, 39, 39, 40, 39, 41, 39, 38, 39, 40, 39, 39, 39, 39, 40, 39, 39, 40, 39, 39, 39, 40, 39,
    38, 39, 39, 40, 39, 40, 40, 40, 38, 39, 39, 39, 40, 39, 39, 39, 39, 40, 39, 39, 39, 40, 40, 39,
    39, 40, 40, 40, 40, 40, 41, 41, 40, 39, 39, 40, 42, 40, 40, 40, 40, 40, 40, 40, 42, 39, 39, 40,
    40, 40, 40, 40, 40, 40, 40, 40, 39, 41, 40, 41, 41, 40, 43, 42, 42, 41, 42, 42, 41, 42, 42, 42,
    42, 42, 42, 40, 41, 44, 43, 42, 43, 42, 42, 43, 42, 42, 43, 42, 42, 43, 43, 43, 43, 43, 42, 44,
    40, 43, 42, 43, 41, 43, 42, 43, 41, 43, 41, 42, 41, 42, 42, 43, 42, 44, 43, 43, 43, 43, 44, 43,
    42, 43, 43, 43, 43, 43, 43, 43, 44, 45, 43, 42, 44, 43, 43, 43, 43, 43, 44, 43, 44, 44, 44, 43,
    44, 44, 43, 44, 43, 44, 44, 44, 44, 44, 43, 44, 44, 44, 44, 44, 44, 44, 43, 44, 44, 44, 44, 44,
    43, 44, 43, 43, 43, 43, 42, 44, 44, 44, 43, 44, 44, 44, 45, 44, 43, 44, 43, 44, 45, 44, 44, 44,
    44, 44, 44, 44, 44, 44, 43, 44, 44, 44, 43, 44, 44, 44, 44, 44, 44, 44, 43, 44, 44, 44, 43, 44,
    43, 44, 44, 44, 45, 44, 45, 44, 43, 44, 44, 44, 45, 44, 44, 44, 44, 44, 45, 44, 46, 44, 44, 44,
    44, 44, 48, 44, 44, 44, 45, 45, 44, 45, 44, 44, 45, 44, 44, 44, 44, 44, 44, 44, 45, 44, 44, 44,
    44, 44, 45, 44, 46, 45, 46, 44, 44, 44, 45, 44, 45, 44, 45, 44, 44, 44, 44, 45, 45, 44, 45, 44,
    43, 44, 45, 44, 46, 44, 45, 44, 44, 44, 44, 44, 45, 44, 44, 44, 44, 46, 44, 44, 45, 44, 44, 44,
    44, 44, 44, 44, 46, 44, 46, 44, 44, 44, 44, 46, 44, 45, 45, 45, 45, 46, 44, 45, 45, 47, 45, 45,
    44, 45, 45, 46, 44, 46, 46, 47, 45, 46, 47, 46, 48, 46, 46, 45, 48, 44, 46, 44, 46, 46, 46, 44,
    44, 44, 44, 45, 46, 45, 44, 46, 46, 45, 44, 45, 46, 44, 45, 45, 45, 45, 44, 45, 44, 46, 46, 44,
    44, 48, 46, 44, 47, 44, 45, 46, 44, 44, 46, 47, 46, 45, 47, 46, 46, 47, 46, 47, 46, 47, 48, 47,
    47, 46, 49, 48, 48, 47, 47, 47, 48, 48, 47, 48, 47, 48, 48, 48, 47, 47, 48, 48, 46, 48, 46, 47,
    46, 48, 48, 48, 48, 46, 47, 48, 48, 48, 47, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 49, 48, 48,
    48, 48, 49, 48, 48, 48, 49, 48, 48, 48, 48, 48, 49, 49, 48, 48, 48, 48, 48, 48, 49, 48, 48, 48,
    47, 48, 47, 48, 49, 48, 48, 48, 46, 48, 50, 48, 50, 47, 50, 48, 48, 47, 47, 48, 48, 48, 47, 48,
    48, 48, 48, 47, 49, 48, 49, 48, 48, 48, 49, 48, 48, 48, 48, 48, 48, 48, 46, 48, 49, 48, 49, 50,
    49, 47, 48, 48, 47, 49, 48, 48, 48, 48, 48, 48, 49, 48, 48, 48, 50, 48, 48, 49, 47, 48, 49, 48,
    48, 48, 48, 48, 49, 48, 49, 48, 48, 49, 47, 49, 48, 48, 49, 48, 48, 48, 48, 48, 49, 48, 49, 49,
    49, 48, 49, 48, 50, 48, 48, 48, 49, 48, 48, 48, 49, 48, 49, 48, 48, 48, 48, 49, 49, 49, 50, 49,
    48, 49, 48, 48, 50, 48, 48, 49, 48, 49, 49, 49, 49, 49, 50, 48, 50, 49, 49, 49, 50, 48, 49, 49,
    48, 50, 49, 49, 50, 49, 50, 48, 48, 48, 48, 48, 49, 50, 49, 49, 48, 49, 48, 48, 50, 48, 50, 49,
    47, 49, 48, 49, 48, 49, 49, 49, 49, 50, 48, 50, 50, 49, 49, 49, 49, 49, 48, 49, 50, 48, 48, 48,
    49, 48, 49, 50, 50, 49, 50, 49, 48, 49, 48, 49, 50, 49, 50, 49, 48, 49, 48, 49, 49, 49, 50, 49,
    50, 49, 48, 49, 49, 50, 48, 51, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 48, 49, 49, 49, 51, 49,
    49, 50, 49, 49, 48, 48, 49, 48, 48, 49, 48, 49, 49, 49, 49, 50, 48,
];

/// `unsegmented_flow` by ranks.
#[rustfmt::skip]
static STEPS: [u8; 1025] = [
    0, 0, 2, 4, 6, 8, 9, 9, 10, 12, 13, 13, 13, 13, 13, 13, 14, 16, 17, 17, 17, 17, 17, 17,
    17, 17, 17, 17, 17, 17, 17, 17, 18, 20, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21,
    21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 22, 24, 25, 25, 25, 25, 25, 25,
    25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25,
    25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25,
    25, 25, 25, 25, 25, 25, 25, 25, 26, 28, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29,
    29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29,
    29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29,
    29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29,
    29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29,
    29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 30, 32, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
    33, 33, 33, 33, 33, 33, 33, 33, 34, 36, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 38,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds that one tree alone takes: a rank receives its children one by one, and sends to
    /// them one by one; the broadcast is the reduce backwards.
    fn lower_bound(ranks: u32) -> u32 {
        let forest = Forest::new(ranks);
        let mut done = vec![0; 2 * forest.ranks];
        for node in forest.leaves_first.iter().copied().chain([0]) {
            let mut ready: Vec<u32> = forest.kids(node).map(|kid| done[kid]).collect();
            ready.sort_unstable();
            done[node] = ready.iter().fold(0, |t: u32, &r| t.max(r) + 1);
        }
        2 * done[0]
    }

    /// Runs the slots on sets of contributors; knows nothing of trees.
    fn assert_complete(schedule: &Colouring, ranks: u32) {
        for tree in 0..2 {
            let mut held: Vec<u128> = (0..ranks).map(|rank| 1 << rank).collect();
            let mut moves: Vec<Transfer> =
                (schedule.transfers()).filter(|t| t.tree == tree).collect();
            moves.sort_by_key(|t| t.slot);
            for slot in moves.chunk_by(|a, b| a.slot == b.slot) {
                let before = held.clone();
                for t in slot {
                    let sent = before[t.from as usize];
                    let to = &mut held[t.to as usize];
                    assert!(t.phase == Phase::Down || *to & sent == 0, "added twice: {t:?}");
                    *to |= sent;
                }
            }
            let all = u128::MAX >> (128 - ranks);
            assert!(held.iter().all(|&set| set == all), "N = {ranks}, tree {tree}");
        }
    }

    #[test]
    fn colourings_are_valid_and_no_shorter_than_one_tree() {
        for ranks in 2..=130 {
            let schedule = search(ranks, 7, 30);
            assert_eq!(schedule.verify(), Ok(()), "N = {ranks}");
            assert_eq!(schedule.transfers().count(), 4 * (ranks as usize - 1));
            assert_eq!(schedule.period(), one_port_slots(ranks).period);
            assert!(schedule.length() >= lower_bound(ranks));
            if ranks <= 128 {
                assert_complete(&schedule, ranks);
            }
        }
    }

    #[test]
    fn price_counts_the_rounds_in_which_something_moves() {
        for ranks in [2, 3, 4, 6, 13, 24, 41, 64] {
            let schedule = search(ranks, 1, 500);
            let price = |pairs| schedule.period() * (pairs - 1) + schedule.length();
            for pairs in [1, 2, 3, 6] {
                assert!(schedule.rounds(pairs) <= price(pairs) as usize, "N = {ranks}");
            }
            // With as many pairs as the widest gap has periods, no gap is left.
            assert_eq!(schedule.rounds(40), price(40) as usize, "N = {ranks}");
        }
    }

    #[test]
    fn verify_finds_a_shared_port_and_early_data() {
        let schedule = search(8, 0, 100);
        let edges: Vec<usize> = schedule.forest.edges().collect();
        let mut early = schedule.clone();
        early.slot[edges[edges.len() - 1]] %= 4;
        assert!(early.verify().unwrap_err().contains("is not after"));
        let mut shared = schedule;
        shared.slot[edges[edges.len() - 1]] += 1;
        assert!(shared.verify().unwrap_err().contains("twice"));
    }

    #[test]
    fn table_reaches_the_lengths_known_before() {
        let known = [
            (2, 2),
            (3, 8),
            (4, 8),
            (5, 9),
            (6, 11),
            (7, 10),
            (8, 10),
            (9, 14),
            (12, 14),
            (13, 16),
            (16, 17),
            (24, 19),
            (32, 20),
            (48, 24),
            (64, 26),
            (72, 28),
            (96, 30),
            (128, 32),
            (256, 38),
            (512, 43),
        ];
        for (ranks, length) in known {
            assert!(one_port_slots(ranks).length <= length, "N = {ranks}");
        }
    }

    #[test]
    fn table_lies_between_one_tree_and_any_colouring() {
        for ranks in 2..=1024 {
            let length = one_port_slots(ranks).length;
            assert!(length >= lower_bound(ranks), "N = {ranks}");
            assert!(length <= 8 * ceil_log2(ranks), "N = {ranks}");
        }
        let none = Slots { length: 0, period: 0 };
        assert_eq!((one_port_slots(0), one_port_slots(1)), (none, none));
    }

    #[test]
    fn bound_above_the_table_is_monotone_and_above_it() {
        let mut last = LENGTH.iter().copied().map(u32::from).max().unwrap();
        for ranks in [1025, 2048, 2049, 1 << 20, u32::MAX] {
            let length = one_port_slots(ranks).length;
            assert!(length >= last, "N = {ranks}");
            last = length;
        }
    }

    #[test]
    fn quick_searches_agree_with_the_table() {
        for ranks in 2..=8 {
            let found = (0..2).map(|seed| search(ranks, seed, 2000).length()).min();
            assert_eq!(found, Some(one_port_slots(ranks).length), "N = {ranks}");
        }
        for ranks in [33, 100, 256, 777, 1024] {
            let found = search(ranks, 0, 300).length();
            assert!(found >= one_port_slots(ranks).length, "N = {ranks}");
        }
    }

    #[test]
    #[ignore = "eight minutes in release: every entry by its own rule"]
    fn table_is_what_the_search_finds() {
        for ranks in 2..=1024 {
            let (seeds, flips) = effort(ranks);
            let found = (0..seeds).map(|seed| search(ranks, seed, flips).length()).min();
            assert_eq!(found, Some(one_port_slots(ranks).length), "N = {ranks}");
        }
    }

    #[test]
    fn steps_are_the_flow_simulation() {
        for ranks in (0..=160).chain((192..=1024).step_by(104)) {
            assert_eq!(unsegmented_steps(ranks), unsegmented_flow(ranks), "N = {ranks}");
        }
        for (ranks, steps) in [(2, 2), (3, 4), (6, 9), (12, 13), (24, 17), (48, 21), (72, 25)] {
            assert_eq!(unsegmented_steps(ranks), steps, "N = {ranks}");
        }
        for m in 2..32 {
            assert_eq!(unsegmented_steps(1 << m), 4 * m - 2);
        }
        assert_eq!(unsegmented_steps(1025), 88);
    }
}
