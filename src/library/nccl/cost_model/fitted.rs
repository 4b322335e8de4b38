//! Parameters fitted to measurements on GPUs from Blackwell on, kernel by kernel.
//!
//! Rates are in GB/s, which is 1000 bytes per microsecond; latencies are in microseconds.

use super::super::{Operation, Reduction, Version, since};
use super::Kernel;
use super::symmetric::GRAIN;

/// The amount of data that a call moves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub ranks: u32,
    /// A rank's part if the call gathers.
    pub bytes: u64,
}

/// The parameters of one kernel on one kind of GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    kernel: Kernel,
    gpu: Gpu,
    row: Row,
}

/// The GPUs for which rows exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gpu {
    B200,
    B300,
    Rubin,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    base: f64,
    /// Latency of each further rank.
    rank: f64,
    /// A block's rate for whole chunks.
    block: f64,
    /// For single rows of a chunk; 0: the same as for whole chunks.
    small: f64,
    /// For the remaining elements; 0: the same as for whole chunks.
    scalar: f64,
    /// A block's rate of packing flags; 0: none are packed.
    pack: f64,
    /// The fabric's rate.
    peak: f64,
    /// The fabric's rate with fewer blocks than ranks; 0: the same.
    sparse: f64,
    /// The fraction of a block's rate with 8 and with 32 blocks, if the rate falls.
    sag: (f64, f64),
    /// The number of blocks from which on latency and data overlap less.
    overlap: f64,
}

const NOTHING: Row = Row {
    base: 0.0,
    rank: 0.0,
    block: 0.0,
    small: 0.0,
    scalar: 0.0,
    pack: 0.0,
    peak: 0.0,
    sparse: 0.0,
    sag: (1.0, 1.0),
    overlap: 0.0,
};

/// Base, rank, block, peak.
const fn plain([base, rank, block, peak]: [f64; 4]) -> Row {
    Row { base, rank, block, peak, ..NOTHING }
}

/// Base, rank, block, pack, peak.
const fn flagged([base, rank, block, pack, peak]: [f64; 5]) -> Row {
    Row { pack, ..plain([base, rank, block, peak]) }
}

/// Base, rank, peak; block, small, scalar.
const fn reduced([base, rank, peak]: [f64; 3], [block, small, scalar]: [f64; 3]) -> Row {
    Row { small, scalar, ..plain([base, rank, block, peak]) }
}

/// Element types whose sums have separate rows.
#[derive(Clone, Copy)]
enum Summed {
    Half,
    Fp8,
    Other,
}

impl Fit {
    /// The row of a kernel, if there is one.
    pub fn of(kernel: Kernel, cc: u32, reduction: Reduction, version: Version) -> Option<Self> {
        let reduces = version.has(since::FITTED_REDUCTIONS);
        let gpu = match cc {
            _ if !version.has(since::FITTED_KERNELS) => return None,
            100 => Gpu::B200,
            103 => Gpu::B300,
            107..120 if reduces => Gpu::Rubin,
            _ => return None,
        };
        let summed = match reduction.operation {
            Operation::Sum if reduction.is_half() => Summed::Half,
            Operation::Sum if reduction.element.is_fp8() => Summed::Fp8,
            _ => Summed::Other,
        };
        let row = match gpu {
            Gpu::Rubin => on_rubin(kernel, summed)?,
            Gpu::B200 => on_blackwell(kernel)?,
            Gpu::B300 if reduces && kernel == Kernel::AllGatherLlMc => {
                Row { rank: 0.0439, ..on_blackwell(kernel)? }
            }
            Gpu::B300 if version.has(since::SPARSE_BLOCKS) && kernel == Kernel::AllGatherTma => {
                Row { sparse: 585.7896, ..on_blackwell(kernel)? }
            }
            Gpu::B300 => {
                on_blackwell(kernel).or_else(|| on_b300(kernel, summed).filter(|_| reduces))?
            }
        };
        Some(Self { kernel, gpu, row })
    }

    /// The cost of a block when kernels are compared, as a fraction of the time.
    pub fn charge(&self) -> f32 {
        let gathers = matches!(self.kernel as usize, 5..12);
        if self.gpu == Gpu::Rubin && !gathers { 0.01 } else { 0.02 }
    }

