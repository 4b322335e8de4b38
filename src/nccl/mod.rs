//! NCCL's tuner, decision for decision: which algorithm, protocol, channels and threads it takes.
//!
//! For every function, algorithm and protocol the tuner keeps a latency and a bandwidth, computed
//! once a communicator from the graphs that its search found ([`Table`]); a call takes the cell
//! with the least `latency + bytes/bandwidth` ([`Chooser`]). All of it is float32 arithmetic, and
//! is reproduced bit for bit for x86-64 builds of 2.18.3, 2.21.5, 2.27.3 and 2.30.7.
//!
//! Source: NVIDIA/nccl at those tags, `src/graph/tuning.cc` (tables), `src/enqueue.cc` (choice,
//! channels, threads), `src/graph/connect.cc` and `src/init.cc` (channels of a communicator).

mod choose;
pub mod comms;
mod communicator;
mod constants;
pub mod envs;
mod machines;
mod names;
mod ranges;
mod schedule;
mod settings;
mod table;
mod version;
mod why;

pub use choose::{Call, Chooser, Decision, Element, Operation, Reduction};
pub use communicator::{Arch, Communicator, Graph, PathType, Vendor};
pub use machines::{Place, names as machines};
pub use names::{Algo, Function, Proto};
pub use ranges::{Range, ranges};
pub use schedule::logged_channels;
pub use settings::Settings;
pub use table::Table;
pub use version::{Asked, Version};
pub use why::{Out, why_not};

/// A rate of 10^9 bytes a second in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Gbps(pub f32);

/// A time in microseconds in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Micros(pub f32);

/// Writes a float32 with the nine digits that tell it from every other, as C's `%.9g` does.
pub fn write_float(text: &mut String, number: f32) {
    use std::fmt::Write as _;

    const DIGITS: i32 = 9;
    if number == 0.0 {
        text.push('0');
        return;
    }
    // Writing into a string cannot fail.
    let start = text.len();
    let _ = write!(text, "{:.8e}", f64::from(number));
    let Some(e) = text[start..].find('e') else { return };
    let Ok(exponent) = text[start + e + 1..].parse::<i32>() else { return };
    text.truncate(start);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent).unsigned_abs() as usize;
        let _ = write!(text, "{:.*}", decimals, f64::from(number));
        trim_zeros(text, start);
    } else {
        let _ = write!(text, "{:.8}", f64::from(number) / 10f64.powi(exponent));
        trim_zeros(text, start);
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
