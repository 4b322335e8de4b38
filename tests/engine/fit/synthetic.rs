//! Runs that nobody made: times by a known model, with noise from a seed.

use std::num::NonZeroU32;

use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::sample::{Block, Clock, Mode, Op, Origin, Sample, Samples};
use collcost::measure::fit::Path;
use collcost::model::algorithm::Registry;

/// The seeded noise of a test.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        let mut noise = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            noise.uniform();
        }
        noise
    }

    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, with deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// The machine that the samples come from.
#[derive(Clone)]
pub struct Truth {
    pub alpha: f64,
    /// From which byte of a message on each costs how much.
    pub slopes: Vec<(f64, f64)>,
    pub gamma: f64,
    /// The rate of exchanges over the rate one way.
    pub duplex: f64,
    /// After this many bytes of a message; those before are as fast both ways.
    pub duplex_above: f64,
    /// The part of the rate that messages out of one port reach together.
    pub sharing: f64,
    /// How much longer the bytes of a double binary tree take than its form says.
    pub tree: f64,
    /// Bytes that leave at once, before the rate holds.
    pub burst: f64,
    /// The deviation of a run.
    pub noise: f64,
    /// The part of the runs that take up to eleven times as long.
    pub outliers: f64,
    /// The deviation of a point: what no model of messages says.
    pub misfit: f64,
    /// The part of the points that lie off by a third, up or down.
    pub strays: f64,
}

impl Default for Truth {
    fn default() -> Self {
        Self {
            alpha: 20e-6,
            slopes: vec![(0.0, 1e-9)],
            gamma: 0.0,
            duplex: 1.0,
            duplex_above: 0.0,
            sharing: 1.0,
            tree: 1.0,
            burst: 0.0,
            noise: 0.01,
            outliers: 0.0,
            misfit: 0.0,
            strays: 0.0,
        }
    }
}

impl Truth {
    /// How long a message takes.
    fn message(&self, bytes: f64) -> f64 {
        let ends = self.slopes.iter().skip(1).map(|s| s.0).chain([f64::INFINITY]);
        let part = |(&(from, each), to): (&(f64, f64), f64)| (bytes.min(to) - from).max(0.0) * each;
        self.alpha + self.slopes.iter().zip(ends).map(part).sum::<f64>()
    }

    /// How long a run takes without noise.
    pub fn time(&self, op: &Op, ranks: u32, size: u64) -> f64 {
        use collcost::measure::fit::{Kind, Sent};
        let path = Path::of(&Registry::builtin(), op, ranks, Bytes(size).into()).unwrap();
        let bytes = |m: f64| self.message(m) - self.alpha;
        let each = |sent: &Sent| {
            let first = match sent.both_ways {
                true => bytes(sent.bytes.0.min(self.duplex_above)),
                false => 0.0,
            };
            let slower = match path.kind {
                Kind::FanOut(_) => 1.0 / self.sharing,
                _ if sent.both_ways => 1.0 / self.duplex,
                _ if path.tree.is_some() => self.tree,
                _ => 1.0,
            };
            let later = bytes(sent.bytes.0) - first;
            sent.count as f64 * (self.alpha + first + slower * later)
        };
        let sum: f64 = path.messages.iter().map(each).sum::<f64>() + path.reduced.0 * self.gamma;
        let last = self.slopes.last().unwrap().1;
        match op {
            // A bucket fills while the other way is used: half the rate's time, until what is
            // saved once is less than that.
            Op::OneWay if self.burst > 0.0 => {
                let m = size as f64;
                self.alpha + (0.5 * m).max(m - self.burst) * last
            }
            Op::Reduce => 50e-9 + size as f64 * self.gamma,
            Op::Copy => 50e-9 + size as f64 * last / 4.0,
            _ => sum,
        }
    }

    /// Samples of `ops` over `ranks` ranks with each of `sizes`, in two blocks.
    pub fn samples(&self, ops: &[Op], ranks: u32, sizes: &[u64], seed: u64) -> Samples {
        let mut noise = Noise::new(seed);
        let mut blocks = Vec::new();
        for op in ops {
            for &size in sizes {
                let mut time = self.time(op, ranks, size) * (1.0 + self.misfit * noise.normal());
                if noise.uniform() < self.strays {
                    time *= if noise.uniform() < 0.5 { 4.0 / 3.0 } else { 2.0 / 3.0 };
                }
                for launch in 0..2 {
                    let samples = (0..20).map(|_| {
                        let mut span = time * (1.0 + self.noise * noise.normal()).max(0.1);
                        if noise.uniform() < self.outliers {
                            span *= 1.0 + 10.0 * noise.uniform();
                        }
                        Sample::of(Seconds(span))
                    });
                    blocks.push(Block {
                        op: op.clone(),
                        ranks,
                        size: Bytes(size),
                        launch,
                        block: blocks.len() as u32,
                        mode: Mode::Isolated,
                        inner: 1,
                        nodes: None,
                        preempted: None,
                        clock: Clock::default(),
                        chose: None,
                        samples: samples.collect(),
                    });
                }
            }
        }
        let origin = Origin {
            files: vec!["synthetic".to_owned()],
            transport: Some("tcp".to_owned()),
            ..Origin::default()
        };
        Samples { origin, blocks, ..Samples::default() }
    }
}

/// Operations that tell latency, bytes and additions apart.
pub fn operations() -> Vec<Op> {
    let ops = [
        "one-way",
        "shift",
        "allreduce/ring",
        "allreduce/recursive-doubling",
        "allreduce/rabenseifner",
        "reducescatter/ring",
        "allgather/bruck",
        "broadcast/binomial",
        "alltoall/pairwise",
    ];
    ops.iter().map(|op| op.parse().unwrap()).collect()
}

/// 8 B, 64 B, 512 B, then twice as much each time up to `largest`.
pub fn ladder(largest: u64) -> Vec<u64> {
    let rest = (11..).map(|k| 1_u64 << k).take_while(|size| *size <= largest);
    [8, 64, 512].into_iter().chain(rest).collect()
}

pub fn fan_out(k: u32) -> Op {
    Op::FanOut(NonZeroU32::new(k).unwrap())
}
