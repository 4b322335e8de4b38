//! The release of NCCL from which a rule holds, for every rule that only some releases have.
//!
//! Code checks `version.has(since::HOSTS)` and never a release. A new release needs a row in
//! [`super::version`], a line here for each rule that came with it, and its constants.
//!
//! Source: NVIDIA/nccl, the tags v2.18.1-1 to v2.30.7-1, compared file by file under `src/`.

/// The releases that have a rule: those from one tag on, and before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    from: (u8, u8),
    until: (u8, u8),
}

/// The rule came with this tag: minor version and patch level.
const fn since(minor: u8, patch: u8) -> Rule {
    Rule { from: (minor, patch), until: (u8::MAX, 0) }
}

/// The rule went with this tag.
const fn until(minor: u8, patch: u8) -> Rule {
    since(0, 0).until(minor, patch)
}

/// Whether a tag comes before another.
pub(super) const fn is_before(a: (u8, u8), b: (u8, u8)) -> bool {
    a.0 < b.0 || a.0 == b.0 && a.1 < b.1
}

impl Rule {
    /// The same, and gone with this tag.
    const fn until(self, minor: u8, patch: u8) -> Self {
        Self { from: self.from, until: (minor, patch) }
    }

    /// Whether the release with a tag has the rule.
    pub(super) const fn holds(self, tag: (u8, u8)) -> bool {
        !is_before(tag, self.from) && is_before(tag, self.until)
    }
}

// tuning/: the rewritten tuner.

/// Kernels on symmetric windows are there.
pub(crate) const SYMMETRIC_KERNELS: Rule = since(27, 3);
/// Their model counts whole kilobytes.
pub(crate) const KERNELS_ROUND: Rule = since(28, 3);
/// Those that carry flags run where the algorithm would have too.
pub(crate) const LL_KERNELS_ASK: Rule = since(29, 2).until(29, 7);
/// One gathers between nodes, over rails.
pub(crate) const RAIL_GATHERS: Rule = since(29, 2);
/// Others scatter.
pub(crate) const RAIL_SCATTERS: Rule = since(29, 7);
/// The switch multicasts for three ranks and more.
pub(crate) const MULTICAST_3: Rule = since(29, 7);
/// Some move blocks by the GPU's own engine; until 2.31 they have to be asked for.
pub(crate) const TMA_KERNELS: Rule = since(30, 3);
/// They average too.
pub(crate) const KERNELS_AVERAGE: Rule = since(30, 3);
/// They scatter in chunks of 128 KiB, and faster; before, 64 KiB.
pub(crate) const RAIL_CHUNKS: Rule = since(30, 7);
/// Each candidate has a model of its cost, symmetric kernels and copy engines among them.
pub(crate) const COST_MODELS: Rule = since(31, 2);
/// Symmetric kernels have fitted rows, GPUs of Rubin's kind a pipeline; read before the release.
pub(crate) const FITTED_KERNELS: Rule = since(32, 6);

// graph/tuning.cc: bandwidths and latencies.

