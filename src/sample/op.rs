//! What was run: an algorithm of a collective, a library's own choice, messages, or local work.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use super::DataType;
use crate::collective::Collective;
use crate::error::{Error, Result};
use crate::formula::{Params, Shape};

/// An operation that was timed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// One rank sends M to another; the time is of one way.
    OneWay,
    /// Every rank sends M to the next, all at once; between two ranks an exchange.
    Shift,
    /// Rank 0 sends M to each of k others, all at once.
    FanOut(NonZeroU32),
    /// One rank copies M in its memory.
    Copy,
    /// One rank adds M to what lies in its memory.
    Reduce,
    /// A collective by a known algorithm.
    Run(Run),
    /// A collective by whatever a library chose, as benchmarks of libraries time it.
    Library(Library),
}

/// A collective of a library, whose algorithm nobody named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Library {
    /// The operation.
    pub collective: Collective,
    /// The type of its elements; absent where the log does not say it.
    pub dtype: Option<DataType>,
    /// Whether the result took the place of the operand. A library may copy otherwise, and pads a
    /// small call by microseconds, so both are operations of their own.
    pub in_place: bool,
}

/// A collective by one of its algorithms.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    /// The operation.
    pub collective: Collective,
    /// The algorithm's id.
    pub algorithm: String,
    /// P, where it is a parameter.
    pub segments: Option<NonZeroU32>,
    /// The radix, where it is a parameter.
    pub radix: Option<u32>,
}

impl Op {
    /// An algorithm without parameters.
    pub fn run(collective: Collective, algorithm: impl Into<String>) -> Self {
        Self::Run(Run { collective, algorithm: algorithm.into(), segments: None, radix: None })
    }

    /// Whether rank 0 cannot be through before every rank has begun and its data have come: then its
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
        !matches!(self, Self::Copy | Self::Reduce)
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

impl fmt::Display for Op {
    /// As files have it: `one-way`, `fan-out/3`, `allreduce/ring`, `broadcast/chain/P=16`,
    /// `library/allreduce/f32`, `library/allgather/any/in-place`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneWay => f.write_str("one-way"),
            Self::Shift => f.write_str("shift"),
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
        }
    }
}

impl FromStr for Op {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::input(format!("`{text}` is no operation")).mend(
                "write one-way, shift, fan-out/3, copy, local-reduce, or a collective with its \
                 algorithm and parameters: allreduce/ring, broadcast/chain/P=16; or a library's, \
                 with its data type: library/allreduce/f32, library/allreduce/f32/in-place",
            )
        };
        let mut parts = text.split('/');
        let first = parts.next().unwrap_or("");
        let second = parts.next();
        let op = match (first, second) {
            ("one-way", None) => Self::OneWay,
            ("shift", None) => Self::Shift,
            ("copy", None) => Self::Copy,
            ("local-reduce", None) => Self::Reduce,
            ("fan-out", Some(k)) => Self::FanOut(k.parse().map_err(|_| refuse())?),
            ("library", Some(collective)) => {
                let collective = collective.parse().map_err(|_| refuse())?;
                let dtype = match parts.next() {
                    Some("any") => None,
                    Some(name) => Some(DataType::named(name).ok_or_else(refuse)?),
                    None => return Err(refuse()),
                };
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
    fn what_is_written_is_read() {
        let texts = [
            "one-way",
            "shift",
            "fan-out/3",
            "copy",
            "local-reduce",
            "allreduce/ring",
            "broadcast/chain/P=16",
            "allreduce/recursive-multiplying/K=4",
            "library/allreduce/f32",
            "library/allgather/any/in-place",
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
            "shift/2",
            "allreduce/ring/Q=1",
            "library/allreduce",
            "library/allreduce/x",
            "library/a/f32/out",
        ] {
            assert!(wrong.parse::<Op>().is_err(), "{wrong}");
        }
    }
}
