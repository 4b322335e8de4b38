//! A job from its configuration: the step's time and its parts, the peak memory, whether it fits.

use serde::Serialize;

use super::serve::ServeView;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::model::algorithm::Registry;
use crate::plan;
use crate::plan::job::{
    Draft, Estimate, Job, MEMORY_BAND, Memory, Part, SIMILAR, Searched, Sent, Stated, Wires,
    anchored, drafts, estimate, memory,
};
use crate::plan::table::{Files, Machines};

/// A job, priced.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobView {
    /// `collcost/job/1`.
    pub schema: &'static str,
    /// Its name, or its file if it has none.
    pub name: String,
    /// The GPU.
    pub device: String,
    /// The machine whose links are priced.
    pub machine: String,
    /// The total number of GPUs.
    pub gpus: u64,
    /// Parameters of the model.
    pub params: f64,
    /// Parameters used per token, including embeddings.
    pub active_params: f64,
    /// Parameters that are trained: those of adapters, if the job has such.
    pub trained_params: f64,
    /// The adapters, such as `rank 16`; absent if all parameters are trained.
    pub adapters: Option<String>,
    /// The keys of its layout that are not 1 or false, such as `tp 8`; `etp` and `chunks` where they may be more.
    pub layout: Vec<String>,
    /// Micro-batches per step.
    pub microbatches: f64,
    /// One step, end to end; absent if only memory was requested.
    pub step_s: Option<f64>,
    /// A tenth of real steps are shorter.
    pub low_s: Option<f64>,
    /// A tenth of real steps are longer.
    pub high_s: Option<f64>,
    /// The factor by which kernels are slower than the table of GPUs says, if a measured step fixed
    /// it.
    pub anchor: Option<f64>,
    /// The parts of the step.
    pub parts: Vec<PartView>,
    /// The collectives of a rank of the slowest stage, of which those parts consist.
    pub calls: Vec<SentView>,
    /// Tokens per second and GPU.
    pub tokens_per_s_per_gpu: Option<f64>,
    /// TFLOP/s per GPU: causal attention, without recomputation.
    pub model_tflops_per_gpu: Option<f64>,
    /// The same divided by `peak_bf16_tflops`, whatever the precision.
    pub mfu: Option<f64>,
    /// TFLOP/s of the GPU's dense 16-bit peak.
    pub peak_bf16_tflops: f64,
    /// GPU-hours per step.
    pub gpu_hours: Option<f64>,
    /// The peak of the fullest rank, counted as `memory_kind`.
    pub memory_bytes: f64,
    /// A tenth of real peaks are lower.
    pub memory_low_bytes: f64,
    /// A tenth of real peaks are higher.
    pub memory_high_bytes: f64,
    /// `max_allocated`, `max_reserved` or `nvidia-smi`: what the framework reports.
    pub memory_kind: &'static str,
    /// The parts of the peak.
    pub memory: MemoryView,
    /// The GPU's memory.
    pub capacity_bytes: f64,
    /// False only if even `memory_low_bytes` are above `capacity_bytes`.
    pub fits: bool,
    /// The recomputation; if it is not given, the least that surely fits, or all of it.
    pub recompute: String,
    /// Assumptions for what was not given.
    pub inferred: Vec<String>,
    /// Keys that were ignored.
    pub unread: Vec<String>,
}

/// A part of a step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartView {
    /// Such as `compute`, `pipeline bubble`, `tp`.
    pub what: &'static str,
    /// The time that the step waits for it.
    pub exposed_s: f64,
    /// The time that overlaps with computation.
    pub hidden_s: f64,
    /// The share of the exposed part in the step.
    pub share: f64,
}

/// A collective of a step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentView {
    /// The part that it belongs to, such as `tp`.
    pub part: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// Ranks of its group.
    pub ranks: u32,
    /// M.
    pub size_bytes: f64,
    /// Calls per step.
    pub calls: f64,
    /// The expected time of one call.
    pub time_s: f64,
    /// The time of all calls of a step.
    pub total_s: f64,
    /// The time of it that the step waits: each call has the share of its part.
    pub exposed_s: f64,
}

/// The bytes of the fullest rank.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryView {
    /// Parameters, including gathered ones.
    pub parameters_bytes: f64,
    /// Gradients.
    pub gradients_bytes: f64,
    /// The optimizer's state, including master weights.
    pub optimizer_bytes: f64,
    /// Activations of all micro-batches in flight.
    pub activations_bytes: f64,
    /// Logits of the loss.
    pub logits_bytes: f64,
    /// Buffers and workspaces.
    pub buffers_bytes: f64,
    /// What `memory_kind` counts beside tensors: what the allocator keeps of freed ones, or what the driver adds.
    pub allocator_bytes: f64,
}

