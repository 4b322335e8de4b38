//! Machines and settings for people.

use std::io::{self, Write};

use super::Look;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::{
    ChangeView, Config, FigureView, LinksView, ProfileView, Profiles, ProfilesCheck, ProfilesDiff,
    RateView, SettingView,
};
use crate::base::quantity::Bandwidth;
use crate::machine::profile::Severity;

/// Columns of a text that is not cut to a terminal.
const WIDTH: usize = 80;

/// The list of machines as a sheet; for a terminal what does not fit is left out.
#[must_use]
pub fn list(report: &Profiles, width: Option<usize>) -> Sheet {
    let columns = ["name", "library", "links", "title"].map(|name| Column::words(name, name));
    let mut sheet = Sheet { columns: columns.to_vec(), rows: Vec::new() };
    for entry in &report.profiles {
        let links = entry.tiers.join(", ");
        let library = entry.library.clone().unwrap_or_default();
        let cells = [entry.name.clone(), library, links, entry.title.clone()].map(Cell::same);
        sheet.rows.push(cells.to_vec());
    }
    let Some(width) = width else { return sheet };
    for key in ["links", "library"] {
        if sheet.width() > width {
            sheet.drop_column(key);
        }
    }
    let over = sheet.width().saturating_sub(width);
    let widest = sheet.rows.iter().filter_map(|r| r.last()).map(|c| c.text.chars().count()).max();
    let room = widest.unwrap_or(0).saturating_sub(over);
    for title in sheet.rows.iter_mut().filter_map(|r| r.last_mut()) {
        if title.text.chars().count() > room {
            let cut: String = title.text.chars().take(room.saturating_sub(1)).collect();
            title.text = cut.trim_end().to_owned() + "…";
        }
    }
    sheet
}

