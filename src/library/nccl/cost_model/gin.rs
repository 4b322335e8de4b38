//! The time of a kernel across `NVLink` domains: load and store inside a domain, rails between them.

use super::super::communicator::{Ctas, MOST_BLOCKS};
use super::super::{Call, since};
use super::Kernel;
use super::decide::CostModel;

/// The cost of a block when kernels are compared, as a fraction of the time.
const CHARGE: f32 = 0.025;

impl CostModel {
    /// Blocks, the estimate and the compared time.
    pub(super) fn between_domains(&self, call: &Call, kernel: Kernel) -> (u32, f32, f32) {
        let bytes = self.counted(call);
        let (blocks, time) = match kernel {
            Kernel::AllGatherRail if !self.version.has(since::RAIL_SCATTERS) => {
                self.first_gather_by_rails(bytes)
            }
            Kernel::AllGatherRail => self.gather_by_rails(bytes),
            _ => self.scatter_by_rails(bytes, kernel),
        };
        let charged = if self.version.has(since::RAIL_CHARGE) {
            let dear = kernel == Kernel::ReduceScatterRail && self.comm.min_cc >= 100;
            let charge = if dear { 1.0 } else { f64::from(CHARGE) };
            (f64::from(time) * (1.0 + charge * f64::from(blocks))) as f32
        } else {
            time * (1.0 + CHARGE * blocks as f32)
        };
        let reported = if self.version.has(since::COST_MODELS) { charged } else { time };
        (blocks, reported, charged)
    }

    /// The seconds of a step between domains.
    fn rail_latency(&self) -> f64 {
        1e-6 * self.figures.rail
    }

    fn domain_rate(&self) -> f64 {
        if self.comm.min_cc < 100 { 360e9 } else { 720e9 }
    }

    fn rail_rate(&self) -> f64 {
        f64::from(self.reach.nic.0) * 1e9
    }

    fn rails(&self) -> u32 {
        self.comm.ranks / self.reach.domain
    }

    /// As in 2.29.2, which adds microseconds to nanoseconds.
    fn first_gather_by_rails(&self, bytes: u64) -> (u32, f32) {
        const CHUNK: u64 = 4 << 20;
        let chunks = bytes.div_ceil(CHUNK);
        let most = self.switch_blocks().div_ceil(self.comm.local_ranks).min(MOST_BLOCKS);
        let Ctas { least, most: bound } = self.comm.ctas;
        let blocks = u32::try_from(chunks).unwrap_or(u32::MAX).min(most.min(bound)).max(least);
        let steps = chunks * u64::from(self.rails() - 1);
        let inside =
            (bytes * u64::from(self.comm.ranks)) as f32 / (self.domain_rate() / 1e9) as f32;
        let between = (bytes * u64::from(self.rails() - 1)) as f32 / self.reach.nic.0;
        (blocks, steps as f32 * self.figures.rail as f32 + inside.max(between))
    }

    fn gather_by_rails(&self, bytes: u64) -> (u32, f32) {
        const CHUNK: u64 = 1 << 20;
        let most = MOST_BLOCKS.min(self.switch_blocks().div_ceil(self.comm.local_ranks));
        let (least, most) = self.allowed(most);
        let chunks = bytes.div_ceil(CHUNK);
        let steps = chunks * u64::from(self.rails() - 1);
        let inside = (bytes * u64::from(self.comm.ranks)) as f32 / self.domain_rate() as f32;
        let between = (bytes * u64::from(self.rails() - 1)) as f32 / self.rail_rate() as f32;
        // In seconds, as in NCCL.
        let time = (steps as f64 * self.rail_latency() + f64::from(inside.max(between))) as f32;
        let blocks = u32::try_from(chunks).unwrap_or(u32::MAX);
        (blocks.min(most).max(least), time)
    }

    fn scatter_by_rails(&self, bytes: u64, kernel: Kernel) -> (u32, f32) {
        let own = self.rails_of(kernel == Kernel::ReduceScatterRailMc);
        let other = self.rails_of(kernel != Kernel::ReduceScatterRailMc);
        // As many blocks as a rank has room for what others send it.
        let Ctas { least, .. } = self.comm.ctas;
        let room = MOST_BLOCKS.min(own.saturation.max(other.saturation)).max(least);
        let (least, most) = self.allowed(room);
        let most = most.min(own.saturation);
        let newer = self.version.has(since::RAIL_CHUNKS);
        let chunk = if newer { self.settings.rail_chunk() } else { 64 << 10 };
        let chunks = u32::try_from(bytes.div_ceil(chunk)).unwrap_or(u32::MAX);
        let blocks = chunks.min(most).max(least);
        let rate = (f64::from(blocks) * own.block).min(own.inside).min(own.between);
        let first = bytes.min(chunk * u64::from(blocks)) as f64;
        let time = 1e6
            * (bytes as f64 / rate
                + first * (1.0 / own.inside + 1.0 / own.between)
                + self.rail_latency());
        (blocks, time as f32)
    }

    fn rails_of(&self, multicast: bool) -> Rails {
        let (domain, rails) = (self.reach.domain, self.rails());
        let loads = if multicast { 1 } else { domain };
        let first = if domain == 1 { 0 } else { loads * (rails - 1) };
        let work = first + loads + rails - 1;
        let inside =
            (if multicast { domain } else { domain - 1 } * rails).max((domain - 1) * rails);
        let newer = self.version.has(since::RAIL_CHUNKS);
        let rate = match (self.comm.min_cc >= 100, multicast) {
            (true, true) if !newer => 2.25e9,
            (true, false) if !newer => 5.0e9,
            (false, true) if !newer => 9.85e9,
            (false, false) if !newer => 14.5e9,
            (true, true) => 8.44e9,
            (true, false) => 26.6e9,
            (false, true) => 4.22e9,
            (false, false) => 13.7e9,
        };
        let block = rate / f64::from(work);
        let inside = self.domain_rate() / f64::from(inside);
        let between = self.rail_rate() / f64::from(rails - 1);
        let saturation = (inside.min(between) / block).min((1_u64 << 30) as f64).ceil();
        Rails { block, inside, between, saturation: saturation as u32 }
    }
}

/// Bytes per second of a reduce-scatter between domains.
struct Rails {
    /// The rate of a block.
    block: f64,
    /// The rate of the domain.
    inside: f64,
    /// The rate of the rails.
    between: f64,
    /// The number of blocks beyond which there is no gain.
    saturation: u32,
}
