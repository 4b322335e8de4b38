//! Whether bytes are text, and what to do if they are not.

use std::io::{Error, ErrorKind, Read, Result};

use crate::base::quantity::Bytes;

/// The byte order mark of UTF-8, with which some programs begin a file.
pub(crate) const MARK: &str = "\u{feff}";

/// The longest text that is read as a whole.
pub const LONGEST: Bytes = Bytes(128 << 20);

/// A reader that fails after this many bytes.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    left: u64,
    most: Bytes,
}

impl<R: Read> Bounded<R> {
    /// Of `inner` no more than `most`.
    pub fn new(inner: R, most: Bytes) -> Self {
        Self { inner, left: most.0, most }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        let read = self.inner.read(room)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let what = format!("it has more than {}", self.most);
                return Err(Error::new(ErrorKind::FileTooLarge, what));
            }
        }
        Ok(read)
    }
}

/// The bytes as text, without a byte order mark.
///
/// # Errors
/// They are UTF-16, or no text at all.
pub fn text(bytes: Vec<u8>) -> Result<String> {
    refuse(&bytes)?;
    let mut text = String::from_utf8(bytes).map_err(|_| binary())?;
    if text.starts_with(MARK) {
        text.drain(..MARK.len());
    }
    Ok(text)
}

/// Refuses bytes that are not text, though some may be damaged.
///
/// # Errors
/// They are UTF-16, or no text.
pub fn refuse(bytes: &[u8]) -> Result<()> {
    match bytes {
        _ if is_utf16(bytes) => Err(Error::new(ErrorKind::InvalidData, UTF16)),
        _ if bytes.contains(&0) => Err(binary()),
        _ => Ok(()),
    }
}

/// Whether the bytes begin like UTF-16: with a byte order mark, or with every other byte zero.
#[must_use]
pub fn is_utf16(bytes: &[u8]) -> bool {
    let some = &bytes[..bytes.len().min(64)];
    let zeros = |from: usize| {
        let of = some.iter().skip(from).step_by(2);
        of.clone().count() > 1 && of.clone().filter(|&&b| b == 0).count() * 10 > of.count() * 8
    };
    bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || zeros(0) != zeros(1)
}

/// How to mend what [`text`] refuses; `otherwise` for other errors, such as of a file that is not there.
#[must_use]
pub fn mend<'a>(error: &Error, otherwise: &'a str) -> &'a str {
    match error.kind() {
        ErrorKind::InvalidData if error.to_string() == UTF16 => CONVERT,
        ErrorKind::InvalidData => "give a text file",
        _ => otherwise,
    }
}

/// What is said of UTF-16.
pub const UTF16: &str = "the text is UTF-16, not UTF-8";

/// What makes UTF-8 of UTF-16.
pub const CONVERT: &str = "convert it: iconv -f UTF-16 -t UTF-8 FILE";

fn binary() -> Error {
    Error::new(ErrorKind::InvalidData, "the file is binary, not text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_utf_8_is_text() {
        let said = |bytes: &[u8]| text(bytes.to_vec()).map_err(|e| e.to_string());
        assert_eq!(said("\u{feff}α = 1".as_bytes()), Ok("α = 1".to_owned()));
        assert_eq!(said(b""), Ok(String::new()));
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        for bytes in [utf16("\u{feff}schema = 1"), utf16("schema = 1")] {
            assert_eq!(said(&bytes), Err(UTF16.to_owned()));
        }
        for bytes in [&b"\x7fELF\x02\0\x01"[..], b"\xc3\x28 bad"] {
            let error = text(bytes.to_vec()).unwrap_err();
            assert!(error.to_string().contains("binary"), "{error}");
            assert_eq!(mend(&error, "name a file"), "give a text file");
        }
        assert!(refuse(b"one bad byte \xff in a log").is_ok());
    }
}
