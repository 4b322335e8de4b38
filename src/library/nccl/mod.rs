//! NCCL's tuner, decision for decision: which algorithm, protocol, channels and threads it takes.
//!
//! For every function, algorithm and protocol the tuner keeps a latency and a bandwidth, computed
//! once a communicator from the graphs that its search found ([`Table`]); a call takes the cell
//! with the least `latency + bytes/bandwidth` ([`Chooser`]). All of it is float32 arithmetic, and
//! is reproduced bit for bit for x86-64 builds of every release from 2.18.1 to 2.30.7.
//!
//! The graphs come from tables and logs, or from the search itself: [`topology`] is a machine as
//! NCCL sees it, [`search`] what it finds there.
//!
//! Source: NVIDIA/nccl at their tags, `src/graph/tuning.cc` (tables), `src/enqueue.cc` (choice,
//! channels, threads), `src/graph/connect.cc` and `src/init.cc` (channels of a communicator).

mod allowed;
mod blocks;
mod bounds;
mod call;
mod choose;
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
mod tuner;
mod version;
mod why;

pub use crate::machine::nccl::{Algo, Arch, Function, Micros, Proto, Vendor};
pub use bounds::{Allowed, Behind, Bounds};
pub use call::{Call, Decision, Element, Operation, Reduction};
pub use choose::Chooser;
pub use communicator::{Communicator, Graph, PathType};
pub use fabric::fabric;
pub use machine::{Capability, Processor, Told};
pub use machines::{Place, names as machines};
pub use printed::{Printed, Tenths};
pub use ranges::{Range, ranges};
pub use schedule::logged_channels;
pub use settings::{Settings, assignments};
pub use startup::{Starting, Startup};
pub use table::Table;
pub use version::Version;
pub use why::{Out, why_not};

/// A rate of 10^9 bytes per second in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Gbps(pub f32);

/// Writes a float32 with the nine digits that tell it from every other, as C's `%.9g` does.
pub fn write_float(text: &mut String, number: f32) {
    use std::fmt::Write as _;

    const DIGITS: i32 = 9;
    let wide = f64::from(number);
    if number == 0.0 {
        text.push('0');
        return;
    }
    // Writing into a string cannot fail.
    let start = text.len();
    if !(1e-3..1e8).contains(&wide) {
        let _ = write!(text, "{wide:.8e}");
        return shape(text, start, wide);
    }
    // The product is exact: 24 bits of the number, at most 26 of a power of five.
    let mut exponent = wide.log10().floor() as i32;
    let mut digits = (wide * 10f64.powi(DIGITS - 1 - exponent)).round_ties_even();
    if digits >= 1e9 {
        exponent += 1;
        digits = (wide * 10f64.powi(DIGITS - 1 - exponent)).round_ties_even();
    }
    let point = (exponent + 1).max(0) as usize;
    for _ in exponent..-1 {
        text.push('0');
    }
    write_whole(text, digits as u64);
    text.insert_str(start + point, if point == 0 { "0." } else { "." });
    trim_zeros(text, start);
}

/// Writes a whole number; the formatter takes several times as long.
pub fn write_whole(text: &mut String, number: u64) {
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
    text.extend(digits[at..].iter().map(|&digit| char::from(digit)));
}

/// Turns `d.dddddddde±x` into the form that C chooses for so large or small a number.
fn shape(text: &mut String, start: usize, number: f64) {
    use std::fmt::Write as _;

    let Some((mantissa, exponent)) = text[start..].split_once('e') else { return };
    let Ok(exponent) = exponent.parse::<i32>() else { return };
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.').len();
    text.truncate(start + mantissa);
    if (-4..9).contains(&exponent) {
        text.truncate(start);
        let _ = write!(text, "{number:.*}", (8 - exponent).unsigned_abs() as usize);
        trim_zeros(text, start);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "e{sign}{:02}", exponent.abs());
    }
}

fn trim_zeros(text: &mut String, start: usize) {
    if text[start..].contains('.') {
        let kept = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(kept.max(start));
    }
}
