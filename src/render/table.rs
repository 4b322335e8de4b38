//! Reports as tables for people.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use crate::algorithm::Library;
use crate::collective::Collective;
use crate::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::report::{Cost, Crossover, MachineView, Row, TierView};

/// Rows shown unless all are asked for.
const SHOWN: usize = 10;

/// The main screen.
///
/// # Errors
/// The writer's.
pub fn cost(out: &mut impl Write, report: &Cost, all: bool) -> io::Result<()> {
    heading(out, report)?;
    machine(out, &report.machine, report.question.nodes)?;
    writeln!(out)?;
    let (applies, refused): (Vec<&Row>, Vec<&Row>) =
        report.algorithms.iter().partition(|r| r.applies);
    let lines =
        if all { applies.iter().map(|r| (*r, 0)).collect() } else { select(report, &applies) };
    writeln!(out, "{}", rows(report, &lines).trim_fmt())?;
    let shown: usize = lines.iter().map(|(_, alike)| 1 + alike).sum();
    more(out, applies.len() - shown, &refused, all)?;
    writeln!(out)?;
    verdict(out, report, &applies)
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
    let library = report.machine.library.as_deref();
    row.ships.iter().any(|s| library.is_none_or(|l| s.starts_with(l)))
}

fn heading(out: &mut impl Write, report: &Cost) -> io::Result<()> {
    let q = &report.question;
    let collective: Option<Collective> = q.collective.parse().ok();
    write!(out, "{}", collective.map_or(q.collective, Collective::name))?;
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
fn machine(out: &mut impl Write, machine: &MachineView, nodes: u32) -> io::Result<()> {
    writeln!(out, "machine {} ({})", machine.name, machine.chosen)?;
    // What lies between nodes does not matter inside one.
    let used = if nodes > 1 { machine.tiers.len() } else { 1 };
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

fn rows(report: &Cost, rows: &[(&Row, usize)]) -> Table {
    let tiered = rows.iter().any(|(r, _)| r.tiers.len() > 1);
    let mut header = vec!["  algorithm", "steps"];
    if tiered {
        header.push("NIC MiB");
    }
    header.extend(["latency", "bandwidth", "total", "x bound", "busbw"]);
    let mut units = vec!["", ""];
    if tiered {
        units.push("a port");
    }
    units.extend(["µs", "µs", "µs", "", "GB/s"]);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header).add_row(units);
    for (row, alike) in rows {
        let mut cells = vec![title(report, row, *alike), row.n_alpha.map_or(String::new(), steps)];
        if tiered {
            let outer = row.tiers.iter().skip(1).map(|t| t.port_bytes).fold(0.0, f64::max);
            cells.push(format!("{:.1}", outer / 1_048_576.0));
        }
        cells.extend([
            micro(row.latency_s),
            micro(row.bandwidth_s),
            micro(row.time_s),
            row.bound_ratio.map_or(String::new(), |r| format!("{:.1}", Ratio(r))),
            row.busbw.map_or(String::new(), |b| format!("{:.1}", b / 1e9)),
        ]);
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
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

fn steps(n_alpha: f64) -> String {
    if n_alpha.fract() == 0.0 { format!("{n_alpha:.0}") } else { format!("{n_alpha:.1}") }
}

fn micro(seconds: Option<f64>) -> String {
    seconds.map_or("unknown".to_owned(), |s| format!("{:.1}", s * 1e6))
}

/// What the table leaves out; with `all` why the rest does not apply.
fn more(out: &mut impl Write, rest: usize, refused: &[&Row], all: bool) -> io::Result<()> {
    if all {
        for row in refused {
            writeln!(out, "  {:<34} {}", row.title, row.reason.as_deref().unwrap_or(""))?;
        }
        return Ok(());
    }
    if rest + refused.len() > 0 {
        writeln!(out, "  … {rest} more with --all; {} do not apply", refused.len())?;
    }
    Ok(())
}

/// The lines below the table: take, paper, flips, trust.
fn verdict(out: &mut impl Write, report: &Cost, rows: &[&Row]) -> io::Result<()> {
    let by = |id: Option<&str>| id.and_then(|id| rows.iter().find(|r| r.id == id));
    let library = report.machine.library.as_deref();
    let library = library.map_or("any library".to_owned(), |id| {
        Library::named(id).map_or(id.to_owned(), |l| l.to_string())
    });
    match by(report.take) {
        Some(take) => {
            let share = dominant(take);
            writeln!(out, "take   {}: the fastest that {library} ships (*){share}", take.title)?;
        }
        None => writeln!(out, "take   nothing here is shipped by {library}")?,
    }
    if let (Some(paper), Some(take)) = (by(report.paper), by(report.take))
        && paper.id != take.id
    {
        let gain = take.time_s.unwrap_or(0.0) / paper.time_s.unwrap_or(1.0);
        writeln!(out, "paper  {} would be {gain:.2} times faster{}", paper.title, dominant(paper))?;
    }
    if report.flips.len() > 1 {
        let flips: Vec<String> = report
            .flips
            .iter()
            .enumerate()
            .map(|(i, f)| match i {
                0 => f.title.to_owned(),
                _ => format!("from {} {}", Volume(f.from_bytes), f.title),
            })
            .collect();
        writeln!(out, "flips  {}", flips.join(", "))?;
    }
    for note in &report.notes {
        writeln!(out, "note   {note}")?;
    }
    Ok(())
}

/// Which term decides, and how much of the time it is.
fn dominant(row: &Row) -> String {
    let total = row.time_s.unwrap_or(0.0);
    let terms =
        [("latency", row.latency_s), ("bandwidth", row.bandwidth_s), ("compute", row.compute_s)];
    let known = terms.iter().filter_map(|(name, t)| t.map(|t| (*name, t)));
    match known.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, t)) if total > 0.0 => format!("; {:.0} % of it is {name}", 100.0 * t / total),
        _ => String::new(),
    }
}

/// One crossover.
///
/// # Errors
/// The writer's.
pub fn crossover(out: &mut impl Write, report: &Crossover) -> io::Result<()> {
    let Crossover { below, above, ranks, machine, .. } = report;
    match (report.size_bytes, report.time_s) {
        (Some(size), Some(time)) => writeln!(
            out,
            "{below} wins below {} ({size:.1} bytes), {above} above; both take {} there\n\
             {ranks} ranks, machine {machine}",
            Volume(size),
            Seconds(time),
        ),
        _ => writeln!(
            out,
            "no crossover: {} is never slower\n{ranks} ranks, machine {machine}",
            report.always.unwrap_or(below)
        ),
    }
}
