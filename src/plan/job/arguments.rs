//! Command arguments in files: shell scripts with arrays, variables and continued lines, or command
//! lines inside a page.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::shell::Statement;

/// `--key value` pairs of a text; a key without value has an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Arguments {
    found: BTreeMap<String, Given>,
    /// Keys and values in branches of which it is not known whether they run, by the condition.
    open: BTreeMap<String, Vec<(String, String)>>,
    /// The keys that a reader has asked for.
    asked: RefCell<BTreeSet<String>>,
}

/// The places of what stands below all that is written, and above.
const BELOW: usize = 0;
const ABOVE: usize = usize::MAX;

/// A value, and its place among all that were written. Of several names of one option the last one counts, as of
/// one name that is written twice: argparse and click set one variable.
#[derive(Debug, Clone, PartialEq)]
struct Given {
    value: String,
    at: usize,
}

impl Arguments {
    /// The arguments of some statements of a script, of all branches that may run.
    pub fn read(statements: Vec<Statement>) -> Self {
        let (mut found, mut at) = (BTreeMap::new(), BELOW);
        let mut undecided: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for Statement { text, open } in statements {
            let mut words = words(&text).into_iter().peekable();
            while let Some(word) = words.next() {
                let Some(key) = key(&word) else { continue };
                let is_value =
                    |next: &String| !next.starts_with('-') || next.parse::<f64>().is_ok();
                let (key, mut value) = match key.split_once('=') {
                    Some((key, value)) => (named(key), value.to_owned()),
                    None => {
                        let key = named(key.trim_end_matches(')'));
                        (key, words.next_if(is_value).unwrap_or_default())
                    }
                };
                let more = |next: &String| match &*key {
                    "num-experts" => next.parse::<u32>().is_ok(),
                    key => LISTS.contains(&key) && is_value(next),
                };
                while let Some(more) = words.next_if(more) {
                    value.push(' ');
                    value.push_str(&more);
                }
                let value = closed(&value).to_owned();
                if let Some(condition) = open.clone() {
                    undecided.entry(condition).or_default().push((key.clone(), value.clone()));
                }
                at += 1;
                found.insert(key, Given { value, at });
            }
        }
        Self { found, open: undecided, ..Self::default() }
    }

    /// What was read although only a run of the script decides it, with the value that counts where branches have
    /// several.
    pub fn open(&self) -> impl Iterator<Item = String> {
        self.open.iter().map(|(condition, read)| {
            let mut keys: Vec<String> = Vec::new();
            for (at, (key, _)) in read.iter().enumerate() {
                if read[..at].iter().any(|(known, _)| known == key) {
                    continue;
                }
                let taken = self.get(key).unwrap_or_default();
                let mut others: Vec<&str> = Vec::new();
                for (_, value) in read.iter().filter(|(of, _)| of == key) {
                    if *value != taken && !value.is_empty() && !others.contains(&&**value) {
                        others.push(value);
                    }
                }
                keys.push(match others.is_empty() {
                    true => format!("--{key}"),
                    false if taken.is_empty() => {
                        format!("--{key} without a value (not {})", others.join(", "))
                    }
                    false => format!("--{key} {taken} (not {})", others.join(", ")),
                });
            }
            format!("all branches of `{condition}`: {}", keys.join(", "))
        })
    }

