//! α and BW of one algorithm from points without noise: two parameters, no intervals.

use super::lad;
use super::model::{Basis, Design, Entry};
use super::path::Path;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Seconds, Volume};
use crate::machine::link::Exchange;
use crate::model::algorithm::Algorithm;
use crate::model::formula::Shape;

/// The α and BW that fit the times of `points` best.
///
/// # Errors
/// The algorithm does not apply, or the points cannot separate α from BW.
pub fn line(
    algorithm: &dyn Algorithm,
    shape: &Shape,
    points: &[(Volume, Seconds)],
) -> Result<(Seconds, Bandwidth)> {
    let mut entries = Vec::with_capacity(points.len());
    for (point, &(size, time)) in points.iter().enumerate() {
        if !(time.0.is_finite() && time.0 > 0.0 && size.0 >= 0.0) {
            return Err(Error::input(format!("{time} at {size} is not the time of a call"))
                .help("give sizes of 0 or more and times above 0"));
        }
        let path = Path::collective(algorithm, shape, size)?;
        entries.push(Entry { path, time: time.0, weight: 1.0, group: 0, point });
    }
    let basis =
        Basis { knots: Vec::new(), prior: None, bucket: None, exchange: Exchange::AS_ONE_WAY };
    let x = lad::fit(Design::new(&basis, &entries).rows.iter(), basis.p());
    if x[0] > 0.0 && x[1] > 0.0 {
        return Ok((Seconds(x[0]), Bandwidth(1.0 / x[1])));
    }
    Err(Error::input("the points cannot separate α from BW")
        .help("give small and large sizes: at least one decided by α and one by BW"))
}
