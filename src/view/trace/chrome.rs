//! As a Chrome trace for Perfetto: one process per rank, one track per direction, times in µs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{carried, verb};
use crate::answer::End;
use crate::answer::trace::{Trace, Transfer};
use crate::base::order::rising;

/// An event of the format; fields that do not apply are left out.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Args<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Name { name: &'a str },
    Order { sort_index: u32 },
    Message { step: u64, from: String, to: String, chunks: String, bytes: f64 },
}

/// Whether a track shows what a rank sends or what it receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Sends,
    Receives,
}

/// Instants closer than this, relatively, count as equal.
const SAME: f64 = 1e-11;

/// The simulated times of the steps of the trace.
///
/// # Errors
/// The writer's.
pub fn chrome(out: &mut impl Write, trace: &Trace) -> io::Result<()> {
    let mut tracks: BTreeMap<(&End, Way), Vec<(u64, &Transfer)>> = BTreeMap::new();
    for step in &trace.steps {
        for t in &step.transfers {
            tracks.entry((&t.from, Way::Sends)).or_default().push((step.step, t));
            tracks.entry((&t.to, Way::Receives)).or_default().push((step.step, t));
        }
    }
    let mut file = File { out, first: true };
    write!(file.out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut named = None;
    for (&(end, way), messages) in &mut tracks {
        let pid = match end {
            End::Rank(rank) => *rank,
            End::Switch(name) => {
                let number: u32 = name.trim_start_matches("switch").parse().unwrap_or(0);
                trace.question.ranks + number
            }
        };
        if named.replace(end) != Some(end) {
            let process = match end {
                End::Rank(rank) => format!("rank {rank}"),
                End::Switch(name) => name.clone(),
            };
            file.meta("process_name", (pid, 0), Args::Name { name: &process })?;
            file.meta("process_sort_index", (pid, 0), Args::Order { sort_index: pid })?;
        }
        rising(messages, |(_, message)| message.start_s);
        // Messages in flight at the same time need separate tracks.
        let mut lanes: Vec<f64> = Vec::new();
        for &(step, t) in messages.iter() {
            let free = lanes.iter().position(|end| *end <= t.start_s * (1.0 + SAME));
            let lane = free.unwrap_or(lanes.len());
            let tid = 2 * lane as u32 + u32::from(way == Way::Receives);
            if lane == lanes.len() {
                lanes.push(0.0);
                let word = if way == Way::Sends { "sends" } else { "receives" };
                let track =
                    if lane == 0 { word.to_owned() } else { format!("{word} {}", lane + 1) };
                let order = (way == Way::Receives) as u32 * 1000 + lane as u32;
                file.meta("thread_name", (pid, tid), Args::Name { name: &track })?;
                file.meta("thread_sort_index", (pid, tid), Args::Order { sort_index: order })?;
            }
            lanes[lane] = t.end_s;
            let what = match way {
                Way::Sends => format!("{} {} to {}", verb(t.op), carried(t, trace), t.to),
                Way::Receives => format!("{} {} from {}", verb(t.op), carried(t, trace), t.from),
            };
            file.event(&Event {
                ph: "X",
                name: &what,
                pid,
                tid,
                cat: Some(t.op.id()),
                ts: Some(t.start_s * 1e6),
                dur: Some((t.end_s - t.start_s) * 1e6),
                args: Args::Message {
                    step,
                    from: t.from.to_string(),
                    to: t.to.to_string(),
                    chunks: carried(t, trace),
                    bytes: t.bytes,
                },
            })?;
        }
    }
    writeln!(file.out, "\n]}}")
}

/// Events, one per line.
struct File<'w, W> {
    out: &'w mut W,
    first: bool,
}

impl<W: Write> File<'_, W> {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }

    fn meta(&mut self, name: &str, (pid, tid): (u32, u32), args: Args<'_>) -> io::Result<()> {
        self.event(&Event { ph: "M", name, pid, tid, cat: None, ts: None, dur: None, args })
    }
}
