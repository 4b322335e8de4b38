//! What people say when they mean a collective, without its name.
//!
//! "sum the grads, but only keep your slice" is a reduce-scatter.

use crate::base::collective::Collective;

/// A collective, with groups of word beginnings: a sentence that matches one of each group means
/// it.
type Phrase = (Collective, &'static [&'static [&'static str]]);

const SUM: &[&str] = &["sum", "add", "reduc", "averag", "grad"];
const PART: &[&str] = &["slice", "shard", "own", "part", "scatter", "piece"];

/// The first match applies.
const PHRASES: &[Phrase] = &[
    (Collective::AllToAll, &[&["expert", "token", "transpos", "rout"]]),
    (Collective::SendRecv, &[&["stage", "pipeline", "neighb", "next"]]),
    (Collective::AllGather, &[&["reconstruct", "gather", "rebuild", "full", "collect"], PART]),
    (Collective::ReduceScatter, &[SUM, PART]),
    (Collective::Broadcast, &[&["initial", "broadcast", "root", "copy"]]),
    (Collective::AllReduce, &[SUM]),
];

/// The collective that a sentence means.
#[must_use]
pub fn heard(sentence: &str) -> Option<Collective> {
    let lower = sentence.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let said = |stems: &&[&str]| stems.iter().any(|s| words.iter().any(|w| w.starts_with(s)));
    PHRASES.iter().find(|(_, groups)| groups.iter().all(&said)).map(|&(c, _)| c)
}
