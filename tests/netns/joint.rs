//! β by the joint fit of many algorithms, against the wire's own counter.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use collcost::machine::sample::{self, Samples};
use collcost::measure::fit::{Asked, Fitted, Statistic, Verdict, fit};
use collcost::model::algorithm::Registry;

use crate::bulk::bulk;
use crate::network::{Cap, Network};
use crate::quiet::{Measured, measured};
use crate::table::{Table, percent};

/// Two launches of ten algorithms whose messages, bytes and additions stand in different
/// proportions. Those of which the fit learns something else are left out, so that the time is
/// enough for large sizes: most steps should be of many times the bucket.
const TEN: [&str; 4] = [
    "--launches",
    "2",
    "--ops",
    "one-way,shift,allreduce/ring,allreduce/recursive-doubling,allreduce/rabenseifner,\
     reducescatter/ring,allgather/ring,allgather/bruck,alltoall/pairwise,broadcast/binomial",
];

/// A link and the samples of it.
pub struct Run {
    cap: Cap,
    ranks: u8,
    samples: Samples,
    /// What the whole command took.
    elapsed: Duration,
    /// What else ran.
    beside: String,
    /// β of messages one way and of exchanges, whose acknowledgements share the wire; by the
    /// counter of the same links, in seconds a byte.
    truth: Option<(f64, f64)>,
}

impl Run {
    /// Measures it with the command and these flags.
    pub fn new(ranks: u8, cap: Cap, flags: &[&str]) -> Self {
        Self::by(None, ranks, cap, flags).unwrap_or_else(|said| panic!("{said}"))
    }

    /// The same, with the ranks started by somebody's mpirun, each in a namespace as on a host. If
    /// the command refuses, what it said.
    pub fn by(mpirun: Option<&str>, ranks: u8, cap: Cap, flags: &[&str]) -> Result<Self, String> {
        let network = Network::new(ranks, cap).unwrap_or_else(|e| panic!("{e}"));
        let folder = Folder::new();
        let (profile, samples) = (folder.0.join("link.toml"), folder.0.join("link.jsonl"));
        let began = Instant::now();
        let mut words: Vec<String> = ["calibrate", "--transport", "tcp", "--progress", "none"]
            .iter()
            .chain(flags)
            .map(|&word| word.to_owned())
            .collect();
        let files = [("--out", &profile), ("--samples", &samples)];
        let named = files.map(|(flag, file)| [flag.to_owned(), file.display().to_string()]);
        words.extend(["--force".to_owned()].into_iter().chain(named.into_iter().flatten()));
        let program = env!("CARGO_BIN_EXE_collcost").to_owned();
        let mut command = match mpirun {
            None => {
                let mut command = Command::new(&program);
                command.args(&words).args(["--netns", &network.flag()]);
                command.args(["--ranks", &ranks.to_string()]);
                command
            }
            Some(mpirun) => {
                let token = folder.token();
                words.extend(["--rendezvous".to_owned(), network.meeting()]);
                words.extend(["--token-file".to_owned(), token.display().to_string()]);
                words.insert(0, program);
                let mut command = Command::new(mpirun);
                if mpirun.ends_with("openmpi") {
                    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
                }
                for (rank, name) in network.ranks().iter().enumerate() {
                    command.args((rank > 0).then_some(":"));
                    command.args(["-n", "1", "ip", "netns", "exec", name]).args(&words);
                }
                command
            }
        };
        let output = command.output().expect("it starts");
        let elapsed = began.elapsed();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() || !profile.exists() {
            return Err(said);
        }
        let text = std::fs::read_to_string(&samples).expect("samples are kept");
        if let Some(folder) = std::env::var_os("COLLCOST_NETNS_KEEP") {
            let name = format!("{cap}-{ranks}{}.jsonl", flags.concat());
            let name = name.replace([' ', '/', ','], "");
            std::fs::write(PathBuf::from(folder).join(name), &text).expect("samples are kept");
        }
        let (_, samples) = sample::read(&text, "link.jsonl").unwrap_or_else(|e| panic!("{e}"));
        let truth = cap.rate().map(|rate| {
            let beta = |name| bulk(&network, name, 4).overhead / rate;
            (beta("broadcast/binomial"), beta("shift"))
        });
        let beside = mpirun.map_or_else(String::new, |name| format!(", by {name}"));
        Ok(Self { cap, ranks, samples, truth, elapsed, beside })
    }

    /// The same with ten algorithms and two launches.
    fn joint(ranks: u8, cap: Cap, budget: &str) -> Self {
        Self::new(ranks, cap, &[&TEN[..], &["--time-budget", budget]].concat())
    }

    fn fitted(&self, statistic: Statistic) -> Fitted {
        let asked = Asked { statistic: Some(statistic), ..Asked::default() };
        fit(&Registry::builtin(), &self.samples, &asked).unwrap_or_else(|e| panic!("{e}"))
    }

