//! NCCL's choices as tables.

use super::columns::{giga, micro};
use super::page::Page;
use super::sheet::{Cell, Sheet};
use super::{Look, counted};
use crate::answer::nccl::Choose;
use crate::base::quantity::Bytes;

/// The choices, for people.
pub fn choose(report: &Choose, look: Look) -> Page {
    let mut page = Page::default();
    page.line(format!(
        "{} on {} = {} ranks, {}; NCCL {}",
        report.collective.id(),
        report.communicator,
        report.ranks,
        counted(report.nodes, "node"),
        report.nccl
    ));
    page.gap();
    page.table_within(look.width, ranges(report), SPARE);
    // Programs read one table.
    if !report.cells.is_empty() && !look.whole {
        page.gap();
        page.table(cells(report));
    }
    if report.rule.is_some() || !report.notes.is_empty() {
        page.gap();
    }
    if let Some(rule) = &report.rule {
        page.entry("  rule   ", rule);
    }
    page.entries("  note   ", &report.notes);
    page
}

/// Columns of the ranges that a narrow terminal leaves out, in this order.
const SPARE: &[&str] =
    &["threads", "logged_channels", "time_from_s time_to_s", "channels", "margin"];

/// The ranges as a table.
fn ranges(report: &Choose) -> Sheet {
    let size = |bytes: u64| Cell::number(Some(bytes as f64), |_| Bytes(bytes).to_string());
    Sheet::of(&report.ranges)
        .numbers("from", "", "from_bytes", |r| size(r.from_bytes))
        .numbers("to", "", "to_bytes", |r| size(r.to_bytes))
        .words("algorithm", "algorithm", |r| r.kernel.or(r.algorithm).unwrap_or("error"))
        .words("protocol", "protocol", |r| match r.kernel {
            Some(_) => "",
            None => r.protocol.unwrap_or("error"),
        })
        .numbers("channels", "at most", "channels", |r| span(r.channels_from, r.channels_to))
        .numbers("used", "by one call", "logged_channels", |r| {
            span(r.logged_channels_from, r.logged_channels_to)
        })
        .numbers("threads", "", "threads", |r| span(r.threads_from, r.threads))
        .numbers("its time", "from, µs", "time_from_s", |r| micro(r.time_from_s))
        .numbers("its time", "to, µs", "time_to_s", |r| micro(r.time_to_s))
        .words("second", "second", |r| r.second.as_deref().unwrap_or(""))
        .numbers("margin", "%", "margin", |r| {
            Cell::number(r.margin, |m| format!("{:.1}", m * 100.0))
        })
        .sheet
}

fn span(from: Option<u32>, to: Option<u32>) -> Cell {
    match (from, to) {
        (Some(from), Some(to)) if from == to => Cell::same(from.to_string()),
        (Some(from), Some(to)) => Cell::same(format!("{from}..{to}")),
        _ => Cell::number(None, |_| String::new()),
    }
}

/// The cells of one size as a table.
fn cells(report: &Choose) -> Sheet {
    Sheet::of(&report.cells)
        .words("cell", "cell", |c| format!("{}/{}", c.algorithm, c.protocol))
        .numbers("latency", "µs", "latency_s", |c| micro(Some(c.latency_s)))
        .numbers("bandwidth", "GB/s", "bandwidth_Bps", |c| giga(Some(c.bandwidth)))
        .numbers("reached", "", "factor", |c| Cell::number(Some(c.factor), |f| format!("{f:.2}")))
        .numbers("its time", "µs", "time_s", |c| micro(c.time_s))
        .words("out because", "out", |c| c.out.as_deref().unwrap_or(""))
        .sheet
}
