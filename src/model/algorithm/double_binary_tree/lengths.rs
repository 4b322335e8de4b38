//! How long the double binary tree takes on one full-duplex port: what the searches found.
//!
//! `examples/dbt_table.rs` prints the table.

use super::colouring::period;
use crate::model::formula::{ceil_lg, floor_lg};

/// Length and period of the segmented schedule: P segment pairs take
/// `period * (P - 1) + length` rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Rounds of one pair that are not shared with the next pairs.
    pub length: u32,
    /// Rounds that each further pair adds: the number of transfers of the busiest port.
    pub period: u32,
}

/// The schedule's length and period for `ranks` ranks.
///
/// Up to 1024 ranks the length is the best that [`search`](super::search::search) found under
/// [`effort`]. Above that it is 8⌈lg N⌉, which every colouring keeps: a role's parent has a higher
/// lowest set bit, so no role is deeper than ⌈lg N⌉; a chain up and down has at most 2⌈lg N⌉
/// transfers; each starts at most W ≤ 4 slots after its predecessor, since its colour returns every
/// W slots. A search finds about 40% less (1024 ranks: 48), so expect a step at 1025 (88).
#[must_use]
pub fn one_port_slots(ranks: u32) -> Slots {
    let length = LENGTH.get(ranks as usize).map_or_else(|| 8 * ceil_lg(ranks), |&s| u32::from(s));
    Slots { length, period: period(ranks) }
}

/// Rounds of the all-reduce with one segment a half, each transfer started as soon as its data
/// and both ports are free (event-driven; ties as in [`unsegmented_flow`](super::flow::unsegmented_flow)).
///
/// Up to 1024 ranks a formula, which the tests compare with that. Above that it is 4 lg N − 2 for a
/// power of two, else the length of the coloured schedule, which one segment can follow as well.
#[must_use]
pub fn unsegmented_steps(ranks: u32) -> u32 {
    match ranks {
        0 | 1 => 0,
        _ if ranks.is_power_of_two() => 4 * floor_lg(ranks) - 2,
        1025.. => one_port_slots(ranks).length,
        _ if (ranks - 1).is_power_of_two() => 4 * floor_lg(ranks),
        _ => 4 * floor_lg(ranks) + 1,
    }
}

/// Seeds and flips that produced the table: the shortest result over seeds `0..seeds`.
///
/// Sizes common in jobs (1, 3 or 9 times a power of two, above 16) get more of both.
#[must_use]
pub fn effort(ranks: u32) -> (u64, u32) {
    let odd = ranks >> ranks.trailing_zeros().min(31);
    match ranks {
        _ if ranks > 16 && matches!(odd, 1 | 3 | 9) => (12, 200_000),
        0..=32 => (20, 20_000),
        33..=256 => (3, 40_000),
        _ => (1, 60_000),
    }
}

/// The first of these seeds that attains the tabulated length, above 256 ranks.
pub(super) fn first_seed(ranks: u32) -> u64 {
    match ranks {
        512 => 1,
        288 => 2,
        576 => 3,
        768 => 4,
        384 => 8,
        _ => 0,
    }
}

