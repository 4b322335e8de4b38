//! XLA's speed-of-light model of GPU collectives, by which its scheduler orders work.
//!
//! Over several hosts it prices a ring (an all-to-all as such) over the network:
//!
//! ```text
//! T = launch + rounds·(N − 1)/g·(1.025·m/NIC + ⌈m/4 MiB⌉·prep + RTT)      m = M/N, N = hosts·g, g = 8
//! ```
//!
//! Of the machine's own GPUs it counts none: g is `gpus_per_node` of its table, until an option changes it. A message
//! has two ends, one on each of two hosts.
//!
//! On one host it picks one of its own kernels, one-shot up to 256 KiB and two-shot up to 4 MiB.
//! Above that it uses NCCL, which it prices from a table of measurements that is not included here.
//!
//! Source: openxla/xla, `xla/service/gpu/model/sol_gpu_cost_model.cc` (3e1a45f9),
//! `sol_latency_estimator.cc` (082af290), `collective_utils.h` (9b2cf8eb). The model also adds a
//! pass over the device's own memory. It is left out, because it says nothing about the collective.

pub(super) mod options;

use super::{Call, Choice, Entry, Made, Meta, Policy, Runs, Site};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};

/// The speed-of-light model.
pub(super) const SOL: Entry = Entry {
    id: "xla-sol",
    aliases: &[],
    made: Made::Plain {
        library: None,
        title: "XLA's speed-of-light model: rings over hosts, own kernels inside",
        counts: "M",
        source: "openxla/xla, xla/service/gpu/model/sol_gpu_cost_model.cc at 3e1a45f9",
        make,
    },
};

fn make(meta: Meta, site: &Site) -> Result<Box<dyn Policy>> {
    let text = format!("{} {}", site.machine, site.title).to_uppercase();
    // XLA looks for the device's whole name: an NVIDIA GB200 is not its NVIDIA B200.
    let has = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
    // Nor is an NVIDIA H100 PCIe or NVL its NVIDIA H100 80GB HBM3.
    let other = has("PCIE") || has("NVL");
    let found = DEVICES.iter().find(|d| has(d.word) && !other);
    let device = found.unwrap_or(&UNKNOWN);
    let title = format!("XLA's speed-of-light model, device {}", device.name);
    let meta = Meta { title, ..meta };
    Ok(Box::new(Sol { meta, device, known: found.is_some() }))
}

/// Its parameters of a device, before [`SCALE`].
struct Device {
    /// A word in the machine's name or title.
    word: &'static str,
    /// Its key in XLA's table.
    name: &'static str,
    /// GB/s.
    nic: f64,
    /// µs.
    chunk: f64,
    /// µs.
    round_trip: f64,
}

/// kDefaultNcclCostModelCoeff: it scales every parameter.
const SCALE: f64 = 0.45;
/// µs of a launch, before the scale.
const LAUNCH: f64 = 100.0;
/// `gpus_per_node` of all its devices.
const EACH: f64 = 8.0;
/// Bytes prepared at once, and the factor for headers.
const CHUNK: u64 = 4 << 20;
const HEADERS: f64 = 1.025;
/// The most bytes for its own kernels on one host.
const ONE_SHOT: u64 = 256 << 10;
const TWO_SHOT: u64 = 4 << 20;

static DEVICES: [Device; 2] = [
    Device {
        word: "H100",
        name: "NVIDIA H100 80GB HBM3",
        nic: 55.56,
        chunk: 13.34,
        round_trip: 68.89,
    },
    Device { word: "B200", name: "NVIDIA B200", nic: 111.12, chunk: 4.45, round_trip: 46.67 },
];

static UNKNOWN: Device =
    Device { word: "", name: "unknown", nic: 111.12, chunk: 13.34, round_trip: 68.89 };

/// Why its time is not that of the ranks that call.
const COUNTED: &str = "it counts 8 GPUs a node, whatever the machine has: gpus_per_node= in \
                       --xla_gpu_analytical_latency_estimator_options changes it";

struct Sol {
    meta: Meta,
    device: &'static Device,
    known: bool,
}

impl Sol {
    /// One message of `bytes` over the network.
    fn message(&self, bytes: f64) -> f64 {
        let wire = bytes / (self.device.nic * SCALE * 1e9) * HEADERS;
        let chunks = (bytes / CHUNK as f64).ceil();
        wire + (chunks * self.device.chunk + self.device.round_trip) * SCALE * 1e-6
    }

    fn estimate(&self, call: &Call) -> Option<Seconds> {
        let (hosts, bytes) = (f64::from(call.nodes), call.size.0 as f64);
        let (n, each) = (hosts * EACH, EACH);
        let ring = |rounds: f64, m: f64| rounds * (n - 1.0) / each * self.message(m);
        let moving = match call.collective {
            C::AllReduce => ring(2.0, bytes / n),
            C::AllGather | C::ReduceScatter => ring(1.0, bytes / n),
            C::SendRecv => self.message(bytes),
            C::AllToAll => each * (hosts - 1.0) * self.message(bytes / (n - 1.0)),
            _ => return None,
        };
        Some(Seconds(LAUNCH * SCALE * 1e-6 + moving))
    }
}

impl Policy for Sol {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let unsupported = || {
            Error::unsupported(format!("xla-sol has no model of {}", call.operation()))
                .help("ask for allreduce, allgather, reducescatter, alltoall or sendrecv")
        };
        let mut estimate = self.estimate(call).ok_or_else(unsupported)?;
        let mut notes = Vec::new();
        if !self.known {
            notes.push("it has no parameters for this device: its defaults are used".into());
        }
        let counts =
            matches!(call.collective, C::AllReduce | C::AllGather | C::ReduceScatter | C::AllToAll);
        if call.nodes > 1 && counts && call.ranks != call.nodes * EACH as u32 {
            notes.push(COUNTED.into());
        }
        let (name, rule, runs) = if call.nodes > 1 {
            let hosts = call.nodes;
            let name = if call.collective == C::AllToAll { "all-to-all" } else { "ring" };
            let runs = match call.collective {
                C::AllReduce | C::AllGather | C::ReduceScatter => {
                    Runs::whole(call.collective, call.ranks, "ring")
                }
                _ => Runs::unpriced("NCCL chooses how"),
            };
            (name, format!("{hosts} hosts: over the network, any size"), runs)
        } else {
            estimate = Seconds(0.0);
            let memory =
                "its own kernels read their peers' memory, which no closed form here models";
            match (call.collective, call.size.0) {
                (C::AllReduce, ..=ONE_SHOT) => {
                    ("one-shot", "one host, at most 256 KiB".to_owned(), Runs::unpriced(memory))
                }
                (C::AllReduce, ..=TWO_SHOT) => {
                    ("two-shot", "one host, at most 4 MiB".to_owned(), Runs::unpriced(memory))
                }
                _ => (
                    "NCCL, by a table",
                    "one host: interpolated from measured throughputs".to_owned(),
                    Runs::unpriced(
                        "NCCL chooses how; the table of throughputs is not included here",
                    ),
                ),
            }
        };
        let estimate = (call.nodes > 1).then_some(estimate);
        Ok(Choice { estimate, notes, ..Choice::new(name, rule, runs) })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        self.choose(call)?;
        let inside = call.nodes == 1 && call.collective == C::AllReduce;
        Ok(if inside { vec![Bytes(ONE_SHOT + 1), Bytes(TWO_SHOT + 1)] } else { Vec::new() })
    }
}
