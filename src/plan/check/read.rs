//! Budgets from their tables: `[[budget]]` of a file.

use std::cell::Cell;
use std::collections::HashMap;
use std::str::FromStr;

use toml::de::DeValue;

use super::lists::{One, each};
use super::measured::collective_of;
use super::policy::{AtRisk, Level, Policy, waive};
use super::{
    At, Budget, CallSubject, Exposed, JobSubject, Limit, Options, ServedSubject, Spans, Subject,
    Within,
};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Asked, Bandwidth, Bytes, Percent, Ratio, Seconds};
use crate::base::size_is::SizeIs;
use crate::base::words::either;
use crate::plan::job::{Draft, beside, drafts};
use crate::plan::table::{Fault, Faults, Fields, Layer, Machines, joined, parameters};
use crate::plan::{layered, read as read_step};

/// The keys of a budget, besides those of a machine.
pub const KEYS: &[&str] = &[
    "name",
    "collective",
    "size",
    "size_is",
    "algorithm",
    "step",
    "from",
    "gpus",
    "set",
    "max_time",
    "max_prefill",
    "max_memory",
    "min_busbw",
    "max_bound_ratio",
    "max_regret",
    "max_exposed",
    "within",
    "measured",
    "at",
    "at_risk",
    "level",
    "expected",
];

/// The keys of limits; a budget has one of them.
const LIMITS: [&str; 9] = [
    "max_time",
    "max_prefill",
    "min_busbw",
    "max_bound_ratio",
    "max_regret",
    "measured",
    "max_memory",
    "max_exposed",
    "within",
];

/// The input for reading budgets.
pub(super) struct From<'a, 'm> {
    pub machines: &'m Machines<'m>,
    pub settings: &'a [Layer<'a>],
    pub steps: Vec<(&'a str, Layer<'a>)>,
    pub presets: Layer<'a>,
    /// The `[policy]` of each file.
    pub policies: Vec<Option<Layer<'a>>>,
    pub options: Options,
    pub faults: &'a Faults,
    /// Ranks of all budgets so far.
    pub ranks: Cell<u64>,
}

/// The most ranks of all budgets together: some algorithms are priced step by step, and their
/// number of steps grows with the ranks.
const RANKS: u64 = 1 << 23;

/// A ratio without unit: `1.2`, or `120%`.
struct Plain(pub f64);

impl FromStr for Plain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.contains('%') {
            return text.parse().map(|Percent(part)| Self(part));
        }
        match text.trim().parse::<f64>() {
            Ok(x) if x.is_finite() && x >= 0.0 => Ok(Self(x)),
            _ => Err(Error::input(format!("`{text}` is not a ratio"))
                .help("write a number such as 1.5, or 150%")),
        }
    }
}

/// A time with its unit, or a part of the step: `0.5s`, `12%`.
impl FromStr for Exposed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.contains('%') {
            true => text.parse().map(|Percent(part)| Self::Part(Ratio(part))),
            false => text
                .parse()
                .map(Self::Time)
                .map_err(|e: Error| e.help("write a time, or a part of the step: 12%")),
        }
    }
}

/// `2% of train64`.
impl FromStr for Within {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (most, of) = text.split_once(" of ").ok_or_else(|| {
            Error::input(format!("`{text}` does not name another budget"))
                .help("write within = \"2% of NAME\"")
        })?;
        let Percent(most) = most.parse()?;
        Ok(Self { most: Ratio(most), of: of.trim().to_owned() })
    }
}

