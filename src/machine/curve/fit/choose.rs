//! Chooses the forms and the number of components.

use super::Asked;
use super::parts::{EACH, MOST, Parts};
use super::row::{Row, placed};
use super::solve::solve;
use crate::base::order::rising;
use crate::machine::curve::Steps;

/// A further component must reduce the error on held-out ranks by a tenth.
const WORTH: f64 = 0.9;
/// Rows for each component, at least.
const ROWS_EACH: usize = 6;
/// How many forms are examined closely.
const FINALISTS: usize = 3;

/// The components of all rows; their number is the one that best predicts held-out ranks.
pub(super) fn parts(rows: &[Row], asked: &Asked) -> Parts {
    let ranks = placed(rows);
    let mut best: Option<(f64, Parts)> = None;
    for count in 1..=(asked.components as usize).clamp(1, MOST) {
        // With two numbers of ranks, only one is left to predict the other; that is not enough for
        // a choice.
        if count > 1 && (rows.len() < ROWS_EACH * count || ranks.len() < 3) {
            break;
        }
        let parts = of_count(count, rows, asked.curved);
        let error = held_out(&parts, rows);
        if best.as_ref().is_none_or(|b| error < WORTH * b.0) {
            best = Some((error, parts));
        }
    }
    best.map_or_else(|| of_count(1, rows, asked.curved), |b| b.1)
}

/// The mean error on each number of ranks of a fit without it; on all rows if there is only one.
fn held_out(parts: &Parts, rows: &[Row]) -> f64 {
    let mut errors = Vec::with_capacity(rows.len());
    for out in placed(rows) {
        let (test, train): (Vec<Row>, Vec<Row>) = rows.iter().partition(|r| r.placed == out);
        if train.iter().any(|r| r.between == out.between()) {
            let refitted = again(parts, &train);
            errors.extend(test.iter().map(|r| r.residual(&refitted).abs()));
        }
    }
    if errors.is_empty() {
        errors.extend(rows.iter().map(|r| r.residual(parts).abs()));
    }
    errors.iter().sum::<f64>() / errors.len() as f64
}

/// The same forms on other rows, starting at `parts`.
pub(super) fn again(parts: &Parts, rows: &[Row]) -> Parts {
    let mut refitted = *parts;
    solve(&mut refitted, rows, &start(parts.forms(), rows, 0, parts.curved), 20);
    refitted
}

/// The best of all forms with this many components.
fn of_count(count: usize, rows: &[Row], curved: bool) -> Parts {
    let starts = if count == 1 { 2 } else { 3 };
    let mut all: Vec<(f64, Parts)> = forms(count)
        .iter()
        .flat_map(|forms| (0..starts).map(move |variant| (forms, variant)))
        .map(|(forms, variant)| {
            let home = start(forms, rows, variant, curved);
            let mut parts = home;
            (solve(&mut parts, rows, &home, 12), parts)
        })
        .collect();
    rising(&mut all, |a| a.0);
    // Only the best start of each form.
    let mut finalists: Vec<Parts> = Vec::with_capacity(FINALISTS);
    for (_, parts) in all {
        if finalists.len() < FINALISTS && !finalists.iter().any(|f| f.forms() == parts.forms()) {
            finalists.push(parts);
        }
    }
    let polished = finalists.into_iter().map(|mut parts| {
        let home = start(parts.forms(), rows, 0, curved);
        (solve(&mut parts, rows, &home, 60), parts)
    });
    // There is always at least one form.
    polished
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(|| start(&[Steps::Ring], rows, 0, curved), |(_, parts)| parts)
}

/// Every choice of a form for each component. The start separates a slow component with a high
/// bandwidth from a fast one with a low bandwidth, so the order matters.
fn forms(count: usize) -> Vec<Vec<Steps>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        all = all
            .iter()
            .flat_map(|before| {
                Steps::ALL.map(|form| before.iter().copied().chain([form]).collect::<Vec<_>>())
            })
            .collect();
    }
    all
}

/// The start of the search: latency over that of the fastest row, time of a byte over that of the
/// largest row, for each component.
const STARTS: [[&[(f64, f64)]; 3]; MOST] = [
    [&[(1.0, 1.0)], &[(0.7, 0.8)], &[(1.3, 0.9)]],
    [&[(1.0, 4.0), (3.0, 1.0)], &[(1.0, 10.0), (4.0, 0.9)], &[(1.0, 2.0), (10.0, 0.9)]],
    [
        &[(1.0, 10.0), (2.0, 3.0), (5.0, 1.0)],
        &[(1.0, 20.0), (3.0, 2.0), (20.0, 0.9)],
        &[(1.0, 5.0), (1.5, 2.0), (4.0, 1.0)],
    ],
];

fn start(forms: &[Steps], rows: &[Row], variant: usize, curved: bool) -> Parts {
    let fastest = rows.iter().map(|r| r.time).fold(f64::INFINITY, f64::min);
    let byte = |between: bool| {
        let of = rows.iter().filter(|r| r.between == between);
        of.max_by(|a, b| a.bytes.total_cmp(&b.bytes))
            .map(|r| (r.time / (r.bytes * (r.factor + 0.2))).ln())
    };
    // A tier that no row has starts with the values of the other tier.
    let (inside, between) = (byte(false), byte(true));
    let (inside, between) = (inside.or(between).unwrap_or(0.0), between.or(inside).unwrap_or(0.0));
    let mut each = [[0.0; EACH]; MOST];
    for (k, (&form, &(latency, rate))) in
        forms.iter().zip(STARTS[forms.len() - 1][variant]).enumerate()
    {
        let steps = rows.iter().map(|r| r.steps[form as usize]).map(|(a, b)| a + b).sum::<f64>();
        let alpha = (fastest * latency * 0.3 / (steps / rows.len() as f64).max(1.0)).ln();
        let launch = (fastest * latency * 0.7).ln();
        each[k] = [launch, alpha, alpha, inside + f64::ln(rate), between + f64::ln(rate)];
    }
    Parts::new(forms, &each, curved)
}
