//! The best rate of a collective on a fabric, with its proof.

use serde::Serialize;

use super::what_if::WhatIf;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Rate, nearest};
use crate::cost::optimum as cost;
use crate::cost::optimum::frontier::{Point, frontier};
use crate::cost::optimum::{Pattern, Proof, optimum, schedule};
use crate::exchange::export::{Format, Job};
use crate::machine::graph::{Graph, Node};
use crate::model::schedule::verify;

/// The best rate of a collective on a fabric.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Optimum {
    /// `collcost/optimum/1`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// The fabric's name.
    pub fabric: String,
    /// N.
    pub ranks: u32,
    /// The rank that has or gets the data, where there is one.
    pub root: Option<String>,
    /// Size divided by time without latency, in bytes per second, as an exact fraction.
    pub rate: String,
    /// The same as a number.
    #[serde(rename = "rate_Bps")]
    pub rate_per_second: f64,
    /// Its inverse.
    pub time_per_byte_s: f64,
    /// How the rate is known.
    pub proof: ProofKind,
    /// The rate known to be achievable, in bytes per second, if it is lower than the rate above.
    #[serde(rename = "reached_Bps", skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
    /// The cut that limits the rate.
    pub cut: Option<CutView>,
    /// Lengths of links that limit the rate: from, to, length; other links have length 0.
    pub lengths: Option<Vec<(String, String, String)>>,
    /// The trees or paths that reach the rate, if requested.
    pub trees: Option<Vec<TreeView>>,
    /// Steps against rounds, if requested.
    pub frontier: Option<Vec<PointView>>,
    /// The lower bound for any number of steps, in rounds per chunk, as a fraction.
    pub frontier_low: Option<String>,
    /// A size on the fabric as built and on the modified one, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
    /// What to know about the fabric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// For each link of the fabric, the share of its rate that the best solution uses; without
    /// trees, 1 if it crosses the cut or has a length.
    #[serde(skip)]
    pub loads: Vec<f64>,
    /// The rate itself.
    #[serde(skip)]
    pub exact: Rate,
}

/// A point of the frontier between latency and bandwidth.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointView {
    /// Steps, each of which costs a latency.
    pub steps: u32,
    /// Rounds of all steps together; in a round each link carries one chunk per unit of its rate.
    pub rounds: i128,
    /// Chunks of each rank that sends. Rounds per chunk are exact; the schedule that reaches them
    /// may cut chunks finer.
    pub chunks: i128,
    /// The number of these rounds in each step of that schedule.
    pub rounds_by_step: Vec<f64>,
    /// The number of trees of the schedule, which was executed.
    pub trees: usize,
}

/// How a rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProofKind {
    /// A cut limits the rate, and trees reach it.
    Cut,
    /// Lengths on links limit the rate, and a packing reaches it.
    Lengths,
    /// A reduce-scatter and an all-gather, each optimal; a combined schedule may be better.
    TwoPhases,
    /// No schedule is faster; whether one reaches this rate is open.
    Bound,
    /// Lengths on links limit the rate; the achieved rate is a little lower.
    Between,
}

/// A cut.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutView {
    /// A description that is shorter than its list of nodes.
    pub name: String,
    /// The nodes inside.
    pub nodes: Vec<String>,
    /// The number of ranks inside that send to those outside, or receive from them.
    pub ranks: i64,
    /// The total rate of all links that cross it, as a fraction.
    #[serde(rename = "crossing_Bps")]
    pub crossing: String,
    /// These links: they limit the rate.
    pub links: Vec<(String, String)>,
}

/// A tree, a pair of trees, or a path.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeView {
    /// The root; absent for a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The fraction of the root's data, of the vector, or of the pair's data that it carries.
    pub weight: String,
    /// A tree: paths from rank to rank, through switches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Vec<String>>>,
    /// The tree to the root, of an all-reduce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<Vec<Vec<String>>>,
    /// The tree from the root, of an all-reduce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<Vec<Vec<String>>>,
    /// A path, of an all-to-all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
}