/// All budgets; two with the same name are a fault.
pub(super) fn budgets<'a>(files: &[Layer<'a>], from: &From<'a, '_>) -> Vec<Budget> {
    let mut found: Vec<Budget> = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for (file, policy) in files.iter().zip(&from.policies) {
        sections(file, from.faults);
        let Some(value) = file.table.get("budget") else { continue };
        let keep = |start: usize, what: &str| {
            let place = file.document.place(&(start..start));
            let help = Some("write [[budget]] on its own line".to_owned());
            from.faults.borrow_mut().push(Fault::new(file.file, place, what.to_owned(), help));
        };
        let Some(list) = value.get_ref().as_array() else {
            keep(value.span().start, "`budget` is a list of tables");
            continue;
        };
        for item in list {
            let DeValue::Table(table) = item.get_ref() else {
                keep(item.span().start, "a budget is a table");
                continue;
            };
            let own = Layer { table, start: item.span().start, ..*file };
            let made = listed(own, *policy, from);
            // A budget with other faults also occupies its name.
            let heading = table.get("name").and_then(|name| name.get_ref().as_str());
            let mut own_names: Vec<String> = heading.into_iter().map(str::to_owned).collect();
            own_names.extend(made.iter().filter(|b| b.name != b.heading).map(|b| b.name.clone()));
            found.extend(made);
            for name in own_names {
                if let Some(first) = names.get(&name) {
                    let fields = Fields::new(vec![own], "[[budget]]", from.faults);
                    let what = format!("`{name}` is the name of another budget: {first}");
                    let help = "give it a different name, and write each value of a list once";
                    fields.fault("name", what, help);
                    break;
                }
                let span = table.get("name").map_or(own.start..own.start, |name| name.span());
                let line = file.document.place(&span).line;
                names.insert(name, format!("{}:{line}", file.file));
            }
        }
    }
    let known: Vec<String> = names.into_keys().collect();
    waive(files, &mut found, &known, from.faults);
    if found.is_empty() && from.faults.borrow().is_empty() {
        let place = crate::base::text_pos::Place { line: 1, column: 1, text: String::new() };
        let file = files.first().map_or("", |f| f.file);
        let help = Some("write [[budget]] with name, collective, n, size and max_time".to_owned());
        let what = "the file holds no budget".to_owned();
        from.faults.borrow_mut().push(Fault::new(file, place, what, help));
    }
    found
}

/// The keys allowed at the top level of a file.
fn sections(file: &Layer<'_>, faults: &Faults) {
    const KNOWN: [&str; 7] =
        ["budget", "step", "include", "defaults", "machine", "policy", "waive"];
    for (key, _) in file.table {
        let typed = key.get_ref().as_ref();
        if !KNOWN.contains(&typed) {
            let place = file.document.place(&key.span());
            let what = format!("unknown section `{typed}`");
            let help = Some(advice(typed, KNOWN));
            faults.borrow_mut().push(Fault::new(file.file, place, what, help));
        }
    }
}

/// A budget, or one for each choice from its lists.
fn listed<'a>(own: Layer<'a>, policy: Option<Layer<'a>>, from: &From<'a, '_>) -> Vec<Budget> {
    let choices: Vec<One<'a>> = match each(own.table) {
        Ok(choices) => choices,
        Err((key, what)) => {
            let fields = Fields::new(vec![own], "[[budget]]", from.faults);
            fields.fault(key, what, "write one value or several: n = [8, 64, 512]");
            return Vec::new();
        }
    };
    if choices.is_empty() {
        return budget(own, policy, from).into_iter().collect();
    }
    let one = |choice: &One<'a>| {
        let mut budget = budget(Layer { table: &choice.table, ..own }, policy, from)?;
        budget.name = format!("{} ({})", budget.heading, choice.told);
        Some(budget)
    };
    choices.iter().filter_map(one).collect()
}

