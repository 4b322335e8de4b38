//! From measured times to a curve.
//!
//! Every choice (forms, number of components, parameters) uses only the given observations. The
//! same observations give the same curve.

mod choose;
mod errors;
mod parts;
mod row;
mod solve;

use super::{Component, Curve, Observation, Placed, Residuals, observations};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Ratio};
use crate::machine::sample::DataType;

use parts::Parts;
use row::Row;

/// The options of a fit.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The operation.
    pub collective: Collective,
    /// The type of the elements, if it matters.
    pub dtype: Option<DataType>,
    /// The most components, up to three.
    pub components: u32,
    /// Whether δ in f(N) + δ and the shape c are fitted; otherwise both are 0.
    pub curved: bool,
    /// Whether the residuals of the components are kept for each size.
    pub residuals: bool,
    /// The library and the source of the measurements.
    pub source: String,
}

impl Asked {
    /// The whole model for one operation.
    #[must_use]
    pub fn new(collective: Collective, dtype: Option<DataType>) -> Self {
        let source = String::new();
        Self { collective, dtype, components: 3, curved: true, residuals: true, source }
    }

    /// One component, δ = 0, c = 0: plain α-β.
    #[must_use]
    pub fn alpha_beta(self) -> Self {
        Self { components: 1, curved: false, residuals: false, ..self }
    }
}

/// The curve of an operation's times. What was timed more than once counts by its median, and how far its runs
/// are from that is a part of the error.
///
/// # Errors
/// No time, a time of zero, or fewer than two sizes.
pub fn fit(all: &[Observation], asked: &Asked) -> Result<Curve> {
    let name = asked.collective.name();
    if all.iter().any(|o| o.time.0 <= 0.0 || !o.time.0.is_finite() || o.size.0 == 0) {
        return Err(Error::input(format!("a time or a size of {name} is not above 0"))
            .help("leave out the row; collcost import names the rows that it leaves out"));
    }
    let mut sizes: Vec<Bytes> = all.iter().map(|o| o.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (Some(&from), Some(&to)) = (sizes.first(), sizes.get(1..).and_then(|s| s.last())) else {
        return Err(Error::input(format!("{name} was timed at {} size", sizes.len()))
            .help("give times of at least two sizes: one cannot separate launch and rate"));
    };
    let medians = observations(all.iter().copied());
    let rows: Vec<Row> = medians.iter().map(|o| Row::new(o, asked.collective)).collect();
    let parts = choose::parts(&rows, asked);
    let placed = row::placed(&rows);
    let (bands, straight) = errors::bands(&parts, &rows, &errors::repeats(all), asked);
    let residuals = asked.residuals.then(|| {
        let of = |(o, r): (&Observation, &Row)| (o.placed, o.size, r.residual(&parts));
        Residuals::new(medians.iter().zip(&rows).map(of).collect()).straight(straight)
    });
    Ok(Curve {
        collective: asked.collective,
        dtype: asked.dtype,
        components: components(&parts, &placed),
        delta: Ratio(parts.delta()),
        shape: Ratio(parts.shape()),
        bands,
        placed,
        from,
        to,
        residuals,
        rows: u32::try_from(rows.len()).unwrap_or(u32::MAX),
        source: asked.source.clone(),
    })
}

/// The components as quantities; those that no row determines are absent.
fn components(parts: &Parts, placed: &[Placed]) -> Vec<Component> {
    let inside = placed.iter().any(|p| !p.between());
    let between = placed.iter().any(|p| p.between());
    let mut components: Vec<Component> =
        (0..parts.count()).map(|k| parts.component(k, inside, between)).collect();
    rising(&mut components, |a| a.launch.0);
    components
}
