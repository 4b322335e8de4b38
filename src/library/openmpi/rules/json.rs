//! Open MPI's dynamic rules as JSON, from 6.0 on: the first rule that fits decides.
//!
//! ```json
//! {"rule_file_version": 3, "module": "tuned", "collectives": {"allreduce": [
//!   {"comm_size_min": 64, "comm_size_max": 128, "rules": [
//!     {"msg_size_min": 512, "msg_size_max": "inf", "alg": "ring", "seg_size": 4096}]}]}}
//! ```
//!
//! They become the table of the classic format, in which the last rule that fits decides: from each
//! limit on, the rule that decides there. Where none fits, the library decides itself.
//!
//! Source: Open MPI v6.0.x `docs/tuning-apps/tuned_dynamic_file_schema.json`,
//! `ompi/mca/coll/tuned/coll_tuned_dynamic_file.c` and `coll_tuned_dynamic_rules.c`; names of collectives and
//! algorithms: `ompi/mca/coll/base/coll_base_util.c` (`mca_coll_base_name_to_colltype`), `opal/mca/base/mca_base_var_enum.c`.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::base::error::advice;
use crate::base::quantity::Bytes;
use crate::base::refused::Refused;
use crate::library::openmpi::operations::takes_radix;
use crate::library::openmpi::rules::{Coll, CollectiveRules, CommRules, MessageRule, Rules};
use crate::library::tuning_file::Line;

/// Whether a text in braces is such a file rather than MPICH's.
pub(in crate::library) fn is(text: &str) -> bool {
    ["\"rule_file_version\"", "\"collectives\""].iter().any(|key| text.contains(key))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "$schema")]
    _schema: Option<Value>,
    #[serde(rename = "rule_file_version")]
    _version: Option<Value>,
    module: Option<String>,
    comm_rank_distribution: Option<String>,
    collectives: Collectives,
}

/// In the order of the file.
struct Collectives(Vec<(String, Vec<Comm>)>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Comm {
    comm_size_min: Option<Value>,
    comm_size_max: Option<Value>,
    comm_rank_distribution: Option<String>,
    rules: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    msg_size_min: Option<Value>,
    msg_size_max: Option<Value>,
    alg: Value,
    faninout: Option<u32>,
    seg_size: Option<u32>,
    reqs: Option<u32>,
}

impl<'de> Deserialize<'de> for Collectives {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Collectives;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of collectives")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Collectives, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Collectives(pairs))
            }
        }
        from.deserialize_map(Pairs)
    }
}

pub(in crate::library) fn read(text: &str) -> Result<Rules, Refused> {
    let file: File = serde_json::from_str(text).map_err(|e| {
        let what = e.to_string();
        let what = what.split(" at line ").next().unwrap_or(&what);
        Refused::at(e.line(), what)
            .help("keys are as in Open MPI's docs/tuning-apps/tuned_dynamic_file_schema.json")
    })?;
    if let Some(other) = file.module.filter(|module| module != "tuned") {
        return Err(Refused::at(1, format!("rules of the module `{other}`"))
            .help("rules of `tuned` are read")
            .unsupported());
    }
    anywhere(file.comm_rank_distribution.as_deref(), 1)?;
    // Each rule has one algorithm, and they are read in the order of the file.
    let mut lines = lines(text).into_iter();
    let mut rules = Rules::default();
    for (name, comms) in file.collectives.0 {
        let mut read = Vec::with_capacity(comms.len());
        let mut first = None;
        for comm in comms {
            let own: Vec<usize> = lines.by_ref().take(comm.rules.len()).collect();
            let line = own.first().copied().unwrap_or(1);
            first.get_or_insert(line);
            anywhere(comm.comm_rank_distribution.as_deref(), line)?;
            read.push((comm, own));
        }
        let line = first.unwrap_or(1);
        let collective = collective(&name, line)?;
        if rules.collectives.iter().any(|c| c.collective == collective) {
            return Err(Refused::at(line, format!("{name} has rules twice"))
                .help("put all communicator sizes into one list"));
        }
        let comms = by_ranks(collective, &read)?;
        rules.collectives.push(CollectiveRules { collective, comms, line: Line(line) });
    }
    Ok(rules)
}

