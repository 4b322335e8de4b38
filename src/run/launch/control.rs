//! The messages between the group and its ranks: JSON, preceded by its length.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::secret;
use crate::run::execute::{Failure, Record, Work};
use crate::run::transport::tcp::RunId;
use crate::run::transport::{Delay, Kind, Wait};

/// The longest message.
const LONGEST: usize = 256 << 20;

/// The first message to a rank: what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) transport: Kind,
    pub(crate) wait: Wait,
    /// The process that starts it; the rank ends when that process ends.
    pub(crate) parent: i32,
    /// The CPU on which it stays.
    pub(crate) cpu: Option<usize>,
    /// The network namespace that it enters.
    pub(crate) namespace: Option<PathBuf>,
    /// Where it listens.
    pub(crate) address: IpAddr,
    /// How long connecting may take.
    pub(crate) patience: Duration,
    /// How each message is delayed.
    pub(crate) delay: Option<Delay>,
}

/// To a rank.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first; over shared memory the file comes with it.
    Hello(Hello),
    /// Where all ranks listen, the run, and the key by which they know each other.
    Connect(Vec<SocketAddr>, RunId, [u8; secret::LENGTH]),
    /// A block of repetitions.
    Work(Box<Work>),
    /// The last.
    End,
}

/// From a rank.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is there, and listens.
    Ready(Option<SocketAddr>),
    /// It is connected to all others, with this congestion control.
    Connected(Option<String>),
    /// The block is done.
    Done(Box<Record>),
    /// The block failed.
    Failed(Failure),
    /// It cannot take part: this machine does not permit it.
    Refused(String),
    /// It could not connect.
    Unconnected(String),
}

/// A message preceded by its length.
pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    let short = u32::try_from(length).ok().filter(|_| length <= LONGEST);
    let short = short.ok_or_else(|| io::Error::other("a message is too long"))?;
    bytes[..4].copy_from_slice(&short.to_le_bytes());
    Ok(bytes)
}

/// Removes the first message from `bytes`, if it is complete.
pub(crate) fn take<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > LONGEST {
        return Err(io::Error::other("a message is too long"));
    }
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    bytes.drain(..4 + length);
    Ok(Some(message))
}

/// Waits for the next message.
pub(crate) fn read<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut bytes = head.to_vec();
    let length = u32::from_le_bytes(head) as usize;
    stream.take(length.min(LONGEST) as u64).read_to_end(&mut bytes)?;
    take(&mut bytes)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Sends a message.
pub(crate) fn write(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&frame(message)?)
}

/// Sends a byte with a file.
pub(super) fn give(stream: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let files = [file];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let sent =
        rustix::net::sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives the byte with the file.
pub(super) fn receive(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(stream.as_fd(), &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    control
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        })
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_whole() {
        let mut bytes = frame(&Order::End).unwrap();
        let last = bytes.pop().unwrap();
        assert!(take::<Order>(&mut bytes).unwrap().is_none());
        bytes.push(last);
        bytes.extend([7]);
        assert!(matches!(take::<Order>(&mut bytes), Ok(Some(Order::End))));
        assert_eq!(bytes, [7]);
        assert!(take::<Order>(&mut vec![255; 8]).is_err());
    }
}
