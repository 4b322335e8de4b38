//! The placement of a group's ranks: every `stride`-th rank of the machine.
//!
//! ```text
//! node 0    0  1  2  3 │ 4  5  6  7      TP of 4, stride 1: inside a node
//! node 1    8  9 10 11 │12 13 14 15      DP of 4, stride 4: 0, 4, 8, 12, two per node
//! ```

use std::num::NonZeroU32;

use crate::machine::query::Layout;

/// Ranks that talk to each other, each `stride` ranks from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group {
    /// How many.
    pub ranks: u32,
    /// From one to the next.
    pub stride: u32,
    /// Where it is among the groups of its kind.
    pub place: Place,
}

/// Where a group is among the groups of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Groups follow one another from rank 0 on.
    Tiled,
    /// Any two neighbours of a row of so many, such as the stages of a pipeline.
    Neighbours(u32),
    /// Half of the ranks are at one place of a row of so many ranks, half at its mirror image: what holds a stage
    /// of DualPipe.
    Mirrored(u32),
    /// Runs of so many ranks, which begin so many ranks from one another: two axes with others between them.
    Runs(u32, u32),
}

/// The placement of the worst placed group of its kind on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lies {
    /// Nodes.
    pub nodes: u32,
    /// Ranks of it on one node.
    pub per_node: u32,
    /// Groups of the kind on one node.
    pub beside: u32,
    /// Whether some group's ranks do not divide evenly over nodes.
    pub uneven: bool,
}

impl Group {
    /// So many ranks, in groups side by side.
    #[must_use]
    pub fn new(ranks: u32, stride: u32) -> Self {
        Self { ranks, stride, place: Place::Tiled }
    }

    /// Two neighbours of a row of so many.
    #[must_use]
    pub fn neighbours(row: u32, stride: u32) -> Self {
        Self { ranks: row.min(2), stride, place: Place::Neighbours(row) }
    }

    /// These ranks, and those of the mirror image of their place in a row of so many ranks.
    #[must_use]
    pub fn mirrored(self, row: u32) -> Self {
        Self { ranks: 2 * self.ranks, place: Place::Mirrored(row), ..self }
    }

    /// These ranks, and those at their places `times` times `apart` further on.
    #[must_use]
    pub fn repeated(self, times: u32, apart: u32) -> Self {
        let ranks = self.ranks.saturating_mul(times);
        if self.ranks == 1 {
            return Self::new(ranks, apart);
        }
        match apart == self.ranks.saturating_mul(self.stride) || times == 1 {
            true => Self::new(ranks, self.stride),
            false => Self { ranks, place: Place::Runs(self.ranks, apart), ..self },
        }
    }

    /// Its first `part` ranks, and those that have the same place in its other parts.
    #[must_use]
    pub fn parts(self, part: u32) -> (Self, Self) {
        let part = part.clamp(1, self.ranks.max(1));
        let rest = self.ranks / part;
        match self.place {
            Place::Runs(run, apart) if run.is_multiple_of(part) => {
                let along = Self::new(run / part, self.stride.saturating_mul(part));
                (Self::new(part, self.stride), along.repeated(self.ranks / run, apart))
            }
            Place::Runs(run, apart) if part.is_multiple_of(run) => {
                let whole = Self::new(run, self.stride);
                (
                    whole.repeated(part / run, apart),
                    Self::new(rest, apart.saturating_mul(part / run)),
                )
            }
            _ => (Self { ranks: part, ..self }, Self::new(rest, self.stride.saturating_mul(part))),
        }
    }

    /// Places the groups of `world` ranks on nodes of `node` ranks.
    #[must_use]
    pub fn lies(self, world: u64, node: u32) -> Lies {
        let node = u64::from(node.max(1));
        let (ranks, stride) = (u64::from(self.ranks.max(1)), u64::from(self.stride.max(1)));
        let (run, apart) = match self.place {
            Place::Runs(run, apart) => (u64::from(run.max(1)), u64::from(apart.max(1))),
            _ => (ranks, ranks * stride),
        };
        let span = apart * ranks.div_ceil(run);
        // Other groups have the ranks inside a run, and those between two runs.
        let between = (apart / (run * stride)).max(1);
        // A row that is not within a node has neighbours, and ends, on different ones.
        let parts = |row: u64| world > node && !node.is_multiple_of(row);
        match self.place {
            // Of all between two stages as many leave a node as there are on it.
            Place::Neighbours(row) if parts(u64::from(row) * stride) => {
                let beside = stride.min(node) as u32;
                return Lies { nodes: 2, per_node: 1, beside, uneven: false };
            }
            Place::Mirrored(row) if parts(row.into()) => {
                let half = Self::new(self.ranks / 2, self.stride).lies(world, node as u32);
                return Lies { nodes: 2 * half.nodes, ..half };
            }
            _ => {}
        }
        // Groups repeat with the least common multiple of both periods.
        let window =
            (span / num_integer::gcd(span, node)).saturating_mul(node).min(world.max(span));
        let mut worst = Lies { nodes: 1, per_node: self.ranks, beside: 1, uneven: false };
        let mut uneven = false;
        for block in 0..window.div_ceil(span) {
            for first in 0..stride * between {
                let base = block * span + first % stride + first / stride * run * stride;
                let (mut nodes, mut most, mut here, mut last) = (0_u64, 0_u64, 0_u64, u64::MAX);
                let mut counts = (u64::MAX, 0_u64);
                for i in 0..ranks {
                    let at = (base + i % run * stride + i / run * apart) / node;
                    if at != last {
                        if here > 0 {
                            counts = (counts.0.min(here), counts.1.max(here));
                        }
                        (last, here, nodes) = (at, 0, nodes + 1);
                    }
                    here += 1;
                    most = most.max(here);
                }
                counts = (counts.0.min(here), counts.1.max(here));
                uneven |= counts.0 != counts.1;
                if nodes > u64::from(worst.nodes) || (nodes == 1 && worst.nodes == 1) {
                    let beside = (node.min(world) / most.max(1)).max(1);
                    worst = Lies {
                        nodes: nodes as u32,
                        per_node: most as u32,
                        beside: beside as u32,
                        uneven,
                    };
                }
            }
            // Within one window every offset has occurred once the blocks cover a node's period.
            if block > node {
                break;
            }
        }
        Lies { uneven, ..worst }
    }
}

impl Lies {
    /// The layout of a question about the group.
    #[must_use]
    pub fn layout(self, ranks: u32, has_nodes: bool) -> Layout {
        Layout {
            ranks: NonZeroU32::new(ranks),
            nodes: None,
            per_node: NonZeroU32::new(self.per_node).filter(|_| has_nodes),
        }
    }
}
