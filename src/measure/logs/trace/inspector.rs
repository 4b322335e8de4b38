//! NCCL's and RCCL's Inspector: one JSON object per line and call, or laid out over several lines as in its README.
//!
//! ```text
//! {"header": {"id": "0x5be1", "rank": 0, "n_ranks": 8, "nnodes": 1}, "metadata": {…, "hostname": "a"},
//!  "coll_perf": {"coll": "AllReduce", "coll_sn": 40, "coll_msg_size_bytes": 67108864,
//!                "coll_exec_time_us": 345, "coll_timing_source": "kernel_gpu", …}}
//! ```
//!
//! `coll_msg_size_bytes` is the count in NCCL's API times the size of the type: a rank's block for
//! all-gather and reduce-scatter. `coll_sn` counts per communicator and collective. Times are whole
//! microseconds; CPU times include launch and polling. Source: NVIDIA/nccl 2.30 plugins/profiler/inspector.

use std::io::BufRead;

use super::calls::{Calls, Group, Kind, Seen};
use super::json::{leaves, text, whole};
use super::{Fault, Head, Input};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::base::size_is::SizeIs;

/// The Inspector writes no longer lines: verbose ones contain some events per channel.
const LONGEST: usize = 1 << 20;

/// The warning of a dump that lacks calls.
const DROPPED: &str = "the Inspector overwrote calls before it wrote them: NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, of \
                       sends NCCL_INSPECTOR_DUMP_P2P_RING_SIZE, keeps more";

pub(super) fn is(head: &Head) -> bool {
    head.has("\"coll_perf\"") || head.has("\"p2p_perf\"")
}

pub(super) fn read(input: Input, file: &str, calls: &mut Calls) -> Result<(), Fault> {
    let mut input = input.stream();
    let (mut line, mut record) = (Vec::new(), Vec::new());
    let (mut number, mut first, mut braces) = (0, 1, Braces::default());
    let mut above = Header::default();
    loop {
        line.clear();
        number += 1;
        let read =
            std::io::Read::take(&mut *input, LONGEST as u64 + 1).read_until(b'\n', &mut line)?;
        let object = line.trim_ascii();
        // Another one begins, or nothing follows.
        if (read == 0 || object.starts_with(b"{\"")) && !record.is_empty() {
            calls.cut_off(file, first);
            record.clear();
        }
        if read == 0 {
            return Ok(());
        }
        if line.len() > LONGEST || record.len() > LONGEST {
            return Err(Fault::Long(0));
        }
        if record.is_empty() {
            (first, braces) = (number, Braces::default());
        }
        record.extend_from_slice(object);
        braces.add(object);
        if record.is_empty() || braces.depth > 0 {
            continue;
        }
        match take(&record, &above, calls, first) {
            Some(Taken::Call) => {}
            Some(Taken::Marker(header)) => above = header,
            None => calls.leave_out("a line that is not a record of the Inspector", first),
        }
        record.clear();
    }
}

/// How many objects a record has begun and not ended: each byte is looked at once.
#[derive(Default)]
struct Braces {
    depth: i64,
    quoted: bool,
    escaped: bool,
}

impl Braces {
    fn add(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.quoted => self.escaped = true,
                b'"' => self.quoted = !self.quoted,
                b'{' if !self.quoted => self.depth += 1,
                b'}' if !self.quoted => self.depth -= 1,
                _ => {}
            }
        }
    }
}

/// What a record is.
enum Taken {
    Call,
    /// The beginning of a communicator's dump, whose header is that of the records below it (from v4.3 on).
    Marker(Header),
}

/// Whose calls a dump has.
#[derive(Default)]
struct Header {
    id: Vec<u8>,
    name: Vec<u8>,
    rank: Option<u64>,
    ranks: Option<u64>,
    nodes: Option<u64>,
}

/// The relevant fields of one line.
#[derive(Default)]
struct Line<'a> {
    id: &'a [u8],
    name: &'a [u8],
    rank: Option<u64>,
    ranks: Option<u64>,
    nodes: Option<u64>,
    what: &'a [u8],
    sequence: Option<u64>,
    peer: Option<u64>,
    size: Option<u64>,
    /// Microseconds.
    time: Option<f64>,
    source: &'a [u8],
    /// Calls that were overwritten before they were written; `None` if it is not the beginning of a dump.
    dropped: Option<u64>,
    is_of_proxy: bool,
}

