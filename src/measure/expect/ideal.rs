//! The algorithm that a library runs by its rules, or else the fastest that it ships, over the machine's
//! links: its time on the links as measured, and its ideal price.

use std::sync::OnceLock;

use super::runs::{Ruler, Runs};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::cost::price::Price;
use crate::cost::rank::{Candidate, Contender, candidates, contenders, keep_shipped};
use crate::library::nccl::policy::runs_in;
use crate::library::{self, Choice, Pipeline};
use crate::machine::fabric::Fabric;
use crate::machine::query::Query;
use crate::model::algorithm::{Algorithm, Guarantee, Library, Registry};
use crate::model::formula::{Params, Protocol, Shape};

/// The time of one call over the machine's links, and its algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priced {
    /// The algorithm's id; [`NOTHING`] for one rank, and if what runs is made of other operations.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Its ideal price; with several consecutive parts, that of the slowest.
    pub price: Price,
    /// The whole time on the links as measured: the ideal price if those have only α and BW.
    pub time: Seconds,
    /// Whether this replaces the choice of the rules, which has no price here.
    pub stands_in: bool,
}

/// The id if nothing runs, or nothing has a price.
pub const NOTHING: &str = "none";

/// What runs reach of a NIC beyond what profiles say where they state no line rate: 49 of 50 GB/s, not 48.
const LEAST: Ratio = Ratio(48.0 / 49.0);

const NO_PRICE: Price = Price {
    segments: 1,
    latency: Seconds(0.0),
    bandwidth: Seconds(0.0),
    compute: Some(Seconds(0.0)),
    launch: Seconds(0.0),
};

/// One query over the machine's links, for any size.
pub struct Ideal<'r> {
    registry: &'r Registry,
    library: Option<Library>,
    protocol: Option<Protocol>,
    shape: Shape,
    fabric: Fabric,
    /// The candidates if no rules apply; the fastest is used. Made on first use.
    ready: OnceLock<Vec<Contender>>,
    ruler: Option<Ruler>,
    /// The algorithm that was named, over links that lose nothing.
    line: Option<Candidate>,
    /// Whether the algorithm that was named needs switches that add or multicast.
    by_switches: bool,
}

impl<'r> Ideal<'r> {
    /// Gets ready for `query` over the links of `fabric`; `only` names an algorithm.
    ///
    /// # Errors
    /// An unknown algorithm or one that does not apply, or an unknown parameter that the price needs.
    pub fn new(
        registry: &'r Registry,
        query: &Query,
        fabric: &Fabric,
        only: Option<&str>,
    ) -> Result<Self> {
        let shape = placed(query, fabric)?;
        let (library, protocol) = (query.library(), query.machine.protocol);
        let (mut line, mut by_switches) = (None, false);
        let ready = match only {
            Some(name) => {
                let one = |fabric: &Fabric| Candidate::named(registry, name, &shape, fabric);
                line = Some(one(&query.machine.at_line_rate(fabric))?);
                if fabric.tiers.iter().any(|tier| tier.switch.is_some()) {
                    let mut plain = fabric.clone();
                    plain.tiers.iter_mut().for_each(|tier| tier.switch = None);
                    by_switches = one(&plain).is_err();
                }
                contenders(&[one(fabric)?], &shape, fabric)?
            }
            None => taken(registry, (library, protocol), &shape, fabric)?,
        };
        let ruler = if only.is_none() { Ruler::new(query) } else { None };
        let (fabric, ready) = (fabric.clone(), ready.into());
        Ok(Self { registry, library, protocol, shape, fabric, ready, ruler, line, by_switches })
    }

    /// The same if measurements answer and prices may never be needed.
    pub(super) fn beside(registry: &'r Registry, query: &Query, fabric: &Fabric) -> Self {
        Self {
            registry,
            library: query.library(),
            protocol: query.machine.protocol,
            shape: placed(query, fabric).unwrap_or(query.shape),
            fabric: fabric.clone(),
            ready: OnceLock::new(),
            ruler: Ruler::new(query),
            line: None,
            by_switches: false,
        }
    }

    fn ready(&self) -> &[Contender] {
        let Self { registry, library, protocol, shape, fabric, .. } = self;
        let taken = || taken(registry, (*library, *protocol), shape, fabric).unwrap_or_default();
        self.ready.get_or_init(taken)
    }

    /// What runs, and how that is known.
    #[must_use]
    pub fn runs(&self, size: Bytes) -> Runs {
        match self.ruler.as_ref().and_then(|r| r.runs(size)) {
            Some(runs) => runs,
            None => Runs::unknown(self.fastest(Volume::from(size))),
        }
    }

