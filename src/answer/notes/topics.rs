//! Topics that people ask about, as data: `collcost explain TOPIC`.
//!
//! Users' reports are cited with their address. The report fills in the tables that the engine can
//! compute, so that they cannot drift.

/// A page.
#[derive(Debug)]
pub struct Topic {
    /// The name on the command line.
    pub id: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// The question that it answers, as a heading.
    pub title: &'static str,
    /// The page.
    pub pieces: &'static [Piece],
    /// Follow-up commands.
    pub next: &'static [&'static str],
}

/// A part of a page.
#[derive(Debug)]
pub enum Piece {
    /// A paragraph.
    Text(&'static str),
    /// A table; its first row is the header.
    Table(&'static [&'static [&'static str]]),
    /// A table computed by the engine.
    Figures(Figures),
    /// Every word that screens print, with its meaning.
    Words,
    /// A command to type.
    Command(&'static str),
}

/// Tables that the report fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figures {
    /// busbw over algbw, by collective and number of ranks.
    BusbwFactors,
    /// Input and output of every collective.
    States,
    /// Ports of fabrics, and which algorithms fit into them.
    PortBudgets,
    /// Rates that texts quote.
    Rates,
    /// Latencies of switches.
    Switches,
    /// Depth and time of each pipeline.
    Pipelines,
    /// The in-network forms of all collectives.
    InNetwork,
    /// The ring's times, from small to large.
    Regimes,
    /// K1 to K26 with their titles.
    Contradictions,
}

use Piece::{Command, Figures as Known, Table, Text, Words};

/// All of them, in the order of `collcost list topics`.
pub static TOPICS: &[Topic] = &[
    Topic {
        id: "collectives",
        aliases: &["primitives", "states", "vocabulary"],
        title: "What each collective does",
        pieces: &[
            Text("N ranks, a vector of M bytes. Σ is the element-wise reduction over all ranks."),
            Known(Figures::States),
            Text(
                "An all-reduce is a reduce-scatter followed by an all-gather, in what it does and \
                 in what the ring costs. It also is a reduce followed by a broadcast, which moves \
                 the whole vector twice. An all-to-all adds nothing: it is a permutation of \
                 blocks; block j of rank i becomes block i of rank j, as in MPI_Alltoall. A \
                 mixture-of-experts layer runs two of them, dispatch and combine.",
            ),
            Text(
                "Whether one of these is bound by latency or by bandwidth is not a property of the \
                 collective: the size, N and the machine decide. `collcost explain regimes`.",
            ),
        ],
        next: &["collcost explain allreduce", "collcost explain map"],
    },
    Topic {
        id: "terms",
        aliases: &["symbols", "alpha", "beta", "gamma", "alpha-beta", "letters"],
        title: "The letters in the formulas",
        pieces: &[
            Table(&[
                &["letter", "meaning"],
                &["N", "ranks"],
                &["M", "bytes, as nccl-tests counts them: `collcost explain sizes`"],
                &["α", "time of an empty message over one link"],
                &["BW", "rate of one port, one way, in bytes per second; texts also write 1/β"],
                &["γ", "time to reduce one byte; texts that count FLOPs as free set γ = 0"],
                &["α_sw", "time of one hop through a switch that adds or multicasts"],
                &["P", "segments of a pipeline"],
                &["G", "ranks in a node; α₁, BW₁ inside it, α₂, BW₂ between nodes"],
                &[
                    "n_α, n_β, n_γ",
                    "messages one after another, vectors through the busiest port, vectors reduced",
                ],
                &["lg", "logarithm to base 2; ⌈x⌉ and ⌊x⌋ round up and down"],
                &[
                    "S(N), U(N) …",
                    "whole numbers, each defined below its formula; their value once numbers are put \
                     in",
                ],
            ]),
            Text(
                "Every time is launch + n_α·α + n_β·M/BW + n_γ·M·γ, over one or more tiers of \
                 links.",
            ),
        ],
        next: &["collcost explain allreduce ring"],
    },
    Topic {
        id: "words",
        aliases: &["glossary", "word"],
        title: "The words on the screens",
        pieces: &[
            Text(
                "Each word means the same wherever it is printed. `collcost explain WORD` explains \
                 one of them, `collcost explain terms` the letters of formulas.",
            ),
            Words,
        ],
        next: &["collcost explain terms", "collcost explain units"],
    },
    Topic {
        id: "units",
        aliases: &["unit", "gb", "gib", "bits"],
        title: "Bits, bytes, GB and GiB",
        pieces: &[
            Text(
                "Link rates are sold in bits, memory in powers of two, benchmarks report 10^9 \
                 bytes. This hides three factors: 8, 1.074 and 2.",
            ),
            Table(&[
                &["written", "means"],
                &["16M, 16MiB", "16·2^20 bytes; nccl-tests' M (its README says Mebibytes)"],
                &["16MB", "16·10^6 bytes"],
                &["7B@bf16", "7·10^9 parameters of 2 bytes = 14 GB = 13.04 GiB"],
                &["400Gb/s", "400·10^9 bits = 50 GB/s; `400gbps` and `400Gbps` too"],
                &["50GB/s", "50·10^9 bytes; every rate here is printed this way"],
                &["100", "not a bandwidth: refused without a unit"],
            ]),
            Text(
                "Who prints what: nccl-tests 10^9 B/s; DeepSpeed's log Gb/s; PyTorch divides by \
                 2^30 and writes GB; XLA's nic_speed_gbps is GB/s in spite of its name. Some texts \
                 use β for a bandwidth, others for seconds per byte (K21).",
            ),
        ],
        next: &["collcost explain sizes", "collcost explain links", "collcost explain K21"],
    },
    Topic {
        id: "sizes",
        aliases: &["size", "m", "count", "size-is"],
        title: "What the size counts",
        pieces: &[
            Text(
                "M is nccl-tests' size: the whole vector of an all-reduce, broadcast or reduce; \
                 the total over all ranks of an all-gather, reduce-scatter, scatter or gather; one \
                 rank's whole buffer, its own block included, of an all-to-all. `--size-is \
                 per-rank` and `per-peer` select the other ways of counting: a shard of 1 MB over \
                 8 ranks is M = 8 MB.",
            ),
            Command("collcost convert 1GiB size allgather -n 16"),
            Text(
                "NCCL's API counts elements per rank for these (sendcount, recvcount). Rules of Open \
                 MPI's tuned count the block of an all-gather, all-to-all or gather, those in a file \
                 all blocks, and the whole vector of a reduce-scatter; MPICH's the block of an all-to-all and the total of an \
                 all-gather or reduce-scatter. OSU's all-gather and all-to-all print one block. \
                 Convert before you compare two tools.",
            ),
        ],
        next: &["collcost convert 1GiB size alltoall -n 16"],
    },
    Topic {
        id: "busbw",
        aliases: &["algbw", "bus-bandwidth", "bandwidth"],
        title: "algbw and busbw",
        pieces: &[
            Text(
                "algbw = M/t is the rate that a caller gets: use it for step times. busbw = \
                 algbw·factor can be compared with a link's rate, one way: the factor is the least \
                 that the busiest rank must send, over M. For 1 GB in 10 ms algbw is 100 GB/s.",
            ),
            Known(Figures::BusbwFactors),
            Text(
                "Broadcast and reduce count 1 in nccl-tests, not (N − 1)/N (K16). The factor is \
                 fixed by the collective, not by what the algorithm moves, so busbw is not wire \
                 traffic:",
            ),
            Text(
                "With in-switch reduction (NVLS, SHARP) a GPU moves (n + 1)/n·M each way instead \
                 of 2(n − 1)/n·M, and busbw may exceed the link: 475 GB/s over NVLink's 450 \
                 GB/s is not a bug (NVIDIA/nccl-tests 272, 312, 366). NCCL's Tree over \
                 two nodes moves only M over the NICs where the factor assumes 2(N − 1)/N: `explain \
                 two-nodes`. A naive algorithm, or a binomial tree that sends the whole vector in \
                 each step, moves more than the factor says, and its busbw stays below its link.",
            ),
            Text(
                "`explain <collective> <algorithm>` shows algbw, busbw and what a rank really \
                 sends per second side by side. The efficiency of a fabric is η_β = busbw over the \
                 rate of a port: 360 of 450 GB/s are 0.80.",
            ),
        ],
        next: &[
            "collcost convert 120GB/s algbw busbw reducescatter -n 16",
            "collcost explain allreduce nvls -n 8",
        ],
    },
    Topic {
        id: "average",
        aliases: &["avg", "avg-busbw", "average-bus-bandwidth"],
        title: "nccl-tests' average bus bandwidth",
        pieces: &[
            Text(
                "`# Avg bus bandwidth` is the mean of busbw over all sizes of the run, in place \
                 and out of place. Small sizes are bound by latency and pull it down, so it says \
                 more about `-b` and `-e` than about the fabric. It is 0 where every busbw is 0: a \
                 run on one GPU, whose factor 2(n − 1)/n is 0, or sizes that round to 0 bytes per \
                 rank. That is not a fault of the machine (NVIDIA/nccl-tests 71, 294).",
            ),
            Text(
                "NCCL_TESTS_MIN_BW compares this mean, and fails below 0.9 of the requested value. \
                 Use only the largest sizes, or compare each size with a model.",
            ),
        ],
        next: &["collcost explain regimes"],
    },
    Topic {
        id: "links",
        aliases: &["rates", "nvlink", "duplex", "raw", "payload", "bandwidths", "h100", "p5"],
        title: "Raw or payload, one way or both, per GPU or per node",
        pieces: &[
            Text("Most reports of \"half of what was promised\" come down to four questions:"),
            Table(&[
                &["question", "example"],
                &[
                    "one way or both?",
                    "NVLink4's 900 GB/s adds both directions: 450 GB/s one way; A100's 600 are 300",
                ],
                &[
                    "raw or payload?",
                    "of 450 GB/s an application gets about 370, 0.80 to 0.82 of it",
                ],
                &[
                    "per GPU or per node?",
                    "8 NICs of 400 Gb/s are 50 GB/s per GPU and 400 GB/s per node",
                ],
                &["ring or switch?", "NVLS raises busbw by about 30 %, to 480 GB/s at 8 H100"],
            ]),
            Text(
                "On a p5.48xlarge, 480 of 900 GB/s is therefore not 53 %: 900 is raw and both \
                 ways, 450 one way, 370 what a ring reaches, 480 what NVLS reports (NVIDIA/nccl \
                 1442). On 8 H100 250 GB/s of algbw at 256 MB is near the 275 that large sizes \
                 reach, 1.75 · 275 = 480 of busbw; 256 MB is too small to show it \
                 (NVIDIA/nccl-tests 212). On 8 A100 a ring reaches 230 to 240 of 300 GB/s \
                 (NVIDIA/nccl-tests 149).",
            ),
            Known(Figures::Rates),
            Text(
                "Rates inside a node and between nodes differ 18 times, 900 to 50 GB/s, as texts \
                 quote them; one way they differ 9 times, 450 to 50.",
            ),
        ],
        next: &[
            "collcost explain allreduce 8G -n 8",
            "collcost explain nvls",
            "collcost explain nics",
        ],
    },
    Topic {
        id: "nvls",
        aliases: &["sharp", "inc", "in-network", "switch", "collnet", "nvlink-sharp"],
        title: "Sums and multicast in the switch",
        pieces: &[
            Text(
                "The switch adds what the ranks send and sends the result to all: hops instead of \
                 steps, at any N. An all-reduce then moves M a rank each way, not 2(N − 1)/N·M: \
                 half for large N. An all-gather and a reduce-scatter save latency only (K12); an \
                 all-to-all has nothing to add.",
            ),
            Known(Figures::InNetwork),
            Known(Figures::Switches),
            Text(
                "Why the peak of 8 H100 is 480 GB/s and not 647: NVLS moves (n + 1)/n·M a GPU, so \
                 at a payload rate B busbw is at most B·2(n − 1)/(n + 1), 1.56 B at 8 GPUs and \
                 1.33 B at 5; 2(n − 1)/n would count M alone. NCCL's own model multiplied by 5/6 up to \
                 2.27: with B = 370 GB/s that is 480 GB/s at 8 GPUs and 411 at 5; 480 and 420 are \
                 reported (NVIDIA/nccl 1374, 1455). From 2.28.3 on it takes 0.85 of the links of \
                 Hopper and 0.74 of those of Blackwell instead. `inc` here is the ideal switch; a profile's \
                 figure for the switch includes what was measured.",
            ),
            Text(
                "The latency grows not with the hops but with what NCCL does per step, so at small \
                 sizes NVLS may lose to a ring or tree of few ranks (NVIDIA/nccl 1259, 1362): do \
                 not force it. A PCIe switch multicasts but cannot add: broadcast, all-gather, and \
                 the second half of an all-reduce.",
            ),
        ],
        next: &["collcost explain allreduce inc -n 8", "collcost explain allreduce nvlstree -n 64"],
    },
    Topic {
        id: "two-nodes",
        aliases: &["2-nodes", "tree-two-nodes", "three-nodes"],
        title: "Why a tree over two nodes beats its NICs",
        pieces: &[
            Text(
                "busbw assumes that every NIC sends 2(N − 1)/N·M, as a ring does. NCCL's double \
                 tree sends less where there are few nodes:",
            ),
            Table(&[
                &[
                    "nodes",
                    "tree: a node's NICs send",
                    "ring: they send",
                    "busbw over link rate, up to",
                ],
                &["2", "M", "2(N − 1)/N·M", "2"],
                &["3", "1.5 M", "2(N − 1)/N·M", "4/3"],
                &["4 and more", "2 M", "2(N − 1)/N·M", "1"],
            ]),
            Text(
                "Over two nodes each tree is one edge; half of the vector goes up and down each. \
                 Over three the busiest node has two edges in one tree and one in the other. So a \
                 busbw above the NICs at 2 or 3 nodes is right, and falls at the fourth \
                 (NVIDIA/nccl 1576, 812, NVIDIA/nccl-tests 196). It says nothing about larger \
                 runs.",
            ),
        ],
        next: &["collcost explain allreduce 1G -n 16 --gpus-per-node 8", "collcost explain nics"],
    },
    Topic {
        id: "nics",
        aliases: &["nic", "rails", "gpus-per-node"],
        title: "How many NICs a job uses",
        pieces: &[
            Text(
                "A NIC is reached through the GPU next to it. NCCL lays one ring or tree over each \
                 rail, so the NICs in use grow with the GPUs per node: 8 GPUs per node reached 90 GB/s \
                 where 4 reached 45 (NVIDIA/nccl 1168), and more GPUs with more nodes' NICs lower \
                 the time of one job (NVIDIA/nccl 1250).",
            ),
            Text(
                "One GPU per node drives few channels and its own PCIe link: two nodes of one H100 \
                 and four NICs reached 50 of 200 GB/s (NVIDIA/nccl 1357). The limit there is the \
                 GPU's own port, one NIC's worth, not the fabric.",
            ),
            Text(
                "A flat ring over blocks of ranks crosses each node's boundary once and uses one \
                 NIC: `ring` here. `ring-rails` lays one over each. A hierarchy sends G shards \
                 across and shares K NICs among them: ⌈G/K⌉ times the time between nodes (K9).",
            ),
            Command("collcost explain allreduce ring 1GiB --nodes 2 --nics-per-node 1"),
        ],
        next: &["collcost explain allreduce ring-rails 1GiB -n 16", "collcost explain K9"],
    },
    Topic {
        id: "regimes",
        aliases: &["regime", "latency-bound", "bandwidth-bound", "half-bandwidth"],
        title: "Latency-bound and bandwidth-bound",
        pieces: &[
            Text(
                "T = a + b·M. Small vectors cost a, large ones b·M. They are equal at n½ = a/b, the \
                 half-bandwidth size: there a collective runs at half of its rate. For the ring \
                 n½ = N·α·BW: it grows with the ranks, which is why mid-size bandwidth falls as \
                 nodes are added (NVIDIA/nccl 1712).",
            ),
            Known(Figures::Regimes),
            Text(
                "\"All-to-all is latency-bound\" is true of small blocks and false of large ones. \
                 Below n½ fewer steps win (trees, recursive doubling, the switch), above it fewer \
                 bytes (ring, halving and doubling). Gloo's rule that few steps suit a transport \
                 of high latency says the same.",
            ),
        ],
        next: &[
            "collcost explain allreduce ring 64KiB -n 64",
            "collcost crossover allreduce tree ring --n 64",
        ],
    },
    Topic {
        id: "latency",
        aliases: &["launch", "overhead", "small"],
        title: "Time of a small collective",
        pieces: &[
            Text(
                "It is launch + n_α·α: the launch is paid once per call, α once per step. Measured \
                 latencies over 2, 4 and 8 GPUs do not follow 2(N − 1)·α alone, since the launch \
                 is in all of them (NVIDIA/nccl-tests 123): fit both.",
            ),
            Text(
                "A time below launch + ⌈lg N⌉·α (launch and one hop where a switch adds or copies) is \
                 not that of one call: CUDA graphs remove the launch, and `-m` aggregates several operations into one (NVIDIA/nccl 1984, \
                 NVIDIA/nccl-tests 68). The least latency is the first line of the bound.",
            ),
        ],
        next: &["collcost explain bound", "collcost explain allreduce recursive-doubling 8 -n 8"],
    },
    Topic {
        id: "bound",
        aliases: &["bounds", "lower-bound", "optimal"],
        title: "What no algorithm beats",
        pieces: &[
            Table(&[
                &["collective", "messages at least", "through the busiest port at least"],
                &["all-reduce", "⌈lg N⌉", "2(N − 1)/N·M"],
                &["the same where a switch adds", "1, through it", "M"],
                &[
                    "all-gather, reduce-scatter, all-to-all, scatter, gather",
                    "⌈lg N⌉",
                    "(N − 1)/N·M",
                ],
                &["broadcast, reduce", "⌈lg N⌉", "M"],
            ]),
            Text(
                "Messages: in one message's time a rank informs k others, so information spreads \
                 by a factor of k + 1; k counts its ports of all tiers, and any number where messages share \
                 a port. Bytes: every element takes N − 1 transfers to be added up \
                 and N − 1 to be spread, 2(N − 1)·M in all, of which the busiest rank sends at \
                 least the average. That is a bound on the maximum over ranks, not on each (K1). \
                 Each bound holds separately; their sum is not a bound.",
            ),
            Text(
                "They hold for the ports of a rank, by default one message out and one in at a time \
                 (`--ports`), for messages of which each costs its α and its bytes, and, in answers \
                 for a machine, after the launch of a call of its library. A kernel that writes to \
                 all peers at once, or that is started in a graph, is not bound by them: vLLM's one \
                 shot of 8 KiB on eight A100 takes less. `--ports 7` and `--launch 0s` are the bound \
                 of such a kernel.",
            ),
            Text("`x bound` compares with the larger of them, over every tier."),
        ],
        next: &["collcost explain allreduce", "collcost explain K1", "collcost explain K3"],
    },
    Topic {
        id: "ports",
        aliases: &["port", "port-budget", "fits", "duplex-ports"],
        title: "Ports that algorithms need and fabrics have",
        pieces: &[
            Text(
                "A port sends one message and receives one at a time. If the ranks of an algorithm \
                 talk to more partners at once than they have ports, they take turns; its time \
                 here is for the ports given with `--ports`.",
            ),
            Known(Figures::PortBudgets),
            Text(
                "Ports grow with the machine, ⌈lg N⌉ with the job: recursive doubling and \
                 Rabenseifner have ⌈lg N⌉ partners, 9 at 512 ranks, one after another. They need \
                 one port, but pipelining them across steps would need all 9. A binomial root that \
                 pipelines needs ⌈lg N⌉ (K8). A double tree gains from a second port, but not from \
                 more (K4).",
            ),
        ],
        next: &["collcost explain allreduce dbt --ports 2", "collcost explain K4"],
    },
    Topic {
        id: "pipeline",
        aliases: &["pipelines", "segments", "segmentation", "p-star"],
        title: "Pipelines and their best number of segments",
        pieces: &[
            Text(
                "A schedule of L steps that works on P segments at once takes L + P − 1 slots of \
                 α + M/(P·BW): more segments, more α; fewer, more waiting. The best P is \
                 √((L − 1)·M/(α·BW)), and there T = (L − 1)·α + x + 2√((L − 1)·α·x) with \
                 x = M/BW; texts print one α more (K26).",
            ),
            Known(Figures::Pipelines),
            Text(
                "This is the master formula, with a port for every step in flight. The exact cost \
                 of each algorithm on the given ports is on its own page, with a table over P.",
            ),
        ],
        next: &[
            "collcost explain broadcast chain 16MiB -n 8 --alpha 1us --bw 100GB/s",
            "collcost explain ports",
        ],
    },
    Topic {
        id: "map",
        aliases: &["parallelism", "ddp", "fsdp", "tp", "ep", "pp", "dp", "sp", "moe", "training"],
        title: "Which parallelism uses which collective",
        pieces: &[
            Table(&[
                &["parallelism", "collective", "when", "why"],
                &[
                    "data (DDP, DP)",
                    "all-reduce",
                    "once per step, on gradients",
                    "every replica needs the sum of all gradients",
                ],
                &[
                    "sharded data (FSDP, ZeRO-3)",
                    "all-gather + reduce-scatter",
                    "every layer",
                    "parameters are gathered when used, gradients kept as shards; ZeRO-1 stops after the reduce-scatter",
                ],
                &[
                    "tensor (TP)",
                    "all-reduce",
                    "twice per layer, each way",
                    "partial products of a split matrix must be added",
                ],
                &[
                    "sequence (SP)",
                    "all-gather, reduce-scatter",
                    "around a layer",
                    "the halves of TP's all-reduce, with activations split between",
                ],
                &[
                    "expert (EP, MoE)",
                    "all-to-all",
                    "dispatch and combine",
                    "tokens go to the ranks of their experts and back",
                ],
                &[
                    "pipeline (PP)",
                    "send/recv",
                    "every stage boundary",
                    "activations go only to the next stage: stages − 1 hops",
                ],
                &[
                    "context (CP)",
                    "send/recv or all-gather",
                    "every attention",
                    "keys and values pass around the ranks",
                ],
            ]),
            Text(
                "Data parallelism all-reduces in training only; inference has no gradients. A \
                 decoding step runs TP's all-reduces on a few KiB, bound by latency; a training \
                 step's gradients are gigabytes, bound by bandwidth. Both are the same collective: \
                 always give the size.",
            ),
            Text(
                "FSDP moves half as much again as DDP: two all-gathers and a reduce-scatter are \
                 3(N − 1)/N·M against 2(N − 1)/N·M.",
            ),
        ],
        next: &[
            "collcost explain collectives",
            "collcost explain pytorch",
            "collcost allreduce 7B@bf16 -n 64",
        ],
    },
    Topic {
        id: "pytorch",
        aliases: &["torch", "nccl-call", "dist", "torch-distributed"],
        title: "From a call in a program to a question",
        pieces: &[
            Table(&[
                &["call", "question"],
                &[
                    "dist.all_reduce(t, op=SUM); t /= world",
                    "collcost allreduce --size <bytes of t> -n <world>",
                ],
                &[
                    "dist.all_gather_into_tensor(out, in)",
                    "collcost allgather --size <bytes of out>",
                ],
                &[
                    "dist.reduce_scatter_tensor(out, in)",
                    "collcost reducescatter --size <bytes of in>",
                ],
                &["dist.all_to_all_single(out, in)", "collcost alltoall --size <bytes of in>"],
                &["dist.broadcast(t, src)", "collcost broadcast --size <bytes of t>"],
                &[
                    "ncclAllGather(…, sendcount, …)",
                    "collcost allgather --size-is per-rank --size <sendcount · dtype>",
                ],
                &["MPI_Allreduce(…, count, dtype, …)", "collcost allreduce --size <count · dtype>"],
            ]),
            Text(
                "N is the size of the group, which is not always the world: a data-parallel \
                 all-reduce under tensor parallelism of 8 runs over world/8 ranks. The division by \
                 the world after a SUM is local and costs no communication; ReduceOp.AVG does both.",
            ),
        ],
        next: &["collcost explain sizes", "collcost explain map"],
    },
    Topic {
        id: "ring-default",
        aliases: &["why-ring", "default-ring"],
        title: "Why libraries gather and scatter by ring",
        pieces: &[
            Text(
                "All-gather and reduce-scatter default to a ring for four reasons. It sends the \
                 least that any algorithm can, (N − 1)/N·M. It works at any N, where recursive \
                 doubling needs a power of two. It talks to two neighbours only, which every \
                 fabric has ports and locality for. And the sizes are large: FSDP's layers are \
                 tens of megabytes, where N − 1 messages hardly matter.",
            ),
            Text(
                "The price is latency: 511 messages at 512 ranks, 1.022 ms at 2 µs. Bruck, \
                 circulant and PAT send the same bytes in ⌈lg N⌉ rounds. NCCL has PAT since 2.23, \
                 for one rank per node (K14).",
            ),
        ],
        next: &["collcost explain allgather", "collcost explain allgather pat"],
    },
    Topic {
        id: "names",
        aliases: &["recursive-halving-naming", "rhd", "halving"],
        title: "One name, several algorithms",
        pieces: &[
            Text(
                "Texts and libraries use the same words for different schedules. The left column \
                 is the name written there, the right one what it is called here.",
            ),
            Table(&[
                &["name", "means"],
                &[
                    "recursive halving (often written so)",
                    "the binomial reduce: the active ranks halve, whole vectors travel; `tree` here",
                ],
                &[
                    "recursive halving (MPI literature)",
                    "the vector halves; `reducescatter recursive-halving`",
                ],
                &[
                    "halving-doubling, RHD, Rabenseifner",
                    "recursive halving, then recursive doubling; `rabenseifner`, and `rabenseifner-far` with the longest distances first",
                ],
                &[
                    "recursive doubling",
                    "whole vectors with partners at doubling distances; as an all-gather, \
                     everything that a rank holds",
                ],
                &["tree (NCCL)", "the double binary tree, pipelined; `double-binary-tree`"],
                &["tree (texts)", "the binomial reduce and broadcast; `tree`"],
                &[
                    "binary tree",
                    "two children; not the binomial tree, and slower on one port (K5)",
                ],
                &["ring (broadcast)", "a chain of segments; `chain`"],
                &[
                    "2D ring, hierarchical",
                    "reduce-scatter inside, all-reduce of shards between, all-gather inside; `2d-ring`. With leaders: `leader`",
                ],
            ]),
        ],
        next: &["collcost list algorithms", "collcost explain K24"],
    },
    Topic {
        id: "frontier",
        aliases: &["outlook", "summary", "takeaways"],
        title: "What is left to choose",
        pieces: &[
            Text(
                "Small vectors: the fewest steps. Large vectors: the fewest bytes. A larger N \
                 moves the border up. At powers of two halving-doubling is never worse than tree \
                 or ring (K6); at any N neither is the circulant all-reduce. Libraries do not \
                 always ship these.",
            ),
            Table(&[
                &["to gain", "do", "ask"],
                &[
                    "less over slow links",
                    "hierarchies: shards across, not the whole vector",
                    "collcost explain allreduce 2d-ring -n 64",
                ],
                &[
                    "half of the bytes",
                    "in-switch reduction: a vector crosses once, not twice",
                    "collcost explain nvls",
                ],
                &[
                    "fewer bytes per element",
                    "fp8 instead of bf16: half of M, more to add up",
                    "collcost allreduce 7B@fp8 -n 64",
                ],
                &[
                    "fewer messages",
                    "buckets: latency is paid once per bucket",
                    "collcost explain latency",
                ],
                &[
                    "fewer all-reduces",
                    "local steps between them divide the cost by their number",
                    "collcost explain map",
                ],
            ]),
        ],
        next: &["collcost allreduce 16MiB -n 64", "collcost explain names"],
    },
    Topic {
        id: "contradictions",
        aliases: &["errata", "notes", "textbook"],
        title: "Where texts and schedules differ",
        pieces: &[
            Text(
                "Replaying the schedules of five texts found 26 places where the printed cost is \
                 not that of the schedule. `explain K4` shows one; every algorithm's page shows \
                 its own. `--algorithm 'NAME(paper)'` prices the printed form.",
            ),
            Known(Figures::Contradictions),
        ],
        next: &["collcost explain K4", "collcost explain K7"],
    },
];
