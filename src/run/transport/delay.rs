//! A latency that is put in on purpose, so that a fit can be held against one that is known.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Fault, Step, Transport, Wait};

/// How long each message is held up before it leaves, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// How long.
    pub time: Duration,
    /// Spinning is exact and takes the CPU from other ranks; asleep it is longer than was asked,
    /// by as much as the kernel takes to wake the rank up.
    pub how: Wait,
}

/// How long messages were really held up, in ns, shared with whoever made the transport.
pub(crate) type Spent = Rc<RefCell<Vec<u64>>>;

/// A transport that holds every message up.
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
