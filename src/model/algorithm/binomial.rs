//! Binomial trees: broadcast, reduce, scatter, gather, and the tree all-reduce made of two.
//!
//! ```text
//!   round 0   0 ─► 1
//!   round 1   0 ─► 2   1 ─► 3                     every rank r < 2^k sends to r + 2^k
//!   round 2   0 ─► 4   1 ─► 5   2 ─► 6   3 ─► 7
//! ```
//!
//! ⌈lg N⌉ rounds with the whole vector, at any N, on one full- or half-duplex port. Pipelining does
//! not help there: P segments take P·⌈lg N⌉ rounds, since the root sends each of them ⌈lg N⌉ times.
//! With ⌈lg N⌉ ports or more, segments overlap in ⌊lg N⌋ + P − 1 rounds. (K8 of the notes on the
//! textbooks: the textbook prints ⌈lg N⌉ + P − 1 for any fabric; other schedules reach that, see
//! `circulant`.) Scatter and gather halve the blocks: (N − 1)/N·M/BW.
//!
//! ```text
//!   in order  round 0   0 ─► 4                               multiples r of 2^(k + 1)
//!             round 1   0 ─► 2            4 ─► 6             send to r + 2^k, the
//!             round 2   0 ─► 1   2 ─► 3   4 ─► 5   6 ─► 7    largest k first
//! ```
//!
//! In the *in-order* tree every subtree is a range of ranks. It takes as long on equal links. Where
//! ranks fill one node after another, one message at most leaves a node in a round, and in the last
//! round of the other tree all ranks of a node send to another. MPICH broadcasts and reduces by it,
//! and Open MPI reduces by it (`in_order_bmtree` in coll_base_topo.c); Open MPI and Gloo broadcast
//! by the other. Scatter and gather are in order: their blocks are then consecutive.
//!
//! Sources: Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005; Chan, Heimlich, Purkayastha, van de
//! Geijn, CCPE 19(13) 2007.

use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllReduce, Broadcast, Gather, Reduce, Scatter};
use crate::model::formula::{At, Cost, Field, Ports, Shape, ceil_lg, floor_lg};
use crate::model::schedule::Schedule;
use crate::model::schedule::binomial::{self, Edges};

/// The binomial trees.
pub static FAMILY: &[&dyn Algorithm] = &[&NEAR_FIRST, &IN_ORDER, &Halving, &Both];

/// Broadcast and reduce of whole vectors.
pub(super) struct Tree(Edges);

pub(super) static NEAR_FIRST: Tree = Tree(Edges::NearFirst);
static IN_ORDER: Tree = Tree(Edges::InOrder);

impl ClosedForm for Tree {
    fn meta(&self) -> &'static Meta {
        static META: Meta = Meta {
            id: "binomial",
            title: "binomial tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["binomial_bcast", "binomial_reduce"],
            known_as: &[(Library::OpenMpi, &[Broadcast], "6 binomial")],
            summary: "the number of ranks that have the vector doubles in every round",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        };
        static IN_ORDER: Meta = Meta {
            id: "in-order-binomial",
            title: "in-order binomial tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["in_order_binomial"],
            known_as: &[
                (Library::OpenMpi, &[Reduce], "5 binomial"),
                (Library::Mpich, &[Broadcast, Reduce], "binomial"),
            ],
            summary: "a binomial tree whose subtrees are ranges of ranks, the largest ones first",
            source: "Open MPI, coll/base: in-order binomial trees; MPICH, bcast_intra_binomial.c",
        };
        if self.0 == Edges::InOrder { &IN_ORDER } else { &META }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let slots = if serves_all(&v.shape) {
            v.floor_lg() + v.p.clone() - F::int(1)
        } else {
            v.p.clone() * v.ceil_lg()
        };
        let volume = slots.clone() / v.p.clone();
        // The root adds what each of its ⌈lg N⌉ children sends, whatever its ports.
        let gamma = if v.shape.collective.reduces() { v.ceil_lg() } else { F::int(0) };
        Cost::new(slots, volume).reducing(gamma)
    }

    /// Further ports let a rank serve several children at once, which the formula does not count.
    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.ports {
            _ if serves_all(shape) => Guarantee::Equal,
            Ports::Full(k) if k.get() == 1 => Guarantee::Equal,
            Ports::Half(k) if k.get() == 1 && shape.segments() == 1 => Guarantee::Equal,
            _ => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if v.shape.collective.reduces() { F::int(1) } else { v.ceil_lg() }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let p = shape.segments();
        let mut step = |count: u32, route: Route, added: u32| {
            let step = Step::new(count, Share::new(1_u32, p), route);
            let reduces = shape.collective.reduces() && added > 0;
            let reduced = if reduces { Share::new(added, p) } else { Share::NONE };
            // Three ranks are a root and its two children.
            let one_way = !shape.passes_on() || shape.ranks == 3;
            emit(Step { reduced, meets: one_way.then_some(Share::NONE), ..step });
        };
        if serves_all(shape) {
            // The pipeline fills, then a segment of every child comes in each step.
            step(floor_lg(shape.ranks) - 1, all_edges(shape), 0);
            step(p, all_edges(shape), ceil_lg(shape.ranks));
        } else {
            let route = match self.0 {
                Edges::NearFirst => Route::Grow,
                Edges::InOrder => Route::halves,
            };
            (0..ceil_lg(shape.ranks)).for_each(|k| step(p, route(1 << k), 1));
        }
    }

    /// 003 §3.2 prints the pipeline for any fabric; the root would need ⌈lg N⌉ ports for that (K8).
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let slots = v.ceil_lg() + v.p.clone() - F::int(1);
        Some(Cost::new(slots.clone(), slots / v.p.clone()))
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        if shape.segments() > 1 { ceil_lg(shape.ranks) } else { 1 }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let Shape { collective, ranks, .. } = *shape;
        Some(Box::new(binomial::Tree::new(collective, ranks, shape.segments(), self.0)))
    }
}

