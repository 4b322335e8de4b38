//! The time that a rendezvous adds to a closed form: the wait for an answer.
//!
//! Open MPI's ob1 splits a message above the eager limit in two: as much as the limit with the
//! request, and the rest when the receiver has answered. Over TCP the answer itself has to wait:
//!
//! ```text
//!   shift      r ──► r + 1     the answer comes back between two fragments of what r + 1 sends on:
//!                              half a fragment on average
//!   exchange   r ◄─► s         one connection serves both, and data written to it is sent in
//!                              order: the answer to r comes after the data that s has for r
//! ```
//!
//! A shift therefore pays for half a limit once more, and an exchange of m bytes for m − limit, or
//! for as much as a shift if that is more; messages whose receiver sends nothing wait for no other
//! rank. If partners change from round to round, no answer is in flight while the last round ends:
//! two thirds of m − limit were observed. This is why algorithms with doubling pairs are slow over
//! TCP and rings are not. docs/background/tuning-files.md compares this with measurements.
//!
//! Source: Open MPI 4.1.4 `ompi/mca/pml/ob1/pml_ob1_sendreq.h` and `pml_ob1_recvreq.c`,
//! `opal/mca/btl/tcp/btl_tcp_component.c` (eager limit) and `btl_tcp_endpoint.c` (one queue a peer).

use std::cell::RefCell;
use std::collections::HashMap;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Seconds};
use crate::library::Part;
use crate::machine::fabric::TierKind;
use crate::machine::profile::NetworkKind;
use crate::machine::query::Query;
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Shape;
use crate::model::schedule::{Endpoint, Schedule, Sends};

/// `btl_tcp_eager_limit` by default.
const EAGER: Bytes = Bytes(64 << 10);

/// Shorter segments spend more than a fiftieth of the wire on headers: 66 bytes of Ethernet, IP and
/// TCP, and some 30 of the library's per message.
const SHORTEST: Bytes = Bytes(4 << 10);

/// This number of ranks represents all ranks if they do not all do the same.
const LOOKED_AT: u32 = 64;

/// The waits of a library's messages on one machine.
pub struct Rendezvous {
    eager: Bytes,
    /// Seconds per byte of the links.
    inverse: f64,
    /// Algorithms that were looked up before.
    seen: RefCell<HashMap<Asked, Vec<Rounds>>>,
}

/// An algorithm on a number of ranks.
type Asked = (Collective, &'static str, u32);

/// The number of rounds in which the same is sent.
#[derive(Debug, PartialEq)]
struct Rounds {
    count: u64,
    /// The messages of single ranks, each pattern once.
    ranks: Vec<Vec<Message>>,
}

/// A message whose receiver sends too.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Message {
    /// Of the vector.
    share: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// To the rank that sends to its sender.
    Exchange,
    /// Around a cycle, to another rank than in the previous round.
    Turn,
    /// Around a cycle, to the same rank.
    Shift,
}

/// The fraction of the data after the answer that a cycle waits for: fitted, see
/// docs/background/tuning-files.md.
const TURN: f64 = 2.0 / 3.0;

impl Rendezvous {
    /// For Open MPI over TCP: on a machine that was calibrated over TCP, or whose network is TCP.
    /// `None` elsewhere: exchanges may be slow for other reasons.
    ///
    /// # Errors
    /// More ranks than the machine connects; a rate that is unknown.
    pub fn open_mpi(query: &Query) -> Result<Option<Self>> {
        let fabric = &query.machine.fabric;
        let links = &fabric.tiers[fabric.depth(query.shape.ranks)? - 1];
        let is_tcp = match &query.machine.fit {
            Some(fit) => fit.transport.as_deref() == Some("tcp"),
            None => links.kind == TierKind::Network && query.machine.network.is_some_and(tcp),
        };
        if !is_tcp {
            return Ok(None);
        }
        Ok(Some(Self { eager: EAGER, inverse: links.inverse()?, seen: RefCell::default() }))
    }

    /// Whether segments of this length should not be requested.
    #[must_use]
    pub fn is_short(&self, segment: Bytes) -> bool {
        segment.0 > 0 && segment < SHORTEST
    }

