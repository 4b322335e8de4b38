//! YAML and JSON, which is a part of YAML: maps, lists and texts, each with its line.
//!
//! Anchors, aliases, tags, keys that are not text and several documents are refused.

use std::borrow::Cow;
use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use super::refused::Refused;

mod values;
pub(crate) use values::{Scalar, documents, is_absent, scalars};

/// The most nested maps and lists.
const DEEPEST: usize = 64;

type Read<T> = Result<T, Refused>;

/// A value and the line on which it begins.
#[derive(Debug, PartialEq)]
pub(crate) struct Node<'t> {
    pub line: usize,
    pub value: Value<'t>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Value<'t> {
    /// Nothing, `~` or `null`.
    Null,
    /// A text or a number.
    Text(Cow<'t, str>),
    List(Vec<Node<'t>>),
    /// Keys in the order of the text.
    Map(Vec<(Cow<'t, str>, Node<'t>)>),
}

impl<'t> Node<'t> {
    pub fn refuse(&self, what: impl Into<String>) -> Refused {
        Refused::at(self.line, what)
    }

    /// The value of a key of a map; `None` if it is null.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        let found = entries.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        found.filter(|value| value.value != Value::Null)
    }

    /// The values of a list under a key; empty if the key is missing.
    pub fn list(&self, key: &str) -> Read<&[Self]> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Node { value: Value::List(values), .. }) => Ok(values),
            Some(other) => Err(other.refuse(format!("`{key}` is not a list"))),
        }
    }

    /// The text under a key.
    pub fn text(&self, key: &str) -> Read<&str> {
        match self.get(key) {
            Some(Node { value: Value::Text(text), .. }) => Ok(text),
            Some(other) => Err(other.refuse(format!("`{key}` is not text"))),
            None => Err(self.refuse(format!("`{key}` is missing"))),
        }
    }
}

/// Reads one document.
pub(crate) fn parse(text: &str) -> Read<Node<'_>> {
    read(text, false)
}

/// The same, where the last of a map's equal keys counts, as for programs that read their files with PyYAML.
pub(crate) fn parse_last(text: &str) -> Read<Node<'_>> {
    read(text, true)
}

fn read(text: &str, repeats: bool) -> Read<Node<'_>> {
    let mut events = Events { parser: Parser::new_from_str(text), line: 1, repeats };
    let node = loop {
        match events.next()? {
            Some(Event::StreamStart | Event::DocumentStart(_)) => {}
            // Nothing but comments.
            None | Some(Event::StreamEnd) => return Ok(Node { line: 1, value: Value::Null }),
            Some(first) => break events.node(first, 0)?,
        }
    };
    while let Some(event) = events.next()? {
        if let Event::DocumentStart(_) = event {
            return Err(events.refuse("a second document begins here").help("write one per file"));
        }
    }
    Ok(node)
}

struct Events<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    /// The line of the last event.
    line: usize,
    /// Whether a key may be repeated.
    repeats: bool,
}

