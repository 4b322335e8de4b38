//! The graphs that NCCL's search finds on a machine.

use serde::Serialize;

use crate::library::nccl::search::{Found, Searched};

/// The search's result for a job.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NcclGraphs {
    /// `collcost/nccl-graph/1`.
    pub schema: &'static str,
    /// The machine's name: the name of its file.
    pub machine: String,
    /// The version whose search is used.
    pub nccl: &'static str,
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// The lowest compute capability of a GPU.
    pub min_cc: u32,
    /// The highest.
    pub max_cc: u32,
    /// The processors' instruction set.
    pub cpu_arch: &'static str,
    /// Their vendor; absent if NCCL does not ask.
    pub cpu_vendor: &'static str,
    /// Whether there is an `NVSwitch`.
    pub nvswitch: bool,
    /// The number of channels that a communicator starts with.
    pub channels: u32,
    /// The number of channels of NVLS; 0 if it is not used.
    pub nvls_channels: u32,
    /// The graphs that were searched for.
    pub graphs: Vec<GraphView>,
    /// The number of steps of the search: arrivals at GPUs, and channels completed.
    pub steps: u64,
    /// What to know about them.
    pub notes: Vec<String>,
}

/// A graph.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphView {
    /// NCCL's number of the graph: 0 ring, 1 tree, 2 collnet chain, 3 NVLS, 4 collnet direct.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// The pattern: 1 balanced tree, 3 tree, 4 ring, 5 NVLS, 6 collnet direct.
    pub pattern: u32,
    /// The rate of a channel inside a node, in GB/s.
    pub intra_gbps: f32,
    /// The rate of a channel between nodes, in GB/s.
    pub inter_gbps: f32,
    /// The latency that the NIC of the last channel tried adds, in µs.
    pub latency_us: f32,
    /// The farthest path allowed between GPUs.
    pub type_intra: &'static str,
    /// The farthest path allowed between a GPU and its NIC.
    pub type_inter: &'static str,
    /// Whether channels leave by another NIC than the one they enter by: 0 no; 1 or 2, depending on
    /// the version, yes.
    pub cross_nic: u32,
    /// Whether all channels follow the same path.
    pub same_channels: bool,
    /// The channels.
    pub channels: Vec<ChannelView>,
}

/// A channel.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelView {
    /// Ranks of the first node in order; of NVLS the head alone.
    pub ranks: Vec<u32>,
    /// Host and number of the NICs before and after them; absent inside a node.
    pub nics: Option<[String; 2]>,
}

/// The graphs of a search, under the name of the machine.
#[must_use]
pub fn nccl_graphs(machine: String, searched: &Searched, notes: Vec<String>) -> NcclGraphs {
    let comm = searched.communicator();
    let graphs = searched.graphs().into_iter().filter(|(id, _)| searched.was_searched(*id));
    NcclGraphs {
        schema: "collcost/nccl-graph/1",
        machine,
        nccl: searched.version.id(),
        nodes: searched.nodes,
        ranks_per_node: searched.per_node,
        min_cc: searched.min_cc,
        max_cc: searched.max_cc,
        cpu_arch: searched.processor.arch.name(),
        cpu_vendor: searched.processor.vendor.name(),
        nvswitch: searched.nvswitch,
        channels: comm.channels,
        nvls_channels: comm.nvls_channels,
        graphs: graphs.map(|(id, found)| graph(searched, id, found)).collect(),
        steps: searched.steps,
        notes,
    }
}

fn graph(searched: &Searched, id: u32, found: &Found) -> GraphView {
    let graph = &found.graph;
    let channels = found.channels.iter().map(|channel| {
        let listed = if id == 3 { 1 } else { channel.gpus.len() };
        let nic = |id: i64| format!("{}-{}", id >> 56, id & ((1 << 56) - 1));
        ChannelView {
            ranks: channel.gpus[..listed].iter().map(|&gpu| searched.devices[gpu].rank).collect(),
            nics: channel.nets.map(|nets| nets.map(nic)),
        }
    });
    GraphView {
        id,
        name: ["ring", "tree", "collnet chain", "nvls", "collnet direct"][id as usize],
        pattern: graph.pattern,
        intra_gbps: graph.intra.0,
        inter_gbps: graph.inter.0,
        latency_us: graph.latency_inter.0,
        type_intra: graph.type_intra.name(),
        type_inter: graph.type_inter.name(),
        cross_nic: graph.cross_nic,
        same_channels: graph.same_channels,
        channels: channels.collect(),
    }
}
