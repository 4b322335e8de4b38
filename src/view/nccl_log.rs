//! A decoded log as a page.

use super::page::Page;
use crate::answer::explain::Block;
use crate::answer::nccl_log::{ChoiceView, CommView, IntervalView, NcclLog, TableView};
use crate::base::quantity::{Bandwidth, Bytes, Seconds};

/// A decoded log.
#[must_use]
pub fn nccl_log(report: &NcclLog) -> Page {
    let mut blocks = vec![Block::Text(head(report))];
    if !report.environment.is_empty() {
        let set = report.environment.iter().map(|s| format!("{}={}", s.name, s.value));
        blocks.push(Block::Text(format!("Set: {}", set.collect::<Vec<_>>().join(" "))));
    }
    if !report.enabled.is_empty() {
        let rows = report
            .enabled
            .iter()
            .map(|e| vec![e.function.to_owned(), e.algorithms.join(" "), e.protocols.join(" ")]);
        blocks.push(Block::table(&["enabled", "algorithms", "protocols"], rows));
    }
    if let Some(table) = &report.table {
        blocks.extend(tables(table));
    }
    if !report.choices.is_empty() {
        blocks.push(choices(&report.choices));
        blocks.extend(reasons(&report.choices, report.communicator.ranks));
    }
    if !report.intervals.is_empty() {
        blocks.push(intervals(&report.intervals));
    }
    for note in &report.notes {
        blocks.push(Block::Text(format!("Note: {note}.")));
    }
    blocks.extend(verdict(report).map(Block::Text));
    blocks.into()
}

fn head(report: &NcclLog) -> String {
    let mut text = format!("{}: ", report.file);
    match (&report.version, report.rules) {
        (Some(version), Some(rules)) if version == rules => text += &format!("NCCL {version}"),
        (Some(version), Some(rules)) => text += &format!("NCCL {version}, by the rules of {rules}"),
        (Some(version), None) => text += &format!("NCCL {version}"),
        (None, Some(rules)) => text += &format!("NCCL, by the rules of {rules}"),
        (None, None) => text += "NCCL",
    }
    let CommView {
        ranks, nodes, compute_capability, processor, processor_vendor, channels, ..
    } = report.communicator;
    let count = |n: u32, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    if let Some(ranks) = ranks {
        text += &format!(", {}", count(ranks, "rank", "ranks"));
    }
    if let Some(nodes) = nodes {
        text += &format!(" on {}", count(nodes, "node", "nodes"));
    }
    if let Some(cc) = compute_capability {
        text += &format!(", compute capability {cc}");
    }
    if let Some(vendor) = processor_vendor.filter(|v| !v.is_empty()).or(processor) {
        text += &format!(", processors {vendor}");
    }
    if let Some(channels) = channels {
        text += &format!(", {}", count(channels, "channel", "channels"));
    }
    text
}

fn tables(table: &TableView) -> Vec<Block> {
    let outcome = match (table.compared, table.differences.len()) {
        (None, _) => "decoded".to_owned(),
        (Some(n), 0) => format!("{n} figures, all as computed"),
        (Some(n), 1) => format!("{n} figures, 1 not as computed"),
        (Some(n), d) => format!("{n} figures, {d} not as computed"),
    };
    let mut blocks = vec![Block::Text(format!("Table in line {}: {outcome}", table.line))];
    if !table.differences.is_empty() {
        let rows = table.differences.iter().map(|d| {
            vec![
                d.line.to_string(),
                d.function.unwrap_or("all").to_owned(),
                format!("{}/{}", d.algorithm, d.protocol),
                d.figure.to_owned(),
                d.logged.clone(),
                d.computed.clone(),
            ]
        });
        let header = ["line", "function", "cell", "figure", "logged", "computed"];
        blocks.push(Block::table(&header, rows));
    }
    let available = table.cells.iter().filter(|c| c.bandwidth_gb_per_s > 0.0).map(|c| {
        vec![
            c.function.to_owned(),
            format!("{}/{}", c.algorithm, c.protocol),
            format!("{:.1}", c.latency_us),
            format!("{:.1}", c.bandwidth_gb_per_s),
            c.max_threads.map_or("–".to_owned(), |t| t.to_string()),
        ]
    });
    let header = ["available", "cell", "latency µs", "GB/s", "threads"];
    blocks.push(Block::table(&header, available));
    blocks
}

