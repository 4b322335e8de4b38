//! What RCCL runs before it asks the tuner: up to a size, and where the bytes divide.

use super::{dda, msccl};
use crate::library::{Call, Choice};

/// A kernel or schedule that goes before the tuner.
#[derive(Clone, Copy)]
pub(super) struct First {
    /// The largest size.
    pub most: u64,
    /// It takes multiples of this many bytes.
    pub step: u64,
    pub what: What,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Msccl(msccl::Schedule),
    Dda(dda::Kernel),
}

impl First {
    pub(super) fn choice(self, call: &Call) -> Choice {
        match self.what {
            What::Msccl(schedule) => schedule.choice(call),
            What::Dda(kernel) => kernel.choice(call, self.most),
        }
    }
}