/// The lines of all algorithms.
fn lines(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut line, mut seen) = (1, 0);
    for (at, _) in text.match_indices(KEY) {
        line += text[seen..at].matches('\n').count();
        seen = at;
        if text[at + KEY.len()..].trim_start().starts_with(':') {
            found.push(line);
        }
    }
    found
}

const KEY: &str = "\"alg\"";

fn anywhere(distribution: Option<&str>, line: usize) -> Result<(), Refused> {
    match distribution {
        None | Some("any") => Ok(()),
        Some(other) => {
            let what = format!("rules for communicators of `{other}` alone are not supported");
            Err(Refused::at(line, what)
                .help("leave comm_rank_distribution out of a copy of the rules that apply to you")
                .unsupported())
        }
    }
}

fn collective(name: &str, line: usize) -> Result<Coll, Refused> {
    let ruled = || Coll::all().filter(|c| !c.algorithms().is_empty());
    if let Some(found) = ruled().find(|c| c.name() == name) {
        return Ok(found);
    }
    let plain = |name: &str| name.replace('_', "");
    Err(match ruled().find(|c| plain(c.name()) == plain(name)) {
        Some(meant) => Refused::at(line, format!("Open MPI knows no collective `{name}`")).help(format!(
            "write `{}`: Open MPI ignores the whole file otherwise, also where its schema has the other name",
            meant.name()
        )),
        None => Refused::at(line, format!("rules have no effect on `{name}`"))
            .help(advice(name, ruled().map(Coll::name))),
    })
}

/// A limit, or what it is if it is left out; `inf` is none.
fn limit(value: Option<&Value>, absent: u64, key: &str, line: usize) -> Result<u64, Refused> {
    match value {
        None => Ok(absent),
        Some(Value::String(inf)) if ["inf", "Inf", "INF"].contains(&&**inf) => Ok(u64::MAX),
        Some(value) => value.as_u64().ok_or_else(|| {
            Refused::at(line, format!("`{value}` is not a limit"))
                .help(format!("write {key} as a whole number, or \"inf\""))
        }),
    }
}

/// A limit of ranks, which Open MPI keeps in an `int`: it cuts what does not fit, and "inf" becomes −1.
fn ranks(value: Option<&Value>, absent: u64, key: &str, line: usize) -> Result<u64, Refused> {
    let read = limit(value, absent, key, line)?;
    match value {
        Some(value) if read > MOST_RANKS => {
            Err(Refused::at(line, format!("{key} {value} does not fit into an `int`")).help(format!(
                "Open MPI cuts it, and the rules apply to no communicator: leave {key} out, or write at most \
                 {MOST_RANKS}"
            )))
        }
        _ => Ok(read),
    }
}

const MOST_RANKS: u64 = i32::MAX.unsigned_abs() as u64;

/// From where on which of the ranges is the first that fits, beginning at 0.
fn first_fitting(ranges: &[(u64, u64)]) -> Vec<(u64, Option<usize>)> {
    let mut events = vec![(0, None)];
    for (i, &(from, to)) in ranges.iter().enumerate().filter(|(_, (from, to))| from <= to) {
        events.push((from, Some((i, true))));
        events.extend(to.checked_add(1).map(|after| (after, Some((i, false)))));
    }
    events.sort_unstable();
    let (mut fit, mut found) = (BTreeSet::new(), Vec::new());
    for here in events.chunk_by(|a, b| a.0 == b.0) {
        for &(i, begins) in here.iter().filter_map(|(_, event)| event.as_ref()) {
            if begins {
                fit.insert(i);
            } else {
                fit.remove(&i);
            }
        }
        let first = fit.first().copied();
        if found.last().is_none_or(|&(_, before)| before != first) {
            found.push((here[0].0, first));
        }
    }
    found
}

/// The most rules of a collective, which overlapping ranges of ranks can multiply.
const MOST: usize = 1 << 18;

