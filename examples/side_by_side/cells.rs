//! What is measured, and what each library is forced to.

use collcost::run::transport::Kind;

/// Where ranks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// Two ranks over shared memory.
    Shm,
    /// Two ranks over TCP on loopback.
    Tcp,
    /// Four ranks over TCP, each in a network namespace of its own.
    Netns,
}

impl Site {
    pub const ALL: &[Self] = &[Self::Shm, Self::Tcp, Self::Netns];

    pub fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Netns => "netns",
        }
    }

    pub fn ranks(self) -> u32 {
        if self == Self::Netns { 4 } else { 2 }
    }

    pub fn transport(self) -> Kind {
        if self == Self::Shm { Kind::Shm } else { Kind::Tcp }
    }

    /// Whether each rank has a CPU of its own.
    pub fn spins(self) -> bool {
        collcost::run::launch::usable().is_ok_and(|cpus| cpus.at_once >= self.ranks() as usize)
    }

    /// Every algorithm at every size.
    pub fn cells(self) -> Vec<Cell> {
        // A capped link would take minutes for what it says at 1 MiB already.
        let most = if self == Self::Netns { 1 << 20 } else { u64::MAX };
        let sizes = SIZES.iter().filter(|&&size| size <= most);
        let cells = sizes.flat_map(|&size| OPS.iter().map(move |op| Cell::new(op, size)));
        // With less than an element a rank the libraries run something else than they are told.
        let least = 4 * u64::from(self.ranks());
        cells.filter(|cell| cell.size >= least || !cell.is_in_parts()).collect()
    }
}

const SIZES: &[u64] = &[
    8,
    128,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
];

const RING: &str = "allreduce/ring";
const DOUBLING: &str = "allreduce/recursive-doubling";
const RABENSEIFNER: &str = "allreduce/rabenseifner";
const BINOMIAL: &str = "broadcast/binomial";
const CHAIN: &str = "broadcast/chain";
const OPS: &[&str] = &[RING, DOUBLING, RABENSEIFNER, BINOMIAL, CHAIN];
/// Bytes of a segment of the pipelined broadcast.
const SEGMENT: u64 = 64 << 10;

/// An algorithm at a size.
pub struct Cell {
    /// Ours, by its name.
    pub op: String,
    pub size: u64,
}

impl Cell {
    fn new(op: &str, size: u64) -> Self {
        let op = match op {
            CHAIN => format!("{CHAIN}/P={}", size.div_ceil(SEGMENT)),
            other => other.to_owned(),
        };
        Self { op, size }
    }

    /// Whether each rank has a part of the vector.
    fn is_in_parts(&self) -> bool {
        self.is(RING) || self.is(RABENSEIFNER)
    }

    /// The collective as the peers' program knows it.
    pub fn order(&self) -> &'static str {
        if self.op.starts_with("allreduce") { "allreduce" } else { "bcast" }
    }

    /// Whether it is one of `op`.
    fn is(&self, op: &str) -> bool {
        self.op.strip_prefix(op).is_some_and(|rest| rest.is_empty() || rest.starts_with("/P="))
    }
}

/// How often a block repeats a cell.
pub fn reps(site: Site, size: u64) -> u32 {
    match (size, site) {
        (0..=0x1000, Site::Shm) => 100,
        (0..=0x1000, Site::Tcp) => 50,
        (0..=0x1000, Site::Netns) => 30,
        (0..=0x1_0000, Site::Netns) => 8,
        (0..=0x1_0000, _) => 40,
        (_, Site::Netns) => 3,
        (0..=0x4_0000, _) => 20,
        (0..=0x40_0000, _) => 10,
        (0..=0x100_0000, _) => 4,
        _ => 3,
    }
}

/// A library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    OpenMpi,
    Mpich,
}

impl Library {
    pub const ALL: &[Self] = &[Self::OpenMpi, Self::Mpich];

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }

    /// How Debian's alternatives end.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }
}

/// A library that is forced to algorithms.
pub struct Forced {
    pub library: Library,
    /// Its own variables.
    variables: &'static [(&'static str, &'static str)],
    /// Which of our operations it is held against, and what it calls its own.
    runs: &'static [(&'static str, &'static str)],
}

impl Forced {
    /// Whether it can be measured there. MPICH's ranks spin and never yield: with more of them than
    /// CPUs they wait for each other's time slices, 18 ms for 8 bytes.
    pub fn fits(&self, site: Site) -> bool {
        self.library == Library::OpenMpi || site.spins()
    }

    /// What it runs of `cell`, in its own words.
    pub fn runs(&self, cell: &Cell) -> Option<&'static str> {
        self.runs.iter().find(|(op, _)| cell.is(op)).map(|(_, name)| *name)
    }

    /// The environment that forces it, and chooses how bytes move.
    pub fn environment(&self, site: Site) -> Vec<(&'static str, &'static str)> {
        let common: &[(&str, &str)] = match (self.library, site) {
            (Library::OpenMpi, Site::Shm) => &[("OMPI_MCA_btl", "self,vader")],
            (Library::OpenMpi, Site::Tcp) => {
                &[("OMPI_MCA_btl", "self,tcp"), ("OMPI_MCA_btl_tcp_if_include", "lo")]
            }
            (Library::OpenMpi, Site::Netns) => {
                &[("OMPI_MCA_btl", "self,tcp"), ("OMPI_MCA_btl_tcp_if_include", "e0")]
            }
            (Library::Mpich, Site::Shm) => &[],
            (Library::Mpich, Site::Tcp) => {
                &[("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo")]
            }
            (Library::Mpich, Site::Netns) => {
                &[("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "e0")]
            }
        };
        let always: &[(&str, &str)] = match self.library {
            Library::OpenMpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
                ("OMPI_MCA_btl_base_warn_component_unused", "0"),
            ],
            Library::Mpich => &[
                ("MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM", "mpir"),
                ("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "mpir"),
            ],
        };
        let yields = self.library == Library::OpenMpi && !site.spins();
        let yields: &[(&str, &str)] =
            if yields { &[("OMPI_MCA_mpi_yield_when_idle", "1")] } else { &[] };
        [always, common, yields, self.variables].concat()
    }
}

/// A program each; what an algorithm is called is the library's own number or name.
pub const PEERS: &[Forced] = &[
    Forced {
        library: Library::OpenMpi,
        variables: &[
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "3"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "6"),
        ],
        runs: &[(DOUBLING, "recursive doubling"), (BINOMIAL, "binomial")],
    },
    Forced {
        library: Library::OpenMpi,
        variables: &[
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "4"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "3"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "65536"),
        ],
        runs: &[(RING, "ring"), (CHAIN, "pipeline, 64 KiB")],
    },
    Forced {
        library: Library::OpenMpi,
        variables: &[
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "5"),
            ("OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize", "65536"),
        ],
        runs: &[(RING, "segmented ring, 64 KiB")],
    },
    Forced {
        library: Library::OpenMpi,
        variables: &[("OMPI_MCA_coll_tuned_allreduce_algorithm", "6")],
        runs: &[(RABENSEIFNER, "rabenseifner")],
    },
    Forced {
        library: Library::Mpich,
        variables: &[
            ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "recursive_doubling"),
            ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", "binomial"),
        ],
        runs: &[(DOUBLING, "recursive_doubling"), (BINOMIAL, "binomial")],
    },
    Forced {
        library: Library::Mpich,
        variables: &[("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "reduce_scatter_allgather")],
        runs: &[(RABENSEIFNER, "reduce_scatter_allgather")],
    },
];
