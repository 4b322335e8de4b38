//! The cost of an algorithm on a machine.
//!
//! [`Prepared`] is the closed form with all values inserted except M. Two evaluations at P = 2 and
//! 3 give the lines a + b·P and c + d/P. From them follows the best number of segments, P* =
//! √(d·M/b): the better of its two integer neighbours, or P = 1, which may be cheaper than the
//! line. On one tier the coefficients come from the generic closed form; where ranks span several
//! tiers they come from its steps, each on the slowest tier that it crosses.

mod measured;

pub use measured::OnLinks;

use std::num::NonZeroU32;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::machine::fabric::{Crossing, Fabric, Tier};
use crate::machine::wires::Torus;
use crate::model::algorithm::{Algorithm, Reason, Route, Share, Stages, Step};
use crate::model::formula::{At, Form, Level, Phase, Shape};

/// The price of one collective call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// P, if the algorithm is pipelined; otherwise 1.
    pub segments: u32,
    /// n_α·α, messages one after another, and n_sw·α_sw.
    pub latency: Seconds,
    /// n_β·M/BW.
    pub bandwidth: Seconds,
    /// n_γ·M·γ; absent if γ is unknown and something is reduced.
    pub compute: Option<Seconds>,
    /// The overhead of the call before its first message.
    pub launch: Seconds,
}

impl Price {
    /// The sum of all known terms.
    #[must_use]
    pub fn total(&self) -> Seconds {
        self.launch + self.latency + self.bandwidth + self.compute.unwrap_or_default()
    }

    /// algbw: bytes over time.
    #[must_use]
    pub fn algbw(&self, size: Volume) -> Bandwidth {
        size / self.total()
    }

    /// busbw, as nccl-tests defines it.
    #[must_use]
    pub fn busbw(&self, size: Volume, collective: Collective, ranks: u32) -> Bandwidth {
        self.algbw(size) * collective.busbw_factor(ranks)
    }
}

/// Seconds, and seconds per byte, at one P.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Load {
    pub latency: f64,
    pub transfer: f64,
    pub compute: f64,
}

impl Load {
    fn map2(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            latency: f(self.latency, other.latency),
            transfer: f(self.transfer, other.transfer),
            compute: f(self.compute, other.compute),
        }
    }
}

/// A closed form with all values inserted except M.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prepared {
    pipeline: Pipeline,
    launch: f64,
    /// Whether γ is unknown although something is reduced.
    compute_unknown: bool,
}

/// Whether an algorithm applies to a shape on the machine that it was filled from.
pub(crate) fn applies(
    algorithm: &dyn Algorithm,
    shape: &Shape,
    fabric: &Fabric,
) -> std::result::Result<(), Reason> {
    algorithm.applies(shape)?;
    too_far(algorithm, shape, fabric).map_or(Ok(()), |why| Err(Reason::new(why)))
}

/// Why an algorithm does not apply to a torus: a price knows no links on the way, so all messages must be
/// between neighbours. Calls with a root and messages between two ranks are limited by the links of one rank,
/// and their messages on the way are not counted.
fn too_far(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Option<&'static str> {
    use Collective as C;
    if !fabric.has_torus() {
        return None;
    }
    if matches!(shape.collective, C::SendRecv | C::Gather | C::Scatter | C::Barrier) {
        return None;
    }
    let slice = fabric.slice(shape.ranks);
    let is_open = slice.is_some_and(Torus::is_open);
    match algorithm.meta().id {
        "torus" if is_open => return Some("the ends of the sides of this slice have no link"),
        "mesh" if !is_open => return Some("the ends of a side of this slice have links, too"),
        "torus" | "mesh" => return None,
        _ => {}
    }
    let sides = slice.map(|slice| slice.sides);
    let is_line = sides.is_some_and(|s| s.lengths().iter().filter(|&&side| side > 1).count() < 2);
    let is_open_line = is_line && is_open;
    let (mut is_ring, mut meets) = (true, false);
    algorithm.steps(shape, &mut |step| {
        meets |= step.at_once > 1 || matches!(step.route, Route::Pairs(_));
        // Between slices a message leaves by the network.
        is_ring &= step.level == Level::Outer
            || match step.route {
                Route::Side(_) => true,
                Route::Offset(d) => d == 1,
                Route::Pairs(d) => d == 1 || d == shape.ranks - 1,
                _ => false,
            };
    });
    match is_ring {
        false => Some("its messages go farther than to the neighbours on a torus"),
        // What passes from the last to the first uses each link back, once.
        true if is_open_line && meets => {
            Some("both ways at once meet what passes between the ends of a line")
        }
        true => None,
    }
}

