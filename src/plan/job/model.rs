//! A transformer's widths, and from them the exact number of parameters and the arithmetic per
//! token.

use super::Adapters;
use super::words::FEEDING;
use crate::base::error::{Error, Result};

/// The products around attention's core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Attention {
    /// Heads share keys and values by groups.
    Grouped {
        /// Heads of keys and values.
        kv_heads: u32,
        /// Width of a head.
        head: u32,
    },
    /// Keys and values from a narrow latent (DeepSeek-V2, arXiv 2405.04434).
    Latent {
        /// Width of the queries' latent; 0 if there is none.
        query: u32,
        /// Width of keys' and values' latent.
        latent: u32,
        /// Part of a head that is rotated.
        rope: u32,
        /// Part that is not.
        nope: u32,
        /// Width of a value.
        value: u32,
    },
    /// One key for all heads, which is its own value: of the latest tokens each, and of earlier ones one for several
    /// (DeepSeek-V4; `DeepseekV4Attention`, huggingface/transformers).
    Compressed {
        /// Width of the queries' latent.
        query: u32,
        /// Width of a head, of which a part is rotated.
        head: u32,
        rope: u32,
        /// Heads go back in groups, each through so many channels.
        groups: u32,
        rank: u32,
        /// Layers that keep a key for each [`SPARSE`] tokens, and for each [`HEAVY`].
        sparse: u32,
        heavy: u32,
    },
}

/// Tokens of which such layers make one key (`_COMPRESS_RATIO_TO_LAYER_TYPE`, huggingface/transformers).
pub(super) const SPARSE: u32 = 4;
pub(super) const HEAVY: u32 = 128;

/// Layers of experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Experts {
    pub layers: u32,
    pub experts: u32,
    pub top_k: u32,
    /// Width of one.
    pub ffn: u32,
    /// Width of the shared experts, which every token goes to.
    pub shared: u32,
    /// Whether the router's scores have a bias per expert.
    pub router_bias: bool,
    /// Biases of an expert's products: gate and up, down.
    pub bias: bool,
    /// Whether an expert has a gate: three products instead of two.
    pub gated: bool,
    /// Channels of tokens on their way through experts, to which a product of each layer narrows them and from which
    /// another widens them (LatentMoE of Nemotron 3, arXiv 2512.20856); none: those of the hidden state.
    pub latent: Option<u32>,
}

impl Experts {
    pub fn products(&self) -> f64 {
        if self.gated { 3.0 } else { 2.0 }
    }
}

/// Layers whose attention sees only the latest tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Window {
    pub layers: u32,
    /// Tokens that it sees.
    pub tokens: u32,
    /// The heads of their attention, if those of other layers differ.
    pub own: Option<Heads>,
    /// Of these layers those that take the keys and values of an earlier one, and keep none.
    pub reusing: u32,
}

/// Heads of grouped attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Heads {
    pub heads: u32,
    pub kv_heads: u32,
    /// Width of a head.
    pub head: u32,
}

/// Layers with one kind of attention.
struct Kind {
    layers: f64,
    /// Of them those that keep keys and values.
    keeping: f64,
    heads: f64,
    attention: Attention,
    /// Products for keys and values: one if keys are values.
    products: f64,
    /// Tokens that they see, if not all.
    tokens: Option<f64>,
}

impl Kind {
    /// Weights of attention's products in a layer, with a gate of its width or without one.
    fn weights(&self, hidden: f64, gate: bool) -> f64 {
        let (h, a) = (hidden, self.heads);
        let gates = if gate { a } else { 0.0 };
        match self.attention {
            Attention::Grouped { kv_heads, head } => {
                h * f64::from(head) * (2.0 * a + gates + self.products * f64::from(kv_heads))
            }
            Attention::Latent { query, latent, rope, nope, value } => {
                let [q, c, r, n, v] = [query, latent, rope, nope, value].map(f64::from);
                let queries = if query > 0 { h * q + q * a * (n + r) } else { h * a * (n + r) };
                queries + h * (c + r) + c * a * (n + v) + (a + gates) * v * h
            }
            Attention::Compressed { query, head, groups, rank, .. } => {
                let [q, d, g, r] = [query, head, groups, rank].map(f64::from);
                h * (q + d) + q * a * d + a * d * r + g * r * h
            }
        }
    }

