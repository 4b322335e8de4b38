//! Compares a budget with logs.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::standing::{Number, Standing};
use super::{CallSubject, Files};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::measure::logs::{Asked, look, one_library};
use crate::measure::verdict::{Facts, Health, Point, Ruling, Run, SLOWDOWN, Verdict, judge, runs};
use crate::model::algorithm::Registry;

/// The runs in logs that match the patterns, and how many logs there are.
fn logged(files: &dyn Files, patterns: &[String], asked: &Asked) -> Result<Vec<Run>> {
    let mut found: Vec<Run> = Vec::new();
    let mut read = 0;
    for pattern in patterns {
        for file in files.matching(pattern)? {
            let log = look(files.text(&file)?.as_bytes(), &file, asked)?;
            read += 1;
            found.extend(runs(&file, &log, &mut Vec::new()));
        }
    }
    if read == 0 {
        return Err(Error::input(format!("there is no file `{}`", patterns.join(", ")))
            .help("run the benchmark before the check, or correct the path"));
    }
    Ok(found)
}

/// The collective that logs measured, for a budget that does not name it.
pub(super) fn collective_of(
    files: &dyn Files,
    patterns: &[String],
    ranks: Option<u32>,
) -> Result<Collective> {
    let found = logged(files, patterns, &Asked { ranks, collective: None })?;
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

/// Whether `compare` calls the times of logs healthy; with several logs the best time of a size is
/// used.
pub(super) fn measured(
    registry: &Registry,
    files: &dyn Files,
    call: &CallSubject,
    patterns: &[String],
) -> Result<Outcome> {
    let ranks = call.layout.ranks.map(Into::into);
    let asked = Asked { ranks, collective: Some(call.collective) };
    let same = |run: &Run| {
        run.collective == call.collective
            && call.layout.ranks.is_none_or(|n| run.ranks.is_none_or(|r| r == n.get()))
    };
    let found: Vec<Run> = logged(files, patterns, &asked)?.into_iter().filter(same).collect();
    let named = patterns.join(", ");
    let counts: BTreeSet<u32> = found.iter().filter_map(|run| run.ranks).collect();
    if let (Some(least), true) = (counts.first(), counts.len() > 1 && call.layout.nodes.is_none()) {
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        return Err(Error::input(format!("{named} has runs on {} ranks", counts.join(", ")))
            .help(format!("write n = {least}")));
    }
    one_library(call.collective, found.iter().filter_map(|run| run.library.as_deref()))
        .map_err(|e| e.at(&named))?;
    let mut times: Vec<(Bytes, Seconds)> = Vec::new();
    let mut wrong = 0;
    for run in &found {
        wrong += run.facts.wrong;
        for &(size, time) in run.times.iter().filter(|t| call.size.is_none_or(|s| s == t.0)) {
            match times.iter_mut().find(|(known, _)| *known == size) {
                Some((_, best)) => *best = Seconds(best.0.min(time.0)),
                None => times.push((size, time)),
            }
        }
    }
    let Some(first) = found.first().filter(|_| !times.is_empty()) else {
        let size = call.size.map_or(String::new(), |s| format!(" of {s}"));
        return Err(Error::input(format!(
            "{named} has no time of {}{size}",
            call.collective.name()
        ))
        .help("correct collective, n or size, or the path"));
    };
    times.sort_by_key(|t| t.0);
    let mut layout = call.layout;
    if layout.ranks.is_none() && layout.nodes.is_none() {
        layout.ranks = first.ranks.and_then(std::num::NonZeroU32::new);
    }
    if layout.nodes.is_none() && layout.per_node.is_none() {
        layout.nodes = first.nodes.and_then(std::num::NonZeroU32::new);
    }
    let query = call.machine.query(call.collective, times[0].0, layout)?;
    let facts = Facts { wrong, ..first.facts.clone() };
    facts
        .refuse_default(&query)
        .map_err(|e| e.or_help("name the machine that ran it: profile = \"ib-hdr\""))?;
    let verdict = judge(registry, &query, first.dtype, false, &times, &facts)?;
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
        busbw: Some(Volume::from(worst.size) / worst.measured * factor),
        bound_ratio: None,
        machine: query.machine.name.clone(),
        given: query.machine.given_in_words(),
        is_default: query.machine.is_default(),
        ranks: query.shape.ranks.into(),
        size: Some(worst.size),
        by: format!("measured, {named}"),
        note: note(&verdict, worst, wrong),
        parts: Vec::new(),
    })
}

/// The verdict's reason.
fn note(verdict: &Verdict, worst: &Point, wrong: u64) -> String {
    let cause = verdict.causes.first().map_or(String::new(), |c| format!("; {}", c.what));
    let why = match verdict.health {
        Health::WrongResults => format!("{wrong} results were wrong"),
        Health::TooFast => format!("faster than possible at {}{cause}", worst.size),
        Health::Slow => format!("slower than 9 of 10 runs at {}{cause}", worst.size),
        Health::Healthy if verdict.ruling == Ruling::Healthy => {
            format!("{} sizes, {}", verdict.points.len(), verdict.basis.words())
        }
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
    match verdict.ruling {
        Ruling::CannotTell => format!("{}: {why}", verdict.ruling.words()),
        Ruling::Healthy | Ruling::Ill => why,
    }
}
