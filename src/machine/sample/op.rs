//! What was run: an algorithm of a collective, a library's own choice, messages, or local work.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use super::DataType;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::machine::nccl::{Algo, Proto};
use crate::model::formula::{Params, Shape};

/// An operation that was timed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// One rank sends M to another; the time is for one way.
    OneWay,
    /// Every rank sends M to the next, all at once; between two ranks an exchange.
    Shift,
    /// Every rank sends M to the rank at this distance after it, all at once.
    ShiftBy(NonZeroU32),
    /// Ranks exchange M in pairs, all at once: in this round of those in which every two ranks meet once
    /// ([`partner`]).
    Pairs(NonZeroU32),
    /// Rank 0 sends M to each of k others, all at once.
    FanOut(NonZeroU32),
    /// One rank copies M in its memory.
    Copy,
    /// One rank adds M to data in its memory.
    Reduce,
    /// A collective by a known algorithm.
    Run(Run),
    /// A collective by the library's own choice, as benchmarks of libraries time it.
    Library(Library),
    /// A collective of NCCL with a forced algorithm and protocol.
    Forced(Forced),
    /// A GPU operation without a collective.
    Device(Device),
}

/// A collective of NCCL by an algorithm and a protocol that `NCCL_ALGO` and `NCCL_PROTO` name.
///
/// NCCL may use something else anyway: the block says what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Forced {
    /// The operation.
    pub collective: Collective,
    /// The type of its elements; absent if unknown.
    pub dtype: Option<DataType>,
    /// What was forced.
    pub chosen: Chosen,
}

/// The algorithm and protocol of an NCCL call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chosen {
    /// The algorithm.
    pub algo: Algo,
    /// The protocol.
    pub proto: Proto,
}

/// An operation of one GPU, or between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// M is copied from the memory of one GPU to that of another, until the host knows that the
    /// copy is complete.
    Copy {
        /// The GPU that it is copied from.
        from: u32,
        /// The GPU that it is copied to.
        to: u32,
    },
    /// The same both ways at once.
    Exchange {
        /// One of them.
        a: u32,
        /// The other.
        b: u32,
    },
    /// A kernel that adds M bytes is started, and the host waits for its end.
    Kernel,
    /// The same as a graph that was created before.
    Graph,
    /// M bytes are copied from the host to a GPU.
    Upload {
        /// Whether the host's pages are pinned.
        pinned: bool,
    },
    /// M bytes are copied from a GPU to the host.
    Download {
        /// Whether the host's pages are pinned.
        pinned: bool,
    },
}

/// A collective of a library, by an unknown algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Library {
    /// The operation.
    pub collective: Collective,
    /// The type of its elements; absent if the log does not say.
    pub dtype: Option<DataType>,
    /// Whether the operation is in place. Out of place, a library may copy, which adds microseconds
    /// to a small call, so both are separate operations.
    pub in_place: bool,
}

/// A collective by one of its algorithms.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    /// The operation.
    pub collective: Collective,
    /// The algorithm's id.
    pub algorithm: String,
    /// P, if it is a parameter.
    pub segments: Option<NonZeroU32>,
    /// The radix, if it is a parameter.
    pub radix: Option<u32>,
}

impl Op {
    /// An algorithm without parameters.
    pub fn run(collective: Collective, algorithm: impl Into<String>) -> Self {
        Self::Run(Run { collective, algorithm: algorithm.into(), segments: None, radix: None })
    }

    /// Whether rank 0 can finish only after every rank has begun and its data has arrived: then its
    /// own time is the operation's.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        use Collective::{AllGather, AllReduce, Barrier};
        match self {
            Self::OneWay => true,
            Self::Run(Run { collective, .. }) => {
                matches!(collective, AllReduce | AllGather | Barrier)
            }
            _ => false,
        }
    }

    /// Whether messages move.
    #[must_use]
    pub fn moves_data(&self) -> bool {
        !matches!(self, Self::Copy | Self::Reduce | Self::Device(_))
    }
}

impl Run {
    /// The shape over `ranks` ranks, with one full-duplex port each.
    #[must_use]
    pub fn shape(&self, ranks: u32) -> Shape {
        let params = Params { segments: self.segments, radix: self.radix, ..Params::default() };
        Shape { params, ..Shape::new(self.collective, ranks) }
    }
}

/// In how many rounds every two of `ranks` ranks meet once.
#[must_use]
pub fn rounds(ranks: u32) -> u32 {
    ranks.saturating_sub(1 - ranks % 2)
}

