//! The expected time of a call: the only place that computes it, for every verb.
//!
//! ```text
//! measured      a curve of this machine, library and collective
//! same board    measurements of the same board elsewhere, or of another one of its generation
//! transferred   a launch floor and a pipelined hierarchy, with corrections from all measured machines
//! modelled      an ideal price over the machine's links, if nothing else applies
//! ```
//!
//! The first that has an answer is used. 8 of 10 real times are between `low` and `high`;
//! both come from errors on held-out machines (docs/background/accuracy.md). The ideal price of an
//! algorithm is not an expectation: it is in [`crate::cost::price`].

mod dispatches;
mod experts;
mod ideal;
mod kernels;
mod knots;
mod runs;
mod seen;
mod threads;
mod transfer;
mod view;

pub(crate) use experts::hit;
pub use experts::{ExpertTimes, RawTokens, Tokens};
pub use ideal::{Ideal, NOTHING, Priced};
pub use kernels::{KernelTimes, Kernels, LeftOut, RawTimes, Regret};
pub use runs::{Rules, Runs, site};
pub use view::{Error as StatedError, Expect};

pub use transfer::{Clusters, Learned, Smooth, Study, smooth};

use runs::Ruler;
use threads::Starts;
use transfer::{Features, Transfer};

use std::num::NonZeroU32;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::order::sorted;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::base::stats::quantile;
use crate::cost::bound::bound;
use crate::machine::curve::{Curve, Reach};
use crate::machine::fabric::{Fabric, TierKind};
use crate::machine::placement::Placement;
use crate::machine::profile::{Calibration, Generation, line_rate};
use crate::machine::query::{Machine, NodesAre, Query};
use crate::machine::sample::DataType;
use crate::model::algorithm::{Library, Registry};
use crate::model::formula::{Params, Shape};

/// What an expectation is based on, the most certain first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Basis {
    /// A curve of this machine, library and collective.
    Measured,
    /// A curve of the same board elsewhere, or of one of its generation whose GPUs are connected alike.
    SameBoard,
    /// The library's structure, with factors learned from other measured machines.
    Transferred,
    /// An ideal price, if nothing else applies.
    Modelled,
}

impl Basis {
    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::SameBoard => "same board",
            Self::Transferred => "transferred",
            Self::Modelled => "modelled",
        }
    }
}

/// |expected/measured − 1| on held-out data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut {
    /// The median.
    pub median: Ratio,
    /// The 90th percentile.
    pub p90: Ratio,
}

impl HeldOut {
    /// From the p10 and p90 of measured over expected times: a tenth is below the first, and a tenth is
    /// above the second.
    fn of(mut ratios: Vec<f64>) -> (Self, (f64, f64)) {
        ratios.sort_by(f64::total_cmp);
        let errors = sorted(ratios.iter().map(|r| (1.0 / r - 1.0).abs()));
        let part = |p| Ratio(quantile(&errors, p));
        let band = (quantile(&ratios, 0.1), quantile(&ratios, 0.9));
        (Self { median: part(0.5), p90: part(0.9) }, band)
    }
}

/// An expected time, with the band that contains 8 of 10 real ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// The median.
    pub time: Seconds,
    /// A tenth of real times is shorter.
    pub low: Seconds,
    /// A tenth is longer.
    pub high: Seconds,
    /// What it is based on.
    pub basis: Basis,
    /// For a curve: how far the size is from its measurements.
    pub reach: Option<Reach>,
    /// The held-out error of this basis; absent if it is unknown.
    pub error: Option<HeldOut>,
}

impl Expectation {
    fn sure(time: Seconds) -> Self {
        let basis = Basis::Modelled;
        Self { time, low: time, high: time, basis, reach: None, error: None }
    }

    /// The same, longer by one factor.
    #[must_use]
    pub fn times(self, factor: Ratio) -> Self {
        let Self { time, low, high, .. } = self;
        Self { time: time * factor, low: low * factor, high: high * factor, ..self }
    }

    /// How far its band extends to its wider side, as a logarithm: the other may end where the links do.
    pub(crate) fn half(&self) -> f64 {
        (self.high.0 / self.time.0).ln().max((self.time.0 / self.low.0).ln())
    }

    /// The same, if a call starts so much later.
    fn later(self, launch: Seconds) -> Self {
        let Self { time, low, high, .. } = self;
        Self { time: time + launch, low: low + launch, high: high + launch, ..self }
    }

    /// The same with a band that is wider by a factor on both sides.
    fn wider(self, by: f64) -> Self {
        Self { low: self.low * Ratio(1.0 / by), high: self.high * Ratio(by), ..self }
    }
}

/// How many octaves lie between two sizes.
fn octaves_apart(a: Bytes, b: Bytes) -> f64 {
    let octave = |size: Bytes| (size.0.max(1) as f64).log2();
    (octave(a) - octave(b)).abs()
}

