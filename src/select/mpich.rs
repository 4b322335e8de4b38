//! MPICH 4: the device's composition over nodes, and the algorithms that it is made of.
//!
//! Two trees of tests decide one after the other. The device layer (CH4) splits a call into parts
//! inside nodes and between their leaders; every part is a collective of its own over its own
//! communicator, and the MPIR layer decides its algorithm with that communicator's ranks. So an
//! all-reduce over 8 nodes of 16 is decided as one over 8 ranks, between a reduce and a broadcast
//! over 16. Inside nodes, reductions and broadcasts run in shared memory (`release_gather`),
//! without messages.
//!
//! Source: pmodels/mpich v4.2.3, `maint/tuning/coll/mpir/generic.json`,
//! `maint/tuning/coll/ch4/generic.json`, `maint/tuning/coll/ch4/posix_generic.json`,
//! `src/mpid/ch4/src/ch4_coll_impl.h`; the first is the same tree from 4.0 to 5.0.

use std::borrow::Cow;

use super::{Call, Choice, Flavour, Meta, Part, Policy, Runs, Site, Where};
use crate::algorithm::{Library, Reason};
use crate::collective::Collective as C;
use crate::error::{Error, Result};
use crate::quantity::Bytes;
use crate::rules::mpich::{self as rules, Leaf, Node, Test, Tree};

/// MPICH 4.
pub(super) fn v4(_: &Site) -> Result<Box<dyn Policy>> {
    let meta = Meta {
        id: "mpich@4".to_owned(),
        library: Some(Library::Mpich),
        title: "MPICH 4.0 to 5.0: CH4 compositions over the MPIR rules".to_owned(),
        counts: "all-reduce, broadcast and reduce: the whole vector; all-gather and \
                 reduce-scatter: the total over ranks; all-to-all: what one rank has for one \
                 other, M/N"
            .to_owned(),
        source: "pmodels/mpich v4.2.3, maint/tuning/coll/{mpir,ch4}/generic.json, \
                 src/mpid/ch4/src/ch4_coll_impl.h"
            .to_owned(),
    };
    Ok(Box::new(Mpich { meta, file: None }))
}

struct Mpich {
    meta: Meta,
    /// What replaces the MPIR layer's rules.
    file: Option<(Tree, String)>,
}

/// The compositions of the device over the rules of a file.
pub(super) fn of_file(meta: Meta, tree: Tree, file: String) -> Box<dyn Policy> {
    Box::new(Mpich { meta, file: Some((tree, file)) })
}

/// An algorithm of the MPIR layer, and the test that led to it.
struct Mpir {
    name: Cow<'static, str>,
    /// Ours, where there is one, or why there is none.
    ours: std::result::Result<&'static str, &'static str>,
    rule: String,
    note: Option<&'static str>,
    /// What runs in the first calls of a communicator.
    early: Option<Cow<'static, str>>,
}

/// How the device runs a call over nodes.
struct Composition {
    /// MPICH's number: 1 is alpha.
    number: u32,
    rule: String,
    parts: Vec<(C, Where)>,
}

const GREEK: [&str; 3] = ["alpha", "beta", "gamma"];

/// Bytes of the thresholds of the broadcast on both layers.
const SHORT: u64 = 12_288;
const LONG: u64 = 524_288;
/// Bytes up to which a reduce is short, on both layers.
const SHORT_REDUCE: u64 = 2048;
/// The total of an all-gather over a number of ranks that is no power of two.
const LONG_BRUCK: u64 = 81_920;
/// Bytes for each peer of an all-to-all: Bruck up to the first, all at once up to the second.
const TO_EACH: [u64; 2] = [256, 32_768];

fn picked(name: &'static str, ours: &'static str, rule: impl Into<String>) -> Mpir {
    Mpir { name: name.into(), ours: Ok(ours), rule: rule.into(), note: None, early: None }
}

fn unpriced(name: &'static str, why: &'static str, rule: impl Into<String>) -> Mpir {
    Mpir { name: name.into(), ours: Err(why), rule: rule.into(), note: None, early: None }
}

