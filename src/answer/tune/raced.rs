//! Rules from races in the library itself: the model says what is worth racing, and what was measured
//! decides.
//!
//! Between two raced sizes a time is the model's, corrected by what each race showed of it:
//!
//! ```text
//!   t(M) = model(M) · exp(lerp(ln(measured/model), between both sizes, on ln M))
//! ```
//!
//! A rule reaches half way to the next raced size on a logarithmic scale, and at the ends √2 beyond;
//! elsewhere the library's own choice stays.

use super::{Compared, Pick, Plan, Point, Question, plan as spans};
use crate::base::error::Result;
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Ratio, Seconds};

/// So many algorithms are raced against the library's own choice.
const TOP: usize = 3;

/// What may be faster than the library's own choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// How it is requested; `None`: the library's own choice.
    pub pick: Option<Pick>,
    /// The time that the model expects; of the library's own choice maybe only a part of it, or absent.
    pub expected: Option<Seconds>,
}

/// What a race at one size showed; without times where nothing was worth racing, or time was short.
#[derive(Debug, Clone, PartialEq)]
pub struct Raced {
    /// M.
    pub size: Bytes,
    /// The time of the library's own choice.
    pub own: Option<Seconds>,
    /// The times of the others.
    pub others: Vec<(Pick, Seconds)>,
    /// Who surely won.
    pub winner: Option<Pick>,
}

impl Compared<'_> {
    /// The library's own choice and the best algorithms that the model, with its error, does not rule out
    /// to be faster, of the best one with segments also half and twice these, and those of `also`. Only the
    /// own choice where nothing is.
    ///
    /// # Errors
    /// As [`Self::point`].
    pub fn contenders(&self, size: Bytes, also: &dyn Fn(&Pick) -> bool) -> Result<Vec<Contender>> {
        let point = self.point(size)?;
        let call = self.call(size);
        let own = self.policy.choose(&call)?;
        let offers = (self.offers)(&call)?;
        let is_own = |pick: &Pick| {
            offers.iter().any(|offer| offer.pick == *pick && offer.choice.runs == own.runs)
        };
        // Where only a part of the own choice is priced, it may take any time.
        let own_time = self.time(&own, size)?;
        let error = point.least_gain.0;
        let may_win = |time: Seconds| {
            own_time.is_none_or(|own| time.0 * (1.0 - error) < own.0 * (1.0 + error))
        };
        let mut others: Vec<&(Pick, Seconds)> =
            point.offers.iter().filter(|(pick, time)| !is_own(pick) && may_win(*time)).collect();
        rising(&mut others, |a| a.1.0);
        let mut top: Vec<&(Pick, Seconds)> = Vec::new();
        for other in &others {
            if top.len() < TOP && top.iter().all(|(pick, _)| pick.name != other.0.name) {
                top.push(other);
            }
        }
        let is_near = |pick: &Pick| {
            let best = top.iter().find(|(best, _)| best.segment.0 > 0).map(|(best, _)| best);
            best.is_some_and(|best| {
                let (a, b) = (best.segment.0, pick.segment.0);
                pick.name == best.name && (a == 2 * b || b == 2 * a)
            })
        };
        let more = point.offers.iter().filter(|(pick, _)| !is_own(pick));
        let more: Vec<&(Pick, Seconds)> = more
            .filter(|offer| !top.contains(offer))
            .filter(|(pick, time)| is_near(pick) && may_win(*time) || also(pick))
            .collect();
        let own = Contender { pick: None, expected: point.own };
        let other = |(pick, time): &(Pick, Seconds)| Contender {
            pick: Some(pick.clone()),
            expected: Some(*time),
        };
        Ok([own].into_iter().chain(top.into_iter().chain(more).map(other)).collect())
    }

    /// The plan of the operation from races, which are in the order of their sizes.
    ///
    /// # Errors
    /// As [`Self::point`].
    pub fn raced(&self, raced: &[Raced]) -> Result<Plan> {
        let models: Vec<Point> =
            raced.iter().map(|race| self.point(race.size)).collect::<Result<_>>()?;
        let point = |size: Bytes| {
            let mut model = self.point(size)?;
            let offers = std::mem::take(&mut model.offers);
            model.least_gain = Ratio(0.0);
            let Some((at, beside)) = around(raced, size) else { return Ok(model) };
            // How much longer than by the model `what` took.
            let longer = |what: Option<&Pick>, at: usize| {
                Some(raced[at].takes(what)?.0 / models[at].takes(what)?.0)
            };
            let corrected = |time: Seconds, what: Option<&Pick>| {
                let factor = between((at, beside), |at| longer(what, at))?;
                Some(Seconds(time.0 * factor))
            };
            let of_model = model.own.and_then(|own| corrected(own, None));
            // Where no algorithm prices the own choice, its time itself.
            let raced_own = || between((at, beside), |at| Some(raced[at].own?.0)).map(Seconds);
            model.own = of_model.or_else(raced_own);
            let winners = [Some(at), beside.map(|(beside, _)| beside)].into_iter().flatten();
            let winners = winners.filter_map(|at| raced[at].winner.as_ref());
            for winner in winners.filter(|winner| raced[at].takes(Some(winner)).is_some()) {
                let time = offers.iter().find(|(pick, _)| pick == winner).map(|(_, time)| *time);
                let time = time.and_then(|time| corrected(time, Some(winner)));
                let is_new = model.offers.iter().all(|(pick, _)| pick != winner);
                if let Some(time) = time.filter(|_| is_new) {
                    model.offers.push((winner.clone(), time));
                }
            }
            // Where nobody surely won the library's own choice stays.
            if raced[at].winner.is_none() {
                model.offers.clear();
            }
            Ok(model)
        };
        let ranks = self.query.shape.ranks;
        spans(&Question { operation: self.operation, ranks, point: &point })
    }
}

