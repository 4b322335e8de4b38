//! Budgets of two versions side by side: what changed, by how much, which settings were changed, and
//! whether the budget itself was: its limit, severity or waiver.

use serde::Serialize;

use super::check::{FaultView, fault, shown};
use crate::base::collective::Collective;
use crate::base::order::falling;
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::what_if::Figure;
use crate::plan::check::{
    At, Budget, Checked, Level, Limit, Outcome, Standing, Subject, counts, is_waived,
};
use crate::plan::table::MachineEntry;

/// Two versions of budgets.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckDiff {
    /// `collcost/check-diff/1`.
    pub schema: &'static str,
    /// What it is compared with: a revision, or a file.
    pub against: String,
    /// Budgets that fail the check now.
    pub failed: usize,
    /// Budgets of both versions, then new ones, then removed ones.
    pub budgets: Vec<BudgetDiff>,
    /// Faults in the files as they are now.
    pub faults: Vec<FaultView>,
    /// Faults in the other version; nothing is compared then.
    pub faults_before: Vec<FaultView>,
}

/// One budget before and now.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetDiff {
    /// Its name.
    pub name: String,
    /// `seconds`, `bytes_per_second`, `ratio` or `bytes`.
    pub unit: &'static str,
    /// The value before; absent if the budget is new, or if its limit was of another unit.
    pub old: Option<f64>,
    /// The value now; absent if the budget was removed.
    pub new: Option<f64>,
    /// Before, with its unit.
    pub old_text: Option<String>,
    /// Now, with its unit.
    pub new_text: Option<String>,
    /// Its state now.
    pub standing: Option<Standing>,
    /// Its severity now.
    pub counts: Option<Level>,
    /// Whether it fails now and that is accepted for a while.
    pub waived: bool,
    /// Keys and parameters that were changed: `tp 4 to 8`.
    pub changed: Vec<String>,
    /// What was changed of the budget itself, its limit, severity and waiver: `max_time 9 ms to 90 ms`.
    pub gate: Vec<String>,
    /// Parts of the step that changed, the largest first: `tp +0.48 s`.
    pub parts: Vec<String>,
}

impl BudgetDiff {
    /// The present state in reports.
    #[must_use]
    pub fn words(&self) -> &'static str {
        if self.waived { "waived" } else { self.standing.map_or("–", Standing::words) }
    }

    /// The change as a fraction of the value before; absent if it is new, was removed, or was 0.
    #[must_use]
    pub fn change(&self) -> Option<Ratio> {
        let (old, new) = (self.old?, self.new?);
        (old != 0.0).then(|| Ratio(new / old - 1.0))
    }

    /// Whether it is new or removed, its value changed, its inputs did, or the budget itself did.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.is_other_value() || !self.changed.is_empty() || !self.gate.is_empty()
    }

    /// Whether it is new or removed, or its value changed.
    #[must_use]
    pub fn is_other_value(&self) -> bool {
        /// Smaller changes do not count.
        const NOTHING: f64 = 5e-4;
        match self.change() {
            Some(change) => change.0.abs() > NOTHING,
            None => self.old != self.new,
        }
    }

    /// The reason: what was changed of the budget and of its inputs, and which parts changed with it.
    #[must_use]
    pub fn why(&self) -> String {
        let changed: Vec<&str> =
            self.gate.iter().chain(&self.changed).map(String::as_str).collect();
        let words: Vec<String> = [changed.join("; "), self.parts.join(", ")]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect();
        words.join(": ")
    }

    /// `before 6.21 s, +10.1 %: tp 4 to 8`; absent if nothing changed, or if it is new.
    #[must_use]
    pub fn moved(&self) -> Option<String> {
        let before =
            self.old_text.as_ref().filter(|_| self.is_moved() && self.new_text.is_some())?;
        let change = self.change().map_or(String::new(), |c| format!(", {:+.1} %", 100.0 * c.0));
        let why = self.why();
        let why = if why.is_empty() { why } else { format!(": {why}") };
        Some(format!("before {before}{change}{why}"))
    }
}

