//! The time of an algorithm and protocol at a size, and its numbers of channels and threads.

use super::super::blocks::{collnet_direct_channels, helpers, is_short};
use super::super::communicator::PathType;
use super::super::constants::{self, TREE_FACTORS};
use super::super::tuner::ring_steps;
use super::super::{Algo, Arch, Call, Function, Proto, Reduction};
use super::decide::{CostModel, Windows};
use super::{Best, Candidate, Release};
use crate::base::quantity::Bytes;

/// A time that is never chosen while anything else is left.
const LAST_RESORT: f32 = f32::MAX / 2.0;

/// Bytes per channel and rank from which on rings in Simple pay more.
const PLATEAU: u64 = 64;

/// Above this many bytes, the extra latency of a ring within a node decreases; from twice as many
/// on it is constant.
const EASE: u64 = 256 << 10;

/// Bytes per channel and rank at which a ring's latency follows another rule.
pub(super) const BREAKS: [u64; 3] = [PLATEAU, EASE + 1, 2 * EASE];

impl CostModel {
    /// The time of a general candidate, if it may run.
    pub(super) fn general(
        &self,
        call: &Call,
        windows: Windows,
        (algo, proto): (Algo, Proto),
    ) -> Option<Best> {
        if !self.may(call.function, algo, proto) {
            return None;
        }
        let time = if self.is_last_resort(algo) {
            LAST_RESORT
        } else if self.rubin && !algo.is_collnet() && algo != Algo::Pat {
            self.pipeline_time(call, windows, algo, proto)?
        } else {
            self.line_time(call, algo, proto)
        };
        // Without bandwidth the time is infinite or negative.
        (time > 0.0).then(|| {
            let (channels, threads) = self.general_blocks(call.size, algo, proto);
            let candidate = Candidate::General(algo, proto);
            Best { candidate, channels, threads, time: Some(time), rank: time }
        })
    }

    /// Whether a cell may run for calls of this reduction.
    pub(super) fn may(&self, function: Function, algo: Algo, proto: Proto) -> bool {
        let comm = &self.comm;
        let gathers = function.gathers();
        self.cell(function, algo, proto).runs
            && match algo {
                Algo::Tree | Algo::Ring => true,
                Algo::CollNetDirect | Algo::CollNetChain => comm.collnet && comm.local_ranks <= 8,
                Algo::Nvls | Algo::NvlsTree => {
                    let narrow = comm.nvls_graph.channels <= 32 && comm.local_ranks <= 32;
                    let network = algo == Algo::NvlsTree || comm.nodes == 1 || comm.collnet;
                    comm.nvls
                        && switch_adds(self.reduction, function)
                        && (!gathers || narrow)
                        && network
                }
                Algo::Pat => {
                    comm.local_ranks == 1
                        || function != Function::ReduceScatter
                        || switch_adds(self.reduction, function)
                }
            }
    }

    /// PAT with several ranks per node.
    fn is_last_resort(&self, algo: Algo) -> bool {
        algo == Algo::Pat && self.comm.local_ranks > 1
    }

    /// The fraction of the cell's bandwidth that a size reaches.
    pub(super) fn factor(&self, size: Bytes, algo: Algo, proto: Proto) -> f32 {
        let Some(class) = (size.0 / 64).checked_ilog2().map(|k| k as usize) else { return 1.0 };
        match algo {
            Algo::Tree if class < 23 => TREE_FACTORS[proto as usize][class],
            Algo::NvlsTree if class < 24 && self.derates_nvls_tree(class) => TREE_FACTORS[2][class],
            _ => 1.0,
        }
    }

    fn derates_nvls_tree(&self, class: usize) -> bool {
        let comm = &self.comm;
        let whole = comm.local_ranks == 4 && comm.ranks == 4 * comm.nodes;
        let last = if self.release >= Release::V2_32 { 20 } else { 23 };
        let grace = comm.arch == Arch::Arm
            && self.reach.nic.0 >= 96.0
            && whole
            && (class < last || comm.nodes > 2);
        comm.min_cc >= 100 && (comm.arch == Arch::X86 || grace)
    }

    /// Latency and size over bandwidth.
    fn line_time(&self, call: &Call, algo: Algo, proto: Proto) -> f32 {
        let cell = self.cell(call.function, algo, proto);
        let mut latency = cell.latency.0;
        if algo == Algo::Ring && proto == Proto::Simple {
            latency = self.plateau(call, latency);
        }
        let bandwidth = cell.bandwidth.0 * self.factor(call.size, algo, proto);
        self.total(call, algo, latency, bandwidth)
    }

