//! The constants of one communicator: those of 2.30.7, with what later releases changed.

use super::super::constants::{self, gpu_class};
use super::super::{Communicator, Vendor, Version};
use super::Release;

/// Rates in GB/s, latencies in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    /// LL's cap over all channels; on Rubin-class GPUs, a channel's cap.
    pub ll: f64,
    /// A ring channel's cap under LL128.
    pub ring_ll128: f64,
    /// A tree channel's under LL128.
    pub tree_ll128: f64,
    /// A tree channel's cap under any protocol; no cap if negative.
    pub tree: f64,
    /// The cap of a channel of `NVLSTree`; no cap if negative.
    pub nvls_tree: f64,
    /// The fraction of the switch's rate that NVLS gets.
    pub efficiency: f32,
    /// The latency of an algorithm before its first step, by protocol.
    pub base: [[f32; 3]; 7],
    /// The latency of a step over `NVLink`, PCI and the network.
    pub hardware: [[[f32; 3]; 7]; 3],
    /// The latency of a ring's step between nodes in Simple, before rounding.
    pub rail: f64,
}

/// The latency of a step on Rubin-class GPUs over `NVLink`, PCI and the network, by algorithm and
/// protocol.
pub(super) const RUBIN: [[[f64; 3]; 7]; 3] = [
    [
        [3.49, 4.88, 10.99],
        [4.03, 5.46, 14.26],
        simple(3.7),
        simple(2.8),
        simple(41.35),
        simple(40.48),
        simple(4.0),
    ],
    [
        [1.0, 1.9, 4.0],
        [1.0, 2.5, 5.7],
        simple(3.7),
        simple(2.8),
        simple(0.0),
        simple(0.0),
        simple(4.0),
    ],
    [
        [19.56, 27.64, 36.32],
        [8.19, 11.29, 15.59],
        simple(31.0),
        simple(30.0),
        simple(18.0),
        simple(34.37),
        simple(14.0),
    ],
];

const fn simple(latency: f64) -> [f64; 3] {
    [0.0, 0.0, latency]
}

/// Whether GPUs are Rubin-class, whose rings and trees have a separate model.
pub(super) fn is_rubin(comm: &Communicator, release: Release) -> bool {
    release >= Release::V2_32_6 && (107..120).contains(&comm.min_cc)
}

const BLACKWELL: usize = 3;

/// The release whose constants later releases kept.
const NEWEST_TABLE: Version = Version::NEWEST;

impl Figures {
    pub fn of(comm: &Communicator, release: Release) -> Self {
        let known = constants::of(NEWEST_TABLE);
        let column = (comm.nodes.min(3) - 1) as usize;
        let class = gpu_class(comm.min_cc, NEWEST_TABLE);
        let amd = matches!(comm.vendor, Vendor::Amd | Vendor::Mixed);
        // LL's cap depends on the GPU on one node, and on the processor on several.
        let ll_row = if comm.nodes == 1 { class } else { usize::from(amd) };
        let mut figures = Self {
            ll: known.ll[ll_row][column],
            ring_ll128: known.ring_ll128[class][column],
            tree_ll128: known.tree_ll128[class][column],
            tree: known.tree[class][column],
            nvls_tree: known.nvls_tree[class][column],
            efficiency: known.nvls_efficiency[class],
            base: known.base,
            hardware: known.hardware,
            rail: 14.0,
        };
        if release >= Release::V2_32 && class == BLACKWELL {
            match column {
                0 => figures.ll = 282.4,
                1 => figures.tree_ll128 = 36.7,
                _ => {}
            }
        }
        if is_rubin(comm, release) { figures.on_rubin(column) } else { figures }
    }

    fn on_rubin(self, column: usize) -> Self {
        Self {
            hardware: RUBIN.map(|link| link.map(|algo| algo.map(|latency| latency as f32))),
            rail: RUBIN[2][1][2],
            ll: [2.0, 0.6, 0.46][column],
            ring_ll128: [21.6, 17.0, 14.0][column],
            tree_ll128: [11.2, 11.91, 11.91][column],
            tree: -1.0,
            nvls_tree: -1.0,
            efficiency: 0.87,
            ..self
        }
    }
}
