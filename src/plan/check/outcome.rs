//! Compares a budget with the model or with logs.

use super::measured::measured;
use super::standing::{At, Number, Standing};
use super::{Budget, CallSubject, Exposed, Files, Limit, Options, Subject};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::cost::bound::bound;
use crate::cost::rank::{candidates, fastest};
use crate::machine::query::Query;
use crate::measure::expect::{Expectation, Expecting, Rules, Runs, under_mpi};
use crate::model::algorithm::Registry;
use crate::plan::job::{Doing, Job, MEMORY_BAND, Serve, Wires, estimate, memory};
use crate::plan::table::{Faults, MachineEntry};
use crate::plan::{Tweak, price};

/// The result of one budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Whether it holds.
    pub standing: Standing,
    /// The value of the limit; absent if there is none yet.
    pub limit: Option<Number>,
    /// The current value: the expected one, or the requested end of its band.
    pub value: Number,
    /// The worse end of what is judged: its band, or the requested point of it.
    pub worst: Number,
    /// The same at both ends of the band, the smaller first; absent if it comes from logs.
    pub band: Option<(Number, Number)>,
    /// The expected call; absent if the value comes from logs, and for a step.
    pub expected: Option<(Expectation, Runs)>,
    /// The part of the limit that is used at the better end of the judged band: the budget fails if
    /// and only if it is above 1.
    pub used: Ratio,
    /// The same at the worse end: the budget holds if and only if it is at most 1.
    pub used_most: Ratio,
    /// The time behind it.
    pub time: Option<Seconds>,
    /// The busbw of a collective.
    pub busbw: Option<Bandwidth>,
    /// The time of a collective over the lower bound.
    pub bound_ratio: Option<Ratio>,
    /// The machine.
    pub machine: String,
    /// Parameters given in place of the machine's: `inter.bw 24 GB/s`.
    pub given: Vec<String>,
    /// Whether no machine was named, so that it is the default one.
    pub is_default: bool,
    /// N.
    pub ranks: u64,
    /// M of a collective.
    pub size: Option<Bytes>,
    /// The basis: an algorithm, a policy's choice, the basis of a band.
    pub by: String,
    /// A note in a sentence; may be empty.
    pub note: String,
    /// Why it does not run, of what does not fit into its GPUs: no limit of it simply holds.
    pub unfit: Option<String>,
    /// Parts of a job's step that sum to its time.
    pub parts: Vec<(&'static str, Seconds)>,
}

/// The outcome of a budget. A budget that cannot be priced or cannot fail is a fault, which goes to
/// `faults`.
pub(super) fn outcome(
    registry: &Registry,
    files: &dyn Files,
    budget: &Budget,
    options: Options,
    faults: &Faults,
) -> Option<Outcome> {
    let at = options.at.or(budget.at);
    let found = match (&budget.subject, &budget.limit) {
        (Subject::Job(subject), limit) => of_job(registry, &subject.job, limit.as_ref(), at),
        (Subject::Served(subject), limit) => {
            of_served(registry, &subject.serve, limit.as_ref(), at)
        }
        (Subject::Step(step), limit) => of_step(registry, step, limit.as_ref(), at),
        (Subject::Call(call), Some(Limit::Measured(patterns))) => {
            measured(registry, files, call, patterns)
        }
        (Subject::Call(call), limit) => of_call(registry, call, limit.as_ref(), at),
    };
    let related = matches!(budget.limit, Some(Limit::Within(_)));
    let found =
        found.and_then(|o| if options.updating || related { Ok(o) } else { useful(budget, o) });
    unless_fault(found, budget, faults)
}

/// The outcome of a budget, or none: then the error is a fault of its file.
pub(super) fn unless_fault(
    found: Result<Outcome>,
    budget: &Budget,
    faults: &Faults,
) -> Option<Outcome> {
    found.map_err(|error| faults.borrow_mut().push(budget.fault(&error))).ok()
}

/// A limit further from the model than this factor catches nothing: half a bandwidth is a factor of
/// 2.
const FAR: f64 = 100.0;

