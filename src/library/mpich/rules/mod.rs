//! MPICH's selection tree: tests are tried in file order, and the branch of the first that holds is
//! entered without backtracking.
//!
//! Source: MPICH 4.0 to 5.0.1 `src/mpi/coll/src/csel.c`; its behaviour was observed on Debian's 4.0.2.

mod builtin;
pub(in crate::library) mod read;
pub(in crate::library) mod write;

pub use builtin::{Version, builtin, runs, tests};

use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::tuning_file::Line;

/// The tree of one file. It replaces all of the library's own rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// By collective, as `allreduce` or `ireduce_scatter_block`, no collective twice.
    pub collectives: Vec<(String, Node, Line)>,
}

/// The node after a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A leaf.
    Runs(Leaf),
    /// Tests in their order.
    Tests(Vec<Branch>),
}

/// An algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its name in the library, such as `MPIR_Bcast_intra_binomial`.
    pub algorithm: String,
    /// Its parameters, such as `k=2`.
    pub parameters: Vec<String>,
    /// Its line in the file.
    pub line: Line,
}

/// A test and the node after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The test.
    pub test: Test,
    /// The node that is entered if the test holds.
    pub then: Node,
    /// Its line in the file.
    pub line: Line,
}

/// A test of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// `comm_type=inter` or `intra`.
    Inter(bool),
    /// `comm_size<=N`, or `comm_size<N`. After a test that needs the call, MPICH treats both as the
    /// same, in every version from 4.0 to 5.0.1.
    Ranks(Limit),
    /// `comm_size=pow2`.
    PowerOfTwo,
    /// `comm_size=node_comm_size`: all ranks on one node.
    OneNode,
    /// `comm_hierarchy=…`.
    Hierarchy(Hierarchy),
    /// `comm_avg_ppn<=N`.
    PerNode(Limit),
    /// `is_node_consecutive=…`.
    Consecutive(bool),
    /// `avg_msg_size<=N`: bytes of one buffer; in an all-to-all, the bytes for one rank.
    Average(Limit),
    /// `total_msg_size<=N`: bytes of all ranks together; in gathers and scatters MPICH multiplies
    /// elements instead.
    Total(Limit),
    /// `count<=N`: elements of one buffer; of all ranks together in an allgatherv and a reduce_scatter.
    Count(u32),
    /// `count<pow2`: fewer elements than the largest power of two that is not larger than N.
    CountBelowPower,
    /// `is_commutative=…`.
    Commutative(bool),
    /// `is_op_built_in=…`.
    BuiltIn(bool),
    /// `is_sendbuf_inplace=…`.
    InPlace(bool),
    /// `is_block_regular=…`: all counts are the same.
    Regular(bool),
    /// `is_multi_threaded=…`.
    Threads(bool),
    /// `any`, or anything that ends in `=any`, with the word before it.
    Any(Kind),
}

/// A test that held, and the one before it, which did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The test that held.
    pub test: Test,
    /// The last one that was tried before it.
    pub failed: Option<Test>,
}

/// An inclusive or exclusive upper limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// `<=`.
    AtMost(u32),
    /// `<`.
    Below(u32),
}

/// What a communicator is to those that MPICH makes of it (`hierarchy_kind`). 4.0 to 4.3.2 test each by itself; 5.0
/// takes all but `parent` for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hierarchy {
    /// `parent`: it has a communicator of each node, and one of a rank from each: some node has several of its ranks.
    Parent,
    /// `node`: the ranks of one node.
    Node,
    /// `node_roots`: a rank from each node.
    NodeRoots,
    /// `flat`: no node has several of its ranks.
    Flat,
}

/// The word before `=any`; the library ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Just `any`.
    Plain,
    /// `comm_size=any`.
    Ranks,
    /// `comm_hierarchy=any`.
    Parent,
    /// `comm_avg_ppn=any`.
    PerNode,
    /// `avg_msg_size=any`.
    Average,
    /// `total_msg_size=any`.
    Total,
    /// `count=any`.
    Count,
}

