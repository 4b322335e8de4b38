//! Choices that a site's own logs show to be faster than NCCL's.
//!
//! Times are compared if everything else is equal: collective, size, type of the elements, and how
//! calls followed each other. Another choice is used if it is faster than NCCL's own by at least
//! [`LEAST_LESS`] and the bands of both do not overlap:
//!
//! ```text
//! one number        nine of ten repeats of published tables differ by less than 12 %
//! several           from the least to the greatest, and 3 % beyond: the median difference
//! ```
//!
//! Both numbers come from docs/background/accuracy-of-fits.md.

use std::collections::{BTreeMap, BTreeSet};

use super::nccl::{Cell, Own, name};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::stats::median;
use crate::library::nccl::{Function, Range};
use crate::machine::sample::{DataType, Mode};

/// The minimum saving of a departure, relative to the time of NCCL's own choice.
pub const LEAST_LESS: Ratio = Ratio(0.15);

/// The uncertainty of one time, in either direction.
const ALONE: f64 = 0.12;

/// The uncertainty of several times beyond their minimum and maximum.
const REPEATED: f64 = 0.03;

/// A time of a log, and what ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The collective.
    pub collective: Collective,
    /// M.
    pub size: Bytes,
    /// The type of the elements, where it is known.
    pub dtype: Option<DataType>,
    /// How calls followed each other.
    pub mode: Mode,
    /// The choice that ran.
    pub cell: Cell,
    /// The time.
    pub time: Seconds,
    /// The log.
    pub file: String,
}

/// The times of one choice, summarised.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// The median.
    pub time: Seconds,
    /// The lowest time to expect of another run.
    pub low: Seconds,
    /// The highest.
    pub high: Seconds,
    /// The number of times.
    pub count: usize,
    /// Their logs.
    pub files: BTreeSet<String>,
}

/// A size at which another choice is certainly faster.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// M.
    pub size: Bytes,
    /// NCCL's own choice.
    pub own: Cell,
    /// Its times.
    pub takes: Spread,
    /// The choice to run.
    pub cell: Cell,
    /// Its times.
    pub instead: Spread,
}

/// Sizes for which a file should request something other than NCCL's choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Departure {
    /// The collective.
    pub collective: Collective,
    /// The first size.
    pub from: Bytes,
    /// The last.
    pub to: Bytes,
    /// The choice to run.
    pub cell: Cell,
    /// The measured sizes among them.
    pub rests_on: Vec<Shown>,
}

/// The evidence in a site's logs about NCCL on one communicator.
pub struct Evidence<'a> {
    own: &'a Own,
    times: BTreeMap<(Collective, Bytes), BTreeMap<Alike, ByCell>>,
}

/// The properties that must be equal, besides collective and size.
type Alike = (Option<DataType>, Mode);

/// The times of each choice.
type ByCell = BTreeMap<Cell, Vec<Timed>>;

/// The result for a size.
enum Verdict {
    /// Only one of NCCL's own choice and the others was timed.
    Silent,
    /// Both were, and NCCL's own stays.
    Stays,
    /// Both were, and another is certainly faster.
    Departs(Box<Shown>),
}

impl Spread {
    fn of(timed: &[Timed]) -> Option<Self> {
        let times = || timed.iter().map(|t| t.time.0);
        let open = 1.0 + if timed.len() > 1 { REPEATED } else { ALONE };
        Some(Self {
            time: Seconds(median(times().collect())?),
            low: Seconds(times().fold(f64::INFINITY, f64::min) / open),
            high: Seconds(times().fold(0.0, f64::max) * open),
            count: timed.len(),
            files: timed.iter().map(|t| t.file.clone()).collect(),
        })
    }

    /// Whether it is faster than another by at least [`LEAST_LESS`], outside the bands of both.
    #[must_use]
    pub fn is_surely_less(&self, other: &Self) -> bool {
        self.time.0 <= other.time.0 * (1.0 - LEAST_LESS.0) && self.high.0 < other.low.0
    }

    fn says(&self) -> String {
        format!("{} ({} to {})", self.time, self.low, self.high)
    }
}

impl Shown {
    /// `1 MiB: ring/ll128 61.2 µs (…) for tree/ll128's 93.1 µs (…), 34 % less: ring.log, tree.log`.
    #[must_use]
    pub fn says(&self) -> String {
        let less = 100.0 * (1.0 - self.instead.time.0 / self.takes.time.0);
        let files: BTreeSet<&str> =
            self.instead.files.union(&self.takes.files).map(String::as_str).collect();
        let files: Vec<&str> = files.into_iter().collect();
        format!(
            "{}: {} {} for {}'s {}, {less:.0} % less: {}",
            self.size,
            name(self.cell),
            self.instead.says(),
            name(self.own),
            self.takes.says(),
            files.join(", ")
        )
    }
}

