//! PyTorch's flight recorder: one dump per rank, as pickle or as JSON.
//!
//! ```text
//! {"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
//!  "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": 1, "is_p2p": false,
//!    "profiling_name": "nccl:all_reduce", "input_sizes": [[67108864]], "input_dtypes": ["BFloat16"],
//!    "output_sizes": [[67108864]], "state": "completed", "duration_ms": 0.456053, …}, …]}
//! ```
//!
//! Only the file's name states the rank. There are times only if `TORCH_NCCL_ENABLE_TIMING` was set, and
//! none over Gloo; the moments at which the watchdog noticed a start or an end do not measure one. Groups
//! and the order of calls are there in any case. Source: pytorch/pytorch
//! torch/csrc/distributed/c10d/FlightRecorder.hpp.

use std::collections::HashMap;
use std::io::Read as _;

use super::calls::{BLOCKS, Calls, Group, Kind, Seen};
use super::json::{Stream, elements, fields, number, text, whole};
use super::torch::{Called, called, dtype, size};
use super::{Fault, Head, Input, order, pickle};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::sample::DataType;

/// No entry is longer, with the stacks of its call.
const LONGEST: usize = 1 << 22;
/// The largest pickle that is read: a buffer of 20,000 entries with stacks has some ten MB.
const PICKLE: u64 = 128 << 20;

pub(super) fn is(head: &Head) -> bool {
    let pickle = matches!(head.bytes, [0x80, 2..=5, ..]);
    pickle
        || head.is_json()
            && (head.has("\"pg_config\"")
                || head.has("\"pg_status\"")
                || head.has("\"profiling_name\""))
}

/// A group as in `pg_config`.
struct Config {
    /// The description, or the name if it has none.
    name: String,
    ranks: u32,
    members: Vec<u32>,
}

impl Config {
    /// The group whose own name this is.
    fn group(&self, name: &str) -> order::Group {
        let (described, members) = (self.name.clone(), self.members.clone());
        order::Group { described, name: name.to_owned(), members }
    }
}

/// The contents of an entry.
#[derive(Clone)]
struct Entry {
    group: String,
    sequence: u32,
    called: Called,
    /// Sender and receiver of a message.
    ends: Option<(u32, u32)>,
    input: u64,
    output: u64,
    dtype: Option<DataType>,
    state: String,
    /// Whether the watchdog is done with it.
    retired: bool,
    time: Option<f64>,
    /// Whether it was recorded over Gloo, which measures no times.
    gloo: bool,
}

#[derive(Default)]
struct Dump {
    groups: HashMap<String, Config>,
    entries: Vec<Entry>,
    /// Group, number and name of what is in the order, but no row.
    others: Vec<(String, u32, String)>,
}

