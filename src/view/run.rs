//! A run for people.

use super::counted;
use super::page::Page;
use super::screen::band;
use super::table::heading;
use crate::answer::run::Run;
use crate::base::quantity::{Bandwidth, Seconds};

/// What programs read.
const RUN: &[&str] = &[
    "question.collective",
    "question.size_bytes",
    "question.ranks",
    "algorithm",
    "segments",
    "transport",
    "wait",
    "reps",
    "median_s",
    "low_s",
    "high_s",
    "algbw_Bps",
    "busbw_Bps",
    "expect.time_s",
    "expect.low_s",
    "expect.high_s",
    "error",
    "late",
];

/// What ran, its time, and whether the results were right.
pub fn run(report: &Run) -> Page {
    let mut page = Page::default();
    let Run { algorithm, segments, .. } = report;
    let pieces = if *segments > 1 { format!(", P = {segments}") } else { String::new() };
    let over = match (report.transport, &report.congestion) {
        ("shm", _) => "shared memory".to_owned(),
        (_, Some(control)) => format!("TCP ({control})"),
        _ => "TCP".to_owned(),
    };
    let waiting = if report.wait == "spin" { "spinning" } else { "polling" };
    let cpus: Vec<String> = report.cpus.iter().flatten().map(ToString::to_string).collect();
    let cpus = match cpus.as_slice() {
        [] => String::new(),
        cpus => format!(", CPUs {}", cpus.join(" ")),
    };
    heading(&mut page, &report.question);
    page.entry("run     ", format!("{algorithm}{pieces} over {over}, {waiting}{cpus}"));
    let [median, low, high] = [report.median_s, report.low_s, report.high_s].map(Seconds);
    let reps = report.reps;
    let spans = match reps {
        1 => format!("{median}, one global span"),
        _ => {
            format!("{median}, the median of {reps} global spans; 8 of 10 are {low} to {high}")
        }
    };
    page.entry("time    ", spans);
    if let (Some(algbw), Some(busbw)) = (report.algbw_bps, report.busbw_bps) {
        let [algbw, busbw] = [algbw, busbw].map(Bandwidth);
        page.entry("rate    ", format!("algbw {algbw}, busbw {busbw}"));
    }
    if let (Some(expect), Some(error), Some(machine)) =
        (&report.expect, report.error, &report.machine)
    {
        let time = Seconds(expect.time_s);
        let band = band(expect).map_or(String::new(), |band| format!(" {band}"));
        let off = 100.0 * error;
        page.entry("expect  ", format!("{time}{band} on machine {machine}, {off:+.0} %"));
    }
    let results = counted(report.checked, "result");
    let text = format!("{results} at every rank compared bit by bit: correct");
    page.entry("check   ", text);
    let (late, delay) = (report.late, 100.0 * report.run_delay_ratio);
    let text = format!(
        "{late} of {reps} started late; ranks waited for a CPU {delay:.1} % of the time and were \
         preempted {} times",
        report.switches
    );
    page.entry("quiet   ", text);
    page.entries("note    ", &report.notes);
    page.record(report, "", RUN);
    page
}
