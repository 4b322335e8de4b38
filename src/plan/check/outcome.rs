//! A budget held against the model, or against logs.

use super::{Budget, CallSubject, Fault, Files, Limit, Options, Subject};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::cost::bound::bound;
use crate::machine::query::Query;
use crate::measure::expect::{Expectation, Expecting, Rules, Runs};
use crate::measure::logs::{Asked, look};
use crate::measure::verdict::{Facts, Health, Run, judge, runs};
use crate::model::algorithm::Registry;
use crate::plan::job::{Job, MEMORY_BAND, Wires, estimate, memory};
use crate::plan::table::Faults;
use crate::plan::{Tweak, price};

/// A figure with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A time.
    Time(Seconds),
    /// A rate.
    Rate(Bandwidth),
    /// A ratio.
    Ratio(Ratio),
    /// Memory.
    Memory(Volume),
}

impl Number {
    /// In its base unit.
    #[must_use]
    pub fn base(self) -> Ratio {
        match self {
            Self::Time(t) => Ratio(t.0),
            Self::Rate(b) => Ratio(b.0),
            Self::Ratio(r) => r,
            Self::Memory(v) => Ratio(v.0),
        }
    }

    /// `seconds`, `bytes_per_second`, `ratio`, `bytes`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time(_) => "seconds",
            Self::Rate(_) => "bytes_per_second",
            Self::Ratio(_) => "ratio",
            Self::Memory(_) => "bytes",
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Time(t) => t.fmt(f),
            Self::Rate(b) => b.fmt(f),
            Self::Ratio(r) => r.fmt(f),
            Self::Memory(v) => v.fmt(f),
        }
    }
}

/// Where a limit lies beside the band of what is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Even the worse end is within the limit.
    Holds,
    /// The limit lies inside the band.
    AtRisk,
    /// Even the better end passes it.
    Fails,
}

impl Standing {
    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::AtRisk => "at risk",
            Self::Fails => "fails",
        }
    }

    /// By the parts of the limit that the better and the worse end use.
    fn of(better: f64, worse: f64) -> Self {
        // A time that prints as the limit is within it.
        const WITHIN: f64 = 1.0 + 1e-9;
        match (better <= WITHIN, worse <= WITHIN) {
            (_, true) => Self::Holds,
            (true, false) => Self::AtRisk,
            (false, false) => Self::Fails,
        }
    }
}

/// Where in the band a budget is judged, instead of by all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// At the least value of the band.
    Low,
    /// At what is expected.
    Mid,
    /// At the largest.
    High,
}

impl std::str::FromStr for At {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "low" => Ok(Self::Low),
            "mid" => Ok(Self::Mid),
            "high" => Ok(Self::High),
            _ => Err(Error::input(format!("`{text}` is no point of a band"))
                .help("write low, mid or high")),
        }
    }
}

/// How one budget stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it stands.
    pub standing: Standing,
    /// What the limit allows; absent where there is none yet.
    pub limit: Option<Number>,
    /// What there is now: what is expected, or the end of its band that was asked for.
    pub value: Number,
    /// The same at both ends of the band, the smaller first; absent where logs say it.
    pub band: Option<(Number, Number)>,
    /// The call as it is expected; absent where logs say it, and for a step.
    pub expected: Option<(Expectation, Runs)>,
    /// The part of the limit that is used: above 1 it is passed.
    pub used: Ratio,
    /// The time behind it.
    pub time: Option<Seconds>,
    /// busbw, of a collective.
    pub busbw: Option<Bandwidth>,
    /// The time over the lower bound, of a collective.
    pub bound_ratio: Option<Ratio>,
    /// The machine.
    pub machine: String,
    /// N.
    pub ranks: u64,
    /// M, of a collective.
    pub size: Option<Bytes>,
    /// What is taken: an algorithm, a policy's choice, the basis of a band.
    pub by: String,
    /// What to know, in a sentence; empty where there is nothing.
    pub note: String,
}

/// The outcome of a budget; what cannot be priced, and what cannot fail, is kept in `faults`.
pub(super) fn outcome(
    registry: &Registry,
    files: &dyn Files,
    budget: &Budget,
    options: Options,
    faults: &Faults,
) -> Option<Outcome> {
    let keep = |error: &Error| {
        let help = error.mending().map(str::to_owned);
        let what = error.what().to_owned();
        let fault = Fault::new(&budget.file, budget.place.clone(), what, help);
        faults.borrow_mut().push(fault);
    };
    let at = options.at.or(budget.at);
    let found = match (&budget.subject, &budget.limit) {
        (Subject::Job(subject), limit) => of_job(registry, &subject.job, limit.as_ref(), at),
        (Subject::Step(step), limit) => of_step(registry, step, limit.as_ref(), at),
        (Subject::Call(call), Some(Limit::Measured(patterns))) => {
            measured(registry, files, call, patterns)
        }
        (Subject::Call(call), limit) => of_call(registry, call, limit.as_ref(), at),
    };
    match found.and_then(|o| if options.updating { Ok(o) } else { useful(budget, o) }) {
        Ok(outcome) => Some(outcome),
        Err(error) => {
            keep(&error);
            None
        }
    }
}

