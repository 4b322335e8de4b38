//! Standard output and error. A reader that leaves changes no verdict, and text from files cannot
//! move the cursor.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, Write};

/// Writes a message to standard error; a failure to write it is ignored.
pub(super) fn say(text: impl Display) {
    let mut line = String::new();
    for c in text.to_string().chars() {
        line.push(if is_control(c) { REPLACED } else { c });
    }
    line.push('\n');
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// The replacement for a control character.
const REPLACED: char = char::REPLACEMENT_CHARACTER;

/// Whether a terminal would act on the character instead of showing it.
fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// An output that keeps its first failure. If the answer is a verdict, everything after the failure
/// is discarded; a stream of answers ends.
pub(super) struct Kept<'a, W> {
    inner: W,
    lost: &'a RefCell<Option<io::Error>>,
    streams: bool,
}

impl<'a, W: Write> Kept<'a, W> {
    pub(super) fn new(inner: W, lost: &'a RefCell<Option<io::Error>>, streams: bool) -> Self {
        Self { inner, lost, streams }
    }

    fn keep<T>(&mut self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        let Err(error) = done else { return done };
        if error.kind() == io::ErrorKind::Interrupted {
            return Err(error);
        }
        let kind = error.kind();
        self.lost.borrow_mut().get_or_insert(error);
        if self.streams { Err(kind.into()) } else { Ok(otherwise) }
    }
}

impl<W: Write> Write for Kept<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.streams && self.lost.borrow().is_some() {
            return Ok(bytes.len());
        }
        let done = self.inner.write(bytes);
        self.keep(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.streams && self.lost.borrow().is_some() {
            return Ok(());
        }
        let done = self.inner.flush();
        self.keep(done, ())
    }
}

/// Replaces all control characters but line ends, tabs and, if `color` is set, this program's own
/// colours and weights. In JSON, which starts with a bracket, they are escaped as JSON requires.
pub(super) struct Clean<W> {
    inner: W,
    color: bool,
    /// Whether this is a document for programs; unknown before the first byte.
    document: Option<bool>,
    /// The bytes of an unfinished colour sequence, or of an unfinished character of two bytes.
    pending: Vec<u8>,
}

/// The first byte of the control characters beyond ASCII, and of signs such as µ.
const LEAD: u8 = 0xc2;
const ESCAPE: u8 = 0x1b;

impl<W: Write> Clean<W> {
    pub(super) fn new(inner: W, color: bool) -> Self {
        Self { inner, color, document: None, pending: Vec::new() }
    }

    fn replace(&mut self, control: u8) -> io::Result<()> {
        match self.document {
            Some(true) => write!(self.inner, "\\u{control:04x}"),
            _ => write!(self.inner, "{REPLACED}"),
        }
    }

    /// Handles a special byte, or one that follows a special byte.
    fn take(&mut self, byte: u8) -> io::Result<()> {
        match self.pending.first() {
            Some(&LEAD) => {
                self.pending.clear();
                match byte {
                    0x80..=0x9f => self.replace(byte),
                    _ => self.inner.write_all(&[LEAD, byte]),
                }
            }
            Some(_) => {
                self.pending.push(byte);
                match style(&self.pending) {
                    Some(false) => Ok(()),
                    Some(true) => self.inner.write_all(&std::mem::take(&mut self.pending)),
                    None => self.give_up(),
                }
            }
            None if byte == LEAD || byte == ESCAPE && self.color => {
                self.pending.push(byte);
                Ok(())
            }
            None if is_special(byte) => self.replace(byte),
            None => self.inner.write_all(&[byte]),
        }
    }

    /// The sequence was not a colour: its first byte is replaced, the others are text.
    fn give_up(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.pending);
        self.replace(text[0])?;
        text[1..].iter().try_for_each(|&byte| self.take(byte))
    }
}

/// Whether a byte cannot be copied unchanged.
fn is_special(byte: u8) -> bool {
    byte < 0x20 && byte != b'\n' && byte != b'\t' || byte == 0x7f || byte == LEAD
}

