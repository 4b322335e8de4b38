//! Fitted curves, one line each, with their parts below.
//!
//! ```text
//! collective  type  N × nodes     rows  sizes             δ     c  a size  N between  N beyond
//! allreduce   f16   2, 4, 8         63  512 B to 512 MiB  0.38  0.21  …
//! ```

use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::curves::{ComponentView, CurveView, Fitted};
use crate::answer::fit::ErrorView;
use crate::base::quantity::{Bandwidth, Bytes, Seconds};
use crate::machine::curve::Placed;
use crate::machine::sample::DataType;

/// Writes the report.
pub fn curves(report: &Fitted) -> Page {
    let mut page = Page::default();
    page.table(sheet(report));
    let keys =
        ["collective", "dtype", "rows", "from_bytes", "to_bytes", "delta", "shape", "source"];
    page.record(report, "curves", &keys);
    for curve in &report.curves {
        let name = curve
            .dtype
            .map_or(curve.collective.id().to_owned(), |d| format!("{} {d}", curve.collective.id()));
        let parts: Vec<String> = curve.components.iter().map(part).collect();
        page.entry("part     ", format!("{name}: {}", parts.join("; ")));
    }
    protocols(&mut page, report);
    for left in &report.left_out {
        page.entry("left out ", format!("{}: {}", left.what, left.why));
    }
    page.entries("note     ", &report.notes);
    page.entry("note     ", BAND);
    let misses = |kind| report.curves.iter().any(|c| c.held_out.iter().all(|h| h.held != kind));
    if SHOWN.into_iter().any(misses) {
        page.entry("note     ", UNSTATED);
    }
    if let Some(file) = &report.written {
        page.entry("written  ", file);
    }
    page
}

/// The cost of NCCL's protocols, what was held out of their fit, and NCCL's switch points.
fn protocols(page: &mut Page, report: &Fitted) {
    if report.protocols.is_empty() {
        return;
    }
    let protocols = Sheet::of(&report.protocols)
        .words("protocol", "protocol", |p| p.protocol)
        .words("algorithms", "algorithms", |p| p.algorithms.join(", "))
        .numbers("launch", "", "launch_s", |p| Cell::seconds(p.launch_s))
        .numbers("α", "", "alpha_s", |p| Cell::seconds(p.alpha_s))
        .numbers("BW", "", "bandwidth_Bps", |p| Cell::rate(p.bandwidth))
        .words("sizes", "sizes", |p| format!("{} to {}", Bytes(p.from_bytes), Bytes(p.to_bytes)))
        .numbers("points", "", "points", |p| p.points)
        .numbers("error", "%", "error", |p| format!("{:.1}", 100.0 * p.error.median));
    page.gap();
    page.table(protocols.sheet);
    let percent = |e: &ErrorView| {
        format!("{:.1} % in the median, {:.1} % in nine of ten", 100.0 * e.median, 100.0 * e.p90)
    };
    for held in &report.held_out_algorithms {
        let name = format!("{} {}", held.collective.id(), held.chosen);
        page.entry("held out ", format!("{name}: {}", percent(&held.error)));
    }
    if let Some(error) = &report.stated_error {
        let said = format!("held-out algorithms: {}", percent(error));
        page.entry("stated   ", said);
    }
    if let Some(error) = &report.envelope_error {
        let said =
            format!("the cheapest protocol compared with NCCL's own choice: {}", percent(error));
        page.entry("envelope ", said);
    }
    for of in report.switches.chunk_by(|a, b| (a.collective, a.ranks) == (b.collective, b.ranks)) {
        let steps: Vec<String> =
            of.iter().map(|s| format!("{} from {}", s.chosen, Bytes(s.from_bytes))).collect();
        let said = format!("{} over {}: {}", of[0].collective.id(), of[0].ranks, steps.join(", "));
        page.entry("switches ", said);
    }
}

/// The kinds of errors in the table.
const SHOWN: [&str; 3] = ["size", "between", "more"];

const UNSTATED: &str = "–: too few sizes or ranks, or too distant sizes, to hold one out; bands of expectations \
                        are then those of published measurements";

const BAND: &str = "last three columns: p10 and p90 of measured over expected for a held-out size, a \
                    held-out number of ranks between others, and one beyond all others";

fn sheet(report: &Fitted) -> Sheet {
    let held = |curve: &CurveView, kind: &str| {
        let found = curve.held_out.iter().find(|h| h.held == kind);
        found.map_or("–".to_owned(), |h| {
            format!("{:+.0} {:+.0}", 100.0 * (h.low - 1.0), 100.0 * (h.high - 1.0))
        })
    };
    Sheet::of(&report.curves)
        .words("collective", "collective", |c| c.collective.id())
        .words("type", "dtype", |c| c.dtype.map_or("any", DataType::id))
        .words("N", "placed", |c| placed(&c.placed))
        .numbers("rows", "", "rows", |c| c.rows)
        .words("sizes", "sizes", |c| format!("{} to {}", Bytes(c.from_bytes), Bytes(c.to_bytes)))
        .numbers("δ", "", "delta", |c| format!("{:.2}", c.delta))
        .numbers("c", "", "shape", |c| format!("{:.2}", c.shape))
        .numbers("size", "%", "held_size", |c| held(c, SHOWN[0]))
        .numbers("N between", "%", "held_between", |c| held(c, SHOWN[1]))
        .numbers("N beyond", "%", "held_more", |c| held(c, SHOWN[2]))
        .sheet
}

/// `2, 4, 8`, `16 on 2, 32 on 4`.
fn placed(all: &[Placed]) -> String {
    let one = |p: &Placed| match p.nodes {
        1 => p.ranks.to_string(),
        nodes => format!("{} on {nodes}", p.ranks),
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn part(c: &ComponentView) -> String {
    let step = |alpha: f64| format!("{} per step", Seconds(alpha));
    let mut words = vec![format!("{} launch {}", c.steps.id(), Seconds(c.launch_s))];
    if c.steps != crate::machine::curve::Steps::Const {
        words.push(step(c.alpha_s));
        words.extend(c.alpha_between_s.map(|a| format!("{} between nodes", step(a))));
    }
    words.extend(c.bandwidth.map(|b| Bandwidth(b).to_string()));
    words.extend(c.bandwidth_between.map(|b| format!("{} over nodes", Bandwidth(b))));
    words.join(", ")
}