fn budget<'a>(own: Layer<'a>, policy: Option<Layer<'a>>, from: &From<'a, '_>) -> Option<Budget> {
    let before = from.faults.borrow().len();
    let fields = Fields::new(vec![own], "[[budget]]", from.faults);
    let known: Vec<&str> = KEYS.iter().copied().chain(parameters(true).map(|p| p.key)).collect();
    fields.only(&known);
    let name = fields.text("name").unwrap_or_default();
    if name.is_empty() {
        fields.fault("name", "the budget has no name", "write name = \"gradients\"");
    }
    let limit = limit(&fields, from.options);
    let subject = match (fields.text("step"), fields.text("from")) {
        (Some(step), _) => of_step(&fields, &step, limit.as_ref(), from),
        (None, Some(files)) => of_job(fields.over(from.settings), &files, limit.as_ref(), from),
        (None, None) => of_call(fields.over(from.settings), limit.as_ref(), from),
    };
    let fields = Fields::new(vec![own], "[[budget]]", from.faults);
    let key = limit.as_ref().map_or("name", Limit::key);
    let (file, place) = fields.place(key);
    let span = |key: &str| fields.find(key).map(|(_, value)| value.span());
    let end = own.table.iter().map(|(_, v)| v.span().end).max().unwrap_or(own.start);
    let spans = Spans {
        limit: limit.as_ref().and_then(|l| span(l.key())),
        expected: span("expected"),
        end,
    };
    let expected = fields.text("expected");
    let banded = !matches!(
        limit,
        Some(Limit::Measured(_) | Limit::MaxRegret(_) | Limit::MaxExposed(_) | Limit::Within(_))
    );
    if fields.has("at") && !banded {
        fields.fault("at", format!("`{key}` has no band"), "leave `at` out");
    }
    // A file's defaults for its budgets are the layer below each of them.
    let layers = std::iter::once(own).chain(policy).collect();
    let all = Fields::new(layers, "[[budget]]", from.faults);
    let at = all.read::<At>("at").filter(|_| banded);
    let policy = Policy {
        level: all.read::<Level>("level").unwrap_or(Level::Error),
        at_risk: all.read::<AtRisk>("at_risk").unwrap_or_default(),
    };
    let subject = subject?;
    let heading = name.clone();
    let waiver = None;
    let budget =
        Budget { name, heading, file, place, subject, limit, at, expected, policy, waiver, spans };
    (from.faults.borrow().len() == before).then_some(budget)
}

fn limit(fields: &Fields<'_>, options: Options) -> Option<Limit> {
    let given: Vec<&str> = LIMITS.into_iter().filter(|key| fields.has(key)).collect();
    match given.as_slice() {
        [] if options.updating => return None,
        [] => {
            let help = format!("write one of {}", LIMITS.join(", "));
            fields.fault("limit", "the budget has no limit", help);
        }
        [_] => {}
        _ => {
            let start = |key: &&str| fields.find(key).map(|(_, value)| value.span().start);
            let last = given.iter().copied().max_by_key(start).unwrap_or_default();
            let what = format!("a budget has one limit: {}", given.join(" and "));
            fields.fault(last, what, "write a budget for each");
        }
    }
    let ratio = |key: &str| fields.read::<Plain>(key).map(|p| Ratio(p.0));
    let percent = |key: &str| fields.read::<Percent>(key).map(|p| Ratio(p.0));
    // All given limits are read, so that their faults are reported too.
    let read = |key: &str| {
        Some(match key {
            "max_time" => Limit::MaxTime(fields.read::<Seconds>("max_time")?),
            "max_prefill" => Limit::MaxPrefill(fields.read::<Seconds>("max_prefill")?),
            "min_busbw" => Limit::MinBusbw(fields.read::<Bandwidth>("min_busbw")?),
            "max_bound_ratio" => Limit::MaxBoundRatio(ratio("max_bound_ratio")?),
            "max_regret" => Limit::MaxRegret(percent("max_regret")?),
            "max_memory" => Limit::MaxMemory(fields.read::<Bytes>("max_memory")?),
            "max_exposed" => Limit::MaxExposed(fields.read::<Exposed>("max_exposed")?),
            "within" => Limit::Within(fields.read::<Within>("within")?),
            _ => {
                let (file, _) = fields.place("measured");
                let pattern = fields.text("measured")?;
                Limit::Measured(pattern.split(',').map(|p| joined(&file, p.trim())).collect())
            }
        })
    };
    let limits: Vec<_> = given.iter().map(|key| read(key)).collect();
    limits.into_iter().next().flatten()
}

