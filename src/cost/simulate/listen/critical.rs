//! The critical path: from the last message back, with the reason why each one waited.
//!
//! ```text
//!   rank 0  ├─────────►┤
//!   rank 1             ├─────────►┤          waited for its data
//!   rank 0             ├─────────►┤
//!   rank 0                        ├────►     waited for the send port of rank 0
//! ```
//!
//! A message waited for whatever ended at the instant at which it started: data when they had been
//! added, ports when the message had arrived. If there are several, the first of these counts: its
//! data, a resource, the earlier rounds.

use super::Trace;
use crate::base::error::Result;
use crate::base::order::rising;
use crate::base::quantity::{Seconds, Volume};
use crate::cost::simulate::costs::Costs;
use crate::cost::simulate::jobs::Message;
use crate::cost::simulate::{Listener, Mode, Setup, Timed};
use crate::machine::fabric::Fabric;
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Op, Run, Schedule};

/// The relative difference below which two instants count as one: several times that of the
/// simulator.
const SAME: f64 = 1e-10;

/// Records every message, and finds the path at the end.
pub struct CriticalPath {
    costs: Costs,
    mode: Mode,
    trace: Trace,
}

/// What a message waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WaitedFor"))]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Nothing: it starts when the whole starts.
    Nothing,
    /// A rank that started late.
    Start,
    /// The data that it carries.
    Data,
    /// A port of its sender.
    SendPort,
    /// A port of its receiver.
    ReceivePort,
    /// The directed link between its two ends.
    Link,
    /// A NIC that ranks share.
    Nic,
    /// Earlier rounds of its own ranks.
    Rounds,
    /// The barrier after the previous round.
    Barrier,
}

/// One message of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hop {
    /// The round.
    pub round: u64,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// What the receiver does with the data.
    pub op: Op,
    /// The amount of data.
    pub bytes: Volume,
    /// The tier that it crosses, from the innermost; `None` through a switch.
    pub tier: Option<usize>,
    /// When it started.
    pub start: Seconds,
    /// When it left the path: at its end, when it had been added, or, if a switch forwards it while
    /// it arrives, when forwarding began.
    pub end: Seconds,
    /// The reason why it waited before.
    pub waited: Wait,
    /// α, on the path.
    pub latency: Seconds,
    /// Its data, including the effect of sharing a port.
    pub data: Seconds,
    /// Its addition, including a wait for earlier additions.
    pub addition: Seconds,
}

/// A path without a gap from the start of a rank to the end of the last message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// The messages, the first one first.
    pub hops: Vec<Hop>,
    /// The time before the first message: its ranks had not started.
    pub idle: Seconds,
    /// The hops' latencies.
    pub latency: Seconds,
    /// The hops' data.
    pub data: Seconds,
    /// The hops' additions.
    pub addition: Seconds,
}

impl CriticalPath {
    /// Without any messages of `schedule` on `fabric` yet.
    ///
    /// # Errors
    /// Errors of [`simulate`](crate::cost::simulate::simulate).
    pub fn new(schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) -> Result<Self> {
        let costs = Costs::new(schedule, fabric, setup)?;
        Ok(Self { costs, mode: setup.mode, trace: Trace::default() })
    }

    /// The path to the last message; of several that end last, to the first in the schedule.
    #[must_use]
    pub fn path(&self) -> Path {
        let order = Order {
            ends: self.sorted(|message| message.end.0),
            additions: self.sorted(|message| message.added.0),
        };
        let mut path = Path::default();
        let Some(&(last, _)) = order.additions.last() else { return path };
        let tied = order.additions.iter().rev().take_while(|(added, _)| is_same(*added, last));
        let mut index = tied.map(|&(_, index)| index).min().unwrap_or_default();
        let mut until = self.at(index).added.0;
        loop {
            let step = self.before(index, &order);
            let hop = self.hop(index, &step, until);
            path.latency = path.latency + hop.latency;
            path.data = path.data + hop.data;
            path.addition = path.addition + hop.addition;
            path.idle = hop.start;
            path.hops.push(hop);
            let Some((earlier, instant)) = step.earlier else { break };
            (index, until) = (earlier, instant);
        }
        path.hops.reverse();
        path
    }

    /// All messages, sorted by one of their instants.
    fn sorted(&self, instant: impl Fn(&Timed<'_>) -> f64) -> Vec<(f64, usize)> {
        let mut sorted: Vec<_> = self.trace.iter().map(|m| instant(&m)).zip(0..).collect();
        rising(&mut sorted, |a| a.0);
        sorted
    }

    fn at(&self, index: usize) -> Timed<'_> {
        self.trace.at(index)
    }

