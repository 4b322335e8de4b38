//! What a reader has against a text, before anybody says which file it is.

use super::error::Error;

/// What is wrong with a text, and in which line.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub what: String,
    pub line: Option<usize>,
    pub mend: Option<String>,
    pub unsupported: bool,
}

impl Refused {
    pub fn at(line: usize, what: impl Into<String>) -> Self {
        Self { what: what.into(), line: Some(line), mend: None, unsupported: false }
    }

    pub fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
    }

    /// What the text says is well formed, but more than is understood.
    pub fn unsupported(self) -> Self {
        Self { unsupported: true, ..self }
    }

    /// The same as an error about a file.
    pub fn error(self, file: &str) -> Error {
        let Self { what, line, mend, unsupported } = self;
        let error = if unsupported { Error::unsupported(what) } else { Error::input(what) };
        let error = error.at(line.map_or(file.to_owned(), |line| format!("{file}:{line}")));
        match mend {
            Some(mend) => error.mend(mend),
            None => error,
        }
    }
}