/// The best rate of `collective`, and with `trees` what reaches it.
///
/// # Errors
/// The errors of [`optimum`].
pub fn best(graph: &Graph, collective: Collective, root: Node, trees: bool) -> Result<Optimum> {
    let found = optimum(graph, collective, root, trees)?;
    let names = Names { graph, collective };
    let is_backwards = names.is_backwards();
    let (mut cut, mut lengths, mut reached) = (None, None, None);
    let proof = match &found.proof {
        Proof::Cut(one) => {
            cut = Some(names.cut(&one.inside, one.roots, is_backwards));
            ProofKind::Cut
        }
        Proof::Bound(one) => {
            cut = Some(names.cut(&one.inside, one.roots, is_backwards));
            ProofKind::Bound
        }
        Proof::Lengths(all) => {
            lengths = Some(names.lengths(all));
            ProofKind::Lengths
        }
        Proof::Between(all, flow) => {
            lengths = Some(names.lengths(all));
            reached = Some(flow.0);
            ProofKind::Between
        }
        Proof::TwoPhases => ProofKind::TwoPhases,
    };
    let rate = found.rate.0;
    let loads = loads(graph, collective, &found);
    let trees = found.patterns.map(|patterns| {
        patterns.iter().flat_map(|(weight, p)| names.trees(&weight.to_string(), p)).collect()
    });
    Ok(Optimum {
        schema: "collcost/optimum/1",
        collective,
        fabric: graph.name.clone(),
        ranks: graph.ranks,
        root: collective.has_root().then(|| names.of(root)),
        rate: rate.to_string(),
        rate_per_second: nearest(rate),
        time_per_byte_s: nearest(rate.recip()),
        proof,
        reached,
        cut,
        lengths,
        trees,
        frontier: None,
        frontier_low: None,
        what_if: None,
        notes: notes(graph),
        loads,
        exact: found.rate,
    })
}

fn notes(graph: &Graph) -> Vec<String> {
    let add = "its switches forward alone here: multicast and reduce of its file are not used, and may be faster";
    graph.switches_add.then(|| add.to_owned()).into_iter().collect()
}

/// The share of each link's rate that the best solution uses.
fn loads(graph: &Graph, collective: Collective, found: &cost::Optimum) -> Vec<f64> {
    let mut loads = vec![0.0; graph.links.len()];
    if let Some(patterns) = &found.patterns {
        // Each carries its part of a commodity, of which there is one per block.
        let blocks = match collective {
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => graph.ranks,
            _ => 1,
        };
        let each = nearest(found.rate.0) / f64::from(blocks);
        for (part, pattern) in patterns {
            for &link in pattern.trees.iter().flatten().flatten() {
                loads[link as usize] += nearest(*part) * each;
            }
        }
        for (load, link) in loads.iter_mut().zip(&graph.links) {
            *load /= link.rate.bandwidth().0;
        }
        return loads;
    }
    match &found.proof {
        Proof::Cut(cut) | Proof::Bound(cut) => {
            let mut inside = vec![false; graph.nodes.len()];
            cut.inside.iter().for_each(|&node| inside[node as usize] = true);
            let is_in = |node: Node| inside[node as usize];
            for (load, link) in loads.iter_mut().zip(&graph.links) {
                *load = f64::from(u8::from(is_in(link.from) != is_in(link.to)));
            }
        }
        Proof::Lengths(lengths) | Proof::Between(lengths, _) => {
            for (load, &length) in loads.iter_mut().zip(lengths) {
                *load = f64::from(u8::from(length > 0));
            }
        }
        Proof::TwoPhases => {}
    }
    loads
}

impl Optimum {
    /// Adds the frontier between steps and rounds, in rounds of `unit`.
    ///
    /// # Errors
    /// A collective for which it is not known; the errors of [`frontier`].
    pub fn with_frontier(mut self, graph: &Graph, root: Node, unit: Option<Rate>) -> Result<Self> {
        let (graph, roots) = match self.collective {
            Collective::AllGather => (graph.clone(), (0..graph.ranks).collect()),
            Collective::ReduceScatter => (graph.reversed(), (0..graph.ranks).collect()),
            Collective::Broadcast => (graph.clone(), vec![root]),
            Collective::Reduce => (graph.reversed(), vec![root]),
            other => {
                return Err(Error::unsupported(format!("no frontier of {other} is known here"))
                    .help("ask for allgather, reducescatter, broadcast or reduce"));
            }
        };
        let unit = unit.map_or_else(|| Ok(graph.whole_rates()?.1), Ok)?;
        let (low, points) = frontier(&graph, &roots, unit)?;
        let holds = |point: &&Point| point.holds(&graph, &roots, unit);
        let view = |point: &Point| {
            let (rounds, chunks) = point.least();
            let all = point.rounds.iter().sum::<i64>() as f64;
            let part = |&own: &i64| super::six(own as f64 / all * rounds as f64);
            PointView {
                steps: point.steps,
                rounds,
                chunks,
                rounds_by_step: point.rounds.iter().map(part).collect(),
                trees: point.trees.len(),
            }
        };
        self.frontier = Some(points.iter().filter(holds).map(view).collect());
        self.frontier_low = Some(low.to_string());
        Ok(self)
    }
}

