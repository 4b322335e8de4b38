//! The main report: how long a call will take, and every algorithm with its ideal price.

use serde::Serialize;

use super::{Expect, assumed, without_gamma};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume, nearest};
use crate::cost::bound::bound;
use crate::cost::crossover::envelope;
use crate::cost::optimum::optimum;
use crate::cost::price::{Use, uses};
use crate::cost::rank::{Candidate, Ranked, Refused, candidates, rank, rank_elements};
use crate::cost::simulate::{Setup, simulate};
use crate::machine::fabric::{Discipline, Fabric, Order, Tier};
use crate::machine::profile::How;
use crate::machine::query::{Machine, NodesAre, Query};
use crate::measure::expect::{Expecting, NOTHING, Rules, under_mpi};
use crate::model::algorithm::{Algorithm, Guarantee, Library, Registry};
use crate::model::formula::{At, Form, Notation, Shape};

/// Every algorithm of a collective on a machine, the fastest first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// `collcost/cost/2`.
    pub schema: &'static str,
    /// The question.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The expected time.
    pub expect: Expect,
    /// What that is based on, in words.
    pub known_from: String,
    /// The lower bound for any algorithm, including the launch; absent if a parameter is unknown.
    pub bound_s: Option<f64>,
    /// The time of the best schedule on the fabric that the machine's profile names, including the
    /// launch; absent if none is named, or if it has other ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal: Option<Optimal>,
    /// The algorithms that apply, then those that do not, with a reason.
    pub algorithms: Vec<Row>,
    /// The algorithm that represents what the library runs; absent if no algorithm of this collective
    /// prices that.
    pub runs: Option<&'static str>,
    /// The algorithm with the lowest ideal time that the machine's library ships.
    pub fastest_shipped: Option<&'static str>,
    /// The one with the lowest ideal time of all.
    pub fastest: Option<&'static str>,
    /// What is certainly faster than what the library runs, by the bands of both.
    pub faster: Option<Faster>,
    /// The lowest ideal time of all as the size grows: each entry holds from its size up to the
    /// next one's; only with details.
    pub ideal_switch_points: Vec<Fastest>,
    /// What the library runs as the size grows, by its rules; empty if they are not known.
    pub switch_points: Vec<SwitchPoint>,
    /// The library's own estimate of what it runs, if it makes one.
    pub estimate_s: Option<f64>,
    /// The ideal time of what runs as the library pipelines it: segments of its own size, sent before the
    /// ones ahead have arrived, and no less latency than it counts itself; absent if that is not known.
    pub pipelined_s: Option<f64>,
    /// How far the answer can be trusted: what a fit of the machine states, and a question that is easily meant
    /// otherwise; absent if there is nothing to say.
    pub trust: Vec<String>,
    /// What to know before trusting a number.
    pub notes: Vec<String>,
    /// The flags that describe where the call runs, for a follow-up command.
    #[serde(skip)]
    pub on: Option<String>,
}

/// The best that a fabric can do, without latency.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Optimal {
    /// The fabric's name.
    pub fabric: String,
    /// The size over the best rate, plus the launch.
    pub time_s: f64,
    /// The best rate, in bytes per second, as an exact fraction.
    pub rate: String,
    /// The same as a number.
    #[serde(rename = "rate_Bps")]
    pub rate_per_second: f64,
}

/// The question, with defaults filled in.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionView {
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// Nodes in use.
    pub nodes: u32,
    /// Ranks on a node.
    pub ranks_per_node: u32,
    /// M.
    pub size_bytes: u64,
    /// The transfers that a rank can make at once.
    pub ports: String,
    /// How ranks are placed on nodes.
    pub placement: String,
}

