//! Reports as tables for people.

use std::io::{self, Write};

use super::Look;
use super::columns;
use super::sheet::{Cell, Sheet};
use crate::algorithm::Library;
use crate::collective::Collective;
use crate::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::report::{Cost, Flip, MachineView, Measured, QuestionView, Row, TierView, Would};

/// Rows shown unless all are asked for.
const SHOWN: usize = 10;

/// What of the main table is shown, and in which order.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// All rows, and why the others do not apply.
    pub all: bool,
    /// The columns; absent: the usual ones.
    pub columns: Option<&'a [&'static str]>,
    /// Sorted by this column instead of by time.
    pub sort: Option<&'a str>,
    /// The reader's terminal.
    pub look: Look,
}

/// The main screen.
///
/// # Errors
/// The writer's.
pub fn cost(out: &mut impl Write, report: &Cost, view: &View<'_>) -> io::Result<()> {
    heading(out, &report.question)?;
    machine(out, &report.machine, report.question.nodes)?;
    writeln!(out)?;
    let applies: Vec<&Row> = report.algorithms.iter().filter(|r| r.applies).collect();
    let refused: Vec<&Row> = report.algorithms.iter().filter(|r| !r.applies).collect();
    let lines = lines(report, &applies, view);
    let rows: Vec<&Row> = lines.iter().map(|(row, _)| *row).collect();
    let titles = lines.iter().map(|(row, alike)| Cell::same(title(report, row, *alike))).collect();
    let mut sheet = columns::sheet(report, &rows, titles, view.columns);
    if view.columns.is_none() {
        sheet.narrow(view.look.width, SPARE);
    }
    sheet.text(out)?;
    let shown: usize = lines.iter().map(|(_, alike)| 1 + alike).sum();
    more(out, applies.len() - shown, &refused, view.all)?;
    writeln!(out)?;
    verdict(out, report, &applies, view.look)
}

/// Columns that a narrow terminal can do without, the first to go first.
const SPARE: &[&str] =
    &["nic_port_bytes", "n_alpha", "bound_ratio", "bandwidth_s", "busbw_Bps", "latency_s"];

/// The main table alone, every applicable algorithm in it, for documents and programs.
#[must_use]
pub fn cost_sheet(report: &Cost, view: &View<'_>) -> Sheet {
    let applies: Vec<&Row> = report.algorithms.iter().filter(|r| r.applies).collect();
    let lines = lines(report, &applies, &View { all: true, ..*view });
    let rows: Vec<&Row> = lines.iter().map(|(row, _)| *row).collect();
    let titles = rows.iter().map(|r| Cell::named(&title(report, r, 0), r.title));
    columns::sheet(report, &rows, titles.collect(), view.columns)
}

fn lines<'a>(report: &Cost, applies: &[&'a Row], view: &View<'_>) -> Vec<(&'a Row, usize)> {
    let mut rows = applies.to_vec();
    // The name of the column was checked when it was read.
    let sorted = view.sort.is_some_and(|by| columns::sort(&mut rows, by).is_ok());
    if view.all {
        return rows.into_iter().map(|r| (r, 0)).collect();
    }
    if sorted {
        return rows.into_iter().take(SHOWN).map(|r| (r, 0)).collect();
    }
    select(report, &rows)
}

