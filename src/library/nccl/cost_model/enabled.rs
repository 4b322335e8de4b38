//! The candidates that a job's environment enables.

use super::super::settings::{Settings, lists};
use super::super::{Algo, Function, Proto, Version, since};
use super::{Candidate, Kernel};
use crate::base::error::Result;

/// Which candidates a job may use, by function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Enabled {
    algos: [[bool; 7]; 5],
    /// `None`: NCCL's own rules decide.
    protos: [[Option<bool>; 3]; 5],
    kernels: [[bool; 18]; 5],
    /// Whether a list names a candidate for the function.
    pub forced: [bool; 5],
}

impl Enabled {
    /// The candidates that the lists leave.
    ///
    /// # Errors
    /// A list that NCCL refuses, so that no communicator starts.
    pub fn of(settings: &Settings, version: Version) -> Result<Self> {
        if !version.has(since::COST_MODELS) {
            return Ok(Self::one_kernel(settings, version));
        }
        let (algo, proto) = settings.lists();
        let kernels = settings.listed_kernels();
        // One of these lists first disables everything. Therefore a list of algorithms leaves no
        // kernel, and a list of kernels no algorithm.
        let all = algo.is_none() && kernels.is_none();
        let mut enabled = Self {
            algos: [[all; 7]; 5],
            protos: [[Some(true), None, Some(true)]; 5],
            kernels: [[all; 18]; 5],
            forced: [false; 5],
        };
        let rows =
            |variable: &str, text: &str, names: &[&str]| lists(version, variable, text, names);
        if let Some(text) = algo {
            for (f, on) in rows("NCCL_ALGO", text, &Algo::ALL.map(Algo::name))? {
                enabled.algos[f].copy_from_slice(&on);
                enabled.forced[f] = true;
            }
        }
        if let Some(text) = proto {
            for (f, on) in rows("NCCL_PROTO", text, &Proto::ALL.map(Proto::name))? {
                enabled.protos[f] = [Some(on[0]), Some(on[1]), Some(on[2])];
                enabled.forced[f] = true;
            }
        }
        if let Some(text) = kernels {
            for (f, on) in
                rows("NCCL_SYM_KERNEL", text, &Kernel::ALL.map(|kernel| kernel.name(version)))?
            {
                enabled.kernels[f].copy_from_slice(&on);
                enabled.forced[f] = true;
            }
        }
        Ok(enabled)
    }

    /// The kernels left before 2.31, where kernels are chosen separately from algorithms: the named
    /// one, or all; an empty name is none's.
    fn one_kernel(settings: &Settings, version: Version) -> Self {
        let named = settings.kernels().filter(|&name| name != "^");
        let row = Kernel::ALL.map(|kernel| named.is_none_or(|name| name == kernel.name(version)));
        Self {
            algos: [[true; 7]; 5],
            protos: [[Some(true), None, Some(true)]; 5],
            kernels: [row; 5],
            forced: [named.is_some(); 5],
        }
    }

    /// Whether the lists leave a candidate for a function.
    pub fn has(&self, function: Function, candidate: Candidate) -> bool {
        let f = function as usize;
        !self.forced[f]
            || match candidate {
                Candidate::General(algo, proto) => {
                    self.algos[f][algo as usize] && self.protos[f][proto as usize] != Some(false)
                }
                Candidate::Symmetric(kernel) => self.kernels[f][kernel as usize],
                Candidate::Copied(_) => true,
            }
    }

    /// Whether a list enables LL128, so that its paths are no longer checked.
    pub fn insists_on_ll128(&self, function: Function) -> bool {
        self.protos[function as usize][Proto::Ll128 as usize] == Some(true)
    }
}
