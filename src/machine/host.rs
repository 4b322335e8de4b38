//! The work of a process besides the network: several buffers, copies to and from the host.
//!
//! Gloo's all-reduce takes N buffers per process: it adds them up, runs the collective on the sum,
//! and copies the result back into all of them. A GPU's buffers are staged through host memory
//! first and back afterwards. None of this uses the network. If it overlaps with the network in
//! chunks, the slowest stage sets the pace.
//!
//! ```text
//!   chunk 0   reduce │ copy out │ wire │ copy in │ broadcast
//!   chunk 1            reduce   │ copy out │ wire │ copy in │ …
//! ```

use crate::base::quantity::{Bandwidth, Seconds, SecondsPerByte, Volume};

/// The buffers and copies of a process before and after the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Buffers per process; one needs no local phase.
    pub buffers: u32,
    /// Time to add one byte of one buffer to another; absent: free.
    pub reduce: Option<SecondsPerByte>,
    /// Rate at which the result is copied to a further buffer; absent: free.
    pub copy: Option<Bandwidth>,
    /// Rate between device and host memory; absent: the network reads the buffers directly.
    pub staging: Option<Bandwidth>,
}

/// The time of each part of a call, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Phases {
    /// Adding up the process's own buffers.
    pub reduce: Seconds,
    /// Device to host.
    pub stage_out: Seconds,
    /// The collective between processes.
    pub wire: Seconds,
    /// Host to device.
    pub stage_in: Seconds,
    /// Copying the result to the other buffers.
    pub broadcast: Seconds,
}

impl Host {
    /// One buffer that the network reads directly: nothing to do.
    pub const PLAIN: Self = Self { buffers: 1, reduce: None, copy: None, staging: None };

    /// The parts of a call of `size` bytes that spends `wire` between processes.
    #[must_use]
    pub fn phases(&self, size: Volume, wire: Seconds) -> Phases {
        let others = f64::from(self.buffers.saturating_sub(1));
        let stage = self.staging.map_or(Seconds(0.0), |rate| size / rate);
        Phases {
            reduce: self.reduce.map_or(Seconds(0.0), |each| Seconds(others * size.0 * each.0)),
            stage_out: stage,
            wire,
            stage_in: stage,
            broadcast: self.copy.map_or(Seconds(0.0), |rate| Seconds(others * (size / rate).0)),
        }
    }
}

impl Phases {
    /// One after the other.
    #[must_use]
    pub fn total(&self) -> Seconds {
        self.stages().into_iter().sum()
    }

    /// In `chunks` equal chunks, each through all parts, a part busy with one chunk at a time.
    ///
    /// The first chunk fills the pipeline, and every further one adds the slowest part of a chunk;
    /// with many chunks only the slowest part matters. Zero chunks count as one.
    #[must_use]
    pub fn overlapped(&self, chunks: u32) -> Seconds {
        let chunks = f64::from(chunks.max(1));
        let slowest = self.stages().into_iter().fold(0.0, |most: f64, s| most.max(s.0));
        Seconds(self.total().0 / chunks + (chunks - 1.0) * slowest / chunks)
    }

    fn stages(&self) -> [Seconds; 5] {
        [self.reduce, self.stage_out, self.wire, self.stage_in, self.broadcast]
    }
}

/// A buffer cut as `torch.chunk` and Gloo cut it: pieces of ⌈elements/parts⌉, the last one smaller.
///
/// There may be fewer pieces than parts: five elements in four parts are 2, 2, 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Elements in each piece but the last.
    pub each: u64,
    /// Pieces that are not empty.
    pub count: u64,
    /// Elements in the last one.
    pub last: u64,
}

impl Pieces {
    /// The fewest elements in a chunk of Gloo's `allreduce_ring_chunked.h`.
    pub const GLOO_LEAST: u64 = 256;

    /// Cuts `elements` into at most `parts`, of which only the last may be smaller than `least`.
    #[must_use]
    pub fn cut(elements: u64, parts: u64, least: u64) -> Self {
        if elements == 0 {
            return Self { each: 0, count: 0, last: 0 };
        }
        let each = elements.div_ceil(parts.max(1)).max(least).max(1);
        let count = elements.div_ceil(each);
        Self { each, count, last: elements - (count - 1) * each }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_process_only_waits_for_the_wire() {
        let phases = Host::PLAIN.phases(Volume(1e9), Seconds(0.25));
        assert_eq!((phases.total(), phases.overlapped(7)), (Seconds(0.25), Seconds(0.25)));
    }

    #[test]
    fn pieces_hold_every_element_once() {
        for elements in 0..200 {
            for parts in 1..20 {
                for least in [1, 3, 256] {
                    let p = Pieces::cut(elements, parts, least);
                    let sum = p.count.saturating_sub(1) * p.each + p.last;
                    assert_eq!(sum, elements);
                    assert!(p.count <= parts && p.last <= p.each);
                }
            }
        }
    }
}
