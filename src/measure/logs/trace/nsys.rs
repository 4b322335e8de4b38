//! Nsight Systems' report, exported to SQLite.
//!
//! NCCL marks its calls with NVTX ranges whose payload has the communicator and the size. The kernel's
//! launch is inside the range on the same thread: `NVTX_EVENTS` → `CUPTI_ACTIVITY_KIND_RUNTIME`
//! → `CUPTI_ACTIVITY_KIND_KERNEL`, by `correlationId`. The size is that in NCCL's API, as with the
//! Inspector. The ranges of `ncclCommInitRank` state the ranks; one file may contain several.
//!
//! Source: docs.nvidia.com/nsight-systems, exported data; NVIDIA/nccl src/include/nvtx_payload_schemas.h.

use std::collections::{HashMap, HashSet};

use super::calls::{Calls, Group, Kind, Seen};
use super::inspector::of_the_api;
use super::json::{fields, text, whole};
use super::sqlite::{Database, MAGIC, Table};
use super::{Fault, Head, Input};
use crate::base::collective::Collective;
use crate::base::quantity::Seconds;

pub(super) fn is(head: &Head) -> bool {
    head.bytes.starts_with(MAGIC)
}

/// What a range of NCCL marked.
#[derive(Debug, Clone)]
struct Range {
    thread: i64,
    start: i64,
    end: i64,
    called: Called,
}

#[derive(Debug, Clone, Copy)]
enum Called {
    /// A call, with its communicator, size and the peer of a message.
    Call { collective: Collective, comm: u64, size: u64, peer: Option<u64>, sends: bool },
    /// A call whose range does not state the size.
    Silent,
    /// The end of several calls that run as one kernel.
    Group,
    /// Anything else, such as making a communicator.
    Other,
}

#[derive(Default)]
struct Report {
    /// The relevant strings, by number.
    names: HashMap<i64, String>,
    ranges: Vec<Range>,
    /// Rank and ranks by process and communicator.
    comms: HashMap<(i64, u64), (u32, u32)>,
    /// The range of a launch, by process and correlation.
    launches: HashMap<(i64, i64), u32>,
}

const RECORD: &str =
    "record with nsys profile -t cuda,nvtx, and export with nsys export --type sqlite";

pub(super) fn read(input: Input, _: &str, calls: &mut Calls) -> Result<(), Fault> {
    let Input::File(file) = input else {
        return Err(Fault::Refused(
            "a database is read only from a file, not from a pipe or a compressed file".to_owned(),
            "uncompress it and give its name",
        ));
    };
    let mut database = Database::open(file)?;
    let table = |database: &Database, name: &str, what: &str| {
        database.table(name).ok_or_else(|| {
            Fault::Refused(format!("the database has no table {name}: {what}"), RECORD)
        })
    };
    let nvtx = table(&database, "NVTX_EVENTS", "calls were not recorded")?;
    let kernels = table(&database, "CUPTI_ACTIVITY_KIND_KERNEL", "kernels were not recorded")?;
    let runtime = table(&database, "CUPTI_ACTIVITY_KIND_RUNTIME", "launches were not recorded")?;
    let mut report = Report::default();
    if let Some(strings) = database.table("StringIds") {
        report.strings(&mut database, &strings)?;
    }
    report.ranges(&mut database, &nvtx)?;
    report.launches(&mut database, &runtime)?;
    report.kernels(&mut database, &kernels, calls)
}