    /// The estimate with this many blocks, in microseconds.
    pub fn time(&self, load: &Load, blocks: u32) -> f64 {
        use Kernel::{
            AllGatherLl, AllGatherLlMc, AllReduceLd, AllReduceTma, ReduceScatterLd,
            ReduceScatterTma,
        };
        let row = &self.row;
        let ranks = f64::from(load.ranks);
        let bytes = load.bytes as f64;
        let active = active_blocks(load.bytes, blocks);
        let (copies, crossings) = self.copies(ranks);
        let (peak, stall) = self.fabric(load.ranks, active);
        let efficiency = if self.by_switch() { (ranks - 1.0) / ranks } else { 1.0 };
        let scaled = f64::from(active) * self.scale(load.ranks, active);
        let packing = if row.pack > 0.0 { bytes / (scaled * row.pack * 1000.0) } else { 0.0 };
        let crossing = crossings * bytes / (peak * efficiency * 1000.0);
        let copying = |part: f64, rate: f64| copies * part / (scaled * rate * 1000.0);
        let work = match self.kernel {
            AllGatherLl if self.gpu == Gpu::Rubin => {
                packing + copying(bytes, row.block).max(crossing)
            }
            ReduceScatterTma | ReduceScatterLd | AllReduceTma | AllReduceLd => {
                self.in_chunks(load, active, packing, crossing, copying)
            }
            _ => (packing + copying(bytes, row.block)).max(crossing),
        };
        let hops = (ranks - 1.0) * row.rank;
        if self.kernel == AllGatherLlMc {
            let overlap = (row.overlap / f64::from(active)).min(1.0);
            return row.base + hops.max(work) + (1.0 - overlap) * hops.min(work);
        }
        row.base + hops + stall + work
    }

    /// Whole chunks, single rows and the remaining elements have separate rates.
    fn in_chunks(
        &self,
        load: &Load,
        active: u32,
        packing: f64,
        crossing: f64,
        copying: impl Fn(f64, f64) -> f64,
    ) -> f64 {
        const ROW: u64 = 2048;
        let Row { block, small, scalar, .. } = self.row;
        let group = u64::from(load.ranks) * u64::from(active);
        let chunk = group * if self.kernel.is_tma() { 16384 } else { 8192 };
        let full = load.bytes / chunk * chunk;
        let rows = (load.bytes - full) / (group * ROW) * (group * ROW);
        let ends = load.bytes - full - rows;
        let part = |bytes: u64, rate: f64| {
            if bytes == 0 {
                return 0.0;
            }
            let share = bytes as f64 / load.bytes as f64;
            let rate = if rate > 0.0 { rate } else { block };
            (packing * share + copying(bytes as f64, rate)).max(crossing * share)
        };
        part(full, block) + part(rows, small) + part(ends, scalar)
    }

    /// Whether the switch multicasts or reduces.
    fn by_switch(&self) -> bool {
        self.kernel.stores_multicast() || self.kernel.loads_multicast()
    }

    /// How often a block handles the bytes, and how often they cross the fabric.
    fn copies(&self, ranks: f64) -> (f64, f64) {
        match self.kernel {
            Kernel::AllReduceLdMc => (2.0 / ranks, 2.0 * (ranks - 1.0) / ranks),
            Kernel::AllReduceTma | Kernel::AllReduceLd => (2.0, 2.0 * (ranks - 1.0) / ranks),
            Kernel::AllGatherTmaMc | Kernel::AllGatherStMc | Kernel::ReduceScatterLdMc => {
                (1.0, ranks - 1.0)
            }
            _ => (ranks, ranks - 1.0),
        }
    }

    /// The fabric's rate, and the loss when blocks interfere with each other.
    fn fabric(&self, ranks: u32, active: u32) -> (f64, f64) {
        let Row { peak, sparse, .. } = self.row;
        let peak = if sparse > 0.0 && active < ranks { peak.min(sparse) } else { peak };
        let trough = self.kernel == Kernel::AllGatherTma
            && self.gpu == Gpu::B300
            && active >= 14
            && active % 4 == 2;
        if trough { (peak.min(639.6826), 12.1475) } else { (peak, 0.0) }
    }

    /// How a block's rate depends on the number of blocks.
    fn scale(&self, ranks: u32, active: u32) -> f64 {
        match self.kernel {
            Kernel::AllGatherTmaMc if active == 1 => 1.1445,
            Kernel::AllGatherLl if ranks > 4 && active > 4 && active < 64 => {
                let (eight, thirty_two) = self.row.sag;
                let points = [(2.0, 1.0), (3.0, eight), (5.0, thirty_two), (6.0, 1.0)];
                let at = f64::from(active).log2();
                let line = points.windows(2).find(|pair| at <= pair[1].0);
                line.map_or(1.0, |pair| {
                    let (from, to) = (pair[0], pair[1]);
                    from.1 + (to.1 - from.1) * (at - from.0) / (to.0 - from.0)
                })
            }
            _ => 1.0,
        }
    }
}

/// Blocks that have something to do.
pub(super) fn active_blocks(bytes: u64, blocks: u32) -> u32 {
    let cells = bytes.div_ceil(GRAIN).max(1);
    let each = cells.div_ceil(u64::from(blocks));
    u32::try_from(cells.div_ceil(each)).unwrap_or(blocks)
}

