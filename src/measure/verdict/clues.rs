//! What a log, variables or tools of the system say for and against causes.
//!
//! A clue is how much likelier it is to be read where its cause is true than where another is, as a
//! logarithm. Lines that name the mechanism itself (sockets, no GPUDirect, P2P that is off) are nineteen of
//! twenty times there with their cause and once in twenty without it; lines that only go with it count
//! less. Whether the cause explains the times is the likelihood's question: a clue alone makes nothing ill.

use super::mechanism::{ALGO_NEXT, P2P_NEXT, PROTO_NEXT};
use crate::library::nccl::topology::Interfaces;
use crate::machine::profile::{LinkKind, NetworkKind};
use crate::machine::query::Query;
use crate::measure::logs::{Evidence, Sign};

/// The mechanism itself was read.
const NAMED: f64 = 3.0;
/// Something that goes with it.
const NEAR: f64 = 2.0;
/// Something that also healthy machines have.
const WEAK: f64 = 1.0;

/// What speaks for a cause, or against it.
pub(super) struct Clue {
    pub id: &'static str,
    /// Of causes with one id, only that with this command.
    pub next: Option<&'static str>,
    /// ln of how much likelier it is with the cause.
    pub ln: f64,
    /// In a few words.
    pub says: String,
}

impl Clue {
    /// Whether the mechanism itself was read, and not against it.
    pub fn is_name(&self) -> bool {
        self.ln >= NAMED
    }
}

/// What `evidence` says of causes on the machine of `query`.
pub(super) fn clues(evidence: &Evidence, query: &Query) -> Vec<Clue> {
    if evidence.is_empty() {
        return Vec::new();
    }
    let mut all = variables(evidence, query);
    match query.placement.nodes() {
        1 => inside(evidence, query, &mut all),
        _ => between(evidence, query, &mut all),
    }
    let mut say = |id, ln, says: &str| all.push(Clue { id, next: None, ln, says: says.to_owned() });
    if evidence.says(Sign::Redirected) {
        say("acs", NAMED, "bridges redirect what devices send each other (ACSCtl, IOMMU)");
    }
    if evidence.says(Sign::Narrow) {
        say("topology", NAMED, "the topology has a link of 2.5 GT/s and one lane");
    }
    if evidence.says(Sign::DriverError) {
        say("slow-rank", NEAR, "the driver reported an error of a GPU (Xid)");
    }
    if evidence.says(Sign::Throttled) {
        say("clock", NAMED, "a GPU lowers its clocks");
        say("slow-rank", NEAR, "a GPU lowers its clocks");
    }
    all
}

/// A variable, which values count, for which cause with which command, how much, and whether here.
type Known<'a> =
    (&'static str, &'a dyn Fn(&str) -> bool, &'static str, Option<&'static str>, f64, bool);

/// What the environment forces.
fn variables(evidence: &Evidence, query: &Query) -> Vec<Clue> {
    let mut all = Vec::new();
    let several = query.placement.nodes() > 1;
    let off = |value: &str| matches!(value, "0" | "LOC");
    let on = |value: &str| value == "1";
    let any = |_: &str| true;
    let known: &[Known] = &[
        ("NCCL_P2P_DISABLE", &on, "setting", Some(P2P_NEXT), NAMED, !several),
        ("NCCL_P2P_LEVEL", &off, "setting", Some(P2P_NEXT), NAMED, !several),
        ("NCCL_ALGO", &any, "setting", Some(ALGO_NEXT), NAMED, true),
        ("NCCL_PROTO", &any, "setting", Some(PROTO_NEXT), NAMED, true),
        ("NCCL_NVLS_ENABLE", &off, "nvls-missing", None, NAMED, true),
        ("NCCL_NET_GDR_LEVEL", &off, "gdr-off", None, NAMED, several),
        ("NCCL_NET_GDR_READ", &off, "gdr-off", None, NEAR, several),
        ("NCCL_IB_DISABLE", &on, "tcp", None, NAMED, several),
        ("NCCL_IB_PCI_RELAXED_ORDERING", &off, "nic-setting", None, NEAR, several),
        ("NCCL_TOPO_FILE", &any, "topology", None, WEAK, true),
    ];
    for &(name, holds, id, next, ln, here) in known {
        if let Some(value) = evidence.variable(name).filter(|value| here && holds(value)) {
            all.push(Clue { id, next, ln, says: format!("{name} is {value}") });
        }
    }
    let sockets =
        evidence.variable("NCCL_NET").filter(|v| several && v.eq_ignore_ascii_case("socket"));
    all.extend(sockets.map(|v| Clue {
        id: "tcp",
        next: None,
        ln: NAMED,
        says: format!("NCCL_NET is {v}"),
    }));
    all
}

