//! Measured runs next to what is expected of a machine, with a verdict.

use serde::Serialize;

use super::six;
use crate::base::collective::Collective;
use crate::base::order::falling;
use crate::base::quantity::{Bandwidth, Bytes, Volume};
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::Basis;
use crate::measure::logs::Traced;
use crate::measure::verdict::{Health, Ruling, Side, Two, Verdict};

/// Runs that were compared with a machine.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compare {
    /// `collcost/compare/1`.
    pub schema: &'static str,
    /// The machine.
    pub machine: String,
    /// How it was chosen: `default`, `--on` or `flags`.
    pub chosen: &'static str,
    /// Parameters given in place of the machine's: `inter.bw 24 GB/s`.
    pub given: Vec<String>,
    /// One for each collective, number of ranks, type of elements and library.
    pub runs: Vec<RunView>,
    /// Whether every run is healthy.
    pub healthy: bool,
    /// Ill if one run is; else unclear if one is.
    pub verdict: Ruling,
    /// For a job's calls: where the most seconds were lost, at most ten entries.
    pub lost: Vec<LostView>,
    /// What was not compared, with the reason.
    pub left_out: Vec<String>,
}

/// One run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunView {
    /// The file it was read from; absent for a single number from the command line.
    pub file: Option<String>,
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// The type of the elements.
    pub dtype: Option<DataType>,
    /// The library, with the kernel or algorithm where the log names it.
    pub library: Option<String>,
    /// The verdict: `healthy`, `ill`, `cannot tell`.
    pub verdict: Ruling,
    /// The pattern of its times.
    pub health: Health,
    /// Which sizes deviate.
    pub side: Option<Side>,
    /// What the expectation is based on.
    pub basis: Basis,
    /// What variables forced, if the run was compared with what that takes.
    pub setting: Option<SettingView>,
    /// Where busbw falls although sizes grow.
    pub breaks: Option<BreakView>,
    /// By size.
    pub points: Vec<PointView>,
    /// Likely causes, the likeliest first; possible ones if the verdict is `cannot tell`.
    pub causes: Vec<CauseView>,
    /// What would decide it, if the verdict is `cannot tell`.
    pub next: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
    /// What calls of each size lost; [`Compare::lost`] is made from this.
    #[serde(skip)]
    lost: Vec<LostView>,
}

/// What variables forced.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingView {
    /// The variables: `NCCL_ALGO=Ring`.
    pub what: String,
    /// The time expected with them over that without them, at the largest size.
    pub cost: f64,
}

/// Where busbw falls.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakView {
    /// The last size before it.
    pub before_bytes: u64,
    /// The first size after it.
    pub at_bytes: u64,
    /// busbw before.
    #[serde(rename = "from_Bps")]
    pub from: f64,
    /// busbw after.
    #[serde(rename = "to_Bps")]
    pub to: f64,
}

/// One size.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointView {
    /// M.
    pub size_bytes: u64,
    /// What was measured.
    pub measured_s: f64,
    /// The out-of-place time of a row of nccl-tests, if it is that of a first call: the in-place time is `measured_s`.
    pub cold_s: Option<f64>,
    /// The expected time.
    pub expected_s: f64,
    /// A tenth of runs are faster.
    pub low_s: f64,
    /// A tenth of runs are slower.
    pub high_s: f64,
    /// As far as is known, no healthy machine of this kind is beyond this.
    pub limit_s: f64,
    /// Measured over expected.
    pub ratio: f64,
    /// busbw as measured.
    #[serde(rename = "busbw_Bps")]
    pub busbw: f64,
    /// busbw as expected.
    #[serde(rename = "expected_busbw_Bps")]
    pub expected_busbw: f64,
    /// What the expectation is based on.
    pub basis: Basis,
    /// The number of calls; absent in a benchmark's log.
    pub calls: Option<u32>,
    /// The wait for the last rank, as the median over calls; absent in a benchmark's log, and if only one
    /// rank's trace is known.
    pub skew_s: Option<f64>,
    /// The share of the time in which nothing was computed; absent if it was not observed.
    pub exposed: Option<f64>,
}

