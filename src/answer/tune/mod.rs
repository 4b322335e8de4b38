//! The rules of a tuning file: sizes at which the model predicts that another algorithm of the
//! library beats what the library would run.
//!
//! [`plan`] compares, for one operation on a number of ranks, what the library runs by default with
//! everything else that a file can request, and returns spans of sizes. [`openmpi`], [`mpich`] and
//! [`nccl`] turn them into a library's table.

mod evidence;
mod margin;
pub mod mpich;
pub mod nccl;
pub mod openmpi;
mod raced;
pub mod ran;
mod rendezvous;

use std::borrow::Cow;

pub use evidence::{Departure, Evidence, LEAST_LESS, Shown, Spread, Timed};
pub use margin::Margin;
pub use raced::{Contender, Raced};
pub use rendezvous::Rendezvous;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::library::{Call, Choice, Operation, Policy, Runs, priced_on_links};
use crate::machine::query::Query;
use crate::model::algorithm::Registry;

/// How a line names the file that it loads, for a shell; without a name, or with one that has no place in a
/// line, a word stands for it.
fn loaded(file: Option<&str>) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    match file {
        None | Some("-") => Cow::Borrowed("THIS_FILE"),
        Some(file) if file.contains(char::is_control) => Cow::Borrowed("THIS_FILE"),
        Some(file) if file.chars().all(plain) => Cow::Borrowed(file),
        Some(file) => Cow::Owned(format!("'{}'", file.replace('\'', "'\\''"))),
    }
}

/// The minimum fraction of the time that a rule must promise to save; [`Margin`] may require more.
pub const LEAST_GAIN: Ratio = Ratio(0.05);

/// The current choice stays unless another saves this fraction of its time: a file of few rules
/// gets read, and a smaller difference is no evidence.
const STAYS: f64 = 0.02;

/// Times that differ by more than this do not belong to the same messages.
const SAME: f64 = 1e-9;

/// The largest size that is compared; the last rule continues beyond it.
pub const LARGEST: Bytes = Bytes(1 << 30);

/// Sizes compared between two powers of two: both ends, and one in the middle.
const STEPS: u32 = 2;

/// The widest predefined elements of MPI, a complex of two doubles. An algorithm that gives up if
/// there are few elements is requested only if there are enough even of these.
pub const WIDEST: Bytes = Bytes(16);

/// Something that a rule of a file can request from the library.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// How the file requests it.
    pub pick: Pick,
    /// What runs then.
    pub choice: Choice,
}

/// How a file requests an algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// The library's number, if it has numbers.
    pub id: Option<u32>,
    /// The library's name.
    pub name: Cow<'static, str>,
    /// Bytes of a segment; 0: the vector in one piece.
    pub segment: Bytes,
}

/// Sizes for which the same choice is best.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The first size, in M; the span ends where the next begins.
    pub from: Bytes,
    /// The request of a rule; `None`: the library's own decision stays.
    pub pick: Option<Pick>,
    /// The smallest and the largest fraction of the library's own time that a rule saves, over the
    /// compared sizes of the span.
    pub gain: Option<(Ratio, Ratio)>,
}

/// The spans of one operation on a number of ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The operation.
    pub operation: Operation,
    /// N.
    pub ranks: u32,
    /// From zero bytes on, without gaps.
    pub spans: Vec<Span>,
}

/// The times of all choices at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The time of the library's default, or a lower bound of it; absent if no algorithm prices it,
    /// in which case it is kept.
    pub own: Option<Seconds>,
    /// The fraction of that time that a rule must save.
    pub least_gain: Ratio,
    /// What a file can request.
    pub offers: Vec<(Pick, Seconds)>,
}

/// The subject of a comparison: one operation on a number of ranks.
pub struct Question<'a> {
    /// The operation.
    pub operation: Operation,
    /// N.
    pub ranks: u32,
    /// The times of all choices at a size.
    pub point: &'a dyn Fn(Bytes) -> Result<Point>,
}

/// The algorithms of an MPI library on the machine of a query.
pub struct Compared<'a> {
    /// The algorithms that compute prices.
    pub registry: &'a Registry,
    /// The library's default decision.
    pub policy: &'a dyn Policy,
    /// What a file can request, for one call.
    pub offers: &'a dyn Fn(&Call) -> Result<Vec<Offer>>,
    /// The machine and the ranks on it.
    pub query: &'a Query,
    /// The operation.
    pub operation: Operation,
    /// The time that waiting for answers adds to the closed forms; `None` if it is not known.
    pub rendezvous: Option<Rendezvous>,
}

impl Point {
    fn time(&self, pick: &Pick) -> Option<Seconds> {
        self.offers.iter().find(|(offered, _)| offered == pick).map(|&(_, time)| time)
    }

