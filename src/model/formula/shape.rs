//! The concrete question that a closed form or a schedule answers.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Ratio;

/// How many transfers a rank can make at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ports {
    /// k sends and k receives at once (FDk).
    Full(NonZeroU32),
    /// k transfers at once, sends and receives together (HDk).
    Half(NonZeroU32),
    /// As many as there are partners; each directed link carries one transfer at a time.
    Unbounded,
}

impl Ports {
    /// One send and one receive at once: the default of most texts.
    pub const ONE: Self = Self::Full(NonZeroU32::MIN);

    /// k full-duplex ports; 0 means unbounded.
    #[must_use]
    pub fn full(k: u32) -> Self {
        NonZeroU32::new(k).map_or(Self::Unbounded, Self::Full)
    }

    /// Simultaneous sends, no more than `partners`.
    #[must_use]
    pub fn sends(self, partners: u32) -> u32 {
        match self {
            Self::Full(k) | Self::Half(k) => k.get().min(partners),
            Self::Unbounded => partners,
        }
    }

    /// Simultaneous pairs of a send and a receive, no more than `partners`; 0 if a single port must
    /// take turns.
    #[must_use]
    pub fn both_ways(self, partners: u32) -> u32 {
        match self {
            Self::Full(k) => k.get().min(partners),
            Self::Half(k) => (k.get() / 2).min(partners),
            Self::Unbounded => partners,
        }
    }

    /// Whether a rank cannot send and receive at the same time.
    #[must_use]
    pub fn is_half(self) -> bool {
        matches!(self, Self::Half(_))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(k) if k.get() == 1 => f.write_str("1 send + 1 receive at a time"),
            Self::Full(k) => write!(f, "{k} sends + {k} receives at a time"),
            Self::Half(k) if k.get() == 1 => f.write_str("1 send or receive at a time"),
            Self::Half(k) => write!(f, "{k} sends or receives at a time"),
            Self::Unbounded => f.write_str("unbounded ports"),
        }
    }
}

impl FromStr for Ports {
    type Err = Error;

    /// Reads `2` (full duplex), `2fd`, `1hd`, `unbounded`.
    fn from_str(text: &str) -> Result<Self> {
        const ACCEPTED: &str = "write 1, 2 … (full duplex), 1hd (half duplex) or unbounded";
        let refuse = || Error::input(format!("`{text}` is not a number of ports")).help(ACCEPTED);
        let (digits, half) = match text.trim() {
            "unbounded" | "inf" => return Ok(Self::Unbounded),
            t => match (t.strip_suffix("hd"), t.strip_suffix("fd")) {
                (Some(k), _) => (k, true),
                (_, Some(k)) => (k, false),
                _ => (t, false),
            },
        };
        let k = digits.parse::<u32>().ok().and_then(NonZeroU32::new).ok_or_else(refuse)?;
        Ok(if half { Self::Half(k) } else { Self::Full(k) })
    }
}

/// Selects one of the stated costs of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// The cost of the schedule with the given ports.
    #[default]
    Exact,
    /// The formula as its paper or textbook prints it.
    Paper,
    /// The limit for large vectors, pipelining for free.
    Asymptotic,
}

/// How a ring-relay all-to-all forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Relay {
    /// All chunks that have not arrived are forwarded in one message per step.
    #[default]
    Aggregated,
    /// One chunk per message.
    Chunk,
}

/// The direction of a chunk for which both ways around a ring are equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tie {
    /// All of it to the right.
    #[default]
    Right,
    /// Half each way.
    Split,
}

/// How two concurrent trees are laid out in rounds.
///
/// Closed forms on one port are those of the coloured layout; pipelines in the other layouts take
/// longer on one port, by up to a fifth if messages go as soon as they can, and are only simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Trees {
    /// Edge-coloured: no rank sends or receives twice in a round on one port.
    #[default]
    Coloured,
    /// One round per level of the trees, whatever the ports.
    Levels,
    /// The same with a heap-shaped tree and its mirror instead of NCCL's.
    Heap,
}

/// The side lengths of a torus or mesh, up to four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dims([u32; 4]);

