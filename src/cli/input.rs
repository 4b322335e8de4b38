//! Files that the command reads, each up to a limit.
//!
//! A text is read up to a limit, and so is unpacked data: a few bytes of gzip can become very many.
//! A pipe or a device may have no end, and is read up to the same limit as a file.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::OnceLock;

use collcost::base::encoding::{self, Bounded, LONGEST};
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::measure::logs::Input;
use flate2::bufread::GzDecoder;

/// The longest log, which is read line by line.
const LOG: Bytes = Bytes(4 << 30);

/// The beginning of a file by which it is known as text.
const HEAD: usize = 1 << 10;

/// A text of many similar words packs to a thirtieth of its size. A constant one packs to a
/// thousandth, and is not a log.
const PACKED: u64 = 40;

/// This much of a log is unpacked, whatever its ratio.
const UNPACKED: u64 = 8 << 20;

/// A whole file as text; here `-` does not mean standard input.
///
/// # Errors
/// The system's; a file that is not text, or is too long.
pub(super) fn text(file: impl AsRef<Path>) -> io::Result<String> {
    whole(File::open(file)?, LONGEST)
}

/// The same of a file that was named at `place`.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn text_at(place: impl Into<String>, file: impl AsRef<Path>) -> Result<String> {
    text(file).map_err(|e| {
        Error::input(format!("the file cannot be read: {e}"))
            .at(place)
            .help(encoding::mend(&e, "name a text file that exists"))
    })
}

/// Standard input as text. It can be read only once, and files of budgets or steps are asked for again.
///
/// # Errors
/// As [`text`].
pub(super) fn standard() -> io::Result<String> {
    static READ: OnceLock<io::Result<String>> = OnceLock::new();
    match READ.get_or_init(|| whole(io::stdin(), LONGEST)) {
        Ok(text) => Ok(text.clone()),
        Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
    }
}

/// A whole file that other programs wrote into; bytes that are not text are replaced.
///
/// # Errors
/// The system's; a file that is not text from its beginning, or is too long.
pub(super) fn lossy(file: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::new();
    Bounded::new(File::open(file)?, LONGEST).read_to_end(&mut bytes)?;
    encoding::refuse(&bytes[..bytes.len().min(HEAD)])?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A whole file that is not text.
///
/// # Errors
/// The system's; a file that is too long.
pub(super) fn bytes(file: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Bounded::new(File::open(file)?, LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All of `from` as text, of at most `most` bytes.
///
/// # Errors
/// The system's; data that are not text, or are too long.
pub(super) fn whole(from: impl Read, most: Bytes) -> io::Result<String> {
    let mut bytes = Vec::new();
    Bounded::new(from, most).read_to_end(&mut bytes)?;
    encoding::text(bytes)
}

/// A log, unpacked if it is packed; `-` is standard input.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn log(file: &str) -> Result<Box<dyn BufRead>> {
    let input: Box<dyn Read> = match file {
        "-" => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(file).map_err(|e| unreadable(file, &e))?),
    };
    unpacked(input).map_err(|e| unreadable(file, &e))
}

/// The first bytes of standard input, unpacked, which the next reader of it gets again.
///
/// # Errors
/// The system's.
pub(super) fn head() -> io::Result<Vec<u8>> {
    let packed = io::stdin().lock().fill_buf()?.to_vec();
    let mut head = Vec::new();
    // What has not come yet ends it.
    let _ = unpacked(Box::new(io::Cursor::new(packed)))?.read_to_end(&mut head);
    Ok(head)
}

/// All bytes of such a log.
///
/// # Errors
/// As [`log`].
pub(super) fn log_bytes(file: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    log(file)?.read_to_end(&mut bytes).map_err(|e| unreadable(file, &e))?;
    Ok(bytes)
}

/// A log or a trace: a file that is not packed can be read from any place.
///
/// # Errors
/// As [`log`].
pub(super) fn trace(file: &str) -> Result<Input<'static>> {
    if file == "-" || !std::fs::metadata(file).is_ok_and(|m| m.is_file()) {
        return log(file).map(Input::Stream);
    }
    let opened = File::open(file).map_err(|e| unreadable(file, &e))?;
    let mut input = BufReader::with_capacity(ROOM, opened);
    let head = input.fill_buf().map_err(|e| unreadable(file, &e))?;
    refuse_packed(head).map_err(|e| unreadable(file, &e))?;
    match head.starts_with(GZIP) {
        true => log(file).map(Input::Stream),
        false => Ok(Input::File(Box::new(input))),
    }
}

/// The longest line that is read from a client.
const LINE: usize = 8 << 20;

/// Reads a client's line without its end into `line`; none is left where it is `None`. Of a line that is refused,
/// since it is longer than any question or not text, the rest is skipped.
pub(super) fn line<'l>(
    from: &mut impl BufRead,
    line: &'l mut Vec<u8>,
) -> io::Result<Option<Result<&'l str>>> {
    line.clear();
    let (mut any, mut length) = (false, 0_usize);
    loop {
        let available = from.fill_buf()?;
        if available.is_empty() {
            break;
        }
        any = true;
        let end = available.iter().position(|&b| b == b'\n');
        let (taken, consumed) = end.map_or((available.len(), available.len()), |i| (i, i + 1));
        let room = LINE.saturating_sub(line.len());
        line.extend_from_slice(&available[..taken.min(room)]);
        length = length.saturating_add(taken);
        from.consume(consumed);
        if end.is_some() {
            break;
        }
    }
    if length > LINE {
        let error = Error::input(format!("the line is longer than {} MiB", LINE >> 20));
        return Ok(Some(Err(error.help("ask in several lines"))));
    }
    let text = std::str::from_utf8(line)
        .map_err(|_| Error::input("the line is not text in UTF-8").help("write it in UTF-8"));
    Ok(any.then_some(text))
}

