//! Reports as tables for people.

use super::columns;
use super::page::Page;
use super::screen;
use super::sheet::{Cell, Sheet};
use super::{Look, counted};
use crate::answer::{Cost, Fastest, MachineView, Promise, QuestionView, Row, TierView};
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::machine::placement::laid;
use crate::model::algorithm::Library;

/// Rows shown by default.
const SHOWN: usize = 10;

/// Which part of the main table is shown, and in which order.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// All rows, and why the others do not apply.
    pub all: bool,
    /// The columns; absent: the default ones.
    pub columns: Option<&'a [&'static str]>,
    /// Sorted by this column instead of by time.
    pub sort: Option<&'a str>,
    /// The reader's terminal.
    pub look: Look,
}

/// The main screen.
pub fn cost(report: &Cost, view: &View<'_>) -> Page {
    let mut page = Page::default();
    if view.look.whole {
        screen::answer(&mut page, report);
        page.gap();
        page.table(cost_sheet(report, view));
        return page;
    }
    if !view.all && view.columns.is_none() && view.sort.is_none() {
        screen::screen(&mut page, report, view.look);
        return page;
    }
    screen::answer(&mut page, report);
    page.gap();
    let applies: Vec<&Row> = report.algorithms.iter().filter(|r| r.applies).collect();
    let refused: Vec<&Row> = report.algorithms.iter().filter(|r| !r.applies).collect();
    let lines = lines(report, &applies, view);
    let rows: Vec<&Row> = lines.iter().map(|(row, _)| *row).collect();
    let titles = lines.iter().map(|(row, alike)| Cell::same(title(report, row, *alike))).collect();
    let sheet = columns::sheet(report, &rows, titles, view.columns);
    let spare = if view.columns.is_none() { SPARE } else { &[] };
    page.table_within(view.look.width, sheet, spare);
    let shown: usize = lines.iter().map(|(_, alike)| 1 + alike).sum();
    more(&mut page, applies.len() - shown, &refused, view.all);
    page.gap();
    machine(&mut page, &report.machine, report.question.nodes);
    details(&mut page, report);
    page
}

/// Columns that a narrow terminal leaves out, in this order.
const SPARE: &[&str] =
    &["nic_port_bytes", "n_alpha", "bound_ratio", "bandwidth_s", "busbw_Bps", "latency_s"];

/// Only the main table, with every applicable algorithm, for documents and programs.
#[must_use]
fn cost_sheet(report: &Cost, view: &View<'_>) -> Sheet {
    let applies: Vec<&Row> = report.algorithms.iter().filter(|r| r.applies).collect();
    let lines = lines(report, &applies, &View { all: true, ..*view });
    let rows: Vec<&Row> = lines.iter().map(|(row, _)| *row).collect();
    let titles = rows.iter().map(|r| Cell::named(&title(report, r, 0), r.title));
    columns::sheet(report, &rows, titles.collect(), view.columns)
}

fn lines<'a>(report: &Cost, applies: &[&'a Row], view: &View<'_>) -> Vec<(&'a Row, usize)> {
    let mut rows = applies.to_vec();
    // The column's name was checked when it was parsed.
    let sorted = view.sort.is_some_and(|by| columns::sort(&mut rows, by).is_ok());
    if !sorted {
        // The algorithm that runs comes first, as on the first screen.
        rows.sort_by_key(|row| report.runs != Some(row.id));
    }
    if view.all {
        return rows.into_iter().map(|r| (r, 0)).collect();
    }
    if sorted {
        return rows.into_iter().take(SHOWN).map(|r| (r, 0)).collect();
    }
    select(report, &rows)
}

/// At most ten lines: the algorithms that the machine's library ships, then the fastest. Rows of
/// equal cost share a line, with the number of the others.
fn select<'a>(report: &Cost, rows: &[&'a Row]) -> Vec<(&'a Row, usize)> {
    let mut lines: Vec<(&Row, usize)> = Vec::new();
    for &row in rows {
        match lines.last_mut() {
            Some((first, alike)) if first.time_s == row.time_s && first.n_alpha == row.n_alpha => {
                *alike += 1;
                // A shipped algorithm represents those of equal cost that are not.
                if ships(report, row) && !ships(report, first) {
                    *first = row;
                }
            }
            _ => lines.push((row, 0)),
        }
    }
    let shipped = lines.iter().filter(|(row, _)| ships(report, row)).count().min(SHOWN / 2);
    let mut room = SHOWN - shipped;
    let mut shipped = shipped;
    lines.retain(|(row, _)| {
        let left = if ships(report, row) && shipped > 0 { &mut shipped } else { &mut room };
        let keep = *left > 0;
        *left = left.saturating_sub(1);
        keep
    });
    lines
}

/// Whether the machine's library ships it, or any library if the machine's is not known.
pub(super) fn ships(report: &Cost, row: &Row) -> bool {
    row.is_shipped(report.machine.library.as_deref().and_then(Library::named))
}

/// The collective in a sentence.
pub(super) fn name(q: &QuestionView) -> &'static str {
    q.collective.name()
}

/// The question in a few words, without the parameter that `over` varies.
pub(super) fn asked(q: &QuestionView, over: &str) -> String {
    let barrier = q.collective == Collective::Barrier;
    let size = (over != "size" && !barrier).then(|| Bytes(q.size_bytes).to_string());
    let ranks = (over != "ranks").then(|| match q.nodes {
        nodes if nodes > 1 && q.ranks.is_multiple_of(q.ranks_per_node) => {
            format!("{} ranks = {nodes} x {}", q.ranks, q.ranks_per_node)
        }
        nodes => counted(q.ranks, "rank") + &laid(q.ranks, nodes, q.ranks_per_node),
    });
    size.into_iter().chain(ranks).collect::<Vec<_>>().join(", ")
}

