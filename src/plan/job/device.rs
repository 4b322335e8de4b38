//! A GPU: its peaks, its memory, and the part of the peaks that kernels reach.

use serde::Deserialize;

use super::Precision;
use crate::base::error::{Error, Result};

/// One GPU as `devices.toml` describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    pub name: String,
    /// Words in titles and descriptions that identify it.
    words: Vec<String>,
    /// The built-in machine that has it.
    pub profile: String,
    /// The gigabytes by which it is sold.
    #[serde(rename = "memory_GB")]
    memory_gb: f64,
    /// What its driver says that there is of these; `None` for a memory that only a user names.
    #[serde(default, rename = "usable_GiB")]
    usable_gib: Option<f64>,
    pub peak_bf16_tflops: f64,
    pub peak_fp8_tflops: f64,
    /// 0 without a rate of products in 4 bits.
    #[serde(default)]
    peak_fp4_tflops: f64,
    /// The rate of the largest product alone, where it was measured.
    largest_bf16_tflops: Option<f64>,
    largest_fp8_tflops: Option<f64>,
    #[serde(rename = "hbm_TB_s")]
    pub hbm_tb_s: f64,
    /// The part of that rate at which it is read alone; that of `like`, where there is none.
    #[serde(default)]
    read: f64,
    /// The same GPU with another memory.
    #[serde(default)]
    also: Vec<Memory>,
    /// Its power limit, where its maker states one.
    watts: Option<f64>,
    /// The power limit here over that one.
    #[serde(default = "whole")]
    power: f64,
    /// The GPU whose kernels these are, where none of this one's were measured.
    pub like: Option<String>,
    /// Those of `like`, where it has one.
    #[serde(default)]
    pub kernels: Kernels,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    #[serde(rename = "memory_GB")]
    memory_gb: f64,
    #[serde(default, rename = "usable_GiB")]
    usable_gib: Option<f64>,
    #[serde(rename = "hbm_TB_s")]
    hbm_tb_s: f64,
}

fn whole() -> f64 {
    1.0
}

/// Parts of the peaks that kernels reach inside a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernels {
    pub(super) matmul: f64,
    pub(super) fp8: f64,
    #[serde(default)]
    pub(super) fp4: f64,
    pub(super) torch_matmul: f64,
    pub(super) torch_fp8: f64,
    pub(super) flash: f64,
    pub(super) torch_flash: f64,
    pub(super) unfused: f64,
}

#[derive(Deserialize)]
struct Devices {
    device: Vec<Device>,
}

#[cfg(test)]
impl Kernels {
    pub(super) fn is_near(&self, other: &Self, by: f64) -> bool {
        let all = |k: &Self| {
            [k.matmul, k.fp8, k.fp4, k.torch_matmul, k.torch_fp8, k.flash, k.torch_flash, k.unfused]
        };
        all(self).into_iter().zip(all(other)).all(|(a, b)| (a - b).abs() < by)
    }
}

const DEVICES: &str = include_str!("devices.toml");

/// The exponent of a lower power limit's effect on the rate: clocks fall less than power.
const POWER: f64 = 0.26;

