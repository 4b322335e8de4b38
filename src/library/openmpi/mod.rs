//! Open MPI's `coll/tuned`: its fixed decisions, and what its algorithms actually run.
//!
//! The decision depends on ranks, bytes and whether the operation commutes, but not on nodes or
//! rates. Then the chosen algorithm itself may fall back to another (`fall_backs`): Rabenseifner with
//! fewer elements than ranks runs the basic linear algorithm (open-mpi/ompi issue 12550). If an
//! algorithm calls other collectives (`nonoverlapping`), each of them is decided separately.
//!
//! Source: open-mpi/ompi v4.1.6, v4.0.7 and v3.1.6, `ompi/mca/coll/tuned/coll_tuned_decision_fixed.c`,
//! `coll_tuned_*_decision.c` and `ompi/mca/coll/base/coll_base_*.c`.

mod before_4_1;
mod fall_backs;
pub(super) mod operations;
pub mod rules;
mod tables;

use super::fold::{Fold, alone, folded};
use super::{Call, Choice, Entry, Flavour, Made, Meta, Operation, Part, Policy, Runs, Where};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio};
use crate::model::algorithm::{self, Library, Reason};
use operations::{Counts, Ours, RULES, Rules, Then, WRONG, takes_radix};
use tables::{ALL, Table};

/// Open MPI 2 and 3.
pub(super) const V3: Entry = Entry {
    id: "openmpi@3",
    aliases: &["openmpi@2"],
    made: Made::Plain {
        library: Some(Library::OpenMpi),
        title: "Open MPI 2 and 3: the decisions of 4.0, fewer algorithms to force",
        counts: COUNTS_BEFORE_4_1,
        source: "open-mpi/ompi v3.1.6, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c and \
                 coll_tuned_*_decision.c",
        make: |meta, _| Ok(Box::new(OpenMpi { meta, version: Version::V3 })),
    },
};

/// Open MPI 4.0.
pub(super) const V4_0: Entry = Entry {
    id: "openmpi@4.0",
    aliases: &[],
    made: Made::Plain {
        library: Some(Library::OpenMpi),
        title: "Open MPI 4.0: coll/tuned's fixed decisions",
        counts: COUNTS_BEFORE_4_1,
        source: "open-mpi/ompi v4.0.7, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c",
        make: |meta, _| Ok(Box::new(OpenMpi { meta, version: Version::V40 })),
    },
};

/// Open MPI 4.1.
pub(super) const V4_1: Entry = Entry {
    id: "openmpi@4.1",
    aliases: &["openmpi@4"],
    made: Made::Plain {
        library: Some(Library::OpenMpi),
        title: "Open MPI 4.1: coll/tuned's fixed decisions",
        counts: COUNTS,
        source: "open-mpi/ompi v4.1.6, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c",
        make: |meta, _| Ok(Box::new(OpenMpi { meta, version: Version::V41 })),
    },
};

/// Open MPI 5.0.
pub(super) const V5_0: Entry = Entry {
    id: "openmpi@5.0",
    aliases: &["openmpi@5", "openmpi"],
    made: Made::Plain {
        library: Some(Library::OpenMpi),
        title: "Open MPI 5.0: coll/tuned's fixed decisions, those of 4.1; HAN comes first",
        counts: COUNTS,
        source: "open-mpi/ompi v5.0.9, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c",
        make: |meta, _| Ok(Box::new(OpenMpi { meta, version: Version::V50 })),
    },
};

/// A release, by what it decides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::library) enum Version {
    V3,
    V40,
    V41,
    V50,
    /// Its fixed decisions are those of 5.0.
    V60,
}

/// The fixed decisions of one version.
struct OpenMpi {
    meta: Meta,
    version: Version,
}

/// The decision of the rules, before an algorithm checks the call itself.
pub(in crate::library) struct Decision {
    /// The algorithm's number.
    pub id: u32,
    /// Bytes of a segment; 0: the vector is sent in one piece.
    pub segment: u64,
    /// Parallel chains; 0 and 1 both mean one.
    pub fan: u32,
    /// The radix of Bruck's all-gather and of a k-nomial reduce, which 6.0 takes.
    pub radix: Option<u32>,
    /// The rule, in words.
    pub rule: String,
}

