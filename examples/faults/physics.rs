//! What a fault does to a healthy time, by what the fault changes in hardware: bytes at the NICs take
//! so many times as long, a hop so many microseconds more, a call waits. Nothing of `collcost mock` or
//! of the suspects of `compare` is used: what is compared with each other is written twice.

use super::evidence::Series;
use collcost::machine::profile::LinkKind;

/// Even draws from 0 to 1 and about normal ones; the seed decides (splitmix64).
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn even(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.even()).sum::<f64>() - 6.0
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.even()
    }

    /// Even by its logarithm.
    fn times(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}

/// A kind of fault.
pub struct Kind {
    /// In a word, for tables.
    pub name: &'static str,
    /// The right first causes, by their ids: the canonical one, then those that times of one
    /// collective cannot keep apart from it.
    pub right: &'static [&'static str],
    /// How often it was the true cause in public threads, one added.
    pub often: f64,
    /// Whether only a machine's own healthy runs show it.
    pub own: bool,
    make: fn(&Wire, &mut Draws) -> Option<Effect>,
}

/// How much longer calls take: seconds more at each octave, given the healthy time.
type Effect = Box<dyn Fn(&Wire, f64) -> f64>;

/// The share of a healthy call that its bytes take, on what links.
pub struct Wire<'a> {
    series: &'a Series,
    /// Bytes a second at the curve's best.
    peak: f64,
    /// Seconds that NICs need for a byte of M; 0 on one node.
    net: f64,
    nics: u32,
    nic: f64,
    /// Seconds that links inside a node need for a byte of M.
    inside: f64,
    pcie: bool,
    nvls: bool,
    /// The largest octave.
    last: f64,
}

impl<'a> Wire<'a> {
    pub fn new(series: &'a Series) -> Self {
        let query = &series.query;
        let rate = |octave: f64| octave.exp2() / series.time(octave);
        let last = series.octaves().last().unwrap_or(0.0);
        let factor = series.collective.busbw_factor(series.ranks).0;
        let hardware = query.machine.hardware.as_ref().expect("a machine of GPUs");
        let outer = query.machine.fabric.tiers.last().filter(|_| series.nodes > 1);
        let each = series.ranks.div_ceil(series.nodes);
        let nics = outer.and_then(|t| t.nics).map_or(each, |n| n.get().min(each));
        let nic = outer.and_then(|t| t.link.bandwidth).map_or(0.0, |b| b.0);
        let peak = series.octaves().map(rate).fold(0.0, f64::max);
        // Two nodes may pass the wire by a tree or by sums in a switch.
        let net = if nic > 0.0 { (factor / (nic * f64::from(nics))).min(1.0 / peak) } else { 0.0 };
        Self {
            series,
            peak,
            net,
            nics,
            nic,
            inside: factor / hardware.inside.0,
            pcie: hardware.link == LinkKind::Pcie,
            nvls: hardware.nvls,
            last,
        }
    }

    fn nodes(&self) -> f64 {
        f64::from(self.series.nodes)
    }

    fn ranks(&self) -> f64 {
        f64::from(self.series.ranks)
    }

    /// Hops over the network that follow each other where latency decides: up a tree and down.
    fn hops(&self) -> f64 {
        2.0 * self.nodes().log2().ceil().max(1.0)
    }

    /// What all bytes need at the curve's best rate.
    fn bytes(&self, octave: f64) -> f64 {
        octave.exp2() / self.peak
    }

    /// How much more the bytes need where the network is `times` as slow: what else they wait for
    /// goes on meanwhile.
    fn slower_net(&self, times: f64, octave: f64) -> f64 {
        (self.net * octave.exp2() * times - self.bytes(octave)).max(0.0)
    }

    /// Seconds with a fault.
    pub fn time(&self, effect: &Effect, octave: f64) -> f64 {
        self.series.time(octave) + effect(self, octave).max(0.0)
    }
}

fn several(wire: &Wire) -> bool {
    wire.series.nodes > 1
}

