//! Open MPI's dynamic rules: by collective, then by ranks, then by size; the last match decides.
//!
//! Source: Open MPI 4.1.4 `ompi/mca/coll/tuned/coll_tuned_dynamic_file.c`,
//! `coll_tuned_dynamic_rules.c` and `coll_tuned_decision_dynamic.c`; its behaviour was observed on
//! Debian's build.

pub(in crate::library) mod json;
pub(in crate::library) mod read;
pub(in crate::library) mod write;

use super::Version;
use super::operations::Counts;
use crate::base::quantity::Bytes;
use crate::library::tuning_file::Line;

/// The rules of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// One entry per collective, no collective twice.
    pub collectives: Vec<CollectiveRules>,
}

/// The rules of one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveRules {
    /// The collective.
    pub collective: Coll,
    /// By ranks, ascending. The first also applies to smaller communicators.
    pub comms: Vec<CommRules>,
    /// Their line in the file.
    pub line: Line,
}

/// The rules for communicators from a size on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommRules {
    /// The smallest number of ranks.
    pub from: u32,
    /// By size, ascending; the first is from 0.
    pub rules: Vec<MessageRule>,
    /// Their line in the file.
    pub line: Line,
}

/// The algorithm that runs from a size on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRule {
    /// The first of the sizes that Open MPI counts, which are M in all collectives but two: a rank's part
    /// in an allgatherv, and nothing in an alltoallv, whose first rule decides.
    pub from: Bytes,
    /// The number of the algorithm; 0 is the library's own decision.
    pub algorithm: u32,
    /// Children of a tree node, or the number of chains; 0 is the library's default.
    pub fan: u32,
    /// Bytes of a segment; 0 is the whole vector in one piece.
    pub segment: Bytes,
    /// Concurrent requests of a linear all-to-all; only in files of version 2.
    pub requests: Option<u32>,
    /// Its line in the file.
    pub line: Line,
}

/// A collective by Open MPI's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coll(u8);

/// Names by number, with the names of the algorithms from number 1 on. If there are no algorithms,
/// rules have no effect. First those of 4.1, then those of 6.0.
const COLLECTIVES: &[(&str, &[&str])] = &[
    (
        "allgather",
        &[
            "linear",
            "bruck",
            "recursive_doubling",
            "ring",
            "neighbor",
            "two_proc",
            "sparbit",
            "direct",
        ],
    ),
    ("allgatherv", &["default", "bruck", "ring", "neighbor", "two_proc", "sparbit"]),
    (
        "allreduce",
        &[
            "basic_linear",
            "nonoverlapping",
            "recursive_doubling",
            "ring",
            "segmented_ring",
            "rabenseifner",
            "allgather_reduce",
        ],
    ),
    ("alltoall", &["linear", "pairwise", "modified_bruck", "linear_sync", "two_proc"]),
    ("alltoallv", &["basic_linear", "pairwise"]),
    ("alltoallw", &[]),
    ("barrier", &["linear", "double_ring", "recursive_doubling", "bruck", "two_proc", "tree"]),
    (
        "bcast",
        &[
            "basic_linear",
            "chain",
            "pipeline",
            "split_binary_tree",
            "binary_tree",
            "binomial",
            "knomial",
            "scatter_allgather",
            "scatter_allgather_ring",
        ],
    ),
    ("exscan", &["linear", "recursive_doubling"]),
    ("gather", &["basic_linear", "binomial", "linear_sync"]),
    ("gatherv", &[]),
    (
        "reduce",
        &[
            "linear",
            "chain",
            "pipeline",
            "binary",
            "binomial",
            "in-order_binary",
            "rabenseifner",
            "knomial",
        ],
    ),
    ("reduce_scatter", &["non-overlapping", "recursive_halving", "ring", "butterfly"]),
    (
        "reduce_scatter_block",
        &["basic_linear", "recursive_doubling", "recursive_halving", "butterfly"],
    ),
    ("scan", &["linear", "recursive_doubling"]),
    ("scatter", &["basic_linear", "binomial", "linear_nb"]),
];

impl Coll {
    /// All collectives that have a number.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COLLECTIVES.len()).map(|number| Self(number as u8))
    }

    /// The collective of that number.
    #[must_use]
    pub fn numbered(number: u64) -> Option<Self> {
        Self::all().find(|c| u64::from(c.0) == number)
    }

    /// The collective of that name, such as `reduce_scatter_block`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|c| c.name() == name)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        COLLECTIVES[usize::from(self.0)].0
    }

    /// What Open MPI counts of a call in its rules.
    pub(in crate::library) fn counts(self) -> Counts {
        match self.name() {
            "allgatherv" => Counts::Block,
            "alltoallv" => Counts::Nothing,
            _ => Counts::Whole,
        }
    }

    /// The names of its algorithms from number 1 on; empty if rules have no effect.
    #[must_use]
    pub fn algorithms(self) -> &'static [&'static str] {
        COLLECTIVES[usize::from(self.0)].1
    }

    /// Those of them that files of numbers may request: 6.0, which has more, reads JSON instead.
    #[must_use]
    pub fn in_numbers(self) -> &'static [&'static str] {
        let all = self.algorithms();
        &all[..Version::V50.last(self.name(), all.len()).min(all.len())]
    }

    /// The name of the algorithm of that number; `default` is 0, the library's own decision.
    #[must_use]
    pub fn algorithm(self, number: u32) -> Option<&'static str> {
        match number.checked_sub(1) {
            None => Some("default"),
            Some(index) => self.algorithms().get(index as usize).copied(),
        }
    }
}

