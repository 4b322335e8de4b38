//! The commands of a script that start a server, with what a script says of their arguments.

use std::collections::{BTreeMap, BTreeSet};

use super::arguments::Arguments;
use super::draft::Draft;
use super::shell::{SETTING, Statement, as_written, bare, slurm, value};
use crate::base::error::{Error, Result};

/// A server that a file starts.
pub(super) struct Started {
    pub engine: &'static str,
    /// What follows its command.
    pub statement: Statement,
}

/// What ends a command.
const ENDS: [&str; 6] = ["&&", "||", "|", ";", "&", " image:"];

/// Commands that only name others.
const NAMING: [&str; 9] =
    ["echo", "printf", "log", "trap", "grep", "pgrep", "pkill", "sed", "wait_for"];

/// The commands that begin with one of `starts`, which name the engine, each with its own words. A variable that holds
/// one counts where none is run.
pub(super) fn started(all: &[Statement], starts: &[(&str, &'static str)]) -> Vec<Started> {
    let mut found: Vec<(Started, bool)> = Vec::new();
    for Statement { text, open } in all {
        let is_value = is_assignment(text);
        for command in commands(text) {
            let first = command.trim_start_matches(['{', '(', ' ']).split(' ').next();
            if first.is_some_and(|first| NAMING.contains(&first)) {
                continue;
            }
            // Not `vllm server`.
            let is_word =
                |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let at = starts.iter().flat_map(|(start, engine)| {
                command.match_indices(start).map(|(at, _)| (at, at + start.len(), *engine))
            });
            let mut at: Vec<_> = at.filter(|(_, from, _)| is_word(&command[*from..])).collect();
            at.sort_unstable();
            for (i, (_, from, engine)) in at.iter().enumerate() {
                let to = at.get(i + 1).map_or(command.len(), |next| next.0);
                let text = until_end(&command[*from..to]).to_owned();
                let statement = Statement { text, open: open.clone() };
                found.push((Started { engine, statement }, is_value));
            }
        }
    }
    let mut found = run(found);
    // A sentence names a command without its arguments.
    let has_flags = |started: &Started| started.statement.text.contains(" -");
    if found.iter().any(has_flags) {
        found.retain(has_flags);
    }
    found
}

/// Programs that start a training without naming a Python file: launchers, and those of ms-swift, LLaMA-Factory and TRL.
const PROGRAMS: [&str; 6] =
    ["megatron", "torchrun", "deepspeed", "swift", "llamafactory-cli", "trl"];

/// Whether a word is one of them, in whatever folder.
fn is_program(word: &str) -> bool {
    PROGRAMS.contains(&word.rsplit('/').next().unwrap_or(word))
}

/// The commands of a script that start a training: they run Python, or one of [`PROGRAMS`], with one of `flags`.
/// What only holds such a command counts where none is run.
pub(super) fn trainings(all: &[Statement], flags: &[&str]) -> Vec<Started> {
    let mut found: Vec<(Started, bool)> = Vec::new();
    for Statement { text, open } in all {
        let is_value = is_assignment(text);
        for command in commands(text) {
            let mut words = command.split(|c: char| c.is_whitespace() || "\"'({".contains(c));
            let named = words.clone().find(|word| !word.is_empty());
            let runs = words.any(|word| word.ends_with(".py") || is_program(word));
            if runs
                && !named.is_some_and(|first| NAMING.contains(&first))
                && flags.iter().any(|flag| command.contains(flag))
            {
                let statement = Statement { text: command.to_owned(), open: open.clone() };
                found.push((Started { engine: "", statement }, is_value));
            }
        }
    }
    run(found)
}

/// What a script starts for sure, each text once: servers or trainings, such as the nodes of one.
///
/// # Errors
/// They are too many to compare.
pub(super) fn distinct<'a>(all: &'a [Started], kind: &str, file: &str) -> Result<Vec<&'a Started>> {
    let mut sure: Vec<&Started> = all.iter().filter(|one| one.statement.open.is_none()).collect();
    sure.sort_by(|a, b| a.statement.text.cmp(&b.statement.text));
    sure.dedup_by(|a, b| a.statement.text == b.statement.text);
    if sure.len() > MOST {
        let what = format!("it starts {} {kind}, which are not compared", sure.len());
        return Err(Error::input(what).at(file.to_owned()).help("keep one of them in the file"));
    }
    Ok(sure)
}

/// Servers or trainings of one script that are compared.
const MOST: usize = 64;

/// Those that are run, or else those that variables hold.
fn run(mut found: Vec<(Started, bool)>) -> Vec<Started> {
    if found.iter().any(|(_, is_value)| !is_value) {
        found.retain(|(_, is_value)| !is_value);
    }
    found.into_iter().map(|(started, _)| started).collect()
}

