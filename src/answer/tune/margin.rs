//! The saving that a rule must promise: at least the uncertainty of the machine's parameters.
//!
//! For a calibrated machine that is the median error of its fit on algorithms that the fit did not
//! see. For any other, all that is known is the band of real times around ideal prices. Both sides
//! of a comparison are such prices, so a requested algorithm must be faster even if it is at the
//! slow end and the library's own choice at the fast end.

use super::LEAST_GAIN;
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::query::Query;
use crate::measure::expect::around;

/// However badly a machine was fitted, a rule that promises half of the time is worth trying.
const MOST: f64 = 0.5;

/// Above this multiple of α, bytes dominate a time; a fit reports its error there separately.
const BULK: f64 = 10.0;

/// The fraction of the library's own time that a rule must save on one machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Where bytes dominate.
    pub bulk: Ratio,
    /// Elsewhere.
    pub other: Ratio,
    alpha: Seconds,
    /// Of a machine that was not fitted: the multiples of an ideal price between which real times are.
    around: Option<(Ratio, Ratio)>,
}

impl Margin {
    /// For a fitted machine, [`LEAST_GAIN`] or the median error of its fit on algorithms that it
    /// did not see, whichever is larger; for others, the width of the band of ideal prices.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        let links = query.machine.fabric.tiers.last();
        let alpha = links.and_then(|tier| tier.link.alpha).unwrap_or_default();
        let Some(fit) = &query.machine.fit else {
            let around = around(query);
            let open = Ratio(1.0 - around.0.0 / around.1.0);
            return Self { bulk: open, other: open, alpha, around: Some(around) };
        };
        let asked =
            |median: Option<f64>| Ratio(median.unwrap_or(LEAST_GAIN.0).clamp(LEAST_GAIN.0, MOST));
        let all = fit.errors.algorithms.map(|e| e.median.0);
        let bulk = fit.errors.algorithms_bulk.map(|e| e.median.0);
        Self { bulk: asked(bulk.or(all)), other: asked(all), alpha, around: None }
    }

    /// The fraction of a library's time that must be saved.
    #[must_use]
    pub fn off(&self, own: Option<Seconds>) -> Ratio {
        let is_bulk = own.is_some_and(|time| time.0 > BULK * self.alpha.0);
        if is_bulk { self.bulk } else { self.other }
    }

    /// The minimum that every rule must save, regardless of the fit.
    #[must_use]
    pub fn least(&self) -> Ratio {
        if self.around.is_none() { LEAST_GAIN } else { self.other }
    }

    /// What a reader of a file should know; `None` in the usual case.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        if let Some((least, most)) = self.around {
            return Some(format!(
                "so much because this machine is not calibrated: eight of ten real times are \
                 taken to be between {} and {} times an ideal price; `collcost calibrate` narrows this range",
                least.0, most.0
            ));
        }
        let usual = self.bulk == LEAST_GAIN && self.other == LEAST_GAIN;
        let percent = |part: Ratio| (part.0 * 100.0).ceil();
        (!usual).then(|| {
            format!(
                "and at least the uncertainty of the machine's fit: {} % where bytes decide, {} % \
                 elsewhere",
                percent(self.bulk),
                percent(self.other)
            )
        })
    }
}
