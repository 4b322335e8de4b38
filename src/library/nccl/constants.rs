//! The constants of NCCL's tuner: the value of each, and the release in which it changed.
//!
//! Latencies are float32 microseconds, caps are float64 GB/s per channel, as NCCL keeps them.
//! Source: NVIDIA/nccl, the tags v2.18.1-1 to v2.30.7-1, `src/graph/tuning.cc`.

use super::Version;
use super::since::{self, Rule, is_before};

/// Caps for one node, two nodes, more nodes.
type Caps = [f64; 3];

/// Latencies of LL, LL128 and Simple.
type Latencies = [f32; 3];

/// The constants of a release's tuner.
pub(super) struct Constants {
    /// LL's cap over all channels: by GPU on one node, by processor on several.
    pub ll: [Caps; 4],
    /// A ring channel's cap under LL128, by GPU class.
    pub ring_ll128: [Caps; 4],
    /// A tree channel's cap under LL128.
    pub tree_ll128: [Caps; 4],
    /// A tree channel's cap under any protocol.
    pub tree: [Caps; 4],
    /// The cap of a channel of `NVLSTree`; used since 2.28.3.
    pub nvls_tree: [Caps; 4],
    /// The fraction of the `NVLink` switch's rate that NVLS gets; used since 2.28.3.
    pub nvls_efficiency: [f32; 4],
    /// The latency of an algorithm before its first step.
    pub base: [Latencies; 7],
    /// The latency of a step over `NVLink`, PCI and the network.
    pub hardware: [[Latencies; 7]; 3],
    /// Steps of one operation for which trees in a group pay their latency once.
    pub pipelined: u32,
    /// No slower candidate is chosen; in microseconds.
    pub slowest: f32,
    /// The latency that each local rank adds to a direct in-network reduction, in microseconds.
    pub collnet_direct_rank: f64,
}

/// The classes of GPUs by compute capability.
pub(super) fn gpu_class(cc: u32, version: Version) -> usize {
    match cc {
        ..80 => 0,
        80..90 => 1,
        90..100 => 2,
        _ if version.has(since::BLACKWELL) => 3,
        _ => 2,
    }
}

const fn all(cap: f64) -> Caps {
    [cap; 3]
}

const NONE: Latencies = [0.0; 3];

/// A latency of Simple only.
const fn simple(latency: f32) -> Latencies {
    [0.0, 0.0, latency]
}

const RING_NVLINK: Latencies = [0.6, 1.9, 3.4];
const RING_PCI: Latencies = [1.0, 2.5, 5.7];
const RING_NET: Latencies = [2.7, 4.0, 14.0];
const RING_BASE: Latencies = [6.6, 14.0, 8.4];

const LL_VOLTA: Caps = [39.0, 39.0, 20.4];
const LL_AMPERE: Caps = [87.7, 22.5, 19.0];

const TREE_VOLTA: Caps = [26.5, 18.5, 10.0];
const TREE_AMPERE: Caps = [24.0, 23.6, 17.8];

/// Values, each with the tag that ends it, and the last value. A release has the first that has not
/// ended.
struct Until<T: 'static>(&'static [((u8, u8), T)], T);

impl<T: Copy> Until<T> {
    const fn at(&self, tag: (u8, u8)) -> T {
        let mut i = 0;
        while i < self.0.len() {
            if is_before(tag, self.0[i].0) {
                return self.0[i].1;
            }
            i += 1;
        }
        self.1
    }
}

const LL_HOPPER: Until<Caps> = Until(&[((21, 5), LL_AMPERE)], [141.0, 45.0, 35.0]);
const LL_BLACKWELL: Caps = [282.0, 90.0, 70.0];

const RING_LL128_BLACKWELL: Until<Caps> = Until(
    &[((28, 7), all(73.4)), ((29, 2), [73.4, 34.6, 73.4]), ((29, 7), [34.5, 34.6, 34.5])],
    all(40.0),
);
const TREE_LL128_HOPPER: Until<Caps> = Until(&[((18, 3), all(36.7))], [36.7, 36.7, 29.0]);
const TREE_LL128_BLACKWELL: Until<Caps> =
    Until(&[((28, 3), [73.4, 73.4, 58.0])], [55.6, 31.67, 20.0]);
const TREE_HOPPER: Until<Caps> = Until(&[((18, 3), [38.7, 41.4, 33.0])], [38.7, 41.4, 36.0]);
const TREE_BLACKWELL: Until<Caps> = Until(&[((28, 3), [77.4, 82.8, 72.0])], [70.0, 42.8, 24.0]);
const NVLS_TREE_BLACKWELL: Until<Caps> =
    Until(&[((28, 9), [0.0, 96.0, 43.1]), ((30, 3), [0.0, 96.0, 43.8])], [0.0, 96.0, 80.0]);

