//! The estimator on samples whose truth is known.

use crate::full::one_in;
use collcost::base::quantity::{Bandwidth, Bytes};
use collcost::machine::link::Bucket;
use collcost::machine::sample::Op;
use collcost::measure::fit::{Asked, Fitted, Statistic, Verdict, fit};
use collcost::model::algorithm::Registry;

use super::synthetic::{Truth, fan_out, ladder, operations};

fn asked() -> Asked {
    Asked { statistic: Some(Statistic::Typical), draws: 100, ..Asked::default() }
}

fn fitted(truth: &Truth, ops: &[Op], largest: u64) -> Fitted {
    let samples = truth.samples(ops, 4, &ladder(largest), 7);
    fit(&Registry::builtin(), &samples, &asked()).expect("it fits")
}

#[track_caller]
fn near(what: &str, value: f64, truth: f64, part: f64) {
    assert!((value / truth - 1.0).abs() < part, "{what} is {value:e}, not {truth:e}");
}

#[test]
fn alpha_and_beta_are_found_among_outliers() {
    let truth = Truth { outliers: 0.3, noise: 0.02, ..Truth::default() };
    let fitted = fitted(&truth, &operations(), 8 << 20);
    near("alpha", fitted.alpha().0, truth.alpha, 0.02);
    near("beta", fitted.link.beta.value.0, 1e-9, 0.01);
    assert_eq!(fitted.slopes.len(), 1, "{:?}", fitted.slopes);
    assert!(
        fitted.bucket.is_none() && fitted.duplex.is_none_or(|d| (d.value.0 - 1.0).abs() < 0.02)
    );
}

#[test]
fn knots_are_found_where_they_are() {
    let truth = Truth { slopes: vec![(0.0, 0.2e-9), (65536.0, 1e-9)], ..Truth::default() };
    let fitted = fitted(&truth, &operations(), 16 << 20);
    let [first, last] = fitted.slopes[..] else { panic!("{:?}", fitted.slopes) };
    assert_eq!(first.to.map(|b| b.0), Some(65536));
    near("first slope", first.each.value.0, 0.2e-9, 0.1);
    near("last slope", last.each.value.0, 1e-9, 0.01);
    near("alpha", fitted.alpha().0, truth.alpha, 0.02);
}

#[test]
fn a_bucket_does_not_halve_beta() {
    let truth = Truth { burst: 524_288.0, ..Truth::default() };
    let fitted = fitted(&truth, &operations(), 32 << 20);
    let bucket = fitted.bucket.expect("the ping-pong shows it");
    near("rate", bucket.rate.0, 1e9, 0.02);
    near("burst", bucket.burst.0 as f64, truth.burst, 0.2);
    near("beta", fitted.link.beta.value.0, 1e-9, 0.01);
}

/// The largest sizes of a ladder, measured in a slower state of the machine, lie on a line that meets the
/// axis below zero, as a bucket's do; a stream of data would have shown a bucket of half a mebibyte.
#[test]
fn a_bucket_that_a_stream_did_not_show_is_none() {
    let truth = Truth { burst: 524_288.0, ..Truth::default() };
    let samples = truth.samples(&operations(), 4, &ladder(32 << 20), 1);
    let found = |stream| {
        let asked = Asked { stream, ..asked() };
        fit(&Registry::builtin(), &samples, &asked).unwrap().bucket
    };
    assert!(found(None).is_some());
    assert_eq!(found(Some(Bandwidth(1e9))), None);
}

/// Four exchanges of sixteen times the bucket, near each other, agree on β; many messages far below it
/// seem faster, each operation by another part, and follow no model.
#[test]
fn messages_below_a_bucket_do_not_outvote_those_above() {
    let truth = |each: f64, misfit: f64| Truth {
        alpha: 30e-6,
        slopes: vec![(0.0, each)],
        misfit,
        ..Truth::default()
    };
    let settled = [128, 132, 136, 140].map(|part| part << 15);
    let bucket = Bucket { rate: Bandwidth(1.0 / 160e-9), burst: Bytes(256 << 10) };
    for (misfit, seed) in [(0.2, 7), (0.2, 8), (0.3, 8), (0.5, 7)] {
        let mut samples = truth(160e-9, 0.0).samples(&[Op::Shift], 4, &settled, seed);
        let others = operations().into_iter().filter(|op| !matches!(op, Op::OneWay));
        samples.blocks.extend(others.enumerate().flat_map(|(i, op)| {
            let part = 0.75 + 0.05 * (i % 5) as f64;
            truth(part * 160e-9, misfit).samples(&[op], 4, &ladder(32 << 10), seed).blocks
        }));
        let asked = Asked { bucket: Some(bucket), ..asked() };
        let beta = fit(&Registry::builtin(), &samples, &asked).unwrap().link.beta;
        near("beta", beta.value.0, 160e-9, 0.005);
        near("its low end", beta.low.0, 160e-9, 0.02);
        near("its high end", beta.high.0, 160e-9, 0.02);
    }
}

