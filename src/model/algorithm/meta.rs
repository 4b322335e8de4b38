//! What an algorithm declares about itself.

use std::borrow::Cow;
use std::fmt;

use crate::base::collective::Collective;

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

impl Library {
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

    /// All of them.
    pub const ALL: &[Self] = &[Self::Nccl, Self::Rccl, Self::OpenMpi, Self::Mpich, Self::Gloo];

    /// Whether it is NCCL or a build that connects ranks the way NCCL does.
    #[must_use]
    pub fn connects_as_nccl(self) -> bool {
        matches!(self, Self::Nccl | Self::Rccl)
    }

    /// The library with this id.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|l| l.id() == id)
    }
}

/// Libraries of which no rules are known here, by their ids: their names are no slips in one of the others'.
const OTHERS: &[(&str, &str)] = &[
    (MPI, "MPI"),
    (GPU_MPI, "MPI on GPUs"),
    ("hccl", "HCCL"),
    ("oneccl", "oneCCL"),
    ("mvapich", "MVAPICH"),
    ("mvapich2", "MVAPICH2"),
    ("intelmpi", "Intel MPI"),
    ("impi", "Intel MPI"),
    ("craympich", "Cray MPICH"),
    ("ucc", "UCC"),
    ("msccl", "MSCCL"),
    ("mscclpp", "MSCCL++"),
];

/// The id of a library of MPI of which no more is known.
pub const MPI: &str = "mpi";

/// The same with buffers of GPUs, of which hosts say nothing.
pub const GPU_MPI: &str = "gpumpi";

/// The ids of libraries of MPI begin like this.
const OF_MPI: [&str; 7] = ["openmpi", "ompi", "hpcx", MPI, "mvapich", "impi", "intelmpi"];

impl Library {
    /// Whether an id is that of a library of MPI.
    #[must_use]
    pub(crate) fn is_mpi(id: &str) -> bool {
        id == "craympich" || OF_MPI.iter().any(|of| id.starts_with(of))
    }

    /// The name of another library, whose rules are not known here.
    #[must_use]
    pub(crate) fn other(id: &str) -> Option<&'static str> {
        OTHERS.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nccl => "NCCL",
            Self::Rccl => "RCCL",
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Gloo => "Gloo",
        })
    }
}

/// Names, summary and source of an algorithm. No field has a default, so nothing goes undocumented.
#[derive(Debug)]
pub struct Meta {
    /// The name on the command line, such as `rabenseifner`.
    pub id: &'static str,
    /// The name in a table, such as `Rabenseifner (nearest first)`.
    pub title: &'static str,
    /// The operations that it implements.
    pub collectives: &'static [Collective],
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// What libraries call it, and for which operations.
    pub known_as: &'static [(Library, &'static [Collective], &'static str)],
    /// One sentence: who sends what to whom.
    pub summary: &'static str,
    /// The paper or code that defines it.
    pub source: &'static str,
}

impl Meta {
    /// What `library` calls it for `collective`, if it ships it.
    #[must_use]
    pub fn name_in(&self, library: Library, collective: Collective) -> Option<&'static str> {
        let mut known = self.known_as.iter();
        known.find(|(l, c, _)| *l == library && c.contains(&collective)).map(|&(_, _, name)| name)
    }

    /// Whether `name` is its id or an alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.aliases.contains(&name)
    }
}

/// Why an algorithm does not apply, in words that end a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    /// A reason that is always the same.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