    /// The best choice here, if `before` was best at the previous size.
    fn best(&self, before: Option<&Pick>) -> Option<Pick> {
        // If no algorithm prices the default, it is kept.
        let own = self.own?;
        let by_time = |a: &&(Pick, Seconds), b: &&(Pick, Seconds)| a.1.0.total_cmp(&b.1.0);
        let (best, least) = self.offers.iter().min_by(by_time)?;
        // Whether a rule may request what takes `time` although the best takes less by this much.
        let may = |time: Seconds, less: f64| {
            time.0 * (1.0 - less) <= least.0 && time.0 <= own.0 * (1.0 - self.least_gain.0)
        };
        let is_best = |pick: &Pick| (pick.id, &pick.name) == (best.id, &best.name);
        if let Some(before) = before
            && !is_best(before)
            && self.time(before).is_some_and(|time| may(time, STAYS))
        {
            return Some(before.clone());
        }
        // The longest of the segments that cannot be distinguished: with fewer messages α matters
        // less.
        let alike =
            self.offers.iter().filter(|(pick, time)| is_best(pick) && may(*time, LEAST_GAIN.0));
        let whole = |pick: &Pick| pick.segment.0 == 0;
        let alike = alike.filter(|(pick, _)| whole(pick) == whole(best));
        alike.max_by_key(|(pick, _)| pick.segment).map(|(pick, _)| pick.clone())
    }

    /// The time of a decision.
    fn takes(&self, decision: Option<&Pick>) -> Option<Seconds> {
        decision.map_or(self.own, |pick| self.time(pick))
    }

    /// The same, where the library's own is the time that a rule would have to beat.
    fn to_beat(&self, decision: Option<&Pick>) -> Option<f64> {
        let asked = if decision.is_none() { self.least_gain.0 } else { 0.0 };
        Some(self.takes(decision)?.0 * (1.0 - asked))
    }
}

impl Compared<'_> {
    fn call(&self, size: Bytes) -> Call {
        let Operation { collective, flavour } = self.operation;
        let nodes = self.query.placement.nodes();
        Call { flavour, nodes, ..Call::new(collective, self.query.shape.ranks, size) }
    }

    fn time(&self, choice: &Choice, size: Bytes) -> Result<Option<Seconds>> {
        let (shape, fabric) = (&self.query.shape, &self.query.machine.fabric);
        let Some(mut time) = priced_on_links(self.registry, choice, shape, fabric, size)?.time()
        else {
            return Ok(None);
        };
        if let (Some(rendezvous), Runs::Parts(parts)) = (&self.rendezvous, &choice.runs) {
            for part in parts {
                time = time + rendezvous.waits(self.registry, part, size)?;
            }
        }
        Ok(Some(time))
    }

    /// The times of all choices at a size.
    ///
    /// # Errors
    /// A parameter that a price needs is unknown; an operation that the policy does not know.
    pub fn point(&self, size: Bytes) -> Result<Point> {
        let call = self.call(size);
        let own = self.time(&self.policy.choose(&call)?, size)?;
        let mut offers = Vec::new();
        let is_short = |pick: &Pick| {
            self.rendezvous.as_ref().is_some_and(|rendezvous| rendezvous.is_short(pick.segment))
        };
        for offer in (self.offers)(&call)?.into_iter().filter(|offer| !is_short(&offer.pick)) {
            if let Some(time) = self.time(&offer.choice, size)? {
                offers.push((offer.pick, time));
            }
        }
        Ok(Point { own, least_gain: Margin::of(self.query).off(own), offers })
    }

    /// The plan of the operation.
    ///
    /// # Errors
    /// As [`Self::point`].
    pub fn plan(&self) -> Result<Plan> {
        let point = |size| self.point(size);
        let ranks = self.query.shape.ranks;
        plan(&Question { operation: self.operation, ranks, point: &point })
    }
}

