//! What a library would pick, for people: one call explained, or sizes as a table.

use super::Look;
use super::columns::micro;
use super::counted;
use super::page::Page;
use super::screen::{expected, label};
use super::sheet::{Cell, Column, Sheet};
use crate::answer::select::{ChoiceView, PartView, Select, Span};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::library::Where;

/// The reports, one per number of ranks, with the rule of every choice if `explain` is set.
#[must_use]
pub fn select(reports: &[Select], explain: bool, look: Look) -> Page {
    let mut page = Page::default();
    if look.whole {
        let single = |report: &Select| report.size_bytes.is_some() && report.intervals.len() == 1;
        if !reports.iter().all(single) {
            page.table(sheets(reports));
            return page;
        }
        // The row of a size is for programs: people get what a terminal shows.
        page.programs(sheets(reports));
    }
    for (i, report) in reports.iter().enumerate() {
        if i > 0 {
            page.gap();
        }
        of_ranks(&mut page, report, explain, look);
    }
    page
}

/// Columns of the sizes that a narrow terminal leaves out, in this order.
const SPARE: &[&str] =
    &["estimate_s", "regret_at_bytes", "ratio_at_bytes", "best best_time_s", "rival rival_us"];

fn of_ranks(page: &mut Page, report: &Select, explain: bool, look: Look) {
    page.line(heading(report));
    page.gap();
    if let (Some(_), [only]) = (report.size_bytes, &report.intervals[..]) {
        return one(page, report, only, explain);
    }
    page.table_within(look.width, sheet(report), SPARE);
    let found: Vec<String> = summary(report);
    let unpriced = unpriced(report);
    let better = better_ways(report);
    let shared = shared(report);
    let is_noted = !unpriced.is_empty() || !shared.is_empty();
    if !found.is_empty() || is_noted || !better.is_empty() || explain {
        page.gap();
    }
    page.entries(&label("better?"), better);
    page.entries(&label("note"), unpriced);
    if !explain {
        page.entries(&label("note"), shared);
    }
    page.entries(&label("ratio"), found);
    if explain {
        for span in &report.intervals {
            let from = exact(span.from_bytes);
            page.entry(label("rule"), format!("from {from}: {}", span.choice.rule));
            turns(page, &span.choice);
            page.entries(&label("force"), &span.choice.force);
            page.entries(&label("note"), &span.choice.notes);
        }
        page.entry(label("sizes"), format!("{} counts {}", report.policy.id, report.policy.counts));
        page.entry(label("source"), &report.policy.source);
    }
}

/// The notes of each policy that all its choices have.
fn shared(report: &Select) -> Vec<&String> {
    let own = in_all(report.intervals.iter().map(|span| &span.choice));
    let versus = in_all(report.intervals.iter().filter_map(|span| span.versus.as_ref()));
    let mut notes: Vec<&String> = own.into_iter().chain(versus).collect();
    notes.dedup();
    notes
}

fn in_all<'a>(mut views: impl Iterator<Item = &'a ChoiceView>) -> Vec<&'a String> {
    let mut notes: Vec<&String> =
        views.next().map_or_else(Vec::new, |first| first.notes.iter().collect());
    views.for_each(|view| notes.retain(|note| view.notes.contains(note)));
    notes
}

fn heading(report: &Select) -> String {
    let asked = report.size_bytes.filter(|_| report.collective != Collective::Barrier);
    let size = asked.map_or(String::new(), |s| format!(" of {}", exact(s)));
    let versus = report.versus.as_ref().map_or(String::new(), |v| format!(" and {}", v.id));
    let mut call = vec![format!("elements of {} B", report.element_bytes)];
    let facts = [
        (!report.commutative, "does not commute"),
        (!report.builtin_op, "own operation"),
        (report.in_place, "in place"),
    ];
    call.extend(facts.iter().filter(|(holds, _)| *holds).map(|(_, word)| (*word).to_owned()));
    let ranks = counted(report.ranks, "rank");
    let ranks = match report.nodes {
        1 => format!("{ranks} on one node"),
        nodes => format!("{ranks} on {nodes} nodes"),
    };
    format!(
        "{}{size} by {}{versus}: {ranks}, {}, machine {}",
        report.operation,
        report.policy.id,
        call.join(", "),
        report.machine
    )
}

