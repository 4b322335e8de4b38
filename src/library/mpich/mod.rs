//! MPICH 4: the device's composition over nodes, and the algorithms of its parts.
//!
//! Two trees of tests decide, one after the other. The device layer (CH4) splits a call into parts
//! inside nodes and between their leaders. Every part is a separate collective over its own
//! communicator, and the MPIR layer chooses its algorithm by that communicator's ranks. Therefore an
//! all-reduce over 8 nodes of 16 ranks is decided as one over 8 ranks, between a reduce and a
//! broadcast over 16. Inside nodes, reductions and broadcasts run in shared memory
//! (`release_gather`), without messages.
//!
//! Source: pmodels/mpich v4.2.3, `maint/tuning/coll/mpir/generic.json`,
//! `maint/tuning/coll/ch4/generic.json`, `maint/tuning/coll/ch4/posix_generic.json`,
//! `src/mpid/ch4/src/ch4_coll_impl.h`; the first is the same tree from 4.0 to 5.0. Variables and their
//! values are those of `src/mpi/coll/cvars.txt` and `src/mpid/ch4/src/ch4_coll.h` of v4.0.3 to v5.0.1.

mod ch4;
mod mpir;
mod names;
pub mod rules;

use std::borrow::Cow;

use super::fold::{Fold, alone, folded};
use super::{Call, Choice, Entry, Flavour, Made, Meta, Operation, Part, Policy, Runs, Where};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio};
use crate::library::mpich::rules::{Tree, Version, builtin};
use crate::model::algorithm::{self, Library, Reason};
use ch4::{composition, flat, has_variable, in_shared_memory, is_whole};
use mpir::{Mpir, edges, no_halves, operation, picked};

pub use names::name;
pub(crate) use names::{NAMES, Named};

/// MPICH 4.1 and later.
pub(super) const V4: Entry = Entry {
    id: "mpich@4",
    aliases: &["mpich", "mpich@5"],
    made: Made::Plain {
        library: Some(Library::Mpich),
        title: "MPICH 4.1 to 5.0: CH4 compositions over the MPIR rules",
        counts: COUNTS,
        source: "pmodels/mpich v4.2.3, maint/tuning/coll/{mpir,ch4}/generic.json, \
                 src/mpid/ch4/src/ch4_coll_impl.h",
        make: |meta, _| Ok(Mpich::own(meta, Version::V4_1)),
    },
};

/// MPICH 4.0.
pub(super) const V4_0: Entry = Entry {
    id: "mpich@4.0",
    aliases: &[],
    made: Made::Plain {
        library: Some(Library::Mpich),
        title: "MPICH 4.0: the rules of 4.1, without variables for compositions",
        counts: COUNTS,
        source: "pmodels/mpich v4.0.3, maint/tuning/coll/{mpir,ch4}/generic.json, \
                 src/mpid/ch4/src/ch4_coll_impl.h",
        make: |meta, _| Ok(Mpich::own(meta, Version::V4_0)),
    },
};

const COUNTS: &str = "all-reduce, broadcast and reduce: the whole vector; all-gather and \
                      reduce-scatter: the total over ranks; all-to-all: what one rank has for one \
                      other, M/N";

struct Mpich {
    meta: Meta,
    version: Version,
    /// The rules of the MPIR layer.
    tree: Tree,
    /// The file that they are from, if they are not the library's own.
    file: Option<String>,
}

/// Whether a tuning file decides on a call over all its ranks. The other calls are made in parts, those in a node in
/// shared memory.
pub(crate) fn decides(call: &Call) -> bool {
    is_whole(call, Version::V4_1)
}

/// The variable that forces an algorithm of an operation within one communicator.
#[must_use]
pub fn parameter(operation: Operation) -> String {
    named(operation, "INTRA_ALGORITHM")
}

fn named(operation: Operation, what: &str) -> String {
    format!("MPIR_CVAR_{}_{what}", name(operation).to_ascii_uppercase())
}

/// The compositions of the device over the rules of a file.
pub(super) fn of_file(meta: Meta, tree: Tree, file: String) -> Box<dyn Policy> {
    Box::new(Mpich { meta, version: Version::V4_1, tree, file: Some(file) })
}

const GREEK: [&str; 3] = ["alpha", "beta", "gamma"];

impl Mpich {
    fn own(meta: Meta, version: Version) -> Box<dyn Policy> {
        Box::new(Self { meta, version, tree: builtin(version), file: None })
    }

    /// The variable that makes the device run a composition, if this release has it.
    fn composed(&self, call: &Call, number: u32) -> Option<String> {
        let has = has_variable(call.operation(), self.version);
        has.then(|| variable(call.operation(), "COMPOSITION", number))
    }

