//! What RCCL's authors measured on MI300X and MI350X: latencies, rates, corrections, limits of protocols.
//!
//! Source: ROCm/rccl, `src/graph/tuning.cc` (`tuning_model_5`, `tuning_model_6`), `src/graph/rome_models.cc` for
//! the graphs; the same of ROCm/rocm-systems, `projects/rccl`, with `tuner/rccl_tuner_gfx950.csv`, for 2.30.

use super::Release;
use crate::base::collective::Collective;
use crate::machine::nccl::{Algo, Function, Proto};
use crate::machine::profile::Generation;

/// Of LL, LL128 and Simple.
pub(super) type ByProtocol = [f32; 3];

/// Factors of a rate by size: below 128 B, and for each doubling from there.
pub(super) type BySize = [f32; 27];

/// What is fixed for a generation of GPUs, and for the processors that it is developed with.
pub(super) struct Chip {
    /// MI350X and MI355X, whose rules have exceptions of their own.
    pub is_gfx950: bool,
    pub tree_corrections: [BySize; 3],
    /// Over nodes.
    pub ring_corrections: [BySize; 3],
    /// Over nodes.
    limits: [Limits; 5],
    /// A network call of the processor, µs.
    pub overhead: f32,
    /// The largest sizes per rank for which LL runs inside a node, whatever the model says: of gathers and scatters.
    most_ll: [u64; 2],
    /// All-reduces of eight GPUs of a node that a table decides, each up to a size.
    pub table: &'static [(u64, Algo, Proto)],
    /// Whether MI350X run trees with LL inside a node where no table is read.
    pub trees: bool,
    /// What 2.30 added.
    pub newer: bool,
}

/// The bytes per rank, of an all-reduce those of the vector, up to which LL and LL128 run; LL128 from the first of its
/// own on.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub ll: u64,
    pub ll128: (u64, u64),
}

/// µs of a step, of trees and rings: over xGMI, and over the network.
pub(super) const TREE_STEP: [ByProtocol; 2] = [[0.9, 0.9, 2.3], [10.5, 10.5, 25.0]];
pub(super) const RING_STEP: [ByProtocol; 2] = [[0.8, 0.8, 2.1], [9.5, 9.5, 320.0]];

/// µs of any call.
pub(super) const BASE: ByProtocol = [12.0, 12.0, 17.0];

/// The part of the links' rate that is reached: on at most two nodes, and on more.
pub(super) const TREE_RATE: [ByProtocol; 2] = [[0.06, 0.06, 0.11], [0.06, 0.06, 0.59]];
pub(super) const RING_RATE: ByProtocol = [0.08, 0.08, 1.0];

/// What a search in the machine finds, or a built-in model of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Graph {
    pub channels: u16,
    /// GB/s of one.
    pub rate: f32,
    /// Whether all channels have one order of ranks.
    pub same: bool,
}

impl Graph {
    const fn new(channels: u16, rate: f32, same: bool) -> Self {
        Self { channels, rate, same }
    }
}

/// Trees and rings of so many GPUs a node, of eight that reach each other, with a NIC each where there are more nodes.
/// `None` for what is no part of the built-in models.
pub(super) fn graphs(per_node: u32, nodes: u32) -> Option<[Graph; 2]> {
    Some(match (per_node, nodes) {
        (8, 1) => [Graph::new(28, 12.0, true); 2],
        (8, _) => [Graph::new(64, 5.25, true); 2],
        (4, 1) => [Graph::new(6, 24.0, false); 2],
        (2, 1) => [Graph::new(2, 48.0, false), Graph::new(2, 24.0, true)],
        _ => return None,
    })
}

impl Chip {
    /// `None` for other generations.
    pub(super) fn of(generation: Generation, release: Release) -> Option<&'static Self> {
        let newer = release >= Release::V2_30;
        match generation {
            Generation::Cdna3 if newer => Some(&GFX942_2_30),
            Generation::Cdna3 => Some(&GFX942),
            Generation::Cdna4 if newer => Some(&GFX950_2_30),
            Generation::Cdna4 => Some(&GFX950),
            _ => None,
        }
    }

    /// The largest size per rank for which LL runs inside a node, whatever the cost model says.
    pub(super) fn most_ll(&self, function: Function) -> u64 {
        match function {
            Function::AllGather => self.most_ll[0],
            Function::ReduceScatter => self.most_ll[1],
            _ => 0,
        }
    }

    /// The most bytes of all ranks for which GPUs read the others' memory.
    pub(super) fn dda(&self, collective: Collective) -> u64 {
        match collective {
            _ if self.is_gfx950 => 64 << 20,
            Collective::AllToAll => 4 << 20,
            _ => 8 << 20,
        }
    }

    /// The limits of a function's protocols over nodes.
    pub(super) fn limits(&self, function: Function) -> Limits {
        self.limits[match function {
            Function::ReduceScatter => 0,
            Function::AllGather => 1,
            Function::AllReduce => 2,
            Function::Reduce => 3,
            Function::Broadcast => 4,
        }]
    }
}

