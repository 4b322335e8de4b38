//! The part of YAML that programs write, and JSON, which is a part of YAML: maps, lists and texts,
//! each with its line.
//!
//! Blocks by indentation, `[a, b]` and `{a: b}`, plain and quoted texts over several lines, `|` and
//! `>`, comments. Anchors, aliases, tags, keys that are not text and several documents are refused.
//!
//! Source: the YAML 1.2.2 specification, yaml.org/spec/1.2.2.

use std::borrow::Cow;
use std::collections::HashSet;

use super::refused::Refused;

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
    let mut reader = Reader { text, at: 0, line: 1, line_start: 0 };
    reader.skip_blank();
    if reader.rest().starts_with("---") {
        reader.at += 3;
    }
    let node = reader.block(0, 0)?;
    reader.skip_blank();
    let rest = reader.rest();
    if rest.starts_with("---") {
        return Err(reader.refuse("a second document begins here").help("write one per file"));
    }
    if !rest.is_empty() && rest.trim_end() != "..." {
        return Err(reader
            .refuse("unexpected text after the value read so far")
            .help("indent it like the lines that it belongs to"));
    }
    Ok(node)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    line_start: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn column(&self) -> usize {
        self.at - self.line_start
    }

    fn refuse(&self, what: impl Into<String>) -> Refused {
        Refused::at(self.line, what)
    }

    /// Goes to the next line.
    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// The rest of this line.
    fn line_rest(&self) -> &'t str {
        self.rest().split('\n').next().unwrap_or("")
    }

    /// Skips spaces, ends of lines and comments.
    fn skip_blank(&mut self) {
        loop {
            self.skip_spaces();
            match self.peek() {
                Some(b'\n') => self.newline(),
                Some(b'#') => self.at += self.line_rest().len(),
                _ => return,
            }
        }
    }

    /// Whether nothing but a comment is left of the line; skips the blanks before it.
    fn is_line_done(&mut self) -> bool {
        self.skip_spaces();
        matches!(self.peek(), None | Some(b'\n' | b'#'))
    }

    /// Refuses text after a value on its line.
    fn end_line(&mut self) -> Read<()> {
        if self.is_line_done() {
            return Ok(());
        }
        Err(self.refuse(format!("`{}` after a value", self.line_rest().trim_end())))
    }

    fn is_dash(&self) -> bool {
        let mut bytes = self.rest().bytes();
        bytes.next() == Some(b'-') && matches!(bytes.next(), None | Some(b' ' | b'\n' | b'\r'))
    }

    /// The value that begins at or after a column; null if something further left comes first.
    fn block(&mut self, least: usize, depth: usize) -> Read<Node<'t>> {
        self.skip_blank();
        let (line, column) = (self.line, self.column());
        if self.peek().is_none() || column < least {
            return Ok(Node { line, value: Value::Null });
        }
        self.check_depth(depth)?;
        if self.is_dash() {
            return self.list(column, depth);
        }
        let begins_flow = matches!(self.peek(), Some(b'{' | b'['));
        if !begins_flow && self.key_ends()?.is_some() {
            return self.map(column, depth);
        }
        self.value(least, depth)
    }

    fn check_depth(&self, depth: usize) -> Read<()> {
        if depth < DEEPEST {
            return Ok(());
        }
        Err(self.refuse(format!("lists and maps are nested more than {DEEPEST} deep")))
    }

    /// The list whose dashes are in a column.
    fn list(&mut self, column: usize, depth: usize) -> Read<Node<'t>> {
        let line = self.line;
        let mut values = Vec::new();
        while self.column() == column && self.is_dash() {
            self.at += 1;
            values.push(self.block(column + 1, depth + 1)?);
            self.skip_blank();
        }
        // A key in this column may continue the map that has the list.
        self.check_column(column + 1)?;
        Ok(Node { line, value: Value::List(values) })
    }

    /// The map whose keys are in a column.
    fn map(&mut self, column: usize, depth: usize) -> Read<Node<'t>> {
        let line = self.line;
        let mut entries = Vec::new();
        while self.peek().is_some() && self.column() == column && !self.is_dash() {
            let Some(end) = self.key_ends()? else { break };
            let key = self.key(end)?;
            let value = if self.is_line_done() {
                self.skip_blank();
                // A list may be as far left as the key to which it belongs.
                let least = if self.is_dash() { column } else { column + 1 };
                self.block(least, depth + 1)?
            } else {
                self.value(column + 1, depth + 1)?
            };
            entries.push((key, value));
            self.skip_blank();
        }
        self.check_column(column)?;
        self.check_keys(line, &entries)?;
        Ok(Node { line, value: Value::Map(entries) })
    }

    /// Refuses a line that is indented further than the lines before it.
    fn check_column(&self, column: usize) -> Read<()> {
        let is_mark = self.column() == 0
            && (self.rest().starts_with("---") || self.rest().starts_with("..."));
        if self.peek().is_none() || self.column() < column || self.is_dash() || is_mark {
            return Ok(());
        }
        Err(self.refuse("this line is neither a key with its colon nor indented like one before"))
    }

    fn check_keys(&self, line: usize, entries: &[(Cow<'t, str>, Node<'t>)]) -> Read<()> {
        let mut seen = HashSet::with_capacity(entries.len());
        match entries.iter().find(|(key, _)| !seen.insert(key.as_ref())) {
            Some((key, value)) => {
                let line = value.line.max(line);
                Err(Refused::at(line, format!("`{key}` appears twice in one map")))
            }
            None => Ok(()),
        }
    }

    /// The position of the colon that ends the key that begins here, if there is one on this line.
    fn key_ends(&self) -> Read<Option<usize>> {
        let line = self.line_rest();
        let mut from = 0;
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            match quoted_end(line, quote) {
                Some(end) => from = end,
                None => return Ok(None),
            }
            let behind = line[from..].trim_start();
            return Ok(behind.starts_with(':').then(|| self.at + line.len() - behind.len()));
        }
        while let Some(found) = line[from..].find([':', '#']) {
            let place = from + found;
            let before = line[..place].bytes().next_back();
            let after = line.as_bytes().get(place + 1);
            let is_colon = line.as_bytes()[place] == b':';
            if !is_colon && matches!(before, None | Some(b' ' | b'\t')) {
                return Ok(None);
            }
            if is_colon && matches!(after, None | Some(b' ' | b'\t' | b'\r')) {
                return Ok(Some(self.at + place));
            }
            from = place + 1;
        }
        Ok(None)
    }

    /// The key that ends before a colon; skips the colon.
    fn key(&mut self, end: usize) -> Read<Cow<'t, str>> {
        let key = match self.peek() {
            Some(b'"' | b'\'') => self.quoted()?,
            Some(b'?' | b'&' | b'*' | b'!') => return Err(self.unread()),
            _ => Cow::Borrowed(self.text[self.at..end].trim_end()),
        };
        self.at = end + 1;
        Ok(key)
    }

    /// The value that begins here; its further lines are at or after a column.
    fn value(&mut self, least: usize, depth: usize) -> Read<Node<'t>> {
        let line = self.line;
        let value = match self.peek() {
            Some(b'{' | b'[') => {
                let node = self.flow(depth)?;
                self.end_line()?;
                return Ok(node);
            }
            Some(b'"' | b'\'') => {
                let text = self.quoted()?;
                self.end_line()?;
                Value::Text(text)
            }
            Some(b'|' | b'>') => Value::Text(Cow::Owned(self.block_text(least)?)),
            Some(b'&' | b'*' | b'!' | b'%' | b'@' | b'`') => return Err(self.unread()),
            _ => plain(self.plain_lines(least)?),
        };
        Ok(Node { line, value })
    }

    fn unread(&self) -> Refused {
        let word = self.rest().split_whitespace().next().unwrap_or("");
        self.refuse(format!("`{word}` begins a part of YAML that is not supported"))
            .help("write the file as JSON, or without anchors, aliases and tags")
    }

    /// A plain text, which may continue in lines at or after a column.
    fn plain_lines(&mut self, least: usize) -> Read<Cow<'t, str>> {
        let mut whole = Cow::Borrowed(self.plain_line()?);
        loop {
            self.skip_blank();
            if self.peek().is_none() || self.column() < least {
                return Ok(whole);
            }
            let more = self.plain_line()?;
            let whole = whole.to_mut();
            whole.push(' ');
            whole.push_str(more);
        }
    }

    /// The rest of the line without its comment.
    fn plain_line(&mut self) -> Read<&'t str> {
        let line = self.line_rest();
        let text = line.split(" #").next().unwrap_or("").trim_end();
        if text.contains(": ") || text.ends_with(':') {
            return Err(self
                .refuse(format!("`{text}` has one colon too many"))
                .help("put the text in quotes, or indent the line like those before"));
        }
        self.at += line.len();
        Ok(text)
    }

    /// A text after `|` or `>`: the lines at or after a column.
    fn block_text(&mut self, least: usize) -> Read<String> {
        let (is_folded, line) = (self.peek() == Some(b'>'), self.line_rest());
        let marks = line[1..].split(" #").next().unwrap_or("").trim();
        if !matches!(marks, "" | "-" | "+") {
            return Err(self.unread());
        }
        self.at += line.len();
        let (mut whole, mut indent) = (String::new(), None);
        while self.peek() == Some(b'\n') {
            let line = self.text[self.at + 1..].split('\n').next().unwrap_or("");
            let text = line.trim_start_matches(' ');
            let column = line.len() - text.len();
            let is_blank = text.trim_end().is_empty();
            if !is_blank && column < *indent.get_or_insert(column.max(least)) {
                break;
            }
            self.newline();
            self.at += line.len();
            if !whole.is_empty() {
                whole.push(if is_folded && !is_blank { ' ' } else { '\n' });
            }
            whole.push_str(line.get(indent.unwrap_or(0)..).unwrap_or("").trim_end());
        }
        whole.truncate(whole.trim_end().len());
        if !marks.starts_with('-') && !whole.is_empty() {
            whole.push('\n');
        }
        Ok(whole)
    }

    /// A quoted text, which may span lines; skips its last quote.
    fn quoted(&mut self) -> Read<Cow<'t, str>> {
        let begin = self.line;
        let quote = self.peek().unwrap_or(b'"');
        self.at += 1;
        // Almost all texts need no change.
        let rest = self.rest();
        if let Some(end) = rest.find([char::from(quote), '\\', '\n'])
            && rest.as_bytes()[end] == quote
            && rest.as_bytes().get(end + 1) != Some(&quote)
        {
            self.at += end + 1;
            return Ok(Cow::Borrowed(&rest[..end]));
        }
        let mut whole = String::new();
        loop {
            let rest = self.rest();
            let Some(next) = rest.chars().next() else {
                return Err(Refused::at(begin, "this text has no closing quote"));
            };
            match next {
                '\n' => {
                    whole.truncate(whole.trim_end_matches([' ', '\t', '\r']).len());
                    self.newline();
                    self.skip_spaces();
                    whole.push(' ');
                    continue;
                }
                '\'' if quote == b'\'' && rest.starts_with("''") => {
                    self.at += 1;
                    whole.push('\'');
                }
                '\\' if quote == b'"' => {
                    self.at += 1;
                    self.escape(&mut whole)?;
                    continue;
                }
                _ if next == char::from(quote) => {
                    self.at += 1;
                    return Ok(Cow::Owned(whole));
                }
                _ => whole.push(next),
            }
            self.at += next.len_utf8();
        }
    }

    /// The escape that a backslash begins.
    fn escape(&mut self, whole: &mut String) -> Read<()> {
        let rest = self.rest();
        let Some(next) = rest.chars().next() else {
            return Err(self.refuse("the text ends after a backslash"));
        };
        self.at += next.len_utf8();
        let letter = match next {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '"' | '\\' | '/' | ' ' => next,
            '\n' => {
                // The line continues in the next one, without a space.
                self.line += 1;
                self.line_start = self.at;
                self.skip_spaces();
                return Ok(());
            }
            'x' => self.code(next, rest, 2)?,
            'u' => self.code(next, rest, 4)?,
            'U' => self.code(next, rest, 8)?,
            _ => return Err(self.refuse(format!("`\\{next}` is not an escape"))),
        };
        whole.push(letter);
        Ok(())
    }

    /// The character with this many hexadecimal digits after `\x`, `\u` or `\U`.
    fn code(&mut self, kind: char, rest: &str, digits: usize) -> Read<char> {
        let code = rest.get(1..=digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let code = code.ok_or_else(|| self.refuse(format!("`\\{kind}` without its digits")))?;
        self.at += digits;
        // Surrogate pairs, as JSON may write a rare character, are not combined: names have none.
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// `[a, b]`, `{a: b}`, or a value inside one.
    fn flow(&mut self, depth: usize) -> Read<Node<'t>> {
        let line = self.line;
        let value = match self.peek() {
            Some(b'[') => {
                self.check_depth(depth)?;
                Value::List(self.flow_parts(line, b']', |reader| reader.flow(depth + 1))?)
            }
            Some(b'{') => {
                self.check_depth(depth)?;
                let entries = self.flow_parts(line, b'}', |reader| reader.flow_entry(depth))?;
                self.check_keys(line, &entries)?;
                Value::Map(entries)
            }
            Some(b'"' | b'\'') => Value::Text(self.quoted()?),
            Some(b'&' | b'*' | b'!') => return Err(self.unread()),
            _ => plain(Cow::Borrowed(self.flow_plain()?)),
        };
        Ok(Node { line, value })
    }

    /// The values between a bracket and its partner, separated by commas.
    fn flow_parts<T>(
        &mut self,
        begin: usize,
        close: u8,
        mut part: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut parts = Vec::new();
        self.at += 1;
        loop {
            self.skip_blank();
            if self.peek() == Some(close) {
                break;
            }
            if self.peek().is_none() {
                return Err(self.cut_off(begin));
            }
            parts.push(part(self)?);
            self.skip_blank();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(other) if other == close => break,
                None => return Err(self.cut_off(begin)),
                Some(_) => {
                    let what = format!("neither a comma nor `{}` here", char::from(close));
                    return Err(self.refuse(what));
                }
            }
        }
        self.at += 1;
        Ok(parts)
    }

    fn cut_off(&self, begin: usize) -> Refused {
        self.refuse(format!("the text ends inside the bracket of line {begin}"))
            .help("the file may be cut off")
    }

    fn flow_entry(&mut self, depth: usize) -> Read<(Cow<'t, str>, Node<'t>)> {
        let key = match self.peek() {
            Some(b'"' | b'\'') => self.quoted()?,
            _ => Cow::Borrowed(self.flow_plain()?),
        };
        self.skip_blank();
        if self.peek() != Some(b':') {
            return Err(self.refuse(format!("the key `{key}` has no colon")));
        }
        self.at += 1;
        self.skip_blank();
        if matches!(self.peek(), Some(b',' | b'}')) {
            return Ok((key, Node { line: self.line, value: Value::Null }));
        }
        Ok((key, self.flow(depth + 1)?))
    }

    /// A plain text inside brackets.
    fn flow_plain(&mut self) -> Read<&'t str> {
        // This does not take the rest of the line first: a whole file may be on one line.
        let rest = self.rest();
        let ends = |&(place, letter): &(usize, char)| match letter {
            ',' | '[' | ']' | '{' | '}' | '\n' => true,
            ':' => !rest[place + 1..].starts_with(|c: char| c.is_alphanumeric()),
            '#' => rest[..place].ends_with(' '),
            _ => false,
        };
        let end = rest.char_indices().find(ends).map_or(rest.len(), |(place, _)| place);
        let text = rest[..end].trim_end();
        if text.is_empty() {
            return Err(self.refuse("a value is missing here"));
        }
        self.at += end;
        Ok(text)
    }
}

