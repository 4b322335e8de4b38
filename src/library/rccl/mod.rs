//! RCCL: its tuner on MI300X, MI325X, MI350X and MI355X, decision for decision, and what goes around it.
//!
//! RCCL began as NCCL and kept its cost model, with constants of its own for each generation. Limits of sizes then
//! override the protocol, gathers of few bytes go directly to every rank, and releases up to 2.27 run schedules of
//! MSCCL inside a node.
//!
//! Covered are two, four and eight GPUs of a node and eight on each of several nodes, all joined by xGMI, with a NIC
//! each. Not covered: other graphs, variables, windows that a program registers, and what RCCL has run since the middle of
//! 2026 (kernels that read the other GPUs' memory, hierarchical gathers).
//!
//! Source: ROCm/rccl at 2.28.3 of January 2026 and at 2.27.7 before it.

mod tables;
mod tuner;

use super::{Call, Choice, Entry, Made, Meta, Part, Policy, Runs, Site, Where};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio};
use crate::library::nccl::point_to_point::{self, sends};
use crate::library::nccl::policy::{self, named, runs};
use crate::machine::nccl::{Algo, Function, Proto};
use crate::machine::profile::LinkKind;
use crate::model::algorithm::{Library, Reason};
use tables::Chip;
use tuner::{Decision, Tuner};

pub(super) const V2_28: Entry = Entry {
    id: "rccl@2.28",
    aliases: &["rccl"],
    made: Made::Plain {
        library: Some(Library::Rccl),
        title: "RCCL 2.28.3's tuner for MI300X to MI355X, as developed in January 2026",
        counts: COUNTS,
        source: "ROCm/rccl at 3d4813d9, src/graph/tuning.cc, src/rccl_wrap.cc, src/enqueue.cc",
        make: |meta, site| Rccl::of(meta, site, false),
    },
};

pub(super) const V2_27: Entry = Entry {
    id: "rccl@2.27",
    aliases: &[],
    made: Made::Plain {
        library: Some(Library::Rccl),
        title: "RCCL 2.27.7's tuner (ROCm 7.1 and 7.2) for MI300X to MI355X, with MSCCL inside a node",
        counts: COUNTS,
        source: "ROCm/rccl at 239d62f5, src/graph/tuning.cc, src/rccl_wrap.cc, tools/msccl-algorithms",
        make: |meta, site| Rccl::of(meta, site, true),
    },
};

const COUNTS: &str = "the vector, or all ranks' blocks; for protocols, a rank's part of them";

struct Rccl {
    meta: Meta,
    tuner: Tuner,
    /// Whether schedules of MSCCL run first.
    msccl: bool,
}

impl Rccl {
    fn of(meta: Meta, site: &Site, scheduled: bool) -> Result<Box<dyn Policy>> {
        let hardware =
            site.hardware.as_ref().filter(|own| own.link == LinkKind::Xgmi && own.span == 8);
        let chip = hardware.and_then(|own| Chip::of(own.generation?)).ok_or_else(|| {
            Error::unsupported(format!("RCCL's rules on {} are not known here", site.machine)).help(
                "they are for eight MI300X, MI325X or MI355X of a node: --on mi300x, --on mi355x",
            )
        })?;
        let nodes = site.nodes.max(1);
        let is_whole = nodes == 1 || hardware.is_some_and(|own| own.nics == 8);
        if let Some(protocol) = site.protocol {
            let what = format!("RCCL's choices with {protocol} alone are not known here");
            return Err(Error::unsupported(what).help("leave out --protocol"));
        }
        let tuner = Tuner::new(chip, site.ranks, nodes).filter(|_| is_whole);
        let tuner = tuner.ok_or_else(|| {
            let ranks = site.ranks;
            Error::unsupported(format!(
                "RCCL's graphs of {ranks} ranks on {nodes} nodes are not known here"
            ))
            .help(
                "they are for 2, 4 or 8 GPUs of one node, and for 8 with 8 NICs on each of several",
            )
        })?;
        Ok(Box::new(Self { meta, tuner, msccl: scheduled && (site.ranks, nodes) == (8, 1) }))
    }
}

/// The largest size up to which changes of the tuner's choice are found.
const LARGEST: u64 = 1 << 50;

/// The schedules of MSCCL for eight GPUs: the largest size of each, its protocol, and what the number of elements has
/// to be a multiple of.
const ALL_REDUCE: [(u64, Proto, u32); 3] =
    [(65_536, Proto::Ll, 256), (524_287, Proto::Ll, 512), (20_971_520, Proto::Simple, 512)];
const ALL_TO_ALL: [(u64, Proto, u32); 5] = [
    (9_216, Proto::Ll, 8),
    (194_560, Proto::Ll, 16),
    (524_288, Proto::Ll, 32),
    (7_340_032, Proto::Simple, 32),
    (45_088_768, Proto::Simple, 64),
];

/// Those of a collective.
fn schedules(collective: C) -> &'static [(u64, Proto, u32)] {
    match collective {
        C::AllReduce => &ALL_REDUCE,
        C::AllToAll => &ALL_TO_ALL,
        _ => &[],
    }
}