/// Blackwell has constants, rates and channels of its own.
pub(crate) const BLACKWELL: Rule = since(25, 1);
/// A tree that is neither balanced nor split reaches 85 %.
pub(crate) const TREE_SHARE: Rule = since(18, 3);
/// That is decided by the worst tree of all ranks, and not by one's own.
pub(crate) const WORST_TREE: Rule = since(26, 2);
/// NVLS reaches 5/6 of its rate; before, 3/4.
pub(crate) const NVLS_FIVE_SIXTHS: Rule = since(18, 3);
/// NVLS moves what the slower of both sides does, gathers, and its latency is that of its steps.
pub(crate) const NVLS_STEPS: Rule = since(19, 1);
/// NVLS gathers at most at 90 % of the network's rate, and where heads are enough.
pub(crate) const NVLS_GATHER_RATE: Rule = since(27, 3);
/// NVLS is priced by channels, efficiency and the ring's ratio.
pub(crate) const NVLS_BY_CHANNELS: Rule = since(28, 3);
/// Direct in-network reduction gathers.
pub(crate) const DIRECT_GATHERS: Rule = since(20, 3);
/// PAT is there, lists of algorithms know it, and only rings convert gathering's rate.
pub(crate) const PAT: Rule = since(23, 4);
/// PAT reaches 75 %; before, 85 %.
pub(crate) const PAT_THREE_QUARTERS: Rule = since(24, 3);
/// PAT asks for compute capability 60.
pub(crate) const PAT_ASKS_GPU: Rule = since(26, 2);
/// PAT's base latency stands in the table, and no longer in the formula.
pub(crate) const PAT_BASE: Rule = since(28, 3);
/// Rings move half their rate in LL, whatever the collective.
pub(crate) const RING_LL_HALF: Rule = since(21, 5);
/// Rings reach 92 % in LL128 with one rank per node too; before, 70 %.
pub(crate) const RING_LL128_ALONE: Rule = since(23, 4);
/// A rank per node pays the tree's latency between nodes, and a ring's all-reduce 2(N − 1) of them.
pub(crate) const LATENCY_BETWEEN: Rule = since(23, 4);
/// Processors of several makers cap LL as AMD's do.
pub(crate) const MIXED_CPUS: Rule = since(24, 3);

// graph/tuning.cc: what may run.

/// LL128 trusts NVLink through another GPU.
pub(crate) const LL128_NVB: Rule = since(18, 3);
/// LL128 trusts compute capability 100 and 120.
pub(crate) const LL128_BLACKWELL: Rule = since(25, 1);
/// LL128 trusts any compute capability from 70 on.
pub(crate) const LL128_ALL_GPUS: Rule = since(27, 3);
/// LL128 trusts NICs behind a processor that is linked chip to chip.
pub(crate) const LL128_C2C: Rule = since(27, 3);
/// LL128 trusts GPUs of several kinds, Hopper and later.
pub(crate) const LL128_MIXED_GPUS: Rule = since(30, 3);
/// A disabled ring is left to all but all-reduce.
pub(crate) const RING_STAYS: Rule = until(19, 1);
/// Rings are kept for collectives for which nothing else is left.
pub(crate) const RING_BACKUP: Rule = since(19, 1).until(24, 3);
/// They are kept in the protocols alone that may run.
pub(crate) const RING_BACKUP_PROTOCOLS: Rule = since(22, 3).until(24, 3);
/// Rings and trees come back where nothing is left and no plugin reduces.
pub(crate) const RING_AND_TREE_BACK: Rule = until(24, 3);
/// Lists of algorithms and protocols may differ by collective, and unknown names are errors.
pub(crate) const LISTS_BY_COLLECTIVE: Rule = since(24, 3);
/// In-network reduction along chains asks the plugin whether it can.
pub(crate) const ASKS_CHAIN: Rule = since(30, 7);

// enqueue.cc: the choice.

/// Sizes below 64 bytes have no class; a rank alone is told a time of nothing; trees get 640 threads.
pub(crate) const ONE_TABLE: Rule = since(22, 3);
/// Anything is chosen, however slow.
pub(crate) const NO_SLOWEST: Rule = since(29, 2);
/// NVLS asks whether the communicator has it, and not the call alone.
pub(crate) const NVLS_ASKS_COMM: Rule = since(19, 1);
/// All-gather asks nothing of NVLS, neither the communicator nor the type.
pub(crate) const NVLS_GATHERS_UNASKED: Rule = since(19, 1).until(27, 3);
/// It does, between.
pub(crate) const NVLS_GATHERS_ASKED: Rule = since(20, 3).until(22, 3);
/// All-gather asks the communicator, and takes any type.
pub(crate) const NVLS_GATHERS_ANY: Rule = since(27, 3);
/// NVLS does not gather over several nodes.
pub(crate) const NVLS_GATHERS_AT_HOME: Rule = since(19, 1).until(27, 3);
/// NVLS does not gather for more than 32 ranks per node.
pub(crate) const NVLS_32_RANKS: Rule = since(27, 3);
/// NVLS gathers for at most 32 ranks in all.
pub(crate) const NVLS_32_RANKS_IN_ALL: Rule = since(25, 1).until(27, 3);
/// Direct in-network reduction serves at most eight ranks per node, by its own rule.
pub(crate) const DIRECT_8_RANKS: Rule = since(23, 4);
/// So does that along chains.
pub(crate) const CHAIN_8_RANKS: Rule = since(28, 3);
/// Rings are a last resort for 8-bit floats on more than eight ranks.
pub(crate) const FP8_AVOIDS_RINGS: Rule = since(24, 3);
/// `NVLSTree` has the tree's factors on Blackwell.
pub(crate) const NVLS_TREE_FACTORS: Rule = since(29, 2);
/// NVLS over several nodes has no more channels than the communicator.
pub(crate) const NVLS_WITHIN_CHANNELS: Rule = since(28, 3);
/// The scheduler fills channels one after another, from a least traffic on: 512 bytes.
pub(crate) const FILLS_CHANNELS: Rule = since(22, 3);
/// Its least is 16 KiB.
pub(crate) const CHANNEL_16_KIB: Rule = since(23, 4);
/// Its least is 32 KiB.
pub(crate) const CHANNEL_32_KIB: Rule = since(29, 2);

