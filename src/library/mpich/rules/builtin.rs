//! MPICH's own tree. A file must repeat it, because the file replaces it.
//!
//! Source: MPICH 4.0 to 5.0 `maint/tuning/coll/mpir/generic.json`, the same rules in all of them except
//! for the name of the barrier.

use super::{Branch, COLLECTIVES, Hierarchy, Kind, Leaf, Limit, Node, Test, Tree};
use crate::library::tuning_file::Line;

/// The version whose names a tree uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 4.0.
    V4_0,
    /// 4.1 and later: the barrier has a radix.
    V4_1,
}

/// The rules of the library itself, as a tree that may be changed.
#[must_use]
pub fn builtin(version: Version) -> Tree {
    let of = |name: &&str| ((*name).to_owned(), node(name, version), Line::default());
    Tree { collectives: COLLECTIVES.iter().map(of).collect() }
}

/// A leaf.
#[must_use]
pub fn runs(algorithm: impl Into<String>) -> Node {
    let algorithm = algorithm.into();
    Node::Runs(Leaf { algorithm, parameters: Vec::new(), line: Line::default() })
}

/// Tests in their order.
#[must_use]
pub fn tests(branches: impl IntoIterator<Item = (Test, Node)>) -> Node {
    let branch = |(test, then)| Branch { test, then, line: Line::default() };
    Node::Tests(branches.into_iter().map(branch).collect())
}

const ANY_RANKS: Test = Test::Any(Kind::Ranks);
const ANY_AVERAGE: Test = Test::Any(Kind::Average);
const ANY_TOTAL: Test = Test::Any(Kind::Total);

fn average(most: u32) -> Test {
    Test::Average(Limit::AtMost(most))
}

fn total(below: u32) -> Test {
    Test::Total(Limit::Below(below))
}

/// `yes` if the test holds, `no` if it does not.
fn either(test: fn(bool) -> Test, yes: Node, no: Node) -> Node {
    tests([(test(true), yes), (test(false), no)])
}

fn node(collective: &str, version: Version) -> Node {
    let mut stem = collective.to_owned();
    stem[..1].make_ascii_uppercase();
    // Non-blocking collectives have the same rules with a few exceptions; their algorithms are
    // schedules.
    let plain = collective.strip_prefix('i').filter(|c| COLLECTIVES.contains(c));
    let is_blocking = plain.is_none();
    let sched = if is_blocking { "" } else { "sched_" };
    let intra = |name: &str| runs(format!("MPIR_{stem}_intra_{sched}{name}"));
    let inter = |name: &str| runs(format!("MPIR_{stem}_inter_{sched}{name}"));
    let all = |name: &str| runs(format!("MPIR_{stem}_allcomm_{sched}{name}"));
    let both = |inside: Node, between: Node| {
        tests([(Test::Inter(false), inside), (Test::Inter(true), between)])
    };
    match plain.unwrap_or(collective) {
        "bcast" if is_blocking => both(broadcast(&intra), inter("remote_send_local_bcast")),
        "bcast" => both(
            tests([(PARENT, intra("smp")), (Test::Any(Kind::Parent), later_broadcast(&intra))]),
            inter("flat"),
        ),
        "allreduce" if is_blocking => both(
            tests([
                (average(0), either(Test::Commutative, intra("smp"), intra("recursive_doubling"))),
                (average(8), intra("recursive_doubling")),
                (ANY_AVERAGE, halves(&intra, "reduce_scatter_allgather", "recursive_doubling")),
            ]),
            inter("reduce_exchange_bcast"),
        ),
        "allreduce" => both(
            tests([
                (average(2048), intra("recursive_doubling")),
                (ANY_AVERAGE, halves(&intra, "reduce_scatter_allgather", "recursive_doubling")),
            ]),
            inter("remote_reduce_local_bcast"),
        ),
        "allgather" => both(gathered(&intra), inter("local_gather_remote_bcast")),
        "allgatherv" => both(gathered(&intra), inter("remote_gather_local_bcast")),
        "reduce" if is_blocking => {
            let none = either(Test::Commutative, intra("smp"), intra("binomial"));
            let rest = [
                (average(2048), intra("binomial")),
                (ANY_AVERAGE, halves(&intra, "reduce_scatter_gather", "binomial")),
            ];
            let parent = std::iter::once((average(0), none)).chain(rest.clone());
            both(
                tests([(PARENT, tests(parent)), (Test::Any(Kind::Parent), tests(rest))]),
                inter("local_reduce_remote_send"),
            )
        }
        "reduce" => both(
            tests([
                (PARENT, either(Test::Commutative, intra("smp"), intra("binomial"))),
                (
                    Test::Any(Kind::Parent),
                    tests([
                        (average(2048), intra("binomial")),
                        (ANY_AVERAGE, halves(&intra, "reduce_scatter_gather", "binomial")),
                    ]),
                ),
            ]),
            inter("local_reduce_remote_send"),
        ),
        "reduce_scatter" => {
            let power = tests([
                (Test::PowerOfTwo, intra("noncommutative")),
                (ANY_RANKS, intra("recursive_doubling")),
            ]);
            let in_order = either(Test::Regular, power, intra("recursive_doubling"));
            both(scattered(&intra, in_order), inter(remote_reduce(is_blocking)))
        }
        "reduce_scatter_block" => {
            let power = tests([
                (Test::PowerOfTwo, intra("noncommutative")),
                (ANY_RANKS, intra("recursive_doubling")),
            ]);
            both(scattered(&intra, power), inter(remote_reduce(is_blocking)))
        }
        "gather" => {
            let (short, long) = match is_blocking {
                true => ("local_gather_remote_send", "linear"),
                false => ("short", "long"),
            };
            both(intra("binomial"), tests([(total(2048), inter(short)), (ANY_TOTAL, inter(long))]))
        }
        "scatter" => {
            let short = inter("remote_send_local_scatter");
            both(intra("binomial"), tests([(total(2048), short), (ANY_TOTAL, inter("linear"))]))
        }
        "gatherv" | "scatterv" => all("linear"),
        "scan" if is_blocking => {
            both(either(Test::Consecutive, intra("smp"), intra("recursive_doubling")), intra("smp"))
        }
        "scan" => {
            tests([(PARENT, intra("smp")), (Test::Any(Kind::Parent), intra("recursive_doubling"))])
        }
        "exscan" => intra("recursive_doubling"),
        "barrier" if is_blocking => both(
            tests([(PARENT, intra("smp")), (Test::Any(Kind::Parent), barrier(version, &intra))]),
            inter("bcast"),
        ),
        "barrier" => both(intra("recursive_doubling"), inter("bcast")),
        "alltoall" => both(all_to_all(&intra, is_blocking), inter("pairwise_exchange")),
        "alltoallv" | "alltoallw" => {
            let (in_place, not) = match is_blocking {
                true => ("pairwise_sendrecv_replace", "scattered"),
                false => ("inplace", "blocked"),
            };
            both(either(Test::InPlace, intra(in_place), intra(not)), inter("pairwise_exchange"))
        }
        // Those of neighbours.
        _ if is_blocking => all("nb"),
        _ => all("linear"),
    }
}

