//! Memory that several processes share, and one ioctl: all the unsafe code of the library.
//!
//! ```text
//!   file      │ abort │ ring 0→1 │ ring 0→2 │ … │ window 0 │ window 1 │ …
//!                       one ring a directed pair   one window a rank, its buffer
//!   ring      │ taken, returned │ flag 0 … flag 7 │ slot 0 … slot 7 │
//!                └ receiver writes   └ sender writes
//! ```
//!
//! A flag is one cache line: the number of the message in its slot, how many bytes it has, and the
//! bytes themselves where they fit beside it, so that a small message moves one line. A message
//! may also be *lent*: then the flag says where it lies in the sender's buffer, from which the
//! receiver reads, and `returned` counts what it has read. Only the sender writes flags and slots,
//! only the receiver writes `taken` and `returned`, each on lines of its own.
//!
//! A window has room for any buffer: the file is sparse, and of it exists what was touched.
//!
//! # Why this is sound
//!
//! * A mapping stays as long as its [`Mapping`] is held, and every end of a ring holds those that
//!   it uses. The file is sealed against shrinking before anybody maps it, so that no access
//!   faults.
//! * Offsets are computed from constants and a pair's number, which is checked against the length
//!   of the mapping once, when an end is made. A length read from shared memory is clamped; where
//!   a lent message lies is checked against the window, and mapped, before it is read.
//! * Each rank's own buffer is its own to write. What is lent others read, through mappings that
//!   cannot be written: between the release store of the flag that lends it and an acquire load
//!   of `returned` that counts it the owner must not write it. `duplex` sees to that, which is the
//!   only user: within a step it writes no byte that is lent, and no step ends before all is
//!   returned.
//! * Words that both sides touch are atomics. Message n lies in slot n mod 8. The sender writes it
//!   after it has read (acquire) `taken` ≥ n − 7 and publishes it with a release store of the
//!   flag; the receiver reads the bytes after an acquire load of that flag, and returns the slot
//!   with a release store of `taken`. So no byte is read and written at the same time, provided
//!   that a ring has one sender and one receiver; [`Segment::sender`] and [`Segment::receiver`]
//!   are only reached through a transport, which makes each once.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Slots of a ring.
pub const SLOTS: usize = 8;
/// Bytes of a slot.
pub const SLOT: usize = 64 << 10;
/// Bytes that fit beside a flag.
const INLINE: usize = LINE - 16;
/// Bytes of a ring, a whole number of pages.
const RING: usize = SLOTS * SLOT + 4096;
/// Bytes before the first ring.
const HEAD: usize = 4096;
/// Bytes of a window: more than any buffer has.
const WINDOW: usize = 1 << 46;
/// Marks the length of a message that is lent.
const LENT: u64 = 1 << 63;
/// Bytes of a lent message that are read before the sender is told.
const READ: usize = 64 << 10;

