//! Verified schedules for people.

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::verify::{Verification, VerifyLine};
use crate::model::algorithm::Guarantee;

/// One line per collective, or with `all` per algorithm, then the faults.
pub fn verification(report: &Verification, all: bool) -> Page {
    let mut page = Page::default();
    page.table(sheet(report, all));
    page.gap();
    for line in report.lines.iter().filter(|line| !line.ok) {
        let name = format!("{} {}", line.collective.id(), line.algorithm);
        if let Some(fault) = &line.fault {
            let what = if line.too_large { "large  " } else { "fault  " };
            page.entry(what, format!("{name}: {}: {}", fault.place, fault.what));
        }
        if let Some(broken) = &line.broken {
            let promise = match broken.guarantee {
                Guarantee::Equal | Guarantee::EqualInRounds => "is not the time of the schedule",
                _ => "is not an upper bound of it",
            };
            let text = format!(
                "{name}: the closed form {promise}: {:.6} and {:.6}, in α, for M/BW = {} α; {}",
                broken.form_s, broken.makespan_s, broken.size_over_alpha, broken.place
            );
            page.entry("fault  ", text);
        }
    }
    for without in report.without.iter().filter(|_| all) {
        let names = without.algorithms.join(", ");
        page.entry("none   ", format!("{}: {names}", without.collective.id()));
    }
    page.entries("note   ", &report.notes);
    let count = |of: fn(&VerifyLine) -> u64| report.lines.iter().map(of).sum::<u64>();
    let failed = match report.failed {
        0 if report.unverified > 0 => {
            format!("no fault found; {} too large to verify", report.unverified)
        }
        0 => "no fault".to_owned(),
        _ if report.lines.len() == 1 => "a fault".to_owned(),
        1 => "1 of the lines has a fault".to_owned(),
        n => format!("{n} of the lines have a fault"),
    };
    let compared = match count(|l| l.compared) {
        0 => String::new(),
        forms => format!(", {forms} closed forms compared"),
    };
    let schedules = counted(count(|l| l.schedules), "schedule");
    let transfers = count(|l| l.transfers);
    let verified = if report.unverified > 0 { "tried" } else { "verified" };
    let text = format!("{schedules} with {transfers} transfers {verified}{compared}: {failed}");
    page.entry("", text);
    page
}

/// One line per collective, or with `all` per algorithm.
#[must_use]
pub fn sheet(report: &Verification, all: bool) -> Sheet {
    let row = |collective: &str, name: &str, lines: &[&VerifyLine]| {
        let sum = |of: fn(&VerifyLine) -> u64| lines.iter().map(|l| of(l)).sum::<u64>();
        let number = |n: u64| Cell::number(Some(n as f64), |n| format!("{n:.0}"));
        let mut forms: Vec<&str> = lines.iter().filter_map(|l| l.closed_form.as_deref()).collect();
        forms.dedup();
        let large = lines.iter().filter(|l| l.too_large).count();
        let faulty = lines.iter().filter(|l| !l.ok).count() - large;
        let verdict = match (lines.len(), faulty, large) {
            (_, 0, 0) => "ok".to_owned(),
            (1, 0, _) => "too large".to_owned(),
            (_, 0, n) => format!("{n} too large"),
            (1, _, _) => "fault".to_owned(),
            (_, n, _) => format!("{n} with a fault"),
        };
        vec![
            Cell::same(collective),
            Cell::same(name),
            number(sum(|l| l.schedules)),
            number(sum(|l| l.transfers)),
            Cell::same(verdict),
            if lines.len() == 1 { Cell::same(forms.concat()) } else { number(sum(|l| l.compared)) },
        ]
    };
    let mut rows = Vec::new();
    for same in report.lines.chunk_by(|a, b| a.collective == b.collective) {
        if all {
            rows.extend(
                same.iter().map(|line| row(line.collective.id(), &line.algorithm, &[line])),
            );
        } else {
            let lines: Vec<&VerifyLine> = same.iter().collect();
            let name = match same {
                [one] => one.algorithm.clone(),
                _ => format!("{} algorithms", same.len()),
            };
            rows.push(row(same[0].collective.id(), &name, &lines));
        }
    }
    Sheet {
        columns: vec![
            Column::words("collective", "collective"),
            Column::words("algorithm", "algorithm"),
            Column::numbers("schedules", "", "schedules"),
            Column::numbers("transfers", "", "transfers"),
            Column::words("data flow", "verdict"),
            Column::words(if all { "closed form is" } else { "closed forms" }, "closed_form"),
        ],
        rows,
    }
}
