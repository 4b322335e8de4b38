//! Buckets of gradients for people.
//!
//! ```text
//! 3 buckets of 44.59 MiB by ddp: 1 MiB first, then 25 MiB
//!   #      bytes  closed at  tensors     time    ready    start      end
//! exposed  180 µs with a backward pass of 80 ms: 85 % of the calls is hidden
//! ```

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::bucket::{BucketView, Buckets, Search};
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
    page.line(format!("limit {first}{}", Bytes(report.cap_bytes)));
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
    let mut columns = vec![
        Column::numbers("#", "", "bucket"),
        Column::numbers("bytes", "", "bytes"),
        Column::numbers("", "", "size"),
        Column::numbers("closed at", "", "limit_bytes"),
        Column::numbers("tensors", "", "tensors"),
    ];
    if timed {
        columns.push(Column::numbers("time", "", "time_s"));
    }
    if played {
        let named = [("ready", "ready_s"), ("start", "start_s"), ("end", "end_s")];
        columns.extend(named.map(|(heading, key)| Column::numbers(heading, "", key)));
    }
    if timed {
        columns.push(Column::words("algorithm", "algorithm"));
    }
    let row = |(i, b): (usize, &BucketView)| {
        let mut cells = vec![
            Cell::same((i + 1).to_string()),
            Cell::same(b.bytes.to_string()),
            Cell::volume(b.bytes as f64),
            b.limit_bytes.map_or(Cell::named("the end", ""), Cell::bytes),
            Cell::same(match report.tensors {
                Some(_) => b.tensors.len().to_string(),
                None => "–".to_owned(),
            }),
        ];
        if timed {
            cells.push(Cell::seconds(b.time_s));
        }
        if played {
            cells.extend([b.ready_s, b.start_s, b.end_s].map(Cell::seconds));
        }
        if timed {
            cells.push(Cell::same(b.algorithm.clone().unwrap_or_default()));
        }
        cells
    };
    let rows = report.buckets.iter().enumerate().take(shown).map(row).collect();
    Sheet { columns, rows }
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
    let columns = vec![
        Column::numbers("cap", "", "cap_bytes"),
        Column::numbers("buckets", "", "buckets"),
        Column::numbers("calls", "", "calls_s"),
        Column::numbers("exposed", "", "exposed_s"),
        Column::words("", "mark"),
    ];
    let last = found.tried.len().saturating_sub(1);
    let shown = found.tried.iter().enumerate().filter(|(i, c)| {
        c.cap_bytes.is_power_of_two() || *i == last || c.cap_bytes == found.best_bytes
    });
    let rows = shown.map(|(_, c)| {
        let mark = match c.cap_bytes {
            cap if cap == found.best_bytes => "best",
            cap if (found.flat_from_bytes..=found.flat_to_bytes).contains(&cap) => "as good",
            _ => "",
        };
        vec![
            Cell::bytes(c.cap_bytes),
            Cell::same(c.buckets.to_string()),
            Cell::seconds(c.calls_s),
            Cell::seconds(c.exposed_s),
            Cell::same(mark),
        ]
    });
    Sheet { columns, rows: rows.collect() }
}