#[test]
fn gamma_comes_from_local_additions() {
    let truth = Truth { gamma: 0.3e-9, ..Truth::default() };
    let mut ops = operations();
    ops.push(Op::Reduce);
    let fitted = fitted(&truth, &ops, 8 << 20);
    near("gamma", fitted.gamma.expect("it was measured").value.0, truth.gamma, 0.03);
    near("beta", fitted.link.beta.value.0, 1e-9, 0.01);
    // Without them additions hide in β, and nothing claims to know γ.
    let blind = super::estimator::fitted(&truth, &operations(), 8 << 20);
    assert!(blind.gamma.is_none());
}

/// In shared memory two ranks that copy at once hinder each other only in long messages.
#[test]
fn exchanges_may_be_slower_in_long_messages_alone() {
    let slopes = vec![(0.0, 1e-9), (65536.0, 0.4e-9)];
    let truth =
        Truth { alpha: 1e-7, duplex: 0.5, duplex_above: 65536.0, slopes, ..Truth::default() };
    let fitted = fitted(&truth, &operations(), 8 << 20);
    near("duplex", fitted.duplex.expect("it differs").value.0, 0.5, 0.03);
    near("beta one way", fitted.link.beta.value.0, 0.4e-9, 0.03);
    near("above", fitted.measured.duplex_above.0 as f64, 65536.0, 0.5);
    let everywhere = Truth { duplex_above: 0.0, ..truth };
    let fitted = super::estimator::fitted(&everywhere, &operations(), 8 << 20);
    assert_eq!(fitted.measured.duplex_above.0, 0);
}

#[test]
fn the_tree_exchanges_and_fans_have_figures_of_their_own() {
    let truth = Truth { duplex: 0.6, sharing: 0.8, tree: 1.1, ..Truth::default() };
    let mut ops = operations();
    ops.extend([fan_out(2), fan_out(3)]);
    ops.extend(
        ["allreduce/double-binary-tree", "allreduce/double-binary-tree/P=4"]
            .map(|t| t.parse().unwrap()),
    );
    let fitted = fitted(&truth, &ops, 8 << 20);
    near("duplex", fitted.duplex.expect("it differs").value.0, 0.6, 0.02);
    near("beta one way", fitted.link.beta.value.0, 1e-9, 0.02);
    // On one port the form's limit is 2 vectors.
    near("c_real", fitted.c_real.expect("it was measured").value.0, 2.0 * 1.1, 0.02);
    let ks: Vec<u32> = fitted.sharing.iter().map(|(k, _)| *k).collect();
    assert_eq!(ks, [2, 3]);
    for (_, part) in &fitted.sharing {
        near("sharing", part.value.0, 0.8, 0.02);
    }
}

/// Over a network no collective shows what an addition takes: runs on an unchanged machine differed by a
/// quarter.
#[test]
fn additions_are_known_over_a_network_as_well_as_they_are_in_memory() {
    let truth = Truth { gamma: 25e-12, ..Truth::default() };
    let ops: Vec<Op> = operations().into_iter().chain([Op::Reduce]).collect();
    let half = |machine: &str| {
        let mut samples = truth.samples(&ops, 4, &ladder(8 << 20), 7);
        samples.origin.machine = Some(machine.to_owned());
        let gamma = fit(&Registry::builtin(), &samples, &asked()).unwrap().gamma.unwrap();
        near("gamma", gamma.value.0, truth.gamma, 0.02);
        0.5 * (gamma.high.0 - gamma.low.0) / gamma.value.0
    };
    assert!(half("a host, 2 CPUs") < 0.03);
    assert!((0.13..0.17).contains(&half("a host, 2 CPUs, virtual")));
}