const PARENT: Test = Test::Hierarchy(Hierarchy::Parent);

type Intra<'a> = &'a dyn Fn(&str) -> Node;

/// Halving if the operation is predefined and every half has an element; it aborts otherwise.
fn halves(intra: Intra<'_>, halving: &str, otherwise: &str) -> Node {
    let enough =
        [(Test::CountBelowPower, intra(otherwise)), (Test::Any(Kind::Count), intra(halving))];
    either(Test::BuiltIn, tests(enough), intra(otherwise))
}

fn broadcast(intra: Intra<'_>) -> Node {
    let sizes = |is_parent: bool, sizes: Vec<(Test, Node)>| {
        let none = is_parent.then(|| (average(0), intra("smp")));
        tests(none.into_iter().chain(sizes))
    };
    let by_parent = |all: Vec<(Test, Node)>| {
        tests([(PARENT, sizes(true, all.clone())), (Test::Any(Kind::Parent), sizes(false, all))])
    };
    tests([
        (Test::Ranks(Limit::AtMost(7)), by_parent(vec![(ANY_AVERAGE, intra("binomial"))])),
        (
            Test::PowerOfTwo,
            by_parent(vec![
                (average(12_288), intra("binomial")),
                (average(524_288), intra("scatter_recursive_doubling_allgather")),
                (ANY_AVERAGE, intra("scatter_ring_allgather")),
            ]),
        ),
        (
            ANY_RANKS,
            by_parent(vec![
                (average(12_288), intra("binomial")),
                (ANY_AVERAGE, intra("scatter_ring_allgather")),
            ]),
        ),
    ])
}

/// The same for the non-blocking one, whose limits are exclusive rather than inclusive.
fn later_broadcast(intra: Intra<'_>) -> Node {
    let below = |bytes: u32| Test::Average(Limit::Below(bytes));
    tests([
        (Test::Ranks(Limit::AtMost(7)), tests([(ANY_AVERAGE, intra("binomial"))])),
        (
            Test::PowerOfTwo,
            tests([
                (below(12_288), intra("binomial")),
                (below(524_288), intra("scatter_recursive_doubling_allgather")),
                (ANY_AVERAGE, intra("scatter_ring_allgather")),
            ]),
        ),
        (
            ANY_RANKS,
            tests([
                (below(12_288), intra("binomial")),
                (ANY_AVERAGE, intra("scatter_ring_allgather")),
            ]),
        ),
    ])
}

fn gathered(intra: Intra<'_>) -> Node {
    let sizes =
        |short: u32, name: &str| tests([(total(short), intra(name)), (ANY_TOTAL, intra("ring"))]);
    tests([
        (Test::PowerOfTwo, sizes(524_288, "recursive_doubling")),
        (ANY_RANKS, sizes(81_920, "brucks")),
    ])
}

fn scattered(intra: Intra<'_>, in_order: Node) -> Node {
    let sizes =
        tests([(total(524_288), intra("recursive_halving")), (ANY_TOTAL, intra("pairwise"))]);
    either(Test::Commutative, sizes, in_order)
}

fn remote_reduce(is_blocking: bool) -> &'static str {
    if is_blocking { "remote_reduce_local_scatter" } else { "remote_reduce_local_scatterv" }
}

fn all_to_all(intra: Intra<'_>, is_blocking: bool) -> Node {
    let (in_place, bruck, middle) = match is_blocking {
        true => ("pairwise_sendrecv_replace", 256, "scattered"),
        false => ("inplace", 2048, "permuted_sendrecv"),
    };
    let long = [(average(32_768), intra(middle)), (ANY_AVERAGE, intra("pairwise"))];
    let many = std::iter::once((average(bruck), intra("brucks"))).chain(long.clone());
    // After a test of the call MPICH treats this `<8` as `<=8`, as in its own tree.
    let ranks = [(Test::Ranks(Limit::Below(8)), tests(long)), (ANY_RANKS, tests(many))];
    either(Test::InPlace, intra(in_place), tests(ranks))
}

fn barrier(version: Version, intra: Intra<'_>) -> Node {
    match (version, intra("k_dissemination")) {
        (Version::V4_1, Node::Runs(leaf)) => {
            Node::Runs(Leaf { parameters: vec!["k=2".to_owned()], ..leaf })
        }
        _ => intra("dissemination"),
    }
}
