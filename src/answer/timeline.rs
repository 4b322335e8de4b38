//! The times of every message of a schedule, and which of them are critical.

use super::End;
use super::cost::{MachineView, QuestionView, machine, question};
use super::simulate::{Ask, Plan};
use crate::base::error::{Error, Result};
use crate::cost::simulate::Mode;
use crate::cost::simulate::listen::{CriticalPath, Trace};
use crate::cost::simulate::{Listener, Setup, Timed, simulate_with};
use crate::machine::query::Query;
use crate::model::schedule::Op;
use crate::model::schedule::sends_more_than;

/// Messages with their times.
#[derive(Debug)]
pub struct Timeline {
    /// The question.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The algorithm's name in a table, or the file.
    pub title: String,
    /// The mode, which decides when messages start: `sync`, `local` or `flow`.
    pub mode: Mode,
    /// When the last message ends.
    pub makespan_s: f64,
    /// The messages in schedule order.
    pub messages: Vec<Message>,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// Its round, from 0.
    pub round: u64,
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// What the receiver does with the data: `copy`, `reduce` or `or`.
    pub op: Op,
    /// The amount of data.
    pub bytes: f64,
    /// When it starts.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Whether the makespan depends on it.
    pub critical: bool,
}

/// The maximum number of messages that a picture can show legibly.
const MOST: u64 = 4096;

/// Simulates `plan` for the question and keeps every message.
///
/// # Errors
/// More messages than a picture holds; as [`simulate`](crate::cost::simulate::simulate).
pub fn timeline(query: &Query, plan: &Plan, ask: &Ask) -> Result<Timeline> {
    let fabric = &query.machine.fabric;
    let schedule = plan.schedule();
    if sends_more_than(schedule, MOST) {
        return Err(Error::input(format!("more than {MOST} messages are too many to draw"))
            .at(plan.asked())
            .help("ask for fewer ranks or --segments"));
    }
    let mode = ask.mode.unwrap_or_default();
    let setup = Setup { trouble: ask.trouble.clone(), ..Setup::of(query).in_mode(mode) };
    let mut critical = CriticalPath::new(schedule, fabric, &setup)?;
    let mut trace = Trace::default();
    let mut both = |message: &Timed<'_>| {
        critical.message(message);
        trace.message(message);
    };
    let makespan = simulate_with(schedule, fabric, &setup, &mut both)?.makespan;
    let path = critical.path();
    let decides = |m: &Timed<'_>| {
        path.hops.iter().any(|hop| {
            (hop.round, hop.from, hop.to) == (m.round, m.from, m.to) && hop.start == m.start
        })
    };
    let message = |m: Timed<'_>| Message {
        round: m.round,
        from: m.from.into(),
        to: m.to.into(),
        op: m.op,
        bytes: m.bytes.0,
        start_s: m.start.0,
        end_s: m.end.0,
        critical: decides(&m),
    };
    Ok(Timeline {
        question: question(query),
        machine: machine(&query.machine),
        title: plan.title().to_owned(),
        mode,
        makespan_s: makespan.0,
        messages: trace.iter().map(message).collect(),
    })
}