/// One call: what runs, why, its cost, the alternatives.
fn one(page: &mut Page, report: &Select, span: &Span, explain: bool) {
    choice(page, &report.policy.id, &span.choice, explain);
    if let (Some(versus), Some(other)) = (&report.versus, &span.versus) {
        page.gap();
        choice(page, &versus.id, other, explain);
        if let Some(ratio) = span.ratio {
            let words = format!(
                "{} takes {} times as long as {}, by {}",
                report.policy.id,
                times(ratio),
                versus.id,
                compared(span)
            );
            let both = span.choice.expect.as_ref().zip(other.expect.as_ref());
            let by_expected = both.filter(|_| compared(span) != EXPECTED).map(|(own, other)| {
                format!("; by {EXPECTED} {}", times(own.time_s / other.time_s))
            });
            page.entry(label("ratio"), words + &by_expected.unwrap_or_default());
        }
    }
    if explain {
        let counts = format!("{} counts {}", report.policy.id, report.policy.counts);
        page.entry(label("sizes"), counts);
    }
    page.entry(label("source"), &report.policy.source);
    if !span.ways.is_empty() {
        page.gap();
        page.table(ways(span));
    }
    if !span.rivals.is_empty() {
        page.gap();
        page.table(rivals(span));
    }
    let sheet = alternatives(report);
    if !sheet.rows.is_empty() {
        page.gap();
        page.table(sheet);
    }
    // The library's fastest algorithm, with the settings that select it.
    let shipped = report.alternatives.iter().find(|a| a.known_as.is_some() && a.force.is_some());
    if let Some(best) = shipped
        && !best.chosen
        && best.over_choice.is_none_or(|over| over < 1.0)
        && best.estimate_s.zip(span.choice.estimate_s).is_none_or(|(its, own)| its < own)
        && let (Some(name), Some(force)) = (&best.known_as, &best.force)
    {
        page.gap();
        let text = format!(
            "{name} has the lowest ideal time of what it has, but may not be faster: {force}"
        );
        page.entry(label("to try"), text);
    }
}

/// What two choices are compared by: engines' kernels have no ideal price.
fn compared(span: &Span) -> &'static str {
    let views = [Some(&span.choice), span.versus.as_ref()];
    match views.into_iter().flatten().any(|view| view.kernel.is_some()) {
        true => EXPECTED,
        false => "ideal times",
    }
}

const EXPECTED: &str = "expected times";

fn choice(page: &mut Page, policy: &str, view: &ChoiceView, explain: bool) {
    if let Some(expect) = &view.expect {
        page.entry(label("expected"), expected(expect));
    }
    page.entry(label("runs"), format!("{} ({policy})", named(view)));
    page.entry(label("rule"), &view.rule);
    if view.backend.is_none() || explain {
        turns(page, view);
    }
    if !view.runs.is_empty() {
        let parts: Vec<String> = view.runs.iter().map(part).collect();
        page.entry(label("schedule"), parts.join(", then "));
    }
    if let (Some(_), Some(_), Some(regret)) = (view.backend, &view.expect, view.regret) {
        let words = match regret < 1.005 {
            true => "no other engine is expected to be faster".to_owned(),
            false => {
                format!("{} times the expected time of the fastest other engine", times(regret))
            }
        };
        page.entry(label("better?"), words);
    }
    match (view.time_s, view.regret, &view.unpriced) {
        _ if view.backend.is_some() => {}
        (Some(time), Some(regret), _) => {
            let time = Seconds(time);
            let words = if regret < 1.005 {
                format!("{time}: no algorithm here has a lower ideal time")
            } else {
                format!("{time}, {} times the lowest ideal time here", times(regret))
            };
            page.entry(label("ideal"), words);
        }
        (Some(time), None, _) => page.entry(label("ideal"), Seconds(time).to_string()),
        (None, _, Some(why)) => page.entry(label("ideal"), format!("not known: {why}")),
        (None, _, None) => {}
    }
    if let Some(estimate) = view.estimate_s {
        page.entry(label("estimate"), format!("{}, its own estimate", Seconds(estimate)));
    }
    let own = |force: &&String| view.backend.is_none_or(|b| force.starts_with(b)) || explain;
    page.entries(&label("force"), view.force.iter().filter(own));
    page.entries(&label("note"), &view.notes);
}

