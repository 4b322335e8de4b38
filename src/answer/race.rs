//! Races of an MPI library's own algorithms, as a report.

use serde::Serialize;

use super::six;
use super::tune::{Contender, Raced};
use crate::base::quantity::{Bytes, Seconds};
use crate::library::Operation;
use crate::run::mpi::{Compared, Heat, OWN};

/// What was raced, and what won.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Race {
    /// `collcost/race/1`.
    pub schema: &'static str,
    /// The library's own words for its version.
    pub library: String,
    /// N.
    pub ranks: u32,
    /// The hosts, equally many ranks on each.
    pub nodes: u32,
    /// The machine whose model says what is worth racing.
    pub machine: String,
    /// One heat for each operation and size; those that nothing was expected to win are left out.
    pub heats: Vec<HeatView>,
    /// Sizes of operations at which nothing is expected to be faster than the library's own choice.
    pub left_to_the_library: u64,
    /// How long it all took; absent of a dry run.
    pub time_s: Option<f64>,
    /// The tuning file that was written; absent if none was asked for.
    pub written: Option<String>,
    /// What to know before trusting it.
    pub notes: Vec<String>,
}

/// A heat.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeatView {
    /// The collective, or its variant.
    pub operation: String,
    /// M.
    pub size_bytes: u64,
    /// The library's own choice, then the others from the fastest expected on.
    pub contenders: Vec<ContenderView>,
    /// The place among them of who surely won; absent if the library's own choice stays.
    pub winner: Option<u64>,
}

/// An algorithm in a heat.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContenderView {
    /// The library's name for it; of its own choice, what the rules say that it is.
    pub algorithm: String,
    /// Bytes of a segment; absent: the vector in one piece.
    pub segment_bytes: Option<u64>,
    /// What the model expects.
    pub expected_s: Option<f64>,
    /// The geometric mean of its runs; absent if it did not run.
    pub time_s: Option<f64>,
    /// How often it ran.
    pub runs: u64,
    /// Its time over that of the library's own choice in the same rounds.
    pub ratio: Option<f64>,
    /// The 95 % interval of that, from here …
    pub ratio_low: Option<f64>,
    /// … to here.
    pub ratio_high: Option<f64>,
}

/// Contenders at one operation and size, and their heat.
pub struct Entered {
    /// The operation.
    pub operation: Operation,
    /// M.
    pub size: Bytes,
    /// What the rules call the library's own choice.
    pub own: String,
    /// The contenders, the own choice first.
    pub contenders: Vec<Contender>,
}

impl Entered {
    /// What the heat showed: the others' times are those of the own choice by the ratio of the same rounds.
    #[must_use]
    pub fn raced(&self, heat: &Heat) -> Raced {
        let own = heat.time(OWN);
        let time = |i| Some(Seconds(own?.0 * heat.ratio(i, OWN)?.value.0));
        let others = self.contenders.iter().enumerate();
        let others = others.filter_map(|(i, c)| Some((c.pick.clone()?, time(i)?))).collect();
        let winner = heat.winner().and_then(|winner| self.contenders[winner].pick.clone());
        Raced { size: self.size, own, others, winner }
    }

    /// The heat as a report has it.
    #[must_use]
    pub fn view(&self, heat: &Heat) -> HeatView {
        let contender = |(i, c): (usize, &Contender)| {
            let ratio = heat.ratio(i, OWN).filter(|_| i != OWN);
            let part = |of: fn(Compared) -> f64| ratio.map(|r| six(of(r)));
            let pick = c.pick.as_ref();
            ContenderView {
                algorithm: pick.map_or_else(|| self.own.clone(), |pick| pick.name.to_string()),
                segment_bytes: pick.map(|pick| pick.segment.0).filter(|&segment| segment > 0),
                expected_s: c.expected.map(|t| six(t.0)),
                time_s: heat.time(i).map(|t| six(t.0)),
                runs: heat.times(i).len() as u64,
                ratio: part(|r| r.value.0),
                ratio_low: part(|r| r.low.0),
                ratio_high: part(|r| r.high.0),
            }
        };
        HeatView {
            operation: self.operation.to_string(),
            size_bytes: self.size.0,
            contenders: self.contenders.iter().enumerate().map(contender).collect(),
            winner: heat.winner().map(|winner| winner as u64),
        }
    }
}
