//! RCCL: its tuner on MI300X, MI325X, MI350X and MI355X, decision for decision, and what goes around it.
//!
//! RCCL began as NCCL and kept its cost model, with constants of its own for each generation. Limits of sizes then
//! override the protocol, gathers of few bytes go directly to every rank, and releases up to 2.27 run schedules of
//! MSCCL inside a node. From 2.30 on, kernels that read the other GPUs' memory go first inside a node, gathers over many
//! nodes have a part between and a part inside them, and a table of all-reduces overrides the model of MI350X.
//!
//! Covered are two, four and eight GPUs of a node and eight on each of several nodes, all joined by xGMI, with a NIC
//! each. Not covered: other graphs, variables, windows that a program registers, AMD's own NICs (AINIC), beside which
//! 2.30 has other constants and gathers without sends to every rank.
//!
//! Source: ROCm/rccl at 2.28.3 of January 2026 and at 2.27.7 before it; ROCm/rocm-systems at 2.30.4 of July 2026.

mod dda;
mod first;
mod hierarchy;
mod msccl;
mod tables;
mod tuner;

use std::num::NonZeroU32;

use super::{Call, Choice, Entry, Made, Meta, Part, Policy, Runs, Site, Where};
use crate::base::collective::Collective as C;
use crate::base::dtype::DataType;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::point_to_point::{self, sends};
use crate::library::nccl::policy::{self, LARGEST, named, runs};
use crate::machine::nccl::{Algo, Function};
use crate::machine::profile::LinkKind;
use crate::model::algorithm::{Library, Reason};
use first::First;
use tables::Chip;
use tuner::{Decision, Tuner};

pub(super) const V2_30: Entry = Entry {
    id: "rccl@2.30",
    aliases: &[],
    made: Made::Plain {
        library: Some(Library::Rccl),
        title: "RCCL 2.30.4 (ROCm 7.14) for MI300X to MI355X, as of July 2026",
        counts: COUNTS,
        source: "ROCm/rocm-systems at bda93247, projects/rccl: src/collectives.cc, src/rccl_wrap.cc, \
                 src/dda_*_ipc.cu, src/graph/tuning.cc, src/enqueue.cc, tuner/rccl_tuner_gfx950.csv",
        make: |meta, site| Rccl::of(meta, site, Release::V2_30),
    },
};

/// What is measured of its machines ran with this release and older ones: it is the one that is meant where none is
/// named.
pub(super) const V2_28: Entry = Entry {
    id: "rccl@2.28",
    aliases: &["rccl"],
    made: Made::Plain {
        library: Some(Library::Rccl),
        title: "RCCL 2.28.3's tuner for MI300X to MI355X, as of January 2026",
        counts: COUNTS,
        source: "ROCm/rccl at 3d4813d9, src/graph/tuning.cc, src/rccl_wrap.cc, src/enqueue.cc",
        make: |meta, site| Rccl::of(meta, site, Release::V2_28),
    },
};

pub(super) const V2_27: Entry = Entry {
    id: "rccl@2.27",
    aliases: &[],
    made: Made::Plain {
        library: Some(Library::Rccl),
        title: "RCCL 2.27.7's tuner as of January 2026, with MSCCL inside a node",
        counts: COUNTS,
        source: "ROCm/rccl at 239d62f5, src/graph/tuning.cc, src/rccl_wrap.cc, tools/msccl-algorithms",
        make: |meta, site| Rccl::of(meta, site, Release::V2_27),
    },
};

const COUNTS: &str = "the vector, or all ranks' blocks; for protocols, a rank's part of them";

/// The releases, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Release {
    V2_27,
    V2_28,
    V2_30,
}

struct Rccl {
    meta: Meta,
    release: Release,
    chip: &'static Chip,
    /// Or why the tuner's choices are not known.
    tuner: Result<Tuner>,
    /// Whether all ranks are the eight GPUs of one node, so that others than the tuner may choose first.
    whole_node: bool,
    dtype: Option<DataType>,
}

