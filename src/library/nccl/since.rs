//! The release of NCCL from which a rule holds, for every rule that only some releases have.
//!
//! Code checks `version.has(since::HOSTS)` and never a release. A new release needs a row in
//! [`super::version`], a line here for each rule that came with it, and its constants.
//!
//! Source: NVIDIA/nccl, the tags v2.18.1-1 to v2.30.7-1, compared file by file under `src/`; from
//! 2.31.2 on also the released libraries.

/// The releases that have a rule: from one tag on, and before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    from: (u8, u8),
    until: (u8, u8),
}

/// A rule that came with this tag: minor version and patch level.
const fn since(minor: u8, patch: u8) -> Rule {
    Rule { from: (minor, patch), until: (u8::MAX, 0) }
}

/// A rule that was removed with this tag.
const fn until(minor: u8, patch: u8) -> Rule {
    since(0, 0).until(minor, patch)
}

/// Whether a tag comes before another.
pub(super) const fn is_before(a: (u8, u8), b: (u8, u8)) -> bool {
    a.0 < b.0 || a.0 == b.0 && a.1 < b.1
}

impl Rule {
    /// The same rule, removed with this tag.
    const fn until(self, minor: u8, patch: u8) -> Self {
        Self { from: self.from, until: (minor, patch) }
    }

    /// Whether the release with a tag has the rule.
    pub(super) const fn holds(self, tag: (u8, u8)) -> bool {
        !is_before(tag, self.from) && is_before(tag, self.until)
    }
}

/// It loads tuners that write into its table of costs (`ncclTuner_v3_t`).
pub(crate) const TUNER_PLUGINS: Rule = since(22, 3);

// tuning/: the rewritten tuner.

/// Kernels on symmetric windows exist.
pub(crate) const SYMMETRIC_KERNELS: Rule = since(27, 3);
/// The model of symmetric kernels counts whole kilobytes.
pub(crate) const KERNELS_ROUND: Rule = since(28, 3);
/// A symmetric kernel that carries flags runs only where the algorithm would use them too.
pub(crate) const LL_KERNELS_ASK: Rule = since(29, 2).until(29, 7);
/// On Blackwell, copy engines gather above a size before any kernel is asked.
pub(crate) const COPIES_GATHER: Rule = since(29, 2);
/// One symmetric kernel gathers between nodes, over rails.
pub(crate) const RAIL_GATHERS: Rule = since(29, 2);
/// Other symmetric kernels scatter over rails.
pub(crate) const RAIL_SCATTERS: Rule = since(29, 7);
/// The switch multicasts for three or more ranks.
pub(crate) const MULTICAST_3: Rule = since(29, 7);
/// Some symmetric kernels move blocks with the GPU's own engine (TMA); until 2.31 only on request.
pub(crate) const TMA_KERNELS: Rule = since(30, 3);
/// Symmetric kernels also compute averages.
pub(crate) const KERNELS_AVERAGE: Rule = since(30, 3);
/// Rail kernels scatter in chunks of 128 KiB, and faster; before, in chunks of 64 KiB.
pub(crate) const RAIL_CHUNKS: Rule = since(30, 7);
/// Each candidate has a cost model, also symmetric kernels and copy engines.
pub(crate) const COST_MODELS: Rule = since(31, 2);
/// Kernels that gather on Blackwell have fitted rows.
pub(crate) const FITTED_KERNELS: Rule = since(32, 3);
/// Other symmetric kernels have fitted rows too, and Rubin-class GPUs a pipeline model; read before
/// the release.
pub(crate) const FITTED_REDUCTIONS: Rule = since(32, 6);
/// A kernel through the switch has no more blocks than saturate it.
pub(crate) const SWITCH_BLOCKS: Rule = until(32, 6);
/// Blocks over rails are charged for in double precision, and on Blackwell one kernel pays more.
pub(crate) const RAIL_CHARGE: Rule = since(32, 6);
/// On B300, all-gather over TMA is slower with fewer blocks than ranks.
pub(crate) const SPARSE_BLOCKS: Rule = since(32, 3).until(32, 6);