    /// a·d of attention's core: the mean of the widths of its two products.
    fn core(&self) -> f64 {
        match self.attention {
            Attention::Grouped { head, .. } | Attention::Compressed { head, .. } => {
                self.heads * f64::from(head)
            }
            Attention::Latent { rope, nope, value, .. } => {
                self.heads * f64::from(rope + nope + value) / 2.0
            }
        }
    }

    /// Elements of keys and values of a token in a layer.
    fn kv_width(&self) -> f64 {
        match self.attention {
            Attention::Grouped { kv_heads, head } => 2.0 * f64::from(kv_heads) * f64::from(head),
            Attention::Latent { rope, nope, value, .. } => {
                self.heads * f64::from(rope + nope + value)
            }
            Attention::Compressed { head, .. } => f64::from(head),
        }
    }

    /// Elements of attention's tensors that a layer keeps of a token for the backward pass.
    fn kept(&self, gate: bool) -> f64 {
        let a = self.heads;
        let gates = if gate { a } else { 0.0 };
        match self.attention {
            Attention::Grouped { kv_heads, head } => {
                (2.0 * (a + f64::from(kv_heads)) + gates) * f64::from(head)
            }
            Attention::Latent { query, latent, rope, nope, value } => {
                2.0 * a * f64::from(rope + nope + value)
                    + gates * f64::from(value)
                    + f64::from(query + latent + rope)
            }
            Attention::Compressed { query, head, groups, rank, .. } => {
                let [q, d, g, r] = [query, head, groups, rank].map(f64::from);
                2.0 * a * d + q + d + g * r
            }
        }
    }

    /// The part of so many tokens that they see.
    fn covered(&self, tokens: f64) -> f64 {
        self.tokens.map_or(1.0, |seen| (seen / tokens.max(1.0)).min(1.0))
    }
}

/// How a token changes the state of a layer with linear attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The gated delta rule (arXiv 2412.06464).
    Delta,
    /// The same with a decay of each channel (Kimi Delta Attention, arXiv 2510.26692).
    Channels {
        /// Whether the values' gate is one product, or two with few channels between them.
        gate: bool,
    },
    /// The state space of Mamba-2 (arXiv 2405.21060), whose inputs and outputs of the state are keys and queries here.
    StateSpace,
}

/// Layers with linear attention: a state instead of keys and values, behind a convolution over the latest tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Linear {
    pub rule: Rule,
    pub layers: u32,
    /// Heads of keys, as many of queries, and the width of one; of a state space its groups and its size.
    pub key_heads: u32,
    pub key: u32,
    /// The same of values.
    pub value_heads: u32,
    pub value: u32,
    /// Tokens that the convolution sees.
    pub kernel: u32,
}

/// Tokens that the kernels of the gated delta rule take at once (`chunk_gated_delta_rule`, fla-org/flash-linear-attention).
const CHUNK: f64 = 64.0;
/// The same of Mamba-2, in the files of all models (`chunk_size` of `NemotronHConfig`, huggingface/transformers).
const SPACE_CHUNK: f64 = 128.0;

impl Linear {
    /// Channels of the convolution: queries, keys and values.
    fn channels(&self) -> f64 {
        2.0 * self.keys() + self.values()
    }

    fn keys(&self) -> f64 {
        f64::from(self.key_heads) * f64::from(self.key)
    }

    fn values(&self) -> f64 {
        f64::from(self.value_heads) * f64::from(self.value)
    }

