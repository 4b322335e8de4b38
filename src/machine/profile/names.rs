//! Built-in machines by name, and what a name that none of them has may mean.

use std::fmt;

use super::builtin::{BUILTIN, Builtin};
use crate::base::error::{Error, nearest};

/// The built-in machine of that name.
pub(super) fn find(name: &str) -> Option<&'static Builtin> {
    let name = bare(name);
    BUILTIN.iter().find(|b| b.names.iter().any(|known| same(known, name)))
}

/// What catalogues and tools write before the name: Azure's sizes, SageMaker's instances, `nvidia-smi`, `rocm-smi`.
const BEFORE: [&str; 6] = ["standard", "ml", "nvidia", "tesla", "amd", "instinct"];

/// A machine's name without that.
fn bare(name: &str) -> &str {
    match name.split_once(SEPARATORS) {
        Some((first, rest)) if BEFORE.iter().any(|before| first.eq_ignore_ascii_case(before)) => {
            bare(rest)
        }
        _ => name,
    }
}

/// What separates the words of a name, and does not matter.
const SEPARATORS: [char; 4] = ['-', '_', '.', ' '];

/// Whether two names mean the same machine: only letters and digits matter, in either case.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    letters(a).eq(letters(b))
}

pub(super) fn letters(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter(|c| !SEPARATORS.contains(c)).map(|c| c.to_ascii_lowercase())
}

/// The error about a name that neither a built-in machine nor one of `others` has.
pub fn unknown<'a>(name: &'a str, others: impl Iterator<Item = &'a str>) -> Error {
    let lower = bare(name).to_ascii_lowercase();
    let known = BUILTIN.iter().flat_map(|b| b.names.iter().copied());
    let near = others.chain(known).filter(|known| is_slip(&lower, &known.to_ascii_lowercase()));
    let help = match nearest(&lower.replace('_', "-"), near) {
        _ if let Some(slice) = slice(bare(name)) => slice.to_string(),
        // What `calibrate` writes where no other name is given.
        _ if same(name, "local") => {
            "`collcost calibrate` measures this machine and writes its profile as `local`"
                .to_owned()
        }
        Some(near) => format!("did you mean `{near}`? `collcost profiles` lists all"),
        None => match &related(&lower)[..] {
            [] => {
                "`collcost profiles` lists the known machines; --alpha and --bw describe any other"
                    .to_owned()
            }
            like => {
                format!("named like it: `{}`; `collcost profiles` lists all", like.join("`, `"))
            }
        },
    };
    Error::input(format!("`{name}` is not a machine")).help(help)
}

/// A slice of TPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The built-in machine of its chips.
    pub machine: &'static str,
    pub chips: u32,
    /// Whether its name counts TensorCores, of which a chip has two.
    by_core: bool,
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, chips, by_core } = self;
        let why = if *by_core { ", whose name counts two TensorCores a chip" } else { "" };
        let many = if *chips == 1 { "" } else { "s" };
        write!(f, "write --on {machine} -n {chips}: it is a slice of {chips} chip{many}{why}")
    }
}

/// What Google's name of a slice means: its number counts TensorCores, two a chip, in v4 and v5p
/// (cloud.google.com/tpu/docs/v4, v5p) and TPU7x (AI-Hypercomputer/xpk: tpu7x-128 is 4x4x4), and chips in the others;
/// `tpu7x-4x4x4` has the edges of its torus.
pub(crate) fn slice(name: &str) -> Option<Slice> {
    let (kind, size) = name.rsplit_once(['-', '_'])?;
    let machine = find(kind)?.names[0];
    let edges: Option<Vec<u32>> = size.split('x').map(|edge| edge.parse().ok()).collect();
    let count = edges?.into_iter().try_fold(1_u32, u32::checked_mul)?;
    if !machine.starts_with("tpu") || count == 0 {
        return None;
    }
    let by_core = !size.contains('x') && matches!(machine, "tpu-v4p" | "tpu-v5p" | "tpu7x");
    let chips = if by_core { count.div_ceil(2) } else { count };
    Some(Slice { machine, chips, by_core })
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(SEPARATORS).filter(|word| !word.is_empty())
}

