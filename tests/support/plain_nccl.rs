//! NCCL's choice written down plainly, over all 21 cells, as a second witness and as the bench's
//! yardstick.

use collcost::library::nccl::{Algo, Communicator, Function, Proto, Table, Version};

/// What is taken, and the time; `None` where nothing is available.
pub fn choose(
    comm: &Communicator,
    version: Version,
    table: &Table,
    function: Function,
    bytes: u64,
    pipelined: u32,
) -> Option<(Algo, Proto, u32, u32, f32)> {
    let mut best = if version.tag() >= (29, 2) { f32::MAX } else { 3.6e9 };
    let mut found = None;
    for algo in Algo::ALL {
        if skips(comm, version, function, algo) {
            continue;
        }
        for proto in Proto::ALL {
            if let Some(time) =
                time(comm, version, table, (function, algo, proto), bytes, pipelined)
                && time < best
            {
                best = time;
                found = Some((algo, proto));
            }
        }
    }
    let (algo, proto) = found?;
    let (channels, threads) = blocks(comm, version, table, algo, proto, bytes);
    Some((algo, proto, channels, threads, best))
}

fn skips(comm: &Communicator, version: Version, function: Function, algo: Algo) -> bool {
    let tag = version.tag();
    let gathers = matches!(function, Function::AllGather | Function::ReduceScatter);
    let asks_nothing = function == Function::AllGather
        && ((19, 1)..(20, 3)).contains(&tag) | ((22, 3)..(27, 3)).contains(&tag);
    match algo {
        Algo::CollNetDirect => !comm.collnet || (tag >= (23, 4) && comm.local_ranks > 8),
        Algo::CollNetChain => !comm.collnet || (tag >= (28, 3) && comm.local_ranks > 8),
        Algo::Nvls | Algo::NvlsTree => {
            (tag >= (19, 1) && !comm.nvls && !asks_nothing)
                || (tag >= (27, 3) && gathers && comm.local_ranks > 32)
                || (((25, 1)..(27, 3)).contains(&tag) && gathers && comm.ranks > 32)
                || (algo == Algo::Nvls && comm.nodes > 1 && !comm.collnet)
                || (algo == Algo::Nvls && comm.nodes > 1 && gathers && tag < (27, 3))
        }
        _ => false,
    }
}

fn time(
    comm: &Communicator,
    version: Version,
    table: &Table,
    (function, algo, proto): (Function, Algo, Proto),
    bytes: u64,
    pipelined: u32,
) -> Option<f32> {
    const FACTORS: [[f32; 24]; 3] = [
        [
            1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7,
            0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
        ],
        [
            1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8,
            0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
        ],
        [
            0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7,
            0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
        ],
    ];
    let mut bandwidth = table.bandwidth(function, algo, proto).0;
    let mut latency = table.latency(function, algo, proto).0;
    if bandwidth == 0.0 {
        return None;
    }
    let class = (bytes >> 6).checked_ilog2().map_or(-1, |k| k as i32);
    let class = if version.tag() < (22, 3) { class.max(0) } else { class };
    if algo == Algo::Tree && (0..23).contains(&class) {
        bandwidth *= FACTORS[proto as usize][class as usize];
    }
    let x86 = comm.arch == collcost::library::nccl::Arch::X86;
    let blackwell = version.tag() >= (29, 2) && x86 && comm.min_cc >= 100;
    if algo == Algo::NvlsTree && blackwell && (0..24).contains(&class) {
        bandwidth *= FACTORS[2][class as usize];
    }
    let large = bytes / (u64::from(comm.channels) * u64::from(comm.ranks)) >= 64;
    let ring = algo == Algo::Ring && proto == Proto::Simple;
    if ring && function == Function::AllReduce && comm.nodes > 1 && large {
        latency = (f64::from(latency) * if comm.min_cc < 80 { 1.9 } else { 1.4 }) as f32;
    }
    let released = version.tag();
    let batches = [((22, 3), 9), ((23, 4), 16), ((30, 3), 10)];
    let batch = batches.iter().find(|(before, _)| released < *before).map_or(8, |b| b.1);
    let count = if algo == Algo::Ring { pipelined } else { pipelined.div_ceil(batch) };
    Some(latency * count as f32 + bytes as f32 / (1000.0 * bandwidth))
}

fn blocks(
    comm: &Communicator,
    version: Version,
    table: &Table,
    algo: Algo,
    proto: Proto,
    bytes: u64,
) -> (u32, u32) {
    let mut channels = comm.call_channels;
    let mut threads = table.threads(algo, proto);
    let mut threshold = match proto {
        Proto::Ll if algo == Algo::Ring => 8 * comm.ranks,
        Proto::Ll | Proto::Ll128 => 8,
        Proto::Simple if matches!(algo, Algo::CollNetDirect | Algo::CollNetChain) => 512,
        Proto::Simple => 64,
    };
    let small = |channels: u32, threads: u32, threshold: u32| {
        let product = channels.wrapping_mul(threads).wrapping_mul(threshold);
        bytes < i64::from(product.cast_signed()) as u64
    };
    match algo {
        Algo::Nvls | Algo::NvlsTree => {
            let least = version.tag() >= (28, 3) && algo == Algo::Nvls && comm.nodes > 1;
            channels = if least { comm.nvls_channels.min(channels) } else { comm.nvls_channels };
        }
        Algo::CollNetDirect => {
            let mut step = 16;
            while step >= 1 {
                while small(channels * comm.collnet_heads, threads, threshold) && channels > step {
                    if channels == step + step / 2 {
                        threshold /= 2;
                    }
                    channels -= 1;
                }
                if !small(channels * comm.collnet_heads, threads, threshold) {
                    break;
                }
                step /= 2;
            }
        }
        _ => {
            while small(channels, threads, threshold) {
                if channels >= 2 {
                    channels -= 1;
                } else if threads.is_multiple_of(128) && threads > 0 {
                    threads /= 2;
                } else {
                    break;
                }
            }
        }
    }
    if proto == Proto::Simple {
        threads += match algo {
            Algo::Ring => 32,
            Algo::Tree => 128,
            _ => 0,
        };
    }
    if threads / 32 < 3 {
        threads = 96;
    }
    if version.tag() >= (22, 3) && matches!(algo, Algo::Tree | Algo::Pat) {
        threads = 640;
    }
    (channels, threads)
}
