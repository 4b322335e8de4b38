//! The shortest colourings that the search found.

use super::colouring::Colouring;
use super::lengths::{effort, first_seed, one_port_slots};
use super::search::{coloured, search, search_down_to};

/// The colours of pair 0's transfers, in the order of [`Colouring::transfers`], two bits each,
/// lowest first: N − 1 bytes for N = 2, then N = 3, … `examples/dbt_table.rs` writes them.
static COLOURS: &[u8] = include_bytes!("colours.bin");

/// A colouring of the length that [`one_port_slots`] states, or less.
///
/// Up to 256 ranks it is stored. Up to 1024 ranks the search that found the length is repeated,
/// which takes a fraction of a second; above that any colouring is used.
#[must_use]
pub fn best_known(ranks: u32) -> Colouring {
    let Some(bytes) = stored(ranks) else { return searched(ranks) };
    coloured(ranks, bytes.iter().flat_map(|byte| [0, 2, 4, 6].map(|shift| byte >> shift & 3)))
}

/// The same, always by a search: the source of what is stored.
#[must_use]
pub fn searched(ranks: u32) -> Colouring {
    let length = one_port_slots(ranks).length;
    let (seeds, flips) = effort(ranks);
    (first_seed(ranks)..seeds)
        .map(|seed| search_down_to(length, ranks, seed, flips))
        .find(|found| found.length() <= length)
        .unwrap_or_else(|| search(ranks, 0, 0))
}

/// The bytes for N = `ranks`; they follow those of all smaller N.
fn stored(ranks: u32) -> Option<&'static [u8]> {
    let bytes = ranks.checked_sub(1)? as usize;
    COLOURS.get(bytes * bytes.saturating_sub(1) / 2..)?.get(..bytes)
}
