//! Where the answer changes, over sizes or over rank counts: what the library runs, and which
//! algorithm has the lowest ideal time, of a pair or of all.

use serde::Serialize;

use super::cost::{LARGEST, SMALLEST};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::crossover::{Change, changes, envelope_in_steps, is_cheaper};
use crate::cost::rank::{Candidate, candidates, rank};
use crate::machine::query::Query;
use crate::measure::expect::Expecting;
use crate::model::algorithm::Registry;
use crate::model::formula::ceil_lg;

/// Two algorithms and the size where the better of them changes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Crossover {
    /// `collcost/crossover/1`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The machine's name.
    pub machine: String,
    /// How it was chosen: `default`, `--on` or `flags`.
    pub chosen: &'static str,
    /// Parameters given in place of the machine's: `inter.bw 24 GB/s`.
    pub given: Vec<String>,
    /// The library whose rules say what runs here, which may be neither of the two.
    pub library: Option<String>,
    /// The id of the algorithm that wins below.
    pub below: &'static str,
    /// Its name in a table.
    pub below_title: &'static str,
    /// The id of the algorithm that wins above; if there are several crossovers, up to the next.
    pub above: &'static str,
    /// Its name in a table.
    pub above_title: &'static str,
    /// The size of the crossover, the first of several; absent if one of them is never slower.
    pub size_bytes: Option<f64>,
    /// The time of both at that size.
    pub time_s: Option<f64>,
    /// The one that is never slower, if there is no crossover.
    pub always: Option<&'static str>,
    /// The crossovers after the first, in rising order; mostly none.
    pub further: Vec<Further>,
    /// A text's shortcut for tree against ring, α·BW·N/(⌈lg N⌉ − 1), if it applies to this pair.
    pub shortcut_bytes: Option<f64>,
    /// The error of the shortcut, as a fraction of the exact size.
    pub shortcut_error: Option<f64>,
}

/// A crossover after the first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Further {
    /// Its size.
    pub size_bytes: f64,
    /// The time of both at that size.
    pub time_s: f64,
    /// The id of the algorithm that wins above, up to the next.
    pub above: &'static str,
}

/// An interval in which one algorithm has the lowest ideal time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The start: bytes, or ranks.
    pub from: f64,
    /// The end; absent: to the end of the range.
    pub to: Option<f64>,
    /// The id of the best algorithm.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Its ideal price at the start.
    pub time_s: f64,
}

/// An interval in which the library runs the same thing.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Running {
    /// The start: bytes, or ranks.
    pub from: f64,
    /// The end; absent: to the end of the range.
    pub to: Option<f64>,
    /// What runs, under the library's name.
    pub runs: String,
    /// The expected time at the start.
    pub expected_s: f64,
}

/// What varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// M.
    Size,
    /// N.
    Ranks,
}

impl Over {
    /// The word in reports.
    #[must_use]
    pub fn id(self) -> &'static str {
        if self == Self::Size { "size" } else { "ranks" }
    }
}

/// What runs over a range, and the best algorithms, as intervals.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Intervals {
    /// `collcost/intervals/2`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// The machine's name.
    pub machine: String,
    /// How it was chosen: `default`, `--on` or `flags`.
    pub chosen: &'static str,
    /// Parameters given in place of the machine's: `inter.bw 24 GB/s`.
    pub given: Vec<String>,
    /// The library commonly used on it.
    pub library: Option<String>,
    /// `size` or `ranks`.
    pub over: Over,
    /// N, if sizes vary.
    pub ranks: Option<u32>,
    /// The numbers of ranks that were looked at, if they vary: between them anything may hold.
    pub at_ranks: Vec<u32>,
    /// M, if ranks vary.
    pub size_bytes: Option<u64>,
    /// What the library runs, by its rules: empty if they are not known, or if algorithms are
    /// named.
    pub runs: Vec<Running>,
    /// The lowest ideal times in order.
    pub intervals: Vec<Interval>,
    /// The named algorithms that do not apply to all of this.
    pub left_out: Vec<Inapplicable>,
}

/// A named algorithm, and the ranks to which it does not apply.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inapplicable {
    /// Its id.
    pub id: &'static str,
    /// The numbers of ranks.
    pub ranks: Vec<u32>,
    /// The reason, of the first of them.
    pub why: String,
}

