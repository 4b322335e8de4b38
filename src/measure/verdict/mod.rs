//! Whether a measured run is as it should be, and if not, why.
//!
//! Each measured time is compared with the time expected of the machine and its band; `ruling` turns
//! the comparison into one of three verdicts. Then every suspect predicts, size by size, how much longer
//! calls would take if it were the cause. A prediction prices a change in hardware (`mechanism`), injects
//! a fault into the machine and simulates it, prices an algorithm, or applies a size convention (`lab`).
//! Causes are ranked by how likely the measured times are under that prediction, over all sizes together
//! (`likelihood`), and by how often the cause was the true one elsewhere (`prior`).

mod clues;
mod cold;
mod decide;
mod fleet;
mod lab;
mod likelihood;
mod mechanism;
mod plateau;
mod prior;
mod ruling;
mod run;
mod setting;
mod shape;
mod suspects;
mod trays;
mod two;

use clues::{WAYS, Way};
use setting::Forced;

pub use fleet::{Fleet, Host, LEAST_HOSTS, Part, Threshold, fleet};
pub use ruling::{Ruling, SLOWDOWN};
pub use run::{Run, runs};
pub use setting::Setting;
pub use shape::{Break, Side};
pub use two::{Region, Two, two};

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::cost::bound::bound;
use crate::library::nccl::Algo;
use crate::machine::placement::Placement;
use crate::machine::profile::{NetworkKind, Profile};
use crate::machine::query::{NodesAre, Query};
use crate::machine::sample::DataType;
use crate::measure::expect::{Basis, Expectation, Expecting};
use crate::measure::logs::{BROKE, Evidence, FAILED, NO_SUM, other_gpus};
use crate::model::algorithm::RunBy;
use crate::model::algorithm::{Library, Registry};

/// A measured time and the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// M.
    pub size: Bytes,
    /// The measured time that counts.
    pub measured: Seconds,
    /// The out-of-place time, if it is that of a first call, so that the in-place time counts.
    pub cold: Option<Seconds>,
    /// The expected time and its band.
    pub expected: Expectation,
    /// By how much two healthy machines of one kind differ, as a logarithm.
    doubt: f64,
    /// What is known of a healthy call's time besides the expectation.
    known: plateau::Known,
}

impl Point {
    /// Measured over expected.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        Ratio(self.measured.0 / self.expected.time.0)
    }

    /// No healthy machine of the kind is known to take longer than this.
    #[must_use]
    pub fn limit(&self) -> Seconds {
        let high = self.slow_end();
        let reach = (SURE * high).max(LEAST_REACH).max(self.doubt);
        self.expected.time * Ratio((shape::BANDS * reach).exp())
    }

    /// How far the band extends to slower times, as a logarithm.
    fn slow_end(&self) -> f64 {
        (self.expected.high.0 / self.expected.time.0).ln()
    }

    /// Fewer than one in ten runs of healthy machines of the kind take longer than this. The band of a
    /// machine's own runs is their noise, which one size of ten leaves without a fault.
    #[must_use]
    pub fn late(&self) -> Seconds {
        match self.expected.basis {
            Basis::Measured => self.limit(),
            _ => self.expected.time * Ratio(self.slow_end().max(self.doubt).exp()),
        }
    }

    /// Whether it took longer than that.
    fn is_late(&self) -> bool {
        self.measured > self.late()
    }

    /// ln of the ratio.
    fn error(&self) -> f64 {
        self.ratio().0.ln()
    }

    /// The same, relative to the time of a healthy call by everything that is known.
    fn beyond(&self) -> f64 {
        self.error() - self.known.later
    }

    /// How far the band extends on the measurement's side, as a logarithm; at least as far as healthy
    /// machines differ.
    fn reach(&self) -> f64 {
        let end = if self.error() > 0.0 { self.expected.high } else { self.expected.low };
        (SURE * (end.0 / self.expected.time.0).ln().abs()).max(LEAST_REACH).max(self.doubt)
    }
}

/// A band holds 8 of 10 healthy runs. Widened by this factor and by [`shape::BANDS`], it holds all but
/// about one in forty of the held-out clusters.
const SURE: f64 = 1.6;

/// A type that a switch does not reduce takes up to this much longer, as a logarithm.
const NOT_ADDED: f64 = 0.3;

/// A process for all GPUs of a node (`--bind-to` of Open MPI's mpirun): nine such runs on two nodes, with all proxies of
/// NCCL on one core, took two to ten times as long for 512 KiB to 8 MiB (mit-orcd and mghpcc on GitHub).
const BOUND: &str = "mpirun binds a process to one core if it starts no more than two: with one a node, repeat with \
                     --bind-to none";

/// Few curves of rooted calls over several nodes were published, and they differ by a factor of 2.4.
const ROOTED: f64 = 0.8;

/// At these odds or higher, as a logarithm, a run inside its bands is ill …
const CERTAIN: f64 = 6.0;
/// … and at these or higher it is not called healthy. Both come from held-out clusters.
const UNSURE: f64 = 2.0;

/// A thread that starts the calls of several GPUs adds little to a size if it adds less than this, as a logarithm.
const LITTLE: f64 = 0.05;

/// So many causes are listed as possible where the times alone speak for them, and do not decide.
const POSSIBLE: usize = 3;

/// Two runs of the same thing differ by this much without a fault.
const LEAST_REACH: f64 = 0.02;

