//! The same measurement in other terms: time, algbw, busbw, and what tools call the size.
//!
//! ```text
//!   busbw = algbw · (N − 1)/N = 120 GB/s · 0.9375 = 112.5 GB/s
//! ```

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::Serialize;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::price::uses;
use crate::machine::fabric::{Fabric, Switch, Tier};
use crate::model::algorithm::Registry;
use crate::model::formula::{At, Shape};
use crate::model::schedule::{Endpoint, Schedule, Sends, every_message, sends_more_than};

/// What a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The time of one call.
    Time,
    /// M over the time.
    Algbw,
    /// algbw times nccl-tests' factor.
    Busbw,
    /// What DeepSpeed's communication log calls algbw.
    DeepSpeed,
    /// algbw of an all-gather in nccl-tests before June 2020, and of a reduce-scatter.
    OldNcclTests,
    /// A size, as one tool counts it.
    Size(Tool),
}

/// A tool that reports sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The column `size` of nccl-tests: M.
    NcclTests,
    /// The count of an NCCL call, and the column `count` of nccl-tests, times the data type.
    Nccl,
    /// The larger tensor of a torch.distributed call.
    Torch,
    /// The count of an MPI call, times the data type.
    Mpi,
    /// OSU's micro-benchmarks.
    Osu,
    /// Intel's MPI benchmarks.
    Imb,
    /// oneCCL's benchmark.
    OneCcl,
    /// The size in MPICH's selection rules.
    Mpich,
    /// The size in Open MPI's tuned rules.
    OpenMpi,
}

/// The names of all kinds; the first of each is the canonical one.
const KINDS: &[(&[&str], Kind)] = &[
    (&["time", "t"], Kind::Time),
    (&["algbw", "algorithm-bandwidth"], Kind::Algbw),
    (&["busbw", "bus-bandwidth"], Kind::Busbw),
    (&["deepspeed"], Kind::DeepSpeed),
    (&["old-nccl-tests"], Kind::OldNcclTests),
    (&["nccl-tests", "size", "total", "m"], Kind::Size(Tool::NcclTests)),
    (&["nccl", "count"], Kind::Size(Tool::Nccl)),
    (&["torch", "pytorch"], Kind::Size(Tool::Torch)),
    (&["mpi"], Kind::Size(Tool::Mpi)),
    (&["osu"], Kind::Size(Tool::Osu)),
    (&["imb"], Kind::Size(Tool::Imb)),
    (&["oneccl"], Kind::Size(Tool::OneCcl)),
    (&["mpich"], Kind::Size(Tool::Mpich)),
    (&["openmpi", "ompi"], Kind::Size(Tool::OpenMpi)),
];

impl Kind {
    /// The name on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        KINDS.iter().find(|(_, k)| *k == self).map_or("", |(names, _)| names[0])
    }

    /// The names of all kinds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(names, _)| names[0])
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = text.to_ascii_lowercase().replace('_', "-");
        let found = KINDS.iter().find(|(names, _)| names.contains(&plain.as_str()));
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let spelled = KINDS.iter().flat_map(|(names, _)| names.iter().copied());
            let known = || format!("known: {}", Kind::names().collect::<Vec<_>>().join(", "));
            Error::input(format!("`{text}` is not a quantity that can be converted"))
                .help(did_you_mean(&plain, spelled, known))
        })
    }
}

/// A number with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A rate.
    Rate(Bandwidth),
    /// A time.
    Time(Seconds),
    /// A size.
    Size(Bytes),
}

/// A conversion request.
#[derive(Debug, Clone, Copy)]
pub struct Conversion {
    /// The operation.
    pub collective: Collective,
    /// N.
    pub ranks: NonZeroU32,
    /// Ranks on a node, if there are several nodes.
    pub per_node: Option<NonZeroU32>,
    /// NICs that the ranks of a node share; absent: each rank has its own.
    pub nics: Option<NonZeroU32>,
    /// The given number.
    pub amount: Amount,
    /// Its kind.
    pub from: Kind,
    /// The requested kind; absent: all.
    pub to: Option<Kind>,
    /// M, if the amount is not the size.
    pub size: Option<Bytes>,
    /// The rate of a port, to compare busbw with.
    pub peak: Option<Bandwidth>,
}

