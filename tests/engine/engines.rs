//! What inference engines run: their rules read a second time, plainly, and both readings compared
//! at every border and over a random grid.
//!
//! The second reading is a chain of ifs with the figures typed again from the sources that
//! `src/library/engines` names; it shares nothing with the first.

use collcost::base::collective::Collective;
use collcost::base::quantity::Bytes;
use collcost::library::engines::{Conditions, Variables};
use collcost::library::{Call, Runs, Site, intervals, policy};
use collcost::machine::profile::Profile;
use collcost::machine::sample::DataType;
use collcost::measure::expect::KernelTimes;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// A question.
#[derive(Debug, Clone)]
struct Asked {
    engine: &'static str,
    machine: &'static str,
    ranks: u32,
    nodes: u32,
    size: u64,
    dtype: DataType,
    hidden: u64,
    graph: bool,
    env: Vec<&'static str>,
}

impl Asked {
    fn is(&self, variable: &str) -> bool {
        self.env.contains(&variable)
    }

    fn site(&self) -> Site {
        let profile = Profile::builtin(self.machine).unwrap();
        let mut variables = Variables::default();
        self.env.iter().for_each(|text| variables.put(text).unwrap());
        let (dtype, hidden, graph) = (self.dtype, Some(self.hidden), self.graph);
        Site {
            machine: profile.name.clone(),
            title: profile.title.clone(),
            ranks: self.ranks,
            nodes: self.nodes,
            hardware: profile.hardware(),
            conditions: Conditions {
                dtype: Some(dtype),
                hidden,
                graph,
                variables,
                ..Conditions::default()
            },
            ..Site::default()
        }
    }

    fn call(&self) -> Call {
        Call {
            nodes: self.nodes,
            element: self.dtype.bytes(),
            ..Call::new(Collective::AllReduce, self.ranks, Bytes(self.size))
        }
    }

    fn told(&self) -> (&'static str, &'static str) {
        let choice = policy(self.engine, &self.site()).unwrap().choose(&self.call()).unwrap();
        let kernel = choice.kernel.unwrap();
        (kernel.backend, kernel.kernel)
    }

    /// The backend of a collective whose parts have this size.
    fn in_parts(&self, collective: Collective) -> &'static str {
        let size = Bytes(self.size * u64::from(self.ranks));
        let call = Call { collective, size, ..self.call() };
        policy(self.engine, &self.site()).unwrap().choose(&call).unwrap().kernel.unwrap().backend
    }

    /// The algorithm that the kernel runs.
    fn runs(&self) -> &'static str {
        let choice = policy(self.engine, &self.site()).unwrap().choose(&self.call()).unwrap();
        let Runs::Parts(parts) = choice.runs else { panic!("no algorithm") };
        parts[0].algorithm
    }

    fn rows(&self) -> u64 {
        (self.size / (self.hidden * self.dtype.bytes().0)).max(1)
    }
}

/// Capability, multicast, NVLink in full, ranks of a node, of a domain.
fn board(machine: &str) -> (u32, bool, bool, u32, u32) {
    match machine {
        "a100" => (80, false, true, 8, 8),
        "h100" | "h200" => (90, true, true, 8, 8),
        "b200" => (100, true, true, 8, 8),
        "b300" => (103, true, true, 8, 8),
        "gb200" => (100, true, true, 4, 72),
        "gb300" => (103, true, true, 4, 72),
        "l40s" => (89, false, false, 8, 8),
        "rtx-pro-6000" => (120, false, false, 8, 8),
        other => panic!("{other}"),
    }
}

fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::F32 | DataType::F16 | DataType::Bf16)
}

fn pull(n: u32, s: u64) -> &'static str {
    let one = n == 2 || n == 4 && s < 512 * K || n > 4 && s < 256 * K;
    if one { "one-shot-pull" } else { "two-shot-pull" }
}

fn mnnvl(n: u32, s: u64) -> (&'static str, &'static str) {
    let one = s * u64::from(n) <= M;
    ("flashinfer-mnnvl", if one { "one-shot-push" } else { "two-shot-push" })
}

fn fused(n: u32, s: u64) -> Option<(&'static str, &'static str)> {
    let most = match n {
        2 => 512 * M,
        4 => 64 * M,
        8 => 42 * M,
        _ => return None,
    };
    let one = 2 * s * u64::from(n) <= most;
    Some(("flashinfer-trtllm", if one { "one-shot-push" } else { "two-shot-pull" }))
}

const NCCL: (&str, &str) = ("nccl", "library");

fn vllm(q: &Asked) -> (&'static str, &'static str) {
    let (sm, multicast, full, tray, domain) = board(q.machine);
    let minor: u32 = q.engine.split('.').nth(1).unwrap().parse().unwrap();
    let nodes = q.nodes.max(q.ranks.div_ceil(tray));
    let (n, s) = (q.ranks, q.size);
    let invariant = q.is("VLLM_BATCH_INVARIANT=1");
    // FlashInfer.
    let on = if minor >= 29 {
        !q.is("VLLM_ALLREDUCE_USE_FLASHINFER=0") && !invariant
    } else {
        minor >= 19 && q.is("VLLM_ALLREDUCE_USE_FLASHINFER=1")
    };
    let entry = match (sm, n) {
        (103, _) if minor < 19 => 0,
        (100 | 103, 16) if minor < 25 => 0,
        (90, 2) | (100, 2) | (103, 2) | (103, 4) | (100, 16) | (103, 16) => 64 * M,
        (90, 4) => 2 * M,
        (90, 8) => M / 2,
        (100, 4) => 32 * M,
        (100, 8) => M,
        (103, 8) if minor >= 29 => 4 * M,
        (103, 8) => 2 * M,
        _ => 0,
    };
    let spans = multicast && n <= domain;
    let backend = match nodes {
        1 if spans && minor >= 25 => Some(true),
        1 => Some(false),
        _ if spans && sm >= 100 && minor >= 19 => Some(true),
        _ => None,
    };
    let tuned = match (minor, sm, n, nodes) {
        (33, 100 | 103, 8, 1 | 2) => 128 * M,
        (33, 103, 4, 1) => 80 * M,
        (33, 103, 16, 4) => 8 * M,
        (29..33, 103, 4, 1) => 80 * M - 1,
        (29..33, 103, 8, 1 | 2) => 64 * M - 1,
        (29..33, 103, 16, 4) => 8 * M - 1,
        _ => entry,
    };
    let limit = if backend == Some(true) { tuned } else { entry };
    let row = q.hidden * q.dtype.bytes().0;
    let holds = entry > 0 && s <= entry && q.rows() <= entry / row;
    let trtllm = !q.is("p2p=0") && [2, 4, 8].contains(&n);
    if q.is("fuse_allreduce_rms=1") && is_float(q.dtype) && holds {
        let one = match (sm, n) {
            (_, 2) => 32 * M,
            (90, 4) => 2 * M,
            (_, 4) => 4 * M,
            (90, _) => M / 2,
            (100, _) => M,
            _ => 2 * M,
        };
        match backend {
            Some(true) => return mnnvl(n, s),
            Some(false) if trtllm && s <= one => return ("flashinfer-trtllm", "one-shot-push"),
            Some(false) if trtllm => return ("flashinfer-trtllm", "two-shot-pull"),
            _ => {}
        }
    }
    let flash = if on && is_float(q.dtype) && entry > 0 && s <= limit && q.rows() <= limit / row {
        match backend {
            Some(true) => Some(mnnvl(n, s)),
            Some(false) if trtllm => fused(n, s),
            _ => None,
        }
    } else {
        None
    };
    // NCCL in symmetric memory.
    let symmetric = q.is("VLLM_USE_NCCL_SYMM_MEM=1")
        && !invariant
        && (n > 8
            || minor < 19 && (n == 4 && s >= 2 * M || n == 8 && s >= M)
            || minor >= 19 && n == 4 && (s <= 16 * K || s >= 512 * K)
            || minor >= 19 && n == 8 && (s <= 16 * K || s >= 128 * K));
    if minor >= 29 {
        if let Some(flash) = flash {
            return flash;
        }
        if symmetric {
            return ("nccl-symm", "library");
        }
    } else {
        if symmetric {
            return ("nccl-symm", "library");
        }
        if let Some(flash) = flash {
            return flash;
        }
    }
    // Custom.
    let known = sm == 90 || sm == 100 || sm == 103 && minor >= 19;
    let alive = known
        && [2, 4, 6, 8].contains(&n)
        && nodes == 1
        && multicast
        && !invariant
        && !q.is("VLLM_ALLREDUCE_USE_SYMM_MEM=0");
    let cap = match (alive, sm, n) {
        (true, 90, 6) => M / 2,
        (true, 90, 8) => M / 4,
        (true, 100, 2 | 4) => 2 * M,
        (true, 100, _) => M,
        (true, 103, 2 | 4 | 8) => 4 * M,
        _ => 8 * M,
    };
    let uncapped = invariant && minor >= 32;
    if !q.is("disable_custom_all_reduce=1")
        && [2, 4, 6, 8].contains(&n)
        && nodes == 1
        && (full || n == 2)
        && !q.is("p2p=0")
        && is_float(q.dtype)
        && s.is_multiple_of(16)
        && (s < cap || uncapped)
    {
        return ("custom", pull(n, s));
    }
    // Torch.
    let most = match (sm, n) {
        (90, 4) | (100, 4) | (103, 4 | 6) => 32 * M,
        (90, _) | (103, 8) => 64 * M,
        (100, 2) => 8 * M,
        (100, _) => 128 * M,
        _ => 4 * M,
    };
    let below = if minor >= 23 { s <= most } else { s < most };
    if alive && q.dtype == DataType::Bf16 && s.is_multiple_of(4) && below {
        let adds = if sm == 90 { n >= 4 } else { n >= 6 };
        return ("symm-mem", if adds { "two-shot-multimem" } else { "two-shot-pull" });
    }
    NCCL
}