/// Memory that this process sees, gone from it when dropped.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pointer is to memory that any thread may use as the module says.
unsafe impl Send for Mapping {}
// SAFETY: as above; a mapping by itself gives no access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` ≥ 1 of a file, from byte `start` on.
    fn of(
        file: BorrowedFd<'_>,
        start: u64,
        bytes: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self> {
        let (anywhere, flags) = (std::ptr::null_mut(), flags | MapFlags::SHARED);
        // SAFETY: the kernel chooses a place that nothing else has.
        let base = unsafe { rustix::mm::mmap(anywhere, bytes, protection, flags, file, start)? };
        Ok(Self { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, bytes })
    }

    /// `bytes` ≥ 1 that nobody else sees, all of them there.
    fn private(bytes: usize) -> Result<Self> {
        let anywhere = std::ptr::null_mut();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let flags = flags | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a place that nothing else has.
        let base = unsafe { rustix::mm::mmap_anonymous(anywhere, bytes, protection, flags)? };
        Ok(Self { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made with so many bytes; whoever used it has held it.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A rank's buffer. It begins at a page, so that two runs find the same alignment.
pub struct Memory {
    mapping: Option<Mapping>,
    bytes: usize,
}

impl Memory {
    /// An empty buffer.
    pub fn none() -> Self {
        Self { mapping: None, bytes: 0 }
    }

    /// Makes it so long, with what `map` maps where what there is does not do; memory is touched.
    fn make(&mut self, bytes: usize, map: impl FnOnce() -> Result<Mapping>) -> Result<()> {
        self.bytes = 0;
        if self.mapping.as_ref().is_none_or(|mapping| mapping.bytes < bytes) && bytes > 0 {
            // The old memory goes first: both together might be more than there is.
            self.mapping = None;
            self.mapping = Some(map()?);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Makes it so long, seen by nobody else.
    pub fn make_private(&mut self, bytes: usize) -> Result<()> {
        self.make(bytes, || Mapping::private(bytes))
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Some(mapping) = &self.mapping else { return &[] };
        // SAFETY: `make` keeps `bytes` within the mapping; only this value writes it.
        unsafe { std::slice::from_raw_parts(mapping.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Some(mapping) = &self.mapping else { return &mut [] };
        // SAFETY: as above; others only read, and only what is lent, which is not written.
        unsafe { std::slice::from_raw_parts_mut(mapping.base.as_ptr(), self.bytes) }
    }
}

/// Memory that the processes of one run share.
pub struct Segment {
    /// All but the windows.
    mapping: Mapping,
    file: OwnedFd,
    ranks: usize,
}

impl Segment {
    /// New memory for all pairs of `ranks` ranks, without a name in any file system: it is gone
    /// with the last process that has it.
    pub fn create(ranks: usize) -> Result<(OwnedFd, Arc<Self>)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("collcost", flags)?;
        rustix::fs::ftruncate(&file, Self::window(ranks, ranks))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let segment = Self::open(file.as_fd(), ranks)?;
        Ok((file, segment))
    }

    /// Maps memory that [`Self::create`] made for as many ranks.
    pub fn open(file: BorrowedFd<'_>, ranks: usize) -> Result<Arc<Self>> {
        let length = rustix::fs::fstat(file)?.st_size;
        let sealed = rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        if !sealed || u64::try_from(length) != Ok(Self::window(ranks, ranks)) {
            return Err(Errno::INVAL);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Mapping::of(file, 0, Self::length(ranks), protection, MapFlags::empty())?;
        let file = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
        Ok(Arc::new(Self { mapping, file, ranks }))
    }

    /// Bytes of all rings and what is before them.
    fn length(ranks: usize) -> usize {
        HEAD + ranks * ranks * RING
    }

    /// Where the window of `rank` begins, and that of the one before ends.
    fn window(ranks: usize, rank: usize) -> u64 {
        (Self::length(ranks) + rank * WINDOW) as u64
    }

    /// Makes the buffer of `rank` so long, in its window; only `rank` itself may.
    pub fn make(&self, memory: &mut Memory, rank: usize, bytes: usize) -> Result<()> {
        if rank >= self.ranks || bytes > WINDOW {
            return Err(Errno::INVAL);
        }
        let start = Self::window(self.ranks, rank);
        memory.make(bytes, || {
            // What is not there is missed here, and not where it is first touched.
            rustix::fs::fallocate(&self.file, FallocateFlags::empty(), start, bytes as u64)?;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            Mapping::of(self.file.as_fd(), start, bytes, protection, MapFlags::POPULATE)
        })
    }

    /// Tells everybody who waits on this memory to give up.
    pub fn abort(&self) {
        self.abort_word().store(1, Ordering::Release);
    }

    /// Whether somebody told so.
    pub fn is_aborted(&self) -> bool {
        self.abort_word().load(Ordering::Acquire) != 0
    }

    fn abort_word(&self) -> &AtomicU32 {
        // SAFETY: the first word of the mapping, aligned, and never anything but an atomic.
        unsafe { AtomicU32::from_ptr(self.mapping.base.as_ptr().cast()) }
    }

    /// The end of the ring `from` → `to` at which `from` stands.
    pub fn sender(self: &Arc<Self>, from: usize, to: usize) -> Sender {
        Sender { ring: Ring::new(self, from, to), next: 0, taken: 0, lent: 0 }
    }

    /// The end of the ring `from` → `to` at which `to` stands.
    pub fn receiver(self: &Arc<Self>, from: usize, to: usize) -> Receiver {
        let ring = Ring::new(self, from, to);
        Receiver { ring, from, next: 0, used: 0, returned: 0, window: None }
    }
}

/// Where one directed pair's ring lies.
struct Ring {
    segment: Arc<Segment>,
    start: usize,
}

impl Ring {
    fn new(segment: &Arc<Segment>, from: usize, to: usize) -> Self {
        assert!(from < segment.ranks && to < segment.ranks, "a ring of ranks that there are not");
        let start = HEAD + (from * segment.ranks + to) * RING;
        Self { segment: Arc::clone(segment), start }
    }

    /// The address `offset` bytes into the ring; `offset` < RING.
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: `new` checked the ranks, so the whole ring lies in the mapping.
        unsafe { self.segment.mapping.base.as_ptr().add(self.start + offset) }
    }

    /// How many messages the receiver has taken.
    fn taken(&self) -> &AtomicU64 {
        // SAFETY: aligned, in the mapping, and never anything but an atomic.
        unsafe { AtomicU64::from_ptr(self.at(0).cast()) }
    }

    /// How many bytes of lent messages the receiver has read.
    fn returned(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(8).cast()) }
    }

    /// One more than the number of the last message in this slot.
    fn published(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(LINE * (1 + slot)).cast()) }
    }

    /// Where in the sender's window the lent message of this slot begins.
    fn offset(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(LINE * (1 + slot) + 16).cast()) }
    }

    /// The bytes of the message in this slot.
    fn length(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(LINE * (1 + slot) + 8).cast()) }
    }

    /// Where a message of so many bytes lies in this slot.
    fn place(&self, slot: usize, bytes: usize) -> *mut u8 {
        match bytes <= INLINE {
            true => self.at(LINE * (1 + slot) + 16),
            false => self.at(4096 + slot * SLOT),
        }
    }
}