/// One machine, every figure with its source.
///
/// # Errors
/// The writer's.
pub fn show(out: &mut impl Write, report: &ProfileView, look: Look) -> io::Result<()> {
    let look = Look { width: Some(look.width.unwrap_or(WIDTH)), ..look };
    let entry = &report.entry;
    look.line(out, &format!("{}  ", entry.name), &entry.title)?;
    let library = entry.library.as_deref().map_or(String::new(), |l| format!("; library {l}"));
    let also = match entry.aliases.as_slice() {
        [] => String::new(),
        aliases => format!("; also called {}", aliases.join(", ")),
    };
    look.line(out, "", &format!("{}{library}{also}", entry.origin))?;
    if let Some(picture) = &report.picture {
        writeln!(out, "\n{}", picture.trim_matches('\n'))?;
    }
    for links in &report.links {
        writeln!(out)?;
        tier(out, links, look)?;
    }
    writeln!(out, "\n{}", look.strong("the machine"))?;
    for figure in &report.figures {
        one(out, figure, look)?;
    }
    for gap in &report.unknown {
        look.line(out, "  unknown  ", gap)?;
    }
    if !report.trust.is_empty() {
        writeln!(out)?;
    }
    for line in &report.trust {
        look.line(out, "trust ", line)?;
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &report.notes {
        look.line(out, "note  ", note)?;
    }
    Ok(())
}

fn tier(out: &mut impl Write, links: &LinksView, look: Look) -> io::Result<()> {
    let mut about = match links.span {
        Some(span) => format!("joins {span} ranks"),
        None => "joins any number of ranks".to_owned(),
    };
    match links.nics {
        Some(1) => about += ", 1 port for each domain inside",
        Some(nics) => about += &format!(", {nics} ports for each domain inside"),
        None => about += &format!(", a rank has {}", links.ports),
    }
    if links.discipline != crate::machine::profile::Discipline::Serial {
        about += ", transfers at one port share its rate";
    }
    if let Some(does) = links.switch {
        about += &format!(", the switch {does}");
    }
    look.line(out, &format!("{}  ", links.name), &about)?;
    for figure in &links.figures {
        one(out, figure, look)?;
    }
    for gap in &links.unknown {
        look.line(out, "  unknown  ", gap)?;
    }
    if links.rates.is_empty() {
        return Ok(());
    }
    let mut sheet =
        Sheet { columns: vec![Column::words("  GB/s (1 is 8 Gb/s)", "counted")], rows: Vec::new() };
    sheet.columns.extend(["a port", "a rank", "a node"].map(|of| Column::numbers(of, "", of)));
    let number = |rate: Option<f64>| {
        Cell::number(rate, |r| Bandwidth(r).to_string().trim_end_matches(" GB/s").to_owned())
    };
    for RateView { counted, port, rank, node } in &links.rates {
        let cells =
            [Cell::same(format!("  {counted}")), number(*port), number(*rank), number(*node)];
        sheet.rows.push(cells.to_vec());
    }
    sheet.text(out)
}

/// A figure in one line, its source below.
fn one(out: &mut impl Write, figure: &FigureView, look: Look) -> io::Result<()> {
    let FigureView { key, text, range, how, source, date, .. } = figure;
    let range = range.as_deref().map_or(String::new(), |r| format!(" ({r})"));
    let date = date.as_deref().map_or(String::new(), |d| format!(", {d}"));
    look.line(out, &format!("  {key:<20} "), &format!("{text}{range}, {how}{date}"))?;
    let source = if source.is_empty() { "nobody is named" } else { source };
    look.line(out, &format!("{:23}", ""), source)
}

/// What was found wrong.
///
/// # Errors
/// The writer's.
pub fn check(out: &mut impl Write, report: &ProfilesCheck, look: Look) -> io::Result<()> {
    for f in &report.findings {
        let severity = match f.severity {
            Severity::Error => look.strong("error"),
            Severity::Warning => look.quiet("warning"),
        };
        writeln!(out, "{severity}: {}: {}", f.kind, f.what)?;
        writeln!(out, "  {}:{}:{}: {}", f.file, f.line, f.column, f.text)?;
        if let Some(mend) = &f.mend {
            writeln!(out, "  {mend}")?;
        }
    }
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    writeln!(
        out,
        "{}, {}: {}, {}",
        counted(report.profiles, "profile"),
        counted(report.figures, "figure"),
        counted(report.errors, "error"),
        counted(report.warnings, "warning"),
    )
}

/// What changed.
///
/// # Errors
/// The writer's.
pub fn diff(out: &mut impl Write, report: &ProfilesDiff, look: Look) -> io::Result<()> {
    let mut columns = vec![Column::words("figure", "figure")];
    for heading in [report.old.as_str(), report.new.as_str(), "new / old", "z"] {
        columns.push(Column::numbers(heading, "", heading));
    }
    columns.push(Column::words("", "significant"));
    let words = |text: &Option<String>| Cell::same(text.clone().unwrap_or_else(|| "–".to_owned()));
    let row = |c: &ChangeView| {
        vec![
            Cell::same(c.figure.clone()),
            words(&c.old),
            words(&c.new),
            Cell::number(c.ratio, |r| format!("{r:.4}")),
            Cell::number(c.z, |z| format!("{z:+.1}")),
            Cell::same(if c.significant { "changed" } else { "" }),
        ]
    };
    Sheet { columns, rows: report.figures.iter().map(row).collect() }.text(out)?;
    let (count, whole) = (report.significant, report.figures.len());
    let said = format!("{count} of {whole} figures changed by more than 3 deviations");
    look.line(out, "", &said)
}

/// The settings and who said so.
///
/// # Errors
/// The writer's.
pub fn config(out: &mut impl Write, report: &Config, look: Look) -> io::Result<()> {
    let columns = ["setting", "value", "from"].map(|name| Column::words(name, name)).to_vec();
    let row = |s: &SettingView| {
        [s.key.to_owned(), s.value.clone(), s.from.clone()].map(Cell::same).to_vec()
    };
    Sheet { columns, rows: report.settings.iter().map(row).collect() }.text(out)?;
    writeln!(out)?;
    for left in &report.left_out {
        let SettingView { key, value, from, .. } = &left.setting;
        let instead = left.instead.as_deref().unwrap_or("nothing");
        look.line(out, "left out  ", &format!("{key} = {value} ({from}): {instead} wins"))?;
    }
    for file in &report.files {
        let found = if file.found { "read" } else { "not there" };
        look.line(out, "file      ", &format!("{}: {found}", file.path))?;
    }
    let unset = format!("{} parameters: collcost list parameters", report.unset.len());
    look.line(out, "not set   ", &unset)?;
    look.line(out, "order     ", "flags, COLLCOST_PROFILE, collcost.toml, config.toml, built in")
}
