//! The size at which one algorithm overtakes another.

use serde::Serialize;

use crate::algorithm::{Named, Registry};
use crate::crossover;
use crate::error::Result;
use crate::price::Prepared;
use crate::quantity::Volume;
use crate::query::Query;

/// Two algorithms and the size where the better of them changes.
#[derive(Debug, Serialize)]
pub struct Crossover {
    /// `collcost/crossover/1`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: &'static str,
    /// N.
    pub ranks: u32,
    /// The machine's name.
    pub machine: String,
    /// Wins below.
    pub below: &'static str,
    /// Wins above.
    pub above: &'static str,
    /// Where; absent where one of them is never slower.
    pub size_bytes: Option<f64>,
    /// The time of both there.
    pub time_s: Option<f64>,
    /// The one that is never slower, where there is no crossover.
    pub always: Option<&'static str>,
}

/// Compares two algorithms of the question's collective; the sizes decide which wins below.
///
/// # Errors
/// An unknown name, an algorithm that does not apply, an unknown figure.
pub fn crossover(registry: &Registry, query: &Query, a: &str, b: &str) -> Result<Crossover> {
    let prepare = |name: &str| {
        let Named { algorithm, form } = registry.find(query.shape.collective, name)?;
        let prepared = Prepared::stated(algorithm, form, &query.shape, &query.machine.fabric)?;
        Ok((algorithm.meta().id, prepared))
    };
    let (a, b) = (prepare(a)?, prepare(b)?);
    let there = crossover::crossover(&a.1, &b.1).map(|size| (a, b, size));
    let back = || crossover::crossover(&b.1, &a.1).map(|size| (b, a, size));
    let found = there.or_else(back);
    let (below, above) = found.map_or((a, b), |(below, above, _)| (below, above));
    let size = found.map(|(.., size)| size);
    let faster = if a.1.time(MIDDLE).0 <= b.1.time(MIDDLE).0 { a.0 } else { b.0 };
    Ok(Crossover {
        schema: "collcost/crossover/1",
        collective: query.shape.collective.id(),
        ranks: query.shape.ranks,
        machine: query.machine.name.clone(),
        below: below.0,
        above: above.0,
        size_bytes: size.map(|s| s.0),
        time_s: size.map(|s| above.1.time(s).0),
        always: size.is_none().then_some(faster),
    })
}

/// Without a crossover the order is the same at every size; this one is as good as any.
const MIDDLE: Volume = Volume(1_048_576.0);
