//! The collective operations: what M means, how bandwidths are reported.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bytes, Ratio};

/// A collective operation over N ranks.
///
/// M is nccl-tests' size: the whole vector for broadcast, reduce, all-reduce and send/recv; the
/// total over all ranks for all-gather, reduce-scatter, scatter and gather; one rank's whole
/// buffer, its own block included, for all-to-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Collective {
    /// Every rank ends with the reduction of all vectors.
    AllReduce,
    /// Every rank ends with the blocks of all ranks.
    AllGather,
    /// Every rank ends with its own block of the reduction.
    ReduceScatter,
    /// Rank i's block j ends at rank j as its block i.
    AllToAll,
    /// The root's vector ends at every rank.
    Broadcast,
    /// The root ends with the reduction of all vectors.
    Reduce,
    /// Rank i ends with block i of the root's vector.
    Scatter,
    /// The root ends with the blocks of all ranks.
    Gather,
    /// One rank's vector ends at another.
    SendRecv,
    /// No rank leaves before all have arrived; no data.
    Barrier,
}

use Collective::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
    SendRecv,
};

impl Collective {
    /// All collectives, in listing order.
    pub const ALL: &[Self] = &[
        AllReduce,
        AllGather,
        ReduceScatter,
        AllToAll,
        Broadcast,
        Reduce,
        Scatter,
        Gather,
        SendRecv,
        Barrier,
    ];

