//! SGLang's tensor-parallel all-reduce: its custom kernels in two generations, else NCCL.
//!
//! The order, with or without a graph: NCCL on symmetric buffers if neither custom nor MSCCL++
//! accepts the call, FlashInfer if fusion created its workspace, custom unless MSCCL++ accepts the
//! call, quick reduce, MSCCL++, torch symmetric memory, NCCL. By default only custom, which is AITER's on
//! AMD's GPUs, and NCCL are enabled. Up to 0.5.10 custom comes before MSCCL++. All-gathers run AITER's
//! kernel, MSCCL++'s over several nodes, else NCCL.
//!
//! Source: sgl-project/sglang 0.5.9 to 0.5.23, `sglang/srt/distributed/parallel_state.py`,
//! `…/device_communicators/{custom_all_reduce_v2,custom_all_reduce,torch_symm_mem,pymscclpp}.py`,
//! `…/configs/custom_all_reduce_v2.py`, `sglang/srt/layers/flashinfer_comm_fusion.py`.

use super::ask::{Ask, FLOATS, KIB, MIB, Release};
use super::{
    Engine, Named, Taken, Tried, aiter, first_of, flashinfer, legacy, quick_reduce, symm_mem,
};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "sglang",
    aliases: &["sgl"],
    title: "SGLang: the kernel that its tensor-parallel group runs",
    releases: &[
        "0.5.23", "0.5.22", "0.5.21", "0.5.20", "0.5.19", "0.5.18", "0.5.17", "0.5.16", "0.5.15",
        "0.5.14", "0.5.10", "0.5.9",
    ],
    source: "sgl-project/sglang, sglang/srt/distributed/parallel_state.py, custom_all_reduce_v2.py",
    variables: &[
        "disable_custom_all_reduce",
        "enable_symm_mem",
        "enable_mscclpp",
        "enable_torch_symm_mem",
        "enable_flashinfer_allreduce_fusion",
        "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",
        "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2",
        "SGLANG_ENABLE_CUSTOM_ALL_REDUCE_V2_MULTINODE",
        "SGLANG_USE_JIT_ALL_REDUCE",
        "SGLANG_CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB",
        "SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PULL_SIZE_KB",
        "SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PUSH_SIZE_KB",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "expandable_segments",
        "SGLANG_USE_AITER_AR",
        "SGLANG_USE_AITER_AG",
        "SGLANG_DP_USE_REDUCE_SCATTER",
        "AITER_CUSTOM_AR_MAX_SIZE",
        "AITER_CUSTOM_AR_MIN_SIZE",
        "SGLANG_USE_1STAGE_ALLREDUCE",
        "enable_deterministic_inference",
        "ROCM_QUICK_REDUCE_QUANTIZATION",
        "ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16",
        "ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB",
        "p2p",
    ],
    force: &[
        ("custom-v2", "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=1; 0 selects the older kernel"),
        (
            "custom",
            "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=0, and SGLANG_USE_AITER_AR=0 on AMD's GPUs",
        ),
        ("symm-mem", "--enable-torch-symm-mem with --disable-custom-all-reduce"),
        ("mscclpp", "--enable-mscclpp"),
        ("nccl-symm", "--enable-symm-mem with --disable-custom-all-reduce"),
        ("aiter", "SGLANG_USE_AITER_AR=1; 0 selects SGLang's own kernel"),
        ("quick-reduce", "ROCM_QUICK_REDUCE_QUANTIZATION=FP|INT8|INT6|INT4"),
        ("nccl", "--disable-custom-all-reduce"),
    ],
    ways: &[
        &["SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=1"],
        &["SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=0"],
        &["--disable-custom-all-reduce", "--enable-torch-symm-mem"],
        &["--disable-custom-all-reduce"],
    ],
    rivals: true,
    collectives: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    if ask.collective != Collective::AllReduce {
        let last = match ask.env.is_on("enable_symm_mem", false) && ask.board.cuda() {
            true => Taken::new("nccl-symm", "library", "--enable-symm-mem"),
            false => Taken::nccl("pynccl, at any size"),
        };
        let paths: [Named; 2] = [("aiter", part), ("mscclpp", gather)];
        return first_of(ask, if ask.board.cdna { &paths } else { &paths[1..] }, last);
    }
    let taken = first_of(
        ask,
        &[
            ("nccl-symm", nccl_symm),
            ("flashinfer", fused),
            ("aiter", by_aiter),
            ("custom", |ask| match mscclpp(ask) {
                Ok(_) if ask.since(0, 5, 14) => Err("MSCCL++ accepts it".to_owned()),
                _ => custom(ask),
            }),
            ("quick-reduce", |ask| quick_reduce::take(ask, "", false)),
            ("mscclpp", mscclpp),
            ("symm-mem", torch),
        ],
        Taken::nccl("no other path accepts it"),
    );
    let is_on = ask.since(0, 5, 21)
        && ask.env.is_on("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", false)
        && !ask.env.is_on("enable_deterministic_inference", false);
    // Those that come after it in the order.
    let is_after = matches!(taken.kernel.backend, "symm-mem" | "nccl");
    match is_on && is_after && flashinfer::may_go_by_pcie(ask, &[DataType::Bf16]) {
        true => taken.note(flashinfer::BY_PCIE),
        false => taken,
    }
}

