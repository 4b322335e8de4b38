//! The time of a kernel within an `NVLink` domain, and its number of blocks.

use super::super::communicator::{Ctas, MOST_BLOCKS};
use super::super::{Call, since};
use super::decide::CostModel;
use super::fitted::{Fit, Load};
use super::{Kernel, Release};

/// Bytes per microsecond of the unit that NCCL calls GB/s here.
const GIB: f64 = (1_u64 << 30) as f64 / 1e6;

/// How much longer a smaller number of blocks may take, as a factor of the time with the most.
const SLACK: f64 = 1.025;

/// No slower candidate counts.
const NEVER: f64 = 1e30;

impl CostModel {
    /// Blocks, the estimate and the compared time.
    pub(super) fn within_domain(&self, call: &Call, kernel: Kernel) -> Option<(u32, f32, f32)> {
        let (least, most) = self.block_bounds(call, kernel)?;
        let model = Model::of(self, call, kernel);
        // Since 2.31 blocks come in pairs, and the reported estimate includes their charge.
        let tuner_charges = self.version.has(since::COST_MODELS);
        let step = if tuner_charges { 2 } else { 1 };
        match self.release {
            Release::V2_31 => {
                let mut time = model.time(most) as f32;
                let limit = SLACK * f64::from(time);
                let mut taken = most;
                if let Some((blocks, less)) = model.first_within(least, most, limit, step) {
                    (taken, time) = (blocks, less as f32);
                }
                let charged = time * (1.0 + 0.025 * taken as f32);
                let reported = if tuner_charges { charged } else { time };
                Some((taken, reported, charged))
            }
            Release::V2_32 | Release::V2_32_6 => {
                let limit = SLACK * f64::from(model.time(most) as f32);
                let (taken, time) = model
                    .first_within(least, most, limit, step)
                    .unwrap_or_else(|| (most, model.time(most)));
                if !time.is_finite() || time >= NEVER {
                    return None;
                }
                let time = time as f32;
                let charged =
                    (f64::from(time) * f64::from(1.0 + model.charge() * taken as f32)) as f32;
                Some((taken, time, charged))
            }
        }
    }

    /// The least and the greatest number of blocks; `None` if a kernel with TMA has too few bytes
    /// to move.
    fn block_bounds(&self, call: &Call, kernel: Kernel) -> Option<(u32, u32)> {
        let ranks = self.comm.ranks;
        let mut most = MOST_BLOCKS;
        let by_switch = matches!(
            kernel,
            Kernel::AllReduceLdMc
                | Kernel::AllGatherTmaMc
                | Kernel::AllGatherStMc
                | Kernel::ReduceScatterLdMc
        );
        if by_switch && self.version.has(since::SWITCH_BLOCKS) {
            most = self.switch_blocks().div_ceil(ranks);
        }
        let (mut least, mut most) = self.allowed(most);
        least = least.min(most);
        if !self.version.has(since::COST_MODELS) {
            return Some((least, most));
        }
        if least < most {
            if least > 1 && !least.is_multiple_of(2) {
                least += 1;
            }
            if most > 1 && !most.is_multiple_of(2) {
                most -= 1;
            }
        }
        if kernel.is_tma() {
            let bytes = self.bytes(call);
            let needed = |blocks: u64| match kernel {
                Kernel::AllGatherTma => 8192 * blocks,
                // For any number of blocks.
                Kernel::AllGatherTmaMc => 4096,
                _ => 16384 * u64::from(ranks) * blocks,
            };
            let enough = |blocks: u32| bytes >= needed(blocks.into());
            if !enough(least) {
                // Listed kernels are used even with too few bytes.
                return self.settings.listed_kernels().is_some().then_some((least, most));
            }
            while most > least && !enough(most) {
                most = if most == 2 { 1 } else { most - 2 };
            }
        }
        Some((least, most))
    }

    /// The least and the most blocks that the environment leaves of `most`.
    pub(super) fn allowed(&self, most: u32) -> (u32, u32) {
        let Ctas { least, most: bound } = self.comm.ctas;
        self.settings.kernel_blocks().map_or((least, most.min(bound)), |set| (set, set))
    }

    /// Blocks that saturate a switch, over all ranks.
    pub(super) fn switch_blocks(&self) -> u32 {
        if self.comm.min_cc < 100 { 16 } else { 32 }
    }
}

/// The model that prices a kernel: the one fitted to its GPU, or the model for all GPUs.
enum Model {
    Fitted(Fit, Load),
    Plain(Plain),
}

impl Model {
    fn of(tuner: &CostModel, call: &Call, kernel: Kernel) -> Self {
        let load = Load { ranks: tuner.comm.ranks, bytes: tuner.bytes(call) };
        let fit = Fit::of(kernel, tuner.comm.min_cc, tuner.reduction, tuner.version);
        match fit {
            Some(fit) => Self::Fitted(fit, load),
            None => Self::Plain(Plain::of(tuner, kernel, tuner.counted(call))),
        }
    }

