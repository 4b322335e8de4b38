//! Why a cell of the table is not available.

use std::fmt;

use super::allowed::{trusts_ll128, trusts_paths};
use super::communicator::PathType;
use super::{Algo, Chooser, Communicator, Function, Proto, Settings, Table, Version, since};

/// Why NCCL does not consider an algorithm and protocol for a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    /// There is no such implementation.
    NoCode,
    /// PAT needs one rank per node, unless `NCCL_PAT_ENABLE` says otherwise.
    Pat,
    /// `NCCL_ALGO` excludes it.
    AlgoUnset,
    /// `NCCL_PROTO` excludes it.
    ProtoUnset,
    /// It is only for several nodes.
    OneNode,
    /// No plugin reduces in the network.
    NoCollnet,
    /// There is no `NVSwitch`.
    NoSwitch,
    /// The plugin has no chains.
    NoChain,
    /// The GPUs share no switch that reduces, or the search found no channels there.
    NoNvls,
    /// Its graph has no bandwidth, or the function's blocks do not fit.
    NoBandwidth,
    /// LL128 needs shorter paths than these, inside the node and to the NIC.
    Ll128Path(PathType, PathType),
    /// LL128 needs GPUs of one kind, and of a kind that is known to be safe.
    Ll128Gpus(u32, u32),
    /// It does not support the data type, the operation, or this many ranks per node.
    Call,
}

impl fmt::Display for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCode => f.write_str("not implemented for this collective and protocol"),
            Self::Pat => f.write_str("PAT needs one rank per node (NCCL_PAT_ENABLE)"),
            Self::AlgoUnset => f.write_str("NCCL_ALGO excludes it"),
            Self::ProtoUnset => f.write_str("NCCL_PROTO excludes it"),
            Self::OneNode => f.write_str("only for several nodes"),
            Self::NoCollnet => f.write_str("no plugin reduces in the network"),
            Self::NoSwitch => f.write_str("no NVSwitch"),
            Self::NoChain => f.write_str("the network plugin has no chains"),
            Self::NoNvls => f.write_str("no NVLink switch that reduces"),
            Self::NoBandwidth => f.write_str("no bandwidth on its graph for this collective"),
            Self::Ll128Path(intra, inter) => {
                write!(
                    f,
                    "LL128 is not trusted on these paths ({intra} inside, {inter} to the NIC)"
                )
            }
            Self::Ll128Gpus(least, greatest) if least == greatest => {
                write!(f, "LL128 is not trusted on compute capability {least}")
            }
            Self::Ll128Gpus(least, greatest) => {
                write!(
                    f,
                    "LL128 is not trusted on mixed GPUs (compute capability {least}, {greatest})"
                )
            }
            Self::Call => f.write_str("not for this data type, operation or number of local ranks"),
        }
    }
}

/// Why a cell is not considered, or nothing if it is.
///
/// The table and the chooser tell whether it is; this only finds the reason, in the order of NCCL's
/// checks.
#[must_use]
pub fn why_not(
    comm: &Communicator,
    version: Version,
    settings: &Settings,
    chooser: &Chooser,
    (function, algo, proto): (Function, Algo, Proto),
) -> Option<Out> {
    if chooser.considers(function, algo, proto) {
        return None;
    }
    let enabled = settings.enabled(version).ok()?;
    let alone = Settings::default();
    let free = Table::new(comm, version, &alone).ok()?;
    let table = Table::new(comm, version, settings).ok()?;
    let f = function as usize;
    let Communicator { nodes, collnet, nvswitch, collnet_chain, .. } = *comm;
    let nvls = matches!(algo, Algo::Nvls | Algo::NvlsTree);
    Some(if !Table::has_code(version, function, algo, proto) {
        Out::NoCode
    } else if !enabled.algos[f][algo as usize] {
        Out::AlgoUnset
    } else if enabled.protos[f][proto as usize] == Some(false) {
        Out::ProtoUnset
    } else if algo == Algo::NvlsTree && nodes == 1 {
        Out::OneNode
    } else if !collnet && (algo.is_collnet() || (algo == Algo::Nvls && nodes > 1)) {
        Out::NoCollnet
    } else if algo == Algo::CollNetDirect && !nvswitch {
        Out::NoSwitch
    } else if algo == Algo::CollNetChain && version.has(since::ASKS_CHAIN) && !collnet_chain {
        Out::NoChain
    } else if nvls && (!comm.nvls || comm.nvls_graph.channels == 0) {
        Out::NoNvls
    } else if algo == Algo::Pat && free.latency(function, algo, proto).0 == 0.0 {
        Out::Pat
    } else if proto == Proto::Ll128
        && enabled.protos[f][proto as usize].is_none()
        && !trusts_ll128(comm, version, settings, algo)
    {
        // From 2.31 on a cell that is off keeps its bandwidth.
        let graph = comm.graph(algo);
        if trusts_paths(comm, version, settings, algo) {
            Out::Ll128Gpus(comm.min_cc, comm.max_cc)
        } else {
            Out::Ll128Path(graph.type_intra, graph.type_inter)
        }
    } else if table.bandwidth(function, algo, proto).0 > 0.0 {
        Out::Call
    } else {
        Out::NoBandwidth
    })
}
