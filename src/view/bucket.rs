//! Buckets of gradients for people.
//!
//! ```text
//! 3 buckets of 44.59 MiB by ddp: 1 MiB first, then 25 MiB
//!   #      bytes  closed at  tensors     time    ready    start      end
//! exposed  180 µs with a backward pass of 80 ms: 85 % of the calls is hidden
//! ```

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::bucket::{Buckets, Search};
use crate::base::quantity::{Bytes, Seconds, Volume};

/// Rows shown by default.
const SHOWN: usize = 8;

/// Writes the buckets; in `detail` all of them, with their tensors.
pub fn bucket(report: &Buckets, detail: bool) -> Page {
    let mut page = Page::default();
    let count = report.buckets.len();
    let first = report.first_bytes.map_or(String::new(), |b| format!("{} first, then ", Bytes(b)));
    let tensors = report.tensors.map_or(String::new(), |t| format!(" in {t} tensors"));
    page.line(format!(
        "{} of {}{tensors}, by the rule of {}",
        counted(count, "bucket"),
        Bytes(report.gradients_bytes),
        report.rule_title
    ));
    let collective = report.collective.name();
    let most = report.most_tensors.map_or(String::new(), |t| format!(", {t} tensors"));
    page.line(format!("limit {first}{}{most}; collective: {collective}", Bytes(report.cap_bytes)));
    page.gap();
    let shown = if detail || count <= SHOWN + 1 { count } else { SHOWN };
    page.table(sheet(report, shown));
    if shown < count {
        page.line(format!("  … {} more with --explain", count - shown));
    }
    if detail {
        for (i, bucket) in report.buckets.iter().enumerate() {
            if !bucket.tensors.is_empty() {
                page.entry(format!("{:>3}  ", i + 1), bucket.tensors.join(" "));
            }
        }
    }
    page.gap();
    verdict(&mut page, report);
    page.entries("note     ", &report.notes);
    page.entry("source   ", &report.rule_source);
    page
}

fn sheet(report: &Buckets, shown: usize) -> Sheet {
    let timed = report.cost.is_some();
    let played = report.cost.as_ref().is_some_and(|c| c.backward_s.is_some());
    Sheet::of(report.buckets.iter().enumerate().take(shown))
        .numbers("#", "", "bucket", |(i, _)| i + 1)
        .numbers("bytes", "", "bytes", |(_, b)| b.bytes)
        .numbers("", "", "size", |(_, b)| Cell::volume(b.bytes as f64))
        .numbers("closed at", "", "limit_bytes", |(_, b)| {
            match (b.limit_bytes, report.most_tensors) {
                (Some(bytes), _) => Cell::bytes(bytes),
                (None, Some(most)) if most == b.tensors.len() => {
                    Cell::named(&format!("{most} tensors"), "")
                }
                (None, _) => Cell::named("the end", ""),
            }
        })
        .numbers("tensors", "", "tensors", |(_, b)| match report.tensors {
            Some(_) => Cell::from(b.tensors.len().to_string()),
            None => Cell::named("–", ""),
        })
        .when(timed, |rows| rows.numbers("time", "", "time_s", |(_, b)| Cell::seconds(b.time_s)))
        .when(played, |rows| {
            rows.numbers("ready", "", "ready_s", |(_, b)| Cell::seconds(b.ready_s))
                .numbers("start", "", "start_s", |(_, b)| Cell::seconds(b.start_s))
                .numbers("end", "", "end_s", |(_, b)| Cell::seconds(b.end_s))
        })
        .when(timed, |rows| {
            rows.words("algorithm", "algorithm", |(_, b)| b.algorithm.as_deref().unwrap_or(""))
        })
        .sheet
}

fn verdict(page: &mut Page, report: &Buckets) {
    let Some(cost) = &report.cost else { return };
    let s = Seconds;
    let nodes = if cost.nodes > 1 { format!(" on {} nodes", cost.nodes) } else { String::new() };
    let text = format!(
        "{} for {}, {} ranks{nodes}, machine {}; {:.0} % of it is latency",
        s(cost.calls_s),
        counted(report.buckets.len(), "call"),
        cost.ranks,
        cost.machine,
        100.0 * cost.latency_s / cost.calls_s.max(f64::MIN_POSITIVE)
    );
    page.entry("calls    ", text);
    let mut others = format!("one bucket {}", s(cost.single_s));
    if let Some(unfused) = cost.unfused_s {
        let times = unfused / cost.calls_s.max(f64::MIN_POSITIVE);
        others += &format!(", one call per tensor {} ({times:.3} times as long)", s(unfused));
    }
    page.entry("instead  ", others);
    if let Some(even) = cost.even_bytes {
        let text = format!("below {} a call is mostly latency, above it mostly data", Volume(even));
        page.entry("even     ", text);
    }
    if let (Some(backward), Some(exposed)) = (cost.backward_s, cost.exposed_s) {
        let text = format!(
            "{} with a backward pass of {}: {:.0} % of the calls is hidden",
            s(exposed),
            s(backward),
            100.0 * (1.0 - exposed / cost.calls_s.max(f64::MIN_POSITIVE))
        );
        page.entry("exposed  ", text);
    }
    match &cost.search {
        Some(found) => best(page, found),
        None => {
            page.entry("next     ", "--backward 180ms shows what the pass hides, and the best cap")
        }
    }
}

fn best(page: &mut Page, found: &Search) {
    let text = format!(
        "a cap of {}: {}, {} exposed; from {} to {} the step ends at most 1 % later",
        Bytes(found.best_bytes),
        counted(found.best_buckets, "bucket"),
        Seconds(found.best_exposed_s),
        Bytes(found.flat_from_bytes),
        Bytes(found.flat_to_bytes)
    );
    let sure = if found.certain { "" } else { "; not certain: the difference is within the bands" };
    page.entry("best     ", format!("{text}{sure}"));
    page.entry("paste    ", &found.setting);
    page.gap();
    page.beside(caps(found));
    page.gap();
}

/// The caps at powers of two round the best one, and the rule's own.
fn caps(found: &Search) -> Sheet {
    let last = found.tried.len().saturating_sub(1);
    let shown = found.tried.iter().enumerate().filter(|(i, c)| {
        c.cap_bytes.is_power_of_two() || *i == last || c.cap_bytes == found.best_bytes
    });
    Sheet::of(shown.map(|(_, cap)| cap))
        .numbers("cap", "", "cap_bytes", |c| Cell::bytes(c.cap_bytes))
        .numbers("buckets", "", "buckets", |c| c.buckets)
        .numbers("calls", "", "calls_s", |c| Cell::seconds(c.calls_s))
        .numbers("exposed", "", "exposed_s", |c| Cell::seconds(c.exposed_s))
        .words("", "mark", |c| match c.cap_bytes {
            cap if cap == found.best_bytes => "best",
            cap if (found.flat_from_bytes..=found.flat_to_bytes).contains(&cap) => "as good",
            _ => "",
        })
        .sheet
}
