//! What neither a graph file nor a log says about a machine, as users write it.

use std::str::FromStr;

use super::{Arch, Starting, Vendor};
use crate::base::error::{Error, Result};

/// A GPU's compute capability: 70, 80, 90, 100 …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub u32);

/// GPUs and their compute capability; source: NVIDIA's table of CUDA GPUs.
const GPUS: &[(&str, u32)] = &[
    ("p100", 60),
    ("v100", 70),
    ("t4", 75),
    ("a100", 80),
    ("a800", 80),
    ("a30", 80),
    ("a10", 86),
    ("a10g", 86),
    ("a40", 86),
    ("a6000", 86),
    ("rtx3090", 86),
    ("l4", 89),
    ("l20", 89),
    ("l40", 89),
    ("l40s", 89),
    ("rtx4090", 89),
    ("h20", 90),
    ("h100", 90),
    ("h200", 90),
    ("h800", 90),
    ("gh200", 90),
    ("b100", 100),
    ("b200", 100),
    ("gb200", 100),
    ("b300", 103),
    ("gb300", 103),
    ("rtx5090", 120),
    ("rtxpro6000", 120),
    ("gb10", 121),
];

/// The GPUs that a text names, in small letters, such as `a100` in `NVIDIA A100-SXM4-80GB` and `mi300` in
/// `8 x MI300X on xGMI`: NVIDIA's that are known, and AMD's MI of any number.
#[must_use]
pub fn gpus_named(text: &str) -> Vec<String> {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let known = |name: &str| GPUS.iter().any(|(gpu, _)| *gpu == name);
    let mut named: Vec<String> = Vec::new();
    for at in 0..words.len() {
        // `RTX PRO 6000`, `RTX 5090`, `A100`.
        let most = if words[at] == "rtx" { 3 } else { 1 };
        for length in 1..=most {
            let Some(part) = words.get(at..at + length) else { continue };
            let whole = part.concat();
            // V100S is a V100.
            let plain = whole.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let amd = plain.strip_prefix("mi").is_some_and(|number| {
                number.len() > 1 && number.bytes().all(|b| b.is_ascii_digit())
            });
            if known(&whole) {
                named.push(whole);
            } else if amd || known(plain) {
                named.push(plain.to_owned());
            }
        }
    }
    named.sort_unstable();
    named.dedup();
    named
}

impl FromStr for Capability {
    type Err = Error;

    /// Reads a GPU's name (`h100`), or the capability (`cc90`, `sm90`, `9.0`, `90`).
    fn from_str(text: &str) -> Result<Self> {
        let plain = text.trim().to_ascii_lowercase().replace([' ', '-', '_'], "");
        if let Some((_, cc)) = GPUS.iter().find(|(name, _)| *name == plain) {
            return Ok(Self(*cc));
        }
        let number = plain.trim_start_matches("cc").trim_start_matches("sm").replace('.', "");
        match number.parse() {
            Ok(cc @ 35..=999) if !text.trim().starts_with('-') => Ok(Self(cc)),
            _ => Err(Error::input(format!(
                "`{text}` is not a GPU whose compute capability is known"
            ))
            .help("write the capability, such as cc90, or one of h100, b200, a100, l40s, v100")),
        }
    }
}

/// A processor, as far as NCCL's tuner distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// Its instruction set.
    pub arch: Arch,
    /// Its vendor.
    pub vendor: Vendor,
}

impl FromStr for Processor {
    type Err = Error;

    /// Reads `intel`, `amd`, `zhaoxin`, `mixed` (x86 of several vendors), `arm` or `power`.
    fn from_str(text: &str) -> Result<Self> {
        let (arch, vendor) = match text.trim().to_ascii_lowercase().as_str() {
            "intel" => (Arch::X86, Vendor::Intel),
            "amd" => (Arch::X86, Vendor::Amd),
            "zhaoxin" => (Arch::X86, Vendor::Zhaoxin),
            "mixed" => (Arch::X86, Vendor::Mixed),
            "arm" | "arm64" | "grace" => (Arch::Arm, Vendor::Other),
            "power" | "ppc64" => (Arch::Power, Vendor::Other),
            _ => {
                return Err(Error::input(format!(
                    "`{text}` is not a processor that NCCL distinguishes"
                ))
                .help("known: intel, amd, zhaoxin, mixed, arm, power"));
            }
        };
        Ok(Self { arch, vendor })
    }
}

/// A user's values for a communicator that a file does not contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Ranks of the communicator.
    pub ranks: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// The GPUs; all alike.
    pub gpu: Option<Capability>,
    /// The processors.
    pub processor: Option<Processor>,
    /// The job's environment, as far as start-up reads it.
    pub start: Starting,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_known_in_the_names_of_drivers_and_in_titles() {
        for (text, expected) in [
            ("NVIDIA A100-SXM4-80GB", &["a100"][..]),
            ("Tesla V100S-PCIE-32GB", &["v100"]),
            ("NVIDIA GeForce RTX 5090", &["rtx5090"]),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", &["rtxpro6000"]),
            ("NVIDIA A10G", &["a10g"]),
            ("AMD Instinct MI300X", &["mi300"]),
            ("8 x H20 SXM on NVSwitch, 8 x NDR 400G per node", &["h20"]),
            ("GB200 NVL72: 72 x B200 in one NVLink domain", &["b200", "gb200"]),
            ("Azure ND96asr_v4, p5.48xlarge, Graphics Device", &[]),
        ] {
            assert_eq!(gpus_named(text), expected, "{text}");
        }
    }

    #[test]
    fn gpus_by_name_and_by_number() {
        for text in ["h100", "H100", "cc90", "sm_90", "9.0", "90"] {
            assert_eq!(text.parse::<Capability>().unwrap(), Capability(90), "{text}");
        }
        assert_eq!("L40S".parse::<Capability>().unwrap(), Capability(89));
        for text in ["", "x100", "cc", "9", "-90"] {
            assert!(text.parse::<Capability>().is_err(), "{text}");
        }
    }
}
