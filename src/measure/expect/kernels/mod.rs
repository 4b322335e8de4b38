//! The times of inference engines' own kernels, as opposed to the library's.
//!
//! A kernel that was measured on this board gets the median of its tables' curves, `evidence/engines.csv`.
//! Otherwise other ranks, other boards of the generation, and other generations are used, in that order,
//! each with its error when tables or machines are left out (`study`, printed by `examples/engines.rs`).
//! Outside graphs, measured times include the host. If a kernel was not measured there, its time is
//! estimated from its time in a graph, the benchmark's copy of the input, and the host's floor.

mod machines;
mod model;
mod study;
mod times;

pub use study::{LeftOut, Regret};
pub use times::{KernelTimes, RawTimes};

use std::num::NonZeroU32;

use super::{Basis, Expectation, Expecting, HeldOut};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::library::engines::Kernel;
use crate::machine::query::{Layout, Machine, Query};
use crate::model::algorithm::Registry;
pub(super) use machines::Board;
use model::Reach;

/// Expectations for one machine and number of ranks, for any kernel and size.
pub struct Kernels<'r> {
    board: Option<Board>,
    ranks: u32,
    /// Whether all ranks are on one node or tray.
    one_node: bool,
    /// Whether it is an all-reduce among ranks that share memory: others of MSCCL++ were not measured.
    tuned: bool,
    nccl: Expecting<'r>,
}

/// The band that contains 8 of 10, and the error, when a table or a machine is left out.
type Stated = (f64, f64, Option<HeldOut>);

const fn stated(band: (f64, f64), (median, p90): (f64, f64)) -> Stated {
    (band.0, band.1, Some(HeldOut { median: Ratio(median), p90: Ratio(p90) }))
}

/// The results of `KernelTimes::held_out` on the raw tables; tests/engine/engines.rs checks the built-in
/// curves against the same goals.
const fn errors(reach: Reach, kernel: Kernel) -> Stated {
    match (reach, kernel.graph) {
        (Reach::Own, true) => stated((0.954, 1.044), (0.019, 0.078)),
        (Reach::Own, false) => stated((0.880, 1.146), (0.027, 0.183)),
        (Reach::OtherRanks, _) => stated((0.919, 1.148), (0.038, 0.175)),
        (Reach::Sibling, true) => stated((0.924, 1.075), (0.033, 0.106)),
        // No two boards of one generation with the same kind of host were measured.
        (Reach::Sibling, false) => (0.75, 1.4, None),
        (Reach::Launched, _) => stated((0.608, 2.148), (0.385, 0.644)),
        // Wider than measured: four generations are few.
        (Reach::Unseen, _) => stated((0.65, 1.5), (0.079, 0.266)),
    }
}

/// The kernels that MSCCL++ measures at start, except those that need a multicasting switch.
const TUNED: [&str; 3] = ["allpair-packet", "packet", "rsag"];

/// Kernels that were not measured, each with a measured one that does the same.
const KIN: (f64, f64) = (0.7, 1.4);

impl<'r> Kernels<'r> {
    /// Gets ready for the ranks of `query`.
    ///
    /// # Errors
    /// As [`Expecting::new`].
    pub fn new(registry: &'r Registry, query: &Query) -> Result<Self> {
        // Engines have a process a GPU, and replay graphs.
        let machine = Machine { gpus_per_thread: None, ..query.machine.clone() };
        let query = &Query { machine, ..query.clone() };
        let hardware = query.machine.hardware.as_ref();
        let ranks = query.shape.ranks;
        let nodes = query.placement.nodes();
        // Trays of a rack are nodes for an engine, but one link domain for NCCL.
        let joined = hardware.filter(|h| nodes > 1 && ranks <= h.span);
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
        let sums = query.shape.collective == Collective::AllReduce;
        let tuned = sums && (nodes == 1 || joined.is_some());
        Ok(Self { board: Board::of(query), ranks, one_node: nodes == 1, tuned, nccl })
    }