    /// The time that the waits of one part add for `size` bytes, M of the call.
    ///
    /// # Errors
    /// An algorithm that is not in the registry.
    pub fn waits(&self, registry: &Registry, part: &Part, size: Bytes) -> Result<Seconds> {
        // A barrier moves no data, regardless of its size.
        if size < self.eager || part.collective == Collective::Barrier {
            return Ok(Seconds(0.0));
        }
        let algorithm = registry.find(part.collective, part.algorithm)?.algorithm;
        let shape = Shape::new(part.collective, part.ranks);
        if let Some(segment) = part.segment.filter(|&segment| segment < size) {
            return Ok(self.segmented(algorithm, &shape, segment, size));
        }
        let mut seen = self.seen.borrow_mut();
        let rounds = seen
            .entry((part.collective, part.algorithm, part.ranks))
            .or_insert_with(|| algorithm.schedule(&shape).map_or_else(Vec::new, |s| rounds(&*s)));
        let all = rounds.iter().map(|round| round.count as f64 * self.longest(round, size));
        Ok(Seconds(all.sum()))
    }

    /// A pipeline: every rank that receives a segment sends one on.
    fn segmented(
        &self,
        algorithm: &dyn Algorithm,
        shape: &Shape,
        segment: Bytes,
        size: Bytes,
    ) -> Seconds {
        let segments = u32::try_from(size.0.div_ceil(segment.0.max(1))).unwrap_or(u32::MAX);
        let mut slots = 0;
        algorithm.steps(&shape.with_segments(segments), &mut |step| slots += step.count);
        let message = Message { share: segment.0 as f64 / size.0 as f64, kind: Kind::Shift };
        Seconds(slots as f64 * self.wait(message, size))
    }

    fn longest(&self, round: &Rounds, size: Bytes) -> f64 {
        let each = round.ranks.iter().map(|sent| sent.iter().map(|&m| self.wait(m, size)).sum());
        each.fold(0.0, f64::max)
    }

    fn wait(&self, message: Message, size: Bytes) -> f64 {
        let (bytes, eager) = (message.share * size.0 as f64, self.eager.0 as f64);
        if bytes < eager {
            return 0.0;
        }
        let behind = match message.kind {
            Kind::Exchange => bytes - eager,
            Kind::Turn => TURN * (bytes - eager),
            Kind::Shift => 0.0,
        };
        behind.max(eager / 2.0) * self.inverse
    }
}

/// Whether Open MPI has nothing but TCP on a network. GPUDirect-TCPX and -TCPXO are plugins of NCCL.
fn tcp(network: NetworkKind) -> bool {
    use NetworkKind::{Loopback, Tcp, Tcpx, Tcpxo};
    matches!(network, Tcp | Tcpx | Tcpxo | Loopback)
}