    /// Weights of a layer's products: to the channels and the values' gate, to one or two numbers a head, and back.
    fn weights(&self, hidden: f64) -> f64 {
        let narrow = f64::from(self.value) * (hidden + self.values());
        let (numbers, gate, decays) = match self.rule {
            Rule::Delta => (2.0, hidden * self.values(), 0.0),
            Rule::Channels { gate: true } => (1.0, hidden * self.values(), narrow),
            Rule::Channels { gate: false } => (1.0, narrow, narrow),
            Rule::StateSpace => (1.0, hidden * self.values(), 0.0),
        };
        let heads = numbers * f64::from(self.value_heads);
        hidden * (self.channels() + self.values() + heads) + gate + decays
    }

    /// What the products into a layer of the delta rule write of a token: queries, keys, values and their gate, and two
    /// numbers a head (`in_proj_qkvz`, `in_proj_ba` of Qwen3-Next).
    fn inner(&self) -> f64 {
        self.channels() + self.values() + 2.0 * f64::from(self.value_heads)
    }

    /// Small parameters of a layer: of the convolution, of heads, and of a norm.
    pub fn small(&self) -> u64 {
        let heads = f64::from(self.value_heads);
        let (taps, own) = match self.rule {
            Rule::Delta => (0.0, 2.0 * heads + f64::from(self.value)),
            Rule::Channels { .. } => (0.0, heads + self.values() + f64::from(self.value)),
            // The convolution has biases, and the norm is of all values (`NemotronHMamba2Mixer`, transformers).
            Rule::StateSpace => (1.0, 3.0 * heads + self.values()),
        };
        (self.channels() * (f64::from(self.kernel) + taps) + own) as u64
    }

    /// Elements of a sequence's state in a layer.
    pub fn state(&self) -> f64 {
        self.values() * f64::from(self.key)
    }

    /// Elements of the latest tokens that the convolution needs again.
    pub fn latest(&self) -> f64 {
        self.channels() * f64::from(self.kernel.saturating_sub(1))
    }

    /// Arithmetic of a token in a layer beside the products: with the state, and with the tokens of its chunk.
    pub fn core(&self) -> f64 {
        let [key, value] = [self.key, self.value].map(f64::from);
        let heads = f64::from(self.value_heads);
        match self.rule {
            Rule::Delta | Rule::Channels { .. } => {
                let chunk = 2.0 * CHUNK * (3.0 * key + 2.0 * value);
                heads * (6.0 * key * value + chunk)
            }
            // Heads of a group have the same scores.
            Rule::StateSpace => {
                let chunk = 2.0 * SPACE_CHUNK * (self.keys() + heads * value);
                4.0 * heads * key * value + chunk
            }
        }
    }
}

/// What chooses the tokens that attention sees, by scores of its own (DeepSeek-V3.2, arXiv 2512.02556).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Indexer {
    /// Layers that have one; others see what an earlier one chose.
    pub layers: u32,
    pub heads: u32,
    /// Width of a head, and of a token's only key.
    pub width: u32,
    /// Tokens that it chooses.
    pub tokens: u32,
}

/// Norms and biases: small, but counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Small {
    /// Parameters of norms and biases per layer.
    pub layer: u64,
    /// The same outside layers.
    pub outside: u64,
}

/// A model as far as its step depends on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transformer {
    pub layers: u32,
    pub hidden: u32,
    pub ffn: u32,
    /// Whether the feed-forward part has a gate: three products instead of two.
    pub gated: bool,
    /// Dense feed-forward parts, if not every layer without experts has one; one twice as wide is two.
    pub dense: Option<u32>,
    pub heads: u32,
    pub attention: Attention,
    /// Whether layers without a window take their keys for values, too: one product makes both.
    pub keys_are_values: bool,
    /// Of layers without a window those that take the keys and values of an earlier one, and keep none.
    pub reusing: u32,
    /// Channels of a further embedding of each word for each layer (Gemma 3n and 4), which two products of a layer
    /// bring in and out, and one of all layers makes from the first embedding; 0 if there is none.
    pub per_layer: u32,
    /// Whether what attention gives is multiplied by a gate of its width.
    pub attention_gate: bool,
    /// Of all layers those with linear attention.
    pub linear: Option<Linear>,
    pub vocab: u32,
    pub tied: bool,
    /// Learned positions.
    pub positions: u32,
    pub experts: Option<Experts>,
    pub window: Option<Window>,
    pub indexer: Option<Indexer>,
    pub small: Small,
    /// Whether attention and the feed-forward part have the same input, and TP sums what both give once (GPT-J). The
    /// gradients of their inputs are two sums.
    pub summed_once: bool,
}

