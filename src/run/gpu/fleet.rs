//! The GPUs of several hosts, from the view of rank 0 of the launcher's ranks: each other rank
//! starts processes on its host and forwards orders to them and their answers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags};

use super::talk::{Answer, Facts, FarNews, FarOrder};
use super::worker::Gone;
use crate::base::error::{Error, Result};
use crate::run::rendezvous::{Channel, FromWorker, Hosts, ToWorker};

/// The other ranks of a run.
pub struct Fleet {
    hosts: Hosts,
    members: Vec<Member>,
    runs: Cell<u32>,
}

/// Another rank.
pub(super) struct Member {
    name: String,
    channel: Rc<RefCell<Channel>>,
    /// The socket of the channel, which stays the same.
    file: OwnedFd,
}

impl Fleet {
    /// The fleet of the ranks that have joined.
    ///
    /// # Errors
    /// A connection that cannot be watched.
    pub fn new(hosts: Hosts) -> Result<Self> {
        let member = |(name, channel): (&str, &Rc<RefCell<Channel>>)| {
            let file = channel
                .borrow()
                .file()
                .map_err(|e| Error::environment(format!("{name} cannot be watched: {e}")))?;
            Ok(Member { name: name.to_owned(), channel: Rc::clone(channel), file })
        };
        let members = hosts.workers().map(member).collect::<Result<_>>()?;
        Ok(Self { hosts, members, runs: Cell::new(0) })
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Releases the other ranks; they receive the error that ended the run, if any.
    pub fn end(self, error: Option<&Error>) {
        self.hosts.end(error);
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    pub(super) fn next_run(&self) -> u32 {
        let run = self.runs.get() + 1;
        self.runs.set(run);
        run
    }

    /// The GPUs that each rank uses of those that it has `seen`: ranks of one host that see the
    /// same GPUs divide them up in rank order.
    ///
    /// # Errors
    /// More ranks than GPUs, GPUs that two ranks would use, different NCCL versions.
    pub fn share(&self, seen: &[Facts]) -> Result<Vec<Vec<u32>>> {
        let hosts: Vec<&str> = self.hosts.boots().collect();
        if let Some((rank, other)) = (0..).zip(seen).find(|(_, facts)| facts.nccl != seen[0].nccl) {
            let version = |facts: &Facts| facts.nccl.map_or("none".to_owned(), |v| v.to_string());
            let (own, other) = (version(&seen[0]), version(other));
            return Err(Error::environment(format!(
                "rank 0 has NCCL {own}, rank {rank} has NCCL {other}"
            ))
            .help("install the same version on all hosts, or select one with --nccl-lib"));
        }
        share(&hosts, seen)
    }
}

fn share(hosts: &[&str], seen: &[Facts]) -> Result<Vec<Vec<u32>>> {
    let mut taken: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut shares = Vec::with_capacity(seen.len());
    for (rank, facts) in seen.iter().enumerate() {
        let is_alike =
            |other: &usize| hosts[*other] == hosts[rank] && seen[*other].ids == facts.ids;
        let of = (0..seen.len()).filter(is_alike).count();
        let place = (0..rank).filter(is_alike).count();
        let gpus = facts.ids.len();
        if of > gpus {
            let there = if gpus == 1 { "one GPU".to_owned() } else { format!("{gpus} GPUs") };
            return Err(Error::environment(format!(
                "{of} ranks of a host see {there} there; rank {rank} is one of them"
            ))
            .help("start at most one rank per GPU"));
        }
        let own = place * gpus / of..(place + 1) * gpus / of;
        for gpu in own.clone() {
            if let Some(other) = taken.insert((hosts[rank], &facts.ids[gpu]), rank) {
                return Err(Error::environment(format!(
                    "ranks {other} and {rank} of a host see partly the same GPUs"
                ))
                .help("let all ranks of a host see the same GPUs, or each rank only its own"));
            }
        }
        shares.push(own.map(|gpu| gpu as u32).collect());
    }
    Ok(shares)
}

impl Member {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A process that does not receive this is noticed when it should answer.
    pub(super) fn tell(&self, order: &FarOrder) {
        let _ = self.channel.borrow().send(&ToWorker::Do(order));
    }

    pub(super) fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        files.push(PollFd::new(&self.file, PollFlags::IN));
    }

    /// The next answer of the process with number `run`, if it has arrived.
    pub(super) fn answer(&self, run: u32) -> std::result::Result<Option<Answer>, Gone> {
        let mut channel = self.channel.borrow_mut();
        channel.hear();
        while let Some(message) = channel.take() {
            match message {
                FromWorker::Did(FarNews::Said(of, Answer::Refused(text))) if of == run => {
                    return Err(Gone::Refused(format!("{}: {text}", self.name)));
                }
                FromWorker::Did(FarNews::Said(of, answer)) if of == run => return Ok(Some(answer)),
                FromWorker::Did(FarNews::Ended(of, how)) if of == run => {
                    return Err(Gone::Lost(format!("{}: {how}", self.name)));
                }
                // A message of a process that is gone, or a heartbeat.
                _ => {}
            }
        }
        match channel.over() {
            None => Ok(None),
            Some(how) => {
                let what = format!("{} was lost: its host {how}", self.name);
                Err(Gone::All(Error::lost(what)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ids: &[&[&str]]) -> Vec<Facts> {
        let facts = |ids: &&[&str]| Facts {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..Facts::default()
        };
        ids.iter().map(facts).collect()
    }

    #[test]
    fn gpus_are_shared_out_among_ranks_of_a_host() {
        let all: &[&str] = &["a", "b", "c", "d"];
        let one_each = share(&["h"; 4], &seen(&[all; 4])).unwrap();
        assert_eq!(one_each, [[0], [1], [2], [3]]);
        let two = share(&["h", "k"], &seen(&[all, all])).unwrap();
        assert_eq!(two, [[0, 1, 2, 3], [0, 1, 2, 3]], "one rank per host takes all");
        let uneven = share(&["h"; 3], &seen(&[all; 3])).unwrap();
        assert_eq!(uneven, [vec![0], vec![1], vec![2, 3]]);
        let own = share(&["h"; 2], &seen(&[&["a"], &["b"]])).unwrap();
        assert_eq!(own, [[0], [0]], "where each sees its own, there is nothing to share");
        let refused = |hosts: &[&str], ids: &[&[&str]]| share(hosts, &seen(ids)).unwrap_err();
        assert!(
            refused(&["h"; 2], &[&["a"], &["a"]])
                .to_string()
                .contains("2 ranks of a host see one GPU")
        );
        let some = refused(&["h"; 2], &[&["a", "b"], &["b"]]).to_string();
        assert!(some.contains("ranks 0 and 1"), "{some}");
    }
}
