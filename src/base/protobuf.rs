//! The wire format of protobuf: the fields of a message, without its definition.
//!
//! A message is a row of fields, each a tag (8·number + kind in the low three bits) and a value: a
//! number of variable length, 8 bytes, 4 bytes, or a length and as many bytes
//! (protobuf.dev/programming-guides/encoding).

/// A value, as far as the wire tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    /// A number of variable length: every whole number, Boolean and enumeration.
    Number(u64),
    /// 4 or 8 bytes, least first.
    Fixed(u64),
    /// A text, a message or a packed list.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a text, a message or a list; none of a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) | Self::Fixed(_) => &[],
        }
    }

    /// The number; 0 of bytes.
    pub fn number(self) -> u64 {
        match self {
            Self::Number(x) | Self::Fixed(x) => x,
            Self::Bytes(_) => 0,
        }
    }
}

/// What is left of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a>(pub &'a [u8]);

/// The data end within a value, or are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl<'a> Message<'a> {
    /// The next field: its number and value; none at the end.
    ///
    /// # Errors
    /// Data that end too early, or a kind that protobuf does not have.
    pub fn field(&mut self) -> Result<Option<(u64, Value<'a>)>, Broken> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => Value::Fixed(fixed(self.take(8)?)),
            2 => Value::Bytes(self.delimited()?),
            5 => Value::Fixed(fixed(self.take(4)?)),
            _ => return Err(Broken),
        };
        Ok(Some((tag >> 3, value)))
    }

    /// A number of 7 bits a byte, the lowest first.
    ///
    /// # Errors
    /// The data end within it, or it has more than 64 bits.
    pub fn number(&mut self) -> Result<u64, Broken> {
        let mut number = 0;
        for (place, &byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                return Err(Broken);
            }
            number |= bits << (7 * place);
            if byte < 0x80 {
                self.0 = &self.0[place + 1..];
                return Ok(number);
            }
        }
        Err(Broken)
    }

    /// A length and as many bytes.
    ///
    /// # Errors
    /// The data end before.
    pub fn delimited(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| Broken)?)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Broken)?;
        self.0 = rest;
        Ok(taken)
    }
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::{Broken, Message, Value};

    #[test]
    fn fields_are_read_to_the_end() {
        let mut message = Message(b"\x08\x96\x01\x12\x02hi\x1d\x01\x00\x00\x00");
        assert_eq!(message.field(), Ok(Some((1, Value::Number(150)))));
        assert_eq!(message.field(), Ok(Some((2, Value::Bytes(b"hi")))));
        assert_eq!(message.field(), Ok(Some((3, Value::Fixed(1)))));
        assert_eq!(message.field(), Ok(None));
    }

    #[test]
    fn what_ends_early_is_broken() {
        for bytes in [&b"\x08"[..], b"\x08\x80", b"\x12\x05hi", b"\x09\x01", b"\x0b"] {
            assert_eq!(Message(bytes).field(), Err(Broken), "{bytes:?}");
        }
        let most = [0xff; 9];
        assert_eq!(Message(&[&most[..], &[1]].concat()).number(), Ok(u64::MAX));
        assert_eq!(Message(&[&most[..], &[2]].concat()).number(), Err(Broken));
    }
}
