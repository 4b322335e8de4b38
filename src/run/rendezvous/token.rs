//! The file of which all ranks know the content, and nobody else.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::base::error::{Error, Result};
use crate::base::secret::{self, Key};

/// The fewest bytes that nobody guesses.
const LEAST: usize = 32;
/// The most that are read.
const MOST: u64 = 4096;

/// How long rank 0 may take to make it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the others look for it.
const TICK: Duration = Duration::from_millis(20);

/// A file with a token, gone when this is dropped.
#[derive(Debug)]
pub struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // Who has come has read it; what is left says nothing to anybody else.
        let _ = std::fs::remove_file(&self.0);
    }
}

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
        if about.uid() != geteuid().as_raw() {
            return Err(refuse("the token is another user's".to_owned(), make));
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

    /// The one that ranks of one host share by themselves in the file of that path: rank 0 makes it, and
    /// takes it away when what it gets here is dropped; the others wait for it.
    ///
    /// # Errors
    /// A file that cannot be made, or that does not come.
    pub fn between(path: &Path, rank: u32) -> Result<(Self, Option<Made>)> {
        if rank > 0 {
            let until = Instant::now() + PATIENCE;
            loop {
                // Asked first: it may come between a reading and a look.
                let there = path.exists();
                match Self::read(path) {
                    Err(_) if !there && Instant::now() < until => sleep(TICK),
                    token => return token.map(|token| (token, None)),
                }
            }
        }
        let failed = |e: std::io::Error| {
            Error::environment(format!("the ranks' token cannot be made: {e}"))
                .at(path.display().to_string())
                .help("add --token-file FILE")
        };
        let secret: [u8; LEAST] = secret::random()?;
        // Whole or not at all, and nothing that somebody else has put there is followed.
        let part = path.with_extension(std::process::id().to_string());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)
            .map_err(failed)?;
        let written = file.write_all(&secret).and_then(|()| std::fs::rename(&part, path));
        if let Err(e) = written {
            let _ = std::fs::remove_file(&part);
            return Err(failed(e));
        }
        let made = Made(path.to_owned());
        Self::read(path).map(|token| (token, Some(made)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_host_share_what_rank_0_makes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("between");
        let other = {
            let path = path.clone();
            std::thread::spawn(move || Token::between(&path, 1))
        };
        let (own, made) = Token::between(&path, 0).unwrap();
        let (others, nothing) = other.join().unwrap().unwrap();
        assert_eq!(own.key().bytes(), others.key().bytes());
        assert!(made.is_some() && nothing.is_none());
        // A second run makes another one, and takes it away.
        let (second, again) = Token::between(&path, 0).unwrap();
        assert_ne!(own.key().bytes(), second.key().bytes());
        drop((made, again));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
