//! A fleet for people, and for the programs that watch it.

use std::io::{self, Write};

use super::gauges::{end, gauge, labels};
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::fleet::{FleetView, HostView, ThresholdView};

/// The most hosts that are not slow in a text.
const SHOWN: usize = 5;

/// The slow hosts, and the slowest of the others.
pub fn fleet(report: &FleetView) -> Page {
    let mut page = Page::default();
    let shown = report.slow.len() + SHOWN;
    let hosts = Sheet::of(report.scores.iter().take(shown))
        .words("host", "host", |h| &h.host)
        .numbers("times the median", "", "factor", |h| {
            Cell::number(Some(h.factor), |x| format!("{x:.3}"))
        })
        .numbers("spreads above it", "", "score", |h| {
            Cell::number(Some(h.score), |x| format!("{x:.1}"))
        })
        .numbers("sizes", "", "sizes", |h| h.sizes)
        .words("", "slow", |h| match (h.wrong > 0, h.slow, &h.part) {
            (true, ..) => "wrong results".to_owned(),
            (_, true, Some(part)) => format!("slow: {part}"),
            (_, true, None) => "slow".to_owned(),
            _ => String::new(),
        });
    page.table(hosts.sheet);
    page.gap();
    let slow = match report.slow.as_slice() {
        [] => "no host is slower than healthy hosts can be".to_owned(),
        slow => format!("slow: {}", slow.join(", ")),
    };
    let named = match report.wrong.as_slice() {
        [] => slow,
        wrong => format!("results were wrong: {}; {slow}", wrong.join(", ")),
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
    let thresholds = Sheet::of(&report.thresholds)
        .words("collective", "collective", |t| t.collective.id())
        .numbers("ranks", "", "ranks", |t| t.ranks.map_or(String::new(), |n| n.to_string()))
        .numbers("size", "", "size_bytes", |t| Cell::bytes(t.size_bytes))
        .numbers("median", "", "median_s", |t| Cell::seconds(t.median_s))
        .numbers("at most", "", "limit_s", |t| Cell::seconds(t.limit_s))
        .numbers("busbw at least", "GB/s", "least_busbw_Bps", |t| {
            Cell::number(t.least_busbw, |b| format!("{:.2}", b / 1e9))
        });
    page.table(thresholds.sheet);
    page.entries("left out ", &report.left_out);
    page.record(report, "scores", &["host", "factor", "score", "sizes", "part", "slow", "wrong"]);
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
    let wrong = "1 if the host's results were wrong, else 0";
    gauge(out, ("collcost_host_wrong", wrong), all, of, |h| {
        Some(f64::from(u8::from(h.wrong > 0)))
    })?;
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