/// Expectations for one machine, collective and placement, at any size.
pub struct Expecting<'r> {
    placement: Placement,
    collective: Collective,
    /// The bytes of the call that a program makes instead of this one, of another collective.
    instead: Option<Bytes>,
    curve: Option<Curve>,
    /// What was learned from measured machines about this one.
    transfer: Option<Transfer>,
    /// Whether what GPUs of a node send each other passes through the host's memory.
    staged: bool,
    /// Whether a tier without a curve is assumed to be like the other one.
    unseen: bool,
    ideal: Ideal<'r>,
    /// Whether the user gave all parameters of the machine: then their price is the answer.
    is_given: bool,
    /// The multiples of an ideal price between which 8 of 10 real times are.
    around: (Ratio, Ratio),
    /// The fit of its links, and the α of the outermost.
    fit: Option<(Calibration, Seconds)>,
    /// The same on the machine before its parameters were changed; and on this one, if some are unknown. Both
    /// have the usual latencies in their place.
    both: Option<(Ideal<'r>, Option<Ideal<'r>>)>,
    /// Whether the library may use one protocol alone; and if its rules are known, what it runs otherwise,
    /// which is what was measured.
    limited: bool,
    free: Option<Ruler>,
    /// Only this algorithm: its price, to compare with that of what the library runs.
    named: Option<Ideal<'r>>,
    /// Whether neither the machine nor an algorithm was given other parameters, of which the library's own
    /// latencies know nothing.
    as_it_is: bool,
    /// What the starts of several GPUs by one thread add.
    starts: Option<Starts>,
    /// Measurements of this very call.
    seen: Vec<(Bytes, Seconds)>,
    /// The least time per byte by the machine's parameters, in seconds.
    least: f64,
    /// The same before parameters were changed; absent if none was.
    least_before: Option<f64>,
}

impl<'r> Expecting<'r> {
    /// Gets ready for `query`, whatever its size.
    ///
    /// # Errors
    /// A parameter that a price needs is unknown and nothing else applies, or there is no algorithm.
    pub fn new(registry: &'r Registry, query: &Query) -> Result<Self> {
        Self::with(registry, query, None, None)
    }

    /// The same for one named algorithm instead of what the library runs.
    ///
    /// # Errors
    /// As [`Self::new`]; also an unknown algorithm, or one that does not apply.
    pub fn of(registry: &'r Registry, query: &Query, algorithm: Option<&str>) -> Result<Self> {
        Self::with(registry, query, algorithm, None)
    }

