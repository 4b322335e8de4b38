//! A library's choice, at one size or over a range, and its cost.

use serde::Serialize;

use super::{Expect, six};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::cost::rank::{Candidate, candidates, fastest};
use crate::library::{
    Call, Choice, FellBack, Interval, Part, Policy, Priced, Runs, Where, intervals, priced,
};
use crate::machine::query::Query;
use crate::measure::expect::{Expecting, Kernels, Rules};
use crate::model::algorithm::{Library, Registry};

/// The choices of one policy, or of two, over sizes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Select {
    /// `collcost/select/1`.
    pub schema: &'static str,
    /// The operation: a collective's id, or a variant such as `alltoallv`.
    pub operation: String,
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The number of nodes that they occupy.
    pub nodes: u32,
    /// Bytes per element.
    pub element_bytes: u64,
    /// Whether the operation commutes.
    pub commutative: bool,
    /// Whether the operation is predefined.
    pub builtin_op: bool,
    /// Whether the call works in place.
    pub in_place: bool,
    /// The machine's name: its parameters give the times.
    pub machine: String,
    /// M, if one size was requested.
    pub size_bytes: Option<u64>,
    /// The policy.
    pub policy: PolicyView,
    /// The policy that it is compared with.
    pub versus: Option<PolicyView>,
    /// Sizes with one choice, in order; for one size, a single entry.
    pub intervals: Vec<Span>,
    /// The other algorithms that could run at the one size, the fastest first.
    pub alternatives: Vec<Alternative>,
    /// The owner of the kernel that an engine runs at the one size: `nccl`, `custom`,
    /// `flashinfer-mnnvl`, …
    pub backend: Option<&'static str>,
    /// The kernel; `library` if the backend decides internally.
    pub kernel: Option<&'static str>,
    /// The rule that decided at the one size.
    pub rule: Option<String>,
    /// The expected time of the call at the one size, in µs.
    pub us: Option<f64>,
    /// The same with its band and its basis.
    pub expect: Option<Expect>,
}

/// A policy.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyView {
    /// Its name.
    pub id: String,
    /// A one-line description.
    pub title: String,
    /// The size that its thresholds count.
    pub counts: String,
    /// The public code that it was taken from.
    pub source: String,
}

/// Sizes for which each policy has one choice.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// The first size, M.
    pub from_bytes: u64,
    /// The last size.
    pub to_bytes: u64,
    /// The policy's choice.
    pub choice: ChoiceView,
    /// The other policy's.
    pub versus: Option<ChoiceView>,
    /// Whether the two differ in what they run.
    pub differ: Option<bool>,
    /// The choice's time divided by the other's, where they differ most among the compared sizes.
    pub ratio: Option<f64>,
    /// The size at which they do.
    pub ratio_at_bytes: Option<u64>,
    /// The fastest at the first size.
    pub best_id: Option<&'static str>,
    /// Its name in a table.
    pub best_title: Option<&'static str>,
    /// Its time there.
    pub best_time_s: Option<f64>,
    /// What other engines run at the first size, the fastest first.
    pub rivals: Vec<Rival>,
    /// What the same engine could run at the first size with other settings, the fastest first.
    pub ways: Vec<Way>,
}

/// What an engine could run instead, and the settings for it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Way {
    /// The owner of the kernel.
    pub backend: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// Variables and flags that force it.
    pub force: String,
    /// The expected time of the call, in µs.
    pub us: Option<f64>,
    /// The choice's expected time divided by this one's: above 1 if the choice loses.
    pub regret: Option<f64>,
    /// Whether the bands of both do not overlap; if they do, neither is certainly faster.
    pub certain: bool,
}

/// What another engine runs for the same call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rival {
    /// The engine and its release.
    pub engine: String,
    /// The owner of the kernel.
    pub backend: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// The expected time of the call, in µs.
    pub us: Option<f64>,
}

