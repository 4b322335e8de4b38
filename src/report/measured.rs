//! What was measured of the question's collective, beside the prices of its algorithms.

use serde::Serialize;

use super::six;
use crate::curve::Basis;
use crate::quantity::Volume;
use crate::query::Query;
use crate::sample::DataType;

/// The time that the machine's library is expected to take, by what was measured of it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The median.
    pub time_s: f64,
    /// A tenth of measurements is faster.
    pub low_s: f64,
    /// A tenth is slower.
    pub high_s: f64,
    /// The median's busbw.
    #[serde(rename = "busbw_Bps")]
    pub busbw: f64,
    /// How it came about.
    pub basis: Basis,
    /// The type of the elements that were measured, where it matters.
    pub dtype: Option<&'static str>,
    /// Which library, and whose measurements.
    pub source: String,
}

/// What was measured; none where nothing was, or nothing on the tier that the ranks need.
pub(super) fn measured(query: &Query) -> Option<Measured> {
    let shape = &query.shape;
    let curve = query.machine.curve(shape.collective, None, query.placed())?;
    let expected = curve.expect(query.placed(), query.size).ok()?;
    let factor = shape.collective.busbw_factor(shape.ranks);
    let algbw = Volume::from(query.size).0 / expected.time.0;
    Some(Measured {
        time_s: six(expected.time.0),
        low_s: six(expected.low.0),
        high_s: six(expected.high.0),
        busbw: six(algbw * factor.0),
        basis: expected.basis,
        dtype: curve.dtype.map(DataType::id),
        source: curve.source.clone(),
    })
}
