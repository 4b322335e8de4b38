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

use std::num::NonZeroU32;

use super::{Call, Choice, Entry, Made, Meta, Part, Policy, Runs, Site, Where};
use crate::base::collective::Collective as C;
use crate::base::dtype::DataType;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::point_to_point::{self, sends};
use crate::library::nccl::policy::{self, LARGEST, named, runs, wire};
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
        title: "RCCL 2.28.3's tuner for MI300X to MI355X, as of January 2026",
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
        title: "RCCL 2.27.7's tuner as of January 2026, with MSCCL inside a node",
        counts: COUNTS,
        source: "ROCm/rccl at 239d62f5, src/graph/tuning.cc, src/rccl_wrap.cc, tools/msccl-algorithms",
        make: |meta, site| Rccl::of(meta, site, true),
    },
};

const COUNTS: &str = "the vector, or all ranks' blocks; for protocols, a rank's part of them";

struct Rccl {
    meta: Meta,
    /// Or why the tuner's choices are not known.
    tuner: Result<Tuner>,
    /// Whether schedules of MSCCL run first.
    msccl: bool,
    dtype: Option<DataType>,
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
        let alone = site.nodes <= 1;
        let msccl = scheduled && alone && site.ranks == 8 && site.protocol.is_none();
        let dtype = site.conditions.dtype;
        Ok(Box::new(Self { meta, tuner: tuner(chip, site), msccl, dtype }))
    }

    /// The schedules of MSCCL that may run a call, by its size, from the smallest.
    fn schedules(&self, call: &Call) -> impl Iterator<Item = Scheduled> {
        let limit = match (call.collective, self.dtype) {
            _ if !self.msccl => 0,
            (C::AllReduce, _) if !call.builtin_op => 0,
            (C::AllReduce, dtype) if is_fp8(dtype) => 0,
            (C::AllReduce, Some(DataType::Bf16)) => 8 << 20,
            (C::AllToAll, _) if call.in_place => 0,
            _ => u64::MAX,
        };
        let all: &[Scheduled] = match call.collective {
            C::AllReduce => &ALL_REDUCE,
            C::AllToAll => &ALL_TO_ALL,
            _ => &[],
        };
        let within = move |own: &Scheduled| Scheduled { most: own.most.min(limit), ..*own };
        all.iter().map(within).take_while(|own| own.most > 0)
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

/// The schedules of MSCCL for eight GPUs.
const ALL_REDUCE: [Scheduled; 3] = [
    Scheduled { most: 65_536, proto: Proto::Ll, multiple: 256 },
    Scheduled { most: 524_287, proto: Proto::Ll, multiple: 512 },
    Scheduled { most: 20_971_520, proto: Proto::Simple, multiple: 512 },
];
const ALL_TO_ALL: [Scheduled; 5] = [
    Scheduled { most: 9_216, proto: Proto::Ll, multiple: 8 },
    Scheduled { most: 194_560, proto: Proto::Ll, multiple: 16 },
    Scheduled { most: 524_288, proto: Proto::Ll, multiple: 32 },
    Scheduled { most: 7_340_032, proto: Proto::Simple, multiple: 32 },
    Scheduled { most: 45_088_768, proto: Proto::Simple, multiple: 64 },
];

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

/// A schedule of MSCCL.
#[derive(Clone, Copy)]
struct Scheduled {
    /// The largest size.
    most: u64,
    proto: Proto,
    /// What the number of elements has to be a multiple of.
    multiple: u64,
}

impl Scheduled {
    /// The bytes of the least number of elements that it takes: it takes multiples of that.
    fn step(self, call: &Call) -> u64 {
        self.multiple * call.element.0.max(1)
    }

    fn choice(self, call: &Call) -> Choice {
        let runs = match call.collective {
            C::AllReduce => "two-shot",
            _ => directly(call),
        };
        let mut part = Part::new(call.collective, call.ranks, Where::All, runs);
        part.wire = wire(self.proto);
        let rule = format!("up to {} B: a schedule of MSCCL for 8 GPUs", self.most);
        let others = match call.collective {
            C::AllReduce => "averages, 8-bit floats and bfloat16 above 8 MiB",
            _ => "calls in place",
        };
        let note = format!(
            "numbers of elements that are no multiple of {}, {others} run as in 2.28; {NO_SCHEDULE} switches it off",
            self.multiple
        );
        let notes = vec![note.into()];
        Choice {
            notes,
            ..Choice::new(format!("MSCCL/{}", self.proto), rule, Runs::Parts(vec![part]))
        }
    }
}

impl Policy for Rccl {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let bytes = seen(call);
        let schedule = self.schedules(call).find(|schedule| bytes <= schedule.most);
        if let Some(schedule) = schedule.filter(|own| bytes.is_multiple_of(own.step(call))) {
            return Ok(schedule.choice(call));
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
                let most = tuner.direct();
                let rule =
                    format!("up to {most} B of all ranks: a send and a receive with every rank");
                let notes = vec![
                    "priced as an all-to-all of the same bytes, which sends the same messages"
                        .into(),
                    format!("{NOT_DIRECT} switches it off").into(),
                ];
                Choice { notes, ..Choice::new("Direct", rule, Runs::Parts(vec![what])) }
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
        let before = match call.collective {
            C::AllGather => format!(" {NOT_DIRECT}"),
            C::AllReduce if self.msccl => format!(" {NO_SCHEDULE}"),
            _ => String::new(),
        };
        Ok(format!("NCCL_ALGO={algo}{before}"))
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let grain = grain(call);
        let (mut edges, mut first, mut over) = (Vec::new(), u64::MAX, 0);
        // Each from the first number of elements that it takes.
        for schedule in self.schedules(call) {
            let step = schedule.step(call);
            let from = (over / step + 1) * step;
            first = first.min(from);
            edges.push(Bytes(from));
            over = schedule.most;
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

/// The variables without which few bytes are gathered directly, and schedules of MSCCL run.
const NOT_DIRECT: &str = "RCCL_DIRECT_ALLGATHER_THRESHOLD=-1";
const NO_SCHEDULE: &str = "RCCL_MSCCL_ENABLE=0";

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
