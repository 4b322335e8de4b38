//! The features of a machine's hardware that the learned constants use.

use super::base::Asked;
use crate::base::quantity::{Bandwidth, Seconds};
use crate::machine::profile::{Generation, Hardware, LinkKind, NetworkKind};
use crate::machine::wires::Wires;

/// How the ranks of a node are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    NvLink,
    Xgmi,
    Pcie,
    /// Processes on cores, in whose memory buffers are.
    Host,
}

/// What connects nodes, as far as it affects the floor of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Net {
    Ib,
    Roce,
    Efa,
    Tcpx,
    Tcpxo,
    Tcp,
    Slingshot,
    /// Between racks that are one NVLink domain each.
    Rack,
}

impl Net {
    /// InfiniBand if nobody says. What joins network namespaces is the kernel's TCP.
    fn of(kind: Option<NetworkKind>) -> Self {
        match kind {
            Some(NetworkKind::Roce) => Self::Roce,
            Some(NetworkKind::Efa) => Self::Efa,
            Some(NetworkKind::Tcpx) => Self::Tcpx,
            Some(NetworkKind::Tcpxo) => Self::Tcpxo,
            Some(NetworkKind::Tcp | NetworkKind::Loopback) => Self::Tcp,
            Some(NetworkKind::Slingshot) => Self::Slingshot,
            _ => Self::Ib,
        }
    }
}

/// A machine in the terms of the learned constants.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::measure::expect) struct Features {
    pub(super) class: Class,
    /// 2 Volta and Turing, 3 Ampere, 4 Hopper, 5 Blackwell; of AMD 4 CDNA 3, 5 CDNA 4; boards on PCIe are not siblings
    /// of each other.
    pub(super) generation: i32,
    pub(super) board: String,
    /// GB/s of a GPU inside the node, in one direction.
    pub(super) rate: f64,
    /// How the innermost links join GPUs, and how many these are.
    pub(super) wires: Wires,
    pub(super) span: u32,
    /// Whether bridges join pairs of GPUs: no such pair was measured.
    pub(super) bridged: bool,
    pub(super) nvls: bool,
    /// Switches and bridges on the PCIe path.
    pub(super) levels: u32,
    pub(super) net: Net,
    /// GB/s of the NICs for each GPU, by line rate.
    pub(super) nic: f64,
    /// NICs of a node, and those beside each GPU of it.
    pub(super) nics: f64,
    pub(super) beside: f64,
    /// GB/s of one NIC.
    pub(super) one: f64,
    /// µs of a small message between hosts.
    pub(super) alpha: f64,
}

/// Machines that err alike, with bands of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Group {
    #[default]
    Usual,
    /// Each box has its own topology.
    Pcie,
    /// Over several nodes.
    Slingshot,
    /// Of hosts: reductions, gathers and scatters, of which benchmarks print the mean over ranks that leave early, and
    /// of which libraries have the most different algorithms.
    Rooted,
}

impl Group {
    pub(super) const ALL: [Self; 4] = [Self::Usual, Self::Pcie, Self::Slingshot, Self::Rooted];
}

impl Features {
    /// Whether ranks are processes on hosts.
    pub(super) fn is_host(&self) -> bool {
        self.class == Class::Host
    }

    pub(super) fn group(&self, asked: &Asked) -> Group {
        match (self.class, self.net) {
            (Class::Host, _) if asked.is_rooted() => Group::Rooted,
            (Class::Host, _) => Group::Usual,
            (Class::Pcie, _) => Group::Pcie,
            (_, Net::Slingshot) if asked.nodes > 1.0 => Group::Slingshot,
            _ => Group::Usual,
        }
    }