impl Device {
    /// The GPU that a description names, such as `H100 SXM 80 GB` or a machine's title; a power
    /// limit (`at 500 W`) and a memory size in it are used.
    ///
    /// # Errors
    /// No known GPU is named.
    pub fn named(text: &str) -> Result<Self> {
        let plain = text.to_ascii_lowercase();
        let devices: Devices = toml::from_str(DEVICES)
            .map_err(|e| Error::environment(format!("the table of GPUs: {}", e.message())))?;
        let known: Vec<String> = devices.device.iter().map(|d| d.name.clone()).collect();
        let found = devices.device.iter().find(|d| d.words.iter().any(|w| says(&plain, w)));
        let mut device = found.cloned().ok_or_else(|| {
            let known = known.join(", ");
            match text {
                "" => Error::input("the job names no GPU")
                    .help(format!("write device = \"H100\"; known: {known}")),
                _ => Error::input(format!("no rates of kernels are known for `{text}`")).help(format!(
                    "known: {known}; for others a [step.NAME] takes the rate, kernels = \"550TFLOP/s\""
                )),
            }
        })?;
        if let Some(like) = devices.device.iter().find(|d| Some(&d.name) == device.like.as_ref()) {
            device.kernels = device.kernels_of(like);
            device.read = if device.read > 0.0 { device.read } else { like.read };
        }
        let limit = before(&plain, "w").filter(|w| (100.0..3000.0).contains(w));
        if let (Some(limit), Some(watts)) = (limit, device.watts) {
            device.power = (limit / watts).min(device.power.max(1.0));
        }
        if let Some(memory) = before(&plain, "gb").filter(|m| (10.0..1000.0).contains(m)) {
            match device.also.iter().find(|m| m.memory_gb == memory) {
                Some(other) => {
                    (device.memory_gb, device.usable_gib) = (memory, other.usable_gib);
                    device.hbm_tb_s = other.hbm_tb_s;
                }
                None if memory != device.memory_gb => device.hold(memory),
                None => {}
            }
        }
        Ok(device)
    }

    /// The parts of its peaks that the kernels of another GPU reach on it: the same parts of the largest products,
    /// where both have been measured; attention's core with those in 16 bits.
    fn kernels_of(&self, like: &Self) -> Kernels {
        let part = |largest: Option<f64>, peak: f64| largest.map(|largest| largest / peak);
        let wide = |d: &Self| part(d.largest_bf16_tflops, d.peak_bf16_tflops);
        let eight = |d: &Self| part(d.largest_fp8_tflops, d.peak_fp8_tflops);
        let over = |of: &dyn Fn(&Self) -> Option<f64>| of(self).zip(of(like)).map(|(a, b)| a / b);
        let wide = over(&wide).unwrap_or(1.0);
        let eight = over(&eight).unwrap_or(wide);
        let k = like.kernels;
        Kernels {
            matmul: k.matmul * wide,
            torch_matmul: k.torch_matmul * wide,
            fp8: k.fp8 * eight,
            torch_fp8: k.torch_fp8 * eight,
            fp4: k.fp4 * eight,
            flash: k.flash * wide,
            torch_flash: k.torch_flash * wide,
            unfused: k.unfused * wide,
        }
    }

    /// Gives it `gigabytes` of memory, all usable.
    pub fn hold(&mut self, gigabytes: f64) {
        (self.memory_gb, self.usable_gib) = (gigabytes, None);
    }

    /// The bytes that a process may allocate.
    pub fn capacity(&self) -> f64 {
        self.usable_gib.map_or(self.memory_gb * 1e9, |gib| gib * f64::from(1_u32 << 30))
    }

    fn clock(&self) -> f64 {
        self.power.powf(POWER)
    }

    /// Rate of large products in 16 bits, in FLOP/s, by PyTorch's own kernels or Transformer Engine's.
    pub fn matmul(&self, torch: bool) -> f64 {
        let k = &self.kernels;
        let part = if torch { k.torch_matmul } else { k.matmul };
        self.peak_bf16_tflops * 1e12 * part * self.clock()
    }

    /// Whether products in `precision` read inputs that were cast for them: the GPU has a higher
    /// rate for it.
    pub fn casts(&self, precision: Precision) -> bool {
        match precision {
            Precision::Fp8 => self.peak_fp8_tflops > self.peak_bf16_tflops,
            Precision::Fp4 => self.peak_fp4_tflops > self.peak_fp8_tflops,
            Precision::Bf16 | Precision::Fp16 => false,
        }
    }

    /// The same for the body's products.
    pub fn body(&self, precision: Precision, torch: bool) -> f64 {
        let k = &self.kernels;
        if !self.casts(precision) {
            return self.matmul(torch);
        }
        let (peak, part) = match precision {
            Precision::Fp4 => (self.peak_fp4_tflops, k.fp4),
            _ if torch => (self.peak_fp8_tflops, k.torch_fp8),
            _ => (self.peak_fp8_tflops, k.fp8),
        };
        peak * 1e12 * part * self.clock()
    }

