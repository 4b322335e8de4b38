//! Operations that GPUs perform without a library.

use serde::Serialize;

use super::six;
use crate::measure::fit::{DeviceFit, Devices as Fitted};

/// The GPUs of a machine, and the times of their operations.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Devices {
    /// `collcost/devices/1`.
    pub schema: &'static str,
    /// The machine in words.
    pub machine: Option<String>,
    /// The GPUs under their makers' names, if they were detected.
    pub gpus: Vec<String>,
    /// The CUDA version of the driver.
    pub driver: Option<String>,
    /// The library and its version.
    pub library: Option<String>,
    /// Whether the GPU of a row can access the memory of that of a column directly.
    pub reach: Vec<Vec<bool>>,
    /// The time of each operation.
    pub figures: Vec<FigureView>,
    /// What to know about them.
    pub notes: Vec<String>,
    /// The profile that was written.
    pub written: Option<String>,
}

/// The time of an operation: a start time and a rate.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureView {
    /// The operation, as named in samples.
    pub operation: String,
    /// The time of zero bytes.
    pub start_s: f64,
    /// The low end of its 95 % interval.
    pub start_low_s: f64,
    /// The high end.
    pub start_high_s: f64,
    /// The rate for many bytes.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Option<f64>,
    /// The low end of its 95 % interval.
    #[serde(rename = "bandwidth_low_Bps")]
    pub low: Option<f64>,
    /// The high end.
    #[serde(rename = "bandwidth_high_Bps")]
    pub high: Option<f64>,
    /// The number of sizes that were timed.
    pub sizes: usize,
}

/// The report of `found` on `machine`, written to `written`.
#[must_use]
pub fn devices(found: &Fitted, machine: Option<String>, written: Option<String>) -> Devices {
    Devices {
        schema: "collcost/devices/1",
        machine,
        figures: found.figures.iter().map(view).collect(),
        notes: found
            .left_out
            .iter()
            .map(|op| format!("{op} was timed at fewer than four sizes, so it has no fitted line"))
            .collect(),
        written,
        ..Devices::default()
    }
}

fn view(fit: &DeviceFit) -> FigureView {
    let (start, bandwidth) = (fit.ladder.start, fit.bandwidth());
    FigureView {
        operation: fit.op.to_string(),
        start_s: six(start.value.0),
        start_low_s: six(start.low.0),
        start_high_s: six(start.high.0),
        bandwidth: bandwidth.map(|b| six(b.value.0)),
        low: bandwidth.map(|b| six(b.low.0)),
        high: bandwidth.map(|b| six(b.high.0)),
        sizes: fit.ladder.count,
    }
}
