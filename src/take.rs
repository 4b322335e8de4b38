//! The algorithm that a call takes: the one that was asked for, else the fastest that the machine's
//! library ships, with its price at any size.
//!
//! Plans, buckets and budgets price the same call at many sizes; this keeps what does not change.

use crate::algorithm::{Library, Registry};
use crate::error::{Error, Result};
use crate::price::Price;
use crate::quantity::{Seconds, Volume};
use crate::query::Query;
use crate::rank::{Candidate, candidates, rank};

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
