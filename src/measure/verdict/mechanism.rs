//! Causes by what they change in hardware, with how much longer calls take then.
//!
//! A healthy call of M bytes takes t: its bytes need M over the best rate that is expected at any size,
//! its messages and its launch take the rest. Where links are x times as slow, the bytes alone take x
//! times as long; a hop over other memory or through a kernel adds its microseconds at every size. The
//! figures of each cause are ranges from public threads and published tables of both states, each of which
//! is a form of its own: what could have been anything is that much less likely to have been this.

use super::likelihood::Figures::{self, Range, Rate};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::machine::profile::{LinkKind, NetworkKind};
use crate::machine::query::Query;

/// A cause.
pub(super) struct Mechanism {
    pub id: &'static str,
    pub what: &'static str,
    /// What else would show it, and the command that confirms it.
    pub next: &'static str,
    /// How sure its forms are.
    pub figures: Figures,
    /// ln of how much longer each size takes, for each form; none where the machine cannot have it.
    pub forms: fn(&Wire) -> Vec<Vec<f64>>,
}

/// What healthy calls are made of.
pub(super) struct Wire {
    sizes: Vec<Bytes>,
    /// Healthy times.
    times: Vec<f64>,
    /// The best rate at any size, in bytes of M a second.
    peak: f64,
    /// The shortest call.
    latency: f64,
    collective: Collective,
    ranks: f64,
    nodes: f64,
    /// Seconds that NICs, and links inside a node, need for a byte of M.
    net: f64,
    inside: Option<f64>,
    nics: u32,
    /// The rate of one; 10 GB/s where nobody knows it.
    nic: f64,
    factor: f64,
    pcie: bool,
    adds: bool,
    roce: bool,
    /// Whether only the machine's own healthy runs are what it is held against.
    own: bool,
}

/// PCIe of a NIC carries so many times its rate: 13 GB/s on 16 lanes of generation 3 beside 12, 26 beside 24.
const LANES: f64 = 1.08;
/// Sizes at which the best rate is looked for, as octaves.
const LARGE: std::ops::RangeInclusive<u32> = 20..=34;

impl Wire {
    pub fn new(
        query: &Query,
        healthy: &dyn Fn(Bytes) -> Seconds,
        sizes: &[Bytes],
        own: bool,
    ) -> Self {
        let shape = &query.shape;
        let nodes = query.placement.nodes();
        let factor = shape.collective.busbw_factor(shape.ranks).0;
        let rate = |(size, time): (Bytes, Seconds)| Volume::from(size).0 / time.0;
        let points: Vec<(Bytes, Seconds)> =
            sizes.iter().map(|&size| (size, healthy(size))).collect();
        let large = LARGE.map(|k| Bytes(1 << k)).map(|size| (size, healthy(size)));
        let peak = large.chain(points.iter().copied()).map(rate).fold(0.0, f64::max);
        let each = shape.ranks.div_ceil(nodes);
        let outer = query.machine.fabric.tiers.last().filter(|_| nodes > 1);
        let nics = outer.and_then(|t| t.nics).map_or(each, |n| n.get().min(each));
        let nic = outer.and_then(|t| t.link.bandwidth).map_or(0.0, |b| b.0);
        // Two nodes may pass the wire by a tree or by sums in a switch.
        let net =
            if nic > 0.0 { (factor / (nic * f64::from(nics))).min(1.0 / peak) } else { 1.0 / peak };
        let hardware = query.machine.hardware.as_ref();
        let least = points.iter().map(|p| p.1.0).fold(f64::INFINITY, f64::min);
        Self {
            sizes: points.iter().map(|p| p.0).collect(),
            times: points.iter().map(|p| p.1.0).collect(),
            peak,
            latency: least.min(healthy(Bytes(1024)).0),
            collective: shape.collective,
            ranks: f64::from(shape.ranks),
            nodes: f64::from(nodes),
            net,
            inside: hardware.map(|h| factor / h.inside.0),
            nics,
            nic: if nic > 0.0 { nic } else { 1e10 },
            factor,
            pcie: hardware.is_none_or(|h| h.link == LinkKind::Pcie),
            adds: hardware.is_some_and(|h| h.nvls)
                || query
                    .machine
                    .fabric
                    .tiers
                    .iter()
                    .any(|t| t.switch.as_ref().is_some_and(|s| s.alu)),
            roce: query.machine.network == Some(NetworkKind::Roce),
            own,
        }
    }