/// The words of a command, without those behind its end.
fn until_end(own: &str) -> &str {
    let ends = |at: &usize| ENDS.iter().any(|end| own[*at..].starts_with(end));
    bare(own).map(|(at, _)| at).find(ends).map_or(own, |at| &own[..at])
}

/// Whether a statement is `NAME=value` alone, or exports that.
fn is_assignment(text: &str) -> bool {
    let text = match text.split_once(' ') {
        Some((word, rest)) if SETTING.contains(&word) => {
            let rest = rest.trim_start();
            rest.split_once(' ')
                .filter(|(flag, _)| flag.starts_with('-'))
                .map_or(rest, |(_, rest)| rest)
        }
        _ => text,
    };
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_+".contains(c));
    text.split_once('=').is_some_and(|(name, behind)| {
        !name.is_empty() && is_name(name) && value(behind).1.is_empty()
    })
}

/// The commands of a statement, cut outside quotes; not in a value such as `E|tt|L`, nor in `2>&1`.
fn commands(text: &str) -> Vec<&str> {
    let mut start = 0;
    let mut found = Vec::new();
    let parts = |&(at, c): &(usize, char)| match c {
        ';' => true,
        '&' | '|' => {
            let beside = [text[..at].chars().next_back(), text[at + 1..].chars().next()];
            beside.iter().any(|one| one.is_none_or(|one| one == c || one.is_whitespace()))
        }
        _ => false,
    };
    for (at, _) in bare(text).filter(parts) {
        found.push(&text[start..at]);
        start = at + 1;
    }
    found.push(&text[start..]);
    found
}

/// What an assignment sets; empty for other statements.
fn value_of(text: &str) -> &str {
    text.split_once('=').filter(|_| is_assignment(text)).map_or("", |(_, value)| value)
}

/// The arguments of commands, with the assignments of the variables that they name and that branches leave open.
pub(super) fn arguments(started: &[&Started], all: &[Statement]) -> Arguments {
    let mut set: BTreeMap<&str, Vec<&Statement>> = BTreeMap::new();
    for statement in all {
        let text = statement.text.trim_start_matches("export ").trim_start_matches("local ");
        if let Some((name, _)) = text.split_once('=') {
            set.entry(name.trim_end_matches('+')).or_default().push(statement);
        }
    }
    let mut texts: Vec<&str> = started.iter().map(|s| s.statement.text.as_str()).collect();
    let (mut seen, mut behind) = (BTreeSet::new(), Vec::new());
    while let Some(text) = texts.pop() {
        for rest in text.split('$').skip(1) {
            let rest = rest.trim_start_matches('{');
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            for statement in set.get(name).filter(|_| seen.insert(name)).into_iter().flatten() {
                behind.push((*statement).clone());
                texts.push(&statement.text);
            }
        }
    }
    // Values of branches may be in a command already.
    let own: Vec<Statement> = started.iter().map(|server| server.statement.clone()).collect();
    let words: BTreeSet<&str> = own.iter().flat_map(|own| own.text.split_whitespace()).collect();
    let inserted = all.iter().filter(|statement| {
        let flag = |word: &&str| word.trim_start_matches(['(', '"', '\'']).starts_with("--");
        let mut flags = value_of(&statement.text).split_whitespace().filter(flag).peekable();
        statement.open.is_some()
            && flags.peek().is_some()
            && flags.all(|flag| words.contains(flag.trim_matches(['(', ')', '"', '\''])))
    });
    Arguments::read(inserted.cloned().chain(behind).chain(own.iter().cloned()).collect())
}

/// Puts the GPUs on which a script's launcher starts its training.
///
/// # Errors
/// None of its own.
pub(super) fn launched(
    text: &str,
    all: &[Statement],
    args: &Arguments,
    draft: &mut Draft,
) -> Result<()> {
    // Without a launcher Slurm starts a rank for each GPU; torchrun's default is one node.
    let [slurm_nodes, slurm_gpus, tasks] = slurm(text);
    let (each, nodes) = (["nproc-per-node", "num-gpus"], ["nnodes", "num-nodes", "num-machines"]);
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let launched = args.any(&each).or(args.any(&nodes)).is_some()
        || lines.any(|line| line.contains("torchrun"));
    let of_environment = |name: &str| {
        let mut words = all.iter().flat_map(|one| one.text.split_whitespace());
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<u32>().ok())
    };
    let stated = match args.any(&each) {
        Some(_) => args.number(&each),
        // ms-swift's and LLaMA-Factory's launchers take it from the environment. One device is all that is visible.
        None => of_environment("NPROC_PER_NODE")
            .or(slurm_gpus)
            .or(tasks.filter(|_| !launched))
            .or(of_environment("CUDA_VISIBLE_DEVICES").map(|_| 1)),
    };
    let nodes = match args.any(&nodes) {
        Some(_) => args.number(&nodes),
        // What Slurm is told elsewhere, or in other words, is asked for.
        None => {
            of_environment("NNODES").or(slurm_nodes).or((!text.contains("#SBATCH")).then_some(1))
        }
    };
    // Accelerate counts the processes of all nodes.
    let processes = args.number(&["num-processes"]).zip(nodes);
    let per_node = stated.or(processes.and_then(|(all, nodes)| all.checked_div(nodes)));
    if let (Some(each), Some(nodes)) = (per_node.filter(|each| *each > 0), nodes) {
        draft.put("gpus", each.saturating_mul(nodes).to_string())?;
        draft.launched = Some(each);
    }
    Ok(())
}