fn nccl_symm(ask: &Ask<'_>) -> Tried {
    if !ask.env.is_on("enable_symm_mem", false) {
        return Err("--enable-symm-mem is not given".to_owned());
    }
    if mscclpp(ask).is_ok() || custom(ask).is_ok() {
        return Err("custom or MSCCL++ accepts it".to_owned());
    }
    Ok(Taken::new("nccl-symm", "library", "--enable-symm-mem, in place on symmetric buffers"))
}

/// Rows for which the workspace of fused kernels is made.
const FUSED_ROWS: u64 = 2048;

fn fused(ask: &Ask<'_>) -> Tried {
    if !ask.env.is_on("enable_flashinfer_allreduce_fusion", false) {
        return Err("no workspace: fusion is not enabled (some models switch it on)".to_owned());
    }
    if !matches!(ask.board.sm, Some(90 | 100 | 103 | 107)) {
        return Err("it is for Hopper and Blackwell".to_owned());
    }
    if !ask.rows_at_most(FUSED_ROWS) {
        return Err(format!("{} rows, above {FUSED_ROWS}", ask.rows()));
    }
    // Pull requests 23402 and 28789: MNNVL on Blackwell alone, where TensorRT-LLM's kernels were before.
    let taken = match ask.since(0, 5, 14) && ask.board.sm >= Some(100) {
        true if ask.board.spans(ask.ranks) => flashinfer::mnnvl(ask),
        true => return Err("no multicast address spans the group".to_owned()),
        false => flashinfer::trtllm(ask)?,
    };
    Ok(taken.note("where the residual and the norm follow, they are in the kernel"))
}

/// Whether MSCCL++ is on, for any size.
fn has_mscclpp(ask: &Ask<'_>) -> Result<(), String> {
    if !ask.env.is_on("enable_mscclpp", false) {
        return Err("--enable-mscclpp is not given".to_owned());
    }
    if !ask.graph {
        return Err("outside graphs it is off".to_owned());
    }
    ask.dtype_of(FLOATS)
}

/// Groups of ranks that share memory: nodes, or racks that are one domain each.
fn domains(ask: &Ask<'_>) -> u32 {
    let rack = ask.board.domain > ask.board.tray;
    if rack { ask.ranks.div_ceil(ask.board.domain) } else { ask.nodes }
}

/// The ranks for which it has kernels that cross nodes.
const CROSSING: &[u32] = &[4, 8, 16, 32, 64];

/// An all-gather by MSCCL++, whose kernel is for several nodes, and whose limits are of the output.
fn gather(ask: &Ask<'_>) -> Tried {
    has_mscclpp(ask)?;
    if ask.collective != Collective::AllGather || !ask.since(0, 5, 21) {
        return Err("the release has no such kernel of it".to_owned());
    }
    ask.ranks_of(CROSSING)?;
    ask.blocks_of(16)?;
    let domains = match domains(ask) {
        n @ (2 | 4 | 8) => u64::from(n),
        n => return Err(format!("the ranks are on {n} nodes; it supports 2, 4 or 8")),
    };
    let ranks = u64::from(ask.ranks);
    match ask.at_least(KIB.div_ceil(ranks)) && ask.at_most(domains * MIB / ranks) {
        true => Ok(Taken::new(
            "mscclpp",
            "library",
            format!("an output of 1 KiB to {domains} MiB: the fastest at its startup"),
        )),
        false => Err(format!("an output outside 1 KiB to {domains} MiB")),
    }
}