/// Where a rank puts bytes for another.
pub struct Sender {
    ring: Ring,
    /// The number of the next message.
    next: u64,
    /// Messages of which it is known that the receiver took them.
    taken: u64,
    /// Bytes that were ever lent.
    lent: u64,
}

impl Sender {
    /// Whether there is a free slot.
    pub fn has_room(&mut self) -> bool {
        if self.next - self.taken < SLOTS as u64 {
            return true;
        }
        // The receiver's line is fetched only where it must be. It never counts beyond `next`,
        // but what another process writes is not trusted with arithmetic.
        self.taken = self.ring.taken().load(Ordering::Acquire).min(self.next);
        self.next - self.taken < SLOTS as u64
    }

    /// Lets `fill` write a message of `bytes` ≤ [`SLOT`]; says whether there was a free slot.
    pub fn push(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        assert!(bytes <= SLOT, "a message of at most one slot");
        if !self.has_room() {
            return false;
        }
        let slot = self.next as usize % SLOTS;
        // SAFETY: `place` has room for `bytes`; the receiver has returned this slot, and looks at
        // it again only after the store below.
        fill(unsafe { std::slice::from_raw_parts_mut(self.ring.place(slot, bytes), bytes) });
        self.publish(slot, bytes as u64);
        true
    }

    /// Lends `bytes` of this rank's buffer, from byte `start` on; says whether there was a free
    /// slot. They must not be written before [`Self::held`] says that they are back.
    pub fn lend(&mut self, start: usize, bytes: usize) -> bool {
        if !self.has_room() {
            return false;
        }
        let slot = self.next as usize % SLOTS;
        self.ring.offset(slot).store(start as u64, Ordering::Relaxed);
        self.lent += bytes as u64;
        self.publish(slot, bytes as u64 | LENT);
        true
    }

    /// Lent bytes that the receiver has not read yet: the last of those that were lent.
    pub fn held(&self) -> usize {
        if self.lent == 0 {
            return 0;
        }
        self.lent.saturating_sub(self.ring.returned().load(Ordering::Acquire)) as usize
    }

    fn publish(&mut self, slot: usize, length: u64) {
        self.next += 1;
        self.ring.length(slot).store(length, Ordering::Relaxed);
        self.ring.published(slot).store(self.next, Ordering::Release);
    }
}

/// Where a rank takes bytes of another.
pub struct Receiver {
    ring: Ring,
    /// The sender.
    from: usize,
    /// The number of the next message.
    next: u64,
    /// Bytes of it that were taken already.
    used: usize,
    /// Bytes of lent messages that were taken.
    returned: u64,
    /// The sender's buffer, as far as it was lent.
    window: Option<Mapping>,
}