/// The machine, with the sources of its parameters.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineView {
    /// Its name.
    pub name: String,
    /// How it was chosen: `default`, `--on` or `flags`.
    pub chosen: &'static str,
    /// Parameters given in place of the profile's: `inter.alpha 5 µs`.
    pub given: Vec<String>,
    /// The library commonly used on it.
    pub library: Option<String>,
    /// Its links, from the innermost tier out.
    pub tiers: Vec<TierView>,
    /// The cost of a call before its first message.
    pub launch_s: f64,
    /// How that was obtained; absent if it was given.
    pub launch_how: Option<How>,
    /// γ; absent if it is unknown.
    pub gamma_s_per_byte: Option<f64>,
    /// Whether it was calibrated: then links have knots, and prices over them are not the ideal ones.
    #[serde(skip)]
    pub calibrated: bool,
}

/// One tier.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// Ranks in one domain.
    pub span: Option<u32>,
    /// NICs that the ranks of a node share.
    pub nics: Option<u32>,
    /// α; absent if it is unknown.
    pub alpha_s: Option<f64>,
    /// How α was obtained; absent if it was given.
    pub alpha_how: Option<How>,
    /// The rate that transfers reach; absent if it is unknown.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Option<f64>,
    /// How the rate was obtained; absent if it was given.
    pub bandwidth_how: Option<How>,
    /// The rate before the efficiency is applied.
    #[serde(rename = "raw_bandwidth_Bps")]
    pub raw_bandwidth: Option<f64>,
    /// The fraction of it that transfers reach.
    pub efficiency: Option<f64>,
    /// How the efficiency was obtained.
    pub efficiency_how: Option<How>,
}

/// How the closed form of a row relates to the time of its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// As a text prints it.
    AsPrinted,
    /// As [`Guarantee::Equal`].
    Equal,
    /// As [`Guarantee::EqualInRounds`].
    EqualInRounds,
    /// As [`Guarantee::UpperBound`].
    UpperBound,
    /// As [`Guarantee::Asymptotic`].
    Asymptotic,
    /// As [`Guarantee::Pipelined`].
    Pipelined,
    /// The sum of its steps. The schedule may take less or more: over several tiers ranks run ahead of
    /// those that wait for the slower one, messages of several steps meet at NICs that ranks share,
    /// additions delay what waits for their sums, and transfers may share a port's rate or bend with their
    /// size.
    SumOfSteps,
}

impl Promise {
    /// What a form says, of which the exact one says `exact`.
    #[must_use]
    pub fn of(form: Form, exact: Self) -> Self {
        match form {
            Form::Paper => Self::AsPrinted,
            Form::Asymptotic => Self::Asymptotic,
            Form::Exact => exact,
        }
    }

    /// What a guarantee says on a machine: forms are proven on one tier of links of which only α and the
    /// rate count, and whose ports take turns; all but limits without additions.
    #[must_use]
    pub fn on(guarantee: Guarantee, shape: &Shape, fabric: &Fabric) -> Self {
        let used = &fabric.tiers[..fabric.depth(shape.ranks).unwrap_or(fabric.tiers.len())];
        let differs = |t: &Tier| t.discipline == Discipline::Fair || !t.link.is_ideal();
        let adds = shape.collective.reduces() && fabric.gamma.is_some_and(|gamma| gamma.0 > 0.0);
        match guarantee {
            _ if shape.params.root_speedup.is_some() || used.iter().any(differs) => {
                Self::SumOfSteps
            }
            // Additions overlap with other messages, or make them meet anew.
            _ if adds && guarantee != Guarantee::Asymptotic => Self::SumOfSteps,
            Guarantee::Equal | Guarantee::EqualInRounds | Guarantee::UpperBound
                if used.len() > 1 =>
            {
                Self::SumOfSteps
            }
            proven => proven.into(),
        }
    }
}

impl From<Guarantee> for Promise {
    fn from(guarantee: Guarantee) -> Self {
        match guarantee {
            Guarantee::Equal => Self::Equal,
            Guarantee::EqualInRounds => Self::EqualInRounds,
            Guarantee::UpperBound => Self::UpperBound,
            Guarantee::Asymptotic => Self::Asymptotic,
            Guarantee::Pipelined => Self::Pipelined,
        }
    }
}

