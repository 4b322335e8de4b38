//! Frames: a message as JSON, with its length, its number and an authentication code.
//!
//! ```text
//!   length of the body   number, from 0   body, JSON     code of direction, number and body
//!   4 bytes              8 bytes          ≤ 1 MiB        32 bytes
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::secret::{self, Key};

/// The longest body, in bytes.
pub const LONGEST: usize = 1 << 20;
const HEAD: usize = 4 + 8;

/// A message as a frame; `direction` distinguishes the two directions of a connection.
///
/// # Errors
/// A message that is too long.
pub fn seal(
    key: &Key,
    direction: &str,
    number: u64,
    message: &impl Serialize,
) -> Result<Vec<u8>, String> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message).map_err(|e| e.to_string())?;
    let length = frame.len() - HEAD;
    let short = u32::try_from(length).ok().filter(|_| length <= LONGEST);
    let short = short.ok_or_else(|| format!("a message of {length} bytes is too long"))?;
    frame[..4].copy_from_slice(&short.to_le_bytes());
    frame[4..HEAD].copy_from_slice(&number.to_le_bytes());
    let code = key.code(&[direction.as_bytes(), &frame[4..]]);
    frame.extend_from_slice(&code);
    Ok(frame)
}

/// The bytes received, and the frames in them.
pub struct Frames {
    key: Key,
    direction: &'static str,
    next: u64,
    bytes: Vec<u8>,
}

impl Frames {
    /// Frames of one direction of a connection, whose first frame has the number 0.
    #[must_use]
    pub fn new(key: Key, direction: &'static str) -> Self {
        Self { key, direction, next: 0, bytes: Vec::new() }
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether enough unprocessed bytes are here to stop reading for now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() > LONGEST + HEAD + secret::LENGTH
    }

    /// The next message, if it has arrived completely.
    ///
    /// # Errors
    /// A frame that is too long, out of order or made with another key, or that holds no message.
    /// Nothing after it may be read.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > LONGEST {
            return Err(format!("a frame of {length} bytes is too long"));
        }
        let end = HEAD + length;
        let Some(frame) = self.bytes.get(..end + secret::LENGTH) else { return Ok(None) };
        let (signed, code) = frame.split_at(end);
        if !self.key.signed(&[self.direction.as_bytes(), &signed[4..]], code) {
            return Err("a frame has a wrong code".to_owned());
        }
        let number = signed[4..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        if number != self.next {
            return Err(format!("frame {number} arrived instead of frame {}", self.next));
        }
        let message = serde_json::from_slice(&signed[HEAD..])
            .map_err(|e| format!("a frame holds no message: {e}"))?;
        self.next += 1;
        self.bytes.drain(..end + secret::LENGTH);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::derived(b"key", &[])
    }

    fn frames(bytes: &[u8]) -> Frames {
        let mut frames = Frames::new(key(), "there");
        frames.feed(bytes);
        frames
    }

    #[test]
    fn frames_come_whole_and_in_order() {
        let mut bytes = seal(&key(), "there", 0, &"first").unwrap();
        bytes.extend(seal(&key(), "there", 1, &[2, 3]).unwrap());
        let last = bytes.pop().unwrap();
        let mut frames = frames(&bytes);
        assert_eq!(frames.take::<String>(), Ok(Some("first".to_owned())));
        assert_eq!(frames.take::<Vec<u8>>(), Ok(None));
        frames.feed(&[last]);
        assert_eq!(frames.take::<Vec<u8>>(), Ok(Some(vec![2, 3])));
        assert_eq!(frames.take::<Vec<u8>>(), Ok(None));
    }

    #[test]
    fn what_is_not_right_is_refused() {
        let good = seal(&key(), "there", 0, &1).unwrap();
        let refused = |bytes: &[u8]| frames(bytes).take::<u32>().unwrap_err();
        for changed in 4..good.len() {
            let mut bytes = good.clone();
            bytes[changed] ^= 1;
            assert!(refused(&bytes).contains("wrong code"), "byte {changed}");
        }
        let back = seal(&key(), "back", 0, &1).unwrap();
        assert!(refused(&back).contains("wrong code"), "the other way's");
        let second = seal(&key(), "there", 1, &1).unwrap();
        assert!(refused(&second).contains("frame 1 arrived instead of frame 0"));
        let twice = frames(&[good.clone(), good].concat());
        let (mut twice, mut taken) = (twice, Vec::new());
        while let Ok(Some(number)) = twice.take::<u32>() {
            taken.push(number);
        }
        assert_eq!(taken, [1], "a frame that is sent again is refused");
        assert!(refused(&[0, 0, 17, 0]).contains("too long"), "before it has come");
        let text = seal(&key(), "there", 0, &"one").unwrap();
        assert!(refused(&text).contains("no message"));
        assert!(seal(&key(), "there", 0, &"x".repeat(LONGEST)).is_err());
    }
}
