//! Published times of dispatch and combine over nodes, for other ranks and tokens.
//!
//! Each number of ranks was measured with one number of bytes x₀. How much of its time T₀ is start and
//! how much bytes is not published, so a call of x bytes takes
//!
//! ```text
//! T = s + (T₀ − s)·x/x₀     between T₀ (all of it start) and T₀·x/x₀ (all of it bytes)
//! ```
//!
//! with the start s of the same kernel inside a node, where it is known. Between two numbers of ranks T₀ and
//! x₀ follow the logarithm of the ranks: left out in turn, 32 to 128 ranks are within 9 % of their
//! neighbours.

use std::sync::LazyLock;

use super::experts::{SIBLING, Tokens};
use super::kernels::Board;
use super::{Basis, Expectation};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::machine::profile::NetworkKind;
use crate::machine::query::Query;

/// A published time.
struct Published {
    board: &'static str,
    generation: &'static str,
    backend: &'static str,
    phase: &'static str,
    tokens: Tokens,
    time: f64,
}

static ALL: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let lines = include_str!("../../../evidence/dispatches.csv").lines();
    lines.filter_map(Published::read).collect()
});

/// GPUs of a node there, and the line rate of the NIC of each.
const NODE: u32 = 8;
const NIC: Bandwidth = Bandwidth(50e9);

/// What interpolation over ranks is off by.
const BETWEEN: f64 = 1.1;
/// With this many times the bytes, or this part of them, the two ends say too little.
const FAR: f64 = 4.0;

impl Published {
    fn read(line: &'static str) -> Option<Self> {
        let words: Vec<&str> = line.split(',').collect();
        let [board, generation, backend, phase, numbers @ ..] = &words[..] else { return None };
        let numbers: Vec<u32> = numbers.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let &[ranks, each, width, top_k, experts, time] = &numbers[..] else { return None };
        let tokens =
            Tokens { each: each.into(), width: Bytes(width.into()), top_k, experts, ranks };
        Some(Self { board, generation, backend, phase, tokens, time: f64::from(time) })
    }
}

/// The time of one phase of low-latency kernels, whose start is `start` in µs; `None` if it was not
/// published for such ranks, nodes and about as many bytes.
pub(super) fn at(
    query: &Query,
    (backend, phase): (&str, &str),
    tokens: Tokens,
    start: Option<f64>,
) -> Option<Expectation> {
    let board = Board::of(query)?;
    let spread = query.placement.is_spread();
    let alike = |p: &&Published| {
        p.backend == backend
            && p.phase == phase
            && (p.tokens.ranks > NODE) == spread
            && match spread {
                true => p.generation == board.generation.id(),
                // Links inside nodes differ from board to board.
                false => board.id.as_deref() == Some(p.board),
            }
    };
    if spread && !(query.placement.per_node == NODE && has_such_nics(query)) {
        return None;
    }
    let all: Vec<&Published> = ALL.iter().filter(alike).collect();
    let below = all.iter().rev().find(|p| p.tokens.ranks <= tokens.ranks)?;
    let above = all.iter().find(|p| p.tokens.ranks >= tokens.ranks)?;
    let octave = |ranks: u32| f64::from(ranks).log2();
    let (low, high) = (octave(below.tokens.ranks), octave(above.tokens.ranks));
    let part = if high > low { (octave(tokens.ranks) - low) / (high - low) } else { 0.0 };
    let between = |of: &dyn Fn(&Published) -> f64| of(below) + part * (of(above) - of(below));
    let whole = between(&|p| p.time);
    let more = tokens.leave(true) / between(&|p| p.tokens.leave(true));
    if !(1.0 / FAR..=FAR).contains(&more) {
        return None;
    }
    let own = board.id.as_deref() == Some(below.board);
    let start = start.unwrap_or(0.0).min(whole);
    let wide = if own { BETWEEN } else { BETWEEN * SIBLING };
    let micros = |time: f64| Seconds(time * 1e-6);
    Some(Expectation {
        time: micros(start + (whole - start) * more),
        low: micros(whole * more.min(1.0)) * Ratio(1.0 / wide),
        high: micros(whole * more.max(1.0)) * Ratio(wide),
        basis: if own { Basis::Measured } else { Basis::SameBoard },
        reach: None,
        error: None,
    })
}

/// Whether each GPU has such a NIC to itself.
fn has_such_nics(query: &Query) -> bool {
    let alone = query.machine.fabric.tiers.last().is_some_and(|t| t.oversubscription.0 <= 1.0);
    alone
        && query.machine.hardware.as_ref().is_some_and(|h| {
            matches!(h.network, Some(NetworkKind::Ib | NetworkKind::Roce))
                && h.between.is_some_and(|rate| (rate.0 / NIC.0 - 1.0).abs() < 0.01)
        })
}
