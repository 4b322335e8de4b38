//! A schedule step by step: who sends what to whom, what every rank then holds, and when.
//!
//! ```text
//! step 1 of 2, added: 0 → 1 chunk 0, 1 → 0 chunk 1
//! rank  0         1
//! 0     v00       v01+v11*
//! 1     v10+v00*  v11
//! ```

mod contents;
mod events;
mod members;

use serde::{Serialize, Serializer};

use super::cost::{MachineView, QuestionView, machine, question};
use super::{End, without_gamma};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::cost::rank::check_elements;
use crate::cost::simulate::{Listener, Mode, Outcome, Setup, Timed, simulate_with};
use crate::machine::query::Query;
use crate::measure::schedule_of::{ScheduleOf, schedule_of};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::schedule::{Frame, Layout, Op, Schedule, sends_more_than};

pub use contents::{Cell, Sum};
pub use events::{Event, EventTier, Header};
pub use members::{Flow, Line, Members, Part, Role, Tree};

/// The maximum number of messages of a trace; [`Run::listen`] has no such limit.
pub const MOST_MESSAGES: u64 = 1 << 18;

/// A schedule on a machine, ready to run.
pub struct Run {
    algorithm: &'static dyn Algorithm,
    query: Query,
    schedule: Box<dyn Schedule>,
    /// P, if it is pipelined.
    segments: Option<u32>,
    stands_in: Option<String>,
    setup: Setup,
}

/// A schedule step by step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trace {
    /// `collcost/trace/1`.
    pub schema: &'static str,
    /// The question.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// The rank that has or gets the data; absent if there is none.
    pub root: Option<u32>,
    /// P, if the algorithm is pipelined.
    pub segments: Option<u32>,
    /// The number of parts that M is cut into.
    pub parts: u32,
    /// Whether every rank has its own parts: chunk i·parts + j is then part j of rank i.
    pub own_parts: bool,
    /// Bytes of each chunk.
    pub chunk_bytes: Vec<f64>,
    /// The mode, which decides when messages start: `sync`, `local` or `flow`.
    pub mode: Mode,
    /// Rings, chains and trees that the messages form, and the ranks of each node.
    pub members: Members,
    /// The requested step; absent: all steps.
    pub only_step: Option<u64>,
    /// What every rank, and after them every switch, holds of each chunk at the start; absent if it
    /// is too much to show or was not requested.
    pub start: Option<Vec<Vec<Option<Cell>>>>,
    /// The steps, or the requested one.
    pub steps: Vec<Step>,
    /// The totals of all steps.
    pub totals: Totals,
    /// What to know before reading it.
    pub notes: Vec<String>,
}

/// A round with messages.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Its number among these rounds, from 1.
    pub step: u64,
    /// Its round in the schedule, from 0.
    pub round: u64,
    /// What receivers do: `copy`, `reduce`, `or`.
    pub ops: Vec<Op>,
    /// The number of ranks and switches that send.
    pub senders: u32,
    /// The number of messages that they send.
    pub messages: u64,
    /// The data that the busiest of them sends.
    pub max_sent_bytes: f64,
    /// The data that all of them send.
    pub sent_bytes: f64,
    /// The share of all data that has been sent after this step; absent without data.
    pub share_so_far: Option<f64>,
    /// When its first message starts.
    pub start_s: f64,
    /// When its last message ends.
    pub end_s: f64,
    /// The pattern of senders and receivers, if there is one: `i → i + 1`.
    pub pattern: Option<String>,
    /// The messages in schedule order.
    pub transfers: Vec<Transfer>,
    /// What every rank, and after them every switch, holds afterwards.
    pub state: Option<Vec<Vec<Option<Cell>>>>,
    /// Row and chunk of each cell that this step wrote.
    pub written: Vec<(u32, u32)>,
}

/// A message.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfer {
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// What the receiver does with the data: `copy`, `reduce` or `or`.
    pub op: Op,
    /// The chunks.
    pub chunks: Vec<u32>,
    /// The amount of data.
    pub bytes: f64,
    /// When it starts.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
}

