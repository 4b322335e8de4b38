//! One shot and two shots: what inference engines run inside a node, where every rank reaches every
//! other directly.
//!
//! ```text
//!   one shot    i ──x──► all others, each adds N vectors         reads, or stores into slots
//!   two shots   i ──x/N─► owner of the block, which adds;        a reduce-scatter and an
//!               owner ──x/N─► all others                         all-gather, each at once
//! ```
//!
//! On k ports there are ⌈(N − 1)/k⌉ messages one after another: one shot takes ⌈(N − 1)/k⌉(α +
//! M/BW), two shots 2⌈(N − 1)/k⌉(α + M/(N·BW)). With one port per partner that is one α against
//! two. One shot adds (N − 1)·M on every rank, two shots (N − 1)/N·M. Whether a kernel stores or
//! its peer reads, the same bytes cross the same link: i's vector crosses the link from i. Kernels
//! that read need barriers, which are messages without bytes and not counted here. Kernels with
//! packets are no other algorithms: a flag travels with every word, so they need no barrier and
//! move twice the bytes, as with NCCL's protocol LL: `one-shot/LL` is MSCCL++'s allpair-packet,
//! `two-shot/LL` its packet. A kernel that also applies the norm sends what the one without it
//! sends, and adds more: it is an algorithm of `norm.rs`.
//!
//! With a switch that adds and multicasts (multimem) they are `one-shot-multimem` and `inc`; with
//! one that only multicasts, one shot is `one-shot-multicast`. Over nodes, `two-shot-one-shot`
//! scatters and gathers inside them.
//!
//! Source: vllm-project/vllm `csrc/custom_all_reduce.cuh`; NVIDIA/TensorRT-LLM
//! `cpp/tensorrt_llm/kernels/customAllReduceKernels.cu`; pytorch/pytorch `CUDASymmetricMemoryOps.cu`.

use super::rounds::{gather_schedule, lanes, on, repeat, shift_turns, waves};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{self, AllGather, AllReduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Shape};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The all-reduces in which every rank communicates with every other at once.
pub static FAMILY: &[&dyn Algorithm] = &[&OneShot, &TwoShot];

/// RCCL runs both inside a node of MI300X and newer: below some MiB by schedules of MSCCL, in ROCm 7.14 by kernels of
/// its own (ROCm/rocm-systems, projects/rccl/CHANGELOG.md).
const DIRECT: &[(Library, &[Collective], &str)] = &[(Library::Rccl, &[AllReduce], "DDA or MSCCL")];

/// What ranks add to what they have while they exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Adds {
    Nothing,
    /// What arrives.
    Arrivals,
    /// A vector of their own, at the end.
    Own,
    /// Both.
    ArrivalsAndOwn,
}

/// The same as steps: a part of the vector to each of the other ranks.
pub(super) fn exchange(shape: &Shape, each: Share, adds: Adds, emit: &mut dyn FnMut(Step)) {
    let n = shape.ranks;
    let arrivals = matches!(adds, Adds::Arrivals | Adds::ArrivalsAndOwn);
    let own = matches!(adds, Adds::Own | Adds::ArrivalsAndOwn);
    let lanes = lanes(shape.ports, n - 1);
    for first in (1..n).step_by(lanes as usize) {
        let last = (first + lanes - 1).min(n - 1);
        let all = first == 1 && last == n - 1;
        let route = if all { Route::All } else { Route::Offsets { first, last } };
        let step = Step::new(1_u32, each, route).at_once(last + 1 - first);
        let arrived = if arrivals { each.chunks * u64::from(last + 1 - first) } else { 0 };
        let added = arrived + if own && last == n - 1 { each.of } else { 0 };
        let step = if added > 0 { step.reducing_share(Share::new(added, each.of)) } else { step };
        repeat(step, shift_turns(shape), emit);
    }
}

/// Whole vectors.
pub(super) struct OneShot;

