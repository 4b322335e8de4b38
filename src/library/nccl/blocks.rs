//! How a cell's numbers of channels and threads decrease with the size.

use super::communicator::Communicator;
use super::table::Table;
use super::{Algo, Proto, Version, since};

/// How a cell's numbers of channels and threads decrease with the size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// 2⁶⁴ over the bytes per channel below which a channel is given up, rounded up; 0: none is. A
    /// product with it takes a fifth of a division's time, and its upper half is the quotient of
    /// any 32-bit size.
    pub shares: u64,
    /// Below each of these a last channel's threads are halved once more; 0: they are not.
    pub halvings: [u32; 3],
    pub channels: u16,
    /// The least number of channels: all of them if the size does not matter.
    pub least: u16,
    pub threads: u16,
    /// Additional threads of a block.
    pub helpers: u16,
    /// A number of threads that does not depend on the size; 0: none.
    pub fixed: u16,
    /// Whether the number of channels has its own rule, or a 32-bit product overflows.
    pub is_odd: bool,
}

impl Limit {
    /// The rule of a cell.
    pub fn of(
        comm: &Communicator,
        version: Version,
        table: &Table,
        (algo, proto): (Algo, Proto),
    ) -> Self {
        let nvls = matches!(algo, Algo::Nvls | Algo::NvlsTree);
        let channels = if nvls { comm.switch_channels(version, algo) } else { comm.call_channels };
        let threads = table.threads(algo, proto);
        let threshold = table.thresholds[algo as usize][proto as usize];
        let block = u64::from(threads) * u64::from(threshold);
        let matters = !nvls && block > 0;
        let overflows = matters && block * u64::from(channels) > i32::MAX as u64;
        let block = if matters { block as u32 } else { 0 };
        let shares = match block {
            0 => 0,
            block => (u64::MAX / u64::from(block)).wrapping_add(1),
        };
        let mut halvings = [0; 3];
        for (k, below) in halvings.iter_mut().enumerate() {
            if !matters || !(threads >> k).is_multiple_of(128) {
                break;
            }
            *below = block >> k;
        }
        Self {
            shares,
            channels: channels as u16,
            least: if matters { 1 } else { channels as u16 },
            threads: threads as u16,
            helpers: helpers(algo, proto),
            fixed: match algo {
                Algo::Tree | Algo::Pat if version.has(since::ONE_TABLE) => 640,
                _ => 0,
            },
            halvings,
            is_odd: overflows || algo == Algo::CollNetDirect,
        }
    }

    /// Channels that a size fills, before bounds.
    #[inline(always)]
    pub fn filled(&self, size: u64) -> u32 {
        // More than 32 bits is more than any number of channels.
        let size = size.min(u32::MAX.into());
        ((u128::from(size) * u128::from(self.shares)) >> 64) as u32
    }

    /// A block's threads with its helpers, and no fewer than NCCL ever starts.
    pub fn helped(&self, threads: u32) -> u32 {
        let threads = (threads + u32::from(self.helpers)).max(96);
        if self.fixed > 0 { self.fixed.into() } else { threads }
    }
}

/// Threads of a block besides those that move data.
pub(super) fn helpers(algo: Algo, proto: Proto) -> u16 {
    match (algo, proto) {
        (Algo::Ring, Proto::Simple) => 32,
        (Algo::Tree, Proto::Simple) => 128,
        _ => 0,
    }
}

/// Channels of a direct in-network reduction. The number decreases to 16, then 8, 4 …, while the
/// size is too small.
pub(super) fn collnet_direct_channels(
    heads: u32,
    mut channels: u32,
    threads: u32,
    mut threshold: u32,
    size: u64,
) -> u32 {
    let mut step = 16;
    loop {
        let low = |channels: u32, threshold: u32| {
            is_short(size, [channels.wrapping_mul(threads), heads, threshold])
        };
        let mut is_low = low(channels, threshold);
        while is_low && channels > step {
            if channels == step + step / 2 {
                threshold /= 2;
            }
            channels -= 1;
            is_low = low(channels, threshold);
        }
        step /= 2;
        if step < 1 || !is_low {
            return channels;
        }
    }
}

/// Whether the size is less than a product.
///
/// NCCL multiplies 32-bit integers and compares the product as 64 unsigned bits.
pub(super) fn is_short(size: u64, factors: [u32; 3]) -> bool {
    let product = factors[0].wrapping_mul(factors[1]).wrapping_mul(factors[2]);
    size < product.cast_signed() as u64
}
