//! A verdict for people.
//!
//! ```text
//! allreduce of 8 ranks on dgx-a100
//!   size   measured   expected   ratio   p10 to p90   busbw  expected
//! verdict  ill: slow, at large sizes: the bandwidth side; …
//! cause 1  one NIC of 8 is missing: …
//! ```

use std::io::{self, Write};

use super::counted;
use super::gauges::{end, gauge, labels};
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::compare::{Compare, LostView, PointView, RegionView, RunView, TwoView};
use crate::answer::{named, with_given};
use crate::base::quantity::{Bandwidth, Bytes, Seconds};
use crate::base::stats::median;
use crate::machine::query::DEFAULT_CHOSEN;
use crate::measure::logs::BROKE;
use crate::measure::verdict::{Health, Ruling, SLOWDOWN, Side};

/// The fields of a size for programs.
const POINT: &[&str] = &[
    "machine",
    "file",
    "collective",
    "ranks",
    "nodes",
    "dtype",
    "library",
    "verdict",
    "health",
    "size_bytes",
    "measured_s",
    "expected_s",
    "low_s",
    "high_s",
    "limit_s",
    "ratio",
    "busbw_Bps",
    "expected_busbw_Bps",
    "basis",
    "cold_s",
];

/// The verdict of every run.
pub fn compare(report: &Compare) -> Page {
    let mut page = Page::default();
    let machine = with_given(&report.machine, &report.given);
    for (i, run) in report.runs.iter().enumerate() {
        if i > 0 {
            page.gap();
        }
        let several = report.runs.iter().any(|other| other.library != run.library);
        one(&mut page, run, several, &named(&machine, report.chosen == DEFAULT_CHOSEN));
    }
    for lost in &report.lost {
        page.entry("lost     ", lost_words(lost));
    }
    page.entries("left out ", &report.left_out);
    page.record(report, "runs.points", POINT);
    page
}

/// A run; its library stands there if there are runs of several.
fn one(page: &mut Page, run: &RunView, several: bool, machine: &str) {
    let nodes = if run.nodes > 1 { format!(" on {} nodes", run.nodes) } else { String::new() };
    let dtype = run.dtype.map_or(String::new(), |d| format!(" of {d}"));
    let library = run.library.as_deref().filter(|_| several);
    let from: Vec<&str> = run.file.as_deref().into_iter().chain(library).collect();
    let file = if from.is_empty() { String::new() } else { format!(" ({})", from.join(": ")) };
    page.line(format!(
        "{}{dtype}, {} ranks{nodes}, compared with {machine}{file}",
        run.collective.id(),
        run.ranks
    ));
    page.gap();
    page.table(sheet(run));
    page.gap();
    page.entry("verdict  ", verdict(run));
    if let Some(b) = &run.breaks {
        let text = format!(
            "from {} to {}: busbw {} falls to {}",
            Bytes(b.before_bytes),
            Bytes(b.at_bytes),
            Bandwidth(b.from),
            Bandwidth(b.to)
        );
        page.entry("break    ", text);
    }
    for (i, cause) in run.causes.iter().enumerate() {
        let open = run.verdict == Ruling::CannotTell;
        let label = format!("{} {}  ", if open { "maybe" } else { "cause" }, i + 1);
        let chance = match cause.off {
            Some(_) => format!(" ({:.0} %)", 100.0 * cause.chance),
            None => String::new(),
        };
        page.entry(label, format!("{}{chance}: {}", cause.what, cause.evidence));
        page.entry("  next   ", &cause.next);
    }
    if run.verdict == Ruling::Ill && run.causes.is_empty() {
        page.entry("cause    ", "no known cause has this shape");
    }
    page.entries("next     ", &run.next);
    page.entries("note     ", &run.notes);
}

/// `ill: slow, at large sizes; 4 of 12 sizes slower than any healthy machine; …`.
fn verdict(run: &RunView) -> String {
    let beyond = run.points.iter().filter(|p| p.measured_s > p.limit_s).count();
    let side = match run.side {
        None => "",
        Some(Side::Latency) => ", at small sizes: the latency side",
        Some(Side::Bandwidth) => ", at large sizes: the bandwidth side",
        Some(Side::Both) => ", at small and large sizes",
        Some(Side::Middle) => ", at middle sizes",
    };
    let all = run.points.len();
    let late = run.points.iter().filter(|p| p.measured_s > p.high_s).count();
    let health = match (run.verdict, run.health) {
        (Ruling::Healthy, _) => {
            let setting = run.setting.as_ref().map_or(String::new(), |s| {
                format!(" for {}, which takes {:.2} times as long at large sizes", s.what, s.cost)
            });
            format!("{setting}: {}", seen(&run.points))
        }
        // The rate of the NICs, or a shape that only causes have.
        (_, Health::Slow) if beyond == 0 => ": slow, by what the causes and notes say".to_owned(),
        (_, Health::Slow) => ": slow".to_owned(),
        (_, Health::TooFast) => {
            ": faster than possible, so it is another machine or not a separate call".to_owned()
        }
        (_, Health::WrongResults) => ": results were wrong".to_owned(),
        (_, Health::Healthy) if run.notes.iter().any(|note| note.starts_with(BROKE)) => {
            ": its program ended with an error".to_owned()
        }
        (_, Health::Healthy) if late > 0 => {
            format!(": less than one in ten healthy runs takes this long at {late} of {all} sizes")
        }
        (_, Health::Healthy) => {
            format!(": a healthy run may take this long, and so may one slowed by {}", SLOWDOWN.0)
        }
    };
    format!(
        "{}{health}{side}; {beyond} of {all} sizes above the limit for healthy machines; expectation: {}",
        run.verdict.words(),
        run.basis.words()
    )
}

