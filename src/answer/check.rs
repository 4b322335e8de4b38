//! Budgets and their state.

use serde::Serialize;

use super::Expect;
use crate::base::collective::Collective;
use crate::machine::profile::Date;
use crate::plan::check::{
    Budget, Checked, Exposed, Fault, Level, Limit, Number, Outcome, Standing, Subject, WaiverState,
    counts, is_waived,
};

/// The budgets of a file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// `collcost/check/1`.
    pub schema: &'static str,
    /// The file that was checked.
    pub file: String,
    /// The budgets, in the order of their files; empty if the files have faults.
    pub budgets: Vec<BudgetView>,
    /// The number that hold.
    pub held: usize,
    /// The number whose limit lies inside the band.
    pub at_risk: usize,
    /// Whether those count as failing.
    pub strict: bool,
    /// The number that fail, without those that are waived or only warn.
    pub failed: usize,
    /// The number that fail only as a warning or a note: the check passes.
    pub warned: usize,
    /// The number that fail and are waived.
    pub waived: usize,
    /// Faults in the files.
    pub faults: Vec<FaultView>,
}

/// One budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetView {
    /// Its name.
    pub name: String,
    /// The file.
    pub file: String,
    /// The line of its limit.
    pub line: usize,
    /// The column of its limit.
    pub column: usize,
    /// Whether it holds, with all of its band or at the requested point.
    pub holds: bool,
    /// The same, with a limit inside the band as a state of its own.
    pub standing: Standing,
    /// The kind of limit, such as `max_time`; absent if an update is to write it.
    pub kind: Option<&'static str>,
    /// The limit, in its base unit; absent if there is none yet, or if logs were judged by more than
    /// the time of one size.
    pub limit: Option<f64>,
    /// The present value, in the same unit.
    pub value: f64,
    /// The lower end of its band; absent if logs give the value.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// `seconds`, `bytes_per_second`, `ratio` or `bytes`.
    pub unit: &'static str,
    /// The share of the limit that is used at the better end of what is judged: above 1 it fails. Absent without a
    /// limit.
    pub used: Option<f64>,
    /// The same at the worse end: up to 1 it holds.
    pub used_most: Option<f64>,
    /// Its severity: `none`, `note`, `warning`, or `error`, which fails the check.
    pub counts: Level,
    /// The waiver that accepts its failure for a while.
    pub waiver: Option<WaiverView>,
    /// Whether it fails and that is accepted.
    pub waived: bool,
    /// What changed it since the version that it is compared with.
    pub changed: Option<String>,
    /// The model's value when the limit was written, as recorded in the file.
    pub expected: Option<String>,
    /// The collective's id; absent for a step.
    pub collective: Option<Collective>,
    /// The step, if the budget is for one.
    pub step: Option<String>,
    /// The machine.
    pub machine: String,
    /// Parameters given in place of the machine's: `inter.bw 24 GB/s`.
    pub given: Vec<String>,
    /// N.
    pub ranks: u64,
    /// M.
    pub size_bytes: Option<u64>,
    /// What is priced: an algorithm, a policy's choice, or logs.
    pub by: String,
    /// The time.
    pub time_s: Option<f64>,
    /// busbw.
    #[serde(rename = "busbw_Bps")]
    pub busbw: Option<f64>,
    /// The time over the lower bound.
    pub bound_ratio: Option<f64>,
    /// The expected time of the call; absent if logs give it, and for a step.
    pub expect: Option<Expect>,
    /// The verdict in a sentence.
    pub message: String,
}

/// What accepts the failure of a budget for a while.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaiverView {
    /// Its present effect.
    pub state: WaiverState,
    /// The last day on which it applies.
    pub until: String,
    /// The reason.
    pub reason: String,
    /// All of it in a sentence.
    pub message: String,
}

/// A fault in a file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultView {
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The fault.
    pub what: String,
    /// What would be accepted.
    pub help: Option<String>,
}

impl Check {
    /// The budgets in this state.
    pub fn standing(&self, standing: Standing) -> impl Iterator<Item = &BudgetView> {
        self.budgets.iter().filter(move |b| b.standing == standing)
    }

    /// Whether any budget fails the check.
    #[must_use]
    pub fn any_fails(&self) -> bool {
        self.budgets.iter().any(|b| b.counts == Level::Error)
    }

    /// Adds to each budget what changed it, as the comparison found.
    pub fn explain(&mut self, diff: &super::check_diff::CheckDiff) {
        for budget in &mut self.budgets {
            let found = diff.budgets.iter().find(|d| d.name == budget.name);
            budget.changed = found.and_then(|d| d.moved());
            if let Some(changed) = &budget.changed {
                budget.message = format!("{}; {changed}", budget.message);
            }
        }
    }
}

