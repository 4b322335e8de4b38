//! α and BW of one algorithm from points without noise: two figures, no intervals.

use super::lad;
use super::model::{Basis, Design, Entry};
use super::path::Path;
use crate::algorithm::Registry;
use crate::error::{Error, Result};
use crate::quantity::{Bandwidth, Bytes, Seconds};
use crate::sample::Run;

/// The α and BW that say the times of `points` best.
///
/// # Errors
/// An algorithm that does not apply; points that cannot tell α from BW.
pub fn line(
    registry: &Registry,
    run: &Run,
    ranks: u32,
    points: &[(Bytes, Seconds)],
) -> Result<(Seconds, Bandwidth)> {
    let op = crate::sample::Op::Run(run.clone());
    let mut entries = Vec::with_capacity(points.len());
    for (point, &(size, time)) in points.iter().enumerate() {
        if !(time.0.is_finite() && time.0 > 0.0) {
            return Err(Error::input(format!("{time} at {size} is no time")));
        }
        let path = Path::of(registry, &op, ranks, size)?;
        entries.push(Entry { path, time: time.0, weight: 1.0, group: 0, point });
    }
    let basis = Basis { knots: Vec::new(), prior: None, settled: f64::INFINITY, exchange: 1.0 };
    let design = Design::new(&basis, &entries);
    let x = lad::fit(design.rows.iter(), basis.p());
    if x[0] > 0.0 && x[1] > 0.0 {
        return Ok((Seconds(x[0]), Bandwidth(1.0 / x[1])));
    }
    Err(Error::input("the points cannot tell α from BW")
        .mend("give small and large sizes, at least one where each decides"))
}
