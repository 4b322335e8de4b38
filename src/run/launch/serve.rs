//! A rank's side: what a process started by the group does.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::control::{Answer, Hello, Order, read, receive, write};
use super::usable::pin;
use crate::base::error::{Error, Result};
use crate::base::secret::Key;
use crate::base::stats::median;
use crate::run::execute::perform;
use crate::run::transport::{Delayed, Kind, Spent, Transport, shm, tcp};

/// Serves as a rank until the group ends it; `control` is the channel that the group gave.
///
/// # Errors
/// An invalid channel, or a group that has ended. Errors in a run are reported to the group.
pub fn serve(control: OwnedFd) -> Result<()> {
    let mut stream = UnixStream::from(control);
    let gone = |e: std::io::Error| {
        Error::input(format!("this rank has no group: {e}"))
            .help("ranks are started by `collcost run`")
    };
    let Order::Hello(hello) = read(&mut stream).map_err(gone)? else {
        return Err(Error::lost("the group did not tell this process its rank"));
    };
    let lost = |e: std::io::Error| Error::lost(format!("rank {} lost the group: {e}", hello.rank));
    let mut transport = match join(&hello, &mut stream) {
        Ok(transport) => transport,
        Err(error) => {
            let text = error.to_string();
            let answer = match error.is_lost() {
                true => Answer::Unconnected(text),
                false => Answer::Refused(text),
            };
            return write(&mut stream, &answer).map_err(lost);
        }
    };
    let spent = Spent::default();
    if let Some(delay) = hello.delay {
        transport = Box::new(Delayed::new(transport, delay, spent.clone()));
    }
    loop {
        // When the group ends, so does this process.
        match read(&mut stream) {
            Ok(Order::Work(work)) => {
                let answer = match perform(&mut *transport, &work) {
                    Ok(mut record) => {
                        let spent = spent.take().into_iter().map(|ns| ns as f64);
                        record.held_up = median(spent.collect()).map(|ns| ns as u64);
                        Answer::Done(Box::new(record))
                    }
                    Err(failure) => Answer::Failed(failure),
                };
                write(&mut stream, &answer).map_err(lost)?;
            }
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// Becomes the rank described by `hello` and joins the others.
fn join(hello: &Hello, stream: &mut UnixStream) -> Result<Box<dyn Transport>> {
    let refused = |what: &str, e: rustix::io::Errno| {
        Error::environment(format!("rank {} cannot {what}: {e}", hello.rank))
    };
    let broken = |e| Error::lost(format!("rank {} lost the group: {e}", hello.rank));
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| refused("ask to end with the group", e))?;
    // The death of a group before this point would go unnoticed.
    if getppid() != Pid::from_raw(hello.parent) {
        return Err(Error::lost(format!("rank {} no longer has a group", hello.rank)));
    }
    if let Some(cpu) = hello.cpu {
        pin(cpu).map_err(|e| refused(&format!("stay on CPU {cpu}"), e))?;
    }
    if let Some(path) = &hello.namespace {
        let shown = path.display();
        let file = File::open(path).map_err(|e| {
            Error::environment(format!("the network namespace {shown} cannot be opened: {e}")).help(
                "`ip netns` lists them, and `ip netns add` makes one; only root may enter them",
            )
        })?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| refused(&format!("enter the network namespace {shown}"), e))?;
    }
    match hello.transport {
        Kind::Shm => {
            let file = receive(stream).map_err(broken)?;
            let transport = shm::join(file.as_fd(), hello.rank, hello.ranks, hello.wait)?;
            write(stream, &Answer::Ready(None)).map_err(broken)?;
            Ok(transport)
        }
        Kind::Tcp => {
            let (listener, at) =
                tcp::listen(hello.address).map_err(|e| match &hello.namespace {
                    Some(path) => e.help(format!("give it to a device in {}", path.display())),
                    None => e,
                })?;
            write(stream, &Answer::Ready(Some(at))).map_err(broken)?;
            let Order::Connect(addresses, id, key) = read(stream).map_err(broken)? else {
                return Err(Error::lost("the group did not send the addresses of the other ranks"));
            };
            let run = tcp::Run { id, key: Key::from_bytes(key) };
            let how = (hello.wait, hello.patience);
            let (transport, facts) = tcp::join(&listener, hello.rank, &addresses, &run, how)?;
            write(stream, &Answer::Connected(facts.congestion)).map_err(broken)?;
            Ok(transport)
        }
    }
}
