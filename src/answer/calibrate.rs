//! A calibration: the machine, the plan, the measurements, and the result.

use serde::Serialize;

use super::fit::{Fit, GateView, gate};
use crate::machine::sample::Samples;
use crate::measure::fit::Gate;
use crate::run::calibrate::{Host, Plan};
use crate::run::launch::Setup;

/// A calibration, as far as it went.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// `collcost/calibrate/1`.
    pub schema: &'static str,
    /// The machine.
    pub machine: MachineView,
    /// All machines of the run, if a launcher started its ranks; `machine` is rank 0's.
    pub hosts: Option<String>,
    /// Conditions for and against measuring on it now.
    pub gates: Vec<GateView>,
    /// What is measured; absent if only the machine was requested.
    pub plan: Option<PlanView>,
    /// What was measured; absent if nothing was.
    pub measured: Option<MeasuredView>,
    /// The fit; absent if nothing was measured.
    pub fit: Option<Fit>,
}

/// A machine as its kernel describes it; values that the kernel does not report are absent.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineView {
    /// Host, processor, CPUs, kernel.
    pub description: String,
    /// The CPUs that may be used.
    pub cpus: Vec<usize>,
    /// How many of them at once.
    pub cpus_at_once: usize,
    /// Hardware threads of one core.
    pub threads_per_core: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// The total memory.
    pub memory_bytes: u64,
    /// Whether it runs under a hypervisor.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
    /// How CPUs choose their clock frequency.
    pub governor: Option<String>,
    /// The clock source.
    pub clock_source: Option<String>,
    /// The time between two different readings of the clock.
    pub clock_step_s: f64,
    /// The share of the last ten seconds in which some process waited for a CPU.
    pub cpu_pressure: Option<f64>,
    /// Processes that wanted a CPU in the last minute, divided by the number of CPUs.
    pub load_per_cpu: Option<f64>,
    /// TCP's congestion control by default.
    pub congestion: Option<String>,
    /// Whether TCP restarts slowly after a pause.
    pub slow_start_after_idle: Option<bool>,
    /// When memory is backed by huge pages.
    pub huge_pages: Option<String>,
}

/// What is measured.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanView {
    /// `shm` or `tcp`.
    pub transport: &'static str,
    /// N.
    pub ranks: u32,
    /// `spin` or `poll`.
    pub wait: Option<&'static str>,
    /// The operations.
    pub operations: Vec<String>,
    /// The sizes.
    pub sizes_bytes: Vec<u64>,
    /// Operations × sizes; those that would take too long are left out after a probe.
    pub points: usize,
    /// How often processes are started anew.
    pub launches: u32,
    /// The seed of the order.
    pub seed: u64,
    /// A point is finished when half the 95 % interval of its median, over the median, is this.
    pub precision: f64,
    /// The time within which the points are measured.
    pub budget_s: f64,
    /// Weak points are then measured further until this time, when all measuring ends.
    pub longest_s: f64,
}

/// What was measured.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredView {
    /// The file of samples.
    pub samples: String,
    /// Blocks in it.
    pub blocks: usize,
    /// Timed runs in it.
    pub runs: usize,
    /// How long measuring took.
    pub time_s: f64,
}

/// The machine with the conditions for and against it.
#[must_use]
pub fn machine(host: &Host, gates: &[Gate]) -> Calibration {
    Calibration {
        schema: "collcost/calibrate/1",
        machine: MachineView {
            description: host.describe(),
            cpus: host.cpus.clone(),
            cpus_at_once: host.at_once,
            threads_per_core: host.threads_per_core,
            numa_nodes: host.numa_nodes,
            memory_bytes: host.memory.0,
            is_virtual: host.is_virtual,
            governor: host.governor.clone(),
            clock_source: host.clock_source.clone(),
            clock_step_s: host.clock_step.0,
            cpu_pressure: host.pressure.map(|p| p.0),
            load_per_cpu: host.load.map(|l| l.0),
            congestion: host.congestion.clone(),
            slow_start_after_idle: host.slow_start_after_idle,
            huge_pages: host.huge_pages.clone(),
        },
        hosts: None,
        gates: gates.iter().map(gate).collect(),
        plan: None,
        measured: None,
        fit: None,
    }
}

/// What `plan` measures on ranks that start as `setup` describes.
#[must_use]
pub fn plan(plan: &Plan, setup: &Setup) -> PlanView {
    PlanView {
        transport: setup.transport.id(),
        ranks: plan.ranks,
        wait: setup.wait.map(|wait| wait.id()),
        operations: plan.ops.iter().map(ToString::to_string).collect(),
        sizes_bytes: plan.sizes.iter().map(|size| size.0).collect(),
        points: plan.ops.len() * plan.sizes.len(),
        launches: plan.launches,
        seed: plan.seed,
        precision: plan.precision.0,
        budget_s: plan.budget.as_secs_f64(),
        longest_s: plan.longest.as_secs_f64(),
    }
}

/// The contents of the files of samples, by name.
#[must_use]
pub fn measured<'a>(
    samples: impl Iterator<Item = (String, &'a Samples)>,
    time: std::time::Duration,
) -> MeasuredView {
    let (mut files, mut blocks, mut runs) = (Vec::new(), 0, 0);
    for (file, samples) in samples {
        files.push(file);
        blocks += samples.blocks.len();
        runs += samples.count();
    }
    MeasuredView { samples: files.join(", "), blocks, runs, time_s: time.as_secs_f64() }
}
