//! A machine whose links are of two tiers: those inside groups of ranks, and those between groups, each
//! measured and fitted by itself.

use super::{About, Fitted};
use crate::base::quantity::Ratio;
use crate::machine::profile::{
    Calibration, Links, Profile, Quality, StatedBand, StatedBands, StatedError, StatedErrors,
    TierKind,
};
use crate::machine::sample::Samples;

/// The machine of both: `inside` groups, of as many ranks as its samples say, and `between` one rank of
/// each.
#[must_use]
pub fn two_tiers(
    (inside, near): (&Fitted, &Samples),
    (between, far): (&Fitted, &Samples),
    about: &About,
) -> Profile {
    let mut inner = inside.profile(near, about);
    let outer = between.profile(far, about);
    let span = near.origin.span;
    let title = format!("{}; inside {} ranks: {}", outer.title, words(span), inner.title);
    let mut tiers = Vec::new();
    for (mut tier, samples) in [(inner.tiers.remove(0), near), (outer.tiers[0].clone(), far)] {
        let memory = samples.origin.is_in_memory();
        tier.kind = Some(if memory { TierKind::Memory } else { TierKind::Network });
        tiers.push(tier);
    }
    let (near_tier, far_tier) = (&tiers[0], &tiers[1]);
    let name = format!("{}-inside", near_tier.name);
    let is_one = near_tier.name == far_tier.name;
    let far_notes = outer.notes.iter().cloned();
    let notes = inner.notes.iter().map(|note| format!("inside groups: {note}")).chain(far_notes);
    let mut notes: Vec<String> = notes.collect();
    tiers[0].span = span;
    tiers[1].nics = far.nics;
    if is_one {
        tiers[0].name = name;
    }
    notes.extend(cut(&mut tiers));
    let fit = match (inner.fit, outer.fit.clone()) {
        (Some(inner), Some(outer)) => Some(joined(inner, outer)),
        (inner, outer) => outer.or(inner),
    };
    let gamma = inner.gamma.or(outer.gamma.clone());
    // A tree over both tiers was not measured.
    Profile { title, notes, tiers, fit, gamma, c_real: None, ..outer }
}

fn words(span: Option<std::num::NonZeroU32>) -> String {
    span.map_or("groups of".to_owned(), |span| format!("groups of {span}"))
}

/// A profile has no tier that is faster than one inside it: then the outer one has the rate of the inner.
fn cut(tiers: &mut [Links]) -> Option<String> {
    let [inner, outer] = tiers else { return None };
    let (near, far) = (inner.bandwidth.as_ref()?, outer.bandwidth.as_mut()?);
    let (most, measured) = (near.value, far.value);
    if measured <= most {
        return None;
    }
    (far.value, far.low, far.high) = (most, near.low, near.high);
    Some(format!("between groups {measured} was measured, more than inside them: stated as {most}"))
}

/// What is stated of both: the worse of each.
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
        (Some(a), Some(b)) => Some(StatedBand {
            low: Ratio(a.low.0.min(b.low.0)),
            high: Ratio(a.high.0.max(b.high.0)),
        }),
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
