//! Libraries of collectives: those whose algorithms are here, and every name by which others are known.

use std::fmt;

/// A communication library that ships algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Library {
    /// NVIDIA's NCCL.
    Nccl,
    /// AMD's RCCL: NCCL's rings and trees, with a tuner and kernels of its own.
    Rccl,
    /// Open MPI's `coll` components.
    OpenMpi,
    /// MPICH and its descendants.
    Mpich,
    /// Gloo.
    Gloo,
}

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

/// A name of a library, or how its names begin.
struct Name {
    /// In small letters, without spaces.
    begins: &'static str,
    printed: &'static str,
    /// `None` where it may be any.
    by: Option<RunBy>,
    /// Whether the evidence of what calls take has calls of it, or, of a library of hosts, of MPI.
    learned: bool,
}

const fn name(begins: &'static str, printed: &'static str, by: RunBy, learned: bool) -> Name {
    Name { begins, printed, by: Some(by), learned }
}

/// The id of a library of MPI of which no more is known.
pub const MPI: &str = "mpi";

/// The same with buffers of GPUs, of which hosts say nothing.
pub const GPU_MPI: &str = "gpumpi";

/// The first that fits counts. MSCCL is NCCL with schedules of its own. OSU's titles say on which buffers:
/// `MPI-CUDA`.
const NAMES: &[Name] = &[
    name("nccl", "NCCL", RunBy::Nccl, true),
    name("mscclpp", "MSCCL++", RunBy::Nccl, true),
    name("msccl", "MSCCL", RunBy::Nccl, true),
    name("rccl", "RCCL", RunBy::Other, true),
    name("oneccl", "oneCCL", RunBy::Other, true),
    name("hccl", "HCCL", RunBy::Other, false),
    name("neuron", "Neuron", RunBy::Other, false),
    Name { begins: "ucc", printed: "UCC", by: None, learned: false },
    name(GPU_MPI, "MPI on GPUs", RunBy::GpuMpi, false),
    name("mpi-", "MPI on GPUs", RunBy::GpuMpi, false),
    name("mpich", "MPICH", RunBy::Hosts, true),
    name("openmpi", "Open MPI", RunBy::Hosts, true),
    name("ompi", "Open MPI", RunBy::Hosts, true),
    name("hpcx", "HPC-X", RunBy::Hosts, true),
    name("hpc-x", "HPC-X", RunBy::Hosts, true),
    name("mvapich2", "MVAPICH2", RunBy::Hosts, true),
    name("mvapich", "MVAPICH", RunBy::Hosts, true),
    name("intelmpi", "Intel MPI", RunBy::Hosts, true),
    name("intel", "Intel MPI", RunBy::Hosts, true),
    name("impi", "Intel MPI", RunBy::Hosts, true),
    name("craympich", "Cray MPICH", RunBy::Hosts, true),
    name("cray-mpich", "Cray MPICH", RunBy::Hosts, true),
    name("hcoll", "HCOLL", RunBy::Hosts, false),
    name(MPI, "MPI", RunBy::Hosts, true),
    name("gloo", "Gloo", RunBy::Hosts, false),
    name("simgrid", "SimGrid", RunBy::Hosts, false),
];

/// What is known of a library that a log, a profile or a person calls `library`.
fn known(library: &str) -> Option<&'static Name> {
    let plain: String =
        library.chars().filter(|c| *c != ' ').map(|c| c.to_ascii_lowercase()).collect();
    NAMES.iter().find(|name| plain.starts_with(name.begins))
}

impl Library {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Nccl, Self::Rccl, Self::OpenMpi, Self::Mpich, Self::Gloo];

    /// The name on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Nccl => "nccl",
            Self::Rccl => "rccl",
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::Gloo => "gloo",
        }
    }

    /// The library with this id.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|l| l.id() == id)
    }

    /// Whether it is NCCL or a build that connects ranks the way NCCL does.
    #[must_use]
    pub fn connects_as_nccl(self) -> bool {
        matches!(self, Self::Nccl | Self::Rccl)
    }

    /// How the library with this id is written, also if its rules are not known here: its id is no slip in
    /// another's.
    #[must_use]
    pub(crate) fn printed(id: &str) -> Option<&'static str> {
        NAMES.iter().find(|name| name.begins == id).map(|name| name.printed)
    }

    /// Whether an id is that of a library of MPI between hosts.
    #[must_use]
    pub(crate) fn is_mpi(id: &str) -> bool {
        known(id).is_some_and(|name| name.learned && name.by == Some(RunBy::Hosts))
    }

    /// Whether an id is that of a library of GPUs whose calls the evidence of expectations is of. The others run
    /// neither their kernels nor their algorithms.
    #[must_use]
    pub(crate) fn is_learned_on_gpus(id: &str) -> bool {
        known(id).is_some_and(|name| name.learned && name.by != Some(RunBy::Hosts))
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::printed(self.id()).unwrap_or(self.id()))
    }
}

impl RunBy {
    /// The kind of a library by its name in a log.
    #[must_use]
    pub(crate) fn named(library: &str) -> Option<Self> {
        known(library)?.by
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_kernels_run() {
        let kind = |name: &str| (RunBy::named(name), Library::is_mpi(name));
        assert_eq!(kind("Open MPI 5.0"), (Some(RunBy::Hosts), true));
        assert_eq!(kind("MPI-CUDA"), (Some(RunBy::GpuMpi), false));
        assert_eq!(kind("Intel(R) MPI Library 2021.9"), (Some(RunBy::Hosts), true));
        assert_eq!(kind("Gloo 0.5"), (Some(RunBy::Hosts), false));
        assert_eq!(kind("MSCCL++ kernel 4"), (Some(RunBy::Nccl), false));
        assert_eq!(kind("ucc"), (None, false));
        let learned = |id: &str| Library::is_learned_on_gpus(id);
        assert!(learned("mscclpp") && learned("rccl") && !learned("hccl") && !learned("mpich"));
    }

    #[test]
    fn every_library_has_a_name() {
        for library in Library::ALL {
            assert_eq!(Library::named(library.id()), Some(*library));
            assert!(Library::printed(library.id()).is_some(), "{library:?}");
        }
        assert_eq!(Library::OpenMpi.to_string(), "Open MPI");
    }
}
