//! PyTorch: NCCL, unless the program names an operator of symmetric memory or sets an old switch.
//!
//! Source: pytorch/pytorch, `torch/csrc/distributed/c10d/symm_mem/{CUDASymmetricMemoryOps.cu,`
//! `intra_node_comm.cu}` (03a4032b, 05382727), `torch/_inductor/{config,comm_lowering}.py`.

use super::ask::{Ask, KIB, MIB};
use super::{Engine, Named, Taken, Tried, first_of, symm_mem};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "torch",
    aliases: &["pytorch", "torch-symm-mem", "symm-mem", "pytorch-symm-mem"],
    title: "PyTorch's symmetric memory, IntraNodeComm and inductor, else NCCL",
    releases: &["2.15.0", "2.14.0"],
    source: "pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/intra_node_comm.cu at 05382727",
    variables: &["op", "ENABLE_INTRA_NODE_COMM", "auto_select", "p2p"],
    force: &[
        ("symm-mem", "torch.ops.symm_mem.{one_shot,two_shot,multimem}_all_reduce by name"),
        ("torch", "ENABLE_INTRA_NODE_COMM=1"),
    ],
    ways: &[],
    rivals: false,
    collectives: &[Collective::AllReduce],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    let paths: [Named; 3] = [("symm-mem", by_name), ("symm-mem", inductor), ("torch", intra_node)];
    first_of(ask, &paths, Taken::nccl("nothing else is requested"))
}

/// An operator that the program calls by its name.
fn by_name(ask: &Ask<'_>) -> Tried {
    let name = ask.env.get("op").ok_or("the program names no operator")?.to_ascii_lowercase();
    let kernel = match name.replace('-', "_").trim_end_matches('_') {
        "multimem_one_shot_all_reduce" | "multimem_one_shot" => "one-shot-multimem",
        "multimem_all_reduce" | "multimem" => "two-shot-multimem",
        "one_shot_all_reduce" | "one_shot" => "one-shot-pull",
        "two_shot_all_reduce" | "two_shot" => "two-shot-pull",
        _ => return Err(format!("`{name}` is not an operator of symmetric memory")),
    };
    if kernel.ends_with("multimem") {
        symm_mem::meets(ask)?;
    }
    accepts(ask)?;
    Ok(Taken::new("symm-mem", kernel, format!("the program calls {name}")))
}

/// Whether an operator of symmetric memory accepts the call.
fn accepts(ask: &Ask<'_>) -> Result<(), String> {
    ask.one_node()?;
    if !ask.board.peer_access {
        return Err("GPUs do not write into one another's memory".to_owned());
    }
    ask.dtype_of(&[DataType::Bf16, DataType::F32])?;
    ask.blocks_of(4)
}

/// Inductor lowers small sums to `one_shot_all_reduce` itself, in groups with symmetric memory.
fn inductor(ask: &Ask<'_>) -> Tried {
    if !ask.env.is_on("auto_select", false) {
        return Err("config._collective.auto_select is off".to_owned());
    }
    accepts(ask)?;
    match ask.at_most(128 * KIB) {
        true => Ok(Taken::new("symm-mem", "one-shot-pull", "inductor: at most 128 KiB")),
        false => Err("inductor: above 128 KiB".to_owned()),
    }
}

fn intra_node(ask: &Ask<'_>) -> Tried {
    if !ask.env.is_on("ENABLE_INTRA_NODE_COMM", false) {
        return Err("ENABLE_INTRA_NODE_COMM is not set".to_owned());
    }
    ask.one_node()?;
    if !ask.board.linked || !ask.board.peer_access || !ask.board.cuda() {
        return Err("no NVLink between every pair".to_owned());
    }
    ask.dtype_of(&[DataType::Bf16, DataType::F32])?;
    ask.blocks_of(4)?;
    match () {
        () if ask.at_most(256 * KIB) => Ok(Taken::new("torch", "one-shot-pull", "at most 256 KiB")),
        () if ask.at_most(10 * MIB) => Ok(Taken::new("torch", "two-shot-pull", "at most 10 MiB")),
        () => Err("above 10 MiB".to_owned()),
    }
}
