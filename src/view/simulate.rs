//! A simulated schedule for people.

use super::columns::micro;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use super::table::{heading, machine};
use super::{Look, counted};
use crate::answer::Promise;
use crate::answer::simulate::{HopView, PathView, ScheduleView, ShareView, Simulation};
use crate::base::collective::Collective;
use crate::base::quantity::{Seconds, Volume};
use crate::cost::simulate::Mode;
use crate::cost::simulate::listen::Wait;

/// The most messages of the path that a text shows.
const SHOWN: usize = 10;

/// The whole answer.
#[must_use]
pub fn simulation(report: &Simulation, look: Look) -> Page {
    let mut page = Page::default();
    heading(&mut page, &report.question);
    machine(&mut page, &report.machine, report.question.nodes);
    page.gap();
    page.entry("", what_runs(&report.schedule, report.question.collective));
    page.gap();
    page.table(times(report));
    if let Some(path) = &report.critical_path {
        page.gap();
        page.entry("path   ", summary(path, report.detailed_mode));
        if !path.hops.is_empty() {
            page.beside(hops(path, look.whole));
        }
    }
    page.gap();
    for tier in &report.utilisation {
        let text = format!(
            "{}: ports send {} and receive {} of the time",
            tier.tier,
            share(&tier.send),
            share(&tier.receive)
        );
        page.entry("use    ", text);
    }
    for tier in &report.traffic {
        let messages = counted(tier.messages, "message");
        let text = format!("{}: {} in {messages}", tier.tier, Volume(tier.bytes));
        page.entry("bytes  ", text);
    }
    if let (Some(links), Some(most)) = (report.links, report.busiest_links.first()) {
        let text = format!(
            "{} in use; the busiest, {} to {}, carries {} in {}",
            counted(links, "directed link"),
            most.from,
            most.to,
            Volume(most.bytes),
            counted(most.messages, "message")
        );
        page.entry("links  ", text);
    }
    page.entries("gap    ", &report.gaps);
    page.entries("note   ", &report.notes);
    page
}

fn what_runs(s: &ScheduleView, collective: Collective) -> String {
    use Collective as C;
    let segments = match s.segments {
        Some(p) if p > 1 => format!(", P = {p}"),
        _ => String::new(),
    };
    let root = match collective {
        C::Reduce | C::Gather => format!(", to root {}", s.root),
        collective if collective.has_root() => format!(", from root {}", s.root),
        _ => String::new(),
    };
    format!(
        "{}{segments}{root}: {}, {} with {} in all; the busiest rank sends {} in {} and receives \
         {}",
        s.title,
        counted(s.rounds, "round"),
        counted(s.messages, "message"),
        Volume(s.total_bytes),
        Volume(s.max_sent_bytes),
        counted(s.max_messages, "message"),
        Volume(s.max_received_bytes),
    )
}

/// Each mode, then the closed form and the bound.
#[must_use]
pub fn times(report: &Simulation) -> Sheet {
    let ratio = |r: Option<f64>| Cell::number(r, |r| format!("{r:.2}"));
    let line = |name: Cell, time: f64, form, bound| {
        vec![name, micro(Some(time)), ratio(form), ratio(bound)]
    };
    let mut rows: Vec<_> = report
        .modes
        .iter()
        .map(|m| line(Cell::same(m.mode.id()), m.makespan_s, m.form_ratio, m.bound_ratio))
        .collect();
    let over = |time: f64, of: f64| (of > 0.0).then_some(time / of);
    let bound = report.bound.time_s;
    if let Some(form) = &report.closed_form {
        let says = match form.guarantee {
            Promise::Equal => "closed form",
            Promise::EqualInRounds => "closed form, sync",
            Promise::UpperBound => "closed form, at most",
            Promise::Pipelined => "closed form, pipelined",
            Promise::Asymptotic => "closed form, in the limit",
            Promise::SumOfSteps | Promise::AsPrinted => "closed form, sum of steps",
        };
        let name = Cell::named(says, "closed_form");
        rows.push(line(name, form.time_s, None, over(form.time_s, bound)));
    }
    let form = report.closed_form.as_ref().and_then(|form| over(bound, form.time_s));
    rows.push(line(Cell::named("lower bound", "bound"), bound, form, None));
    let mut sheet = Sheet {
        columns: vec![
            Column::words("mode", "mode"),
            Column::numbers("ideal", "µs", "makespan_s"),
            Column::numbers("x form", "", "form_ratio"),
            Column::numbers("x bound", "", "bound_ratio"),
        ],
        rows,
    };
    if report.closed_form.is_none() {
        sheet.drop_column("form_ratio");
    }
    sheet
}

