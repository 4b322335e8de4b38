//! The cost of a schedule with a barrier after every round, counted message by message.

use super::{Endpoint, Layout, Op, Schedule, Sends, Transfer, senders};
use crate::base::collective::Collective::Barrier;
use crate::model::formula::Rational;

/// The result of [`count`]; shares are of M, exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Rounds in which some endpoint sends.
    pub rounds: u64,
    /// n_α: sequential messages.
    pub n_alpha: u64,
    /// n_β: the share of M through the busiest port of each round, summed over the rounds.
    pub n_beta: Rational,
    /// n_γ: the same for the data that receivers add, one thing after another whatever their ports.
    /// Whole vectors of other ranks count as added when they arrive, although nothing is added on
    /// the way.
    pub n_gamma: Rational,
    /// The share that the busiest rank sends.
    pub max_sent: Rational,
    /// The share that the busiest rank receives.
    pub max_received: Rational,
    /// The share that all ranks and switches send together.
    pub total: Rational,
    /// Messages that all ranks and switches send together.
    pub messages: u64,
}

/// Counts `schedule` with `ports` full-duplex ports per endpoint; 0 means unbounded.
///
/// A round takes as many sequential messages as its busiest endpoint needs in its busier direction,
/// ⌈messages/ports⌉, and at least as many as go over one directed link. The longest port load
/// results from assigning each message, in schedule order, to the port with the least load.
///
/// If the messages of each round are equally long, n_α·α + n_β·M/BW is the makespan with a barrier
/// after every round: the messages can be coloured so that no endpoint waits (König; de Werra for
/// more ports). If they are not, n_α and n_β are each what one endpoint alone needs. Then the
/// makespan can be larger because partners wait for each other, or smaller because the most
/// messages and the most data are at different endpoints.
///
/// The barrier itself costs nothing. A pipeline that runs ahead where data and ports allow can be
/// faster than this. Messages to endpoints that do not exist are ignored; a barrier has no data.
pub fn count(schedule: &dyn Schedule, ports: u32) -> Count {
    let mut tally = Tally::new(schedule, ports);
    let mut sends = Sends::default();
    for round in 0..schedule.rounds() {
        for from in senders(schedule) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            tally.add_sender(from, &sends);
        }
        tally.end_round();
    }
    tally.finish()
}

/// Messages and chunks at one endpoint in one direction, or on one link.
#[derive(Debug, Default, Clone, Copy)]
struct Load {
    messages: u64,
    chunks: u64,
    added: u64,
}

/// The loads of the endpoints in one direction in the current round.
struct Side {
    ports: usize,
    /// Messages at each endpoint.
    messages: Vec<u64>,
    /// Chunks at each port: endpoint · ports + port.
    chunks: Vec<u64>,
    /// Chunks that each endpoint adds.
    added: Vec<u64>,
}

struct Tally<'a> {
    schedule: &'a dyn Schedule,
    out: Side,
    into: Side,
    /// By receiver, for the current sender.
    links: Vec<Load>,
    /// The longest loads of the round, and their sums over the rounds before.
    longest: Load,
    sum: Load,
    /// Chunks over all rounds, by endpoint.
    sent: Vec<u64>,
    received: Vec<u64>,
    messages: u64,
    rounds: u64,
}

impl Side {
    fn new(endpoints: usize, ports: usize) -> Self {
        let idle = vec![0; endpoints];
        let chunks = vec![0; endpoints * ports];
        Self { ports, messages: idle.clone(), chunks, added: idle }
    }

    /// Adds a message to the ports of `endpoint` and returns the load of its busiest port.
    fn add(&mut self, endpoint: usize, message: Load) -> Load {
        self.messages[endpoint] += 1;
        self.added[endpoint] += message.added;
        let ports = endpoint * self.ports..(endpoint + 1) * self.ports;
        Load {
            messages: self.messages[endpoint].div_ceil(self.ports as u64),
            chunks: add_to_least(&mut self.chunks[ports], message.chunks),
            added: self.added[endpoint],
        }
    }