impl Transformer {
    /// Refuses a model without layers, channels, heads, or keys and values.
    ///
    /// # Errors
    /// One of them is 0.
    pub fn is_there(&self) -> Result<()> {
        let keys = match self.attention {
            Attention::Grouped { kv_heads, .. } => kv_heads,
            Attention::Latent { latent, .. } => latent,
            Attention::Compressed { head, .. } => head,
        };
        let own = self.window.and_then(|window| window.own);
        let widths = [
            ("heads of a window", own.map_or(1, |own| own.heads)),
            ("heads of keys and values of a window", own.map_or(1, |own| own.kv_heads)),
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("heads of keys and values", keys),
        ];
        match widths.into_iter().find(|(_, width)| *width == 0) {
            Some((name, _)) => Err(Error::input(format!("a model with {name} 0 computes nothing"))
                .at(format!("model: {name}"))
                .help("write a whole number from 1")),
            None => Ok(()),
        }
    }

    /// Weights of all indexers: of queries from attention's latent, of keys, and of the weight of each head.
    fn indexer_weights(&self) -> f64 {
        let (query, keys) = match self.attention {
            Attention::Latent { query, .. } if query > 0 => (query, 1.0),
            // Keys of several tokens have a weight for each of their parts, and both overlap.
            Attention::Compressed { query, .. } => (query, 4.0),
            _ => (self.hidden, 1.0),
        };
        self.indexer.map_or(0.0, |one| {
            let [n, w, h, q] = [one.heads, one.width, self.hidden, query].map(f64::from);
            f64::from(one.layers) * (q * n * w + keys * h * w + h * n)
        })
    }

    /// Weights of the products that make keys of several tokens: the keys' and those of their parts' weights, which
    /// overlap where few tokens make one.
    fn compressor_weights(&self) -> f64 {
        match self.attention {
            Attention::Compressed { head, sparse, heavy, .. } => {
                let products = 4.0 * f64::from(sparse) + 2.0 * f64::from(heavy);
                products * f64::from(self.hidden) * f64::from(head)
            }
            _ => 0.0,
        }
    }

    /// Keys of earlier tokens that all layers keep of one, as a mean.
    fn compressed_keys(&self) -> f64 {
        match self.attention {
            Attention::Compressed { sparse, heavy, .. } => {
                f64::from(sparse) / f64::from(SPARSE) + f64::from(heavy) / f64::from(HEAVY)
            }
            _ => 0.0,
        }
    }

    /// Layers with attention that is not linear.
    fn attending(&self) -> f64 {
        f64::from(self.layers) - self.linear.map_or(0.0, |one| f64::from(one.layers))
    }

    /// The part of the layers whose attention keeps keys and values.
    pub fn keeping(&self) -> f64 {
        self.attending() / f64::from(self.layers)
    }

    /// Layers without a window, and those with one.
    fn kinds(&self) -> [Kind; 2] {
        let windowed = self.window.map_or(0.0, |window| f64::from(window.layers));
        let windowed = windowed.min(self.attending());
        let reusing = self.window.map_or(0, |window| window.reusing);
        let own = self.window.and_then(|window| window.own);
        let layers = self.attending() - windowed;
        let whole = Kind {
            layers,
            keeping: (layers - f64::from(self.reusing)).max(0.0),
            heads: f64::from(self.heads),
            attention: self.attention,
            products: if self.keys_are_values { 1.0 } else { 2.0 },
            tokens: None,
        };
        let near = Kind {
            layers: windowed,
            keeping: (windowed - f64::from(reusing)).max(0.0),
            heads: f64::from(own.map_or(self.heads, |own| own.heads)),
            attention: own.map_or(self.attention, |Heads { kv_heads, head, .. }| {
                Attention::Grouped { kv_heads, head }
            }),
            products: 2.0,
            tokens: self.window.map(|window| f64::from(window.tokens)),
        };
        [whole, near]
    }

