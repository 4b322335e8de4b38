//! Concurrent jobs on a fabric, as tables.

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Sheet};
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
    Sheet::of(&report.jobs)
        .words("job", "job", |job| &job.name)
        .numbers("start", "", "start_s", |job| Cell::seconds(job.start_s))
        .numbers("finish", "", "finish_s", |job| Cell::seconds(job.finish_s))
        .numbers("takes", "", "takes_s", |job| Cell::seconds(job.finish_s - job.start_s))
        .when(report.built_makespan_s.is_some(), |rows| {
            rows.numbers("as built", "", "built_s", |job| Cell::seconds(job.built_s))
        })
        .numbers("alone", "", "alone_s", |job| Cell::seconds(job.alone_s))
        .numbers("slowdown", "", "slowdown", |job| {
            let times = job.alone_s.map(|alone| (job.finish_s - job.start_s) / alone);
            Cell::number(times, |x| format!("{x:.2}"))
        })
        .words("held back by", "bound_by", |job| job.bound_by.as_deref().unwrap_or(""))
        .numbers("of its time", "", "bound_share", |job| {
            Cell::number(job.bound_share, |x| format!("{:.0} %", x * 100.0))
        })
        .sheet
}

fn links(report: &Traffic) -> Sheet {
    Sheet::of(&report.links)
        .words("busiest links", "link", |link| format!("{}>{}", link.from, link.to))
        .numbers("rate", "", "rate_Bps", |link| Cell::rate(link.rate))
        .numbers("carries", "", "bytes", |link| Cell::volume(link.bytes))
        .numbers("busy", "", "busy", |link| {
            Cell::number(Some(link.busy), |x| format!("{:.0} %", x * 100.0))
        })
        .sheet
}