/// P1, L1, L2 and the switch's range of SGLang from 0.5.16 to 0.5.22, and of 0.5.23, in KiB; P2.
type Row = (u64, u64, u64, Option<(u64, u64)>);

fn rows_of(sm: u32, n: u32, newest: bool) -> Option<(Row, Row, u64)> {
    const BIG: u64 = 131_072;
    Some(match (sm, n) {
        (90, 2) => ((16_384, BIG, BIG, None), (32_768, BIG, BIG, None), 0),
        (90, 3) => ((1280, 1280, BIG, None), (3072, 3072, 16_384, None), 0),
        (90, 4) => ((384, 384, BIG, None), (896, 896, 32_768, Some((0, 32_768))), 0),
        (90, 5) => ((192, 192, 32_768, None), (384, 384, 32_768, Some((0, 32_768))), 0),
        (90, 6) => {
            ((128, 128, 32_768, Some((8192, 32_768))), (192, 192, 32_768, Some((0, 32_768))), 0)
        }
        (90, 7) => {
            ((128, 128, 32_768, Some((1024, 32_768))), (128, 128, 32_768, Some((0, 32_768))), 0)
        }
        (90, 8) => ((128, 128, BIG, Some((512, BIG))), (128, 128, BIG, Some((0, BIG))), 0),
        (100 | 103, 2) => ((8192, 32_768, BIG, None), (16_384, BIG, BIG, None), 0),
        (100 | 103, 3) => ((4096, 4096, BIG, None), (8192, 8192, 32_768, None), 0),
        (100 | 103, 4) if newest => ((640, 640, BIG, None), (640, 640, 32_768, None), 8192),
        (100 | 103, 4) => ((2304, 2304, BIG, None), (3072, 3072, 32_768, None), 0),
        (100 | 103, 5) => ((1536, 1536, BIG, None), (2048, 2048, 32_768, Some((0, 32_768))), 0),
        (100 | 103, 6) => ((1024, 1024, BIG, None), (1280, 1280, 65_536, Some((0, 65_536))), 0),
        (100 | 103, 7) => ((640, 640, BIG, None), (1024, 1024, 65_536, Some((0, 65_536))), 0),
        (100 | 103, 8) if newest => {
            ((256, 256, BIG, Some((8192, BIG))), (256, 256, BIG, Some((0, BIG))), 8192)
        }
        (100 | 103, 8) => ((512, 512, BIG, Some((8192, BIG))), (768, 768, BIG, Some((0, BIG))), 0),
        (90 | 100 | 103, _) => return None,
        _ => ((1024, 1024, 16_384, None), (1024, 1024, 16_384, None), 0),
    })
}

/// Whether SGLang's MSCCL++ has a kernel.
fn has_mscclpp(q: &Asked, patch: u32, (tray, domain): (u32, u32)) -> bool {
    let (n, s) = (q.ranks, q.size);
    let nodes = if domain > tray { 1 } else { q.nodes.max(n.div_ceil(tray)) };
    let sized = match (patch, nodes) {
        (21.., 1) => [4, 8, 16].contains(&n) && s <= 8 * M,
        (21.., 2) => [4, 8, 16].contains(&n) && (K..=2 * M).contains(&s),
        (14.., 1) => n == 8 && s <= 8 * M,
        (14.., 2) => n == 16 && (K..=8 * M).contains(&s),
        (_, 1) => n == 8 && s <= M,
        (_, 2) => n == 16 && s <= M,
        _ => false,
    };
    q.is("enable_mscclpp=1") && q.graph && is_float(q.dtype) && sized
}

fn sglang(q: &Asked) -> (&'static str, &'static str) {
    let (sm, multicast, full, tray, domain) = board(q.machine);
    let (n, s) = (q.ranks, q.size);
    let one_node = q.nodes == 1 && n <= tray;
    let patch: u32 = q.engine.rsplit('.').next().unwrap().parse().unwrap();
    let v2 = if patch >= 14 {
        !q.is("SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=0")
    } else {
        patch == 10 && q.is("SGLANG_USE_JIT_ALL_REDUCE=1")
    };
    if q.is("enable_flashinfer_allreduce_fusion=1") && q.rows() <= 2048 {
        let taken = match (patch, sm) {
            (14.., 100 | 103) if multicast && n <= domain => Some(mnnvl(n, s)),
            (14.., 100 | 103) => None,
            (_, 90 | 100 | 103) if one_node && !q.is("p2p=0") => fused(n, s),
            _ => None,
        };
        if let Some(taken) = taken {
            return taken;
        }
    }
    let others = has_mscclpp(q, patch, (tray, domain));
    let disabled = q.is("disable_custom_all_reduce=1") || others && patch >= 14;
    let own = if disabled || q.is("p2p=0") || !one_node {
        None
    } else if v2 && full {
        if !s.is_multiple_of(16) { None } else { second(patch, sm, n, s, q.graph, multicast) }
    } else if [2, 4, 6, 8].contains(&n)
        && (full || n == 2)
        && is_float(q.dtype)
        && s.is_multiple_of(16)
        && s <= 8 * M
    {
        Some(("custom", pull(n, s)))
    } else {
        None
    };
    if let Some(own) = own {
        return own;
    }
    if others {
        return ("mscclpp", "library");
    }
    let most = [(2, 64 * M), (4, 64 * M), (6, 128 * M), (8, 128 * M)];
    let most = most.iter().find(|m| m.0 == n).map_or(0, |m| m.1);
    if q.is("enable_torch_symm_mem=1")
        && [90, 100, 103].contains(&sm)
        && multicast
        && one_node
        && q.dtype == DataType::Bf16
        && s.is_multiple_of(4)
        && s < most
    {
        // Wheels of 0.5.14 and 0.5.15.post1 have six and eight ranks of Blackwell alone.
        let pulls = n == 2 || n == 4 && sm >= 100 && patch < 16;
        return ("symm-mem", if pulls { "two-shot-pull" } else { "two-shot-multimem" });
    }
    NCCL
}

