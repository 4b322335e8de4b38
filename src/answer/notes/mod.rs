//! Prose as data: where texts and schedules differ, and topics that people ask about.
//!
//! The engine computes; these pages explain. A test compares each number in them with the engine's.

mod contradictions;
mod heard;
mod topics;
mod words;

pub use contradictions::{CONTRADICTIONS, Contradiction, Text};
pub use heard::heard;
pub use topics::{Figures, Piece, TOPICS, Topic};
pub use words::{WORDS, Word, meaning};

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, did_you_mean};

/// The contradictions that concern `algorithm` of `collective`.
pub fn about_algorithm(
    collective: Collective,
    algorithm: &str,
) -> impl Iterator<Item = &'static Contradiction> {
    CONTRADICTIONS.iter().filter(move |c| {
        c.about.iter().any(|(of, ids)| *of == collective && ids.contains(&algorithm))
    })
}

/// The contradictions that concern `collective` or one of its algorithms.
pub fn about_collective(collective: Collective) -> impl Iterator<Item = &'static Contradiction> {
    CONTRADICTIONS.iter().filter(move |c| c.about.iter().any(|(of, _)| *of == collective))
}

/// The contradiction called `id`, such as `K4`, in either case.
#[must_use]
pub fn contradiction(id: &str) -> Option<&'static Contradiction> {
    CONTRADICTIONS.iter().find(|c| c.id.eq_ignore_ascii_case(id))
}

/// The topic called `name`.
///
/// # Errors
/// An unknown name, with the nearest topic or collective.
pub fn topic(name: &str) -> Result<&'static Topic> {
    let plain = name.to_ascii_lowercase().replace('_', "-");
    let called = |t: &&Topic| t.id == plain || t.aliases.contains(&plain.as_str());
    TOPICS.iter().find(called).ok_or_else(|| {
        let topics =
            TOPICS.iter().flat_map(|t| std::iter::once(t.id).chain(t.aliases.iter().copied()));
        let collectives = Collective::ALL.iter().map(|c| c.id());
        Error::input(format!("`{name}` is not a collective, topic or word of a screen")).help(
            did_you_mean(&plain, collectives.chain(topics), || {
                "collcost list topics shows them all".to_owned()
            }),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn contradictions_are_numbered_from_1_to_26() {
        let ids: Vec<String> = CONTRADICTIONS.iter().map(|c| c.id.to_owned()).collect();
        let want: Vec<String> = (1..=26).map(|k| format!("K{k}")).collect();
        assert_eq!(ids, want);
    }

    #[test]
    fn topics_have_one_name_each_and_none_is_a_collectives() {
        let mut seen = BTreeSet::new();
        for t in TOPICS {
            for name in std::iter::once(&t.id).chain(t.aliases) {
                assert!(seen.insert(*name), "{name} twice");
                assert!(name.parse::<Collective>().is_err(), "{name} is a collective");
                assert_eq!(topic(name).unwrap().id, t.id);
            }
            assert!(t.pieces.iter().any(|p| matches!(p, Piece::Text(_))), "{}", t.id);
        }
    }

    #[test]
    fn a_slip_gets_the_nearest_name() {
        assert!(topic("busbv").unwrap_err().to_string().contains("`busbw`"));
        assert!(topic("alreduce").unwrap_err().to_string().contains("`allreduce`"));
    }
}
