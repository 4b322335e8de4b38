//! Rates as exact fractions, for answers that are exact fractions.

use std::str::FromStr;

use num_rational::Ratio as Fraction;

use super::Bandwidth;
use super::parse::scan;
use crate::base::error::{Error, Result};

/// A rate in bytes per second, exact: `12.5GB/s` is 12,500,000,000 and `100Gb/s` the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub Fraction<i128>);

impl Rate {
    /// The nearest double.
    #[must_use]
    pub fn bandwidth(self) -> Bandwidth {
        Bandwidth(nearest(self.0))
    }
}

impl FromStr for Rate {
    type Err = Error;

    /// Reads what [`Bandwidth`] reads.
    fn from_str(text: &str) -> Result<Self> {
        text.parse::<Bandwidth>()?;
        let (number, unit) = scan(text)?;
        // Every unit is a whole number of bits.
        let bits = format!("1{unit}").parse::<Bandwidth>()?.0 * 8.0;
        let number = decimal(&number.to_string()).ok_or_else(|| {
            Error::input(format!("`{text}` has more digits than a rate needs"))
                .help("write it with at most 18 digits")
        })?;
        Ok(Self(number * Fraction::new(bits as i128, 8)))
    }
}

/// A decimal number such as `-1.25e-3` as a fraction; `None` if it has more digits than 10^18
/// holds.
#[must_use]
pub fn decimal(text: &str) -> Option<Fraction<i128>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let power = exponent.checked_sub(i32::try_from(part.len()).ok()?)?;
    if power.abs() > 18 || digits.abs() > 1_000_000_000_000_000_000 {
        return None;
    }
    let ten = Fraction::from_integer(10_i128.pow(power.unsigned_abs()));
    Some(if power < 0 { Fraction::from_integer(digits) / ten } else { ten * digits })
}

/// The double nearest to a fraction, up to the last digit.
#[must_use]
pub fn nearest(fraction: Fraction<i128>) -> f64 {
    *fraction.numer() as f64 / *fraction.denom() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_was_written() {
        let rate = |text: &str| text.parse::<Rate>().unwrap().0.to_string();
        assert_eq!(rate("12.5GB/s"), "12500000000");
        assert_eq!(rate("100Gb/s"), "12500000000");
        assert_eq!(rate("0.3B/s"), "3/10");
        assert_eq!(rate("1.25e-1B/s"), "1/8");
        assert_eq!(rate("2GiB/s"), "2147483648");
        assert!("0GB/s".parse::<Rate>().is_err() && "5".parse::<Rate>().is_err());
        assert!("0.1234567890123456789GB/s".parse::<Rate>().is_err());
    }
}
