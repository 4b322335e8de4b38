//! The search for a short schedule: a random edge colouring, then flips of two-colour chains.

use super::colouring::{Colouring, Forest, NONE, Spans, period};
use crate::base::random::{STEP, mixed};

/// `SplitMix64`: the table must come out the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(STEP);
        // The product's upper half is below n.
        (((mixed(self.0) >> 32) * u64::from(n)) >> 32) as u32
    }

    /// True `n` times in 1024.
    fn chance(&mut self, n: u64) -> bool {
        u64::from(self.below(1024)) < n
    }
}

/// Up to this size a flip is judged by S itself. Above that it is judged by the last slot, which is
/// never less than S − 1, seldom more there, and costs O(log N) per edge to update.
const JUDGED_BY_SPANS: usize = 40;

/// Looks for a short schedule: a random edge colouring, then `flips` flips of two-colour
/// (Kempe) chains, annealed. The same arguments give the same result on every machine.
#[must_use]
pub fn search(ranks: u32, seed: u64, flips: u32) -> Colouring {
    search_down_to(0, ranks, seed, flips)
}

/// The same search; it stops at the given length.
pub(super) fn search_down_to(length: u32, ranks: u32, seed: u64, flips: u32) -> Colouring {
    let mut state = Search::new(ranks, &mut Random(seed));
    let mut best = state.schedule();
    if ranks < 2 || best.length() <= length {
        return best;
    }
    let mut random = Random(!seed);
    let mut cost = state.cost();
    let mut least = cost;
    for flip in 0..flips {
        // One slot more is accepted with probability 1/4 at first, 0 at the end.
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
                if best.length() <= length {
                    break;
                }
            }
        } else {
            state.flip(edge, old);
        }
    }
    best
}

/// The schedule of given colours, in the order of [`Colouring::transfers`].
pub(super) fn coloured(ranks: u32, colours: impl Iterator<Item = u8>) -> Colouring {
    let mut state = Search::blank(ranks);
    let edges: Vec<usize> = state.forest.edges().collect();
    for (edge, colour) in edges.into_iter().zip(colours) {
        state.paint(edge, colour.into());
    }
    state.refresh_all();
    state.schedule()
}

struct Search {
    forest: Forest,
    period: u32,
    colour: Vec<u32>,
    /// The edge that a rank sends (receives) in each colour.
    sends: Vec<[usize; 4]>,
    receives: Vec<[usize; 4]>,
    /// Each node's earliest slot up.
    up: Vec<u32>,
    /// Slots from the node's receipt of the result to the last receipt below it.
    tail: Vec<u32>,
    /// Slots of the last `place`, and the chain last flipped.
    slot: Vec<u32>,
    chain: Vec<usize>,
}

impl Search {
    /// Without any colours yet.
    fn blank(ranks: u32) -> Self {
        let forest = Forest::new(ranks);
        let n = forest.ranks;
        Self {
            forest,
            period: period(ranks),
            colour: vec![0; 4 * n],
            sends: vec![[NONE; 4]; n],
            receives: vec![[NONE; 4]; n],
            up: vec![0; 2 * n],
            tail: vec![0; 2 * n],
            slot: vec![0; 4 * n],
            chain: Vec::new(),
        }
    }

    fn new(ranks: u32, random: &mut Random) -> Self {
        let mut state = Self::blank(ranks);
        let mut edges: Vec<usize> = state.forest.edges().collect();
        for left in (1..=state.forest.size).rev() {
            edges.swap(left as usize - 1, random.below(left) as usize);
        }
        for edge in edges {
            state.insert(edge);
        }
        state.refresh_all();
        state
    }

    fn refresh_all(&mut self) {
        for i in 0..self.forest.leaves_first.len() {
            self.refresh(self.forest.leaves_first[i]);
        }
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

    /// Swaps a chain and updates `up` and `tail`.
    fn flip(&mut self, edge: usize, other: u32) {
        self.swap_chain(edge, other);
        for i in 0..self.chain.len() {
            let mut node = self.chain[i] % (2 * self.forest.ranks);
            self.refresh(node);
            // The parent sees the colour even if up and tail do not change.
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
            self.last_slot(0).max(self.last_slot(1))
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
        self.place();
        Colouring { forest: self.forest.clone(), period: self.period, slot: self.slot.clone() }
    }

    /// An edge and its new colour: usually one that shortens a wait on the longest chain.
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

    /// Walks the longest chain up, then down, and draws one of the edges that wait there, with a
    /// colour that comes earlier.
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

#[cfg(test)]
mod tests {
    use super::Random;

    /// The upper halves of SplitMix64's first numbers from seed 0, as its authors' code prints them.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut random = Random(0);
        for upper in [0xe220_a839_u32, 0x6e78_9e6a, 0x06c4_5d18, 0xf88b_b8a8, 0x1b39_896a] {
            // Of 2^32 − 1 values each is the one before what it would be of 2^32.
            assert_eq!(random.below(u32::MAX), upper - 1);
        }
    }
}