// graph/tuning.cc: bandwidths and latencies.

/// Blackwell has its own constants, rates and channels.
pub(crate) const BLACKWELL: Rule = since(25, 1);
/// A tree that is neither balanced nor split reaches 85 %.
pub(crate) const TREE_SHARE: Rule = since(18, 3);
/// The worst tree of all ranks decides about that, not the rank's own tree.
pub(crate) const WORST_TREE: Rule = since(26, 2);
/// NVLS reaches 5/6 of its rate; before, 3/4.
pub(crate) const NVLS_FIVE_SIXTHS: Rule = since(18, 3);
/// NVLS moves what the slower of both sides moves, it gathers, and its latency is that of its
/// steps.
pub(crate) const NVLS_STEPS: Rule = since(19, 1);
/// NVLS gathers at 90 % of the network's rate at most, and only if there are enough heads.
pub(crate) const NVLS_GATHER_RATE: Rule = since(27, 3);
/// NVLS is priced by channels, efficiency and the ring's ratio.
pub(crate) const NVLS_BY_CHANNELS: Rule = since(28, 3);
/// Direct in-network reduction supports gathering.
pub(crate) const DIRECT_GATHERS: Rule = since(20, 3);
/// PAT exists, lists of algorithms know it, and only rings convert the rate of gathering.
pub(crate) const PAT: Rule = since(23, 4);
/// PAT reaches 75 %; before, 85 %.
pub(crate) const PAT_THREE_QUARTERS: Rule = since(24, 3);
/// PAT needs compute capability 60.
pub(crate) const PAT_ASKS_GPU: Rule = since(26, 2);
/// PAT's base latency is in the table, no longer in the formula.
pub(crate) const PAT_BASE: Rule = since(28, 3);
/// Rings move half their rate in LL, for every collective.
pub(crate) const RING_LL_HALF: Rule = since(21, 5);
/// Rings reach 92 % in LL128 also with one rank per node; before, 70 %.
pub(crate) const RING_LL128_ALONE: Rule = since(23, 4);
/// With one rank per node a step between nodes has the tree's latency. A ring's all-reduce has
/// 2(N − 1) steps between nodes.
pub(crate) const LATENCY_BETWEEN: Rule = since(23, 4);
/// Processors of several vendors cap LL as AMD's do.
pub(crate) const MIXED_CPUS: Rule = since(24, 3);

// graph/tuning.cc: what may run.

/// LL128 trusts NVLink through another GPU.
pub(crate) const LL128_NVB: Rule = since(18, 3);
/// LL128 trusts compute capability 100 and 120.
pub(crate) const LL128_BLACKWELL: Rule = since(25, 1);
/// LL128 trusts any compute capability from 70 on.
pub(crate) const LL128_ALL_GPUS: Rule = since(27, 3);
/// LL128 trusts NICs behind a processor with a chip-to-chip link.
pub(crate) const LL128_C2C: Rule = since(27, 3);
/// LL128 trusts mixed GPUs, if they are Hopper or later.
pub(crate) const LL128_MIXED_GPUS: Rule = since(30, 3);
/// A disabled ring remains enabled for all collectives except all-reduce.
pub(crate) const RING_STAYS: Rule = until(19, 1);
/// Rings are kept for collectives that have no other algorithm left.
pub(crate) const RING_BACKUP: Rule = since(19, 1).until(24, 3);
/// They are kept only in the enabled protocols.
pub(crate) const RING_BACKUP_PROTOCOLS: Rule = since(22, 3).until(24, 3);
/// Rings and trees are enabled again if nothing is left and no plugin reduces.
pub(crate) const RING_AND_TREE_BACK: Rule = until(24, 3);
/// Lists of algorithms and protocols may differ by collective, and unknown names are errors.
pub(crate) const LISTS_BY_COLLECTIVE: Rule = since(24, 3);
/// For in-network reduction along chains NCCL asks the plugin whether it supports it.
pub(crate) const ASKS_CHAIN: Rule = since(30, 7);

