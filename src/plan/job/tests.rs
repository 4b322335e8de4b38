use super::files::known;
use super::search::{Pins, layouts};
use super::serve::{Exchange, Phase};
use super::wires::Among;
use super::work::stages;
use super::*;
use crate::base::collective::Collective;
use crate::model::algorithm::Registry;
use crate::plan::Group;
use crate::plan::table::{BuiltIn, Files, Machines, OneText};

pub(super) fn draft(name: &str, text: &'static str) -> Draft {
    let names = [name.to_owned()];
    drafts(&OneText(text), &names).unwrap_or_else(|e| panic!("{name}: {e}")).remove(0).draft
}

pub(super) fn job(name: &str, text: &'static str, keys: &[(&str, &str)]) -> Job {
    let mut typed = Draft::default();
    for (key, value) in keys {
        typed.put(key, *value).unwrap();
    }
    let machines = Machines::new(&BuiltIn);
    typed.over(&draft(name, text)).job(&machines, false).unwrap_or_else(|e| panic!("{e}"))
}

/// DeepEP's docs/legacy.md: dispatch and combine of 128 tokens on H800, over 58 layers.
#[test]
fn deepseek_decodes_over_nodes_as_deepep_was_measured() {
    let served = |ranks: u32, machine: &str, sequences: &str| {
        let text = format!(
            "vllm serve deepseek-ai/DeepSeek-V3 --data-parallel-size {ranks} --enable-expert-parallel \
             --all2all-backend deepep_low_latency --max-model-len 1024 --quantization fp8"
        );
        let mut typed = Draft::default();
        typed.put("machine", machine).unwrap();
        typed.put("sequences", sequences).unwrap();
        let machines = Machines::new(&BuiltIn);
        let draft = typed.over(&draft("serve.sh", Box::leak(text.into_boxed_str())));
        let serve = draft.serve(&machines).unwrap();
        serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap().decode
    };
    for (ranks, micros) in [(16, 313.0), (32, 428.0), (64, 487.0), (128, 561.0), (256, 554.0)] {
        let decode = served(ranks, "hgx-h800", "128");
        let expected = 58.0 * micros * 1e-6;
        assert_eq!(decode.moved, Some("deepep-ll"), "{ranks}");
        let ratio = decode.messages.time / expected;
        assert!((ratio - 1.0).abs() < 0.01, "{ranks} ranks: {ratio}");
        assert!(decode.messages.low < expected && expected < decode.messages.high);
    }
    // Between numbers of ranks, and for other tokens, with a wider band.
    let between = served(48, "hgx-h800", "128").messages;
    assert!((0.0248..0.0283).contains(&between.time), "{between:?}");
    let half = served(64, "hgx-h800", "64").messages;
    assert!(half.time < 0.6 * 0.0283 && half.high > 0.0283 && half.low < half.time, "{half:?}");
    // The same network with other links inside nodes.
    assert_eq!(served(64, "dgx-h100", "128").moved, Some("deepep-ll"));
    for (ranks, machine, sequences) in
        [(512, "hgx-h800", "128"), (64, "hgx-h800", "8"), (64, "dgx-a100", "128")]
    {
        let decode = served(ranks, machine, sequences);
        assert_eq!(decode.unmeasured, Some("deepep-ll"), "{ranks} {machine} {sequences}");
    }
}

/// A release has the longest sequence of its config.json, whichever of them a server names.
#[test]
fn a_server_takes_the_models_longest_sequence() {
    let longest = |model: &str| serving(&format!("vllm serve {model}"), "dgx-h100").0.longest;
    for (model, expected) in [
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8192),
        ("Qwen/Qwen3-30B-A3B", 40_960),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", 262_144),
        ("meta-llama/Llama-3.1-8B --max-model-len 4096", 4096),
    ] {
        assert_eq!(longest(model), expected, "{model}");
    }
}

/// vLLM from 0.19 on fuses a layer's all-reduces with the norm by default (vllm/config/vllm.py), where FlashInfer has
/// kernels for it; 0.14 does not.
#[test]
fn vllm_fuses_the_sums_of_layers() {
    let by = |engine: &str| {
        let text = "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 8 --max-model-len 8192 --max-num-seqs 8";
        let served = serving_with(text, &[("machine", "dgx-h100"), ("engine", engine)]).1;
        served.decode.reduced.unwrap().backend
    };
    assert_eq!([by("vllm@0.24.0"), by("vllm@0.14.0")], ["flashinfer-trtllm", "custom"]);
    let eager = "vllm serve meta-llama/Llama-3.1-70B -tp 8 --max-num-seqs 8 --enforce-eager";
    assert_eq!(serving(eager, "dgx-h100").0.fused, Some(false));
}

/// SGLang fuses the sums of models of its list without a flag, those of others with one.
#[test]
fn sglang_fuses_the_sums_of_some_models() {
    let by = |text: &str| {
        let text =
            format!("python -m sglang.launch_server --tp 8 --max-running-requests 32 {text}");
        serving(&text, "dgx-h200").1.decode.reduced.unwrap().backend
    };
    let (listed, other) =
        ("--model-path deepseek-ai/DeepSeek-V3", "--model-path meta-llama/Llama-3.1-70B");
    let flagged = |model: &str, flag: &str| by(&format!("{model} {flag}"));
    assert_eq!([by(listed), by(other)], ["flashinfer-trtllm", "custom-v2"]);
    assert_eq!(flagged(listed, "--enforce-disable-flashinfer-allreduce-fusion"), "custom-v2");
    assert_eq!(flagged(other, "--enable-flashinfer-allreduce-fusion"), "flashinfer-trtllm");
}

/// vLLM's "GPU KV cache size" of Llama 3.1 8B on GPUs of 80 GB, as public logs print it: 79.15 GiB, 445,648 tokens
/// (# GPU blocks: 27853), and 79.11 GiB, 447,776 tokens (vLLM 0.11, whose share was 0.9).
#[test]
fn vllms_cache_is_what_it_prints() {
    for (machine, printed) in [("dgx-a100", 445_648.0), ("dgx-h100", 447_776.0)] {
        let text = "vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.9";
        let tokens = serving(text, machine).1.tokens;
        assert!((tokens / printed - 1.0_f64).abs() < 0.025, "{machine}: {tokens}");
    }
}

/// The cache that servers printed, or that is left of their share beside what they printed of weights and activations.
/// The constants of vLLM were chosen for the rows of llm-d-planner. Off by most: gpt-oss-120b on one H100 (half of 3.3
/// GiB), 24 GB cards with the engine before 0.8, Qwen3-235B on four H100 (23 %), and A100, whose sampler is another.
#[test]
fn caches_are_what_servers_print() {
    let text = include_str!("../../../tests/data/published_room.csv");
    let (mut errors, mut held) = (Vec::new(), Vec::new());
    for row in csv::Reader::from_reader(text.as_bytes()).into_deserialize() {
        let (machine, engine, command, cache, source): (String, String, String, f64, String) =
            row.unwrap();
        let keys = [("machine", &*machine), ("engine", &*engine)];
        let (serve, served) = serving_with(&command, &keys);
        let printed = cache * 1_073_741_824.0;
        let error = served.room / printed - 1.0;
        // The constants were chosen for the others.
        if !source.contains("llm-d-planner") {
            let [low, _, high] = serve.room(served.weights);
            held.push(low <= printed && printed <= high);
        }
        errors.push((error.abs(), format!("{command} ({source}): {error:+.3}")));
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |part: usize| &errors[errors.len() * part / 10];
    assert!(errors.len() == 52 && at(5).0 < 0.01 && at(8).0 < 0.05, "{errors:#?}");
    assert_eq!((held.iter().filter(|held| **held).count(), held.len()), (10, 12));
}

/// vLLM starts only if a sequence of the longest length fits: github.com/vllm-project/vllm/issues/13061, 23278, 27508 and
/// llm-d-incubation/llm-d-planner, docs/empirical-vllm-memory-results.md. Shorter ones do.
#[test]
fn what_vllm_refuses_does_not_fit() {
    let fits = |text: &str, machine: &str, engine: &str| {
        let keys = [("machine", machine), ("engine", engine)];
        let (serve, served) = serving_with(&format!("vllm serve {text}"), &keys);
        serve.fits(&served)
    };
    let distilled = "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B -tp 2 --gpu-memory-utilization 0.98";
    let oss = "openai/gpt-oss-120b --gpu-memory-utilization 0.95 --max-num-batched-tokens 1024";
    for (text, machine, engine, expected) in [
        (distilled, "rtx-4090", "vllm@0.7.0", false),
        ("openai/gpt-oss-120b", "dgx-h100", "vllm@0.10.1", false),
        (oss, "dgx-h100", "vllm@0.11.0", false),
        ("Qwen/Qwen3-32B --max-model-len 32000", "dgx-h100", "vllm@0.11.0", false),
        ("Qwen/Qwen3-32B --max-model-len 16000", "dgx-h100", "vllm@0.11.0", true),
        ("Qwen/Qwen3-32B --max-model-len 32000", "dgx-h200", "vllm@0.11.0", true),
    ] {
        assert_eq!(fits(text, machine, engine), expected, "{text} {machine}");
    }
}

/// vLLM's share of the memory has the activations, SGLang's has not (`profile_available_bytes`).
#[test]
fn activations_are_in_vllms_share_alone() {
    let tokens = |text: &str| serving(text, "dgx-h100").1.tokens;
    let (vllm, sglang) = (
        tokens("vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.8"),
        tokens(
            "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --mem-fraction-static 0.8",
        ),
    );
    let own = serving("vllm serve meta-llama/Llama-3.1-8B", "dgx-h100").0.beside();
    let before = 0.8 * 0.5 * 1_073_741_824.0;
    // 32 layers of 8 heads of 128 keys and values in 16 bits.
    assert!((sglang - vllm - (own - before) / 131_072.0).abs() < 1.0, "{vllm} {sglang}");
}

/// SGLang's exchanges of tokens spread experts over all of TP, whatever `--ep-size` says.
#[test]
fn sglang_spreads_experts_as_its_exchange_does() {
    let degrees = |more: &str| {
        let text = format!(
            "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 72 --dp 72 \
             --enable-dp-attention --max-running-requests 18432 --context-length 4096 {more}"
        );
        let mut typed = Draft::default();
        typed.put("machine", "hgx-h800").unwrap();
        // In FP8 its experts are not divided by 72.
        typed.put("weights_type", "bf16").unwrap();
        let draft = typed.over(&draft("serve.sh", Box::leak(text.into_boxed_str())));
        let serve = draft.serve(&Machines::new(&BuiltIn)).unwrap();
        (serve.tp, serve.dp, serve.ep, serve.sequences, serve.exchange)
    };
    let deepep = "--moe-a2a-backend deepep --deepep-mode low_latency";
    assert_eq!(degrees(deepep), (1, 72, 72, 256, Exchange::Kernels(["deepep-ll"; 2])));
    for (more, ep) in [
        ("--moe-a2a-backend deepep --ep-size 8", 72),
        ("--enable-deepep-moe", 72),
        ("--moe-a2a-backend mooncake", 72),
        ("--enable-ep-moe", 72),
        ("--ep-size 36", 36),
        ("--moe-a2a-backend none --ep-size 36", 36),
        ("--moe-a2a-backend ascend_tp", 1),
    ] {
        assert_eq!(degrees(more).2, ep, "{more}");
    }
}

/// Parameters of public configurations, as their safetensors hold them.
#[test]
fn parameters_follow_from_configurations_to_the_last_one() {
    let cases: [(&'static str, f64, f64); 38] = [
        (
            r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}"#,
            8_030_261_248.0,
            8_030_261_248.0,
        ),
        (
            r#"{"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}"#,
            46_702_792_704.0,
            12_879_925_248.0,
        ),
        (
            r#"{"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936}"#,
            30_532_122_624.0,
            3_353_032_704.0,
        ),
        (
            r#"{"model_type": "qwen3", "num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 25600, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}"#,
            32_762_123_264.0,
            32_762_123_264.0,
        ),
        (
            r#"{"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "num_nextn_predict_layers": 1, "vocab_size": 129280}"#,
            671_026_419_200.0,
            37_552_297_472.0,
        ),
        (
            r#"{"model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4, "vocab_size": 201088}"#,
            116.83e9,
            5.71e9,
        ),
        (
            r#"{"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_inner": null, "n_positions": 1024, "vocab_size": 50257}"#,
            1_557_611_200.0,
            1_557_611_200.0,
        ),
        (
            r#"{"model_type": "gpt_neox", "num_hidden_layers": 44, "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 64, "vocab_size": 50432, "tie_word_embeddings": false}"#,
            20_554_567_680.0,
            20_554_567_680.0,
        ),
        (
            r#"{"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "sliding_window": 2047, "tie_word_embeddings": false}"#,
            3_821_079_552.0,
            3_821_079_552.0,
        ),
        (
            r#"{"model_type": "gemma3_text", "num_hidden_layers": 26, "hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144}"#,
            999_885_952.0,
            999_885_952.0,
        ),
        // The language model of 27 billion parameters, whose file leaves out the words.
        (
            r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 62, "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024}}"#,
            27.009e9,
            27.009e9,
        ),
        // Without the module that predicts a second token; 358 billion with it and its embeddings.
        (
            r#"{"model_type": "glm4_moe", "num_hidden_layers": 92, "hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 160, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1, "attention_bias": true, "use_qk_norm": true, "vocab_size": 151552}"#,
            352.8e9,
            33.6e9,
        ),
        (
            r#"{"model_type": "llama4", "text_config": {"model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 202048}}"#,
            107.77e9,
            17.17e9,
        ),
        (
            r#"{"model_type": "llama4", "text_config": {"model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "vocab_size": 202048}}"#,
            400.7e9,
            17.18e9,
        ),
        (
            r#"{"model_type": "qwen2_moe", "num_hidden_layers": 28, "hidden_size": 3584, "intermediate_size": 18944, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "num_attention_heads": 28, "num_key_value_heads": 4, "num_experts": 64, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "vocab_size": 151936}"#,
            57.41e9,
            14.25e9,
        ),
        (
            r#"{"model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 4096, "vocab_size": 256000}"#,
            9_241_705_984.0,
            9_241_705_984.0,
        ),
        (
            r#"{"model_type": "qwen3_vl", "tie_word_embeddings": false, "vision_config": {}, "text_config": {"model_type": "qwen3_vl_text", "num_hidden_layers": 36, "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}}"#,
            8_190_735_360.0,
            8_190_735_360.0,
        ),
        (
            r#"{"model_type": "qwen3_vl_moe", "text_config": {"model_type": "qwen3_vl_moe_text", "num_hidden_layers": 94, "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936}}"#,
            235.09e9,
            22.19e9,
        ),
        (
            r#"{"model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072, "intermediate_size": 1536, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8, "vocab_size": 200064}"#,
            228.7e9,
            11.03e9,
        ),
        (
            r#"{"model_type": "mistral3", "text_config": {"model_type": "ministral3", "num_hidden_layers": 34, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "sliding_window": null, "vocab_size": 131072}}"#,
            8.49e9,
            8.49e9,
        ),
        (
            r#"{"model_type": "seed_oss", "num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 27648, "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128, "attention_bias": true, "attention_out_bias": false, "vocab_size": 155136}"#,
            36.15e9,
            36.15e9,
        ),
        (
            r#"{"model_type": "olmo3", "num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 27648, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 100278, "sliding_window": 4096}"#,
            32.23e9,
            32.23e9,
        ),
        (
            r#"{"model_type": "deepseek_v32", "num_hidden_layers": 61, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "vocab_size": 129280}"#,
            671.88e9,
            38.40e9,
        ),
        (
            r#"{"model_type": "glm_moe_dsa", "num_hidden_layers": 78, "hidden_size": 6144, "intermediate_size": 12288, "moe_intermediate_size": 2048, "num_attention_heads": 64, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256, "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "index_topk_freq": 4, "index_skip_topk_offset": 3, "vocab_size": 154880}"#,
            743.38e9,
            41.25e9,
        ),
        (
            r#"{"model_type": "bloom", "n_layer": 70, "hidden_size": 14336, "n_head": 112, "vocab_size": 250880}"#,
            176_247_271_424.0,
            176_247_271_424.0,
        ),
        // The parameters of the classes of transformers 5.24 for these: of Qwen3-Next-80B-A3B, and of the language models
        // of Qwen3.5-397B-A17B and 27B.
        (
            r#"{"model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512, "num_experts_per_tok": 10, "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "vocab_size": 151936}"#,
            79_674_391_296.0,
            3_874_929_408.0,
        ),
        (
            r#"{"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text", "num_hidden_layers": 60, "hidden_size": 4096, "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512, "num_experts_per_tok": 10, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 64, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32", "vocab_size": 248320}}"#,
            396_346_350_336.0,
            17_349_040_896.0,
        ),
        (
            r#"{"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 17408, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128, "vocab_size": 248320}}"#,
            26_895_998_464.0,
            26_895_998_464.0,
        ),
        // Tensors of GGUF files that others made of these: GLM-4.7-Flash and Qwen3.5 of 9B and 4B.
        (
            r#"{"model_type": "glm4_moe_lite", "num_hidden_layers": 47, "hidden_size": 2048, "intermediate_size": 10240, "moe_intermediate_size": 1536, "num_attention_heads": 20, "n_routed_experts": 64, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "q_lora_rank": 768, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256, "num_nextn_predict_layers": 1, "vocab_size": 154880}"#,
            29_943_393_920.0,
            3.897e9,
        ),
        (
            r#"{"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "vocab_size": 248320}}"#,
            8_953_803_264.0,
            8_953_803_264.0,
        ),
        (
            r#"{"model_type": "qwen3_5", "tie_word_embeddings": true, "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 32, "hidden_size": 2560, "intermediate_size": 9216, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "vocab_size": 248320}}"#,
            4_205_751_296.0,
            4_205_751_296.0,
        ),
        // The language models of Gemma 4: of 31B the tensors of its safetensors files, of the others those of GGUF files
        // without the 256 frequencies that these have as well.
        (
            r#"{"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "attention_k_eq_v": true, "enable_moe_block": false, "global_head_dim": 512, "head_dim": 256, "hidden_size": 5376, "hidden_size_per_layer_input": 0, "intermediate_size": 21504, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "num_attention_heads": 32, "num_experts": null, "num_global_key_value_heads": 4, "num_hidden_layers": 60, "num_key_value_heads": 16, "num_kv_shared_layers": 0, "sliding_window": 1024, "use_double_wide_mlp": false, "vocab_size": 262144}}"#,
            30_697_345_340.0,
            30_697_345_340.0,
        ),
        (
            r#"{"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "attention_k_eq_v": true, "enable_moe_block": true, "global_head_dim": 512, "head_dim": 256, "hidden_size": 2816, "hidden_size_per_layer_input": 0, "intermediate_size": 2112, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "moe_intermediate_size": 704, "num_attention_heads": 16, "num_experts": 128, "num_global_key_value_heads": 2, "num_hidden_layers": 30, "num_key_value_heads": 8, "sliding_window": 1024, "top_k_experts": 8, "vocab_size": 262144}}"#,
            25_233_141_790.0,
            3.82e9,
        ),
        (
            r#"{"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512, "hidden_size": 2560, "hidden_size_per_layer_input": 256, "intermediate_size": 10240, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "num_attention_heads": 8, "num_hidden_layers": 42, "num_key_value_heads": 2, "num_kv_shared_layers": 18, "sliding_window": 512, "vocab_size": 262144}"#,
            7_518_069_034.0,
            7_518_069_034.0,
        ),
        (
            r#"{"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512, "hidden_size": 1536, "hidden_size_per_layer_input": 256, "intermediate_size": 6144, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "num_attention_heads": 8, "num_hidden_layers": 35, "num_key_value_heads": 1, "num_kv_shared_layers": 20, "sliding_window": 512, "use_double_wide_mlp": true, "vocab_size": 262144}"#,
            4_647_449_891.0,
            4_647_449_891.0,
        ),
        // Step 3.7's language model, whose layers are those of Step 3.5: the tensors of its GGUF file.
        (
            r#"{"model_type": "step3p5", "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128}, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11264, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"], "moe_intermediate_size": 1280, "moe_layers_enum": "3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44", "moe_num_experts": 288, "moe_top_k": 8, "num_attention_groups": 8, "num_attention_heads": 64, "num_hidden_layers": 45, "num_nextn_predict_layers": 3, "share_expert_dim": 1280, "sliding_window": 512, "vocab_size": 128896}"#,
            196_956_130_368.0,
            11.987e9,
        ),
        // The same of Nemotron 3 Nano and Super, whose cards say 3.6 and 12.7 billion active ones.
        (
            r#"{"model_type": "nemotron_h", "num_hidden_layers": 52, "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "hidden_size": 2688, "intermediate_size": 1856, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 6, "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "vocab_size": 131072}"#,
            31_577_940_288.0,
            3.58e9,
        ),
        (
            r#"{"model_type": "nemotron_h", "hybrid_override_pattern": "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME", "hidden_size": 4096, "moe_intermediate_size": 2688, "moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "n_routed_experts": 512, "num_experts_per_tok": 22, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "num_nextn_predict_layers": 1, "vocab_size": 131072}"#,
            120_668_707_840.0,
            12.77e9,
        ),
    ];
    for (text, params, active) in cases {
        let model = draft("config.json", text).model.unwrap();
        assert!((model.params() / params - 1.0).abs() < 1e-3, "{text}: {}", model.params());
        assert!((model.active() / active - 1.0).abs() < 2e-3, "{text}: {}", model.active());
        // Where the published count is exact, so is this one.
        assert!(params % 1e6 == 0.0 || model.params() == params, "{text}: {}", model.params());
    }
}

/// Parameters of models by name are the counts of their files on the Hub.
#[test]
fn models_by_name_have_the_parameters_of_their_files() {
    for (name, params) in [
        ("HuggingFaceTB/SmolLM2-135M", 134_515_008.0),
        ("HuggingFaceTB/SmolLM2-360M-Instruct", 361_821_120.0),
        ("HuggingFaceTB/SmolLM2-1.7B", 1_711_376_384.0),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1_100_048_384.0),
        ("codellama/CodeLlama-7b-Instruct-hf", 6_738_546_688.0),
        ("codellama/CodeLlama-13b-hf", 13_016_028_160.0),
        ("codellama/CodeLlama-34b-hf", 33_743_970_304.0),
        ("mistralai/Ministral-8B-Instruct-2410", 8_019_808_256.0),
    ] {
        assert_eq!(known(name).unwrap().model.unwrap().params(), params, "{name}");
    }
}

/// A model without layers, or of odd kinds of values, is refused before it computes anything.
#[test]
fn a_model_of_nothing_is_refused() {
    for (key, value) in [("layers", "0"), ("heads", "0"), ("kv_heads", "0")] {
        let mut keys = vec![
            ("layers", "4"),
            ("hidden", "1024"),
            ("ffn", "4096"),
            ("heads", "8"),
            ("vocab", "32000"),
        ];
        keys.retain(|(name, _)| *name != key);
        keys.push((key, value));
        let widths: String =
            keys.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        let text = format!(
            "machine = \"dgx-h100\"\ngpus = 8\nsharding = \"zero1\"\n\
            batch = {{ global = 8, micro = 1, sequence = 1024 }}\n[model]\n{widths}"
        );
        let refused = drafts(&OneText(text.leak()), &["job.toml".to_owned()])
            .and_then(|mut rows| rows.remove(0).draft.job(&Machines::new(&BuiltIn), false));
        assert!(refused.err().unwrap().to_string().contains("0 computes nothing"), "{key}");
    }
    for odd in ["linear = 3", "attention_gate = 3"] {
        let text =
            format!("[model]\nlayers = 4\nhidden = 64\nffn = 64\nheads = 4\nvocab = 9\n{odd}\n");
        let refused = drafts(&OneText(text.leak()), &["job.toml".to_owned()]).unwrap_err();
        assert!(refused.to_string().contains("another kind of value"), "{refused}");
    }
}

#[test]
fn a_configuration_that_lacks_widths_names_them() {
    let lacking = r#"{"model_type": "llama", "num_hidden_layers": 32}"#;
    let refused = drafts(&OneText(lacking), &["config.json".to_owned()]).unwrap_err();
    assert!(refused.what().contains("hidden_size, num_attention_heads, vocab_size"), "{refused}");
    let unknown = r#"{"model_type": "made_up"}"#;
    let refused = drafts(&OneText(unknown), &["config.json".to_owned()]).unwrap_err();
    assert!(refused.what().contains("made_up"), "{refused}");
    for (family, why) in [("bailing_hybrid", "linear attention"), ("gemma3n", "what they share")] {
        let text = format!(r#"{{"model_type": "{family}"}}"#);
        let refused = drafts(&OneText(text.leak()), &["config.json".to_owned()]).unwrap_err();
        assert!(refused.what().contains(why), "{refused}");
        assert!(refused.to_string().contains("config.json: model_type"), "{refused}");
    }
}

#[test]
fn a_repository_has_the_widths_of_what_it_was_made_from() {
    let of = |name: &str| {
        let draft = known(name).unwrap();
        let weights = draft.stored.clone();
        (draft.model.unwrap().layers, weights)
    };
    for (name, layers, weights) in [
        ("meta-llama/Llama-3.1-8B-Instruct", 32, None),
        ("meta-llama/Llama-3.3-70B-Instruct", 80, None),
        ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", 126, Some("fp8")),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", 80, Some("awq")),
        ("meta-llama/Llama-2-70b-chat-hf", 80, None),
        ("Qwen/Qwen3-235B-A22B-FP8", 94, Some("fp8 blocks")),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 48, None),
        ("TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ", 32, Some("gptq")),
        ("deepseek-ai/DeepSeek-V3-Base", 61, Some("fp8 blocks")),
        ("nvidia/DeepSeek-R1-FP4", 61, Some("nvfp4")),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", 61, Some("nvfp4")),
        ("deepseek-ai/DeepSeek-V3-0324", 61, Some("fp8 blocks")),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", 80, Some("nvfp4")),
        ("amd/Llama-3.1-405B-Instruct-FP8-KV", 126, Some("fp8")),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", 32, Some("gptq")),
        ("RedHatAI/Qwen2.5-72B-Instruct-FP8-dynamic", 80, Some("fp8")),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", 80, Some("gptq")),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", 80, Some("w8a16")),
        ("Qwen/Qwen3-32B-FP8-Static-PerTensor", 64, Some("fp8")),
        ("unsloth/gpt-oss-20b-BF16", 24, Some("bf16")),
        ("mistralai/Mistral-Large-Instruct-2411", 88, None),
        ("moonshotai/Kimi-K2-Instruct-0905", 61, Some("fp8 blocks")),
        ("moonshotai/Kimi-K2-Thinking", 61, Some("w4a16 g32 experts")),
        ("nvidia/Kimi-K2.5-NVFP4", 61, Some("nvfp4")),
    ] {
        assert_eq!(of(name), (layers, weights.map(str::to_owned)), "{name}");
    }
    let error = known("Qwen/Qwen3-235B-A23B-FP8").unwrap_err().to_string();
    assert!(error.contains("did you mean `qwen3-235b-a22b`?"), "{error}");
    let error = known("meta-llama/Llama-3.3-8B-Instruct").unwrap_err().to_string();
    assert!(error.contains("did you mean `meta-llama/Llama-3.3-70B`?"), "{error}");
    // Another release is another model.
    for (name, known_one) in [
        ("Qwen/Qwen4-235B-A22B", "qwen3-235b-a22b"),
        ("deepseek-ai/DeepSeek-V5-Pro", "deepseek-v3.2"),
    ] {
        let error = known(name).unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
        assert!(error.contains(known_one), "{error}");
    }
    assert!(
        known("x/a-model").unwrap_err().to_string().contains("known: models of codellama, dbrx, ")
    );
}

/// Billions of parameters, and of those that a token uses, as model cards say: widths that were mistyped make others.
#[test]
fn known_models_have_the_parameters_of_their_cards() {
    for (name, params, active) in [
        ("Llama-3.2-1B", 1.23, 1.23),
        ("Llama-3.2-3B", 3.21, 3.21),
        ("Llama-4-Scout-17B-16E", 109.0, 17.0),
        ("Llama-4-Maverick-17B-128E", 400.0, 17.0),
        ("Qwen2.5-0.5B", 0.49, 0.49),
        ("Qwen2.5-1.5B", 1.54, 1.54),
        ("Qwen2.5-3B", 3.09, 3.09),
        ("Qwen2.5-7B", 7.61, 7.61),
        ("Qwen2.5-14B", 14.7, 14.7),
        ("Qwen2.5-32B", 32.5, 32.5),
        ("Qwen2.5-72B", 72.7, 72.7),
        ("Qwen3-0.6B", 0.6, 0.6),
        ("Qwen3-1.7B", 1.7, 1.7),
        ("Qwen3-4B", 4.0, 4.0),
        ("Qwen3-8B", 8.2, 8.2),
        ("Qwen3-14B", 14.8, 14.8),
        ("Qwen3-32B", 32.8, 32.8),
        ("Qwen3-30B-A3B", 30.5, 3.3),
        ("Qwen3-235B-A22B", 235.0, 22.0),
        ("Qwen3-Coder-480B-A35B", 480.0, 35.0),
        ("gemma-2-9b", 9.24, 9.24),
        ("gemma-2-27b", 27.2, 27.2),
        ("gemma-3-1b", 1.0, 1.0),
        ("gemma-3-27b", 27.0, 27.0),
        ("Mistral-7B-v0.3", 7.25, 7.25),
        ("Mistral-Small-3.2-24B", 23.6, 23.6),
        ("Mixtral-8x22B-v0.1", 141.0, 39.0),
        ("dbrx-base", 132.0, 36.0),
        ("Qwen1.5-MoE-A2.7B", 14.3, 2.7),
        ("Mistral-Large-Instruct-2407", 123.0, 123.0),
        ("Ministral-3-3B", 3.429, 3.429),
        ("Ministral-3-8B", 8.4, 8.4),
        ("Ministral-3-14B", 13.5, 13.5),
        ("Mistral-Small-4-119B", 119.0, 6.5),
        ("DeepSeek-V3.1", 671.0, 37.0),
        ("Kimi-K2", 1030.0, 32.6),
        ("Moonlight-16B-A3B", 16.0, 2.9),
        ("GLM-4.5-Air", 106.0, 13.0),
        ("GLM-5", 744.0, 41.0),
        ("Qwen3.5-0.8B", 0.752, 0.752),
        ("gemma-4-31B-it", 30.7, 30.7),
        ("gemma-4-26B-A4B-it", 25.2, 3.8),
        ("gemma-4-E4B-it", 7.52, 7.52),
        ("gemma-4-E2B-it", 4.65, 4.65),
        ("Step-3.5-Flash-FP8", 196.8, 11.6),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6, 3.6),
        ("NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 120.6, 12.7),
        ("NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", 550.0, 55.0),
        ("Qwen3.5-2B", 1.882, 1.882),
        ("Qwen3.8-2.4T-A95B", 2400.0, 95.0),
        ("Mistral-Large-3-675B", 673.0, 39.0),
        ("Devstral-Small-2-24B", 23.57, 23.57),
        ("gpt3-175b", 174.6, 174.6),
        ("MiniMax-M2", 229.0, 11.0),
        ("phi-4", 14.7, 14.7),
        ("Phi-4-mini", 3.84, 3.84),
        ("OLMo-2-1124-7B", 7.3, 7.3),
        ("OLMo-2-0325-32B", 32.2, 32.2),
        ("Seed-OSS-36B", 36.15, 36.15),
        ("ERNIE-4.5-21B-A3B", 21.8, 3.35),
        ("glm-4-9b-hf", 9.4, 9.4),
    ] {
        let model = known(name).unwrap().model.unwrap();
        let near = |found: f64, stated: f64| (found / 1e9 / stated - 1.0).abs();
        assert!(near(model.params(), params) < 0.015, "{name}: {}", model.params());
        assert!(near(model.active(), active) < 0.04, "{name}: {}", model.active());
    }
}

/// No name is that of two models, and a release in a table is found by its name.
#[test]
fn every_name_of_a_model_is_its_own() {
    let whole: toml::Table = toml::from_str(include_str!("models.toml")).unwrap();
    for (key, widths) in &whole {
        let names = widths["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        for name in names.chain([key.as_str()]) {
            let model = known(name).unwrap().model.unwrap();
            assert_eq!(i64::from(model.layers), widths["layers"].as_integer().unwrap(), "{name}");
            assert_eq!(i64::from(model.hidden), widths["hidden"].as_integer().unwrap(), "{name}");
        }
        for own in ["contexts", "stored"] {
            let releases = widths.get(own).and_then(toml::Value::as_table);
            for (release, value) in releases.into_iter().flatten() {
                let draft = known(release).unwrap();
                match own {
                    "stored" => assert_eq!(draft.stored.as_deref(), value.as_str(), "{release}"),
                    _ => assert_eq!(draft.longest.map(i64::from), value.as_integer(), "{release}"),
                }
            }
        }
    }
}