    fn time(&self, blocks: u32) -> f64 {
        match self {
            Self::Fitted(fit, load) => f64::from(fit.time(load, blocks) as f32),
            Self::Plain(plain) => plain.time(blocks),
        }
    }

    /// The cost of a block when kernels are compared, as a fraction of the time.
    fn charge(&self) -> f32 {
        match self {
            Self::Fitted(fit, _) => fit.charge(),
            Self::Plain(_) => 0.025,
        }
    }

    /// The fewest blocks from `least` on that are fast enough; 1 is followed by 2, others by `step`
    /// more.
    fn first_within(&self, least: u32, most: u32, limit: f64, step: u32) -> Option<(u32, f64)> {
        let mut blocks = least;
        while blocks < most {
            let time = self.time(blocks);
            if time <= limit {
                return Some((blocks, time));
            }
            blocks = if blocks == 1 { 2 } else { blocks + step };
        }
        None
    }
}

/// The model for all GPUs: a base, and bytes over a rate that grows with the blocks up to a peak.
struct Plain {
    base: f64,
    bus: f64,
    /// A block's rate, and the factor by which the switch multiplies it.
    block: f64,
    copies: f64,
    peak: f64,
}

impl Plain {
    fn of(tuner: &CostModel, kernel: Kernel, bytes: u64) -> Self {
        use Kernel::{
            AllGatherLl, AllGatherLlMc, AllGatherStMc, AllGatherTma, AllGatherTmaMc, AllReduceLd,
            AllReduceLdMc, AllReduceLl, AllReduceLlMc, AllReduceTma, ReduceScatterLdMc,
            ReduceScatterLl,
        };
        let ranks = u64::from(tuner.comm.ranks);
        let r = f64::from(tuner.comm.ranks);
        let bus = match kernel {
            AllReduceLl | AllReduceLlMc | AllGatherLl | AllGatherLlMc | ReduceScatterLl => {
                ranks * bytes * 9
            }
            AllReduceTma | AllReduceLd => 2 * bytes * (ranks - 1) / ranks,
            AllReduceLdMc => bytes / ranks + bytes,
            _ => (ranks - 1) * bytes,
        };
        let copies = match kernel {
            AllReduceLlMc | AllGatherLlMc => 1.1,
            AllReduceLdMc => r,
            AllGatherTmaMc if tuner.version.has(since::COST_MODELS) => 0.99 * 0.55 * r,
            AllGatherStMc | AllGatherTmaMc | ReduceScatterLdMc => 0.55 * r,
            _ => 1.0,
        };
        let reduces = matches!(kernel as usize, 0..5);
        let blackwell = tuner.comm.min_cc >= 100;
        let newer = tuner.version.has(since::COST_MODELS);
        let scatters = newer && kernel.function() == super::super::Function::ReduceScatter;
        let (mut base, block, mut peak) = if blackwell {
            let base = match (kernel.is_ll(), kernel.function()) {
                (true, super::super::Function::AllGather) => 8.5,
                (true, _) if scatters => 10.5,
                (true, _) => 11.0,
                (false, super::super::Function::AllReduce) => 19.5,
                (false, _) => 13.0,
            };
            let peak = match kernel {
                AllReduceLdMc => 1000.0,
                _ if scatters => 650.0,
                _ => 600.0,
            };
            (base, 55.0, peak)
        } else {
            let base = if kernel.is_ll() { 4.5 } else { 7.8 };
            let block = if reduces { 65.0 } else { 44.0 };
            (base, block, if kernel == AllReduceLdMc { 480.0 } else { 320.0 })
        };
        if kernel.is_tma() && newer {
            base += 4.0;
            if kernel == AllGatherTma {
                peak = 700.0;
                base += 19.0;
            }
            if kernel != AllGatherTmaMc {
                peak *= 1.07;
            }
        }
        Self { base, bus: bus as f64, block: block * GIB, copies, peak: peak * GIB }
    }

    fn time(&self, blocks: u32) -> f64 {
        let rate = soft_min(f64::from(blocks) * self.block * self.copies, self.peak, self.block);
        self.base + soft_plus(self.bus / rate - 1.0)
    }
}

/// ln(1 + eˣ): x where it is large, 0 where it is small.
fn soft_plus(x: f64) -> f64 {
    if x >= 100.0 { x } else { x.exp().ln_1p() }
}

/// The smaller of two values, smoothed over `width` where they are near each other.
pub(super) fn soft_min(x: f64, most: f64, width: f64) -> f64 {
    most - width * (((most / width).exp() - 1.0) * (-x / width).exp()).ln_1p()
}