// init.cc, graph/connect.cc, transport/nvls.cc: start-up.

/// Channels are 64 at most; before, 32.
pub(crate) const CHANNELS_64: Rule = since(25, 1);
/// Fast rings get twice the channels below 16 of them; before, up to 32 in all.
pub(crate) const FAST_RINGS_BELOW_16: Rule = since(20, 3);
/// Channels are raised to NVLS's.
pub(crate) const RAISED_TO_NVLS: Rule = since(20, 3).until(28, 3);
/// Calls start from the channels before that.
pub(crate) const CALLS_NOT_RAISED: Rule = since(20, 3).until(22, 3);
/// Two GPUs are enough for NVLS.
pub(crate) const NVLS_TWO_GPUS: Rule = since(28, 7);
/// NVLS is for one node.
pub(crate) const NVLS_ONE_NODE: Rule = since(20, 3).until(21, 5);
/// NVLS has 24 channels on one node of Blackwell, 32 on several.
pub(crate) const NVLS_24_CHANNELS: Rule = since(27, 3);
/// NVLS has channels by the slowest NIC of all ranks.
pub(crate) const NVLS_BY_NIC: Rule = since(30, 3);
/// `NCCL_NVLS_NCHANNELS` is asked where it is negative too.
pub(crate) const NVLS_CHANNELS_SIGNED: Rule = until(25, 1);
/// `NCCL_COLLNET_ENABLE` is a number; before, the text `1`.
pub(crate) const COLLNET_NUMBER: Rule = since(27, 3);
/// More than eight ranks per node switch in-network reduction off.
pub(crate) const COLLNET_8_RANKS: Rule = until(23, 4);

// graph/topo.cc, graph/xml.cc: nodes and links.

