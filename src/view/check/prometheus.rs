//! Budgets as gauges: `prometheus` and `openmetrics`, which have the same text here.

use std::io::{self, Write};

use crate::answer::check::{BudgetView, Check};
use crate::base::collective::Collective;
use crate::plan::check::Level;
use crate::view::gauges::{end, gauge, labels};

/// A gauge of a budget.
struct Gauge {
    name: &'static str,
    help: &'static str,
    value: fn(&BudgetView) -> Option<f64>,
}

const GAUGES: &[Gauge] = &[
    Gauge {
        name: "collcost_budget_holds",
        help: "1 if the budget holds with its whole band, 0 if it is at risk or fails",
        value: |b| Some(if b.holds { 1.0 } else { 0.0 }),
    },
    Gauge {
        name: "collcost_budget_used_ratio",
        help: "The share of the limit that is used at the better end of the band; above 1 it fails",
        value: |b| b.used,
    },
    Gauge {
        name: "collcost_budget_used_most_ratio",
        help: "The share of the limit that is used at the worse end of the band; up to 1 it holds",
        value: |b| b.used_most,
    },
    Gauge {
        name: "collcost_budget_fails",
        help: "1 if the budget fails the check, 0 if it holds, only warns or is waived",
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
    for Gauge { name, help, value } in GAUGES {
        gauge(out, (name, help), &report.budgets, named, value)?;
    }
    writeln!(
        out,
        "# HELP collcost_faults Faults in the files of budgets\n# TYPE collcost_faults gauge\n\
         collcost_faults {}",
        report.faults.len()
    )?;
    end(out)
}

fn named(budget: &BudgetView) -> String {
    let size = budget.size_bytes.map(|s| s.to_string());
    let ranks = budget.ranks.to_string();
    labels(&[
        ("budget", Some(budget.name.as_str())),
        ("coll", budget.collective.map(Collective::id)),
        ("step", budget.step.as_deref()),
        ("bytes", size.as_deref()),
        ("ranks", Some(ranks.as_str())),
        ("algo", Some(budget.by.as_str())),
        ("profile", Some(budget.machine.as_str())),
        ("limit", budget.kind),
    ])
}
