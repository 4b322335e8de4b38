//! Choices of a log compared with those of the tuner, or with what a printed table allows.

use std::collections::HashMap;

use super::basis::{Basis, Computed};
use super::{ChoiceView, pair};
use crate::base::order::rising;
use crate::base::quantity::Bytes;
use crate::library::nccl::log::{Choice, Detail, Log, Table};
use crate::library::nccl::{
    Algo, Bounds, Call, Decision, Function, Micros, Proto, logged_channels,
};

/// 2.21.5 prints this time if it falls back to the ring because nothing else is left.
const FOR_WANT: f32 = 3.6e9;

/// Every choice; identical ones are merged.
pub(super) fn choices(log: &Log, table: Option<&Table>, basis: &Basis) -> Vec<ChoiceView> {
    let mut groups: Vec<(&Choice, u64)> = Vec::new();
    let mut places = HashMap::new();
    for choice in log.choices_of(table) {
        let place = *places.entry(choice.key()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, lines)) => *lines += 1,
            None => groups.push((choice, 1)),
        }
    }
    let plugin = log.plugin.as_deref();
    groups.into_iter().map(|(choice, lines)| view((choice, lines), basis, plugin)).collect()
}

/// Of cases that are otherwise equally likely, those that fit the log's choices best.
pub(super) fn nearest(log: &Log, table: Option<&Table>, cases: Vec<Computed>) -> Vec<Computed> {
    if cases.len() < 2 {
        return cases;
    }
    let choices: Vec<&Choice> = log.choices_of(table).collect();
    let faults = |case: &Computed| {
        let differs = |choice: &&&Choice| {
            let ranks = if choice.is_per_rank() { u64::from(case.comm.ranks) } else { 1 };
            let size = Bytes(choice.bytes.0.saturating_mul(ranks));
            against_tuner(choice, size, case).verdict == "differs"
        };
        choices.iter().filter(differs).count()
    };
    let counted: Vec<(usize, Computed)> = cases.into_iter().map(|c| (faults(&c), c)).collect();
    let least = counted.iter().map(|(faults, _)| *faults).min();
    counted.into_iter().filter(|(f, _)| Some(*f) == least).map(|(_, case)| case).collect()
}

/// The result of a comparison.
struct Verdict {
    verdict: &'static str,
    functions: Vec<Function>,
    computed: Vec<String>,
    why: Option<String>,
}

impl Verdict {
    fn new(verdict: &'static str, functions: Vec<Function>, computed: Vec<String>) -> Self {
        Self { verdict, functions, computed, why: None }
    }

    fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }
}

fn view((choice, lines): (&Choice, u64), basis: &Basis, plugin: Option<&str>) -> ChoiceView {
    let ranks = basis.behind.ranks;
    let size = match (choice.is_per_rank(), ranks) {
        (true, Some(ranks)) => choice.bytes.0.checked_mul(ranks.into()),
        (true, None) => None,
        (false, _) => Some(choice.bytes.0),
    };
    let found = match (basis.computed.first(), &basis.bounds, size) {
        (Some(computed), _, Some(size)) => against_tuner(choice, Bytes(size), computed),
        (None, Some(bounds), Some(size)) => against_table(choice, Bytes(size), bounds, basis),
        (None, None, _) => unchecked(choice).because("there is nothing to compare it with"),
        (_, _, None) => unchecked(choice).because("ranks are needed: give --ranks"),
    };
    // A plugin changes the tuner's times before the least of them is chosen (`topoGetAlgoInfo` in enqueue.cc).
    let found = match plugin.filter(|_| found.verdict == "differs") {
        Some(plugin) => {
            let why = format!("the tuner's plugin {plugin} may have chosen it");
            Verdict { verdict: "unchecked", ..found }.because(why)
        }
        None => found,
    };
    let time = match choice.detail {
        Detail::Time(Micros(time)) if time != FOR_WANT => Some(f64::from(time)),
        _ => None,
    };
    let channels = match choice.detail {
        Detail::Channels(first, last) => Some((first, last)),
        Detail::Time(_) => None,
    };
    let algbw = time.zip(size).filter(|(t, _)| *t > 0.0).map(|(t, size)| size as f64 / (t * 1e-6));
    let of = |function: &Function| ranks.map(|ranks| function.collective().busbw_factor(ranks).0);
    let factor = match found.functions.as_slice() {
        [one, rest @ ..] => of(one).filter(|_| rest.iter().all(|other| of(other) == of(one))),
        [] => None,
    };
    ChoiceView {
        line: choice.line,
        lines,
        functions: found.functions.iter().map(|f| f.name()).collect(),
        logged_bytes: choice.bytes.0,
        counts: if choice.is_per_rank() { "rank-buffer" } else { "largest-buffer" },
        size_bytes: size,
        algorithm: choice.algo.name(),
        protocol: choice.proto.name(),
        time_us: time,
        algbw,
        busbw: algbw.zip(factor).map(|(algbw, factor)| algbw * factor),
        first_channel: channels.map(|(first, _)| first),
        last_channel: channels.map(|(_, last)| last),
        verdict: found.verdict,
        computed: found.computed,
        why: found.why,
    }
}

