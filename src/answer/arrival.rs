//! Operations in the order in which messages arrive: when each rank finishes, and what delayed it.

use serde::Serialize;

use super::cost::{MachineView, machine};
use crate::base::error::{Error, Result};
use crate::base::quantity::Seconds;
use crate::cost::simulate::arrival::{Arrived, Overheads, RankTimes, Stuck, arrive};
use crate::exchange::import::Bare;
use crate::machine::query::Query;
use crate::model::operations::Operations;

/// The times that operations took.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrival {
    /// `collcost/arrival/1`.
    pub schema: &'static str,
    /// What was simulated: a file, or a collective with its algorithm and size.
    pub played: String,
    /// The machine.
    pub machine: MachineView,
    /// N.
    pub ranks: u32,
    /// The nodes in use.
    pub nodes: u32,
    /// Sends, receives and computations.
    pub operations: usize,
    /// Messages in all.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last rank finishes, without the launch.
    pub makespan_s: f64,
    /// The computing time of the rank that computes most.
    pub most_computed_s: f64,
    /// Each rank that does something, by number.
    pub rank_times: Vec<RankView>,
}

/// What one rank did.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankView {
    /// Its number.
    pub rank: u32,
    /// When its last processor becomes free.
    pub end_s: f64,
    /// The computing time of its processors.
    pub computes_s: f64,
    /// Their time spent on sending and receiving.
    pub moves_s: f64,
    /// The rest of one processor's time until its end: it waits for messages.
    pub waits_s: f64,
}

impl From<&RankTimes> for RankView {
    fn from(times: &RankTimes) -> Self {
        let RankTimes { rank, end, computes, moves } = *times;
        let waits = (end.0 - computes.0 - moves.0).max(0.0);
        Self { rank, end_s: end.0, computes_s: computes.0, moves_s: moves.0, waits_s: waits }
    }
}

/// How they are simulated.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// What messages cost besides α and the rate.
    pub overheads: Overheads,
    /// When each rank starts, rank 0 first; ranks beyond the list start at 0.
    pub starts: Vec<Seconds>,
}

/// Simulates the operations of a file on the machine of `query`.
///
/// # Errors
/// An operation that waits forever, with its line; a parameter that the machine lacks, or ranks
/// that it does not connect.
pub fn of_file(query: &Query, bare: &Bare, file: &str, ask: &Ask) -> Result<Arrival> {
    arrival(query, &bare.operations, file.to_owned(), ask).map_err(|stuck| match stuck {
        Stuck::Refused(error) => error,
        Stuck::Waits(operation) => {
            let line = bare.line(operation).map_or(String::new(), |line| format!(":{line}"));
            Error::input("this waits forever: for a message that is never sent, or for itself")
                .at(format!("{file}{line}"))
                .help("correct the file")
        }
    })
}

/// Simulates the messages of a schedule on the machine of `query`.
///
/// # Errors
/// A schedule with switches; a parameter that the machine lacks, or ranks that it does not connect.
pub fn of_schedule(query: &Query, plan: &super::simulate::Plan, ask: &Ask) -> Result<Arrival> {
    let operations = Operations::of(plan.schedule(), query.size, query.machine.fabric.gamma)?;
    let played = format!("{}, {}", plan.name(), query.size);
    arrival(query, &operations, played, ask).map_err(|stuck| match stuck {
        Stuck::Refused(error) => error,
        Stuck::Waits(_) => Error::input("a message of the schedule is never sent")
            .help("collcost verify shows which"),
    })
}

fn arrival(
    query: &Query,
    operations: &Operations,
    played: String,
    ask: &Ask,
) -> std::result::Result<Arrival, Stuck> {
    let Arrived { makespan, ranks, messages, bytes } =
        arrive(operations, &query.machine.fabric, ask.overheads, &ask.starts)?;
    let most = ranks.iter().map(|times| times.computes.0).fold(0.0, f64::max);
    Ok(Arrival {
        schema: "collcost/arrival/1",
        played,
        machine: machine(&query.machine),
        ranks: operations.ranks,
        nodes: query.placement.nodes(),
        operations: operations.list.len(),
        messages,
        bytes: bytes.0,
        makespan_s: makespan.0,
        most_computed_s: most,
        rank_times: ranks.iter().map(RankView::from).collect(),
    })
}