    /// The sum over all layers with attention of what `of` says of one.
    fn over_kinds(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        self.kinds().iter().map(|kind| kind.layers * of(kind)).sum()
    }

    /// Weights of attention's products in all layers.
    fn attention_body(&self) -> f64 {
        let h = f64::from(self.hidden);
        let linear = self.linear.map_or(0.0, |one| f64::from(one.layers) * one.weights(h));
        let own = self.over_kinds(|kind| kind.weights(h, self.attention_gate));
        own + self.compressor_weights() + self.indexer_weights() + linear
    }

    /// The same as a mean over all layers.
    pub fn attention_weights(&self) -> f64 {
        self.attention_body() / f64::from(self.layers)
    }

    /// Weights of all layers that a rank has beyond its part of attention's: of fewer heads of keys and values than
    /// ranks several have the same (`QKVParallelLinear` of vLLM and SGLang), and all have the products that go
    /// to the latents (`fused_qkv_a_proj`, a `ReplicatedLinear`) and an indexer (`Indexer`,
    /// vllm/model_executor/models/deepseek_v2.py).
    pub fn attention_copies(&self, ranks: f64) -> f64 {
        let h = f64::from(self.hidden);
        let whole = self.indexer_weights() + self.compressor_weights();
        let own = self.over_kinds(|kind| match kind.attention {
            Attention::Grouped { kv_heads, head } => {
                let heads = f64::from(kv_heads);
                let weights = kind.products * h * heads * f64::from(head);
                weights * (1.0 / ranks.min(heads) - 1.0 / ranks)
            }
            Attention::Latent { query, latent, rope, .. } => {
                h * f64::from(query + latent + rope) * (1.0 - 1.0 / ranks)
            }
            Attention::Compressed { query, head, .. } => {
                h * (f64::from(query) + f64::from(head)) * (1.0 - 1.0 / ranks)
            }
        });
        own + whole * (1.0 - 1.0 / ranks)
    }

    /// Heads of all layers with attention.
    pub fn all_heads(&self) -> f64 {
        self.over_kinds(|kind| kind.heads)
    }

    /// a·d of attention's core, as a mean over the layers that have one.
    pub fn core_width(&self) -> f64 {
        self.over_kinds(Kind::core) / self.attending().max(1.0)
    }

    /// Elements of keys and values of a token in a layer, as a mean over those that have them.
    pub fn kv_width(&self) -> f64 {
        self.over_kinds(Kind::kv_width) / self.attending().max(1.0)
    }

    /// The elements of them that each of so many ranks has: no fewer than a whole head
    /// (`num_query_groups_per_partition`, megatron/core/transformer/attention.py of Megatron-LM).
    pub fn kv_share(&self, ranks: u32) -> f64 {
        let share = |kind: &Kind| {
            let ranks = match kind.attention {
                Attention::Grouped { kv_heads, .. } => ranks.min(kv_heads),
                Attention::Latent { .. } => ranks,
                Attention::Compressed { .. } => 1,
            };
            kind.kv_width() / f64::from(ranks.max(1))
        };
        self.over_kinds(share) / self.attending().max(1.0)
    }

    /// Elements of a token that each of so many ranks gets where it has all tokens of its heads: queries, keys, values,
    /// and what attention says of it.
    pub fn exchanged(&self, ranks: u32) -> f64 {
        let own = |kind: &Kind| match kind.attention {
            Attention::Latent { rope, nope, value, .. } => {
                kind.heads * f64::from(rope + nope + value)
            }
            Attention::Grouped { head, .. } | Attention::Compressed { head, .. } => {
                2.0 * kind.heads * f64::from(head)
            }
        };
        let others = self.over_kinds(own) / self.attending().max(1.0);
        self.kv_share(ranks) + others / f64::from(ranks.max(1))
    }

