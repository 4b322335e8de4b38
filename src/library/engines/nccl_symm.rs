//! NCCL's kernels on buffers in symmetric windows, chosen by NCCL's own model.
//!
//! ```text
//! time(c) = lat + ln(1 + e^(bus/bw(c) − 1)) µs
//! bw(c)   = peak − σ·ln(1 + (e^(peak/σ) − 1)·e^(−c·mul))
//! ```
//!
//! Each kernel uses the fewest blocks c whose time is at most 2.5 % above the time with all blocks.
//! The kernel with the least time·(1 + 0.025·c) runs.
//!
//! Source: NVIDIA/nccl v2.27.7-1 `src/symmetric.cc`, v2.28.9-1 and v2.29.7-1 `src/sym_kernels.cc`,
//! v2.30.7-1 `src/scheduler/symmetric_sched.cc`. The accuracy of its times has not been shown.

use super::ask::Ask;
use super::{Engine, Taken};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "nccl-symm",
    aliases: &["nccl-sym", "nccl-symmetric"],
    title: "NCCL on buffers in symmetric windows: the kernel that its model picks",
    releases: &["2.30.7", "2.29.7", "2.28.9", "2.27.7"],
    source: "NVIDIA/nccl v2.30.7-1, src/scheduler/symmetric_sched.cc",
    variables: &["NCCL_SYM_KERNEL", "NCCL_SYM_CTAS", "NCCL_WIN_ENABLE", "p2p"],
    force: &[
        ("nccl-symm", "NCCL_SYM_KERNEL=NAME; buffers registered with ncclCommWindowRegister"),
        ("nccl", "NCCL_WIN_ENABLE=0"),
    ],
    ways: &[&["NCCL_WIN_ENABLE=1"], &["NCCL_WIN_ENABLE=0"]],
    rivals: false,
    collectives: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    choose,
};

/// A kernel: how much it moves for S bytes and n ranks, and how many blocks help.
struct Kernel {
    name: &'static str,
    bus: fn(f64, f64) -> f64,
    rate: fn(f64) -> f64,
    /// Flags travel with the data.
    packets: bool,
    multicast: bool,
    /// Whether few blocks are enough because the switch does the rest.
    few: bool,
}

const PACKETS: fn(f64, f64) -> f64 = |s, n| 9.0 * n * s;
const OTHERS: fn(f64, f64) -> f64 = |s, n| (n - 1.0) * s;
const ONE: fn(f64) -> f64 = |_| 1.0;
const MULTI: fn(f64) -> f64 = |_| 1.1;
const SWITCH: fn(f64) -> f64 = |n| 0.55 * n;

const fn kernel(
    name: &'static str,
    bus: fn(f64, f64) -> f64,
    rate: fn(f64) -> f64,
    [packets, multicast, few]: [bool; 3],
) -> Kernel {
    Kernel { name, bus, rate, packets, multicast, few }
}

const ALL_REDUCE: [Kernel; 4] = [
    kernel("AGxLL_R", PACKETS, ONE, [true, false, false]),
    kernel("AGxLLMC_R", PACKETS, MULTI, [true, true, false]),
    kernel("RSxLD_AGxST", |s, n| (2.0 * s * (n - 1.0) / n).floor(), ONE, [false; 3]),
    kernel("RSxLDMC_AGxSTMC", |s, n| (s / n).floor() + s, |n| n, [false, true, true]),
];
const ALL_GATHER: [Kernel; 4] = [
    kernel("LL", PACKETS, ONE, [true, false, false]),
    kernel("LLMC", PACKETS, MULTI, [true, true, false]),
    kernel("ST", OTHERS, ONE, [false; 3]),
    kernel("STMC", OTHERS, SWITCH, [false, true, true]),
];
const REDUCE_SCATTER: [Kernel; 3] = [
    kernel("LL", PACKETS, ONE, [true, false, false]),
    kernel("LD", OTHERS, ONE, [false; 3]),
    kernel("LDMC", OTHERS, SWITCH, [false, true, true]),
];

fn kernels(collective: Collective) -> &'static [Kernel] {
    match collective {
        Collective::AllGather => &ALL_GATHER,
        Collective::ReduceScatter => &REDUCE_SCATTER,
        _ => &ALL_REDUCE,
    }
}

/// Bytes of a µs at one GiB a second, in GiB: the model's unit.
const G: f64 = 1_073_741_824.0 / 1e6;
/// The cost of a block in the choice, and how near to the best time a number of blocks must be.
const NEAR: f64 = 0.025;
const MOST_BLOCKS: u32 = 64;
const LL_BELOW: u64 = 1 << 31;

