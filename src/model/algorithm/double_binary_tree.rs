//! The double binary tree: two trees, each with half of the vector.
//!
//! ```text
//!   tree 1      0            tree 2      3          parent of r > 0 in tree 1: r with its lowest
//!               │                        │          set bit moved up by one, 0 above all.
//!               2                        1          Tree 2: ranks mirrored (even N) or shifted
//!             1   3                    2   0        by one (odd N), so that inner ranks of one
//!                                                   tree are leaves of the other.
//! ```
//!
//! All-reduce: each half goes up its tree and its sum comes down again, in P segments of M/(2P), in
//! both directions and both trees at once. With m = lg N:
//!
//! | ports | P = 1 | P > 1 |
//! |---|---|---|
//! | one full duplex | 4m − 2; other N: U(N), at most | W(P−1) + S(N), at most |
//! | two or more | 2⌈lg N⌉ | 2(P−1) + 2⌈lg N⌉, at most |
//! | one half duplex | three times that of one full duplex, at most | the same |
//!
//! messages of M/(2P). On one port a rank sends and receives W = 4 messages of every pair of
//! segments (2 for N = 2, 3 for N = 3). So n_β tends to 2, hardly above 2(N−1)/N, the minimum of any
//! algorithm. S(N) is the length of an edge-coloured schedule that repeats every W slots. U(N) is
//! the number of rounds of a single pair where each message starts as soon as it can, or S(N) where
//! that is less; see [`colouring`]. On two ports the trees' shared links still carry two streams: W
//! = 2, n_β tends to 1. That bound was checked by event-by-event simulation for N ≤ 100 and P ≤ 25;
//! a two-colouring of the messages proves 2(P−1) + 4⌈lg N⌉.
//!
//! spiceMonkey/collective-comm 01 prints 2⌈lg N⌉·α + ⌈lg N⌉·M/BW for P = 1, which is true on two
//! ports, and 2⌈lg N⌉·α + c·M/BW for large vectors, with c = 1 in theory and c_real above it in
//! practice. c is max(2/k, 1) on k ports: 2 on one port is not overhead but the bound (K4 of the
//! notes on the textbooks). A given c_real replaces it.
//!
//! The two-tree broadcast puts tree 1 and its mirror (odd N) or its shift by one (even N) on ranks 1
//! … N − 1; rank 0 feeds both roots in turn. A rank has children in only one of the trees: two
//! receipts and two sends per pair of segments, which two colours keep apart. It takes at most 2(⌈lg
//! N⌉ + P) − 1 messages of M/(2P) on one port (Sanders, Speck, Träff, Parallel Computing 35(12) 2009
//! state one more), so n_β tends to 1. On two ports no rank waits: at most ⌈lg N⌉ + P messages,
//! except for N = 4, where both trees use one link.

pub mod colouring;
pub mod flow;
pub mod known;
pub mod lengths;
pub mod schedule;
pub mod search;
#[cfg(test)]
mod tests;

use super::rounds::repeat;
use super::{Algorithm, ClosedForm, Edges, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllReduce, Broadcast};
use crate::model::formula::{
    At, Cost, Field, Function, Named, Number, Ports, Shape, Symbol, Trees, ceil_lg,
};
use crate::model::schedule::Schedule;
use lengths::{one_port_slots, unsegmented_steps};
use schedule::{ByLevels, Fed, Slotted, fed_in_turn, trees};

/// The double trees.
pub static FAMILY: &[&dyn Algorithm] = &[&DoubleTree, &TwoTree];

/// All-reduce over both trees.
pub(super) struct DoubleTree;

