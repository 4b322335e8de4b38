//! What a library would pick, at one size or over a range, and what that costs.

use serde::Serialize;

use super::{Expect, six};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::cost::rank::{Candidate, candidates};
use crate::library::{
    Call, Choice, FellBack, Interval, Part, Policy, Priced, Runs, Where, intervals, priced,
};
use crate::machine::query::Query;
use crate::measure::expect::{Expecting, Kernels, Rules};
use crate::model::algorithm::Registry;

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
    /// Nodes on which they lie.
    pub nodes: u32,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Whether the operation commutes.
    pub commutative: bool,
    /// Whether the operation is predefined.
    pub builtin_op: bool,
    /// Whether the call works in place.
    pub in_place: bool,
    /// The machine's name: its figures give the times.
    pub machine: String,
    /// M, where one size is asked.
    pub size_bytes: Option<u64>,
    /// Whose rules.
    pub policy: PolicyView,
    /// With whose rules they are compared.
    pub versus: Option<PolicyView>,
    /// Sizes with one choice, in order; of one size the only one.
    pub intervals: Vec<Span>,
    /// What else could run at the one size, from the fastest on.
    pub alternatives: Vec<Alternative>,
    /// Whose kernel an engine runs at the one size: `nccl`, `custom`, `flashinfer-mnnvl`, …
    pub backend: Option<&'static str>,
    /// The kernel; `library` where the backend decides inside.
    pub kernel: Option<&'static str>,
    /// The rule that decided at the one size.
    pub rule: Option<String>,
    /// What the call is expected to take at the one size, in µs.
    pub us: Option<f64>,
    /// The same with its band and what it rests on.
    pub expect: Option<Expect>,
}

/// A policy.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyView {
    /// Its name.
    pub id: String,
    /// In one line.
    pub title: String,
    /// What its thresholds count.
    pub counts: String,
    /// The public code that it was read from.
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
    /// Whether they run different things.
    pub differ: Option<bool>,
    /// The choice's time over the other's, where they are furthest apart among the sizes looked at.
    pub ratio: Option<f64>,
    /// Where that is.
    pub ratio_at_bytes: Option<u64>,
    /// The fastest at the first size.
    pub best_id: Option<&'static str>,
    /// Its name in a table.
    pub best_title: Option<&'static str>,
    /// Its time there.
    pub best_time_s: Option<f64>,
    /// What other engines run at the first size, the fastest first.
    pub rivals: Vec<Rival>,
    /// What the same engine could run at the first size under other settings, the fastest first.
    pub ways: Vec<Way>,
}

/// What an engine could run instead, and how one gets it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Way {
    /// Whose kernel.
    pub backend: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// Variables and flags that force it.
    pub force: String,
    /// What the call is expected to take, in µs.
    pub us: Option<f64>,
    /// The choice's expected time over this one's: above 1 where the choice loses.
    pub regret: Option<f64>,
    /// Whether the bands of both lie apart; where they do not, nothing is certain.
    pub certain: bool,
}

/// What another engine runs for the same call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rival {
    /// The engine with its release.
    pub engine: String,
    /// Whose kernel.
    pub backend: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// What the call is expected to take, in µs.
    pub us: Option<f64>,
}

/// What one policy chooses.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceView {
    /// The library's own name.
    pub name: String,
    /// The library's number.
    pub id: Option<u32>,
    /// Whose kernel, where an engine chose.
    pub backend: Option<&'static str>,
    /// Which kernel; `library` where the backend decides inside.
    pub kernel: Option<&'static str>,
    /// The rule that decided.
    pub rule: String,
    /// What the rules named first, and why it does not run.
    pub fell_back: Vec<Turn>,
    /// What runs as algorithms of this program, one after another.
    pub runs: Vec<PartView>,
    /// Why nothing here prices it.
    pub unpriced: Option<String>,
    /// What the call will take at the first size, where this is what the machine's library runs.
    pub expect: Option<Expect>,
    /// Its ideal price at the first size.
    pub time_s: Option<f64>,
    /// Its ideal price over the fastest algorithm's, the worst among the sizes looked at: both ends and
    /// the powers of two between.
    pub regret: Option<f64>,
    /// Where that is.
    pub regret_at_bytes: Option<u64>,
    /// The same at each of the sizes looked at, where both are priced.
    pub regrets: Vec<RegretAt>,
    /// The library's own estimate at the first size.
    pub estimate_s: Option<f64>,
    /// Options or variables that force it.
    pub force: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// What a choice costs more than the best, at one size.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegretAt {
    /// M.
    pub size_bytes: u64,
    /// The choice's time over the fastest algorithm's.
    pub regret: f64,
}

