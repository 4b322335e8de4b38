//! Memory that several processes share, and one ioctl: all the unsafe code of the library.
//!
//! ```text
//!   segment   │ abort │ ring 0→1 │ ring 0→2 │ …      one ring a directed pair
//!   ring      │ taken │ flag 0 … flag 7 │ slot 0 … slot 7 │
//!                └ receiver writes   └ sender writes
//! ```
//!
//! A flag is one cache line. It holds the number of the message in its slot, its size, and the
//! bytes themselves if they fit, so that a small message moves only one line. Only the sender
//! writes flags and slots, only the receiver writes `taken`, each on its own lines.
//!
//! # Why this is sound
//!
//! * The mapping stays as long as a [`Segment`] is held, and every end of a ring holds one. Its
//!   file is sealed against shrinking before anybody maps it, so that no access faults.
//! * Offsets are computed from constants and a pair's number, which is checked against the length
//!   of the mapping once, when an end is made. A length read from shared memory is clamped.
//! * Words that both sides touch are atomics. Message n lies in slot n mod 8. The sender writes it
//!   after it has read (acquire) `taken` ≥ n − 7 and publishes it with a release store of the
//!   flag; the receiver reads the bytes after an acquire load of that flag, and returns the slot
//!   with a release store of `taken`. So no byte is read and written at the same time, provided
//!   that a ring has one sender and one receiver; [`Segment::sender`] and [`Segment::receiver`]
//!   are only reached through a transport, which makes each once.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Slots of a ring.
pub const SLOTS: usize = 8;
/// Bytes of a slot.
pub const SLOT: usize = 64 << 10;
/// Bytes that fit into the line of a flag.
const INLINE: usize = LINE - 16;
/// Bytes of a ring, a whole number of pages.
const RING: usize = SLOTS * SLOT + 4096;
/// Bytes before the first ring.
const HEAD: usize = 4096;

/// Memory that the processes of one run share.
pub struct Segment {
    base: NonNull<u8>,
    bytes: usize,
    ranks: usize,
    /// Whether it is heap memory instead of a mapping, which Miri does not support.
    #[cfg(test)]
    is_heap: bool,
}

// SAFETY: the pointer is to memory that any thread may use as described in the module.
unsafe impl Send for Segment {}
// SAFETY: as above; `&Segment` itself gives access only to atomics.
unsafe impl Sync for Segment {}

impl Segment {
    /// New memory for all pairs of `ranks` ranks, without a name in any file system: it is freed
    /// when the last process using it ends.
    pub fn create(ranks: usize) -> Result<(OwnedFd, Arc<Self>)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("collcost", flags)?;
        rustix::fs::ftruncate(&file, Self::length(ranks) as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let segment = Self::open(file.as_fd(), ranks)?;
        Ok((file, segment))
    }

    /// Maps memory that [`Self::create`] made for as many ranks.
    pub fn open(file: BorrowedFd<'_>, ranks: usize) -> Result<Arc<Self>> {
        let bytes = Self::length(ranks);
        let length = rustix::fs::fstat(file)?.st_size;
        let sealed = rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        if !sealed || u64::try_from(length) != Ok(bytes as u64) {
            return Err(Errno::INVAL);
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses an unused place.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Arc::new(Self {
            base,
            bytes,
            ranks,
            #[cfg(test)]
            is_heap: false,
        }))
    }

    fn length(ranks: usize) -> usize {
        HEAD + ranks * ranks * RING
    }

    /// Tells all waiting ranks to give up.
    pub fn abort(&self) {
        self.abort_word().store(1, Ordering::Release);
    }

    /// Whether ranks were told to give up.
    pub fn is_aborted(&self) -> bool {
        self.abort_word().load(Ordering::Acquire) != 0
    }

    fn abort_word(&self) -> &AtomicU32 {
        // SAFETY: the first word of the mapping, aligned, and never anything but an atomic.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().cast()) }
    }

    /// The sending end of the ring `from` → `to`.
    pub fn sender(self: &Arc<Self>, from: usize, to: usize) -> Sender {
        Sender { ring: Ring::new(self, from, to), next: 0, taken: 0 }
    }

