//! A fleet for people, and for the programs that watch it.

use std::io::{self, Write};

use super::gauges::{end, gauge, labels};
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::fleet::{FleetView, HostView, ThresholdView};

/// The most hosts that are not slow in a text.
const SHOWN: usize = 5;

/// The slow hosts, and the slowest of the others.
pub fn fleet(report: &FleetView) -> Page {
    let mut page = Page::default();
    let hosts = vec![
        Column::words("host", "host"),
        Column::numbers("times the median", "", "factor"),
        Column::numbers("spreads above it", "", "score"),
        Column::numbers("sizes", "", "sizes"),
        Column::words("", "slow"),
    ];
    let shown = report.slow.len() + SHOWN;
    let rows = report.scores.iter().take(shown).map(|h| {
        vec![
            Cell::same(&h.host),
            Cell::number(Some(h.factor), |x| format!("{x:.3}")),
            Cell::number(Some(h.score), |x| format!("{x:.1}")),
            Cell::same(h.sizes.to_string()),
            Cell::same(if h.slow { "slow" } else { "" }),
        ]
    });
    page.table(Sheet { columns: hosts, rows: rows.collect() });
    page.gap();
    let named = match report.slow.as_slice() {
        [] => "no host is slower than healthy hosts can be".to_owned(),
        slow => format!("slow: {}", slow.join(", ")),
    };
    page.entry("verdict  ", format!("{named}; {} hosts", report.hosts));
    let limit = format!(
        "hosts differ by {:.1} %; a healthy host exceeds {:.1} spreads once in 1000 fleets of {}",
        100.0 * report.spread,
        report.limit,
        report.hosts
    );
    page.entry("limit    ", limit);
    page.gap();
    let columns = vec![
        Column::words("collective", "collective"),
        Column::numbers("ranks", "", "ranks"),
        Column::numbers("size", "", "size_bytes"),
        Column::numbers("median", "", "median_s"),
        Column::numbers("at most", "", "limit_s"),
        Column::numbers("busbw at least", "GB/s", "least_busbw_Bps"),
    ];
    let rows = report.thresholds.iter().map(|t| {
        vec![
            Cell::same(t.collective.id()),
            Cell::same(t.ranks.map_or(String::new(), |n| n.to_string())),
            Cell::bytes(t.size_bytes),
            Cell::seconds(t.median_s),
            Cell::seconds(t.limit_s),
            Cell::number(t.least_busbw, |b| format!("{:.2}", b / 1e9)),
        ]
    });
    page.table(Sheet { columns, rows: rows.collect() });
    page.entries("left out ", &report.left_out);
    page.record(report, "scores", &["host", "factor", "score", "sizes", "slow"]);
    page
}

/// The same as gauges of Prometheus.
///
/// # Errors
/// The writer's.
pub fn prometheus(out: &mut impl Write, report: &FleetView) -> io::Result<()> {
    let of = |h: &HostView| labels(&[("host", Some(h.host.as_str()))]);
    let all = &report.scores;
    let slow = "1 if the host is slower than healthy hosts can be, else 0";
    gauge(out, ("collcost_host_slow", slow), all, of, |h| Some(f64::from(u8::from(h.slow))))?;
    let factor = "Time over that of the median host";
    gauge(out, ("collcost_host_factor_ratio", factor), all, of, |h| Some(h.factor))?;
    let score = "Spreads above the median host";
    gauge(out, ("collcost_host_score", score), all, of, |h| Some(h.score))?;
    let of = |t: &ThresholdView| {
        let (ranks, size) = (t.ranks.map(|n| n.to_string()), t.size_bytes.to_string());
        let dtype = t.dtype.map(|d| d.to_string());
        labels(&[
            ("coll", Some(t.collective.id())),
            ("ranks", ranks.as_deref()),
            ("dtype", dtype.as_deref()),
            ("bytes", Some(&size)),
        ])
    };
    let limit = "The longest time that a healthy host takes";
    gauge(out, ("collcost_limit_seconds", limit), &report.thresholds, of, |t| Some(t.limit_s))?;
    end(out)
}
