//! A call's choice: the cell with the least time, then how many channels and threads it gets.

use std::str::FromStr;

use super::communicator::{Arch, Communicator};
use super::constants::{self, TREE_FACTORS};
use super::table::Table;
use super::{Algo, Function, Micros, Proto, Version};
use crate::error::{Error, Result};
use crate::quantity::{Bytes, Ratio};

/// What is asked of the tuner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: Function,
    /// The largest buffer: the vector, or for all-gather and reduce-scatter all ranks' blocks.
    pub size: Bytes,
    /// How many steps' worth of operations a group holds; 1 for a call alone.
    pub pipelined: u32,
}

/// What the tuner answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// The algorithm.
    pub algo: Algo,
    /// The protocol.
    pub proto: Proto,
    /// Channels at most.
    pub channels: u32,
    /// Threads of a block.
    pub threads: u32,
    /// The tuner's own estimate; old versions make none for a single rank.
    pub time: Option<Micros>,
}

/// The data type of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Element {
    /// 32 and 64 bit floats.
    #[default]
    Float,
    /// Half and bfloat16.
    Half,
    /// 32 and 64 bit integers.
    Integer,
    /// 8 bit floats.
    Fp8,
    /// 8 bit integers.
    Byte,
}

/// The reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Operation {
    /// Sum.
    #[default]
    Sum,
    /// Least or greatest.
    MinMax,
    /// Product.
    Product,
    /// Average, and sums that are scaled first.
    Scaled,
}

impl FromStr for Element {
    type Err = Error;

    /// Reads a data type's name, such as `float`, `bf16` or `int32`.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "float" | "fp32" | "f32" | "float32" | "double" | "fp64" | "f64" | "float64" => {
                Self::Float
            }
            "half" | "fp16" | "f16" | "float16" | "bf16" | "bfloat16" => Self::Half,
            "int32" | "uint32" | "int64" | "uint64" | "int" => Self::Integer,
            "fp8" | "f8e4m3" | "f8e5m2" => Self::Fp8,
            "int8" | "uint8" | "char" => Self::Byte,
            _ => {
                return Err(Error::input(format!("`{text}` is no data type of NCCL"))
                    .mend("known are float, double, half, bf16, int32, int64, int8, fp8"));
            }
        })
    }
}

impl FromStr for Operation {
    type Err = Error;

    /// Reads `sum`, `min`, `max`, `prod`, `avg`.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "sum" => Self::Sum,
            "min" | "max" => Self::MinMax,
            "prod" => Self::Product,
            "avg" | "mulsum" => Self::Scaled,
            _ => {
                return Err(Error::input(format!("`{text}` is no operation of NCCL"))
                    .mend("known are sum, min, max, prod, avg"));
            }
        })
    }
}

/// What is reduced, and how. The default is a sum of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reduction {
    /// The data type.
    pub element: Element,
    /// The operation.
    pub operation: Operation,
}

/// Cells that can be available at all, in the order in which ties are broken, and one to fill up.
const LANES: usize = 12;

/// The first of the ring's three.
const RING: usize = 3;

/// Each lane's algorithm and protocol.
const CELLS: [(Algo, Proto); 11] = [
    (Algo::Tree, Proto::Ll),
    (Algo::Tree, Proto::Ll128),
    (Algo::Tree, Proto::Simple),
    (Algo::Ring, Proto::Ll),
    (Algo::Ring, Proto::Ll128),
    (Algo::Ring, Proto::Simple),
    (Algo::CollNetDirect, Proto::Simple),
    (Algo::CollNetChain, Proto::Simple),
    (Algo::Nvls, Proto::Simple),
    (Algo::NvlsTree, Proto::Simple),
    (Algo::Pat, Proto::Simple),
];

const NVLS_TREE: usize = 9;

type Lanes = [f32; LANES];

/// A communicator's table, made ready for one decision after another.
///
/// Decisions about many communicators wait for memory above all: what one reads stands together.
#[derive(Debug, Clone)]
#[repr(align(128))]
pub struct Chooser {
    functions: [Prepared; 5],
    /// Whether there is a single rank.
    is_alone: bool,
    limits: [Limit; CELLS.len()],
    rare: Rare,
}

