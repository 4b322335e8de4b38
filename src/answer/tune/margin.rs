//! How much a rule must promise: no less than what the machine's figures leave open.
//!
//! Of a calibrated machine that is the median error of its fit on algorithms that the fit did not
//! see. Of any other, all that is known is where real times lie beside ideal prices: both sides of a
//! comparison are such prices, so what a rule asks for must be faster even where it is slow and the
//! library's own choice fast.

use super::LEAST_GAIN;
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::query::Query;
use crate::measure::expect::IDEAL;

/// However badly a machine was fitted, a rule that promises half of the time is worth a try.
const MOST: f64 = 0.5;

/// Above so many α a time is made of bytes; a fit states its error there apart.
const BULK: f64 = 10.0;

/// The part of the library's own time that a rule must take off on one machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Where bytes decide.
    pub bulk: Ratio,
    /// Elsewhere.
    pub other: Ratio,
    alpha: Seconds,
    is_fitted: bool,
}

impl Margin {
    /// Of a machine that was fitted [`LEAST_GAIN`], or the median error of its fit on algorithms
    /// that it did not see, where that is more; of others what the band of ideal prices leaves open.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        let links = query.machine.fabric.tiers.last();
        let alpha = links.and_then(|tier| tier.link.alpha).unwrap_or_default();
        let Some(fit) = &query.machine.fit else {
            let open = Ratio(1.0 - IDEAL.0.0 / IDEAL.1.0);
            return Self { bulk: open, other: open, alpha, is_fitted: false };
        };
        let asked =
            |median: Option<f64>| Ratio(median.unwrap_or(LEAST_GAIN.0).clamp(LEAST_GAIN.0, MOST));
        let all = fit.errors.algorithms.map(|e| e.median.0);
        let bulk = fit.errors.algorithms_bulk.map(|e| e.median.0);
        Self { bulk: asked(bulk.or(all)), other: asked(all), alpha, is_fitted: true }
    }

    /// What must be taken off a time of the library.
    #[must_use]
    pub fn off(&self, own: Option<Seconds>) -> Ratio {
        let is_bulk = own.is_some_and(|time| time.0 > BULK * self.alpha.0);
        if is_bulk { self.bulk } else { self.other }
    }

    /// What every rule must take off, whatever else a fit leaves open.
    #[must_use]
    pub fn least(&self) -> Ratio {
        if self.is_fitted { LEAST_GAIN } else { self.other }
    }

    /// What a reader of a file is to know; nothing where it is the usual.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        if !self.is_fitted {
            return Some(format!(
                "so much because this machine is not calibrated: real times are between {} and {} \
                 times an ideal price; `collcost calibrate` narrows this range",
                IDEAL.0.0, IDEAL.1.0
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
