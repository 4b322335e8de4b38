//! All cells of a function at once: their times, and the least of them.

use super::constants::TREE_FACTORS;
use super::{Algo, Proto};

/// Cells that can be available at all, in the order in which ties are broken, and one to fill up.
pub(super) const LANES: usize = 12;

/// The first of the ring's three.
pub(super) const RING: usize = 3;

/// Each lane's algorithm and protocol.
pub(super) const CELLS: [(Algo, Proto); 11] = [
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

pub(super) type Lanes = [f32; LANES];

/// One function's cells, with all that a decision needs, in two lines of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(128))]
pub(super) struct Prepared {
    pub latency: Lanes,
    /// 0 where the cell is not available: its time is then infinite.
    pub bandwidth: Lanes,
    /// From this size on the ring's latency in Simple is the next one.
    pub plateau: u64,
    pub plateau_latency: f32,
    /// Nothing slower than this is taken.
    pub slowest: f32,
    /// What trees reach, by size class; the first row is for less than 64 bytes.
    pub factors: &'static [Lanes; CLASSES],
    /// The row for less than 64 bytes.
    pub smallest: u8,
}

pub(super) const CLASSES: usize = 26;

/// Tree factors as lanes, without and with those of `NVLSTree`.
pub(super) static FACTORS: [[Lanes; CLASSES]; 2] = [factors(false), factors(true)];

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

impl Prepared {
    #[inline(always)]
    pub fn row(&self, size: u64) -> &'static Lanes {
        let class = (size / 64).checked_ilog2();
        &self.factors[class.map_or(self.smallest.into(), |k| k.min(24) as usize + 1)]
    }

    /// What the bytes take, by cell.
    #[inline(always)]
    pub fn moving(&self, size: u64, bandwidth: &Lanes) -> Lanes {
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
    pub fn ring_latency(&self, size: u64) -> f32 {
        if size >= self.plateau { self.plateau_latency } else { self.latency[RING + 2] }
    }

    /// The first of the fastest cells: the least time, four at a time, then who has it.
    #[inline(always)]
    pub fn least(&self, times: &Lanes) -> Option<(usize, f32)> {
        // Written so that it is one instruction each: no time is undefined.
        let min = |a: f32, b: f32| if a < b { a } else { b };
        let mut four = [times[0], times[1], times[2], times[3]];
        for row in 1..LANES / 4 {
            for i in 0..4 {
                four[i] = min(times[4 * row + i], four[i]);
            }
        }
        let least = min(min(four[0], four[2]), min(four[1], four[3]));
        let mut who = 0_u32;
        for (lane, &time) in times.iter().enumerate() {
            who |= u32::from(time == least) << lane;
        }
        // The lane that fills up is never available.
        (least < self.slowest).then_some((who.trailing_zeros() as usize % CELLS.len(), least))
    }
}
