//! Which cells of the table may run.

use super::communicator::{Communicator, PathType};
use super::settings::Enabled;
use super::table::Table;
use super::tuner::Tuner;
use super::{Algo, Function, Proto, Version};

/// Whether a version implements the function by the algorithm.
pub(super) fn has_code(version: Version, function: Function, algo: Algo) -> bool {
    match function {
        Function::Broadcast | Function::Reduce => algo == Algo::Ring,
        Function::AllGather | Function::ReduceScatter => match algo {
            Algo::Ring => true,
            Algo::Nvls | Algo::CollNetDirect => version >= Version::V2_21,
            Algo::Pat => version.is_new(),
            _ => false,
        },
        Function::AllReduce => algo != Algo::Pat,
    }
}

/// Whether an algorithm runs in other protocols than Simple.
pub(super) fn has_protocols(algo: Algo) -> bool {
    matches!(algo, Algo::Tree | Algo::Ring)
}

impl Tuner<'_> {
    /// Takes the bandwidth from every cell that may not run.
    pub fn forbid(&self, mut enabled: Enabled, table: &mut Table) {
        for algos in &mut enabled.algos {
            self.forbid_algos(algos);
        }
        for function in Function::ALL {
            let f = function as usize;
            for algo in Algo::ALL {
                // 2.18 has no check of its own for what only rings can do.
                let always = self.version == Version::V2_18
                    && algo == Algo::Ring
                    && function != Function::AllReduce;
                let on = always || enabled.algos[f][algo as usize];
                for proto in Proto::ALL {
                    let on = on
                        && enabled.protos[f][proto as usize].unwrap_or_else(|| self.trusts(algo));
                    if !on {
                        table.bandwidth[f][algo as usize][proto as usize] = 0.0;
                    }
                }
            }
            let none = table.bandwidth[f].as_flattened().iter().all(|&b| b == 0.0);
            if none && self.version == Version::V2_21 {
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
        if self.version >= Version::V2_30 && !collnet_chain {
            off(Algo::CollNetChain);
        }
        let left = [Algo::Ring, Algo::Tree, Algo::Nvls, Algo::NvlsTree];
        if !self.version.is_new() && !collnet && left.iter().all(|&a| !on[a as usize]) {
            on[Algo::Ring as usize] = true;
            on[Algo::Tree as usize] = true;
        }
    }

    /// Whether LL128 is safe on an algorithm's links and GPUs.
    fn trusts(&self, algo: Algo) -> bool {
        let Communicator { min_cc, max_cc, .. } = *self.comm;
        let alike = min_cc == max_cc || (self.version >= Version::V2_30 && min_cc >= 90);
        let known =
            if self.version.is_new() { min_cc >= 70 } else { matches!(min_cc, 70 | 80 | 90) };
        alike && known && self.trusts_paths(algo)
    }

    pub fn trusts_paths(&self, algo: Algo) -> bool {
        let graph = self.comm.graph(algo);
        let within =
            |path: PathType, limit: PathType| path.rank(self.version) <= limit.rank(self.version);
        let hopper = self.comm.min_cc >= 90;
        let far = match self.version {
            Version::V2_18 | Version::V2_21 if hopper => PathType::Pxn,
            Version::V2_27 if hopper && self.settings.ll128_over_c2c() => PathType::P2c,
            Version::V2_27 if hopper => PathType::Pxn,
            Version::V2_30 if hopper && self.settings.ll128_over_c2c() => PathType::Pxn,
            _ => PathType::Pxb,
        };
        within(graph.type_intra, PathType::Nvb) && within(graph.type_inter, far)
    }
}