    /// The same for attention's core.
    pub fn attention(&self, unfused: bool, torch: bool) -> f64 {
        let k = &self.kernels;
        let part = match (unfused, torch) {
            (true, _) => k.unfused,
            (false, true) => k.torch_flash,
            (false, false) => k.flash,
        };
        self.peak_bf16_tflops * 1e12 * part * self.clock()
    }

    /// Bytes per second of pointwise work.
    pub fn stream(&self) -> f64 {
        const REACHED: f64 = 0.66;
        self.hbm_tb_s * 1e12 * REACHED
    }

    /// Bytes per second of what is only read: weights and caches.
    pub fn reading(&self) -> f64 {
        self.hbm_tb_s * 1e12 * self.read
    }

    /// Whether XLA builds its programs, whole steps at once.
    pub fn is_tpu(&self) -> bool {
        self.name.starts_with("TPU")
    }

    /// Whether it is a Blackwell.
    pub fn is_blackwell(&self) -> bool {
        self.name.contains("B200") || self.name.contains("B300")
    }

    /// Whether a framework trains in blocks of 8 bits on it.
    pub fn has_blocks(&self) -> bool {
        self.is_blackwell() || self.name == "MI355X"
    }

    /// Whether its tensor cores multiply bf16: from Ampere on.
    pub fn has_bf16(&self) -> bool {
        !self.name.starts_with("V100")
    }

    /// Whether it predates fused attention.
    pub fn is_early(&self) -> bool {
        ["V100", "A100"].iter().any(|early| self.name.starts_with(early))
    }
}

/// Whether a text names a GPU, which is no part of another name: `l4` in `8 x L4 PCIe`, not in `L40S` or `NVL4`.
fn says(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        before.is_none_or(|c| c == 'x' || !c.is_ascii_alphanumeric())
            && after.is_none_or(|c| !c.is_ascii_digit())
    })
}

