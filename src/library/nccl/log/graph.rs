//! The graphs that each rank's search found.
//!
//! ```text
//! Pattern 4, crossNic 0, nChannels 1, bw 12.000000/12.000000, type SYS/SYS, sameChannels 1
//!  0 : NET/0-0 GPU/0-10000 GPU/0-11000 NET/0-0
//! ```
//!
//! A rank prints its ring, its tree, with in-network reduction a chain and (since 2.22) collnet
//! direct, then NVLS. Ranks then agree on the worst of all: the fewest channels, the lowest rates,
//! the longest paths.
//!
//! Source: NVIDIA/nccl, `src/graph/search.cc` (lines), `src/init.cc` (order, agreement).

use crate::base::refused::Refused;
use crate::library::nccl::{Gbps, Graph, Micros, PathType, Version, since};

/// What one rank's search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The line of its ring.
    pub line: usize,
    pub(super) printer: String,
    graphs: Vec<Found>,
}

/// One graph with the data of its channel lines.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    line: usize,
    graph: Graph,
    /// By channel line: whether it begins at a NIC, its number of GPUs, the first of them.
    channels: Vec<(bool, u32, String)>,
}

/// The graphs that all ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Agreed {
    pub ring: Graph,
    pub tree: Graph,
    pub chain: Option<Graph>,
    pub direct: Option<Graph>,
    pub nvls: Option<Graph>,
    /// GPUs of a channel, and whether it begins at a NIC; absent if no channel is listed.
    pub gpus: Option<(u32, bool)>,
    pub heads: u32,
}

impl Search {
    fn ring(&self) -> Option<&Found> {
        self.of(|pattern| pattern == 4)
    }

    fn of(&self, is: impl Fn(u32) -> bool) -> Option<&Found> {
        self.graphs.iter().find(|found| is(found.graph.pattern))
    }

    fn tree(&self) -> Option<&Found> {
        self.of(is_tree)
    }

    fn chain(&self) -> Option<&Found> {
        self.trees().nth(1)
    }

    /// With one GPU per node, this graph is a tree too.
    fn direct(&self) -> Option<&Found> {
        self.of(|pattern| pattern == 6).or_else(|| self.trees().nth(2))
    }

    fn trees(&self) -> impl Iterator<Item = &Found> {
        self.graphs.iter().filter(|found| is_tree(found.graph.pattern))
    }
}

fn is_tree(pattern: u32) -> bool {
    matches!(pattern, 1..=3)
}

/// The worst of all ranks, as `version` compares; `None` if a ring or a tree is missing.
///
/// The first search determines the pattern of the tree, which versions until 2.21 did not exchange.
pub(super) fn agreed(searches: &[&Search], version: Version) -> Option<Agreed> {
    let worst = |of: fn(&Search) -> Option<&Found>| {
        let graphs = searches.iter().map(|search| of(search).map(|found| found.graph));
        let graphs: Option<Vec<Graph>> = graphs.collect();
        graphs?.into_iter().reduce(|a, b| worse(&a, &b, version))
    };
    let first = searches.first()?;
    let (ring, mut tree) = (worst(Search::ring)?, worst(Search::tree)?);
    if !version.has(since::WORST_TREE) {
        tree.pattern = first.tree()?.graph.pattern;
    }
    let listed = first.ring()?.channels.first();
    let collnet = first.direct().or(first.chain());
    let mut heads: Vec<&str> =
        collnet.map_or(&[][..], |found| &found.channels).iter().map(|c| c.2.as_str()).collect();
    heads.sort_unstable();
    heads.dedup();
    Some(Agreed {
        ring,
        tree,
        chain: worst(Search::chain),
        direct: worst(Search::direct),
        nvls: worst(|search| search.of(|p| p == 5)),
        gpus: listed.map(|&(net, gpus, _)| (gpus, net)),
        heads: heads.len() as u32,
    })
}

fn worse(a: &Graph, b: &Graph, version: Version) -> Graph {
    let rate = |a: Gbps, b: Gbps| if b.0 < a.0 { b } else { a };
    let path = |a: PathType, b: PathType| if b.rank(version) > a.rank(version) { b } else { a };
    Graph {
        pattern: a.pattern.max(b.pattern),
        channels: a.channels.min(b.channels),
        intra: rate(a.intra, b.intra),
        inter: rate(a.inter, b.inter),
        latency_inter: a.latency_inter,
        type_intra: path(a.type_intra, b.type_intra),
        type_inter: path(a.type_inter, b.type_inter),
        cross_nic: a.cross_nic.max(b.cross_nic),
        same_channels: a.same_channels && b.same_channels,
    }
}

/// The searches read so far.
#[derive(Default)]
pub(super) struct Searches(Vec<Search>);