/// What few decisions ask.
#[derive(Debug, Clone)]
struct Rare {
    /// What a single rank gets without a look at the table.
    alone: Option<Decision>,
    /// What rings would carry where nothing else is left, by function; 2.21.5 alone has it.
    backup: [[f32; 3]; 5],
    /// Bytes a thread below which channels are given up.
    thresholds: [u32; CELLS.len()],
    heads: u32,
    /// Operations of a group for which all but rings pay their latency once.
    pipelined: u32,
    /// Whether a time of the ring counts 1024 times.
    avoids_ring: bool,
}

/// One function's cells, with all that a decision needs, in two lines of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(128))]
struct Prepared {
    latency: Lanes,
    /// 0 where the cell is not available: its time is then infinite.
    bandwidth: Lanes,
    /// From this size on the ring's latency in Simple is the next one.
    plateau: u64,
    plateau_latency: f32,
    /// Nothing slower than this is taken.
    slowest: f32,
    /// What trees reach, by size class; the first row is for less than 64 bytes.
    factors: &'static [Lanes; CLASSES],
    /// The row for less than 64 bytes.
    smallest: u8,
}

/// How a cell's channels and threads fall with the size.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// Bytes a channel below which it is given up, at full threads; at least 1.
    block: u32,
    /// Below these a last channel's threads are halved, and again, and again; 0: they are not.
    halvings: [u32; 3],
    channels: u16,
    /// Channels at least: all of them where the size does not matter.
    least: u16,
    threads: u16,
    /// Threads that a block gets on top.
    helpers: u16,
    /// Threads whatever the size; 0: none.
    fixed: u16,
    /// Whether channels fall by a rule of their own, or a product of 32 bits overflows.
    is_odd: bool,
}

const CLASSES: usize = 26;

/// Tree factors as lanes, without and with those of `NVLSTree`.
static FACTORS: [[Lanes; CLASSES]; 2] = [factors(false), factors(true)];

const fn factors(nvls_tree: bool) -> [Lanes; CLASSES] {
    let mut rows = [[1.0; LANES]; CLASSES];
    let mut class = 0;
    while class < 24 {
        // The last class is not the tree's.
        if class < 23 {
            rows[class + 1][0] = TREE_FACTORS[0][class];
            rows[class + 1][1] = TREE_FACTORS[1][class];
            rows[class + 1][2] = TREE_FACTORS[2][class];
        }
        if nvls_tree {
            rows[class + 1][NVLS_TREE] = TREE_FACTORS[2][class];
        }
        class += 1;
    }
    rows
}

impl Chooser {
    /// Makes a table ready for calls of one data type and reduction.
    #[must_use]
    pub fn new(
        comm: &Communicator,
        version: Version,
        table: &Table,
        Reduction { element, operation }: Reduction,
    ) -> Self {
        let scope = Scope { comm, version, element, operation };
        let alone = (comm.ranks == 1).then(|| Decision {
            algo: Algo::Ring,
            proto: Proto::Simple,
            channels: comm.channels,
            threads: table.threads(Algo::Ring, Proto::Simple) + 32,
            time: version.is_new().then_some(Micros(0.0)),
        });
        let threshold = |(a, p): (Algo, Proto)| table.thresholds[a as usize][p as usize];
        Self {
            functions: Function::ALL.map(|f| scope.prepare(f, table)),
            is_alone: alone.is_some(),
            limits: CELLS.map(|(algo, proto)| scope.limit(algo, proto, table)),
            rare: Rare {
                alone,
                backup: table.backup,
                thresholds: CELLS.map(threshold),
                heads: comm.collnet_heads,
                pipelined: constants::of(version).pipelined,
                avoids_ring: version.is_new() && element == Element::Fp8 && comm.ranks > 8,
            },
        }
    }

    /// What NCCL takes; none where nothing is available, which is an error there.
    #[must_use]
    pub fn decide(&self, call: &Call) -> Option<Decision> {
        if self.is_alone {
            return self.rare.alone;
        }
        let prepared = &self.functions[call.function as usize];
        let best = prepared.least(&self.times(call, &prepared.bandwidth));
        let (lane, time) = best.or_else(|| self.last_resort(call))?;
        let (algo, proto) = CELLS[lane];
        let (channels, threads) = self.blocks(lane, call.size.0);
        Some(Decision { algo, proto, channels, threads, time: Some(Micros(time)) })
    }