const fn limits(ll: u64, ll128: (u64, u64)) -> Limits {
    Limits { ll, ll128 }
}

const LL_OF_TREES: BySize = [
    0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 0.6, 1.0, 0.9, 1.0, 1.0, 0.1, 0.1, 0.1,
    0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1,
];

const LL_OF_RINGS: BySize = [
    0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1.0, 0.2, 1.0, 0.4, 0.4, 0.1, 0.2, 0.2,
    0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1,
];

/// MI300X and MI325X, beside Intel's processors as in the topologies that RCCL is developed with.
static GFX942: Chip = GFX942_2_28;

static GFX942_2_30: Chip = Chip { newer: true, ..GFX942_2_28 };

const GFX942_2_28: Chip = Chip {
    is_gfx950: false,
    tree_corrections: [
        LL_OF_TREES,
        LL_OF_TREES,
        [
            0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.7, 1.0,
            1.0, 1.0, 1.0, 1.0, 0.7, 0.7, 0.5, 0.6, 0.6, 0.6,
        ],
    ],
    ring_corrections: [
        LL_OF_RINGS,
        LL_OF_RINGS,
        [
            0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1,
            0.1, 0.1, 0.1, 0.1, 0.1, 0.7, 0.2, 1.0, 1.0, 1.0,
        ],
    ],
    limits: [
        limits(655_360, (131_072, 3_211_264)),
        limits(98_304, (98_304, 5_046_272)),
        limits(524_288, (524_288, 4_415_057)),
        limits(4_096, (4_096, 16_777_216)),
        limits(8_192, (8_192, 33_554_432)),
    ],
    overhead: 1.0,
    most_ll: [0, 352_128],
    table: &[],
    trees: false,
    newer: false,
};

/// MI350X and MI355X, beside AMD's processors.
static GFX950: Chip = GFX950_2_28;

/// A table is read for the tuner of 2.30, so that the rule of trees with LL is not.
static GFX950_2_30: Chip = Chip {
    tree_corrections: {
        let mut corrections = GFX950_2_28.tree_corrections;
        corrections[2][25] = 0.7;
        corrections
    },
    most_ll: [88_448, 131_072],
    table: &[
        (16_383, Algo::Tree, Proto::Ll),
        (524_287, Algo::Ring, Proto::Ll),
        (1_048_575, Algo::Ring, Proto::Ll),
        (2_097_000, Algo::Ring, Proto::Ll),
    ],
    trees: false,
    newer: true,
    ..GFX950_2_28
};

const GFX950_2_28: Chip = Chip {
    is_gfx950: true,
    tree_corrections: [
        LL_OF_TREES,
        [
            0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 0.6, 1.0, 0.9, 1.0, 1.0, 1.0,
            1.0, 1.0, 2.0, 2.0, 1.0, 0.1, 0.9, 0.9, 0.1, 0.1,
        ],
        [
            0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.7, 1.0,
            0.1, 0.1, 0.1, 0.1, 0.1, 0.7, 0.15, 0.6, 0.1, 0.6,
        ],
    ],
    ring_corrections: [
        LL_OF_RINGS,
        [
            0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1.0, 0.2, 1.0, 0.4, 0.4, 0.1,
            0.2, 0.1, 0.1, 0.1, 0.1, 5.5, 0.1, 0.1, 1.0, 1.0,
        ],
        [
            0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1,
            0.1, 0.1, 0.1, 0.9, 0.1, 1.0, 0.1, 0.6, 1.0, 1.0,
        ],
    ],
    limits: [
        limits(65_536, (65_536, 8_388_608)),
        limits(65_536, (65_536, 8_388_608)),
        limits(262_144, (262_144, 70_640_910)),
        limits(16_383, (16_383, 16_777_216)),
        limits(2_048, (2_048, 16_777_216)),
    ],
    overhead: 2.0,
    most_ll: [88_448, 1_048_576],
    table: &[],
    trees: true,
    newer: false,
};
