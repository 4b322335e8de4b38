//! All parameters of a machine in one list, whatever they measure.

use std::fmt;

use super::{Date, How, Measured, Profile};
use crate::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte};

/// A value of any of the kinds that a machine has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A time.
    Time(Seconds),
    /// A rate, one way.
    Rate(Bandwidth),
    /// A part of a rate.
    Part(Ratio),
    /// A time per byte.
    PerByte(SecondsPerByte),
}

impl Amount {
    /// The number in base units.
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::Time(x) => x.0,
            Self::Rate(x) => x.0,
            Self::Part(x) => x.0,
            Self::PerByte(x) => x.0,
        }
    }

    /// The base unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time(_) => "s",
            Self::Rate(_) => "B/s",
            Self::Part(_) => "1",
            Self::PerByte(_) => "s/B",
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(x) => x.fmt(f),
            Self::Rate(x) => x.fmt(f),
            // Unchanged: 0.8 and 0.565 keep the digits that were given.
            Self::Part(x) => write!(f, "{}", x.0),
            Self::PerByte(x) => x.fmt(f),
        }
    }
}

macro_rules! amounts {
    ($($quantity:ty => $kind:ident),*) => {$(
        impl From<$quantity> for Amount {
            fn from(quantity: $quantity) -> Self {
                Self::$kind(quantity)
            }
        }
    )*};
}

amounts!(Seconds => Time, Bandwidth => Rate, Ratio => Part, SecondsPerByte => PerByte);

/// One parameter of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure<'a> {
    /// The tier that it belongs to, from the innermost out; absent for the machine's own.
    pub tier: Option<usize>,
    /// Its key in the file: `alpha`, `switch.alpha`, `launch.any`, `gamma`.
    pub key: String,
    /// The value.
    pub value: Amount,
    /// The least that is likely.
    pub low: Option<Amount>,
    /// The most that is likely.
    pub high: Option<Amount>,
    /// How it was obtained.
    pub how: How,
    /// The source.
    pub source: &'a str,
    /// When.
    pub date: Option<Date>,
}

impl<'a> Figure<'a> {
    fn new<T: Copy + Into<Amount>>(
        tier: Option<usize>,
        key: impl Into<String>,
        measured: Option<&'a Measured<T>>,
    ) -> Option<Self> {
        measured.map(|m| Self {
            tier,
            key: key.into(),
            value: m.value.into(),
            low: m.low.map(Into::into),
            high: m.high.map(Into::into),
            how: m.how,
            source: &m.source,
            date: m.date,
        })
    }

    /// Its path in the file, such as `tier.0.alpha`.
    pub(super) fn path(&self) -> String {
        match self.tier {
            Some(tier) => format!("tier.{tier}.{}", self.key),
            None => self.key.clone(),
        }
    }
}

impl Profile {
    /// Every known parameter, in the order of the file format.
    pub fn figures(&self) -> impl Iterator<Item = Figure<'_>> {
        let of_tiers = self.tiers.iter().enumerate().flat_map(|(i, tier)| {
            let switch = tier.switch.as_ref();
            [
                Figure::new(Some(i), "alpha", tier.alpha.as_ref()),
                Figure::new(Some(i), "bandwidth", tier.bandwidth.as_ref()),
                Figure::new(Some(i), "efficiency", tier.efficiency.as_ref()),
                Figure::new(Some(i), "duplex_factor", tier.duplex_factor.as_ref()),
                Figure::new(Some(i), "switch.alpha", switch.and_then(|s| s.alpha.as_ref())),
                Figure::new(
                    Some(i),
                    "switch.efficiency",
                    switch.and_then(|s| s.efficiency.as_ref()),
                ),
            ]
            .into_iter()
            .chain(tier.sharing.iter().map(move |(flows, share)| {
                Figure::new(Some(i), format!("sharing.{flows}"), Some(share))
            }))
        });
        let launch = self
            .launch
            .iter()
            .map(|(call, launch)| Figure::new(None, format!("launch.{}", call.id()), Some(launch)));
        let own = [
            Figure::new(None, "gamma", self.gamma.as_ref()),
            Figure::new(None, "c_real", self.c_real.as_ref()),
        ];
        of_tiers.chain(launch).chain(own).flatten()
    }
}