fn mscclpp(ask: &Ask<'_>) -> Tried {
    has_mscclpp(ask)?;
    let domains = domains(ask);
    let (ranks, from, to): (&[u32], u64, u64) = match (domains, ask.release) {
        (1, release) if release >= Release(0, 5, 21) => (&[4, 8, 16, 32], 0, 8 * MIB),
        (2 | 4 | 8, release) if release >= Release(0, 5, 21) => {
            (CROSSING, KIB, u64::from(domains) * MIB)
        }
        (1, release) if release >= Release(0, 5, 14) => (&[8], 0, 8 * MIB),
        (2 | 4, release) if release >= Release(0, 5, 14) => (&[16, 32], KIB, 8 * MIB),
        (1, _) => (&[8], 0, MIB),
        (2, _) => (&[16], 0, MIB),
        _ => return Err(format!("the ranks are on {domains} nodes")),
    };
    ask.ranks_of(ranks)?;
    let range = format!("{from} B to {to} B");
    match ask.at_least(from) && ask.at_most(to) {
        true => {
            Ok(Taken::new("mscclpp", "library", format!("{range}: the fastest at its startup")))
        }
        false => Err(format!("outside {range}, the sizes it has a kernel for")),
    }
}

fn torch(ask: &Ask<'_>) -> Tried {
    if !ask.env.is_on("enable_torch_symm_mem", false) {
        return Err("--enable-torch-symm-mem is not given".to_owned());
    }
    if !ask.board.sm.is_some_and(|sm| sm / 10 == 9 || sm / 10 == 10) {
        return Err("it is for Hopper and Blackwell".to_owned());
    }
    symm_mem::meets(ask)?;
    ask.dtype_of(&[DataType::Bf16])?;
    ask.blocks_of(4)?;
    let column = symm_mem::column(ask.ranks).ok_or("it supports 2, 4, 6 or 8 ranks")?;
    let mib = [64, 64, 128, 128][column];
    // Four ranks of Blackwell came to the switch with 0.5.16.
    let pulls =
        ask.ranks == 2 || ask.ranks == 4 && ask.board.sm >= Some(100) && !ask.since(0, 5, 16);
    let kernel = if pulls { "two-shot-pull" } else { "two-shot-multimem" };
    match ask.below(mib * MIB) {
        true => Ok(Taken::new("symm-mem", kernel, format!("below {mib} MiB"))
            .note("the tensor is copied in and out, even inside a graph")),
        false => Err(format!("from {mib} MiB on")),
    }
}

fn custom(ask: &Ask<'_>) -> Tried {
    if ask.env.is_on("disable_custom_all_reduce", false) {
        return Err("--disable-custom-all-reduce".to_owned());
    }
    match () {
        () if has_v2(ask) => v2(ask),
        () if has_aiter(ask) => Err("AITER's kernel replaces it".to_owned()),
        () => old(ask),
    }
}

/// Whether AMD's GPUs add in rank order, which AITER has no kernel for.
fn in_order(ask: &Ask<'_>) -> bool {
    let deterministic = ask.env.is_on("enable_deterministic_inference", false);
    ask.board.cdna && ask.env.is_on("SGLANG_USE_1STAGE_ALLREDUCE", deterministic)
}

/// Whether AITER's kernel replaces SGLang's own.
fn has_aiter(ask: &Ask<'_>) -> bool {
    ask.board.cdna && !in_order(ask) && ask.env.is_on("SGLANG_USE_AITER_AR", true)
}