impl ClosedForm for DoubleTree {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "double-binary-tree",
            title: "double binary tree",
            collectives: &[AllReduce],
            aliases: &[
                "dbt",
                "dbt_ar",
                "dbt_colored",
                "dbt_colored_ar",
                "double_binary_tree",
                "two-tree",
            ],
            known_as: &[
                (Library::Nccl, &[AllReduce], "Tree"),
                (Library::Rccl, &[AllReduce], "Tree"),
            ],
            summary: "half of the vector goes up and down each of two trees, in segments",
            source: "Sanders, Speck, Träff, Parallel Computing 35(12) 2009; NCCL src/graph/trees.cc",
        }
    }

    /// Across nodes of several ranks NCCL's trees connect rails, with chains inside the nodes.
    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        library.connects_as_nccl() && shape.spans_domains()
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let further = || v.p.clone() - F::int(1);
        let one_pair = pairs(&v.shape) < 2 && v.shape.segments() == 1;
        let slots = match pairs(&v.shape) {
            0 | 1 if one_pair => v.unsegmented(),
            0 | 1 => F::int(period(v.shape.ranks).into()) * further() + v.one_port(),
            _ => F::int(2) * further() + F::int(2) * v.ceil_lg(),
        };
        let turns = F::int(turns(&v.shape).into());
        let parts = if one_pair { F::int(2) } else { F::int(2) * v.p.clone() };
        let volume = slots.clone() / parts;
        // One port: every other message is added.
        let added = F::int(if pairs(&v.shape) < 2 { 2 } else { 1 });
        Cost::new(turns.clone() * slots, turns * volume.clone()).reducing(volume / added)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let exact = match shape.ports {
            Ports::Half(_) => false,
            Ports::Full(k) if k.get() == 1 => shape.is_power_of_two(),
            _ => true,
        };
        // The formula is that of NCCL's trees; a heap is not as deep everywhere.
        let exact = exact && shape.params.trees != Trees::Heap;
        if exact && shape.segments() == 1 { Guarantee::Equal } else { Guarantee::UpperBound }
    }

    /// W messages of half a vector.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(period(v.shape.ranks).into()) / F::int(2)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (n, p) = (shape.ranks, u64::from(shape.segments()));
        let one_port = pairs(shape) < 2;
        let (first, each) = match p {
            1 if one_port => (one_pair(n), 0),
            _ if one_port => (one_port_slots(n).length, period(n)),
            _ => (2 * ceil_lg(n), 2),
        };
        let added = Share::new(1_u32, if one_port { 4 * p } else { 2 * p });
        let step = Step::new(1_u32, Share::new(1_u32, 2 * p), Route::Tree).reducing_share(added);
        let step = step.meeting(Share::ALL);
        let edges = Edges::Double(shape.params.trees);
        step.along((edges, n), (first.into(), each.into()), p, &mut |step| {
            repeat(step, turns(shape), emit);
        });
    }

    /// 003: two trees with M/2 each, and its pipeline of whole segments.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let slots = F::int(2) * v.ceil_lg();
        if v.shape.segments() == 1 {
            return Some(Cost::new(slots, v.ceil_lg()));
        }
        let slots = slots + v.p.clone() - F::int(1);
        Some(Cost::new(slots.clone(), slots / v.p.clone()))
    }

    fn asymptotic<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let c = match v.shape.params.c_real {
            Some(c) => F::parameter(Symbol::CReal, c),
            None => F::int(if pairs(&v.shape) < 2 { 2 } else { 1 }),
        };
        Some(Cost::new(F::int(2) * v.ceil_lg(), c))
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    /// A parent and two children, or one partner where there is only one.
    fn ports_needed(&self, shape: &Shape) -> u32 {
        (shape.ranks - 1).min(2)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let (n, p) = (shape.ranks, shape.segments());
        let layout = shape.params.trees;
        // Only one port needs the colours; on more ports every level is one slot.
        if layout == Trees::Coloured && pairs(shape) < 2 {
            return Some(Box::new(Slotted::new(n, p)));
        }
        Some(Box::new(ByLevels::new(trees(n, layout), p)))
    }
}

/// Broadcast over both trees.
struct TwoTree;

