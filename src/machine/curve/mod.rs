//! The measured time of a library's collective: curves that are fitted to logs.
//!
//! A library's time is not the sum of its algorithm's messages: it starts kernels, changes
//! protocols and cuts vectors into pieces. A curve is the lower hull of one to three components,
//! one for each thing that the library does at different sizes,
//!
//! ```text
//! L = o + α·s + α'·s'         launch, steps inside nodes and between them
//! b = M·(f(N) + δ)/BW         f: the bus factor; δ: what is copied besides
//! T = min over components of  L + c·√(L·b) + b
//! ```
//!
//! where c = 2 is the best pipelining, (√L + √b)², and c = δ = 0 with one component is the plain
//! α-β model. T depends on N and the number of nodes only through s, s' and f, so a curve also
//! predicts numbers of ranks that were not measured. A table of [`Residuals`] may restore the
//! measured times at the measured points. [`Bands`] hold the errors of the fit on held-out data.
//!
//! The forms are compared over 79 sets of published measurements: docs/background/accuracy-of-fits.md.

mod bands;
mod component;
mod fit;
mod observed;
mod residuals;

pub(in crate::machine) use bands::REPEATS;
pub use bands::{Bands, Held};
pub use component::{Component, Steps};
pub use fit::{Asked, fit};
pub use observed::{Observation, contradiction, observations};
pub use residuals::Residuals;

use bands::Away;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::sample::DataType;

/// Ranks on nodes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placed {
    /// N.
    pub ranks: u32,
    /// The nodes, over which the ranks are spread evenly.
    pub nodes: u32,
}

impl Placed {
    /// Whether there is a network between the ranks.
    #[must_use]
    pub fn between(self) -> bool {
        self.nodes > 1
    }
}

/// The fitted time of one collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The operation.
    pub collective: Collective,
    /// The type of the elements, if the operation adds and the logs name it: libraries add only
    /// some types in the switch.
    pub dtype: Option<DataType>,
    /// The components, one for each thing that the library does; at least one.
    pub components: Vec<Component>,
    /// δ: the part of M that moves in addition to the bus factor's, such as a last local copy.
    pub delta: Ratio,
    /// c: how latency and bandwidth overlap; 0 is their sum, 2 the best pipelining.
    pub shape: Ratio,
    /// The ranks and nodes that were measured, in order.
    pub placed: Vec<Placed>,
    /// The smallest M that was measured.
    pub from: Bytes,
    /// The largest.
    pub to: Bytes,
    /// The residuals between the components and the measurements.
    pub residuals: Option<Residuals>,
    /// The errors of the fit on held-out data.
    pub bands: Bands,
    /// How many times were fitted.
    pub rows: u32,
    /// The library and the source of the measurements.
    pub source: String,
}

/// How far a question is from the measurements, nearest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// These ranks on these nodes were measured, at sizes around this one.
    Measured,
    /// Fewer and more ranks were measured.
    Interpolated,
    /// Only fewer or only more ranks were measured, or only smaller or only larger sizes.
    Extrapolated,
    /// No ranks with a network between them were measured, or only such ranks.
    UnseenTier,
}

impl Reach {
    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Interpolated => "interpolated in N",
            Self::Extrapolated => "extrapolated",
            Self::UnseenTier => "unseen tier",
        }
    }
}

/// An expected time, with the band that contains 8 of 10 measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// The median.
    pub time: Seconds,
    /// A tenth is faster.
    pub low: Seconds,
    /// A tenth is slower.
    pub high: Seconds,
    /// How far it is from the measurements.
    pub reach: Reach,
}