// enqueue.cc: the choice.

/// Sizes below 64 bytes have no class; a single rank gets a time of 0; trees get 640 threads.
pub(crate) const ONE_TABLE: Rule = since(22, 3);
/// Any candidate may be chosen, however slow.
pub(crate) const NO_SLOWEST: Rule = since(29, 2);
/// NVLS also depends on whether the communicator has it, not only on the call.
pub(crate) const NVLS_ASKS_COMM: Rule = since(19, 1);
/// All-gather with NVLS depends on neither the communicator nor the type.
pub(crate) const NVLS_GATHERS_UNASKED: Rule = since(19, 1).until(27, 3);
/// In these releases it depends on both.
pub(crate) const NVLS_GATHERS_ASKED: Rule = since(20, 3).until(22, 3);
/// All-gather with NVLS depends on the communicator and supports any type.
pub(crate) const NVLS_GATHERS_ANY: Rule = since(27, 3);
/// NVLS does not gather with several nodes.
pub(crate) const NVLS_GATHERS_AT_HOME: Rule = since(19, 1).until(27, 3);
/// NVLS does not gather with more than 32 ranks per node.
pub(crate) const NVLS_32_RANKS: Rule = since(27, 3);
/// NVLS gathers with at most 32 ranks in all.
pub(crate) const NVLS_32_RANKS_IN_ALL: Rule = since(25, 1).until(27, 3);
/// Direct in-network reduction has its own limit of eight ranks per node.
pub(crate) const DIRECT_8_RANKS: Rule = since(23, 4);
/// In-network reduction along chains has it too.
pub(crate) const CHAIN_8_RANKS: Rule = since(28, 3);
/// 8-bit floats exist; rings of more than eight ranks are a last resort for their sums.
pub(crate) const FP8: Rule = since(24, 3);
/// GPUs that do not add them move them.
pub(crate) const FP8_MOVES_ANYWHERE: Rule = since(28, 3);
/// `NVLSTree` has the tree's factors on Blackwell.
pub(crate) const NVLS_TREE_FACTORS: Rule = since(29, 2);
/// NVLS with several nodes has no more channels than the communicator.
pub(crate) const NVLS_WITHIN_CHANNELS: Rule = since(28, 3);
/// The scheduler fills channels one after another, each with a least traffic: 512 bytes.
pub(crate) const FILLS_CHANNELS: Rule = since(22, 3);
/// The scheduler's least traffic is 16 KiB.
pub(crate) const CHANNEL_16_KIB: Rule = since(23, 4);
/// The scheduler's least traffic is 32 KiB.
pub(crate) const CHANNEL_32_KIB: Rule = since(29, 2);

// init.cc, graph/connect.cc, transport/nvls.cc: start-up.

/// At most 64 channels; before, 32.
pub(crate) const CHANNELS_64: Rule = since(25, 1);
/// Fast rings get twice the channels if there are fewer than 16; before, up to 32 in all.
pub(crate) const FAST_RINGS_BELOW_16: Rule = since(20, 3);
/// The number of channels is raised to that of NVLS.
pub(crate) const RAISED_TO_NVLS: Rule = since(20, 3).until(28, 3);
/// Calls start from the number of channels before that.
pub(crate) const CALLS_NOT_RAISED: Rule = since(20, 3).until(22, 3);
/// Two GPUs are enough for NVLS.
pub(crate) const NVLS_TWO_GPUS: Rule = since(28, 7);
/// NVLS is used on one node only.
pub(crate) const NVLS_ONE_NODE: Rule = since(20, 3).until(21, 5);
/// NVLS has 24 channels on one node of Blackwell, and 32 on several.
pub(crate) const NVLS_24_CHANNELS: Rule = since(27, 3);
/// On Rubin, NVLS has 48 channels on one node, and 64 on several if no NIC decides.
pub(crate) const NVLS_48_CHANNELS: Rule = since(32, 3);
/// The number of NVLS channels depends on the slowest NIC of all ranks.
pub(crate) const NVLS_BY_NIC: Rule = since(30, 3);
/// `NCCL_NVLS_NCHANNELS` is used even if it is negative.
pub(crate) const NVLS_CHANNELS_SIGNED: Rule = until(25, 1);
/// It is used only if it is above 0.
pub(crate) const NVLS_CHANNELS_POSITIVE: Rule = since(27, 3);
/// `NCCL_COLLNET_ENABLE` is read as a number; before, as the text `1`.
pub(crate) const COLLNET_NUMBER: Rule = since(27, 3);
/// In-network reduction is off with more than eight ranks per node.
pub(crate) const COLLNET_8_RANKS: Rule = until(23, 4);