    /// Whether a cell takes part in the choice.
    #[must_use]
    pub fn considers(&self, function: Function, algo: Algo, proto: Proto) -> bool {
        if let Some(alone) = self.rare.alone {
            return (algo, proto) == (alone.algo, alone.proto);
        }
        let lane = CELLS.iter().position(|&cell| cell == (algo, proto));
        lane.is_some_and(|i| self.functions[function as usize].bandwidth[i] > 0.0)
    }

    /// From which size on the ring's latency in Simple is longer for a large all-reduce.
    pub(super) fn plateau(&self) -> u64 {
        self.functions[Function::AllReduce as usize].plateau
    }

    /// What trees and their like reach of their bandwidth at a size; 1 for others.
    #[must_use]
    pub fn factor(&self, algo: Algo, proto: Proto, size: Bytes) -> Ratio {
        let lane = CELLS.iter().position(|&cell| cell == (algo, proto));
        lane.map_or(Ratio(1.0), |i| Ratio(f64::from(self.functions[0].row(size.0)[i])))
    }

    /// Every available cell with its time, the fastest first; ties in NCCL's order.
    #[must_use]
    pub fn ranked(&self, call: &Call) -> Vec<(Algo, Proto, Micros)> {
        if let Some(d) = self.rare.alone {
            return vec![(d.algo, d.proto, d.time.unwrap_or_default())];
        }
        let prepared = &self.functions[call.function as usize];
        let times = self.times(call, &prepared.bandwidth);
        let available = CELLS.iter().zip(times).filter(|&(_, t)| t < prepared.slowest);
        let mut ranked: Vec<_> = available.map(|(&(a, p), t)| (a, p, Micros(t))).collect();
        ranked.sort_by(|a, b| a.2.0.total_cmp(&b.2.0));
        ranked
    }

    /// The rings that 2.21.5 falls back to, whatever forbids them.
    #[cold]
    fn last_resort(&self, call: &Call) -> Option<(usize, f32)> {
        let mut rings = [0.0; LANES];
        rings[RING..RING + 3].copy_from_slice(&self.rare.backup[call.function as usize]);
        let prepared = &self.functions[call.function as usize];
        prepared.least(&self.times(call, &rings))
    }

    /// Every cell's time in microseconds; infinite where there is no bandwidth.
    // Inlined, as is what it calls: the lanes then stay in registers.
    #[inline(always)]
    fn times(&self, call: &Call, bandwidth: &Lanes) -> Lanes {
        let prepared = &self.functions[call.function as usize];
        let moving = prepared.moving(call.size.0, bandwidth);
        if call.pipelined != 1 || self.rare.avoids_ring {
            return self.times_of_many(call, &moving);
        }
        let mut times = [0.0; LANES];
        for i in 0..LANES {
            times[i] = prepared.latency[i] + moving[i];
        }
        times[RING + 2] = prepared.ring_latency(call.size.0) + moving[RING + 2];
        times
    }

    /// The same for several operations at once, or where rings are a last resort.
    #[cold]
    fn times_of_many(&self, call: &Call, moving: &Lanes) -> Lanes {
        let prepared = &self.functions[call.function as usize];
        let mut times = prepared.latency;
        times[RING + 2] = prepared.ring_latency(call.size.0);
        let other = call.pipelined.div_ceil(self.rare.pipelined) as f32;
        for (i, time) in times.iter_mut().enumerate() {
            let is_ring = (RING..RING + 3).contains(&i);
            *time = *time * if is_ring { call.pipelined as f32 } else { other } + moving[i];
            if is_ring && self.rare.avoids_ring {
                *time *= 1024.0;
            }
        }
        times
    }

    /// Channels and threads of a cell. Written so that sizes need no branch.
    #[inline(always)]
    fn blocks(&self, lane: usize, size: u64) -> (u32, u32) {
        let limit = &self.limits[lane];
        if limit.is_odd {
            return self.odd_blocks(lane, size);
        }
        // A quotient of more than 32 bits is more than any number of channels.
        let channels = size.min(u32::MAX.into()) as u32 / limit.block;
        let channels = channels.clamp(limit.least.into(), limit.channels.into());
        let halvings: u32 = limit.halvings.iter().map(|&h| u32::from(size < h.into())).sum();
        (channels, limit.helped(u32::from(limit.threads) >> halvings))
    }