    /// The expected time of a kernel for a tensor of `size` bytes on each rank; `None` if nothing similar
    /// was measured.
    #[must_use]
    pub fn at(&self, kernel: Kernel, size: Bytes) -> Option<Expectation> {
        let expected = match (kernel.backend, kernel.kernel) {
            ("nccl", _) => {
                // What engines measured on this very board; elsewhere it takes what it takes without an engine.
                let told = self.one_node.then(|| self.told(kernel, size, 1.0)).flatten();
                Some(match told.filter(|told| told.basis == Basis::Measured) {
                    Some(told) => told,
                    None => self.launched(self.nccl.at(size), kernel, size),
                })
            }
            ("nccl-symm", "library") => {
                // No such kernel was measured: the bound is NCCL's time without symmetric buffers.
                let plain = self.nccl.at(size);
                let low = plain.low * Ratio(0.25);
                let unknown = Expectation { low, basis: Basis::Modelled, error: None, ..plain };
                Some(self.launched(unknown, kernel, size))
            }
            // The winner of the engine's own measurements at start.
            ("mscclpp", "library") if !self.tuned => None,
            ("mscclpp", "library") => {
                let rivals = TUNED
                    .iter()
                    .filter_map(|&name| self.own(Kernel { kernel: name, ..kernel }, size));
                rivals.min_by(|a, b| a.time.0.total_cmp(&b.time.0))
            }
            _ => self.own(kernel, size),
        };
        expected.map(|expected| self.nccl.on_links(expected, size))
    }

    /// busbw of a call of `size` bytes that takes `time`.
    #[must_use]
    pub fn busbw(&self, size: Bytes, time: Seconds) -> Option<Bandwidth> {
        self.nccl.busbw(size, time)
    }

    fn own(&self, kernel: Kernel, size: Bytes) -> Option<Expectation> {
        let captured = Kernel { graph: true, ..kernel };
        let known = |like: &Kernel| model::BUILT_IN.knows(*like);
        if known(&captured)
            && let Some(told) = self.told(kernel, size, 1.0)
        {
            return Some(told);
        }
        let (like, more) = kin(captured)?;
        let told = self.told(like, size, more)?;
        let (low, high) = (told.low * Ratio(KIN.0), told.high * Ratio(KIN.1));
        let by_kin = Expectation { low, high, basis: Basis::Modelled, error: None, ..told };
        Some(self.launched(by_kin, kernel, size))
    }

    /// From measurements, for a kernel that moves `more` times its bytes.
    fn told(&self, kernel: Kernel, size: Bytes, more: f64) -> Option<Expectation> {
        let board = self.board.as_ref()?;
        let moved = Bytes((size.0 as f64 * more) as u64);
        let (micros, reach) = model::BUILT_IN.told(board, kernel, self.ranks, moved)?;
        let (low, high, error) = errors(reach, kernel);
        let time = Seconds(micros * 1e-6);
        Some(Expectation {
            time,
            low: time * Ratio(low),
            high: time * Ratio(high),
            basis: match reach {
                Reach::Own | Reach::OtherRanks => Basis::Measured,
                Reach::Sibling => Basis::SameBoard,
                Reach::Unseen | Reach::Launched => Basis::Transferred,
            },
            reach: None,
            error,
        })
    }

    /// The same call from Python, if only graphs were measured.
    fn launched(&self, captured: Expectation, kernel: Kernel, size: Bytes) -> Expectation {
        let Some(board) = self.board.as_ref().filter(|_| !kernel.graph) else { return captured };
        let at = |t: Seconds| {
            let us = model::BUILT_IN.launched(board, kernel, size.0 as f64, t.0 * 1e6)?;
            Some(Seconds(us * 1e-6))
        };
        let (less, more, _) = errors(Reach::Launched, kernel);
        match (at(captured.time), at(captured.low), at(captured.high)) {
            (Some(time), Some(low), Some(high)) => Expectation {
                time,
                low: Seconds(low.0.min(time.0 * less)),
                high: Seconds(high.0.max(time.0 * more)),
                // A host's time for a kernel that was not measured with it is unknown.
                error: None,
                ..captured
            },
            _ => captured,
        }
    }
}

