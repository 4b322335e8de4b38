//! What measured kernels teach: curves where they were measured, forms elsewhere.
//!
//! A kernel on the ranks it was measured on takes the mean of its tables' curves, as a logarithm. On
//! other ranks, and beyond the curves' ends, it follows a form that is fitted to all of them,
//!
//! ```text
//! T = start + peer·(n − 1) + root·√x + slope·x
//! ```

use std::sync::LazyLock;

use super::machines::{Board, MACHINES, Measured};
use super::times::{Curve, KernelTimes};
use crate::base::quantity::Bytes;
use crate::base::stats::median;
use crate::library::engines::Kernel;
use crate::measure::fit::lad;
use crate::measure::fit::nnls::MOST;

/// kB that a kernel's form moves over the busier direction of a link.
pub(super) fn moved(kernel: &str, bytes: f64, ranks: u32) -> f64 {
    let (n, kilo) = (f64::from(ranks.max(1)), bytes / 1e3);
    match kernel {
        "one-shot-pull" | "one-shot-push" => (n - 1.0) * kilo,
        "two-shot-multimem" => (1.0 + 1.0 / n) * kilo,
        _ => 2.0 * (n - 1.0) / n * kilo,
    }
}

/// A fitted form of a kernel on a machine, over all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Form {
    start: f64,
    peer: f64,
    root: f64,
    slope: f64,
}

/// Fewer points than this say nothing of four figures.
const LEAST: usize = 4;

impl Form {
    fn of(curves: &[&Curve]) -> Option<Self> {
        let mut rows = Vec::new();
        for curve in curves {
            for &(octave, ln) in &curve.knots {
                let mut columns = [0.0; MOST];
                let x = moved(&curve.kernel, octave.exp2(), curve.ranks);
                let peers = f64::from(curve.ranks.saturating_sub(1));
                for (cell, value) in columns.iter_mut().zip([1.0, peers, x.sqrt(), x]) {
                    *cell = value / ln.exp();
                }
                rows.push(lad::Row { columns, weight: 1.0 });
            }
        }
        if rows.len() < LEAST {
            return None;
        }
        let x = lad::fit(rows.iter(), 4);
        Some(Self { start: x[0], peer: x[1], root: x[2], slope: x[3] })
    }

    /// ln µs.
    fn at(&self, kernel: &str, ranks: u32, bytes: f64) -> f64 {
        let x = moved(kernel, bytes, ranks);
        let peers = f64::from(ranks.saturating_sub(1));
        (self.start + self.peer * peers + self.root * x.sqrt() + self.slope * x).ln()
    }

    /// The same on another board's links.
    fn moved_to(self, from: &Measured, board: &Board, backend: &str) -> Self {
        let start = board.alpha.map_or(1.0, |a| a.0 * 1e6 / from.alpha);
        let slope = match backend {
            // Too few loads in flight for the rate to matter.
            "custom" => 1.0,
            _ => from.rate / (board.rate.0 / 1e9),
        };
        Self {
            start: self.start * start,
            peer: self.peer * start,
            root: self.root * (start * slope).sqrt(),
            slope: self.slope * slope,
        }
    }
}

/// How an answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// This board on these ranks.
    Own,
    /// This board on other ranks.
    OtherRanks,
    /// A board of the same generation and links.
    Sibling,
    /// Other generations.
    Unseen,
}

/// What was measured, without what was left out, and what it teaches.
pub(super) struct Model<'c> {
    curves: Vec<&'c Curve>,
}

pub(super) static BUILT_IN: LazyLock<Model<'static>> =
    LazyLock::new(|| Model::of(KernelTimes::built_in().map_or(&[], |t| &t.curves), |_| true));

impl<'c> Model<'c> {
    /// Of those curves that `counts` keeps.
    pub fn of(curves: &'c [Curve], counts: impl Fn(&Curve) -> bool) -> Self {
        Self { curves: curves.iter().filter(|c| counts(c)).collect() }
    }

    /// Whether anybody measured that kernel.
    pub fn knows(&self, kernel: Kernel) -> bool {
        self.curves.iter().any(|c| c.is(&c.machine, kernel))
    }

