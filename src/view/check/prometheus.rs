//! Prometheus' text format: gauges in base units, for a textfile collector or a push.
//!
//! Both as `prometheus` and as `openmetrics`, whose texts are one here.
//!
//! Source: prometheus.io, "Exposition formats", section "Text-based format"; OpenMetrics ends with a mark,
//! which is a comment there.

use std::io::{self, Write};

use crate::answer::check::{BudgetView, Check};
use crate::base::collective::Collective;
use crate::plan::check::Level;

/// A gauge of a budget.
struct Gauge {
    name: &'static str,
    help: &'static str,
    value: fn(&BudgetView) -> Option<f64>,
}

const GAUGES: &[Gauge] = &[
    Gauge {
        name: "collcost_budget_holds",
        help: "1 where the budget holds with all of its band, 0 where it is at risk or fails",
        value: |b| Some(if b.holds { 1.0 } else { 0.0 }),
    },
    Gauge {
        name: "collcost_budget_used_ratio",
        help: "The part of the limit that is used at the better end of the band; above 1 it fails",
        value: |b| b.kind.map(|_| b.used),
    },
    Gauge {
        name: "collcost_budget_used_most_ratio",
        help: "The part of the limit that is used at the worse end of the band; up to 1 it holds",
        value: |b| b.kind.map(|_| b.used_most),
    },
    Gauge {
        name: "collcost_budget_fails",
        help: "1 where the budget fails the check, 0 where it holds, only warns or is waived",
        value: |b| Some(if b.counts == Level::Error { 1.0 } else { 0.0 }),
    },
    Gauge {
        name: "collcost_time_seconds",
        help: "Time of the collective or step",
        value: |b| b.time_s,
    },
    Gauge {
        name: "collcost_busbw_bytes_per_second",
        help: "Bus bandwidth as nccl-tests defines it",
        value: |b| b.busbw,
    },
    Gauge {
        name: "collcost_bound_ratio",
        help: "Time over the lower bound",
        value: |b| b.bound_ratio,
    },
];

pub(super) fn prometheus(out: &mut impl Write, report: &Check) -> io::Result<()> {
    for gauge in GAUGES {
        writeln!(out, "# HELP {} {}\n# TYPE {} gauge", gauge.name, gauge.help, gauge.name)?;
        for budget in &report.budgets {
            if let Some(value) = (gauge.value)(budget) {
                writeln!(out, "{}{{{}}} {value}", gauge.name, labels(budget))?;
            }
        }
    }
    writeln!(
        out,
        "# HELP collcost_faults Faults in the files of budgets\n# TYPE collcost_faults gauge\n\
         collcost_faults {}\n# EOF",
        report.faults.len()
    )
}

fn labels(budget: &BudgetView) -> String {
    let size = budget.size_bytes.map(|s| s.to_string());
    let ranks = budget.ranks.to_string();
    let pairs = [
        ("budget", Some(budget.name.as_str())),
        ("coll", budget.collective.map(Collective::id)),
        ("step", budget.step.as_deref()),
        ("bytes", size.as_deref()),
        ("ranks", Some(ranks.as_str())),
        ("algo", Some(budget.by.as_str())),
        ("profile", Some(budget.machine.as_str())),
        ("limit", budget.kind),
    ];
    let known = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect::<Vec<_>>()
        .join(",")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