    /// The same for elements of `dtype`, which matters if a machine's curves distinguish types.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn with(
        registry: &'r Registry,
        query: &Query,
        algorithm: Option<&str>,
        dtype: Option<DataType>,
    ) -> Result<Self> {
        let other = if algorithm.is_none() { instead(query) } else { None };
        let instead = other.as_ref().map(|other| other.size);
        let query = other.as_ref().unwrap_or(query);
        let machine = &query.machine;
        let placed = query.placement.placed();
        let transfer = transfer(query, Learned::built_in());
        let curve = machine.curve(query.shape.collective, dtype, placed).cloned();
        let known = curve.is_some() || transfer.is_some();
        let ideal = match known {
            true => Ideal::beside(registry, query, &machine.fabric),
            false => Ideal::new(registry, query, &machine.fabric, None)?,
        };
        let changed = machine.stock.as_ref().filter(|stock| **stock != machine.fabric);
        let is_changed = changed.is_some();
        // What was learned of hosts goes by the network and the prices as they are now.
        let of_hosts = transfer.as_ref().is_some_and(Transfer::is_of_hosts) && curve.is_none();
        let changed = changed
            .filter(|_| known && !of_hosts)
            .map(|stock| [stock, &machine.fabric].map(Fabric::or_usual));
        let both = changed.as_ref().map(|[stock, now]| {
            let before = match machine.with_all_nics() {
                Some(machine) => {
                    Ideal::beside(registry, &Query { machine, ..query.clone() }, stock)
                }
                None => Ideal::beside(registry, query, stock),
            };
            let other = *now != machine.fabric;
            (before, other.then(|| Ideal::beside(registry, query, now)))
        });
        let (least_before, least) = match &changed {
            Some(both) => {
                let [stock, now] = both.each_ref().map(|fabric| least(query, fabric));
                (Some(stock), now)
            }
            None => (None, least(query, &machine.fabric)),
        };
        let free = machine.protocol.filter(|_| known).and_then(|_| {
            let machine = Machine { protocol: None, ..machine.clone() };
            Ruler::new(&Query { machine, ..query.clone() })
        });
        let named = match algorithm {
            Some(name) => Some(Ideal::new(registry, query, &machine.fabric, Some(name))?),
            None => None,
        };
        let mut made = Self {
            starts: None,
            placement: query.placement,
            collective: query.shape.collective,
            instead,
            curve,
            transfer,
            staged: machine
                .hardware
                .as_ref()
                .is_some_and(|h| h.is_staged(query.placement.per_node)),
            unseen: false,
            seen: query.seen.clone(),
            least,
            least_before,
            ideal,
            is_given: machine.stock.is_none(),
            around: around(query),
            fit: machine.fit.clone().zip(machine.fabric.tiers.last().and_then(|t| t.link.alpha)),
            both,
            limited: machine.protocol.is_some() && known,
            free,
            as_it_is: !is_changed && query.given == Params::default(),
            named,
        };
        if let Some(gpus) = machine.gpus_per_thread.filter(|_| known) {
            let vendor =
                machine.hardware.as_ref().and_then(|h| h.generation).map(Generation::vendor);
            let gpus = gpus.min(NonZeroU32::new(query.placement.per_node).unwrap_or(gpus));
            let least = made.unmoved(Bytes(1)).time;
            made.starts = vendor.and_then(|vendor| Starts::of(gpus, vendor, least));
        }
        made.refuse_impossible()?;
        Ok(made)
    }

    /// Uses what was learned from other measured machines than the built-in ones.
    #[must_use]
    pub fn taught(mut self, query: &Query, learned: &Learned) -> Self {
        self.transfer = transfer(query, learned);
        self
    }

    /// Assumes that a tier without a curve is like the other one.
    #[must_use]
    pub fn unseen_tier(mut self, unseen: bool) -> Self {
        self.unseen = unseen;
        self
    }

    /// Whether measurements apply, of this machine or of others.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.curve.is_some() || self.transfer.is_some()
    }

    /// The expected time of `size` bytes.
    #[must_use]
    // A program asks a million sizes: inlined, what it does not read of each answer is not written.
    #[inline]
    pub fn at(&self, size: Bytes) -> Expectation {
        let size = self.instead.unwrap_or(size);
        if self.idle(size).is_some() {
            return Expectation::sure(Seconds(0.0));
        }
        let mut expected = self.unmoved(size);
        if !self.seen.is_empty() {
            expected = self.in_order(self.on_links(self.moved(expected, size), size), size);
        }
        if let Some(named) = &self.named {
            expected = self.forced(named, expected, size);
        }
        expected
    }

    /// The same if the library may run only the algorithm of `named`.
    pub(crate) fn with_only(&self, named: &Ideal<'_>, size: Bytes) -> Expectation {
        self.forced(named, self.at(size), self.instead.unwrap_or(size))
    }

    /// No faster than the links can be, unless a measurement shows that they are faster than is known.
    #[inline]
    fn on_links(&self, expected: Expectation, size: Bytes) -> Expectation {
        // A rate that was fitted to a whole curve is a mean over what the library ran.
        let is_own = expected.basis == Basis::Measured && self.transfer.is_none();
        let beaten = self.seen.iter().any(|&(seen, time)| time < self.floor(seen));
        let floor = if beaten || is_own { 0.0 } else { self.floor(size).0 };
        let at_least = |t: Seconds| Seconds(t.0.max(floor));
        let Expectation { time, low, high, .. } = expected;
        Expectation { time: at_least(time), low: at_least(low), high: at_least(high), ..expected }
    }

    /// `moved`, what is expected on links that are stated to be slower than the machine's, and no less than they
    /// can be; `known` is what is expected on the machine's own.
    ///
    /// Runs may be faster by some ratio than the machine's parameters say. What is stated is a limit all the same
    /// where it is slower by that ratio; up to there the limit goes with its square, so that it begins at the line
    /// rate.
    fn slowed(&self, known: Expectation, moved: Expectation, size: Bytes) -> Expectation {
        let (Some(transfer), Some(before)) = (&self.transfer, self.least_before) else {
            return moved;
        };
        let (line, stated) = (transfer.floor(size).0, self.least / before);
        if stated <= 1.0 || line <= 0.0 {
            return moved;
        }
        let limit = (self.least * size.0 as f64).min(line * stated * stated);
        // What a run takes beyond the line rate it takes beyond the limit, as far as the line held it up.
        let beyond = line * (1.0 - line / known.time.0.max(line));
        let time = Seconds(moved.time.0.max(limit + beyond));
        let low = Seconds(moved.low.0.max(limit));
        Expectation { time, low, high: moved.high * Ratio(time.0 / moved.time.0), ..moved }
    }

    /// What the links take for the least data that any algorithm moves: at their line rate where that is
    /// known, else by the machine's parameters, unless these were fitted and have errors of their own. A
    /// higher rate that is given is a limit only beyond the line rate; for a lower one see [`Self::slowed`].
    #[inline]
    fn floor(&self, size: Bytes) -> Seconds {
        let least = Seconds(self.least * size.0 as f64);
        match (&self.transfer, self.least_before) {
            (Some(transfer), None) => transfer.floor(size),
            (Some(transfer), Some(_)) => Seconds(least.0.min(transfer.floor(size).0)),
            _ if self.fit.is_some() => Seconds(0.0),
            _ => least,
        }
    }

    /// Why a call communicates nothing, if so. NCCL discards a call of 0 bytes (taskAppend in src/enqueue.cc),
    /// Open MPI and MPICH return from it at once; a barrier has none, and a message of 0 bytes is sent.
    pub(crate) fn idle(&self, size: Bytes) -> Option<&'static str> {
        let size = self.instead.unwrap_or(size);
        let needs_bytes = !matches!(self.collective, Collective::Barrier | Collective::SendRecv);
        match (self.placement.ranks, size) {
            (0 | 1, _) => Some("one rank communicates nothing"),
            (_, Bytes(0)) if needs_bytes => Some("a call of 0 bytes returns at once"),
            _ => None,
        }
    }

    /// The expectation before any measurement is used.
    #[inline]
    fn unmoved(&self, size: Bytes) -> Expectation {
        let expected = match (self.known(size), &self.both) {
            (Some(known), None) => self.limited(known, size),
            (Some(known), Some((before, now))) => {
                let now = now.as_ref().unwrap_or(&self.ideal);
                self.slowed(known, self.limited(changed(before, now, known, size), size), size)
            }
            (None, _) => self.modelled(size),
        };
        let expected = self.on_links(expected, size);
        match self.starts {
            Some(starts) => starts.on(expected),
            None => expected,
        }
    }

    /// The expectation if the library may use one protocol alone: other by as much as its own estimate is.
    fn limited(&self, known: Expectation, size: Bytes) -> Expectation {
        let free = self.free.as_ref().and_then(|ruler| ruler.choose(size)?.estimate);
        let (Some(free), Some(limited)) = (free, self.ideal.estimate(size)) else { return known };
        if free == limited {
            return known;
        }
        let ratio = limited.0 / free.0;
        let moved = known.times(Ratio(ratio)).wider(ratio.max(1.0 / ratio).sqrt());
        Expectation { basis: known.basis.max(Basis::Transferred), error: None, ..moved }
    }

    /// The time alone.
    #[must_use]
    pub fn time(&self, size: Bytes) -> Seconds {
        self.at(size).time
    }

    /// busbw of a call of `size` bytes that takes `time`; `None` without bytes, time or partner.
    #[must_use]
    pub fn busbw(&self, size: Bytes, time: Seconds) -> Option<Bandwidth> {
        let ranks = self.placement.ranks;
        let moves = size.0 > 0 && time.0 > 0.0 && ranks > 1;
        moves.then(|| Volume::from(size) / time * self.collective.busbw_factor(ranks))
    }

    /// What the library runs for `size` bytes, and how that is known.
    #[must_use]
    pub fn runs(&self, size: Bytes) -> Runs {
        let size = self.instead.unwrap_or(size);
        match &self.named {
            _ if self.idle(size).is_some() => Runs::nothing(),
            Some(named) => Runs::asked(named.at(size)),
            None => self.ideal.runs(size),
        }
    }

    /// What the library runs by its rules, each from a size on; `None` if the rules are unknown.
    #[must_use]
    pub fn switch_points(&self) -> Vec<(Bytes, String)> {
        let is_one = self.named.is_some() || self.instead.is_some();
        if is_one { Vec::new() } else { self.ideal.switch_points() }
    }

    /// The library's own estimate of what it runs.
    #[must_use]
    pub fn estimate(&self, size: Bytes) -> Option<Seconds> {
        let size = self.instead.unwrap_or(size);
        if self.named.is_some() { None } else { self.ideal.estimate(size) }
    }

    /// The time of what the library runs over ideal links as it pipelines it: the size of its own
    /// segments, sent before the ones ahead have arrived, and no less latency than it counts itself.
    /// `None` if that is not known. It is an ideal time: nothing in it was measured on such calls.
    #[must_use]
    pub fn pipelined(&self, size: Bytes) -> Option<Seconds> {
        let size = self.instead.unwrap_or(size);
        if self.named.is_some() { None } else { self.ideal.pipelined(size) }
    }

    /// The source of an expectation in words.
    #[must_use]
    pub fn known_from(&self, expected: &Expectation, size: Bytes) -> String {
        let size = self.instead.unwrap_or(size);
        if let Some(why) = self.idle(size) {
            return why.to_owned();
        }
        let on = match self.transfer.as_ref().and_then(|transfer| transfer.other_ranks(size)) {
            Some((fewer, Some(more))) => format!(" on {fewer} and {more} ranks"),
            Some((most, None)) => format!(" on at most {most} ranks"),
            None => String::new(),
        };
        let from = match expected.basis {
            Basis::Measured => match &self.curve {
                Some(curve) => {
                    let source = curve.source.split([';', ':']).next().unwrap_or_default();
                    let reach = expected.reach.map_or("", Reach::words);
                    format!("measurements of this machine ({source}; {reach})")
                }
                None => "measurements of this machine".to_owned(),
            },
            Basis::SameBoard if self.transfer.as_ref().is_some_and(|t| !t.has_board(size)) => {
                format!("another board of its generation, measured elsewhere{on}")
            }
            Basis::SameBoard => format!("the same board, measured elsewhere{on}"),
            Basis::Transferred if self.staged => format!(
                "other measured machines{on}, not this one: here buffers pass through host memory, which may \
                 take twice as long"
            ),
            Basis::Transferred if self.is_raised(size) => {
                "other measured machines, not this one, and the price of what runs, which is higher".to_owned()
            }
            Basis::Transferred => format!("other measured machines{on}, not this one"),
            Basis::Modelled if self.is_given => {
                "the ideal price over the given parameters: no machine, no band".to_owned()
            }
            Basis::Modelled if self.named.is_some() && self.is_of_hosts() => {
                match self.named.as_ref().is_some_and(Ideal::is_by_switches) {
                    true => "its ideal price: nothing similar was measured".to_owned(),
                    false => "other measured machines, whatever they ran, or its price where that is higher".to_owned(),
                }
            }
            Basis::Modelled if self.named.is_some() && self.is_learned() => {
                let asked = self.named.as_ref().map_or(NOTHING, |named| named.at(size).id);
                let by = match self.shift(asked, &self.unmoved(size), size) {
                    Shift::Model(_) => {
                        "shifted as its own latencies and the ideal rates of both differ"
                    }
                    Shift::Prices => "shifted as the ideal prices differ",
                    Shift::Unknown => "whose rules are not known here: it may run this algorithm",
                };
                format!("the time of what the library runs by default, {by}")
            }
            Basis::Modelled if self.fit.is_some() => {
                "what runs, over this machine's links as measured".to_owned()
            }
            Basis::Modelled if self.around == ON_GPUS => {
                "the ideal price of what runs; if this library copies through the host, many times that"
                    .to_owned()
            }
            Basis::Modelled => {
                "the ideal price of what runs: nothing similar was measured".to_owned()
            }
        };
        let from = match self.instead {
            Some(size) => {
                let library = self.ideal.library().unwrap_or(Library::Nccl);
                format!(
                    "{library} has no barrier, PyTorch's is an all-reduce of one element ({size}): {from}"
                )
            }
            None => from,
        };
        let from = match self.limited && self.estimate(size).is_none() {
            true => format!("{from}, by whatever protocol the library chose"),
            false => from,
        };
        let from = match self.starts {
            Some(_) => format!("{from}, and the starts of one thread, a GPU after another"),
            None => from,
        };
        let from = match self.nearest_seen(size) {
            Some((seen, time)) if self.surprise(seen, time).1 == 0.0 => {
                format!("{from}, and {time} seen at {seen}")
            }
            Some((seen, time)) => {
                let band = self.unmoved(seen);
                format!(
                    "{from}, and {time} seen at {seen}: far from {} to {}, so other sizes take only part of it",
                    band.low, band.high
                )
            }
            None => from,
        };
        match expected.error {
            Some(HeldOut { median, p90 }) => format!(
                "{from}; held-out error {:.0} % (9 of 10 within {:.0} %)",
                100.0 * median.0,
                100.0 * p90.0
            ),
            None => from,
        }
    }

    /// The ideal price of what runs.
    #[must_use]
    pub fn ideal(&self, size: Bytes) -> Priced {
        let size = self.instead.unwrap_or(size);
        let priced = self.named.as_ref().unwrap_or(&self.ideal).at(size);
        match self.instead {
            Some(_) => Priced { id: NOTHING, title: NOTHING, stands_in: false, ..priced },
            None => priced,
        }
    }

    /// The expectation from measurements of the unchanged machine.
    #[inline]
    fn known(&self, size: Bytes) -> Option<Expectation> {
        // A message of no bytes takes what the smallest takes, and so does a barrier.
        let size = size.max(Bytes(1));
        self.measured(size).or_else(|| {
            let transfer = self.transfer.as_ref()?;
            let told = transfer.at(size);
            Some(match self.staged {
                _ if transfer.is_of_hosts() => self.as_it_runs(told, size),
                true => Expectation { high: told.high * STAGED, error: None, ..told },
                false => told,
            })
        })
    }

    /// What was learned of hosts, with the price of what the library's rules choose.
    fn as_it_runs(&self, told: Expectation, size: Bytes) -> Expectation {
        match self.ideal.is_by_rules(size) {
            true => self.as_dear(told, &self.ideal, size),
            false => told.later(self.ideal.launch()),
        }
    }

    /// What was learned of hosts knows nothing of algorithms. One whose price is above what others took takes longer,
    /// too: see [`CHEAPER`].
    fn as_dear(&self, told: Expectation, what: &Ideal<'_>, size: Bytes) -> Expectation {
        let above = what.above(told.time, size);
        let raised = (above - CHEAPER * above.min(1.0)).exp();
        let moved = told.times(Ratio(raised)).wider((CHEAPER * above.min(1.5)).exp());
        // Nothing like it was held out.
        Expectation { error: told.error.filter(|_| above <= 0.0), ..moved.later(what.launch()) }
    }

    /// The expectation from this machine's own curve.
    fn measured(&self, size: Bytes) -> Option<Expectation> {
        let curve = self.curve.as_ref()?;
        let placed = self.placement.placed();
        let told = match self.unseen {
            true => curve.expect_unseen(placed, size),
            false => curve.expect(placed, size).ok()?,
        };
        Some(Expectation {
            time: told.time,
            low: told.low,
            high: told.high,
            basis: Basis::Measured,
            reach: Some(told.reach),
            error: None,
        })
    }

    /// What runs over the machine's links, with the band of their fit, or else that of ideal prices.
    fn modelled(&self, size: Bytes) -> Expectation {
        self.over_links(self.ideal.at(size).time)
    }

    /// The same of a time over the machine's links.
    fn over_links(&self, time: Seconds) -> Expectation {
        if self.is_given {
            return Expectation::sure(time);
        }
        let fitted = self.fit.as_ref().and_then(|(fit, alpha)| fit.band(time, *alpha));
        let (low, high) = fitted.unwrap_or((time * self.around.0, time * self.around.1));
        Expectation { low, high, ..Expectation::sure(time) }
    }

    /// Whether what runs costs more than hosts take otherwise.
    pub(crate) fn is_raised(&self, size: Bytes) -> bool {
        let size = size.max(Bytes(1));
        let is_dearer = |hosts: &Transfer| self.ideal.above(hosts.at(size).time, size) > 0.0;
        self.of_hosts().is_some_and(|hosts| self.ideal.is_by_rules(size) && is_dearer(hosts))
    }

    /// Whether something that is not known here decides before the rules that say what runs.
    pub(crate) fn is_overruled(&self) -> bool {
        self.ideal.is_overruled()
    }

    /// An algorithm that was asked for.
    fn forced(&self, named: &Ideal<'_>, expected: Expectation, size: Bytes) -> Expectation {
        self.carried(named, self.instead_of(named, expected, size), size)
    }

    /// What was learned of runs of this algorithm and others takes no less than its bytes at the line rate of the links,
    /// unless what was seen is this algorithm's.
    fn carried(&self, named: &Ideal<'_>, expected: Expectation, size: Bytes) -> Expectation {
        let learned = self.transfer.is_some() && self.curve.is_none();
        let is_seen = !self.seen.is_empty() && self.ideal.at(size).id == named.at(size).id;
        let Some(bytes) = named.bytes(size).filter(|_| learned && !is_seen) else {
            return expected;
        };
        let moved = match expected.time < bytes {
            true => expected.times(Ratio(bytes.0 / expected.time.0)),
            false => expected,
        };
        Expectation { low: Seconds(moved.low.0.max(bytes.0)), ..moved }
    }

    /// What was learned of hosts, if that answers.
    fn of_hosts(&self) -> Option<&Transfer> {
        self.transfer.as_ref().filter(|transfer| transfer.is_of_hosts() && self.curve.is_none())
    }

    /// Whether it is expected as MPI between hosts of others.
    pub(crate) fn is_of_hosts(&self) -> bool {
        self.of_hosts().is_some()
    }

    /// An algorithm that was asked for, as its price and the library's own latencies say.
    fn instead_of(&self, named: &Ideal<'_>, expected: Expectation, size: Bytes) -> Expectation {
        let (own, asked) = (self.ideal.at(size), named.at(size));
        let hosts = self.of_hosts();
        if own.id == asked.id && (hosts.is_none() || self.ideal.is_by_rules(size) && !own.stands_in)
        {
            return expected;
        }
        if let Some(hosts) = hosts {
            // In switches nobody's hosts added.
            if named.is_by_switches() {
                return self.over_links(asked.time);
            }
            let seen = expected.time / self.unmoved(size).time;
            let told = self.as_dear(hosts.at(size.max(Bytes(1))).times(seen), named, size);
            return Expectation { basis: Basis::Modelled, error: None, ..told };
        }
        // Over fitted links each has a time of its own, and the band of that.
        if expected.basis == Basis::Modelled && self.fit.is_some() {
            return self.over_links(asked.time).times(expected.time / own.time);
        }
        // If what runs has no price, nothing says by how much.
        let by_prices = Ratio(if own.time.0 > 0.0 { (asked.time / own.time).0 } else { 1.0 });
        let (time, apart) = match self.shift(asked.id, &expected, size) {
            Shift::Model(ratio) => (expected.time.0 * ratio.0, ratio),
            Shift::Prices => {
                let by_ratio = expected.time.0 * by_prices.0;
                let by_difference = (expected.time.0 + asked.time.0 - own.time.0).max(asked.time.0);
                ((by_ratio * by_difference).sqrt(), Ratio(by_ratio / by_difference))
            }
            Shift::Unknown => (expected.time.0.max(asked.time.0), by_prices),
        };
        if !time.is_finite() || time <= 0.0 {
            return self.over_links(asked.time);
        }
        let apart = apart.0.max(1.0 / apart.0).sqrt();
        let moved = expected.times(Ratio(time / expected.time.0)).wider(apart);
        let moved = self.on_links(moved, size);
        Expectation { basis: Basis::Modelled, error: None, ..moved }
    }

    /// How the time of the algorithm called `id` follows from that of what the library runs.
    fn shift(&self, id: &str, expected: &Expectation, size: Bytes) -> Shift {
        if expected.basis == Basis::Modelled {
            return Shift::Prices;
        }
        if !self.ideal.is_ruled(size) || self.ideal.at(size).time.0 <= 0.0 {
            return Shift::Unknown;
        }
        let own = self.ideal.counted(size).filter(|time| time.0 > 0.0 && self.as_it_is);
        let both = own.zip(self.ideal.counted_only(id, size));
        both.map_or(Shift::Prices, |(own, asked)| Shift::Model(asked / own))
    }
}

