//! Calls of collectives as ranks saw them, joined over the ranks.
//!
//! A rank that arrives early waits inside its kernel. Over the ranks of one call, the *transfer* is
//! therefore the shortest time, the *skew* is the longest minus the shortest, and the rank with the
//! shortest time arrived last. This needs only durations: ranks are joined by group and position in the
//! group's sequence, never by clocks, which differ by milliseconds between nodes. If ranks of the group
//! are missing, a time is an upper bound.
//!
//! Memory is bounded: the ranks' records are folded into one entry per call, and of very many calls every
//! 2^k-th of a sequence is kept, the same on every rank.

use std::collections::HashMap;

use super::kineto::{GROUPLESS, HOST_ALONE, SILENT};
use super::order::Order;
use crate::base::collective::Collective;
use crate::base::order::sorted;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::stats::{median, quantile};
use crate::machine::sample::{DataType, Mode};
use crate::measure::logs::{LeftOut, Measured, Row, Table, Tested, Traced};

/// What a call was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub group: u32,
    pub collective: Collective,
    pub size: Bytes,
    pub dtype: Option<DataType>,
}

/// One rank's record of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Its kind, as [`Calls::kind`] numbers it.
    pub kind: u32,
    /// Its position in the group's sequence.
    pub sequence: u32,
    /// A number that no other rank of the group has.
    pub rank: u32,
    pub time: Seconds,
    /// The part of the time in which no computation ran; `None` if unknown.
    pub exposed: Option<Seconds>,
}

/// Ranks that call collectives together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// Its name.
    pub name: String,
    pub ranks: u32,
    pub nodes: Option<u32>,
    /// Whether times are of the host's clock around a call, which include waiting whichever ranks are known.
    pub host_clock: bool,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    group: u32,
    sequence: u32,
    rank: u32,
    kind: u32,
    time: f64,
    exposed: f32,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    group: u32,
    sequence: u32,
    kind: u32,
    /// How many ranks recorded it.
    seen: u32,
    /// The rank of the shortest time.
    last: u32,
    shortest: f64,
    longest: f32,
    /// Of the rank that arrived last; NaN if unknown.
    exposed: f32,
}

/// Ranks made different calls at this position.
const DISAGREE: u32 = u32::MAX;
/// Ranks made all-to-alls of different sizes at this position: their blocks are of different sizes.
const UNEVEN: u32 = u32::MAX - 2;
/// No kind.
pub(super) const NONE: u32 = u32::MAX - 1;
/// Why an exchange is no all-to-all of one size.
pub(super) const BLOCKS: &str = "an all-to-all with blocks of different sizes";
/// This many records are folded at once.
const FOLD: usize = 1 << 19;
/// More calls than this are thinned out.
const CALLS: usize = 1 << 20;
/// No job has more groups, or more different calls.
const KINDS: usize = 1 << 17;

/// The calls of a job, over the files of its ranks.
#[derive(Default)]
pub(super) struct Calls {
    groups: Vec<Group>,
    by_key: HashMap<String, u32>,
    kinds: Vec<Kind>,
    by_kind: HashMap<Kind, u32>,
    /// The file in which a rank of a group was seen.
    owners: HashMap<(u32, u32), u32>,
    owned: Option<(u32, u32)>,
    /// The number of the current file, from 1.
    pub file: u32,
    /// The user's N for groups whose files do not state it.
    pub asked: Option<u32>,
    records: Vec<Record>,
    calls: Vec<Call>,
    /// Every 2^this-th of a sequence is kept.
    thinned: u32,
    left_out: Vec<LeftOut>,
    pub warnings: Vec<String>,
    /// As [`Table::caveats`](super::super::Table::caveats).
    caveats: Vec<String>,
    pub library: Option<String>,
    /// What was called when, with times or without.
    pub order: Order,
}

impl Calls {
    /// Another file begins, perhaps of another rank.
    pub fn next_file(&mut self) {
        self.file += 1;
        self.owned = None;
    }

    /// The number of the group that `key` names; a new group if there is none.
    pub fn group(&mut self, key: &str, make: impl FnOnce() -> Group) -> u32 {
        if let Some(&known) = self.by_key.get(key) {
            return known;
        }
        let number = self.groups.len() as u32;
        self.by_key.insert(key.to_owned(), number);
        self.groups.push(make());
        number
    }

    /// The number of a kind of calls; [`NONE`] if there are too many.
    pub fn kind(&mut self, kind: Kind) -> u32 {
        if let Some(&known) = self.by_kind.get(&kind) {
            return known;
        }
        let next = self.kinds.len();
        if next >= KINDS {
            return NONE;
        }
        self.kinds.push(kind);
        self.by_kind.insert(kind, next as u32);
        next as u32
    }