impl ClosedForm for TwoTree {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "two-tree",
            title: "two trees",
            collectives: &[Broadcast],
            aliases: &["two_tree", "two_tree_bcast"],
            known_as: &[],
            summary: "the root feeds half of the vector to each of two trees, in segments",
            source: "Sanders, Speck, Träff, Parallel Computing 35(12) 2009",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let slots = if feeds_both(&v.shape) {
            v.ceil_lg() + v.p.clone()
        } else {
            let both = F::int(2) * (v.ceil_lg() + v.p.clone());
            F::int(turns(&v.shape).into()) * (both - F::int(1))
        };
        Cost::new(slots.clone(), slots / (F::int(2) * v.p.clone()))
    }

    fn guarantee(&self, _: &Shape) -> Guarantee {
        Guarantee::UpperBound
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(1)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (levels, p) = (u64::from(ceil_lg(shape.ranks)), u64::from(shape.segments()));
        let turns = u64::from(turns(shape));
        let slots = match feeds_both(shape) {
            true => (levels + 1, 1),
            false => (turns * (2 * levels + 1), 2 * turns),
        };
        let step = Step::new(1_u32, Share::new(1_u32, 2 * p), Route::Tree);
        let passes = shape.passes_on() && (shape.ranks > 3 || !feeds_both(shape));
        let step = step.meeting(if passes { Share::ALL } else { Share::NONE });
        step.along((Edges::Fed, shape.ranks), slots, p, emit);
    }

    /// As its source states it.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let slots = F::int(2) * v.ceil_lg() + F::int(2) * v.p.clone();
        Some(Cost::new(slots.clone(), slots / (F::int(2) * v.p.clone())))
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        (shape.ranks - 1).min(2)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let (n, p) = (shape.ranks, shape.segments());
        if shape.params.trees == Trees::Coloured && !feeds_both(shape) {
            return Some(Box::new(fed_in_turn(n, p)));
        }
        Some(Box::new(Fed::new(n, p)))
    }
}

static UNSEGMENTED: Named = Named {
    name: "U",
    means: "U(N) is the rounds of one pair of segments where each message starts as soon as its data \
            and ports are free, or S(N), the slots of one pair in a colouring that repeats, if fewer",
    rule: |n| one_pair(ranks(n)).into(),
};

static ONE_PORT: Named = Named {
    name: "S",
    means: "S(N) is the slots of one pair of segments, up and down both trees, in a colouring that \
            repeats for the next pair",
    rule: |n| one_port_slots(ranks(n)).length.into(),
};

impl<F: Number> At<F> {
    /// U(N), a formula where N is a power of two.
    fn unsegmented(&self) -> F {
        if self.shape.is_power_of_two() {
            return F::int(4) * self.ceil_lg() - F::int(2);
        }
        let value = one_pair(self.shape.ranks).into();
        F::call(Function::Named(&UNSEGMENTED), &[&self.n], value)
    }

    /// S(N).
    fn one_port(&self) -> F {
        let value = one_port_slots(self.shape.ranks).length.into();
        F::call(Function::Named(&ONE_PORT), &[&self.n], value)
    }
}

fn ranks(arguments: &[u64]) -> u32 {
    u32::try_from(arguments[0]).unwrap_or(u32::MAX)
}

/// One pair of segments on one port, as a stage of a pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    ranks: u32,
    /// W: the slots that each further pair adds.
    pub(super) period: u32,
}

impl Pair {
    pub(super) fn of(ranks: u32) -> Self {
        Self { ranks, period: period(ranks) }
    }

    /// Slots of the first of `segments` pairs over `n` ranks: S(N), or U(N) if it is the only one.
    pub(super) fn slots<F: Number>(self, n: &F, segments: u32) -> F {
        let shape = Shape::new(AllReduce, self.ranks);
        let v = At { n: n.clone(), p: F::int(1), g: n.clone(), shape };
        if segments == 1 { v.unsegmented() } else { v.one_port() }
    }
}

/// The schedule of one pair; in the colours of the pipelined schedule if `segments` of them follow
/// each other.
pub(super) fn pair(ranks: u32, segments: u32) -> Box<dyn Schedule> {
    Box::new(if segments == 1 { Slotted::new(ranks, 1) } else { Slotted::coloured(ranks, 1) })
}

/// U(N).
fn one_pair(n: u32) -> u32 {
    unsegmented_steps(n).min(one_port_slots(n).length)
}

/// W: the messages of a pair of segments that the busiest rank sends.
fn period(n: u32) -> u32 {
    one_port_slots(n).period
}

/// Sends and receives at once, as far as that matters here.
fn pairs(shape: &Shape) -> u32 {
    shape.ports.both_ways(2)
}

/// One slot with at most one send and one receipt per rank takes at most three on a half-duplex
/// port.
fn turns(shape: &Shape) -> u32 {
    if pairs(shape) == 0 { 3 } else { 1 }
}

/// Whether the root, and every rank that forwards segments, sends two at once; with four ranks, the
/// two below the root share a link in both trees.
fn feeds_both(shape: &Shape) -> bool {
    pairs(shape) == 2 && shape.ranks >= 3 && shape.ranks != 4
}