fn rounds(schedule: &dyn Schedule) -> Vec<Rounds> {
    let frame = schedule.frame();
    let looked_at = if frame.turns { 1 } else { frame.ranks.min(LOOKED_AT) };
    let mut all: Vec<Rounds> = Vec::new();
    let (mut own, mut theirs) = (Sends::default(), Sends::default());
    // The rank to which each rank sent last.
    let mut partners: Vec<Vec<Endpoint>> = vec![Vec::new(); looked_at as usize];
    for round in 0..frame.rounds {
        let mut ranks: Vec<Vec<Message>> = Vec::new();
        for (rank, before) in (0..looked_at).zip(&mut partners) {
            let from = Endpoint::Rank(rank);
            own.clear();
            schedule.sends(round, from, &mut own);
            let mut sent = Vec::new();
            for transfer in own.iter() {
                theirs.clear();
                schedule.sends(round, transfer.to, &mut theirs);
                if theirs.is_empty() {
                    continue;
                }
                let chunks: u64 = transfer.runs.iter().map(|run| u64::from(run.len)).sum();
                let share = chunks as f64 / f64::from(frame.parts.max(1));
                let kind = match theirs.iter().any(|t| t.to == from) {
                    true => Kind::Exchange,
                    false if before.is_empty() || before.contains(&transfer.to) => Kind::Shift,
                    false => Kind::Turn,
                };
                sent.push(Message { share, kind });
            }
            if !own.is_empty() {
                before.clear();
                before.extend(own.iter().map(|transfer| transfer.to));
            }
            if !sent.is_empty() && !ranks.contains(&sent) {
                ranks.push(sent);
            }
        }
        match all.last_mut() {
            Some(last) if last.ranks == ranks => last.count += 1,
            _ => all.push(Rounds { count: 1, ranks }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Where;

    /// The waits of an algorithm in units of one eager limit's time.
    fn waits(collective: Collective, algorithm: &'static str, ranks: u32, size: u64) -> f64 {
        let links = Rendezvous { eager: EAGER, inverse: 1.0, seen: RefCell::default() };
        let part = Part::new(collective, ranks, Where::All, algorithm);
        let time = links.waits(&Registry::builtin(), &part, Bytes(size)).unwrap();
        time.0 / EAGER.0 as f64
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn pairs_wait_for_each_other_and_rings_hardly() {
        use Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};
        // Blocks of 2 limits: 1, 2 and 4 of them are exchanged, each short of one limit.
        assert_eq!(waits(AllGather, "recursive-doubling", 8, MIB), 1.0 + 3.0 + 7.0);
        assert_eq!(waits(ReduceScatter, "recursive-halving", 8, MIB), 11.0);
        assert_eq!(waits(AllReduce, "rabenseifner", 8, MIB), 22.0);
        assert_eq!(waits(AllReduce, "recursive-doubling", 8, MIB), 3.0 * 15.0);
        // Seven messages that are answered between two fragments.
        assert_eq!(waits(AllGather, "ring", 8, MIB), 3.5);
        assert_eq!(waits(AllReduce, "ring", 8, MIB), 7.0);
        // One of seven partners of a pairwise exchange is opposite.
        let pairwise = waits(AllToAll, "pairwise", 8, MIB);
        assert!((pairwise - (0.5 + 5.0 * TURN + 1.0)).abs() < 1e-9, "{pairwise}");
        assert_eq!(waits(AllToAll, "direct", 8, MIB), 7.0);
        // An exchange of a limit waits as a shift does: of blocks of half a limit two halves do.
        assert_eq!(waits(AllGather, "recursive-doubling", 8, MIB / 4), 0.5 + 1.0);
        // Each partner is another: one block, two, and four of the opposite.
        let bruck = waits(AllGather, "bruck", 8, MIB);
        assert!((bruck - (0.5 + 3.0 * TURN + 7.0)).abs() < 1e-9, "{bruck}");
        // Neighbours exchange one block, then two at a time.
        assert_eq!(waits(AllGather, "neighbor-exchange", 8, MIB), 1.0 + 3.0 * 3.0);
    }

    #[test]
    fn what_is_eager_or_goes_one_way_waits_for_nobody() {
        use Collective::{AllGather, AllReduce, Barrier, Broadcast, Reduce};
        assert_eq!(waits(AllGather, "ring", 8, MIB / 2 - 8), 0.0);
        assert_eq!(waits(AllReduce, "rabenseifner", 8, MIB / 16), 0.0);
        assert_eq!(waits(Barrier, "dissemination", 8, MIB), 0.0);
        for algorithm in ["flat", "binomial", "chain"] {
            assert_eq!(waits(Broadcast, algorithm, 8, MIB), 0.0, "{algorithm}");
            assert_eq!(waits(Reduce, algorithm, 8, MIB), 0.0, "{algorithm}");
        }
    }

    #[test]
    fn segments_wait_where_they_are_no_longer_eager() {
        let links = Rendezvous { eager: EAGER, inverse: 1.0, seen: RefCell::default() };
        let chain = Part::new(Collective::Broadcast, 8, Where::All, "chain");
        let waits = |segment: u64| {
            let part = Part { segment: Some(Bytes(segment)), ..chain.clone() };
            links.waits(&Registry::builtin(), &part, Bytes(MIB)).unwrap().0 / EAGER.0 as f64
        };
        assert_eq!(waits(16 << 10), 0.0);
        // N + P − 2 slots of half a limit.
        assert_eq!(waits(128 << 10), 7.0);
    }
}
