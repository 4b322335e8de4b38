//! Faults of a machine: how they are written, and their effect.
//!
//! | fault | what is changed |
//! |---|---|
//! | `slow-link=F`, `=R:F`, `=A-B:F` | messages over a link take F times as long, both ways |
//! | `slow-rank=F`, `=R:F` | all messages of a rank do |
//! | `straggler=TIME`, `=R:TIME` | a rank arrives late to every call |
//! | `missing-nic`, `=K` | K NICs of every node are missing, the others share their traffic |
//! | `wrong-tier`, `=MACHINE` | links inside a node are those between nodes, or of another machine |
//! | `nvls-off` | switches neither reduce nor multicast |
//! | `protocol-off=LL` | NCCL's tuner may not choose a protocol |
//! | `shared-gpu` | two ranks on each device, which take turns |
//!
//! A rank that is not named is drawn at random by the seed.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Ratio, Seconds};
use crate::base::random::Random;
use crate::cost::simulate::Trouble;
use crate::library::nccl::Proto;
use crate::machine::fabric::{Discipline, Tier};
use crate::machine::profile::Profile;
use crate::machine::query::Query;

/// One fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Messages over a link take longer by a factor.
    SlowLink {
        /// Which link.
        link: Link,
        /// How many times as long.
        factor: Ratio,
    },
    /// Everything that a rank sends and receives takes longer by a factor.
    SlowRank {
        /// The rank; absent: drawn.
        rank: Option<u32>,
        /// How many times as long.
        factor: Ratio,
    },
    /// A rank arrives late to every call.
    Straggler {
        /// The rank; absent: drawn.
        rank: Option<u32>,
        /// By how much.
        late: Seconds,
    },
    /// NICs of every node are missing.
    MissingNic {
        /// How many of each node.
        count: NonZeroU32,
    },
    /// Data inside a node use other links.
    WrongTier {
        /// The machine whose links inside a node are used; absent: this machine's links between nodes.
        of: Option<String>,
    },
    /// A protocol of NCCL is disabled.
    ProtocolOff {
        /// The protocol.
        protocol: Proto,
    },
    /// Switches neither reduce nor multicast.
    NvlsOff,
    /// Two ranks on each device.
    SharedGpu,
}

/// A link that may be slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// That of a rank drawn at random.
    Any,
    /// That of a rank to other nodes; on one node, to its neighbours.
    Of(u32),
    /// That between two ranks.
    Between(u32, u32),
}

/// The faults, with the form in which each is written.
const FORMS: &[(&str, &str)] = &[
    ("slow-link", "slow-link=4, slow-link=3:4 (rank 3's) or slow-link=0-1:4"),
    ("slow-rank", "slow-rank=2 or slow-rank=3:2"),
    ("straggler", "straggler=50us or straggler=3:50us"),
    ("missing-nic", "missing-nic or missing-nic=2"),
    ("wrong-tier", "wrong-tier or wrong-tier=a100-pcie"),
    ("protocol-off", "protocol-off=LL or protocol-off=LL128"),
    ("nvls-off", "nvls-off"),
    ("shared-gpu", "shared-gpu"),
];

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (text.trim(), None),
        };
        let Some(&(_, form)) = FORMS.iter().find(|(known, _)| *known == name) else {
            return Err(Error::input(format!("there is no fault `{name}`"))
                .help(advice(name, FORMS.iter().map(|(known, _)| known))));
        };
        let fault = Self::of(name, value);
        fault.map_err(|e| e.or_help(format!("write {form}")))
    }
}

