//! JSON in pieces: values are located in a stream, not built.
//!
//! A trace is one document of gigabytes, of which only some objects are needed. This finds where values
//! end and returns the bytes of the requested ones. It does not validate: a malformed value is simply
//! not a number or text when it is read.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Why a document cannot be read further.
#[derive(Debug)]
pub(super) enum Fault {
    /// It ends too early.
    Cut,
    /// It is not JSON at this byte.
    Bad(u64),
    /// A value is longer than the limit.
    Long(u64),
    /// An error of the reader.
    Io(io::Error),
    /// What is wrong, and how to fix it.
    Refused(String, &'static str),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// The bytes that begin or end a text, an object or an array.
const NESTS: u8 = 1;
/// Those, and the ones that end a number outside of them.
const ENDS: u8 = 3;

static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let (nests, ends) = (b"\"{}[]", b",: \t\n\r");
    let mut i = 0;
    while i < nests.len() {
        class[nests[i] as usize] = 1;
        i += 1;
    }
    i = 0;
    while i < ends.len() {
        class[ends[i] as usize] = 2;
        i += 1;
    }
    class
};

#[inline(always)]
fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// Finds the end of a value, over several pieces.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Scan {
    /// How many of `bytes` belong to the value, if it ends among them.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut i = 0;
        while i < bytes.len() {
            if self.escaped {
                self.escaped = false;
                i += 1;
                continue;
            }
            if self.in_text {
                let plain = bytes[i..].iter().position(|b| matches!(b, b'"' | b'\\'));
                i += plain.unwrap_or(bytes.len() - i);
                match bytes.get(i) {
                    Some(b'\\') => self.escaped = true,
                    Some(_) => {
                        self.in_text = false;
                        if self.depth == 0 {
                            return Some(i + 1);
                        }
                    }
                    None => return None,
                }
                i += 1;
                continue;
            }
            // Most bytes are plain: their class is looked up until one is not.
            let ends = if self.depth == 0 { ENDS } else { NESTS };
            i += bytes[i..].iter().position(|&b| is(b, ends))?;
            match bytes[i] {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(i + 1);
                    }
                }
                _ => return Some(i),
            }
            i += 1;
        }
        None
    }
}

/// How much is read at once.
const PIECE: usize = 1 << 18;

/// A document that is read sequentially.
pub(super) struct Stream<R> {
    input: R,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer.
    before: u64,
}

impl<R: BufRead> Stream<R> {
    pub fn new(input: R) -> Self {
        Self { input, buffer: Vec::with_capacity(2 * PIECE), at: 0, before: 0 }
    }

    /// The current position, from 0.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Drops what was read, and reads more.
    fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.drain(..self.at);
        self.before += self.at as u64;
        self.at = 0;
        let piece = self.input.fill_buf()?;
        if piece.is_empty() {
            return Err(Fault::Cut);
        }
        let taken = piece.len().min(PIECE);
        self.buffer.extend_from_slice(&piece[..taken]);
        self.input.consume(taken);
        Ok(())
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Result<u8, Fault> {
        loop {
            let rest = &self.buffer[self.at..];
            match rest.iter().position(|b| !b.is_ascii_whitespace()) {
                Some(blanks) => {
                    self.at += blanks;
                    return Ok(self.buffer[self.at]);
                }
                None => {
                    self.at = self.buffer.len();
                    self.fill()?;
                }
            }
        }
    }

    /// Takes `byte` if it comes next.
    pub fn take(&mut self, byte: u8) -> Result<bool, Fault> {
        let is = self.peek()? == byte;
        self.at += usize::from(is);
        Ok(is)
    }

    /// The next key of an object that was entered; `None` after its last.
    pub fn key(&mut self) -> Result<Option<String>, Fault> {
        self.take(b',')?;
        if self.take(b'}')? {
            return Ok(None);
        }
        let key = self.raw(LONGEST_KEY)?;
        let Some(key) = text(key).map(Cow::into_owned) else { return Err(self.bad()) };
        if !self.take(b':')? {
            return Err(self.bad());
        }
        Ok(Some(key))
    }