/// A call with everything that tests depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Whether it is between two groups.
    pub inter: bool,
    /// N.
    pub ranks: u32,
    /// The number of nodes that the ranks are on.
    pub nodes: u32,
    /// What the communicator is to others. That of all ranks is a parent on one node, too
    /// (v4.0.3 to v5.0.0 `src/mpi/comm/commutil.c`, `MPIR_Comm_create_subcomms`).
    pub hierarchy: Hierarchy,
    /// Whether ranks of one node are numbered one after another.
    pub consecutive: bool,
    /// Bytes of one buffer; in an all-to-all, the bytes for one rank.
    pub average: Bytes,
    /// What `total_msg_size` counts.
    pub total: Bytes,
    /// What `count` counts.
    pub count: u64,
    /// Whether the operation commutes.
    pub commutative: bool,
    /// Whether the operation is predefined.
    pub builtin_op: bool,
    /// Whether it works in place.
    pub in_place: bool,
    /// Whether all counts are the same.
    pub regular: bool,
    /// Whether several threads call MPI.
    pub threads: bool,
    /// Whether 5.0 tests it: it takes all kinds of communicators but `parent` for one, and knows nothing of the
    /// nodes of those that MPICH makes (v5.0.1 `src/mpi/coll/src/csel.c`).
    pub since_5: bool,
}

impl Call {
    /// Whether the communicator knows the nodes of its ranks.
    fn knows_nodes(&self) -> bool {
        !self.since_5 || !matches!(self.hierarchy, Hierarchy::Node | Hierarchy::NodeRoots)
    }
}

impl Limit {
    /// Whether a number passes.
    #[must_use]
    pub fn holds(self, number: u64) -> bool {
        match self {
            Self::AtMost(most) => number <= most.into(),
            Self::Below(bound) => number < bound.into(),
        }
    }

    /// The limit for this many parts together.
    fn over(self, parts: u32) -> Self {
        match self {
            Self::AtMost(most) => Self::AtMost(most.saturating_mul(parts)),
            Self::Below(bound) => Self::Below(bound.saturating_mul(parts)),
        }
    }

    /// The last number that passes; `None` if no number does.
    #[must_use]
    pub fn last(self) -> Option<u32> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Below(bound) => bound.checked_sub(1),
        }
    }
}

impl Hierarchy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Parent, Self::Node, Self::NodeRoots, Self::Flat];

    /// Its word in a file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Node => "node",
            Self::NodeRoots => "node_roots",
            Self::Flat => "flat",
        }
    }
}

impl Test {
    /// Whether it holds for a call.
    #[must_use]
    pub fn holds(self, call: &Call) -> bool {
        match self {
            Self::Inter(inter) => call.inter == inter,
            Self::Ranks(limit) => limit.holds(call.ranks.into()),
            Self::PowerOfTwo => call.ranks.is_power_of_two(),
            Self::OneNode => call.hierarchy == Hierarchy::Parent && call.nodes == 1,
            Self::Hierarchy(kind) if call.since_5 => {
                (call.hierarchy == Hierarchy::Parent) == (kind == Hierarchy::Parent)
            }
            Self::Hierarchy(kind) => call.hierarchy == kind,
            Self::PerNode(limit) => {
                call.knows_nodes() && limit.over(call.nodes).holds(call.ranks.into())
            }
            Self::Consecutive(is) => call.consecutive == is,
            Self::Average(limit) => limit.holds(call.average.0),
            Self::Total(limit) => limit.holds(call.total.0),
            Self::Count(most) => call.count <= most.into(),
            Self::CountBelowPower => call.count < 1 << call.ranks.max(1).ilog2(),
            Self::Commutative(is) => call.commutative == is,
            Self::BuiltIn(is) => call.builtin_op == is,
            Self::InPlace(is) => call.in_place == is,
            Self::Regular(is) => call.regular == is,
            Self::Threads(is) => call.threads == is,
            Self::Any(_) => true,
        }
    }

    /// Whether the test needs the call itself, not only its communicator.
    #[must_use]
    pub fn needs_call(self) -> bool {
        !matches!(
            self,
            Self::Inter(_)
                | Self::Ranks(_)
                | Self::PowerOfTwo
                | Self::OneNode
                | Self::Hierarchy(_)
                | Self::PerNode(_)
                | Self::Consecutive(_)
                | Self::Any(_)
        )
    }
}

/// Every collective that a file must have rules for: MPICH aborts at the first call of one without.
pub const COLLECTIVES: &[&str] = &[
    "bcast",
    "allreduce",
    "allgather",
    "allgatherv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "gather",
    "scatter",
    "gatherv",
    "scatterv",
    "scan",
    "exscan",
    "barrier",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
    "ibarrier",
    "iallreduce",
    "iallgather",
    "iallgatherv",
    "ibcast",
    "ireduce",
    "ireduce_scatter",
    "igather",
    "iscatter",
    "igatherv",
    "iscatterv",
    "iexscan",
    "ialltoall",
    "ialltoallv",
    "ialltoallw",
    "ireduce_scatter_block",
    "iscan",
    "ineighbor_allgather",
    "ineighbor_allgatherv",
    "ineighbor_alltoall",
    "ineighbor_alltoallv",
    "ineighbor_alltoallw",
];

