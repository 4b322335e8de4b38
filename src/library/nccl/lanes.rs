//! All cells of a function at once: their times, and the lowest of them.

use std::sync::atomic::{AtomicU8, Ordering};

use super::constants::TREE_FACTORS;
use super::{Algo, Proto};

/// The cells that can be available at all, in the order in which ties are broken, and one for
/// padding.
pub(super) const LANES: usize = 12;

/// The first of the ring's three lanes.
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

/// Not looked at yet.
const UNKNOWN: u8 = 0;

/// No single cell: the fastest one changes within the span.
const MIXED: u8 = 15;

/// The cell that is the fastest at every size of a span, plus one, or [`MIXED`] or [`UNKNOWN`];
/// four bits each, so that all of them are one line of memory.
///
/// A span is looked at when the first call of its sizes is decided: one question costs no more than
/// without, and of many the later ones are faster. Whoever looks finds the same.
#[derive(Debug)]
#[repr(align(64))]
struct Winners([AtomicU8; SPANS / 2]);

impl Winners {
    /// The same for all; no cell is ever known for sizes outside all spans.
    fn all(winner: u8) -> Self {
        let both = winner | winner << 4;
        let winners = Self(std::array::from_fn(|_| AtomicU8::new(both)));
        winners.keep(SPANS - 1, MIXED);
        winners
    }

    #[inline(always)]
    fn of(&self, span: usize) -> u8 {
        self.0[span / 2].load(Ordering::Relaxed) >> (span % 2 * 4) & 15
    }

    /// Keeps the winner of a span that is still [`UNKNOWN`], or the same again.
    fn keep(&self, span: usize, winner: u8) {
        self.0[span / 2].fetch_or(winner << (span % 2 * 4), Ordering::Relaxed);
    }
}

impl Clone for Winners {
    fn clone(&self) -> Self {
        Self(std::array::from_fn(|two| AtomicU8::new(self.0[two].load(Ordering::Relaxed))))
    }
}

/// The factor by which two times must differ so that their exact values certainly have the same
/// order: a time is rounded five times, each time by 6·10⁻⁸ at most.
const ROUNDED: f32 = 1.000_002;

/// How many cells lie in the first line of a function's numbers: those of trees and rings.
const NEAR: usize = LANES / 2;

/// One function's cells, with all the data of a decision but a cell's limit.
///
/// Decisions about many communicators mostly wait for memory. Where the size alone determines the
/// cell, one reads the line of the winners, a line of numbers and, at the communicator, that of the
/// limit. All of it is small, so that many communicators stay in the cache.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Prepared {
    winners: Winners,
    /// From this size on the ring's latency in Simple is the next one.
    pub plateau: u64,
    plateau_latency: f32,
    /// Whether `NVLSTree` has factors too.
    nvls_tree: bool,
    /// The row of factors for less than 64 bytes.
    smallest: u8,
    /// Six latencies, six bandwidths, and the same of the other cells. A bandwidth is 0 if the cell
    /// is not available: its time is then infinite.
    numbers: [f32; 2 * LANES],
    /// No cell that takes longer is chosen.
    pub slowest: f32,
}

pub(super) const CLASSES: usize = 26;

/// Tree factors as lanes, without and with those of `NVLSTree`.
pub(super) static FACTORS: [[Lanes; CLASSES]; 2] = [factors(false), factors(true)];

