//! A schedule step by step, for people: legend, states, the messages of each step.

mod chrome;
mod dot;
mod events;
mod mermaid;
mod states;

use std::fmt::Write as _;

pub use chrome::chrome;
pub use dot::dot;
pub use events::{Lost, events};
pub use mermaid::mermaid;

use super::page::Page;
use super::sheet::{Cell, Sheet};
use super::table::{heading, machine};
use super::{Look, counted};
use crate::answer::End;
use crate::answer::trace::{Flow, Line, Step, Sum, Trace, Transfer, Tree};
use crate::base::quantity::{Seconds, Volume};
use crate::model::schedule::Op;

/// The most messages of a step that are listed in full, unless it is the only step.
const MOST_LISTED: usize = 32;

/// The number of messages that are listed if there are more.
const EXAMPLES: usize = 4;

/// The most steps that have a line of messages each.
const MOST_STEPS: usize = 256;

/// The most nodes that are listed, and rings or chains over each tier.
const MOST_LINES: usize = 8;

/// The most chunks of a message that are named one by one.
const MOST_NAMES: usize = 4;

/// The most ranks in a line or a table of roles before it is cut.
const MOST_RANKS: usize = 32;

/// The whole trace, or one step of it.
#[must_use]
pub fn page(trace: &Trace, look: Look) -> Page {
    let mut page = Page::default();
    heading(&mut page, &trace.question);
    machine(&mut page, &trace.machine, trace.question.nodes);
    page.gap();
    page.entry("schedule  ", schedule(trace));
    members(&mut page, trace);
    let states = states::Shown::new(trace, look);
    if let Some(states) = &states {
        page.gap();
        states.legend(&mut page);
    }
    if let (Some(states), Some(start)) = (&states, &trace.start) {
        page.gap();
        page.line(look.strong("start"));
        page.beside(states.sheet(start, &[]));
    }
    let one = trace.only_step.is_some();
    let listed = trace.steps.len() <= MOST_STEPS;
    for (i, step) in trace.steps.iter().enumerate().filter(|_| listed) {
        if i == 0 || states.is_some() {
            page.gap();
        }
        let label = format!("step {} of {}  ", step.step, trace.totals.steps);
        page.entry(label, messages(step, trace, one));
        if let (Some(states), Some(state)) = (&states, &step.state) {
            page.beside(states.sheet(state, &step.written));
        }
    }
    if !one && !trace.steps.is_empty() {
        page.gap();
        page.table_within(look.width, steps(trace), &["senders", "start_s", "pattern"]);
    }
    page.gap();
    if !one {
        totals(&mut page, trace);
    }
    let mut notes = trace.notes.clone();
    let followed = trace.start.is_some() || trace.steps.iter().any(|step| step.state.is_some());
    if states.is_none() && followed {
        notes.push("what ranks hold is too wide to show: --format json has it".to_owned());
    }
    if !listed {
        notes.push("the messages of a step: --step K; of all: --format json, --events".to_owned());
    }
    page.entries("note      ", notes);
    page
}

/// What runs, in how many steps and chunks, and its time.
fn schedule(trace: &Trace) -> String {
    let n = trace.question.ranks;
    let mut text = trace.title.to_owned();
    if let Some(p) = trace.segments {
        let _ = write!(text, ", P = {p}");
    }
    if let Some(root) = trace.root {
        let _ = write!(text, ", root {root}");
    }
    let _ = write!(text, ": {}", counted(trace.totals.steps, "step"));
    let bytes = || trace.chunk_bytes.iter().copied();
    let (least, most) = (bytes().fold(f64::INFINITY, f64::min), bytes().fold(0.0, f64::max));
    if most > 0.0 {
        let own = if trace.own_parts { format!("{n} x ") } else { String::new() };
        let _ = write!(text, ", {own}{} of ", counted(trace.parts, "chunk"));
        let _ = match least < most {
            true => write!(text, "{} to {}", Volume(least), Volume(most)),
            false => write!(text, "{}", Volume(most)),
        };
    }
    let _ = write!(text, ", {} in mode {}", Seconds(trace.totals.makespan_s), trace.mode);
    text
}

