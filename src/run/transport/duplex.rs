//! A step on host memory: all sends and receives, interleaved, over any wire.

use std::io::IoSlice;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::{Action, Cause, Fault, Incoming, Landing, Local, Outgoing, Part, Step, Transport};

/// A stream of bytes to and from each other rank; only [`Self::wait`] may block.
pub(super) trait Wire {
    /// This rank.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Takes bytes for `to`; returns how many, 0 if it can take none now.
    fn push(&mut self, to: u32, bytes: &Gather<'_>) -> Result<usize, Fault>;

    /// Passes at most `most` ≥ 1 bytes from `from` to `take`, a multiple of `whole`, as is `most`;
    /// returns how many, 0 if there are none now.
    fn pull(
        &mut self,
        from: u32,
        most: usize,
        whole: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Fault>;

    /// As [`Self::pull`], directly into `place`, which is not empty.
    fn pull_into(&mut self, from: u32, place: &mut [u8]) -> Result<usize, Fault> {
        self.pull(from, place.len(), 1, &mut |bytes| place[..bytes.len()].copy_from_slice(bytes))
    }

    /// Whether all bytes pushed to `to` have left this rank's queue.
    fn is_drained(&mut self, to: u32) -> Result<bool, Fault>;

    /// Pauses briefly, or waits until something in `for_what` may proceed; `idle` counts the calls
    /// since something last did. Never longer than a tenth of a second. Returns whether it was so
    /// long that the time to read the clock is negligible.
    fn wait(&mut self, for_what: &Waiting, idle: u64) -> Result<bool, Fault>;
}

/// What a step waits for.
#[derive(Default)]
pub(super) struct Waiting {
    /// Ranks from which data must arrive.
    pub(super) arriving: Vec<u32>,
    /// Ranks whose queue is full.
    pub(super) leaving: Vec<u32>,
    /// Ranks whose queue must be emptied.
    pub(super) draining: Vec<u32>,
}

/// The rest of an outgoing message.
pub(super) struct Gather<'a> {
    memory: &'a [u8],
    spans: &'a [Range<usize>],
    at: Cursor,
    /// The number of remaining bytes.
    pub(super) left: usize,
}

/// The progress of a message.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    /// The current span or part.
    index: usize,
    /// Bytes done of it.
    offset: usize,
    /// Bytes done in total.
    done: usize,
}

impl Cursor {
    /// Advances by `bytes` over spans of these lengths.
    fn advance(&mut self, mut bytes: usize, length: impl Fn(usize) -> Option<usize>) {
        self.done += bytes;
        while let Some(span) = length(self.index) {
            let rest = span - self.offset;
            if bytes < rest {
                self.offset += bytes;
                return;
            }
            bytes -= rest;
            self.index += 1;
            self.offset = 0;
        }
    }
}

impl<'a> Gather<'a> {
    /// The remaining bytes, piece by piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (memory, offset) = (self.memory, self.at.offset);
        self.spans[self.at.index..].iter().enumerate().map(move |(i, span)| {
            let start = if i == 0 { span.start + offset } else { span.start };
            &memory[start..span.end]
        })
    }

    /// Copies as much as fits into `out`, which is no longer than the rest.
    pub(super) fn copy_to(&self, mut out: &mut [u8]) {
        for piece in self.pieces() {
            let bytes = piece.len().min(out.len());
            let (head, rest) = out.split_at_mut(bytes);
            head.copy_from_slice(&piece[..bytes]);
            out = rest;
            if out.is_empty() {
                return;
            }
        }
    }

    /// The first pieces, for a vectored write.
    pub(super) fn slices<'b>(&self, out: &'b mut [IoSlice<'a>]) -> &'b [IoSlice<'a>] {
        let mut used = 0;
        for (slot, piece) in out.iter_mut().zip(self.pieces()) {
            *slot = IoSlice::new(piece);
            used += 1;
        }
        &out[..used]
    }
}

/// A message without bytes is this one byte on the wire: only its arrival matters.
const TOKEN: [u8; 1] = [0];

/// A rank with its buffer in host memory.
pub(super) struct Duplex<W> {
    wire: W,
    memory: Aligned,
    aside: Vec<u8>,
    out: Vec<Flow>,
    inc: Vec<Flow>,
    waiting: Waiting,
}

/// The progress of one message of the step.
#[derive(Debug, Clone, Copy)]
struct Flow {
    at: Cursor,
    bytes: usize,
    /// Its place while it is stored aside.
    aside: usize,
    /// Whether the token of an empty message was pushed.
    signalled: bool,
    through: bool,
}

impl Flow {
    fn of(bytes: usize) -> Self {
        Self { at: Cursor::default(), bytes, aside: 0, signalled: false, through: false }
    }

    fn is_pushed(&self) -> bool {
        self.at.done == self.bytes && (self.bytes > 0 || self.signalled)
    }
}

