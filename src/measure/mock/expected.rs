//! The expected time of a call on a healthy machine: the only place from which the mock gets it.

use crate::base::quantity::{Bytes, Seconds};
use crate::machine::query::Query;
use crate::measure::expect::Expecting;

/// The time of a call without faults, including its launch. If nothing is sent it is only the launch.
#[must_use]
pub fn expected(query: &Query, expecting: &Expecting<'_>, size: Bytes) -> Seconds {
    if size.0 == 0 { query.machine.fabric.launch } else { expecting.time(size) }
}
