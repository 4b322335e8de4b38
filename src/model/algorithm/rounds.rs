//! Shared by many families: rounds on few ports, and all-gathers that also run in reverse.

use super::{ClosedForm, Guarantee, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{AllReduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Ports, Shape};
use crate::model::schedule::combine::{Then, reverse};
use crate::model::schedule::{Schedule, modulo};

/// How often a round in which every rank sends to one rank and receives from another is repeated.
///
/// On one half-duplex port neighbours take turns. A shift consists of cycles: an odd one takes 3
/// turns, an even one 2 if its ranks alternate well, so 3 is an upper bound.
pub(super) fn shift_turns(shape: &Shape) -> u32 {
    if is_one_half(shape.ports) { 3 } else { 1 }
}

/// How often a round in which ranks exchange in pairs is repeated.
pub(super) fn exchange_turns(shape: &Shape) -> u32 {
    if is_one_half(shape.ports) { 2 } else { 1 }
}

/// The same around a ring: neighbours alternate if their number is even.
pub(super) fn ring_turns(shape: &Shape) -> u32 {
    if shape.ranks.is_multiple_of(2) { exchange_turns(shape) } else { shift_turns(shape) }
}

/// Whether a rank makes one transfer at a time.
pub(super) fn is_one_half(ports: Ports) -> bool {
    matches!(ports, Ports::Half(k) if k.get() == 1)
}

/// Simultaneous sends with as many receives, no more than `partners`.
pub(super) fn lanes(ports: Ports, partners: u32) -> u32 {
    match ports {
        Ports::Half(k) => (k.get() / 2).clamp(1, partners),
        other => other.sends(partners),
    }
}

/// Rounds of `k` each for this many messages, as a formula and as their number.
pub(super) fn in_waves<F: Field>(v: &At<F>, messages: F, count: u32, k: u32) -> F {
    match (v.shape.ports, k) {
        (Ports::Unbounded, _) => F::int(1),
        (_, 1) => messages,
        _ => v.ceil(&(messages / F::int(k.into())), count.div_ceil(k).into()),
    }
}

/// Messages one after another to all others.
pub(super) fn waves<F: Field>(v: &At<F>) -> F {
    let others = v.shape.ranks - 1;
    let turns = F::int(shift_turns(&v.shape).into());
    turns * in_waves(v, v.others(), others, lanes(v.shape.ports, others))
}

/// Emits `step`, and again for each further turn; its data are reduced only once.
pub(super) fn repeat(step: Step, turns: u32, emit: &mut dyn FnMut(Step)) {
    emit(step);
    if turns > 1 {
        emit(Step { count: step.count * u64::from(turns - 1), reduced: Share::NONE, ..step });
    }
}

/// Refuses numbers of ranks that are no power of two.
pub(super) fn power_of_two(shape: &Shape) -> Result<(), Reason> {
    if shape.is_power_of_two() {
        return Ok(());
    }
    Err(Reason::from(format!("{} ranks are not a power of two", shape.ranks)))
}

/// The number of all-gather passes: two in an all-reduce, one of them reversed.
pub(super) fn passes(shape: &Shape) -> u32 {
    if shape.collective == AllReduce { 2 } else { 1 }
}

/// `rounds` messages and (N − 1)/N of the vector per pass; scattered data are added.
pub(super) fn gather_cost<F: Field>(v: &At<F>, rounds: F, turns: u32) -> Cost<F> {
    let repeats = F::int((passes(&v.shape) * turns).into());
    let gamma = if v.shape.collective.reduces() { v.others_share() } else { F::int(0) };
    Cost::new(repeats.clone() * rounds, repeats * v.others() / v.n.clone()).reducing(gamma)
}

/// The data that the busiest rank sends in such passes.
pub(super) fn gather_sent<F: Field>(v: &At<F>) -> F {
    F::int(passes(&v.shape).into()) * v.others_share()
}

/// The steps of an all-gather unchanged; reversed, with additions, for a reduce-scatter; reversed,
/// then forwards for an all-reduce.
pub(super) fn gather_steps(shape: &Shape, gather: &[Step], turns: u32, emit: &mut dyn FnMut(Step)) {
    if shape.collective.reduces() {
        gather.iter().rev().for_each(|step| repeat(step.reducing(), turns, emit));
    }
    if shape.collective != ReduceScatter {
        gather.iter().for_each(|step| repeat(*step, turns, emit));
    }
}

/// An all-gather unchanged; reversed for a reduce-scatter; reversed, then forwards for an
/// all-reduce.
pub(super) fn gather_schedule(
    shape: &Shape,
    gather: impl Schedule + Clone + 'static,
) -> Box<dyn Schedule> {
    match shape.collective {
        ReduceScatter => reverse(gather),
        AllReduce => Box::new(Then::new(AllReduce, reverse(gather.clone()), gather)),
        _ => Box::new(gather),
    }
}

/// Such an all-gather of ⌈lg N⌉ rounds, and as much of it as its collectives need.
pub(super) struct LogGather {
    pub meta: &'static Meta,
    /// The rounds over N ranks, with chunks of M/N.
    pub rounds: fn(u32) -> Vec<Step>,
    pub schedule: fn(&Shape) -> Box<dyn Schedule>,
}

impl ClosedForm for LogGather {
    fn meta(&self) -> &'static Meta {
        self.meta
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        gather_cost(v, v.ceil_lg(), shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        gather_steps(shape, &(self.rounds)(shape.ranks), shift_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some((self.schedule)(shape))
    }
}

/// The rank `by` ranks after `rank`, modulo n; n ≥ 1.
pub(super) fn on(rank: u32, by: u32, n: u32) -> u32 {
    modulo(u64::from(rank) + u64::from(by), n)
}

/// The rank `by` ranks before `rank`, modulo n; n ≥ 1.
pub(super) fn back(rank: u32, by: u32, n: u32) -> u32 {
    on(rank, n - by % n, n)
}

/// The turns of an exchange among the `base` ranks that differ in one digit.
fn digit_turns(shape: &Shape, base: u32) -> u32 {
    if base == 2 { exchange_turns(shape) } else { shift_turns(shape) }
}

/// The messages of such an exchange, one after another.
pub(super) fn digit_waves(shape: &Shape, base: u32) -> u32 {
    digit_turns(shape, base) * (base - 1).div_ceil(lanes(shape.ports, base - 1))
}

/// Of a form whose rounds are such exchanges.
pub(super) fn digit_guarantee(shape: &Shape, base: u32) -> Guarantee {
    if base == 2 { Guarantee::in_pairs(shape) } else { Guarantee::on_ports(shape) }
}

/// The exchanges of a rank with those that differ in one digit of value `place`, with `each` of the
/// vector to every partner.
pub(super) fn digit_steps(
    shape: &Shape,
    base: u32,
    place: u32,
    each: Share,
    adds: bool,
    emit: &mut dyn FnMut(Step),
) {
    let (lanes, turns) = (lanes(shape.ports, base - 1), digit_turns(shape, base));
    for first in (1..base).step_by(lanes as usize) {
        let farthest = (first + lanes - 1).min(base - 1);
        let distance = farthest * place;
        // Ranks that differ in one binary digit are also at a fixed exclusive or.
        let binary = base.is_power_of_two();
        let route = if binary { Route::Xor(distance) } else { Route::Offset(distance) };
        let partners = u64::from(farthest + 1 - first);
        let step = Step::new(1_u32, each, route).at_once(farthest + 1 - first);
        let added = Share::new(each.chunks * partners, each.of);
        repeat(if adds { step.reducing_share(added) } else { step }, turns, emit);
    }
}

/// m where n = base^m.
pub(super) fn digits(n: u64, base: u64) -> Option<u32> {
    let power = (0..u64::BITS).map_while(|m| base.checked_pow(m)).take_while(|&p| p <= n);
    let (m, last) = power.enumerate().last()?;
    (base >= 2 && last == n).then_some(m as u32)
}

/// The same as the rule of a function log(base, n) in formulas.
pub(super) fn log(arguments: &[u64]) -> u64 {
    let &[base, n] = arguments else { return 0 };
    digits(n, base).unwrap_or(0).into()
}

/// The digits of the ranks' numbers; 0 where N is not a power of the base.
pub(super) fn levels(shape: &Shape, base: u32) -> u32 {
    digits(shape.ranks.into(), base.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_powers_only() {
        assert_eq!(digits(64, 4), Some(3));
        assert_eq!(digits(9, 3), Some(2));
        assert_eq!(digits(12, 2), None);
        assert_eq!(digits(5, 1), None);
    }
}