impl MessageRule {
    /// An algorithm from a size on, with the vector in segments of this many bytes; 0: in one
    /// piece.
    #[must_use]
    pub fn new(from: Bytes, algorithm: u32, segment: Bytes) -> Self {
        Self { from, algorithm, fan: 0, segment, requests: None, line: Line::default() }
    }
}

impl Rules {
    /// The rule that decides; `None` if the file has no rules for the collective.
    ///
    /// It is in the last comm size that is not larger than `ranks`, or in the first if all are larger.
    /// There it is the last size that is not larger than what Open MPI counts of `size`, which is M.
    #[must_use]
    pub fn rule(&self, collective: Coll, ranks: u32, size: Bytes) -> Option<&MessageRule> {
        let rules = self.collectives.iter().find(|c| c.collective == collective)?;
        let fitting = rules.comms.iter().take_while(|c| c.from <= ranks).last();
        let comm = fitting.or(rules.comms.first())?;
        let counted = Bytes(collective.counts().of(size, ranks));
        comm.rules.iter().take_while(|rule| rule.from <= counted).last()
    }

    /// Every M from which another rule may decide for this number of ranks.
    #[must_use]
    pub fn edges(&self, collective: Coll, ranks: u32) -> Vec<Bytes> {
        let of = self.collectives.iter().filter(|c| c.collective == collective);
        let comm = of.flat_map(|c| {
            c.comms.iter().take_while(|c| c.from <= ranks).last().or(c.comms.first())
        });
        let size = |rule: &MessageRule| collective.counts().size(rule.from.0, ranks).map(Bytes);
        comm.flat_map(|comm| comm.rules.iter().filter_map(size)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(comms: &[(u32, &[(u64, u32)])]) -> Rules {
        let rule =
            |&(from, algorithm): &(u64, u32)| MessageRule::new(Bytes(from), algorithm, Bytes(0));
        let comms = comms.iter().map(|&(from, rules)| CommRules {
            from,
            rules: rules.iter().map(rule).collect(),
            line: Line::default(),
        });
        let collective = Coll::named("bcast").unwrap();
        let comms = comms.collect();
        Rules { collectives: vec![CollectiveRules { collective, comms, line: Line::default() }] }
    }

    fn runs(rules: &Rules, ranks: u32, size: u64) -> Option<u32> {
        rules.rule(Coll::named("bcast").unwrap(), ranks, Bytes(size)).map(|rule| rule.algorithm)
    }

    /// Seen in Open MPI 4.1.4: a file whose first comm size is 4 ruled a broadcast of two ranks.
    #[test]
    fn without_a_guard_the_first_rule_also_rules_smaller_communicators() {
        let bare = table(&[(4, &[(0, 3)])]);
        assert_eq!(runs(&bare, 2, 100), Some(3));
        let guarded = table(&[(2, &[(0, 0)]), (4, &[(0, 3)])]);
        assert_eq!(runs(&guarded, 2, 100), Some(0));
        assert_eq!(runs(&guarded, 3, 100), Some(0));
        assert_eq!(runs(&guarded, 4, 100), Some(3));
    }

    #[test]
    fn the_last_size_that_fits_decides() {
        let rules = table(&[(2, &[(0, 6), (8192, 3), (1 << 20, 9)])]);
        for (size, algorithm) in [(0, 6), (8191, 6), (8192, 3), (1 << 20, 9), (u64::MAX, 9)] {
            assert_eq!(runs(&rules, 1000, size), Some(algorithm), "{size}");
        }
        let other = Coll::named("reduce").unwrap();
        assert_eq!(rules.rule(other, 4, Bytes(1)), None);
    }

    /// v4.1.6 and v5.0.9 `coll_tuned_decision_dynamic.c`: `per_rank_size`, and 0 for the "first available
    /// rule".
    #[test]
    fn rules_of_vectors_count_a_part_or_nothing() {
        let rules = |name: &str| {
            let mut rules = table(&[(2, &[(0, 1), (65_536, 3)])]);
            rules.collectives[0].collective = Coll::named(name).unwrap();
            rules
        };
        let decided = |name: &str, size: u64| {
            let found = rules(name);
            found.rule(Coll::named(name).unwrap(), 4, Bytes(size)).map(|rule| rule.algorithm)
        };
        let edges = |name: &str| rules(name).edges(Coll::named(name).unwrap(), 4);
        assert_eq!(decided("allgatherv", (256 << 10) - 1), Some(1));
        assert_eq!(decided("allgatherv", 256 << 10), Some(3));
        assert_eq!(edges("allgatherv"), [Bytes(0), Bytes(256 << 10)]);
        assert_eq!(decided("alltoallv", 1 << 40), Some(1));
        assert_eq!(edges("alltoallv"), []);
        assert_eq!(decided("allgather", 64 << 10), Some(3));
    }

    #[test]
    fn names_and_numbers_belong_together() {
        for coll in Coll::all() {
            assert_eq!(Coll::named(coll.name()), Some(coll));
            assert_eq!(Coll::numbered(coll.number().into()), Some(coll));
        }
        assert_eq!(Coll::named("allreduce").unwrap().algorithm(6), Some("rabenseifner"));
        assert_eq!(Coll::named("allreduce").unwrap().algorithm(99), None);
        assert_eq!(Coll::numbered(16), None);
    }

    /// v5.0.9 and v5.0.10 `coll_tuned_*_decision.c`.
    #[test]
    fn files_of_numbers_name_what_5_0_has() {
        let last = |name: &str| Coll::named(name).unwrap().in_numbers().len();
        assert_eq!([last("allgather"), last("allgatherv"), last("allreduce")], [7, 6, 6]);
        assert_eq!([last("reduce"), last("bcast"), last("scan"), last("gatherv")], [7, 9, 2, 0]);
    }
}
