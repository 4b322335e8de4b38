//! Variable rates: messages that share ports, and ports that send and receive at once.
//!
//! A message first waits for its latency, then moves at its max-min fair rate: all rates rise
//! equally until a port is full; the messages through it keep their rates, and the others rise
//! further. Rates change whenever a message begins or ends to move.

use super::costs::Costs;
use super::greedy::Clock;
use super::in_order::SAME;
use super::jobs::{Job, Jobs, Terms};
use crate::model::formula::Ports;

/// The state of a message.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Its latency runs until then.
    Waits { until: f64 },
    /// The seconds left at full rate, and the current rate, where 1 is full.
    Moves { left: f64, rate: f64 },
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    job: u32,
    phase: Phase,
    /// How long it moves at full rate: first while both ways do not count, then while they do.
    quick: f64,
    moving: f64,
    limits: Limits,
    /// The port whose bucket it uses.
    rest: Option<usize>,
}

/// The kinds of limits of a tier: ports out, in and both ways, NICs out, in and both ways.
const LIMITS: usize = 6;

/// The most limits of a message: its ports each way and both ways, and a NIC at both ends, each way and both
/// ways, for each of six tiers.
const MOST_LIMITS: usize = 28;

/// The limits that a message shares, those that count for both ways last.
#[derive(Debug, Clone, Copy, Default)]
struct Limits {
    all: [u32; MOST_LIMITS],
    count: usize,
    /// How many of them limit what moves now: for its first bytes both ways do not count.
    binding: usize,
}

impl Limits {
    fn get(&self) -> &[u32] {
        &self.all[..self.binding]
    }
}

/// The time that a port behind a token bucket has saved while it rested: its next messages do not
/// wait for this many seconds of data. Ports have not rested before the first message, like those
/// of calls that follow others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    saved: f64,
    /// Since when it has rested, if nothing is under way.
    since: f64,
    under_way: u32,
}

impl Rest {
    /// The waiting time that remains for a message that begins now and moves for `moving`.
    fn begin(&mut self, now: f64, moving: f64, most: f64) -> f64 {
        if self.under_way == 0 {
            self.saved = (self.saved + (now - self.since)).min(most);
        }
        self.under_way += 1;
        let taken = self.saved.min(moving);
        self.saved -= taken;
        moving - taken
    }

    fn end(&mut self, now: f64) {
        self.under_way -= 1;
        self.since = now;
    }
}

/// All messages under way.
pub(super) struct Fluid<'a> {
    costs: &'a Costs,
    /// The savings of ports, tier by tier; empty without buckets.
    rests: &'a mut Vec<Rest>,
    /// How many messages at full rate each limit carries.
    capacity: Vec<f64>,
    flows: Vec<Flow>,
    at: f64,
    stale: bool,
    /// Messages that have ended and are not yet reported.
    ended: Vec<(u32, f64)>,
    /// For sharing: the remaining capacity of each limit, and the messages whose rates still rise.
    left: Vec<f64>,
    growing: Vec<u32>,
    open: Vec<usize>,
}

impl<'a> Fluid<'a> {
    pub fn new(costs: &'a Costs, rests: &'a mut Vec<Rest>) -> Self {
        let ranks = costs.frame.ranks as usize;
        let mut capacity = Vec::new();
        for tier in &costs.tiers {
            let (each, both) = match tier.ports {
                Ports::Full(k) => (f64::from(k.get()), 2.0 * tier.duplex * f64::from(k.get())),
                Ports::Half(k) => (f64::from(k.get()), f64::from(k.get())),
                Ports::Unbounded => (f64::INFINITY, f64::INFINITY),
            };
            let nics = tier.nics.map_or(f64::INFINITY, f64::from);
            // At 1 the two ways are enough.
            let turns = if tier.duplex < 1.0 { 2.0 * tier.duplex * nics } else { f64::INFINITY };
            for limit in [each, each, both, nics, nics, turns] {
                capacity.extend(std::iter::repeat_n(limit, ranks));
            }
        }
        let limits = capacity.len();
        Self {
            costs,
            rests,
            capacity,
            flows: Vec::new(),
            at: 0.0,
            stale: false,
            ended: Vec::new(),
            left: vec![0.0; limits],
            growing: vec![0; limits],
            open: Vec::new(),
        }
    }