/// If a parameter of the machine was changed: the expectation changes as the ideal price of what
/// runs does.
fn changed(stock: &Ideal<'_>, ideal: &Ideal<'_>, known: Expectation, size: Bytes) -> Expectation {
    let (now, before) = ideal.on_both(stock, size);
    // The cost of a call before its first message is added; the links' time is scaled, and is at least
    // the ideal one, or half of it all: a measured call may take less than the machine's launch.
    let (launch, launched) = (ideal.launch().0, stock.launch().0);
    let links = (now.0 - launch) / (before.0 - launched);
    let own = launched.min(known.time.0 - (before.0 - launched).min(0.5 * known.time.0));
    let starts = match launch < launched {
        true => own * launch / launched,
        false => own + launch - launched,
    };
    let time = ((known.time.0 - own) * links + starts).max(launch.min(known.time.0));
    let ratio = time / known.time.0;
    if !ratio.is_finite() || ratio <= 0.0 {
        return known;
    }
    let moved = known.times(Ratio(ratio)).wider(ratio.max(1.0 / ratio).sqrt());
    Expectation { basis: known.basis.max(Basis::Transferred), error: None, ..moved }
}

/// How the time of an algorithm that was asked for follows from that of what the library runs.
enum Shift {
    /// By the ratio of both times with the library's own latencies, and the data over ideal links. An ideal
    /// price has too little latency for kernels that synchronise in switches: with 8 GPUs NVLS may take longer
    /// than a ring (NVIDIA/nccl issue 1259).
    Model(Ratio),
    /// As the ideal prices differ, by difference (the cost of a call besides its messages) or by ratio (the
    /// rate that links do not reach), whichever applies.
    Prices,
    /// What the library runs is not known, and may be the algorithm: the same time, unless its own price is
    /// longer.
    Unknown,
}