/// The process of a thread or process id, as nsys writes both.
fn process(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

impl Report {
    fn strings(&mut self, database: &mut Database, strings: &Table) -> Result<(), Fault> {
        let (id, value) = (strings.column("id"), strings.column("value"));
        database.rows(strings, |row| {
            if let (Some(id), Some(text)) = (row.get(id).int(), row.get(value).text())
                && (text.starts_with("nccl")
                    || text.starts_with('{') && text.contains("NCCL communicator"))
            {
                self.names.insert(id, text.to_owned());
            }
            Ok(())
        })
    }

    fn ranges(&mut self, database: &mut Database, nvtx: &Table) -> Result<(), Fault> {
        let column = |name: &str| nvtx.column(name);
        let (start, end, thread) = (column("start"), column("end"), column("globalTid"));
        let (said, said_id) = (column("text"), column("textId"));
        let (json, json_id) = (column("jsonText"), column("jsonTextId"));
        let (names, ranges, comms) = (&self.names, &mut self.ranges, &mut self.comms);
        database.rows(nvtx, |row| {
            let by_id = |id: Option<usize>| {
                row.get(id).int().and_then(|id| names.get(&id)).map(String::as_str)
            };
            let name = row.get(said).text().or_else(|| by_id(said_id));
            let Some(name) = name.filter(|n| n.starts_with("nccl")) else { return Ok(()) };
            let place = (row.get(thread).int(), row.get(start).int(), row.get(end).int());
            let (Some(thread), Some(start), Some(end)) = place else { return Ok(()) };
            let payload = row.get(json).text().or_else(|| by_id(json_id));
            let payload = Payload::of(payload.unwrap_or_default());
            if let (true, Some(comm), Some(rank), Some(ranks)) =
                (name.starts_with("ncclComm"), payload.comm, payload.rank, payload.ranks)
            {
                comms.insert((process(thread), comm), (rank as u32, ranks as u32));
            }
            ranges.push(Range { thread, start, end, called: payload.called(name) });
            Ok(())
        })?;
        self.ranges.sort_by_key(|r| (r.thread, r.start));
        Ok(())
    }

    /// The range that a thread was inside at a time.
    fn around(&self, thread: i64, time: i64) -> Option<u32> {
        let behind = self.ranges.partition_point(|r| (r.thread, r.start) <= (thread, time));
        // Ranges are nested a few levels deep.
        let near = self.ranges[..behind].iter().enumerate().rev().take(8);
        let mut of_thread = near.take_while(|(_, r)| r.thread == thread);
        of_thread.find(|(_, r)| r.end >= time).map(|(i, _)| i as u32)
    }

    fn launches(&mut self, database: &mut Database, runtime: &Table) -> Result<(), Fault> {
        let column = |name: &str| runtime.column(name);
        let (start, thread, id) = (column("start"), column("globalTid"), column("correlationId"));
        let mut launches = HashMap::new();
        database.rows(runtime, |row| {
            let place = (row.get(start).int(), row.get(thread).int(), row.get(id).int());
            if let (Some(start), Some(thread), Some(id)) = place
                && let Some(range) = self.around(thread, start)
            {
                launches.insert((process(thread), id), range);
            }
            Ok(())
        })?;
        self.launches = launches;
        Ok(())
    }

    fn kernels(
        &self,
        database: &mut Database,
        kernels: &Table,
        calls: &mut Calls,
    ) -> Result<(), Fault> {
        let column = |name: &str| kernels.column(name);
        let (start, end, id) = (column("start"), column("end"), column("correlationId"));
        let (pid, graph) = (column("globalPid"), column("graphNodeId"));
        let names = [column("shortName"), column("demangledName")];
        let mut ran: Vec<(i64, i64, i64, u32)> = Vec::new();
        let mut seen = HashSet::new();
        database.rows(kernels, |row| {
            let is_ours = |name: &Option<usize>| {
                row.get(*name).int().is_some_and(|n| self.names.contains_key(&n))
            };
            if !names.iter().any(is_ours) {
                return Ok(());
            }
            if row.get(graph).int().is_some_and(|node| node != 0) {
                calls.leave_out(
                    "a kernel of a replayed CUDA graph: it has no call, and therefore no size",
                    0,
                );
                return Ok(());
            }
            let place =
                (row.get(start).int(), row.get(end).int(), row.get(id).int(), row.get(pid).int());
            let (Some(start), Some(end), Some(id), Some(pid)) = place else {
                calls.leave_out("a kernel without its times or its launch", 0);
                return Ok(());
            };
            let pid = process(pid);
            match self.launches.get(&(pid, id)) {
                Some(&range) => {
                    if !seen.insert((pid, range)) {
                        calls.leave_out("a second kernel of one call", 0);
                    } else {
                        ran.push((pid, start, end, range));
                    }
                }
                None => calls.leave_out("a kernel whose launch is outside NCCL's ranges", 0),
            }
            Ok(())
        })?;
        ran.sort_unstable();
        let mut order: HashMap<(i64, u32), u32> = HashMap::new();
        for (pid, start, end, range) in ran {
            self.call(pid, Seconds((end - start).max(0) as f64 * 1e-9), range, &mut order, calls);
        }
        Ok(())
    }

    fn call(
        &self,
        pid: i64,
        time: Seconds,
        range: u32,
        order: &mut HashMap<(i64, u32), u32>,
        calls: &mut Calls,
    ) {
        let (collective, comm, size, peer, sends) = match self.ranges[range as usize].called {
            Called::Call { collective, comm, size, peer, sends } => {
                (collective, comm, size, peer, sends)
            }
            Called::Silent => {
                let why = "a call without its size: its NVTX range has no payload (message size); NCCL from 2.17 \
                           on and nsys with payload support write it";
                return calls.leave_out(why, 0);
            }
            Called::Group => {
                return calls.leave_out("several calls of one group, which one kernel runs", 0);
            }
            Called::Other => return calls.leave_out("a kernel that belongs to no call", 0),
        };
        let known = self.comms.get(&(pid, comm)).copied();
        let Some((rank, all)) = known.or_else(|| calls.asked.map(|n| (pid as u32, n))) else {
            return calls.leave_out(
                "a communicator created before recording: its number of ranks is unknown (set it: --n N)",
                0,
            );
        };
        let (key, ranks) = match (collective, peer) {
            (Collective::SendRecv, Some(peer)) => {
                let (from, to) = if sends { (rank, peer as u32) } else { (peer as u32, rank) };
                (format!("{comm:#x} {from} to {to}"), 2)
            }
            (Collective::SendRecv, None) => {
                return calls.leave_out("a message without its peer", 0);
            }
            _ => (format!("{comm:#x} {collective}"), all),
        };
        let Some(size) = of_the_api(collective, ranks, size) else {
            return calls.leave_out("too many bytes to count", 0);
        };
        let name = format!("communicator {comm:#x}");
        let group = calls.group(&key, || Group { name, ranks, nodes: None, host_clock: false });
        let kind = calls.kind(Kind { group, collective, size, dtype: None });
        let next = order.entry((pid, group)).or_default();
        *next += 1;
        calls.see(Seen { kind, sequence: *next - 1, rank, time, exposed: None }, 0);
    }
}

/// The payload of a range.
#[derive(Default)]
struct Payload {
    comm: Option<u64>,
    size: Option<u64>,
    peer: Option<u64>,
    rank: Option<u64>,
    ranks: Option<u64>,
}

impl Payload {
    fn of(json: &str) -> Self {
        let mut payload = Self::default();
        for (key, value) in fields(json.as_bytes()) {
            let number = whole(value).or_else(|| whole(text(value)?.as_bytes()));
            match key {
                b"NCCL communicator ID" => payload.comm = number,
                b"Message size [bytes]" => payload.size = number,
                b"Peer rank" => payload.peer = number,
                b"Rank" => payload.rank = number,
                b"No. of ranks" => payload.ranks = number,
                _ => {}
            }
        }
        payload
    }

    fn called(&self, name: &str) -> Called {
        if name.starts_with("ncclGroup") {
            return Called::Group;
        }
        let sends = name == "ncclSend";
        let collective = match name {
            "ncclSend" | "ncclRecv" => Ok(Collective::SendRecv),
            other => other.parse(),
        };
        match (collective, self.comm, self.size) {
            (Ok(collective), Some(comm), Some(size)) => {
                Called::Call { collective, comm, size, peer: self.peer, sends }
            }
            (Ok(_), _, _) => Called::Silent,
            (Err(_), _, _) => Called::Other,
        }
    }
}
