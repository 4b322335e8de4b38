//! A number followed by a unit, the form of every quantity that a user types.

use std::fmt;

use crate::base::error::{Error, Result};

/// One spelling of a unit and its size in the base unit.
pub(super) struct Unit {
    name: &'static str,
    scale: f64,
}

impl Unit {
    pub(super) const fn new(name: &'static str, scale: f64) -> Self {
        Self { name, scale }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    pub(super) fn find(units: &[Self], name: &str) -> Option<f64> {
        units.iter().find(|u| u.name == name).map(|u| u.scale)
    }
}

/// The number as it was typed, so that an error can repeat it.
#[derive(Clone, Copy)]
pub(super) struct Number<'a> {
    text: &'a str,
    value: f64,
}

impl Number<'_> {
    pub(super) fn value(self) -> f64 {
        self.value
    }

    /// The number times 10^exponent, rounded once if the number is written without exponent.
    pub(super) fn times_power_of_ten(self, exponent: i32) -> f64 {
        let shifted = format!("{}e{exponent}", self.text).parse();
        shifted.unwrap_or_else(|_| self.value * 10_f64.powi(exponent))
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// Splits `1.5e3 MiB` into its finite number and its unit; blanks around either are ignored.
pub(super) fn scan(text: &str) -> Result<(Number<'_>, &str)> {
    let trimmed = text.trim();
    let end = number_end(trimmed);
    let (digits, unit) = trimmed.split_at(end);
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Number { text: digits, value }, unit.trim_start())),
        Ok(_) => Err(Error::input(format!("`{text}` is too large to be a number"))),
        Err(_) if trimmed.is_empty() => Err(Error::input("a number is missing")),
        Err(_) => Err(Error::input(format!("`{text}` does not start with a number"))),
    }
}

/// Where a decimal number with optional sign and exponent ends.
///
/// An `e` belongs to the number only when digits follow, so that a unit may start with it.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let sign = |i: usize| i + usize::from(matches!(bytes.get(i), Some(b'+' | b'-')));
    let mut end = digits(sign(0));
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent = sign(end + 1);
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    end
}
