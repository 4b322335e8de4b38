//! Checks of a fit against its own samples: good, marked or refused.

use std::collections::BTreeMap;

use super::{Estimate, Fitted, Point, Statistic};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, percent};
use crate::base::stats::median;
use crate::machine::link::Bucket;
use crate::machine::sample::{Op, Origin, Wait};

/// The result of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No objection.
    Good,
    /// The parameters may be used, and the profile states the caveat.
    Marked,
    /// The parameters must not be used.
    Refused,
}

/// One gate with its finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its name, such as `held-out`; marks in a profile begin with it.
    pub name: &'static str,
    /// Its result.
    pub verdict: Verdict,
    /// What was found, and what is accepted.
    pub said: String,
    /// What to do.
    pub help: &'static str,
}

impl Gate {
    /// Whether measuring for longer may change its result.
    #[must_use]
    pub fn yields_to_time(&self) -> bool {
        matches!(self.name, "beta-interval" | "alpha-interval" | "disturbed" | "ladder" | "bucket")
    }
}

/// A gate for a number that should be small.
fn small(
    name: &'static str,
    seen: f64,
    (mark, refuse): (f64, f64),
    what: &str,
    help: &'static str,
) -> Gate {
    let (verdict, limit) = match seen {
        s if s.is_nan() || s > refuse => (Verdict::Refused, refuse),
        s if s > mark => (Verdict::Marked, mark),
        _ => (Verdict::Good, mark.min(refuse)),
    };
    let sign = if verdict == Verdict::Good { "at most" } else { "above" };
    let said = match seen.is_finite() {
        true => format!("{what} {}, {sign} {}", percent(seen), percent(limit)),
        false => format!("{what} unknown"),
    };
    Gate { name, verdict, said, help }
}

/// An interval wider than this to each side says nothing about a parameter.
const UNKNOWN: f64 = 0.5;

/// If more of the blocks are disturbed, all measurements are weak.
pub(crate) const DISTURBED: f64 = 0.1;

/// Never marks.
const NEVER: f64 = f64::INFINITY;

pub(super) fn gates(fit: &Fitted, origin: &Origin) -> Vec<Gate> {
    let mut gates = vec![identified(fit)];
    gates.extend(ladder(fit));
    gates.extend(settled(fit));
    gates.push(small(
        "disturbed",
        fit.disturbed.0,
        (DISTURBED, NEVER),
        "blocks that waited for CPUs:",
        "measure on an otherwise idle machine",
    ));
    let lost = fit.points.iter().filter(|p| p.lost).count() as f64;
    gates.push(small(
        "lost-cpu",
        lost / fit.points.len().max(1) as f64,
        (0.02, NEVER),
        "points left out because others held the CPUs in nearly all runs:",
        "measure the largest sizes on an otherwise idle machine",
    ));
    // What measuring for longer would narrow.
    let half = |e: Estimate<f64>, between: Ratio| {
        let between = between.0.min(e.half());
        ((e.half() - between) * (e.half() + between)).sqrt()
    };
    let between = fit.between_runs;
    let alpha = half(fit.link.alpha.map(|a| a.0), between.starts);
    let beta = half(fit.link.beta.map(|b| b.0), between.bytes);
    // One known parameter makes a usable profile; with neither known there is none.
    let least = if alpha <= UNKNOWN { NEVER } else { UNKNOWN };
    gates.push(small(
        "beta-interval",
        beta,
        (0.03, least),
        "half width of β's 95 % interval within the run:",
        "measure more large sizes, or for longer",
    ));
    gates.push(small(
        "alpha-interval",
        alpha,
        (0.20, NEVER),
        "half width of α's 95 % interval within the run:",
        "measure more small sizes, or for longer",
    ));
    if let Some(errors) = fit.errors_by_algorithm.and_then(|e| e.bulk) {
        gates.push(small(
            "held-out",
            errors.median.0,
            (0.10, NEVER),
            "median error on held-out algorithms, times above 10 α:",
            "collcost fit --explain shows which algorithm does not follow the model",
        ));
    }
    gates.extend(spread(fit));
    gates.extend(drift(fit));
    gates.extend(noisy(fit));
    gates.extend(copies(fit));
    gates.extend(starved(fit, origin));
    gates.extend(oversubscribed(fit, origin));
    gates
}