/// What the MPIR layer picks over `ranks` ranks; absent for what it has no rule of.
fn mpir(collective: C, ranks: u32, call: &Call) -> Option<Mpir> {
    let bytes = call.size.0;
    let power = ranks.is_power_of_two();
    let shape = if power { "a power of two" } else { "no power of two" };
    Some(match collective {
        C::Broadcast if ranks < 8 => picked("binomial", "binomial", "below 8 ranks"),
        C::Broadcast if bytes <= SHORT => {
            picked("binomial", "binomial", format!("at most {SHORT} bytes"))
        }
        C::Broadcast if power && bytes <= LONG => picked(
            "scatter_recursive_doubling_allgather",
            "scatter-allgather",
            format!("{shape}, at most {LONG} bytes"),
        ),
        C::Broadcast => {
            let from = if power { LONG } else { SHORT };
            let rule = format!("{shape}, above {from} bytes");
            picked("scatter_ring_allgather", "scatter-ring", rule)
        }
        C::AllReduce => all_reduce(ranks, call),
        C::Reduce if bytes <= SHORT_REDUCE => {
            picked("binomial", "binomial", format!("at most {SHORT_REDUCE} bytes"))
        }
        C::Reduce => match folds(ranks, call) {
            Ok(rule) => picked("reduce_scatter_gather", "reduce-scatter-gather", rule),
            Err(rule) => picked("binomial", "binomial", rule),
        },
        C::AllGather if power && bytes < LONG => picked(
            "recursive_doubling",
            "recursive-doubling",
            format!("{shape}, below {LONG} bytes in all"),
        ),
        C::AllGather if !power && bytes < LONG_BRUCK => {
            picked("brucks", "bruck", format!("{shape}, below {LONG_BRUCK} bytes in all"))
        }
        C::AllGather => {
            let from = if power { LONG } else { LONG_BRUCK };
            picked("ring", "ring", format!("{shape}, {from} bytes in all or more"))
        }
        C::ReduceScatter => reduce_scatter(power, call),
        C::AllToAll => all_to_all(ranks, call),
        C::Gather | C::Scatter => picked("binomial", "binomial", "any size"),
        C::Barrier => picked("k_dissemination", "dissemination", "any ranks, k = 2"),
        C::SendRecv => return None,
    })
}

fn all_reduce(ranks: u32, call: &Call) -> Mpir {
    let doubling = |rule: String| picked("recursive_doubling", "recursive-doubling", rule);
    if call.size.0 <= 8 {
        return doubling("at most 8 bytes".into());
    }
    match folds(ranks, call) {
        Ok(rule) => picked("reduce_scatter_allgather", "rabenseifner", rule),
        Err(rule) => doubling(rule),
    }
}

/// Whether a vector can be halved among the ranks: a predefined operation, and enough elements.
fn folds(ranks: u32, call: &Call) -> std::result::Result<String, String> {
    let power = 1_u64 << ranks.max(1).ilog2();
    let count = call.count();
    if !call.builtin_op {
        return Err("an operation of the user's own".into());
    }
    if count < power {
        return Err(format!(
            "{count} elements are fewer than {power}, the power of two in {ranks}"
        ));
    }
    Ok(format!("a predefined operation, {count} elements are not fewer than {power}"))
}

fn reduce_scatter(power: bool, call: &Call) -> Mpir {
    let rule = |what: &str| format!("commutative, {what} {LONG} bytes in all");
    match (call.commutative, call.size.0 < LONG) {
        (true, true) => picked("recursive_halving", "recursive-halving", rule("below")),
        (true, false) => Mpir {
            note: Some("pairwise sends N − 1 blocks, each to another rank: priced as the ring"),
            ..picked("pairwise", "ring", rule("not below"))
        },
        (false, _) if power => unpriced(
            "noncommutative",
            "no closed form here keeps the order in a reduce-scatter",
            "does not commute, a power of two",
        ),
        (false, _) => unpriced(
            "recursive_doubling",
            "no closed form here doubles in a reduce-scatter",
            "does not commute, no power of two",
        ),
    }
}