/// The part of what a price is above the learned time, as logarithms, that it does not take longer, up to one: of 2,508
/// published times of MPI whose price is higher than what was learned, the median is 0.94 times what this says (1.4
/// times what was learned), and 81 % are in bands that are wider by as much.
const CHEAPER: f64 = 0.3;

/// How much longer than on GPUs that access each other's memory a call may take on those that do not: all
/// that they send each other is written to the host's memory and read from it. No such box was measured.
const STAGED: Ratio = Ratio(2.0);

/// The multiples of an ideal price between which 8 of 10 real times are: over 750 published times of
/// the clusters in `evidence/` the fastest algorithm that NCCL ships takes 0.49 (p10), 1.17 (median), 1.99
/// (p90) times its price.
const IDEAL: (Ratio, Ratio) = (Ratio(0.5), Ratio(2.0));

/// The same of MPI between hosts: of 9,930 published times those of Open MPI and MPICH took 0.53 (p10), 1.7 (median),
/// 5.8 (p90) times the price of what their rules choose (docs/background/accuracy-of-mpi.md).
const ON_HOSTS: (Ratio, Ratio) = (Ratio(0.5), Ratio(6.0));

/// The same of a library of hosts between GPUs, which may copy their buffers through the host: 72 published
/// all-reduces of Open MPI 4.0.5 on 8 to 128 A100 (aistabci/abci2.0benchmark) took 0.95 (p10), 11 (median), 79
/// (p90) times the price. One that copies nothing is like NCCL.
const ON_GPUS: (Ratio, Ratio) = (IDEAL.0, Ratio(80.0));

