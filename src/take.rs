//! The algorithm that a call takes: the one that was asked for, else the fastest that the machine's
//! library ships, with its price at any size.
//!
//! Plans, buckets and budgets price the same call at many sizes; this keeps what does not change.

use crate::algorithm::{Library, Registry};
use crate::error::{Error, Result};
use crate::nccl::Version;
use crate::price::Price;
use crate::quantity::{Bytes, Seconds, Volume};
use crate::query::Query;
use crate::rank::{Candidate, candidates, rank};
use crate::select::{Call, Choice, Flavour, Nccl, Policy, Priced, Site, policy, priced};

/// A question whose size is still open.
pub struct Take {
    /// What may be taken; of several the fastest.
    ready: Vec<Candidate>,
    /// One rank has nobody to talk to.
    alone: bool,
}

/// What is taken for one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// The algorithm's id; `none` for one rank.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Its price.
    pub price: Price,
}

impl Taken {
    /// The time of the call.
    #[must_use]
    pub fn time(&self) -> Seconds {
        self.price.total()
    }
}

const NOTHING: Price = Price {
    segments: 1,
    latency: Seconds(0.0),
    bandwidth: Seconds(0.0),
    compute: Some(Seconds(0.0)),
    launch: Seconds(0.0),
};

impl Take {
    /// Gets ready for `query`, whatever its size; `only` names an algorithm.
    ///
    /// # Errors
    /// An unknown algorithm or one that does not apply; a figure that the price needs is unknown.
    pub fn new(registry: &Registry, query: &Query, only: Option<&str>) -> Result<Self> {
        let (shape, fabric) = (&query.shape, &query.machine.fabric);
        if let Some(name) = only {
            let ready = vec![Candidate::named(registry, name, shape, fabric)?];
            return Ok(Self { ready, alone: shape.ranks < 2 });
        }
        let (mut ready, _) = candidates(registry, shape, fabric)?;
        let library = query.machine.library.as_deref().and_then(Library::named);
        let shipped = |c: &Candidate| c.algorithm.is_shipped(library, shape);
        // Where nobody ships anything, what could be shipped stands for it.
        if ready.iter().any(shipped) {
            ready.retain(shipped);
        }
        if ready.is_empty() && shape.ranks > 1 {
            let name = shape.collective.name();
            return Err(Error::unsupported(format!("no algorithm of {name} applies here"))
                .mend("ask for other ranks or another machine"));
        }
        Ok(Self { ready, alone: shape.ranks < 2 })
    }

    /// What is taken for `size` bytes.
    #[must_use]
    pub fn at(&self, size: Volume) -> Taken {
        let least = match self.ready.as_slice() {
            _ if self.alone => None,
            [one] => Some((one.algorithm, one.prepared.price(size))),
            _ => rank(&self.ready, size).first().map(|r| (r.algorithm, r.price)),
        };
        match least {
            Some((algorithm, price)) => {
                let meta = algorithm.meta();
                Taken { id: meta.id, title: meta.title, price }
            }
            None => Taken { id: "none", title: "none", price: NOTHING },
        }
    }

    /// The time for `size` bytes.
    #[must_use]
    pub fn time(&self, size: Volume) -> Seconds {
        if self.alone {
            return Seconds(0.0);
        }
        let times = self.ready.iter().map(|c| c.prepared.time(size).0);
        Seconds(times.fold(f64::INFINITY, f64::min))
    }
}

/// What the machine's own library runs by its rules, and what that costs.
pub struct Ruled {
    /// The policy, such as `nccl@2.30.7`.
    pub policy: String,
    /// Its choice.
    pub choice: Choice,
    /// Channels at most, where it is NCCL.
    pub channels: Option<u32>,
    /// What the closed forms say of it; absent where none does.
    pub time: Option<Seconds>,
}

/// What is known of the question's machine, for a policy; ranks lie on so many nodes.
#[must_use]
pub fn site(query: &Query, nodes: u32) -> Site {
    Site {
        machine: query.machine.name.clone(),
        title: query.machine.title.clone(),
        ranks: query.shape.ranks,
        nodes,
        nccl_graphs: query.machine.nccl_graphs.clone(),
        topology: query.machine.topology.clone(),
        fabric: Some(query.machine.fabric.clone()),
    }
}

/// What the machine's library would run; nothing where its rules say nothing here.
#[must_use]
pub fn by_rules(registry: &Registry, query: &Query) -> Option<Ruled> {
    let library = query.machine.library.as_deref().and_then(Library::named)?;
    let nodes = query.placement.nodes();
    let call = Call {
        flavour: Flavour::Plain,
        nodes,
        element: query.element.unwrap_or(Bytes(4)),
        ..Call::new(query.shape.collective, query.shape.ranks, query.size)
    };
    let site = site(query, nodes);
    let (policy, channels): (Box<dyn Policy>, _) = if library == Library::Nccl {
        let nccl = Nccl::new(&site, Version::NEWEST.into()).ok()?;
        let channels = nccl.decide(&call).ok()??.channels;
        (Box::new(nccl), Some(channels))
    } else {
        (policy(library.id(), &site).ok()?, None)
    };
    let choice = policy.choose(&call).ok()?;
    let cost = priced(registry, &choice, &query.shape, &query.machine.fabric, query.size);
    let time = cost.ok().as_ref().and_then(Priced::time);
    Some(Ruled { policy: policy.meta().id.clone(), choice, channels, time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;
    use crate::formula::Params;
    use crate::profile::Profile;
    use crate::quantity::Bytes;
    use crate::query::{Given, Layout, Machine};
    use std::num::NonZeroU32;

    fn query(ranks: u32) -> Query {
        let profile = Profile::builtin("dgx-h100").unwrap();
        let machine =
            Machine::new(Some((profile, "test")), &Given::default(), Collective::AllReduce)
                .unwrap();
        let layout = Layout { ranks: NonZeroU32::new(ranks), ..Layout::default() };
        Query::new(machine, Collective::AllReduce, Bytes(0), layout, Params::default()).unwrap()
    }

    #[test]
    fn the_take_is_the_least_of_what_is_shipped() {
        let take = Take::new(&Registry::builtin(), &query(64), None).unwrap();
        for size in [1e3, 1e6, 1e9] {
            let taken = take.at(Volume(size));
            assert_eq!(taken.time(), take.time(Volume(size)));
            assert!(!["rabenseifner", "recursive-doubling"].contains(&taken.id), "{}", taken.id);
        }
        let ring = Take::new(&Registry::builtin(), &query(64), Some("ring")).unwrap();
        assert_eq!(ring.at(Volume(1e9)).id, "ring");
        assert!(ring.time(Volume(1e3)) > take.time(Volume(1e3)));
    }

    #[test]
    fn one_rank_takes_no_time() {
        let take = Take::new(&Registry::builtin(), &query(1), None).unwrap();
        assert_eq!((take.at(Volume(1e9)).id, take.time(Volume(1e9))), ("none", Seconds(0.0)));
    }
}
