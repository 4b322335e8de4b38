//! A launch floor and a pipelined hierarchy: T = L + c·√(L·b) + b.
//!
//! L is the cost of a call without data. b is its bytes over the slower of the links inside a node and
//! the NICs, which overlap. c is the degree to which latency and bytes do not overlap. Times are in
//! microseconds, rates in GB/s. The constants are fitted (`learn::fit`).

use super::features::{Class, Features, Net};
use crate::base::collective::Collective;

/// The collectives for which something was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

/// The query, in the form that series are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    pub(super) what: What,
    pub(super) ranks: f64,
    pub(super) nodes: f64,
    pub(super) per_node: f64,
}

/// The fitted constants, by name.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Constants {
    /// µs of the floor on 8 GPUs of Hopper; its growth per generation; devices of other generations.
    pub(super) launch: f64,
    pub(super) launch_slope: f64,
    pub(super) volta: f64,
    pub(super) ampere: f64,
    pub(super) blackwell: f64,
    pub(super) launch_amd: f64,
    pub(super) launch_pcie: f64,
    /// Growth of the floor per octave of ranks on a node; that of all-to-all, as a part of it.
    pub(super) growth: f64,
    pub(super) growth_pcie: f64,
    pub(super) growth_all_to_all: f64,
    /// The floors of gathers and of all-to-all relative to that of all-reduce.
    pub(super) gathers: f64,
    pub(super) all_to_all: f64,
    /// µs that a network adds; multiples of that for slower kinds; growth with nodes and ranks.
    pub(super) network: f64,
    pub(super) efa: f64,
    pub(super) tcp: f64,
    pub(super) rack: f64,
    pub(super) by_nodes: f64,
    pub(super) by_ranks: f64,
    /// Parts of the links' rates that are reached.
    pub(super) reached_all_reduce: f64,
    pub(super) reached_nvls: f64,
    pub(super) reached_gathers: f64,
    pub(super) reached_all_to_all: f64,
    pub(super) reached_amd: f64,
    pub(super) reached_pair: f64,
    pub(super) reached_host: f64,
    pub(super) reached_socket: f64,
    pub(super) reached_nic: f64,
    /// Vectors over the NICs in a tree over two nodes; a gather's last copy.
    pub(super) two_nodes: f64,
    pub(super) copy: f64,
    /// c on one node and on several, and its growth with nodes.
    pub(super) overlap: f64,
    pub(super) overlap_nodes: f64,
    pub(super) overlap_growth: f64,
    /// How many times slower software from before 2024 starts; used only for evidence, never for queries.
    pub(super) old: f64,
}

impl Asked {
    /// `None` for collectives for which nothing was learned.
    pub(super) fn new(collective: Collective, ranks: u32, nodes: u32) -> Option<Self> {
        let what = match collective {
            Collective::AllReduce => What::AllReduce,
            // They move the same amount over a link, and start alike.
            Collective::AllGather | Collective::Broadcast => What::AllGather,
            Collective::ReduceScatter | Collective::Reduce => What::ReduceScatter,
            Collective::AllToAll => What::AllToAll,
            _ => return None,
        };
        let (ranks, nodes) = (f64::from(ranks), f64::from(nodes));
        Some(Self { what, ranks, nodes, per_node: ranks / nodes })
    }
}

/// The form with everything but M substituted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Base {
    asked: Asked,
    /// L.
    latency: f64,
    /// b per byte.
    bytes: f64,
    /// c.
    overlap: f64,
    /// The least µs per byte on any links.
    least: f64,
}

impl Base {
    pub(super) fn new(k: &Constants, machine: &Features, asked: Asked) -> Self {
        Self {
            asked,
            latency: latency(k, machine, &asked),
            bytes: bytes(k, machine, &asked),
            overlap: match (asked.nodes > 1.0, asked.what) {
                (false, _) => k.overlap,
                (true, What::AllReduce) => {
                    k.overlap_nodes * (asked.nodes / 2.0).powf(k.overlap_growth)
                }
                (true, _) => k.overlap_nodes,
            },
            least: least(machine, &asked),
        }
    }

    /// The same with a floor that is `times` as high.
    pub(super) fn slower(self, by: f64) -> Self {
        Self { latency: self.latency * by, ..self }
    }

    pub(super) fn asked(&self) -> Asked {
        self.asked
    }

    /// Seconds for `bytes`, without the learned corrections.
    #[inline]
    pub(super) fn time(&self, bytes: f64) -> f64 {
        let b = self.bytes * bytes;
        (self.latency + self.overlap * (self.latency * b).sqrt() + b) * 1e-6
    }