/// The multiples of an ideal price between which 8 of 10 real times are, on the machine of `query`.
pub(crate) fn around(query: &Query) -> (Ratio, Ratio) {
    if !runs_learned(query) && features(query).is_some() {
        ON_GPUS
    } else if are_hosts(query) && query.shape.collective != Collective::SendRecv {
        ON_HOSTS
    } else {
        IDEAL
    }
}

/// NCCL has no barrier: PyTorch's is an all-reduce of one float over it (`barrier` in
/// torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
fn instead(query: &Query) -> Option<Query> {
    let (of, library) = (query.shape.collective, query.library());
    let shape = Shape { collective: Collective::AllReduce, ..query.shape };
    (of == Collective::Barrier && library.is_some_and(Library::connects_as_nccl)).then(|| Query {
        shape,
        size: Bytes(4),
        ..query.clone()
    })
}

/// A rank on each node of a network alone may be a GPU or a process of MPI, of which other things are known: what is expected
/// then, and `how` that is asked.
pub(crate) fn under_mpi(registry: &Registry, query: &Query, how: &str) -> Option<String> {
    let Query { machine, placement, .. } = query;
    let is_open = machine.hardware.is_none()
        && machine.library.is_none()
        && placement.nodes() > 1
        && placement.per_node == 1
        && query.seen.is_empty();
    let mut asked = is_open.then(|| query.clone())?;
    asked.machine.library = Some(Library::OpenMpi.id().to_owned());
    let expecting = Expecting::new(registry, &asked).ok().filter(Expecting::is_of_hosts)?;
    let Expectation { time, low, high, .. } = expecting.at(query.size);
    (time.0 > 0.0).then(|| {
        format!(
            "{} names no library, so this is the ideal price; with {how} {time} (8 of 10 runs: {low} to {high}) are \
             expected",
            machine.name
        )
    })
}

