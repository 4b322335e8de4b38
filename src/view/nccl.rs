//! NCCL's choices as tables.

use super::columns::micro;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use super::{Look, counted};
use crate::answer::nccl::{CellView, Choose, RangeView};
use crate::base::quantity::Bytes;

/// The choices, for people.
pub fn choose(report: &Choose, look: Look) -> Page {
    if look.whole {
        return ranges(report).into();
    }
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
    if !report.cells.is_empty() {
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
    let row = |r: &RangeView| {
        let size = |bytes: u64| Cell::number(Some(bytes as f64), |_| Bytes(bytes).to_string());
        let words = |w: Option<&str>| Cell::same(w.unwrap_or("error"));
        vec![
            size(r.from_bytes),
            size(r.to_bytes),
            words(r.kernel.or(r.algorithm)),
            words(r.kernel.map_or(r.protocol, |_| Some(""))),
            span(r.channels_from, r.channels_to),
            span(r.logged_channels_from, r.logged_channels_to),
            span(r.threads_from, r.threads),
            micro(r.time_from_s),
            micro(r.time_to_s),
            Cell::same(r.second.clone().unwrap_or_default()),
            Cell::number(r.margin, |m| format!("{:.1}", m * 100.0)),
        ]
    };
    Sheet {
        columns: vec![
            Column::numbers("from", "", "from_bytes"),
            Column::numbers("to", "", "to_bytes"),
            Column::words("algorithm", "algorithm"),
            Column::words("protocol", "protocol"),
            Column::numbers("channels", "at most", "channels"),
            Column::numbers("used", "by one call", "logged_channels"),
            Column::numbers("threads", "", "threads"),
            Column::numbers("its time", "from, µs", "time_from_s"),
            Column::numbers("its time", "to, µs", "time_to_s"),
            Column::words("second", "second"),
            Column::numbers("margin", "%", "margin"),
        ],
        rows: report.ranges.iter().map(row).collect(),
    }
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
    let row = |c: &CellView| {
        vec![
            Cell::same(format!("{}/{}", c.algorithm, c.protocol)),
            micro(Some(c.latency_s)),
            Cell::number(Some(c.bandwidth), |b| format!("{:.1}", b / 1e9)),
            Cell::number(Some(c.factor), |f| format!("{f:.2}")),
            micro(c.time_s),
            Cell::same(c.out.clone().unwrap_or_default()),
        ]
    };
    Sheet {
        columns: vec![
            Column::words("cell", "cell"),
            Column::numbers("latency", "µs", "latency_s"),
            Column::numbers("bandwidth", "GB/s", "bandwidth_Bps"),
            Column::numbers("reached", "", "factor"),
            Column::numbers("its time", "µs", "time_s"),
            Column::words("out because", "out"),
        ],
        rows: report.cells.iter().map(row).collect(),
    }
}