impl Promise {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AsPrinted => "as-printed",
            Self::Equal => Guarantee::Equal.id(),
            Self::EqualInRounds => Guarantee::EqualInRounds.id(),
            Self::UpperBound => Guarantee::UpperBound.id(),
            Self::Asymptotic => Guarantee::Asymptotic.id(),
            Self::Pipelined => Guarantee::Pipelined.id(),
            Self::SumOfSteps => "sum-of-steps",
        }
    }
}

/// One algorithm.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Its id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Whether it applies here.
    pub applies: bool,
    /// Why it does not.
    pub reason: Option<String>,
    /// n_α, messages one after another, including switch hops.
    pub n_alpha: Option<f64>,
    /// n_β, vectors through the busiest port; over several tiers, their sum.
    pub n_beta: Option<f64>,
    /// n_γ, vectors reduced one after another.
    pub n_gamma: Option<f64>,
    /// P, if it is pipelined.
    pub segments: Option<u32>,
    /// n_α·α.
    pub latency_s: Option<f64>,
    /// n_β·M/BW.
    pub bandwidth_s: Option<f64>,
    /// n_γ·M·γ; absent if γ is unknown.
    pub compute_s: Option<f64>,
    /// All terms plus the launch.
    pub time_s: Option<f64>,
    /// The time of its schedule in mode flow, plus the launch; absent if it was not simulated.
    pub simulated_s: Option<f64>,
    /// The time divided by the bound.
    pub bound_ratio: Option<f64>,
    /// M over the time.
    #[serde(rename = "algbw_Bps")]
    pub algbw: Option<f64>,
    /// algbw times nccl-tests' factor.
    #[serde(rename = "busbw_Bps")]
    pub busbw: Option<f64>,
    /// The bytes that the busiest rank sends.
    pub bytes_sent: Option<f64>,
    /// Messages and bytes over each tier; only with details.
    pub tiers: Vec<TierUse>,
    /// Whether the number is the schedule's time, an upper bound of it, or its limit.
    pub guarantee: Option<Promise>,
    /// Libraries that ship it, with their name for it.
    pub ships: Vec<String>,
    /// The closed form.
    pub formula: Option<String>,
}

/// Notes on common surprises with a known library.
fn library_notes(query: &Query, rows: &[Row]) -> Vec<String> {
    use crate::base::collective::Collective::{AllReduce, AllToAll};
    let mut notes = Vec::new();
    let Some(library) = query.library().filter(|library| library.connects_as_nccl()) else {
        return notes;
    };
    let (shape, nodes) = (&query.shape, query.placement.nodes());
    let first = rows.iter().find(|r| r.applies && r.is_shipped(query.library()));
    let bound_by_data =
        |r: &&Row| r.bandwidth_s > r.latency_s.map(|l| l + query.machine.fabric.launch.0);
    let switch = first.filter(|r| r.id == "inc" && shape.collective == AllReduce);
    if let Some(row) = switch.filter(bound_by_data) {
        let wire = row.algbw.map_or(0.0, |b| b / 1e9);
        notes.push(format!(
            "busbw counts 2(N − 1)/N·M, the switch moves M: {wire:.0} GB/s on the wire"
        ));
    }
    if shape.collective == AllReduce && matches!(nodes, 2 | 3) {
        let factor = if nodes == 2 { "2" } else { "4/3" };
        notes.push(format!(
            "{library}'s tree over {nodes} nodes sends M over the NICs, not 2(N − 1)/N·M: \
             its busbw is up to {factor} times the ring's"
        ));
    }
    if shape.collective == AllToAll && nodes > 1 {
        let (n, g) = (shape.ranks, query.placement.per_node);
        notes.push(format!(
            "{library} sends to all peers at once: {} of {n} blocks cross the NICs while near ones stay \
             inside",
            n - g
        ));
    }
    notes
}

/// What an algorithm needs of one tier.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TierUse {
    /// The tier's name.
    pub name: String,
    /// Messages one after another over it.
    pub messages: f64,
    /// Bytes of its steps one after another through a port: what the price divides by the rate.
    pub port_bytes: f64,
}