/// Rings, chains, trees and nodes.
fn members(page: &mut Page, trace: &Trace) {
    let members = &trace.members;
    for over in members.lines.chunk_by(|a, b| a.tier == b.tier) {
        // All tiers should appear.
        let shown = if over.len() < members.lines.len() { MOST_LINES / 2 } else { MOST_LINES };
        for line in over.iter().take(shown) {
            let kind = match (line.closed, line.ranks.len()) {
                (true, _) => "ring",
                (false, 2) => "pair",
                (false, _) => "chain",
            };
            page.entry(format!("{kind:<10}"), around(line));
        }
        more(page, over.len().saturating_sub(shown));
    }
    for (i, tree) in members.trees.iter().enumerate() {
        let label = if members.trees.len() > 1 { format!("tree {}", i + 1) } else { "tree".into() };
        page.entry(format!("{label:<10}"), described(tree));
    }
    for (i, ranks) in members.nodes.iter().enumerate().take(MOST_LINES) {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        page.entry(format!("{:<10}", format!("node {i}")), ranks.join(" "));
    }
    more(page, members.nodes.len().saturating_sub(MOST_LINES));
    if members.trees.iter().any(|tree| tree.roles.len() > 2)
        && members.trees.iter().all(|tree| tree.roles.len() <= MOST_RANKS)
    {
        page.gap();
        page.beside(roles(&members.trees));
    }
}

fn more(page: &mut Page, left: usize) {
    if left == 0 {
        return;
    }
    page.entry("          ", format!("… {left} more: --format json has them"))
}

/// `0 → 1 → 2 → 0`.
fn around(line: &Line) -> String {
    let arrow = if line.both_ways { " – " } else { " → " };
    let mut ranks: Vec<String> = line.ranks.iter().map(u32::to_string).collect();
    if line.closed {
        ranks.extend(ranks.first().cloned());
    }
    if ranks.len() > MOST_RANKS {
        ranks.splice(MOST_RANKS / 2..ranks.len() - 2, ["…".to_owned()]);
    }
    let ways = if line.both_ways { ", both ways" } else { "" };
    let tier = line.tier.as_ref().map_or_else(String::new, |tier| format!(", over {tier}"));
    format!("{}{ways}{tier}", ranks.join(arrow))
}

/// The data of a tree, its root and its branches.
fn described(tree: &Tree) -> String {
    let mut text = match tree.flow {
        Flow::Both => "up and down".to_owned(),
        Flow::Up => "up".to_owned(),
        Flow::Down => "down".to_owned(),
    };
    if !tree.chunks.is_empty() {
        let _ = write!(text, ", {}", chunks(&tree.chunks));
    }
    let depths: Vec<String> = tree.at_depth.iter().map(u32::to_string).collect();
    let _ = write!(
        text,
        ", root {}, {} deep: {} at depth 0 to {}",
        tree.root,
        depths.len() - 1,
        depths.join(", "),
        depths.len() - 1
    );
    text
}

/// Role, parent and children of every rank in every tree.
fn roles(trees: &[Tree]) -> Sheet {
    let mut ends: Vec<_> = trees.iter().flat_map(|t| t.roles.iter().map(|r| &r.of)).collect();
    ends.sort();
    ends.dedup();
    let mut rows = Sheet::of(ends).words("rank", "rank", End::to_string);
    for (i, tree) in trees.iter().enumerate() {
        let name = if trees.len() > 1 { format!("in tree {}", i + 1) } else { "role".to_owned() };
        let role = |end: &End| tree.roles.iter().find(|role| role.of == *end);
        rows = rows
            .words(&name, "role", |end| role(end).map_or("–", |role| role.role.id()))
            .words("parent", "parent", |end| {
                let parent = role(end).and_then(|role| role.parent.as_ref());
                parent.map_or("–".to_owned(), ToString::to_string)
            })
            .words("children", "children", |end| {
                let children = role(end).map_or(&[][..], |role| &role.children);
                let children: Vec<String> = children.iter().map(ToString::to_string).collect();
                if children.is_empty() { "–".into() } else { children.join(" ") }
            });
    }
    rows.sheet
}

/// The messages of a step: `add 0 → 1 c0, 1 → 2 c1`; only a few if there are many, unless `all` is
/// set.
fn messages(step: &Step, trace: &Trace, all: bool) -> String {
    let one = |t: &Transfer| {
        let named = trace.parts > 1 || trace.own_parts;
        let what = if named { format!(" {}", carried(t, trace)) } else { String::new() };
        // Non-breaking blanks.
        format!("{} → {}{what}", t.from, t.to).replace(' ', "\u{a0}")
    };
    let few = !all && step.transfers.len() > MOST_LISTED;
    let mut parts = Vec::new();
    for op in [Op::Reduce, Op::Copy, Op::Or] {
        let of_op = || step.transfers.iter().filter(|t| t.op == op);
        let most = if few { EXAMPLES } else { usize::MAX };
        let mut listed: Vec<String> = of_op().take(most).map(one).collect();
        match of_op().count() - listed.len() {
            0 => {}
            left => listed.push(format!("… {left} more")),
        }
        if !listed.is_empty() {
            parts.push(format!("{} {}", verb(op), listed.join(", ")));
        }
    }
    match &step.pattern {
        Some(pattern) if few => format!("{pattern}: {}", parts.join("; ")),
        _ => parts.join("; "),
    }
}