    /// The receiving end of the ring `from` → `to`.
    pub fn receiver(self: &Arc<Self>, from: usize, to: usize) -> Receiver {
        Receiver { ring: Ring::new(self, from, to), next: 0, used: 0 }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        #[cfg(test)]
        if self.is_heap {
            // SAFETY: what `on_heap` allocated, of that layout.
            return unsafe { std::alloc::dealloc(self.base.as_ptr(), Self::layout(self.bytes)) };
        }
        // SAFETY: the mapping made by `open`; ends of rings hold the segment, so none exist any
        // more.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The position of one directed pair's ring.
struct Ring {
    segment: Arc<Segment>,
    start: usize,
}

impl Ring {
    fn new(segment: &Arc<Segment>, from: usize, to: usize) -> Self {
        assert!(from < segment.ranks && to < segment.ranks, "a ring of ranks that do not exist");
        let start = HEAD + (from * segment.ranks + to) * RING;
        Self { segment: Arc::clone(segment), start }
    }

    /// The address `offset` bytes into the ring; `offset` < RING.
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: `new` checked the ranks, so the whole ring is in the mapping.
        unsafe { self.segment.base.as_ptr().add(self.start + offset) }
    }

    /// How many messages the receiver has taken.
    fn taken(&self) -> &AtomicU64 {
        // SAFETY: aligned, in the mapping, and never anything but an atomic.
        unsafe { AtomicU64::from_ptr(self.at(0).cast()) }
    }

    /// One more than the number of the last message in this slot.
    fn published(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(LINE * (1 + slot)).cast()) }
    }

    /// The bytes of the message in this slot.
    fn length(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(LINE * (1 + slot) + 8).cast()) }
    }

    /// Where a message of this size is stored in this slot.
    fn place(&self, slot: usize, bytes: usize) -> *mut u8 {
        match bytes <= INLINE {
            true => self.at(LINE * (1 + slot) + 16),
            false => self.at(4096 + slot * SLOT),
        }
    }
}

/// The end where a rank writes bytes for another.
pub struct Sender {
    ring: Ring,
    /// The number of the next message.
    next: u64,
    /// Messages known to have been received.
    taken: u64,
}

impl Sender {
    /// Whether there is a free slot.
    pub fn has_room(&mut self) -> bool {
        if self.next - self.taken < SLOTS as u64 {
            return true;
        }
        // The receiver's line is fetched only when necessary. Its count never exceeds `next`, but a
        // value written by another process is not trusted in arithmetic.
        self.taken = self.ring.taken().load(Ordering::Acquire).min(self.next);
        self.next - self.taken < SLOTS as u64
    }

    /// Lets `fill` write a message of `bytes` ≤ [`SLOT`]; returns whether there was a free slot.
    pub fn push(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        assert!(bytes <= SLOT, "a message of at most one slot");
        if !self.has_room() {
            return false;
        }
        let slot = self.next as usize % SLOTS;
        // SAFETY: `place` has room for `bytes`; the receiver has returned this slot, and reads it
        // again only after the store below.
        fill(unsafe { std::slice::from_raw_parts_mut(self.ring.place(slot, bytes), bytes) });
        self.next += 1;
        self.ring.length(slot).store(bytes as u64, Ordering::Relaxed);
        self.ring.published(slot).store(self.next, Ordering::Release);
        true
    }
}

/// The end where a rank reads bytes of another.
pub struct Receiver {
    ring: Ring,
    /// The number of the next message.
    next: u64,
    /// Bytes of it that were already read.
    used: usize,
}

impl Receiver {
    /// Passes at most `most` bytes of the next message to `take`; returns how many, 0 if there is
    /// none.
    pub fn pull(&mut self, most: usize, take: impl FnOnce(&[u8])) -> usize {
        let slot = self.next as usize % SLOTS;
        if self.ring.published(slot).load(Ordering::Acquire) != self.next + 1 {
            return 0;
        }
        let length = self.ring.length(slot).load(Ordering::Relaxed).min(SLOT as u64) as usize;
        let bytes = (length - self.used.min(length)).min(most);
        // SAFETY: `used + bytes` ≤ `length` ≤ SLOT, and `place` has room for `length`; the sender
        // does not touch the slot before the store below.
        take(unsafe {
            let start = self.ring.place(slot, length).add(self.used);
            std::slice::from_raw_parts(start, bytes)
        });
        self.used += bytes;
        if self.used >= length {
            self.next += 1;
            self.used = 0;
            self.ring.taken().store(self.next, Ordering::Release);
        }
        bytes
    }
}