impl<W: Wire> Duplex<W> {
    pub(super) fn new(wire: W) -> Self {
        let (memory, aside) = (Aligned::default(), Vec::new());
        Self { wire, memory, aside, out: Vec::new(), inc: Vec::new(), waiting: Waiting::default() }
    }

    /// Counts the bytes of every message and makes room for those that must be stored aside.
    fn begin(&mut self, step: &Step) {
        let sizes = step.sends.iter().map(|send| send.spans.iter().map(Range::len).sum());
        self.out.clear();
        self.out.extend(sizes.map(Flow::of));
        self.inc.clear();
        let mut aside = 0;
        for receive in &step.receives {
            let bytes = receive.parts.iter().map(|part| part.span.len()).sum();
            let mut flow = Flow::of(bytes);
            if receive.landing == Landing::Aside {
                flow.aside = aside;
                aside += bytes;
            }
            self.inc.push(flow);
        }
        if self.aside.len() < aside {
            self.aside.resize(aside, 0);
        }
    }

    /// Advances outgoing messages; returns whether any advanced.
    fn push(&mut self, step: &Step) -> Result<bool, Fault> {
        let mut moved = false;
        for (send, flow) in step.sends.iter().zip(&mut self.out).filter(|(_, f)| !f.through) {
            moved |= push(&mut self.wire, &self.memory, send, flow)?;
            if flow.is_pushed() && self.wire.is_drained(send.to)? {
                flow.through = true;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Reads what has arrived; returns whether there was anything.
    fn pull(&mut self, step: &Step) -> Result<bool, Fault> {
        let mut moved = false;
        for (receive, flow) in step.receives.iter().zip(&mut self.inc).filter(|(_, f)| !f.through) {
            let ready = match receive.landing {
                Landing::Behind(send) => self.out[send].at.done,
                _ => flow.bytes,
            };
            let place = match receive.landing {
                Landing::Aside => &mut self.aside[flow.aside..flow.aside + flow.bytes],
                _ => &mut self.memory[..],
            };
            moved |= pull(&mut self.wire, place, receive, flow, ready)?;
        }
        Ok(moved)
    }

    fn is_through(&self) -> bool {
        self.out.iter().chain(&self.inc).all(|flow| flow.through)
    }

    /// Moves data stored aside to their place and does local work.
    fn settle(&mut self, step: &Step) {
        for (receive, flow) in step.receives.iter().zip(&self.inc) {
            if receive.landing != Landing::Aside {
                continue;
            }
            let mut from = flow.aside;
            for Part { span, action } in &receive.parts {
                let bytes = &self.aside[from..from + span.len()];
                apply(*action, &mut self.memory[span.clone()], bytes);
                from += span.len();
            }
        }
        for Local { from, to, action } in &step.local {
            let (from, to) = (from.clone(), *to);
            // Two parts of one buffer, one after the other.
            if from.start >= to + from.len() {
                let (low, high) = self.memory.split_at_mut(from.start);
                apply(*action, &mut low[to..to + from.len()], &high[..from.len()]);
            } else if to >= from.end {
                let (low, high) = self.memory.split_at_mut(to);
                apply(*action, &mut high[..from.len()], &low[from]);
            }
        }
    }

    /// Records the ranks that the step waits for.
    fn note_waiting(&mut self, step: &Step) {
        let Waiting { arriving, leaving, draining } = &mut self.waiting;
        arriving.clear();
        leaving.clear();
        draining.clear();
        for (send, flow) in step.sends.iter().zip(&self.out).filter(|(_, f)| !f.through) {
            if flow.is_pushed() { &mut *draining } else { &mut *leaving }.push(send.to);
        }
        for (receive, flow) in step.receives.iter().zip(&self.inc).filter(|(_, f)| !f.through) {
            // A message that must wait for this rank's own bytes to leave is not itself waited for.
            let held = match receive.landing {
                Landing::Behind(send) => self.out[send].at.done == flow.at.done,
                Landing::Direct | Landing::Aside => false,
            };
            if flow.bytes == 0 || !held {
                arriving.push(receive.from);
            }
        }
    }

    /// The rank that is probably the reason why nothing moves.
    fn suspect(&self) -> Option<u32> {
        let Waiting { arriving, leaving, draining } = &self.waiting;
        arriving.iter().chain(leaving).chain(draining).next().copied()
    }
}

impl<W: Wire> Transport for Duplex<W> {
    fn rank(&self) -> u32 {
        self.wire.rank()
    }

    fn ranks(&self) -> u32 {
        self.wire.ranks()
    }

    fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
        self.memory.make(bytes).map_err(|()| Fault {
            peer: None,
            cause: Cause::System(format!("{bytes} bytes of memory are not available")),
        })
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        bytes.copy_from_slice(&self.memory[at..at + bytes.len()]);
        Ok(())
    }

    fn step(&mut self, step: &Step, patience: Duration) -> Result<(), Fault> {
        self.begin(step);
        let mut idle = 0_u64;
        let mut since: Option<Instant> = None;
        loop {
            let moved = self.push(step)? | self.pull(step)?;
            if self.is_through() {
                break;
            }
            if moved {
                (idle, since) = (0, None);
                continue;
            }
            if idle == 0 {
                self.note_waiting(step);
            }
            idle += 1;
            if self.wire.wait(&self.waiting, idle)? {
                let began = *since.get_or_insert_with(Instant::now);
                if began.elapsed() >= patience {
                    return Err(Fault { peer: self.suspect(), cause: Cause::Silent(patience) });
                }
            }
        }
        self.settle(step);
        Ok(())
    }
}

/// Pushes what the wire takes of one message; returns whether it took any.
fn push<W: Wire>(
    wire: &mut W,
    memory: &[u8],
    send: &Outgoing,
    flow: &mut Flow,
) -> Result<bool, Fault> {
    if flow.bytes == 0 {
        if flow.signalled {
            return Ok(false);
        }
        let spans = std::slice::from_ref(&(0..1));
        let token = Gather { memory: &TOKEN, spans, at: Cursor::default(), left: 1 };
        flow.signalled = wire.push(send.to, &token)? > 0;
        return Ok(flow.signalled);
    }
    let mut moved = false;
    while flow.at.done < flow.bytes {
        let left = flow.bytes - flow.at.done;
        let taken =
            wire.push(send.to, &Gather { memory, spans: &send.spans, at: flow.at, left })?;
        if taken == 0 {
            break;
        }
        flow.at.advance(taken, |i| send.spans.get(i).map(Range::len));
        moved = true;
    }
    Ok(moved)
}

/// Reads what has arrived of one message, of which the first `ready` bytes may be stored; returns
/// whether there was anything.
fn pull<W: Wire>(
    wire: &mut W,
    place: &mut [u8],
    receive: &Incoming,
    flow: &mut Flow,
    ready: usize,
) -> Result<bool, Fault> {
    if flow.bytes == 0 {
        flow.through = wire.pull(receive.from, 1, 1, &mut |_| {})? > 0;
        return Ok(flow.through);
    }
    let mut moved = false;
    while flow.at.done < flow.bytes {
        let aside = receive.landing == Landing::Aside;
        let part = &receive.parts[flow.at.index];
        let (action, whole) = match part.action {
            _ if aside => (Action::Store, 1),
            Action::Add => (Action::Add, size_of::<f32>()),
            other => (other, 1),
        };
        let start = if aside { flow.at.done } else { part.span.start + flow.at.offset };
        let most = (part.span.len() - flow.at.offset).min(ready - flow.at.done) / whole * whole;
        if most == 0 {
            break;
        }
        let into = &mut place[start..start + most];
        let taken = match action {
            Action::Store => wire.pull_into(receive.from, into)?,
            _ => wire.pull(receive.from, most, whole, &mut |bytes| {
                apply(action, &mut into[..bytes.len()], bytes);
            })?,
        };
        if taken == 0 {
            break;
        }
        flow.at.advance(taken, |i| receive.parts.get(i).map(|part| part.span.len()));
        moved = true;
    }
    flow.through = flow.at.done == flow.bytes;
    Ok(moved)
}

fn apply(action: Action, into: &mut [u8], from: &[u8]) {
    match action {
        Action::Store => into.copy_from_slice(from),
        Action::Add => add(into, from),
        Action::Join => into.iter_mut().zip(from).for_each(|(to, bits)| *to |= bits),
    }
}

/// Adds `f32`s; the loop has no branch, so it compiles to vector instructions.
fn add(into: &mut [u8], from: &[u8]) {
    const FLOAT: usize = size_of::<f32>();
    let (to, _) = into.as_chunks_mut::<FLOAT>();
    let (from, _) = from.as_chunks::<FLOAT>();
    for (to, from) in to.iter_mut().zip(from) {
        *to = (f32::from_ne_bytes(*to) + f32::from_ne_bytes(*from)).to_ne_bytes();
    }
}

/// Bytes that begin at a page boundary, so that two runs have the same alignment.
#[derive(Default)]
struct Aligned {
    room: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    const PAGE: usize = 4096;

    /// Sets the length; newly allocated memory is touched.
    fn make(&mut self, bytes: usize) -> Result<(), ()> {
        let all = bytes.checked_add(Self::PAGE).ok_or(())?;
        if self.room.len() >= all {
            self.bytes = bytes;
            return Ok(());
        }
        // The old memory is freed first: both together might not be available.
        *self = Self::default();
        let mut room = Vec::new();
        room.try_reserve_exact(all).map_err(|_| ())?;
        // Pages requested as zeros might never be touched.
        room.resize(all, 0xA5);
        self.start = room.as_ptr().align_offset(Self::PAGE).min(Self::PAGE);
        (self.room, self.bytes) = (room, bytes);
        Ok(())
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.start..self.start + self.bytes]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.bytes]
    }
}
