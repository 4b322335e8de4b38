//! How much a rule must promise: no less than what the machine's figures leave open.

use super::LEAST_GAIN;
use crate::quantity::{Ratio, Seconds};
use crate::query::Query;

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
}

impl Margin {
    /// [`LEAST_GAIN`]; of a machine that was fitted the median error of its fit on algorithms that
    /// it did not see, where that is more.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        let errors = query.machine.fit.as_ref().map(|fit| &fit.errors);
        let asked =
            |median: Option<f64>| Ratio(median.unwrap_or(LEAST_GAIN.0).clamp(LEAST_GAIN.0, MOST));
        let all = errors.and_then(|e| e.algorithms).map(|e| e.median.0);
        let bulk = errors.and_then(|e| e.algorithms_bulk).map(|e| e.median.0);
        let links = query.machine.fabric.tiers.last();
        let alpha = links.and_then(|tier| tier.link.alpha).unwrap_or_default();
        Self { bulk: asked(bulk.or(all)), other: asked(all), alpha }
    }

    /// What must be taken off a time of the library.
    #[must_use]
    pub fn off(&self, own: Option<Seconds>) -> Ratio {
        let is_bulk = own.is_some_and(|time| time.0 > BULK * self.alpha.0);
        if is_bulk { self.bulk } else { self.other }
    }

    /// What a reader of a file is to know; nothing where it is the usual.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        let usual = self.bulk == LEAST_GAIN && self.other == LEAST_GAIN;
        let percent = |part: Ratio| (part.0 * 100.0).ceil();
        (!usual).then(|| {
            format!(
                "and at least what the fit of the machine leaves open: {} % where bytes decide, \
                 {} % elsewhere",
                percent(self.bulk),
                percent(self.other)
            )
        })
    }
}