/// Where the fastest algorithm changes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fastest {
    /// The size from which on it is the fastest.
    pub from_bytes: f64,
    /// The fastest algorithm's id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
}

/// Where the library changes what it runs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchPoint {
    /// The size from which on it runs this.
    pub from_bytes: u64,
    /// What it runs, under the library's own name.
    pub runs: String,
}

impl Cost {
    /// Removes what the machine's library does not ship.
    pub fn keep_shipped(&mut self) {
        let library = self.machine.library.as_deref().and_then(Library::named);
        self.algorithms.retain(|row| row.is_shipped(library));
        self.fastest = self.algorithms.iter().find(|r| r.applies).map(|r| r.id);
        self.ideal_switch_points.clear();
    }
}

impl Cost {
    /// Simulates the schedule of every algorithm that has an explicit schedule, in mode flow.
    ///
    /// # Errors
    /// An unknown parameter. An algorithm that takes too much memory is left out with a note.
    pub fn add_simulated(&mut self, registry: &Registry, query: &Query) -> Result<()> {
        let fabric = &query.machine.fabric;
        let setup = Setup::of(query);
        let mut without = 0;
        for row in self.algorithms.iter_mut().filter(|row| row.applies) {
            let algorithm = registry.find(query.shape.collective, row.id)?.algorithm;
            let segments = row.segments;
            let shape = segments.map_or(query.shape, |p| query.shape_of(p));
            let Some(schedule) = fabric.schedule(algorithm, &shape) else {
                without += 1;
                continue;
            };
            match simulate(&*schedule, fabric, &setup) {
                Ok(outcome) => row.simulated_s = Some((outcome.makespan + fabric.launch).0),
                Err(why) if why.is_input() => {
                    self.notes.push(format!("{} is not simulated: {}", row.title, why.what()));
                }
                Err(why) => return Err(why),
            }
        }
        if without > 0 {
            self.notes.push(format!(
                "{without} algorithms have no explicit schedule, so they are not simulated"
            ));
        }
        Ok(())
    }
}

impl Row {
    /// Whether `library` ships it; any algorithm if no library is named.
    #[must_use]
    pub fn is_shipped(&self, library: Option<Library>) -> bool {
        let by =
            |library: Library| self.ships.iter().any(|s| s.split(':').next() == Some(library.id()));
        library.map_or(!self.ships.is_empty(), by)
    }
}

impl Fastest {
    pub(super) fn new((from, candidate): &(Volume, Candidate)) -> Self {
        let meta = candidate.algorithm.meta();
        Self { from_bytes: from.0, id: meta.id, title: meta.title }
    }
}

/// An algorithm of the machine's library beside what the library runs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Faster {
    /// Its id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Its expected time.
    pub time_s: f64,
    /// A tenth of runs is faster.
    pub low_s: f64,
    /// A tenth is slower.
    pub high_s: f64,
}

/// Between hosts what rules choose may cost more than runs of others take: another algorithm is faster then.
fn faster(
    registry: &Registry,
    query: &Query,
    expecting: &Expecting<'_>,
    ranked: &[Ranked],
) -> Option<Faster> {
    if !expecting.is_raised(query.size) {
        return None;
    }
    let own = expecting.at(query.size);
    let other = ranked.iter().find(|r| r.algorithm.is_shipped(query.library(), &query.shape))?;
    let meta = other.algorithm.meta();
    let told = Expecting::of(registry, query, Some(meta.id)).ok()?.at(query.size);
    (told.high < own.low).then_some(Faster {
        id: meta.id,
        title: meta.title,
        time_s: told.time.0,
        low_s: told.low.0,
        high_s: told.high.0,
    })
}

