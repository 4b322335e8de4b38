//! NCCL's tuner, decision for decision: the algorithm, protocol, channels and threads it chooses.
//!
//! For every function, algorithm and protocol the tuner keeps a latency and a bandwidth. It computes
//! them once per communicator, from the graphs that its search found ([`Table`]). A call uses the
//! cell with the lowest `latency + bytes/bandwidth` ([`Chooser`]). All of this is float32 arithmetic
//! and is reproduced bit for bit for x86-64 builds of every release from 2.18.1 to 2.30.7.
//!
//! The graphs come from tables and logs, or from the search itself: [`topology`] is a machine as
//! NCCL sees it, and [`search`] finds the graphs on it.
//!
//! Source: NVIDIA/nccl at their tags, `src/graph/tuning.cc` (tables), `src/enqueue.cc` (choice,
//! channels, threads), `src/graph/connect.cc` and `src/init.cc` (channels of a communicator).

mod allowed;
mod blocks;
mod bounds;
mod call;
mod choose;
mod chunks;
pub mod comms;
mod communicator;
mod constants;
pub mod cost_model;
pub mod described;
pub mod envs;
mod fabric;
pub mod graphs_file;
mod lanes;
pub mod log;
mod machine;
mod machines;
pub(crate) mod observed;
pub(crate) mod point_to_point;
pub mod policy;
mod printed;
mod ranges;
pub mod rules;
mod schedule;
pub mod search;
mod settings;
pub(crate) mod since;
mod startup;
mod table;
pub mod topology;
pub mod topology_file;
pub mod topology_merge;
pub(crate) mod tuned;
mod tuner;
mod version;
mod why;

pub use crate::machine::nccl::{Algo, Arch, Function, Micros, Proto, Vendor};
pub use bounds::{Allowed, Behind, Bounds};
pub use call::{Call, Decision, Operation, Reduction, element};
pub use choose::Chooser;
pub use communicator::{Communicator, Ctas, Graph, PathType};
pub use fabric::fabric;
pub use machine::{Capability, Processor, Told, gpus_named};
pub use machines::{Place, names as machines};
pub use printed::{Printed, Tenths};
pub use ranges::{Range, ranges};
pub use schedule::logged_channels;
pub use settings::{Settings, assignments};
pub use startup::{Starting, Startup};
pub use table::Table;
pub use version::Version;
pub use why::{Out, why_not};

use crate::base::quantity::without_zeros;

/// A rate of 10^9 bytes per second in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Gbps(pub f32);

/// A float32 with nine digits, which identify it uniquely, as C's `%.9g` does.
#[must_use]
pub fn float(number: f32) -> String {
    let mut text = Vec::new();
    write_float(&mut text, number);
    text.into_iter().map(char::from).collect()
}

/// Writes a float32 with nine digits, which identify it uniquely, as C's `%.9g` does.
pub fn write_float(text: &mut Vec<u8>, number: f32) {
    const DIGITS: i32 = 9;
    let wide = f64::from(number);
    if number == 0.0 {
        text.push(b'0');
        return;
    }
    if !(1e-3..1e8).contains(&wide) {
        text.extend_from_slice(shaped(wide).as_bytes());
        return;
    }
    // The product is exact: 24 bits of the number, at most 26 of a power of five.
    let below = (-3..8).rev().find(|&power| wide >= DECIMALS[(power + 3) as usize]);
    let mut exponent = below.unwrap_or(-3);
    let mut digits = whole_part(wide * POWERS[(DIGITS - 1 - exponent) as usize]);
    if digits == 1_000_000_000 {
        (exponent, digits) = (exponent + 1, digits / 10);
    }
    // The digits from the last one, without trailing zeros.
    let mut buffer = [b'0'; DIGITS as usize];
    let mut kept = 0;
    for (at, digit) in buffer.iter_mut().enumerate().rev() {
        *digit = b'0' + (digits % 10) as u8;
        digits /= 10;
        if kept == 0 && *digit != b'0' {
            kept = at + 1;
        }
    }
    let before = (exponent + 1).max(0) as usize;
    if before == 0 {
        text.extend_from_slice(b"0.");
        text.extend((exponent..-1).map(|_| b'0'));
    }
    text.extend_from_slice(&buffer[..before]);
    if kept > before {
        if before > 0 {
            text.push(b'.');
        }
        text.extend_from_slice(&buffer[before..kept]);
    }
}

/// The powers of ten from 10⁰ on, exactly.
const POWERS: [f64; 12] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11];

/// The powers of ten from 10⁻³ on. No float32 is between one of the fractions and its exact value.
const DECIMALS: [f64; 11] = [1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

/// The nearest whole number, ties to even; for numbers of at most ten digits.
fn whole_part(number: f64) -> u32 {
    let below = number as u32;
    let rest = number - f64::from(below);
    below + u32::from(rest > 0.5 || (rest == 0.5 && below % 2 == 1))
}

/// Writes a whole number; the standard formatter takes several times as long.
pub fn write_whole(text: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// So large or so small a number in the form that C chooses for it.
fn shaped(number: f64) -> String {
    let text = format!("{number:.8e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..9).contains(&exponent) {
        let text = format!("{number:.*}", (8 - exponent).unsigned_abs() as usize);
        return without_zeros(&text).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}