/// Whether the points determine the coefficients separately.
fn identified(fit: &Fitted) -> Gate {
    const CONDITION: f64 = 1e4;
    const INFLATION: f64 = 30.0;
    let (condition, inflation) = (fit.condition.0, fit.inflation.0);
    let far = condition.is_nan() || condition > CONDITION || inflation > INFLATION;
    let positive = fit.link.alpha.value.0 > 0.0 && fit.link.beta.value.0 > 0.0;
    let said = match positive {
        true => format!(
            "condition {condition:.1}, at most {CONDITION:.0}; variance inflation {inflation:.1}, \
             at most {INFLATION:.0}"
        ),
        false => "α or β is fitted as 0".to_owned(),
    };
    Gate {
        name: "identifiable",
        verdict: if far || !positive { Verdict::Refused } else { Verdict::Good },
        said,
        help: "measure algorithms whose ratios of messages, bytes and additions differ",
    }
}

/// Both ends of the ladder must be measured.
fn ladder(fit: &Fitted) -> Option<Gate> {
    const LEAST: usize = 4;
    let alpha = fit.link.alpha.value.0;
    if alpha <= 0.0 {
        return None;
    }
    let times = fit.points.iter().filter(|p| p.op.moves_data());
    let times: Vec<f64> = times.map(|p| p.time(fit.link.statistic).0).collect();
    let bulk = times.iter().filter(|t| **t > 10.0 * alpha).count();
    let start = times.iter().filter(|t| **t < 3.0 * alpha).count();
    // Large messages show β where α is not known; small ones show nothing of β.
    let verdict = match (start >= LEAST, bulk >= LEAST) {
        (true, true) => Verdict::Good,
        (false, true) => Verdict::Marked,
        (_, false) => Verdict::Refused,
    };
    Some(Gate {
        name: "ladder",
        verdict,
        said: format!("{start} points below 3 α and {bulk} above 10 α; {LEAST} of each are needed"),
        help: "measure smaller or larger sizes: α or β is not identifiable",
    })
}

/// With a token bucket, only messages far larger than the bucket show the rate.
fn settled(fit: &Fitted) -> Option<Gate> {
    let bucket = fit.bucket?;
    // A rank that rests while the other answers has a full bucket each time. A single large message is
    // outvoted by many that the bucket helped: β came out 10 % too low, with an interval that excluded
    // the true value.
    const LEAST: usize = 4;
    let busy = |p: &&Point| p.op.moves_data() && p.op != Op::OneWay && !p.lost;
    let message = |p: &Point| match p.op {
        Op::Shift => p.size.0,
        _ => p.size.0 / u64::from(p.ranks.max(1)),
    };
    let least = bucket.settled();
    let count = fit.points.iter().filter(busy).filter(|p| message(p) >= least.0).count();
    Some(Gate {
        name: "bucket",
        verdict: if count >= LEAST { Verdict::Good } else { Verdict::Refused },
        said: format!(
            "{count} points with messages of {least} or more, {} times the token bucket; {LEAST} are \
             needed",
            Bucket::LEAST
        ),
        help: "measure for longer: larger messages show the link's rate",
    })
}