fn by_ranks(of: Coll, comms: &[(Comm, Vec<usize>)]) -> Result<Vec<CommRules>, Refused> {
    let mut ranges = Vec::with_capacity(comms.len());
    let mut tables = Vec::with_capacity(comms.len());
    for (comm, lines) in comms {
        let line = lines.first().copied().unwrap_or(1);
        let from = ranks(comm.comm_size_min.as_ref(), 0, "comm_size_min", line)?;
        let to = ranks(comm.comm_size_max.as_ref(), u64::MAX, "comm_size_max", line)?;
        ranges.push((from, to));
        tables.push(by_size(of, &comm.rules, lines)?);
    }
    let none = vec![MessageRule::new(Bytes(0), 0, Bytes(0))];
    let (mut found, mut count) = (Vec::new(), 0);
    for (from, fits) in first_fitting(&ranges) {
        let Ok(from) = u32::try_from(from) else { break };
        let rules = fits.map_or(&none, |i| &tables[i]).clone();
        count += rules.len();
        if count > MOST {
            let line = comms.first().and_then(|(_, lines)| lines.first()).copied().unwrap_or(1);
            return Err(Refused::at(line, format!("more than {MOST} rules of {}", of.name()))
                .help("write fewer ranges of communicators, each for many sizes of them"));
        }
        found.push(CommRules { from, rules, line: Line::default() });
    }
    Ok(found)
}

fn by_size(of: Coll, rules: &[Message], lines: &[usize]) -> Result<Vec<MessageRule>, Refused> {
    let mut ranges = Vec::with_capacity(rules.len());
    let mut read = Vec::with_capacity(rules.len());
    for (rule, &line) in rules.iter().zip(lines) {
        let from = limit(rule.msg_size_min.as_ref(), 0, "msg_size_min", line)?;
        let to = limit(rule.msg_size_max.as_ref(), u64::MAX, "msg_size_max", line)?;
        ranges.push((from, to));
        let algorithm = algorithm(of, &rule.alg, line)?;
        let fan = rule.faninout.unwrap_or(0);
        let is_radix = of.algorithm(algorithm).is_some_and(|name| takes_radix(of.name(), name));
        if is_radix && fan < 2 {
            let what = format!("a radix of {fan}, with which Open MPI 6.0 never returns");
            return Err(Refused::at(line, what)
                .help("add \"faninout\": 2, or a larger radix; without it the radix is 0"));
        }
        read.push(MessageRule {
            from: Bytes(from),
            algorithm,
            fan,
            segment: Bytes(rule.seg_size.unwrap_or(0).into()),
            requests: rule.reqs,
            line: Line(line),
        });
    }
    let none = MessageRule::new(Bytes(0), 0, Bytes(0));
    let at = |(from, fits): (u64, Option<usize>)| MessageRule {
        from: Bytes(from),
        ..fits.map_or(none, |i| read[i])
    };
    Ok(first_fitting(&ranges).into_iter().map(at).collect())
}

/// The names of 6.0, from number 0 on.
fn names(of: Coll) -> impl Iterator<Item = &'static str> {
    let name = move |&short: &&'static str| match (of.name(), short) {
        ("allgather", "bruck") => "bruck-k-fanout",
        ("allgather", "direct") => "direct-messaging",
        _ => short,
    };
    std::iter::once("ignore").chain(of.algorithms().iter().map(name))
}