/// Links chip to chip are read.
pub(crate) const C2C: Rule = since(19, 1);
/// They are of a type of their own; before, of NVLink's.
pub(crate) const C2C_TYPE: Rule = since(26, 2);
/// Paths behind them to NICs have a type of their own.
pub(crate) const P2C_TYPE: Rule = since(27, 3);
/// That type is nearer than another GPU's NIC.
pub(crate) const P2C_BEFORE_PXN: Rule = since(27, 5);
/// Hosts of a file are told apart.
pub(crate) const HOSTS: Rule = since(21, 5);
/// AMD's processors have 16 GB/s between them; before, no limit.
pub(crate) const AMD_SYS: Rule = since(19, 1);
/// Intel's newer processors are known.
pub(crate) const SAPPHIRE_RAPIDS: Rule = since(26, 2);
/// Hopper's NVLink carries 20.6 GB/s; before, 20.
pub(crate) const HOPPER_NVLINK: Rule = since(20, 3);
/// Blackwell's carries 40.1; before, 40.
pub(crate) const BLACKWELL_NVLINK: Rule = since(27, 5);
/// Broadcom switches are told by their make, two generations, and not by the same number.
pub(crate) const BROADCOM_MAKE: Rule = since(20, 3);
/// Behind a flattened switch all are looked at again; before, all but the first.
pub(crate) const BROADCOM_FROM_FIRST: Rule = since(27, 3);
/// Links between PCI switches are read.
pub(crate) const PCI_LINKS: Rule = since(22, 3);
/// Functions of a device are NICs of their own, and those below a processor one each NUMA node.
pub(crate) const NIC_FUNCTIONS: Rule = since(24, 3);
/// A `guid` without 0x is read; before, it is 0, so that all such NICs are one.
pub(crate) const PLAIN_GUID: Rule = since(28, 7);
/// Ports that carry no traffic of collectives are passed over.
pub(crate) const NET_CARRIES: Rule = since(29, 7);
/// Rails and planes are read.
pub(crate) const RAILS: Rule = since(30, 7);
/// GPUs as devices are nodes of their own.
pub(crate) const DEVICES: Rule = since(30, 3);
/// NUMA nodes up to 576, and links as many.
pub(crate) const MANY_NODES: Rule = since(25, 1);
/// Nodes up to 640.
pub(crate) const MORE_NODES: Rule = since(30, 3);
/// Links up to 128; before, 32.
pub(crate) const MANY_LINKS: Rule = since(19, 1);

// graph/paths.cc.

/// The way back is a link of the same type.
pub(crate) const SAME_WAY_BACK: Rule = since(19, 1);
/// What is not reached is far; before, near.
pub(crate) const STARTS_FAR: Rule = since(21, 5);
/// Nearer paths are taken before wider ones.
pub(crate) const NEARER_FIRST: Rule = since(30, 7);
/// GPUs reach each other's memory over one PCI switch after another on any processor; before, on
/// some of them over processors too.
pub(crate) const P2P_PXB: Rule = since(23, 4);
/// A processor that is reached has hops.
pub(crate) const CPU_HOPS: Rule = since(23, 4);
/// The nearest processor is the one with the fastest path.
pub(crate) const CPU_FASTEST: Rule = since(30, 7);
/// Reading is doubted on GPUs before Ampere only.
pub(crate) const GDR_READ_AMPERE: Rule = since(19, 1);
/// GPUs take turns at the nearest NICs by their numbers; before, by lists of NICs.
pub(crate) const OWN_NICS: Rule = since(18, 5);
/// A NIC's own GPU is one that is near to it; before, any that has it as its own.
pub(crate) const OWN_GPU_IS_NEAR: Rule = since(19, 1);
/// Turns begin again after as many GPUs as share.
pub(crate) const TURNS_AGAIN: Rule = since(30, 7);
/// `NCCL_NETDEVS_POLICY` is read.
pub(crate) const NICS_POLICY: Rule = since(28, 3);
/// Its most ends the list of NICs.
pub(crate) const NICS_POLICY_ENDS: Rule = since(28, 7);
/// Only what is nearer than a host bridge is led over the processor.
pub(crate) const DETOUR_NEAR: Rule = since(21, 5);
/// Two ports of one adapter may be one NIC.
pub(crate) const PORTS_MERGED: Rule = since(20, 3).until(24, 3);
/// NICs may be used as one: ports of one adapter, and what the environment says.
pub(crate) const NIC_FUSION: Rule = since(24, 3);
/// NICs that stay alone keep their numbers, and ports of one device stay on it as one.
pub(crate) const FUSES_IN_PLACE: Rule = since(27, 3);
/// What several are used as has a device of its own on a processor too, and the lanes of all.
pub(crate) const FUSED_LANES: Rule = since(28, 3);
/// Switches between keep theirs, and NICs of two processors are refused.
pub(crate) const FUSED_LANES_ALONE: Rule = since(30, 7);
/// Eight at most; before, four.
pub(crate) const FUSES_8: Rule = since(30, 3);
/// Links between AMD's processors go by their generation, and more of Intel's are of the fastest.
pub(crate) const CPU_GENERATIONS: Rule = since(31, 2);
/// `NCCL_NET_GDR_C2C` is read, 0 by default.
pub(crate) const GDR_C2C: Rule = since(26, 2);
/// It is 1 by default.
pub(crate) const GDR_C2C_ON: Rule = since(27, 3);
/// Paths over a chip and a host bridge are merged, wherever they are led.
pub(crate) const P2C_MERGED: Rule = since(27, 5);
/// They are for a GPU's nearest NICs alone, and what a NIC reaches is bounded by them.
pub(crate) const P2C_NEAREST: Rule = since(29, 2);
/// `NCCL_PXN_C2C` is read, 0 by default.
pub(crate) const PXN_C2C: Rule = since(27, 3);
/// It is 1 by default.
pub(crate) const PXN_C2C_ON: Rule = since(28, 3);
/// It is not used before another way through another GPU.
pub(crate) const PXN_BEHIND_PXN: Rule = since(27, 6);
/// The other GPU's memory has to be read by its NIC.
pub(crate) const PXN_READS: Rule = since(30, 3);
/// NICs stay where a job is on one node.
pub(crate) const NICS_STAY: Rule = since(28, 7);