/// Compares two versions; with `strict`, a limit inside the band counts as failing.
#[must_use]
pub fn check_diff(against: &str, old: &Checked, new: &Checked, strict: bool) -> CheckDiff {
    let pairs = |checked: &'_ Checked| -> Vec<(Budget, Outcome)> {
        checked.budgets.iter().cloned().zip(checked.outcomes.iter().cloned()).collect()
    };
    let (before, now) = (pairs(old), pairs(new));
    let find = |all: &[(Budget, Outcome)], name: &str| all.iter().position(|(b, _)| b.name == name);
    let mut budgets = Vec::new();
    for one in &now {
        budgets.push(pair(find(&before, &one.0.name).map(|i| &before[i]), Some(one)));
    }
    // Nothing is judged of files with faults, so what they lack is not known.
    let gone = |(b, _): &&(Budget, Outcome)| new.faults.is_empty() && find(&now, &b.name).is_none();
    for one in before.iter().filter(gone) {
        budgets.push(pair(Some(one), None));
    }
    for (one, (budget, outcome)) in budgets.iter_mut().zip(&now) {
        one.counts = Some(counts(budget, outcome, strict, new.today));
        one.waived = is_waived(budget, outcome, new.today);
    }
    let failed = budgets.iter().filter(|b| b.counts == Some(Level::Error)).count();
    let faults = |checked: &Checked| checked.faults.iter().map(fault).collect();
    CheckDiff {
        schema: "collcost/check-diff/1",
        against: against.to_owned(),
        failed,
        budgets,
        faults: faults(new),
        faults_before: faults(old),
    }
}