impl Raced {
    fn takes(&self, what: Option<&Pick>) -> Option<Seconds> {
        match what {
            None => self.own,
            Some(pick) => self.others.iter().find(|(other, _)| other == pick).map(|(_, t)| *t),
        }
    }
}

/// The race nearest to a size, and the next one on its other side with the part of the way there;
/// `None` beyond the ends.
type Around = (usize, Option<(usize, f64)>);

fn around(raced: &[Raced], size: Bytes) -> Option<Around> {
    let place = |at: usize| (raced[at].size.0.max(1) as f64).ln();
    let x = (size.0.max(1) as f64).ln();
    let far = |at: &usize| (place(*at) - x).abs();
    let at = (0..raced.len()).min_by(|a, b| far(a).total_cmp(&far(b)))?;
    let beside = if x < place(at) { at.checked_sub(1) } else { Some(at + 1) };
    let beside = beside.filter(|beside| *beside < raced.len());
    let half = 0.5 * 2.0_f64.ln();
    // A whole byte belongs to either side.
    if beside.is_none() && far(&at) > half + 1e-9 {
        return None;
    }
    Some((at, beside.map(|beside| (beside, far(&at) / (place(beside) - place(at)).abs()))))
}

/// What is known `of` races, between two of them, or at the nearest if that alone is known; both axes are
/// logarithmic.
fn between((at, beside): Around, of: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let own = of(at)?;
    let other = beside.and_then(|(beside, part)| Some((of(beside)?, part)));
    Some(other.map_or(own, |(other, part)| own * (other / own).powf(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raced(size: u64) -> Raced {
        Raced { size: Bytes(size), own: None, others: Vec::new(), winner: None }
    }

    #[test]
    fn a_race_counts_half_way_to_the_next_and_a_little_beyond_the_ends() {
        let all = [raced(1 << 10), raced(1 << 14)];
        let nearest = |size| around(&all, Bytes(size)).map(|(at, _)| at);
        assert_eq!((nearest(700), nearest(725)), (None, Some(0)));
        assert_eq!((nearest(4000), nearest(4200)), (Some(0), Some(1)));
        assert_eq!((nearest(23_000), nearest(24_000)), (Some(1), None));
        let (_, beside) = around(&all, Bytes(2 << 10)).unwrap();
        let (beside, part) = beside.unwrap();
        assert!(beside == 1 && (part - 0.25).abs() < 1e-9);
    }
}
