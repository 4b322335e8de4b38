//! A launch floor and a pipelined hierarchy: T = L + c·√(L·b) + b.
//!
//! L is the cost of a call without data. b is its bytes over the slower of the links inside a node and
//! the NICs, which overlap. c is the degree to which latency and bytes do not overlap. Times are in
//! microseconds, rates in GB/s. The constants are fitted (`learn::fit`), those of each [`Family`] by
//! themselves.

use super::features::{Class, Features, Net};
use super::hosts;
use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::library::nccl::point_to_point::channels;
use crate::machine::placement::Placement;

/// The collectives for which something was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    SendRecv,
    Gather,
    Scatter,
    // Between processes on hosts alone; on GPUs they are answered by what gathers and scatters took.
    Broadcast,
    Reduce,
    Barrier,
}

/// What is learned together. Of separate messages, for which NCCL has neither algorithms nor protocols to
/// choose, little is like the other collectives, and over several nodes an all-to-all's many are not like
/// one: no constants of one family move another's. Between processes on hosts MPI runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Collectives,
    Exchanges,
    Sends,
    Hosts,
}

impl Family {
    pub(super) const ALL: [Self; 4] =
        [Self::Collectives, Self::Exchanges, Self::Sends, Self::Hosts];

    /// Its name in reports of what was learned.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Collectives => "collectives of GPUs",
            Self::Exchanges => "all-to-alls of GPUs over nodes",
            Self::Sends => "messages of GPUs",
            Self::Hosts => "MPI between hosts",
        }
    }

    /// Whether the residuals of its series are learned, too. Those of hosts say little of another host
    /// (docs/background/accuracy-of-mpi.md).
    pub(super) fn has_series(self) -> bool {
        self != Self::Hosts
    }

    /// Whether it is learned from measurements of that. What an all-to-all costs inside a node is evidence
    /// for exchanges, too.
    pub(super) fn learns(self, from: &Asked) -> bool {
        let exchanges = self == Self::Exchanges && from.what == What::AllToAll && !from.hosts;
        from.family() == self || exchanges
    }
}

/// The query, in the form that series are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    pub(super) what: What,
    /// Whether every link carries the whole vector, as in a broadcast, and not all but a rank's own part.
    pub(super) whole: bool,
    pub(super) ranks: f64,
    pub(super) nodes: f64,
    /// Ranks on a node, and on the one with the fewest.
    pub(super) per_node: f64,
    pub(super) fewest: f64,
    /// Of software from before 2024: evidence only, never a query.
    pub(super) old: bool,
    /// Whether ranks are processes on hosts, with buffers in their memory.
    pub(super) hosts: bool,
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
    /// As a multiple of that, where GPUs are older than Hopper.
    pub(super) efa_before: f64,
    pub(super) tcp: f64,
    pub(super) rack: f64,
    /// The same of all-reduce on Slingshot, with its growth with nodes; of the others, with that with ranks;
    /// c there, as a multiple, and the part of the NICs' rate.
    pub(super) slingshot: f64,
    pub(super) slingshot_nodes: f64,
    pub(super) slingshot_others: f64,
    pub(super) slingshot_ranks: f64,
    pub(super) slingshot_overlap: f64,
    pub(super) slingshot_reached: f64,
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
    /// Vectors over the NICs in a tree over two nodes, with NVLS and with chains inside; a gather's last copy.
    pub(super) two_nodes: f64,
    pub(super) two_nodes_chains: f64,
    pub(super) copy: f64,
    /// c on one node and on several, and its growth with nodes.
    pub(super) overlap: f64,
    pub(super) overlap_nodes: f64,
    pub(super) overlap_growth: f64,
    /// How many times slower software from before 2024 starts; used only for evidence, never for queries.
    pub(super) old: f64,
    /// GB/s of one channel of a message from Hopper on; the part of it on older GPUs.
    pub(super) channel: f64,
    pub(super) channel_before: f64,
    /// The part of the links' rate that a message's channels reach together.
    pub(super) reached_sends: f64,
    /// NICs that a scatter's root uses.
    pub(super) spread: f64,
    /// The part of a NIC's rate that is left to a message over many nodes, and among many ranks.
    pub(super) many_nodes: f64,
    pub(super) many_ranks: f64,
    pub(super) hosts: hosts::Constants,
}

