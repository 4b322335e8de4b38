//! A job: the parts of its step and of its memory.

use super::Look;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::job::{JobSearch, JobView, Jobs, LayoutView, SearchView};
use crate::base::quantity::{Seconds, Volume};

/// Columns of jobs for programs.
const JOB: &[&str] = &[
    "name",
    "gpus",
    "step_s",
    "low_s",
    "high_s",
    "tokens_per_s_per_gpu",
    "mfu",
    "memory_bytes",
    "capacity_bytes",
    "fits",
];

/// Writes one job with its parts.
pub fn job(report: &JobView, look: Look) -> Page {
    let mut page = Page::default();
    let layout = match report.layout.as_slice() {
        [] => String::new(),
        all => format!(", {}", all.join(", ")),
    };
    page.line(format!(
        "{}: training of {:.4}B parameters on {} {} ({}){layout}",
        look.strong(&report.name),
        report.params / 1e9,
        report.gpus,
        report.device,
        report.machine
    ));
    page.gap();
    if !report.parts.is_empty() {
        page.table(parts(report));
        page.gap();
    }
    if let (Some(step), Some(low), Some(high)) = (report.step_s, report.low_s, report.high_s) {
        let band = format!("8 of 10: {} to {}", Seconds(low), Seconds(high));
        let rate = report.tokens_per_s_per_gpu.unwrap_or(0.0);
        let tflops = report.model_tflops_per_gpu.unwrap_or(0.0);
        let mfu = 100.0 * report.mfu.unwrap_or(0.0);
        page.entry(
            "step     ",
            format!(
                "{} expected ({band}): {rate:.0} tokens/s per GPU, {tflops:.0} TFLOP/s with causal \
                 attention, {mfu:.1} % MFU of {} TFLOP/s in 16 bits, {:.2} GPU-hours",
                Seconds(step),
                report.peak_bf16_tflops,
                report.gpu_hours.unwrap_or(0.0)
            ),
        );
    }
    page.entry("memory   ", memory(report));
    if let Some(slower) = report.anchor {
        page.entry(
            "anchor   ",
            format!("kernels take {slower:.3} times as long as known for {}", report.device),
        );
    }
    page.entries("inferred ", &report.inferred);
    if !report.unread.is_empty() {
        page.entry("not read ", report.unread.join(", "));
    }
    page.record(report, "", JOB);
    page
}

fn parts(report: &JobView) -> Sheet {
    let columns = vec![
        Column::words("part", "what"),
        Column::numbers("exposed", "", "exposed_s"),
        Column::numbers("hidden", "", "hidden_s"),
        Column::numbers("share", "%", "share"),
    ];
    let row = |p: &crate::answer::job::PartView| {
        vec![
            Cell::same(p.what),
            Cell::seconds(p.exposed_s),
            Cell::seconds(p.hidden_s),
            Cell::number(Some(p.share), |s| format!("{:.1}", 100.0 * s)),
        ]
    };
    Sheet { columns, rows: report.parts.iter().map(row).collect() }
}

fn memory(report: &JobView) -> String {
    let m = &report.memory;
    let gb = |bytes: f64| format!("{:.1}", bytes / 1e9);
    let parts = [
        ("parameters", m.parameters_bytes),
        ("gradients", m.gradients_bytes),
        ("optimizer", m.optimizer_bytes),
        ("activations", m.activations_bytes),
        ("logits", m.logits_bytes),
        ("buffers", m.buffers_bytes),
    ];
    let parts = parts.iter().filter(|(_, b)| *b > 0.0).map(|(w, b)| format!("{w} {}", gb(*b)));
    let verdict = match (report.fits, report.memory_bytes > report.capacity_bytes) {
        (false, _) => "does not fit",
        (true, true) => "at risk",
        (true, false) => "fits",
    };
    format!(
        "{} of {} GB ({}; 8 of 10: {} to {}): {verdict}, recompute {}; {}",
        gb(report.memory_bytes),
        gb(report.capacity_bytes),
        report.memory_kind,
        gb(report.memory_low_bytes),
        gb(report.memory_high_bytes),
        report.recompute,
        parts.collect::<Vec<_>>().join(", ")
    )
}

/// Writes several jobs, one line each.
pub fn jobs(report: &Jobs) -> Page {
    let mut page = Page::default();
    let columns = vec![
        Column::words("job", "name"),
        Column::numbers("GPUs", "", "gpus"),
        Column::numbers("step", "expected", "step_s"),
        Column::numbers("low", "", "low_s"),
        Column::numbers("high", "", "high_s"),
        Column::numbers("MFU", "%", "mfu"),
        Column::numbers("memory", "", "memory_bytes"),
        Column::words("fits", "fits"),
    ];
    let row = |job: &JobView| {
        vec![
            Cell::same(job.name.clone()),
            Cell::same(job.gpus.to_string()),
            Cell::seconds(job.step_s),
            Cell::seconds(job.low_s),
            Cell::seconds(job.high_s),
            Cell::number(job.mfu, |m| format!("{:.1}", 100.0 * m)),
            Cell::volume(Volume(job.memory_bytes).0),
            Cell::same(if job.fits { "true" } else { "false" }),
        ]
    };
    page.table(Sheet { columns, rows: report.jobs.iter().map(row).collect() });
    page.record(report, "jobs", JOB);
    page
}

/// Writes the best layouts on each number of GPUs.
pub fn search(report: &JobSearch) -> Page {
    let mut page = Page::default();
    for (i, one) in report.searches.iter().enumerate() {
        if i > 0 {
            page.gap();
        }
        page.line(format!(
            "{} on {} GPUs: {} layouts, {} fit into {:.0} GB",
            report.name,
            one.gpus,
            one.tried,
            one.fitting,
            report.memory_bytes / 1e9
        ));
        page.gap();
        page.table(layouts(one));
    }
    page.record(
        report,
        "searches.pareto",
        &[
            "gpus=^gpus",
            "layout",
            "micro_batch",
            "recompute",
            "sharding",
            "step_s",
            "gpu_hours",
            "memory_bytes",
        ],
    );
    page
}

fn layouts(search: &SearchView) -> Sheet {
    let columns = vec![
        Column::words("layout", "layout"),
        Column::numbers("micro", "batch", "micro_batch"),
        Column::words("recompute", "recompute"),
        Column::words("sharding", "sharding"),
        Column::numbers("step", "expected", "step_s"),
        Column::numbers("low", "", "low_s"),
        Column::numbers("high", "", "high_s"),
        Column::numbers("GPU-hours", "", "gpu_hours"),
        Column::numbers("memory", "GB", "memory_bytes"),
    ];
    let row = |l: &LayoutView| {
        vec![
            Cell::same(l.layout.join(", ")),
            Cell::same(l.micro_batch.to_string()),
            Cell::same(l.recompute),
            Cell::same(l.sharding.clone()),
            Cell::seconds(l.step_s),
            Cell::seconds(l.low_s),
            Cell::seconds(l.high_s),
            Cell::number(Some(l.gpu_hours), |h| format!("{h:.3}")),
            Cell::number(Some(l.memory_bytes), |b| format!("{:.1}", b / 1e9)),
        ]
    };
    Sheet { columns, rows: search.pareto.iter().take(SHOWN).map(row).collect() }
}

/// The layouts in a table: the fastest ones.
const SHOWN: usize = 12;
