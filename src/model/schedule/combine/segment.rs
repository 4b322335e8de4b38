//! A schedule run once for every segment of the vector, one after the other.

use crate::model::schedule::{Endpoint, Frame, Run, Schedule, Sends};

/// In round s·stride + r, segment s of P does what the schedule does in round r.
///
/// Every chunk is cut into P: chunk c of segment s is chunk c·P + s. In a round earlier segments go
/// first. A stride of 1 gives the chain's pipeline, one of 4 the edge-coloured double tree's.
#[derive(Debug, Clone)]
pub struct Segment<S> {
    inner: S,
    segments: u32,
    stride: u32,
}

impl<S: Schedule> Segment<S> {
    /// `inner` in `segments` segments, each `stride` rounds after the previous one; both at least
    /// 1.
    pub fn new(inner: S, segments: u32, stride: u32) -> Self {
        Self { inner, segments: segments.max(1), stride: stride.max(1) }
    }
}

impl<S: Schedule> Schedule for Segment<S> {
    fn frame(&self) -> Frame {
        let inner = self.inner.frame();
        let delay = u64::from(self.segments - 1) * u64::from(self.stride);
        Frame {
            parts: inner.parts.saturating_mul(self.segments),
            rounds: if inner.rounds == 0 { 0 } else { inner.rounds + delay },
            // The owners of parts change with P.
            turns: inner.turns && self.segments == 1,
            mirrors: inner.mirrors && self.segments == 1,
            own: None,
            ..inner
        }
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.inner.owner(chunk / self.segments)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let rounds = self.inner.rounds();
        let stride = u64::from(self.stride);
        let mut one = Sends::default();
        // The segments for which this is one of the schedule's rounds.
        let first = (round + 1).saturating_sub(rounds).div_ceil(stride);
        let last = (round / stride).min(u64::from(self.segments) - 1);
        for segment in first..=last {
            one.clear();
            self.inner.sends(round - segment * stride, from, &mut one);
            // Below P, which is a u32.
            let segment = segment as u32;
            for message in one.iter() {
                let chunks = message.runs.iter().flat_map(|run| run.chunks());
                let runs = chunks.map(|chunk| Run::one(chunk * self.segments + segment));
                out.push(message.to, message.op, runs);
            }
        }
    }
}