/// Whom `rank` of `ranks` meets in a round, from 1 on; nobody in one round if `ranks` is odd.
///
/// The circle method: <https://en.wikipedia.org/wiki/Round-robin_tournament#Circle_method>.
#[must_use]
pub fn partner(rank: u32, ranks: u32, round: NonZeroU32) -> Option<u32> {
    let circle = u64::from(rounds(ranks).max(1));
    let (rank, round) = (u64::from(rank), u64::from(round.get()) % circle);
    // With an even number one rank stays in the middle: the last one.
    let other = match rank < circle {
        true => Some((circle + round - rank) % circle).filter(|other| *other != rank),
        false => None,
    };
    let middle = ranks.is_multiple_of(2).then_some(circle);
    let other = match (other, middle) {
        (Some(other), _) => other,
        (None, Some(middle)) if rank < circle => middle,
        // It meets whom the circle lets meet itself: twice that one is the round.
        (None, Some(_)) => round * circle.div_ceil(2) % circle,
        (None, None) => return None,
    };
    Some(other as u32).filter(|&other| other < ranks)
}

impl fmt::Display for Op {
    /// As in files: `one-way`, `fan-out/3`, `allreduce/ring`, `broadcast/chain/P=16`,
    /// `library/allreduce/f32`, `library/allgather/any/in-place`, `nccl/allreduce/f32/ring/ll128`,
    /// `device/copy/0/1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneWay => f.write_str("one-way"),
            Self::Shift => f.write_str("shift"),
            Self::ShiftBy(k) => write!(f, "shift/{k}"),
            Self::Pairs(round) => write!(f, "pairs/{round}"),
            Self::FanOut(k) => write!(f, "fan-out/{k}"),
            Self::Copy => f.write_str("copy"),
            Self::Reduce => f.write_str("local-reduce"),
            Self::Run(Run { collective, algorithm, segments, radix }) => {
                write!(f, "{}/{algorithm}", collective.id())?;
                if let Some(p) = segments {
                    write!(f, "/P={p}")?;
                }
                radix.map_or(Ok(()), |k| write!(f, "/K={k}"))
            }
            Self::Library(Library { collective, dtype, in_place }) => {
                let dtype = dtype.map_or("any", DataType::id);
                let place = if *in_place { "/in-place" } else { "" };
                write!(f, "library/{}/{dtype}{place}", collective.id())
            }
            Self::Forced(Forced { collective, dtype, chosen }) => {
                let dtype = dtype.map_or("any", DataType::id);
                write!(f, "nccl/{}/{dtype}/{chosen}", collective.id())
            }
            Self::Device(device) => write!(f, "device/{device}"),
        }
    }
}

impl fmt::Display for Chosen {
    /// `ring/ll128`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.algo.lower(), self.proto.lower())
    }
}

impl FromStr for Chosen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (algo, proto) = text.split_once('/').ok_or_else(|| {
            Error::input(format!("`{text}` is not an algorithm with its protocol"))
                .help("write ring/ll128")
        })?;
        Ok(Self { algo: Algo::named(algo)?, proto: Proto::named(proto)? })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = |pinned: &bool| if *pinned { "pinned" } else { "pageable" };
        match self {
            Self::Copy { from, to } => write!(f, "copy/{from}/{to}"),
            Self::Exchange { a, b } => write!(f, "exchange/{a}/{b}"),
            Self::Kernel => f.write_str("kernel"),
            Self::Graph => f.write_str("graph"),
            Self::Upload { pinned } => write!(f, "upload/{}", pages(pinned)),
            Self::Download { pinned } => write!(f, "download/{}", pages(pinned)),
        }
    }
}

impl Device {
    /// The operation with these words after `device/`.
    fn named(words: &[&str]) -> Option<Self> {
        let pinned = |word: &str| match word {
            "pinned" => Some(true),
            "pageable" => Some(false),
            _ => None,
        };
        Some(match *words {
            ["copy", from, to] => Self::Copy { from: from.parse().ok()?, to: to.parse().ok()? },
            ["exchange", a, b] => Self::Exchange { a: a.parse().ok()?, b: b.parse().ok()? },
            ["kernel"] => Self::Kernel,
            ["graph"] => Self::Graph,
            ["upload", pages] => Self::Upload { pinned: pinned(pages)? },
            ["download", pages] => Self::Download { pinned: pinned(pages)? },
            _ => return None,
        })
    }
}