/// The choice of one policy.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceView {
    /// The library's own name for it.
    pub name: String,
    /// The library's number for it.
    pub id: Option<u32>,
    /// The owner of the kernel, if an engine chose.
    pub backend: Option<&'static str>,
    /// The kernel; `library` if the backend decides internally.
    pub kernel: Option<&'static str>,
    /// The rule that decided.
    pub rule: String,
    /// The first choice of the rules, and why it does not run.
    pub fell_back: Vec<Turn>,
    /// What runs, as algorithms of this program, one after another.
    pub runs: Vec<PartView>,
    /// Why this program cannot price it.
    pub unpriced: Option<String>,
    /// The expected time of the call at the first size, if this is what the machine's library runs.
    pub expect: Option<Expect>,
    /// Its ideal price at the first size.
    pub time_s: Option<f64>,
    /// Its ideal price divided by the fastest algorithm's: the worst of the compared sizes, which
    /// are both ends and the powers of two between.
    pub regret: Option<f64>,
    /// The size at which that is.
    pub regret_at_bytes: Option<u64>,
    /// The same at each of the compared sizes, if both are priced.
    pub regrets: Vec<RegretAt>,
    /// The library's own estimate at the first size.
    pub estimate_s: Option<f64>,
    /// Options or variables that force it.
    pub force: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// The cost of a choice relative to the best, at one size.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegretAt {
    /// M.
    pub size_bytes: u64,
    /// The choice's time divided by the fastest algorithm's.
    pub regret: f64,
}

/// A fallback from the first choice of the rules.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The first choice of the rules.
    pub from: String,
    /// The library's number for it.
    pub id: Option<u32>,
    /// Why it does not run.
    pub why: String,
}

/// A part of what runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartView {
    /// The collective's id.
    pub collective: Collective,
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// The number of ranks that take part.
    pub ranks: u32,
    /// The number of ranks that these are chosen from, if others stay idle: pairs of a fold, and
    /// the remaining ranks.
    pub of_ranks: Option<u32>,
    /// `all`, `in-node` or `leaders`.
    pub place: Where,
    /// Bytes per segment; absent: one piece, or the best number of segments.
    pub segment_bytes: Option<u64>,
    /// Whether a flag travels with every word (protocol LL): twice the bytes cross the links.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub packets: bool,
}

/// Another algorithm at the requested size.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alternative {
    /// The algorithm's id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// The name in the policy's library, if it ships it.
    pub known_as: Option<String>,
    /// Its ideal time; of the choice as it runs, with its protocol and segments.
    pub time_s: f64,
    /// Its time divided by the choice's.
    pub over_choice: Option<f64>,
    /// The library's own estimate of it, if it is known.
    pub estimate_s: Option<f64>,
    /// Whether it is what the policy chooses.
    pub chosen: bool,
    /// Options or variables that force it.
    pub force: Option<String>,
    /// Why the library, which has it, would not run it for this call.
    pub refused: Option<String>,
}

/// The choices of a policy for several rank counts.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelectMap {
    /// `collcost/select-map/1`.
    pub schema: &'static str,
    /// One for each number of ranks.
    pub by_ranks: Vec<Select>,
}

/// The choices for all of `by_ranks`, which differ in their ranks.
#[must_use]
pub fn select_map(by_ranks: Vec<Select>) -> SelectMap {
    SelectMap { schema: "collcost/select-map/1", by_ranks }
}

/// The inputs of the closed forms.
struct Model<'a> {
    registry: &'a Registry,
    query: &'a Query,
    ready: Vec<Candidate>,
    /// Of each policy's library. Absent if parameters are unknown: the choice is known nevertheless.
    expecting: Vec<Expecting<'a>>,
    kernels: Option<Kernels<'a>>,
}

impl<'a> Model<'a> {
    fn new(
        registry: &'a Registry,
        query: &'a Query,
        policies: &[&dyn Policy],
        of_engine: bool,
    ) -> Result<Self> {
        let found = candidates(registry, &query.shape, &query.machine.fabric);
        let ready = known(found, of_engine)?.map_or_else(Vec::new, |(ready, _)| ready);
        let of_hosts = |policy: &&dyn Policy| {
            let asked = with_library(query, policy.meta().library?)?;
            Expecting::new(registry, &asked).ok().filter(Expecting::is_of_hosts)
        };
        let mut expecting = Vec::new();
        for (at, policy) in policies.iter().enumerate() {
            expecting.extend(match of_hosts(policy) {
                None if at == 0 => known(Expecting::new(registry, query), of_engine)?,
                None if policy.meta().library == query.library() => {
                    Expecting::new(registry, query).ok()
                }
                of_hosts => of_hosts,
            });
        }
        let kernels = if of_engine { Kernels::new(registry, query).ok() } else { None };
        Ok(Self { registry, query, ready, expecting, kernels })
    }