/// What a log says besides its times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Several ranks run on one GPU.
    pub shared_gpu: bool,
    /// The number of wrong elements, at least.
    pub wrong: u64,
    /// Nothing in the log says on how many nodes it ran, and it may have been several.
    pub nodes_open: bool,
    /// The ranks of each host, if the log lists them and one has fewer than all others.
    pub full_node: Option<u32>,
    /// The kind of the numbers that were given, if the times come from no log; a time if they are mixed.
    pub typed: Option<Typed>,
    /// Times are upper bounds: they include waiting, because ranks are missing or the host's clock was
    /// used.
    pub at_most: bool,
    /// Sizes whose times are upper bounds.
    pub bounds: Vec<Bytes>,
    /// The in-place times of sizes whose out-of-place ones are judged.
    pub in_place: Vec<(Bytes, Seconds)>,
    /// What the log says about how the run was done.
    pub evidence: Evidence,
    /// How certain it is what the log's sizes count.
    pub sizes: Sizes,
    /// The kind of library that ran it; absent: the machine's.
    pub run_by: Option<RunBy>,
    /// The GPUs, if the log lists them.
    pub gpus: Option<String>,
    /// What else to know before trusting the times.
    pub caveats: Vec<String>,
    /// Rows that a damaged log lacks, in words.
    pub damage: Vec<String>,
    /// What another run of the log shows, if that is that the NICs carry what they can.
    pub carried: Option<String>,
}

impl Facts {
    /// Adds what another log says of times that are judged together with these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.shared_gpu |= other.shared_gpu;
        self.wrong += other.wrong;
        self.nodes_open |= other.nodes_open;
        self.full_node = self.full_node.or(other.full_node);
        self.at_most |= other.at_most;
        self.bounds.extend(&other.bounds);
        self.in_place.extend(&other.in_place);
        self.evidence.add(&other.evidence);
        self.sizes = self.sizes.max(other.sizes);
        self.typed = self.typed.or(other.typed);
        self.run_by = self.run_by.or(other.run_by);
        self.gpus = self.gpus.take().or_else(|| other.gpus.clone());
        let new = other.caveats.iter().filter(|caveat| !self.caveats.contains(caveat));
        let new: Vec<String> = new.cloned().collect();
        self.caveats.extend(new);
        self.damage.extend(other.damage.iter().cloned());
    }

    /// How the log says that results were wrong.
    pub(crate) fn wrong_words(&self) -> String {
        match self.caveats.iter().any(|caveat| caveat.contains(FAILED)) {
            true => "its own program says FAILED".to_owned(),
            false => format!("the log counts {} wrong elements or more", self.wrong),
        }
    }

    /// Whether its program ended with an error.
    pub(crate) fn broke(&self) -> bool {
        self.caveats.iter().any(|caveat| caveat.starts_with(BROKE))
    }

    /// Whether the run added. NCCL has no NVLS kernel for averages and products (`ncclNvlsSupported`, device.h), so
    /// that a healthy run of them is slower than what is expected of sums.
    fn sums(&self) -> bool {
        self.caveats.iter().all(|caveat| caveat != NO_SUM)
    }

    /// The kind of library that ran it, by the log, else by the machine.
    fn run_by(&self, query: &Query) -> RunBy {
        self.run_by.unwrap_or_else(|| match query.library() {
            Some(Library::OpenMpi | Library::Mpich | Library::Gloo) => {
                if query.machine.hardware.is_some() { RunBy::GpuMpi } else { RunBy::Hosts }
            }
            Some(Library::Nccl | Library::Rccl) | None => RunBy::Nccl,
        })
    }

    /// Refuses to compare a run of another library, or of other GPUs, with the default machine, which
    /// nobody named.
    ///
    /// # Errors
    /// The log says that something other than NCCL ran, or on other GPUs.
    pub fn refuse_default(&self, query: &Query) -> Result<()> {
        let machine = &query.machine;
        if !machine.is_default() {
            return Ok(());
        }
        let name = &machine.name;
        if let Some(other) = self.run_by.filter(|by| *by != RunBy::Nccl) {
            let what = match &self.gpus {
                Some(gpus) => format!("{} ran on {gpus}", other.words()),
                None => format!("{} ran", other.words()),
            };
            return Err(Error::input(format!(
                "{what}, and the default machine, {name}, runs NCCL"
            )));
        }
        match self.other_gpus(query) {
            Some((gpus, own)) => {
                let what =
                    format!("the log lists {gpus}, and the default machine, {name}, has {own}");
                let known = gpus.split(", ").find_map(|gpu| Profile::builtin(gpu).ok());
                Err(match known {
                    Some(like) => Error::input(what).help(format!(
                        "name the machine that ran it: --on {} has such GPUs; collcost profiles lists others",
                        like.name
                    )),
                    None => Error::input(what),
                })
            }
            None => Ok(()),
        }
    }

    /// The GPUs that ran it and those of the machine, if they are others.
    fn other_gpus(&self, query: &Query) -> Option<(&str, String)> {
        let gpus = self.gpus.as_deref()?;
        Some((gpus, other_gpus(gpus, &query.machine)?))
    }
}

/// How certain it is what sizes count: M, or a rank's block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sizes {
    /// The format's own documentation or source says it.
    #[default]
    Documented,
    /// Columns of a table that anybody may have written.
    Table,
    /// Nobody says it.
    Open,
}

