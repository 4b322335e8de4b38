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

use super::{Busy, Prepared, busy, stages, step_load};
use crate::base::error::Result;
use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::machine::fabric::{Fabric, Order};
use crate::machine::link::{Times, Traffic};
use crate::model::algorithm::{Algorithm, Edges, Route, Share, Step};
use crate::model::formula::{At, Form, Level, Params, Shape};

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
    /// The same of stages that overlap.
    stages: Option<Stages>,
}

/// Stages that overlap: the first segment's messages, then those of every further one at the ports inside and
/// at those between.
#[derive(Debug, Clone)]
struct Stages {
    fill: Vec<Part>,
    ports: [Vec<Part>; 2],
    /// The share of a segment that the adding rank adds.
    adds: f64,
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
        /// The part of them that meets others at the port, and the same at that of the innermost tier.
        meets: (f64, f64),
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
        let tree = tree(algorithm, &shape);
        if shape.ranks <= 1 || (tiers.iter().all(|t| t.link.is_ideal()) && tree == 1.0) {
            return Ok(Self { ideal, walk: None });
        }
        let free = algorithm.is_pipelined() && shape.params.segments.is_none();
        let parts = |segments: u32| {
            let at = if segments == 0 { shape } else { shape.with_segments(segments) };
            parts(algorithm, &at, fabric)
        };
        let stages = Stages::new(algorithm, &shape, fabric)?;
        let (first, piped) = match free {
            _ if stages.is_some() => (parts(1)?, Vec::new()),
            true => (parts(1)?, lines(&parts(2)?, &parts(3)?)),
            false => (parts(0)?, Vec::new()),
        };
        let gamma = fabric.gamma.map_or(0.0, |g| g.0);
        // The steps do not need parameters unknown here: otherwise there would be no ideal price.
        let tiers = tiers.iter().map(|tier| tier.link.times_or_zero()).collect();
        Ok(Self { ideal, walk: Some(Walk { tiers, gamma, tree, first, piped, stages }) })
    }

    /// The expected time for M = `size`.
    #[must_use]
    #[inline]
    pub fn at(&self, size: Volume) -> Seconds {
        let price = self.ideal.price(size);
        let Some(walk) = &self.walk else { return price.total() };
        let segments = f64::from(price.segments);
        let all = |parts: &[Part]| -> f64 {
            parts.iter().map(|part| walk.part(part, segments, size.0)).sum()
        };
        price.launch
            + Seconds(match &walk.stages {
                _ if price.segments <= 1 => all(&walk.first),
                Some(Stages { fill, ports, adds }) => {
                    let adds = adds * size.0 / segments * walk.gamma;
                    let [inside, between] = ports.each_ref().map(|parts| all(parts));
                    all(fill) + (segments - 1.0) * inside.max(between).max(adds)
                }
                None if walk.piped.is_empty() => all(&walk.first),
                None => all(&walk.piped),
            })
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
            Kind::Links { tier, load, inner_load, meets: (own, inner) } => {
                let times = &self.tiers[tier];
                let mut moving = through(times, bytes, load, own);
                if inner_load > 0.0 {
                    moving = moving.max(through(&self.tiers[0], bytes, inner_load, inner));
                }
                times.alpha + moving * self.tree
            }
        };
        count * (each + part.reduced * scale * self.gamma)
    }
}

/// The time in which a port moves `load` messages of this many bytes, of which a part `meets` others: several in
/// sequence, or a part of one.
#[inline]
fn through(times: &Times, bytes: f64, load: f64, meets: f64) -> f64 {
    let (bytes, load) = if load < 1.0 { (bytes * load, 1.0) } else { (bytes, load) };
    let moving = |both_ways| times.moving(bytes, Traffic { both_ways, flows: Ratio(load) });
    let part = |part: f64, both_ways| if part > 0.0 { part * moving(both_ways) } else { 0.0 };
    load * (part(meets, true) + part(1.0 - meets, false))
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

/// The steps of a shape with a fixed P, with equal ones combined; of stages that overlap those of the first
/// segment.
fn parts(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Vec<Part>> {
    let mut steps = Vec::new();
    match stages(algorithm, shape, fabric)? {
        Some(stages) => steps = stages.fill,
        None => algorithm.steps(shape, &mut |step| steps.push(step)),
    }
    combined(&steps, shape, fabric)
}

/// The steps, with equal ones combined.
fn combined(steps: &[Step], shape: &Shape, fabric: &Fabric) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    for step in steps {
        let kind = kind(step, shape, fabric)?;
        let (share, reduced) = (step.share.value(), step.reduced.value());
        let count = (step.count as f64, 0.0);
        let part = Part { kind, count, share, split: false, reduced };
        match parts.iter_mut().find(|known| known.is_like(&part)) {
            Some(known) => known.count.0 += count.0,
            None => parts.push(part),
        }
    }
    Ok(parts)
}

impl Stages {
    /// Those of `algorithm`, if the ranks span several tiers and it has any.
    fn new(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Option<Self>> {
        // At P = 2 a segment is half of M, and each part is said of a segment.
        let two = shape.with_segments(2);
        let Some(stages) = stages(algorithm, &two, fabric)? else { return Ok(None) };
        let of_segments = |steps: &[Step]| -> Result<Vec<Part>> {
            let parts = combined(steps, &two, fabric)?.into_iter();
            let of_segment = |part: Part| Part {
                share: 2.0 * part.share,
                reduced: 2.0 * part.reduced,
                split: true,
                ..part
            };
            Ok(parts.map(of_segment).collect())
        };
        let each = &stages.each;
        let adds = 2.0 * each.iter().map(|s| s.count as f64 * s.reduced.value()).sum::<f64>();
        // A port of a full pipeline receives as much as it sends; what is added counts by itself.
        let port = |level: Level| {
            let of_level = each.iter().filter(|step| step.level == level);
            let moved = |step: &Step| Step { reduced: Share::NONE, ..*step }.meeting(Share::ALL);
            of_segments(&of_level.map(moved).collect::<Vec<_>>())
        };
        Ok(Some(Self {
            fill: of_segments(&stages.fill)?,
            ports: [port(Level::Inner)?, port(Level::Outer)?],
            adds,
        }))
    }
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
    // A measured c_real has what a double tree's messages lose to each other.
    let is_counted = shape.params.c_real.is_some()
        && step.level == Level::Flat
        && matches!(step.route, Route::Edges { edges: Edges::Double(_), .. });
    let takes_turns = shape.ports.is_half() || is_counted;
    let meets = if takes_turns { 0.0 } else { step.meets().value() };
    let own = if crosses_alone(step, fabric, tier) { 0.0 } else { meets };
    Ok(Kind::Links { tier, load, inner_load, meets: (own, meets) })
}

/// Whether what crosses `tier` meets nothing at its port, since each rank has its own: around a ring the last of a
/// domain sends out of it and the first receives, and of a tree's edges few cross, each in its own slot.
fn crosses_alone(step: &Step, fabric: &Fabric, tier: usize) -> bool {
    let below = tier.checked_sub(1).and_then(|below| fabric.tiers[below].span);
    let own_ports =
        fabric.tiers[tier].nics.is_none() && step.level == Level::Flat && step.rails == 1;
    own_ports
        && below.is_some_and(|span| match step.route {
            Route::Offset(distance) => fabric.order == Order::Block && 2 * distance <= span.get(),
            Route::Edges { .. } | Route::Heap { .. } | Route::Tree => true,
            _ => false,
        })
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
