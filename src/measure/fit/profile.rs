//! Writes a fit as a profile, which every other command reads.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::{Errors, Estimate, Fitted, Regimes, Verdict};
use crate::base::quantity::Ratio;
use crate::machine::profile::{
    Calibration, Date, Flows, How, Links, Measured, OtherLink, Profile, Quality, StatedError,
    StatedErrors,
};
use crate::machine::sample::Samples;

/// What a profile states besides the parameters.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The name of the machine.
    pub name: String,
    /// The command that fits.
    pub command: String,
    /// The program with its version.
    pub tool: String,
    /// The day of the fit; the samples' own day wins.
    pub date: Option<Date>,
}

impl Fitted {
    /// The machine that `samples` were taken on, as a profile.
    ///
    /// If the rate one way differs from that of exchanges, it is kept with its `duplex_factor`; prices
    /// use the one rate.
    #[must_use]
    pub fn profile(&self, samples: &Samples, about: &About) -> Profile {
        let origin = &samples.origin;
        let date = origin.date.as_ref().and_then(|d| d.parse().ok()).or(about.date);
        let moved = || self.points.iter().filter(|p| p.op.moves_data());
        let mut ranks: Vec<u32> = moved().map(|p| p.ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let sizes = || moved().map(|p| p.size);
        let (from, to) = (sizes().min().unwrap_or_default(), sizes().max().unwrap_or_default());
        let fitted = self.by_size.len();
        let way = origin.transport.clone().unwrap_or_else(|| "link".to_owned());
        let shown: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let files = origin.files.join(", ");
        let source = format!(
            "collcost fit of {files}: {fitted} points, least absolute relative errors, 95 % interval"
        );
        let measured = Stated { source: &source, date };
        let sharing: BTreeMap<Flows, Measured<Ratio>> = self
            .sharing
            .iter()
            .filter_map(|(k, share)| Some((Flows(NonZeroU32::new(*k)?), measured.of(*share))))
            .collect();
        let tier = Links {
            alpha: Some(measured.of(self.link.alpha)),
            // A refused fit may have no slope at all: then the rate is unknown, not infinite.
            bandwidth: (self.link.beta.value.0 > 0.0)
                .then(|| measured.of(self.link.beta.bandwidth())),
            // If exchanges are not slower, the fit has no such factor, and a profile needs none.
            duplex_factor: self
                .duplex
                .filter(|_| self.measured.duplex.0 < 1.0)
                .map(|d| measured.of(d)),
            duplex_above: self.measured.duplex_after(),
            knots: self.measured.knots.clone(),
            sharing,
            ..Links::bare(&way)
        };
        let gamma = self.gamma.map(|g| measured.of(g));
        let title =
            format!("fitted: {way}, {} ranks, {} time", shown.join(", "), self.link.statistic.id());
        Profile {
            notes: self.notes(samples),
            tiers: vec![tier],
            gamma,
            c_real: self.c_real.map(|c| measured.of(c)),
            fit: Some(Calibration {
                command: about.command.clone(),
                tool: about.tool.clone(),
                machine: origin.machine.clone(),
                fingerprint: origin.fingerprint.clone(),
                transport: origin.transport.clone(),
                wait: origin.wait.map(|w| w.id().to_owned()),
                statistic: self.link.statistic.id().to_owned(),
                samples: origin.files.clone(),
                ranks,
                from,
                to,
                points: u32::try_from(fitted).unwrap_or(u32::MAX),
                runs: samples.count() as u64,
                quality: match self.verdict() {
                    Verdict::Good => Quality::Good,
                    Verdict::Marked => Quality::Marked,
                    Verdict::Refused => Quality::Rejected,
                },
                marks: self
                    .gates
                    .iter()
                    .filter(|g| g.verdict != Verdict::Good)
                    .map(|g| format!("{}: {}", g.name, g.said))
                    .collect(),
                errors: self.stated(),
                bucket: self.bucket,
                other: (self.other.beta.value.0 > 0.0).then(|| OtherLink {
                    statistic: self.other.statistic.id().to_owned(),
                    alpha: self.other.alpha.value,
                    bandwidth: self.other.beta.bandwidth().value,
                }),
            }),
            ..Profile::bare(about.name.clone(), title)
        }
    }

    fn stated(&self) -> StatedErrors {
        let all = |r: Option<Regimes>| r.map(|r| state(r.all));
        let bulk = |r: Option<Regimes>| r.and_then(|r| r.bulk).map(state);
        StatedErrors {
            algorithms: all(self.errors_by_algorithm),
            algorithms_bulk: bulk(self.errors_by_algorithm),
            sizes: all(self.errors_by_size),
            line: all(self.errors_of_line),
            line_bulk: bulk(self.errors_of_line),
            bands: self.bands,
        }
    }

    fn notes(&self, samples: &Samples) -> Vec<String> {
        let mut notes = samples.notes.clone();
        if let Some(bucket) = &self.bucket {
            notes.push(format!(
                "a token bucket of about {} lets smaller messages leave at once: the rate is the \
                 long-run one, {} is saved at the start",
                bucket.burst,
                bucket.gain()
            ));
        }
        if self.slopes.len() > 1 {
            notes.push(
                "small messages move at the rates of the knots; ideal prices use the last".into(),
            );
        }
        if samples.torn {
            notes.push("the last line of the samples was incomplete and is left out".to_owned());
        }
        notes
    }
}

/// Errors as a file states them, which has none of 0: below a millionth is a millionth.
pub(super) fn state(errors: Errors) -> StatedError {
    let least = |r: Ratio| Ratio(r.0.max(1e-6));
    StatedError { median: least(errors.median), p90: least(errors.p90) }
}

/// What all parameters of a fit have in common.
pub(super) struct Stated<'a> {
    pub source: &'a str,
    pub date: Option<Date>,
}

impl Stated<'_> {
    /// A parameter with its interval.
    fn of<T>(&self, estimate: Estimate<T>) -> Measured<T> {
        let Estimate { value, low, high } = estimate;
        Measured { low: Some(low), high: Some(high), ..self.alone(value) }
    }

    /// A parameter without one.
    pub fn alone<T>(&self, value: T) -> Measured<T> {
        let (source, date) = (self.source.to_owned(), self.date);
        Measured { value, low: None, high: None, how: How::Fitted, source, date }
    }
}
