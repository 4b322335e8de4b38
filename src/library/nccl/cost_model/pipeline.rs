//! The time of rings, trees and NVLS on Rubin-class GPUs: slices follow each other through a pipeline,
//! on as many channels as the scheduler would use.

use super::super::communicator::PathType;
use super::super::schedule::used_channels;
use super::super::tuner::ring_steps;
use super::super::{Algo, Call, Function, Proto};
use super::cells::{NET, NVLINK, PCI};
use super::decide::{CostModel, Windows};
use super::lsa::soft_min;

/// A channel's buffer in bytes, by protocol, and its number of steps.
const BUFFERS: [u64; 3] = [524_288, 4_915_200, 4 << 20];
const STEPS: u64 = 8;

/// The fraction of a link's rate that is data, by protocol.
const PAYLOAD: [f64; 3] = [0.5, 0.9375, 1.0];

/// Steps of one kind: their number, their latency in microseconds, their bytes per microsecond.
struct Hops {
    count: f64,
    latency: f64,
    rate: f32,
}

/// A channel's part, its slices, and the number of slices that a link passes on.
struct Slices {
    share: u64,
    slice: u64,
    count: u64,
}

impl CostModel {
    /// The time, if the call has bytes for a channel.
    pub(super) fn pipeline_time(
        &self,
        call: &Call,
        windows: Windows,
        algo: Algo,
        proto: Proto,
    ) -> Option<f32> {
        let channels = self.scheduled(call, algo, proto)?;
        // Between windows NCCL gathers bytes, whatever the data type.
        let gathered = windows == Windows::Both && call.function == Function::AllGather;
        let element = if gathered { 1 } else { self.element() };
        let slices = self.slices(call, algo, proto, (channels, element));
        let hops = self.hops(call.function, algo, proto);
        let slice = slices.slice as f32;
        let first = |h: &Hops| h.count * (h.latency * 0.5 + f64::from(slice / h.rate));
        let first: f64 = hops.iter().map(first).sum();
        let used = hops.iter().filter(|h| h.count > 0.0);
        let delay = slice * used.map(|h| 1.0 / h.rate).fold(0.0, f32::max);
        let time = first as f32 + (slices.count - 1) as f32 * delay;
        let all = slices.share as f32 / time / 1000.0 * channels as f32;
        let most = f64::from(self.greatest_rate(call.function, algo, proto));
        let bandwidth = soft_min(f64::from(all), most, 0.1 * most) as f32;
        let latency = self.figures.base[algo as usize][proto as usize];
        Some(self.total(call, algo, latency, bandwidth))
    }

    /// The channels that the scheduler uses for a single call.
    fn scheduled(&self, call: &Call, algo: Algo, proto: Proto) -> Option<u32> {
        let comm = &self.comm;
        let (mut channels, _) = self.general_blocks(call.size, algo, proto);
        let most = match algo {
            Algo::Nvls | Algo::NvlsTree => comm.switch_channels(self.version, algo),
            _ => comm.channels,
        };
        channels = channels.clamp(comm.ctas.least, comm.ctas.most).min(most);
        let bytes = self.count(call) * self.element();
        let used = used_channels(call.function, comm.ranks, proto, bytes, (channels, 32 << 10));
        (channels > 0 && bytes > 0).then_some(used)
    }

    fn slices(
        &self,
        call: &Call,
        algo: Algo,
        proto: Proto,
        (channels, element): (u32, u64),
    ) -> Slices {
        let ranks = u64::from(self.comm.ranks);
        let share = call.size.0.div_ceil(u64::from(channels));
        let ring = algo == Algo::Ring;
        let scatters = call.function.gathers() || call.function == Function::AllReduce;
        let simple = proto == Proto::Simple;
        let (chunk_steps, slice_steps) = if ring && simple && scatters { (4, 2) } else { (1, 1) };
        let nominal = BUFFERS[proto as usize] / STEPS * chunk_steps;
        let nominal = match proto {
            Proto::Ll => nominal / 2,
            Proto::Ll128 => nominal / 16 * 15,
            Proto::Simple => nominal,
        };
        let chunk = if ring && scatters {
            let each =
                share.div_ceil(element).div_ceil(ranks).next_multiple_of((16 / element).max(1));
            nominal.min(share.min(each * element))
        } else {
            nominal.min(share)
        };
        let least = nominal / chunk_steps * slice_steps;
        let slice = if simple {
            let elements = chunk.div_ceil(element);
            let parts = 16 * chunk_steps / slice_steps;
            let slice = (elements.div_ceil(parts) * 16).max(least / element / 32) * element;
            slice.min(chunk)
        } else {
            chunk.min(least)
        };
        let pieces = share.div_ceil(slice);
        let count = match algo {
            Algo::Ring => {
                let steps = ring_steps(&self.comm, call.function) as u64;
                let count = (pieces * steps).div_ceil(ranks);
                let overlaps = call.function == Function::AllReduce && ranks > 2 && count > 0;
                count - u64::from(overlaps)
            }
            Algo::Tree => 2 * pieces - 1,
            _ => pieces,
        };
        Slices { share, slice, count }
    }

