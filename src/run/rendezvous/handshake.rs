//! How the two ends of a connection authenticate each other.
//!
//! ```text
//!   worker                                         coordinator
//!     greeting: name, protocol, version, nonce ──►
//!              ◄── greeting
//!     code of "worker" and both greetings ──►         a wrong one is turned away
//!              ◄── 1 and the code of "coordinator" and both; or 0
//!     frames with the key of "session" and both ◄──►
//! ```
//!
//! Neither end learns more of the token than whether the other has it. The version that each end
//! received from the other is part of the signed data.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::digest;
use super::token::Token;
use crate::base::secret::{self, Key};

/// The version of all messages, greetings included.
const PROTOCOL: u32 = 2;
const NAME: &[u8; 8] = b"collcost";
/// Bytes of the version, with the digest of its schedules.
pub(super) const TOOL: usize = 24;
/// Bytes of a greeting.
pub(super) const GREETING: usize = 8 + 4 + TOOL + secret::LENGTH;

/// The first message of each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting([u8; GREETING]);

/// Why the other end was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It does not use this protocol.
    Foreign,
    /// It is of another version.
    Version(String),
    /// It does not know the token.
    Token,
}

impl Greeting {
    /// This program's greeting, with a new nonce.
    pub(super) fn new() -> crate::Result<Self> {
        Ok(Self::of(PROTOCOL, digest::version(), secret::random()?))
    }

    fn of(protocol: u32, tool: &str, nonce: [u8; secret::LENGTH]) -> Self {
        let mut bytes = [0; GREETING];
        bytes[..8].copy_from_slice(NAME);
        bytes[8..12].copy_from_slice(&protocol.to_le_bytes());
        let tool = tool.as_bytes();
        let length = tool.len().min(TOOL);
        bytes[12..12 + length].copy_from_slice(&tool[..length]);
        bytes[12 + TOOL..].copy_from_slice(&nonce);
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `0.4.1+6b0e1f93a2c4, protocol 1`.
    pub(super) fn version(&self) -> String {
        let tool = self.0[12..12 + TOOL].split(|&byte| byte == 0).next().unwrap_or_default();
        let printable = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '?' };
        let tool: String = tool.iter().map(printable).collect();
        let protocol = u32::from_le_bytes([8, 9, 10, 11].map(|i| self.0[i]));
        format!("{tool}, protocol {protocol}")
    }

    /// Reads the other end's greeting. It must have the same version as this one and the same
    /// schedules, since ranks compile them themselves.
    pub(super) fn check(&self, other: [u8; GREETING]) -> Result<Self, Stranger> {
        let other = Self(other);
        match other.0[..8] == *NAME {
            false => Err(Stranger::Foreign),
            true if other.0[8..12 + TOOL] != self.0[8..12 + TOOL] => {
                Err(Stranger::Version(other.version()))
            }
            true => Ok(other),
        }
    }
}

/// Both greetings.
pub(super) struct Pair<'a> {
    pub(super) worker: &'a Greeting,
    pub(super) coordinator: &'a Greeting,
}

impl Pair<'_> {
    pub(super) fn code(&self, token: &Token, who: &str) -> [u8; secret::LENGTH] {
        token.key().code(&[who.as_bytes(), &self.worker.0, &self.coordinator.0])
    }

    pub(super) fn is_right(&self, token: &Token, who: &str, code: &[u8]) -> bool {
        token.key().signed(&[who.as_bytes(), &self.worker.0, &self.coordinator.0], code)
    }

    pub(super) fn session(&self, token: &Token) -> Key {
        token.derive("session", &[&self.worker.0, &self.coordinator.0])
    }
}

/// The worker's side, within `patience`.
pub(super) fn introduce(
    stream: &mut TcpStream,
    token: &Token,
    patience: Duration,
) -> io::Result<Result<Key, Stranger>> {
    let own = Greeting::new().map_err(io::Error::other)?;
    let until = Instant::now() + patience;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(own.bytes())?;
    let mut theirs = [0; GREETING];
    read(stream, &mut theirs, until)?;
    let coordinator = match own.check(theirs) {
        Ok(greeting) => greeting,
        Err(stranger) => return Ok(Err(stranger)),
    };
    let pair = Pair { worker: &own, coordinator: &coordinator };
    stream.write_all(&pair.code(token, "worker"))?;
    let mut verdict = [0];
    read(stream, &mut verdict, until)?;
    if verdict != [1] {
        return Ok(Err(Stranger::Token));
    }
    let mut code = [0; secret::LENGTH];
    read(stream, &mut code, until)?;
    Ok(match pair.is_right(token, "coordinator", &code) {
        true => Ok(pair.session(token)),
        false => Err(Stranger::Token),
    })
}

fn read(stream: &mut TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    stream.read_exact(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_must_be_the_same() {
        let nonce = [7; secret::LENGTH];
        let own = Greeting::of(1, "1.2.3", nonce);
        assert!(own.check(Greeting::of(1, "1.2.3", [9; secret::LENGTH]).0).is_ok());
        for (protocol, tool) in [(2, "1.2.3"), (1, "1.2.4")] {
            let other = Greeting::of(protocol, tool, nonce);
            let said = format!("{tool}, protocol {protocol}");
            assert_eq!(own.check(other.0), Err(Stranger::Version(said)));
        }
        assert_eq!(own.check([b'G'; GREETING]), Err(Stranger::Foreign));
    }

    #[test]
    fn codes_are_of_one_token_one_side_and_both_greetings() {
        let (token, other) = (Token::of(b"a"), Token::of(b"b"));
        let (one, two) = (Greeting::of(1, "1", [1; 32]), Greeting::of(1, "1", [2; 32]));
        let pair = Pair { worker: &one, coordinator: &two };
        let code = pair.code(&token, "worker");
        assert!(pair.is_right(&token, "worker", &code));
        assert!(!pair.is_right(&other, "worker", &code));
        assert!(!pair.is_right(&token, "coordinator", &code), "no reflection");
        let turned = Pair { worker: &two, coordinator: &one };
        assert!(!turned.is_right(&token, "worker", &code), "no replay");
        assert_ne!(pair.session(&token), turned.session(&token));
    }
}
