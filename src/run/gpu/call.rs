//! A call of NCCL: its kind, each rank's input, and the expected result.

use std::ffi::c_int;

use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::machine::sample::DataType;

/// The possible calls: those that NCCL's tuner chooses for, and groups of messages.
pub const CALLS: [Collective; 7] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::SendRecv,
];

/// NCCL's number of a type, and its size in bytes; only for types that are measured.
pub(super) fn element(dtype: DataType) -> Option<(c_int, usize)> {
    match dtype {
        DataType::F32 => Some((7, 4)),
        DataType::Bf16 => Some((9, 2)),
        _ => None,
    }
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// The operation.
    pub(super) collective: Collective,
    /// The type of its numbers.
    pub(super) dtype: DataType,
    /// The number of elements in one rank's block, if there are blocks; otherwise in total.
    pub(super) count: usize,
}

impl Call {
    /// The call of M = `size` over `ranks` ranks; `None` for a type that is not measured.
    pub(super) fn new(
        collective: Collective,
        dtype: DataType,
        size: Bytes,
        ranks: u32,
    ) -> Option<Self> {
        let (_, bytes) = element(dtype)?;
        let all = usize::try_from(size.0).ok()? / bytes;
        let count = if collective.has_blocks() { all / ranks.max(1) as usize } else { all };
        Some(Self { collective, dtype, count })
    }

    /// The largest M up to `size` that is whole blocks of whole numbers, and at least one number
    /// each.
    pub(super) fn whole(collective: Collective, dtype: DataType, size: Bytes, ranks: u32) -> Bytes {
        let number = element(dtype).map_or(1, |(_, bytes)| bytes as u64);
        let blocks = if collective.has_blocks() { u64::from(ranks.max(1)) } else { 1 };
        let unit = number * blocks;
        Bytes((size.0 / unit * unit).max(unit))
    }

    /// The smallest call of its kind in which all ranks wait for each other.
    pub(super) fn least(self) -> Self {
        let rooted = matches!(self.collective, Collective::Broadcast | Collective::Reduce);
        let collective = if rooted { Collective::AllReduce } else { self.collective };
        Self { collective, count: 1, ..self }
    }

    /// The bytes that it needs in a buffer at most.
    pub(super) fn bytes(self, ranks: u32) -> usize {
        let blocks = if self.collective.has_blocks() { ranks as usize } else { 1 };
        element(self.dtype).map_or(0, |(_, bytes)| bytes * self.count * blocks)
    }

    /// The number of elements in the result.
    pub(super) fn length(self, ranks: u32) -> usize {
        match self.collective {
            Collective::AllGather | Collective::AllToAll => self.count * ranks as usize,
            _ => self.count,
        }
    }

    /// The messages of `rank` in a group: to which rank, from which rank, and which block.
    pub(super) fn messages(self, rank: u32, ranks: u32) -> Vec<(u32, u32, usize)> {
        match self.collective {
            Collective::AllToAll => (0..ranks).map(|peer| (peer, peer, peer as usize)).collect(),
            // Every rank to the next, as nccl-tests does it.
            _ => vec![((rank + 1) % ranks, (rank + ranks - 1) % ranks, 0)],
        }
    }

    /// The expected element `i` of the result on `rank`.
    pub(super) fn result(self, (rank, ranks): (u32, u32), i: usize) -> f32 {
        let of = |rank, i| brought(self.dtype, rank, i);
        let sum = |i| (0..ranks).map(|rank| of(rank, i)).sum();
        let count = self.count;
        match self.collective {
            Collective::AllReduce | Collective::Reduce => sum(i),
            Collective::ReduceScatter => sum(rank as usize * count + i),
            Collective::Broadcast => of(0, i),
            Collective::AllGather => of((i / count) as u32, i % count),
            Collective::AllToAll => of((i / count) as u32, rank as usize * count + i % count),
            _ => of((rank + ranks - 1) % ranks, i),
        }
    }

    /// Whether its result is defined on `rank`, and exact: sums of bf16 are exact up to 256.
    pub(super) fn is_compared(self, rank: u32, ranks: u32) -> bool {
        let exact = !self.collective.reduces() || self.dtype == DataType::F32 || ranks <= 128;
        exact && (self.collective != Collective::Reduce || rank == 0)
    }
}

/// A rank's input repeats after this many numbers.
pub(super) const PERIOD: usize = 251;

/// Element `i` of the input of `rank`: a small integer, so that sums are exact in every order.
fn brought(dtype: DataType, rank: u32, i: usize) -> f32 {
    let most = if dtype == DataType::F32 { 97 } else { 3 };
    ((i % PERIOD + 7 * rank as usize) % most) as f32
}

/// The bytes of the first `count` elements of the input of `rank`.
pub(super) fn contents(dtype: DataType, rank: u32, count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| write(dtype, brought(dtype, rank, i))).collect()
}

/// A number as stored in memory.
fn write(dtype: DataType, number: f32) -> Vec<u8> {
    match dtype {
        // The upper half of an f32, exact for these inputs.
        DataType::Bf16 => ((number.to_bits() >> 16) as u16).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    }
}

/// The numbers in `bytes`.
pub(super) fn numbers(dtype: DataType, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        DataType::Bf16 => bytes
            .chunks_exact(2)
            .map(|b| f32::from_bits(u32::from(u16::from_ne_bytes([b[0], b[1]])) << 16))
            .collect(),
        _ => bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_and_sums_of_them_are_exact() {
        for dtype in [DataType::F32, DataType::Bf16] {
            let bytes = contents(dtype, 3, 600);
            let back = numbers(dtype, &bytes);
            assert!((0..600).all(|i| back[i] == brought(dtype, 3, i)));
            let call = Call::new(Collective::AllReduce, dtype, Bytes(64), 128).unwrap();
            let sum = call.result((0, 128), 5);
            assert_eq!(numbers(dtype, &write(dtype, sum))[0], sum, "{dtype:?}");
        }
    }

    #[test]
    fn blocks_of_an_exchange_come_from_every_rank() {
        let call = Call::new(Collective::AllToAll, DataType::F32, Bytes(64), 4).unwrap();
        assert_eq!((call.count, call.bytes(4), call.length(4)), (4, 64, 16));
        // Block 2 of rank 1 is block 1 of rank 2.
        assert_eq!(call.result((1, 4), 2 * 4 + 3), brought(DataType::F32, 2, 4 + 3));
        let ring = Call::new(Collective::SendRecv, DataType::F32, Bytes(64), 4).unwrap();
        assert_eq!(ring.messages(3, 4), [(0, 2, 0)]);
        assert_eq!(ring.result((0, 4), 9), brought(DataType::F32, 3, 9));
        let whole = |c, dtype, size| Call::whole(c, dtype, Bytes(size), 3).0;
        assert_eq!(whole(Collective::AllToAll, DataType::Bf16, 64), 60);
        assert_eq!(whole(Collective::AllReduce, DataType::Bf16, 7), 6);
        assert_eq!(whole(Collective::AllGather, DataType::F32, 1), 12);
    }
}
