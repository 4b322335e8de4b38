//! Reduce up an in-order tree of halves to the last rank, as Open MPI runs it for operations that do
//! not commute.
//!
//! ```text
//!   N = 8            7             the last rank of a range is above two ranges: the lower half of
//!                3       6         the ranks, whose last is ⌊N/2⌋ − 1, and the rest
//!              1   2   4   5
//!              0                   at the end          7 ─► 0       the whole vector in one message
//! ```
//!
//! A rank receives a segment from its upper range first, then from its lower one. So one segment takes
//! L(N) slots, L(1) = 0, L(2) = 1 and L(N) = max(L(N − ⌊N/2⌋ − 1) + 1, L(⌊N/2⌋)) + 1, and each further one 2.
//! The root gets the sum in one message without segments: 2(P − 1) + L(N) messages of M/P and one of M. On one
//! full-duplex port that is exact; with γ the last message adds nothing. On a half-duplex port a rank
//! has three messages of each segment: 3(P − 1) + 3·L(N) at most.
//!
//! Source: Open MPI v4.1.6, `ompi/mca/coll/base/coll_base_topo.c`,
//! `ompi_coll_base_topo_build_in_order_bintree`, and `coll_base_reduce.c`,
//! `ompi_coll_base_reduce_intra_in_order_binary`.

use super::rounds::is_one_half;
use super::{Algorithm, ClosedForm, Edges, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::Reduce;
use crate::model::formula::{At, Cost, Field, Function, Named, Ports, Shape, floor_lg};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The reduce.
pub static FAMILY: &[&dyn Algorithm] = &[&HalvedTree];

struct HalvedTree;

impl ClosedForm for HalvedTree {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "in-order-halved-tree",
            title: "in-order tree to the last rank",
            collectives: &[Reduce],
            aliases: &["in_order_halved_tree"],
            known_as: &[(Library::OpenMpi, &[Reduce], "6 in-order_binary")],
            summary: "segments are summed up a tree of halves to the last rank, which sends the sum to rank 0",
            source: "Open MPI, coll/base: in-order binary trees",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let (period, levels) = slots(&v.shape);
        let further = F::int(period.into()) * (v.p.clone() - F::int(1));
        let first = F::call(Function::Named(&LENGTH), &[&v.n], length(v.shape.ranks).into());
        let slots = further + F::int(levels.into()) * first;
        let shares = slots.clone() / v.p.clone();
        Cost::new(slots + F::int(1), shares.clone() + F::int(1)).reducing(shares)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.ports == Ports::ONE { Guarantee::Equal } else { Guarantee::UpperBound }
    }

    /// The last rank sends what every other rank sends in segments.
    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(1)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let ((period, levels), p) = (slots(shape), shape.segments());
        let step = Step::new(1_u32, Share::new(1_u32, p), Route::Tree).reducing().one_way();
        let first = u64::from(levels) * u64::from(length(shape.ranks));
        step.along((Edges::Halved, shape.ranks), (first, period.into()), p.into(), emit);
        emit(Step::new(1_u32, Share::ALL, Route::Root));
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        (shape.ranks - 1).min(2)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(ToTheLast { ranks: shape.ranks, segments: shape.segments() }))
    }
}

/// Slots that each further segment adds, and how often the first takes L(N).
fn slots(shape: &Shape) -> (u32, u32) {
    let children = (shape.ranks - 1).min(2);
    if is_one_half(shape.ports) { (children + 1, 3) } else { (children, 1) }
}

static LENGTH: Named = Named {
    name: "L",
    means: "L(N) = max(L(N − ⌊N/2⌋ − 1) + 1, L(⌊N/2⌋)) + 1, L(1) = 0 and L(2) = 1",
    rule: |n| length(u32::try_from(n[0]).unwrap_or(u32::MAX)).into(),
};

fn length(n: u32) -> u32 {
    lengths(n).0
}

/// L(n) and L(n − 1), for both of which the halves are ⌊n/2⌋ and ⌊n/2⌋ − 1.
fn lengths(n: u32) -> (u32, u32) {
    match n {
        0 | 1 => (0, 0),
        2 => (1, 0),
        _ => {
            let (more, less) = lengths(n / 2);
            let join = |upper: u32, lower: u32| (upper + 1).max(lower) + 1;
            match n % 2 {
                0 => (join(less, more), join(less, less)),
                _ if n == 3 => (join(more, more), 1),
                _ => (join(more, more), join(less, more)),
            }
        }
    }
}

/// The rank above `rank` in a tree of `n` ranks, and how many are above it.
pub(super) fn place(rank: u32, n: u32) -> (Option<u32>, u32) {
    let (mut first, mut size) = (0, n);
    let (mut parent, mut depth) = (None, 0);
    loop {
        let top = first + size - 1;
        if rank == top {
            return (parent, depth);
        }
        // Two ranks are a chain.
        let lower = if size > 2 { size / 2 } else { 0 };
        if rank < first + lower {
            size = lower;
        } else {
            first += lower;
            size -= lower + 1;
        }
        (parent, depth) = (Some(top), depth + 1);
    }
}

#[derive(Debug, Clone, Copy)]
struct ToTheLast {
    ranks: u32,
    segments: u32,
}

impl Schedule for ToTheLast {
    fn frame(&self) -> Frame {
        let rounds = match self.ranks {
            0 | 1 => 0,
            n => u64::from(floor_lg(n)) + u64::from(self.segments),
        };
        Frame::new(Reduce, self.ranks, self.segments, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        match place(rank, self.ranks) {
            (Some(parent), depth) => {
                let late = round.checked_sub(u64::from(floor_lg(self.ranks) - depth));
                let segment = late.and_then(|s| u32::try_from(s).ok());
                if let Some(segment) = segment.filter(|s| *s < self.segments) {
                    out.push(Endpoint::Rank(parent), Op::Reduce, [Run::one(segment)]);
                }
            }
            (None, _) if round + 1 == self.rounds() => {
                let all = Run { start: 0, len: self.segments };
                out.push(Endpoint::Rank(0), Op::Copy, [all]);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of coll_base_topo.c's loop for small trees, and L(N) as the tree is walked.
    #[test]
    fn the_tree_is_open_mpis() {
        let parents = |n| (0..n).map(|rank| place(rank, n).0).collect::<Vec<_>>();
        let is = |list: &[u32]| list.iter().map(|p| Some(*p)).chain([None]).collect::<Vec<_>>();
        assert_eq!(parents(2), is(&[1]));
        assert_eq!(parents(4), is(&[1, 3, 3]));
        assert_eq!(parents(8), is(&[1, 3, 3, 7, 6, 6, 7]));
        assert_eq!([1, 2, 3, 4, 8, 9, 13, 16].map(length), [0, 1, 2, 2, 4, 4, 5, 6]);
        let naive = |n: u32| {
            let mut of = vec![0, 0, 1];
            for n in 3..=n as usize {
                let one = (of[n - n / 2 - 1] + 1).max(of[n / 2]) + 1;
                of.push(one);
            }
            of[n as usize]
        };
        for n in 2..300 {
            assert_eq!(length(n), naive(n), "{n}");
        }
        assert_eq!(place(u32::MAX - 1, u32::MAX), (None, 0));
    }
}