    /// The variables that make a call run an algorithm between the ranks of a composition.
    fn forced(&self, call: &Call, number: u32, name: &str) -> std::result::Result<String, Reason> {
        let algorithm = variable(call.operation(), "INTRA_ALGORITHM", name);
        match self.composed(call, number) {
            Some(composition) => Ok(format!("{composition} {algorithm}")),
            None if composition(call, self.version).number == number => Ok(algorithm),
            None => Err(Reason::new(
                "MPICH 4.0 runs this call in parts, in and between nodes, and no variable changes that",
            )),
        }
    }

    /// One part of a composition: its names, this crate's algorithms, the rule.
    fn part(&self, call: &Call, collective: C, place: Where) -> Result<(Mpir, Vec<Part>)> {
        let ranks = ranks_at(place, call);
        if place == Where::InNode && in_shared_memory(collective, call) {
            let part = |c| Part::new(c, ranks, place, "binomial");
            let mut parts = vec![part(collective)];
            let mut ours = Ok("binomial");
            match collective {
                C::AllReduce => parts = vec![part(C::Reduce), part(C::Broadcast)],
                C::Barrier => ours = Err("a barrier in shared memory has no messages to price"),
                _ => {}
            }
            let early = Some(self.mpir_layer(collective, place, call)?.name);
            let priced_as = "release_gather works in shared memory, without messages: priced as \
                             binomial trees inside the node";
            let rule = "shared memory, one thread".to_owned();
            let name = "release_gather".into();
            let priced_as = Some(priced_as);
            return Ok((Mpir { name, ours, rule, notes: Vec::new(), priced_as, early }, parts));
        }
        let found = self.mpir_layer(collective, place, call)?;
        let parts = found.ours.map(|ours| folded(collective, ranks, place, ours, Fold::Whole));
        let mut parts = parts.unwrap_or_default();
        if found.name == IN_TURN {
            parts.extend(after_the_first(ranks, place));
        }
        Ok((found, parts))
    }

    /// The algorithm that the rules for messages pick for a part.
    fn mpir_layer(&self, collective: C, place: Where, call: &Call) -> Result<Mpir> {
        picked(&self.tree, self.file.as_deref(), collective, place, call)
    }

    fn no_rule(&self, call: &Call) -> Error {
        Error::unsupported(format!("{} has no rule for {}", self.meta.id, call.operation()))
            .help("ask for a collective of all ranks")
    }
}

/// Each rank exchanges blocks with the others in their order, one after another: ranks i and j meet in round
/// i + j, the last two in round 2N − 3. 5.0 has those of a node first, and one round less over nodes.
///
/// Source: v4.0.3 to v4.3.2 `src/mpi/coll/alltoall/alltoall_intra_pairwise_sendrecv_replace.c`, v5.0.1
/// `src/mpi/coll/alltoallv/alltoallv_intra_pairwise_sendrecv_replace.c`.
const IN_TURN: &str = "pairwise_sendrecv_replace";

/// What is left of that after the rounds of the first rank, which are those of a pairwise exchange: the last
/// rank's with the others.
fn after_the_first(ranks: u32, place: Where) -> Option<Part> {
    let others = ranks.checked_sub(1).filter(|others| *others > 1)?;
    let moves = Ratio(f64::from(others) / f64::from(ranks));
    Some(Part { of: Some(ranks), moves, ..Part::new(C::AllToAll, others, place, "pairwise") })
}

/// The parts of a leaf that names one of this crate's algorithms, over all ranks.
pub(crate) fn leaf(collective: C, ranks: u32, ours: &'static str) -> Runs {
    Runs::Parts(folded(collective, ranks, Where::All, ours, Fold::Whole))
}

fn ranks_at(place: Where, call: &Call) -> u32 {
    match place {
        Where::All => call.ranks,
        Where::InNode => call.per_node(),
        Where::Leaders => call.nodes,
    }
}

fn place_words(place: Where, ranks: u32) -> String {
    match place {
        Where::All => format!("over {ranks} ranks"),
        Where::InNode => format!("in each node of {ranks}"),
        Where::Leaders => format!("between {ranks} leaders"),
    }
}

