//! The values of YAML that people keep for other programs, with their paths.
//!
//! Anchors and merges are followed, tags are left out, and a template of Helm or Jinja stays as it is written. Of a
//! document with an error, what is before it counts.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

use super::DEEPEST;

/// A value and where it is; places in a list are figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub path: Vec<String>,
    pub text: String,
}

impl Scalar {
    /// Its path as options are named: `kv-cache-config.dtype`.
    pub fn option(&self) -> String {
        self.path.join(".").replace('_', "-")
    }
}

/// Values of a document, bytes of a key (Kubernetes' longest has 317), and bytes of values that are copied: a document
/// counts up to more.
const MOST: usize = 1 << 16;
const KEY: usize = 317;
const COPIED: usize = 1 << 24;

/// The values of all documents of a text, in its order.
pub(crate) fn scalars(text: &str) -> Vec<Scalar> {
    documents(text).flatten().collect()
}

/// The values of each document: one that is no YAML does not hide the next.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Vec<Scalar>> {
    text.split("\n---").map(|document| {
        let (document, templates) = without_templates(document);
        let parser = Parser::new_from_str(&document);
        let (path, found, named) = Default::default();
        let mut reader = Reader { parser, path, found, named, left: COPIED };
        let whole = reader.document();
        let mut found = reader.found;
        if whole.is_none() {
            // What is no YAML may be a part of the last one.
            found.pop();
        }
        for Scalar { path, text } in &mut found {
            for one in path.iter_mut().chain([text]).filter(|one| one.contains(MARK)) {
                *one = with_templates(one, &templates);
            }
        }
        found
    })
}

/// Whether a value is as good as none: a switch that is off, or nothing.
pub(crate) fn is_absent(text: &str) -> bool {
    let absent = ["", "false", "no", "off", "null", "~"];
    absent.contains(&text.to_ascii_lowercase().as_str())
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Where it is.
    path: Vec<String>,
    found: Vec<Scalar>,
    /// The values below each anchor, and how long its own path is.
    named: HashMap<usize, (usize, Range<usize>)>,
    /// Bytes that may be copied.
    left: usize,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                Event::StreamStart | Event::DocumentStart(_) => {}
                Event::StreamEnd | Event::DocumentEnd => return Some(()),
                first => self.node(first)?,
            }
        }
    }

    /// The next event; `None` from an error on.
    fn next(&mut self) -> Option<Event<'t>> {
        let next = (self.found.len() < MOST).then(|| self.parser.next_event()?.ok());
        next.flatten().map(|(event, _)| event)
    }

    fn node(&mut self, first: Event<'t>) -> Option<()> {
        let from = self.found.len();
        let anchor = match first {
            Event::Scalar(text, style, anchor, _) => {
                // Lines of a command that are deeper than its first are still its own.
                let text = match style {
                    ScalarStyle::Folded => text.trim_end().replace('\n', " "),
                    _ => text.into_owned(),
                };
                if style != ScalarStyle::Plain || !text.is_empty() {
                    self.found.push(Scalar { path: self.path.clone(), text });
                }
                anchor
            }
            Event::SequenceStart(anchor, _) => {
                for place in 0_usize.. {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        entry => self.below(place.to_string(), entry)?,
                    }
                }
                anchor
            }
            Event::MappingStart(anchor, _) => {
                self.entries()?;
                anchor
            }
            Event::Alias(anchor) => {
                self.copy(anchor, &HashSet::new())?;
                0
            }
            _ => return None,
        };
        if anchor > 0 {
            self.named.insert(anchor, (self.path.len(), from..self.found.len()));
        }
        Some(())
    }

    fn below(&mut self, part: String, first: Event<'t>) -> Option<()> {
        if self.path.len() >= DEEPEST || part.len() > KEY {
            return None;
        }
        self.path.push(part);
        self.node(first)?;
        self.path.pop();
        Some(())
    }

    fn entries(&mut self) -> Option<()> {
        let (mut own, mut merged) = (HashSet::new(), Vec::new());
        loop {
            let Event::Scalar(key, ..) = (match self.next()? {
                Event::MappingEnd => break,
                key => key,
            }) else {
                return None;
            };
            match self.next()? {
                Event::Alias(anchor) if key == "<<" => merged.push(anchor),
                Event::SequenceStart(..) if key == "<<" => loop {
                    match self.next()? {
                        Event::Alias(anchor) => merged.push(anchor),
                        Event::SequenceEnd => break,
                        _ => return None,
                    }
                },
                value => {
                    own.insert(key.to_string());
                    self.below(key.into_owned(), value)?;
                }
            }
        }
        for anchor in merged {
            self.copy(anchor, &own)?;
        }
        Some(())
    }

    /// The values below an anchor once more, here; without those of keys that are given here.
    fn copy(&mut self, anchor: usize, given: &HashSet<String>) -> Option<()> {
        let (above, values) = self.named.get(&anchor).cloned()?;
        for at in values.take(MOST.saturating_sub(self.found.len())) {
            let below = &self.found[at].path[above..];
            if below.first().is_some_and(|key| given.contains(key)) {
                continue;
            }
            let path = [&self.path, below].concat();
            let text = self.found[at].text.clone();
            let bytes = path.iter().map(String::len).sum::<usize>() + text.len();
            self.left = self.left.checked_sub(bytes)?;
            if path.len() <= DEEPEST {
                self.found.push(Scalar { path, text });
            }
        }
        Some(())
    }
}

