//! Closed forms as JavaScript, each text once, and the ranks and ports for which each applies.
//!
//! A closed form branches on its shape: whether N is a power of two, the number of ports, whether P
//! is one. It is therefore printed for every shape that the page offers, and shapes with the same
//! text share it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;

use super::AlgorithmView;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::price::Prepared;
use crate::cost::rank::candidates;
use crate::machine::query::{Given, Layout, Machine, Query};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::{At, Cost, Expr, Level, Notation, Params, Ports, Shape, Symbol};

/// The rank counts available for the user's own parameters.
pub const RANKS: &[u32] = &[
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 27, 31, 32, 33, 36, 40, 48, 60,
    64, 72, 96, 100, 128, 192, 256, 384, 512, 768, 1000, 1024,
];

/// The port counts available for them.
pub const PORTS: &[&str] = &["1", "2", "3", "unbounded", "1hd"];

/// Ranks per node if there are two tiers.
pub const TWO_TIER_GROUP: u32 = 8;

/// The rank counts available there.
pub const TWO_TIER_RANKS: &[u32] = &[16, 24, 32, 64, 128, 256, 512, 1024];

/// A closed form.
#[derive(Debug)]
pub struct Form {
    /// `(N,P,G,T)=>[[level,n_α,n_β,n_γ],…]`: level 0 is any link, 1 inside a node, 2 between.
    pub script: String,
    /// The formula for readers.
    pub text: String,
}

/// The forms of one algorithm.
#[derive(Debug, Serialize)]
pub struct FormOf {
    /// Its place among the algorithms.
    pub algorithm: usize,
    /// Whether P is free.
    pub pipelined: bool,
    /// Whether it holds only if links inside a node are no slower than those between nodes.
    pub fast_inside: bool,
    /// For each number of ports: the index among the ranks from which a form holds, for P = 1 and
    /// for larger P; −1 if it does not apply.
    pub by_ports: Vec<Vec<(usize, i32, i32)>>,
}

/// The forms printed so far.
pub(super) struct All {
    pub algorithms: Vec<AlgorithmView>,
    pub forms: Vec<Form>,
    known: HashMap<String, i32>,
}

impl All {
    pub(super) fn new(algorithms: Vec<AlgorithmView>) -> Self {
        Self { algorithms, forms: Vec::new(), known: HashMap::new() }
    }

    fn place(&self, algorithm: &dyn Algorithm) -> usize {
        let id = algorithm.meta().id;
        self.algorithms.iter().position(|a| a.id == id).unwrap_or_default()
    }

    /// All collectives on links that are all alike.
    pub(super) fn flat(&mut self, registry: &Registry) -> BTreeMap<&'static str, Vec<FormOf>> {
        let mut all = BTreeMap::new();
        for &collective in Collective::ALL {
            let mut found = Vec::new();
            for algorithm in registry.of(collective) {
                let by_ports: Vec<_> = PORTS
                    .iter()
                    .filter_map(|text| text.parse().ok())
                    .map(|ports: Ports| {
                        let shape = |n| {
                            let shape = Shape::new(collective, n).with_ports(ports);
                            algorithm.applies(&shape).is_ok().then_some(shape)
                        };
                        self.runs(algorithm, RANKS.iter().map(|&n| shape(n)))
                    })
                    .collect();
                if by_ports.iter().flatten().any(|run| run.1 >= 0) {
                    let algorithm_place = self.place(algorithm);
                    let pipelined = algorithm.is_pipelined();
                    found.push(FormOf {
                        algorithm: algorithm_place,
                        pipelined,
                        fast_inside: false,
                        by_ports,
                    });
                }
            }
            all.insert(collective.id(), found);
        }
        all
    }

    /// On nodes of [`TWO_TIER_GROUP`], each rank with a NIC: the algorithms whose formula, with the
    /// outer links if it names none, is the price that the engine computes there.
    ///
    /// # Errors
    /// A question that is not valid.
    pub(super) fn two_tier(
        &mut self,
        registry: &Registry,
    ) -> Result<BTreeMap<&'static str, Vec<FormOf>>> {
        let mut all = BTreeMap::new();
        for &collective in Collective::ALL {
            let mut queries = Vec::new();
            for &n in TWO_TIER_RANKS {
                queries.push(
                    PROBES.iter().map(|p| p.query(collective, n)).collect::<Result<Vec<_>>>()?,
                );
            }
            let mut found = Vec::new();
            for algorithm in registry.of(collective) {
                let mut fast_inside = false;
                let shape = |probes: &Vec<Query>| {
                    let shape = holds(algorithm, probes, 0..PROBES.len() - 1)?;
                    let last = PROBES.len() - 1..PROBES.len();
                    fast_inside |= holds(algorithm, probes, last).is_none();
                    Some(shape)
                };
                let shapes: Vec<Option<Shape>> = queries.iter().map(shape).collect();
                let runs = self.runs(algorithm, shapes.into_iter());
                if runs.iter().any(|run| run.1 >= 0) {
                    let place = self.place(algorithm);
                    let pipelined = algorithm.is_pipelined();
                    found.push(FormOf {
                        algorithm: place,
                        pipelined,
                        fast_inside,
                        by_ports: vec![runs],
                    });
                }
            }
            all.insert(collective.id(), found);
        }
        Ok(all)
    }

    /// The forms of one algorithm for shapes in ascending order of ranks.
    fn runs(
        &mut self,
        algorithm: &dyn Algorithm,
        shapes: impl Iterator<Item = Option<Shape>>,
    ) -> Vec<(usize, i32, i32)> {
        let mut runs: Vec<(usize, i32, i32)> = Vec::new();
        for (i, shape) in shapes.enumerate() {
            let [one, more] = [1, 2].map(|p| {
                let shape =
                    shape.map(|s| if algorithm.is_pipelined() { s.with_segments(p) } else { s });
                shape.and_then(|shape| self.form(algorithm, shape)).unwrap_or(-1)
            });
            let run = if one < 0 || more < 0 { (i, -1, -1) } else { (i, one, more) };
            if runs.last().is_none_or(|last| (last.1, last.2) != (run.1, run.2)) {
                runs.push(run);
            }
        }
        runs
    }

    /// The index of a form among all; `None` if it uses switches that add, which the user's own
    /// parameters do not describe.
    fn form(&mut self, algorithm: &dyn Algorithm, shape: Shape) -> Option<i32> {
        let cost = algorithm.print(&At::symbols(shape));
        if cost.phases().any(|p| !p.switch.is_zero()) {
            return None;
        }
        self.tabulate(algorithm, &cost, shape);
        let script = script(&cost);
        if let Some(&known) = self.known.get(&script) {
            return Some(known);
        }
        let place = self.forms.len() as i32;
        let text = cost.formula(false).write(Notation::Text);
        self.known.insert(script.clone(), place);
        self.forms.push(Form { script, text });
        Some(place)
    }

    /// Stores the values of the functions that the form names.
    fn tabulate(&mut self, algorithm: &dyn Algorithm, cost: &Cost<Expr>, shape: Shape) {
        let counts = |symbol: Symbol| match symbol {
            Symbol::N => f64::from(shape.ranks),
            Symbol::P => f64::from(shape.segments()),
            Symbol::G => f64::from(shape.group()),
            _ => f64::NAN,
        };
        let place = self.place(algorithm);
        for phase in cost.phases() {
            for part in [&phase.alpha, &phase.beta, &phase.gamma] {
                for (name, key, value) in part.named_values(&counts) {
                    self.algorithms[place].tables.entry(name).or_default().insert(key, value);
                }
            }
        }
    }
}