/// The answer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Converted {
    /// `collcost/convert/1`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The kind of the given number.
    pub from: &'static str,
    /// The requested kind.
    pub to: Option<&'static str>,
    /// The requested value in one line, with its derivation.
    pub answer: Option<String>,
    /// M.
    pub size_bytes: Option<f64>,
    /// The time of one call.
    pub time_s: Option<f64>,
    /// M over the time.
    #[serde(rename = "algbw_Bps")]
    pub algbw: Option<f64>,
    /// algbw times the factor.
    #[serde(rename = "busbw_Bps")]
    pub busbw: Option<f64>,
    /// nccl-tests' factor.
    pub busbw_factor: f64,
    /// The rate of a port.
    #[serde(rename = "peak_Bps")]
    pub peak: Option<f64>,
    /// busbw divided by it.
    pub efficiency: Option<f64>,
    /// The size as tools count it.
    pub sizes: Vec<SizeRow>,
    /// The rate as other tools print it.
    pub rates: Vec<RateRow>,
    /// The real traffic, by algorithm.
    pub wire: Vec<WireRow>,
    /// What to know before comparing.
    pub notes: Vec<String>,
}

/// A size as one tool counts it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeRow {
    /// The tool.
    pub tool: &'static str,
    /// What it counts.
    pub counts: &'static str,
    /// The size there.
    pub size_bytes: f64,
    /// How this is known: `source`, `documentation`, `logs`, or `unverified`.
    pub basis: &'static str,
}

/// A rate as one tool prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateRow {
    /// The tool.
    pub tool: &'static str,
    /// What it calls algbw.
    #[serde(rename = "algbw_Bps")]
    pub algbw: f64,
    /// What it calls busbw.
    #[serde(rename = "busbw_Bps")]
    pub busbw: f64,
    /// The difference.
    pub why: &'static str,
    /// How this is known.
    pub basis: &'static str,
}

/// The traffic of an algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WireRow {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The bytes that the busiest rank sends, over M.
    pub sent_share: f64,
    /// The same per second, if the rate is known.
    #[serde(rename = "sent_Bps")]
    pub sent: Option<f64>,
    /// The bytes that the busiest NIC sends, over M, if there are several nodes.
    pub nic_share: Option<f64>,
    /// The same per second.
    #[serde(rename = "nic_Bps")]
    pub nic: Option<f64>,
}

/// Converts.
///
/// # Errors
/// A number of another kind than stated; a size that is needed and not given.
pub fn convert(registry: &Registry, asked: &Conversion) -> Result<Converted> {
    let Conversion { collective, from, to, .. } = *asked;
    let n = asked.ranks.get();
    let factor = collective.busbw_factor(n).0;
    let size = size(asked)?;
    let algbw = algbw(asked, size, factor)?;
    let time = match asked.amount {
        Amount::Time(time) => Some(time.0),
        _ => size.zip(algbw).map(|(size, rate)| size / rate),
    };
    let busbw = algbw.map(|a| a * factor);
    let mut converted = Converted {
        schema: "collcost/convert/1",
        collective,
        ranks: n,
        from: from.id(),
        to: to.map(Kind::id),
        answer: None,
        size_bytes: size,
        time_s: time,
        algbw,
        busbw,
        busbw_factor: factor,
        peak: asked.peak.map(|p| p.0),
        efficiency: busbw.zip(asked.peak).map(|(busbw, peak)| busbw / peak.0),
        sizes: size.map_or(Vec::new(), |m| sizes(collective, n, m)),
        rates: algbw.map_or(Vec::new(), |a| rates(collective, a, factor)),
        wire: wire(registry, asked, algbw),
        notes: notes(asked),
    };
    if let Some(to) = to {
        converted.answer = Some(answer(&converted, asked, to)?);
    }
    Ok(converted)
}

