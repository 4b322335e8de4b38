//! Kernels on symmetric windows: which may run, and how many blocks they get.
//!
//! They read and write the other ranks' memory themselves. If both buffers of a call are in windows,
//! the best of these kernels is chosen without considering the algorithms.

use super::super::{Call, Chooser, Function, Operation, Proto, since};
use super::decide::CostModel;
use super::fitted::active_blocks;
use super::general::switch_adds;
use super::{Best, Candidate, Copies, Kernel};
use crate::base::dtype::DataType;

/// Threads of a symmetric kernel's block.
const THREADS: u32 = 512;

/// A call's size is rounded up to a multiple of this.
pub(super) const GRAIN: u64 = 1024;

/// Elements per rank above which copy engines gather, unless `NCCL_SYM_CE_THRESHOLD` is set.
pub const COPIES_ABOVE: u64 = 8 << 20;

impl CostModel {
    /// The choice on windows that replaces the algorithms of a communicator, before 2.31. 2.29.2
    /// uses a kernel with flags only if the algorithms would use flags too.
    #[must_use]
    pub fn instead_of(&self, chooser: &Chooser, call: &Call) -> Option<Best> {
        let best = self.on_windows(call)?;
        let flags = matches!(best.candidate, Candidate::Symmetric(kernel) if kernel.is_ll());
        let asks = flags && self.version.has(since::LL_KERNELS_ASK);
        let kept = !asks || chooser.decide(call).is_some_and(|own| own.proto == Proto::Ll);
        kept.then_some(best)
    }

    /// The choice if both buffers are in windows; `None` if the algorithms decide.
    #[must_use]
    pub fn on_windows(&self, call: &Call) -> Option<Best> {
        if !self.reach.symmetric || self.comm.ranks == 1 {
            return None;
        }
        self.gathered_by_copies(call).or_else(|| self.among_kernels(call))
    }

    /// The symmetric kernel with the least time, if one may run: what NCCL's picker answers.
    #[must_use]
    pub fn among_kernels(&self, call: &Call) -> Option<Best> {
        if !self.reach.symmetric || self.comm.ranks == 1 || !self.allows_kernels(call.function) {
            return None;
        }
        // Among equals the highest is kept; before 2.31 the lowest.
        let last = self.version.has(since::COST_MODELS);
        let mut best: Option<Best> = None;
        for kernel in Kernel::ALL {
            let Some(next) = self.symmetric(call, kernel) else { continue };
            let before = best.map_or(f32::MAX, |best| best.rank);
            if next.rank < before || last && best.is_some() && next.rank == before {
                best = Some(next);
            }
        }
        best
    }

    /// The gathering by copy engines, if they are chosen. Before 2.31 there is no estimate of it, and
    /// it is always one copy per rank (`taskAppend` of v2.30.7-1, `src/enqueue.cc`).
    pub(super) fn gathered_by_copies(&self, call: &Call) -> Option<Best> {
        let comm = &self.comm;
        let whole = self.reach.domain == comm.ranks;
        if call.function != Function::AllGather
            || !whole
            || comm.min_cc < 100
            || !self.reach.direct
            || !self.version.has(since::COPIES_GATHER)
        {
            return None;
        }
        let models = self.version.has(since::COST_MODELS);
        let above = self.settings.copies_above().unwrap_or_else(|| {
            let blocks = models && !self.has_multicast() && self.has_tma();
            if blocks { 4 * COPIES_ABOVE } else { COPIES_ABOVE }
        });
        if self.count(call) <= above {
            return None;
        }
        let (method, time) = match models {
            true => {
                let (method, time) = self.copies(self.bytes(call));
                (method, Some(time))
            }
            false => (Copies::Unicast, None),
        };
        Some(Best {
            candidate: Candidate::Copied(method),
            channels: 0,
            threads: 0,
            time,
            rank: time.unwrap_or_default(),
        })
    }

    /// The blocks that a symmetric kernel is launched with: those that have work.
    #[must_use]
    pub fn launched(&self, call: &Call, best: &Best) -> Option<u32> {
        matches!(best.candidate, Candidate::Symmetric(_))
            .then(|| active_blocks(self.bytes(call), best.channels.max(1)))
    }

