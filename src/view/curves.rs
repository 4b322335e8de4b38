//! Fitted curves, one line each, with their parts below.
//!
//! ```text
//! collective  type  N × nodes     rows  sizes             δ     c  a size  N between  N beyond
//! allreduce   f16   2, 4, 8         63  512 B to 512 MiB  0.38  0.21  …
//! ```

use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::curves::{ComponentView, CurveView, Fitted, ProtocolView};
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
    let columns = vec![
        Column::words("protocol", "protocol"),
        Column::words("algorithms", "algorithms"),
        Column::numbers("launch", "", "launch_s"),
        Column::numbers("α", "", "alpha_s"),
        Column::numbers("BW", "", "bandwidth_Bps"),
        Column::words("sizes", "sizes"),
        Column::numbers("points", "", "points"),
        Column::numbers("error", "%", "error"),
    ];
    let row = |p: &ProtocolView| {
        vec![
            Cell::same(p.protocol),
            Cell::same(p.algorithms.join(", ")),
            Cell::seconds(p.launch_s),
            Cell::seconds(p.alpha_s),
            Cell::rate(p.bandwidth),
            Cell::same(format!("{} to {}", Bytes(p.from_bytes), Bytes(p.to_bytes))),
            Cell::same(p.points.to_string()),
            Cell::same(format!("{:.1}", 100.0 * p.error.median)),
        ]
    };
    page.gap();
    page.table(Sheet { columns, rows: report.protocols.iter().map(row).collect() });
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
    let columns = vec![
        Column::words("collective", "collective"),
        Column::words("type", "dtype"),
        Column::words("N", "placed"),
        Column::numbers("rows", "", "rows"),
        Column::words("sizes", "sizes"),
        Column::numbers("δ", "", "delta"),
        Column::numbers("c", "", "shape"),
        Column::numbers("size", "%", "held_size"),
        Column::numbers("N between", "%", "held_between"),
        Column::numbers("N beyond", "%", "held_more"),
    ];
    let rows = report.curves.iter().map(row);
    Sheet { columns, rows: rows.collect() }
}

fn row(curve: &CurveView) -> Vec<Cell> {
    let held = |kind: &str| {
        let found = curve.held_out.iter().find(|h| h.held == kind);
        Cell::same(found.map_or("–".to_owned(), |h| {
            format!("{:+.0} {:+.0}", 100.0 * (h.low - 1.0), 100.0 * (h.high - 1.0))
        }))
    };
    let mut cells = vec![
        Cell::same(curve.collective.id()),
        Cell::same(curve.dtype.map_or("any", DataType::id)),
        Cell::same(placed(&curve.placed)),
        Cell::same(curve.rows.to_string()),
        Cell::same(format!("{} to {}", Bytes(curve.from_bytes), Bytes(curve.to_bytes))),
        Cell::same(format!("{:.2}", curve.delta)),
        Cell::same(format!("{:.2}", curve.shape)),
    ];
    cells.extend(SHOWN.map(held));
    cells
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