/// DeepSeek-V4: parameters of its card (284 billion, 13 of them active; 1.6 trillion, 49) and of the files of Pro, in which
/// pairs of 4 bits and scales of 32 make 862 billion elements with the module that predicts a second token; and the cache
/// of a million tokens that others computed for its authors' figure (r/LocalLLaMA, "The exact KV cache usage of DeepSeek
/// V4"): 6.08 and 8.71 GiB in 16 bits, with an indexer's keys in 8.
#[test]
fn compressed_keys_are_few() {
    let flash = r#"{"model_type": "deepseek_v4", "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0], "expert_dtype": "fp4", "hc_mult": 4, "head_dim": 512, "hidden_size": 4096, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 6, "num_hash_layers": 3, "num_hidden_layers": 43, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 8, "o_lora_rank": 1024, "q_lora_rank": 1024, "qk_rope_head_dim": 64, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "sliding_window": 128, "vocab_size": 129280}"#;
    let pro = r#"{"model_type": "deepseek_v4", "compress_ratios": [128, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0], "expert_dtype": "fp4", "hc_mult": 4, "head_dim": 512, "hidden_size": 7168, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 1024, "moe_intermediate_size": 3072, "n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hash_layers": 3, "num_hidden_layers": 61, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 16, "o_lora_rank": 1024, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "sliding_window": 128, "vocab_size": 129280}"#;
    for (text, name, params, active, cache) in [
        (flash, "DeepSeek-V4-Flash", 284.0, 13.0, 6.08),
        (pro, "DeepSeek-V4-Pro", 1573.0, 49.0, 8.71),
    ] {
        let read = draft("config.json", text);
        assert_eq!(read.stored.as_deref(), Some("mxfp4 in fp8 blocks"));
        assert!(read.inferred.iter().any(|note| note.contains("hyper-connections")), "{name}");
        let model = read.model.unwrap();
        let near = |found: f64, stated: f64| (found / stated - 1.0).abs();
        assert!(near(model.params(), params * 1e9) < 0.002, "{name}: {}", model.params());
        // Without the embedding, which looks a word up.
        let active_here = model.active() - model.embedding();
        assert!(near(active_here, active * 1e9) < 0.022, "{name}: {active_here}");
        let tokens = 1_048_576.0;
        let whole = model.cache(tokens, 2.0, |_| 1.0) * tokens / 1_073_741_824.0;
        assert!(near(whole, cache) < 0.004, "{name}: {whole}");
        let by_name = known(name).unwrap();
        assert_eq!(by_name.stored, read.stored);
        let by_name = by_name.model.unwrap();
        assert_eq!((by_name.attention, by_name.indexer), (model.attention, model.indexer));
        assert!(near(by_name.params(), model.params()) < 2e-3, "{name}");
        if name.ends_with("Pro") {
            let experts = model.routed_body() + model.routed_body() / 61.0;
            let rest = (model.params() - model.routed_body()) * (1.0 + 1.0 / 61.0);
            assert!(near(experts / 2.0 + experts / 32.0 + rest, 862e9) < 0.001);
        }
    }
    // A key in 8 bits has 584 bytes, an indexer's 132.
    let model = known("DeepSeek-V4-Flash").unwrap().model.unwrap();
    let slots = 21.0 / 4.0 + 20.0 / 128.0;
    let grown = model.cache(2e9, 1.0, |_| 1.0);
    assert!((grown / (slots * 584.0 + 21.0 / 4.0 * 132.0) - 1.0).abs() < 1e-3, "{grown}");
}

/// An indexer's weights and key are beside attention's; what it saves is said to have no price.
#[test]
fn an_indexer_is_counted_and_what_it_saves_is_named() {
    let [with, without] = ["DeepSeek-V3.2", "DeepSeek-V3.1"].map(|name| known(name).unwrap());
    let said = "not over the 2048 that its indexer chooses";
    assert!(with.inferred.iter().any(|note| note.contains(said)), "{:?}", with.inferred);
    assert!(without.inferred.is_empty());
    let (with, without) = (with.model.unwrap(), without.model.unwrap());
    // wq_b, wk and weights_proj of 61 layers (`DeepseekV32Indexer`, transformers 5.24).
    let own = 61.0 * (1536.0 * 8192.0 + 7168.0 * 128.0 + 7168.0 * 64.0);
    assert!((with.params() - without.params() - own).abs() < 1.0);
    let a_layer = |model: &Transformer, each: f64| model.cache(1.0, each, |_| 1.0) / 61.0;
    assert_eq!(a_layer(&with, 2.0) - a_layer(&without, 2.0), 132.0);
    // vLLM's `fp8_ds_mla` has 656 bytes a token and layer.
    assert_eq!((a_layer(&with, 1.0), a_layer(&without, 1.0)), (656.0 + 132.0, 576.0));
    // GLM-5.2 has 21 of them for 78 layers.
    let [every, some] = ["GLM-5", "GLM-5.2"].map(|name| known(name).unwrap().model.unwrap());
    let each = 2048.0 * 4096.0 + 6144.0 * 128.0 + 6144.0 * 32.0;
    assert!((every.params() - some.params() - 57.0 * each).abs() < 1.0);
}

const MEGATRON: &str = "TP=2; CP=2
MODEL=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --swiglu --disable-bias-linear
  --untie-embeddings-and-output-weights --normalization RMSNorm --position-embedding-type rope
  --vocab-size 128256)
PAR=(--tensor-model-parallel-size $TP --context-parallel-size ${CP} --sequence-parallel
  --use-distributed-optimizer --overlap-grad-reduce --grad-reduce-in-bf16)
torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py ${MODEL[@]} ${PAR[@]} --seq-length 8192 \\
  --micro-batch-size 1 --global-batch-size 128 --bf16 --fp8-format hybrid
";

#[test]
fn megatrons_arguments_are_followed_through_arrays() {
    let job = job("train.sh", MEGATRON, &[("machine", "dgx-h100")]);
    let d = job.degrees;
    assert_eq!((d.tp, d.cp, d.dp, d.gpus(), d.sequence), (2, 2, 8, 32, true));
    assert_eq!(job.microbatches(), 16.0);
    assert_eq!((job.precision, job.sharding.gradient), (Precision::Fp8, 2.0));
    assert_eq!(job.sharding.shard, crate::plan::Shard::Optimizer);
    assert_eq!(job.model.params(), 8_030_261_248.0);
    // Parameters are gathered after the step unless `--overlap-param-gather` says otherwise.
    assert!(job.overlap.gradients && !job.overlap.gathers && !job.overlap.tp);
    let ahead =
        MEGATRON.replace("--overlap-grad-reduce", "--overlap-grad-reduce --overlap-param-gather");
    assert!(self::job("train.sh", ahead.leak(), &[("machine", "dgx-h100")]).overlap.gathers);
}

/// `num_layers` must divide over the stages, unless these have layers of their own (megatron/training/arguments.py).
#[test]
fn megatron_refuses_stages_of_a_part_of_a_layer() {
    let is_said = |more: &str| {
        let text = MEGATRON.replace("--bf16", &format!("--bf16 {more}"));
        let found = draft("train.sh", text.leak());
        found.inferred.iter().any(|one| one.contains("32 layers are no whole number on each of 3"))
    };
    assert!(is_said("--pipeline-model-parallel-size 3"));
    assert!(!is_said("--pipeline-model-parallel-size 4"));
    let own = "--pipeline-model-parallel-size 3 --decoder-last-pipeline-num-layers 10";
    assert!(!is_said(own));
}

/// language_model_embedding.py adds a table for `learned_absolute` alone, which is the default.
#[test]
fn only_learned_positions_have_a_table() {
    let params = |kind: &str| {
        let kind = format!("{kind} --max-position-embeddings 8192");
        let text = MEGATRON.replace("--position-embedding-type rope", &kind);
        job("train.sh", text.leak(), &[("machine", "dgx-h100")]).model.params()
    };
    for kind in ["rope", "none", "yarn", "mrope"] {
        assert_eq!(params(&format!("--position-embedding-type {kind}")), 8_030_261_248.0, "{kind}");
    }
    let table = 8_030_261_248.0 + 8192.0 * 4096.0;
    assert_eq!(params("--position-embedding-type learned_absolute"), table);
    assert_eq!(params(""), table);
}

/// docs/user-guide/features/dist_optimizer.md of Megatron-LM: 4 + 16/d bytes of fp16.
#[test]
fn a_distributed_optimizer_keeps_gradients_of_fp16_in_32_bits() {
    let optimizer = |precision: &str| {
        let text = MEGATRON.replace("--bf16 --fp8-format hybrid", precision);
        let job = job("train.sh", text.leak(), &[("machine", "dgx-h100")]);
        memory(&job).optimizer
    };
    let ratio = optimizer("--fp16") / optimizer("--bf16");
    assert!((ratio - 16.0 / 12.0).abs() < 1e-9, "{ratio}");
}

/// Options as scripts have them: commented out in an array, or in a branch that does not run.
#[test]
fn what_a_script_does_not_run_is_not_read() {
    let plain = job("train.sh", MEGATRON, &[("machine", "dgx-h100")]);
    let with = |more: &str| {
        let text = format!("DTYPE=bf16\n{}", MEGATRON.replace("PAR=(", more));
        draft("train.sh", text.leak())
    };
    let idle = [
        "PAR=(\n # --recompute-granularity full\n ",
        "if [[ \"$DTYPE\" == \"fp8\" ]]; then\n MORE=(--recompute-granularity full)\nfi\nPAR=(",
    ];
    for text in idle {
        let found = with(text);
        assert_eq!(found.get("recompute"), Some("none"), "{text}");
        assert_eq!(found.model.as_ref(), Some(&plain.model));
    }
    let branch = "if [ $1 = full ]; then\n MORE=(--recompute-granularity full)\nfi\nPAR=(";
    // What no command names is not read.
    assert_eq!(with(branch).get("recompute"), Some("none"));
    let open = with(&format!("{branch}$MORE "));
    assert_eq!(open.get("recompute"), Some("full"));
    assert_eq!(open.inferred, ["all branches of `[ $1 = full ]`: --recompute-granularity"]);
}

/// Only the command that starts the training is read: not a usage text, not another program.
#[test]
fn a_script_is_read_where_it_starts_its_training() {
    let read = |text: &str| drafts(&OneText(text.to_owned().leak()), &["train.sh".to_owned()]);
    let other = "cat <<EOF\nusage: --tensor-model-parallel-size 8\nEOF\n\
        echo --pipeline-model-parallel-size 4\n\
        python tools/preprocess_data.py --seq-length 16\n";
    let found = read(&format!("{other}{MEGATRON}")).unwrap().remove(0).draft;
    assert_eq!(
        (found.get("tp"), found.get("pp"), found.get("sequence")),
        (Some("2"), None, Some("8192"))
    );
    // Of several with other counts none is chosen; the ranks of one are one.
    let again = "torchrun --nnodes 4 pretrain_gpt.py ${MODEL[@]} --tensor-model-parallel-size 4\n";
    let refused = read(&format!("{MEGATRON}\n{again}")).unwrap_err().to_string();
    assert!(refused.contains("one with --tensor-model-parallel-size 2"), "{refused}");
    let twice = MEGATRON.split_once("torchrun").unwrap().1.trim_end();
    assert!(read(&format!("{MEGATRON}\ntorchrun --node_rank 1 {twice}")).is_ok());
    let nodes = MEGATRON.replace("--nnodes 4", "--nnodes 1");
    assert!(read(&format!("{MEGATRON}\n{nodes}")).is_err());
    // A converter has the model's flags, too.
    let converts = "python tools/convert.py --num-layers 32 --tensor-model-parallel-size 8\n";
    assert!(read(&format!("{converts}{MEGATRON}")).is_ok());
    let many: String = (0..70).map(|n| format!("python pretrain.py --num-layers {n}\n")).collect();
    assert!(read(&many).unwrap_err().to_string().contains("70 trainings"));
    // Values in quotes may have several lines, and a variable may hold the command.
    let quoted = "ARGS=\"--num-layers 24\n --hidden-size 1024 --num-attention-heads 16\n --fp16\"\n\
        CMD=\"python pretrain_gpt.py $ARGS\"\nsrun bash -c '$CMD --micro-batch-size 4'";
    let found = read(quoted).unwrap().remove(0).draft;
    assert_eq!((found.get("precision"), found.get("micro_batch")), (Some("fp16"), Some("4")));
    assert_eq!(found.model.as_ref().map(|model| model.layers), Some(24));
    // One micro-batch of each replica, where a training says no batch.
    assert_eq!(found.get("accumulation"), Some("1"));
    for (script, what) in [("generate_text", "does not train"), ("pretrain_t5", "no decoder")] {
        let other = quoted.replace("pretrain_gpt", script);
        assert!(read(other.leak()).unwrap_err().to_string().contains(what), "{script}");
    }
}

/// GPUs and nodes are those of Slurm, or of the launcher; a launch on fewer than a node's GPUs has smaller nodes.
#[test]
fn a_launch_says_its_gpus() {
    let of = |before: &str, launch: &str| {
        let text = MEGATRON.replace("torchrun --nproc_per_node 8 --nnodes 4", launch);
        draft("train.sh", format!("{before}{text}").leak())
    };
    let slurm = "#SBATCH --nodes=16\n#SBATCH --gres=gpu:a100:8\n";
    let gpus = |before: &str, launch: &str| of(before, launch).get("gpus").map(str::to_owned);
    for (before, launch, expected) in [
        (slurm, "N=${SLURM_NNODES:-1}; torchrun --nproc_per_node 8 --nnodes $N", Some("128")),
        (slurm, "torchrun --nproc_per_node 4 --nnodes $SLURM_JOB_NUM_NODES", Some("64")),
        ("#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n", "srun python", Some("8")),
        ("", "torchrun --nproc_per_node 8", Some("8")),
        ("", "deepspeed --num_nodes 4 --num_gpus 8", Some("32")),
        ("", "torchrun --nproc_per_node 8 --nnodes $1", None),
        (slurm, "srun torchrun --nproc_per_node gpu --nnodes 16", None),
        ("#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n", "srun torchrun --nnodes 2", None),
        ("#SBATCH --nodes=2-4\n#SBATCH --gres=gpu:8\n", "srun python", None),
        ("#SBATCH --ntasks=32 --ntasks-per-node=8 --gpus-per-node=8\n", "srun python", Some("32")),
        ("#SBATCH -N 4 # -N 7\n#SBATCH --gres=gpu:8(S:0-1),nvme:1\n", "srun python", Some("32")),
        ("", "python", None),
    ] {
        assert_eq!(gpus(before, launch).as_deref(), expected, "{before}{launch}");
    }
    let node = |each: u32| {
        let launch = format!("torchrun --nproc_per_node {each} --nnodes 8");
        let mut typed = Draft::default();
        typed.put("machine", "dgx-h100").unwrap();
        let job = typed.over(&of("", &launch)).job(&Machines::new(&BuiltIn), false).unwrap();
        job.inferred.iter().any(|note| note.contains("4 of a node's 8 GPUs"))
    };
    assert!(node(4) && !node(8));
}

/// What only a run decides is not taken from a branch, nor from a default beside it.
#[test]
fn a_default_beside_a_branch_is_open() {
    let tp = |text: &str| {
        let all =
            format!("{text}\npython pretrain_gpt.py --num-layers 2 --tensor-model-parallel-size ");
        let of = |value: &str| {
            let found = draft("a.sh", format!("{all}{value}\n").leak());
            found.get("tp").map(str::to_owned)
        };
        [of("$TP"), of("${TP:-8}")]
    };
    let some = |n: &str| Some(n.to_owned());
    let open = "if [ $1 -le 4 ]; then\n : \"${TP:=4}\"\nelse\n : \"${TP:=8}\"\nfi";
    assert_eq!(tp(open), [None, None]);
    assert_eq!(tp("if [ $1 = a ]; then TP=4; fi"), [some("4"), None]);
    assert_eq!(tp("TP=4"), [some("4"), some("4")]);
    assert_eq!(tp(": \"${TP:=${OTHER:-2}}\""), [some("2"), some("2")]);
    let chunks = |text: &str| {
        let all = "python pretrain_gpt.py --num-layers 8 --pipeline-model-parallel-size 2 \
            ${VP:+--num-layers-per-virtual-pipeline-stage $VP}\n";
        draft("a.sh", format!("{text}\n{all}").leak()).get("layers_per_chunk").map(str::to_owned)
    };
    assert_eq!((chunks("VP=2"), chunks("VP=")), (some("2"), None));
}

/// Lists of containers have a flag and its value in two items.
#[test]
fn a_flag_and_its_value_are_two_items_of_a_list() {
    let yaml = "spec:\n  args:\n  - pretrain_gpt.py\n  - \"--tensor-model-parallel-size\"\n  - \"8\"\n\
        \x20 - --pipeline-model-parallel-size=2\n  - --sequence-parallel\n  - --num-layers\n  - '32'\n";
    let found = draft("job.yaml", yaml);
    assert_eq!((found.get("tp"), found.get("pp")), (Some("8"), Some("2")));
    assert_eq!(found.get("sequence_parallel"), Some("true"));
    let list = "args:\n- pretrain_gpt.py\n- \"--moe-layer-freq=([0]*2+[1]*2)\"\n- --num-layers=4\n- --num-experts=8\n\
        - --hidden-size=64\n- --num-attention-heads=4\n- --vocab-size=128\n";
    let model = draft("job.yaml", list).model;
    assert_eq!(model.and_then(|model| model.experts).map(|e| e.layers), Some(2));
    let flow = "args: [\"pretrain_gpt.py\", \"--tensor-model-parallel-size\", \"4\", \"--num-layers\", \"8\"]\n";
    assert_eq!(draft("job.yaml", flow).get("tp"), Some("4"));
    let lacks = draft("a.sh", "python pretrain_gpt.py --num-layers 2 --tensor-model-parallel-size");
    assert_eq!(lacks.asked, ["tp (--tensor-model-parallel-size has no value)"]);
}

/// `get_num_stages_from_str` (megatron/core/transformer/pipeline_parallel_layer_layout.py).
#[test]
fn a_layout_says_its_stages() {
    for (layout, stages) in [
        ("Ettt|(tt|)*29,m|L", Some(32)),
        ("Et*2|(tt|)*5t|tmL", Some(8)),
        ("E|L", Some(2)),
        ("(t|t)*2", Some(3)),
        ("Et|*3L", Some(4)),
        ("EtL", Some(1)),
        ("E(t|L", None),
        ("x", None),
        ("t*99999999999", None),
    ] {
        assert_eq!(pattern::stages(layout), stages, "{layout}");
    }
    let text = MEGATRON.replace(
        "--bf16",
        "--bf16 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*2|(tt|)*5t|tmL",
    );
    assert_eq!(draft("a.sh", text.leak()).get("chunks_per_stage"), Some("2"));
}

/// The type of gradients: of Megatron's FSDP that of the parameters unless told otherwise.
#[test]
fn gradients_have_the_type_that_flags_say() {
    let of = |flags: &str| {
        let text = MEGATRON.replace("--grad-reduce-in-bf16", "").replace("--bf16", flags);
        let job = job("a.sh", text.leak(), &[("machine", "dgx-h100")]);
        job.sharding.gradient
    };
    for (flags, bytes) in [
        ("--bf16", 4.0),
        ("--bf16 --grad-reduce-in-bf16", 2.0),
        ("--fp16", 2.0),
        ("--fp16 --accumulate-allreduce-grads-in-fp32", 4.0),
        ("--bf16 --use-megatron-fsdp", 2.0),
        ("--bf16 --use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp32", 4.0),
        (
            "--bf16 --use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp32 --megatron-fsdp-grad-comm-dtype bf16",
            2.0,
        ),
    ] {
        assert_eq!(of(flags), bytes, "{flags}");
    }
}

/// Accelerate's YAML says processes, sharding and degrees; the rest is asked for.
#[test]
fn accelerates_yaml_is_read() {
    let fsdp = "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n\
        fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n\
        \x20 fsdp_activation_checkpointing: true\n\
        parallelism_config:\n  parallelism_config_tp_size: 2\n  parallelism_config_dp_replicate_size: 2\n";
    let found = draft("fsdp.yaml", fsdp);
    let keys = ["gpus", "tp", "replicate", "precision", "recompute"].map(|key| found.get(key));
    assert_eq!(keys, [Some("16"), Some("2"), Some("2"), Some("bf16"), Some("full")]);
    let sharding =
        |text: &'static str| Sharding::read(draft("a.yaml", text).get("sharding").unwrap());
    let read = sharding(fsdp).unwrap();
    assert_eq!(
        (read.framework, read.shard, read.gradient),
        (Framework::Fsdp2, Shard::Parameters, 2.0)
    );
    let zero = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n\
        \x20 gradient_accumulation_steps: 4\n  offload_optimizer_device: none\nnum_processes: 8\n";
    let read = sharding(zero).unwrap();
    assert_eq!((read.framework, read.shard), (Framework::DeepSpeed, Shard::Parameters));
    assert_eq!(read.offload, None);
    assert_eq!(draft("a.yaml", zero).settled().unwrap().get("accumulation"), Some("4"));
    let old = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n";
    assert_eq!(sharding(old).unwrap().shard, Shard::Gradients);
    let other = "distributed_type: TPU\n";
    let refused = drafts(&OneText(other), &["a.yaml".to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("`TPU` of Accelerate"), "{refused}");
    // A file that names itself ends.
    let own = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: a.yaml\n";
    let refused = drafts(&OneText(own), &["a.yaml".to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("name each other"), "{refused}");
}

/// Configurations that are not read are named: verl's name a server.
#[test]
fn a_configuration_of_another_program_is_named() {
    for (text, file, name) in [
        ("data.train_batch_size=64 actor_rollout_ref.rollout.name=sglang\n", "a.sh", "verl"),
        ("python -m openrlhf.cli.train_sft --bf16\n", "a.sh", "OpenRLHF"),
    ] {
        let error = drafts(&OneText(text), &[file.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(&format!("a configuration of {name}")), "{error}");
    }
    // Servers under other names, and arguments alone.
    for text in [
        "python3 -m dynamo.vllm --model meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 8\n",
        "python -m sglang_router.launch_server --model-path meta-llama/Llama-3.1-70B --tp-size 8\n",
        "ARGS=(--model meta-llama/Llama-3.1-70B --tensor-parallel-size 8)\n",
    ] {
        assert_eq!(draft("a.sh", text).get("tp"), Some("8"), "{text}");
    }
    // A benchmark beside a server is a client.
    let beside = "vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size 8 &\n\
        vllm bench throughput --model x --num-prompts 8\n";
    assert_eq!(draft("a.sh", beside).get("tp"), Some("8"));
    // Words of servers in comments and other programs start none.
    for text in ["# see github.com/sgl-project/sglang\nls\n", "pip install vllm sglang\n"] {
        let error = drafts(&OneText(text), &["a.sh".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("not a known kind of job"), "{error}");
    }
}

/// GPT-NeoX's files look like JSON and have comments; one of settings says nothing of a job by itself.
const NEOX: &str = "{\n  \"pipe-parallel-size\": 4, # stages\n  \"model_parallel_size\": 2,\n  \"num_layers\": 44,
  \"hidden_size\": 6144,\n  \"num-attention-heads\": 64,\n  \"seq_length\": 2048,\n  \"max_position_embeddings\": 2048,
  \"pos_emb\": \"rotary\",\n  \"no_weight_tying\": true,\n  \"gpt_j_residual\": true,
  \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.97e-4}},
  \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": True},\n  \"train_micro_batch_size_per_gpu\": 4,
  \"gradient_accumulation_steps\": 32,\n  \"checkpoint_activations\": true,\n  \"fp16\": {\"enabled\": true},\n}\n";
const SETTINGS: &str =
    "{\n  \"vocab_file\": \"data/20B_tokenizer.json\",\n  \"save\": \"checkpoints\",\n}\n";

/// Widths, words and states are those of GPT-NeoX-20B (arXiv 2204.06745): 20,554,567,680 parameters.
#[test]
fn gpt_neox_is_read_in_several_files() {
    let names = ["20B.yml", "local_setup.yml"].map(str::to_owned);
    let files = Two(&[("20B.yml", NEOX), ("local_setup.yml", SETTINGS)]);
    for names in [names.clone(), [names[1].clone(), names[0].clone()]] {
        let found = drafts(&files, &names).unwrap().remove(0).draft;
        assert_eq!(found.name, "20B.yml");
        let model = found.model.as_ref().unwrap();
        assert_eq!((model.params(), model.vocab), (20_554_567_680.0, 50_432));
        assert!(model.summed_once);
        let keys = ["tp", "pp", "precision", "recompute", "attention", "overlap", "sharding"];
        let keys = keys.map(|key| found.get(key).unwrap_or(""));
        let sharding = "zero1, deepspeed";
        assert_eq!(keys, ["2", "4", "fp16", "full", "unfused", "none", sharding]);
        assert!(found.inferred.iter().any(|one| one.starts_with("50277 words")), "{found:?}");
        let refused = found.job(&Machines::new(&BuiltIn), false).err().unwrap();
        assert!(refused.what().contains("gpus, machine"), "{refused}");
    }
    let on = [("machine", "dgx-a100"), ("gpus", "96")];
    let twenty = job("20B.yml", NEOX, &on);
    assert_eq!((twenty.degrees.dp, twenty.global, twenty.micro), (12, Some(1536), 4));
    let alone =
        drafts(&OneText(SETTINGS), &["local_setup.yml".to_owned()]).unwrap_err().to_string();
    assert!(alone.contains("settings of GPT-NeoX, with neither a model nor a layout"), "{alone}");
    // Of a key in two files the first counts.
    let twice = Two(&[("a.yml", "seq_length: 1024\nnum_gpus: 8\nnum_nodes: 2\n"), ("b.yml", NEOX)]);
    let found = drafts(&twice, &["a.yml", "b.yml"].map(str::to_owned)).unwrap().remove(0).draft;
    assert_eq!(["sequence", "gpus"].map(|key| found.get(key)), [Some("1024"), Some("16")]);
    assert!(found.inferred.iter().any(|one| one.starts_with("seq_length: in several files")));
}

/// Attention and the feed-forward part are summed together forward; their inputs' gradients are two sums.
#[test]
fn parallel_branches_are_summed_once() {
    let on = [("machine", "dgx-a100"), ("gpus", "8")];
    let calls = |text: &str| {
        let job = job("20B.yml", text.to_owned().leak(), &on);
        let of_tp = sent(&job).into_iter().filter(|one| one.part == "tp");
        of_tp.map(|one| one.calls).sum::<f64>() / job.deepest() / job.microbatches()
    };
    let after = NEOX.replace("\"gpt_j_residual\": true", "\"gpt_j_residual\": false");
    // With the forward pass twice: 2 · 1 + 2, and 3 · 2.
    assert_eq!((calls(NEOX), calls(&after)), (4.0, 6.0));
    let sequence =
        |text: &str| text.replace("\"seq_length\"", "\"sequence_parallel\": true, \"seq_length\"");
    assert_eq!(calls(&sequence(&after)) - calls(&sequence(NEOX)), 3.0);
}

#[test]
fn gpt_neoxs_widths_are_its_own() {
    let of = |more: &str| {
        let text = format!(
            "num_layers: 32\nhidden_size: 4096\nnum_attention_heads: 32\npos_emb: rotary\n\
            no_weight_tying: true\nmake_vocab_size_divisible_by: 1\n{more}"
        );
        draft("a.yml", text.leak())
    };
    let llama = "norm: rmsnorm\nuse_bias_in_attn_linear: false\nuse_bias_in_mlp: false\nactivation: swiglu\n";
    // A third of what is written, in multiples: Llama 2's 11,008 channels, and its words by these widths.
    let seven = of(&format!("{llama}intermediate_size: 32768\nmlp_multiple_of: 256\n"));
    assert_eq!(seven.model.as_ref().unwrap().params(), 6_738_415_616.0);
    assert!(seven.inferred.iter().any(|one| one.starts_with("32000 words, as llama2-7b has")));
    // Llama 3's.
    let eight = of(&format!(
        "{llama}intermediate_size: 14336\nmlp_multiple_of: 14336\nnum_kv_heads: 8\n\
        tokenizer_type: HFTokenizer\nvocab-file: llama3/tokenizer.json\n"
    ));
    assert_eq!(eight.model.unwrap().params(), 8_030_261_248.0);
    let odd = of(&format!("{llama}intermediate_size: 14336\n"));
    assert_eq!(odd.model.unwrap().ffn, 14336);
    // Experts over the ranks of TP, of two products each.
    let experts = of("moe_num_experts: 8\nmodel_parallel_size: 2\nintermediate_size: 12288\n");
    let model = experts.model.as_ref().unwrap();
    assert_eq!(model.routed_body(), 32.0 * 8.0 * 2.0 * 4096.0 * 12288.0);
    assert_eq!(["ep", "etp"].map(|key| experts.get(key)), [Some("2"), Some("1")]);
    let asked = |more: &str| of(more).asked.join("; ");
    assert!(
        asked("attention_config: [[[\"mamba\"], 32]]\n").contains("model (attention_config mamba)")
    );
    assert!(asked("num_experts: 4\n").contains("model (num_experts 4)"));
    assert!(asked("num_kv_heads: auto\n").contains("model (num_kv_heads auto)"));
    for (more, what) in [
        ("train_impl: dpo\n", "rewards (dpo)"),
        (
            "make_vocab_size_divisible_by: 4294967295\nmodel_parallel_size: 2\nexpansion_factor: 1e300\n",
            "makes a width of 8589934590",
        ),
        // Of a key that is repeated the last counts.
        ("num_attention_heads: 3\n", "64 channels do not divide into 3 heads"),
        ("hidden_size: &h 64\n", "anchors"),
        ("pipe_parallel_size: 1\nzero_optimization: {stage: 3}\n", "ZeRO 3 in a pipeline"),
    ] {
        let text = format!("num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\n{more}");
        let error = drafts(&OneText(text.leak()), &["a.yml".to_owned()]).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// DeepSpeed's optimizer for bf16 has sums in 32 bits; without a stage another file may say it.
#[test]
fn gpt_neox_shards_as_deepspeed_does() {
    let of = |more: &str| {
        draft(
            "a.yml",
            format!("num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\n{more}").leak(),
        )
    };
    let keys =
        |found: &Draft| ["sharding", "overlap"].map(|key| found.get(key).unwrap_or("").to_owned());
    let wide = ["zero1, deepspeed, gradients in fp32", "none"];
    let bf16 = "precision: bfloat16\n";
    assert_eq!(keys(&of(&format!("{bf16}zero_optimization: {{stage: 0}}\n"))), wide);
    let sums =
        "data_types: {grad_accum_dtype: fp32}\nzero_optimization: {stage: 1, overlap_comm: true}\n";
    let found = of(&format!("{bf16}{sums}"));
    assert_eq!((keys(&found), found.unread.len()), (wide.map(str::to_owned), 0));
    let plain = "pipe_parallel_size: 0\nzero_optimization: {stage: 1, overlap_comm: true}\n";
    assert_eq!(keys(&of(&format!("{bf16}{plain}"))), ["zero1, deepspeed", "gradients"]);
    let early = "zero_optimization: {stage: 2, cpu_offload: true}\n";
    assert!(of(early).get("sharding").unwrap().ends_with("offload of 1 of the optimizer"));
    let open = of("fp16: {enabled: true}\n");
    assert_eq!(keys(&open), ["", ""]);
    assert_eq!(open.settled().unwrap().get("sharding"), Some("none, deepspeed"));
}

/// nanotron's YAML: SmolLM3's first stage has 3,075,098,624 parameters (its card's 3B), and gradients summed in 32 bits.
#[test]
fn nanotron_is_read() {
    const SMOL: &str = "general:\n  project: x\nmodel:\n  dtype: bfloat16\n  make_vocab_size_divisible_by: 1
  model_config:\n    is_qwen2_config: true\n    hidden_size: 2048\n    intermediate_size: 11008
    num_attention_heads: 16\n    num_hidden_layers: 36\n    num_key_value_heads: 4\n    tie_word_embeddings: true
    vocab_size: 128256\n    moe_config: null\noptimizer:\n  accumulate_grad_in_fp32: true\n  zero_stage: 0
  optimizer_factory:\n    name: adamW\nparallelism:\n  dp: 192\n  pp: 1\n  tp: 2\n  tp_mode: REDUCE_SCATTER
  tp_linear_async_communication: true\n  pp_engine: 1f1b\n  expert_parallel_size: 1\ntokens:\n  sequence_length: 4096
  micro_batch_size: 3\n  batch_accumulation_per_replica: 1\n";
    let smol = job("stage1.yaml", SMOL, &[("machine", "dgx-h100")]);
    assert_eq!(smol.model.params(), 3_075_098_624.0);
    assert_eq!((smol.degrees.gpus(), smol.global, smol.degrees.sequence), (384, Some(576), true));
    assert_eq!((smol.sharding.shard, smol.sharding.gradient), (Shard::Nothing, 4.0));
    assert!(smol.overlap.gradients && smol.overlap.tp && smol.recompute == Recompute::Nothing);
    let with = |from: &str, to: &str| draft("a.yaml", SMOL.replace(from, to).leak());
    // With ZeRO the sums follow the passes; without sums in 32 bits all states have 16.
    let zero = with("zero_stage: 0", "zero_stage: 1");
    let keys = ["sharding", "overlap"].map(|key| zero.get(key));
    assert_eq!(keys, [Some("zero1, ddp, gradients in fp32"), Some("tp")]);
    let narrow = with("accumulate_grad_in_fp32: true", "accumulate_grad_in_fp32: false");
    assert!(narrow.get("sharding").unwrap().ends_with("states in bf16"));
    assert_eq!(with("1f1b", "afab").get("schedule"), Some("gpipe"));
    // Experts have the defaults of their table.
    let experts = "moe_config: {num_experts: 4, enable_shared_expert: true, layers: [0, 2]}";
    let found = with("moe_config: null", experts).model.unwrap().experts.unwrap();
    assert_eq!((found.layers, found.experts, found.top_k), (2, 4, 2));
    assert_eq!((found.ffn, found.shared), (1408, 5632));
    let other = with("is_qwen2_config", "is_starcoder2_config");
    assert!(other.asked.join("").contains("model (is_starcoder2_config"), "{:?}", other.asked);
    assert!(with("vocab_size: 128256", "vocab_size: x").asked.join("").contains("vocab_size x"));
    assert_eq!(with("dtype: bfloat16", "dtype: float8").asked, ["precision (model.dtype float8)"]);
}

/// Of branches with several values the answer says which one counts.
#[test]
fn the_value_of_several_branches_is_named() {
    let model = "if [ $1 = small ]; then\n M=\"--num-layers 24 --seq-length 2048\"\nelse\n M=\"--num-layers 36 --seq-length 2048\"\nfi\n";
    let text = format!(
        "{model}{}",
        MEGATRON.replace("--num-layers 32", "$M").replace("--seq-length 8192", "")
    );
    let said = draft("train.sh", text.leak()).inferred.join("; ");
    assert!(said.contains("--num-layers 36 (not 24), --seq-length"), "{said}");
    assert_eq!(said.matches("--seq-length").count(), 1, "{said}");
}

/// The YAML of Megatron-LM's functional tests and of Megatron-MoE-ModelZoo has the options as keys.
#[test]
fn megatrons_yaml_is_read() {
    const YAML: &str = "ENV_VARS:\n  NCCL_ALGO: Ring\nMODEL_ARGS:\n  # Network\n  --num-layers: 32\n  --hidden-size: 4096
  --ffn-hidden-size: 14336\n  --num-attention-heads: 32\n  --group-query-attention: true\n  --num-query-groups: 8
  --swiglu: true\n  --disable-bias-linear: true\n  --untie-embeddings-and-output-weights: true
  --position-embedding-type: rope\n  --normalization: RMSNorm\n  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: ${PP}\n  --sequence-parallel: false\n  --moe-paged-stash: true
  --recompute-granularity: selective\n  --recompute-modules: \"[core_attn mlp]\"
  --tokenizer-model: meta-llama/Llama-3.1-8B\nTEST_TYPE: regular\n";
    let found = draft("model_config.yaml", YAML);
    assert_eq!(found.model.as_ref().unwrap().params(), 8_030_261_248.0);
    assert_eq!((found.get("tp"), found.get("sequence_parallel")), (Some("2"), None));
    assert_eq!(found.get("recompute"), Some("mlp"));
    assert_eq!(found.asked, ["pp (--pipeline-model-parallel-size ${PP})"]);
    assert_eq!(found.unread, ["--moe-paged-stash"]);
    let says = |found: &Draft, what: &str| found.inferred.iter().any(|note| note == what);
    assert!(says(&found, "128256 words, as meta-llama/Llama-3.1-8B has"), "{:?}", found.inferred);
    // Without a known name the words stay GPT-2's, padded to a multiple of 128 for each rank.
    let other = draft("a.yaml", YAML.replace("meta-llama/Llama-3.1-8B", "${DATA}/words").leak());
    assert_eq!(other.model.as_ref().unwrap().vocab, 50_432);
    assert!(says(&other, "50257 words, as in GPT-2: the tokenizer is not read"));
}

/// Two of a batch's three sizes say the third that the trainer would fill in.
#[test]
fn what_is_auto_follows_from_the_others() {
    let text = r#"{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}"#;
    let of = |keys: &[(&str, &str)]| {
        let mut typed = Draft::default();
        for (key, value) in
            keys.iter().chain(&[("machine", "dgx-h100"), ("gpus", "16"), ("sequence", "4096")])
        {
            typed.put(key, *value).unwrap();
        }
        typed.model_name = Some("llama3-8b".to_owned());
        let job = typed.over(&draft("ds.json", text)).job(&Machines::new(&BuiltIn), false);
        job.map(|job| job.global)
    };
    assert_eq!(of(&[("micro_batch", "2"), ("accumulation", "4")]).unwrap(), Some(128));
    assert_eq!(of(&[("micro_batch", "2"), ("global_batch", "64")]).unwrap(), Some(64));
    assert!(of(&[("micro_batch", "2")]).is_err());
}

/// DeepSpeed's states in bf16: of ZeRO 3 no copies, of the stages before it one of the part that a rank updates.
#[test]
fn deepspeeds_states_in_bf16_are_half_as_large() {
    let states = |stage: u32, bf16: &str| {
        let text = format!(
            r#"{{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true{bf16}}},
                "zero_optimization": {{"stage": {stage}}}}}"#
        );
        let mut typed = Draft::default();
        for (key, value) in [("machine", "dgx-h100"), ("gpus", "64"), ("sequence", "4096")] {
            typed.put(key, value).unwrap();
        }
        typed.model_name = Some("llama3-8b".to_owned());
        let job = typed.over(&draft("ds.json", text.leak()));
        let job = job.job(&Machines::new(&BuiltIn), false).unwrap();
        let peak = memory(&job);
        [peak.parameters, peak.gradients, peak.optimizer].map(|bytes| bytes / job.model.params())
    };
    const BOTH: &str = r#", "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true"#;
    let near = |found: [f64; 3], expected: [f64; 3]| {
        found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-3)
    };
    assert!(near(states(1, BOTH), [2.0, 2.0, 6.0 / 64.0]), "{:?}", states(1, BOTH));
    assert!(near(states(2, BOTH), [2.0, 2.0 / 64.0, 6.0 / 64.0]), "{:?}", states(2, BOTH));
    // What is gathered ahead is the same.
    let saved: f64 = states(3, "").iter().sum::<f64>() - states(3, BOTH).iter().sum::<f64>();
    assert!((saved - 10.0 / 64.0).abs() < 1e-3, "{saved}");
    let alone =
        r#"{"zero_optimization": {"stage": 2}, "bf16": {"bf16_master_weights_and_grads": true}}"#;
    let named = "bf16_master_weights_and_grads without bf16_optimizer_states";
    assert_eq!(draft("ds.json", alone).unread, [named]);
}

/// A width that a script computes elsewhere is no reason for another one.
#[test]
fn widths_that_are_not_known_are_asked_for() {
    for (was, open) in [
        ("--num-query-groups 8", "--num-query-groups $GROUPS"),
        ("--ffn-hidden-size 14336", "--ffn-hidden-size $(cat width)"),
        ("--swiglu", "--swiglu --num-experts ${EXPERTS}"),
    ] {
        let found = draft("train.sh", MEGATRON.replace(was, open).leak());
        let refused = found.job(&Machines::new(&BuiltIn), false).err().unwrap();
        let name = open.trim_start_matches("--swiglu ").split(' ').next().unwrap();
        assert!(refused.what().contains(&format!("model ({name} $")), "{refused}");
        // A configuration of the model answers.
        let known =
            found.over(&Draft { model: draft("train.sh", MEGATRON).model, ..Draft::default() });
        let refused = known.job(&Machines::new(&BuiltIn), false).err().unwrap();
        assert_eq!(refused.what(), "the job does not say machine");
    }
}

#[test]
fn megatrons_other_words_are_read() {
    let of = |was: &str, now: &str| draft("train.sh", MEGATRON.replace(was, now).leak());
    for flag in [
        "--use-torch-fsdp2",
        "--use-custom-fsdp --data-parallel-sharding-strategy optim_grads_params",
    ] {
        let found = of("--use-distributed-optimizer", flag);
        assert!(found.get("sharding").unwrap().starts_with("Megatron FSDP, zero3"), "{flag}");
    }
    // The gated width of a model of 4,096 channels has as many parameters as 4·4096 without a gate.
    let model = of("--ffn-hidden-size 14336", "").model.unwrap();
    assert_eq!(model.ffn, 10880);
    let without = of("--vocab-size 128256", "");
    assert!(without.model.unwrap().vocab == 50432 && without.inferred[0].contains("50257 words"));
    assert_eq!(of("--fp8-format hybrid", "--fp4-format e2m1").get("precision"), Some("nvfp4"));
    let moe = of("--swiglu", "--swiglu --num-experts 8 --moe-layer-freq 3");
    assert_eq!(moe.model.unwrap().experts.unwrap().layers, 11);
    let laid = of("--swiglu", "--swiglu --pipeline-model-parallel-layout Et*32L");
    assert_eq!(laid.unread, ["--pipeline-model-parallel-layout"]);
    let host = of("--swiglu", "--swiglu --optimizer-cpu-offload");
    assert!(host.get("sharding").unwrap().contains("offload"));
}

/// `moe_freq_type` in megatron/training/arguments.py.
#[test]
fn megatrons_list_of_layers_with_experts_is_evaluated() {
    let of = |frequency: &str| {
        let more = format!("--swiglu --num-experts 8 --moe-layer-freq {frequency}");
        let text = MEGATRON.replace("--swiglu", &more);
        drafts(&OneText(text.leak()), &["train.sh".to_owned()])
            .map(|rows| rows[0].draft.model.as_ref().map(|m| m.moe_layers()))
    };
    for text in ["([1]*3+[0]*1)*8", "[0,1,1,1]*8", "\"([1]*24+[0]*8)\""] {
        assert_eq!(of(text).unwrap(), Some(24.0), "{text}");
    }
    let error = of("[0]+[1]*23").unwrap_err().to_string();
    assert!(error.contains("24 layers, but the model has 32"), "{error}");
    assert_eq!(of("$FREQ").unwrap(), None);
}

/// Flags of Megatron and DeepSpeed that change memory or time have their effect, or are named.
#[test]
fn flags_count_or_are_named() {
    let with = |more: &str| {
        let text = MEGATRON.replace("--swiglu", &format!("--swiglu {more}"));
        job("train.sh", text.leak(), &[("machine", "dgx-h100")])
    };
    let plain = with("");
    // megatron/core/fusions/fused_cross_entropy.py saves the exponentials of all logits.
    assert_eq!(memory(&with("--cross-entropy-loss-fusion")), memory(&plain));
    let sets = with("--num-distributed-optimizer-instances 4");
    assert!((memory(&sets).optimizer / memory(&plain).optimizer - 4.0).abs() < 1e-9);
    let modules = with("--recompute-granularity selective --recompute-modules core_attn moe_act");
    assert_eq!(modules.recompute, Recompute::Modules(Modules::CHEAP));
    let padded = with("--padded-vocab-size 163840");
    assert_eq!(padded.model.vocab, 163_840);
    // The optimizer's states alone leave the GPU (megatron/core/optimizer/cpu_offloading).
    let host = memory(&with("--optimizer-cpu-offload"));
    let half = memory(&with("--optimizer-cpu-offload --optimizer-offload-fraction 0.5"));
    let all = memory(&plain);
    assert_eq!(
        (host.optimizer, host.parameters, host.gradients),
        (0.0, all.parameters, all.gradients)
    );
    assert!((half.optimizer / all.optimizer - 0.5).abs() < 1e-9);
    let draft = |text: String| draft("train.sh", text.leak());
    let sgd = draft(MEGATRON.replace("--swiglu", "--swiglu --optimizer sgd"));
    assert!(sgd.unread[0].contains("--optimizer sgd"));
    for (flags, replays) in [
        ("", "false"),
        ("--cuda-graph-impl none", "false"),
        ("--cuda-graph-impl local", "true"),
        ("--enable-cuda-graph", "true"),
        ("--external-cuda-graph", "true"),
    ] {
        let draft = draft(MEGATRON.replace("--swiglu", &format!("--swiglu {flags}")));
        assert_eq!((draft.get("cuda_graphs"), draft.unread.len()), (Some(replays), 0), "{flags}");
    }
    let wide = draft(MEGATRON.replace("--bf16 --fp8-format hybrid", ""));
    assert!(wide.inferred.iter().any(|line| line.contains("32 bits")), "{:?}", wide.inferred);
    let json = r#"{"zero_optimization": {"stage": 1}, "optimizer": {"type": "SGD"}}"#;
    let json = draft(json.to_owned());
    assert!(json.unread[0].contains("SGD") && json.inferred[0].contains("32 bits"));
    let apart = draft(MEGATRON.replace(
        "--swiglu",
        "--swiglu --mtp-num-layers 2 --fp8-param-gather --main-params-dtype fp16 --exp-avg-dtype fp32 \
         --decoder-last-pipeline-num-layers 3 --cuda-graph-impl none",
    ));
    assert_eq!(
        apart.unread,
        [
            "--decoder-last-pipeline-num-layers",
            "--mtp-num-layers",
            "--main-params-dtype",
            "--fp8-param-gather"
        ]
    );
    let json = draft(
        r#"{"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 1e10},
            "communication_data_type": "fp32", "optimizer": {"type": "OneBitAdam"},
            "activation_checkpointing": {"cpu_checkpointing": true, "partition_activations": false}}"#
            .to_owned(),
    );
    assert_eq!(json.unread.len(), 4, "{:?}", json.unread);
    let toml = |more: &str| {
        let text = format!(
            "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"quantize.linear.float8\"]\n\
             [parallelism]\ntensor_parallel_degree = 2\ndisable_loss_parallel = true\n\
             [quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n\
             [training]\nmixed_precision_param = \"float32\"\n{more}"
        );
        super::tests::draft("train.toml", text.leak())
    };
    let named = toml("[activation_checkpoint]\nmode = \"memory_budget\"\n");
    assert_eq!(named.unread.len(), 4, "{:?}", named.unread);
    assert_eq!((named.get("recompute"), toml("").get("recompute")), (None, Some("every 2")));
}