impl Asked {
    /// The one that answers it.
    pub(super) fn family(&self) -> Family {
        match self.what {
            _ if self.hosts => Family::Hosts,
            What::AllToAll if self.nodes > 1.0 => Family::Exchanges,
            What::SendRecv | What::Gather | What::Scatter => Family::Sends,
            _ => Family::Collectives,
        }
    }

    /// `None` for collectives for which nothing was learned.
    pub(super) fn new(collective: Collective, placement: Placement, hosts: bool) -> Option<Self> {
        let what = match collective {
            Collective::SendRecv if hosts => return None,
            Collective::Broadcast if hosts => What::Broadcast,
            Collective::Reduce if hosts => What::Reduce,
            Collective::Barrier if hosts => What::Barrier,
            Collective::AllReduce => What::AllReduce,
            // They start alike.
            Collective::AllGather | Collective::Broadcast => What::AllGather,
            Collective::ReduceScatter | Collective::Reduce => What::ReduceScatter,
            Collective::AllToAll => What::AllToAll,
            Collective::SendRecv => What::SendRecv,
            Collective::Gather => What::Gather,
            Collective::Scatter => What::Scatter,
            Collective::Barrier => return None,
        };
        let whole = matches!(collective, Collective::Broadcast | Collective::Reduce);
        let (most, fewest) = placement.filled();
        Some(Self {
            what,
            whole,
            ranks: f64::from(placement.ranks),
            nodes: f64::from(placement.nodes()),
            per_node: f64::from(most),
            fewest: f64::from(fewest),
            old: false,
            hosts,
        })
    }

    /// Whether one rank has all of it, before or after.
    pub(super) fn is_rooted(&self) -> bool {
        matches!(self.what, What::Reduce | What::Gather | What::Scatter)
    }

    /// Whether more GPUs of one node are requested than were ever measured together.
    pub(super) fn is_domain(&self) -> bool {
        !self.hosts && self.nodes <= 1.0 && self.ranks > super::MEASURED_DOMAIN
    }

    /// Whether sums go through a tree over two nodes, which sends M over the NICs and not a ring's
    /// 2(N − 1)/N·M. Old NCCL without NVLS sent the ring's.
    fn tree(&self, machine: &Features) -> bool {
        let known = machine.nvls || (machine.class == Class::NvLink && !self.old);
        // By NCCL's own table fewer than eight A100s behind NVSwitches run rings over verbs (trees over EFA).
        let few = machine.generation == 3 && !machine.is_mesh() && self.per_node < 8.0;
        let rings = few && matches!(machine.net, Net::Ib | Net::Roce);
        self.what == What::AllReduce && self.nodes == 2.0 && known && !rings
    }

    /// The busiest node, of the full ones and the one with the fewest ranks.
    fn busiest(&self, load: impl Fn(f64) -> f64) -> f64 {
        load(self.per_node).max(load(self.fewest))
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
    /// µs per byte of a message on one of its channels, if these and not the links may be the limit.
    channel: Option<f64>,
    /// c.
    overlap: f64,
    /// The least µs per byte on any links.
    least: f64,
}

impl Base {
    pub(super) fn new(k: &Constants, machine: &Features, asked: Asked) -> Self {
        let [latency, bytes, overlap] = match asked.hosts {
            true => hosts::form(&k.hosts, machine, &asked),
            false => [
                latency(k, machine, &asked),
                bytes(k, machine, &asked),
                overlap(k, machine, &asked),
            ],
        };
        let channel = channel(k, machine, &asked);
        // Means over ranks of which most leave early may be less than what the links take for all.
        let leaves_early = asked.hosts && (asked.is_rooted() || asked.what == What::Broadcast);
        let least = if leaves_early { 0.0 } else { least(machine, &asked) };
        Self { asked, latency, bytes, channel, overlap, least }
    }

    pub(super) fn asked(&self) -> Asked {
        self.asked
    }

