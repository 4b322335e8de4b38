//! MSCCL++'s library with NCCL's API: it chooses kernels by size, memory and switch.
//!
//! Source: microsoft/mscclpp v0.9.0 and v0.10.0, `src/ext/nccl/algorithm_selector.cc`.

use super::ask::{Ask, KIB, MIB};
use super::{Engine, Taken};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "mscclpp",
    aliases: &["mscclplusplus", "msccl++"],
    title: "MSCCL++'s library with NCCL's API",
    releases: &["0.10.0", "0.9.0"],
    source: "microsoft/mscclpp v0.10.0, src/ext/nccl/algorithm_selector.cc",
    variables: &[
        "MSCCLPP_NCCL_SYMMETRIC_MEMORY",
        "symmetric",
        "cumem",
        "MSCCLPP_NCCL_LIB_PATH",
        "p2p",
    ],
    force: &[
        ("mscclpp", "buffers from ncclMemAlloc, with MSCCLPP_NCCL_SYMMETRIC_MEMORY=1"),
        ("nccl", "MSCCLPP_NCCL_LIB_PATH names the NCCL to fall back to"),
    ],
    ways: &[&["MSCCLPP_NCCL_SYMMETRIC_MEMORY=1"], &["MSCCLPP_NCCL_SYMMETRIC_MEMORY=0"]],
    rivals: true,
    collectives: &[Collective::AllReduce, Collective::AllGather],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    if ask.nodes > 1 {
        return Taken::nccl("more than one node");
    }
    if !ask.board.peer_access {
        return Taken::none("it needs peer access and has no other path");
    }
    let own = |kernel, rule: &str| Taken::new("mscclpp", kernel, rule);
    let has_nccl = ask.env.get("MSCCLPP_NCCL_LIB_PATH").is_some_and(|path| !path.is_empty());
    if ask.collective == Collective::AllGather {
        return match (ask.at_most(32 * MIB), has_nccl) {
            _ if ask.board.cdna => own("fullmesh2", "AMD's GPUs, at any size"),
            (true, _) => own("fullmesh2", "at most 32 MiB"),
            (false, true) => Taken::nccl("above 32 MiB, and an NCCL library is set"),
            (false, false) => own("fullmesh", "above 32 MiB, and no NCCL library is set"),
        };
    }
    let registered =
        ask.env.is_on("MSCCLPP_NCCL_SYMMETRIC_MEMORY", ask.env.is_on("symmetric", false));
    let cumem = ask.env.is_on("cumem", registered);
    let adds = nvls(ask);
    let zero_copy = adds && registered && cumem;
    if ask.board.sm.is_some_and(|sm| sm / 10 == 10) {
        return blackwell(ask, registered, zero_copy);
    }
    if ask.at_most(16 * KIB) {
        return own("allpair-packet", "at most 16 KiB");
    }
    if adds && ask.at_most(32 * KIB) {
        return own("nvls-packet", "at most 32 KiB, and the switch multicasts");
    }
    let packets = if zero_copy { 64 * KIB } else { MIB };
    if ask.at_most(packets) {
        return own("packet", &format!("at most {} KiB", packets / KIB));
    }
    match (zero_copy, adds) {
        (true, _) => own("nvls-zero-copy", "symmetric cuMem memory, and the switch reduces"),
        (_, true) if ask.below(16 * MIB) => own("nvls-warp-pipeline", "below 16 MiB"),
        (_, true) => own("nvls-block-pipeline", "from 16 MiB on"),
        _ if has_nccl && !ask.board.cdna => {
            Taken::nccl("no switch reduces, and an NCCL library is set")
        }
        _ => own("fullmesh", "no switch reduces"),
    }
}

fn blackwell(ask: &Ask<'_>, registered: bool, zero_copy: bool) -> Taken {
    let own = |kernel, rule: &str| Taken::new("mscclpp", kernel, rule);
    // The switch only multicasts packets, so that any type may have them.
    if ask.at_most(32 * KIB) {
        return own("nvls-packet", "at most 32 KiB");
    }
    let packets = if registered && zero_copy {
        64 * KIB
    } else if registered {
        MIB
    } else {
        2 * MIB
    };
    if ask.at_most(packets) {
        return own("packet", &format!("at most {} KiB", packets / KIB));
    }
    match () {
        () if zero_copy => own("nvls-zero-copy", "symmetric cuMem memory, and the switch reduces"),
        () if registered => own("rsag-zero-copy", "symmetric memory, and no switch reduces"),
        () if ask.graph => own("rsag-zero-copy", "inside a graph"),
        () if ask.at_most(8 * MIB) => own("rsag", "at most 8 MiB, outside graphs"),
        () => own("rsag-pipeline", "above 8 MiB, outside graphs"),
    }
}

/// Whether the library has the switch add elements of this type. Blackwell's switch adds 8-bit floats; 0.9.0
/// asks macros that a compiler defines in code for the GPU only, 0.10.0 a kernel that tries it.
fn nvls(ask: &Ask<'_>) -> bool {
    let blackwell = ask.board.sm.is_some_and(|sm| sm / 10 == 10);
    let is_float = matches!(ask.dtype, DataType::F8e4m3 | DataType::F8e5m2);
    let adds = ask.dtype.bytes().0 > 1 || is_float && blackwell && ask.since(0, 10, 0);
    adds && ask.board.sm >= Some(90) && ask.board.spans(ask.ranks)
}