/// The keys of a collective's budget, besides the parameters of its question …
const OF_CALLS: [&str; 4] = ["collective", "size", "size_is", "algorithm"];
/// … and of a budget whose job lies in files.
const OF_FILES: [&str; 3] = ["from", "gpus", "set"];

/// Refuses keys that the budget itself has and that say nothing about what it is for.
fn refuse<'k>(
    fields: &Fields<'_>,
    keys: impl IntoIterator<Item = &'k str>,
    what: &str,
    help: &str,
) {
    for key in keys.into_iter().filter(|key| fields.says(key)) {
        fields.fault(key, format!("`{key}` {what}"), help);
    }
}

fn of_step<'a>(
    fields: &Fields<'a>,
    name: &str,
    limit: Option<&Limit>,
    from: &From<'a, '_>,
) -> Option<Subject> {
    let calls = OF_CALLS.into_iter().chain(parameters(true).map(|p| p.key));
    let what = "belongs to a collective, but the budget is for a step";
    refuse(fields, calls, what, "write it in the step");
    refuse(fields, OF_FILES, "belongs to a job, but the budget is for a step", "leave it out");
    let of_steps =
        |l: &&Limit| matches!(l, Limit::MaxTime(_) | Limit::MaxExposed(_) | Limit::Within(_));
    if let Some(limit) = limit.filter(|l| !of_steps(l)) {
        let help = "write max_time, max_exposed or within";
        fields.fault(limit.key(), format!("a step has no `{}`", limit.key()), help);
    }
    let Some((_, own)) = from.steps.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = from.steps.iter().map(|(name, _)| *name).collect();
        let help = if known.is_empty() {
            "write a table [step.NAME], or include a file that has it".to_owned()
        } else {
            advice(name, &known)
        };
        fields.fault("step", format!("there is no step `{name}`"), help);
        return None;
    };
    let layers = layered(vec![*own], from.presets, from.faults);
    let step = read_step(name, layers, from.settings, from.machines, from.faults)?;
    Some(Subject::Step(Box::new(step)))
}

/// Limits of what trains …
const OF_JOBS: [&str; 4] = ["max_time", "max_memory", "max_exposed", "within"];
/// … and of what serves.
const OF_SERVERS: [&str; 3] = ["max_time", "max_prefill", "max_memory"];

/// A job, or a served model, of the files that `from` names, under the budget's machine, `gpus` and
/// `set = "tp=4, pp=2"`.
fn of_job(
    fields: Fields<'_>,
    files: &str,
    limit: Option<&Limit>,
    from: &From<'_, '_>,
) -> Option<Subject> {
    let parameters = parameters(true).map(|p| p.key).filter(|key| *key != "profile");
    let help = "leave it out: a job has gpus, a profile, and set";
    refuse(&fields, OF_CALLS.into_iter().chain(parameters), "belongs to a collective", help);
    let (file, _) = fields.place("from");
    let names: Vec<String> = files.split(',').map(|name| joined(&file, name.trim())).collect();
    let read = || -> Result<Subject> {
        let mut typed = Draft::default();
        for key in ["gpus", "profile"] {
            if let Some(value) = fields.text(key) {
                typed.put(key, value)?;
            }
        }
        let set = fields.text("set").unwrap_or_default();
        for pair in set.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                Error::input(format!("`{pair}` sets nothing")).help("write set = \"tp=4, pp=2\"")
            })?;
            typed.put(key.trim(), value.trim())?;
        }
        let row = drafts(from.machines.files, &names)?.into_iter().next();
        let row = row.ok_or_else(|| Error::input("the files hold no job"))?;
        let memory_only = matches!(limit, Some(Limit::MaxMemory(_)));
        let draft = beside(from.machines.files, &file, typed)?.over(&row.draft);
        let from_files = files.to_owned();
        if draft.serves() {
            let serve = draft.serve(from.machines)?;
            return Ok(Subject::Served(Box::new(ServedSubject { from: from_files, serve })));
        }
        let job = draft.job(from.machines, memory_only)?;
        Ok(Subject::Job(Box::new(JobSubject { from: from_files, job })))
    };
    let subject = read().map_err(|error| fields.error("from", &error)).ok();
    let (what, limits) = match &subject {
        Some(Subject::Served(_)) => ("server", OF_SERVERS.as_slice()),
        _ => ("job", OF_JOBS.as_slice()),
    };
    if let Some(limit) = limit.filter(|l| !limits.contains(&l.key())) {
        let help = format!("write {}", either(limits));
        fields.fault(limit.key(), format!("a {what} has no `{}`", limit.key()), help);
    }
    subject
}

