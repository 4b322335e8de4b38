//! A query's algorithm as an explicit schedule: the one that its closed form prices.

use crate::base::error::{Error, Result};
use crate::base::quantity::Volume;
use crate::cost::price::Price;
use crate::cost::rank::{Candidate, candidates, rank};
use crate::machine::query::Query;
use crate::measure::expect::Expecting;
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Shape;
use crate::model::schedule::combine::Relabel;
use crate::model::schedule::{Layout, Schedule};

/// A schedule and its closed form.
pub struct ScheduleOf {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// The shape with the best number of segments for the size, unless one was set.
    pub shape: Shape,
    /// The closed form on the machine with that number.
    pub price: Price,
    /// What runs.
    pub schedule: Box<dyn Schedule>,
    /// Algorithms that came first but have no schedule that is meant, if none was named.
    pub passed_over: Vec<&'static str>,
}

/// The maximum number of algorithms without a schedule that a note names.
const PASSED_OVER: usize = 5;

impl ScheduleOf {
    /// That it stands in for what runs, which has no explicit schedule.
    #[must_use]
    pub fn stands_in(&self) -> Option<String> {
        let names = &self.passed_over;
        let first = names[..names.len().min(PASSED_OVER)].join(", ");
        let more = match names.len().saturating_sub(PASSED_OVER) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let note = format!("preferred, but without an explicit schedule: {first}{more}");
        (!names.is_empty()).then_some(note)
    }
}

/// The schedule of the named algorithm. Without a name it is what the machine's library runs; if that has
/// no explicit schedule, one that the library gives the same name, such as a ring for rings over all rails,
/// then the lowest ideal time of what it ships, then of all. `root` may be any rank.
///
/// # Errors
/// An unknown name, an algorithm that does not apply or has no explicit schedule, an unknown parameter, a
/// root that does not exist or that the collective does not have.
pub fn schedule_of(
    registry: &Registry,
    query: &Query,
    name: Option<&str>,
    root: Option<u32>,
) -> Result<ScheduleOf> {
    spelled(registry, query, name, root, |_| true)
}

/// As [`schedule_of`], but without a name only among schedules of ranks alone: no process is a switch that adds or
/// multicasts.
///
/// # Errors
/// As [`schedule_of`]'s.
pub fn schedule_of_ranks(
    registry: &Registry,
    query: &Query,
    name: Option<&str>,
    root: Option<u32>,
) -> Result<ScheduleOf> {
    spelled(registry, query, name, root, |schedule| schedule.frame().switches == 0)
}

fn spelled(
    registry: &Registry,
    query: &Query,
    name: Option<&str>,
    root: Option<u32>,
    meant: fn(&dyn Schedule) -> bool,
) -> Result<ScheduleOf> {
    check_root(query, root)?;
    if query.shape.params.root_speedup.is_some() {
        return Err(Error::unsupported("no schedule knows a root with faster links")
            .at("--root-speedup")
            .help("leave it out, or ask for the price alone"));
    }
    let mut spelled = match name {
        Some(name) => named(registry, query, name)?,
        None => runs(registry, query, meant)?,
    };
    if let Some(root) = root.filter(|&root| root > 0) {
        if spelled.schedule.frame().layout == Layout::Owned {
            let id = spelled.algorithm.meta().id;
            return Err(Error::unsupported(format!("the root of `{id}` is always rank 0")));
        }
        spelled.schedule = Box::new(Relabel::new(spelled.schedule, root));
    }
    Ok(spelled)
}

fn named(registry: &Registry, query: &Query, name: &str) -> Result<ScheduleOf> {
    let candidate = Candidate::named(registry, name, &query.shape, &query.machine.fabric)?;
    let price = candidate.prepared.price(Volume::from(query.size));
    written(candidate.algorithm, price, query).ok_or_else(|| {
        let id = candidate.algorithm.meta().id;
        Error::unsupported(format!("`{id}` has no explicit schedule for these ranks"))
            .help("name another --algorithm, or none to use the fastest that has one")
    })
}

fn runs(
    registry: &Registry,
    query: &Query,
    meant: fn(&dyn Schedule) -> bool,
) -> Result<ScheduleOf> {
    let (ready, _) = candidates(registry, &query.shape, &query.machine.fabric)?;
    let mut ranked = rank(&ready, Volume::from(query.size));
    let library = query.library();
    let own = Expecting::new(registry, query).map(|e| e.ideal(query.size).id);
    let collective = query.shape.collective;
    let known_as =
        |algorithm: &dyn Algorithm| library.and_then(|l| algorithm.meta().name_in(l, collective));
    let is_own =
        |algorithm: &dyn Algorithm| own.as_ref().is_ok_and(|id| *id == algorithm.meta().id);
    let runs = ranked.iter().find(|one| is_own(one.algorithm));
    let name = runs.and_then(|one| known_as(one.algorithm));
    // Within each of these the lowest ideal time stays first.
    ranked.sort_by_key(|one| match one.algorithm {
        algorithm if is_own(algorithm) => 0,
        algorithm if name.is_some() && known_as(algorithm) == name => 1,
        algorithm if algorithm.is_shipped(library, &query.shape) => 2,
        _ => 3,
    });
    let mut passed_over = Vec::new();
    for one in ranked {
        match written(one.algorithm, one.price, query).filter(|one| meant(&*one.schedule)) {
            Some(spelled) => return Ok(ScheduleOf { passed_over, ..spelled }),
            None => passed_over.push(one.algorithm.meta().id),
        }
    }
    Err(Error::unsupported(format!(
        "no {collective} algorithm has an explicit schedule for these ranks"
    )))
}

fn written(algorithm: &'static dyn Algorithm, price: Price, query: &Query) -> Option<ScheduleOf> {
    let shape = match algorithm.is_pipelined() {
        true => query.shape.with_segments(price.segments),
        false => query.shape,
    };
    let schedule = query.machine.fabric.schedule(algorithm, &shape)?;
    Some(ScheduleOf { algorithm, shape, price, schedule, passed_over: Vec::new() })
}

fn check_root(query: &Query, root: Option<u32>) -> Result<()> {
    let Some(root) = root else { return Ok(()) };
    let Shape { collective, ranks, .. } = query.shape;
    let place = format!("--root {root}");
    if !collective.has_root() {
        return Err(Error::input(format!("{collective} has no root"))
            .at(place)
            .help("omit --root"));
    }
    if root >= ranks {
        return Err(Error::input(format!("there is no rank {root}"))
            .at(place)
            .help(format!("ranks are 0 to {}", ranks.saturating_sub(1))));
    }
    Ok(())
}