/// Lines below its first in which a template may end.
const LINES: usize = 64;

/// Blanks before brackets that close a list on a line of their own.
const DEEPER: usize = 80;

/// What stands for a template while YAML is read, around its number.
const MARK: char = '\u{e000}';

/// The beginnings of templates and of their comments, and their ends.
const TEMPLATES: [(&str, &str); 3] = [("{{", "}}"), ("{%", "%}"), ("{#", "#}")];

/// A text whose templates are numbers between marks, with those; lines that are nothing else are left out, and brackets
/// are where the parser takes them.
fn without_templates(text: &str) -> (String, Vec<&str>) {
    let (mut whole, mut templates) = (String::with_capacity(text.len()), Vec::new());
    // What ends a template of several lines.
    let mut open: Option<&str> = None;
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let alone = line.trim();
        if let Some(end) = open {
            open = Some(end).filter(|end| !alone.contains(end));
            whole.push('\n');
            continue;
        }
        let begun = TEMPLATES.iter().find(|(begin, _)| alone.starts_with(begin));
        // Of several lines are comments and Jinja's; a line of a script may begin so, too.
        let is_open = |(begin, end): &&(&str, &str)| {
            let may = *begin != "{{" || alone.contains("/*");
            may && !alone.contains(end) && lines.clone().take(LINES).any(|line| line.contains(end))
        };
        if let Some((_, end)) = begun.filter(is_open) {
            open = Some(*end);
            whole.push('\n');
            continue;
        }
        let mut rest = line;
        let (mut left, first) = (String::new(), templates.len());
        while let Some((before, template, behind)) = template(rest) {
            left.push_str(before);
            left.push_str(&format!("{MARK}{}{MARK}", templates.len()));
            templates.push(template);
            rest = behind;
        }
        left.push_str(rest);
        if begun.is_some() && is_nothing_else(&left) {
            templates.truncate(first);
            whole.push('\n');
            continue;
        }
        if !alone.is_empty() && alone.chars().all(|c| "]},".contains(c)) {
            // Go and Python let a list in brackets end where its key begins; the parser does not.
            whole.push_str(&" ".repeat(DEEPER));
        }
        whole.push_str(&left);
    }
    (whole, templates)
}