    /// The kind of a number.
    pub fn kind_of(&self, number: u32) -> Option<Kind> {
        self.kinds.get(number as usize).copied()
    }

    /// Counts something that is not used, and why; `line` is 0 if the format has no lines.
    pub fn leave_out(&mut self, why: &str, line: usize) {
        leave_out(&mut self.left_out, why, line, 1);
    }

    /// A record of `file` that is cut off; `line` is 0 if the format has no lines.
    pub fn cut_off(&mut self, file: &str, line: usize) {
        self.leave_out("a record that is cut off", line);
        let caveat = format!("{file} is cut off: what it lacks is not counted");
        if !self.caveats.contains(&caveat) {
            self.caveats.push(caveat);
        }
    }

    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// A rank's record of a call, in `line` of its file.
    pub fn see(&mut self, seen: Seen, line: usize) {
        let Seen { kind: number, sequence, rank, time, exposed } = seen;
        let Some(&kind) = self.kinds.get(number as usize) else {
            return self.leave_out("more groups and sizes than are kept apart", line);
        };
        if kind.size.0 == 0 || !(time.0 > 0.0 && time.0 < 1e6) {
            return self.leave_out("a call of 0 bytes, or of no time", line);
        }
        let owner = (kind.group, rank);
        if self.owned != Some(owner) {
            if *self.owners.entry(owner).or_insert(self.file) != self.file {
                return self.leave_out("a rank that another file has calls of, too", line);
            }
            self.owned = Some(owner);
        }
        if sequence & ((1 << self.thinned) - 1) != 0 {
            return;
        }
        self.records.push(Record {
            group: kind.group,
            sequence,
            rank,
            kind: number,
            time: time.0,
            exposed: exposed.map_or(f32::NAN, |e| e.0 as f32),
        });
        if self.records.len() >= FOLD {
            self.fold();
        }
    }

    /// Folds the records into the calls, and thins these out if there are too many.
    fn fold(&mut self) {
        self.records.sort_unstable_by_key(|r| (r.group, r.sequence, r.rank));
        let before = self.records.len();
        self.records.dedup_by_key(|r| (r.group, r.sequence, r.rank));
        let twice = before - self.records.len();
        if twice > 0 {
            let why = "a rank has two calls at one position of its sequence";
            leave_out(&mut self.left_out, why, 0, twice);
        }
        let old = std::mem::take(&mut self.calls);
        let mut merged: Vec<Call> = Vec::with_capacity(old.len() + self.records.len() / 2);
        let mut old = old.into_iter().peekable();
        for record in self.records.drain(..) {
            let place = (record.group, record.sequence);
            while let Some(call) = old.next_if(|c| (c.group, c.sequence) <= place) {
                merged.push(call);
            }
            match merged.last_mut() {
                Some(call) if (call.group, call.sequence) == place => {
                    call.join(&record, &self.kinds);
                }
                _ => merged.push(Call::of(&record)),
            }
        }
        merged.extend(old);
        while merged.len() > CALLS {
            self.thinned += 1;
            let thinned = self.thinned;
            merged.retain(|c| c.sequence & ((1 << thinned) - 1) == 0);
            if thinned == 31 {
                break;
            }
        }
        self.calls = merged;
    }

    /// What was read, one table for each group of a name and collective.
    pub fn tables(mut self, format: &'static str, clock: Mode) -> Vec<Table> {
        self.fold();
        if self.thinned > 0 {
            let each = 1_u64 << self.thinned;
            self.warn(format!("of very many calls every {each}th is used, the same on all ranks"));
        }
        for note in self.order.notes() {
            self.warn(note);
        }
        let mut tables: Vec<Table> = Vec::new();
        let mut by: HashMap<(Collective, u32, Option<u32>, String), usize> = HashMap::new();
        for kind in self.rows() {
            let Some(group) = self.groups.get(self.kinds[kind.0].group as usize) else { continue };
            let collective = self.kinds[kind.0].collective;
            let key = (collective, group.ranks, group.nodes, group.name.clone());
            let at = *by.entry(key).or_insert_with(|| {
                tables.push(table(format, clock, collective, group));
                tables.len() - 1
            });
            tables[at].rows.push(kind.1);
        }
        for table in &mut tables {
            table.rows.sort_by_key(|r| (r.size, r.dtype));
            table.library.clone_from(&self.library);
        }
        self.explain(&mut tables, format, clock);
        tables
    }