    /// Where each call begins later by a part of the shortest one.
    pub fn later(&self, part: f64) -> Vec<f64> {
        self.with(|_, _, _| part * self.latency)
    }

    fn several(&self) -> bool {
        self.nodes > 1.0
    }

    /// Messages over the network that follow each other where latency decides: up a tree and down.
    fn hops(&self) -> f64 {
        2.0 * self.nodes.log2().ceil().max(1.0)
    }

    /// Where `more` seconds are added to a size's M, healthy time and bytes' time.
    fn with(&self, more: impl Fn(f64, f64, f64) -> f64) -> Vec<f64> {
        let of = |(&size, &time): (&Bytes, &f64)| {
            let m = Volume::from(size).0;
            (more(m, time, (m / self.peak).min(time)) / time).ln_1p()
        };
        self.sizes.iter().zip(&self.times).map(of).collect()
    }

    /// Where the network is so many times as slow and a hop takes `hop` µs more.
    fn net(&self, times: f64, hop: f64) -> Vec<f64> {
        let more = 1e-6 * hop * self.hops();
        self.with(|m, _, bytes| (self.net * m * times - bytes).max(0.0) + more)
    }

    /// By how much the network is slower with every number of NICs that is less than all. One that is
    /// left (a device is named), half (a socket, ports of a bond, two GPUs on one NIC) and one that is lost
    /// are what threads tell of.
    fn lost(&self) -> impl Iterator<Item = f64> + '_ {
        let all = self.nics;
        let often = [(1, 2), (all / 2, 2), (all.saturating_sub(1), 1)];
        let often = often.into_iter().flat_map(|(left, times)| (0..times).map(move |_| left));
        let each = (1..all).chain(often.filter(move |&left| left > 0 && left < all));
        each.map(move |left| f64::from(all) / f64::from(left))
    }

    /// Where all bytes take so many times as long, and each call a part of the shortest one more.
    fn bytes(&self, times: f64, part: f64) -> Vec<f64> {
        self.with(|_, _, bytes| (times - 1.0) * bytes + part * self.latency)
    }
}

/// So many numbers whose logarithms are evenly apart.
fn apart(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> + Clone {
    let step = (high / low).ln() / f64::from(count.max(2) - 1);
    (0..count).map(move |i| low * (step * f64::from(i)).exp())
}

/// A form for each of both figures.
fn each<'a>(
    a: impl Iterator<Item = f64> + 'a,
    b: &'a [f64],
    form: impl Fn(f64, f64) -> Vec<f64> + 'a,
) -> Vec<Vec<f64>> {
    a.flat_map(|x| b.iter().map(move |&y| (x, y))).map(|(x, y)| form(x, y)).collect()
}

/// `forms` where that holds.
fn only(holds: bool, forms: impl FnOnce() -> Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    if holds { forms() } else { Vec::new() }
}