    fn copies(&self, bytes: u64) -> (Copies, f32) {
        super::copy_engine::gather(&self.comm, &self.settings, &self.reach, bytes)
    }

    /// Whether symmetric kernels support the call at all.
    fn allows_kernels(&self, function: Function) -> bool {
        let element = self.reduction.element;
        let floats = element.is_float() && element != DataType::F64;
        let sums = match self.reduction.operation {
            Operation::Scaled => self.version.has(since::KERNELS_AVERAGE),
            operation => operation == Operation::Sum,
        };
        self.reach.direct
            && self.reduction.is_taken(self.version, function, self.comm.min_cc)
            && match function {
                Function::AllGather => true,
                Function::AllReduce | Function::ReduceScatter => floats && sums,
                Function::Broadcast | Function::Reduce => false,
            }
    }

    /// Whether the switch multicasts among the ranks of a domain.
    pub(super) fn has_multicast(&self) -> bool {
        self.comm.nvls && (self.reach.domain > 2 || !self.version.has(since::MULTICAST_3))
    }

    /// Whether the GPUs' own engines (TMA) may move blocks.
    fn has_tma(&self) -> bool {
        self.settings.tma(self.version.has(since::COST_MODELS))
    }

    /// Whether the release has a kernel.
    fn has(&self, kernel: Kernel) -> bool {
        match kernel {
            Kernel::AllGatherRail => self.version.has(since::RAIL_GATHERS),
            _ if kernel.is_rail() => self.version.has(since::RAIL_SCATTERS),
            _ => !kernel.is_tma() || self.version.has(since::TMA_KERNELS),
        }
    }

    /// The number of bytes in the models.
    pub(super) fn counted(&self, call: &Call) -> u64 {
        let bytes = self.bytes(call);
        if self.version.has(since::KERNELS_ROUND) { bytes.next_multiple_of(GRAIN) } else { bytes }
    }

    /// The bytes of a call for its user: a rank's part if it gathers.
    pub(super) fn bytes(&self, call: &Call) -> u64 {
        match call.function {
            // NCCL gathers bytes, whatever the data type.
            Function::AllGather => call.size.0 / u64::from(self.comm.ranks),
            _ => self.count(call) * self.element(),
        }
    }

    /// Whether a kernel may run for a call.
    fn may_run(&self, call: &Call, kernel: Kernel) -> bool {
        let ranks = u64::from(self.comm.ranks);
        let whole = self.reach.domain == self.comm.ranks;
        let all = if call.function == Function::AllReduce { 1 } else { ranks };
        let bus = self.counted(call).saturating_mul(all);
        let multicast = self.has_multicast();
        kernel.function() == call.function
            && self.has(kernel)
            && self.enabled.has(call.function, Candidate::Symmetric(kernel))
            && (multicast || !kernel.stores_multicast())
            && (!kernel.loads_multicast() || (multicast && self.adds_in_switch(call.function)))
            && !(kernel.is_ll() && bus >= 2 << 30)
            && bus < 64 << 30
            && (!kernel.is_tma() || (self.comm.min_cc >= 100 && self.has_tma()))
            && kernel.is_rail() != whole
            && (!kernel.is_rail() || self.settings.rails())
    }

    /// Whether the switch supports the reduction for these kernels.
    fn adds_in_switch(&self, function: Function) -> bool {
        let reduction = self.reduction;
        if reduction.element.is_fp8() {
            return self.comm.min_cc >= 100;
        }
        let averages = reduction.operation == Operation::Scaled;
        averages && reduction.is_addable() || switch_adds(reduction, function)
    }

    /// The time of a kernel with its number of blocks, if it may run.
    pub(super) fn symmetric(&self, call: &Call, kernel: Kernel) -> Option<Best> {
        if !self.may_run(call, kernel) {
            return None;
        }
        let (channels, time, rank) = match kernel.is_rail() {
            true => self.between_domains(call, kernel),
            false => self.within_domain(call, kernel)?,
        };
        let candidate = Candidate::Symmetric(kernel);
        let threads = THREADS;
        (time > 0.0).then_some(Best { candidate, channels, threads, time: Some(time), rank })
    }
}
