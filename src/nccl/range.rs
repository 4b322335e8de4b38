//! Which channels a call really runs on: what choice lines since 2.24 print.
//!
//! The tuner hands a number of channels to the scheduler, which gives a call no more of them than
//! have enough to carry.
//!
//! Source: NVIDIA/nccl 2.27.3 and 2.30.7, `src/enqueue.cc` (scheduling of collective tasks).

use super::{Algo, Function, Proto, Version};
use crate::quantity::Bytes;

/// A call as the scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// The function.
    pub function: Function,
    /// The algorithm.
    pub algo: Algo,
    /// The protocol.
    pub proto: Proto,
    /// Count · element size: of all-gather and reduce-scatter one rank's block.
    pub buffer: Bytes,
    /// Ranks.
    pub ranks: u32,
    /// Channels that the tuner allows.
    pub channels: u32,
}

impl Scheduled {
    /// How many channels, from the first, the only call of a group runs on; none for versions until
    /// 2.22, whose scheduler is another and prints no range, and where the network reduces.
    #[must_use]
    pub fn used(&self, version: Version) -> Option<u32> {
        if !version.is_new() || self.algo.is_collnet() || self.channels == 0 {
            return None;
        }
        let least: u128 = if version >= Version::V2_30 { 32 << 10 } else { 16 << 10 };
        let buffer = u128::from(self.buffer.0);
        let mut traffic: u128 = match self.function {
            Function::AllReduce => 2,
            Function::AllGather | Function::ReduceScatter => self.ranks.into(),
            Function::Broadcast | Function::Reduce => 1,
        };
        if self.proto == Proto::Ll {
            traffic *= 4;
        }
        let round = |bytes: u128| bytes.div_ceil(16) * 16;
        let cell = round(least.div_ceil(traffic));
        let cells = buffer.div_ceil(cell).max(1);
        let each = round(least.max(buffer * traffic) / u128::from(self.channels));
        let cells_each = cells.min(each.div_ceil(cell * traffic)).max(1);
        u32::try_from(cells.div_ceil(cells_each)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a run of NCCL 2.29.7 over TCP printed: two ranks, four channels.
    #[test]
    fn as_a_log_prints_them() {
        for (proto, channels, bytes, used) in [
            (Proto::Ll, 1, 8192, 1),
            (Proto::Ll, 2, 16384, 2),
            (Proto::Simple, 2, 32768, 1),
            (Proto::Simple, 4, 65536, 2),
            (Proto::Simple, 4, 131_072, 4),
            (Proto::Simple, 4, 134_217_728, 4),
        ] {
            let call = Scheduled {
                function: Function::Broadcast,
                algo: Algo::Ring,
                proto,
                buffer: Bytes(bytes),
                ranks: 2,
                channels,
            };
            assert_eq!(call.used(Version::V2_30), Some(used), "{bytes} {proto}");
        }
    }
}