const COUNTS: &str = "all-reduce, broadcast, reduce and reduce-scatter: the whole vector; \
                      all-gather, gather, scatter and reduce-scatter-block: one rank's part, M/N; \
                      all-to-all: what one rank has for one other, M/N";

const COUNTS_BEFORE_4_1: &str =
    "as in 4.1, but all-gather: the total over ranks (as 4.0's rules are written)";

impl OpenMpi {
    /// The number of the last algorithm that this release has for an operation; 0: none.
    fn last(&self, rules: &Rules) -> u32 {
        self.version.last(rules.name, rules.algorithms.len()) as u32
    }

    fn decide(&self, rules: &'static Rules, call: &Call) -> Decision {
        match self.version {
            Version::V3 | Version::V40 => before_4_1::decide(rules, call),
            Version::V41 | Version::V50 => by_table(rules, call),
            Version::V60 => Decision { radix: self.radix(), ..by_table(rules, call) },
        }
    }

    /// The radix that 6.0's fixed decisions give Bruck's all-gather.
    fn radix(&self) -> Option<u32> {
        (self.version == Version::V60).then_some(2)
    }

    /// The options, with the one that keeps coll/han from splitting the call.
    fn alone(&self, call: &Call, options: String) -> String {
        self.version.alone(call, options)
    }
}

impl Version {
    /// Its number.
    pub(in crate::library) fn name(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V40 => "4.0",
            Self::V41 => "4.1",
            Self::V50 => "5.0",
            Self::V60 => "6.0",
        }
    }

    /// How many of `all` algorithms of an operation it has: the first ones. Rules in JSON may name what 6.0 adds.
    pub(in crate::library) fn last(self, operation: &str, all: usize) -> usize {
        let up_to = match (operation, self) {
            (_, Self::V60) => all,
            ("allgather", Self::V50) => 7,
            ("allgatherv", Self::V50) | ("allgather" | "allreduce", _) => 6,
            ("allgatherv", _) => 5,
            ("reduce", _) => 7,
            _ => all,
        };
        match self {
            Self::V3 | Self::V40 => before_4_1::algorithms(operation, self).min(up_to),
            Self::V41 | Self::V50 | Self::V60 => up_to,
        }
    }

    /// Its fixed decisions, under another name.
    pub(in crate::library) fn policy(self, meta: Meta) -> Box<dyn Policy> {
        Box::new(OpenMpi { meta, version: self })
    }

    fn alone(self, call: &Call, options: String) -> String {
        if self.han(call) { options + " --mca coll_han_priority 0" } else { options }
    }

    /// Whether coll/han decides before coll/tuned.
    fn han(self, call: &Call) -> bool {
        match self {
            Self::V3 | Self::V40 | Self::V41 => false,
            Self::V50 => han_decides(call),
            Self::V60 => han_decides(call) || han_decides_since_6_0(call),
        }
    }

    /// The choice of coll/tuned, with what coll/han does to it.
    pub(in crate::library) fn behind_han(self, mut choice: Choice, call: &Call) -> Choice {
        choice.force = choice.force.into_iter().map(|line| self.alone(call, line)).collect();
        if self.han(call) {
            let release = self.name();
            let note = format!(
                "{release} gives coll/han priority 35 and coll/tuned 30: on several nodes han splits the call \
                 into a node's part and the network's, which tuned or libnbc carry out; han's own rules \
                 are not modelled (with --mca coll_han_priority 0 tuned decides alone)"
            );
            choice.notes.push(note.into());
        }
        choice
    }
}

