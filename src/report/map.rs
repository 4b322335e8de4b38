//! The best algorithms over sizes and ranks at once.
//!
//! ```text
//! ranks  from         to  take
//!     8  1 B           –  in-network
//!    16  1 B    58.1 MiB  NVLS in node, double tree out
//! ```

use serde::Serialize;

use super::cost::{Flip, LARGEST, MachineView, QuestionView, SMALLEST, machine, question};
use super::sweep::{all, shipped};
use crate::algorithm::Registry;
use crate::crossover::envelope_in_steps;
use crate::error::{Error, Result};
use crate::quantity::Bytes;
use crate::query::Query;
use crate::rank::Candidate;

/// The winners over sizes, for each number of ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Map {
    /// `collcost/map/1`.
    pub schema: &'static str,
    /// The question, at the largest number of ranks; its size says nothing.
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

/// The winners for one number of ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapRow {
    /// N.
    pub ranks: u32,
    /// Nodes in use.
    pub nodes: u32,
    /// The fastest that the machine's own library ships: each from its size on.
    pub take: Vec<Flip>,
    /// The fastest of all.
    pub paper: Vec<Flip>,
}

/// Sizes compared an octave; a winner that holds for less is left out.
const STEPS: u32 = 4;

/// The winners for each of `queries`, which differ in their ranks, between two sizes or over all.
///
/// # Errors
/// As the main report; no query at all.
pub fn map(
    registry: &Registry,
    queries: &[Query],
    sizes: Option<(Bytes, Bytes)>,
    only: Option<&str>,
) -> Result<Map> {
    let largest = queries.iter().max_by_key(|q| q.shape.ranks);
    let largest = largest.ok_or_else(|| Error::input("no number of ranks is asked"))?;
    let (from, to) = sizes.unwrap_or((Bytes(SMALLEST.0 as u64), Bytes(LARGEST.0 as u64)));
    let mut rows = Vec::with_capacity(queries.len());
    for query in queries {
        let ready = all(registry, query, only)?;
        let own = if only.is_some() { ready.clone() } else { shipped(&ready, query) };
        let over = |ready: &[Candidate]| -> Vec<Flip> {
            envelope_in_steps(ready, from.into(), to.into(), STEPS).iter().map(Flip::new).collect()
        };
        rows.push(MapRow {
            ranks: query.shape.ranks,
            nodes: query.placement.nodes(),
            take: over(&own),
            paper: over(&ready),
        });
    }
    Ok(Map {
        schema: "collcost/map/1",
        question: question(largest),
        machine: machine(&largest.machine),
        from_bytes: from.0,
        to_bytes: to.0,
        rows,
    })
}