/// A limit that is further from the model than this catches nothing: half a bandwidth is 2.
const FAR: f64 = 100.0;

/// Refuses a budget that can never fail, or never hold.
fn useful(budget: &Budget, outcome: Outcome) -> Result<Outcome> {
    let never = |why: String| Err(Error::input(format!("the budget can never fail: {why}")));
    let measured = matches!(budget.limit, Some(Limit::Measured(_)));
    if outcome.ranks < 2 && !measured {
        return never("one rank sends nothing".to_owned())
            .map_err(|e: Error| e.help("ask for 2 ranks or more"));
    }
    match (&budget.limit, outcome.limit) {
        (Some(Limit::MaxBoundRatio(most)), _) if most.0 < 1.0 => {
            let what = format!("the budget can never hold: {most} times a lower bound");
            return Err(Error::input(what).help("write at least 1"));
        }
        (Some(Limit::Measured(_)), _) => {}
        (_, Some(limit)) if outcome.used.0 < 1.0 / FAR && outcome.value.base().0 > 0.0 => {
            let what = format!("{limit} is over {FAR:.0} times off {}", outcome.value);
            return never(what).map_err(|e: Error| {
                e.help("write a limit near the model's; check --update writes it with a margin")
            });
        }
        _ => {}
    }
    Ok(outcome)
}

fn of_step(
    registry: &Registry,
    step: &crate::plan::Step,
    limit: Option<&Limit>,
    at: Option<At>,
) -> Result<Outcome> {
    let priced = price(registry, step, &Tweak::default())?;
    let most = match limit {
        Some(Limit::MaxTime(most)) => Some(*most),
        _ => None,
    };
    let machine = step.machine.machine(crate::base::collective::Collective::AllReduce)?;
    let what = if priced.compute.is_some() { "computing and " } else { "" };
    let outcome = Outcome {
        standing: Standing::Holds,
        limit: most.map(Number::Time),
        value: Number::Time(priced.time()),
        band: None,
        expected: None,
        used: Ratio(0.0),
        time: Some(priced.time()),
        busbw: None,
        bound_ratio: None,
        machine: machine.name,
        ranks: step.parallel.ranks(),
        size: None,
        by: format!("step {}", step.name),
        note: format!("{what}exposed collectives"),
    };
    let times = [priced.low, priced.time(), priced.high];
    Ok(outcome.judged(times.map(Number::Time), at))
}

/// A job's step, or the peak of its fullest rank.
fn of_job(
    registry: &Registry,
    job: &Job,
    limit: Option<&Limit>,
    at: Option<At>,
) -> Result<Outcome> {
    let peak = memory(job);
    let stated = peak.stated(job.stated);
    let mut outcome = Outcome {
        standing: Standing::Holds,
        limit: None,
        value: Number::Memory(Volume(stated)),
        band: None,
        expected: None,
        used: Ratio(0.0),
        time: None,
        busbw: None,
        bound_ratio: None,
        machine: job.machine.said.profile.clone().unwrap_or_default(),
        ranks: job.degrees.gpus(),
        size: None,
        by: format!("job {}", job.name),
        note: String::new(),
    };
    if !peak.fits(job) {
        outcome.note = format!("it does not fit into {:.0} GB", job.device.memory_gb);
    }
    if let Some(Limit::MaxMemory(most)) = limit {
        outcome.limit = Some(Number::Memory(Volume::from(*most)));
        let ends = [1.0 - MEMORY_BAND, 1.0, 1.0 + MEMORY_BAND];
        return Ok(outcome.judged(ends.map(|part| Number::Memory(Volume(part * stated))), at));
    }
    let priced = estimate(job, &Wires::new(registry, &job.machine), None)?;
    if let Some(Limit::MaxTime(most)) = limit {
        outcome.limit = Some(Number::Time(*most));
    }
    outcome.time = Some(Seconds(priced.step));
    let times = [priced.low, priced.step, priced.high];
    Ok(outcome.judged(times.map(|s| Number::Time(Seconds(s))), at))
}

