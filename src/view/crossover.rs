//! Crossovers of a pair, and what runs and what wins over a range.

use serde::Serialize;

use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use super::table::library;
use super::{Look, counted};
use crate::answer::{Crossover, Intervals, Over, named, with_given};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::machine::query::DEFAULT_CHOSEN;

/// One crossover.
pub fn pair(report: &Crossover) -> Page {
    let mut page = Page::default();
    let Crossover { below, above, ranks, .. } = report;
    let machine = with_given(&report.machine, &report.given);
    let machine = named(&machine, report.chosen == DEFAULT_CHOSEN);
    match (report.size_bytes, report.time_s) {
        (Some(_), Some(_)) if !report.further.is_empty() => several(report, &mut page),
        (Some(size), Some(time)) => {
            let (size, time) = (Volume(size), Seconds(time));
            let exact = size.0;
            page.line(format!("{below} wins below {size} ({exact:.1} bytes), {above} above; the ideal price of both \
                 is {time} there"));
        }
        _ => page.line(format!("none: {} is never slower", report.always.unwrap_or(below))),
    }
    if let (Some(bytes), Some(error)) = (report.shortcut_bytes, report.shortcut_error) {
        page.line(format!(
            "the shortcut α·BW·N/(⌈lg N⌉ − 1) gives {}, {:+.2} %",
            Volume(bytes),
            error * 100.0
        ));
    }
    for (id, title) in [(below, report.below_title), (above, report.above_title)] {
        if !id.replace('-', " ").eq_ignore_ascii_case(title) {
            page.line(format!("{id}: {title}"));
        }
    }
    page.line(format!("{}, machine {machine}", counted(*ranks, "rank")));
    if let Some(id) = &report.library {
        page.line(format!(
            "what {} runs, and where that changes: leave out the algorithms",
            library(Some(id))
        ));
    }
    records(report, &mut page);
    page
}

/// A crossover as a row for programs.
#[derive(Serialize)]
struct Row<'a> {
    collective: &'a str,
    ranks: u32,
    machine: &'a str,
    below: &'a str,
    above: &'a str,
    size_bytes: Option<f64>,
    time_s: Option<f64>,
    always: Option<&'a str>,
}

/// A row for each crossover; one without any for none.
fn records(report: &Crossover, page: &mut Page) {
    let Crossover { below, above, size_bytes, time_s, always, .. } = report;
    let first = (*above, *size_bytes, *time_s);
    let further = report.further.iter().map(|f| (f.above, Some(f.size_bytes), Some(f.time_s)));
    let mut below = *below;
    for (above, size_bytes, time_s) in std::iter::once(first).chain(further) {
        let (collective, ranks) = (report.collective.id(), report.ranks);
        let machine = &report.machine;
        let row =
            Row { collective, ranks, machine, below, above, size_bytes, time_s, always: *always };
        let keys =
            ["collective", "ranks", "machine", "below", "above", "size_bytes", "time_s", "always"];
        page.record(&row, "", &keys);
        below = above;
    }
}

/// More than one crossover: the winner of each range, and the sizes and times between them.
fn several(report: &Crossover, page: &mut Page) {
    let Crossover { below, above, size_bytes, time_s, further, .. } = report;
    let first = size_bytes.zip(*time_s).map(|(size, time)| (size, time, *above));
    let all = first.into_iter().chain(further.iter().map(|f| (f.size_bytes, f.time_s, f.above)));
    page.line(format!(
        "{below} wins for the smallest sizes; the better of both changes several times"
    ));
    for (size, time, above) in all {
        let (bytes, time) = (Volume(size), Seconds(time));
        page.line(format!(
            "from {bytes} ({size:.1} bytes) on {above} wins; the ideal price of both is {time} there"
        ));
    }
}