fn all_to_all(ranks: u32, call: &Call) -> Mpir {
    let block = call.block().0;
    let [bruck, scattered] = TO_EACH;
    if call.in_place {
        let note = "in place every pair exchanges one after another: priced as pairwise";
        return Mpir {
            note: Some(note),
            ..picked("pairwise_sendrecv_replace", "pairwise", "in place")
        };
    }
    if call.flavour == Flavour::Vector {
        return picked("scattered", "direct", "counts of their own");
    }
    if ranks >= 8 && block <= bruck {
        return picked("brucks", "bruck", format!("8 ranks or more, at most {bruck} bytes a peer"));
    }
    if block <= scattered {
        return picked("scattered", "direct", format!("at most {scattered} bytes a peer"));
    }
    picked("pairwise", "pairwise", format!("above {scattered} bytes a peer"))
}

/// The device's tree.
fn composition(call: &Call) -> Composition {
    let (bytes, ranks) = (call.size.0, call.ranks);
    let several = call.nodes > 1;
    // A communicator has node communicators only where nodes hold several of its ranks.
    let tiered = several && call.per_node() > 1;
    let flat = |number, rule: &str| Composition {
        number,
        rule: rule.to_owned(),
        parts: vec![(call.collective, Where::All)],
    };
    let tiers = |number, rule: String, parts: &[(C, Where)]| Composition {
        number,
        rule,
        parts: parts.to_vec(),
    };
    match call.collective {
        C::AllReduce if !several => Composition {
            number: 3,
            rule: "all ranks on one node".to_owned(),
            parts: vec![(C::AllReduce, Where::InNode)],
        },
        C::AllReduce if tiered && call.commutative => tiers(
            1,
            "several nodes with several ranks, commutative, any size".into(),
            &[
                (C::Reduce, Where::InNode),
                (C::AllReduce, Where::Leaders),
                (C::Broadcast, Where::InNode),
            ],
        ),
        C::AllReduce => flat(2, "one rank a node, or an operation that does not commute"),
        C::Reduce if tiered && call.commutative => {
            let (number, what) = if bytes <= SHORT_REDUCE { (2, "at most") } else { (1, "above") };
            let rule = format!("several nodes with several ranks, {what} {SHORT_REDUCE} bytes");
            tiers(number, rule, &[(C::Reduce, Where::InNode), (C::Reduce, Where::Leaders)])
        }
        C::Reduce => flat(3, "no nodes with several ranks, or does not commute"),
        C::Broadcast if tiered => {
            let power = ranks.is_power_of_two();
            let parts = [(C::Broadcast, Where::Leaders), (C::Broadcast, Where::InNode)];
            if ranks < 8 {
                tiers(1, "several nodes, below 8 ranks".into(), &parts)
            } else if bytes < SHORT {
                tiers(1, format!("several nodes, below {SHORT} bytes"), &parts)
            } else if power && bytes < LONG {
                tiers(2, format!("several nodes, a power of two, below {LONG} bytes"), &parts)
            } else {
                flat(3, "several nodes, larger")
            }
        }
        C::Broadcast => flat(3, "no nodes with several ranks"),
        C::Barrier if tiered => tiers(
            1,
            "several nodes with several ranks".into(),
            &[
                (C::Barrier, Where::InNode),
                (C::Barrier, Where::Leaders),
                (C::Broadcast, Where::InNode),
            ],
        ),
        C::AllToAll | C::AllGather => flat(2, "any communicator"),
        _ => flat(1, "any communicator"),
    }
}

/// The names of MPICH's collectives in its files, of which a call may be.
fn file_name(collective: C, flavour: Flavour) -> &'static str {
    match (collective, flavour) {
        (C::Broadcast, _) => "bcast",
        (C::AllReduce, _) => "allreduce",
        (C::AllGather, Flavour::Vector) => "allgatherv",
        (C::AllGather, _) => "allgather",
        (C::AllToAll, Flavour::Vector) => "alltoallv",
        (C::AllToAll, _) => "alltoall",
        (C::ReduceScatter, Flavour::Block) => "reduce_scatter_block",
        (C::ReduceScatter, _) => "reduce_scatter",
        (C::Reduce, _) => "reduce",
        (C::Scatter, _) => "scatter",
        (C::Gather, _) => "gather",
        (C::Barrier, _) => "barrier",
        (C::SendRecv, _) => "sendrecv",
    }
}

