//! The threshold for another gate, derived for each budget's size instead of one for all.

use super::{Budget, Limit, Subject};
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Volume};
use crate::measure::expect::Expecting;
use crate::model::algorithm::Registry;

/// A program that fails a run below one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// The name on the command line.
    pub id: &'static str,
    /// Where the number goes, with `{}` for it.
    pub setting: &'static str,
    /// Whether it compares busbw; otherwise algbw.
    pub busbw: bool,
    /// The part of the number below which it fails.
    pub slack: Ratio,
    /// What to know about it.
    pub note: &'static str,
    /// The source.
    pub source: &'static str,
}

/// Every gate, one line each.
pub static GATES: &[Gate] = &[
    Gate {
        id: "nccl-tests",
        setting: "NCCL_TESTS_MIN_BW={}",
        busbw: true,
        slack: Ratio(0.9),
        note: "it compares the mean over all sizes: run -b and -e at the one size; it fails below 0.9 of the number",
        source: "NVIDIA/nccl-tests, src/common.cu",
    },
    Gate {
        id: "sichek",
        setting: "--expect-bw {}",
        busbw: true,
        slack: Ratio(1.0),
        note: "give the message size too: its default of 8 bytes is latency (scitix/sichek issue 52)",
        source: "scitix/sichek issue 52",
    },
    Gate {
        id: "nvsentinel",
        setting: "BW_THRESHOLD_GBPS={}",
        busbw: true,
        slack: Ratio(1.0),
        note: "MESSAGE_SIZES must name the size",
        source: "NVIDIA/NVSentinel issue 837",
    },
    Gate {
        id: "dcgm",
        setting: "--min-alg-bandwidth {}",
        busbw: false,
        slack: Ratio(1.0),
        note: "it compares algbw, averaged over sizes (NVIDIA/DCGM issue 111): run one size",
        source: "NVIDIA/DCGM issue 111",
    },
    Gate {
        id: "ai-cloud-validation",
        setting: "min_bus_bw_gbps: {}",
        busbw: true,
        slack: Ratio(1.0),
        note: "one number for all sizes: run one size",
        source: "NVIDIA/ai-cloud-validation issue 90",
    },
    Gate {
        id: "cluster-toolkit",
        setting: "{} GB/s of busbw",
        busbw: true,
        slack: Ratio(1.0),
        note: "its integration test has one number for all machines",
        source: "GoogleCloudPlatform/cluster-toolkit issue 4933",
    },
];

impl Gate {
    /// The gate called `name`.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn named(name: &str) -> Result<&'static Self> {
        GATES.iter().find(|gate| gate.id == name).ok_or_else(|| {
            let known = GATES.iter().map(|gate| gate.id);
            Error::input(format!("`{name}` is not a gate")).help(advice(name, known))
        })
    }
}

/// The threshold of a gate for one budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The budget.
    pub budget: String,
    /// M.
    pub size: Bytes,
    /// The rate; absent if a size is latency alone, so that a rate is meaningless.
    pub rate: Option<Bandwidth>,
    /// Its basis.
    pub basis: &'static str,
}

/// The threshold of `gate` for each budget of a collective with a size: the rate at the slow end of
/// the expectation, in the gate's own terms. A gate asks whether a machine is healthy, so the budget's
/// limit, which may be lenient or out of reach, plays no part.
///
/// # Errors
/// A parameter that the expectation needs is unknown.
pub fn thresholds(gate: &Gate, budgets: &[Budget]) -> Result<Vec<Threshold>> {
    let registry = Registry::builtin();
    let mut all = Vec::new();
    for budget in budgets {
        let Subject::Call(call) = &budget.subject else { continue };
        let Some(size) = call.size.filter(|size| size.0 > 0) else { continue };
        if matches!(budget.limit, Some(Limit::Measured(_))) && call.layout.ranks.is_none() {
            continue;
        }
        let query = call.machine.query(call.collective, size, call.layout)?;
        let expecting = Expecting::of(&registry, &query, call.algorithm.as_deref())?;
        let (expected, price) = (expecting.at(size), expecting.ideal(size).price);
        // If data is a tenth of the time, a link at half its rate is hardly visible.
        let latency = price.bandwidth.0 < 0.1 * price.total().0;
        let factor =
            if gate.busbw { call.collective.busbw_factor(query.shape.ranks) } else { Ratio(1.0) };
        let rate = Volume::from(size) / expected.high * factor * Ratio(1.0 / gate.slack.0);
        all.push(Threshold {
            budget: budget.name.clone(),
            size,
            rate: (!latency).then_some(rate),
            basis: expected.basis.words(),
        });
    }
    Ok(all)
}
