//! What NCCL's tuner knows about a communicator: ranks, GPUs, and the graphs that the search found.

use std::fmt;

use super::cost_model::Reach;
use super::{Algo, Gbps, Micros, Version, since};
use super::{Arch, Vendor};
use crate::base::error::{Error, Result};

/// A communicator as the tuner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Communicator {
    /// Ranks.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// Ranks on this node, or the largest number on any node.
    pub local_ranks: u32,
    /// The lowest compute capability of a GPU: 70, 80, 90 …
    pub min_cc: u32,
    /// The highest.
    pub max_cc: u32,
    /// The processor's instruction set.
    pub arch: Arch,
    /// The processor's vendor.
    pub vendor: Vendor,
    /// Channels after duplication.
    pub channels: u32,
    /// Channels that a call starts from: the same number, except in 2.20 and 2.21, which raised the
    /// communicator's channels to those of NVLS.
    pub call_channels: u32,
    /// Channels of NVLS.
    pub nvls_channels: u32,
    /// Whether the GPUs share a switch that multicasts and reduces.
    pub nvls: bool,
    /// Whether a plugin reduces in the network.
    pub collnet: bool,
    /// GPUs of a node through which in-network reduction enters the network.
    pub collnet_heads: u32,
    /// Whether that also works along chains; used since 2.30.7.
    pub collnet_chain: bool,
    /// Whether there is an `NVSwitch`.
    pub nvswitch: bool,
    /// Rings.
    pub ring: Graph,
    /// Trees, which PAT uses too.
    pub tree: Graph,
    /// In-network reduction, all GPUs at once.
    pub collnet_direct_graph: Graph,
    /// In-network reduction along chains.
    pub collnet_chain_graph: Graph,
    /// The `NVLink` switch, for NVLS and `NVLSTree`.
    pub nvls_graph: Graph,
    /// Which ranks reach which memory, if known; used since 2.31.
    pub reach: Option<Reach>,
    /// The blocks that the job's environment allows a kernel.
    pub ctas: Ctas,
}

/// The blocks that a job's environment allows a kernel; symmetric kernels look at them themselves,
/// other kernels by the communicator's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ctas {
    /// `NCCL_MIN_CTAS`.
    pub least: u32,
    /// `NCCL_MAX_CTAS`.
    pub most: u32,
}

impl Default for Ctas {
    fn default() -> Self {
        Self { least: 1, most: MOST_BLOCKS }
    }
}

/// The most blocks of a kernel.
pub(super) const MOST_BLOCKS: u32 = 64;

/// What the search found for one pattern, on the worst of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Graph {
    /// The pattern: 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 collnet direct.
    pub pattern: u32,
    /// Channels that the search found.
    pub channels: u32,
    /// What a channel carries inside a node.
    pub intra: Gbps,
    /// What a channel carries between nodes.
    pub inter: Gbps,
    /// The NICs' own latency.
    pub latency_inter: Micros,
    /// The worst path between GPUs.
    pub type_intra: PathType,
    /// The worst path between a GPU and its NIC.
    pub type_inter: PathType,
    /// Whether rings leave a node by a different NIC than they enter.
    pub cross_nic: u32,
    /// Whether all channels run over the same links.
    pub same_channels: bool,
}

/// The pattern number of a tree that is neither balanced nor split.
pub(super) const PATTERN_TREE: u32 = 3;

/// How two devices are connected. The version decides which of two types is the longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PathType {
    /// The same device.
    #[default]
    Loc,
    /// `NVLink`.
    Nvl,
    /// `NVLink` through another GPU.
    Nvb,
    /// Chip to chip.
    C2c,
    /// One PCI switch.
    Pix,
    /// Several PCI switches.
    Pxb,
    /// `NVLink` to a GPU beside the NIC.
    Pxn,
    /// PCI, then chip to chip.
    P2c,
    /// The PCI host bridge.
    Phb,
    /// Between sockets.
    Sys,
    /// The network.
    Net,
    /// Not connected.
    Dis,
}

impl PathType {
    /// All of them, in the order of 2.30.7, except for PXN and P2C, which 2.27.5 swapped.
    pub const ALL: [Self; 12] = [
        Self::Loc,
        Self::Nvl,
        Self::Nvb,
        Self::C2c,
        Self::Pix,
        Self::Pxb,
        Self::Pxn,
        Self::P2c,
        Self::Phb,
        Self::Sys,
        Self::Net,
        Self::Dis,
    ];

