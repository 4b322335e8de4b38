//! K1 to K26: where the cost that a text prints differs from that of its schedule, and which is
//! correct.
//!
//! Found by replaying the schedules that texts describe; the tests of the checklist verify the
//! numbers.

use serde::{Serialize, Serializer};

use crate::base::collective::Collective::{
    self, AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce, ReduceScatter,
};

/// Where a statement is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Gloo's docs/algorithms.md.
    Gloo,
    /// <https://github.com/spiceMonkey/collective-comm>, 01_collective_algorithms.md.
    Algorithms,
    /// The same, 02 to 04: topologies, in-network collectives, contention.
    Topologies,
    /// Courses, posts and chapters without a source.
    Often,
}

impl Text {
    /// The name under which it is cited.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gloo => "Gloo docs/algorithms.md",
            Self::Algorithms => "spiceMonkey/collective-comm 01",
            Self::Topologies => "spiceMonkey/collective-comm 02 to 04",
            Self::Often => "often written so",
        }
    }
}

/// A place where a text prints something that does not hold.
#[derive(Debug, Clone, Serialize)]
// Its schema has the name that was published.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NoteView"))]
pub struct Contradiction {
    /// `K1` … `K26`.
    pub id: &'static str,
    /// The subject.
    pub title: &'static str,
    /// Where it is printed.
    #[serde(serialize_with = "names")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub texts: &'static [Text],
    /// The printed statement.
    pub printed: &'static str,
    /// The correct statement.
    pub holds: &'static str,
    /// The collectives concerned, with their algorithms; no algorithms: the collective as a whole.
    #[serde(skip)]
    pub about: &'static [(Collective, &'static [&'static str])],
}

impl Contradiction {
    /// The names of the texts.
    #[must_use]
    pub fn cited(&self) -> String {
        let names: Vec<&str> = self.texts.iter().map(|text| text.name()).collect();
        names.join(", ")
    }
}

fn names<S: Serializer>(texts: &[Text], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(texts.iter().map(|text| text.name()))
}

use Text::{Algorithms, Gloo, Often, Topologies};

/// All of them, in order.
pub static CONTRADICTIONS: &[Contradiction] = &[
    Contradiction {
        id: "K1",
        title: "whose bound 2(N − 1)/N·M is",
        texts: &[Algorithms, Often],
        printed: "Every process sends at least (N − 1)/N·M and receives as much, 2(N − 1)/N·M \
                  together, and the ring does exactly that.",
        holds: "The ring sends 2(N − 1)/N·M and receives as much again. The bound is on the sum \
                over ranks, 2(N − 1)·M, and therefore on the busiest rank; in every tree some rank \
                sends only M. Where a switch adds, it does not hold at all.",
        about: &[(AllReduce, &["ring", "naive", "tree", "double-binary-tree"])],
    },
    Contradiction {
        id: "K2",
        title: "steps of a bidirectional ring",
        texts: &[Often],
        printed: "Both halves run at once, (N − 1)·α + (N − 1)/N·M/BW.",
        holds: "Halves in opposite directions still take 2(N − 1) steps; only the bandwidth term \
                halves. The printed time is that of another schedule, in which every chunk goes \
                both ways and meets itself, and only for odd N; even N takes N·α. Both need two \
                ports of full rate. If BW is that of the whole NIC, nothing is gained.",
        about: &[(AllReduce, &["bidirectional-ring-split", "bidirectional-ring-arc"])],
    },
    Contradiction {
        id: "K3",
        title: "which algorithm is latency-optimal",
        texts: &[Often],
        printed: "The tree is latency-optimal.",
        holds: "The bound is ⌈lg N⌉ messages. Reduce and broadcast take 2⌈lg N⌉, twice that; \
                recursive doubling takes ⌈lg N⌉ for powers of two and is the optimal one.",
        about: &[(AllReduce, &["tree", "recursive-doubling"])],
    },
    Contradiction {
        id: "K4",
        title: "ports of the double binary tree",
        texts: &[Algorithms, Topologies, Often],
        printed: "2⌈lg N⌉·α + M/BW once pipelined, with about three partners per rank, better than \
                  the ring at every size; near 2·M/BW in practice.",
        holds: "n_β is max(2/k, e/2) on k ports, where e trees' edges share a link (2 in NCCL's \
                trees): 2 on one port, 1 on two. So 2 in practice is not overhead but the bound \
                2(N − 1)/N of a single port. With equal ports the ring and Rabenseifner always \
                have the smaller bandwidth term. In one piece (P = 1) the printed formula holds on \
                two ports; one port takes 4·lg N − 2 messages of M/2.",
        about: &[(
            AllReduce,
            &["double-binary-tree", "ring-dbt", "nvls-dbt", "nvlstree", "tree-rails"],
        )],
    },
    Contradiction {
        id: "K5",
        title: "rounds of a tree with two children",
        texts: &[Algorithms, Often],
        printed: "A binary tree with two children reduces in ⌈lg N⌉ rounds.",
        holds: "That is the binomial tree. With two children and one port a rank is busy twice per \
                level: 4(⌈lg N⌉ − 1) rounds for the all-reduce, 20 instead of 12 for 64 ranks. Two \
                ports take 2⌊lg N⌋.",
        about: &[
            (AllReduce, &["tree", "single-binary-tree", "binary-tree-colored"]),
            (Broadcast, &["binomial", "binary-tree", "in-order-binary-tree"]),
            (Reduce, &["binomial", "binary-tree", "in-order-binary-tree"]),
        ],
    },
    Contradiction {
        id: "K6",
        title: "where halving-doubling wins",
        texts: &[Often],
        printed: "Halving-doubling is for powers of two and middle to large vectors.",
        holds: "By the formulas it is never worse than tree or ring at any size once N is a power \
                of two, and better from 4 ranks on. Only recursive doubling beats it, for small \
                vectors.",
        about: &[(AllReduce, &["rabenseifner", "rabenseifner-far", "recursive-doubling"])],
    },
    Contradiction {
        id: "K7",
        title: "N that is not a power of two",
        texts: &[Algorithms, Often],
        printed: "2⌈lg N⌉·α + 2(N − 1)/N·M/BW at any N; the fix-up is two more α; falling back \
                  to the ring costs about 10 %; padding wastes a quarter at 6 ranks.",
        holds: "Folding costs (2⌊lg N⌋ + 2)·α + (2 + 2(p − 1)/p)·M/BW with p = 2^⌊lg N⌋: the \
                vector crosses two more times. At 6 ranks the ring's bandwidth term is 2.1 times \
                smaller, not 10 % larger. Padding assumes ghost ranks that cost nothing. The \
                circulant all-reduce reaches 2⌈lg N⌉·α + 2(N − 1)/N·M/BW at any N.",
        about: &[(
            AllReduce,
            &[
                "rabenseifner",
                "rabenseifner-far",
                "rabenseifner-half-fold",
                "rabenseifner-padded",
                "recursive-doubling",
                "circulant-rs-ag",
            ],
        )],
    },
    Contradiction {
        id: "K8",
        title: "pipelining a binomial tree",
        texts: &[Algorithms],
        printed: "(⌈lg N⌉ + P − 1)(α + M/(P·BW)), within the ports of any fabric.",
        holds: "A binomial root sends every segment ⌈lg N⌉ times: P·⌈lg N⌉ rounds on one port, so \
                P = 1 is best there; ⌊lg N⌋ + P − 1 with a port for every child. The printed time \
                is reached on one port by other schedules, at any N: the circulant broadcast, and \
                the binomial pipeline for powers of two.",
        about: &[
            (Broadcast, &["binomial", "circulant", "binomial-pipeline"]),
            (Reduce, &["binomial", "circulant", "binomial-pipeline"]),
        ],
    },
    Contradiction {
        id: "K9",
        title: "NICs behind a hierarchy's gain",
        texts: &[Often],
        printed: "8 nodes of 8: 20.3 ms flat against 5.19 ms in two levels, 1 GB against 125 MB \
                  over the network.",
        holds: "Only with a NIC for every GPU. With one per node the two levels take 20.99 ms, more \
                than the flat ring: the part between nodes counts ⌈G/NICs⌉ times. With 8 NICs a \
                flat ring wastes 7; one ring over each rail takes about 3.5 ms. A node's boundary \
                is crossed by 1.97 M flat and 1.75 M in two levels, 0.22 M a GPU.",
        about: &[(AllReduce, &["2d-ring", "ring-rails", "ring"])],
    },
    Contradiction {
        id: "K10",
        title: "Gloo's steps and bytes",
        texts: &[Gloo],
        printed: "Ring: P·S bytes. Chunked ring: 4P steps, 2S bytes. Broadcast: 1 step, P·S. \
                  Barriers: 1 and 2 steps.",
        holds: "Ring: (N − 1)·M. Chunked: 4(N − 1) sends of M/2N, 2(N − 1)/N·M, twice the ring's \
                α. Broadcast: (N − 1)·M from the root. The step counts of broadcast and barriers \
                hold with a port for every partner; one port takes N − 1, and 2(N − 1) by a root.",
        about: &[
            (AllReduce, &["gloo-ring", "gloo-ring-chunked"]),
            (Broadcast, &["flat"]),
            (Barrier, &["all-to-all", "all-to-one"]),
        ],
    },
    Contradiction {
        id: "K11",
        title: "where the ring overtakes the double tree",
        texts: &[Algorithms],
        printed: "2.07 GB at 72 ranks and 115.7 GB at 512, for c = 2.",
        holds: "Right for a tree that pays nothing for its pipeline. With the √M term it is 127 MB \
                and 6.0 GB; with the schedule that one port can run, about 32 MB and 1.4 GB. As c \
                nears 2(N − 1)/N the printed formula diverges.",
        about: &[(AllReduce, &["double-binary-tree", "ring"])],
    },
    Contradiction {
        id: "K12",
        title: "what a switch does for all-gather and all-to-all",
        texts: &[Algorithms, Topologies],
        printed: "No switch helps an all-gather or a reduce-scatter; elsewhere, multicast helps \
                  an all-gather; a broadcast takes two hops here and one there.",
        holds: "The latency collapses to 2·α_sw, the bandwidth term stays (N − 1)/N·M/BW. The hops \
                are a parameter, `--inc-hops`, 2 by default.",
        about: &[
            (AllReduce, &["inc"]),
            (AllGather, &["inc"]),
            (ReduceScatter, &["inc"]),
            (Broadcast, &["inc"]),
            (Reduce, &["inc"]),
            (AllToAll, &["hw-all-to-all"]),
        ],
    },
    Contradiction {
        id: "K13",
        title: "an all-to-all passed round a ring",
        texts: &[Algorithms, Topologies],
        printed: "(N − 1)·α + (N − 1)/N·M/BW, as good as pairwise.",
        holds: "Right at 2 and 4 ranks. The busiest link carries h(h + 1)/2 blocks with \
                h = ⌊N/2⌋: 10 instead of 7 at 8 ranks, 528 instead of 63 at 64. A relay costs \
                about N/8 times what pairwise costs.",
        about: &[(AllToAll, &["ring-relay", "pairwise"])],
    },
    Contradiction {
        id: "K14",
        title: "PAT with one chunk per round",
        texts: &[Algorithms],
        printed: "One chunk of M/N a rank and round, ⌈lg N⌉ rounds.",
        holds: "That delivers ⌈lg N⌉ chunks of N − 1: 3 of 7 at 8 ranks. With at most a chunks a \
                message PAT takes Σ⌈n_b/a⌉ rounds: ⌈lg N⌉ for large a, N − 1 for a = 1. The bytes \
                are (N − 1)/N·M either way.",
        about: &[(AllGather, &["pat"]), (ReduceScatter, &["pat"])],
    },
    Contradiction {
        id: "K15",
        title: "bytes of Bruck's all-to-all",
        texts: &[Algorithms],
        printed: "⌈lg N⌉·M/2 bytes; the crossover with pairwise is near α·BW.",
        holds: "A block of offset j is sent popcount(j) times: Σ popcount(j)·M/N, the same at \
                powers of two only (2.94 M instead of 3.5 M at 72 ranks). The crossover grows \
                with N: 4·α·BW at 4 ranks, 28 at 64, 143 at 512.",
        about: &[(AllToAll, &["bruck", "pairwise"])],
    },
    Contradiction {
        id: "K16",
        title: "busbw of a broadcast",
        texts: &[Algorithms],
        printed: "busbw = algbw·(N − 1)/N, as in nccl-tests.",
        holds: "nccl-tests uses 1 for broadcast and reduce.",
        about: &[(Broadcast, &[])],
    },
    Contradiction {
        id: "K17",
        title: "what the naive root receives",
        texts: &[Often],
        printed: "The root receives N·M.",
        holds: "(N − 1)·M each way: it has its own vector already.",
        about: &[(AllReduce, &["naive"])],
    },
    Contradiction {
        id: "K18",
        title: "what leaders save between nodes",
        texts: &[Often],
        printed: "A reduction inside nodes first leaves about 8 times less between them; 280 ms \
                  flat, 80 ms in levels.",
        holds: "Per node 2(D − 1)/D·M instead of 2(N − 1)/N·M: 1.4 % less for 64 nodes of 8. Eight \
                times less holds for each GPU, where every GPU sends its own shard across. With \
                leaders the example takes 369 ms; with shards 61.7 ms.",
        about: &[(
            AllReduce,
            &["leader", "leader-tree", "leader-doubling", "leader-rabenseifner", "2d-ring"],
        )],
    },
    Contradiction {
        id: "K19",
        title: "the shortcut for the crossover of tree and ring",
        texts: &[Often],
        printed: "α·BW·N/(lg N − 1).",
        holds: "Too large by 13 % at 64 ranks, 1 % at 1024, but by 112 % at 8. Below 64 ranks use \
                the exact one: `collcost crossover allreduce tree ring`. At 3 ranks there is none.",
        about: &[(AllReduce, &["ring", "tree"])],
    },
    Contradiction {
        id: "K20",
        title: "segments of a chain",
        texts: &[Algorithms],
        printed: "A ring broadcast with P = N segments runs at M/BW.",
        holds: "At P = N it takes 2(N − 1)/N·M/BW, twice that. The floor needs far more segments \
                than ranks; the best number is √((N − 2)·M/(α·BW)).",
        about: &[(Broadcast, &["chain"])],
    },
    Contradiction {
        id: "K21",
        title: "β and MB mean two things each",
        texts: &[Algorithms, Often],
        printed: "β is a bandwidth in one text and seconds per byte in another; KB and MB are \
                  powers of ten here and of two there; DDP's bucket is 25 MB.",
        holds: "Here a rate without a unit is refused: `--bw 100GB/s`, or `--beta 10ps/B`. `16MB` \
                is 10^6, `16MiB` and `16M` are 2^20. DDP's bucket is 25 MiB.",
        about: &[],
    },
    Contradiction {
        id: "K22",
        title: "thresholds without a number of ranks",
        texts: &[Often],
        printed: "Tree below 256 KB, ring above 4 MB.",
        holds: "The crossover of the same text's formulas is 1.14 MB at 64 ranks, 1 µs and \
                100 GB/s, and 35.3 MB at 256 ranks, 5 µs and 200 GB/s. A threshold without N and α is a habit, not a rule.",
        about: &[(AllReduce, &["tree", "ring"])],
    },
    Contradiction {
        id: "K23",
        title: "slips in listings",
        texts: &[Often],
        printed: "A ring in PyTorch with torch.chunk, and a bucketing class.",
        holds: "The chunk indices are right at every N. But torch.chunk may return fewer than N \
                chunks (5 elements over 4 ranks: 3), and the bucketing never flushes its last \
                bucket.",
        about: &[(AllReduce, &["ring"])],
    },
    Contradiction {
        id: "K24",
        title: "one name, two algorithms",
        texts: &[Algorithms, Often],
        printed: "\"Recursive halving\" for the reduce phase of a tree; \"every rank exchanges \
                  with one partner per step\" for a double tree.",
        holds: "The first is the binomial reduce: the active ranks halve, the vector does not. \
                Recursive halving of the vector is `recursive-halving`, the first half of \
                Rabenseifner. One partner per step is the butterfly of recursive doubling.",
        about: &[
            (AllReduce, &["tree", "double-binary-tree", "recursive-doubling", "rabenseifner"]),
            (Reduce, &["binomial"]),
            (ReduceScatter, &["recursive-halving"]),
        ],
    },
    Contradiction {
        id: "K25",
        title: "fill of a relay",
        texts: &[Algorithms],
        printed: "A ring relay all-to-all is in steady state from its first step.",
        holds: "Its own table shows the left link idle after the first step: the farther blocks \
                go one way only.",
        about: &[(AllToAll, &["ring-relay"])],
    },
    Contradiction {
        id: "K26",
        title: "the time at the best number of segments",
        texts: &[Algorithms],
        printed: "T(P*) = L·α + x + 2√((L − 1)·α·x), with x = M/BW.",
        holds: "Putting P* = √((L − 1)·x/α) into (L + P − 1)(α + x/P) gives \
                (L − 1)·α + x + 2√((L − 1)·α·x), one α less.",
        about: &[
            (Broadcast, &["chain", "circulant", "binomial-pipeline"]),
            (Reduce, &["chain", "circulant", "binomial-pipeline"]),
            (AllReduce, &["double-binary-tree"]),
        ],
    },
];
