//! NCCL's wire protocols, as factors on α and on bytes.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};
use crate::base::quantity::Ratio;

/// How NCCL sends data over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// Plain data, with a flag after each slice.
    #[default]
    Simple,
    /// Eight bytes, four of which are a flag: low latency, half the bandwidth.
    Ll,
    /// 128 bytes, eight of which are a flag: 120/128 of the bandwidth.
    Ll128,
}

impl Protocol {
    /// The factors on α and on the bytes sent.
    ///
    /// α follows NCCL 2.30.7's hardware latencies of a ring step over NVLink, 3.4, 0.6 and 1.9 µs
    /// (`src/graph/tuning.cc`); other links and algorithms have other ratios there.
    #[must_use]
    pub fn factors(self) -> (Ratio, Ratio) {
        match self {
            Self::Simple => (Ratio(1.0), Ratio(1.0)),
            Self::Ll => (Ratio(0.6 / 3.4), Ratio(2.0)),
            Self::Ll128 => (Ratio(1.9 / 3.4), Ratio(128.0 / 120.0)),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simple => "Simple",
            Self::Ll => "LL",
            Self::Ll128 => "LL128",
        })
    }
}

impl FromStr for Protocol {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "simple" => Ok(Self::Simple),
            "ll" => Ok(Self::Ll),
            "ll128" => Ok(Self::Ll128),
            _ => Err(Error::input(format!("`{text}` is not a protocol"))
                .help("write Simple, LL or LL128")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_cost_bandwidth_and_save_latency() {
        let factors = |protocol: Protocol| {
            let (alpha, bytes) = protocol.factors();
            (alpha.0 * 3.4, bytes.0)
        };
        let near = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() + (a.1 - b.1).abs() < 1e-12;
        assert!(near(factors(Protocol::Simple), (3.4, 1.0)));
        assert!(near(factors(Protocol::Ll), (0.6, 8.0 / 4.0)));
        assert!(near(factors(Protocol::Ll128), (1.9, 16.0 / 15.0)));
    }

    #[test]
    fn protocols_are_read_as_they_are_written() {
        for (protocol, name) in
            [(Protocol::Simple, "Simple"), (Protocol::Ll, "LL"), (Protocol::Ll128, "LL128")]
        {
            assert_eq!(protocol.to_string(), name);
            assert_eq!(name.parse(), Ok(protocol));
            assert_eq!(name.to_lowercase().parse(), Ok(protocol));
        }
        let refusal = "LL64".parse::<Protocol>().unwrap_err().to_string();
        assert!(refusal.contains("`LL64` is not a protocol"), "{refusal}");
    }
}
