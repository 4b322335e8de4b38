//! A parameter with its source.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};

use super::compose::Nics;
use crate::base::error::{Error, Result as Parsed};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::base::words::words;
use crate::model::formula::{Dims, Ports};

words! {
    /// How a parameter was obtained.
    #[derive(serde::Deserialize)]
    pub enum How {
        /// Timed on such a machine.
        Measured = "measured",
        /// A parameter of a model fitted to measurements.
        Fitted = "fitted",
        /// Stated by the vendor's staff.
        Vendor = "vendor",
        /// Printed in a data sheet.
        Datasheet = "datasheet",
        /// Printed in a paper or text.
        Paper = "paper",
        /// Taken over from a similar machine, or guessed.
        Assumed = "assumed",
    }
}

/// A value, how it was obtained, its source, and its range.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    bound = "T: Deserialize<'de>",
    expecting = "a table such as { value = …, source = \"…\" }"
)]
pub struct Measured<T> {
    /// The value.
    pub value: T,
    /// The least that is likely.
    pub low: Option<T>,
    /// The most that is likely.
    pub high: Option<T>,
    /// How it was obtained.
    pub how: How,
    /// The source; empty if there is none, which a check refuses.
    #[serde(default)]
    pub source: String,
    /// When.
    pub date: Option<Date>,
}

/// A day, written as ISO 8601 does: 2026-08-21.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The day `days` after 1970-01-01, which is how clocks count.
    #[must_use]
    pub fn after_epoch(days: u32) -> Self {
        // Years begin in March here, so that the leap day is their last.
        let days = u64::from(days) + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        Self { year: year as u16, month: month as u8, day: day as u8 }
    }

    fn days_of_month(year: u16, month: u8) -> u8 {
        let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
        match month {
            2 => 28 + u8::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Parsed<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let found = match parts[..] {
            [y, m, d] if (y.len(), m.len(), d.len()) == (4, 2, 2) => y
                .parse()
                .ok()
                .zip(m.parse().ok().filter(|m| (1..=12).contains(m)))
                .zip(d.parse().ok())
                .map(|((year, month), day)| Self { year, month, day }),
            _ => None,
        };
        found
            .filter(|d| (1..=Self::days_of_month(d.year, d.month)).contains(&d.day))
            .ok_or_else(|| Error::input(format!("`{text}` is not a date")).help("write 2026-08-21"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Quantities are written in files as on the command line, with their unit.
macro_rules! read_as_text {
    ($($quantity:ty),*) => {$(
        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                <$quantity>::from_str(&text).map_err(de::Error::custom)
            }
        }
    )*};
}

read_as_text!(Bytes, Seconds, Bandwidth, SecondsPerByte, Ports, Dims, Nics, Date);

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if value.is_finite() && value > 0.0 {
            return Ok(Self(value));
        }
        Err(de::Error::custom(format!("`{value}` is not a part of a rate\nwrite a number above 0")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_counted() {
        let days =
            [(0, "1970-01-01"), (59, "1970-03-01"), (19_782, "2024-02-29"), (20_777, "2026-11-20")];
        for (after, text) in days {
            assert_eq!(Date::after_epoch(after).to_string(), text);
            assert_eq!(text.parse::<Date>().unwrap(), Date::after_epoch(after));
        }
        for wrong in
            ["21.08.2026", "2026-8-21", "2026-02-29", "2026-13-01", "2026-00-10", "2026-01-00", ""]
        {
            assert!(wrong.parse::<Date>().is_err(), "{wrong}");
        }
    }
}
