//! The differences between two releases of NCCL on a machine: in the communicators that start-up
//! builds, and in the tuner's choices.

use serde::Serialize;

use super::nccl::seconds;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::search::{Job, search};
use crate::library::nccl::topology::{Description, Knobs};
use crate::library::nccl::{
    Call, Chooser, Communicator, Decision, Function, Graph, Reduction, Settings, Table, Version,
    ranges,
};

/// The question.
pub struct Question<'a> {
    /// The machine's name.
    pub name: String,
    /// The machine.
    pub description: &'a Description,
    /// How much of it is used, and how many copies of it there are.
    pub job: Job,
    /// The old release and the new one.
    pub versions: [Version; 2],
    /// The environment for the tuner.
    pub settings: &'a Settings,
    /// The environment for searches and start-up.
    pub knobs: &'a Knobs,
    /// The sizes to compare; empty for all in the next range.
    pub sizes: Vec<Bytes>,
    /// The smallest and the largest size.
    pub range: (Bytes, Bytes),
}

/// The differences between two releases.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NcclDiff {
    /// `collcost/nccl-diff/1`.
    pub schema: &'static str,
    /// The machine.
    pub machine: String,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// The old release.
    pub before: &'static str,
    /// The new release.
    pub after: &'static str,
    /// Parameters of the communicator that differ: channels, and the results of the search.
    pub figures: Vec<FigureDiff>,
    /// Sizes at which the choice differs, or its channels, threads or time.
    pub choices: Vec<ChoiceDiff>,
    /// The number of sizes that were compared.
    pub compared: u64,
    /// What to know about them.
    pub notes: Vec<String>,
}

/// A parameter that differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureDiff {
    /// Its name, such as `ring: channels`.
    pub figure: String,
    /// The value in the old release.
    pub before: String,
    /// The value in the new release.
    pub after: String,
}

/// Sizes at which a choice differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceDiff {
    /// The collective's id.
    pub collective: Collective,
    /// The smallest size; for all-gather and reduce-scatter the total over ranks.
    pub from_bytes: u64,
    /// The largest size.
    pub to_bytes: u64,
    /// The choice of the old release; absent if NCCL returns an error.
    pub before: Option<Taken>,
    /// The choice of the new release.
    pub after: Option<Taken>,
    /// NCCL's own estimate in the new release over that in the old one, at the largest size.
    pub ratio: Option<f64>,
}

/// The choice of a release.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taken {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// The maximum number of channels, at the smallest size.
    pub channels_from: u32,
    /// The same at the largest size.
    pub channels_to: u32,
    /// Threads per block at the smallest size.
    pub threads_from: u32,
    /// The same at the largest size.
    pub threads_to: u32,
    /// NCCL's own estimate at the smallest size; absent if the release makes none.
    pub time_from_s: Option<f64>,
    /// The same at the largest size.
    pub time_to_s: Option<f64>,
}

impl Taken {
    /// The choice at both ends of a range.
    pub(super) fn of(from: Option<Decision>, to: Option<Decision>) -> Option<Self> {
        let (from, to) = (from?, to?);
        Some(Self {
            algorithm: to.algo.name(),
            protocol: to.proto.name(),
            channels_from: from.channels,
            channels_to: to.channels,
            threads_from: from.threads,
            threads_to: to.threads,
            time_from_s: from.time.map(|time| seconds(time.0)),
            time_to_s: to.time.map(|time| seconds(time.0)),
        })
    }
}