fn on_blackwell(kernel: Kernel) -> Option<Row> {
    Some(match kernel {
        Kernel::AllGatherLl => {
            Row { sag: (0.99, 0.69), ..flagged([7.1084, 0.1065, 15.87, 2.32, 250.0]) }
        }
        Kernel::AllGatherLlMc => {
            Row { overlap: 3.3805, ..flagged([7.4229, 0.1030, 27.46, 2.1932, 316.0699]) }
        }
        Kernel::AllGatherTma => plain([10.0618, 0.0679, 64.1577, 671.6052]),
        Kernel::AllGatherSt => plain([10.5902, 0.0563, 64.481, 650.4378]),
        Kernel::AllGatherTmaMc => plain([8.2723, 0.0623, 51.55, 715.1451]),
        Kernel::AllGatherStMc => plain([8.3313, 0.0561, 50.83, 715.1451]),
        _ => return None,
    })
}

fn on_b300(kernel: Kernel, summed: Summed) -> Option<Row> {
    Some(match (kernel, summed) {
        (Kernel::ReduceScatterLl, _) => flagged([10.5737, 0.0129, 8.6531, 2.1255, 248.9148]),
        (Kernel::ReduceScatterTma, _) => reduced(
            [5.9025, 0.2089, 640.7738],
            match summed {
                Summed::Other => [46.7794, 9.5412, 7.3964],
                Summed::Half => [41.1659, 7.3839, 3.662],
                Summed::Fp8 => [24.6948, 6.5968, 0.4053],
            },
        ),
        (Kernel::ReduceScatterLd, Summed::Other) => {
            reduced([9.6736, 0.2801, 660.0], [26.0, 12.3392, 7.3964])
        }
        (Kernel::ReduceScatterLd, Summed::Half) => {
            reduced([8.4739, 0.2096, 660.0], [16.9749, 9.5826, 4.0022])
        }
        (Kernel::ReduceScatterLd, Summed::Fp8) => {
            reduced([8.4739, 0.2096, 660.0], [15.8819, 9.3889, 1.9578])
        }
        (Kernel::ReduceScatterLdMc, _) => plain([10.9124, 0.0736, 24.5386, 750.1525]),
        _ => return None,
    })
}

fn on_rubin(kernel: Kernel, summed: Summed) -> Option<Row> {
    Some(match kernel {
        Kernel::AllGatherLl => Row { sag: (0.88, 0.60), ..flagged([7.9, 0.29, 18.05, 1.5, 380.0]) },
        Kernel::AllGatherLlMc => {
            Row { overlap: 1.52, ..flagged([8.02, 0.24, 26.63, 1.55, 497.24]) }
        }
        Kernel::AllGatherTma => plain([22.6, 0.30, 73.98, 1170.0]),
        Kernel::AllGatherSt => plain([16.59, 0.31, 74.1, 1000.0]),
        Kernel::AllGatherTmaMc => plain([19.51, 0.19, 61.09, 1237.49]),
        Kernel::AllGatherStMc => plain([16.14, 0.22, 61.21, 1100.15]),
        Kernel::ReduceScatterLl => flagged([10.1682, 0.1318, 8.6659, 1.5849, 378.2311]),
        Kernel::ReduceScatterTma => reduced(
            [13.2601, 0.8953, 1004.8552],
            match summed {
                Summed::Other => [33.9867, 7.7706, 7.4807],
                Summed::Half => [37.2708, 5.9251, 3.0701],
                Summed::Fp8 => [23.46, 5.6772, 0.3082],
            },
        ),
        Kernel::ReduceScatterLd => reduced(
            [13.275, 1.0829, 692.0016],
            match summed {
                Summed::Other => [17.9128, 9.463, 5.6894],
                Summed::Half => [10.6581, 7.3404, 2.9289],
                Summed::Fp8 => [10.1315, 7.1995, 1.3376],
            },
        ),
        Kernel::ReduceScatterLdMc => plain([11.7527, 0.2263, 15.1821, 1134.4294]),
        Kernel::AllReduceLl => flagged([3.0728, 0.0756, 25.0188, 1.6689, 346.3975]),
        Kernel::AllReduceLlMc => flagged([3.1691, 0.0654, 63.6576, 1.6267, 520.2188]),
        Kernel::AllReduceTma => reduced([11.2029, 0.3742, 908.8153], [63.1928, 10.8361, 8.44]),
        Kernel::AllReduceLd => reduced([10.68, 0.4016, 813.3217], [35.4584, 7.2951, 6.8343]),
        Kernel::AllReduceLdMc => plain([12.0209, 0.0, 35.7418, 1631.0837]),
        _ => return None,
    })
}
