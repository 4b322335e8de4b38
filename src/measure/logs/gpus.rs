//! Whether the GPUs that a log lists are those of a machine.

use super::Imported;
use crate::library::nccl::gpus_named;
use crate::machine::profile::Profile;
use crate::machine::query::Machine;
use crate::model::algorithm::Library;
use crate::model::algorithm::RunBy;

/// Makers of GPUs and their series, as drivers write them in front of a model.
const MAKERS: [&str; 5] = ["NVIDIA", "Tesla", "GeForce", "Quadro", "AMD"];

/// The GPUs of a machine, if a log `listed` others.
#[must_use]
pub fn other_gpus(listed: &str, machine: &Machine) -> Option<String> {
    let board = machine.hardware.as_ref()?.board.as_deref();
    other(listed, &[&machine.name, &machine.title, board.unwrap_or_default()])
}

impl Imported {
    /// In what the log contradicts the machine that it is said to be of: its GPUs, and its library.
    #[must_use]
    pub fn contradictions(&self, machine: &Profile) -> Vec<String> {
        let name = &machine.name;
        let board = machine.hardware().map(|hardware| hardware.board.unwrap_or_default());
        let nccl = machine.library.as_deref().and_then(Library::named) == Some(Library::Nccl);
        let mut found = Vec::new();
        for table in &self.tables {
            let gpus = table.gpus.as_deref().zip(board.as_deref()).and_then(|(listed, board)| {
                let own = other(listed, &[name, &machine.title, board])?;
                Some(format!("the log lists {listed}, and {name} has {own}"))
            });
            let library = table.library.as_deref().filter(|_| table.run_by() == Some(RunBy::Other));
            let library =
                library.filter(|_| nccl).map(|l| format!("{l} ran, and {name} runs NCCL"));
            found.extend(gpus.into_iter().chain(library));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// What the `words` about a machine name, if it is something else than what is listed.
fn other(listed: &str, words: &[&str]) -> Option<String> {
    let own = gpus_named(&words.join(" "));
    let named = gpus_named(listed);
    // A model that is not known is another one, but not every word is a model.
    let is_model = !named.is_empty()
        || MAKERS.iter().any(|maker| listed.contains(maker))
            && listed.contains(|c: char| c.is_ascii_digit());
    let differs = is_model && !own.is_empty() && named.iter().all(|gpu| !own.contains(gpu));
    differs.then(|| own.iter().map(|gpu| gpu.to_uppercase()).collect::<Vec<_>>().join(" and "))
}

#[cfg(test)]
mod tests {
    use super::other;

    #[test]
    fn only_a_model_that_a_machine_lacks_is_another() {
        let h100 = ["dgx-h100", "DGX H100: 8 x H100 SXM on NVSwitch", "hgx-h100"];
        for (listed, expected) in [
            ("NVIDIA H100 80GB HBM3", None),
            ("NVIDIA A100-SXM4-80GB", Some("H100")),
            ("NVIDIA GB10", Some("H100")),
            ("Tesla K80", Some("H100")),
            ("NVIDIA A100-SXM4-80GB, NVIDIA H100 PCIe", None),
            ("NVIDIA Graphics Device", None),
            ("predicted p5.48xlarge", None),
            ("", None),
        ] {
            assert_eq!(other(listed, &h100).as_deref(), expected, "{listed}");
        }
        let rack = ["gb200-nvl72", "GB200 NVL72: 72 x B200 in one NVLink domain", ""];
        assert_eq!(other("NVIDIA GB200", &rack), None);
        assert_eq!(other("AMD Instinct MI300X", &rack).as_deref(), Some("B200 and GB200"));
        assert_eq!(other("NVIDIA A100-SXM4-80GB", &["site", "Rack 7", "pcie-4"]), None);
    }
}
