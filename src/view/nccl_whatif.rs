//! What NCCL's variables would change, as a table.

use super::columns::micro;
use super::nccl_diff::name;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use super::{Look, counted};
use crate::answer::nccl_whatif::{NcclWhatif, Tried};
use crate::base::quantity::Bytes;

/// What would change, for people.
#[must_use]
pub fn page(report: &NcclWhatif, look: Look) -> Page {
    if look.whole {
        return sheet(report).into();
    }
    let mut page = Page::default();
    page.line(format!(
        "{} of {} on {} = {} ranks, {}; NCCL {}, by its own estimate",
        report.collective.id(),
        Bytes(report.size_bytes),
        report.machine,
        report.ranks,
        counted(report.nodes, "node"),
        report.nccl
    ));
    page.gap();
    page.table(sheet(report));
    page.gap();
    if !report.without_effect.is_empty() {
        page.entry("  same   ", report.without_effect.join(", "));
    }
    page.entries("  note   ", &report.notes);
    page
}

fn sheet(report: &NcclWhatif) -> Sheet {
    let row = |tried: &Tried| {
        let taken = tried.taken.as_ref();
        let count = |count: Option<u32>| Cell::number(count.map(f64::from), |n| format!("{n:.0}"));
        let settings = if tried.settings.is_empty() { "unchanged" } else { &tried.settings };
        vec![
            Cell::same(settings.to_owned()),
            Cell::same(name(taken)),
            count(taken.map(|taken| taken.channels_to)),
            count(taken.map(|taken| taken.threads_to)),
            micro(taken.and_then(|taken| taken.time_to_s)),
            Cell::number(tried.ratio, |ratio| format!("{:+.1}", (ratio - 1.0) * 100.0)),
            count(tried.channels),
            count(tried.nvls_channels),
            Cell::same(tried.refused.clone().unwrap_or_default()),
        ]
    };
    Sheet {
        columns: vec![
            Column::words("settings", "settings"),
            Column::words("takes", "takes"),
            Column::numbers("channels", "", "channels"),
            Column::numbers("threads", "", "threads"),
            Column::numbers("its time", "µs", "time_s"),
            Column::numbers("change", "%", "ratio"),
            Column::numbers("communicator", "channels", "communicator_channels"),
            Column::numbers("NVLS", "channels", "nvls_channels"),
            Column::words("refused because", "refused"),
        ],
        rows: std::iter::once(&report.now).chain(&report.settings).map(row).collect(),
    }
}
