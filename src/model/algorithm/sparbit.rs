//! Sparbit: an all-gather of binomial trees, one per block, far partners first.
//!
//! ```text
//!   N = 8    r ─1─► r + 4    r ─2─► r + 2    r ─4─► r + 1      blocks land where they belong
//! ```
//!
//! ⌈lg N⌉·α + (N − 1)/N·M/BW at any N. The messages are those of PAT without a limit, and few
//! blocks travel far. Unlike Bruck's all-gather it needs no rotation at the end. Exact on one
//! full-duplex port, an upper bound on more; one half-duplex port takes ×3 at most.

use super::pat::{FarFirst, chunks};
use super::rounds::{LogGather, gather_schedule};
use super::{Algorithm, Meta, Route, Share, Step};
use crate::base::collective::Collective::AllGather;
use crate::model::formula::ceil_lg;

/// Sparbit.
pub static FAMILY: &[&dyn Algorithm] = &[&SPARBIT];

/// The rounds of an all-gather, farthest first, with chunks of M/N.
pub(super) fn gather_rounds(n: u32) -> Vec<Step> {
    let round = |b: u32| Step::new(1_u32, Share::new(chunks(n, b), n), Route::Offset(1 << b));
    (0..ceil_lg(n)).rev().map(round).collect()
}

static SPARBIT: LogGather = LogGather {
    meta: &Meta {
        id: "sparbit",
        title: "Sparbit",
        collectives: &[AllGather],
        aliases: &["sparbit_ag"],
        known_as: &[],
        summary: "every block goes down its own binomial tree, farthest ranks first",
        source: "Loch, Koslovski, Sparbit, arXiv:2109.08751, 2021",
    },
    rounds: gather_rounds,
    schedule: |shape| gather_schedule(shape, FarFirst::new(shape.ranks, None)),
};