    /// The ideal price of what runs.
    #[must_use]
    pub fn at(&self, size: Bytes) -> Priced {
        let choice = self.ruler.as_ref().and_then(|r| r.choose(size));
        let stands_in = choice.is_some() && self.shape.ranks > 1;
        let by_rules = choice.and_then(|choice| self.chosen(&choice, size));
        by_rules.unwrap_or_else(|| Priced { stands_in, ..self.fastest(Volume::from(size)) })
    }

    /// What the bytes of the algorithm that was named take at the line rate of the links, where its form is exact.
    pub(super) fn bytes(&self, size: Bytes) -> Option<Seconds> {
        let one = self.line.as_ref()?;
        let exact = [Guarantee::Equal, Guarantee::EqualInRounds];
        let is_exact = exact.contains(&one.algorithm.guarantee(&self.shape));
        is_exact.then(|| one.prepared.price(Volume::from(size)).bandwidth * LEAST)
    }

    /// The library whose algorithms run, if it is known.
    pub(super) fn library(&self) -> Option<Library> {
        self.library
    }

    /// The cost of a call on this machine before its first message.
    pub(super) fn launch(&self) -> Seconds {
        self.fabric.launch
    }

    /// How far the price of what runs, without what a call costs before its first message, is above a time, as a
    /// logarithm; 0 if it is below.
    pub(super) fn above(&self, time: Seconds, size: Bytes) -> f64 {
        ((self.at(size).time - self.launch()) / time).0.ln().max(0.0)
    }

    /// The ideal times of what runs, over these links and over `other` links. With other NICs another algorithm may run.
    pub(super) fn on_both(&self, other: &Self, size: Bytes) -> (Seconds, Seconds) {
        let volume = Volume::from(size);
        let choice = |one: &Self| one.ruler.as_ref().and_then(|r| r.choose(size));
        let (Some(mine), Some(others)) = (choice(self), choice(other)) else {
            return (self.fastest(volume).time, other.fastest(volume).time);
        };
        if let Some(here) = self.chosen(&mine, size)
            && let Some(there) = other.chosen(&others, size)
        {
            return (here.time, there.time);
        }
        // The replacement is one algorithm, so only the links make a difference.
        let here = self.fastest(volume);
        let same = other.ready().iter().find(|c| c.algorithm.meta().id == here.id);
        (here.time, same.map_or_else(|| other.fastest(volume).time, |c| c.links.at(volume)))
    }

    /// The choices, each from a size on.
    pub(super) fn switch_points(&self) -> Vec<(Bytes, String)> {
        self.ruler.as_ref().map_or_else(Vec::new, Ruler::switch_points)
    }

    /// The library's own estimate.
    pub(super) fn estimate(&self, size: Bytes) -> Option<Seconds> {
        self.ruler.as_ref().and_then(|r| r.choose(size))?.estimate
    }

    /// The time of what runs over ideal links as the library pipelines it: its own segments, sent before
    /// the ones ahead have arrived, and no less latency than the library itself counts. `None` if that is
    /// not known.
    pub(super) fn pipelined(&self, size: Bytes) -> Option<Seconds> {
        let choice = self.ruler.as_ref()?.choose(size)?;
        self.as_pipelined(&choice, size, |ideal, own| Seconds(ideal.0.max(own.0)))
    }

    /// The time of what runs as the library counts it, but for the rates: its own latency, then its segments
    /// over ideal links.
    pub(super) fn counted(&self, size: Bytes) -> Option<Seconds> {
        self.as_pipelined(&self.ruler.as_ref()?.choose(size)?, size, |_, own| own)
    }

    /// The same if the library may run only the algorithm called `id`; `None` also if it would not run just
    /// that.
    pub(super) fn counted_only(&self, id: &str, size: Bytes) -> Option<Seconds> {
        let choice = self.ruler.as_ref()?.only(id, size)?;
        self.chosen(&choice, size).filter(|priced| priced.id == id)?;
        self.as_pipelined(&choice, size, |_, own| own)
    }

    /// Whether rules say what runs.
    pub(super) fn is_ruled(&self, size: Bytes) -> bool {
        self.ruler.as_ref().is_some_and(|ruler| ruler.choose(size).is_some())
    }

    /// Whether the algorithm that was named needs switches that add or multicast.
    pub(super) fn is_by_switches(&self) -> bool {
        self.by_switches
    }

    /// Whether something that is not known here decides before the rules.
    pub(super) fn is_overruled(&self) -> bool {
        self.ruler.as_ref().is_some_and(Ruler::is_overruled)
    }

