//! The constants of NCCL's tuner, one table a version.
//!
//! Latencies are float32 microseconds, caps are float64 GB/s a channel, as NCCL keeps them.
//! Source: NVIDIA/nccl v2.18.3-1, v2.21.5-1, v2.27.3-1, v2.30.7-1, `src/graph/tuning.cc`.

use super::Version;

/// Caps for one node, two nodes, more nodes.
type Caps = [f64; 3];

/// Latencies of LL, LL128 and Simple.
type Latencies = [f32; 3];

/// What a version's tuner is made of.
pub(super) struct Constants {
    /// LL's cap over all channels: by GPU on one node, by processor on several.
    pub ll: [Caps; 4],
    /// A ring channel's cap under LL128, by GPU class.
    pub ring_ll128: [Caps; 4],
    /// A tree channel's under LL128.
    pub tree_ll128: [Caps; 4],
    /// A tree channel's under any protocol.
    pub tree: [Caps; 4],
    /// A channel's of `NVLSTree`; asked since 2.30.
    pub nvls_tree: [Caps; 4],
    /// The part of the `NVLink` switch's rate that NVLS gets; asked since 2.30.
    pub nvls_efficiency: [f32; 4],
    /// What an algorithm costs before its first step.
    pub base: [Latencies; 7],
    /// What a step costs over `NVLink`, PCI and the network.
    pub hardware: [[Latencies; 7]; 3],
    /// Steps of one operation for which trees pay their latency once, in a group.
    pub pipelined: u32,
    /// Nothing slower than this is chosen, in microseconds.
    pub slowest: f32,
    /// What each local rank adds to a direct in-network reduction, in microseconds.
    pub collnet_direct_rank: f64,
}

/// The classes of GPUs by compute capability.
pub(super) fn gpu_class(cc: u32, version: Version) -> usize {
    match cc {
        ..80 => 0,
        80..90 => 1,
        90..100 => 2,
        _ if version.is_new() => 3,
        _ => 2,
    }
}

const fn all(cap: f64) -> Caps {
    [cap; 3]
}

const NONE: Latencies = [0.0; 3];

/// The Simple latency alone.
const fn simple(latency: f32) -> Latencies {
    [0.0, 0.0, latency]
}

const RING_NVLINK: Latencies = [0.6, 1.9, 3.4];
const RING_PCI: Latencies = [1.0, 2.5, 5.7];
const RING_NET: Latencies = [2.7, 4.0, 14.0];
const RING_BASE: Latencies = [6.6, 14.0, 8.4];

const LL_VOLTA: Caps = [39.0, 39.0, 20.4];
const LL_AMPERE: Caps = [87.7, 22.5, 19.0];
const LL_HOPPER: Caps = [141.0, 45.0, 35.0];
const LL_BLACKWELL: Caps = [282.0, 90.0, 70.0];

const TREE_VOLTA: Caps = [26.5, 18.5, 10.0];
const TREE_AMPERE: Caps = [24.0, 23.6, 17.8];
const TREE_HOPPER: Caps = [38.7, 41.4, 36.0];

const V2_18: Constants = Constants {
    ll: [LL_VOLTA, LL_AMPERE, LL_AMPERE, LL_AMPERE],
    ring_ll128: [all(20.0), all(20.0), all(36.7), all(36.7)],
    tree_ll128: [all(20.0), all(20.0), [36.7, 36.7, 29.0], [36.7, 36.7, 29.0]],
    tree: [TREE_VOLTA, TREE_AMPERE, TREE_HOPPER, TREE_HOPPER],
    nvls_tree: [all(0.0); 4],
    nvls_efficiency: [0.0; 4],
    base: [
        [6.8, 14.0, 0.0],
        RING_BASE,
        [6.8, 14.0, 0.0],
        [6.8, 14.0, 0.0],
        simple(23.0),
        simple(23.0),
        NONE,
    ],
    hardware: [
        [[0.6, 1.25, 4.0], RING_NVLINK, simple(8.0), simple(4.75), NONE, NONE, NONE],
        [[1.0, 1.9, 6.0], RING_PCI, simple(8.0), simple(8.0), NONE, NONE, NONE],
        [[5.0, 8.5, 14.0], RING_NET, simple(10.7), simple(14.0), simple(18.0), simple(19.0), NONE],
    ],
    pipelined: 9,
    slowest: 3.6e9,
    collnet_direct_rank: 0.5,
};

