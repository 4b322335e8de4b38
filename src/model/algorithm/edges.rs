//! The edges of trees, counted where they leave a domain.

use super::Share;
use super::double_binary_tree::schedule::trees;
use super::halved_tree;
use crate::model::formula::Trees;
use crate::model::schedule::tree::Tree;

/// Trees along whose edges the segments of a pipeline go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// The binary tree whose subtrees are ranges of ranks, one way.
    InOrder,
    /// The tree of halves below the last rank, one way.
    Halved,
    /// Both trees of a double tree, up and down.
    Double(Trees),
    /// Both trees of a double tree on all ranks but the first, which feeds their roots; one way.
    Fed,
}

impl Edges {
    /// The part of the first segment's messages that meets others at its port, among `n` ranks: in a double tree a
    /// rank inside one tree is a leaf of the other, which sends while that one receives. Simulated, all messages
    /// meet up to four ranks, and a quarter to a third of them among more.
    pub(super) fn first_meets(self, n: u32) -> Share {
        match self {
            Self::Double(_) if n <= 4 => Share::ALL,
            Self::Double(_) => Share::new(1_u32, 4_u32),
            Self::InOrder | Self::Halved | Self::Fed => Share::NONE,
        }
    }

    /// The messages that leave the domain which most leave, or enter that which most enter, if every edge
    /// of `n` ranks passes one each way in which it is used.
    pub(crate) fn crossing(self, n: u32, domains: u32, domain: impl Fn(u32) -> u32) -> u32 {
        let (mut out, mut into) = (vec![0_u32; domains as usize], vec![0_u32; domains as usize]);
        self.each(n, |above, below| {
            let [above, below] = [above, below].map(|rank| domain(rank) as usize);
            if above == below {
                return;
            }
            out[above] += 1;
            into[below] += 1;
            if matches!(self, Self::Double(_)) {
                out[below] += 1;
                into[above] += 1;
            }
        });
        out.into_iter().chain(into).max().unwrap_or(0)
    }

    /// Every edge, from the rank above to the rank below.
    fn each(self, n: u32, mut each: impl FnMut(u32, u32)) {
        let mut of = |tree: Tree, first: u32| {
            for rank in 0..tree.ranks() {
                match tree.parent(rank) {
                    Some(parent) => each(first + parent, first + rank),
                    // The feeding rank is above the roots.
                    None if first > 0 => each(0, first + rank),
                    None => {}
                }
            }
        };
        match self {
            Self::InOrder => of(Tree::in_order(n), 0),
            Self::Halved => {
                for rank in 0..n {
                    if let Some(parent) = halved_tree::place(rank, n).0 {
                        each(parent, rank);
                    }
                }
            }
            Self::Double(layout) => trees(n, layout).into_iter().for_each(|tree| of(tree, 0)),
            Self::Fed => {
                let both = trees(n.saturating_sub(1), Trees::Levels);
                both.into_iter().for_each(|tree| of(tree, 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two trees on ranks 1 to 3 of four, in nodes of two: in order, 1 is above 3 and that above 2; by one
    /// further, 2 is above 1 and that above 3. Rank 0 feeds 1 and 2.
    #[test]
    fn edges_between_nodes_are_counted() {
        let mut edges = Vec::new();
        Edges::Fed.each(4, |above, below| edges.push((above, below)));
        edges.sort_unstable();
        assert_eq!(edges, [(0, 1), (0, 2), (1, 3), (1, 3), (2, 1), (3, 2)]);
        // Three leave node 0, one enters it; ranks in turn: 0 → 1, 2 → 1 and 3 → 2 cross.
        assert_eq!(Edges::Fed.crossing(4, 2, |rank| rank / 2), 3);
        assert_eq!(Edges::Fed.crossing(4, 2, |rank| rank % 2), 2);
        // In order: 0 is above 2, that above 1 and 3; its mirror: 3 is above 1, that above 0 and 2.
        assert_eq!(Edges::InOrder.crossing(4, 2, |rank| rank / 2), 1);
        assert_eq!(Edges::Double(Trees::Coloured).crossing(4, 2, |rank| rank / 2), 4);
    }
}
