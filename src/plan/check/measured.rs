//! Compares a budget with logs.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::outcome::Outcome;
use super::standing::{Number, Standing};
use super::{CallSubject, Files};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::measure::logs::{Asked, look, one_library};
use crate::measure::verdict::{Facts, Health, Point, Ruling, Run, SLOWDOWN, Verdict, judge, runs};
use crate::model::algorithm::Registry;

/// The runs in logs that match the patterns, and why tables of these are not used.
fn logged(
    files: &dyn Files,
    patterns: &[String],
    asked: &Asked,
) -> Result<(Vec<Run>, Vec<String>)> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let mut read = 0;
    for pattern in patterns {
        for file in files.matching(pattern)? {
            let log = look(&files.log(&file)?[..], &file, asked);
            let log = log.map_err(|error| match error.what().contains(&file) {
                true => error,
                false => {
                    let named = Error::input(format!("{file}: {}", error.what()));
                    error.mending().iter().fold(named, |named, help| named.help(*help))
                }
            })?;
            read += 1;
            found.extend(runs(&file, &log, &mut left_out));
        }
    }
    if read == 0 {
        return Err(Error::input(format!("there is no file `{}`", patterns.join(", ")))
            .help("run the benchmark before the check, or correct the path"));
    }
    Ok((found, left_out))
}

/// The collective that logs measured, for a budget that does not name it.
pub(super) fn collective_of(
    files: &dyn Files,
    patterns: &[String],
    ranks: Option<u32>,
) -> Result<Collective> {
    let (found, _) = logged(files, patterns, &Asked { ranks, ..Asked::default() })?;
    let all: BTreeSet<Collective> = found.iter().map(|run| run.collective).collect();
    let named = patterns.join(", ");
    match all.iter().collect::<Vec<_>>()[..] {
        [one] => Ok(*one),
        [] => {
            Err(Error::input(format!("{named} has no time of a collective"))
                .help("correct the path"))
        }
        [first, ..] => {
            let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
            let what = format!("{named} has times of several collectives: {}", names.join(", "));
            Err(Error::input(what).help(format!("write collective = \"{}\"", first.id())))
        }
    }
}

/// Whether `compare` calls the times of logs healthy. Runs of one kind are judged by the best time of each size; of
/// several kinds the worst verdict counts.
pub(super) fn measured(
    registry: &Registry,
    files: &dyn Files,
    call: &CallSubject,
    patterns: &[String],
) -> Result<Outcome> {
    let named = patterns.join(", ");
    let kinds = kinds(meant(files, call, patterns)?, call.size);
    if kinds.is_empty() {
        return Err(none(call, &named, None));
    }
    let mut worst: Option<Outcome> = None;
    for (run, what) in kinds.iter().zip(differences(&kinds)) {
        let mut outcome = judged(registry, call, run, &named)?;
        if !what.is_empty() {
            outcome.note.insert_str(0, &format!("{what}: "));
        }
        let rank = |o: &Outcome| (o.standing, o.used_most.0);
        if worst.as_ref().is_none_or(|known| rank(known) < rank(&outcome)) {
            worst = Some(outcome);
        }
    }
    worst.ok_or_else(|| none(call, &named, None))
}

/// There is no time of the call; `why` a table is not used.
fn none(call: &CallSubject, named: &str, why: Option<&String>) -> Error {
    let size = call.size.map_or(String::new(), |s| format!(" of {s}"));
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    Error::input(format!("{named} has no time of {}{size}{why}", call.collective.name()))
        .help("correct collective, n, nodes or size, or the path")
}

