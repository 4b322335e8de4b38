//! Settings: environment variables, and flags of an engine's command line.

use std::str::FromStr;

use crate::base::error::{Error, Result};

/// Variables with their values, as `NAME=VALUE`; a flag such as `--enable-mscclpp` is one too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<(String, String)>);

/// Variables with few values, which their engines refuse in another spelling; `p2p` is a condition
/// of this program. Values are compared without case, and `-` is `_`.
const CLOSED: [(&str, &[&str]); 8] = [
    ("p2p", &["0", "1", "false", "true", "no", "yes", "off", "on"]),
    ("VLLM_CUSTOM_ALLREDUCE_ALGO", &["1stage", "oneshot", "2stage", "twoshot"]),
    ("VLLM_FLASHINFER_ALLREDUCE_BACKEND", &["auto", "trtllm", "mnnvl"]),
    ("backend", &["auto", "trtllm", "mnnvl"]),
    ("strategy", STRATEGIES),
    ("allreduce_strategy", STRATEGIES),
    ("fusion", FUSIONS),
    ("pattern", PATTERNS),
];

/// What TensorRT-LLM fuses with an all-reduce: its tables' names, and its operators' of those.
const FUSIONS: &[&str] = &[
    "NONE",
    "RMS",
    "FP8",
    "NVFP4",
    "RESIDUAL_RMS_NORM",
    "RESIDUAL_RMS_NORM_QUANT_FP8",
    "RESIDUAL_RMS_NORM_QUANT_NVFP4",
];

/// FlashInfer's, by their names and numbers, but for those that begin with a sum over experts.
const PATTERNS: &[&str] = &[
    "kAllReduce",
    "kARResidualRMSNorm",
    "kARResidualRMSNormFP8Quant",
    "kARResidualRMSNormFP4Quant",
    "kARResidualRMSNormOutFP8Quant",
    "kARResidualRMSNormOutFP4Quant",
    "kARResidualRMSNormPerTokenGroupFP8PackedQuant",
    "kARResidualRMSNormOutPerTokenGroupFP8PackedQuant",
    "kARResidualRMSNormDynamicFP8Quant",
    "kARResidualRMSNormOutDynamicFP8Quant",
    "kARResidualRMSNormMXFP8Quant",
    "kARResidualRMSNormOutMXFP8Quant",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "8",
    "9",
    "10",
    "11",
    "13",
    "14",
];

/// TensorRT-LLM's, by their numbers and names.
const STRATEGIES: &[&str] = &[
    "AUTO",
    "NCCL",
    "MIN_LATENCY",
    "UB",
    "ONESHOT",
    "TWOSHOT",
    "LOWPRECISION",
    "MNNVL",
    "NCCL_SYMMETRIC",
    "SYMM_MEM",
    "FLASHINFER",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
];

/// Whether two spellings name one variable: `--enable-mscclpp` is `ENABLE_MSCCLPP`.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
    plain(a) == plain(b)
}

impl Variables {
    /// Adds `NAME=VALUE`; a name alone is switched on.
    ///
    /// # Errors
    /// A text without a name; a value that its engine does not know.
    pub fn put(&mut self, text: &str) -> Result<()> {
        let (name, value) = text.split_once('=').unwrap_or((text, "1"));
        let name = name.trim();
        if name.trim_start_matches('-').is_empty() {
            return Err(Error::input(format!("`{text}` does not name a variable"))
                .help("write NAME=VALUE, such as VLLM_ALLREDUCE_USE_SYMM_MEM=0"));
        }
        let value = value.trim();
        let spelled = |text: &str| text.replace('-', "_").to_ascii_uppercase();
        if let Some((_, values)) = CLOSED.iter().find(|(closed, _)| same(closed, name))
            && !value.is_empty()
            && !values.iter().any(|known| spelled(known) == spelled(value))
        {
            let words: Vec<&str> =
                values.iter().copied().filter(|v| v.parse::<u8>().is_err()).collect();
            return Err(Error::input(format!("`{value}` is not a value of {name}"))
                .help(format!("write {}", words.join(", "))));
        }
        self.0.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// The names, as they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The names with their values, in the order in which they were written.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Those of one name alone.
    pub(super) fn only(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(n, _)| same(n, name)).cloned().collect())
    }

    /// The last value of `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| same(n, name)).map(|(_, value)| value.as_str())
    }

    /// Whether `name` is switched on; `default` if it is not set.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| {
            !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off" | "")
        })
    }

    /// The value of `name` as a number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_an_engine_refuses_are_refused() {
        let put = |text: &str| Variables::default().put(text).map_err(|e| e.to_string());
        let good = ["p2p=0", "p2p", "--backend=TRTLLM", "strategy=nccl-symmetric", "strategy=8"];
        for good in good.iter().chain(&["fusion=rms", "pattern=kARResidualRMSNorm", "pattern=1"]) {
            assert_eq!(put(good), Ok(()), "{good}");
        }
        let bad = ["p2p=maybe", "backend=foo", "strategy=FOO", "VLLM_CUSTOM_ALLREDUCE_ALGO=3stage"];
        for bad in bad.iter().chain(&["fusion=layernorm", "pattern=kAllGather"]) {
            assert!(put(bad).unwrap_err().contains("is not a value of"), "{bad}");
        }
    }
}