/// A stream of data before the measurement must not have been far slower than the messages: a bucket
/// may have been missed, and the messages smaller than it.
pub(super) fn stream(fit: &Fitted, stream: Option<Bandwidth>) -> Option<Gate> {
    /// Other processes may slow a stream down by this much.
    const MOST: f64 = 4.0;
    let times = super::slower(fit.link.beta.value.0, stream?)?;
    Some(Gate {
        name: "stream",
        verdict: if times > MOST { Verdict::Refused } else { Verdict::Marked },
        said: format!(
            "data flowing without a pause took {times:.1} times as long a byte as the messages, above {}",
            if times > MOST { MOST } else { super::MANY }
        ),
        help: "measure on an otherwise idle machine: a token bucket may hide the link's rate",
    })
}

/// Ranks and links that are slower than the others: one parameter for all of them fits none of them.
pub(super) fn links(slow: &[String]) -> Option<Gate> {
    (!slow.is_empty()).then(|| Gate {
        name: "links",
        verdict: Verdict::Marked,
        said: slow.join("; "),
        help: "fix it, or measure without it: every collective waits for the slowest",
    })
}

/// How many times as long the points took that both have, in the middle of them.
fn times_as_long(these: &[Point], those: &[Point], statistic: Statistic) -> Option<f64> {
    let known: BTreeMap<_, _> = those.iter().map(|p| ((&p.op, p.ranks, p.size), p)).collect();
    let both = these.iter().filter(|p| p.op.moves_data());
    let both = both.filter_map(|p| Some((p, known.get(&(&p.op, p.ranks, p.size))?)));
    median(both.map(|(this, that)| this.time(statistic).0 / that.time(statistic).0).collect())
}

/// A machine of two states: one set of parameters describes only one of them.
pub(super) fn states(fit: &Fitted) -> Option<Gate> {
    let other = fit.other_state.as_ref()?;
    let part = 100.0 * other.part.0;
    let link = other.fit.as_ref().map(|other| other.link);
    // The last slope alone may be badly known.
    let times_as_long = other
        .fit
        .as_ref()
        .and_then(|other| times_as_long(&other.points, &fit.points, fit.link.statistic));
    let which = match times_as_long {
        None => "another",
        Some(times) if times > 1.0 => "a slower",
        Some(_) => "a faster",
    };
    let with = link.map_or_else(String::new, |link| {
        format!(" of α {}, {}", link.alpha.value, link.beta.bandwidth().value)
    });
    Some(Gate {
        name: "two-states",
        verdict: Verdict::Marked,
        said: format!(
            "the machine was in {which} state{with} for {part:.0} % of the blocks, which the \
             parameters leave out and the bands include"
        ),
        help: "a hypervisor may have moved CPUs away from a common cache: pin them, or measure again \
               later",
    })
}

/// Blocks of one point that disagree.
fn spread(fit: &Fitted) -> Vec<Gate> {
    let spreads: Vec<f64> = fit.points.iter().filter_map(|p| p.spread).map(|s| s.0).collect();
    if spreads.is_empty() {
        return Vec::new();
    }
    let wide = spreads.iter().filter(|s| **s > 0.5).count() as f64 / spreads.len() as f64;
    let mut gates = vec![small(
        "block-spread",
        wide,
        (0.25, NEVER),
        "points whose blocks differ by more than half of the median:",
        "pin the ranks, and measure more launches: placement decides the times",
    )];
    let icc = fit.points.iter().filter_map(|p| p.icc).map(|i| i.0).collect();
    if let Some(icc) = median(icc) {
        gates.push(small(
            "bimodal",
            icc,
            (0.5, NEVER),
            "part of the variance that is between blocks, for the median point:",
            "measure more launches: each launch has different times",
        ));
    }
    gates
}

fn drift(fit: &Fitted) -> Option<Gate> {
    let drifts = fit.points.iter().filter_map(|p| p.drift).map(|d| d.0).collect();
    let drift = median(drifts)?.abs();
    let help = "warm up the machine first, and drain token buckets";
    Some(small("drift", drift, (0.05, NEVER), "growth over a block, for the median point:", help))
}

