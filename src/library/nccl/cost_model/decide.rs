//! The choice: copy engines, then symmetric kernels, then the cheapest of the algorithms.

use super::super::settings::Settings;
use super::super::table::thresholds;
use super::super::{
    Algo, Call, Communicator, Decision, Function, Micros, Proto, Reduction, Version, since,
};
use super::cells::{Cell, Filler};
use super::enabled::Enabled;
use super::figures::{Figures, is_rubin};
use super::{Candidate, Kernel, Reach, Release, general};
use crate::base::error::Result;
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Ratio};

/// A communicator's candidates, prepared for many decisions.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    pub(super) comm: Communicator,
    pub(super) reach: Reach,
    /// The release whose symmetric kernels these are.
    pub(super) version: Version,
    pub(super) release: Release,
    pub(super) reduction: Reduction,
    pub(super) figures: Figures,
    pub(super) rubin: bool,
    pub(super) enabled: Enabled,
    pub(super) settings: Settings,
    pub(super) threads: [[u32; 3]; 7],
    /// Bytes per thread below which channels and threads are given up.
    pub(in super::super) thresholds: [[u32; 3]; 7],
    cells: [[[Cell; 3]; 7]; 5],
}

/// Which buffers of a call are in symmetric windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Windows {
    /// Neither.
    #[default]
    None,
    /// Both, out of place.
    Both,
}

/// The chosen candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    /// The candidate.
    pub candidate: Candidate,
    /// The most channels; blocks of a symmetric kernel; 0 for copy engines.
    pub channels: u32,
    /// Threads of a block; 0 for copy engines.
    pub threads: u32,
    /// NCCL's estimate, in microseconds, if it has one.
    pub(super) time: Option<f32>,
    /// The compared time: the estimate, or more if blocks are charged for.
    pub(super) rank: f32,
}

impl Best {
    /// NCCL's own estimate; `None` for copy engines before 2.31. For [`Kernel::AllGatherRail`] it is
    /// a millionth of the real time, as in NCCL, which computes it in seconds.
    #[must_use]
    pub fn time(&self) -> Option<Micros> {
        self.time.map(Micros)
    }

    /// The compared time: the estimate, or more if blocks are charged for.
    #[must_use]
    pub fn compared(&self) -> Micros {
        Micros(self.rank)
    }

    /// The algorithm and protocol, if the candidate is one.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        let Candidate::General(algo, proto) = self.candidate else { return None };
        let (channels, threads, time) = (self.channels, self.threads, self.time());
        Some(Decision { algo, proto, channels, threads, time })
    }
}

impl CostModel {
    /// The candidates of a communicator. For releases before 2.31 these are only symmetric kernels;
    /// a [`Chooser`](super::super::Chooser) has their algorithms.
    ///
    /// # Errors
    /// Settings that this release refuses.
    pub fn new(
        comm: &Communicator,
        version: Version,
        settings: &Settings,
        reduction: Reduction,
    ) -> Result<Self> {
        let release = Release::of(version);
        let enabled = Enabled::of(settings, version)?;
        let figures = Figures::of(comm, release);
        let rubin = is_rubin(comm, release);
        let mut cells = [[[Cell::default(); 3]; 7]; 5];
        let filler =
            Filler { comm, version, figures: &figures, settings, enabled: &enabled, rubin };
        for (function, rows) in Function::ALL.into_iter().zip(&mut cells) {
            for (algo, row) in Algo::ALL.into_iter().zip(rows) {
                for (proto, cell) in Proto::ALL.into_iter().zip(row) {
                    *cell = filler.cell(function, algo, proto);
                }
            }
        }
        Ok(Self {
            comm: *comm,
            reach: comm.reach.unwrap_or_else(|| Reach::of(comm)),
            version,
            release,
            reduction,
            rubin,
            settings: settings.clone(),
            threads: threads(settings, release),
            thresholds: thresholds(comm.ranks, settings),
            figures,
            enabled,
            cells,
        })
    }

    /// The same for calls of another type or operation.
    pub(in super::super) fn with(&self, reduction: Reduction) -> Self {
        Self { reduction, ..self.clone() }
    }

    /// A cell of the table, as the log prints it.
    #[must_use]
    pub fn cell(&self, function: Function, algo: Algo, proto: Proto) -> Cell {
        self.cells[function as usize][algo as usize][proto as usize]
    }

    /// The most threads of a block in the table; 0 if there is no such protocol.
    #[must_use]
    pub fn threads(&self, algo: Algo, proto: Proto) -> u32 {
        self.threads[algo as usize][proto as usize]
    }

    /// NCCL's choice; `None` if nothing may run, which is an error in NCCL.
    #[must_use]
    pub fn decide(&self, call: &Call, windows: Windows) -> Option<Best> {
        if windows == Windows::Both
            && let Some(best) = self.on_windows(call)
        {
            return Some(best);
        }
        self.plain(call, windows)
    }