fn of_call(
    registry: &Registry,
    call: &CallSubject,
    limit: Option<&Limit>,
    at: Option<At>,
) -> Result<Outcome> {
    let size = call.size.unwrap_or_default();
    let query = call.machine.query(call.collective, size, call.layout)?;
    let (shape, fabric) = (&query.shape, &query.machine.fabric);
    let volume = Volume::from(size);
    let expecting = Expecting::of(registry, &query, call.algorithm.as_deref())?;
    let (expected, runs) = (expecting.at(size), expecting.runs(size));
    let least = match bound(shape.collective, shape.ranks, volume, fabric) {
        // What like machines took needs no parameter of these links.
        Err(_) if expecting.is_learned() && !matches!(limit, Some(Limit::MaxBoundRatio(_))) => None,
        found => Some(found?.time() + fabric.launch).filter(|least| least.0 > 0.0),
    };
    let over = |time: Seconds| Ratio(least.map_or(1.0, |least| time.0 / least.0));
    let factor = shape.collective.busbw_factor(shape.ranks);
    let busbw = |time: Seconds| volume / time * factor;
    let times = [expected.low, expected.time, expected.high];
    let mut outcome = Outcome {
        standing: Standing::Holds,
        limit: None,
        value: Number::Time(expected.time),
        band: None,
        used: Ratio(0.0),
        time: Some(expected.time),
        busbw: (size.0 > 0 && shape.ranks > 1).then(|| busbw(expected.time)),
        bound_ratio: least.map(|_| over(expected.time)),
        machine: query.machine.name.clone(),
        ranks: shape.ranks.into(),
        size: Some(size),
        by: runs.name(),
        expected: Some((expected, runs)),
        note: String::new(),
    };
    let values = match limit {
        None | Some(Limit::Measured(_)) => times.map(Number::Time),
        Some(Limit::MaxTime(most)) => {
            outcome.limit = Some(Number::Time(*most));
            times.map(Number::Time)
        }
        Some(Limit::MinBusbw(least)) => {
            if size.0 == 0 {
                return Err(Error::input("the budget can never hold: no bytes have no busbw")
                    .help("write max_time"));
            }
            outcome.limit = Some(Number::Rate(*least));
            times.map(|time| Number::Rate(busbw(time)))
        }
        Some(Limit::MaxBoundRatio(most)) => {
            outcome.limit = Some(Number::Ratio(*most));
            times.map(|time| Number::Ratio(over(time)))
        }
        Some(Limit::MaxMemory(_)) => {
            return Err(Error::input("a collective has no `max_memory`").help("write max_time"));
        }
        Some(Limit::MaxRegret(most)) => {
            let (lost, by) = regret(registry, call, &query)?;
            outcome.by = by;
            outcome.limit = Some(Number::Ratio(*most));
            // Regret may be none: what is used is of the whole time.
            outcome.note = "by ideal prices of both".to_owned();
            outcome.value = Number::Ratio(lost);
            outcome.used = Ratio((1.0 + lost.0) / (1.0 + most.0));
            outcome.standing = Standing::of(outcome.used.0, outcome.used.0);
            return Ok(outcome);
        }
    };
    Ok(outcome.judged(values, at))
}

impl Outcome {
    /// Held to its limit: by all of the band, from the short end to the long one of the time, or at
    /// one point of it.
    fn judged(mut self, values: [Number; 3], at: Option<At>) -> Self {
        let [short, mid, long] = values;
        let (low, high) =
            if short.base().0 <= long.base().0 { (short, long) } else { (long, short) };
        let judged = match at {
            None => [short, mid, long],
            Some(At::Low) => [low; 3],
            Some(At::Mid) => [mid; 3],
            Some(At::High) => [high; 3],
        };
        (self.value, self.band) = (judged[1], Some((low, high)));
        if let Some(limit) = self.limit {
            let used = |value: Number| match value {
                Number::Rate(rate) => limit.base().0 / rate.0,
                other => other.base().0 / limit.base().0.max(f64::MIN_POSITIVE),
            };
            self.used = Ratio(used(judged[1]));
            self.standing = Standing::of(used(judged[0]), used(judged[2]));
        }
        self
    }
}

