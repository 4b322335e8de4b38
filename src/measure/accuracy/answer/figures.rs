//! The error over many answers.

use super::Answered;
use crate::base::order::sorted;
use crate::base::quantity::{Ratio, Seconds};
use crate::base::stats::{median, quantile};
use crate::measure::expect::Expectation;

/// |expected/measured − 1| over points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The number of points.
    pub points: usize,
    /// The number of clusters.
    pub clusters: usize,
    /// The median.
    pub median: Ratio,
    /// The 90th percentile.
    pub p90: Ratio,
    /// The median of expected/measured − 1, with its sign.
    pub signed: Ratio,
    /// The part of measured times inside their band, and the median of high over low, if the answer has
    /// bands.
    pub band: Option<(Ratio, Ratio)>,
}

/// From the answers that `tell` gives, with their bands; `None` without answers.
pub fn figures<'a>(
    of: impl IntoIterator<Item = &'a Answered>,
    tell: impl Fn(&Answered) -> Option<(Seconds, Option<Expectation>)>,
) -> Option<Figures> {
    let (mut clusters, mut off) = (Vec::new(), Vec::new());
    let (mut inside, mut widths) = (0, Vec::new());
    for answered in of {
        let Some((time, band)) = tell(answered) else { continue };
        let real = answered.point.time;
        // Versions of one machine are one cluster.
        let cluster = answered.left_out.as_deref().unwrap_or(&answered.point.cluster);
        clusters.push(cluster);
        off.push(time.0 / real.0 - 1.0);
        if let Some(band) = band {
            inside += usize::from(band.low.0 <= real.0 && real.0 <= band.high.0);
            widths.push(band.high.0 / band.low.0);
        }
    }
    clusters.sort_unstable();
    clusters.dedup();
    let signed = median(off.clone())?;
    let far = sorted(off.iter().map(|e| e.abs()));
    let share = Ratio(inside as f64 / widths.len().max(1) as f64);
    Some(Figures {
        points: off.len(),
        clusters: clusters.len(),
        median: Ratio(quantile(&far, 0.5)),
        p90: Ratio(quantile(&far, 0.9)),
        signed: Ratio(signed),
        band: median(widths).map(|width| (share, Ratio(width))),
    })
}
