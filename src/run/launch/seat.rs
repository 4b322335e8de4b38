//! A rank as the group sees it, wherever its process runs.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use rustix::event::PollFd;

use super::control::Answer;
use crate::base::quantity::Bytes;
use crate::machine::sample::Op;
use crate::run::execute::Work;
use crate::run::transport::tcp;

/// A rank: of this host, or of another that speaks for it.
pub(crate) trait Seat {
    /// What it is called in errors: `rank 3`, `rank 3 (b, 10.0.0.3)`.
    fn name(&self) -> String;

    /// Its process, by the number that it has on its host.
    fn process(&self) -> u32;

    /// The CPU of its host on which it stays.
    fn cpu(&self) -> Option<usize>;

    /// Tells it where all ranks listen.
    fn connect(&mut self, addresses: &[SocketAddr], run: &tcp::Run) -> io::Result<()>;

    /// Gives it a block; `what` it is a block of, where that has a name.
    fn work(&mut self, work: Work, what: Option<(&Op, Bytes)>) -> io::Result<()>;

    /// Tells it that this was all.
    fn finish(&mut self) -> io::Result<()>;

    /// Adds what becomes readable when there is something to hear; its answer is there already,
    /// where it has `answered`.
    fn watch<'a>(&'a self, answered: bool, files: &mut Vec<PollFd<'a>>);

    /// Takes in what it said, and how its process is.
    fn hear(&mut self);

    /// The next answer of those that were taken in.
    fn answer(&mut self) -> io::Result<Option<Answer>>;

    /// How it ended, if it did.
    fn dead(&mut self) -> Option<String>;

    /// Since when it has been seen stopped.
    fn stopped(&self) -> Option<Instant>;

    /// Since when nothing has been heard of the one who speaks for it, where that is long.
    fn silent(&self) -> Option<Instant>;

    /// Whether its process is gone.
    fn is_over(&mut self) -> bool;

    /// Ends it at once.
    fn kill(&mut self);

    /// Waits until it is gone, after [`Self::kill`].
    fn reap(&mut self);
}
