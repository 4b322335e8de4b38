//! The trace of torch.profiler: Kineto's JSON in Chrome's format, a file per rank.
//!
//! ```text
//! {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4, …}, "traceEvents": [
//!  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": …, "args": {"External id": 100, …}},
//!  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_…", "ts": 1005.9, "dur": 324.987,
//!   "args": {"External id": 100, "Collective name": "allreduce", "In msg nelems": 33554432,
//!    "Out msg nelems": 33554432, "Group size": 4, "dtype": "BFloat16", "Process Group Name": "0",
//!    "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 1}}, …]}
//! ```
//!
//! A kernel's time is the call's. The kernel, or in older traces the host's operation with the same
//! `External id`, states what the call was. Over Gloo there are no kernels but ranges of the host's clock,
//! `gloo:all_reduce`, with shapes if they were recorded. Calls are joined by `Seq`, or by their order. A send has
//! only `Dst Rank`, a receive only `Src Rank`, and `Rank` is then the peer's too: the other end is the trace's own.
//!
//! Events are read one by one, and only the category of most of them. Source: pytorch/kineto
//! output_json.cpp; pytorch/pytorch torch/csrc/profiler/util.cpp.

use std::collections::HashMap;
use std::io::BufRead;

use super::calls::{BLOCKS, Calls, Group, Kind, NONE, Seen};
use super::json::{Stream, elements, fields, number, text, whole};
use super::torch::{Called, called, dtype, size};
use super::{Fault, Head, Input};
use crate::base::collective::Collective;
use crate::base::order::rising;
use crate::base::quantity::Seconds;

/// The longest event, including the stack and shapes of its operation.
const LONGEST: usize = 1 << 22;

pub(super) fn is(head: &Head) -> bool {
    let list = head.bytes.trim_ascii_start().starts_with(b"[") && head.has("\"ph\"");
    list || head.is_json()
        && (head.has("\"traceEvents\"")
            || head.has("\"distributedInfo\"")
            || head.has("\"deviceProperties\""))
}

pub(super) fn read(input: Input, _: &str, calls: &mut Calls) -> Result<(), Fault> {
    let mut stream = Stream::new(input.stream());
    let mut trace = Trace::default();
    let end = document(&mut stream, &mut trace, calls);
    trace.settle(calls);
    end
}

fn document<R: BufRead>(
    stream: &mut Stream<R>,
    trace: &mut Trace,
    calls: &mut Calls,
) -> Result<(), Fault> {
    if stream.take(b'[')? {
        return events(stream, trace, calls);
    }
    if !stream.take(b'{')? {
        return Err(stream.bad());
    }
    while let Some(key) = stream.key()? {
        match key.as_str() {
            "distributedInfo" => trace.info(stream.raw(LONGEST)?, calls),
            "traceEvents" if stream.take(b'[')? => events(stream, trace, calls)?,
            _ => stream.skip()?,
        }
    }
    Ok(())
}

fn events<R: BufRead>(
    stream: &mut Stream<R>,
    trace: &mut Trace,
    calls: &mut Calls,
) -> Result<(), Fault> {
    while stream.element()? {
        trace.event(stream.raw(LONGEST)?, calls);
    }
    Ok(())
}

/// What a communication event states: the number of its kind, and its position.
#[derive(Clone, Copy)]
struct What {
    kind: u32,
    /// [`NONE`] if the event does not state it.
    sequence: u32,
}

/// A kernel of a collective, or a host's range in its place.
struct Comm {
    start: f64,
    time: f32,
    what: What,
}

#[derive(Default)]
struct Trace {
    rank: Option<u32>,
    world: u32,
    /// How many groups there are, and the name of the first.
    groups: usize,
    group: String,
    comms: Vec<Comm>,
    /// Kernels without metadata, by the host's operation that launched them.
    launched: Vec<(u32, f64, f32)>,
    /// What the host's operations state; `twice` holds those that several calls share.
    host: HashMap<u32, What>,
    twice: Vec<u32>,
    /// Computation: start and time, µs.
    busy: Vec<(f64, f32)>,
    key: String,
    /// Whether a kernel of NCCL was seen, and how many calls of the host.
    kernels: bool,
    called: usize,
    /// A kernel's name in lower case, without what is no letter or digit.
    plain: String,
}

