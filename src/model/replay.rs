//! The contents of every rank, round by round: a schedule executed on contents.
//!
//! ```text
//!   start      v00   v01        N = 2: contents are of any kind: names of what was added,
//!   0 → 1 add                   or numbers
//!   round 0    v00   v11+v01
//! ```
//!
//! Messages of a round read what was there before it, as in [`verify`](crate::model::schedule::verify()).

use crate::base::error::{Error, Result};
use crate::model::schedule::{Endpoint, Op, Schedule, Sends, each_message, holds, turns};

/// The most places, endpoints times chunks, of a [`Replay`].
pub const MOST_PLACES: u64 = 1 << 22;

/// The most turns of a [`Replay`], each one query of an endpoint for its sends in a round: a second
/// or two.
pub const MOST_TURNS: u64 = 1 << 27;

/// The contents of one place.
pub trait Content: Clone {
    /// Adds or joins arriving contents to the present ones.
    fn take(&mut self, op: Op, arriving: &Self);
}

/// The ranks whose contributions are in a chunk, in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranks(pub Vec<u32>);

impl Content for Ranks {
    fn take(&mut self, op: Op, arriving: &Self) {
        for rank in &arriving.0 {
            // A notification may come twice; a contribution that does is an error worth showing.
            if op != Op::Or || !self.0.contains(rank) {
                self.0.push(*rank);
            }
        }
    }
}

/// The elements of a chunk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Numbers(pub Vec<f64>);

impl Content for Numbers {
    fn take(&mut self, op: Op, arriving: &Self) {
        for (here, there) in self.0.iter_mut().zip(&arriving.0) {
            *here = if op == Op::Or { here.max(*there) } else { *here + there };
        }
    }
}

/// The ranks and switches of a schedule that is small enough to follow; checked before any work is
/// done for them.
fn check(schedule: &dyn Schedule) -> Result<u64> {
    let (ranks, chunks) = (schedule.ranks(), schedule.chunks());
    let endpoints = u64::from(ranks) + u64::from(schedule.switches());
    let too_large = if endpoints.saturating_mul(chunks.into()) > MOST_PLACES {
        format!("the contents of {endpoints} ranks x {chunks} chunks are too many to follow")
    } else if turns(schedule) > MOST_TURNS {
        format!("{endpoints} ranks through {} rounds are too many to follow", schedule.rounds())
    } else {
        return Ok(endpoints);
    };
    Err(Error::input(too_large).help("use fewer ranks or segments"))
}

/// A schedule being executed.
pub struct Replay<'a, C> {
    schedule: &'a dyn Schedule,
    chunks: usize,
    /// By place: endpoint · chunks + chunk.
    places: Vec<Option<C>>,
    arriving: Vec<(usize, Op, C)>,
    sends: Sends,
}

impl<'a, C: Content> Replay<'a, C> {
    /// Before the first round: rank r holds `content(r, c)` of chunk c, switches hold nothing.
    ///
    /// # Errors
    /// More places than [`MOST_PLACES`], or more turns than [`MOST_TURNS`].
    pub fn new(
        schedule: &'a dyn Schedule,
        mut content: impl FnMut(u32, u32) -> Option<C>,
    ) -> Result<Self> {
        let endpoints = check(schedule)?;
        let (ranks, chunks) = (schedule.ranks(), schedule.chunks());
        let mut places = Vec::with_capacity(endpoints as usize * chunks as usize);
        for rank in 0..ranks {
            places.extend((0..chunks).map(|chunk| content(rank, chunk)));
        }
        places.resize_with(endpoints as usize * chunks as usize, || None);
        let (arriving, sends) = (Vec::new(), Sends::default());
        Ok(Self { schedule, chunks: chunks as usize, places, arriving, sends })
    }

    /// Executes a round and returns the places, endpoint · chunks + chunk, that it wrote, in
    /// ascending order, each once.
    ///
    /// # Errors
    /// An endpoint or a chunk that does not exist, or content that a sender does not hold.
    pub fn round(&mut self, round: u64) -> Result<Vec<usize>> {
        self.collect(round)?;
        let mut written = Vec::with_capacity(self.arriving.len());
        for (place, op, content) in self.arriving.drain(..) {
            written.push(place);
            match (&mut self.places[place], op) {
                (Some(here), Op::Reduce | Op::Or) => here.take(op, &content),
                // A switch starts a sum with the first arrival.
                (here, _) => *here = Some(content),
            }
        }
        written.sort_unstable();
        written.dedup();
        Ok(written)
    }

    /// Reads the contents of every message of the round.
    fn collect(&mut self, round: u64) -> Result<()> {
        each_message(self.schedule, round, &mut self.sends, |from, transfer| {
            let ends = from.place(self.schedule).zip(transfer.to.place(self.schedule));
            for chunk in transfer.runs.iter().flat_map(|run| run.chunks()) {
                let fault = || {
                    Error::input(format!(
                        "round {round}: {from} sends chunk {chunk} to {}, \
                         but does not hold it or it does not exist",
                        transfer.to
                    ))
                };
                let chunk = chunk as usize;
                let (source, target) = ends.filter(|_| chunk < self.chunks).ok_or_else(fault)?;
                let content = self.places[source * self.chunks + chunk].as_ref();
                let content = content.ok_or_else(fault)?.clone();
                self.arriving.push((target * self.chunks + chunk, transfer.op, content));
            }
            Ok(())
        })
    }

    /// The contents of the endpoint at `place`, one entry per chunk; see [`Endpoint::place`].
    #[must_use]
    pub fn held(&self, place: usize) -> &[Option<C>] {
        &self.places[place * self.chunks..(place + 1) * self.chunks]
    }

