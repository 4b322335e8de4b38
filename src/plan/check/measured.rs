//! Compares a budget with logs.

use super::outcome::Outcome;
use super::standing::{Number, Standing};
use super::{CallSubject, Files};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::measure::logs::{Asked, look};
use crate::measure::verdict::{Facts, Health, Run, judge, runs};
use crate::model::algorithm::Registry;

/// Whether the times of logs are within the expected band; with several logs the best time of a
/// size is used.
pub(super) fn measured(
    registry: &Registry,
    files: &dyn Files,
    call: &CallSubject,
    patterns: &[String],
) -> Result<Outcome> {
    let ranks = call.layout.ranks.map(Into::into);
    let asked = Asked { ranks, collective: Some(call.collective) };
    let mut found: Vec<Run> = Vec::new();
    let mut read = 0;
    for pattern in patterns {
        for file in files.matching(pattern)? {
            let log = look(files.text(&file)?.as_bytes(), &file, &asked)?;
            read += 1;
            let all = runs(&file, &log, &mut Vec::new()).into_iter();
            let same = |run: &Run| {
                run.collective == call.collective
                    && call.layout.ranks.is_none_or(|n| run.ranks.is_none_or(|r| r == n.get()))
            };
            found.extend(all.filter(same));
        }
    }
    let named = patterns.join(", ");
    if read == 0 {
        return Err(Error::input(format!("there is no file `{named}`"))
            .help("run the benchmark before the check, or correct the path"));
    }
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
    let worst = verdict.points.iter().max_by(|a, b| {
        let over = |p: &crate::measure::verdict::Point| p.measured.0 / p.expected.high.0;
        over(a).total_cmp(&over(b))
    });
    let Some(worst) = worst else {
        return Err(
            Error::input(format!("{named} has no times above 0 bytes")).help("correct the path")
        );
    };
    let healthy = verdict.health == Health::Healthy;
    let cause = verdict.causes.first().map_or(String::new(), |c| format!("; {}", c.what));
    let factor = call.collective.busbw_factor(query.shape.ranks);
    let note = match verdict.health {
        Health::Healthy => format!("{} sizes, {}", times.len(), verdict.basis.words()),
        Health::Slow => format!("slower than 9 of 10 runs at {}{cause}", worst.size),
        Health::TooFast => format!("faster than possible at {}{cause}", worst.size),
        Health::WrongResults => format!("{wrong} results were wrong"),
    };
    // A run is judged by its regions: a single size outside the band is not a failure.
    let most = worst.measured.0 / worst.expected.high.0;
    let used = if healthy { most.min(1.0) } else { most };
    Ok(Outcome {
        standing: if healthy { Standing::Holds } else { Standing::Fails },
        band: None,
        expected: None,
        limit: Some(Number::Time(worst.expected.high)),
        value: Number::Time(worst.measured),
        worst: Number::Time(worst.measured),
        used: Ratio(used),
        used_most: Ratio(most),
        time: Some(worst.measured),
        busbw: Some(Volume::from(worst.size) / worst.measured * factor),
        bound_ratio: None,
        machine: query.machine.name.clone(),
        given: query.machine.given_in_words(),
        is_default: query.machine.is_default(),
        ranks: query.shape.ranks.into(),
        size: Some(worst.size),
        by: format!("measured, {named}"),
        note,
        parts: Vec::new(),
    })
}