fn by_aiter(ask: &Ask<'_>) -> Tried {
    if !has_aiter(ask) {
        return Err("it is for AMD's GPUs, unless SGLANG_USE_AITER_AR=0".to_owned());
    }
    if ask.env.is_on("disable_custom_all_reduce", false) {
        return Err("--disable-custom-all-reduce".to_owned());
    }
    if mscclpp(ask).is_ok() && ask.since(0, 5, 14) {
        return Err("MSCCL++ accepts it".to_owned());
    }
    aiter::POOL.all_reduce(ask)
}

/// An all-gather or a reduce-scatter by AITER.
fn part(ask: &Ask<'_>) -> Tried {
    let gathers = ask.collective == Collective::AllGather;
    let (name, since) = match gathers {
        true => ("SGLANG_USE_AITER_AG", Release(0, 5, 14)),
        false => ("SGLANG_DP_USE_REDUCE_SCATTER", Release(0, 5, 15)),
    };
    if !has_aiter(ask) || ask.release < since || !ask.env.is_on(name, true) {
        return Err(format!("SGLANG_USE_AITER_AR or {name} is off, or the release has it not"));
    }
    if ask.env.is_on("disable_custom_all_reduce", false) {
        return Err("--disable-custom-all-reduce".to_owned());
    }
    ask.dtype_of(FLOATS)?;
    match gathers {
        true => aiter::POOL.all_gather(ask),
        false => aiter::POOL.sum(ask, ask.ranks.into()),
    }
}

fn old(ask: &Ask<'_>) -> Tried {
    legacy::applies(ask)?;
    if in_order(ask) && ask.since(0, 5, 14) {
        return Ok(Taken::new("custom", "one-shot-pull", "in rank order, at any size"));
    }
    let cap = if ask.board.cdna { 16 * MIB } else { 8 * MIB };
    if !ask.at_most(cap) {
        return Err(format!("above {} MiB", cap / MIB));
    }
    let (kernel, rule) = legacy::kernel(ask, in_order(ask).then_some("1stage"));
    Ok(Taken::new("custom", kernel, format!("at most {} MiB; {rule}", cap / MIB)))
}

/// Whether the second generation is in use, for any size.
fn has_v2(ask: &Ask<'_>) -> bool {
    let switched = match ask.since(0, 5, 14) {
        true => ask.env.is_on("SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2", true),
        false => ask.since(0, 5, 10) && ask.env.is_on("SGLANG_USE_JIT_ALL_REDUCE", false),
    };
    let conf = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];
    let grows = |text: &str| text.to_ascii_lowercase().contains("expandable_segments:true");
    let expandable = ask.env.is_on("expandable_segments", false)
        || conf.iter().any(|name| ask.env.get(name).is_some_and(grows));
    let crosses = ask.since(0, 5, 17) && ask.ranks <= ask.board.domain && expandable;
    // A switch of 0.5.17 and 0.5.18.
    let forced = ask.since(0, 5, 17)
        && !ask.since(0, 5, 19)
        && (2..=8).contains(&ask.ranks)
        && ask.env.is_on("SGLANG_ENABLE_CUSTOM_ALL_REDUCE_V2_MULTINODE", false);
    let near = ask.nodes == 1 || crosses || forced;
    switched && ask.board.cuda() && ask.board.linked && ask.board.peer_access && near
}

/// The largest sizes of one row, in bytes.
#[derive(Clone, Copy)]
struct Row {
    push: u64,
    pull: u64,
    two: u64,
    multimem: Option<(u64, u64)>,
}

/// MiB as the engine's table writes them, cut to whole bytes.
fn mib(x: f64) -> u64 {
    (x * MIB as f64) as u64
}

fn row(push: f64, pull: f64, two: f64) -> Row {
    Row { push: mib(push), pull: mib(pull), two: mib(two), multimem: None }
}

impl Row {
    fn multimem(self, from: f64, to: f64) -> Self {
        Self { multimem: Some((mib(from), mib(to))), ..self }
    }
}