    fn place(&self) -> String {
        format!("{}, N = {}{}", self.cap, self.ranks, self.beside)
    }
}

/// β of a fit over the two truths, minus 1; the one that is further off first.
pub fn errors(fitted: &Fitted, truth: (f64, f64)) -> (f64, f64) {
    let beta = fitted.link.beta.value.0;
    let (a, b) = (beta / truth.0 - 1.0, beta / truth.1 - 1.0);
    if a.abs() > b.abs() { (a, b) } else { (b, a) }
}

/// Whether the interval of β, wider by 0.5 %, meets the truth.
pub fn covers(fitted: &Fitted, (low, high): (f64, f64)) -> bool {
    let beta = fitted.link.beta;
    beta.low.0 / 1.005 <= high && low <= beta.high.0 * 1.005
}

fn is_starved(fitted: &Fitted) -> bool {
    fitted.gates.iter().any(|gate| gate.name == "cpu-limited" && gate.verdict != Verdict::Good)
}

/// The median error of each algorithm that the fit did not see, of runs above a millisecond.
fn held_out(fitted: &Fitted) -> BTreeMap<String, f64> {
    let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for told in &fitted.by_algorithm {
        let point = &fitted.points[told.point];
        let op = point.op.to_string();
        if point.typical.0 > 1e-3 && op != "one-way" {
            errors.entry(op).or_default().push(told.error.0);
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    errors.into_iter().map(|(op, all)| (op, median(all))).collect()
}

fn worst(errors: &BTreeMap<String, f64>) -> (f64, String) {
    let worst = errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    worst.map_or((f64::NAN, String::new()), |(op, e)| (*e, op.clone()))
}

/// β against messages one way and against exchanges; the one that is further off counts.
fn rate(table: &mut Table, run: &Run, fitted: &Fitted, limits: (f64, f64)) {
    let truth = run.truth.expect("a cap");
    let (far, near) = errors(fitted, truth);
    let (low, high) = (fitted.link.beta.low.0, fitted.link.beta.high.0);
    let seen = format!(
        "{} … {}; interval {} … {}",
        percent(far.min(near)),
        percent(far.max(near)),
        percent(low / truth.1 - 1.0),
        percent(high / truth.0 - 1.0)
    );
    let marks = fitted.gates.iter().filter(|gate| gate.verdict != Verdict::Good);
    let marks: Vec<&str> = marks.map(|gate| gate.name).collect();
    let marks = if marks.is_empty() { String::new() } else { format!("; {}", marks.join(", ")) };
    let statistic = fitted.link.statistic.id();
    table.within(format!("β, {}, {statistic}", run.place()), limits, far, seen + &marks);
}

/// Rows of β and of held-out algorithms for one link that the processors do not limit.
pub fn link(table: &mut Table, run: &Run) {
    let typical = run.fitted(Statistic::Typical);
    rate(table, run, &typical, (0.03, 0.01));
    rate(table, run, &run.fitted(Statistic::Floor), (0.02, 0.005));
    let errors = held_out(&typical);
    let (error, op) = worst(&errors);
    let quantity = format!("held-out algorithms, t > 1 ms, {}", run.place());
    table.within(quantity, (0.05, 0.02), error, format!("{} ({op})", percent(error)));
    let all = typical.errors_by_algorithm.expect("several algorithms").all;
    let quantity = format!("held-out algorithms, all sizes, 90th of 100, {}", run.place());
    table.at_most(quantity, (0.60, 0.35), all.p90.0, percent(all.p90.0));
}

/// A link that the processors may limit: right, or marked.
fn limited(table: &mut Table, run: &Run) {
    let fitted = run.fitted(Statistic::Typical);
    let is_marked = is_starved(&fitted);
    let mark = if is_marked { "marked cpu-limited" } else { "not marked" };
    let (error, op) = worst(&held_out(&fitted));
    let told = format!("{} ({op})", percent(error));
    match run.truth {
        Some(truth) => {
            let quantity = format!("held-out algorithms, t > 1 ms, {}", run.place());
            table.within(quantity, (0.10, 0.05), error, &told);
            let (far, _) = errors(&fitted, truth);
            let holds = is_marked || far.abs() <= 0.08;
            let seen = format!("{}, {mark}", percent(far));
            table.must(format!("β, {}", run.place()), "marked or ±8 %", holds, seen);
        }
        None => {
            let bandwidth = fitted.link.beta.bandwidth().value.0 * 8e-9;
            let seen = format!("{mark}, {bandwidth:.1} Gbit/s; held-out {told}");
            table.must(format!("veth, {}", run.place()), "marked", is_marked, seen);
        }
    }
}

/// Links that the processors do not limit.
pub fn links(table: &mut Table, cap: Cap) {
    for ranks in [2, 4] {
        link(table, &Run::joint(ranks, cap, "50s"));
    }
}

/// The same from a quarter of a minute, on a machine that may do other things too.
pub fn launched_shortly(table: &mut Table, mpirun: &str) {
    let flags = [&TEN[..], &["--time-budget", "15s"]].concat();
    let what = format!("β, {}, by {mpirun}", Cap::Mbit(200));
    shortly(table, &what, || Run::by(Some(mpirun), 4, Cap::Mbit(200), &flags));
}

/// Ranks that a real launcher started.
pub fn launched(table: &mut Table, mpirun: &str, budget: &str) {
    let flags = [&TEN[..], &["--time-budget", budget]].concat();
    let run = Run::by(Some(mpirun), 4, Cap::Mbit(200), &flags);
    link(table, &run.unwrap_or_else(|said| panic!("{said}")));
}

/// Links that they do.
pub fn limits(table: &mut Table) {
    let two = Run::joint(2, Cap::Mbit(1000), "30s");
    rate(table, &two, &two.fitted(Statistic::Typical), (0.05, 0.02));
    limited(table, &Run::joint(4, Cap::Mbit(1000), "30s"));
    limited(table, &Run::joint(4, Cap::None, "20s"));
}

/// The command without flags of its own.
pub fn defaults(table: &mut Table) {
    for ranks in [2, 4] {
        let run = Run::new(ranks, Cap::Mbit(200), &[]);
        let quantity = format!("whole run without flags, {}", run.place());
        let seconds = run.elapsed.as_secs_f64();
        table.must(quantity, "≤ 60 s", seconds <= 60.0, format!("{seconds:.0} s"));
        rate(table, &run, &run.fitted(Statistic::Typical), (0.03, 0.01));
        rate(table, &run, &run.fitted(Statistic::Floor), (0.02, 0.005));
    }
}

/// β from a quarter of a minute, on a machine that may do other things too.
pub fn short(table: &mut Table) {
    let flags = [&TEN[..], &["--time-budget", "15s", "--wait", "poll"]].concat();
    let what = format!("β, {}, N = 2", Cap::Mbit(200));
    shortly(table, &what, || Run::by(None, 2, Cap::Mbit(200), &flags));
}

/// β of a run that a busy machine may spoil, or keep from ending with a profile.
fn shortly(table: &mut Table, what: &str, run: impl Fn() -> Result<Run, String>) {
    let limits = (0.05, 0.02);
    let fitted = || {
        run().map(|run| {
            let fitted = run.fitted(Statistic::Typical);
            (run, fitted)
        })
    };
    let holds = |seen: &Result<(Run, Fitted), String>| {
        let far = |(run, fitted): &(Run, Fitted)| errors(fitted, run.truth.expect("a cap")).0;
        seen.as_ref().is_ok_and(|seen| far(seen).abs() <= limits.0)
    };
    let Measured { seen, disturbed } = measured(fitted, holds);
    match seen {
        Ok((run, fitted)) => rate(table, &run, &fitted, limits),
        Err(said) => table.must(what, "a profile", false, said),
    }
    table.excuse(disturbed);
}

/// The same beside many processes that only count.
pub fn loaded(table: &mut Table, processes: usize) {
    let script = format!("for i in $(seq {processes}); do while :; do :; done & done; wait");
    // A session of their own, as another user's would be.
    let busy = Command::new("setsid").args(["sh", "-c", &script]).spawn();
    let _busy = Busy(busy.expect("setsid starts"));
    for ranks in [2, 4] {
        let flags = ["--time-budget", "30s", "--wait", "poll"];
        let mut run = Run::new(ranks, Cap::Mbit(200), &[&TEN[..], &flags].concat());
        run.beside = format!(" beside {processes} busy processes");
        rate(table, &run, &run.fitted(Statistic::Typical), (0.05, 0.02));
    }
}

/// A session that ends with the value.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let session = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &session]).status();
        let _ = self.0.wait();
    }
}

/// How often the interval of β meets the truth.
pub fn intervals(table: &mut Table, runs: u32, budget: &str) {
    let meets = |seed: u32| {
        let flags = ["--time-budget", budget, "--seed", &seed.to_string()];
        let run = Run::new(2, Cap::Mbit(200), &[&TEN[..], &flags].concat());
        covers(&run.fitted(Statistic::Typical), run.truth.expect("a cap"))
    };
    let met = (1..=runs).filter(|&seed| meets(seed)).count() as u32;
    let quantity = "95 % intervals of β, wider by 0.5 %, that meet the truth, 200 Mbit/s, N = 2";
    table.must(quantity, "≥ 9 of 10", 10 * met >= 9 * runs, format!("{met} of {runs}"));
}

/// A folder of this run's own, gone with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("collcost-netns-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// A file that is the ranks' token.
    pub fn token(&self) -> PathBuf {
        let file = self.0.join("token");
        std::fs::write(&file, [7; 32]).expect("a token");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("its mode");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
