//! The first screen: the answer, why, alternatives, then ideal prices of the library's algorithms.
//!
//! ```text
//! all-reduce, 16 MiB per rank, 8 ranks of dgx-h100 (default)
//!
//!   expected    121 µs  (8 of 10 runs: 110 to 140 µs)   busbw 243 GB/s
//!   runs        NVLS/Simple, 16 channels: NCCL 2.30.7's own rules
//!   …
//!
//!   algorithm   runs as        steps  latency  bandwidth   ideal  × bound
//! * NVLS        NVLS/Simple        2   0.3 µs    66.0 µs  70.6 µs      1.4
//! ```

use super::page::Page;
use super::sheet::Sheet;
use super::table::{library, name, ships};
use super::{Look, counted};
use crate::answer::{
    Cost, Expect, Faster, MachineView, Promise, QuestionView, Row, SwitchPoint, with_given,
};
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, Seconds, TimeUnit};
use crate::measure::expect::{Basis, NOTHING, Rules};
use crate::model::algorithm::Library;

/// Rows of the table by default.
const ROWS: usize = 3;

/// Writes the screen.
pub(super) fn screen(page: &mut Page, report: &Cost, look: Look) {
    answer(page, report);
    let applies: Vec<&Row> = report.algorithms.iter().filter(|r| r.applies).collect();
    let shown = chosen(report, &applies);
    if !shown.is_empty() {
        page.gap();
        let spare = ["n_alpha", "compute_s", "bandwidth_s", "latency_s", "bound_ratio"];
        page.table_within(look.width, sheet(report, &shown), &spare);
    }
    below(page, report, applies.len() - shown.len());
}

/// The label of a line of an answer.
pub(super) fn label(word: &str) -> String {
    format!("  {word:<12}")
}

/// The lines above the table.
pub(super) fn answer(page: &mut Page, report: &Cost) {
    page.line(heading(&report.question, &report.machine));
    page.gap();
    let expect = &report.expect;
    page.entry(label("expected"), expected(expect));
    page.entry(label("runs"), runs(expect, report));
    page.entry(label("known from"), &report.known_from);
    page.entry(label("better?"), better(report));
    let bound = match report.bound_s {
        Some(least) if least > expect.time_s => {
            let whose = match expect.basis {
                Basis::Transferred => "runs of other machines",
                _ => "real runs",
            };
            format!("{} by the machine's parameters; {whose} are faster", Seconds(least))
        }
        // The band of an ideal price knows of no runs.
        Some(least) if least > expect.low_s && expect.basis != Basis::Modelled => {
            format!("{} by the machine's parameters; some real runs are faster", Seconds(least))
        }
        Some(least) => format!("{}: no algorithm can be faster on these links", Seconds(least)),
        None => "not known: a parameter of these links is unknown".to_owned(),
    };
    if !expect.runs.is_nothing() {
        page.entry(label("bound"), bound);
    }
    if let Some(best) = &report.optimal {
        let (time, rate) = (Seconds(best.time_s), Bandwidth(best.rate_per_second));
        let fabric = if best.fabric.is_empty() { "the profile's fabric" } else { &best.fabric };
        let differs = match report.expect.time_s < best.time_s {
            true => {
                "; less is expected: the profile's tiers are faster than its fabric, or a switch adds"
            }
            false => "",
        };
        let line = format!("{time} ideal: the best rate on {fabric}, {rate}{differs}");
        page.entry(label("optimal"), line);
    }
}

/// `all-reduce, 16 MiB per rank, 64 ranks on 8 nodes of dgx-h100 (default)`.
pub(super) fn heading(q: &QuestionView, machine: &MachineView) -> String {
    let collective = q.collective;
    let size = match collective {
        Collective::Barrier => String::new(),
        Collective::AllGather | Collective::Gather | Collective::Scatter => {
            format!("{} in all, ", Bytes(q.size_bytes))
        }
        Collective::Broadcast | Collective::SendRecv => {
            format!("{}, ", Bytes(q.size_bytes))
        }
        _ => format!("{} per rank, ", Bytes(q.size_bytes)),
    };
    let ranks = counted(q.ranks, "rank");
    let nodes = match q.nodes {
        1 => String::new(),
        nodes => format!(" on {nodes} nodes"),
    };
    let MachineView { chosen, .. } = machine;
    let of = with_given(&machine.name, &machine.given);
    format!("{}, {size}{ranks}{nodes} of {of} ({chosen})", name(q))
}

/// `238 µs  (8 of 10 runs: 190 µs to 310 µs)   busbw 139 GB/s`.
pub(super) fn expected(expect: &Expect) -> String {
    let band = band(expect).map_or(String::new(), |band| format!("  {band}"));
    let busbw = expect.busbw.map_or(String::new(), |b| format!("   busbw {}", Bandwidth(b)));
    format!("{}{band}{busbw}", Seconds(expect.time_s))
}