/// Compares two algorithms of the question's collective; the sizes decide which wins below.
///
/// # Errors
/// An unknown name, an algorithm that does not apply, an unknown parameter.
pub fn crossover(registry: &Registry, query: &Query, a: &str, b: &str) -> Result<Crossover> {
    refuse_alone(query)?;
    let a = one(registry, query, a)?;
    let b = one(registry, query, b)?;
    let found = changes(&a.prepared, &b.prepared);
    let size = found.first().map(|first| first.size);
    let (below, above) = match found.first() {
        Some(Change { to_first: true, .. }) => (b, a),
        _ => (a, b),
    };
    let faster = if is_cheaper(&a.prepared, &b.prepared) { a } else { b };
    let id = |c: Candidate| c.algorithm.meta().id;
    let further = found.iter().skip(1).map(|change| Further {
        size_bytes: change.size.0,
        time_s: a.prepared.time(change.size).0,
        above: id(if change.to_first { a } else { b }),
    });
    let shortcut = shortcut(query, id(below), id(above)).filter(|_| found.len() == 1);
    Ok(Crossover {
        schema: "collcost/crossover/1",
        collective: query.shape.collective,
        ranks: query.shape.ranks,
        machine: query.machine.name.clone(),
        chosen: query.machine.chosen,
        given: query.machine.given_in_words(),
        library: ruling(registry, query),
        below: id(below),
        below_title: below.algorithm.meta().title,
        above: id(above),
        above_title: above.algorithm.meta().title,
        size_bytes: size.map(|s| s.0),
        time_s: size.map(|s| above.prepared.time(s).0),
        always: size.is_none().then_some(id(faster)),
        further: further.collect(),
        shortcut_bytes: shortcut.map(|s| s.0),
        shortcut_error: shortcut.zip(size).map(|(s, exact)| s.0 / exact.0 - 1.0),
    })
}

/// The machine's library, if its rules say what runs.
fn ruling(registry: &Registry, query: &Query) -> Option<String> {
    let rules = Expecting::new(registry, query).ok()?.runs(Bytes(1)).rules;
    query.machine.library.clone().filter(|_| rules.are_known())
}

/// Without a peer every algorithm takes the same time: none.
fn refuse_alone(query: &Query) -> Result<()> {
    if query.shape.ranks > 1 {
        return Ok(());
    }
    Err(Error::input("one rank communicates nothing: no algorithm is faster than another")
        .help("ask for two ranks or more: -n 2"))
}

/// The usual approximation for many ranks, on one tier (K19: it overstates).
fn shortcut(query: &Query, below: &str, above: &str) -> Option<Volume> {
    let n = query.shape.ranks;
    let tier = query.machine.fabric.tiers.first()?;
    let flat = query.machine.fabric.depth(n).ok()? == 1;
    if !flat || n < 3 || (below, above) != ("tree", "ring") {
        return None;
    }
    let (Seconds(alpha), Bandwidth(rate)) = (tier.link.alpha?, tier.link.bandwidth?);
    Some(Volume(alpha * rate * f64::from(n) / f64::from(ceil_lg(n) - 1)))
}

/// The best of all algorithms, or of the named ones, as the size grows.
///
/// # Errors
/// As [`crossover`].
pub fn over_sizes(registry: &Registry, query: &Query, names: &[&str]) -> Result<Intervals> {
    refuse_alone(query)?;
    let Chosen { ready, refused } = chosen(registry, query, names)?.any()?;
    // Many steps: an algorithm that wins for less than a sixteenth of an octave is irrelevant.
    let winners = envelope_in_steps(&ready, SMALLEST.into(), LARGEST.into(), 16);
    let starts: Vec<(f64, Candidate)> = winners.into_iter().map(|(v, c)| (v.0, c)).collect();
    let time = |from: f64, c: &Candidate| c.prepared.time(Volume(from)).0;
    Ok(Intervals {
        schema: "collcost/intervals/2",
        collective: query.shape.collective,
        machine: query.machine.name.clone(),
        chosen: query.machine.chosen,
        given: query.machine.given_in_words(),
        library: query.machine.library.clone(),
        over: Over::Size,
        ranks: Some(query.shape.ranks),
        at_ranks: Vec::new(),
        size_bytes: None,
        runs: if names.is_empty() { runs_over_sizes(registry, query)? } else { Vec::new() },
        intervals: join(&starts, time),
        left_out: left_out([(query.shape.ranks, refused)]),
    })
}

/// The best of all algorithms, or of the named ones, for each of `queries`, which differ in their
/// ranks; neighbours with the same best make one interval.
///
/// # Errors
/// As [`crossover`], of algorithms that apply to none of `queries`; an empty `queries`.
pub fn over_ranks(registry: &Registry, queries: &[Query], names: &[&str]) -> Result<Intervals> {
    let first = queries.first().ok_or_else(|| Error::input("no number of ranks is given"))?;
    let mut intervals: Vec<Interval> = Vec::new();
    let mut runs: Vec<Running> = Vec::new();
    let mut refused = Vec::new();
    // An interval ends at ranks to which nothing applies, even if the same wins after them.
    let mut before = None;
    for query in queries {
        if names.is_empty() {
            add_running(&mut runs, registry, query, before)?;
        }
        let Chosen { ready, refused: here } = chosen(registry, query, names)?;
        let ranked = rank(&ready, Volume::from(query.size));
        let n = f64::from(query.shape.ranks);
        refused.push((query.shape.ranks, here));
        if let Some(best) = ranked.first() {
            let meta = best.algorithm.meta();
            match intervals.last_mut() {
                Some(last) if last.id == meta.id && last.to == before => last.to = Some(n),
                _ => intervals.push(Interval {
                    from: n,
                    to: Some(n),
                    id: meta.id,
                    title: meta.title,
                    time_s: best.price.total().0,
                }),
            }
        }
        before = Some(n);
    }
    if intervals.is_empty()
        && let Some((_, why)) = refused.iter().flat_map(|(_, refused)| refused).next()
    {
        return Err(why.clone());
    }
    Ok(Intervals {
        schema: "collcost/intervals/2",
        collective: first.shape.collective,
        machine: first.machine.name.clone(),
        chosen: first.machine.chosen,
        given: first.machine.given_in_words(),
        library: first.machine.library.clone(),
        over: Over::Ranks,
        ranks: None,
        at_ranks: queries.iter().map(|query| query.shape.ranks).collect(),
        size_bytes: Some(first.size.0),
        runs,
        intervals,
        left_out: left_out(refused),
    })
}