impl BudgetView {
    /// The state in reports.
    #[must_use]
    pub fn words(&self) -> &'static str {
        if self.waived { "waived" } else { self.standing.words() }
    }
}

/// The report for `file`; with `strict`, a limit inside the band counts as failing.
#[must_use]
pub fn check(file: &str, checked: &Checked, strict: bool) -> Check {
    let pairs = checked.budgets.iter().zip(&checked.outcomes);
    let one = |(b, o): (&Budget, &Outcome)| {
        let mut one = view(b, o, checked.today);
        one.counts = counts(b, o, strict, checked.today);
        one
    };
    let budgets: Vec<BudgetView> = pairs.map(one).collect();
    let waived = budgets.iter().filter(|b| b.waived).count();
    let only_warns =
        |b: &&BudgetView| b.standing == Standing::Fails && !b.waived && b.counts != Level::Error;
    let warned = budgets.iter().filter(only_warns).count();
    let count = |standing| budgets.iter().filter(|b| b.standing == standing).count();
    Check {
        schema: "collcost/check/1",
        file: file.to_owned(),
        strict,
        held: count(Standing::Holds),
        at_risk: count(Standing::AtRisk),
        failed: count(Standing::Fails) - waived - warned,
        warned,
        waived,
        budgets,
        faults: checked.faults.iter().map(fault).collect(),
    }
}

pub(super) fn fault(fault: &Fault) -> FaultView {
    FaultView {
        file: fault.file.clone(),
        line: fault.line,
        column: fault.column,
        what: fault.what.clone(),
        help: fault.help.clone(),
    }
}

fn view(budget: &Budget, outcome: &Outcome, today: Option<Date>) -> BudgetView {
    let waiver = budget.waiver.as_ref().map(|waiver| {
        let state = waiver.state(outcome, today);
        WaiverView {
            state,
            until: waiver.until.to_string(),
            reason: waiver.reason.clone(),
            message: waiver.words(state),
        }
    });
    let mut message = message(budget, outcome);
    if let Some(waiver) = &waiver {
        message = format!("{message}; {}", waiver.message);
    }
    let (collective, step) = match &budget.subject {
        Subject::Call(call) => (Some(call.collective), None),
        Subject::Step(step) => (None, Some(step.name.clone())),
        Subject::Job(job) => (None, Some(job.from.clone())),
        Subject::Served(served) => (None, Some(served.from.clone())),
    };
    BudgetView {
        name: budget.name.clone(),
        file: budget.file.clone(),
        line: budget.place.line,
        column: budget.place.column,
        holds: outcome.standing == Standing::Holds,
        standing: outcome.standing,
        kind: budget.limit.as_ref().map(Limit::key),
        limit: outcome.limit.map(|l| l.base().0),
        value: outcome.value.base().0,
        low: outcome.band.map(|(low, _)| low.base().0),
        high: outcome.band.map(|(_, high)| high.base().0),
        unit: outcome.value.unit(),
        used: outcome.limit.map(|_| outcome.used.0),
        used_most: outcome.limit.map(|_| outcome.used_most.0),
        counts: Level::None,
        waiver,
        waived: is_waived(budget, outcome, today),
        changed: None,
        expected: budget.expected.clone(),
        collective,
        step,
        machine: outcome.machine.clone(),
        given: outcome.given.clone(),
        ranks: outcome.ranks,
        size_bytes: outcome.size.map(|s| s.0),
        by: outcome.by.clone(),
        time_s: outcome.time.map(|t| t.0),
        busbw: outcome.busbw.map(|b| b.0),
        bound_ratio: outcome.bound_ratio.map(|r| r.0),
        expect: outcome
            .expected
            .as_ref()
            .map(|(expected, runs)| Expect::stated(*expected, runs.clone(), outcome.busbw)),
        message,
    }
}

/// A number in the terms of a limit.
pub(super) fn shown(limit: Option<&Limit>, number: Number) -> String {
    match (limit, number) {
        (Some(Limit::MaxBoundRatio(_)), Number::Ratio(r)) => format!("{r:.2} times the bound"),
        (Some(Limit::MaxRegret(_)), Number::Ratio(r)) => {
            format!("{:.1} % above the best", 100.0 * r.0)
        }
        (Some(Limit::MaxExposed(Exposed::Part(_))), Number::Ratio(r)) => {
            format!("{:.1} % of the step", 100.0 * r.0)
        }
        (Some(Limit::Within(within)), Number::Ratio(r)) => format!("{r:.3} times {}", within.of),
        (_, number) => number.to_string(),
    }
}

