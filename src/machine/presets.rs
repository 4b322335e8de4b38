//! Parameters from texts and data sheets, each with its source.
//!
//! They are starting points if nothing was measured, never the default of a question: a profile
//! says which parameters a machine has. A parameter that its source gives as a range keeps both
//! ends.
//!
//! ```
//! let hop = collcost::machine::presets::find(collcost::machine::presets::SWITCH_HOPS, "nvswitch").unwrap();
//! assert_eq!((hop.low.0, hop.high.0), (100e-9, 200e-9));
//! ```

use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bandwidth, Ratio, Seconds};
use crate::model::formula::Ports;

/// A parameter with its name, both ends of its source's range, and the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure<T> {
    /// The name on the command line.
    pub name: &'static str,
    /// The least that the source gives.
    pub low: T,
    /// The most; equal to the least if the source gives one value.
    pub high: T,
    /// The source.
    pub source: &'static str,
}

const fn exactly<T: Copy>(name: &'static str, value: T, source: &'static str) -> Figure<T> {
    Figure { name, low: value, high: value, source }
}

/// α_sw: one hop through a switch that adds or multicasts.
pub const SWITCH_HOPS: &[Figure<Seconds>] = &[
    Figure {
        name: "nvswitch",
        low: Seconds(100e-9),
        high: Seconds(200e-9),
        source: "spiceMonkey/collective-comm 01 §3.3: cut-through of NVSwitch Gen3 and Gen4",
    },
    exactly(
        "tomahawk-ultra",
        Seconds(250e-9),
        "spiceMonkey/collective-comm 01 §3.3: Broadcom Tomahawk Ultra",
    ),
    Figure {
        name: "sharp",
        low: Seconds(1.19e-6),
        high: Seconds(1.42e-6),
        source: "Graham et al., COMHPC 2016: half of the 2.83 µs of 8 bytes over 128 hosts, with the \
                 hosts' own part; 16 % less by multicast, Bloch et al., JSFI 4(4) 2017",
    },
];

/// The rate of one port, as published.
pub const RATES: &[Figure<Bandwidth>] = &[
    exactly(
        "nvlink4",
        Bandwidth(450e9),
        "NVIDIA H100 data sheet: 900 GB/s in both directions together",
    ),
    exactly(
        "nvlink4-both-ways",
        Bandwidth(900e9),
        "NVIDIA H100 data sheet: 900 GB/s NVLink, both directions of all links together",
    ),
    exactly(
        "nvlink5",
        Bandwidth(900e9),
        "spiceMonkey/collective-comm 02 §2: 1800 GB/s in both directions together",
    ),
    exactly(
        "ndr",
        Bandwidth(50e9),
        "NVIDIA ConnectX-7 data sheet: one InfiniBand NDR port, 400 Gb/s",
    ),
    exactly("xdr", Bandwidth(100e9), "spiceMonkey/collective-comm 03 §1.2: ConnectX-8, 800 Gb/s"),
];

/// Partners that a rank can talk to at once, by fabric.
pub const PORT_BUDGETS: &[Figure<Ports>] = &[
    budget("nvlink-ring", 2, 2, "two ring directions out of a GPU"),
    budget("nvlink-channels", 4, 18, "NVLink channels of a chip"),
    budget("nic", 2, 8, "NICs of a training node"),
    budget("torus-1d", 2, 2, "two neighbours a dimension"),
    budget("torus-2d", 4, 4, "two neighbours a dimension"),
    budget("torus-3d", 6, 6, "two neighbours a dimension"),
];

const fn budget(name: &'static str, low: u32, high: u32, source: &'static str) -> Figure<Ports> {
    Figure { name, low: ports(low), high: ports(high), source }
}

const fn ports(k: u32) -> Ports {
    match std::num::NonZeroU32::new(k) {
        Some(k) => Ports::Full(k),
        None => Ports::Unbounded,
    }
}

/// How a fabric under load differs from the ideal one: α·η_α, BW·η_β.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contention {
    /// The name on the command line.
    pub name: &'static str,
    /// η_α, 1 or more.
    pub alpha: Ratio,
    /// η_β, at most 1.
    pub beta: Ratio,
    /// The source that it was derived from.
    pub source: &'static str,
}

/// The profiles of spiceMonkey/collective-comm 05 §4.1: realistic for the worst case.
pub const CONTENTION: &[Contention] = &[
    Contention {
        name: "ideal",
        alpha: Ratio(1.0),
        beta: Ratio(1.0),
        source: "a collective alone on the fabric",
    },
    Contention {
        name: "crossbar",
        alpha: Ratio(1.0),
        beta: Ratio(0.80),
        source: "nccl-tests on H100: all-reduce busbw 360 of 450 GB/s",
    },
    Contention {
        name: "nvls",
        alpha: Ratio(1.0),
        beta: Ratio(0.52),
        source: "busbw 470 against 360 GB/s without the switch: 1.3·0.80/2 at n_β = 1",
    },
    Contention {
        name: "torus",
        alpha: Ratio(1.2),
        beta: Ratio(0.60),
        source: "TPU v4: twisted against plain torus all-to-all 1.63, taken as 1/0.6",
    },
];

/// The parameter called `name`.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find<T>(figures: &'static [Figure<T>], name: &str) -> Result<&'static Figure<T>> {
    named(figures, |figure| figure.name, name)
}

/// The contention profile called `name`.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn contention(name: &str) -> Result<&'static Contention> {
    named(CONTENTION, |contention| contention.name, name)
}

fn named<T>(all: &'static [T], of: fn(&T) -> &'static str, name: &str) -> Result<&'static T> {
    all.iter().find(|one| of(one) == name).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(of).collect();
        Error::input(format!("`{name}` is not a preset")).help(advice(name, &known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_and_sourced() {
        for figure in SWITCH_HOPS {
            assert_eq!(find(SWITCH_HOPS, figure.name).unwrap(), figure);
            assert!(!figure.source.is_empty() && figure.low <= figure.high);
        }
        for figure in RATES {
            assert_eq!(find(RATES, figure.name).unwrap(), figure);
        }
        for figure in PORT_BUDGETS {
            assert_eq!(find(PORT_BUDGETS, figure.name).unwrap(), figure);
            assert!(figure.low.sends(64) <= figure.high.sends(64));
        }
    }

    #[test]
    fn a_wrong_name_gets_the_nearest() {
        assert!(contention("tourus").unwrap_err().to_string().contains("`torus`"));
    }

    #[test]
    fn the_help_names_every_contention() {
        let help = crate::machine::parameters::Parameter::named("contention").unwrap().help;
        for one in CONTENTION {
            assert!(help.contains(one.name), "{help}");
        }
    }
}
