//! The origin of a fitted profile, and how far it may be trusted.

use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::base::words::words;
use crate::machine::curve::REPEATS;
use crate::machine::link::Bucket;

/// The origin of fitted parameters, with the errors that the fit states.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The command that fitted.
    pub command: String,
    /// The program with its version.
    pub tool: String,
    /// The machine in words.
    pub machine: Option<String>,
    /// Identifies the machine: samples of one machine have the same fingerprint.
    pub fingerprint: Option<String>,
    /// How data moved: `shm`, `tcp`.
    pub transport: Option<String>,
    /// How ranks waited: `spin`, `poll`.
    pub wait: Option<String>,
    /// Which time of a point was fitted: `typical`, `floor`.
    pub statistic: String,
    /// The files of samples.
    pub samples: Vec<String>,
    /// The numbers of ranks that were measured.
    pub ranks: Vec<u32>,
    /// The smallest M.
    pub from: Bytes,
    /// The largest M.
    pub to: Bytes,
    /// How many points were fitted.
    pub points: u32,
    /// How many runs they are based on.
    pub runs: u64,
    /// How the gates judged it.
    pub quality: Quality,
    /// What the gates marked or refused: name, number, limit.
    #[serde(default)]
    pub marks: Vec<String>,
    /// The errors of predictions against measurements.
    pub errors: StatedErrors,
    /// A token bucket on the path, if the ladder of sizes shows one.
    pub bucket: Option<Bucket>,
    /// α and the rate of the statistic that was not chosen.
    pub other: Option<OtherLink>,
}

words! {
    /// How the gates judged a fit.
    #[derive(serde::Deserialize)]
    pub enum Quality {
        /// No gate objects.
        Good = "good",
        /// It may be used; the marks say what to consider.
        Marked = "marked",
        /// It was refused, but written anyway.
        Rejected = "rejected",
    }
}

/// |prediction/time − 1|.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedError {
    /// Half of the errors are smaller.
    pub median: Ratio,
    /// Nine of ten are smaller.
    pub p90: Ratio,
}

/// The errors that a fit states.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedErrors {
    /// On held-out algorithms.
    pub algorithms: Option<StatedError>,
    /// The same where bytes dominate: times above 10 α.
    pub algorithms_bulk: Option<StatedError>,
    /// On held-out sizes.
    pub sizes: Option<StatedError>,
    /// Of α and the rate alone, without knots, as ideal prices use them.
    pub line: Option<StatedError>,
    /// The same where bytes decide.
    pub line_bulk: Option<StatedError>,
    /// The bands that contain 8 of 10 times, on held-out algorithms.
    #[serde(default)]
    pub bands: StatedBands,
}

/// What dominates a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// Latency: less than 3 α.
    Latency,
    /// Both.
    Middle,
    /// Bytes: 10 α and more.
    Bulk,
}

impl Regime {
    /// All regimes, the shortest times first.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Middle, Self::Bulk];

    /// The regime of a time on links with this α.
    #[must_use]
    pub fn of(time: Seconds, alpha: Seconds) -> Self {
        match time.0 / alpha.0 {
            alphas if alphas < 3.0 => Self::Latency,
            alphas if alphas < 10.0 => Self::Middle,
            _ => Self::Bulk,
        }
    }
}

/// The band of measured over predicted time that contains 8 of 10 measurements, and the prediction itself.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(from = "Tenths")]
pub struct StatedBand {
    low: Ratio,
    high: Ratio,
}

/// Parts of the prediction: one of ten measurements is below the first, and one above the second.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Tenths {
    low: Ratio,
    high: Ratio,
}

impl From<Tenths> for StatedBand {
    fn from(Tenths { low, high }: Tenths) -> Self {
        Self::new(low, high)
    }
}

impl StatedBand {
    /// The band of these tenths. Where nearly all measurements are on one side of the prediction, it is off,
    /// but it is within its own band.
    #[must_use]
    pub fn new(low: Ratio, high: Ratio) -> Self {
        Self { low: Ratio(low.0.min(1.0 - REPEATS)), high: Ratio(high.0.max(1.0 + REPEATS)) }
    }

    /// One of ten is below.
    #[must_use]
    pub fn low(self) -> Ratio {
        self.low
    }

    /// One of ten is above.
    #[must_use]
    pub fn high(self) -> Ratio {
        self.high
    }
}

/// Bands by what dominates; absent if there are too few measurements.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StatedBands {
    /// Of all times together.
    pub all: Option<StatedBand>,
    /// Where latency dominates.
    pub latency: Option<StatedBand>,
    /// Where both matter.
    pub middle: Option<StatedBand>,
    /// Where bytes dominate.
    pub bulk: Option<StatedBand>,
}

impl StatedBands {
    /// The band of a predicted time; if its regime has none, that of all times.
    #[must_use]
    pub fn of(&self, time: Seconds, alpha: Seconds) -> Option<StatedBand> {
        let own = match Regime::of(time, alpha) {
            Regime::Latency => self.latency,
            Regime::Middle => self.middle,
            Regime::Bulk => self.bulk,
        };
        own.or(self.all)
    }
}

/// α and the rate of another statistic.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherLink {
    /// Which: `typical`, `floor`.
    pub statistic: String,
    /// α.
    pub alpha: Seconds,
    /// The rate.
    pub bandwidth: Bandwidth,
}

impl Calibration {
    /// The range of 8 of 10 measured times if `time` is expected on links with this α; `None` if
    /// the fit does not state it.
    #[must_use]
    pub fn band(&self, time: Seconds, alpha: Seconds) -> Option<(Seconds, Seconds)> {
        self.errors.bands.of(time, alpha).map(|band| (time * band.low(), time * band.high()))
    }

    /// How far prices on the machine may be trusted, in sentences, for the requested `ranks` and
    /// `size`.
    #[must_use]
    pub fn trust(&self, asked: Option<(u32, Bytes)>) -> Vec<String> {
        let percent = |r: Ratio| match 100.0 * r.0 {
            p if p >= 9.95 => format!("{p:.0} %"),
            p => format!("{p:.1} %"),
        };
        let said = |e: StatedError| {
            format!(
                "{} in the median, at most {} in nine of ten",
                percent(e.median),
                percent(e.p90)
            )
        };
        let mut lines = Vec::new();
        let way = self.transport.as_deref().unwrap_or("samples");
        let ranks: Vec<String> = self.ranks.iter().map(ToString::to_string).collect();
        lines.push(format!(
            "fitted to {way} on {} ranks, {} to {}: {} points, {} time",
            ranks.join(", "),
            self.from,
            self.to,
            self.points,
            self.statistic
        ));
        let errors = &self.errors;
        if let Some(line) = errors.line {
            let bulk = errors.line_bulk.map_or(String::new(), |b| {
                format!("; where bytes dominate, {} and {}", percent(b.median), percent(b.p90))
            });
            lines.push(format!("α and the rate alone miss measured times by {}{bulk}", said(line)));
        }
        if let Some(held) = errors.algorithms {
            lines.push(format!("error on held-out algorithms {}", said(held)));
        }
        if let Some((ranks, size)) = asked {
            if !self.ranks.contains(&ranks) {
                lines.push(format!("{ranks} ranks were not measured: an extrapolation"));
            }
            if size > self.to || size < self.from {
                lines.push(format!("{size} is outside the measured sizes: an extrapolation"));
            }
        }
        let verb = if self.quality == Quality::Rejected { "rejected" } else { "marked" };
        lines.extend(self.marks.iter().map(|mark| format!("{verb}: {mark}")));
        lines
    }
}