fn has_digit(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// Whether one name may be the other with slips, word by word. A word with digits names a chip or a size, and
/// another letter or digit names another one (B200, GB200, B300); only two that are swapped are a slip there, or,
/// beside another word, one that is typed once too often or too seldom.
fn is_slip(typed: &str, known: &str) -> bool {
    let several = words(typed).count() > 1;
    let slipped = |typed: &str, known: &str| match has_digit(typed) || has_digit(known) {
        false => nearest(typed, [known]).is_some(),
        true => typed == known || swapped(typed, known) || several && once(typed) == once(known),
    };
    words(typed).count() == words(known).count()
        && words(typed).zip(words(known)).all(|(typed, known)| slipped(typed, known))
}

/// Whether one word is the other with two neighbours swapped.
fn swapped(a: &str, b: &str) -> bool {
    let a: Vec<char> = a.chars().collect();
    let is = |i: usize| {
        let mut one = a.clone();
        one.swap(i - 1, i);
        one.into_iter().eq(b.chars())
    };
    a.len() == b.len() && (1..a.len()).any(is)
}

/// A word with each letter and digit once that is repeated.
fn once(word: &str) -> Vec<char> {
    let mut all: Vec<char> = word.chars().collect();
    all.dedup();
    all
}

/// The built-in machines with a chip, or another word of letters and then digits, that `typed` has, too.
fn related(typed: &str) -> Vec<&'static str> {
    let is_chip = |word: &&str| {
        word.len() > 2 && has_digit(word) && word.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let chips: Vec<&str> = words(typed).filter(is_chip).collect();
    let has = |name: &str| words(&name.to_ascii_lowercase()).any(|word| chips.contains(&word));
    let related = BUILTIN.iter().filter(|b| b.names.iter().any(|name| has(name)));
    related.map(|b| b.names[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::profile::Profile;

    #[test]
    fn every_built_in_machine_is_found_under_the_names_in_its_file() {
        for Builtin { names, .. } in BUILTIN {
            let root = env!("CARGO_MANIFEST_DIR");
            let text = format!("{root}/profiles/machines/{}.toml", names[0]);
            let text = std::fs::read_to_string(text).unwrap();
            let profile = Profile::parse(&text, names[0]).unwrap();
            assert_eq!(Profile::builtin(names[0]).unwrap().to_toml(), profile.to_toml());
            assert_eq!(profile.name, names[0]);
            assert_eq!(profile.aliases, names[1..], "{}", names[0]);
            for name in *names {
                assert_eq!(Profile::builtin(name).unwrap().name, names[0]);
                let typed = name.to_uppercase().replace('-', "_");
                assert_eq!(Profile::builtin(&typed).unwrap().name, names[0]);
            }
        }
        assert!(Profile::builtin("dgx-h1000").unwrap_err().to_string().contains("`dgx-h100`"));
        assert!(Profile::names().is_sorted());
    }

    #[test]
    fn a_name_means_one_machine() {
        for (i, one) in BUILTIN.iter().enumerate() {
            for other in &BUILTIN[i + 1..] {
                for name in one.names {
                    assert!(!other.names.iter().any(|n| same(n, name)), "{name}");
                }
            }
        }
    }

    #[test]
    fn a_machine_has_the_name_that_its_vendor_writes() {
        for (typed, name) in [
            ("Standard_ND96asr_v4", "nd-a100-v4"),
            ("standard_nd96amsr_a100_v4", "ndm-a100-v4"),
            ("Standard_ND128isr_NDR_GB200_v6", "gb200-nvl72"),
            ("ND128isr_GB300_v6", "gb300-nvl72"),
            ("Standard_ND96isr_MI300X_v5", "nd-mi300x-v5"),
            ("ml.p5e.48xlarge", "p5e.48xlarge"),
            ("NVIDIA B200", "dgx-b200"),
            ("NVIDIA H100 80GB HBM3", "dgx-h100"),
            ("NVIDIA-A100-SXM4-80GB", "dgx-a100"),
            ("NVIDIA RTX PRO 6000 Blackwell", "rtx-pro-6000"),
            ("a4x-maxgpu-4g-metal", "gb300-nvl72"),
            ("BM.GPU.MI355X.8", "mi355x"),
            ("AMD Instinct MI300X OAM", "mi300x"),
            ("Tesla V100-SXM2-32GB", "dgx-1v"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
            ("DGX GB200", "gb200-nvl72"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
            ("NVIDIA A100-PCIE-40GB", "a100-pcie"),
            ("Tesla V100-PCIE-16GB", "v100-pcie"),
            ("mi300", "mi300x"),
            ("MI355", "mi355x"),
            ("BM.GPU.B300.8", "dgx-b300"),
        ] {
            assert_eq!(Profile::builtin(typed).unwrap().name, name, "{typed}");
        }
    }

    #[test]
    fn a_slip_is_mended_and_another_chip_is_not_offered() {
        let said = |typed: &str| Profile::builtin(typed).unwrap_err().to_string();
        for (typed, name) in [
            ("dgx-h10", "dgx-h100"),
            ("dgx-h1000", "dgx-h100"),
            ("DGX_H010", "dgx-h100"),
            ("dxg-b200", "dgx-b200"),
            ("hgx-gb200", "dgx-gb200"),
            ("perlmuter", "perlmutter"),
            ("a3-megapu-8g", "a3-megagpu-8g"),
        ] {
            let said = said(typed);
            assert!(said.contains(&format!("did you mean `{name}`?")), "{typed}: {said}");
        }
        for typed in
            ["mi250x", "g3.16xlarge", "g4ad", "m60", "b100", "p100", "mi100", "a16", "a4000"]
        {
            assert!(
                said(typed)
                    .ends_with("lists the known machines; --alpha and --bw describe any other"),
                "{typed}"
            );
        }
        for (typed, like) in [
            (
                "h100-cnx",
                "`bm.gpu.h100.8`, `dgx-h100`, `h100-nvl`, `h100-pcie`, `nc80adis-h100-v5`, `nd-h100-v5`;",
            ),
            ("h20-nvlink", "named like it: `h20-3e`, `hgx-h20`;"),
            ("v5p-128", "--on tpu-v5p -n 64: it is a slice of 64 chips, whose name counts two"),
            ("v4-8", "--on tpu-v4p -n 4:"),
            ("tpu7x-64", "--on tpu7x -n 32:"),
            ("tpu7x-4x4x8", "--on tpu7x -n 128: it is a slice of 128 chips"),
            ("v6e-256", "--on tpu-v6e -n 256: it is a slice of 256 chips"),
            ("v5litepod-16", "--on tpu-v5e -n 16:"),
            ("p4de.24xlage", "named like it: `p4de.24xlarge`;"),
        ] {
            assert!(said(typed).contains(like), "{typed}: {}", said(typed));
        }
    }
}