/// Whether a line is templates, and perhaps a comment.
fn is_nothing_else(line: &str) -> bool {
    let mut inside = false;
    for c in line.trim().chars() {
        match c {
            MARK => inside = !inside,
            '#' if !inside => return true,
            c if !inside && !c.is_whitespace() => return false,
            _ => {}
        }
    }
    true
}

/// The first template of a line, between what is before and behind it.
fn template(line: &str) -> Option<(&str, &str, &str)> {
    let all = TEMPLATES.iter().filter_map(|(begin, end)| {
        let from = line.find(begin)?;
        Some((from, from + line[from..].find(end)? + end.len()))
    });
    let (from, to) = all.min()?;
    Some((&line[..from], &line[from..to], &line[to..]))
}

fn with_templates(text: &str, templates: &[&str]) -> String {
    let parts = text.split(MARK).enumerate().map(|(at, part)| match part.parse::<usize>() {
        Ok(number) if at % 2 == 1 => templates.get(number).copied().unwrap_or(part),
        _ => part,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let found = scalars(text);
        found.iter().map(|one| format!("{}={}", one.path.join("."), one.text)).collect()
    }

    #[test]
    fn values_have_paths() {
        let text = "a:\n- b: 1 # one\n  c: [x, \"y, z\", {d: e}]\n- |\n  two\n    lines\n\nf: >-\n  long\n    text\ng:\n  \"h\": 'it''s'\n  # no\n  i: {j: {k: !!bool false}, l: 2}\n---\nm: ''\n";
        assert_eq!(
            read(text),
            [
                "a.0.b=1",
                "a.0.c.0=x",
                "a.0.c.1=y, z",
                "a.0.c.2.d=e",
                "a.1=two\n  lines\n",
                "f=long   text",
                "g.h=it's",
                "g.i.j.k=false",
                "g.i.l=2",
                "m="
            ]
        );
    }

    #[test]
    fn anchors_and_merges_are_followed() {
        assert_eq!(
            read("a: &a {b: 1}\nc: &c {d: 2}\ne:\n  <<: [*a, *c]\n"),
            ["a.b=1", "c.d=2", "e.b=1", "e.d=2"]
        );
        let text = "x: &x\n  a: 1\n  b: [2, 3]\ny:\n  <<: *x\n  a: 4\nz: *x\n";
        assert_eq!(
            read(text),
            [
                "x.a=1", "x.b.0=2", "x.b.1=3", "y.a=4", "y.b.0=2", "y.b.1=3", "z.a=1", "z.b.0=2",
                "z.b.1=3"
            ]
        );
    }

    #[test]
    fn templates_stay_as_they_are_written() {
        assert_eq!(read("  a: [\n    b\n  ]\n  c: {\n    d: e,\n  }\n"), ["a.0=b", "c.d=e"]);
        assert_eq!(
            read("a: |\n  {{ b\n  ${#c[@]} {{ d }}\ne: 1\n"),
            ["a={{ b\n${#c[@]} {{ d }}\n", "e=1"]
        );
        let text = "{{- /*\nx: y\n*/ -}}\n{# no #}\n{{- if .Values.a }} # why\na: {{ .Values.b | default \"c: d\" }}:{{ $e }}\n{{- end }}\nf:\n- \"--g={{ .h }}\"\n- |\n  i {{ j }}\n{% endif %}\nk: 1\n";
        assert_eq!(
            read(text),
            [
                "a={{ .Values.b | default \"c: d\" }}:{{ $e }}",
                "f.0=--g={{ .h }}",
                "f.1=i {{ j }}\n",
                "k=1"
            ]
        );
    }

    #[test]
    fn what_is_no_yaml_hides_only_the_rest_of_its_document() {
        assert_eq!(read("a: 1\nb: 2\n c: 3\n---\nd: 4\n"), ["a=1", "d=4"]);
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
        let doubled: String =
            (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)).collect();
        assert!(scalars(&format!("a0: &a0 x\n{doubled}")).len() <= MOST);
    }
}