/// Without copies in 32 bits a parameter, its gradient and two moments take 8 bytes (Adam on bf16 parameters, as
/// torchtitan's `training.dtype = "bfloat16"`), 16 with them.
#[test]
fn states_in_16_bits_take_half() {
    let of = |sharding: &str| {
        let text = format!(
            "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 8\nsharding = \"{sharding}\"\n\
             batch = {{ global = 8, micro = 1, sequence = 8192 }}\n"
        );
        job("job.toml", text.leak(), &[])
    };
    for (sharding, over, bytes) in [
        ("FSDP2", 8.0, 16.0),
        ("FSDP2, gradients in bf16", 8.0, 16.0),
        ("FSDP2, states in bf16", 8.0, 8.0),
        ("none, states in bf16", 1.0, 8.0),
    ] {
        let job = of(sharding);
        let each = memory(&job).optimizer / (job.model.params() / over);
        assert!((each - bytes / 2.0).abs() < 1e-3, "{sharding}: {each}");
        assert_eq!(
            job.sharding.gradient,
            if sharding == "FSDP2" { 4.0 } else { 2.0 },
            "{sharding}"
        );
    }
    let titan = |dtype: &str| {
        let text = format!(
            "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\ndtype = \"{dtype}\"\n"
        );
        let sharding =
            super::tests::draft("train.toml", text.leak()).get("sharding").unwrap().to_owned();
        Sharding::read(&sharding).unwrap()
    };
    let (wide, narrow) = (titan("float32"), titan("bfloat16"));
    assert_eq!((wide.narrow, narrow.narrow), (false, true));
    assert_eq!((wide.gradient, narrow.gradient), (4.0, 4.0));
}

/// benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md of torchtitan: 32 H200 hold 47.96 GiB, with the loss compiled.
#[test]
fn a_compiled_loss_keeps_logits_in_16_bits() {
    let of = |compile: &str, keys: &[(&str, &str)]| {
        let text = format!(
            "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"quantize.linear.float8\"]\n\
             [training]\nlocal_batch_size = 2\nseq_len = 8192\n{compile}\n\
             [activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n"
        );
        job("train.toml", text.leak(), &[&[("machine", "dgx-h200"), ("gpus", "32")], keys].concat())
    };
    let june = of("compile = true", &[]);
    let peak = memory(&june).stated(june.stated) / f64::from(1 << 30);
    assert!((peak / 47.96 - 1.0).abs() < 0.15, "{peak}");
    let logits = |job: &Job| memory(job).logits / (2.0 * 8192.0 * 128_256.0);
    let august = of("[compile]\nenable = true", &[]);
    let model = of("[compile]\nenable = true\ncomponents = [\"model\"]", &[]);
    let by_key = of("", &[("compiled_loss", "true")]);
    assert_eq!([&june, &august, &model, &by_key].map(logits), [4.0, 4.0, 12.0, 4.0]);
    assert_eq!(logits(&of("", &[])), 12.0);
}