/// One number that was typed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Typed {
    /// A busbw.
    Busbw(Bandwidth),
    /// An algbw.
    Algbw(Bandwidth),
    /// A time.
    Time(Seconds),
}

impl Typed {
    /// The call of `query`'s collective that it was measured of: its size, and the time it took.
    ///
    /// # Errors
    /// One rank; no bytes, or a barrier's bytes or rate; a number that is not above 0.
    pub fn call(self, query: &Query, size: Bytes) -> Result<(Bytes, Seconds)> {
        let (collective, ranks) = (query.shape.collective, query.shape.ranks);
        refuse_alone(query)?;
        if size.0 > 0 || !matches!(self, Self::Time(_)) {
            let help = "give its time alone: 20us";
            collective.refuse_size().map_err(|e| e.help(help))?;
        }
        if !is_call(collective, size) {
            return Err(Error::input("a call of 0 bytes has no rate")
                .help("give the size at which it was measured, such as 1GiB"));
        }
        let time = match self {
            Self::Busbw(rate) => Volume::from(size).0 * collective.busbw_factor(ranks).0 / rate.0,
            Self::Algbw(rate) => Volume::from(size).0 / rate.0,
            Self::Time(time) => time.0,
        };
        match time > 0.0 && time.is_finite() {
            true => Ok((size, Seconds(time))),
            false => Err(Error::input(format!(
                "a measured number must be finite and above 0, which that of {size} is not"
            ))),
        }
    }
}

/// Refuses a question about one rank.
fn refuse_alone(query: &Query) -> Result<()> {
    match query.shape.ranks {
        0 | 1 => {
            Err(Error::input("one rank has no peer: its time is not the time of a collective")
                .help("give the number of ranks that ran, such as 8"))
        }
        _ => Ok(()),
    }
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

/// A likely cause of a run's times.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// A short name: `missing-nic`, `nvls-missing`.
    pub id: &'static str,
    /// The cause in a sentence.
    pub what: String,
    /// How far off its prediction is: the mean of |ln(measured/predicted)|; absent if the log itself
    /// names the cause.
    pub off: Option<Ratio>,
    /// How likely it is among all causes that collcost knows.
    pub chance: Ratio,
    /// The evidence for it.
    pub evidence: String,
    /// What to run next.
    pub next: String,
}

/// The verdict on one run, with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The verdict.
    pub ruling: Ruling,
    /// What its times look like.
    pub health: Health,
    /// Which sizes are off, if any.
    pub side: Option<Side>,
    /// Where the curve breaks.
    pub breaks: Option<Break>,
    /// The sizes, in order.
    pub points: Vec<Point>,
    /// What the expectation is based on, at its least certain size.
    pub basis: Basis,
    /// Likely causes, the likeliest first.
    pub causes: Vec<Cause>,
    /// What would decide it, if the verdict cannot tell.
    pub next: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
    /// The nodes that ran it: the hosts of a rack where the log says that NVLink does not join them.
    pub nodes: u32,
    /// What variables forced, if the run was compared with what that takes.
    pub setting: Option<Setting>,
    /// That the NICs carry what they can, in words, if the largest size shows it.
    pub(crate) carries: Option<String>,
}

/// Judges times of `query`'s collective on its ranks; the query's own size is ignored. Where the log says that hosts of
/// a rack are nodes of their own, they are; where it has a variable that forces an algorithm or a protocol, a run that is
/// not healthy is compared with what that takes, too.
///
/// # Errors
/// One rank; the machine has no expectation: a tier was never measured, and no parameter of it is known.
pub fn judge(
    registry: &Registry,
    query: &Query,
    dtype: Option<DataType>,
    unseen: bool,
    times: &[(Bytes, Seconds)],
    facts: &Facts,
) -> Result<Verdict> {
    refuse_alone(query)?;
    let apart = trays::said(&facts.evidence).and_then(|_| trays::apart(query));
    let query = apart.as_ref().unwrap_or(query);
    let run_by = facts.run_by(query);
    let sizes: Vec<Bytes> =
        times.iter().map(|t| t.0).filter(|&s| is_call(query.shape.collective, s)).collect();
    let expecting = Expecting::with(registry, query, None, dtype)?.unseen_tier(unseen);
    let judge = Judge::of(&expecting, (registry, query, dtype), sizes.clone(), run_by, None);
    let verdict = judge.verdict(times, facts);
    let forced = match verdict.ruling {
        Ruling::Healthy => None,
        Ruling::Ill | Ruling::CannotTell => Forced::of(query, run_by, &facts.evidence),
    };
    let Some(forced) = forced else { return Ok(verdict) };
    // An algorithm that does not apply here cannot be forced.
    let Ok(with) = forced.expecting(registry, dtype) else { return Ok(verdict) };
    let with = with.unseen_tier(unseen);
    let Some(setting) = forced.costs(&expecting, &with, &sizes) else { return Ok(verdict) };
    let mut facts = facts.clone();
    forced.variables.iter().for_each(|(name, _)| facts.evidence.without_variable(name));
    let asked = (registry, &forced.query, dtype);
    let judge = Judge::of(&with, asked, sizes, run_by, forced.algorithm);
    let mut by_setting = judge.verdict(times, &facts);
    if by_setting.ruling == Ruling::Ill && verdict.ruling != Ruling::Ill {
        return Ok(verdict);
    }
    // As fast as what was forced, and slower than what would run by itself: the setting is what makes it slow.
    if by_setting.ruling == Ruling::Healthy && verdict.ruling == Ruling::Ill {
        by_setting = Verdict { causes: vec![setting.cause()], ..verdict };
    }
    by_setting.notes.insert(0, setting.note.clone());
    by_setting.setting = Some(setting);
    Ok(by_setting)
}

