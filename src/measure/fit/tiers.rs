//! A machine whose links are of two tiers: those inside groups of ranks, and those between groups, each
//! measured and fitted by itself.

use std::num::NonZeroU32;

use super::held_out::{Part, bands};
use super::point::points;
use super::profile::state;
use super::{About, Errors, Fitted, Point, Statistic};
use crate::base::quantity::{Ratio, Seconds};
use crate::cost::price::OnLinks;
use crate::machine::fabric::TierKind;
use crate::machine::profile::{
    Calibration, Links, Profile, Quality, Regime, StatedBand, StatedBands, StatedError,
    StatedErrors,
};
use crate::machine::sample::{Op, Samples};
use crate::model::algorithm::Registry;

/// The machine of both: `inside` groups, of as many ranks as its samples say, and `between` one rank of
/// each.
#[must_use]
pub fn two_tiers(
    registry: &Registry,
    (inside, near): (&Fitted, &Samples),
    (between, far): (&Fitted, &Samples),
    about: &About,
) -> Profile {
    let (inner, mut outer) = (inside.profile(near, about), between.profile(far, about));
    let (Some(mut within), Some(mut across)) = (inner.tiers.into_iter().next(), outer.tiers.pop())
    else {
        return outer;
    };
    let statistic = between.link.statistic;
    outer.title = format!(
        "fitted: {} between groups of {} ranks, {} inside them, {} time",
        across.name,
        near.origin.span.map_or(1, NonZeroU32::get),
        within.name,
        statistic.id()
    );
    let notes = inner.notes.iter().map(|note| format!("inside groups: {note}"));
    outer.notes = notes.chain(outer.notes).chain(cut(&within, &mut across)).collect();
    if within.name == across.name {
        within.name.push_str("-inside");
    }
    (within.span, across.nics) = (near.origin.span, far.nics);
    for (tier, samples) in [(&mut within, near), (&mut across, far)] {
        let memory = samples.origin.is_in_memory();
        tier.kind = Some(if memory { TierKind::Memory } else { TierKind::Network });
    }
    outer.tiers = vec![within, across];
    outer.gamma = inner.gamma.or(outer.gamma);
    // It was measured over one tier.
    outer.c_real = None;
    outer.fit = inner.fit.zip(outer.fit).map(|(inner, outer)| joined(inner, outer));
    let told = told(registry, &outer, far, statistic);
    if told.is_empty() {
        outer.notes.push(
            "errors are the larger ones of the two tiers: collectives over both were not measured"
                .into(),
        );
    }
    if let (Some(fit), Some(all)) = (&mut outer.fit, Errors::of(told.iter().map(Told::error))) {
        let alpha = between.alpha();
        let bulk = told.iter().filter(|told| Regime::of(told.time, alpha) == Regime::Bulk);
        let parts: Vec<Part> = told.iter().map(Told::part).collect();
        fit.errors.algorithms = Some(state(all));
        fit.errors.algorithms_bulk = Errors::of(bulk.map(Told::error)).map(state);
        fit.errors.bands = bands(&parts, alpha);
        fit.ranks.extend(far.whole.first().map(|block| block.ranks));
    }
    outer
}

/// A time of all ranks beside what is expected of both tiers.
struct Told {
    time: Seconds,
    expected: Seconds,
}

impl Told {
    fn error(&self) -> f64 {
        self.expected.0 / self.time.0 - 1.0
    }

    fn part(&self) -> Part {
        Part { predicted: self.expected, part: self.time.0 / self.expected.0, weight: 1.0 }
    }
}

/// The collectives of all ranks, which neither fit has seen.
fn told(registry: &Registry, profile: &Profile, far: &Samples, statistic: Statistic) -> Vec<Told> {
    let points = points(&far.whole, &far.origin);
    let told = |point: &Point| {
        let Op::Run(run) = &point.op else { return None };
        let algorithm = registry.find(run.collective, &run.algorithm).ok()?.algorithm;
        let fabric = profile.fabric(run.collective);
        let shape = fabric.fill(&run.shape(point.ranks));
        let links = OnLinks::new(algorithm, &shape, &fabric).ok()?;
        Some(Told { time: point.time(statistic), expected: links.at(point.size.into()) })
    };
    points.iter().filter_map(told).filter(|told| told.expected.0 > 0.0).collect()
}

/// A profile has no tier that is faster than one inside it: then the outer one has the rate of the inner.
fn cut(inner: &Links, outer: &mut Links) -> Option<String> {
    let (near, far) = (inner.bandwidth.as_ref()?, outer.bandwidth.as_mut()?);
    let (most, measured) = (near.value, far.value);
    if measured <= most {
        return None;
    }
    (far.value, far.low, far.high) = (most, near.low, near.high);
    Some(format!("between groups {measured} was measured, more than inside them: stated as {most}"))
}

/// What is stated of both: the worse of each, as long as nothing was measured of all ranks.
fn joined(inner: Calibration, outer: Calibration) -> Calibration {
    let mut ranks = [inner.ranks, outer.ranks].concat();
    ranks.sort_unstable();
    ranks.dedup();
    let rank = |quality: Quality| match quality {
        Quality::Good => 0,
        Quality::Marked => 1,
        Quality::Rejected => 2,
    };
    let marks = inner.marks.into_iter().map(|mark| format!("inside groups: {mark}"));
    let worse = |a: Option<StatedError>, b: Option<StatedError>| match (a, b) {
        (Some(a), Some(b)) => Some(StatedError {
            median: Ratio(a.median.0.max(b.median.0)),
            p90: Ratio(a.p90.0.max(b.p90.0)),
        }),
        (a, b) => a.or(b),
    };
    let wider = |a: Option<StatedBand>, b: Option<StatedBand>| match (a, b) {
        (Some(a), Some(b)) => {
            let (low, high) = (a.low().0.min(b.low().0), a.high().0.max(b.high().0));
            Some(StatedBand::new(Ratio(low), Ratio(high)))
        }
        (a, b) => a.or(b),
    };
    let (a, b) = (&inner.errors, &outer.errors);
    Calibration {
        samples: [inner.samples, outer.samples].concat(),
        ranks,
        from: inner.from.max(outer.from),
        to: inner.to.min(outer.to),
        points: inner.points + outer.points,
        runs: inner.runs + outer.runs,
        quality: if rank(inner.quality) > rank(outer.quality) {
            inner.quality
        } else {
            outer.quality
        },
        marks: marks.chain(outer.marks).collect(),
        errors: StatedErrors {
            algorithms: worse(a.algorithms, b.algorithms),
            algorithms_bulk: worse(a.algorithms_bulk, b.algorithms_bulk),
            sizes: worse(a.sizes, b.sizes),
            line: worse(a.line, b.line),
            line_bulk: worse(a.line_bulk, b.line_bulk),
            bands: StatedBands {
                all: wider(a.bands.all, b.bands.all),
                latency: wider(a.bands.latency, b.bands.latency),
                middle: wider(a.bands.middle, b.bands.middle),
                bulk: wider(a.bands.bulk, b.bands.bulk),
            },
        },
        ..outer
    }
}