impl Fault {
    /// A known fault, from the value after its name.
    fn of(name: &str, value: Option<&str>) -> Result<Self> {
        Ok(match (name, value) {
            ("slow-link", Some(value)) => slow_link(value)?,
            ("slow-rank", Some(value)) => {
                let (rank, factor) = of_rank(value)?;
                Self::SlowRank { rank, factor: slower(factor)? }
            }
            ("straggler", Some(value)) => {
                let (rank, late) = of_rank(value)?;
                Self::Straggler { rank, late: late.parse()? }
            }
            ("missing-nic", None) => Self::MissingNic { count: NonZeroU32::MIN },
            ("missing-nic", Some(count)) => {
                let none = |_| Error::input(format!("`{count}` is not a number of NICs above 0"));
                Self::MissingNic { count: count.parse().map_err(none)? }
            }
            ("wrong-tier", of) => Self::WrongTier { of: of.map(str::to_owned) },
            ("protocol-off", Some(protocol)) => match Proto::named(protocol)? {
                Proto::Simple => return Err(Error::input("NCCL does not start without Simple")),
                protocol => Self::ProtocolOff { protocol },
            },
            ("nvls-off", None) => Self::NvlsOff,
            ("shared-gpu", None) => Self::SharedGpu,
            _ => return Err(Error::input(format!("`{name}` has too few or too many values"))),
        })
    }
}

fn slow_link(value: &str) -> Result<Fault> {
    let Some((link, factor)) = value.split_once(':') else {
        return Ok(Fault::SlowLink { link: Link::Any, factor: slower(value)? });
    };
    let link = match link.split_once('-') {
        None => Link::Of(rank(link)?),
        Some((from, to)) => Link::Between(rank(from)?, rank(to)?),
    };
    Ok(Fault::SlowLink { link, factor: slower(factor)? })
}

/// `3:2` or `2`.
fn of_rank(value: &str) -> Result<(Option<u32>, &str)> {
    match value.split_once(':') {
        None => Ok((None, value)),
        Some((number, rest)) => Ok((Some(rank(number)?), rest)),
    }
}

fn rank(text: &str) -> Result<u32> {
    text.trim().parse().map_err(|_| Error::input(format!("`{text}` is not a rank")))
}

fn slower(text: &str) -> Result<Ratio> {
    match text.trim().parse::<f64>() {
        Ok(x) if x.is_finite() && x >= 1.0 => Ok(Ratio(x)),
        _ => Err(Error::input(format!("`{text}` is not a number of 1 or more"))),
    }
}

impl fmt::Display for Fault {
    /// The form in which it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |rank: &Option<u32>| rank.map_or(String::new(), |r| format!("{r}:"));
        match self {
            Self::SlowLink { link: Link::Any, factor } => write!(f, "slow-link={}", factor.0),
            Self::SlowLink { link: Link::Of(r), factor } => write!(f, "slow-link={r}:{}", factor.0),
            Self::SlowLink { link: Link::Between(a, b), factor } => {
                write!(f, "slow-link={a}-{b}:{}", factor.0)
            }
            Self::SlowRank { rank, factor } => write!(f, "slow-rank={}{}", of(rank), factor.0),
            Self::Straggler { rank, late } => {
                let micros = late.0 * 1e6;
                write!(f, "straggler={}{}us", of(rank), (micros * 1e3).round() / 1e3)
            }
            Self::MissingNic { count } => write!(f, "missing-nic={count}"),
            Self::WrongTier { of: None } => f.write_str("wrong-tier"),
            Self::WrongTier { of: Some(of) } => write!(f, "wrong-tier={of}"),
            Self::ProtocolOff { protocol } => write!(f, "protocol-off={}", protocol.name()),
            Self::NvlsOff => f.write_str("nvls-off"),
            Self::SharedGpu => f.write_str("shared-gpu"),
        }
    }
}

/// A machine with its faults.
#[derive(Debug, Clone)]
pub(super) struct Broken {
    /// The question on the faulty machine.
    pub query: Query,
    /// Faults of single ranks and links.
    pub trouble: Trouble,
    /// Missing NICs per node.
    pub lost: u32,
    /// Whether the library chooses again for the faulty machine.
    pub chooses: bool,
    /// Protocols that NCCL may not choose.
    pub off: Vec<Proto>,
    /// Ranks on each device.
    pub per_device: u32,
    /// The faults in words, with the ranks that were drawn.
    pub told: Vec<String>,
}