    /// The choice among algorithms.
    fn plain(&self, call: &Call, windows: Windows) -> Option<Best> {
        if !self.version.has(since::COST_MODELS) {
            return None;
        }
        if self.comm.ranks == 1 {
            let (algo, proto) = (Algo::Ring, Proto::Simple);
            let (channels, threads) = self.general_blocks(call.size, algo, proto);
            let candidate = Candidate::General(algo, proto);
            return Some(Best { candidate, channels, threads, time: Some(0.0), rank: 0.0 });
        }
        // From the highest number down, so that the highest of equal candidates is kept.
        let mut best: Option<Best> = None;
        for algo in Algo::ALL.into_iter().rev() {
            for proto in Proto::ALL.into_iter().rev() {
                let Some(next) = self.general(call, windows, (algo, proto)) else { continue };
                if next.rank < best.map_or(f32::MAX, |best| best.rank) {
                    best = Some(next);
                }
            }
        }
        best
    }

    /// Every considered candidate, cheapest first; of equals, the chosen one first.
    #[must_use]
    pub fn ranked(&self, call: &Call, windows: Windows) -> Vec<Best> {
        let mut all: Vec<Best> = match self.decide(call, windows).map(|best| best.candidate) {
            None => Vec::new(),
            Some(Candidate::Copied(_)) => self.gathered_by_copies(call).into_iter().collect(),
            Some(Candidate::Symmetric(_)) => {
                Kernel::ALL.into_iter().filter_map(|kernel| self.symmetric(call, kernel)).collect()
            }
            Some(Candidate::General(..)) if self.comm.ranks == 1 => {
                self.plain(call, windows).into_iter().collect()
            }
            Some(Candidate::General(..)) => {
                let cells = (0..21).filter_map(Candidate::numbered);
                let general = cells.filter_map(|candidate| match candidate {
                    Candidate::General(algo, proto) => self.general(call, windows, (algo, proto)),
                    _ => None,
                });
                general.collect()
            }
        };
        all.retain(|best| best.rank < f32::MAX);
        if self.version.has(since::COST_MODELS) {
            all.reverse();
        }
        rising(&mut all, |a| f64::from(a.rank));
        all
    }

    /// Whether a cell takes part in the choice.
    #[must_use]
    pub fn considers(&self, function: Function, algo: Algo, proto: Proto) -> bool {
        match self.comm.ranks {
            1 => (algo, proto) == (Algo::Ring, Proto::Simple),
            _ => self.may(function, algo, proto),
        }
    }

    /// The fraction of a cell's bandwidth that a size reaches.
    #[must_use]
    pub fn reached(&self, size: Bytes, algo: Algo, proto: Proto) -> Ratio {
        Ratio(f64::from(self.factor(size, algo, proto)))
    }

    /// Sizes, besides powers of two, from which on times follow a different line.
    pub(in super::super) fn changes(&self) -> Vec<u64> {
        let each = u64::from(self.comm.channels) * u64::from(self.comm.ranks);
        let mut changes = general::BREAKS.map(|bytes| each.saturating_mul(bytes)).to_vec();
        if self.rubin {
            changes.extend(curve_points());
        }
        changes
    }

    /// The sizes between which a change of the cheapest candidate on windows is searched for.
    pub fn points() -> impl Iterator<Item = u64> {
        curve_points()
    }

    /// A caveat about the answers, if they match NCCL's less certainly than others: for Rubin-class
    /// GPUs.
    #[must_use]
    pub fn caveat(&self) -> Option<&'static str> {
        self.rubin.then_some(
            "Rubin-class GPUs have their own model, the least certain one here: the number of \
             blocks per channel is not known",
        )
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> u64 {
        self.reduction.element.bytes().0
    }

    /// Elements of the call; if it gathers, those of one rank.
    pub(super) fn count(&self, call: &Call) -> u64 {
        let ranks = if call.function.gathers() { u64::from(self.comm.ranks) } else { 1 };
        call.size.0 / ranks / self.element()
    }
}

/// Sixteen sizes in each power of two. If times are not lines, two changes between neighboring
/// sizes are not distinguished.
fn curve_points() -> impl Iterator<Item = u64> {
    (4..40).flat_map(|bits| (16..32).map(move |part| (part << bits) >> 4))
}

fn threads(settings: &Settings, release: Release) -> [[u32; 3]; 7] {
    let blocks = settings.threads("NCCL_NTHREADS", 64, 512, 512).unsigned_abs();
    let ll128 = settings.threads("NCCL_LL128_NTHREADS", 160, 640, 640).unsigned_abs();
    let pat = if release >= Release::V2_32 { 640 } else { 0 };
    let simple = [0, 0, 640];
    let ring = [blocks, ll128, blocks];
    [ring, ring, simple, simple, simple, simple, [0, 0, pat]]
}