/// Whether the evidence has calls of the library of the machine of `query`. A machine of GPUs that names none runs
/// its vendor's.
fn runs_learned(query: &Query) -> bool {
    query.machine.library.as_deref().is_none_or(Library::is_learned_on_gpus)
}

/// The machine of `query` in the terms of the evidence.
fn features(query: &Query) -> Option<Features> {
    Features::of(query.machine.hardware.as_ref()?, query.placement.per_node)
}

/// The same if its ranks are processes on hosts between which MPI runs: with the ports of a host. A machine whose
/// links were measured knows better, and what a person gave alone is all that is known.
fn hosts(query: &Query) -> Option<Features> {
    let Machine { fabric, network, fit, library, .. } = &query.machine;
    let stock = query.machine.stock.as_ref()?;
    if !are_hosts(query) || !library.as_deref().is_none_or(Library::is_mpi) || fit.is_some() {
        return None;
    }
    let Some(links) = fabric.tiers.last().filter(|tier| tier.kind == TierKind::Network) else {
        return Some(Features::of_hosts(None, Seconds(0.0), Bandwidth(f64::INFINITY)));
    };
    let (alpha, rate) = (links.link.alpha?, links.link.bandwidth?);
    let ports = links.nics.map_or(query.placement.per_node, NonZeroU32::get);
    // As the evidence has it: before what one stream reaches of it, but shared as it is. A stream that was given
    // another rate says nothing of the ports while it is between the profile's and theirs.
    let reached = stock.tiers.last().and_then(|tier| tier.link.bandwidth);
    let origin = query.machine.origins.last().copied().unwrap_or_default();
    let line = match origin.line.zip(reached) {
        Some((line, reached)) if origin.efficiency.is_some() || rate <= reached => {
            line * Ratio(rate.0 / reached.0)
        }
        Some((line, _)) if rate <= line => line,
        _ => line_rate(rate).unwrap_or(rate),
    };
    let rate = line * Ratio(f64::from(ports));
    Some(Features::of_hosts(*network, alpha, rate))
}