/// At most ten lines: what the machine's library ships, then the fastest; rows of equal cost share
/// one, with the number of the others.
fn select<'a>(report: &Cost, rows: &[&'a Row]) -> Vec<(&'a Row, usize)> {
    let mut lines: Vec<(&Row, usize)> = Vec::new();
    for &row in rows {
        match lines.last_mut() {
            Some((first, alike)) if first.time_s == row.time_s && first.n_alpha == row.n_alpha => {
                *alike += 1;
                // What is shipped stands for those that are not.
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

/// Whether the machine's library ships it; any library where none is known.
fn ships(report: &Cost, row: &Row) -> bool {
    row.is_shipped(report.machine.library.as_deref().and_then(Library::named))
}

/// The collective in a sentence.
pub(super) fn name(q: &QuestionView) -> &'static str {
    q.collective.parse().map_or(q.collective, Collective::name)
}

/// The question in a few words, without what `over` varies.
pub(super) fn asked(q: &QuestionView, over: &str) -> String {
    let barrier = q.collective.parse() == Ok(Collective::Barrier);
    let size = (over != "size" && !barrier).then(|| Bytes(q.size_bytes).to_string());
    let ranks = (over != "ranks").then(|| match q.nodes {
        1 => format!("{} {}", q.ranks, plural(q.ranks, "rank")),
        nodes => format!("{} ranks = {nodes} x {}", q.ranks, q.ranks_per_node),
    });
    size.into_iter().chain(ranks).collect::<Vec<_>>().join(", ")
}

pub(super) fn heading(out: &mut impl Write, q: &QuestionView) -> io::Result<()> {
    let collective: Option<Collective> = q.collective.parse().ok();
    write!(out, "{}", name(q))?;
    if collective != Some(Collective::Barrier) {
        write!(out, " of {}", Bytes(q.size_bytes))?;
    }
    let means = collective.map_or("over", Collective::size_means);
    write!(out, " {means} {} {}", q.ranks, plural(q.ranks, "rank"))?;
    if q.nodes > 1 {
        write!(out, " = {} nodes x {}", q.nodes, q.ranks_per_node)?;
    }
    writeln!(out)
}

fn plural(n: u32, word: &str) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}

/// One line a tier, each figure with how it was obtained.
pub(super) fn machine(out: &mut impl Write, machine: &MachineView, nodes: u32) -> io::Result<()> {
    writeln!(out, "machine {} ({})", machine.name, machine.chosen)?;
    // What lies between nodes does not matter inside one, which may have several tiers itself.
    let largest = machine.tiers.iter().filter_map(|t| t.span).max();
    let node = machine.tiers.iter().position(|t| t.span == largest).unwrap_or(0) + 1;
    let used = if nodes > 1 { machine.tiers.len() } else { node };
    let width = machine.tiers.iter().map(|t| t.name.chars().count()).max().unwrap_or(0);
    for tier in &machine.tiers[..used] {
        writeln!(out, "  {:width$}  {}", tier.name, figures(tier))?;
    }
    if machine.launch_s > 0.0 {
        let how = machine.launch_how.map_or("given".to_owned(), |h| h.to_string());
        writeln!(out, "  {:width$}  {} a call, {how}", "launch", Seconds(machine.launch_s))?;
    }
    Ok(())
}

fn figures(tier: &TierView) -> String {
    let how = |h: &Option<crate::profile::How>| h.map_or("given".to_owned(), |h| h.to_string());
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
    let nics = tier.nics.map_or(String::new(), |n| format!(", {n} {} a node", plural(n, "NIC")));
    format!("{alpha}, {rate}{nics}")
}

/// `* ring` where the machine's library ships it, `≤` where the figure is an upper bound.
fn title(report: &Cost, row: &Row, alike: usize) -> String {
    let star = if ships(report, row) { "*" } else { " " };
    let bound = match row.guarantee {
        Some("upper-bound") => "≤ ",
        Some("asymptotic") => "→ ",
        _ => "",
    };
    let segments = match row.segments {
        Some(p) if p > 1 => format!(", P = {p}"),
        _ => String::new(),
    };
    let alike = if alike > 0 { format!(" (+{alike})") } else { String::new() };
    format!("{star} {bound}{}{segments}{alike}", row.title)
}

/// What the table leaves out; with `all` why the rest does not apply.
fn more(out: &mut impl Write, rest: usize, refused: &[&Row], all: bool) -> io::Result<()> {
    if all {
        for row in refused {
            writeln!(out, "  {:<34} {}", row.title, row.reason.as_deref().unwrap_or(""))?;
        }
        return Ok(());
    }
    let apply = if refused.len() == 1 { "does" } else { "do" };
    match (rest, refused.len()) {
        (0, 0) => Ok(()),
        (0, n) => writeln!(out, "  … {n} {apply} not apply: --all says why"),
        (rest, 0) => writeln!(out, "  … {rest} more with --all"),
        (rest, n) => writeln!(out, "  … {rest} more with --all; {n} {apply} not apply"),
    }
}

/// The lines below the table: take, paper, flips, notes.
fn verdict(out: &mut impl Write, report: &Cost, rows: &[&Row], look: Look) -> io::Result<()> {
    let by = |id: Option<&str>| id.and_then(|id| rows.iter().find(|r| r.id == id));
    let library = library(&report.machine);
    let take = match by(report.take) {
        Some(take) => {
            let time = Seconds(take.time_s.unwrap_or(0.0));
            let share = dominant(take);
            let range = match (report.take_low_s, report.take_high_s) {
                // A range that rounding hides says nothing.
                (Some(low), Some(high)) if high > 1.005 * low => {
                    format!(" ({} to {} by the figures' ranges)", Seconds(low), Seconds(high))
                }
                _ => String::new(),
            };
            format!("{}, {time}{range}: the fastest that {library} ships (*){share}", take.title)
        }
        None => format!("nothing here is shipped by {library}"),
    };
    look.line(out, "take   ", &take)?;
    if let (Some(paper), Some(take)) = (by(report.paper), by(report.take))
        && paper.id != take.id
    {
        let gain = take.time_s.unwrap_or(0.0) / paper.time_s.unwrap_or(1.0);
        let text = format!("{} would be {gain:.2} times faster{}", paper.title, dominant(paper));
        look.line(out, "paper  ", &text)?;
    }
    if report.flips.len() > 1 {
        let flip = |(i, f): (usize, &Flip)| match i {
            0 => f.title.to_owned(),
            _ => format!("from {} {}", Volume(f.from_bytes), f.title),
        };
        let flips: Vec<String> = report.flips.iter().enumerate().map(flip).collect();
        look.line(out, "flips  ", &flips.join("; "))?;
    }
    if let Some(measured) = &report.measured {
        look.line(out, "measured ", &expected(measured))?;
    }
    if let Some(would) = &report.would {
        let label = match would.policy.split('@').next() {
            Some("nccl") => "NCCL   ",
            Some("openmpi") => "OMPI   ",
            Some("mpich") => "MPICH  ",
            _ => "Gloo   ",
        };
        look.line(out, label, &would_run(would))?;
    }
    for note in &report.notes {
        look.line(out, "note   ", note)?;
    }
    let q = &report.question;
    let next = format!(
        "collcost explain {c} {} -n {n} --size {} | crossover {c} -n {n} | profiles show {}",
        report.take.or(report.paper).unwrap_or("ring"),
        Bytes(q.size_bytes).to_string().replace(' ', ""),
        report.machine.name,
        c = q.collective,
        n = q.ranks,
    );
    if report.machine.chosen != "flags" {
        let unbroken = next.replace(' ', "\u{a0}").replace("\u{a0}|\u{a0}", " | ");
        look.line(out, "next   ", &unbroken)?;
    }
    Ok(())
}

/// `333.7 µs (310.8 µs to 360.9 µs in 8 of 10), busbw 351.9 GB/s; measured, f16, NCCL 2.29.2`.
fn expected(measured: &Measured) -> String {
    let time = |s: f64| Seconds(s).to_string();
    let dtype = measured.dtype.map_or(String::new(), |d| format!(", {d}"));
    // Whose measurements they are stands in the profile.
    let library = measured.source.split([';', ':']).next().unwrap_or_default();
    format!(
        "{} ({} to {} in 8 of 10), busbw {:.1} GB/s; {}{dtype}, {library}",
        time(measured.time_s),
        time(measured.low_s),
        time(measured.high_s),
        measured.busbw / 1e9,
        measured.basis.words(),
    )
}

/// `2.30.7 would run NVLSTree/Simple on 16 channels; its own estimate is 241.1 µs`, and the price.
fn would_run(would: &Would) -> String {
    let version = would.policy.split_once('@').map_or("", |(_, v)| v);
    let mut text = format!("{version} would run {}", would.runs).trim_start().to_owned();
    if let Some(channels) = would.channels {
        text += &format!(" on {channels} channel{}", if channels == 1 { "" } else { "s" });
    }
    if let Some(estimate) = would.estimate_s {
        text += &format!("; its own estimate is {}", Seconds(estimate));
    }
    if let (Some(time), Some(take), Some(paper)) =
        (would.time_s, would.take_ratio, would.paper_ratio)
    {
        text += &match (take, paper) {
            (_, p) if p < 1.0005 => format!("; priced here {}, the fastest", Seconds(time)),
            (t, p) if t < 1.0005 => {
                format!("; priced here it is the take, {p:.2} times the fastest")
            }
            (t, p) => format!(
                "; priced here {}, {t:.2} times the take, {p:.2} times the fastest",
                Seconds(time)
            ),
        };
    }
    text
}

/// The name of the machine's library in a sentence.
pub(super) fn library(machine: &MachineView) -> String {
    machine.library.as_deref().map_or("any library".to_owned(), |id| {
        Library::named(id).map_or(id.to_owned(), |l| l.to_string())
    })
}

/// Which term decides, and how much of the time it is.
fn dominant(row: &Row) -> String {
    let total = row.time_s.unwrap_or(0.0);
    let of_messages = [row.latency_s, row.bandwidth_s, row.compute_s];
    let launch = total - of_messages.iter().flatten().sum::<f64>();
    let [latency, bandwidth, compute] = of_messages;
    let terms = [
        ("latency", latency),
        ("bandwidth", bandwidth),
        ("compute", compute),
        ("the launch", Some(launch)),
    ];
    let known = terms.iter().filter_map(|(name, t)| t.map(|t| (*name, t)));
    match known.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, t)) if total > 0.0 => format!("; {:.0} % of it is {name}", 100.0 * t / total),
        _ => String::new(),
    }
}
