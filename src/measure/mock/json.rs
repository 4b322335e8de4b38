//! The document that nccl-tests 2.19 writes with `-J`, with one more key that says it is a prediction.
//!
//! Source of the keys: NVIDIA/nccl-tests 2.19.6 `src/util.cu`, version 3 of the document. Truth values
//! are strings there, numbers have six decimals. Nothing ran, so both times of day are the same.

use serde::Serialize;
use serde_json::value::RawValue;

use super::layout::PID;
use super::{Mock, Place, Row, Step};
use crate::base::quantity::Bytes;

/// The start of a run that does not take place.
const NEVER: &str = "1970-01-01 00:00:00";

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    predicted: Vec<String>,
    start_time: &'static str,
    args: Vec<String>,
    env: [&'static str; 0],
    nccl_version: u32,
    config: Config,
    results: Vec<Line<'a>>,
    out_of_bounds: Count,
    average_bus_bandwidth: Average,
    errors: [&'static str; 1],
    end_time: &'static str,
}

#[derive(Serialize)]
struct Config {
    nthreads: u32,
    ngpus: u32,
    minimum_bytes: u64,
    maximum_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_factor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_bytes: Option<u64>,
    warmup_iters: u32,
    iterations: u32,
    aggregated_iterations: u32,
    validation: u32,
    graph: u32,
    blocking_collectives: &'static str,
    per_iter_timing: &'static str,
    per_iter_skip: u32,
    parallel_init: &'static str,
    devices: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    rank: u32,
    group: u32,
    pid: u32,
    hostname: String,
    device: u32,
    device_hex: String,
    device_info: String,
}

#[derive(Serialize)]
struct Line<'a> {
    size: u64,
    count: u64,
    #[serde(rename = "type")]
    dtype: &'a str,
    redop: &'a str,
    root: String,
    out_of_place: Figures,
    in_place: Figures,
    actual_iterations: u32,
    experiment_name: &'static str,
}

#[derive(Serialize)]
struct Figures {
    time: Box<RawValue>,
    alg_bw: Box<RawValue>,
    bus_bw: Box<RawValue>,
    nwrong: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Count {
    count: u32,
    okay: &'static str,
}

#[derive(Serialize)]
struct Average {
    bandwidth: Box<RawValue>,
    okay: &'static str,
}

impl Mock {
    /// The document, in one line without an end.
    #[must_use]
    pub fn json(&self) -> String {
        let ask = &self.ask;
        let (step_factor, step_bytes) = match ask.sizes.step {
            Step::Factor(factor) => (Some(factor), None),
            Step::Plus(Bytes(more)) => (None, Some(more)),
        };
        let document = Document {
            version: 3,
            predicted: self.heading(),
            start_time: NEVER,
            args: self.arguments(),
            env: [],
            nccl_version: 0,
            config: Config {
                nthreads: 1,
                ngpus: 1,
                minimum_bytes: ask.sizes.first.0,
                maximum_bytes: ask.sizes.last.0,
                step_factor,
                step_bytes,
                warmup_iters: ask.warmup,
                iterations: ask.iterations,
                aggregated_iterations: 1,
                validation: ask.check,
                graph: 0,
                blocking_collectives: "false",
                per_iter_timing: "false",
                per_iter_skip: 0,
                parallel_init: "false",
                devices: self.listed(),
            },
            results: self.rows.iter().map(|row| self.line(row)).collect(),
            out_of_bounds: Count { count: 0, okay: "true" },
            average_bus_bandwidth: Average {
                bandwidth: six(self.average.0 / 1e9),
                okay: "unchecked",
            },
            errors: [""],
            end_time: NEVER,
        };
        // Structs of strings and numbers always serialise.
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// The command that would have started nccl-tests.
    fn arguments(&self) -> Vec<String> {
        let ask = &self.ask;
        let (flag, step) = match ask.sizes.step {
            Step::Factor(factor) => ("-f", factor),
            Step::Plus(Bytes(more)) => ("-i", more),
        };
        let numbers = [
            ("-b", ask.sizes.first.0),
            ("-e", ask.sizes.last.0),
            (flag, step),
            ("-n", ask.iterations.into()),
            ("-w", ask.warmup.into()),
            ("-c", ask.check.into()),
        ];
        let mut words = vec![ask.program.name.to_owned()];
        words.extend(numbers.iter().flat_map(|(flag, n)| [(*flag).to_owned(), n.to_string()]));
        words.extend(["-d".to_owned(), ask.dtype.to_owned()]);
        if ask.program.reduces {
            words.extend(["-o".to_owned(), ask.redop.to_owned()]);
        }
        if ask.root >= 0 {
            words.extend(["-r".to_owned(), ask.root.to_string()]);
        }
        words
    }

    fn listed(&self) -> Vec<Listed> {
        let one = |device: &super::Device| Listed {
            rank: device.rank,
            group: 0,
            pid: PID + device.rank,
            hostname: device.host(),
            device: device.device,
            device_hex: device.bus(),
            device_info: self.model(),
        };
        self.devices.iter().map(one).collect()
    }

    fn line(&self, row: &Row) -> Line<'_> {
        Line {
            size: row.size.0,
            count: row.count,
            dtype: self.ask.dtype,
            redop: self.ask.redop,
            root: format!("{:6}", self.ask.root),
            out_of_place: figures(&row.out_of_place),
            in_place: figures(&row.in_place),
            actual_iterations: self.ask.iterations,
            experiment_name: "",
        }
    }
}

fn figures(place: &Place) -> Figures {
    Figures {
        time: six(place.time.0 * 1e6),
        alg_bw: six(place.algbw.0 / 1e9),
        bus_bw: six(place.busbw.0 / 1e9),
        nwrong: place.wrong.map(|wrong| six(wrong as f64)),
    }
}

/// A number with six decimals.
fn six(value: f64) -> Box<RawValue> {
    let text = if value.is_finite() { format!("{value:.6}") } else { "\"nan\"".to_owned() };
    RawValue::from_string(text).unwrap_or_default()
}
