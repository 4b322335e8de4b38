//! Rabenseifner's all-reduce: recursive halving, then recursive doubling.
//!
//! ```text
//!   near first   step 0   0 ◄─► 1   2 ◄─► 3      exchange half of the vector, add
//!                step 1   0 ◄─► 2   1 ◄─► 3      exchange half of the half, add
//!                then the same backwards, without adding
//! ```
//!
//! 2 lg N·α + 2(N−1)/N·M/BW for N = 2^m on one full-duplex port, and no less on more ports: every
//! rank sends the least data possible in the fewest steps. *Near first* (MPICH, 003) and *far
//! first* (000, 002) cost the same on equal links; on a machine with tiers near first keeps the big
//! messages inside the node.
//!
//! Other N, with f = ⌊lg N⌋ and p = 2^f:
//!
//! - *fold* (MPICH): rank 2i sends its vector to 2i + 1 for the first N − p pairs, and gets the
//!   result at the end: (2f + 2)·α + (2 + 2(p−1)/p)·M/BW.
//! - *half fold* (Rabenseifner, ICCS 2004): 2i and 2i + 1 exchange opposite halves, add, and 2i
//!   sends its half to 2i + 1. One α more, the same bytes, half the additions; near or far first.
//! - *padded*: V = V(N) = 2^⌈lg N⌉ ranks, of which V − N are ghosts with nothing to add; the
//!   share (V − N)/V of them is waste, a quarter for N = 6. Some texts let ghosts cost nothing,
//!   2 lg V·α + 2(V−1)/V·M/BW ([`Form::Paper`](crate::model::formula::Form::Paper)).
//!   But ghosts receive and send: here rank g − V/2 hosts ghost g. So the first and largest
//!   exchange, farthest first, is local to the host, and each later one costs it two messages:
//!   at most (4 lg V − 2)·α + (3 − 4/V)·M/BW.
//!
//! The textbooks print 2⌈lg N⌉·α + 2(N−1)/N·M/BW for any N, which none of these attains (K7);
//! `circulant-rs-ag` does. On one half-duplex port each exchange takes two turns. The folds are
//! exact where each port keeps the order of rounds. Where messages start as soon as data and ports
//! allow, the folds may take up to a fifth longer on one port; on more ports the half fold may take
//! less.

mod ghosts;

use super::recursive_doubling::behind_fold;
use super::rounds::{exchange_turns, repeat, shift_turns};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::AllReduce;
use crate::model::formula::{At, Cost, Field, Function, Named, Ports, Shape, floor_lg};
use crate::model::schedule::Schedule;
use crate::model::schedule::combine::Fold;
use crate::model::schedule::digits::{Order, Shares};

/// Rabenseifner's algorithm and its variants for other N.
pub static FAMILY: &[&dyn Algorithm] =
    &[&Near, &Far, &HalfFold { order: Order::Near }, &HalfFold { order: Order::Far }, &Padded];

const SOURCE: &str = "Rabenseifner, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005";

/// Shortest distances, and largest messages, first.
pub(super) struct Near;

impl ClosedForm for Near {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "rabenseifner",
            title: "Rabenseifner (nearest first)",
            collectives: &[AllReduce],
            aliases: &["rabenseifner_ar", "rabenseifner-near", "halving_doubling", "rhd"],
            known_as: &[
                (Library::OpenMpi, &[AllReduce], "6 rabenseifner"),
                (Library::Mpich, &[AllReduce], "reduce_scatter_allgather"),
            ],
            summary: "partners at doubling distances exchange halves of the rest, then all-gather back",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let core = core(v);
        if v.shape.is_power_of_two() { core } else { core + hand_over(true) + hand_over(false) }
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.is_power_of_two() {
            true => Guarantee::Equal,
            false if shape.ports.is_half() => Guarantee::UpperBound,
            // Ranks that did not fold run ahead of those that did, and delay them.
            false => Guarantee::EqualInRounds,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        core_sent(v) + F::int(i64::from(!v.shape.is_power_of_two()))
    }

    /// Open MPI folds halves.
    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        library == Library::OpenMpi && !shape.is_power_of_two()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        folded(shape, emit, |emit| core_steps(shape, false, emit));
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Fold::new(halving(shape, Order::Near), shape.ranks)))
    }

    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        printed(v)
    }
}

/// Longest distances first.
struct Far;

