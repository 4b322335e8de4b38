//! A calibration for people.

use std::io::{self, Write};

use super::{Look, fit};
use crate::answer::calibrate::{Calibration, MachineView, PlanView};
use crate::base::quantity::{Bytes, Seconds};
use crate::measure::fit::Verdict;

/// The machine, the plan, and the fit, as far as there are any.
///
/// # Errors
/// The writer's.
pub fn calibration(out: &mut impl Write, report: &Calibration, look: Look) -> io::Result<()> {
    let whole = report.measured.is_none();
    machine(out, &report.machine, whole, look)?;
    if let Some(hosts) = &report.hosts {
        look.line(out, "ranks      ", hosts)?;
    }
    for gate in report.gates.iter().filter(|gate| whole || gate.verdict != Verdict::Good) {
        let word = match gate.verdict {
            Verdict::Good => "fine",
            Verdict::Marked => "marked",
            Verdict::Refused => "refused",
        };
        look.line(out, &format!("{word:11}"), &format!("{}: {}", gate.name, gate.said))?;
        if let Some(mend) = gate.mend {
            look.line(out, "           ", mend)?;
        }
    }
    if let Some(report) = &report.plan {
        plan(out, report, whole, look)?;
    }
    if let Some(measured) = &report.measured {
        let time = Seconds(measured.time_s);
        let text = format!("{} runs in {} blocks, {time}", measured.runs, measured.blocks);
        look.line(out, "measured   ", &text)?;
        look.line(out, "samples    ", &measured.samples)?;
    }
    match &report.fit {
        Some(report) => fit::fit(out, report, look),
        None => Ok(()),
    }
}

fn machine(out: &mut impl Write, m: &MachineView, whole: bool, look: Look) -> io::Result<()> {
    look.line(out, "machine    ", &m.description)?;
    if !whole {
        return Ok(());
    }
    let cpus: Vec<String> = m.cpus.iter().map(ToString::to_string).collect();
    let text = format!(
        "{} usable at once, of {}; {} to a core, {} NUMA node{}",
        m.cpus_at_once,
        cpus.join(" "),
        m.threads_per_core,
        m.numa_nodes,
        if m.numa_nodes == 1 { "" } else { "s" }
    );
    look.line(out, "CPUs       ", &text)?;
    let pages = m.huge_pages.as_deref().unwrap_or("unknown");
    look.line(out, "memory     ", &format!("{}; huge pages: {pages}", Bytes(m.memory_bytes)))?;
    let source = m.clock_source.as_deref().unwrap_or("unknown");
    look.line(out, "clock      ", &format!("{source}, steps of {}", Seconds(m.clock_step_s)))?;
    if let Some(governor) = &m.governor {
        look.line(out, "governor   ", governor)?;
    }
    if let Some(congestion) = &m.congestion {
        let slow = match m.slow_start_after_idle {
            Some(true) => "; starts slowly after a pause",
            _ => "",
        };
        look.line(out, "TCP        ", &format!("{congestion}{slow}"))?;
    }
    Ok(())
}

fn plan(out: &mut impl Write, plan: &PlanView, whole: bool, look: Look) -> io::Result<()> {
    let wait = plan.wait.map_or(String::new(), |wait| format!(", {wait} waiting"));
    let text = format!("{} over {} ranks{wait}", plan.transport, plan.ranks);
    look.line(out, "plan       ", &text)?;
    if !whole {
        return Ok(());
    }
    look.line(out, "operations ", &plan.operations.join(" "))?;
    let sizes: Vec<String> = plan.sizes_bytes.iter().map(|&b| Bytes(b).to_string()).collect();
    look.line(out, "sizes      ", &sizes.join(", "))?;
    let text = format!(
        "{} points in {} launches, order by seed {}; a probe leaves out what would take too long",
        plan.points, plan.launches, plan.seed
    );
    look.line(out, "blocks     ", &text)?;
    let text = format!(
        "until each median is known to {:.1} %, {} at most",
        100.0 * plan.precision,
        Seconds(plan.budget_s)
    );
    look.line(out, "time       ", &text)
}
