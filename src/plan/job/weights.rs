//! How a server's weights are stored: bytes with their share of scales, and the activations that they meet.
//!
//! Sources: github.com/vllm-project/vllm, `vllm/model_executor/layers/quantization`: methods and their keys;
//! github.com/vllm-project/compressed-tensors, `quantization/quant_args.py`; github.com/IST-DASLab/marlin:
//! weights of 4 bits meet activations of 16.

use serde_json::Value;

use crate::base::error::{Error, Result};

/// A weight as it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stored {
    /// Bytes, with its share of scales.
    pub bytes: f64,
    /// Bits of the activations that are multiplied with it.
    pub activations: u32,
}

/// The weights of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weights {
    /// Of routed experts; of all products, if there are none.
    pub experts: Stored,
    /// Of other products.
    pub products: Stored,
    /// Bytes of embeddings: no method shortens them.
    pub ends: f64,
}

const WHOLE: Stored = Stored { bytes: 2.0, activations: 16 };
/// With a scale of 8 bits for 32 weights.
pub(crate) const MXFP4: Stored = Stored { bytes: 0.5 + 1.0 / 32.0, activations: 16 };
const EIGHT: Stored = Stored { bytes: 1.0, activations: 8 };

/// Integers with a scale of 16 bits for each group.
fn grouped(bits: u32, activations: u32, group: Option<u32>) -> Stored {
    let scales = group.map_or(0.0, |group| 2.0 / f64::from(group.max(1)));
    Stored { bytes: f64::from(bits) / 8.0 + scales, activations }
}

/// `w4a16 g32`: bits of weights and activations, and the weights that share a scale.
fn widths(text: &str) -> Option<Stored> {
    let mut words = text.split(' ');
    let (bits, activations) = words.next()?.strip_prefix('w')?.split_once('a')?;
    let (bits, activations) = (bits.parse().ok()?, activations.parse().ok()?);
    let stated = words.find_map(|word| word.strip_prefix('g')?.parse().ok());
    let usual = if bits < 8 { Some(128) } else { None };
    Some(grouped(bits, activations, stated.or(usual)))
}

impl Weights {
    /// As a quantization stores them: NVFP4 and MXFP4 with a scale of 8 bits for 16 and 32 weights, of
    /// experts alone (the checkpoints of DeepSeek-R1-0528-NVFP4 and gpt-oss leave attention in 16 bits);
    /// W4AFP8 with 16 bits for 128 weights, beside products in FP8; AWQ and GPTQ with those and a zero;
    /// NF4 with 32 bits for 64.
    ///
    /// # Errors
    /// The word is not known.
    pub fn read(quantization: Option<&str>, of_experts: bool) -> Result<Self> {
        let text = quantization.unwrap_or("bf16").to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let four = |scales: f64, activations| Stored { bytes: 0.5 + scales, activations };
        let both = |stored| (stored, stored);
        let (experts, products) = if let Some(stored) = widths(&text) {
            both(stored)
        } else if has(&["w4afp8"]) {
            (grouped(4, 8, Some(128)), EIGHT)
        } else if has(&[MIXED]) {
            // Before Blackwell, weights in 4 bits meet activations of 16.
            (Stored { activations: 4, ..MXFP4 }, EIGHT)
        } else if has(&["mxfp4"]) {
            (MXFP4, WHOLE)
        } else if has(&["fp4"]) {
            (four(1.0 / 16.0, 4), WHOLE)
        } else if has(&["nf4"]) {
            both(four(4.0 / 64.0, 16))
        } else if has(&["awq", "gptq", "int4"]) {
            both(four(2.5 / 128.0, 16))
        } else if has(&["fp8", "int8", "float8"]) {
            both(EIGHT)
        } else if has(&["bf16", "fp16", "float16", "none", "auto"]) {
            both(WHOLE)
        } else {
            return Err(Error::input(format!("`{text}` does not say how wide weights are"))
                .at("weights_type")
                .help(
                    "name the model's config.json, or write --set weights_type=fp8, int8, w4a16, w8a16, \
                     nvfp4, mxfp4, nf4 or bf16",
                ));
        };
        let products = if text.ends_with(ALONE) { WHOLE } else { products };
        Ok(Self { experts, products: if of_experts { products } else { experts }, ends: 2.0 })
    }
}

/// How a checkpoint in FP8 with a scale for each block of weights is called.
pub(super) const BLOCKS: &str = "fp8 blocks";

/// The same with experts in MXFP4 (`expert_dtype` of DeepSeek-V4).
pub(super) const MIXED: &str = "mxfp4 in fp8 blocks";

/// The rows and columns of such a block (`weight_block_size`), in all published checkpoints.
pub(super) const BLOCK: u32 = 128;

/// What only routed experts are stored in.
const ALONE: &str = " experts";

/// Methods of which the checkpoint says how wide weights are, with vLLM's word for it if it does not.
pub(super) fn by_checkpoint(method: &str) -> Option<&str> {
    match method {
        "modelopt" => Some("fp8"),
        "bitsandbytes" => Some("nf4"),
        _ if method.starts_with("gptq") => Some("gptq"),
        "compressed-tensors" | "quark" | "auto-round" => Some(method),
        _ => None,
    }
}

