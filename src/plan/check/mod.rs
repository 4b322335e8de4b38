//! Budgets: limits for collectives and steps, in a file next to the code, compared with the model
//! or with measurements.
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
//! A file is read to its end: everything that is wrong in it is a [`Fault`] with file, line and
//! column, including a budget that can never fail.

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
use crate::plan::job::{Job, Serve};
use crate::plan::table::{
    Faults, MachineEntry, Machines, documents, in_order, layer, settings, texts,
};

pub use crate::plan::table::{BuiltIn, Disk, Fault, Files};
pub use gate::{GATES, Gate, Threshold, thresholds};
pub use outcome::Outcome;
pub use policy::{AtRisk, Level, Policy, Waiver, WaiverState, counts, is_waived};
pub use read::KEYS;
pub use standing::{At, Number, Standing};
pub use update::{Edited, update};

/// A limit.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// The most time.
    MaxTime(Seconds),
    /// The least busbw.
    MinBusbw(Bandwidth),
    /// The most time over the lower bound.
    MaxBoundRatio(Ratio),
    /// The most that a choice may lose against the best shipped algorithm: 0.05 is 5 %.
    MaxRegret(Ratio),
    /// Logs whose times must be within the expected band.
    Measured(Vec<String>),
    /// The most time of a server's prefill.
    MaxPrefill(Seconds),
    /// The most memory of the fullest rank of a job or server.
    MaxMemory(Bytes),
    /// The most exposed time of a step's collectives.
    MaxExposed(Exposed),
    /// The most time above that of another budget.
    Within(Within),
}

/// The exposed part of a step's collectives that is allowed.
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
            Self::MaxPrefill(_) => "max_prefill",
            Self::MaxMemory(_) => "max_memory",
            Self::MaxExposed(_) => "max_exposed",
            Self::Within(_) => "within",
        }
    }
}

/// The subject of a budget.
#[derive(Clone)]
pub enum Subject {
    /// One collective.
    Call(Box<CallSubject>),
    /// A step of a plan.
    Step(Box<Step>),
    /// A job of a configuration.
    Job(Box<JobSubject>),
    /// A model that a server of such arguments serves.
    Served(Box<ServedSubject>),
}

/// A job of a configuration.
#[derive(Clone)]
pub struct JobSubject {
    /// The files.
    pub from: String,
    pub(crate) job: Job,
}

/// A served model.
#[derive(Clone)]
pub struct ServedSubject {
    /// The files.
    pub from: String,
    pub(crate) serve: Serve,
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

/// One budget as written.
#[derive(Clone)]
pub struct Budget {
    /// Its name; budgets of a list also have what distinguishes them: `gradients (n 64, 1GiB)`.
    pub name: String,
    /// The name as written.
    pub heading: String,
    /// The file.
    pub file: String,
    /// The position of its limit, otherwise of its heading.
    pub place: Place,
    /// Its subject.
    pub subject: Subject,
    /// The limit; absent if an update is to write it.
    pub limit: Option<Limit>,
    /// The point of the band at which it is judged; absent: the whole band.
    pub at: Option<At>,
    /// The model's value when the limit was written.
    pub expected: Option<String>,
    /// The severity if it does not hold.
    pub policy: Policy,
    /// The waiver that accepts its failure for a while.
    pub waiver: Option<Waiver>,
    /// Which bytes of the file an update replaces.
    pub(crate) spans: Spans,
}

impl Budget {
    /// An error at its place.
    pub(crate) fn fault(&self, error: &crate::base::error::Error) -> Fault {
        Fault::of(&self.file, self.place.clone(), error)
    }
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

impl ServedSubject {
    /// Its keys with their values.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        self.serve.facts()
    }

    /// Its links.
    #[must_use]
    pub fn machine(&self) -> &MachineEntry {
        &self.serve.machine
    }
}

/// Bytes of a file: values with their quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// The limit's value.
    pub limit: Option<Range<usize>>,
    /// The expected value.
    pub expected: Option<Range<usize>>,
    /// Where the last value ends.
    pub end: usize,
}

/// How to check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether limits will be written: then a budget without a limit, or one that never fails, is
    /// not a fault.
    pub updating: bool,
    /// The point of the band at which every budget is judged; overrides the budgets' own.
    pub at: Option<At>,
    /// The day that waivers are compared with; without it no waiver has ended.
    pub today: Option<Date>,
}

/// Everything that was found.
#[derive(Clone, Default)]
pub struct Checked {
    /// The budgets, in the order of their files.
    pub budgets: Vec<Budget>,
    /// One for each budget, if the files have no faults.
    pub outcomes: Vec<Outcome>,
    /// The faults of the files.
    pub faults: Vec<Fault>,
    /// The day of the check.
    pub today: Option<Date>,
}

/// Reads the budgets of `file` and its includes, and compares each with the model. If the files
/// have faults, all of them are reported and nothing is judged.
#[must_use]
pub fn check(files: &dyn Files, file: &str, options: &Options) -> Checked {
    let faults = Faults::default();
    let machines = Machines::new(files);
    let budgets = budgets(&machines, file, *options, &faults);
    let registry = Registry::builtin();
    // Pricing may find further faults, so valid budgets are priced even if the file has faults.
    let priced: Vec<Option<Outcome>> =
        budgets.iter().map(|b| outcome::outcome(&registry, files, b, *options, &faults)).collect();
    if !options.updating {
        relation::near(&budgets, &priced, &faults);
    }
    let outcomes: Vec<Outcome> = relation::related(&budgets, priced, *options, &faults);
    let faults = in_order(faults);
    let outcomes = if faults.is_empty() { outcomes } else { Vec::new() };
    Checked { budgets, outcomes, faults, today: options.today }
}

fn budgets(machines: &Machines<'_>, file: &str, options: Options, faults: &Faults) -> Vec<Budget> {
    let texts = match texts(machines.files, file, faults) {
        Ok(texts) => texts,
        Err(error) => {
            let place = Place { line: 1, column: 1, text: String::new() };
            faults.borrow_mut().push(Fault::of(file, place, &error));
            return Vec::new();
        }
    };
    let documents = documents(&texts, faults);
    let files: Vec<_> = documents.iter().map(|(file, document)| layer(file, document)).collect();
    let settings = settings(&files, faults);
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
