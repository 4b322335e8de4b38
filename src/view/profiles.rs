//! Machines and settings for people.

use super::page::Page;
use super::sheet::{Cell, Sheet};
use super::{Look, counted};
use crate::answer::{
    Config, FigureView, LinksView, ProfileView, Profiles, ProfilesCheck, ProfilesDiff, SettingView,
    StatementView,
};

use crate::base::quantity::Bandwidth;
use crate::machine::profile::Severity;

/// The width of a text that is not cut to a terminal.
const WIDTH: usize = 80;

/// The list of machines as a sheet; on a terminal, columns that do not fit are left out.
#[must_use]
pub fn list(report: &Profiles, width: Option<usize>) -> Sheet {
    let mut sheet = Sheet::of(&report.profiles)
        .words("name", "name", |entry| &entry.name)
        .words("library", "library", |entry| entry.library.as_deref().unwrap_or(""))
        .words("links", "links", |entry| entry.tiers.join(", "))
        .words("title", "title", |entry| &entry.title)
        .sheet;
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

/// One machine, each parameter with its source.
pub fn show(report: &ProfileView, look: Look) -> Page {
    let mut page = Page::default();
    page.narrow(WIDTH);
    let entry = &report.entry;
    page.entry(format!("{}  ", entry.name), &entry.title);
    let library = entry.library.as_deref().map_or(String::new(), |l| format!("; library {l}"));
    let also = match entry.aliases.as_slice() {
        [] => String::new(),
        aliases => format!("; also called {}", aliases.join(", ")),
    };
    page.entry("", format!("{}{library}{also}", entry.origin));
    if let Some(picture) = &report.picture {
        page.gap();
        page.drawn(picture.trim_matches('\n'));
    }
    for links in &report.links {
        page.gap();
        tier(&mut page, links);
    }
    page.gap();
    page.line(look.strong("the machine"));
    for figure in &report.figures {
        one(&mut page, figure);
    }
    fitted(&mut page, &report.fitted);
    page.entries("  unknown  ", &report.unknown);
    if !report.trust.is_empty() {
        page.gap();
    }
    page.entries("trust ", &report.trust);
    if !report.notes.is_empty() {
        page.gap();
    }
    page.entries("note  ", &report.notes);
    let keys = ["name", "key", "value", "unit", "low", "high", "how", "source", "date"];
    page.record(report, "links.figures", &keys);
    page.record(report, "figures", &keys);
    page
}

fn tier(page: &mut Page, links: &LinksView) {
    let mut about = match links.span {
        Some(span) => format!("joins {span} ranks"),
        None => "joins any number of ranks".to_owned(),
    };
    match links.nics {
        Some(1) => about += ", 1 port for each domain inside",
        Some(nics) => about += &format!(", {nics} ports for each domain inside"),
        None => about += &format!(", a rank has {}", links.ports),
    }
    if links.mesh {
        about += ", each two have a link of their own, all of a rank's are one rate";
    } else if links.wires != "switch" {
        about += &format!(", joined as a {}", links.wires);
    }
    if links.discipline != crate::machine::profile::Discipline::Serial {
        about += ", transfers at one port share its rate";
    }
    if let Some(does) = links.switch {
        about += &format!(", the switch {does}");
    }
    page.entry(format!("{}  ", links.name), about);
    for figure in &links.figures {
        one(page, figure);
    }
    fitted(page, &links.fitted);
    page.entries("  unknown  ", &links.unknown);
    if links.rates.is_empty() {
        return;
    }
    let number = |rate: Option<f64>| {
        Cell::number(rate, |r| format!("{:#}", Bandwidth(r)).trim_end_matches(" GB/s").to_owned())
    };
    let rates = Sheet::of(&links.rates)
        .words("  GB/s (1 is 8 Gb/s)", "counted", |rate| format!("  {}", rate.counted))
        .numbers("per port", "", "per port", |rate| number(rate.port))
        .numbers("per rank", "", "per rank", |rate| number(rate.rank))
        .numbers("per node", "", "per node", |rate| number(rate.node));
    page.beside(rates.sheet);
}

/// What a fit found besides the figures.
fn fitted(page: &mut Page, all: &[StatementView]) {
    for StatementView { key, text } in all {
        page.entry(format!("  {key:<20} "), format!("{text}, fitted"));
    }
}

/// A figure in one line, its source below.
fn one(page: &mut Page, figure: &FigureView) {
    let FigureView { key, text, range, how, source, date, .. } = figure;
    let range = range.as_deref().map_or(String::new(), |r| format!(" ({r})"));
    let date = date.as_deref().map_or(String::new(), |d| format!(", {d}"));
    page.entry(format!("  {key:<20} "), format!("{text}{range}, {how}{date}"));
    let source = if source.is_empty() { "no source is named" } else { source };
    page.entry(format!("{:23}", ""), source)
}

/// What was found wrong.
pub fn check(report: &ProfilesCheck, look: Look) -> Page {
    let mut page = Page::default();
    for f in &report.findings {
        let severity = match f.severity {
            Severity::Error => look.strong("error"),
            Severity::Warning => look.quiet("warning"),
        };
        page.line(format!("{severity}: {}: {}", f.kind, f.what));
        page.line(format!("  {}:{}:{}: {}", f.file, f.line, f.column, f.text));
        if let Some(help) = &f.help {
            page.line(format!("  {help}"));
        }
    }
    page.line(format!(
        "{}, {}: {}, {}",
        counted(report.profiles, "profile"),
        counted(report.figures, "parameter"),
        counted(report.errors, "error"),
        counted(report.warnings, "warning")
    ));
    let keys = ["severity", "kind", "what", "file", "line", "column", "text", "help"];
    page.record(report, "findings", &keys);
    page
}

/// What changed.
pub fn diff(report: &ProfilesDiff) -> Page {
    let mut page = Page::default();
    let (old, new) = (report.old.as_str(), report.new.as_str());
    let figures = Sheet::of(&report.figures)
        .words("parameter", "figure", |c| &c.figure)
        .numbers(old, "", old, |c| c.old.as_deref().unwrap_or("–"))
        .numbers(new, "", new, |c| c.new.as_deref().unwrap_or("–"))
        .numbers("new / old", "", "new / old", |c| Cell::number(c.ratio, |r| format!("{r:.4}")))
        .numbers("z", "", "z", |c| Cell::number(c.z, |z| format!("{z:+.1}")))
        .numbers("p", "", "p", |c| Cell::number(c.p, |p| format!("{p:.2}")))
        .words("", "moved", |c| if c.moved == "unknown" { "" } else { c.moved });
    page.table(figures.sheet);
    page.gap();
    page.entry("changed   ", changed(report));
    if let Some(p) = report.p {
        let these = match report.figures.iter().all(|c| c.unit.is_some()) {
            true => "all these differences",
            false => "the differences of parameters with an interval",
        };
        page.entry("chance    ", format!("explains {these} together with p = {p:.2}"));
    }
    page
}

/// More than these are not named: the table has them.
const FEW: usize = 4;

/// What changed for certain: parameters beyond chance, and what is stated without a value.
fn changed(report: &ProfilesDiff) -> String {
    let (count, judged) = (report.significant, counted(report.judged, "parameter"));
    let stated = |moved: &str| {
        let of = report.figures.iter().filter(|c| c.unit.is_none() && c.moved == moved);
        let of: Vec<&str> = of.map(|c| c.figure.as_str()).collect();
        match of.get(..FEW) {
            Some(few) if of.len() > FEW => {
                format!("{} and {} more", few.join(", "), of.len() - FEW)
            }
            _ => of.join(", "),
        }
    };
    let (stated, by_fits) = (stated("changed"), stated("unknown"));
    let beyond = (count > 0).then(|| format!("{count} of {judged} with an interval"));
    let certain: Vec<String> =
        beyond.into_iter().chain((!stated.is_empty()).then_some(stated)).collect();
    match report.p {
        _ if !certain.is_empty() => certain.join("; "),
        _ if report.changed => format!("no single one of {judged}, but all together"),
        _ if !by_fits.is_empty() => {
            format!("unknown: no interval says whether {by_fits} differ by chance")
        }
        None => "unknown: no parameter has an interval on both sides".to_owned(),
        Some(_) => format!("none for certain, of {judged} with an interval"),
    }
}

/// The settings and where each comes from.
pub fn config(report: &Config) -> Page {
    let mut page = Page::default();
    let settings = Sheet::of(&report.settings)
        .words("setting", "setting", |s| s.key)
        .words("value", "value", |s| &s.value)
        .words("from", "from", |s| &s.from);
    page.table(settings.sheet);
    page.gap();
    for left in &report.left_out {
        let SettingView { key, value, from, .. } = &left.setting;
        let instead = left.instead.as_deref().unwrap_or("nothing");
        page.entry("left out  ", format!("{key} = {value} ({from}): {instead} wins"));
    }
    for file in &report.files {
        let found = if file.found { "read" } else { "not there" };
        page.entry("file      ", format!("{}: {found}", file.path));
    }
    let unset = format!("{} parameters: collcost list parameters", report.unset.len());
    page.entry("not set   ", unset);
    page.entry("order     ", "flags, COLLCOST_PROFILE, collcost.toml, config.toml, built in");
    page
}