/// What the named algorithm, or the library's own choice, loses against the best that is shipped, by
/// ideal prices.
fn regret(registry: &Registry, call: &CallSubject, query: &Query) -> Result<(Ratio, String)> {
    let expecting = Expecting::of(registry, query, call.algorithm.as_deref())?;
    let runs = expecting.runs(query.size);
    if runs.rules == Rules::Unknown {
        return Err(Error::input(
            "the budget can never fail: nothing is known of what the library would choose here",
        )
        .help("name an algorithm, or a machine whose library's rules are known"));
    }
    let own = expecting.ideal(query.size).time;
    let best = expecting.best(query.size).time;
    let lost = Ratio((own.0 / best.0 - 1.0).max(0.0));
    let of = match (runs.library, &runs.version) {
        (Some(library), Some(version)) => format!("{library}@{version}: "),
        (Some(library), None) => format!("{library}: "),
        (None, _) => String::new(),
    };
    Ok((lost, format!("{of}{}", runs.name())))
}

/// Times of logs within the band of what is expected; of several logs the best time of a size counts.
fn measured(
    registry: &Registry,
    files: &dyn Files,
    call: &CallSubject,
    patterns: &[String],
) -> Result<Outcome> {
    let ranks = call.layout.ranks.map(Into::into);
    let asked = Asked { ranks, collective: Some(call.collective) };
    let mut found: Vec<Run> = Vec::new();
    let mut read = 0;
    for pattern in patterns {
        for file in files.matching(pattern)? {
            let log = look(files.text(&file)?.as_bytes(), &file, &asked)?;
            read += 1;
            let all = runs(&file, &log, &mut Vec::new()).into_iter();
            let same = |run: &Run| {
                run.collective == call.collective
                    && call.layout.ranks.is_none_or(|n| run.ranks.is_none_or(|r| r == n.get()))
            };
            found.extend(all.filter(same));
        }
    }
    let named = patterns.join(", ");
    if read == 0 {
        return Err(Error::input(format!("no file is called `{named}`"))
            .help("run the benchmark before the check, or correct the path"));
    }
    let mut times: Vec<(Bytes, Seconds)> = Vec::new();
    let mut wrong = 0;
    for run in &found {
        wrong += run.facts.wrong;
        for &(size, time) in run.times.iter().filter(|t| call.size.is_none_or(|s| s == t.0)) {
            match times.iter_mut().find(|(known, _)| *known == size) {
                Some((_, best)) => *best = Seconds(best.0.min(time.0)),
                None => times.push((size, time)),
            }
        }
    }
    let Some(first) = found.first().filter(|_| !times.is_empty()) else {
        let size = call.size.map_or(String::new(), |s| format!(" of {s}"));
        return Err(Error::input(format!("{named} times no {}{size}", call.collective.name()))
            .help("correct collective, n or size, or the path"));
    };
    times.sort_by_key(|t| t.0);
    let mut layout = call.layout;
    if layout.ranks.is_none() && layout.nodes.is_none() {
        layout.ranks = first.ranks.and_then(std::num::NonZeroU32::new);
    }
    if layout.nodes.is_none() && layout.per_node.is_none() {
        layout.nodes = first.nodes.and_then(std::num::NonZeroU32::new);
    }
    let query = call.machine.query(call.collective, times[0].0, layout)?;
    let facts = Facts { wrong, ..first.facts.clone() };
    let verdict = judge(registry, &query, first.dtype, false, &times, &facts)?;
    let worst = verdict.points.iter().max_by(|a, b| {
        let over = |p: &crate::measure::verdict::Point| p.measured.0 / p.expected.high.0;
        over(a).total_cmp(&over(b))
    });
    let Some(worst) = worst else {
        return Err(Error::input(format!("{named} times no bytes at all")).help("correct the path"));
    };
    let healthy = verdict.health == Health::Healthy;
    let cause = verdict.causes.first().map_or(String::new(), |c| format!("; {}", c.what));
    let factor = call.collective.busbw_factor(query.shape.ranks);
    let note = match verdict.health {
        Health::Healthy => format!("{} sizes, {}", times.len(), verdict.basis.words()),
        Health::Slow => format!("slower than 9 of 10 runs at {}{cause}", worst.size),
        Health::TooFast => format!("faster than can be at {}{cause}", worst.size),
        Health::WrongResults => format!("{wrong} results were wrong"),
    };
    Ok(Outcome {
        standing: if healthy { Standing::Holds } else { Standing::Fails },
        band: None,
        expected: None,
        limit: Some(Number::Time(worst.expected.high)),
        value: Number::Time(worst.measured),
        used: Ratio(worst.measured.0 / worst.expected.high.0),
        time: Some(worst.measured),
        busbw: Some(Volume::from(worst.size) / worst.measured * factor),
        bound_ratio: None,
        machine: query.machine.name.clone(),
        ranks: query.shape.ranks.into(),
        size: Some(worst.size),
        by: format!("measured, {named}"),
        note,
    })
}