impl Curve {
    /// The time of each component.
    fn times(&self, placed: Placed, size: Bytes) -> impl Iterator<Item = Seconds> + '_ {
        let factor = self.collective.busbw_factor(placed.ranks);
        let moved = Ratio((factor.0 + self.delta.0).max(LEAST_FACTOR));
        self.components.iter().map(move |c| c.time(placed, size, moved, self.shape))
    }

    /// The time of the components, without residuals.
    #[must_use]
    pub fn formula(&self, placed: Placed, size: Bytes) -> Seconds {
        let least = |a: Seconds, b: Seconds| if b.0 < a.0 { b } else { a };
        self.times(placed, size).fold(Seconds(f64::INFINITY), least)
    }

    /// The component that gives the time, from 0.
    #[must_use]
    pub fn active(&self, placed: Placed, size: Bytes) -> usize {
        let times = self.times(placed, size).enumerate();
        times.min_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(0, |(i, _)| i)
    }

    /// The time of components and residuals.
    #[must_use]
    pub fn time(&self, placed: Placed, size: Bytes) -> Seconds {
        let beside = self.residuals.as_ref().and_then(|r| r.beside(placed));
        if let Some((fewer, more)) = beside {
            let (a, b) = (self.time(fewer, size), self.time(more, size));
            return Seconds(straight(placed, (fewer, a.0.ln()), (more, b.0.ln())).exp());
        }
        let residual = self.residuals.as_ref().map_or(0.0, |r| r.at(placed, size));
        self.formula(placed, size) * Ratio(residual.exp())
    }

    /// The kind of measurements around `placed` and `size`.
    #[must_use]
    pub fn reach(&self, placed: Placed, size: Bytes) -> Reach {
        let tier = || self.placed.iter().filter(|p| p.between() == placed.between());
        if tier().next().is_none() {
            return Reach::UnseenTier;
        }
        // Below the smallest size the time is latency, above the largest it is a rate. Neither
        // changes within one doubling.
        let outside = 2 * size.0 < self.from.0 || size.0 > 2 * self.to.0;
        if outside {
            return Reach::Extrapolated;
        }
        if tier().any(|p| *p == placed) {
            return Reach::Measured;
        }
        let fewer = tier().any(|p| p.ranks <= placed.ranks);
        let more = tier().any(|p| p.ranks >= placed.ranks);
        if fewer && more { Reach::Interpolated } else { Reach::Extrapolated }
    }

    /// The expected time of `placed` ranks and M = `size`, on a tier that was measured.
    ///
    /// # Errors
    /// No ranks with a network between them were measured, or only such ranks: a curve does not
    /// know a tier that was not measured. [`Curve::expect_unseen`] gives a time anyway.
    pub fn expect(&self, placed: Placed, size: Bytes) -> Result<Expectation> {
        let expected = self.expect_unseen(placed, size);
        if expected.reach != Reach::UnseenTier {
            return Ok(expected);
        }
        let (asked, seen) = match placed.between() {
            true => ("over several nodes", "on one node"),
            false => ("on one node", "over several nodes"),
        };
        let name = self.collective.name();
        let what = format!("{name} {asked} was not measured, only {seen}");
        Err(Error::input(what)
            .help("fit logs of that tier as well, or use the other tier's with --unseen-tier"))
    }

    /// As [`Curve::expect`], but assumes that a tier that was not measured is like the other one.
    #[must_use]
    pub fn expect_unseen(&self, placed: Placed, size: Bytes) -> Expectation {
        let reach = self.reach(placed, size);
        let time = self.time(placed, size);
        let band = self.bands.at(self.held(placed, size, reach), size, || self.away(placed));
        let (low, high) = (time * Ratio(band.low.exp()), time * Ratio(band.high.exp()));
        Expectation { time, low, high, reach }
    }

    /// Whether ranks like `placed` were measured: at most eight times as many or as few, on all nodes and on each,
    /// beyond which there are no errors of fits (docs/background/accuracy-of-fits.md).
    #[must_use]
    pub fn is_near(&self, placed: Placed) -> bool {
        let per_node = |p: Placed| f64::from(p.ranks) / f64::from(p.nodes);
        let near = |ratio: f64| ratio.log2().abs() <= FAR;
        self.placed.iter().any(|p| {
            near(f64::from(placed.ranks) / f64::from(p.ranks))
                && near(per_node(placed) / per_node(*p))
        })
    }

    /// How far `placed` is from the nearest ranks that were measured on its tier.
    fn away(&self, placed: Placed) -> Away {
        let tier = self.placed.iter().filter(|p| p.between() == placed.between());
        let octaves = tier.map(|p| (f64::from(placed.ranks) / f64::from(p.ranks)).log2());
        let nearest = octaves.min_by(|a, b| a.abs().total_cmp(&b.abs()));
        Away { octaves: nearest.unwrap_or(0.0), between: placed.between() }
    }

    /// The errors of the fit that apply to an expectation.
    fn held(&self, placed: Placed, size: Bytes, reach: Reach) -> Held {
        let tier = || self.placed.iter().filter(|p| p.between() == placed.between());
        match reach {
            Reach::Measured => Held::Size,
            Reach::UnseenTier => Held::Tier,
            _ if tier().count() == 1 && tier().all(|only| placed != *only) => Held::Alone,
            Reach::Interpolated => Held::Between,
            Reach::Extrapolated => match (tier().max(), tier().min()) {
                (Some(most), _) if placed > *most => Held::More,
                (_, Some(least)) if placed < *least => Held::Fewer,
                _ if size > self.to => Held::Larger,
                _ => Held::Smaller,
            },
        }
    }
}

/// The curve of a collective over elements of `dtype`; otherwise over any type, over types that are
/// added alike, over floats, or the first. Curves that match the question in having a network
/// between ranks, or none, come first: the curves of a board and of a machine that contains it are
/// in one list.
#[must_use]
pub fn nearest(
    curves: &[Curve],
    collective: Collective,
    dtype: Option<DataType>,
    placed: Placed,
) -> Option<&Curve> {
    let saw = |c: &Curve| c.placed.iter().any(|p| p.between() == placed.between());
    let all = || curves.iter().filter(|c| c.collective == collective);
    let any_saw = all().any(saw);
    let of = || all().filter(|c| !any_saw || saw(c));
    // Libraries add all floats alike, but integers differently.
    let alike = |c: &&Curve| dtype.zip(c.dtype).is_some_and(|(a, b)| a.is_float() == b.is_float());
    of().find(|c| c.dtype == dtype)
        .or_else(|| of().find(|c| c.dtype.is_none()))
        .or_else(|| of().find(alike))
        .or_else(|| of().find(|c| c.dtype.is_some_and(DataType::is_float)))
        .or_else(|| of().next())
}

/// Linear in lg N between two numbers of ranks.
fn straight(placed: Placed, fewer: (Placed, f64), more: (Placed, f64)) -> f64 {
    let lg = |p: Placed| f64::from(p.ranks).log2();
    let (from, to) = (lg(fewer.0), lg(more.0));
    let part = if to > from { (lg(placed) - from) / (to - from) } else { 0.5 };
    fewer.1 + (more.1 - fewer.1) * part
}

/// Octaves of ranks beyond which a curve says nothing.
const FAR: f64 = 3.0;

/// The lower limit of f(N) + δ: below it no data would move.
const LEAST_FACTOR: f64 = 0.05;