impl Receiver {
    /// Shows `take` at most `most` bytes of the next message; says how many, 0 where none is there.
    ///
    /// # Errors
    /// A lent message that cannot be mapped.
    pub fn pull(&mut self, most: usize, take: impl FnOnce(&[u8])) -> Result<usize> {
        let slot = self.next as usize % SLOTS;
        if self.ring.published(slot).load(Ordering::Acquire) != self.next + 1 {
            return Ok(0);
        }
        let word = self.ring.length(slot).load(Ordering::Relaxed);
        let (length, start, most) = if word & LENT == 0 {
            let length = word.min(SLOT as u64) as usize;
            (length, self.ring.place(slot, length).cast_const(), most)
        } else {
            let length = (word & !LENT) as usize;
            let offset = self.ring.offset(slot).load(Ordering::Relaxed) as usize;
            (length, self.lent(offset, length)?, most.min(READ))
        };
        let used = self.used.min(length);
        let bytes = (length - used).min(most);
        // SAFETY: `used + bytes` ≤ `length`, and so many bytes are at `start`: `length` ≤ SLOT in
        // the ring, and `lent` mapped them otherwise. The sender writes them only after the
        // stores below.
        take(unsafe { std::slice::from_raw_parts(start.add(used), bytes) });
        self.used = used + bytes;
        if word & LENT != 0 {
            self.returned += bytes as u64;
            self.ring.returned().store(self.returned, Ordering::Release);
        }
        if self.used >= length {
            self.next += 1;
            self.used = 0;
            self.ring.taken().store(self.next, Ordering::Release);
        }
        Ok(bytes)
    }

    /// Where `length` bytes at `offset` of the sender's window are; maps what is not yet.
    fn lent(&mut self, offset: usize, length: usize) -> Result<*const u8> {
        let end = offset.checked_add(length).filter(|&end| end <= WINDOW).ok_or(Errno::INVAL)?;
        let base = match &self.window {
            Some(window) if window.bytes >= end => window.base,
            _ => {
                let segment = &self.ring.segment;
                let start = Segment::window(segment.ranks, self.from);
                let bytes = end.next_power_of_two().max(4096);
                self.window = None;
                let flags = MapFlags::empty();
                let window =
                    Mapping::of(segment.file.as_fd(), start, bytes, ProtFlags::READ, flags)?;
                self.window.insert(window).base
            }
        };
        // SAFETY: `offset` ≤ `end` ≤ the mapping's length.
        Ok(unsafe { base.as_ptr().add(offset) })
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
    use super::*;

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
                assert_eq!((first, rest), (Ok(3), Ok(bytes - 3)));
            }
            assert_eq!(receiver.pull(1, |_| unreachable!("nothing is there")), Ok(0));
        }
    }

    #[test]
    fn what_is_lent_is_read_where_it_lies() {
        let (file, segment) = Segment::create(2).expect("memory");
        let other = Segment::open(file.as_fd(), 2).expect("the same memory");
        let (mut sender, mut receiver) = (segment.sender(1, 0), other.receiver(1, 0));
        let mut memory = Memory::none();
        for bytes in [5000, 3 * READ] {
            segment.make(&mut memory, 1, bytes).expect("memory");
            memory.fill(7);
            assert!(sender.lend(100, bytes - 100));
            let mut left = bytes - 100;
            while left > 0 {
                assert_eq!(sender.held(), left);
                let seen = |seen: &[u8]| assert!(seen.iter().all(|&byte| byte == 7));
                let got = receiver.pull(bytes, seen).expect("it is there");
                assert_eq!(got, left.min(READ));
                left -= got;
            }
            assert_eq!(sender.held(), 0);
        }
    }

    #[test]
    fn what_cannot_lie_in_a_window_is_refused() {
        let (_file, segment) = Segment::create(2).expect("memory");
        let (mut sender, mut receiver) = (segment.sender(0, 1), segment.receiver(0, 1));
        assert!(sender.lend(WINDOW, 1));
        assert_eq!(receiver.pull(1, |_| unreachable!("it is nowhere")), Err(Errno::INVAL));
        assert!(segment.make(&mut Memory::none(), 0, WINDOW + 1).is_err());
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