/// Whether a call of the size communicates: only a barrier has no bytes.
pub(super) fn is_call(collective: Collective, size: Bytes) -> bool {
    size.0 > 0 || collective == Collective::Barrier
}

/// Judges runs of some sizes. The faults that the machine may have are simulated once.
pub struct Judge<'a> {
    expecting: &'a Expecting<'a>,
    registry: &'a Registry,
    query: &'a Query,
    dtype: Option<DataType>,
    sizes: Vec<Bytes>,
    run_by: RunBy,
    /// The only algorithm that the run's variables leave.
    only: Option<Algo>,
    ways: suspects::Ways,
}

impl<'a> Judge<'a> {
    /// Judges against a given expectation, such as one that was learned without a cluster.
    #[must_use]
    pub fn new(
        expecting: &'a Expecting<'a>,
        asked: (&'a Registry, &'a Query, Option<DataType>),
        sizes: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        Self::of(expecting, asked, sizes, Facts::default().run_by(asked.1), None)
    }

    /// The same for runs of such a library, which variables may leave only one algorithm.
    fn of(
        expecting: &'a Expecting<'a>,
        (registry, query, dtype): (&'a Registry, &'a Query, Option<DataType>),
        sizes: impl IntoIterator<Item = Bytes>,
        run_by: RunBy,
        only: Option<Algo>,
    ) -> Self {
        let counts = |size: &Bytes| is_call(query.shape.collective, *size);
        let mut sizes: Vec<Bytes> = sizes.into_iter().filter(counts).collect();
        sizes.sort_unstable();
        let ways = suspects::Ways::default();
        let mut judge = Self { expecting, registry, query, dtype, sizes, run_by, only, ways };
        let expected: Vec<Point> =
            judge.sizes.iter().map(|&s| judge.point(s, expecting.time(s), run_by)).collect();
        judge.ways = suspects::ways(&judge.lab(&expected, run_by));
        judge
    }

    fn point(&self, size: Bytes, measured: Seconds, run_by: RunBy) -> Point {
        let expected = self.expecting.at(size);
        let nodes = self.query.placement.nodes();
        let of_hosts = self.expecting.is_of_hosts();
        let doubt = ruling::doubt(&expected, of_hosts, self.query, size);
        let doubt = if self.lab(&[], run_by).is_not_added() { doubt + NOT_ADDED } else { doubt };
        let rooted =
            matches!(self.query.shape.collective, Collective::Broadcast | Collective::Reduce);
        let learned = rooted && nodes > 1 && expected.basis >= Basis::Transferred;
        let doubt = if learned { doubt.max(ROOTED) } else { doubt };
        let known = plateau::known((self.query, run_by, self.only), size, &expected);
        Point { size, measured, cold: None, expected, doubt, known }
    }