/// How many bytes can be copied unchanged. Parts are looked at as a whole, several bytes at once.
fn plain(bytes: &[u8]) -> usize {
    const PART: usize = 128;
    let has_special = |part: &[u8]| part.iter().fold(false, |found, &b| found | is_special(b));
    let before = bytes.chunks(PART).take_while(|part| !has_special(part)).count() * PART;
    let rest = bytes.get(before..).unwrap_or_default();
    let within = rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
    before.min(bytes.len()) + within
}

/// Whether the bytes are a complete change of colour or weight (true) or may become one (false).
fn style(bytes: &[u8]) -> Option<bool> {
    const LONGEST: usize = 8;
    match bytes {
        [ESCAPE] | [ESCAPE, b'['] => Some(false),
        [ESCAPE, b'[', codes @ .., b'm'] => {
            let is_own = |code: &[u8]| {
                matches!(code, b"0" | b"1" | b"2" | b"22" | b"39" | [b'3' | b'9', b'0'..=b'7'])
            };
            codes.split(|&b| b == b';').all(is_own).then_some(true)
        }
        [ESCAPE, b'[', codes @ ..] => {
            let is_code = |b: &u8| b.is_ascii_digit() || *b == b';';
            (codes.len() < LONGEST && codes.iter().all(is_code)).then_some(false)
        }
        _ => None,
    }
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(&first) = bytes.first() {
            self.document.get_or_insert(matches!(first, b'{' | b'['));
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if !self.pending.is_empty() {
                self.take(rest[0])?;
                rest = &rest[1..];
                continue;
            }
            let plain = plain(rest);
            self.inner.write_all(&rest[..plain])?;
            if let Some(&special) = rest.get(plain) {
                self.take(special)?;
            }
            rest = rest.get(plain + 1..).unwrap_or_default();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(color: bool, parts: &[&str]) -> String {
        let mut out = Vec::new();
        let mut clean = Clean::new(&mut out, color);
        // Byte by byte too: a write may be split anywhere.
        parts.iter().for_each(|part| clean.write_all(part.as_bytes()).unwrap());
        let mut bytes = Vec::new();
        let mut clean = Clean::new(&mut bytes, color);
        parts.concat().bytes().for_each(|byte| clean.write_all(&[byte]).unwrap());
        assert_eq!(out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_moves_a_cursor() {
        let text = "a\tµ·²\n\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{9b}2J\r\u{7f}\u{8}é…";
        let shown =
            "a\tµ·²\n\u{fffd}]52;c;aGk=\u{fffd}\u{fffd}[2J\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}é…";
        assert_eq!(cleaned(false, &[text]), shown);
        assert_eq!(cleaned(true, &[text]), shown);
    }

    #[test]
    fn own_colours_stay_where_there_are_any() {
        let text = "\u{1b}[1mtake\u{1b}[0m \u{1b}[34m\u{1b}[1;92mx\u{1b}[39m";
        assert_eq!(cleaned(true, &[text]), text);
        assert!(!cleaned(false, &[text]).contains('\u{1b}'));
        for foreign in
            ["\u{1b}[8m", "\u{1b}[5mx", "\u{1b}[41m", "\u{1b}[1", "\u{1b}c", "\u{1b}\u{1b}[2J"]
        {
            let shown = cleaned(true, &[foreign, "y\n"]);
            assert!(!shown.contains('\u{1b}') && shown.ends_with("y\n"), "{foreign:?}: {shown:?}");
        }
    }

    #[test]
    fn documents_escape() {
        assert_eq!(cleaned(true, &["{\"a\":\"\u{7f}\u{9b}µ\"}"]), "{\"a\":\"\\u007f\\u009bµ\"}");
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_verdict_outlives_its_reader_and_a_stream_ends() {
        let lost = RefCell::new(None);
        assert_eq!(Kept::new(Full, &lost, false).write(b"abc").unwrap(), 3);
        assert_eq!(lost.borrow().as_ref().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        assert!(Kept::new(Full, &lost, true).write(b"abc").is_err());
    }
}
