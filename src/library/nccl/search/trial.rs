//! A set of channels: the one currently tried, and the best so far.

use super::super::topology::Level;
use super::super::{Version, since};

/// The shape of a graph, with NCCL's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A tree whose first two GPUs share the NIC's load.
    BalancedTree = 1,
    /// A tree whose first GPU carries the NIC's load.
    Tree = 3,
    /// A ring.
    Ring = 4,
    /// Heads of an `NVLink` switch.
    Nvls = 5,
    /// Heads that communicate with all other GPUs.
    CollnetDirect = 6,
}

impl Pattern {
    pub(super) fn is_tree(self) -> bool {
        matches!(self, Self::BalancedTree | Self::Tree)
    }

    /// Whether a channel is a head and the GPUs attached to it, not an order of GPUs.
    pub(super) fn has_heads(self) -> bool {
        matches!(self, Self::Nvls | Self::CollnetDirect)
    }
}

/// Channels with their limits.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) pattern: Pattern,
    /// Whether only NICs whose network reduces are allowed.
    pub(super) collnet: bool,
    pub(super) cross_nic: u8,
    /// GB/s of a channel between GPUs.
    pub(super) intra: f32,
    /// GB/s of a channel to and from NICs.
    pub(super) inter: f32,
    /// The latency that the NIC of the last channel adds, in µs.
    pub(super) latency: f32,
    /// The farthest path allowed between GPUs.
    pub(super) level_intra: Level,
    /// The farthest path allowed between a GPU and a NIC.
    pub(super) level_inter: Level,
    pub(super) least: usize,
    pub(super) most: usize,
    /// Whether every channel takes the path of the first.
    pub(super) same: bool,
    /// Hops of all channels; never reset, as in NCCL.
    pub(super) hops: i32,
    pub(super) channels: usize,
    width: usize,
    /// GPUs by channel and position.
    gpus: Vec<u16>,
    /// The first and the last NIC by channel.
    pub(super) nets: Vec<[u16; 2]>,
}

impl Trial {
    /// No channels yet, of at most `room`, over this many GPUs.
    pub(super) fn empty(pattern: Pattern, level: Level, width: usize, room: usize) -> Self {
        Self {
            pattern,
            collnet: false,
            cross_nic: 0,
            intra: 0.0,
            inter: 0.0,
            latency: 0.0,
            level_intra: level,
            level_inter: level,
            least: 1,
            most: room,
            same: false,
            hops: 0,
            channels: 0,
            width,
            gpus: vec![0; room * width],
            nets: vec![[0; 2]; room],
        }
    }

    pub(super) fn gpu(&self, channel: usize, position: usize) -> usize {
        usize::from(self.gpus[channel * self.width + position])
    }

    pub(super) fn put(&mut self, channel: usize, position: usize, gpu: usize) {
        self.gpus[channel * self.width + position] = gpu as u16;
    }

    pub(super) fn channel(&self, channel: usize) -> &[u16] {
        &self.gpus[channel * self.width..(channel + 1) * self.width]
    }

    /// Copies everything from another trial over the same GPUs.
    pub(super) fn take(&mut self, other: &Self) {
        let (gpus, nets) = (std::mem::take(&mut self.gpus), std::mem::take(&mut self.nets));
        let (mut gpus, mut nets) = (gpus, nets);
        let filled = other.channels * self.width;
        gpus[..filled].copy_from_slice(&other.gpus[..filled]);
        nets[..other.channels].copy_from_slice(&other.nets[..other.channels]);
        *self = Self { gpus, nets, ..*other };
    }

    /// The total rate of the channels between GPUs.
    pub(super) fn rate(&self) -> f32 {
        self.channels as f32 * self.intra
    }

    /// The total rate of the channels to and from NICs.
    pub(super) fn net_rate(&self) -> f32 {
        self.channels as f32 * self.inter
    }

    /// Duplicates channels at half the rate if one is too fast for the hardware that serves it.
    pub(super) fn duplicate(&mut self, version: Version, cc: u32) {
        let fast = match version.has(since::DUPLICATES_BY_COUNT) {
            true => self.intra >= 25.0 && !(cc > 80 && self.intra < 50.0 && self.channels > 4),
            false => cc <= 80 && self.intra >= 25.0 || cc <= 90 && self.intra >= 50.0,
        };
        if self.channels == 0 || self.pattern == Pattern::Nvls || !fast {
            return;
        }
        let count = (2 * self.channels).min(self.most);
        for new in self.channels..count {
            let old = new - self.channels;
            self.nets[new] = self.nets[old];
            let from = old * self.width;
            self.gpus.copy_within(from..from + self.width, new * self.width);
        }
        let share = count.div_ceil(self.channels) as f32;
        self.intra /= share;
        self.inter /= share;
        self.channels = count;
    }
}
