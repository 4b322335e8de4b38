//! Whether a measured run is as it should be, and if not, why.
//!
//! Each measured time is held against what is expected of the machine, with its band; `ruling` makes
//! one of three verdicts of it. Then every suspect predicts how much longer calls would take, size by
//! size, if it were the cause: what it changes in hardware is priced (`mechanism`), the fault is put into
//! the machine and simulated, an algorithm is priced, or a convention of sizes applied (`lab`). How likely
//! what was measured is with that, over all sizes together (`likelihood`), and how often the cause was
//! true elsewhere (`prior`) say which comes first.

mod clues;
mod fleet;
mod lab;
mod likelihood;
mod mechanism;
mod plateau;
mod prior;
mod ruling;
mod run;
mod shape;
mod suspects;
mod two;

pub use fleet::{Fleet, Host, LEAST_HOSTS, Threshold, fleet};
pub use ruling::Ruling;
pub use run::{Run, runs};
pub use shape::{Break, Side};
pub use two::{Region, Two, two};

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::cost::bound::bound;
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::{Basis, Expectation, Expecting};
use crate::measure::logs::Evidence;
use crate::model::algorithm::Registry;

/// A measured time beside what is expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// M.
    pub size: Bytes,
    /// What was measured.
    pub measured: Seconds,
    /// What is expected, with its band.
    pub expected: Expectation,
    /// By how much two healthy machines of one kind differ, as a logarithm.
    doubt: f64,
    /// What a healthy call takes, beside the expectation.
    known: plateau::Known,
}

impl Point {
    /// Measured over expected.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        Ratio(self.measured.0 / self.expected.time.0)
    }

    /// Beyond this no healthy machine of the kind lies, as far as is known.
    #[must_use]
    pub fn limit(&self) -> Seconds {
        let high = (self.expected.high.0 / self.expected.time.0).ln();
        let reach = (SURE * high).max(LEAST_REACH).max(self.doubt);
        self.expected.time * Ratio((shape::BANDS * reach).exp())
    }

    /// ln of it.
    fn error(&self) -> f64 {
        self.ratio().0.ln()
    }

    /// The same beside what a healthy call takes for all that is known.
    fn beyond(&self) -> f64 {
        self.error() - self.known.later
    }

    /// How far the band reaches on the side on which the measurement lies, as a logarithm; no less
    /// than healthy machines differ.
    fn reach(&self) -> f64 {
        let end = if self.error() > 0.0 { self.expected.high } else { self.expected.low };
        (SURE * (end.0 / self.expected.time.0).ln().abs()).max(LEAST_REACH).max(self.doubt)
    }
}

/// A band holds 8 of 10 healthy runs; so many times as wide, and [`shape::BANDS`] of it, all but about
/// one in forty of clusters that were left out.
const SURE: f64 = 1.6;

/// What a switch does not add takes up to so much longer, as a logarithm.
const NOT_ADDED: f64 = 0.3;

/// Few curves of calls with a root were published over several nodes, and they lie 2.4 times apart.
const ROOTED: f64 = 0.8;

/// From these odds on, as a logarithm, a run inside its bands is ill …
const CERTAIN: f64 = 6.0;
/// … and from these on it is not called healthy. Both by clusters that were left out.
const UNSURE: f64 = 2.0;

/// Two runs of one thing differ by so much without anything being wrong.
const LEAST_REACH: f64 = 0.02;

/// What a log says beside its times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Several ranks run on one GPU.
    pub shared_gpu: bool,
    /// Elements that were wrong.
    pub wrong: u64,
    /// What was typed, where the times are of one number and not of a log.
    pub typed: Option<Typed>,
    /// Times are upper bounds: they hold waiting, as ranks are missing or the clock was the host's.
    pub at_most: bool,
    /// What it says of how it ran.
    pub evidence: Evidence,
}

/// One number that was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed {
    /// A busbw.
    Busbw,
    /// An algbw.
    Algbw,
    /// A time.
    Time,
}

