//! vLLM's tensor-parallel all-reduce: FlashInfer, custom kernels, symmetric memory, NCCL.
//!
//! ```text
//! from 0.29  NCCL symmetric unless FlashInfer accepts the call, quick reduce, FlashInfer, AITER,
//!            custom, torch symmetric memory, NCCL
//! to 0.28    NCCL symmetric, quick reduce, FlashInfer (off), AITER, custom, torch symmetric, NCCL
//! ```
//!
//! FlashInfer on one node is MNNVL from 0.25.1 on (pull request 47219) and TensorRT-LLM's kernels before
//! (35793, 38136); 0.14 has the latter alone, with the norm alone.
//!
//! Source: vllm-project/vllm 0.14.0 to 0.33.0, `vllm/distributed/device_communicators/`
//! `{cuda_communicator,all_reduce_utils,custom_all_reduce,symm_mem,flashinfer_all_reduce}.py`,
//! `vllm/envs.py`.

use super::ask::{Ask, FLOATS, KIB, MIB, Release};
use super::{Engine, Taken, Tried, aiter, first_of, flashinfer, legacy, quick_reduce, symm_mem};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "vllm",
    aliases: &[],
    title: "vLLM: the kernel that its tensor-parallel group runs",
    releases: &[
        "0.33.0", "0.32.0", "0.31.0", "0.30.0", "0.29.0", "0.27.0", "0.25.1", "0.24.0", "0.23.0",
        "0.19.0", "0.14.0",
    ],
    source: "vllm-project/vllm, vllm/distributed/device_communicators/cuda_communicator.py",
    variables: &[
        "VLLM_ALLREDUCE_USE_FLASHINFER",
        "VLLM_FLASHINFER_ALLREDUCE_BACKEND",
        "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC",
        "VLLM_ALLREDUCE_USE_SYMM_MEM",
        "VLLM_USE_NCCL_SYMM_MEM",
        "VLLM_BATCH_INVARIANT",
        "VLLM_CUSTOM_ALLREDUCE_ALGO",
        "VLLM_SKIP_P2P_CHECK",
        "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION",
        "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16",
        "VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB",
        "VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB",
        "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB",
        "VLLM_ROCM_USE_AITER",
        "VLLM_ROCM_USE_AITER_CUSTOM_AR",
        "AITER_CUSTOM_AR_MAX_SIZE",
        "AITER_CUSTOM_AR_MIN_SIZE",
        "disable_custom_all_reduce",
        "fuse_allreduce_rms",
        "p2p",
    ],
    force: &[
        ("flashinfer-mnnvl", "VLLM_ALLREDUCE_USE_FLASHINFER=1; 0 turns it off"),
        ("flashinfer-trtllm", "VLLM_FLASHINFER_ALLREDUCE_BACKEND=trtllm"),
        (
            "custom",
            "--disable-custom-all-reduce turns it off; VLLM_CUSTOM_ALLREDUCE_ALGO=1stage|2stage",
        ),
        ("symm-mem", "VLLM_ALLREDUCE_USE_SYMM_MEM=1; 0 turns it off"),
        ("nccl-symm", "VLLM_USE_NCCL_SYMM_MEM=1"),
        ("quick-reduce", "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=FP|INT8|INT6|INT4"),
        ("aiter", "VLLM_ROCM_USE_AITER=1"),
        (
            "nccl",
            "--disable-custom-all-reduce with VLLM_ALLREDUCE_USE_SYMM_MEM=0 and \
             VLLM_ALLREDUCE_USE_FLASHINFER=0",
        ),
    ],
    // The first that leads to a kernel is the one that is shown: the shortest.
    ways: &[
        &["VLLM_CUSTOM_ALLREDUCE_ALGO=1stage"],
        &["VLLM_CUSTOM_ALLREDUCE_ALGO=2stage"],
        &["--disable-custom-all-reduce"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=1"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=1", "VLLM_FLASHINFER_ALLREDUCE_BACKEND=trtllm"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=0"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=0", "VLLM_CUSTOM_ALLREDUCE_ALGO=1stage"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=0", "VLLM_CUSTOM_ALLREDUCE_ALGO=2stage"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=0", "VLLM_ALLREDUCE_USE_SYMM_MEM=0"],
        &["VLLM_ALLREDUCE_USE_FLASHINFER=0", "--disable-custom-all-reduce"],
        &[
            "VLLM_ALLREDUCE_USE_FLASHINFER=0",
            "VLLM_ALLREDUCE_USE_SYMM_MEM=0",
            "--disable-custom-all-reduce",
        ],
    ],
    rivals: true,
    collectives: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    let usual = fuses_by_default(ask);
    match (ask.collective, ask.env.is_on("fuse_allreduce_rms", usual && ask.followed)) {
        (Collective::AllReduce, false) if usual => plain(ask).note(
            "the call alone: by default a pass fuses those that a norm follows (--env \
             fuse_allreduce_rms)",
        ),
        (Collective::AllReduce, false) => plain(ask),
        (Collective::AllReduce, true) => with_norm(ask).unwrap_or_else(|why| {
            let mut taken = plain(ask).note("the residual and the norm are kernels of their own");
            taken.refused.insert(0, ("flashinfer-fused", why));
            taken
        }),
        _ => gather(ask),
    }
}

