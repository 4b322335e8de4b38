//! A rank from the group's point of view, wherever its process runs.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use rustix::event::PollFd;

use super::control::Answer;
use crate::base::quantity::Bytes;
use crate::machine::sample::Op;
use crate::run::execute::Work;
use crate::run::transport::tcp;

/// A rank: a process of this host, or of another host that acts for it.
pub(crate) trait Seat {
    /// Its name in errors: `rank 3`, `rank 3 (b, 10.0.0.3)`.
    fn name(&self) -> String;

    /// Its process id on its host.
    fn process(&self) -> u32;

    /// The CPU of its host to which it is pinned.
    fn cpu(&self) -> Option<usize>;

    /// Tells it where all ranks listen.
    fn connect(&mut self, addresses: &[SocketAddr], run: &tcp::Run) -> io::Result<()>;

    /// Gives it a block; `what` names the operation and size of the block, if it has one.
    fn work(&mut self, work: Work, what: Option<(&Op, Bytes)>) -> io::Result<()>;

    /// Tells it that there is no more work.
    fn finish(&mut self) -> io::Result<()>;

    /// Adds the files that become readable when there is a message; `answered` means its answer has
    /// already arrived.
    fn watch<'a>(&'a self, answered: bool, files: &mut Vec<PollFd<'a>>);

    /// Reads its messages and checks its process.
    fn hear(&mut self);

    /// The next of the answers read.
    fn answer(&mut self) -> io::Result<Option<Answer>>;

    /// How it ended, if it has.
    fn dead(&mut self) -> Option<String>;

    /// Since when it has been seen stopped.
    fn stopped(&self) -> Option<Instant>;

    /// Since when nothing has been heard from the host that acts for it, if that is long.
    fn silent(&self) -> Option<Instant>;

    /// Whether its process has ended.
    fn is_over(&mut self) -> bool;

    /// Ends it at once.
    fn kill(&mut self);

    /// Waits until it is gone, after [`Self::kill`].
    fn reap(&mut self);
}