/// The fields of an object below a header, unless it has its own.
fn parts<'a>(object: &'a [u8], above: &'a Header) -> Line<'a> {
    let Header { id, name, rank, ranks, nodes } = above;
    let (rank, ranks, nodes) = (*rank, *ranks, *nodes);
    let mut line = Line { id, name, rank, ranks, nodes, ..Line::default() };
    for (within, key, value) in leaves(object) {
        match (within.unwrap_or_default(), key) {
            (b"header", b"id") => line.id = value,
            (b"header", b"comm_name") => line.name = value,
            (b"header", b"rank") => line.rank = whole(value),
            (b"header", b"n_ranks") => line.ranks = whole(value),
            (b"header", b"nnodes") => line.nodes = whole(value),
            (b"coll_perf" | b"p2p_perf", key) => match key {
                b"coll" | b"p2p" => line.what = value,
                b"coll_sn" | b"p2p_sn" => line.sequence = whole(value),
                b"p2p_peer" => line.peer = whole(value),
                b"coll_msg_size_bytes" | b"p2p_msg_size_bytes" => line.size = whole(value),
                b"coll_exec_time_us" | b"p2p_exec_time_us" => line.time = micros(value),
                b"coll_timing_source" | b"p2p_timing_source" => line.source = value,
                _ => {}
            },
            (b"dump_stats", b"coll_dropped_total" | b"p2p_dropped_total") => {
                *line.dropped.get_or_insert(0) += whole(value).unwrap_or(0);
            }
            (b"dump_stats", _) => line.dropped = line.dropped.or(Some(0)),
            (b"proxy_trace", _) => line.is_of_proxy = true,
            _ => {}
        }
    }
    line
}

fn micros(value: &[u8]) -> Option<f64> {
    let number = std::str::from_utf8(value).ok()?.trim().parse().ok();
    number.filter(|time: &f64| time.is_finite() && *time >= 0.0)
}

/// M from the size in NCCL's API: a rank's block, or one peer's block for an all-to-all.
pub(super) fn of_the_api(collective: Collective, ranks: u32, size: u64) -> Option<Bytes> {
    let is = match collective {
        Collective::AllToAll => SizeIs::PerPeer,
        _ => SizeIs::PerRank,
    };
    is.total(collective, ranks, Bytes(size)).ok()
}

/// Reads one object below the beginning of its dump; `None` if it is not a record.
fn take(object: &[u8], above: &Header, calls: &mut Calls, number: usize) -> Option<Taken> {
    let line = parts(object, above);
    if let Some(dropped) = line.dropped {
        if dropped > 0 {
            calls.warn(DROPPED);
        }
        let Line { rank, ranks, nodes, .. } = line;
        let (id, name) = (line.id.to_vec(), line.name.to_vec());
        return Some(Taken::Marker(Header { id, name, rank, ranks, nodes }));
    }
    if line.is_of_proxy {
        return Some(Taken::Call);
    }
    let (rank, ranks) = (u32::try_from(line.rank?).ok()?, u32::try_from(line.ranks?).ok()?);
    let (sequence, size, time) = (line.sequence?, line.size?, line.time?);
    let (id, what) = (text(line.id)?, text(line.what)?);
    // Sequences are long-lived: their lower half distinguishes the calls of one job.
    let sequence = sequence as u32;
    let source = text(line.source).unwrap_or_default();
    if !source.is_empty() && source != "kernel_gpu" {
        let why = format!("timed by the CPU ({source}), including launch and polling");
        calls.leave_out(&why, number);
        return Some(Taken::Call);
    }
    if time == 0.0 {
        calls.leave_out("a time of 0", number);
        return Some(Taken::Call);
    }
    let (key, collective, ranks, nodes) = match what.as_ref() {
        // A send and its receive are one transfer of two.
        "Send" | "Recv" => {
            let peer = u32::try_from(line.peer?).ok()?;
            let (from, to) = if what == "Send" { (rank, peer) } else { (peer, rank) };
            (format!("{id} {from} to {to}"), Collective::SendRecv, 2, None)
        }
        "AllGatherV" => {
            calls.leave_out("AllGatherV: blocks of different sizes", number);
            return Some(Taken::Call);
        }
        other => match other.parse() {
            Ok(collective) => (format!("{id} {what}"), collective, ranks, line.nodes),
            Err(_) => {
                calls.leave_out("an unknown collective", number);
                return Some(Taken::Call);
            }
        },
    };
    if rank >= ranks.max(line.ranks? as u32) || ranks < 2 {
        return None;
    }
    let size = of_the_api(collective, ranks, size)?;
    let nodes = nodes.and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
    let group = calls.group(&key, || {
        let name = text(line.name).filter(|n| !n.is_empty() && n != "unknown");
        let name = name.unwrap_or(id).into_owned();
        Group { name, ranks, nodes, host_clock: false }
    });
    if time < 20.0 && time.fract() == 0.0 && collective != Collective::SendRecv {
        calls.warn("times are whole microseconds: those below 20 µs are known to 5 % or worse");
    }
    let kind = calls.kind(Kind { group, collective, size, dtype: None });
    calls.see(Seen { kind, sequence, rank, time: Seconds(time * 1e-6), exposed: None }, number);
    Some(Taken::Call)
}
