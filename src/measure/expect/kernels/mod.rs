//! What the kernels of inference engines take, where they are not the library's.
//!
//! ```text
//! T = start + peer·(n − 1) + root·√x + slope·x + beyond·max(0, x − corner)
//! ```
//!
//! x are the bytes that the kernel's form moves: (n − 1)·S for one shot, 2(n − 1)/n·S for two,
//! (1 + 1/n)·S through a switch that adds. Fitted per machine, kernel and ranks under CUDA graphs;
//! another board of the same generation takes the same, another generation what its link's α and rate
//! make of it (custom kernels keep too few loads in flight for the rate to matter). Outside graphs
//! the host is the floor, and the benchmark's copy of the input is added.

mod fits;

use std::num::NonZeroU32;

use super::{Basis, Expectation, Expecting, HeldOut};
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::library::engines::Kernel;
use crate::machine::profile::{Generation, LinkKind};
use crate::machine::query::{Layout, Query};
use crate::model::algorithm::Registry;
use fits::{FITS, Fit, MACHINES, Measured};

/// The questions of one machine and number of ranks, whatever the kernel and size.
pub struct Kernels<'r> {
    board: Option<Board>,
    ranks: u32,
    nccl: Expecting<'r>,
}

/// What the asked machine is, as far as fits ask.
struct Board {
    id: Option<String>,
    generation: Generation,
    link: LinkKind,
    alpha: Option<Seconds>,
    rate: Bandwidth,
    host: Host,
}

/// What a call costs outside graphs.
struct Host {
    /// Python and the launch.
    floor: Seconds,
    /// The device's memory.
    memory: Bandwidth,
}

/// Off by so much where tables, sizes or machines were left out: measured, in the study of
/// docs/how-to/choose-for-an-engine.md.
const OWN: (f64, f64, HeldOut) = (0.950, 1.062, held_out(0.022, 0.082));
const SIBLING: (f64, f64, HeldOut) = (0.923, 1.096, held_out(0.045, 0.110));
const UNSEEN: (f64, f64, HeldOut) = (0.65, 1.5, held_out(0.076, 0.241));
/// A kernel that nobody measured, by one that does the same.
const KIN: (f64, f64) = (0.7, 1.4);

const fn held_out(median: f64, p90: f64) -> HeldOut {
    HeldOut { median: Ratio(median), p90: Ratio(p90) }
}

impl<'r> Kernels<'r> {
    /// Gets ready for the ranks of `query`.
    ///
    /// # Errors
    /// As [`Expecting::new`].
    pub fn new(registry: &'r Registry, query: &Query) -> Result<Self> {
        let hardware = query.machine.hardware.as_ref();
        let ranks = query.shape.ranks;
        // Trays of a rack are nodes for an engine, and one domain of links for NCCL.
        let joined = hardware.filter(|h| query.placement.nodes() > 1 && ranks <= h.span);
        let nccl = match joined {
            Some(rack) => {
                let layout = Layout { ranks: NonZeroU32::new(ranks), ..Layout::default() };
                let (mut machine, given) = (query.machine.clone(), query.given);
                for fabric in std::iter::once(&mut machine.fabric).chain(&mut machine.stock) {
                    let tier = fabric.node.and_then(|node| fabric.tiers.get_mut(node));
                    tier.into_iter().for_each(|t| t.span = NonZeroU32::new(rack.span));
                }
                let one = Query::new(machine, query.shape.collective, query.size, layout, given)?;
                Expecting::new(registry, &one)?
            }
            None => Expecting::new(registry, query)?,
        };
        let board = hardware.and_then(|hardware| {
            let generation = hardware.generation?;
            Some(Board {
                id: hardware.board.clone(),
                generation,
                link: hardware.link,
                alpha: query.machine.fabric.tiers.first().and_then(|tier| tier.link.alpha),
                rate: hardware.inside,
                host: Host::of(generation, hardware.link, &query.machine.title),
            })
        });
        Ok(Self { board, ranks, nccl })
    }

    /// What a kernel is expected to take for a tensor of `size` bytes on each rank; none where nothing
    /// like it was measured.
    #[must_use]
    pub fn at(&self, kernel: Kernel, size: Bytes) -> Option<Expectation> {
        let captured = match kernel.backend {
            "nccl" => self.nccl.at(size),
            "nccl-symm" if kernel.kernel == "library" => {
                // No such kernel was measured: at most what NCCL takes without symmetric buffers.
                let plain = self.nccl.at(size);
                Expectation {
                    low: plain.low * Ratio(0.25),
                    basis: Basis::Modelled,
                    error: None,
                    ..plain
                }
            }
            _ => self.own(kernel, size)?,
        };
        Some(match (&self.board, kernel.graph) {
            (Some(board), false) => board.host.launched(captured, kernel, size),
            _ => captured,
        })
    }

    /// busbw of a call of `size` bytes that takes `time`.
    #[must_use]
    pub fn busbw(&self, size: Bytes, time: Seconds) -> Option<Bandwidth> {
        self.nccl.busbw(size, time)
    }

    fn own(&self, kernel: Kernel, size: Bytes) -> Option<Expectation> {
        let board = self.board.as_ref()?;
        let (like, more) = fits::like(kernel.backend, kernel.kernel)?;
        let own = (kernel.backend, kernel.kernel) == (like.backend, like.kernel);
        let x = like.moved(size, self.ranks) * more;
        let (micros, basis, (low, high, error)) = board.told(&like, self.ranks, x)?;
        let time = Seconds(micros * 1e-6);
        let (low, high, error) = match own {
            true => (low, high, Some(error)),
            false => (low * KIN.0, high * KIN.1, None),
        };
        let basis = if own { basis } else { Basis::Modelled };
        let (low, high) = (time * Ratio(low), time * Ratio(high));
        Some(Expectation { time, low, high, basis, reach: None, error })
    }
}