// graph/topo.cc, graph/xml.cc: nodes and links.

/// Chip-to-chip links are read.
pub(crate) const C2C: Rule = since(19, 1);
/// Chip-to-chip links have their own type; before, NVLink's.
pub(crate) const C2C_TYPE: Rule = since(26, 2);
/// Paths over them to NICs have their own type.
pub(crate) const P2C_TYPE: Rule = since(27, 3);
/// That type is nearer than the NIC of another GPU.
pub(crate) const P2C_BEFORE_PXN: Rule = since(27, 5);
/// The hosts of a file are distinguished.
pub(crate) const HOSTS: Rule = since(21, 5);
/// AMD's processors have 16 GB/s between them; before, there was no limit.
pub(crate) const AMD_SYS: Rule = since(19, 1);
/// Intel's newer processors are known.
pub(crate) const SAPPHIRE_RAPIDS: Rule = since(26, 2);
/// Hopper's NVLink carries 20.6 GB/s; before, 20.
pub(crate) const HOPPER_NVLINK: Rule = since(20, 3);
/// Blackwell's NVLink carries 40.1 GB/s; before, 40.
pub(crate) const BLACKWELL_NVLINK: Rule = since(27, 5);
/// Broadcom switches are recognized by their make, in two generations, and not by an equal number.
pub(crate) const BROADCOM_MAKE: Rule = since(20, 3);
/// After flattening a switch, all switches are checked again; before, all but the first.
pub(crate) const BROADCOM_FROM_FIRST: Rule = since(27, 3);
/// Links between PCI switches are read.
pub(crate) const PCI_LINKS: Rule = since(22, 3);
/// Each function of a device is a NIC.
pub(crate) const NIC_FUNCTIONS: Rule = since(24, 3);
/// A `guid` without 0x is read; before, it became 0, so that all such NICs were one.
pub(crate) const PLAIN_GUID: Rule = since(28, 7);
/// Ports that carry no traffic of collectives are skipped.
pub(crate) const NET_CARRIES: Rule = since(29, 7);
/// Rails and planes are read.
pub(crate) const RAILS: Rule = since(30, 7);
/// A NIC without them gets both: the rail by its chip, the plane by its port.
pub(crate) const RAILS_MADE_UP: Rule = since(32, 3);
/// GPUs as devices are separate nodes.
pub(crate) const DEVICES: Rule = since(30, 3);
/// Up to 576 NUMA nodes, and as many links.
pub(crate) const MANY_NODES: Rule = since(25, 1);
/// Up to 640 nodes.
pub(crate) const MORE_NODES: Rule = since(30, 3);
/// Up to 128 links; before, 32.
pub(crate) const MANY_LINKS: Rule = since(19, 1);

// graph/paths.cc.