/// `(8 of 10 runs: 190 µs to 310 µs)`; given parameters have no band.
pub(super) fn band(expect: &Expect) -> Option<String> {
    let (low, high) = (Seconds(expect.low_s), Seconds(expect.high_s));
    (high.0 > 1.005 * low.0).then(|| format!("(8 of 10 runs: {low} to {high})"))
}

/// `NVLSTree/Simple, 16 channels: NCCL 2.30.7's own rules`.
fn runs(expect: &Expect, report: &Cost) -> String {
    let runs = &expect.runs;
    let channels = match runs.channels {
        None => String::new(),
        Some(1) => ", 1 channel".to_owned(),
        Some(n) => format!(", {n} channels"),
    };
    let library = library(report.machine.library.as_deref());
    if runs.is_nothing() {
        return "nothing".to_owned();
    }
    if runs.algorithm == NOTHING {
        return format!(
            "not known: neither the rules of {library} nor an ideal price of what it has are known here"
        );
    }
    let version = runs.version.as_ref().map_or(String::new(), |v| format!(" {v}"));
    let how = match runs.rules {
        Rules::Own => format!("{library}{version}'s own rules"),
        Rules::Measured => format!("as {library}{version} chose when this machine was measured"),
        Rules::Tuner => format!("{library}{version} under the tuner that it loads on this machine"),
        Rules::OtherRelease => format!("the rules of {library}{version}, another release"),
        Rules::Unknown => {
            let of = report
                .machine
                .library
                .as_ref()
                .map_or(" of what any library has", |_| " of what it has");
            let least = match report.machine.calibrated {
                true => "fastest over the links as measured",
                false => "lowest ideal time",
            };
            if is_unexplained(report) {
                return format!(
                    "not known: the rules of {library} are not known here, and {}, {least}{of}, would take longer",
                    runs.name()
                );
            }
            format!("{least}{of}; the rules of {library} are not known here")
        }
        Rules::Asked => "as requested".to_owned(),
    };
    // What was requested need not be the library's: the table's name of it.
    let requested = report.algorithms.iter().filter(|_| runs.rules == Rules::Asked);
    let named = requested.into_iter().find(|row| row.id == runs.algorithm);
    let name = named.map_or_else(|| runs.name(), |row| row.title.to_string());
    format!("{name}{channels}: {how}")
}

/// Whether times of such calls are known, and the algorithm that is taken to run does not explain them.
fn is_unexplained(report: &Cost) -> bool {
    let expect = &report.expect;
    let row = report.algorithms.iter().find(|row| row.id == expect.runs.algorithm);
    let ideal = row.and_then(|row| row.time_s);
    expect.runs.rules == Rules::Unknown && ideal.is_some_and(|ideal| ideal > expect.high_s)
}

/// The algorithm that runs, where that is known or nothing speaks against it.
fn running(report: &Cost) -> Option<&'static str> {
    report.runs.filter(|_| !is_unexplained(report))
}

/// What would certainly be faster, if anything, and the lowest ideal time of all.
fn better(report: &Cost) -> String {
    if report.expect.runs.rules == Rules::Asked {
        return "not compared: only one algorithm was requested".to_owned();
    }
    if report.expect.runs.is_nothing() {
        return "nothing is communicated".to_owned();
    }
    if let Some(Faster { title, time_s, low_s, high_s, .. }) = &report.faster {
        let [time, low, high] = [time_s, low_s, high_s].map(|s| Seconds(*s));
        return format!(
            "{title} is expected to take {time} (8 of 10 runs: {low} to {high}), by what runs of others took"
        );
    }
    let row = |id: Option<&str>| id.and_then(|id| report.algorithms.iter().find(|r| r.id == id));
    let Some(least) = row(report.fastest) else {
        return "no other algorithm is certainly faster".to_owned();
    };
    let own = row(running(report)).and_then(|r| r.time_s);
    let time = least.time_s.unwrap_or_default();
    let whose = if ships(report, least) {
        String::new()
    } else {
        format!(", not in {}", library(report.machine.library.as_deref()))
    };
    match own {
        Some(own) if own <= 1.0005 * time => {
            "no other is certainly faster; what runs also has the lowest ideal time".to_owned()
        }
        _ => format!(
            "no other is certainly faster; lowest ideal time {}: {}{whose}",
            Seconds(time),
            least.title
        ),
    }
}

/// What runs, then the library's other algorithms, the lowest ideal time first.
fn chosen<'a>(report: &Cost, applies: &[&'a Row]) -> Vec<&'a Row> {
    let own = applies.iter().filter(|r| report.runs == Some(r.id));
    let others = applies.iter().filter(|r| report.runs != Some(r.id) && ships(report, r));
    let mut rows: Vec<&Row> = own.chain(others).copied().collect();
    if rows.is_empty() {
        rows = applies.to_vec();
    }
    rows.truncate(ROWS);
    rows
}