fn plain(text: Cow<'_, str>) -> Value<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        _ => Value::Text(text),
    }
}

/// Where a quoted text ends on its line, after the quote.
fn quoted_end(line: &str, quote: u8) -> Option<usize> {
    let bytes = line.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && quote == b'"' {
            at += 1;
        } else if bytes[at] == quote {
            if quote == b'\'' && bytes.get(at + 1) == Some(&quote) {
                at += 1;
            } else {
                return Some(at + 1);
            }
        }
        at += 1;
    }
    None
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
            ("a: 1\n   b: 2\n", 2, "one colon too many"),
            ("a:\n  b: 1\n c: 2\n", 3, "neither a key"),
            ("a: *b\n", 1, "not supported"),
            ("a: !!int 3\n", 1, "not supported"),
            ("a: 1\n---\nb: 2\n", 2, "second document"),
            ("{\"a\": [1,\n2", 2, "ends inside the bracket of line 1"),
            ("a: \"b\n", 1, "no closing quote"),
            ("[1 2, \"x\" y]", 1, "neither a comma"),
            (deep.as_str(), 1, "are nested more"),
            (dashes.as_str(), 1, "are nested more"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.what.contains(says), "{text}: {refused:?}");
            assert_eq!(refused.line, Some(line), "{text}: {refused:?}");
        }
    }
}
