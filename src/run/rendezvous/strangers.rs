//! Messages about callers that do not belong to the run: enough to find a mistake, but few, however
//! many callers there are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::handshake::{Greeting, Stranger};

/// The number of callers that are reported individually.
const TOLD: usize = 5;
/// How often later ones are reported together.
const PAUSE: Duration = Duration::from_secs(10);

/// The rejected callers.
pub(super) struct Strangers {
    told: usize,
    /// Since the last message: their kinds and numbers.
    since: BTreeMap<&'static str, u64>,
    next: Instant,
    /// The last one that may be a rank of this run, started wrongly.
    mistake: Option<String>,
}

impl Strangers {
    pub(super) fn new() -> Self {
        Self { told: 0, since: BTreeMap::new(), next: Instant::now(), mistake: None }
    }

    /// Records a caller, and returns the message to print at once, if any.
    pub(super) fn note(&mut self, from: IpAddr, stranger: &Stranger) -> Option<String> {
        let (kind, why) = match stranger {
            Stranger::Foreign => ("not collcost", "it is not collcost".to_owned()),
            Stranger::Version(theirs) => {
                let own = Greeting::new().map_or_else(|_| String::new(), |own| own.version());
                ("of another version", format!("it is collcost {theirs}, but this is {own}"))
            }
            Stranger::Token => ("without the token", "it does not know the token".to_owned()),
        };
        let text = format!("a caller from {from} was rejected: {why}");
        if *stranger != Stranger::Foreign && self.mistake.as_ref() != Some(&text) {
            self.mistake = Some(text.clone());
        }
        if self.told < TOLD {
            self.told += 1;
            self.next = Instant::now() + PAUSE;
            return Some(text);
        }
        *self.since.entry(kind).or_default() += 1;
        None
    }

    /// The message about the other callers, if one is due, or at the end.
    pub(super) fn others(&mut self, at_last: bool) -> Option<String> {
        if self.since.is_empty() || !at_last && Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + PAUSE;
        let kinds = std::mem::take(&mut self.since);
        let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        Some(format!("more callers were rejected: {}", kinds.join(", ")))
    }

    /// The likely reason for a missing rank.
    pub(super) fn mistake(&self) -> Option<&str> {
        self.mistake.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines() {
        let from = IpAddr::from([127, 0, 0, 1]);
        let mut strangers = Strangers::new();
        let all = [Stranger::Foreign, Stranger::Token, Stranger::Version("9".to_owned())];
        let said: Vec<String> = (0..30_000)
            .flat_map(|i| {
                [strangers.note(from, &all[i % 3]), strangers.others(false)].into_iter().flatten()
            })
            .collect();
        assert_eq!(said.len(), TOLD, "{said:?}");
        let last = strangers.others(true).unwrap();
        assert!(last.contains("9998 not collcost"), "{last}");
        assert!(last.contains("9998 without the token") || last.contains("9999 without the token"));
        assert!(strangers.others(true).is_none());
        assert!(strangers.mistake().is_some());
    }
}
