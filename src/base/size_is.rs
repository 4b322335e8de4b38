//! What a given size counts.
//!
//! M is nccl-tests' size everywhere in this crate (see [`Collective`]). Frameworks and papers also
//! count one rank's part, or what one rank sends to one other rank.

use std::str::FromStr;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::base::words::one_of;

/// What a given size counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SizeIs {
    /// M itself.
    #[default]
    Total,
    /// The part of one rank before or after the call: a shard of an all-gather.
    PerRank,
    /// The part of one rank for one other rank: a block of an all-to-all.
    PerPeer,
}

impl SizeIs {
    /// M for a given size, over `ranks` ranks.
    ///
    /// # Errors
    /// A per-peer size of a collective without blocks for peers; more bytes than can be counted.
    pub fn total(self, collective: Collective, ranks: u32, size: Bytes) -> Result<Bytes> {
        use Collective as C;
        let parts = match (self, collective) {
            (Self::PerRank, C::AllGather | C::ReduceScatter | C::Scatter | C::Gather)
            | (Self::PerPeer, C::AllToAll) => ranks,
            // One rank's whole buffer, or the whole vector.
            (Self::Total | Self::PerRank, _) => 1,
            (Self::PerPeer, _) => {
                return Err(Error::input(format!("{} has no per-peer blocks", collective.name()))
                    .help("give its total size, or the size per rank"));
            }
        };
        let too_large = || Error::input("these are more bytes than can be counted");
        size.0.checked_mul(parts.into()).map(Bytes).ok_or_else(too_large)
    }
}

impl FromStr for SizeIs {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words =
            [("total", Self::Total), ("per-rank", Self::PerRank), ("per-peer", Self::PerPeer)];
        one_of(text, "a way to count a size", words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole() {
        let total = |is: SizeIs, c| is.total(c, 8, Bytes(10));
        assert_eq!(total(SizeIs::Total, Collective::AllGather).unwrap(), Bytes(10));
        assert_eq!(total(SizeIs::PerRank, Collective::ReduceScatter).unwrap(), Bytes(80));
        assert_eq!(total(SizeIs::PerRank, Collective::AllReduce).unwrap(), Bytes(10));
        assert_eq!(total(SizeIs::PerPeer, Collective::AllToAll).unwrap(), Bytes(80));
        assert!(total(SizeIs::PerPeer, Collective::Broadcast).is_err());
        assert!(SizeIs::PerRank.total(Collective::Gather, 9, Bytes(u64::MAX / 8)).is_err());
    }
}