fn second(
    patch: u32,
    sm: u32,
    n: u32,
    s: u64,
    graph: bool,
    multicast: bool,
) -> Option<(&'static str, &'static str)> {
    let told = |kernel| Some(("custom-v2", kernel));
    if patch < 16 {
        let i = usize::try_from(n).ok()?.checked_sub(2).filter(|i| *i < 7)?;
        let p = if (100..110).contains(&sm) {
            [4096, 4096, 2048, 2048, 1024, 896, 720][i]
        } else {
            [2048, 512, 384, 256, 192, 192, 160][i]
        };
        let l = if n == 4 && !(100..110).contains(&sm) { 256 } else { p };
        return match s {
            _ if s > 16 * M => None,
            _ if s <= p * K => told("one-shot-push"),
            _ if n == 2 || s <= l * K => told("one-shot-pull"),
            _ => told("two-shot-pull"),
        };
    }
    let (g, e, p2) = rows_of(sm, n, patch >= 23)?;
    let reach = |row: Row| row.1.max(row.2).max(row.3.map_or(0, |r| r.1));
    let pull = reach(g).max(reach(e)).min(16_384) * K;
    let share = 32 * (p2 * K).div_ceil(16 * u64::from(n));
    let slot = (g.0.max(e.0) * K).max(share).min(16 * M).div_ceil(K) * K;
    let (p1, l1, l2, switch) = if graph { g } else { e };
    let two = (p2 * K).min(u64::from(n) * 16 * (slot / 32));
    if s <= (p1 * K).min(slot) {
        return told("one-shot-push");
    }
    if s <= two {
        return told("two-shot-push");
    }
    if s <= (l1 * K).min(pull) {
        return told("one-shot-pull");
    }
    if let Some((lo, hi)) = switch
        && multicast
        && s >= (lo * K).min(pull)
        && s <= (hi * K).min(pull)
    {
        return told("two-shot-multimem");
    }
    if s <= (l2 * K).min(pull) { told("two-shot-pull") } else { None }
}

/// Rows of the table with which TensorRT-LLM's tests here are done: H100, no fusion, 4,096 columns.
const TABLE: [(&str, u32, &str); 6] = [
    ("A", 2, "454544444440000"),
    ("A", 4, "444555545500000"),
    ("A", 8, "444444555500000"),
    ("B", 2, "444444444444000"),
    ("B", 4, "444444445550000"),
    ("B", 8, "444444405500000"),
];

fn xla(q: &Asked) -> (&'static str, &'static str) {
    let (sm, _, _, tray, _) = board(q.machine);
    let on = q.is("xla_gpu_unsupported_use_all_reduce_one_shot_kernel=true");
    let fits = sm >= 90 && q.nodes == 1 && q.ranks <= tray && [2, 4, 8].contains(&q.ranks);
    let older = q.engine.ends_with("2025");
    let most = if older { 2 * M } else { 4 * M };
    let typed =
        if older { matches!(q.dtype, DataType::F32 | DataType::Bf16) } else { is_float(q.dtype) };
    match q.size {
        _ if !on || !fits || q.is("p2p=0") || !typed => NCCL,
        // Four elements at once, of each rank in two shots.
        s if older && s % (4 * q.dtype.bytes().0) > 0 => NCCL,
        s if s <= 256 * K => ("xla", "one-shot-pull"),
        s if older && s % (u64::from(q.ranks) * 4 * q.dtype.bytes().0) > 0 => NCCL,
        s if s <= most => ("xla", "two-shot-pull"),
        _ => NCCL,
    }
}

fn mscclpp(q: &Asked) -> (&'static str, &'static str) {
    let (sm, multicast, _, tray, _) = board(q.machine);
    if q.nodes > 1 || q.ranks > tray {
        return NCCL;
    }
    let adds = sm >= 90 && multicast;
    let registered = q.is("MSCCLPP_NCCL_SYMMETRIC_MEMORY=1");
    let own = |kernel| ("mscclpp", kernel);
    let s = q.size;
    if sm / 10 == 10 {
        return match s {
            _ if s <= 32 * K => own("nvls-packet"),
            _ if !registered && s <= 2 * M => own("packet"),
            _ if !registered && q.graph => own("rsag-zero-copy"),
            _ if !registered && s <= 8 * M => own("rsag"),
            _ if !registered => own("rsag-pipeline"),
            _ if s <= if adds { 64 * K } else { M } => own("packet"),
            _ if adds => own("nvls-zero-copy"),
            _ => own("rsag-zero-copy"),
        };
    }
    match s {
        _ if s <= 16 * K => own("allpair-packet"),
        _ if s <= 32 * K && adds => own("nvls-packet"),
        _ if s <= if adds && registered { 64 * K } else { M } => own("packet"),
        _ if adds && registered => own("nvls-zero-copy"),
        _ if adds && s < 16 * M => own("nvls-warp-pipeline"),
        _ if adds => own("nvls-block-pipeline"),
        _ if q.is("MSCCLPP_NCCL_LIB_PATH=/x/libnccl.so") => NCCL,
        _ => own("fullmesh"),
    }
}

fn flashinfer(q: &Asked) -> (&'static str, &'static str) {
    let (_, multicast, _, tray, domain) = board(q.machine);
    if multicast && q.ranks <= domain && !q.is("backend=trtllm") {
        return mnnvl(q.ranks, q.size);
    }
    let one_node = q.nodes == 1 && q.ranks <= tray;
    fused(q.ranks, q.size).filter(|_| one_node && !q.is("p2p=0")).unwrap_or(("none", "none"))
}

fn torch(q: &Asked) -> (&'static str, &'static str) {
    let (_, _, full, tray, _) = board(q.machine);
    let typed = matches!(q.dtype, DataType::F32 | DataType::Bf16);
    let fits = q.nodes == 1 && q.ranks <= tray && full && !q.is("p2p=0") && typed;
    match q.size {
        _ if !q.is("ENABLE_INTRA_NODE_COMM=1") || !fits || !q.size.is_multiple_of(4) => NCCL,
        s if s <= 256 * K => ("torch", "one-shot-pull"),
        s if s <= 10 * M => ("torch", "two-shot-pull"),
        _ => NCCL,
    }
}

