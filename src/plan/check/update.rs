//! Writes limits from the model with a margin; everything else in the file is unchanged.

use super::{Budget, Checked, Limit, Number, Outcome, Standing};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};

/// A file with its new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The file.
    pub file: String,
    /// The whole text.
    pub text: String,
    /// Budgets whose limits changed.
    pub changed: usize,
}

/// New texts for the files of `checked`, with limits `margin` beyond the worse end of what is judged,
/// so that each budget holds until that moves by more: 0.1 is 10 %. `texts` are the files as they were
/// read. Budgets of logs have no limit to write.
#[must_use]
pub fn update(checked: &Checked, texts: &[(String, String)], margin: Ratio) -> Vec<Edited> {
    let mut edited = Vec::new();
    for (file, text) in texts {
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        let mut changed = 0;
        for (budget, outcome) in checked.budgets.iter().zip(&checked.outcomes) {
            // A limit of a list applies to the whole list, and a relation is a requirement, not a
            // value of the model.
            let kept = matches!(budget.limit, Some(Limit::Measured(_) | Limit::Within(_)));
            if budget.file != *file || kept || budget.name != budget.heading {
                continue;
            }
            let before = edits.len();
            edit(budget, outcome, margin, text, &mut edits);
            changed += usize::from(edits.len() > before);
        }
        if edits.is_empty() {
            continue;
        }
        edits.sort_by_key(|e| std::cmp::Reverse((e.0, e.1)));
        let mut new = text.clone();
        for (start, end, with) in edits {
            new.replace_range(start..end, &with);
        }
        edited.push(Edited { file: file.clone(), text: new, changed });
    }
    edited
}

fn edit(
    budget: &Budget,
    outcome: &Outcome,
    margin: Ratio,
    text: &str,
    edits: &mut Vec<(usize, usize, String)>,
) {
    let of = budget.limit.as_ref();
    let now = written(of, outcome.value);
    let limit = within(of, moved(of, outcome.worst, margin));
    // A table in braces is on one line; one under a heading has a line for each key.
    let end = budget.spans.end;
    let rest = text[end..].trim_start();
    let inline = rest.starts_with([',', '}']);
    let line = if inline { end } else { text[end..].find('\n').map_or(text.len(), |n| end + n) };
    let ends_in_cr = text[..line].ends_with('\r') && !inline;
    let line = line - usize::from(ends_in_cr);
    let next = match (inline, ends_in_cr) {
        (true, _) => ", ",
        (false, true) => "\r\n",
        (false, false) => "\n",
    };
    let mut more = String::new();
    match &budget.spans.limit {
        Some(span) if text.get(span.clone()) == Some(limit.as_str()) => {}
        Some(span) => edits.push((span.start, span.end, limit)),
        None => more += &format!("{next}max_time = {limit}"),
    }
    match &budget.spans.expected {
        Some(span) if text.get(span.clone()) == Some(now.as_str()) => {}
        Some(span) => edits.push((span.start, span.end, now)),
        None => more += &format!("{next}expected = {now}"),
    }
    if !more.is_empty() {
        // Under a heading after the comment on the last value.
        edits.push((line, line, more));
    }
}

fn moved(limit: Option<&Limit>, value: Number, margin: Ratio) -> Number {
    let up = Ratio(1.0 + margin.0);
    match (limit, value) {
        (_, Number::Time(t)) => Number::Time(t * up),
        (_, Number::Rate(b)) => Number::Rate(b * Ratio(1.0 / up.0)),
        (_, Number::Memory(v)) => Number::Memory(Volume(v.0 * up.0)),
        (Some(Limit::MaxRegret(_)), Number::Ratio(r)) => Number::Ratio(Ratio(r.0 + margin.0)),
        (_, Number::Ratio(r)) => Number::Ratio(Ratio(r.0 * up.0)),
    }
}

/// The limit itself or, where the file's form has too few digits for it, the next that it has beyond.
fn within(limit: Option<&Limit>, value: Number) -> String {
    /// Less than half of the least step of any form.
    const STEP: f64 = 0.4e-4;
    let beyond = |text: &str| {
        let text = text.trim_matches('"');
        let ratio = |text: &str| match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        let part = match value {
            Number::Time(t) => text.parse::<Seconds>().map(|limit| t.0 / limit.0).ok(),
            // A rate is a limit from below.
            Number::Rate(b) => text.parse::<Bandwidth>().map(|limit| limit.0 / b.0).ok(),
            Number::Memory(v) => text.parse::<Bytes>().map(|limit| v.0 / limit.0 as f64).ok(),
            Number::Ratio(r) => ratio(text).map(|limit| r.0 / limit.max(f64::MIN_POSITIVE)).ok(),
        };
        part.is_some_and(|part| Standing::of(part, part) == Standing::Holds)
    };
    let moved = |by: f64| match value {
        Number::Time(t) => Number::Time(t * Ratio(1.0 + by)),
        Number::Rate(b) => Number::Rate(b * Ratio(1.0 - by)),
        Number::Memory(v) => Number::Memory(Volume(v.0 * (1.0 + by))),
        Number::Ratio(r) => Number::Ratio(Ratio(r.0 + by)),
    };
    // No form leaves out more than a thousandth.
    let mut forms = (0..=25).map(|k| written(limit, moved(STEP * f64::from(k))));
    forms.find(|text| beyond(text)).unwrap_or_else(|| written(limit, value))
}

/// In the file's form: quantities in quotes with their unit, ratios as numbers.
fn written(limit: Option<&Limit>, number: Number) -> String {
    match (limit, number) {
        // The percent sign distinguishes a part of the step from a time, and 150 % from 1.5 %.
        (Some(Limit::MaxExposed(_) | Limit::MaxRegret(_)), Number::Ratio(r)) => {
            format!("\"{:.2}%\"", 100.0 * r.0)
        }
        (_, Number::Ratio(r)) => format!("{:.4}", r.0),
        (_, other) => format!("\"{}\"", other.to_string().replace('µ', "u").replace(' ', "")),
    }
}
