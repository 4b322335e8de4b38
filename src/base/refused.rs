//! Why a reader refuses a text, before the name of the file is known.

use super::error::Error;

/// What is wrong with a text, and in which line.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub what: String,
    pub line: Option<usize>,
    pub help: Option<String>,
    pub unsupported: bool,
}

impl Refused {
    pub fn at(line: usize, what: impl Into<String>) -> Self {
        Self { what: what.into(), line: Some(line), help: None, unsupported: false }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The text is well formed, but uses something that this reader does not support.
    pub fn unsupported(self) -> Self {
        Self { unsupported: true, ..self }
    }

    /// The same as an error about a file.
    pub fn error(self, file: &str) -> Error {
        let Self { what, line, help, unsupported } = self;
        let error = if unsupported { Error::unsupported(what) } else { Error::input(what) };
        let error = error.at(line.map_or(file.to_owned(), |line| format!("{file}:{line}")));
        match help {
            Some(help) => error.help(help),
            None => error,
        }
    }
}