/// The totals of all steps.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// The number of rounds with messages.
    pub steps: u64,
    /// The total number of messages.
    pub messages: u64,
    /// The number of messages of the rank that sends most.
    pub max_messages: u64,
    /// The data that all ranks send.
    pub sent_bytes: f64,
    /// The data that the busiest rank sends.
    pub max_sent_bytes: f64,
    /// The data that the busiest rank receives.
    pub max_received_bytes: f64,
    /// When the last message ends, without the launch.
    pub makespan_s: f64,
    /// The first step after which every chunk of a reduction is complete at one rank each.
    pub whole_after_step: Option<u64>,
    /// Rank and chunk of the sums that are then complete.
    pub owners: Vec<(u32, u32)>,
}

impl Run {
    /// The schedule of the named algorithm, or of what the library runs, on the question's machine,
    /// moved to another root.
    ///
    /// # Errors
    /// An unknown name, an algorithm that does not apply or has no explicit schedule, a root where
    /// there is none.
    pub fn new(
        registry: &Registry,
        query: &Query,
        algorithm: Option<&str>,
        root: Option<u32>,
        mode: Mode,
    ) -> Result<Self> {
        query.element.map_or(Ok(()), |each| check_elements(query.size, each))?;
        let spelled = schedule_of(registry, query, algorithm, root)?;
        let stands_in = spelled.stands_in();
        let ScheduleOf { algorithm, shape, schedule, .. } = spelled;
        let segments = algorithm.is_pipelined().then(|| shape.segments());
        let (query, setup) = (query.clone(), Setup::of(query).in_mode(mode));
        Ok(Self { algorithm, query, schedule, segments, stands_in, setup })
    }

    /// Simulates it and reports every message to `listener`.
    ///
    /// # Errors
    /// As [`simulate`](crate::cost::simulate::simulate()).
    pub fn listen(&self, listener: &mut dyn Listener) -> Result<Outcome> {
        simulate_with(&*self.schedule, &self.query.machine.fabric, &self.setup, listener)
    }