/// The row for graphs, the row without graphs, and the largest size of two-shot-push; `None` if the
/// table does not have this number of ranks.
fn rows(ask: &Ask<'_>) -> Option<(Row, Row, u64)> {
    let both = |graph: Row, eager: Row| Some((graph, eager, 0));
    let newest = ask.since(0, 5, 23);
    // Compute capability 10.7 came to the table with 0.5.19, and 16 ranks with 0.5.17.
    let sm = match ask.board.sm? {
        107 if !ask.since(0, 5, 19) => 100,
        sm => sm,
    };
    match (sm, ask.ranks) {
        (_, 9..) if !ask.since(0, 5, 17) => None,
        (90, 2) => both(row(16., 128., 128.), row(32., 128., 128.)),
        (90, 3) => both(row(1.25, 1.25, 128.), row(3., 3., 16.)),
        (90, 4) => both(row(0.375, 0.375, 128.), row(0.875, 0.875, 32.).multimem(0., 32.)),
        (90, 5) => both(row(0.1875, 0.1875, 32.), row(0.375, 0.375, 32.).multimem(0., 32.)),
        (90, 6) => both(
            row(0.125, 0.125, 32.).multimem(8., 32.),
            row(0.1875, 0.1875, 32.).multimem(0., 32.),
        ),
        (90, 7) => {
            both(row(0.125, 0.125, 32.).multimem(1., 32.), row(0.125, 0.125, 32.).multimem(0., 32.))
        }
        (90, 8) => both(
            row(0.125, 0.125, 32.).multimem(0.5, 128.),
            row(0.125, 0.125, 128.).multimem(0., 128.),
        ),
        (100 | 103, 2) => both(row(8., 32., 128.), row(16., 128., 128.)),
        (100 | 103, 3) => both(row(4., 4., 128.), row(8., 8., 32.)),
        (100 | 103, 4) if newest => {
            Some((row(0.625, 0.625, 128.), row(0.625, 0.625, 32.), 8 * MIB))
        }
        (100 | 103, 4) => both(row(2.25, 2.25, 128.), row(3., 3., 32.)),
        (100 | 103, 5) => both(row(1.5, 1.5, 128.), row(2., 2., 32.).multimem(0., 32.)),
        (100 | 103, 6) => both(row(1., 1., 128.), row(1.25, 1.25, 64.).multimem(0., 64.)),
        (100 | 103, 7) => both(row(0.625, 0.625, 128.), row(1., 1., 64.).multimem(0., 64.)),
        (100 | 103, 8) => {
            let (graph, eager, two) = if newest { (0.25, 0.25, 8 * MIB) } else { (0.5, 0.75, 0) };
            let graph = row(graph, graph, 128.).multimem(8., 128.);
            Some((graph, row(eager, eager, 128.).multimem(0., 128.), two))
        }
        (100 | 103, 16) => {
            let one = row(0.25, 0.25, 128.).multimem(0.25, 128.);
            both(one, one)
        }
        (107, 2) => both(row(128., 128., 128.), row(128., 128., 128.)),
        (107, 3) => both(row(19.625, 19.625, 128.), row(39.188, 39.188, 128.)),
        (107, 4) => both(row(6.938, 6.938, 128.), row(9.812, 9.812, 128.).multimem(9.812, 128.)),
        (107, n @ (5..=8 | 16)) => {
            let push = [6.938, 4.875, 3.438, 2.438].get(n as usize - 5).copied();
            let push = push.unwrap_or(0.8125);
            let one = row(push, push, 128.).multimem(push, 128.);
            both(one, one)
        }
        (90 | 100 | 103 | 107, _) => None,
        (_, 2..=16) => both(row(1., 1., 16.), row(1., 1., 16.)),
        _ => None,
    }
}