/// The relevant arguments of an event.
#[derive(Default)]
struct Args<'a> {
    name: &'a [u8],
    input: Option<u64>,
    output: Option<u64>,
    dtype: &'a [u8],
    /// Whether its blocks are of different sizes.
    uneven: bool,
    size: Option<u64>,
    group: &'a [u8],
    desc: &'a [u8],
    ranks: &'a [u8],
    ends: (Option<u64>, Option<u64>),
    sequence: Option<u64>,
    id: Option<u64>,
    rank: Option<u64>,
    graph: bool,
    dims: &'a [u8],
    kind: &'a [u8],
}

fn args(object: &[u8]) -> Args<'_> {
    let mut args = Args::default();
    for (key, value) in fields(object) {
        match key {
            b"Collective name" => args.name = value,
            b"In msg nelems" => args.input = whole(value),
            b"Out msg nelems" => args.output = whole(value),
            b"dtype" => args.dtype = value,
            b"In split size" | b"Out split size" => {
                args.uneven |= !are_alike(value);
            }
            b"Group size" => args.size = whole(value),
            b"Process Group Name" => args.group = value,
            b"Process Group Description" => args.desc = value,
            b"Process Group Ranks" => args.ranks = value,
            b"Src Rank" => args.ends.0 = whole(value),
            b"Dst Rank" => args.ends.1 = whole(value),
            b"Seq" => args.sequence = whole(value),
            b"External id" => args.id = whole(value),
            b"Rank" => args.rank = whole(value),
            b"graph node id" => args.graph = whole(value) != Some(0),
            b"Input Dims" => args.dims = value,
            b"Input type" => args.kind = value,
            _ => {}
        }
    }
    args
}

/// Whether all numbers of a list such as `"[2048, 2048]"` are one.
fn are_alike(list: &[u8]) -> bool {
    let mut numbers = list.split(|c| !c.is_ascii_digit()).filter(|number| !number.is_empty());
    let first = numbers.next();
    numbers.all(|number| Some(number) == first)
}

/// An event's category, as far as it is relevant.
#[derive(PartialEq)]
enum Category {
    Kernel,
    Host,
    Other,
}

impl Trace {
    fn info(&mut self, object: &[u8], calls: &mut Calls) {
        for (key, value) in fields(object) {
            match key {
                b"rank" => self.rank = whole(value).map(|r| r as u32),
                b"world_size" => self.world = whole(value).map_or(0, |n| n as u32),
                b"pg_count" => self.groups = whole(value).unwrap_or(0) as usize,
                b"nccl_version" => {
                    calls.library = text(value).map(|v| format!("NCCL {v}"));
                }
                b"pg_config" => {
                    let first = elements(value).next().unwrap_or_default();
                    let desc = fields(first).find(|(key, _)| key == b"pg_desc");
                    self.group = desc.and_then(|(_, d)| text(d)).unwrap_or_default().into_owned();
                }
                _ => {}
            }
        }
    }