/// Whether optimization level 2, the default, has the pass, and nothing here turns it on or off
/// (`vllm/config/vllm.py`, `enable_allreduce_rms_fusion`).
fn fuses_by_default(ask: &Ask<'_>) -> bool {
    ask.since(0, 19, 0)
        && ask.board.cuda()
        && fused_limit(ask).is_ok()
        && !batch_invariant(ask)
        && ask.env.get("fuse_allreduce_rms").is_none()
}

/// What the compiler pass `fuse_allreduce_rms` puts in place of an all-reduce, the residual and the
/// norm.
fn with_norm(ask: &Ask<'_>) -> Tried {
    if !ask.board.cuda() {
        return Err("it is for NVIDIA's GPUs".to_owned());
    }
    ask.dtype_of(FLOATS)?;
    let limit = within(ask, fused_limit(ask)?)?;
    let taken = match flash_backend(ask)? {
        true => flashinfer::mnnvl(ask),
        false => {
            let refuses = flashinfer::trtllm(ask)?;
            let one_shot = one_shot_limit(ask).unwrap_or(u64::MAX);
            let (kernel, sign) = match ask.at_most(one_shot) {
                true => ("one-shot-push", "at most"),
                false => ("two-shot-pull", "above"),
            };
            Taken::new(refuses.kernel.backend, kernel, format!("{sign} {one_shot} B"))
        }
    };
    Ok(Taken { rule: format!("fused at most {limit} B; {}", taken.rule), ..taken }.with_norm())
}

/// Up to which size vLLM asks TensorRT-LLM's fused kernel for one shot, if it has an entry.
fn one_shot_limit(ask: &Ask<'_>) -> Option<u64> {
    let row = match ask.board.sm? {
        90 => [32_768, 2048, 512],
        100 => [32_768, 4096, 1024],
        103 | 107 => [32_768, 4096, 2048],
        _ => return None,
    };
    [2, 4, 8].iter().position(|&n| n == ask.ranks).map(|column| row[column] * KIB)
}

fn plain(ask: &Ask<'_>) -> Taken {
    const SWITCH: &str = "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC";
    let taken = paths(ask);
    let is_on = ask.since(0, 30, 0) && ask.env.is_on(SWITCH, false) && !batch_invariant(ask);
    // What comes before it keeps the call.
    let is_after = taken.kernel.backend != "nccl-symm";
    match is_on && is_after && flashinfer::may_go_by_pcie(ask, &[DataType::Bf16, DataType::F16]) {
        true => taken.note(flashinfer::BY_PCIE),
        false => taken,
    }
}