fn choose(ask: &Ask<'_>) -> Taken {
    if let Err(why) = applies(ask) {
        return Taken::nccl(why);
    }
    ask.border(LL_BELOW);
    for power in 4..=36 {
        for part in 0..BORDERS_AN_OCTAVE {
            let from = (1_u64 << power) + ((1_u64 << power) * part / BORDERS_AN_OCTAVE);
            let to = (1_u64 << power) + ((1_u64 << power) * (part + 1) / BORDERS_AN_OCTAVE);
            between(ask, from, to);
        }
    }
    let forced = ask.env.get("NCCL_SYM_KERNEL");
    let all = kernels(ask.collective);
    let named = forced.and_then(|name| all.iter().find(|k| k.name.eq_ignore_ascii_case(name)));
    match (named, best(ask, ask.size())) {
        (Some(kernel), _) => Taken::new("nccl-symm", kernel.name, "NCCL_SYM_KERNEL names it"),
        (None, Some((kernel, micros, blocks))) => {
            let rule = format!("the model's least time: {micros:.1} µs with {blocks} blocks");
            Taken::new("nccl-symm", kernel.name, rule)
        }
        (None, None) => Taken::nccl("no kernel accepts it"),
    }
}

/// The parts of an octave that are checked for a change of kernel.
const BORDERS_AN_OCTAVE: u64 = 4;

/// Finds by halving where the kernel changes between two sizes, and notes it.
fn between(ask: &Ask<'_>, mut from: u64, mut to: u64) {
    let name = |size| best(ask, size).map(|(kernel, ..)| kernel.name);
    let (first, last) = (name(from), name(to));
    if first == last {
        return;
    }
    while to - from > 1 {
        let middle = from + (to - from) / 2;
        if name(middle) == first { from = middle } else { to = middle }
    }
    ask.border(to);
}

fn applies(ask: &Ask<'_>) -> Result<(), String> {
    use DataType as D;
    if !ask.env.is_on("NCCL_WIN_ENABLE", true) {
        return Err("NCCL_WIN_ENABLE=0".to_owned());
    }
    if !ask.board.cuda() || !ask.board.linked || !ask.board.peer_access {
        return Err("no NVLink between every pair".to_owned());
    }
    if ask.ranks > ask.board.domain {
        return Err("the group is larger than the NVLink domain".to_owned());
    }
    ask.dtype_of(&[D::F32, D::F16, D::Bf16, D::F8e4m3, D::F8e5m2])
}

/// The kernel with its model's time in µs and its blocks.
fn best(ask: &Ask<'_>, size: u64) -> Option<(&'static Kernel, f64, u32)> {
    let rounded = if ask.since(2, 28, 0) { size.next_multiple_of(1024) } else { size };
    let mut best: Option<(f64, (&Kernel, f64, u32))> = None;
    for kernel in kernels(ask.collective) {
        let multicast = ask.board.spans(ask.ranks) && (ask.ranks > 2 || !ask.since(2, 29, 0));
        if kernel.multicast && !multicast || kernel.packets && size >= LL_BELOW {
            continue;
        }
        let (micros, blocks) = timed(ask, kernel, rounded as f64);
        let cost = micros * (1.0 + NEAR * f64::from(blocks));
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, (kernel, micros, blocks)));
        }
    }
    best.map(|(_, found)| found)
}

fn timed(ask: &Ask<'_>, kernel: &Kernel, size: f64) -> (f64, u32) {
    let n = f64::from(ask.ranks);
    let blackwell = ask.board.sm >= Some(100);
    let reduces = ask.collective == Collective::AllReduce;
    let gathers = ask.collective == Collective::AllGather;
    let latency = match (blackwell, kernel.packets) {
        (false, true) => 4.5,
        (false, false) => 7.8,
        (true, true) if gathers => 8.5,
        (true, true) => 11.0,
        (true, false) if reduces => 19.5,
        (true, false) => 13.0,
    };
    let sigma = G * match (blackwell, reduces) {
        (true, _) => 55.0,
        (false, true) => 65.0,
        (false, false) => 44.0,
    };
    let peak = G * match (blackwell, reduces && kernel.few) {
        (false, false) => 320.0,
        (false, true) => 480.0,
        (true, false) => 600.0,
        (true, true) => 1000.0,
    };
    let most = match kernel.few {
        true => (if blackwell { 32 } else { 16_u32 }).div_ceil(ask.ranks),
        false => MOST_BLOCKS,
    };
    let most = ask.env.number("NCCL_SYM_CTAS").filter(|&c: &u32| c > 0).unwrap_or(most);
    let (bus, rate) = ((kernel.bus)(size, n), (kernel.rate)(n));
    let time = |blocks: u32| {
        let grown = (peak / sigma).exp_m1() * (-f64::from(blocks) * rate).exp();
        let x = bus / (peak - sigma * grown.ln_1p()) - 1.0;
        latency + if x > 30.0 { x } else { x.exp().ln_1p() }
    };
    let enough = (1.0 + NEAR) * time(most);
    let blocks = (1..most).find(|&c| time(c) <= enough).unwrap_or(most);
    (time(blocks), blocks)
}
