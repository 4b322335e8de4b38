//! k-ring: rings of m = N/k equal ranks between groups, rings of k ranks inside them.
//!
//! ```text
//!   k = 3, N = 6     between   0 ◄─► 3   1 ◄─► 4   2 ◄─► 5      m − 1 steps of M/N
//!                    inside    0 ─► 1 ─► 2 ─► 0   3 ─► 4 ─► 5 ─► 3   k − 1 steps of M/k
//! ```
//!
//! All-gather: first single chunks go around between the groups; then everything a rank has goes
//! around inside its group, m chunks per message. (N/k + k − 2)·α + (N − 1)/N·M/BW: the bytes of
//! the ring in fewer messages, and only small messages leave the group. Reduce-scatter is the
//! reversal, with additions; all-reduce is both. `radix` is k; the default is the number of ranks
//! per node, and then each phase is priced on its own links.
//!
//! Named in the generalized algorithms of IEEE CLUSTER 2023; derived here, not taken from there.
//! Each phase is the ring of `ring.rs`, so the formula is exact on full-duplex ports. It has not
//! been simulated on half-duplex ones, where ×2 (even rings) or ×3 is an upper bound.

use super::rounds::{
    back, exchange_turns, gather_cost, gather_sent, gather_steps, on, shift_turns,
};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, AllReduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Level, Shape};
use crate::model::schedule::combine::Then;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};

/// The k-ring.
pub static FAMILY: &[&dyn Algorithm] = &[&KRing];

struct KRing;

impl ClosedForm for KRing {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "k-ring",
            title: "k-ring",
            collectives: &[AllReduce, AllGather, ReduceScatter],
            aliases: &["k_ring", "kring"],
            known_as: &[],
            summary: "rings between groups of k ranks, then rings inside them",
            source: "generalized collective algorithms, IEEE CLUSTER 2023",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        let (n, k) = (shape.ranks, size(shape));
        if k < 2 || k >= n {
            return Err(Reason::new("it needs groups of k ranks, 1 < k < N: give a radix"));
        }
        if !n.is_multiple_of(k) {
            return Err(Reason::from(format!("{n} ranks do not divide into groups of {k}")));
        }
        Ok(())
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = turns(&v.shape);
        if !are_domains(&v.shape) {
            let k = F::int(size(&v.shape).into());
            return gather_cost(v, v.n.clone() / k.clone() + k - F::int(2), turns);
        }
        // Messages of a share each, `walks` times; data are reduced only once.
        let phase = |level: Level, messages: F, parts: &F, walks: u32, adds: bool| {
            let volume = messages.clone() / parts.clone();
            let gamma = if adds { volume.clone() } else { F::int(0) };
            let walks = F::int(walks.into());
            Cost::new(walks.clone() * messages, walks * volume).reducing(gamma).over(level)
        };
        let inside = |adds| phase(Level::Inner, v.g.clone() - F::int(1), &v.g, turns, adds);
        let between = |walks, adds| {
            let others = v.n.clone() / v.g.clone() - F::int(1);
            phase(Level::Outer, others, &v.n, walks, adds)
        };
        match v.shape.collective {
            AllGather => between(turns, false).then(inside(false)),
            ReduceScatter => inside(true).then(between(turns, true)),
            _ => inside(true).then(between(2 * turns, true)).then(inside(false)),
        }
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (n, k) = (shape.ranks, size(shape));
        let between = |by| Step::new(n / k - 1, Share::new(1_u32, n), Route::Offset(by));
        let inside = Step::new(k - 1, Share::new(n / k, n), Route::Offset(1));
        let gather = match are_domains(shape) {
            true => [between(1).between_domains(k), inside.over(Level::Inner)],
            false => [between(k), inside],
        };
        gather_steps(shape, &gather, turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Grid::new(shape.ranks, size(shape), Lines::Columns).schedule(shape))
    }
}

/// k; 0 if it is not set.
fn size(shape: &Shape) -> u32 {
    shape.params.radix.unwrap_or_else(|| shape.group.map_or(0, |g| g.get()))
}

/// Whether the groups are the domains of the machine, so each phase has its own links.
fn are_domains(shape: &Shape) -> bool {
    shape.group.is_some_and(|g| g.get() == size(shape))
}

fn turns(shape: &Shape) -> u32 {
    let k = size(shape).max(1);
    let even = k.is_multiple_of(2) && (shape.ranks / k).is_multiple_of(2);
    if even { exchange_turns(shape) } else { shift_turns(shape) }
}

/// Rings along the rows and along the columns of a grid of ranks, rank i in row i / row.
///
/// The all-gather goes along one kind of line chunk by chunk, then along the other kind with
/// everything gathered by the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    ranks: u32,
    /// The ranks of a row.
    row: u32,
    /// The lines that come first in an all-gather.
    first: Lines,
    /// Whether this is the reversal, a reduce-scatter.
    backwards: bool,
}

/// The lines of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    Rows,
    Columns,
}

impl Grid {
    /// The all-gather over rows of `row` ranks, which divides `ranks`.
    pub(super) fn new(ranks: u32, row: u32, first: Lines) -> Self {
        Self { ranks, row: row.clamp(1, ranks.max(1)), first, backwards: false }
    }

    /// The all-gather, its reversal, or both, depending on the shape.
    pub(super) fn schedule(self, shape: &Shape) -> Box<dyn Schedule> {
        let backwards = Self { backwards: true, ..self };
        match shape.collective {
            ReduceScatter => Box::new(backwards),
            AllReduce => Box::new(Then::new(AllReduce, backwards, self)),
            _ => Box::new(self),
        }
    }

    /// The number of ranks in one of `lines`.
    fn size(self, lines: Lines) -> u32 {
        if lines == Lines::Rows { self.row } else { self.ranks / self.row }
    }
}

impl Schedule for Grid {
    fn frame(&self) -> Frame {
        let others = |lines| u64::from(self.size(lines)).saturating_sub(1);
        let rounds = others(Lines::Rows) + others(Lines::Columns);
        let collective = if self.backwards { ReduceScatter } else { AllGather };
        Frame::new(collective, self.ranks, self.ranks, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let row = self.row;
        let round = if self.backwards { self.rounds() - 1 - round } else { round };
        let (lines, gone, whole) = match round.checked_sub(u64::from(self.size(self.first)) - 1) {
            None => (self.first, round, false),
            Some(round) if self.first == Lines::Rows => (Lines::Columns, round, true),
            Some(round) => (Lines::Rows, round, true),
        };
        // The rank's place in its line, and the rank at another place of that line.
        let size = self.size(lines);
        let (place, line) = match lines {
            Lines::Rows => (rank % row, rank / row),
            Lines::Columns => (rank / row, rank % row),
        };
        let at = |place: u32| match lines {
            Lines::Rows => line * row + place,
            Lines::Columns => place * row + line,
        };
        let gone = modulo(gone, size);
        let (to, op, chunk) = match self.backwards {
            false => (on(place, 1, size), Op::Copy, back(place, gone, size)),
            true => (back(place, 1, size), Op::Reduce, back(place, gone + 1, size)),
        };
        let to = Endpoint::Rank(at(to));
        match (whole, lines) {
            (false, _) => out.push(to, op, [Run::one(at(chunk))]),
            (true, Lines::Columns) => out.push(to, op, [Run { start: chunk * row, len: row }]),
            (true, Lines::Rows) => {
                let column = (chunk..self.ranks).step_by(row as usize);
                out.push(to, op, column.map(Run::one));
            }
        }
    }
}
