//! Which cells of the table may run.

use super::communicator::{Communicator, PathType};
use super::settings::{Enabled, Settings};
use super::table::Table;
use super::tuner::Tuner;
use super::{Algo, Function, Proto, Version, since};

/// Whether a version implements the function by the algorithm.
pub(super) fn has_code(version: Version, function: Function, algo: Algo) -> bool {
    match function {
        Function::Broadcast | Function::Reduce => algo == Algo::Ring,
        Function::AllGather | Function::ReduceScatter => match algo {
            Algo::Ring => true,
            Algo::Nvls => version.has(since::NVLS_STEPS),
            Algo::CollNetDirect => version.has(since::DIRECT_GATHERS),
            Algo::Pat => version.has(since::PAT),
            _ => false,
        },
        Function::AllReduce => algo != Algo::Pat,
    }
}

/// Whether an algorithm also runs in protocols other than Simple.
pub(super) fn has_protocols(algo: Algo) -> bool {
    matches!(algo, Algo::Tree | Algo::Ring)
}

impl Tuner<'_> {
    /// Sets the bandwidth of every cell that may not run to zero.
    pub fn forbid(&self, mut enabled: Enabled, table: &mut Table) {
        for algos in &mut enabled.algos {
            self.forbid_algos(algos);
        }
        for function in Function::ALL {
            let f = function as usize;
            for algo in Algo::ALL {
                // 2.18 does not check functions that only rings can run.
                let always = self.version.has(since::RING_STAYS)
                    && algo == Algo::Ring
                    && function != Function::AllReduce;
                let on = always || enabled.algos[f][algo as usize];
                let trusted = || trusts_ll128(self.comm, self.version, self.settings, algo);
                for proto in Proto::ALL {
                    let p = proto as usize;
                    let may = enabled.protos[f][p].unwrap_or_else(trusted);
                    if !(on && may) {
                        table.bandwidth[f][algo as usize][p] = 0.0;
                    }
                    if algo == Algo::Ring && !may && self.version.has(since::RING_BACKUP_PROTOCOLS)
                    {
                        table.backup[f][p] = 0.0;
                    }
                }
            }
            let none = table.bandwidth[f].as_flattened().iter().all(|&b| b == 0.0);
            if none && self.version.has(since::RING_BACKUP) {
                table.bandwidth[f][Algo::Ring as usize] = table.backup[f];
            }
        }
    }

    fn forbid_algos(&self, on: &mut [bool; 7]) {
        let Communicator { nodes, collnet, nvswitch, collnet_chain, .. } = *self.comm;
        let mut off = |algo: Algo| on[algo as usize] = false;
        if nodes == 1 {
            off(Algo::NvlsTree);
        }
        if !collnet {
            off(Algo::CollNetDirect);
            off(Algo::CollNetChain);
            if nodes > 1 {
                off(Algo::Nvls);
            }
        }
        if !nvswitch {
            off(Algo::CollNetDirect);
        }
        if self.version.has(since::ASKS_CHAIN) && !collnet_chain {
            off(Algo::CollNetChain);
        }
        let left = [Algo::Ring, Algo::Tree, Algo::Nvls, Algo::NvlsTree];
        let back = self.version.has(since::RING_AND_TREE_BACK);
        if back && !collnet && left.iter().all(|&a| !on[a as usize]) {
            on[Algo::Ring as usize] = true;
            on[Algo::Tree as usize] = true;
        }
    }
}

/// Whether LL128 is safe on an algorithm's links and GPUs.
pub(super) fn trusts_ll128(
    comm: &Communicator,
    version: Version,
    settings: &Settings,
    algo: Algo,
) -> bool {
    let Communicator { min_cc, max_cc, .. } = *comm;
    let has = |rule| version.has(rule);
    let alike = min_cc == max_cc || (has(since::LL128_MIXED_GPUS) && min_cc >= 90);
    let known = match min_cc {
        _ if has(since::LL128_ALL_GPUS) => min_cc >= 70,
        70 | 80 | 90 => true,
        100 | 120 => has(since::LL128_BLACKWELL),
        _ => false,
    };
    alike && known && trusts_paths(comm, version, settings, algo)
}

/// Whether LL128 would be safe on an algorithm's links, with any GPUs.
pub(super) fn trusts_paths(
    comm: &Communicator,
    version: Version,
    settings: &Settings,
    algo: Algo,
) -> bool {
    let graph = comm.graph(algo);
    let within = |path: PathType, limit: PathType| path.rank(version) <= limit.rank(version);
    let has = |rule| version.has(rule);
    let over_c2c = has(since::LL128_C2C) && settings.ll128_over_c2c();
    // The farther of another GPU's NIC and a NIC behind a processor with a chip-to-chip link.
    let far = match comm.min_cc >= 90 {
        true if over_c2c && !has(since::P2C_BEFORE_PXN) => PathType::P2c,
        true if over_c2c || !has(since::P2C_BEFORE_PXN) => PathType::Pxn,
        _ => PathType::Pxb,
    };
    let near = if has(since::LL128_NVB) { PathType::Nvb } else { PathType::Nvl };
    within(graph.type_intra, near) && within(graph.type_inter, far)
}
