//! Sends and receives find each other: the k-th receive from a rank with a tag takes its k-th send.

use std::collections::{BTreeMap, VecDeque};

use crate::base::quantity::Bytes;

/// Sender, receiver, tag.
type Key = (u32, u32, u64);

type Waiting<T> = BTreeMap<Key, VecDeque<(T, Bytes)>>;

/// The ends of messages, each where its file has it.
pub(super) struct Ends<T> {
    sends: Waiting<T>,
    receives: Waiting<T>,
}

/// What is wrong with the end at `at`.
pub(super) struct Odd<T> {
    pub what: String,
    pub at: T,
    /// Where the other end is, if there is one.
    pub sent_at: Option<T>,
}

impl<T: Copy> Ends<T> {
    pub fn new() -> Self {
        Self { sends: BTreeMap::new(), receives: BTreeMap::new() }
    }

    pub fn send(&mut self, key: Key, at: T, bytes: Bytes) {
        self.sends.entry(key).or_default().push_back((at, bytes));
    }

    pub fn receive(&mut self, key: Key, at: T, bytes: Bytes) {
        self.receives.entry(key).or_default().push_back((at, bytes));
    }

    /// Each send with its receive.
    pub fn matched(mut self) -> Result<Vec<(T, T)>, Odd<T>> {
        let mut pairs = Vec::new();
        for (key @ (from, to, tag), sent) in self.sends {
            for (send, bytes) in sent {
                let receive = self.receives.get_mut(&key).and_then(VecDeque::pop_front);
                let Some((receive, received)) = receive else {
                    let what = format!(
                        "rank {from} sends tag {tag} to rank {to}, which does not receive it"
                    );
                    return Err(Odd { what, at: send, sent_at: None });
                };
                if bytes != received {
                    let what = format!("{} bytes are sent and {} received", bytes.0, received.0);
                    return Err(Odd { what, at: receive, sent_at: Some(send) });
                }
                pairs.push((send, receive));
            }
        }
        let left = self.receives.iter().find_map(|(key, left)| Some((key, left.front()?.0)));
        left.map_or(Ok(pairs), |(&(from, to, tag), at)| {
            let what =
                format!("rank {to} receives tag {tag} from rank {from}, which does not send it");
            Err(Odd { what, at, sent_at: None })
        })
    }
}