impl ClosedForm for OneShot {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "one-shot",
            title: "one shot",
            collectives: &[AllReduce],
            aliases: &["oneshot", "1stage", "all-pairs", "one-shot-push", "one-shot-pull"],
            known_as: DIRECT,
            summary: "every rank gets the vectors of all others at once and adds them itself",
            source: "vllm-project/vllm, csrc/custom_all_reduce.cuh; NVIDIA/TensorRT-LLM, customAllReduceKernels.cu",
        }
    }

    fn is_withheld(&self, _: Library, shape: &Shape) -> bool {
        shape.spans_domains()
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Cost::new(waves(v), waves(v)).reducing(v.others())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        exchange(shape, Share::ALL, Adds::Arrivals, emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(AllPairs { ranks: shape.ranks }))
    }
}

/// Blocks to their owners, sums to all.
pub(super) struct TwoShot;

impl ClosedForm for TwoShot {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "two-shot",
            title: "two shots",
            collectives: &[AllReduce],
            aliases: &[
                "twoshot",
                "2stage",
                "direct-rs-ag",
                "two-shot-push",
                "two-shot-pull",
                "rsag",
                "rsag-zero-copy",
                "rsag-pipeline",
            ],
            known_as: DIRECT,
            summary: "every rank adds its block of all vectors, then sends the sum to all others",
            source: "vllm-project/vllm, csrc/custom_all_reduce.cuh; NVIDIA/TensorRT-LLM, customAllReduceKernels.cu",
        }
    }

    fn is_withheld(&self, _: Library, shape: &Shape) -> bool {
        shape.spans_domains()
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = F::int(2) * waves(v);
        Cost::new(messages.clone(), messages / v.n.clone()).reducing(v.others_share())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(2) * v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let block = Share::new(1_u32, shape.ranks);
        exchange(shape, block, Adds::Arrivals, emit);
        exchange(shape, block, Adds::Nothing, emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(gather_schedule(shape, Spread { ranks: shape.ranks }))
    }
}

/// Half of two shots, which compositions run inside nodes: every block to its owner, or to all.
///
/// On one port it costs what a ring costs, so it is not an algorithm of its own in the registry.
pub(super) struct Half;

impl ClosedForm for Half {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "half-of-two-shot",
            title: "half of two shots",
            collectives: &[AllGather, ReduceScatter],
            aliases: &[],
            known_as: &[],
            summary: "every rank sends a block to each other rank at once",
            source: "vllm-project/vllm, csrc/custom_all_reduce.cuh; NVIDIA/TensorRT-LLM, customAllReduceKernels.cu",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let added = if v.shape.collective.reduces() { v.others_share() } else { F::int(0) };
        Cost::new(waves(v), waves(v) / v.n.clone()).reducing(added)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let adds = if shape.collective.reduces() { Adds::Arrivals } else { Adds::Nothing };
        exchange(shape, Share::new(1_u32, shape.ranks), adds, emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(gather_schedule(shape, Spread { ranks: shape.ranks }))
    }
}

/// Every vector to all others in one round.
#[derive(Debug, Clone, Copy)]
struct AllPairs {
    ranks: u32,
}

impl Schedule for AllPairs {
    fn frame(&self) -> Frame {
        Frame::new(AllReduce, self.ranks, 1, u64::from(self.ranks > 1))
    }

    fn sends(&self, _: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let others = (1..self.ranks).map(|offset| on(rank, offset, self.ranks));
        others.for_each(|to| out.push(Endpoint::Rank(to), Op::Reduce, [Run::one(0)]));
    }
}

/// Every block to all others in one round.
#[derive(Debug, Clone, Copy)]
struct Spread {
    ranks: u32,
}

impl Schedule for Spread {
    fn frame(&self) -> Frame {
        let frame = Frame::new(AllGather, self.ranks, self.ranks, u64::from(self.ranks > 1));
        frame.turning()
    }

    fn sends(&self, _: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let others = (1..self.ranks).map(|offset| on(rank, offset, self.ranks));
        others.for_each(|to| out.push(Endpoint::Rank(to), Op::Copy, [Run::one(rank)]));
    }
}
