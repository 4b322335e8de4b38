//! Ranks that are nearer to each other than to the rest: links inside such groups and between them, told
//! apart.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use collcost::machine::fabric::TierKind;
use collcost::machine::profile::{Links, Profile};

use crate::joint::Folder;
use crate::network::{Cap, Network};
use crate::quiet::{Measured, measured};
use crate::table::{Table, percent};

/// What the tiers of a profile say.
struct Told {
    said: String,
    tiers: Vec<Links>,
    /// The same from the files of samples, by `fit`.
    again: Vec<Links>,
}

/// What is carried of a link's rate beside headers: 1448 of 1514 bytes.
const CARRIED: f64 = 0.956;

impl Told {
    fn of(folder: &Folder, output: &Output) -> Self {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let (out, again) = (folder.0.join("rack.toml"), folder.0.join("again.toml"));
        let mut fit = Command::new(env!("CARGO_BIN_EXE_collcost"));
        fit.arg("fit").arg("--force").arg("--out").arg(&again);
        let samples = |name| folder.0.join(name);
        let inside = samples("rack.inside.samples.jsonl");
        fit.args([inside, samples("rack.samples.jsonl")].iter().filter(|file| file.exists()));
        let fitted = fit.output().expect("it starts");
        assert!(fitted.status.success(), "{}", String::from_utf8_lossy(&fitted.stderr));
        Self { said, tiers: tiers(&out), again: tiers(&again) }
    }

    fn rate(&self, tier: usize) -> f64 {
        self.tiers[tier].bandwidth.as_ref().map_or(0.0, |rate| rate.value.0)
    }

    /// Whether there are two tiers, of so many ranks inside, with so many ports.
    fn are(&self, span: u32, nics: u32) -> bool {
        let number = |number: Option<std::num::NonZeroU32>| number.map(std::num::NonZeroU32::get);
        let [inside, between] = &self.tiers[..] else { return false };
        number(inside.span) == Some(span) && number(between.nics) == Some(nics)
    }
}

fn tiers(file: &Path) -> Vec<Links> {
    let text = fs::read_to_string(file).expect("a profile was written");
    Profile::parse(&text, "rack.toml").unwrap_or_else(|e| panic!("{e}: {text}")).tiers
}

fn network(ranks: u8, port: u32, trunk: Option<u32>) -> Network {
    let network = Network::new(ranks, Cap::Mbit(port)).unwrap_or_else(|e| panic!("{e}"));
    if let Some(trunk) = trunk {
        network.split(trunk);
    }
    network
}

/// The command on all ranks of a network, started by itself.
fn here(ranks: u8, port: u32, trunk: Option<u32>, budget: &str) -> Told {
    let (network, folder) = (network(ranks, port, trunk), Folder::new());
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(["calibrate", "--transport", "tcp", "--progress", "none", "--force"]);
    command.args(["--time-budget", budget, "--netns", &network.flag()]);
    command.args(["-n", &ranks.to_string(), "--out"]).arg(folder.0.join("rack.toml"));
    Told::of(&folder, &command.output().expect("it starts"))
}

/// Two hosts of two ranks each, as a launcher starts them: the ranks of a host share its network and its
/// boot id.
fn hosts(port: u32, budget: &str) -> Told {
    let (network, folder) = (network(2, port, None), Folder::new());
    let token = folder.token();
    let start = |rank: usize| {
        let (name, boot) = (&network.ranks()[rank / 2], folder.0.join(format!("boot{}", rank / 2)));
        let id = format!("0000000{}-0000-4000-8000-000000000000", rank / 2);
        fs::write(&boot, id).expect("a boot id");
        let mount = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, "sh", "-c", mount]).arg(&boot);
        command.args([env!("CARGO_BIN_EXE_collcost"), "calibrate", "--force", "--wait", "poll"]);
        command.args(["--rank", &rank.to_string(), "-n", "4", "--progress", "none"]);
        command.args(["--rendezvous", &network.meeting(), "--token-file"]).arg(&token);
        command.args(["--time-budget", budget, "--out"]).arg(folder.0.join("rack.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let ranks: Vec<_> = (0..4).map(start).collect();
    let outputs: Vec<Output> =
        ranks.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect();
    Told::of(&folder, &outputs[0])
}

/// Memory inside hosts and a link between them, and the same profile by `fit`.
pub fn of_hosts(table: &mut Table) {
    const PORT: u32 = 200;
    let off = |told: &Told| told.rate(1) / (CARRIED * f64::from(PORT) * 1e6 / 8.0) - 1.0;
    let holds = |told: &Told| told.are(2, 1) && off(told).abs() < 0.05;
    let Measured { seen, disturbed } = measured(|| hosts(PORT, "12s"), holds);
    assert!(seen.are(2, 1), "{}: {:?}", seen.said, seen.tiers);
    let kinds: Vec<Option<TierKind>> = seen.tiers.iter().map(|tier| tier.kind).collect();
    assert_eq!(kinds, [Some(TierKind::Memory), Some(TierKind::Network)]);
    assert!(seen.rate(0) > 20.0 * seen.rate(1), "memory is faster than a network");
    let values = |tiers: &[Links]| -> Vec<_> {
        let value = |tier: &Links| {
            let alpha = tier.alpha.as_ref().map(|alpha| alpha.value);
            (tier.name.clone(), alpha, tier.bandwidth.as_ref().map(|rate| rate.value), tier.nics)
        };
        tiers.iter().map(value).collect()
    };
    assert_eq!(values(&seen.tiers), values(&seen.again), "`fit` of the same samples");
    let quantity = format!("rate between two hosts of two ranks, {PORT} Mbit/s");
    table.within(quantity, (0.05, 0.03), off(&seen), percent(off(&seen)));
    table.excuse(disturbed);
}

/// Racks of half the ranks each behind a trunk, and networks without one.
pub fn of_racks(table: &mut Table, trials: u8) {
    for (ranks, port, trunk) in [
        (4, 400, Some(100)),
        (4, 300, Some(150)),
        (6, 200, Some(50)),
        (8, 100, Some(50)),
        (4, 200, None),
        (6, 120, None),
        (8, 50, None),
    ] {
        let (mut right, mut others, mut wrong) = (0, None, String::new());
        for _ in 0..trials {
            let holds = |told: &Told| match trunk {
                Some(_) => told.are(u32::from(ranks) / 2, 1),
                None => told.tiers.len() == 1,
            };
            let Measured { seen, disturbed } = measured(|| here(ranks, port, trunk, "45s"), holds);
            others = disturbed.or(others);
            let rate =
                |tier: usize, of: u32| seen.rate(tier) / (CARRIED * f64::from(of) * 1e6 / 8.0);
            let rates = match (trunk, seen.tiers.len()) {
                (Some(trunk), 2) => format!("{:.3} {:.3}", rate(0, port), rate(1, trunk)),
                _ => format!("{:.3}", rate(0, port)),
            };
            right += u8::from(holds(&seen));
            wrong += &format!("; {rates}");
        }
        let trunk = trunk.map_or("no trunk".to_owned(), |trunk| format!("a trunk of {trunk}"));
        let what = format!("groups of {ranks} ranks at {port} Mbit/s, {trunk}");
        let seen = format!("{right} of {trials}{wrong}");
        eprintln!("{what}: {seen}");
        table.must(what, "told apart each time, and only then", right == trials, seen);
        table.excuse(others);
    }
}