fn of_call(fields: Fields<'_>, limit: Option<&Limit>, from: &From<'_, '_>) -> Option<Subject> {
    let log = matches!(limit, Some(Limit::Measured(_)));
    let help = "leave it out, or name the job's files: from = \"job.toml\"";
    refuse(&fields, OF_FILES, "belongs to a job", help);
    let machine = from.machines.entry(&fields);
    let ranks = machine.as_ref().and_then(|m| m.said.layout.ranks).map(Into::into);
    let collective = match limit {
        _ if fields.has("collective") => fields.read::<Collective>("collective"),
        // The log names it.
        Some(Limit::Measured(patterns)) => collective_of(from.machines.files, patterns, ranks)
            .map_err(|error| fields.error("measured", &error))
            .ok(),
        _ => {
            let help = "write it, or step = \"NAME\"";
            fields.fault("collective", "the budget has no `collective`", help);
            None
        }
    };
    let barrier = collective == Some(Collective::Barrier);
    if !fields.has("size") && !log && !barrier && collective.is_some() {
        fields.fault("size", "the budget has no `size`", "write size = \"1GiB\"");
    }
    if !fields.has("n") && !fields.has("nodes") && !log {
        fields.fault("n", "the budget has no `n`", "write n = 64");
    }
    let size = fields.read("size").map(|Asked(size)| size);
    let size = match collective.map(|collective| collective.sized(size)) {
        Some(Err(error)) => {
            fields.error("size", &error);
            return None;
        }
        Some(Ok(size)) => size,
        None => size,
    };
    let counts = fields.read::<SizeIs>("size_is").unwrap_or_default();
    let (collective, machine) = (collective?, machine?);
    let layout = machine.said.layout;
    // The ranks that follow from nodes are known once the machine is known.
    let query = (layout.ranks.is_some() || layout.nodes.is_some())
        .then(|| machine.query(collective, size.unwrap_or_default(), layout));
    if let Some(Ok(query)) = &query {
        // Settings serve many entries: some may use them.
        if let Some((key, error)) = machine.said.idle(query, |key| fields.says(key)) {
            fields.error(key, &error);
        }
        let before = from.ranks.get();
        from.ranks.set(before.saturating_add(query.shape.ranks.into()));
        if from.ranks.get() > RANKS {
            // Exceeding the limit is reported once.
            if before <= RANKS {
                let what = format!("with this budget the total exceeds {RANKS} ranks");
                fields.fault("n", what, "move some budgets to another file, or use fewer ranks");
            }
            return None;
        }
    }
    let size = match query {
        Some(Ok(query)) => match size.map(|s| counts.total(collective, query.shape.ranks, s)) {
            Some(Ok(size)) => Some(size),
            Some(Err(error)) => {
                fields.error("size_is", &error);
                None
            }
            None => None,
        },
        Some(Err(error)) => {
            fields.error(if fields.has("n") { "n" } else { "nodes" }, &error);
            None
        }
        None => size,
    };
    let algorithm = fields.text("algorithm");
    Some(Subject::Call(Box::new(CallSubject { collective, layout, size, algorithm, machine })))
}