/// A turn away from what the rules named.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// What the rules named.
    pub from: String,
    /// The library's number of it.
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
    /// Ranks that take part.
    pub ranks: u32,
    /// The ranks out of which they are, where others stand by: pairs of a fold, and what it leaves.
    pub of_ranks: Option<u32>,
    /// `all`, `in-node` or `leaders`.
    pub place: Where,
    /// Bytes of a segment; absent: one piece, or as many as are best.
    pub segment_bytes: Option<u64>,
}

/// Another algorithm at the asked size.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alternative {
    /// The algorithm's id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// What the policy's library calls it, where it ships it.
    pub known_as: Option<&'static str>,
    /// Its time.
    pub time_s: f64,
    /// Its time over the choice's.
    pub over_choice: Option<f64>,
    /// Whether it is what the policy chooses.
    pub chosen: bool,
    /// Options or variables that force it.
    pub force: Option<String>,
    /// Why the library, which has it, would not run it for this call.
    pub refused: Option<String>,
}

/// The choices of a policy for several numbers of ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelectMap {
    /// `collcost/select-map/1`.
    pub schema: &'static str,
    /// One for each number of ranks.
    pub by_ranks: Vec<Select>,
}

/// All of `by_ranks`, which differ in their ranks.
#[must_use]
pub fn select_map(by_ranks: Vec<Select>) -> SelectMap {
    SelectMap { schema: "collcost/select-map/1", by_ranks }
}

/// What the closed forms are asked with.
struct Model<'a> {
    registry: &'a Registry,
    query: &'a Query,
    ready: Vec<Candidate>,
    /// Absent where figures are unknown: an engine's choice is known all the same.
    expecting: Option<Expecting<'a>>,
    kernels: Option<Kernels<'a>>,
}

impl<'a> Model<'a> {
    fn new(registry: &'a Registry, query: &'a Query, of_engine: bool) -> Result<Self> {
        if of_engine {
            let ready = candidates(registry, &query.shape, &query.machine.fabric);
            let ready = ready.map(|(ready, _)| ready).unwrap_or_default();
            let kernels = Kernels::new(registry, query).ok();
            let expecting = Expecting::new(registry, query).ok();
            return Ok(Self { registry, query, ready, expecting, kernels });
        }
        let (ready, _) = candidates(registry, &query.shape, &query.machine.fabric)?;
        let expecting = Some(Expecting::new(registry, query)?);
        Ok(Self { registry, query, ready, expecting, kernels: None })
    }

    fn time(&self, choice: &Choice, size: u64) -> Result<Priced> {
        let Query { machine, shape, .. } = self.query;
        let priced = priced(self.registry, choice, shape, &machine.fabric, Bytes(size));
        match (priced, choice.kernel) {
            (Err(error), Some(_)) => Ok(Priced::Unknown(error.what().to_owned())),
            (priced, _) => priced,
        }
    }

    /// The time by which two policies are compared: expected of engines, ideal of others.
    fn compared(&self, choice: &Choice, size: u64) -> Result<Option<Seconds>> {
        match choice.kernel {
            Some(_) => Ok(self.expect(choice, Bytes(size)).map(|e| Seconds(e.time_s))),
            None => Ok(self.time(choice, size)?.time()),
        }
    }

    /// What is expected of an engine's kernel, or of the machine where the choice is what its library
    /// runs.
    fn expect(&self, choice: &Choice, size: Bytes) -> Option<Expect> {
        if let Some(kernel) = choice.kernel {
            let kernels = self.kernels.as_ref()?;
            let expected = kernels.at(kernel, size)?;
            let busbw = kernels.busbw(size, expected.time);
            return Some(Expect::stated(expected, kernel.into(), busbw));
        }
        let expect = Expect::new(self.expecting.as_ref()?, size);
        let own = matches!(expect.runs.rules, Rules::Own | Rules::OtherRelease);
        (own && expect.runs.name() == choice.name).then_some(expect)
    }

