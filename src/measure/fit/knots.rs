//! Where the time per byte changes: knots are added while Schwarz's criterion falls.

use super::bootstrap::affordable;
use super::lad;
use super::model::{Basis, Design, Entry};
use crate::base::order::sorted;

/// The most knots.
const MOST: usize = 3;

/// How much the criterion must fall for one more knot, or another parameter.
pub(super) const FALL: f64 = 6.0;

/// Knots of less weight beside the best do not count.
const NEGLIGIBLE: f64 = 0.01;

/// Step sizes that a segment must contain.
const LEAST_SIZES: usize = 3;

/// The sizes of messages, each once, in order.
fn sizes(entries: &[Entry]) -> Vec<f64> {
    let messages = entries.iter().flat_map(|e| &e.path.messages);
    let mut sizes = sorted(messages.map(|sent| sent.bytes.0).filter(|b| *b > 0.0));
    sizes.dedup();
    sizes
}

/// The knots that explain the entries best, and others that nearly do.
pub(super) struct Found {
    pub best: Vec<f64>,
    /// Other knots with their weights, those of the best being 1: exp(−Δ/2), Δ the difference of the
    /// criteria.
    ///
    /// Source: Buckland, Burnham, Augustin, Model selection: an integral part of inference, Biometrics
    /// 53, 1997.
    pub rivals: Vec<(Vec<f64>, f64)>,
}

/// Searches them, one more as long as the criterion falls.
pub(super) fn search(entries: &[Entry], basis: &Basis) -> Found {
    let sizes = sizes(entries);
    let with = |knots: Vec<f64>| Basis { knots, ..basis.clone() };
    let mut best = with(Vec::new());
    let mut least = criterion(entries, &best);
    let mut seen = vec![(least, Vec::new())];
    // Of very many sizes, an evenly spread subset is tried.
    let step = sizes.len().div_ceil(affordable(entries.len())).max(1);
    // The best of these knots and one more.
    let mut beside = |others: &[f64]| {
        let tried = sizes.iter().step_by(step).filter_map(|&size| {
            let mut knots = others.to_vec();
            knots.push(size);
            knots.sort_by(f64::total_cmp);
            fits(&knots, &sizes).then(|| with(knots))
        });
        let scored: Vec<(f64, Basis)> = tried.map(|b| (criterion(entries, &b), b)).collect();
        seen.extend(scored.iter().map(|(score, basis)| (*score, basis.knots.clone())));
        scored.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    };
    while best.knots.len() < MOST {
        let next = beside(&best.knots).filter(|(score, _)| *score <= least - FALL);
        let Some(next) = next else { break };
        (least, best) = next;
        // The knots before may lie elsewhere beside it, as that of one cache beside that of the next.
        for moved in 0..best.knots.len() - 1 {
            let mut others = best.knots.clone();
            others.remove(moved);
            if let Some(next) = beside(&others).filter(|(score, _)| *score < least) {
                (least, best) = next;
            }
        }
    }
    let weight = |score: f64| (-0.5 * (score - least)).exp().min(1.0);
    let near = |(score, knots)| Some((knots, weight(score))).filter(|(_, w)| *w > NEGLIGIBLE);
    let rivals = seen.into_iter().filter_map(near).filter(|(k, _)| *k != best.knots).collect();
    Found { best: best.knots, rivals }
}

/// Whether neighbours differ by a factor of two, the largest size being the last, and every segment
/// contains enough sizes. A knot right below a few large sizes that lie near each other would leave the
/// last slope to their small differences.
fn fits(knots: &[f64], sizes: &[f64]) -> bool {
    let ends: Vec<f64> = knots.iter().copied().chain([f64::INFINITY]).collect();
    let largest = sizes.last().copied().unwrap_or(0.0);
    let mut from = 0.0;
    ends.iter().all(|&to| {
        let held = sizes.iter().filter(|&&s| s > from && s <= to).count();
        let apart = to.min(largest) >= 2.0 * from;
        from = to;
        held >= LEAST_SIZES && apart
    })
}

/// Schwarz's criterion of the fit with these knots.
pub(super) fn criterion(entries: &[Entry], basis: &Basis) -> f64 {
    let design = Design::new(basis, entries);
    let prior = basis.prior_row();
    let x = lad::fit(design.rows.iter().chain(&prior), basis.p());
    let n = entries.len() as f64;
    // Differences below a hundredth of a percent do not justify a knot.
    let badness = design.badness(&x).max(1e-4);
    2.0 * n * badness.ln() + (2.0 * basis.p() as f64 - 1.0) * n.ln()
}
