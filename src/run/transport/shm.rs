//! Processes of one host over shared memory: a ring of slots for each directed pair.
//!
//! Each message is copied twice, into the ring and out of it; the second copy is also the addition,
//! if there is one. Small messages move one cache line.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::duplex::{Duplex, Gather, Waiting, Wire};
use super::raw::{Receiver, SLOT, Segment, Sender};
use super::{Cause, Fault, Transport, Wait};
use crate::base::error::{Error, Result};

/// The memory of one run, held by its coordinator.
pub struct Shared {
    file: OwnedFd,
    segment: Arc<Segment>,
}

impl Shared {
    /// Memory for `ranks` ranks.
    ///
    /// # Errors
    /// The machine refuses it.
    pub fn new(ranks: u32) -> Result<Self> {
        let (file, segment) = Segment::create(ranks as usize)
            .map_err(|e| Error::environment(format!("no shared memory for {ranks} ranks: {e}")))?;
        Ok(Self { file, segment })
    }

    /// The file that ranks receive.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Tells all ranks to give up; waiting ranks see it.
    pub fn abort(&self) {
        self.segment.abort();
    }
}

/// Joins the run whose memory is in `file` as `rank`. A rank may do so only once.
///
/// # Errors
/// A file that is not such memory.
pub fn join(file: BorrowedFd<'_>, rank: u32, ranks: u32, wait: Wait) -> Result<Box<dyn Transport>> {
    let segment = Segment::open(file, ranks as usize)
        .map_err(|e| Error::environment(format!("the shared memory cannot be mapped: {e}")))?;
    let me = rank as usize;
    let senders = (0..ranks as usize).map(|to| segment.sender(me, to)).collect();
    let receivers = (0..ranks as usize).map(|from| segment.receiver(from, me)).collect();
    Ok(Box::new(Duplex::new(Rings { rank, ranks, wait, segment, senders, receivers })))
}

struct Rings {
    rank: u32,
    ranks: u32,
    wait: Wait,
    segment: Arc<Segment>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
}

impl Wire for Rings {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn push(&mut self, to: u32, bytes: &Gather<'_>) -> std::result::Result<usize, Fault> {
        let some = bytes.left.min(SLOT);
        let pushed = self.senders[to as usize].push(some, |slot| bytes.copy_to(slot));
        Ok(if pushed { some } else { 0 })
    }

    fn pull(
        &mut self,
        from: u32,
        most: usize,
        _: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<usize, Fault> {
        // Slots are filled completely, so elements never straddle two.
        Ok(self.receivers[from as usize].pull(most, take))
    }

    fn is_drained(&mut self, _: u32) -> std::result::Result<bool, Fault> {
        // Bytes in the ring have left the sender's memory.
        Ok(true)
    }

    fn wait(&mut self, _: &Waiting, idle: u64) -> std::result::Result<bool, Fault> {
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            // A message usually arrives within moments; sleeping would take longer than that.
            Wait::Poll if idle < 64 => std::hint::spin_loop(),
            Wait::Poll if idle < 512 => std::thread::yield_now(),
            Wait::Poll => std::thread::sleep(Duration::from_micros(50)),
        }
        let long = idle.is_multiple_of(1024) || self.wait == Wait::Poll && idle >= 64;
        if long && self.segment.is_aborted() {
            return Err(Fault { peer: None, cause: Cause::Aborted });
        }
        Ok(long)
    }
}
