//! NCCL's names for its functions, algorithms and protocols, in each place where it uses them.

use std::fmt;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, nearest};

/// A collective that NCCL's tuner chooses for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// `ncclBroadcast`.
    Broadcast,
    /// `ncclReduce`.
    Reduce,
    /// `ncclAllGather`.
    AllGather,
    /// `ncclReduceScatter`.
    ReduceScatter,
    /// `ncclAllReduce`.
    AllReduce,
}

/// An algorithm, in the order in which ties are broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algo {
    /// Two pipelined trees; each carries half the vector.
    Tree,
    /// Rings, one per channel.
    Ring,
    /// Reduction in the network, every GPU through its own NIC.
    CollNetDirect,
    /// Reduction in the network, the GPUs of a node as a chain.
    CollNetChain,
    /// Reduction and multicast in the `NVLink` switch.
    Nvls,
    /// The same inside a node, trees between nodes.
    NvlsTree,
    /// Parallel aggregated trees; since 2.23.
    Pat,
}

/// A wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proto {
    /// Flags in every eight bytes.
    Ll,
    /// Flags in every 128 bytes.
    Ll128,
    /// Whole buffers followed by a flag.
    Simple,
}

impl Function {
    /// All functions, in NCCL's order.
    pub const ALL: [Self; 5] =
        [Self::Broadcast, Self::Reduce, Self::AllGather, Self::ReduceScatter, Self::AllReduce];

    /// The function behind a collective; `None` if NCCL's tuner does not choose for it (all-to-all
    /// and send/receive are groups of messages).
    #[must_use]
    pub fn of(collective: Collective) -> Option<Self> {
        Some(match collective {
            Collective::Broadcast => Self::Broadcast,
            Collective::Reduce => Self::Reduce,
            Collective::AllGather => Self::AllGather,
            Collective::ReduceScatter => Self::ReduceScatter,
            Collective::AllReduce => Self::AllReduce,
            _ => return None,
        })
    }

    /// The collective behind the function.
    #[must_use]
    pub fn collective(self) -> Collective {
        match self {
            Self::Broadcast => Collective::Broadcast,
            Self::Reduce => Collective::Reduce,
            Self::AllGather => Collective::AllGather,
            Self::ReduceScatter => Collective::ReduceScatter,
            Self::AllReduce => Collective::AllReduce,
        }
    }

    /// The name in NCCL's log, such as `AllReduce`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"][self as usize]
    }

    /// The function with this name in the log, in any case.
    ///
    /// # Errors
    /// Another name.
    pub fn named(name: &str) -> Result<Self> {
        named(&Self::ALL, Self::name, name, "NCCL function")
    }

    /// Whether sizes count the blocks of all ranks.
    #[must_use]
    pub fn gathers(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter)
    }

    /// Messages that a ring of so many ranks, at least one, sends one after another.
    #[must_use]
    pub fn ring_steps(self, ranks: u32) -> u32 {
        match self {
            Self::AllReduce => 2 * (ranks - 1),
            Self::AllGather | Self::ReduceScatter => ranks - 1,
            Self::Broadcast | Self::Reduce => ranks,
        }
    }
}

impl Algo {
    /// All of them, in the order in which ties are broken.
    pub const ALL: [Self; 7] = [
        Self::Tree,
        Self::Ring,
        Self::CollNetDirect,
        Self::CollNetChain,
        Self::Nvls,
        Self::NvlsTree,
        Self::Pat,
    ];

    /// The name in `NCCL_ALGO` and in the log's tables, such as `NVLSTree`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"][self as usize]
    }

    /// The name in the choice lines of 2.24 and later, such as `NVLS_TREE`.
    #[must_use]
    pub fn upper(self) -> &'static str {
        ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"]
            [self as usize]
    }

    /// The name in the file of NCCL's example tuner plugin, such as `nvls_tree`.
    #[must_use]
    pub fn lower(self) -> &'static str {
        ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"]
            [self as usize]
    }

    /// The algorithm of that name, in any case, with or without `_`.
    ///
    /// # Errors
    /// Another name.
    pub fn named(name: &str) -> Result<Self> {
        named(&Self::ALL, Self::name, &name.replace('_', ""), "NCCL algorithm")
    }

    /// Whether it needs in-network reduction.
    #[must_use]
    pub fn is_collnet(self) -> bool {
        matches!(self, Self::CollNetDirect | Self::CollNetChain)
    }
}

impl Proto {
    /// All of them, in the order in which ties are broken.
    pub const ALL: [Self; 3] = [Self::Ll, Self::Ll128, Self::Simple];

    /// The name in `NCCL_PROTO` and in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["LL", "LL128", "Simple"][self as usize]
    }

    /// The name in the file of NCCL's example tuner plugin.
    #[must_use]
    pub fn lower(self) -> &'static str {
        ["ll", "ll128", "simple"][self as usize]
    }

    /// The protocol of that name, in any case.
    ///
    /// # Errors
    /// Another name.
    pub fn named(name: &str) -> Result<Self> {
        named(&Self::ALL, Self::name, name, "NCCL protocol")
    }
}

fn named<T: Copy>(all: &[T], of: fn(T) -> &'static str, name: &str, what: &str) -> Result<T> {
    let found = all.iter().copied().find(|&t| of(t).eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&t| of(t)).collect();
        let lower: Vec<_> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
        let near = nearest(&name.to_ascii_lowercase(), lower.iter().map(String::as_str));
        let near = near.and_then(|n| lower.iter().position(|l| l == n)).map(|i| names[i]);
        Error::input(format!("`{name}` is not an {what}")).help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known: {}", names.join(", ")),
        })
    })
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Algo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