    /// The same for a flat table in YAML: `key: value`, or `--key: value` as Megatron-LM's own runs have it.
    pub fn of_yaml(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let line = line.split(" #").next().unwrap_or("");
            let (key, value) = line.split_once(':')?;
            let key = key.trim().trim_start_matches("- ").trim_start_matches("--");
            let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            let value = value.trim().trim_matches(['"', '\'']);
            // A switch that is off counts as absent.
            let given = Given { value: value.to_owned(), at: BELOW };
            (plain && !key.is_empty() && value != "false").then(|| (named(key), given))
        });
        Self { found: lines.collect(), ..Self::default() }
    }

    /// Adds arguments that stand below these.
    pub fn put_below(&mut self, others: impl Iterator<Item = (String, String)>) {
        for (key, value) in others {
            self.found.entry(key).or_insert(Given { value, at: BELOW });
        }
    }

    /// Adds arguments that stand above these.
    pub fn put_above(&mut self, others: impl Iterator<Item = (String, String)>) {
        for (key, value) in others {
            self.found.insert(key, Given { value, at: ABOVE });
        }
    }

    /// The same of one.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.put_above(std::iter::once((key.to_owned(), value.into())));
    }

    /// Leaves out switches that are off, for programs whose switches have values.
    pub fn without_off(&mut self) {
        self.found.retain(|_, given| !is_off(&given.value));
    }

    /// Sets what a program assumes if it is not told.
    pub fn put_usual(&mut self, key: &str, value: &str) {
        self.put_below(std::iter::once((key.to_owned(), value.to_owned())));
    }

    /// All keys with their values.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.found.iter().map(|(key, given)| (key.as_str(), given.value.as_str()))
    }

    /// The keys that no reader has asked for.
    pub fn unasked(&self) -> impl Iterator<Item = &str> {
        let asked = self.asked.borrow().clone();
        self.found.keys().filter(move |key| !asked.contains(*key)).map(String::as_str)
    }

    /// Counts what was asked of others as asked of these.
    pub fn ask_as(&self, others: &Self) {
        self.asked.borrow_mut().extend(others.asked.borrow().iter().cloned());
    }

    /// Gives keys their whole names.
    pub fn rename(&mut self, whole: impl Fn(&str) -> Option<&'static str>) {
        let mut found: Vec<_> = std::mem::take(&mut self.found).into_iter().collect();
        found.sort_by_key(|(_, given)| given.at);
        for (key, given) in found {
            self.found.insert(whole(&key).map_or(key, str::to_owned), given);
        }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.given(key).map(|given| given.value.as_str())
    }

    fn given(&self, key: &str) -> Option<&Given> {
        let (key, given) = self.found.get_key_value(key)?;
        self.asked.borrow_mut().insert(key.clone());
        Some(given)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The same, also for a part of an object: `--key.part`.
    pub fn has_part(&self, key: &str) -> bool {
        self.has(key) | (self.parts(key).count() > 0)
    }

    /// The parts of an object that have flags of their own, with their values: `--key.part value`.
    pub fn parts<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.found.iter().filter_map(move |(found, given)| {
            let part = found.strip_prefix(key)?.strip_prefix('.')?;
            self.asked.borrow_mut().insert(found.clone());
            Some((part, given.value.as_str()))
        })
    }

    /// The value of an option with several names. Of those below or above a command the first name counts.
    pub fn any(&self, keys: &[&str]) -> Option<&str> {
        // The others are asked for too: they say the same.
        let found = keys.iter().rev().filter_map(|key| self.given(key));
        found.max_by_key(|given| given.at).map(|given| &*given.value).filter(|v| !v.is_empty())
    }

    pub fn number(&self, keys: &[&str]) -> Option<u32> {
        self.any(keys)?.parse().ok()
    }
}

/// Whether the value of a switch means that it is off, as Python's programs read it.
pub(super) fn is_off(value: &str) -> bool {
    let off = ["false", "no", "off", "0", "null", "none"];
    off.contains(&value.trim().to_ascii_lowercase().as_str())
}

/// Keys with several words.
const LISTS: [&str; 6] = [
    "recompute-modules",
    "lora-target-modules",
    "target-modules",
    "lora-target",
    "lora-modules-to-save",
    "fsdp",
];

/// A value without the brackets that close the arrays around it.
fn closed(value: &str) -> &str {
    let own = value.matches('(').count();
    let surplus = value.matches(')').count().saturating_sub(own);
    let after = value.len() - value.trim_end_matches(')').len();
    &value[..value.len() - surplus.min(after)]
}