/// The latency of a tree's step in Simple over `NVLink`, PCI and the network.
const TREE_STEP: Until<[f32; 3]> = Until(
    &[((18, 3), [28.0; 3]), ((19, 1), [4.0, 6.0, 14.0]), ((23, 4), [28.0; 3])],
    [4.0, 4.0, 14.0],
);
const DIRECT_STEP: Until<[f32; 3]> = Until(&[((19, 1), [8.0, 8.0, 10.7])], [3.7, 3.7, 31.0]);
const CHAIN_STEP: Until<[f32; 3]> = Until(&[((19, 1), [4.75, 8.0, 14.0])], [2.8, 2.8, 30.0]);
const NVLS_STEP: Until<f32> = Until(&[((19, 1), 0.0), ((21, 5), 23.0)], 25.0);
const NVLS_TREE_NET: Until<f32> = Until(&[((19, 1), 19.0), ((28, 9), 14.0)], 20.9);
const PAT_STEP: Until<[f32; 3]> = Until(&[((28, 3), [0.0; 3])], [4.0, 4.0, 14.0]);

/// Operations of a group for which all algorithms but rings pay their latency once: as many as fit
/// into a batch of a kibibyte.
const PIPELINED: Until<u32> =
    Until(&[((22, 3), 9), ((23, 4), 16), ((30, 3), 10), ((32, 3), 8)], 10);

const fn has(tag: (u8, u8), rule: Rule) -> bool {
    rule.holds(tag)
}

impl Constants {
    const fn of(tag: (u8, u8)) -> Self {
        let ll_hopper = LL_HOPPER.at(tag);
        let tree_ll128 = TREE_LL128_HOPPER.at(tag);
        let tree = TREE_HOPPER.at(tag);
        // If no GPU is in the class of Blackwell, its row is never used.
        let blackwell = has(tag, since::BLACKWELL);
        let collnet = if has(tag, since::NVLS_STEPS) { NONE } else { [6.8, 14.0, 0.0] };
        let nvls = if has(tag, since::NVLS_STEPS) { NONE } else { simple(23.0) };
        let tree_base = if has(tag, since::PAT) { 8.4 } else { 0.0 };
        Self {
            ll: [LL_VOLTA, LL_AMPERE, ll_hopper, if blackwell { LL_BLACKWELL } else { ll_hopper }],
            ring_ll128: [all(20.0), all(20.0), all(36.7), RING_LL128_BLACKWELL.at(tag)],
            tree_ll128: [all(20.0), all(20.0), tree_ll128, TREE_LL128_BLACKWELL.at(tag)],
            tree: [TREE_VOLTA, TREE_AMPERE, tree, TREE_BLACKWELL.at(tag)],
            nvls_tree: [TREE_VOLTA, TREE_AMPERE, [0.0, 57.7, 45.5], NVLS_TREE_BLACKWELL.at(tag)],
            nvls_efficiency: [0.0, 0.0, 0.85, 0.74],
            base: [
                [6.8, 14.0, tree_base],
                RING_BASE,
                collnet,
                collnet,
                nvls,
                nvls,
                if has(tag, since::PAT_BASE) { [8.0; 3] } else { NONE },
            ],
            hardware: [
                Self::hardware(tag, 0, [0.6, 1.25], RING_NVLINK),
                Self::hardware(tag, 1, [1.0, 1.9], RING_PCI),
                Self::hardware(tag, 2, [5.0, 8.5], RING_NET),
            ],
            pipelined: PIPELINED.at(tag),
            slowest: if has(tag, since::NO_SLOWEST) { f32::MAX } else { 3.6e9 },
            collnet_direct_rank: if has(tag, since::NVLS_STEPS) { 0.4 } else { 0.5 },
        }
    }

    /// The steps over a link: 0 `NVLink`, 1 PCI, 2 the network.
    const fn hardware(
        tag: (u8, u8),
        link: usize,
        [ll, ll128]: [f32; 2],
        ring: Latencies,
    ) -> [Latencies; 7] {
        let (nvls, nvls_tree) = match link {
            0 => (NVLS_STEP.at(tag), NVLS_STEP.at(tag)),
            1 => (0.0, 0.0),
            _ => (18.0, NVLS_TREE_NET.at(tag)),
        };
        [
            [ll, ll128, TREE_STEP.at(tag)[link]],
            ring,
            simple(DIRECT_STEP.at(tag)[link]),
            simple(CHAIN_STEP.at(tag)[link]),
            simple(nvls),
            simple(nvls_tree),
            simple(PAT_STEP.at(tag)[link]),
        ]
    }
}

/// The constants of a release.
pub(super) fn of(version: Version) -> &'static Constants {
    static ALL: [Constants; Version::ALL.len()] = {
        let mut all = [const { Constants::of((18, 1)) }; Version::ALL.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = Constants::of(Version::ALL[i].tag());
            i += 1;
        }
        all
    };
    &ALL[version.index()]
}

/// The fraction of its rate that a tree reaches, by protocol, for sizes of 64·2^k bytes and more.
///
/// Only `NVLSTree` uses the last class.
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