    /// A row for each kind of calls. Groups with the same name and number of ranks form one series.
    fn rows(&mut self) -> Vec<(usize, Row)> {
        let mut order: Vec<Call> = std::mem::take(&mut self.calls);
        let same = |kind: &Kind| {
            let group = &self.groups[kind.group as usize];
            (group.name.clone(), group.ranks, group.nodes, kind.collective, kind.size, kind.dtype)
        };
        let mut series: HashMap<_, u32> = HashMap::new();
        let number: Vec<u32> = (0..)
            .zip(&self.kinds)
            .map(|(i, kind)| *series.entry(same(kind)).or_insert(i))
            .collect();
        let count = |kind| order.iter().filter(|c| c.kind == kind).count();
        let (disagreeing, uneven) = (count(DISAGREE), count(UNEVEN));
        order.retain(|c| !matches!(c.kind, DISAGREE | UNEVEN));
        for call in &mut order {
            call.kind = number[call.kind as usize];
        }
        order.sort_by_key(|c| (c.kind, c.group, c.sequence));
        let mut rows = Vec::new();
        let mut incomplete = 0;
        for calls in order.chunk_by(|a, b| a.kind == b.kind) {
            let kind = self.kinds[calls[0].kind as usize];
            let group = &self.groups[kind.group as usize];
            let (whole, part): (Vec<Call>, Vec<Call>) =
                calls.iter().partition(|c| c.seen >= group.ranks);
            let at_most = whole.is_empty() || group.host_clock;
            let used = if whole.is_empty() {
                part
            } else {
                incomplete += part.len();
                whole
            };
            rows.push((calls[0].kind as usize, row(&kind, &used, group, at_most)));
        }
        if disagreeing > 0 {
            let why = "ranks called different collectives or sizes at one position of the sequence: they lost \
                       step, or the files are of different times";
            leave_out(&mut self.left_out, why, 0, disagreeing);
        }
        if uneven > 0 {
            leave_out(&mut self.left_out, BLOCKS, 0, uneven);
        }
        if incomplete > 0 {
            let why = "calls that some ranks' files lack, while all have others";
            leave_out(&mut self.left_out, why, 0, incomplete);
        }
        rows
    }

    /// Adds warnings for all tables to the first.
    fn explain(mut self, tables: &mut Vec<Table>, format: &'static str, clock: Mode) {
        let traced = || {
            tables.iter().flat_map(|t| t.rows.iter().filter_map(move |r| r.traced.map(|x| (t, x))))
        };
        if let Some((table, row)) =
            traced().filter(|(_, r)| r.at_most).min_by_key(|(_, r)| r.present)
        {
            let bounds = "upper bounds, which include waiting for late ranks";
            let (all, some) = (traced().count(), traced().filter(|(_, r)| r.at_most).count());
            let host = self.groups.iter().any(|g| g.host_clock);
            let what = match (host, table.ranks.unwrap_or(0)) {
                (true, _) => format!(
                    "times of the host's clock around calls, including launch and waiting: times are {bounds}"
                ),
                (_, ranks) if some == all => {
                    format!("files of {} of {ranks} ranks: times are {bounds}", row.present)
                }
                _ => format!(
                    "{some} of {all} rows have no call that the files of all ranks hold: their times are {bounds}"
                ),
            };
            self.warnings.insert(0, what);
        }
        if tables.is_empty() {
            let mut none = table(
                format,
                clock,
                Collective::Barrier,
                &Group { name: String::new(), ranks: 0, nodes: None, host_clock: false },
            );
            format.clone_into(&mut none.title);
            none.tested = Tested::Other(none.title.clone());
            none.ranks = None;
            let most = self.left_out.iter().max_by_key(|l| l.count);
            none.refused = Some(crate::measure::logs::Refusal {
                what: most.map_or("the trace contains no collective call".to_owned(), |l| {
                    format!("no call of the trace is usable: {}", l.why)
                }),
                help: most.map_or(RECORD, |l| remedy(&l.why)).to_owned(),
            });
            tables.push(none);
        }
        if let Some(first) = tables.first_mut() {
            first.left_out.append(&mut self.left_out);
            first.warnings.append(&mut self.warnings);
            first.caveats.append(&mut self.caveats);
        }
    }
}

/// How to record a trace with calls.
const RECORD: &str = "record steps of a run whose ranks communicate";

