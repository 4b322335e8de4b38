//! What a call is expected to take on a healthy machine: the one place where the mock gets it.

use crate::base::quantity::{Bytes, Seconds};
use crate::machine::query::Query;
use crate::measure::expect::Expecting;

/// The time of a call where nothing is wrong, its launch included. Where nothing is sent it is the
/// launch alone.
#[must_use]
pub fn expected(query: &Query, expecting: &Expecting<'_>, size: Bytes) -> Seconds {
    if size.0 == 0 { query.machine.fabric.launch } else { expecting.time(size) }
}