/// Seconds that a job lost in its calls of one kind.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostView {
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// M.
    pub size_bytes: u64,
    /// The number of calls.
    pub calls: u32,
    /// The time of the transfer beyond the expected one, over all calls.
    pub transfer_s: f64,
    /// The wait for the last rank to arrive, over all calls; absent if only one rank's trace is known.
    pub waiting_s: Option<f64>,
    /// The rank that arrived last most often.
    pub late_rank: Option<u32>,
    /// The share of calls in which it did.
    pub late_share: Option<f64>,
}

/// A likely cause.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseView {
    /// A short name.
    pub id: &'static str,
    /// The cause in a sentence.
    pub what: String,
    /// The mean of |ln(measured/predicted)| with it; absent if the log itself reports the cause.
    pub off: Option<f64>,
    /// Its probability among all known causes, from how often each was true elsewhere and from all
    /// sizes together.
    pub chance: f64,
    /// The evidence for it.
    pub evidence: String,
    /// What to run next.
    pub next: String,
}

/// One run as shown; which library ran it is added where a log says it.
#[must_use]
pub fn run(
    verdict: Verdict,
    query: &Query,
    dtype: Option<DataType>,
    file: Option<String>,
    traced: &[(Bytes, Traced)],
) -> RunView {
    let shape = &query.shape;
    let factor = shape.collective.busbw_factor(shape.ranks).0;
    let points = verdict.points.iter().map(|p| {
        let busbw = |time: f64| six(Volume::from(p.size).0 * factor / time);
        let of_size = || traced.iter().filter(|t| t.0 == p.size).map(|t| t.1);
        let first = of_size().next();
        PointView {
            calls: first.map(|_| of_size().map(|t| t.calls).sum()),
            skew_s: first.and_then(|t| t.skew).map(|skew| six(skew.0)),
            exposed: first.and_then(|t| t.exposed).map(|e| six(e.0)),
            size_bytes: p.size.0,
            measured_s: six(p.measured.0),
            cold_s: p.cold.map(|cold| six(cold.0)),
            expected_s: p.expected.time.0,
            low_s: p.expected.low.0,
            high_s: p.expected.high.0,
            limit_s: six(p.limit().0),
            ratio: six(p.ratio().0),
            busbw: busbw(p.measured.0),
            expected_busbw: busbw(p.expected.time.0),
            basis: p.expected.basis,
        }
    });
    let rate = |b: Bandwidth| six(b.0);
    let late: Vec<String> = straggler(&verdict, traced).into_iter().collect();
    RunView {
        file,
        collective: shape.collective,
        ranks: shape.ranks,
        nodes: verdict.nodes,
        dtype,
        library: None,
        verdict: verdict.ruling,
        lost: lost(&verdict, query, traced),
        health: verdict.health,
        side: verdict.side,
        basis: verdict.basis,
        setting: verdict.setting.map(|s| SettingView { what: s.what, cost: six(s.cost.0) }),
        breaks: verdict.breaks.map(|b| BreakView {
            before_bytes: b.before.0,
            at_bytes: b.at.0,
            from: rate(b.from),
            to: rate(b.to),
        }),
        points: points.collect(),
        causes: verdict
            .causes
            .into_iter()
            .map(|c| CauseView {
                id: c.id,
                what: c.what,
                off: c.off.map(|o| six(o.0)),
                chance: (100.0 * c.chance.0).round() / 100.0,
                evidence: c.evidence,
                next: c.next,
            })
            .collect(),
        next: verdict.next,
        notes: [verdict.notes, late].concat(),
    }
}

/// A rank comes last nearly always from this share of so many calls on: of two ranks one does in half of them by chance.
const ALWAYS: f64 = 0.75;
const FEWEST: u32 = 10;

/// A wait that matters, as a part of the transfer.
const WAIT: f64 = 0.1;

/// The rank for which the others nearly always wait, at the size at which they do so longest. The transfers may all be
/// healthy.
fn straggler(verdict: &Verdict, traced: &[(Bytes, Traced)]) -> Option<String> {
    let waits = traced.iter().filter_map(|&(size, t)| {
        let point = verdict.points.iter().find(|p| p.size == size)?;
        let (rank, share) = t.latest.filter(|(_, share)| share.0 >= ALWAYS)?;
        let part = t.skew?.0 / point.measured.0;
        (t.calls >= FEWEST && part >= WAIT && !t.at_most).then_some((size, t, rank, share, part))
    });
    let (size, t, rank, share, part) =
        waits.reduce(|a, b| if b.1.waited > a.1.waited { b } else { a })?;
    Some(format!(
        "rank {rank} comes last in {:.0} % of {} calls of {size}, and the others wait {} for it, {part:.1} times the \
         transfer: look at what it does before its calls, not at the links",
        100.0 * share.0,
        t.calls,
        t.skew?,
    ))
}

