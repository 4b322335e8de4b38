//! A policy over a range of sizes, as exact intervals.

use super::{Call, Choice, Policy};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;

/// A range of sizes with the same choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The first size.
    pub from: Bytes,
    /// The last size.
    pub to: Bytes,
    /// The choice at `from`; it is alike up to `to`.
    pub choice: Choice,
}

/// What `policy` chooses for every size from `first` to `last`, with the other fields of `call`.
///
/// # Errors
/// An empty range; the errors of [`Policy::choose`].
pub fn intervals(
    policy: &dyn Policy,
    call: &Call,
    first: Bytes,
    last: Bytes,
) -> Result<Vec<Interval>> {
    if first > last {
        return Err(Error::input(format!("there is no size from {first} to {last}"))
            .help("write the smaller size first"));
    }
    let mut starts = policy.edges(call)?;
    starts.retain(|&edge| first < edge && edge <= last);
    starts.push(first);
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| Bytes(next.0 - 1)).chain([last]);
    let mut found: Vec<Interval> = Vec::new();
    for (&from, to) in starts.iter().zip(ends) {
        let choice = policy.choose(&call.with_size(from))?;
        match found.last_mut() {
            Some(before) if before.choice.is_alike(&choice) => before.to = to,
            _ => found.push(Interval { from, to, choice }),
        }
    }
    Ok(found)
}