    fn all(&self, machine: &str, kernel: Kernel) -> Vec<&'c Curve> {
        self.curves.iter().filter(|c| c.is(machine, kernel)).copied().collect()
    }

    /// ln µs by the curves of these very ranks; beyond their ends the form goes on from there.
    fn cell(&self, machine: &str, kernel: Kernel, ranks: u32, bytes: f64) -> Option<f64> {
        let all = self.all(machine, kernel);
        let own: Vec<&Curve> = all.iter().filter(|c| c.ranks == ranks).copied().collect();
        let octave = bytes.log2();
        let inside: Vec<f64> = own.iter().filter_map(|c| c.at(octave)).collect();
        if let Some(middle) = median(inside) {
            return Some(middle);
        }
        // NCCL has expectations of its own where engines left it alone.
        if kernel.backend == "nccl" {
            return None;
        }
        let form = Form::of(&all).or_else(|| Form::of(&own))?;
        let apart = |k: &(f64, f64)| (k.0 - octave).abs();
        let ends = own.iter().flat_map(|c| [c.knots.first(), c.knots.last()]).flatten();
        let near = ends.clone().min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        let off = ends.filter(|k| (k.0 - near.0).abs() < 0.5);
        let off = off.map(|k| k.1 - form.at(kernel.kernel, ranks, k.0.exp2())).collect();
        Some(form.at(kernel.kernel, ranks, bytes) + median(off)?)
    }

    fn form(&self, machine: &str, kernel: Kernel) -> Option<Form> {
        (kernel.backend != "nccl").then(|| Form::of(&self.all(machine, kernel)))?
    }

    /// The time in µs, and how it is known.
    pub fn told(
        &self,
        board: &Board,
        kernel: Kernel,
        ranks: u32,
        size: Bytes,
    ) -> Option<(f64, Reach)> {
        let bytes = size.0.max(1) as f64;
        let by_form =
            |m: &Measured| Some(self.form(m.name, kernel)?.at(kernel.kernel, ranks, bytes));
        if let Some(mine) = MACHINES.iter().find(|m| board.id.as_deref() == Some(m.board)) {
            if let Some(ln) = self.cell(mine.name, kernel, ranks, bytes) {
                return Some((ln.exp(), Reach::Own));
            }
            if let Some(ln) = by_form(mine) {
                return Some((ln.exp(), Reach::OtherRanks));
            }
        }
        let siblings = board.siblings();
        let cell = |m: &&Measured| Some((m.name, self.cell(m.name, kernel, ranks, bytes)?));
        let of_form = |m: &&Measured| Some((m.name, by_form(m)?));
        let near = siblings.iter().find_map(cell).or_else(|| siblings.iter().find_map(of_form));
        if let Some((name, ln)) = near {
            let more = if kernel.graph { 0.0 } else { board.copies_more(name, bytes) };
            return Some((ln.exp() + more, Reach::Sibling));
        }
        self.from_afar(board, kernel, ranks, bytes)
    }

    /// The forms of other generations, moved by what their links are.
    fn from_afar(
        &self,
        board: &Board,
        kernel: Kernel,
        ranks: u32,
        bytes: f64,
    ) -> Option<(f64, Reach)> {
        if !kernel.graph {
            return None;
        }
        let others: Vec<f64> = MACHINES
            .iter()
            .filter(|m| m.link == board.link && board.generation.vendor() == m.generation.vendor())
            .filter_map(|m| {
                let form = self.form(m.name, kernel)?.moved_to(m, board, kernel.backend);
                Some(form.at(kernel.kernel, ranks, bytes))
            })
            .collect();
        let mean = others.iter().sum::<f64>() / others.len() as f64;
        (!others.is_empty()).then(|| (mean.exp(), Reach::Unseen))
    }

    /// What a call of a backend takes at least outside graphs, in µs: its smallest calls.
    pub fn floor(&self, board: &Board, backend: &str) -> Option<f64> {
        let of = |name: Option<&str>, backend: Option<&str>| {
            let small = |c: &&&Curve| {
                !c.graph
                    && name.is_none_or(|name| c.machine == name)
                    && backend.is_none_or(|backend| c.backend == backend)
                    && c.backend != "nccl"
            };
            let first = |c: &&Curve| c.knots.first().filter(|k| k.0 < SMALL).map(|k| k.1);
            median(self.curves.iter().filter(small).filter_map(first).collect())
        };
        let near = board.nearest();
        near.iter()
            .find_map(|m| of(Some(m.name), Some(backend)))
            .or_else(|| near.iter().find_map(|m| of(Some(m.name), None)))
            .or_else(|| of(None, None))
            .map(f64::exp)
    }
}

/// Octaves below which the host is what takes time.
const SMALL: f64 = 19.0;