fn runs_over_sizes(registry: &Registry, query: &Query) -> Result<Vec<Running>> {
    let expecting = Expecting::new(registry, query)?;
    let points = expecting.switch_points();
    let next = points.iter().skip(1).map(|(from, _)| Some(from.0 as f64)).chain([None]);
    let running = |((from, runs), to): (&(Bytes, String), Option<f64>)| Running {
        from: from.0 as f64,
        to,
        runs: runs.clone(),
        expected_s: expecting.time(*from).0,
    };
    Ok(points.iter().zip(next).map(running).collect())
}

/// What runs for the ranks of `query`, if the library's rules are known; it is joined to the same of the
/// ranks `before`.
fn add_running(
    all: &mut Vec<Running>,
    registry: &Registry,
    query: &Query,
    before: Option<f64>,
) -> Result<()> {
    let expecting = Expecting::new(registry, query)?;
    let runs = expecting.runs(query.size);
    if !runs.rules.are_known() {
        return Ok(());
    }
    let (n, name) = (f64::from(query.shape.ranks), runs.name());
    match all.last_mut() {
        Some(last) if last.runs == name && last.to == before => last.to = Some(n),
        _ => {
            let expected_s = expecting.time(query.size).0;
            all.push(Running { from: n, to: Some(n), runs: name, expected_s });
        }
    }
    Ok(())
}

fn one(registry: &Registry, query: &Query, name: &str) -> Result<Candidate> {
    Candidate::named(registry, name, &query.shape, &query.machine.fabric)
}

/// The algorithms that are compared for some ranks.
pub(super) struct Chosen {
    /// Those that apply.
    pub ready: Vec<Candidate>,
    /// The named ones that do not, and why.
    refused: Vec<(&'static str, Error)>,
}

impl Chosen {
    /// Itself, if an algorithm applies or none was named.
    ///
    /// # Errors
    /// The reason why the first of the named ones does not apply.
    pub(super) fn any(mut self) -> Result<Self> {
        if self.ready.is_empty() && !self.refused.is_empty() {
            return Err(self.refused.swap_remove(0).1);
        }
        Ok(self)
    }
}

/// The named candidates that apply to these ranks; all if none is named.
pub(super) fn chosen(registry: &Registry, query: &Query, names: &[&str]) -> Result<Chosen> {
    if names.is_empty() {
        let (ready, _) = candidates(registry, &query.shape, &query.machine.fabric)?;
        return Ok(Chosen { ready, refused: Vec::new() });
    }
    let (mut ready, mut refused) = (Vec::new(), Vec::new());
    for name in names {
        // An unknown name is always an error; an algorithm that does not apply to some ranks is
        // not.
        let id = registry.find(query.shape.collective, name)?.algorithm.meta().id;
        match one(registry, query, name) {
            Ok(candidate) => ready.push(candidate),
            Err(e) if e.is_unsupported() => refused.push((id, e)),
            Err(e) => return Err(e),
        }
    }
    Ok(Chosen { ready, refused })
}

/// What was refused at some numbers of ranks, by algorithm.
fn left_out(
    refused: impl IntoIterator<Item = (u32, Vec<(&'static str, Error)>)>,
) -> Vec<Inapplicable> {
    let mut all: Vec<Inapplicable> = Vec::new();
    for (ranks, refused) in refused {
        for (id, why) in refused {
            match all.iter_mut().find(|one| one.id == id) {
                Some(known) => known.ranks.push(ranks),
                None => {
                    let why = why.what().to_owned();
                    all.push(Inapplicable { id, ranks: vec![ranks], why });
                }
            }
        }
    }
    all
}

pub(super) fn join(
    starts: &[(f64, Candidate)],
    time: impl Fn(f64, &Candidate) -> f64,
) -> Vec<Interval> {
    let next = starts.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
    let interval = |((from, c), to): (&(f64, Candidate), Option<f64>)| Interval {
        from: *from,
        to,
        id: c.algorithm.meta().id,
        title: c.algorithm.meta().title,
        time_s: time(*from, c),
    };
    starts.iter().zip(next).map(interval).collect()
}