    /// The contents of `rank`.
    #[must_use]
    pub fn rank(&self, rank: u32) -> &[Option<C>] {
        Endpoint::Rank(rank).place(self.schedule).map_or(&[], |place| self.held(place))
    }
}

impl<'a> Replay<'a, Ranks> {
    /// Every chunk holds the rank that contributes it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_ranks(schedule: &'a dyn Schedule) -> Result<Self> {
        let own = |rank, chunk| holds(schedule, rank, chunk).then(|| Ranks(vec![rank]));
        Self::new(schedule, own)
    }
}

impl<'a> Replay<'a, Numbers> {
    /// Every rank distributes the numbers of its row over the chunks that it holds at the start, in
    /// order; the first chunks get one more if they do not divide evenly.
    ///
    /// # Errors
    /// Errors of [`Self::new`]; rows that are neither one per rank nor, if only one rank holds
    /// anything, only that rank's; a row with fewer numbers than chunks, or other numbers than the
    /// rows that are added to it.
    pub fn of_rows(schedule: &'a dyn Schedule, rows: &[Vec<f64>]) -> Result<Self> {
        check(schedule)?;
        let ranks = schedule.ranks();
        let held = |rank| (0..schedule.chunks()).filter(move |&c| holds(schedule, rank, c)).count();
        let held: Vec<usize> = (0..ranks).map(held).collect();
        let only: Vec<u32> = (0..ranks).filter(|&rank| held[rank as usize] > 0).collect();
        let row_of = |rank: u32| match (only.as_slice(), rows) {
            ([one], [row]) if *one == rank => Some(row.as_slice()),
            _ => rows.get(rank as usize).map(Vec::as_slice),
        };
        if rows.len() != ranks as usize && !(only.len() == 1 && rows.len() == 1) {
            return Err(Error::input(format!("{} rows of data for {ranks} ranks", rows.len()))
                .help("give one row per rank, or only the root's if only the root has data"));
        }
        let width = only.first().and_then(|&rank| row_of(rank)).map_or(0, <[f64]>::len);
        for &rank in &only {
            let (row, chunks) = (row_of(rank).map_or(0, <[f64]>::len), held[rank as usize]);
            if row != width {
                return Err(Error::input(format!(
                    "the row of rank {rank} has {row} numbers, that of rank {} {width}",
                    only[0]
                ))
                .help("give every rank the same number"));
            }
            if row < chunks {
                return Err(Error::input(format!(
                    "rank {rank} has {row} numbers for its {chunks} chunks"
                ))
                .help(format!("give every rank {chunks} or more")));
            }
        }
        let mut dealt = vec![0; ranks as usize];
        Self::new(schedule, |rank, chunk| {
            let of = held[rank as usize];
            if !holds(schedule, rank, chunk) {
                return None;
            }
            let (row, i) = (row_of(rank)?, &mut dealt[rank as usize]);
            let start = |i: usize| i * (row.len() / of) + i.min(row.len() % of);
            let numbers = row.get(start(*i)..start(*i + 1))?.to_vec();
            *i += 1;
            Some(Numbers(numbers))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::collective::Collective::{AllReduce, Broadcast, ReduceScatter};
    use crate::model::schedule::chain::Chain;
    use crate::model::schedule::ring::Ring;

    #[test]
    fn a_ring_adds_what_comes_from_the_left() {
        let ring = Ring::new(AllReduce, 4);
        let mut replay = Replay::of_ranks(&ring).unwrap();
        assert_eq!(replay.round(0).unwrap(), [3, 4, 9, 14]);
        assert_eq!(replay.rank(0)[3], Some(Ranks(vec![0, 3])));
        (1..6).for_each(|round| drop(replay.round(round).unwrap()));
        assert_eq!(replay.rank(2)[0], Some(Ranks(vec![3, 2, 1, 0])));
    }

    #[test]
    fn rows_are_dealt_out_to_chunks() {
        let ring = Ring::new(ReduceScatter, 2);
        let rows = [vec![1.0, 2.0, 3.0], vec![10.0, 20.0, 30.0]];
        let mut replay = Replay::of_rows(&ring, &rows).unwrap();
        replay.round(0).unwrap();
        assert_eq!(replay.rank(1)[0], Some(Numbers(vec![11.0, 22.0])));
        assert_eq!(replay.rank(0)[1], Some(Numbers(vec![33.0])));
    }

    #[test]
    fn a_root_alone_may_have_a_row() {
        let chain = Chain::new(Broadcast, 3, 2);
        let mut replay = Replay::of_rows(&chain, &[vec![5.0, 6.0]]).unwrap();
        (0..chain.rounds()).for_each(|round| drop(replay.round(round).unwrap()));
        assert_eq!(replay.rank(2), [Some(Numbers(vec![5.0])), Some(Numbers(vec![6.0]))]);
    }

    #[test]
    fn wrong_rows_are_refused() {
        let ring = Ring::new(AllReduce, 2);
        let refused = |rows: &[Vec<f64>]| Replay::of_rows(&ring, rows).err().unwrap().to_string();
        assert!(refused(&[vec![1.0, 2.0]]).starts_with("1 rows of data for 2 ranks"));
        assert!(refused(&[vec![1.0, 2.0], vec![1.0]]).contains("has 1 numbers"));
        assert!(refused(&[vec![1.0], vec![1.0]]).contains("1 numbers for its 2 chunks"));
    }

    #[test]
    fn too_large_a_state_is_refused() {
        assert!(Replay::of_ranks(&Ring::new(AllReduce, 1 << 20)).is_err());
    }
}
