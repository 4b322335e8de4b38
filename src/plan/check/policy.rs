//! The severity of an exceeded budget, limits inside the band, and waivers with an end.
//!
//! ```toml
//! [policy]                  # for all budgets of the file; a budget's own keys come first
//! level = "error"           # or "warning", "note"
//! at_risk = "warns"         # or "fails", "holds"
//!
//! [[waive]]
//! budget = "gradients"
//! until = 2026-12-31
//! reason = "the new cables come in January"
//! up_to = "12%"             # above the limit; without it any excess is waived
//! ```

use std::str::FromStr;

use toml::de::DeValue;

use super::{Budget, Outcome, Standing};
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Percent, Ratio};
use crate::base::words::{one_of, words};
use crate::machine::profile::Date;
use crate::plan::table::{Fault, Faults, Fields, Layer};

/// The keys of `[policy]`.
const POLICY: [&str; 3] = ["level", "at_risk", "at"];
/// The keys of `[[waive]]`.
const WAIVE: [&str; 5] = ["budget", "until", "reason", "by", "up_to"];

words! {
    /// The severity of a result.
    #[derive(PartialOrd, Ord)]
    pub enum Level {
        /// Nothing to report.
        None = "none",
        /// For information only: a waived budget, or one with this level.
        Note = "note",
        /// Should be looked at; the check passes.
        Warning = "warning",
        /// The check fails.
        Error = "error",
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words = [("error", Self::Error), ("warning|warn", Self::Warning), ("note", Self::Note)];
        one_of(text, "a level", words)
    }
}

words! {
    /// How a limit inside the band counts.
    #[derive(Default)]
    pub enum AtRisk {
        /// As if it held.
        Holds = "holds",
        /// A warning.
        #[default]
        Warns = "warns",
        /// As if it failed.
        Fails = "fails",
    }
}

impl FromStr for AtRisk {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words = Self::ALL.map(|counts| (counts.id(), counts));
        one_of(text, "a way to treat a limit inside the band", words)
    }
}

/// The severity of a budget that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// When it fails.
    pub level: Level,
    /// When it is at risk.
    pub at_risk: AtRisk,
}

/// An exceeded limit that was accepted for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiver {
    /// The last day.
    pub until: Date,
    /// Why.
    pub reason: String,
    /// Who.
    pub by: Option<String>,
    /// How far above the limit: 0.12 is 12 %; absent: any excess.
    pub up_to: Option<Ratio>,
}

/// The effect of a waiver on its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WaiverState {
    /// The budget fails, which is accepted.
    Waives,
    /// Its last day has passed.
    Expired,
    /// The budget fails by more than was accepted.
    Exceeded,
    /// The budget holds: the waiver can be removed.
    Unneeded,
}

impl Waiver {
    /// Its effect on the day `today`; without a day no waiver has ended.
    #[must_use]
    pub fn state(&self, outcome: &Outcome, today: Option<Date>) -> WaiverState {
        if outcome.standing == Standing::Holds {
            return WaiverState::Unneeded;
        }
        if today.is_some_and(|today| today > self.until) {
            return WaiverState::Expired;
        }
        match self.up_to {
            Some(most) if outcome.used.0 > 1.0 + most.0 => WaiverState::Exceeded,
            _ => WaiverState::Waives,
        }
    }

    /// The waiver in a sentence.
    #[must_use]
    pub fn words(&self, state: WaiverState) -> String {
        let Self { until, reason, by, up_to } = self;
        let by = by.as_ref().map_or(String::new(), |by| format!(", by {by}"));
        match state {
            WaiverState::Waives => format!("waived until {until}{by}: {reason}"),
            WaiverState::Expired => format!("its waiver ended on {until}{by}: {reason}"),
            WaiverState::Exceeded => {
                let most = up_to.map_or(String::new(), |m| format!("{:.0} %", 100.0 * m.0));
                format!("its waiver{by} is for up to {most} above the limit: {reason}")
            }
            WaiverState::Unneeded => {
                format!("its waiver until {until}{by} is no longer needed")
            }
        }
    }
}