/// All kinds of faults.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "dead rails",
        right: &["missing-nic"],
        often: 9.0,
        own: false,
        make: |w, d| {
            let lost = 1 + (d.even() * f64::from(w.nics.saturating_sub(1))) as u32;
            let times = f64::from(w.nics) / f64::from(w.nics.saturating_sub(lost));
            (several(w) && lost < w.nics)
                .then(|| -> Effect { Box::new(move |w, o| w.slower_net(times, o)) })
        },
    },
    Kind {
        name: "one rail at part of its rate",
        right: &["bad-node", "missing-nic", "acs", "gdr-off"],
        often: 3.0,
        own: false,
        make: |w, d| {
            let times = if d.even() < 0.5 { 2.0 } else { 4.0 };
            several(w).then(|| -> Effect { Box::new(move |w, o| w.slower_net(times, o)) })
        },
    },
    Kind {
        name: "no GPUDirect RDMA",
        right: &["gdr-off", "acs"],
        often: 9.0,
        own: false,
        make: |w, d| {
            let (times, hop) = (d.between(1.8, 2.2), 1e-6 * d.between(5.0, 15.0));
            several(w).then(|| -> Effect {
                Box::new(move |w, o| w.slower_net(times, o) + w.hops() * hop)
            })
        },
    },
    Kind {
        name: "NICs' reads through the root complex",
        right: &["acs", "gdr-off", "missing-nic"],
        often: 5.0,
        own: false,
        make: |w, d| {
            let times = d.between(1.8, 2.4);
            several(w).then(|| -> Effect { Box::new(move |w, o| w.slower_net(times, o)) })
        },
    },
    Kind {
        name: "sockets for RDMA",
        right: &["tcp"],
        often: 6.0,
        own: false,
        make: |w, d| {
            // Kernels copy at 2 to 6 GB/s a socket, and one or two sockets a NIC are busy.
            let (hop, rate) = (1e-6 * d.between(30.0, 100.0), 1e9 * d.times(2.0, 6.0));
            several(w).then(|| -> Effect {
                Box::new(move |w, o| w.slower_net((w.nic / rate).max(2.0), o) + w.hops() * hop)
            })
        },
    },
    Kind {
        name: "small socket buffers",
        right: &["tcp"],
        often: 1.0,
        own: false,
        make: |w, d| {
            // A window a round trip.
            let (trip, window) = (1e-6 * d.between(50.0, 150.0), 1024.0 * d.times(64.0, 512.0));
            several(w).then(|| -> Effect {
                Box::new(move |w, o| {
                    w.slower_net((w.nic * trip / window).max(2.0), o) + 0.5 * w.hops() * trip
                })
            })
        },
    },
    Kind {
        name: "NICs of other sockets",
        right: &["cpu", "gdr-off", "acs", "missing-nic", "topology"],
        often: 2.0,
        own: false,
        make: |w, d| {
            let (times, hop) = (d.between(1.5, 2.5), 1e-6 * d.between(1.0, 2.0));
            several(w).then(|| -> Effect {
                Box::new(move |w, o| w.slower_net(times, o) + w.hops() * hop)
            })
        },
    },
    Kind {
        name: "NICs set badly",
        right: &["nic-setting", "missing-nic"],
        often: 5.0,
        own: false,
        make: |w, d| {
            let times = d.between(1.25, 1.4);
            several(w).then(|| -> Effect { Box::new(move |w, o| w.slower_net(times, o)) })
        },
    },
    Kind {
        name: "network that breaks in under load",
        right: &["fabric"],
        often: 6.0,
        own: false,
        make: |w, d| {
            let (times, from) =
                (d.times(2.0, 8.0), d.between(20.0, (w.last - 2.0).max(20.0)).ceil());
            several(w).then(|| -> Effect {
                Box::new(move |w, o| if o >= from { (times - 1.0) * w.series.time(o) } else { 0.0 })
            })
        },
    },
    Kind {
        name: "ring forced over nodes",
        right: &["setting"],
        often: 2.0,
        own: false,
        make: |w, d| {
            let hop = 1e-6 * d.between(2.0, 4.0);
            let worth =
                w.series.nodes >= 4 && w.series.collective == collcost::Collective::AllReduce;
            worth.then(|| -> Effect {
                Box::new(move |w, o| {
                    let ring = 2.0 * (w.ranks() - 1.0) * hop + w.bytes(o);
                    ring - w.series.time(o)
                })
            })
        },
    },
    Kind {
        name: "tree forced over nodes",
        right: &["setting"],
        often: 2.0,
        own: false,
        make: |w, d| {
            let times = d.between(1.2, 1.33);
            let worth =
                w.series.nodes > 2 && w.series.collective == collcost::Collective::AllReduce;
            worth.then(|| -> Effect { Box::new(move |w, o| (times - 1.0) * w.bytes(o)) })
        },
    },
    Kind {
        name: "LL128 off",
        right: &["setting"],
        often: 2.0,
        own: false,
        make: |w, d| {
            let (most, at) = (d.between(0.3, 0.9), d.between(18.5, 21.0));
            (!w.pcie).then(|| -> Effect {
                Box::new(move |w, o| most * (-((o - at) / 2.0).powi(2)).exp() * w.series.time(o))
            })
        },
    },
    Kind {
        name: "host memory for links inside a node",
        right: &["setting"],
        often: 3.0,
        own: false,
        make: |w, d| {
            let (rate, hop) = (1e9 * d.times(10.0, 25.0), 1e-6 * d.between(3.0, 10.0) / 4.0);
            (!several(w) && !w.pcie).then(|| -> Effect {
                Box::new(move |w, o| {
                    let factor = w.series.collective.busbw_factor(w.series.ranks).0;
                    (factor / rate * o.exp2() - w.bytes(o)).max(0.0) + (w.ranks() - 1.0) * hop
                })
            })
        },
    },
    Kind {
        name: "sums in the switch off",
        right: &["nvls-missing", "setting"],
        often: 4.0,
        own: false,
        make: |w, d| {
            let part = d.between(0.78, 0.84);
            let worth =
                w.nvls && w.series.collective == collcost::Collective::AllReduce && !several(w);
            worth.then(|| -> Effect {
                Box::new(move |w, o| (w.inside / part * o.exp2() - w.bytes(o)).max(0.0))
            })
        },
    },
    Kind {
        name: "GPUs' PCIe down a generation or to half its width",
        right: &["pcie-degraded", "acs"],
        often: 1.5,
        own: false,
        make: |w, d| {
            let times = if d.even() < 0.7 { 2.0 } else { 4.0 };
            (w.pcie && !several(w))
                .then(|| -> Effect { Box::new(move |w, o| (times - 1.0) * w.bytes(o)) })
        },
    },
    Kind {
        name: "GPUs' reads through the root complex",
        right: &["acs", "cpu"],
        often: 7.0,
        own: false,
        make: |w, d| {
            let (times, hop) = (d.between(2.5, 4.0), 1e-6 * d.between(0.0, 0.5));
            (w.pcie && !several(w)).then(|| -> Effect {
                Box::new(move |w, o| (times - 1.0) * w.bytes(o) + w.ranks() * hop)
            })
        },
    },
    Kind {
        name: "slow way through the CPUs",
        right: &["cpu", "acs"],
        often: 3.0,
        own: false,
        make: |w, d| {
            let (times, hop) = (d.between(1.5, 3.0), 1e-6 * d.between(0.5, 2.0));
            (w.pcie && !several(w)).then(|| -> Effect {
                Box::new(move |w, o| (times - 1.0) * w.bytes(o) + w.ranks() * hop)
            })
        },
    },
    Kind {
        name: "machine misread",
        right: &["topology"],
        often: 10.0,
        own: false,
        make: |w, d| {
            // Channels over a link that is believed to be slow: few, and by a detour.
            let (times, hop) = (d.between(4.5, 8.0), 1e-6 * d.between(0.0, 1.0));
            (w.last > 24.0).then(|| -> Effect {
                Box::new(move |w, o| (times - 1.0) * w.bytes(o) + w.ranks().sqrt() * hop)
            })
        },
    },
    Kind {
        name: "slow rank",
        right: &["slow-rank", "bad-node"],
        often: 1.5,
        own: false,
        make: |_, d| {
            // Its copies and sums are; a part of each call's latency is its own.
            let times = d.between(1.4, 2.0);
            Some(Box::new(move |w, o| {
                (times - 1.0) * (w.bytes(o) + 0.4 * (w.series.time(o) - w.bytes(o)))
            }))
        },
    },
    Kind {
        name: "rank that comes late",
        right: &["straggler", "version"],
        often: 1.5,
        own: false,
        make: |w, d| {
            let late = w.series.time(10.0) * d.times(1.5, 6.0);
            Some(Box::new(move |_, _| late))
        },
    },
    Kind {
        name: "release that is slower to start",
        right: &["version", "straggler"],
        often: 3.0,
        own: false,
        make: |w, d| {
            let more = w.series.time(10.0) * d.between(0.9, 1.5);
            Some(Box::new(move |w, o| more * (-w.bytes(o) / more).exp()))
        },
    },
    Kind {
        name: "clocks low",
        right: &["clock", "slow-rank"],
        often: 1.5,
        own: true,
        make: |_, d| {
            let times = d.between(1.1, 1.15);
            Some(Box::new(move |w, o| (times - 1.0) * w.series.time(o)))
        },
    },
];

/// A fault of a kind in a machine, drawn; none where the machine cannot have it.
pub fn fault(kind: &Kind, wire: &Wire, draws: &mut Draws) -> Option<Effect> {
    (kind.make)(wire, draws)
}