/// The runs that the budget means, all of one library and one number of ranks.
fn meant(files: &dyn Files, call: &CallSubject, patterns: &[String]) -> Result<Vec<Run>> {
    let layout = call.layout;
    let asked = Asked {
        ranks: layout.ranks.map(Into::into),
        collective: Some(call.collective),
        nodes: layout.nodes.map(Into::into),
        per_node: layout.per_node.map(Into::into),
    };
    let (mut found, left_out) = logged(files, patterns, &asked)?;
    found.retain(|run| {
        run.collective == call.collective
            && layout.ranks.is_none_or(|n| run.ranks.is_none_or(|r| r == n.get()))
    });
    let named = patterns.join(", ");
    if found.is_empty() {
        return Err(none(call, &named, left_out.first()));
    }
    let counts: BTreeSet<u32> = found.iter().filter_map(|run| run.ranks).collect();
    if let (Some(least), true) = (counts.first(), counts.len() > 1) {
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        return Err(Error::input(format!("{named} has runs on {} ranks", counts.join(", ")))
            .help(format!("write n = {least}")));
    }
    one_library(call.collective, found.iter().filter_map(|run| run.library.as_deref()))
        .map_err(|e| e.at(&named))?;
    Ok(found)
}

/// The runs joined by what `compare` judges apart: type, library with its release, nodes and variables. Each size
/// counts by its best time.
fn kinds(runs: Vec<Run>, size: Option<Bytes>) -> Vec<Run> {
    let mut by: BTreeMap<_, Vec<Run>> = BTreeMap::new();
    for mut run in runs {
        run.times.retain(|(known, _)| size.is_none_or(|size| size == *known));
        let variables = run.facts.evidence.variables().clone();
        let kind = (run.dtype, run.library.clone(), run.nodes, variables);
        by.entry(kind).or_default().push(run);
    }
    let joined = by.into_values().filter_map(best);
    joined.filter(|run| !run.times.is_empty()).collect()
}

/// Runs of one kind as one: each size by its best time, with what the logs say that have one. Results of all of them
/// must be right.
fn best(runs: Vec<Run>) -> Option<Run> {
    let mut best: BTreeMap<Bytes, (Seconds, bool, usize)> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        for &(size, time) in &run.times {
            let one = (time, run.facts.at_most || run.facts.bounds.contains(&size), at);
            let known = best.entry(size).or_insert(one);
            let order = one.0.0.total_cmp(&known.0.0).then(one.1.cmp(&known.1));
            if order.is_lt() {
                *known = one;
            }
        }
    }
    let has = |at: usize| runs[at].facts.wrong > 0 || best.values().any(|one| one.2 == at);
    let mut facts: Option<Facts> = None;
    for (_, run) in runs.iter().enumerate().filter(|(at, _)| has(*at)) {
        match &mut facts {
            Some(facts) => facts.add(&run.facts),
            None => facts = Some(run.facts.clone()),
        }
    }
    let wrong = runs.iter().map(|run| run.facts.wrong).sum();
    let times = best.iter().map(|(&size, one)| (size, one.0)).collect();
    let facts = Facts { wrong, ..facts.unwrap_or_default() };
    Some(Run { times, facts, ..runs.into_iter().next()? })
}

