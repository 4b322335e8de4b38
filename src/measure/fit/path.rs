//! The critical path of a run: its consecutive messages, and its additions.

use crate::base::error::{Error, Result};
use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::cost::price::refuse;
use crate::machine::link::{Times, Traffic};
use crate::machine::sample::Op;
use crate::model::algorithm::{Algorithm, Registry, Route};
use crate::model::formula::{At, Form, Shape};

/// Whether a rank sends while it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message goes one way at a time.
    OneWay,
    /// Every rank sends and receives at once.
    Exchange,
    /// One rank sends to this many at once.
    FanOut(u32),
    /// Nothing is sent.
    Local,
}

/// Equal messages one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    /// How many.
    pub count: u64,
    /// The bytes of each.
    pub bytes: Volume,
    /// Whether the rank receives at the same time.
    pub both_ways: bool,
}

/// The critical path of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// The messages, one after another.
    pub messages: Vec<Sent>,
    /// Bytes added by the busiest rank.
    pub reduced: Volume,
    /// How its messages share ports.
    pub kind: Kind,
    /// Whether messages go back and forth, so that every port rests half the time.
    pub in_turns: bool,
    /// n_β of a double binary tree with many segments, by its closed form; absent for others.
    pub tree: Option<Ratio>,
}

impl Path {
    /// The path of `op` over `ranks` ranks with M = `size`.
    ///
    /// For an algorithm it is the steps of its closed form on one full-duplex port.
    ///
    /// # Errors
    /// The algorithm is unknown, does not apply, or runs in a switch.
    pub fn of(registry: &Registry, op: &Op, ranks: u32, size: Volume) -> Result<Self> {
        let plain = |count: u64, kind| Self {
            messages: vec![Sent { count, bytes: size, both_ways: kind == Kind::Exchange }],
            reduced: Volume(0.0),
            kind,
            in_turns: false,
            tree: None,
        };
        match op {
            Op::OneWay => Ok(Self { in_turns: true, ..plain(1, Kind::OneWay) }),
            Op::Shift | Op::ShiftBy(_) | Op::Pairs(_) => Ok(plain(1, Kind::Exchange)),
            // At one port they are sent one after another; how they share it is fitted separately.
            Op::FanOut(k) => Ok(plain(k.get().into(), Kind::FanOut(k.get()))),
            Op::Copy => Ok(Self { messages: Vec::new(), ..plain(0, Kind::Local) }),
            Op::Reduce => Ok(Self { messages: Vec::new(), reduced: size, ..plain(0, Kind::Local) }),
            Op::Run(run) => {
                let named = registry.find(run.collective, &run.algorithm)?;
                Self::collective(named.algorithm, &run.shape(ranks), size)
            }
            Op::Device(_) => Ok(Self { messages: Vec::new(), ..plain(0, Kind::Local) }),
            Op::Library(_) | Op::Forced(_) => {
                Err(Error::unsupported(format!("the messages of {op} are unknown: it has no path")))
            }
        }
    }

    /// The path of `algorithm` for `shape`.
    pub(super) fn collective(
        algorithm: &dyn Algorithm,
        shape: &Shape,
        size: Volume,
    ) -> Result<Self> {
        algorithm.applies(shape).map_err(|why| refuse(algorithm, &why))?;
        let mut path = Self {
            messages: Vec::new(),
            reduced: Volume(0.0),
            kind: Kind::OneWay,
            in_turns: false,
            tree: None,
        };
        let mut through_switch = false;
        // What its messages lose to each other is in the measured c_real.
        let is_double_tree = algorithm.meta().id == "double-binary-tree";
        algorithm.steps(shape, &mut |step| {
            let both_ways = step.goes_both_ways() && !is_double_tree;
            let bytes = Volume(step.share.value() * size.0);
            path.messages.push(Sent { count: step.count, bytes, both_ways });
            path.reduced.0 += step.count as f64 * step.reduced.value() * size.0;
            if both_ways {
                path.kind = Kind::Exchange;
            }
            through_switch |= step.route == Route::Switch;
        });
        if through_switch {
            let id = algorithm.meta().id;
            return Err(Error::unsupported(format!(
                "`{id}` runs in a switch: its α cannot be fitted"
            )));
        }
        if is_double_tree {
            let limit = algorithm.price_form(&At::numbers(*shape), Form::Asymptotic);
            path.tree = limit.map(|cost| Ratio(cost.total().beta));
        }
        Ok(path)
    }

    /// Messages one after another.
    pub(super) fn count(&self) -> f64 {
        self.messages.iter().map(|sent| sent.count as f64).sum()
    }

    /// The smallest message.
    pub(super) fn smallest(&self) -> f64 {
        self.messages.iter().map(|sent| sent.bytes.0).fold(f64::INFINITY, f64::min)
    }

    /// The time of its messages on links of these times.
    #[must_use]
    pub fn time(&self, times: &Times) -> Seconds {
        let flows = Ratio(self.fan_out().map_or(1.0, f64::from));
        let each = |sent: &Sent| match self.in_turns {
            true => times.in_turns(sent.bytes),
            false => times.message(sent.bytes, Traffic { both_ways: sent.both_ways, flows }),
        };
        Seconds(self.messages.iter().map(|sent| sent.count as f64 * each(sent).0).sum())
    }
}

impl Path {
    /// The part of that, one way, of the bytes that may take longer in an exchange, s.
    pub(super) fn time_after(&self, times: &Times) -> f64 {
        let each = |bytes: f64| times.slopes.of(bytes) - times.quick(bytes);
        self.messages.iter().map(|sent| sent.count as f64 * each(sent.bytes.0)).sum()
    }

    /// Messages that leave one port at once.
    pub(super) fn fan_out(&self) -> Option<u32> {
        match self.kind {
            Kind::FanOut(k) => Some(k),
            _ => None,
        }
    }
}