/// What runs over a range, and the lowest ideal times, for people.
pub fn intervals(report: &Intervals, look: Look) -> Page {
    if look.whole {
        return sheet(report).into();
    }
    let mut page = Page::default();
    let at = match (report.ranks, report.size_bytes) {
        (Some(n), _) => format!("{}, ", counted(n, "rank")),
        (_, Some(size)) if report.collective != Collective::Barrier => {
            format!("{}, ", Bytes(size))
        }
        _ => String::new(),
    };
    let name = report.collective.name();
    let machine = with_given(&report.machine, &report.given);
    let machine = named(&machine, report.chosen == DEFAULT_CHOSEN);
    page.line(format!("{name} over {}, {at}machine {machine}", report.over.id()));
    if report.at_ranks.windows(2).any(|pair| pair[1] > pair[0] + 1) {
        let at = listed(&report.at_ranks);
        page.line(format!("only {at} ranks are looked at; between them another may win"));
    }
    page.gap();
    if !report.runs.is_empty() {
        let library = library(report.library.as_deref());
        page.line(format!("what {library} runs"));
        page.table(running(report));
        page.gap();
    }
    if report.intervals.is_empty() {
        page.line("no ideal price: no algorithm applies");
        return page;
    }
    page.line("lowest ideal time");
    page.table(cheapest(report));
    for left in &report.left_out {
        let at = match report.over {
            Over::Size => String::new(),
            Over::Ranks => format!(" (at {} ranks)", listed(&left.ranks)),
        };
        page.entry("left out  ", format!("{}{at}", left.why));
    }
    page
}

/// `4, 6, 8`; of many numbers, the first and the last.
fn listed(numbers: &[u32]) -> String {
    const MOST: usize = 12;
    let text = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match numbers {
        [first, second, .., last] if numbers.len() > MOST => {
            format!("{first}, {second} … {last}")
        }
        _ => text(numbers),
    }
}

fn running(report: &Intervals) -> Sheet {
    let rows = report.runs.iter().map(|r| {
        let text = Cell::same(r.runs.clone());
        vec![text, end(report, Some(r.from)), end(report, r.to), Cell::seconds(r.expected_s)]
    });
    table(report, ("runs", "runs"), ("expected there", "expected_s"), rows.collect())
}

fn cheapest(report: &Intervals) -> Sheet {
    let rows = report.intervals.iter().map(|i| {
        let name = Cell::named(i.title, i.id);
        vec![name, end(report, Some(i.from)), end(report, i.to), Cell::seconds(i.time_s)]
    });
    table(report, ("algorithm", "algorithm"), ("ideal there", "time_s"), rows.collect())
}

fn table(
    report: &Intervals,
    (name, key): (&str, &str),
    (time, time_key): (&str, &str),
    rows: Vec<Vec<Cell>>,
) -> Sheet {
    let (from, to) = match report.over {
        Over::Size => ("from_bytes", "to_bytes"),
        Over::Ranks => ("from_ranks", "to_ranks"),
    };
    let columns = vec![
        Column::words(name, key),
        Column::numbers("from", "", from),
        Column::numbers("to", "", to),
        Column::numbers(time, "", time_key),
    ];
    Sheet { columns, rows }
}

fn end(report: &Intervals, at: Option<f64>) -> Cell {
    let sizes = report.over == Over::Size;
    if sizes { Cell::volume(at) } else { Cell::number(at, |v| format!("{v:.0}")) }
}

/// Both as one table: the expected times of what runs, then the ideal times.
fn sheet(report: &Intervals) -> Sheet {
    let parts = [("expected", running(report)), ("ideal", cheapest(report))];
    let rows = parts.into_iter().flat_map(|(kind, part)| {
        part.rows.into_iter().map(move |mut row| {
            row.insert(0, Cell::same(kind));
            row
        })
    });
    let mut one = table(report, ("algorithm", "algorithm"), ("time there", "time_s"), Vec::new());
    one.columns.insert(0, Column::words("kind", "kind"));
    Sheet { rows: rows.collect(), ..one }
}