/// Scatter and gather: the block halves in every round.
struct Halving;

impl ClosedForm for Halving {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "binomial",
            title: "binomial tree",
            collectives: &[Scatter, Gather],
            aliases: &["binomial_scatter", "binomial_gather"],
            known_as: &[
                (Library::OpenMpi, &[Scatter, Gather], "2 binomial"),
                (Library::Mpich, &[Scatter, Gather], "binomial"),
            ],
            summary: "every rank sends half of the blocks it holds to the rank half its range away",
            source: "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Cost::new(v.ceil_lg(), v.others_share())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if v.shape.collective == Scatter {
            return v.others_share();
        }
        // The busiest sender of a gather is rank 2^(⌈lg N⌉−1), with the blocks of the ranks after
        // it.
        let n = v.shape.ranks;
        let half = 1 << (ceil_lg(n) - 1);
        let behind = (n - half).max(half / 2);
        F::int(behind.into()) / v.n.clone()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        for k in (0..ceil_lg(n)).rev() {
            let w = 1 << k;
            let blocks = w.min(n - w);
            emit(Step::new(1_u32, Share::new(blocks, n), Route::halves(w)));
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(binomial::Halving::new(shape.collective, shape.ranks)))
    }
}

/// The tree all-reduce: a binomial reduce, then a binomial broadcast.
pub(super) struct Both;

impl ClosedForm for Both {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "tree",
            title: "binomial reduce + broadcast",
            collectives: &[AllReduce],
            aliases: &["binomial", "reduce-bcast"],
            known_as: &[(Library::OpenMpi, &[AllReduce], "2 nonoverlapping")],
            summary: "a binomial tree reduces to rank 0, then the same tree broadcasts the result",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let rounds = if serves_all(&v.shape) { v.floor_lg() } else { v.ceil_lg() };
        let slots = F::int(2) * rounds;
        // The root adds what each of its ⌈lg N⌉ children sends, whatever its ports.
        Cost::new(slots.clone(), slots).reducing(v.ceil_lg())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        ClosedForm::guarantee(&NEAR_FIRST, shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.ceil_lg()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let mut both = |count: u32, route: Route| {
            let step = Step::new(count, Share::ALL, route).one_way();
            emit(step.reducing());
            emit(step);
        };
        if serves_all(shape) {
            let (deep, children) = (floor_lg(shape.ranks), ceil_lg(shape.ranks));
            let step = Step::new(1_u32, Share::ALL, all_edges(shape)).one_way();
            both(deep - 1, all_edges(shape));
            emit(step.reducing_share(Share::new(1 + children - deep, 1_u32)));
            emit(step);
        } else {
            (0..ceil_lg(shape.ranks)).for_each(|k| both(1, Route::Grow(1 << k)));
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(binomial::Both::new(shape.ranks)))
    }
}

/// Whether the root, which has ⌈lg N⌉ children, can serve them all at once.
fn serves_all(shape: &Shape) -> bool {
    let children = ceil_lg(shape.ranks);
    match shape.ports {
        Ports::Unbounded => true,
        Ports::Full(k) => k.get() > 1 && k.get() >= children,
        Ports::Half(_) => false,
    }
}

/// The pattern where a rank serves all its children at once, near and far.
fn all_edges(shape: &Shape) -> Route {
    Route::Offsets { first: 1, last: 1 << (ceil_lg(shape.ranks) - 1) }
}
