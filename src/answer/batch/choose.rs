//! Kind `choose`: what an inference engine runs for a call, and how long that is expected to take.

use std::borrow::Cow;

use serde::Serialize;

use super::Batch;
use super::expect::Fields;
use super::question::missing;
use crate::answer::select::refuse_empty;
use crate::answer::{Expect, six};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::library::engines::{Conditions, Kernel, Variables};
use crate::library::{Call, Site, is_engine, policy};
use crate::measure::expect::{Kernels, site};

/// The fields in addition to the parameters of a question.
const OWN: [&str; 10] = [
    "id",
    "kind",
    "engine",
    "collective",
    "primitive",
    "size_bytes",
    "dtype",
    "hidden",
    "graph",
    "env",
];

/// The answer's keys, as `choose --format json` has them.
#[derive(Serialize)]
struct Chosen {
    backend: &'static str,
    kernel: &'static str,
    rule: String,
    us: Option<f64>,
    expect: Option<Expect>,
    notes: Vec<Cow<'static, str>>,
}

impl Batch {
    /// Kind `choose`.
    pub(super) fn choose(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read(line, &OWN)?;
        let engine = fields.text("engine")?.ok_or_else(|| missing("engine"))?;
        if !is_engine(&engine) {
            let error = Error::input(format!("`{engine}` is not an engine"));
            return Err(fields.at(error.help("collcost list policies shows them"), "engine"));
        }
        let (query, _) = self.query(&fields, Some(Collective::AllReduce))?;
        refuse_empty(&self.registry, &query).map_err(|e| fields.at(e, "size_bytes"))?;
        let conditions = conditions(&fields)?;
        let call = Call { element: conditions.dtype().bytes(), ..Call::of(&query) };
        let site = Site { conditions, ..site(&query) };
        let choice = policy(&engine, &site)?.choose(&call)?;
        let kernel =
            choice.kernel.ok_or_else(|| Error::input(format!("`{engine}` is not an engine")))?;
        // If parameters are unknown, the choice is known nevertheless.
        let kernels = Kernels::new(&self.registry, &query).ok();
        let expect = kernels.and_then(|kernels| {
            let told = kernels.at(kernel, call.size)?;
            Some(Expect::stated(told, kernel.into(), kernels.busbw(call.size, told.time)))
        });
        let us = expect.as_ref().map(|e| six(e.time_s * 1e6));
        let Kernel { backend, kernel, .. } = kernel;
        let chosen = Chosen { backend, kernel, rule: choice.rule, us, expect, notes: choice.notes };
        let start = out.len();
        serde_json::to_writer(&mut *out, &chosen)
            .map_err(|e| Error::environment(format!("a choice cannot be written: {e}")))?;
        // Its keys are next to the id, not in an object of their own.
        out[start] = b',';
        out.pop();
        Ok(())
    }
}

fn conditions(fields: &Fields<'_>) -> Result<Conditions> {
    let dtype = fields.dtype()?;
    let hidden = match fields.text("hidden")? {
        Some(text) => Some(text.parse().ok().filter(|&h: &u64| h > 0).ok_or_else(|| {
            fields.at(Error::input("`hidden` must be a whole number above 0"), "hidden")
        })?),
        None => None,
    };
    let graph = match fields.text("graph")?.as_deref() {
        None | Some("true" | "graph") => true,
        Some("false" | "eager") => false,
        Some(_) => {
            return Err(fields.at(Error::input("`graph` must be true or false"), "graph"));
        }
    };
    let variables = variables(fields)?;
    Ok(Conditions { dtype, hidden, graph, variables, ..Conditions::default() })
}

/// The variables of `env`.
pub(super) fn variables(fields: &Fields<'_>) -> Result<Variables> {
    let mut variables = Variables::default();
    for text in fields.texts("env")? {
        variables.put(&text).map_err(|e| fields.at(e, "env"))?;
    }
    Ok(variables)
}
