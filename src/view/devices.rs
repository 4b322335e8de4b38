//! Single GPUs, one operation per line.
//!
//! ```text
//! operation          start µs       95 %   GB/s      95 %  sizes
//! device/copy/0/1         9.1  8.9…9.4     391  388…394     19
//! ```

use super::page::Page;
use super::sheet::Sheet;
use crate::answer::devices::Devices;
use crate::base::quantity::{Bandwidth, Seconds};

/// The fields of an operation for programs.
const FIGURE: &[&str] = &[
    "operation",
    "start_s",
    "start_low_s",
    "start_high_s",
    "bandwidth_Bps",
    "bandwidth_low_Bps",
    "bandwidth_high_Bps",
    "sizes",
];

/// Writes the report.
pub fn devices(report: &Devices) -> Page {
    let mut page = Page::default();
    if let Some(machine) = &report.machine {
        page.entry("machine  ", machine);
    }
    for (i, gpu) in report.gpus.iter().enumerate() {
        let reached: Vec<String> = report.reach.get(i).map_or(Vec::new(), |row| {
            let others = row.iter().enumerate().filter(|(j, can)| **can && *j != i);
            others.map(|(j, _)| j.to_string()).collect()
        });
        let reaches = match (report.gpus.len(), reached.is_empty()) {
            // A single GPU, or the GPUs of several hosts.
            _ if report.gpus.len() == 1 || report.reach.is_empty() => String::new(),
            (_, true) => ", has no direct access to another".to_owned(),
            _ => format!(", reaches {}", reached.join(", ")),
        };
        page.entry("gpu      ", format!("{i}: {gpu}{reaches}"));
    }
    for (name, text) in [("driver   ", &report.driver), ("library  ", &report.library)] {
        if let Some(text) = text {
            page.entry(name, text);
        }
    }
    if !report.figures.is_empty() {
        page.table(sheet(report));
    }
    page.record(report, "figures", FIGURE);
    page.entries("note     ", &report.notes);
    if let Some(file) = &report.written {
        page.entry("written  ", file);
    }
    page
}

fn sheet(report: &Devices) -> Sheet {
    let rate = |b: Option<f64>| b.map_or("–".to_owned(), |b| Bandwidth(b).to_string());
    Sheet::of(&report.figures)
        .words("operation", "operation", |figure| &figure.operation)
        .numbers("start", "", "start_s", |figure| Seconds(figure.start_s).to_string())
        .numbers("95 %", "", "start_low_s", |figure| {
            format!("{} to {}", Seconds(figure.start_low_s), Seconds(figure.start_high_s))
        })
        .numbers("rate", "", "bandwidth_Bps", |figure| rate(figure.bandwidth))
        .numbers("95 %", "", "bandwidth_low_Bps", |figure| match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!("{} to {}", Bandwidth(low), Bandwidth(high)),
            _ => "–".to_owned(),
        })
        .numbers("sizes", "", "sizes", |figure| figure.sizes)
        .sheet
}