/// A call of a part as the tests of a file see it.
fn seen(collective: C, place: Where, ranks: u32, call: &Call) -> rules::Call {
    let whole = matches!(collective, C::AllReduce | C::Broadcast | C::Reduce | C::Barrier);
    let (size, n) = (call.size.0, u64::from(ranks.max(1)));
    let average = if whole { size } else { size / n };
    let tiered = place == Where::All && call.nodes > 1 && call.per_node() > 1;
    rules::Call {
        inter: false,
        ranks,
        nodes: if place == Where::InNode { 1 } else { call.nodes },
        parent: tiered,
        consecutive: true,
        average: Bytes(average),
        total: Bytes(if whole { size.saturating_mul(n) } else { size }),
        count: average / call.element.0.max(1),
        commutative: call.commutative,
        builtin_op: call.builtin_op,
        in_place: call.in_place,
        regular: call.flavour != Flavour::Vector,
        threads: false,
    }
}

/// What a file picks for a part.
fn by_file(
    tree: &Tree,
    file: &str,
    collective: C,
    place: Where,
    ranks: u32,
    call: &Call,
) -> Result<Mpir> {
    let flavour = if collective == call.collective { call.flavour } else { Flavour::Plain };
    let name = file_name(collective, flavour);
    let (leaf, path): (&Leaf, Vec<Test>) =
        tree.leaf(name, &seen(collective, place, ranks, call)).map_err(|e| e.at(file))?;
    let short = leaf.algorithm.rsplit_once("intra_").map_or(&*leaf.algorithm, |(_, name)| name);
    let keys: Vec<String> = path.iter().map(|test| test.key()).collect();
    let rule = format!("{file}:{}: {}", leaf.line.0, keys.join(" > "));
    let ours = known(collective, short).ok_or("no closed form here is this algorithm");
    Ok(Mpir { name: Cow::Owned(short.to_owned()), ours, rule, note: None, early: None })
}

/// What a name of the library is here.
fn known(collective: C, name: &str) -> Option<&'static str> {
    Some(match (collective, name) {
        (C::Broadcast | C::Reduce | C::Gather | C::Scatter, "binomial") => "binomial",
        (C::Broadcast, "scatter_recursive_doubling_allgather") => "scatter-allgather",
        (C::Broadcast, "scatter_ring_allgather") => "scatter-ring",
        (C::AllReduce, "reduce_scatter_allgather") => "rabenseifner",
        (C::AllReduce | C::AllGather, "recursive_doubling") => "recursive-doubling",
        (C::AllReduce | C::AllGather, "ring") => "ring",
        (C::Reduce, "reduce_scatter_gather") => "reduce-scatter-gather",
        (C::AllGather | C::AllToAll, "brucks") => "bruck",
        (C::ReduceScatter, "recursive_halving") => "recursive-halving",
        (C::ReduceScatter, "pairwise") => "ring",
        (C::AllToAll, "scattered") => "direct",
        (C::AllToAll, "pairwise" | "pairwise_sendrecv_replace") => "pairwise",
        (C::Barrier, "dissemination" | "k_dissemination") => "dissemination",
        _ => return None,
    })
}

/// Every M at which a test of the file may change its answer, for each communicator.
fn file_edges(tree: &Tree, call: &Call) -> Vec<Bytes> {
    let mut sizes = Vec::new();
    for &(collective, place) in &composition(call).parts {
        collect(tree, (collective, place), call, &mut sizes);
    }
    // The device's own thresholds may bring other parts.
    for size in [SHORT, LONG, SHORT_REDUCE + 1] {
        sizes.push(size);
        for &(collective, place) in &composition(&call.with_size(Bytes(size))).parts {
            collect(tree, (collective, place), call, &mut sizes);
        }
    }
    sizes.into_iter().map(Bytes).collect()
}

