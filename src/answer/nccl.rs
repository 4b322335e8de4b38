//! NCCL's choice over a range of sizes, and for one size the reason.

mod windows;

use serde::Serialize;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::cost_model::Windows;
use crate::library::nccl::{
    Algo, Call, Chooser, Communicator, Decision, Function, Out, Proto, Range, Reduction, Settings,
    Table, Version, logged_channels, ranges, since, why_not,
};

/// A question to NCCL's tuner.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The communicator's name in the report.
    pub name: String,
    /// The communicator.
    pub comm: &'a Communicator,
    /// The version.
    pub nccl: Version,
    /// The environment.
    pub settings: &'a Settings,
    /// The function.
    pub function: Function,
    /// Data type and operation.
    pub reduction: Reduction,
    /// The smallest and the largest size; both are equal for one size.
    pub sizes: (Bytes, Bytes),
    /// Whether both buffers are in symmetric windows.
    pub windows: Windows,
    /// Notes on the origin of the communicator.
    pub notes: Vec<String>,
}

/// NCCL's choices over a range of sizes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choose {
    /// `collcost/nccl-choose/1`.
    pub schema: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// The communicator's name.
    pub communicator: String,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// The version whose rules are used.
    pub nccl: &'static str,
    /// The choices, by size.
    pub ranges: Vec<RangeView>,
    /// For one size: every cell that the version has, the fastest first, then the disabled ones.
    pub cells: Vec<CellView>,
    /// The rule that decided, for one size.
    pub rule: Option<String>,
    /// What to know before trusting it.
    pub notes: Vec<String>,
}

/// Sizes with one algorithm and protocol.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RangeView {
    /// The smallest size; for all-gather and reduce-scatter the total over ranks.
    pub from_bytes: u64,
    /// The largest size.
    pub to_bytes: u64,
    /// The symmetric kernel, or the copy-engine path; absent if an algorithm is used.
    pub kernel: Option<&'static str>,
    /// The algorithm; absent if NCCL returns an error, and if a kernel is used.
    pub algorithm: Option<&'static str>,
    /// The protocol.
    pub protocol: Option<&'static str>,
    /// The maximum number of channels, at the smallest size.
    pub channels_from: Option<u32>,
    /// The same at the largest size.
    pub channels_to: Option<u32>,
    /// The channels that a call really uses when it runs alone, as the log prints them, at the
    /// smallest size.
    pub logged_channels_from: Option<u32>,
    /// The same at the largest size.
    pub logged_channels_to: Option<u32>,
    /// Threads per block at the largest size.
    pub threads: Option<u32>,
    /// The same at the smallest size.
    pub threads_from: Option<u32>,
    /// NCCL's own estimate at the smallest size.
    pub time_from_s: Option<f64>,
    /// The same at the largest size.
    pub time_to_s: Option<f64>,
    /// The second fastest, in the middle of the range, as `Ring/LL`.
    pub second: Option<String>,
    /// How much longer that would take there, as a fraction.
    pub margin: Option<f64>,
}

/// One algorithm and protocol at one size.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellView {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// Its latency in the table.
    pub latency_s: f64,
    /// Its bandwidth in the table: the largest buffer over time.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: f64,
    /// The fraction of that bandwidth that it reaches at this size.
    pub factor: f64,
    /// NCCL's own estimate; absent if the cell is disabled.
    pub time_s: Option<f64>,
    /// Why it is disabled.
    pub out: Option<String>,
}

/// Microseconds to seconds, from the digits that NCCL prints.
pub(super) fn seconds(micros: f32) -> f64 {
    // The decimal number that people read, not the nearest binary float32.
    let text = crate::library::nccl::float(micros);
    text.parse::<f64>().map_or(f64::from(micros), |us| us / 1e6)
}