    fn best(&self, size: u64) -> Option<(&Candidate, Seconds)> {
        let at = Volume::from(Bytes(size));
        let timed = self.ready.iter().map(|c| (c, c.prepared.time(at)));
        timed.min_by(|a, b| a.1.0.total_cmp(&b.1.0))
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
            notes: choice.notes.iter().map(ToString::to_string).collect(),
        })
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
    };
    parts.iter().map(view).collect()
}

/// Both ends and the powers of two between.
fn looked_at(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let powers = (0..63).map(|k| 1_u64 << k).filter(move |p| from < *p && *p < to);
    std::iter::once(from).chain(powers).chain((to > from).then_some(to))
}

/// What `policy` picks from `first` to `last` bytes, and `versus` beside it; `call` says the rest,
/// and the machine and ranks of `query` give the times.
///
/// # Errors
/// A collective or call for which a policy has no rule; an unknown figure of the machine.
pub fn select(
    registry: &Registry,
    query: &Query,
    call: &Call,
    (policy, versus): (&dyn Policy, Option<&dyn Policy>),
    (first, last): (Bytes, Bytes),
) -> Result<Select> {
    let rivals = policy.rivals();
    let of_engine = !rivals.is_empty() || versus.is_some_and(|v| !v.rivals().is_empty());
    let model = Model::new(registry, query, of_engine)?;
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
    let one = (first == last).then_some(first);
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

/// Puts what other engines run beside an engine's choice: its regret is then by what is expected.
fn beside(model: &Model<'_>, span: &mut Span, rivals: &[Box<dyn Policy>], call: &Call) {
    let size = Bytes(span.from_bytes);
    for rival in rivals {
        let Ok(choice) = rival.choose(&call.with_size(size)) else { continue };
        let Some(kernel) = choice.kernel.filter(|k| k.backend != "none") else { continue };
        let us = model.expect(&choice, size).map(|e| six(e.time_s * 1e6));
        let engine = rival.meta().id.clone();
        span.rivals.push(Rival { engine, backend: kernel.backend, kernel: kernel.kernel, us });
    }
    let time = |r: &Rival| r.us.unwrap_or(f64::INFINITY);
    span.rivals.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let own = span.choice.expect.as_ref().map(|e| e.time_s * 1e6);
    let least = span.rivals.first().and_then(|r| r.us);
    if let (Some(own), Some(least)) = (own, least) {
        let regret = own / least.min(own);
        span.choice.regret = Some(regret);
        span.choice.regret_at_bytes = Some(span.from_bytes);
    }
}

/// Puts what the same engine could run under other settings beside its choice, a kernel once.
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
    let time = |w: &Way| w.us.unwrap_or(f64::INFINITY);
    span.ways.sort_by(|a, b| time(a).total_cmp(&time(b)));
}

fn view(policy: &dyn Policy) -> PolicyView {
    let meta = policy.meta().clone();
    PolicyView { id: meta.id, title: meta.title, counts: meta.counts, source: meta.source }
}

/// Two rows of intervals over the same sizes, cut wherever either begins anew.
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
            let times = (model.compared(choice, size)?, model.compared(other, size)?);
            let (Some(a), Some(b)) = times else { continue };
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

/// Names are each library's own: what runs is compared where it is known of both.
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
        let known_as = policy.meta().library.and_then(|l| meta.name_in(l, call.collective));
        let force = policy.force(call, meta.id);
        let why = force.as_ref().err().map(ToString::to_string);
        let time = c.prepared.time(Volume::from(size));
        Alternative {
            id: meta.id,
            title: meta.title,
            known_as,
            time_s: time.0,
            over_choice: own.filter(|t| t.0 > 0.0).map(|t| time.0 / t.0),
            chosen: matches!(&runs[..], [only] if only.algorithm == meta.id),
            force: force.ok(),
            refused: why.filter(|_| known_as.is_some()),
        }
    };
    let mut found: Vec<Alternative> = model.ready.iter().map(one).collect();
    found.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    Ok(found)
}