fn collect(tree: &Tree, (collective, place): (C, Where), call: &Call, sizes: &mut Vec<u64>) {
    let ranks = match place {
        Where::All => call.ranks,
        Where::InNode => call.per_node(),
        Where::Leaders => call.nodes,
    };
    let flavour = if collective == call.collective { call.flavour } else { Flavour::Plain };
    let mut open: Vec<&Node> = tree.of(file_name(collective, flavour)).into_iter().collect();
    let n = u64::from(ranks.max(1));
    let element = call.element.0.max(1);
    // Of whole vectors and of blocks: the first bytes past a limit, and the limit itself.
    let mut add = |number: u64, unit: u64| {
        for past in [number, number.saturating_add(1)] {
            let size = past.saturating_mul(unit);
            sizes.extend([size, size.saturating_mul(n), size.div_ceil(n)]);
        }
    };
    while let Some(node) = open.pop() {
        let Node::Tests(branches) = node else { continue };
        for branch in branches {
            match branch.test {
                Test::Average(limit) | Test::Total(limit) => {
                    add(limit.last().unwrap_or(0).into(), 1);
                }
                Test::Count(most) => add(most.into(), element),
                Test::CountBelowPower => add(1 << ranks.max(1).ilog2(), element),
                _ => {}
            }
            open.push(&branch.then);
        }
    }
}

/// Whether the shared memory of a node takes this part without messages.
fn in_shared_memory(collective: C, call: &Call) -> bool {
    match collective {
        C::Broadcast | C::Barrier => true,
        C::AllReduce | C::Reduce => call.commutative,
        _ => false,
    }
}

impl Mpich {
    /// One part of a composition: names, our algorithms, the rule.
    fn part(&self, call: &Call, collective: C, place: Where) -> Result<(Mpir, Vec<Part>)> {
        let ranks = match place {
            Where::All => call.ranks,
            Where::InNode => call.per_node(),
            Where::Leaders => call.nodes,
        };
        if place == Where::InNode && in_shared_memory(collective, call) {
            let part = |c| Part::new(c, ranks, place, "binomial");
            let mut parts = vec![part(collective)];
            let mut ours = Ok("binomial");
            match collective {
                C::AllReduce => parts = vec![part(C::Reduce), part(C::Broadcast)],
                C::Barrier => ours = Err("a barrier in shared memory has no messages to price"),
                _ => {}
            }
            let early = Some(self.mpir_layer(collective, place, ranks, call)?.name);
            let note = "release_gather works in shared memory, without messages: priced as \
                        binomial trees inside the node";
            let rule = "shared memory, one thread".to_owned();
            let name = "release_gather";
            return Ok((Mpir { name: name.into(), ours, rule, note: Some(note), early }, parts));
        }
        let found = self.mpir_layer(collective, place, ranks, call)?;
        let parts = found.ours.map(|ours| vec![Part::new(collective, ranks, place, ours)]);
        Ok((found, parts.unwrap_or_default()))
    }

    /// What the rules of messages pick for a part: the library's own, or a file's.
    fn mpir_layer(&self, collective: C, place: Where, ranks: u32, call: &Call) -> Result<Mpir> {
        match &self.file {
            Some((tree, file)) => by_file(tree, file, collective, place, ranks, call),
            None => mpir(collective, ranks, call).ok_or_else(|| self.no_rule(call)),
        }
    }

