//! The lines of `--events`: the first line holds everything that is needed to check the others.

use serde::Serialize;

use super::{End, Run};
use crate::base::collective::Collective;
use crate::cost::simulate::Mode;
use crate::cost::simulate::Timed;
use crate::machine::fabric::{Discipline, Tier};
use crate::model::formula::Ports;
use crate::model::schedule::Op;
use crate::model::schedule::{Layout, holds, wants};

/// The first line.
#[derive(Debug, Serialize)]
pub struct Header {
    /// `collcost/events/1`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// N.
    pub ranks: u32,
    /// The number of switches that take part: `switch0` …
    pub switches: u32,
    /// The rank that has or gets the data; 0 if there is none.
    pub root: u32,
    /// Bytes of each chunk.
    pub chunk_bytes: Vec<f64>,
    /// Whether every rank has its own parts, which are never added on the way.
    pub own_parts: bool,
    /// Ports of a rank on the outermost tier; 0: unbounded.
    pub ports: u32,
    /// `full`, `half` or `unbounded`.
    pub duplex: &'static str,
    /// `fair` if messages share a port of the outermost tier; absent if they use it one after
    /// another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// `sync`, `local` or `flow`.
    pub mode: Mode,
    /// α of the outermost tier.
    pub alpha_s: Option<f64>,
    /// The rate of one port of the outermost tier.
    #[serde(rename = "bw_Bps")]
    pub bandwidth: Option<f64>,
    /// γ; absent if it is unknown and left out.
    #[serde(rename = "gamma_s_per_B", skip_serializing_if = "Option::is_none")]
    pub gamma: Option<f64>,
    /// α_sw, if switches take part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha_switch_s: Option<f64>,
    /// The rate of one port through a switch.
    #[serde(rename = "bw_switch_Bps", skip_serializing_if = "Option::is_none")]
    pub bandwidth_switch: Option<f64>,
    /// The tiers from the innermost out, if the ranks span several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<EventTier>,
    /// How ranks are placed on the tiers' domains: `block` or `cyclic`.
    pub placement: String,
    /// The chunks that each rank holds at the start.
    pub holds: Vec<Vec<u32>>,
    /// The chunks that each rank must hold at the end, with the contributions of all ranks.
    pub wants: Vec<Vec<u32>>,
}

/// One tier of several.
#[derive(Debug, Serialize)]
pub struct EventTier {
    /// Its name.
    pub name: String,
    /// Ranks in a domain; absent: no limit.
    pub span: Option<u32>,
    /// α.
    pub alpha_s: Option<f64>,
    /// The rate of one port, reduced by the oversubscription.
    #[serde(rename = "bw_Bps")]
    pub bandwidth: Option<f64>,
    /// Ports of a rank; 0: unbounded.
    pub ports: u32,
    /// `full`, `half` or `unbounded`.
    pub duplex: &'static str,
    /// Ports shared by the ranks of a domain of the tier below; absent: each rank has its own.
    pub nics: Option<u32>,
    /// How messages share a port: `serial` or `fair`.
    pub discipline: Discipline,
    /// The rate each way of an exchange over the rate one way.
    pub duplex_factor: f64,
    /// The bytes of a message after which that factor holds; absent: for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_above_bytes: Option<u64>,
}

/// One message.
#[derive(Debug, Serialize)]
pub struct Event {
    /// Its round, from 0.
    pub round: u64,
    /// When it starts.
    pub start_s: f64,
    /// When it ends and its ports are free.
    pub end_s: f64,
    /// When the receiver has added it, if that takes time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_s: Option<f64>,
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// The chunks.
    pub chunks: Vec<u32>,
    /// What the receiver does with the data: `copy`, `reduce` or `or`.
    pub op: Op,
    /// The index of the tier that it crosses, if there are several; each has its own ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<usize>,
}

impl Event {
    /// A message on a machine with this number of tiers.
    #[must_use]
    pub fn new(message: &Timed<'_>, tiers: usize) -> Self {
        Self {
            round: message.round,
            start_s: message.start.0,
            end_s: message.end.0,
            added_s: Some(message.added.0).filter(|&added| added > message.end.0),
            from: message.from.into(),
            to: message.to.into(),
            chunks: message.runs.iter().flat_map(|run| run.chunks()).collect(),
            op: message.op,
            tier: message.tier.filter(|_| tiers > 1),
        }
    }
}

impl Run {
    /// The line before the messages that [`Self::listen`] reports.
    #[must_use]
    pub fn header(&self) -> Header {
        let schedule = &*self.schedule;
        let frame = schedule.frame();
        let fabric = &self.query.machine.fabric;
        let depth = fabric.depth(frame.ranks.max(1)).unwrap_or(1);
        let tiers: Vec<EventTier> = fabric.tiers[..depth].iter().map(view).collect();
        let outer = tiers.last();
        let switched = fabric.tiers.iter().find(|t| t.switch.is_some() && frame.switches > 0);
        let switch = switched.and_then(|tier| tier.switch);
        let chunks = |of: fn(&dyn crate::model::schedule::Schedule, u32, u32) -> bool| {
            let those =
                |rank| (0..frame.chunks()).filter(move |&c| of(schedule, rank, c)).collect();
            (0..frame.ranks).map(those).collect()
        };
        Header {
            schema: "collcost/events/1",
            collective: frame.collective,
            algorithm: self.algorithm.meta().id,
            ranks: frame.ranks,
            switches: frame.switches,
            root: frame.root,
            chunk_bytes: self.chunk_bytes(),
            own_parts: frame.layout == Layout::Owned,
            ports: outer.map_or(1, |tier| tier.ports),
            duplex: outer.map_or("full", |tier| tier.duplex),
            discipline: outer.map(|tier| tier.discipline).filter(|d| *d == Discipline::Fair),
            mode: self.setup.mode,
            alpha_s: outer.and_then(|tier| tier.alpha_s),
            bandwidth: outer.and_then(|tier| tier.bandwidth),
            gamma: fabric.gamma.map(|gamma| gamma.0),
            alpha_switch_s: switch.and_then(|switch| switch.alpha).map(|alpha| alpha.0),
            bandwidth_switch: switched
                .and_then(|tier| switch.and_then(|s| s.bandwidth).or(tier.link.bandwidth))
                .map(|rate| rate.0),
            tiers: if depth > 1 { tiers } else { Vec::new() },
            placement: fabric.order.to_string(),
            holds: chunks(holds),
            wants: chunks(wants),
        }
    }
}

fn view(tier: &Tier) -> EventTier {
    let (ports, duplex) = match tier.ports {
        Ports::Full(k) => (k.get(), "full"),
        Ports::Half(k) => (k.get(), "half"),
        Ports::Unbounded => (0, "unbounded"),
    };
    EventTier {
        name: tier.name.clone(),
        span: tier.span.map(Into::into),
        alpha_s: tier.link.alpha.map(|alpha| alpha.0),
        bandwidth: tier.link.bandwidth.map(|rate| rate.0 / tier.oversubscription.0),
        ports,
        duplex,
        nics: tier.nics.map(Into::into),
        discipline: tier.discipline,
        duplex_factor: tier.link.duplex.0,
        duplex_above_bytes: tier.link.duplex_after().map(|above| above.0),
    }
}