// graph/search.cc: one search.

/// Trees ask for the type of the way back.
pub(crate) const TREES_BACK: Rule = since(18, 3);
/// NVLS is better with more channels.
pub(crate) const NVLS_MORE_CHANNELS: Rule = since(18, 3);
/// It is better too at a higher rate of all channels.
pub(crate) const NVLS_RATE: Rule = since(19, 1);
/// Channels that stay at one NIC are worth 15 % more.
pub(crate) const CROSSING_COSTS: Rule = until(20, 3);
/// A channel that pairs with the one before uses its NICs.
pub(crate) const PAIRED_NICS: Rule = since(20, 3);
/// Only rings that were tried across NICs pair, and their number is 2.
pub(crate) const CROSSED_IS_2: Rule = since(23, 4);
/// Nothing goes over a path that is none.
pub(crate) const LOST_PATHS_FAIL: Rule = since(27, 3);
/// Behind a switch neighbours come first.
pub(crate) const NEIGHBOURS_FIRST: Rule = since(19, 3);
/// Behind a switch there are no others.
pub(crate) const NEIGHBOURS_ONLY: Rule = since(21, 5);
/// The attempt in PCI order is left out behind a switch.
pub(crate) const PCI_ORDER_UNSWITCHED: Rule = since(19, 3);
/// The way from a place to itself always succeeds.
pub(crate) const NO_HOPS_SUCCEED: Rule = until(21, 5);
/// A channel begins at GPUs near a NIC; before, at those with the fastest way, if that carries it.
pub(crate) const BEGINS_NEAR: Rule = since(27, 3);
/// GPUs with the fastest way take turns; before, those with free PCI links come first.
pub(crate) const BEGINS_IN_TURN: Rule = since(19, 1);
/// The NIC's own GPU comes first, and channels are repeated only where all have to be alike.
pub(crate) const BEGINS_AT_OWN: Rule = since(27, 5);
/// Each channel begins its look at another NIC.
pub(crate) const NICS_IN_TURN: Rule = since(19, 1);
/// GPUs' own NICs come first in the list.
pub(crate) const OWN_NICS_FIRST: Rule = since(18, 5);
/// On several hosts they come channel by channel.
pub(crate) const NICS_BY_CHANNEL: Rule = since(27, 5);
/// Heads of NVLS are not looked for like the first GPUs of rings.
pub(crate) const HEADS: Rule = since(18, 3);
/// Heads are those of their NIC, and not of its number.
pub(crate) const HEADS_OF_NICS: Rule = since(18, 5);
/// The way from NIC to head is taken.
pub(crate) const HEADS_CHARGED: Rule = since(19, 1);
/// A head that is used already is passed over, and NICs are looked at until one has another.
pub(crate) const HEADS_ONCE: Rule = since(22, 3);
/// Hosts may ask for rails by host, `NCCL_MNNVL_RAIL_PER_HOST`.
pub(crate) const RAIL_PER_HOST: Rule = since(28, 7);

// graph/search.cc: the searches for one graph.