    /// Bytes of a token's cache in all layers, as a mean of sequences of `tokens`: of a layer with a window only
    /// the latest tokens stay. An element has so many bytes, and `cut` says by how much a kind of attention's cache
    /// is divided. An indexer's key has 8 bits and a scale of 32 for each 128 of its numbers
    /// (`DeepseekV32IndexerCache`, vllm/model_executor/models/deepseek_v2.py); beside it a latent in 8 bits has such
    /// scales, too, and its positions have 16 (`fp8_ds_mla`, vllm/v1/attention/backends/mla/flashmla_sparse.py); a
    /// compressed key in 8 bits has 584 bytes (`MLAAttentionSpec`, vllm/v1/kv_cache_interface.py).
    pub fn cache(&self, tokens: f64, each: f64, cut: impl Fn(Attention) -> f64) -> f64 {
        const SCALES: f64 = 4.0 / 128.0;
        let bytes = |attention: Attention| match attention {
            Attention::Grouped { kv_heads, head } => {
                each * 2.0 * f64::from(kv_heads) * f64::from(head)
            }
            Attention::Latent { latent, rope, .. } if self.indexer.is_some() && each == 1.0 => {
                f64::from(latent) * (1.0 + SCALES) + 2.0 * f64::from(rope)
            }
            Attention::Latent { latent, rope, .. } => each * f64::from(latent + rope),
            Attention::Compressed { head, rope, .. } if each == 1.0 => {
                f64::from(head) + f64::from(rope) + 8.0
            }
            Attention::Compressed { head, .. } => each * f64::from(head),
        };
        let of = |kind: &Kind| {
            kind.keeping * kind.covered(tokens) * bytes(kind.attention) / cut(kind.attention)
        };
        let (compressed, every) = match self.attention {
            Attention::Compressed { .. } => (self.compressed_keys(), f64::from(SPARSE)),
            _ => (0.0, 1.0),
        };
        let keys = self.indexer.map_or(0.0, |one| {
            f64::from(one.layers) * f64::from(one.width) * (1.0 + SCALES) / every
        });
        let earlier = compressed * bytes(self.attention) + self.compressing(tokens);
        self.kinds().iter().map(of).sum::<f64>() + (keys + earlier) / cut(self.attention)
    }

    /// Bytes of a token, as a mean of sequences of `tokens`, that wait in 32 bits until they are part of a key: keys and
    /// weights, of twice as many tokens where they overlap (`CompressorStateCache`, vllm/models/deepseek_v4/compressor.py).
    fn compressing(&self, tokens: f64) -> f64 {
        let Attention::Compressed { head, sparse, heavy, .. } = self.attention else { return 0.0 };
        let waiting = |layers: u32, parts: f64, width: u32, seen: u32| {
            let part = (parts * f64::from(seen) / tokens.max(1.0)).min(1.0);
            f64::from(layers) * 2.0 * 4.0 * parts * f64::from(width) * part
        };
        let indexer = self.indexer.map_or(0.0, |one| waiting(one.layers, 2.0, one.width, SPARSE));
        waiting(sparse, 2.0, head, SPARSE) + waiting(heavy, 1.0, head, HEAVY) + indexer
    }

    /// Arithmetic of a token with the states of all layers with linear attention.
    pub fn linear_core(&self) -> f64 {
        self.linear.map_or(0.0, |one| f64::from(one.layers) * one.core())
    }

    /// Bytes of a sequence's states, by those of an element; what the convolutions need again has 16 bits.
    pub fn states(&self, each: f64) -> f64 {
        self.linear
            .map_or(0.0, |one| f64::from(one.layers) * (each * one.state() + 2.0 * one.latest()))
    }

    /// a·d of attention's cores, summed over all layers: one with a window counts by the part of a prompt's causal scores
    /// that it has.
    pub fn cores(&self, tokens: f64) -> f64 {
        self.cores_of(|kind| {
            let covered = kind.covered(tokens);
            covered * (2.0 - covered)
        })
    }