    /// Whether a message started before another, so that the path never turns back.
    fn is_earlier(&self, index: usize, than: usize) -> bool {
        (self.at(index).start.0, index) < (self.at(than).start.0, than)
    }

    /// The message that the one at `index` waited for.
    fn before(&self, index: usize, order: &Order) -> Step {
        let message = self.at(index);
        let switched = self.costs.frame.switches != 0;
        let through = || if switched { self.through_switch(index, &message) } else { None };
        if let (Endpoint::Switch(_), Some(step)) = (message.from, through()) {
            return step;
        }
        let start = message.start.0;
        if start > 0.0 {
            let data = at_instant(&order.additions, start).map(|i| (i, self.brought(&message, i)));
            let ports = at_instant(&order.ends, start).map(|i| (i, self.freed(&message, i)));
            let reasons = data.chain(ports).filter_map(|(earlier, wait)| {
                let wait = wait?;
                self.is_earlier(earlier, index).then_some((rank_of(wait), earlier, wait))
            });
            if let Some((_, earlier, waited)) = reasons.min() {
                return Step { waited, earlier: Some((earlier, start)), since: start };
            }
        }
        let alone = || Step { waited: self.start_of(&message), earlier: None, since: start };
        through().unwrap_or_else(alone)
    }

    /// Why `message` had to wait until another had been added; `None` if it had not.
    fn brought(&self, message: &Timed<'_>, earlier: usize) -> Option<Wait> {
        let earlier = self.at(earlier);
        if earlier.round >= message.round {
            return None;
        }
        if earlier.to == message.from && share_chunks(earlier.runs, message.runs) {
            return Some(Wait::Data);
        }
        // The sender was free when the message had arrived.
        let added = earlier.to == message.from || earlier.to == message.to;
        match self.mode {
            Mode::Local if added => Some(Wait::Rounds),
            Mode::Sync => Some(Wait::Barrier),
            _ => None,
        }
    }

    /// Why `message` had to wait until another had arrived; `None` if it had not.
    fn freed(&self, message: &Timed<'_>, earlier: usize) -> Option<Wait> {
        let earlier = self.at(earlier);
        // A message without duration holds nothing.
        let held = self.resource(message, &earlier).filter(|_| earlier.start.0 < earlier.end.0);
        let sent = earlier.from == message.from || earlier.from == message.to;
        match self.mode {
            _ if held.is_some() => held,
            Mode::Local if earlier.round < message.round && sent => Some(Wait::Rounds),
            _ => None,
        }
    }

    /// The exhausted resource that both need.
    fn resource(&self, message: &Timed<'_>, earlier: &Timed<'_>) -> Option<Wait> {
        let link = (earlier.from, earlier.to) == (message.from, message.to);
        // Messages through a switch use the ports of the innermost tier.
        let tier = message.tier.unwrap_or(0);
        if earlier.tier.unwrap_or(0) != tier {
            return None;
        }
        let costs = &self.costs.tiers[tier];
        let (limited, half) = match costs.ports {
            _ if costs.is_fair => (false, false),
            Ports::Full(_) => (true, false),
            Ports::Half(_) => (true, true),
            Ports::Unbounded => (false, false),
        };
        // One port is a tighter limit than one link.
        let one = matches!(costs.ports, Ports::Full(k) | Ports::Half(k) if k.get() == 1);
        if link && !(limited && one) {
            return Some(Wait::Link);
        }
        let rank = |end| matches!(end, Endpoint::Rank(_));
        let sends = |end| rank(end) && (earlier.from == end || half && earlier.to == end);
        let receives = |end| rank(end) && (earlier.to == end || half && earlier.from == end);
        if limited && sends(message.from) {
            return Some(Wait::SendPort);
        }
        if limited && receives(message.to) {
            return Some(Wait::ReceivePort);
        }
        let nics = tier > 0 && costs.nics.is_some() && !costs.is_fair;
        let node = |end: Endpoint| self.costs.domain(tier - 1, self.costs.place(end));
        let shared = nics
            && (node(earlier.from) == node(message.from) || node(earlier.to) == node(message.to));
        shared.then_some(Wait::Nic)
    }

