//! Keys, and the codes by which their holders recognize each other (HMAC-SHA-256, RFC 2104).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;

use crate::base::error::{Error, Result};

/// Bytes of a key, and of a whole code.
pub const LENGTH: usize = 32;

/// A key; it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LENGTH]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<Self> {
        random().map(Self)
    }

    /// A key that any holder of `secret` can derive from the same words.
    #[must_use]
    pub fn derived(secret: &[u8], words: &[&[u8]]) -> Self {
        Self(mac(secret, words).finalize().into_bytes().into())
    }

    /// The code of the concatenated `words`.
    #[must_use]
    pub fn code(&self, words: &[&[u8]]) -> [u8; LENGTH] {
        mac(&self.0, words).finalize().into_bytes().into()
    }

    /// Whether `code`, of at least 16 bytes, begins the code of `words`; takes the same time for a
    /// wrong one as for a right one.
    #[must_use]
    pub fn signed(&self, words: &[&[u8]], code: &[u8]) -> bool {
        (16..=LENGTH).contains(&code.len())
            && mac(&self.0, words).verify_truncated_left(code).is_ok()
    }

    /// The key for a child process, over a channel that no other process reads.
    pub(crate) fn bytes(&self) -> [u8; LENGTH] {
        self.0
    }

    /// The key that [`Self::bytes`] returned.
    pub(crate) fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        Self(bytes)
    }
}

/// Random bytes.
///
/// # Errors
/// The system has no random numbers.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|e| Error::environment(format!("no random numbers: {e}")))?;
    Ok(bytes)
}

fn mac(secret: &[u8], words: &[&[u8]]) -> Hmac<Sha256> {
    // A key may have any length: longer ones are hashed first.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!());
    for word in words {
        mac.update(word);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_rfc_4231() {
        let key = Key::derived(b"Jefe", &[b"what do ya ", b"want for nothing?"]);
        let hex: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_code_is_of_one_key_and_text() {
        let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
        let code = key.code(&[b"rank", b"3"]);
        assert!(key.signed(&[b"rank3"], &code) && key.signed(&[b"rank3"], &code[..24]));
        assert!(!key.signed(&[b"rank4"], &code) && !other.signed(&[b"rank3"], &code));
        assert!(!key.signed(&[b"rank3"], &code[..8]), "too short to say anything");
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}