    /// Whether a training counts its windows over the whole sequence: all but those that have compressed keys beside them.
    pub fn counts_windows_whole(&self) -> bool {
        self.window.is_some() && !matches!(self.attention, Attention::Compressed { .. })
    }

    /// The same in a training.
    pub fn trained_cores(&self, tokens: f64) -> f64 {
        match self.counts_windows_whole() {
            true => self.cores_of(|_| 1.0),
            false => self.cores(tokens),
        }
    }

    fn cores_of(&self, share: impl Fn(&Kind) -> f64) -> f64 {
        let earlier = self.compressed_keys() * self.core_width();
        self.over_kinds(|kind| kind.core() * share(kind)) + earlier
    }

    /// Elements of attention's tensors that a layer keeps of a token for the backward pass, as a mean: queries, keys,
    /// values, their output, a gate, and the latents that they come from.
    pub fn attention_kept(&self) -> f64 {
        let linear = self
            .linear
            .map_or(0.0, |one| f64::from(one.layers) * (one.channels() + 2.0 * one.values()));
        (self.over_kinds(|kind| kind.kept(self.attention_gate)) + linear) / f64::from(self.layers)
    }

    /// Elements that the products with an adapter read and write of a token, as a mean over all layers; none where
    /// products are not those of Llama.
    pub fn adapted(&self, adapters: Adapters) -> Option<(f64, f64)> {
        let Attention::Grouped { kv_heads, head } = self.attention else { return None };
        let [h, ffn] = [self.hidden, self.ffn].map(f64::from);
        let [q, kv] = [self.heads, kv_heads].map(|n| f64::from(n) * f64::from(head));
        let differ = self.window.is_some_and(|window| window.own.is_some());
        let other = self.linear.is_some_and(|one| one.rule != Rule::Delta);
        let experts = self.experts.is_some();
        if differ || other || experts && adapters.modules[FEEDING].contains(&true) {
            return None;
        }
        let queries = if self.attention_gate { 2.0 * q } else { q };
        let (inner, values) = self.linear.map_or((0.0, 0.0), |one| (one.inner(), one.values()));
        let linear = self.linear.map_or(0.0, |one| f64::from(one.layers) / f64::from(self.layers));
        let (full, gates) = (1.0 - linear, if self.gated { 1.0 } else { 0.0 });
        // What a product reads and writes, and of how many of all layers it is one.
        let sides = [
            (h, queries, full),
            (h, kv, full),
            (h, kv, full),
            (q, h, full),
            (h, ffn, gates),
            (h, ffn, 1.0),
            (ffn, h, 1.0),
            (h, inner, linear),
            (values, h, linear),
        ];
        let with = sides.iter().zip(adapters.modules).filter(|(_, has)| *has);
        let sum = with.fold((0.0, 0.0), |sum, ((read, written, part), _)| {
            (sum.0 + part * read, sum.1 + part * written)
        });
        (sum.0 > 0.0).then_some(sum)
    }

    /// Products of the feed-forward part.
    pub fn products(&self) -> f64 {
        if self.gated { 3.0 } else { 2.0 }
    }

    /// Layers with experts.
    pub fn moe_layers(&self) -> f64 {
        self.experts.map_or(0.0, |e| f64::from(e.layers))
    }

    /// Layers with a dense feed-forward part; one twice as wide is two.
    pub fn dense_layers(&self) -> f64 {
        self.dense.map_or(f64::from(self.layers) - self.moe_layers(), f64::from)
    }

    /// Layers with a feed-forward part of either kind.
    pub fn feeding_layers(&self) -> f64 {
        (self.dense_layers() + self.moe_layers()).min(f64::from(self.layers))
    }

    /// Weights of a dense layer's feed-forward part.
    pub fn dense_ffn(&self) -> f64 {
        self.products() * f64::from(self.hidden) * f64::from(self.ffn)
    }

