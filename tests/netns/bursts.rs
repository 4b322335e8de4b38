//! β behind token buckets of many sizes, by short runs: right, or not given.
//!
//! Each cell is a run of the command as a user types it, on links of its own. The truth is of the same
//! links: what a bulk stream puts on the wire for a byte, over the cap. Which cells there are is said by
//! `COLLCOST_NETNS_CELLS`, such as `caps=120 ranks=2,4 budgets=10,20 bursts=16384,1048576`.

use std::process::Command;

use collcost::machine::sample;
use collcost::measure::fit::{Asked, Fitted, Verdict, fit};
use collcost::model::algorithm::Registry;

use crate::bulk::bulk;
use crate::joint::{Folder, covers, errors};
use crate::network::{Cap, Network};
use crate::quiet::{Measured, measured};
use crate::table::{Table, percent};

/// Which cells.
pub struct Cells {
    caps: Vec<u32>,
    ranks: Vec<u32>,
    budgets: Vec<u32>,
    bursts: Vec<u32>,
}

impl Cells {
    /// What the environment says, or else these.
    pub fn or(usual: &str) -> Self {
        let text = std::env::var("COLLCOST_NETNS_CELLS").unwrap_or_else(|_| usual.to_owned());
        let of = |name: &str| -> Vec<u32> {
            let word = text.split_whitespace().find_map(|word| word.strip_prefix(name));
            let list = word.unwrap_or_else(|| panic!("no `{name}…` in `{text}`"));
            list.split(',').map(|number| number.parse().expect("a number")).collect()
        };
        Self {
            caps: of("caps="),
            ranks: of("ranks="),
            budgets: of("budgets="),
            bursts: of("bursts="),
        }
    }

    /// Cap, ranks, budget and burst of each.
    fn all(&self) -> Vec<[u32; 4]> {
        let mut all = Vec::new();
        for &cap in &self.caps {
            for &ranks in &self.ranks {
                for &budget in &self.budgets {
                    all.extend(self.bursts.iter().map(|&burst| [cap, ranks, budget, burst]));
                }
            }
        }
        all
    }
}

/// What a run gave.
enum Given {
    /// β, as the profile has it.
    Fit(Box<Fitted>),
    /// Why there is none.
    Refused(String),
}

fn run(network: &Network, ranks: u32, budget: u32, burst: u32) -> (Given, Option<f64>) {
    let folder = Folder::new();
    let (profile, samples) = (folder.0.join("link.toml"), folder.0.join("link.jsonl"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(["calibrate", "--transport", "tcp", "--progress", "none", "--wait", "poll"]);
    command.args(["--netns", &network.flag(), "--ranks", &ranks.to_string()]);
    command.args(["--time-budget", &format!("{budget}s")]);
    let output = command.arg("--out").arg(&profile).arg("--samples").arg(&samples).output();
    let output = output.expect("it starts");
    let text = std::fs::read_to_string(&samples).unwrap_or_default();
    if let Some(kept) = std::env::var_os("COLLCOST_NETNS_KEEP") {
        let name = format!("bursts-{}-{ranks}-{budget}-{burst}.jsonl", network.cap());
        let name = name.replace([' ', '/'], "");
        std::fs::write(std::path::PathBuf::from(kept).join(name), &text).expect("samples are kept");
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let Ok((_, samples)) = sample::read(&text, "link.jsonl") else {
        return (Given::Refused(said), None);
    };
    let found = samples.bucket.map(|bucket| bucket.burst.0 as f64);
    match output.status.code() {
        Some(0) => {
            let fitted = fit(&Registry::builtin(), &samples, &Asked::default());
            (Given::Fit(Box::new(fitted.unwrap_or_else(|e| panic!("{e}")))), found)
        }
        // The machine, or what was measured, refuses; anything else is a fault.
        Some(3 | 4) => (Given::Refused(said), found),
        code => panic!("{code:?}: {said}"),
    }
}

/// What a cell showed.
struct Seen {
    /// Whether β was given.
    given: bool,
    holds: bool,
    said: String,
}

/// One row a cell. What must hold: no β that is off by more than 3 % with an interval that says
/// otherwise. Returns in how many cells β was given, and how many there are, of those in which 16
/// bursts fit into a quarter of the time.
pub fn cells(table: &mut Table, cells: &Cells) -> (u32, u32) {
    let (mut given, mut possible) = (0, 0);
    for [cap, ranks, budget, burst] in cells.all() {
        let rate = Cap::Mbit(cap).rate().expect("a cap");
        let fits = 16.0 * f64::from(burst) / rate <= f64::from(budget) / 4.0;
        possible += u32::from(fits);
        let Measured { seen, disturbed } =
            measured(|| cell(cap, ranks, budget, burst), |seen| seen.holds);
        given += u32::from(fits && seen.given);
        let place = format!("β, {cap} Mbit/s, N = {ranks}, {budget} s, bucket {burst}");
        eprintln!("{place}: {}", seen.said);
        table.must(place, "±3 %, its interval holds it, or not given", seen.holds, seen.said);
        table.excuse(disturbed);
    }
    eprintln!("β was given in {given} of {possible} cells in which 16 bursts fit into a quarter");
    (given, possible)
}

fn cell(cap: u32, ranks: u32, budget: u32, burst: u32) -> Seen {
    let network = Network::with(ranks as u8, Cap::Mbit(cap), Some(burst));
    let network = network.unwrap_or_else(|e| panic!("{e}"));
    let rate = Cap::Mbit(cap).rate().expect("a cap");
    let (result, found) = run(&network, ranks, budget, burst);
    let bucket = found.map_or("no bucket found".to_owned(), |b| format!("found {b:.0}"));
    let fitted = match result {
        Given::Fit(fitted) => fitted,
        Given::Refused(why) => {
            let why = why.lines().find(|line| line.contains("error")).unwrap_or("");
            return Seen { given: false, holds: true, said: format!("not given: {why}; {bucket}") };
        }
    };
    let beta = |name| bulk(&network, name, 4).overhead / rate;
    let truth = (beta("broadcast/binomial"), beta("shift"));
    let (far, near) = errors(&fitted, truth);
    let (low, high) = (fitted.link.beta.low.0, fitted.link.beta.high.0);
    let marks = fitted.gates.iter().filter(|gate| gate.verdict != Verdict::Good);
    let marks: Vec<&str> = marks.map(|gate| gate.name).collect();
    let said = format!(
        "{} … {}; interval {} … {}; {bucket}; {}",
        percent(far.min(near)),
        percent(far.max(near)),
        percent(low / truth.1 - 1.0),
        percent(high / truth.0 - 1.0),
        marks.join(", ")
    );
    let holds = far.abs().min(near.abs()) <= 0.03 || covers(&fitted, truth);
    Seen { given: true, holds, said }
}