fn paths(ask: &Ask<'_>) -> Taken {
    let nccl = Taken::nccl("no other path accepts it");
    let symm: fn(&Ask<'_>) -> Tried = match ask.since(0, 29, 0) {
        true => |ask: &Ask<'_>| match flash(ask) {
            Ok(_) => Err("FlashInfer accepts it".to_owned()),
            Err(_) => nccl_symm(ask),
        },
        false => nccl_symm,
    };
    first_of(
        ask,
        &[
            ("nccl-symm", symm),
            ("quick-reduce", quick),
            ("flashinfer", flash),
            ("aiter", by_aiter),
            ("custom", custom),
            ("symm-mem", symmetric),
        ],
        nccl,
    )
}

/// All-gathers and reduce-scatters, which have a symmetric path from 0.25.1 on.
fn gather(ask: &Ask<'_>) -> Taken {
    let symmetric = |ask: &Ask<'_>| {
        if !ask.since(0, 25, 1) {
            return Err("this release has it for all-reduces only".to_owned());
        }
        symm_enabled(ask)?;
        let taken = Taken::new("nccl-symm", "library", "VLLM_USE_NCCL_SYMM_MEM is set");
        Ok(match ask.collective {
            Collective::AllGather => taken.note("along the first dimension; others run without it"),
            _ => taken,
        })
    };
    first_of(ask, &[("nccl-symm", symmetric)], Taken::nccl("pynccl, at any size"))
}

fn batch_invariant(ask: &Ask<'_>) -> bool {
    ask.env.is_on("VLLM_BATCH_INVARIANT", false)
}

/// Batch invariance turns off a path that checks for it.
fn variant(ask: &Ask<'_>, since: Release) -> Result<(), String> {
    match batch_invariant(ask) && ask.release >= since {
        true => Err("VLLM_BATCH_INVARIANT turns it off".to_owned()),
        false => Ok(()),
    }
}

fn may_be_custom(ask: &Ask<'_>) -> Result<(), String> {
    match ask.env.is_on("disable_custom_all_reduce", false) {
        true => Err("--disable-custom-all-reduce".to_owned()),
        false => Ok(()),
    }
}

/// FlashInfer's table of fused kernels, in KiB for 2, 4, 8 and 16 ranks.
fn fusion_limit(ask: &Ask<'_>) -> Option<u64> {
    let at_8 = if ask.since(0, 29, 0) { 4096 } else { 2048 };
    let at_16 = if ask.since(0, 25, 1) { 65_536 } else { 0 };
    let row = match ask.board.sm? {
        90 => [65_536, 2048, 512, 0],
        100 => [65_536, 32_768, 1024, at_16],
        103 if ask.since(0, 19, 0) => [65_536, 65_536, at_8, at_16],
        107 if ask.since(0, 27, 0) => [65_536, 65_536, 2048, 0],
        _ => return None,
    };
    let column = [2, 4, 8, 16].iter().position(|&n| n == ask.ranks)?;
    Some(row[column] * KIB).filter(|&limit| limit > 0)
}

fn fused_limit(ask: &Ask<'_>) -> Result<u64, String> {
    fusion_limit(ask)
        .ok_or_else(|| format!("its table has no entry for {} of these GPUs", ask.ranks))
}

/// The limit itself, if the workspace made for it holds the tensor.
fn within(ask: &Ask<'_>, limit: u64) -> Result<u64, String> {
    if !ask.at_most(limit) {
        return Err(format!("above {limit} B"));
    }
    let rows = limit / (ask.columns() * ask.element());
    if !ask.rows_at_most(rows) {
        return Err(format!("{} rows, above {rows}", ask.rows()));
    }
    Ok(limit)
}

/// The limits that were tuned for MNNVL: capability, ranks, nodes; up to 0.32 they are one byte less.
fn tuned_limit(ask: &Ask<'_>) -> Option<u64> {
    let key = (ask.board.sm?, ask.ranks, ask.nodes);
    let exclusive = u64::from(!ask.since(0, 33, 0));
    let mib = match (key, ask.since(0, 33, 0)) {
        _ if !ask.since(0, 29, 0) => return None,
        ((100, 8, 1 | 2) | (103, 8, 1 | 2), true) => 128,
        ((103, 8, 1 | 2), false) => 64,
        ((103, 4, 1), _) => 80,
        ((103, 16, 4), _) => 8,
        _ => return None,
    };
    Some(mib * MIB - exclusive)
}