/// What the same engine could run, with the settings for it.
fn ways(span: &Span) -> Sheet {
    Sheet::of(&span.ways)
        .words("it could run", "kernel", |way| format!("{}/{}", way.backend, way.kernel))
        .numbers("expected", "µs", "us", |way| micro(way.us.map(|us| us * 1e-6)))
        .numbers("× choice", "", "over_choice", |way| {
            Cell::number(way.regret.map(f64::recip), times)
        })
        .words("certain", "certain", |way| if way.certain { "yes" } else { "no" })
        .words("by", "force", |way| &way.force)
        .sheet
}

/// Where the same engine could run something that is expected to be at least 5 % faster.
fn better_ways(report: &Select) -> Vec<String> {
    let faster = |span: &Span| {
        let way = span.ways.first()?;
        let regret = way.regret.filter(|r| *r >= 1.05)?;
        let sure = if way.certain { "" } else { ", but not certainly" };
        let (from, name) = (exact(span.from_bytes), format!("{}/{}", way.backend, way.kernel));
        Some(format!(
            "from {from}: the choice takes {} times {name}{sure}: {}",
            times(regret),
            way.force
        ))
    };
    report.intervals.iter().filter_map(faster).collect()
}

/// What other engines run for the call.
fn rivals(span: &Span) -> Sheet {
    let own = span.choice.expect.as_ref().map(|e| e.time_s * 1e6);
    Sheet::of(&span.rivals)
        .words("other engines", "engine", |rival| &rival.engine)
        .words("run", "kernel", |rival| format!("{}/{}", rival.backend, rival.kernel))
        .numbers("expected", "µs", "us", |rival| micro(rival.us.map(|us| us * 1e-6)))
        .numbers("× choice", "", "over_choice", |rival| {
            Cell::number(rival.us.zip(own).map(|(us, own)| us / own), times)
        })
        .sheet
}

fn turns(page: &mut Page, view: &ChoiceView) {
    for turn in &view.fell_back {
        page.entry(label("instead"), format!("of {}: {}", turn.from, turn.why));
    }
}

fn part(part: &PartView) -> String {
    let place = match (part.place, part.of_ranks) {
        (Where::InNode, None) => format!(" in nodes of {}", part.ranks),
        (Where::Leaders, None) => format!(" between {} leaders", part.ranks),
        (Where::Leaders, Some(of)) => format!(" between {} of {of} leaders", part.ranks),
        (_, Some(of)) => format!(" over {} of {of} ranks", part.ranks),
        (_, None) => String::new(),
    };
    let segment = part.segment_bytes.map_or(String::new(), |s| format!(" by {}", exact(s)));
    let protocol = if part.packets { "/LL" } else { "" };
    format!("{} {}{protocol}{segment}{place}", part.collective.id(), part.algorithm)
}

fn named(view: &ChoiceView) -> String {
    let mut name = view.id.map_or(view.name.clone(), |id| format!("{id} {}", view.name));
    // If a numbered algorithm calls other collectives, each of them chooses anew.
    let is_fold = view.runs.iter().any(|part| part.of_ranks.is_some());
    if view.id.is_some() && view.runs.len() > 1 && !is_fold {
        let parts: Vec<&str> = view.runs.iter().map(|part| part.algorithm).collect();
        name.push_str(&format!(": {}", parts.join(" + ")));
    }
    if let Some(first) = view.fell_back.first().filter(|_| view.backend.is_none()) {
        name.push_str(&format!(", not {}", first.from));
    }
    name
}

