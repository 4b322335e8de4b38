//! The best rate on a fabric, for people.

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::optimum::{Optimum, ProofKind, TreeView};
use crate::answer::what_if::WhatIf;
use crate::base::quantity::{Bandwidth, Bytes};
use crate::model::algorithm::Library;

/// The most links of a proof that are shown.
const SHOWN: usize = 12;

/// The rate, its proof, and what reaches it.
pub fn optimum(report: &Optimum) -> Page {
    let mut page = Page::default();
    let root = report.root.as_ref().map_or(String::new(), |root| format!(", root {root}"));
    let (name, ranks) = (report.collective.name(), report.ranks);
    page.line(format!("{name} on {}, {ranks} ranks{root}", report.fabric));
    page.gap();
    page.entry("best rate  ", summary(report));
    page.entry("proof      ", proof(report));
    if let Some(reached) = report.reached {
        let apart = (1.0 - reached / report.rate_per_second) * 100.0;
        page.entry("reached    ", format!("{}, {apart:.2} % below", Bandwidth(reached)));
    }
    if let Some(cut) = &report.cut {
        page.entry("cut        ", cut.name.clone());
        let crossing = fraction(&cut.crossing);
        let links = cut.links.iter().map(|(from, to)| format!("{from}>{to}"));
        page.entry(
            "crossed by ",
            format!(
                "{crossing} over {}: {}",
                counted(cut.links.len() as u64, "link"),
                short(links)
            ),
        );
    }
    if let Some(lengths) = &report.lengths {
        let links = lengths.iter().map(|(from, to, length)| format!("{from}>{to} {length}"));
        page.entry("lengths    ", short(links));
    }
    if let Some(trees) = &report.trees {
        page.gap();
        let ways = |tree: &TreeView| {
            let joined = |paths: &Vec<Vec<String>>| {
                paths.iter().map(|path| path.join(">")).collect::<Vec<_>>().join(" ")
            };
            let ways = [&tree.up, &tree.edges, &tree.down].into_iter().flatten().map(joined);
            let ways = ways.chain(tree.path.iter().map(|path| path.join(">")));
            ways.collect::<Vec<_>>().join(" then ")
        };
        let trees = Sheet::of(trees)
            .words("root", "root", |tree| tree.root.as_deref().unwrap_or(""))
            .words("part", "weight", |tree| &tree.weight)
            .words("ways", "ways", ways);
        page.table(trees.sheet);
        page.line(
            "They reach the rate with large vectors in many pieces, one right after the other.",
        );
    }
    if let (Some(points), Some(low)) = (&report.frontier, &report.frontier_low) {
        page.entry("frontier   ", format!("steps against rounds per chunk, at least {low}"));
        let points = Sheet::of(points)
            .numbers("steps", "", "steps", |point| point.steps)
            .numbers("rounds", "", "rounds", |point| point.rounds.to_string())
            .numbers("chunks", "", "chunks", |point| point.chunks.to_string())
            .words("by step", "rounds_by_step", |point| {
                let rounds = point.rounds_by_step.iter().map(|rounds| format!("{rounds:.3}"));
                rounds.collect::<Vec<_>>().join(" + ")
            })
            .numbers("rounds per chunk", "", "rounds_per_chunk", |point| {
                Cell::number(Some(point.rounds as f64 / point.chunks as f64), |x| format!("{x:.3}"))
            });
        page.beside(points.sheet);
    }
    if let Some(what_if) = &report.what_if {
        page.gap();
        page.line(format!("{} ideal, links shared max-min", Bytes(what_if.size_bytes)));
        page.beside(runs(what_if));
    }
    page.entries("note       ", &report.notes);
    let keys = ["collective", "fabric", "ranks", "root", "rate", "rate_Bps", "time_per_byte_s"];
    page.record(report, "", &keys);
    if let Some(what_if) = &report.what_if {
        page.programs(compared(what_if));
    }
    page
}

/// The rate in a line.
#[must_use]
pub fn summary(report: &Optimum) -> String {
    let rate = Bandwidth(report.rate_per_second);
    let (most, exactly) = match report.proof {
        ProofKind::Bound | ProofKind::Between => ("at most ", ""),
        ProofKind::Cut | ProofKind::Lengths | ProofKind::TwoPhases => ("", " exactly"),
    };
    format!("{most}{rate} algbw ideal: {} B/s{exactly}", report.rate)
}