fn unchecked(choice: &Choice) -> Verdict {
    Verdict::new("unchecked", choice.function.into_iter().collect(), Vec::new())
}

/// The functions that a line may be of.
fn functions(choice: &Choice) -> Vec<Function> {
    choice.function.map_or(Function::ALL.to_vec(), |function| vec![function])
}

fn shown(decision: Option<Decision>) -> Vec<String> {
    decision.map(|d| pair(d.algo, d.proto)).into_iter().collect()
}

/// Exactly: algorithm, protocol, and the time or the channels.
fn against_tuner(choice: &Choice, size: Bytes, computed: &Computed) -> Verdict {
    let taken = (choice.algo, choice.proto);
    let mut equal = Vec::new();
    let mut nearly: Vec<(Function, Decision)> = Vec::new();
    let mut other = None;
    let mut types = None;
    for function in functions(choice) {
        let call = Call { function, size, pipelined: 1 };
        for (chooser, name) in &computed.choosers {
            let Some(decision) = chooser.decide(&call) else { continue };
            let first = *name == computed.choosers[0].1;
            if (decision.algo, decision.proto) != taken {
                if first {
                    other = other.or(Some(decision));
                }
                continue;
            }
            if same_detail(choice, function, &decision, computed) {
                equal.push(function);
                types = if first { None } else { Some(*name) };
            } else {
                nearly.push((function, decision));
            }
            break;
        }
    }
    if !equal.is_empty() {
        let verdict = Verdict::new("agrees", equal, vec![pair(taken.0, taken.1)]);
        return match types {
            Some(types) => {
                verdict.because(format!("as for {types}; the log does not give the type"))
            }
            None => verdict,
        };
    }
    let known: Vec<Function> = choice.function.into_iter().collect();
    // If the log does not name the function, the one whose time is nearest.
    let far = |decision: &Decision| match (choice.detail, decision.time) {
        (Detail::Time(Micros(logged)), Some(Micros(time))) => (logged - time).abs(),
        _ => 0.0,
    };
    rising(&mut nearly, |(_, decision)| far(decision).into());
    match (nearly.first(), other) {
        (Some((function, decision)), _) => {
            let functions = if known.is_empty() { Vec::new() } else { known };
            let why = otherwise(choice, *function, decision, computed);
            Verdict::new("differs", functions, shown(Some(*decision))).because(why)
        }
        (None, Some(decision)) if choice.function.is_some() => {
            let why = times(choice, size, computed);
            Verdict::new("differs", known, shown(Some(decision))).because(why)
        }
        (None, Some(_)) => {
            let why = "no function of this communicator uses it at this size";
            Verdict::new("differs", known, Vec::new()).because(why)
        }
        (None, None) => {
            let why = "no algorithm is available for it: NCCL would refuse the call";
            Verdict::new("differs", known, Vec::new()).because(why)
        }
    }
}

/// Whether time or channels are as computed.
fn same_detail(
    choice: &Choice,
    function: Function,
    decision: &Decision,
    computed: &Computed,
) -> bool {
    match choice.detail {
        Detail::Time(Micros(time)) => {
            let six = |time: f32| format!("{:.6}", f64::from(time));
            time == FOR_WANT || decision.time.is_none_or(|Micros(t)| six(t) == six(time))
        }
        // A call of a group continues where the one before it ended.
        Detail::Channels(first, _) if first > 0 => true,
        Detail::Channels(_, last) => {
            last_channel(choice, function, decision, computed).is_none_or(|l| l == last)
        }
    }
}

/// The last channel of a call, by the tuner and the scheduler after it; `None` if the network
/// reduces, which is scheduled differently.
fn last_channel(
    choice: &Choice,
    function: Function,
    decision: &Decision,
    computed: &Computed,
) -> Option<u32> {
    let Computed { comm, version, .. } = computed;
    let ranks = if choice.is_per_rank() { u64::from(comm.ranks) } else { 1 };
    let size = Bytes(choice.bytes.0.saturating_mul(ranks));
    let call = Call { function, size, pipelined: 1 };
    let used = logged_channels(comm, *version, &call, decision);
    (!decision.algo.is_collnet()).then(|| used.saturating_sub(1))
}

