//! What a server's GPU holds beside weights and cache, and the cache that is left room for.
//!
//! vLLM runs a pass of its longest chunk, samples from as many sequences as it may run (`profile_run` and
//! `_dummy_sampler_run`, vllm/v1/worker/gpu_model_runner.py of github.com/vllm-project/vllm), and keeps free what that
//! took. It refuses to start unless one sequence of the longest length fits (`_check_enough_kv_cache_memory`,
//! vllm/v1/core/kv_cache_utils.py). The constants are from the logs of H100 at
//! github.com/llm-d-incubation/llm-d-planner (docs/empirical-vllm-memory-results.md of 0.11, accuracy/ of 0.15 to 0.19),
//! which `published_room.csv` has; of other GPUs they leave out up to 10 GB (MI300X).

use super::serve::{Serve, Served};
use super::usual::since;
use crate::library::engines::Release;

const GIB: f64 = 1_073_741_824.0;

/// What other engines take, in bytes, and what a server is said to take outside a share that is for weights and cache.
const BESIDE: f64 = 2e9;

/// Bytes that vLLM's sampler takes for each word of the vocabulary and sequence: logits in 32 bits, sorted copies of
/// them and probabilities, until 0.16 and since 0.17.
const SAMPLED: [f64; 2] = [39.0, 15.3];

/// Bytes of vLLM's libraries on one rank of TP and on one of several, until 0.17 and since 0.18.
const LIBRARIES: [[f64; 2]; 2] = [[0.13 * GIB, 0.55 * GIB], [0.25 * GIB, 2.1 * GIB]];

/// What is taken before SGLang counts its share, on one rank of TP and on one of several: 0.5 GiB on 24 GB cards, 1 on RTX PRO
/// 6000, 2 to 3 on H100 and B200 by its logs of four ranks and more.
const BEFORE: [f64; 2] = [0.5 * GIB, 1.5 * GIB];

/// Half the width of the band of a cache, and so of what a server takes beside it: 10 of the 12 published ones that
/// these constants were not chosen for are in it.
const OFF: f64 = 1.6 * GIB;

/// So many bytes, of which a negative number is missing, between the ends of their band.
fn within(bytes: f64) -> [f64; 3] {
    [bytes - OFF, bytes, bytes + OFF].map(|end| end.max(0.0))
}

impl Serve {
    /// Bytes of a GPU that are neither weights nor cache.
    pub fn beside(&self) -> f64 {
        if !self.is_vllm() {
            return BESIDE;
        }
        let engine = self.engine.as_deref().unwrap_or("");
        let late = |least| usize::from(since(engine, least));
        let (model, several) = (&self.model, usize::from(self.tp > 1));
        let sampled = f64::from(self.sequences) * f64::from(model.vocab);
        // What goes into a feed-forward part, its gate and their product, and four copies of the hidden state.
        let inner = 3.0 * f64::from(model.ffn) / f64::from(self.tp);
        let pass = 2.0 * f64::from(self.chunk) * (inner + 4.0 * f64::from(model.hidden));
        let most = (SAMPLED[late(Release(0, 17, 0))] * sampled).max(pass);
        most + LIBRARIES[late(Release(0, 18, 0))][several]
    }

    /// Bytes for the cache on a GPU beside these weights between the ends of their band.
    pub fn room(&self, weights: f64) -> [f64; 3] {
        let (capacity, share) = (self.device.capacity(), self.utilization);
        within(if self.is_sglang() {
            // Of what is free before weights are loaded (`profile_available_bytes` of sgl-project/sglang).
            share * (capacity - BEFORE[usize::from(self.tp > 1)]) - weights
        } else if self.is_tensorrt() {
            // Of what is free once they are (`_cal_max_memory`, tensorrt_llm/_torch/pyexecutor/_util.py of
            // NVIDIA/TensorRT-LLM).
            share * (capacity - self.beside() - weights)
        } else {
            share * capacity - self.beside() - weights
        })
    }

    /// Bytes of the cache of a token on a GPU, of sequences of so many tokens.
    pub(super) fn cache_a_token(&self, tokens: u32) -> f64 {
        let cut = |attention| self.cut(attention);
        self.model.cache(f64::from(tokens), self.cache, cut) / f64::from(self.pp)
    }

    /// Tokens of a sequence that has to fit, and its bytes on a GPU with its states.
    pub fn least(&self, served: &Served) -> (u32, f64) {
        let tokens = if self.is_vllm() { self.longest } else { self.context };
        (tokens, self.cache_a_token(tokens) * f64::from(tokens) + served.state)
    }

    /// Whether weights and the cache of that sequence fit: not if even the better end of the band has no room.
    pub fn fits(&self, served: &Served) -> bool {
        self.least(served).1 <= self.room(served.weights)[2]
    }

    /// Bytes on a GPU with the cache of the sequences that are decoded at once, between the ends of their band.
    pub fn peak(&self, served: &Served) -> [f64; 3] {
        let tokens = served.sequences * f64::from(self.context);
        let cache = served.cache_a_token * tokens + served.state * served.sequences;
        within(served.weights + self.beside() + cache)
    }
}