    /// Seconds for `bytes`, without the learned corrections.
    #[inline]
    pub(super) fn time(&self, bytes: f64) -> f64 {
        let each = match self.channel {
            Some(one) => {
                let channels = channels(self.asked.ranks as u32, Bytes(bytes as u64));
                slower(self.bytes, one / f64::from(channels))
            }
            None => self.bytes,
        };
        let b = each * bytes;
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
    // Old software starts no slower on a board that is as old.
    let times = if asked.old && machine.generation > 2 { k.old } else { 1.0 };
    times * recent_latency(k, machine, asked)
}

/// L in µs with recent software. No host comes here, nor to c and b below: those have [`hosts::form`].
fn recent_latency(k: &Constants, machine: &Features, asked: &Asked) -> f64 {
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
        Class::Pcie | Class::Host => k.launch_pcie,
    };
    let (of, growth) = match asked.what {
        What::AllReduce => (1.0, 1.0),
        What::AllToAll => (k.all_to_all, k.growth_all_to_all),
        What::SendRecv => (1.0, 1.0),
        _ => (k.gathers, 1.0),
    };
    let growth = growth * if machine.class == Class::Pcie { k.growth_pcie } else { k.growth };
    let ranks = match asked.what {
        // One message each: more ranks than were measured together start it no later.
        What::SendRecv => asked.per_node.min(super::MEASURED_DOMAIN),
        _ => asked.per_node,
    };
    let inside = own * of * (growth * (ranks.log2() - 3.0)).exp();
    if asked.nodes <= 1.0 {
        return inside;
    }
    let kind = match machine.net {
        Net::Ib | Net::Roce => 1.0,
        Net::Efa if machine.generation < 4 => k.efa * k.efa_before,
        Net::Efa | Net::Tcpxo => k.efa,
        Net::Tcpx | Net::Tcp => k.efa * k.tcp,
        Net::Slingshot => k.slingshot,
        Net::Rack => k.rack,
    };
    let more = match asked.what {
        What::AllReduce if machine.net == Net::Slingshot => {
            kind * (1.0 + k.slingshot_nodes * asked.nodes.log2())
        }
        What::AllReduce => kind * (1.0 + k.by_nodes * asked.nodes.log2()),
        What::SendRecv => kind,
        // What joins racks is slow to start, and no slower for each rank.
        _ if machine.net == Net::Rack => kind + k.by_ranks * (asked.ranks - 1.0),
        _ if machine.net == Net::Slingshot => {
            k.slingshot_others * (1.0 + k.slingshot_ranks * (asked.ranks - 1.0))
        }
        _ => kind * (1.0 + k.by_ranks * (asked.ranks - 1.0)),
    };
    inside + k.network * more
}

/// c.
fn overlap(k: &Constants, machine: &Features, asked: &Asked) -> f64 {
    if asked.nodes <= 1.0 {
        return k.overlap;
    }
    k.overlap_nodes
        * match asked.what {
            _ if machine.net == Net::Slingshot => k.slingshot_overlap,
            What::AllReduce => (asked.nodes / 2.0).powf(k.overlap_growth),
            _ => 1.0,
        }
}

/// b in µs per byte: the slower of both links, plus a little of the faster.
fn bytes(k: &Constants, machine: &Features, asked: &Asked) -> f64 {
    let (n, nodes, each) = (asked.ranks, asked.nodes, asked.per_node);
    let several = nodes > 1.0;
    let inside = match asked.what {
        _ if each <= 1.0 => 0.0,
        _ if asked.whole => 1.0,
        // A GPU in a chain sends sums one way and results the other.
        What::AllReduce if asked.tree(machine) && !machine.nvls && each > 2.0 => 2.0,
        What::AllReduce => 2.0 * (each - 1.0) / each,
        What::SendRecv => 1.0,
        What::AllToAll if several => 1.0,
        _ if several => (n - 1.0) / n,
        What::Gather | What::Scatter => (each - 1.0) / each,
        What::AllToAll => ((each - 1.0) / each + k.copy / n).max(machine.exchange(each)),
        _ => (each - 1.0) / each + k.copy / n,
    };
    let reached = match machine.class {
        Class::NvLink => match asked.what {
            // Among fewer, NCCL runs a ring.
            What::AllReduce if machine.nvls && each > 5.0 => k.reached_nvls,
            What::AllReduce => k.reached_all_reduce,
            What::AllToAll => k.reached_all_to_all,
            What::SendRecv | What::Gather | What::Scatter => k.reached_sends,
            _ => k.reached_gathers,
        },
        Class::Xgmi => k.reached_amd,
        Class::Pcie if each <= 2.0 || machine.levels < 2 => k.reached_pair,
        Class::Pcie if each <= 4.0 || machine.levels < 3 => k.reached_host,
        Class::Pcie | Class::Host => k.reached_host * k.reached_socket,
    };
    let inside = inside / (reached * rate(machine, asked) * 1e3);
    if !several {
        return inside;
    }
    let between = asked.busiest(|own| {
        let share = match asked.what {
            _ if asked.whole => 1.0,
            What::AllReduce if asked.tree(machine) && machine.nvls => k.two_nodes,
            What::AllReduce if asked.tree(machine) => k.two_nodes_chains,
            What::AllReduce => 2.0 * (n - 1.0) / n,
            What::AllToAll => own * (n - own) / n,
            What::SendRecv => 1.0 / left(k, asked),
            What::Gather | What::Scatter => (n - each) / n,
            _ => (n - 1.0) / n,
        };
        let nics = match asked.what {
            // Those beside one GPU; the root of a scatter uses others of its node, too.
            What::SendRecv | What::Gather => machine.node(1.0),
            What::Scatter => machine.node(1.0) * k.spread.min(each),
            _ => machine.node(own),
        };
        share / nics
    });
    let reached = match machine.net {
        Net::Slingshot => k.slingshot_reached,
        _ => k.reached_nic,
    };
    slower(inside, between / (reached * 1e3))
}

/// The part of a NIC's rate that is left to a message: over 8 nodes it was seen to take twice as long as over
/// 4, in three clusters, and as long again among more than 64 ranks, where NCCL gives a peer over the network
/// one channel instead of two.
fn left(k: &Constants, asked: &Asked) -> f64 {
    let far = k.many_nodes.powf((asked.nodes / 4.0).log2().clamp(0.0, 1.0));
    if asked.ranks > 64.0 { far * k.many_ranks } else { far }
}

/// Two rates, as times per byte: about the slower, of equal ones a little slower still.
fn slower(a: f64, b: f64) -> f64 {
    (a.powi(4) + b.powi(4)).powf(0.25)
}

/// GB/s of the links inside the node that a GPU uses.
fn rate(machine: &Features, asked: &Asked) -> f64 {
    // A message has one of the links, if each two GPUs have their own.
    machine.rate(if asked.what == What::SendRecv { 2.0 } else { asked.per_node })
}

/// µs per byte of one channel: only where the number of channels is known, as behind NVSwitches.
fn channel(k: &Constants, machine: &Features, asked: &Asked) -> Option<f64> {
    let alone = asked.what == What::SendRecv && asked.nodes <= 1.0;
    let known = machine.class == Class::NvLink && !machine.is_mesh() && machine.generation > 2;
    let part = if machine.generation < 4 { k.channel_before } else { 1.0 };
    (alone && known).then(|| 1.0 / (k.channel * part * 1e3))
}

/// µs per byte at the full rate of the links, for the least amount that any algorithm moves.
fn least(machine: &Features, asked: &Asked) -> f64 {
    let (n, each, several) = (asked.ranks, asked.per_node, asked.nodes > 1.0);
    let inside = match asked.what {
        _ if each <= 1.0 => 0.0,
        _ if asked.whole => 1.0,
        What::AllReduce if machine.nvls && each > 2.0 => 1.0,
        What::AllReduce => 2.0 * (each - 1.0) / each,
        // It leaves the node.
        What::SendRecv if several => 0.0,
        What::SendRecv => 1.0,
        What::AllToAll if several => (n - 1.0) / n,
        What::AllToAll => ((each - 1.0) / each).max(machine.exchange(each)),
        _ if several => (n - each) / n,
        _ => (each - 1.0) / each,
    };
    let between = asked.busiest(|own| {
        let share = match asked.what {
            _ if !several => 0.0,
            _ if asked.whole => 1.0,
            // What nodes send that add up each part in one place, and send the sums to all.
            What::AllReduce => 2.0 * (asked.nodes - 1.0) / asked.nodes,
            What::SendRecv => 1.0,
            What::AllToAll => own * (n - own) / n,
            What::Gather | What::Scatter => (n - each) / n,
            _ => (n - own) / n,
        };
        let nics = match asked.what {
            What::SendRecv | What::Gather => machine.node(1.0),
            _ => machine.node(own),
        };
        share / nics
    });
    (inside / (rate(machine, asked) * 1e3)).max(between / 1e3)
}
