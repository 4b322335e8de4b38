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

/// Spans of sizes: quarters of the powers of two from 64 bytes to 128 GiB, and all other sizes.
const SPANS: usize = 128;

/// Stands for no cell: the fastest changes within the span.
const MIXED: u8 = LANES as u8;

/// How far two times must be apart to be surely in the order of their exact values: a time is
/// rounded five times, each by 6·10⁻⁸ at most.
const ROUNDED: f64 = 1e-6;

/// One function's cells, with all that a decision needs.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Prepared {
    /// The cell that is the fastest at every size of a span, or [`MIXED`].
    winners: [u8; SPANS],
    /// From this size on the ring's latency in Simple is the next one.
    pub plateau: u64,
    plateau_latency: f32,
    /// Nothing slower than this is taken.
    pub slowest: f32,
    /// What trees reach, by size class; the first row is for less than 64 bytes.
    factors: &'static [Lanes; CLASSES],
    /// The row for less than 64 bytes.
    smallest: u8,
    pub latency: Lanes,
    /// 0 where the cell is not available: its time is then infinite.
    pub bandwidth: Lanes,
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

/// The span that a size lies in.
#[inline(always)]
fn span_of(size: u64) -> usize {
    let Some(log) = size.checked_ilog2().filter(|log| (6..37).contains(log)) else {
        return SPANS - 1;
    };
    // The two bits behind the highest count quarters.
    (log as usize - 6) * 4 + (size >> (log - 2)) as usize % 4
}

/// The least size of a span.
const fn start_of(span: usize) -> u64 {
    (4 + span as u64 % 4) << (4 + span / 4)
}

/// How the cells of a function differ: what [`Prepared`] is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells {
    pub latency: Lanes,
    /// 0 where the cell is not available.
    pub bandwidth: Lanes,
    /// The size from which the ring's latency in Simple is `plateau_latency`.
    pub plateau: u64,
    pub plateau_latency: f32,
    /// No cell that takes longer is chosen.
    pub slowest: f32,
    /// Whether `NVLSTree` has factors too.
    pub nvls_tree: bool,
    /// The row of factors for less than 64 bytes.
    pub smallest: u8,
    /// Whether times are those of the table, whatever else the communicator does.
    pub is_plain: bool,
}

impl Prepared {
    /// Finds the winner of each class of sizes.
    pub fn new(cells: Cells) -> Self {
        let Cells { latency, bandwidth, plateau, plateau_latency, slowest, .. } = cells;
        let mut prepared = Self {
            winners: [MIXED; SPANS],
            plateau,
            plateau_latency,
            slowest,
            factors: &FACTORS[usize::from(cells.nvls_tree)],
            smallest: cells.smallest,
            latency,
            bandwidth,
        };
        if cells.is_plain {
            for span in 0..SPANS - 1 {
                prepared.winners[span] = prepared.winner(span).unwrap_or(MIXED);
            }
        }
        prepared
    }

    /// The cell that is surely the fastest at every size of a span.
    ///
    /// Within a span times are straight lines over the size, so both ends decide.
    fn winner(&self, span: usize) -> Option<u8> {
        let (first, end) = (start_of(span), start_of(span + 1));
        if (first..end).contains(&self.plateau) && first != self.plateau {
            return None;
        }
        let row = self.row(first);
        let time = |lane: usize, size: u64| {
            let ring = lane == RING + 2;
            let latency = if ring { self.ring_latency(first) } else { self.latency[lane] };
            let rate = 1000.0 * f64::from(self.bandwidth[lane]) * f64::from(row[lane]);
            f64::from(latency) + size as f64 / rate
        };
        let times = |size: u64| std::array::from_fn::<f64, LANES, _>(|lane| time(lane, size));
        let ends = [times(first), times(end)];
        let lane = (0..CELLS.len()).min_by(|&a, &b| ends[0][a].total_cmp(&ends[0][b]))?;
        let is_surely = |a: f64, b: f64| a * (1.0 + ROUNDED) < b * (1.0 - ROUNDED);
        let wins = ends.iter().all(|times| {
            let others = times.iter().enumerate().filter(|&(other, _)| other != lane);
            is_surely(times[lane], self.slowest.into())
                && others.into_iter().all(|(_, &other)| is_surely(times[lane], other))
        });
        wins.then_some(lane as u8)
    }

    /// The fastest cell and its time, where the size alone says which.
    #[inline(always)]
    pub fn known(&self, size: u64) -> Option<(usize, f32)> {
        let lane = usize::from(self.winners[span_of(size)]);
        if lane >= CELLS.len() {
            return None;
        }
        let latency = if lane == RING + 2 { self.ring_latency(size) } else { self.latency[lane] };
        let moving = size as f32 / (1000.0 * (self.bandwidth[lane] * self.row(size)[lane]));
        Some((lane, latency + moving))
    }

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