/// All runs of a comparison with `machine`.
#[must_use]
pub fn compare(
    (machine, chosen, given): (String, &'static str, Vec<String>),
    mut runs: Vec<RunView>,
    left_out: Vec<String>,
) -> Compare {
    let any = |ruling| runs.iter().any(|r: &RunView| r.verdict == ruling);
    let verdict = match () {
        () if any(Ruling::Ill) => Ruling::Ill,
        () if any(Ruling::CannotTell) => Ruling::CannotTell,
        () => Ruling::Healthy,
    };
    let mut lost: Vec<LostView> =
        runs.iter_mut().flat_map(|r| std::mem::take(&mut r.lost)).collect();
    falling(&mut lost, |l| l.transfer_s + l.waiting_s.unwrap_or(0.0));
    lost.truncate(WORST);
    let healthy = verdict == Ruling::Healthy;
    Compare {
        schema: "collcost/compare/1",
        machine,
        chosen,
        given,
        runs,
        healthy,
        verdict,
        lost,
        left_out,
    }
}

/// The number of kinds of calls that are listed; those that lost the most.
const WORST: usize = 10;

/// What a job's calls lost, by size.
fn lost(verdict: &Verdict, query: &Query, traced: &[(Bytes, Traced)]) -> Vec<LostView> {
    let one = |&(size, t): &(Bytes, Traced)| {
        let point = verdict.points.iter().find(|p| p.size == size)?;
        let over = (point.measured.0 - point.expected.time.0).max(0.0) * f64::from(t.calls);
        (over + t.waited.map_or(0.0, |w| w.0) > 0.0).then(|| LostView {
            collective: query.shape.collective,
            ranks: query.shape.ranks,
            size_bytes: size.0,
            calls: t.calls,
            transfer_s: six(over),
            waiting_s: t.waited.map(|waited| six(waited.0)),
            late_rank: t.latest.map(|(rank, _)| rank),
            late_share: t.latest.map(|(_, share)| six(share.0)),
        })
    };
    traced.iter().filter_map(one).collect()
}

/// Two runs of the same operations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwoView {
    /// `collcost/compare-two/1`.
    pub schema: &'static str,
    /// The first log.
    pub first: String,
    /// The second log.
    pub second: String,
    /// The deviation of one size's ratio from its neighbours'.
    pub noise: f64,
    /// Whether the second differs anywhere by more than noise.
    pub differs: bool,
    /// Whether results of either were wrong.
    pub wrong: bool,
    /// Small, middle and large sizes of each operation that both ran.
    pub regions: Vec<RegionView>,
    /// In what the runs differ besides their times, and what else to know of these.
    pub notes: Vec<String>,
}

/// A range of sizes over which both are compared.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionView {
    /// What ran.
    pub what: String,
    /// The smallest size.
    pub from_bytes: u64,
    /// The largest.
    pub to_bytes: u64,
    /// The number of sizes that both have; in-place and out-of-place times of a size count as one.
    pub pairs: usize,
    /// The median of the second's time over the first's.
    pub ratio: f64,
    /// Its 95 % interval; absent if too few neighbouring sizes tell the noise.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
    /// Whether they differ by more than noise.
    pub differs: bool,
}

/// The comparison of two logs.
#[must_use]
pub fn two(two: &Two, first: String, second: String) -> TwoView {
    let regions: Vec<RegionView> = two
        .regions
        .iter()
        .map(|r| RegionView {
            what: r.what.clone(),
            from_bytes: r.from.0,
            to_bytes: r.to.0,
            pairs: r.pairs,
            ratio: six(r.ratio.0),
            low: r.interval.map(|(low, _)| six(low.0)),
            high: r.interval.map(|(_, high)| six(high.0)),
            differs: r.differs,
        })
        .collect();
    let differs = regions.iter().any(|r| r.differs);
    let noise = six(two.noise.0);
    let wrong = two.wrong.iter().any(|&times| times > 0);
    let notes = two.notes.clone();
    TwoView {
        schema: "collcost/compare-two/1",
        first,
        second,
        noise,
        differs,
        wrong,
        regions,
        notes,
    }
}