    fn time(&self, choice: &Choice, size: u64) -> Result<Priced> {
        let Query { machine, shape, .. } = self.query;
        let priced = priced(self.registry, choice, shape, &machine.fabric, Bytes(size));
        match priced {
            Err(error) if choice.kernel.is_some() || error.is_unknown() => {
                Ok(Priced::Unknown(error.what().to_owned()))
            }
            priced => priced,
        }
    }

    /// The times by which two choices are compared, of one kind: expected if one is an engine's, which
    /// has no ideal price, ideal otherwise.
    fn compared(&self, pair: [&Choice; 2], size: u64) -> Result<Option<[Seconds; 2]>> {
        let expected = pair.iter().any(|choice| choice.kernel.is_some());
        let time = |choice| match expected {
            true => Ok(self.expect(choice, Bytes(size)).map(|e| Seconds(e.time_s))),
            false => Ok(self.time(choice, size)?.time()),
        };
        let [a, b] = [time(pair[0])?, time(pair[1])?];
        Ok(a.zip(b).map(|(a, b)| [a, b]))
    }

    /// The expected time of an engine's kernel, or of the machine if the choice is what its library
    /// runs.
    fn expect(&self, choice: &Choice, size: Bytes) -> Option<Expect> {
        if let Some(kernel) = choice.kernel {
            let kernels = self.kernels.as_ref()?;
            let expected = kernels.at(kernel, size)?;
            let busbw = kernels.busbw(size, expected.time);
            return Some(Expect::stated(expected, kernel.into(), busbw));
        }
        self.expecting
            .iter()
            .map(|expecting| Expect::new(expecting, size))
            .find(|expect| expect.runs.rules.are_known() && expect.runs.name() == choice.name)
    }

    fn best(&self, size: u64) -> Option<(&Candidate, Seconds)> {
        fastest(&self.ready, Volume::from(Bytes(size)))
    }

    /// The choice at `from`, with its worst regret up to `to`.
    fn view(&self, choice: &Choice, from: u64, to: u64) -> Result<ChoiceView> {
        let first = self.time(choice, from)?;
        let mut worst: Option<(f64, u64)> = None;
        let mut regrets = Vec::new();
        for size in looked_at(from, to) {
            let (Some(time), Some((_, best))) = (self.time(choice, size)?.time(), self.best(size))
            else {
                continue;
            };
            let regret = time.0 / best.0;
            if best.0 > 0.0 {
                regrets.push(RegretAt { size_bytes: size, regret });
            }
            if best.0 > 0.0 && worst.is_none_or(|(most, _)| regret > most) {
                worst = Some((regret, size));
            }
        }
        let unpriced = match &first {
            Priced::Unknown(why) => Some(why.clone()),
            Priced::Time(_) => None,
        };
        let turn = |f: &FellBack| Turn { from: f.from.to_string(), id: f.id, why: f.why.clone() };
        let idle = self.expecting.first().and_then(|e| e.idle(Bytes(from))).map(str::to_owned);
        Ok(ChoiceView {
            name: choice.name.to_string(),
            id: choice.id,
            backend: choice.kernel.map(|k| k.backend),
            kernel: choice.kernel.map(|k| k.kernel),
            rule: choice.rule.clone(),
            fell_back: choice.fell_back.iter().map(turn).collect(),
            runs: parts(choice),
            unpriced,
            expect: self.expect(choice, Bytes(from)),
            time_s: first.time().map(|t| t.0),
            regret: worst.map(|(regret, _)| regret),
            regret_at_bytes: worst.map(|(_, at)| at),
            regrets,
            estimate_s: choice.estimate.map(|t| t.0),
            force: choice.force.clone(),
            notes: choice.notes.iter().map(ToString::to_string).chain(idle).collect(),
        })
    }
}

/// `None` where an unknown parameter, or for engines anything, prevents it: a choice needs no price.
fn known<T>(found: Result<T>, of_engine: bool) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if of_engine || error.is_unknown() => Ok(None),
        Err(error) => Err(error),
    }
}