impl Broken {
    /// The machine of `query` with `faults`; `seed` draws the ranks that they do not name.
    ///
    /// # Errors
    /// The machine cannot have a fault; the error's place is the fault.
    pub(super) fn new(query: &Query, faults: &[Fault], seed: u64) -> Result<Self> {
        let mut broken = Self {
            query: query.clone(),
            trouble: Trouble::default(),
            lost: 0,
            chooses: false,
            off: Vec::new(),
            per_device: 1,
            told: Vec::new(),
        };
        for (i, fault) in faults.iter().enumerate() {
            let mut random = Random::of(seed, u64::MAX - i as u64);
            let told = broken.put_in(fault, &mut random);
            let told = told.map_err(|e| e.at(format!("--fault {fault}")))?;
            broken.told.push(format!("{fault}: {told}"));
        }
        Ok(broken)
    }

    fn there(&self, rank: u32) -> Result<u32> {
        let ranks = self.query.shape.ranks;
        if rank < ranks {
            return Ok(rank);
        }
        Err(Error::input(format!("there is no rank {rank}"))
            .help(format!("ranks are 0 to {}", ranks.saturating_sub(1))))
    }

    fn drawn(&self, rank: Option<u32>, random: &mut Random) -> Result<u32> {
        let ranks = self.query.shape.ranks as usize;
        rank.map_or_else(|| Ok(random.below(ranks) as u32), |rank| self.there(rank))
    }

    /// Applies one fault and describes its effect.
    fn put_in(&mut self, fault: &Fault, random: &mut Random) -> Result<String> {
        match fault {
            Fault::SlowLink { link, factor } => self.slow_link(*link, *factor, random),
            Fault::SlowRank { rank, factor } => {
                let rank = self.drawn(*rank, random)?;
                self.slow(rank, *factor);
                Ok(format!("all messages of rank {rank} take {} times as long", factor.0))
            }
            Fault::Straggler { rank, late } => {
                let rank = self.drawn(*rank, random)?;
                let starts = &mut self.trouble.starts;
                starts.resize(starts.len().max(rank as usize + 1), Seconds(0.0));
                starts[rank as usize].0 += late.0;
                Ok(format!("rank {rank} arrives {late} late to every call"))
            }
            Fault::MissingNic { count } => self.lose(count.get()),
            Fault::WrongTier { of } => self.wrong_tier(of.as_deref()),
            Fault::ProtocolOff { protocol } => {
                self.off.push(*protocol);
                Ok(format!("NCCL's tuner may not choose {}", protocol.name()))
            }
            Fault::NvlsOff => {
                if self.query.machine.fabric.tiers.iter().all(|tier| tier.switch.is_none()) {
                    return Err(Error::input("no switch of the machine reduces or multicasts")
                        .help("leave it out, or name a machine with NVLS, such as dgx-h100"));
                }
                self.without_switches();
                Ok("switches neither reduce nor multicast; the library runs another algorithm \
                    where it used them"
                    .to_owned())
            }
            Fault::SharedGpu => self.share_devices(),
        }
    }

    /// The same where switches neither reduce nor multicast.
    pub(super) fn without_switches(&mut self) {
        self.query.machine.fabric.tiers.iter_mut().for_each(|tier| tier.switch = None);
        self.chooses = true;
    }

    fn slow(&mut self, rank: u32, factor: Ratio) {
        let ranks = &mut self.trouble.slow_ranks;
        match ranks.iter_mut().find(|(slow, _)| *slow == rank) {
            Some((_, before)) => before.0 *= factor.0,
            None => ranks.push((rank, factor)),
        }
    }

    fn slow_link(&mut self, link: Link, factor: Ratio, random: &mut Random) -> Result<String> {
        let times = factor.0;
        if let Link::Between(a, b) = link {
            let (a, b) = (self.there(a)?, self.there(b)?);
            if a == b {
                return Err(Error::input("a rank has no link to itself"));
            }
            self.trouble.slow_links.extend([(a, b, factor), (b, a, factor)]);
            return Ok(format!("messages between ranks {a} and {b} take {times} times as long"));
        }
        let named = if let Link::Of(rank) = link { Some(rank) } else { None };
        let rank = self.drawn(named, random)?;
        if !self.query.placement.is_spread() {
            // Inside one node a rank has one link, to the switch or to all its neighbours.
            self.slow(rank, factor);
            return Ok(format!("messages over the link of rank {rank} take {times} times as long"));
        }
        let home = self.query.placement.node_of(rank);
        let others: Vec<u32> = (0..self.query.shape.ranks)
            .filter(|&other| self.query.placement.node_of(other) != home)
            .collect();
        for other in others {
            self.trouble.slow_links.push((rank, other, factor));
            self.trouble.slow_links.push((other, rank, factor));
        }
        Ok(format!(
            "messages between rank {rank} and other nodes, over its NIC, take {times} times as long"
        ))
    }