/// Several jobs of a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jobs {
    /// `collcost/jobs/1`.
    pub schema: &'static str,
    /// The jobs, in the order of the file.
    pub jobs: Vec<JobView>,
}

/// The jobs, and the values that override their files.
#[derive(Debug, Clone, Default)]
pub struct Asked<'a> {
    /// Configurations, each overriding those after it: a launch over a model's `config.json`.
    pub files: &'a [String],
    /// Keys whose values override all of them.
    pub set: &'a [(String, String)],
    /// A file with a measured step of a similar job.
    pub anchor: Option<&'a str>,
}

/// The best layouts of a job.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobSearch {
    /// `collcost/job-search/1`.
    pub schema: &'static str,
    /// The job.
    pub name: String,
    /// The part of a GPU's memory that a layout may fill, as the allocator reserves it or, of Megatron's jobs of
    /// before 2023, as the driver counts it.
    pub memory_bytes: f64,
    /// What the memory of a layout counts, as in its plan: `max_allocated`, `max_reserved` or `nvidia-smi`.
    pub memory_kind: &'static str,
    /// The results for each number of GPUs, in the order given.
    pub searches: Vec<SearchView>,
}

/// The best layouts on one number of GPUs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchView {
    /// GPUs.
    pub gpus: u32,
    /// Sequences per step. A file that states them per replica has more of them on more GPUs.
    pub global_batch: Option<u32>,
    /// The number of layouts tried.
    pub tried: usize,
    /// The number of those that fit.
    pub fitting: usize,
    /// Why others were not tried; absent if none was left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedView>,
    /// The fastest first; each further one needs less memory than those before it.
    pub pareto: Vec<LayoutView>,
}

/// Layouts that contradict the job or themselves.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedView {
    /// The reason.
    pub why: String,
    /// How many layouts it left out.
    pub layouts: usize,
}

/// One layout.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayoutView {
    /// The keys of its layout, such as `tp 8`: with `--set`, those of the next three and `gpus`, the job is this row.
    pub layout: Vec<String>,
    /// Sequences per micro-batch.
    pub micro_batch: u32,
    /// The recomputation.
    pub recompute: String,
    /// What replicas share.
    pub sharding: String,
    /// The expected time of one step.
    pub step_s: f64,
    /// A tenth of real steps are shorter.
    pub low_s: f64,
    /// A tenth of real steps are longer.
    pub high_s: f64,
    /// GPU-hours per step.
    pub gpu_hours: f64,
    /// The peak, counted as `memory_kind`.
    pub memory_bytes: f64,
}

/// Searches the layouts of a job on each of `gpus`, within `memory` bytes per GPU, or within all of
/// its memory. Layout keys in `asked.set` are held fixed; those in the files are not.
///
/// # Errors
/// As [`jobs`]; no layout that fits.
pub fn search(
    registry: &Registry,
    files: &dyn Files,
    asked: &Asked<'_>,
    gpus: &[u32],
    room: Option<Bytes>,
) -> Result<JobSearch> {
    let machines = Machines::new(files);
    let typed = typed(files, asked.set)?;
    let pins = typed.pins()?;
    let row = drafts(files, asked.files)?.into_iter().next();
    let file = row.ok_or_else(|| Error::input("the file contains no job"))?.draft;
    let mut report = JobSearch {
        schema: "collcost/job-search/1",
        name: file.name.clone(),
        memory_bytes: 0.0,
        memory_kind: Stated::Allocated.id(),
        searches: Vec::new(),
    };
    for &gpus in gpus {
        let mut draft = typed.clone().without_layout().over(&file.clone().without_layout());
        draft.put("gpus", gpus.to_string())?;
        if let Some(all) = typed.clone().over(&file).whole_batch(gpus)? {
            draft.put("global_batch", all.to_string())?;
        }
        let slower = match anchor(files, asked)?.or_else(|| file.anchor.clone()) {
            Some(anchor) => Some(slower(registry, &machines, &file, &anchor)?),
            None => None,
        };
        let job = draft.job(&machines, false).map_err(|e| e.at(draft.name.clone()))?;
        let capacity = room.map_or(job.device.capacity(), |room| room.0 as f64);
        let wires = Wires::new(registry, &job.machine);
        let found = plan::job::search(&job, &wires, (gpus, capacity), &pins, slower)?;
        (report.memory_bytes, report.memory_kind) = (capacity, job.stated.id());
        report.searches.push(searched(&job, gpus, &found, &file));
    }
    Ok(report)
}

