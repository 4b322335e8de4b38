//! The error of kernel expectations when tables, ranks, sizes or machines are left out.

use super::machines::{MACHINES, Measured};
use super::model::{Model, Reach};
use super::times::{Curve, KernelTimes};
use crate::base::quantity::{Bytes, Ratio};
use crate::library::engines::Kernel;
use crate::measure::expect::{HeldOut, knots};

/// What was left out, and the error of its predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Such as `one table, in graphs`.
    pub what: &'static str,
    /// Left-out calls that were predicted.
    pub points: usize,
    /// Left-out calls without a prediction, as nothing else covers them.
    pub unanswered: usize,
    /// |expected/measured − 1|.
    pub error: HeldOut,
    /// p10 and p90 of measured/expected.
    pub band: (Ratio, Ratio),
}

/// A left-out curve, and whether another one still counts then.
type Counts = fn(&Curve, &Curve) -> bool;

fn another_table(asked: &Curve, other: &Curve) -> bool {
    asked.machine != other.machine || asked.table != other.table
}

fn another_machine(asked: &Curve, other: &Curve) -> bool {
    asked.machine != other.machine
}

fn another_number_of_ranks(asked: &Curve, other: &Curve) -> bool {
    asked.machine != other.machine || asked.ranks != other.ranks
}

fn another_generation(asked: &Curve, other: &Curve) -> bool {
    machine(asked).zip(machine(other)).is_some_and(|(a, b)| a.generation != b.generation)
}

fn machine(curve: &Curve) -> Option<&'static Measured> {
    MACHINES.iter().find(|m| m.name == curve.machine)
}

/// Title; graph or eager; whether NCCL counts; what still counts; which sources of answers count.
type Question = (&'static str, bool, bool, Counts, &'static [Reach]);

const QUESTIONS: &[Question] = &[
    ("one table, in graphs", true, true, another_table, &[Reach::Own]),
    ("one table, in graphs, engines' own kernels", true, false, another_table, &[Reach::Own]),
    ("one table, eager", false, true, another_table, &[Reach::Own]),
    ("a number of ranks, in graphs", true, false, another_number_of_ranks, &[Reach::OtherRanks]),
    ("the board, by its sibling, in graphs", true, true, another_machine, &[Reach::Sibling]),
    ("the board, eager", false, false, another_machine, &[Reach::Sibling, Reach::Launched]),
    ("the generation, in graphs", true, false, another_generation, &[Reach::Unseen]),
];

impl KernelTimes {
    /// Predictions from these measurements, compared with `truth`, which may be the same or raw tables.
    #[must_use]
    pub fn held_out(&self, truth: &Self) -> Vec<LeftOut> {
        let mut found: Vec<LeftOut> = QUESTIONS.iter().map(|q| self.asked(truth, q)).collect();
        found.push(self.sizes(truth));
        found
    }

    fn asked(&self, truth: &Self, &(what, graph, nccl, counts, meant): &Question) -> LeftOut {
        let mut sum = Sum::default();
        for curve in truth.curves.iter().filter(|c| c.graph == graph) {
            let (Some(kernel), Some(on)) = (known(curve), machine(curve)) else { continue };
            if kernel.backend == "nccl" && !nccl {
                continue;
            }
            let model = Model::of(&self.curves, |other| counts(curve, other));
            let board = on.as_board();
            for octave in knots::octaves(&curve.knots) {
                let told = model.told(&board, kernel, curve.ranks, Bytes(1 << octave));
                let answer = told.filter(|(_, reach)| meant.contains(reach)).map(|t| t.0);
                sum.add(answer, curve.at(f64::from(octave)));
            }
        }
        sum.left_out(what)
    }

    /// Every third size of all tables left out.
    fn without_sizes(&self, left: u8) -> Self {
        let mut taught = self.clone();
        for curve in &mut taught.curves {
            let kept = knots::octaves(&curve.knots).filter(|k| k % 3 != left);
            let kept = kept.filter_map(|k| Some((f64::from(k), curve.at(f64::from(k))?)));
            curve.knots = kept.collect();
        }
        taught.curves.retain(|c| !c.knots.is_empty());
        taught
    }

    fn sizes(&self, truth: &Self) -> LeftOut {
        let mut sum = Sum::default();
        for left in 0..3_u8 {
            let taught = self.without_sizes(left);
            let model = Model::of(&taught.curves, |_| true);
            for curve in truth.curves.iter().filter(|c| c.graph) {
                let (Some(kernel), Some(on)) = (known(curve), machine(curve)) else { continue };
                for octave in knots::octaves(&curve.knots).filter(|k| k % 3 == left) {
                    let told = model.told(&on.as_board(), kernel, curve.ranks, Bytes(1 << octave));
                    let own = told.filter(|t| t.1 == Reach::Own).map(|t| t.0);
                    sum.add(own, curve.at(f64::from(octave)));
                }
            }
        }
        sum.left_out("every third size, in graphs")
    }
}