    /// The limits of a message: the ports of both ends, each way and both ways, and the NICs.
    fn limits(&self, from: u32, to: u32) -> Limits {
        let ranks = self.costs.frame.ranks;
        let mut limits = Limits::default();
        if from >= ranks || to >= ranks {
            return limits;
        }
        let tier = self.costs.tier(from, to);
        let first = LIMITS as u32 * ranks * tier as u32;
        // Its own tier's, and those that it passes on the way there.
        let nic = |tier: usize, place: u32, kind: u32| {
            (LIMITS as u32 * tier as u32 + kind) * ranks + self.costs.domain(tier - 1, place)
        };
        let tiers = || (1..=tier).rev();
        let nics = tiers().flat_map(|tier| [nic(tier, from, 3), nic(tier, to, 4)]);
        let ports = [first + from, first + ranks + to];
        let both = [first + 2 * ranks + from, first + 2 * ranks + to];
        for limit in ports.into_iter().chain(nics) {
            self.add_limit(&mut limits, limit);
        }
        limits.binding = limits.count;
        let nics = tiers().flat_map(|tier| [nic(tier, from, 5), nic(tier, to, 5)]);
        for limit in both.into_iter().chain(nics) {
            self.add_limit(&mut limits, limit);
        }
        limits
    }

    /// An unlimited resource delays no message.
    fn add_limit(&self, limits: &mut Limits, limit: u32) {
        let is_limited = self.capacity[limit as usize] < f64::INFINITY;
        if is_limited && limits.count < MOST_LIMITS {
            limits.all[limits.count] = limit;
            limits.count += 1;
        }
    }

    /// The port behind a bucket from which a message leaves, and the most that it saves.
    fn rest(&self, from: u32, to: u32) -> Option<(usize, f64)> {
        let ranks = self.costs.frame.ranks;
        if self.rests.is_empty() || from >= ranks || to >= ranks {
            return None;
        }
        let tier = self.costs.tier(from, to);
        let most = self.costs.tiers[tier].times.saved;
        (most > 0.0).then_some((tier * ranks as usize + from as usize, most))
    }

    /// Gives every moving message its fair rate.
    fn share(&mut self) {
        let Self { costs, flows, capacity, left, growing, open, .. } = self;
        self.stale = false;
        left.copy_from_slice(capacity);
        growing.fill(0);
        open.clear();
        for (i, flow) in flows.iter().enumerate() {
            if let Phase::Moves { .. } = flow.phase {
                open.push(i);
                for &limit in flow.limits.get() {
                    growing[limit as usize] += 1;
                }
            }
        }
        let ranks = costs.frame.ranks as usize;
        // What goes one way alone has a port for itself.
        for ports in (0..capacity.len()).step_by(3 * ranks) {
            for place in ports..ports + ranks {
                if growing[place] == 0 || growing[place + ranks] == 0 {
                    left[place + 2 * ranks] = f64::INFINITY;
                }
            }
        }
        // Messages that leave a port at the same time may attain less together than one alone.
        for (tier, ports) in costs.tiers.iter().zip((0..).step_by(LIMITS * ranks)) {
            if !tier.times.is_shared() {
                continue;
            }
            for (left, &flows) in left[ports..ports + ranks].iter_mut().zip(&growing[ports..]) {
                *left *= tier.times.part(f64::from(flows.max(1)));
            }
        }
        let mut level = 0.0;
        while !open.is_empty() {
            // How far all can rise before a limit, or their own full rate, is reached.
            let mut step = 1.0 - level;
            for &i in &*open {
                for &limit in flows[i].limits.get() {
                    let room = left[limit as usize] / f64::from(growing[limit as usize]);
                    step = f64::min(step, room);
                }
            }
            step = f64::max(step, 0.0);
            level += step;
            for &i in &*open {
                for &limit in flows[i].limits.get() {
                    left[limit as usize] -= step;
                }
            }
            let before = open.len();
            open.retain(|&i| {
                let flow = &mut flows[i];
                let limits = flow.limits.get();
                let is_full =
                    level >= 1.0 - SAME || limits.iter().any(|&limit| left[limit as usize] <= SAME);
                if is_full {
                    for &limit in limits {
                        growing[limit as usize] -= 1;
                    }
                    if let Phase::Moves { rate, .. } = &mut flow.phase {
                        *rate = level;
                    }
                }
                !is_full
            });
            debug_assert!(open.len() < before, "sharing makes progress");
        }
    }