pub(super) fn read(input: Input, file: &str, calls: &mut Calls) -> Result<(), Fault> {
    let mut stream = input.stream();
    let mut dump = Dump::default();
    let is_pickle = stream.fill_buf()?.first() == Some(&0x80);
    let end = if is_pickle {
        let mut bytes = Vec::new();
        stream.take(PICKLE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > PICKLE {
            return Err(Fault::Long(0));
        }
        dump.pickle(&pickle::read(&bytes)?, calls);
        Ok(())
    } else {
        dump.json(&mut Stream::new(stream), calls)
    };
    dump.settle(rank_of(file).unwrap_or(calls.file.saturating_sub(1)), calls);
    end
}

/// The rank in the name of a file: the number after `rank`, else the last one before its endings.
fn rank_of(file: &str) -> Option<u32> {
    let name = file.rsplit(['/', '\\']).next()?;
    let after =
        name.rsplit_once("rank").map(|(_, after)| after.trim_start_matches(['_', '-', '.']));
    let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if let Some(rank) = after.and_then(|after| after[..end(after)].parse().ok()) {
        return Some(rank);
    }
    let mut stem = name;
    let is_ending = |end: &str| end.bytes().all(|b| b.is_ascii_alphabetic());
    while let Some((before, _)) = stem.rsplit_once('.').filter(|(_, end)| is_ending(end)) {
        stem = before;
    }
    let digits = stem.rsplit(|c: char| !c.is_ascii_digit()).find(|d| !d.is_empty())?;
    digits.parse().ok()
}

impl Dump {
    fn json<R: std::io::BufRead>(
        &mut self,
        stream: &mut Stream<R>,
        calls: &mut Calls,
    ) -> Result<(), Fault> {
        if !stream.take(b'{')? {
            return Err(stream.bad());
        }
        while let Some(key) = stream.key()? {
            match key.as_str() {
                "pg_config" => self.config(stream.raw(LONGEST)?),
                "nccl_version" | "comm_lib_version" => {
                    let version = text(stream.raw(1 << 12)?).map(|v| format!("NCCL {v}"));
                    calls.library = calls.library.take().or(version);
                }
                "entries" if stream.take(b'[')? => {
                    while stream.element()? {
                        self.entry(stream.raw(LONGEST)?, calls);
                    }
                }
                _ => stream.skip()?,
            }
        }
        Ok(())
    }

    fn pickle(&mut self, pickle: &pickle::Pickle, calls: &mut Calls) {
        if let Some(json) = pickle.key("pg_config").and_then(|node| pickle.json(node, &[])) {
            self.config(&json);
        }
        let entries = pickle.key("entries").map_or(&[][..], |node| pickle.list(node));
        for &entry in entries {
            match pickle.json(entry, &["frames"]) {
                Some(json) => self.entry(&json, calls),
                None => calls.leave_out("an entry that is too long for a flight recorder", 0),
            }
        }
    }

    fn config(&mut self, object: &[u8]) {
        for (_, config) in fields(object) {
            let of = |name: &[u8]| {
                fields(config).find(|(key, _)| *key == name).and_then(|(_, v)| text(v))
            };
            let (Some(name), Some(ranks)) = (of(b"name"), of(b"ranks")) else { continue };
            let digits = ranks.split(|c: char| !c.is_ascii_digit());
            let members: Vec<u32> = digits.filter_map(|rank| rank.parse().ok()).collect();
            let desc = of(b"desc").filter(|d| !d.is_empty() && d != "undefined");
            let said = desc.unwrap_or_else(|| name.clone()).into_owned();
            // Gloo does not name the group of all ranks.
            let said = if said.is_empty() { "default".to_owned() } else { said };
            let ranks = members.len() as u32;
            self.groups.insert(name.into_owned(), Config { name: said, ranks, members });
        }
    }

    fn entry(&mut self, object: &[u8], calls: &mut Calls) {
        let mut entry = Entry {
            group: String::new(),
            sequence: 0,
            called: Called::Unknown,
            ends: None,
            input: 0,
            output: 0,
            dtype: None,
            state: String::new(),
            retired: false,
            time: None,
            gloo: false,
        };
        let mut types = [None, None];
        let mut said = String::new();
        for (key, value) in fields(object) {
            match key {
                b"process_group" => {
                    let name = elements(value).next().and_then(text);
                    entry.group = name.unwrap_or_default().into_owned();
                }
                b"collective_seq_id" => entry.sequence = whole(value).unwrap_or(0) as u32,
                b"profiling_name" => {
                    let name = text(value).unwrap_or_default();
                    entry.called = called(&name);
                    entry.ends = ends(&name);
                    entry.gloo = name.starts_with("gloo:");
                    said = name.into_owned();
                }
                b"input_sizes" => entry.input = count(value).unwrap_or(0),
                b"output_sizes" => entry.output = count(value).unwrap_or(0),
                b"input_dtypes" => types[0] = one_type(value),
                b"output_dtypes" => types[1] = one_type(value),
                b"state" => entry.state = text(value).unwrap_or_default().into_owned(),
                b"retired" => entry.retired = value == b"true",
                b"duration_ms" => entry.time = number(value).filter(|t| *t > 0.0),
                _ => {}
            }
        }
        entry.dtype = types[0].or(types[1]);
        // A dump has one name for all-to-alls with equal and with other blocks (`alltoall_base` in
        // ProcessGroupNCCL.cpp).
        let exchange = Called::Collective(Collective::AllToAll);
        if entry.called == Called::Uneven || entry.called == exchange && entry.input != entry.output
        {
            entry.called = Called::Uneven;
            Collective::AllToAll.id().clone_into(&mut said);
        }
        if matches!(entry.called, Called::Barrier | Called::Uneven | Called::Unknown) {
            self.others.push((entry.group.clone(), entry.sequence, said));
        }
        match entry.called {
            Called::Nothing => {}
            Called::Barrier => {
                calls.leave_out("a barrier, implemented as an all-reduce of one element", 0)
            }
            Called::Uneven => calls.leave_out(BLOCKS, 0),
            Called::Unknown => calls.leave_out("an unknown call", 0),
            Called::Collective(_) | Called::Coalesced => self.entries.push(entry),
        }
    }

    /// Passes on what this rank called when, whether it was timed or not.
    fn order(&mut self, rank: u32, calls: &mut Calls) {
        let only = self.groups.values().next().filter(|_| self.groups.len() == 1);
        let config = |name: &str| self.groups.get(name).or(only);
        // A message is no call of the whole group.
        let entries = self.entries.iter().filter(|e| e.ends.is_none());
        for entry in entries {
            let Some(config) = config(&entry.group) else { continue };
            let Called::Collective(collective) = entry.called else { continue };
            // Ranks may exchange blocks of different sizes: only the sums over all ranks have to agree.
            let sized = entry.dtype.filter(|_| collective != Collective::AllToAll);
            let bytes = sized
                .and_then(|dtype| size(collective, entry.input, entry.output, dtype, config.ranks));
            let what = match bytes {
                Some(bytes) => format!("{} of {bytes}", collective.id()),
                None => collective.id().to_owned(),
            };
            calls.order.see(config.group(&entry.group), rank, entry.sequence, what);
        }
        for (group, sequence, what) in std::mem::take(&mut self.others) {
            if let Some(config) = config(&group) {
                calls.order.see(config.group(&group), rank, sequence, what);
            }
        }
    }

    /// Passes on the calls of this rank.
    fn settle(mut self, rank: u32, calls: &mut Calls) {
        let mut messages: HashMap<(String, u32, u32), u32> = HashMap::new();
        self.order(rank, calls);
        self.entries.sort_by(|a, b| (&a.group, a.sequence).cmp(&(&b.group, b.sequence)));
        let same = |a: &Entry, b: &Entry| {
            a.group == b.group && a.sequence == b.sequence && b.ends.is_none()
        };
        for launch in self.entries.chunk_by(same) {
            let only = self.groups.values().next().filter(|_| self.groups.len() == 1);
            let Some(config) = self.groups.get(&launch[0].group).or(only) else {
                calls.leave_out("a call of a group that pg_config does not name", 0);
                continue;
            };
            let wrapped = launch.iter().find(|e| e.called == Called::Coalesced);
            let members: Vec<&Entry> =
                launch.iter().filter(|e| e.called != Called::Coalesced).collect();
            let timed = wrapped.unwrap_or(&launch[0]);
            // Gloo's entries stay scheduled: their start is not tracked.
            if timed.state != "completed" && !timed.retired {
                calls.order.untimed = true;
                calls.leave_out(&format!("not completed: its state is {}", timed.state), 0);
                continue;
            }
            let Some(time) = timed.time else {
                calls.order.untimed = true;
                calls.leave_out(if timed.gloo { GLOO } else { UNTIMED }, 0);
                continue;
            };
            let seconds = Seconds(time * 1e-3);
            if let Some((from, to)) = launch[0].ends {
                let key = (launch[0].group.clone(), from, to);
                let sequence = messages.entry(key).and_modify(|k| *k += 1).or_insert(0);
                message(&launch[0], (from, to), *sequence, seconds, rank, config, calls);
                continue;
            }
            let Some((collective, dtype, bytes)) = sum(&members, config.ranks) else {
                calls.leave_out(
                    "several different calls in one launch: the time covers all of them",
                    0,
                );
                continue;
            };
            let key = format!("{}|{}|{}", launch[0].group, config.name, config.ranks);
            let group = calls.group(&key, || group(config));
            let kind = calls.kind(Kind { group, collective, size: bytes, dtype: Some(dtype) });
            let sequence = launch[0].sequence;
            calls.see(Seen { kind, sequence, rank, time: seconds, exposed: None }, 0);
        }
    }
}

const UNTIMED: &str = "no duration_ms: timing was off (TORCH_NCCL_ENABLE_TIMING=1 turns it on), and the \
                       watchdog's checks do not measure times";
const GLOO: &str = "no duration_ms: over Gloo the flight recorder has groups and order, but no times; the \
                    profiler's trace has them (record_shapes=True)";

fn group(config: &Config) -> Group {
    Group { name: config.name.clone(), ranks: config.ranks, nodes: None, host_clock: false }
}

/// A send and its receive are one transfer of two.
fn message(
    entry: &Entry,
    (from, to): (u32, u32),
    sequence: u32,
    time: Seconds,
    rank: u32,
    config: &Config,
    calls: &mut Calls,
) {
    let Some(dtype) = entry.dtype else {
        return calls.leave_out("an unknown type", 0);
    };
    let Some(size) = size(Collective::SendRecv, entry.input, entry.output, dtype, 2) else {
        return calls.leave_out("too many bytes to count", 0);
    };
    let key = format!("{}|{}|{from} to {to}", entry.group, config.name);
    let group = calls.group(&key, || Group { ranks: 2, ..group(config) });
    let kind =
        calls.kind(Kind { group, collective: Collective::SendRecv, size, dtype: Some(dtype) });
    calls.see(Seen { kind, sequence, rank, time, exposed: None }, 0);
}

/// Members of one launch as one call, if they are one collective with one type.
fn sum(members: &[&Entry], ranks: u32) -> Option<(Collective, DataType, Bytes)> {
    let first = members.first()?;
    let (Called::Collective(collective), Some(dtype)) = (first.called, first.dtype) else {
        return None;
    };
    let same = members.iter().all(|m| m.called == first.called && m.dtype == first.dtype);
    let mut total = 0_u64;
    for member in members.iter().filter(|_| same) {
        total =
            total.checked_add(size(collective, member.input, member.output, dtype, ranks)?.0)?;
    }
    same.then_some((collective, dtype, Bytes(total)))
}

/// `nccl:send 0->1`, `nccl:recv 1<-0`: sender and receiver.
fn ends(name: &str) -> Option<(u32, u32)> {
    let (_, ends) = name.split_once(' ')?;
    if let Some((from, to)) = ends.split_once("->") {
        return Some((from.trim().parse().ok()?, to.trim().parse().ok()?));
    }
    let (to, from) = ends.split_once("<-")?;
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

/// The elements of all tensors whose shapes are listed.
fn count(shapes: &[u8]) -> Option<u64> {
    elements(shapes).try_fold(0_u64, |sum, shape| {
        let of =
            elements(shape).try_fold(1_u64, |product, side| product.checked_mul(whole(side)?))?;
        sum.checked_add(of)
    })
}

/// The type of all tensors, if they share one.
fn one_type(list: &[u8]) -> Option<DataType> {
    let mut types = elements(list).map(|t| text(t).and_then(|t| dtype(&t)));
    let first = types.next()??;
    types.all(|t| t == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_ends_stand_in_names() {
        assert_eq!(rank_of("/tmp/nccl_trace_rank_12"), Some(12));
        assert_eq!((rank_of("a/fr_rank0.pickle"), rank_of("dump.json")), (Some(0), None));
        assert_eq!(rank_of("rank3_step100.json"), Some(3));
        assert_eq!(rank_of("rank_3-20251120.json"), Some(3));
        assert_eq!(rank_of("ranks_of_job_7.json"), Some(7));
        for (file, rank) in [
            ("job.v2.rank3.pickle", Some(3)),
            ("node1.example.com_rank_12.json.gz", Some(12)),
            ("fr.5.json.gz", Some(5)),
            ("dump.2026-11-28.4", Some(4)),
            ("dump_6.pkl", Some(6)),
        ] {
            assert_eq!(rank_of(file), rank, "{file}");
        }
        assert_eq!(ends("nccl:send 0->1"), Some((0, 1)));
        assert_eq!((ends("nccl:recv 1<-0"), ends("nccl:all_reduce")), (Some((0, 1)), None));
        assert_eq!((count(b"[[2, 3], [4]]"), count(b"[]")), (Some(10), Some(0)));
    }
}