impl Test {
    /// The text of the test in a file.
    #[must_use]
    pub fn key(self) -> String {
        let limit = |subject: &str, limit: Limit| match limit {
            Limit::AtMost(most) => format!("{subject}<={most}"),
            Limit::Below(bound) => format!("{subject}<{bound}"),
        };
        let yes = |subject: &str, is: bool| format!("{subject}={}", if is { "yes" } else { "no" });
        match self {
            Self::Inter(inter) => format!("comm_type={}", if inter { "inter" } else { "intra" }),
            Self::Ranks(ranks) => limit("comm_size", ranks),
            Self::PowerOfTwo => "comm_size=pow2".to_owned(),
            Self::OneNode => "comm_size=node_comm_size".to_owned(),
            Self::Hierarchy(hierarchy) => format!("comm_hierarchy={}", hierarchy.word()),
            Self::PerNode(ranks) => limit("comm_avg_ppn", ranks),
            Self::Consecutive(is) => yes("is_node_consecutive", is),
            Self::Average(bytes) => limit("avg_msg_size", bytes),
            Self::Total(bytes) => limit("total_msg_size", bytes),
            Self::Count(most) => limit("count", Limit::AtMost(most)),
            Self::CountBelowPower => "count<pow2".to_owned(),
            Self::Commutative(is) => yes("is_commutative", is),
            Self::BuiltIn(is) => yes("is_op_built_in", is),
            Self::InPlace(is) => yes("is_sendbuf_inplace", is),
            Self::Regular(is) => yes("is_block_regular", is),
            Self::Threads(is) => yes("is_multi_threaded", is),
            Self::Any(kind) => match kind {
                Kind::Plain => "any",
                Kind::Ranks => "comm_size=any",
                Kind::Parent => "comm_hierarchy=any",
                Kind::PerNode => "comm_avg_ppn=any",
                Kind::Average => "avg_msg_size=any",
                Kind::Total => "total_msg_size=any",
                Kind::Count => "count=any",
            }
            .to_owned(),
        }
    }
}

impl Tree {
    /// The collectives for which the tree has no rules; their first call aborts.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let has = |name: &&str| self.collectives.iter().any(|(known, ..)| known == name);
        COLLECTIVES.iter().copied().filter(|name| !has(name)).collect()
    }

    /// The branch of a collective.
    #[must_use]
    pub fn of(&self, collective: &str) -> Option<&Node> {
        self.collectives.iter().find(|(name, ..)| name == collective).map(|(_, node, _)| node)
    }

    /// The leaf that decides, and the tests that led there.
    ///
    /// # Errors
    /// The file has no rules for the collective, or no test holds: the library aborts there.
    pub fn leaf(&self, collective: &str, call: &Call) -> Result<(&Leaf, Vec<Passed>)> {
        let mut path = Vec::new();
        let mut node = self.of(collective).ok_or_else(|| {
            Error::unsupported(format!(
                "the file has no rules for {collective}: MPICH aborts there"
            ))
            .help("a file replaces all of MPICH's rules: write all 44 collectives")
        })?;
        let mut needs_call = false;
        loop {
            let branches = match node {
                Node::Runs(leaf) => return Ok((leaf, path)),
                Node::Tests(branches) => branches,
            };
            let taken = branches.iter().position(|branch| {
                let behind = needs_call;
                needs_call |= branch.test.needs_call();
                at_call(branch.test, behind).holds(call)
            });
            let Some(taken) = taken else {
                let line = branches.first().map_or(0, |branch| branch.line.0);
                return Err(Error::unsupported(format!(
                    "no test of {collective} holds from line {line} on: MPICH aborts there"
                ))
                .help("end each list of tests with `=any`, or with both `=yes` and `=no`"));
            };
            let failed = branches[..taken].last().map(|branch| branch.test);
            path.push(Passed { test: branches[taken].test, failed });
            node = &branches[taken].then;
        }
    }
}

/// The effective test if `test` comes after one that needs the call. Before that one MPICH decides
/// when a communicator is created; from there on it decides at the call, and then it treats
/// `comm_size<N` as `<=N`.
fn at_call(test: Test, behind: bool) -> Test {
    match test {
        Test::Ranks(Limit::Below(bound)) if behind => Test::Ranks(Limit::AtMost(bound)),
        other => other,
    }
}
