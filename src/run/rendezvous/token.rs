//! The file whose content all ranks know, and no other program.

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

/// The fewest bytes that cannot be guessed.
const LEAST: usize = 32;
/// The most bytes that are read.
const MOST: u64 = 4096;

/// How long rank 0 may take to make it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the others look for it.
const TICK: Duration = Duration::from_millis(20);

/// A token file, deleted when this is dropped.
#[derive(Debug)]
pub struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // Every rank that has joined has read it; a leftover file is useless to others.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The secret that the ranks of one run share.
#[derive(Debug, Clone)]
pub struct Token(Key);

impl Token {
    /// Reads it.
    ///
    /// # Errors
    /// A file that does not exist, is too short, or can be read by other users.
    pub fn read(path: &Path) -> Result<Self> {
        let place = || format!("--token-file {}", path.display());
        let refuse = |what: String, help: &str| Error::environment(what).at(place()).help(help);
        let make = "make one with `(umask 077; head -c 32 /dev/urandom > token)` and give each host a copy";
        let failed = |e: std::io::Error| refuse(format!("the token cannot be read: {e}"), make);
        // Opening a pipe without a writer would block.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut file =
            OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(refuse("the token is not a file".to_owned(), make));
        }
        if about.uid() != geteuid().as_raw() {
            return Err(refuse("the token belongs to another user".to_owned(), make));
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

    /// The token that ranks of one host share without a flag, in the file at this path: rank 0
    /// makes it, and deletes it when the value returned here is dropped; the others wait for it.
    ///
    /// # Errors
    /// A file that cannot be made, or that does not appear.
    pub fn between(path: &Path, rank: u32) -> Result<(Self, Option<Made>)> {
        if rank > 0 {
            let until = Instant::now() + PATIENCE;
            loop {
                // Checked first: the file may appear between the read and this check.
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
        // Written atomically, without following any link placed there.
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

    /// The key with this name, derived for the data in `words`.
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
        // A second run makes another one, and deletes it.
        let (second, again) = Token::between(&path, 0).unwrap();
        assert_ne!(own.key().bytes(), second.key().bytes());
        drop((made, again));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
