//! What differs between two releases of NCCL, as tables.

use super::columns::micro;
use super::page::Page;
use super::sheet::{Cell, Sheet};
use super::{Look, counted};
use crate::answer::nccl_diff::{ChoiceDiff, NcclDiff, Taken};
use crate::base::quantity::Bytes;

/// What differs, for people.
#[must_use]
pub fn page(report: &NcclDiff, look: Look) -> Page {
    if look.whole {
        return choices(report).into();
    }
    let mut page = Page::default();
    page.line(format!(
        "NCCL {} and {} on {} = {} ranks, {}: {} of {} ranges of sizes differ",
        report.before,
        report.after,
        report.machine,
        report.ranks,
        counted(report.nodes, "node"),
        report.choices.len(),
        report.compared
    ));
    if !report.figures.is_empty() {
        page.gap();
        page.table(figures(report));
    }
    if !report.choices.is_empty() {
        page.gap();
        page.table(choices(report));
    }
    if !report.notes.is_empty() {
        page.gap();
    }
    page.entries("  note   ", &report.notes);
    page
}

fn figures(report: &NcclDiff) -> Sheet {
    Sheet::of(&report.figures)
        .words("parameter", "figure", |figure| &figure.figure)
        .words(report.before, "before", |figure| &figure.before)
        .words(report.after, "after", |figure| &figure.after)
        .sheet
}

/// What one of the releases chose.
type Side = fn(&ChoiceDiff) -> Option<&Taken>;

fn choices(report: &NcclDiff) -> Sheet {
    let size = |bytes: u64| Cell::number(Some(bytes as f64), |_| Bytes(bytes).to_string());
    let mut rows = Sheet::of(&report.choices)
        .words("collective", "collective", |c| c.collective.id())
        .numbers("from", "", "from_bytes", |c| size(c.from_bytes))
        .numbers("to", "", "to_bytes", |c| size(c.to_bytes));
    let sides: [(&str, &str, Side); 2] = [
        (report.before, "before", |c| c.before.as_ref()),
        (report.after, "after", |c| c.after.as_ref()),
    ];
    for (release, side, taken) in sides {
        let key = |of: &str| format!("{side}_{of}");
        rows = rows
            .words(release, side, |c| name(taken(c)))
            .numbers("channels", "", &key("channels"), |c| {
                taken(c).map_or(String::new(), |t| span(t.channels_from, t.channels_to))
            })
            .numbers("threads", "", &key("threads"), |c| {
                taken(c).map_or(String::new(), |t| span(t.threads_from, t.threads_to))
            })
            .numbers("its time", "from, µs", &key("time_from_s"), |c| {
                micro(taken(c).and_then(|t| t.time_from_s))
            })
            .numbers("its time", "to, µs", &key("time_to_s"), |c| {
                micro(taken(c).and_then(|t| t.time_to_s))
            });
    }
    rows.numbers("x", "", "ratio", |c| Cell::number(c.ratio, |ratio| format!("{ratio:.3}"))).sheet
}

/// `Ring/LL`, or that it fails.
pub(super) fn name(taken: Option<&Taken>) -> String {
    taken.map_or("error".to_owned(), |taken| format!("{}/{}", taken.algorithm, taken.protocol))
}

/// One number, or the first and the last.
pub(super) fn span(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("{from}..{to}") }
}
