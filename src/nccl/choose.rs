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
#[derive(Debug, Clone)]
pub struct Chooser {
    functions: [Prepared; 5],
    limits: [Limit; CELLS.len()],
    /// What rings would carry where nothing else is left, by function; 2.21.5 alone has it.
    backup: [[f32; 3]; 5],
    /// What a single rank gets without a look at the table.
    alone: Option<Decision>,
    heads: u32,
}

/// One function's cells, with all that a decision needs in two lines of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
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
    /// Operations of a group for which all but rings pay their latency once.
    pipelined: u8,
    /// The row for less than 64 bytes.
    smallest: u8,
    /// Whether a time of the ring counts 1024 times.
    avoids_ring: bool,
    /// Whether there is a single rank.
    alone: bool,
}

/// How a cell's channels and threads fall with the size.
#[derive(Debug, Clone, Copy)]
struct Limit {
    channels: u32,
    /// Bytes a thread below which channels are given up; 0: never.
    threshold: u32,
    threads: u16,
    /// Threads that a block gets on top.
    helpers: u16,
    /// Threads whatever the size; 0: none.
    fixed: u16,
    /// Whether no product of the three overflows.
    is_exact: bool,
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
        Self {
            functions: Function::ALL.map(|f| scope.prepare(f, table)),
            limits: CELLS.map(|(algo, proto)| scope.limit(algo, proto, table)),
            backup: table.backup,
            alone,
            heads: comm.collnet_heads,
        }
    }

    /// What NCCL takes; none where nothing is available, which is an error there.
    #[must_use]
    pub fn decide(&self, call: &Call) -> Option<Decision> {
        let prepared = &self.functions[call.function as usize];
        if prepared.alone {
            return self.alone;
        }
        let best = prepared.least(&prepared.times(call, &prepared.bandwidth));
        let (lane, time) = best.or_else(|| self.last_resort(call))?;
        let (algo, proto) = CELLS[lane];
        let (channels, threads) = self.blocks(lane, call.size.0);
        Some(Decision { algo, proto, channels, threads, time: Some(Micros(time)) })
    }

    /// Whether a cell takes part in the choice.
    #[must_use]
    pub fn considers(&self, function: Function, algo: Algo, proto: Proto) -> bool {
        if let Some(alone) = self.alone {
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
        if let Some(d) = self.alone {
            return vec![(d.algo, d.proto, d.time.unwrap_or_default())];
        }
        let prepared = &self.functions[call.function as usize];
        let times = prepared.times(call, &prepared.bandwidth);
        let available = CELLS.iter().zip(times).filter(|&(_, t)| t < prepared.slowest);
        let mut ranked: Vec<_> = available.map(|(&(a, p), t)| (a, p, Micros(t))).collect();
        ranked.sort_by(|a, b| a.2.0.total_cmp(&b.2.0));
        ranked
    }

    /// The rings that 2.21.5 falls back to, whatever forbids them.
    #[cold]
    fn last_resort(&self, call: &Call) -> Option<(usize, f32)> {
        let mut rings = [0.0; LANES];
        rings[RING..RING + 3].copy_from_slice(&self.backup[call.function as usize]);
        let prepared = &self.functions[call.function as usize];
        prepared.least(&prepared.times(call, &rings))
    }

    /// Channels and threads of a cell.
    fn blocks(&self, lane: usize, size: u64) -> (u32, u32) {
        let limit = &self.limits[lane];
        let (mut channels, mut threads) = (limit.channels, u32::from(limit.threads));
        if CELLS[lane].0 == Algo::CollNetDirect {
            channels = self.collnet_direct_channels(limit, size);
        } else if limit.threshold > 0 {
            if limit.is_exact {
                let block = u64::from(threads * limit.threshold);
                if size < block * u64::from(channels) {
                    channels = ((size / block) as u32).max(1);
                }
            } else {
                while channels >= 2 && limit.is_short(size, channels, threads) {
                    channels -= 1;
                }
            }
            if channels == 1 {
                while threads % 128 == 0 && limit.is_short(size, 1, threads) {
                    threads /= 2;
                }
            }
        }
        threads += u32::from(limit.helpers);
        if threads < 96 {
            threads = 96;
        }
        (channels, if limit.fixed > 0 { limit.fixed.into() } else { threads })
    }

    fn collnet_direct_channels(&self, limit: &Limit, size: u64) -> u32 {
        let (mut channels, mut threshold) = (limit.channels as i32, limit.threshold as i32);
        let mut step = 16;
        loop {
            let low = |channels: i32, threshold: i32| {
                let product = channels
                    .wrapping_mul(limit.threads.into())
                    .wrapping_mul(self.heads as i32)
                    .wrapping_mul(threshold);
                size < product as u64
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
                return channels.unsigned_abs();
            }
        }
    }
}

