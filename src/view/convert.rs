//! Conversions as pages.

use super::page::Page;
use super::{counted, giga};
use crate::answer::convert::Converted;
use crate::answer::explain::Block;
use crate::base::quantity::{Bandwidth, Seconds, Volume, without_zeros};

/// The fields for programs.
const MEASURED: &[&str] = &[
    "collective",
    "ranks",
    "size_bytes",
    "time_s",
    "algbw_Bps",
    "busbw_Bps",
    "busbw_factor",
    "peak_Bps",
    "efficiency",
];

/// A conversion.
#[must_use]
pub fn converted(report: &Converted) -> Page {
    let name = report.collective.name();
    let mut blocks = vec![Block::Text(format!("{name} over {}", counted(report.ranks, "rank")))];
    if let Some(answer) = &report.answer {
        blocks.push(Block::Lines(vec![answer.clone()]));
    }
    blocks.push(measurement(report));
    if !report.rates.is_empty() {
        let rows = report.rates.iter().map(|r| {
            vec![
                r.tool.to_owned(),
                giga(r.algbw, 2),
                giga(r.busbw, 2),
                format!("{} ({})", r.why, r.basis),
            ]
        });
        blocks.push(Block::table(&["prints", "algbw GB/s", "busbw GB/s", "because"], rows));
    }
    if !report.sizes.is_empty() {
        let rows = report.sizes.iter().map(|s| {
            let bytes = format!("{}", Volume(s.size_bytes));
            vec![s.tool.to_owned(), bytes, s.counts.to_owned(), s.basis.to_owned()]
        });
        blocks.push(Block::table(&["tool", "size", "counts", "known from"], rows));
    }
    blocks.extend(wire(report));
    for note in &report.notes {
        blocks.push(Block::Text(format!("Note: {note}.")));
    }
    let mut page = Page::from(blocks);
    page.record(report, "", MEASURED);
    page
}

fn measurement(report: &Converted) -> Block {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |name: &str, text: Option<String>| {
        if let Some(text) = text {
            rows.push(vec![name.to_owned(), text]);
        }
    };
    add("size", report.size_bytes.map(|s| Volume(s).to_string()));
    add("time", report.time_s.map(|t| Seconds(t).to_string()));
    add("algbw", report.algbw.map(|a| Bandwidth(a).to_string()));
    add("busbw", report.busbw.map(|b| Bandwidth(b).to_string()));
    add("factor", Some(report.busbw_factor.to_string()));
    if let (Some(peak), Some(part)) = (report.peak, report.efficiency) {
        add("η_β", Some(format!("{part:.4} of {}", Bandwidth(peak))));
    }
    Block::table(&["", ""], rows)
}

/// The actual traffic on the wire.
fn wire(report: &Converted) -> Option<Block> {
    let share = |s: f64| format!("{} M", without_zeros(&format!("{s:.4}")));
    let rated = report.algbw.is_some();
    let nics = report.wire.iter().any(|w| w.nic_share.is_some());
    let mut header = vec!["on the wire", "a rank sends"];
    if rated {
        header.push("GB/s");
    }
    if nics {
        header.push("a NIC sends");
    }
    if nics && rated {
        header.push("GB/s");
    }
    let rows = report.wire.iter().map(|w| {
        let mut row = vec![w.algorithm.to_owned(), share(w.sent_share)];
        if rated {
            row.push(w.sent.map_or(String::new(), |rate| giga(rate, 2)));
        }
        if nics {
            row.push(w.nic_share.map_or("–".to_owned(), share));
        }
        if nics && rated {
            row.push(w.nic.map_or("–".to_owned(), |rate| giga(rate, 2)));
        }
        row
    });
    (!report.wire.is_empty()).then(|| Block::table(&header, rows))
}
