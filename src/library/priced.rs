//! The cost of a choice on a machine: its parts priced by the closed forms and summed.

use std::borrow::Cow;
use std::num::NonZeroU32;

use super::{Choice, Part, Runs, Where};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::cost::price::{OnLinks, Prepared};
use crate::machine::fabric::{Fabric, Order};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::{Params, Shape};

/// The cost of a choice, or why nothing here prices it.
#[derive(Debug, Clone, PartialEq)]
pub enum Priced {
    /// The time.
    Time(Seconds),
    /// Why there is no time.
    Unknown(String),
}

impl Priced {
    /// The time, if there is one.
    #[must_use]
    pub fn time(&self) -> Option<Seconds> {
        match self {
            Self::Time(time) => Some(*time),
            Self::Unknown(_) => None,
        }
    }
}

/// The time of a choice for `size` bytes, M of the call.
///
/// Parts run one after another, and one call pays the launch once. Leaders do not share their
/// node's links. `shape` and `fabric` are those of the question.
///
/// # Errors
/// A parameter that a part needs is unknown.
pub fn priced(
    registry: &Registry,
    choice: &Choice,
    shape: &Shape,
    fabric: &Fabric,
    size: Bytes,
) -> Result<Priced> {
    priced_by(registry, choice, shape, fabric, size, |asked| Ok(asked.prepared.time(asked.wire)))
}

/// The same on the measured links.
///
/// # Errors
/// The errors of [`priced`].
pub fn priced_on_links(
    registry: &Registry,
    choice: &Choice,
    shape: &Shape,
    fabric: &Fabric,
    size: Bytes,
) -> Result<Priced> {
    priced_by(registry, choice, shape, fabric, size, |asked| asked.on_links())
}

/// The parts of a choice one after another, each priced by `time`.
pub(crate) fn priced_by(
    registry: &Registry,
    choice: &Choice,
    shape: &Shape,
    fabric: &Fabric,
    size: Bytes,
    mut time: impl FnMut(&Asked<'_>) -> Result<Seconds>,
) -> Result<Priced> {
    let parts = match &choice.runs {
        Runs::Parts(parts) => parts,
        Runs::Unpriced(why) => return Ok(Priced::Unknown(why.clone().into_owned())),
    };
    let mut sum = fabric.launch;
    for part in parts.iter().filter(|p| p.ranks > 1) {
        let asked = asked(registry, part, shape, fabric, size);
        match asked.and_then(|asked| Ok(time(&asked)? - fabric.launch)) {
            Ok(time) => sum = sum + time,
            Err(error) if error.is_unsupported() => {
                return Ok(Priced::Unknown(error.what().to_owned()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Priced::Time(sum))
}

/// A part ready to be priced.
pub(crate) struct Asked<'f> {
    pub algorithm: &'static dyn Algorithm,
    pub prepared: Prepared,
    pub shape: Shape,
    pub fabric: Cow<'f, Fabric>,
    /// The bytes that it moves.
    pub wire: Volume,
}

impl Asked<'_> {
    /// Its time on the measured links.
    pub(crate) fn on_links(&self) -> Result<Seconds> {
        let Self { algorithm, prepared, shape, fabric, wire } = self;
        Ok(OnLinks::beside(*prepared, *algorithm, shape, fabric)?.at(*wire))
    }
}

/// The algorithm of a part with everything except M, and the bytes that it moves for `size`.
///
/// # Errors
/// The errors of [`priced`]; a part that has no price.
fn asked<'f>(
    registry: &Registry,
    part: &Part,
    shape: &Shape,
    fabric: &'f Fabric,
    size: Bytes,
) -> Result<Asked<'f>> {
    let fabric = match part.place {
        Where::Leaders => {
            Cow::Owned(between_leaders(fabric, shape, part.of.unwrap_or(part.ranks))?)
        }
        Where::All | Where::InNode => Cow::Borrowed(fabric),
    };
    let fabric = match part.of {
        Some(all) => Cow::Owned(between_chosen(&fabric, part, all)),
        None => fabric,
    };
    let algorithm = registry.find(part.collective, part.algorithm)?.algorithm;
    let segments: u32 = match part.segment {
        Some(each) => size.0.div_ceil(each.0.max(1)).clamp(1, u64::from(u32::MAX)) as u32,
        None => 1,
    };
    // The question sets rails, ports and trees; the library sets segments and radix.
    let segments = if part.best_segments { None } else { NonZeroU32::new(segments) };
    let params = Params { segments, radix: part.radix.or(shape.params.radix), ..shape.params };
    let whole = part.place == Where::All && part.of.is_none();
    let group = shape.group.filter(|_| whole);
    let ranks = match part.least {
        Some(element) => (size.0 / element.0.max(1)).clamp(1, part.ranks.into()) as u32,
        None => part.ranks,
    };
    let asked = Shape { group, params, ports: shape.ports, ..Shape::new(part.collective, ranks) };
    let prepared = Prepared::new(algorithm, &asked, &fabric)?;
    let wire = Volume(Volume::from(size).0 * part.wire.0 * part.moves.0);
    Ok(Asked { algorithm, prepared, shape: asked, fabric, wire })
}

/// The links of a fold over `all` ranks: its part has as many ranks of each domain as of any other, or is the pair
/// of neighbours with the farthest way.
fn between_chosen(fabric: &Fabric, part: &Part, all: u32) -> Fabric {
    let mut fabric = fabric.clone();
    // Pairs are the first ranks: as many as there are beyond a power of two.
    let paired = 2 * (all - (1 << all.ilog2()));
    let mut below: Option<(u32, u32)> = None;
    for tier in &mut fabric.tiers {
        let Some(span) = tier.span.map(NonZeroU32::get).filter(|&span| span < all) else { break };
        let parted = fabric.order == Order::Cyclic || !span.is_multiple_of(2) && span < paired;
        let chosen = match below {
            _ if part.is_pair => 2 - u32::from(parted),
            // So that domains remain made of domains.
            Some((before, left)) => left * span.div_ceil(before),
            None => part.ranks.div_ceil(all.div_ceil(span)),
        };
        below = Some((span, chosen));
        tier.span = NonZeroU32::new(chosen);
    }
    fabric
}

/// One rank of each node: the tiers outside nodes, where every leader has its own NIC.
fn between_leaders(fabric: &Fabric, shape: &Shape, leaders: u32) -> Result<Fabric> {
    let per_node = shape.ranks.div_ceil(leaders.max(1));
    let node = fabric.tiers.iter().position(|t| t.span.is_some_and(|s| s.get() >= per_node));
    let outer = node.map_or(&fabric.tiers[..], |i| &fabric.tiers[i + 1..]);
    if outer.is_empty() {
        return Err(Error::unsupported("the machine has no links between nodes"));
    }
    let mut outer = outer.to_vec();
    for tier in &mut outer {
        tier.span = tier.span.and_then(|s| NonZeroU32::new(s.get().div_ceil(per_node)));
        tier.nics = None;
    }
    Ok(Fabric { tiers: outer, ..fabric.clone() })
}
