//! How fast GPUs run: they are kept busy before the first block, since GPUs that idled are slow at
//! first. Afterwards NVML reports their clock rates and what throttled them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::driver::{Buffer, Gpu};
use super::nvml::Nvml;
use crate::base::error::Result;

/// How long they are kept busy.
const RAMP: Duration = Duration::from_millis(500);

/// Reasons that throttle a GPU under load, by NVML's bits (`nvmlClocksThrottleReason…` in nvml.h).
/// Idling and user-set clocks are not among them.
const HELD: &[(u64, &str)] = &[
    (0x04, "its power limit"),
    (0x08, "the hardware"),
    (0x20, "heat"),
    (0x40, "heat, reported by hardware"),
    (0x80, "the power supply"),
];

/// Copies within each GPU's memory until its clocks have risen.
pub(super) fn ramp(gpus: &[Gpu], buffers: &[(Buffer, Buffer)], bytes: usize) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < RAMP {
        for (gpu, (from, to)) in gpus.iter().zip(buffers) {
            gpu.copy(to, from, bytes)?;
        }
        gpus.iter().try_for_each(Gpu::wait)?;
    }
    Ok(())
}

/// The clock rate at which the GPUs of a process just worked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// The clock of the slowest GPU's multiprocessors, in MHz.
    clock: u32,
    /// What throttled any of them, by NVML's bits.
    held: u64,
}

/// The source of this information in a process.
pub(super) struct Clocks {
    /// Absent if there is no NVML, or one that does not match this driver: then nothing is known.
    nvml: Option<Nvml>,
    names: Vec<String>,
}

impl Clocks {
    pub(super) fn of(gpus: &[Gpu]) -> Result<Self> {
        let names = gpus.iter().map(|gpu| gpu.id().map(|id| name(&id))).collect::<Result<_>>()?;
        Ok(Self { nvml: Nvml::load(), names })
    }

    /// How fast the GPUs are now.
    pub(super) fn pace(&self) -> Option<Pace> {
        let nvml = self.nvml.as_ref()?;
        let (mut clock, mut held) = (u32::MAX, 0);
        for name in &self.names {
            let (own, by) = nvml.pace(name)?;
            clock = clock.min(own);
            held |= by;
        }
        Some(Pace { clock, held })
    }
}

/// As NVML writes it, after `GPU-` or `MIG-`.
pub(super) fn name(id: &str) -> String {
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| id.get(part).unwrap_or_default());
    parts.join("-")
}

/// The paces of all blocks.
#[derive(Debug, Default)]
pub(super) struct Paces {
    blocks: u32,
    unknown: u32,
    clocks: Option<(u32, u32)>,
    held: u32,
    reasons: BTreeMap<&'static str, u32>,
}

impl Paces {
    /// Adds the paces of a block, one per process.
    pub(super) fn note(&mut self, paces: &[Option<Pace>]) {
        self.blocks += 1;
        self.unknown += u32::from(paces.iter().any(Option::is_none));
        let mut held = 0;
        for pace in paces.iter().flatten() {
            let (low, high) = self.clocks.unwrap_or((pace.clock, pace.clock));
            self.clocks = Some((low.min(pace.clock), high.max(pace.clock)));
            held |= pace.held;
        }
        for (_, words) in HELD.iter().filter(|(bit, _)| held & bit != 0) {
            *self.reasons.entry(words).or_default() += 1;
        }
        self.held += u32::from(HELD.iter().any(|(bit, _)| held & bit != 0));
    }

    /// Notes for the user about them.
    pub(super) fn notes(&self) -> Vec<String> {
        let Self { blocks, unknown, clocks, held, reasons } = self;
        let mut notes = Vec::new();
        if let Some((low, high)) = clocks {
            notes.push(match low == high {
                true => format!("the GPUs' multiprocessors ran at {low} MHz"),
                false => format!("the GPUs' multiprocessors ran at {low} to {high} MHz"),
            });
        }
        if *held > 0 {
            let why: Vec<String> = reasons.iter().map(|(why, n)| format!("{why} ({n})")).collect();
            notes.push(format!("throttled in {held} of {blocks} blocks by {}", why.join(", ")));
        }
        if *unknown > 0 {
            notes.push(format!(
                "no NVML: clocks and throttling are unknown for {unknown} of {blocks} \
                 blocks"
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_all_blocks_is_said_once() {
        let pace = |clock, held| Some(Pace { clock, held });
        let mut paces = Paces::default();
        paces.note(&[pace(1980, 0x01), pace(1965, 0)]);
        assert_eq!(paces.notes(), ["the GPUs' multiprocessors ran at 1965 to 1980 MHz"]);
        paces.note(&[pace(1700, 0x24), None]);
        let notes = paces.notes();
        assert_eq!(notes[0], "the GPUs' multiprocessors ran at 1700 to 1980 MHz");
        assert_eq!(notes[1], "throttled in 1 of 2 blocks by heat (1), its power limit (1)");
        assert!(notes[2].contains("unknown for 1 of 2 blocks"), "{}", notes[2]);
        assert!(Paces::default().notes().is_empty());
    }

    #[test]
    fn nvml_knows_a_gpu_by_its_number_in_all_the_world() {
        let id = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(name(id), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
