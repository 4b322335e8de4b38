//! Kind `calibrate`: α and BW from timed calls of one algorithm.

use super::Batch;
use super::answer::{applies, number};
use super::question::{Question, Value, needed};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Seconds, Volume};
use crate::measure::fit::line;

impl Batch {
    /// Kind `calibrate`: the α and BW that fit the times best.
    pub(super) fn calibrate(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let collective = q.collective()?.unwrap_or(Collective::AllReduce);
        let named = self.find(collective, &q.algorithm()?)?;
        let shape = q.shape(collective)?;
        applies(named, &shape)?;
        let (alpha, bandwidth) = line(named.algorithm, &shape, &points(q)?)?;
        number(out, "alpha_s", alpha.0)?;
        number(out, "bandwidth_Bps", bandwidth.0)?;
        Ok(())
    }
}

/// `points`: pairs of bytes and seconds.
fn points(q: &Question<'_>) -> Result<Vec<(Volume, Seconds)>> {
    const MEND: &str = "write \"points\": [[1024, 1.6e-5], [1048576, 5.5e-5], …]";
    let raw = needed(&q.points, "points").map_err(|e| e.help(MEND))?;
    let pairs: Vec<[Value<'_>; 2]> = serde_json::from_str(raw.get())
        .map_err(|_| Error::input("`points` must be pairs of bytes and seconds").help(MEND))?;
    let pair = |[size, time]: &[Value<'_>; 2]| {
        Ok((Volume(size.number("points")?), Seconds(time.number("points")?)))
    };
    pairs.iter().map(pair).collect()
}
