//! The file of which all ranks know the content, and nobody else.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::base::error::{Error, Result};
use crate::base::secret::Key;

/// The fewest bytes that nobody guesses.
const LEAST: usize = 32;
/// The most that are read.
const MOST: u64 = 4096;

/// What the ranks of one run share.
#[derive(Debug, Clone)]
pub struct Token(Key);

impl Token {
    /// Reads it.
    ///
    /// # Errors
    /// A file that is not there, is too short, or that others may read.
    pub fn read(path: &Path) -> Result<Self> {
        let place = || format!("--token-file {}", path.display());
        let refuse = |what: String, help: &str| Error::environment(what).at(place()).help(help);
        let make = "make one with `(umask 077; head -c 32 /dev/urandom > token)` and give each host a copy";
        let failed = |e: std::io::Error| refuse(format!("the token cannot be read: {e}"), make);
        // A pipe that nobody writes to would be waited for.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut file =
            OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(refuse("the token is no file".to_owned(), make));
        }
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(refuse(
                format!("others may read the token: its mode is {mode:03o}"),
                "run `chmod 600` on it, and make a new one if others have seen it",
            ));
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(MOST).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() < LEAST {
            let count = bytes.len();
            return Err(refuse(format!("the token has {count} bytes, fewer than {LEAST}"), make));
        }
        Ok(Self(Key::derived(&bytes, &[b"collcost token"])))
    }

    /// Its key.
    pub(super) fn key(&self) -> &Key {
        &self.0
    }

    /// The key of what is named so, for what `words` are.
    pub(super) fn derive(&self, name: &str, words: &[&[u8]]) -> Key {
        let words: Vec<&[u8]> =
            [name.as_bytes()].into_iter().chain(words.iter().copied()).collect();
        Key::derived(&self.0.bytes(), &words)
    }

    #[cfg(test)]
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Key::derived(bytes, &[b"collcost token"]))
    }
}