/// An algorithm by its number, also as text, or its name in any case.
fn algorithm(of: Coll, value: &Value, line: usize) -> Result<u32, Refused> {
    let known = |&n: &u32| of.algorithm(n).is_some();
    let found = match value {
        Value::String(text) => {
            let by_name = (0..).zip(names(of)).find(|(_, name)| name.eq_ignore_ascii_case(text));
            // A number that begins with a zero is octal.
            let decimal = text == "0" || !text.starts_with(['0', '+']);
            let number = || text.parse().ok().filter(|_| decimal).filter(known);
            by_name.map(|(number, _)| number).or_else(number)
        }
        value => value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(known),
    };
    found.ok_or_else(|| {
        let names: Vec<_> = names(of).enumerate().map(|(n, name)| format!("{n} {name}")).collect();
        Refused::at(line, format!("{} has no algorithm {value}", of.name()))
            .help(format!("Open MPI ignores such a rule; known: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{
  "rule_file_version": 3, "module": "tuned",
  "collectives": {
    "allreduce": [
      {"comm_size_min": 64, "comm_size_max": 128, "rules": [
        {"msg_size_min": 512, "msg_size_max": 511999, "alg": 2},
        {"msg_size_min": 1000, "msg_size_max": "inf",
         "alg": "recursive_doubling", "seg_size": 4096, "reqs": 8}
      ]},
      {"comm_size_min": 100, "rules": [{"alg": "ring"}]}
    ],
    "reduce_scatter": [{"rules": [{"alg": 3}]}]
  }
}"#;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = read(GOOD).unwrap();
        let runs = |ranks, size| {
            let rule = rules.rule(Coll::named("allreduce").unwrap(), ranks, Bytes(size)).unwrap();
            (rule.algorithm, rule.line.0)
        };
        assert_eq!((runs(64, 511), runs(63, 600), runs(2, 0)), ((0, 0), (0, 0), (0, 0)));
        assert_eq!((runs(64, 512), runs(128, 511_999)), ((2, 6), (2, 6)));
        assert_eq!((runs(64, 512_000), runs(128, 1 << 40)), ((3, 8), (3, 8)));
        // The second list has no say where the first one fits.
        assert_eq!((runs(128, 1), runs(129, 1), runs(1 << 20, 1)), ((0, 0), (4, 10), (4, 10)));
        let other = rules.rule(Coll::named("reduce_scatter").unwrap(), 2, Bytes(1)).unwrap();
        assert_eq!(other.algorithm, 3);
    }

    /// v6.0.x `coll_tuned_allgather_decision.c`, `coll_tuned_reduce_decision.c`, `coll_tuned_allgatherv_decision.c`.
    #[test]
    fn algorithms_have_the_names_of_6_0() {
        let number = |of: &str, name: &str| {
            algorithm(Coll::named(of).unwrap(), &Value::String(name.to_owned()), 1).ok()
        };
        for (of, name, expected) in [
            ("allgather", "bruck-k-fanout", Some(2)),
            ("allgather", "direct-messaging", Some(8)),
            ("allgather", "bruck", None),
            ("allgather", "direct", None),
            ("allgatherv", "bruck", Some(2)),
            ("allgatherv", "sparbit", Some(6)),
            ("reduce", "knomial", Some(8)),
            ("allreduce", "4", Some(4)),
            ("allreduce", "Ring", Some(4)),
            ("allreduce", "ignore", Some(0)),
            ("allreduce", "99", None),
            ("allreduce", "07", None),
        ] {
            assert_eq!(number(of, name), expected, "{of} {name}");
        }
    }

    #[test]
    fn what_open_mpi_passes_over_is_refused_with_its_line() {
        let with = |from: &str, to: &str| GOOD.replace(from, to);
        for (text, line, what) in [
            (with("\"alg\": 2", "\"alg\": 99"), 6, "allreduce has no algorithm 99"),
            (with("recursive_doubling", "recursive"), 8, "allreduce has no algorithm"),
            (with("\"allreduce\"", "\"allreduced\""), 6, "rules have no effect on `allreduced`"),
            (with("511999", "\"many\""), 6, "`\"many\"` is not a limit"),
            (with("128,", "\"inf\","), 6, "comm_size_max \"inf\" does not fit"),
            (with("128,", "4294967296,"), 6, "comm_size_max 4294967296 does not fit"),
            (with("reduce_scatter", "reducescatter"), 12, "Open MPI knows no collective"),
            (with("allreduce", "all_reduce"), 6, "Open MPI knows no collective `all_reduce`"),
            (with("\"tuned\"", "\"han\""), 1, "rules of the module `han`"),
            (with("\"alg\": 2}", "\"alg\": 2,}"), 6, "trailing comma"),
            (with("\"alg\": 2", "\"algorithm\": 2"), 6, "unknown field `algorithm`"),
            (
                with("allreduce", "allgather"),
                6,
                "a radix of 0, with which Open MPI 6.0 never returns",
            ),
            (
                with("\"comm_size_min\": 100", "\"comm_rank_distribution\": \"single-node\""),
                10,
                "rules for communicators of `single-node` alone",
            ),
        ] {
            let refused = read(&text).unwrap_err();
            assert!(refused.what.starts_with(what), "{}", refused.what);
            assert_eq!(refused.line, Some(line), "{what}");
            assert!(refused.help.is_some(), "{what}");
        }
    }
}
