//! Quick reduce on AMD's GPUs, in vLLM and SGLang: two-shot with a payload of fewer bits.
//!
//! Source: vllm-project/vllm 0.33.0, `vllm/distributed/device_communicators/quick_all_reduce.py`.

use super::Taken;
use super::ask::{Ask, KIB, MIB};
use crate::machine::sample::DataType;

/// A codec, its kernel, and its place in [`LEAST`].
const CODECS: [(&str, &str); 5] = [
    ("FP", "two-shot-push-fp"),
    ("INT8", "two-shot-push-int8"),
    ("INT6", "two-shot-push-int6"),
    ("INT4", "two-shot-push-int4"),
    ("INT3", "two-shot-push-int3"),
];

/// Smallest S in MiB for 2, 4 and 8 ranks: float16, then bfloat16.
const LEAST: [[[u64; 5]; 3]; 2] = [
    [[1, 2, 2, 1, 1], [1, 16, 4, 2, 2], [16, 4, 4, 2, 2]],
    [[2, 8, 8, 8, 8], [8, 64, 64, 16, 16], [16, 2048, 2048, 2048, 2048]],
];

/// Accepts the call or gives the reason why not. `prefix` is the engine's prefix for the names of
/// its variables, `int3` tells whether it knows that codec.
pub(super) fn take(ask: &Ask<'_>, prefix: &str, int3: bool) -> Result<Taken, String> {
    let variable = |name: &str| format!("{prefix}ROCM_QUICK_REDUCE_{name}");
    if !ask.board.cdna {
        return Err("it is for AMD's MI300 and MI350".to_owned());
    }
    let asked = ask.env.get(&variable("QUANTIZATION")).unwrap_or("NONE").to_ascii_uppercase();
    let codec = CODECS.iter().position(|(name, _)| *name == asked);
    let codec = codec.filter(|&c| c < 4 || int3 && ask.ranks == 2);
    let codec = codec.ok_or_else(|| format!("{}={asked}: off", variable("QUANTIZATION")))?;
    ask.one_node()?;
    ask.ranks_of(&[2, 4, 8])?;
    if ask.ranks > 2 && !ask.board.linked {
        return Err("not every pair has an xGMI link".to_owned());
    }
    ask.dtype_of(&[DataType::F16, DataType::Bf16])?;
    ask.blocks_of(16)?;
    let cast = ask.env.is_on(&variable("CAST_BF16_TO_FP16"), true);
    let row = usize::from(ask.dtype == DataType::Bf16 && !cast);
    let least = ask.env.number(&variable("MIN_SIZE_BYTES_MB"));
    let least = least.unwrap_or(LEAST[row][ask.ranks.ilog2() as usize - 1][codec]);
    let most = ask.env.number(&variable("MAX_SIZE_BYTES_MB")).unwrap_or(2048_u64);
    if !ask.at_least(least * MIB) {
        return Err(format!("below {least} MiB, where {asked} starts with {} ranks", ask.ranks));
    }
    if !ask.at_most(most * MIB) {
        return Err(format!("above {most} MiB"));
    }
    let plain = ask.env.number::<u64>(&variable("QUANTIZATION_MIN_SIZE_KB"));
    let codec = if plain.is_some_and(|k| ask.below(k * KIB)) { 0 } else { codec };
    let (name, kernel) = CODECS[codec];
    Ok(Taken::new("quick-reduce", kernel, format!("codec {name}, from {least} to {most} MiB")))
}