impl FromStr for Op {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::input(format!("`{text}` is not an operation")).help(
                "write one-way, shift, fan-out/3, copy, local-reduce, or a collective with its \
                 algorithm and parameters: allreduce/ring, broadcast/chain/P=16; or a library's, \
                 with its data type: library/allreduce/f32, library/allreduce/f32/in-place",
            )
        };
        let dtype = |word: Option<&str>| match word? {
            "any" => Some(None),
            name => DataType::named(name).map(Some),
        };
        let mut parts = text.split('/');
        let first = parts.next().unwrap_or("");
        let second = parts.next();
        let op = match (first, second) {
            ("one-way", None) => Self::OneWay,
            ("shift", None) => Self::Shift,
            ("copy", None) => Self::Copy,
            ("local-reduce", None) => Self::Reduce,
            ("shift", Some(k)) => Self::ShiftBy(k.parse().map_err(|_| refuse())?),
            ("pairs", Some(round)) => Self::Pairs(round.parse().map_err(|_| refuse())?),
            ("fan-out", Some(k)) => Self::FanOut(k.parse().map_err(|_| refuse())?),
            ("device", Some(word)) => {
                let words: Vec<&str> = [word].into_iter().chain(parts.by_ref()).collect();
                Self::Device(Device::named(&words).ok_or_else(refuse)?)
            }
            ("nccl", Some(collective)) => {
                let collective = collective.parse().map_err(|_| refuse())?;
                let dtype = dtype(parts.next()).ok_or_else(refuse)?;
                let (algo, proto) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
                let chosen = format!("{algo}/{proto}").parse().map_err(|_| refuse())?;
                Self::Forced(Forced { collective, dtype, chosen })
            }
            ("library", Some(collective)) => {
                let collective = collective.parse().map_err(|_| refuse())?;
                let dtype = dtype(parts.next()).ok_or_else(refuse)?;
                let in_place = match parts.next() {
                    None => false,
                    Some("in-place") => true,
                    Some(_) => return Err(refuse()),
                };
                Self::Library(Library { collective, dtype, in_place })
            }
            (collective, Some(algorithm)) if !algorithm.is_empty() => {
                let collective = collective.parse().map_err(|_| refuse())?;
                let mut run =
                    Run { collective, algorithm: algorithm.into(), segments: None, radix: None };
                for part in parts.by_ref() {
                    match part.split_once('=') {
                        Some(("P", p)) => run.segments = Some(p.parse().map_err(|_| refuse())?),
                        Some(("K", k)) => run.radix = Some(k.parse().map_err(|_| refuse())?),
                        _ => return Err(refuse()),
                    }
                }
                Self::Run(run)
            }
            _ => return Err(refuse()),
        };
        if parts.next().is_some() { Err(refuse()) } else { Ok(op) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_ranks_meet_once() {
        for ranks in 1..=17 {
            let mut met = std::collections::BTreeMap::new();
            for round in (1..=rounds(ranks)).filter_map(NonZeroU32::new) {
                for rank in 0..ranks {
                    let Some(other) = partner(rank, ranks, round) else { continue };
                    assert_ne!(other, rank);
                    assert_eq!(partner(other, ranks, round), Some(rank), "{ranks} {round} {rank}");
                    *met.entry((rank.min(other), rank.max(other))).or_insert(0) += 1;
                }
            }
            let pairs = ranks * (ranks - 1) / 2;
            assert_eq!(met.len() as u32, pairs, "{ranks}");
            assert!(met.values().all(|times| *times == 2), "{ranks}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let texts = [
            "one-way",
            "shift",
            "shift/2",
            "pairs/3",
            "fan-out/3",
            "copy",
            "local-reduce",
            "allreduce/ring",
            "broadcast/chain/P=16",
            "allreduce/recursive-multiplying/K=4",
            "library/allreduce/f32",
            "library/allgather/any/in-place",
            "nccl/allreduce/f32/nvls_tree/simple",
            "nccl/allgather/any/ring/ll128",
            "device/copy/0/1",
            "device/exchange/2/3",
            "device/kernel",
            "device/graph",
            "device/upload/pinned",
            "device/download/pageable",
        ];
        for text in texts {
            assert_eq!(text.parse::<Op>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "ring",
            "allreduce",
            "allreduce/",
            "fan-out/0",
            "shift/x",
            "pairs/0",
            "allreduce/ring/Q=1",
            "library/allreduce",
            "library/allreduce/x",
            "library/a/f32/out",
            "nccl/allreduce/f32/ring",
            "nccl/allreduce/f32/ring/ll/more",
            "nccl/allreduce/f32/star/ll",
            "device/copy/0",
            "device/upload/soft",
        ] {
            assert!(wrong.parse::<Op>().is_err(), "{wrong}");
        }
    }
}