impl ClosedForm for Far {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "rabenseifner-far",
            title: "Rabenseifner (farthest first)",
            collectives: &[AllReduce],
            aliases: &["rabenseifner_far"],
            known_as: &[],
            summary: "Rabenseifner's algorithm with the largest messages at the longest distances",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Near.cost(v)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        ClosedForm::guarantee(&Near, shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        ClosedForm::sent(&Near, v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        folded(shape, emit, |emit| core_steps(shape, true, emit));
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Fold::new(halving(shape, Order::Far), shape.ranks)))
    }

    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        printed(v)
    }
}

/// A fold in which both ranks of a pair add half of their vectors.
struct HalfFold {
    order: Order,
}

impl ClosedForm for HalfFold {
    fn meta(&self) -> &'static Meta {
        static NEAR: Meta = Meta {
            id: "rabenseifner-half-fold",
            title: "Rabenseifner (half fold)",
            collectives: &[AllReduce],
            aliases: &["rabenseifner_half_fold", "rabenseifner_half"],
            known_as: &[(Library::OpenMpi, &[AllReduce], "6 rabenseifner")],
            summary: "surplus ranks add half of a partner's vector, then send it that half",
            source: "Rabenseifner, ICCS 2004",
        };
        static FAR: Meta = Meta {
            id: "rabenseifner-half-fold-far",
            title: "Rabenseifner (half fold, far)",
            collectives: &[AllReduce],
            aliases: &["rabenseifner_half_fold_far"],
            known_as: &[],
            summary: "the half fold, then the largest messages at the longest distances",
            source: "Rabenseifner, ICCS 2004",
        };
        match self.order {
            Order::Near => &NEAR,
            Order::Far => &FAR,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        no_power_of_two(shape, "no rank needs folding", "rabenseifner")
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        behind_half_fold(v, core(v)) + hand_over(false)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.ports == Ports::ONE { Guarantee::EqualInRounds } else { Guarantee::UpperBound }
    }

    /// The odd rank of a pair: half a vector in the swap, then the core, then the result.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        core_sent(v) + F::int(3) / F::int(2)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        half_fold_steps(shape, emit);
        core_steps(shape, self.order == Order::Far, emit);
        emit(Step::new(1_u32, Share::ALL, Route::Xor(1)).one_way());
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Fold::halves(halving(shape, self.order), shape.ranks)))
    }
}

/// Ghost ranks make up the next power of two.
struct Padded;

impl ClosedForm for Padded {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "rabenseifner-padded",
            title: "Rabenseifner (padded)",
            collectives: &[AllReduce],
            aliases: &["rabenseifner_padded"],
            known_as: &[],
            summary: "ghost ranks hosted by real ranks pad N to the next power of two",
            source: "padding as taught in courses, but with ghost ranks hosted by real ranks",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        no_power_of_two(shape, "no ghost is needed", "rabenseifner")?;
        // V must fit the integer type of ranks.
        let fits = shape.ranks <= 1 << 31;
        if fits { Ok(()) } else { Err(Reason::new("there are too many ranks")) }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(shift_turns(&v.shape).into());
        let part = F::int(1) / padded(v);
        let alpha = F::int(4) * v.ceil_lg() - F::int(2);
        let beta = F::int(3) - F::int(4) * part.clone();
        let gamma = F::int(3) / F::int(2) - F::int(2) * part;
        Cost::new(turns.clone() * alpha, turns * beta).reducing(gamma)
    }

    fn guarantee(&self, _: &Shape) -> Guarantee {
        Guarantee::UpperBound
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let ranks = padded(v);
        F::int(2) * (ranks.clone() - F::int(1)) / ranks
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let turns = u64::from(shift_turns(shape));
        let ranks = padded_ranks(shape.ranks);
        // A ghost's host may be anywhere: every exchange may be near or far.
        let last = u32::try_from(ranks / 2).unwrap_or(u32::MAX);
        let far = Route::Offsets { first: 1, last };
        let mut distance = ranks / 2;
        while distance > 0 {
            // A ghost and its host have nothing to send each other over the first distance.
            let messages = if distance == ranks / 2 { 1 } else { 2 };
            let step = Step::new(messages, Share::new(distance, ranks), far);
            emit(step.reducing());
            emit(Step { count: messages * (2 * turns - 1), ..step });
            distance /= 2;
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(ghosts::Padded::new(shape.ranks)))
    }

    /// 000 counts as if there were V real ranks.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let ranks = padded(v);
        let share = (ranks.clone() - F::int(1)) / ranks;
        Some(Cost::new(F::int(2) * v.ceil_lg(), F::int(2) * share.clone()).reducing(share))
    }
}