    fn clear(&mut self) {
        for loads in [&mut self.messages, &mut self.chunks, &mut self.added] {
            loads.fill(0);
        }
    }
}

/// Adds `load` to the smallest of `loads`, of which there is at least one, and returns the sum.
fn add_to_least(loads: &mut [u64], load: u64) -> u64 {
    loads.iter_mut().min().map_or(load, |least| {
        *least += load;
        *least
    })
}

impl Load {
    fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.chunks += other.chunks;
        self.added += other.added;
    }

    fn raise_to(&mut self, other: Self) {
        self.messages = self.messages.max(other.messages);
        self.chunks = self.chunks.max(other.chunks);
        self.added = self.added.max(other.added);
    }
}

impl<'a> Tally<'a> {
    fn new(schedule: &'a dyn Schedule, ports: u32) -> Self {
        let endpoints = schedule.ranks() as usize + schedule.switches() as usize;
        // With a port for every partner only the links are shared.
        let ports = if ports == 0 { endpoints } else { endpoints.min(ports as usize) }.max(1);
        Self {
            schedule,
            out: Side::new(endpoints, ports),
            into: Side::new(endpoints, ports),
            links: vec![Load::default(); endpoints],
            longest: Load::default(),
            sum: Load::default(),
            sent: vec![0; endpoints],
            received: vec![0; endpoints],
            messages: 0,
            rounds: 0,
        }
    }

    fn add_sender(&mut self, from: Endpoint, sends: &Sends) {
        let Some(source) = from.place(self.schedule) else { return };
        let frame = self.schedule.frame();
        for Transfer { to, op, runs } in sends.iter() {
            let Some(target) = to.place(self.schedule) else { continue };
            let chunks = runs.iter().map(|run| u64::from(run.len)).sum();
            let arrived = if op == Op::Reduce || self.adds_at_end() { chunks } else { 0 };
            let own = if frame.adds_own(from, to, op) { u64::from(frame.parts) } else { 0 };
            let added = arrived + own;
            let message = Load { messages: 1, chunks, added };
            self.links[target].add(message);
            self.longest.raise_to(self.links[target]);
            // Only the receiver adds.
            self.longest.raise_to(self.out.add(source, Load { added: 0, ..message }));
            self.longest.raise_to(self.into.add(target, message));
            self.sent[source] += chunks;
            self.received[target] += chunks;
            self.messages += 1;
        }
        for transfer in sends.iter() {
            if let Some(target) = transfer.to.place(self.schedule) {
                self.links[target] = Load::default();
            }
        }
    }

    /// Whether arriving data are stored unchanged and added at the end.
    fn adds_at_end(&self) -> bool {
        let frame = self.schedule.frame();
        frame.layout == Layout::Owned && frame.collective.reduces()
    }

    fn end_round(&mut self) {
        let longest = std::mem::take(&mut self.longest);
        if longest.messages == 0 {
            return;
        }
        self.rounds += 1;
        self.sum.add(longest);
        self.out.clear();
        self.into.clear();
    }

    fn finish(self) -> Count {
        let data = i128::from(self.schedule.collective() != Barrier);
        let parts = i128::from(self.schedule.parts().max(1));
        let share = |chunks: u64| Rational::new(data * i128::from(chunks), parts);
        let ranks = self.schedule.ranks() as usize;
        let busiest = |chunks: &[u64]| share(chunks[..ranks].iter().copied().max().unwrap_or(0));
        Count {
            rounds: self.rounds,
            n_alpha: self.sum.messages,
            n_beta: share(self.sum.chunks),
            n_gamma: share(self.sum.added),
            max_sent: busiest(&self.sent),
            max_received: busiest(&self.received),
            total: share(self.sent.iter().sum()),
            messages: self.messages,
        }
    }
}