/// All searches together take 327,680 steps.
pub(crate) const STEPS_327_680: Rule = since(18, 3).until(19, 1);
/// They take 524,288; before both, 262,144.
pub(crate) const STEPS_524_288: Rule = since(19, 1);
/// Balanced trees give way to trees from Hopper on.
pub(crate) const TREES_SIMPLIFY: Rule = since(18, 3);
/// The least channels bound the fastest rate.
pub(crate) const TOTAL_BOUNDS_SPEED: Rule = since(18, 3);
/// A GPU alone has no limit; before, its limit was none, or nothing over nothing.
pub(crate) const ALONE_UNLIMITED: Rule = since(21, 5);
/// Channels run twice by how fast they are and how many.
pub(crate) const DUPLICATES_BY_COUNT: Rule = since(18, 3);
/// They do before rates are raised.
pub(crate) const DUPLICATES_FIRST: Rule = since(19, 3);
/// Rates of rings are raised too.
pub(crate) const RINGS_RAISED: Rule = since(19, 3);
/// NVLS's rate between nodes is raised.
pub(crate) const NVLS_RAISED: Rule = since(19, 1);
/// And no other of NVLS, since that is a pass of its own.
pub(crate) const NVLS_RAISED_ONCE: Rule = since(19, 1).until(19, 3);
/// `NCCL_CROSS_NIC=1` starts across NICs, and 2 tries it.
pub(crate) const CROSSES_FROM_START: Rule = since(19, 1);
/// Channels are not mixed over AMD's processors.
pub(crate) const AMD_STAYS_SAME: Rule = since(19, 1);
/// Types of paths are tried from the nearest to the farthest that there are.
pub(crate) const TYPES_OF_MACHINE: Rule = since(25, 1);
/// GPUs before Hopper may go to any NIC.
pub(crate) const AMPERE_ANY_NIC: Rule = since(29, 2);
/// NVLS has as many heads as GPUs.
pub(crate) const NVLS_HEADS: Rule = since(19, 1);
/// It has 32 at most.
pub(crate) const NVLS_32_HEADS: Rule = since(25, 1);
/// In-network reduction by all GPUs at once has a graph of its own.
pub(crate) const DIRECT_GRAPH: Rule = since(22, 3);
/// It has eight heads at most.
pub(crate) const DIRECT_8_HEADS: Rule = since(25, 1);
/// Two groups of GPUs over NVLink get two rings.
pub(crate) const SPLIT_TWO_RINGS: Rule = since(26, 2);
/// What is found where nothing is found uses each GPU's first NIC.
pub(crate) const FALLS_BACK_TO_OWN: Rule = since(29, 2);

// graph/search.cc: rates that are tried, by their GB/s; first Hopper's, then Blackwell's.

pub(crate) const SPEED_50: Rule = since(19, 1);
pub(crate) const SPEED_11: Rule = since(21, 5);
pub(crate) const SPEED_22: Rule = since(19, 3);
pub(crate) const SPEED_20: Rule = since(18, 3);
pub(crate) const SPEED_45: Rule = since(29, 2);
pub(crate) const SPEED_18: Rule = since(27, 3);
pub(crate) const SPEED_96: Rule = since(27, 6);
pub(crate) const SPEED_86: Rule = since(30, 3);
pub(crate) const SPEED_80: Rule = since(29, 7);
/// In place of 48.
pub(crate) const SPEED_47_9: Rule = since(27, 3).until(27, 5);
pub(crate) const SPEED_45_1: Rule = since(27, 5);
pub(crate) const SPEED_45_0: Rule = until(27, 5);

// What is printed.

/// Ids are hexadecimal in the log.
#[cfg(feature = "cli")]
pub(crate) const HEX_IDS: Rule = since(21, 5);
/// NICs have host and number there.
pub(crate) const NICS_BY_HOST: Rule = since(23, 4);
/// Of NVLS the log names the head, and GPUs are named by their addresses.
#[cfg(feature = "cli")]
pub(crate) const BUS_IDS: Rule = since(27, 5);
/// Graphs in XML have ranks.
#[cfg(feature = "cli")]
pub(crate) const DUMPS_RANKS: Rule = since(30, 3);
