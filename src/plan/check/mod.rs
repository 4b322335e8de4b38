//! Budgets: what collectives and steps may take, in a file beside the code, held against the model or
//! against measurements.
//!
//! ```
//! use collcost::plan::check::{Files, Options, Standing, check};
//! # struct One;
//! # impl Files for One {
//! #     fn profile(&self, name: &str) -> collcost::Result<collcost::machine::profile::Profile> {
//! #         collcost::machine::profile::Profile::builtin(name)
//! #     }
//! #     fn text(&self, _: &str) -> collcost::Result<String> {
//! #         Ok("[[budget]]\nname = \"gradients\"\ncollective = \"allreduce\"\nn = 64\n\
//! #             size = \"1GiB\"\nprofile = \"dgx-h100\"\nmax_time = \"12ms\"\n".to_owned())
//! #     }
//! #     fn matching(&self, _: &str) -> collcost::Result<Vec<String>> { Ok(Vec::new()) }
//! # }
//! # let files = One;
//! // `check::Disk` reads files; this one holds a single budget.
//! let checked = check(&files, "collcost.toml", &Options::default());
//! assert!(checked.faults.is_empty() && checked.outcomes.iter().all(|o| o.standing == Standing::Holds));
//! ```
//!
//! A file is read whole: everything that is wrong in it is a [`Fault`] with file, line and column,
//! a budget that can never fail among them.

mod gate;
mod lists;
mod measured;
mod outcome;
mod policy;
mod read;
mod relation;
mod standing;
mod update;

use std::cell::Cell;
use std::ops::Range;

use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::base::text_pos::Place;
use crate::machine::profile::Date;
use crate::machine::query::Layout;
use crate::model::algorithm::Registry;
use crate::plan::Step;
use crate::plan::job::Job;
use crate::plan::table::{Faults, MachineEntry, Machines, documents, layer, settings, texts};

pub use crate::plan::table::{BuiltIn, Disk, Fault, Files};
pub use gate::{GATES, Gate, Threshold, thresholds};
pub use outcome::Outcome;
pub use policy::{AtRisk, Level, Policy, Waiver, WaiverState, counts, is_waived};
pub use read::KEYS;
pub use standing::{At, Number, Standing};
pub use update::{Edited, update};

/// What may not be passed.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// The most time.
    MaxTime(Seconds),
    /// The least busbw.
    MinBusbw(Bandwidth),
    /// The most time over the lower bound.
    MaxBoundRatio(Ratio),
    /// The most that a choice may lose against the best that is shipped: 0.05 is 5 %.
    MaxRegret(Ratio),
    /// Logs whose times must lie within the band of what is expected.
    Measured(Vec<String>),
    /// The most memory of a job's fullest rank.
    MaxMemory(Bytes),
    /// The most that nothing hides of a step's collectives.
    MaxExposed(Exposed),
    /// The most time above that of another budget.
    Within(Within),
}

/// What may be exposed of a step's collectives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Exposed {
    /// A time.
    Time(Seconds),
    /// A part of the step: 0.1 is 10 %.
    Part(Ratio),
}

/// `2% of train64`.
#[derive(Debug, Clone, PartialEq)]
pub struct Within {
    /// How far above: 0.02 is 2 %.
    pub most: Ratio,
    /// The other budget.
    pub of: String,
}

impl Limit {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::MaxTime(_) => "max_time",
            Self::MinBusbw(_) => "min_busbw",
            Self::MaxBoundRatio(_) => "max_bound_ratio",
            Self::MaxRegret(_) => "max_regret",
            Self::Measured(_) => "measured",
            Self::MaxMemory(_) => "max_memory",
            Self::MaxExposed(_) => "max_exposed",
            Self::Within(_) => "within",
        }
    }
}

/// What a budget is about.
#[derive(Clone)]
pub enum Subject {
    /// One collective.
    Call(Box<CallSubject>),
    /// A step of a plan.
    Step(Box<Step>),
    /// A job of a configuration.
    Job(Box<JobSubject>),
}

/// A job of a configuration.
#[derive(Clone)]
pub struct JobSubject {
    /// The files.
    pub from: String,
    pub(crate) job: Job,
}

/// One collective on a machine.
#[derive(Clone)]
pub struct CallSubject {
    /// The operation.
    pub collective: Collective,
    /// The ranks.
    pub layout: Layout,
    /// M; absent for a budget over all sizes of a log.
    pub size: Option<Bytes>,
    /// Only this algorithm.
    pub algorithm: Option<String>,
    /// The machine.
    pub machine: MachineEntry,
}

