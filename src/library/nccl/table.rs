//! The tuner's table: a latency and a bandwidth for every function, algorithm and protocol.

use std::sync::Arc;

use super::allowed::{has_code, has_protocols};
use super::communicator::Communicator;
use super::cost_model::CostModel;
use super::settings::Settings;
use super::tuner::Tuner;
use super::{Algo, Function, Gbps, Micros, Proto, Reduction, Version, since};
use crate::base::error::Result;

/// Latencies and bandwidths as NCCL prints them at start-up, and the threads of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub(super) latency: [[[f32; 3]; 7]; 5],
    pub(super) bandwidth: [[[f32; 3]; 7]; 5],
    pub(super) threads: [[i32; 3]; 7],
    /// Until 2.23 it keeps the rates of rings, in case nothing else is left.
    pub(super) backup: [[f32; 3]; 5],
    /// Bytes per thread, by algorithm and protocol, below which channels and threads are given up.
    pub(super) thresholds: [[u32; 3]; 7],
    /// The cost models that decide instead, since 2.31.
    pub(super) models: Option<Arc<CostModel>>,
}

const TREE: usize = Algo::Tree as usize;
const RING: usize = Algo::Ring as usize;
const LL: usize = Proto::Ll as usize;
const SIMPLE: usize = Proto::Simple as usize;

/// The rate of a first-generation x16 PCI link, in GB/s: rings that are not faster use small
/// blocks.
const PCI_BANDWIDTH: f32 = 12.0;

impl Table {
    /// The table of a communicator.
    ///
    /// # Errors
    /// Settings that this version refuses.
    pub fn new(comm: &Communicator, version: Version, settings: &Settings) -> Result<Self> {
        if version.has(since::COST_MODELS) {
            return CostModel::new(comm, version, settings, Reduction::default()).map(Self::of);
        }
        let mut table = Self {
            latency: [[[0.0; 3]; 7]; 5],
            bandwidth: [[[0.0; 3]; 7]; 5],
            threads: threads(comm, settings),
            backup: [[0.0; 3]; 5],
            thresholds: [[0; 3]; 7],
            models: None,
        };
        // A single rank has nothing to tune: its environment is not even read.
        if comm.ranks > 1 {
            let enabled = settings.enabled(version)?;
            let tuner = Tuner::new(comm, version, settings);
            for function in Function::ALL {
                tuner.fill(function, &mut table);
            }
            tuner.forbid(enabled, &mut table);
            table.thresholds = thresholds(comm.ranks, settings);
        }
        Ok(table)
    }

    /// The table that cost models print.
    fn of(models: CostModel) -> Self {
        let mut table = Self {
            latency: [[[0.0; 3]; 7]; 5],
            bandwidth: [[[0.0; 3]; 7]; 5],
            threads: [[0; 3]; 7],
            backup: [[0.0; 3]; 5],
            thresholds: models.thresholds,
            models: None,
        };
        for (f, function) in Function::ALL.into_iter().enumerate() {
            for (a, algo) in Algo::ALL.into_iter().enumerate() {
                for (p, proto) in Proto::ALL.into_iter().enumerate() {
                    let cell = models.cell(function, algo, proto);
                    table.latency[f][a][p] = cell.latency.0;
                    table.bandwidth[f][a][p] = cell.bandwidth.0;
                    table.threads[a][p] = models.threads(algo, proto).cast_signed();
                }
            }
        }
        table.models = Some(Arc::new(models));
        table
    }

    /// The cost models that decide since 2.31; `None` before.
    #[must_use]
    pub fn models(&self) -> Option<&CostModel> {
        self.models.as_deref()
    }

    /// Every cell of a version's table, in the order of its log.
    pub fn cells(version: Version) -> impl Iterator<Item = (Function, Algo, Proto)> {
        let algos = if version.has(since::PAT) { &Algo::ALL[..] } else { &Algo::ALL[..6] };
        Function::ALL.into_iter().flat_map(move |function| {
            let cells = algos.iter().flat_map(|&a| Proto::ALL.into_iter().map(move |p| (a, p)));
            cells.map(move |(algo, proto)| (function, algo, proto))
        })
    }

    /// Whether a version has the algorithm for the function in that protocol.
    pub(super) fn has_code(version: Version, function: Function, algo: Algo, proto: Proto) -> bool {
        has_code(version, function, algo) && (proto == Proto::Simple || has_protocols(algo))
    }

    /// The latency of a call before its first byte.
    #[must_use]
    pub fn latency(&self, function: Function, algo: Algo, proto: Proto) -> Micros {
        Micros(self.latency[function as usize][algo as usize][proto as usize])
    }

    /// Bytes of the largest buffer over time; 0 if the cell is not available.
    #[must_use]
    pub fn bandwidth(&self, function: Function, algo: Algo, proto: Proto) -> Gbps {
        Gbps(self.bandwidth[function as usize][algo as usize][proto as usize])
    }

    /// The most threads of a block; 0 if an algorithm has no such protocol.
    #[must_use]
    pub fn threads(&self, algo: Algo, proto: Proto) -> u32 {
        self.threads[algo as usize][proto as usize].unsigned_abs()
    }
}

fn threads(comm: &Communicator, settings: &Settings) -> [[i32; 3]; 7] {
    let ring_rate = comm.ring.intra.0 * comm.ring.channels as f32;
    let ring_simple = if ring_rate <= PCI_BANDWIDTH { 256 } else { 512 };
    let blocks = |default| settings.threads("NCCL_NTHREADS", 64, 512, default);
    let ll128 = settings.threads("NCCL_LL128_NTHREADS", 160, 640, 640);
    let mut threads = [[0; 3]; 7];
    threads[TREE] = [blocks(512), ll128, blocks(512)];
    threads[RING] = [blocks(512), ll128, blocks(ring_simple)];
    for algo in [Algo::CollNetDirect, Algo::CollNetChain, Algo::Nvls, Algo::NvlsTree] {
        threads[algo as usize][SIMPLE] = 640;
    }
    threads
}

/// Bytes per thread below which channels are given up.
pub(super) fn thresholds(ranks: u32, settings: &Settings) -> [[u32; 3]; 7] {
    let mut thresholds = [[8, 8, 64]; 7];
    thresholds[RING][LL] = ranks.wrapping_mul(8);
    for algo in [Algo::CollNetDirect, Algo::CollNetChain] {
        thresholds[algo as usize][SIMPLE] = 512;
    }
    for (i, set) in settings.thresholds().iter().enumerate() {
        if let Some(bytes) = set {
            thresholds[i / 3][i % 3] = *bytes;
        }
    }
    thresholds
}
