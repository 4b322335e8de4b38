//! Command arguments in files: shell scripts with arrays, variables and continued lines, or command
//! lines inside a page.

use std::collections::BTreeMap;

/// `--key value` pairs of a text; a key without value has an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Arguments {
    found: BTreeMap<String, String>,
}

impl Arguments {
    /// The arguments of a script, with its variables replaced. What is known only at run time
    /// (`$1`, `$(…)`) is unchanged.
    pub fn of(text: &str) -> Self {
        let plain = joined(text);
        let variables = variables(&plain);
        let mut found = BTreeMap::new();
        for line in plain.lines().filter(|l| !l.trim_start().starts_with('#')) {
            let mut words = words(&expanded(line, &variables)).into_iter().peekable();
            while let Some(word) = words.next() {
                let Some(key) = key(&word) else { continue };
                let key = key.trim_end_matches(')');
                if let Some((key, value)) = key.split_once('=') {
                    found.insert(named(key), value.trim_end_matches(')').to_owned());
                    continue;
                }
                let value =
                    words.next_if(|next| !next.starts_with('-') || next.parse::<f64>().is_ok());
                let value = value.unwrap_or_default();
                found.insert(named(key), value.trim_end_matches(')').to_owned());
            }
        }
        Self { found }
    }

    /// The same for a flat table in YAML: `key: value`.
    pub fn of_yaml(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let line = line.split(" #").next().unwrap_or("");
            let (key, value) = line.split_once(':')?;
            let key = key.trim().trim_start_matches("- ");
            let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            let value = value.trim().trim_matches(['"', '\'']);
            // A switch that is off counts as absent.
            (plain && !key.is_empty() && value != "false").then(|| (named(key), value.to_owned()))
        });
        Self { found: lines.collect() }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.found.get(key).map(String::as_str)
    }

    pub fn has(&self, key: &str) -> bool {
        self.found.contains_key(key)
    }

    /// The first of several names that has a value.
    pub fn any(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key)).filter(|v| !v.is_empty())
    }

    pub fn number(&self, keys: &[&str]) -> Option<u32> {
        self.any(keys)?.parse().ok()
    }
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

/// Joins lines that end in a backslash; text between parentheses is one line.
fn joined(text: &str) -> String {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_i32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = (depth - 1).max(0),
            _ => {}
        }
        out.push(if c == '\n' && depth > 0 { ' ' } else { c });
    }
    out
}

/// `NAME=value` and `NAME=(a b c)`.
fn variables(text: &str) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    for line in text.lines() {
        for part in statements(line) {
            let part = part.trim().trim_start_matches("export ").trim_start_matches("local ");
            let Some((name, value)) = part.split_once('=') else { continue };
            let name = name.trim_end_matches('+');
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                continue;
            }
            let value = value.trim().trim_start_matches('(').trim_end_matches(')');
            let value = value.trim_matches(['"', '\'']).to_owned();
            let value = expanded(&value, &known);
            known.insert(name.to_owned(), value);
        }
    }
    known
}

/// Statements of a line: cut at `;` outside quotes and parentheses.
fn statements(line: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start) = (0_i32, None, 0);
    let mut parts = Vec::new();
    for (i, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ';') if depth <= 0 => {
                parts.push(&line[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    parts
}

/// Replaces `$NAME`, `${NAME}`, `${NAME[@]}` and `${NAME:-absent}` by their values.
fn expanded(line: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (inner, end) = match after.strip_prefix('{') {
            Some(braced) => match braced.find('}') {
                Some(close) => (&braced[..close], close + 2),
                None => (after, after.len()),
            },
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let end = end.unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        let (name, absent) = inner.split_once(":-").unwrap_or((inner, ""));
        let name = name.trim_end_matches("[@]").trim_end_matches("[*]");
        match known.get(name) {
            Some(value) => out.push_str(value),
            None if !absent.is_empty() => out.push_str(absent),
            None => {
                out.push('$');
                out.push_str(&after[..end.min(after.len())]);
            }
        }
        rest = &after[end.min(after.len())..];
    }
    out.push_str(rest);
    out
}

fn words(line: &str) -> Vec<String> {
    let cut = |c: char| c.is_whitespace() || c == '(' || c == '"' || c == '\'' || c == '`';
    line.split(cut).filter(|w| !w.is_empty() && *w != ")").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_variables_and_line_ends_are_followed() {
        let text = "TP=2; CP=${CP:-4}\nARGS=(\n  --tp $TP # two\n  --flag\n)\nrun ${ARGS[@]} --lr 1e-4 \\\n --cp=$CP";
        let found = Arguments::of(text);
        assert_eq!(found.get("tp"), Some("2"));
        assert_eq!(found.get("cp"), Some("4"));
        assert_eq!(found.get("lr"), Some("1e-4"));
        assert!(found.has("flag"));
        let short = Arguments::of("serve -tp 4 -pp=2 -ep --x - -1");
        assert_eq!(
            (short.get("-tp"), short.get("-pp"), short.get("-ep")),
            (Some("4"), Some("2"), Some(""))
        );
    }
}