/// An engine with its releases, its variables, and its second reading.
type Reading =
    (&'static [&'static str], &'static [&'static str], fn(&Asked) -> (&'static str, &'static str));

const READINGS: [Reading; 6] = [
    (
        &[
            "vllm@0.33.0",
            "vllm@0.32.0",
            "vllm@0.31.0",
            "vllm@0.30.0",
            "vllm@0.29.0",
            "vllm@0.27.0",
            "vllm@0.25.1",
            "vllm@0.24.0",
            "vllm@0.23.0",
            "vllm@0.19.0",
            "vllm@0.14.0",
        ],
        &[
            "VLLM_BATCH_INVARIANT=1",
            "VLLM_ALLREDUCE_USE_FLASHINFER=0",
            "VLLM_ALLREDUCE_USE_FLASHINFER=1",
            "VLLM_ALLREDUCE_USE_SYMM_MEM=0",
            "VLLM_USE_NCCL_SYMM_MEM=1",
            "disable_custom_all_reduce=1",
            "fuse_allreduce_rms=1",
        ],
        vllm,
    ),
    (
        &[
            "sglang@0.5.23",
            "sglang@0.5.22",
            "sglang@0.5.21",
            "sglang@0.5.20",
            "sglang@0.5.19",
            "sglang@0.5.18",
            "sglang@0.5.17",
            "sglang@0.5.16",
            "sglang@0.5.15",
            "sglang@0.5.14",
            "sglang@0.5.10",
            "sglang@0.5.9",
        ],
        &[
            "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=0",
            "SGLANG_USE_JIT_ALL_REDUCE=1",
            "enable_torch_symm_mem=1",
            "disable_custom_all_reduce=1",
            "enable_mscclpp=1",
            "enable_flashinfer_allreduce_fusion=1",
        ],
        sglang,
    ),
    (
        &["flashinfer@0.7.4", "flashinfer@0.7.2", "flashinfer@0.6.18"],
        &["backend=trtllm", "pattern=kARResidualRMSNorm"],
        flashinfer,
    ),
    (
        &["mscclpp@0.10.0", "mscclpp@0.9.0"],
        &["MSCCLPP_NCCL_SYMMETRIC_MEMORY=1", "MSCCLPP_NCCL_LIB_PATH=/x/libnccl.so"],
        mscclpp,
    ),
    (&["torch@2.15.0", "torch@2.14.0"], &["ENABLE_INTRA_NODE_COMM=1"], torch),
    (&["xla@2026", "xla@2025"], &["xla_gpu_unsupported_use_all_reduce_one_shot_kernel=true"], xla),
];

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn question(&mut self, (releases, variables, _): &Reading) -> Asked {
        let machines =
            ["a100", "h100", "h200", "b200", "b300", "gb200", "gb300", "l40s", "rtx-pro-6000"];
        let (machine, ranks) = (self.one(&machines), self.one(&[2_u32, 3, 4, 5, 6, 7, 8, 16]));
        let tray = board(machine).3;
        let nodes = ranks.div_ceil(tray).max(if self.below(8) == 0 { 2 } else { 1 });
        let mut env = Vec::new();
        if self.below(3) == 0 {
            env.push(self.one(variables));
        }
        // Where peer access is missing some engines have no rule.
        if self.below(8) == 0 && !releases[0].starts_with("mscclpp") {
            env.push("p2p=0");
        }
        let hidden = self.one(&[1024, 2880, 4096, 5120, 7168, 8192]);
        let dtype = self.one(&[DataType::Bf16, DataType::Bf16, DataType::F16, DataType::F32]);
        let row = hidden * dtype.bytes().0;
        let size = match self.below(3) {
            0 => row * (1 + self.below(4096) as u64),
            1 => (64_u64 << self.below(22)) + 16 * self.below(8) as u64,
            _ => (1_u64 << (8 + self.below(20))) + self.one(&[0, 0, 2, 16]),
        };
        let (engine, graph) = (self.one(releases), self.below(2) == 0);
        Asked { engine, machine, ranks, nodes, size, dtype, hidden, graph, env }
    }
}

#[test]
fn both_readings_of_the_rules_decide_alike() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut faults, mut own) = (Vec::new(), 0);
    let all = 2000;
    for reading in &READINGS {
        for _ in 0..all {
            let asked = dice.question(reading);
            let (told, plain) = (asked.told(), (reading.2)(&asked));
            own += usize::from(plain != NCCL);
            if told != plain {
                faults.push(format!("{asked:?}: {told:?}, read again {plain:?}"));
            }
        }
    }
    println!("{own} of {} questions are answered by another than NCCL", all * READINGS.len());
    assert!(own > all * READINGS.len() / 4);
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
}

/// At each border of a policy, one block before and at it, and one element further, the second
/// reading says what the intervals say.
#[test]
fn borders_are_where_the_second_reading_has_them() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for reading in &READINGS {
        for _ in 0..60 {
            let asked = dice.question(reading);
            let policy = policy(asked.engine, &asked.site()).unwrap();
            let found = intervals(&*policy, &asked.call(), Bytes(16), Bytes(1 << 30)).unwrap();
            for interval in &found {
                let kernel = interval.choice.kernel.unwrap();
                // Two shots take a block of each rank at a time: an interval is one of whole blocks.
                let block = match (asked.engine, kernel.kernel) {
                    ("xla@2025", "two-shot-pull") => {
                        4 * asked.dtype.bytes().0 * u64::from(asked.ranks)
                    }
                    _ => 16,
                };
                let last = interval.to.0 / block * block;
                for size in [interval.from.0, interval.from.0 + block, last] {
                    let size = size.min(last).max(interval.from.0);
                    let asked = Asked { size, ..asked.clone() };
                    let plain = (reading.2)(&asked);
                    assert_eq!((kernel.backend, kernel.kernel), plain, "{asked:?}");
                }
                for size in [interval.from.0 - 1, interval.from.0 + 1, interval.to.0] {
                    let asked = Asked { size, ..asked.clone() };
                    assert_eq!(asked.told(), (reading.2)(&asked), "{asked:?}");
                }
            }
        }
    }
}

/// A range may begin below the block of 16 B that kernels take, and a variable may say more than any size.
#[test]
fn borders_begin_at_a_block_and_end_with_the_sizes() {
    let env = vec!["SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PUSH_SIZE_KB=18446744073709551615"];
    let asked = Asked { env, ..asked("sglang@0.5.23", "h100", 8, M) };
    let policy = policy(asked.engine, &asked.site()).unwrap();
    let found = intervals(&*policy, &asked.call(), Bytes(2), Bytes(1 << 30)).unwrap();
    let told: Vec<_> = found.iter().map(|i| (i.from.0, i.choice.name.as_ref())).collect();
    assert_eq!(told, [(2, "nccl/library"), (16, "custom-v2/one-shot-push")]);
}

fn asked(engine: &'static str, machine: &'static str, ranks: u32, size: u64) -> Asked {
    let (dtype, hidden) = (DataType::Bf16, 4096);
    Asked { engine, machine, ranks, nodes: 1, size, dtype, hidden, graph: true, env: Vec::new() }
}