fn parts(choice: &Choice) -> Vec<PartView> {
    let Runs::Parts(parts) = &choice.runs else { return Vec::new() };
    let view = |part: &Part| PartView {
        collective: part.collective,
        algorithm: part.algorithm,
        ranks: part.ranks,
        of_ranks: part.of,
        place: part.place,
        segment_bytes: part.segment.map(|s| s.0),
        packets: part.wire.0 > 1.0,
    };
    parts.iter().map(view).collect()
}

/// Both ends and the powers of two between.
fn looked_at(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let powers = (0..63).map(|k| 1_u64 << k).filter(move |p| from < *p && *p < to);
    std::iter::once(from).chain(powers).chain((to > from).then_some(to))
}

/// Refuses a call of no bytes that returns at once, as far as it is known what it takes.
pub(crate) fn refuse_empty(registry: &Registry, query: &Query) -> Result<()> {
    if query.size > Bytes(0) {
        return Ok(());
    }
    Expecting::new(registry, query)
        .map_or(Ok(()), |expecting| refuse_nothing(&expecting, query.size))
}

/// Refuses a call that returns at once.
fn refuse_nothing(expecting: &Expecting<'_>, size: Bytes) -> Result<()> {
    expecting.idle(size).map_or(Ok(()), |why| {
        Err(Error::input(format!("nothing is chosen: {why}")).help("give a size above 0"))
    })
}

/// The choice of `policy` from `first` to `last` bytes, compared with `versus`; `call` holds the
/// other properties of the call, and the times are for the machine and ranks of `query`.
///
/// # Errors
/// A collective or call for which a policy has no rule; a reduction of parts of elements; an unknown parameter of the
/// machine.
pub fn select(
    registry: &Registry,
    query: &Query,
    call: &Call,
    (policy, versus): (&dyn Policy, Option<&dyn Policy>),
    (first, last): (Bytes, Bytes),
) -> Result<Select> {
    // A range ends where it is typed to end; one size is that of a call.
    if first == last {
        call.with_size(first).refuse_parts()?;
    }
    let rivals = policy.rivals();
    let of_engine = !rivals.is_empty() || versus.is_some_and(|v| !v.rivals().is_empty());
    let policies: Vec<&dyn Policy> = std::iter::once(policy).chain(versus).collect();
    let model = Model::new(registry, query, &policies, of_engine)?;
    if let (Bytes(0), Some(expecting)) = (last, model.expecting.first()) {
        refuse_nothing(expecting, last)?;
    }
    let own = intervals(policy, call, first, last)?;
    let mut spans = Vec::new();
    match versus {
        None => {
            for Interval { from, to, choice } in &own {
                let mut span = span(&model, (from.0, to.0), choice, None)?;
                beside(&model, &mut span, &rivals, call);
                under_settings(&model, &mut span, policy, call);
                spans.push(span);
            }
        }
        Some(other) => {
            let others = intervals(other, call, first, last)?;
            for (range, a, b) in side_by_side(&own, &others) {
                spans.push(span(&model, range, a, Some(b))?);
            }
        }
    }
    for span in &mut spans {
        attribute(&mut span.choice, policy);
        if let (Some(view), Some(other)) = (&mut span.versus, versus) {
            attribute(view, other);
        }
    }
    let one = (first == last).then_some(first);
    if let (Some(_), [span]) = (one, spans.as_mut_slice()) {
        span.choice.notes.extend(of_times(&model, &span.choice, policy));
    }
    let alternatives = match (one, own.first()) {
        (Some(size), Some(only)) if only.choice.kernel.is_none() => {
            alternatives(&model, policy, call, &only.choice, size)?
        }
        _ => Vec::new(),
    };
    let only = spans.first().filter(|_| one.is_some()).map(|span| &span.choice);
    let (backend, kernel) = (only.and_then(|c| c.backend), only.and_then(|c| c.kernel));
    let rule = only.map(|c| c.rule.clone());
    let expect = only.and_then(|c| c.expect.clone());
    Ok(Select {
        schema: "collcost/select/1",
        operation: call.operation().to_string(),
        collective: call.collective,
        ranks: call.ranks,
        nodes: call.nodes,
        element_bytes: call.element.0,
        commutative: call.commutative,
        builtin_op: call.builtin_op,
        in_place: call.in_place,
        machine: query.machine.name.clone(),
        size_bytes: one.map(|s| s.0),
        policy: view(policy),
        versus: versus.map(view),
        intervals: spans,
        alternatives,
        backend,
        kernel,
        rule,
        us: expect.as_ref().map(|e| six(e.time_s * 1e6)),
        expect,
    })
}