    fn no_rule(&self, call: &Call) -> Error {
        Error::unsupported(format!("{} has no rule for {}", self.meta.id, call.operation()))
            .mend("ask for a collective of all ranks")
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
        let composition = composition(call);
        let greek = GREEK[composition.number as usize - 1];
        let mut names = Vec::new();
        let mut steps = Vec::new();
        let mut parts = Vec::new();
        let mut missing = None;
        let mut early = Vec::new();
        let mut notes: Vec<Cow<'static, str>> = Vec::new();
        let mut force = vec![variable(call.collective, "COMPOSITION", composition.number)];
        for &(collective, place) in &composition.parts {
            let (found, ours) = self.part(call, collective, place)?;
            let ranks = ours.first().map_or(call.ranks, |p| p.ranks);
            names.push(found.name.clone());
            let what = format!("{} {}", collective.name(), place_words(place, ranks));
            steps.push(format!("{what}: {}: {}", found.rule, found.name));
            notes.extend(found.note.map(Cow::Borrowed));
            early.extend(found.early);
            match found.ours {
                Ok(_) => parts.extend(ours),
                Err(why) => missing = Some(why),
            }
            if found.name != "release_gather" {
                force.push(variable(collective, "INTRA_ALGORITHM", &found.name));
            }
        }
        notes.dedup();
        if !early.is_empty() {
            let note = format!(
                "before the sixth broadcast, reduce, all-reduce or barrier of a communicator \
                 (MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=5) nodes run {} instead",
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
        let element = call.element.0.max(1);
        if let Some((tree, _)) = &self.file {
            return Ok(file_edges(tree, call));
        }
        let mut sizes: Vec<Option<u64>> = match call.collective {
            C::Broadcast => vec![Some(SHORT), Some(SHORT + 1), Some(LONG), Some(LONG + 1)],
            C::AllReduce => vec![Some(9)],
            C::Reduce => vec![Some(SHORT_REDUCE + 1)],
            C::AllGather => vec![Some(LONG), Some(LONG_BRUCK)],
            C::ReduceScatter => vec![Some(LONG)],
            // The last block that a test takes, and one byte more for each peer.
            C::AllToAll => {
                TO_EACH.iter().map(|most| (most + 1).checked_mul(call.ranks.into())).collect()
            }
            _ => Vec::new(),
        };
        // As many elements as the power of two of each communicator.
        for ranks in [call.ranks, call.nodes, call.per_node()] {
            sizes.push((1_u64 << ranks.max(1).ilog2()).checked_mul(element));
        }
        Ok(sizes.into_iter().flatten().map(Bytes).collect())
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        let halves = matches!(algorithm, "rabenseifner" | "reduce-scatter-gather");
        if let (true, Err(why)) = (halves, folds(call.ranks, call)) {
            return Err(Reason::from(why));
        }
        let tiered = call.nodes > 1 && call.per_node() > 1;
        if (call.collective, algorithm, tiered) == (C::AllReduce, "leader-doubling", true) {
            let name = variable(C::AllReduce, "INTRA_ALGORITHM", "recursive_doubling");
            return Ok(format!("{} {name}", variable(C::AllReduce, "COMPOSITION", 1)));
        }
        let name = match (call.collective, algorithm) {
            (C::AllReduce, "rabenseifner") => "reduce_scatter_allgather",
            (C::Reduce, "reduce-scatter-gather") => "reduce_scatter_gather",
            (C::Broadcast, "scatter-allgather") => "scatter_recursive_doubling_allgather",
            (C::Broadcast, "scatter-ring") => "scatter_ring_allgather",
            (C::AllReduce | C::AllGather, "recursive-doubling") => "recursive_doubling",
            (C::AllGather | C::AllToAll, "bruck") => "brucks",
            (C::AllGather, "ring") => "ring",
            (C::ReduceScatter, "recursive-halving") => "recursive_halving",
            (C::ReduceScatter, "ring") => "pairwise",
            (C::AllToAll, "direct") => "scattered",
            (C::AllToAll, "pairwise") => "pairwise",
            (C::Broadcast | C::Reduce, "binomial") => "binomial",
            _ => {
                return Err(Reason::new("no name of the library is this algorithm over all ranks"));
            }
        };
        // The composition that runs one algorithm over all ranks.
        let flat = match call.collective {
            C::AllReduce | C::AllToAll | C::AllGather => 2,
            C::Broadcast | C::Reduce => 3,
            _ => 1,
        };
        let composition = variable(call.collective, "COMPOSITION", flat);
        Ok(format!("{composition} {}", variable(call.collective, "INTRA_ALGORITHM", name)))
    }
}

/// One of the library's control variables with its value.
fn variable(collective: C, what: &str, value: impl std::fmt::Display) -> String {
    let name = match collective {
        C::Broadcast => "BCAST",
        C::AllReduce => "ALLREDUCE",
        C::AllGather => "ALLGATHER",
        C::AllToAll => "ALLTOALL",
        C::ReduceScatter => "REDUCE_SCATTER",
        C::Reduce => "REDUCE",
        C::Scatter => "SCATTER",
        C::Gather => "GATHER",
        C::Barrier => "BARRIER",
        C::SendRecv => "SENDRECV",
    };
    format!("MPIR_CVAR_{name}_{what}={value}")
}