/// Refuses a budget that can never fail or never hold.
pub(super) fn useful(budget: &Budget, outcome: Outcome) -> Result<Outcome> {
    let never = |why: String| Err(Error::input(format!("the budget can never fail: {why}")));
    // A server's GPU computes and reads, too.
    let alone = matches!(budget.limit, Some(Limit::Measured(_)))
        || matches!(budget.subject, Subject::Served(_));
    if outcome.ranks < 2 && !alone {
        return never("one rank sends nothing".to_owned())
            .map_err(|e: Error| e.help("use 2 ranks or more"));
    }
    if outcome.size == Some(Bytes(0)) && outcome.time == Some(Seconds(0.0)) {
        return never("a call of 0 bytes returns at once".to_owned())
            .map_err(|e: Error| e.help("write a size above 0"));
    }
    match (&budget.limit, outcome.limit) {
        (Some(Limit::MaxBoundRatio(most)), _) if most.0 < 1.0 => {
            let what = format!("the budget can never hold: {most} times a lower bound");
            return Err(Error::input(what).help("write at least 1"));
        }
        (
            Some(
                limit @ (Limit::MaxTime(Seconds(0.0))
                | Limit::MaxPrefill(Seconds(0.0))
                | Limit::MaxMemory(Bytes(0))),
            ),
            _,
        ) => {
            let what = format!("the budget can never hold: `{}` is 0", limit.key());
            return Err(Error::input(what).help("write a limit near the model's"));
        }
        _ => {}
    }
    Ok(outcome)
}

/// Why a budget can never fail although its limit is in place: it is too far from the model.
pub(super) fn far(budget: &Budget, outcome: &Outcome) -> Option<Error> {
    let what = match budget.limit {
        Some(Limit::Measured(_)) => return None,
        // Regret may be far below what is accepted, the times may not.
        Some(Limit::MaxRegret(most)) => {
            let allowed = (1.0 + most.0) / (1.0 + outcome.value.base().0);
            (allowed > FAR).then(|| format!("it allows over {FAR:.0} times what the model has"))?
        }
        _ => {
            let is_far = outcome.used_most.0 < 1.0 / FAR && outcome.value.base().0 > 0.0;
            let limit = outcome.limit.filter(|_| is_far)?;
            format!("{limit} is over {FAR:.0} times off {}", outcome.value)
        }
    };
    Some(
        Error::input(format!("the budget can never fail: {what}"))
            .help("write a limit near the model's; check --update writes it with a margin"),
    )
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
    let machine = step.machine.machine(Collective::AllReduce)?;
    let what = if priced.compute.is_some() { "computing and " } else { "" };
    let outcome = Outcome {
        standing: Standing::Holds,
        limit: most.map(Number::Time),
        value: Number::Time(priced.time()),
        worst: Number::Time(priced.time()),
        band: None,
        expected: None,
        used: Ratio(0.0),
        used_most: Ratio(0.0),
        time: Some(priced.time()),
        busbw: None,
        bound_ratio: None,
        is_default: machine.is_default(),
        given: machine.given_in_words(),
        machine: machine.name,
        ranks: step.parallel.ranks(),
        size: None,
        by: format!("step {}", step.name),
        note: format!("{what}exposed collectives"),
        unfit: None,
        parts: Vec::new(),
    };
    if let Some(Limit::MaxExposed(most)) = limit {
        return Ok(outcome.exposed(*most, priced.exposed, priced.time()));
    }
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
    let stated = peak.reported(job);
    let (gpus, by) = (job.degrees.gpus(), format!("job {}", job.name));
    let mut outcome = Outcome::of_memory(Volume(stated), &job.machine, gpus, by);
    outcome.unfit = (!peak.fits(job)).then(|| unfit(job.device.capacity()));
    if let Some(Limit::MaxMemory(most)) = limit {
        outcome.limit = Some(Number::Memory(Volume::from(*most)));
        let ends = [1.0 - MEMORY_BAND, 1.0, 1.0 + MEMORY_BAND];
        let ends = ends.map(|part| Number::Memory(Volume(part * stated)));
        return Ok(outcome.judged(ends, at));
    }
    outcome.given = job.machine.machine(Collective::AllReduce)?.given_in_words();
    let priced = estimate(job, &Wires::new(registry, &job.machine), None)?;
    if let Some(Limit::MaxTime(most)) = limit {
        outcome.limit = Some(Number::Time(*most));
    }
    outcome.time = Some(Seconds(priced.step));
    outcome.parts = priced.parts.iter().map(|p| (p.what, Seconds(p.seconds))).collect();
    if let Some(Limit::MaxExposed(most)) = limit {
        let exposed = Seconds(priced.exposed());
        return Ok(outcome.exposed(*most, exposed, Seconds(priced.step)));
    }
    let times = [priced.low, priced.step, priced.high].map(|s| Number::Time(Seconds(s)));
    Ok(outcome.judged(times, at))
}

/// What is said of a job or server that needs more than a GPU's memory, in bytes.
fn unfit(capacity: f64) -> String {
    format!("it does not fit into {:.0} GB", capacity / 1e9)
}