impl<'t> Events<'t> {
    fn next(&mut self) -> Read<Option<Event<'t>>> {
        let Some(next) = self.parser.next_event() else { return Ok(None) };
        let (event, span) = next.map_err(|error| refused(&error))?;
        self.line = span.start.line();
        Ok(Some(event))
    }

    fn refuse(&self, what: impl Into<String>) -> Refused {
        Refused::at(self.line, what)
    }

    /// The value that an event begins.
    fn node(&mut self, first: Event<'t>, depth: usize) -> Read<Node<'t>> {
        let line = self.line;
        if depth >= DEEPEST && !matches!(first, Event::Scalar(..)) {
            return Err(self.refuse(format!("lists and maps are nested more than {DEEPEST} deep")));
        }
        let value = match first {
            Event::Scalar(text, style, 0, None) => match (style, text.as_ref()) {
                (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
                _ => Value::Text(text),
            },
            Event::SequenceStart(0, None) => {
                let mut values = Vec::new();
                while let Some(next) = self.part(&Event::SequenceEnd)? {
                    values.push(self.node(next, depth + 1)?);
                }
                Value::List(values)
            }
            Event::MappingStart(0, None) => Value::Map(self.entries(depth)?),
            _ => {
                return Err(self
                    .refuse("anchors, aliases and tags are not supported")
                    .help("write the file as JSON, or without them"));
            }
        };
        Ok(Node { line, value })
    }

    fn entries(&mut self, depth: usize) -> Read<Vec<(Cow<'t, str>, Node<'t>)>> {
        let (mut entries, mut seen) = (Vec::new(), HashSet::new());
        while let Some(next) = self.part(&Event::MappingEnd)? {
            let Event::Scalar(key, _, 0, None) = next else {
                return Err(self.refuse("a key is not text").help("write keys as plain text"));
            };
            if !seen.insert(key.clone()) && !self.repeats {
                return Err(self.refuse(format!("`{key}` appears twice in one map")));
            }
            let Some(value) = self.next()? else { break };
            entries.push((key, self.node(value, depth + 1)?));
        }
        if entries.len() > seen.len() {
            seen.clear();
            entries.reverse();
            entries.retain(|(key, _)| seen.insert(key.clone()));
            entries.reverse();
        }
        Ok(entries)
    }

    /// The next event inside a list or a map; `None` at its end.
    fn part(&mut self, end: &Event<'_>) -> Read<Option<Event<'t>>> {
        Ok(self.next()?.filter(|event| event != end))
    }
}

fn refused(error: &ScanError) -> Refused {
    let help = "the file may be cut off, or a line may be indented wrongly or lack quotes";
    Refused::at(error.marker().line(), format!("this is not YAML: {}", error.info())).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value as JSON, every scalar a text.
    fn json(node: &Node<'_>) -> serde_json::Value {
        match &node.value {
            Value::Null => serde_json::Value::Null,
            Value::Text(text) => text.as_ref().into(),
            Value::List(values) => values.iter().map(json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| (key.to_string(), json(value))).collect()
            }
        }
    }

    fn read(text: &str) -> serde_json::Value {
        json(&parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}")))
    }

    #[test]
    fn what_programs_write_is_read() {
        let text = "---\n# a comment\nname: 'two ''boxes'''\nlong: a text that\n  goes on # here\n\
                    lines: |-\n    one\n      two\n\n    three\nfolded: >\n  a\n  b\nempty:\n\
                    list:\n- x: 1\n  y: \"a\\u0041\\n\"\n- - p\n  - q\n-\n  z: 2.5\n\
                    flow: {a: [1, two, \"three\"], b: {}}\nurl: http://x/y#z\n\"quoted key\": ~\n";
        let wanted = serde_json::json!({
            "name": "two 'boxes'", "long": "a text that goes on", "lines": "one\n  two\n\nthree",
            "folded": "a b\n", "empty": null,
            "list": [{"x": "1", "y": "aA\n"}, ["p", "q"], {"z": "2.5"}],
            "flow": {"a": ["1", "two", "three"], "b": {}}, "url": "http://x/y#z", "quoted key": null
        });
        assert_eq!(read(text), wanted);
        assert_eq!(read("- a\n- b: c\n"), serde_json::json!(["a", {"b": "c"}]));
        assert_eq!(read("\r\na:\r\n  - b\r\n"), serde_json::json!({"a": ["b"]}));
    }

    #[test]
    fn json_is_read_with_its_lines() {
        let text = "{\n \"a\": [1, {\"b\":\"c\\\"d\"}],\n \"e\": null, \"f\":true\n}\n";
        let wanted = serde_json::json!({"a": ["1", {"b": "c\"d"}], "e": null, "f": "true"});
        assert_eq!(read(text), wanted);
        let node = parse(text).unwrap();
        assert_eq!(node.get("f").map(|value| value.line), Some(3));
        assert_eq!(node.get("e"), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let deep = "[".repeat(100);
        let dashes = "- ".repeat(100);
        for (text, line, says) in [
            ("a: 1\na: 2\n", 2, "`a` appears twice"),
            ("a: 1\n   b: 2\n", 2, "mapping values are not allowed"),
            ("a:\n  b: 1\n c: 2\n", 3, "did not find expected key"),
            ("a: *b\n", 1, "unknown anchor"),
            ("a: &b c\n", 1, "not supported"),
            ("? [a]\n: b\n", 1, "a key is not text"),
            ("a: !!int 3\n", 1, "not supported"),
            ("a: 1\n---\nb: 2\n", 2, "second document"),
            ("{\"a\": [1,\n2", 3, "expected ',' or ']'"),
            ("a: \"b\n", 1, "unexpected end of stream"),
            ("[1 2, \"x\" y]", 1, "invalid trailing content"),
            (deep.as_str(), 1, "are nested more"),
            (dashes.as_str(), 1, "are nested more"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.what.contains(says), "{text}: {refused:?}");
            assert_eq!(refused.line, Some(line), "{text}: {refused:?}");
        }
    }
}