/// The optimum and what libraries run, on the fabric as built and as changed.
fn runs(what_if: &WhatIf) -> Sheet {
    let is_compared = !what_if.faults.is_empty();
    let row = |name: String, built: Option<f64>, time: Option<f64>, held: Option<&String>| {
        let mut cells = vec![Cell::same(name), Cell::seconds(built)];
        if is_compared {
            let ratio = time.zip(built).map(|(time, built)| time / built);
            cells.push(Cell::seconds(time));
            cells.push(Cell::number(ratio, |x| format!("{x:.2}")));
        }
        cells.push(Cell::same(held.cloned().unwrap_or_default()));
        cells
    };
    let best = "optimal".to_owned();
    let best = row(best, Some(what_if.built_least_s), Some(what_if.least_s), None);
    let runs = what_if.runs.iter().map(|run| {
        let library = Library::printed(run.library).unwrap_or_default();
        let segments = run.segments.map_or(String::new(), |p| format!(", {p} segments"));
        let name = format!("{} ({library}'s {}{segments})", run.algorithm, run.name);
        row(name, run.built_s, run.time_s, run.bound_by.as_ref())
    });
    let mut columns =
        vec![Column::words("what runs", "algorithm"), Column::numbers("as built", "", "built_s")];
    if is_compared {
        columns.push(Column::numbers(&what_if.faults.join(", "), "", "time_s"));
        columns.push(Column::numbers("times as long", "", "ratio"));
    }
    columns.push(Column::words("held back by", "bound_by"));
    Sheet { columns, rows: std::iter::once(best).chain(runs).collect() }
}

/// The same for programs: the optimum, then what libraries run, each with the faults.
fn compared(what_if: &WhatIf) -> Sheet {
    let row = |[algorithm, library, segments]: [String; 3], built, time, held: Option<&String>| {
        vec![
            Cell::same(what_if.faults.join(" ")),
            Cell::same(what_if.size_bytes.to_string()),
            Cell::same(algorithm),
            Cell::same(library),
            Cell::same(segments),
            Cell::seconds(built),
            Cell::seconds(time),
            Cell::same(held.cloned().unwrap_or_default()),
        ]
    };
    let best = ["optimal".to_owned(), String::new(), String::new()];
    let best = row(best, Some(what_if.built_least_s), Some(what_if.least_s), None);
    let runs = what_if.runs.iter().map(|run| {
        let segments = run.segments.map_or(String::new(), |p| p.to_string());
        let what = [run.algorithm.to_owned(), run.library.to_owned(), segments];
        row(what, run.built_s, run.time_s, run.bound_by.as_ref())
    });
    let keys = [
        "faults",
        "size_bytes",
        "algorithm",
        "library",
        "segments",
        "built_s",
        "time_s",
        "bound_by",
    ];
    let columns = keys.map(|key| Column::words(key, key)).to_vec();
    Sheet { columns, rows: std::iter::once(best).chain(runs).collect() }
}

fn proof(report: &Optimum) -> &'static str {
    match report.proof {
        ProofKind::Cut => "no schedule gets more across this cut, and trees reach it",
        ProofKind::Lengths => "no packing costs less with these link lengths, and one reaches it",
        ProofKind::TwoPhases => {
            "the best reduce-scatter and all-gather; pairs of trees may be better"
        }
        ProofKind::Between => {
            "no flow costs less with these link lengths; the best that was found is below it"
        }
        ProofKind::Bound => "no schedule gets more across this cut; whether one reaches it is open",
    }
}

/// The first few of many.
fn short(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    let rest = all.len().saturating_sub(SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", all[..all.len() - rest].join(", "))
}

/// A fraction of bytes per second as a rate.
fn fraction(text: &str) -> Bandwidth {
    let (a, b) = text.split_once('/').unwrap_or((text, "1"));
    Bandwidth(a.parse().unwrap_or(f64::NAN) / b.parse().unwrap_or(1.0))
}