impl Limit {
    /// Whether the size has less than the threshold for each thread.
    ///
    /// NCCL multiplies 32-bit integers, and compares them with 64 unsigned bits.
    fn is_short(&self, size: u64, channels: u32, threads: u32) -> bool {
        let product = channels.wrapping_mul(threads).wrapping_mul(self.threshold);
        size < product.cast_signed() as u64
    }
}

impl Prepared {
    fn row(&self, size: u64) -> &'static Lanes {
        let class = (size / 64).checked_ilog2();
        &self.factors[class.map_or(self.smallest.into(), |k| k.min(24) as usize + 1)]
    }

    /// Every cell's time in microseconds; infinite where there is no bandwidth.
    fn times(&self, call: &Call, bandwidth: &Lanes) -> Lanes {
        let size = call.size.0;
        let factors = self.row(size);
        let mut latency = self.latency;
        if size >= self.plateau {
            latency[RING + 2] = self.plateau_latency;
        }
        if call.pipelined != 1 {
            let other = call.pipelined.div_ceil(self.pipelined.into()) as f32;
            for (i, latency) in latency.iter_mut().enumerate() {
                let is_ring = (RING..RING + 3).contains(&i);
                *latency *= if is_ring { call.pipelined as f32 } else { other };
            }
        }
        // The least positive number stands for nothing: over no bandwidth it is infinite still.
        let bytes = if size == 0 { f32::from_bits(1) } else { size as f32 };
        let mut times = [0.0; LANES];
        for i in 0..LANES {
            times[i] = latency[i] + bytes / (1000.0 * (bandwidth[i] * factors[i]));
        }
        if self.avoids_ring {
            for time in &mut times[RING..RING + 3] {
                *time *= 1024.0;
            }
        }
        times
    }

    /// The first of the fastest cells. Written so that it needs no branch a cell.
    fn least(&self, times: &Lanes) -> Option<(usize, f32)> {
        let mut fours = [times[0], times[1], times[2], times[3]];
        for (i, &time) in times[4..].iter().enumerate() {
            let least = &mut fours[i % 4];
            *least = if time < *least { time } else { *least };
        }
        let least = fours.into_iter().fold(self.slowest, |a, b| if b < a { b } else { a });
        let equal = |i: usize| u32::from(times[i] == least) << i;
        let lane = (0..LANES).map(equal).fold(0, |a, b| a | b).trailing_zeros() as usize;
        (least < self.slowest && lane < CELLS.len()).then_some((lane, least))
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
        let constants = constants::of(self.version);
        Prepared {
            latency,
            bandwidth,
            plateau: 64 * u64::from(comm.channels) * u64::from(comm.ranks),
            plateau_latency: if plateaus { (f64::from(ring) * longer) as f32 } else { ring },
            slowest: constants.slowest,
            factors: &FACTORS[usize::from(blackwell)],
            pipelined: constants.pipelined,
            // Old versions put less than 64 bytes into the first class of sizes.
            smallest: u8::from(!self.version.is_new()),
            alone: comm.ranks == 1,
            avoids_ring: self.version.is_new()
                && self.element == Element::Fp8
                && self.comm.ranks > 8,
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
        let threshold = if nvls { 0 } else { table.thresholds[algo as usize][proto as usize] };
        let most = u64::from(channels) * u64::from(threads) * u64::from(threshold);
        Limit {
            channels,
            threshold: if threads == 0 { 0 } else { threshold },
            threads: threads as u16,
            helpers: match (algo, proto) {
                (Algo::Ring, Proto::Simple) => 32,
                (Algo::Tree, Proto::Simple) => 128,
                _ => 0,
            },
            fixed: if new && matches!(algo, Algo::Tree | Algo::Pat) { 640 } else { 0 },
            is_exact: most <= i32::MAX as u64,
        }
    }
}