/// Whether 6.0's coll/han has an operation that 5.0's has not (v6.0.x `ompi/mca/coll/han/coll_han_module.c`,
/// `coll_han_alltoall.c`). It leaves calls in place and nodes of unequal numbers of ranks to the next.
fn han_decides_since_6_0(call: &Call) -> bool {
    let is_even = call.ranks == call.nodes * call.per_node();
    let has = call.collective == Collective::AllToAll && is_even && !call.in_place;
    call.is_tiered() && has
}

/// Whether coll/han decides in 5.0, before coll/tuned: on several nodes with several ranks, if it has the
/// operation (v5.0.9, `ompi/mca/coll/han/coll_han_module.c`).
pub(crate) fn han_decides(call: &Call) -> bool {
    use Collective as C;
    // It leaves operations that do not commute to the next, and nodes of unequal numbers of ranks
    // (`are_ppn_imbalanced`).
    let is_even = call.ranks == call.nodes * call.per_node();
    let has = match call.collective {
        C::AllToAll | C::ReduceScatter | C::SendRecv => false,
        C::AllGather => call.flavour != Flavour::Vector && is_even,
        C::AllReduce => call.commutative,
        C::Reduce => call.commutative && is_even,
        C::Broadcast | C::Gather | C::Scatter => is_even,
        C::Barrier => true,
    };
    call.is_tiered() && has
}

/// Decides by the row and pair of the tables that apply, and names the sizes between which they
/// apply.
fn by_table(rules: &Rules, call: &Call) -> Decision {
    let bytes = rules.bytes(call);
    let (table, which) = match rules.in_order.filter(|_| !call.commutative) {
        Some(table) => (table, "operations that do not commute, "),
        None => (rules.table, ""),
    };
    let (row, pairs) = row_of(table, call.ranks);
    let fewest = row.checked_sub(1).map_or(0, |i| table[i].0);
    let pair = pairs.iter().position(|(below, _)| bytes < *below).unwrap_or(pairs.len() - 1);
    let from = pair.checked_sub(1).map_or(0, |i| pairs[i].0);
    let (below, id) = pairs[pair];
    let ranks = range(fewest, table[row].0, "ranks");
    let rule = match (rules.counts, from, below) {
        (Counts::Nothing, ..) | (_, 0, ALL) => format!("{which}{ranks}: algorithm {id}"),
        _ => {
            let bytes = range(from, below, "bytes");
            format!("{which}{ranks}, {bytes} {}: algorithm {id}", rules.counted())
        }
    };
    Decision { id, segment: 0, fan: 0, radix: None, rule }
}

fn row_of(table: Table, ranks: u32) -> (usize, &'static [(u64, u32)]) {
    let holds = |(below, _): &(u64, _)| u64::from(ranks) < *below;
    // The last row has no limit.
    let row = table.iter().position(holds).unwrap_or(table.len() - 1);
    (row, table[row].1)
}

/// `4 to 7 ranks`, `below 4 ranks`, `4096 ranks or more`, `any ranks`.
fn range(from: u64, below: u64, unit: &str) -> String {
    match (from, below) {
        (0, ALL) => format!("any {unit}"),
        (0, below) => format!("below {below} {unit}"),
        (from, ALL) => format!("{from} {unit} or more"),
        (from, below) => format!("{from} to {} {unit}", below - 1),
    }
}