/// The key of a word: `--key`, or `-k`, which keeps its dash.
fn key(word: &str) -> Option<&str> {
    match word.strip_prefix("--") {
        Some(key) => Some(key).filter(|key| !key.is_empty()),
        None => Some(word).filter(|word| {
            word.strip_prefix('-').is_some_and(|k| k.starts_with(|c: char| c.is_ascii_alphabetic()))
        }),
    }
}

fn named(key: &str) -> String {
    key.trim().replace('_', "-")
}

/// Brackets before a list.
const DEEPEST: usize = 32;

/// The words of a line; a bracket before a list, as in `([0]*3+[1]*58)`, is part of its word, and so is what is
/// quoted behind `--key=`, or is an object in quotes.
fn words(line: &str) -> Vec<String> {
    let cut = |c: char| c.is_whitespace() || matches!(c, '(' | '"' | '\'' | '`');
    // As in the layout `E|(tt|)*4|L`.
    let inside = |word: &str| word.ends_with(|c: char| c == '|' || c.is_ascii_alphanumeric());
    let lists = |at: usize| line[at..].chars().take(DEEPEST).find(|c| *c != '(') == Some('[');
    let mut words = vec![String::new()];
    let mut quoted: Option<char> = None;
    for (at, c) in line.char_indices() {
        match words.last_mut() {
            _ if quoted == Some(c) => quoted = None,
            Some(word) if quoted.is_some() => word.push(c),
            Some(word)
                if matches!(c, '"' | '\'') && word.starts_with('-') && word.ends_with('=') =>
            {
                quoted = Some(c).filter(|c| line[at + 1..].contains(*c));
            }
            // An object is one word.
            Some(word) if c == '\'' && line[at + 1..].starts_with('{') => {
                if !word.is_empty() {
                    words.push(String::new());
                }
                quoted = Some(c).filter(|c| line[at + 1..].contains(*c));
            }
            Some(word) if !cut(c) || (c == '(' && (inside(word) || lists(at))) => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty() && word != ")");
    words
}

#[cfg(test)]
mod tests {
    use super::super::shell::statements;
    use super::*;

    fn of_text(text: &str) -> Arguments {
        Arguments::read(statements(text))
    }

    #[test]
    fn arrays_variables_and_line_ends_are_followed() {
        let text = "TP=2; CP=${CP:-4}\nARGS=(\n  --tp $TP # two\n  --flag\n)\nrun ${ARGS[@]} --lr 1e-4 \\\n --cp=$CP";
        let found = of_text(text);
        assert_eq!(found.get("tp"), Some("2"));
        assert_eq!(found.get("cp"), Some("4"));
        assert_eq!(found.get("lr"), Some("1e-4"));
        assert!(found.has("flag"));
        let lists = of_text(
            "A=(--freq ([1]*3+[0]*1)*8 --recompute-modules core_attn moe_act --last ([0]+[1]*2))",
        );
        assert_eq!(lists.get("freq"), Some("([1]*3+[0]*1)*8"));
        assert_eq!(lists.get("recompute-modules"), Some("core_attn moe_act"));
        assert_eq!(lists.get("last"), Some("([0]+[1]*2)"));
        let quoted = of_text("T=8; serve --tp=\"$T\" --pp='2' --x='{\"a\": 1}' --y=\"");
        let of = |key| quoted.get(key);
        assert_eq!(
            (of("tp"), of("pp"), of("x"), of("y")),
            (Some("8"), Some("2"), Some("{\"a\": 1}"), Some(""))
        );
        let twice = of_text("serve --tensor-parallel-size 4 -tp 8 --tp=2 -tp 16");
        assert_eq!(twice.any(&["tensor-parallel-size", "tp", "-tp"]), Some("16"));
        let short = of_text("serve -tp 4 -pp=2 -ep --x - -1");
        assert_eq!(
            (short.get("-tp"), short.get("-pp"), short.get("-ep")),
            (Some("4"), Some("2"), Some(""))
        );
    }
}
