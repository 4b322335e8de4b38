//! Traces that jobs write: one file per format, one entry each in [`TRACES`].
//!
//! A benchmark's log has a table; a trace has calls as one rank recorded them, in one file per rank. Files
//! of one format that are given together belong to one job and are joined ([`calls`]).

mod calls;
mod flight_recorder;
mod inspector;
mod json;
mod kineto;
mod nsys;
mod order;
mod pickle;
mod refused;
mod sqlite;
mod torch;

use std::io::{BufRead, Seek};

use super::{Asked, Imported, Parts, Refusal};
use crate::base::encoding::MARK;
use crate::base::error::{Error, Result};
use crate::machine::sample::Mode;
use calls::Calls;
use json::Fault;

/// A seekable file.
pub trait SeekRead: BufRead + Seek {}

impl<T: BufRead + Seek> SeekRead for T {}

/// The source of a log.
pub enum Input<'a> {
    /// It is read sequentially: a pipe, or a compressed file.
    Stream(Box<dyn BufRead + 'a>),
    /// It is seekable, as databases must be.
    File(Box<dyn SeekRead + 'a>),
}

impl<'a> Input<'a> {
    /// A sequential reader of it.
    #[must_use]
    pub fn stream(self) -> Box<dyn BufRead + 'a> {
        match self {
            Self::Stream(stream) => stream,
            Self::File(file) => Box::new(file),
        }
    }

    /// Its first bytes, after a mark of UTF-8, which is skipped.
    fn head(&mut self) -> &[u8] {
        let input: &mut dyn BufRead = match self {
            Self::Stream(stream) => stream,
            Self::File(file) => file,
        };
        if input.fill_buf().is_ok_and(|head| head.starts_with(MARK.as_bytes())) {
            input.consume(MARK.len());
        }
        input.fill_buf().unwrap_or_default()
    }
}

/// The first bytes of a file, by which formats recognise it.
pub(super) struct Head<'a> {
    pub bytes: &'a [u8],
    pub file: &'a str,
}

/// This many bytes of a file reveal its format: other programs write objects in front of a list of events.
const HEAD: usize = 1 << 16;

impl<'a> Head<'a> {
    fn new(bytes: &'a [u8], file: &'a str) -> Self {
        Self { bytes: &bytes[..bytes.len().min(HEAD)], file }
    }

    /// Whether it contains `mark`.
    pub fn has(&self, mark: &str) -> bool {
        self.bytes.windows(mark.len()).any(|part| part == mark.as_bytes())
    }

    /// Whether it begins like a JSON document.
    pub fn is_json(&self) -> bool {
        matches!(self.bytes.trim_ascii_start().first(), Some(b'{' | b'['))
    }
}

/// A format of traces.
pub struct TraceFormat {
    /// The name in reports.
    pub id: &'static str,
    /// The program whose output it is, in a few words.
    pub summary: &'static str,
    is: fn(&Head) -> bool,
    read: fn(Input, &str, &mut Calls) -> std::result::Result<(), Fault>,
}

/// Every format of traces, with one entry each.
pub static TRACES: &[TraceFormat] = &[
    TraceFormat {
        id: "nccl-inspector",
        summary: "JSON of NCCL's and RCCL's Inspector",
        is: inspector::is,
        read: inspector::read,
    },
    TraceFormat {
        id: "kineto",
        summary: "torch.profiler's trace (Kineto, Chrome)",
        is: kineto::is,
        read: kineto::read,
    },
    TraceFormat {
        id: "flight-recorder",
        summary: "PyTorch's flight recorder, as pickle or JSON",
        is: flight_recorder::is,
        read: flight_recorder::read,
    },
    TraceFormat {
        id: "nsys-sqlite",
        summary: "Nsight Systems, exported to SQLite",
        is: nsys::is,
        read: nsys::read,
    },
];

/// The trace format of an [`Input`]; `None` for a benchmark's log.
///
/// # Errors
/// The file is of a kind that contains no rows; the error gives the reason.
pub fn format_of(input: &mut Input, file: &str) -> Result<Option<&'static TraceFormat>> {
    let head = Head::new(input.head(), file);
    if let Some(useless) = refused::useless(&head, TRACES) {
        return Err(Error::input(useless.what).at(file).help(useless.help));
    }
    Ok(TRACES.iter().find(|format| (format.is)(&head)))
}

/// The files of one format, joined over the ranks.
pub struct Trace {
    format: &'static TraceFormat,
    files: Vec<String>,
    calls: Calls,
}

impl Trace {
    /// A trace without a file.
    #[must_use]
    pub fn new(format: &'static TraceFormat, asked: &Asked) -> Self {
        let mut calls = Calls::default();
        calls.asked = asked.ranks;
        Self { format, files: Vec::new(), calls }
    }

    /// The format's id.
    #[must_use]
    pub fn format(&self) -> &'static str {
        self.format.id
    }

    /// Whether a file was read or attempted.
    #[must_use]
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Reads the file of another rank.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged in a way other than being cut off.
    pub fn add(&mut self, input: Input, file: &str) -> Result<()> {
        self.calls.next_file();
        let damaged = |what: String| {
            Error::input(what)
                .at(file)
                .help("give the whole, unchanged file that the program wrote")
        };
        let read = (self.format.read)(input, file, &mut self.calls);
        if matches!(read, Ok(()) | Err(Fault::Cut)) {
            self.files.push(file.to_owned());
        }
        match read {
            Ok(()) => Ok(()),
            Err(Fault::Cut) => {
                self.calls.cut_off(file, 0);
                Ok(())
            }
            Err(Fault::Bad(at)) => Err(damaged(format!("byte {at} is not part of a trace"))),
            Err(Fault::Long(at)) => {
                Err(damaged(format!("the record at byte {at} is too long for a trace")))
            }
            Err(Fault::Io(e)) => Err(Error::input(format!("the trace cannot be read: {e}"))
                .at(file)
                .help("name an existing, readable file")),
            Err(Fault::Refused(what, help)) => Err(Error::input(what).at(file).help(help)),
        }
    }

    /// The joined contents of all files.
    #[must_use]
    pub fn finish(self, asked: &Asked) -> Imported {
        let file = match self.files.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        let mut tables = self.calls.tables(self.format.id, Mode::Stream);
        for table in &mut tables {
            let other = asked.ranks.filter(|&n| table.ranks.is_some_and(|own| own != n));
            if let Some(asked) = other {
                table.rows.clear();
                table.refused.get_or_insert(Refusal {
                    what: format!("the group has {} ranks, not {asked}", table.ranks.unwrap_or(0)),
                    help: "omit --n, or set the group's own number".to_owned(),
                });
            }
            if let Some(refusal) = asked.refuses(table.ranks, table.nodes) {
                table.rows.clear();
                table.refused.get_or_insert(refusal);
            }
        }
        Imported { file, tables, evidence: Parts::default() }
    }
}

#[cfg(test)]
#[test]
fn a_mark_of_utf8_is_not_part_of_a_trace() {
    let mut input = Input::Stream(Box::new(&b"\xef\xbb\xbf{\"traceEvents\": []}"[..]));
    assert!(input.head().starts_with(b"{"));
}