/// By what kinds differ, if there are several.
fn differences(kinds: &[Run]) -> Vec<String> {
    let differ = |of: &dyn Fn(&Run) -> String| {
        let all: BTreeSet<String> = kinds.iter().map(of).collect();
        all.len() > 1
    };
    let dtype = |run: &Run| run.dtype.map_or(String::new(), |d| d.to_string());
    let library = |run: &Run| run.library.clone().unwrap_or_default();
    let nodes = |run: &Run| run.nodes.map_or(String::new(), |n| format!("{n} nodes"));
    let variables = |run: &Run| {
        let set = run.facts.evidence.variables().iter();
        set.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let all: [&dyn Fn(&Run) -> String; 4] = [&dtype, &library, &nodes, &variables];
    let told: Vec<_> = all.into_iter().filter(|of| differ(*of)).collect();
    let words = |run: &Run| -> Vec<String> {
        told.iter().map(|of| of(run)).filter(|word| !word.is_empty()).collect()
    };
    kinds.iter().map(|run| words(run).join(", ")).collect()
}

/// Whether `compare` calls one run healthy.
fn judged(registry: &Registry, call: &CallSubject, run: &Run, named: &str) -> Result<Outcome> {
    let Run { times, facts, .. } = run;
    let mut layout = call.layout;
    layout.ranks = layout.ranks.or(run.ranks.and_then(NonZeroU32::new));
    if layout.nodes.is_none() && layout.per_node.is_none() {
        match facts.full_node.and_then(NonZeroU32::new) {
            None => layout.nodes = run.nodes.and_then(NonZeroU32::new),
            each => layout.per_node = each,
        }
    }
    let size = times.first().map_or(Bytes(0), |t| t.0);
    let mut query = call.machine.query(call.collective, size, layout)?;
    run.tell(&mut query.machine);
    facts
        .refuse_default(&query)
        .map_err(|e| e.or_help("name the machine that ran it: profile = \"ib-hdr\""))?;
    let verdict = judge(registry, &query, run.dtype, false, times, facts)?;
    let standing = match verdict.ruling {
        Ruling::Healthy => Standing::Holds,
        Ruling::CannotTell => Standing::AtRisk,
        Ruling::Ill => Standing::Fails,
    };
    // What no size of a healthy run exceeds, what a few healthy runs exceed, what none does.
    let limit = |p: &Point| match standing {
        Standing::Holds => p.late(),
        Standing::AtRisk => p.expected.high,
        Standing::Fails => p.limit(),
    };
    let part = |p: &Point| p.measured.0 / limit(p).0;
    let order = |a: &&Point, b: &&Point| part(a).total_cmp(&part(b));
    let worst = match verdict.health {
        Health::TooFast => verdict.points.iter().min_by(order),
        _ => verdict.points.iter().max_by(order),
    };
    let Some(worst) = worst else {
        return Err(
            Error::input(format!("{named} has no times above 0 bytes")).help("correct the path")
        );
    };
    let most = part(worst);
    let least = match standing {
        Standing::AtRisk => worst.measured.0 / worst.limit().0,
        Standing::Holds | Standing::Fails => most,
    };
    // The verdict weighs all sizes and what else the log says. If the worst size alone would be judged
    // otherwise, its limit is not the reason and is not shown.
    let alone = Standing::of(least, most) == standing;
    let (used, used_most) = standing.nearest(least, most);
    let factor = call.collective.busbw_factor(query.shape.ranks);
    Ok(Outcome {
        standing,
        band: None,
        expected: None,
        limit: alone.then(|| Number::Time(limit(worst))),
        value: Number::Time(worst.measured),
        worst: Number::Time(worst.measured),
        used: Ratio(used),
        used_most: Ratio(used_most),
        time: Some(worst.measured),
        busbw: (worst.size.0 > 0).then(|| Volume::from(worst.size) / worst.measured * factor),
        bound_ratio: None,
        machine: query.machine.name.clone(),
        given: query.machine.given_in_words(),
        is_default: query.machine.is_default(),
        ranks: query.shape.ranks.into(),
        size: Some(worst.size),
        by: format!("measured, {named}"),
        note: note(&verdict, worst, facts),
        unfit: None,
        parts: Vec::new(),
    })
}

/// The verdict's reason.
fn note(verdict: &Verdict, worst: &Point, facts: &Facts) -> String {
    let cause = verdict.causes.first().map_or(String::new(), |c| format!("; {}", c.what));
    let why = match verdict.health {
        Health::WrongResults => format!("results were wrong: {}", facts.wrong_words()),
        Health::TooFast => format!("faster than possible at {}{cause}", worst.size),
        Health::Slow => format!("slower than 9 of 10 runs at {}{cause}", worst.size),
        Health::Healthy if verdict.ruling == Ruling::Healthy => {
            format!("{} sizes, {}", verdict.points.len(), verdict.basis.words())
        }
        Health::Healthy if facts.broke() => "its program ended with an error".to_owned(),
        Health::Healthy if worst.measured > worst.limit() => {
            "too few sizes take longer than healthy machines".to_owned()
        }
        Health::Healthy if worst.measured > worst.expected.high => format!(
            "1 in 10 healthy runs exceeds the limit, and none is known above {}{cause}",
            worst.limit()
        ),
        Health::Healthy => format!(
            "a healthy run may take this long, and so may one slowed by {}{cause}",
            SLOWDOWN.0
        ),
    };
    let why = match verdict.ruling {
        Ruling::CannotTell => format!("{}: {why}", verdict.ruling.words()),
        Ruling::Healthy | Ruling::Ill => why,
    };
    let damage = facts.damage.iter().map(|what| format!("; {what}"));
    std::iter::once(why).chain(damage).collect()
}
