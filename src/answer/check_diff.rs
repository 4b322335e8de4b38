//! Budgets of two versions beside each other: what moved, by how much, and what was changed for it.

use serde::Serialize;

use super::check::{FaultView, fault};
use crate::base::collective::Collective;
use crate::machine::what_if::Figure;
use crate::plan::check::{Budget, Checked, Outcome, Standing, Subject};
use crate::plan::table::MachineEntry;

/// Two versions of budgets.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckDiff {
    /// `collcost/check-diff/1`.
    pub schema: &'static str,
    /// With what it is compared: a revision, or a file.
    pub against: String,
    /// Budgets that fail now.
    pub failed: usize,
    /// Budgets of both, those that are new, then those that are gone.
    pub budgets: Vec<BudgetDiff>,
    /// What is wrong with the files of either.
    pub faults: Vec<FaultView>,
}

/// One budget before and now.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetDiff {
    /// Its name.
    pub name: String,
    /// `seconds`, `bytes_per_second`, `ratio` or `bytes`.
    pub unit: &'static str,
    /// Before; absent where it is new.
    pub old: Option<f64>,
    /// Now; absent where it is gone.
    pub new: Option<f64>,
    /// Before, with its unit.
    pub old_text: Option<String>,
    /// Now, with its unit.
    pub new_text: Option<String>,
    /// How it stands now.
    pub standing: Option<Standing>,
    /// Keys and figures that were changed: `tp 4 to 8`.
    pub changed: Vec<String>,
}

/// Compares two versions.
#[must_use]
pub fn check_diff(against: &str, old: &Checked, new: &Checked) -> CheckDiff {
    let pairs = |checked: &'_ Checked| -> Vec<(Budget, Outcome)> {
        checked.budgets.iter().cloned().zip(checked.outcomes.iter().cloned()).collect()
    };
    let (before, now) = (pairs(old), pairs(new));
    let find = |all: &[(Budget, Outcome)], name: &str| all.iter().position(|(b, _)| b.name == name);
    let mut budgets = Vec::new();
    for one in &now {
        budgets.push(pair(find(&before, &one.0.name).map(|i| &before[i]), Some(one)));
    }
    for one in before.iter().filter(|(b, _)| find(&now, &b.name).is_none()) {
        budgets.push(pair(Some(one), None));
    }
    let failed = now.iter().filter(|(_, o)| o.standing == Standing::Fails).count();
    let faults = new.faults.iter().chain(&old.faults).map(fault).collect();
    CheckDiff {
        schema: "collcost/check-diff/1",
        against: against.to_owned(),
        failed,
        budgets,
        faults,
    }
}

fn pair(old: Option<&(Budget, Outcome)>, new: Option<&(Budget, Outcome)>) -> BudgetDiff {
    let value = |one: Option<&(Budget, Outcome)>| one.map(|(_, o)| o.value.base().0);
    let text = |one: Option<&(Budget, Outcome)>| one.map(|(_, o)| o.value.to_string());
    let (name, unit) =
        new.or(old).map_or((String::new(), ""), |(b, o)| (b.name.clone(), o.value.unit()));
    let mut changed = Vec::new();
    if let (Some(old), Some(new)) = (old, new) {
        let (before, now) = (facts(&old.0), facts(&new.0));
        for (key, value) in &now {
            let was = before.iter().find(|(k, _)| k == key).map_or("nothing", |(_, v)| v);
            if was != value {
                changed.push(format!("{key} {was} to {value}"));
            }
        }
        let gone = before.iter().filter(|(key, _)| now.iter().all(|(k, _)| k != key));
        changed.extend(gone.map(|(key, value)| format!("{key} {value} to nothing")));
    }
    BudgetDiff {
        name,
        unit,
        old: value(old),
        new: value(new),
        old_text: text(old),
        new_text: text(new),
        standing: new.map(|(_, o)| o.standing),
        changed,
    }
}

/// What a budget's value follows from.
fn facts(budget: &Budget) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: String| facts.push((key.to_owned(), value));
    match &budget.subject {
        Subject::Call(call) => {
            add("collective", call.collective.id().to_owned());
            add("n", call.layout.ranks.map_or("–".to_owned(), |n| n.to_string()));
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
            add("batch", step.model.batch.to_string());
            add("sequence", step.model.sequence.to_string());
            add("params", step.model.params.to_string());
            add("shard_size", step.sync.shard_size.to_string());
            facts.extend(figures(&step.machine, Collective::AllReduce));
        }
        Subject::Job(subject) => {
            facts.extend(subject.facts());
            facts.extend(figures(subject.machine(), Collective::AllReduce));
        }
    }
    facts
}

/// Every figure of a machine.
fn figures(machine: &MachineEntry, collective: Collective) -> Vec<(String, String)> {
    let Ok(machine) = machine.machine(collective) else { return Vec::new() };
    let fabric = &machine.fabric;
    let of = |figure: &Figure| Some((figure.name(fabric), figure.get(fabric)?.to_string()));
    let all = Figure::all(fabric);
    let mut found = vec![("machine".to_owned(), machine.name.clone())];
    found.extend(all.iter().filter_map(of));
    found
}