/// Which slowdown a healthy verdict rules out: if the run were one slowed by 1.5, the healthy one would be faster than
/// nine of ten. One that is faster than nine of ten already shows that too much time is expected.
fn seen(points: &[PointView]) -> String {
    let all = points.len();
    let fast: Vec<f64> =
        points.iter().filter(|p| p.measured_s < p.low_s).map(|p| p.ratio).collect();
    let excluded = |p: &&PointView| p.measured_s >= p.low_s && p.measured_s < SLOWDOWN.0 * p.low_s;
    let within = points.iter().filter(excluded).count();
    let part = match within {
        0 if fast.len() == all => String::new(),
        0 => format!("a slowdown of {} would have been seen by the rate of the NICs", SLOWDOWN.0),
        part if part < all => {
            format!("a slowdown of {} would have been seen at {part} of {all} sizes", SLOWDOWN.0)
        }
        _ => format!("a slowdown of {} would have been seen", SLOWDOWN.0),
    };
    let Some(ratio) = median(fast.clone()) else { return part };
    let at = if fast.len() == all {
        "nothing is slow, but every size is".to_owned()
    } else {
        format!("{part}; {} of {all} are", fast.len())
    };
    format!(
        "{at} faster than nine of ten runs, so too much time is expected there: only a run {:.1} times as slow as this \
         one would have been seen",
        SLOWDOWN.0 / ratio
    )
}

/// `12.3 ms in 40 calls: allreduce of 64 MiB on 8 ranks …`.
fn lost_words(lost: &LostView) -> String {
    let late = match (lost.late_rank, lost.late_share) {
        (Some(rank), Some(share)) => format!("; rank {rank} comes last in {:.0} %", 100.0 * share),
        _ => String::new(),
    };
    let waiting = lost.waiting_s.map_or("–".to_owned(), |s| Seconds(s).to_string());
    format!(
        "{} beyond the expected transfer and {waiting} of waiting in {}: {} of {} on {} ranks{late}",
        Seconds(lost.transfer_s),
        counted(lost.calls, "call"),
        lost.collective.id(),
        Bytes(lost.size_bytes),
        lost.ranks
    )
}

fn sheet(run: &RunView) -> Sheet {
    // For the calls of a job, their waiting time and the delay that they cause count too.
    let of_calls = run.points.iter().any(|p| p.calls.is_some());
    // A barrier has no bytes, and so no rate.
    let rate = |b: f64| Cell::number(Some(b).filter(|b| *b > 0.0), |b| format!("{:.2}", b / 1e9));
    Sheet::of(&run.points)
        .numbers("size", "", "size_bytes", |p| Cell::bytes(p.size_bytes))
        .numbers("measured", "", "measured_s", |p| Cell::seconds(p.measured_s))
        .numbers("expected", "", "expected_s", |p| Cell::seconds(p.expected_s))
        .numbers("p10", "", "low_s", |p| Cell::seconds(p.low_s))
        .numbers("p90", "", "high_s", |p| Cell::seconds(p.high_s))
        .numbers("ratio", "", "ratio", |p| Cell::number(Some(p.ratio), |r| format!("{r:.2}")))
        .numbers("busbw", "GB/s", "busbw_Bps", |p| rate(p.busbw))
        .numbers("expected", "GB/s", "expected_busbw_Bps", |p| rate(p.expected_busbw))
        .words("", "inside", |p| match () {
            () if p.measured_s > p.limit_s => "slow",
            () if p.measured_s > p.high_s => "above p90",
            () if p.measured_s < p.low_s => "fast",
            () if p.cold_s.is_some() => "in place",
            () => "",
        })
        .when(of_calls, |rows| {
            rows.numbers("calls", "", "calls", |p| {
                Cell::number(p.calls.map(f64::from), |n| n.to_string())
            })
            .numbers("waiting", "", "skew_s", |p| Cell::seconds(p.skew_s))
            .numbers("exposed", "%", "exposed", |p| {
                Cell::number(p.exposed, |part| format!("{:.0}", 100.0 * part))
            })
        })
        .sheet
}