fn searched(job: &Job, gpus: u32, found: &Searched, file: &Draft) -> SearchView {
    // Another layout has other replicas, whose batches would make another step.
    let batch = job.global.map(|all| all.to_string());
    let batch = batch.filter(|all| file.get("global_batch") != Some(all));
    let batch: Vec<_> = batch.into_iter().map(|all| format!("global_batch {all}")).collect();
    let one = |found: &plan::job::Found| LayoutView {
        layout: [layout(&found.job, file), batch.clone()].concat(),
        micro_batch: found.job.micro,
        recompute: found.job.recompute.to_string(),
        sharding: found.job.sharding_words(file),
        step_s: found.priced.step,
        low_s: found.priced.low,
        high_s: found.priced.high,
        gpu_hours: found.priced.step * f64::from(gpus) / 3600.0,
        memory_bytes: found.memory.reported(&found.job),
    };
    let pareto = found.pareto.iter().map(one).collect();
    let refused =
        found.refused.iter().map(|(why, &layouts)| RefusedView { why: why.clone(), layouts });
    let refused = refused.collect();
    SearchView {
        gpus,
        global_batch: job.global,
        tried: found.tried,
        fitting: found.fitting,
        refused,
        pareto,
    }
}

fn typed(files: &dyn Files, set: &[(String, String)]) -> Result<Draft> {
    let mut typed = Draft::default();
    for (key, value) in set {
        typed.put(key, value.clone()).map_err(|e| e.at(format!("--set {key}={value}")))?;
    }
    plan::job::beside(files, "", typed)
}

fn anchor(files: &dyn Files, asked: &Asked<'_>) -> Result<Option<Box<Draft>>> {
    let Some(file) = asked.anchor else { return Ok(None) };
    let found = drafts(files, &[file.to_owned()])?.into_iter().next();
    Ok(found.map(|row| Box::new(row.draft)))
}

/// The words of a layout over what is said.
fn layout(job: &Job, said: &Draft) -> Vec<String> {
    job.words(said).into_iter().map(|(key, value)| format!("{key} {value}")).collect()
}

/// Whether a file configures a job and is not a file of steps, which have tables of their own.
#[must_use]
pub fn is_job(name: &str, text: &str) -> bool {
    plan::job::is_job(name, text)
}

/// The model that the files serve; `None` if they train.
///
/// # Errors
/// As [`jobs`].
pub fn served(
    registry: &Registry,
    files: &dyn Files,
    asked: &Asked<'_>,
) -> Result<Option<ServeView>> {
    let Some(row) = drafts(files, asked.files)?.into_iter().next() else { return Ok(None) };
    let draft = typed(files, asked.set)?.over(&row.draft);
    if !draft.serves() {
        return Ok(None);
    }
    let machines = Machines::new(files);
    let serve = draft.serve(&machines).map_err(|e| e.at(draft.name.clone()))?;
    let served = serve.priced(&Wires::new(registry, &serve.machine))?;
    Ok(Some(super::serve::view(&serve, &served)))
}

/// Prices the jobs of files.
///
/// # Errors
/// A file that cannot be read; a job that lacks a value, by name.
pub fn jobs(registry: &Registry, files: &dyn Files, asked: &Asked<'_>) -> Result<Jobs> {
    let machines = Machines::new(files);
    let typed = typed(files, asked.set)?;
    let anchor = anchor(files, asked)?;
    let one = |row: crate::plan::job::Row| {
        let mut draft = typed.clone().over(&row.draft);
        draft.anchor = anchor.clone().or(draft.anchor);
        view(registry, &machines, &draft, row.memory_only)
    };
    let jobs: Result<Vec<JobView>> = drafts(files, asked.files)?.into_iter().map(one).collect();
    Ok(Jobs { schema: "collcost/jobs/1", jobs: jobs? })
}

fn view(
    registry: &Registry,
    machines: &Machines<'_>,
    draft: &Draft,
    memory_only: bool,
) -> Result<JobView> {
    let job = draft.job(machines, memory_only).map_err(|e| e.at(draft.name.clone()))?;
    let slower = match &draft.anchor {
        Some(anchor) => Some(slower(registry, machines, draft, anchor)?),
        None => None,
    };
    let wires = Wires::new(registry, &job.machine);
    let priced = match job.global {
        Some(_) => Some(estimate(&job, &wires, slower)?),
        None => None,
    };
    let unread = draft.unread();
    Ok(JobView { unread, ..shown(&job, priced.as_ref(), memory(&job), slower) })
}