    /// Weights of one expert.
    pub fn expert(&self) -> f64 {
        self.experts.map_or(0.0, |e| e.products() * self.routed_width() * f64::from(e.ffn))
    }

    /// Channels of a token that goes to experts.
    pub fn routed_width(&self) -> f64 {
        f64::from(self.experts.and_then(|e| e.latent).unwrap_or(self.hidden))
    }

    /// Weights of the products that narrow tokens before a layer's experts and widen them after.
    pub fn latents(&self) -> f64 {
        let latent = self.experts.and_then(|e| e.latent);
        latent.map_or(0.0, |width| 2.0 * f64::from(self.hidden) * f64::from(width))
    }

    /// Weights of a layer of experts that every token uses: shared experts, the router, and those around experts.
    pub fn shared(&self) -> f64 {
        let h = f64::from(self.hidden);
        let shared = self.experts.map_or(0.0, |e| e.products() * h * f64::from(e.shared));
        shared + self.router() + self.latents()
    }

    /// Weights of a router.
    pub fn router(&self) -> f64 {
        self.experts.map_or(0.0, |e| f64::from(self.hidden) * f64::from(e.experts))
    }

    /// Weights of all products except routed experts and the head.
    pub fn dense_body(&self) -> f64 {
        self.attention_body()
            + self.per_layer_products()
            + self.dense_layers() * self.dense_ffn()
            + self.moe_layers() * self.shared()
    }

    /// Weights of all routed experts.
    pub fn routed_body(&self) -> f64 {
        self.moe_layers() * self.expert() * self.experts.map_or(0.0, |e| f64::from(e.experts))
    }

    /// Weights of the products with further embeddings of each layer.
    fn per_layer_products(&self) -> f64 {
        3.0 * f64::from(self.layers) * f64::from(self.hidden) * f64::from(self.per_layer)
    }

    /// Those embeddings.
    pub fn per_layer_tables(&self) -> f64 {
        f64::from(self.layers) * f64::from(self.per_layer) * f64::from(self.vocab)
    }

    /// One embedding.
    pub fn embedding(&self) -> f64 {
        f64::from(self.vocab) * f64::from(self.hidden)
    }

    /// Parameters in all.
    pub fn params(&self) -> f64 {
        let embeddings = if self.tied { 1.0 } else { 2.0 } * self.embedding();
        let positions = f64::from(self.positions) * f64::from(self.hidden);
        let biases = self.experts.map_or(0.0, |e| {
            let router = if e.router_bias { f64::from(e.experts) } else { 0.0 };
            let each = f64::from(2 * e.ffn + self.hidden);
            let own = if e.bias { f64::from(e.experts) * each } else { 0.0 };
            f64::from(e.layers) * (router + own)
        });
        let small = f64::from(self.layers) * self.small.layer as f64 + self.small.outside as f64;
        let embeddings = embeddings + self.per_layer_tables();
        self.dense_body() + self.routed_body() + embeddings + positions + biases + small
    }

    /// Parameters that a token uses, including both embeddings.
    pub fn active(&self) -> f64 {
        let unused = self.experts.map_or(0.0, |e| {
            let biases = if e.bias { f64::from(2 * e.ffn + self.hidden) } else { 0.0 };
            f64::from(e.layers)
                * f64::from(e.experts.saturating_sub(e.top_k))
                * (self.expert() + biases)
        });
        self.params() - unused
    }

    /// Arithmetic of a token's step without recomputation: products of the active body and the
    /// head, and attention over the half of the scores that a causal mask keeps. Frozen weights have no gradients.
    pub fn step_flops(&self, sequence: f64, frozen: bool) -> f64 {
        let routed = self.experts.map_or(0.0, |e| f64::from(e.top_k) * self.expert());
        let body = self.dense_body() + self.moe_layers() * routed + self.embedding();
        let core = 2.0 * sequence * self.trained_cores(sequence) + self.linear_core();
        (if frozen { 4.0 } else { 6.0 }) * body + 3.0 * core
    }
}