/// How to record a trace without what its calls were left out for.
fn remedy(why: &str) -> &'static str {
    match why {
        SILENT | GROUPLESS => {
            "record it with a newer PyTorch, whose traces state the sizes and groups of calls"
        }
        HOST_ALONE => {
            "record the GPU too: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
        }
        _ => RECORD,
    }
}

impl Call {
    fn of(record: &Record) -> Self {
        Self {
            group: record.group,
            sequence: record.sequence,
            kind: record.kind,
            seen: 1,
            last: record.rank,
            shortest: record.time,
            longest: record.time as f32,
            exposed: record.exposed,
        }
    }

    fn join(&mut self, record: &Record, kinds: &[Kind]) {
        if self.kind != record.kind {
            let exchanges = |kind: u32| {
                let is = |k: &Kind| k.collective == Collective::AllToAll;
                kind == UNEVEN || kinds.get(kind as usize).is_some_and(is)
            };
            let both = exchanges(self.kind) && exchanges(record.kind);
            self.kind = if both { UNEVEN } else { DISAGREE };
        }
        self.seen += 1;
        self.longest = self.longest.max(record.time as f32);
        if record.time < self.shortest {
            (self.shortest, self.last, self.exposed) = (record.time, record.rank, record.exposed);
        }
    }
}

/// The first call of a kind makes connections: it is left out if it took this many times as long.
const WARM_UP: f64 = 5.0;

fn row(kind: &Kind, calls: &[Call], group: &Group, at_most: bool) -> Row {
    let times = |calls: &[Call]| calls.iter().map(|c| c.shortest).collect::<Vec<f64>>();
    let middle = median(times(calls)).unwrap_or(0.0);
    let cold = calls.len() > 2 && calls[0].shortest > WARM_UP * middle;
    let calls = if cold { &calls[1..] } else { calls };
    let of = |x: Vec<f64>| Seconds(median(x).unwrap_or(0.0));
    let compared = calls.iter().filter(|c| c.seen > 1);
    let skews: Vec<f64> = compared.map(|c| (f64::from(c.longest) - c.shortest).max(0.0)).collect();
    let waited = (!skews.is_empty()).then(|| Seconds(skews.iter().sum()));
    let mut last: HashMap<u32, usize> = HashMap::new();
    for call in calls.iter().filter(|c| c.seen > 1) {
        *last.entry(call.last).or_default() += 1;
    }
    let last = last.into_iter().max_by_key(|&(rank, times)| (times, u32::MAX - rank));
    let exposed: Vec<f64> =
        calls.iter().map(|c| f64::from(c.exposed) / c.shortest).filter(|x| x.is_finite()).collect();
    let sorted = sorted(times(calls));
    Row {
        line: 1,
        size: kind.size,
        dtype: kind.dtype,
        in_place: false,
        measured: Measured::Time(of(times(calls))),
        wrong: None,
        traced: Some(Traced {
            calls: calls.len() as u32,
            present: calls.iter().map(|c| c.seen).max().unwrap_or(0),
            fast: Seconds(quantile(&sorted, 0.1)),
            skew: waited.map(|_| of(skews)),
            waited,
            latest: last.map(|(rank, n)| (rank, Ratio(n as f64 / calls.len() as f64))),
            exposed: (!exposed.is_empty()).then(|| {
                Ratio((exposed.iter().sum::<f64>() / exposed.len() as f64).clamp(0.0, 1.0))
            }),
            at_most: at_most || group.host_clock,
        }),
    }
}

fn table(format: &'static str, mode: Mode, collective: Collective, group: &Group) -> Table {
    Table {
        format,
        line: 1,
        title: format!("{} in {}", collective.id(), group.name),
        tested: Tested::Collective(collective),
        ranks: Some(group.ranks),
        ranks_by: Some("group"),
        shares_gpus: false,
        nodes: group.nodes,
        full_node: None,
        library: None,
        system: None,
        gpus: None,
        iterations: 1,
        mode,
        rows: Vec::new(),
        left_out: Vec::new(),
        wrong_left_out: Vec::new(),
        refused: None,
        warnings: Vec::new(),
        caveats: Vec::new(),
    }
}

/// At most this many lines are listed per reason.
const NAMED: usize = 64;

fn leave_out(all: &mut Vec<LeftOut>, why: &str, line: usize, count: usize) {
    let at = all.iter().position(|left| left.why == why).unwrap_or_else(|| {
        all.push(LeftOut { why: why.to_owned(), lines: Vec::new(), count: 0, is_usual: true });
        all.len() - 1
    });
    let left = &mut all[at];
    left.count += count;
    if line > 0 && left.lines.len() < NAMED {
        left.lines.push(line);
    }
}
