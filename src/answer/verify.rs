//! Verified schedules: what was tried, and the first fault.

use serde::Serialize;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::cost::check::{Broken, COMPARED, Case, Compared, try_out};
use crate::exchange::import::{Claim, Foreign};
use crate::model::algorithm::Guarantee;
use crate::model::algorithm::Registry;
use crate::model::formula::Shape;
use crate::model::schedule::{Fault, Schedule, messages, verify as check};

/// Schedules, with whether they do what they promise.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// `collcost/verify/1`.
    pub schema: &'static str,
    /// The rank counts that were tried.
    pub ranks: Vec<u32>,
    /// The segment counts that were tried for pipelines.
    pub segments: Vec<u32>,
    /// One line per algorithm and collective.
    pub lines: Vec<VerifyLine>,
    /// Algorithms without a schedule, by collective.
    pub without: Vec<WithoutView>,
    /// The number of lines with a fault.
    pub failed: u64,
    /// The number of lines with a schedule that is too large to verify.
    pub unverified: u64,
    /// What to know before trusting it.
    pub notes: Vec<String>,
}

/// The result for one algorithm, or one file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyLine {
    /// The collective's id.
    pub collective: Collective,
    /// The algorithm's id, or the file.
    pub algorithm: String,
    /// The number of schedules that were verified.
    pub schedules: u64,
    /// The number of messages in them.
    pub transfers: u64,
    /// Whether it was verified and no fault was found.
    pub ok: bool,
    /// Whether it is unknown: a schedule is too large to verify.
    pub too_large: bool,
    /// The first schedule that does not do what its collective promises, or is too large.
    pub fault: Option<FaultView>,
    /// What the closed form promises: `equal`, `equal-in-rounds`, `upper-bound`, `asymptotic`,
    /// several joined by commas; absent if none was compared.
    pub closed_form: Option<String>,
    /// The number of closed forms that were compared with simulations of their schedules.
    pub compared: u64,
    /// The first that breaks its promise.
    pub broken: Option<BrokenView>,
}

/// Algorithms of one collective that are without an explicit schedule.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WithoutView {
    /// The collective's id.
    pub collective: Collective,
    /// The algorithms' ids.
    pub algorithms: Vec<&'static str>,
}

/// A fault and its place.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultView {
    /// The sentence.
    pub what: String,
    /// The schedule: ranks, root and parameters; or the line of a file.
    pub place: String,
    /// The round, from 0; absent if the fault shows only at the end.
    pub round: Option<u64>,
    /// The rank whose data is wrong.
    pub rank: Option<u32>,
    /// The chunk.
    pub chunk: Option<u32>,
}

/// A closed form that breaks its promise, on a machine where α is one second.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BrokenView {
    /// Ranks and parameters.
    pub place: String,
    /// Its promise.
    pub guarantee: Guarantee,
    /// M/BW over α.
    pub size_over_alpha: f64,
    /// The time by the closed form.
    pub form_s: f64,
    /// The time of the messages.
    pub makespan_s: f64,
}

/// Verifies the explicit schedules of `collectives` in the registry, or the one algorithm of that
/// name.
///
/// # Errors
/// An unknown name; a named algorithm without an explicit schedule.
pub fn verify(
    registry: &Registry,
    collectives: &[Collective],
    name: Option<&str>,
    ranks: &[u32],
    segments: &[u32],
) -> Result<Verification> {
    verify_telling(registry, collectives, name, (ranks, segments), |_| ())
}

/// What [`verify_telling`] is about to verify.
#[derive(Debug, Clone, Copy)]
pub struct Next {
    /// How many algorithms are verified already, of how many.
    pub done: usize,
    /// All of them.
    pub of: usize,
    /// The collective.
    pub collective: Collective,
    /// The algorithm's id.
    pub algorithm: &'static str,
}

/// The same, over ranks and segments; `tell` hears of each algorithm before it is verified, since all together
/// may take long.
///
/// # Errors
/// Those of [`verify`].
pub fn verify_telling(
    registry: &Registry,
    collectives: &[Collective],
    name: Option<&str>,
    (ranks, segments): (&[u32], &[u32]),
    mut tell: impl FnMut(Next),
) -> Result<Verification> {
    let mut all = Vec::new();
    for &collective in collectives {
        let algorithms: Vec<_> = match name {
            Some(name) => vec![registry.find(collective, name)?.algorithm],
            None => registry.of(collective).collect(),
        };
        all.push((collective, algorithms));
    }
    let of = all.iter().map(|(_, algorithms)| algorithms.len()).sum();
    let (mut done, mut lines, mut without) = (0, Vec::new(), Vec::new());
    for (collective, algorithms) in all {
        let mut none = Vec::new();
        for algorithm in algorithms {
            let id = algorithm.meta().id;
            tell(Next { done, of, collective, algorithm: id });
            done += 1;
            let trial = try_out(algorithm, collective, ranks, segments)?;
            if trial.schedules == 0 {
                none.push(id);
                continue;
            }
            let Compared { equal, equal_in_rounds, upper_bound, asymptotic } = trial.compared;
            lines.push(VerifyLine {
                collective,
                algorithm: id.to_owned(),
                schedules: trial.schedules,
                transfers: trial.transfers,
                ok: trial.is_sound(),
                too_large: trial.broken.is_none()
                    && trial.fault.as_ref().is_some_and(|(_, fault)| fault.is_too_large()),
                closed_form: promises(trial.compared),
                compared: equal + equal_in_rounds + upper_bound + asymptotic,
                fault: trial.fault.map(|(case, fault)| view(&fault, place_of(&case))),
                broken: trial.broken.map(|broken| broken_view(&broken)),
            });
        }
        if !none.is_empty() {
            without.push(WithoutView { collective, algorithms: none });
        }
    }
    if let (true, Some(name)) = (lines.is_empty(), name) {
        return Err(Error::unsupported(format!(
            "`{name}` has no explicit schedule for these ranks"
        ))
        .help("leave out --algorithm to verify all algorithms that have one"));
    }
    let mut notes = Vec::new();
    if ranks.iter().any(|&n| n > COMPARED) {
        notes.push(format!("closed forms are compared up to {COMPARED} ranks"));
    }
    Ok(report(ranks.to_vec(), segments.to_vec(), lines, without, notes))
}