/// `12 messages in mode flow: 60 % latency, 40 % data; waited 11 times for data`.
fn summary(path: &PathView, mode: Mode) -> String {
    let terms = [
        ("latency", path.latency_s),
        ("data", path.bandwidth_s),
        ("additions", path.compute_s),
        ("a late start", path.idle_s),
    ];
    let total: f64 = terms.iter().map(|(_, t)| t).sum();
    let parts: Vec<String> = terms
        .iter()
        .filter(|(_, t)| *t > 0.0)
        .map(|(name, t)| format!("{} of {name} ({:.0} %)", Seconds(*t), 100.0 * t / total))
        .collect();
    let waits: Vec<String> = path
        .waits
        .iter()
        .map(|w| match w.messages {
            1 => format!("once for {}", words(w.waited_for)),
            times => format!("{times} times for {}", words(w.waited_for)),
        })
        .collect();
    let mut text = format!("{} in mode {mode}", counted(path.hops.len() as u64, "message"));
    for (before, list) in [(": ", parts), ("; waited ", waits)] {
        if !list.is_empty() {
            text.push_str(before);
            text.push_str(&list.join(", "));
        }
    }
    text
}

/// The reason why a message waits, in words.
fn words(waited_for: Wait) -> &'static str {
    match waited_for {
        Wait::SendPort => "a send port",
        Wait::ReceivePort => "a receive port",
        Wait::Link => "a link",
        Wait::Nic => "a NIC",
        Wait::Rounds => "rounds before",
        Wait::Barrier => "the barrier",
        Wait::Start => "a late rank",
        Wait::Data => "data",
        Wait::Nothing => "",
    }
}

/// The first and the last messages of the path.
fn hops(path: &PathView, whole: bool) -> Sheet {
    let tiered = path.hops.iter().any(|hop| hop.tier != path.hops[0].tier);
    let row = |hop: &HopView| {
        vec![
            Cell::same("      "),
            Cell::same(hop.round.to_string()),
            Cell::same(hop.from.to_string()),
            Cell::same(hop.to.to_string()),
            Cell::volume(hop.bytes),
            Cell::same(hop.tier.clone().unwrap_or_else(|| "switch".to_owned())),
            micro(Some(hop.start_s)),
            micro(Some(hop.end_s)),
            Cell::same(words(hop.waited_for)),
        ]
    };
    let count = path.hops.len();
    let rows = if whole || count <= SHOWN {
        path.hops.iter().map(row).collect()
    } else {
        let (first, last) = (&path.hops[..SHOWN / 2], &path.hops[count - SHOWN / 2..]);
        let mut between = vec![Cell::default(); 8];
        between.push(Cell::same(format!("… {} more: --format json", count - SHOWN)));
        first.iter().map(row).chain([between]).chain(last.iter().map(row)).collect()
    };
    let mut sheet = Sheet {
        columns: vec![
            Column::words("", "blank"),
            Column::numbers("round", "", "round"),
            Column::numbers("from", "", "from"),
            Column::numbers("to", "", "to"),
            Column::numbers("data", "", "bytes"),
            Column::words("over", "tier"),
            Column::numbers("start", "µs", "start_s"),
            Column::numbers("end", "µs", "end_s"),
            Column::words("waited for", "waited_for"),
        ],
        rows,
    };
    if !tiered {
        sheet.drop_column("tier");
    }
    sheet
}

/// `40 %`, with the range if ranks differ.
fn share(share: &ShareView) -> String {
    let percent = |s: f64| format!("{:.0}", 100.0 * s);
    let (least, most) = (percent(share.least), percent(share.most));
    if least == most {
        return format!("{most} %");
    }
    format!(
        "{} % ({least} to {most} %, highest on rank {})",
        percent(share.mean),
        share.busiest_rank
    )
}
