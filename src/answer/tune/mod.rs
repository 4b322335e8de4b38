//! Which rules a tuning file is to have: where the model predicts that another algorithm of the
//! library beats what the library would run.
//!
//! [`plan`] compares, for one operation over so many ranks, what the library runs by itself with
//! everything else that a file can ask it for, and returns spans of sizes. Making a library's table
//! of the spans is in [`openmpi`], [`mpich`] and [`nccl`].

mod evidence;
mod margin;
pub mod mpich;
pub mod nccl;
pub mod openmpi;
pub mod ran;
mod rendezvous;

use std::borrow::Cow;

pub use evidence::{Departure, Evidence, LEAST_LESS, Shown, Spread, Timed};
pub use margin::Margin;
pub use rendezvous::Rendezvous;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::library::{Call, Choice, Operation, Policy, Runs, priced_on_links};
use crate::machine::query::Query;
use crate::model::algorithm::Registry;

/// A rule must promise to take at least this part of the time off; [`Margin`] may ask for more.
pub const LEAST_GAIN: Ratio = Ratio(0.05);

/// What runs stays while nothing else takes this part of its time less: a file of few rules is
/// read, and a difference of less is no evidence.
const STAYS: f64 = 0.02;

/// Times that are further apart than this are not of the same messages.
const SAME: f64 = 1e-9;

/// The largest size that is compared; the last rule goes on beyond it.
pub const LARGEST: Bytes = Bytes(1 << 30);

/// Sizes that are compared between two powers of two: those at the ends, and one in the middle.
const STEPS: u32 = 2;

/// The widest predefined elements of MPI, a complex of two doubles. An algorithm that gives up
/// where elements are few is asked for only where there are enough even of these.
pub const WIDEST: Bytes = Bytes(16);

/// Something that a rule of a file can ask the library for.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// How the file asks for it.
    pub pick: Pick,
    /// What then runs.
    pub choice: Choice,
}

/// How a file asks for an algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// The library's number, where it has numbers.
    pub id: Option<u32>,
    /// The library's name.
    pub name: Cow<'static, str>,
    /// Bytes of a segment; 0: the vector in one piece.
    pub segment: Bytes,
}

/// Sizes for which one thing is best.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The first size, in M; the span ends where the next begins.
    pub from: Bytes,
    /// What a rule is to ask for; none: the library's own decision stays.
    pub pick: Option<Pick>,
    /// The least and the most of the library's own time that a rule takes off, over the compared
    /// sizes of the span.
    pub gain: Option<(Ratio, Ratio)>,
}

/// The spans of one operation over so many ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The operation.
    pub operation: Operation,
    /// N.
    pub ranks: u32,
    /// From no bytes on, without gaps.
    pub spans: Vec<Span>,
}

/// What everything takes at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What the library runs by itself, or what that takes at least; absent where nothing prices
    /// it, which is then left alone.
    pub own: Option<Seconds>,
    /// The part of that time which a rule must take off.
    pub least_gain: Ratio,
    /// What a file can ask it for.
    pub offers: Vec<(Pick, Seconds)>,
}

/// What is compared: one operation over so many ranks.
pub struct Question<'a> {
    /// The operation.
    pub operation: Operation,
    /// N.
    pub ranks: u32,
    /// What everything takes at a size.
    pub point: &'a dyn Fn(Bytes) -> Result<Point>,
}

/// The algorithms of an MPI library under the machine of a query.
pub struct Compared<'a> {
    /// The algorithms that price.
    pub registry: &'a Registry,
    /// What the library decides by itself.
    pub policy: &'a dyn Policy,
    /// What a file can ask it for, for one call.
    pub offers: &'a dyn Fn(&Call) -> Result<Vec<Offer>>,
    /// The machine and the ranks on it.
    pub query: &'a Query,
    /// The operation.
    pub operation: Operation,
    /// What waiting for answers adds to what the closed forms say; none where nothing is known.
    pub rendezvous: Option<Rendezvous>,
}

impl Point {
    fn time(&self, pick: &Pick) -> Option<Seconds> {
        self.offers.iter().find(|(offered, _)| offered == pick).map(|&(_, time)| time)
    }

    /// What is best here, where `before` was best at the size before.
    fn best(&self, before: Option<&Pick>) -> Option<Pick> {
        // What nothing prices is left alone.
        let own = self.own?;
        let by_time = |a: &&(Pick, Seconds), b: &&(Pick, Seconds)| a.1.0.total_cmp(&b.1.0);
        let (best, least) = self.offers.iter().min_by(by_time)?;
        // Whether a rule may ask for what takes `time` although the best takes so much less.
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
        // The longest of segments that nobody can tell apart: fewer messages rest less on α.
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

    /// The same, the library's own with what a rule would have to beat.
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

    /// What the library's own choice takes, or takes at least.
    fn own(&self, call: &Call) -> Result<Option<Seconds>> {
        let own = self.policy.choose(call)?;
        match self.time(&own, call.size)? {
            None if !own.at_least.is_empty() => {
                let runs = Runs::Parts(own.at_least.clone());
                self.time(&Choice { runs, ..own }, call.size)
            }
            time => Ok(time),
        }
    }

    /// What everything takes at a size.
    ///
    /// # Errors
    /// A figure that a price needs is unknown; an operation that the policy does not know.
    pub fn point(&self, size: Bytes) -> Result<Point> {
        let call = self.call(size);
        let own = self.own(&call)?;
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
                // What cannot be asked for here, or priced, is not better.
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if is_better { high = middle } else { low = middle }
        }
        Ok(high)
    }

    /// Moves the start of a rule away from the sizes that people measure.
    ///
    /// Programs measure powers of two, and calls in blocks take n·⌊b/n⌋ of b elements, a little
    /// less than was asked; a rule that starts right there misses them. Such a start goes half way
    /// down to the power of two before, on a logarithmic scale, right behind `at`, the compared
    /// size there. Where half way costs something, it goes no further than those calls reach; and
    /// where that costs something too, since the library itself changes its mind there, half way up.
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

/// Spans of sizes, from no bytes on, each with what is best there.
///
/// Sizes two to an octave are compared; between two with different answers the change is found to
/// the byte. What nothing here prices is left to the library.
///
/// # Errors
/// Those of the question.
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
                // A start that went up leaves nothing of a span that ends there.
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
    /// Whether any rule is to be written.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.spans.iter().any(|span| span.pick.is_some())
    }

    /// What is best for a size.
    #[must_use]
    pub fn pick(&self, size: Bytes) -> Option<&Pick> {
        let fitting = self.spans.iter().take_while(|span| span.from <= size).last();
        fitting.and_then(|span| span.pick.as_ref())
    }
}

impl Span {
    /// `predicted 12 to 40 % less time`.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        let (least, most) = self.gain?;
        let (least, most) = ((least.0 * 100.0).floor(), (most.0 * 100.0).floor());
        Some(match least == most {
            true => format!("predicted {least} % less time"),
            false => format!("predicted {least} to {most} % less time"),
        })
    }
}