/// Over one node.
fn inside(evidence: &Evidence, query: &Query, all: &mut Vec<Clue>) {
    let pcie = query.machine.hardware.as_ref().is_none_or(|h| h.link == LinkKind::Pcie);
    let nvls = query.machine.hardware.as_ref().is_some_and(|h| h.nvls);
    let mut say = |id, next, ln, says: &str| all.push(Clue { id, next, ln, says: says.to_owned() });
    let p2p = Some(P2P_NEXT);
    match (evidence.says(Sign::Peer), evidence.says(Sign::Shared)) {
        (false, true) if !pcie => {
            say("setting", p2p, NAMED, "channels go through the host's memory")
        }
        (true, false) => {
            say("setting", p2p, -NAMED, "channels go from GPU to GPU");
            say("cpu", None, -WEAK, "channels go from GPU to GPU");
        }
        _ => {}
    }
    if evidence.says(Sign::PeerOff) {
        say("setting", p2p, NEAR, "the driver lets GPUs not reach each other");
        say("acs", None, NEAR, "the driver lets GPUs not reach each other");
    }
    if nvls && evidence.says(Sign::SumsOff) && !evidence.says(Sign::Sums) {
        say("nvls-missing", None, NAMED, "NVLS is not available");
    }
    if pcie && evidence.says(Sign::Downgraded) {
        say("pcie-degraded", None, NAMED, "a PCIe link is downgraded");
    }
}

/// Over several nodes.
fn between(evidence: &Evidence, query: &Query, all: &mut Vec<Clue>) {
    use NetworkKind::{Efa, Ib, Roce, Slingshot};
    let rdma = matches!(query.machine.network, Some(Ib | Roce | Efa | Slingshot));
    let mut say = |id, ln, says: String| all.push(Clue { id, next: None, ln, says });
    match (evidence.says(Sign::Socket), evidence.says(Sign::Network)) {
        (true, _) if rdma => say("tcp", NAMED, "channels go over sockets".to_owned()),
        (false, true) => say("tcp", -NAMED, "no channel goes over sockets".to_owned()),
        _ => {}
    }
    if rdma && evidence.says(Sign::NoDevice) {
        say("tcp", NEAR, "no device for RDMA was found".to_owned());
    }
    match (evidence.says(Sign::Direct), evidence.says(Sign::DirectOff)) {
        (false, true) => {
            say("gdr-off", NAMED, "no channel says GDRDMA".to_owned());
            // What a NIC does not read from a GPU no bridge redirects.
            say("acs", -NEAR, "no channel says GDRDMA".to_owned());
        }
        (true, false) => say("gdr-off", -NAMED, "every channel says GDRDMA".to_owned()),
        (true, true) => say("gdr-off", WEAK, "some channels do not say GDRDMA".to_owned()),
        _ => {}
    }
    if evidence.says(Sign::SmallFrames) {
        say("nic-setting", NEAR, "RDMA uses frames of 1500 bytes".to_owned());
    }
    if evidence.says(Sign::Downgraded) {
        say("bad-node", NEAR, "a PCIe link is downgraded".to_owned());
    }
    let nics = query.machine.fabric.tiers.last().and_then(|t| t.nics).map_or(1, |n| n.get());
    let named = evidence.variable("NCCL_IB_HCA").and_then(|list| Interfaces::read(list).devices());
    let few = named.into_iter().chain(evidence.found()).filter(|&n| n > 0 && n < nics).min();
    match (few, evidence.used()) {
        (Some(few), _) => {
            say("missing-nic", NAMED, format!("{few} of {nics} NICs are known to the library"))
        }
        (None, Some(used)) if used < nics => {
            say("missing-nic", NEAR, format!("channels use {used} of {nics} NICs"));
        }
        (None, Some(_)) => say("missing-nic", -NEAR, "channels use all NICs".to_owned()),
        _ => {}
    }
}

/// What a run that is healthy should know of them.
pub(super) fn notes(clues: &[Clue]) -> Vec<String> {
    let named = clues.iter().filter(|clue| clue.is_name() && clue.id != "clock");
    let one =
        |clue: &Clue| format!("the log says: {}; the times do not show `{}`", clue.says, clue.id);
    named.map(one).collect()
}