    fn lab<'b>(&self, points: &'b [Point], run_by: RunBy) -> lab::Lab<'b>
    where
        'a: 'b,
    {
        let Self { expecting, registry, query, dtype, only, .. } = *self;
        let faulty = std::cell::OnceCell::new();
        lab::Lab { registry, query, expecting, dtype, points, run_by, only, faulty }
    }

    /// The verdict on times. For sizes other than those it was made for, suspects are simulated again.
    #[must_use]
    pub fn verdict(&self, times: &[(Bytes, Seconds)], facts: &Facts) -> Verdict {
        let run_by = facts.run_by(self.query);
        let mut points: Vec<Point> = times
            .iter()
            .filter(|t| is_call(self.query.shape.collective, t.0))
            .map(|&(size, time)| self.point(size, time, run_by))
            .collect();
        points.sort_by_key(|p| p.size);
        let cold = cold::warmed(&mut points, &facts.in_place);
        let known =
            run_by == self.run_by && points.iter().map(|p| p.size).eq(self.sizes.iter().copied());
        let own = (!known).then(|| suspects::ways(&self.lab(&points, run_by)));
        let ways = own.as_ref().unwrap_or(&self.ways);
        let is_bound = |p: &&Point| facts.bounds.contains(&p.size);
        let mut verdict = match points.iter().filter(is_bound).count() {
            0 => self.judged(points, ways, facts),
            all if all == points.len() => self.at_most(points, ways, facts),
            _ => self.beside_bounds(points, ways, facts),
        };
        verdict.notes.extend(cold);
        let slow = verdict.ruling == Ruling::Ill && verdict.health == Health::Slow;
        match WAYS.iter().find(|way| facts.evidence.says(way.sign)) {
            Some(way) if slow && !facts.shared_gpu => {
                self.beside_the_host(verdict, ways, (facts, way))
            }
            _ => verdict,
        }
    }

    /// The verdict on points that are upper bounds.
    fn at_most(&self, points: Vec<Point>, ways: &suspects::Ways, facts: &Facts) -> Verdict {
        self.judged(points, ways, &Facts { at_most: true, ..facts.clone() })
    }

    /// The verdict on points of which some are upper bounds. These cannot show that a run is ill, but the others can.
    fn beside_bounds(&self, points: Vec<Point>, ways: &suspects::Ways, facts: &Facts) -> Verdict {
        let (bounds, exact): (Vec<Point>, Vec<Point>) =
            points.iter().partition(|p| facts.bounds.contains(&p.size));
        let own = suspects::ways(&self.lab(&exact, facts.run_by(self.query)));
        let mut verdict = self.judged(exact, &own, facts);
        if verdict.ruling != Ruling::Ill {
            return self.at_most(points, ways, facts);
        }
        verdict.notes.push(match bounds.as_slice() {
            [one] => format!(
                "the time of {} is an upper bound, which includes waiting: the other sizes decide",
                one.size
            ),
            _ => format!(
                "the times of {} of {} sizes are upper bounds, which include waiting: the other sizes decide",
                bounds.len(),
                points.len()
            ),
        });
        Verdict { points, ..verdict }
    }

    /// The verdict on a run that is slow, and was measured in a way that makes calls longer. That is no fault of the
    /// machine: sizes to which it adds little show whether something else is slow.
    fn beside_the_host(
        &self,
        mut slow: Verdict,
        ways: &suspects::Ways,
        (facts, way): (&Facts, &Way),
    ) -> Verdict {
        let added = ways.closest(way.id, &slow.points).unwrap_or_default();
        let added = added.iter().copied().chain(std::iter::repeat(0.0));
        let exact = |point: &Point| !facts.bounds.contains(&point.size);
        let rest = slow.points.iter().zip(added);
        let rest = rest.filter(|(point, added)| *added < LITTLE && exact(point));
        let rest: Vec<Point> = rest.map(|(point, _)| *point).collect();
        if !rest.is_empty() {
            let mut facts = facts.clone();
            facts.evidence.without(way.sign);
            let ways = suspects::ways(&self.lab(&rest, facts.run_by(self.query)));
            let verdict = self.judged(rest, &ways, &facts);
            if verdict.ruling == Ruling::Ill {
                let mut notes = verdict.notes;
                notes.push(format!("{}: causes are of sizes to which that adds little", way.how));
                if self.query.placement.nodes() == 2 {
                    notes.push(BOUND.to_owned());
                }
                return Verdict { points: slow.points, notes, ..verdict };
            }
        }
        slow.ruling = Ruling::CannotTell;
        slow.next = decide::steps(self.query, &slow.points, facts);
        slow.causes.retain(|cause| cause.id == way.id);
        slow.notes.push(format!(
            "{}, which may be all that is slow: {} shows how the machine is",
            way.how, way.instead
        ));
        slow
    }

    /// The verdict on points, with the suspects of their sizes.
    fn judged(&self, points: Vec<Point>, ways: &suspects::Ways, facts: &Facts) -> Verdict {
        let run_by = facts.run_by(self.query);
        let impossible = impossible((self.query, run_by), &points);
        let usual = || points.iter().map(|p| self.expecting.runs(p.size).algorithm).collect();
        let clues = clues::clues(&facts.evidence, (self.query, run_by), &usual);
        let said = (facts, impossible.as_ref(), clues.as_slice());
        let lab = self.lab(&points, run_by);
        let lineup = suspects::line_up(&lab, ways, said);
        let mut verdict = ruled((self.query, self.only), points, lineup, impossible, facts);
        if verdict.health == Health::Healthy {
            let listed: Vec<&str> = verdict.causes.iter().map(|cause| cause.id).collect();
            verdict.notes.extend(clues::notes(&clues, &listed));
        }
        verdict
    }
}

