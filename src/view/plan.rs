//! A step for people.
//!
//! ```text
//! hsdp-70b: training on 256 ranks of dgx-h100, dp 256
//!   axis  what                collective  ranks  nodes  size  calls  time  total  exposed  share
//! step     compute 2.9 s, exposed 12 ms: 2.91 s
//! ```

use super::Look;
use super::counted;
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::plan::{ExpertsView, Plan, PlanDiff, PlanVary, StepView};
use crate::base::quantity::{Bandwidth, Seconds, Volume};
use crate::plan::Axis;

/// The fields of a collective for programs.
const CALL: &[&str] = &[
    "step=^name",
    "axis",
    "name",
    "collective",
    "ranks",
    "nodes",
    "size_bytes",
    "calls",
    "time_s",
    "total_s",
    "exposed_s",
    "share",
    "algorithm",
];

/// Writes every step.
pub fn plan(report: &Plan, look: Look) -> Page {
    let mut page = Page::default();
    for (i, step) in report.steps.iter().enumerate() {
        if i > 0 {
            page.gap();
        }
        one(&mut page, step, look);
    }
    page.record(report, "steps.calls", CALL);
    page
}

fn one(page: &mut Page, step: &StepView, look: Look) {
    let layout = match step.layout.as_slice() {
        [] => String::new(),
        all => format!(", {}", all.join(", ")),
    };
    let (name, mode, ranks) = (&step.name, step.mode.id(), counted(step.ranks, "rank"));
    page.line(format!("{name}: {mode} on {ranks}, machine {}{layout}", step.machine));
    page.gap();
    page.table_within(look.width, sheet(step), &["algorithm", "calls", "nodes", "exposed_s"]);
    page.gap();
    for call in &step.calls {
        if let Some(experts) = &call.experts {
            page.entry(format!("{:<9}", short(&call.name)), tokens(experts, call.nodes));
        }
    }
    page.entry("step     ", total(step));
    if !step.weights.is_empty() {
        let of = |w: &crate::answer::plan::WeightView| format!("{} {:+.2}", w.figure, w.elasticity);
        let all: Vec<String> = step.weights.iter().map(of).collect();
        let text = format!("percent per percent: {}", all.join(", "));
        page.entry("weighs   ", text);
    }
    page.entries("note     ", &step.notes);
}