fn flash(ask: &Ask<'_>) -> Tried {
    if !ask.board.cuda() {
        return Err("it is for NVIDIA's GPUs".to_owned());
    }
    if !ask.since(0, 19, 0) {
        return Err("this release has it for calls with the norm only".to_owned());
    }
    if !ask.env.is_on("VLLM_ALLREDUCE_USE_FLASHINFER", ask.since(0, 29, 0)) {
        return Err("VLLM_ALLREDUCE_USE_FLASHINFER is off".to_owned());
    }
    variant(ask, Release(0, 29, 0))?;
    ask.dtype_of(FLOATS)?;
    let fused = fused_limit(ask)?;
    let mnnvl = flash_backend(ask)?;
    let limit = within(ask, if mnnvl { tuned_limit(ask) } else { None }.unwrap_or(fused))?;
    let taken = if mnnvl { flashinfer::mnnvl(ask) } else { flashinfer::trtllm(ask)? };
    Ok(Taken { rule: format!("at most {limit} B; {}", taken.rule), ..taken })
}

/// Whether it is MNNVL, else TensorRT-LLM's kernels.
fn flash_backend(ask: &Ask<'_>) -> Result<bool, String> {
    let multicast = ask.board.spans(ask.ranks);
    let asked = ask.env.get("VLLM_FLASHINFER_ALLREDUCE_BACKEND").unwrap_or("auto");
    let asked = if ask.since(0, 19, 0) { asked.to_ascii_lowercase() } else { "trtllm".to_owned() };
    match (asked.as_str(), ask.nodes) {
        ("trtllm", 1) => Ok(false),
        ("trtllm", _) => Err("TensorRT-LLM's kernels run on one node only".to_owned()),
        ("mnnvl", _) if multicast => Ok(true),
        ("auto", 1) => Ok(multicast && ask.since(0, 25, 1)),
        ("auto", _) if multicast && ask.board.sm >= Some(100) => Ok(true),
        _ => Err("no multicast address spans the group".to_owned()),
    }
}

fn symm_enabled(ask: &Ask<'_>) -> Result<(), String> {
    if !ask.board.cuda() || !ask.env.is_on("VLLM_USE_NCCL_SYMM_MEM", false) {
        return Err("VLLM_USE_NCCL_SYMM_MEM is not set".to_owned());
    }
    variant(ask, Release(0, 0, 0))
}

fn nccl_symm(ask: &Ask<'_>) -> Tried {
    symm_enabled(ask)?;
    // The ranges came with pull request 33839.
    let ranges = ask.since(0, 19, 0);
    let from = match ask.ranks {
        9.. => return Ok(Taken::new("nccl-symm", "library", "more than 8 ranks: always")),
        4 => {
            if ranges {
                512 * KIB
            } else {
                2 * MIB
            }
        }
        8 => {
            if ranges {
                128 * KIB
            } else {
                MIB
            }
        }
        n => return Err(format!("never with {n} ranks")),
    };
    let small = if ranges { "at most 16 KiB or " } else { "" };
    let words = format!("{} ranks: {small}from {} KiB", ask.ranks, from / KIB);
    match ranges && ask.at_most(16 * KIB) || ask.at_least(from) {
        true => Ok(Taken::new("nccl-symm", "library", words)),
        false => Err(words),
    }
}

fn quick(ask: &Ask<'_>) -> Tried {
    may_be_custom(ask)?;
    variant(ask, Release(0, 32, 0))?;
    quick_reduce::take(ask, "VLLM_", ask.since(0, 25, 1))
}