impl Rccl {
    fn of(meta: Meta, site: &Site, release: Release) -> Result<Box<dyn Policy>> {
        let hardware =
            site.hardware.as_ref().filter(|own| own.link == LinkKind::Xgmi && own.span == 8);
        let chip = hardware.and_then(|own| Chip::of(own.generation?, release)).ok_or_else(|| {
            Error::unsupported(format!("RCCL's rules on {} are not known here", site.machine)).help(
                "they are for eight MI300X, MI325X or MI355X of a node: --on mi300x, --on mi355x",
            )
        })?;
        let whole_node = site.nodes <= 1 && site.ranks == 8 && site.protocol.is_none();
        let dtype = site.conditions.dtype;
        Ok(Box::new(Self { meta, release, chip, tuner: tuner(chip, site), whole_node, dtype }))
    }

    /// What may run a call before the tuner is asked, from the smallest size.
    fn firsts(&self, call: &Call) -> Vec<First> {
        match self.release {
            _ if !self.whole_node => Vec::new(),
            Release::V2_27 => msccl::of(call, self.dtype),
            Release::V2_28 => Vec::new(),
            Release::V2_30 => dda::of(self.chip, call, self.dtype),
        }
    }

    /// The variables without which the tuner is asked for calls of this collective, each after a space.
    fn switches(&self, collective: C) -> String {
        let firsts = self.whole_node
            && match self.release {
                Release::V2_27 => collective == C::AllReduce,
                Release::V2_28 => false,
                Release::V2_30 => {
                    matches!(collective, C::AllReduce | C::AllGather | C::ReduceScatter)
                }
            };
        let first = if self.release == Release::V2_27 { msccl::SWITCH } else { dda::SWITCH };
        let tuner = self.tuner.as_ref().ok();
        let hierarchy = collective == C::AllGather && tuner.is_some_and(Tuner::has_hierarchy);
        let scatter = collective == C::ReduceScatter && tuner.is_some_and(Tuner::scatters_directly);
        let all = [
            (firsts, first),
            (hierarchy, hierarchy::SWITCH),
            (collective == C::AllGather, NOT_GATHERED),
            (scatter, NOT_SCATTERED),
        ];
        all.into_iter().filter(|own| own.0).map(|own| format!(" {}", own.1)).collect()
    }
}

/// Whether elements are 8-bit floats, whose sums long rings round too often.
fn is_fp8(dtype: Option<DataType>) -> bool {
    matches!(dtype, Some(DataType::F8e4m3 | DataType::F8e5m2))
}

/// The tuner at a site.
fn tuner(chip: &'static Chip, site: &Site) -> Result<Tuner> {
    if let Some(protocol) = site.protocol {
        let what = format!("RCCL's choices with {protocol} alone are not known here");
        return Err(Error::unsupported(what).help("leave out --protocol"));
    }
    let nodes = site.nodes.max(1);
    let given = site.fabric.as_ref().and_then(|fabric| fabric.tiers.last()?.nics);
    let nics = given.map(NonZeroU32::get).or(site.hardware.as_ref().map(|own| own.nics));
    let known = Tuner::new(chip, site.ranks, nodes, is_fp8(site.conditions.dtype));
    known.filter(|_| nodes == 1 || nics == Some(8)).ok_or_else(|| {
        let places = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
        let what = format!("RCCL's graphs of {} ranks on {places} are not known here", site.ranks);
        Error::unsupported(what).help(
            "they are for 2, 4 or 8 GPUs of one node, and for 8 with 8 NICs on each of several",
        )
    })
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
    point_to_point::algorithm(C::AllToAll, call.is_tiered()).unwrap_or("pairwise")
}