impl Question<'_> {
    /// The first size from which `to` is better than `from`, between one where it is not and one
    /// where it is.
    fn change(&self, sizes: (u64, u64), from: Option<&Pick>, to: Option<&Pick>) -> Result<u64> {
        let (mut low, mut high) = sizes;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let point = (self.point)(Bytes(middle))?;
            let is_better = match (point.to_beat(from), point.to_beat(to)) {
                (Some(from), Some(to)) => to < from,
                // A choice that cannot be requested here, or priced, is not better.
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if is_better { high = middle } else { low = middle }
        }
        Ok(high)
    }

    /// Moves the start of a rule away from the sizes that people measure.
    ///
    /// Programs measure powers of two, and calls in blocks use n·⌊b/n⌋ of b elements, a little less
    /// than requested; a rule that starts exactly there misses them. Such a start moves half way
    /// down to the previous power of two, on a logarithmic scale, to just after `at`, the compared
    /// size there. If half way down costs something, it moves no further than those calls reach;
    /// and if that costs something too, because the library itself changes its choice there, it
    /// moves half way up.
    fn clear(&self, start: u64, at: u64, from: Option<&Pick>, to: Option<&Pick>) -> Result<u64> {
        let measured = start.next_power_of_two();
        let short = u64::from(self.ranks) * WIDEST.0;
        if measured - start >= short {
            return Ok(start);
        }
        let root = 2.0_f64.sqrt();
        let middle = (at + 1).max((measured as f64 / root) as u64);
        let point = (self.point)(Bytes(middle))?;
        if let (Some(from), Some(to)) = (point.to_beat(from), point.to_beat(to))
            && to <= from * (1.0 + LEAST_GAIN.0)
        {
            return Ok(middle.min(start));
        }
        let near = (measured - short.min(measured / 4)).clamp(at + 1, start);
        let up = (measured as f64 * root) as u64;
        let worse = |size: u64, runs: Option<&Pick>, instead: Option<&Pick>| -> Result<bool> {
            let point = (self.point)(Bytes(size))?;
            let (runs, instead) = (point.takes(runs), point.takes(instead));
            Ok(runs.zip(instead).is_none_or(|(a, b)| a.0 > b.0 * (1.0 + SAME)))
        };
        let goes_up =
            worse(near, to, from)? && !worse(measured, from, to)? && !worse(up, from, to)?;
        Ok(if goes_up { up } else { near })
    }
}

/// Spans of sizes, from zero bytes on, each with the best choice there.
///
/// Sizes two to an octave are compared; between two with different answers the change is located to
/// the byte. The library's default is kept where no algorithm prices it.
///
/// # Errors
/// The errors of the question.
pub fn plan(question: &Question<'_>) -> Result<Plan> {
    let Operation { collective, .. } = question.operation;
    let ranks = question.ranks;
    let sizes = compared(collective, ranks);
    let mut spans: Vec<Span> = Vec::new();
    let mut before: Option<(u64, Option<Pick>)> = None;
    for size in sizes {
        let point = (question.point)(Bytes(size))?;
        let pick = point.best(before.as_ref().and_then(|(_, pick)| pick.as_ref()));
        let gain = pick.as_ref().and_then(|pick| {
            let saved = 1.0 - point.time(pick)?.0 / point.own?.0;
            Some(Ratio(saved))
        });
        match &before {
            Some((_, last)) if *last == pick => {}
            Some((at, last)) => {
                let (last, next) = (last.as_ref(), pick.as_ref());
                let start = question.change((*at, size), last, next)?;
                let start = Bytes(question.clear(start, *at, last, next)?);
                // A start that moved up may leave nothing of a span that ends there.
                spans.pop_if(|span| span.from >= start);
                if spans.last().is_none_or(|span| span.pick != pick) {
                    spans.push(Span { from: start, pick: pick.clone(), gain: None });
                }
            }
            None => spans.push(Span { from: Bytes(0), pick: pick.clone(), gain: None }),
        }
        if let (Some(span), Some(gain)) = (spans.last_mut(), gain) {
            let (least, most) = span.gain.unwrap_or((gain, gain));
            span.gain = Some((Ratio(least.0.min(gain.0)), Ratio(most.0.max(gain.0))));
        }
        before = Some((size, pick));
    }
    Ok(Plan { operation: question.operation, ranks, spans })
}

/// The sizes that are compared, ascending.
#[must_use]
pub fn compared(collective: Collective, ranks: u32) -> Vec<u64> {
    if collective == Collective::Barrier {
        return vec![0];
    }
    // A word for each rank.
    let least = u64::from(ranks.max(1)).next_power_of_two() * 8;
    let powers = std::iter::successors(Some(least), |size| size.checked_mul(2));
    let powers: Vec<u64> = powers.take_while(|&size| size <= LARGEST.0.max(least)).collect();
    let root = 2.0_f64.sqrt();
    let steps = |&size: &u64| {
        (0..STEPS).map(move |step| (size as f64 * root.powi(step as i32)).round() as u64)
    };
    powers.iter().flat_map(steps).collect()
}

impl Plan {
    /// Whether there is any rule to write.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.spans.iter().any(|span| span.pick.is_some())
    }

    /// The best choice for a size.
    #[must_use]
    pub fn pick(&self, size: Bytes) -> Option<&Pick> {
        let fitting = self.spans.iter().take_while(|span| span.from <= size).last();
        fitting.and_then(|span| span.pick.as_ref())
    }
}

impl Span {
    /// `predicted 12 to 40 % less time`, as `how` it is known.
    #[must_use]
    pub fn says(&self, how: &str) -> Option<String> {
        let (least, most) = self.gain?;
        let (least, most) = ((least.0 * 100.0).floor(), (most.0 * 100.0).floor());
        Some(match least == most {
            true => format!("{how} {least} % less time"),
            false => format!("{how} {least} to {most} % less time"),
        })
    }
}
