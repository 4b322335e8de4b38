//! What runs over sizes and ranks, and what would be the fastest.
//!
//! ```text
//! ranks  from         to  runs
//!     8  1 B           –  NVLS/Simple
//!    16  1 B    58.1 MiB  Tree/LL
//! ```

use serde::Serialize;

use super::cost::{
    Fastest, LARGEST, MachineView, QuestionView, SMALLEST, SwitchPoint, machine, question,
    switch_points,
};
use super::sweep::Asked;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::cost::crossover::envelope_in_steps;
use crate::cost::rank::Candidate;
use crate::machine::query::Query;
use crate::model::algorithm::Registry;

/// What runs over sizes, for each number of ranks, and what would be the fastest.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Map {
    /// `collcost/map/2`.
    pub schema: &'static str,
    /// The question, at the largest number of ranks; its size is not used.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The first size.
    pub from_bytes: u64,
    /// The last.
    pub to_bytes: u64,
    /// One for each number of ranks.
    pub rows: Vec<MapRow>,
}

/// The entry for one number of ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapRow {
    /// N.
    pub ranks: u32,
    /// Nodes in use.
    pub nodes: u32,
    /// What the library runs, by its rules; empty if they are not known.
    pub switch_points: Vec<SwitchPoint>,
    /// The lowest ideal time of what the machine's own library ships: each from its size on.
    pub fastest_shipped: Vec<Fastest>,
    /// The lowest ideal time of all.
    pub fastest: Vec<Fastest>,
}

/// Sizes compared per octave; an algorithm that wins for less is left out.
const STEPS: u32 = 4;

/// The winners for each of `queries`, which differ in their ranks, between two sizes or over all.
///
/// # Errors
/// As the main report; an empty `queries`.
pub fn map(
    registry: &Registry,
    queries: &[Query],
    sizes: Option<(Bytes, Bytes)>,
    only: Option<&str>,
) -> Result<Map> {
    let largest = queries.iter().max_by_key(|q| q.shape.ranks);
    let largest = largest.ok_or_else(|| Error::input("no number of ranks is given"))?;
    let (from, to) = sizes.unwrap_or((SMALLEST, LARGEST));
    let mut rows = Vec::with_capacity(queries.len());
    for query in queries {
        let Asked { expecting, ready, own } = Asked::new(registry, query, only)?;
        let over = |ready: &[Candidate]| -> Vec<Fastest> {
            envelope_in_steps(ready, from.into(), to.into(), STEPS)
                .iter()
                .map(Fastest::new)
                .collect()
        };
        rows.push(MapRow {
            ranks: query.shape.ranks,
            nodes: query.placement.nodes(),
            switch_points: between(switch_points(&expecting), from, to),
            fastest_shipped: over(&own),
            fastest: over(&ready),
        });
    }
    Ok(Map {
        schema: "collcost/map/2",
        question: question(largest),
        machine: machine(&largest.machine),
        from_bytes: from.0,
        to_bytes: to.0,
        rows,
    })
}

/// The part of `points` between two sizes.
fn between(mut points: Vec<SwitchPoint>, from: Bytes, to: Bytes) -> Vec<SwitchPoint> {
    points.retain(|p| p.from_bytes <= to.0);
    let first = points.iter().rposition(|p| p.from_bytes <= from.0).unwrap_or(0);
    points.drain(..first);
    if let Some(point) = points.first_mut() {
        point.from_bytes = point.from_bytes.max(from.0);
    }
    points
}
