//! What a library will pick: its rules as policies, each with its source.
//!
//! A [`Policy`] answers two questions: which algorithm runs for a [`Call`], and at which sizes that
//! answer may change. From the second, [`intervals`] makes exact ranges without sampling. What a
//! choice would cost is asked of the closed forms, through [`Runs`].
//!
//! Adding a policy: one file here, one line in [`POLICIES`].

mod call;
mod choice;
mod intervals;
mod openmpi;

pub use call::{Call, Flavour, Operation, Site};
pub use choice::{Choice, FellBack, Part, Runs, Where};
pub use intervals::{Interval, intervals};

use crate::algorithm::Library;
use crate::error::{Error, Result, nearest};
use crate::quantity::Bytes;

/// What a policy says of itself. No field has a default: nothing goes undocumented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The name on the command line: library, `@`, version, such as `openmpi@4.1`.
    pub id: String,
    /// The library whose algorithms it chooses from, where that is one of ours.
    pub library: Option<Library>,
    /// In one line: whose rules, which version.
    pub title: String,
    /// What its thresholds count, where that is not this crate's M.
    pub counts: String,
    /// The public code that it was read from.
    pub source: String,
}

/// The rules by which a library chooses.
pub trait Policy {
    /// Names, what its thresholds count, source.
    fn meta(&self) -> &Meta;

    /// What runs for this call, fall-backs included.
    ///
    /// # Errors
    /// A collective for which it has no rule; a call that the library refuses.
    fn choose(&self, call: &Call) -> Result<Choice>;

    /// Every M, for the other fields of `call`, at which the choice may differ from that one byte
    /// below. In any order, and sizes at which nothing changes may be among them.
    ///
    /// # Errors
    /// As [`Self::choose`].
    fn edges(&self, call: &Call) -> Result<Vec<Bytes>>;

    /// The options or variables that make the library run the algorithm of this crate called
    /// `algorithm`; absent where it cannot be forced.
    fn force(&self, call: &Call, algorithm: &str) -> Option<String> {
        let _ = (call, algorithm);
        None
    }
}

/// A policy in the list: its names, and how it is made for a machine.
pub struct Entry {
    /// As in [`Meta`].
    pub id: &'static str,
    /// Other names that are understood; a version may follow the last one's `-` or `@`.
    pub aliases: &'static [&'static str],
    /// In one line.
    pub title: &'static str,
    /// Makes it for what is known of the machine.
    pub make: fn(&Site) -> Result<Box<dyn Policy>>,
}

/// All policies that need no file; of one library the newest first.
pub const POLICIES: &[Entry] = &[
    Entry {
        id: "openmpi@5.0",
        aliases: &["openmpi@5", "openmpi"],
        title: "Open MPI 5.0: coll/tuned's fixed decisions, those of 4.1; HAN stands before them",
        make: openmpi::v5_0,
    },
    Entry {
        id: "openmpi@4.1",
        aliases: &["openmpi@4"],
        title: "Open MPI 4.1: coll/tuned's fixed decisions",
        make: openmpi::v4_1,
    },
    Entry {
        id: "openmpi@4.0",
        aliases: &["openmpi@3", "openmpi@2"],
        title: "Open MPI 4.0 and before: coll/tuned's fixed decisions",
        make: openmpi::v4_0,
    },
];

/// The policy called `name` for a machine: an id, an alias, or a library, which means its newest.
///
/// # Errors
/// An unknown name, with the nearest known one; a policy that knows nothing of this machine.
pub fn policy(name: &str, site: &Site) -> Result<Box<dyn Policy>> {
    (entry(name)?.make)(site)
}

/// The entry of the list called `name`.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn entry(name: &str) -> Result<&'static Entry> {
    let typed = name.trim().to_ascii_lowercase();
    if let Some(found) = POLICIES.iter().find(|e| e.id == typed || e.aliases.contains(&&*typed)) {
        return Ok(found);
    }
    let names =
        POLICIES.iter().flat_map(|e| std::iter::once(e.id).chain(e.aliases.iter().copied()));
    Err(Error::input(format!("`{name}` is no policy")).mend(match nearest(&typed, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let ids: Vec<&str> = POLICIES.iter().map(|e| e.id).collect();
            format!("known are {}, and rules-file:PATH", ids.join(", "))
        }
    }))
}