    /// The time of a latency and a bandwidth, for as many operations as a group holds.
    pub(super) fn total(&self, call: &Call, algo: Algo, latency: f32, bandwidth: f32) -> f32 {
        let ring = algo == Algo::Ring;
        let pipelined = constants::of(self.version).pipelined;
        let times = if ring { call.pipelined } else { call.pipelined.div_ceil(pipelined) };
        let latency = latency * times as f32;
        let moving = call.size.0 as f32 / (1000.0 * bandwidth);
        // Rings add 8-bit floats only if nothing else does.
        let shunned = ring && self.reduction.shuns_rings(call.function, self.comm.ranks);
        let many = if shunned { 1024.0 } else { 1.0 };
        match self.release {
            Release::V2_31 => (latency + moving) * many,
            _ if bandwidth <= 0.0 => latency,
            _ => latency + moving * many,
        }
    }

    /// The ring's latency in Simple, which is longer for large sizes.
    fn plateau(&self, call: &Call, latency: f32) -> f32 {
        let comm = &self.comm;
        let all_reduce = call.function == Function::AllReduce;
        let switched =
            comm.nodes == 1 && comm.min_cc >= 100 && comm.ring.type_intra == PathType::Nvl;
        let newer = self.release >= Release::V2_32;
        let applies = (comm.nodes > 1 && all_reduce)
            || (switched && (call.function.gathers() || (newer && all_reduce)));
        let each = call.size.0 / (u64::from(comm.channels) * u64::from(comm.ranks));
        if !applies || each < PLATEAU {
            return latency;
        }
        if newer && comm.nodes == 1 {
            return latency * eased(ring_steps(comm, call.function), each);
        }
        match (newer, comm.min_cc < 80) {
            (false, true) => (f64::from(latency) * 1.9) as f32,
            (false, false) => (f64::from(latency) * 1.4) as f32,
            (true, true) => latency * 1.9,
            (true, false) => latency * 1.4,
        }
    }

    /// Channels and threads of an algorithm at a size.
    pub(super) fn general_blocks(&self, size: Bytes, algo: Algo, proto: Proto) -> (u32, u32) {
        let (a, p) = (algo as usize, proto as usize);
        let own_threads = self.threads[a][p];
        let (channels, threads) = self.lowered(size, algo, (own_threads, self.thresholds[a][p]));
        let helpers = u32::from(helpers(algo, proto));
        let fixed = matches!(algo, Algo::Tree | Algo::Pat);
        (channels, if fixed { 640 } else { (threads + helpers).max(96) })
    }

    /// Channels and threads before helpers; they are given up one after another for small sizes.
    pub(super) fn lowered(
        &self,
        size: Bytes,
        algo: Algo,
        (mut threads, threshold): (u32, u32),
    ) -> (u32, u32) {
        let comm = &self.comm;
        let mut channels = match algo {
            Algo::Nvls | Algo::NvlsTree => {
                return (comm.switch_channels(self.version, algo), threads);
            }
            Algo::CollNetDirect => {
                let (heads, all) = (comm.collnet_heads, comm.channels);
                let left = collnet_direct_channels(heads, all, threads, threshold, size.0);
                return (left, threads);
            }
            Algo::Pat if comm.local_ranks > 1 => match self.release {
                Release::V2_31 => return (comm.nvls_channels.min(comm.channels), threads),
                _ => return (comm.nvls_channels, threads),
            },
            _ => comm.channels,
        };
        while channels >= 2 && is_short(size.0, [channels, threads, threshold]) {
            channels -= 1;
        }
        while threads.is_multiple_of(128) && is_short(size.0, [channels, threads, threshold]) {
            threads /= 2;
        }
        (channels, threads)
    }
}

/// How much longer a ring's latency is within a node, by its steps and the bytes of each.
fn eased(steps: i32, each: u64) -> f32 {
    let whole = 1.4_f32 - 1.0;
    let share = 1.0 - (0.1 / whole).powf((steps - 1).max(0) as f32);
    let mut longer = whole;
    if each > EASE {
        longer -= 0.1 * ((each - EASE) as f32 / EASE as f32).min(1.0);
    }
    1.0 + share * longer
}

/// Whether the switch supports the reduction.
pub(super) fn switch_adds(reduction: Reduction, function: Function) -> bool {
    function == Function::AllGather || reduction.is_added_in_switch()
}