/// The link back must have the same type.
pub(crate) const SAME_WAY_BACK: Rule = since(19, 1);
/// Whatever has not been reached is far; before, near.
pub(crate) const STARTS_FAR: Rule = since(21, 5);
/// Nearer paths are preferred to wider ones.
pub(crate) const NEARER_FIRST: Rule = since(30, 7);
/// GPUs reach each other's memory over several PCI switches on any processor; before, on some
/// processors over the processor too.
pub(crate) const P2P_PXB: Rule = since(23, 4);
/// A reached processor counts hops.
pub(crate) const CPU_HOPS: Rule = since(23, 4);
/// The nearest processor is the one with the fastest path.
pub(crate) const CPU_FASTEST: Rule = since(30, 7);
/// Whether a NIC may read is checked only on GPUs before Ampere.
pub(crate) const GDR_READ_AMPERE: Rule = since(19, 1);
/// GPUs take turns at their nearest NICs by number; before, by lists of NICs.
pub(crate) const OWN_NICS: Rule = since(18, 5);
/// A NIC's own GPU must be near it; before, any GPU that has the NIC as its own.
pub(crate) const OWN_GPU_IS_NEAR: Rule = since(19, 1);
/// The turns start again after as many GPUs as share the NICs.
pub(crate) const TURNS_AGAIN: Rule = since(30, 7).until(31, 2);
/// They do so only on GPUs from Blackwell on that have a ConnectX-8 among their NICs.
pub(crate) const TURNS_AGAIN_CONNECTX_8: Rule = since(31, 2).until(32, 3);
/// GPUs take turns at rails, and a rail's NICs follow one another by plane.
pub(crate) const RAILS_IN_TURN: Rule = since(32, 3);
/// `NCCL_NETDEVS_POLICY` is read.
pub(crate) const NICS_POLICY: Rule = since(28, 3);
/// Its maximum ends the list of NICs.
pub(crate) const NICS_POLICY_ENDS: Rule = since(28, 7);
/// Only paths nearer than a host bridge are rerouted through the processor.
pub(crate) const DETOUR_NEAR: Rule = since(21, 5);
/// Two ports of one adapter may be one NIC.
pub(crate) const PORTS_MERGED: Rule = since(20, 3).until(24, 3);
/// NICs may be fused: ports of one adapter, and what the environment sets.
pub(crate) const NIC_FUSION: Rule = since(24, 3);
/// NICs that are not fused keep their numbers, and fused ports of one device stay on that device.
pub(crate) const FUSES_IN_PLACE: Rule = since(27, 3);
/// A fused NIC has its own device, also on a processor, and the lanes of all its NICs.
pub(crate) const FUSED_LANES: Rule = since(28, 3);
/// Switches in between keep their lanes, and fusing NICs of two processors is refused.
pub(crate) const FUSED_LANES_ALONE: Rule = since(30, 7);
/// At most eight NICs are fused; before, four.
pub(crate) const FUSES_8: Rule = since(30, 3);
/// Links between AMD's processors depend on their generation, and more of Intel's processors have
/// the fastest link.
pub(crate) const CPU_GENERATIONS: Rule = since(31, 2);
/// `NCCL_NET_GDR_C2C` is read, 0 by default.
pub(crate) const GDR_C2C: Rule = since(26, 2);
/// It is 1 by default.
pub(crate) const GDR_C2C_ON: Rule = since(27, 3);
/// Paths over a chip-to-chip link and a host bridge get the merged type, wherever they are
/// rerouted.
pub(crate) const P2C_MERGED: Rule = since(27, 5);
/// Only a GPU's nearest NICs get that type, and it bounds which NICs reach a GPU's memory.
pub(crate) const P2C_NEAREST: Rule = since(29, 2);
/// `NCCL_PXN_C2C` is read, 0 by default.
pub(crate) const PXN_C2C: Rule = since(27, 3);
/// It is 1 by default.
pub(crate) const PXN_C2C_ON: Rule = since(28, 3);
/// PXN is not preferred to another path through another GPU.
pub(crate) const PXN_BEHIND_PXN: Rule = since(27, 6);
/// PXN needs a NIC that can read the other GPU's memory.
pub(crate) const PXN_READS: Rule = since(30, 3);
/// NICs are kept if a job is on one node.
pub(crate) const NICS_STAY: Rule = since(28, 7);