/// The measured kernel that represents an unmeasured one, and how many times its bytes the latter
/// moves; `None` if nothing similar was measured.
fn kin(kernel: Kernel) -> Option<(Kernel, f64)> {
    let like = |backend, kernel, more| Some((Kernel { backend, kernel, graph: true }, more));
    match (kernel.backend, kernel.kernel) {
        // With two ranks, one shot reads as much as two.
        ("custom-v2", "one-shot-pull") => like("custom-v2", "two-shot-pull", 1.0),
        ("flashinfer-trtllm", "two-shot-pull") => like("trtllm", "two-shot-pull", 1.0),
        (_, "one-shot-push") => like("trtllm", "one-shot-push", 1.0),
        (_, "one-shot-pull") => like("custom", "one-shot-pull", 1.0),
        (_, "two-shot-push" | "RSxLD_AGxST") => like("custom-v2", "two-shot-pull", 1.0),
        (_, "two-shot-pull") => like("custom", "two-shot-pull", 1.0),
        (_, "two-shot-multimem" | "RSxLDMC_AGxSTMC" | "nvls-zero-copy")
        | (_, "nvls-warp-pipeline" | "nvls-block-pipeline") => {
            like("symm-mem", "two-shot-multimem", 1.0)
        }
        (_, "rsag" | "rsag-zero-copy" | "rsag-pipeline" | "fullmesh") => {
            like("custom-v2", "two-shot-pull", 1.0)
        }
        // With or without multicast as many bytes come in.
        (_, "allpair-packet" | "nvls-packet" | "AGxLL_R" | "AGxLLMC_R") => {
            like("custom-v2", "one-shot-push", 2.0)
        }
        (_, "packet") => like("custom-v2", "two-shot-pull", 2.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::parameters::{PARAMETERS, Parameters};
    use crate::machine::profile::Profile;
    use crate::machine::query::Machine;

    fn micros(machine: &str, ranks: u32, kernel: Kernel, size: u64) -> Expectation {
        over(machine, [ranks, 1], kernel, size).unwrap()
    }

    fn over(machine: &str, shape: [u32; 2], kernel: Kernel, size: u64) -> Option<Expectation> {
        let query = query(machine, shape, size);
        Kernels::new(&Registry::builtin(), &query).unwrap().at(kernel, Bytes(size))
    }

    fn query(machine: &str, shape: [u32; 2], size: u64) -> Query {
        let mut said = Parameters::default();
        for (key, count) in ["n", "nodes"].into_iter().zip(shape) {
            let parameter = PARAMETERS.iter().find(|p| p.key == key).unwrap();
            said.put(parameter, &count.to_string()).unwrap();
        }
        let profile = Profile::builtin(machine).unwrap();
        let machine = Machine::on(&profile, "test", &said.given, Collective::AllReduce).unwrap();
        let (layout, params) = (said.layout, said.params);
        Query::new(machine, Collective::AllReduce, Bytes(size), layout, params).unwrap()
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
        // Links of 300 GB/s, where H100's have 450: 64 MiB in two shots are 1.5 times as slow.
        let shots = Kernel { backend: "custom-v2", kernel: "two-shot-pull", graph: true };
        let [fast, slow] = ["h100", "h100-nvl"].map(|on| micros(on, 2, shots, 64 << 20).time.0);
        assert!((1.4..1.55).contains(&(slow / fast)), "{slow} {fast}");
        let stranger = micros("v100", 8, PULL, 65_536);
        assert_eq!(stranger.basis, Basis::Transferred);
        assert!(stranger.high.0 / stranger.low.0 > own.high.0 / own.low.0);
    }

    #[test]
    fn mscclpp_between_nodes_was_not_measured() {
        let library = Kernel { backend: "mscclpp", kernel: "library", graph: true };
        assert!(over("h100", [8, 1], library, 65_536).is_some());
        assert_eq!(over("h100", [16, 2], library, 65_536), None);
        // Two trays of one rack share memory.
        assert!(over("gb200", [8, 2], library, 65_536).is_some());
    }

    /// One question has one answer: engines change nothing about NCCL on boards on which they were not measured.
    #[test]
    fn nccl_takes_what_it_takes_without_an_engine() {
        let library = Kernel { backend: "nccl", kernel: "library", graph: true };
        for (machine, ranks) in [("l4-pcie", 8), ("rtx-4090", 4), ("h100-nvl", 2), ("dgx-1v", 8)] {
            let query = query(machine, [ranks, 1], 64 << 20);
            let alone = Expecting::new(&Registry::builtin(), &query).unwrap().at(query.size);
            assert_eq!(micros(machine, ranks, library, 64 << 20), alone, "{machine}");
        }
    }

    #[test]
    fn outside_graphs_the_host_is_the_floor() {
        let eager = micros("h100", 8, Kernel { graph: false, ..PULL }, 1024);
        // vLLM's tables: 19.5 to 25.3 µs.
        assert!((19.0..26.0).contains(&(eager.time.0 * 1e6)), "{eager:?}");
    }
}