/// The difference, if algorithm and protocol are the same.
fn otherwise(
    choice: &Choice,
    function: Function,
    decision: &Decision,
    computed: &Computed,
) -> String {
    match choice.detail {
        Detail::Time(Micros(time)) => format!(
            "the same for {}, but in {:.6} µs, not {time:.6}",
            function.name(),
            decision.time.unwrap_or_default().0
        ),
        Detail::Channels(first, last) => {
            let used = last_channel(choice, function, decision, computed).unwrap_or(last);
            format!("the same, but on channels 0 to {used}, not {first} to {last}")
        }
    }
}

/// The cost of both, by the tuner.
fn times(choice: &Choice, size: Bytes, computed: &Computed) -> String {
    let Some(function) = choice.function else { return String::new() };
    let call = Call { function, size, pipelined: 1 };
    let ranked = computed.choosers[0].0.ranked(&call);
    let taken = ranked.iter().find(|(a, p, _)| (*a, *p) == (choice.algo, choice.proto));
    match (ranked.first(), taken) {
        (Some((algo, proto, best)), Some((_, _, time))) => format!(
            "{} would take {:.1} µs, {} {:.1} µs",
            pair(*algo, *proto),
            best.0,
            pair(choice.algo, choice.proto),
            time.0
        ),
        _ => format!("{} is not available", pair(choice.algo, choice.proto)),
    }
}

/// The fault in the channels, if they are known.
fn other_channels(choice: &Choice, call: &Call, bounds: &Bounds) -> Option<String> {
    let Detail::Channels(0, last) = choice.detail else { return None };
    let used = bounds.channels(call, choice.algo, choice.proto)?.saturating_sub(1);
    let scheduled = !choice.algo.is_collnet() && used != last;
    scheduled.then(|| format!("the same, but on channels 0 to {used}, not 0 to {last}"))
}

/// Within what the printed digits allow.
fn against_table(choice: &Choice, size: Bytes, bounds: &Bounds, basis: &Basis) -> Verdict {
    let taken = (choice.algo, choice.proto);
    let known: Vec<Function> = choice.function.into_iter().collect();
    let mut fitting: Vec<(Function, Vec<(Algo, Proto)>)> = Vec::new();
    let mut seen: Vec<(Algo, Proto)> = Vec::new();
    let mut late = None;
    for function in functions(choice) {
        let call = Call { function, size, pipelined: 1 };
        let cells = bounds.allowed(&call).cells;
        if cells.contains(&taken) {
            if let Some(why) = other_channels(choice, &call, bounds) {
                return Verdict::new("differs", known, vec![pair(taken.0, taken.1)]).because(why);
            }
            match (choice.detail, bounds.time(&call, taken.0, taken.1)) {
                (Detail::Time(Micros(time)), Some((least, most)))
                    if !(least..=most).contains(&time) && time != FOR_WANT =>
                {
                    late = late.or(Some((function, least, most, time)));
                }
                _ => {
                    fitting.push((function, cells));
                    continue;
                }
            }
        }
        seen.extend(cells);
    }
    if fitting.is_empty() {
        if let Some((function, least, most, time)) = late {
            let why = format!(
                "{} of the printed table takes {least:.1} to {most:.1} µs for {}, not {time:.1}",
                pair(taken.0, taken.1),
                function.name()
            );
            return Verdict::new("differs", known, vec![pair(taken.0, taken.1)]).because(why);
        }
        seen.sort_unstable();
        seen.dedup();
        let computed = seen.into_iter().map(|(a, p)| pair(a, p)).collect();
        return Verdict::new("differs", known, computed)
            .because("the printed table does not give it");
    }
    let certain = fitting.iter().all(|(_, cells)| cells.len() == 1);
    let mut cells: Vec<_> = fitting.iter().flat_map(|(_, cells)| cells.clone()).collect();
    cells.sort_unstable();
    cells.dedup();
    let functions = fitting.into_iter().map(|(function, _)| function).collect();
    let verdict = if certain { "agrees" } else { "open" };
    let computed = cells.iter().map(|&(a, p)| pair(a, p)).collect();
    let found = Verdict::new(verdict, functions, computed);
    match (certain, basis.behind.nodes) {
        (true, _) => found,
        (false, None) if choice.function == Some(Function::AllReduce) => {
            found.because("nodes are not known, and the printed digits leave it open")
        }
        (false, _) => found.because("the printed digits leave it open"),
    }
}
