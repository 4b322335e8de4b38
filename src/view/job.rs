//! A job: the parts of its step and of its memory.

use super::page::Page;
use super::sheet::{Cell, Sheet};
use super::{Look, counted};
use crate::answer::job::{JobSearch, JobView, Jobs, SearchView};
use crate::base::quantity::Seconds;

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
    let adapters = report.adapters.as_ref().map_or(String::new(), |adapters| {
        let trained = report.trained_params / 1e6;
        format!(" by {trained:.4}M of adapters ({adapters})")
    });
    page.line(format!(
        "{}: training of {:.4}B parameters{adapters} on {} {} ({}){layout}",
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
    Sheet::of(&report.parts)
        .words("part", "what", |p| p.what)
        .numbers("exposed", "", "exposed_s", |p| Cell::seconds(p.exposed_s))
        .numbers("hidden", "", "hidden_s", |p| Cell::seconds(p.hidden_s))
        .numbers("share", "%", "share", |p| {
            Cell::number(Some(p.share), |s| format!("{:.1}", 100.0 * s))
        })
        .sheet
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
        (
            if report.memory_kind == "nvidia-smi" { "driver" } else { "allocator" },
            m.allocator_bytes,
        ),
    ];
    let parts = parts.iter().filter(|(_, b)| *b > 0.0).map(|(w, b)| format!("{w} {}", gb(*b)));
    // An allocator that keeps all that tensors leave would keep more.
    let verdict = match (report.fits, report.memory_bytes >= report.capacity_bytes) {
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
    let jobs = Sheet::of(&report.jobs)
        .words("job", "name", |job| &job.name)
        .numbers("GPUs", "", "gpus", |job| job.gpus)
        .numbers("step", "expected", "step_s", |job| Cell::seconds(job.step_s))
        .numbers("low", "", "low_s", |job| Cell::seconds(job.low_s))
        .numbers("high", "", "high_s", |job| Cell::seconds(job.high_s))
        .numbers("MFU", "%", "mfu", |job| Cell::number(job.mfu, |m| format!("{:.1}", 100.0 * m)))
        .numbers("memory", "", "memory_bytes", |job| Cell::volume(job.memory_bytes))
        .words("fits", "fits", |job| if job.fits { "true" } else { "false" });
    page.table(jobs.sheet);
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
        let batch =
            one.global_batch.map_or(String::new(), |all| format!(" of {all} sequences a step"));
        page.line(format!(
            "{} on {} GPUs: {} layouts{batch}, {} fit into {:.0} GB",
            report.name,
            one.gpus,
            one.tried,
            one.fitting,
            report.memory_bytes / 1e9
        ));
        page.gap();
        page.table(layouts(one, report.memory_kind));
        let left_out = one.refused.iter().map(|refused| {
            format!("{} left out: {}", counted(refused.layouts as u64, "layout"), refused.why)
        });
        page.entries("note   ", left_out.collect::<Vec<_>>());
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

fn layouts(search: &SearchView, kind: &'static str) -> Sheet {
    Sheet::of(search.pareto.iter().take(SHOWN))
        .words("layout", "layout", |l| l.layout.join(", "))
        .numbers("micro", "batch", "micro_batch", |l| l.micro_batch.to_string())
        .words("recompute", "recompute", |l| &l.recompute)
        .words("sharding", "sharding", |l| &l.sharding)
        .numbers("step", "expected", "step_s", |l| Cell::seconds(l.step_s))
        .numbers("low", "", "low_s", |l| Cell::seconds(l.low_s))
        .numbers("high", "", "high_s", |l| Cell::seconds(l.high_s))
        .numbers("GPU-hours", "", "gpu_hours", |l| {
            Cell::number(Some(l.gpu_hours), |h| format!("{h:.3}"))
        })
        .numbers(kind, "GB", "memory_bytes", |l| {
            Cell::number(Some(l.memory_bytes), |b| format!("{:.1}", b / 1e9))
        })
        .sheet
}

/// The layouts in a table: the fastest ones.
const SHOWN: usize = 12;