/// The bytes that RCCL sees: whole elements of every block, at least one.
fn seen(call: &Call) -> u64 {
    (call.size.0 / grain(call)).max(1) * grain(call)
}

/// What they are a multiple of.
fn grain(call: &Call) -> u64 {
    let of = |function| policy::grain(call, function);
    Function::of(call.collective).map_or(call.element.0.max(1), of)
}

/// What sends and receives between all ranks are here.
fn directly(call: &Call) -> &'static str {
    if call.nodes > 1 { "pairwise-by-tier" } else { "pairwise" }
}

/// A schedule of MSCCL.
fn scheduled(call: &Call, (most, proto, multiple): (u64, Proto, u32)) -> Choice {
    let runs = match call.collective {
        C::AllReduce => "two-shot",
        _ => directly(call),
    };
    let mut part = Part::new(call.collective, call.ranks, Where::All, runs);
    part.wire = Ratio(if proto == Proto::Ll { 2.0 } else { 1.0 });
    let rule = format!("up to {most} B: a schedule of MSCCL for 8 GPUs");
    let note = format!(
        "calls whose number of elements is no multiple of {multiple}, averages and scaled sums, and bfloat16 above \
         8 MiB run as in 2.28; RCCL_MSCCL_ENABLE=0 switches it off"
    );
    let notes = vec![note.into()];
    let name = format!("MSCCL/{proto}");
    Choice { notes, ..Choice::new(name, rule, Runs::Parts(vec![part])) }
}

impl Policy for Rccl {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let bytes = seen(call);
        let schedule = schedules(call.collective).iter().find(|(most, ..)| bytes <= *most);
        if let Some(&schedule) = schedule.filter(|_| self.msccl) {
            return Ok(scheduled(call, schedule));
        }
        if let Some(choice) = point_to_point::choice(call) {
            return Ok(choice);
        }
        let function = Function::of(call.collective).ok_or_else(|| {
            Error::unsupported("RCCL has no barrier")
                .help("programs call an all-reduce of one element")
        })?;
        Ok(match self.tuner.decide(function, bytes) {
            Decision::Of(algo, proto) => {
                let what = runs((call.ranks, call.nodes), call.collective, (algo, proto));
                let rule = "the least estimate of its cost model, and its limits of protocols";
                let force = vec![format!("NCCL_ALGO={algo}"), format!("NCCL_PROTO={proto}")];
                Choice { force, ..Choice::new(format!("{algo}/{proto}"), rule, what) }
            }
            Decision::Direct => {
                let what = Part::new(C::AllToAll, call.ranks, Where::All, directly(call));
                let rule = "few bytes: a send and a receive with every rank";
                let force = "RCCL_DIRECT_ALLGATHER_THRESHOLD=-1 switches it off";
                let note =
                    "priced as an all-to-all of the same bytes, which sends the same messages";
                Choice {
                    force: vec![force.to_owned()],
                    notes: vec![note.into()],
                    ..Choice::new("Direct", rule, Runs::Parts(vec![what]))
                }
            }
        })
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        match named(algorithm) {
            _ if sends(call.collective) => {
                Err(Reason::new("RCCL sends and receives, whatever is set"))
            }
            Some(algo @ Algo::Ring) => Ok(format!("NCCL_ALGO={algo}")),
            Some(algo @ Algo::Tree) if call.collective == C::AllReduce => {
                Ok(format!("NCCL_ALGO={algo}"))
            }
            _ => Err(Reason::new("RCCL has no such algorithm")),
        }
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let grain = grain(call);
        let schedules = schedules(call.collective).iter().filter(|_| self.msccl);
        let mut edges: Vec<Bytes> =
            schedules.map(|(most, ..)| Bytes((most / grain + 1) * grain)).collect();
        if sends(call.collective) {
            return Ok(edges);
        }
        let Some(function) = Function::of(call.collective) else {
            return self.choose(call).map(|_| edges);
        };
        let decide = |count: u64| self.tuner.decide(function, count * grain);
        // The first counts that are seen as so many bytes or more.
        let borders = self.tuner.borders(function).map(|border| border.div_ceil(grain));
        let mut starts: Vec<u64> = borders.chain([1, LARGEST / grain]).collect();
        starts.sort_unstable();
        starts.dedup();
        for span in starts.windows(2) {
            edges.push(Bytes(span[0] * grain));
            changes(span[0], span[1] - 1, &decide, &mut |count| edges.push(Bytes(count * grain)));
        }
        Ok(edges)
    }
}

/// The counts from which on `decide` says something else, between `first` and `last`. Times are straight lines between
/// two borders, so what is left does not return.
fn changes(first: u64, last: u64, decide: &impl Fn(u64) -> Decision, found: &mut impl FnMut(u64)) {
    if first >= last || decide(first) == decide(last) {
        return;
    }
    if last - first == 1 {
        return found(last);
    }
    let middle = first + (last - first) / 2;
    changes(first, middle, decide, found);
    changes(middle, last, decide, found);
}