pub(super) fn heading(page: &mut Page, q: &QuestionView) {
    let size = match q.collective {
        Collective::Barrier => String::new(),
        _ => format!(" of {}", Bytes(q.size_bytes)),
    };
    let means = q.collective.size_means();
    let layout = laid(q.ranks, q.nodes, q.ranks_per_node);
    page.line(format!("{}{size} {means} {}{layout}", name(q), counted(q.ranks, "rank")));
}

/// One line per tier, each parameter with its origin.
pub(super) fn machine(page: &mut Page, machine: &MachineView, nodes: u32) {
    page.line(format!("machine {} ({})", machine.name, machine.chosen));
    // The links between nodes do not matter inside one, which may have several tiers itself.
    let largest = machine.tiers.iter().filter_map(|t| t.span).max();
    let node = machine.tiers.iter().position(|t| t.span == largest).unwrap_or(0) + 1;
    let used = if nodes > 1 { machine.tiers.len() } else { node };
    let width = machine.tiers.iter().map(|t| t.name.chars().count()).max().unwrap_or(0);
    for tier in &machine.tiers[..used] {
        page.line(format!("  {:width$}  {}", tier.name, figures(tier)));
    }
    if machine.launch_s > 0.0 {
        let how = machine.launch_how.map_or("given".to_owned(), |h| h.to_string());
        page.line(format!("  {:width$}  {} per call, {how}", "launch", Seconds(machine.launch_s)));
    }
}

fn figures(tier: &TierView) -> String {
    let how =
        |h: &Option<crate::machine::profile::How>| h.map_or("given".to_owned(), |h| h.to_string());
    let alpha = match tier.alpha_s {
        Some(alpha) => format!("α {} {}", Seconds(alpha), how(&tier.alpha_how)),
        None => "α unknown".to_owned(),
    };
    let rate = match (tier.bandwidth, tier.raw_bandwidth, tier.efficiency) {
        (_, Some(raw), Some(part)) => format!(
            "{} {} x {part:.2} {}",
            Bandwidth(raw),
            how(&tier.bandwidth_how),
            how(&tier.efficiency_how)
        ),
        (Some(rate), ..) => format!("{} {}", Bandwidth(rate), how(&tier.bandwidth_how)),
        _ => "bandwidth unknown".to_owned(),
    };
    let nics = tier.nics.map_or(String::new(), |n| format!(", {} per node", counted(n, "NIC")));
    format!("{alpha}, {rate}{nics}")
}

/// `* ring` if it runs, `+ ring` if the library has it, `≤` if its time is an upper bound.
fn title(report: &Cost, row: &Row, alike: usize) -> String {
    let mark = match report.runs == Some(row.id) {
        true => "*",
        false if ships(report, row) => "+",
        false => " ",
    };
    let bound = match row.guarantee {
        Some(Promise::UpperBound) => "≤ ",
        Some(Promise::Asymptotic) => "→ ",
        _ => "",
    };
    let segments = match row.segments {
        Some(p) if p > 1 => format!(", P = {p}"),
        _ => String::new(),
    };
    let alike = if alike > 0 { format!(" (+{alike})") } else { String::new() };
    format!("{mark} {bound}{}{segments}{alike}", row.title)
}

/// What the table leaves out; with `all`, why the rest does not apply.
fn more(page: &mut Page, rest: usize, refused: &[&Row], all: bool) {
    if all {
        let width = refused.iter().map(|row| row.title.chars().count()).max().unwrap_or(0);
        for row in refused {
            let why = row.reason.as_deref().unwrap_or("");
            page.line(format!("  {:width$}  {why}", row.title));
        }
        return;
    }
    let apply = if refused.len() == 1 { "does" } else { "do" };
    match (rest, refused.len()) {
        (0, 0) => {}
        (0, n) => page.line(format!("  … {n} {apply} not apply: --all says why")),
        (rest, 0) => page.line(format!("  … {rest} more with --all")),
        (rest, n) => page.line(format!("  … {rest} more with --all; {n} {apply} not apply")),
    }
}

/// The lines below the whole table: estimates, switch points, notes.
fn details(page: &mut Page, report: &Cost) {
    let library = library(report.machine.library.as_deref());
    if let Some(estimate) = report.estimate_s {
        page.entry(format!("{library}'s own estimate: "), Seconds(estimate).to_string());
    }
    if let Some(pipelined) = report.pipelined_s {
        page.entry(format!("ideal time as {library} pipelines: "), Seconds(pipelined).to_string());
    }
    if report.switch_points.len() > 1 {
        let label = format!("switch points of {library}: ");
        page.entry(label, screen::switch_points(&report.switch_points));
    }
    if report.ideal_switch_points.len() > 1 {
        let interval = |(i, f): (usize, &Fastest)| match i {
            0 => f.title.to_owned(),
            _ => format!("from {} {}", Volume(f.from_bytes), f.title),
        };
        let points: Vec<String> =
            report.ideal_switch_points.iter().enumerate().map(interval).collect();
        page.entry("switch points of the lowest ideal time: ", points.join("; "));
    }
    page.line(format!("marks: * what runs, + also in {library}, ≤ an upper bound, → a limit"));
    page.entries("note   ", report.trust.iter().chain(&report.notes));
    screen::next(page, report);
}

/// The name of the machine's library, for a sentence.
pub(super) fn library(id: Option<&str>) -> String {
    match id {
        None => "any library".to_owned(),
        Some(id) => Library::printed(id).unwrap_or(id).to_owned(),
    }
}