    /// Whether another value follows in an array that was entered.
    pub fn element(&mut self) -> Result<bool, Fault> {
        self.take(b',')?;
        Ok(!self.take(b']')?)
    }

    /// The bytes of the next value, at most `most`.
    pub fn raw(&mut self, most: usize) -> Result<&[u8], Fault> {
        self.peek()?;
        let (mut scan, mut seen) = (Scan::default(), self.at);
        loop {
            if let Some(length) = scan.feed(&self.buffer[seen..]) {
                let range = self.at..seen + length;
                if range.is_empty() {
                    return Err(self.bad());
                }
                self.at = range.end;
                return Ok(&self.buffer[range]);
            }
            let found = self.buffer.len() - self.at;
            if found > most {
                return Err(Fault::Long(self.offset()));
            }
            self.fill()?;
            seen = found;
        }
    }

    /// Skips the next value, however long.
    pub fn skip(&mut self) -> Result<(), Fault> {
        self.peek()?;
        let mut scan = Scan::default();
        let mut any = false;
        loop {
            match scan.feed(&self.buffer[self.at..]) {
                Some(0) if !any => return Err(self.bad()),
                Some(length) => {
                    self.at += length;
                    return Ok(());
                }
                None => {
                    any = true;
                    self.at = self.buffer.len();
                    self.fill()?;
                }
            }
        }
    }

    pub fn bad(&self) -> Fault {
        Fault::Bad(self.offset())
    }
}

/// The longest key in a trace.
const LONGEST_KEY: usize = 1 << 12;

/// The keys of an object with the bytes of their values, up to the first malformed one.
pub(super) fn fields(object: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = object.strip_prefix(b"{").unwrap_or_default();
    std::iter::from_fn(move || Some((key(&mut rest)?, value(&mut rest)?)))
}

/// The keys of an object and of the objects in it, in one pass: the key of the inner object, if it is in
/// one, the key, and the bytes of its value; up to the first malformed one.
pub(super) fn leaves(object: &[u8]) -> impl Iterator<Item = (Option<&[u8]>, &[u8], &[u8])> {
    let mut rest = object.strip_prefix(b"{").unwrap_or_default();
    let mut within = None;
    std::iter::from_fn(move || {
        loop {
            match trim(rest) {
                [b'}', behind @ ..] if within.is_some() => (within, rest) = (None, behind),
                _ => {}
            }
            let key = key(&mut rest)?;
            match trim(rest) {
                [b'{', inner @ ..] if within.is_none() => (within, rest) = (Some(key), inner),
                _ => return Some((within, key, value(&mut rest)?)),
            }
        }
    })
}

/// The next key, up to behind its colon.
fn key<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let key = inside(value(rest)?)?;
    let [b':', behind @ ..] = trim(rest) else { return None };
    *rest = behind;
    Some(key)
}

/// The values of an array, up to the first malformed one.
pub(super) fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = array.strip_prefix(b"[").unwrap_or_default();
    std::iter::from_fn(move || value(&mut rest))
}

/// The next value after blanks and a comma.
fn value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = match trim(rest) {
        [b',', behind @ ..] => trim(behind),
        text => text,
    };
    let length = short(text).or_else(|| {
        let mut scan = Scan::default();
        scan.feed(text).or_else(|| (scan.depth == 0 && !scan.in_text).then_some(text.len()))
    });
    let (value, behind) = text.split_at(length.filter(|&l| l > 0)?);
    *rest = behind;
    Some(value)
}

