//! Traces: what jobs leave behind, one file a format, one line in [`TRACES`].
//!
//! A log of a benchmark has a table; a trace has calls, as one rank saw them, in a file per rank. Files of
//! one format that are given together are of one job, and are joined ([`calls`]).

mod calls;
mod flight_recorder;
mod inspector;
mod json;
mod kineto;
mod nsys;
mod pickle;
mod refused;
mod sqlite;
mod torch;

use std::io::{BufRead, Seek};

use super::{Asked, Evidence, Imported, Refusal};
use crate::base::error::{Error, Result};
use crate::machine::sample::Mode;
use calls::Calls;
use json::Fault;

/// A file that can be read from any place.
pub trait SeekRead: BufRead + Seek {}

impl<T: BufRead + Seek> SeekRead for T {}

/// Where a log comes from.
pub enum Input<'a> {
    /// It is read from its beginning to its end: a pipe, or what was packed.
    Stream(Box<dyn BufRead + 'a>),
    /// It can be read from any place, as databases must be.
    File(Box<dyn SeekRead + 'a>),
}

impl<'a> Input<'a> {
    /// It, from its beginning to its end.
    #[must_use]
    pub fn stream(self) -> Box<dyn BufRead + 'a> {
        match self {
            Self::Stream(stream) => stream,
            Self::File(file) => Box::new(file),
        }
    }

    /// What it begins with.
    fn head(&mut self) -> &[u8] {
        let head = match self {
            Self::Stream(stream) => stream.fill_buf(),
            Self::File(file) => file.fill_buf(),
        };
        head.unwrap_or_default()
    }
}

/// What a file begins with, by which formats know it.
pub(super) struct Head<'a> {
    pub bytes: &'a [u8],
    pub file: &'a str,
}

/// So much of a file tells its format.
const HEAD: usize = 1 << 13;

impl<'a> Head<'a> {
    fn new(bytes: &'a [u8], file: &'a str) -> Self {
        Self { bytes: &bytes[..bytes.len().min(HEAD)], file }
    }

    /// Whether `mark` stands in it.
    pub fn has(&self, mark: &str) -> bool {
        self.bytes.windows(mark.len()).any(|part| part == mark.as_bytes())
    }

    /// Whether it begins as a document of JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.bytes.trim_ascii_start().first(), Some(b'{' | b'['))
    }
}

/// A format of traces.
pub struct TraceFormat {
    /// The name in reports.
    pub id: &'static str,
    /// Whose output it is, in a few words.
    pub summary: &'static str,
    is: fn(&Head) -> bool,
    read: fn(Input, &str, &mut Calls) -> std::result::Result<(), Fault>,
}

/// Every format of traces, one line each.
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

/// What takes an [`Input`]: a trace's format, or none for the log of a benchmark.
///
/// # Errors
/// A file that is known to hold no row, with the reason.
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

    /// Whether a file was read, or tried.
    #[must_use]
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Reads the file of another rank.
    ///
    /// # Errors
    /// A file that cannot be read, or is damaged other than by an end that came too early.
    pub fn add(&mut self, input: Input, file: &str) -> Result<()> {
        self.calls.next_file();
        let damaged = |what: String| {
            Error::input(what).at(file).help("give the file as the program wrote it, whole")
        };
        let read = (self.format.read)(input, file, &mut self.calls);
        if matches!(read, Ok(()) | Err(Fault::Cut)) {
            self.files.push(file.to_owned());
        }
        match read {
            Ok(()) => Ok(()),
            Err(Fault::Cut) => {
                self.calls.leave_out("a record at the end of the file, which is cut off", 0);
                Ok(())
            }
            Err(Fault::Bad(at)) => Err(damaged(format!("byte {at} is no part of a trace"))),
            Err(Fault::Long(at)) => {
                Err(damaged(format!("the record at byte {at} is longer than any of a trace")))
            }
            Err(Fault::Io(e)) => Err(Error::input(format!("the trace cannot be read: {e}"))
                .at(file)
                .help("name a file that is there and may be read")),
            Err(Fault::Refused(what, help)) => Err(Error::input(what).at(file).help(help)),
        }
    }

    /// What all files hold together.
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
                    help: "leave --n out, or say the group's own number".to_owned(),
                });
            }
        }
        Imported { file, tables, evidence: Evidence::default() }
    }
}