    /// The name in logs and graph files.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS"]
            [self as usize]
    }

    /// The path type of that name.
    ///
    /// # Errors
    /// A different name.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|t| t.name()).collect();
            Error::input(format!("`{name}` is not a path type of NCCL"))
                .help(format!("known: {}", known.join(", ")))
        })
    }

    /// The distance as the version compares it. Versions without C2C and P2C see a host bridge.
    #[must_use]
    pub fn rank(self, version: Version) -> u8 {
        const OLD: [u8; 12] = [0, 1, 2, 6, 3, 4, 5, 6, 6, 7, 8, 9];
        const C2C: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10];
        const PXN_FIRST: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        const P2C_FIRST: [u8; 12] = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9, 10, 11];
        let ranks = match version {
            _ if version.has(since::P2C_BEFORE_PXN) => P2C_FIRST,
            _ if version.has(since::P2C_TYPE) => PXN_FIRST,
            _ if version.has(since::C2C_TYPE) => C2C,
            _ => OLD,
        };
        ranks[self as usize]
    }

    /// Whether a version has this type.
    pub(super) fn is_known(self, version: Version) -> bool {
        match self {
            Self::C2c => version.has(since::C2C_TYPE),
            Self::P2c => version.has(since::P2C_TYPE),
            _ => true,
        }
    }
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Communicator {
    /// The graph that an algorithm runs on.
    #[must_use]
    pub fn graph(&self, algo: Algo) -> &Graph {
        match algo {
            Algo::Ring => &self.ring,
            Algo::Tree | Algo::Pat => &self.tree,
            Algo::CollNetDirect => &self.collnet_direct_graph,
            Algo::CollNetChain => &self.collnet_chain_graph,
            Algo::Nvls | Algo::NvlsTree => &self.nvls_graph,
        }
    }

    /// Channels of NVLS or of its tree. Those of NVLS between nodes are among those of the communicator.
    pub(super) fn switch_channels(&self, version: Version, algo: Algo) -> u32 {
        let within = version.has(since::NVLS_WITHIN_CHANNELS);
        match algo {
            Algo::Nvls if self.nodes > 1 && within => self.nvls_channels.min(self.channels),
            _ => self.nvls_channels,
        }
    }

    /// The most ranks of a communicator: with more, NCCL's own 32-bit products overflow.
    pub const MOST_RANKS: u32 = 1 << 24;

    /// Why so many ranks are refused.
    pub(super) fn too_many(ranks: impl fmt::Display) -> Error {
        Error::input(format!("{ranks} ranks are too many"))
            .help(format!("give at most {}", Self::MOST_RANKS))
    }

    /// Refuses counts that no communicator can have.
    ///
    /// # Errors
    /// No ranks, or more than [`MOST_RANKS`](Self::MOST_RANKS); more nodes than ranks; a largest
    /// node that cannot hold its share.
    pub fn check(&self) -> Result<()> {
        let Self { ranks, nodes, local_ranks, .. } = *self;
        if ranks > Self::MOST_RANKS {
            return Err(Self::too_many(ranks));
        }
        let fits = u64::from(local_ranks) * u64::from(nodes) >= u64::from(ranks);
        if ranks == 0 || nodes == 0 || nodes > ranks || local_ranks > ranks || !fits {
            return Err(Error::input(format!(
                "{ranks} ranks do not fit on {nodes} nodes of at most {local_ranks}"
            ))
            .help("give between nodes and nodes x ranks on the largest node"));
        }
        if self.min_cc > self.max_cc {
            return Err(Error::input(format!(
                "the lowest compute capability, {}, is above the highest, {}",
                self.min_cc, self.max_cc
            ))
            .help("write them as 70, 80, 90 …, the lowest first"));
        }
        Ok(())
    }

    /// Refuses numbers of channels that no communicator starts with.
    ///
    /// # Errors
    /// No channels, or far more than NCCL has.
    pub fn check_channels(&self) -> Result<()> {
        // NCCL has at most 64; anything far above is a mistake.
        if !(1..=1024).contains(&self.channels) || self.nvls_channels > 1024 {
            return Err(Error::input(format!(
                "NCCL does not start with {} channels, {} of NVLS",
                self.channels, self.nvls_channels
            ))
            .help("write nchannels as in the log, such as 16"));
        }
        Ok(())
    }
}
