//! Recursive doubling (all-reduce, all-gather) and recursive halving (reduce-scatter).
//!
//! ```text
//!   step 0   0 ◄─► 1   2 ◄─► 3   4 ◄─► 5   6 ◄─► 7      partner: rank xor 2^k
//!   step 1   0 ◄─► 2   1 ◄─► 3   4 ◄─► 6   5 ◄─► 7
//!   step 2   0 ◄─► 4   1 ◄─► 5   2 ◄─► 6   3 ◄─► 7
//! ```
//!
//! All-reduce: partners exchange whole vectors and add, lg N·(α + M/BW) on one full-duplex port.
//! Where N is not a power of two, the *fold* of MPICH is used: rank 2i sends its vector to 2i + 1
//! for the first N − 2^⌊lg N⌋ pairs and gets the result back at the end, (⌊lg N⌋ + 2)(α + M/BW).
//! spiceMonkey/collective-comm 01 prints ⌈lg N⌉ there (K7). With more ports the first exchange
//! overlaps the fold, so this is an upper bound.
//!
//! All-gather: partners exchange everything they have, M/N, 2M/N, 4M/N …: lg N·α + (N−1)/N·M/BW.
//! The reduce-scatter is its reversal, with additions. Both need a power of two (Thakur,
//! Rabenseifner, Gropp, IJHPCA 19(1) 2005).
//!
//! On one half-duplex port each exchange takes two turns; the two messages of the fold take one
//! each.

use super::rounds::{exchange_turns, repeat};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, AllReduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Ports, Shape, floor_lg};
use crate::model::schedule::Schedule;
use crate::model::schedule::combine::{Fold, folded, surplus};
use crate::model::schedule::digits::{self, Order};

/// Recursive doubling and halving.
pub static FAMILY: &[&dyn Algorithm] = &[&Whole, &Doubling, &Halving];

const SOURCE: &str = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005";

/// All-reduce of whole vectors.
pub(super) struct Whole;

impl ClosedForm for Whole {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "recursive-doubling",
            title: "recursive doubling",
            collectives: &[AllReduce],
            aliases: &["recursive_doubling", "rec_doubling", "rec_doubling_ar", "rd"],
            known_as: &[
                (Library::OpenMpi, &[AllReduce], "3 recursive_doubling"),
                (Library::Mpich, &[AllReduce], "recursive_doubling"),
            ],
            summary: "partners at doubling distances exchange whole vectors and add",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        if v.shape.is_power_of_two() {
            let messages = turns * v.ceil_lg();
            return Cost::new(messages.clone(), messages).reducing(v.ceil_lg());
        }
        let messages = turns * v.floor_lg() + F::int(2);
        Cost::new(messages.clone(), messages).reducing(v.floor_lg() + F::int(1))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let one = matches!(shape.ports, Ports::Full(k) | Ports::Half(k) if k.get() == 1);
        if one || shape.is_power_of_two() { Guarantee::Equal } else { Guarantee::UpperBound }
    }

    /// A rank that represents another one also sends the result to it.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if v.shape.is_power_of_two() { v.ceil_lg() } else { v.floor_lg() + F::int(1) }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let folds = !shape.is_power_of_two();
        let hand_over = Step::new(1_u32, Share::ALL, Route::Xor(1)).one_way();
        if folds {
            emit(hand_over.reducing());
        }
        for k in 0..floor_lg(shape.ranks) {
            let whole = Step::new(1_u32, Share::ALL, behind_fold(shape, 1 << k, 1));
            repeat(whole.reducing(), exchange_turns(shape), emit);
        }
        if folds {
            emit(hand_over);
        }
    }

    /// 003 B.1 prints ⌈lg N⌉ for any N.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        (!v.shape.is_power_of_two()).then(|| Cost::new(v.ceil_lg(), v.ceil_lg()))
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let whole = digits::Whole::new(folded(shape.ranks), 2);
        Some(Box::new(Fold::new(whole, shape.ranks)))
    }
}

/// All-gather of growing blocks.
pub(super) struct Doubling;

impl ClosedForm for Doubling {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "recursive-doubling",
            title: "recursive doubling",
            collectives: &[AllGather],
            aliases: &["recursive_doubling", "rec_doubling", "rec_doubling_ag", "rd"],
            known_as: &[
                (Library::OpenMpi, &[AllGather], "3 recursive_doubling"),
                (Library::Mpich, &[AllGather], "recursive_doubling"),
            ],
            summary: "partners at doubling distances exchange everything they have",
            source: SOURCE,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        Cost::new(turns.clone() * v.ceil_lg(), turns * v.others_share())
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        for k in 0..floor_lg(shape.ranks) {
            repeat(block(shape, k), exchange_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(shares(shape))
    }
}

/// Reduce-scatter of shrinking blocks.
pub(super) struct Halving;

impl ClosedForm for Halving {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "recursive-halving",
            title: "recursive halving",
            collectives: &[ReduceScatter],
            aliases: &["recursive_halving", "rec_halving", "rec_halving_rs"],
            known_as: &[
                (Library::OpenMpi, &[ReduceScatter], "2 recursive_halving"),
                (Library::Mpich, &[ReduceScatter], "recursive_halving"),
            ],
            summary: "partners at halving distances exchange half of what is left, and add",
            source: SOURCE,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Doubling.cost(v).reducing(v.others_share())
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        for k in (0..floor_lg(shape.ranks)).rev() {
            repeat(block(shape, k).reducing(), exchange_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(shares(shape))
    }
}

pub(super) fn power_of_two(shape: &Shape) -> Result<(), Reason> {
    if shape.is_power_of_two() {
        return Ok(());
    }
    let n = shape.ranks;
    Err(format!("needs a power of two ranks, and {n} is not one; ring and bruck work for any N")
        .into())
}

/// The all-gather, nearest first, and its reversal.
fn shares(shape: &Shape) -> Box<dyn Schedule> {
    Box::new(digits::Shares::new(shape.collective, shape.ranks, 2, Order::Far))
}

/// An exchange over distance 2^k of aligned blocks of 2^k chunks.
fn block(shape: &Shape, k: u32) -> Step {
    let distance = 1_u32 << k;
    Step::new(1_u32, Share::new(distance, shape.ranks), Route::Xor(distance))
}

/// An exchange over a distance among the ranks that remain after a fold: all, for a power of two. Of a pair the
/// first remains, or the second: `stays` is 0 or 1.
pub(super) fn behind_fold(shape: &Shape, distance: u32, stays: u32) -> Route {
    match surplus(shape.ranks) {
        0 => Route::Xor(distance),
        pairs => Route::Folded { distance, pairs, stays },
    }
}