/// The verdict on the measured times, with the suspects.
fn ruled(
    (query, only): (&Query, Option<Algo>),
    points: Vec<Point>,
    lineup: suspects::Lineup,
    impossible: Option<(Bytes, String)>,
    facts: &Facts,
) -> Verdict {
    let basis = points.iter().map(|p| p.expected.basis).max().unwrap_or(Basis::Modelled);
    let mut health = shape::health(&points);
    // Noise may push one region out of its band; all sizes together are then likelier without a cause.
    if health == Health::Slow && lineup.odds < 0.0 && shape::is_part(&points) {
        health = Health::Healthy;
    }
    // A shape that only causes have is stronger evidence than a wide band. If a log names the cause,
    // lower odds are enough.
    let enough = if lineup.named { UNSURE } else { CERTAIN };
    if health == Health::Healthy && (lineup.odds > enough || lineup.set || facts.shared_gpu) {
        health = Health::Slow;
    }
    let plateau = plateau::Plateau::of((query, facts.run_by(query), only), &points);
    if health == Health::Healthy && plateau.as_ref().is_some_and(|p| p.is_ill()) {
        health = Health::Slow;
    }
    if impossible.is_some() {
        health = Health::TooFast;
    }
    let mut side = shape::side(&points, health);
    // What cannot be is a call of one size, wherever the others are in their bands.
    if let Some((size, _)) = impossible.as_ref().filter(|_| side != Some(Side::Both)) {
        side = shape::side_of(&points, *size);
    }
    if facts.wrong > 0 {
        health = Health::WrongResults;
    }
    let ill = health != Health::Healthy;
    let mut causes: Vec<Cause> = Vec::new();
    for suspect in lineup.suspects.iter().filter(|_| ill) {
        // The likeliest form of a cause represents all its forms.
        let cause = suspect.cause(&points).filter(|c| causes.iter().all(|known| known.id != c.id));
        causes.extend(cause.filter(|_| causes.len() < 5));
    }
    let no_call = causes.iter().any(|c| c.id == "not-one-call");
    if facts.at_most {
        // Waiting explains the times, and its amount is unknown.
        causes.clear();
    }
    let mut ruling = ruling::rule(&points, health, facts, no_call);
    if ruling == Ruling::Ill && query.machine.has_nvls() && facts.wrong == 0 && !facts.sums() {
        ruling = Ruling::CannotTell;
    }
    if ruling == Ruling::Healthy && lineup.odds > UNSURE {
        ruling = Ruling::CannotTell;
    }
    if ruling == Ruling::CannotTell && health == Health::Healthy {
        let near =
            plateau.as_ref().is_some_and(|p| p.is_healthy()) && !points.iter().any(Point::is_late);
        ruling = if near { Ruling::Healthy } else { ruling };
    }
    if ruling == Ruling::Healthy && facts.broke() {
        ruling = Ruling::CannotTell;
    }
    let open = ruling == Ruling::CannotTell && !ill && !facts.at_most;
    let above = points.iter().any(|p| p.measured > p.expected.high);
    if open {
        // What the log itself names is said, even if the times neither show nor exclude it; above the band also what
        // the times are nearer to.
        for suspect in &lineup.suspects {
            let nearer = || suspect.cause(&points).filter(|_| above && causes.len() < POSSIBLE);
            let cause = suspect.named_cause(&points).or_else(nearer);
            let cause = cause.filter(|c| causes.iter().all(|known| known.id != c.id));
            causes.extend(cause.filter(|_| causes.len() < 5));
        }
    }
    // Times of other GPUs say nothing of the machine's.
    if facts.wrong == 0 && facts.other_gpus(query).is_some() {
        ruling = Ruling::CannotTell;
        causes.retain(|cause| cause.off.is_none());
    }
    // What a setting takes is no measurement, and its own note says where it comes from.
    let mut notes = notes(query, &points, basis, (facts, only));
    notes.extend(facts.other_gpus(query).map(|(gpus, own)| {
        let name = &query.machine.name;
        format!(
            "the log lists {gpus}, and {name} has {own}: name the machine that ran it with --on"
        )
    }));
    if let (Some(why), true) = (trays::said(&facts.evidence), is_apart(query)) {
        let each = query.placement.per_node;
        notes.push(format!(
            "{why}: NICs, not NVLink, join the hosts of a rack, as with --gpus-per-node {each}"
        ));
    }
    notes.extend(facts.caveats.iter().chain(&facts.damage).cloned());
    if ill && !causes.iter().any(|c: &Cause| c.id == "not-one-call") {
        notes.extend(impossible.map(|(_, why)| why));
    }
    notes.extend(facts.carried.as_ref().map(|carried| {
        format!(
            "no NIC, link or path to one is the cause: {carried}, over the same ranks of this log"
        )
    }));
    // Times that no machine reaches, or wrong results, show nothing.
    let real = matches!(health, Health::Healthy | Health::Slow);
    let carries = plateau.as_ref().filter(|p| real && p.is_full()).map(plateau::Plateau::words);
    let low = health == Health::Slow || open && above;
    notes.extend(plateau.filter(|_| low).map(|p| p.words()));
    if facts.at_most {
        notes.push(
            "the times are upper bounds: they include waiting for late ranks, so they can show \
             that a run is healthy, but never that it is ill"
                .to_owned(),
        );
    }
    let next = match ruling {
        Ruling::CannotTell => decide::steps(query, &points, facts),
        Ruling::Healthy | Ruling::Ill => Vec::new(),
    };
    Verdict {
        ruling,
        health,
        side,
        breaks: shape::breaks(query, &points).filter(|_| ill),
        points,
        basis,
        causes,
        next,
        notes,
        nodes: query.placement.nodes(),
        setting: None,
        carries,
    }
}

/// What another of the `judged` runs shows of the NICs that `run` uses, too, in words: that they carry what they can. It
/// is of the same log, ranks and variables. Nothing if no listed cause would slow each call whose bytes cross the NICs.
#[must_use]
pub fn shown_of_nics<'a>(
    run: &Run,
    verdict: &Verdict,
    judged: impl IntoIterator<Item = (&'a Run, &'a Verdict)>,
) -> Option<String> {
    // Behind the library's name there may be the kernel of a table.
    fn library(run: &Run) -> Option<&str> {
        run.library.as_deref()?.split(' ').next()
    }
    let alike = |other: &Run| {
        run.file == other.file
            && library(run) == library(other)
            && (run.ranks, run.nodes) == (other.ranks, other.nodes)
            && run.collective != other.collective
            && run.facts.evidence.variables() == other.facts.evidence.variables()
            // Groups of a job have their own ranks.
            && other.traced.is_empty()
    };
    let suspected = verdict.causes.iter().any(|cause| suspects::OF_NICS.contains(&cause.id));
    judged
        .into_iter()
        .filter(|(other, _)| suspected && alike(other))
        .find_map(|(other, its)| Some(format!("{} in {}", its.carries.as_ref()?, other.collective)))
}