fn pair(old: Option<&(Budget, Outcome)>, new: Option<&(Budget, Outcome)>) -> BudgetDiff {
    let (name, unit) =
        new.or(old).map_or((String::new(), ""), |(b, o)| (b.name.clone(), o.value.unit()));
    // Seconds are no change of bytes per second.
    let value = |one: Option<&(Budget, Outcome)>| {
        one.filter(|(_, o)| o.value.unit() == unit).map(|(_, o)| o.value.base().0)
    };
    let text = |one: Option<&(Budget, Outcome)>| one.map(|(_, o)| o.value.to_string());
    let (mut changed, mut gate, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    if let (Some(old), Some(new)) = (old, new) {
        changed = differences(&facts(&old.0), &facts(&new.0));
        gate = differences(&rules(old), &rules(new));
        gate.extend(fine_change(old, new).filter(|_| gate.is_empty()));
        parts = moved_parts(&old.1, &new.1);
    }
    BudgetDiff {
        name,
        unit,
        old: value(old),
        new: value(new),
        old_text: text(old),
        new_text: text(new),
        standing: new.map(|(_, o)| o.standing),
        counts: None,
        waived: false,
        changed,
        gate,
        parts,
    }
}

/// A limit that was changed by less than reports print: `max_bound_ratio 2.501 to 2.504 (ratio)`.
fn fine_change(old: &(Budget, Outcome), new: &(Budget, Outcome)) -> Option<String> {
    let limit = new.0.limit.as_ref().filter(|limit| !matches!(limit, Limit::Measured(_)))?;
    let (was, now) = (old.1.limit?, new.1.limit?);
    let key = limit.key();
    (was != now).then(|| format!("{key} {} to {} ({})", was.base().0, now.base().0, now.unit()))
}

/// Keys with the values before and now: `tp 4 to 8`.
fn differences(before: &[(String, String)], now: &[(String, String)]) -> Vec<String> {
    let mut changed = Vec::new();
    for (key, value) in now {
        let was = before.iter().find(|(k, _)| k == key).map_or("nothing", |(_, v)| v);
        if was != value {
            changed.push(format!("{key} {was} to {value}"));
        }
    }
    let gone = before.iter().filter(|(key, _)| now.iter().all(|(k, _)| k != key));
    changed.extend(gone.map(|(key, value)| format!("{key} {value} to nothing")));
    changed
}

/// The parts of a step that changed by more than a hundredth of it.
fn moved_parts(old: &Outcome, new: &Outcome) -> Vec<String> {
    const LEAST: f64 = 0.01;
    let Some(step) = old.time.filter(|step| step.0 > 0.0) else { return Vec::new() };
    let all = new.parts.iter().chain(
        old.parts.iter().filter(|(what, _)| new.parts.iter().all(|(known, _)| known != what)),
    );
    let of = |outcome: &Outcome, what: &str| {
        outcome.parts.iter().find(|(known, _)| *known == what).map_or(0.0, |(_, time)| time.0)
    };
    let mut moved: Vec<(&str, f64)> =
        all.map(|(what, _)| (*what, of(new, what) - of(old, what))).collect();
    moved.retain(|(_, by)| by.abs() > LEAST * step.0);
    falling(&mut moved, |a| a.1.abs());
    let sign = |by: f64| if by < 0.0 { "-" } else { "+" };
    moved.iter().map(|(what, by)| format!("{what} {}{}", sign(*by), Seconds(by.abs()))).collect()
}

/// What decides whether the value of a budget fails the check: its limit, its severity, its waiver.
fn rules((budget, outcome): &(Budget, Outcome)) -> Vec<(String, String)> {
    let mut rules: Vec<(&str, String)> = Vec::new();
    if let Some(limit) = &budget.limit {
        let value = match limit {
            // The limit of logs is the machine's.
            Limit::Measured(patterns) => Some(patterns.join(", ")),
            _ => outcome.limit.map(|number| shown(Some(limit), number)),
        };
        rules.extend(value.map(|value| (limit.key(), value)));
    }
    rules.push(("at", budget.at.map_or("whole band", At::id).to_owned()));
    rules.push(("level", budget.policy.level.id().to_owned()));
    rules.push(("at_risk", budget.policy.at_risk.id().to_owned()));
    if let Some(waiver) = &budget.waiver {
        let most = waiver.up_to.map_or(String::new(), |m| format!(", up to {:.0} %", 100.0 * m.0));
        rules.push(("waiver", format!("until {}{most} ({})", waiver.until, waiver.reason)));
    }
    rules.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The inputs of a budget's value.
fn facts(budget: &Budget) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: String| facts.push((key.to_owned(), value));
    match &budget.subject {
        Subject::Call(call) => {
            add("collective", call.collective.id().to_owned());
            add("n", call.layout.ranks.map_or("–".to_owned(), |n| n.to_string()));
            add("nodes", call.layout.nodes.map_or("–".to_owned(), |n| n.to_string()));
            add("gpus_per_node", call.layout.per_node.map_or("–".to_owned(), |n| n.to_string()));
            add("size", call.size.map_or("–".to_owned(), |s| s.to_string()));
            add("algorithm", call.algorithm.clone().unwrap_or_else(|| "–".to_owned()));
            facts.extend(figures(&call.machine, call.collective));
        }
        Subject::Step(step) => {
            let p = &step.parallel;
            for (axis, n) in [("tp", p.tp), ("cp", p.cp), ("dp", p.dp), ("pp", p.pp), ("ep", p.ep)]
            {
                add(axis, n.to_string());
            }
            add("microbatches", p.microbatches.to_string());
            add("sp", p.sequence.to_string());
            let model = &step.model;
            add("batch", model.batch.to_string());
            add("sequence", model.sequence.to_string());
            add("params", model.params.to_string());
            add("layers", model.layers.to_string());
            add("hidden", model.hidden.to_string());
            add("dtype", model.dtype.id().to_owned());
            let sync = &step.sync;
            add("shard", sync.shard.id().to_owned());
            add("shard_size", sync.shard_size.to_string());
            add("reshard", sync.reshard.to_string());
            add("grad_dtype", sync.dtype.id().to_owned());
            add("every", sync.every.to_string());
            if let Some(compute) = &step.compute {
                add("forward", compute.forward.to_string());
                add("backward", compute.backward.to_string());
            }
            facts.extend(figures(&step.machine, Collective::AllReduce));
        }
        Subject::Job(subject) => {
            facts.extend(subject.facts());
            facts.extend(figures(subject.machine(), Collective::AllReduce));
        }
        Subject::Served(subject) => {
            facts.extend(subject.facts());
            facts.extend(figures(subject.machine(), Collective::AllReduce));
        }
    }
    facts
}

/// Every parameter of a machine.
fn figures(entry: &MachineEntry, collective: Collective) -> Vec<(String, String)> {
    let Ok(machine) = entry.machine(collective) else { return Vec::new() };
    let fabric = &machine.fabric;
    let of = |figure: &Figure| Some((figure.name(fabric), figure.get(fabric)?.to_string()));
    let all = Figure::all(fabric);
    let mut found = vec![("machine".to_owned(), machine.name.clone())];
    // What was said of it and is no rate or time of a link.
    let given = &entry.said.given;
    let said = [
        ("protocol", given.protocol.map(|protocol| protocol.to_string())),
        ("library", given.library.map(|library| library.to_string())),
        ("nics", given.nics.map(|nics| nics.to_string())),
        ("ports", given.ports.map(|ports| ports.to_string())),
    ];
    found.extend(said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    found.extend(all.iter().filter_map(of));
    found
}
