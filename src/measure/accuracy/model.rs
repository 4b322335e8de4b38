//! The models that are compared.

use std::collections::BTreeMap;

use super::{Cell, curve};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::base::stats::median;
use crate::base::words::words;
use crate::library::{Call, Site, policy};
use crate::machine::curve::{Asked, Observation, Placed, fit};
use crate::machine::profile::Profile;

words! {
    /// A way to predict a time.
    #[derive(PartialOrd, Ord)]
    pub enum Model {
        /// What `collcost fit` fits to the training rows.
        Profile = "profile",
        /// o + α·steps + f·M/BW, fitted to them.
        AlphaBeta = "alpha-beta",
        /// α a ring's step and f·M/BW, fitted to them: Hockney's model of a textbook ring.
        TextbookRing = "textbook-ring",
        /// Their logarithms, straight between sizes and between numbers of ranks.
        Lookup = "lookup",
        /// Their logarithms by monotone cubic splines between sizes, and straight between numbers of ranks.
        Spline = "spline",
        /// NCCL's own tuner, if the machine's graphs are known. It is made to rank, not to predict times.
        NcclTuner = "nccl-tuner",
        /// PyTorch inductor's estimate.
        Pytorch = "pytorch",
    }
}

/// A time, and its band if the model has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Told {
    /// The time.
    pub time: Seconds,
    /// p10 and p90.
    pub band: Option<(Seconds, Seconds)>,
}

impl Told {
    fn bare(time: Seconds) -> Option<Self> {
        Some(Self { time, band: None })
    }
}

impl Model {
    /// Its predictions for `test`, of which it sees only ranks, nodes and sizes; `None` if it predicts
    /// nothing for the cell, and for each row that it cannot predict.
    #[must_use]
    pub fn predict(
        self,
        cell: &Cell,
        train: &[Observation],
        test: &[Observation],
    ) -> Option<Vec<Option<Told>>> {
        let each = |tell: &dyn Fn(&Observation) -> Option<Told>| test.iter().map(tell).collect();
        match self {
            Self::Profile => {
                let curve = curve(cell, train)?;
                Some(each(&|o| {
                    let e = curve.expect(o.placed, o.size).ok()?;
                    Some(Told { time: e.time, band: Some((e.low, e.high)) })
                }))
            }
            Self::AlphaBeta => {
                let asked = Asked::new(cell.collective, cell.dtype).alpha_beta();
                let curve = fit(train, &asked).ok()?;
                Some(each(&|o| Told::bare(curve.expect(o.placed, o.size).ok()?.time)))
            }
            Self::TextbookRing => {
                let ring = Ring::fit(cell.collective, train);
                Some(each(&|o| Told::bare(ring.time(o.placed, o.size)?)))
            }
            Self::Lookup => {
                let table = Table::new(train, straight);
                Some(each(&|o| Told::bare(table.time(o.placed, o.size)?)))
            }
            Self::Spline => {
                let table = Table::new(train, monotone);
                Some(each(&|o| Told::bare(table.time(o.placed, o.size)?)))
            }
            Self::NcclTuner | Self::Pytorch => {
                let name = if self == Self::Pytorch { "pytorch-inductor" } else { "nccl" };
                Some(estimates(cell, name, test)).filter(|all| all.iter().any(Option::is_some))
            }
        }
    }
}

/// The prediction of a library's own model on the built-in machine that the table names.
fn estimates(cell: &Cell, name: &str, test: &[Observation]) -> Vec<Option<Told>> {
    let Some(profile) = machine(cell) else { return vec![None; test.len()] };
    let made = |Placed { ranks, nodes }: Placed| {
        let site = Site {
            machine: profile.name.clone(),
            title: profile.title.clone(),
            ranks,
            nodes,
            nccl_graphs: profile.nccl_graphs.clone(),
            ..Site::default()
        };
        policy(name, &site).ok()
    };
    let element = cell.dtype.map_or(Bytes(4), |d| d.bytes());
    // A table of NCCL's tuner depends on ranks and nodes, not on the size.
    let mut policies = BTreeMap::new();
    let estimate = |o: &Observation| {
        let Placed { ranks, nodes } = o.placed;
        let policy = policies.entry(o.placed).or_insert_with(|| made(o.placed)).as_ref()?;
        let call = Call { nodes, element, ..Call::new(cell.collective, ranks, o.size) };
        let choice = policy.choose(&call).ok()?;
        Told::bare(choice.estimate.filter(|t| t.0 > 0.0)?)
    };
    test.iter().map(estimate).collect()
}

/// The built-in machine of a cell that a GPU library ran on: by the table's whole name, or by the most of
/// its words that name a machine.
fn machine(cell: &Cell) -> Option<Profile> {
    if !cell.library.contains("ccl") {
        return None;
    }
    let words: Vec<&str> = cell.system.split('_').collect();
    (1..=words.len()).rev().find_map(|n| {
        let named = |from: usize| Profile::builtin(&words[from..(from + n)].join("_")).ok();
        (0..=words.len() - n).find_map(named)
    })
}

/// α and BW of a ring on each tier.
struct Ring {
    collective: Collective,
    /// α and seconds per byte, on one node and on several.
    tiers: [Option<(f64, f64)>; 2],
}