/// The differences.
///
/// # Errors
/// An error of a search or a release; sizes in the wrong order.
pub fn nccl_diff(question: &Question<'_>) -> Result<NcclDiff> {
    let (begin, end) = question.range;
    if begin > end {
        return Err(Error::input(format!("there are no sizes between {begin} and {end}"))
            .help("give the smaller size first"));
    }
    let [before, after] = question.versions;
    let sides = [side(question, before)?, side(question, after)?];
    let [old, new] = [&sides[0], &sides[1]];
    let mut choices = Vec::new();
    let mut compared = 0;
    for function in Function::ALL {
        for (from, to) in segments(question, &sides, function) {
            compared += 1;
            let taken = |side: &Side| {
                let at = |size| side.chooser.decide(&Call { function, size, pipelined: 1 });
                Taken::of(at(from), at(to))
            };
            let (before, after) = (taken(old), taken(new));
            if before == after {
                continue;
            }
            let time = |taken: &Option<Taken>| taken.as_ref().and_then(|taken| taken.time_to_s);
            let ratio = time(&after).zip(time(&before)).map(|(after, before)| after / before);
            choices.push(ChoiceDiff {
                collective: function.collective(),
                from_bytes: from.0,
                to_bytes: to.0,
                before,
                after,
                ratio: ratio.filter(|ratio| ratio.is_finite()),
            });
        }
    }
    let caveats = sides.iter().zip(question.versions);
    let caveats = caveats.flat_map(|(side, v)| v.caveat().into_iter().chain(side.chooser.caveat()));
    let mut notes: Vec<String> = caveats.map(str::to_owned).collect();
    notes.dedup();
    Ok(NcclDiff {
        schema: "collcost/nccl-diff/1",
        machine: question.name.clone(),
        ranks: new.comm.ranks,
        nodes: new.comm.nodes,
        before: before.id(),
        after: after.id(),
        figures: figures(&old.comm, &new.comm),
        choices,
        compared,
        notes,
    })
}

/// The communicator that a release builds on the machine.
struct Side {
    comm: Communicator,
    chooser: Chooser,
}

fn side(question: &Question<'_>, version: Version) -> Result<Side> {
    let found = search(question.description, version, question.job, question.knobs)?;
    let comm = found.communicator();
    let table = Table::new(&comm, version, question.settings)?;
    let chooser = Chooser::new(&comm, version, &table, Reduction::default());
    Ok(Side { comm, chooser })
}

/// Sizes within which both releases keep one algorithm and protocol.
fn segments(question: &Question<'_>, sides: &[Side; 2], function: Function) -> Vec<(Bytes, Bytes)> {
    if !question.sizes.is_empty() {
        return question.sizes.iter().map(|&size| (size, size)).collect();
    }
    let (begin, end) = question.range;
    let found = sides.iter().flat_map(|side| ranges(&side.chooser, function, begin, end));
    let mut starts: Vec<u64> = found.map(|range| range.from.0).collect();
    starts.sort_unstable();
    starts.dedup();
    let ends = starts[1..].iter().map(|start| start - 1).chain([end.0]);
    starts.iter().zip(ends).map(|(&from, to)| (Bytes(from), Bytes(to))).collect()
}

/// The parameters of two communicators that differ.
fn figures(before: &Communicator, after: &Communicator) -> Vec<FigureDiff> {
    let (before, after) = (described(before), described(after));
    let pairs = before.into_iter().zip(after);
    let differ = pairs.filter(|((_, before), (_, after))| before != after);
    differ.map(|((figure, before), (_, after))| FigureDiff { figure, before, after }).collect()
}

/// A communicator's parameters, by name.
fn described(comm: &Communicator) -> Vec<(String, String)> {
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let mut figures = vec![
        ("channels".to_owned(), comm.channels.to_string()),
        ("channels: of a call".to_owned(), comm.call_channels.to_string()),
        ("NVLS".to_owned(), yes(comm.nvls)),
        ("NVLS: channels".to_owned(), comm.nvls_channels.to_string()),
        ("CollNet".to_owned(), yes(comm.collnet)),
        ("CollNet: heads".to_owned(), comm.collnet_heads.to_string()),
    ];
    for (name, graph) in [
        ("ring", &comm.ring),
        ("tree", &comm.tree),
        ("CollNet direct", &comm.collnet_direct_graph),
        ("CollNet chain", &comm.collnet_chain_graph),
        ("NVLS", &comm.nvls_graph),
    ] {
        let Graph { pattern, channels, intra, inter, latency_inter, .. } = *graph;
        // If nothing was searched, the pattern is meaningless.
        let pattern = if channels == 0 { "none".to_owned() } else { pattern.to_string() };
        let graph = [
            ("pattern", pattern),
            ("channels found", channels.to_string()),
            ("GB/s inside", intra.0.to_string()),
            ("GB/s between", inter.0.to_string()),
            ("NIC's µs", latency_inter.0.to_string()),
            ("path inside", graph.type_intra.to_string()),
            ("path to the NIC", graph.type_inter.to_string()),
            ("crosses NICs", graph.cross_nic.to_string()),
            ("same channels", yes(graph.same_channels)),
        ];
        figures.extend(graph.map(|(figure, text)| (format!("{name} graph: {figure}"), text)));
    }
    figures
}