fn short(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

fn tokens(e: &ExpertsView, nodes: u32) -> String {
    let skew = if e.skew > 1.0 {
        format!(", the busiest rank {:.2} times", e.skew)
    } else {
        String::new()
    };
    if nodes < 2 {
        return format!(
            "a token hits {:.2} ranks, {} per rank{skew}",
            e.ranks_hit,
            Volume(e.plain_bytes)
        );
    }
    format!(
        "a token hits {:.2} nodes and {:.2} ranks: {} to other nodes, {} inside if a token crosses once; \
         {} if it is sent to every expert{skew}; {} on the wire, {} as DeepEP counts",
        e.nodes_hit,
        e.ranks_hit,
        Volume(e.between_bytes),
        Volume(e.inside_bytes),
        Volume(e.plain_bytes),
        Bandwidth(e.wire),
        Bandwidth(e.logical)
    )
}

fn total(step: &StepView) -> String {
    let mut parts = Vec::new();
    if let Some(compute) = step.compute_s {
        let piped = step.calls.iter().any(|call| call.axis == Axis::Pp);
        let with = if step.end_to_end && piped { " and bubble" } else { "" };
        parts.push(format!("compute{with} {}", Seconds(compute)));
    }
    if let Some(bubble) = step.bubble_s.filter(|b| *b > 0.0) {
        parts.push(format!("pipeline bubble {}", Seconds(bubble)));
    }
    let hidden = 100.0 * (1.0 - step.exposed_s / step.messages_s.max(f64::MIN_POSITIVE));
    parts.push(match step.calls.is_empty() {
        true => "no collectives".to_owned(),
        false => format!(
            "exposed {} of {} of collectives ({hidden:.0} % hidden)",
            Seconds(step.exposed_s),
            Seconds(step.messages_s)
        ),
    });
    let share = 100.0 * step.exposed_s / step.step_s.max(f64::MIN_POSITIVE);
    let end = match step.compute_s {
        Some(_) => format!("; {share:.0} % of the step is waiting for collectives"),
        None => String::new(),
    };
    let band = match step.step_high_s > 1.005 * step.step_low_s {
        true => format!(
            " expected (8 of 10: {} to {})",
            Seconds(step.step_low_s),
            Seconds(step.step_high_s)
        ),
        false => String::new(),
    };
    format!("{}{band}: {}{end}", Seconds(step.step_s), parts.join(", "))
}

fn sheet(step: &StepView) -> Sheet {
    Sheet::of(&step.calls)
        .words("axis", "axis", |c| c.axis.id())
        .words("what", "name", |c| &c.name)
        .words("collective", "collective", |c| c.collective.id())
        .numbers("ranks", "", "ranks", |c| c.ranks)
        .numbers("nodes", "", "nodes", |c| c.nodes)
        .numbers("size", "", "size_bytes", |c| Cell::volume(c.size_bytes))
        .numbers("calls", "", "calls", |c| Cell::number(Some(c.calls), count))
        .numbers("time", "", "time_s", |c| Cell::seconds(c.time_s))
        .numbers("total", "", "total_s", |c| Cell::seconds(c.total_s))
        .numbers("exposed", "", "exposed_s", |c| Cell::seconds(c.exposed_s))
        .numbers("share", "%", "share", |c| {
            Cell::number(Some(c.share), |s| format!("{:.1}", 100.0 * s))
        })
        .words("algorithm", "algorithm", |c| &c.algorithm)
        .sheet
}

/// Whole counts unchanged; fractions as 1 over a number of steps.
fn count(calls: f64) -> String {
    if calls < 1.0 { format!("1/{:.0}", 1.0 / calls) } else { format!("{calls:.0}") }
}

/// Writes what changed.
pub fn diff(report: &PlanDiff, look: Look) -> Page {
    let mut page = Page::default();
    let time = |s: Option<f64>| s.map_or("–".to_owned(), |s| Seconds(s).to_string());
    let percent = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) if a > 0.0 => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
        (None, Some(_)) => "new".to_owned(),
        (Some(_), None) => "gone".to_owned(),
        _ => String::new(),
    };
    for step in &report.steps {
        let change = percent(step.old_s, step.new_s);
        let text = format!("{} to {} ({change})", time(step.old_s), time(step.new_s));
        page.line(format!("{}: {text}", look.strong(&step.name)));
        if step.calls.is_empty() {
            page.line("  no collective changed");
        }
        let (a, b) = (step.old_exposed_s, step.new_exposed_s);
        page.line(format!("  exposed {} to {} ({})", time(a), time(b), percent(a, b)));
        for call in &step.calls {
            let change = percent(call.old_s, call.new_s);
            page.line(format!(
                "  {}: {} to {} ({change})",
                call.name,
                time(call.old_s),
                time(call.new_s)
            ));
            for (mark, what) in [("-", &call.old), ("+", &call.new)] {
                if let Some(what) = what {
                    page.line(format!("    {mark} {what}"));
                }
            }
        }
    }
    page.record(report, "steps.calls", &["step=^name", "name", "old_s", "new_s", "old", "new"]);
    page
}

/// Writes a step over the values of one key.
pub fn vary(report: &PlanVary) -> Page {
    let mut page = Page::default();
    page.line(format!("{} over {}", report.step, report.key));
    page.gap();
    let parts = |step: &StepView| {
        let mut parts: Vec<(String, f64)> = Vec::new();
        for call in &step.calls {
            let name = format!("{} {}", call.axis.id(), call.collective.id());
            match parts.iter_mut().find(|(n, _)| *n == name) {
                Some((_, sum)) => *sum += call.total_s,
                None => parts.push((name, call.total_s)),
            }
        }
        let parts = parts.into_iter().map(|(name, s)| format!("{name} {}", Seconds(s)));
        parts.collect::<Vec<_>>().join(", ")
    };
    let values = Sheet::of(&report.values)
        .numbers(&report.key, "", "value", |v| &v.value)
        .numbers("collectives", "", "messages_s", |v| Cell::seconds(v.step.messages_s))
        .numbers("exposed", "", "exposed_s", |v| Cell::seconds(v.step.exposed_s))
        .numbers("step", "", "step_s", |v| Cell::seconds(v.step.step_s))
        .words("by axis and collective", "parts", |v| parts(&v.step));
    page.table(values.sheet);
    page.gap();
    let also = match report.as_good.as_slice() {
        [] => String::new(),
        all => format!("; at most 1 % longer with {}", all.join(", ")),
    };
    let open = match report.open.as_slice() {
        [] => String::new(),
        all => format!("; not certain: the bands of {} meet its band", all.join(", ")),
    };
    page.entry("best     ", format!("{} = {}{also}{open}", report.key, report.best));
    let ranks = || report.values.iter().map(|v| v.step.ranks);
    if let (Some(least), Some(most)) = (ranks().min(), ranks().max())
        && least < most
    {
        let text =
            format!("the values use {least} to {most} ranks: their steps are not of equal cost");
        page.entry("note     ", text);
    }
    let mut notes: Vec<&String> = report.values.iter().flat_map(|v| &v.step.notes).collect();
    notes.sort();
    notes.dedup();
    page.entries("note     ", notes);
    page
}