impl Policy for OpenMpi {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let rules = rules_of(&self.meta, call)?;
        let decision = self.decide(rules, call);
        let choice = carry_out(self, rules, &decision, call)?;
        let mut choice = self.version.behind_han(choice, call);
        if self.last(rules) == 0 && choice.id.is_some() {
            // coll/basic/coll_basic_reduce_scatter_block.c does what became algorithm 1 in 4.0.
            choice.name = "reduce, then scatter".into();
            choice.rule = "coll/tuned has no rule for it: coll/basic's only algorithm".to_owned();
            (choice.id, choice.force) = (None, Vec::new());
        }
        Ok(choice)
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let rules = rules_of(&self.meta, call)?;
        let mut edges = match self.version {
            Version::V3 | Version::V40 => before_4_1::edges(rules, call),
            Version::V41 | Version::V50 | Version::V60 => {
                let table = rules.in_order.filter(|_| !call.commutative).unwrap_or(rules.table);
                let pairs = row_of(table, call.ranks).1.iter();
                pairs.filter_map(|(below, _)| rules.size(*below, call.ranks)).map(Bytes).collect()
            }
        };
        edges.extend(inner_edges(self, rules, call)?);
        Ok(edges)
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        let none = || match (call.collective, algorithm) {
            (Collective::AllReduce, "tree") => {
                Reason::new("its reduce and its broadcast follow their own rules")
            }
            _ => Reason::new("the library has no number for this algorithm"),
        };
        let rules = Rules::of(call.operation()).ok_or_else(none)?;
        if call.ranks < 2 {
            return Err(Reason::new("one rank sends nothing"));
        }
        let number = rules.number_of(algorithm, call.ranks);
        let id = number.filter(|id| *id <= self.last(rules)).ok_or_else(none)?;
        let decision =
            Decision { id, segment: 0, fan: 0, radix: self.radix(), rule: String::new() };
        match &fall_backs::settle(rules, &decision, call).1[..] {
            _ if !call.commutative && rules.reorders(id) => Err(Reason::new(WRONG)),
            [] => Ok(self.alone(call, forced(rules, id, &decision))),
            [turn, ..] => Err(Reason::from(format!("it falls back: {}", turn.why))),
        }
    }

    /// Source: `coll_tuned_bcast_decision.c` and its like: the segment of a forced algorithm is 0, the vector, unless
    /// this says otherwise.
    fn cut(&self, call: &Call, forced: String, segment: Bytes) -> String {
        match parameter(call.operation()) {
            Some(parameter) => format!("{forced} --mca {parameter}_segmentsize {}", segment.0),
            None => forced,
        }
    }

    fn name_of(&self, call: &Call, algorithm: &algorithm::Meta) -> Option<String> {
        let rules = Rules::of(call.operation())?;
        let name = match call.flavour {
            Flavour::Plain => algorithm.name_in(Library::OpenMpi, call.collective)?.to_owned(),
            // Variants have numbers of their own.
            Flavour::Block | Flavour::Vector => {
                let id = rules.number_of(algorithm.id, call.ranks)?;
                format!("{id} {}", rules.algorithm(id)?.name)
            }
        };
        let id: u32 = name.split(' ').next()?.parse().ok()?;
        // Of two with one name, the one that runs over so many ranks.
        let runs = alone(call.collective, call.ranks, algorithm.id, Fold::Halves);
        (id <= self.last(rules) && runs == algorithm.id).then_some(name)
    }
}

/// The sizes at which the algorithms' own behavior changes: their fall-backs, and the calls that they
/// make.
pub(in crate::library) fn inner_edges(
    policy: &dyn Policy,
    rules: &Rules,
    call: &Call,
) -> Result<Vec<Bytes>> {
    let mut edges = fall_backs::edges(call);
    for then in rules.algorithms.iter().filter_map(|k| match k.ours {
        Ours::Reduce(then) => Some(then),
        _ => None,
    }) {
        for part in parts_of(call, then) {
            edges.extend(policy.edges(&part)?);
        }
    }
    Ok(edges)
}

/// The sizes at which an algorithm with segments of `each` bytes changes its behavior.
pub(in crate::library) fn segment_edges(call: &Call, each: u64) -> Vec<Bytes> {
    fall_backs::segment_edges(call, each)
}

/// What runs if a rule of a file names an algorithm by its number.
///
/// # Errors
/// An operation or a number that the library does not have.
pub(crate) fn numbered(
    policy: &dyn Policy,
    call: &Call,
    id: u32,
    segment: Bytes,
) -> Result<Choice> {
    let rules = rules_of(policy.meta(), call)?;
    let rule = "a rule of the file:".to_owned();
    let decision = Decision { id, segment: segment.0, fan: 0, radix: None, rule };
    carry_out(policy, rules, &decision, call)
}