/// The number before a unit: `at 500 W`, `80 GB`.
fn before(text: &str, unit: &str) -> Option<f64> {
    let words: Vec<&str> = text.split([' ', ',', ';']).collect();
    let pairs = words.windows(2).filter(|pair| pair[1] == unit);
    pairs.filter_map(|pair| pair[0].parse().ok()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::profile::Profile;

    #[test]
    fn machines_have_the_memory_of_their_gpus() {
        let of = |machine: &str| {
            let device = Device::named(&Profile::builtin(machine).unwrap().title).unwrap();
            (device.name.clone(), device.memory_gb, device.hbm_tb_s)
        };
        for forty in ["p4d", "a2-highgpu-8g", "nd-a100-v4", "perlmutter", "polaris", "bm.gpu4.8"] {
            assert_eq!(of(forty), ("A100".to_owned(), 40.0, 1.56), "{forty}");
        }
        for eighty in ["dgx-a100", "p4de", "a2-ultragpu-8g", "ND96amsr_A100_v4", "bm.gpu.a100-v2.8"]
        {
            assert_eq!(of(eighty), ("A100".to_owned(), 80.0, 2.04), "{eighty}");
        }
        for h200 in ["dgx-h200", "p5e", "p5en", "nd-h200-v5", "bm.gpu.h200.8", "abci-3"] {
            assert_eq!(of(h200), ("H200".to_owned(), 141.0, 4.8), "{h200}");
        }
        assert_eq!(of("hgx-h20"), ("H20".to_owned(), 96.0, 4.0));
        assert_eq!(of("h20-3e"), ("H20".to_owned(), 141.0, 4.8));
        assert_eq!(of("a100-pcie"), ("A100 PCIe".to_owned(), 80.0, 1.94));
        assert_eq!(of("h100-pcie"), ("H100 PCIe".to_owned(), 80.0, 2.0));
        assert_eq!(of("abci-v100").1, 16.0);
        for gh200 in ["alps", "jupiter", "isambard-ai", "deltaai", "vista", "miyabi-g"] {
            assert_eq!(of(gh200), ("GH200".to_owned(), 96.0, 4.0), "{gh200}");
        }
        for (machine, name, gb) in [
            ("leonardo", "A100", 64.0),
            ("juwels-booster", "A100", 40.0),
            ("marenostrum5-acc", "H100", 64.0),
            ("tsubame4", "H100", 94.0),
            ("nc96ads-a100-v4", "A100 PCIe", 80.0),
            ("nc80adis-h100-v5", "H100 NVL", 94.0),
        ] {
            let (found, memory, _) = of(machine);
            assert_eq!((found.as_str(), memory), (name, gb), "{machine}");
        }
        for (machine, name, like) in [
            ("hgx-a800", "A800", "A100"),
            ("a40-pcie", "A40", "A100"),
            ("a10-pcie", "A10", "A100"),
            ("a30-pcie", "A30", "A100"),
            ("rtx-a6000", "RTX A6000", "A100"),
            ("rtx-3090", "RTX 3090", "A100"),
            ("h100-nvl", "H100 NVL", "H100"),
            ("h200-nvl", "H200 NVL", "H100"),
            ("l40s-pcie", "L40S", "A100"),
            ("l40-pcie", "L40", "A100"),
            ("l20-pcie", "L20", "A100"),
            ("l4-pcie", "L4", "A100"),
            ("rtx-4090", "RTX 4090", "A100"),
            ("rtx-6000-ada", "RTX 6000 Ada", "A100"),
            ("rtx-5090", "RTX 5090", "A100"),
            ("rtx-pro-6000", "RTX PRO 6000", "A100"),
            ("dgx-spark", "GB10", "A100"),
        ] {
            let device = Device::named(&Profile::builtin(machine).unwrap().title).unwrap();
            let other = Device::named(like).unwrap();
            assert_eq!((device.name.as_str(), device.like.as_deref()), (name, Some(like)));
            assert_eq!((device.kernels, device.profile.as_str()), (other.kernels, machine));
        }
        for (machine, name, gib) in [
            ("tpu-v6e", "TPU v6e", 31.25),
            ("tpu-v5e", "TPU v5e", 15.75),
            ("tpu-v5p", "TPU v5p", 95.74),
            ("tpu-v4p", "TPU v4", 30.75),
            ("tpu7x", "TPU7x", 189.5),
        ] {
            let device = Device::named(&Profile::builtin(machine).unwrap().title).unwrap();
            assert_eq!((device.name.as_str(), device.profile.as_str()), (name, machine));
            assert_eq!(device.capacity(), gib * f64::from(1_u32 << 30));
            assert!(device.is_tpu() && device.matmul(true) > 0.0);
        }
        assert!(Device::named("8 x L41 PCIe").is_err(), "no L4");
        assert!(Device::named("A10 PCIe").unwrap().peak_bf16_tflops > 100.0, "no A100, no A10G");
    }

    /// On MI300X a product alone reaches 668 of 1,307 TFLOP/s, on H100 794 of 989 (stas00/ml-engineering): a step's
    /// products are not faster than that.
    #[test]
    fn kernels_reach_the_same_part_of_the_largest_product() {
        let of = |name| Device::named(name).unwrap();
        let h100 = of("H100");
        let rate = |d: &Device| d.matmul(false) / 1e12;
        for (name, largest) in
            [("MI300X", 668.4), ("MI325X", 784.9), ("MI355X", 1565.0), ("H20", 142.25)]
        {
            let (own, other) = (rate(&of(name)) / largest, rate(&h100) / 794.5);
            assert!((own / other - 1.0).abs() < 1e-9, "{name}: {own} {other}");
        }
        let fp8 = |d: &Device| d.body(Precision::Fp8, false) / 1e12;
        let (own, other) = (fp8(&of("MI300X")) / 1160.0, fp8(&h100) / 1402.6);
        assert!((own / other - 1.0).abs() < 1e-9, "{own} {other}");
        // Transformer Engine's products in FP8 reach two hundredths more on H100 than PyTorch's largest there.
        assert!(other < 1.03, "{other}");
    }
}
