//! Concurrent jobs on a fabric, as tables.

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::traffic::Traffic;
use crate::base::quantity::Seconds;

/// The end of each job, and the links that carry the most.
pub fn traffic(report: &Traffic) -> Page {
    let mut page = Page::default();
    page.line(format!(
        "{}{} on {}, {}, {}",
        counted(report.jobs.len() as u64, "job"),
        if report.jobs.len() > 1 { " at once" } else { "" },
        if report.fabric.is_empty() { "a fabric" } else { &report.fabric },
        counted(report.ranks, "rank"),
        counted(report.messages as u64, "message")
    ));
    page.gap();
    let makespan = Seconds(report.makespan_s);
    page.entry("makespan  ", format!("{makespan} ideal, links shared max-min"));
    if let Some(built) = report.built_makespan_s {
        let ratio = report.makespan_s / built;
        let built = Seconds(built);
        page.entry(
            "as built  ",
            format!("{built}; {ratio:.2} times as long with {}", report.faults.join(", ")),
        );
    }
    page.gap();
    page.table(jobs(report));
    page.gap();
    page.beside(links(report));
    page
}

fn jobs(report: &Traffic) -> Sheet {
    let rows = report.jobs.iter().map(|job| {
        let took = job.finish_s - job.start_s;
        let held = job.bound_by.clone().unwrap_or_default();
        let mut cells = vec![
            Cell::same(job.name.clone()),
            Cell::seconds(job.start_s),
            Cell::seconds(job.finish_s),
            Cell::seconds(took),
        ];
        cells.extend(report.built_makespan_s.map(|_| Cell::seconds(job.built_s)));
        cells.extend([
            Cell::seconds(job.alone_s),
            Cell::number(job.alone_s.map(|alone| took / alone), |x| format!("{x:.2}")),
            Cell::same(held),
            Cell::number(job.bound_share, |x| format!("{:.0} %", x * 100.0)),
        ]);
        cells
    });
    let mut columns = vec![
        Column::words("job", "job"),
        Column::numbers("start", "", "start_s"),
        Column::numbers("finish", "", "finish_s"),
        Column::numbers("takes", "", "takes_s"),
    ];
    columns.extend(report.built_makespan_s.map(|_| Column::numbers("as built", "", "built_s")));
    columns.extend([
        Column::numbers("alone", "", "alone_s"),
        Column::numbers("slowdown", "", "slowdown"),
        Column::words("held back by", "bound_by"),
        Column::numbers("of its time", "", "bound_share"),
    ]);
    Sheet { columns, rows: rows.collect() }
}

fn links(report: &Traffic) -> Sheet {
    let rows = report.links.iter().map(|link| {
        vec![
            Cell::same(format!("{}>{}", link.from, link.to)),
            Cell::rate(link.rate),
            Cell::volume(link.bytes),
            Cell::number(Some(link.busy), |x| format!("{:.0} %", x * 100.0)),
        ]
    });
    let columns = vec![
        Column::words("busiest links", "link"),
        Column::numbers("rate", "", "rate_Bps"),
        Column::numbers("carries", "", "bytes"),
        Column::numbers("busy", "", "busy"),
    ];
    Sheet { columns, rows: rows.collect() }
}
