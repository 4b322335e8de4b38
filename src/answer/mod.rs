//! Reports for people and programs: one serialisable struct per question, rendered elsewhere.
//!
//! Every report names its schema, `collcost/<report>/1`; keys carry their unit; changes only add
//! keys.

pub mod accuracy;
pub mod accuracy_answer;
pub mod arrival;
pub mod batch;
pub mod bucket;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod calibrate;
pub mod check;
pub mod check_diff;
pub mod compare;
mod config;
pub mod convert;
mod cost;
mod crossover;
pub mod curves;
pub mod devices;
mod end;
pub mod explain;
pub mod explorer;
pub mod fit;
pub mod fleet;
pub mod import;
pub mod job;
pub mod list;
mod map;
pub mod nccl;
pub mod nccl_diff;
pub mod nccl_graphs;
pub mod nccl_log;
pub mod nccl_tables;
pub mod nccl_whatif;
pub mod notes;
pub mod optimum;
pub mod plan;
mod priced_curves;
mod profiles;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod race;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod run;
pub mod select;
pub mod serve;
pub mod simulate;
mod sweep;
pub mod timeline;
pub mod trace;
pub mod traffic;
pub mod tune;
pub mod verify;
pub mod what_if;

pub use crate::measure::expect::Expect;
pub use config::{Config, FileView, LeftOut, SettingView, config};
pub use cost::{
    Cost, Faster, Fastest, LARGEST, MachineView, Promise, QuestionView, Row, SMALLEST, SwitchPoint,
    TierUse, TierView, cost,
};
pub use crossover::{
    Crossover, Inapplicable, Interval, Intervals, Over, Running, crossover, over_ranks, over_sizes,
};
pub use end::End;
pub use map::{Map, MapRow, map};
pub use priced_curves::{PricedCurve, PricedCurves, curves_over_ranks, curves_over_sizes};
pub use profiles::{
    ChangeView, Entry, FigureView, FindingView, LinksView, ProfileView, Profiles, ProfilesCheck,
    ProfilesDiff, RateView, StatementView, profile, profiles, profiles_check, profiles_diff,
};
pub use sweep::{Bands, Pick, Point, Sweep, Weight, bands, ranks, sizes, vary};

/// What to know of times if γ is unknown.
pub(crate) fn without_gamma(fabric: &Fabric, collective: Collective) -> Option<String> {
    let lacks = fabric.gamma.is_none() && collective.reduces();
    lacks.then(|| "γ is unknown: the time to add is not included".to_owned())
}

/// The parameters of a tier that nobody has measured or stated.
pub(crate) fn assumed(tier: &str, origin: &Origin) -> impl Iterator<Item = String> {
    let both = [(origin.alpha, "α"), (origin.bandwidth, "bandwidth")];
    let assumed = both.into_iter().filter(|(how, _)| *how == Some(How::Assumed));
    assumed.map(move |(_, figure)| format!("{figure} of {tier} is assumed"))
}

use crate::base::collective::Collective;
use crate::machine::fabric::Fabric;
use crate::machine::profile::How;
use crate::machine::query::Origin;

/// A machine with what was given in place of its own parameters: `dgx-h100 with inter.bw 24 GB/s`.
pub(crate) fn with_given(machine: &str, given: &[String]) -> String {
    match given {
        [] => machine.to_owned(),
        given => format!("{machine} with {}", given.join(", ")),
    }
}

/// A machine's name in a sentence: the default one is marked, since nobody named it.
pub(crate) fn named(machine: &str, is_default: bool) -> String {
    if is_default { format!("{machine} (default)") } else { machine.to_owned() }
}

/// Six significant digits: a fitted parameter has no more, and the last ones of a double differ
/// between machines.
fn six(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}