/// M, from the amount or given separately.
fn size(asked: &Conversion) -> Result<Option<f64>> {
    let parts = f64::from(asked.ranks.get());
    match (asked.amount, asked.from) {
        (Amount::Size(bytes), Kind::Size(tool)) => {
            let Some((_, is_block, _)) = counts(tool, asked.collective) else {
                return Err(Error::input(format!(
                    "{} has no size for {}",
                    asked.from.id(),
                    asked.collective.name()
                )));
            };
            Ok(Some(bytes.0 as f64 * if is_block { parts } else { 1.0 }))
        }
        (Amount::Size(bytes), _) => Err(another(asked.from, &bytes.to_string(), "a size")),
        (_, Kind::Size(_)) => Err(another(asked.from, "it", "no size")),
        _ => Ok(asked.size.map(|s| s.0 as f64)),
    }
}

fn another(kind: Kind, text: &str, is: &str) -> Error {
    let help = match kind {
        Kind::Time => "a time is written 5us or 10ms",
        Kind::Size(_) => "a size is written 16MiB or 16MB",
        _ => "a rate is written 120GB/s or 960Gb/s",
    };
    Error::input(format!("{text} is {is}, not {}", kind.id())).help(help)
}

/// M over the time, as far as it is known.
fn algbw(asked: &Conversion, size: Option<f64>, factor: f64) -> Result<Option<f64>> {
    let rate = match (asked.amount, asked.from) {
        (Amount::Size(_), _) => return Ok(None),
        (Amount::Time(time), Kind::Time) if time.0 > 0.0 => {
            return Ok(size.map(|s| s / time.0));
        }
        (Amount::Time(_), Kind::Time) => {
            return Err(Error::input("a time of 0 has no rate").help("write a time such as 5us"));
        }
        (Amount::Time(time), kind) => return Err(another(kind, &time.to_string(), "a time")),
        (Amount::Rate(rate), Kind::Time | Kind::Size(_)) => {
            return Err(another(asked.from, &rate.to_string(), "a rate"));
        }
        (Amount::Rate(rate), _) => rate.0,
    };
    let over = match asked.from {
        Kind::Busbw => factor,
        Kind::DeepSpeed => deepspeed(asked.collective),
        Kind::OldNcclTests => old_nccl_tests(asked.collective, factor),
        _ => 1.0,
    };
    if over == 0.0 {
        return Err(Error::input("one rank sends nothing: its busbw is 0 at any speed")
            .at("-n 1")
            .help("ask for two ranks or more"));
    }
    Ok(Some(rate / over))
}

/// What DeepSpeed's `calc_bw_log` calls throughput, over M/t.
fn deepspeed(collective: Collective) -> f64 {
    if collective == Collective::AllReduce { 2.0 } else { 1.0 }
}

/// What nccl-tests called algbw before June 2020, over M/t.
fn old_nccl_tests(collective: Collective, factor: f64) -> f64 {
    match collective {
        Collective::AllGather | Collective::ReduceScatter => factor,
        _ => 1.0,
    }
}

