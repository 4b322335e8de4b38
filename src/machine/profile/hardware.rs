//! The hardware of a machine, as far as measurements of similar machines depend on it.

use super::{Generation, LinkKind, Links, NetworkKind, Profile, TierKind};
use crate::base::quantity::{Bandwidth, Ratio};
use crate::machine::wires::Wires;

/// A node kind and its network, without fitted parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Hardware {
    /// The kind of link between the ranks of a node.
    pub link: LinkKind,
    /// The chips' generation.
    pub generation: Option<Generation>,
    /// The node kind's id, if it has one.
    pub board: Option<String>,
    /// The rate of a rank's port inside its node, one way, by the datasheet.
    pub inside: Bandwidth,
    /// How the ranks of a node are joined.
    pub wires: Wires,
    /// Whether the switches inside a node add and multicast.
    pub nvls: bool,
    /// Tiers inside a node.
    pub levels: u32,
    /// Ranks of a node.
    pub span: u32,
    /// Whether GPUs access each other's memory over PCIe.
    pub p2p: bool,
    /// What joins ranks of a node beyond the innermost links, if these join fewer: how many they join, and
    /// the rate of a rank's port to the others.
    pub beyond: Option<(u32, Bandwidth)>,
    /// The kind of network between nodes.
    pub network: Option<NetworkKind>,
    /// The rate of the NICs for each rank of a node, one way, by line rate.
    pub between: Option<Bandwidth>,
    /// The NICs of a node.
    pub nics: u32,
}

/// From this many GPUs on, an NVLink domain is a rack of several hosts, and the network connects racks.
const RACK: u32 = 72;

/// The GPUs of a host of such a rack, by NVIDIA's DGX GB200 User Guide.
const TRAY: u32 = 4;

impl Hardware {
    /// Whether a node is a rack that is one NVLink domain.
    #[must_use]
    pub fn is_rack(&self) -> bool {
        self.link == LinkKind::NvLink && self.span >= RACK
    }

    /// Whether a node has one GPU, which two ranks cannot share: NCCL refuses a GPU that it finds twice.
    #[must_use]
    pub fn is_lone(&self) -> bool {
        self.link == LinkKind::Memory && self.generation.is_some() && self.span == 1
    }

    /// Whether what so many ranks of a node send each other passes through the host's memory.
    #[must_use]
    pub fn is_staged(&self, per_node: u32) -> bool {
        let joined = self.beyond.filter(|_| self.link == LinkKind::NvLink).map_or(1, |b| b.0);
        !self.p2p && per_node > joined
    }

    /// Ranks of a host: a node, or a tray of a rack.
    #[must_use]
    pub fn host(&self) -> u32 {
        if self.is_rack() { TRAY } else { self.span.max(1) }
    }

    /// The domains that so many ranks are in if `hosts` says on how many hosts of a rack they run: NCCL, too,
    /// counts the hosts of a domain as one node. `None` if no host has so many GPUs, so that racks are meant.
    #[must_use]
    pub fn domains(&self, ranks: u32, hosts: u32) -> Option<u32> {
        let are_hosts = self.is_rack() && hosts > 1 && ranks.div_ceil(hosts) <= TRAY;
        let least = are_hosts.then(|| ranks.div_ceil(self.span))?;
        (least..hosts).find(|domains| ranks.is_multiple_of(*domains))
    }
}

/// Line rates of NICs in GB/s: 10, 25, 50, 100, 200, 400 and 800 Gb/s. Profiles give the part of
/// them that transfers reach.
const LINE_RATES: [f64; 7] = [1.25, 3.125, 6.25, 12.5, 25.0, 50.0, 100.0];

/// The least part of a line rate that is payload.
const PAYLOAD: f64 = 0.9;

impl Profile {
    /// The hardware of a profile; `None` if it does not give the link between its ranks, or its
    /// rate.
    #[must_use]
    pub fn hardware(&self) -> Option<Hardware> {
        let kinds = || (0..self.tiers.len()).map(|i| (self.tier_kind(i), &self.tiers[i]));
        let inside = || kinds().filter(|(kind, _)| *kind == TierKind::Node).map(|(_, t)| t);
        let outside = kinds().find(|(kind, _)| *kind == TierKind::Network).map(|(_, t)| t);
        let span = inside().filter_map(|t| t.span).map(|s| s.get()).max().unwrap_or(1);
        let nics = outside.and_then(|tier| tier.nics).map_or(span, |n| n.get());
        let between = outside.and_then(|tier| {
            let rate = tier.bandwidth.as_ref()?.value;
            Some(line_rate(rate).unwrap_or(rate) * Ratio(f64::from(nics) / f64::from(span)))
        });
        let rate = |tier: &Links| tier.bandwidth.as_ref().map(|b| b.value);
        let first = inside().next().and_then(rate);
        // A lone GPU has no links: what is inside its node is its memory.
        let alone = (span == 1 && self.generation.is_some()).then_some(LinkKind::Memory);
        let joined = inside().next().and_then(|t| t.span).map(|s| s.get());
        let beyond = joined.filter(|&ranks| ranks < span).zip(inside().next_back().and_then(rate));
        Some(Hardware {
            link: self.link.or(alone)?,
            generation: self.generation,
            board: self.board.clone(),
            // A node of one rank has no links inside.
            inside: first.or(between)?,
            wires: inside().map(Links::wires).find(|w| *w != Wires::Switch).unwrap_or_default(),
            nvls: self.has_nvls(),
            levels: inside().count() as u32,
            span,
            p2p: self.p2p.unwrap_or(true),
            beyond,
            nics,
            network: self.network,
            between,
        })
    }
}

/// The line rate slightly above a NIC's payload rate; `None` if there is none, as for a rate that
/// one pair of ranks was measured to reach.
pub(crate) fn line_rate(payload: Bandwidth) -> Option<Bandwidth> {
    let giga = payload.0 / 1e9;
    let near = |line: &&f64| giga <= **line && giga >= PAYLOAD * **line;
    LINE_RATES.iter().find(near).map(|line| Bandwidth(line * 1e9))
}
