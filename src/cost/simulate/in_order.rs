//! One port per rank, in schedule order: the fast method, used where it is exact.
//!
//! Messages are processed in schedule order, each starting as soon as its data and its two ports
//! are available. This equals the event-by-event result, unless a message could have started in a
//! gap before one that comes earlier in the schedule. So a port remembers since when it has been
//! busy without a gap; a message that waited for less than that waited for a reason. If one did
//! not, the result is discarded and the events are simulated.

use std::ops::Range;

use super::cells::Cells;
use super::costs::{Costs, Last};
use super::greedy;
use super::jobs::Message;
use super::{Listener, MEMORY, Outcome, Space, Timed, turning};
use crate::base::error::Result;
use crate::base::quantity::{Seconds, Volume};
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Schedule, Sends, Transfer, each_message};

/// The relative difference below which two instants count as one.
pub(super) const SAME: f64 = 1e-11;

/// The ports of all ranks, each busy without a gap during one interval.
#[derive(Default)]
pub(super) struct Busy {
    since: Vec<f64>,
    until: Vec<f64>,
    /// Where the receive ports begin; 0 if a rank has one port for both.
    receive: usize,
}

impl Busy {
    /// Free ports for this many ranks.
    pub fn reset(&mut self, ranks: usize, ports: Ports) {
        for times in [&mut self.since, &mut self.until] {
            times.clear();
            times.resize(2 * ranks, 0.0);
        }
        self.receive = if ports.is_half() { 0 } else { ranks };
    }

    /// Places a message that is ready at `ready` after those on its ports, and returns its start;
    /// `None` if it would have found a gap before.
    #[inline(always)]
    pub fn place(&mut self, from: u32, to: u32, ready: f64, duration: f64) -> Option<f64> {
        let (a, b) = (from as usize, self.receive + to as usize);
        let start = ready.max(self.until[a]).max(self.until[b]);
        let late = start * (1.0 - SAME);
        if late > ready && !self.covers(a, b, ready, late) {
            return None;
        }
        for port in [a, b] {
            if self.until[port] < late {
                self.since[port] = start;
            }
            self.until[port] = start + duration;
        }
        Some(start)
    }

    /// Clears all ports.
    pub fn clear(&mut self) {
        self.since.fill(0.0);
        self.until.fill(0.0);
    }

    /// Whether one of the ports is busy at every instant from `ready` to `start`.
    #[inline]
    fn covers(&self, a: usize, b: usize, ready: f64, start: f64) -> bool {
        let ready = ready * (1.0 + SAME);
        let (last, other) = if self.until[a] >= start { (a, b) } else { (b, a) };
        self.since[last] <= ready
            || self.since[other] <= ready && self.until[other] * (1.0 + SAME) >= self.since[last]
    }
}

/// Memory of this method, reused between runs.
#[derive(Default)]
pub(super) struct Written {
    pub busy: Busy,
    /// Until when each rank is adding.
    pub adders: Vec<f64>,
    /// When the last data written to each chunk of each rank, in earlier rounds, had arrived.
    pub cells: Vec<f64>,
    /// The same for the data copied last, which are the operand of the next addition; empty if
    /// adding takes no time.
    pub copied: Vec<f64>,
    arriving: Vec<(Range<usize>, f64, bool)>,
}

/// Mode `flow` on one port: in order if that is exact, otherwise event by event.
pub(super) fn flow(
    schedule: &dyn Schedule,
    costs: &Costs,
    space: &mut Space,
    listener: Option<&mut dyn Listener>,
) -> Result<Outcome> {
    let cells = Cells::of(schedule, costs)?;
    let alike = costs.all_are_alike() && matches!(cells, Cells::Chunks { .. });
    if alike && listener.is_none() {
        if let Some(outcome) = turning::pass(schedule, costs, space)? {
            return Ok(outcome);
        }
    } else if may_hold(costs) {
        let each = if costs.adds() { 16 } else { 8 };
        let bytes = (cells.count() as u64).saturating_mul(each).saturating_add(cells.memory());
        if bytes <= MEMORY
            && let Some(outcome) = pass(schedule, costs, &cells, space, None)
        {
            if listener.is_some() {
                // Run again, now that it is known to be exact.
                pass(schedule, costs, &cells, space, listener);
            }
            return Ok(outcome);
        }
    }
    // The memory of this method would add to that of the other.
    (space.written.cells, space.written.copied) = (Vec::new(), Vec::new());
    greedy::whole(schedule, costs, Some(&cells), space, listener)
}

/// Whether it is worth trying: ranks with different start times keep the order only if each has the
/// same partners throughout, as in a ring.
fn may_hold(costs: &Costs) -> bool {
    costs.frame.turns || !costs.starts_apart()
}

/// A message would have found a gap before an earlier one, or is invalid.
struct Gap;

