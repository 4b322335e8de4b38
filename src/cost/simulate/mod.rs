//! The duration of a schedule: event by event, under a stated model of ports and timing.
//!
//! A message takes α + bytes/BW of the tier that it crosses. For that time it holds a send port of
//! its source, a receive port of its target (one of shared ports at half duplex), a NIC of each
//! node that it leaves or enters if those are shared, and always the directed link between the two.
//! On its way to a tier further out it also holds a NIC of every tier between, at both ends, and moves no
//! faster than these.
//! No closed form is used: the result follows from the messages.
//!
//! | mode | a message starts when |
//! |---|---|
//! | `sync` | everything of the rounds before has ended |
//! | `local` | its two ranks have ended all that they do in the rounds before |
//! | `flow` | everything that wrote its chunks at its source, in rounds before, has ended |
//!
//! and its ports are free. Nothing waits at the receiver in `flow`. Of messages that could start at
//! one instant the first in the schedule goes first; one that cannot start delays no other.
//! Instants closer than 1e-11, relative, count as one, and ports freed at an instant are available
//! to messages that start then.
//!
//! Ports are serial, or share their rate fairly among the messages that need it (max-min), as real
//! TCP does. A duplex factor d below 1 lets a port, or a NIC that ranks share, that sends and receives at once
//! move 2·d times its rate, both together, of a message's bytes after those that a link moves as fast both ways.
//! Measured links ([`crate::machine::link`]) also have knots, which give
//! each byte the time of its position in the message; a part of the rate, which messages out of one
//! fair port reach together; and a bucket. A port saves the time in which it sends nothing, up to
//! the bucket's size, and its next bytes wait that much less.
//!
//! Added data are available γ per byte later. A rank adds one thing after another, whatever its
//! ports, which are free meanwhile. Of data that arrived at one instant the first in the schedule
//! are added first. They are added to the data that were copied there last, in earlier rounds, and
//! wait for those; partial sums are added to each other in order of arrival.
//!
//! A switch forwards while it receives, in all modes: a message that it sends may start α_sw after
//! the data it needs have started to arrive, and ends no earlier than α_sw after those have ended.

pub mod arrival;
mod cells;
mod costs;
mod fluid;
mod greedy;
mod in_order;
mod jobs;
pub mod listen;
mod rounds;
mod symmetric;
mod tally;
mod turning;
mod waiting;

pub use tally::Outcome;

use std::str::FromStr;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::base::words::{one_of, words};
use crate::machine::fabric::Fabric;
use crate::machine::query::Query;
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule};
use cells::Cells;
use costs::Costs;

/// The most memory that a simulation may use, in bytes.
pub const MEMORY: u64 = 1 << 30;

/// The most ranks times rounds of a simulation, each a query of a rank for its sends: minutes.
pub const SENDERS: u64 = 20_000_000_000;

words! {
    /// When a message may start, apart from its ports.
    #[derive(Hash, Default)]
    pub enum Mode {
        // The slowest first.
        /// A barrier after every round.
        Sync = "sync",
        /// A rank starts a round when it has ended its own rounds before.
        Local = "local",
        /// Only data dependencies.
        #[default]
        Flow = "flow",
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        one_of(text, "a mode", Self::ALL.map(|mode| (mode.id(), mode)))
    }
}

/// Disturbances of a real machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trouble {
    /// When each rank starts, rank 0 first; ranks beyond the list start at 0.
    pub starts: Vec<Seconds>,
    /// Ranks whose messages and additions take this many times as long.
    pub slow_ranks: Vec<(u32, Ratio)>,
    /// Directed links, from and to a rank, over which messages take this many times as long.
    pub slow_links: Vec<(u32, u32, Ratio)>,
}

impl Trouble {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.starts.iter().all(|start| start.0 == 0.0)
            && self.slow_ranks.is_empty()
            && self.slow_links.is_empty()
    }
}

/// The parameters of a simulation besides the schedule and the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// M.
    pub size: Volume,
    /// Bytes of an element, if chunks hold whole elements; absent: M divides into any parts.
    pub element: Option<Bytes>,
    /// When messages may start.
    pub mode: Mode,
    /// Disturbances.
    pub trouble: Trouble,
    /// The transfers that a rank can make at once inside a node, if they are fewer than the machine's: a chip of a
    /// slice has no more than its links there.
    pub ports: Option<Ports>,
}

impl Setup {
    /// M bytes, only data dependencies, no disturbances.
    #[must_use]
    pub fn new(size: Volume) -> Self {
        Self { size, element: None, mode: Mode::Flow, trouble: Trouble::default(), ports: None }
    }

    /// The same for a question: its size, whole elements if it says so, its chips.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        let in_slice = query.machine.fabric.torus(query.shape.ranks).map(|_| query.shape.ports);
        Self { element: query.element, ports: in_slice, ..Self::new(Volume::from(query.size)) }
    }

    /// The same in another mode.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

/// One message with its times.
#[derive(Debug, Clone, Copy)]
pub struct Timed<'a> {
    /// The round.
    pub round: u64,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// What the receiver does with the data.
    pub op: Op,
    /// The chunks.
    pub runs: &'a [Run],
    /// The amount of data.
    pub bytes: Volume,
    /// The tier that it crosses, from the innermost; `None` through a switch.
    pub tier: Option<usize>,
    /// When it started.
    pub start: Seconds,
    /// When it ended, and its ports were free.
    pub end: Seconds,
    /// When the receiver had added it; equal to the end if nothing is added.
    pub added: Seconds,
}