/// The factor by which kernels are slower, from a measured step of the same or a similar job.
fn slower(
    registry: &Registry,
    machines: &Machines<'_>,
    draft: &Draft,
    anchor: &Draft,
) -> Result<f64> {
    // Keys that it does not set are as in the job.
    let own = |whole: Draft| whole.job(machines, false).map_err(|e| e.at("anchor"));
    let like = own(anchor.clone()).or_else(|_| own(anchor.clone().over(draft)))?;
    let measured = anchor.measured()?.ok_or_else(|| {
        Error::input("the anchor has no measured step").help("write step_s = 12.5 in it")
    })?;
    let slower = anchored(&like, &Wires::new(registry, &like.machine), measured)?;
    // A step of the same job determines the factor; with a similar job, a large deviation is not
    // due to the kernels.
    let own = draft.job(machines, false)?;
    Ok(if own.runs_as(&like) { slower } else { slower.clamp(1.0 / SIMILAR, SIMILAR) })
}

fn shown(job: &Job, priced: Option<&Estimate>, memory: Memory, anchor: Option<f64>) -> JobView {
    let d = job.degrees;
    let step = priced.map(|p| p.step);
    let tokens = f64::from(job.global.unwrap_or(0)) * f64::from(job.sequence) / d.gpus() as f64;
    let rate = step.map(|s| tokens / s);
    let tflops = rate.map(|r| r * job.step_flops() / 1e12);
    let stated = memory.reported(job);
    let parts = priced.map_or(&[][..], |p| &p.parts).iter().map(|part| PartView {
        what: part.what,
        exposed_s: part.seconds,
        hidden_s: part.hidden,
        share: part.seconds / step.unwrap_or(1.0).max(f64::MIN_POSITIVE),
    });
    let calls = priced.iter().flat_map(|p| p.sent.iter().map(|sent| sent_view(sent, &p.parts)));
    JobView {
        schema: "collcost/job/1",
        name: job.name.clone(),
        device: job.device.name.clone(),
        machine: job.machine.said.profile.clone().unwrap_or_default(),
        gpus: d.gpus(),
        params: job.model.params(),
        active_params: job.model.active(),
        trained_params: job.trained_params(),
        adapters: job.adapters.map(|adapters| adapters.to_string()),
        layout: layout(job, &Draft::default()),
        microbatches: job.microbatches(),
        step_s: step,
        low_s: priced.map(|p| p.low),
        high_s: priced.map(|p| p.high),
        anchor,
        parts: parts.filter(|p| p.exposed_s + p.hidden_s > 0.0).collect(),
        calls: calls.collect(),
        tokens_per_s_per_gpu: rate,
        model_tflops_per_gpu: tflops,
        mfu: tflops.map(|t| t / job.device.peak_bf16_tflops),
        peak_bf16_tflops: job.device.peak_bf16_tflops,
        gpu_hours: step.map(|s| s * d.gpus() as f64 / 3600.0),
        memory_bytes: stated,
        memory_low_bytes: stated * (1.0 - MEMORY_BAND),
        memory_high_bytes: stated * (1.0 + MEMORY_BAND),
        memory_kind: job.stated.id(),
        memory: MemoryView {
            parameters_bytes: memory.parameters,
            gradients_bytes: memory.gradients,
            optimizer_bytes: memory.optimizer,
            activations_bytes: memory.activations,
            logits_bytes: memory.logits,
            buffers_bytes: memory.buffers,
            allocator_bytes: stated - memory.allocated(),
        },
        capacity_bytes: job.device.capacity(),
        fits: memory.fits(job),
        recompute: memory.recompute.to_string(),
        inferred: job.inferred.clone(),
        unread: Vec::new(),
    }
}

fn sent_view(sent: &Sent, parts: &[Part]) -> SentView {
    let of = parts.iter().find(|part| part.what == sent.part);
    let exposed = of.map_or(1.0, |p| p.seconds / (p.seconds + p.hidden).max(f64::MIN_POSITIVE));
    let total = sent.each * sent.calls;
    SentView {
        part: sent.part,
        collective: sent.collective,
        ranks: sent.ranks,
        size_bytes: sent.bytes,
        calls: sent.calls,
        time_s: sent.each,
        total_s: total,
        exposed_s: total * exposed,
    }
}