    fn lose(&mut self, count: u32) -> Result<String> {
        if !self.query.placement.is_spread() {
            return Err(Error::input("all ranks are on one node: no NIC is used")
                .help("use several nodes, such as --nodes 2"));
        }
        let outer = self.query.machine.fabric.tiers.last_mut();
        let nics = outer.as_ref().and_then(|tier| tier.nics).map(NonZeroU32::get);
        let (Some(outer), Some(nics)) = (outer, nics) else {
            return Err(
                Error::input("the number of NICs per node is unknown").help("give --nics-per-node")
            );
        };
        let Some(left) = NonZeroU32::new(nics.saturating_sub(count)) else {
            return Err(Error::input(format!(
                "a node uses {nics} NICs, so {count} cannot be missing"
            ))
            .help(format!("leave at least one: at most {}", nics - 1)));
        };
        (outer.nics, self.lost) = (Some(left), self.lost + count);
        Ok(format!("{left} of {nics} NICs per node are left and share the traffic"))
    }

    fn wrong_tier(&mut self, of: Option<&str>) -> Result<String> {
        let (name, links) = match of {
            Some(name) => {
                let profile = Profile::builtin(name)?;
                let fabric = profile.fabric(self.query.shape.collective);
                (profile.name, fabric.tiers.into_iter().next())
            }
            None => {
                let mut tiers = self.query.machine.fabric.tiers.iter().cloned();
                (self.query.machine.name.clone(), tiers.nth(1))
            }
        };
        let Some(links) = links else {
            return Err(Error::input(format!("{name} has only links of one kind"))
                .help("name the machine whose inner links to use: wrong-tier=a100-pcie"));
        };
        let inner = &mut self.query.machine.fabric.tiers[0];
        let told = format!("links inside a node are {} of {name}, not {}", links.name, inner.name);
        let Tier { name, link, ports, .. } = links;
        *inner = Tier {
            name,
            link,
            ports,
            switch: None,
            discipline: Discipline::Serial,
            ..inner.clone()
        };
        self.chooses = true;
        Ok(told)
    }

    fn share_devices(&mut self) -> Result<String> {
        let each = self.query.placement.per_node;
        if each < 2 {
            return Err(Error::input(
                "a node has only one rank, which shares its GPU with no other",
            )
            .help("use more ranks per node"));
        }
        self.per_device = 2;
        for rank in 0..self.query.shape.ranks {
            // The last of an odd number has a device for itself.
            if self.query.placement.local(rank) / 2 * 2 + 1 < each {
                self.slow(rank, Ratio(2.0));
            }
        }
        Ok("two ranks on each device take turns: their messages take 2 times as long".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_written_as_they_are_read() {
        for text in [
            "slow-link=4",
            "slow-link=3:4",
            "slow-link=0-1:1.5",
            "slow-rank=2",
            "slow-rank=3:2",
            "straggler=50us",
            "straggler=3:50us",
            "missing-nic=2",
            "wrong-tier",
            "wrong-tier=a100-pcie",
            "protocol-off=LL128",
            "nvls-off",
            "shared-gpu",
        ] {
            let fault: Fault = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(fault.to_string(), text);
        }
        assert_eq!("missing-nic".parse::<Fault>().unwrap().to_string(), "missing-nic=1");
    }

    #[test]
    fn what_is_no_fault_is_refused_with_the_form() {
        for (text, help) in [
            ("slow-lnk=4", "`slow-link`"),
            ("slow-link", "slow-link=4"),
            ("slow-link=x:4", "slow-link=4"),
            ("slow-rank=0.5", "slow-rank=2"),
            ("straggler=3:50", "with its unit"),
            ("missing-nic=0", "missing-nic=2"),
            ("protocol-off=Simple", "protocol-off=LL"),
            ("nvls-off=1", "write nvls-off"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(help), "{text}: {error}");
        }
    }
}