/// What a tool counts for a collective, whether that is one block of N, and how this is known.
fn counts(tool: Tool, collective: Collective) -> Option<(&'static str, bool, &'static str)> {
    use Collective as C;
    let whole = match collective {
        C::Barrier => return None,
        C::AllReduce | C::Broadcast | C::Reduce | C::SendRecv => Some("the vector"),
        _ => None,
    };
    let in_blocks = match (tool, collective) {
        (_, _) if whole.is_some() => (whole?, false, "source"),
        (Tool::NcclTests, C::AllToAll) => ("one rank's whole buffer", false, "source"),
        (Tool::NcclTests, _) => ("the total over ranks", false, "source"),
        (Tool::Nccl, C::AllToAll) => ("count for one peer x data type", true, "source"),
        (Tool::Nccl, _) => ("count of one rank x data type", true, "source"),
        (Tool::Torch, C::AllGather) => ("the output tensor", false, "source"),
        (Tool::Torch, C::ReduceScatter | C::AllToAll) => ("the input tensor", false, "source"),
        (Tool::Torch, _) => return None,
        (Tool::Mpi, C::AllGather | C::AllToAll) => {
            ("sendcount x data type, one block", true, "unverified")
        }
        (Tool::Mpi, C::ReduceScatter) => ("the whole vector", false, "unverified"),
        (Tool::Mpi, _) => ("one rank's block", true, "unverified"),
        (Tool::Osu, C::ReduceScatter) => ("the whole vector", false, "unverified"),
        (Tool::Osu, _) => ("one block", true, "logs"),
        (Tool::Imb, C::ReduceScatter) => {
            ("one block (before 2019 Update 1: the whole vector)", true, "source")
        }
        (Tool::Imb, C::AllGather | C::AllToAll) => ("one block", true, "logs"),
        (Tool::Imb, _) => ("one block", true, "unverified"),
        (Tool::OneCcl, C::AllGather) => ("one rank's input", true, "logs"),
        (Tool::OneCcl, C::ReduceScatter) => ("the whole vector", false, "logs"),
        (Tool::OneCcl, _) => return None,
        (Tool::Mpich, C::AllGather | C::ReduceScatter) => ("the total over ranks", false, "source"),
        (Tool::Mpich, C::AllToAll) => ("one block", true, "source"),
        (Tool::Mpich, _) => return None,
        (Tool::OpenMpi, C::ReduceScatter) => (
            "the whole vector (reduce_scatter_block: a block; in a rules file: all)",
            false,
            "source",
        ),
        (Tool::OpenMpi, _) => ("one block (a rules file: all)", true, "source"),
    };
    Some(in_blocks)
}

fn sizes(collective: Collective, ranks: u32, total: f64) -> Vec<SizeRow> {
    let tools = KINDS.iter().filter_map(|&(names, kind)| match kind {
        Kind::Size(tool) => Some((names[0], tool)),
        _ => None,
    });
    let row = |(name, tool)| {
        let (counts, is_block, basis) = counts(tool, collective)?;
        let parts = if is_block { f64::from(ranks) } else { 1.0 };
        Some(SizeRow { tool: name, counts, size_bytes: total / parts, basis })
    };
    tools.filter_map(row).collect()
}

fn rates(collective: Collective, algbw: f64, factor: f64) -> Vec<RateRow> {
    use Collective as C;
    let mut rows = vec![RateRow {
        tool: "nccl-tests",
        algbw,
        busbw: algbw * factor,
        why: "M/t, and that times the factor",
        basis: "source",
    }];
    // Only these have a factor there; the others' busbw is their throughput.
    let own = match collective {
        C::AllReduce | C::AllGather | C::ReduceScatter | C::AllToAll => factor,
        _ => 1.0,
    };
    rows.push(RateRow {
        tool: "deepspeed",
        algbw: algbw * deepspeed(collective),
        busbw: algbw * own,
        why: match collective {
            C::AllReduce => "calls 2·M/t algbw; prints Gb/s",
            C::AllGather | C::ReduceScatter => {
                "multiplies the logged message by the world size, not the group's; prints Gb/s"
            }
            _ => "prints Gb/s",
        },
        basis: "source",
    });
    if matches!(collective, C::AllGather | C::ReduceScatter) {
        rows.push(RateRow {
            tool: "old-nccl-tests",
            algbw: algbw * factor,
            busbw: algbw * factor,
            why: "before June 2020 algbw already included (N − 1)/N (NVIDIA/nccl-tests 45)",
            basis: "documentation",
        });
    }
    rows
}

/// Algorithms whose traffic is shown next to busbw.
const SHOWN: &[&str] = &[
    "ring",
    "ring-rails",
    "chain",
    "chain-rails",
    "pairwise",
    "binomial",
    "tree",
    "double-binary-tree",
    "2d-ring",
    "inc",
    "p2p",
];

/// Segments at which a pipeline's traffic is near its limit.
const MANY: u32 = 4096;

