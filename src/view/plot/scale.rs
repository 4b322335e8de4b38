//! Positions of values along an axis, and ticks that are easy to read.

use super::{Axis, Scale, Unit};
use crate::base::quantity::{Bandwidth, Seconds, Volume};

/// A labelled value on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub label: String,
}

impl Axis {
    /// The position of `value` as a fraction of the axis' length.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
            Scale::Linear | Scale::Rows(_) => (value - self.from) / (self.to - self.from),
        }
    }

    /// The value at a fraction of the axis' length.
    pub(super) fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Log => self.from * (self.to / self.from).powf(place),
            Scale::Linear | Scale::Rows(_) => self.from + place * (self.to - self.from),
        }
    }

    /// At most `most` values for labels, and at least two if the axis has any.
    pub(super) fn ticks(&self, most: usize) -> Vec<Tick> {
        let values = match &self.scale {
            Scale::Rows(names) => {
                let middle = |(i, name): (usize, &String)| Tick {
                    value: i as f64 + 0.5,
                    label: name.clone(),
                };
                return names.iter().enumerate().map(middle).collect();
            }
            Scale::Linear => self.even(most),
            Scale::Log if matches!(self.unit, Unit::Bytes | Unit::Count) => {
                self.powers_of_two(most)
            }
            Scale::Log => self.decades(most),
        };
        values.into_iter().map(|value| Tick { value, label: self.unit.show(value) }).collect()
    }

    /// Multiples of 1, 2 or 5 times a power of ten.
    fn even(&self, most: usize) -> Vec<f64> {
        let raw = (self.to - self.from) / most.max(1) as f64;
        let power = 10.0_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * power);
        let step = steps.into_iter().find(|s| *s >= raw * (1.0 - 1e-9)).unwrap_or(10.0 * power);
        // Whole numbers have no half steps.
        let step = if self.unit == Unit::Count { step.max(1.0) } else { step };
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    /// Powers of two, or of four, 32, 1024 …
    fn powers_of_two(&self, most: usize) -> Vec<f64> {
        let first = (self.from.log2() - 1e-9).ceil() as i64;
        let last = (self.to.log2() + 1e-9).floor() as i64;
        let step = [1, 2, 5, 10, 20, 40].into_iter();
        let fits = |step: &i64| (last.div_euclid(*step) - (first - 1).div_euclid(*step)) as usize;
        let step = step.clone().find(|step| fits(step) <= most).unwrap_or(40);
        (first..=last).filter(|e| e.rem_euclid(step) == 0).map(|e| 2.0_f64.powi(e as i32)).collect()
    }

    /// Powers of ten, with values between them if there are few.
    fn decades(&self, most: usize) -> Vec<f64> {
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let inside = |v: &f64| *v >= self.from * (1.0 - 1e-9) && *v <= self.to * (1.0 + 1e-9);
        let with = |parts: &[f64], every: i32| -> Vec<f64> {
            let powers = (first..=last).filter(|e| e.rem_euclid(every) == 0);
            powers.flat_map(|e| parts.iter().map(move |p| p * ten(e))).filter(inside).collect()
        };
        let tries: [(&[f64], i32); 5] =
            [(&[1.0, 2.0, 5.0], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 3)];
        let mut found = tries.iter().map(|(parts, every)| with(parts, *every));
        let found = found.find(|ticks| ticks.len() <= most).unwrap_or_default();
        if found.len() < 2 {
            self.even(most).into_iter().filter(|v| *v > 0.0).collect()
        } else {
            found
        }
    }
}

/// A power of ten, as exact as its literal.
fn ten(exponent: i32) -> f64 {
    if exponent < 0 { 1.0 / 10.0_f64.powi(-exponent) } else { 10.0_f64.powi(exponent) }
}

impl Unit {
    /// A value with its unit.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Bytes => Volume(value).to_string(),
            Self::Seconds => Seconds(value).to_string(),
            Self::Rate => Bandwidth(value).to_string(),
            Self::Count => format!("{value:.0}"),
            Self::Share => {
                let percent = (value * 1e3).round() / 10.0;
                let sign = if percent < 0.0 { "−" } else { "" };
                format!("{sign}{} %", percent.abs())
            }
            Self::Number => format!("{}", (value * 1e6).round() / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticks(most).into_iter().map(|t| t.label).collect()
    }

    fn log(unit: Unit, from: f64, to: f64) -> Axis {
        Axis::log("", unit, [from, to].into_iter())
    }

    #[test]
    fn sizes_have_powers_of_two() {
        let table = [
            (1024.0, 65536.0, "1 KiB, 2 KiB, 4 KiB, 8 KiB, 16 KiB, 32 KiB, 64 KiB"),
            (1024.0, 1048576.0, "1 KiB, 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB"),
            (1.0, 1099511627776.0, "1 B, 1 KiB, 1 MiB, 1 GiB, 1 TiB"),
        ];
        for (from, to, ticks) in table {
            assert_eq!(labels(&log(Unit::Bytes, from, to), 8).join(", "), ticks);
        }
    }

    #[test]
    fn times_have_decades_and_what_lies_between_where_there_is_room() {
        let table = [
            (1e-6, 1e-4, "1 µs, 2 µs, 5 µs, 10 µs, 20 µs, 50 µs, 100 µs"),
            (3e-6, 2e-2, "10 µs, 100 µs, 1 ms, 10 ms"),
            (1.1e-3, 1.4e-3, "1.1 ms, 1.15 ms, 1.2 ms, 1.25 ms, 1.3 ms, 1.35 ms, 1.4 ms"),
        ];
        for (from, to, ticks) in table {
            assert_eq!(labels(&log(Unit::Seconds, from, to), 7).join(", "), ticks);
        }
    }

    #[test]
    fn even_ticks_are_round_and_counts_are_whole() {
        let linear = |unit, to| Axis::linear("", unit, [to].into_iter());
        assert_eq!(
            labels(&linear(Unit::Seconds, 4.2e-4), 6).join(" "),
            "0 µs 100 µs 200 µs 300 µs 400 µs"
        );
        assert_eq!(labels(&linear(Unit::Count, 3.0), 9), ["0", "1", "2", "3"]);
        assert_eq!(labels(&linear(Unit::Share, -0.2), 2), ["−20 %", "−10 %", "0 %"]);
    }

    #[test]
    fn a_value_comes_back_from_its_place() {
        let axes = [log(Unit::Bytes, 3.0, 7e9), Axis::linear("", Unit::Seconds, [5.0].into_iter())];
        for axis in axes {
            let middle = axis.value(0.3);
            assert!((axis.place(middle) - 0.3).abs() < 1e-12);
            assert_eq!((axis.place(axis.from), axis.place(axis.to)), (0.0, 1.0));
        }
    }
}
