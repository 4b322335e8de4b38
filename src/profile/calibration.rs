//! How a fitted profile came about, and how far it may be trusted.

use crate::quantity::{Bandwidth, Bytes, Ratio, Seconds};

/// Where fitted figures come from, with the errors that the fit states of itself.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The command that fitted.
    pub command: String,
    /// The program with its version.
    pub tool: String,
    /// The machine in words.
    #[serde(default)]
    pub machine: Option<String>,
    /// What must be equal for samples to be of one machine.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// How data moved: `shm`, `tcp`.
    #[serde(default)]
    pub transport: Option<String>,
    /// How ranks waited: `spin`, `poll`.
    #[serde(default)]
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
    /// How many runs they rest on.
    pub runs: u64,
    /// How the gates judged it.
    pub quality: Quality,
    /// What gates marked or refused: name, number, limit.
    #[serde(default)]
    pub marks: Vec<String>,
    /// How far predictions lay from what was measured.
    pub errors: StatedErrors,
    /// A token bucket on the way, where the ladder shows one.
    #[serde(default)]
    pub bucket: Option<StatedBucket>,
    /// α and the rate of the statistic that was not chosen.
    #[serde(default)]
    pub other: Option<OtherLink>,
}

/// How the gates judged a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// Nothing speaks against it.
    Good,
    /// It may be used, and the marks say what to know.
    Marked,
    /// It was refused and written all the same.
    Rejected,
}

impl Quality {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Marked => "marked",
            Self::Rejected => "rejected",
        }
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
    /// On algorithms that the fit did not see.
    #[serde(default)]
    pub algorithms: Option<StatedError>,
    /// The same where bytes decide: times above 10 α.
    #[serde(default)]
    pub algorithms_bulk: Option<StatedError>,
    /// On sizes that the fit did not see.
    #[serde(default)]
    pub sizes: Option<StatedError>,
    /// Of α and the rate alone, without knots: what prices are made of.
    #[serde(default)]
    pub line: Option<StatedError>,
    /// The same where bytes decide.
    #[serde(default)]
    pub line_bulk: Option<StatedError>,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedBucket {
    /// The long-run rate.
    pub rate: Bandwidth,
    /// Bytes that may leave at once.
    pub burst: Bytes,
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

/// Up to which byte of a message the rate is another.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knot {
    /// The bytes of a message before this one …
    pub below: Bytes,
    /// … and behind the knot before it move at this rate; absent: they cost nothing measurable.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
}

impl Calibration {
    /// How far prices on the machine may be trusted, in sentences; for `ranks` and `size` asked.
    #[must_use]
    pub fn trust(&self, asked: Option<(u32, Bytes)>) -> Vec<String> {
        let percent = |r: Ratio| match 100.0 * r.0 {
            p if p >= 9.95 => format!("{p:.0} %"),
            p => format!("{p:.1} %"),
        };
        let said = |e: StatedError| {
            format!(
                "{} in the median, {} at most in nine of ten",
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
                format!("; where bytes decide {} and {}", percent(b.median), percent(b.p90))
            });
            lines.push(format!(
                "α and the rate alone miss what was measured by {}{bulk}",
                said(line)
            ));
        }
        if let Some(held) = errors.algorithms {
            lines.push(format!("algorithms that the fit did not see are missed by {}", said(held)));
        }
        if let Some((ranks, size)) = asked {
            if !self.ranks.contains(&ranks) {
                lines.push(format!("{ranks} ranks were not measured: an extrapolation"));
            }
            if size > self.to || size < self.from {
                lines.push(format!("{size} lies outside what was measured: an extrapolation"));
            }
        }
        let verb = if self.quality == Quality::Rejected { "rejected" } else { "marked" };
        lines.extend(self.marks.iter().map(|mark| format!("{verb}: {mark}")));
        lines
    }
}