/// `Slots::length` by ranks, as `examples/dbt_table.rs` prints it.
#[rustfmt::skip]
static LENGTH: [u8; 1025] = [
    0, 0, 2, 6, 6, 8, 8, 8, 10, 12, 12, 12, 12, 12, 12, 12, 16, 18, 18, 18, 18, 18, 19, 18,
    18, 20, 20, 20, 19, 20, 21, 20, 20, 24, 24, 24, 23, 23, 24, 23, 23, 24, 25, 24, 24, 23, 25, 25,
    24, 27, 26, 27, 26, 27, 27, 27, 27, 26, 27, 27, 27, 28, 26, 27, 26, 28, 29, 29, 29, 29, 29, 29,
    28, 29, 29, 29, 29, 29, 29, 29, 29, 29, 29, 30, 29, 30, 30, 30, 29, 30, 30, 31, 30, 30, 31, 31,
    30, 32, 32, 33, 32, 32, 32, 33, 31, 32, 32, 33, 31, 31, 32, 33, 33, 32, 32, 33, 31, 33, 31, 33,
    33, 31, 32, 33, 33, 33, 33, 34, 31, 34, 34, 34, 33, 34, 33, 34, 33, 34, 34, 34, 33, 34, 34, 33,
    33, 33, 33, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 35, 34, 34, 35, 35, 34, 35, 35, 35, 34,
    34, 35, 35, 35, 35, 34, 35, 34, 35, 36, 36, 36, 36, 35, 36, 37, 37, 35, 35, 36, 37, 37, 38, 37,
    35, 38, 37, 37, 36, 38, 36, 38, 36, 38, 36, 38, 36, 38, 38, 38, 38, 38, 38, 38, 37, 37, 38, 38,
    38, 39, 37, 39, 37, 39, 37, 38, 38, 40, 37, 39, 36, 39, 37, 39, 38, 39, 39, 39, 38, 39, 39, 39,
    39, 38, 38, 38, 38, 39, 39, 39, 39, 39, 37, 39, 38, 39, 38, 39, 38, 40, 39, 39, 40, 40, 40, 39,
    38, 38, 39, 39, 40, 39, 41, 39, 38, 39, 40, 39, 39, 39, 39, 40, 39, 39, 40, 39, 39, 39, 40, 39,
    38, 39, 39, 40, 39, 40, 40, 40, 38, 39, 39, 39, 40, 39, 39, 39, 39, 40, 39, 39, 39, 40, 40, 39,
    39, 40, 40, 40, 40, 40, 41, 41, 40, 39, 39, 40, 42, 40, 40, 40, 40, 40, 40, 40, 42, 39, 39, 40,
    40, 40, 40, 40, 40, 40, 40, 40, 39, 41, 40, 41, 41, 40, 43, 42, 42, 41, 42, 42, 41, 42, 42, 42,
    42, 42, 42, 40, 41, 44, 43, 42, 43, 42, 42, 43, 42, 42, 43, 42, 42, 43, 43, 43, 43, 43, 42, 44,
    40, 43, 42, 43, 41, 43, 42, 43, 41, 43, 41, 42, 41, 42, 42, 43, 42, 44, 43, 43, 43, 43, 44, 43,
    42, 43, 43, 43, 43, 43, 43, 43, 44, 45, 43, 42, 44, 43, 43, 43, 43, 43, 44, 43, 44, 44, 44, 43,
    44, 44, 43, 44, 43, 44, 44, 44, 44, 44, 43, 44, 44, 44, 44, 44, 44, 44, 43, 44, 44, 44, 44, 44,
    43, 44, 43, 43, 43, 43, 42, 44, 44, 44, 43, 44, 44, 44, 45, 44, 43, 44, 43, 44, 45, 44, 44, 44,
    44, 44, 44, 44, 44, 44, 43, 44, 44, 44, 43, 44, 44, 44, 44, 44, 44, 44, 43, 44, 44, 44, 43, 44,
    43, 44, 44, 44, 45, 44, 45, 44, 43, 44, 44, 44, 45, 44, 44, 44, 44, 44, 45, 44, 46, 44, 44, 44,
    44, 44, 48, 44, 44, 44, 45, 45, 44, 45, 44, 44, 45, 44, 44, 44, 44, 44, 44, 44, 45, 44, 44, 44,
    44, 44, 45, 44, 46, 45, 46, 44, 44, 44, 45, 44, 45, 44, 45, 44, 44, 44, 44, 45, 45, 44, 45, 44,
    43, 44, 45, 44, 46, 44, 45, 44, 44, 44, 44, 44, 45, 44, 44, 44, 44, 46, 44, 44, 45, 44, 44, 44,
    44, 44, 44, 44, 46, 44, 46, 44, 44, 44, 44, 46, 44, 45, 45, 45, 45, 46, 44, 45, 45, 47, 45, 45,
    44, 45, 45, 46, 44, 46, 46, 47, 45, 46, 47, 46, 48, 46, 46, 45, 48, 44, 46, 44, 46, 46, 46, 44,
    44, 44, 44, 45, 46, 45, 44, 46, 46, 45, 44, 45, 46, 44, 45, 45, 45, 45, 44, 45, 44, 46, 46, 44,
    44, 48, 46, 44, 47, 44, 45, 46, 44, 44, 46, 47, 46, 45, 47, 46, 46, 47, 46, 47, 46, 47, 48, 47,
    47, 46, 49, 48, 48, 47, 47, 47, 48, 48, 47, 48, 47, 48, 48, 48, 47, 47, 48, 48, 46, 48, 46, 47,
    46, 48, 48, 48, 48, 46, 47, 48, 48, 48, 47, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 49, 48, 48,
    48, 48, 49, 48, 48, 48, 49, 48, 48, 48, 48, 48, 49, 49, 48, 48, 48, 48, 48, 48, 49, 48, 48, 48,
    47, 48, 47, 48, 49, 48, 48, 48, 46, 48, 50, 48, 50, 47, 50, 48, 48, 47, 47, 48, 48, 48, 47, 48,
    48, 48, 48, 47, 49, 48, 49, 48, 48, 48, 49, 48, 48, 48, 48, 48, 48, 48, 46, 48, 49, 48, 49, 50,
    49, 47, 48, 48, 47, 49, 48, 48, 48, 48, 48, 48, 49, 48, 48, 48, 50, 48, 48, 49, 47, 48, 49, 48,
    48, 48, 48, 48, 49, 48, 49, 48, 48, 49, 47, 49, 48, 48, 49, 48, 48, 48, 48, 48, 49, 48, 49, 49,
    49, 48, 49, 48, 50, 48, 48, 48, 49, 48, 48, 48, 49, 48, 49, 48, 48, 48, 48, 49, 49, 49, 50, 49,
    48, 49, 48, 48, 50, 48, 48, 49, 48, 49, 49, 49, 49, 49, 50, 48, 50, 49, 49, 49, 50, 48, 49, 49,
    48, 50, 49, 49, 50, 49, 50, 48, 48, 48, 48, 48, 49, 50, 49, 49, 48, 49, 48, 48, 50, 48, 50, 49,
    47, 49, 48, 49, 48, 49, 49, 49, 49, 50, 48, 50, 50, 49, 49, 49, 49, 49, 48, 49, 50, 48, 48, 48,
    49, 48, 49, 50, 50, 49, 50, 49, 48, 49, 48, 49, 50, 49, 50, 49, 48, 49, 48, 49, 49, 49, 50, 49,
    50, 49, 48, 49, 49, 50, 48, 51, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 48, 49, 49, 49, 51, 49,
    49, 50, 49, 49, 48, 48, 49, 48, 48, 49, 48, 49, 49, 49, 49, 50, 48,
];

#[cfg(test)]
pub(super) fn longest() -> u32 {
    LENGTH.iter().copied().map(u32::from).max().unwrap_or(0)
}
