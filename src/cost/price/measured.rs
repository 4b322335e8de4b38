//! The time of an algorithm on measured links, in addition to its ideal price.
//!
//! The ideal price sums bytes: a closed form has no messages. Measured links depend on messages: on
//! their size, on whether they go one way or both, and on whether other messages use the port. So
//! [`OnLinks`] walks the steps and asks the link of each for the time of its messages
//! ([`crate::machine::link::Times`]). If no link deviates from α and BW the result is the ideal
//! price, to the bit.
//!
//! Calls are assumed to follow each other: a token bucket is empty when one begins. The steps of a
//! closed form do not tell which port rests meanwhile, so the bytes that a bucket saves then are
//! not counted here; simulations count them.

use super::{Busy, Prepared, busy, step_load};
use crate::base::error::Result;
use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::machine::fabric::Fabric;
use crate::machine::link::{Times, Traffic};
use crate::model::algorithm::{Algorithm, Step};
use crate::model::formula::{At, Form, Params, Shape};

/// An algorithm on measured links, with all values inserted except M.
#[derive(Debug, Clone)]
pub struct OnLinks {
    ideal: Prepared,
    /// The deviation from the ideal price; absent if there is none.
    walk: Option<Walk>,
}

/// The messages of an algorithm, and the links that they cross.
#[derive(Debug, Clone)]
struct Walk {
    tiers: Vec<Times>,
    /// Seconds to add a byte.
    gamma: f64,
    /// The measured ratio of the byte time of a double binary tree to its formula.
    tree: f64,
    /// At P = 1, or if P is fixed or not a parameter.
    first: Vec<Part>,
    /// From P = 2 on: counts grow linearly with P, and shares shrink.
    piped: Vec<Part>,
}

/// Equal sequential messages, of all rounds together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    kind: Kind,
    /// Their number: the first value, plus the second times P.
    count: (f64, f64),
    /// The share of M of each.
    share: f64,
    /// Whether the share, and the part added, refer to one of P segments.
    split: bool,
    /// The share of M that is added with each.
    reduced: f64,
}

/// The links or switch that messages of one kind cross.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Links of a tier.
    Links {
        tier: usize,
        /// Messages of that size that its busiest port moves in their time, and the same for the
        /// innermost tier at the same time.
        load: f64,
        inner_load: f64,
        both_ways: bool,
    },
    /// The switch: seconds per hop, and seconds per byte.
    Switch { latency: f64, inverse: f64 },
}

