//! Fitted curves: they find what made the times, say what they rest on, and read back.

use collcost::Collective;
use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use collcost::machine::curve::{
    Asked, Bands, Component, Curve, Observation, Placed, Reach, Steps, fit, nearest, observations,
};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::machine::sample::DataType;
use collcost::measure::expect::{Basis, Expecting};
use collcost::model::algorithm::Registry;

fn placed(ranks: u32, nodes: u32) -> Placed {
    Placed { ranks, nodes }
}

fn component(steps: Steps, launch: f64, alpha: f64, rate: f64) -> Component {
    Component {
        steps,
        launch: Seconds(launch),
        alpha: Seconds(alpha),
        alpha_between: None,
        bandwidth: Some(Bandwidth(rate)),
        bandwidth_between: None,
    }
}

/// A curve as somebody might write it down.
fn known(components: Vec<Component>, delta: f64, shape: f64) -> Curve {
    Curve {
        collective: Collective::AllReduce,
        dtype: Some(DataType::F16),
        components,
        delta: Ratio(delta),
        shape: Ratio(shape),
        placed: Vec::new(),
        from: Bytes(512),
        to: Bytes(1 << 29),
        residuals: None,
        bands: Bands::default(),
        rows: 0,
        source: "made up".to_owned(),
    }
}

/// Its times at every power of two.
fn times(curve: &Curve, on: &[Placed]) -> Vec<Observation> {
    let sizes = (9..=29).map(|i| Bytes(1 << i));
    let at = |p: Placed, size| Observation { placed: p, size, time: curve.formula(p, size) };
    sizes.flat_map(|size| on.iter().map(move |&p| at(p, size))).collect()
}

fn asked() -> Asked {
    Asked::new(Collective::AllReduce, Some(DataType::F16))
}

fn near(a: f64, b: f64, part: f64) -> bool {
    (a / b - 1.0).abs() < part
}

const NODE: [Placed; 3] =
    [Placed { ranks: 2, nodes: 1 }, Placed { ranks: 4, nodes: 1 }, Placed { ranks: 8, nodes: 1 }];

#[test]
fn plain_alpha_beta_is_found_where_it_made_the_times() {
    let truth = known(vec![component(Steps::Ring, 8e-6, 0.9e-6, 300e9)], 0.0, 0.0);
    let found = fit(&times(&truth, &NODE), &asked().alpha_beta()).unwrap();
    assert_eq!((found.components.len(), found.delta.0, found.shape.0), (1, 0.0, 0.0));
    let c = found.components[0];
    assert_eq!(c.steps, Steps::Ring);
    assert!(near(c.launch.0, 8e-6, 0.01) && near(c.alpha.0, 0.9e-6, 0.01), "{c:?}");
    assert!(near(c.bandwidth.unwrap().0, 300e9, 0.01), "{c:?}");
    assert_eq!(c.bandwidth_between, None);
}

#[test]
fn what_is_copied_beside_the_bus_factor_and_the_overlap_are_found() {
    let truth = known(vec![component(Steps::Ring, 8e-6, 0.9e-6, 460e9)], 0.85, 0.5);
    let found = fit(&times(&truth, &NODE), &asked()).unwrap();
    assert!((found.delta.0 - 0.85).abs() < 0.1, "{found:?}");
    assert!((found.shape.0 - 0.5).abs() < 0.1, "{found:?}");
    // The parameters trade a little against each other; the times do not, not even for 16 ranks.
    for (p, size) in [(placed(8, 1), 1 << 20), (placed(16, 1), 1 << 24), (placed(16, 1), 4096)] {
        let (told, true_) = (found.time(p, Bytes(size)), truth.formula(p, Bytes(size)));
        assert!(near(told.0, true_.0, 0.03), "{p:?} {size}: {told} {true_}");
    }
}

#[test]
fn two_protocols_are_two_components() {
    let both =
        vec![component(Steps::Log, 6e-6, 2e-6, 20e9), component(Steps::Ring, 12e-6, 1.5e-6, 240e9)];
    let truth = known(both, 0.0, 0.0);
    let on = [placed(4, 1), placed(8, 1), placed(16, 1), placed(32, 1), placed(64, 1)];
    let train = times(&truth, &on[..4]);
    let found = fit(&train, &asked()).unwrap();
    assert!(found.components.len() >= 2, "{found:?}");
    let (small, large) = (Bytes(512), Bytes(1 << 29));
    assert_ne!(found.active(placed(32, 1), small), found.active(placed(32, 1), large));
    for o in times(&truth, &on[4..]) {
        let told = found.formula(o.placed, o.size);
        assert!(near(told.0, o.time.0, 0.12), "{} of {}: {told} {}", o.size, 64, o.time);
    }
}