/// Prices every algorithm of the question; `detail` adds what takes longer to format than to price:
/// the closed forms written out, the traffic on each tier, the bytes of the busiest rank, and the library's
/// own estimate and pipelining.
///
/// # Errors
/// A parameter that the question needs is unknown, or the named algorithm does not apply.
pub fn cost(registry: &Registry, query: &Query, only: Option<&str>, detail: bool) -> Result<Cost> {
    let shape = query.shape;
    let fabric = &query.machine.fabric;
    let size = Volume::from(query.size);
    let expecting = Expecting::of(registry, query, only)?;
    let Priceable { ready, refused, unpriced } = priceable(registry, query, only, &expecting)?;
    let bound = bound_of(query, &expecting)?;
    let ranked = match query.element {
        None => rank(&ready, size),
        Some(each) => rank_elements(&ready, &shape, fabric, query.size, each)?,
    };
    let mut algorithms = Vec::with_capacity(ranked.len() + refused.len());
    for one in &ranked {
        algorithms.push(row(one, query, bound.unwrap_or_default(), detail)?);
    }
    algorithms.extend(
        refused
            .iter()
            .map(|r| Row { reason: Some(r.why.to_string()), ..named(r.algorithm, query) }),
    );
    let ships = |r: &&Ranked| r.algorithm.is_shipped(query.library(), &shape);
    let first = |one: Option<&Ranked>| one.map(|r| r.algorithm.meta().id);
    let expected = expecting.at(query.size);
    let ideal = expecting.ideal(query.size);
    let is_priced = !ideal.stands_in && ideal.id != NOTHING;
    let stands_in = (ideal.stands_in && ideal.id != NOTHING).then(|| {
        let (what, other) = (expecting.runs(query.size).name(), ideal.title);
        format!("{what} has no ideal price here: {other}'s is used instead")
    });
    let of_detail = |time: &dyn Fn() -> Option<Seconds>| -> Option<f64> {
        if detail { time().map(|t| t.0) } else { None }
    };
    let report = Cost {
        schema: "collcost/cost/2",
        question: question(query),
        machine: machine(&query.machine),
        expect: Expect::of(expected, &expecting, query.size),
        known_from: expecting.known_from(&expected, query.size),
        bound_s: bound.map(|b| b.0),
        optimal: optimal(query)?,
        runs: is_priced.then_some(ideal.id),
        fastest_shipped: first(ranked.iter().find(ships)),
        fastest: first(ranked.first()),
        faster: match only {
            None => faster(registry, query, &expecting, &ranked),
            Some(_) => None,
        },
        ideal_switch_points: if detail { ideal_switch_points(&ready) } else { Vec::new() },
        switch_points: switch_points(&expecting),
        estimate_s: of_detail(&|| expecting.estimate(query.size)),
        pipelined_s: of_detail(&|| expecting.pipelined(query.size)),
        trust: trust(query)
            .into_iter()
            .chain(match only {
                None if !expecting.is_of_hosts() => under_mpi(registry, query, "--library openmpi"),
                _ => None,
            })
            .chain(by_rank(query, &expecting))
            .chain(peers_nics(query, is_priced && expected.time < ideal.time))
            .chain(han(query, &expecting))
            .collect(),
        notes: unpriced.or(stands_in).into_iter().chain(notes(query, &algorithms)).collect(),
        algorithms,
        on: None,
    };
    Ok(report)
}

/// The algorithms with an ideal price.
pub(super) struct Priceable {
    pub ready: Vec<Candidate>,
    pub refused: Vec<Refused>,
    /// Why there are none.
    pub unpriced: Option<String>,
}

/// All candidates, or the named one. If parameters are unknown there are none, provided that
/// measurements of similar machines answer the question.
pub(super) fn priceable(
    registry: &Registry,
    query: &Query,
    only: Option<&str>,
    expecting: &Expecting<'_>,
) -> Result<Priceable> {
    let (shape, fabric) = (&query.shape, &query.machine.fabric);
    // If the named one does not apply, that is an error.
    if let Some(name) = only {
        let ready = vec![Candidate::named(registry, name, shape, fabric)?];
        return Ok(Priceable { ready, refused: Vec::new(), unpriced: None });
    }
    match candidates(registry, shape, fabric) {
        Err(unknown) if expecting.is_learned() => {
            let unpriced = Some(format!("no ideal prices: {}", unknown.what()));
            Ok(Priceable { ready: Vec::new(), refused: Vec::new(), unpriced })
        }
        found => {
            let (ready, refused) = found?;
            Ok(Priceable { ready, refused, unpriced: None })
        }
    }
}

