//! An algorithm or a protocol that the run's own variables forced.
//!
//! `NCCL_ALGO=Ring` on two nodes measures NICs: the run takes what a ring takes, and is no sign of a fault. Where a
//! variable leaves one algorithm or one protocol, the run is therefore compared with what that takes, unless it is
//! healthy without looking at the variable. What the setting costs is reported beside the verdict. A run that is ill
//! without it, and as fast as it lets it be, has one cause: the setting.

use super::Cause;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::library::nccl::{Algo, Function, Proto, Settings};
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::Expecting;
use crate::measure::logs::Evidence;
use crate::model::algorithm::{Registry, RunBy};
use crate::model::formula::Protocol;

/// What a run's variables force.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The variables: `NCCL_ALGO=Ring`.
    pub what: String,
    /// The time expected with it over that without it, at the largest size.
    pub cost: Ratio,
    /// What is expected with it and without it, in words.
    pub note: String,
}

/// The question as variables change it.
pub(super) struct Forced {
    pub query: Query,
    pub algorithm: Option<Algo>,
    /// The variables that it takes into account.
    pub variables: Vec<(&'static str, String)>,
}

/// A setting that changes times by less, as a logarithm, changes nothing.
const LEAST: f64 = 0.02;

impl Forced {
    /// What the variables in `evidence` leave; `None` if they leave a choice, or nobody reads them.
    pub fn of(query: &Query, run_by: RunBy, evidence: &Evidence) -> Option<Self> {
        if run_by.is_mpi() {
            return None;
        }
        let function = Function::of(query.shape.collective)?;
        let mut forced = Self { query: query.clone(), algorithm: None, variables: Vec::new() };
        if let Some(value) = evidence.variable(ALGO)
            && let Ok([one]) = Settings::algorithms(value, function).as_deref()
        {
            forced.algorithm = Some(*one);
            forced.variables.push((ALGO, value.to_owned()));
        }
        if let Some(value) = evidence.variable(PROTO)
            && let Ok([one]) = Settings::protocols(value, function).as_deref()
        {
            forced.query.machine.protocol = Some(match one {
                Proto::Ll => Protocol::Ll,
                Proto::Ll128 => Protocol::Ll128,
                Proto::Simple => Protocol::Simple,
            });
            forced.variables.push((PROTO, value.to_owned()));
        }
        (!forced.variables.is_empty()).then_some(forced)
    }

    /// What is expected with it.
    ///
    /// # Errors
    /// The algorithm does not apply, or has no price.
    pub fn expecting<'r>(
        &self,
        registry: &'r Registry,
        dtype: Option<DataType>,
    ) -> Result<Expecting<'r>> {
        Expecting::with(registry, &self.query, self.algorithm.map(Algo::name), dtype)
    }

    /// What it costs at `sizes`, of which there is one at least; `None` if it changes nothing.
    pub fn costs(
        &self,
        without: &Expecting<'_>,
        with: &Expecting<'_>,
        sizes: &[Bytes],
    ) -> Option<Setting> {
        let cost = |size: Bytes| with.time(size).0 / without.time(size).0;
        let last = *sizes.iter().max()?;
        let most = *sizes.iter().max_by(|a, b| cost(**a).total_cmp(&cost(**b)))?;
        if sizes.iter().all(|&size| cost(size).ln().abs() < LEAST) {
            return None;
        }
        let set: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let what = set.join(" ");
        let at = |size: Bytes| {
            let (with, without): (Seconds, Seconds) = (with.time(size), without.time(size));
            format!("{with} at {size} with it, {without} without it, which is {:.2} x", cost(size))
        };
        let mut note = format!("{what} is set: expected are {}", at(last));
        if most != last && cost(most) > cost(last) + LEAST {
            note += &format!("; {}", at(most));
        }
        Some(Setting { what, cost: Ratio(cost(last)), note })
    }
}

impl Setting {
    /// The cause of a run that is as fast as it lets it be.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            id: "setting",
            what: format!("{} is set, and the run is as fast as that lets it be", self.what),
            off: None,
            chance: Ratio(1.0),
            evidence: format!("{:.2} times as long as without it at large sizes", self.cost.0),
            next: "leave the variable out, unless it is meant: links and NICs show nothing slow"
                .to_owned(),
        }
    }
}

const ALGO: &str = "NCCL_ALGO";
const PROTO: &str = "NCCL_PROTO";