/// How a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As expected.
    Healthy,
    /// Slower than 9 of 10 runs.
    Slow,
    /// Faster than can be: below what any algorithm takes, or far outside the band.
    TooFast,
    /// Results were wrong, whatever the times are.
    WrongResults,
}

/// Why a run is as it is, likely.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// A short name: `missing-nic`, `nvls-missing`.
    pub id: &'static str,
    /// In a sentence.
    pub what: String,
    /// How near its prediction lies: the mean of |ln(measured/predicted)|; absent where the log
    /// itself says it.
    pub off: Option<Ratio>,
    /// How likely it is, among all causes that are known here.
    pub chance: Ratio,
    /// What speaks for it.
    pub evidence: String,
    /// What to run next.
    pub next: String,
}

/// What is said of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The verdict.
    pub ruling: Ruling,
    /// What its times look like.
    pub health: Health,
    /// Which sizes are off; none where none is.
    pub side: Option<Side>,
    /// Where the curve breaks.
    pub breaks: Option<Break>,
    /// The sizes, in order.
    pub points: Vec<Point>,
    /// What the expectation rests on, at its least sure size.
    pub basis: Basis,
    /// Likely causes, the likeliest first.
    pub causes: Vec<Cause>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// Judges times of `query`'s collective on its ranks; the query's own size is not looked at.
///
/// # Errors
/// An expectation that the machine has none of: a tier that nobody measured and no figure is known of.
pub fn judge(
    registry: &Registry,
    query: &Query,
    dtype: Option<DataType>,
    unseen: bool,
    times: &[(Bytes, Seconds)],
    facts: &Facts,
) -> Result<Verdict> {
    let expecting = Expecting::with(registry, query, None, dtype)?.unseen_tier(unseen);
    let sizes = times.iter().map(|t| t.0);
    Ok(Judge::new(&expecting, (registry, query, dtype), sizes).verdict(times, facts))
}

/// Who judges runs of some sizes: what a machine may have is put into it once.
pub struct Judge<'a> {
    expecting: &'a Expecting<'a>,
    registry: &'a Registry,
    query: &'a Query,
    dtype: Option<DataType>,
    sizes: Vec<Bytes>,
    ways: suspects::Ways,
}

impl<'a> Judge<'a> {
    /// Beside an expectation that somebody has, such as one that was learned without a cluster.
    #[must_use]
    pub fn new(
        expecting: &'a Expecting<'a>,
        (registry, query, dtype): (&'a Registry, &'a Query, Option<DataType>),
        sizes: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let mut sizes: Vec<Bytes> = sizes.into_iter().filter(|s| s.0 > 0).collect();
        sizes.sort_unstable();
        let mut judge =
            Self { expecting, registry, query, dtype, sizes, ways: suspects::Ways::default() };
        let expected: Vec<Point> =
            judge.sizes.iter().map(|&s| judge.point(s, expecting.time(s))).collect();
        judge.ways = suspects::ways(&judge.lab(&expected));
        judge
    }

    fn point(&self, size: Bytes, measured: Seconds) -> Point {
        let expected = self.expecting.at(size);
        let nodes = self.query.placement.nodes();
        let doubt = ruling::doubt(expected.basis, nodes, self.query.machine.network, size);
        let doubt = if self.lab(&[]).is_not_added() { doubt + NOT_ADDED } else { doubt };
        let rooted =
            matches!(self.query.shape.collective, Collective::Broadcast | Collective::Reduce);
        let learned = rooted && nodes > 1 && expected.basis >= Basis::Transferred;
        let doubt = if learned { doubt.max(ROOTED) } else { doubt };
        let known = plateau::known(self.query, size, &expected);
        Point { size, measured, expected, doubt, known }
    }