/// What a receiver does.
fn verb(op: Op) -> &'static str {
    match op {
        Op::Reduce => "add",
        Op::Copy => "store",
        Op::Or => "join",
    }
}

/// The chunks of a message: `c0-3,6`; if ranks have their own parts, `v01,v02`.
fn carried(t: &Transfer, trace: &Trace) -> String {
    if !trace.own_parts || t.chunks.len() > MOST_NAMES {
        return chunks(&t.chunks);
    }
    let name = |chunk: &u32| Sum::of_part(*chunk, trace.parts, trace.question.ranks).to_string();
    t.chunks.iter().map(name).collect::<Vec<_>>().join(",")
}

/// `c0`, `c0-3,6`.
pub(super) fn chunks(chunks: &[u32]) -> String {
    format!("c{}", runs(chunks, 2))
}

/// Numbers, with ascending or descending runs of at least `least` abbreviated: `0-3,6`.
fn runs(numbers: &[u32], least: usize) -> String {
    let mut parts = Vec::new();
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let along = |step: i64| {
            let wanted = (0..).map(|i| i64::from(first) + step * i);
            rest.iter().zip(wanted).take_while(|(n, wanted)| i64::from(**n) == *wanted).count()
        };
        let length = along(1).max(along(-1));
        let taken = if length >= least { length } else { 1 };
        parts.push(match rest[taken - 1] {
            last if taken > 1 => format!("{first}-{last}"),
            _ => first.to_string(),
        });
        rest = &rest[taken..];
    }
    parts.join(",")
}

/// A line per step.
fn steps(trace: &Trace) -> Sheet {
    let data = trace.totals.sent_bytes > 0.0;
    let micro = |s: f64| Cell::number(Some(s), |s| format!("{:.2}", s * 1e6));
    let whole = |n: u64| Cell::number(Some(n as f64), |n| format!("{n:.0}"));
    Sheet::of(&trace.steps)
        .numbers("step", "", "step", |step| whole(step.step))
        .words("does", "ops", |step| {
            step.ops.iter().map(|op| verb(*op)).collect::<Vec<_>>().join(", ")
        })
        .numbers("senders", "", "senders", |step| whole(step.senders.into()))
        .numbers("messages", "", "messages", |step| whole(step.messages))
        .when(data, |rows| {
            rows.numbers("one sends", "at most", "max_sent_bytes", |step| {
                Cell::volume(step.max_sent_bytes)
            })
            .numbers("so far", "of all", "share_so_far", |step| {
                Cell::number(step.share_so_far, |s| format!("{:.1} %", s * 100.0))
            })
        })
        .numbers("starts", "µs", "start_s", |step| micro(step.start_s))
        .numbers("ends", "µs", "end_s", |step| micro(step.end_s))
        .when(trace.steps.iter().any(|step| step.pattern.is_some()), |rows| {
            rows.words("who", "pattern", |step| step.pattern.as_deref().unwrap_or(""))
        })
        .sheet
}

/// The totals of all steps, and where a reduction is complete.
fn totals(page: &mut Page, trace: &Trace) {
    let totals = &trace.totals;
    let mut text =
        format!("{} and {}", counted(totals.steps, "step"), counted(totals.messages, "message"));
    if totals.sent_bytes > 0.0 {
        let share = totals.max_sent_bytes / trace.question.size_bytes as f64;
        let _ = write!(
            text,
            " of {} in total; the busiest rank sends {} = {} M in {}",
            Volume(totals.sent_bytes),
            Volume(totals.max_sent_bytes),
            (share * 1e4).round() / 1e4,
            counted(totals.max_messages, "message")
        );
    }
    page.entry("total     ", text);
    let Some(step) = totals.whole_after_step else { return };
    let mut text = format!("after step {step} every chunk's sum is complete at one rank");
    if totals.owners.len() <= MOST_RANKS {
        let one = |(rank, chunk): &(u32, u32)| format!("c{chunk}\u{a0}at\u{a0}{rank}");
        let owners: Vec<String> = totals.owners.iter().map(one).collect();
        let _ = write!(text, ": {}", owners.join(", "));
    }
    page.entry("whole     ", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_up_and_down() {
        assert_eq!(runs(&[0, 1, 2, 3, 6], 2), "0-3,6");
        assert_eq!(runs(&[5, 4, 3, 7], 3), "5-3,7");
        assert_eq!(runs(&[1, 0, 7, 6, 5], 3), "1,0,7-5");
        assert_eq!(runs(&[], 2), "");
    }
}