/// The load as a function of P.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pipeline {
    /// P is given, or is not a parameter.
    Fixed { segments: u32, load: Load },
    /// From P = 2 on: latency a + b·P, bytes c + d/P. `first` is P = 1.
    Free { first: Load, fixed: Load, varying: Load },
    /// Stages that use different ports, with P given or free.
    Staged { segments: Option<u32>, staged: Staged },
}

/// A pipeline over several kinds of ports: fill + (P − 1)·(the busiest port's load), with segments
/// of M/P.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Staged {
    /// The whole load at P = 1.
    first: Load,
    /// The first of several segments, as if it were all of M.
    fill: Load,
    /// The load of such a segment on the ports inside, on those between, and on the adding rank.
    ports: [Load; 3],
}

/// P beyond which no pipeline goes: more segments than any buffer has elements.
const MOST_SEGMENTS: f64 = 1e9;

impl Prepared {
    /// Inserts the machine into the closed form of `algorithm`.
    ///
    /// The ports are those of `shape`; take them from [`Fabric::ports`] unless others are
    /// requested.
    ///
    /// # Errors
    /// The algorithm does not apply, or needs an unknown parameter.
    pub fn new(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Self> {
        let shape = fabric.fill(shape);
        applies(algorithm, &shape, fabric).map_err(|why| refuse(algorithm, &why))?;
        Self::applicable(algorithm, &shape, fabric)
    }

    /// The same for a shape that is known to apply and to match the machine.
    pub(crate) fn applicable(
        algorithm: &dyn Algorithm,
        shape: &Shape,
        fabric: &Fabric,
    ) -> Result<Self> {
        let load = |segments: u32| {
            let at = if segments == 0 { *shape } else { shape.with_segments(segments) };
            load(algorithm, &at, fabric)
        };
        let free = algorithm.is_pipelined() && shape.params.segments.is_none();
        let pipeline = if let Some(staged) = staged(algorithm, shape, fabric)? {
            let segments = shape.params.segments.map(NonZeroU32::get);
            Pipeline::Staged { segments, staged }
        } else if free {
            let (first, two, three) = (load(1)?, load(2)?, load(3)?);
            let varying = Load {
                latency: three.latency - two.latency,
                transfer: 6.0 * (two.transfer - three.transfer),
                compute: 6.0 * (two.compute - three.compute),
            };
            let fixed = Load {
                latency: two.latency - 2.0 * varying.latency,
                transfer: two.transfer - varying.transfer / 2.0,
                compute: two.compute - varying.compute / 2.0,
            };
            Pipeline::Free { first, fixed, varying }
        } else {
            Pipeline::Fixed { segments: shape.segments(), load: load(0)? }
        };
        let compute_unknown = fabric.gamma.is_none() && shape.collective.reduces();
        Ok(Self { pipeline, launch: launch(shape, fabric), compute_unknown })
    }

    /// The same for another stated cost, which applies only to equal links.
    ///
    /// # Errors
    /// Errors of [`Self::new`]; ranks that span several tiers; an algorithm without such a form.
    pub fn stated(
        algorithm: &dyn Algorithm,
        form: Form,
        shape: &Shape,
        fabric: &Fabric,
    ) -> Result<Self> {
        if form == Form::Exact {
            return Self::new(algorithm, shape, fabric);
        }
        algorithm.applies(shape).map_err(|why| refuse(algorithm, &why))?;
        let id = algorithm.meta().id;
        if fabric.depth(shape.ranks)? > 1 {
            return Err(Error::unsupported(format!(
                "`{id}` as printed covers only one tier of links"
            ))
            .help("use ranks inside one node, or give only --alpha and --bw"));
        }
        let cost = algorithm
            .price_form(&At::numbers(*shape), form)
            .ok_or_else(|| Error::unsupported(format!("`{id}` has no such form")))?;
        let load = flat_load(&cost.total(), shape, fabric)?;
        let pipeline = Pipeline::Fixed { segments: shape.segments(), load };
        let compute_unknown = fabric.gamma.is_none() && shape.collective.reduces();
        Ok(Self { pipeline, launch: launch(shape, fabric), compute_unknown })
    }

    /// The price for `size` bytes.
    #[inline]
    #[must_use]
    pub fn price(&self, size: Volume) -> Price {
        let (segments, load) = match self.pipeline {
            Pipeline::Fixed { segments, load } => (segments, load),
            Pipeline::Free { first, fixed, varying } => best(first, fixed, varying, size.0),
            Pipeline::Staged { segments: Some(p), staged } => (p, staged.at(p, size.0)),
            Pipeline::Staged { segments: None, staged } => staged.best(size.0),
        };
        self.of_load(segments, load, size)
    }

    #[inline]
    fn of_load(&self, segments: u32, load: Load, size: Volume) -> Price {
        Price {
            segments,
            latency: Seconds(load.latency),
            bandwidth: Seconds(load.transfer * size.0),
            compute: (!self.compute_unknown).then_some(Seconds(load.compute * size.0)),
            launch: Seconds(self.launch),
        }
    }

    /// The price if segments have `segment` bytes and are sent before the ones ahead have arrived: α
    /// delays the first alone.
    ///
    /// [`Self::price`] has a port busy for α with every message, as a schedule that is simulated does.
    #[must_use]
    pub(crate) fn sent_ahead(&self, size: Volume, segment: Volume) -> Price {
        let segments = (size.0 / segment.0.max(1.0)).ceil().clamp(1.0, MOST_SEGMENTS) as u32;
        let p = f64::from(segments);
        let load = match self.pipeline {
            Pipeline::Fixed { .. } | Pipeline::Staged { segments: Some(_), .. } => {
                return self.price(size);
            }
            Pipeline::Free { first, .. } if segments == 1 => first,
            Pipeline::Free { fixed, varying, .. } => Load {
                latency: fixed.latency + varying.latency,
                transfer: fixed.transfer + varying.transfer / p,
                compute: fixed.compute + varying.compute / p,
            },
            Pipeline::Staged { segments: None, mut staged } => {
                for port in &mut staged.ports {
                    port.latency = 0.0;
                }
                staged.at(segments, size.0)
            }
        };
        self.of_load(segments, load, size)
    }

    /// The time for `size` bytes.
    #[inline]
    #[must_use]
    pub fn time(&self, size: Volume) -> Seconds {
        self.price(size).total()
    }

    /// P*, the real number of segments at the minimum of the line; absent if P is fixed.
    #[must_use]
    pub fn best_segments(&self, size: Volume) -> Option<Ratio> {
        match self.pipeline {
            Pipeline::Fixed { .. } | Pipeline::Staged { segments: Some(_), .. } => None,
            Pipeline::Free { varying, .. } => {
                let split = (varying.transfer + varying.compute) * size.0;
                Some(Ratio((split / varying.latency).sqrt()))
            }
            Pipeline::Staged { segments: None, staged } => {
                Some(Ratio(f64::from(staged.best(size.0).0)))
            }
        }
    }

    /// The launch overhead; P if it is fixed; and loads of latency, transfer and compute. The loads
    /// are those of that P; or of P = 1, of the part common to all P, and of the parts that grow
    /// with P or shrink with it; where stages overlap, of P = 1, of the first segment as if it were
    /// all of M, of the ports inside, of those between and of the adding rank. `None` where such
    /// stages have a given P.
    pub(crate) fn loads(&self) -> Option<(Seconds, Option<u32>, Vec<Load>)> {
        let (segments, loads) = match self.pipeline {
            Pipeline::Fixed { segments, load } => (Some(segments), vec![load]),
            Pipeline::Free { first, fixed, varying } => (None, vec![first, fixed, varying]),
            Pipeline::Staged { segments: None, staged: Staged { first, fill, ports } } => {
                (None, [&[first, fill], &ports[..]].concat())
            }
            Pipeline::Staged { .. } => return None,
        };
        Some((Seconds(self.launch), segments, loads))
    }

    /// Latency and seconds per byte, if the price is linear in M.
    pub(crate) fn line(&self) -> Option<(f64, f64)> {
        match self.pipeline {
            Pipeline::Fixed { load, .. } => {
                Some((self.launch + load.latency, load.transfer + load.compute))
            }
            Pipeline::Free { .. } | Pipeline::Staged { .. } => None,
        }
    }
}

impl Staged {
    /// The load per byte of M at P segments; of several ports the busiest counts.
    fn at(&self, segments: u32, size: f64) -> Load {
        if segments == 1 {
            return self.first;
        }
        let p = f64::from(segments);
        let one = |load: &Load| load.latency + (load.transfer + load.compute) * size / p;
        let [inside, between, adds] = &self.ports;
        let slower = |a, b| if one(b) > one(a) { b } else { a };
        let slowest = slower(slower(inside, between), adds);
        let behind = p - 1.0;
        Load {
            latency: self.fill.latency + behind * slowest.latency,
            transfer: (self.fill.transfer + behind * slowest.transfer) / p,
            compute: (self.fill.compute + behind * slowest.compute) / p,
        }
    }