/// NVIDIA/TensorRT-LLM, customAllReduceUtils.h, both tables, a row before and after every step.
#[test]
fn tensorrt_llm_looks_shapes_up() {
    for (table, ranks, digits) in TABLE {
        for (k, digit) in digits.bytes().enumerate() {
            for rows in [1_u64 << k, (2 << k) - 1] {
                let engine = if table == "A" { "trtllm@1.2.0" } else { "trtllm@1.3.0" };
                let env = vec!["TLLM_DISABLE_ALLREDUCE_AUTOTUNE=1"];
                let asked = Asked { env, ..asked(engine, "h100", ranks, rows * 8192) };
                let limit = match (table, ranks) {
                    ("A", 2) => 16_000_000,
                    ("A", _) => 8_000_000,
                    _ => 64 * M,
                };
                let plain = match digit {
                    _ if asked.size > limit => NCCL,
                    b'4' => ("trtllm", "one-shot-push"),
                    b'5' => ("trtllm", "two-shot-pull"),
                    _ => NCCL,
                };
                assert_eq!(asked.told(), plain, "{asked:?}");
            }
        }
    }
}

/// NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/distributed/ops.py and allreduceOp.cpp.
#[test]
fn tensorrt_llm_spans_trays_and_takes_strategies() {
    let over = |engine, ranks, size| asked(engine, "gb200", ranks, size).told();
    assert_eq!(over("trtllm@1.3.0", 8, M / 8), ("trtllm-mnnvl", "one-shot-push"));
    assert_eq!(over("trtllm@1.3.0", 8, M / 8 + 16), ("trtllm-mnnvl", "two-shot-push"));
    assert_eq!(over("trtllm@1.2.0", 8, M / 16), ("trtllm-mnnvl", "one-shot-push"));
    assert_eq!(over("trtllm@1.2.0", 8, M / 16 + 16), ("trtllm-mnnvl", "two-shot-push"));
    let flashinfer = || vec!["strategy=FLASHINFER"];
    let trays = Asked { env: flashinfer(), ..asked("trtllm@1.3.0", "gb200", 8, M / 8) };
    assert_ne!(trays.told().0, "trtllm-mnnvl");
    let with =
        |text, size| Asked { env: vec![text], ..asked("trtllm@1.3.0", "h100", 8, size) }.told();
    assert_eq!(with("strategy=TWOSHOT", 8 * 8192), ("trtllm", "two-shot-pull"));
    assert_eq!(with("strategy=TWOSHOT", 7 * 8192), ("trtllm", "one-shot-push"));
    assert_eq!(with("strategy=ONESHOT", 64 * M), ("trtllm", "one-shot-push"));
    assert_eq!(with("strategy=ONESHOT", 64 * M + 16), NCCL);
    assert_eq!(with("strategy=NCCL_SYMMETRIC", M), ("nccl-symm", "library"));
    assert_eq!(with("strategy=LOWPRECISION", 64 * M), ("trtllm", "low-precision"));
    assert_eq!(with("strategy=LOWPRECISION", 64 * M + 16), NCCL);
    assert_eq!(with("p2p=0", M), ("nccl-symm", "library"));
}

/// vllm-project/vllm, allreduce_rms_fusion.py: the largest tensor of one shot, in MiB.
#[test]
fn vllm_asks_for_one_shot_with_the_norm_by_a_table_of_its_own() {
    let env = ["fuse_allreduce_rms=1", "VLLM_FLASHINFER_ALLREDUCE_BACKEND=trtllm"];
    let told = |machine, ranks, size| {
        let asked = Asked { env: env.to_vec(), ..asked("vllm@0.33.0", machine, ranks, size) };
        asked.told()
    };
    let [one, two] = ["one-shot-push", "two-shot-pull"].map(|kernel| ("flashinfer-trtllm", kernel));
    for (machine, ranks, most) in [("h100", 2, 32), ("b200", 2, 32), ("b200", 4, 4), ("b300", 8, 2)]
    {
        assert_eq!(told(machine, ranks, most * M), one, "{machine} {ranks}");
        assert_eq!(told(machine, ranks, most * M + 8192), two, "{machine} {ranks}");
    }
    // Above what is fused, the all-reduce is what it would be alone.
    assert_eq!(told("b300", 8, 4 * M), two);
    assert_eq!(told("b300", 8, 8 * M), ("symm-mem", "two-shot-multimem"));
}

/// The same two sources as of the tables without fusion: H100, table B, the norm fused.
#[test]
fn tensorrt_llm_has_a_table_for_what_is_fused() {
    let told = |fusion, rows: u64| {
        let env = vec!["TLLM_DISABLE_ALLREDUCE_AUTOTUNE=1", fusion];
        Asked { env, ..asked("trtllm@1.3.0", "h100", 8, rows * 8192) }.told()
    };
    for fusion in ["fusion=RMS", "fusion=RESIDUAL_RMS_NORM"] {
        assert_eq!(told(fusion, 127), ("trtllm", "one-shot-push"), "{fusion}");
        assert_eq!(told(fusion, 128), NCCL, "{fusion}");
    }
    assert_eq!(told("fusion=NONE", 127), ("trtllm", "one-shot-push"));
    let env = vec!["strategy=TWOSHOT", "fusion=RMS"];
    let forced = Asked { env, ..asked("trtllm@1.3.0", "h100", 8, 8 * 8192) };
    assert_eq!(forced.told(), ("trtllm", "two-shot-pull"));
    assert_eq!(forced.runs(), "two-shot-norm");
    let env = vec!["TLLM_DISABLE_ALLREDUCE_AUTOTUNE=1", "fusion=FP8"];
    let looked_up = Asked { env, ..asked("trtllm@1.3.0", "h100", 8, 8 * 8192) };
    assert_eq!((looked_up.told().1, looked_up.runs()), ("one-shot-push", "one-shot-norm"));
    // User buffers go through the switch, where there is one, and serve fused calls only.
    for (machine, fusion, kernel) in [
        ("h100", "fusion=RMS", ("trtllm", "two-shot-multimem")),
        ("a100", "fusion=RMS", NCCL),
        ("h100", "fusion=NONE", NCCL),
    ] {
        let env = vec!["strategy=UB", fusion];
        let buffered = Asked { env, ..asked("trtllm@1.3.0", machine, 8, M) };
        assert_eq!(buffered.told(), kernel, "{machine} {fusion}");
    }
}

/// vllm-project/vllm 0.33.0, quick_all_reduce.py.
#[test]
fn quick_reduce_begins_where_its_codec_pays() {
    let with = |codec, dtype, ranks, size| {
        let env = vec![codec];
        Asked { env, dtype, ..asked("vllm@0.33.0", "mi300x", ranks, size) }.told()
    };
    let int4 = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4";
    assert_eq!(with(int4, DataType::F16, 8, 2 * M), ("quick-reduce", "two-shot-push-int4"));
    assert_eq!(with(int4, DataType::F16, 8, 2 * M - 16), ("custom", "two-shot-pull"));
    assert_eq!(with(int4, DataType::Bf16, 4, 2 * M).0, "quick-reduce");
    let int3 = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT3";
    assert_eq!(with(int3, DataType::F16, 4, 4 * M).0, "custom");
    assert_eq!(with(int3, DataType::F16, 2, 4 * M), ("quick-reduce", "two-shot-push-int3"));
    let aiter = "VLLM_ROCM_USE_AITER=1";
    assert_eq!(with(aiter, DataType::F32, 8, 64 * M), ("aiter", "library"));
    assert_eq!(with(aiter, DataType::F32, 8, 64 * M + 16), NCCL);
    assert_eq!(with(aiter, DataType::F32, 3, M), NCCL);
    // A limit above vLLM's pool of 128 MiB is none; the other limit is exclusive.
    let sized = |variable, size| {
        let env = vec![aiter, variable];
        Asked { env, ..asked("vllm@0.33.0", "mi300x", 8, size) }.told()
    };
    assert_eq!(sized("AITER_CUSTOM_AR_MAX_SIZE=268435456", 65 * M), NCCL);
    assert_eq!(sized("AITER_CUSTOM_AR_MAX_SIZE=134217728", 128 * M).0, "aiter");
    assert_eq!(sized("AITER_CUSTOM_AR_MIN_SIZE=1048576", M), NCCL);
    assert_eq!(sized("AITER_CUSTOM_AR_MIN_SIZE=1048576", M + 16).0, "aiter");
}