fn sheet(report: &Cost, rows: &[&Row]) -> Sheet {
    let unit = TimeUnit::common(rows.iter().filter_map(|r| r.time_s).map(Seconds));
    let own = report.machine.library.as_deref().and_then(Library::named);
    let here = |row: &Row| running(report) == Some(row.id);
    let time = |t: Option<f64>| t.map_or("–".to_owned(), |t| unit.number(Seconds(t)));
    // Where no library is known, none has a name for it.
    let shipped = |row: &Row| match own {
        None => row.id.to_owned(),
        Some(own) => {
            let names = row.ships.iter().filter_map(|s| s.split_once(':'));
            let own = names.filter(|(library, _)| *library == own.id()).map(|(_, name)| name);
            own.map(str::to_owned).next().unwrap_or_default()
        }
    };
    let sheet = Sheet::of(rows.iter().copied())
        .words("  algorithm", "algorithm", |row| {
            format!("{} {}", if here(row) { "*" } else { " " }, row.title)
        })
        .words("runs as", "runs_as", |row| match here(row) {
            true => report.expect.runs.name(),
            false => shipped(row),
        })
        .numbers("steps", "", "n_alpha", |row| {
            row.n_alpha.map_or(String::new(), |n| format!("{n:.0}"))
        })
        .numbers("latency", unit.name, "latency_s", |row| time(row.latency_s))
        .numbers("bandwidth", unit.name, "bandwidth_s", |row| time(row.bandwidth_s));
    let sheet = match rows.iter().any(|row| row.compute_s.is_some_and(|c| c > 0.0)) {
        true => sheet.numbers("compute", unit.name, "compute_s", |row| time(row.compute_s)),
        false => sheet,
    };
    sheet
        .numbers("ideal", unit.name, "time_s", |row| {
            let bound = match row.guarantee {
                Some(Promise::UpperBound) => "≤ ",
                Some(Promise::Asymptotic) => "→ ",
                _ => "",
            };
            format!("{bound}{}", time(row.time_s))
        })
        .numbers("× bound", "", "bound_ratio", |row| {
            row.bound_ratio.map_or(String::new(), |r| format!("{r:.1}"))
        })
        .sheet
}

/// The lines below the table.
fn below(page: &mut Page, report: &Cost, more: usize) {
    page.entries("  note: ", &report.trust);
    if more > 0 {
        page.line(format!("  {more} more algorithms and notes on the parameters: --all"));
    }
    if report.switch_points.len() > 1 {
        let text = format!("  switch points of {}: ", library(report.machine.library.as_deref()));
        page.entry(text, switch_points(&report.switch_points));
    }
    next(page, report);
}

/// `Tree/LL to 199 KiB, Ring/LL to 239 KiB, then NVLSTree/Simple`.
pub(super) fn switch_points(points: &[SwitchPoint]) -> String {
    let part = |(i, point): (usize, &SwitchPoint)| match points.get(i + 1) {
        Some(next) => format!("{} to {}", point.runs, Bytes(next.from_bytes - 1)),
        None => format!("then {}", point.runs),
    };
    points.iter().enumerate().map(part).collect::<Vec<_>>().join(", ")
}

/// A command for the next question.
pub(super) fn next(page: &mut Page, report: &Cost) {
    let Some(on) = &report.on else { return };
    let (q, runs) = (&report.question, &report.expect.runs);
    let size = match q.collective {
        Collective::Barrier => String::new(),
        // A `B` alone is refused as a size, but for powers of two.
        _ if q.size_bytes < 1000 => format!(" {}", q.size_bytes),
        _ => format!(" {}", Bytes(q.size_bytes).to_string().replace(' ', "")),
    };
    let of = q.collective.id();
    // A derivation needs all the links' parameters.
    let known = report.bound_s.is_some();
    let priced = |id: &&str| known && report.algorithms.iter().any(|r| r.applies && r.id == *id);
    let next = match (report.runs.filter(priced), runs.library.filter(|_| runs.rules == Rules::Own))
    {
        (Some(own), _) => format!("collcost explain {of} {own}{size}{on}"),
        // The rules say which operations it is made of, or why nothing prices it.
        (None, Some(library)) if q.collective != Collective::Barrier && known => {
            let version = runs.version.as_ref().map_or(String::new(), |v| format!("@{v}"));
            format!("collcost choose {library}{version} {of}{size}{on}")
        }
        _ => match report.fastest.filter(priced) {
            Some(least) => format!("collcost explain {of} {least}{size}{on}"),
            None => format!("collcost explain {of}"),
        },
    };
    page.entry("  next: ", next.replace(' ', "\u{a0}"))
}