    /// Steps inside a node, and between nodes.
    fn hops(&self, function: Function, algo: Algo, proto: Proto) -> [Hops; 2] {
        let comm = &self.comm;
        let graph = comm.graph(algo);
        let link = if graph.type_intra == PathType::Nvl { NVLINK } else { PCI };
        let latency =
            |link: usize| f64::from(self.figures.hardware[link][algo as usize][proto as usize]);
        let (inside, far) = (1000.0 * graph.intra.0, 1000.0 * graph.inter.0);
        let payload = |rate: f32| {
            rate * PAYLOAD[proto as usize] as f32 / self.reach.blocks_per_channel as f32
        };
        let near_hops = |count: f64, rate: f32| Hops { count, latency: latency(link), rate };
        let far_hops = |count: f64, rate: f32| Hops { count, latency: latency(NET), rate };
        let depth = f64::from(2 * comm.nodes.ilog2());
        let all_reduce = function == Function::AllReduce;
        match algo {
            Algo::Ring => {
                let steps = ring_steps(comm, function);
                let between = match comm.nodes as i32 {
                    1 => 0,
                    _ if comm.ranks == comm.nodes => steps,
                    nodes if all_reduce => 2 * nodes,
                    nodes => nodes,
                };
                [
                    near_hops(f64::from(steps - between), payload(inside)),
                    far_hops(f64::from(between), payload(far)),
                ]
            }
            Algo::Tree => [
                near_hops(f64::from(2 * (comm.local_ranks - 1)), payload(inside)),
                far_hops(depth, payload(far)),
            ],
            _ => {
                let switch = 1000.0 * (graph.intra.0 * self.figures.efficiency);
                let count = if all_reduce { 2.0 } else { 1.0 };
                let between = match algo {
                    Algo::NvlsTree => far_hops(depth, far),
                    _ => Hops { count: 0.0, latency: 0.0, rate: 1.0 },
                };
                [near_hops(count, switch), between]
            }
        }
    }

    /// The rate that no number of channels exceeds, computed as the largest buffer over time.
    fn greatest_rate(&self, function: Function, algo: Algo, proto: Proto) -> f32 {
        let bus = self.greatest_bus_rate(function, algo, proto) * self.comm.ranks as f32;
        bus / ring_steps(&self.comm, function) as f32
    }

    /// The same over the busiest link; the table has it as the bandwidth.
    pub(super) fn greatest_bus_rate(&self, function: Function, algo: Algo, proto: Proto) -> f32 {
        let comm = &self.comm;
        let figures = &self.figures;
        let graph = comm.graph(algo);
        let capped = |rate: f32| {
            let rate = f64::from(rate) * PAYLOAD[proto as usize];
            let cap = match (algo, proto) {
                (Algo::Ring | Algo::Tree, Proto::Ll) => figures.ll,
                (Algo::Ring, Proto::Ll128) => figures.ring_ll128,
                (Algo::Tree, Proto::Ll128) => figures.tree_ll128,
                (Algo::Tree, Proto::Simple) => figures.tree,
                (Algo::NvlsTree, _) => figures.nvls_tree,
                _ => -1.0,
            };
            if cap > 0.0 { rate.min(cap) as f32 } else { rate as f32 }
        };
        let channels = graph.channels as f32;
        match algo {
            Algo::Nvls | Algo::NvlsTree => {
                let per_channel = (comm.nvls_channels / graph.channels.max(1)) as f32;
                let mut switch = graph.intra.0 * figures.efficiency * (channels - 1.0)
                    / (channels * per_channel);
                if function.gathers() {
                    let local = comm.local_ranks as f32;
                    switch *= (local - 1.0) / local;
                } else {
                    switch *= 2.0;
                }
                let tree = algo == Algo::NvlsTree && comm.nodes <= 2;
                let net = graph.inter.0 * if tree { 2.0 } else { 1.0 } / per_channel;
                capped(switch).min(capped(net)) * channels * per_channel
            }
            _ => {
                let blocks = self.reach.blocks_per_channel as f32;
                let rate = if comm.nodes > 1 { graph.inter.0 } else { graph.intra.0 };
                let mut rate = rate / blocks;
                if algo == Algo::Tree {
                    let ranks = comm.ranks as f32;
                    rate = rate * (ranks - 1.0) / ranks;
                }
                capped(rate) * channels * blocks
            }
        }
    }
}