/// A folder as standard input.
pub(super) fn folder() -> Error {
    Error::input("a folder cannot be read").at("standard input").help("give a file: < FILE")
}

fn unreadable(file: &str, e: &io::Error) -> Error {
    let error = Error::input(format!("the log cannot be read: {e}")).at(file.to_owned());
    if e.kind() == ErrorKind::IsADirectory {
        if file == "-" {
            return folder();
        }
        return error.help(format!("name its files: {}/*", file.trim_end_matches('/')));
    }
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Packed>()) {
        Some(packed) => error.help(format!("unpack it first: {}", packed.command)),
        None => error.help("name a file that exists and can be read, or - for standard input"),
    }
}

/// A compression that is not unpacked here.
#[derive(Debug, Clone, Copy)]
struct Packed {
    /// The first bytes of its files.
    begins: &'static [u8],
    name: &'static str,
    command: &'static str,
}

/// Compressions that people use for logs.
const PACKERS: [Packed; 4] = [
    Packed { begins: &[0x28, 0xb5, 0x2f, 0xfd], name: "zstd", command: "zstd -d FILE" },
    Packed { begins: b"\xfd7zXZ\0", name: "xz", command: "xz -dk FILE" },
    Packed { begins: b"BZh", name: "bzip2", command: "bzip2 -dk FILE" },
    Packed { begins: b"PK\x03\x04", name: "zip", command: "unzip FILE" },
];

impl std::fmt::Display for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it is compressed with {}, and only gzip is unpacked here", self.name)
    }
}

impl std::error::Error for Packed {}

/// Refuses the beginning of a file that is compressed otherwise than with gzip.
fn refuse_packed(head: &[u8]) -> io::Result<()> {
    match PACKERS.iter().find(|packed| head.starts_with(packed.begins)) {
        Some(packed) => Err(io::Error::new(ErrorKind::InvalidData, *packed)),
        None => Ok(()),
    }
}

/// The same as one text.
///
/// # Errors
/// As [`log`]; a log that is not text, or is too long.
pub(super) fn log_text(file: &str) -> io::Result<String> {
    let input: Box<dyn Read> = match file {
        "-" => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(file)?),
    };
    whole(unpacked(input)?, LONGEST)
}

/// The unpacked contents of gzip, or the bytes unchanged.
fn unpacked(input: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let taken = Rc::new(Cell::new(0));
    let counted = Counted { inner: Bounded::new(input, LOG), taken: taken.clone() };
    let mut input = BufReader::with_capacity(ROOM, counted);
    let head = input.fill_buf()?;
    refuse_packed(head)?;
    if !head.starts_with(GZIP) {
        return Ok(Box::new(input));
    }
    let unpacked = Unpacked { member: Some(GzDecoder::new(input)), taken, given: 0 };
    Ok(Box::new(BufReader::with_capacity(ROOM, unpacked)))
}

const ROOM: usize = 1 << 17;

/// The first bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A reader that shares the count of bytes read from it.
struct Counted<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(room)?;
        self.taken.set(self.taken.get() + read as u64);
        Ok(read)
    }
}

/// Unpacked data, limited in proportion to the packed data: one member of gzip after the other.
struct Unpacked<R> {
    member: Option<GzDecoder<R>>,
    taken: Rc<Cell<u64>>,
    given: u64,
}

impl<R: BufRead> Unpacked<R> {
    /// The next bytes of a member; none at the end of the last one.
    fn members(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(room)?;
            if read > 0 || room.is_empty() {
                return Ok(read);
            }
            let rest = member.get_mut().fill_buf()?;
            if rest.is_empty() {
                break;
            }
            if !rest.starts_with(&GZIP[..rest.len().min(GZIP.len())]) {
                let what = format!(
                    "what follows its gzip data, which unpack to {}, is not gzip: cut it off",
                    Bytes(self.given)
                );
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
            self.member = self.member.take().map(|ended| GzDecoder::new(ended.into_inner()));
        }
        Ok(0)
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.members(room)?;
        self.given += read as u64;
        if self.given > LOG.0 || self.given > UNPACKED.max(PACKED * self.taken.get()) {
            let (taken, given) = (Bytes(self.taken.get()), Bytes(self.given));
            return Err(io::Error::new(
                ErrorKind::FileTooLarge,
                format!(
                    "its first {taken} unpack to more than {given}; unpack it first if it is genuine"
                ),
            ));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> io::Result<usize> {
        let mut all = Vec::new();
        unpacked(Box::new(io::Cursor::new(bytes)))?.read_to_end(&mut all)
    }

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(whole(&b"12345678"[..], Bytes(8)).unwrap(), "12345678");
        assert_eq!(
            whole(io::repeat(b'x'), Bytes(1 << 20)).unwrap_err().kind(),
            ErrorKind::FileTooLarge
        );
    }

    #[test]
    fn gzip_unpacks_in_proportion() {
        let rows: String = (0..200_000).map(|i| format!("{i},{},{}\n", i * 7, i % 13)).collect();
        assert_eq!(read(packed(rows.as_bytes())).unwrap(), rows.len());
        assert_eq!(read(packed(&[b' '; 1 << 20])).unwrap(), 1 << 20, "short, however alike");
        let twice = [packed(b"1\n"), packed(b"2\n")].concat();
        assert_eq!(read(twice.clone()).unwrap(), 4, "one member after the other");
        let tail = read([&twice[..], b"tail"].concat()).unwrap_err().to_string();
        assert!(tail.contains("which unpack to 4 B, is not gzip"), "{tail}");
        let short = read(twice[..twice.len() - 4].to_vec()).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
        let bomb = packed(&vec![0; 64 << 20]);
        assert_eq!(read(bomb).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
