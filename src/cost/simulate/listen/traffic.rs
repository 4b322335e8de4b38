//! Bytes and messages over each link and tier.

use std::collections::HashMap;

use crate::base::quantity::Volume;
use crate::cost::simulate::{Listener, Timed};
use crate::model::schedule::Endpoint;

/// Sums the traffic over each directed link and each tier.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    links: HashMap<(Endpoint, Endpoint), Amount>,
    tiers: Vec<Amount>,
    switched: Amount,
}

/// Messages with their data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// The data.
    pub bytes: Volume,
    /// How many messages.
    pub messages: u64,
}

/// The amount that one endpoint sent to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// The amount sent.
    pub amount: Amount,
}

impl Amount {
    fn add(&mut self, bytes: Volume) {
        self.bytes.0 += bytes.0;
        self.messages += 1;
    }
}

impl Traffic {
    /// The links in use, by sender and receiver.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        let mut links: Vec<Link> =
            self.links.iter().map(|(&(from, to), &amount)| Link { from, to, amount }).collect();
        links.sort_by_key(|link| (link.from, link.to));
        links
    }

    /// The amount that crossed the tier, counted from the innermost.
    #[must_use]
    pub fn tier(&self, tier: usize) -> Amount {
        self.tiers.get(tier).copied().unwrap_or_default()
    }

    /// The amount that went into switches or came out of them.
    #[must_use]
    pub fn switched(&self) -> Amount {
        self.switched
    }
}

impl Listener for Traffic {
    fn message(&mut self, message: &Timed<'_>) {
        self.links.entry((message.from, message.to)).or_default().add(message.bytes);
        match message.tier {
            None => self.switched.add(message.bytes),
            Some(tier) => {
                if self.tiers.len() <= tier {
                    self.tiers.resize(tier + 1, Amount::default());
                }
                self.tiers[tier].add(message.bytes);
            }
        }
    }
}