/// The loss from choosing an engine by expectation, relative to the fastest measured one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regret {
    /// The number of cells: a machine, a number of ranks and a size each.
    pub cells: usize,
    /// The mean loss.
    pub mean: Ratio,
    /// The part of the cells that lose at most 5 %.
    pub near: Ratio,
}

impl KernelTimes {
    /// The engines' newest tables as rivals, each predicted without that table, or without the size if no
    /// other table has its kernel.
    #[must_use]
    pub fn regret(&self, truth: &Self) -> Regret {
        let mut lost = Vec::new();
        let thirds = [0, 1, 2].map(|left| self.without_sizes(left));
        let thirds = thirds.each_ref().map(|third| Model::of(&third.curves, |_| true));
        for on in &MACHINES {
            let board = on.as_board();
            let newest = |engine: &str| {
                let tables = truth.curves.iter().filter(|c| c.machine == on.name && c.graph);
                let of = tables.filter(|c| c.table.starts_with(engine)).map(|c| c.table.as_str());
                of.max_by_key(|t| t.split(['.', ' ', 'r', 'c']).map(number).collect::<Vec<_>>())
            };
            let tables: Vec<&str> =
                ["vllm", "sglang", "trtllm"].iter().filter_map(|e| newest(e)).collect();
            let models: Vec<Model<'_>> = tables
                .iter()
                .map(|t| Model::of(&self.curves, |c| c.machine != on.name || c.table != *t))
                .collect();
            for (ranks, octave) in [2, 4, 8].iter().flat_map(|&n| (8..=30_u8).map(move |k| (n, k)))
            {
                let mut times = Vec::new();
                for (table, model) in tables.iter().zip(&models) {
                    let own = truth.curves.iter().filter(|c| {
                        c.machine == on.name && c.table == *table && c.graph && c.ranks == ranks
                    });
                    let mut measured =
                        own.filter_map(|c| Some((known(c)?, calm(c, f64::from(octave))?)));
                    let Some((kernel, ln)) = measured.next() else { continue };
                    let told = |model: &Model<'_>| {
                        let told = model.told(&board, kernel, ranks, Bytes(1 << octave));
                        told.filter(|t| t.1 == Reach::Own)
                    };
                    let told = told(model).or_else(|| told(&thirds[usize::from(octave % 3)]));
                    // The same kernel in two engines is not a choice.
                    match (told, times.iter_mut().find(|t: &&mut (Kernel, f64, f64)| t.0 == kernel))
                    {
                        (Some((us, _)), Some(same)) => {
                            (same.1, same.2) = ((same.1 * us).sqrt(), (same.2 * ln.exp()).sqrt());
                        }
                        (Some((us, _)), None) => times.push((kernel, us, ln.exp())),
                        (None, _) => {}
                    }
                }
                let chosen = times.iter().min_by(|a, b| a.1.total_cmp(&b.1));
                let best = times.iter().map(|t| t.2).min_by(f64::total_cmp);
                if let (2.., Some(chosen), Some(best)) = (times.len(), chosen, best) {
                    lost.push(chosen.2 / best - 1.0);
                }
            }
        }
        let cells = lost.len();
        let part = |sum: f64| Ratio(sum / cells.max(1) as f64);
        let near = lost.iter().filter(|l| **l <= 0.05).count();
        Regret { cells, mean: part(lost.iter().sum()), near: part(near as f64) }
    }
}

/// ln µs where it was measured, except for disturbed calls: they are not the fault of a choice.
fn calm(curve: &Curve, octave: f64) -> Option<f64> {
    let own = curve.at(octave)?;
    (!curve.disturbed(&(octave, own))).then_some(own)
}

/// One part of a release number; words count as 0.
fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

/// The kernel of a curve, by the names in the rules.
fn known(curve: &Curve) -> Option<Kernel> {
    let names = |list: &[&'static str], name: &str| list.iter().find(|n| **n == name).copied();
    Some(Kernel {
        backend: names(&["nccl", "custom", "custom-v2", "symm-mem", "trtllm"], &curve.backend)?,
        kernel: names(
            &["library", "one-shot-pull", "one-shot-push", "two-shot-pull", "two-shot-multimem"],
            &curve.kernel,
        )?,
        graph: curve.graph,
    })
}

#[derive(Default)]
struct Sum {
    /// measured/expected.
    ratios: Vec<f64>,
    unanswered: usize,
}

impl Sum {
    /// An answer in µs, and the measured time's logarithm.
    fn add(&mut self, answer: Option<f64>, measured: Option<f64>) {
        match (answer, measured) {
            (Some(us), Some(ln)) => self.ratios.push(ln.exp() / us),
            (None, Some(_)) => self.unanswered += 1,
            (_, None) => {}
        }
    }

    fn left_out(self, what: &'static str) -> LeftOut {
        let points = self.ratios.len();
        let (error, band) = HeldOut::of(self.ratios);
        let band = (Ratio(band.0), Ratio(band.1));
        LeftOut { what, points, unanswered: self.unanswered, error, band }
    }
}
