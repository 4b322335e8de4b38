//! Which kind of library ran a benchmark.

use super::Table;

/// The kind of library that ran collectives, and where their buffers were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunBy {
    /// NCCL, or kernels for the same GPUs beside it.
    Nccl,
    /// A library of other accelerators: RCCL, oneCCL, HCCL.
    Other,
    /// MPI on buffers of GPUs.
    GpuMpi,
    /// MPI or Gloo on buffers of hosts.
    Hosts,
}

impl RunBy {
    /// By the beginning of a library's name.
    fn named(library: &str) -> Option<Self> {
        let name = library.to_ascii_lowercase();
        let begins = |names: &[&str]| names.iter().any(|n| name.starts_with(n));
        match () {
            () if begins(&["nccl"]) => Some(Self::Nccl),
            () if begins(&["rccl", "oneccl", "hccl", "neuron"]) => Some(Self::Other),
            // OSU's titles say on which buffers.
            () if begins(&["mpi-"]) => Some(Self::GpuMpi),
            () if begins(&[
                "mpi", "openmpi", "open mpi", "intel", "mvapich", "gloo", "simgrid",
            ]) =>
            {
                Some(Self::Hosts)
            }
            () => None,
        }
    }

    /// In a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Nccl => "NCCL",
            Self::Other => "a library of other accelerators",
            Self::GpuMpi => "MPI on GPU buffers",
            Self::Hosts => "MPI or Gloo on host buffers",
        }
    }

    /// Whether it is MPI or Gloo, whose causes are not those of NCCL.
    #[must_use]
    pub fn is_mpi(self) -> bool {
        matches!(self, Self::GpuMpi | Self::Hosts)
    }
}

impl Table {
    /// The kind of library that ran it, if the log or its format says it.
    #[must_use]
    pub fn run_by(&self) -> Option<RunBy> {
        match self.format {
            "imb" | "gloo" => Some(RunBy::Hosts),
            _ => self.library.as_deref().and_then(RunBy::named),
        }
    }
}