#[test]
fn what_cannot_be_told_apart_is_refused() {
    let truth = Truth::default();
    let ladder_of = |powers: std::ops::Range<u32>| {
        let sizes: Vec<u64> = powers.map(|k| 1 << k).collect();
        let samples = truth.samples(&operations(), 4, &sizes, 1);
        let fitted = fit(&Registry::builtin(), &samples, &asked()).unwrap();
        let gate = fitted.gates.iter().find(|gate| gate.name == "ladder");
        (fitted.verdict(), gate.map(|gate| gate.verdict))
    };
    // Small messages only: no point shows β.
    assert_eq!(ladder_of(3..10), (Verdict::Refused, Some(Verdict::Refused)));
    // Large ones only show β, and the profile says that α is not known.
    assert_eq!(ladder_of(22..27), (Verdict::Marked, Some(Verdict::Marked)));
    let few = truth.samples(&["shift".parse().unwrap()], 4, &[8, 1024], 1);
    let error = fit(&Registry::builtin(), &few, &asked()).unwrap_err();
    assert!(error.is_scarce() && error.what().contains("too few to fit α and β"), "{error}");
}

#[test]
fn a_rate_that_a_stream_contradicts_is_refused() {
    let truth = Truth::default();
    let all = |part: f64| {
        let mut samples = truth.samples(&operations(), 4, &ladder(1 << 20), 3);
        let beta = fit(&Registry::builtin(), &samples, &asked()).unwrap().link.beta.value;
        samples.stream = Some(Bandwidth(part / beta.0));
        let fitted = fit(&Registry::builtin(), &samples, &asked()).unwrap();
        let gate = fitted.gates.iter().find(|g| g.name == "stream").map(|g| g.verdict);
        (gate, fitted.link.beta.high.0 * samples.stream.unwrap().0)
    };
    assert_eq!(all(0.9).0, None);
    let (verdict, reach) = all(0.4);
    assert!(verdict == Some(Verdict::Marked) && reach >= 1.0 - 1e-9, "{verdict:?}, {reach}");
    assert_eq!(all(0.1).0, Some(Verdict::Refused));
}

#[test]
fn the_same_seed_gives_the_same_fit() {
    let samples = Truth::default().samples(&operations(), 4, &ladder(1 << 20), 3);
    let link = || fit(&Registry::builtin(), &samples, &asked()).unwrap().link;
    assert_eq!(link(), link());
}

/// Whether exchanges are certainly slower rests on draws, too.
#[test]
fn another_seed_moves_intervals_alone() {
    let mut moved = 0;
    for case in (1..=12).step_by(one_in(3)) {
        let truth =
            Truth { duplex: 0.85, misfit: 0.15, noise: 0.05, gamma: 2e-10, ..Truth::default() };
        let samples = truth.samples(&operations(), 4, &ladder(1 << 20), case);
        let link =
            |seed| fit(&Registry::builtin(), &samples, &Asked { seed, ..asked() }).unwrap().link;
        let first = link(1);
        for seed in 2..=6 {
            let other = link(seed);
            assert_eq!(
                (other.alpha.value, other.beta.value),
                (first.alpha.value, first.beta.value)
            );
            moved += u32::from(other.beta.low != first.beta.low);
        }
    }
    assert!(moved > 0);
}

/// 400 runs in all, each with other noise: the truth lies in 90 to 99 % of the intervals.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let runs = 400 / one_in(4) as u32;
    let truth = Truth { noise: 0.03, misfit: 0.02, strays: 0.05, ..Truth::default() };
    let ops: Vec<Op> = operations().into_iter().step_by(2).collect();
    let sizes: Vec<u64> = ladder(32 << 20).into_iter().step_by(2).collect();
    let (mut alpha, mut beta) = (0, 0);
    for seed in 0..runs {
        let samples = truth.samples(&ops, 4, &sizes, u64::from(seed) + 1);
        let link = fit(&Registry::builtin(), &samples, &asked()).unwrap().link;
        let held = |low: f64, high: f64, truth: f64| u32::from(low <= truth && truth <= high);
        alpha += held(link.alpha.low.0, link.alpha.high.0, truth.alpha);
        beta += held(link.beta.low.0, link.beta.high.0, 1e-9);
    }
    let parts = [alpha, beta].map(|held| f64::from(held) / f64::from(runs));
    assert!(parts.iter().all(|part| (0.90..=0.99).contains(part)), "α, β: {parts:?}");
}