impl Policy for Mpich {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if call.collective == C::SendRecv {
            return Err(self.no_rule(call));
        }
        if call.ranks < 2 {
            return Ok(Choice::alone("no algorithm has anything to send"));
        }
        let composition = composition(call, self.version);
        let greek = GREEK[composition.number as usize - 1];
        let mut names = Vec::new();
        let mut steps = Vec::new();
        let mut parts = Vec::new();
        let mut missing = None;
        let mut early = Vec::new();
        let mut notes: Vec<Cow<'static, str>> = Vec::new();
        let mut priced_as = Vec::new();
        let mut force: Vec<_> = self.composed(call, composition.number).into_iter().collect();
        for &(collective, place) in &composition.parts {
            let (found, ours) = self.part(call, collective, place)?;
            names.push(found.name.clone());
            let where_it_is = place_words(place, ranks_at(place, call));
            let what = format!("{} {where_it_is}", collective.name());
            steps.push(format!("{what}: {}: {}", found.rule, found.name));
            notes.extend(found.notes);
            priced_as.extend(found.priced_as.map(Cow::Borrowed));
            early.extend(found.early);
            match found.ours {
                Ok(_) => parts.extend(ours),
                Err(why) => missing = Some(why),
            }
            if found.name != "release_gather" {
                let of = operation(collective, call);
                force.push(variable(of, "INTRA_ALGORITHM", &found.name));
            }
        }
        if missing.is_none() {
            notes.append(&mut priced_as);
        }
        notes.dedup();
        if !early.is_empty() {
            // Of the two reduces of beta a node does one.
            let twice = early.len() > 1 && call.collective != C::Reduce;
            early.dedup();
            let note = format!(
                "before the fifth broadcast, reduce, all-reduce or barrier inside a node of the \
                 communicator (MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=5{}) nodes run {} instead, and in \
                 all calls if MPICH was built for UCX (ch4:ucx, such as Debian's) without \
                 --with-ch4-shmmods",
                if twice { "; this call is two of them" } else { "" },
                early.join(", ")
            );
            notes.push(note.into());
        }
        let name = match &names[..] {
            [one] => one.clone().into_owned(),
            several => format!("{greek}: {}", several.join(", ")),
        };
        let rule = format!("CH4: {}: {greek}; then {}", composition.rule, steps.join("; "));
        let runs = missing.map_or(Runs::Parts(parts), Runs::unpriced);
        force.dedup();
        Ok(Choice { force, notes, ..Choice::new(name, rule, runs) })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        if call.collective == C::SendRecv {
            return Err(self.no_rule(call));
        }
        Ok(edges(&self.tree, self.version, call))
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        if call.ranks < 2 {
            return Err(Reason::new("one rank sends nothing"));
        }
        let tiered = call.is_tiered();
        if (call.collective, algorithm, tiered) == (C::AllReduce, "leader-doubling", true) {
            return self.forced(call, 1, "recursive_doubling");
        }
        let (known, name) = names::value(call, algorithm, self.version).ok_or_else(|| {
            Reason::new("the library has no name for this algorithm over all ranks")
        })?;
        if let (true, Some(why)) = (known.halves, no_halves(call)) {
            return Err(Reason::from(why));
        }
        // `commutative` in src/mpi/coll/coll_algorithms.txt.
        if known.reorders && !call.commutative {
            return Err(Reason::new("not taken for a non-commutative operation"));
        }
        // `noinplace` in src/mpi/coll/coll_algorithms.txt.
        let is_exchange = call.collective == C::AllToAll && call.in_place;
        if is_exchange && name != IN_TURN {
            return Err(Reason::new("MPICH has it only for calls that are not in place"));
        }
        self.forced(call, flat(call.operation(), self.version), name)
    }

    fn name_of(&self, call: &Call, algorithm: &algorithm::Meta) -> Option<String> {
        let requested = names::value(call, algorithm.id, self.version).map(|(_, name)| name);
        // Variants have values of their own, and recexch came with 4.1.
        let is_plain = call.flavour == Flavour::Plain;
        let runs = alone(call.collective, call.ranks, algorithm.id, Fold::Whole);
        let is_plain = is_plain && runs == algorithm.id;
        let has = |name: &&str| is_plain && (self.version != Version::V4_0 || *name != "recexch");
        let listed = || algorithm.name_in(Library::Mpich, call.collective).filter(has);
        requested.or_else(listed).map(str::to_owned)
    }
}

/// A control variable of the library with its value.
fn variable(operation: Operation, what: &str, value: impl std::fmt::Display) -> String {
    format!("{}={value}", named(operation, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Site, policy};

    /// v4.2.3 `coll_algorithms.txt`: `restrictions: commutative`.
    #[test]
    fn what_reorders_is_not_advised_for_an_operation_that_does_not_commute() {
        let mpich = policy("mpich@4", &Site::default()).unwrap();
        for flavour in [Flavour::Plain, Flavour::Block] {
            let call = Call { flavour, ..Call::new(C::ReduceScatter, 8, Bytes(64 << 10)) };
            for algorithm in ["recursive-halving", "ring"] {
                assert!(mpich.force(&call, algorithm).is_ok(), "{algorithm}");
                let own = Call { commutative: false, builtin_op: false, ..call };
                let why = mpich.force(&own, algorithm).unwrap_err().to_string();
                assert_eq!(why, "not taken for a non-commutative operation", "{algorithm}");
            }
        }
    }
}
