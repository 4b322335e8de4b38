//! XLA's own all-reduce kernels on GPUs, which a flag enables; otherwise NCCL.
//!
//! Source: openxla/xla, `xla/backends/gpu/runtime/{all_reduce,collective_kernel_thunk}.cc`, 2025 and
//! 2026. The policy `xla-sol` is the time that XLA's latency model expects.

use super::ask::{Ask, FLOATS, KIB, MIB};
use super::{Engine, Named, Taken, Tried, first_of};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "xla",
    aliases: &["xla-gpu", "openxla", "jax"],
    title: "XLA on GPUs: its own kernels if a flag enables them, else NCCL",
    releases: &["2026", "2025"],
    source: "openxla/xla, xla/backends/gpu/runtime/collective_kernel_thunk.cc",
    variables: &[
        "xla_gpu_unsupported_use_all_reduce_one_shot_kernel",
        "xla_gpu_experimental_use_collective_kernels",
        "multimem",
        "p2p",
    ],
    force: &[
        ("xla", "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=true"),
        ("nccl", "the default"),
    ],
    ways: &[
        &["xla_gpu_unsupported_use_all_reduce_one_shot_kernel=true"],
        &["xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false"],
    ],
    rivals: false,
    collectives: &[Collective::AllReduce],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    let paths: [Named; 1] = [("xla", own)];
    first_of(ask, &paths, Taken::nccl("its own kernels do not accept it"))
}

fn own(ask: &Ask<'_>) -> Tried {
    let listed = ask.env.get("xla_gpu_experimental_use_collective_kernels");
    let listed = listed.is_some_and(|list| {
        matches!(list, "1" | "true") || list.to_ascii_uppercase().contains("ALL_REDUCE")
    });
    if !listed && !ask.env.is_on("xla_gpu_unsupported_use_all_reduce_one_shot_kernel", false) {
        return Err("xla_gpu_unsupported_use_all_reduce_one_shot_kernel is false".to_owned());
    }
    let newer = ask.since(2026, 0, 0);
    if ask.board.sm.is_some_and(|sm| sm < 90) {
        return Err("it needs Hopper or newer".to_owned());
    }
    ask.one_node()?;
    if !ask.board.peer_access {
        return Err("no peer access between all GPUs".to_owned());
    }
    ask.ranks_of(&[2, 4, 8])?;
    ask.dtype_of(if newer { FLOATS } else { &[DataType::F32, DataType::Bf16] })?;
    // all_reduce.cc of 2025, `IsAllReduceKernelSupported`: four elements at once, of each rank in two shots.
    let (elements, parts) = (4 * ask.element(), u64::from(ask.ranks));
    if ask.at_most(256 * KIB) {
        if !newer {
            ask.blocks_of(elements)?;
        }
        let adds = ask.env.is_on("multimem", false) && ask.board.spans(ask.ranks);
        let kernel = if adds { "one-shot-multimem" } else { "one-shot-pull" };
        return Ok(Taken::new("xla", kernel, "at most 256 KiB"));
    }
    let most = if newer { 4 } else { 2 };
    if !ask.at_most(most * MIB) {
        return Err(format!("above {most} MiB"));
    }
    if !newer {
        ask.border(256 * KIB + elements * parts);
        ask.blocks_of(elements * parts)?;
    }
    Ok(Taken::new("xla", "two-shot-pull", format!("at most {most} MiB")))
}