impl Verdict {
    /// Of a run whose log does not say on how many nodes it was. If it is ill on those that it is compared with and not
    /// on another number of nodes, that is open. `on` judges it on others, if it can have been there.
    pub fn doubt_nodes(&mut self, ranks: u32, on: impl Fn(u32) -> Option<Self>) {
        // In between the ranks were counted by node.
        let counted = self.nodes > 1 && self.nodes != ranks;
        if self.ruling == Ruling::Healthy || counted {
            return;
        }
        let on_nodes = |nodes| match nodes {
            1 => "on one node".to_owned(),
            several => format!("on {several} nodes"),
        };
        let own = self.nodes;
        let open = format!(
            "the log does not say on how many nodes it ran: it is compared as if {}",
            on_nodes(own)
        );
        let ill = self.ruling == Ruling::Ill;
        let mut others = (1..=ranks).filter(|&nodes| nodes != own && ranks.is_multiple_of(nodes));
        // A ring that was forced is as slow as that.
        let as_set = |v: &Self| v.setting.as_ref().is_some_and(|s| v.causes == [s.cause()]);
        let fits =
            |nodes: &u32| on(*nodes).is_some_and(|v| v.health == Health::Healthy || as_set(&v));
        match ill.then(|| others.find(fits)).flatten() {
            Some(nodes) => {
                self.ruling = Ruling::CannotTell;
                self.next.insert(0, format!("say on how many nodes it ran: --nodes {nodes}"));
                self.notes.insert(0, format!("{open}; {} it would be healthy", on_nodes(nodes)));
            }
            None => self.notes.push(format!("{open} (--nodes)")),
        }
    }
}

/// Whether hosts of a rack are nodes of their own.
fn is_apart(query: &Query) -> bool {
    let Placement { per_node, ranks, .. } = query.placement;
    let hardware = query.machine.hardware.as_ref();
    hardware.is_some_and(|h| h.is_rack() && per_node <= h.host()) && ranks > per_node
}

/// The size whose time is impossible, and why: no algorithm is that fast on the machine.
fn impossible((query, run_by): (&Query, RunBy), points: &[Point]) -> Option<(Bytes, String)> {
    let shape = &query.shape;
    // A bound holds for what NICs carry, even if less was ever reached, and for the least α that is known of the machine.
    let mut fabric = query.machine.fabric_at_least_alpha();
    if let (Some(tier), Some(nic)) = (fabric.tiers.last_mut(), plateau::nic(&query.machine))
        && query.placement.nodes() > 1
        && tier.link.bandwidth.is_some_and(|reached| reached < nic.rate)
    {
        tier.set_bandwidth(nic.rate);
    }
    // A root that only sends starts the next call before the others have finished this one: calls overlap. So do ranks
    // that only send, of which benchmarks of MPI print the mean with the root.
    let overlap = match shape.collective {
        Collective::Broadcast | Collective::Scatter => true,
        Collective::Reduce | Collective::Gather => run_by.is_mpi(),
        _ => false,
    };
    points.iter().find_map(|p| {
        // What runs of such machines take is possible, whatever the machine's parameters say.
        if p.measured >= p.expected.low {
            return None;
        }
        let least = bound(shape, Volume::from(p.size), &fabric).ok()?;
        // A machine's parameters are known to 10 % at best. What a message over TCP takes is the kernel's and the
        // virtual machine's: they differ by a factor of 2.
        let tcp = query.machine.network == Some(NetworkKind::Tcp) && query.placement.nodes() > 1;
        let known = if tcp { 0.5 } else { 0.8 };
        let at_least = if overlap { least.bandwidth } else { least.time() };
        let end = if overlap { "" } else { " with α at its low end" };
        if p.measured.0 < known * at_least.0 {
            let gpus =
                "a CUDA graph, several operations in one call (nccl-tests -m), ";
            let why = format!(
                "{} at {} is below the lower bound of {at_least}{end}; possible reasons: {}a size in \
                 another convention, or links faster than the profile's",
                p.measured,
                p.size,
                if run_by.is_mpi() { "" } else { gpus }
            );
            return Some((p.size, why));
        }
        // A launch is fitted, and a root that only sends is soon ready for the next call. But no separate
        // call takes less than half of this, or less than half of the measured or priced time.
        let call = fabric.launch + least.latency;
        let half = 0.5 * call.0.min(p.expected.low.0);
        (!overlap && p.measured.0 < half).then(|| {
            let gpus = "a CUDA graph avoids the launch, nccl-tests -m merges several operations into \
                        one, and ";
            let why = format!(
                "{} at {} is less than half of the {call} that a launch and the fewest possible \
                 messages take: this was not one separate call; {}without a wait the clock stops \
                 before the end",
                p.measured,
                p.size,
                if run_by.is_mpi() { "" } else { gpus }
            );
            (p.size, why)
        })
    })
}

/// Up to this size bytes take less than a tenth of the time on every machine.
const LATENCY_ALONE: Bytes = Bytes(4096);

fn notes(
    query: &Query,
    points: &[Point],
    basis: Basis,
    (facts, only): (&Facts, Option<Algo>),
) -> Vec<String> {
    let mut notes = Vec::new();
    let is_barrier = query.shape.collective == Collective::Barrier;
    if basis == Basis::Modelled && only.is_none() {
        // A fit needs sizes.
        let fit = if is_barrier { "" } else { "; fit a healthy log for a narrow one" };
        notes.push(format!(
            "there are no measurements of this: the expectation comes from the cost model, and its \
             band is wide{fit}"
        ));
    }
    if !is_barrier && !points.is_empty() && points.iter().all(|p| p.size <= LATENCY_ALONE) {
        notes.push(
            "sizes this small measure only latency: neither they nor their busbw say anything \
             about bandwidth"
                .to_owned(),
        );
    }
    notes.extend(racks(query));
    notes.extend(above_the_link(query, points, (facts, only)));
    notes
}

