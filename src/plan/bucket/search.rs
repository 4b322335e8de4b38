//! The best size of buckets: small calls waste latency, and one large call hides nothing.

use super::{Bucket, Gradients, Limit, Rule, pack, timeline};
use crate::base::quantity::{Bytes, Ratio, Seconds};

/// One cap that was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cap {
    /// The cap.
    pub cap: Bytes,
    /// The number of buckets.
    pub buckets: usize,
    /// The time of their calls.
    pub calls: Seconds,
    /// The time that the backward pass does not hide.
    pub exposed: Seconds,
}

/// Caps in order, the best one, and the range of equally good ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// All that were tried.
    pub tried: Vec<Cap>,
    /// The one with which the step ends first; the smallest of equal ones.
    pub best: Cap,
    /// The smallest and largest cap around the best one with which the step ends at most a
    /// hundredth later.
    pub flat: (Bytes, Bytes),
}

/// A step's end that is later by up to this factor counts as equal.
pub const FLAT: Ratio = Ratio(0.01);

/// Tries caps from 1 MiB up to one bucket for all, three per octave, the rule's own among them;
/// every bucket has the tried cap, as if a user had set it.
#[must_use]
pub fn caps(
    gradients: &Gradients,
    rule: &Rule,
    backward: Seconds,
    time: impl Fn(&Bucket) -> Seconds,
) -> Option<Caps> {
    let all = gradients.bytes().0;
    let mut sizes: Vec<u64> = (20..63)
        .flat_map(|k| [1_u64 << k, 5 << (k - 2), 3 << (k - 1)])
        .map(|cap| cap & !((1 << 20) - 1))
        .take_while(|cap| *cap < all)
        .collect();
    sizes.extend([rule.cap.bytes(gradients.dtype()).0, all.next_multiple_of(1 << 20)]);
    sizes.sort_unstable();
    sizes.dedup();
    let tried: Vec<Cap> = sizes
        .into_iter()
        .map(|cap| {
            let rule = rule.clone().with_cap(Limit::Bytes(Bytes(cap)), None);
            let buckets = pack(gradients, &rule);
            let played = timeline(&buckets, backward, &time);
            let (calls, exposed) = (played.calls, played.exposed);
            Cap { cap: Bytes(cap), buckets: buckets.len(), calls, exposed }
        })
        .collect();
    let end = |cap: &Cap| backward.0 + cap.exposed.0;
    let at = (0..tried.len()).min_by(|&a, &b| end(&tried[a]).total_cmp(&end(&tried[b])))?;
    let best = tried[at];
    let flat = |cap: &&Cap| end(cap) <= end(&best) * (1.0 + FLAT.0);
    let below = tried[..=at].iter().rev().take_while(flat).last();
    let above = tried[at..].iter().take_while(flat).last();
    let flat = (below.map_or(best.cap, |c| c.cap), above.map_or(best.cap, |c| c.cap));
    Some(Caps { tried, best, flat })
}