/// The lower bound for any algorithm, including the launch; likewise `None` if a parameter is
/// unknown.
pub(super) fn bound_of(query: &Query, expecting: &Expecting<'_>) -> Result<Option<Seconds>> {
    let Query { shape, machine, size, .. } = query;
    match bound(shape, Volume::from(*size), &machine.fabric) {
        Err(_) if expecting.is_learned() => Ok(None),
        found => Ok(Some(with_launch(found?.time(), query))),
    }
}

/// The maximum number of ranks for which an all-to-all's best rate is computed on the side: it is a
/// linear program.
const MOST_TO_ALL: u32 = 64;

/// The best rate on the fabric that the profile names.
fn optimal(query: &Query) -> Result<Option<Optimal>> {
    let (collective, ranks) = (query.shape.collective, query.shape.ranks);
    let is_large = collective == Collective::AllToAll && ranks > MOST_TO_ALL;
    let is_priced = !is_large && collective != Collective::Barrier;
    // Fewer ranks a node than it has are on other nodes than the fabric's.
    let full =
        query.machine.fabric.group().is_none_or(|g| query.placement.per_node >= g.get().min(ranks));
    let graph = query.machine.graph.as_deref();
    let Some(graph) = graph.filter(|g| g.ranks == ranks && is_priced && full) else {
        return Ok(None);
    };
    let rate = match optimum(graph, collective, 0, false) {
        // Nobody has asked for the best rate.
        Err(error) if error.is_unsupported() => return Ok(None),
        found => found?.rate.0,
    };
    let per_second = nearest(rate);
    let time = with_launch(Seconds(query.size.0 as f64 / per_second), query);
    Ok(Some(Optimal {
        fabric: graph.name.clone(),
        time_s: time.0,
        rate: rate.to_string(),
        rate_per_second: per_second,
    }))
}

/// The lowest ideal time as the size grows.
pub(super) fn ideal_switch_points(ready: &[Candidate]) -> Vec<Fastest> {
    envelope(ready, SMALLEST.into(), LARGEST.into()).iter().map(Fastest::new).collect()
}

/// What the library runs as the size grows.
pub(super) fn switch_points(expecting: &Expecting<'_>) -> Vec<SwitchPoint> {
    let point = |(from, runs): (Bytes, String)| SwitchPoint { from_bytes: from.0, runs };
    expecting.switch_points().into_iter().map(point).collect()
}

/// The sizes between which changes are searched if none are given: one byte …
pub const SMALLEST: Bytes = Bytes(1);
/// … and one tebibyte.
pub const LARGEST: Bytes = Bytes(1 << 40);

/// A bound plus the cost of a call before its first message; a single rank may skip the call.
pub(super) fn with_launch(least: Seconds, query: &Query) -> Seconds {
    if query.shape.ranks > 1 { least + query.machine.fabric.launch } else { least }
}

/// `nccl:Tree`, `mpich:ring`.
pub(super) fn ships(algorithm: &dyn Algorithm, query: &Query) -> Vec<String> {
    let here = algorithm.shipped(&query.shape).into_iter();
    here.map(|(library, name)| format!("{}:{name}", library.id())).collect()
}

fn named(algorithm: &dyn Algorithm, query: &Query) -> Row {
    let meta = algorithm.meta();
    Row { id: meta.id, title: meta.title, ships: ships(algorithm, query), ..Row::default() }
}

