//! Where the time per byte changes: knots are added while Schwarz's criterion falls.

use super::bootstrap::affordable;
use super::lad;
use super::model::{Basis, Design, Entry};

/// The most knots.
const MOST: usize = 3;

/// How much the criterion must fall for one more knot.
const FALL: f64 = 6.0;

/// Step sizes that a segment must contain.
const LEAST_SIZES: usize = 3;

/// The sizes of messages, each once, in order.
fn sizes(entries: &[Entry]) -> Vec<f64> {
    let messages = entries.iter().flat_map(|e| &e.path.messages);
    let mut sizes: Vec<f64> = messages.map(|sent| sent.bytes.0).filter(|b| *b > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// The knots that explain the entries best.
pub(super) fn search(entries: &[Entry], basis: &Basis) -> Vec<f64> {
    let sizes = sizes(entries);
    let with = |knots: Vec<f64>| Basis { knots, ..basis.clone() };
    let mut best = with(Vec::new());
    let mut least = criterion(entries, &best);
    // Of very many sizes, an evenly spread subset is tried.
    let step = sizes.len().div_ceil(affordable(entries.len())).max(1);
    while best.knots.len() < MOST {
        let tried = sizes.iter().step_by(step).filter_map(|&size| {
            let mut knots = best.knots.clone();
            knots.push(size);
            knots.sort_by(f64::total_cmp);
            fits(&knots, &sizes).then(|| with(knots))
        });
        let scored = tried.map(|basis| (criterion(entries, &basis), basis));
        let Some((score, next)) = scored.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if score > least - FALL {
            break;
        }
        (least, best) = (score, next);
    }
    best.knots
}

/// Whether neighbours differ by a factor of two and every segment contains enough sizes.
fn fits(knots: &[f64], sizes: &[f64]) -> bool {
    let ends: Vec<f64> = knots.iter().copied().chain([f64::INFINITY]).collect();
    let mut from = 0.0;
    ends.iter().all(|&to| {
        let held = sizes.iter().filter(|&&s| s > from && s <= to).count();
        let apart = to >= 2.0 * from;
        from = to;
        held >= LEAST_SIZES && apart
    })
}

fn criterion(entries: &[Entry], basis: &Basis) -> f64 {
    let design = Design::new(basis, entries);
    let prior = basis.prior_row();
    let x = lad::fit(design.rows.iter().chain(&prior), basis.p());
    let n = entries.len() as f64;
    // Differences below a hundredth of a percent do not justify a knot.
    let badness = design.badness(&x).max(1e-4);
    2.0 * n * badness.ln() + (2.0 * basis.p() as f64 - 1.0) * n.ln()
}
