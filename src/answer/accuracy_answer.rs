//! How far off the default answer is for published points.

use serde::Serialize;

use super::six;
use crate::base::order::falling;
use crate::measure::accuracy::answer::{Answered, Figures, Nodes, Pool, Sizes, by_cell, figures};
use crate::measure::expect::Basis;

/// The errors of the default answer. Each cluster is predicted without what was learned from it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerAccuracy {
    /// `collcost/accuracy-answer/1`.
    pub schema: &'static str,
    /// The files, without their folders.
    pub files: Vec<String>,
    /// Files and series without an answer, with the reason.
    pub left_out: Vec<String>,
    /// The default answer and others.
    pub answers: Vec<AnswerView>,
    /// The same for the points over 2 to 16 nodes at 32 MiB and more.
    pub over_nodes: Vec<AnswerView>,
    /// By nodes, sizes and basis.
    pub cells: Vec<CellView>,
    /// By kind of machine.
    pub pools: Vec<PoolView>,
    /// By cluster, the worst first.
    pub clusters: Vec<ClusterView>,
}

/// One answer, for the points for which it has a prediction.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerView {
    /// `default`, `nccl`, `pytorch`, `pipelined` or `ideal`.
    pub answer: &'static str,
    /// Its errors.
    pub error: FiguresView,
    /// The errors of the default answer for the same points.
    pub default: FiguresView,
}

/// One cell.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellView {
    /// Nodes.
    pub nodes: Nodes,
    /// Sizes.
    pub sizes: Sizes,
    /// What the answers are based on.
    pub basis: Basis,
    /// Their errors.
    pub error: FiguresView,
    /// The errors once one point of each series is known; those points are not counted.
    pub seen: Option<FiguresView>,
}

/// One kind of machine.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolView {
    /// The kind.
    pub pool: Pool,
    /// The errors.
    pub error: FiguresView,
    /// The errors once one point of each series is known; those points are not counted.
    pub seen: Option<FiguresView>,
}

/// One cluster.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterView {
    /// Its name.
    pub cluster: String,
    /// What was left out for it; absent if nothing was learned from it.
    pub machine_left_out: Option<String>,
    /// The errors.
    pub error: FiguresView,
}

/// |expected/measured − 1| over points, as fractions.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FiguresView {
    /// How many points.
    pub points: usize,
    /// The number of clusters they come from.
    pub clusters: usize,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The median with its sign: below 0 the answer is too short.
    pub signed: f64,
    /// The share of measured times inside the band.
    pub inside: Option<f64>,
    /// The median of the band's upper end over its lower end.
    pub high_over_low: Option<f64>,
}

impl FiguresView {
    fn new(of: Figures) -> Self {
        Self {
            points: of.points,
            clusters: of.clusters,
            median: six(of.median.0),
            p90: six(of.p90.0),
            signed: six(of.signed.0),
            inside: of.band.map(|b| six(b.0.0)),
            high_over_low: of.band.map(|b| six(b.1.0)),
        }
    }

    fn default<'a>(of: impl IntoIterator<Item = &'a Answered>) -> Option<Self> {
        figures(of, |a| Some((a.answer.time, Some(a.answer)))).map(Self::new)
    }

    fn seen<'a>(of: impl IntoIterator<Item = &'a Answered>) -> Option<Self> {
        figures(of, |a| a.seen.map(|e| (e.time, Some(e)))).map(Self::new)
    }
}

/// The errors of each kind of answer over some points.
fn beside(of: &[&Answered]) -> Vec<AnswerView> {
    type Tell = fn(&Answered) -> Option<crate::base::quantity::Seconds>;
    let others: [(&'static str, Tell); 5] = [
        ("default", |a| Some(a.answer.time)),
        ("nccl", |a| a.nccl),
        ("pytorch", |a| a.pytorch),
        ("ideal", |a| a.ideal),
        ("pipelined", |a| a.pipelined),
    ];
    let told = |(answer, tell): (&'static str, Tell)| {
        let error = FiguresView::new(figures(of.iter().copied(), |a| Some((tell(a)?, None)))?);
        let default = FiguresView::default(of.iter().copied().filter(|a| tell(a).is_some()))?;
        Some(AnswerView { answer, error, default })
    };
    others.into_iter().filter_map(told).collect()
}

/// The report of all answers over `files`, except those that were left out.
#[must_use]
pub fn answers(all: &[Answered], files: Vec<String>, left_out: Vec<String>) -> AnswerAccuracy {
    let over_nodes: Vec<&Answered> = all.iter().filter(|a| Pool::OverNodes.has(a)).collect();
    let cells = by_cell(all).into_iter().filter_map(|((nodes, sizes, basis), of)| {
        let error = FiguresView::default(of.iter().copied())?;
        Some(CellView { nodes, sizes, basis, error, seen: FiguresView::seen(of) })
    });
    let pools = Pool::ALL.into_iter().filter_map(|pool| {
        let of = || all.iter().filter(|a| pool.has(a));
        let error = FiguresView::default(of())?;
        Some(PoolView { pool, error, seen: FiguresView::seen(of()) })
    });
    let (cells, pools) = (cells.collect(), pools.collect());
    let answers = beside(&all.iter().collect::<Vec<_>>());
    let over_nodes = beside(&over_nodes);
    let clusters = clusters(all);
    let schema = "collcost/accuracy-answer/1";
    AnswerAccuracy { schema, files, left_out, answers, over_nodes, cells, pools, clusters }
}

fn clusters(all: &[Answered]) -> Vec<ClusterView> {
    let mut names: Vec<(&str, Option<&String>)> =
        all.iter().map(|a| (a.point.cluster.as_str(), a.left_out.as_ref())).collect();
    names.sort_unstable();
    names.dedup();
    let view = |(cluster, machine): (&str, Option<&String>)| {
        let of = all.iter().filter(|a| a.point.cluster == cluster);
        Some(ClusterView {
            cluster: cluster.to_owned(),
            machine_left_out: machine.cloned(),
            error: FiguresView::default(of)?,
        })
    };
    let mut views: Vec<ClusterView> = names.into_iter().filter_map(view).collect();
    falling(&mut views, |a| a.error.median);
    views
}