/// sgl-project/sglang 0.5.23, custom_all_reduce.py (`dispatch_custom_allreduce`) and parallel_state.py.
#[test]
fn sglang_runs_aiter_on_amd() {
    let aiter = ("aiter", "library");
    let with = |env: &[&'static str], ranks, size| {
        let env = env.to_vec();
        Asked { env, ..asked("sglang@0.5.23", "mi300x", ranks, size) }.told()
    };
    assert_eq!(with(&[], 8, 64 * M), aiter);
    assert_eq!(with(&[], 8, 64 * M + 16), NCCL);
    assert_eq!(with(&[], 3, M), NCCL);
    assert_eq!(with(&["SGLANG_USE_AITER_AR=0"], 8, 16 * M), ("custom", "two-shot-pull"));
    assert_eq!(with(&["SGLANG_USE_1STAGE_ALLREDUCE=1"], 8, 32 * M), ("custom", "one-shot-pull"));
    assert_eq!(with(&["--enable-deterministic-inference"], 8, M), ("custom", "one-shot-pull"));
    assert_eq!(with(&["--disable-custom-all-reduce"], 8, M), NCCL);
    let part = |engine, collective, size| asked(engine, "mi300x", 8, size).in_parts(collective);
    for (collective, most, since, before) in [
        // Half of a pool of 1 GiB, for eight parts.
        (Collective::AllGather, 64 * M, "sglang@0.5.14", "sglang@0.5.10"),
        (Collective::ReduceScatter, 8 * M, "sglang@0.5.15", "sglang@0.5.14"),
    ] {
        assert_eq!(part(since, collective, most), "aiter");
        assert_eq!(part(since, collective, most + 16), "nccl");
        assert_eq!(part(before, collective, most), "nccl");
    }
}

/// sgl-project/sglang 0.5.22 and 0.5.23, custom_all_reduce_v2.py, `force_thresholds`: a forced size is the
/// buffer's, and the largest one of one-shot-push or two-shot-pull.
#[test]
fn sglang_s_forced_sizes_lift_its_thresholds() {
    let with = |env: &[&'static str], ranks, size| {
        let env = env.to_vec();
        Asked { env, ..asked("sglang@0.5.23", "h100", ranks, size) }.told()
    };
    let push = "SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PUSH_SIZE_KB=1024";
    assert_eq!(with(&[], 8, 256 * K).1, "two-shot-pull");
    assert_eq!(with(&[push], 8, M).1, "one-shot-push");
    assert_eq!(with(&[push], 8, M + 16).1, "two-shot-multimem");
    let pull = "SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PULL_SIZE_KB=65536";
    assert_eq!(with(&[], 5, 16 * M + 16), NCCL);
    assert_eq!(with(&[pull], 5, 64 * M).1, "two-shot-pull");
    assert_eq!(with(&[pull], 5, 64 * M + 16), NCCL);
    assert_eq!(with(&["SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PULL_SIZE_KB=0"], 5, M), NCCL);
}

/// The same releases, parallel_state.py (`_all_gather_into_tensor`) and pymscclpp.py: an output of 1 KiB to
/// 1 MiB times the nodes, of which there are 2, 4 or 8.
#[test]
fn sglang_gathers_over_nodes_by_mscclpp() {
    let told = |engine, ranks, nodes, size, collective| {
        let env = vec!["--enable-mscclpp"];
        Asked { env, nodes, ..asked(engine, "h100", ranks, size) }.in_parts(collective)
    };
    let two = |engine, size| told(engine, 16, 2, size, Collective::AllGather);
    assert_eq!(two("sglang@0.5.23", 128 * K), "mscclpp");
    assert_eq!(two("sglang@0.5.22", 64), "mscclpp");
    for (engine, size) in [("sglang@0.5.14", 16 * K), ("sglang@0.5.23", 128 * K + 16)] {
        assert_eq!(two(engine, size), "nccl", "{engine}");
    }
    assert_eq!(two("sglang@0.5.23", 48), "nccl");
    let newest = "sglang@0.5.23";
    assert_eq!(told(newest, 8, 1, 16 * K, Collective::AllGather), "nccl");
    assert_eq!(told(newest, 24, 3, 16 * K, Collective::AllGather), "nccl");
    assert_eq!(told(newest, 16, 2, 16 * K, Collective::ReduceScatter), "nccl");
}

/// What leads to another kernel is the least that does: nothing of NVIDIA's on AMD.
#[test]
fn ways_to_other_kernels_are_short() {
    let words = ["choose", "vllm", "allreduce", "8KiB", "-n", "8", "--on", "mi300x"];
    let said = crate::command::text(&crate::command::collcost(&words).stdout);
    assert!(
        said.contains("two-shot-pull") && said.contains("VLLM_CUSTOM_ALLREDUCE_ALGO=2stage"),
        "{said}"
    );
    assert!(!said.contains("FLASHINFER"), "{said}");
}

/// vllm-project/vllm, all_reduce_utils.py, `should_nccl_symm_mem_ag_rs`, which 0.25.1 has and 0.24 has not.
#[test]
fn vllm_gathers_in_symmetric_memory_from_0_25_on() {
    for collective in [Collective::AllGather, Collective::ReduceScatter] {
        let told = |engine, env: &[&'static str]| {
            Asked { env: env.to_vec(), ..asked(engine, "h100", 8, M) }.in_parts(collective)
        };
        let symmetric = "VLLM_USE_NCCL_SYMM_MEM=1";
        assert_eq!(told("vllm@0.25.1", &[symmetric]), "nccl-symm");
        assert_eq!(told("vllm@0.24.0", &[symmetric]), "nccl");
        assert_eq!(told("vllm@0.33.0", &[symmetric, "VLLM_BATCH_INVARIANT=1"]), "nccl");
    }
}

/// microsoft/mscclpp v0.10.0, algorithm_selector.cc, `fp8NvlsSupported`.
#[test]
fn mscclpp_adds_8_bit_floats_in_blackwells_switch_from_0_10_on() {
    let told = |engine, machine| {
        let env = vec!["MSCCLPP_NCCL_SYMMETRIC_MEMORY=1"];
        Asked { env, dtype: DataType::F8e4m3, ..asked(engine, machine, 8, 2 * M) }.told().1
    };
    assert_eq!(told("mscclpp@0.10.0", "b200"), "nvls-zero-copy");
    assert_eq!(told("mscclpp@0.9.0", "b200"), "rsag-zero-copy");
    assert_eq!(told("mscclpp@0.10.0", "h100"), told("mscclpp@0.9.0", "h100"));
}

