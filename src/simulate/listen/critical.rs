//! The critical path: from the last message back, what each one waited for.
//!
//! ```text
//!   rank 0  ├─────────►┤
//!   rank 1             ├─────────►┤          waited for its data
//!   rank 0             ├─────────►┤
//!   rank 0                        ├────►     waited for the send port of rank 0
//! ```
//!
//! What ended at the instant at which a message started is what it waited for. Where several
//! things did, the first of these counts: its data, a resource, the rounds before.

use super::Trace;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::formula::Ports;
use crate::quantity::{Seconds, Volume};
use crate::schedule::{Endpoint, Op, Run, Schedule};
use crate::simulate::costs::Costs;
use crate::simulate::{Listener, Mode, Setup, Timed};

/// By how much, relative, two instants may differ that are one: some times what the simulator's
/// own may.
const SAME: f64 = 1e-10;

/// Keeps every message, and finds the path when all have come.
pub struct CriticalPath {
    costs: Costs,
    mode: Mode,
    trace: Trace,
}

/// What a message waited for before it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// Nothing: it starts when all starts.
    Nothing,
    /// A rank that started late.
    Start(u32),
    /// What it carries, which had to come first.
    Data,
    /// A port of its sender.
    SendPort,
    /// A port of its receiver.
    ReceivePort,
    /// The directed link between its two ends.
    Link,
    /// A NIC that the ranks of a node share.
    Nic,
    /// In mode local, the rounds before of one of its two ranks.
    Rounds,
    /// In mode sync, the barrier after the round before.
    Barrier,
}

impl Wait {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Start(_) => "start",
            Self::Data => "data",
            Self::SendPort => "send-port",
            Self::ReceivePort => "receive-port",
            Self::Link => "link",
            Self::Nic => "nic",
            Self::Rounds => "rounds",
            Self::Barrier => "barrier",
        }
    }
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
    /// How much data.
    pub bytes: Volume,
    /// The tier that it crosses, from the innermost; none through a switch.
    pub tier: Option<usize>,
    /// When it started.
    pub start: Seconds,
    /// When it ended; of a message that a switch passes on while it comes, when that began.
    pub end: Seconds,
    /// What it waited for before.
    pub waited: Wait,
    /// α, on the path.
    pub latency: Seconds,
    /// The data, with what sharing a port adds.
    pub data: Seconds,
    /// Adding them.
    pub addition: Seconds,
}

/// A path without a gap from the start of a rank to the end of the last message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// The messages, the first one first.
    pub hops: Vec<Hop>,
    /// Before the first message: its ranks had not started.
    pub idle: Seconds,
    /// The hops' latencies.
    pub latency: Seconds,
    /// The hops' data.
    pub data: Seconds,
    /// The hops' additions.
    pub addition: Seconds,
}

impl CriticalPath {
    /// Nothing heard yet of `schedule` on `fabric`.
    ///
    /// # Errors
    /// As [`simulate`](crate::simulate::simulate).
    pub fn new(schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) -> Result<Self> {
        let costs = Costs::new(schedule, fabric, setup)?;
        Ok(Self { costs, mode: setup.mode, trace: Trace::default() })
    }

    /// The path to the last message; of several that end last, to the first in the schedule.
    #[must_use]
    pub fn path(&self) -> Path {
        let mut by_end: Vec<usize> = (0..self.trace.len()).collect();
        by_end.sort_by(|&a, &b| self.at(a).end.0.total_cmp(&self.at(b).end.0));
        let mut path = Path::default();
        let Some(&latest) = by_end.last() else { return path };
        let last = self.at(latest).end.0;
        let tied = by_end.iter().rev().take_while(|&&i| is_same(self.at(i).end.0, last));
        let mut index = tied.copied().min().unwrap_or(latest);
        let mut until = None;
        loop {
            let step = self.before(index, &by_end);
            let hop = self.hop(index, &step, until);
            path.latency = path.latency + hop.latency;
            path.data = path.data + hop.data;
            path.addition = path.addition + hop.addition;
            path.idle = hop.start;
            path.hops.push(hop);
            let Some(earlier) = step.earlier else { break };
            (index, until) = (earlier, step.until);
        }
        path.hops.reverse();
        path
    }