/// The operation's rules, for any version.
pub(in crate::library) fn rules_of(meta: &Meta, call: &Call) -> Result<&'static Rules> {
    Rules::of(call.operation()).ok_or_else(|| {
        let names: Vec<&str> = RULES.iter().map(|r| r.name).collect();
        Error::unsupported(format!("{} has no rule for {}", meta.id, call.operation()))
            .help(format!("ask for {}", names.join(", ")))
    })
}

/// The reduce and the operation after it, as calls.
fn parts_of(call: &Call, then: Then) -> Vec<Call> {
    let one = |collective| Call { collective, flavour: Flavour::Plain, in_place: false, ..*call };
    match then {
        Then::Broadcast => vec![one(Collective::Reduce), one(Collective::Broadcast)],
        Then::Scatter => vec![one(Collective::Reduce), one(Collective::Scatter)],
        Then::FlatScatter => vec![one(Collective::Reduce)],
    }
}

/// What runs if the rules named an algorithm: fall-backs first, then its parts.
///
/// `policy` decides for the calls that the algorithm makes itself.
pub(in crate::library) fn carry_out(
    policy: &dyn Policy,
    rules: &'static Rules,
    decision: &Decision,
    call: &Call,
) -> Result<Choice> {
    if call.ranks < 2 {
        return Ok(Choice::alone("coll/tuned has no module below two ranks"));
    }
    let (id, fell_back) = fall_backs::settle(rules, decision, call);
    let known = rules.algorithm(id).ok_or_else(|| {
        Error::input(format!("{} has no algorithm {id}", rules.name))
            .help(format!("write a number from 1 to {}", rules.algorithms.len()))
    })?;
    let mut notes: Vec<std::borrow::Cow<'static, str>> = Vec::new();
    notes.extend(in_place(rules, call).map(Into::into));
    if !call.commutative && rules.reorders(id) {
        notes.push(format!("{WRONG}: {id} {} combines operands out of order", known.name).into());
    }
    let segment = fall_backs::segment(decision.segment, call);
    // A split binary tree sends single elements then, which has no price here.
    let has_room = segment.is_some() || known.name == "split_binary_tree";
    if decision.segment > 0 && !has_room {
        notes.push(
            format!(
                "segments of {} bytes hold no element of {}: the vector is sent in one piece",
                decision.segment, call.element.0
            )
            .into(),
        );
    }
    let whole = |ours: &'static str| {
        let parts = folded(call.collective, call.ranks, Where::All, ours, Fold::Halves);
        let with_segments = |part: Part| Part {
            segment,
            // The default of coll_tuned_bcast_algorithm_knomial_radix is 4.
            radix: (ours == "in-order-knomial").then_some(4),
            ..part
        };
        Runs::Parts(parts.into_iter().map(with_segments).collect())
    };
    let runs = match known.ours {
        _ if known.name == "two_proc" && call.ranks != 2 => Runs::unpriced(format!(
            "two_proc refuses {} ranks with MPI_ERR_UNSUPPORTED_OPERATION, which ends the program",
            call.ranks
        )),
        Ours::Is("chain") if known.name == "chain" && decision.fan > 1 => {
            Runs::unpriced(format!("no closed form here has {} chains", decision.fan))
        }
        Ours::Is("bruck") if radix(rules, id, decision).is_some_and(|radix| radix > 2) => {
            Runs::unpriced("no closed form here has Bruck's all-gather with a radix above 2")
        }
        Ours::Is(ours) => whole(ours),
        Ours::Signalled(ours) => {
            notes.push(SIGNALLED.into());
            let part = |collective, ours| Part::new(collective, call.ranks, Where::All, ours);
            let signals = Part { moves: Ratio(0.0), ..part(Collective::Scatter, "flat") };
            Runs::Parts(vec![signals, part(call.collective, ours)])
        }
        Ours::Like(ours, differs) if call.ranks.is_power_of_two() => {
            notes.push(format!("priced as {ours}: {differs}").into());
            whole(ours)
        }
        Ours::Like(ours, _) => {
            Runs::unpriced(format!("{} is priced as {ours} only at powers of two", known.name))
        }
        Ours::No(why) => Runs::unpriced(why),
        Ours::Reduce(then) => {
            let mut parts = Vec::new();
            let mut missing = None;
            for inner in parts_of(call, then) {
                let choice = policy.choose(&inner)?;
                let name = inner.collective.name();
                notes.push(format!("its {name} is decided separately: {}", choice.name).into());
                match choice.runs {
                    Runs::Parts(more) => parts.extend(more),
                    Runs::Unpriced(why) => missing = Some(why),
                }
            }
            if matches!(then, Then::FlatScatter) {
                // It skips ranks without an element (v4.1.6 `coll_basic_scatterv.c`).
                let least = Some(call.element);
                let flat = Part::new(Collective::Scatter, call.ranks, Where::All, "flat");
                parts.push(Part { least, ..flat });
            }
            missing.map_or(Runs::Parts(parts), Runs::Unpriced)
        }
    };
    let rule = format!("{} {}", decision.rule, rules.algorithm(decision.id).map_or("", |k| k.name));
    Ok(Choice {
        id: Some(id),
        fell_back,
        force: vec![forced(rules, id, decision)],
        notes,
        ..Choice::new(known.name, rule.trim_end(), runs)
    })
}

