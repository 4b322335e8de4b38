//! What a collective is expected to take on a machine: by what was measured of it, else by price.

use crate::algorithm::{Library, Registry};
use crate::curve::{Basis, Curve, Expectation};
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

/// Without measurements 8 of 10 times lie between these parts of the price: over 750 of the published
/// times of docs/ACCURACY.md, on the eight built-in machines that are GPU nodes or made of them, the
/// fastest algorithm that NCCL ships takes 0.49 (p10), 1.17 (median), 1.99 (p90) times its price.
const PRICED: (Ratio, Ratio) = (Ratio(0.5), Ratio(2.0));

/// The questions of one machine, collective and placement, whatever the size.
pub struct Expecting<'a> {
    query: &'a Query,
    curve: Option<&'a Curve>,
    unseen: bool,
    candidates: Vec<Candidate>,
}

impl<'a> Expecting<'a> {
    /// Gets ready for `query`, whatever its size, with elements of `dtype`; `unseen` takes a tier
    /// that was not measured to be like the other one, instead of a price over its figures.
    ///
    /// # Errors
    /// A figure that a price needs and the machine does not know, where nothing was measured.
    pub fn new(
        registry: &Registry,
        query: &'a Query,
        dtype: Option<DataType>,
        unseen: bool,
    ) -> Result<Self> {
        let curve = query.machine.curve(query.shape.collective, dtype, query.placed());
        let priced = candidates(registry, &query.shape, &query.machine.fabric);
        let candidates = match (curve, priced) {
            (_, Ok((ready, _))) => ready,
            (Some(_), Err(_)) => Vec::new(),
            (None, Err(unknown)) => return Err(unknown),
        };
        Ok(Self { query, curve, unseen, candidates })
    }

    /// What M = `size` is expected to take.
    ///
    /// # Errors
    /// A tier that was not measured and over which nothing has a price; no algorithm at all.
    pub fn at(&self, size: Bytes) -> Result<Expected<'a>> {
        let placed = self.query.placed();
        if let Some(curve) = self.curve {
            let unseen = self.unseen.then(|| curve.expect_unseen(placed, size));
            match unseen.map_or_else(|| curve.expect(placed, size), Ok) {
                Ok(expectation) => {
                    return Ok(Expected { expectation, curve: Some(curve), take: None });
                }
                // No algorithm has a price there either.
                Err(refused) if self.candidates.is_empty() => return Err(refused),
                Err(_) => {}
            }
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
