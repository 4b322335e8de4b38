//! One rank or link that is slower than the others, named by `calibrate`.

use std::process::Command;

use collcost::machine::sample;

use crate::joint::Folder;
use crate::network::{Cap, Network, Slow};
use crate::quiet::{Measured, measured};
use crate::table::Table;

const USUAL: u32 = 200;
/// 1.3 times slower.
const SLOWER: u32 = 154;

/// Buckets of the others, by trial: a larger one hides more of what is slow, and looks slow itself.
const BURSTS: [Option<u32>; 2] = [None, Some(64 << 10)];

const NOTHING: &str = "nothing slow";

/// Trials of each kind over so many ranks: what is slow is named alone, and nobody where nothing is.
pub fn named(table: &mut Table, ranks: u8, trials: u8) {
    for kind in ["a host that sends slowly", "a host that receives slowly", "a slow link", NOTHING]
    {
        let (mut right, mut others, mut wrong) = (0, None, String::new());
        for trial in 0..trials {
            let (a, by) = (trial % ranks, 1 + (trial / ranks) % (ranks - 1));
            let slow = match kind {
                "a host that sends slowly" => Some(Slow::Sends(a)),
                "a host that receives slowly" => Some(Slow::Receives(a)),
                NOTHING => None,
                _ => Some(Slow::Link(a, (a + by) % ranks)),
            };
            let burst = BURSTS[usize::from(trial) % BURSTS.len()];
            let Measured { seen, disturbed } =
                measured(|| said(ranks, slow, burst), |said| is_right(slow, said));
            others = disturbed.or(others);
            if is_right(slow, &seen) {
                right += 1;
            } else {
                wrong += &format!("; {slow:?}, bucket {burst:?}: {}", seen.join(", "));
            }
        }
        let what = format!("{kind}, 1.3 times, N = {ranks}");
        let seen = format!("{right} of {trials}{wrong}");
        eprintln!("{what}: {seen}");
        table.must(what, "named alone each time", right == trials, seen);
        table.excuse(others);
    }
}

/// Whether that alone is said.
fn is_right(slow: Option<Slow>, said: &[String]) -> bool {
    let Some(slow) = slow else { return said.is_empty() };
    let [one] = said else { return false };
    // Each rank is followed by its host: `rank 2 (vm, 10.77.0.3): sends at 0.77 of the others`.
    let rank = |rank: u8| format!("rank {rank}");
    match slow {
        Slow::Sends(a) => one.starts_with(&rank(a)) && one.contains(": sends at "),
        Slow::Receives(a) => one.starts_with(&rank(a)) && one.contains(": receives at "),
        Slow::Link(a, b) => one.starts_with(&rank(a)) && one.contains(&format!(" to {}", rank(b))),
    }
}

/// What a short run names.
fn said(ranks: u8, slow: Option<Slow>, burst: Option<u32>) -> Vec<String> {
    let network = Network::with(ranks, Cap::Mbit(USUAL), burst).unwrap_or_else(|e| panic!("{e}"));
    if let Some(slow) = slow {
        network.slow(slow, SLOWER);
    }
    let folder = Folder::new();
    let samples = folder.0.join("slow.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(["calibrate", "--transport", "tcp", "--progress", "none", "--time-budget", "5s"]);
    command.args(["--netns", &network.flag(), "--ranks", &ranks.to_string()]);
    command.arg("--out").arg(folder.0.join("slow.toml")).arg("--samples").arg(&samples);
    let output = command.output().expect("it starts");
    let text = std::fs::read_to_string(&samples).unwrap_or_default();
    let read = sample::read(&text, "slow.jsonl");
    let (_, samples) =
        read.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    samples.slow
}