/// The length of a text without escapes or of a number, which most values are: no state is kept for
/// them. `None`: it is neither, or has no end.
#[inline]
fn short(text: &[u8]) -> Option<usize> {
    let (first, behind) = text.split_first()?;
    match first {
        b'"' => {
            let end = behind.iter().position(|b| matches!(b, b'"' | b'\\'))?;
            (behind[end] == b'"').then_some(end + 2)
        }
        b'0'..=b'9' | b'-' => Some(1 + behind.iter().position(|&b| is(b, ENDS))?),
        _ => None,
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    match bytes {
        // The usual separators, which need no loop.
        [b' ', behind @ ..] if behind.first().is_some_and(|b| *b > b' ') => behind,
        [first, ..] if *first > b' ' => bytes,
        _ => bytes.trim_ascii_start(),
    }
}

/// What stands between the quotes of a text.
fn inside(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', inside @ .., b'"'] => Some(inside),
        _ => None,
    }
}

/// The text that a value is.
pub(super) fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    let inside = inside(value)?;
    if inside.contains(&b'\\') {
        return serde_json::from_slice::<String>(value).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
}

/// The finite number that a value is.
pub(super) fn number(value: &[u8]) -> Option<f64> {
    std::str::from_utf8(value).ok()?.parse::<f64>().ok().filter(|x| x.is_finite())
}

/// The whole number that a value is.
pub(super) fn whole(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    value
        .iter()
        .try_fold(0_u64, |sum, b| b.is_ascii_digit().then(|| 10 * sum + u64::from(b - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_over_pieces_of_any_length() {
        let text = br#" {"a": [1, {"b": "x]\"}"}], "c" : -2.5e3 , "d":"\\", "e": {"f": null}} "#;
        for piece in 1..text.len() {
            let mut stream = Stream::new(io::BufReader::with_capacity(piece, text.as_slice()));
            assert!(stream.take(b'{').unwrap());
            let mut seen = Vec::new();
            while let Some(key) = stream.key().unwrap() {
                match key.as_str() {
                    "a" => stream.skip().unwrap(),
                    _ => seen.push(String::from_utf8(stream.raw(99).unwrap().to_vec()).unwrap()),
                }
            }
            assert_eq!(seen, ["-2.5e3", r#""\\""#, r#"{"f": null}"#], "{piece}");
        }
    }

    #[test]
    fn an_object_is_taken_apart_and_damage_ends_it() {
        let all = |text: &'static str| -> Vec<String> {
            let show = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            fields(text.as_bytes()).map(|(k, v)| format!("{}={}", show(k), show(v))).collect()
        };
        assert_eq!(
            all(r#"{"a" :1,"b":[2 , 3], "c": {"d":4}}"#),
            ["a=1", "b=[2 , 3]", r#"c={"d":4}"#]
        );
        assert_eq!(all(r#"{"a":1,"b":}"#), ["a=1"]);
        assert_eq!(all(r#"{"a":1,,,"b"#), ["a=1"]);
        let flat = |text: &'static str| -> Vec<String> {
            let show = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            let show = |(within, k, v): (Option<&[u8]>, _, _)| {
                format!("{}.{}={}", within.map_or_else(String::new, show), show(k), show(v))
            };
            leaves(text.as_bytes()).map(show).collect()
        };
        assert_eq!(
            flat(r#"{"a": {"b": {"c": 1}, "d":"}"} , "e":2, "f": { }, "g": [{"h": 3}]}"#),
            [r#"a.b={"c": 1}"#, r#"a.d="}""#, ".e=2", r#".g=[{"h": 3}]"#]
        );
        assert_eq!(flat(r#"{"a": {"b": 1, "c"}, "d": 2}"#), ["a.b=1"]);
        assert_eq!(elements(b"[1, [2], \"x\"]").count(), 3);
        assert_eq!((whole(b"12"), whole(b"1.0"), number(b"1e3")), (Some(12), None, Some(1e3)));
        assert_eq!(text(br#""a\u00e9""#).as_deref(), Some("aé"));
    }

    #[test]
    fn a_value_that_never_ends_takes_little_memory() {
        let endless = || io::BufReader::new(io::Read::chain(&b"[\""[..], io::repeat(b'x')));
        let mut stream = Stream::new(endless());
        assert!(matches!(stream.raw(1 << 16), Err(Fault::Long(0))));
        assert!(stream.buffer.capacity() <= 2 * PIECE);
    }
}