// graph/search.cc: one search.

/// Trees check the type of the path back.
pub(crate) const TREES_BACK: Rule = since(18, 3);
/// NVLS is better if it has more channels.
pub(crate) const NVLS_MORE_CHANNELS: Rule = since(18, 3);
/// NVLS is also better if all its channels together have a higher rate.
pub(crate) const NVLS_RATE: Rule = since(19, 1);
/// Channels that stay at one NIC are worth 15 % more.
pub(crate) const CROSSING_COSTS: Rule = until(20, 3);
/// A channel that forms a pair with the previous one uses its NICs.
pub(crate) const PAIRED_NICS: Rule = since(20, 3);
/// Only rings that were tried across NICs form pairs, and their number is 2.
pub(crate) const CROSSED_IS_2: Rule = since(23, 4);
/// A step over a missing path fails.
pub(crate) const LOST_PATHS_FAIL: Rule = since(27, 3);
/// With an `NVSwitch`, neighbors come first.
pub(crate) const NEIGHBOURS_FIRST: Rule = since(19, 3);
/// With an `NVSwitch`, only neighbors are tried.
pub(crate) const NEIGHBOURS_ONLY: Rule = since(21, 5);
/// With an `NVSwitch`, the attempt in PCI order is left out.
pub(crate) const PCI_ORDER_UNSWITCHED: Rule = since(19, 3);
/// The path from a place to itself always succeeds.
pub(crate) const NO_HOPS_SUCCEED: Rule = until(21, 5);
/// A channel begins at GPUs near a NIC; before, at those with the fastest path, if that can carry
/// it.
pub(crate) const BEGINS_NEAR: Rule = since(27, 3);
/// GPUs with the fastest path take turns; before, those with free PCI links come first.
pub(crate) const BEGINS_IN_TURN: Rule = since(19, 1);
/// The NIC's own GPU comes first, and channels are repeated only if all must be alike.
pub(crate) const BEGINS_AT_OWN: Rule = since(27, 5);
/// Each channel starts with a different NIC.
pub(crate) const NICS_IN_TURN: Rule = since(19, 1);
/// GPUs' own NICs come first in the list.
pub(crate) const OWN_NICS_FIRST: Rule = since(18, 5);
/// With several hosts these come channel by channel.
pub(crate) const NICS_BY_CHANNEL: Rule = since(27, 5);
/// Heads of NVLS are not searched for in the same way as the first GPUs of rings.
pub(crate) const HEADS: Rule = since(18, 3);
/// A head is the GPU of its NIC, not of the NIC's number.
pub(crate) const HEADS_OF_NICS: Rule = since(18, 5);
/// The path from NIC to head takes bandwidth.
pub(crate) const HEADS_CHARGED: Rule = since(19, 1);
/// A head that is already in use is skipped, and further NICs are tried until one has another head.
pub(crate) const HEADS_ONCE: Rule = since(22, 3);
/// Hosts may have rails by host, with `NCCL_MNNVL_RAIL_PER_HOST`.
pub(crate) const RAIL_PER_HOST: Rule = since(28, 7);

// graph/search.cc: the searches for one graph.

