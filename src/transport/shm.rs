//! Processes of one host over shared memory: a ring of slots for each directed pair, and every
//! rank's buffer where the others can read it.
//!
//! Small messages move one cache line, or are copied into the ring and out of it. Large ones are
//! lent: the receiver copies or adds straight from the sender's buffer, and the sender waits until
//! it has.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::duplex::{Duplex, Gather, Waiting, Wire};
use super::raw::{Memory, Receiver, SLOT, Segment, Sender};
use super::{Cause, Fault, Transport, Wait};
use crate::error::{Error, Result};

/// From so many bytes a span on a message is lent: copying it twice would take longer than the
/// word that it was read.
const LENT_FROM: usize = 4 << 10;

/// The memory of one run, as its coordinator holds it.
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

    /// What the ranks are given.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Tells all ranks to give up; those that wait see it.
    pub fn abort(&self) {
        self.segment.abort();
    }
}

/// Joins the run whose memory is in `file` as `rank`. A rank must do so only once.
///
/// # Errors
/// A file that is no such memory.
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

    fn make(&mut self, memory: &mut Memory, bytes: usize) -> rustix::io::Result<()> {
        self.segment.make(memory, self.rank as usize, bytes)
    }

    fn lends(&self, bytes: usize, spans: usize) -> bool {
        bytes >= LENT_FROM * spans
    }

    fn push(
        &mut self,
        to: u32,
        bytes: &Gather<'_>,
        lent: bool,
    ) -> std::result::Result<usize, Fault> {
        let sender = &mut self.senders[to as usize];
        if lent {
            let span = bytes.span();
            return Ok(if sender.lend(span.start, span.len()) { span.len() } else { 0 });
        }
        let some = bytes.left.min(SLOT);
        let pushed = sender.push(some, |slot| bytes.copy_to(slot));
        Ok(if pushed { some } else { 0 })
    }

    fn held(&self, to: u32) -> usize {
        self.senders[to as usize].held()
    }

    fn pull(
        &mut self,
        from: u32,
        most: usize,
        _: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<usize, Fault> {
        // Slots are filled to the brim, so that elements never straddle two.
        let pulled = self.receivers[from as usize].pull(most, take);
        pulled.map_err(|e| Fault::system(from, &e.into()))
    }

    fn is_drained(&mut self, to: u32) -> std::result::Result<bool, Fault> {
        // What is in the ring has left the sender's memory.
        Ok(self.held(to) == 0)
    }

    fn wait(&mut self, _: &Waiting, idle: u64) -> std::result::Result<bool, Fault> {
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            // A message is most often a moment away; a nap costs more than it is long.
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