    /// With so many ranks on a node; `None` for a machine if nothing similar was measured: no GPUs, TPUs, only
    /// a network.
    pub(in crate::measure::expect) fn of(hardware: &Hardware, per_node: u32) -> Option<Self> {
        // Bridges join pairs: what joins more of them is PCIe.
        let beyond = hardware.beyond.filter(|&(joined, _)| per_node > joined);
        let bridges = hardware.link == LinkKind::NvLink && hardware.beyond.is_some();
        let bridged = bridges && beyond.is_some();
        let link = if bridged { LinkKind::Pcie } else { hardware.link };
        let inside = beyond.filter(|_| bridged).map_or(hardware.inside, |(_, rate)| rate);
        let class = match link {
            LinkKind::NvLink => Class::NvLink,
            LinkKind::Xgmi => Class::Xgmi,
            LinkKind::Pcie => Class::Pcie,
            _ => return None,
        };
        let generation = match hardware.generation {
            Some(Generation::Volta | Generation::Turing) => 2,
            Some(Generation::Ampere) => 3,
            Some(Generation::Blackwell | Generation::Cdna4) => 5,
            Some(Generation::Rubin) => 6,
            _ => 4,
        };
        let net = if hardware.is_rack() { Net::Rack } else { Net::of(hardware.network) };
        let nic = hardware.between.map_or(UNKNOWN_NIC, |b| b.0 / 1e9);
        Some(Self {
            class,
            generation,
            board: hardware.board.clone().unwrap_or_default(),
            rate: inside.0 / 1e9,
            // What joins the groups that bridges make is a switch.
            wires: if bridged { Wires::Switch } else { hardware.wires },
            span: hardware.beyond.map_or(hardware.span, |(joined, _)| joined),
            bridged: bridges,
            nvls: hardware.nvls,
            levels: match hardware.generation {
                // One switch connects all eight.
                Some(Generation::Xe2) => hardware.levels,
                // If a profile does not say, a host bridge is assumed between some of them.
                _ => hardware.levels.max(2),
            },
            net,
            nic,
            nics: f64::from(hardware.nics),
            beside: f64::from(hardware.nics.div_ceil(hardware.span)),
            one: nic * f64::from(hardware.span) / f64::from(hardware.nics),
            alpha: 0.0,
        })
    }

    /// Hosts on a network, where each has `rate` in all its ports.
    pub(in crate::measure::expect) fn of_hosts(
        network: Option<NetworkKind>,
        alpha: Seconds,
        rate: Bandwidth,
    ) -> Self {
        let rate = rate.0 / 1e9;
        Self {
            class: Class::Host,
            generation: 0,
            board: String::new(),
            // What memory moves has constants of its own.
            rate: f64::INFINITY,
            wires: Wires::Switch,
            span: 1,
            bridged: false,
            nvls: false,
            levels: 0,
            net: Net::of(network),
            nic: rate,
            nics: 1.0,
            beside: 1.0,
            one: rate,
            alpha: 1e6 * alpha.0,
        }
    }

    /// GB/s of the NICs of a node if so many GPUs of it are used: each drives those beside it.
    pub(super) fn node(&self, ranks: f64) -> f64 {
        self.one * (self.beside * ranks).min(self.nics)
    }

    /// GB/s of a GPU inside the node if so many GPUs of it are used: links to others are idle.
    pub(super) fn rate(&self, ranks: f64) -> f64 {
        match ranks > 1.0 {
            true => self.rate * self.wires.in_use(ranks as u32, self.span).0,
            false => self.rate,
        }
    }

    /// What links between two halves of so many GPUs carry in an all-to-all, as a share of M at the rate of
    /// one GPU.
    pub(super) fn exchange(&self, ranks: f64) -> f64 {
        self.wires.exchange(ranks as u32).0
    }

    /// Whether each two GPUs of a node have a link of their own.
    pub(super) fn is_mesh(&self) -> bool {
        self.wires == Wires::Mesh
    }
}

/// GB/s of the NICs for each GPU if the machine has no network: the value is not used.
const UNKNOWN_NIC: f64 = 50.0;