    /// The name on the command line and in JSON, such as `allreduce`.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            AllReduce => "allreduce",
            AllGather => "allgather",
            ReduceScatter => "reducescatter",
            AllToAll => "alltoall",
            Broadcast => "broadcast",
            Reduce => "reduce",
            Scatter => "scatter",
            Gather => "gather",
            SendRecv => "sendrecv",
            Barrier => "barrier",
        }
    }

    /// The name in a sentence, such as `all-reduce`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AllReduce => "all-reduce",
            AllGather => "all-gather",
            ReduceScatter => "reduce-scatter",
            AllToAll => "all-to-all",
            SendRecv => "send/recv",
            other => other.id(),
        }
    }

    /// The other accepted spellings. Case, `-`, `_` and a leading `MPI_` or `nccl` do not matter.
    #[must_use]
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            AllReduce => &["ar", "allr", "psum"],
            AllGather => &["ag", "allg"],
            ReduceScatter => &["rs", "reducescatterblock"],
            AllToAll => &["a2a"],
            Broadcast => &["bc", "bcast"],
            Reduce => &["red"],
            SendRecv => &["p2p", "pt2pt"],
            Scatter | Gather | Barrier => &[],
        }
    }

    /// What M counts: the words between the size and the number of ranks.
    #[must_use]
    pub fn size_means(self) -> &'static str {
        match self {
            AllReduce | Reduce | ReduceScatter => "on each of",
            Broadcast => "from the root to",
            SendRecv => "from one to the other of",
            AllGather | Gather => "in total from",
            Scatter => "in total to",
            AllToAll => "in the buffer of each of",
            Barrier => "of",
        }
    }

    /// Whether one rank has or gets all the data.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(self, Broadcast | Reduce | Scatter | Gather | SendRecv)
    }

    /// busbw = algbw · this factor, as nccl-tests' PERFORMANCE.md defines it.
    ///
    /// Broadcast is 1 there, not the (N − 1)/N of some texts. Scatter and gather follow
    /// nccl-tests' `scatter.cu` and `gather.cu`.
    #[must_use]
    pub fn busbw_factor(self, ranks: u32) -> Ratio {
        let n = f64::from(ranks.max(1));
        Ratio(match self {
            AllReduce => 2.0 * (n - 1.0) / n,
            AllGather | ReduceScatter | AllToAll | Scatter | Gather => (n - 1.0) / n,
            Broadcast | Reduce | SendRecv | Barrier => 1.0,
        })
    }

    /// The size of a call, if `given`; a barrier has one of 0 bytes without being given one.
    ///
    /// # Errors
    /// A barrier with bytes.
    pub fn sized(self, given: Option<Bytes>) -> Result<Option<Bytes>> {
        match (self, given) {
            (Barrier, None | Some(Bytes(0))) => Ok(Some(Bytes(0))),
            (_, given) => self.refuse_size().map(|()| given),
        }
    }

    /// Refuses a size where none can be.
    ///
    /// # Errors
    /// It is a barrier.
    pub fn refuse_size(self) -> Result<()> {
        match self {
            Barrier => Err(Error::input("a barrier moves no data").help("leave out the size")),
            _ => Ok(()),
        }
    }

    /// Whether M is a block for each rank.
    pub(crate) fn has_blocks(self) -> bool {
        matches!(self, AllGather | ReduceScatter | AllToAll | Scatter | Gather)
    }

    /// Whether ranks add what they receive.
    #[must_use]
    pub fn reduces(self) -> bool {
        matches!(self, AllReduce | Reduce | ReduceScatter)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Collective {
    type Err = Error;

    /// Reads `allreduce`, `all_reduce`, `AllReduce`, `ar`, `MPI_Allreduce`, `all_reduce_perf`.
    fn from_str(text: &str) -> Result<Self> {
        let mut plain: String =
            text.chars().filter(|c| !matches!(c, '-' | '_' | '/' | ' ')).collect();
        plain.make_ascii_lowercase();
        let plain = plain.strip_prefix("mpi").or(plain.strip_prefix("nccl")).unwrap_or(&plain);
        let plain = plain.strip_suffix("perf").unwrap_or(plain);
        let named = |name: &str| {
            Self::ALL.iter().copied().find(|c| c.id() == name || c.aliases().contains(&name))
        };
        // A call with counts is not priced as one with equal blocks behind the user's back.
        let equal = plain.strip_suffix('v').and_then(named);
        if let Some(equal @ (AllGather | AllToAll | Scatter | Gather)) = equal {
            let id = equal.id();
            return Err(Error::input(format!(
                "`{text}` has a count for every rank, and only collectives with equal blocks are \
                 priced"
            ))
            .help(format!("if all counts are equal, name {id}")));
        }
        named(plain).ok_or_else(|| {
            let known = Self::ALL.iter().map(|c| c.id());
            Error::input(format!("`{text}` is not a collective")).help(advice(plain, known))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_people_type_them() {
        for text in [
            "allreduce",
            "all_reduce",
            "AllReduce",
            "ar",
            "MPI_Allreduce",
            "all_reduce_perf",
            "all-reduce",
        ] {
            assert_eq!(text.parse::<Collective>().unwrap(), AllReduce, "{text}");
        }
        assert_eq!("bcast".parse::<Collective>().unwrap(), Broadcast);
        assert!("alreduce".parse::<Collective>().unwrap_err().to_string().contains("`allreduce`"));
    }

    #[test]
    fn a_call_with_counts_is_not_one_with_equal_blocks() {
        for text in ["alltoallv", "MPI_Alltoallv", "alltoallv_perf", "a2av", "gatherv"] {
            let error = text.parse::<Collective>().unwrap_err().to_string();
            assert!(error.contains("a count for every rank"), "{error}");
        }
        assert!(!"reducev".parse::<Collective>().unwrap_err().to_string().contains("count"));
    }

    #[test]
    fn the_list_is_in_the_order_of_the_variants() {
        for (i, &c) in Collective::ALL.iter().enumerate() {
            assert_eq!(c as usize, i, "{c}");
        }
    }

    #[test]
    fn every_name_is_read_back_and_means_one_thing() {
        for &c in Collective::ALL {
            for text in [c.id(), c.name()].iter().chain(c.aliases()) {
                assert_eq!(text.parse::<Collective>().unwrap(), c, "{text}");
            }
        }
    }
}
