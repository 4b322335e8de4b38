//! What a collective is expected to take on a machine: by what was measured of it, else by price.

use crate::algorithm::{Library, Registry};
use crate::curve::{Basis, Curve, Expectation, Placed};
use crate::error::{Error, Result};
use crate::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::query::Query;
use crate::rank::{Candidate, candidates, rank};
use crate::sample::DataType;

/// An expectation with what it rests on.
#[derive(Debug, Clone)]
pub struct Expected<'a> {
    /// The time with its band.
    pub expectation: Expectation,
    /// What was measured; absent where nothing was.
    pub curve: Option<&'a Curve>,
    /// The algorithm whose price it is, where nothing was measured.
    pub take: Option<&'static str>,
}

/// Without measurements 8 of 10 times lie between these parts of the price: the fastest algorithm
/// that NCCL ships, priced on the built-in machines, over the published times of docs/ACCURACY.md.
const PRICED: (Ratio, Ratio) = (Ratio(0.75), Ratio(1.9));

/// The questions of one machine, collective and placement, whatever the size.
pub struct Expecting<'a> {
    query: &'a Query,
    curve: Option<&'a Curve>,
    unseen: bool,
    candidates: Vec<Candidate>,
}

impl<'a> Expecting<'a> {
    /// Gets ready for `query`, whatever its size, with elements of `dtype`; `unseen` takes a tier
    /// that was not measured to be like the other one.
    ///
    /// # Errors
    /// A figure that a price needs and the machine does not know, where nothing was measured.
    pub fn new(
        registry: &Registry,
        query: &'a Query,
        dtype: Option<DataType>,
        unseen: bool,
    ) -> Result<Self> {
        let curve = query.machine.curve(query.shape.collective, dtype);
        let candidates = match curve {
            Some(_) => Vec::new(),
            None => candidates(registry, &query.shape, &query.machine.fabric)?.0,
        };
        Ok(Self { query, curve, unseen, candidates })
    }

    /// What M = `size` is expected to take.
    ///
    /// # Errors
    /// A tier that was not measured; nothing measured and no algorithm that the library ships.
    pub fn at(&self, size: Bytes) -> Result<Expected<'a>> {
        let placed = Placed { ranks: self.query.shape.ranks, nodes: self.query.nodes() };
        if let Some(curve) = self.curve {
            let expectation = match self.unseen {
                true => curve.expect_unseen(placed, size),
                false => curve.expect(placed, size)?,
            };
            return Ok(Expected { expectation, curve: Some(curve), take: None });
        }
        let shape = &self.query.shape;
        let library = self.query.machine.library.as_deref().and_then(Library::named);
        let ranked = rank(&self.candidates, Volume::from(size));
        let shipped = ranked.iter().find(|r| r.algorithm.is_shipped(library, shape));
        let Some(take) = shipped.or_else(|| ranked.first()) else {
            let name = shape.collective.name();
            return Err(Error::input(format!("{name} was not measured and has no algorithm here"))
                .mend("name a profile that measured it, or another collective"));
        };
        let time: Seconds = take.price.total();
        let (low, high) = (time * PRICED.0, time * PRICED.1);
        let expectation = Expectation { time, low, high, basis: Basis::Datasheet };
        Ok(Expected { expectation, curve: None, take: Some(take.algorithm.meta().title) })
    }
}
