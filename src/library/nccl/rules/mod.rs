//! The table of NCCL's example tuner plugin: the first line that matches and is available decides.
//!
//! Source: NCCL 2.27.7 to 2.30.7 `plugins/tuner/example/plugin.c`.

pub(in crate::library) mod read;
pub(in crate::library) mod write;

use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::library::nccl::{Algo, Proto};
use crate::library::tuning_file::Line;

/// The lines of one file, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The lines.
    pub rules: Vec<Rule>,
}

/// One line. If a count is absent (`-1` in the file), the line holds for any count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Broadcast, reduce, all-gather, reduce-scatter or all-reduce.
    pub collective: Collective,
    /// The first size, in M.
    pub from: Bytes,
    /// The last size.
    pub to: Bytes,
    /// The algorithm that runs.
    pub algorithm: Algo,
    /// Its wire protocol.
    pub protocol: Proto,
    /// What the plugin does about channels.
    pub channels: Channels,
    /// Nodes of the communicator.
    pub nodes: Option<u32>,
    /// Ranks of the communicator.
    pub ranks: Option<u32>,
    /// Operations that are grouped.
    pub pipe_ops: Option<u32>,
    /// Whether buffers are registered: 0 or 1.
    pub registered: Option<u32>,
    /// Its line in the file.
    pub line: Line,
}

/// Channels of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// `-1`. The plugin's README calls it the default. But its code has set 1 channel before and
    /// leaves it, so such calls use one channel.
    One,
    /// `0`: NCCL uses its own number, as without a plugin.
    Own,
    /// At most this many.
    AtMost(u32),
}

/// The collectives that the plugin knows; it reads any other word as all-reduce.
pub const COLLECTIVES: &[Collective] = &[
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
];

/// A call as the plugin sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The collective.
    pub collective: Collective,
    /// M.
    pub size: Bytes,
    /// Nodes of the communicator.
    pub nodes: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Operations that are grouped; 1 for a single call.
    pub pipe_ops: u32,
    /// Whether buffers are registered.
    pub registered: bool,
}

impl Rule {
    /// Whether it holds for a call.
    #[must_use]
    pub fn fits(&self, call: &Call) -> bool {
        let is = |wanted: Option<u32>, found: u32| wanted.is_none_or(|w| w == found);
        self.collective == call.collective
            && (self.from..=self.to).contains(&call.size)
            && is(self.nodes, call.nodes)
            && is(self.ranks, call.ranks)
            && is(self.pipe_ops, call.pipe_ops)
            && is(self.registered, call.registered.into())
    }
}

impl Rules {
    /// The lines that hold for a call, in order. The first whose algorithm and protocol are available
    /// decides; if there is no such line, the plugin still leaves one channel.
    pub fn fitting(&self, call: Call) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.fits(&call))
    }

    /// Every size at which another line may decide.
    #[must_use]
    pub fn edges(&self, collective: Collective) -> Vec<Bytes> {
        let of = self.rules.iter().filter(|rule| rule.collective == collective);
        of.flat_map(|rule| [Some(rule.from), rule.to.0.checked_add(1).map(Bytes)])
            .flatten()
            .collect()
    }
}