impl Policy for Rccl {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let bytes = seen(call);
        let first = self.firsts(call).into_iter().find(|own| bytes <= own.most);
        if let Some(first) = first.filter(|own| bytes.is_multiple_of(own.step)) {
            return Ok(first.choice(call));
        }
        if call.ranks <= 1 {
            return Ok(Choice::alone("RCCL copies inside the GPU"));
        }
        if let Some(choice) = point_to_point::choice(call) {
            return Ok(choice);
        }
        let function = Function::of(call.collective).ok_or_else(|| {
            Error::unsupported("RCCL has no barrier")
                .help("programs call an all-reduce of one element")
        })?;
        let tuner = self.tuner.as_ref().map_err(Error::clone)?;
        Ok(match tuner.decide(function, bytes) {
            Decision::Of(algo, proto) => {
                let what = runs((call.ranks, call.nodes), call.collective, (algo, proto));
                let rule = "the least estimate of its cost model, and its limits of protocols";
                let force = vec![format!("NCCL_ALGO={algo}"), format!("NCCL_PROTO={proto}")];
                Choice { force, ..Choice::new(format!("{algo}/{proto}"), rule, what) }
            }
            Decision::Direct => {
                let what = Part::new(C::AllToAll, call.ranks, Where::All, directly(call));
                let (most, switch) = match function {
                    Function::ReduceScatter => (tuner.scattered(), NOT_SCATTERED),
                    _ => (tuner.gathered(), NOT_GATHERED),
                };
                let rule =
                    format!("up to {most} B of all ranks: a send and a receive with every rank");
                let notes = vec![
                    "priced as an all-to-all of the same bytes, which sends the same messages"
                        .into(),
                    format!("{switch} switches it off").into(),
                ];
                Choice { notes, ..Choice::new("Direct", rule, Runs::Parts(vec![what])) }
            }
            Decision::Hierarchy(between, inside) => {
                hierarchy::choice(call, tuner.hierarchical(), between, inside)
            }
        })
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        let algo = match named(algorithm) {
            _ if sends(call.collective) => {
                return Err(Reason::new("RCCL sends and receives, whatever is set"));
            }
            Some(Algo::Ring) => Algo::Ring,
            Some(Algo::Tree) if call.collective == C::AllReduce => Algo::Tree,
            _ => return Err(Reason::new("NCCL_ALGO has no name for it in RCCL")),
        };
        // What goes before the tuner does not read the variable.
        Ok(format!("NCCL_ALGO={algo}{}", self.switches(call.collective)))
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let grain = grain(call);
        let (mut edges, mut first, mut over) = (Vec::new(), u64::MAX, 0);
        // Each from the first number of elements that it takes.
        for own in self.firsts(call) {
            let from = (over / own.step + 1) * own.step;
            first = first.min(from);
            edges.push(Bytes(from));
            over = own.most;
        }
        over = (over / grain + 1) * grain;
        edges.push(Bytes(over));
        let (Some(function), Ok(tuner)) = (Function::of(call.collective), &self.tuner) else {
            return self.choose(call).map(|_| edges);
        };
        let decide = |count: u64| tuner.decide(function, count * grain);
        // The first counts that are seen as so many bytes or more.
        let borders = tuner.borders(function).map(|border| border.div_ceil(grain));
        let mut starts: Vec<u64> = borders.chain([1, LARGEST.0 / grain]).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut changed = Vec::new();
        for span in starts.windows(2) {
            changed.push(Bytes(span[0] * grain));
            let mut found = |count| changed.push(Bytes(count * grain));
            changes(span[0], span[1] - 1, &decide, &mut found);
        }
        edges.extend(changed.into_iter().filter(|edge| edge.0 < first || edge.0 >= over));
        Ok(edges)
    }
}

/// The variables without which few bytes are gathered and scattered directly.
const NOT_GATHERED: &str = "RCCL_DIRECT_ALLGATHER_THRESHOLD=-1";
const NOT_SCATTERED: &str = "RCCL_DIRECT_REDUCE_SCATTER_DISABLE=1";

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
