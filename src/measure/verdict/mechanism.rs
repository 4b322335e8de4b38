//! Causes by what they change in hardware, and how much longer calls take with them.
//!
//! A healthy call of M bytes takes t: its bytes take M over the best rate that is expected at any size;
//! its messages and its launch take the rest. If links are x times as slow, only the bytes take x times
//! as long; a hop over other memory or through a kernel adds its microseconds at every size. The
//! parameters of each cause are ranges from public threads and from tables published for both states.
//! Each value in a range is a separate form, so a cause that could explain many shapes is less likely to
//! be the cause of one.

use super::likelihood::Figures::{self, Lanes, Range, Rate};
use super::plateau::nic;
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::library::nccl::Algo;
use crate::machine::profile::{LinkKind, NetworkKind};
use crate::machine::query::Query;
use crate::model::algorithm::RunBy;

/// A cause.
pub(super) struct Mechanism {
    pub id: &'static str,
    pub what: &'static str,
    /// Other signs of the cause, and the command that confirms it.
    pub next: Next,
    /// How certain its forms are.
    pub figures: Figures,
    /// The algorithm that a setting forces.
    pub forces: Option<Algo>,
    /// ln of how much longer each size takes, for each form; empty if the machine cannot have it.
    pub forms: fn(&Wire) -> Vec<Vec<f64>>,
}

/// What confirms a cause, by the libraries that may have it.
pub(super) enum Next {
    /// NCCL and others of accelerators alone.
    Nccl(&'static str),
    /// These, and MPI on buffers of GPUs.
    Gpus { nccl: &'static str, mpi: &'static str },
    /// All libraries.
    All { nccl: &'static str, mpi: &'static str },
}

impl Next {
    /// The words for a library; `None` if it cannot have the cause.
    pub fn of(&self, run_by: RunBy) -> Option<&'static str> {
        match (self, run_by) {
            (Self::Nccl(nccl) | Self::Gpus { nccl, .. } | Self::All { nccl, .. }, by)
                if !by.is_mpi() =>
            {
                Some(nccl)
            }
            (Self::Gpus { mpi, .. }, RunBy::GpuMpi) | (Self::All { mpi, .. }, _) => Some(mpi),
            _ => None,
        }
    }

    /// The same words for all libraries.
    pub const fn of_all(next: &'static str) -> Self {
        Self::All { nccl: next, mpi: next }
    }

    /// The same words wherever buffers are on GPUs.
    const fn of_gpus(next: &'static str) -> Self {
        Self::Gpus { nccl: next, mpi: next }
    }
}

/// The parts of a healthy call's time.
pub(super) struct Wire {
    sizes: Vec<Bytes>,
    /// Healthy times.
    times: Vec<f64>,
    /// The best rate at any size, in bytes of M per second.
    peak: f64,
    /// The shortest call.
    latency: f64,
    collective: Collective,
    ranks: f64,
    nodes: f64,
    /// Seconds per byte of M over the NICs, and over links inside a node.
    net: f64,
    /// The same if each byte of a ring passes them: over two nodes, sums in switches send half.
    ring: f64,
    inside: Option<f64>,
    nics: u32,
    /// The rate of one NIC; 10 GB/s if unknown.
    nic: f64,
    factor: f64,
    pcie: bool,
    adds: bool,
    roce: bool,
    /// Whether NICs may access the GPUs' memory.
    direct: bool,
    /// Whether it is compared only with the machine's own healthy runs.
    own: bool,
}