impl<'a> Evidence<'a> {
    /// No evidence yet, for the communicator on which NCCL decides so.
    #[must_use]
    pub fn new(own: &'a Own) -> Self {
        Self { own, times: BTreeMap::new() }
    }

    /// Adds a time.
    pub fn take(&mut self, timed: Timed) {
        let alike = self.times.entry((timed.collective, timed.size)).or_default();
        let cells = alike.entry((timed.dtype, timed.mode)).or_default();
        cells.entry(timed.cell).or_default().push(timed);
    }

    /// The number of sizes that were timed with NCCL's own choice and another, and with only one of
    /// them.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let silent = |&(&(collective, size), _): &(&(Collective, Bytes), _)| {
            matches!(self.verdict(collective, size), Verdict::Silent)
        };
        let silent = self.times.iter().filter(silent).count();
        (self.times.len() - silent, silent)
    }

    /// The sizes at which another choice is certainly faster, in the order of collectives and
    /// sizes.
    #[must_use]
    pub fn departures(&self) -> Vec<Departure> {
        let mut all: Vec<Departure> = Vec::new();
        let collectives: BTreeSet<Collective> = self.times.keys().map(|key| key.0).collect();
        for collective in collectives {
            let Some(function) = Function::of(collective) else { continue };
            let ranges = self.own.ranges(function);
            let sizes = self.times.keys().filter(|key| key.0 == collective).map(|key| key.1);
            let compared: Vec<(Bytes, Verdict)> = sizes
                .map(|size| (size, self.verdict(collective, size)))
                .filter(|(_, verdict)| !matches!(verdict, Verdict::Silent))
                .collect();
            for (i, (size, verdict)) in compared.iter().enumerate() {
                let Verdict::Departs(shown) = verdict else { continue };
                let before = i.checked_sub(1).map(|i| compared[i].0);
                let behind = compared.get(i + 1).map(|next| next.0);
                let Some((from, to)) = around(*size, before, behind, &ranges) else { continue };
                match all.last_mut() {
                    Some(last)
                        if (last.collective, last.cell) == (collective, shown.cell)
                            && last.to.0 + 1 == from.0 =>
                    {
                        last.to = to;
                        last.rests_on.push((**shown).clone());
                    }
                    _ => all.push(Departure {
                        collective,
                        from,
                        to,
                        cell: shown.cell,
                        rests_on: vec![(**shown).clone()],
                    }),
                }
            }
        }
        all
    }

    /// The result for one size: if types of elements disagree, NCCL's choice is kept.
    fn verdict(&self, collective: Collective, size: Bytes) -> Verdict {
        let found = self.times.get(&(collective, size)).into_iter().flat_map(BTreeMap::values);
        let Some(function) = Function::of(collective) else { return Verdict::Silent };
        let Some(own) = self.own.at(function, size) else { return Verdict::Silent };
        let mut said = Verdict::Silent;
        for cells in found {
            let Some(takes) = cells.get(&own).and_then(|timed| Spread::of(timed)) else { continue };
            let others = cells.iter().filter(|(cell, _)| **cell != own);
            let others: Vec<(Cell, Spread)> =
                others.filter_map(|(&cell, timed)| Some((cell, Spread::of(timed)?))).collect();
            if others.is_empty() {
                continue;
            }
            // The plugin ignores a line that requests what NCCL does not consider.
            let considered = |cell: Cell| self.own.chooser.considers(function, cell.0, cell.1);
            let sure = others
                .into_iter()
                .filter(|(cell, s)| considered(*cell) && s.is_surely_less(&takes));
            let best = sure.min_by(|a, b| a.1.time.0.total_cmp(&b.1.time.0));
            let Some((cell, instead)) = best else { return Verdict::Stays };
            match &said {
                Verdict::Departs(shown) if shown.cell != cell => return Verdict::Stays,
                Verdict::Departs(_) => {}
                _ => said = Verdict::Departs(Box::new(Shown { size, own, takes, cell, instead })),
            }
        }
        said
    }
}

/// The sizes for which a measurement counts: half way to its neighbours, at most half an octave,
/// and only where NCCL's own choice is the same as at that size.
fn around(
    size: Bytes,
    before: Option<Bytes>,
    behind: Option<Bytes>,
    ranges: &[Range],
) -> Option<(Bytes, Bytes)> {
    let own = ranges.iter().find(|r| (r.from..=r.to).contains(&size))?;
    let at = size.0 as f64;
    let half_way = |to: Bytes| (at * to.0 as f64).sqrt();
    let low = before.map_or(0.0, half_way).max(at / 2.0_f64.sqrt());
    let high = behind.map_or(f64::INFINITY, half_way).min(at * 2.0_f64.sqrt());
    // A size exactly between two belongs to the larger one.
    let (first, last) = (low.ceil() as u64, (high.ceil() as u64).saturating_sub(1));
    Some((own.from.max(Bytes(first)), own.to.min(Bytes(last.max(size.0)))))
}
