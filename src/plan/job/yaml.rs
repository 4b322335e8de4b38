//! The values of a YAML with their paths, as far as launches and options of servers are written: blocks, lists,
//! lists and tables in one line, texts of several lines.
//!
//! `base::yaml` refuses what it cannot represent, with the line; here anchors, tags and Helm's templates are left out,
//! and the rest of the file counts.

/// A value and where it is; places in a list are figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scalar {
    pub path: Vec<String>,
    pub text: String,
}

impl Scalar {
    /// Its path as options are named: `kv-cache-config.dtype`.
    pub fn option(&self) -> String {
        self.path.join(".").replace('_', "-")
    }
}

/// How deep tables may be inside each other; deeper lines are left out.
const DEEPEST: usize = 24;

/// Bytes of a key, values of a document, and lines and bytes of a value in brackets or quotes; more are left out.
const KEY: usize = 100;
const MOST: usize = 1 << 16;
const LINES: usize = 512;
const BYTES: usize = 1 << 16;

/// The values of a document, in its order.
pub(super) fn scalars(document: &str) -> Vec<Scalar> {
    let mut reader = Reader { lines: document.lines().collect(), ..Reader::default() };
    while reader.at < reader.lines.len() && reader.found.len() < MOST {
        reader.line();
    }
    reader.found
}

/// A key or an entry of a list that is being read.
struct Above {
    indent: usize,
    part: String,
    is_entry: bool,
    /// Entries of the list below it.
    entries: usize,
}

#[derive(Default)]
struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
    above: Vec<Above>,
    /// Entries of a list at the top.
    entries: usize,
    found: Vec<Scalar>,
}

impl<'a> Reader<'a> {
    /// Reads a line, with those that belong to its value.
    fn line(&mut self) {
        let line = self.lines[self.at];
        self.at += 1;
        let mut indent = indented(line);
        let mut rest = line.trim();
        if rest.is_empty() || ["#", "{{", "---"].iter().any(|mark| rest.starts_with(mark)) {
            return;
        }
        let mut own = None;
        while let Some(behind) = entry(rest) {
            self.above.retain(|one| one.indent < indent || one.indent == indent && !one.is_entry);
            let counted = self.above.last_mut().map_or(&mut self.entries, |one| &mut one.entries);
            let part = counted.to_string();
            *counted += 1;
            if self.above.len() >= DEEPEST {
                return;
            }
            self.above.push(Above { indent, part, is_entry: true, entries: 0 });
            own = Some(indent);
            indent += rest.len() - behind.len();
            rest = behind;
        }
        if let Some((key, value)) = keyed(rest) {
            self.above.retain(|one| one.indent < indent);
            if self.above.len() >= DEEPEST {
                return;
            }
            self.above.push(Above { indent, part: key.to_owned(), is_entry: false, entries: 0 });
            own = Some(indent);
            rest = value;
        } else if own.is_none() {
            self.above.retain(|one| one.indent < indent);
            own = self.above.last().map(|one| one.indent);
        }
        self.value(rest, own);
    }

    fn value(&mut self, text: &'a str, own: Option<usize>) {
        // An anchor or a tag before a value.
        let text = match text.split_once(char::is_whitespace) {
            Some((mark, rest)) if mark.starts_with(['&', '!']) => rest.trim_start(),
            _ => text,
        };
        let path: Vec<String> = self.above.iter().map(|one| one.part.clone()).collect();
        match text.chars().next() {
            None | Some('#') => {}
            Some(style @ ('|' | '>')) => {
                let text = self.block(own, style == '>');
                self.found.push(Scalar { path, text });
            }
            Some('[' | '{') if !text.starts_with("{{") => {
                let mut path = path;
                let whole = self.gathered(text, |whole| !open(whole));
                in_line(&whole, &mut path, &mut self.found);
            }
            Some(quote @ ('"' | '\'')) => {
                let whole = self.gathered(text, |whole| closing(whole, quote).is_some());
                let end = closing(&whole, quote).unwrap_or(whole.len());
                self.found.push(Scalar { path, text: unquoted(&whole[..end]) });
            }
            Some(_) => {
                let mut whole = uncommented(text).trim().to_owned();
                while let Some(next) = self.lines.get(self.at).filter(|next| {
                    let plain = next.trim();
                    own.is_some_and(|own| indented(next) > own)
                        && !plain.is_empty()
                        && !plain.starts_with('#')
                        && entry(plain).is_none()
                        && keyed(plain).is_none()
                }) {
                    whole.push(' ');
                    whole.push_str(uncommented(next).trim());
                    self.at += 1;
                }
                self.found.push(Scalar { path, text: whole });
            }
        }
    }

    /// A value of several lines, until it is whole.
    fn gathered(&mut self, text: &str, is_whole: impl Fn(&str) -> bool) -> String {
        let mut whole = text.get(..BYTES).unwrap_or(text).to_owned();
        let last = self.lines.len().min(self.at + LINES);
        while self.at < last && whole.len() < BYTES && !is_whole(&whole) {
            whole.push(' ');
            whole.push_str(uncommented(self.lines[self.at]).trim());
            self.at += 1;
        }
        whole
    }

    /// The lines of a text that is deeper than its key, without their common indent.
    fn block(&mut self, own: Option<usize>, folds: bool) -> String {
        let deeper =
            |line: &&&str| line.trim().is_empty() || own.is_none_or(|own| indented(line) > own);
        let lines: Vec<&str> = self.lines[self.at..].iter().take_while(deeper).copied().collect();
        self.at += lines.len();
        let full = lines.iter().filter(|line| !line.trim().is_empty());
        let common = full.map(|line| indented(line)).min().unwrap_or(0);
        let lines = lines.iter().map(|line| line.get(common..).unwrap_or("").trim_end());
        lines.collect::<Vec<_>>().join(if folds { " " } else { "\n" })
    }
}