fn v2(ask: &Ask<'_>) -> Tried {
    ask.blocks_of(16)?;
    if ask.release < Release(0, 5, 16) {
        return v2_before(ask);
    }
    let none = || format!("its table has no row for {} of these GPUs", ask.ranks);
    let (graph, eager, two_push) = rows(ask).ok_or_else(none)?;
    let Buffers { pull, slot, forced_pull, forced_push } = Buffers::of(ask, graph, eager, two_push);
    // "Graph" means an ordinary capture on one node.
    let captured = ask.graph && ask.nodes == 1;
    let own = if captured { graph } else { eager };
    // A forced size is also the largest one of the last kernel that uses the buffer.
    let own =
        Row { push: forced_push.unwrap_or(own.push), two: forced_pull.unwrap_or(own.two), ..own };
    let two_push = two_push.min((slot / 32).saturating_mul(16 * u64::from(ask.ranks)));
    let mode = if captured { "in a graph" } else { "outside graphs" };
    let take =
        |kernel, words: String| Ok(Taken::new("custom-v2", kernel, format!("{mode}, {words}")));
    let push = own.push.min(slot);
    if ask.at_most(push) {
        return take("one-shot-push", format!("at most {push} B"));
    }
    if two_push > 0 && ask.at_most(two_push) {
        return take("two-shot-push", format!("at most {two_push} B"));
    }
    if ask.at_most(own.pull.min(pull)) {
        return take("one-shot-pull", format!("at most {} B", own.pull.min(pull)));
    }
    if let Some((from, to)) = own.multimem.filter(|_| ask.board.spans(ask.ranks)) {
        let (from, to) = (from.min(pull), to.min(pull));
        if ask.at_least(from) && ask.at_most(to) {
            return take(
                "two-shot-multimem",
                format!("from {from} to {to} B, and the switch reduces"),
            );
        }
    }
    let most = own.two.min(pull);
    match ask.at_most(most) {
        true => take("two-shot-pull", format!("at most {most} B")),
        false => Err(format!("above {most} B: its buffers hold no more")),
    }
}

/// The buffers to which every threshold is cut.
struct Buffers {
    pull: u64,
    slot: u64,
    forced_pull: Option<u64>,
    forced_push: Option<u64>,
}

impl Buffers {
    fn of(ask: &Ask<'_>, graph: Row, eager: Row, two_push: u64) -> Self {
        let kib = |name: &str| {
            let kib = ask.env.number::<u64>(&format!("SGLANG_{name}_SIZE_KB"));
            kib.map(|k| k.saturating_mul(KIB))
        };
        let most = kib("CUSTOM_ALL_REDUCE_V2_MAX").unwrap_or(16 * MIB);
        let reach = |row: Row| row.pull.max(row.two).max(row.multimem.map_or(0, |(_, to)| to));
        let share = 32 * two_push.div_ceil(16 * u64::from(ask.ranks));
        let pull = reach(graph).max(reach(eager)).min(most);
        let slot = graph.push.max(eager.push).max(share).min(most);
        let forced = |name| kib(name).filter(|_| ask.since(0, 5, 17));
        let forced_pull = forced("FORCE_CUSTOM_ALL_REDUCE_V2_PULL");
        let forced_push = forced("FORCE_CUSTOM_ALL_REDUCE_V2_PUSH");
        Self {
            pull: forced_pull.unwrap_or(pull.next_multiple_of(KIB)),
            slot: forced_push.unwrap_or(slot.next_multiple_of(KIB)).max(KIB),
            forced_pull,
            forced_push,
        }
    }
}

/// The second generation as it first came: one table for graphs and without.
fn v2_before(ask: &Ask<'_>) -> Tried {
    let index = (2..=8).position(|n| n == ask.ranks).ok_or("it supports 2 to 8 ranks")?;
    let blackwell = ask.board.sm.is_some_and(|sm| sm / 10 == 10);
    let (push, pull) = match blackwell {
        true => {
            let kib = [4096, 4096, 2048, 2048, 1024, 896, 720][index];
            (kib, kib)
        }
        false => {
            let pull = [0, 512, 256, 256, 192, 192, 160][index];
            ([2048, 512, 384, 256, 192, 192, 160][index], pull)
        }
    };
    let pull = if ask.ranks == 2 { u64::MAX / KIB } else { pull };
    if !ask.at_most(16 * MIB) {
        return Err("above 16 MiB".to_owned());
    }
    let take = |kernel, words| Ok(Taken::new("custom-v2", kernel, words));
    match () {
        () if ask.at_most(push * KIB) => take("one-shot-push", format!("at most {push} KiB")),
        () if ask.at_most(pull * KIB) => {
            take("one-shot-pull", format!("above {push} KiB: one-shot"))
        }
        () => take("two-shot-pull", format!("above {pull} KiB, at most 16 MiB")),
    }
}