/// The trees or paths of the best rate as a schedule of one piece, verified, in MSCCL's XML, and what its readers
/// refuse.
///
/// # Errors
/// The errors of [`optimum`]; parts that no vector can be cut into.
pub fn schedule_of(
    graph: &Graph,
    collective: Collective,
    root: Node,
) -> Result<(String, Vec<String>)> {
    let found = optimum(graph, collective, root, true)?;
    let list = schedule(graph, collective, root, &found.patterns.unwrap_or_default());
    let list = list.ok_or_else(|| {
        Error::unsupported("the schedule would have more than 2^21 chunks at its ranks")
            .help("ask for --trees alone, or, where the links' rates differ, round them")
    })?;
    verify(&list).map_err(|fault| Error::unsupported(format!("the schedule is wrong: {fault}")))?;
    let job = Job { schedule: &list, name: "optimum", size: Bytes(0), gamma: None };
    let written = Format::named("msccl")?.write(&job)?;
    Ok((written.to_string(), written.notes))
}

struct Names<'a> {
    graph: &'a Graph,
    collective: Collective,
}

impl Names<'_> {
    fn of(&self, node: Node) -> String {
        self.graph.name_of(node).to_owned()
    }

    /// Whether data flows towards roots, so that the reversed graph was solved.
    fn is_backwards(&self) -> bool {
        matches!(self.collective, Collective::ReduceScatter | Collective::Reduce)
    }

    fn cut(&self, inside: &[Node], ranks: i64, enters: bool) -> CutView {
        let mut is_in = vec![false; self.graph.nodes.len()];
        inside.iter().for_each(|&node| is_in[node as usize] = true);
        let crosses = |from: Node, to: Node| {
            let (near, far) = if enters { (to, from) } else { (from, to) };
            is_in[near as usize] && !is_in[far as usize]
        };
        let links: Vec<_> = self.graph.links.iter().filter(|l| crosses(l.from, l.to)).collect();
        let zero = num_rational::Ratio::from_integer(0);
        let crossing = links.iter().fold(zero, |sum, link| sum + link.rate.0);
        let outside: Vec<Node> =
            (0..is_in.len() as Node).filter(|&node| !is_in[node as usize]).collect();
        let list =
            |nodes: &[Node]| nodes.iter().map(|&node| self.of(node)).collect::<Vec<_>>().join(", ");
        let name = match (inside.len(), outside.len()) {
            (i, o) if o < i && o <= 20 => format!("all but {}", list(&outside)),
            (i, _) if i <= 16 => list(inside),
            (i, _) => format!("{}, … ({i} nodes)", list(&inside[..8])),
        };
        CutView {
            name,
            nodes: inside.iter().map(|&node| self.of(node)).collect(),
            ranks,
            crossing: crossing.to_string(),
            links: links.iter().map(|link| (self.of(link.from), self.of(link.to))).collect(),
        }
    }

    fn lengths(&self, all: &[i128]) -> Vec<(String, String, String)> {
        let links = self.graph.links.iter().zip(all).filter(|(_, length)| **length > 0);
        links.map(|(l, length)| (self.of(l.from), self.of(l.to), length.to_string())).collect()
    }

    /// The nodes along some links, in the direction in which data flows.
    fn path(&self, links: &[u32]) -> Vec<String> {
        let mut links: Vec<_> = links.iter().map(|&i| self.graph.links[i as usize]).collect();
        if self.is_backwards() {
            links.reverse();
        }
        let first = links.first().map(|link| self.of(link.from));
        first.into_iter().chain(links.iter().map(|link| self.of(link.to))).collect()
    }

    fn trees(&self, weight: &str, pattern: &Pattern) -> Vec<TreeView> {
        let paths = |tree: &Vec<Vec<u32>>| -> Vec<Vec<String>> {
            tree.iter().map(|links| self.path(links)).collect()
        };
        let view = TreeView {
            root: Some(self.of(pattern.root)),
            weight: weight.to_owned(),
            edges: None,
            up: None,
            down: None,
            path: None,
        };
        match &pattern.trees[..] {
            [up, down] => vec![TreeView { up: Some(paths(up)), down: Some(paths(down)), ..view }],
            [ways] if self.collective == Collective::AllToAll => {
                let way = |path| TreeView {
                    root: None,
                    weight: weight.to_owned(),
                    edges: None,
                    up: None,
                    down: None,
                    path: Some(path),
                };
                paths(ways).into_iter().map(way).collect()
            }
            [tree] => vec![TreeView { edges: Some(paths(tree)), ..view }],
            _ => Vec::new(),
        }
    }
}