    /// The time of the next event of a message.
    fn due(&self, flow: &Flow) -> f64 {
        match flow.phase {
            Phase::Waits { until } => until,
            Phase::Moves { left, rate } => self.at + left / rate,
        }
    }

    /// Advances all messages until `now`, when there is at least one event.
    fn advance(&mut self, now: f64) {
        let passed = now - self.at;
        let until = now * (1.0 + SAME);
        let mut i = 0;
        while i < self.flows.len() {
            let due = self.due(&self.flows[i]);
            let flow = &mut self.flows[i];
            if due > until {
                if let Phase::Moves { left, rate } = &mut flow.phase {
                    *left -= passed * *rate;
                }
                i += 1;
                continue;
            }
            self.stale = true;
            match flow.phase {
                Phase::Waits { .. } if flow.quick > 0.0 => {
                    flow.phase = Phase::Moves { left: flow.quick, rate: 0.0 };
                    flow.quick = 0.0;
                    i += 1;
                }
                _ if flow.moving > 0.0 => {
                    flow.phase = Phase::Moves { left: flow.moving, rate: 0.0 };
                    flow.moving = 0.0;
                    flow.limits.binding = flow.limits.count;
                    i += 1;
                }
                _ => {
                    self.ended.push((flow.job, now));
                    if let Some(rest) = flow.rest.and_then(|port| self.rests.get_mut(port)) {
                        rest.end(now);
                    }
                    self.flows.swap_remove(i);
                }
            }
        }
        self.at = now;
    }
}

impl Clock for Fluid<'_> {
    fn start(&mut self, jobs: &Jobs, job: u32, now: f64, _least: f64) -> Option<f64> {
        let Terms { latency, moving, quick } = jobs.terms[job as usize];
        let Job { from, to, .. } = jobs.jobs[job as usize];
        let rest = self.rest(from, to);
        let left = match rest {
            Some((port, most)) => self.rests[port].begin(now, moving, most),
            None => moving,
        };
        // What a bucket saved are the first bytes.
        let quick = (quick - (moving - left)).max(0.0);
        self.flows.push(Flow {
            job,
            phase: Phase::Waits { until: now + latency },
            quick,
            moving: left - quick,
            limits: self.limits(from, to),
            rest: rest.map(|(port, _)| port),
        });
        None
    }

    fn next(&mut self) -> Option<f64> {
        if !self.ended.is_empty() {
            return Some(self.at);
        }
        if self.stale {
            self.share();
        }
        let mut first: Option<f64> = None;
        for flow in &self.flows {
            let due = self.due(flow);
            if first.is_none_or(|first| due < first) {
                first = Some(due);
            }
        }
        first
    }

    fn pop(&mut self, until: f64) -> Option<(u32, f64)> {
        if self.ended.is_empty() {
            let next = self.next()?;
            if next <= until {
                self.advance(next);
            }
        }
        self.ended.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::{Bandwidth, Seconds, Volume};
    use crate::cost::simulate::Setup;
    use crate::machine::fabric::Fabric;
    use crate::model::schedule::ring::Ring;

    #[test]
    fn a_message_without_data_ends_with_its_latency() {
        let ring = Ring::new(crate::Collective::AllGather, 2);
        let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
        let costs = Costs::new(&ring, &fabric, &Setup::new(Volume(0.0))).unwrap();
        let mut rests = Vec::new();
        let mut fluid = Fluid::new(&costs, &mut rests);
        let phase = Phase::Waits { until: 1.0 };
        fluid.flows.push(Flow {
            job: 7,
            phase,
            quick: 0.0,
            moving: 0.0,
            limits: fluid.limits(0, 1),
            rest: None,
        });
        assert_eq!(fluid.next(), Some(1.0));
        assert_eq!(fluid.pop(1.0), Some((7, 1.0)));
        assert_eq!((fluid.next(), fluid.pop(2.0)), (None, None));
    }
}
