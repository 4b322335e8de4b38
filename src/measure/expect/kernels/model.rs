//! The model of measured kernels: curves where they were measured, fitted forms elsewhere.
//!
//! A kernel on the ranks it was measured on gets the median of its tables' curves. On
//! other ranks, and beyond the curves' ends, it follows a form that is fitted to all of them,
//!
//! ```text
//! T = start + peer·(n − 1) + root·√x + slope·x
//! ```

use std::sync::{LazyLock, OnceLock};

use super::machines::{self, Board, MACHINES, Measured};
use super::times::{Curve, KernelTimes};
use crate::base::quantity::{Bandwidth, Bytes, Seconds};
use crate::base::stats::median;
use crate::library::engines::Kernel;
use crate::measure::expect::knots;
use crate::measure::fit::lad;

/// kB that a kernel moves over the busier direction of a link.
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

/// Fewer points than this do not determine four parameters.
const LEAST: usize = 4;

impl Form {
    fn of(curves: &[&Curve]) -> Option<Self> {
        let mut rows = Vec::new();
        for curve in curves {
            for &(octave, ln) in &curve.knots {
                let x = moved(&curve.kernel, octave.exp2(), curve.ranks);
                let peers = f64::from(curve.ranks.saturating_sub(1));
                rows.push(lad::Row::of([1.0, peers, x.sqrt(), x], ln.exp()));
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

    /// The same on another board's links, which start alike if their α is not given.
    fn moved_to(
        self,
        from: &Measured,
        (alpha, rate): (Option<Seconds>, Bandwidth),
        backend: &str,
    ) -> Self {
        let start = alpha.map_or(1.0, |a| a.0 * 1e6 / from.alpha);
        let slope = match backend {
            // There are too few loads in flight for the rate to matter.
            "custom" => 1.0,
            _ => from.rate / (rate.0 / 1e9),
        };
        Self {
            start: self.start * start,
            peer: self.peer * start,
            root: self.root * (start * slope).sqrt(),
            slope: self.slope * slope,
        }
    }
}

/// The source of an answer.
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
    /// Its time in a graph, and the hosts' time.
    Launched,
}

/// A kernel on one machine: its curves on all ranks, and their form, fitted on demand.
struct Group<'c> {
    curves: Vec<&'c Curve>,
    form: OnceLock<Option<Form>>,
}

/// The measurements without those left out, and the model from them.
pub(super) struct Model<'c> {
    groups: Vec<Group<'c>>,
}

pub(super) static BUILT_IN: LazyLock<Model<'static>> =
    LazyLock::new(|| Model::of(KernelTimes::built_in().map_or(&[], |t| &t.curves), |_| true));

impl<'c> Group<'c> {
    fn form(&self) -> Option<Form> {
        *self.form.get_or_init(|| Form::of(&self.curves))
    }