/// A NIC's PCIe link carries this many times the NIC's rate: 13 GB/s on 16 lanes of generation 3 for a NIC
/// of 12, 26 for one of 24.
const LANES: f64 = 1.08;
/// A tree over two nodes passes a ring by less than this, sums in switches by more.
const PASSES: f64 = 1.25;
/// Sizes among which the best rate is searched, as octaves.
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
        let nic = outer.and_then(|_| nic(&query.machine)).map_or(0.0, |nic| nic.rate.0);
        let ring = if nic > 0.0 { factor / (nic * f64::from(nics)) } else { 1.0 / peak };
        // Two nodes may pass the wire by a tree or by sums in a switch.
        let net = ring.min(1.0 / peak);
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
            ring,
            inside: hardware.map(|h| factor / h.inside.0),
            nics,
            nic: if nic > 0.0 { nic } else { 1e10 },
            factor,
            pcie: hardware.is_none_or(|h| h.link == LinkKind::Pcie),
            adds: query.machine.has_nvls()
                || query
                    .machine
                    .fabric
                    .tiers
                    .iter()
                    .any(|t| t.switch.as_ref().is_some_and(|s| s.alu)),
            roce: query.machine.network == Some(NetworkKind::Roce),
            direct: query.machine.gpu_direct,
            own,
        }
    }

    /// Each call begins later, by a part of the shortest one.
    pub fn later(&self, part: f64) -> Vec<f64> {
        self.with(|_, _, _| part * self.latency)
    }

    fn several(&self) -> bool {
        self.nodes > 1.0
    }

    /// Consecutive messages over the network if latency decides: up a tree and down.
    fn hops(&self) -> f64 {
        2.0 * self.nodes.log2().ceil().max(1.0)
    }

    /// Adds `more` seconds, computed from a size's M, its healthy time and its bytes' time.
    fn with(&self, more: impl Fn(f64, f64, f64) -> f64) -> Vec<f64> {
        let of = |(&size, &time): (&Bytes, &f64)| {
            let m = Volume::from(size).0;
            (more(m, time, (m / self.peak).min(time)) / time).ln_1p()
        };
        self.sizes.iter().zip(&self.times).map(of).collect()
    }

    /// The network is `times` as slow, and each hop takes `hop` µs more.
    fn net(&self, times: f64, hop: f64) -> Vec<f64> {
        let more = 1e-6 * hop * self.hops();
        self.with(|m, _, bytes| (self.net * m * times - bytes).max(0.0) + more)
    }

    /// Whether healthy calls are far faster than a ring over all NICs.
    fn passes(&self) -> bool {
        self.ring > PASSES * self.net
    }

    /// NICs or their lanes carry `times` less, and they alone decide the time: what sums in switches save is
    /// lost, or counted separately.
    pub fn left(&self, times: f64) -> Vec<f64> {
        let each = if self.passes() { self.ring } else { self.net };
        self.with(|m, _, bytes| (each * m * times - bytes).max(0.0))
    }

    /// How much slower the network is with every number of NICs below all. Public threads report one
    /// remaining NIC (a device is named), half of them (a socket, ports of a bond, two GPUs on one NIC), or
    /// one lost NIC.
    pub fn lost(&self) -> impl Iterator<Item = f64> + '_ {
        let all = self.nics;
        let often = [(1, 2), (all / 2, 2), (all.saturating_sub(1), 1)];
        let often = often.into_iter().flat_map(|(left, times)| (0..times).map(move |_| left));
        let each = (1..all).chain(often.filter(move |&left| left > 0 && left < all));
        each.map(move |left| f64::from(all) / f64::from(left))
    }

    /// All bytes take `times` as long, and each call takes a part of the shortest one more.
    fn bytes(&self, times: f64, part: f64) -> Vec<f64> {
        self.with(|_, _, bytes| (times - 1.0) * bytes + part * self.latency)
    }
}