/// The tables of several numbers of ranks as one, with a column for the ranks.
fn sheets(reports: &[Select]) -> Sheet {
    if let [only] = reports {
        return sheet(only);
    }
    let mut all = Sheet::default();
    for report in reports {
        let one = sheet(report);
        let ranks = Cell::same(report.ranks.to_string());
        let row = |row: Vec<Cell>| std::iter::once(ranks.clone()).chain(row).collect();
        all.rows.extend(one.rows.into_iter().map(row));
        all.columns = one.columns;
    }
    all.columns.insert(0, Column::numbers("ranks", "", "ranks"));
    all
}

/// An engine's choices over sizes: their expected times, and the fastest other engine.
fn engine_sheet(report: &Select) -> Sheet {
    let mut columns = vec![
        Column::numbers("from", "", "from_bytes"),
        Column::numbers("below", "", "to_bytes"),
        Column::words(&report.policy.id, "choice"),
        Column::numbers("expected there", "µs", "us"),
    ];
    match &report.versus {
        Some(versus) => columns.extend([
            Column::words(&versus.id, "versus"),
            Column::numbers("expected there", "µs", "versus_us"),
        ]),
        None => columns.extend([
            Column::words("fastest other", "rival"),
            Column::numbers("expected there", "µs", "rival_us"),
            Column::numbers("× lowest", "", "regret"),
        ]),
    }
    let last = report.intervals.len().saturating_sub(1);
    let time = |view: &ChoiceView| micro(view.expect.as_ref().map(|e| e.time_s));
    let row = |(i, span): (usize, &Span)| {
        let below = |to: f64| if i == last { String::new() } else { exact(to as u64 + 1) };
        let mut row = vec![
            Cell::number(Some(span.from_bytes as f64), |v| exact(v as u64)),
            Cell::number(Some(span.to_bytes as f64), below),
            Cell::same(&span.choice.name),
            time(&span.choice),
        ];
        match (&span.versus, span.rivals.first()) {
            (Some(other), _) => row.extend([Cell::same(&other.name), time(other)]),
            (None, Some(rival)) => row.extend([
                Cell::same(format!("{} {}/{}", rival.engine, rival.backend, rival.kernel)),
                micro(rival.us.map(|us| us * 1e-6)),
                Cell::number(span.choice.regret, times),
            ]),
            (None, None) => row.extend([Cell::same(""), micro(None), Cell::number(None, times)]),
        }
        row
    };
    Sheet { columns, rows: report.intervals.iter().enumerate().map(row).collect() }
}

/// The sizes as a table, for people and programs.
fn sheet(report: &Select) -> Sheet {
    if report.intervals.iter().any(|span| span.choice.backend.is_some()) {
        return engine_sheet(report);
    }
    let mut columns = vec![
        Column::numbers("from", "", "from_bytes"),
        Column::numbers("below", "", "to_bytes"),
        Column::words(&report.policy.id, "choice"),
        Column::numbers("ideal there", "µs", "time_s"),
    ];
    let estimates = report.intervals.iter().any(|s| s.choice.estimate_s.is_some());
    if estimates {
        columns.push(Column::numbers("estimate", "µs", "estimate_s"));
    }
    match &report.versus {
        Some(versus) => columns.extend([
            Column::words(&versus.id, "versus"),
            Column::numbers("ideal there", "µs", "versus_time_s"),
            Column::numbers("ratio", "at worst", "ratio"),
            Column::numbers("at", "", "ratio_at_bytes"),
        ]),
        None => columns.extend([
            Column::words("lowest ideal", "best"),
            Column::numbers("ideal", "µs", "best_time_s"),
            Column::numbers("× lowest", "at worst", "regret"),
            Column::numbers("at", "", "regret_at_bytes"),
        ]),
    }
    let last = report.intervals.len().saturating_sub(1);
    let row = |(i, span): (usize, &Span)| {
        let size = |value: Option<u64>| Cell::number(value.map(|v| v as f64), |v| exact(v as u64));
        let below = |to: f64| {
            if i == last { String::new() } else { exact(to as u64 + 1) }
        };
        let ratio = |value: Option<f64>| Cell::number(value, times);
        let chosen = |view: &ChoiceView| Cell::named(&named(view), &view.name);
        let mut row = vec![
            size(Some(span.from_bytes)),
            Cell::number(Some(span.to_bytes as f64), below),
            chosen(&span.choice),
            micro(span.choice.time_s),
        ];
        if estimates {
            row.push(micro(span.choice.estimate_s));
        }
        match (&report.versus, &span.versus) {
            (Some(_), Some(other)) => row.extend([
                chosen(other),
                micro(other.time_s),
                ratio(span.ratio),
                size(span.ratio_at_bytes),
            ]),
            _ => row.extend([
                Cell::named(span.best_title.unwrap_or(""), span.best_id.unwrap_or("")),
                micro(span.best_time_s),
                ratio(span.choice.regret),
                size(span.choice.regret_at_bytes),
            ]),
        }
        row
    };
    Sheet { columns, rows: report.intervals.iter().enumerate().map(row).collect() }
}

