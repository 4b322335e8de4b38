//! Measurements of GPUs in a profile's file.
//!
//! ```toml
//! [nccl]
//! version = "2.27.3"
//! held_out = { median = 0.05, p90 = 0.16 }   # algorithms held out of a fit
//!
//! [[nccl.protocol]]
//! name = "LL128"
//! algorithms = ["Tree", "Ring"]
//! launch = { value = "9.5us", low = "9.1us", high = "9.9us" }
//! alpha = { value = "0.86us", low = "0.8us", high = "0.9us" }
//! bandwidth = { value = "150GB/s", low = "148GB/s", high = "152GB/s" }
//! from = "8"
//! to = "67108864"
//! points = 63
//! error = { median = 0.03, p90 = 0.04 }
//!
//! [[nccl.switch]]
//! collective = "allreduce"
//! ranks = 8
//! from = "1048576"
//! algorithm = "Ring"
//! protocol = "Simple"
//!
//! [[device]]
//! operation = "copy/0/1"
//! start = { value = "9.5us", low = "9.1us", high = "9.9us" }
//! bandwidth = { value = "150GB/s", low = "148GB/s", high = "152GB/s" }
//! ```

use super::calibration::StatedError;
use super::write::{Written, bytes, line, list_of, quoted, text};
use crate::base::quantity::{Bandwidth, Bytes, Seconds};

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval<T> {
    /// The value.
    pub value: T,
    /// The low end.
    pub low: T,
    /// The high end.
    pub high: T,
}

/// The costs of NCCL's protocols, and where NCCL itself switches between them.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nccl {
    /// The library with its version.
    pub version: Option<String>,
    /// The error on algorithms that were held out of the fit.
    pub held_out: Option<StatedError>,
    /// The error of the cheapest protocol against NCCL's own times.
    pub envelope: Option<StatedError>,
    /// The protocols.
    #[serde(default, rename = "protocol")]
    pub protocols: Vec<Protocol>,
    /// The sizes from which NCCL uses another algorithm or protocol.
    #[serde(default, rename = "switch")]
    pub switches: Vec<SwitchPoint>,
}

/// The cost of one protocol: T = launch + n_α·α + n_β·M/BW.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// As in `NCCL_PROTO`.
    pub name: String,
    /// The algorithms for which it was measured, as in `NCCL_ALGO`.
    pub algorithms: Vec<String>,
    /// The time of a call before its first step.
    pub launch: Interval<Seconds>,
    /// α; absent if it cannot be distinguished from the launch.
    pub alpha: Option<Interval<Seconds>>,
    /// BW.
    pub bandwidth: Interval<Bandwidth>,
    /// The smallest M that was measured.
    pub from: Bytes,
    /// The largest.
    pub to: Bytes,
    /// How many points were fitted.
    pub points: u32,
    /// Their error.
    pub error: StatedError,
}

/// The size from which NCCL uses an algorithm and protocol for a collective.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchPoint {
    /// The collective's id.
    pub collective: String,
    /// N.
    pub ranks: u32,
    /// The smallest size for which this was observed.
    pub from: Bytes,
    /// As in `NCCL_ALGO`.
    pub algorithm: String,
    /// As in `NCCL_PROTO`.
    pub protocol: String,
}

/// The time of a GPU operation outside collectives.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The operation, as named in samples: `copy/0/1`, `kernel`, `upload/pinned`.
    pub operation: String,
    /// The time of no bytes.
    pub start: Interval<Seconds>,
    /// The rate for many bytes; absent if none was found.
    pub bandwidth: Option<Interval<Bandwidth>>,
}

fn interval<T: Written>(interval: &Interval<T>) -> String {
    let Interval { value, low, high } = interval;
    let (value, low, high) = (value.written(), low.written(), high.written());
    format!("{{ value = {value}, low = {low}, high = {high} }}")
}

fn stated(error: StatedError) -> String {
    format!("{{ median = {}, p90 = {} }}", error.median.written(), error.p90.written())
}

pub(super) fn write(out: &mut String, nccl: &Nccl) {
    out.push_str("\n[nccl]\n");
    text(out, "version", nccl.version.as_deref());
    for (key, error) in [("held_out", nccl.held_out), ("envelope", nccl.envelope)] {
        if let Some(error) = error {
            line(out, key, &stated(error));
        }
    }
    for p in &nccl.protocols {
        out.push_str("\n[[nccl.protocol]]\n");
        line(out, "name", &quoted(&p.name));
        line(out, "algorithms", &list_of(p.algorithms.iter().map(|name| quoted(name))));
        line(out, "launch", &interval(&p.launch));
        if let Some(alpha) = &p.alpha {
            line(out, "alpha", &interval(alpha));
        }
        line(out, "bandwidth", &interval(&p.bandwidth));
        line(out, "from", &bytes(p.from));
        line(out, "to", &bytes(p.to));
        line(out, "points", &p.points.to_string());
        line(out, "error", &stated(p.error));
    }
    for s in &nccl.switches {
        out.push_str("\n[[nccl.switch]]\n");
        line(out, "collective", &quoted(&s.collective));
        line(out, "ranks", &s.ranks.to_string());
        line(out, "from", &bytes(s.from));
        line(out, "algorithm", &quoted(&s.algorithm));
        line(out, "protocol", &quoted(&s.protocol));
    }
}

pub(super) fn write_devices(out: &mut String, devices: &[Device]) {
    for d in devices {
        out.push_str("\n[[device]]\n");
        line(out, "operation", &quoted(&d.operation));
        line(out, "start", &interval(&d.start));
        if let Some(bandwidth) = &d.bandwidth {
            line(out, "bandwidth", &interval(bandwidth));
        }
    }
}
