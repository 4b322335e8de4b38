//! How much of the error at a seen size remains at others, by how it fades with octaves.
//!
//! For every machine, by group, one node or several, smaller sizes or larger: the losses of all
//! [`Gain`]s of a grid on the errors of the model without that machine, Σ √(1 + (left/0.1)²) − 1. The
//! gain with the least loss on other machines is used; all kinds of machines together weigh as one
//! additional machine.

use super::widths::Point;
use crate::measure::expect::transfer::model::{GROUPS, Gain, Gains};

const KEPT: usize = 15;
/// Over nodes no more than all of it remains: what is off there at other sizes has other reasons too.
const KEPT_OVER_NODES: usize = 11;
const FADES: [f64; 7] = [1.5, 2.5, 4.0, 6.0, 10.0, 20.0, 1e9];

/// By the part that is kept, and how it fades.
type Table = [[f64; FADES.len()]; KEPT];

/// By group, one node or several, smaller or larger; `None` if a machine has no such points.
type Tables = [[[Option<Table>; 2]; 2]; GROUPS];

/// The losses of each machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses(Vec<Tables>);

/// From this error on, the loss is linear.
const SOFT: f64 = 0.1;

fn grid(kept: usize, fades: usize) -> Gain {
    Gain { kept: 0.1 * kept as f64, octaves: FADES[fades] }
}

impl Losses {
    /// `known`: by point, the error at the seen size, as far as it is trusted.
    pub(super) fn new(points: &[Point], known: &[f64]) -> Self {
        let machines = points.iter().map(|p| p.machine + 1).max().unwrap_or(0);
        let mut all = vec![Tables::default(); machines];
        for (point, known) in points.iter().zip(known) {
            let Some(seen) = point.seen else { continue };
            let of = &mut all[point.machine][point.group as usize][usize::from(point.several)];
            let table = of[usize::from(seen.apart > 0.0)].get_or_insert_default();
            for (kept, row) in table.iter_mut().enumerate() {
                for (fades, loss) in row.iter_mut().enumerate() {
                    let left = point.error - grid(kept, fades).at(seen.apart) * known;
                    *loss += (left / SOFT).hypot(1.0) - 1.0;
                }
            }
        }
        Self(all)
    }

    /// The gains of all machines but those of `skip`.
    pub(super) fn gains(&self, skip: &[usize]) -> Gains {
        let others = || self.0.iter().enumerate().filter(|(m, _)| !skip.contains(m)).map(|m| m.1);
        let class = |group: usize, several: usize, larger: usize| {
            let own = || others().filter_map(|t| t[group][several][larger].as_ref());
            // Without measurements of a group, those of usual machines are used.
            let is_empty = own().next().is_none();
            let own = || {
                let link = others().filter_map(|t| t[0][several][larger].as_ref());
                own().chain(link.filter(move |_| is_empty))
            };
            let pool =
                || others().flat_map(|t| t.iter().flatten().filter_map(|t| t[larger].as_ref()));
            let machines = others().filter(|t| t.iter().flatten().any(|t| t[larger].is_some()));
            let lean = 1.0 / machines.count().max(1) as f64;
            let loss = |&(kept, fades): &(usize, usize)| {
                let sum = |tables: &mut dyn Iterator<Item = &Table>| -> f64 {
                    tables.map(|t| t[kept][fades]).sum()
                };
                sum(&mut own()) + lean * sum(&mut pool())
            };
            let most = if several == 1 { KEPT_OVER_NODES } else { KEPT };
            let cells = (0..most).flat_map(|kept| (0..FADES.len()).map(move |fades| (kept, fades)));
            let best = cells.min_by(|a, b| loss(a).total_cmp(&loss(b)));
            best.map_or_else(Gain::default, |(kept, fades)| grid(kept, fades))
        };
        std::array::from_fn(|group| {
            std::array::from_fn(|several| {
                std::array::from_fn(|larger| class(group, several, larger))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::widths::Seen;
    use super::*;

    fn points(machine: usize, kept: f64, octaves: f64) -> (Vec<Point>, Vec<f64>) {
        let gain = Gain { kept, octaves };
        let of = |apart: i32| {
            let apart = f64::from(apart);
            let error = 0.3 * gain.at(apart);
            let seen = Some(Seen { at: 0, apart });
            Point { machine, error, seen, ..Point::default() }
        };
        let points: Vec<Point> = (1..=9).map(of).collect();
        let known = vec![0.3; points.len()];
        (points, known)
    }

    #[test]
    fn what_others_showed_is_found_and_a_machine_says_nothing_of_itself() {
        let (mut all, mut known) = points(0, 0.7, 6.0);
        for machine in 1..4 {
            let (more, seen) = points(machine, 1.3, 1e9);
            all.extend(more);
            known.extend(seen);
        }
        let losses = Losses::new(&all, &known);
        let larger = |skip: &[usize]| losses.gains(skip)[0][0][1];
        assert_eq!(larger(&[1, 2, 3]), Gain { kept: 0.1 * 7.0, octaves: 6.0 });
        assert_eq!(larger(&[0]), Gain { kept: 0.1 * 13.0, octaves: 1e9 });
        // A point of the seen size is the seen point.
        assert!((larger(&[0]).at(0.0) - 1.0).abs() < 1e-12);
    }
}