    #[cold]
    fn odd_blocks(&self, lane: usize, size: u64) -> (u32, u32) {
        let limit = &self.limits[lane];
        let threshold = self.rare.thresholds[lane];
        let (mut channels, mut threads) = (u32::from(limit.channels), u32::from(limit.threads));
        if CELLS[lane].0 == Algo::CollNetDirect {
            return (self.collnet_direct_channels(channels, threads, threshold, size), threads);
        }
        while channels >= 2 && is_short(size, [channels, threads, threshold]) {
            channels -= 1;
        }
        if channels == 1 {
            while threads.is_multiple_of(128) && is_short(size, [1, threads, threshold]) {
                threads /= 2;
            }
        }
        (channels, limit.helped(threads))
    }

    fn collnet_direct_channels(
        &self,
        mut channels: u32,
        threads: u32,
        mut threshold: u32,
        size: u64,
    ) -> u32 {
        let heads = self.rare.heads;
        let mut step = 16;
        loop {
            let low = |channels: u32, threshold: u32| {
                is_short(size, [channels.wrapping_mul(threads), heads, threshold])
            };
            let mut is_low = low(channels, threshold);
            while is_low && channels > step {
                if channels == step + step / 2 {
                    threshold /= 2;
                }
                channels -= 1;
                is_low = low(channels, threshold);
            }
            step /= 2;
            if step < 1 || !is_low {
                return channels;
            }
        }
    }
}

/// Whether the size is less than a product.
///
/// NCCL multiplies 32-bit integers, and compares them with 64 unsigned bits.
fn is_short(size: u64, factors: [u32; 3]) -> bool {
    let product = factors[0].wrapping_mul(factors[1]).wrapping_mul(factors[2]);
    size < product.cast_signed() as u64
}

impl Limit {
    /// A block's threads with its helpers, and no fewer than NCCL ever starts.
    fn helped(&self, threads: u32) -> u32 {
        let threads = (threads + u32::from(self.helpers)).max(96);
        if self.fixed > 0 { self.fixed.into() } else { threads }
    }
}

impl Prepared {
    #[inline(always)]
    fn row(&self, size: u64) -> &'static Lanes {
        let class = (size / 64).checked_ilog2();
        &self.factors[class.map_or(self.smallest.into(), |k| k.min(24) as usize + 1)]
    }

    /// What the bytes take, by cell.
    #[inline(always)]
    fn moving(&self, size: u64, bandwidth: &Lanes) -> Lanes {
        let factors = self.row(size);
        // The least positive number stands for nothing: over no bandwidth it is infinite still.
        let bytes = if size == 0 { f32::from_bits(1) } else { size as f32 };
        let mut moving = [0.0; LANES];
        for i in 0..LANES {
            moving[i] = bytes / (1000.0 * (bandwidth[i] * factors[i]));
        }
        moving
    }

    /// The latency of the ring in Simple.
    #[inline(always)]
    fn ring_latency(&self, size: u64) -> f32 {
        if size >= self.plateau { self.plateau_latency } else { self.latency[RING + 2] }
    }

    /// The first of the fastest cells: four at a time, then the best of the four.
    #[inline(always)]
    fn least(&self, times: &Lanes) -> Option<(usize, f32)> {
        let mut best = [times[0], times[1], times[2], times[3]];
        let mut lanes = [0, 1, 2, 3_u32];
        for row in 1..LANES / 4 {
            for i in 0..4 {
                let (time, lane) = (times[4 * row + i], (4 * row + i) as u32);
                let is_less = time < best[i];
                best[i] = if is_less { time } else { best[i] };
                lanes[i] = if is_less { lane } else { lanes[i] };
            }
        }
        let pick = |a: usize, b: usize, best: &mut [f32; 4], lanes: &mut [u32; 4]| {
            let is_less = best[b] < best[a] || (best[b] == best[a] && lanes[b] < lanes[a]);
            best[a] = if is_less { best[b] } else { best[a] };
            lanes[a] = if is_less { lanes[b] } else { lanes[a] };
        };
        pick(0, 2, &mut best, &mut lanes);
        pick(1, 3, &mut best, &mut lanes);
        pick(0, 1, &mut best, &mut lanes);
        // The lane that fills up is never available.
        (best[0] < self.slowest).then_some((lanes[0] as usize % CELLS.len(), best[0]))
    }
}

/// What decides about cells beside the table.
struct Scope<'a> {
    comm: &'a Communicator,
    version: Version,
    element: Element,
    operation: Operation,
}

