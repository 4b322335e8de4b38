//! Receives without a message, and messages without a receive, in order of arrival.

use std::collections::HashMap;

use crate::base::error::{Error, Result};

/// The most comparisons of messages with receives that accept any source or tag.
const LOOKS: u64 = 1 << 30;

/// A message for a rank, or a receive of one; an absent source or tag matches any.
#[derive(Clone, Copy)]
pub(super) struct Mail {
    pub rank: u32,
    pub from: Option<u32>,
    pub tag: Option<u32>,
    pub operation: u32,
}

impl Mail {
    /// Rank, sender and tag, if both sender and tag are given.
    fn exact(&self) -> Option<(u32, u32, u32)> {
        Some((self.rank, self.from?, self.tag?))
    }
}

/// Waiting receives or messages, in order.
pub(super) struct Mailbox {
    /// The first and the last of those with one rank, sender and tag.
    exact: HashMap<(u32, u32, u32), (u32, u32)>,
    /// The successor of each of them.
    next: Vec<u32>,
    /// The arrival of each one that more than one receive can take.
    came: Vec<u32>,
    count: u32,
    /// By rank, the receives of any source or tag.
    loose: HashMap<u32, Vec<Mail>>,
    looks: u64,
}

const NONE: u32 = u32::MAX;

impl Mailbox {
    pub fn new(operations: usize) -> Self {
        Self {
            exact: HashMap::new(),
            next: vec![NONE; operations],
            came: vec![0; operations],
            count: 0,
            loose: HashMap::new(),
            looks: 0,
        }
    }

    pub fn put(&mut self, mail: &Mail) {
        let operation = mail.operation;
        self.came[operation as usize] = self.count;
        self.count += 1;
        let Some(key) = mail.exact() else {
            self.loose.entry(mail.rank).or_default().push(*mail);
            return;
        };
        let (_, last) = self.exact.entry(key).or_insert((operation, operation));
        if *last != operation {
            self.next[*last as usize] = operation;
            *last = operation;
        }
    }

    /// The first one that matches.
    pub fn take(&mut self, mail: &Mail) -> Result<Option<u32>> {
        match mail.exact() {
            Some(key) => self.take_exact(key),
            None => self.take_any(mail),
        }
    }

    /// The first one posted for exactly this sender and tag, or for any.
    fn take_exact(&mut self, key: (u32, u32, u32)) -> Result<Option<u32>> {
        let (rank, from, tag) = key;
        let exact = self.exact.get(&key).map(|&(first, _)| first);
        let loose = self.loose.get(&rank).and_then(|loose| {
            let fits = |own: &Mail| {
                own.from.is_none_or(|own| own == from) && own.tag.is_none_or(|own| own == tag)
            };
            let at = loose.iter().position(fits);
            self.looks += at.unwrap_or(loose.len()) as u64;
            at.map(|at| (at, loose[at].operation))
        });
        self.within()?;
        let came = |operation: u32| self.came[operation as usize];
        match (exact, loose) {
            (Some(exact), Some((_, loose))) if came(exact) < came(loose) => {
                Ok(Some(self.drop_first(key)))
            }
            (_, Some((at, loose))) => {
                if let Some(all) = self.loose.get_mut(&rank) {
                    all.remove(at);
                }
                Ok(Some(loose))
            }
            (Some(_), None) => Ok(Some(self.drop_first(key))),
            (None, None) => Ok(None),
        }
    }

    /// The first of those posted for one sender and tag, if they match `mail`.
    fn take_any(&mut self, mail: &Mail) -> Result<Option<u32>> {
        let fits = |key: &(u32, u32, u32)| {
            key.0 == mail.rank
                && mail.from.is_none_or(|from| key.1 == from)
                && mail.tag.is_none_or(|tag| key.2 == tag)
        };
        self.looks += self.exact.len() as u64;
        self.within()?;
        let firsts = self.exact.iter().filter(|(key, _)| fits(key));
        let first = firsts.min_by_key(|(_, (first, _))| self.came[*first as usize]);
        let key = first.map(|(key, _)| *key);
        Ok(key.map(|key| self.drop_first(key)))
    }

    fn drop_first(&mut self, key: (u32, u32, u32)) -> u32 {
        let Some(&(first, last)) = self.exact.get(&key) else { return NONE };
        if first == last {
            self.exact.remove(&key);
        } else {
            self.exact.insert(key, (self.next[first as usize], last));
        }
        first
    }

    /// The first of all that wait.
    pub fn first(&self) -> Option<u32> {
        let exact = self.exact.values().map(|&(first, _)| first);
        let loose = self.loose.values().filter_map(|all| Some(all.first()?.operation));
        exact.chain(loose).min()
    }

    fn within(&self) -> Result<()> {
        if self.looks <= LOOKS {
            return Ok(());
        }
        Err(Error::input("too many messages wait together with receives of any source or tag")
            .help("give sources and tags"))
    }
}
