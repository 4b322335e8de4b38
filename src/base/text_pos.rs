//! Positions in a text that a person wrote: line, column, and the line itself.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::base::error::{Error, advice, brief};

/// A position in a text, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in that line.
    pub column: usize,
    /// The line itself, without blanks around it; the middle of a long one is left out.
    pub text: String,
}

impl Place {
    /// The position of a byte of a text; beyond the end, the end.
    #[must_use]
    pub fn at(text: &str, byte: usize) -> Self {
        let byte = text.floor_char_boundary(byte);
        let before = &text[..byte];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let shown = text.lines().nth(line).unwrap_or("").trim().to_owned();
        Self { line: line + 1, column, text: brief(shown) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// An error of the TOML reader in the words of this crate, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong.
    pub what: String,
    /// Where; absent if the reader does not say.
    pub place: Option<Place>,
    /// What would be accepted.
    pub help: Option<String>,
}

impl Refused {
    /// Reads the reader's error about `text`.
    #[must_use]
    pub fn new(error: &toml::de::Error, text: &str) -> Self {
        let (what, help) = said(error.message());
        Self { what, help, place: error.span().map(|span| Place::at(text, span.start)) }
    }

    /// The same as an error about the file `origin`.
    #[must_use]
    pub fn error(self, origin: &str) -> Error {
        let error = Error::profile(self.what);
        let error = match self.place {
            Some(place) => error.at_spot(origin, place),
            None => error.at(origin),
        };
        match self.help {
            Some(help) => error.help(help),
            None => error,
        }
    }
}

/// ``unknown field `libary`, expected one of `schema`, `library` `` as two lines.
fn said(message: &str) -> (String, Option<String>) {
    let mut lines = message.lines().map(str::trim);
    let first = lines.next().unwrap_or("cannot be read");
    let second = lines.next().map(str::to_owned);
    if let Some(key) = first.strip_prefix("missing field `") {
        let help = match key.trim_end_matches('`') {
            "schema" => "begin the file with schema = 1".to_owned(),
            key => format!("add {key} = …"),
        };
        return (first.to_owned(), Some(help));
    }
    let Some((what, expected)) = first.split_once(", expected ") else {
        return (first.to_owned(), second);
    };
    if expected.starts_with("a nonzero") {
        return (what.to_owned(), Some("write a whole number from 1, or leave it out".to_owned()));
    }
    if !what.starts_with("unknown ") {
        let expected = match expected {
            "f32" | "f64" => "a number",
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
            _ if expected.starts_with("struct ") => "a table",
            other => other,
        };
        return (what.to_owned(), Some(format!("write {expected}")));
    }
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    (what.to_owned(), Some(advice(what.split('`').nth(1).unwrap_or(""), &known)))
}

/// A TOML text with the positions of its keys and values.
pub struct Document<'a> {
    text: &'a str,
    root: Spanned<DeTable<'a>>,
    /// Where each line begins: many positions of a long file may be looked up.
    lines: Vec<usize>,
}

impl<'a> Document<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn parse(text: &'a str) -> Result<Self, Refused> {
        let root = DeTable::parse(text).map_err(|e| Refused::new(&e, text))?;
        let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Ok(Self { text, root, lines: std::iter::once(0).chain(ends).collect() })
    }

    /// The table of the whole text.
    pub(crate) fn root(&self) -> &DeTable<'a> {
        self.root.get_ref()
    }

    /// Where a span begins.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let line = self.lines.partition_point(|&begin| begin <= span.start).max(1) - 1;
        let begin = self.lines[line];
        let end = self.lines.get(line + 1).map_or(self.text.len(), |next| next - 1);
        Place { line: line + 1, ..Place::at(&self.text[begin..end], span.start - begin) }
    }

    /// The position of the value at a path such as `tier.0.alpha.value`. If the path does not exist
    /// as a whole, the position of the longest part that does.
    #[must_use]
    pub fn value(&self, path: &str) -> Place {
        let mut span = 0..0;
        let mut table = Some(self.root());
        let mut array = None;
        for part in path.split('.') {
            let found: Option<&Spanned<DeValue<'_>>> = match (table, array) {
                (Some(table), _) => table.get(part),
                (None, Some(array)) => {
                    part.parse().ok().and_then(|i: usize| DeValue::get(array, i))
                }
                _ => None,
            };
            let Some(found) = found else { break };
            span = found.span();
            table = found.get_ref().as_table();
            array = Some(found.get_ref());
        }
        self.place(&span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema = 1\nnames = [\"a\", \"b\"]\n[[tier]]\nname = \"x\"\n\
                        [tier.alpha]\nvalue = \"µs\" # 5us\nlow = 2\n[launch.any]\nvalue = 3\n";

    #[test]
    fn values_say_where_they_stand() {
        let document = Document::parse(TEXT).unwrap();
        let at = |path: &str| document.value(path).to_string();
        assert_eq!(at("schema"), "1:10: schema = 1");
        assert_eq!(at("names.1"), "2:15: names = [\"a\", \"b\"]");
        assert_eq!(at("tier.0.name"), "4:8: name = \"x\"");
        assert_eq!(at("tier.0.alpha"), "5:1: [tier.alpha]");
        assert_eq!(at("tier.0.alpha.source"), "5:1: [tier.alpha]");
        assert_eq!(at("tier.0.alpha.low"), "7:7: low = 2");
        assert_eq!(at("tier.0"), "3:1: [[tier]]");
        assert_eq!(at("launch.any.value"), "9:9: value = 3");
        assert_eq!(at("nothing"), "1:1: schema = 1");
    }

    #[test]
    fn the_readers_words_become_two_lines() {
        let unknown = "unknown field `libary`, expected one of `schema`, `library`";
        let help = Some("did you mean `library`?".to_owned());
        assert_eq!(said(unknown), ("unknown field `libary`".to_owned(), help));
        assert_eq!(said("plain"), ("plain".to_owned(), None));
        let number = said("invalid type: string \"50%\", expected f64");
        assert_eq!(number.1.as_deref(), Some("write a number"));
    }
}