/// NCCL's choices.
///
/// # Errors
/// Settings that this version refuses; sizes in the wrong order.
pub fn choose(question: &Question) -> Result<Choose> {
    let Question { comm, nccl, settings, function, sizes: (from, to), .. } = *question;
    if from > to || from.0 == 0 {
        return Err(Error::input(format!("there are no sizes between {from} and {to}"))
            .help("give the smaller size first, above 0"));
    }
    let version = nccl;
    question.reduction.check(version, function, comm.min_cc)?;
    let table = Table::new(comm, version, settings)?;
    let chooser = Chooser::new(comm, version, &table, question.reduction);
    let scope = Scope { comm, version, chooser: &chooser, function };
    let found = ranges(&chooser, function, from, to);
    let one = from == to;
    let mut notes = question.notes.clone();
    notes.extend(version.caveat().map(str::to_owned));
    notes.extend(chooser.caveat().map(str::to_owned));
    notes.extend(warnings(question, &found));
    let on_windows = match question.windows {
        Windows::None => None,
        Windows::Both => Some(windows::OnWindows::of(question, &chooser)?),
    };
    notes.extend(on_windows.iter().flat_map(windows::OnWindows::notes));
    Ok(Choose {
        schema: "collcost/nccl-choose/1",
        collective: function.collective(),
        communicator: question.name.clone(),
        ranks: comm.ranks,
        nodes: comm.nodes,
        nccl: version.id(),
        ranges: match &on_windows {
            Some(on_windows) => on_windows.ranges(from, to),
            None => found.iter().map(|r| scope.range(r)).collect(),
        },
        cells: if one { scope.cells(&table, settings, from) } else { Vec::new() },
        rule: one.then(|| match &on_windows {
            Some(on_windows) => on_windows.rule(from),
            None => scope.rule(from),
        }),
        notes,
    })
}

/// What a reader should know about these choices.
fn warnings(question: &Question, found: &[Range]) -> Vec<String> {
    let mut notes = Vec::new();
    if found.iter().any(|r| r.first.is_none()) {
        notes.push(format!(
            "NCCL returns an error here: no algorithm and protocol is left for {}",
            question.function
        ));
    }
    let shuns = question.reduction.shuns_rings(question.function, question.comm.ranks);
    if shuns && found.iter().any(|r| r.first.is_some_and(|d| d.algo == Algo::Ring)) {
        notes.push(
            "to avoid rings of 8-bit floats over more than 8 ranks NCCL multiplies their time by 1024: \
             no call takes so long"
                .to_owned(),
        );
    }
    if question.function.gathers() {
        notes.push("sizes are the total over ranks; NCCL's log prints one rank's part".to_owned());
    }
    notes
}

struct Scope<'a> {
    comm: &'a Communicator,
    version: Version,
    chooser: &'a Chooser,
    function: Function,
}

impl Scope<'_> {
    fn call(&self, size: Bytes) -> Call {
        Call { function: self.function, size, pipelined: 1 }
    }

    fn range(&self, range: &Range) -> RangeView {
        let logged = |size: Bytes, decision: Option<Decision>| {
            decision.map(|d| logged_channels(self.comm, self.version, &self.call(size), &d))
        };
        let time = |d: Option<Decision>| d.and_then(|d| d.time).map(|t| seconds(t.0));
        let middle = (range.from.0 as f64 * range.to.0 as f64).sqrt() as u64;
        let middle = Bytes(middle.clamp(range.from.0, range.to.0));
        let ranked = self.chooser.ranked(&self.call(middle));
        let second = ranked.first().zip(ranked.get(1));
        RangeView {
            from_bytes: range.from.0,
            to_bytes: range.to.0,
            kernel: None,
            algorithm: range.first.map(|d| d.algo.name()),
            protocol: range.first.map(|d| d.proto.name()),
            channels_from: range.first.map(|d| d.channels),
            channels_to: range.last.map(|d| d.channels),
            logged_channels_from: logged(range.from, range.first),
            logged_channels_to: logged(range.to, range.last),
            threads: range.last.map(|d| d.threads),
            threads_from: range.first.map(|d| d.threads),
            time_from_s: time(range.first),
            time_to_s: time(range.last),
            second: second.map(|(_, s)| format!("{}/{}", s.0, s.1)),
            margin: second.map(|(first, second)| f64::from(second.2.0 / first.2.0) - 1.0),
        }
    }

    fn cells(&self, table: &Table, settings: &Settings, size: Bytes) -> Vec<CellView> {
        let ranked = self.chooser.ranked(&self.call(size));
        let view = |algo: Algo, proto: Proto, time: Option<f32>, out: Option<String>| CellView {
            algorithm: algo.name(),
            protocol: proto.name(),
            latency_s: seconds(table.latency(self.function, algo, proto).0),
            bandwidth: f64::from(table.bandwidth(self.function, algo, proto).0) * 1e9,
            factor: self.chooser.factor(algo, proto, size).0,
            time_s: time.map(seconds),
            out,
        };
        let runs = ranked.iter().map(|r| view(r.0, r.1, Some(r.2.0), None));
        let all = Table::cells(self.version).filter(|c| c.0 == self.function);
        let out = all.filter_map(|cell| {
            let why = why_not(self.comm, self.version, settings, self.chooser, cell)?;
            if why == Out::NoCode {
                return None;
            }
            Some(view(cell.1, cell.2, None, Some(why.to_string())))
        });
        runs.chain(out).collect()
    }

    /// The rule that decided, in a sentence.
    fn rule(&self, size: Bytes) -> String {
        if self.comm.ranks == 1 {
            return "a single rank gets Ring/Simple; the table is not consulted".to_owned();
        }
        let ranked = self.chooser.ranked(&self.call(size));
        let Some(first) = ranked.first() else {
            return match self.chooser.decide(&self.call(size)) {
                Some(d) => format!(
                    "the rules leave no algorithm, so {} falls back to the rings it keeps for \
                     that: {}/{}",
                    self.version, d.algo, d.proto
                ),
                None => "no algorithm is left: NCCL returns an error".to_owned(),
            };
        };
        let Some(second) = ranked.get(1) else {
            return format!("{}/{} is the only cell that is left", first.0, first.1);
        };
        let tie = if first.2 == second.2 { ", a tie that the table's order breaks" } else { "" };
        format!(
            "the least latency + size / bandwidth of {} cells: {}/{} {:.1} µs, then {}/{} {:.1} \
             µs{tie}",
            ranked.len(),
            first.0,
            first.1,
            first.2.0,
            second.0,
            second.1,
            second.2.0
        )
    }
}

