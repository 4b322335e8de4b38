//! The messages one after another that a run waits for, and what it adds meanwhile.

use crate::algorithm::{Algorithm, Registry, Route};
use crate::error::{Error, Result};
use crate::formula::{At, Form, Shape};
use crate::quantity::{Ratio, Volume};
use crate::sample::Op;

/// Whether a rank sends while it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message goes one way at a time.
    OneWay,
    /// Every rank sends and receives at once.
    Exchange,
    /// One rank sends to so many at once.
    FanOut(u32),
    /// Nothing is sent.
    Local,
}

/// The critical path of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// How many messages of which size, one after another.
    pub messages: Vec<(u64, Volume)>,
    /// Bytes added by the busiest rank.
    pub reduced: Volume,
    /// How its messages meet.
    pub kind: Kind,
    /// n_β of a double binary tree with many segments, by its closed form; absent for others.
    pub tree: Option<Ratio>,
}

impl Path {
    /// The path of `op` over `ranks` ranks with M = `size`.
    ///
    /// For an algorithm it is the steps of its closed form on one full-duplex port.
    ///
    /// # Errors
    /// An algorithm that is not known, does not apply, or runs in a switch.
    pub fn of(registry: &Registry, op: &Op, ranks: u32, size: Volume) -> Result<Self> {
        let plain = |count: u64, kind| Self {
            messages: vec![(count, size)],
            reduced: Volume(0.0),
            kind,
            tree: None,
        };
        match op {
            Op::OneWay => Ok(plain(1, Kind::OneWay)),
            Op::Shift => Ok(plain(1, Kind::Exchange)),
            // At one port they go one after the other; how they share it is fitted apart.
            Op::FanOut(k) => Ok(plain(k.get().into(), Kind::FanOut(k.get()))),
            Op::Copy => Ok(Self { messages: Vec::new(), ..plain(0, Kind::Local) }),
            Op::Reduce => Ok(Self { messages: Vec::new(), reduced: size, ..plain(0, Kind::Local) }),
            Op::Run(run) => {
                let named = registry.find(run.collective, &run.algorithm)?;
                Self::collective(named.algorithm, &run.shape(ranks), size)
            }
            Op::Device(_) => Ok(Self { messages: Vec::new(), ..plain(0, Kind::Local) }),
            Op::Library(_) | Op::Forced(_) => Err(Error::unsupported(format!(
                "nobody says by which messages {op} was done: it has no path"
            ))),
        }
    }

    /// The path of `algorithm` for `shape`.
    pub(super) fn collective(
        algorithm: &dyn Algorithm,
        shape: &Shape,
        size: Volume,
    ) -> Result<Self> {
        algorithm.applies(shape).map_err(|why| {
            Error::unsupported(format!("`{}` does not apply: {why}", algorithm.meta().id))
        })?;
        let mut path =
            Self { messages: Vec::new(), reduced: Volume(0.0), kind: Kind::OneWay, tree: None };
        let mut through_switch = false;
        algorithm.steps(shape, &mut |step| {
            path.messages.push((step.count, Volume(step.share.value() * size.0)));
            path.reduced.0 += step.count as f64 * step.reduced.value() * size.0;
            if !matches!(step.route, Route::Grow(_) | Route::Root | Route::Tree) {
                path.kind = Kind::Exchange;
            }
            through_switch |= step.route == Route::Switch;
        });
        if through_switch {
            let id = algorithm.meta().id;
            return Err(Error::unsupported(format!("`{id}` runs in a switch: no fit knows its α")));
        }
        if algorithm.meta().id == "double-binary-tree" {
            let limit = algorithm.price_form(&At::numbers(*shape), Form::Asymptotic);
            path.tree = limit.map(|cost| Ratio(cost.total().beta));
        }
        Ok(path)
    }

    /// Messages one after another.
    pub(super) fn count(&self) -> f64 {
        self.messages.iter().map(|(count, _)| *count as f64).sum()
    }

    /// The smallest message.
    pub(super) fn smallest(&self) -> f64 {
        self.messages.iter().map(|(_, bytes)| bytes.0).fold(f64::INFINITY, f64::min)
    }

    /// Of all messages the bytes that lie between `from` and `to` in their message.
    pub(super) fn between(&self, from: f64, to: f64) -> f64 {
        let part = |bytes: f64| (bytes.min(to) - from).max(0.0);
        self.messages.iter().map(|(count, bytes)| *count as f64 * part(bytes.0)).sum()
    }
}

impl Path {
    /// Messages that leave one port at once.
    pub(super) fn fan_out(&self) -> Option<u32> {
        match self.kind {
            Kind::FanOut(k) => Some(k),
            _ => None,
        }
    }
}