/// `estimate_zero3_model_states_mem_needs` and `estimate_zero2_model_states_mem_needs` of DeepSpeed.
#[test]
fn deepspeeds_host_has_what_its_estimates_say() {
    let states = |zero: &str| {
        let text = format!(
            r#"{{"train_batch_size": 8, "bf16": {{"enabled": true}}, "zero_optimization": {{{zero}}}}}"#
        );
        let set =
            [("machine", "dgx-h100"), ("gpus", "8"), ("sequence", "4096"), ("model", "llama3-70b")];
        memory(&job("ds.json", text.leak(), &set)).states()
    };
    let (cpu, params) = (70.553e9, 128_256.0 * 8192.0);
    let optimizer = r#""offload_optimizer": {"device": "cpu"}"#;
    let parameters = r#""offload_param": {"device": "cpu"}"#;
    for (zero, expected) in [
        (format!(r#""stage": 3, {optimizer}, {parameters}"#), 4.0 * params),
        (format!(r#""stage": 3, {optimizer}"#), 4.0 * params + 2.0 * cpu / 8.0),
        (format!(r#""stage": 2, {optimizer}"#), 2.0 * cpu),
    ] {
        assert!((states(&zero) / expected - 1.0).abs() < 1e-3, "{zero}: {}", states(&zero));
    }
    // Of a part on the host the rest stays, gradients too (`subgroup_to_device`, stage3.py).
    let half = optimizer.replace("\"cpu\"", "\"cpu\", \"ratio\": 0.5");
    let rest =
        states(&format!(r#""stage": 3, {half}"#)) - states(&format!(r#""stage": 3, {optimizer}"#));
    assert!((rest / (16.0 * cpu / 8.0 / 2.0) - 1.0).abs() < 1e-3, "{rest}");
    assert_eq!(
        states(&format!(r#""stage": 2, {half}"#)),
        states(&format!(r#""stage": 2, {optimizer}"#))
    );
    // 18 bytes a parameter, beside the layers that are gathered.
    let more = |ranks: &str| {
        let keys = [("sharding", "zero3, deepspeed"), ("shard_size", ranks)];
        memory(&job("job.toml", MIXTRAL, &keys)).states()
    };
    let params = known("mixtral-8x7b").unwrap().model.unwrap().params();
    let own = more("8") - more("16");
    assert!((own / (18.0 * params / 16.0) - 1.0).abs() < 1e-3, "{own}");
}

/// FSDP2 sums between replicas in every micro-batch (`all_reduce_grads` of FSDPParamGroup, torch/distributed/fsdp),
/// except in a pipeline; MiCS of DeepSpeed at the last one (`is_gradient_accumulation_boundary`, mics.py).
#[test]
fn replicas_of_shards_sum_as_often_as_their_framework_does() {
    let dense = MIXTRAL.replace("mistralai/Mixtral-8x7B-v0.1", "llama3-8b");
    let calls = |sharding, pp| {
        let keys = [("sharding", sharding), ("shard_size", "8"), ("pp", pp)];
        replicated(&dense, &keys, Collective::AllReduce).0
    };
    assert_eq!([calls("FSDP2", "1"), calls("zero3, deepspeed", "1")], [32.0 * 16.0, 32.0]);
    assert_eq!(calls("FSDP2", "2"), 1.0);
}

/// Megatron refuses experts that do not divide as TP does (megatron/core/parallel_state.py), and gathers
/// all tokens unless it is told otherwise (`moe_token_dispatcher_type`).
#[test]
fn megatrons_experts_are_those_of_its_defaults() {
    let of = |more: &str| {
        let more = format!("--swiglu --num-experts 8 --moe-router-topk 2 {more}");
        draft("train.sh", MEGATRON.replace("--swiglu", &more).leak())
    };
    let machines = Machines::new(&BuiltIn);
    let mut typed = Draft::default();
    typed.put("machine", "dgx-h100").unwrap();
    let job = |more: &str| typed.clone().over(&of(more)).job(&machines, false);
    // TP 2 divides the experts, and 32 ranks are not a multiple of 2·32.
    assert_eq!(job("--expert-model-parallel-size 8").unwrap().degrees.etp, 2);
    let narrow = "--num-experts 32 --expert-model-parallel-size 32";
    assert!(
        job(narrow).is_err() && job(&format!("{narrow} --expert-tensor-parallel-size 1")).is_ok()
    );
    let sent = |more: &str| {
        let job = job(&format!("--expert-model-parallel-size 8 {more}")).unwrap();
        let sent = sent(&job);
        let ep = sent.into_iter().filter(|s| s.part == "ep");
        ep.map(|s| (s.collective, s.ranks, s.bytes)).collect::<Vec<_>>()
    };
    // 8192 tokens over CP 2 and TP 2, of 16 ranks.
    let own = 2048.0 * 4096.0 * 2.0;
    let all = [Collective::AllGather, Collective::ReduceScatter].map(|c| (c, 16, 16.0 * own));
    assert_eq!(sent(""), all);
    assert_eq!(sent("--moe-token-dispatcher-type allgather"), all);
    let alltoall = [(Collective::AllToAll, 8, 2.0 * own)];
    assert_eq!(sent("--moe-token-dispatcher-type alltoall"), alltoall);
}

/// `get_tensor_shapes` in megatron/core/pipeline_parallel/schedules.py.
#[test]
fn stages_send_whole_tokens_without_sequence_parallelism() {
    let bytes = |sequence: &str| {
        let keys =
            [("tp", "8"), ("pp", "2"), ("sharding", "zero1"), ("sequence_parallel", sequence)];
        let job = job("job.toml", MIXTRAL, &keys);
        let sent = sent(&job);
        sent.iter().find(|s| s.part == "pp").unwrap().bytes
    };
    assert_eq!((bytes("false"), bytes("true")), (4096.0 * 4096.0 * 2.0, 4096.0 * 512.0 * 2.0));
}

/// A rank has two stages of a V (`ScheduleZBVZeroBubble`: "exactly two stages per rank", torch.distributed.pipelining).
#[test]
fn micro_batches_pass_a_rank_twice_in_a_v() {
    let calls = |schedule: &str| {
        let keys = [("pp", "4"), ("sharding", "zero1"), ("schedule", schedule)];
        let job = job("job.toml", MIXTRAL, &keys);
        let sent = sent(&job);
        sent.iter().find(|s| s.part == "pp").unwrap().calls
    };
    let one = calls("1f1b");
    assert_eq!([calls("zbv"), calls("dualpipev"), calls("dualpipe")], [2.0 * one, 2.0 * one, one]);
    assert_eq!(calls("zb-h2"), one);
}

/// A step is no shorter than one micro-batch's way through all stages, and what few idle meets what many do where the
/// schedules' authors say: 1F1B in turns from p on, ZB-H2 from 2p − 1 (README of
/// sail-sg/zero-bubble-pipeline-parallelism).
#[test]
fn few_micro_batches_wait_for_all_stages() {
    let (p, fed, both) = (8.0, 4.0, 1.0 / 3.0);
    let turns = |m: f64| Schedule::OneForwardOneBackward.idle(p, fed, m);
    assert_eq!([turns(1.0), turns(2.0)], [p - 1.0, p + 0.25 - 2.0]);
    assert_eq!([turns(p), turns(64.0)], [(p - 1.0) / fed; 2]);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    for schedule in [Schedule::ZeroBubble, Schedule::ZeroBubbleTwice] {
        // F and B of all stages, and W of one.
        near(1.0 + schedule.idle(p, 1.0, 1.0), both * (2.0 * p + 1.0));
    }
    near(Schedule::ZeroBubble.idle(p, 1.0, p), (p - 1.0) * both);
    near(Schedule::ZeroBubbleTwice.idle(p, 1.0, 2.0 * p - 2.0), both);
    near(Schedule::ZeroBubbleTwice.idle(p, 1.0, 2.0 * p - 1.0), 0.0);
    near(1.0 + Schedule::ZeroBubbleV.idle(p, 1.0, 1.0), both * (2.0 * p + 0.5));
    near(Schedule::ZeroBubbleV.idle(p, 1.0, p), 0.0);
    near(Schedule::DualPipe.idle(p, 1.0, 2.0 * p), 2.0);
    assert_eq!(Schedule::GPipe.idle(p, 1.0, 2.0), p - 1.0);
    assert_eq!(Schedule::OneForwardOneBackward.idle(1.0, 1.0, 1.0), 0.0);
}

/// The collectives of a job's step.
fn sent(job: &Job) -> Vec<Sent> {
    let registry = Registry::builtin();
    estimate(job, &Wires::new(&registry, &job.machine), None).unwrap().sent
}

/// ZB-V keeps what 1F1B keeps, ZB-H2 twice that and is no V (README of sail-sg/zero-bubble-pipeline-parallelism).
#[test]
fn zero_bubbles_keep_what_their_authors_say() {
    let of = |schedule: &str| {
        let keys = [("pp", "4"), ("sharding", "zero1"), ("schedule", schedule)];
        let job = job("job.toml", MIXTRAL, &keys);
        let calls = sent(&job).iter().find(|s| s.part == "pp").unwrap().calls;
        (with_none(&job), calls)
    };
    let (one, v, twice) = (of("1f1b"), of("zbv"), of("zb-h2"));
    assert_eq!(v, (one.0, 2.0 * one.1));
    assert_eq!(twice, (2.0 * one.0, one.1));
}

/// Activations of micro-batches in flight without recomputation.
fn with_none(job: &Job) -> f64 {
    memory(&Job { recompute: Recompute::Nothing, ..job.clone() }).activations
}

/// 61 layers on 16 stages: the fullest have 4, of experts all.
#[test]
fn messages_of_experts_are_those_of_the_fullest_stage() {
    let text = "model = \"deepseek-v3\"\nmachine = \"dgx-h100\"\ngpus = 2048\n\
        layout = { pp = 16, dp = 128, ep = 64 }\nsharding = \"zero1\"\nrecompute = \"none\"\n\
        batch = { global = 15360, micro = 1, sequence = 4096 }\n";
    let job = job("job.toml", text, &[]);
    assert_eq!(job.deepest_experts(), 4.0);
    let calls: f64 = sent(&job).iter().filter(|s| s.part == "ep").map(|s| s.calls).sum();
    assert_eq!(calls, 4.0 * 4.0 * 120.0);
    // Every second layer, as in Llama 4 Maverick.
    let mut other = job;
    other.model.experts.as_mut().unwrap().layers = 30;
    assert!(other.deepest_experts() < 2.0);
}

/// `MoEAllGatherTokenDispatcher.token_dispatch`: over TP and EP, if either is above one.
#[test]
fn experts_that_tp_alone_divides_gather_their_tokens() {
    let keys = [("tp", "8"), ("sequence_parallel", "true"), ("sharding", "zero1"), ("etp", "8")];
    let of = |more: (&str, &str)| {
        let keys: Vec<_> =
            keys.iter().copied().chain([("dispatcher", "allgather"), more]).collect();
        let sent = sent(&job("job.toml", MIXTRAL, &keys));
        sent.iter()
            .filter(|s| s.collective == Collective::AllGather && s.part != "dp")
            .map(|s| s.calls)
            .sum::<f64>()
    };
    assert_eq!(of(("etp", "8")), of(("ep", "1")));
    let both = keys.iter().copied().chain([("dispatcher", "allgather"), ("ep", "2"), ("etp", "4")]);
    let both = sent(&job("job.toml", MIXTRAL, &both.collect::<Vec<_>>()));
    let gathers = |all: &[Sent]| -> f64 {
        all.iter()
            .filter(|s| s.collective == Collective::AllGather && s.part != "dp")
            .map(|s| s.calls)
            .sum()
    };
    assert_eq!(gathers(&both), of(("ep", "1")));
}

/// `moe_layer_recompute` checkpoints dispatch, experts and combine; `mlp` the dense part with its messages.
#[test]
fn whole_modules_run_again_with_their_messages() {
    let of = |text: &'static str, keys: &[(&str, &str)], what: &str| {
        let keys: Vec<_> =
            keys.iter().copied().chain([("sharding", "zero1"), ("recompute", what)]).collect();
        let job = job("job.toml", text, &keys);
        let registry = Registry::builtin();
        let priced = estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap();
        let calls = |part: &str| {
            priced.sent.iter().filter(|s| s.part == part).map(|s| s.calls).sum::<f64>()
        };
        (priced.step, calls("ep"), calls("tp"), memory(&job).activations)
    };
    let moe = |what: &str| of(MIXTRAL, &[("ep", "8")], what);
    let (none, own, full) = (moe("none"), moe("moe"), moe("full"));
    assert_eq!((own.1, none.1), (full.1, full.1 / 1.5));
    assert!(
        own.0 - none.0 > 0.7 * (full.0 - none.0) && own.0 < full.0,
        "{none:?} {own:?} {full:?}"
    );
    assert!(own.3 < none.3);
    let dense = MIXTRAL.replace("mistralai/Mixtral-8x7B-v0.1", "llama3-8b").leak();
    let mlp = |what: &str| of(dense, &[("tp", "2"), ("sequence_parallel", "true")], what);
    let (none, own, full) = (mlp("none"), mlp("mlp"), mlp("full"));
    assert_eq!(2.0 * (own.2 - none.2), full.2 - none.2);
    assert!(
        own.0 - none.0 > 0.6 * (full.0 - none.0) && own.0 < full.0,
        "{none:?} {own:?} {full:?}"
    );
    let script = MEGATRON.replace(
        "--swiglu",
        "--swiglu --recompute-granularity selective --recompute-modules core_attn mlp layernorm",
    );
    assert_eq!(draft("train.sh", script.leak()).get("recompute"), Some("mlp modules"));
}

/// `_allreduce_word_embedding_grads`: once a step, in the type of gradients.
#[test]
fn ends_of_a_pipeline_sum_a_tied_embedding() {
    let of = |pp: &str, tied: bool, schedule: &str| {
        let keys = [("pp", pp), ("sharding", "zero1, fp32"), ("schedule", schedule)];
        let mut job = job("job.toml", MIXTRAL, &keys);
        job.model.tied = tied;
        let sum = sent(&job).into_iter().find(|s| s.collective == Collective::AllReduce);
        sum.map(|s| (s.part, s.ranks, s.bytes, s.calls))
    };
    let embedding = 4.0 * 32000.0 * 4096.0;
    assert_eq!(of("4", true, "1f1b"), Some(("dp", 2, embedding, 1.0)));
    for (pp, tied, schedule) in [("4", false, "1f1b"), ("1", true, "1f1b"), ("4", true, "zbv")] {
        assert_eq!(of(pp, tied, schedule), None);
    }
}

/// LoRA (arXiv 2106.09685): of Llama 3 8B with rank 16 peft trains 41,943,040 parameters on all products
/// (`print_trainable_parameters`), 6,815,744 on queries and values. Base weights have neither gradients nor states,
/// and their products no gradient of weights.
#[test]
fn adapters_alone_are_trained() {
    let of = |adapters: &str, sharding: &str| {
        let mut draft =
            draft("j.toml", "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 8\n");
        for (key, value) in [("sequence", "4096"), ("global_batch", "8"), ("recompute", "none")] {
            draft.put(key, value).unwrap();
        }
        draft.put("sharding", sharding).unwrap();
        if !adapters.is_empty() {
            draft.put("adapters", adapters).unwrap();
        }
        draft.job(&Machines::new(&BuiltIn), false).unwrap()
    };
    assert_eq!(of("rank 16", "none").trained_params(), 41_943_040.0);
    assert_eq!(of("rank 16 on q_proj, v_proj", "none").trained_params(), 6_815_744.0);
    let pattern = "rank 16 on model.layers.[\\d]+.(mlp|self_attn).(q|v)_proj";
    assert_eq!(of(pattern, "none").trained_params(), 6_815_744.0);
    assert!("rank 16 on model.layers.[0-5].self_attn.q_proj".parse::<Adapters>().is_err());
    // Of Qwen3.5 27B one layer of four has attention of 24 heads of 256 with a gate, the others linear attention.
    let mixed = |adapters: &str| {
        let keys = [("model", "Qwen/Qwen3.5-27B"), ("adapters", adapters)];
        let text = "machine = \"dgx-h100\"\ngpus = 8\nsequence = 4096\nglobal_batch = 8\n";
        job("j.toml", text, &keys).trained_params()
    };
    let (h, q, kv) = (5120.0, 24.0 * 256.0, 4.0 * 256.0);
    let full = (h + 2.0 * q) + 2.0 * (h + kv) + (q + h);
    assert_eq!(mixed("rank 8 on attention"), 16.0 * 8.0 * full);
    let (keys, values) = (16.0 * 128.0, 48.0 * 128.0);
    let linear = (h + 2.0 * keys + 2.0 * values + 2.0 * 48.0) + (values + h);
    let both = 8.0 * (16.0 * full + 48.0 * linear);
    assert_eq!(mixed("rank 8 on attention linear_attn.in_proj_qkvz linear_attn.out_proj"), both);
    assert_eq!(mixed("rank 8"), both + 8.0 * 64.0 * 3.0 * (h + 17408.0));
    let (whole, adapted) = (of("", "none"), of("rank 16", "none"));
    assert_eq!(whole.trained_params(), whole.model.params());
    let (all, few) = (memory(&whole), memory(&adapted));
    let params = whole.model.params();
    assert!((few.parameters / (2.0 * (params + 41_943_040.0)) - 1.0).abs() < 1e-3);
    assert_eq!(few.gradients, 2.0 * 41_943_040.0);
    assert!(few.activations == all.activations && few.optimizer < 0.01 * all.optimizer);
    let bytes = |job: &Job, collective| {
        sent(job).iter().filter(|s| s.collective == collective).map(|s| s.bytes * s.calls).sum()
    };
    let summed: f64 = bytes(&adapted, Collective::AllReduce);
    assert_eq!(summed, 2.0 * 41_943_040.0);
    // FSDP gathers all weights, and scatters the adapters' gradients alone.
    let (sharded, narrow) = (of("rank 16", "fsdp"), of("rank 16", "fsdp, bf16 reduced"));
    let gathered: f64 = bytes(&sharded, Collective::AllGather);
    assert!((gathered / (2.0 * 2.0 * (params + 41_943_040.0)) - 1.0).abs() < 1e-3, "{gathered}");
    let scattered: f64 = bytes(&narrow, Collective::ReduceScatter);
    assert!((scattered / (2.0 * 41_943_040.0) - 1.0).abs() < 1e-9, "{scattered}");
    let mut quantized = of("rank 16", "none");
    quantized.frozen = Weights::read(Some("nf4"), false).unwrap();
    let ends = 2.0 * whole.model.embedding();
    let short = 0.5625 * (params - ends) + 2.0 * ends;
    assert!((memory(&quantized).parameters / short - 1.0).abs() < 0.02);
}

/// LoRA of NVIDIA NeMo 24.12 on eight H100 in FP8 (docs.nvidia.com/nemo-framework/user-guide/24.12, performance): on the
/// products of queries, keys and values, sequences of 4096, 32 of them a step. All are inside the band.
#[test]
fn steps_with_adapters_are_those_of_a_table() {
    for (model, layout, tokens) in [
        ("llama2-7b", "", 24_824.0),
        ("llama2-13b", "", 14_629.0),
        ("llama2-70b", "tp = 2\npp = 4\nchunks_per_stage = 20\n", 2621.0),
    ] {
        let text = format!(
            "model = \"{model}\"\nmachine = \"dgx-h100\"\ngpus = 8\n{layout}sequence = 4096\nglobal_batch = 32\n\
             micro_batch = 1\nprecision = \"fp8\"\nsharding = \"none\"\nadapters = \"rank 16 on linear_qkv\"\n"
        );
        let job = draft("j.toml", text.leak()).job(&Machines::new(&BuiltIn), false).unwrap();
        let found = estimate(&job, &Wires::new(&Registry::builtin(), &job.machine), None).unwrap();
        let published = 32.0 * 4096.0 / 8.0 / tokens;
        assert!(found.low < published && published < found.high, "{model}: {found:?}");
        assert!((found.step / published - 1.0).abs() < 0.15, "{model}: {}", found.step);
    }
}

/// The time is of the recomputation that the memory needs.
#[test]
fn one_answer_is_of_one_run() {
    let text = "model = \"llama3-70b\"\nmachine = \"dgx-h100\"\ngpus = 64\n\
        layout = { tp = 8, dp = 8 }\nsharding = \"zero1\"\n\
        batch = { global = 64, micro = 2, sequence = 16384 }\n";
    let step = |job: &Job| {
        let registry = Registry::builtin();
        let priced = estimate(job, &Wires::new(&registry, &job.machine), None).unwrap();
        (priced.step, priced.high / priced.step)
    };
    let (own, full) = (job("job.toml", text, &[]), job("job.toml", text, &[("recompute", "full")]));
    assert_eq!(own.recompute, memory(&own).recompute);
    assert_eq!((own.recompute, step(&own).0), (Recompute::Full, step(&full).0));
    assert!(step(&own).1 > step(&full).1);
    assert!(own.inferred.iter().any(|line| line.contains("recompute full")), "{:?}", own.inferred);
}

/// megatron/core/transformer/attention.py: a rank of TP has no less than a head of keys and values.
#[test]
fn a_ring_passes_whole_heads() {
    let model = known("qwen3-235b-a22b").unwrap().model.unwrap();
    assert_eq!([1, 4, 8].map(|tp| model.kv_share(tp)), [1024.0, 256.0, 256.0]);
}

/// Keys that nothing reads make another model or machine.
#[test]
fn unknown_widths_are_refused() {
    let of = |widths: &str, machine: &str| {
        let text = format!(
            "gpus = 8\nbatch = {{ global = 8, micro = 1, sequence = 4096 }}\nsharding = \"zero1\"\n\
             [model]\nlayers = 32\nhidden = 4096\nffn = 14336\nheads = 32\nvocab = 32000\n{widths}\n\
             [machine]\nprofile = \"dgx-h100\"\n{machine}\n"
        );
        let found = drafts(&OneText(text.leak()), &["job.toml".to_owned()]);
        found.map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(of("kv_heads = 8", "memory_GB = 80").is_ok());
    for (widths, machine, key) in [
        ("kv_head = 8", "", "kv_head"),
        ("tied = true", "", "tied"),
        ("moe = { experts = 8, top_k = 2, ffn = 14336, shared = 14336 }", "", "shared"),
        ("", "nics = 1", "nics"),
    ] {
        let error = of(widths, machine).unwrap_err();
        assert!(error.contains(&format!("unknown key `{key}`")), "{error}");
    }
}

/// `num_attention_heads` % `tensor_model_parallel_size` (megatron/core/transformer/transformer_config.py).
#[test]
fn tp_divides_heads() {
    let mut typed = Draft::default();
    for (key, value) in [("tp", "3"), ("gpus", "48"), ("sharding", "zero1"), ("global_batch", "64")]
    {
        typed.put(key, value).unwrap();
    }
    let found = typed.over(&draft("job.toml", MIXTRAL)).job(&Machines::new(&BuiltIn), false);
    let error = found.err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("tp 3 does not divide 32 heads"), "{error}");
}

/// `dp = auto` is the rest of the GPUs, whatever the file says; software of before 2023 ran no model with experts or
/// gated layers.
#[test]
fn the_rest_of_the_gpus_and_the_year_of_a_model() {
    let of = |keys: &[(&str, &str)]| {
        let mut typed = Draft::default();
        for (key, value) in keys {
            typed.put(key, *value).unwrap();
        }
        let found = typed.over(&draft("job.toml", MIXTRAL)).job(&Machines::new(&BuiltIn), false);
        found.map_err(|error| error.to_string())
    };
    let refused = of(&[("gpus", "128"), ("dp", "8")]).err().unwrap();
    assert!(refused.contains("dp = auto"), "{refused}");
    let whole = of(&[("gpus", "128"), ("dp", "auto"), ("machine", "dgx-a100")]).unwrap();
    assert_eq!(whole.degrees.gpus(), 128);
    assert!(!whole.early && !whole.unfused_attention);
    let llama = of(&[
        ("gpus", "16"),
        ("model", "llama3-8b"),
        ("machine", "dgx-a100"),
        ("ep", "1"),
        ("dp", "auto"),
    ]);
    let gpt = |year: &str| {
        let text = format!(
            "machine = \"dgx-a100\"\ngpus = 8\nsharding = \"zero1\"\nbatch = {{ global = 8, micro = 1, sequence = 2048 }}\n\
             [model]\nlayers = 32\nhidden = 4096\nffn = 16384\nheads = 32\nvocab = 51200\n{year}"
        );
        job("job.toml", text.leak(), &[]).early
    };
    assert!(!llama.unwrap().early);
    assert!(gpt("gated = false\n") && !gpt("gated = true\n"));
}

/// A chunk has a layer or more: `num_layers` % (pp · chunks) in megatron/training/arguments.py of Megatron-LM.
#[test]
fn chunks_have_layers() {
    let of = |chunks: &str| {
        let mut typed = Draft::default();
        for (key, value) in [("pp", "4"), ("chunks_per_stage", chunks)] {
            typed.put(key, value).unwrap();
        }
        let found = typed.over(&draft("job.toml", MIXTRAL)).job(&Machines::new(&BuiltIn), false);
        found.map(|job| job.degrees.chunks).map_err(|error| error.to_string())
    };
    assert_eq!(of("8"), Ok(8));
    assert!(of("16").unwrap_err().contains("4 stages of 16 chunks for 32 layers"));
}

/// `_batch_assertion` in deepspeed/runtime/config.py.
#[test]
fn a_batch_is_what_its_parts_make() {
    let of = |parts: &str| {
        let text =
            format!(r#"{{"train_batch_size": 64, {parts}, "zero_optimization": {{"stage": 2}}}}"#);
        let mut typed = Draft::default();
        for (key, value) in
            [("machine", "dgx-h100"), ("gpus", "8"), ("sequence", "4096"), ("model", "llama3-8b")]
        {
            typed.put(key, value).unwrap();
        }
        let job = typed.over(&draft("ds.json", text.leak())).job(&Machines::new(&BuiltIn), false);
        job.map(|job| job.micro).map_err(|e| e.to_string())
    };
    let micro = r#""train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps""#;
    assert_eq!(of(&format!("{micro}: 8")), Ok(1));
    assert_eq!(of(r#""gradient_accumulation_steps": 4"#), Ok(2));
    for wrong in [format!("{micro}: 2"), r#""gradient_accumulation_steps": 3"#.to_owned()] {
        let error = of(&wrong).unwrap_err();
        assert!(error.contains("64 sequences are not"), "{error}");
    }
}

/// deepspeed/sequence/layer.py: all-to-alls before attention and behind it, of all tokens of a rank's heads.
#[test]
fn ulysses_exchanges_heads_for_tokens() {
    let ds =
        draft("ds.json", r#"{"zero_optimization": {"stage": 3}, "sequence_parallel_size": 8}"#);
    assert_eq!((ds.get("cp"), ds.get("ulysses"), ds.unread.len()), (Some("8"), Some("true"), 0));
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 16\nrecompute = \"none\"\n\
                sequence = 65536\nglobal_batch = 4\nmicro_batch = 1\nsharding = \"zero3, deepspeed\"\n";
    let of = |cp: &str, ulysses: &str| {
        let job = job("j.toml", text, &[("cp", cp), ("ulysses", ulysses)]);
        let sent: Vec<_> = sent(&job).into_iter().filter(|s| s.part == "cp").collect();
        sent.iter().map(|s| (s.collective, s.ranks, s.bytes, s.calls)).collect::<Vec<_>>()
    };
    // 32 heads of queries and 8 of keys over 8 ranks, two micro-batches of 32 layers.
    let elements = 65536.0 * 128.0 * 2.0 * (32.0 / 8.0 + 1.0);
    assert_eq!(of("8", "true"), [(Collective::AllToAll, 8, elements, 2.0 * 2.0 * 32.0 * 2.0)]);
    assert!(of("8", "false").iter().all(|(collective, ..)| *collective != Collective::AllToAll));
    let swift = "NPROC_PER_NODE=8 swift sft --model Qwen/QwQ-32B --sequence_parallel_size 8 --max_length 65536 \
                 --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --deepspeed zero3\n";
    let found = job("s.sh", swift, &[("machine", "dgx-h100")]);
    assert_eq!((found.degrees.cp, found.degrees.dp, found.global), (8, 1, Some(2)));
    assert!(found.ulysses);
}

/// torchtitan's `_apply_layer_sac`: of so many layers one is recomputed whole, by default of two.
#[test]
fn recomputation_is_printed_as_it_is_read() {
    for text in [
        "none",
        "selective",
        "selective-op",
        "modules",
        "mlp",
        "modules mlp moe",
        "full",
        "block 4",
        "every 3",
        "unstated",
    ] {
        assert_eq!(text.parse::<Recompute>().unwrap().to_string(), text);
    }
}

#[test]
fn torchtitan_recomputes_every_nth_layer() {
    let of = |option: &str| {
        let text = format!("{TITAN}[activation_checkpoint]\nmode = \"selective\"\n{option}");
        let job = job("train.toml", text.leak(), &[("machine", "dgx-h100")]);
        let registry = Registry::builtin();
        let step = estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap().step;
        (job.recompute, step, memory(&job).activations)
    };
    let option = |text: &str| of(&format!("selective_ac_option = \"{text}\"\n"));
    let (all, half, none) = (option("1"), option("2"), of("mode2 = 0\n"));
    assert_eq!(
        (all.0, half.0, option("op").0),
        (Recompute::Full, Recompute::Every(2), Recompute::Operators)
    );
    assert_eq!((half, of("")), (none, half));
    assert!(half.1 < all.1 && option("4").1 < half.1 && all.2 < half.2 && half.2 < option("4").2);
}

/// `--recompute-method block` names layers of a chunk of a stage.
#[test]
fn a_block_recomputes_a_part_of_the_layers() {
    let of = |words: &str| {
        let text = MEGATRON.replace("--swiglu", &format!("--swiglu {words}"));
        let job = job("train.sh", text.leak(), &[("machine", "dgx-h100")]);
        let registry = Registry::builtin();
        let step = estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap().step;
        (step, memory(&job).activations)
    };
    let full = "--recompute-granularity full --recompute-method block --recompute-num-layers";
    let (none, half, all) = (of(""), of(&format!("{full} 16")), of(&format!("{full} 32")));
    assert_eq!(all, of("--recompute-granularity full --recompute-method uniform"));
    assert!((half.0 / (none.0 + all.0) - 0.5).abs() < 0.01, "{none:?} {half:?} {all:?}");
    assert!(all.1 < half.1 && half.1 < none.1);
}

/// A job fits unless the low end of what is reported is above what the GPU has, whatever is counted.
#[test]
fn a_job_fits_unless_the_low_end_of_its_band_does_not() {
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-a100\"\ngpus = 8\nsharding = \"zero1\"\n\
                recompute = \"none\"\nbatch = { global = 8, micro = 1, sequence = 4096 }\n";
    let peak = memory(&job("job.toml", text, &[])).allocated();
    // An allocator keeps no more than tensors leave.
    for (kind, more) in [("max_allocated", 0.0), ("max_reserved", 0.0), ("nvidia-smi", 8e9)] {
        let end = (peak + more) * 0.85;
        for (part, fits) in [(1.01, true), (0.99, false)] {
            let room = (end * part / 1e9).to_string();
            let job = job("job.toml", text, &[("memory_GB", &room), ("memory_kind", kind)]);
            let found = memory(&job);
            let low = found.reported(&job) * 0.85;
            assert_eq!(
                [found.fits(&job), low <= job.device.capacity()],
                [fits; 2],
                "{kind}: {room}"
            );
        }
    }
    let of = |room: &str| {
        let job = job("job.toml", text, &[("memory_GB", room), ("memory_kind", "max_reserved")]);
        memory(&job).reported(&job) / peak
    };
    let tight = (peak * 1.05 / 1e9).to_string();
    assert!((of("1000") - 1.1).abs() < 1e-9 && (of(&tight) - 1.05).abs() < 1e-9);
}

/// What is said of a recomputation that is not given is true of the verdict beside it.
#[test]
fn the_least_that_fits_fits() {
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-a100\"\ngpus = 8\nsharding = \"fsdp2\"\n\
                batch = { global = 16, micro = 2, sequence = 8192 }\n";
    let mut said = std::collections::BTreeSet::new();
    for room in 10..150 {
        let job = job("job.toml", text, &[("memory_GB", &room.to_string())]);
        let why = job.inferred.iter().find(|line| line.starts_with("recompute")).unwrap();
        let (_, why) = why.split_once(": ").unwrap();
        let peak = memory(&job);
        let fits = peak.stated(job.stated) <= job.device.capacity();
        match why {
            "the least that surely fits" => assert!(fits, "{room} GB"),
            "the least with which all tensors fit" => {
                assert!(!fits && peak.allocated() <= job.device.capacity(), "{room} GB");
            }
            _ => assert!(!fits && job.recompute == Recompute::Full, "{room} GB"),
        }
        said.insert(why.to_owned());
    }
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn pytorchs_words_of_sharding_are_read() {
    let of = |sharding: &str, more: &str| {
        let text = format!(
            "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 8\nsharding = \"{sharding}\"\n\
             batch = {{ global = 8, sequence = 4096 }}\n{more}"
        );
        draft("job.toml", text.leak()).job(&Machines::new(&BuiltIn), false)
    };
    let read = |text: &str, more: &str| {
        let job = of(text, more).unwrap();
        (job.sharding.shard, job.sharding.framework, job.reshards())
    };
    let whole = read("SHARD_GRAD_OP", "");
    assert_eq!(whole, (Shard::Gradients, Framework::Fsdp, Reshard::Never));
    assert_eq!(read("FSDP, SHARD_GRAD_OP", "reshard = \"never\""), whole);
    assert_eq!(read("FULL_SHARD", "").2, Reshard::After);
    assert_eq!(read("HYBRID_SHARD", "shard_size = 4\n"), read("FSDP", "shard_size = 4\n"));
    assert_eq!(read("NO_SHARD", "").0, Shard::Nothing);
    let refused = of("SHARD_GRAD_OP", "reshard = \"always\"").err().unwrap();
    assert!(refused.to_string().contains("reshard = \"never\""), "{refused}");
}

#[test]
fn words_of_a_network_are_used_or_refused() {
    let with = |network: &str| {
        let text = format!(
            "model = \"llama3-8b\"\ngpus = 64\nsharding = \"zero1\"\nmachine = {{ device = \"A100\", \
             network = \"{network}\" }}\nbatch = {{ global = 64, sequence = 4096 }}\n"
        );
        draft("job.toml", text.leak()).job(&Machines::new(&BuiltIn), false)
    };
    let sums = |network: &str| {
        let job = with(network).unwrap();
        sent(&job).iter().find(|s| s.part == "dp").unwrap().each
    };
    let slow = sums("8 of 100 Gb/s");
    assert!(slow > 1.8 * sums("8 of 200Gb/s") && slow == sums("8 EDR InfiniBand a node"));
    assert_eq!(slow, sums("800 Gb/s a node"));
    assert!(with("not stated in the table").is_ok());
    for unknown in ["banana", "100 Gb/s Ethernet", "HDR"] {
        let refused = with(unknown).err().unwrap();
        assert_eq!(
            refused.what(),
            format!("`{unknown}` does not say the rate of a node's network")
        );
    }
}

#[test]
fn keys_of_a_server_say_that_it_is_one() {
    let of = |words: &str| {
        draft(
            "job.toml",
            format!("model = \"llama3-8b\"\nmachine = \"dgx-h100\"\n{words}\n").leak(),
        )
    };
    for words in ["engine = \"vllm\"", "context = 8192", "sequences = 8", "weights_type = \"fp8\""]
    {
        let draft = of(words);
        assert!(draft.serves(), "{words}");
        draft.serve(&Machines::new(&BuiltIn)).unwrap_or_else(|e| panic!("{words}: {e}"));
    }
    let batch = "batch = { global = 64, sequence = 4096 }\ngpus = 8\nsharding = \"zero1\"\n";
    let trained = of(&format!("{batch}engine = \"vllm\"\nweights_type = \"fp8\""));
    assert!(!trained.serves());
    assert_eq!(
        trained.unread(),
        ["engine: a key of a server", "weights_type: a key of servers and of adapters"]
    );
    assert!(!of("gpus = 8").serves() && !of("serve = false\nengine = \"vllm\"").serves());
    assert!(!draft("config.json", FP8).serves());
}

/// A server of one sequence of 2,048 tokens does not prefill the 8,192 of its chunk at once; of servers that are
/// divided by phase each runs one.
#[test]
fn a_server_runs_the_prefills_that_it_has() {
    let chunk = |sequences: &str| {
        let text =
            "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\nengine = \"vllm\"\ncontext = 2048\n";
        let mut typed = Draft::default();
        typed.put("sequences", sequences).unwrap();
        let serve = typed.over(&draft("job.toml", text)).serve(&Machines::new(&BuiltIn)).unwrap();
        serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap()
    };
    assert_eq!(["1", "2", "64"].map(|n| chunk(n).chunk), [2048.0, 4096.0, 8192.0]);
    assert!(chunk("1").prefill.time() < 0.4 * chunk("64").prefill.time());
    let runs = |mode: &str| {
        let text = format!(
            "python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B {mode}"
        );
        let serve = serving(&text, "dgx-h100").0;
        [Doing::Decode, Doing::Prefill].map(|phase| serve.runs(phase))
    };
    assert_eq!(runs(""), [true, true]);
    assert_eq!(runs("--disaggregation-mode decode"), [true, false]);
    assert_eq!(runs("--disaggregation-mode prefill"), [false, true]);
}

const FP8: &str = r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "vocab_size": 128256,
    "quantization_config": {"quant_method": "fp8"}}"#;

/// `--checkpoint-activations` of 2021, and the names of 2022 (megatron/arguments.py of Megatron-LM 2.6 to 3.0).
#[test]
fn older_names_of_recomputation_are_read() {
    let of = |words: &str| {
        let text = MEGATRON.replace("--swiglu", words);
        let draft = draft("train.sh", text.leak());
        (draft.get("recompute").unwrap().to_owned(), draft.unread)
    };
    let none = Vec::<String>::new();
    for (words, recompute) in [
        ("--activations-checkpoint-method uniform --activations-checkpoint-num-layers 1", "full"),
        ("--activations-checkpoint-method uniform", "full"),
        ("--checkpoint-activations --checkpoint-num-layers 1", "full"),
        ("--activations-checkpoint-method block --activations-checkpoint-num-layers 3", "block 3"),
        ("--activations-checkpoint-method block", "block 1"),
        ("--activations-checkpoint-granularity selective", "selective"),
        ("--activations-checkpoint-num-layers 1", "none"),
    ] {
        assert_eq!(of(words), (recompute.to_owned(), none.clone()), "{words}");
    }
    let (_, unread) = of("--checkpoint-activations --distribute-checkpointed-activations");
    assert_eq!(unread, ["--distribute-checkpointed-activations"]);
}

const MIXTRAL: &str = "model = \"mistralai/Mixtral-8x7B-v0.1\"\nmachine = \"dgx-h100\"\n\
    gpus = 64\nbatch = { global = 1024, micro = 1, sequence = 4096 }\nrecompute = \"full\"\n";

/// Calls and bytes of the replicas' collectives in a step.
fn replicated(text: &str, keys: &[(&str, &str)], collective: Collective) -> (f64, f64) {
    let job = job("job.toml", text.to_owned().leak(), keys);
    let sent = sent(&job);
    let own = sent.iter().filter(|s| s.part == "dp" && s.collective == collective);
    own.fold((0.0, 0.0), |(calls, bytes), s| (calls + s.calls, bytes + s.calls * s.bytes))
}

/// Experts are gathered with their layers, in each of 16 micro-batches forward and back.
#[test]
fn experts_are_sharded_as_the_rest_is() {
    // Norms and routers' biases are not counted.
    let params = known("mixtral-8x7b").unwrap().model.unwrap().params();
    for sharding in ["zero3, deepspeed", "FSDP2"] {
        let (calls, bytes) = replicated(MIXTRAL, &[("sharding", sharding)], Collective::AllGather);
        assert_eq!(calls, 2.0 * 2.0 * 32.0 * 16.0, "{sharding}");
        assert!((bytes / (2.0 * 16.0 * 2.0 * params) - 1.0).abs() < 1e-4, "{sharding}: {bytes}");
    }
    // In the same sets of shards.
    let job = job("job.toml", MIXTRAL, &[("sharding", "FSDP2"), ("shard_size", "8"), ("ep", "4")]);
    assert_eq!((job.degrees.expert_replicas(), job.expert_shard_size()), (16, 2));
}

/// DeepSpeed's ZeRO 2 sums the gradients of each micro-batch, and its ZeRO 1 and 2 all-reduce them;
/// Megatron's ZeRO 1 scatters the sums once for all.
#[test]
fn zero_1_and_2_sum_gradients_as_their_framework_does() {
    let dense = MIXTRAL.replace("mistralai/Mixtral-8x7B-v0.1", "llama3-8b");
    let calls = |sharding| {
        [Collective::ReduceScatter, Collective::AllReduce]
            .map(|collective| replicated(&dense, &[("sharding", sharding)], collective).0)
    };
    assert_eq!([calls("zero1"), calls("zero2")], [[1.0, 0.0]; 2]);
    // Megatron's is that of its FSDP (`grad_reduce_every_bprop`): 32 units in each micro-batch.
    assert_eq!(calls("megatron zero2"), [32.0 * 16.0, 0.0]);
    assert_eq!(calls("zero1, deepspeed"), [0.0, 1.0]);
    assert_eq!(calls("zero2, deepspeed"), [0.0, 16.0]);
    let apart = r#"{"train_batch_size": 32, "zero_optimization":
        {"stage": 1, "use_multi_rank_bucket_allreduce": false}}"#;
    assert!(draft("ds.json", apart).unread[0].starts_with("use_multi_rank_bucket_allreduce"));
}

/// Megatron divides experts by TP unless told otherwise, torchtitan where it does not spread them.
#[test]
fn experts_are_divided_by_tp() {
    let of = |keys: &[(&str, &str)]| {
        let keys: Vec<_> =
            [("tp", "8"), ("sequence_parallel", "true")].iter().chain(keys).copied().collect();
        let job = job("job.toml", MIXTRAL, &keys);
        (job.degrees.etp, time::held(&job).1)
    };
    let routed = known("mixtral-8x7b").unwrap().model.unwrap().routed_body();
    assert_eq!(of(&[("sharding", "zero1")]), (8, routed / 8.0));
    assert_eq!(of(&[("sharding", "zero1"), ("ep", "2")]), (8, routed / 16.0));
    assert_eq!(of(&[("sharding", "zero1"), ("etp", "1"), ("ep", "8")]), (1, routed / 8.0));
    assert_eq!(of(&[("sharding", "FSDP2")]), (8, routed / 8.0));
    assert_eq!(of(&[("sharding", "FSDP2"), ("ep", "8")]), (1, routed / 8.0));
    // 8 experts over all ranks of TP and two of dp.
    assert_eq!(of(&[("sharding", "zero1"), ("dp", "2"), ("gpus", "16"), ("ep", "8")]).0, 1);
    let script =
        MEGATRON.replace("--swiglu", "--swiglu --num-experts 8 --expert-tensor-parallel-size 1");
    assert_eq!(draft("train.sh", script.leak()).get("etp"), Some("1"));
}

/// A node may have fewer GPUs than the machine's, and an alias of a machine may name another card there.
#[test]
fn a_job_says_how_many_gpus_a_node_has_and_which() {
    const TEXT: &str = "model = \"llama3-8b\"\ngpus = 16\nsharding = \"zero3\"\n\
        batch = { global = 16, micro = 1, sequence = 2048 }\n";
    let of = |keys: &[(&str, &str)]| {
        let mut typed = Draft::default();
        for (key, value) in keys {
            typed.put(key, *value).unwrap();
        }
        typed.over(&draft("job.toml", TEXT)).job(&Machines::new(&BuiltIn), false)
    };
    let registry = Registry::builtin();
    let step = |each: &str| {
        let job = of(&[("machine", "dgx-a100"), ("gpus_per_node", each)]).unwrap();
        estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap().step
    };
    assert!(step("2") > step("4") && step("4") > step("8"));
    let alone = of(&[("machine", "a10-pcie"), ("gpus_per_node", "2")]).unwrap();
    let error = estimate(&alone, &Wires::new(&registry, &alone.machine), None).err().unwrap();
    assert!(error.to_string().contains("need a network"), "{error}");
    let error = of(&[("machine", "a10-pcie"), ("gpus_per_node", "x")]).err().unwrap();
    assert!(error.to_string().contains("gpus_per_node = x"), "{error}");
    let card = |name: &str| of(&[("machine", name)]).unwrap().device.name;
    assert_eq!((card("a10").as_str(), card("a10g").as_str()), ("A10", "A10G"));
}

#[test]
fn impossible_batches_and_words_are_refused() {
    let refused = |keys: &[(&str, &str)]| {
        let mut typed = Draft::default();
        for (key, value) in keys {
            typed.put(key, *value).unwrap();
        }
        let job = typed.over(&draft("job.toml", MIXTRAL)).job(&Machines::new(&BuiltIn), false)?;
        let registry = Registry::builtin();
        estimate(&job, &Wires::new(&registry, &job.machine), None).map(|_| ())
    };
    assert!(refused(&[]).is_ok());
    for key in [
        ("global_batch", "32"),
        ("global_batch", "700"),
        ("recompute", "fulll"),
        ("recompute", "true"),
        ("recompute", "block"),
        ("sequence_parallel", "ture"),
    ] {
        let error = refused(&[key]).expect_err(key.1).to_string();
        assert!(error.contains(key.1), "{error}");
    }
    // FP8 needs Ada or Hopper (Transformer Engine's `check_fp8_support`).
    let error = refused(&[("precision", "fp8"), ("machine", "dgx-a100")]).unwrap_err().to_string();
    assert!(error.contains("precision fp8, which A100"), "{error}");
    assert!(refused(&[("precision", "fp8"), ("machine", "dgx-h100")]).is_ok());
    // An unknown machine is one beside a GPU, too.
    let error = refused(&[("machine", "potato"), ("device", "A800")]).unwrap_err().to_string();
    assert!(error.contains("`potato`"), "{error}");
    assert!(refused(&[("machine", "H100 SXM 80 GB"), ("device", "H100")]).is_ok());
    // Blocks of 4 and 8 bits need Blackwell, bf16 Ampere.
    for (precision, machine, has) in [
        ("nvfp4", "dgx-h100", false),
        ("mxfp8", "dgx-h200", false),
        ("nvfp4", "dgx-b200", true),
        ("mxfp8", "gb200-nvl72", true),
        ("bf16", "dgx-1v", false),
        ("fp16", "dgx-1v", true),
    ] {
        let found = refused(&[("precision", precision), ("machine", machine)]);
        let said = found.err().map(|error| error.to_string());
        assert_eq!(said.is_none(), has, "{precision} on {machine}: {said:?}");
        let why = ["does not have", "has no known rate"];
        assert!(said.is_none_or(|said| why.iter().any(|w| said.contains(w))), "{precision}");
    }
    for text in ["True", "1", "yes"] {
        let keys = [("tp", "2"), ("sequence_parallel", text)];
        assert!(job("job.toml", MIXTRAL, &keys).degrees.sequence);
    }
    assert_eq!(job("job.toml", MIXTRAL, &[("recompute", "false")]).recompute, Recompute::Nothing);
}

/// Products in 4 bits are faster than in 8, in a job's file and from Megatron's flags alike: Megatron-Bridge's tables have
/// 0.67 to 0.68 of the time for Llama 3.1 405B on GB200 and GB300.
#[test]
fn products_in_four_bits_are_faster_than_in_eight() {
    let step = |job: &Job| {
        let registry = Registry::builtin();
        estimate(job, &Wires::new(&registry, &job.machine), None).unwrap().step
    };
    const LLAMA: &str = "model = \"llama3-405b\"\ngpus = 256\nrecompute = \"none\"\n\
        layout = { tp = 4, pp = 8, sequence_parallel = true, chunks_per_stage = 4 }\n\
        batch = { global = 1536, micro = 1, sequence = 8192 }\n";
    for machine in ["gb200-nvl72", "gb300-nvl72"] {
        let of =
            |precision| job("job.toml", LLAMA, &[("machine", machine), ("precision", precision)]);
        let gain = step(&of("nvfp4")) / step(&of("mxfp8"));
        assert!((0.6..0.8).contains(&gain), "{machine}: {gain}");
        assert!(of("nvfp4").inferred.iter().any(|line| line.contains("in FP4")));
        assert!(!of("mxfp8").inferred.iter().any(|line| line.contains("in FP4")));
    }
}

/// A rank with one expert runs a plain product, and in the body's precision (Grok-1's experts gain by FP8 what dense
/// layers do: NVIDIA/dgxc-benchmarking, grok1/README.md); those of several are grouped.
#[test]
fn the_only_expert_of_a_rank_is_a_plain_product() {
    let stage = |ep: &str, precision: &str| {
        let keys = [("ep", ep), ("precision", precision), ("dispatcher", "alltoall")];
        stages(&job("job.toml", MIXTRAL, &keys)).slowest
    };
    let gain = |ep: &str| stage(ep, "bf16") / stage(ep, "fp8");
    assert!(stage("8", "bf16") < 0.85 * stage("4", "bf16"));
    assert!(gain("8") > 1.3 && gain("4") < 1.2, "{} {}", gain("8"), gain("4"));
}

/// Layers of experts whose kernels the host launches one by one were published to take up to 18 ms
/// (awslabs/awsome-distributed-ai: Qwen3-30B on H100, 17.4 ms): the band reaches there, and the answer says it.
#[test]
fn the_band_reaches_layers_that_wait_for_their_host() {
    const QWEN: &str = "model = \"qwen3-30b-a3b\"\nmachine = \"dgx-h100\"\ngpus = 32\nsharding = \"zero1\"\n\
        layout = { tp = 8, pp = 2, ep = 16, etp = 1, sequence_parallel = true, chunks_per_stage = 1 }\n\
        batch = { global = 64, micro = 1, sequence = 4096 }\nrecompute = \"none\"\n";
    let of = |graphs: Option<&str>| {
        let keys: Vec<(&str, &str)> = graphs.map(|g| ("cuda_graphs", g)).into_iter().collect();
        let (job, registry) = (job("job.toml", QWEN, &keys), Registry::builtin());
        let found = estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap();
        let said = job.inferred.iter().any(|line| line.contains("CUDA graphs"));
        (found.step, found.high, said)
    };
    let (step, high, said) = of(Some("false"));
    let (times, layers) = (32.0 + 1.0, 24.0);
    assert!(high > 0.9 * times * layers * 18e-3 && said, "{high}");
    for graphs in [None, Some("true")] {
        let (same, narrow, said) = of(graphs);
        assert!(same == step && narrow < 0.7 * high && !said, "{graphs:?}: {narrow}");
    }
}

/// DualPipe has two stages on a rank (arXiv 2412.19437, table 2), and folded only one.
#[test]
fn dualpipe_keeps_its_parameters_twice() {
    let of = |schedule| {
        let job =
            job("job.toml", MIXTRAL, &[("pp", "8"), ("sharding", "zero1"), ("schedule", schedule)]);
        let Memory { parameters, gradients, optimizer, .. } = memory(&job);
        (parameters, gradients, optimizer)
    };
    let (one, both) = (of("1f1b"), of("dualpipe"));
    assert_eq!(both, (2.0 * one.0, 2.0 * one.1, one.2));
    assert_eq!(of("dualpipev"), one);
    let whole = |schedule| {
        let job =
            job("job.toml", MIXTRAL, &[("pp", "8"), ("sharding", "none"), ("schedule", schedule)]);
        memory(&job).optimizer
    };
    assert_eq!(whole("dualpipe"), 2.0 * whole("1f1b"));
}

/// Each of a rank's two stages is summed, over the ranks of both of its holders.
#[test]
fn dualpipe_sums_two_stages_over_both_holders() {
    let sent = |schedule: &str| {
        let keys = [("pp", "4"), ("sharding", "zero1"), ("schedule", schedule)];
        let job = job("job.toml", MIXTRAL, &keys);
        let sent = sent(&job);
        let dp = sent.into_iter().filter(|sent| sent.part == "dp");
        dp.map(|sent| (sent.collective, sent.bytes, sent.ranks, sent.calls)).collect::<Vec<_>>()
    };
    let (one, both) = (sent("1f1b"), sent("dualpipe"));
    assert!(one.len() >= 2, "{one:?}");
    let twice =
        one.into_iter().map(|(what, bytes, ranks, calls)| (what, bytes, 2 * ranks, 2.0 * calls));
    assert_eq!(both, twice.collect::<Vec<_>>());
}

#[test]
fn offloading_is_said_to_be_free() {
    let job = job("job.toml", MIXTRAL, &[("sharding", "zero3, deepspeed, offload")]);
    assert!(job.inferred.iter().any(|line| line.contains("offload")), "{:?}", job.inferred);
}

/// MaxText's recipe of Llama 3.1 70B on 256 v6e: what a device keeps of 80 layers is 54 GB, and it has 34.
#[test]
fn inputs_of_layers_that_wait_in_the_hosts_memory_leave_the_chips() {
    let of = |recompute| {
        let text = "model = \"meta-llama/Llama-3.1-70B\"\nmachine = \"tpu-v6e\"\ngpus = 256\nsequence = 8192\n\
                    micro_batch = 5\nglobal_batch = 1280\nsharding = \"FSDP2\"\n";
        job("job.toml", text, &[("recompute", recompute)])
    };
    let (kept, left) = (of("full"), of("full, offloaded"));
    assert_eq!(left.recompute.to_string(), "full, offloaded");
    assert!((left.compiled, left.compiled_loss) == (true, true), "XLA compiles whole steps");
    assert_eq!(stages(&kept).mean, stages(&left).mean);
    assert!(!memory(&kept).fits(&kept) && memory(&left).fits(&left));
    let inputs = 80.0 * 5.0 * 8192.0 * 8192.0 * 2.0;
    assert!(memory(&kept).allocated() - memory(&left).allocated() > inputs);
}

#[test]
fn torchtitans_sets_of_shards_include_context_and_what_is_left() {
    let sets = |shard: i32, cp: u32| {
        let text = format!(
            "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n\
             seq_len = 8192\n[parallelism]\ndata_parallel_replicate_degree = 4\n\
             data_parallel_shard_degree = {shard}\ncontext_parallel_degree = {cp}\n"
        );
        let job = job("train.toml", text.leak(), &[("machine", "dgx-h100"), ("gpus", "32")]);
        (job.degrees.dp, job.shard_size)
    };
    assert_eq!([sets(8, 1), sets(-1, 1)], [(32, 8); 2]);
    assert_eq!([sets(4, 2), sets(-1, 2)], [(16, 8); 2]);
}

#[test]
fn deepspeed_overlaps_what_its_stage_does() {
    let exposed = |stage: u32, comm: &str| {
        let text = format!(
            r#"{{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1,
                "zero_optimization": {{"stage": {stage}{comm}}}}}"#
        );
        let set = [("model", "llama3-8b"), ("gpus", "32"), ("sequence", "4096")];
        let mut typed = Draft::default();
        for (key, value) in set.iter().chain(&[("machine", "dgx-h100")]) {
            typed.put(key, *value).unwrap();
        }
        let typed = beside(&BuiltIn, "", typed).unwrap();
        let job = typed.over(&draft("ds.json", text.leak())).job(&Machines::new(&BuiltIn), false);
        let job = job.unwrap_or_else(|e| panic!("{e}"));
        let registry = Registry::builtin();
        estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap().exposed()
    };
    let (on, off) = (r#", "overlap_comm": true"#, r#", "overlap_comm": false"#);
    // Stage 2 hides the sums of gradients alone, and nothing unless it is set.
    assert!(exposed(2, "") == exposed(2, off) && exposed(2, on) < 0.7 * exposed(2, off));
    // Stage 3 hides both unless it is switched off.
    assert!(exposed(3, "") == exposed(3, on) && exposed(3, on) < 0.3 * exposed(3, off));
}

/// FSDP gathers for the forward pass beside that pass, and all else, sums too, beside the backward one.
#[test]
fn fsdp_hides_sums_beside_the_backward_pass() {
    let hidden = |words: &str| {
        let (_, computed, parts) = slow_links(&format!(
            "model = \"llama3-8b\"\ngpus = 64\nsharding = \"fsdp2\"\n\
             batch = {{ global = 64, micro = 1, sequence = 1024 }}\n{words}"
        ));
        parts.iter().find(|p| p.what == "dp").unwrap().hidden / computed
    };
    assert!((hidden("") - 1.0).abs() < 1e-6);
    // With copies that are kept, only sums are left for the backward pass, and they take longer than that.
    assert!((hidden("reshard = \"never\"\n") - 1.0).abs() < 1e-6);
    // Sums of sets on a node each: gathers take less than the forward pass.
    let near = hidden("shard_size = 8\n");
    assert!((0.67..0.95).contains(&near), "{near}");
}

/// Of the ten collectives of TP in a layer with sequence parallelism, Megatron overlaps two gathers and two
/// scatters of the backward pass with products, and a tenth of them still delays these.
#[test]
fn megatron_overlaps_the_backward_pass_of_columns() {
    let hidden = |sharding: &str| {
        let text = format!(
            "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 8\nsharding = \"{sharding}\"\n\
             layout = {{ tp = 8, sequence_parallel = true }}\n\
             batch = {{ global = 8, micro = 1, sequence = 8192 }}\nrecompute = \"none\"\n"
        );
        let job = job("job.toml", text.leak(), &[]);
        let registry = Registry::builtin();
        let wires = Wires::new(&registry, &job.machine);
        let found = estimate(&job, &wires, None).unwrap();
        let tp = found.parts.into_iter().find(|p| p.what == "tp").unwrap();
        tp.hidden / (tp.hidden + tp.seconds)
    };
    // Gathers and scatters of the same bytes take about the same time.
    assert!((hidden("zero1") - 0.36).abs() < 0.02, "{}", hidden("zero1"));
    assert_eq!(hidden("fsdp2"), 0.0);
}

/// Parts of a step of a job whose links are slower than its GPUs: computation, and what is hidden of each message.
fn slow_links(words: &str) -> (Job, f64, Vec<Part>) {
    let text = format!("machine = \"a2-ultragpu-8g\"\nrecompute = \"none\"\n{words}");
    let job = job("job.toml", text.leak(), &[]);
    let registry = Registry::builtin();
    let parts = estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap().parts;
    let computes = |p: &&Part| ["compute", "uneven stages"].contains(&p.what);
    (job, parts.iter().filter(computes).map(|p| p.seconds).sum(), parts)
}

#[test]
fn no_more_is_hidden_than_is_computed() {
    let small =
        "batch = { global = 128, micro = 1, sequence = 1024 }\nmodel = \"llama3-8b\"\ngpus = 64\n";
    let hidden = |words: &str| -> (f64, f64, f64) {
        let (job, computed, parts) = slow_links(words);
        let all: f64 = parts.iter().map(|p| p.hidden).sum();
        assert!(all > 0.0 && all <= computed * 1.0001, "{all} beside {computed}: {words}");
        let dp = parts.iter().find(|p| p.what == "dp").unwrap();
        (dp.hidden, dp.seconds, computed / job.microbatches())
    };
    // Sums run beside the last of two micro-batches, and gathers beside the first.
    for sharding in ["zero1", "none", "deepspeed zero1"] {
        let (all, _, one) =
            hidden(&format!("{small}sharding = \"{sharding}\"\noverlap = [\"dp\"]\n"));
        let (sums, _, _) =
            hidden(&format!("{small}sharding = \"{sharding}\"\noverlap = [\"gradients\"]\n"));
        assert!(all <= one * 1.0001 && sums < 0.7 * one, "{sharding}: {all}, {sums} of {one}");
    }
    for sharding in ["fsdp2", "zero3", "megatron zero2", "deepspeed zero2"] {
        hidden(&format!("{small}sharding = \"{sharding}\"\noverlap = [\"dp\"]\n"));
    }
    hidden(
        "model = \"deepseek-v3\"\ngpus = 256\nlayout = { pp = 4, ep = 64 }\nsharding = \"zero1\"\n\
         overlap = [\"ep\", \"dp\", \"pp\"]\nbatch = { global = 512, micro = 1, sequence = 4096 }\n",
    );
}

const TITAN: &str = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n\
    seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 16\n";

/// What gathers parameters again for the backward pass, and how many bytes stay between the passes.
#[test]
fn parameters_are_gathered_again_as_is_stated() {
    let seen = |text: &str, keys: &[(&str, &str)]| {
        let keys: Vec<_> =
            [("machine", "dgx-h100")].into_iter().chain(keys.iter().copied()).collect();
        let job = job("train.toml", text.to_owned().leak(), &keys);
        let registry = Registry::builtin();
        let wires = Wires::new(&registry, &job.machine);
        let sent = estimate(&job, &wires, None).unwrap().sent;
        let gathers =
            sent.iter().filter(|s| s.part == "dp" && s.collective == Collective::AllGather);
        let gathers: Vec<(u32, f64)> = gathers.map(|s| (s.ranks, s.calls)).collect();
        (gathers, memory(&job).allocated())
    };
    let stated = |word: &str| format!("{TITAN}fsdp_reshard_after_forward = \"{word}\"\n");
    // The weights of norms, a thirty-thousandth, are not counted.
    let (params, layers) = (8_030_261_248.0, 32.0);
    let (gathers, shards) = seen(&stated("always"), &[]);
    assert_eq!(gathers, [(16, 2.0 * layers)]);
    assert_eq!(seen(&stated("default"), &[]), (gathers, shards));
    let (gathers, whole) = seen(&stated("never"), &[]);
    assert_eq!(gathers, [(16, layers)]);
    assert!(((whole - shards) / (2.0 * params) - 1.0).abs() < 1e-4, "{whole} {shards}");
    // A copy over the eight ranks of a node, as ZeRO++ keeps it.
    let (gathers, copy) = seen(TITAN, &[("reshard", "8")]);
    assert_eq!(gathers, [(16, layers), (8, layers)]);
    assert!(((copy - shards) / (2.0 * params / 8.0) - 1.0).abs() < 1e-4, "{copy} {shards}");

    // In a pipeline of four micro-batches what is gathered stays, unless it is said otherwise.
    let deep = TITAN.replace("local_batch_size = 1", "local_batch_size = 4")
        + "pipeline_parallel_degree = 2\n";
    let stage = layers / 2.0;
    assert_eq!(seen(&deep, &[]).0, [(16, 1.0)]);
    assert_eq!(seen(&deep, &[("reshard", "always")]).0, [(16, 2.0 * stage * 4.0)]);

    let hpz = "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 8}}";
    assert_eq!(draft("ds.json", hpz).get("reshard"), Some("8"));
}

#[test]
fn torchtitans_degrees_and_batches_are_its_own() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"405B\"\nconverters = [\"float8\"]\n[training]\n\
        batch_size = 32\nseq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 8\n\
        tensor_parallel_degree = 8\npipeline_parallel_degree = 8\n\
        pipeline_parallel_schedule = \"Interleaved1F1B\"\nenable_async_tensor_parallel = true\n\
        [activation_checkpoint]\nmode = \"full\"\n";
    let job = job("train.toml", text, &[("machine", "dgx-h100")]);
    assert_eq!((job.degrees.gpus(), job.microbatches(), job.micro), (512, 32.0, 1));
    assert_eq!((job.recompute, job.precision), (Recompute::Full, Precision::Fp8));
    assert!(job.overlap.tp && job.degrees.chunks == 2);
    // Options of FP8 do not switch it on.
    let options = text.replace("converters = [\"float8\"]", "# converters = [\"float8\"]")
        + "[quantize.linear.float8]\nenable_fsdp_float8_all_gather = false\n";
    assert_eq!(draft("train.toml", options.leak()).get("precision"), Some("bf16"));
}

/// `apply_moe_ep_tp`: a layer's input is gathered once for all experts and its sums are scattered once. Experts that TP
/// divides are sent all tokens by each of its ranks, others a part.
#[test]
fn torchtitans_experts_gather_tokens_once() {
    let all = |etp: u32| {
        let text = format!(
            "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n\
             [parallelism]\ntensor_parallel_degree = 2\nexpert_parallel_degree = 4\n\
             expert_tensor_parallel_degree = {etp}\n[activation_checkpoint]\nmode = \"none\"\n"
        );
        let job = job("train.toml", text.leak(), &[("machine", "dgx-h100"), ("gpus", "8")]);
        let found = sent(&job);
        // 48 layers: attention and experts, forward and backward.
        let tp: Vec<_> = found.iter().filter(|s| s.part == "tp").collect();
        assert_eq!(tp.len(), 2, "{tp:?}");
        assert!(
            tp.iter().all(|s| s.calls == 4.0 * 48.0 && s.bytes == 4096.0 * 2048.0 * 2.0),
            "{tp:?}"
        );
        found.iter().find(|s| s.part == "ep").unwrap().bytes
    };
    let copies = 4096.0 * 8.0 * 2048.0 * 2.0;
    assert_eq!((all(1), all(2)), (copies / 2.0, copies));
}

/// Degrees as files of 2024 have them (commit 08e53794, train_configs/llama3_70b.toml).
#[test]
fn torchtitans_earlier_sections_are_read() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nbatch_size = 8\n\
        seq_len = 8192\ndata_parallel_degree = -1\ntensor_parallel_degree = 8\n[experimental]\n\
        pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"gpipe\"\n";
    let job = job("train.toml", text, &[("machine", "dgx-h100"), ("gpus", "64")]);
    let d = job.degrees;
    assert_eq!((d.tp, d.pp, d.dp, job.micro, job.microbatches()), (8, 4, 2, 2, 4.0));
    assert_eq!(job.schedule, Schedule::GPipe);
}

#[test]
fn what_deepspeed_leaves_to_the_trainer_is_asked_for() {
    let text = r#"{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}"#;
    let draft = draft("ds.json", text);
    let refused = draft.job(&Machines::new(&BuiltIn), false).err().unwrap();
    for name in ["train_batch_size", "train_micro_batch_size_per_gpu", "model", "gpus", "sequence"]
    {
        assert!(refused.what().contains(name), "{name}: {refused}");
    }
}

/// A GPT on early GPUs, as Korthikanti et al. count it (arXiv 2205.05198, figure 1).
fn gpt(layers: u32, hidden: u32, heads: u32, pp: u32, chunks: u32) -> String {
    format!(
        "layout = {{ tp = 8, pp = {pp}, dp = 1, chunks_per_stage = {chunks} }}\n\
         batch = {{ global = 1024, micro = 1, sequence = 2048 }}\nsharding = \"none, fp32\"\n\
         recompute = \"none\"\n[model]\nlayers = {layers}\nhidden = {hidden}\nffn = {}\n\
         heads = {heads}\nvocab = 51200\ngated = false\n[machine]\nprofile = \"dgx-a100\"\n",
        4 * hidden
    )
}

#[test]
fn activations_are_those_of_their_paper() {
    let cases = [
        (gpt(96, 12288, 96, 8, 3), 66.84375, 12.351562),
        (gpt(128, 25600, 160, 64, 1), 131.25, 26.5625),
    ];
    for (text, whole, selective) in cases {
        let text: &'static str = text.leak();
        let mut job = job("row.toml", text, &[]);
        let gib = |job: &Job| memory(job).activations / f64::from(1 << 30);
        assert!((gib(&job) / whole - 1.0).abs() < 1e-3, "{} GiB", gib(&job));
        job.degrees.sequence = true;
        job.recompute = Recompute::Selective;
        assert!((gib(&job) / selective - 1.0).abs() < 1e-3, "{} GiB", gib(&job));
    }
}

/// A search prices every layout once: no layout that it left out is faster and fits.
#[test]
fn a_search_finds_what_trying_everything_finds() {
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 16\nsharding = \"zero1\"\n\
        batch = { global = 64, sequence = 8192 }\n";
    let job = job("job.toml", text, &[]);
    let registry = Registry::builtin();
    let wires = Wires::new(&registry, &job.machine);
    let pins = Pins::default();
    for gigabytes in [40.0, 80.0] {
        let found = search(&job, &wires, (16, gigabytes * 1e9), &pins, None).unwrap();
        let fits = |job: &Job| memory(job).stated(Stated::Reserved) <= gigabytes * 1e9;
        let all = layouts(&job, 16, wires.domain(), &pins).all;
        let steps = all.iter().filter(|job| fits(job));
        let steps = steps.map(|job| estimate(job, &wires, None).unwrap().step);
        let least = steps.fold(f64::INFINITY, f64::min);
        assert!(found.pareto[0].priced.step <= 1.005 * least, "{gigabytes} GB");
        let mut memories = found.pareto.iter().map(|f| f.memory.allocated());
        assert!(memories.by_ref().is_sorted_by(|a, b| a > b));
        assert!(found.pareto.iter().all(|f| fits(&f.job)));
    }
    assert!(search(&job, &wires, (16, 1e9), &pins, None).is_err());
}

/// A measured step of the job itself is what is expected then, and narrows the band.
#[test]
fn an_anchor_meets_its_own_measurement() {
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 8\nsharding = \"zero1\"\n\
        batch = { global = 64, micro = 1, sequence = 8192 }\n";
    let job = job("job.toml", text, &[]);
    let registry = Registry::builtin();
    let wires = Wires::new(&registry, &job.machine);
    let plain = estimate(&job, &wires, None).unwrap();
    let slower = anchored(&job, &wires, 1.2 * plain.step).unwrap();
    let held = estimate(&job, &wires, Some(slower)).unwrap();
    assert!((held.step / plain.step - 1.2).abs() < 1e-6 && slower > 1.2);
    assert!(held.high / held.low < plain.high / plain.low);
    for times in [0.2, 5.0] {
        let error = anchored(&job, &wires, times * plain.step).unwrap_err();
        assert!(error.to_string().contains("no rate of kernels"), "{error}");
    }
}

/// A script runs with today's Megatron, whose attention is fused from Ampere on; a run in figures with that of
/// its year.
#[test]
fn a_script_on_a100_runs_fused() {
    let of = |more: &str, machine| {
        let text = MEGATRON.replace("--swiglu", &format!("--swiglu {more}"));
        let precision = if machine == "dgx-1v" { "fp16" } else { "bf16" };
        let job = job("train.sh", text.leak(), &[("machine", machine), ("precision", precision)]);
        (job.unfused_attention, memory(&job).gradients / memory(&job).parameters)
    };
    let newer = of("", "dgx-h100");
    for (more, machine, unfused) in [
        ("", "dgx-a100", false),
        ("--attention-backend auto", "dgx-a100", false),
        ("--attention-backend unfused", "dgx-a100", true),
        ("--transformer-impl local", "dgx-a100", true),
        ("--transformer-impl local --use-flash-attn", "dgx-a100", false),
        ("", "dgx-1v", true),
        ("--attention-backend unfused", "dgx-h100", true),
    ] {
        assert_eq!(of(more, machine), (unfused, newer.1), "{more} {machine}");
    }
    assert_ne!(of("--checkpoint-activations", "dgx-a100"), of("", "dgx-a100"));
    let zero = r#"{"zero_optimization": {"stage": 2}, "train_batch_size": 64}"#;
    assert!(draft("zero.json", zero).starts);
}

/// A budget names a job's configuration, and judges its time or its memory.
#[test]
fn budgets_know_jobs() {
    use crate::base::error::Result;
    use crate::machine::profile::Profile;
    use crate::plan::check::{Options, Standing, check};
    struct Two;
    impl Files for Two {
        fn profile(&self, name: &str) -> Result<Profile> {
            Profile::builtin(name)
        }

        fn text(&self, path: &str) -> Result<String> {
            Ok(match path {
                "configs/train.sh" => MEGATRON.to_owned(),
                _ => "[[budget]]\nname = \"time\"\nfrom = \"configs/train.sh\"\nprofile = \"dgx-h100\"\n\
                      max_time = \"1s\"\n[[budget]]\nname = \"memory\"\nfrom = \"configs/train.sh\"\n\
                      profile = \"dgx-h100\"\nset = \"micro_batch=2\"\nmax_memory = \"200GB\"\n"
                    .to_owned(),
            })
        }

        fn matching(&self, _: &str) -> Result<Vec<String>> {
            Ok(Vec::new())
        }
    }
    let checked = check(&Two, "collcost.toml", &Options::default());
    assert!(checked.faults.is_empty(), "{:?}", checked.faults);
    let standing: Vec<Standing> = checked.outcomes.iter().map(|o| o.standing).collect();
    assert_eq!(standing, [Standing::Fails, Standing::Holds]);
    assert_eq!(checked.outcomes[1].value.unit(), "bytes");
}

/// A server has no training step.
#[test]
fn a_server_is_no_job() {
    let mut typed = Draft::default();
    typed.put("machine", "dgx-h100").unwrap();
    let draft = typed.over(&draft("serve.sh", "vllm serve meta-llama/Llama-3.1-70B --tp 8"));
    let error = draft.job(&Machines::new(&BuiltIn), false).err().unwrap().to_string();
    assert!(error.contains("start a server") && error.contains("decode"), "{error}");
}

/// A server's arguments say which kernels carry tokens to experts: those measured inside a node, and
/// bytes over nodes. All-reduces are those of the server.
#[test]
fn a_server_runs_the_kernels_of_its_arguments() {
    let served = |more: &'static str, keys: &[(&str, &str)]| {
        let text: &'static str =
            Box::leak(format!("vllm serve deepseek-ai/DeepSeek-V3 {more}").into_boxed_str());
        let mut typed = Draft::default();
        typed.put("machine", "dgx-h200").unwrap();
        for (key, value) in keys {
            typed.put(key, *value).unwrap();
        }
        let machines = Machines::new(&BuiltIn);
        let serve = typed.over(&draft("serve.sh", text)).serve(&machines)?;
        serve.priced(&Wires::new(&Registry::builtin(), &serve.machine))
    };
    let node =
        "--data-parallel-size 8 --enable-expert-parallel --all2all-backend deepep_low_latency";
    let low = served(node, &[]).unwrap();
    let normal = served(node, &[("all2all", "deepep-normal")]).unwrap();
    assert_eq!(
        (low.decode.moved, normal.prefill.moved),
        (Some("deepep-ll"), Some("deepep-normal"))
    );
    // What each kind is for.
    assert!(low.decode.time() < normal.decode.time());
    assert!(normal.prefill.time() < low.prefill.time());
    let nodes =
        "--data-parallel-size 16 --enable-expert-parallel --all2all-backend deepep_low_latency";
    let slow = served(nodes, &[("machine", "dgx-a100")]).unwrap().decode;
    assert_eq!((slow.moved, slow.unmeasured), (None, Some("deepep-ll")));
    assert!(slow.messages.low < slow.messages.time && slow.messages.time < slow.messages.high);
    // 16 rows of 7,168 columns are below FlashInfer's 512 KiB, 256 rows above.
    let by = |sequences| {
        let keys = [("sequences", sequences), ("context", "4096")];
        let served = served("--tensor-parallel-size 8", &keys);
        served.unwrap().decode.reduced.unwrap().backend
    };
    assert_eq!((by("16"), by("256")), ("flashinfer-mnnvl", "symm-mem"));
    for wrong in [("all2all", "deepep"), ("engine", "vlm")] {
        assert!(served(node, &[wrong]).is_err(), "{wrong:?}");
    }
    assert!(low.handing.is_some_and(|seconds| seconds > 0.0));
}

/// A server and its prices.
fn serving(text: &str, machine: &str) -> (Serve, Served) {
    serving_with(text, &[("machine", machine)])
}

/// The same with these keys.
fn serving_with(text: &str, keys: &[(&str, &str)]) -> (Serve, Served) {
    let mut typed = Draft::default();
    for (key, value) in keys {
        typed.put(key, *value).unwrap();
    }
    let draft = typed.over(&draft("serve.sh", text.to_owned().leak()));
    let serve = draft.serve(&Machines::new(&BuiltIn)).unwrap_or_else(|e| panic!("{text}: {e}"));
    let served = serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap();
    (serve, served)
}

/// Layers with linear attention have a state of a sequence instead of a cache of its tokens. Of Qwen3.5-397B-A17B 15 of 60
/// layers keep keys and values of two heads of 256; 45 have 64 heads of 128 x 128, and what a convolution over 12,288
/// channels needs of three tokens.
#[test]
fn linear_attention_keeps_a_state_instead_of_tokens() {
    let of = |more: &str| {
        let start = "vllm serve Qwen/Qwen3.5-397B-A17B-FP8 -tp 8 --max-num-seqs 64";
        serving(&format!("{start} {more}"), "dgx-h200")
    };
    let (serve, served) = of("--max-model-len 65536");
    assert_eq!(served.cache_a_token, 15.0 * 2.0 * 2.0 * 256.0 / 2.0 * 2.0);
    let latest = 2.0 * 12288.0 * 3.0;
    let state = |each: f64| 45.0 * (each * 64.0 * 128.0 * 128.0 + latest) / 8.0;
    assert_eq!(served.state, state(4.0));
    assert_eq!(of("--mamba-ssm-cache-dtype bfloat16").1.state, state(2.0));
    let tokens = served.sequences * 32768.0;
    let peak = served.weights + serve.beside() + tokens * served.cache_a_token + 64.0 * state(4.0);
    assert!((serve.peak(&served)[1] / peak - 1.0).abs() < 1e-12, "{peak}");
    // A state is read and written for each token.
    let short = |context: &str| of(&format!("--max-model-len {context}")).1.decode.busy;
    let read = served.cache_a_token * 64.0 * 32768.0 * 0.5;
    let apart = (short("65536") - short("32768")) * serve.device.reading();
    assert!((apart / read - 1.0).abs() < 1e-9, "{apart} {read}");
    // Prompts are attended to by a quarter of the layers.
    assert_eq!(serve.model.cores(1e4), 15.0 * 32.0 * 256.0);
    // By name it has the widths of its configuration; the 27B's heads are not for 32 ranks.
    let refused = draft("serve.sh", "vllm serve Qwen/Qwen3.5-27B -tp 24 --max-model-len 4096");
    let mut typed = Draft::default();
    typed.put("machine", "gb200-nvl72").unwrap();
    let refused = typed.over(&refused).serve(&Machines::new(&BuiltIn)).err().unwrap();
    assert!(refused.to_string().contains("16 heads of linear attention"), "{refused}");
}

/// Nemotron 3 Nano as vLLM keeps it (`mamba2_state_shape`, vllm/model_executor/layers/mamba/mamba_utils.py): 6 of its 52
/// layers have keys and values of two heads of 128; 23 have states of 64 heads of 64 x 128 in 32 bits, and of three tokens
/// 4,096 channels and twice eight groups of 128.
#[test]
fn a_state_space_keeps_a_state_of_its_heads() {
    let text = "vllm serve nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 -tp 2 --max-model-len 8192";
    let (serve, served) = serving(text, "dgx-h100");
    assert_eq!(served.cache_a_token, 6.0 * 2.0 * 2.0 * 128.0 * 2.0 / 2.0);
    assert_eq!(served.state, 23.0 * (4.0 * 64.0 * 64.0 * 128.0 + 2.0 * 3.0 * 6144.0) / 2.0);
    assert!(says(&serve, "29 layers are counted: its own 52"));
    // Weights in 16 bits: latents of Super are on both ranks.
    let weights = |name: &str| {
        let text = format!("vllm serve nvidia/{name} -tp 2 --max-model-len 8192");
        serving(&text, "dgx-b200").1.weights
    };
    let latents = 40.0 * 2.0 * 4096.0 * 1024.0;
    let held = weights("NVIDIA-Nemotron-3-Super-120B-A12B-BF16");
    assert!((held - (120.67e9 + latents)).abs() < 0.1e9, "{held}");
    // Two feed-forward parts in a row are of no layer.
    let odd = r#"{"model_type": "nemotron_h", "hybrid_override_pattern": "M--*"}"#;
    let refused = drafts(&OneText(odd), &["config.json".to_owned()]).unwrap_err();
    assert!(refused.to_string().contains("layers_block_type"), "{refused}");
}

/// Kimi Delta Attention: 2.78 trillion parameters of K3, as its users count them, and the 48 billion of Kimi Linear's name,
/// of which 3 are active; a latent of 24 of its 93 layers, and states of 96 heads in 32 bits (`kda_state_shape`,
/// vllm/model_executor/layers/mamba/mamba_utils.py).
#[test]
fn kimi_delta_attention_has_a_decay_of_each_channel() {
    let near = |found: f64, stated: f64| (found / stated - 1.0).abs();
    let three = draft(
        "config.json",
        r#"{"model_type": "kimi_k3", "text_config": {"model_type": "kimi_linear", "attn_res_block_size": 12, "first_k_dense_replace": 1, "hidden_size": 7168, "intermediate_size": 33792, "kv_lora_rank": 512, "latent_moe_use_norm": true, "linear_attn_config": {"head_dim": 128, "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31, 33, 34, 35, 37, 38, 39, 41, 42, 43, 45, 46, 47, 49, 50, 51, 53, 54, 55, 57, 58, 59, 61, 62, 63, 65, 66, 67, 69, 70, 71, 73, 74, 75, 77, 78, 79, 81, 82, 83, 85, 86, 87, 89, 90, 91], "num_heads": 96, "short_conv_kernel_size": 4, "use_full_rank_gate": true}, "mla_use_output_gate": true, "moe_intermediate_size": 3072, "num_attention_heads": 96, "num_experts": 896, "num_experts_per_token": 16, "num_hidden_layers": 93, "num_key_value_heads": 96, "num_shared_experts": 2, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "routed_expert_hidden_size": 3584, "v_head_dim": 128, "vocab_size": 163840}}"#,
    );
    let said = |what: &str| three.inferred.iter().any(|note| note.contains(what));
    assert!(said("earlier residuals"), "{:?}", three.inferred);
    let model = three.model.unwrap();
    assert!(near(model.params(), 2.78e12) < 1e-3, "{}", model.params());
    let by_name = known("Kimi-K3").unwrap();
    assert_eq!(by_name.get("state_type"), Some("float32"));
    let by_name = by_name.model.unwrap();
    assert!(near(by_name.params(), model.params()) < 1e-5);
    assert_eq!(model.cache(1e4, 2.0, |_| 1.0), 24.0 * 576.0 * 2.0);
    let latest = 2.0 * 3.0 * 3.0 * 96.0 * 128.0;
    assert_eq!(model.states(4.0), 69.0 * (4.0 * 96.0 * 128.0 * 128.0 + latest));
    let linear = r#"{"model_type": "kimi_linear", "first_k_dense_replace": 1, "hidden_size": 2304, "intermediate_size": 9216, "kv_lora_rank": 512, "linear_attn_config": {"head_dim": 128, "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26], "num_heads": 32, "short_conv_kernel_size": 4}, "moe_intermediate_size": 1024, "num_attention_heads": 32, "num_experts": 256, "num_experts_per_token": 8, "num_hidden_layers": 27, "num_key_value_heads": 32, "num_shared_experts": 1, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840}"#;
    let linear = draft("config.json", linear).model.unwrap();
    let by_name = known("moonshotai/Kimi-Linear-48B-A3B-Instruct").unwrap().model.unwrap();
    assert!((by_name.params() / linear.params() - 1.0).abs() < 1e-5, "{}", by_name.params());
    assert_eq!((by_name.linear, by_name.attention), (linear.linear, linear.attention));
    assert!(near(linear.params(), 48e9) < 0.025, "{}", linear.params());
    assert!(near(linear.active() - linear.embedding(), 3e9) < 0.04, "{}", linear.active());
}

/// Layers by a letter are those of Nemotron: the flags of Nemotron 3 Nano make the parameters of its files.
#[test]
fn megatron_has_layers_by_a_letter() {
    let of = |more: &str| {
        let text = format!(
            "torchrun --nproc_per_node 8 pretrain_hybrid.py --bf16 --hidden-size 2688 --num-attention-heads 32 \
             --group-query-attention --num-query-groups 2 --kv-channels 128 --num-experts 128 --moe-router-topk 6 \
             --ffn-hidden-size 1856 --moe-shared-expert-intermediate-size 3712 --mamba-num-heads 64 --vocab-size 131072 \
             --untie-embeddings-and-output-weights --disable-bias-linear --seq-length 8192 --micro-batch-size 1 \
             --global-batch-size 64 --tensor-model-parallel-size 1 {more}\n"
        );
        draft("train.sh", text.leak())
    };
    let pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
    let nano = of(&format!("--hybrid-layer-pattern {pattern}")).model.unwrap();
    assert_eq!(nano.params(), 31_577_940_288.0);
    let staged = pattern.replacen("EMEMEM", "EMEM|EM", 1);
    let staged = of(&format!("--hybrid-layer-pattern \"{staged}/*E\"")).model.unwrap();
    assert_eq!(staged, nano);
    let wide = of(&format!("--hybrid-layer-pattern {pattern} --swiglu")).model.unwrap();
    let experts = 23.0 * (128.0 * 2688.0 * 1856.0 + 2688.0 * 3712.0);
    assert_eq!(wide.params() - nano.params(), experts);
    let said = of(&format!("--hybrid-layer-pattern {pattern}")).inferred;
    assert!(said.is_empty(), "{said:?}");
    let text = "torchrun --nproc_per_node 8 pretrain_hybrid.py --hidden-size 2048 --num-attention-heads 16 \
                --tensor-model-parallel-size 1 --hybrid-layer-pattern M-M*-\n";
    let said = draft("train.sh", text).inferred;
    assert!(said.iter().any(|one| one.contains("the tokenizer is not read")), "{said:?}");
    for odd in ["M---M*", "MGM*"] {
        let open = of(&format!("--hybrid-layer-pattern {odd}"));
        assert!(open.model.is_none() && open.asked[0].starts_with("model (--hybrid-layer-pattern"));
    }
}

/// Megatron-LM's flags of gated delta nets, with its defaults.
#[test]
fn megatron_has_layers_with_linear_attention() {
    let of = |more: &str| {
        let flags =
            format!("--bf16 --attention-output-gate --experimental-attention-variant {more}");
        let text = MEGATRON.replace("--bf16", &flags);
        drafts(&OneText(text.leak()), &["train.sh".to_owned()])
    };
    let model = |more: &str| of(more).unwrap().remove(0).draft.model.unwrap();
    let linear = model("gated_delta_net --linear-attention-freq 4").linear.unwrap();
    let layers = model("gdn --linear-attention-freq 2").layers;
    assert_eq!((linear.layers, linear.key_heads), (layers - layers / 4, 16));
    let all = format!("gdn --linear-attention-freq ([1]*{layers}) --linear-num-value-heads 48");
    let linear = model(&all).linear.unwrap();
    assert_eq!((linear.layers, linear.value_heads), (layers, 48));
    assert!(of("gdn --linear-attention-freq ([1]*3)").is_err());
    assert_eq!(model("dsa").linear, None);
    // Widths that only a run decides are asked for.
    for open in [
        "gdn --linear-attention-freq $X",
        "gdn",
        "gdn --linear-attention-freq 4 --linear-num-value-heads $N",
    ] {
        let asked = of(open).unwrap().remove(0).draft.asked;
        assert!(asked[0].starts_with("model (--linear-"), "{open}: {asked:?}");
    }
    let text =
        MEGATRON.replace("--bf16", "--bf16 --num-experts 0 --make-vocab-size-divisible-by 0");
    assert_eq!(draft("a.sh", text.leak()).model.unwrap().experts, None);
    let deepspeed = |experts: &str| {
        let flags = format!("--bf16 --deepspeed --num-experts {experts}");
        draft("a.sh", MEGATRON.replace("--bf16", &flags).leak())
    };
    assert_eq!(deepspeed("1").model.unwrap().experts, None);
    assert_eq!(deepspeed("64").model.unwrap().experts.map(|e| (e.layers, e.top_k)), Some((16, 1)));
    assert!(deepspeed("64 64 128").asked[0].contains("--num-experts 64 64 128"));
}

/// A flag that takes the engine's own kernels away, and flags without a price, which the answer names.
#[test]
fn a_server_without_its_own_kernels_takes_the_librarys() {
    let vllm =
        "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 8 --max-model-len 8192 --max-num-seqs 16";
    let sglang = "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B-Instruct --tp 8 \
                  --context-length 8192 --max-running-requests 16";
    for start in [vllm, sglang] {
        let decode = |more: &str| serving(&format!("{start} {more}"), "dgx-a100").1.decode;
        let custom = |phase: Phase| phase.reduced.is_some_and(|k| k.backend.contains("custom"));
        let (own, other) = (decode(""), decode("--disable-custom-all-reduce"));
        assert!(custom(own) && !custom(other), "{start}");
        assert!(other.messages.time > 1.3 * own.messages.time, "{start}: {other:?}");
        for flag in ["--enforce-eager", "--disable-cuda-graph", "--dtype float32"] {
            let serve = serving(&format!("{start} {flag}"), "dgx-a100").0;
            assert!(serve.inferred.iter().any(|said| said.contains("priced with")), "{flag}");
        }
    }
}

/// vLLM's order is DP x PP x TP (vllm/distributed/parallel_state.py): experts of a stage are on both nodes.
#[test]
fn stages_are_between_the_groups_of_a_stage() {
    let prefill = |more: &str| {
        let start = "vllm serve Qwen/Qwen3-235B-A22B -tp 4 -dp 2 --enable-expert-parallel --max-model-len 8192";
        serving(&format!("{start} {more}"), "dgx-h200").1.prefill.messages.time
    };
    let (one, two) = (prefill(""), prefill("-pp 2"));
    assert!(two > 1.4 * one, "{one} {two}");
}

/// vLLM 0.33: models/qwen3_moe.py gathers after the experts, whatever carried the tokens;
/// models/deepseek_v2.py scatters what attention gives, and gathers before the next.
#[test]
fn vllm_gathers_after_experts_by_any_exchange() {
    let normal = "--enable-expert-parallel --all2all-backend deepep_high_throughput -tp 4 -dp 2";
    let text = format!("vllm serve Qwen/Qwen3-235B-A22B {normal} --max-model-len 8192");
    let prefill = serving(&text, "dgx-h200").1.prefill.messages.time;
    assert!((prefill - 0.1085).abs() < 0.002, "{prefill}");
    let of = |engine: &str| {
        let mut typed = Draft::default();
        typed.put("machine", "dgx-h200").unwrap();
        typed.put("engine", engine).unwrap();
        let text = format!("vllm serve deepseek-ai/DeepSeek-V3 {normal}");
        let draft = typed.over(&draft("serve.sh", text.leak()));
        let serve = draft.serve(&Machines::new(&BuiltIn)).unwrap();
        let served = serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap();
        served.prefill.messages.time
    };
    let (older, newest) = (of("vllm@0.14.0"), of("vllm@0.33.0"));
    assert!(newest < 0.95 * older, "{older} {newest}");
}

/// SGLang: attention alone is divided into groups (`--enable-dp-attention`); a dense FFN is over all of TP.
#[test]
fn dense_layers_are_over_all_groups_that_attend_apart() {
    let text = "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B-Instruct --tp 8 --dp 8 \
                --enable-dp-attention --context-length 8192";
    let (serve, served) = serving(text, "dgx-h100");
    assert!((served.weights / 1e9 - 40.7).abs() < 0.5 && serve.fits(&served), "{}", served.weights);
    assert!(served.decode.messages.time > 0.0 && served.decode.moved.is_none());
}

/// vllm/config/model.py, `verify_with_parallel_config`, and layers/linear.py; sglang/srt/models/qwen3.py.
#[test]
fn tp_divides_the_heads_of_a_server() {
    let refused = |engine: &str, tp: &str| {
        let mut typed = Draft::default();
        for (key, value) in [("serve", "true"), ("engine", engine), ("tp", tp)] {
            typed.put(key, value).unwrap();
        }
        let text = "machine = \"dgx-h100\"\n[model]\nlayers = 48\nhidden = 5120\nffn = 13824\nheads = 40\n\
                    kv_heads = 8\nvocab = 152064\n";
        let served = typed.over(&draft("job.toml", text)).serve(&Machines::new(&BuiltIn));
        served.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for engine in ["vllm", "sglang"] {
        for tp in ["1", "2", "4", "8", "40"] {
            assert_eq!(refused(engine, tp), "", "{engine} {tp}");
        }
        assert!(refused(engine, "16").contains("the 40 heads of attention"));
        assert!(refused(engine, "3").contains("the 40 heads of attention"));
        assert!(refused(engine, "5").contains("8 heads of keys and values"));
    }
}

/// vllm/engine/arg_utils.py: short names, readable numbers; the image starts the same server.
#[test]
fn a_server_is_the_same_by_other_spellings() {
    let facts = |text: &str| serving(text, "dgx-h100").0.facts();
    let long = facts(
        "vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 8 --data-parallel-size 2 \
         --pipeline-parallel-size 2 --decode-context-parallel-size 1 --quantization fp8 \
         --max-model-len 131072 --max-num-batched-tokens 16000",
    );
    for (start, rest) in [
        ("vllm serve meta-llama/Llama-3.3-70B-Instruct", ""),
        ("vllm serve", "meta-llama/Llama-3.3-70B-Instruct"),
        (
            "docker run --gpus all -p 80:80 vllm/vllm-openai:v1 meta-llama/Llama-3.3-70B-Instruct",
            "",
        ),
        ("docker run vllm/vllm-openai --model meta-llama/Llama-3.3-70B-Instruct", ""),
    ] {
        let flags =
            "-tp 8 -dp 2 -pp=2 -dcp 1 -q fp8 --max-model-len 128K --max-num-batched-tokens 16k";
        assert_eq!(facts(&format!("{start} {flags} {rest}")), long, "{start}");
    }
    let (serve, _) = serving("vllm serve llama3-8b -tp 2 -pcp 2 --max-model-len auto", "dgx-h100");
    let named = |what: &str| serve.inferred.iter().any(|said| said.contains(what));
    assert!(
        named("context parallelism of prefills") && named("half of the 131072"),
        "{:?}",
        serve.inferred
    );
}

/// Experts are divided over the ranks of all groups that share them, which vLLM's data parallelism and
/// SGLang's data-parallel attention do; their tokens are gathered for it.
#[test]
fn groups_share_their_experts() {
    let sglang = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 \
                  --context-length 8192 --max-running-requests 512 --enable-dp-attention --mem-fraction-static 0.9";
    let vllm = "vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --max-model-len 8192 --max-num-seqs 64";
    let spread = format!("{vllm} -ep");
    // SGLang divides dense layers, shared experts and the head over all of TP (sglang/srt/models/deepseek_v2.py):
    // 11.41 + 0.11 + (1.19 + 2.55)/8 of attention, routers and these, 0.93 + 0.93/8 in 16 bits, 653.9/8 of experts.
    for (text, weights) in [(sglang, 95.8e9), (vllm, 100.8e9), (&spread, 100.8e9)] {
        let (serve, served) = serving(text, "dgx-h200");
        assert!((served.weights / weights - 1.0).abs() < 0.01, "{text}: {}", served.weights);
        assert_eq!((serve.tp, serve.dp, serve.sequences), (1, 8, 64), "{text}");
        assert_eq!(served.decode.moved, Some("allgather-reducescatter"), "{text}");
        assert!(served.decode.messages.time > 1e-3, "{text}");
    }
    // The ranks of all groups share the head, whose logits they gather: 133 MB.
    let (mut serve, served) = serving(sglang, "dgx-h200");
    serve.model.vocab = 1024;
    let few = serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap();
    assert!(served.decode.messages.time > few.decode.messages.time + 2e-4);
    // With DeepEP's kernels every rank has shared experts whole: 11.41 + 0.11 + 1.19/16 + 2.55, and 653.9/16.
    let deepep = sglang.replace("--tp 8 --dp 8", "--tp 16 --dp 16 --moe-a2a-backend deepep");
    let (_, served) = serving(&deepep, "dgx-h200");
    assert!((served.weights / 57.0e9 - 1.0).abs() < 0.01, "{}", served.weights);
    // DeepEP's kernels need expert parallelism.
    let narrow = format!("{vllm} --all2all-backend deepep_low_latency");
    assert_eq!(serving(&narrow, "dgx-h200").0.exchange, Exchange::Gather);
    // Copies of all tokens of a prompt are more than one of each on every rank.
    let copies =
        serving(&format!("{spread} --all2all-backend pplx"), "dgx-h200").1.prefill.messages;
    assert!(serving(&spread, "dgx-h200").1.prefill.messages.time < copies.time);
    // SGLang's replicas without data-parallel attention share nothing, and have the requests each.
    let (serve, _) = serving(
        "python3 -m sglang.launch_server --model-path llama3-70b --tp 4 --dp 2 --max-running-requests 128",
        "dgx-h100",
    );
    assert_eq!((serve.gpus(), serve.sequences), (8, 128));
}

/// Products of experts have the price of training's: narrow parts of them take longer.
#[test]
fn a_servers_experts_are_as_slow_as_in_training() {
    let prefill = |more: &str| {
        let text = format!("vllm serve qwen3-30b-a3b -tp 8 --max-num-batched-tokens 65536 {more}");
        serving(&text, "dgx-h100").1.prefill.busy
    };
    // 96 of 768 channels of each, or an eighth of whole experts.
    let (cut, whole) = (prefill(""), prefill("--enable-expert-parallel"));
    assert!(cut > 1.1 * whole, "{cut} {whole}");
}

/// vllm/v1/worker/gpu_model_runner.py, `logits_indices`: of a prompt only the last token has logits.
#[test]
fn a_prompt_has_the_logits_of_one_token() {
    let text = "vllm serve llama3-8b -tp 8 --max-model-len 8192 --max-num-batched-tokens 8192 --max-num-seqs 64";
    let (mut serve, whole) = serving(text, "dgx-h100");
    serve.model.vocab = 1024;
    let few = serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap();
    assert!((whole.prefill.time() / few.prefill.time() - 1.0).abs() < 0.005);
    assert!(whole.decode.busy > 1.02 * few.decode.busy);
}

/// vllm/model_executor/layers/fused_moe/all2all_utils.py: DeepEP's kernels take tokens to experts in FP8 if these are
/// in FP8; what is gathered is quantized before.
#[test]
fn tokens_go_to_experts_in_the_type_of_these() {
    let sent = |backend: &str, groups: u32, more: &str, machine: &str| {
        let text = format!(
            "vllm serve Qwen/Qwen3-30B-A3B -dp {groups} -ep --all2all-backend {backend} --max-model-len 4096 \
             --max-num-batched-tokens 4096 {more}"
        );
        serving(&text, machine)
    };
    for (backend, groups, machine) in [
        ("deepep_high_throughput", 8, "dgx-h200"),
        ("deepep_low_latency", 8, "dgx-h200"),
        ("deepep_high_throughput", 16, "dgx-h100"),
        ("allgather_reducescatter", 8, "dgx-h200"),
    ] {
        let [long, short] =
            ["", "-q fp8"].map(|more| sent(backend, groups, more, machine).1.prefill.messages.time);
        assert!(long > 1.1 * short, "{backend} {groups}: {long} {short}");
    }
    // Earlier releases gather 16 bits.
    let (mut serve, short) = sent("allgather_reducescatter", 8, "-q fp8", "dgx-h200");
    serve.engine = Some("vllm@0.24.0".to_owned());
    let long = serve.priced(&Wires::new(&Registry::builtin(), &serve.machine)).unwrap();
    assert!(long.prefill.messages.time > 1.1 * short.prefill.messages.time);
}

/// Without data parallelism neither engine has an exchange of tokens by default: TP's all-reduce adds
/// what the experts of all ranks give.
#[test]
fn one_group_reduces_what_its_experts_give() {
    let collectives = |more: &str| {
        let vllm = format!("vllm serve deepseek-ai/DeepSeek-V3 -tp 16 --max-model-len 8192 {more}");
        serving(&vllm, "dgx-h200").1.decode
    };
    let plain = collectives("");
    assert_eq!((collectives("-ep").messages, plain.moved), (plain.messages, None));
    assert_eq!(collectives("-ep --all2all-backend deepep_low_latency").messages, plain.messages);
    let sglang = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8";
    let of = |more: &str| serving(&format!("{sglang} {more}"), "dgx-h200").1;
    assert_eq!(of("--ep 8").decode.messages, of("").decode.messages);
    // Ranks of TP that share experts divide each.
    assert_eq!(of("--ep 2").weights, of("--ep 8").weights);
    assert_eq!(of("--moe-a2a-backend deepep").decode.moved, Some("deepep-ll"));
}

/// A chunk is of all groups of SGLang's data-parallel attention, and holds prompts of at most the
/// longest length.
#[test]
fn chunks_hold_prompts() {
    let sglang = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 32 --dp 32 \
                  --ep-size 32 --enable-dp-attention --chunked-prefill-size 524288 --context-length 8192";
    assert_eq!(serving(sglang, "dgx-h200").0.chunk, 16384);
    let refused = |text: String| {
        let machine = draft("job.toml", "machine = \"dgx-h200\"\nmodel = \"deepseek-v3\"\n");
        let asked = draft("serve.sh", text.leak()).over(&machine);
        asked.serve(&Machines::new(&BuiltIn)).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert!(refused(format!("{sglang} --dp 0")).contains("not a count"));
    let replicas = sglang.replace("--enable-dp-attention", "--tp 100000 --dp 100000");
    assert!(refused(replicas).contains("too many GPUs"));
    let default = sglang.replace("--chunked-prefill-size 524288", "");
    assert_eq!(serving(&default, "dgx-h200").0.chunk, 256);
    let busy = |chunk: u32| {
        let text =
            format!("vllm serve llama3-8b --max-model-len 8192 --max-num-batched-tokens {chunk}");
        serving(&text, "dgx-h100").1.prefill.busy
    };
    assert!((busy(131_072) / busy(8192) - 16.0).abs() < 1e-9);
    assert!(busy(8192) / busy(4096) > 2.0);
}

/// vllm/config/parallel.py: DCP gives each rank a part of the tokens of what is otherwise the same on all.
#[test]
fn decode_context_parallelism_divides_the_cache() {
    let of = |model: &str, dcp: u32| {
        serving(&format!("vllm serve {model} -tp 8 -dcp {dcp} --max-model-len 8192"), "dgx-h200").1
    };
    let (whole, parts) = (of("deepseek-ai/DeepSeek-V3", 1), of("deepseek-ai/DeepSeek-V3", 8));
    assert!((whole.cache_a_token / parts.cache_a_token - 8.0).abs() < 1e-9);
    assert!(parts.decode.messages.time > whole.decode.messages.time);
    // Four heads of keys and values are divided by four ranks as they are.
    let cache = |dcp| of("Qwen/Qwen3-30B-A3B", dcp).cache_a_token;
    assert!((cache(1) / cache(2) - 2.0).abs() < 1e-9);
    assert_eq!(cache(2), cache(4));
}

/// Of fewer heads of keys and values than ranks several ranks have the same, and all have the products to latents;
/// a stage of a pipeline has one of the embedding and the head.
#[test]
fn what_tp_does_not_divide_is_on_every_rank() {
    let weights = |text: &str| serving(&format!("vllm serve {text}"), "dgx-h200").1.weights;
    // Llama 3.1 70B: 80 layers of two products of 8192 x 1024, on 16 ranks an eighth in place of a 16th.
    let (eight, sixteen) = (weights("llama3-70b -tp 8"), weights("llama3-70b -tp 16"));
    let copies = 80.0 * 2.0 * 8192.0 * 1024.0 / 16.0 * 2.0;
    assert!((sixteen - eight / 2.0 - copies).abs() < 1e6, "{eight} {sixteen}");
    // DeepSeek-V3: 61 layers of 7168 x (1536 + 576), a byte each.
    let (one, two) =
        (weights("deepseek-ai/DeepSeek-V3 -tp 8"), weights("deepseek-ai/DeepSeek-V3 -tp 16"));
    let copies = 61.0 * 7168.0 * 2112.0;
    assert!((2.0 * two - one - copies).abs() < 1e6, "{one} {two}");
    // Two stages: half of the layers, and of 128256 x 8192 twice the larger.
    let stages = weights("llama3-70b -tp 8 -pp 2");
    let end = 128_256.0 * 8192.0 / 8.0 * 2.0;
    assert!((stages - (eight - 2.0 * end) / 2.0 - end).abs() < 1e6, "{stages}");
}

/// vllm/distributed/parallel_state.py: each rank of TP sends its part of the hidden states and of the residual.
#[test]
fn stages_pass_parts_of_two_tensors() {
    let prefill = |pp: u32| {
        let text = format!("vllm serve llama3-70b -tp 8 -pp {pp} --max-num-batched-tokens 8192");
        let (serve, served) = serving(&text, "dgx-h200");
        (serve.machine.clone(), served.prefill.messages.time)
    };
    let (machine, two) = prefill(2);
    let (_, four) = prefill(4);
    let registry = Registry::builtin();
    let wires = Wires::new(&registry, &machine);
    let width = 8192.0 * 8192.0 * 2.0;
    let among = |world, ranks, stride| Among { world, group: Group::new(ranks, stride) };
    let hop = |world| {
        let sent = wires.span(Collective::SendRecv, among(world, 2, 8), width / 8.0).unwrap().time;
        let gathered = wires.span(Collective::AllGather, among(world, 8, 1), width).unwrap().time;
        2.0 * (sent + gathered)
    };
    let more = four - two - (3.0 * hop(32) - hop(16));
    assert!(more.abs() < 0.02 * four, "{two} {four}");
}

/// The safetensors of DeepSeek-R1-0528-NVFP4 hold 396.8e9 elements of a byte or more; W4AFP8 has
/// experts in 4 bits and the rest in FP8.
#[test]
fn four_bits_have_scales_and_are_not_of_all_weights() {
    let weights = |text: &str| serving(&format!("vllm serve {text}"), "dgx-h200").1.weights;
    let nvfp4 = weights("nvidia/DeepSeek-R1-0528-NVFP4 -tp 4");
    assert!(nvfp4 > 99e9 && nvfp4 < 103e9, "{nvfp4}");
    let w4afp8 = weights("deepseek-ai/DeepSeek-V3 -tp 8 -q w4afp8");
    let fp8 = weights("deepseek-ai/DeepSeek-V3 -tp 8 -q fp8");
    assert!(
        (w4afp8 / 45e9 - 1.0).abs() < 0.03 && (fp8 / 84e9 - 1.0).abs() < 0.03,
        "{w4afp8} {fp8}"
    );
    // Embeddings stay in 16 bits.
    assert!((weights("llama3-8b -q fp8") - (8.03e9 + 1.05e9)).abs() < 0.01e9);
}

/// What nobody measured well has a wider band.
#[test]
fn experts_on_blackwell_have_a_wider_band() {
    let half = |machine| {
        let job = job("job.toml", MIXTRAL, &[("machine", machine), ("sharding", "zero1")]);
        let registry = Registry::builtin();
        let found = estimate(&job, &Wires::new(&registry, &job.machine), None).unwrap();
        (found.high / found.step).ln()
    };
    assert!((half("gb200-nvl72") / half("dgx-h100") - 0.44 / 0.28).abs() < 1e-9);
}

struct Two(&'static [(&'static str, &'static str)]);

impl Files for Two {
    fn profile(&self, name: &str) -> crate::base::error::Result<crate::machine::profile::Profile> {
        crate::machine::profile::Profile::builtin(name)
    }

    fn text(&self, path: &str) -> crate::base::error::Result<String> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        Ok(found.unwrap_or_else(|| panic!("{path}")).1.to_owned())
    }

    fn matching(&self, _: &str) -> crate::base::error::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

const QWEN: &str = r#"{"model_type": "qwen3", "num_hidden_layers": 64, "hidden_size": 5120,
    "intermediate_size": 25600, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960}"#;

/// trtllm-serve's arguments, below the YAML that it names or that its script writes.
#[test]
fn tensorrt_llms_server_is_read() {
    const SERVE: &str =
        "trtllm-serve nvidia/DeepSeek-R1-FP4 --tp_size 8 --ep_size 8 --max_batch_size 256";
    const YAML: &str = "enable_attention_dp: true\ncuda_graph_config:\n  enable_padding: true\n  max_batch_size: 64
kv_cache_config:\n  dtype: fp8 # short\n  free_gpu_memory_fraction: 0.8\nspeculative_config:\n  decoding_type: MTP\n";
    const WRITES: &str = "MODEL=openai/gpt-oss-120b\ncat > o.yml <<EOF\nmax_batch_size: 16\nmoe_config:\n  backend: TRTLLM
EOF\ntrtllm-serve serve --port 8000 ${MODEL} --tp_size 4 --max_num_tokens 4096 --config o.yml";
    let files = Two(&[
        ("a.sh", SERVE),
        (
            "b.sh",
            "trtllm-serve nvidia/DeepSeek-R1-FP4 --tp_size 8 --ep_size 8 --extra_llm_api_options o.yml",
        ),
        ("c.sh", WRITES),
        ("d.sh", "trtllm-serve llama3-8b --tp_size 4 &\ntrtllm-serve llama3-70b --tp_size 8 &"),
        ("o.yml", YAML),
    ]);
    let two = drafts(&files, &["d.sh".to_owned()]).unwrap_err().to_string();
    assert!(two.contains("it starts 2 servers"), "{two}");
    let of = |name: &str| {
        let found = drafts(&files, &[name.to_owned()]).unwrap().remove(0).draft;
        let mut typed = Draft::default();
        typed.put("machine", "dgx-b200").unwrap();
        typed.over(&found).serve(&Machines::new(&files)).unwrap()
    };
    let plain = of("a.sh");
    assert_eq!(plain.engine.as_deref(), Some("tensorrt-llm"));
    assert_eq!((plain.tp, plain.dp, plain.ep, plain.exchange), (8, 1, 8, Exchange::Reduce));
    assert_eq!(
        (plain.sequences, plain.chunk, plain.utilization, plain.cache),
        (256, 8192, 0.9, 2.0)
    );
    // NVFP4 by the name.
    assert_eq!(plain.weights.experts.bytes, 0.5625);
    let apart = of("b.sh");
    assert_eq!((apart.tp, apart.dp, apart.ep, apart.exchange), (1, 8, 8, Exchange::Gather));
    // Not the batch of its graphs.
    assert_eq!((apart.sequences, apart.utilization, apart.cache), (2048, 0.8, 1.0));
    let says = |serve: &Serve, what: &str| serve.inferred.iter().any(|note| note.contains(what));
    assert!(says(&apart, "without speculative decoding") && !says(&plain, "speculative"));
    // Of what weights leave, half.
    let text =
        "trtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 8 --kv_cache_free_gpu_memory_fraction 0.5";
    let (half, served) = serving(text, "dgx-h200");
    let free = half.device.capacity() - half.beside() - served.weights;
    assert!(half.fits(&served) && (half.room(served.weights)[1] - free / 2.0).abs() < 1.0);
    let writes = of("c.sh");
    assert_eq!((writes.model.layers, writes.tp), (36, 4));
    assert_eq!((writes.sequences, writes.chunk), (16, 4096));
}

/// A config.json beside a launch describes its model, in any order; of a known name it must be that model's.
#[test]
fn a_configuration_describes_what_a_launch_names() {
    let files = Two(&[
        ("a.sh", "vllm serve Qwen/Qwen3-32B -tp 2 --max-num-seqs 64"),
        ("b.sh", "vllm serve acme/own-32b -tp 2"),
        ("known.sh", "vllm serve meta-llama/Llama-3.1-8B-FP8 -tp 2"),
        (
            "tt.toml",
            "[model]\nname = \"qwen3\"\nflavor = \"32B\"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n",
        ),
        ("job.toml", "from = \"a.sh, qwen.json\"\nmachine = \"dgx-h100\"\n"),
        ("qwen.json", QWEN),
        (
            "llama.json",
            r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}"#,
        ),
    ]);
    let machines = Machines::new(&files);
    let of = |names: &[&str], set: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut typed = Draft::default();
        for pair in set.split(' ').chain(["machine=dgx-h100"]).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap();
            typed.put(key, value).unwrap();
        }
        beside(&files, "", typed).unwrap().over(&drafts(&files, &names).unwrap()[0].draft)
    };
    for (names, set) in [
        (&["a.sh", "qwen.json"][..], ""),
        (&["qwen.json", "a.sh"], ""),
        (&["job.toml"], ""),
        (&["a.sh"], "model=qwen.json"),
        (&["known.sh"], "model=qwen.json"),
    ] {
        assert_eq!(of(names, set).serve(&machines).unwrap().model.layers, 64, "{names:?} {set}");
    }
    assert_eq!(of(&["a.sh"], "model=llama3-8b").serve(&machines).unwrap().model.layers, 32);
    let job = of(&["tt.toml", "qwen.json"], "gpus=8").job(&machines, false).unwrap();
    assert_eq!(job.model.layers, 64);
    // The same widths; the name says how weights are stored where the file does not.
    let same = of(&["known.sh", "llama.json"], "").serve(&machines).unwrap();
    assert_eq!((same.model.layers, same.weights.experts.bytes), (32, 1.0));
    let refused = |names: &[&str]| of(names, "").serve(&machines).err().unwrap().to_string();
    let error = refused(&["qwen.json", "known.sh"]);
    assert!(
        error.contains("32 layers of 4096 channels") && error.contains("qwen.json has 64"),
        "{error}"
    );
    assert_eq!(of(&["a.sh"], "").serve(&machines).unwrap().model.layers, 64);
    assert!(refused(&["b.sh"]).contains("the widths of `acme/own-32b` are not known"));
}

/// Weights of 4 bits meet activations of 16 (Marlin), so their products run at the rate of 16 bits.
#[test]
fn weights_alone_in_four_bits_multiply_no_faster() {
    let of = |method: &str| {
        let text = format!(
            "vllm serve llama3-70b -tp 4 --max-model-len 8192 --max-num-seqs 64 -q {method}"
        );
        serving(&text, "dgx-h100").1
    };
    let plain = serving("vllm serve llama3-70b -tp 4 --max-model-len 8192", "dgx-h100").1;
    assert_eq!(of("awq").prefill.busy, plain.prefill.busy);
    assert!(of("fp8").prefill.busy < 0.7 * plain.prefill.busy);
    assert!(of("awq").weights < 0.3 * plain.weights);
    // vLLM's modelopt is FP8, its bitsandbytes NF4.
    assert_eq!(of("modelopt").weights, of("fp8").weights);
    assert!((of("bitsandbytes").weights / 10.7e9 - 1.0).abs() < 0.01);
    let text = "vllm serve llama3-70b -tp 4 --quantization compressed-tensors";
    let mut typed = Draft::default();
    typed.put("machine", "dgx-h100").unwrap();
    let refused = typed.over(&draft("serve.sh", text)).serve(&Machines::new(&BuiltIn));
    assert!(refused.err().unwrap().to_string().contains("config.json"));
}

/// Of layers with a window the cache keeps the latest tokens: 36 KiB a token of gpt-oss-120b and 4.5 MiB.
#[test]
fn windows_bound_the_cache() {
    let of = |context: u32| {
        let text =
            format!("vllm serve openai/gpt-oss-120b --max-model-len {context} --max-num-seqs 8");
        serving(&text, "dgx-h100").1.cache_a_token * f64::from(context / 2)
    };
    let kib = 1024.0;
    for context in [8192, 131_072] {
        let expected = 36.0 * kib * f64::from(context / 2) + 18.0 * 128.0 * 2.0 * kib;
        assert!((of(context) / expected - 1.0).abs() < 1e-9, "{context}");
    }
    let gemma = r#"{"model_type": "gemma3_text", "num_hidden_layers": 62, "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024"#;
    let layers = |more: &str| {
        let text = format!("{gemma}{more}}}");
        draft("config.json", text.leak()).model.unwrap().cache(16_384.0, 2.0, |_| 1.0) / 8192.0
    };
    assert_eq!(layers(""), 10.0 + 52.0 / 16.0);
    let types = r#", "layer_types": ["sliding_attention", "full_attention"]"#;
    assert_eq!(layers(types), 31.0 + 31.0 / 16.0);
    assert_eq!(layers(r#", "use_sliding_window": false"#), 62.0);
}

/// Gemma 4 as vLLM keeps it (vllm/model_executor/models/gemma4.py): of 31B, 10 layers have keys and values of 4 heads of
/// 512, 50 those of 16 heads of 256 of the latest 1,024 tokens; of E2B, only 3 and 12 layers have any.
#[test]
fn layers_with_a_window_have_heads_of_their_own() {
    let of = |name: &str, tp: u32| {
        let text = format!("vllm serve google/{name} -tp {tp} --max-model-len 65536");
        serving(&text, "dgx-h100").1.cache_a_token * 32768.0
    };
    let cache = |whole: f64, near: f64| 4.0 * (whole * 32768.0 + near);
    let expected = cache(10.0 * 4.0 * 512.0, 50.0 * 16.0 * 256.0 * 1024.0);
    assert!((of("gemma-4-31B-it", 2) / (expected / 2.0) - 1.0).abs() < 1e-9);
    // Each rank of eight has a whole head of the four.
    let expected = cache(10.0 * 512.0, 50.0 * 2.0 * 256.0 * 1024.0);
    assert!((of("gemma-4-31B-it", 8) / expected - 1.0).abs() < 1e-9);
    let expected = cache(3.0 * 512.0, 12.0 * 256.0 * 512.0);
    assert!((of("gemma-4-E2B-it", 1) / expected - 1.0).abs() < 1e-9);
}

/// The same server as text, in Kubernetes and in Compose.
#[test]
fn containers_in_yaml_are_commands() {
    let model = "meta-llama/Llama-3.1-70B-Instruct";
    let facts = |name: &str, text: String| {
        let mut typed = Draft::default();
        typed.put("machine", "dgx-h100").unwrap();
        let draft = typed.over(&draft(name, text.leak()));
        let serve = draft.serve(&Machines::new(&BuiltIn)).unwrap_or_else(|e| panic!("{name}: {e}"));
        (serve.facts(), serve.engine)
    };
    let flags =
        "--tensor-parallel-size 4 --max-model-len 8192 --max-num-seqs 64 --kv-cache-dtype fp8";
    let plain = facts("serve.sh", format!("vllm serve {model} {flags}"));
    let list: String = flags.split(' ').map(|word| format!("    - \"{word}\"\n")).collect();
    let keys =
        "tensor-parallel-size: 4\nmax-model-len: 8192\nmax-num-seqs: 64\nkv-cache-dtype: fp8\n";
    for text in [
        format!(
            "    image: vllm/vllm-openai:latest\n    args: [\n      \"vllm serve {model} {flags}\"\n    ]\n"
        ),
        format!(
            "  - image: vllm/vllm-openai:v1\n    args:\n    - \"--model\"\n    - {model}\n{list}    resources: {{}}\n"
        ),
        format!("  image: vllm/vllm-openai:v1\n  args:\n    - {model}\n{list}"),
        format!(
            "services:\n  vllm:\n    image: vllm/vllm-openai:latest\n    command: --model {model} {flags}\n"
        ),
        format!("model: {model}\n{keys}"),
    ] {
        assert_eq!(facts("server.yaml", text.clone()), plain, "{text}");
    }
    let sglang = format!(
        "  command: [\"bash\", \"-c\"]\n  args:\n  - |\n    python3 -m sglang.launch_server --model-path {model} \\\n      --tp 8 --context-length 8192 --max-running-requests 64\n"
    );
    assert_eq!(facts("a.yaml", sglang.clone()), facts("a.txt", sglang));
}

/// The servers of a script are read from their own commands, with the values that the script gives.
#[test]
fn a_script_starts_the_server_that_it_starts() {
    let llama = "meta-llama/Llama-3.1-70B-Instruct";
    let of = |text: &str| {
        let serve = serving(text, "dgx-h200").0;
        (serve.engine.unwrap_or_default(), serve.tp, serve.dp)
    };
    let tp8 = ("vllm".to_owned(), 8, 1);
    for text in [
        "export MODEL={} TP=8; vllm serve $MODEL -tp=\"$TP\" &\npython -m sglang.bench_serving --tp 2",
        ": \"${TP:=8}\"; vllm serve {} -tp $TP # not sglang",
        "pip install -q datasets && vllm serve {} --tensor-parallel-size='8' | tee -O log",
        "echo \"vllm server (of\"; ARGS=(-tp ${N-8}); docker run -p 1:1 vllm/vllm-openai --model {} ${ARGS[@]}",
        "vllm serve {} --port 1 -tp 8 &\nvllm serve {} --port 2 -tp 8 &",
        "A=''; if [ $EVAL = 1 ]; then A=\"--max-model-len $L\"; fi; vllm serve {} -tp 8 $A",
        "vllm serve {} -tp 8 || { echo \"vllm serve failed\"; exit 1; }; pkill -f \"vllm serve\" 2>/dev/null",
        "echo Starting && vllm serve {} -tp 8|tee log; trap \"kill $P; echo vllm serve stopped\" EXIT",
        "docker run --name vllm-openai -p 1:1 vllm/vllm-openai:latest --model {} -tp 8",
        "# faster than trtllm-serve\nvllm serve {} --kv-transfer-config '{\"a\":\"x|y\"}' -tp 8",
        "vllm serve {} --served-model-name 'a;b' --chat-template \"{% if a | b %}\" -tp 8",
        "bash -c \"cd x && vllm serve {} -tp 8 | tee log\"; bench --tp 2",
        "CMD=\"vllm serve {}\"; CMD=\"$CMD -tp 8\"; eval $CMD",
    ] {
        assert_eq!(of(&text.replace("{}", llama)), tp8, "{text}");
    }
    let deepseek = "sglang serve deepseek-ai/DeepSeek-R1 --tp 8";
    assert_eq!(of(&format!("{deepseek} --attn-dp-size 8")), ("sglang".to_owned(), 1, 8));
    let refused = |text: &str| {
        let mut typed = Draft::default();
        typed.put("machine", "dgx-h200").unwrap();
        let text = text.replace("{}", llama).leak();
        let read = drafts(&OneText(text), &["serve.sh".to_owned()])
            .and_then(|mut rows| typed.over(&rows.remove(0).draft).serve(&Machines::new(&BuiltIn)));
        read.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (text, why) in [
        ("vllm serve {} -tp $1", "tp (-tp $1)"),
        ("for TP in 1 2; do\nvllm serve {} -tp $TP\ndone", "tp (-tp $TP)"),
        ("case $1 in\na) TP=8 ;;\nb) TP=4 ;;\nesac\nvllm serve {} -tp $TP", "tp (-tp $TP)"),
        ("vllm serve {} -tp 8 &\nvllm serve {} -tp 4", "one with tp 4 and one with tp 8"),
        (
            "vllm serve {} -tp 8 &\nsglang serve --model-path llama3-8b --tp 8",
            "servers of llama3-8b",
        ),
        ("sglang serve llama3-8b --tp $T --moe-a2a-backend deepep", "ep (all ranks"),
        ("sglang serve llama3-8b --tp 16 --ep-size $E", "ep (--ep-size $E)"),
        ("sglang serve llama3-8b --tp $T --dp 8 --enable-dp-attention", "tp (of attention"),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
    let said = serving(&format!("vllm serve {llama} -tp 8 --max-num-seqs $S"), "dgx-h200").0;
    assert!(said.inferred.iter().any(|said| said.contains("sequences $S, which only a run")));
    let env = format!("VLLM_ALLREDUCE_USE_SYMM_MEM=0 vllm serve {llama} -tp 8");
    assert_eq!(serving(&env, "dgx-h200").0.env, "VLLM_ALLREDUCE_USE_SYMM_MEM=0");
    let flag = format!("{deepseek} --enable-mscclpp --moe-a2a-backend deepep_v2");
    let (serve, served) = serving(&flag, "dgx-h200");
    assert!(serve.inferred.iter().any(|said| said.contains("DeepEP's second kernels")));
    assert_eq!(served.decode.reduced.unwrap().backend, "mscclpp");
}

/// What a server is not told is its engine's default on that GPU, and the model's longest sequence.
#[test]
fn defaults_are_by_gpu() {
    let of = |text: &str, machine| {
        let serve = serving(text, machine).0;
        (serve.sequences, serve.chunk, serve.utilization)
    };
    let vllm = |machine| of("vllm serve llama3-8b", machine);
    assert_eq!((vllm("dgx-h100"), vllm("dgx-a100")), ((1024, 8192, 0.92), (256, 2048, 0.92)));
    assert_eq!((vllm("dgx-b200"), vllm("dgx-spark")), ((1024, 16384, 0.92), (256, 2048, 0.92)));
    let mut typed = Draft::default();
    typed.put("machine", "dgx-b200").unwrap();
    typed.put("engine", "vllm@0.14.0").unwrap();
    let old = typed.over(&draft("serve.sh", "vllm serve llama3-8b"));
    let old = old.serve(&Machines::new(&BuiltIn)).unwrap();
    assert_eq!((old.chunk, old.utilization), (8192, 0.9));
    // 512 + 1.5 · 8192 + 128 + 2 · 256 + 8 · 58 MiB of 81,038, and 10 GiB at the least.
    let sglang = |more: &str, machine| of(&format!("sglang serve llama3-8b {more}"), machine);
    assert_eq!(sglang("", "dgx-h100"), (4096, 8192, 0.828));
    assert_eq!(sglang("--disaggregation-mode decode", "dgx-h100"), (4096, 8192, 0.874));
    // 2 · 64 in place of 2 · 256.
    assert_eq!(sglang("--max-running-requests 64", "dgx-h100").2, 0.833);
    assert_eq!(sglang("--cuda-graph-max-bs 64", "dgx-h100").2, 0.833);
    assert_eq!(sglang("--tp 8", "dgx-b200").1, 16384);
    assert_eq!(sglang("", "l40s-pcie").1, 4096);
    let mut typed = Draft::default();
    typed.put("machine", "dgx-h100").unwrap();
    typed.put("serve", "true").unwrap();
    let serve = typed.over(&draft("config.json", QWEN)).serve(&Machines::new(&BuiltIn)).unwrap();
    assert_eq!(serve.longest, 40_960);
    let env =
        "VLLM_ALL2ALL_BACKEND=deepep_low_latency vllm serve deepseek-ai/DeepSeek-V3 -dp 8 -ep";
    assert_eq!(serving(env, "dgx-h200").0.exchange, Exchange::Kernels(["deepep-ll"; 2]));
    for flag in [
        "--cpu-offload-gb 20",
        "--eplb-config {}",
        "--enable-eplb",
        "--enable-dbo",
        "--enable-two-batch-overlap",
        "-O0",
    ] {
        let serve = serving(&format!("vllm serve llama3-8b {flag}"), "dgx-h100").0;
        assert!(serve.inferred.iter().any(|said| said.contains("priced with")), "{flag}");
    }
}

/// Attention keeps queries, keys, values and their output as wide as its heads are.
#[test]
fn activations_are_as_wide_as_heads() {
    let of = |keys: &str| {
        let text = format!(
            "machine = \"dgx-h100\"\ngpus = 8\nsharding = \"zero1\"\nrecompute = \"none\"\n\
             batch = {{ global = 8, micro = 1, sequence = 4096 }}\n[model]\nlayers = 64\nhidden = 5120\n\
             ffn = 25600\nheads = 64\nvocab = 151936\n{keys}"
        );
        memory(&job("job.toml", text.leak(), &[])).activations / 4096.0 / 64.0
    };
    let wide = of("kv_heads = 8\nhead_dim = 128\n") - of("kv_heads = 8\nhead_dim = 80\n");
    assert!((wide - 4.0 * 72.0 * 48.0).abs() < 1e-6, "{wide}");
    let latent = of("mla = { q_lora = 1536, kv_lora = 512, rope = 64, nope = 128, v = 128 }\n");
    let core = 4.0 * 64.0 * 320.0 + 2.0 * f64::from(1536 + 512 + 64);
    let without = of("kv_heads = 8\nhead_dim = 128\n") - 4.0 * 72.0 * 128.0;
    assert!((latent - without - core).abs() < 1e-6, "{latent}");
}

/// A row of a search gives the same job again, by the words that it prints.
#[test]
fn rows_of_a_search_can_be_asked_again() {
    let base = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 16\n\
        batch = { global = 64, sequence = 8192 }\n";
    for own in [
        "zero1, gradients in fp32",
        "zero1",
        "zero1, deepspeed",
        "zero3, deepspeed",
        "FSDP2",
        "fsdp",
        "FSDP2, gradients in bf16",
        "FSDP2, states in bf16",
        "FSDP2, fp32 reduced, states in bf16",
        "zero1, states in bf16",
    ] {
        let job = job("job.toml", base, &[("sharding", own)]);
        for found in layouts(&job, 16, 8, &Pins::default()).all {
            let words = found.sharding.words(found.shard_size, found.degrees.replicas());
            assert_eq!(Sharding::read(&words).unwrap(), found.sharding, "{own}: {words}");
        }
    }
    let mut draft = Draft::default();
    draft.put("chunks", "5").unwrap();
    assert_eq!(draft.get("chunks_per_stage"), Some("5"));
}

#[test]
fn words_that_nothing_reads_are_refused() {
    let typed = |key: &str, value: &str| {
        let mut typed = Draft::default();
        for (key, value) in [("machine", "dgx-h100"), (key, value)] {
            typed.put(key, value).unwrap();
        }
        typed
    };
    let job = |key: &str, value: &str| {
        let draft = typed(key, value).over(&draft("job.toml", MIXTRAL));
        draft.job(&Machines::new(&BuiltIn), false).map(|job| job.sharding.gradient)
    };
    let serve = |key: &str, value: &str| {
        let draft = typed(key, value).over(&draft("serve.sh", "vllm serve llama3-70b -tp 4"));
        draft
            .serve(&Machines::new(&BuiltIn))
            .map(|serve| (serve.weights.experts.bytes, serve.cache))
    };
    for (key, value) in [
        ("attention", "unfusd"),
        ("gradients_reduced_in", "foo"),
        ("sharding", "zero1, gradients in foo"),
    ] {
        let error = job(key, value).unwrap_err().to_string();
        assert!(error.contains(&format!("{key} = {value}")), "{error}");
    }
    assert_eq!(job("gradients_reduced_in", "FP32").unwrap(), 4.0);
    assert_eq!(job("sharding", "FSDP2, gradients in fp16").unwrap(), 2.0);
    for (key, value) in [
        ("utilization", "5"),
        ("cache_type", "foo"),
        ("custom_all_reduce", "foo"),
        ("quantization", "foo"),
    ] {
        let error = serve(key, value).unwrap_err().to_string();
        assert!(error.contains("foo") || error.contains("utilization = 5"), "{error}");
    }
    assert_eq!(serve("quantization", "fp8").unwrap().0, 1.0);
    assert_eq!(serve("cache_type", "fp8_e4m3").unwrap().1, 1.0);
}

/// Names, numbers and words of PyTorch's FSDP mean the same in Accelerate's YAML, a Trainer's and a script; others are
/// asked for.
#[test]
fn fsdp_is_read_in_every_spelling() {
    let asked = |found: &Draft| found.asked.iter().any(|one| one.starts_with("sharding"));
    let read = |name: &str, text: String| {
        let found = draft(name, text.leak());
        let sharding = found.get("sharding").unwrap_or("").to_owned();
        (sharding, found.get("shard_size").map(str::to_owned), asked(&found))
    };
    let all = "FSDP, bf16 reduced";
    let second = "FSDP, SHARD_GRAD_OP, bf16 reduced";
    for (words, sharding, size) in [
        ("FULL_SHARD", all, None),
        ("1", all, None),
        ("SHARD_GRAD_OP", second, None),
        ("2", second, None),
        ("NO_SHARD", "none, ddp, bf16 reduced", None),
        ("3", "none, ddp, bf16 reduced", None),
        ("HYBRID_SHARD", all, Some("8")),
        ("4", all, Some("8")),
        ("hybrid_shard_zero2", second, Some("8")),
        ("5", second, Some("8")),
    ] {
        let script = format!(
            "torchrun --nproc_per_node 8 --nnodes 2 t.py --model_name_or_path Qwen/Qwen3-0.6B --bf16 \
             --per_device_train_batch_size 1 --use_fsdp --fsdp_sharding_strategy {words}\n"
        );
        let expected = (sharding.to_owned(), size.map(str::to_owned), false);
        assert_eq!(read("t.sh", script), expected, "{words}");
        let yaml = format!(
            "distributed_type: FSDP\nnum_processes: 16\nnum_machines: 2\nfsdp_config:\n  \
             fsdp_sharding_strategy: {words}\n"
        );
        let found = read("a.yaml", yaml);
        assert_eq!((found.0.as_str(), found.2), (sharding, false), "{words}");
    }
    let axolotl =
        "base_model: Qwen/Qwen3-0.6B\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\n";
    for (more, sharding) in [
        ("fsdp:\n  - full_shard\n  - auto_wrap\n", all.to_owned()),
        (
            "fsdp:\n  - shard_grad_op\n  - auto_wrap\nfsdp_config:\n  fsdp_offload_params: true\n",
            format!("{second}, offload to the host"),
        ),
        (
            "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: false\n",
            "FSDP2, SHARD_GRAD_OP, bf16 reduced".to_owned(),
        ),
    ] {
        let found = read("x.yaml", format!("{axolotl}{more}"));
        assert_eq!((found.0, found.2), (sharding, false), "{more}");
    }
    assert!(read("x.yaml", format!("{axolotl}fsdp: fullshard\n")).2);
}

/// A YAML or a script of Hugging Face's Trainer is read with the names and defaults of TRL, LLaMA-Factory, Axolotl and
/// ms-swift; what is frozen, sharded and run again is as they have it.
#[test]
fn fine_tuning_is_read() {
    let of = |name: &str, text: &str| draft(name, text.to_owned().leak());
    fn keys<const N: usize>(draft: &Draft, keys: [&str; N]) -> [String; N] {
        keys.map(|key| draft.get(key).unwrap_or("").to_owned())
    }
    let axolotl = "base_model: NousResearch/Meta-Llama-3.1-8B\nload_in_4bit: true\nadapter: qlora\nlora_r: 32\n\
                   lora_target_linear: true\nlora_target_modules:\n  - q_proj\n  - v_proj\nsequence_len: 4096\n\
                   sample_packing: true\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: auto\n\
                   gradient_checkpointing: true\noptimizer: adamw_bnb_8bit\nattn_implementation: flash_attention_2\n\
                   fsdp_version: 2\nfsdp_config:\n  state_dict_type: FULL_STATE_DICT\n  reshard_after_forward: true\n";
    let found = of("a.yml", axolotl);
    assert_eq!(keys(&found, ["adapters", "weights_type", "sequence"]), ["rank 32", "nf4", "4096"]);
    let batch = ["micro_batch", "accumulation", "recompute", "sharding"];
    assert_eq!(keys(&found, batch), ["2", "4", "full", "FSDP2, bf16 reduced"]);
    assert!(found.unread.iter().any(|one| one.contains("adamw_bnb_8bit")), "{:?}", found.unread);
    // LLaMA-Factory trains adapters and runs layers again, TRL runs them again in bf16.
    let factory = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nlora_target: all\n\
                   per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\n";
    let found = of("f.yaml", factory);
    let settled = found.settled().unwrap();
    assert_eq!(keys(&settled, ["adapters", "sequence"]), ["rank 8", "2048"]);
    let expected = ["none, ddp, gradients in fp32", "full", "gradients"];
    assert_eq!(keys(&settled, ["sharding", "recompute", "overlap"]), expected);
    assert!(found.inferred.iter().any(|one| one.contains("packing")), "{:?}", found.inferred);
    let trl = "model_name_or_path: Qwen/Qwen3-0.6B\ndataset_name: a/b\nper_device_train_batch_size: 2\nuse_peft: true\n";
    let found = of("t.yaml", trl);
    let expected = ["rank 16 on q_proj v_proj", "full", "1024", "bf16"];
    let settled = found.settled().unwrap();
    assert_eq!(keys(&settled, ["adapters", "recompute", "sequence", "precision"]), expected);
    let swift = "n=8\nNPROC_PER_NODE=$n NNODES=2 \\\nswift sft --model Qwen/Qwen2.5-14B-Instruct --tuner_type full \\\n  \
                 --dataset Anthropic/hh-rlhf --per_device_train_batch_size 2 --gradient_accumulation_steps 1 \\\n  \
                 --max_length 8192 --torch_dtype bfloat16 --deepspeed zero3 --use_liger_kernel true --packing true\n";
    let found = of("s.sh", swift);
    let expected = ["16", "8192", "zero3, deepspeed", "true", "", "bf16"];
    let asked = ["gpus", "sequence", "sharding", "fused_loss", "adapters", "precision"];
    assert_eq!(keys(&found, asked), expected);
    let found = job("s.sh", swift.to_owned().leak(), &[("machine", "dgx-h100")]);
    assert_eq!((found.global, found.degrees.dp), (Some(32), 16));
    for (visible, gpus) in [("3", "1"), ("0,1", "")] {
        let one = swift.replacen(
            "n=8\nNPROC_PER_NODE=$n NNODES=2",
            &format!("CUDA_VISIBLE_DEVICES={visible}"),
            1,
        );
        assert_eq!(keys(&of("s.sh", &one), ["gpus"]), [gpus], "{visible}");
    }
    let launch = "accelerate launch --config_file fsdp.yaml sft.py --model_name_or_path Qwen/Qwen3-0.6B \
                  --per_device_train_batch_size 1\n";
    // The same program's Megatron has Megatron's flags.
    let megatron = "NPROC_PER_NODE=8 \\\nmegatron sft --model Qwen/Qwen3-30B-A3B-Base --pipeline_model_parallel_size 2 \\\n  \
                    --expert_model_parallel_size 4 --micro_batch_size 1 --global_batch_size 16 --max_length 8192 --packing true\n";
    let found = of("m.sh", megatron);
    let expected = ["8", "8192", "zero1, gradients in fp32", "selective", "bf16", ""];
    let asked = ["gpus", "sequence", "sharding", "recompute", "precision", "adapters"];
    assert_eq!(keys(&found, asked), expected);
    assert_eq!(found.called.as_deref(), Some("Qwen/Qwen3-30B-A3B-Base"));
    assert!(found.inferred.iter().any(|one| one.contains("packed")), "{:?}", found.inferred);
    let with = |more: &str| of("m.sh", &megatron.replace(" sft", &format!(" sft {more}")));
    let adapters = |text: Option<&str>| text.unwrap().parse::<Adapters>().unwrap();
    let said = with("--tuner_type lora");
    assert_eq!(adapters(said.get("adapters")), adapters(Some("rank 8 on all")));
    // Switches have values, also false.
    let off = with(
        "--use_distributed_optimizer false --sequence_parallel False --optimizer_cpu_offload false",
    );
    assert_eq!(keys(&off, ["sharding", "sequence_parallel"]), ["none, gradients in fp32", ""]);
    assert_eq!(with("--virtual_pipeline_model_parallel_size 2").get("chunks_per_stage"), Some("2"));
    let said = with("--tuner_type lora --target_modules q_proj v_proj");
    assert_eq!(said.get("adapters"), Some("rank 8 on q_proj v_proj"));
    let preferred = megatron.replace(" sft", " rlhf --rlhf_type dpo").leak();
    let refused = drafts(&OneText(preferred), &["r.sh".to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("preferences or rewards (dpo)"), "{refused}");
    // A comment starts nothing.
    let said = "# then convert it with megatron pt\n".to_owned() + launch;
    assert!(drafts(&OneText(said.leak()), &["c.sh".to_owned()]).is_ok());
    let many = job("f.yaml", factory.to_owned().leak(), &[("machine", "dgx-h100"), ("gpus", "8")]);
    assert!(many.overlap.gradients && many.global == Some(64) && many.adapters.is_some());
    // Lists of words, in quotes or not.
    let lists = "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --use_peft \
                 --lora_r 32 --lora_target_modules q_proj k_proj v_proj o_proj --per_device_train_batch_size 1 \
                 --fsdp \"auto_wrap SHARD_GRAD_OP offload\" --block_size 2048\n";
    let found = of("l.sh", lists);
    let expected = [
        "rank 32 on q_proj k_proj v_proj o_proj",
        "FSDP, SHARD_GRAD_OP, bf16 reduced, offload to the host",
        "none",
    ];
    let settled = found.settled().unwrap();
    assert_eq!(keys(&settled, ["adapters", "sharding", "recompute"]), expected);
    // What another file shards is above what is usual, and a program's own above its launcher's, in any order.
    let found = of("a.sh", launch);
    assert!(found.asked.iter().any(|one| one.contains("fsdp.yaml")), "{:?}", found.asked);
    let fsdp = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n";
    let plain = "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n";
    let narrow =
        format!("{trl}dtype: bfloat16\nuse_peft: false\n").replacen("use_peft: true\n", "", 1);
    for (one, two) in [("f.yaml", "a.yaml"), ("a.yaml", "f.yaml")] {
        let pair = |recipe: &str, launcher: &str| {
            let of = |name: &str| of(name, if name == "f.yaml" { recipe } else { launcher });
            of(one).over(&of(two)).settled().unwrap()
        };
        let both = pair(factory, fsdp);
        assert_eq!(
            keys(&both, ["sharding", "gpus", "recompute"]),
            ["FSDP2, bf16 reduced", "8", "full"]
        );
        let both = pair(&narrow, plain);
        assert_eq!(
            keys(&both, ["sharding", "overlap"]),
            ["none, ddp, states in bf16", "gradients"]
        );
    }
    // The launcher's precision is that of a program that says none.
    let silent = factory.replace("bf16: true\n", "");
    let is_wide =
        |draft: &Draft| draft.inferred.iter().any(|one| one.contains("training is in 32"));
    let alone = of("f.yaml", &silent).settled().unwrap();
    assert!(is_wide(&alone) && alone.get("precision").is_none());
    let both = of("f.yaml", &silent).over(&of("a.yaml", plain)).settled().unwrap();
    assert!(!is_wide(&both) && both.get("precision") == Some("bf16"));
    let host = axolotl.replace("gradient_checkpointing: true", "gradient_checkpointing: offload");
    assert_eq!(keys(&of("a.yml", &host), ["recompute"]), ["full, offloaded"]);
    let words = format!(
        "{trl}fsdp: shard_grad_op auto_wrap offload\nfsdp_config:\n  backward_prefetch: x\n"
    );
    let found = of("t.yaml", &words);
    let expected = ["FSDP, SHARD_GRAD_OP, bf16 reduced, offload to the host"];
    assert_eq!(keys(&found, ["sharding"]), expected);
    // The same program by another name.
    let entry = "torchrun --nproc_per_node 8 src/train.py --stage sft --model_name_or_path Qwen/Qwen3-0.6B --bf16 \
                 --per_device_train_batch_size 1\n";
    let settled = of("e.sh", entry).settled().unwrap();
    assert_eq!(keys(&settled, ["adapters", "sequence"]), ["rank 8", "2048"]);
    // Behind a flag stands the script, too; a checkpoint's own type counts where it stays packed.
    let behind = "python -u sft.py --model_name_or_path openai/gpt-oss-20b --use_peft --per_device_train_batch_size 1\n";
    let settled = of("b.sh", behind).settled().unwrap();
    assert_eq!(keys(&settled, ["recompute", "sequence"]), ["full", "1024"]);
    let plain = job("b.sh", behind.to_owned().leak(), &[("machine", "dgx-h100"), ("gpus", "8")]);
    assert_eq!(plain.frozen.experts.bytes, 2.0);
    let flags = "accelerate launch --use_deepspeed --zero_stage 3 --offload_param_device cpu train.py --bf16 \
                 --model_name_or_path Qwen/Qwen3-0.6B --per_device_train_batch_size 1 --block_size 512\n";
    assert_eq!(keys(&of("d.sh", flags), ["sharding"]), ["zero3, deepspeed, offload of parameters"]);
    let entry = "torchrun --nproc_per_node 8 swift/cli/sft.py --model Qwen/Qwen3-0.6B --max_length 512 \
                 --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --run_name ppo\n";
    assert_eq!(keys(&of("e.sh", entry), ["adapters", "gpus"]), ["rank 8", "8"]);
    let named = "base_model: unsloth/Meta-Llama-3.1-8B-bnb-4bit\nadapter: lora\nlora_r: 8\nsequence_len: 2_048\n\
                 micro_batch_size: 1\nplugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
    let named = job("n.yaml", named.to_owned().leak(), &[("machine", "dgx-h100"), ("gpus", "8")]);
    assert!(named.frozen.products.bytes < 0.6 && named.fused_loss && named.sequence == 2048);
    // A comment, and another program's file, are no training.
    let served = "# was --per_device_train_batch_size 1\nvllm serve meta-llama/Llama-3.1-8B\n";
    assert!(of("s.sh", served).serves());
    let toml = "# --per_device_train_batch_size 1\nmodel = \"llama3-8b\"\ngpus = 8\n";
    assert_eq!(keys(&of("j.toml", toml), ["gpus"]), ["8"]);
}

/// What has no plan is refused with its reason.
#[test]
fn other_fine_tuning_is_refused() {
    let refused = |name: &str, text: &str| {
        let names = [name.to_owned()];
        drafts(&OneText(text), &names).err().unwrap_or_else(|| panic!("{text}")).to_string()
    };
    let start = "--model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size";
    for (name, text, why) in [
        ("f.yaml", "cutoff_len: 1024\nstage: dpo\n".to_owned(), "preferences or rewards (dpo)"),
        ("f.yaml", "base_model: a/b\nreward_model: true\n".to_owned(), "rewards (reward_model)"),
        ("f.yaml", "cutoff_len: 1024\nfinetuning_type: oft\n".to_owned(), "training of `oft`"),
        ("d.sh", format!("torchrun --standalone dpo.py {start} 1\n"), "rewards (dpo.py)"),
        (
            "v1.yaml",
            "cutoff_len: 64\ndist_config:\n  name: deepspeed\n".to_owned(),
            "`dist_config`",
        ),
        ("d.sh", format!("trl dpo {start} 1\n"), "preferences or rewards (dpo)"),
        ("d.sh", format!("swift rlhf {start} 1\n"), "preferences or rewards (rlhf)"),
        ("f.sh", "llamafactory-cli train f.yaml\n".to_owned(), "LLaMA-Factory"),
        (
            "two.sh",
            format!("torchrun a.py {start} 1\ntorchrun a.py {start} 4\n"),
            "several trainings",
        ),
        (
            "both.sh",
            format!("torchrun a.py {start} 1\nvllm serve a/b\n"),
            "a training and a server",
        ),
    ] {
        let error = refused(name, &text);
        assert!(error.contains(why), "{text}: {error}");
    }
    let many = "base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 4294967295\ngradient_accumulation_steps: 2\nsequence_len: 8\n";
    let mut draft = draft("m.yaml", many);
    draft.put("machine", "dgx-h100").unwrap();
    draft.put("gpus", "8").unwrap();
    let error = draft.job(&Machines::new(&BuiltIn), false).err().unwrap().to_string();
    assert!(error.contains("too many sequences"), "{error}");
    draft.put("micro_batch", "1").unwrap();
    assert_eq!(draft.whole_batch(16).unwrap(), Some(16));
    // A given batch says the accumulations that are usual otherwise.
    let usual =
        "cutoff_len: 64\nmodel_name_or_path: Qwen/Qwen3-0.6B\nfinetuning_type: full\nbf16: true\n";
    let usual =
        job("u.yaml", usual, &[("machine", "dgx-h100"), ("gpus", "8"), ("global_batch", "128")]);
    assert_eq!((usual.micro, usual.microbatches()), (8, 2.0));
    for (adapters, why) in [("rank 5000", "4096 channels"), ("rank 8 on foo", "`foo` is not")] {
        draft.put("adapters", adapters).unwrap();
        let error = draft.job(&Machines::new(&BuiltIn), false).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    draft.put("adapters", "none").unwrap();
    assert!(draft.job(&Machines::new(&BuiltIn), false).unwrap().adapters.is_none());
}

/// Scripts of AI-Hypercomputer/tpu-recipes: arguments in a variable, inside a command that is quoted. A chip of TPU7x
/// has two devices, each with the batch that is given.
#[test]
fn maxtexts_arguments_are_a_job_on_a_slice() {
    let script = |more: &str| {
        format!(
            "ARGS=\"\\\nmodel_name=llama3.1-70b \\\nper_device_batch_size=2 \\\nremat_policy=custom \\\n\
             context=device \\\nquery_proj=device \\\nici_fsdp_parallelism=-1 \\\nmax_target_length=8192 \\\n{more}\"\n\
             xpk workload create --cluster=$C --device-type=tpu7x-4x4x4 --num-slices=1 \\\n  \
             --command=\"set -e && export X='1' && python3 -m maxtext.trainers.pre_train.train \
             maxtext/configs/base.yml ${{ARGS}} | tee train.log\"\n"
        )
    };
    let of = |text: &str| job("run.sh", text.to_owned().leak(), &[]);
    let plain = of(&script("quantization=fp8_full"));
    assert_eq!((plain.degrees.gpus(), plain.micro, plain.sequence), (64, 4, 8192));
    assert_eq!((plain.precision, plain.device.name.as_str()), (Precision::Fp8, "TPU7x"));
    assert_eq!(plain.recompute.to_string(), "modules mlp moe");
    assert_eq!(plain.sharding.framework, Framework::Fsdp2);
    // Eight devices share a sequence: four chips.
    let long = of(&script("ici_context_parallelism=8"));
    assert_eq!((long.degrees.cp, long.micro, long.degrees.dp), (4, 16, 16));
    // Two slices are no torus of both.
    let two = script("").replace("tpu7x-4x4x4 --num-slices=1", "v5p-128 --num-slices=2");
    let found = draft("run.sh", two.leak());
    assert_eq!((found.get("machine"), found.get("gpus")), (None, Some("128")));
    assert!(found.asked[0].starts_with("machine (2 slices of 64 chips"), "{:?}", found.asked);
    let manifest = "spec:\n  replicas: 1\n  nodeSelector:\n    cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice\n    \
        cloud.google.com/gke-tpu-topology: 16x16\n  command:\n  - bash\n  - -c\n  - |\n    \
        (export A=1 && python3 -m MaxText.train MaxText/configs/base.yml model_name=llama3.1-8b \
        per_device_batch_size=4 max_target_length=8192 weight_dtype=bfloat16 run_name=${RUN}) & PID=$!;\n";
    let labelled = job("job.yaml", manifest, &[]);
    assert_eq!((labelled.degrees.gpus(), labelled.micro), (256, 4));
    assert_eq!((labelled.device.name.as_str(), labelled.sharding.narrow), ("TPU v6e", true));
    let page = "python3 -m benchmarks.benchmark_runner xpk --device_type=v6e-32 --num_slices=1 \\\n  \
        --model_name=\"llama3_1_70b_8192\"\n    model_type=\"llama3.1-70b\",\n    tuning_params={\n        \
        \"per_device_batch_size\": 2, # of a chip\n        \"remat_policy\": \"custom\",\n        \
        \"decoder_layer_input\": \"offload\",\n        \"max_target_length\": 8192,\n    },\n";
    let table = job("README.md", page, &[]);
    assert_eq!((table.degrees.gpus(), table.micro), (32, 2));
    assert_eq!(table.recompute.to_string(), "full, offloaded");
    // Keys and values are few, and a loss in pieces keeps no logits.
    let more =
        "\"offload\",\n        \"key_proj\": \"device\",\n        \"num_vocab_tiling\": 8,\n";
    let pieces = draft("README.md", page.replacen("\"offload\",\n", more, 1).leak());
    assert_eq!(
        ["recompute", "fused_loss"].map(|key| pieces.get(key)),
        [Some("full, offloaded"), Some("true")]
    );
}

/// A YAML of AI-Hypercomputer/gpu-recipes: axes between nodes and inside them, of which all make the GPUs.
#[test]
fn maxtexts_axes_are_degrees_and_sets_of_shards() {
    let yaml = |more: &str| {
        let text = format!(
            "model_name: llama3.1-70b\nhardware: gpu\nici_fsdp_parallelism: 8\nper_device_batch_size: 2\n\
             max_target_length: 8192\nremat_policy: save_dot_with_context_except_mlp\n{more}"
        );
        draft("a.yaml", text.leak())
    };
    let sets = yaml("dcn_data_parallelism: 4\ndcn_fsdp_parallelism: 16\n");
    assert_eq!((sets.get("gpus"), sets.get("replicate")), (Some("512"), Some("4")));
    // How many sets there are follows from the GPUs, which are asked for.
    let open = yaml("dcn_fsdp_parallelism: 16\n");
    assert_eq!((open.get("gpus"), open.get("shard_size")), (None, Some("128")));
    let divided = yaml("ici_tensor_parallelism: 4\ngradient_accumulation_steps: 8\n");
    assert_eq!(
        ["tp", "micro_batch", "accumulation", "sequence_parallel"].map(|key| divided.get(key)),
        [Some("4"), Some("8"), Some("8"), Some("true")]
    );
    for (more, asked) in [
        ("quantization: int8\n", "precision (quantization int8)"),
        ("base_num_decoder_layers: 8\n", "model (base_num_decoder_layers of llama3.1-70b)"),
        ("ici_pipeline_parallelism: 4\n", "pp (stages that repeat"),
        ("ici_tensor_parallelism: auto\n", "dp (ici_tensor_parallelism auto)"),
        ("ici_data_parallelism: -1\n", "dp (ici_data_parallelism -1)"),
        ("gradient_accumulation_steps: $ACC\n", "accumulation (gradient_accumulation_steps $ACC)"),
    ] {
        let found = yaml(more).asked;
        assert!(found.iter().any(|one| one.contains(asked)), "{more}: {found:?}");
    }
    let unread = yaml("opt_type: sgd\nmtp_num_layers: 1\n").unread;
    assert_eq!(unread, ["opt_type sgd", "mtp_num_layers 1"]);
    let two = "python3 -m MaxText.train base.yml model_name=llama2-7b per_device_batch_size=1\n\
        python3 -m MaxText.train base.yml model_name=llama2-7b per_device_batch_size=2\n";
    let error = super::maxtext::read(two, "run.sh").unwrap_err().to_string();
    assert!(error.contains("per_device_batch_size is 1 and 2"), "{error}");
}

/// Requests in figures: what they wait for, with the prompts of others between their tokens.
#[test]
fn traffic_has_times_to_the_first_token_and_between_tokens() {
    let of = |keys: &[(&str, &str)]| {
        let all = [&[("machine", "dgx-h100"), ("sequences", "64")], keys].concat();
        serving_with("vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192", &all)
    };
    let (serve, served) = of(&[("input", "1024"), ("output", "512")]);
    let seen = served.seen.unwrap();
    assert_eq!(serve.context, 1024 + 256);
    let between = seen.between.unwrap();
    let added = between.time - served.decode.time();
    // vLLM computes prompts and tokens in one step.
    let prompts = served.prefill.time() * 64.0 * 1024.0 / 512.0 / served.chunk;
    assert!((added / prompts - 1.0).abs() < 1e-9, "{added} {prompts}");
    assert!((seen.rate.time - 64.0 / between.time).abs() < 1e-6);
    assert!(between.low < between.time && between.time < between.high);
    // A prompt of 1,024 tokens takes an eighth of a chunk of 8,192, and the step that decodes the others.
    let first = seen.first.unwrap().time;
    assert!(first > served.decode.time() && first < served.prefill.time() + served.decode.time());
    assert!(of(&[]).1.seen.is_none());
    // The later chunks of a long prompt attend to those before.
    let long = |input: &str| {
        let keys = [("machine", "dgx-h100"), ("sequences", "1"), ("input", input), ("output", "8")];
        let text = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 131072 --max-num-batched-tokens 8192";
        serving_with(text, &keys).1.seen.unwrap().first.unwrap().time
    };
    assert!(long("131000") > 20.0 * long("8192"), "{} {}", long("131000"), long("8192"));
    let refused = |keys: &[(&str, &str)]| {
        let mut typed = Draft::default();
        for (key, value) in [&[("machine", "dgx-h100")], keys].concat() {
            typed.put(key, value).unwrap();
        }
        let text = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192";
        let found = typed.over(&draft("serve.sh", text)).serve(&Machines::new(&BuiltIn));
        found.err().unwrap().to_string()
    };
    assert!(refused(&[("input", "1024")]).contains("output = 256"));
    assert!(refused(&[("input", "8000"), ("output", "500")]).contains("more than the 8192"));
}

/// Runs of SGLang under load (github.com/sgl-project/sgl-cookbook at 7b5bd9c0, docs/autoregressive: `bench_serving` with so
/// many requests at once; without speculation, and without pages whose command is of another run). The time for which
/// prompts keep others waiting is fitted without each model in turn.
#[test]
fn tokens_come_as_published_under_load() {
    #[derive(serde::Deserialize)]
    struct Run {
        command: String,
        machine: String,
        sequences: String,
        input: String,
        output: String,
        between_ms: f64,
        first_ms: f64,
        source: String,
    }
    let text = include_str!("../../../tests/data/published_traffic.csv");
    let all: Vec<(Run, f64, f64, f64, f64)> = csv::Reader::from_reader(text.as_bytes())
        .into_deserialize()
        .map(|run| {
            let run: Run = run.unwrap();
            let keys = [
                ("machine", &*run.machine),
                ("sequences", &*run.sequences),
                ("input", &*run.input),
                ("output", &*run.output),
            ];
            let seen = serving_with(&run.command, &keys).1.seen.unwrap();
            let count = |text: &str| text.parse::<f64>().unwrap();
            // Prompts a step, and what a step takes without waiting for them.
            let prompts = count(&run.sequences) / count(&run.output);
            let rest = seen.between.unwrap().time - prompts * super::serve::HELD_UP;
            let first = seen.first.unwrap();
            (run, rest, prompts, first.low, first.high)
        })
        .collect();
    assert_eq!(all.len(), 50);
    let off = |one: &(Run, f64, f64, f64, f64), held: f64| {
        ((one.1 + one.2 * held) * 1e3 / one.0.between_ms).ln().abs()
    };
    let fitted = |left_out: &str| {
        let rest: Vec<_> = all.iter().filter(|one| one.0.source != left_out).collect();
        let mean = |held: f64| rest.iter().map(|one| off(one, held)).sum::<f64>();
        let tried = (0..40).map(|n| f64::from(n) * 5e-3);
        tried.min_by(|a, b| mean(*a).total_cmp(&mean(*b))).unwrap()
    };
    assert!((fitted("") - super::serve::HELD_UP).abs() < 6e-3, "{}", fitted(""));
    let mut errors: Vec<f64> =
        all.iter().map(|one| off(one, fitted(&one.0.source)).exp()).collect();
    errors.sort_by(f64::total_cmp);
    let (median, in_band) = (errors[25], errors.iter().filter(|e| **e <= 1.55).count());
    // 1.23, and 42 of 50.
    assert!(median < 1.27 && in_band >= 39, "{median} {in_band}: {errors:?}");
    let in_time =
        |one: &&(Run, f64, f64, f64, f64)| (one.3..=one.4).contains(&(one.0.first_ms / 1e3));
    let in_time = all.iter().filter(in_time).count();
    assert!((38..=47).contains(&in_time), "{in_time}");
}

/// Engines start on no part of a block of weights that share a scale (vLLM issue 17569: 1536 channels on 8 ranks).
#[test]
fn weights_in_fp8_are_divided_into_whole_blocks() {
    let of = |text: &str| {
        let mut typed = Draft::default();
        typed.put("machine", "dgx-h200").unwrap();
        let found = typed.over(&draft("serve.sh", text.to_owned().leak()));
        found.serve(&Machines::new(&BuiltIn)).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let refused = of("vllm serve Qwen/Qwen3-235B-A22B-FP8 -tp 8 --max-model-len 8192");
    assert!(refused.contains("1536 channels leaves 192 each"), "{refused}");
    assert!(refused.contains("a tp that divides 12"), "{refused}");
    for text in [
        "vllm serve Qwen/Qwen3-235B-A22B-FP8 -tp 8 --enable-expert-parallel --max-model-len 8192",
        "vllm serve Qwen/Qwen3-235B-A22B-FP8 -tp 4 --max-model-len 8192",
        "vllm serve Qwen/Qwen3-235B-A22B -tp 8 --max-model-len 8192",
        "vllm serve RedHatAI/Qwen3-235B-A22B-FP8-dynamic -tp 8 --max-model-len 8192",
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3-235B-A22B-FP8 --tp 8 --ep-size 2",
        "vllm serve deepseek-ai/DeepSeek-V3 -tp 16 --max-model-len 8192",
    ] {
        assert_eq!(of(text), "", "{text}");
    }
    // 25600 channels are 200 blocks.
    let dense = of("vllm serve Qwen/Qwen3-32B-FP8 -tp 16 --max-model-len 8192");
    assert!(dense.contains("a feed-forward part of 25600 channels leaves 1600 each"), "{dense}");
}

/// The server of files that are named in this order, or the error.
fn of_files(
    files: &'static [(&'static str, &'static str)],
    names: &[&str],
    keys: &[(&str, &str)],
) -> Result<Serve, String> {
    let files = Two(files);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut typed = Draft::default();
    typed.put("machine", "dgx-h200").unwrap();
    for (key, value) in keys {
        typed.put(key, *value).unwrap();
    }
    let found = drafts(&files, &names).map_err(|e| e.to_string())?.remove(0).draft;
    typed.over(&found).serve(&Machines::new(&files)).map_err(|e| e.to_string())
}

fn says(serve: &Serve, what: &str) -> bool {
    serve.inferred.iter().any(|note| note.contains(what))
}

/// The workers of Dynamo are the engines that they name: ai-dynamo/dynamo, components/src/dynamo/trtllm/backend_args.py.
#[test]
fn dynamo_starts_the_engine_that_it_names() {
    const FLAGS: &str = "python3 -m dynamo.trtllm --model-path nvidia/DeepSeek-R1-0528-FP4 --tensor-parallel-size 8 \
        --expert-parallel-size 8 --max-batch-size 64 --max-num-tokens 4096 --free-gpu-memory-fraction 0.5 \
        --override-engine-args '{\"kv_cache_config\": {\"dtype\": \"fp8\"}}'";
    const GRAPH: &str = "kind: ConfigMap\ndata:\n  config.yaml: |\n    tensor_parallel_size: 8\n    moe_expert_parallel_size: 8
    enable_attention_dp: true\n    max_batch_size: 32\n---\nspec:\n  services:\n    Worker:\n      mainContainer:
          command: [/bin/sh, -c]\n          args:\n            - >-\n              python3 -m dynamo.trtllm
              --model-path /models/deepseek-r1-fp4\n              --extra-engine-args /config/config.yaml\n";
    let files = &[
        ("a.sh", FLAGS),
        ("g.yaml", GRAPH),
        ("v.sh", "python3 -m dynamo.vllm --model llama3-70b -tp 4 --is-prefill-worker"),
        (
            "s.sh",
            "python3 -m dynamo.sglang --model-path llama3-70b --tp 4 --disaggregation-mode decode",
        ),
    ];
    let of = |name: &str| of_files(files, &[name], &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
    let flags = of("a.sh");
    assert_eq!(flags.engine.as_deref(), Some("tensorrt-llm"));
    assert_eq!((flags.tp, flags.dp, flags.ep, flags.exchange), (8, 1, 8, Exchange::Reduce));
    assert_eq!(
        (flags.sequences, flags.chunk, flags.utilization, flags.cache),
        (64, 4096, 0.5, 1.0)
    );
    let served = flags.priced(&Wires::new(&Registry::builtin(), &flags.machine)).unwrap();
    assert!(served.decode.messages.time > 0.0 && served.prefill.messages.time > 0.0);
    let graph = of("g.yaml");
    assert_eq!(graph.engine.as_deref(), Some("tensorrt-llm"));
    assert_eq!((graph.tp, graph.dp, graph.ep, graph.sequences), (1, 8, 8, 32));
    let (vllm, sglang) = (of("v.sh"), of("s.sh"));
    assert_eq!((vllm.engine.as_deref(), vllm.only), (Some("vllm"), Some(Doing::Prefill)));
    assert_eq!((sglang.engine.as_deref(), sglang.only), (Some("sglang"), Some(Doing::Decode)));
}

/// A YAML that is named with a launch holds the options of the path that the launch names, in any order of both.
#[test]
fn a_yaml_beside_a_launch_holds_its_options() {
    let files = &[
        ("t.sh", "trtllm-serve nvidia/DeepSeek-R1-0528-FP4 --config /config/b.yaml"),
        ("v.sh", "vllm serve llama3-70b --max-num-seqs 16 --config /etc/v.yaml"),
        ("short.sh", "vllm serve llama3-70b -tp 2 --config /etc/v.yaml"),
        ("none.sh", "trtllm-serve nvidia/DeepSeek-R1-0528-FP4"),
        (
            "b.yaml",
            "tensor_parallel_size: 8\nmoe_expert_parallel_size: 8\nenable_attention_dp: true\nmax_batch_size: 24\n",
        ),
        ("v.yaml", "tensor-parallel-size: 4\nmax-num-seqs: 99\nmax-model-len: 8192\n"),
    ];
    for names in [["t.sh", "b.yaml"], ["b.yaml", "t.sh"], ["none.sh", "b.yaml"]] {
        let found = of_files(files, &names, &[]).unwrap_or_else(|e| panic!("{names:?}: {e}"));
        assert_eq!((found.tp, found.dp, found.ep, found.sequences), (1, 8, 8, 24), "{names:?}");
        assert!(!says(&found, "not there"), "{:?}", found.inferred);
        assert!(says(&found, "chunk 8192: the default of trtllm-serve"));
    }
    for names in [["v.sh", "v.yaml"], ["v.yaml", "v.sh"]] {
        let found = of_files(files, &names, &[]).unwrap_or_else(|e| panic!("{names:?}: {e}"));
        // The command is above its file.
        assert_eq!((found.tp, found.sequences, found.longest), (4, 16, 8192), "{names:?}");
        assert!(
            !says(&found, "priced without") && !says(&found, "not read"),
            "{:?}",
            found.inferred
        );
    }
    // Also by another name of the option.
    assert_eq!(of_files(files, &["short.sh", "v.yaml"], &[]).unwrap().tp, 2);
}

/// A recipe of vLLM is the command of its default variant; a strategy's degrees are asked for.
#[test]
fn a_recipe_of_vllm_is_a_command() {
    let text = |more: &str| {
        format!(
            "meta:\n  title: x\nmodel:\n  model_id: \"deepseek-ai/DeepSeek-V3.1\"\n  base_args:\n    - \"--enable-expert-parallel\"\n\
             features:\n  reasoning:\n    args:\n      - \"--max-num-seqs\"\n      - \"3\"\nvariants:\n  default:\n    \
             precision: fp8\n    extra_args:\n      - \"--kv-cache-dtype\"\n      - \"fp8\"\n{more}  nvfp4:\n    model_id: \
             nvidia/DeepSeek-V3.1-NVFP4\nguide: |\n  vllm serve other --tensor-parallel-size 4\n"
        )
    };
    let open = draft("r.yaml", text("").leak());
    assert_eq!(open.asked, ["tp (the GPUs of the strategy)"]);
    let spread = text("      - \"--tensor-parallel-size\"\n      - \"8\"\n");
    let mut typed = Draft::default();
    typed.put("machine", "dgx-h200").unwrap();
    let found = typed.over(&draft("r.yaml", spread.leak())).serve(&Machines::new(&BuiltIn));
    let found = found.unwrap();
    assert_eq!((found.tp, found.ep, found.cache, found.model.layers), (8, 8, 1.0, 61));
    assert_ne!(found.sequences, 3);
}

/// What a script writes is found by the value of a variable, with its variables; vLLM's file too.
#[test]
fn options_that_a_script_writes_are_read() {
    let text = "TP=4\nF=\"o.yml\"\ncat > $F << EOF\nmax_batch_size: 16\nEOF\nif [ $TP = 4 ]; then\ncat << EOF >> $F\n\
                tensor_parallel_size: $TP\nEOF\nelse\ncat << EOF >> $F\nmax_batch_size: 9\nEOF\nfi\n\
                trtllm-serve llama3-70b --extra_llm_api_options=$F > log 2>&1 &\n";
    let found = serving(text, "dgx-h200").0;
    assert_eq!((found.tp, found.sequences), (4, 16));
    let vllm = "cat > c.yaml <<'EOF'\ntensor-parallel-size: 2\ncompilation-config:\n  pass_config:\n    \
                fuse_allreduce_rms: false\nEOF\nvllm serve llama3-70b --config c.yaml --max-num-seqs 4\n";
    let found = serving(vllm, "dgx-h200").0;
    assert_eq!((found.tp, found.sequences, found.fused), (2, 4, Some(false)));
    assert!(!says(&found, "priced without"), "{:?}", found.inferred);
}

/// Flags that have no price are named; a begin of one flag is that flag, as for Python's argparse.
#[test]
fn flags_that_are_not_read_are_named() {
    let notes = |text: &str| {
        let all = serving(text, "dgx-h200").0.inferred;
        all.into_iter().filter(|note| note.contains("not read")).collect::<Vec<_>>()
    };
    let llama = "vllm serve llama3-70b -tp 4";
    assert_eq!(
        notes(&format!(
            "{llama} --max-model-length 8192 --hf-overrides '{{\"a\": 1}}' --kv-offloading-size 100 --enable-sleep-mode"
        )),
        ["not read: --enable-sleep-mode, --hf-overrides, --kv-offloading-size, --max-model-length"]
    );
    for known in [
        "--port 8000 --served-model-name x --trust-remote-code --block-size 32 --max-num-seqs 4 --no-enable-prefix-caching",
        "--seed=1 --kv-transfer-config '{\"kv_role\": \"kv_both\"}' --tool-call-parser openai --enable-auto-tool-choice",
    ] {
        assert!(notes(&format!("{llama} {known}")).is_empty(), "{known}");
    }
    let page = "Use `--this` or --that with care.\n\n```\nvllm serve llama3-70b -tp 4\n```\n\nThen --those.";
    assert!(notes(page).is_empty(), "{:?}", notes(page));
    let of = |text: &str| serving(text, "dgx-h200").0;
    let cut = of("vllm serve llama3-70b --tensor-parallel 4 --max-num-s 7");
    assert_eq!((cut.tp, cut.sequences), (4, 7));
    assert_eq!(of("sglang serve llama3-70b --tensor-p 4 --context-len 4096").tp, 4);
    // Of several flags none is meant.
    assert_eq!(notes("vllm serve llama3-70b --max-num 7"), ["not read: --max-num"]);
}

/// One YAML with the options of a server that prefills and of one that decodes is two servers, of which a key chooses
/// one; a chart with both is refused, as a script is.
#[test]
fn options_of_two_servers_are_told_apart() {
    let files = &[
        (
            "srt.yaml",
            "backend:\n  sglang_config:\n    prefill:\n      model-path: llama3-70b\n      tensor-parallel-size: 4
    decode:\n      model-path: llama3-70b\n      tensor-parallel-size: 8\n",
        ),
        ("one.yaml", "backend:\n  sglang_config:\n    decode:\n      model-path: llama3-70b\n      tensor-parallel-size: 8\n"),
        (
            "helm.yaml",
            "decode:\n  parallelism:\n    tensor: 4\n  containers:\n  - args: [\"--max-model-len\", \"32000\"]
prefill:\n  parallelism:\n    tensor: 1\n",
        ),
        (
            "kserve.yaml",
            "kind: LLMInferenceService\nspec:\n  parallelism:\n    data: 32\n    tensor: 1\n    expert: true
  template:\n    containers:\n    - env:\n      - name: VLLM_ADDITIONAL_ARGS
        value: \"--gpu-memory-utilization 0.95 --enable-eplb\"\n",
        ),
    ];
    let of = |name: &str, keys: &[(&str, &str)]| of_files(files, &[name], keys);
    let refused = of("srt.yaml", &[]).err().unwrap();
    assert!(refused.contains("a server that prefills, and of one that decodes"), "{refused}");
    for (role, tp) in [("prefill", 4), ("decode", 8)] {
        assert_eq!(of("srt.yaml", &[("role", role)]).unwrap().tp, tp);
        assert!(of("one.yaml", &[("role", role)]).is_err());
    }
    assert!(of("srt.yaml", &[("role", "both")]).is_err());
    assert_eq!(of("one.yaml", &[]).unwrap().tp, 8);
    let refused = of("helm.yaml", &[("model", "llama3-70b")]).err().unwrap();
    assert!(refused.contains("prefill prefills, and decode decodes"), "{refused}");
    let asked = of("kserve.yaml", &[("model", "deepseek-v3")]).err().unwrap();
    assert!(
        asked.contains("dp (spec.parallelism.data 32), ep (spec.parallelism.expert true)"),
        "{asked}"
    );
    let said = of("kserve.yaml", &[("model", "deepseek-v3"), ("dp", "32"), ("ep", "32")]).unwrap();
    assert_eq!((said.dp, said.utilization), (32, 0.95));
    assert!(says(&said, "redundant experts"));
}

/// The release is that of the image, or the newest, and the answer says which; the rest is refused as by `choose`.
#[test]
fn the_release_of_a_server_is_said() {
    let of = |text: &str| serving(text, "dgx-h200").0;
    let plain = of("vllm serve llama3-70b -tp 4");
    assert!(says(&plain, "engine vllm@") && says(&plain, "nothing says which release"));
    let image = of("docker run vllm/vllm-openai:v0.19.0 --model llama3-70b -tp 4");
    assert_eq!((image.engine.as_deref(), image.utilization), (Some("vllm@0.19.0"), 0.9));
    assert!(!says(&image, "release"));
    let near = of(
        "docker run lmsysorg/sglang:v0.5.16-cu130 python3 -m sglang.launch_server --model llama3-70b --tp 4",
    );
    assert_eq!(near.engine.as_deref(), Some("sglang@0.5.16"));
    let old = of("docker run vllm/vllm-openai:v0.11.0 --model llama3-70b -tp 4");
    assert!(says(&old, "the rules of vllm 0.11.0 are not known here"), "{:?}", old.inferred);
    for tag in ["latest", "v1", "nightly-0.1", "$TAG"] {
        let text = format!("docker run vllm/vllm-openai:{tag} --model llama3-70b -tp 4");
        assert_eq!(of(&text).engine.as_deref(), Some("vllm"), "{tag}");
    }
    for name in ["vllm@x", "vllm@"] {
        let keys = [("engine", name)];
        let refused =
            of_files(&[("a.sh", "vllm serve llama3-8b")], &["a.sh"], &keys).err().unwrap();
        assert!(refused.contains("is not a release") && refused.contains("engine = "), "{refused}");
    }
}

/// Containers have variables of their own, and arguments as lists without long flags.
#[test]
fn containers_are_read_with_their_variables() {
    let files = &[
        (
            "env.yaml",
            "containers:\n- name: vllm\n  image: vllm/vllm-openai:v0.33.0\n  command: [bash, -c]\n  args:\n  - |-
    # RUN it, with an apostrophe's sign\n    exec vllm serve \\\n      llama3-70b \\\n      --tensor-parallel-size $TP \\
      --data-parallel-size $((NODES * LOCAL)) --max-num-seqs ${MAX} \\\n      --eplb-config '{\"a\":\"1\",\n      \"b\":\"2\"}'
  env:\n  - name: TP\n    value: \"2\"\n  - name: LOCAL\n    value: \"2\"\n  - name: MAX\n    value: \"24\"
  - name: OTHER\n    valueFrom: {fieldRef: {fieldPath: x}}\n- name: sidecar\n  args: [\"--port=1\"]\n",
        ),
        ("list.yaml", "containers:\n- command: [vllm, serve]\n  args: [llama3-70b, -tp, \"4\"]\n"),
        ("k8s.yaml", "containers:\n- command: [vllm, serve]\n  args: [llama3-70b, \"-tp=$(TP)\"]\n  env: [{name: TP, value: \"4\"}]\n"),
        (
            "recipe.yaml",
            "description: use vllm serve and more\nguide: |\n  Run vllm serve from a shell -tp 4\n  For all: vllm serve --tp and\n\
             features:\n  tools:\n    args: [\"--tool-call-parser\", openai]\n",
        ),
    ];
    let of = |name: &str, keys: &[(&str, &str)]| of_files(files, &[name], keys);
    let asked = of("env.yaml", &[]).err().unwrap();
    assert!(asked.contains("does not say dp (--data-parallel-size $((NODES*LOCAL)))"), "{asked}");
    let env = of("env.yaml", &[("dp", "4")]).unwrap();
    assert_eq!((env.tp, env.dp, env.sequences), (2, 4, 24));
    assert_eq!(env.engine.as_deref(), Some("vllm@0.33.0"));
    assert_eq!([of("list.yaml", &[]).unwrap().tp, of("k8s.yaml", &[]).unwrap().tp], [4, 4]);
    let recipe = of("recipe.yaml", &[]).err().unwrap();
    assert!(recipe.contains("no model") && recipe.contains("--set model=NAME"), "{recipe}");
}

/// vLLM's compiler takes its settings as an object or one by one.
#[test]
fn settings_of_vllms_compiler_are_read() {
    let of = |more: &str| serving(&format!("vllm serve llama3-70b -tp 4 {more}"), "dgx-h200").0;
    for more in [
        "--compilation-config '{\"pass_config\":{\"fuse_allreduce_rms\":false}}'",
        "-cc.pass_config.fuse_allreduce_rms=False",
        "--compilation-config.pass_config.fuse_allreduce_rms false",
    ] {
        let found = of(more);
        assert_eq!(found.fused, Some(false), "{more}");
        assert!(!says(&found, "compilation"), "{more}");
    }
    assert_eq!(of("-O1 -cc.pass_config.fuse_allreduce_rms=true").fused, Some(true));
    let other = of("--compilation-config '{\"cudagraph_mode\":\"PIECEWISE\"}'");
    assert!(other.fused.is_none() && says(&other, "another compilation"));
}

/// Values that cannot be read are asked for, by their flag and by the key that says them otherwise.
#[test]
fn values_that_are_not_read_are_asked_for() {
    let files = &[
        ("a.sh", "vllm serve llama3-8b --max-num-seqs many --gpu-memory-utilization most"),
        ("b.sh", "vllm serve $MODEL -tp 4 --max-num-seqs $CONC"),
        ("c.sh", "trtllm-serve llama3-8b --max_batch_size lots"),
        ("d.sh", "vllm serve llama3-8b --kv-cache-dtype int3"),
    ];
    let of = |name: &str, keys: &[(&str, &str)]| of_files(files, &[name], keys);
    let asked = of("a.sh", &[]).err().unwrap();
    assert!(asked.contains("sequences (--max-num-seqs many)"), "{asked}");
    assert!(asked.contains("utilization (--gpu-memory-utilization most)"), "{asked}");
    assert!(of("a.sh", &[("sequences", "8"), ("utilization", "0.9")]).is_ok());
    let model = of("b.sh", &[]).err().unwrap();
    assert!(model.contains("`$MODEL`") && model.contains("--set model=NAME"), "{model}");
    assert!(says(
        &of("b.sh", &[("model", "llama3-70b")]).unwrap(),
        "sequences $CONC, which only a run"
    ));
    let said = of("b.sh", &[("model", "llama3-70b"), ("sequences", "8")]).unwrap();
    assert!(!says(&said, "$CONC"), "{:?}", said.inferred);
    let asked = of("c.sh", &[]).err().unwrap();
    assert!(asked.contains("sequences (--max-batch-size lots)"), "{asked}");
    assert!(of("d.sh", &[]).err().unwrap().contains("nvfp4"));
}

/// QwenLM/Qwen, LLaVA, InternVL, open-instruct and FastChat name adapters in their own way.
#[test]
fn scripts_have_flags_of_their_own_for_adapters() {
    let of = |command: &str| {
        let text = format!(
            "torchrun --nproc_per_node 8 {command} --model_name_or_path Qwen/Qwen2.5-7B \
            --model_max_length 2048 --per_device_train_batch_size 2 --gradient_accumulation_steps 8\n"
        );
        draft("a.sh", text.leak())
    };
    let adapters = |command: &str| of(command).get("adapters").map(str::to_owned);
    assert_eq!(adapters("finetune.py --bf16 True"), None);
    for flags in ["finetune.py --use_lora", "train.py --lora_enable True --lora_r 64"] {
        assert_eq!(adapters(flags).as_deref(), Some("rank 64"), "{flags}");
    }
    let named = "fastchat/train/train_lora.py --lora_r 8 --lora_target_modules q_proj v_proj";
    assert_eq!(adapters(named).as_deref(), Some("rank 8 on q_proj v_proj"));
    let intern = of("finetune.py --use_llm_lora 16 --freeze_llm True --grad_checkpoint True");
    assert_eq!((intern.get("adapters"), intern.get("recompute")), (Some("rank 16"), Some("full")));
    assert_eq!(intern.unread, ["freeze_llm"]);
    assert_eq!(of("finetune.py --use_lora --q_lora").get("weights_type"), Some("nf4"));
    let projector = "deepspeed llava/train/train.py --tune_mm_mlp_adapter True --per_device_train_batch_size 1\n";
    let refused = drafts(&OneText(projector), &["a.sh".to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("only a projector is trained"), "{refused}");
}

/// Values of a chart, options without the engine's name, and a model behind a folder.
#[test]
fn servers_are_known_by_their_options() {
    let chart = "servingEngineSpec:\n  modelSpec:\n  - name: a\n    modelURL: Qwen/Qwen3-32B\n    vllmConfig:\n      \
        tensorParallelSize: 4\n      maxModelLen: 8192\n      enablePrefixCaching: false\n      \
        extraArgs: [\"--disable-log-requests\"]\n";
    let found = draft("values.yaml", chart);
    assert_eq!((found.get("tp"), found.get("context")), (Some("4"), Some("8192")));
    assert_eq!(found.called.as_deref(), Some("Qwen/Qwen3-32B"));
    let other = chart.replace("  - name", "  - modelURL: Qwen/Qwen3-8B\n  - name");
    let refused =
        drafts(&OneText(other.leak()), &["values.yaml".to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("Qwen/Qwen3-8B and Qwen/Qwen3-32B"), "{refused}");
    let sglang = "served-model-name: deepseek-ai/DeepSeek-R1\ntensor-parallel-size: 32\ndata-parallel-size: 32\n\
        expert-parallel-size: 32\nenable-dp-attention: true\nmem-fraction-static: 0.83\n";
    let found = draft("decode.yaml", sglang);
    assert_eq!(
        (found.get("tp"), found.get("dp"), found.get("ep")),
        (Some("1"), Some("32"), Some("32"))
    );
    assert_eq!(found.called.as_deref(), Some("deepseek-ai/DeepSeek-R1"));
    let folder =
        "vllm serve /models/a --served-model-name Qwen/Qwen3-8B --tensor-parallel-size 2\n";
    assert_eq!(draft("a.sh", folder).called.as_deref(), Some("Qwen/Qwen3-8B"));
}

/// Python writes numbers that JSON has not.
#[test]
fn a_configuration_may_have_infinity() {
    let text = r#"{"model_type": "llama", "note": "Infinity, -Infinity \"NaN\"", "time_step_limit": [0.0, Infinity],
        "a": -Infinity, "b": NaN, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}"#;
    assert_eq!(draft("config.json", text).model.map(|model| model.hidden), Some(4096));
}

/// In a pipeline that runs empty after each local batch, it idles as often.
#[test]
fn a_pipeline_may_run_empty_within_a_step() {
    let of = |keys: &[(&str, &str)]| {
        let all = [("pp", "4"), ("chunks_per_stage", "1"), ("micro_batch", "1"), ("dp", "1")];
        job("a.toml", FOUR_STAGES, &[&all[..], keys].concat())
    };
    let (whole, parts) = (of(&[]), of(&[("local_batch", "8")]));
    assert_eq!((whole.microbatches(), parts.microbatches()), (32.0, 32.0));
    assert_eq!((whole.idle(), parts.idle()), (3.0, 12.0));
}

const FOUR_STAGES: &str = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 4\n\
    sharding = \"FSDP2\"\nbatch = { global = 32, sequence = 4096 }\n";
