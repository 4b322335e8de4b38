//! The JSON of nccl-tests, `-J FILE`: one document per run, in one line.
//!
//! ```text
//! {"version":1,"args":["./build/all_reduce_perf","-g","8"],"nccl_version":22907,
//!  "config":{"nthreads":1,"ngpus":8,"iterations":20,…,"devices":[{"rank":0,"hostname":"node1",…}]},
//!  "results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",
//!    "out_of_place":{"time":17.95,"alg_bw":0.0,"bus_bw":0.0,"nwrong":0.0},"in_place":{…}},…],…}
//! ```
//!
//! A process lists only its first GPU, so N is the devices times the GPUs and threads of each process.
//! `nan` and truth values are written as strings. The `-J` of rccl-tests says `rccl_version`.
//!
//! Source: NVIDIA/nccl-tests 2.17 to 2.19.6 `src/util.cu`; ROCm/rocm-systems `projects/rccl-tests/src/util.cu`.

use std::io::{BufRead, Read as _};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::draft::{Draft, Raw, Redop};
use super::nccl_tests::devices::{divided, gpus, nodes};
use super::nccl_tests::{between_readings, caveats, name, version};
use super::{JSON, Measured, Parts};
use crate::base::encoding::MARK;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::sample::{DataType, Mode};

/// The largest file that is read: its documents must fit in memory as a whole.
const LARGEST: u64 = 256 << 20;

#[derive(Deserialize)]
struct Document<'a> {
    /// What `collcost mock` says of itself.
    #[serde(default)]
    predicted: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    /// The environment, as `NAME=value`.
    #[serde(default)]
    env: Vec<String>,
    nccl_version: Option<u64>,
    /// rccl-tests has it in that one's place.
    rccl_version: Option<u64>,
    #[serde(default)]
    config: Config,
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
    out_of_bounds: Option<OutOfBounds>,
}

#[derive(Deserialize, Default)]
struct Config {
    nthreads: Option<u32>,
    ngpus: Option<u32>,
    iterations: Option<u32>,
    aggregated_iterations: Option<u32>,
    graph: Option<u32>,
    blocking_collectives: Option<String>,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    rank: Option<u32>,
    group: Option<u32>,
    hostname: Option<String>,
    device_hex: Option<String>,
    device_info: Option<String>,
}

#[derive(Deserialize)]
struct OutOfBounds {
    count: u64,
}

#[derive(Deserialize)]
struct Line {
    size: u64,
    count: Option<u64>,
    #[serde(rename = "type")]
    dtype: Option<String>,
    redop: Option<String>,
    root: Option<String>,
    out_of_place: Option<Place>,
    in_place: Option<Place>,
}

#[derive(Deserialize)]
struct Place {
    time: Option<Figure>,
    cpu_time: Option<Figure>,
    alg_bw: Option<Figure>,
    bus_bw: Option<Figure>,
    nwrong: Option<Figure>,
}

/// A number, or `nan` as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Figure {
    Number(f64),
    Text(#[allow(dead_code)] String),
}

impl Figure {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(x) => Some(*x).filter(|x| x.is_finite()),
            Self::Text(_) => None,
        }
    }
}

/// Whether a file begins as a document.
pub(super) fn is(head: &[u8]) -> bool {
    let head = head.strip_prefix(MARK.as_bytes()).unwrap_or(head);
    let mut text = head.iter().filter(|b| !b.is_ascii_whitespace());
    let head = &head[..head.len().min(1 << 16)];
    let has = |key: &[u8]| head.windows(key.len()).any(|part| part == key);
    // Logs also contain JSON lines of other programs, and the events of traces have arguments, too.
    let is_trace = has(b"\"ph\"");
    // What ncclras prints is no run.
    let is_state = has(b"\"communicators_count\"");
    text.next() == Some(&b'{')
        && !is_state
        && (has(b"\"args\"") && !is_trace || has(b"\"nccl_version\""))
}

/// Reads the documents of `file`, one after another, and what they say of their runs.
pub(super) fn read(input: impl BufRead, file: &str) -> Result<(Vec<Draft>, Parts)> {
    const MEND: &str = "give the whole file that -J wrote, or the printed table";
    let mut bytes = Vec::new();
    let fault = |what: String| Error::input(what).at(file).help(MEND);
    let read = input.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|e| fault(format!("the log cannot be read: {e}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(fault(format!("the document is larger than {} MiB", LARGEST >> 20)));
    }
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text.trim_start_matches(MARK),
        Err(_) => return Err(fault("the document is not UTF-8".to_owned())),
    };
    let (mut drafts, mut evidence) = (Vec::new(), Parts::default());
    let documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    for document in documents {
        let damaged = |e: &serde_json::Error, first: usize| {
            let line = first + e.line().max(1) - 1;
            let what = match e.is_eof() {
                true => "the document is cut off".to_owned(),
                false => format!("this is not a document of nccl-tests: {e}"),
            };
            Error::input(what).at(format!("{file}:{line}")).help(MEND)
        };
        let raw = document.map_err(|e| damaged(&e, 1))?;
        let first = line_of(text, raw.get());
        let document: Document = serde_json::from_str(raw.get()).map_err(|e| damaged(&e, first))?;
        document.tell(&mut evidence, drafts.len());
        drafts.push(draft(&document, text, first, file)?);
    }
    Ok((drafts, evidence))
}