/// What is behind the dash of an entry.
fn entry(text: &str) -> Option<&str> {
    match text.strip_prefix('-')? {
        "" => Some(""),
        behind => behind.starts_with(char::is_whitespace).then(|| behind.trim_start()),
    }
}

fn indented(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A key and what follows it.
fn keyed(text: &str) -> Option<(&str, &str)> {
    if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        let end = closing(text, quote)?;
        let value = text[end..].strip_prefix(':')?;
        return (value.is_empty() || value.starts_with(char::is_whitespace))
            .then(|| (&text[1..end - 1], value.trim_start()))
            .filter(|(key, _)| key.len() <= KEY);
    }
    let at = text.match_indices(':').map(|(at, _)| at).find(|at| {
        let behind = &text[at + 1..];
        behind.is_empty() || behind.starts_with(char::is_whitespace)
    })?;
    let key = &text[..at];
    let is_key = (1..=KEY).contains(&key.len())
        && !key.contains(|c: char| c.is_whitespace() || "[{\"'#".contains(c));
    is_key.then(|| (key, text[at + 1..].trim_start()))
}

/// The place behind the quote that closes the one at the begin of a text.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let found = text.char_indices().skip(1).find(|&(at, c)| {
        let closes = c == quote && !escaped;
        escaped = !escaped
            && match quote {
                '"' => c == '\\',
                // A quote that is doubled is one.
                _ => closes && text[at + 1..].starts_with(quote),
            };
        closes && !escaped
    });
    found.map(|(at, _)| at + 1)
}

/// A text without its quotes.
fn unquoted(text: &str) -> String {
    match text.chars().next() {
        Some('"') => {
            let inner = text[1..].strip_suffix('"').unwrap_or(&text[1..]);
            inner.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\")
        }
        Some('\'') => text[1..].strip_suffix('\'').unwrap_or(&text[1..]).replace("''", "'"),
        _ => text.to_owned(),
    }
}

/// Whether a value is as good as none: a switch that is off, or nothing.
pub(super) fn is_absent(text: &str) -> bool {
    let absent = ["", "false", "no", "off", "null", "~"];
    absent.contains(&text.to_ascii_lowercase().as_str())
}

fn uncommented(text: &str) -> &str {
    text.split_once(" #").map_or(text, |(before, _)| before)
}

/// Whether brackets of a text outside its quotes are not closed.
fn open(text: &str) -> bool {
    let (mut depth, mut behind) = (0_i64, 0);
    for (at, c) in text.char_indices() {
        if at < behind {
            continue;
        }
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            '"' | '\'' => match closing(&text[at..], c) {
                Some(length) => behind = at + length,
                None => return true,
            },
            _ => {}
        }
    }
    depth > 0
}

/// Reads a list or a table in one line, and returns what follows it.
fn in_line<'t>(text: &'t str, path: &mut Vec<String>, found: &mut Vec<Scalar>) -> &'t str {
    let is_table = text.starts_with('{');
    let mut rest = text.get(1..).unwrap_or("");
    let mut entries = 0_usize;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if rest.is_empty() {
            return rest;
        }
        if let Some(behind) = rest.strip_prefix([']', '}']) {
            return behind;
        }
        let mut part = entries.to_string();
        entries += 1;
        if is_table {
            let (key, behind) = one(rest, &[':', ',', '}']);
            part = unquoted(key.trim()).chars().take(KEY).collect();
            rest = behind.strip_prefix(':').unwrap_or(behind).trim_start();
        }
        path.push(part);
        if rest.starts_with(['[', '{']) && path.len() < DEEPEST {
            rest = in_line(rest, path, found);
        } else {
            let (value, behind) = one(rest, &[',', ']', '}']);
            let text = unquoted(value.trim());
            found.push(Scalar { path: path.clone(), text });
            // What is too deep is left out.
            rest = if behind.len() == rest.len() { behind.get(1..).unwrap_or("") } else { behind };
        }
        path.pop();
    }
}

/// A value up to one of `ends`, and the rest.
fn one<'t>(text: &'t str, ends: &[char]) -> (&'t str, &'t str) {
    let quoted = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let from = quoted.and_then(|quote| closing(text, quote)).unwrap_or(0);
    let end = text[from..].find(ends).map_or(text.len(), |at| from + at);
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_paths() {
        let text = "a:\n- b: 1 # one\n  c: [x, \"y, z\", {d: e}]\n- |\n  two\n    lines\n\nf: long\n  text\ng:\n  \"h\": 'it''s'\n  # no\n  i: {j: {k: false}, l: 2}\n";
        let found: Vec<String> = scalars(text)
            .iter()
            .map(|one| format!("{}={}", one.path.join("."), one.text))
            .collect();
        assert_eq!(
            found,
            [
                "a.0.b=1",
                "a.0.c.0=x",
                "a.0.c.1=y, z",
                "a.0.c.2.d=e",
                "a.1=two\n  lines\n",
                "f=long text",
                "g.h=it's",
                "g.i.j.k=false",
                "g.i.l=2"
            ]
        );
    }

    #[test]
    fn what_is_no_yaml_ends() {
        for text in
            ["[", "{", "{a", "{a:", "a: [", "'", "a: \"", "- - -", "|", "a: |", "é: {é", "{:", "]"]
        {
            scalars(text);
        }
        scalars(&format!("a: {}", "[".repeat(100_000)));
        scalars(&format!("a: {}", "{a: ".repeat(100_000)));
        scalars(&"- ".repeat(100_000));
        scalars(&format!("a: [\"{}", "\\\"\n".repeat(20_000)));
        let stairs: String = (0..500).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        scalars(&stairs);
    }
}