/// Receives every message of a simulation, in schedule order.
pub trait Listener {
    /// One message.
    fn message(&mut self, message: &Timed<'_>);
}

impl<F: FnMut(&Timed<'_>)> Listener for F {
    fn message(&mut self, message: &Timed<'_>) {
        self(message);
    }
}

/// Memory of simulations, reused so that nothing is allocated twice.
#[derive(Default)]
pub struct Simulator {
    space: Space,
}

/// The working memory of the simulation methods.
#[derive(Default)]
struct Space {
    jobs: jobs::Jobs,
    buffers: greedy::Buffers,
    written: in_order::Written,
    tally: tally::Tally,
}

/// Times `schedule` on `fabric`; [`Simulator::run`] once.
///
/// # Errors
/// Errors of [`Simulator::run`].
pub fn simulate(schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) -> Result<Outcome> {
    Simulator::default().run(schedule, fabric, setup, None)
}

/// Times `schedule` on `fabric` and reports every message to `listener`.
///
/// # Errors
/// Errors of [`Simulator::run`].
pub fn simulate_with(
    schedule: &dyn Schedule,
    fabric: &Fabric,
    setup: &Setup,
    listener: &mut dyn Listener,
) -> Result<Outcome> {
    Simulator::default().run(schedule, fabric, setup, Some(listener))
}

impl Simulator {
    /// Times `schedule` on `fabric` and reports every message to `listener`, if there is one.
    ///
    /// # Errors
    /// An unknown parameter of the machine that a message needs; more ranks than the machine joins;
    /// a rank in the trouble that does not exist; a schedule that refers to something that does not
    /// exist; a simulation that needs more than [`MEMORY`], with the estimate, before anything is
    /// allocated, or more than [`SENDERS`].
    pub fn run(
        &mut self,
        schedule: &dyn Schedule,
        fabric: &Fabric,
        setup: &Setup,
        listener: Option<&mut dyn Listener>,
    ) -> Result<Outcome> {
        let costs = Costs::new(schedule, fabric, setup)?;
        let space = &mut self.space;
        if listener.is_none() && all_do_as_one(&costs) {
            return symmetric::run(schedule, &costs, setup.mode, space);
        }
        check_senders(schedule.rounds().saturating_mul(costs.places() as u64), &costs.frame)?;
        match (setup.mode, Way::of(&costs, setup.mode)) {
            (_, Way::InOrder) => in_order::flow(schedule, &costs, space, listener),
            (mode, Way::Whole) => {
                let flows = mode == Mode::Flow;
                let cells = flows.then(|| Cells::of(schedule, &costs)).transpose()?;
                greedy::whole(schedule, &costs, cells.as_ref(), space, listener)
            }
            (mode, Way::Rounds) => rounds::run(schedule, &costs, mode, space, listener),
        }
    }
}

/// Whether one rank can represent all.
fn all_do_as_one(costs: &Costs) -> bool {
    // Of two messages that arrive at once to be added, the one with the lower sender goes first,
    // which is not the same one at every rank.
    let adds_alike = costs.is_plain() || !costs.adds();
    costs.frame.turns && costs.is_uniform() && !costs.is_half() && adds_alike
}

/// The simulation method for all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In schedule order if that is exact, otherwise as a whole.
    InOrder,
    /// All messages event by event.
    Whole,
    /// Round by round.
    Rounds,
}

impl Way {
    fn of(costs: &Costs, mode: Mode) -> Self {
        match mode {
            Mode::Flow if costs.is_plain() && !costs.shares() => Self::InOrder,
            Mode::Flow => Self::Whole,
            // Messages of different rounds compete for NICs.
            Mode::Local if costs.has_nics() => Self::Whole,
            Mode::Local | Mode::Sync => Self::Rounds,
        }
    }
}

/// Refuses simulations that would take too long: `asked` is ranks times rounds.
fn check_senders(asked: u64, frame: &Frame) -> Result<()> {
    if asked <= SENDERS {
        return Ok(());
    }
    let error = Error::input(format!(
        "ranks times rounds of this schedule are {asked}; at most {SENDERS} are simulated"
    ));
    Err(error.help(match of_few_rounds(frame.collective) {
        Some(id) => format!(
            "use an algorithm of few rounds, such as --algorithm {id} --mode sync, or fewer ranks; \
             identical ranks cost nothing"
        ),
        None => "use fewer ranks; identical ranks cost nothing".to_owned(),
    }))
}

/// An algorithm of log N rounds for any N that has a schedule, if there is one.
fn of_few_rounds(collective: Collective) -> Option<&'static str> {
    use Collective::{
        AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
        SendRecv,
    };
    match collective {
        AllReduce => Some("recursive-doubling"),
        AllGather | ReduceScatter => Some("bruck"),
        Broadcast | Reduce | Gather | Scatter => Some("binomial"),
        Barrier => Some("dissemination"),
        AllToAll | SendRecv => None,
    }
}

#[cfg(test)]
mod tests;
