//! A calibration for people.

use super::counted;
use super::fit;
use super::page::Page;
use crate::answer::calibrate::{Calibration, MachineView, PlanView};
use crate::base::quantity::{Bytes, Seconds};
use crate::measure::fit::Verdict;

/// The machine, the plan and the fit, as far as they exist.
pub fn calibration(report: &Calibration) -> Page {
    let mut page = Page::default();
    let whole = report.measured.is_none();
    machine(&mut page, &report.machine, whole);
    if let Some(hosts) = &report.hosts {
        page.entry("ranks      ", hosts);
    }
    for gate in report.gates.iter().filter(|gate| whole || gate.verdict != Verdict::Good) {
        let word = match gate.verdict {
            Verdict::Good => "fine",
            Verdict::Marked => "marked",
            Verdict::Refused => "refused",
        };
        page.entry(format!("{word:11}"), format!("{}: {}", gate.name, gate.said));
        if let Some(help) = gate.help {
            page.entry("           ", help);
        }
    }
    if let Some(report) = &report.plan {
        plan(&mut page, report, whole);
    }
    if let Some(measured) = &report.measured {
        let time = Seconds(measured.time_s);
        let text = format!("{} runs in {} blocks, {time}", measured.runs, measured.blocks);
        page.entry("measured   ", text);
        page.entry("samples    ", &measured.samples);
    }
    match &report.fit {
        Some(report) => fit::below(&mut page, report),
        None => page.record(report, "gates", &["name", "verdict", "said", "help"]),
    }
    page
}

fn machine(page: &mut Page, m: &MachineView, whole: bool) {
    page.entry("machine    ", &m.description);
    if !whole {
        return;
    }
    let cpus: Vec<String> = m.cpus.iter().map(ToString::to_string).collect();
    let text = format!(
        "{} usable at once, of {}; {} to a core, {}",
        m.cpus_at_once,
        cpus.join(" "),
        m.threads_per_core,
        counted(m.numa_nodes, "NUMA node")
    );
    page.entry("CPUs       ", text);
    let pages = m.huge_pages.as_deref().unwrap_or("unknown");
    page.entry("memory     ", format!("{}; huge pages: {pages}", Bytes(m.memory_bytes)));
    let source = m.clock_source.as_deref().unwrap_or("unknown");
    page.entry("clock      ", format!("{source}, steps of {}", Seconds(m.clock_step_s)));
    if let Some(governor) = &m.governor {
        page.entry("governor   ", governor);
    }
    if let Some(congestion) = &m.congestion {
        let slow = match m.slow_start_after_idle {
            Some(true) => "; slow start after idle",
            _ => "",
        };
        page.entry("TCP        ", format!("{congestion}{slow}"));
    }
}

fn plan(page: &mut Page, plan: &PlanView, whole: bool) {
    let wait = plan.wait.map_or(String::new(), |wait| format!(", {wait} waiting"));
    let text = format!("{} over {} ranks{wait}", plan.transport, plan.ranks);
    page.entry("plan       ", text);
    if !whole {
        return;
    }
    page.entry("operations ", plan.operations.join(" "));
    let sizes: Vec<String> = plan.sizes_bytes.iter().map(|&b| Bytes(b).to_string()).collect();
    page.entry("sizes      ", sizes.join(", "));
    let text = format!(
        "{} points in {} launches, in the order of seed {}; a probe drops points that take too long",
        plan.points, plan.launches, plan.seed
    );
    page.entry("blocks     ", text);
    let more = match plan.longest_s > plan.budget_s {
        true => format!("; up to {} if α, β or quiet runs are missing", Seconds(plan.longest_s)),
        false => String::new(),
    };
    let text = format!(
        "until each median is known to {:.1} %, {} at most{more}",
        100.0 * plan.precision,
        Seconds(plan.budget_s)
    );
    page.entry("time       ", text)
}
