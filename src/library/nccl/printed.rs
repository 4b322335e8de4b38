//! Latencies and bandwidths as NCCL's log prints them: with one decimal digit.

use std::fmt;

/// A printed number, in tenths of a microsecond or of a GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Tenths(pub u64);

/// One cell of a printed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Printed {
    /// The latency.
    pub latency: Tenths,
    /// The bandwidth.
    pub bandwidth: Tenths,
}

impl Tenths {
    /// A number as C's `%.1f` prints it; `None` if it is negative or NaN.
    #[must_use]
    pub fn of(value: f32) -> Option<Self> {
        Self::read(&format!("{:.1}", f64::from(value)))
    }

    /// Reads `12.3`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (whole, tenth) = text.split_once('.')?;
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || tenth.len() != 1 || !digits(tenth) {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        Some(Self(whole.checked_mul(10)?.checked_add(tenth.parse().ok()?)?))
    }

    /// The number itself.
    #[must_use]
    pub fn value(self) -> f32 {
        (self.0 as f64 / 10.0) as f32
    }

    /// The least and the greatest number with this output.
    #[must_use]
    pub fn range(self) -> (f32, f32) {
        let tenths = self.0 as f64;
        (((tenths - 0.5) / 10.0).max(0.0) as f32, ((tenths + 0.5) / 10.0) as f32)
    }
}

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.0 / 10, self.0 % 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_are_read_and_printed() {
        for text in ["0.0", "9.3", "448.0", "12345678901.2"] {
            assert_eq!(Tenths::read(text).unwrap().to_string(), text);
        }
        for text in ["", ".", "1", "1.", ".5", "1.25", "-1.0", "inf", "nan", "1e3", "+1.0"] {
            assert_eq!(Tenths::read(text), None, "{text}");
        }
        assert_eq!(Tenths::of(0.25), Some(Tenths(2)));
        assert_eq!(Tenths::of(f32::INFINITY), None);
        assert_eq!(Tenths(93).range(), (9.25, 9.35));
    }
}