/// Verifies one schedule from a file, and the times that the file states.
#[must_use]
pub fn verify_file(foreign: &Foreign, file: &str) -> Verification {
    let schedule = &foreign.list;
    let place = |line: Option<usize>| match line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_owned(),
    };
    let fault = check(schedule).err();
    let too_large = fault.as_ref().is_some_and(Fault::is_too_large);
    let fault = fault.map(|fault| view(&fault, place(foreign.line_of(&fault))));
    let fault = fault.or_else(|| {
        let Claim { what, line, round } = foreign.wrong_claim.clone()?;
        let place = place(Some(line));
        Some(FaultView { what, place, round: Some(round), rank: None, chunk: None })
    });
    let line = VerifyLine {
        collective: schedule.collective(),
        algorithm: file.to_owned(),
        schedules: 1,
        transfers: messages(schedule, u64::MAX).unwrap_or(u64::MAX),
        ok: fault.is_none(),
        too_large,
        fault,
        closed_form: None,
        compared: 0,
        broken: None,
    };
    report(vec![schedule.ranks()], Vec::new(), vec![line], Vec::new(), Vec::new())
}

fn report(
    ranks: Vec<u32>,
    segments: Vec<u32>,
    lines: Vec<VerifyLine>,
    without: Vec<WithoutView>,
    notes: Vec<String>,
) -> Verification {
    let unverified = lines.iter().filter(|line| line.too_large).count() as u64;
    let failed = lines.iter().filter(|line| !line.ok).count() as u64 - unverified;
    let schema = "collcost/verify/1";
    Verification { schema, ranks, segments, lines, without, failed, unverified, notes }
}

fn view(fault: &Fault, place: String) -> FaultView {
    FaultView {
        what: fault.to_string(),
        place,
        round: fault.round(),
        rank: fault.rank(),
        chunk: fault.chunk(),
    }
}

fn broken_view(broken: &Broken) -> BrokenView {
    BrokenView {
        place: format!("{}, {}", words(&broken.shape), broken.shape.ports),
        guarantee: broken.guarantee,
        size_over_alpha: broken.size_over_alpha,
        form_s: broken.form.0,
        makespan_s: broken.makespan.0,
    }
}

fn promises(compared: Compared) -> Option<String> {
    let Compared { equal, equal_in_rounds, upper_bound, asymptotic } = compared;
    let rounds = (equal_in_rounds, "equal-in-rounds");
    let all = [(equal, "equal"), rounds, (upper_bound, "upper-bound"), (asymptotic, "asymptotic")];
    let made: Vec<_> = all.iter().filter(|(n, _)| *n > 0).map(|(_, name)| *name).collect();
    (!made.is_empty()).then(|| made.join(", "))
}

fn place_of(Case { shape, root }: &Case) -> String {
    let root = if *root > 0 { format!(", root {root}") } else { String::new() };
    format!("{}{root}", words(shape))
}

/// The ranks, and the parameters that differ from their defaults.
fn words(shape: &Shape) -> String {
    let params = &shape.params;
    let mut words = vec![format!("{} ranks", shape.ranks)];
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    add("segments", params.segments.map(|p| p.to_string()));
    add("radix", params.radix.map(|k| k.to_string()));
    add("pat-agg", params.aggregation.map(|a| a.to_string()));
    add("rails", params.rails.map(|r| r.to_string()));
    add("ranks per node", shape.group.map(|g| g.to_string()));
    let sides = params.dims.map(|dims| dims.to_string());
    add("dims", sides);
    let usual = Shape::new(shape.collective, shape.ranks);
    if params.relay != usual.params.relay {
        words.push("--relay-chunks".to_owned());
    }
    if params.tie != usual.params.tie {
        words.push("--split-ties".to_owned());
    }
    if params.trees != usual.params.trees {
        words.push(format!("{:?} trees", params.trees).to_lowercase());
    }
    words.join(", ")
}