/// The query with `own` in place of the machine's library; `None` if it is that already, or none of MPI.
fn with_library(query: &Query, own: Library) -> Option<Query> {
    let is_other = matches!(own, Library::OpenMpi | Library::Mpich) && query.library() != Some(own);
    is_other.then(|| {
        let mut asked = query.clone();
        asked.machine.library = Some(own.id().to_owned());
        asked
    })
}

/// What to know of the times of a library's choice.
fn of_times(model: &Model<'_>, view: &ChoiceView, policy: &dyn Policy) -> Option<String> {
    let query = model.query;
    let (own, asked) = query.library().zip(policy.meta().library)?;
    let is_priced = view.kernel.is_none()
        && view.expect.is_none()
        && view.time_s.is_some()
        && query.shape.ranks > 1;
    (own != asked && is_priced)
        .then(|| format!("no time is expected: what is known of {} is {own}'s", query.machine.name))
}

/// The expectation of a library's choice names the release whose rules chose; what another library would
/// take says nothing about it.
fn attribute(view: &mut ChoiceView, policy: &dyn Policy) {
    let meta = policy.meta();
    let (None, Some(own)) = (view.kernel, meta.library.map(Library::id)) else { return };
    let Some(runs) = view.expect.as_mut().map(|expect| &mut expect.runs) else { return };
    if runs.library.is_some_and(|library| library != own) {
        view.expect = None;
        return;
    }
    let release = meta.id.strip_prefix(own).and_then(|rest| rest.strip_prefix('@'));
    let by_rules = runs.library.is_some() && matches!(runs.rules, Rules::Own | Rules::Tuner);
    if by_rules && runs.version.as_deref() != release {
        // Another release may use another number of channels.
        (runs.version, runs.channels) = (release.map(str::to_owned), None);
    }
}

/// Adds what other engines run to an engine's choice: its regret is then based on expected times.
fn beside(model: &Model<'_>, span: &mut Span, rivals: &[Box<dyn Policy>], call: &Call) {
    let size = Bytes(span.from_bytes);
    for rival in rivals {
        let Ok(choice) = rival.choose(&call.with_size(size)) else { continue };
        let Some(kernel) = choice.kernel.filter(|k| k.backend != "none") else { continue };
        let us = model.expect(&choice, size).map(|e| six(e.time_s * 1e6));
        let engine = rival.meta().id.clone();
        span.rivals.push(Rival { engine, backend: kernel.backend, kernel: kernel.kernel, us });
    }
    rising(&mut span.rivals, |r| r.us.unwrap_or(f64::INFINITY));
    let own = span.choice.expect.as_ref().map(|e| e.time_s * 1e6);
    let least = span.rivals.first().and_then(|r| r.us);
    if let (Some(own), Some(least)) = (own, least) {
        let regret = own / least.min(own);
        span.choice.regret = Some(regret);
        span.choice.regret_at_bytes = Some(span.from_bytes);
    }
}

/// Adds what the same engine could run with other settings to its choice, each kernel once.
fn under_settings(model: &Model<'_>, span: &mut Span, policy: &dyn Policy, call: &Call) {
    let size = Bytes(span.from_bytes);
    let own = span.choice.expect.clone();
    for (force, rules) in policy.ways() {
        let Ok(choice) = rules.choose(&call.with_size(size)) else { continue };
        let Some(kernel) = choice.kernel.filter(|k| k.backend != "none") else { continue };
        let is = |backend: Option<&str>, name: Option<&str>| {
            backend == Some(kernel.backend) && name == Some(kernel.kernel)
        };
        if is(span.choice.backend, span.choice.kernel)
            || span.ways.iter().any(|w| is(Some(w.backend), Some(w.kernel)))
        {
            continue;
        }
        let told = model.expect(&choice, size);
        let pair = own.as_ref().zip(told.as_ref());
        span.ways.push(Way {
            backend: kernel.backend,
            kernel: kernel.kernel,
            force,
            us: told.as_ref().map(|e| six(e.time_s * 1e6)),
            regret: pair.map(|(own, other)| own.time_s / other.time_s),
            certain: pair.is_some_and(|(a, b)| a.high_s < b.low_s || b.high_s < a.low_s),
        });
    }
    rising(&mut span.ways, |w| w.us.unwrap_or(f64::INFINITY));
}