#[test]
fn where_it_was_measured_the_curve_says_what_was_measured() {
    let truth = known(vec![component(Steps::Ring, 8e-6, 0.9e-6, 300e9)], 0.3, 0.2);
    let mut rows = times(&truth, &NODE);
    // A bump that no component has.
    for o in rows.iter_mut().filter(|o| (1 << 18..1 << 21).contains(&o.size.0)) {
        o.time = o.time * Ratio(1.3);
    }
    let found = fit(&rows, &asked()).unwrap();
    for o in &rows {
        let told = found.expect(o.placed, o.size).unwrap();
        assert!(near(told.time.0, o.time.0, 1e-9), "{} {}", told.time, o.time);
        assert!(told.low < told.time && told.time < told.high);
        assert_eq!(told.reach, Reach::Measured);
    }
    let alone = fit(&rows, &Asked { residuals: false, ..asked() }).unwrap();
    assert!(alone.residuals.is_none());
}

#[test]
fn an_expectation_says_what_it_rests_on() {
    let truth = known(vec![component(Steps::Ring, 8e-6, 0.9e-6, 300e9)], 0.3, 0.2);
    let found = fit(&times(&truth, &NODE), &asked()).unwrap();
    let basis = |ranks, size| found.expect(placed(ranks, 1), Bytes(size)).unwrap().reach;
    assert_eq!(basis(8, 3000), Reach::Measured);
    assert_eq!(basis(6, 3000), Reach::Interpolated);
    assert_eq!(basis(16, 3000), Reach::Extrapolated);
    assert_eq!(basis(8, 1 << 33), Reach::Extrapolated);
    assert_eq!(basis(8, 8), Reach::Extrapolated);
    // An endpoint's neighbourhood is no extrapolation.
    assert_eq!(basis(8, 1 << 30), Reach::Measured);

    let error = found.expect(placed(16, 2), Bytes(1 << 20)).unwrap_err().to_string();
    assert!(error.contains("all-reduce over several nodes was not measured"), "{error}");
    assert!(error.contains("--unseen-tier"), "{error}");
    let unseen = found.expect_unseen(placed(16, 2), Bytes(1 << 20));
    assert_eq!(unseen.reach, Reach::UnseenTier);
    assert!(unseen.high.0 / unseen.low.0 > 5.0);
}

#[test]
fn where_nothing_was_held_out_no_error_is_stated_and_the_band_is_wide() {
    let truth = known(vec![component(Steps::Ring, 8e-6, 0.9e-6, 300e9)], 0.3, 0.2);
    let mut rows = times(&truth, &[placed(64, 1)]);
    rows.truncate(2);
    let found = fit(&rows, &asked()).unwrap();
    assert_eq!(found.bands.iter().count(), 0);
    let wide = |of: Placed| {
        let told = found.expect(of, rows[0].size).unwrap();
        (told.low.0 / told.time.0, told.high.0 / told.time.0)
    };
    assert!(near(wide(placed(64, 1)).1, 1.22, 0.01), "sizes far apart");
    // Between ranks that differ by one as between those that differ by a factor of two.
    assert!(wide(placed(65, 1)).1 > 1.4 && wide(placed(65, 1)) == wide(placed(128, 1)));
    assert!(wide(placed(63, 1)).0 < 0.75 && wide(placed(63, 1)) == wide(placed(32, 1)));
    let stated = fit(&times(&truth, &NODE), &asked()).unwrap();
    assert_eq!(stated.bands.iter().count(), 4);
}

#[test]
fn the_same_times_give_the_same_curve() {
    let truth = known(vec![component(Steps::Tree, 8e-6, 0.9e-6, 300e9)], 0.3, 0.2);
    let rows = times(&truth, &NODE);
    assert_eq!(fit(&rows, &asked()).unwrap(), fit(&rows, &asked()).unwrap());
}

#[test]
fn repeated_times_count_as_their_median() {
    let one =
        |us: f64| Observation { placed: placed(2, 1), size: Bytes(8), time: Seconds(us * 1e-6) };
    assert_eq!(observations([one(9.0), one(3.0), one(4.0)]), [one(4.0)]);
}

#[test]
fn what_is_no_time_is_refused() {
    let at = |size, us: f64| Observation {
        placed: placed(2, 1),
        size: Bytes(size),
        time: Seconds(us * 1e-6),
    };
    for wrong in [
        vec![at(8, 0.0), at(16, 1.0)],
        vec![at(8, f64::NAN), at(16, 1.0)],
        vec![at(8, 1.0)],
        vec![at(0, 1.0), at(8, 1.0)],
        Vec::new(),
    ] {
        assert!(fit(&wrong, &asked()).unwrap_err().is_input(), "{wrong:?}");
    }
}

/// A machine with a curve over one node and another over several.
fn profile() -> Profile {
    let mut profile = Profile::builtin("dgx-h100").unwrap();
    let truth = known(vec![component(Steps::Ring, 8e-6, 0.9e-6, 300e9)], 0.3, 0.2);
    let mut curve = fit(&times(&truth, &NODE), &asked()).unwrap();
    curve.source = "of this \"test\"".to_owned();
    profile.curves = vec![curve];
    profile
}

