//! What NCCL's variables would change, as a table.

use super::columns::micro;
use super::counted;
use super::nccl_diff::name;
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::nccl_whatif::NcclWhatif;
use crate::base::quantity::Bytes;

/// What would change, for people.
#[must_use]
pub fn page(report: &NcclWhatif) -> Page {
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
    let count = |count: Option<u32>| Cell::number(count.map(f64::from), |n| format!("{n:.0}"));
    Sheet::of(std::iter::once(&report.now).chain(&report.settings))
        .words("settings", "settings", |tried| match tried.settings.as_str() {
            "" => "unchanged",
            settings => settings,
        })
        .words("takes", "takes", |tried| name(tried.taken.as_ref()))
        .numbers("channels", "", "channels", |tried| {
            count(tried.taken.as_ref().map(|taken| taken.channels_to))
        })
        .numbers("threads", "", "threads", |tried| {
            count(tried.taken.as_ref().map(|taken| taken.threads_to))
        })
        .numbers("its time", "µs", "time_s", |tried| {
            micro(tried.taken.as_ref().and_then(|taken| taken.time_to_s))
        })
        .numbers("change", "%", "ratio", |tried| {
            Cell::number(tried.ratio, |ratio| format!("{:+.1}", (ratio - 1.0) * 100.0))
        })
        .numbers("communicator", "channels", "communicator_channels", |t| count(t.channels))
        .numbers("NVLS", "channels", "nvls_channels", |tried| count(tried.nvls_channels))
        .words("refused because", "refused", |tried| tried.refused.as_deref().unwrap_or(""))
        .sheet
}
