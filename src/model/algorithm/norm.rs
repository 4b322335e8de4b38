//! One shot and two shots in a kernel that also adds the residual and applies RMSNorm: what
//! inference engines run between the layers of a model.
//!
//! ```text
//!   one shot    i ──x──► all others, each: Σ, + residual, norm of every row
//!   two shots   i ──rows──► owner of the rows, which adds; owner ──Σ──► all others,
//!               each: + residual, norm of every row
//! ```
//!
//! The links carry what they carry without the norm. Two shots cut the vector between rows, so an
//! owner could apply the norm before it sends; but then the sum with the residual, which the next
//! layer needs, would have to follow it, and the second shot would be twice as long. The kernels
//! send the sum, and every rank applies the norm to all rows, N times the work altogether. So on k
//! ports one shot is ⌈(N − 1)/k⌉(α + M/BW) + N·M·γ, two shots 2⌈(N − 1)/k⌉(α + M/(N·BW)) +
//! (2 − 1/N)·M·γ: M·γ more than without the norm, for the residual, which every rank has and adds
//! to the whole vector. Squares and scales are taken from registers and not counted.
//!
//! What is saved is outside the form: the launch of a kernel, and the sum, which a norm of its own
//! would read after the all-reduce has written it, 2·M of the GPU's memory.
//!
//! The residual is added when all of a row is there, so the schedule adds it with the last message
//! that a rank gets. Its sums are those of the all-reduce: all ranks have the same residual, and
//! what each does with its copy needs no message.
//!
//! Source: FlashInfer, flashinfer-ai/flashinfer
//! `include/flashinfer/comm/trtllm_allreduce_fusion.cuh` (the kernels oneshot_lamport and
//! twoshot_sync) and `trtllm_mnnvl_allreduce.cuh`, whose two shots are two kernels, the second of
//! which waits for the data itself; NVIDIA/TensorRT-LLM
//! `cpp/tensorrt_llm/kernels/communicationKernels/allReduceFusionKernels.cu`. Its user buffers do
//! apply the norm at the owner, with the adding switch between, and leave the residual there until
//! the last layer: on the links that is `inc`.

use super::rounds::waves;
use super::shots::{Adds, OneShot, TwoShot, exchange};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Share, Step};
use crate::base::collective::Collective::AllReduce;
use crate::model::formula::{At, Cost, Field, Shape};
use crate::model::schedule::{Endpoint, Frame, Op, Schedule, Sends};

/// All-reduces with the residual and the norm of what follows.
pub static FAMILY: &[&dyn Algorithm] = &[&OneShotNorm, &TwoShotNorm];

/// Whole vectors, then every row.
struct OneShotNorm;

impl ClosedForm for OneShotNorm {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "one-shot-norm",
            title: "one shot, fused with the norm",
            collectives: &[AllReduce],
            aliases: &["one-shot-push-norm", "allreduce_fusion_kernel_oneshot_lamport"],
            known_as: &[],
            summary: "every rank gets all vectors at once, adds them and its residual and applies the norm",
            source: "FlashInfer, trtllm_allreduce_fusion.cuh; NVIDIA/TensorRT-LLM, allReduceFusionKernels.cu",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Cost::new(waves(v), waves(v)).reducing(v.n.clone())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        exchange(shape, Share::ALL, Adds::ArrivalsAndOwn, emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        with_own(ClosedForm::schedule(&OneShot, shape)?, Op::Reduce)
    }
}

/// Rows to their owners, sums to all, then every row.
struct TwoShotNorm;

impl ClosedForm for TwoShotNorm {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "two-shot-norm",
            title: "two shots, fused with the norm",
            collectives: &[AllReduce],
            aliases: &[
                "two-shot-pull-norm",
                "two-shot-push-norm",
                "allreduce_fusion_kernel_twoshot_sync",
            ],
            known_as: &[],
            summary: "every rank adds its rows and sends the sums to all, which add the residual and apply the norm",
            source: "FlashInfer, trtllm_allreduce_fusion.cuh; NVIDIA/TensorRT-LLM, allReduceFusionKernels.cu",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = F::int(2) * waves(v);
        let added = v.others_share() + F::int(1);
        Cost::new(messages.clone(), messages / v.n.clone()).reducing(added)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(2) * v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let rows = Share::new(1_u32, shape.ranks);
        exchange(shape, rows, Adds::Arrivals, emit);
        exchange(shape, rows, Adds::Own, emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        with_own(ClosedForm::schedule(&TwoShot, shape)?, Op::Copy)
    }
}

/// An all-reduce whose ranks add a vector of their own when the last message, of kind `op`, is there.
struct WithOwn {
    sums: Box<dyn Schedule>,
    op: Op,
}

fn with_own(sums: Box<dyn Schedule>, op: Op) -> Option<Box<dyn Schedule>> {
    Some(Box::new(WithOwn { sums, op }))
}

impl Schedule for WithOwn {
    fn frame(&self) -> Frame {
        self.sums.frame().adding_own(self.op)
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.sums.owner(chunk)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        self.sums.sends(round, from, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::{Bytes, SecondsPerByte};
    use crate::model::formula::Rational;
    use crate::model::operations::{Does, Operations};
    use crate::model::schedule::{Count, count, verify};

    fn schedules(n: u32) -> [(&'static dyn Algorithm, &'static dyn Algorithm, Shape); 2] {
        let shape = Shape::new(AllReduce, n);
        [(&OneShotNorm, &OneShot, shape), (&TwoShotNorm, &TwoShot, shape)]
    }

    #[test]
    fn ranks_send_what_they_send_without_the_norm_and_add_a_vector_more() {
        for (fused, plain, shape) in (2..=9).flat_map(schedules) {
            let [with, without] = [fused, plain].map(|a| a.schedule(&shape).unwrap());
            assert_eq!(verify(&*with), Ok(()), "{shape:?}");
            let (with, without) = (count(&*with, 1), count(&*without, 1));
            let form = fused.prove(&At::numbers(shape)).total();
            assert_eq!(with.n_gamma, form.gamma, "{shape:?}");
            assert_eq!(with.n_gamma, without.n_gamma + Rational::from_integer(1), "{shape:?}");
            assert_eq!(Count { n_gamma: without.n_gamma, ..with }, without, "{shape:?}");
        }
    }

    #[test]
    fn operations_compute_as_long_as_ranks_add() {
        let (size, gamma) = (Bytes(840 << 10), SecondsPerByte(1e-12));
        for (fused, _, shape) in (2..=8).flat_map(schedules) {
            let schedule = fused.schedule(&shape).unwrap();
            let all = Operations::of(&*schedule, size, Some(gamma)).unwrap();
            let adding = all.list.iter().filter(|o| o.rank == 1).map(|o| match o.does {
                Does::Compute(time) => time.0,
                _ => 0.0,
            });
            let form = fused.price(&At::numbers(shape)).total().gamma * size.0 as f64 * gamma.0;
            let computed: f64 = adding.sum();
            assert!((computed / form - 1.0).abs() < 1e-9, "{shape:?}: {computed}, not {form}");
        }
    }
}
