//! Questions as JSON Lines, answered one by one, in order, in constant memory.
//!
//! A question is an object with a `kind`; its fields and those of its answer are listed in
//! `docs/reference/batch.md`. An answer repeats the `id`. A question that cannot be answered yields
//! `{"id": …, "error": …}` on its line, and the next line is read.
//!
//! ```
//! let mut batch = collcost::answer::batch::Batch::default();
//! let question = r#"{"id": 1, "kind": "cost", "primitive": "allreduce", "algorithm": "ring",
//!     "n": 4, "size_bytes": 1000000, "alpha_s": "1e-6", "bandwidth_Bps": 1e11}"#;
//! let mut answer = Vec::new();
//! batch.answer(question, &mut answer);
//! assert!(answer.starts_with(br#"{"id":1,"time_s":"#));
//! ```

mod answer;
mod calibrate;
mod choose;
mod expect;
mod hierarchy;
pub mod nccl;
mod plan;
mod question;
mod report;
mod rows;
mod simulate;
mod trace;

use std::collections::HashMap;
use std::rc::Rc;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::machine::parameters::in_keys;
use crate::machine::profile::Profile;
use crate::model::algorithm::{Named, Registry};
use question::Question;

pub use question::KINDS;

/// Finds a machine by its name.
pub type FindProfile = fn(&str) -> Result<Profile>;

/// Answers questions and keeps what it has looked up.
pub struct Batch {
    registry: Registry,
    names: HashMap<Collective, HashMap<Box<str>, Named>>,
    find_profile: FindProfile,
    profiles: HashMap<Box<str>, Rc<Profile>>,
}

fn refusal(out: &mut Vec<u8>, id: &str, error: &Error) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.as_bytes());
    answer::text(out, "error", &in_keys(&error.to_string()));
    out.extend_from_slice(b"}\n");
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(Registry::builtin(), Profile::builtin)
    }
}

impl Batch {
    /// Answers with these algorithms, and with machines that `find_profile` finds.
    #[must_use]
    pub fn new(registry: Registry, find_profile: FindProfile) -> Self {
        Self { registry, names: HashMap::new(), find_profile, profiles: HashMap::new() }
    }

    /// Appends the answer to one question, a line with its line end, to `out`; whether it is one, or
    /// an error.
    pub fn answer(&mut self, line: &str, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let parsed = question::parse(line);
        let id = parsed.as_ref().map_or_else(|_| question::id(line), |q| q.id);
        let id = id.map_or("null", |id| id.get());
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(id.as_bytes());
        let answered = parsed.and_then(|q| self.dispatch(q, line, out));
        let is_answered = answered.is_ok();
        if let Err(error) = answered {
            // `out` may hold half an answer here: the error replaces it.
            out.truncate(start);
            refusal(out, id, &error);
            return false;
        }
        out.extend_from_slice(b"}\n");
        is_answered
    }

    /// The answer to a line that is not read.
    pub fn refuse(error: &Error, out: &mut Vec<u8>) {
        refusal(out, "null", error);
    }

    fn dispatch(&mut self, q: Question<'_>, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let kind = q.kind()?;
        match kind {
            "expect" => return self.expect(line, out),
            "choose" if q.library.is_some() => return self.choose_of_library(line, out),
            "choose" => return self.choose(line, out),
            "select" if q.engine.is_some() => return self.choose(line, out),
            "explain" => return self.explain(line, out),
            "list" => return self.list(line, out),
            "compare" => return self.compare(line, out),
            "plan" => return self.plan(line, out),
            _ => {}
        }
        question::refuse_unknown_fields(line)?;
        match kind {
            "cost" => self.cost(&q, None, out),
            "paper" => self.cost(&q, Some(crate::model::formula::Form::Paper), out),
            "pipeline" => answer::pipeline(&q, out),
            "pipeline_table" => answer::pipeline_table(&q, out),
            "crossover" => self.crossover(&q, out),
            "crossover_approx" => answer::crossover_approx(&q, out),
            "select" => self.select(&q, out),
            "hierarchical" => hierarchy::answer(&q, out),
            "busbw" => answer::busbw(&q, out),
            "bytes" => self.bytes(&q, out),
            "threshold" => answer::threshold(&q, out),
            "eta" => answer::eta(&q, out),
            "simulate" => self.simulate(q, out),
            "trace" => self.trace(q, out),
            "calibrate" => self.calibrate(&q, out),
            "buckets" => self.buckets(&q, out),
            "step" => self.step(&q, out),
            other => Err(question::unknown_kind(other)),
        }
    }

    /// The algorithm called `name`, from the cache if it was looked up before.
    fn find(&mut self, collective: Collective, name: &str) -> Result<Named> {
        let names = self.names.entry(collective).or_default();
        if let Some(&found) = names.get(name) {
            return Ok(found);
        }
        let found = self.registry.find(collective, name)?;
        names.insert(name.into(), found);
        Ok(found)
    }
}