/// `all-reduce of 1 GiB on 64 ranks of dgx-h100 by ring: 9.1 ms, limit 5 ms (max_time), written when 4.6 ms was
/// expected`.
fn message(budget: &Budget, outcome: &Outcome) -> String {
    let machine = super::with_given(&outcome.machine, &outcome.given);
    let machine = super::named(&machine, outcome.is_default);
    let what = match &budget.subject {
        Subject::Call(call) => {
            let size = outcome.size.map_or(String::new(), |s| format!(" of {s}"));
            let (name, ranks) = (call.collective.name(), outcome.ranks);
            format!("{name}{size} on {ranks} ranks of {machine} by {}", outcome.by)
        }
        Subject::Step(_) | Subject::Job(_) | Subject::Served(_) => {
            format!("{} on {} ranks of {machine}", outcome.by, outcome.ranks)
        }
    };
    let of = |n: Number| shown(budget.limit.as_ref(), n);
    let limit = match (&budget.limit, outcome.limit) {
        (Some(limit), Some(number)) => format!(", limit {} ({})", of(number), limit.key()),
        // A log whose verdict rests on more than the time of one size.
        (Some(limit @ Limit::Measured(_)), None) => format!(" ({})", limit.key()),
        _ => ", no limit".to_owned(),
    };
    let was = budget.expected.as_ref();
    let was = was.map_or(String::new(), |was| format!(", written when {was} was expected"));
    let notes = [Some(&outcome.note).filter(|note| !note.is_empty()), outcome.unfit.as_ref()];
    let note: String = notes.iter().flatten().map(|note| format!("; {note}")).collect();
    let band = match outcome.band {
        // A range that rounding hides is left out.
        Some((low, high)) if high.base().0 > 1.005 * low.base().0 => {
            let basis = outcome.expected.as_ref().map(|(expected, _)| expected.basis.words());
            let basis = basis.map_or(String::new(), |basis| format!("; {basis}"));
            format!(" (8 of 10: {} to {}{basis})", of(low), of(high))
        }
        _ => String::new(),
    };
    format!("{what}: {}{band}{limit}{was}{note}", of(outcome.value))
}

/// The thresholds of a gate for each budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thresholds {
    /// `collcost/thresholds/1`.
    pub schema: &'static str,
    /// The gate.
    pub gate: &'static str,
    /// What to know about it.
    pub note: &'static str,
    /// The source.
    pub source: &'static str,
    /// One for each budget of a collective.
    pub thresholds: Vec<ThresholdView>,
}

/// The threshold of a gate for one budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThresholdView {
    /// The budget.
    pub budget: String,
    /// M.
    pub size_bytes: u64,
    /// The rate; absent if only latency matters at this size.
    #[serde(rename = "rate_Bps")]
    pub rate: Option<f64>,
    /// The line to set, in the gate's own unit.
    pub setting: Option<String>,
    /// What it is based on.
    pub basis: &'static str,
}

/// The thresholds of `gate` as shown.
#[must_use]
pub fn thresholds(
    gate: &'static crate::plan::check::Gate,
    found: &[crate::plan::check::Threshold],
) -> Thresholds {
    // All of these gates count in 10^9 bytes per second.
    let setting = |rate: f64| gate.setting.replacen("{}", &format!("{:.2}", rate / 1e9), 1);
    let view = |t: &crate::plan::check::Threshold| ThresholdView {
        budget: t.budget.clone(),
        size_bytes: t.size.0,
        rate: t.rate.map(|r| r.0),
        setting: t.rate.map(|r| setting(r.0)),
        basis: t.basis,
    };
    Thresholds {
        schema: "collcost/thresholds/1",
        gate: gate.id,
        note: gate.note,
        source: gate.source,
        thresholds: found.iter().map(view).collect(),
    }
}

/// The files that the results of budgets depend on.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inputs {
    /// `collcost/check-inputs/1`.
    pub schema: &'static str,
    /// The files in the order in which they were first read; built-in machines are none.
    pub inputs: Vec<InputView>,
}

/// A file that was read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputView {
    /// Its path, relative to the working directory, or absolute.
    pub file: String,
}

/// The files as shown.
#[must_use]
pub fn inputs(files: Vec<String>) -> Inputs {
    Inputs {
        schema: "collcost/check-inputs/1",
        inputs: files.into_iter().map(|file| InputView { file }).collect(),
    }
}
