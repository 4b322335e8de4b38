//! How often each cause was the true one, by name.
//!
//! Counts of 93 public threads about slow or odd collectives whose cause could be read, 2016 to 2026
//! (NVIDIA/nccl, nccl-tests, aws-ofi-nccl, ROCm/rccl, dgx-spark-playbooks, vLLM, UCX), a thread once,
//! under what mended it; on one node and on more. What people report is not what happens, so one is
//! added to each, and what operators and papers tell of but no thread does has two of a hundred.

use crate::machine::profile::{LinkKind, NetworkKind};
use crate::machine::query::Query;

/// A cause, with how often it was true on one node and on more.
struct Prior {
    id: &'static str,
    one: f64,
    more: f64,
}

const PRIORS: &[Prior] = &[
    // Six of these ten threads tell of hangs and crashes, which have no times.
    Prior { id: "acs", one: 2.4, more: 1.6 },
    Prior { id: "topology", one: 4.0, more: 5.0 },
    // All of these threads name a release that was good; most runs have no such before.
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

/// Of what is told by papers and operators alone: clock, slow-rank, straggler, pcie-degraded.
const FLOOR: f64 = 0.5;

/// ln of how likely a cause is before anything was measured, up to a constant.
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

/// How much oftener a cause is true on one node whose ranks are joined so than on all.
fn inside(id: &str, link: Option<LinkKind>) -> f64 {
    match (id, link) {
        // Of machines without NVLink all that goes wrong so goes through PCIe and CPUs.
        ("acs" | "cpu", Some(LinkKind::Pcie)) => 1.5,
        // Paths over NVLink are not taken from what a virtual machine says of PCIe.
        ("topology", Some(link)) if link != LinkKind::Pcie => 0.5,
        _ => 1.0,
    }
}

/// How much oftener a cause is true on a network than on all.
fn on(id: &str, network: NetworkKind, nodes: u32) -> f64 {
    use NetworkKind::{Efa, Ib, Roce, Slingshot, Tcp, Tcpx, Tcpxo};
    match (id, network) {
        // Ethernet drops and hashes, the more where flows go through several switches; InfiniBand has
        // credits, EFA and Slingshot spread packets.
        ("fabric", Roce) if nodes > ONE_SWITCH => 3.0,
        ("fabric", Roce) => 1.5,
        ("fabric", Ib | Efa | Slingshot) => 0.5,
        // Nothing falls back to what it is.
        ("tcp", Tcp) | ("gdr-off", Tcp) => 0.05,
        ("gdr-off", Tcpx | Tcpxo) => 0.5,
        _ => 1.0,
    }
}

/// The rails of so many nodes end at one switch each: a scalable unit of NVIDIA's DGX SuperPOD (H100).
const ONE_SWITCH: u32 = 32;

/// ln of how likely it is that nothing is wrong, on the same scale: 20 of the 93 threads.
pub(super) fn healthy() -> f64 {
    21_f64.ln()
}