impl Scope<'_> {
    fn prepare(&self, function: Function, table: &Table) -> Prepared {
        let f = function as usize;
        let mut latency = [0.0; LANES];
        let mut bandwidth = [0.0; LANES];
        for (i, &(algo, proto)) in CELLS.iter().enumerate() {
            if self.may(function, algo) {
                latency[i] = table.latency[f][algo as usize][proto as usize];
                bandwidth[i] = table.bandwidth[f][algo as usize][proto as usize];
            }
        }
        let ring = latency[RING + 2];
        let longer = if self.comm.min_cc < 80 { 1.9 } else { 1.4 };
        let plateaus = function == Function::AllReduce && self.comm.nodes > 1;
        let comm = self.comm;
        let blackwell =
            self.version >= Version::V2_30 && comm.min_cc >= 100 && comm.arch == Arch::X86;
        Prepared {
            latency,
            bandwidth,
            plateau: 64 * u64::from(comm.channels) * u64::from(comm.ranks),
            plateau_latency: if plateaus { (f64::from(ring) * longer) as f32 } else { ring },
            slowest: constants::of(self.version).slowest,
            factors: &FACTORS[usize::from(blackwell)],
            // Old versions put less than 64 bytes into the first class of sizes.
            smallest: u8::from(!self.version.is_new()),
        }
    }

    /// Whether an algorithm is considered at all.
    fn may(&self, function: Function, algo: Algo) -> bool {
        let Communicator { nodes, collnet, local_ranks, nvls, .. } = *self.comm;
        let new = self.version.is_new();
        match algo {
            Algo::CollNetDirect => collnet && !(new && local_ranks > 8),
            Algo::CollNetChain => collnet && !(self.version >= Version::V2_30 && local_ranks > 8),
            Algo::Nvls | Algo::NvlsTree => {
                let able = self.nvls_reduces(function) && (nvls || self.version == Version::V2_18);
                let wide = new && function != Function::AllReduce && local_ranks > 32;
                let gathers = self.version == Version::V2_21 && function.gathers();
                let alone = algo == Algo::Nvls && nodes > 1 && (!collnet || gathers);
                able && !wide && !alone
            }
            Algo::Pat => {
                !(function == Function::ReduceScatter && self.operation == Operation::Scaled)
            }
            Algo::Tree | Algo::Ring => true,
        }
    }

    /// Whether the switch has the reduction.
    fn nvls_reduces(&self, function: Function) -> bool {
        match (self.element, self.operation) {
            _ if self.version.is_new() && function == Function::AllGather => true,
            (Element::Float, operation) => operation == Operation::Sum,
            (Element::Half | Element::Integer, operation) => {
                matches!(operation, Operation::Sum | Operation::MinMax)
            }
            (Element::Fp8 | Element::Byte, _) => false,
        }
    }

    fn limit(&self, algo: Algo, proto: Proto, table: &Table) -> Limit {
        let new = self.version.is_new();
        let nvls = matches!(algo, Algo::Nvls | Algo::NvlsTree);
        let Communicator { channels, nvls_channels, nodes, .. } = *self.comm;
        let channels = match self.version {
            Version::V2_30 if algo == Algo::Nvls && nodes > 1 => nvls_channels.min(channels),
            _ if nvls => nvls_channels,
            _ => channels,
        };
        let threads = table.threads(algo, proto);
        let threshold = table.thresholds[algo as usize][proto as usize];
        let block = u64::from(threads) * u64::from(threshold);
        let matters = !nvls && block > 0;
        let overflows = matters && block * u64::from(channels) > i32::MAX as u64;
        let block = if matters { block as u32 } else { 1 };
        let mut halvings = [0; 3];
        for (k, below) in halvings.iter_mut().enumerate() {
            if !matters || !(threads >> k).is_multiple_of(128) {
                break;
            }
            *below = block >> k;
        }
        Limit {
            block,
            channels: channels as u16,
            least: if matters { 1 } else { channels as u16 },
            threads: threads as u16,
            helpers: match (algo, proto) {
                (Algo::Ring, Proto::Simple) => 32,
                (Algo::Tree, Proto::Simple) => 128,
                _ => 0,
            },
            fixed: if new && matches!(algo, Algo::Tree | Algo::Pat) { 640 } else { 0 },
            halvings,
            is_odd: overflows || algo == Algo::CollNetDirect,
        }
    }
}