pub(super) static MECHANISMS: &[Mechanism] = &[
    Mechanism {
        id: "gdr-off",
        what: "NICs do not reach the GPUs' memory: GPUDirect RDMA is off, and data go through the host's",
        next: "NCCL_DEBUG=INFO shows `GDRDMA` on every channel, or its lack; lsmod | grep -e nvidia_peermem -e \
               gdrdrv; a run of sendrecv on one rail from host buffers is as fast then",
        figures: Range,
        forms: |w| {
            // Some CPUs pass on a tenth of what their PCIe switches do.
            let slow = || each(apart(10.0, 18.0, 3), &[9.0], |x, h| w.net(x, h));
            let usual = || each(apart(1.8, 2.2, 3), &[5.0, 9.0, 15.0], |x, h| w.net(x, h));
            only(w.several(), || [usual(), slow()].concat())
        },
    },
    Mechanism {
        id: "acs",
        what: "PCIe sends NICs' reads through the root complex: ACS or the IOMMU is on",
        next: "lspci -vvv | grep ACSCtl shows `SrcValid+`; dmesg | grep -i iommu; ib_write_bw --use_cuda=0 is as \
               slow then",
        figures: Range,
        forms: |w| only(w.several(), || each(apart(1.8, 2.4, 4), &[0.0], |x, h| w.net(x, h))),
    },
    Mechanism {
        id: "acs",
        what: "PCIe sends what GPUs send each other through the root complex: ACS or the IOMMU is on",
        next: "lspci -vvv | grep ACSCtl shows `SrcValid+`; the run on two GPUs of one switch is as slow then \
               (p2pBandwidthLatencyTest)",
        figures: Range,
        forms: |w| {
            only(!w.several() && w.pcie, || {
                each(apart(2.4, 4.0, 4), &[0.0, 0.1], |x, p| w.bytes(x, p))
            })
        },
    },
    Mechanism {
        id: "tcp",
        what: "sockets carry what RDMA should: a plugin, a device or a container's rights are missing",
        next: "NCCL_DEBUG=INFO shows `NET/Socket` where `NET/IB` or `NET/OFI` is meant; ibv_devinfo inside the \
               container",
        figures: Range,
        forms: |w| {
            only(w.several(), || {
                // What the kernel copies, whatever the NIC could carry: through each, or through the one
                // interface that has an address.
                let hops = &[20.0, 45.0, 100.0];
                let of = |sockets: f64, rates: (f64, f64)| {
                    let times = move |rate: f64| f64::from(w.nics) * w.nic / (sockets * rate);
                    each(apart(rates.0, rates.1, 6), hops, move |r, h| w.net(times(r).max(2.0), h))
                };
                let all = of(f64::from(w.nics), (1.2e9, 6e9));
                let one = || of(1.0, (1.2e9, 10e9));
                if w.nics > 1 { [all, one()].concat() } else { all }
            })
        },
    },
    Mechanism {
        id: "missing-nic",
        what: "NICs of a node are missing, or two GPUs share one",
        next: NICS_NEXT,
        figures: Rate,
        forms: |w| only(w.several(), || w.lost().map(|times| w.net(times, 0.0)).collect()),
    },
    Mechanism {
        id: "missing-nic",
        what: "one port of a NIC, or of a bond, carries all: one queue pair uses one port",
        next: "NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_SPLIT_DATA_ON_QPS=1; counters of both ports; ib_write_bw -q 1 \
               is as slow then",
        figures: Range,
        forms: |w| {
            only(w.several() && w.roce, || apart(1.6, 2.0, 3).map(|x| w.net(x, 0.0)).collect())
        },
    },
    Mechanism {
        id: "bad-node",
        what: "a NIC or a cable has part of its rate, and every rail waits for it",
        next: "ib_write_bw between pairs of nodes; perfquery for symbol errors; width and speed of links \
               (lspci -vv, ibstat)",
        figures: Range,
        forms: |w| only(w.several(), || apart(1.5, 16.0, 8).map(|x| w.net(x, 0.0)).collect()),
    },
    Mechanism {
        id: "nic-setting",
        what: "NICs are set badly: MTU, outstanding reads, relaxed ordering",
        next: "ip link show and ibv_devinfo for the MTU (9000 or 4096); lspci -vv for MaxReadReq and RlxdOrd; \
               ib_write_bw between two nodes falls short by as much then",
        figures: Range,
        forms: |w| only(w.several(), || apart(1.1, 1.4, 4).map(|x| w.net(x, 0.0)).collect()),
    },
    Mechanism {
        id: "fabric",
        what: "the fabric carries a part: flows meet on few of its paths, or it drops and sends again",
        next: "the same run on two nodes of one switch, then across switches; NCCL_IB_QPS_PER_CONNECTION=4, \
               adaptive routing; pause, discard and retransmission counters of NICs and switches; five runs",
        figures: Range,
        forms: |w| only(w.several(), || apart(1.4, 8.0, 6).map(|x| w.net(x, 0.0)).collect()),
    },
    Mechanism {
        id: "topology",
        what: "the library misread the machine, or was given a file of another one: fewer channels, or paths \
               that are too slow",
        next: "NCCL_DEBUG=INFO, then collcost nccl log; NCCL_TOPO_DUMP_FILE shows what it saw (PCIe speeds of a \
               virtual machine); NCCL_TOPO_FILE",
        figures: Range,
        forms: |w| each(apart(4.0, 8.0, 4), &[0.0, 0.3], |x, p| w.bytes(x, p)),
    },
    Mechanism {
        id: "version",
        what: "a release of the library that is slower to start than others",
        next: "the same run with the release that was good, then collcost compare BEFORE AFTER --two",
        figures: Range,
        forms: |w| {
            let slower = |part: f64| {
                let more = part * w.latency;
                w.with(|_, _, bytes| more * (-bytes / more).exp())
            };
            apart(0.3, 1.5, 6).map(slower).collect()
        },
    },
    Mechanism {
        id: "cpu",
        what: "data take a way through the CPUs that is slow: other sockets, NUMA settings, a weak root complex",
        next: "nvidia-smi topo -m shows SYS between partners; numactl -H; NUMA nodes a socket in the BIOS; the run \
               on the GPUs of one socket is faster then",
        figures: Range,
        forms: |w| match (w.several(), w.pcie) {
            (true, _) => each(apart(1.5, 2.5, 4), &[1.0, 2.0], |x, h| w.net(x, h)),
            (false, true) => each(apart(1.4, 3.0, 5), &[0.05, 0.2], |x, p| w.bytes(x, p)),
            (false, false) => Vec::new(),
        },
    },
    Mechanism {
        id: "pcie-degraded",
        what: "NICs' PCIe runs at part of its width or generation",
        next: PCIE_NEXT,
        figures: Rate,
        forms: |w| {
            // Of the lanes that a NIC needs, a half, a quarter and so on: they carry a little more than it.
            let halves = [2.0, 4.0, 8.0, 16.0];
            only(w.several(), || halves.map(|x| w.net(x / LANES, 0.0)).to_vec())
        },
    },
    Mechanism {
        id: "pcie-degraded",
        what: "PCIe runs at part of its width or generation",
        next: PCIE_NEXT,
        figures: Range,
        forms: |w| only(!w.several() && w.pcie, || [2.0, 4.0].map(|x| w.bytes(x, 0.0)).to_vec()),
    },
    Mechanism {
        id: "nvls-missing",
        what: "the switch does not add: NVLS (or SHARP) is missing",
        next: NVLS_NEXT,
        figures: Range,
        forms: |w| {
            // Of a port's rate a ring reaches 82 %: 370 of 450 GB/s.
            let reached = [0.78, 0.82, 0.86].into_iter();
            let inside = w.inside.filter(|_| w.adds && w.collective == Collective::AllReduce);
            let form =
                |inside: f64, part: f64| w.with(|m, _, bytes| (inside / part * m - bytes).max(0.0));
            inside.map_or(Vec::new(), |inside| reached.map(|part| form(inside, part)).collect())
        },
    },
    Mechanism {
        id: "setting",
        what: "data inside a node go through the host's memory: P2P is off",
        next: P2P_NEXT,
        figures: Range,
        forms: |w| {
            let form = |rate: f64, hop: f64| {
                let more = 1e-6 * hop * (w.ranks - 1.0);
                w.with(|m, _, bytes| (w.factor / rate * m - bytes).max(0.0) + more)
            };
            only(!w.several() && !w.pcie, || each(apart(8e9, 25e9, 5), &[1.0, 2.5], form))
        },
    },
    Mechanism {
        id: "setting",
        what: "a protocol of the library is off, which middle sizes need",
        next: PROTO_NEXT,
        figures: Range,
        forms: |w| {
            let hump = |most: f64, at: f64, wide: f64| {
                let far = |m: f64| (m.log2() - at) / wide;
                w.with(|m, time, _| most * (-far(m).powi(2)).exp() * time)
            };
            let forms = |wide: f64| {
                each(apart(0.3, 0.9, 3), &[18.5, 19.7, 21.0], move |x, at| hump(x, at, wide))
            };
            only(!w.pcie, || [forms(1.5), forms(2.5)].concat())
        },
    },
    Mechanism {
        id: "setting",
        what: "a ring is forced, whose steps over all ranks follow each other",
        next: ALGO_NEXT,
        figures: Range,
        forms: |w| {
            let ring = |hop: f64| {
                let steps = 2.0 * (w.ranks - 1.0) * 1e-6 * hop;
                w.with(|_, time, bytes| (steps + bytes - time).max(0.0))
            };
            let sums = w.collective == Collective::AllReduce && w.nodes > 2.0;
            only(sums, || apart(1.5, 4.5, 4).map(ring).collect())
        },
    },
    Mechanism {
        id: "setting",
        what: "a tree is forced, in two of whose nodes traffic meets",
        next: ALGO_NEXT,
        figures: Range,
        forms: |w| {
            let sums = w.collective == Collective::AllReduce && w.nodes > 2.0;
            only(sums, || [1.2, 1.25, 1.3].map(|x| w.bytes(x, 0.0)).to_vec())
        },
    },
    Mechanism {
        id: "slow-rank",
        what: "one rank is slower than the others in all that it does",
        next: "nvidia-smi nvlink -s; nvidia-smi -q -d CLOCK,PERFORMANCE; PCIe width (lspci -vv); dmesg | grep -i \
               xid; the run on each pair of GPUs",
        figures: Range,
        forms: |w| {
            let own = |x: f64, part: f64| {
                w.with(|_, time, bytes| (x - 1.0) * (bytes + part * (time - bytes)))
            };
            each(apart(1.25, 2.0, 4), &[0.3, 0.5, 1.0], own)
        },
    },
    Mechanism {
        id: "straggler",
        what: "every call takes some time longer, whatever its size: a rank comes late",
        next: "time the ranks apart (nccl-tests -a 0..3), look for clocks, other jobs, CPU frequency; NCCL's RAS \
               or flight recorder names the rank",
        figures: Range,
        forms: |w| apart(0.3, 30.0, 12).map(|part| w.later(part)).collect(),
    },
    Mechanism {
        id: "clock",
        what: "clocks are throttled",
        next: "nvidia-smi -q -d CLOCK,PERFORMANCE on every node: power, heat",
        figures: Range,
        forms: |w| {
            only(w.own, || [0.05, 0.1, 0.15].map(|x| w.with(|_, time, _| x * time)).to_vec())
        },
    },
];

/// What confirms that PCIe is narrow or old.
const PCIE_NEXT: &str = "lspci -vv | grep LnkSta shows `downgraded`; nvidia-smi -q -d PCIE";
/// What confirms that NICs are missing.
pub(super) const NICS_NEXT: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET lists the NICs; ibstat, \
                                    NCCL_IB_HCA, ib_write_bw -d each";
/// What confirms that switches do not add.
pub(super) const NVLS_NEXT: &str = "NCCL_DEBUG=INFO shows `NVLS multicast support`; NCCL_NVLS_ENABLE=1, the \
                                    fabric manager, the data type (integers and f64 are not added by every switch)";
/// What confirms that links inside a node are not used.
pub(super) const P2P_NEXT: &str = "nvidia-smi topo -m, nvidia-smi nvlink -s; NCCL_P2P_LEVEL, NCCL_DEBUG=INFO \
                                   shows `via P2P` or `via SHM`";
/// What confirms that a protocol is off.
pub(super) const PROTO_NEXT: &str =
    "env | grep NCCL_PROTO; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING, then collcost nccl log";
/// What confirms that an algorithm is forced.
pub(super) const ALGO_NEXT: &str = "env | grep NCCL_ALGO; collcost select says what should run";