/// `count` numbers evenly spaced in logarithm.
fn apart(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> + Clone {
    let step = (high / low).ln() / f64::from(count.max(2) - 1);
    (0..count).map(move |i| low * (step * f64::from(i)).exp())
}

/// `count` factors from `low` to `high`, of which what they add is evenly spaced in logarithm: a factor of the
/// range lies no further from one of them than a cause may be off.
fn factors(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> + Clone {
    apart(low - 1.0, high - 1.0, count).map(|more| 1.0 + more)
}

/// A form for each combination of both parameters.
fn each<'a>(
    a: impl Iterator<Item = f64> + 'a,
    b: &'a [f64],
    form: impl Fn(f64, f64) -> Vec<f64> + 'a,
) -> Vec<Vec<f64>> {
    a.flat_map(|x| b.iter().map(move |&y| (x, y))).map(|(x, y)| form(x, y)).collect()
}

/// Each call takes a fixed time longer, from a third of the shortest one to many of them.
fn later_each(w: &Wire) -> Vec<Vec<f64>> {
    apart(0.3, 30.0, 12).map(|part| w.later(part)).collect()
}

/// `forms` if `holds`.
fn only(holds: bool, forms: impl FnOnce() -> Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    if holds { forms() } else { Vec::new() }
}

pub(super) static MECHANISMS: &[Mechanism] = &[
    Mechanism {
        id: "gdr-off",
        what: "GPUDirect RDMA is off: NICs cannot access GPU memory, and data go through host memory",
        next: Next::Gpus {
            nccl: "NCCL_DEBUG=INFO shows whether every channel has `GDRDMA`; lsmod | grep -e nvidia_peermem -e \
               gdrdrv; if so, sendrecv on one rail from host buffers is as fast",
            mpi: "ucx_info -d shows `cuda_copy` and `gdr_copy`; lsmod | grep -e nvidia_peermem -e gdrdrv; if so, the same \
                  test from host buffers is as fast",
        },
        figures: Range,
        forces: None,
        forms: |w| {
            // Some CPUs forward at a tenth of the rate of their PCIe switches.
            let slow = || each(apart(10.0, 18.0, 3), &[9.0], |x, h| w.net(x, h));
            let usual = || each(apart(1.8, 2.2, 3), &[5.0, 9.0, 15.0], |x, h| w.net(x, h));
            only(w.several() && w.direct, || [usual(), slow()].concat())
        },
    },
    Mechanism {
        id: "acs",
        what: "PCIe routes NICs' reads through the root complex: ACS or the IOMMU is on",
        next: Next::of_gpus(
            "lspci -vvv | grep ACSCtl shows `SrcValid+`; dmesg | grep -i iommu; if so, ib_write_bw \
               --use_cuda=0 is as slow",
        ),
        figures: Range,
        forces: None,
        forms: |w| {
            // Bridges redirect only what passes between NIC and GPU.
            only(w.several() && w.direct, || each(apart(1.8, 2.4, 4), &[0.0], |x, h| w.net(x, h)))
        },
    },
    Mechanism {
        id: "acs",
        what: "PCIe routes GPU-to-GPU traffic through the root complex: ACS or the IOMMU is on",
        next: Next::of_gpus(
            "lspci -vvv | grep ACSCtl shows `SrcValid+`; if so, the run on two GPUs of one switch is as slow \
               (p2pBandwidthLatencyTest)",
        ),
        figures: Range,
        forces: None,
        forms: |w| {
            only(!w.several() && w.pcie, || {
                each(apart(2.4, 4.0, 4), &[0.0, 0.1], |x, p| w.bytes(x, p))
            })
        },
    },
    Mechanism {
        id: "tcp",
        what: "traffic uses sockets instead of RDMA: a plugin, a device or a container's rights are missing",
        next: Next::All {
            nccl: "NCCL_DEBUG=INFO shows `NET/Socket` where `NET/IB` or `NET/OFI` is expected; ibv_devinfo inside \
               the container",
            mpi: "ucx_info -d or fi_info lists no RDMA device; UCX_TLS, UCX_NET_DEVICES, Open MPI's --mca pml and btl; \
                  ibv_devinfo inside the container",
        },
        figures: Range,
        forces: None,
        forms: |w| {
            only(w.several(), || {
                // The kernel's copy rate, whatever the NIC could carry: through every interface, or through
                // the only one with an address.
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
        next: NICS,
        figures: Rate,
        forces: None,
        forms: |w| only(w.several(), || w.lost().map(|times| w.left(times)).collect()),
    },
    Mechanism {
        id: "missing-nic",
        what: "NICs of a node are missing, or two GPUs share one",
        next: NICS,
        figures: Range,
        forces: None,
        // Sums in switches go on over those that are left.
        forms: |w| {
            only(w.several() && w.passes(), || w.lost().map(|times| w.net(times, 0.0)).collect())
        },
    },
    Mechanism {
        id: "missing-nic",
        what: "one port of a NIC, or of a bond, carries all traffic: one queue pair uses one port",
        next: Next::All {
            nccl: "NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_SPLIT_DATA_ON_QPS=1; counters of both ports; if so, \
               ib_write_bw -q 1 is as slow",
            mpi: "UCX_IB_NUM_PATHS=2; counters of both ports; if so, ib_write_bw -q 1 is as slow",
        },
        figures: Range,
        forces: None,
        forms: |w| {
            only(w.several() && w.roce, || apart(1.6, 2.0, 3).map(|x| w.net(x, 0.0)).collect())
        },
    },
    Mechanism {
        id: "bad-node",
        what: "a NIC or a cable runs below its rate, and every rail waits for it",
        next: Next::of_all(
            "ib_write_bw between pairs of nodes; perfquery for symbol errors; width and speed of links \
               (lspci -vv, ibstat)",
        ),
        figures: Range,
        forces: None,
        forms: |w| only(w.several(), || factors(1.5, 16.0, 12).map(|x| w.net(x, 0.0)).collect()),
    },
    Mechanism {
        id: "nic-setting",
        what: "NICs are misconfigured: MTU, outstanding reads, relaxed ordering",
        next: Next::of_all(
            "ip link show and ibv_devinfo for the MTU (9000 or 4096); lspci -vv for MaxReadReq and RlxdOrd; \
               if so, ib_write_bw between two nodes falls short by as much",
        ),
        figures: Range,
        forces: None,
        forms: |w| only(w.several(), || apart(1.1, 1.4, 4).map(|x| w.net(x, 0.0)).collect()),
    },
    Mechanism {
        id: "fabric",
        what: "the fabric runs below its rate: flows collide on few of its paths, or it drops and retransmits",
        next: Next::All {
            nccl: "repeat on two nodes of one switch, then across switches; NCCL_IB_QPS_PER_CONNECTION=4, \
               adaptive routing; pause, discard and retransmission counters of NICs and switches; five runs",
            mpi: "repeat on two nodes of one switch, then across switches; UCX_IB_NUM_PATHS=4, adaptive routing; \
                  pause, discard and retransmission counters of NICs and switches; five runs",
        },
        figures: Range,
        forces: None,
        forms: |w| only(w.several(), || factors(1.4, 8.0, 10).map(|x| w.net(x, 0.0)).collect()),
    },
    Mechanism {
        id: "topology",
        what: "the library misread the topology, or was given another machine's file: it uses fewer channels, \
               or paths that are too slow",
        next: Next::Nccl(
            "NCCL_DEBUG=INFO, then collcost nccl log; NCCL_TOPO_DUMP_FILE shows what it saw (PCIe speeds of a \
               virtual machine); NCCL_TOPO_FILE",
        ),
        figures: Range,
        forces: None,
        forms: |w| each(apart(5.0, 8.0, 4), &[0.0, 0.3], |x, p| w.bytes(x, p)),
    },
    Mechanism {
        id: "version",
        what: "this release of the library is slower to start than others",
        next: Next::of_all(
            "repeat with the release that was good, then collcost compare BEFORE AFTER --two",
        ),
        figures: Range,
        forces: None,
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
        what: "data take a slow path through the CPUs: other sockets, NUMA settings, a weak root complex",
        next: Next::All {
            nccl: "nvidia-smi topo -m shows SYS between partners; numactl -H; NUMA nodes per socket in the BIOS; if \
               so, the run on the GPUs of one socket is faster",
            mpi: "mpirun --report-bindings shows whether ranks are on the NIC's socket; numactl -H; NUMA nodes per \
                  socket in the BIOS; if so, the run bound to one socket is faster",
        },
        figures: Range,
        forces: None,
        forms: |w| match (w.several(), w.pcie) {
            (true, _) => each(factors(1.5, 2.5, 5), &[1.0, 2.0], |x, h| w.net(x, h)),
            (false, true) => each(factors(1.4, 3.0, 6), &[0.05, 0.2], |x, p| w.bytes(x, p)),
            (false, false) => Vec::new(),
        },
    },
    Mechanism {
        id: "pcie-degraded",
        what: "NICs' PCIe links run at part of their width or generation",
        next: Next::All { nccl: PCIE_NEXT, mpi: PCIE_MPI },
        figures: Lanes,
        forces: None,
        forms: |w| {
            // A half, a quarter and so on of the lanes that a NIC needs: they carry a little more than it does.
            let halves = [2.0, 4.0, 8.0, 16.0];
            only(w.several(), || halves.map(|x| w.left(x / LANES)).to_vec())
        },
    },
    Mechanism {
        id: "pcie-degraded",
        what: "PCIe links run at part of their width or generation",
        next: Next::of_gpus(PCIE_NEXT),
        figures: Range,
        forces: None,
        forms: |w| only(!w.several() && w.pcie, || [2.0, 4.0].map(|x| w.bytes(x, 0.0)).to_vec()),
    },
    Mechanism {
        id: "nvls-missing",
        what: "the switch does not reduce: NVLS (or SHARP) is missing",
        next: NVLS,
        figures: Range,
        forces: None,
        forms: |w| {
            // A ring reaches 82 % of a port's rate: 370 of 450 GB/s.
            let reached = [0.78, 0.82, 0.86].into_iter();
            let inside = w.inside.filter(|_| w.adds && w.collective == Collective::AllReduce);
            let form =
                |inside: f64, part: f64| w.with(|m, _, bytes| (inside / part * m - bytes).max(0.0));
            inside.map_or(Vec::new(), |inside| reached.map(|part| form(inside, part)).collect())
        },
    },
    Mechanism {
        id: "setting",
        what: "P2P is off: data inside a node go through host memory",
        next: P2P,
        figures: Range,
        forces: None,
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
        what: "a protocol of the library that middle sizes need is off",
        next: PROTO,
        figures: Range,
        forces: None,
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
        what: "a ring is forced: its steps over all ranks run one after another",
        next: ALGORITHM,
        figures: Range,
        forces: Some(Algo::Ring),
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
        what: "a tree is forced: traffic meets at two of its nodes",
        next: Next::Nccl(ALGO_NEXT),
        figures: Range,
        forces: Some(Algo::Tree),
        forms: |w| {
            let sums = w.collective == Collective::AllReduce && w.nodes > 2.0;
            only(sums, || [1.2, 1.25, 1.3].map(|x| w.bytes(x, 0.0)).to_vec())
        },
    },
    Mechanism {
        id: "slow-rank",
        what: "one rank is slower than the others in everything it does",
        next: Next::All {
            nccl: "nvidia-smi nvlink -s; nvidia-smi -q -d CLOCK,PERFORMANCE; PCIe width (lspci -vv); dmesg | grep -i \
                   xid; a run on each pair of GPUs",
            mpi: SLOW_RANK_MPI,
        },
        figures: Range,
        forces: None,
        forms: |w| {
            let own = |x: f64, part: f64| {
                w.with(|_, time, bytes| (x - 1.0) * (bytes + part * (time - bytes)))
            };
            each(factors(1.25, 2.0, 6), &[0.3, 0.5, 1.0], own)
        },
    },
    Mechanism {
        id: "straggler",
        what: "every call takes a fixed time longer, whatever its size: a rank arrives late",
        next: Next::All {
            nccl: "time the ranks separately (nccl-tests -a 0..3); check clocks, other jobs, CPU frequency; NCCL's \
               RAS or flight recorder names the rank",
            mpi: "osu_allreduce -f shows the earliest and the latest rank; check clocks, other jobs, CPU frequency, and \
                  mpirun --report-bindings",
        },
        figures: Range,
        forces: None,
        forms: later_each,
    },
    Mechanism {
        id: "one-thread",
        what: "one thread starts the calls of several GPUs, one after another",
        next: Next::Nccl(
            "repeat with a process a GPU (mpirun -np 8 … -g 1) or with a thread each (-t 8 -g 1); CUDA graphs \
               (-G) hide it, too",
        ),
        figures: Range,
        forces: None,
        forms: later_each,
    },
    Mechanism {
        id: "one-by-one",
        what: "each call is timed alone, and the host's start of it is in its time",
        next: Next::Nccl(
            "repeat with all_reduce_perf of nccl-tests, whose calls follow each other",
        ),
        figures: Range,
        forces: None,
        forms: later_each,
    },
    Mechanism {
        id: "clock",
        what: "clocks are throttled",
        next: Next::All {
            nccl: "nvidia-smi -q -d CLOCK,PERFORMANCE on every node: power, heat",
            mpi: "turbostat or cpupower frequency-info on every node: governor, power, heat",
        },
        figures: Range,
        forces: None,
        forms: |w| {
            only(w.own, || [0.05, 0.1, 0.15].map(|x| w.with(|_, time, _| x * time)).to_vec())
        },
    },
];

/// What confirms that a PCIe link has lost width or generation.
const PCIE_NEXT: &str = "lspci -vv | grep LnkSta shows `downgraded`; nvidia-smi -q -d PCIE";
/// The same for MPI.
const PCIE_MPI: &str = "lspci -vv | grep LnkSta shows `downgraded`";
/// What finds a slow rank of MPI.
pub(super) const SLOW_RANK_MPI: &str = "clocks, throttling and other jobs on every node; memory channels and errors; PCIe \
                                        width (lspci -vv); a run on each pair of nodes";
/// What confirms that NICs are missing.
pub(super) const NICS: Next = Next::All {
    nccl: "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET lists the NICs; ibstat, NCCL_IB_HCA, ib_write_bw -d each",
    mpi: "UCX_NET_DEVICES and UCX_MAX_RNDV_RAILS, ucx_info -d lists the NICs; ibstat, ib_write_bw -d each",
};
/// What confirms that switches do not reduce.
pub(super) const NVLS: Next = Next::Nccl(
    "NCCL_DEBUG=INFO shows `NVLS multicast support`; NCCL_NVLS_ENABLE=1, the fabric manager, the data type (not \
     every switch reduces integers and f64)",
);
/// What confirms that hosts of a rack are not one NVLink domain.
pub(super) const DOMAIN: Next = Next::Nccl(
    "nvidia-imex-ctl -N lists every host as READY; NCCL_DEBUG=INFO shows `MNNVL 1` and one node; NCCL_MNNVL_ENABLE, \
     /dev/nvidia-caps-imex-channels inside the container",
);
/// What confirms that links inside a node are not used.
pub(super) const P2P: Next = Next::Gpus {
    nccl: P2P_NEXT,
    mpi: "nvidia-smi topo -m, nvidia-smi nvlink -s; UCX_TLS must allow `cuda_ipc`",
};
pub(super) const P2P_NEXT: &str = "nvidia-smi topo -m, nvidia-smi nvlink -s; NCCL_P2P_LEVEL, NCCL_DEBUG=INFO \
                                   shows `via P2P` or `via SHM`";
/// What confirms that a protocol is off.
pub(super) const PROTO: Next = Next::Nccl(PROTO_NEXT);
pub(super) const PROTO_NEXT: &str =
    "env | grep NCCL_PROTO; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING, then collcost nccl log";
/// What confirms that an algorithm is forced.
pub(super) const ALGORITHM: Next = Next::All {
    nccl: ALGO_NEXT,
    mpi: "env | grep -e OMPI_MCA_coll -e MPIR_CVAR, ompi_info --param coll all --level 9, tuning files; collcost \
          choose shows what should run",
};
pub(super) const ALGO_NEXT: &str = "env | grep NCCL_ALGO; collcost choose shows what should run";
/// What shows why calls are slower from one size on.
pub(super) const CLIFF: Next = Next::All {
    nccl: "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING shows what runs at each size; repeat with NCCL_ALGO and \
           NCCL_PROTO set; pause and retransmission counters of the NICs",
    mpi: "repeat with another eager limit (UCX_RNDV_THRESH, the btl_*_eager_limit of Open MPI) and with the \
          algorithm set; pause and retransmission counters of the NICs",
};