impl Dims {
    /// The given lengths, or `None` if there are more than four or one is zero.
    #[must_use]
    pub fn new(lengths: &[u32]) -> Option<Self> {
        let mut dims = [0; 4];
        if lengths.is_empty() || lengths.len() > dims.len() || lengths.contains(&0) {
            return None;
        }
        dims[..lengths.len()].copy_from_slice(lengths);
        Some(Self(dims))
    }

    /// The lengths.
    #[must_use]
    pub fn lengths(&self) -> &[u32] {
        let used = self.0.iter().position(|&d| d == 0).unwrap_or(self.0.len());
        &self.0[..used]
    }

    /// The number of ranks in it.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        self.lengths().iter().fold(1, |all: u64, &d| all.saturating_mul(d.into()))
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<String> = self.lengths().iter().map(u32::to_string).collect();
        f.write_str(&lengths.join("x"))
    }
}

impl FromStr for Dims {
    type Err = Error;

    /// Reads `8x8x8`.
    fn from_str(text: &str) -> Result<Self> {
        let lengths: Option<Vec<u32>> = text.split('x').map(|d| d.trim().parse().ok()).collect();
        lengths.and_then(|l| Self::new(&l)).ok_or_else(|| {
            Error::input(format!("`{text}` is not a torus"))
                .help("write one to four sides as 8x8x8")
        })
    }
}

/// Parameters of only some algorithms; absent ones use the algorithm's own default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Params {
    /// P, the segments of a pipeline; absent: the best number.
    pub segments: Option<NonZeroU32>,
    /// The radix of a k-nomial tree, of recursive multiplying or of bcube; the group of a k-ring.
    pub radix: Option<u32>,
    /// The most chunks in one message of PAT; absent: no limit.
    pub aggregation: Option<NonZeroU32>,
    /// Copies of a pattern, each over its own rail; absent: one.
    pub rails: Option<NonZeroU32>,
    /// n_β of a double binary tree, instead of the derived one.
    pub c_real: Option<Ratio>,
    /// Switch hops of an in-network collective; absent: 2 per switch level.
    pub switch_hops: Option<u32>,
    /// How a ring-relay all-to-all forwards.
    pub relay: Relay,
    /// How ring-relay and the bidirectional ring resolve ties.
    pub tie: Tie,
    /// How the double binary tree is laid out.
    pub trees: Trees,
    /// The sides of a torus or mesh.
    pub dims: Option<Dims>,
    /// Whether the ends of each of these sides have no link, so that a torus has a line there.
    pub open: [bool; 4],
    /// The transfers that a rank makes at once inside its domain, where they are more than on every tier.
    pub ports_inside: Option<Ports>,
    /// The ratio of the root's port rate to that of the others, for root-bound algorithms.
    pub root_speedup: Option<Ratio>,
    /// Ranks in the root's domain, itself included, where they are fewer than G.
    pub beside_root: Option<NonZeroU32>,
    /// Messages between neighbours, from the first rank to the last, that leave a domain, where they are not all.
    pub leaving: Option<u32>,
}

/// The question to an algorithm: everything except sizes and rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The operation.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The simultaneous transfers of a rank.
    pub ports: Ports,
    /// Ranks in an inner domain if there are several domains; absent: one flat machine.
    pub group: Option<NonZeroU32>,
    /// Parameters of single algorithms.
    pub params: Params,
}

