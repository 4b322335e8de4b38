//! Learns expectations from measured clusters, and their error without each of them.
//!
//! ```text
//! evidence   ln t of every curve at every octave; versions of one machine averaged
//! base       47 constants of GPUs, 28 of hosts, by least squares         (fit)
//! series     the residuals by a Gaussian process                         (process)
//! bands      quantiles of a machine's errors by the model without it     (widths)
//! ```
//!
//! Each [`Family`] of collectives is learned by itself.
//!
//! A held-out machine is left out of all four. No such model is stored: the inverse of one matrix answers
//! for all machines, so everything takes seconds, and a command can compare answers with any user's points.
//! `examples/learn.rs` writes what was learned from all machines into `learned.rs`.

mod clusters;
mod evidence;
mod fit;
mod gains;
mod process;
mod smooth;
mod widths;
mod write;

pub use clusters::Clusters;
pub use smooth::{Smooth, smooth};

use std::borrow::Cow;

use evidence::{Evidence, Line, fades};
use fit::Logs;
use process::Inverse;
use widths::{Held, Point, Seen};

use super::base::Family;
use super::model::{Bands, Learned, Model};
use super::series::Series;
use super::{Transfer, region};
use crate::base::error::Result;
use crate::base::quantity::Bytes;

/// What was learned from all clusters, and with each of them left out.
#[derive(Debug, Clone)]
pub struct Study {
    /// In the order of [`Family::ALL`].
    parts: [Part; Family::ALL.len()],
}

impl Study {
    /// Learns from `clusters`: takes seconds in a release build.
    ///
    /// # Errors
    /// A profile is not built in, or says too little of its links.
    pub fn new(clusters: &Clusters) -> Result<Self> {
        let [collectives, exchanges, sends, hosts] = Family::ALL.map(|f| Part::new(clusters, f));
        Ok(Self { parts: [collectives?, exchanges?, sends?, hosts?] })
    }

    /// What was learned from all of them.
    #[must_use]
    pub fn learned(&self) -> Learned {
        Learned { families: self.parts.each_ref().map(Part::learned) }
    }

    /// The error of each family on machines that are left out.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.parts
            .iter()
            .map(|part| format!("{}: {}", part.evidence.family.name(), part.held.words()))
    }

    /// What was learned from the others; from all of them if `machine` is not among them.
    #[must_use]
    pub fn without(&self, machine: &str) -> Learned {
        Learned { families: self.parts.each_ref().map(|part| part.without(machine)) }
    }
}

/// A family, learned without the others.
#[derive(Debug, Clone)]
struct Part {
    evidence: Evidence,
    /// Absent for a family without series.
    inverse: Option<Inverse>,
    constants: Logs,
    /// For each machine, the model without it.
    left_out: Vec<Logs>,
    held: Held,
}

impl Part {
    fn new(clusters: &Clusters, family: Family) -> Result<Self> {
        let evidence = Evidence::new(clusters, family)?;
        let constants = fit::fit(&evidence, |_| true, &fit::start());
        let inverse =
            family.has_series().then(|| Inverse::of(evidence.covariance(), evidence.len()));
        let left_out = (0..evidence.machines.len())
            .map(|g| fit::fit(&evidence, |line| line.machine != g, &constants));
        let left_out = left_out.collect();
        let held = Held::default();
        let mut part = Self { evidence, inverse, constants, left_out, held };
        part.held = Held::new(part.points(clusters, family)?, part.beyond());
        Ok(part)
    }

    fn learned(&self) -> Model {
        Model { bands: self.held.bands(None), ..self.model(&self.constants, |_| false) }
    }

    fn without(&self, machine: &str) -> Model {
        match self.evidence.machines.iter().position(|m| m == machine) {
            Some(g) => Model { bands: self.held.bands(Some(g)), ..self.bare(g) },
            None => self.learned(),
        }
    }

    /// The others' constants and series, without bands.
    fn bare(&self, machine: usize) -> Model {
        self.model(&self.left_out[machine], |line| line.machine == machine)
    }

    /// The residual of every value.
    fn left(&self, logs: &Logs) -> Vec<f64> {
        let k = fit::constants(logs);
        let of = |line: &Line| -> Vec<f64> {
            let base = fit::base(&k, line);
            line.values.iter().map(|&(octave, y)| y - fit::ln_us(&base, octave)).collect()
        };
        self.evidence.lines.iter().flat_map(of).collect()
    }

    /// Constants with the series of the lines that are not `out`.
    fn model(&self, logs: &Logs, out: impl Fn(&Line) -> bool) -> Model {
        let constants = fit::constants(logs);
        let Some(inverse) = &self.inverse else {
            return Model { constants, series: Cow::Borrowed(&[]), bands: Bands::default() };
        };
        let weights = inverse.weights(&self.left(logs), &self.evidence.places(&out));
        let lines = self.evidence.lines.iter().zip(self.evidence.starts.windows(2));
        let series = lines.filter(|(line, _)| !out(line)).map(|(line, at)| {
            let left = std::array::from_fn(|k| {
                let values = line.values.iter().zip(&weights[at[0]..at[1]]);
                values.map(|(v, weight)| fades(k as f64 - v.0) * weight).sum::<f64>() as f32
            });
            Series { left, ..line.series.clone() }
        });
        Model { constants, series: Cow::Owned(series.collect()), bands: Bands::default() }
    }

