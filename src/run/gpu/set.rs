//! NCCL settings of a process, and its environment.

use std::fmt;

use super::nccl::Release;
use crate::base::collective::Collective;
use crate::library::nccl::{Algo, Function, Proto};
use crate::machine::sample::{Chosen, DataType};

/// An algorithm and protocol forced on NCCL, or none: then NCCL chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set {
    /// The forced algorithm and protocol.
    pub told: Option<Chosen>,
}

const fn told(algo: Algo, proto: Proto) -> Set {
    Set { told: Some(Chosen { algo, proto }) }
}

impl Set {
    /// NCCL's own choice.
    pub const AUTO: Self = Self { told: None };

    /// All of them; the number of a set is its index.
    pub const ALL: &[Self] = &[
        Self::AUTO,
        told(Algo::Ring, Proto::Ll),
        told(Algo::Ring, Proto::Ll128),
        told(Algo::Ring, Proto::Simple),
        told(Algo::Tree, Proto::Ll),
        told(Algo::Tree, Proto::Ll128),
        told(Algo::Tree, Proto::Simple),
        told(Algo::Nvls, Proto::Simple),
        told(Algo::NvlsTree, Proto::Simple),
        told(Algo::Pat, Proto::Simple),
    ];

    /// Its index among all sets.
    pub(super) fn number(self) -> usize {
        Self::ALL.iter().position(|known| *known == self).unwrap_or(0)
    }

    /// The functions that it is forced for.
    fn functions(self) -> &'static [Function] {
        use Function as F;
        match self.told.map(|told| told.algo) {
            None | Some(Algo::Ring) => &Function::ALL,
            Some(Algo::Nvls) => &[F::AllGather, F::ReduceScatter, F::AllReduce],
            Some(Algo::Pat) => &[F::AllGather, F::ReduceScatter],
            _ => &[F::AllReduce],
        }
    }

    /// Whether this set measures `collective` of `dtype`. Forced settings are fitted, so only
    /// fitted types are measured; NCCL's own choice is recorded unchanged, for other types and
    /// messages too.
    #[must_use]
    pub fn takes(self, collective: Collective, dtype: DataType) -> bool {
        let Some(function) = Function::of(collective) else { return self.told.is_none() };
        match self.told {
            None => true,
            Some(_) => dtype == DataType::F32 && self.functions().contains(&function),
        }
    }

    /// Whether NCCL of this version may support it: rings and trees always, in-network algorithms
    /// if its own table has a bandwidth for them, PAT only with one rank per node.
    #[must_use]
    pub fn is_possible(self, version: Release, ranks: u32, nodes: u32, table: &[Chosen]) -> bool {
        match self.told {
            None => true,
            Some(Chosen { algo: Algo::Ring | Algo::Tree, .. }) => true,
            Some(Chosen { algo: Algo::Pat, .. }) => version.has(23) && ranks > 1 && ranks == nodes,
            Some(told) => table.contains(&told),
        }
    }

    /// The variables that force it, and those that make NCCL log what it does. In a graph NCCL
    /// would register buffers on its own, which it does not do for calls outside.
    pub(super) fn variables(self, log: &str, registered: bool) -> Variables {
        let mut all = vec![
            ("NCCL_DEBUG".to_owned(), "INFO".to_owned()),
            ("NCCL_DEBUG_SUBSYS".to_owned(), "INIT,TUNING,ENV".to_owned()),
            ("NCCL_DEBUG_FILE".to_owned(), log.to_owned()),
        ];
        if !registered {
            all.push(("NCCL_GRAPH_REGISTER".to_owned(), "0".to_owned()));
        }
        if let Some(told) = self.told {
            all.push(("NCCL_ALGO".to_owned(), told.algo.name().to_owned()));
            all.push(("NCCL_PROTO".to_owned(), told.proto.name().to_owned()));
        }
        all
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.told {
            Some(told) => told.fmt(f),
            None => f.write_str("auto"),
        }
    }
}

/// NCCL settings that describe a site's wiring and do not affect NCCL's choices.
pub const ALLOWED: &[&str] = &[
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_FAMILY",
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_CROSS_NIC",
    "NCCL_TOPO_FILE",
    "NCCL_NVLS_ENABLE",
    "NCCL_MAX_CTAS",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_HOSTID",
];

/// Variables of an environment, each with its value.
pub type Variables = Vec<(String, String)>;

/// The environment without NCCL's settings, except those that are allowed. The allowed settings
/// come second, to be recorded.
#[must_use]
pub fn kept(environment: impl Iterator<Item = (String, String)>) -> (Variables, Variables) {
    let is_nccl = |(name, _): &(String, String)| name.starts_with("NCCL_");
    let (own, others): (Vec<_>, Vec<_>) = environment.partition(is_nccl);
    let allowed = own.into_iter().filter(|(name, _)| ALLOWED.contains(&name.as_str()));
    let mut allowed: Vec<_> = allowed.collect();
    allowed.sort();
    (others, allowed)
}

/// Settings for ranks that share a GPU: NCCL treats each as a separate host and sends through the
/// network interface to itself; no switch adds for two ranks of one GPU.
#[must_use]
pub fn shared() -> Variables {
    let all = [("NCCL_NVLS_ENABLE", "0"), ("NCCL_SOCKET_IFNAME", "lo"), ("NCCL_IB_DISABLE", "1")];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// The host id of a process that NCCL should treat as a separate host.
pub(super) fn host_id(process: usize) -> (String, String) {
    ("NCCL_HOSTID".to_owned(), format!("collcost-{}-{process}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ncclss_settings_only_the_wiring_is_kept() {
        let given = [
            ("PATH", "/bin"),
            ("NCCL_ALGO", "Ring"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("NCCL_DEBUG", "TRACE"),
            ("NCCL_CONF_FILE", "/tmp/x"),
        ];
        let (others, allowed) = kept(given.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())));
        assert_eq!(others, [("PATH".to_owned(), "/bin".to_owned())]);
        assert_eq!(allowed, [("NCCL_SOCKET_IFNAME".to_owned(), "eth0".to_owned())]);
    }

    #[test]
    fn what_needs_a_switch_or_one_rank_a_node_waits_for_it() {
        let version = Release::of(22_703);
        let nvls = told(Algo::Nvls, Proto::Simple);
        let pat = told(Algo::Pat, Proto::Simple);
        let possible = |set: Set, ranks, nodes, table: &[Chosen]| {
            set.is_possible(version, ranks, nodes, table)
        };
        assert!(!possible(nvls, 8, 1, &[]) && possible(nvls, 8, 1, &[nvls.told.unwrap()]));
        assert!(!possible(pat, 8, 1, &[]) && possible(pat, 4, 4, &[]));
        assert!(!pat.is_possible(Release::of(22_105), 4, 4, &[]));
        assert!(possible(told(Algo::Tree, Proto::Ll), 2, 1, &[]));
    }

    #[test]
    fn versions_of_both_kinds() {
        let shown = |code| Release::of(code).to_string();
        assert_eq!([shown(2708), shown(21_803), shown(23_007)], ["2.7.8", "2.18.3", "2.30.7"]);
        assert!(Release::of(23_000).has(30) && !Release::of(22_999).has(30));
    }
}