const V2_21: Constants = Constants {
    ll: [LL_VOLTA, LL_AMPERE, LL_HOPPER, LL_HOPPER],
    base: [[6.8, 14.0, 0.0], RING_BASE, NONE, NONE, NONE, NONE, NONE],
    hardware: [
        [
            [0.6, 1.25, 28.0],
            RING_NVLINK,
            simple(3.7),
            simple(2.8),
            simple(25.0),
            simple(25.0),
            NONE,
        ],
        [[1.0, 1.9, 28.0], RING_PCI, simple(3.7), simple(2.8), NONE, NONE, NONE],
        [[5.0, 8.5, 28.0], RING_NET, simple(31.0), simple(30.0), simple(18.0), simple(14.0), NONE],
    ],
    collnet_direct_rank: 0.4,
    ..V2_18
};

const V2_27: Constants = Constants {
    ll: [LL_VOLTA, LL_AMPERE, LL_HOPPER, LL_BLACKWELL],
    ring_ll128: [all(20.0), all(20.0), all(36.7), all(73.4)],
    tree_ll128: [all(20.0), all(20.0), [36.7, 36.7, 29.0], [73.4, 73.4, 58.0]],
    tree: [TREE_VOLTA, TREE_AMPERE, TREE_HOPPER, [77.4, 82.8, 72.0]],
    base: [[6.8, 14.0, 8.4], RING_BASE, NONE, NONE, NONE, NONE, NONE],
    hardware: [
        [[0.6, 1.25, 4.0], RING_NVLINK, simple(3.7), simple(2.8), simple(25.0), simple(25.0), NONE],
        [[1.0, 1.9, 4.0], RING_PCI, simple(3.7), simple(2.8), NONE, NONE, NONE],
        [[5.0, 8.5, 14.0], RING_NET, simple(31.0), simple(30.0), simple(18.0), simple(14.0), NONE],
    ],
    pipelined: 10,
    ..V2_21
};

const V2_30: Constants = Constants {
    ring_ll128: [all(20.0), all(20.0), all(36.7), all(40.0)],
    tree_ll128: [all(20.0), all(20.0), [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]],
    tree: [TREE_VOLTA, TREE_AMPERE, TREE_HOPPER, [70.0, 42.8, 24.0]],
    nvls_tree: [TREE_VOLTA, TREE_AMPERE, [0.0, 57.7, 45.5], [0.0, 96.0, 80.0]],
    nvls_efficiency: [0.0, 0.0, 0.85, 0.74],
    base: [[6.8, 14.0, 8.4], RING_BASE, NONE, NONE, NONE, NONE, [8.0; 3]],
    hardware: [
        [
            [0.6, 1.25, 4.0],
            RING_NVLINK,
            simple(3.7),
            simple(2.8),
            simple(25.0),
            simple(25.0),
            simple(4.0),
        ],
        [[1.0, 1.9, 4.0], RING_PCI, simple(3.7), simple(2.8), NONE, NONE, simple(4.0)],
        [
            [5.0, 8.5, 14.0],
            RING_NET,
            simple(31.0),
            simple(30.0),
            simple(18.0),
            simple(20.9),
            simple(14.0),
        ],
    ],
    pipelined: 8,
    slowest: f32::MAX,
    ..V2_27
};

/// The constants of a version.
pub(super) fn of(version: Version) -> &'static Constants {
    static ALL: [Constants; 4] = [V2_18, V2_21, V2_27, V2_30];
    &ALL[version as usize]
}

/// How much of its rate a tree reaches, by protocol, for sizes of 64·2^k bytes and more.
///
/// The last class is `NVLSTree`'s alone.
pub(super) const TREE_FACTORS: [[f32; 24]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9,
        0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8,
        0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ],
];
