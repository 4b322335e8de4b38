//! What a server takes that is not told otherwise.
//!
//! Sources: vllm-project/vllm 0.14 to 0.33.0, `get_batch_defaults` (vllm/engine/arg_utils.py) and
//! `gpu_memory_utilization` (vllm/config/cache.py); sgl-project/sglang 0.5.14 to 0.5.23,
//! `handle_gpu_memory_settings` (python/sglang/srt/arg_groups/memory_hook.py, before that in server_args.py) and
//! `_resolve_max_num_reqs` (2,048 to 4,096 by the cache; python/sglang/srt/model_executor/pool_configurator.py).

use super::Device;
use super::serve::Doing;
use crate::library::engines::Release;

/// A server, as far as what is usual depends on it.
pub(super) struct Server<'a> {
    pub engine: &'a str,
    pub device: &'a Device,
    /// Ranks of TP, over all groups that attend apart.
    pub tp: u32,
    pub pp: u32,
    /// Groups that attend apart inside TP.
    pub groups: u32,
    /// Tokens of a chunk of all groups, if that is said.
    pub chunk: Option<u32>,
    /// Sequences of all groups at once, if that is said.
    pub running: Option<u32>,
    /// The most sequences of the graphs for decoding, if that is said.
    pub captured: Option<u32>,
    pub only: Option<Doing>,
    /// Whether attention keeps a latent (MLA).
    pub latent: bool,
    /// Whether DeepEP's kernels carry tokens.
    pub deepep: bool,
}

/// What such a server takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usual {
    /// Sequences of a group at once.
    pub sequences: u32,
    /// Tokens of a prefill, of all groups.
    pub chunk: u32,
    /// The part of the memory that weights and cache may fill.
    pub share: f64,
}

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

/// The tokens of the graphs of prefills that SGLang captures: from, to, step (`generate_prefill_cuda_graph_batch_sizes`).
const CAPTURED: [(u32, u32, u32); 6] = [
    (4, 32, 4),
    (48, 256, 16),
    (288, 512, 32),
    (576, 1024, 64),
    (1280, 4096, 256),
    (4608, u32::MAX, 512),
];

/// Whether an engine's release is this one or later; the newest, if none is named.
pub(super) fn since(engine: &str, least: Release) -> bool {
    let release = engine.split_once('@').map(|(_, release)| release.parse::<Release>());
    release.is_none_or(|release| release.is_ok_and(|release| release >= least))
}

impl Server<'_> {
    pub fn usual(&self) -> Usual {
        match self.engine.split('@').next() {
            Some("vllm") => self.vllms(),
            Some("sglang") => self.sglangs(),
            _ => Usual { sequences: 256, chunk: 8192, share: 0.9 },
        }
    }

    fn vllms(&self) -> Usual {
        let memory = self.device.capacity();
        let is_slow = self.device.name.starts_with("A100")
            || self.device.name == "GB10" && since(self.engine, Release(0, 33, 0));
        let (sequences, chunk) = match () {
            () if memory >= 160.0 * GIB && since(self.engine, Release(0, 28, 0)) => (1024, 16384),
            () if memory >= 70.0 * GIB && !is_slow => (1024, 8192),
            () => (256, 2048),
        };
        // 0.18 has 0.9, 0.21 has 0.92.
        Usual {
            sequences,
            chunk,
            share: if since(self.engine, Release(0, 21, 0)) { 0.92 } else { 0.9 },
        }
    }

    fn sglangs(&self) -> Usual {
        let memory = self.device.capacity();
        let few = self.tp < 4;
        // Sequences of the graphs for decoding: no more than there are at once.
        let (chunk, captured) = match memory / GIB {
            ..20.0 => (2048, 8),
            ..35.0 => (4096, if few { 48 } else { 160 }),
            ..60.0 => (4096, if few { 32 } else { 160 }),
            ..160.0 => (8192, if few { 256 } else { 512 }),
            _ => (16384, 512),
        };
        let captured = self.captured.unwrap_or(captured.min(self.running.unwrap_or(u32::MAX)));
        let (decodes, prefills) =
            (self.only != Some(Doing::Prefill), self.only != Some(Doing::Decode));
        let said = self.chunk.unwrap_or(chunk);
        let tokens = if prefills { said } else { self.running.unwrap_or(captured) }.max(2048);
        let captured = f64::from(captured);
        let ranks = f64::from(self.tp) * f64::from(self.pp);
        let mut kept = 512.0 + 1.5 * f64::from(tokens) + 128.0 * ranks;
        if decodes {
            kept += 2.0 * captured;
            if self.groups > 1 {
                let each = if captured > 300.0 { 4.5 } else { 3.0 };
                kept += each * captured * f64::from(self.groups);
            }
        }
        // Pipelines capture none.
        if prefills && self.pp == 1 {
            kept += if self.deepep { 1024.0 } else { 0.0 };
            kept += if self.latent { 1536.0 } else { 8.0 * f64::from(prefills_captured(said)) };
        }
        if memory > 60.0 * GIB {
            kept = f64::max(kept, 10_240.0);
        }
        if decodes && self.deepep {
            kept += 2048.0;
        }
        let share = (1e3 * (1.0 - kept * MIB / memory)).round() / 1e3;
        // 2,048 to 4,096 by the cache; where it holds more than 2,048 sequences it is 4,096.
        Usual { sequences: 4096, chunk, share: share.max(0.05) }
    }
}

/// The graphs of prefills of up to `most` tokens.
fn prefills_captured(most: u32) -> u32 {
    let of = |&(from, to, step): &(u32, u32, u32)| {
        let to = to.min(most);
        if to < from { 0 } else { (to - from) / step + 1 }
    };
    CAPTURED.iter().map(of).sum()
}