    /// A message that waits for data forwarded by a switch may start while they still arrive.
    fn through_switch(&self, index: usize, message: &Timed<'_>) -> Option<Step> {
        let hop = self.costs.hop(self.costs.place(message.from));
        let needed = || {
            let all = (0..self.trace.len()).filter(|&i| self.is_earlier(i, index));
            all.filter_map(|i| Some((i, self.passed_on(message, &self.at(i))?)))
        };
        let step =
            |(earlier, waited), since| Step { waited, earlier: Some((earlier, since)), since };
        if matches!(message.from, Endpoint::Switch(_)) {
            let end = message.end.0;
            let mut last = needed().filter(|&(i, _)| is_same(self.at(i).end.0 + hop, end));
            if let Some(found) = last.next() {
                return Some(step(found, self.at(found.0).end.0));
            }
        }
        let start = message.start.0;
        let mut began = needed().filter(|&(i, _)| is_same(self.at(i).start.0 + hop, start));
        began.next().map(|found| step(found, start))
    }

    /// Why `message` needs the data that another brings to a switch; `None` if it does not.
    fn passed_on(&self, message: &Timed<'_>, earlier: &Timed<'_>) -> Option<Wait> {
        let Endpoint::Switch(_) = earlier.to else { return None };
        if earlier.round >= message.round {
            return None;
        }
        if earlier.to == message.from && share_chunks(earlier.runs, message.runs) {
            return Some(Wait::Data);
        }
        let of = |end: Endpoint| earlier.from == end || earlier.to == end;
        let rounds = self.mode == Mode::Local && (of(message.from) || of(message.to));
        rounds.then_some(Wait::Rounds)
    }

    /// Whether a rank's late start delayed the message.
    fn start_of(&self, message: &Timed<'_>) -> Wait {
        let late = [message.from, message.to].into_iter().any(|end| {
            let start = self.costs.start(self.costs.place(end));
            start > 0.0 && is_same(start, message.start.0)
        });
        if late { Wait::Start } else { Wait::Nothing }
    }

    /// The message as a part of the path, up to an instant.
    fn hop(&self, index: usize, step: &Step, until: f64) -> Hop {
        let message = self.at(index);
        let Timed { round, from, to, op, bytes, tier, start, end, .. } = message;
        let places = [from, to].map(|end| self.costs.place(end));
        let (alpha, _) =
            self.costs.terms(&Message { from: places[0], to: places[1], bytes: bytes.0, op });
        let came = end.0.min(until);
        // A switch forwards as soon as it can: its time on the path is latency.
        let passed = step.since != start.0 || until < end.0 * (1.0 - SAME);
        let moved = came - step.since;
        let latency = if passed { moved } else { alpha.min(moved) };
        Hop {
            round,
            from,
            to,
            op,
            bytes,
            tier,
            start: Seconds(step.since),
            end: Seconds(until),
            waited: step.waited,
            latency: Seconds(latency),
            data: Seconds(moved - latency),
            addition: Seconds((until - came).max(0.0)),
        }
    }
}

/// All messages by when they ended, and by when they had been added.
struct Order {
    ends: Vec<(f64, usize)>,
    additions: Vec<(f64, usize)>,
}

/// The messages in `sorted` whose instant is `instant`.
fn at_instant(sorted: &[(f64, usize)], instant: f64) -> impl Iterator<Item = usize> + '_ {
    let is_before = |at: f64| at.total_cmp(&instant).is_lt() && !is_same(at, instant);
    let first = sorted.partition_point(|(at, _)| is_before(*at));
    let same = sorted[first..].iter().take_while(move |(at, _)| is_same(*at, instant));
    same.map(|&(_, index)| index)
}

/// One step back along the path.
struct Step {
    waited: Wait,
    /// The message before, and the instant up to which it is on the path.
    earlier: Option<(usize, f64)>,
    /// From when on the later message is on the path.
    since: f64,
}

/// The priority of several reasons, lowest first.
fn rank_of(wait: Wait) -> u8 {
    match wait {
        Wait::Data => 0,
        Wait::SendPort | Wait::ReceivePort | Wait::Link => 1,
        Wait::Nic => 2,
        Wait::Rounds | Wait::Barrier => 3,
        Wait::Start | Wait::Nothing => 4,
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.max(b)
}

fn share_chunks(a: &[Run], b: &[Run]) -> bool {
    let meet = |x: &Run, y: &Run| x.start < y.chunks().end && y.start < x.chunks().end;
    a.iter().any(|x| b.iter().any(|y| meet(x, y)))
}

impl Listener for CriticalPath {
    fn message(&mut self, message: &Timed<'_>) {
        self.trace.message(message);
    }
}

#[cfg(test)]
mod tests;