fn wire(registry: &Registry, asked: &Conversion, algbw: Option<f64>) -> Vec<WireRow> {
    let fabric = fabric(asked);
    let n = asked.ranks.get();
    let group = asked.per_node.filter(|g| g.get() < n);
    let shape = Shape { group, ..Shape::new(asked.collective, n) };
    let shape = Shape {
        params: crate::model::formula::Params {
            rails: group.map(|g| asked.nics.unwrap_or(g)),
            ..shape.params
        },
        ..shape
    };
    let row = |name: &&str| {
        let algorithm = registry.find(asked.collective, name).ok()?.algorithm;
        algorithm.applies(&shape).ok()?;
        // Over several nodes a switch inside them cannot do it alone.
        if *name == "inc" && group.is_some() {
            return None;
        }
        let at = if algorithm.is_pipelined() { shape.with_segments(MANY) } else { shape };
        let sent = algorithm.sent(&At::numbers(shape));
        let nic = group.and_then(|group| {
            if asked.collective == Collective::AllToAll {
                return Some(leaving(n, group.get(), asked.nics));
            }
            let counted = algorithm.schedule(&shape).and_then(|schedule| {
                busiest_nic(&*schedule, group.get(), asked.nics.unwrap_or(group).get())
            });
            // Of too many messages, what the steps take one after another.
            counted.or_else(|| {
                let used = uses(algorithm, &at, &fabric).ok()?;
                used.iter().skip(1).map(|u| u.share.0).reduce(f64::max)
            })
        });
        Some(WireRow {
            algorithm: algorithm.meta().id,
            sent_share: sent,
            sent: algbw.map(|a| a * sent),
            nic_share: nic,
            nic: algbw.zip(nic).map(|(a, share)| a * share),
        })
    };
    // A name may be an alias of one that is shown already.
    let mut rows: Vec<WireRow> = Vec::new();
    for row in SHOWN.iter().filter_map(row) {
        if rows.iter().all(|r| r.algorithm != row.algorithm) {
            rows.push(row);
        }
    }
    rows
}

/// What a NIC carries of an all-to-all: every rank sends (N − G)/N of its buffer out of the node.
///
/// Steps that use few NICs and steps that use all even out over the whole call.
fn leaving(ranks: u32, per_node: u32, nics: Option<NonZeroU32>) -> f64 {
    let (n, g) = (f64::from(ranks), f64::from(per_node));
    g * (n - g) / n / nics.map_or(g, |k| f64::from(k.get()))
}

/// The most messages that are counted.
const COUNTED: u64 = 1 << 20;

/// What the busiest NIC of any node sends, over M: each rank drives the NICs beside it. None if there are too many
/// messages to count.
fn busiest_nic(schedule: &dyn Schedule, per_node: u32, nics: u32) -> Option<f64> {
    if sends_more_than(schedule, COUNTED) {
        return None;
    }
    let frame = schedule.frame();
    let (mut sent, mut sends): (HashMap<(u32, u32), u64>, _) = (HashMap::new(), Sends::default());
    let nic_of = |rank: u32| {
        let local = u64::from(rank % per_node) * u64::from(nics) / u64::from(per_node);
        (rank / per_node, local as u32)
    };
    for round in 0..frame.rounds {
        every_message(schedule, round, &mut sends, |from, message| {
            let (Endpoint::Rank(from), Endpoint::Rank(to)) = (from, message.to) else { return };
            if from / per_node != to / per_node {
                let chunks: usize = message.runs.iter().map(|run| run.chunks().len()).sum();
                *sent.entry(nic_of(from)).or_default() += chunks as u64;
            }
        });
    }
    let own = f64::from((nics / per_node).max(1));
    let most = sent.into_values().max().unwrap_or(0);
    Some(most as f64 / f64::from(frame.parts.max(1)) / own)
}

/// Links of rate 1: only the shares matter.
fn fabric(asked: &Conversion) -> Fabric {
    let mut inside = Tier::new("inside", Seconds(0.0), Bandwidth(1.0));
    inside.switch = Some(Switch { alpha: None, bandwidth: None, multicast: true, alu: true });
    let Some(span) = asked.per_node.filter(|g| *g < asked.ranks) else {
        return Fabric::new(vec![inside]);
    };
    inside.span = Some(span);
    let mut between = Tier::new("between", Seconds(0.0), Bandwidth(1.0));
    between.nics = asked.nics;
    Fabric::new(vec![inside, between])
}

