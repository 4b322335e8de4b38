//! Bare `collcost calibrate`, again and again, on a machine that is quiet and on one that is not: each
//! ends within a minute with a profile that a long run in the same state confirms.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use collcost::machine::sample;
use collcost::measure::fit::{Asked, Fitted, fit};
use collcost::model::algorithm::Registry;

#[path = "../support/process.rs"]
mod process;

use process::collcost;

/// What others do: so many processes that never rest.
struct Load(Vec<Child>);

impl Load {
    fn of(processes: u32) -> Self {
        let busy = |_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn()
        };
        Self((0..processes).map(busy).collect::<Result<_, _>>().expect("a shell"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a calibration took, whether it succeeded, and what follows from its samples.
struct Ran {
    time: Duration,
    ended_well: bool,
    fitted: Option<Fitted>,
}

fn calibrate(home: &Path, flags: &str) -> Ran {
    let _ = fs::remove_dir_all(home);
    fs::create_dir_all(home).expect("a folder");
    let began = Instant::now();
    let run = collcost(&format!("calibrate --format json {flags}"))
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .output()
        .expect("it ends");
    let time = began.elapsed();
    let samples = home.join("collcost/profiles/local.samples.jsonl");
    let text = fs::read_to_string(&samples).unwrap_or_default();
    let fitted = sample::read(&text, "samples").ok();
    let fitted = fitted.and_then(|(_, s)| fit(&Registry::builtin(), &s, &Asked::default()).ok());
    if !run.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&run.stderr));
    }
    Ran { time, ended_well: run.status.success(), fitted }
}

/// How far what `run` predicts is from what `reference` measured, over points of both.
fn off(run: &Fitted, reference: &Fitted) -> f64 {
    let measured: BTreeMap<_, _> = reference
        .points
        .iter()
        .filter(|p| !p.lost)
        .map(|p| ((p.op.to_string(), p.ranks, p.size), p.typical.0))
        .collect();
    let mut errors: Vec<f64> = run
        .points
        .iter()
        .zip(&run.predicted)
        .filter_map(|(p, time)| {
            let there = measured.get(&(p.op.to_string(), p.ranks, p.size))?;
            Some(((*time)?.0 / there - 1.0).abs())
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(f64::INFINITY)
}

fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
#[ignore = "takes three hours; COLLCOST_BARE_RUNS (40) and COLLCOST_BARE_REFERENCE (600 s) shorten it"]
fn bare_runs_end_well_on_a_machine_that_others_use() {
    let (runs, long) = (number("COLLCOST_BARE_RUNS", 40), number("COLLCOST_BARE_REFERENCE", 600));
    let folder = tempfile::tempdir().expect("a folder");
    let mut missed = Vec::new();
    for processes in [0, 1, 2, 4] {
        let _load = Load::of(processes);
        let reference = calibrate(&folder.path().join("long"), &format!("--time-budget {long}s"));
        let reference = reference.fitted.expect("the long run says something");
        let (mut ended, mut near, mut held, mut others) = (0, 0, 0, 0);
        for run in 0..runs {
            let ran = calibrate(&folder.path().join("bare"), "");
            let well = ran.ended_well && ran.time < Duration::from_secs(60);
            let Some(fitted) = ran.fitted else { continue };
            // A machine of two states may have been in one of them all the time.
            let other = reference.other_state.as_ref().and_then(|other| other.fit.as_deref());
            let error = |there: &Fitted| fitted.link.beta.value.0 / there.link.beta.value.0 - 1.0;
            let states = [Some(&reference), other].into_iter().flatten();
            let state =
                states.min_by(|a, b| error(a).ln_1p().abs().total_cmp(&error(b).ln_1p().abs()));
            let state = state.expect("the reference");
            others += u32::from(!std::ptr::eq(state, &reference));
            let (own, there) = (fitted.link.beta, state.link.beta);
            let error = error(state);
            let sizes = off(&fitted, state);
            let holds = (own.low.0..=own.high.0).contains(&there.value.0);
            println!(
                "load {processes} run {run}: {:.0} s, well {well}, β {:+.1} %, sizes {:.1} %, \
                 interval holds {holds}",
                ran.time.as_secs_f64(),
                100.0 * error,
                100.0 * sizes
            );
            ended += u32::from(well);
            near += u32::from(well && error.abs() <= 0.1 && sizes <= 0.2);
            held += u32::from(holds);
        }
        println!(
            "load {processes}: {ended} of {runs} end well, {near} are near, {held} intervals hold; \
             {others} are of the state that the reference leaves out"
        );
        if 20 * ended < 19 * runs || 20 * near < 19 * runs {
            missed.push(processes);
        }
    }
    assert!(missed.is_empty(), "beside {missed:?} busy processes");
}