/// What nodes are where a node is a rack of several hosts.
fn racks(query: &Query) -> Option<String> {
    let hardware = query.machine.hardware.as_ref().filter(|h| h.is_rack())?;
    let (name, nodes) = (&query.machine.name, query.placement.nodes());
    match query.nodes_are {
        Some(NodesAre::Racks { hosts }) => Some(format!(
            "{hosts} nodes are taken for hosts of {name}, which NVLink joins within a rack"
        )),
        _ if nodes > 1 && query.placement.per_node > hardware.host() => {
            Some(format!("a node of {name} is a rack: {nodes} racks"))
        }
        _ => None,
    }
}

/// The note for a busbw above the rate of the links; a ring that variables force sends all that busbw counts.
fn above_the_link(
    query: &Query,
    points: &[Point],
    (facts, only): (&Facts, Option<Algo>),
) -> Option<String> {
    use Collective::AllReduce;
    let (shape, nodes) = (&query.shape, query.placement.nodes());
    let factor = shape.collective.busbw_factor(shape.ranks);
    let most = |time: fn(&Point) -> Seconds| {
        let busbw = points.iter().map(|p| Volume::from(p.size).0 * factor.0 / time(p).0);
        busbw.fold(0.0, f64::max)
    };
    let expected = most(|p| p.expected.time);
    let most = most(|p| p.measured);
    let tiers = &query.machine.fabric.tiers;
    let (link, what) = match nodes {
        1 => (tiers.first()?.link.bandwidth?, "one link"),
        _ => {
            let nics = tiers.last()?.nics.map_or(1, |n| n.get());
            (plateau::nic(&query.machine)?.rate * Ratio(f64::from(nics)), "all NICs of a node")
        }
    };
    // Link parameters are known to a few percent.
    if most <= 1.03 * link.0 || shape.collective != AllReduce {
        return None;
    }
    let adds = tiers.iter().any(|t| t.switch.as_ref().is_some_and(|s| s.alu));
    let forced = only.or_else(|| {
        let set = setting::Forced::of(query, facts.run_by(query), &facts.evidence);
        set.and_then(|forced| forced.algorithm)
    });
    let why = match nodes {
        _ if forced == Some(Algo::Ring) => {
            "the variables leave a ring, which sends all that busbw counts: the links are faster than these"
        }
        2 | 3 if adds => {
            "a tree over two nodes sends M over the NICs, not 2(N - 1)/N·M, and NVLS reduces in \
             the switch: busbw counts more bytes than move"
        }
        2 | 3 => {
            "a tree over two nodes sends M over the NICs, not 2(N - 1)/N·M: busbw counts more bytes than move"
        }
        _ if adds => {
            "switches reduce (NVLS, SHARP): busbw counts 2(N - 1)/N·M, a port moves M once"
        }
        1 if query.machine.hardware.as_ref().is_some_and(|h| h.is_staged(shape.ranks)) => {
            "GPUs that access each other's memory (a driver with P2P) do that, and the profile has them go through the \
             host's; so do faster links"
        }
        // The curve or the knots of the machine are above its one rate as well.
        1 if expected > 1.03 * link.0 => return None,
        1 => "only faster links than these, or a switch that reduces, can do that",
        _ => "only in-network reduction (SHARP) or faster links than these can do that",
    };
    Some(format!("busbw of {} is above {what} ({link}): {why}", Bandwidth(most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::query::{Given, Layout, Machine};
    use crate::model::formula::Params;

    /// The verdict on all-reduces of 16 hosts on the network.
    fn verdict(times: &[(u64, f64)], alpha: Option<Seconds>) -> Verdict {
        let given = Given { alpha, ..Given::default() };
        let profile = Profile::builtin("ib-hdr").unwrap();
        let machine = Machine::on(&profile, "test", &given, Collective::AllReduce).unwrap();
        let layout = Layout { ranks: std::num::NonZeroU32::new(16), ..Layout::default() };
        let query = Query::new(machine, Collective::AllReduce, Bytes(0), layout, Params::default())
            .unwrap();
        let times: Vec<_> = times.iter().map(|&(m, us)| (Bytes(m), Seconds(us * 1e-6))).collect();
        let facts = Facts { run_by: Some(RunBy::Hosts), ..Facts::default() };
        judge(&Registry::builtin(), &query, None, false, &times, &facts).unwrap()
    }

    /// Published times of OSU on Lassen: four messages at the low end of the profile's α take 5.24 µs.
    #[test]
    fn a_time_above_the_low_end_of_alpha_is_possible() {
        let times = [(4, 4.76), (64, 4.73), (1024, 6.70)];
        let seen = verdict(&times, None);
        assert!(seen.health != Health::TooFast && seen.ruling != Ruling::Ill, "{seen:?}");
        // An α that a person gives is taken at its word, and the side is that of the size that cannot be.
        let given = verdict(&times, Some(Seconds(1.57e-6)));
        assert_eq!((given.health, given.side), (Health::TooFast, Some(Side::Latency)), "{given:?}");
        let less = verdict(&[(4, 2.0), (64, 2.1), (1024, 6.70)], None);
        assert_eq!((less.ruling, less.side), (Ruling::Ill, Some(Side::Latency)), "{less:?}");
    }
}