/// A served model: a step of decode, a prefill, or the memory of a GPU.
fn of_served(
    registry: &Registry,
    serve: &Serve,
    limit: Option<&Limit>,
    at: Option<At>,
) -> Result<Outcome> {
    let served = serve.priced(&Wires::new(registry, &serve.machine))?;
    let ends = serve.peak(&served).map(Volume);
    let (gpus, by) = (serve.gpus().into(), format!("serving {}", serve.name));
    let mut outcome = Outcome::of_memory(ends[1], &serve.machine, gpus, by);
    outcome.given = serve.machine.machine(Collective::AllReduce)?.given_in_words();
    outcome.unfit = (!serve.fits(&served)).then(|| unfit(serve.device.capacity()));
    if let Some(Limit::MaxMemory(most)) = limit {
        outcome.limit = Some(Number::Memory(Volume::from(*most)));
        outcome.note = format!("{} sequences of {} tokens", served.sequences, serve.context);
        return Ok(outcome.judged(ends.map(Number::Memory), at));
    }
    let doing = match limit {
        Some(Limit::MaxPrefill(_)) => Doing::Prefill,
        _ => Doing::Decode,
    };
    if !serve.runs(doing) {
        let (own, other) = match doing {
            Doing::Prefill => ("decode", "max_time"),
            Doing::Decode => ("prefill", "max_prefill"),
        };
        return Err(Error::input(format!("the server runs {own} alone"))
            .at("--disaggregation-mode")
            .help(format!("write {other} in the budget")));
    }
    let phase = match limit {
        Some(Limit::MaxPrefill(most)) => {
            outcome.limit = Some(Number::Time(*most));
            outcome.note = format!("prefill, {} tokens", served.chunk);
            served.prefill
        }
        _ => {
            if let Some(Limit::MaxTime(most)) = limit {
                outcome.limit = Some(Number::Time(*most));
            }
            outcome.note = format!("decode, one token for {} sequences", served.sequences);
            served.decode
        }
    };
    outcome.time = Some(Seconds(phase.time()));
    outcome.parts = vec![
        ("memory and kernels", Seconds(phase.busy)),
        ("between kernels", Seconds(phase.between)),
        ("collectives", Seconds(phase.messages.time)),
    ];
    let span = phase.span();
    let times = [span.low, span.time, span.high].map(|s| Number::Time(Seconds(s)));
    Ok(outcome.judged(times, at))
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
    let least = match bound(shape, volume, fabric) {
        // An expectation from similar machines needs no parameter of these links.
        Err(_) if expecting.is_learned() && !matches!(limit, Some(Limit::MaxBoundRatio(_))) => None,
        found => Some(found?.time() + fabric.launch).filter(|least| least.0 > 0.0),
    };
    let over = |time: Seconds| Ratio(least.map_or(1.0, |least| time.0 / least.0));
    let factor = shape.collective.busbw_factor(shape.ranks);
    let busbw = |time: Seconds| volume / time * factor;
    let times = [expected.low, expected.time, expected.high];
    let open = || match call.algorithm {
        None => under_mpi(registry, &query, "`library = \"openmpi\"`"),
        Some(_) => None,
    };
    let mut outcome = Outcome {
        standing: Standing::Holds,
        limit: None,
        value: Number::Time(expected.time),
        worst: Number::Time(expected.time),
        band: None,
        used: Ratio(0.0),
        used_most: Ratio(0.0),
        time: Some(expected.time),
        busbw: (size.0 > 0 && shape.ranks > 1).then(|| busbw(expected.time)),
        bound_ratio: least.map(|_| over(expected.time)),
        machine: query.machine.name.clone(),
        given: query.machine.given_in_words(),
        is_default: query.machine.is_default(),
        ranks: shape.ranks.into(),
        size: Some(size),
        by: runs.name(),
        expected: Some((expected, runs)),
        note: query.machine.settings_note().or_else(open).unwrap_or_default(),
        unfit: None,
        parts: Vec::new(),
    };
    let values = match limit {
        None | Some(Limit::Measured(_) | Limit::Within(_)) => times.map(Number::Time),
        Some(Limit::MaxTime(most)) => {
            outcome.limit = Some(Number::Time(*most));
            times.map(Number::Time)
        }
        Some(Limit::MinBusbw(least)) => {
            if size.0 == 0 {
                return Err(Error::input("the budget can never hold: 0 bytes have no busbw")
                    .help("write max_time"));
            }
            outcome.limit = Some(Number::Rate(*least));
            times.map(|time| Number::Rate(busbw(time)))
        }
        Some(Limit::MaxBoundRatio(most)) => {
            outcome.limit = Some(Number::Ratio(*most));
            times.map(|time| Number::Ratio(over(time)))
        }
        Some(limit @ (Limit::MaxPrefill(_) | Limit::MaxMemory(_) | Limit::MaxExposed(_))) => {
            let what = format!("a collective has no `{}`", limit.key());
            return Err(Error::input(what).help("write max_time"));
        }
        Some(Limit::MaxRegret(most)) => {
            let (lost, by) = regret(registry, call, &query)?;
            outcome.by = by;
            outcome.limit = Some(Number::Ratio(*most));
            outcome.note = "by ideal prices of both".to_owned();
            (outcome.value, outcome.worst) = (Number::Ratio(lost), Number::Ratio(lost));
            // Of a limit of 0 there is no part: then it is that of the whole time.
            outcome.used = match most.0 {
                0.0 => Ratio(1.0 + lost.0),
                most => Ratio(lost.0 / most),
            };
            outcome.used_most = outcome.used;
            outcome.standing = Standing::of(outcome.used.0, outcome.used.0);
            return Ok(outcome);
        }
    };
    Ok(outcome.judged(values, at))
}