/// flashinfer-ai/flashinfer 0.7.4, trtllm_ar.py: patterns 13 and 14 are its; 8 and 9 are TensorRT-LLM's kernels alone.
#[test]
fn flashinfer_has_the_patterns_of_its_release() {
    let told =
        |engine, pattern| Asked { env: vec![pattern], ..asked(engine, "b200", 8, 2 * M) }.told();
    for pattern in ["pattern=14", "pattern=kARResidualRMSNormMXFP8Quant"] {
        assert_eq!(told("flashinfer@0.7.4", pattern).0, "flashinfer-mnnvl");
        assert_eq!(told("flashinfer@0.7.2", pattern).0, "none");
    }
    assert_eq!(told("flashinfer@0.7.2", "pattern=9").0, "flashinfer-trtllm");
}

/// FlashInfer over PCIe comes after NCCL's symmetric kernels in vLLM, and after custom and MSCCL++ in SGLang.
#[test]
fn a_call_that_may_go_over_pcie_says_so() {
    let says = |engine: &'static str, env: &[&'static str], ranks| {
        let asked = Asked { env: env.to_vec(), ..asked(engine, "rtx-pro-6000", ranks, 64 * K) };
        let choice = policy(engine, &asked.site()).unwrap().choose(&asked.call()).unwrap();
        choice.notes.iter().any(|note| note.contains("over PCIe"))
    };
    let vllm = "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1";
    assert!(says("vllm@0.30.0", &[vllm], 8) && !says("vllm@0.29.0", &[vllm], 8));
    assert!(!says("vllm@0.33.0", &[], 8) && !says("vllm@0.33.0", &[vllm], 6));
    assert!(!says("vllm@0.33.0", &[vllm, "VLLM_BATCH_INVARIANT=1"], 8));
    let sglang = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1";
    assert!(says("sglang@0.5.21", &[sglang], 8) && !says("sglang@0.5.20", &[sglang], 8));
    assert!(!says("sglang@0.5.23", &[sglang, "enable_deterministic_inference=1"], 8));
    // Two over PCIe are custom's.
    assert!(!says("sglang@0.5.23", &[sglang], 2));
}

/// sgl-project/sglang, environ.py: sizes are forced from 0.5.17 on; GB200 joins trays from then on, too.
#[test]
fn sglang_forces_sizes_and_crosses_trays_from_0_5_17_on() {
    let forced = "SGLANG_FORCE_CUSTOM_ALL_REDUCE_V2_PUSH_SIZE_KB=4096";
    let told = |engine| Asked { env: vec![forced], ..asked(engine, "h100", 8, 2 * M) }.told().1;
    assert_eq!(
        (told("sglang@0.5.16"), told("sglang@0.5.17")),
        ("two-shot-multimem", "one-shot-push")
    );
    let grows = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    let trays = |engine| {
        let rack = asked(engine, "gb200", 16, 64 * K);
        Asked { env: vec![grows], nodes: 4, ..rack }.told().0
    };
    assert_eq!((trays("sglang@0.5.16"), trays("sglang@0.5.17")), ("nccl", "custom-v2"));
    // A switch of two releases does without such memory, for up to eight ranks.
    let switched = |engine| {
        let env = vec!["SGLANG_ENABLE_CUSTOM_ALL_REDUCE_V2_MULTINODE=1"];
        Asked { env, nodes: 2, ..asked(engine, "gb200", 8, 64 * K) }.told().0
    };
    assert_eq!(
        ["sglang@0.5.16", "sglang@0.5.18", "sglang@0.5.19"].map(switched),
        ["nccl", "custom-v2", "nccl"]
    );
}

/// microsoft/mscclpp, algorithm_selector.cc: AMD's GPUs have one kernel for an all-gather.
#[test]
fn mscclpp_gathers_on_amd_with_one_kernel() {
    let told = |machine| {
        let asked = asked("mscclpp", machine, 8, 64 * M);
        let call = Call::new(Collective::AllGather, 8, Bytes(512 * M));
        policy("mscclpp", &asked.site()).unwrap().choose(&call).unwrap().kernel.unwrap().kernel
    };
    assert_eq!((told("mi300x"), told("h100")), ("fullmesh2", "fullmesh"));
}

/// Two DGX Sparks: one GPU a node, which only NCCL joins.
#[test]
fn a_node_of_one_gpu_has_nccl() {
    for engine in ["vllm", "sglang"] {
        let two = Asked { nodes: 2, ..asked(engine, "dgx-spark", 2, M) };
        assert_eq!(two.told(), NCCL, "{engine}");
    }
}

/// NVIDIA/nccl v2.30.7-1, src/sym_kernels.cc: the model by hand for one call. H100, 8 ranks, 1 MiB:
/// the switch moves 1.125 MiB at 480 GiB/s; the kernels that read or pack move more.
#[test]
fn nccl_picks_the_switch_for_a_mebibyte() {
    let told = |size| asked("nccl-symm", "h100", 8, size).told();
    assert_eq!(told(M), ("nccl-symm", "RSxLDMC_AGxSTMC"));
    assert_eq!(told(64).0, "nccl-symm");
    assert!(told(64).1.starts_with("AGxLL"));
    let off = Asked { env: vec!["NCCL_WIN_ENABLE=0"], ..asked("nccl-symm", "h100", 8, M) };
    assert_eq!(off.told(), NCCL);
    assert_eq!(asked("nccl-symm", "h100", 16, M).told(), NCCL);
}

/// The same file, `ncclSymkMask`: a switch before Blackwell does not add FP8. `NCCL_SYM_KERNEL` is
/// compared with whole names, and leaves no kernel where the named one may not run.
#[test]
fn nccl_s_symmetric_kernels_keep_to_its_mask() {
    let fp8 = |machine| {
        Asked { dtype: DataType::F8e4m3, ..asked("nccl-symm", machine, 8, 64 * M) }.told().1
    };
    assert_eq!((fp8("h100"), fp8("b200")), ("RSxLD_AGxST", "RSxLDMC_AGxSTMC"));
    let with = |env, size| Asked { env: vec![env], ..asked("nccl-symm", "h100", 8, size) }.told();
    let packets = "NCCL_SYM_KERNEL=AllReduce_AGxLL_R";
    assert_eq!(with(packets, 64 * M), ("nccl-symm", "AGxLL_R"));
    assert_eq!(with(packets, 2048 * M), NCCL);
    assert_eq!(with("NCCL_SYM_KERNEL=AGxLL_R", M), NCCL);
    assert_eq!(with("NCCL_SYM_KERNEL=AllGather_LL", M), NCCL);
    assert_eq!(with("NCCL_SYM_KERNEL=^", M), ("nccl-symm", "RSxLDMC_AGxSTMC"));
}

