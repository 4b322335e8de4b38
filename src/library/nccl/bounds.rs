//! Choices from a printed table: with only one decimal digit, some of them remain open.

use super::{
    Algo, Call, Chooser, Communicator, Function, Graph, Printed, Proto, Reduction, Settings, Table,
    Version, logged_channels,
};
use crate::base::error::Result;

/// What is known about the communicator of a printed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behind {
    /// Ranks.
    pub ranks: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// The GPUs' compute capability.
    pub min_cc: Option<u32>,
    /// Channels.
    pub channels: Option<u32>,
    /// Channels of NVLS.
    pub nvls_channels: Option<u32>,
}

/// A printed table between its two extremes: the fastest and the slowest table with this output.
///
/// All-reduce depends on more than the table: over several nodes, a step of a ring takes longer
/// from some size on. If nodes, channels or GPUs are unknown, every case is tried.
#[derive(Debug, Clone)]
pub struct Bounds {
    version: Version,
    variants: Vec<Variant>,
}

/// A possible communicator behind the table, and its two extremes.
#[derive(Debug, Clone)]
struct Variant {
    comm: Communicator,
    ranks_known: bool,
    fast: Chooser,
    slow: Chooser,
}

/// What a printed table allows for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The cells that may be chosen, in NCCL's order; a single one is certain.
    pub cells: Vec<(Algo, Proto)>,
}

impl Bounds {
    /// The bounds of a printed table. A cell that is not in the table is not available, nor is one
    /// whose bandwidth prints as 0.
    ///
    /// # Errors
    /// Settings that this version refuses.
    pub fn new(
        version: Version,
        behind: &Behind,
        settings: &Settings,
        cell: impl Fn(Function, Algo, Proto) -> Option<Printed>,
        threads: impl Fn(Algo, Proto) -> Option<u32>,
    ) -> Result<Self> {
        let capabilities = behind.min_cc.map_or_else(|| vec![70, 90, 100], |cc| vec![cc]);
        let known = behind.nodes.is_some_and(|nodes| nodes > 1)
            && behind.channels.is_some()
            && behind.ranks.is_some();
        // Without channels the plateau begins at the first byte; with one node there is none.
        let places: Vec<(u32, u32)> = match (behind.nodes, behind.channels) {
            (Some(1), channels) => vec![(1, channels.unwrap_or(0))],
            (Some(nodes), Some(channels)) if known => vec![(nodes, channels)],
            _ => vec![(1, behind.channels.unwrap_or(0)), (2, 0)],
        };
        let mut variants = Vec::new();
        for &min_cc in &capabilities {
            for &(nodes, channels) in &places {
                let comm = bare(behind, nodes, channels, min_cc);
                let table = Table::new(&comm, version, settings)?;
                let side = |fast: bool| {
                    let table = table.clone().with_cells(&cell, &threads, fast);
                    Chooser::new(&comm, version, &table, Reduction::default())
                };
                let (fast, slow) = (side(true), side(false));
                let ranks_known = behind.ranks.is_some();
                variants.push(Variant { comm, ranks_known, fast, slow });
            }
        }
        Ok(Self { version, variants })
    }

    /// The cells that may be chosen for a call.
    #[must_use]
    pub fn allowed(&self, call: &Call) -> Allowed {
        let mut cells = Vec::new();
        for Variant { fast, slow, .. } in &self.variants {
            let limit = slow.ranked(call).first().map_or(f32::INFINITY, |(_, _, time)| time.0);
            let near = fast.ranked(call).into_iter().filter(|(_, _, time)| time.0 <= limit);
            cells.extend(near.map(|(algo, proto, _)| (algo, proto)));
        }
        cells.sort_unstable();
        cells.dedup();
        Allowed { cells }
    }

    /// The number of channels of a call for which the tuner certainly uses this cell; `None` if
    /// ranks or channels are unknown.
    #[must_use]
    pub fn channels(&self, call: &Call, algo: Algo, proto: Proto) -> Option<u32> {
        let decided = self.variants.iter().filter(|v| v.ranks_known).filter_map(|variant| {
            let decision = variant.fast.decide(call)?;
            let same = (decision.algo, decision.proto) == (algo, proto) && decision.channels > 0;
            same.then(|| logged_channels(&variant.comm, self.version, call, &decision))
        });
        decided.reduce(u32::max)
    }

    /// The least and the greatest time of a cell; `None` if it is not available.
    #[must_use]
    pub fn time(&self, call: &Call, algo: Algo, proto: Proto) -> Option<(f32, f32)> {
        let of = |chooser: &Chooser| {
            let ranked = chooser.ranked(call);
            ranked.into_iter().find(|&(a, p, _)| (a, p) == (algo, proto)).map(|(_, _, t)| t.0)
        };
        let times = self.variants.iter().filter_map(|v| Some((of(&v.fast)?, of(&v.slow)?)));
        times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// A communicator that excludes nothing: the table shows what is not available.
fn bare(behind: &Behind, nodes: u32, channels: u32, min_cc: u32) -> Communicator {
    let graph = Graph { channels: 2, ..Graph::default() };
    let ranks = behind.ranks.unwrap_or(2).max(nodes).max(2);
    Communicator {
        ranks,
        nodes,
        local_ranks: ranks.div_ceil(nodes).min(8),
        min_cc,
        max_cc: min_cc,
        channels,
        call_channels: channels,
        nvls_channels: behind.nvls_channels.unwrap_or(0),
        nvls: true,
        collnet: true,
        collnet_heads: 1,
        collnet_chain: true,
        nvswitch: true,
        ring: graph,
        tree: graph,
        collnet_direct_graph: graph,
        collnet_chain_graph: graph,
        nvls_graph: graph,
        ..Communicator::default()
    }
}

impl Table {
    /// The same table with printed cells at one end of their ranges.
    fn with_cells(
        mut self,
        cell: impl Fn(Function, Algo, Proto) -> Option<Printed>,
        threads: impl Fn(Algo, Proto) -> Option<u32>,
        fast: bool,
    ) -> Self {
        for algo in Algo::ALL {
            for proto in Proto::ALL {
                let (a, p) = (algo as usize, proto as usize);
                if let Some(threads) = threads(algo, proto) {
                    self.threads[a][p] = threads.min(1024).cast_signed();
                }
                for function in Function::ALL {
                    let printed = cell(function, algo, proto).unwrap_or_default();
                    let (low, high) = printed.latency.range();
                    let (narrow, wide) = match printed.bandwidth.range() {
                        (_, _) if printed.bandwidth.0 == 0 => (0.0, 0.0),
                        range => range,
                    };
                    let f = function as usize;
                    self.latency[f][a][p] = if fast { low } else { high };
                    self.bandwidth[f][a][p] = if fast { wide } else { narrow };
                }
            }
        }
        // The printed cells decide, even if cost models printed them.
        self.models = None;
        self.backup = [[0.0; 3]; 5];
        self
    }
}
