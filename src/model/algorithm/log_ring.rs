//! The rings of Huawei's HCCL with few steps: NHR, NHR_V1, NB.
//!
//! ```text
//!   NHR       r ─► r + 2^k     the chunks that lie 2^(k+1) apart, ⌈lg N⌉ steps at any N
//!   NB        r ─► r + 2^k     neighbouring chunks, as in Bruck's all-gather
//!   NHR_V1    rows of about √N ranks, then columns: two short rings
//! ```
//!
//! NHR and NB: ⌈lg N⌉·α + (N − 1)/N·M/BW for all-gather and reduce-scatter, twice that for the
//! all-reduce. NHR's broadcast is its scatter and all-gather, 2⌈lg N⌉·α + 2(N − 1)/N·M/BW. NHR
//! sends the same messages as Sparbit, NB the same as Bruck. NHR_V1, the older variant that Huawei
//! is retiring, takes about 2√N steps: with side(N) = ⌊√N⌋ rows, (side(N) + N/side(N) − 2)·α + (N −
//! 1)/N·M/BW. It is given for N = s² and s(s + 1), where its rows are equally long.
//!
//! The documentation gives orders of growth; steps and bytes here are those of the open source
//! (hcomm, `algorithm/base/alg_template`), not simulated. HCCL's AHC and pipeline are hierarchies,
//! over unequal groups and with both tiers busy at once. They have no formula on equal links and
//! are left to the hierarchical compositions.

use super::k_ring::{Grid, Lines};
use super::pat::FarFirst;
use super::rounds::{
    LogGather, back, gather_cost, gather_schedule, gather_sent, gather_steps, repeat, shift_turns,
};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Reason, Route, Share, Step};
use super::{bruck, sparbit};
use crate::base::collective::Collective::{
    AllGather, AllReduce, Broadcast, ReduceScatter, Scatter,
};
use crate::model::formula::{At, Cost, Field, Function, Named, Shape, ceil_lg};
use crate::model::schedule::combine::Then;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The rings of HCCL with few steps.
pub static FAMILY: &[&dyn Algorithm] = &[&Nhr, &NhrV1, &NB];

const SOURCE: &str = "Huawei CANN, HCCL user guide, hcclug_000114; HCCL_ALGO, envref_07_0079";

fn guarantee(shape: &Shape) -> Guarantee {
    Guarantee::on_one_port(shape)
}

/// Nonuniform hierarchical ring.
struct Nhr;

impl ClosedForm for Nhr {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "nhr",
            title: "NHR",
            collectives: &[AllReduce, AllGather, ReduceScatter, Broadcast],
            aliases: &["nonuniform-hierarchical-ring"],
            known_as: &[],
            summary: "in step k rank r sends every 2^(k+1)th chunk to rank r + 2^k",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        if v.shape.collective != Broadcast {
            return gather_cost(v, v.ceil_lg(), shift_turns(&v.shape));
        }
        let walks = F::int((1 + shift_turns(&v.shape)).into());
        Cost::new(walks.clone() * v.ceil_lg(), walks * v.others() / v.n.clone())
    }

    /// The root's scatter is over before the last rank has its chunk: an upper bound for
    /// broadcasts.
    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.collective == Broadcast { Guarantee::UpperBound } else { guarantee(shape) }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if v.shape.collective == Broadcast {
            return F::int(2) * v.others_share();
        }
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let gather = sparbit::gather_rounds(shape.ranks);
        if shape.collective != Broadcast {
            return gather_steps(shape, &gather, shift_turns(shape), emit);
        }
        // The scatter goes down a tree, in which no rank sends and receives at once.
        gather.iter().rev().for_each(|step| emit(*step));
        gather.iter().for_each(|step| repeat(*step, shift_turns(shape), emit));
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let gather = FarFirst::new(shape.ranks, None);
        if shape.collective != Broadcast {
            return Some(gather_schedule(shape, gather));
        }
        Some(Box::new(Then::new(Broadcast, NearFirst { ranks: shape.ranks }, gather)))
    }
}

/// The older variant of NHR.
struct NhrV1;

impl ClosedForm for NhrV1 {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "nhr-v1",
            title: "NHR_V1",
            collectives: &[AllReduce, AllGather, ReduceScatter],
            aliases: &["nhr_v1"],
            known_as: &[],
            summary: "rings along the rows of a square of ranks, then along its columns",
            source: SOURCE,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        let (n, rows) = (shape.ranks, rows(shape));
        if rows * rows == n || rows * (rows + 1) == n {
            return Ok(());
        }
        let why = format!("its cost is known only for s² and s(s + 1) ranks, not for {n}");
        Err(Reason::from(why))
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let rows = F::call(Function::Named(&SIDE), &[&v.n], rows(&v.shape).into());
        let steps = rows.clone() + v.n.clone() / rows - F::int(2);
        gather_cost(v, steps, shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        guarantee(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (n, rows) = (shape.ranks, rows(shape));
        let row = n / rows;
        let gather = [
            Step::new(row - 1, Share::new(1_u32, n), Route::Offset(1)),
            Step::new(rows - 1, Share::new(row, n), Route::Offset(row)),
        ];
        let used: Vec<Step> = gather.into_iter().filter(|step| step.count > 0).collect();
        gather_steps(shape, &used, shift_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let row = shape.ranks / rows(shape).max(1);
        Some(Grid::new(shape.ranks, row, Lines::Rows).schedule(shape))
    }
}

/// ⌊√N⌋.
fn rows(shape: &Shape) -> u32 {
    shape.ranks.isqrt()
}

static SIDE: Named = Named {
    name: "side",
    means: "side(N) = ⌊√N⌋",
    rule: |of| of.first().copied().unwrap_or(0).isqrt(),
};

/// Nonuniform Bruck.
static NB: LogGather = LogGather {
    meta: &Meta {
        id: "nb",
        title: "NB",
        collectives: &[AllReduce, AllGather, ReduceScatter],
        aliases: &["nonuniform-bruck"],
        known_as: &[],
        summary: "Bruck's all-gather, its reversal, and both for an all-reduce",
        source: SOURCE,
    },
    rounds: bruck::gather_rounds,
    schedule: |shape| gather_schedule(shape, bruck::Doubling::onwards(shape.ranks)),
};

/// The scatter of NHR's broadcast: in round k the ranks less than 2^k before the root send the
/// chunks at intervals of 2^(k+1) from there 2^k ranks back.
///
/// If N is not a power of two, the library also moves chunks that the sender does not have.
#[derive(Debug, Clone, Copy)]
struct NearFirst {
    ranks: u32,
}

impl Schedule for NearFirst {
    fn frame(&self) -> Frame {
        Frame::new(Scatter, self.ranks, self.ranks, ceil_lg(self.ranks).into())
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let (before, distance) = (back(0, rank, n), 1_u32 << round);
        if before >= distance || distance >= n - before {
            return;
        }
        let places = (before + distance..n).step_by(2 * distance as usize);
        let runs = places.map(|place| Run::one(n - place));
        out.push(Endpoint::Rank(back(rank, distance, n)), Op::Copy, runs);
    }
}