#[test]
fn a_profile_reads_back_what_it_wrote() {
    let profile = profile();
    let text = profile.to_toml();
    let read = Profile::parse(&text, "x.toml").unwrap();
    let (old, new) = (&profile.curves[0], &read.curves[0]);
    assert_eq!((old.dtype, &old.placed, &old.source), (new.dtype, &new.placed, &new.source));
    for (ranks, size) in [(2, 512), (8, 777_777), (8, 1 << 29), (5, 4096), (16, 1 << 20)] {
        let at = |c: &Curve| c.expect(placed(ranks, 1), Bytes(size)).unwrap();
        let (a, b) = (at(old), at(new));
        assert_eq!(a.reach, b.reach);
        for (x, y) in [(a.time, b.time), (a.low, b.low), (a.high, b.high)] {
            assert!(near(x.0, y.0, 2e-4), "{x} {y}");
        }
    }
    assert_eq!(read.to_toml(), text);
}

#[test]
fn what_no_curve_can_be_is_refused_with_its_place() {
    let text = profile().to_toml();
    for (from, to) in [
        ("shape = ", "shape = -"),
        ("steps = \"ring\"", "steps = \"round\""),
        ("dtype = \"f16\"", "dtype = \"f17\""),
        ("collective = \"allreduce\"", "collective = \"allredce\""),
        ("placed = [[2, 1]", "placed = [[2, 3]"),
        ("held = \"size\"", "held = \"sizes\""),
        ("rows = ", "row = "),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Profile::parse(&text.replacen(from, to, 1), "x.toml").unwrap_err().to_string();
        assert!(error.contains("x.toml:"), "{from}: {error}");
    }
}

fn query(profile: Profile, given: &Given, ranks: u32) -> Query {
    let collective = Collective::AllReduce;
    let machine = Machine::new(Some((profile, "--on")), given, collective).unwrap();
    let layout = Layout { ranks: std::num::NonZeroU32::new(ranks), ..Layout::default() };
    Query::new(
        machine,
        collective,
        Bytes(1 << 20),
        layout,
        collcost::model::formula::Params::default(),
    )
    .unwrap()
}

#[test]
fn what_was_measured_is_expected_and_else_the_price() {
    let registry = Registry::builtin();
    let ask_of = |query: &Query, unseen| {
        let expecting = Expecting::with(&registry, query, None, Some(DataType::F16)).unwrap();
        expecting.unseen_tier(unseen).at(Bytes(1 << 20))
    };
    let ask = |query: &Query| ask_of(query, false);
    let measured = ask(&query(profile(), &Given::default(), 8));
    assert_eq!(measured.basis, Basis::Measured);

    // With another rate it is another machine: as much faster as its ideal price, and less sure.
    let faster = Given { bandwidth: Some(Bandwidth(900e9)), ..Given::default() };
    let expected = ask(&query(profile(), &faster, 8));
    assert_eq!(expected.basis, Basis::Transferred);
    assert!(expected.low < expected.time && expected.time < expected.high);
    assert!(expected.time < measured.time);
    assert!(expected.high.0 / expected.low.0 > measured.high.0 / measured.low.0);

    // Over a tier that was not measured other machines are asked, or the other tier's curve if one
    // insists.
    let over = query(profile(), &Given::default(), 16);
    assert!(ask(&over).basis > Basis::Measured);
    assert_eq!(ask_of(&over, true).reach, Some(Reach::UnseenTier));
}

#[test]
fn types_that_libraries_add_alike_share_a_curve() {
    let of = |dtype| Curve { dtype, ..known(Vec::new(), 0.0, 0.0) };
    let curves = [of(Some(DataType::F16)), of(Some(DataType::I8))];
    let found =
        |dtype| nearest(&curves, Collective::AllReduce, dtype, placed(8, 1)).and_then(|c| c.dtype);
    assert_eq!(found(Some(DataType::F32)), Some(DataType::F16));
    assert_eq!(found(Some(DataType::I32)), Some(DataType::I8));
    assert_eq!(found(None), Some(DataType::F16));
    assert!(nearest(&curves, Collective::Broadcast, None, placed(8, 1)).is_none());
}

#[test]
fn a_curve_that_saw_such_ranks_is_asked_first() {
    let of =
        |dtype, seen: Placed| Curve { dtype, placed: vec![seen], ..known(Vec::new(), 0.0, 0.0) };
    let curves = [of(Some(DataType::F16), placed(8, 1)), of(Some(DataType::F32), placed(16, 2))];
    let found =
        |dtype, at| nearest(&curves, Collective::AllReduce, dtype, at).and_then(|c| c.dtype);
    // A float of another size says more than a float over another tier.
    assert_eq!(found(Some(DataType::F32), placed(8, 1)), Some(DataType::F16));
    assert_eq!(found(Some(DataType::F16), placed(32, 4)), Some(DataType::F32));
    assert_eq!(found(None, placed(16, 2)), Some(DataType::F32));
}
