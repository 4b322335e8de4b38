//! Evidence for and against causes from logs, variables and system tools.
//!
//! The weight of a clue is how much likelier it appears if its cause is true than if another is, as a
//! logarithm. Lines that name the mechanism itself (sockets, no GPUDirect, P2P off) appear nineteen times
//! in twenty with their cause and once in twenty without it; lines that only accompany it count less.
//! The likelihood decides whether the cause explains the times: a clue alone never makes a run ill.

use super::mechanism::{ALGO_NEXT, P2P_NEXT, PROTO_NEXT};
use crate::library::nccl::topology::Interfaces;
use crate::library::nccl::{Algo, Function, Proto, Settings};
use crate::machine::profile::{LinkKind, NetworkKind};
use crate::machine::query::Query;
use crate::measure::logs::{Evidence, Sign};
use crate::model::algorithm::RunBy;

/// The clue names the mechanism itself.
const NAMED: f64 = 3.0;
/// It usually accompanies the mechanism.
const NEAR: f64 = 2.0;
/// Healthy machines have it, too.
const WEAK: f64 = 1.0;

/// Evidence for a cause or against it.
pub(super) struct Clue {
    pub id: &'static str,
    /// If several causes share the id, only the one with this command is meant.
    pub next: Option<&'static str>,
    /// If it is about algorithms: those that may run.
    pub forces: Option<Vec<Algo>>,
    /// If it is about protocols: those that may not run.
    pub lacks: Option<Vec<Proto>>,
    /// Whether it is a variable that has its effect by definition, not a sign of one.
    pub set: bool,
    /// ln of how much likelier it is with the cause.
    pub ln: f64,
    /// The clue in a few words.
    pub says: String,
}

impl Clue {
    /// Whether it names the mechanism itself, as evidence for the cause.
    pub fn is_name(&self) -> bool {
        self.ln >= NAMED
    }

    /// Whether a variable sets the mechanism, and leaves no choice.
    pub fn is_set(&self) -> bool {
        self.set && self.is_name() && self.forces.as_ref().is_none_or(|all| all.len() == 1)
    }

    fn new(id: &'static str, next: Option<&'static str>, ln: f64, says: String) -> Self {
        Self { id, next, forces: None, lacks: None, set: false, ln, says }
    }
}

/// What a log must say for a cause to be possible.
pub(super) fn needed(id: &str) -> Option<Sign> {
    WAYS.iter().find(|way| way.id == id).map(|way| way.sign)
}

/// A way to measure that makes calls longer, and is no fault of the machine: a cause that needs a log's word for it.
pub(super) struct Way {
    pub sign: Sign,
    pub id: &'static str,
    /// What the log says.
    pub says: &'static str,
    /// What was done, and what shows how the machine is.
    pub how: &'static str,
    pub instead: &'static str,
}

pub(super) const WAYS: [Way; 2] = [
    Way {
        sign: Sign::OneThread,
        id: ONE_THREAD,
        says: "nGpus is above 1",
        how: "one thread started the calls of several GPUs (nGpus is above 1)",
        instead: "a run with a process a GPU",
    },
    Way {
        sign: Sign::OneByOne,
        id: "one-by-one",
        says: "all_reduce_bench.py times each call alone",
        how: "each call was timed alone, with its start by the host (all_reduce_bench.py)",
        instead: "all_reduce_perf of nccl-tests",
    },
];

const ONE_THREAD: &str = "one-thread";

/// The clues in `evidence` to causes on the machine of `query`, whose library runs the algorithms `usual` without
/// them.
pub(super) fn clues(
    evidence: &Evidence,
    (query, run_by): (&Query, RunBy),
    usual: &dyn Fn() -> Vec<String>,
) -> Vec<Clue> {
    if evidence.is_empty() {
        return Vec::new();
    }
    // MPI does not read NCCL's variables.
    let mut all = if run_by.is_mpi() { Vec::new() } else { variables(evidence, query, usual) };
    match query.placement.nodes() {
        1 => inside(evidence, query, &mut all),
        _ => between(evidence, query, &mut all),
    }
    let mut say = |id, ln, says: &str| all.push(Clue::new(id, None, ln, says.to_owned()));
    if evidence.says(Sign::Redirected) {
        say("acs", NAMED, "PCIe bridges redirect peer-to-peer traffic (ACSCtl, IOMMU)");
    }
    for way in WAYS.iter().filter(|way| evidence.says(way.sign)) {
        say(way.id, NAMED, way.says);
    }
    if evidence.says(Sign::Narrow) {
        say("topology", NAMED, "the topology has a link of 2.5 GT/s with one lane");
    }
    if evidence.says(Sign::DriverError) {
        say("slow-rank", NEAR, "the driver reported a GPU error (Xid)");
    }
    if evidence.says(Sign::Throttled) {
        say("clock", NAMED, "a GPU lowers its clocks");
        say("slow-rank", NEAR, "a GPU lowers its clocks");
    }
    all
}

/// A variable, the values that count, the cause, its command, the weight, and whether it applies here.
type Known<'a> =
    (&'static str, &'a dyn Fn(&str) -> bool, &'static str, Option<&'static str>, f64, bool);