/// Refuses a power of two, at which an algorithm equals another.
pub(super) fn no_power_of_two(shape: &Shape, why: &str, other: &str) -> Result<(), Reason> {
    if !shape.is_power_of_two() {
        return Ok(());
    }
    Err(format!("{} is a power of two: {why}, so this equals {other}", shape.ranks).into())
}

static PADDED: Named =
    Named { name: "V", means: "V(N) = 2^⌈lg N⌉", rule: |n| n[0].next_power_of_two() };

fn padded_ranks(n: u32) -> u64 {
    u64::from(n).next_power_of_two()
}

pub(super) fn padded<F: Field>(v: &At<F>) -> F {
    F::call(Function::Named(&PADDED), &[&v.n], padded_ranks(v.shape.ranks))
}

/// The cost that 000, 002 and 003 print for any N.
fn printed<F: Field>(v: &At<F>) -> Option<Cost<F>> {
    let print = || Cost::new(F::int(2) * v.ceil_lg(), F::int(2) * v.others_share());
    (!v.shape.is_power_of_two()).then(print)
}

/// Halving and doubling among the ranks that remain after a fold.
fn halving(shape: &Shape, order: Order) -> Shares {
    Shares::new(AllReduce, 1 << floor_lg(shape.ranks), 2, order)
}

/// `core` behind a fold of halves: both of a pair add the other's half, and one sends its own.
pub(super) fn behind_half_fold<F: Field>(v: &At<F>, core: Cost<F>) -> Cost<F> {
    let half = || F::int(1) / F::int(2);
    let turns = F::int(exchange_turns(&v.shape).into());
    let swap = Cost::new(turns.clone(), turns * half()).reducing(half());
    core + swap + Cost::new(F::int(1), half())
}

/// The steps of that fold.
pub(super) fn half_fold_steps(shape: &Shape, emit: &mut dyn FnMut(Step)) {
    let half = Step::new(1_u32, Share::new(1_u32, 2_u32), Route::Xor(1));
    repeat(half.reducing(), exchange_turns(shape), emit);
    emit(half.one_way());
}

/// A whole vector between the ranks of a pair.
fn hand_over<F: Field>(adds: bool) -> Cost<F> {
    let cost = Cost::new(F::int(1), F::int(1));
    if adds { cost.reducing(F::int(1)) } else { cost }
}

/// (p − 1)/p of the p = 2^⌊lg N⌋ ranks that halve and double.
pub(super) fn core_share<F: Field>(v: &At<F>) -> F {
    if v.shape.is_power_of_two() {
        return v.others_share();
    }
    (v.power_below() - F::int(1)) / v.power_below()
}

fn core<F: Field>(v: &At<F>) -> Cost<F> {
    let lg = if v.shape.is_power_of_two() { v.ceil_lg() } else { v.floor_lg() };
    let twice = F::int(2 * i64::from(exchange_turns(&v.shape)));
    Cost::new(twice.clone() * lg, twice * core_share(v)).reducing(core_share(v))
}

fn core_sent<F: Field>(v: &At<F>) -> F {
    F::int(2) * core_share(v)
}

/// Halving and doubling among p ranks; distances count only the ranks that take part.
fn core_steps(shape: &Shape, far_first: bool, emit: &mut dyn FnMut(Step)) {
    let rounds = floor_lg(shape.ranks);
    let step = |k: u32| {
        let distance = if far_first { rounds - 1 - k } else { k };
        Step::new(1_u32, Share::new(1_u32, 2_u64 << k), behind_fold(shape, 1 << distance, 1))
    };
    let turns = exchange_turns(shape);
    (0..rounds).for_each(|k| repeat(step(k).reducing(), turns, emit));
    (0..rounds).rev().for_each(|k| repeat(step(k), turns, emit));
}

/// The fold around the steps of the core.
fn folded(shape: &Shape, emit: &mut dyn FnMut(Step), core: impl Fn(&mut dyn FnMut(Step))) {
    let whole = Step::new(1_u32, Share::ALL, Route::Xor(1)).one_way();
    let folds = !shape.is_power_of_two();
    if folds {
        emit(whole.reducing());
    }
    core(emit);
    if folds {
        emit(whole);
    }
}
