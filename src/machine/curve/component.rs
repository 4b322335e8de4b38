//! A component: one of the things that a library does, and its time.

use super::Placed;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::base::words::words;

words! {
    /// The number of successive steps, as a function of N.
    #[derive(serde::Deserialize)]
    pub enum Steps {
        /// N − D inside the D nodes, D − 1 between them.
        Ring = "ring",
        /// N/D − 1 inside a node, lg D between nodes: NCCL's tree.
        Tree = "tree",
        /// lg(N/D) inside, lg D between.
        Log = "log",
        /// No steps: only the launch.
        Const = "const",
    }
}

impl Steps {
    /// Steps inside nodes and between them.
    #[must_use]
    pub fn count(self, placed: Placed) -> (Ratio, Ratio) {
        let (n, d) = (f64::from(placed.ranks), f64::from(placed.nodes.max(1)));
        let (inside, between) = match self {
            Self::Ring => (n - d, d - 1.0),
            Self::Tree => (n / d - 1.0, d.log2()),
            Self::Log => ((n / d).log2(), d.log2()),
            Self::Const => (0.0, 0.0),
        };
        (Ratio(inside.max(0.0)), Ratio(between))
    }
}

/// One of the things that a library does: an algorithm with a protocol, mostly.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// The number of successive steps.
    pub steps: Steps,
    /// o: the time of a call before its first step.
    pub launch: Seconds,
    /// α of a step inside a node.
    pub alpha: Seconds,
    /// α' of a step between nodes; absent if none was measured.
    pub alpha_between: Option<Seconds>,
    /// BW of ranks on one node; absent if none was measured.
    pub bandwidth: Option<Bandwidth>,
    /// BW of ranks on several nodes; absent if none was measured.
    pub bandwidth_between: Option<Bandwidth>,
}

impl Component {
    /// L: the latency, which does not depend on the size.
    #[must_use]
    pub fn latency(&self, placed: Placed) -> Seconds {
        let (inside, between) = self.steps.count(placed);
        let far = self.alpha_between.unwrap_or(self.alpha);
        self.launch + self.alpha * inside + far * between
    }

    /// BW of ranks with this placement; that of the other tier if this one was not measured.
    #[must_use]
    pub fn rate(&self, placed: Placed) -> Bandwidth {
        let (own, other) = match placed.between() {
            true => (self.bandwidth_between, self.bandwidth),
            false => (self.bandwidth, self.bandwidth_between),
        };
        own.or(other).unwrap_or(Bandwidth(f64::INFINITY))
    }

    /// The time of M = `size`, of which the multiple `moved` is transferred, with latency and
    /// bandwidth overlapping by `shape`.
    #[must_use]
    pub fn time(&self, placed: Placed, size: Bytes, moved: Ratio, shape: Ratio) -> Seconds {
        let latency = self.latency(placed);
        let bytes = Volume::from(size) / self.rate(placed) * moved;
        latency + Seconds((latency.0 * bytes.0).sqrt()) * shape + bytes
    }
}
