//! The device's layer: how a call is split over nodes.
//!
//! Source: pmodels/mpich v4.2.3, `maint/tuning/coll/ch4/generic.json`, `posix_generic.json`,
//! `src/mpid/ch4/src/ch4_coll_impl.h`, and the same of v4.0.3.

use crate::base::collective::Collective as C;
use crate::library::mpich::rules::Version;
use crate::library::{Call, Flavour, Operation, Where};

/// Bytes of the thresholds of the broadcast.
pub(super) const SHORT: u64 = 12_288;
pub(super) const LONG: u64 = 524_288;
/// Bytes up to which a reduce is short.
pub(super) const SHORT_REDUCE: u64 = 2048;

/// How the device runs a call over nodes.
pub(super) struct Composition {
    /// MPICH's number: 1 is alpha.
    pub number: u32,
    pub rule: String,
    pub parts: Vec<(C, Where)>,
}

/// The number of the composition that runs one algorithm over all ranks.
pub(super) fn flat(operation: Operation, version: Version) -> u32 {
    match (operation.collective, operation.flavour) {
        (C::Broadcast | C::Reduce, _) => 3,
        (C::AllReduce | C::Barrier, _) => 2,
        // 4.1 put those with several leaders first.
        (C::AllToAll | C::AllGather, Flavour::Plain) if version == Version::V4_1 => 2,
        _ => 1,
    }
}

/// Whether a variable, `MPIR_CVAR_*_COMPOSITION`, chooses the composition of an operation: in
/// `src/mpid/ch4/src/ch4_coll.h` of v4.1 to v5.0.1 these have one, in v4.0.3 none.
pub(super) fn has_variable(operation: Operation, version: Version) -> bool {
    use C::{AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce};
    let with = [AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce];
    let plain = operation.flavour == Flavour::Plain;
    version == Version::V4_1 && plain && with.contains(&operation.collective)
}

/// The device's tree.
pub(super) fn composition(call: &Call, version: Version) -> Composition {
    let (bytes, ranks) = (call.size.0, call.ranks);
    let several = call.nodes > 1;
    let nodes = if several { "several nodes" } else { "one node" };
    // A communicator has node communicators only if nodes have several of its ranks: that of one node,
    // too (`MPIR_Comm_create_subcomms` in src/mpi/comm/commutil.c).
    let tiered = call.per_node() > 1;
    let flat = |rule: &str| Composition {
        number: flat(call.operation(), version),
        rule: rule.to_owned(),
        parts: vec![(call.collective, Where::All)],
    };
    let tiers = |number, rule: String, parts: &[(C, Where)]| {
        let takes_part = |(_, place): &&(C, Where)| several || *place != Where::Leaders;
        Composition { number, rule, parts: parts.iter().filter(takes_part).copied().collect() }
    };
    match call.collective {
        C::AllReduce if !several => Composition {
            number: 3,
            rule: "all ranks on one node".to_owned(),
            parts: vec![(C::AllReduce, Where::InNode)],
        },
        C::AllReduce if tiered && call.commutative => tiers(
            1,
            format!("{nodes} with several ranks, commutative, any size"),
            &[
                (C::Reduce, Where::InNode),
                (C::AllReduce, Where::Leaders),
                (C::Broadcast, Where::InNode),
            ],
        ),
        C::AllReduce => flat("one rank per node, or an operation that does not commute"),
        C::Reduce if tiered && call.commutative => {
            let short = bytes <= SHORT_REDUCE;
            let (number, what) = if short { (2, "at most") } else { (1, "above") };
            let inside = (C::Reduce, Where::InNode);
            let mut parts = vec![inside, (C::Reduce, Where::Leaders)];
            let mut rule = format!("{nodes} with several ranks, {what} {SHORT_REDUCE} bytes");
            // Between the leaders, that of the root's node gives its own data alone.
            if short && several {
                parts.push(inside);
                rule.push_str(", the root's node last");
            }
            tiers(number, rule, &parts)
        }
        C::Reduce => flat("no nodes with several ranks, or does not commute"),
        C::Broadcast if tiered => {
            let power = ranks.is_power_of_two();
            let parts = [(C::Broadcast, Where::Leaders), (C::Broadcast, Where::InNode)];
            if ranks < 8 {
                tiers(1, format!("{nodes}, below 8 ranks"), &parts)
            } else if bytes < SHORT {
                tiers(1, format!("{nodes}, below {SHORT} bytes"), &parts)
            } else if power && bytes < LONG {
                tiers(2, format!("{nodes}, a power of two, below {LONG} bytes"), &parts)
            } else {
                flat(&format!("{nodes}, larger"))
            }
        }
        C::Broadcast => flat("no nodes with several ranks"),
        C::Barrier if tiered => tiers(
            1,
            format!("{nodes} with several ranks"),
            &[
                (C::Barrier, Where::InNode),
                (C::Barrier, Where::Leaders),
                (C::Broadcast, Where::InNode),
            ],
        ),
        C::Barrier => flat("no nodes with several ranks"),
        _ => flat("any communicator"),
    }
}

/// Whether the device hands a call to the rules for messages as it is, over all its ranks.
pub(super) fn is_whole(call: &Call, version: Version) -> bool {
    composition(call, version).parts.iter().any(|&(_, place)| place == Where::All)
}

/// Whether a node's shared memory does this part without messages.
pub(super) fn in_shared_memory(collective: C, call: &Call) -> bool {
    match collective {
        C::Broadcast | C::Barrier => true,
        C::AllReduce | C::Reduce => call.commutative,
        _ => false,
    }
}