/// Source: v4.1.6 `coll_base_gather.c`, `ompi_coll_base_gather_intra_linear_sync`.
const SIGNALLED: &str = "the root sends one rank after another a message without data, and waits for the first \
                         segment of its block: priced as a scatter of nothing and a gather";

/// What an in-place call changes.
fn in_place(rules: &Rules, call: &Call) -> Option<&'static str> {
    match rules.name {
        "alltoall" | "alltoallv" if call.in_place => Some(
            "in place, every algorithm makes N − 1 exchanges, one after another; those of Open MPI \
             4.0 wait for each other, and take up to 2N − 3 in turn",
        ),
        "allgather" if call.in_place => Some(
            "in place, Open MPI decides by the send count, which MPI lets callers leave at 0: then as \
             for 0 bytes",
        ),
        _ => None,
    }
}

/// The parameter without which Open MPI ignores the others, and tuning files.
pub const DYNAMIC: &str = "coll_tuned_use_dynamic_rules";

/// The parameter that forces an algorithm of an operation; with `_segmentsize` the one of its segments.
#[must_use]
pub fn parameter(operation: Operation) -> Option<String> {
    Rules::of(operation).map(forcing)
}

fn forcing(rules: &Rules) -> String {
    format!("coll_tuned_{}_algorithm", rules.name)
}

/// The radix of what runs, if the release takes one: an algorithm that falls back to Bruck's takes 2.
fn radix(rules: &Rules, id: u32, decision: &Decision) -> Option<u32> {
    let takes = takes_radix(rules.name, rules.algorithm(id)?.name);
    decision.radix.filter(|_| takes).map(|own| if id == decision.id { own } else { 2 })
}

/// The options of `mpirun` that force an algorithm.
fn forced(rules: &Rules, id: u32, decision: &Decision) -> String {
    let parameter = forcing(rules);
    let mut line = format!("--mca {DYNAMIC} 1 --mca {parameter} {id}");
    if decision.segment > 0 {
        line.push_str(&format!(" --mca {parameter}_segmentsize {}", decision.segment));
    }
    // Both fan-outs are four by default; the fixed decisions have one chain. Source: v6.0.x
    // `coll_tuned_decision_dynamic.c` for which of them is a radix.
    let is_chain = rules.algorithm(id).is_some_and(|k| k.name == "chain");
    let chains = is_chain.then_some(decision.fan.max(1));
    if let Some(fan) = chains.or(radix(rules, id, decision)) {
        let topology = if rules.name == "allgather" { "tree" } else { "chain" };
        line.push_str(&format!(" --mca {parameter}_{topology}_fanout {fan}"));
    }
    line
}
