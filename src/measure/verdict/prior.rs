//! How often each cause was the true one.
//!
//! Counts from 93 public threads about slow or odd collectives whose cause is stated, 2016 to 2026
//! (NVIDIA/nccl, nccl-tests, aws-ofi-nccl, ROCm/rccl, dgx-spark-playbooks, vLLM, UCX), on one node and on
//! more. Each thread counts once, under the cause whose fix helped. Reports are not a fair sample of what
//! happens, so one is added to each count, and causes that operators and papers report but no thread does
//! get two of a hundred.

use crate::machine::profile::{LinkKind, NetworkKind};
use crate::machine::query::Query;

/// A cause, with how often it was true on one node and on more.
struct Prior {
    id: &'static str,
    one: f64,
    more: f64,
}

const PRIORS: &[Prior] = &[
    // Six of these ten threads report hangs and crashes, which have no times.
    Prior { id: "acs", one: 2.4, more: 1.6 },
    Prior { id: "topology", one: 4.0, more: 5.0 },
    // All of these threads name a release that was good; most runs have no earlier release to name.
    Prior { id: "version", one: 2.5, more: 2.0 },
    Prior { id: "gdr-off", one: 0.0, more: 8.0 },
    Prior { id: "missing-nic", one: 0.0, more: 8.0 },
    Prior { id: "tcp", one: 0.0, more: 5.0 },
    Prior { id: "setting", one: 2.0, more: 3.0 },
    Prior { id: "fabric", one: 0.0, more: 5.0 },
    Prior { id: "nic-setting", one: 0.0, more: 4.0 },
    Prior { id: "nvls-missing", one: 2.0, more: 1.0 },
    Prior { id: "cpu", one: 2.0, more: 1.0 },
    Prior { id: "bad-node", one: 0.0, more: 2.0 },
    Prior { id: "wrong-convention", one: 1.0, more: 1.0 },
];

/// For causes that only papers and operators report: clock, slow-rank, straggler, pcie-degraded.
const FLOOR: f64 = 0.5;

/// ln of the prior probability of a cause, up to a constant.
pub(super) fn ln(id: &str, query: &Query) -> f64 {
    let nodes = query.placement.nodes();
    let known = PRIORS.iter().find(|p| p.id == id);
    let count = known.map_or(FLOOR, |p| if nodes > 1 { p.more } else { p.one });
    let oftener = match query.machine.network.filter(|_| nodes > 1) {
        Some(network) => on(id, network, nodes),
        None if nodes > 1 => 1.0,
        None => inside(id, query.machine.hardware.as_ref().map(|h| h.link)),
    };
    (1.0 + count).ln() + oftener.ln()
}

/// How much more often a cause is true on one node with this kind of link than on all nodes.
fn inside(id: &str, link: Option<LinkKind>) -> f64 {
    match (id, link) {
        // On machines without NVLink, all such faults involve PCIe and CPUs.
        ("acs" | "cpu", Some(LinkKind::Pcie)) => 1.5,
        // Paths over NVLink do not depend on the PCIe topology that a virtual machine reports.
        ("topology", Some(link)) if link != LinkKind::Pcie => 0.5,
        _ => 1.0,
    }
}

/// How much more often a cause is true on this network than on all.
fn on(id: &str, network: NetworkKind, nodes: u32) -> f64 {
    use NetworkKind::{Efa, Ib, Roce, Slingshot, Tcp, Tcpx, Tcpxo};
    match (id, network) {
        // Ethernet drops packets and hashes flows, the more so across several switches; InfiniBand has
        // credits, EFA and Slingshot spray packets.
        ("fabric", Roce) if nodes > ONE_SWITCH => 3.0,
        ("fabric", Roce) => 1.5,
        ("fabric", Ib | Efa | Slingshot) => 0.5,
        // A network cannot fall back to itself.
        ("tcp", Tcp) | ("gdr-off", Tcp) => 0.05,
        ("gdr-off", Tcpx | Tcpxo) => 0.5,
        _ => 1.0,
    }
}

/// Up to this many nodes each rail ends at one switch: a scalable unit of NVIDIA's DGX SuperPOD (H100).
const ONE_SWITCH: u32 = 32;

/// ln of the prior that nothing is wrong, on the same scale: 20 of the 93 threads.
pub(super) fn healthy() -> f64 {
    21_f64.ln()
}