impl Ring {
    fn fit(collective: Collective, train: &[Observation]) -> Self {
        let tier = |between| {
            let of = train.iter().filter(|o| o.placed.between() == between);
            let terms = |o: &Observation| {
                let (steps, bytes) = ring(collective, o.placed, o.size);
                (steps / o.time.0, bytes / o.time.0)
            };
            least_squares(&of.map(terms).collect::<Vec<_>>())
        };
        Self { collective, tiers: [tier(false), tier(true)] }
    }

    fn time(&self, placed: Placed, size: Bytes) -> Option<Seconds> {
        let (alpha, beta) = self.tiers[usize::from(placed.between())]?;
        let (steps, bytes) = ring(self.collective, placed, size);
        Some(Seconds(alpha * steps + beta * bytes))
    }
}

/// Steps of a ring and the bytes through each port.
fn ring(collective: Collective, placed: Placed, size: Bytes) -> (f64, f64) {
    let rounds = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
    let steps = rounds * (f64::from(placed.ranks) - 1.0);
    (steps, size.0 as f64 * collective.busbw_factor(placed.ranks).0)
}

/// Non-negative x and y with the least Σ (x·a + y·b − 1)²: relative errors.
fn least_squares(rows: &[(f64, f64)]) -> Option<(f64, f64)> {
    let sum = |of: fn(&(f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
    let (aa, ab, bb) = (sum(|r| r.0 * r.0), sum(|r| r.0 * r.1), sum(|r| r.1 * r.1));
    let (a, b) = (sum(|r| r.0), sum(|r| r.1));
    let determinant = aa * bb - ab * ab;
    if rows.is_empty() || aa == 0.0 || bb == 0.0 {
        return None;
    }
    let (x, y) = ((a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant);
    Some(match (x > 0.0, y > 0.0) {
        (true, true) => (x, y),
        (true, false) => (a / aa, 0.0),
        _ => (0.0, b / bb),
    })
}

/// Interpolation between points that are ordered by their first numbers.
type Between = fn(&[(f64, f64)], f64) -> Option<f64>;

/// Logarithms of times by ranks and size.
struct Table {
    lines: Vec<(Placed, Vec<(f64, f64)>)>,
    /// Between sizes.
    between: Between,
}

impl Table {
    fn new(train: &[Observation], between: Between) -> Self {
        let mut lines: BTreeMap<Placed, BTreeMap<Bytes, Vec<f64>>> = BTreeMap::new();
        for o in train {
            lines.entry(o.placed).or_default().entry(o.size).or_default().push(o.time.0);
        }
        let point =
            |(size, times): (Bytes, Vec<f64>)| Some(((size.0 as f64).ln(), median(times)?.ln()));
        let line = |(placed, sizes): (Placed, BTreeMap<Bytes, Vec<f64>>)| {
            (placed, sizes.into_iter().filter_map(point).collect())
        };
        Self { lines: lines.into_iter().map(line).collect(), between }
    }

    fn time(&self, placed: Placed, size: Bytes) -> Option<Seconds> {
        let x = (size.0 as f64).ln();
        let points: Vec<(f64, f64)> = match self.lines.iter().find(|l| l.0 == placed) {
            Some((_, own)) => return Some(Seconds((self.between)(own, x)?.exp())),
            None => self
                .lines
                .iter()
                .filter_map(|(p, line)| Some((f64::from(p.ranks).ln(), (self.between)(line, x)?)))
                .collect(),
        };
        Some(Seconds(straight(&points, f64::from(placed.ranks).ln())?.exp()))
    }
}

/// Fritsch and Carlson's monotone cubic between points; linear beyond the ends.
fn monotone(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let above = points.partition_point(|p| p.0 <= x);
    let (Some(&(x0, y0)), Some(&(x1, y1))) =
        (above.checked_sub(1).and_then(|i| points.get(i)), points.get(above))
    else {
        return straight(points, x);
    };
    let slope = |i: usize| match (points.get(i), points.get(i + 1)) {
        (Some(a), Some(b)) => Some((b.1 - a.1) / (b.0 - a.0)),
        _ => None,
    };
    let width = |i: usize| points[i + 1].0 - points[i].0;
    // The slope at a point is 0 if its sides differ in sign, else their weighted harmonic mean.
    let at = |i: usize| match (i.checked_sub(1).and_then(slope), slope(i)) {
        (Some(a), Some(b)) if a * b > 0.0 => {
            let (before, after) = (width(i - 1), width(i));
            let (v, w) = (2.0 * after + before, after + 2.0 * before);
            (v + w) / (v / a + w / b)
        }
        (Some(_), Some(_)) | (None, None) => 0.0,
        (Some(only), None) | (None, Some(only)) => only,
    };
    let (h, t) = (x1 - x0, (x - x0) / (x1 - x0));
    let (m0, m1) = (at(above - 1), at(above));
    let (t2, t3) = (t * t, t * t * t);
    Some(
        y0 * (2.0 * t3 - 3.0 * t2 + 1.0)
            + h * m0 * (t3 - 2.0 * t2 + t)
            + y1 * (3.0 * t2 - 2.0 * t3)
            + h * m1 * (t3 - t2),
    )
}

/// Linear between points and beyond the ends.
fn straight(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let above = points.partition_point(|p| p.0 <= x).clamp(1, points.len().max(2) - 1);
    match (points.get(above - 1), points.get(above)) {
        (Some(&(x0, y0)), Some(&(x1, y1))) => Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
        (Some(&(_, y)), None) => Some(y),
        _ => None,
    }
}