fn noisy(fit: &Fitted) -> Option<Gate> {
    let (a, b) = (fit.link.beta.value.0, fit.other.beta.value.0);
    // A rate that is not known differs from none.
    (a > 0.0 && b > 0.0).then(|| {
        small(
            "noisy",
            (a / b - 1.0).abs(),
            (0.05, NEVER),
            "difference between β of the median and β of the floor:",
            "the profile states both; --stat floor shows what the machine can do",
        )
    })
}

/// A link between two processors moves data at most twice as fast as one of them copies, since one reads
/// while the other writes. It is far faster where the data never left the caches, and where all ranks
/// copied at once and shared the memory: then large calls of all ranks are slower than the link says.
fn copies(fit: &Fitted) -> Option<Gate> {
    let times = fit.copies.as_ref()?.last()?.value.0 / fit.link.beta.value.0;
    Some(Gate {
        name: "copies",
        verdict: if times > 2.0 { Verdict::Marked } else { Verdict::Good },
        said: format!(
            "the link is {times:.2} times as fast as copies of all ranks at once, {} 2",
            if times > 2.0 { "above" } else { "at most" }
        ),
        help: "ranks that move much at once share the memory, or the sizes fit into caches: measure \
               larger ones",
    })
}

/// Where bytes decide the time, ranks should wait for the link, not for a processor.
fn starved(fit: &Fitted, origin: &Origin) -> Option<Gate> {
    const LARGE: Bytes = Bytes(1 << 18);
    if origin.is_in_memory() {
        return None;
    }
    let alpha = fit.link.alpha.value.0;
    let bulk = fit.points.iter().filter(|p| p.op.moves_data() && p.size >= LARGE);
    let bulk = bulk.filter(|p| p.time(Statistic::Typical).0 > 20.0 * alpha);
    let waited = median(bulk.filter_map(|p| p.waited).map(|w| w.0).collect())?;
    Some(small(
        "cpu-limited",
        waited,
        (0.20, NEVER),
        "part of its time that a rank moving bytes waits for a CPU:",
        "give each rank a CPU: the rate is the processors', not the link's",
    ))
}

/// A rank that spins needs a CPU of its own.
fn oversubscribed(fit: &Fitted, origin: &Origin) -> Option<Gate> {
    if origin.wait != Some(Wait::Spin) {
        return None;
    }
    let points = fit.points.iter().filter(|p| p.op.moves_data());
    let waited = points.filter_map(|p| p.waited.map(|w| w.0 * f64::from(p.ranks)));
    let waited = median(waited.collect())?;
    let help = "run no more ranks than CPUs, or let them poll";
    Some(small("oversubscribed", waited, (0.3, NEVER), "spinning ranks wait for CPUs:", help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Seconds;

    fn points(time: impl Fn(f64) -> f64) -> Vec<Point> {
        let point = |k: u32| {
            let size = Bytes(1 << k);
            let time = Seconds(time(size.0 as f64));
            Point {
                op: Op::Shift,
                ranks: 2,
                size,
                count: 20,
                blocks: 4,
                disturbed: 0,
                typical: time,
                by_stretch: Vec::new(),
                lost: false,
                floor: time,
                precision: Ratio(0.01),
                spread: None,
                icc: None,
                drift: None,
                waited: None,
            }
        };
        (3..23).map(point).collect()
    }

    /// From 4 MiB on the slower state seems to be the faster one.
    #[test]
    fn a_state_is_slower_that_is_slower_at_most_sizes() {
        let fast = points(|bytes| 300e-9 + bytes / 5e9);
        let slow = points(|bytes| 1e-6 + 3e-10 * bytes.min(4e6) + bytes / 19e9);
        let times = |these: &[Point], those: &[Point]| {
            times_as_long(these, those, Statistic::Typical).unwrap()
        };
        assert!(times(&slow, &fast) > 1.5 && times(&fast, &slow) < 0.7);
        assert_eq!(times_as_long(&[], &fast, Statistic::Typical), None);
    }
}