    /// Every curve at every octave by the model without its machine.
    fn points(&self, clusters: &Clusters, family: Family) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for (g, machine) in self.evidence.machines.iter().enumerate() {
            let model = self.bare(g);
            for cluster in clusters.all.iter().filter(|c| c.machine == *machine) {
                for curve in &cluster.curves {
                    let Some(asked) = curve.asked(family, cluster.hosts) else { continue };
                    let features = cluster.features(curve.ranks / curve.nodes)?;
                    let transfer = Transfer::of(&model, &features, asked);
                    let first = points.len();
                    points.extend(curve.octaves().filter_map(|k| {
                        let octave = f64::from(k);
                        let error = curve.at(octave)? - (1e6 * transfer.time(octave.exp2())).ln();
                        let near = transfer.near(octave);
                        Some(Point {
                            machine: g,
                            group: features.group(&asked),
                            several: asked.nodes > 1.0,
                            domain: asked.is_domain(),
                            near: near as usize,
                            region: region(Bytes(1 << k)),
                            step: transfer.beyond(octave, near),
                            error,
                            scatter: curve.scatter,
                            octave,
                            seen: None,
                        })
                    }));
                    see(&mut points, first);
                }
            }
        }
        Ok(points)
    }

    /// Each machine by its own values on fewer ranks, and by the other machines.
    fn beyond(&self) -> Vec<widths::Beyond> {
        let mut all = Vec::new();
        let Some(inverse) = &self.inverse else { return all };
        for g in 0..self.evidence.machines.len() {
            let own = || self.evidence.lines.iter().filter(|line| line.machine == g);
            let mut ranks: Vec<u32> = own().map(|line| line.series.ranks).collect();
            ranks.sort_unstable();
            ranks.dedup();
            let left = self.left(&self.left_out[g]);
            for &most in ranks.iter().rev().skip(1) {
                let out = |line: &Line| line.machine == g && line.series.ranks > most;
                let places = self.evidence.places(out);
                let told = inverse.told(&left, &places);
                // Going from one node to several adds an unmeasured tier.
                let spread = own().any(|l| l.series.ranks <= most && l.series.nodes > 1);
                let values = self.evidence.lines.iter().filter(|line| out(line));
                let values = values.flat_map(|line| line.values.iter().map(move |v| (line, v.0)));
                for ((line, octave), (told, &place)) in values.zip(told.iter().zip(&places)) {
                    let several = line.series.nodes > 1;
                    let step = match f64::from(line.series.ranks) / f64::from(most) {
                        _ if several && !spread => continue,
                        2.0 => 0,
                        4.0 => 1,
                        8.0 => 2,
                        _ => continue,
                    };
                    all.push(widths::Beyond {
                        machine: g,
                        group: line.features.group(&line.asked),
                        several,
                        step,
                        region: region(Bytes(octave.exp2() as u64)),
                        error: left[place] - told,
                    });
                }
            }
        }
        all
    }
}

/// The seen point of a curve: the nearest to 1 MiB, on a tie the smaller.
const SEEN: f64 = 20.0;

/// Each point from `first` on as a query for which that one was seen.
fn see(points: &mut [Point], first: usize) {
    let own = points[first..].iter().enumerate();
    let far = |p: &Point| (p.octave - SEEN).abs();
    let nearest = own.min_by(|a, b| far(a.1).total_cmp(&far(b.1))).map(|(i, _)| first + i);
    let Some(at) = nearest else { return };
    let seen = points[at].octave;
    for (i, point) in points.iter_mut().enumerate().skip(first) {
        let apart = point.octave - seen;
        point.seen = (i != at).then_some(Seen { at, apart });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What bands of hosts say of the evidence's ends is so, and each constant is fitted with its family.
    #[test]
    fn hosts_end_where_their_evidence_does() {
        let clusters = Clusters::built_in().unwrap();
        let hosts = clusters.all.iter().filter(|c| c.hosts).flat_map(|c| &c.curves);
        let placed: Vec<(u32, u32)> = hosts.map(|c| (c.nodes, c.ranks / c.nodes)).collect();
        let most = |of: fn(&(u32, u32)) -> u32| placed.iter().map(of).max().map(f64::from);
        let measured = super::super::hosts::MEASURED;
        assert_eq!((most(|p| p.0), most(|p| p.1)), (Some(measured.0), Some(measured.1)));
        for family in Family::ALL {
            let own = &fit::UNKNOWNS[fit::own(family)];
            let is_own = |u: &fit::Unknown| u.name.starts_with("hosts.") != family.has_series();
            assert!(own.iter().all(is_own), "{}", family.name());
        }
    }

    /// The built-in constants are the result of the fit; everything is compared in
    /// `tests/engine/expect.rs`.
    #[test]
    fn built_in_constants_are_what_the_clusters_teach() {
        let (clusters, built_in) = (Clusters::built_in().unwrap(), Learned::built_in());
        for family in Family::ALL {
            let shipped = built_in.of(family);
            let evidence = Evidence::new(&clusters, family).unwrap();
            let fitted = fit::constants(&fit::fit(&evidence, |_| true, &fit::start()));
            for unknown in &fit::UNKNOWNS {
                let value = |of| fit::value(of, unknown);
                let (own, shipped) = (value(&fitted), value(&shipped.constants));
                let name = unknown.name;
                assert!(
                    (own / shipped).ln().abs() < 2e-3,
                    "{name}: {own} is fitted, not {shipped}"
                );
            }
        }
    }
}
