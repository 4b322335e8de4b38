//! What measured times of a call say of its other sizes.

use super::{Basis, Expectation, Expecting, HeldOut, octaves_apart};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds};

/// A measurement shifts the expectations of other sizes by at most this many half widths of its band.
pub(super) const SEEN_TRUST: f64 = 1.5;

/// Runs are never as many times faster than the links as a profile has them.
const IMPOSSIBLE: Ratio = Ratio(8.0);

/// Octaves over which the rest of the measurement's effect fades.
const BEYOND_FADES: f64 = 0.5;

/// Octaves over which the effect of a measurement fades, if the composition of a call's time is unknown.
const SEEN_FADES: f64 = 3.0;

/// Half the width that it then leaves at its own size, as a logarithm: what one leaves of NCCL's runs on two nodes
/// (high/low is 1.7 there).
const SEEN_LEAVES: f64 = 0.27;

/// What measurements say of a size, as logarithms.
struct Told {
    /// What is believed.
    believed: f64,
    /// If all that was measured holds for it.
    shared: f64,
    /// Half the width of the band after it.
    half: f64,
    /// The held-out error after it.
    error: Option<HeldOut>,
}

impl Told {
    /// Between this one and another, at a part of the way.
    fn mixed(self, other: Self, part: f64) -> Self {
        let between = |own: f64, other: f64| own * (1.0 - part) + other * part;
        Self {
            believed: between(self.believed, other.believed),
            shared: between(self.shared, other.shared),
            half: self.half.min(other.half),
            error: if part < 0.5 { self.error } else { other.error },
        }
    }
}

impl Expecting<'_> {
    /// The expectation, shifted by the measurements at the sizes beside it. They never make it less certain.
    pub(super) fn moved(&self, expected: Expectation, size: Bytes) -> Expectation {
        let Some(told) = self.told(expected, size) else { return expected };
        let moved = expected.times(Ratio(told.believed.exp()));
        let (time, half) = (moved.time, told.half);
        // Other sizes may or may not share what is beyond what is believed.
        let shared = expected.time.0 * told.shared.exp();
        Expectation {
            low: Seconds(moved.low.0.max(time.0 * (-half).exp()).min(shared)),
            high: Seconds(moved.high.0.min(time.0 * half.exp()).max(shared)),
            error: told.error.map(|after| match expected.error {
                Some(before) if before.p90 < after.p90 => before,
                _ => after,
            }),
            ..moved
        }
    }

    /// No less than at the nearest smaller size that was seen, and no more than at the nearest larger one, as far as
    /// their times are believed.
    pub(super) fn in_order(&self, expected: Expectation, size: Bytes) -> Expectation {
        let [below, above] = self.beside(size);
        if below.is_some_and(|(seen, _)| seen == size) {
            return expected;
        }
        let believed = |(seen, time): (Bytes, Seconds)| {
            let (_, beyond) = self.surprise(seen, time);
            time.0 * (-beyond).exp()
        };
        let least = below.map_or(0.0, believed);
        let most = above.map_or(f64::INFINITY, believed);
        // Two that contradict each other give no order.
        let time = match least <= most {
            true => expected.time.0.clamp(least, most),
            false => expected.time.0,
        };
        match time == expected.time.0 {
            true => expected,
            false => expected.times(Ratio(time / expected.time.0)),
        }
    }

    /// Refuses what no run can have taken: a slip of a unit, or another call.
    ///
    /// # Errors
    /// A time far below what the links take for the data.
    pub(super) fn refuse_impossible(&self) -> Result<()> {
        let impossible = |&&(seen, time): &&(Bytes, Seconds)| time * IMPOSSIBLE < self.floor(seen);
        let Some(&(seen, time)) = self.seen.iter().find(impossible) else { return Ok(()) };
        let floor = self.floor(seen);
        Err(Error::input(format!(
            "{time} at {seen} cannot be: less than an eighth of the {floor} that the links take for its data"
        ))
        .at(format!("seen {seen}={time}"))
        .help("give the time of one call of these ranks on this machine: 1MiB=88us"))
    }

    /// What the measurements at the nearest smaller and larger size say of this one; between them by the distance.
    fn told(&self, expected: Expectation, size: Bytes) -> Option<Told> {
        let of = |seen| self.told_by(expected, seen, size);
        Some(match self.beside(size) {
            [Some(below), Some(above)] => {
                let part = octaves_apart(size, below.0) / octaves_apart(above.0, below.0);
                of(below).mixed(of(above), part)
            }
            [one, other] => of(one.or(other)?),
        })
    }

    /// What was seen at the nearest size that is no larger, and at the nearest larger one.
    fn beside(&self, size: Bytes) -> [Option<(Bytes, Seconds)>; 2] {
        let seen = || self.seen.iter().copied();
        let below = seen().filter(|seen| seen.0 <= size).max_by_key(|seen| seen.0);
        [below, seen().filter(|seen| seen.0 > size).min_by_key(|seen| seen.0)]
    }

    /// What was seen at the size nearest to this one.
    pub(super) fn nearest_seen(&self, size: Bytes) -> Option<(Bytes, Seconds)> {
        let apart = |seen: &(Bytes, Seconds)| octaves_apart(size, seen.0);
        self.beside(size).into_iter().flatten().min_by(|a, b| apart(a).total_cmp(&apart(b)))
    }

    /// What one measurement says.
    fn told_by(&self, expected: Expectation, (seen, time): (Bytes, Seconds), size: Bytes) -> Told {
        let apart = octaves_apart(size, seen);
        let (gain, half, error) = match &self.transfer {
            Some(transfer)
                if self.curve.is_none()
                    && self.starts.is_none()
                    && !transfer.extrapolates(size) =>
            {
                let (half, error) = transfer.seen(seen, size);
                (transfer.shared(seen, size).0, half, Some(error))
            }
            _ => {
                let gain = (-apart / SEEN_FADES).exp();
                (gain, SEEN_LEAVES.hypot(expected.half() * (1.0 - gain * gain).sqrt()), None)
            }
        };
        let (own, beyond) = self.surprise(seen, time);
        // What is not believed makes nothing more certain.
        let half = if beyond == 0.0 || apart == 0.0 { half } else { half.max(expected.half()) };
        Told {
            believed: gain * own + beyond * (-apart / BEYOND_FADES).exp(),
            shared: gain * (own + beyond),
            half,
            error,
        }
    }

    /// How far off a measured time was, as a logarithm, and what of it is beyond what is believed of other
    /// sizes: such a measurement was disturbed, or comes from another kind of run.
    pub(super) fn surprise(&self, seen: Bytes, time: Seconds) -> (f64, f64) {
        let at = self.unmoved(seen);
        let off = (time.0 / at.time.0).ln();
        // Nothing speaks for an ideal price against a measurement.
        if at.basis == Basis::Modelled {
            return (off, 0.0);
        }
        let reach = SEEN_TRUST * at.half();
        let own = off.clamp(-reach, reach);
        (own, off - own)
    }
}