/// All messages in schedule order; an error if one would have found a gap before.
pub(super) fn pass(
    schedule: &dyn Schedule,
    costs: &Costs,
    cells: &Cells,
    space: &mut Space,
    mut listener: Option<&mut dyn Listener>,
) -> Option<Outcome> {
    let ranks = costs.frame.ranks as usize;
    let Space {
        written: Written { busy, adders, cells: written, copied, arriving }, tally, ..
    } = space;
    adders.clear();
    adders.resize(ranks, 0.0);
    busy.reset(ranks, costs.tiers[0].ports);
    written.clear();
    written.resize(cells.count(), 0.0);
    copied.clear();
    copied.resize(if costs.adds() { written.len() } else { 0 }, 0.0);
    arriving.clear();
    tally.reset(costs.places());
    let mut makespan = 0.0_f64;
    let mut sends = Sends::default();
    let mut last = Last::default();
    for round in 0..costs.frame.rounds {
        let one = |sender: Endpoint, transfer: Transfer<'_>| {
            // An invalid message is refused when the events are simulated.
            let message = costs.message(sender, transfer).map_err(|_| Gap)?;
            let Message { from, to, bytes, op } = message;
            let mut ready = costs.start(from).max(costs.start(to));
            for &run in transfer.runs {
                for &time in &written[cells.of_run(from, run)] {
                    ready = ready.max(time);
                }
            }
            let duration = costs.duration_after(&message, &mut last);
            let start = busy.place(from, to, ready, duration).ok_or(Gap)?;
            let end = start + duration;
            let is_copy = costs.adding(&message) == 0.0;
            let targets = || transfer.runs.iter().map(|&run| cells.of_run(to, run));
            // Others may be added while this one waits for its operand.
            if !is_copy && targets().any(|cells| copied[cells].iter().any(|&time| time > end)) {
                return Err(Gap);
            }
            let added = added(costs, &message, end, &mut adders[to as usize]);
            arriving.extend(targets().map(|cells| (cells, added, is_copy)));
            makespan = makespan.max(added);
            tally.add(round, from, to, bytes);
            if let Some(listener) = listener.as_deref_mut() {
                listener.message(&Timed {
                    round,
                    from: sender,
                    to: transfer.to,
                    op,
                    runs: transfer.runs,
                    bytes: Volume(bytes),
                    tier: costs.tier_of(sender, transfer.to),
                    start: Seconds(start),
                    end: Seconds(end),
                    added: Seconds(added),
                });
            }
            Ok(())
        };
        each_message(schedule, round, &mut sends, one).ok()?;
        for (cells, added, is_copy) in arriving.drain(..) {
            for time in &mut written[cells.clone()] {
                *time = time.max(added);
            }
            if is_copy && !copied.is_empty() {
                copied[cells].fill(added);
            }
        }
    }
    Some(tally.finish(ranks, makespan))
}

/// When the receiver, which is adding until `adder`, has added the data that arrived at `end`.
#[inline(always)]
pub(super) fn added(costs: &Costs, message: &Message, end: f64, adder: &mut f64) -> f64 {
    match costs.adding(message) {
        0.0 => end,
        adding => {
            *adder = adder.max(end) + adding;
            *adder
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Collective::{AllReduce, Broadcast};
    use crate::base::quantity::Bandwidth;
    use crate::cost::simulate::Setup;
    use crate::machine::fabric::Fabric;
    use crate::model::schedule::{binomial, ring};

    fn busy(ports: Ports) -> Busy {
        let mut busy = Busy::default();
        busy.reset(4, ports);
        busy
    }

    #[test]
    fn messages_wait_for_ports_that_are_busy_all_the_while() {
        let mut ports = busy(Ports::ONE);
        assert_eq!(ports.place(0, 1, 0.0, 2.0), Some(0.0));
        assert_eq!(ports.place(0, 2, 0.0, 2.0), Some(2.0));
        assert_eq!(ports.place(3, 1, 1.0, 2.0), Some(2.0));
        // Rank 2 receives from 2 to 4 and rank 1 sends nothing: there is a gap before.
        assert_eq!(ports.place(1, 2, 0.0, 2.0), None);
        assert_eq!(ports.place(1, 2, 2.0, 2.0), Some(4.0));
        // One after the other, the two ports leave no gap.
        let mut ports = busy(Ports::ONE);
        assert_eq!(ports.place(0, 1, 0.0, 2.0), Some(0.0));
        assert_eq!(ports.place(2, 3, 2.0, 2.0), Some(2.0));
        assert_eq!(ports.place(0, 3, 1.0, 2.0), Some(4.0));
    }

    #[test]
    fn instants_that_are_one_leave_no_gap() {
        let just_before = 1.0 - SAME;
        // The port becomes free practically when the next message is ready.
        let mut ports = busy(Ports::ONE);
        assert_eq!(ports.place(0, 1, 0.0, just_before), Some(0.0));
        assert_eq!(ports.place(0, 1, 1.0, 1.0), Some(1.0));
        assert_eq!(ports.place(0, 1, 0.5, 1.0), Some(2.0));
        // A message is ready practically when its port becomes free.
        let mut ports = busy(Ports::ONE);
        assert_eq!(ports.place(0, 1, 13.0, 0.0), Some(13.0));
        assert_eq!(ports.place(0, 1, 13.0 * just_before, 1.0), Some(13.0));
        // A port has been busy practically since the message was ready, or since the other port.
        let mut ports = busy(Ports::ONE);
        (ports.since[0], ports.until[0]) = (1.0, 2.0);
        assert_eq!(ports.place(0, 1, 1.0 - SAME / 2.0, 1.0), Some(2.0));
        let mut ports = busy(Ports::ONE);
        (ports.until[0], ports.since[5], ports.until[5]) = (1.0 - SAME / 2.0, 1.0, 2.0);
        assert_eq!(ports.place(0, 1, 0.5, 1.0), Some(2.0));
    }

    #[test]
    fn ranks_that_start_apart_keep_to_the_order_in_a_ring_alone() {
        let (ring, tree) = (
            ring::Ring::new(AllReduce, 4),
            binomial::Tree::new(Broadcast, 4, 1, binomial::Edges::NearFirst),
        );
        for starts in [[0.0, 0.0], [0.0, 1.0]] {
            let mut setup = Setup::new(Volume(1.0));
            setup.trouble.starts = starts.map(Seconds).to_vec();
            let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
            let may_hold =
                |schedule: &dyn Schedule| may_hold(&Costs::new(schedule, &fabric, &setup).unwrap());
            assert!(may_hold(&ring));
            assert_eq!(may_hold(&tree), starts == [0.0, 0.0]);
        }
    }
}