impl Document<'_> {
    /// Passes on what a printed log says of its run in lines.
    fn tell(&self, evidence: &mut Parts, tables: usize) {
        let is_of_library = |set: &&String| set.starts_with("NCCL_") || set.starts_with("RCCL_");
        let set: Vec<&str> = self.env.iter().filter(is_of_library).map(String::as_str).collect();
        let set = set.join(" ");
        evidence.command(&set, tables);
        evidence.take(&set);
        if let (Some(threads), Some(gpus)) = (self.config.nthreads, self.config.ngpus) {
            evidence.take(&format!("nThread {threads} nGpus {gpus} "));
        }
        evidence.settle();
    }
}

/// The line of `part`, a piece of `text`.
fn line_of(text: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
}

fn draft(document: &Document, text: &str, first: usize, file: &str) -> Result<Draft> {
    let Document {
        predicted,
        args,
        nccl_version,
        rccl_version,
        config,
        results,
        out_of_bounds,
        ..
    } = document;
    let program = args.first().map_or("", |p| p.rsplit('/').next().unwrap_or(p));
    let mut draft = Draft::new(JSON, first, program);
    name(&mut draft, program);
    let library =
        |name: &str, code: &Option<u64>| code.map(|code| format!("{name} {}", version(code)));
    draft.library = library("NCCL", nccl_version).or(library("RCCL", rccl_version));
    devices(&mut draft, config);
    let (merged, graph) = (config.aggregated_iterations.unwrap_or(1), config.graph.unwrap_or(0));
    draft.iterations = between_readings(config.iterations.unwrap_or(1), merged, graph);
    caveats(&mut draft, merged, graph, !predicted.is_empty());
    draft.mode = Mode::Stream;
    if config.blocking_collectives.as_deref() == Some("true") {
        draft.blocking();
    }
    // Lines are counted incrementally, as documents in one line may be long.
    let (mut line, mut seen) = (first, results.first().map_or(0, |r| offset(text, r.get())));
    line += text.as_bytes()[..seen].iter().filter(|&&b| b == b'\n').count() + 1 - first;
    for raw in results {
        let at = offset(text, raw.get());
        line += text.as_bytes()[seen..at].iter().filter(|&&b| b == b'\n').count();
        seen = at;
        match serde_json::from_str::<Line>(raw.get()) {
            Ok(result) => rows(&mut draft, &result, line, file)?,
            Err(_) => draft.leave_out(line, "the result lacks its size or has other fields"),
        }
    }
    if let Some(OutOfBounds { count }) = out_of_bounds.as_ref().filter(|found| found.count > 0) {
        Draft::failed(std::slice::from_mut(&mut draft), &count.to_string());
    }
    Ok(draft)
}

fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

fn devices(draft: &mut Draft, config: &Config) {
    let devices = &config.devices;
    if devices.is_empty() {
        return;
    }
    let each = config.nthreads.unwrap_or(1).saturating_mul(config.ngpus.unwrap_or(1)).max(1);
    let all = (devices.len() as u32).saturating_mul(each);
    if devices.iter().filter(|d| d.rank == Some(0)).count() > 1 {
        draft.ranks.push((1, "list of devices"));
        return;
    }
    let group = |device: &Device| device.group.unwrap_or(0);
    divided(draft, devices.iter().map(group).collect(), all);
    gpus(draft, devices.iter().filter_map(|d| d.device_info.as_deref()));
    draft.nodes =
        nodes(devices.iter().map(|d| (group(d), d.hostname.as_deref().unwrap_or_default())));
    for (i, one) in devices.iter().enumerate() {
        let shared = devices[i + 1..].iter().find(|o| {
            one.device_hex.as_deref().is_some_and(|bus| bus.contains(':'))
                && (&o.device_hex, &o.hostname) == (&one.device_hex, &one.hostname)
        });
        if let (Some(_), Some(bus)) = (shared, &one.device_hex) {
            draft.shares_gpus = true;
            draft
                .warn(format!("ranks share the GPU [{bus}]: the times do not measure the machine"));
            return;
        }
    }
}

fn rows(draft: &mut Draft, result: &Line, line: usize, file: &str) -> Result<()> {
    for (place, in_place) in [(&result.out_of_place, false), (&result.in_place, true)] {
        let Some(place) = place else { continue };
        if place.time.is_none() && place.cpu_time.is_some() {
            draft.refuse(
                "the times are CPU times, and the CPU only starts the collective",
                "run it without -C",
            );
        }
        let number = |f: &Option<Figure>| f.as_ref().and_then(Figure::number);
        let Some(time) = number(&place.time) else { continue };
        if time < 0.0 {
            return Err(Error::input(format!("`{time}` is a negative time"))
                .at(format!("{file}:{line}"))
                .help("remove the damaged part and run again"));
        }
        if time == 0.0 {
            draft.leave_out(line, "a time of 0");
            continue;
        }
        // Six decimals, so rounding of large rates affects no N.
        let rates = number(&place.alg_bw).zip(number(&place.bus_bw));
        let factor = rates.filter(|(a, b)| *a > 1e-3 && *b > 0.0).map(|(a, b)| {
            let h = 0.5e-6;
            (Ratio((b - h) / (a + h)), Ratio((b + h) / (a - h)))
        });
        draft.rows.push(Raw {
            line,
            size: result.size,
            count: result.count,
            dtype: result.dtype.as_deref().and_then(DataType::named),
            in_place,
            measured: Measured::Time(Seconds(time * 1e-6)),
            wrong: number(&place.nwrong).map(|n| n.max(0.0) as u64),
            factor,
            redop: result.redop.as_deref().and_then(Redop::named),
            root: result.root.as_deref().and_then(|r| r.trim().parse().ok()),
            traced: None,
        });
    }
    Ok(())
}
