//! The butterfly: a reduce-scatter that halves nearest first, and then puts the blocks in their places.
//!
//! ```text
//!   N = 4        step 0   0 ◄─► 1   2 ◄─► 3      half of the vector each way, added
//!                step 1   0 ◄─► 2   1 ◄─► 3      a quarter; rank r has block r with its bits reversed
//!                step 2   1 ◄─► 2                blocks go to their ranks
//! ```
//!
//! Recursive halving sends its largest messages over the largest distance; here they are between
//! neighbours, so that most data stay in a node. That costs one block more for N > 2:
//! (lg N + 1)·α + M/BW on one full-duplex port. N is a power of two.
//!
//! Where all blocks have the same size a rank puts them in the order of reversed bits in its memory
//! first, so that none has to move in the end: lg N·α + (N − 1)/N·M/BW.
//!
//! Source: open-mpi/ompi v4.1.6, `ompi/mca/coll/base/coll_base_reduce_scatter_block.c` and
//! `coll_base_reduce_scatter.c`: `intra_butterfly`; J. L. Träff, "An improved algorithm for
//! (non-commutative) reduce-scatter with an application", EuroPVM/MPI 2005.

use super::recursive_doubling::{Halving, power_of_two};
use super::rounds::{exchange_turns, repeat};
use super::{Algorithm, ClosedForm, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::ReduceScatter;
use crate::model::formula::{At, Cost, Field, Shape, floor_lg};
use crate::model::schedule::digits::{Order, Shares};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The butterfly.
pub static FAMILY: &[&dyn Algorithm] = &[&Butterfly, &Mirrored];

struct Butterfly;

impl ClosedForm for Butterfly {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "butterfly",
            title: "butterfly (nearest first)",
            collectives: &[ReduceScatter],
            aliases: &["butterfly_rs"],
            known_as: &[(Library::OpenMpi, &[ReduceScatter], "4 butterfly")],
            summary: "partners at doubling distances exchange half of what is left and add; then each \
                      block goes to its rank",
            source: "Träff, EuroPVM/MPI 2005; Open MPI, coll/base: butterfly",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let (more, blocks) = match v.shape.ranks {
            ..=2 => (F::int(0), v.others_share()),
            _ => (F::int(1), F::int(1)),
        };
        Cost::new(turns.clone() * (v.ceil_lg() + more), turns * blocks).reducing(v.others_share())
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if v.shape.ranks <= 2 { v.others_share() } else { F::int(1) }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        halves(shape, emit);
        if n > 2 {
            // Reversed bits are as far away as half of the ranks.
            repeat(
                Step::new(1_u32, Share::new(1_u32, n), Route::Offset(n / 2)),
                exchange_turns(shape),
                emit,
            );
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Halves(Shares::new(ReduceScatter, shape.ranks, 2, Order::Near))))
    }
}

/// The butterfly of blocks that are in the order of their reversed bits.
struct Mirrored;

impl ClosedForm for Mirrored {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "butterfly-mirrored",
            title: "butterfly (blocks mirrored)",
            collectives: &[ReduceScatter],
            aliases: &["butterfly_mirrored"],
            known_as: &[],
            summary: "the butterfly of blocks put in the order in which they come to their ranks before",
            source: "Open MPI, coll/base: butterfly of reduce_scatter_block at powers of two",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Halving.cost(v)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        halves(shape, emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(InPlace(Shares::new(ReduceScatter, shape.ranks, 2, Order::Near))))
    }
}

/// Those of the exchanges, nearest first.
fn halves(shape: &Shape, emit: &mut dyn FnMut(Step)) {
    for k in 0..floor_lg(shape.ranks) {
        let step = Step::new(1_u32, Share::new(1_u32, 2_u32 << k), Route::Xor(1 << k));
        repeat(step.reducing(), exchange_turns(shape), emit);
    }
}

/// The halves nearest first; a chunk is where the one of its reversed bits would be.
struct InPlace(Shares);

impl Schedule for InPlace {
    fn frame(&self) -> Frame {
        Frame { keeps_order: false, ..self.0.frame() }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let mut halves = Sends::default();
        self.0.sends(round, from, &mut halves);
        for message in halves.iter() {
            let mut chunks: Vec<u32> =
                message.runs.iter().flat_map(|run| run.chunks()).map(|c| self.0.chunk(c)).collect();
            chunks.sort_unstable();
            out.push(message.to, message.op, chunks.into_iter().map(Run::one));
        }
    }
}

/// The halves nearest first, and a last round in which blocks go to their ranks.
struct Halves(Shares);

impl Schedule for Halves {
    fn frame(&self) -> Frame {
        let frame = self.0.frame();
        Frame { rounds: frame.rounds + u64::from(frame.ranks > 2), ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        if round < self.0.frame().rounds {
            return self.0.sends(round, from, out);
        }
        let Endpoint::Rank(rank) = from else { return };
        let block = self.0.chunk(rank);
        if block != rank {
            out.push(Endpoint::Rank(block), Op::Copy, [Run::one(block)]);
        }
    }
}