    fn lab<'b>(&self, points: &'b [Point]) -> lab::Lab<'b>
    where
        'a: 'b,
    {
        let Self { expecting, registry, query, dtype, .. } = *self;
        lab::Lab { registry, query, expecting, dtype, points }
    }

    /// What is said of times; of other sizes than it was made for, what they may have is looked for anew.
    #[must_use]
    pub fn verdict(&self, times: &[(Bytes, Seconds)], facts: &Facts) -> Verdict {
        let mut points: Vec<Point> = times
            .iter()
            .filter(|t| t.0.0 > 0)
            .map(|&(size, time)| self.point(size, time))
            .collect();
        points.sort_by_key(|p| p.size);
        let known = points.iter().map(|p| p.size).eq(self.sizes.iter().copied());
        let impossible = impossible(self.query, &points);
        let clues = clues::clues(&facts.evidence, self.query);
        let said = (facts, impossible.as_ref(), clues.as_slice());
        let lab = self.lab(&points);
        let lineup = match known {
            true => suspects::line_up(&lab, &self.ways, said),
            false => suspects::line_up(&lab, &suspects::ways(&lab), said),
        };
        let mut verdict = ruled(self.query, points, lineup, impossible, facts);
        if verdict.health == Health::Healthy {
            verdict.notes.extend(clues::notes(&clues));
        }
        verdict
    }
}

/// The verdict on what was measured, with who is suspected.
fn ruled(
    query: &Query,
    points: Vec<Point>,
    lineup: suspects::Lineup,
    impossible: Option<(Bytes, String)>,
    facts: &Facts,
) -> Verdict {
    let basis = points.iter().map(|p| p.expected.basis).max().unwrap_or(Basis::Modelled);
    let mut health = shape::health(&points);
    // One region may leave its band by noise; all sizes together are then likelier without a cause.
    if health == Health::Slow && lineup.odds < 0.0 && shape::is_part(&points) {
        health = Health::Healthy;
    }
    // A shape that causes have and healthy machines have not says more than a wide band; of a cause that a
    // log names, less is enough.
    let enough = if lineup.named { UNSURE } else { CERTAIN };
    if health == Health::Healthy && (lineup.odds > enough || facts.shared_gpu) {
        health = Health::Slow;
    }
    let plateau = plateau::Plateau::of(query, &points);
    if health == Health::Healthy && plateau.as_ref().is_some_and(|p| p.is_ill()) {
        health = Health::Slow;
    }
    if impossible.is_some() {
        health = Health::TooFast;
    }
    let side = if health == Health::Healthy { None } else { shape::side(&points) };
    if facts.wrong > 0 {
        health = Health::WrongResults;
    }
    let ill = health != Health::Healthy;
    let mut causes: Vec<Cause> = Vec::new();
    for suspect in lineup.suspects.iter().filter(|_| ill) {
        // Of several forms of one cause the likeliest stands for all.
        let cause = suspect.cause(&points).filter(|c| causes.iter().all(|known| known.id != c.id));
        causes.extend(cause.filter(|_| causes.len() < 5));
    }
    let no_call = causes.iter().any(|c| c.id == "not-one-call");
    if facts.at_most {
        // Waiting explains it, and nobody knows how much of it there was.
        causes.clear();
    }
    let mut ruling = ruling::rule(&points, health, facts, no_call);
    if ruling == Ruling::Healthy && lineup.odds > UNSURE {
        ruling = Ruling::CannotTell;
    }
    if ruling == Ruling::CannotTell && health == Health::Healthy {
        let near = plateau.as_ref().is_some_and(|p| p.is_healthy());
        ruling = if near { Ruling::Healthy } else { ruling };
    }
    let mut notes = notes(query, &points, basis);
    if ill && !causes.iter().any(|c: &Cause| c.id == "not-one-call") {
        notes.extend(impossible.map(|(_, why)| why));
    }
    notes.extend(plateau.filter(|_| health == Health::Slow).map(|p| p.words()));
    if facts.at_most {
        notes.push("the times are upper bounds: they hold waiting for late ranks, so they may show health, and \
                    never the contrary".to_owned());
    }
    Verdict {
        ruling,
        health,
        side,
        breaks: shape::breaks(query, &points).filter(|_| ill),
        points,
        basis,
        causes,
        notes,
    }
}