    fn event(&mut self, object: &[u8], calls: &mut Calls) {
        let (mut category, mut name, mut start, mut time) = (Category::Other, &b""[..], None, None);
        let mut comm = false;
        for (key, value) in fields(object) {
            match key {
                b"cat" => {
                    category = match value {
                        b"\"kernel\"" => Category::Kernel,
                        b"\"cpu_op\"" | b"\"user_annotation\"" => Category::Host,
                        _ => return,
                    };
                }
                b"name" => {
                    name = value;
                    comm = name.starts_with(b"\"nccl")
                        || name == b"\"record_param_comms\""
                        || name.starts_with(b"\"gloo:");
                    if category == Category::Host && !comm {
                        return;
                    }
                }
                b"ts" => start = number(value),
                b"dur" => {
                    time = number(value).filter(|t| *t >= 0.0);
                    if category == Category::Kernel && !comm && !name.is_empty() {
                        if self.communicates(name) {
                            calls.leave_out(ELSE, 0);
                            return;
                        }
                        // Computation needs nothing more: arguments come last.
                        if let (Some(start), Some(time)) = (start, time) {
                            self.busy.push((start, time as f32));
                        }
                        return;
                    }
                }
                b"args" if comm => {
                    let args = args(value);
                    match category {
                        Category::Kernel => self.kernel(&args, start, time, calls),
                        Category::Host if name.starts_with(b"\"gloo:") => {
                            self.gloo(&text(name).unwrap_or_default(), &args, start, time, calls);
                        }
                        Category::Host if name.starts_with(b"\"record") => self.param(&args, calls),
                        Category::Host => self.called += 1,
                        Category::Other => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a kernel of this name communicates without NCCL. What inductor generates may be named after
    /// the calls beside it.
    fn communicates(&mut self, name: &[u8]) -> bool {
        let letters = name.iter().filter(|c| c.is_ascii_alphanumeric());
        self.plain.clear();
        self.plain.extend(letters.map(|c| char::from(c.to_ascii_lowercase())));
        !self.plain.starts_with("triton") && ELSEWHERE.iter().any(|of| self.plain.contains(of))
    }

    /// A host's operation: it describes a kernel that has no arguments itself.
    fn param(&mut self, args: &Args, calls: &mut Calls) {
        // Of a message it is the peer's.
        let called = text(args.name).map(|name| called(&name));
        let is_message = called == Some(Called::Collective(Collective::SendRecv));
        let rank = args.rank.filter(|_| !is_message).map(|r| r as u32);
        self.rank = self.rank.or(rank);
        // Not needed if kernels state it themselves.
        let Some(id) = args.id.filter(|_| self.comms.is_empty()) else { return };
        // The kernel itself gives the reason if it has metadata.
        let Some(what) = self.what(args, calls, false) else { return };
        if self.host.insert(id as u32, what).is_some() {
            self.twice.push(id as u32);
        }
    }

    fn kernel(&mut self, args: &Args, start: Option<f64>, time: Option<f64>, calls: &mut Calls) {
        self.kernels = true;
        let (Some(start), Some(time)) = (start, time) else {
            return calls.leave_out("a kernel without a time", 0);
        };
        if !args.name.is_empty() {
            if let Some(what) = self.what(args, calls, true) {
                self.comms.push(Comm { start, time: time as f32, what });
            }
        } else if args.graph {
            calls.leave_out(GRAPH, 0);
        } else if let Some(id) = args.id {
            self.launched.push((id as u32, start, time as f32));
        } else {
            calls.leave_out(SILENT, 0);
        }
    }

    /// What an event states; `None` if it is not a call, with the reason recorded if `loud`.
    fn what(&mut self, args: &Args, calls: &mut Calls, loud: bool) -> Option<What> {
        let mut refuse = |why: &str| {
            if loud {
                calls.leave_out(why, 0);
            }
            None
        };
        let collective = match called(&text(args.name)?) {
            Called::Collective(collective) => collective,
            Called::Nothing => return None,
            Called::Barrier => return refuse(BARRIER),
            Called::Uneven => Collective::AllToAll,
            Called::Coalesced | Called::Unknown => return refuse("an unknown call"),
        };
        let uneven = args.uneven || args.input != args.output;
        if uneven && collective == Collective::AllToAll {
            return refuse(BLOCKS);
        }
        let Some(dtype) = text(args.dtype).and_then(|d| dtype(&d)) else {
            return refuse("an unknown type");
        };
        let Some(mut ranks) = args.size.and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0)
        else {
            return refuse("a call without the size of its group");
        };
        if ranks == 1 {
            return refuse("a group of one rank, which communicates nothing");
        }
        let (Some(input), Some(output)) = (args.input, args.output) else {
            return refuse("a call without its elements, or with a negative number of them");
        };
        self.key.clear();
        self.key.push_str(&text(args.group).unwrap_or_default());
        self.key.push('|');
        self.key.push_str(&text(args.ranks).unwrap_or_default());
        if collective == Collective::SendRecv {
            let own = self.rank.map(u64::from);
            let (Some(from), Some(to)) = (args.ends.0.or(own), args.ends.1.or(own)) else {
                return refuse(
                    "a message without its two ends, in a trace that does not say its rank",
                );
            };
            if from == to {
                return refuse("a message of a rank to itself, or without its peer");
            }
            self.key.push_str(&format!("|{from} to {to}"));
            ranks = 2;
        } else if args.ranks.is_empty() {
            self.key.push_str(&ranks.to_string());
        }
        let Some(bytes) = size(collective, input, output, dtype, ranks) else {
            return refuse("too many bytes to count");
        };
        // Each rank numbers its own sends and receives.
        let sequence = args.sequence.filter(|_| collective != Collective::SendRecv);
        if sequence.is_none() {
            // Without a number, the k-th call of one kind is the same on all ranks. The k-th call of all
            // kinds may not be: streams and threads overtake each other.
            self.key.push_str(&format!("|{collective} {bytes}"));
        }
        let group = calls.group(&self.key, || {
            let desc = text(args.desc).filter(|d| !d.is_empty() && d != "undefined");
            let name = desc.or_else(|| text(args.group)).unwrap_or_default().into_owned();
            Group { name, ranks, nodes: None, host_clock: false }
        });
        let kind = calls.kind(Kind { group, collective, size: bytes, dtype: Some(dtype) });
        Some(What { kind, sequence: sequence.map_or(NONE, |s| s as u32) })
    }

    /// A range of the host's clock around a call over Gloo.
    fn gloo(
        &mut self,
        name: &str,
        args: &Args,
        start: Option<f64>,
        time: Option<f64>,
        calls: &mut Calls,
    ) {
        let collective = match called(name) {
            Called::Collective(Collective::SendRecv) => return calls.leave_out(PEERLESS, 0),
            Called::Collective(collective) => collective,
            Called::Barrier => return calls.leave_out(BARRIER, 0),
            _ => return calls.leave_out("an unknown call", 0),
        };
        let (Some(start), Some(time)) = (start, time) else {
            return calls.leave_out("a range without a time", 0);
        };
        if self.groups > 1 || self.world < 2 {
            return calls.leave_out(GROUPLESS, 0);
        }
        let count = elements(args.dims)
            .map(|shape| elements(shape).try_fold(1_u64, |p, side| p.checked_mul(whole(side)?)))
            .try_fold(0_u64, |sum, n| sum.checked_add(n?));
        let kind = elements(args.kind).next().and_then(text);
        let (Some(count), Some(dtype)) = (count.filter(|&n| n > 0), kind.and_then(|k| dtype(&k)))
        else {
            return calls.leave_out(
                "a call over Gloo without shapes: record the trace with record_shapes=True",
                0,
            );
        };
        // The ranges list only inputs: for an all-gather a rank's block, for a scatter the root's, one for each rank.
        let output = match collective {
            Collective::AllGather => count.saturating_mul(u64::from(self.world)),
            Collective::Scatter => count / u64::from(self.world),
            _ => count,
        };
        let Some(size) = size(collective, count, output, dtype, self.world) else {
            return calls.leave_out("too many bytes to count", 0);
        };
        let (ranks, name) = (self.world, format!("{} over Gloo", self.group));
        let group = calls.group(&format!("gloo {collective} {size}"), || Group {
            name,
            ranks,
            nodes: None,
            host_clock: true,
        });
        let kind = calls.kind(Kind { group, collective, size, dtype: Some(dtype) });
        self.comms.push(Comm { start, time: time as f32, what: What { kind, sequence: NONE } });
    }

    /// Passes on the calls of this rank.
    fn settle(mut self, calls: &mut Calls) {
        if !self.kernels && self.comms.is_empty() {
            (0..self.called).for_each(|_| calls.leave_out(HOST_ALONE, 0));
        }
        self.twice.sort_unstable();
        for (id, start, time) in std::mem::take(&mut self.launched) {
            match self.host.get(&id) {
                Some(_) if self.twice.binary_search(&id).is_ok() => {
                    calls.leave_out(
                        "several calls that run as one kernel: its time covers all of them",
                        0,
                    );
                }
                Some(&what) => self.comms.push(Comm { start, time, what }),
                None => calls.leave_out(SILENT, 0),
            }
        }
        drop(std::mem::take(&mut self.host));
        let busy = union(std::mem::take(&mut self.busy));
        rising(&mut self.comms, |a| a.start);
        let rank = self.rank.unwrap_or(calls.file.saturating_sub(1));
        let mut order: HashMap<u32, u32> = HashMap::new();
        for comm in &self.comms {
            let Some(kind) = calls.kind_of(comm.what.kind) else { continue };
            let sequence = match comm.what.sequence {
                NONE => {
                    let next = order.entry(kind.group).or_default();
                    *next += 1;
                    *next - 1
                }
                said => said,
            };
            let time = f64::from(comm.time);
            let hidden = covered(&busy, comm.start, comm.start + time);
            let exposed = (!busy.is_empty()).then(|| Seconds((time - hidden).max(0.0) * 1e-6));
            let seen =
                Seen { kind: comm.what.kind, sequence, rank, time: Seconds(time * 1e-6), exposed };
            calls.see(seen, 0);
        }
    }
}

/// Kernels that communicate without NCCL, by letters and digits of their names: all-reduces of PyTorch's symmetric
/// memory, vLLM, SGLang, FlashInfer, TensorRT-LLM, MSCCL++ and QuickReduce, and exchanges between experts. Their
/// sizes are not in a trace. Sources: flashinfer-ai/flashinfer include/flashinfer/comm and
/// csrc/nv_internal/tensorrt_llm/kernels/communicationKernels; sgl-project/sglang
/// jit_kernel/csrc/distributed/custom_all_reduce.cuh; microsoft/mscclpp src/ext/collectives; deepseek-ai/DeepEP.
const ELSEWHERE: [&str; 10] = [
    "allreduce",
    "multimem",
    "crossdevicereduce",
    // It waits for what `twoshotAllreduceKernel` sends.
    "rmsnormlamport",
    "mixedcomm",
    "mscclpp",
    "moea2a",
    "alltoall",
    "deepep",
    "nvshmem",
];
const ELSE: &str = "a kernel that communicates without NCCL: its size is not known";
const BARRIER: &str = "a barrier, implemented as an all-reduce of one element";
const PEERLESS: &str = "a message over Gloo: the trace does not state between which ranks";
const GRAPH: &str = "a kernel of a CUDA graph: a replay has no metadata, and therefore no size";
/// Why a kernel is left out whose call nothing describes. What older releases of PyTorch record of the host has shapes,
/// and no group.
pub(super) const SILENT: &str =
    "a kernel without metadata: neither it nor a call of the host states its size and its group";
pub(super) const GROUPLESS: &str = "a call over Gloo whose group the trace does not state";
pub(super) const HOST_ALONE: &str = "a call of the host, whose kernel the trace does not have";

/// Disjoint intervals in order, start and end.
fn union(mut busy: Vec<(f64, f32)>) -> Vec<(f64, f64)> {
    rising(&mut busy, |a| a.0);
    let mut all: Vec<(f64, f64)> = Vec::new();
    for (start, time) in busy {
        let end = start + f64::from(time);
        match all.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

/// How much of `from` to `to` the intervals cover.
fn covered(busy: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let first = busy.partition_point(|b| b.1 <= from);
    let within = busy[first..].iter().take_while(|b| b.0 < to);
    within.map(|b| b.1.min(to) - b.0.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computation_covers_is_not_exposed() {
        let busy = union(vec![(5.0, 2.0), (0.0, 1.0), (6.0, 3.0)]);
        assert_eq!(busy, [(0.0, 1.0), (5.0, 9.0)]);
        assert!((covered(&busy, 0.5, 6.0) - 1.5).abs() < 1e-9);
        assert!(covered(&busy, 2.0, 3.0).abs() < 1e-9);
    }
}
