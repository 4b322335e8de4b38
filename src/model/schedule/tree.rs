//! Binary trees, and the data that go up and down them level by level.
//!
//! ```text
//!   heap, N = 7        in order, N = 8           its twin: other ranks are inner ones
//!        0             0                         7
//!     1     2          └───── 4                         3 ─────┘
//!    3 4   5 6             2     6                   1     5
//!                         1 3   5 7                 0 2   4 6
//! ```
//!
//! The heap: the parent of r is ⌊(r − 1)/2⌋. In order: the parent of r is r with its lowest set bit
//! moved up by one, or without that bit if the result is not a rank; so every subtree is a range of
//! ranks (NCCL src/graph/trees.cc). The twin is the same tree with the ranks mirrored, or, in order
//! at odd N, shifted by one.

use super::chain::segment;
use super::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};
use crate::base::collective::Collective;
use crate::model::formula::{ceil_lg, floor_lg};

/// A binary tree over ranks 0 … N − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    ranks: u32,
    form: Form,
    names: Names,
}

/// The shape of the tree, with rank 0 as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Heap,
    InOrder,
}

/// The assignment of ranks to roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Same,
    Mirrored,
    /// Rank r has the role of r − 1 modulo N.
    Moved,
}

impl Tree {
    /// The heap of `ranks` ranks.
    #[must_use]
    pub fn heap(ranks: u32) -> Self {
        Self { ranks, form: Form::Heap, names: Names::Same }
    }

    /// The tree whose subtrees are ranges of ranks.
    #[must_use]
    pub fn in_order(ranks: u32) -> Self {
        Self { ranks, form: Form::InOrder, names: Names::Same }
    }

    /// The second tree of a double tree of which an unmodified tree is the first.
    #[must_use]
    pub fn twin(self) -> Self {
        let names = match (self.form, self.ranks % 2) {
            (Form::InOrder, 1) => Names::Moved,
            _ => Names::Mirrored,
        };
        Self { names, ..self }
    }

    /// N.
    #[must_use]
    pub fn ranks(self) -> u32 {
        self.ranks
    }

    /// The rank at the top.
    #[must_use]
    pub fn root(self) -> u32 {
        self.rank(0)
    }

    /// The rank above `rank`; `None` for the root.
    #[must_use]
    pub fn parent(self, rank: u32) -> Option<u32> {
        self.above(self.role(rank)).map(|role| self.rank(role))
    }

    /// The ranks below `rank`, at most two, nearest first, counted upwards modulo N.
    pub fn children(self, rank: u32) -> impl Iterator<Item = u32> {
        let role = self.role(rank);
        let roles = match self.form {
            Form::Heap => [1, 2].map(|place| role.checked_mul(2)?.checked_add(place)),
            Form::InOrder => {
                let levels = if role == 0 { ceil_lg(self.ranks) } else { role.trailing_zeros() };
                let lower = levels.checked_sub(1).filter(|_| role > 0).map(|k| role - (1 << k));
                let mut uppers = (0..levels).rev().map(|k| role + (1 << k));
                [lower, uppers.find(|&upper| upper < self.ranks)]
            }
        };
        let mut ranks = roles.map(|r| r.filter(|&r| r < self.ranks).map(|r| self.rank(r)));
        ranks.sort_by_key(|child| child.map(|child| (child < rank, child)));
        ranks.into_iter().flatten()
    }

    /// The number of ranks above `rank`.
    #[must_use]
    pub fn depth(self, rank: u32) -> u32 {
        let role = self.role(rank);
        match self.form {
            Form::Heap => floor_lg(role.saturating_add(1)),
            Form::InOrder => {
                let above = std::iter::successors(self.above(role), |&role| self.above(role));
                above.count() as u32
            }
        }
    }

    /// The largest depth.
    #[must_use]
    pub fn height(self) -> u32 {
        match self.form {
            Form::Heap => floor_lg(self.ranks),
            Form::InOrder => ceil_lg(self.ranks),
        }
    }

    /// The role above `role`; `None` for role 0.
    pub(crate) fn above(self, role: u32) -> Option<u32> {
        let parent = match self.form {
            Form::Heap => role.checked_sub(1)? / 2,
            Form::InOrder => {
                let rest = role & role.checked_sub(1)?;
                let bit = role ^ rest;
                bit.checked_mul(2).map(|up| rest | up).filter(|&up| up < self.ranks).unwrap_or(rest)
            }
        };
        Some(parent)
    }

    /// The rank with role `role`.
    pub(crate) fn rank(self, role: u32) -> u32 {
        match self.names {
            Names::Same => role,
            Names::Mirrored => self.ranks - 1 - role,
            Names::Moved => modulo(u64::from(role) + 1, self.ranks),
        }
    }

    /// The role of `rank`.
    fn role(self, rank: u32) -> u32 {
        match self.names {
            Names::Same => rank,
            Names::Mirrored => self.ranks - 1 - rank,
            Names::Moved => modulo(u64::from(rank) + u64::from(self.ranks - 1), self.ranks),
        }
    }

    /// Whether every subtree is a range of ranks.
    fn keeps_order(self) -> bool {
        self.form == Form::InOrder && self.names != Names::Moved
    }
}

/// Broadcast, reduce, or all-reduce as reduce and broadcast: one round per level of the tree.
///
/// In a tree of height H, segment s leaves depth d upwards in round s + H − d, and arrives there
/// from above in round s + d − 1, H later in an all-reduce. Segments go up while others go down.
#[derive(Debug, Clone, Copy)]
pub struct Levels {
    collective: Collective,
    tree: Tree,
    segments: u32,
}