/// Clues from settings in the environment.
fn variables(evidence: &Evidence, query: &Query, usual: &dyn Fn() -> Vec<String>) -> Vec<Clue> {
    let mut all = Vec::new();
    let several = query.placement.nodes() > 1;
    let verbs = matches!(query.machine.network, None | Some(NetworkKind::Ib | NetworkKind::Roce));
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
        // Plugins of other networks do not read it.
        ("NCCL_IB_DISABLE", &on, "tcp", None, NAMED, several && verbs),
        ("NCCL_IB_PCI_RELAXED_ORDERING", &off, "nic-setting", None, NEAR, several),
        ("NCCL_TOPO_FILE", &any, "topology", None, WEAK, true),
    ];
    for &(name, holds, id, next, ln, here) in known {
        if let Some(value) = evidence.variable(name).filter(|value| here && holds(value)) {
            let forces = (name == "NCCL_ALGO").then(|| allowed(value, query)).flatten();
            // A list of all that runs without it changes nothing.
            if forces.as_ref().is_some_and(|all| all.len() > 1 && holds_all(all, &usual())) {
                continue;
            }
            let lacks = (name == "NCCL_PROTO").then(|| left_out(value, query)).flatten();
            if lacks.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let says = format!("{name} is {value}");
            all.push(Clue { forces, lacks, set: true, ..Clue::new(id, next, ln, says) });
        }
    }
    let sockets =
        evidence.variable("NCCL_NET").filter(|v| several && v.eq_ignore_ascii_case("socket"));
    all.extend(
        sockets.map(|v| Clue {
            set: true,
            ..Clue::new("tcp", None, NAMED, format!("NCCL_NET is {v}"))
        }),
    );
    all
}

/// The algorithms that a value of `NCCL_ALGO` allows for the query's collective, if it is a list of NCCL's.
fn allowed(value: &str, query: &Query) -> Option<Vec<Algo>> {
    Settings::algorithms(value, Function::of(query.shape.collective)?).ok()
}

/// The protocols that a value of `NCCL_PROTO` leaves out for the query's collective, if it is a list of NCCL's.
fn left_out(value: &str, query: &Query) -> Option<Vec<Proto>> {
    let allowed = Settings::protocols(value, Function::of(query.shape.collective)?).ok()?;
    Some(Proto::ALL.into_iter().filter(|protocol| !allowed.contains(protocol)).collect())
}

/// Whether a list of algorithms has all that are `named`.
fn holds_all(list: &[Algo], named: &[String]) -> bool {
    named.iter().all(|name| Algo::named(name).is_ok_and(|algo| list.contains(&algo)))
}

/// Over one node.
fn inside(evidence: &Evidence, query: &Query, all: &mut Vec<Clue>) {
    let pcie = query.machine.hardware.as_ref().is_none_or(|h| h.link == LinkKind::Pcie);
    let nvls = query.machine.has_nvls();
    let mut say = |id, next, ln, says: &str| all.push(Clue::new(id, next, ln, says.to_owned()));
    let p2p = Some(P2P_NEXT);
    match (evidence.says(Sign::Peer), evidence.says(Sign::Shared)) {
        (false, true) if !pcie => say("setting", p2p, NAMED, "channels go through host memory"),
        (true, false) => {
            say("setting", p2p, -NAMED, "channels go from GPU to GPU");
            say("cpu", None, -WEAK, "channels go from GPU to GPU");
        }
        _ => {}
    }
    if evidence.says(Sign::PeerOff) {
        say("setting", p2p, NEAR, "the driver does not let GPUs access each other");
        say("acs", None, NEAR, "the driver does not let GPUs access each other");
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
    let mut say = |id, ln, says: String| all.push(Clue::new(id, None, ln, says));
    match (evidence.says(Sign::Socket), evidence.says(Sign::Network)) {
        (true, _) if rdma => say("tcp", NAMED, "channels go over sockets".to_owned()),
        (false, true) => say("tcp", -NAMED, "no channel goes over sockets".to_owned()),
        _ => {}
    }
    if rdma && evidence.says(Sign::NoDevice) {
        say("tcp", NEAR, "no RDMA device was found".to_owned());
    }
    match (evidence.says(Sign::Direct), evidence.says(Sign::DirectOff)) {
        (false, true) => {
            say("gdr-off", NAMED, "no channel says GDRDMA".to_owned());
            // Bridges cannot redirect reads that the NIC does not make from a GPU.
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
    let nics = of_a_host(query);
    let named = evidence.variable("NCCL_IB_HCA").and_then(|list| Interfaces::read(list).devices());
    let few = named.into_iter().chain(evidence.found()).filter(|&n| n > 0 && n < nics).min();
    match (few, evidence.used()) {
        (Some(few), _) => {
            say("missing-nic", NAMED, format!("the library knows {few} of {nics} NICs"))
        }
        (None, Some(used)) if used < nics => {
            say("missing-nic", NEAR, format!("channels use {used} of {nics} NICs"));
        }
        (None, Some(_)) => say("missing-nic", -NEAR, "channels use all NICs".to_owned()),
        _ => {}
    }
}

/// The NICs of a host: what its library and its variables count, also where a node is a rack of several hosts.
fn of_a_host(query: &Query) -> u32 {
    let nics = query.machine.fabric.tiers.last().and_then(|t| t.nics).map_or(1, |n| n.get());
    match query.machine.hardware.as_ref().filter(|hardware| hardware.is_rack()) {
        Some(rack) => (nics * rack.host() / rack.span).max(1),
        None => nics,
    }
}

/// Notes on the clues for a run that is not slow, except to causes that are listed.
pub(super) fn notes(clues: &[Clue], listed: &[&str]) -> Vec<String> {
    let named = clues.iter().filter(|clue| clue.is_name() && clue.id != "clock");
    let named = named.filter(|clue| !listed.contains(&clue.id));
    let one = |clue: &Clue| match clue.id {
        ONE_THREAD => format!("the log says: {}; the expected times have its starts", clue.says),
        id => format!("the log says: {}; the times do not show `{id}`", clue.says),
    };
    named.map(one).collect()
}