/// Writes how two runs differ.
pub fn two(report: &TwoView) -> Page {
    let mut page = Page::default();
    let regions = Sheet::of(&report.regions)
        .words("measured", "what", |r| &r.what)
        .words("sizes", "sizes", |r| format!("{} to {}", Bytes(r.from_bytes), Bytes(r.to_bytes)))
        .numbers("pairs", "", "pairs", |r| r.pairs)
        .numbers("second/first", "", "ratio", |r| {
            Cell::number(Some(r.ratio), |x| format!("{x:.3}"))
        })
        .numbers("95 %", "", "interval", |r| match r.low.zip(r.high) {
            Some((low, high)) => format!("{low:.3} to {high:.3}"),
            None => "unknown".to_owned(),
        })
        .words("", "verdict", |r| match (r.differs, r.ratio > 1.0) {
            (false, _) if r.low.is_none() => "cannot tell: too few sizes",
            (false, _) => "the same within noise",
            (true, true) => "slower",
            (true, false) => "faster",
        });
    page.table(regions.sheet);
    let noise = format!("{:.1} % per size, from neighbouring sizes", 100.0 * report.noise);
    page.entry("noise    ", noise);
    page.entries("note     ", &report.notes);
    let keys = ["what", "from_bytes", "to_bytes", "pairs", "ratio", "low", "high", "differs"];
    page.record(report, "regions", &keys);
    page
}

/// The verdicts as gauges of Prometheus.
///
/// # Errors
/// The writer's.
pub fn prometheus(out: &mut impl Write, report: &Compare) -> io::Result<()> {
    let of = |run: &RunView| {
        let (ranks, nodes) = (run.ranks.to_string(), run.nodes.to_string());
        let dtype = run.dtype.map(|d| d.to_string());
        labels(&[
            ("machine", Some(report.machine.as_str())),
            ("file", run.file.as_deref()),
            ("coll", Some(run.collective.id())),
            ("ranks", Some(&ranks)),
            ("nodes", Some(&nodes)),
            ("dtype", dtype.as_deref()),
            ("library", run.library.as_deref()),
        ])
    };
    for (name, help, ruling) in [
        ("collcost_run_healthy", "1 if the run is healthy, else 0", Ruling::Healthy),
        ("collcost_run_ill", "1 if the run is ill, else 0", Ruling::Ill),
        (
            "collcost_run_unclear",
            "1 if the data do not suffice for a verdict, else 0",
            Ruling::CannotTell,
        ),
    ] {
        let is = |run: &RunView| Some(f64::from(u8::from(run.verdict == ruling)));
        gauge(out, (name, help), &report.runs, of, is)?;
    }
    let worst = |run: &RunView| run.points.iter().map(|p| p.ratio).reduce(f64::max);
    let help = "Measured over expected time at the size with the highest ratio";
    gauge(out, ("collcost_run_worst_ratio", help), &report.runs, of, worst)?;
    end(out)
}

/// How two runs differ, as gauges of Prometheus.
///
/// # Errors
/// The writer's.
pub fn two_gauges(out: &mut impl Write, report: &TwoView) -> io::Result<()> {
    let of = |r: &RegionView| {
        let (from, to) = (r.from_bytes.to_string(), r.to_bytes.to_string());
        labels(&[("what", Some(r.what.as_str())), ("from", Some(&from)), ("to", Some(&to))])
    };
    let help = "The second run's times over the first's";
    gauge(out, ("collcost_two_ratio", help), &report.regions, of, |r| Some(r.ratio))?;
    let differs = |r: &RegionView| Some(f64::from(u8::from(r.differs)));
    let help = "1 if the runs differ by more than noise, else 0";
    gauge(out, ("collcost_two_differs", help), &report.regions, of, differs)?;
    let wrong = |report: &TwoView| Some(f64::from(u8::from(report.wrong)));
    let help = "1 if results of either run were wrong, else 0";
    gauge(out, ("collcost_two_wrong", help), [report], |_| String::new(), wrong)?;
    end(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slowdown of 1.5 relative to what is expected is less relative to a run that is faster.
    #[test]
    fn what_would_have_been_seen_follows_the_speed() {
        let point = |ratio: f64| PointView {
            size_bytes: 1 << 30,
            measured_s: ratio,
            cold_s: None,
            expected_s: 1.0,
            low_s: 0.8,
            high_s: 1.25,
            limit_s: 1.4,
            ratio,
            busbw: 1e9,
            expected_busbw: 1e9,
            basis: crate::measure::expect::Basis::Measured,
            calls: None,
            skew_s: None,
            exposed: None,
        };
        let said = |ratios: &[f64]| seen(&ratios.iter().map(|&r| point(r)).collect::<Vec<_>>());
        assert_eq!(said(&[1.0, 1.1]), "a slowdown of 1.5 would have been seen");
        assert_eq!(said(&[1.0, 1.22]), "a slowdown of 1.5 would have been seen at 1 of 2 sizes");
        let fast = said(&[0.6]);
        assert!(
            fast.contains("too much time is expected there: only a run 2.5 times as slow"),
            "{fast}"
        );
        let some = said(&[0.6, 1.0]);
        assert!(
            some.starts_with(
                "a slowdown of 1.5 would have been seen at 1 of 2 sizes; 1 of 2 are faster"
            ),
            "{some}"
        );
    }
}