type Told = (f64, Basis, (f64, f64, HeldOut));

impl Board {
    /// The time in µs, by this board's own fit, a sibling's, or other generations'.
    fn told(&self, like: &fits::Like, ranks: u32, x: f64) -> Option<Told> {
        let fit = |m: &Measured| FITS.of(m.name, like, ranks);
        let known: Vec<(&Measured, Fit)> =
            MACHINES.iter().filter_map(|m| Some((m, fit(m)?))).collect();
        let mine = known.iter().find(|(m, _)| self.id.as_deref() == Some(m.board));
        if let Some((_, fit)) = mine {
            return Some((fit.micros(ranks, x), Basis::Measured, OWN));
        }
        let same = |m: &Measured| m.generation == self.generation && m.link == self.link;
        // Of two siblings the one with the nearer start of a message.
        let apart = |m: &Measured| self.alpha.map_or(0.0, |a| (a.0 * 1e6 - m.alpha).abs());
        let siblings = known.iter().filter(|(m, _)| same(m));
        if let Some((_, fit)) = siblings.min_by(|a, b| apart(a.0).total_cmp(&apart(b.0))) {
            return Some((fit.micros(ranks, x), Basis::SameBoard, SIBLING));
        }
        let vendor = self.generation.vendor();
        let others: Vec<f64> = known
            .iter()
            .filter(|(m, _)| m.link == self.link && m.generation.vendor() == vendor)
            .map(|(m, fit)| fit.moved_to(m, self.alpha, self.rate, like).micros(ranks, x).ln())
            .collect();
        let mean = others.iter().sum::<f64>() / others.len() as f64;
        (!others.is_empty()).then(|| (mean.exp(), Basis::Transferred, UNSEEN))
    }
}

impl Host {
    fn of(generation: Generation, link: LinkKind, title: &str) -> Self {
        let rack = ["GB200", "GB300"].iter().any(|word| title.contains(word));
        let floor = match generation {
            _ if link == LinkKind::Pcie => 67.0,
            Generation::Ampere => 45.0,
            _ if rack => 50.0,
            _ => 21.0,
        };
        let memory = match generation {
            Generation::Ampere => 2.04e12,
            Generation::Hopper if title.contains("H200") => 4.8e12,
            Generation::Hopper => 3.35e12,
            Generation::Blackwell if link == LinkKind::NvLink => 8e12,
            _ => 0.864e12,
        };
        Self { floor: Seconds(floor * 1e-6), memory: Bandwidth(memory) }
    }

    /// The same call from Python: a floor, and a copy of the input that reads and writes it.
    fn launched(&self, captured: Expectation, kernel: Kernel, size: Bytes) -> Expectation {
        let copy = 2.0 * size.0 as f64 / (COPY_REACHES * self.memory.0);
        let newer = if kernel.backend == "custom-v2" { NEWER_HOST } else { 1.0 };
        let floor = self.floor.0 * newer;
        let at = |t: Seconds, wide: f64| Seconds((t.0 + copy).max(floor * wide));
        Expectation {
            time: at(captured.time, 1.0),
            low: at(captured.low, 0.9),
            high: at(captured.high, 1.5),
            // The floors were set by the same tables: what they miss elsewhere is not known.
            error: None,
            ..captured
        }
    }
}

/// The part of a memory's rate that a copy reaches.
const COPY_REACHES: f64 = 0.87;
/// SGLang from 0.5.14 on spends so much more on the host.
const NEWER_HOST: f64 = 1.42;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::collective::Collective;
    use crate::machine::parameters::{PARAMETERS, Parameters};
    use crate::machine::profile::Profile;
    use crate::machine::query::Machine;

    fn micros(machine: &str, ranks: u32, kernel: Kernel, size: u64) -> Expectation {
        let mut said = Parameters::default();
        let n = PARAMETERS.iter().find(|p| p.key == "n").unwrap();
        said.put(n, &ranks.to_string()).unwrap();
        let profile = Profile::builtin(machine).unwrap();
        let machine = Machine::on(&profile, "test", &said.given, Collective::AllReduce).unwrap();
        let (layout, params) = (said.layout, said.params);
        let query =
            Query::new(machine, Collective::AllReduce, Bytes(size), layout, params).unwrap();
        let registry = Registry::builtin();
        Kernels::new(&registry, &query).unwrap().at(kernel, Bytes(size)).unwrap()
    }

    const PULL: Kernel = Kernel { backend: "custom", kernel: "one-shot-pull", graph: true };

    #[test]
    fn a_board_of_its_own_a_sibling_and_a_stranger() {
        // aiconfigurator-core 0.12.0, H100 SXM, vLLM: 64 KiB over 8 ranks takes 6.0 µs.
        let own = micros("h100", 8, PULL, 65_536);
        assert!((own.time.0 * 1e6 / 6.0 - 1.0).abs() < 0.15, "{own:?}");
        assert_eq!(own.basis, Basis::Measured);
        let sibling = micros("h200", 8, PULL, 65_536);
        assert_eq!((sibling.basis, sibling.time), (Basis::SameBoard, own.time));
        let stranger = micros("v100", 8, PULL, 65_536);
        assert_eq!(stranger.basis, Basis::Transferred);
        assert!(stranger.high.0 / stranger.low.0 > own.high.0 / own.low.0);
    }

    #[test]
    fn outside_graphs_the_host_is_the_floor() {
        let eager = micros("h100", 8, Kernel { graph: false, ..PULL }, 1024);
        assert!((eager.time.0 * 1e6 - 21.0).abs() < 1e-9);
    }
}