    /// The least seconds of the links.
    #[inline]
    pub(super) fn floor(&self, bytes: f64) -> f64 {
        self.least * bytes * 1e-6
    }
}

/// L in µs.
fn latency(k: &Constants, machine: &Features, asked: &Asked) -> f64 {
    let own = match machine.class {
        Class::NvLink => {
            let device = match machine.generation {
                ..=2 => k.volta,
                3 => k.ampere,
                4 => 1.0,
                _ => k.blackwell,
            };
            k.launch * k.launch_slope.powi(machine.generation - 4) * device
        }
        Class::Xgmi => k.launch_amd,
        Class::Pcie => k.launch_pcie,
    };
    let (of, growth) = match asked.what {
        What::AllReduce => (1.0, 1.0),
        What::AllToAll => (k.all_to_all, k.growth_all_to_all),
        What::AllGather | What::ReduceScatter => (k.gathers, 1.0),
    };
    let growth = growth * if machine.class == Class::Pcie { k.growth_pcie } else { k.growth };
    let inside = own * of * (growth * (asked.per_node.log2() - 3.0)).exp();
    if asked.nodes <= 1.0 {
        return inside;
    }
    let kind = match machine.net {
        Net::Ib | Net::Roce => 1.0,
        Net::Efa | Net::Tcpxo => k.efa,
        Net::Tcpx | Net::Tcp => k.efa * k.tcp,
        Net::Rack => k.rack,
    };
    let more = match asked.what {
        What::AllReduce => 1.0 + k.by_nodes * asked.nodes.log2(),
        _ => 1.0 + k.by_ranks * (asked.ranks - 1.0),
    };
    inside + k.network * kind * more
}

/// b in µs per byte: the slower of both links, plus a little of the faster.
fn bytes(k: &Constants, machine: &Features, asked: &Asked) -> f64 {
    let (n, nodes, each) = (asked.ranks, asked.nodes, asked.per_node);
    let several = nodes > 1.0;
    let inside = match asked.what {
        _ if each <= 1.0 => 0.0,
        What::AllReduce => 2.0 * (each - 1.0) / each,
        What::AllToAll if several => 1.0,
        _ if several => (n - 1.0) / n,
        _ => (each - 1.0) / each + k.copy / n,
    };
    let reached = match machine.class {
        Class::NvLink => match asked.what {
            What::AllReduce if machine.nvls && each > 2.0 => k.reached_nvls,
            What::AllReduce => k.reached_all_reduce,
            What::AllToAll => k.reached_all_to_all,
            What::AllGather | What::ReduceScatter => k.reached_gathers,
        },
        Class::Xgmi => k.reached_amd,
        Class::Pcie if each <= 2.0 || machine.levels < 2 => k.reached_pair,
        Class::Pcie if each <= 4.0 || machine.levels < 3 => k.reached_host,
        Class::Pcie => k.reached_host * k.reached_socket,
    };
    let inside = inside / (reached * machine.rate * 1e3);
    if !several {
        return inside;
    }
    let between = match asked.what {
        What::AllReduce if nodes == 2.0 && machine.nvls => k.two_nodes,
        What::AllReduce => 2.0 * (n - 1.0) / n,
        What::AllToAll => each * (n - each) / n,
        What::AllGather | What::ReduceScatter => (n - 1.0) / n,
    };
    let between = between / (k.reached_nic * machine.nic * each * 1e3);
    (inside.powi(4) + between.powi(4)).powf(0.25)
}

/// µs per byte at the full rate of the links, for the least amount that any algorithm moves.
fn least(machine: &Features, asked: &Asked) -> f64 {
    let (n, each, several) = (asked.ranks, asked.per_node, asked.nodes > 1.0);
    let inside = match asked.what {
        _ if each <= 1.0 => 0.0,
        What::AllReduce if machine.nvls && each > 2.0 => 1.0,
        What::AllReduce => 2.0 * (each - 1.0) / each,
        What::AllToAll if several => (n - 1.0) / n,
        _ if several => (n - each) / n,
        _ => (each - 1.0) / each,
    };
    let between = match asked.what {
        _ if !several => 0.0,
        What::AllReduce => 1.0,
        What::AllToAll => each * (n - each) / n,
        _ => (n - each) / n,
    };
    (inside / (machine.rate * 1e3)).max(between / (machine.nic * each * 1e3))
}
