//! What a YAML runs: the containers of Kubernetes and Compose, and steps with a command, each with its own
//! variables.
//!
//! Sources: kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container; docs.docker.com,
//! Compose file reference, services.

use super::files::is_yaml;
use super::shell::{Statement, statements};
use crate::base::yaml::{Scalar, documents};

/// Keys with a command, or its arguments.
const RUN: [&str; 6] = ["command", "entrypoint", "run", "script", "cmd", "exec"];

/// Whether a key has a command or arguments: those, `modelCommand`, `extraArgs`, a script among data.
fn runs(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // A server's own keys end so, too: `mm-processor-kwargs`.
    RUN.contains(&key.as_str())
        || !key.ends_with("kwargs")
            && ["args", "command", ".sh"].iter().any(|end| key.ends_with(end))
}

/// Places of a document that start something, and variables of a document; more are left out.
const PLACES: usize = 64;
const VARIABLES: usize = 256;

/// Keys with variables.
const SET: [&str; 4] = ["env", "envs", "environment", "extraenv"];

/// What is started in one place.
struct Started<'a> {
    place: &'a [String],
    /// The image, before what it is told to run.
    image: Option<&'a str>,
    command: Vec<&'a str>,
    arguments: Vec<&'a str>,
}

/// The statements of a script, or of what a YAML runs.
pub(super) fn statements_of(text: &str, file: &str) -> Vec<Statement> {
    if is_yaml(file) { ran(text) } else { statements(text) }
}

/// The statements of all containers and steps; none where nothing has a command.
pub(super) fn ran(yaml: &str) -> Vec<Statement> {
    documents(yaml).flat_map(|all| of_document(&all)).collect()
}

fn of_document(all: &[Scalar]) -> Vec<Statement> {
    let set = variables(all);
    let mut found: Vec<Started> = Vec::new();
    for one in all {
        let Some(at) = one.path.iter().position(|part| runs(part)) else { continue };
        // Scripts among data are apart.
        let place = &one.path[..if one.path[at].ends_with(".sh") { at + 1 } else { at }];
        let known = found.iter().position(|started| started.place == place);
        if known.is_none() && found.len() >= PLACES {
            continue;
        }
        let known = known.unwrap_or_else(|| {
            let (command, arguments) = Default::default();
            found.push(Started { place, image: None, command, arguments });
            found.len() - 1
        });
        let started = &mut found[known];
        match one.path[at].to_ascii_lowercase().ends_with("args") {
            true => started.arguments.push(&one.text),
            false => started.command.push(&one.text),
        }
    }
    // Arguments that an image's own script adds: `VLLM_ADDITIONAL_ARGS`.
    let is_told = |name: &str, value: &str| name.ends_with("ARGS") && value.starts_with("--");
    for (place, name, value) in set.iter().filter(|(_, name, value)| is_told(name, value)) {
        let used = found.iter().any(|started| {
            let texts = started.command.iter().chain(&started.arguments);
            started.place == *place && texts.into_iter().any(|text| text.contains(name))
        });
        if used {
            continue;
        }
        match found.iter_mut().find(|started| started.place == *place) {
            Some(started) => started.arguments.push(value),
            None => {
                let (command, arguments) = (Vec::new(), vec![*value]);
                found.push(Started { place, image: None, command, arguments });
            }
        }
    }
    for started in &mut found {
        let image = |one: &&Scalar| {
            one.path.last().is_some_and(|key| key == "image")
                && one.path.len() == started.place.len() + 1
                && one.path.starts_with(started.place)
        };
        started.image = all.iter().find(image).map(|one| one.text.as_str());
    }
    found.iter().flat_map(|started| started.statements(&set)).collect()
}

impl Started<'_> {
    fn statements(&self, set: &[(&[String], &str, &str)]) -> Vec<Statement> {
        let words = self.image.iter().chain(&self.command).chain(&self.arguments);
        let words: Vec<String> = words.map(|text| worded(text)).collect();
        let above = set.iter().filter(|(place, _, _)| self.place.starts_with(place));
        let mut above: Vec<_> = above.map(|(_, name, value)| (*name, *value)).collect();
        // Those that the words name, and those that these name.
        let mut used: Vec<(&str, &str)> = Vec::new();
        loop {
            let is_named = |(name, _): &(&str, &str)| {
                words.iter().any(|word| word.contains(name))
                    || used.iter().any(|(_, value)| value.contains(name))
            };
            let (named, rest): (Vec<_>, Vec<_>) = above.into_iter().partition(is_named);
            above = rest;
            if named.is_empty() {
                break;
            }
            used.extend(named);
        }
        let above = used;
        let mut text = String::new();
        for (name, value) in above.iter().filter(|(_, value)| !value.contains(['\'', '\n'])) {
            text.push_str(&format!("{name}='{value}'\n"));
        }
        text.push_str(&words.join(" "));
        // Kubernetes' own way to name a variable, which is a shell's command.
        for (name, _) in &above {
            text = text.replace(&format!("$({name})"), &format!("${{{name}}}"));
        }
        statements(&text)
    }
}

/// A word of a command; a script has its own lines, and an object stays one word.
fn worded(text: &str) -> String {
    match text.split_once('{') {
        _ if text.contains('\n') => format!("\n{text}\n"),
        Some((flag, _)) if (flag.is_empty() || flag.ends_with('=')) && !text.contains('\'') => {
            format!("{flag}'{}'", &text[flag.len()..])
        }
        _ => text.to_owned(),
    }
}

/// Variables with the places below which they are set: lists of `name` and `value` or of `NAME=value`, and tables.
fn variables(all: &[Scalar]) -> Vec<(&[String], &str, &str)> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut found = Vec::new();
    let mut named: Option<(&[String], &str)> = None;
    for one in all {
        let set = |part: &String| SET.contains(&part.to_ascii_lowercase().as_str());
        let Some(at) = one.path.iter().position(set) else { continue };
        let (place, text) = (&one.path[..at], one.text.as_str());
        let variable = match &one.path[at + 1..] {
            [_, key] if key == "name" => {
                named = Some((&one.path[..at + 2], text));
                None
            }
            [_, key] if key == "value" => {
                named.filter(|(of, _)| one.path.starts_with(of)).map(|(_, name)| (name, text))
            }
            [entry] if entry.parse::<u32>().is_ok() => text.split_once('='),
            [name] => Some((name.as_str(), text)),
            _ => None,
        };
        found
            .extend(variable.filter(|(name, _)| is_name(name)).map(|(n, value)| (place, n, value)));
    }
    found.truncate(VARIABLES);
    found
}