/// The word for the weights of a checkpoint, from its `quantization_config`; of an unknown method its name.
pub(super) fn checkpoint(config: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("").to_ascii_lowercase();
    let method = word(&config["quant_method"]);
    let algorithm = word(&config["quant_algo"]);
    match method.as_str() {
        "compressed-tensors" => groups(config),
        "modelopt" | "" if algorithm.starts_with('w') => {
            algorithm.split('_').next().unwrap_or("").to_owned()
        }
        "modelopt" | "" if !algorithm.is_empty() => algorithm,
        "bitsandbytes" if config["load_in_8bit"] == true => "int8".to_owned(),
        "bitsandbytes" => "nf4".to_owned(),
        "quark" => {
            let weight = &config["global_quant_config"]["weight"];
            match word(&weight["dtype"]).as_str() {
                "fp4" => "mxfp4".to_owned(),
                "" => method,
                other => other.to_owned(),
            }
        }
        "gptq" | "awq" | "auto-round" => {
            let number = |key: &str| config[key].as_u64().filter(|n| *n > 0);
            match (number("bits").unwrap_or(4), number("group_size")) {
                (4, None | Some(128)) => "gptq".to_owned(),
                (bits, Some(group)) => format!("w{bits}a16 g{group}"),
                (bits, None) => format!("w{bits}a16"),
            }
        }
        "" => "quantized without quant_method".to_owned(),
        "fp8" if config["weight_block_size"].is_array() => BLOCKS.to_owned(),
        _ => method,
    }
}

/// The same of compressed-tensors, from the first of its groups. Of a model with experts whose attention
/// is left out only these are short.
fn groups(config: &Value) -> String {
    let first = config["config_groups"].as_object().and_then(|groups| groups.values().next());
    let Some(group) = first else { return "compressed-tensors".to_owned() };
    let weights = &group["weights"];
    let bits = |value: &Value| value["num_bits"].as_u64();
    let Some(width) = bits(weights) else { return "compressed-tensors".to_owned() };
    let size = weights["group_size"].as_u64().filter(|size| *size > 0);
    let stored = match (weights["type"].as_str(), width, bits(&group["input_activations"])) {
        (Some("float"), 4, _) if size == Some(32) => return "mxfp4".to_owned(),
        (Some("float"), 4, _) => return "nvfp4".to_owned(),
        (_, 8, Some(8)) => "fp8".to_owned(),
        (_, width, activations) => {
            let size = size.map_or(String::new(), |size| format!(" g{size}"));
            format!("w{width}a{}{size}", activations.unwrap_or(16))
        }
    };
    let ignored = config["ignore"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let attention = ignored.into_iter().any(|name| name.contains("attn"));
    if attention { stored + ALONE } else { stored }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a weight and bits of the activations, as checkpoints on the Hub write them.
    #[test]
    fn checkpoints_say_how_wide_weights_are() {
        let of = |text: &str, experts| {
            let word = checkpoint(&serde_json::from_str(text).unwrap());
            Weights::read(Some(&word), experts).map(|w| (w.experts, w.products))
        };
        let float = r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0":
            {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8}}}}"#;
        assert_eq!(of(float, false).unwrap(), (EIGHT, EIGHT));
        let int = r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0":
            {"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "input_activations": null}},
            "ignore": ["lm_head", "re:.*self_attn.*"]}"#;
        let kimi = Stored { bytes: 0.5 + 2.0 / 32.0, activations: 16 };
        assert_eq!(of(int, true).unwrap(), (kimi, WHOLE));
        for (text, bytes, activations) in [
            (r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#, 0.5 + 1.0 / 16.0, 4),
            (r#"{"quant_method": "modelopt", "quant_algo": "FP8"}"#, 1.0, 8),
            (r#"{"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}"#, 0.5 + 2.0 / 128.0, 16),
            (r#"{"quant_method": "bitsandbytes", "load_in_4bit": true}"#, 0.5 + 4.0 / 64.0, 16),
            (r#"{"quant_method": "bitsandbytes", "load_in_8bit": true}"#, 1.0, 8),
            (r#"{"quant_method": "gptq", "bits": 8, "group_size": 128}"#, 1.0 + 2.0 / 128.0, 16),
            (r#"{"quant_method": "awq", "bits": 4, "group_size": 128}"#, 0.5 + 2.5 / 128.0, 16),
            (
                r#"{"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}"#,
                0.5 + 1.0 / 32.0,
                16,
            ),
            (
                r#"{"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}"#,
                1.0,
                8,
            ),
        ] {
            assert_eq!(of(text, false).unwrap().0, Stored { bytes, activations }, "{text}");
        }
        for text in [
            r#"{"quant_method": "aqlm"}"#,
            r#"{"bits": 4}"#,
            r#"{"quant_method": "compressed-tensors"}"#,
        ] {
            let error = of(text, false).unwrap_err().to_string();
            assert!(error.contains("how wide weights are"), "{error}");
        }
    }
}