fn choices(choices: &[ChoiceView]) -> Block {
    let timed = choices.iter().any(|c| c.time_us.is_some());
    let ranged = choices.iter().any(|c| c.last_channel.is_some());
    let mut header = vec!["line", "lines", "function", "size", "took"];
    if timed {
        header.extend(["time µs", "GB/s", "busbw"]);
    }
    if ranged {
        header.push("channels");
    }
    header.push("computed");
    let giga = |rate: Option<f64>| rate.map_or(String::new(), |rate| super::giga(rate, 1));
    let rows = choices.iter().map(|c| {
        let size = c.size_bytes.map_or_else(
            || format!("{} per rank", Bytes(c.logged_bytes)),
            |size| Bytes(size).to_string(),
        );
        let functions = match c.functions.as_slice() {
            [] => "?".to_owned(),
            some => some.join(" or "),
        };
        let mut row = vec![
            c.line.to_string(),
            c.lines.to_string(),
            functions,
            size,
            format!("{}/{}", c.algorithm, c.protocol),
        ];
        if timed {
            row.push(c.time_us.map_or(String::new(), |t| format!("{t:.1}")));
            row.extend([giga(c.algbw), giga(c.busbw)]);
        }
        if ranged {
            row.push(match (c.first_channel, c.last_channel) {
                (Some(first), Some(last)) => format!("{first}–{last}"),
                _ => String::new(),
            });
        }
        row.push(match c.verdict {
            "agrees" => "the same".to_owned(),
            "unchecked" => "–".to_owned(),
            _ if c.computed.is_empty() => "other".to_owned(),
            "open" => format!("open: {}", c.computed.join(" or ")),
            _ => c.computed.join(" or "),
        });
        row
    });
    Block::table(&header, rows)
}

/// A sentence for each choice that needs one; a sentence that several share is printed once.
fn reasons(choices: &[ChoiceView], ranks: Option<u32>) -> Option<Block> {
    let mut shared: Vec<(&str, Vec<usize>)> = Vec::new();
    for choice in choices {
        let Some(why) = choice.why.as_deref() else { continue };
        match shared.iter_mut().find(|(other, _)| *other == why) {
            Some((_, lines)) => lines.push(choice.line),
            None => shared.push((why, vec![choice.line])),
        }
    }
    let named = shared.into_iter().map(|(why, at)| match at.as_slice() {
        [first, .., last] => format!("{} choices, lines {first} to {last}: {why}", at.len()),
        one => format!("line {}: {why}", one.first().unwrap_or(&0)),
    });
    let unnamed = choices.iter().filter(|c| c.verdict != "differs");
    let lines: Vec<String> = named.chain(unnamed.filter_map(|c| expected(c, ranks))).collect();
    (!lines.is_empty()).then_some(Block::Lines(lines))
}

/// What the time of a large call means if its function is not known.
fn expected(choice: &ChoiceView, ranks: Option<u32>) -> Option<String> {
    let (time, algbw, size) = (choice.time_us?, choice.algbw?, choice.size_bytes?);
    if choice.busbw.is_some() || size < 1 << 20 {
        return None;
    }
    let (size, time) = (Bytes(size), Seconds(time * 1e-6));
    let line = choice.line;
    let mut text = format!("line {line}: the tuner expects {size} in {time}: {}", Bandwidth(algbw));
    if let Some(n) = ranks.filter(|&n| n > 1).map(f64::from) {
        let busbw = Bandwidth(algbw * 2.0 * (n - 1.0) / n);
        text += &format!(", for an all-reduce over {n} ranks a busbw of {busbw}");
    }
    Some(text)
}

fn intervals(intervals: &[IntervalView]) -> Block {
    let rows = intervals.iter().map(|i| {
        let choices = match i.choices.as_slice() {
            [] => "nothing is available".to_owned(),
            [one] => one.clone(),
            some => format!("open: {}", some.join(" or ")),
        };
        let (from, to) = (Bytes(i.from_bytes).to_string(), Bytes(i.to_bytes).to_string());
        vec![i.function.to_owned(), from, to, choices]
    });
    Block::table(&["function", "from", "to", "the tuner picks"], rows)
}

/// The overall verdict; none if there is nothing to compare.
fn verdict(report: &NcclLog) -> Option<String> {
    let of = |verdict: &str| report.choices.iter().filter(|c| c.verdict == verdict).count();
    let mut parts = Vec::new();
    if let Some((table, compared)) = report.table.as_ref().and_then(|t| Some((t, t.compared?))) {
        parts.push(match table.differences.len() {
            0 => format!("all {compared} figures of the table are as computed"),
            n => format!("{n} of {compared} figures of the table are not as computed"),
        });
    }
    let total = report.choices.len();
    if total > 0 {
        let counts = [
            (of("agrees"), "as computed"),
            (of("differs"), "not as computed"),
            (of("open"), "left open by the printed digits"),
            (of("unchecked"), "not checked"),
        ];
        let counts = counts.into_iter().filter(|(n, _)| *n > 0);
        let counts: Vec<String> = counts.map(|(n, what)| format!("{n} {what}")).collect();
        parts.push(match total {
            1 => format!("the choice is {}", counts.concat().trim_start_matches("1 ")),
            _ => format!("of {total} choices {}", counts.join(", ")),
        });
    }
    if parts.is_empty() {
        let nothing = "There is nothing to compare with the tuner";
        return report.intervals.is_empty().then(|| nothing.to_owned());
    }
    let text = parts.join("; ");
    Some(text[..1].to_uppercase() + &text[1..])
}