/// The severity of an outcome; with `strict` a limit inside the band counts as exceeded.
#[must_use]
pub fn counts(budget: &Budget, outcome: &Outcome, strict: bool, today: Option<Date>) -> Level {
    let Policy { level, at_risk } = budget.policy;
    let plain = match (outcome.standing, at_risk) {
        (Standing::Holds, _) => return Level::None,
        (Standing::Fails, _) | (Standing::AtRisk, AtRisk::Fails) => level,
        (Standing::AtRisk, _) if strict => level,
        (Standing::AtRisk, AtRisk::Holds) => return Level::None,
        (Standing::AtRisk, AtRisk::Warns) => level.min(Level::Warning),
    };
    match budget.waiver.as_ref().map(|waiver| waiver.state(outcome, today)) {
        Some(WaiverState::Waives) => plain.min(Level::Note),
        // After an accepted failure's time is over, it is more than a warning.
        Some(WaiverState::Expired) if outcome.standing == Standing::Fails => Level::Error,
        _ => plain,
    }
}

/// Whether it fails, which is accepted.
#[must_use]
pub fn is_waived(budget: &Budget, outcome: &Outcome, today: Option<Date>) -> bool {
    let state = budget.waiver.as_ref().map(|waiver| waiver.state(outcome, today));
    outcome.standing == Standing::Fails && state == Some(WaiverState::Waives)
}

/// The layer of a file's `[policy]`; its faults are reported.
pub(super) fn policy<'a>(file: &Layer<'a>, faults: &Faults) -> Option<Layer<'a>> {
    let value = file.table.get("policy")?;
    let DeValue::Table(table) = value.get_ref() else {
        let place = file.document.place(&value.span());
        let what = "`policy` is a table".to_owned();
        let help = Some("write [policy] on its own line".to_owned());
        faults.borrow_mut().push(Fault::new(file.file, place, what, help));
        return None;
    };
    let own = Layer { table, start: value.span().start, ..*file };
    Fields::new(vec![own], "[policy]", faults).only(&POLICY);
    Some(own)
}

/// Attaches every waiver of the files to its budgets: those of one name, or of one list.
pub(super) fn waive(
    files: &[Layer<'_>],
    budgets: &mut [Budget],
    names: &[String],
    faults: &Faults,
) {
    for file in files {
        let Some(value) = file.table.get("waive") else { continue };
        let list = value.get_ref().as_array();
        for item in list.into_iter().flat_map(|list| list.iter()) {
            let DeValue::Table(table) = item.get_ref() else { continue };
            let own = Layer { table, start: item.span().start, ..*file };
            let fields = Fields::new(vec![own], "[[waive]]", faults);
            fields.only(&WAIVE);
            let waiver = waiver(&fields);
            let Some(name) = fields.text("budget") else {
                fields.fault("budget", "the waiver names no `budget`", "write budget = \"NAME\"");
                continue;
            };
            if !names.contains(&name) && !budgets.iter().any(|b| b.name == name) {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                fields.fault(
                    "budget",
                    format!("there is no budget `{name}`"),
                    advice(&name, &known),
                );
                continue;
            }
            let Some(waiver) = waiver else { continue };
            for budget in budgets.iter_mut().filter(|b| b.heading == name || b.name == name) {
                if budget.waiver.replace(waiver.clone()).is_some() {
                    fields.fault("budget", format!("`{name}` is waived twice"), "keep one of them");
                    break;
                }
            }
        }
        if list.is_none() {
            let place = file.document.place(&value.span());
            let what = "`waive` is a list of tables".to_owned();
            let help = Some("write [[waive]] on its own line".to_owned());
            faults.borrow_mut().push(Fault::new(file.file, place, what, help));
        }
    }
}

fn waiver(fields: &Fields<'_>) -> Option<Waiver> {
    let reason = fields.text("reason").filter(|reason| !reason.trim().is_empty());
    if reason.is_none() {
        fields.fault("reason", "the waiver gives no `reason`", "write reason = \"…\"");
    }
    let until = match fields.find("until").map(|(_, value)| value.get_ref()) {
        None => {
            fields.fault("until", "the waiver has no last day", "write until = 2026-12-31");
            None
        }
        Some(DeValue::Datetime(day)) => match day.to_string().parse() {
            Ok(day) => Some(day),
            Err(error) => {
                fields.error("until", &error);
                None
            }
        },
        Some(_) => fields.read::<Date>("until"),
    };
    let up_to = fields.read::<Percent>("up_to").map(|p| Ratio(p.0));
    Some(Waiver { until: until?, reason: reason?, by: fields.text("by"), up_to })
}
