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

/// How names of libraries begin; the first that fits counts. OSU's titles say on which buffers: `MPI-CUDA`.
const LIBRARIES: [(&str, RunBy); 13] = [
    ("nccl", RunBy::Nccl),
    ("rccl", RunBy::Other),
    ("oneccl", RunBy::Other),
    ("hccl", RunBy::Other),
    ("neuron", RunBy::Other),
    ("mpi-", RunBy::GpuMpi),
    ("mpi", RunBy::Hosts),
    ("openmpi", RunBy::Hosts),
    ("open mpi", RunBy::Hosts),
    ("intel", RunBy::Hosts),
    ("mvapich", RunBy::Hosts),
    ("gloo", RunBy::Hosts),
    ("simgrid", RunBy::Hosts),
];

impl RunBy {
    fn named(library: &str) -> Option<Self> {
        let name = library.to_ascii_lowercase();
        LIBRARIES.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, by)| *by)
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