/// Whether AITER's kernel replaces vLLM's own.
fn has_aiter(ask: &Ask<'_>) -> bool {
    ask.board.cdna
        && ask.since(0, 25, 1)
        && ask.env.is_on("VLLM_ROCM_USE_AITER", false)
        && ask.env.is_on("VLLM_ROCM_USE_AITER_CUSTOM_AR", true)
}

fn by_aiter(ask: &Ask<'_>) -> Tried {
    if !has_aiter(ask) {
        return Err("VLLM_ROCM_USE_AITER is not set, or these are not AMD's GPUs".to_owned());
    }
    may_be_custom(ask)?;
    variant(ask, Release(0, 32, 0))?;
    aiter::Pool(128 * MIB).all_reduce(ask)
}

/// The cap of custom if torch symmetric memory is available: in KiB, for 2, 4, 6 and 8 ranks.
fn small_cap(ask: &Ask<'_>) -> Option<u64> {
    let row = match ask.board.sm? {
        90 => [65_536, 32_768, 512, 256],
        100 => [2048, 2048, 1024, 1024],
        103 | 107 => [4096, 4096, 8192, 4096],
        _ => return None,
    };
    Some(row[symm_mem::column(ask.ranks)?] * KIB)
}

fn custom(ask: &Ask<'_>) -> Tried {
    may_be_custom(ask)?;
    if !ask.board.cuda() && !ask.board.cdna {
        return Err("it is for NVIDIA's GPUs and AMD's MI300".to_owned());
    }
    if has_aiter(ask) {
        return Err("AITER's kernel replaces it".to_owned());
    }
    legacy::applies(ask)?;
    let large = 8 * MIB;
    let forced = ask.env.get("VLLM_CUSTOM_ALLREDUCE_ALGO");
    let (cap, lives) = match small_cap(ask).filter(|_| lives(ask).is_ok()) {
        Some(small) => (small.min(large), "; torch symmetric memory is available"),
        None => (large, ""),
    };
    let pieces = batch_invariant(ask) && ask.since(0, 32, 0);
    if !ask.below(cap) && !pieces {
        return Err(format!("at or above its cap of {cap} B{lives}"));
    }
    // A piece of 8 MiB is above every border of the kernels.
    let (kernel, rule) = legacy::kernel(ask, forced);
    let cap = if pieces { "in pieces of 8 MiB".to_owned() } else { format!("below {cap} B") };
    let taken = Taken::new("custom", kernel, format!("{cap}{lives}; {rule}"));
    Ok(match ask.graph {
        true => taken,
        false => taken.note("outside a graph, the input is copied first"),
    })
}

/// Whether the group has torch's symmetric memory, for any call.
fn lives(ask: &Ask<'_>) -> Result<(), String> {
    if !ask.env.is_on("VLLM_ALLREDUCE_USE_SYMM_MEM", true) {
        return Err("VLLM_ALLREDUCE_USE_SYMM_MEM=0".to_owned());
    }
    variant(ask, Release(0, 0, 0))?;
    let since = match ask.board.sm {
        Some(103) => Release(0, 19, 0),
        Some(107) => Release(0, 27, 0),
        _ => Release(0, 0, 0),
    };
    if symm_mem::limit(ask).is_none() || ask.release < since {
        return Err(format!("its table has no entry for {} of these GPUs", ask.ranks));
    }
    symm_mem::meets(ask)
}

fn symmetric(ask: &Ask<'_>) -> Tried {
    lives(ask)?;
    ask.dtype_of(&[DataType::Bf16])?;
    ask.blocks_of(4)?;
    let limit = symm_mem::limit(ask).unwrap_or(0);
    let inclusive = ask.since(0, 23, 0);
    let (taken, sign) = match inclusive {
        true => (ask.at_most(limit), "at most"),
        false => (ask.below(limit), "below"),
    };
    let mib = limit / MIB;
    match taken {
        true => Ok(Taken::new("symm-mem", symm_mem::kernel(ask), format!("{sign} {mib} MiB"))
            .note("the tensor is copied in and out, even inside a graph")),
        false => Err(format!("not {sign} {mib} MiB")),
    }
}