impl Shape {
    /// N ranks on one flat machine with one full-duplex port each.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32) -> Self {
        Self { collective, ranks, ports: Ports::ONE, group: None, params: Params::default() }
    }

    /// The same with other ports.
    #[must_use]
    pub fn with_ports(self, ports: Ports) -> Self {
        Self { ports, ..self }
    }

    /// The same with P segments; 0 leaves the number free.
    #[must_use]
    pub fn with_segments(mut self, segments: u32) -> Self {
        self.params.segments = NonZeroU32::new(segments);
        self
    }

    /// The same with another operation and number of ranks, on one flat machine.
    #[must_use]
    pub fn part(self, collective: Collective, ranks: u32) -> Self {
        Self { collective, ranks, group: None, ..self }
    }

    /// The part of every domain, with the ports that ranks have there.
    #[must_use]
    pub fn inside(self, collective: Collective) -> Self {
        let ports = self.params.ports_inside.unwrap_or(self.ports);
        Self { ports, ..self.part(collective, self.group()) }
    }

    /// P; 1 if it is free.
    #[must_use]
    pub fn segments(&self) -> u32 {
        self.params.segments.map_or(1, NonZeroU32::get)
    }

    /// Whether a rank of a pipeline receives the next segment while it passes one on.
    #[must_use]
    pub fn passes_on(&self) -> bool {
        self.segments() > 1 && self.ranks > 2
    }

    /// Copies of the pattern; 1 if not set.
    #[must_use]
    pub fn rails(&self) -> u32 {
        self.params.rails.map_or(1, NonZeroU32::get)
    }

    /// Ranks in an inner domain; N if there is only one domain.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.group.map_or(self.ranks, NonZeroU32::get)
    }

    /// Ranks in the root's domain, itself included.
    #[must_use]
    pub fn beside_root(&self) -> u32 {
        self.params.beside_root.map_or(self.group(), NonZeroU32::get)
    }

    /// Whether the ranks are in several domains, of more than one rank each.
    #[must_use]
    pub fn spans_domains(&self) -> bool {
        (2..self.ranks).contains(&self.group())
    }

    /// Whether N is a power of two.
    #[must_use]
    pub fn is_power_of_two(&self) -> bool {
        self.ranks.is_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(k: u32) -> Ports {
        Ports::Half(NonZeroU32::new(k).unwrap())
    }

    #[test]
    fn ports_say_what_a_rank_does_at_a_time() {
        let table = [
            (Ports::ONE, "1 send + 1 receive at a time"),
            (Ports::full(2), "2 sends + 2 receives at a time"),
            (half(1), "1 send or receive at a time"),
            (half(2), "2 sends or receives at a time"),
            (Ports::full(0), "unbounded ports"),
        ];
        for (ports, text) in table {
            assert_eq!(ports.to_string(), text);
        }
    }

    #[test]
    fn ports_are_read_in_every_spelling() {
        let table = [
            ("1", Ports::ONE),
            ("2", Ports::full(2)),
            (" 3fd ", Ports::full(3)),
            ("1hd", half(1)),
            ("4hd", half(4)),
            ("unbounded", Ports::Unbounded),
            ("inf", Ports::Unbounded),
        ];
        for (text, ports) in table {
            assert_eq!(text.parse(), Ok(ports), "{text}");
        }
        for text in ["", "0", "0hd", "-1", "2xd", "hd"] {
            assert!(text.parse::<Ports>().is_err(), "{text}");
        }
    }

    #[test]
    fn half_duplex_ports_make_half_as_many_pairs() {
        let pairs = |ports: Ports| [1, 2, 9].map(|partners| ports.both_ways(partners));
        assert_eq!(pairs(half(1)), [0, 0, 0]);
        assert_eq!(pairs(half(5)), [1, 2, 2]);
        assert_eq!(pairs(Ports::full(2)), [1, 2, 2]);
        assert_eq!(pairs(Ports::Unbounded), [1, 2, 9]);
        assert_eq!([1, 9].map(|partners| half(5).sends(partners)), [1, 5]);
    }

    #[test]
    fn a_part_runs_on_one_flat_machine() {
        let whole = Shape {
            group: NonZeroU32::new(8),
            ..Shape::new(Collective::AllReduce, 64).with_ports(Ports::full(2)).with_segments(3)
        };
        let part = whole.part(Collective::Broadcast, 16);
        let flat = Shape::new(Collective::Broadcast, 16);
        assert_eq!(part, flat.with_ports(Ports::full(2)).with_segments(3));
        assert_eq!((whole.group(), part.group()), (8, 16));
    }

    #[test]
    fn what_is_not_asked_for_is_there_once() {
        let mut shape = Shape::new(Collective::AllReduce, 64);
        assert_eq!((shape.segments(), shape.rails()), (1, 1));
        shape.params.rails = NonZeroU32::new(4);
        assert_eq!((shape.with_segments(5).segments(), shape.rails()), (5, 4));
    }
}