/// An exact size: in a unit only if that loses no bytes.
fn exact(bytes: u64) -> String {
    let short = Bytes(bytes).to_string();
    let back = short.parse::<Bytes>().ok();
    if back == Some(Bytes(bytes)) { short } else { format!("{bytes} B") }
}

/// A ratio with three significant digits.
fn times(value: f64) -> String {
    match value {
        v if v < 0.0995 => format!("{v:.4}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Why choices have no time, each once.
fn unpriced(report: &Select) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for span in &report.intervals {
        let views = [Some(&span.choice), span.versus.as_ref()].into_iter().flatten();
        for view in views.filter(|view| view.backend.is_none()) {
            let said = |why| format!("the ideal time of {} is not known: {why}", view.name);
            let line = view.unpriced.as_ref().map(said);
            lines.extend(line.filter(|line| !lines.contains(line)));
        }
    }
    lines
}

/// Where two policies differ most, in words.
fn summary(report: &Select) -> Vec<String> {
    let Some(versus) = &report.versus else { return Vec::new() };
    let ids = (&report.policy.id, &versus.id);
    let differing = report.intervals.iter().filter(|s| s.differ == Some(true)).count();
    if differing == 0 {
        return vec![format!("{} and {} run the same at every size", ids.0, ids.1)];
    }
    let mut lines = vec![format!(
        "they make different choices in {differing} of {} ranges",
        report.intervals.len()
    )];
    let worst = |slower: bool| {
        let spans = report.intervals.iter();
        let ratios = spans.filter_map(|s| Some((s.ratio?, s.ratio_at_bytes?, compared(s))));
        let sided =
            ratios.filter(move |(r, ..)| (*r > 1.005) == slower && (*r - 1.0).abs() > 0.005);
        sided.max_by(|a, b| a.0.ln().abs().total_cmp(&b.0.ln().abs()))
    };
    let inverse = |(ratio, at, by): (f64, u64, &'static str)| (1.0 / ratio, at, by);
    for (slower, faster, found) in
        [(ids.0, ids.1, worst(true)), (ids.1, ids.0, worst(false).map(inverse))]
    {
        if let Some((ratio, at, by)) = found {
            lines.push(format!(
                "by {by} {slower} loses most to {faster} at {}: {} times its time",
                exact(at),
                times(ratio)
            ));
        }
    }
    lines
}

/// The library's algorithms at this size, and the fastest of all.
fn alternatives(report: &Select) -> Sheet {
    let shipped = report.alternatives.iter().enumerate();
    let shown = shipped.filter(|(i, a)| *i == 0 || a.known_as.is_some() || a.chosen);
    Sheet::of(shown.map(|(_, a)| a))
        .words("", "chosen", |a| if a.chosen { "*" } else { "" })
        .words("algorithm", "algorithm", |a| Cell::named(a.title, a.id))
        .words("the library's name", "known_as", |a| a.known_as.as_deref().unwrap_or(""))
        .numbers("ideal", "µs", "time_s", |a| micro(Some(a.time_s)))
        .numbers("× choice", "", "over_choice", |a| Cell::number(a.over_choice, times))
        .words("not for this call", "refused", |a| a.refused.as_deref().unwrap_or(""))
        .sheet
}