impl Searches {
    /// Reads a message if it is part of a graph.
    pub(super) fn take(
        &mut self,
        message: &str,
        printer: &str,
        line: usize,
    ) -> Result<bool, Refused> {
        if let Some(rest) = message.strip_prefix("Pattern ") {
            let graph = graph(rest, line)?;
            if graph.pattern == 4 {
                let printer = printer.to_owned();
                self.0.push(Search { line, printer, graphs: Vec::new() });
            }
            let Some(search) = self.last(printer) else {
                let what = "a graph comes before this rank's ring";
                return Err(Refused::at(line, what)
                    .help("the start of the log is missing: copy it from the line `Pattern 4`"));
            };
            search.graphs.push(Found { line, graph, channels: Vec::new() });
            return Ok(true);
        }
        let Some((number, path)) = message.split_once(" : ") else { return Ok(false) };
        if !path.starts_with("NET/") && !path.starts_with("GPU/") {
            return Ok(false);
        }
        let Ok(number) = number.trim().parse::<usize>() else { return Ok(false) };
        let Some(found) = self.last(printer).and_then(|search| search.graphs.last_mut()) else {
            return Ok(true);
        };
        if number != found.channels.len() {
            let what = format!("channel {number} is where {} should be", found.channels.len());
            return Err(Refused::at(line, what).help("copy the whole log"));
        }
        let gpus: Vec<&str> = path.split_whitespace().filter(|w| w.starts_with("GPU/")).collect();
        let Some(head) = gpus.first() else {
            return Err(Refused::at(line, "a channel without GPUs").help("copy the whole line"));
        };
        let net = path.starts_with("NET/");
        if net && !path.trim_end().rsplit(' ').next().is_some_and(|w| w.starts_with("NET/")) {
            return Err(Refused::at(line, "the channel begins at a NIC but does not end at one")
                .help("copy the whole line"));
        }
        found.channels.push((net, gpus.len() as u32, (*head).to_owned()));
        Ok(true)
    }

    fn last(&mut self, printer: &str) -> Option<&mut Search> {
        self.0.iter_mut().rev().find(|search| search.printer == printer)
    }

    pub(super) fn finish(self) -> Result<Vec<Search>, Refused> {
        for Found { line, graph, channels } in self.0.iter().flat_map(|s| &s.graphs) {
            // Filtered logs have only the heads.
            if !channels.is_empty() && channels.len() as u32 != graph.channels {
                let (said, found) = (graph.channels, channels.len());
                let what = format!("nChannels {said}, but {found} channels follow");
                return Err(Refused::at(*line, what).help("copy the whole log"));
            }
        }
        Ok(self.0)
    }
}

/// What follows `Pattern `.
fn graph(text: &str, line: usize) -> Result<Graph, Refused> {
    let cut = || {
        Refused::at(line, "the line of a graph is cut off or damaged")
            .help("such lines end with `sameChannels 0` or `sameChannels 1`")
    };
    let parts: Vec<&str> = text.split(", ").map(str::trim).collect();
    let [pattern, cross, channels, rates, types, same] = parts.as_slice() else {
        return Err(cut());
    };
    let number = |text: &str, name: &str| -> Result<u32, Refused> {
        let value = text.strip_prefix(name).ok_or_else(cut)?.trim();
        value
            .parse()
            .map_err(|_| Refused::at(line, format!("`{name}{value}` is not a whole number from 0")))
    };
    let pair = |text: &str| -> Result<(String, String), Refused> {
        let (_, values) = text.split_once(' ').ok_or_else(cut)?;
        let (a, b) = values.split_once('/').ok_or_else(cut)?;
        Ok((a.to_owned(), b.to_owned()))
    };
    let rate = |text: &str| match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(Gbps(rate)),
        _ => Err(Refused::at(line, format!("`{text}` is not a rate in GB/s"))),
    };
    let path = |text: &str| {
        PathType::named(text).map_err(|_| {
            Refused::at(line, format!("`{text}` is not a path type of NCCL"))
                .help("known: LOC, NVL, NVB, C2C, PIX, PXB, PXN, P2C, PHB, SYS, NET, DIS")
        })
    };
    if !(rates.starts_with("bw ") || rates.starts_with("speed ")) || !types.starts_with("type ") {
        return Err(cut());
    }
    let ((intra, inter), (type_intra, type_inter)) = (pair(rates)?, pair(types)?);
    let pattern = number(pattern, "")?;
    if !(1..=6).contains(&pattern) {
        return Err(Refused::at(line, format!("pattern {pattern}: known patterns: 1 to 6")));
    }
    Ok(Graph {
        pattern,
        channels: number(channels, "nChannels ")?,
        intra: rate(&intra)?,
        inter: rate(&inter)?,
        // No version prints the latency.
        latency_inter: Micros(0.0),
        type_intra: path(&type_intra)?,
        type_inter: path(&type_inter)?,
        cross_nic: number(cross, "crossNic ")?,
        same_channels: number(same, "sameChannels ")? > 0,
    })
}