    /// Numbers of ranks, in order.
    fn ranks(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.curves.iter().map(|c| c.ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// How far ln µs on these ranks is above the form at an octave; constant beyond the ends.
    fn off(&self, form: &Form, ranks: u32, octave: f64) -> Option<f64> {
        let own: Vec<&Curve> = self.curves.iter().filter(|c| c.ranks == ranks).copied().collect();
        let off = |octave: f64| {
            let aside = own.iter().filter_map(|c| {
                let kernel = c.kernel.as_str();
                let above = |k: &(f64, f64)| (k.0, k.1 - form.at(kernel, ranks, k.0.exp2()));
                let knots: Vec<_> = c.knots.iter().map(above).collect();
                knots::at(&knots, octave)
            });
            median(aside.collect())
        };
        off(octave).or_else(|| {
            // NCCL has its own expectations where engines do not change it.
            let ends = own.iter().filter(|c| c.backend != "nccl");
            let ends = ends.flat_map(|c| [c.knots.first(), c.knots.last()]).flatten().map(|k| k.0);
            let apart = |end: &f64| (end - octave).abs();
            off(ends.min_by(|a, b| apart(a).total_cmp(&apart(b)))?)
        })
    }

    /// ln µs on these ranks: between points and beyond the ends it follows the form.
    fn cell(&self, kernel: Kernel, ranks: u32, bytes: f64) -> Option<f64> {
        let form = self.form()?;
        Some(form.at(kernel.kernel, ranks, bytes) + self.off(&form, ranks, bytes.log2())?)
    }

    /// ln µs on unmeasured numbers of ranks: the form, as far off as on the neighbouring numbers.
    fn between(&self, kernel: Kernel, ranks: u32, bytes: f64) -> Option<f64> {
        let form = self.form()?;
        let known = self.ranks();
        let above = known.iter().copied().find(|n| *n >= ranks);
        let below = known.iter().copied().rfind(|n| *n <= ranks);
        // At the size where as many bytes cross the link: that determines where a curve bends.
        let off = |n: u32| {
            let same = moved(kernel.kernel, bytes, ranks) / moved(kernel.kernel, 1.0, n);
            self.off(&form, n, same.log2())
        };
        let off = match (below, above) {
            (Some(a), Some(b)) if a < b => {
                let part = f64::from(ranks).ln() - f64::from(a).ln();
                let part = part / (f64::from(b).ln() - f64::from(a).ln());
                off(a)? * (1.0 - part) + off(b)? * part
            }
            (Some(n), _) | (_, Some(n)) => off(n)?,
            (None, None) => return None,
        };
        Some(form.at(kernel.kernel, ranks, bytes) + off)
    }
}

impl<'c> Model<'c> {
    /// From the curves that `counts` keeps.
    pub fn of(curves: &'c [Curve], counts: impl Fn(&Curve) -> bool) -> Self {
        let mut groups: Vec<Group<'c>> = Vec::new();
        for curve in curves.iter().filter(|c| counts(c)) {
            match groups.iter_mut().find(|g| g.curves[0].is_as(curve)) {
                Some(group) => group.curves.push(curve),
                None => groups.push(Group { curves: vec![curve], form: OnceLock::new() }),
            }
        }
        Self { groups }
    }

    /// Whether that kernel was measured.
    pub fn knows(&self, kernel: Kernel) -> bool {
        self.groups.iter().any(|g| g.curves[0].is(&g.curves[0].machine, kernel))
    }

    fn group(&self, machine: &Measured, kernel: Kernel) -> Option<&Group<'c>> {
        self.groups.iter().find(|g| g.curves[0].is(machine.name, kernel))
    }

    fn cell(&self, machine: &Measured, kernel: Kernel, ranks: u32, bytes: f64) -> Option<f64> {
        self.group(machine, kernel)?.cell(kernel, ranks, bytes)
    }

    fn other_ranks(
        &self,
        machine: &Measured,
        kernel: Kernel,
        ranks: u32,
        bytes: f64,
    ) -> Option<f64> {
        let group = self.group(machine, kernel).filter(|_| kernel.backend != "nccl")?;
        let &[only] = &group.ranks()[..] else { return group.between(kernel, ranks, bytes) };
        // The effect of more ranks comes from machines that were measured on several.
        let own = group.cell(kernel, only, bytes)?;
        let others = MACHINES.iter().filter(|m| m.name != machine.name).filter_map(|m| {
            let there = self.group(m, kernel).filter(|g| g.ranks().len() > 1)?;
            let at = |n: u32| there.between(kernel, n, bytes);
            Some(own + at(ranks)? - at(only)?)
        });
        median(others.collect()).or_else(|| group.between(kernel, ranks, bytes))
    }

    /// The time in µs, and its source.
    pub fn told(
        &self,
        board: &Board,
        kernel: Kernel,
        ranks: u32,
        size: Bytes,
    ) -> Option<(f64, Reach)> {
        let bytes = size.0.max(1) as f64;
        let by_form = |m: &Measured| self.other_ranks(m, kernel, ranks, bytes);
        if let Some(mine) = MACHINES.iter().find(|m| board.id.as_deref() == Some(m.board)) {
            if let Some(ln) = self.cell(mine, kernel, ranks, bytes) {
                return Some((ln.exp(), Reach::Own));
            }
            if let Some(ln) = by_form(mine) {
                return Some((ln.exp(), Reach::OtherRanks));
            }
        }
        let siblings = board.siblings();
        // Another kind of host says nothing about times that the host decides.
        let tells = |m: &&&Measured| kernel.graph || m.rack == board.rack;
        let rated = |m: &Measured, ln: f64| {
            Some((m.name, ln + self.rated(m, board.rate, kernel, ranks, bytes)?))
        };
        let cell = |m: &&Measured| rated(m, self.cell(m, kernel, ranks, bytes)?);
        let of_form = |m: &&Measured| rated(m, by_form(m)?);
        let told = || siblings.iter().filter(tells);
        if let Some((name, ln)) = told().find_map(cell).or_else(|| told().find_map(of_form)) {
            let more = if kernel.graph { 0.0 } else { board.copies_more(name, bytes) };
            return Some((ln.exp() + more, Reach::Sibling));
        }
        if !kernel.graph {
            let captured = Kernel { graph: true, ..kernel };
            let (us, _) = self.told(board, captured, ranks, size)?;
            return Some((self.launched(board, kernel, bytes, us)?, Reach::Launched));
        }
        self.by_others(board, kernel, ranks, bytes)
    }

    /// µs outside a graph of a kernel that takes `us` inside one: the host is the floor; the benchmark
    /// copies its input, and kernels that read registered memory copy it there.
    pub fn launched(&self, board: &Board, kernel: Kernel, bytes: f64, us: f64) -> Option<f64> {
        let reads = kernel.backend.starts_with("custom") && kernel.kernel.ends_with("-pull");
        let copies = if reads { 2.0 } else { 1.0 };
        let launches = if kernel.backend == "nccl" { 0.0 } else { LAUNCHES };
        let whole = us + launches + copies * machines::copy(bytes, board.memory);
        Some(whole.max(self.floor(board, kernel.backend)?))
    }

    /// How much larger ln µs is on links of this rate than on those of a machine that starts alike.
    fn rated(
        &self,
        on: &Measured,
        rate: Bandwidth,
        kernel: Kernel,
        ranks: u32,
        bytes: f64,
    ) -> Option<f64> {
        let form = self.group(on, kernel)?.form()?;
        let at = |form: Form| form.at(kernel.kernel, ranks, bytes);
        Some(at(form.moved_to(on, (None, rate), kernel.backend)) - at(form))
    }

    /// The forms of other generations, scaled by their links.
    fn by_others(
        &self,
        board: &Board,
        kernel: Kernel,
        ranks: u32,
        bytes: f64,
    ) -> Option<(f64, Reach)> {
        let others: Vec<f64> = MACHINES
            .iter()
            .filter(|m| m.link == board.link && board.generation.vendor() == m.generation.vendor())
            .filter_map(|m| {
                let links = (board.alpha, board.rate);
                let form = self.group(m, kernel)?.form()?.moved_to(m, links, kernel.backend);
                Some(form.at(kernel.kernel, ranks, bytes))
            })
            .collect();
        let mean = others.iter().sum::<f64>() / others.len() as f64;
        (!others.is_empty()).then(|| (mean.exp(), Reach::Unseen))
    }

    fn curves(&self) -> impl Iterator<Item = &Curve> {
        self.groups.iter().flat_map(|g| g.curves.iter().copied())
    }

    /// The least time of a backend's call outside graphs, in µs: its smallest calls on hosts of this kind,
    /// on the machine itself or its siblings if there are any.
    fn floor(&self, board: &Board, backend: &str) -> Option<f64> {
        let small = |c: &Curve| c.knots.first().filter(|k| !c.graph && k.0 < SMALL).map(|k| k.1);
        let of = |own: bool, backend: Option<&str>| {
            let hosts = MACHINES.iter().filter(|m| match own {
                true => board.nearest().iter().any(|near| near.name == m.name),
                false => m.link == board.link,
            });
            let hosts: Vec<&str> = hosts.filter(|m| m.rack == board.rack).map(|m| m.name).collect();
            let counts = |c: &&Curve| {
                hosts.contains(&c.machine.as_str()) && backend.is_none_or(|b| c.backend == b)
            };
            median(self.curves().filter(counts).filter_map(small).collect())
        };
        of(true, Some(backend))
            .or_else(|| of(true, None))
            .or_else(|| of(false, Some(backend)))
            .or_else(|| of(false, None))
            .or_else(|| median(self.curves().filter_map(small).collect()))
            .map(f64::exp)
    }
}

/// Below this octave the host decides the time.
const SMALL: f64 = 19.0;
/// µs of the copies' launches, one after another.
const LAUNCHES: f64 = 5.0;