/// The settings that force what runs at the question's smallest size, and their traps.
///
/// The tuner itself verifies their effect: on the choice at other sizes, and on the other functions
/// of the same job.
///
/// # Errors
/// Settings that this version refuses; a question with nothing to force.
pub fn emit_env(question: &Question) -> Result<String> {
    let Question { comm, nccl, settings, function, sizes: (size, _), reduction, .. } = *question;
    let version = nccl;
    reduction.check(version, function, comm.min_cc)?;
    let table = Table::new(comm, version, settings)?;
    let chooser = Chooser::new(comm, version, &table, reduction);
    let call = Call { function, size, pipelined: 1 };
    let Some(decision) = chooser.decide(&call) else {
        return Err(Error::unsupported(format!(
            "NCCL {version} has no algorithm for {function} here"
        ))
        .help("leave out --env"));
    };
    let Decision { algo, proto, .. } = decision;
    // Since 2.24 a list can apply to one function.
    let scope = if version.has(since::LISTS_BY_COLLECTIVE) {
        format!("{}:", function.name().to_lowercase())
    } else {
        String::new()
    };
    let (algos, protos) =
        (format!("{scope}{}", algo.name().to_lowercase()), format!("{scope}{proto}"));
    let mut forced = settings.clone();
    forced.set("NCCL_ALGO", &algos)?;
    forced.set("NCCL_PROTO", &protos)?;
    let mut lines = vec![
        format!("# {function} of {size} on {}: NCCL {version} uses {algo}/{proto}", question.name),
        format!("export NCCL_ALGO={algos}"),
        format!("export NCCL_PROTO={protos}"),
    ];
    let table = Table::new(comm, version, &forced)?;
    let forced = Chooser::new(comm, version, &table, reduction);
    let (from, to) = (Bytes(8), Bytes(8 << 30));
    let taken = ranges(&forced, function, from, to);
    let held = taken.iter().all(|r| r.first.map(|d| (d.algo, d.proto)) == Some((algo, proto)));
    lines.push(match held {
        true => format!("# checked: {function} uses it at every size from {from} to {to}"),
        false => format!("# checked: {function} does not use it at every size"),
    });
    for other in Function::ALL.into_iter().filter(|&f| f != function) {
        let before = ranges(&chooser, other, from, to);
        let after = ranges(&forced, other, from, to);
        if after.iter().any(|r| r.first.is_none()) {
            lines.push(format!(
                "# trap: {other} then fails in this job: no algorithm is left for it"
            ));
        } else if before != after {
            let why = match scope.is_empty() {
                true => "the lists apply to all collectives",
                false => "these lists replace the ones that were set",
            };
            lines.push(format!("# trap: {other} changes too: {why}"));
        }
    }
    if version.has(since::LISTS_BY_COLLECTIVE) {
        lines.push("# lists after `collective:` need NCCL 2.24 or newer".to_owned());
    }
    if proto == Proto::Ll128 {
        lines.push(
            "# trap: naming LL128 forces it on, even on paths where NCCL distrusts it".to_owned(),
        );
    }
    lines.push(
        "# trap: `^X` in NCCL_PROTO means all but X, and forces LL128 on as naming it does"
            .to_owned(),
    );
    lines.push(String::new());
    Ok(lines.join("\n"))
}