/// One budget as it was written.
#[derive(Clone)]
pub struct Budget {
    /// Its name; of a list's budgets with what tells them apart: `gradients (n 64, 1GiB)`.
    pub name: String,
    /// The name as it was written.
    pub heading: String,
    /// The file.
    pub file: String,
    /// Where its limit stands, else its heading.
    pub place: Place,
    /// What it is about.
    pub subject: Subject,
    /// What may not be passed; absent where an update is to write it.
    pub limit: Option<Limit>,
    /// Where in the band it is judged; absent: by all of it.
    pub at: Option<At>,
    /// What the model said when the limit was written.
    pub expected: Option<String>,
    /// How much it counts when it does not hold.
    pub policy: Policy,
    /// What accepts for a while that it fails.
    pub waiver: Option<Waiver>,
    /// Which bytes of the file an update replaces.
    pub(crate) spans: Spans,
}

impl JobSubject {
    /// Its keys with their values.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        self.job.facts()
    }

    /// Tokens of a step.
    pub(crate) fn tokens(&self) -> f64 {
        f64::from(self.job.global.unwrap_or(1)) * f64::from(self.job.sequence)
    }

    /// Its links.
    #[must_use]
    pub fn machine(&self) -> &MachineEntry {
        &self.job.machine
    }
}

/// Bytes of a file: values with their quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// The limit's value.
    pub limit: Option<Range<usize>>,
    /// What was expected.
    pub expected: Option<Range<usize>>,
    /// Where the last value ends.
    pub end: usize,
}

/// How to check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Limits are to be written: a budget without one is no fault, nor is one that never fails.
    pub updating: bool,
    /// Where in its band every budget is judged, whatever it says itself.
    pub at: Option<At>,
    /// The day, by which waivers end; without it none has ended.
    pub today: Option<Date>,
}

/// Everything that was found.
#[derive(Clone, Default)]
pub struct Checked {
    /// The budgets, in the order of their files.
    pub budgets: Vec<Budget>,
    /// One for each budget, where nothing is wrong with the files.
    pub outcomes: Vec<Outcome>,
    /// What is wrong with the files.
    pub faults: Vec<Fault>,
    /// The day of the check.
    pub today: Option<Date>,
}

/// Reads the budgets of `file` and of what it includes, and holds each against the model. Where the
/// files have faults, all of them are there and nothing is judged.
#[must_use]
pub fn check(files: &dyn Files, file: &str, options: &Options) -> Checked {
    let faults = Faults::default();
    let machines = Machines::new(files);
    let budgets = budgets(&machines, file, *options, &faults);
    let registry = Registry::builtin();
    // A file with faults may have others behind them: its good budgets are priced all the same.
    let priced: Vec<Option<Outcome>> =
        budgets.iter().map(|b| outcome::outcome(&registry, files, b, *options, &faults)).collect();
    let outcomes: Vec<Outcome> = relation::related(&budgets, priced, *options, &faults);
    let mut faults = faults.into_inner();
    faults.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    let outcomes = if faults.is_empty() { outcomes } else { Vec::new() };
    Checked { budgets, outcomes, faults, today: options.today }
}

fn budgets(machines: &Machines<'_>, file: &str, options: Options, faults: &Faults) -> Vec<Budget> {
    let texts = match texts(machines.files, file, faults) {
        Ok(texts) => texts,
        Err(error) => {
            let place = Place { line: 1, column: 1, text: String::new() };
            let help = error.mending().map(str::to_owned);
            faults.borrow_mut().push(Fault::new(file, place, error.what().to_owned(), help));
            return Vec::new();
        }
    };
    let documents = documents(&texts, faults);
    let files: Vec<_> = documents.iter().map(|(file, document)| layer(file, document)).collect();
    let settings = files.first().map_or(Vec::new(), |first| settings(*first));
    // The text is part of the program, and a test reads it.
    let Ok(presets) = crate::base::text_pos::Document::parse(crate::plan::PRESETS) else {
        return Vec::new();
    };
    let from = read::From {
        policies: files.iter().map(|file| policy::policy(file, faults)).collect(),
        machines,
        settings: &settings,
        steps: files.iter().flat_map(|f| crate::plan::steps(*f, faults)).collect(),
        presets: layer("presets", &presets),
        options,
        faults,
        ranks: Cell::new(0),
    };
    read::budgets(&files, &from)
}

#[cfg(test)]
mod tests;
