//! The collectives of a step, kept while they are priced.

use std::cell::RefCell;

use super::Wires;
use super::wires::Among;
use crate::base::collective::Collective;
use crate::base::error::Result;

/// A collective that a rank of the slowest stage takes part in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    /// The part of the step, such as `tp`.
    pub part: &'static str,
    pub collective: Collective,
    pub ranks: u32,
    pub bytes: f64,
    /// Calls in a step.
    pub calls: f64,
    /// Seconds of one call.
    pub each: f64,
}

/// Prices collectives, and keeps each of them.
pub(super) struct Log<'a, 'r> {
    pub wires: &'a Wires<'r>,
    sent: RefCell<Vec<Sent>>,
}

impl<'a, 'r> Log<'a, 'r> {
    pub fn new(wires: &'a Wires<'r>) -> Self {
        Self { wires, sent: RefCell::default() }
    }

    /// Seconds of one of `calls`; none if there is nothing to send.
    ///
    /// # Errors
    /// Ranks that the machine does not join.
    pub fn time(
        &self,
        (part, calls): (&'static str, f64),
        collective: Collective,
        among: Among,
        bytes: f64,
    ) -> Result<f64> {
        if bytes <= 0.0 {
            return Ok(0.0);
        }
        let each = self.wires.time(collective, among, bytes)?;
        let ranks = among.group.ranks;
        self.keep(Sent { part, collective, ranks, bytes, calls, each });
        Ok(each)
    }

    /// Keeps a collective that was priced elsewhere; equal ones are one with more calls.
    pub fn keep(&self, new: Sent) {
        if new.each <= 0.0 || new.calls <= 0.0 {
            return;
        }
        let mut sent = self.sent.borrow_mut();
        let what = |s: &Sent| (s.part, s.collective, s.ranks, s.bytes);
        match sent.iter_mut().find(|s| what(s) == what(&new)) {
            Some(same) => same.calls += new.calls,
            None => sent.push(new),
        }
    }

    pub fn into_sent(self) -> Vec<Sent> {
        self.sent.into_inner()
    }
}
