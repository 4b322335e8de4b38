//! Piecewise linear curves between knots: octaves of bytes, and the logarithm of a time.

use crate::base::stats::along;

/// Tolerance for knots slightly off whole octaves.
const ABOUT: f64 = 0.01;

/// The value of the curve at `octave`; `None` beyond its ends.
pub(super) fn at(knots: &[(f64, f64)], octave: f64) -> Option<f64> {
    let (first, last) = (knots.first()?, knots.last()?);
    if octave < first.0 - ABOUT || octave > last.0 + ABOUT {
        return None;
    }
    along(knots, octave)
}

/// The whole octaves between their ends.
pub(super) fn octaves(knots: &[(f64, f64)]) -> impl Iterator<Item = u8> + use<> {
    let first = knots.first().map_or(0.0, |k| (k.0 - ABOUT).ceil().max(0.0));
    let last = knots.last().map_or(-1.0, |k| (k.0 + ABOUT).floor());
    (first as i16..=last as i16).filter_map(|k| u8::try_from(k).ok())
}
