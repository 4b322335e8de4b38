//! Data that only empty a token bucket, right before the first repetition that counts.
//!
//! A bucket fills again while a rank makes its buffer, fills it or compares its result: tens of
//! milliseconds for a large one. Emptied before the block, it was full again when time counted.

use std::ops::Range;
use std::time::Duration;

use crate::base::quantity::Bytes;
use crate::run::transport::{Action, Fault, Incoming, Landing, Outgoing, Part, Step, Transport};

/// The most that a block spills. A rank that is asked for more, spills this much.
pub const MOST_SPILLED: Bytes = Bytes(4 << 30);

/// Bytes sent at once: enough that a rank that waits for a CPU after each piece still sends faster
/// than a bucket fills.
const PIECE: u64 = 1 << 20;

/// Every rank sends to the next, again and again.
pub(super) struct Spill {
    /// The piece that leaves and the one that arrives, after the buffer.
    room: Range<usize>,
    whole: Step,
    times: u64,
    /// Less than a piece.
    rest: Option<Step>,
}

impl Spill {
    /// One rank's part of sending `bytes`, with its room from byte `at` on.
    pub(super) fn new(bytes: Bytes, at: usize, (rank, ranks): (u32, u32)) -> Self {
        let bytes = if ranks < 2 { 0 } else { bytes.0.min(MOST_SPILLED.0) };
        let piece = bytes.min(PIECE);
        let step = |length: u64| {
            let length = length as usize;
            let (own, other) = (at..at + length, at + length..at + 2 * length);
            let part = Part { span: other, action: Action::Store };
            let (to, from) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            Step {
                sends: vec![Outgoing { to, spans: vec![own] }],
                receives: vec![Incoming { from, parts: vec![part], landing: Landing::Direct }],
                local: Vec::new(),
            }
        };
        let (times, rest) = match piece {
            0 => (0, 0),
            _ => (bytes / piece, bytes % piece),
        };
        Self {
            room: at..at + 2 * piece as usize,
            whole: if times > 0 { step(piece) } else { Step::default() },
            times,
            rest: (rest > 0).then(|| step(rest)),
        }
    }

    /// The end of the buffer with its room.
    pub(super) fn end(&self) -> usize {
        self.room.end
    }

    /// Sends it all; finished when all that this rank gets has arrived too.
    pub(super) fn flow(
        &self,
        transport: &mut dyn Transport,
        patience: Duration,
    ) -> Result<(), Fault> {
        for _ in 0..self.times {
            transport.step(&self.whole, patience)?;
        }
        self.rest.iter().try_for_each(|rest| transport.step(rest, patience))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::sample::Op;
    use crate::model::algorithm::Registry;
    use crate::run::execute::perform::now;
    use crate::run::execute::{Check, Record, Repeats, Start, Work, perform, programs};

    /// Rank 0 of two, whose messages all arrive; notes how many bytes leave in each step, and until when.
    #[derive(Default)]
    struct Noting {
        memory: Vec<u8>,
        sent: Vec<(usize, u64)>,
        /// Bytes of messages outside the program's own buffer of this many.
        own: usize,
    }

    impl Transport for Noting {
        fn rank(&self) -> u32 {
            0
        }

        fn ranks(&self) -> u32 {
            2
        }

        fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
            self.memory = vec![0; bytes];
            Ok(())
        }

        fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Fault> {
            self.memory[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Fault> {
            bytes.copy_from_slice(&self.memory[at..at + bytes.len()]);
            Ok(())
        }

        fn step(&mut self, step: &Step, _: Duration) -> Result<(), Fault> {
            let spans = step.sends.iter().flat_map(|send| &send.spans);
            let bytes: usize = spans.clone().map(ExactSizeIterator::len).sum();
            let parts = step.receives.iter().flat_map(|receive| &receive.parts);
            for span in spans.chain(parts.map(|part| &part.span)) {
                assert!(span.end <= self.memory.len(), "{span:?} of {}", self.memory.len());
                // Neither in the buffer, nor where ranks meet.
                assert!(bytes <= 1024 || span.start >= self.own, "{span:?}");
            }
            self.sent.push((bytes, now()));
            Ok(())
        }
    }

    const SIZE: usize = 1024;

    fn performed(spill: u64, warm: u32) -> (Record, Vec<(usize, u64)>) {
        let program = programs(&Registry::builtin(), &Op::Shift, 2, Bytes(SIZE as u64)).unwrap();
        let repeats = Repeats {
            warm,
            reps: 2,
            inner: 1,
            start: Start::Barrier,
            check: Check::Not,
            spill,
            patience: Duration::from_secs(1),
            apart: Vec::new(),
        };
        let work = Work { program: program.into_iter().next().unwrap(), repeats };
        let mut transport = Noting { own: 2 * SIZE, ..Noting::default() };
        (perform(&mut transport, &work).unwrap(), transport.sent)
    }

    #[test]
    fn all_is_sent_right_before_the_first_repetition_that_counts() {
        let (record, sent) = performed(2 * PIECE + 5, 1);
        let bytes: Vec<usize> = sent.iter().map(|&(bytes, _)| bytes).collect();
        let piece = PIECE as usize;
        // A barrier of two ranks is one message without bytes.
        assert_eq!(bytes, [0, SIZE, piece, piece, 5, 0, SIZE, 0, SIZE]);
        // No time that counts has begun before.
        assert_eq!((record.starts.len(), record.ends.len()), (2, 2));
        assert!(record.starts[0] >= sent[5].1 && sent[5].1 >= sent[4].1, "{record:?}");
    }

    #[test]
    fn blocks_without_one_send_nothing_more() {
        let (record, sent) = performed(0, 0);
        assert_eq!(record.starts.len(), 2);
        let bytes: Vec<usize> = sent.iter().map(|&(bytes, _)| bytes).collect();
        assert_eq!(bytes, [0, SIZE, 0, SIZE]);
    }

    #[test]
    fn it_is_bounded_and_needs_another_rank() {
        let all = |spill: &Spill| {
            let bytes = |step: &Step| -> u64 {
                step.sends.iter().flat_map(|send| &send.spans).map(|span| span.len() as u64).sum()
            };
            spill.times * bytes(&spill.whole) + spill.rest.as_ref().map_or(0, bytes)
        };
        let of = |bytes, ranks| Spill::new(Bytes(bytes), 64, (0, ranks));
        for bytes in [1, PIECE - 1, PIECE, PIECE + 1, 33_554_432] {
            assert_eq!(all(&of(bytes, 2)), bytes);
        }
        let most = of(u64::MAX, 3);
        assert_eq!(all(&most), MOST_SPILLED.0);
        assert_eq!(most.end(), 64 + 2 * PIECE as usize);
        assert_eq!((all(&of(PIECE, 1)), of(PIECE, 1).end()), (0, 64));
    }
}
