//! What the ranks' vectors contain, and what a collective must make of it.

use std::ffi::{c_int, c_void};

use crate::base::collective::Collective as C;
use crate::base::quantity::Bytes;
use crate::library::Operation;

/// Element i of rank r is r + i mod 64, so that all sums are exact.
const PERIOD: usize = 64;

/// The vectors of one rank.
pub(super) struct Contents {
    rank: usize,
    ranks: usize,
    /// Elements of the whole vector, and of a rank's block.
    whole: usize,
    block: usize,
    from: Vec<f32>,
    into: Vec<f32>,
    each: Vec<c_int>,
}

/// No collective gives it.
const NOTHING: f32 = -1.0;

impl Contents {
    pub(super) fn new(rank: u32, ranks: u32) -> Self {
        let (rank, ranks) = (rank as usize, ranks as usize);
        let (from, into, each) = (Vec::new(), Vec::new(), Vec::new());
        Self { rank, ranks, whole: 0, block: 0, from, into, each }
    }

    /// Makes room for M; calls in blocks take N blocks of ⌊elements/N⌋.
    pub(super) fn size(&mut self, operation: Operation, size: Bytes) {
        let elements = usize::try_from(size.0 / 4).unwrap_or(0);
        self.block = elements / self.ranks.max(1);
        let in_blocks = operation.collective.has_blocks();
        self.whole = if in_blocks { self.block * self.ranks } else { elements };
        if self.from.len() < self.whole {
            self.from.resize(self.whole, 0.0);
            self.into.resize(self.whole, 0.0);
        }
        self.each.clear();
        self.each.resize(self.ranks, self.block as c_int);
    }

    /// Elements of the whole vector, and of a block.
    pub(super) fn counts(&self) -> (c_int, c_int) {
        (self.whole as c_int, self.block as c_int)
    }

    /// The block of each rank.
    pub(super) fn each(&self) -> &[c_int] {
        &self.each
    }

    /// What is sent, and what is received.
    pub(super) fn data(&mut self) -> (*mut c_void, *mut c_void) {
        (self.from.as_mut_ptr().cast(), self.into.as_mut_ptr().cast())
    }

    pub(super) fn fill(&mut self, operation: Operation) {
        let rank = self.rank;
        for (i, x) in self.from[..self.whole].iter_mut().enumerate() {
            *x = (rank + i % PERIOD) as f32;
        }
        // Of a broadcast this is the input too.
        let sends = operation.collective == C::Broadcast && rank == 0;
        for (i, x) in self.into[..self.whole].iter_mut().enumerate() {
            *x = if sends { (i % PERIOD) as f32 } else { NOTHING };
        }
    }

    /// Whether this rank received what it should.
    pub(super) fn is_right(&self, operation: Operation) -> bool {
        let (n, rank, block) = (self.ranks, self.rank, self.block);
        let sum = |i: usize| n * (n - 1) / 2 + n * (i % PERIOD);
        let of = |i: usize| match operation.collective {
            C::AllReduce | C::Reduce => sum(i),
            C::Broadcast => i % PERIOD,
            C::ReduceScatter => sum(rank * block + i),
            C::AllToAll => i / block + (rank * block + i % block) % PERIOD,
            C::Scatter => (rank * block + i) % PERIOD,
            _ => i / block + i % block % PERIOD,
        };
        let count = match operation.collective {
            C::Reduce | C::Gather if rank != 0 => 0,
            C::ReduceScatter | C::Scatter => block,
            _ => self.whole,
        };
        self.into[..count].iter().enumerate().all(|(i, x)| *x == of(i) as f32)
    }
}
