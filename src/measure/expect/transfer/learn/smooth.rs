//! A measured series as a few knots: straight lines in (octaves of bytes, ln t).

use crate::base::quantity::{Bytes, Ratio, Seconds};

/// Knots of a series, and the scatter of its times around them.
#[derive(Debug, Clone, PartialEq)]
pub struct Smooth {
    /// Measured sizes in order, with the times of the lines there.
    pub knots: Vec<(Bytes, Seconds)>,
    /// The root of the mean square of ln(measured/line).
    pub scatter: Ratio,
}

/// The most knots.
const MOST: usize = 8;
/// No further knots are added once the lines are this close.
const ENOUGH: f64 = 0.02;
/// The fewest octaves between knots.
const APART: f64 = 0.4;
/// A further knot must reduce the sum of squared errors by this part.
const WORTH: f64 = 0.001;
/// How strongly knots are pulled to the points if few points determine them.
const PULL: f64 = 1e-6;

/// The ends, then the measured size at which a knot helps most; `None` without sizes.
#[must_use]
pub fn smooth(series: &[(Bytes, Seconds)]) -> Option<Smooth> {
    let mut points: Vec<(Bytes, f64, f64)> = series
        .iter()
        .filter(|(size, time)| size.0 > 0 && time.0 > 0.0)
        .map(|&(size, time)| (size, (size.0 as f64).log2(), time.0.ln()))
        .collect();
    points.sort_by_key(|p| p.0);
    points.dedup_by_key(|p| p.0);
    let last = points.len().checked_sub(1)?;
    let mut knots = if last == 0 { vec![0] } else { vec![0, last] };
    let (mut values, mut off) = lines(&points, &knots);
    while knots.len() < MOST && off / points.len() as f64 > ENOUGH * ENOUGH {
        let free = |i: &usize| knots.iter().all(|&k| (points[k].1 - points[*i].1).abs() >= APART);
        let with = |i: usize| {
            let mut more = knots.clone();
            more.push(i);
            more.sort_unstable();
            let (values, off) = lines(&points, &more);
            (more, values, off)
        };
        let best = (0..points.len()).filter(free).map(with).min_by(|a, b| a.2.total_cmp(&b.2));
        match best {
            Some(better) if better.2 < (1.0 - WORTH) * off => (knots, values, off) = better,
            _ => break,
        }
    }
    let time = |(&k, &value): (&usize, &f64)| (points[k].0, Seconds(value.exp()));
    Some(Smooth {
        knots: knots.iter().zip(&values).map(time).collect(),
        scatter: Ratio((off / points.len() as f64).sqrt()),
    })
}

/// The least-squares values at `knots`, and the remaining sum of squares.
fn lines(points: &[(Bytes, f64, f64)], knots: &[usize]) -> (Vec<f64>, f64) {
    let n = knots.len();
    // Each point is between two knots.
    let between: Vec<(usize, f64)> = points
        .iter()
        .map(|p| {
            let above = knots.partition_point(|&k| points[k].1 <= p.1).clamp(1, n.max(2) - 1);
            let x0 = points[knots[above - 1]].1;
            let x1 = knots.get(above).map_or(x0 + 1.0, |&k| points[k].1);
            (above - 1, (p.1 - x0) / (x1 - x0))
        })
        .collect();
    let mut a = [[0.0; MOST]; MOST];
    let mut b = [0.0; MOST];
    for i in 0..MOST {
        // Unused knots stay at 0.
        let value = knots.get(i).map_or(0.0, |&k| points[k].2);
        (a[i][i], b[i]) = (PULL, PULL * value);
    }
    for (p, &(i, part)) in points.iter().zip(&between) {
        let j = (i + 1).min(MOST - 1);
        for (r, weight) in [(i, 1.0 - part), (j, part)] {
            a[r][i] += weight * (1.0 - part);
            a[r][j] += weight * part;
            b[r] += weight * p.2;
        }
    }
    let values = super::process::solve(&mut a, b);
    let off = points.iter().zip(&between).map(|(p, &(i, part))| {
        let line = values[i] + part * (values[(i + 1).min(MOST - 1)] - values[i]);
        (p.2 - line).powi(2)
    });
    (values[..n].to_vec(), off.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_and_a_rate_are_a_few_lines() {
        let time = |k: u32| Seconds(10e-6 + f64::from(k).exp2() / 200e9);
        let series: Vec<_> = (10..=30).map(|k| (Bytes(1 << k), time(k))).collect();
        let smooth = smooth(&series).unwrap();
        assert!(smooth.scatter.0 < 0.02 && smooth.knots.len() <= 7, "{smooth:?}");
        assert_eq!(
            (smooth.knots[0].0, smooth.knots.last().unwrap().0),
            (Bytes(1024), Bytes(1 << 30))
        );
        assert!(super::smooth(&[]).is_none());
        assert_eq!(super::smooth(&series[..1]).unwrap().knots.len(), 1);
    }
}