fn row(ranked: &Ranked, query: &Query, bound: Seconds, detail: bool) -> Result<Row> {
    let (algorithm, price) = (ranked.algorithm, &ranked.price);
    let shape = query.shape_of(price.segments);
    let size = Volume::from(query.size);
    // It was priced before, so it has this form.
    let phase = algorithm.price_form(&At::numbers(shape), ranked.form).map(|cost| cost.total());
    let printed =
        if detail { algorithm.print_form(&At::symbols(shape), ranked.form) } else { None };
    let fabric = &query.machine.fabric;
    let total = price.total();
    let tiers = if detail { uses(algorithm, &shape, fabric)? } else { Vec::new() };
    let rate = |b: Bandwidth| (total.0 > 0.0).then_some(b.0);
    Ok(Row {
        applies: true,
        n_alpha: phase.as_ref().map(|p| p.alpha + p.switch),
        n_beta: phase.as_ref().map(|p| p.beta),
        n_gamma: phase.as_ref().map(|p| p.gamma),
        segments: algorithm.is_pipelined().then_some(price.segments),
        latency_s: Some(price.latency.0),
        bandwidth_s: Some(price.bandwidth.0),
        compute_s: price.compute.map(|c| c.0),
        time_s: Some(total.0),
        bound_ratio: (bound.0 > 0.0).then_some(total.0 / bound.0),
        algbw: rate(price.algbw(size)),
        busbw: rate(price.busbw(size, shape.collective, shape.ranks)),
        bytes_sent: detail.then(|| algorithm.sent(&At::numbers(shape)) * size.0),
        tiers: tiers.iter().map(|u| used(u, query, size)).collect(),
        guarantee: Some(Promise::of(
            ranked.form,
            Promise::on(algorithm.guarantee(&shape), &shape, fabric),
        )),
        formula: printed.map(|cost| cost.formula(false).write(Notation::Text)),
        ..named(algorithm, query)
    })
}

fn used(one: &Use, query: &Query, size: Volume) -> TierUse {
    let name = query.machine.fabric.tiers[one.tier].name.clone();
    TierUse { name, messages: one.messages.0, port_bytes: one.share.0 * size.0 }
}

pub(super) fn question(query: &Query) -> QuestionView {
    QuestionView {
        collective: query.shape.collective,
        ranks: query.shape.ranks,
        nodes: query.placement.nodes(),
        ranks_per_node: query.placement.per_node,
        size_bytes: query.size.0,
        ports: query.shape.ports.to_string(),
        placement: query.machine.fabric.order.to_string(),
    }
}

pub(super) fn machine(machine: &Machine) -> MachineView {
    let tiers = machine.fabric.tiers.iter().zip(&machine.origins).map(|(tier, origin)| TierView {
        name: tier.name.clone(),
        span: tier.span.map(Into::into),
        nics: tier.nics.map(Into::into),
        alpha_s: tier.link.alpha.map(|a| a.0),
        alpha_how: origin.alpha,
        bandwidth: tier.link.bandwidth.map(|b| b.0),
        bandwidth_how: origin.bandwidth,
        raw_bandwidth: origin.efficiency.map(|(raw, ..)| raw.0),
        efficiency: origin.efficiency.map(|(_, e, _)| e.0),
        efficiency_how: origin.efficiency.map(|(.., how)| how),
    });
    MachineView {
        name: machine.name.clone(),
        chosen: machine.chosen,
        given: machine.given_in_words(),
        library: machine.library.clone(),
        tiers: tiers.collect(),
        launch_s: machine.fabric.launch.0,
        launch_how: machine.launch,
        gamma_s_per_byte: machine.fabric.gamma.map(|g| g.0),
        calibrated: machine.fit.is_some(),
    }
}

/// NCCL orders its rings and trees by where ranks are; these collectives send from rank to rank, and were
/// measured with ranks in blocks.
fn by_rank(query: &Query, expecting: &Expecting<'_>) -> Option<String> {
    use Collective::{Gather, Scatter, SendRecv};
    let (order, collective) = (query.machine.fabric.order, query.shape.collective);
    let moves = matches!(collective, SendRecv | Gather | Scatter) && query.placement.is_spread();
    let holds = moves && order != Order::Block && expecting.is_learned();
    holds.then(|| {
        format!(
            "the expected time is that of block placement: with {order} placement other messages of {} leave \
             their node, which the ideal price counts",
            collective.name()
        )
    })
}

