//! Links inside groups of ranks and between groups: one machine of two fits.

use std::num::NonZeroU32;

use collcost::base::quantity::Seconds;
use collcost::machine::fabric::TierKind;
use collcost::machine::profile::Profile;
use collcost::machine::sample::{Op, Sample, Samples};
use collcost::measure::fit::{About, Asked, Fitted, fit, two_tiers};
use collcost::model::algorithm::Registry;

use super::synthetic::{Truth, operations};

const SIZES: [u64; 8] = [8, 64, 512, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

fn measured(truth: &Truth, transport: &str) -> (Fitted, Samples) {
    let mut samples = truth.samples(&operations(), 2, &SIZES, 5);
    samples.origin.transport = Some(transport.to_owned());
    let fitted = fit(&Registry::builtin(), &samples, &Asked::default()).unwrap();
    (fitted, samples)
}

fn joined(inside: (Truth, &str), between: Truth, whole: &[(u64, f64)]) -> Profile {
    let (near, mut near_samples) = measured(&inside.0, inside.1);
    let (far, mut far_samples) = measured(&between, "tcp");
    near_samples.origin.span = NonZeroU32::new(2);
    far_samples.nics = NonZeroU32::new(1);
    let ring: Op = "allreduce/ring".parse().unwrap();
    for &(size, time) in whole {
        let mut blocks = between.samples(std::slice::from_ref(&ring), 4, &[size], 5).blocks;
        for block in &mut blocks {
            block.samples = vec![Sample::of(Seconds(time)); 5];
        }
        far_samples.whole.extend(blocks);
    }
    let about = About { name: "rack".to_owned(), ..About::default() };
    let profile =
        two_tiers(&Registry::builtin(), (&near, &near_samples), (&far, &far_samples), &about);
    // What is written is read as the same machine.
    let read = Profile::parse(&profile.to_toml(), "rack.toml").unwrap();
    assert_eq!(read.to_toml(), profile.to_toml());
    read
}

#[test]
fn a_profile_has_the_tiers_of_both_fits_and_says_how_far_it_is_off_all_ranks() {
    let inside = Truth { alpha: 2e-6, slopes: vec![(0.0, 2e-10)], ..Truth::default() };
    let between = Truth { alpha: 20e-6, slopes: vec![(0.0, 1e-8)], ..Truth::default() };
    // A ring's step is as long as that between the groups: here a tenth longer than the links say.
    let sizes = || (9..21).map(|bits| 1_u64 << bits);
    let ring = |size: u64| 1.1 * 6.0 * (20e-6 + size as f64 / 4.0 * 1e-8);
    let whole: Vec<(u64, f64)> = sizes().map(|size| (size, ring(size))).collect();
    let profile = joined((inside.clone(), "shm"), between.clone(), &whole);
    let [near, far] = &profile.tiers[..] else { panic!("{:?}", profile.tiers) };
    assert_eq!((near.name.as_str(), near.kind), ("shm", Some(TierKind::Memory)));
    assert_eq!((far.name.as_str(), far.kind), ("tcp", Some(TierKind::Network)));
    assert_eq!((near.span, far.nics), (NonZeroU32::new(2), NonZeroU32::new(1)));
    for (tier, truth) in [(near, &inside), (far, &between)] {
        let alpha = tier.alpha.as_ref().unwrap().value.0;
        let rate = tier.bandwidth.as_ref().unwrap().value.0;
        assert!((alpha / truth.alpha - 1.0).abs() < 0.02, "{alpha}");
        assert!((rate * truth.slopes[0].1 - 1.0).abs() < 0.02, "{rate}");
    }
    let stated = profile.fit.as_ref().unwrap();
    assert_eq!(stated.ranks, [2, 4]);
    let median = stated.errors.algorithms.unwrap().median.0;
    assert!((median - (1.0 - 1.0 / 1.1)).abs() < 0.02, "{median}");
    let all = stated.errors.bands.all.unwrap();
    // All of them took longer than is expected, which is in its band for all that.
    assert!((1.05..1.15).contains(&all.high().0), "{all:?}");
    assert!((0.99..1.0).contains(&all.low().0), "{all:?}");
    let alpha = far.alpha.as_ref().unwrap().value;
    let (low, high) = profile.fit.as_ref().unwrap().band(Seconds(1.0), alpha).unwrap();
    assert!(low.0 < 1.0 && high.0 > 1.0, "{low} to {high}");

    // Without such collectives, the larger errors of the two fits.
    let apart = joined((inside, "tcp"), between, &[]);
    assert_eq!(apart.tiers[0].name, "tcp-inside");
    assert!(apart.notes.iter().any(|note| note.contains("were not measured")));
    assert!(apart.fit.unwrap().errors.algorithms.unwrap().median.0 < 0.02);
}

#[test]
fn links_between_groups_that_are_faster_than_those_inside_have_their_rate() {
    let inside = Truth { slopes: vec![(0.0, 4e-9)], ..Truth::default() };
    let between = Truth { alpha: 40e-6, slopes: vec![(0.0, 1e-9)], ..Truth::default() };
    let profile = joined((inside, "tcp"), between, &[]);
    let rate = |tier: usize| profile.tiers[tier].bandwidth.as_ref().unwrap().value;
    assert_eq!(rate(0), rate(1));
    assert!(profile.notes.iter().any(|note| note.contains("more than inside them")));
}