fn notes(asked: &Conversion) -> Vec<String> {
    let mut notes = Vec::new();
    let collective = asked.collective;
    if collective == Collective::AllReduce {
        notes.push(
            "with in-switch reduction (NVLS, SHARP) busbw is not wire traffic and may exceed the \
             link: a GPU moves (n + 1)/n·M each way"
                .to_owned(),
        );
    }
    if matches!(collective, Collective::AllGather | Collective::ReduceScatter)
        && asked.from == Kind::DeepSpeed
    {
        notes.push(
            "right only if the logged message was a shard and the group was the world".to_owned(),
        );
    }
    notes
}

fn answer(c: &Converted, asked: &Conversion, to: Kind) -> Result<String> {
    let needs_size = || {
        Error::input(format!("{} needs a size", to.id()))
            .at(format!("convert … {} {}", asked.from.id(), to.id()))
            .help("add --size, such as --size 1GiB")
    };
    let needs_rate = || {
        Error::input(format!("{} needs a time or a rate", to.id()))
            .at(format!("convert … {} {}", asked.from.id(), to.id()))
            .help("convert 120GB/s algbw busbw, or 5ms time busbw --size 1GiB")
    };
    let missing = || if c.size_bytes.is_none() { needs_size() } else { needs_rate() };
    let factor = super::explain::busbw_formula(asked.collective);
    let rate = |r: f64| Bandwidth(r).to_string();
    match to {
        Kind::Time => {
            let (time, size) =
                (c.time_s.ok_or_else(missing)?, c.size_bytes.ok_or_else(needs_size)?);
            let algbw = c.algbw.ok_or_else(needs_rate)?;
            Ok(format!("time = M/algbw = {} / {} = {}", Volume(size), rate(algbw), Seconds(time)))
        }
        Kind::Algbw => {
            let algbw = c.algbw.ok_or_else(missing)?;
            Ok(match asked.from {
                Kind::Busbw => format!(
                    "algbw = busbw / ({factor}) = {} / {} = {}",
                    rate(c.busbw.unwrap_or(0.0)),
                    c.busbw_factor,
                    rate(algbw)
                ),
                Kind::DeepSpeed | Kind::OldNcclTests => {
                    format!("algbw = M/t = {}, as nccl-tests prints it", rate(algbw))
                }
                _ => format!("algbw = M/t = {}", rate(algbw)),
            })
        }
        Kind::Busbw => {
            let (algbw, busbw) = (c.algbw.ok_or_else(missing)?, c.busbw.ok_or_else(missing)?);
            Ok(format!(
                "busbw = algbw · {factor} = {} · {} = {}",
                rate(algbw),
                c.busbw_factor,
                rate(busbw)
            ))
        }
        Kind::DeepSpeed | Kind::OldNcclTests => {
            let row = c.rates.iter().find(|r| r.tool == to.id());
            let row = row.ok_or_else(|| match c.algbw {
                None => missing(),
                Some(_) => Error::input(format!("{} prints no other rate for it", to.id())),
            })?;
            let bits = row.algbw * 8.0 / 1e9;
            Ok(format!(
                "{} prints algbw {} = {bits:.1} Gb/s: {}",
                row.tool,
                rate(row.algbw),
                row.why
            ))
        }
        Kind::Size(_) => {
            let row = c.sizes.iter().find(|r| r.tool == to.id());
            let row = row.ok_or_else(|| match c.size_bytes {
                None => needs_size(),
                Some(_) => {
                    Error::input(format!("{} has no size for {}", to.id(), asked.collective.name()))
                }
            })?;
            let exact = if row.size_bytes.fract() == 0.0 {
                format!(" = {} bytes", row.size_bytes)
            } else {
                String::new()
            };
            Ok(format!("{} counts {}: {}{exact}", row.tool, row.counts, Volume(row.size_bytes)))
        }
    }
}