/// Of which size a time cannot be, and why: it is below what any algorithm takes on the machine.
fn impossible(query: &Query, points: &[Point]) -> Option<(Bytes, String)> {
    let shape = &query.shape;
    let fabric = &query.machine.fabric;
    // A root that only sends is ready for the next call before others have this one: calls overlap.
    let overlap = matches!(shape.collective, Collective::Broadcast | Collective::Scatter);
    points.iter().find_map(|p| {
        let least = bound(shape.collective, shape.ranks, Volume::from(p.size), fabric).ok()?;
        // Figures of a machine are known to a part in ten, at best.
        let at_least = if overlap { least.bandwidth } else { least.time() };
        if p.measured.0 < 0.8 * at_least.0 {
            let why = format!(
                "{} at {} is below the lower bound of {}: a CUDA graph, several operations in one \
                 call (nccl-tests -m), a size of another convention, or links that are faster than \
                 the profile's",
                p.measured, p.size, at_least
            );
            return Some((p.size, why));
        }
        // A launch is fitted, and a root that only sends is soon ready for the next call; yet half of
        // a call, and of what was measured or priced, is spared by none of its own.
        let call = fabric.launch + least.latency;
        let half = 0.5 * call.0.min(p.expected.low.0);
        (!overlap && p.measured.0 < half).then(|| {
            let why = format!(
                "{} at {} is less than half of the {call} that a call and its least messages take: \
                 it was no call of its own; a CUDA graph spares the launch, nccl-tests -m makes \
                 several operations one, and without a wait the clock stops before the end",
                p.measured, p.size
            );
            (p.size, why)
        })
    })
}

/// Up to here no machine's bytes are a tenth of the time.
const LATENCY_ALONE: Bytes = Bytes(4096);

fn notes(query: &Query, points: &[Point], basis: Basis) -> Vec<String> {
    let mut notes = Vec::new();
    if basis == Basis::Modelled {
        notes.push(
            "nothing was measured of this: the expectation is a price, and the band is wide; fit a \
             healthy log for a narrow one"
                .to_owned(),
        );
    }
    if !points.is_empty() && points.iter().all(|p| p.size <= LATENCY_ALONE) {
        notes.push(
            "sizes as small as these are latency alone: of bandwidth they say nothing, nor does \
             their busbw"
                .to_owned(),
        );
    }
    notes.extend(above_the_link(query, points));
    notes
}

/// What to know where busbw is above the rate of the links.
fn above_the_link(query: &Query, points: &[Point]) -> Option<String> {
    use Collective::AllReduce;
    let (shape, nodes) = (&query.shape, query.placement.nodes());
    let factor = shape.collective.busbw_factor(shape.ranks);
    let busbw = |p: &Point| Volume::from(p.size).0 * factor.0 / p.measured.0;
    let most = points.iter().map(busbw).fold(0.0, f64::max);
    let tiers = &query.machine.fabric.tiers;
    let (link, what) = match nodes {
        1 => (tiers.first()?.link.bandwidth?, "one link"),
        _ => {
            let nics = tiers.last()?.nics.map_or(1, |n| n.get());
            (tiers.last()?.link.bandwidth? * Ratio(f64::from(nics)), "all NICs of a node")
        }
    };
    // Figures of links are known to some parts in a hundred.
    if most <= 1.03 * link.0 || shape.collective != AllReduce {
        return None;
    }
    let adds = tiers.iter().any(|t| t.switch.as_ref().is_some_and(|s| s.alu));
    let why = match nodes {
        2 | 3 => {
            "a tree over two nodes sends M over the NICs, not 2(N - 1)/N·M, and NVLS adds in the \
             switch: busbw counts more than moves"
        }
        _ if adds => "switches add (NVLS, SHARP): busbw counts 2(N - 1)/N·M, a port moves M once",
        _ => {
            "no algorithm does that without sums in the network: SHARP, or faster links than these"
        }
    };
    Some(format!("busbw of {} is above {what} ({link}): {why}", Bandwidth(most)))
}