    /// All steps, or only the state after step `only`, with the contents as names or from `data`: a
    /// row of numbers per rank, or only the root's.
    ///
    /// # Errors
    /// More than [`MOST_MESSAGES`]; a step that does not exist; rows that do not fit; as
    /// [`Self::listen`].
    pub fn trace(&self, only: Option<u64>, data: Option<&[Vec<f64>]>) -> Result<Trace> {
        let schedule = &*self.schedule;
        let frame = schedule.frame();
        check_messages(schedule)?;
        let (mut steps, mut edges): (Vec<Step>, _) = (Vec::new(), members::Edges::default());
        let outcome = self.listen(&mut |message: &Timed<'_>| {
            edges.add(message, schedule);
            if steps.last().is_none_or(|step| step.round != message.round) {
                steps.push(Step::new(steps.len() as u64 + 1, message));
            }
            if let Some(step) = steps.last_mut() {
                step.add(message);
            }
        })?;
        if let Some(step) = only.filter(|step| *step > outcome.rounds) {
            return Err(Error::input(format!("there is no step {step}"))
                .at(format!("--step {step}"))
                .help(format!("steps are 0, the start, to {}", outcome.rounds)));
        }
        let mut so_far = 0.0;
        for step in &mut steps {
            step.finish();
            so_far += step.sent_bytes;
            step.share_so_far = (outcome.total.0 > 0.0).then_some(so_far / outcome.total.0);
        }
        members::patterns(&mut steps, frame.ranks);
        let followed = contents::follow(schedule, &mut steps, only, data)?;
        if let Some(step) = only {
            steps.retain(|s| s.step == step);
        }
        let meta = self.algorithm.meta();
        Ok(Trace {
            schema: "collcost/trace/1",
            question: question(&self.query),
            machine: machine(&self.query.machine),
            algorithm: meta.id,
            title: meta.title,
            root: frame.collective.has_root().then_some(frame.root),
            segments: self.segments,
            parts: frame.parts,
            own_parts: frame.layout == Layout::Owned,
            chunk_bytes: self.chunk_bytes(),
            mode: self.setup.mode,
            members: edges.members(schedule, &self.query),
            only_step: only,
            start: followed.start,
            steps,
            totals: Totals {
                steps: outcome.rounds,
                messages: outcome.messages,
                max_messages: outcome.max_messages,
                sent_bytes: outcome.total.0,
                max_sent_bytes: outcome.max_sent.0,
                max_received_bytes: outcome.max_received.0,
                makespan_s: outcome.makespan.0,
                whole_after_step: followed.whole_after_step,
                owners: followed.owners,
            },
            notes: self.notes(&frame, followed.too_much),
        })
    }

    /// Bytes of each chunk: M divides evenly, or whole elements are distributed and the first parts
    /// get one more.
    fn chunk_bytes(&self) -> Vec<f64> {
        let frame = self.schedule.frame();
        let size = if frame.collective == Collective::Barrier { 0.0 } else { self.setup.size.0 };
        let part = |chunk: u32| match self.setup.element {
            Some(each) => {
                let range = frame.range(chunk, (size / each.0 as f64) as u64);
                (range.end - range.start) as f64 * each.0 as f64
            }
            None => size / f64::from(frame.parts),
        };
        (0..self.schedule.chunks()).map(part).collect()
    }

    /// Whose blocks the first chunks are, where these are not numbered as the ranks.
    fn blocks(&self, frame: &Frame) -> Option<String> {
        let shared = frame.layout == Layout::Shared && frame.collective.has_blocks();
        if !shared || frame.parts != frame.ranks {
            return None;
        }
        let owners: Vec<u32> = (0..frame.parts).map(|chunk| self.schedule.owner(chunk)).collect();
        if owners.iter().zip(0..).all(|(owner, chunk)| *owner == chunk) {
            return None;
        }
        let name = |(owner, chunk): (&u32, u32)| format!("c{chunk} is rank {owner}'s block");
        let some: Vec<String> = owners.iter().zip(0..NAMED).map(name).collect();
        let more = if frame.parts > NAMED { " …" } else { "" };
        let some = some.join(", ");
        Some(format!("{some}{more}; a library stores them in the order of the ranks"))
    }

    fn notes(&self, frame: &Frame, too_much: bool) -> Vec<String> {
        let fabric = &self.query.machine.fabric;
        let mut notes: Vec<String> = self.stands_in.clone().into_iter().collect();
        if fabric.launch.0 > 0.0 {
            notes.push(format!(
                "times are those of the messages, without the launch of {}",
                fabric.launch
            ));
        }
        notes.extend(without_gamma(fabric, frame.collective));
        notes.extend(self.blocks(frame));
        if too_much {
            notes.push(
                "the contents of the ranks are too large to follow: only messages are shown"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Blocks that a note names.
const NAMED: u32 = 3;

/// Refuses more messages than a trace holds, without counting further.
fn check_messages(schedule: &dyn Schedule) -> Result<()> {
    if !sends_more_than(schedule, MOST_MESSAGES) {
        return Ok(());
    }
    Err(Error::input(format!("more than {MOST_MESSAGES} messages are too many to show"))
        .at(format!("{} ranks", schedule.ranks()))
        .help("ask for fewer ranks, or use --events, which streams them"))
}

impl Step {
    fn new(step: u64, message: &Timed<'_>) -> Self {
        Self {
            step,
            round: message.round,
            ops: Vec::new(),
            senders: 0,
            messages: 0,
            max_sent_bytes: 0.0,
            sent_bytes: 0.0,
            share_so_far: None,
            start_s: message.start.0,
            end_s: message.added.0,
            pattern: None,
            transfers: Vec::new(),
            state: None,
            written: Vec::new(),
        }
    }

    fn add(&mut self, message: &Timed<'_>) {
        let op = message.op;
        if !self.ops.contains(&op) {
            self.ops.push(op);
        }
        self.start_s = self.start_s.min(message.start.0);
        self.end_s = self.end_s.max(message.added.0);
        self.transfers.push(Transfer {
            from: message.from.into(),
            to: message.to.into(),
            op,
            chunks: message.runs.iter().flat_map(|run| run.chunks()).collect(),
            bytes: message.bytes.0,
            start_s: message.start.0,
            end_s: message.end.0,
        });
    }

    /// Computes the totals once all messages are there; those of one sender are adjacent.
    fn finish(&mut self) {
        self.messages = self.transfers.len() as u64;
        for of_one in self.transfers.chunk_by(|a, b| a.from == b.from) {
            let sent: f64 = of_one.iter().map(|t| t.bytes).sum();
            self.senders += 1;
            self.sent_bytes += sent;
            self.max_sent_bytes = self.max_sent_bytes.max(sent);
        }
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
