//! What a call is expected to take on a healthy machine: the one place where the mock gets it.

use crate::price::Price;
use crate::quantity::{Bytes, Seconds};
use crate::query::Query;
use crate::sample::DataType;

/// One call of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// M, as nccl-tests prints it.
    pub size: Bytes,
    /// The type of the elements.
    pub dtype: DataType,
    /// Whether the result takes the place of the operand.
    pub in_place: bool,
    /// The price of the take: the fastest algorithm that the machine's library ships.
    pub take: Price,
}

/// The time of a call where nothing is wrong, its launch included: what was measured of the
/// machine's library, else the price of the take, as the main report has it. Where nothing is sent it
/// is the launch alone.
#[must_use]
pub fn expected(query: &Query, case: &Case) -> Seconds {
    if case.size.0 == 0 {
        return query.machine.fabric.launch;
    }
    let curve = query.machine.curve(query.shape.collective, Some(case.dtype), query.placed());
    let measured = curve.and_then(|c| c.expect(query.placed(), case.size).ok());
    measured.map_or_else(|| case.take.total(), |e| e.time)
}