impl Levels {
    /// A broadcast from, reduce to or all-reduce over the root of `tree` in `segments` segments,
    /// at least one; [`verify`](super::verify()) refuses other collectives.
    #[must_use]
    pub fn new(collective: Collective, tree: Tree, segments: u32) -> Self {
        Self { collective, tree, segments: segments.max(1) }
    }

    /// The sends of `rank` to its parent, with chunks counted from `first`.
    pub(crate) fn up(self, round: u64, rank: u32, first: u32, out: &mut Sends) {
        let Some(parent) = self.tree.parent(rank) else { return };
        let delay = self.tree.height() - self.tree.depth(rank);
        if let Some(segment) = segment(round, delay.into(), self.segments) {
            out.push(Endpoint::Rank(parent), Op::Reduce, [Run::one(first + segment)]);
        }
    }

    /// The sends of `rank` to its children, with chunks counted from `first`.
    pub(crate) fn down(self, round: u64, rank: u32, first: u32, out: &mut Sends) {
        let reduced = if self.collective.reduces() { self.tree.height() } else { 0 };
        let delay = reduced + self.tree.depth(rank);
        let Some(segment) = segment(round, delay.into(), self.segments) else { return };
        for child in self.tree.children(rank) {
            out.push(Endpoint::Rank(child), Op::Copy, [Run::one(first + segment)]);
        }
    }
}

impl Schedule for Levels {
    fn frame(&self) -> Frame {
        let Self { collective, tree, segments } = *self;
        let passes = if collective == Collective::AllReduce { 2 } else { 1 };
        let rounds = match tree.ranks {
            0 | 1 => 0,
            _ => passes * u64::from(tree.height()) + u64::from(segments) - 1,
        };
        let frame = Frame::new(collective, tree.ranks, segments, rounds);
        let root = if tree.ranks == 0 { 0 } else { tree.root() };
        Frame { root, keeps_order: tree.keeps_order(), ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        if self.collective.reduces() {
            self.up(round, rank, 0, out);
        }
        if self.collective != Collective::Reduce {
            self.down(round, rank, 0, out);
        }
    }
}

/// The segment sent in `round`, if segment s is sent in round `slot` + s·`period`.
pub(crate) fn repetition(round: u64, slot: u32, period: u32, segments: u32) -> Option<u32> {
    let late = round.checked_sub(slot.into())?;
    let period = u64::from(period);
    let segment = u32::try_from(late / period).ok()?;
    (late % period == 0 && segment < segments).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(n: u32) -> [Tree; 4] {
        let (heap, in_order) = (Tree::heap(n), Tree::in_order(n));
        [heap, heap.twin(), in_order, in_order.twin()]
    }

    #[test]
    fn parents_and_children_agree() {
        for n in 1..=130 {
            for tree in trees(n) {
                assert_eq!(tree.parent(tree.root()), None);
                let mut below = 0;
                for rank in 0..n {
                    let distances = tree.children(rank).map(|child| (child + n - rank) % n);
                    assert!(distances.is_sorted(), "{tree:?} {rank}");
                    for child in tree.children(rank) {
                        assert_eq!(tree.parent(child), Some(rank), "{tree:?}");
                        assert_eq!(tree.depth(child), tree.depth(rank) + 1, "{tree:?}");
                        below += 1;
                    }
                }
                assert_eq!(below, n - 1, "{tree:?}");
                assert_eq!((0..n).map(|rank| tree.depth(rank)).max(), Some(tree.height()));
            }
        }
    }

    #[test]
    fn subtrees_in_order_are_ranges() {
        for n in 1..=70 {
            let tree = Tree::in_order(n);
            for top in 1..n {
                let is_below = |&rank: &u32| {
                    std::iter::successors(Some(rank), |&r| tree.parent(r)).any(|r| r == top)
                };
                let below: Vec<u32> = (0..n).filter(is_below).collect();
                assert!(below.windows(2).all(|pair| pair[1] == pair[0] + 1), "{n} {top}");
            }
        }
    }

    #[test]
    fn frames_say_what_the_tree_allows() {
        let frame = |collective, tree| Levels::new(collective, tree, 3).frame();
        for n in [0, 1, 2, 5, 8] {
            let height = [0, 0, 1, 3, 3][[0, 1, 2, 5, 8].iter().position(|&m| m == n).unwrap()];
            let rounds = if n < 2 { [0, 0] } else { [height + 2, 2 * height + 2] };
            for tree in [Tree::in_order(n), Tree::in_order(n).twin()] {
                let once = frame(Collective::Reduce, tree);
                assert_eq!([once.rounds, frame(Collective::AllReduce, tree).rounds], rounds);
            }
        }
        let of = |tree| {
            let frame = frame(Collective::Reduce, tree);
            (frame.root, frame.keeps_order)
        };
        assert_eq!(trees(8).map(of), [(0, false), (7, false), (0, true), (7, true)]);
        assert_eq!(trees(9).map(of), [(0, false), (8, false), (0, true), (1, false)]);
        assert_eq!(trees(0).map(of).map(|(root, _)| root), [0; 4]);
    }

    #[test]
    fn huge_trees_do_not_overflow() {
        for tree in trees(u32::MAX) {
            for rank in [0, 1, 1 << 30, (1 << 31) - 1, 1 << 31, u32::MAX - 1] {
                assert!(tree.children(rank).all(|child| tree.parent(child) == Some(rank)));
                assert!(tree.depth(rank) <= tree.height());
            }
        }
    }
}