/// Why a scatter may take less time than the ideal price of its messages: NCCL sends each through the NIC beside
/// the peer's GPU (`ncclTopoGetNetDev`, src/graph/search.cc of v2.30.7, `NCCL_P2P_PXN_LEVEL` 2).
fn peers_nics(query: &Query, is_below: bool) -> Option<String> {
    let is_scatter = query.shape.collective == Collective::Scatter;
    let several = query.placement.is_spread() && query.placement.per_node > 1;
    (is_below && is_scatter && several && query.library() == Some(Library::Nccl)).then(|| {
        "NCCL sends the root's messages through the NIC beside each peer's GPU (PXN): measured times have all NICs \
         of a node, the ideal price has the root's own"
            .to_owned()
    })
}

/// Who decides instead of the rules that are shown.
fn han(query: &Query, expecting: &Expecting<'_>) -> Option<String> {
    let by_rules = expecting.runs(query.size).rules == Rules::Own;
    (by_rules && expecting.is_overruled()).then(|| {
        "Open MPI 5.0 asks coll/han first on several nodes with several ranks; its rules are not modelled, \
         what runs is by those of coll/tuned"
            .to_owned()
    })
}

/// What limits the trust in an answer.
fn trust(query: &Query) -> Vec<String> {
    let Query { machine, placement, .. } = query;
    let fit = machine.fit.as_ref();
    let mut all = fit.map_or_else(Vec::new, |fit| fit.trust(Some((query.shape.ranks, query.size))));
    let rack = machine.hardware.as_ref().filter(|h| h.is_rack());
    all.extend(rack.filter(|h| placement.nodes() > 1 && placement.ranks <= h.span).map(|rack| {
        format!(
            "a node of {} is one NVLink domain of {} GPUs, not a host: without --nodes and --gpus-per-node all are in one rack",
            machine.name, rack.span
        )
    }));
    let (ranks, inside) = (placement.ranks, placement.ranks.min(placement.per_node));
    let unused = query.shape.params.dims.map(|dims| dims.ranks());
    all.extend(unused.filter(|holds| ![ranks, inside].map(u64::from).contains(holds)).map(
        |holds| format!("the sides given hold {holds} ranks, not {inside}: they are not used"),
    ));
    all.extend(machine.settings_note());
    let some = |n: u32, thing: &str| match n {
        1 => format!("one {thing}"),
        n => format!("{n} {thing}s"),
    };
    all.extend(query.nodes_are.map(|taken| match taken {
        NodesAre::Racks { hosts } => format!(
            "{hosts} hosts of {} are {}: give --gpus-per-node if only NICs join them",
            machine.name,
            some(placement.nodes(), "NVLink domain")
        ),
        NodesAre::Hosts { ports } => format!(
            "{} does not say what is in a node: its ranks share {} (--nics-per-node), and in ideal prices memory like \
             that of shm-x86",
            machine.name,
            some(ports.get(), "port")
        ),
    }));
    all
}

fn notes(query: &Query, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    let machine = &query.machine;
    let depth = machine.fabric.depth(query.shape.ranks).unwrap_or(1);
    for (tier, origin) in machine.fabric.tiers.iter().zip(&machine.origins).take(depth) {
        notes.extend(assumed(&tier.name, origin));
    }
    notes.extend(without_gamma(&machine.fabric, query.shape.collective));
    use Collective as C;
    let hops = [C::SendRecv, C::Barrier, C::Gather, C::Scatter];
    if machine.fabric.has_torus() && hops.contains(&query.shape.collective) {
        let what = "a message takes an α for each hop between chips: one is counted, so far ones take longer";
        notes.push(what.to_owned());
    }
    notes.extend(library_notes(query, rows));
    let n = f64::from(query.shape.ranks);
    let floor = 2.0 * (n - 1.0) / n;
    if query.shape.params.c_real.is_some_and(|c| c.0 < floor) {
        notes.push(format!("c_real is below the one-port bound 2(N − 1)/N = {floor:.4}"));
    }
    notes
}

impl Query {
    /// The shape at a given number of segments.
    fn shape_of(&self, segments: u32) -> Shape {
        self.shape.with_segments(segments)
    }
}