    /// The best P and its load.
    ///
    /// For each port the time is a + b·P + d/P. The maximum of such functions is convex too, so its
    /// minimum is at the minimum of one of them, where two cross, or at an end.
    fn best(&self, size: f64) -> (u32, Load) {
        let bytes = |load: &Load| (load.transfer + load.compute) * size;
        let most = size.clamp(1.0, MOST_SEGMENTS);
        let mut winner = (1, self.first);
        let mut least = self.first.latency + bytes(&self.first);
        let mut attempt = |star: f64| {
            for p in [star.floor(), star.ceil()] {
                // NaN where two ports have the same load.
                if !(2.0..=most).contains(&p) {
                    continue;
                }
                let load = self.at(p as u32, size);
                let time = load.latency + bytes(&load);
                if time < least {
                    least = time;
                    winner = (p as u32, load);
                }
            }
        };
        attempt(2.0);
        attempt(most);
        for (i, one) in self.ports.iter().enumerate() {
            attempt(((bytes(&self.fill) - bytes(one)) / one.latency).sqrt());
            for other in &self.ports[i + 1..] {
                attempt((bytes(other) - bytes(one)) / (one.latency - other.latency));
            }
        }
        winner
    }
}

/// The loads of the stages, if `algorithm` has stages and the ranks span several tiers.
fn staged(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Option<Staged>> {
    let at = |segments| stages(algorithm, &shape.with_segments(segments), fabric);
    let (Some(one), Some(two)) = (at(1)?, at(2)?) else { return Ok(None) };
    let gamma = fabric.gamma.map_or(0.0, |g| g.0);
    let sum = |mut steps: &mut dyn Iterator<Item = &Step>| -> Result<Load> {
        (&mut steps).try_fold(Load::default(), |sum, step| {
            let load = step_load(step, shape, fabric, gamma)?;
            Ok(sum.map2(load, |a, b| a + step.count as f64 * b))
        })
    };
    // There a segment is half of M.
    let doubled =
        |load: Load| Load { transfer: 2.0 * load.transfer, compute: 2.0 * load.compute, ..load };
    let port = |level: Level| -> Result<Load> {
        let load = doubled(sum(&mut two.each.iter().filter(|step| step.level == level))?);
        Ok(Load { compute: 0.0, ..load })
    };
    let adds = doubled(sum(&mut two.each.iter())?).compute;
    let adds = Load { compute: adds, ..Load::default() };
    Ok(Some(Staged {
        first: sum(&mut one.fill.iter())?,
        fill: doubled(sum(&mut two.fill.iter())?),
        ports: [port(Level::Inner)?, port(Level::Outer)?, adds],
    }))
}

/// The steps of a stage in which fewer NICs than ranks carry a domain's shards: those of one NIC,
/// one after another. With one segment some NIC has the most; with many each has its share. A rank
/// adds its own shard alone, while the others' are on their way.
fn in_turns(steps: Vec<Step>, nics: u32, many: bool) -> Vec<Step> {
    let mut taken = Vec::new();
    for step in steps {
        if step.level != Level::Outer || step.flows <= nics {
            taken.push(step);
            continue;
        }
        let shards = if many { step.flows } else { step.flows.next_multiple_of(nics) };
        let all = (step.count * u64::from(shards)).div_ceil(u64::from(nics));
        let own = Step { flows: nics, ..step };
        if step.reduced == Share::NONE {
            taken.push(Step { count: all, ..own });
        } else {
            taken.push(own);
            taken.push(Step { count: all - step.count, reduced: Share::NONE, ..own });
        }
    }
    taken
}

/// The stages of `algorithm` on a machine, if its ranks span several tiers.
fn stages(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Option<Stages>> {
    let depth = fabric.depth(shape.ranks)?;
    if depth == 1 {
        return Ok(None);
    }
    let Some(Stages { fill, each }) = algorithm.stages(shape) else { return Ok(None) };
    let domain = fabric.group().map_or(shape.ranks, NonZeroU32::get);
    let nics = fabric.tiers[1..depth].iter().filter_map(|tier| tier.nics).min();
    let nics = nics.map_or(domain, NonZeroU32::get);
    let (fill, each) = (in_turns(fill, nics, false), in_turns(each, nics, true));
    Ok(Some(Stages { fill, each }))
}

/// The sequential steps that make up a price.
pub(crate) struct InTurn {
    /// All steps, or, if stages use different ports, those of the first segment and of the busiest port.
    pub messages: Vec<Step>,
    /// Those of further segments whose additions alone count: a rank takes longer to add than any port to move.
    pub additions: Vec<Step>,
}

impl InTurn {
    /// Those of the price for `size` bytes.
    ///
    /// # Errors
    /// More ranks than the machine joins, or an unknown parameter that a step needs.
    pub(crate) fn new(
        algorithm: &dyn Algorithm,
        shape: &Shape,
        fabric: &Fabric,
        size: Volume,
    ) -> Result<Self> {
        let mut messages = Vec::new();
        let Some(Stages { fill, mut each }) = stages(algorithm, shape, fabric)? else {
            algorithm.steps(shape, &mut |step| messages.push(step));
            return Ok(Self { messages, additions: Vec::new() });
        };
        let gamma = fabric.gamma.map_or(0.0, |g| g.0);
        let (mut ports, mut adds) = ([0.0; 2], 0.0);
        let place = |step: &Step| usize::from(step.level == Level::Outer);
        for step in &each {
            let load = step_load(step, shape, fabric, gamma)?;
            let count = step.count as f64;
            ports[place(step)] += count * (load.latency + load.transfer * size.0);
            adds += count * load.compute * size.0;
        }
        let slowest = usize::from(ports[1] > ports[0]);
        let further = |fill, each, emit: &mut dyn FnMut(Step)| {
            Stages { fill, each }.on_one_port(shape.segments(), emit);
        };
        let mut additions = Vec::new();
        if adds > ports[slowest] {
            messages = fill;
            further(Vec::new(), each, &mut |step| additions.push(step));
        } else {
            each.retain(|step| place(step) == slowest);
            // What is added meanwhile takes less time than they do.
            each.iter_mut().for_each(|step| step.reduced = Share::NONE);
            further(fill, each, &mut |step| messages.push(step));
        }
        Ok(Self { messages, additions })
    }
}

/// The cheapest of P = 1 and the integer neighbours of P*.
#[inline]
fn best(first: Load, fixed: Load, varying: Load, size: f64) -> (u32, Load) {
    let time = |load: &Load| load.latency + (load.transfer + load.compute) * size;
    let at = |p: f64| Load {
        latency: fixed.latency + varying.latency * p,
        transfer: fixed.transfer + varying.transfer / p,
        compute: fixed.compute + varying.compute / p,
    };
    let split = (varying.transfer + varying.compute) * size;
    if split <= 0.0 {
        return (1, first);
    }
    // A segment holds at least one byte; with α = 0 this is the only limit.
    let most = size.clamp(1.0, MOST_SEGMENTS);
    let star = (split / varying.latency).sqrt().min(most);
    let mut winner = (1, first);
    let mut least = time(&first);
    for p in [star.floor(), star.ceil()] {
        if p < 2.0 {
            continue;
        }
        let load = at(p);
        if time(&load) < least {
            least = time(&load);
            winner = (p as u32, load);
        }
    }
    winner
}

/// One rank calls nothing.
fn launch(shape: &Shape, fabric: &Fabric) -> f64 {
    if shape.ranks > 1 { fabric.launch.0 } else { 0.0 }
}

/// That an algorithm does not apply, and why.
pub(crate) fn refuse(algorithm: &dyn Algorithm, why: &Reason) -> Error {
    Error::unsupported(format!("`{}` does not apply: {why}", algorithm.meta().id))
}

/// The load of a shape with a fixed P.
fn load(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Load> {
    let n = shape.ranks;
    if fabric.depth(n)? == 1 {
        let phase = algorithm.price(&At::numbers(*shape)).total();
        return flat_load(&phase, shape, fabric);
    }
    let gamma = fabric.gamma.map_or(0.0, |g| g.0);
    let mut sum = Load::default();
    let mut fault = None;
    algorithm.steps(shape, &mut |step| {
        if fault.is_some() {
            return;
        }
        let priced = step_load(&step, shape, fabric, gamma);
        match priced {
            Ok(one) => sum = sum.map2(one, |a, b| a + step.count as f64 * b),
            Err(e) => fault = Some(e),
        }
    });
    fault.map_or(Ok(sum), Err)
}

/// The use of the links of one tier by an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// The tier, from the innermost out.
    pub tier: usize,
    /// Sequential messages over it.
    pub messages: Ratio,
    /// Vectors through its busiest port.
    pub share: Ratio,
}

/// The use of each tier by `algorithm`, with the number of segments in `shape`.
///
/// # Errors
/// More ranks than the machine joins.
pub fn uses(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> Result<Vec<Use>> {
    let shape = fabric.fill(shape);
    let depth = fabric.depth(shape.ranks)?;
    let none = |tier| Use { tier, messages: Ratio(0.0), share: Ratio(0.0) };
    let mut uses: Vec<Use> = (0..depth).map(none).collect();
    let mut fault = None;
    algorithm.steps(&shape, &mut |step| match busy(&step, &shape, fabric) {
        Ok(busy) => {
            let count = step.count as f64;
            let one = &mut uses[busy.tier];
            one.messages.0 += count;
            one.share.0 += count * step.share.value() * busy.load;
            for (tier, load) in busy.beside() {
                uses[tier].share.0 += count * step.share.value() * load;
            }
        }
        Err(e) => fault = Some(e),
    });
    fault.map_or(Ok(uses), Err)
}

/// The load on equal links.
fn flat_load(phase: &Phase<f64>, shape: &Shape, fabric: &Fabric) -> Result<Load> {
    let tier = &fabric.tiers[0];
    let mut load = Load::default();
    if phase.alpha != 0.0 {
        load.latency += phase.alpha * tier.alpha()?;
    }
    if phase.switch != 0.0 {
        load.latency += phase.switch * switch_alpha(shape, tier)?;
    }
    if phase.beta != 0.0 {
        let through_switch = phase.switch != 0.0;
        let inverse = if through_switch { tier.switch_inverse() } else { tier.inverse() };
        load.transfer = phase.beta * inverse?;
    }
    load.compute = phase.gamma * fabric.gamma.map_or(0.0, |g| g.0);
    Ok(load)
}

/// The links that a step keeps busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Busy {
    /// The tier that its messages cross, from the innermost out.
    pub tier: usize,
    /// Whether they go through the switch of that tier.
    pub switch: bool,
    /// Messages through the busiest port there.
    pub load: f64,
    /// The same of the busiest tier between that and the innermost.
    pub between: Option<(usize, f64)>,
    /// The same of the innermost tier, for those that stay inside at the same time.
    pub inner_load: f64,
}

/// The links that a step keeps busy.
///
/// # Errors
/// More ranks than the machine joins, or than a switch does.
pub(crate) fn busy(step: &Step, shape: &Shape, fabric: &Fabric) -> Result<Busy> {
    let depth = fabric.depth(shape.ranks)?;
    if step.route == Route::Switch {
        let (tier, load) = match step.level {
            Level::Flat if depth > 1 => return Err(beyond_switch(shape, fabric)),
            Level::Outer => (depth - 1, fabric.crossing(step, shape.ranks)?.load),
            Level::Flat | Level::Inner => (0, 1.0),
        };
        return Ok(Busy { tier, switch: true, load, between: None, inner_load: 0.0 });
    }
    let Crossing { tier, load, between, inner_load } = fabric.crossing(step, shape.ranks)?;
    Ok(Busy { tier, switch: false, load, between, inner_load })
}

impl Busy {
    /// The tier whose port is busy the longest, the messages through it, and the inverse of its rate.
    ///
    /// # Errors
    /// An unknown rate.
    pub(crate) fn longest(&self, fabric: &Fabric) -> Result<(usize, f64, f64)> {
        let tier = &fabric.tiers[self.tier];
        let inverse = if self.switch { tier.switch_inverse()? } else { tier.inverse()? };
        let mut longest = (self.tier, self.load, inverse);
        for (tier, load) in self.beside() {
            let inverse = fabric.tiers[tier].inverse()?;
            if load * inverse > longest.1 * longest.2 * (1.0 + 1e-12) {
                longest = (tier, load, inverse);
            }
        }
        Ok(longest)
    }

    /// The tiers below that are busy at the same time, with their loads.
    fn beside(&self) -> impl Iterator<Item = (usize, f64)> + use<> {
        let inner = (self.tier > 0 && self.inner_load > 0.0).then_some((0, self.inner_load));
        self.between.into_iter().chain(inner)
    }
}

/// The load of one message of a step.
pub(crate) fn step_load(step: &Step, shape: &Shape, fabric: &Fabric, gamma: f64) -> Result<Load> {
    let share = step.share.value();
    let busy = busy(step, shape, fabric)?;
    let tier = &fabric.tiers[busy.tier];
    let latency = if busy.switch { switch_alpha(shape, tier)? } else { tier.alpha()? };
    let mut transfer = 0.0;
    if share > 0.0 {
        let (_, load, inverse) = busy.longest(fabric)?;
        transfer = share * load * inverse;
    }
    Ok(Load { latency, transfer, compute: step.reduced.value() * gamma })
}

/// α_sw of a tier, if its switch has the functions that the collective needs.
fn switch_alpha(shape: &Shape, tier: &Tier) -> Result<f64> {
    let Some(switch) = tier.switch else {
        return Err(Error::unsupported(format!(
            "{} has no switch that adds or multicasts",
            tier.name
        ))
        .help("if those of a network do, give --alpha-switch sharp"));
    };
    let (multicast, alu) = capabilities(shape.collective);
    if (multicast && !switch.multicast) || (alu && !switch.alu) {
        let lacks = if alu && !switch.alu { "add" } else { "multicast" };
        return Err(Error::unsupported(format!("the switch of {} cannot {lacks}", tier.name)));
    }
    switch.alpha.map(|a| a.0).ok_or_else(|| {
        Error::unknown("messages through the switch need a parameter that is unknown")
            .at(format!("α_sw of {}", tier.name))
    })
}

/// Whether a switch must multicast, and whether it must add.
fn capabilities(collective: Collective) -> (bool, bool) {
    match collective {
        Collective::Broadcast | Collective::AllGather => (true, false),
        Collective::Reduce | Collective::ReduceScatter => (false, true),
        Collective::AllReduce => (true, true),
        _ => (false, false),
    }
}

fn beyond_switch(shape: &Shape, fabric: &Fabric) -> Error {
    let tier = &fabric.tiers[0];
    let domains = tier.span.map_or(1, |s| shape.ranks.div_ceil(s.get()));
    Error::unsupported(format!("{} ranks span {domains} {} domains", shape.ranks, tier.name))
}

/// The time with whole elements per message: sizes that do not divide evenly are rounded up.
///
/// The vector has `elements` of `each` bytes; the first parts are one element larger (a convention
/// shared by nccl-tests and MPI). The number of segments is the best for M.
///
/// # Errors
/// As [`Prepared::new`].
pub fn price_elements(
    algorithm: &dyn Algorithm,
    shape: &Shape,
    fabric: &Fabric,
    elements: u64,
    each: Bytes,
) -> Result<Price> {
    let size = Volume(elements as f64 * each.0 as f64);
    let smooth = Prepared::new(algorithm, shape, fabric)?.price(size);
    let shape = fabric.fill(shape).with_segments(smooth.segments);
    let gamma = fabric.gamma.map_or(0.0, |g| g.0);
    let mut bandwidth = 0.0;
    let InTurn { messages, additions } = InTurn::new(algorithm, &shape, fabric, size)?;
    for step in &messages {
        // The load of a step is linear in its share: scale it to the largest message.
        let share = step.share.value();
        if share > 0.0 {
            let bytes = (step.share.elements(elements) * each.0) as f64;
            let load = step_load(step, &shape, fabric, gamma)?;
            bandwidth += step.count as f64 * load.transfer / share * bytes;
        }
    }
    let added = |step: &Step| step.count as f64 * (step.reduced.elements(elements) * each.0) as f64;
    let compute = gamma * messages.iter().chain(&additions).map(added).sum::<f64>();
    let price = Price {
        bandwidth: Seconds(bandwidth),
        compute: smooth.compute.map(|_| Seconds(compute)),
        ..smooth
    };
    Ok(price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fabric::Switch;
    use crate::model::algorithm::Registry;

    fn machine(alpha: f64) -> Fabric {
        let seconds = Seconds(alpha);
        let switch = Switch { alpha: Some(seconds), bandwidth: None, multicast: true, alu: true };
        let tier =
            |name, rate| Tier { switch: Some(switch), ..Tier::new(name, seconds, Bandwidth(rate)) };
        let inside = Tier { span: NonZeroU32::new(4), ..tier("inside", 8.0) };
        Fabric::new(vec![inside, tier("between", 1.0)])
    }

    /// Sent ahead, only the first segment pays α: without α nothing changes, with it later ones are
    /// cheaper.
    #[test]
    fn segments_that_are_sent_ahead_pay_alpha_once() {
        let registry = Registry::builtin();
        let size = Volume(960.0);
        for id in ["nvlstree", "tree-rails", "nvls-sharp", "collnet-chain", "chain-rails"] {
            let collective = match id {
                "chain-rails" => Collective::Broadcast,
                _ => Collective::AllReduce,
            };
            let shape = Shape { group: NonZeroU32::new(4), ..Shape::new(collective, 16) };
            let algorithm = registry.find(collective, id).unwrap().algorithm;
            for segments in [1_u32, 2, 3, 12] {
                let at = |alpha| {
                    let (free, fixed) = (shape, shape.with_segments(segments));
                    let price = |shape: &Shape| Prepared::new(algorithm, shape, &machine(alpha));
                    let each = Volume(size.0 / f64::from(segments));
                    let ahead = price(&free).unwrap().sent_ahead(size, each);
                    (ahead, price(&fixed).unwrap().price(size))
                };
                let (ahead, held) = at(0.0);
                assert!((ahead.total().0 / held.total().0 - 1.0).abs() < 1e-9, "{id} {segments}");
                let (ahead, held) = at(1.0);
                assert!(ahead.total().0 <= held.total().0 * (1.0 + 1e-9), "{id} {segments}");
                assert!(ahead.latency.0 > 0.0 && ahead.latency <= held.latency, "{id} {segments}");
            }
        }
    }
}
