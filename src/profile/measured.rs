//! A figure with where it comes from.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};

use crate::formula::Ports;
use crate::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte};

/// How a figure was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Timed on such a machine.
    Measured,
    /// A parameter of a model fitted to measurements.
    Fitted,
    /// Said by the vendor's people.
    Vendor,
    /// Printed in a data sheet.
    Datasheet,
    /// Printed in a paper or text.
    Paper,
    /// Taken over from a similar machine, or guessed.
    Assumed,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Vendor => "vendor",
            Self::Datasheet => "datasheet",
            Self::Paper => "paper",
            Self::Assumed => "assumed",
        })
    }
}

/// A value, how it was obtained, from where, and between what it lies.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, bound = "T: Deserialize<'de>")]
pub struct Measured<T> {
    /// The value.
    pub value: T,
    /// The least that is likely.
    #[serde(default = "none")]
    pub low: Option<T>,
    /// The most that is likely.
    #[serde(default = "none")]
    pub high: Option<T>,
    /// How it was obtained.
    pub how: How,
    /// Who says so.
    pub source: String,
    /// When.
    #[serde(default)]
    pub date: Option<String>,
}

fn none<T>() -> Option<T> {
    None
}

/// Quantities are written in files as people type them, with their unit.
macro_rules! read_as_text {
    ($($quantity:ty),*) => {$(
        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                <$quantity>::from_str(&text).map_err(|e| de::Error::custom(e.what()))
            }
        }
    )*};
}

read_as_text!(Seconds, Bandwidth, SecondsPerByte, Ports);

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self)
    }
}