/// Bytes of a TCP socket's queue that have not been sent (`SIOCOUTQNSD`, linux/sockios.h).
pub fn unsent(socket: BorrowedFd<'_>) -> Result<u32> {
    const SIOCOUTQNSD: rustix::ioctl::Opcode = 0x894B;
    // SAFETY: this request writes one C int, as tcp(7) and linux/sockios.h say.
    let bytes = unsafe {
        let getter = rustix::ioctl::Getter::<SIOCOUTQNSD, i32>::new();
        rustix::ioctl::ioctl(socket, getter)?
    };
    Ok(u32::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed};
    use std::thread;

    use super::*;

    impl Segment {
        pub(super) fn layout(bytes: usize) -> Layout {
            Layout::from_size_align(bytes, 4096).expect("a size")
        }

        /// The same on memory of this process: `cargo miri test on_heap_memory` checks every access
        /// of both ends.
        fn on_heap(ranks: usize) -> Arc<Self> {
            let bytes = Self::length(ranks);
            // SAFETY: the layout is not empty.
            let base = NonNull::new(unsafe { alloc_zeroed(Self::layout(bytes)) }).expect("memory");
            Arc::new(Self { base, bytes, ranks, is_heap: true })
        }
    }

    #[test]
    fn both_ends_work_at_once_on_heap_memory() {
        let segment = Segment::on_heap(2);
        let (mut sender, mut receiver) = (segment.sender(0, 1), segment.receiver(0, 1));
        let (mut other, mut back) = (segment.sender(1, 0), segment.receiver(1, 0));
        // Short messages in their flags, longer ones in slots, empty ones.
        let bytes = |number: usize| [1, INLINE, INLINE + 1, 200][number % 4];
        let count = 5 * SLOTS;
        let sent = thread::spawn(move || {
            let mut answers = Vec::new();
            for number in 0..count {
                while !sender.push(bytes(number), |slot| slot.fill(number as u8)) {
                    thread::yield_now();
                }
                // Answers are checked now and then, in order.
                while number % 3 == 0 && back.pull(1, |seen| answers.push(seen[0])) > 0 {}
            }
            while answers.len() < count {
                back.pull(1, |seen| answers.push(seen[0]));
                thread::yield_now();
            }
            assert!(answers.iter().zip(0..).all(|(&answer, number)| answer == number));
            assert!(back.ring.segment.is_aborted());
        });
        for number in 0..count {
            let mut seen = 0;
            while seen < bytes(number) {
                seen += receiver.pull(33, |part| {
                    assert!(part.iter().all(|&byte| byte == number as u8), "{number}: {part:?}");
                });
                thread::yield_now();
            }
            if number == count - 1 {
                segment.abort();
            }
            while !other.push(1, |slot| slot.fill(number as u8)) {
                thread::yield_now();
            }
        }
        sent.join().expect("the sender ends");
    }

    #[test]
    fn a_ring_keeps_order_and_bounds() {
        let (file, segment) = Segment::create(2).expect("memory");
        let other = Segment::open(file.as_fd(), 2).expect("the same memory");
        let (mut sender, mut receiver) = (segment.sender(0, 1), other.receiver(0, 1));
        for lap in 0..3_u8 {
            for k in 0..SLOTS as u8 {
                let bytes = if k % 2 == 0 { 5 } else { SLOT };
                assert!(sender.push(bytes, |slot| slot.fill(lap * 8 + k)));
            }
            assert!(!sender.push(1, |_| unreachable!("no slot is free")));
            for k in 0..SLOTS as u8 {
                let bytes = if k % 2 == 0 { 5 } else { SLOT };
                let first = receiver.pull(3, |seen| assert_eq!(seen, [lap * 8 + k; 3]));
                let rest = receiver
                    .pull(SLOT, |seen| assert!(seen.iter().all(|&byte| byte == lap * 8 + k)));
                assert_eq!((first, rest), (3, bytes - 3));
            }
            assert_eq!(receiver.pull(1, |_| unreachable!("nothing is there")), 0);
        }
    }

    #[test]
    fn an_abort_is_seen_by_all() {
        let (file, segment) = Segment::create(1).expect("memory");
        let other = Segment::open(file.as_fd(), 1).expect("the same memory");
        assert!(!other.is_aborted());
        segment.abort();
        assert!(other.is_aborted());
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let (file, _) = Segment::create(2).expect("memory");
        assert!(Segment::open(file.as_fd(), 3).is_err());
    }
}
