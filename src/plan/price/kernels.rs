//! Calls with their own kernels: all-reduces of inference engines, tokens between experts.

use super::{Asked, CallPrice, plain, traffic, whole};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::library::engines::Conditions;
use crate::library::{self, Site, policy};
use crate::measure::expect::{Expectation, ExpertTimes, Kernels, Runs, Tokens, site};
use crate::model::algorithm::Registry;
use crate::plan::{Call, Step};

/// An all-reduce by an inference engine's rules, captured in a graph.
pub(super) fn by_engine(
    registry: &Registry,
    engine: &str,
    step: &Step,
    call: Call,
    asked: &Asked<'_>,
) -> Result<CallPrice> {
    let bytes = whole(call.size);
    let conditions = Conditions {
        dtype: Some(step.model.dtype),
        hidden: Some(u64::from(step.model.hidden)),
        followed: true,
        ..Conditions::default()
    };
    let site = Site { conditions, ..site(&asked.query) };
    let element = step.model.dtype.bytes();
    let about = library::Call { element, size: bytes, ..library::Call::of(&asked.query) };
    let ran = policy(engine, &site)?.choose(&about)?.kernel;
    let told = ran.and_then(|ran| {
        let kernels = Kernels::new(registry, &asked.query).ok()?;
        Some((ran, kernels.at(ran, bytes)?))
    });
    let (ran, expected) = told.ok_or_else(|| {
        let what = format!("nothing says what {engine} takes for {}", call.name);
        Error::unknown(what).help("leave `engine` out for what the library runs")
    })?;
    let size = call.size;
    let library = plain(registry, call, asked, size)?;
    let name = format!("{}/{}", ran.backend, ran.kernel);
    Ok(taking(library, asked, expected, (name, ran.into())))
}

/// Tokens by kernels that were measured on such ranks.
pub(super) fn between_experts(
    registry: &Registry,
    step: &Step,
    call: Call,
    asked: &Asked<'_>,
    named: &'static str,
) -> Result<CallPrice> {
    let unmeasured = || {
        let what = format!("nobody measured {named} on {} such ranks", call.group.ranks);
        Error::unknown(what).help("leave `all2all` out: the links then say what tokens take")
    };
    let routing = call.routed.ok_or_else(unmeasured)?;
    let traffic = traffic(step, &call, asked.lies.nodes);
    let each =
        step.tokens() / if step.parallel.sequence { f64::from(step.parallel.tp) } else { 1.0 };
    let combines = call.name.starts_with("combine");
    let one = call.size.0 / (each * f64::from(routing.top_k)).max(1.0);
    let tokens = Tokens {
        each: each.round() as u64,
        // FP8 has four bytes of scale for 128 bytes of data.
        width: Bytes((if combines { one } else { one * SCALES }).round() as u64),
        top_k: routing.top_k,
        experts: routing.experts,
        ranks: call.group.ranks,
    };
    let phase = if combines { "combine" } else { "dispatch" };
    let told = ExpertTimes::built_in().at(&asked.query, named, phase, tokens);
    let expected = told.ok_or_else(unmeasured)?.times(routing.skew);
    let size = call.size;
    let library = plain(registry, call, asked, size)?;
    let runs = asked.expecting.runs(whole(size));
    let priced = taking(library, asked, expected, (named.to_owned(), runs));
    Ok(CallPrice { traffic: Some(traffic), ..priced })
}

/// Each 128 bytes of FP8 have 4 bytes of scale.
pub(in crate::plan) const SCALES: f64 = 1.0 + 4.0 / 128.0;

/// A call with the expected time of a kernel, instead of its library's algorithm.
fn taking(
    library: CallPrice,
    asked: &Asked<'_>,
    expected: Expectation,
    (algorithm, runs): (String, Runs),
) -> CallPrice {
    let time = asked.end.of(expected);
    let total = time * library.call.count;
    let latency = Seconds(library.latency.0.min(total.0));
    let expected = Some((expected, runs, library.call.size));
    CallPrice { algorithm, expected, time, total, exposed: total, latency, ..library }
}