impl Outcome {
    /// The memory of a job or server, not compared yet.
    fn of_memory(memory: Volume, machine: &MachineEntry, ranks: u64, by: String) -> Self {
        Self {
            standing: Standing::Holds,
            limit: None,
            value: Number::Memory(memory),
            worst: Number::Memory(memory),
            band: None,
            expected: None,
            used: Ratio(0.0),
            used_most: Ratio(0.0),
            time: None,
            busbw: None,
            bound_ratio: None,
            machine: machine.said.profile.clone().unwrap_or_default(),
            given: Vec::new(),
            is_default: false,
            ranks,
            size: None,
            by,
            note: String::new(),
            unfit: None,
            parts: Vec::new(),
        }
    }

    /// Compares with the most that may be exposed, by the expected value: the ends of a step's band
    /// do not apply to its collectives alone.
    fn exposed(mut self, most: Exposed, exposed: Seconds, step: Seconds) -> Self {
        let (limit, value) = match most {
            Exposed::Time(most) => (Number::Time(most), Number::Time(exposed)),
            Exposed::Part(most) => (Number::Ratio(most), Number::Ratio(Ratio(exposed.0 / step.0))),
        };
        self.note = "exposed collectives, by expected times".to_owned();
        self.limit = Some(limit);
        self = self.judged([value; 3], None);
        self.band = None;
        self
    }

    /// Compares with its limit: by the whole band, from the short end to the long end of the time,
    /// or at one point of it.
    pub(super) fn judged(mut self, values: [Number; 3], at: Option<At>) -> Self {
        let [short, mid, long] = values;
        let (low, high) =
            if short.base().0 <= long.base().0 { (short, long) } else { (long, short) };
        let judged = match at {
            None => [short, mid, long],
            Some(At::Low) => [low; 3],
            Some(At::Mid) => [mid; 3],
            Some(At::High) => [high; 3],
        };
        (self.value, self.worst, self.band) = (judged[1], judged[2], Some((low, high)));
        if let Some(limit) = self.limit {
            let used = |value: Number| match value {
                Number::Rate(rate) => limit.base().0 / rate.0,
                other => other.base().0 / limit.base().0.max(f64::MIN_POSITIVE),
            };
            let ends = [used(judged[0]), used(judged[2])];
            self.used = Ratio(ends[0].min(ends[1]));
            self.used_most = Ratio(ends[0].max(ends[1]));
            self.standing = Standing::of(self.used.0, self.used_most.0);
            if self.unfit.is_some() && self.standing == Standing::Holds {
                self.standing = Standing::AtRisk;
                let (used, most) = self.standing.nearest(self.used.0, self.used_most.0);
                (self.used, self.used_most) = (Ratio(used), Ratio(most));
            }
        }
        self
    }
}

/// The loss of the named algorithm, or of the library's own choice, against the lowest ideal time of any
/// algorithm, as `choose` counts it.
fn regret(registry: &Registry, call: &CallSubject, query: &Query) -> Result<(Ratio, String)> {
    let expecting = Expecting::of(registry, query, call.algorithm.as_deref())?;
    let runs = expecting.runs(query.size);
    if runs.rules == Rules::Unknown {
        return Err(Error::input(
            "the budget can never fail: the library's choice is not known here",
        )
        .help("name an algorithm, or a machine whose library's rules are known"));
    }
    let own = expecting.ideal(query.size).time;
    let (ready, _) = candidates(registry, &query.shape, &query.machine.fabric)?;
    let best = fastest(&ready, Volume::from(query.size)).map_or(own, |(_, best)| best);
    let lost = Ratio((own.0 / best.0 - 1.0).max(0.0));
    let of = match (runs.library, &runs.version) {
        (Some(library), Some(version)) => format!("{library}@{version}: "),
        (Some(library), None) => format!("{library}: "),
        (None, _) => String::new(),
    };
    Ok((lost, format!("{of}{}", runs.name())))
}
