//! A dispatch that sends a token once to each node that it needs, and its combine: the network and the links
//! inside nodes at once, which forward it.

use super::{Asked, CallPrice, traffic, whole};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::machine::fabric::Tier;
use crate::measure::expect::{Basis, Expectation};
use crate::plan::{Call, Step, Traffic};

/// Its algorithm.
pub const NODE_LIMITED: &str = "node-limited";

/// The part of the slower links' rate that DeepEP's normal kernels reach on 16, 32 and 64 H800: the median,
/// the least and the most. Its docs/legacy.md has 43, 58 and 51 GB/s out, with the scales of FP8, and 43, 57
/// and 50 back; the links alone would give 55.4, 63.7 and 54.6.
const REACHED: f64 = 0.89;
const LEAST: f64 = 0.75;
const MOST: f64 = 1.0;

/// The time of one such call, and the part of it that is not data.
///
/// # Errors
/// A parameter of the links is unknown.
pub(in crate::plan) fn once_a_node(
    asked: &Asked<'_>,
    traffic: &Traffic,
    skew: Ratio,
) -> Result<(Expectation, Seconds)> {
    let fabric = &asked.query.machine.fabric;
    let (inner, outer) = (&fabric.tiers[0], fabric.tiers.last().unwrap_or(&fabric.tiers[0]));
    let unknown = || Error::unknown("a parameter is unknown, and tokens need it");
    let rate = |tier: &Tier| tier.link.bandwidth.ok_or_else(unknown);
    let alpha = |tier: &Tier| tier.link.alpha.ok_or_else(unknown);
    let mut latency = fabric.launch + alpha(inner)?;
    let mut data = traffic.inside / rate(inner)?;
    if asked.lies.nodes > 1 {
        latency = latency + alpha(outer)?;
        // A rank drives the NIC next to it, or its share of the existing ones.
        let own = outer.nics.map_or(1.0, |n| f64::from(n.get()) / f64::from(asked.lies.per_node));
        let through = traffic.between / rate(outer)? * Ratio(asked.sharing.0 / own.min(1.0));
        data = Seconds(data.0.max(through.0));
    }
    let reaching = |part: f64| latency + data * Ratio(skew.0 / part);
    let expected = Expectation {
        time: reaching(REACHED),
        low: reaching(MOST),
        high: reaching(LEAST),
        basis: Basis::Modelled,
        reach: None,
        error: None,
    };
    Ok((expected, latency))
}

/// The call of a step.
///
/// # Errors
/// As [`once_a_node`].
pub(super) fn routed(step: &Step, call: Call, asked: &Asked<'_>) -> Result<CallPrice> {
    let skew = call.routed.map_or(Ratio(1.0), |r| r.skew);
    let traffic = traffic(step, &call, asked.lies.nodes);
    let (expected, latency) = once_a_node(asked, &traffic, skew)?;
    let time = asked.end.of(expected);
    let total = time * call.count;
    let a_step = |v: Volume| Volume(v.0 * call.count.0);
    Ok(CallPrice {
        lies: asked.lies,
        algorithm: NODE_LIMITED.to_owned(),
        expected: Some((expected, asked.expecting.runs(whole(call.size)), call.size)),
        calls: call.count,
        time,
        total,
        exposed: total,
        latency: latency * call.count,
        sharing: asked.sharing,
        inside: Some(a_step(traffic.inside)),
        between: (asked.lies.nodes > 1).then(|| a_step(traffic.between)),
        traffic: Some(traffic),
        call,
    })
}