    /// Whether the rules say what runs, and nothing decides before them.
    pub(super) fn is_by_rules(&self, size: Bytes) -> bool {
        !self.is_overruled() && self.is_ruled(size)
    }

    /// The time of a choice as it is pipelined, if the data start `before`, of the ideal latency and the
    /// library's own.
    fn as_pipelined(
        &self,
        choice: &Choice,
        size: Bytes,
        before: fn(Seconds, Seconds) -> Seconds,
    ) -> Option<Seconds> {
        let Pipeline { segment, latency } = choice.pipeline?;
        let (shape, fabric) = (&self.shape, &self.fabric);
        let time = library::priced_by(self.registry, choice, shape, fabric, size, |asked| {
            let price = match segment {
                Some(segment) => asked.prepared.sent_ahead(asked.wire, Volume::from(segment)),
                None => asked.prepared.price(asked.wire),
            };
            Ok(before(price.launch + price.latency, latency)
                + price.bandwidth
                + price.compute.unwrap_or_default())
        });
        time.ok()?.time()
    }

    /// The price of a choice; `None` if it has none.
    fn chosen(&self, choice: &Choice, size: Bytes) -> Option<Priced> {
        let mut slowest: Option<(&'static dyn Algorithm, Price)> = None;
        let mut own = None;
        let (shape, fabric) = (&self.shape, &self.fabric);
        let time = library::priced_by(self.registry, choice, shape, fabric, size, |asked| {
            let price = asked.prepared.price(asked.wire);
            // On a tie, the last.
            let is_slower = |than: Option<(&'static dyn Algorithm, Price)>| {
                than.is_none_or(|(_, most)| most.total().0.total_cmp(&price.total().0).is_le())
            };
            if is_slower(slowest) {
                slowest = Some((asked.algorithm, price));
            }
            if asked.shape.collective == shape.collective && is_slower(own) {
                own = Some((asked.algorithm, price));
            }
            asked.on_links()
        });
        let time = time.ok()?.time()?;
        let (_, price) = slowest?;
        let (id, title) = own.map_or((NOTHING, NOTHING), |(algorithm, _)| {
            (algorithm.meta().id, algorithm.meta().title)
        });
        Some(Priced { id, title, price, time, stands_in: false })
    }

    /// The fastest candidate.
    pub(super) fn fastest(&self, size: Volume) -> Priced {
        let time = |c: &&Contender| c.links.at(size).0;
        let by_time = |a: &&Contender, b: &&Contender| time(a).total_cmp(&time(b));
        let least = match self.shape.ranks {
            0 | 1 => None,
            _ => self.ready().iter().min_by(by_time),
        };
        match least {
            Some(found) => {
                let meta = found.algorithm.meta();
                let (price, time) = (found.links.ideal().price(size), found.links.at(size));
                Priced { id: meta.id, title: meta.title, price, time, stands_in: false }
            }
            None => Priced {
                id: NOTHING,
                title: NOTHING,
                price: NO_PRICE,
                time: Seconds(0.0),
                stands_in: false,
            },
        }
    }
}

/// The shape of `query` over the links of `fabric`, with the ports, rails and domains of these; one rank per
/// node is one on any links.
fn placed(query: &Query, fabric: &Fabric) -> Result<Shape> {
    let Params { rails, c_real, .. } = query.given;
    let params = Params { rails, c_real, ..query.shape.params };
    let ports = fabric.ports(query.shape.ranks)?;
    let group = query.shape.group.filter(|g| g.get() == 1);
    Ok(fabric.fill(&Shape { group, ports, params, ..query.shape }))
}

/// The algorithms that `library` ships, in a protocol of NCCL those that run in it; if it ships none that applies,
/// all that could be shipped.
fn taken(
    registry: &Registry,
    (library, protocol): (Option<Library>, Option<Protocol>),
    shape: &Shape,
    fabric: &Fabric,
) -> Result<Vec<Contender>> {
    let (mut ready, _) = candidates(registry, shape, fabric)?;
    let protocol = protocol.unwrap_or_default();
    ready.retain(|one| runs_in(one.algorithm.meta().id, protocol));
    // What runs on a torus is its vendor's own, which uses all links of a chip.
    if !fabric.has_torus() {
        keep_shipped(registry, &mut ready, library, shape, fabric)?;
    }
    if ready.is_empty() && shape.ranks > 1 {
        let name = shape.collective.name();
        return Err(Error::unsupported(format!("no algorithm of {name} applies here"))
            .help("try other ranks or another machine"));
    }
    contenders(&ready, shape, fabric)
}
