//! An artificial latency, so that a fit can be compared with a known value.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Fault, Step, Transport, Wait};

/// How long each message is delayed before it is sent, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// How long.
    pub time: Duration,
    /// Spinning is exact but takes the CPU from other ranks; sleeping takes longer than requested,
    /// by the time the kernel needs to wake the rank.
    pub how: Wait,
}

/// The actual delays of messages, in ns, shared with the code that made the transport.
pub(crate) type Spent = Rc<RefCell<Vec<u64>>>;

/// A transport that delays every message.
pub(crate) struct Delayed {
    inner: Box<dyn Transport>,
    delay: Delay,
    spent: Spent,
}

impl Delayed {
    pub(crate) fn new(inner: Box<dyn Transport>, delay: Delay, spent: Spent) -> Self {
        Self { inner, delay, spent }
    }
}

impl Transport for Delayed {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn ranks(&self) -> u32 {
        self.inner.ranks()
    }

    fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
        self.inner.allocate(bytes)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.inner.write(at, bytes)
    }

    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        self.inner.read(at, bytes)
    }

    fn step(&mut self, step: &Step, patience: Duration) -> Result<(), Fault> {
        for _ in &step.sends {
            let began = Instant::now();
            match self.delay.how {
                Wait::Poll => std::thread::sleep(self.delay.time),
                Wait::Spin => {
                    while began.elapsed() < self.delay.time {
                        std::hint::spin_loop();
                    }
                }
            }
            self.spent.borrow_mut().push(began.elapsed().as_nanos() as u64);
        }
        self.inner.step(step, patience)
    }
}