fn view(policy: &dyn Policy) -> PolicyView {
    let meta = policy.meta().clone();
    PolicyView { id: meta.id, title: meta.title, counts: meta.counts, source: meta.source }
}

/// Two rows of intervals over the same sizes, cut wherever either starts a new interval.
fn side_by_side<'a>(
    a: &'a [Interval],
    b: &'a [Interval],
) -> Vec<((u64, u64), &'a Choice, &'a Choice)> {
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (from, to) = (x.from.max(y.from), x.to.min(y.to));
        found.push(((from.0, to.0), &x.choice, &y.choice));
        i += usize::from(x.to == to);
        j += usize::from(y.to == to);
    }
    found
}

fn span(
    model: &Model<'_>,
    (from, to): (u64, u64),
    choice: &Choice,
    versus: Option<&Choice>,
) -> Result<Span> {
    let best = model.best(from);
    let mut furthest: Option<(f64, u64)> = None;
    if let Some(other) = versus {
        for size in looked_at(from, to) {
            let Some([a, b]) = model.compared([choice, other], size)? else { continue };
            let ratio = a.0 / b.0;
            let further = |(most, _): (f64, u64)| ratio.ln().abs() > most.ln().abs();
            if b.0 > 0.0 && furthest.is_none_or(further) {
                furthest = Some((ratio, size));
            }
        }
    }
    Ok(Span {
        from_bytes: from,
        to_bytes: to,
        choice: model.view(choice, from, to)?,
        versus: versus.map(|other| model.view(other, from, to)).transpose()?,
        differ: versus.map(|other| differ(choice, other)),
        ratio: furthest.map(|(ratio, _)| ratio),
        ratio_at_bytes: furthest.map(|(_, at)| at),
        best_id: best.map(|(c, _)| c.algorithm.meta().id),
        best_title: best.map(|(c, _)| c.algorithm.meta().title),
        best_time_s: best.map(|(_, time)| time.0),
        rivals: Vec::new(),
        ways: Vec::new(),
    })
}

/// Names are each library's own: what runs is compared if it is known for both.
fn differ(a: &Choice, b: &Choice) -> bool {
    match (&a.runs, &b.runs) {
        _ if a.kernel.is_some() => a.name != b.name,
        (Runs::Parts(_), Runs::Parts(_)) => a.runs != b.runs,
        _ => a.name != b.name,
    }
}

fn alternatives(
    model: &Model<'_>,
    policy: &dyn Policy,
    call: &Call,
    choice: &Choice,
    size: Bytes,
) -> Result<Vec<Alternative>> {
    let own = model.time(choice, size.0)?.time();
    let runs = parts(choice);
    let one = |c: &Candidate| {
        let meta = c.algorithm.meta();
        let known_as = policy.name_of(call, meta);
        let segments = c.prepared.best_segments(Volume::from(size)).filter(|p| p.0 > 1.0);
        let each =
            segments.and_then(|p| ((size.0 as f64 / p.0) as u64).checked_next_power_of_two());
        let segment = each.map(Bytes);
        let force = policy.force(call, meta.id).map(|forced| match segment {
            Some(segment) => policy.cut(call, forced, segment),
            None => forced,
        });
        let why = force.as_ref().err().map(ToString::to_string);
        let chosen = matches!(&runs[..], [only] if only.algorithm == meta.id);
        // The choice as it runs, with its protocol and segments.
        let time = own.filter(|_| chosen).unwrap_or_else(|| c.prepared.time(Volume::from(size)));
        Alternative {
            id: meta.id,
            title: meta.title,
            time_s: time.0,
            over_choice: own.filter(|t| t.0 > 0.0).map(|t| time.0 / t.0),
            estimate_s: policy.only(call, meta.id).and_then(|c| c.estimate).map(|t| t.0),
            chosen,
            force: force.ok(),
            refused: why.filter(|_| known_as.is_some()),
            known_as,
        }
    };
    let mut found: Vec<Alternative> = model.ready.iter().map(one).collect();
    rising(&mut found, |a| a.time_s);
    Ok(found)
}
