//! The candidates: 21 algorithms with protocols, 18 symmetric kernels, 2 copy engines.

use std::borrow::Cow;

use super::super::{Algo, Function, Proto, Version, since};

/// One of the 41 candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// An algorithm in a protocol, on any buffers.
    General(Algo, Proto),
    /// A kernel on symmetric windows.
    Symmetric(Kernel),
    /// Copies by the GPUs' copy engines.
    Copied(Copies),
}

impl Candidate {
    /// The number in the log's `Best tuning { .id = …`.
    #[must_use]
    pub fn id(self) -> u32 {
        match self {
            Self::General(algo, proto) => 3 * algo as u32 + proto as u32,
            Self::Symmetric(kernel) => 21 + kernel as u32,
            Self::Copied(copies) => 39 + copies as u32,
        }
    }

    /// The candidate of a number.
    #[must_use]
    pub fn numbered(id: u32) -> Option<Self> {
        let id = id as usize;
        match id {
            0..21 => Some(Self::General(Algo::ALL[id / 3], Proto::ALL[id % 3])),
            21..39 => Some(Self::Symmetric(Kernel::ALL[id - 21])),
            39..41 => Some(Self::Copied([Copies::Unicast, Copies::Multicast][id - 39])),
            _ => None,
        }
    }

    /// A release's name for it: `Ring/LL`, or its kernel's name.
    #[must_use]
    pub fn name(self, version: Version) -> Cow<'static, str> {
        match self {
            Self::General(algo, proto) => format!("{algo}/{proto}").into(),
            Self::Symmetric(kernel) => kernel.name(version).into(),
            Self::Copied(copies) => copies.name().into(),
        }
    }
}

/// How copy engines gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Copies {
    /// One copy per rank.
    Unicast,
    /// One copy, multicast by the switch.
    Multicast,
}

impl Copies {
    /// NCCL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["AllGather_UC", "AllGather_MC"][self as usize]
    }
}

/// A kernel that reads and writes the other ranks' windows itself.
///
/// LL carries flags with the data; LD and ST load and store; MC lets the switch multicast or
/// reduce; TMA moves blocks with the GPU's own engine; Rail also goes between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are NCCL's, and the type says what they are made of")]
pub enum Kernel {
    AllReduceLl,
    AllReduceLlMc,
    AllReduceTma,
    AllReduceLd,
    AllReduceLdMc,
    AllGatherLl,
    AllGatherLlMc,
    AllGatherTma,
    AllGatherSt,
    AllGatherTmaMc,
    AllGatherStMc,
    AllGatherRail,
    ReduceScatterLl,
    ReduceScatterTma,
    ReduceScatterLd,
    ReduceScatterLdMc,
    ReduceScatterRail,
    ReduceScatterRailMc,
}

impl Kernel {
    /// All of them, in NCCL's order.
    pub const ALL: [Self; 18] = [
        Self::AllReduceLl,
        Self::AllReduceLlMc,
        Self::AllReduceTma,
        Self::AllReduceLd,
        Self::AllReduceLdMc,
        Self::AllGatherLl,
        Self::AllGatherLlMc,
        Self::AllGatherTma,
        Self::AllGatherSt,
        Self::AllGatherTmaMc,
        Self::AllGatherStMc,
        Self::AllGatherRail,
        Self::ReduceScatterLl,
        Self::ReduceScatterTma,
        Self::ReduceScatterLd,
        Self::ReduceScatterLdMc,
        Self::ReduceScatterRail,
        Self::ReduceScatterRailMc,
    ];

    /// A release's name for it, as `NCCL_SYM_KERNEL` takes it.
    #[must_use]
    pub fn name(self, version: Version) -> &'static str {
        if self == Self::AllGatherRail && !version.has(since::RAIL_SCATTERS) {
            return "AllGather_GinHier_MCRing";
        }
        [
            "AllReduce_AGxLL_R",
            "AllReduce_AGxLLMC_R",
            "AllReduce_RSxTmaLD_AGxTmaST",
            "AllReduce_RSxLD_AGxST",
            "AllReduce_RSxLDMC_AGxSTMC",
            "AllGather_LL",
            "AllGather_LLMC",
            "AllGather_TmaST",
            "AllGather_ST",
            "AllGather_TmaSTMC",
            "AllGather_STMC",
            "AllGather_RailRing_LsaSTMC",
            "ReduceScatter_LL",
            "ReduceScatter_TmaLD",
            "ReduceScatter_LD",
            "ReduceScatter_LDMC",
            "ReduceScatter_RailA2A_LsaLD",
            "ReduceScatter_RailA2A_LsaLDMC",
        ][self as usize]
    }

    /// The function that it implements.
    #[must_use]
    pub fn function(self) -> Function {
        match self as usize {
            0..5 => Function::AllReduce,
            5..12 => Function::AllGather,
            _ => Function::ReduceScatter,
        }
    }

    /// Whether flags travel with the data.
    #[must_use]
    pub fn is_ll(self) -> bool {
        matches!(
            self,
            Self::AllReduceLl
                | Self::AllReduceLlMc
                | Self::AllGatherLl
                | Self::AllGatherLlMc
                | Self::ReduceScatterLl
        )
    }

    /// Whether the GPU's own engine (TMA) moves the data.
    #[must_use]
    pub fn is_tma(self) -> bool {
        matches!(
            self,
            Self::AllReduceTma | Self::AllGatherTma | Self::AllGatherTmaMc | Self::ReduceScatterTma
        )
    }

    /// Whether it also goes between `NVLink` domains.
    #[must_use]
    pub fn is_rail(self) -> bool {
        matches!(self, Self::AllGatherRail | Self::ReduceScatterRail | Self::ReduceScatterRailMc)
    }

    /// Whether the switch multicasts for it.
    pub(super) fn stores_multicast(self) -> bool {
        matches!(
            self,
            Self::AllReduceLlMc
                | Self::AllReduceLdMc
                | Self::AllGatherLlMc
                | Self::AllGatherTmaMc
                | Self::AllGatherStMc
                | Self::AllGatherRail
                | Self::ReduceScatterLdMc
        )
    }

    /// Whether the switch reduces for it.
    pub(super) fn loads_multicast(self) -> bool {
        matches!(self, Self::AllReduceLdMc | Self::ReduceScatterLdMc | Self::ReduceScatterRailMc)
    }
}