/// All searches together have a budget of 327,680 steps.
pub(crate) const STEPS_327_680: Rule = since(18, 3).until(19, 1);
/// The budget is 524,288 steps; before both, 262,144.
pub(crate) const STEPS_524_288: Rule = since(19, 1);
/// From Hopper on, balanced trees are replaced by trees.
pub(crate) const TREES_SIMPLIFY: Rule = since(18, 3);
/// The least channels bound the fastest rate.
pub(crate) const TOTAL_BOUNDS_SPEED: Rule = since(18, 3);
/// A single GPU has no limit; before, its limit was none, or 0 divided by 0.
pub(crate) const ALONE_UNLIMITED: Rule = since(21, 5);
/// Whether channels are duplicated depends on their rate and number.
pub(crate) const DUPLICATES_BY_COUNT: Rule = since(18, 3);
/// They are duplicated before rates are raised.
pub(crate) const DUPLICATES_FIRST: Rule = since(19, 3);
/// Rates of rings are raised too.
pub(crate) const RINGS_RAISED: Rule = since(19, 3);
/// NVLS's rate between nodes is raised.
pub(crate) const NVLS_RAISED: Rule = since(19, 1);
/// No other rate of NVLS is raised, since it has a separate pass.
pub(crate) const NVLS_RAISED_ONCE: Rule = since(19, 1).until(19, 3);
/// `NCCL_CROSS_NIC=1` starts across NICs, and 2 tries that.
pub(crate) const CROSSES_FROM_START: Rule = since(19, 1);
/// Channels that cross AMD's processors all take the same path.
pub(crate) const AMD_STAYS_SAME: Rule = since(19, 1);
/// Path types are tried from the nearest to the farthest that the machine has.
pub(crate) const TYPES_OF_MACHINE: Rule = since(25, 1);
/// GPUs before Hopper may go to any NIC.
pub(crate) const AMPERE_ANY_NIC: Rule = since(29, 2);
/// NVLS has as many heads as GPUs.
pub(crate) const NVLS_HEADS: Rule = since(19, 1);
/// It has at most 32.
pub(crate) const NVLS_32_HEADS: Rule = since(25, 1);
/// In-network reduction by all GPUs at once has its own graph.
pub(crate) const DIRECT_GRAPH: Rule = since(22, 3);
/// It has at most eight heads.
pub(crate) const DIRECT_8_HEADS: Rule = since(25, 1);
/// Two groups of GPUs connected by NVLink get two rings.
pub(crate) const SPLIT_TWO_RINGS: Rule = since(26, 2);
/// The fallback if nothing is found uses each GPU's first NIC.
pub(crate) const FALLS_BACK_TO_OWN: Rule = since(29, 2);

// graph/search.cc: the rates that are tried, by their GB/s; first Hopper's, then Blackwell's.

pub(crate) const SPEED_50: Rule = since(19, 1);
pub(crate) const SPEED_11: Rule = since(21, 5);
pub(crate) const SPEED_22: Rule = since(19, 3);
pub(crate) const SPEED_20: Rule = since(18, 3);
pub(crate) const SPEED_45: Rule = since(29, 2);
pub(crate) const SPEED_18: Rule = since(27, 3);
pub(crate) const SPEED_96: Rule = since(27, 6);
pub(crate) const SPEED_86: Rule = since(30, 3);
pub(crate) const SPEED_80: Rule = since(29, 7);
pub(crate) const SPEED_90_2: Rule = since(31, 2);
/// GPUs from Rubin on have rates of their own, also over `NVLink`.
pub(crate) const RUBIN_RATES: Rule = since(32, 3);
/// Replaces 48.
pub(crate) const SPEED_47_9: Rule = since(27, 3).until(27, 5);
pub(crate) const SPEED_45_1: Rule = since(27, 5);
pub(crate) const SPEED_45_0: Rule = until(27, 5);

// Printed output.

/// Ids are hexadecimal in the log.
#[cfg(feature = "cli")]
pub(crate) const HEX_IDS: Rule = since(21, 5);
/// NICs have a host and a number in the log.
pub(crate) const NICS_BY_HOST: Rule = since(23, 4);
/// A drawn port says whether it reduces.
pub(crate) const PORTS_SAY_COLLECTIVE: Rule = since(24, 3);
/// For NVLS the log names the head, and it names GPUs by their addresses.
#[cfg(feature = "cli")]
pub(crate) const BUS_IDS: Rule = since(27, 5);
/// Graphs in XML have ranks.
#[cfg(feature = "cli")]
pub(crate) const DUMPS_RANKS: Rule = since(30, 3);