/// The arguments of trainings that a script starts, which have the same values of `keys`.
///
/// # Errors
/// They differ in one of them.
pub(super) fn alike<'k>(
    sure: &[&Started],
    all: &[Statement],
    keys: impl Iterator<Item = &'k &'k str> + Clone,
    file: &str,
) -> Result<Arguments> {
    let of = |one: &Started| arguments(&[one], all);
    let known = sure.first().map(|first| of(first)).unwrap_or_default();
    for other in sure.iter().skip(1).map(|other| of(other)) {
        let mut keys = keys.clone().map(|key| key.replace('_', "-"));
        if let Some(key) = keys.find(|key| known.get(key) != other.get(key)) {
            let [one, two] = [&known, &other].map(|args| match args.get(&key) {
                Some("") => format!("one with --{key}"),
                Some(value) => format!("one with --{key} {value}"),
                None => format!("one without --{key}"),
            });
            let what = format!("it starts several trainings: {one} and {two}");
            return Err(Error::input(what)
                .at(file.to_owned())
                .help("keep one of them in the file"));
        }
    }
    Ok(arguments(sure, all))
}

/// Images of the engines, whose tags are releases.
const IMAGES: [(&str, &str); 3] = [
    ("vllm/vllm-openai:", "vllm"),
    ("lmsysorg/sglang:", "sglang"),
    ("nvidia/tensorrt-llm/release:", "tensorrt-llm"),
];

/// Puts an engine, with the release of its image where statements name one.
///
/// # Errors
/// None of its own.
pub(super) fn put_release(engine: &str, all: &[Statement], draft: &mut Draft) -> Result<()> {
    let images = IMAGES.iter().filter(|(_, of)| *of == engine);
    let tags: BTreeSet<&str> = images
        .flat_map(|(image, _)| all.iter().flat_map(|one| one.text.split(*image).skip(1)))
        .filter_map(|behind| {
            let tag = behind.strip_prefix('v').unwrap_or(behind);
            let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(tag.len());
            let release = tag[..end].trim_end_matches('.');
            release.contains('.').then_some(release)
        })
        .collect();
    let mut tags = tags.into_iter();
    match (tags.next(), tags.next()) {
        (Some(release), None) => draft.put("engine", format!("{engine}@{release}")),
        _ => draft.put("engine", engine),
    }
}

/// The model behind a server's command: not the value of a flag, unless it has the slash of a repository.
pub(super) fn named(behind: &str) -> Option<String> {
    let mut last = "";
    let odd = |word: &str| word.starts_with(['\\', ':', '@', '.']) || word.ends_with(':');
    let words = behind.split(|c: char| c.is_whitespace() || "[]\",'`*".contains(c));
    let words = words.filter(|word| !word.is_empty() && !odd(word));
    // Behind a redirection there is no argument.
    let mut words = words.take_while(|word| !word.contains(['>', '<']));
    let model = words.find(|word| {
        let flag = std::mem::replace(&mut last, word).starts_with('-');
        !word.starts_with('-') && (!flag || word.contains('/'))
    });
    model.map(str::to_owned)
}

/// The count that arguments give `key` by one of several names; what only a run decides is asked for.
pub(super) fn degree(
    draft: &mut Draft,
    args: &Arguments,
    key: &str,
    names: &[&str],
) -> Option<u32> {
    let value = args.any(names)?;
    let found = value.parse::<u32>().ok();
    if found.is_none() {
        draft.asked.push(asked(args, key, names, value));
    }
    found
}

/// A key that is asked for, with the flag whose value does not say it: `tp (-tp $1)`.
pub(super) fn asked(args: &Arguments, key: &str, names: &[&str], value: &str) -> String {
    let name = names.iter().find(|name| args.any(&[name]) == Some(value)).unwrap_or(&key);
    let dashes = if name.starts_with('-') { "" } else { "--" };
    format!("{key} ({dashes}{name} {})", as_written(value))
}