fn script(cost: &Cost<Expr>) -> String {
    let mut out = "(N,P,G,T)=>[".to_owned();
    for (i, phase) in cost.phases().enumerate() {
        let level = match phase.level {
            Level::Flat => 0,
            Level::Inner => 1,
            Level::Outer => 2,
        };
        let [a, b, c] =
            [&phase.alpha, &phase.beta, &phase.gamma].map(|e| e.write(Notation::JavaScript));
        // Writing to a string cannot fail.
        let _ = write!(out, "{}[{level},{a},{b},{c}]", if i > 0 { "," } else { "" });
    }
    out.push(']');
    out
}

/// Parameters with which a formula is compared with the price.
struct Probe {
    alpha: [f64; 2],
    rate: [f64; 2],
}

/// Links inside that are faster than those between nodes, as fast, faster with a longer α, and,
/// last, slower: there flat algorithms wait for transfers that are hidden otherwise.
const PROBES: &[Probe] = &[
    Probe { alpha: [1e-6, 5e-6], rate: [300e9, 50e9] },
    Probe { alpha: [3e-6, 2e-6], rate: [40e9, 40e9] },
    Probe { alpha: [9e-6, 1e-6], rate: [400e9, 25e9] },
    Probe { alpha: [7e-6, 1e-6], rate: [10e9, 90e9] },
];

impl Probe {
    fn query(&self, collective: Collective, n: u32) -> Result<Query> {
        let given = Given {
            alpha: Some(Seconds(self.alpha[0])),
            bandwidth: Some(Bandwidth(self.rate[0])),
            alpha_inter: Some(Seconds(self.alpha[1])),
            bandwidth_inter: Some(Bandwidth(self.rate[1])),
            nics: TWO_TIER_GROUP.try_into().ok(),
            ..Given::default()
        };
        let machine = Machine::new(None, &given, collective)?;
        let layout = Layout {
            ranks: n.try_into().ok(),
            nodes: None,
            per_node: TWO_TIER_GROUP.try_into().ok(),
        };
        Query::new(machine, collective, Bytes(1 << 20), layout, Params::default())
    }

    /// The sum of a form's phases with these parameters.
    fn time(&self, cost: &Cost<f64>, size: f64) -> f64 {
        let one = |phase: &crate::model::formula::Phase<f64>| {
            let i = usize::from(phase.level != Level::Inner);
            phase.alpha * self.alpha[i] + phase.beta * size / self.rate[i]
        };
        cost.phases().map(one).sum()
    }
}

/// The shape of these questions, if the formula equals the price for all those tried.
fn holds(algorithm: &dyn Algorithm, probes: &[Query], asked: Range<usize>) -> Option<Shape> {
    let shape = probes.first().map(|q| q.machine.fabric.fill(&q.shape))?;
    algorithm.applies(&shape).ok()?;
    let segments: &[u32] = if algorithm.is_pipelined() { &[1, 2, 3, 7] } else { &[1] };
    for (query, probe) in probes[asked.clone()].iter().zip(&PROBES[asked]) {
        for &p in segments {
            let shape = if algorithm.is_pipelined() { shape.with_segments(p) } else { shape };
            let price = Prepared::new(algorithm, &shape, &query.machine.fabric).ok()?;
            let cost = algorithm.price(&At::numbers(shape));
            for size in [0.0, 1e4, 1e8] {
                let (own, engine) = (probe.time(&cost, size), price.time(Volume(size)).0);
                if (own - engine).abs() > 1e-12 * engine {
                    return None;
                }
            }
        }
    }
    // The engine ranks the algorithms that apply; no others are offered.
    let query = probes.first()?;
    let (ready, _) = candidates(&Registry::builtin(), &query.shape, &query.machine.fabric).ok()?;
    ready.iter().any(|c| c.algorithm.meta().id == algorithm.meta().id).then_some(shape)
}
