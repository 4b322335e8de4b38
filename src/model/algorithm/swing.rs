//! Swing: recursive doubling with partners on alternating sides, near each other on a torus.
//!
//! ```text
//!   distance      1    1    3    5    11   …      Σ_{i ≤ s} (−2)^i = 1, −1, 3, −5, 11
//!   even ranks    +    −    +    −    +           odd ranks the other way
//! ```
//!
//! `swing-latency` exchanges whole vectors, lg N·(α + M/BW). `swing` reduce-scatters and
//! all-gathers, 2·lg N·α + 2(N − 1)/N·M/BW: in step s a rank sends the chunks that its partner can
//! still reach. Where all ranks are equally far apart these cost as much as recursive doubling and
//! Rabenseifner; on a ring or torus the distances are shorter (1, 1, 3, 5 … for 1, 2, 4, 8 …). N =
//! 2^m here; the paper has variants for even N. Exact on full-duplex ports, ×2 on one half-duplex
//! port.

use super::rounds::{exchange_turns, gather_cost, gather_sent, gather_steps, power_of_two, repeat};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::AllReduce;
use crate::model::formula::{At, Cost, Field, Shape, ceil_lg};
use crate::model::schedule::Schedule;

pub(super) mod schedule;

/// Swing.
pub static FAMILY: &[&dyn Algorithm] = &[&Latency, &Bandwidth];

const SOURCE: &str = "De Sensi et al., Swing, NSDI 2024, arXiv:2401.09356";

/// |Σ_{i ≤ s} (−2)^i|.
pub(super) fn distance(s: u32) -> u32 {
    let sign = if s.is_multiple_of(2) { 1 } else { -1 };
    // The sum of the geometric series is (1 − (−2)^(s+1))/3.
    let power = (1_i64 << (s + 1)) * -sign;
    ((1 - power) / 3).unsigned_abs() as u32
}

/// The exchange of step s: even ranks with those that far up in even steps, down in odd ones.
pub(super) fn route(s: u32, n: u32) -> Route {
    let away = distance(s) % n;
    Route::Pairs(if s.is_multiple_of(2) { away } else { n - away })
}

/// The rounds of an all-gather, farthest first, with chunks of M/N.
pub(super) fn gather_rounds(n: u32) -> Vec<Step> {
    let m = ceil_lg(n);
    let round = |s: u32| Step::new(1_u32, Share::new(n >> (s + 1), n), route(s, n));
    (0..m).rev().map(round).collect()
}

/// Whole vectors.
struct Latency;

impl ClosedForm for Latency {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "swing-latency",
            title: "Swing (latency)",
            collectives: &[AllReduce],
            aliases: &["swing_lat", "swing_lat_ar"],
            known_as: &[],
            summary: "ranks exchange whole vectors with partners on alternating sides",
            source: SOURCE,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = F::int(exchange_turns(&v.shape).into()) * v.ceil_lg();
        Cost::new(messages.clone(), messages).reducing(v.ceil_lg())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::in_pairs(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.ceil_lg()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        for s in 0..ceil_lg(shape.ranks) {
            let step = Step::new(1_u32, Share::ALL, route(s, shape.ranks));
            repeat(step.reducing(), exchange_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(schedule::Whole::new(shape.ranks)))
    }
}

/// Reduce-scatter and all-gather.
struct Bandwidth;

impl ClosedForm for Bandwidth {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "swing",
            title: "Swing",
            collectives: &[AllReduce],
            aliases: &["swing_bw", "swing-bandwidth", "swing_bw_ar"],
            known_as: &[],
            summary: "ranks exchange the chunks the partner can still reach, on alternating sides",
            source: SOURCE,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        gather_cost(v, v.ceil_lg(), exchange_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::in_pairs(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        gather_steps(shape, &gather_rounds(shape.ranks), exchange_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(schedule::Shares::new(AllReduce, shape.ranks)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_swing() {
        let first: Vec<u32> = (0..6).map(distance).collect();
        assert_eq!(first, [1, 1, 3, 5, 11, 21]);
    }

    #[test]
    fn routes_are_those_of_the_schedule() {
        for n in (1..8).map(|m| 1_u32 << m) {
            for s in 0..ceil_lg(n) {
                let Route::Pairs(d) = route(s, n) else { panic!("{n} {s}") };
                for even in (0..n).step_by(2) {
                    assert_eq!(schedule::partner(even, s, n), (even + d) % n, "{n} {s} {even}");
                }
            }
        }
    }
}