impl OnLinks {
    /// Inserts the machine into the steps of `algorithm`.
    ///
    /// P is that of the ideal price, so both refer to the same messages.
    ///
    /// # Errors
    /// Errors of [`Prepared::new`].
    pub fn new(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Self> {
        Self::beside(Prepared::new(algorithm, shape, fabric)?, algorithm, shape, fabric)
    }

    /// The same if the ideal price already exists.
    ///
    /// # Errors
    /// Errors of [`Self::new`].
    pub fn beside(
        ideal: Prepared,
        algorithm: &dyn Algorithm,
        shape: &Shape,
        fabric: &Fabric,
    ) -> Result<Self> {
        let shape = fabric.fill(shape);
        let tiers = &fabric.tiers[..fabric.depth(shape.ranks)?];
        // Stages overlap: their messages are not sequential.
        if tiers.len() > 1 && algorithm.stages(&shape).is_some() {
            return Ok(Self { ideal, walk: None });
        }
        let tree = tree(algorithm, &shape);
        if shape.ranks <= 1 || (tiers.iter().all(|t| t.link.is_ideal()) && tree == 1.0) {
            return Ok(Self { ideal, walk: None });
        }
        let free = algorithm.is_pipelined() && shape.params.segments.is_none();
        let parts = |segments: u32| {
            let at = if segments == 0 { shape } else { shape.with_segments(segments) };
            parts(algorithm, &at, fabric)
        };
        let (first, piped) = match free {
            true => (parts(1)?, lines(&parts(2)?, &parts(3)?)),
            false => (parts(0)?, Vec::new()),
        };
        let gamma = fabric.gamma.map_or(0.0, |g| g.0);
        // The steps do not need parameters unknown here: otherwise there would be no ideal price.
        let tiers = tiers.iter().map(|tier| tier.link.times_or_zero()).collect();
        Ok(Self { ideal, walk: Some(Walk { tiers, gamma, tree, first, piped }) })
    }

    /// The expected time for M = `size`.
    #[must_use]
    #[inline]
    pub fn at(&self, size: Volume) -> Seconds {
        let price = self.ideal.price(size);
        let Some(walk) = &self.walk else { return price.total() };
        let parts = match price.segments {
            0 | 1 => &walk.first,
            _ if walk.piped.is_empty() => &walk.first,
            _ => &walk.piped,
        };
        let segments = f64::from(price.segments);
        let sum: f64 = parts.iter().map(|part| walk.part(part, segments, size.0)).sum();
        price.launch + Seconds(sum)
    }

    /// The ideal price.
    #[must_use]
    pub fn ideal(&self) -> &Prepared {
        &self.ideal
    }
}

impl From<Prepared> for OnLinks {
    /// A price without messages, such as one that a text prints: it has no deviation.
    fn from(ideal: Prepared) -> Self {
        Self { ideal, walk: None }
    }
}

impl Walk {
    /// The time of all messages of a part.
    #[inline]
    fn part(&self, part: &Part, segments: f64, size: f64) -> f64 {
        let count = part.count.0 + part.count.1 * segments;
        let scale = if part.split { size / segments } else { size };
        let bytes = part.share * scale;
        let each = match part.kind {
            Kind::Switch { latency, inverse } => latency + bytes * inverse,
            Kind::Links { tier, load, inner_load, both_ways } => {
                let times = &self.tiers[tier];
                let mut moving = through(times, bytes, load, both_ways);
                if inner_load > 0.0 {
                    moving = moving.max(through(&self.tiers[0], bytes, inner_load, both_ways));
                }
                times.alpha + moving * self.tree
            }
        };
        count * (each + part.reduced * scale * self.gamma)
    }
}

/// The time in which a port moves `load` messages of this many bytes: several in sequence, or a
/// part of one.
#[inline]
fn through(times: &Times, bytes: f64, load: f64, both_ways: bool) -> f64 {
    let traffic = Traffic { both_ways, flows: Ratio(load.max(1.0)) };
    if load < 1.0 {
        return times.moving(bytes * load, traffic);
    }
    load * times.moving(bytes, traffic)
}

/// The measured c_real over the formula's value: 1 if it was not measured, or belongs to another
/// algorithm.
fn tree(algorithm: &dyn Algorithm, shape: &Shape) -> f64 {
    if shape.params.c_real.is_none() {
        return 1.0;
    }
    let beta = |params: Params| {
        let at = At::numbers(Shape { params, ..*shape });
        algorithm.price_form(&at, Form::Asymptotic).map(|cost| cost.total().beta)
    };
    let (seen, said) = (beta(shape.params), beta(Params { c_real: None, ..shape.params }));
    seen.zip(said).filter(|(_, said)| *said > 0.0).map_or(1.0, |(seen, said)| seen / said)
}

/// The steps of a shape with a fixed P, with equal ones combined.
fn parts(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut fault = None;
    algorithm.steps(shape, &mut |step| match kind(&step, shape, fabric) {
        Ok(kind) => {
            let (share, reduced) = (step.share.value(), step.reduced.value());
            let count = (step.count as f64, 0.0);
            let part = Part { kind, count, share, split: false, reduced };
            match parts.iter_mut().find(|known| known.is_like(&part)) {
                Some(known) => known.count.0 += count.0,
                None => parts.push(part),
            }
        }
        Err(e) => fault = Some(e),
    });
    fault.map_or(Ok(parts), Err)
}

fn kind(step: &Step, shape: &Shape, fabric: &Fabric) -> Result<Kind> {
    let Busy { tier, switch, mut load, between, inner_load } = busy(step, shape, fabric)?;
    if switch {
        let latency = step_load(step, shape, fabric, 0.0)?.latency;
        let moves = step.share.value() > 0.0;
        let inverse = if moves { load * fabric.tiers[tier].switch_inverse()? } else { 0.0 };
        return Ok(Kind::Switch { latency, inverse });
    }
    // Tiers between the two are as slow as α and their rate say.
    if let Some((between, its)) = between {
        let [far, near] = [tier, between].map(|tier| fabric.tiers[tier].inverse());
        load = load.max(its * near? / far?);
    }
    // For a port that cannot do both at once the steps already take turns.
    let both_ways = step.goes_both_ways() && !shape.ports.is_half();
    Ok(Kind::Links { tier, load, inner_load, both_ways })
}

/// The lines in P through the parts at P = 2 and at P = 3: of messages whose share is the same at
/// both, and of those whose share is proportional to 1/P.
fn lines(two: &[Part], three: &[Part]) -> Vec<Part> {
    let mut lines: Vec<Part> = Vec::new();
    // c₂ messages at P = 2 and c₃ at P = 3 are (3 − P)·c₂ + (P − 2)·c₃ at P.
    for (own, other, p, (fixed, each)) in
        [(two, three, 2.0, (3.0, -1.0)), (three, two, 3.0, (-2.0, 1.0))]
    {
        for part in own {
            let split = !other.iter().any(|o| o.is_like(part));
            let scale = if split { p } else { 1.0 };
            let line = Part {
                count: (fixed * part.count.0, each * part.count.0),
                share: part.share * scale,
                reduced: part.reduced * scale,
                split,
                ..*part
            };
            match lines.iter_mut().find(|l| l.split == split && l.is_like(&line)) {
                Some(known) => {
                    known.count.0 += line.count.0;
                    known.count.1 += line.count.1;
                }
                None => lines.push(line),
            }
        }
    }
    lines
}

impl Part {
    /// Whether the messages of both have the same kind and size.
    fn is_like(&self, other: &Self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
        self.kind == other.kind
            && close(self.share, other.share)
            && close(self.reduced, other.reduced)
    }
}

#[cfg(test)]
mod tests;