/// Whether ranks are processes on hosts: nothing but memory and a network is between them, no chip is named, and a
/// library of MPI is, or several ranks are on a node. One rank a node may be a GPU where no library is named.
fn are_hosts(query: &Query) -> bool {
    let Machine { fabric, hardware, library, .. } = &query.machine;
    let has_chips = hardware.as_ref().is_some_and(|h| h.generation.is_some())
        || fabric.tiers.iter().any(|tier| tier.kind == TierKind::Node);
    let in_memory = fabric.tiers.first().is_some_and(|tier| tier.kind == TierKind::Memory);
    let several = in_memory && query.placement.per_node > 1;
    let are_hosts = several || matches!(query.nodes_are, Some(NodesAre::Hosts { .. }));
    !has_chips && (are_hosts || library.as_deref().is_some_and(Library::is_mpi))
}

/// What was learned from measured machines about the machine of `query`.
fn transfer(query: &Query, learned: &Learned) -> Option<Transfer> {
    let of_gpus = || features(query).filter(|_| runs_learned(query));
    let features = hosts(query).or_else(of_gpus)?;
    Transfer::new(learned, &features, query.shape.collective, query.placement)
}

/// The least time of the links for each byte, in seconds.
fn least(query: &Query, fabric: &Fabric) -> f64 {
    let at = |size| bound(&query.shape, Volume(size), fabric).map_or(0.0, |b| b.bandwidth.0);
    at(1e9) / 1e9
}