    fn at(&self, index: usize) -> Timed<'_> {
        self.trace.at(index)
    }

    /// Whether a message started before another, so that the path never turns round.
    fn is_earlier(&self, index: usize, than: usize) -> bool {
        (self.at(index).start.0, index) < (self.at(than).start.0, than)
    }

    /// What the message at `index` waited for.
    fn before(&self, index: usize, by_end: &[usize]) -> Step {
        let message = self.at(index);
        if let Some(step) = self.through_switch(index, &message) {
            return step;
        }
        let start = message.start.0;
        if start > 0.0 {
            let first = by_end.partition_point(|&i| self.at(i).end.0 < start * (1.0 - SAME));
            let ended = by_end[first..].iter().copied();
            let ended = ended.take_while(|&i| is_same(self.at(i).end.0, start));
            let reasons = ended.filter_map(|i| {
                let wait = self.reason(&message, &self.at(i))?;
                self.is_earlier(i, index).then_some((rank_of(wait), i, wait))
            });
            if let Some((_, earlier, waited)) = reasons.min() {
                return Step { waited, earlier: Some(earlier), ..Step::default() };
            }
        }
        Step { waited: self.start_of(&message), ..Step::default() }
    }

    /// Why `message` had to wait for `earlier`, which ended as it started; none if it had not.
    fn reason(&self, message: &Timed<'_>, earlier: &Timed<'_>) -> Option<Wait> {
        let before = earlier.round < message.round;
        if before && earlier.to == message.from && share_chunks(earlier.runs, message.runs) {
            return Some(Wait::Data);
        }
        // What takes no time holds nothing.
        let held = self.resource(message, earlier).filter(|_| earlier.start.0 < earlier.end.0);
        if held.is_some() {
            return held;
        }
        let of = |end: Endpoint| earlier.from == end || earlier.to == end;
        match self.mode {
            Mode::Local if before && (of(message.from) || of(message.to)) => Some(Wait::Rounds),
            Mode::Sync if before => Some(Wait::Barrier),
            _ => None,
        }
    }

    /// The resource that both need and of which there is not enough.
    fn resource(&self, message: &Timed<'_>, earlier: &Timed<'_>) -> Option<Wait> {
        let link = (earlier.from, earlier.to) == (message.from, message.to);
        let tier = message.tier.filter(|_| earlier.tier == message.tier);
        let Some(tier) = tier else { return link.then_some(Wait::Link) };
        let costs = &self.costs.tiers[tier];
        let (limited, half) = match costs.ports {
            _ if costs.is_fair => (false, false),
            Ports::Full(_) => (true, false),
            Ports::Half(_) => (true, true),
            Ports::Unbounded => (false, false),
        };
        // One port is a narrower place than one link.
        let one = matches!(costs.ports, Ports::Full(k) | Ports::Half(k) if k.get() == 1);
        if link && !(limited && one) {
            return Some(Wait::Link);
        }
        let sends = |end| earlier.from == end || half && earlier.to == end;
        let receives = |end| earlier.to == end || half && earlier.from == end;
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

    /// What a switch sends may start while what it needs still comes.
    fn through_switch(&self, index: usize, message: &Timed<'_>) -> Option<Step> {
        let Endpoint::Switch(_) = message.from else { return None };
        let hop = self.costs.switch.0;
        let into = (0..self.trace.len()).filter(|&i| {
            let earlier = self.at(i);
            earlier.round < message.round
                && earlier.to == message.from
                && self.is_earlier(i, index)
                && share_chunks(earlier.runs, message.runs)
        });
        let needed: Vec<usize> = into.collect();
        let ended = needed.iter().find(|&&i| is_same(self.at(i).end.0 + hop, message.end.0));
        if let Some(&earlier) = ended {
            let since = Some(self.at(earlier).end.0);
            return Some(Step { waited: Wait::Data, earlier: Some(earlier), since, until: None });
        }
        let began = needed.iter().find(|&&i| is_same(self.at(i).start.0 + hop, message.start.0));
        let &earlier = began?;
        let until = Some(message.start.0);
        Some(Step { waited: Wait::Data, earlier: Some(earlier), since: None, until })
    }

    /// The rank whose start held the message back, if one did.
    fn start_of(&self, message: &Timed<'_>) -> Wait {
        let start = |end: Endpoint| self.costs.start(self.costs.place(end));
        let late = [message.from, message.to].into_iter().find(|&end| {
            let start = start(end);
            start > 0.0 && is_same(start, message.start.0)
        });
        match late {
            Some(Endpoint::Rank(rank)) => Wait::Start(rank),
            _ => Wait::Nothing,
        }
    }

    /// The message as a part of the path.
    fn hop(&self, index: usize, step: &Step, until: Option<f64>) -> Hop {
        let Timed { round, from, to, op, bytes, tier, start, end, .. } = self.at(index);
        let since = step.since.unwrap_or(start.0);
        let whole = until.unwrap_or(end.0) - since;
        let (latency, addition) = match (until, step.since) {
            (None, None) => {
                let places = [from, to].map(|end| self.costs.place(end));
                let (latency, _, addition) = self.costs.terms(places[0], places[1], bytes.0, op);
                (latency.min(whole), addition)
            }
            // A switch passes on as soon as it can: all of it is latency.
            _ => (whole, 0.0),
        };
        Hop {
            round,
            from,
            to,
            op,
            bytes,
            tier,
            start: Seconds(since),
            end: Seconds(until.unwrap_or(end.0)),
            waited: step.waited,
            latency: Seconds(latency),
            data: Seconds((whole - latency - addition).max(0.0)),
            addition: Seconds(addition),
        }
    }
}

/// One step back along the path.
struct Step {
    waited: Wait,
    earlier: Option<usize>,
    /// From when on the later message is on the path, where not from its start.
    since: Option<f64>,
    /// Up to when the earlier one is, where not to its end.
    until: Option<f64>,
}

impl Default for Step {
    fn default() -> Self {
        Self { waited: Wait::Nothing, earlier: None, since: None, until: None }
    }
}

/// Which of several reasons counts, the lowest first.
fn rank_of(wait: Wait) -> u8 {
    match wait {
        Wait::Data => 0,
        Wait::SendPort | Wait::ReceivePort | Wait::Link => 1,
        Wait::Nic => 2,
        Wait::Rounds | Wait::Barrier => 3,
        Wait::Start(_) | Wait::Nothing => 4,
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