/// The same file: between NVLink domains kernels over rails run, since 2.29.2 for all-gathers, since 2.29.7 for
/// reduce-scatters; `taskAppend` in src/enqueue.cc leaves large all-gathers on Blackwell to copy engines.
#[test]
fn nccl_gathers_between_domains_and_by_copy_engines() {
    use Collective::{AllGather, AllReduce, ReduceScatter};
    let told = |engine, (machine, ranks, nodes), collective, env: &[&'static str]| {
        let asked = Asked { nodes, env: env.to_vec(), ..asked(engine, machine, ranks, M) };
        let call = Call { nodes, ..Call::new(collective, ranks, Bytes(1024 * M)) };
        let choice = policy(engine, &asked.site()).unwrap().choose(&call).unwrap();
        choice.kernel.map(|kernel| (kernel.backend, kernel.kernel)).unwrap()
    };
    let (two, eight) = (("h100", 16, 2), ("h100", 64, 8));
    for place in [two, eight, ("h100", 8, 2)] {
        let of = |engine, collective| told(engine, place, collective, &[]);
        assert_eq!(of("nccl-symm@2.30.7", AllGather), ("nccl-symm", "RailRing_LsaSTMC"));
        assert!(of("nccl-symm@2.30.7", ReduceScatter).1.starts_with("RailA2A_Lsa"));
        assert_eq!(of("nccl-symm@2.30.7", AllReduce), NCCL);
        assert_eq!(of("nccl-symm@2.28.9", AllGather), NCCL);
    }
    let off = &["NCCL_SYM_GIN_KERNELS_ENABLE=0"];
    assert_eq!(told("nccl-symm@2.30.7", two, AllGather, off), NCCL);
    // Its ranks are on two hosts of one rack.
    // Its model is that of `nccl choose` from 2.31 on, too.
    let newest =
        policy("nccl-symm@2.32.6", &asked("nccl-symm@2.32.6", "h100", 8, M).site()).unwrap();
    let choice = newest.choose(&asked("nccl-symm@2.32.6", "h100", 8, M).call()).unwrap();
    assert_eq!(choice.kernel.unwrap().backend, "nccl-symm");
    assert!(!choice.notes.iter().any(|note| note.contains("not known here")));
    assert!(
        policy("nccl-symm", &asked("nccl-symm", "h100", 8, M).site())
            .unwrap()
            .meta()
            .id
            .ends_with("2.30.7")
    );
    let rack = told("nccl-symm@2.30.7", ("gb200", 8, 2), AllGather, &[]);
    assert_eq!(rack, ("nccl-symm", "UC"));
    let node = ("b200", 8, 1);
    assert_eq!(told("nccl-symm@2.30.7", node, AllGather, &[]), ("nccl-symm", "UC"));
    assert_eq!(told("nccl-symm@2.28.9", node, AllGather, &[]), ("nccl-symm", "STMC"));
    let above = &["NCCL_SYM_CE_THRESHOLD=1000000000"];
    assert_eq!(told("nccl-symm@2.30.7", node, AllGather, above), ("nccl-symm", "STMC"));
}

/// pytorch/pytorch, torch/_inductor/comm_lowering.py: inductor calls the operator that a program may call by its
/// name, which accepts the same.
#[test]
fn inductor_asks_what_its_operator_asks() {
    let small = |nodes, ranks, dtype, env: &[&'static str]| {
        let env = ["auto_select=1"].iter().chain(env).copied().collect();
        Asked { nodes, dtype, env, ..asked("torch", "h100", ranks, 64 * K) }.told()
    };
    assert_eq!(small(1, 8, DataType::Bf16, &[]), ("symm-mem", "one-shot-pull"));
    assert_eq!(small(2, 16, DataType::Bf16, &[]), NCCL);
    assert_eq!(small(1, 8, DataType::Bf16, &["p2p=0"]), NCCL);
    assert_eq!(small(1, 8, DataType::F16, &[]), NCCL);
}

/// microsoft/mscclpp v0.9.0, `isNvlsSupportedForDataType`, which a compiler for the host reads: no switch
/// adds 8-bit floats.
#[test]
fn mscclpp_leaves_8_bit_floats_to_its_kernels_without_a_switch() {
    let told = |machine, dtype, size| {
        let env = vec!["MSCCLPP_NCCL_SYMMETRIC_MEMORY=1"];
        Asked { dtype, env, ..asked("mscclpp@0.9.0", machine, 8, size) }.told().1
    };
    for (dtype, to_a_mebibyte, above) in [
        (DataType::Bf16, "nvls-zero-copy", "nvls-zero-copy"),
        (DataType::F8e4m3, "packet", "rsag-zero-copy"),
        (DataType::F8e5m2, "packet", "rsag-zero-copy"),
    ] {
        assert_eq!(told("b200", dtype, M), to_a_mebibyte, "{dtype}");
        assert_eq!(told("b200", dtype, M + 16), above, "{dtype}");
    }
    assert_eq!(told("h100", DataType::F8e4m3, 2 * M), "fullmesh");
}

/// microsoft/mscclpp, `selectSingleNodeAllreduceBlackwell`: up to 32 KiB it asks for no type.
#[test]
fn mscclpp_multicasts_small_messages_of_any_type_on_blackwell() {
    let told = |size| Asked { dtype: DataType::U8, ..asked("mscclpp", "b200", 8, size) }.told();
    assert_eq!(told(32 * K), ("mscclpp", "nvls-packet"));
    assert_eq!(told(64 * K), ("mscclpp", "packet"));
}

/// What teaches never holds the table, the ranks, the size or the board that it is held against. By
/// the curves that are carried; `examples/engines.rs` does the same with raw tables.
#[test]
fn kernels_are_expected_without_what_they_are_held_against() {
    let times = KernelTimes::built_in().unwrap();
    let found = times.held_out(times);
    let goals = [
        ("one table, in graphs", 1700, 0.030, 0.11),
        ("one table, in graphs, engines' own kernels", 1000, 0.032, 0.11),
        ("one table, eager", 1100, 0.055, 0.28),
        ("every third size, in graphs", 1700, 0.030, 0.11),
        ("the board, by its sibling, in graphs", 600, 0.045, 0.12),
        ("the generation, in graphs", 1100, 0.15, 0.40),
    ];
    for (what, points, median, p90) in goals {
        let left = found.iter().find(|l| l.what == what).unwrap();
        assert!(left.points >= points, "{left:?}");
        assert!(left.error.median.0 <= median && left.error.p90.0 <= p90, "{left:?}");
    }
    let regret = times.regret(times);
    assert!(regret.cells > 150 && regret.mean.0 <= 0.010 && regret.near.0 >= 0.95, "{regret:?}");
}

/// An engine's other ways are what its settings make it run: asked with those settings it runs them.
#[test]
fn what_an_engine_could_run_is_what_its_settings_make_it_run() {
    for engine in ["vllm@0.33.0", "vllm@0.24.0", "sglang@0.5.23", "trtllm@1.3.0", "flashinfer"] {
        let asked = asked(engine, "h100", 8, 64 * K);
        let rules = policy(engine, &asked.site()).unwrap();
        let ways = rules.ways();
        assert!(ways.len() >= 2, "{engine}");
        for (force, way) in ways {
            let mut site = asked.site();
            force.split(' ').for_each(|text| site.conditions.variables.put(text).unwrap());
            let kernel = way.choose(&asked.call()).unwrap().kernel.unwrap();
            let told =
                policy(engine, &site).unwrap().choose(&asked.call()).unwrap().kernel.unwrap();
            assert_eq!(kernel, told, "{engine} {force}");
        }
    }
    let told = |engine, text| Asked { env: vec![text], ..asked(engine, "h100", 8, 64 * K) }.told();
    assert_eq!(told("vllm@0.24.0", "--disable-custom-all-reduce").0, "symm-mem");
    assert_eq!(told("sglang@0.5.23", "--disable-custom-all-reduce"), NCCL);
}