const fn factors(nvls_tree: bool) -> [Lanes; CLASSES] {
    let mut rows = [[1.0; LANES]; CLASSES];
    let mut class = 0;
    while class < 24 {
        // The tree does not have the last class.
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

/// Where a cell's latency is among the numbers.
#[inline(always)]
const fn place(lane: usize) -> usize {
    if lane < NEAR { lane } else { lane + NEAR }
}

/// The span that contains a size.
#[inline(always)]
fn span_of(size: u64) -> usize {
    let Some(log) = size.checked_ilog2().filter(|log| (6..37).contains(log)) else {
        return SPANS - 1;
    };
    // The two bits after the highest one count quarters.
    (log as usize - 6) * 4 + (size >> (log - 2)) as usize % 4
}

/// The least size of a span.
const fn start_of(span: usize) -> u64 {
    (4 + span as u64 % 4) << (4 + span / 4)
}

/// The input of [`Prepared`]: how the cells of a function differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells {
    pub latency: Lanes,
    /// 0 if the cell is not available.
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
    /// Whether a call's size alone determines its cell: times are those of the table.
    pub is_plain: bool,
}

impl Prepared {
    pub fn new(cells: Cells) -> Self {
        let mut numbers = [0.0; 2 * LANES];
        for lane in 0..LANES {
            numbers[place(lane)] = cells.latency[lane];
            numbers[place(lane) + NEAR] = cells.bandwidth[lane];
        }
        Self {
            winners: Winners::all(if cells.is_plain { UNKNOWN } else { MIXED }),
            plateau: cells.plateau,
            plateau_latency: cells.plateau_latency,
            nvls_tree: cells.nvls_tree,
            smallest: cells.smallest,
            numbers,
            slowest: cells.slowest,
        }
    }

    /// Each cell's latency.
    #[inline(always)]
    pub fn latencies(&self) -> Lanes {
        std::array::from_fn(|lane| self.numbers[place(lane)])
    }

    /// Each cell's bandwidth, 0 if it is not available.
    #[inline(always)]
    pub fn bandwidths(&self) -> Lanes {
        std::array::from_fn(|lane| self.numbers[place(lane) + NEAR])
    }

    /// The fastest cell and its time, if the size alone determines it.
    #[inline(always)]
    pub fn known(&self, size: u64) -> Option<(usize, f32)> {
        let span = span_of(size);
        let mut winner = self.winners.of(span);
        if winner == UNKNOWN {
            winner = self.look(span);
        }
        let lane = usize::from(winner) - 1;
        if lane >= CELLS.len() {
            return None;
        }
        let at = place(lane);
        let latency = if lane == RING + 2 { self.ring_latency(size) } else { self.numbers[at] };
        let moving = size as f32 / (1000.0 * (self.numbers[at + NEAR] * self.row(size)[lane]));
        Some((lane, latency + moving))
    }

    /// Looks for the winner of a span, and keeps it.
    #[cold]
    #[inline(never)]
    fn look(&self, span: usize) -> u8 {
        let winner = self.winner(span).map_or(MIXED, |lane| lane as u8 + 1);
        self.winners.keep(span, winner);
        winner
    }

    /// The cell that is certainly the fastest at every size of a span.
    ///
    /// In an octave times are linear in the size, so both ends decide.
    fn winner(&self, span: usize) -> Option<usize> {
        let (first, last) = (start_of(span), start_of(span + 1) - 1);
        if (first + 1..=last).contains(&self.plateau) {
            return None;
        }
        let [at_first, at_last] = [first, last].map(|size| {
            let times = self.times(size, &self.bandwidths());
            let (lane, least) = self.least(&times)?;
            let near = least * ROUNDED;
            let is_alone = times.iter().filter(|&&time| time <= near).count() == 1;
            (is_alone && near < self.slowest).then_some(lane)
        });
        at_first.filter(|_| at_first == at_last)
    }

    /// Each cell's fraction of its bandwidth at a size.
    #[inline(always)]
    pub fn row(&self, size: u64) -> &'static Lanes {
        let class = (size / 64).checked_ilog2();
        let row = class.map_or(self.smallest.into(), |k| k.min(24) as usize + 1);
        &FACTORS[usize::from(self.nvls_tree)][row]
    }

    /// The time of the bytes, by cell.
    #[inline(always)]
    pub fn moving(&self, size: u64, bandwidth: &Lanes) -> Lanes {
        let factors = self.row(size);
        // The smallest positive number replaces 0: over no bandwidth it is still infinite.
        let bytes = if size == 0 { f32::from_bits(1) } else { size as f32 };
        let mut moving = [0.0; LANES];
        for i in 0..LANES {
            moving[i] = bytes / (1000.0 * (bandwidth[i] * factors[i]));
        }
        moving
    }

    /// Every cell's time in microseconds; infinite if it has no bandwidth.
    #[inline(always)]
    pub fn times(&self, size: u64, bandwidth: &Lanes) -> Lanes {
        let moving = self.moving(size, bandwidth);
        let mut times = self.latencies();
        for i in 0..LANES {
            times[i] += moving[i];
        }
        times[RING + 2] = self.ring_latency(size) + moving[RING + 2];
        times
    }

    /// The latency of the ring in Simple.
    #[inline(always)]
    pub fn ring_latency(&self, size: u64) -> f32 {
        if size >= self.plateau { self.plateau_latency } else { self.numbers[place(RING + 2)] }
    }

    /// The first of the fastest cells: the least time, four at a time, then the cell with it.
    #[inline(always)]
    pub fn least(&self, times: &Lanes) -> Option<(usize, f32)> {
        // Written so that it is one instruction each: no time is NaN.
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
        // The lane for padding is never available.
        (least < self.slowest).then_some((who.trailing_zeros() as usize % CELLS.len(), least))
    }
}
