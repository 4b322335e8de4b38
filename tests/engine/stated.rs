//! What the eight algorithms that every text names state beyond what their schedules show: how far
//! a closed form may be trusted, what papers print, who talks to whom, how many partners at once.

use std::num::NonZeroU32;

use collcost::Collective::{self, AllGather, AllReduce, AllToAll, Broadcast, Gather};
use collcost::Collective::{Reduce, ReduceScatter, Scatter};
use collcost::base::quantity::Ratio;
use collcost::model::algorithm::{Algorithm, Guarantee, Library, Registry, Route, Share};
use collcost::model::formula::{At, Form, Notation, Params, Ports, Shape, Trees};
use collcost::model::schedule::{List, Schedule};

fn find(name: &str, collective: Collective) -> &'static dyn Algorithm {
    Registry::builtin().find(collective, name).unwrap().algorithm
}

fn half(k: u32) -> Ports {
    Ports::Half(NonZeroU32::new(k).unwrap())
}

/// The guarantees on 1, 2, 4 and unbounded ports, and on 1 and 2 that are half duplex: equal, equal
/// in rounds, an upper bound.
fn guarantees(name: &str, shape: Shape) -> String {
    let algorithm = find(name, shape.collective);
    let letter = |ports| match algorithm.guarantee(&shape.with_ports(ports)) {
        Guarantee::Equal => '=',
        Guarantee::EqualInRounds => 'r',
        Guarantee::UpperBound => '<',
        Guarantee::Asymptotic => '~',
        Guarantee::Pipelined => 'p',
    };
    let ports = [Ports::ONE, Ports::full(2), Ports::full(4), Ports::Unbounded, half(1), half(2)];
    ports.into_iter().map(letter).collect()
}

#[test]
fn guarantees_are_as_strong_as_they_are_known_to_be() {
    let table = [
        ("ring", AllReduce, 8, 1, "======"),
        ("ring", AllReduce, 9, 1, "====<<"),
        ("ring-rails", AllReduce, 9, 1, "====<<"),
        ("chain", Broadcast, 9, 3, "======"),
        ("binomial", Broadcast, 9, 1, "=<===<"),
        ("binomial", Broadcast, 9, 3, "=<==<<"),
        ("binomial", Broadcast, 17, 1, "=<<==<"),
        ("tree", AllReduce, 9, 1, "=<===<"),
        ("binomial", Scatter, 9, 1, "=<<<<<"),
        ("recursive-doubling", AllReduce, 8, 1, "======"),
        ("recursive-doubling", AllReduce, 9, 1, "=<<<=<"),
        ("recursive-doubling", AllGather, 8, 1, "======"),
        ("recursive-halving", ReduceScatter, 8, 1, "======"),
        ("rabenseifner", AllReduce, 8, 1, "======"),
        ("rabenseifner", AllReduce, 9, 1, "rrrr<<"),
        ("rabenseifner-far", AllReduce, 9, 1, "rrrr<<"),
        ("rabenseifner-half-fold", AllReduce, 9, 1, "r<<<<<"),
        ("rabenseifner-padded", AllReduce, 9, 1, "<<<<<<"),
        ("bruck", AllGather, 9, 1, "=<<<<<"),
        ("bruck", AllToAll, 9, 1, "=<<<<<"),
        ("pat", ReduceScatter, 9, 1, "=<<<<<"),
        ("double-binary-tree", AllReduce, 8, 1, "====<<"),
        ("double-binary-tree", AllReduce, 8, 3, "<<<<<<"),
        ("double-binary-tree", AllReduce, 9, 1, "<===<<"),
        ("two-tree", Broadcast, 9, 1, "<<<<<<"),
    ];
    for (name, collective, n, p, letters) in table {
        let shape = Shape::new(collective, n).with_segments(p);
        assert_eq!(guarantees(name, shape), letters, "{name} {collective} of {n} in {p}");
    }
    let mut heap = Shape::new(AllReduce, 8).with_segments(1);
    heap.params.trees = Trees::Heap;
    assert_eq!(guarantees("double-binary-tree", heap), "<<<<<<");
}

/// The formula of a form as text, if it states one of its own.
fn formula(name: &str, shape: Shape, form: Form) -> String {
    let algorithm = find(name, shape.collective);
    let cost = algorithm.print_form(&At::symbols(shape), form);
    cost.map_or_else(|| "none".into(), |cost| cost.formula(true).write(Notation::Text))
}

#[test]
fn papers_are_quoted_as_they_print() {
    let table = [
        ("ring", AllReduce, 1, "2·(N − 1)·α + 2·(N − 1)/N·M/BW + (N − 1)/N·M·γ"),
        ("binomial", Broadcast, 3, "(⌈lg N⌉ + P − 1)·α + (⌈lg N⌉ + P − 1)/P·M/BW"),
        ("recursive-doubling", AllReduce, 1, "⌈lg N⌉·α + ⌈lg N⌉·M/BW"),
        ("rabenseifner", AllReduce, 1, "2·⌈lg N⌉·α + 2·(N − 1)/N·M/BW"),
        ("rabenseifner-far", AllReduce, 1, "2·⌈lg N⌉·α + 2·(N − 1)/N·M/BW"),
        (
            "rabenseifner-padded",
            AllReduce,
            1,
            "2·⌈lg N⌉·α + 2·(V(N) − 1)/V(N)·M/BW + (V(N) − 1)/V(N)·M·γ",
        ),
        ("bruck", AllToAll, 1, "⌈lg N⌉·α + ⌈lg N⌉/2·M/BW"),
        ("pat", AllGather, 1, "⌈lg N⌉·α + (N − 1)/N·M/BW"),
        ("double-binary-tree", AllReduce, 1, "2·⌈lg N⌉·α + ⌈lg N⌉·M/BW"),
        ("double-binary-tree", AllReduce, 3, "(2·⌈lg N⌉ + P − 1)·α + (2·⌈lg N⌉ + P − 1)/P·M/BW"),
        ("two-tree", Broadcast, 3, "(2·⌈lg N⌉ + 2·P)·α + (2·⌈lg N⌉ + 2·P)/(2·P)·M/BW"),
    ];
    for (name, collective, p, text) in table {
        let mut shape = Shape::new(collective, 12).with_segments(p);
        shape.params.aggregation = NonZeroU32::new(2).filter(|_| name == "pat");
        assert_eq!(formula(name, shape, Form::Paper), text, "{name}");
    }
}

#[test]
fn limits_are_those_of_large_vectors() {
    let limit = |name, shape| formula(name, shape, Form::Asymptotic);
    let tree = |ports| Shape::new(AllReduce, 12).with_ports(ports);
    assert_eq!(limit("ring", Shape::new(AllReduce, 12)), "2·N·α + 2·M/BW");
    assert_eq!(limit("ring", Shape::new(AllGather, 12)), "N·α + M/BW");
    assert_eq!(limit("chain", Shape::new(Broadcast, 12)), "none");
    assert_eq!(limit("double-binary-tree", tree(Ports::ONE)), "2·⌈lg N⌉·α + 2·M/BW");
    assert_eq!(limit("double-binary-tree", tree(Ports::full(2))), "2·⌈lg N⌉·α + M/BW");
    let c_real = Params { c_real: Some(Ratio(1.5)), ..Params::default() };
    let told = Shape { params: c_real, ..tree(Ports::ONE) };
    assert_eq!(limit("double-binary-tree", told), "2·⌈lg N⌉·α + c·M/BW");
}

#[test]
fn formulas_are_the_plainest_that_hold() {
    let exact = |name, shape| formula(name, shape, Form::Exact);
    // One child needs no pipeline of ports.
    let pair = Shape::new(Broadcast, 2);
    assert_eq!(exact("binomial", pair), "P·⌈lg N⌉·α + ⌈lg N⌉·M/BW");
    let tree = |n| Shape::new(AllReduce, n).with_segments(1);
    assert!(exact("double-binary-tree", tree(8)).starts_with("(4·⌈lg N⌉ − 2)·α + "));
    assert!(exact("double-binary-tree", tree(12)).starts_with("U(N)·α + "));
    // The page's function has the value that the price has.
    let dbt = find("double-binary-tree", AllReduce);
    let functions = dbt.print(&At::symbols(tree(12))).formula(false).named_functions();
    let price = dbt.price(&At::numbers(tree(12))).total().alpha;
    let values: Vec<_> = functions.iter().map(|f| (f.name, (f.rule)(&[12]) as f64)).collect();
    assert_eq!(values, [("U", price)]);
    let wide = tree(12).with_ports(Ports::full(2));
    let levels = "(2·(P − 1) + 2·⌈lg N⌉)·α + (2·(P − 1) + 2·⌈lg N⌉)/(2·P)·M/BW + \
                  (2·(P − 1) + 2·⌈lg N⌉)/(2·P)·M·γ";
    assert_eq!(exact("double-binary-tree", wide), levels);
}

#[test]
fn partners_at_once_are_those_of_the_pattern() {
    let needed = |name, collective, n, p| {
        find(name, collective).ports_needed(&Shape::new(collective, n).with_segments(p))
    };
    assert_eq!(needed("ring", AllReduce, 12, 1), 1);
    assert_eq!(needed("binomial", Broadcast, 12, 1), 1);
    assert_eq!(needed("binomial", Broadcast, 12, 3), 4);
    assert_eq!([2, 3, 12].map(|n| needed("double-binary-tree", AllReduce, n, 3)), [1, 2, 2]);
    assert_eq!([2, 3, 12].map(|n| needed("two-tree", Broadcast, n, 3)), [1, 2, 2]);
}

#[test]
fn pipelines_are_those_that_segments_help() {
    let pipelined = |name, collective| find(name, collective).is_pipelined();
    assert!(pipelined("chain", Broadcast) && pipelined("binomial", Broadcast));
    assert!(pipelined("double-binary-tree", AllReduce) && pipelined("two-tree", Broadcast));
    assert!(!pipelined("ring", AllReduce) && !pipelined("rabenseifner", AllReduce));
    assert!(!pipelined("bruck", AllToAll) && !pipelined("pat", AllGather));
}

#[test]
fn nccl_runs_pat_between_nodes_of_one_rank_only() {
    let nccl = |group| {
        let shape = Shape { group: NonZeroU32::new(group), ..Shape::new(AllGather, 16) };
        find("pat", AllGather).is_shipped(Some(Library::Nccl), &shape)
    };
    assert_eq!([0, 1, 8].map(nccl), [false, true, false]);
}

/// The steps: how many, the share of the vector and what of it is added, to whom: so many ranks on,
/// to the partner of an exchange (behind a fold of so many pairs), or into a growing tree.
fn steps(name: &str, shape: Shape) -> String {
    let mut steps = Vec::new();
    find(name, shape.collective).steps(&shape, &mut |step| {
        let route = match step.route {
            Route::Offset(by) => format!("+{by}"),
            Route::Offsets { first, last } => format!("+{first}…{last}"),
            Route::Xor(by) => format!("^{by}"),
            Route::Pairs(by) => format!("even +{by}"),
            Route::Folded { distance, pairs, .. } => format!("^{distance}@{pairs}"),
            Route::Grow(by) => format!("grow {by}"),
            Route::Split { of, by, .. } => format!("split {of} {by}"),
            Route::Heap { first, end, .. } => format!("heap {first} {end}"),
            Route::Edges { slots, .. } => format!("edges/{slots}"),
            other => format!("{other:?}"),
        };
        let (share, added) = (step.share.exact(), step.reduced.exact());
        let adds = step.reduced != Share::NONE;
        let added = if adds { format!("+ {added} ") } else { String::new() };
        steps.push(format!("{}·{share} {added}{route}", step.count));
    });
    steps.join(", ")
}

#[test]
fn steps_go_where_the_pattern_leads() {
    let table = [
        ("ring", AllReduce, 4, 1, Ports::ONE, "3·1/4 + 1/4 +1, 3·1/4 +1"),
        ("ring", AllReduce, 4, 1, half(1), "3·1/4 + 1/4 +1, 9·1/4 +1"),
        ("ring", AllReduce, 4, 1, half(2), "3·1/4 + 1/4 +1, 3·1/4 +1"),
        ("ring", AllReduce, 5, 1, half(2), "4·1/5 + 1/5 +1, 4·1/5 +1"),
        ("ring", ReduceScatter, 4, 1, Ports::ONE, "3·1/4 + 1/4 +1"),
        ("chain", Reduce, 4, 3, Ports::ONE, "5·1/3 + 1/3 +1"),
        ("binomial", Broadcast, 2, 1, Ports::ONE, "1·1 grow 1"),
        (
            "binomial",
            Broadcast,
            12,
            3,
            Ports::ONE,
            "3·1/3 grow 1, 3·1/3 grow 2, 3·1/3 grow 4, 3·1/3 grow 8",
        ),
        ("binomial", Reduce, 12, 3, Ports::Unbounded, "2·1/3 +1…8, 3·1/3 + 4/3 +1…8"),
        ("in-order-binomial", Reduce, 3, 1, Ports::ONE, "1·1 + 1 split 2 1, 1·1 + 1 split 4 2"),
        (
            "binomial",
            Scatter,
            6,
            1,
            Ports::ONE,
            "1·1/3 split 8 4, 1·1/3 split 4 2, 1·1/6 split 2 1",
        ),
        ("binomial", Gather, 6, 1, Ports::ONE, "1·1/3 split 8 4, 1·1/3 split 4 2, 1·1/6 split 2 1"),
        (
            "in-order-knomial",
            Broadcast,
            10,
            1,
            Ports::ONE,
            "1·1 split 4 1, 1·1 split 4 2, 1·1 split 4 3, 1·1 split 16 4, 1·1 split 16 8",
        ),
        (
            "tree",
            AllReduce,
            6,
            1,
            Ports::ONE,
            "1·1 + 1 grow 1, 1·1 grow 1, 1·1 + 1 grow 2, 1·1 grow 2, 1·1 + 1 grow 4, 1·1 grow 4",
        ),
        ("tree", AllReduce, 6, 1, Ports::full(3), "1·1 + 1 +1…4, 1·1 +1…4, 1·1 + 2 +1…4, 1·1 +1…4"),
        (
            "recursive-doubling",
            AllReduce,
            6,
            1,
            Ports::ONE,
            "1·1 + 1 ^1, 1·1 + 1 ^1@2, 1·1 + 1 ^2@2, 1·1 ^1",
        ),
        ("recursive-doubling", AllReduce, 4, 1, half(1), "1·1 + 1 ^1, 1·1 ^1, 1·1 + 1 ^2, 1·1 ^2"),
        ("recursive-doubling", AllGather, 4, 1, Ports::ONE, "1·1/4 ^1, 1·1/2 ^2"),
        ("recursive-halving", ReduceScatter, 4, 1, Ports::ONE, "1·1/2 + 1/2 ^2, 1·1/4 + 1/4 ^1"),
        (
            "rabenseifner",
            AllReduce,
            9,
            1,
            Ports::ONE,
            "1·1 + 1 ^1, 1·1/2 + 1/2 ^1@1, 1·1/4 + 1/4 ^2@1, 1·1/8 + 1/8 ^4@1, 1·1/8 ^4@1, \
             1·1/4 ^2@1, 1·1/2 ^1@1, 1·1 ^1",
        ),
        (
            "rabenseifner-far",
            AllReduce,
            9,
            1,
            Ports::ONE,
            "1·1 + 1 ^1, 1·1/2 + 1/2 ^4@1, 1·1/4 + 1/4 ^2@1, 1·1/8 + 1/8 ^1@1, 1·1/8 ^1@1, \
             1·1/4 ^2@1, 1·1/2 ^4@1, 1·1 ^1",
        ),
        (
            "rabenseifner-half-fold",
            AllReduce,
            5,
            1,
            Ports::ONE,
            "1·1/2 + 1/2 ^1, 1·1/2 ^1, 1·1/2 + 1/2 ^1@1, 1·1/4 + 1/4 ^2@1, 1·1/4 ^2@1, \
             1·1/2 ^1@1, 1·1 ^1",
        ),
        (
            "rabenseifner-half-fold-far",
            AllReduce,
            5,
            1,
            half(1),
            "1·1/2 + 1/2 ^1, 1·1/2 ^1, 1·1/2 ^1, 1·1/2 + 1/2 ^2@1, 1·1/2 ^2@1, 1·1/4 + 1/4 ^1@1, \
             1·1/4 ^1@1, 1·1/4 ^1@1, 1·1/4 ^1@1, 1·1/2 ^2@1, 1·1/2 ^2@1, 1·1 ^1",
        ),
        (
            "rabenseifner-padded",
            AllReduce,
            5,
            1,
            Ports::ONE,
            "1·1/2 + 1/2 +1…4, 1·1/2 +1…4, 2·1/4 + 1/4 +1…4, 2·1/4 +1…4, 2·1/8 + 1/8 +1…4, \
             2·1/8 +1…4",
        ),
        (
            "rabenseifner-padded",
            AllReduce,
            5,
            1,
            half(1),
            "1·1/2 + 1/2 +1…4, 5·1/2 +1…4, 2·1/4 + 1/4 +1…4, 10·1/4 +1…4, 2·1/8 + 1/8 +1…4, \
             10·1/8 +1…4",
        ),
        ("bruck", AllGather, 6, 1, Ports::ONE, "1·1/6 +1, 1·1/3 +2, 1·1/3 +4"),
        ("bruck", AllToAll, 6, 1, Ports::ONE, "1·1/2 +1, 1·1/3 +2, 1·1/3 +4"),
        ("pat", AllGather, 6, 1, Ports::ONE, "1·1/6 +4, 1·1/6 +2, 1·1/2 +1"),
        ("double-binary-tree", AllReduce, 8, 1, Ports::ONE, "10·1/2 + 1/4 edges/10"),
        (
            "double-binary-tree",
            AllReduce,
            8,
            3,
            Ports::ONE,
            "10·1/6 + 1/12 edges/10, 8·1/6 + 1/12 edges/4",
        ),
        ("double-binary-tree", AllReduce, 8, 1, half(1), "10·1/2 + 1/4 edges/10, 20·1/2 edges/10"),
        (
            "double-binary-tree",
            AllReduce,
            8,
            3,
            Ports::full(2),
            "6·1/6 + 1/6 edges/6, 4·1/6 + 1/6 edges/2",
        ),
        ("two-tree", Broadcast, 8, 3, Ports::ONE, "7·1/6 edges/7, 4·1/6 edges/2"),
        ("two-tree", Broadcast, 8, 3, Ports::full(2), "4·1/6 edges/4, 2·1/6 edges/1"),
        ("two-tree", Broadcast, 8, 3, half(1), "21·1/6 edges/21, 12·1/6 edges/6"),
    ];
    for (name, collective, n, p, ports, text) in table {
        let shape = Shape::new(collective, n).with_segments(p).with_ports(ports);
        assert_eq!(steps(name, shape), text, "{name} {collective} of {n} in {p} on {ports}");
    }
}

#[test]
fn every_one_is_played_out() {
    let named = [
        ("ring", &[AllReduce, AllGather, ReduceScatter][..]),
        ("chain", &[Broadcast, Reduce]),
        ("binomial", &[Broadcast, Reduce, Scatter, Gather]),
        ("tree", &[AllReduce]),
        ("recursive-doubling", &[AllReduce, AllGather]),
        ("recursive-halving", &[ReduceScatter]),
        ("rabenseifner", &[AllReduce]),
        ("rabenseifner-far", &[AllReduce]),
        ("rabenseifner-half-fold", &[AllReduce]),
        ("rabenseifner-half-fold-far", &[AllReduce]),
        ("rabenseifner-padded", &[AllReduce]),
        ("bruck", &[AllGather, AllToAll, ReduceScatter]),
        ("pat", &[AllGather, ReduceScatter]),
        ("double-binary-tree", &[AllReduce]),
        ("two-tree", &[Broadcast]),
    ];
    for (name, collectives) in named {
        for &collective in collectives {
            let algorithm = find(name, collective);
            for n in [8, 12] {
                let shape = Shape::new(collective, n).with_segments(1);
                if algorithm.applies(&shape).is_ok() {
                    let schedule = algorithm.schedule(&shape).expect(name);
                    assert_eq!((schedule.collective(), schedule.ranks()), (collective, n));
                    assert_eq!(schedule.root(), 0);
                }
            }
        }
    }
}

#[test]
fn what_needs_another_number_of_ranks_is_refused() {
    let runs =
        |name, collective, n| find(name, collective).applies(&Shape::new(collective, n)).is_ok();
    let most = 1 << 31;
    assert_eq!([8, 12].map(|n| runs("recursive-doubling", AllReduce, n)), [true, true]);
    assert_eq!([8, 12].map(|n| runs("recursive-doubling", AllGather, n)), [true, false]);
    assert_eq!([8, 12].map(|n| runs("recursive-halving", ReduceScatter, n)), [true, false]);
    assert_eq!([8, 12].map(|n| runs("rabenseifner-half-fold", AllReduce, n)), [false, true]);
    let padded =
        [8, 12, most - 1, most, most + 1].map(|n| runs("rabenseifner-padded", AllReduce, n));
    assert_eq!(padded, [false, true, true, false, false]);
}

#[test]
fn trees_are_laid_out_as_their_ports_allow() {
    let list = |name, collective, n, ports, trees| {
        let mut shape = Shape::new(collective, n).with_segments(3).with_ports(ports);
        shape.params.trees = trees;
        List::of(&*find(name, collective).schedule(&shape).unwrap())
    };
    for (name, collective) in [("double-binary-tree", AllReduce), ("two-tree", Broadcast)] {
        let list = |n, ports, trees| list(name, collective, n, ports, trees);
        let [one, two] = [Ports::ONE, Ports::full(2)];
        // Colours keep one port free of clashes; with two, a level of both trees is a round.
        assert_ne!(list(12, one, Trees::Coloured), list(12, one, Trees::Levels));
        assert_eq!(list(12, two, Trees::Coloured), list(12, one, Trees::Levels));
        assert_eq!(list(12, two, Trees::Levels), list(12, one, Trees::Levels));
        assert_eq!(list(12, half(3), Trees::Coloured), list(12, one, Trees::Coloured));
        assert_eq!(list(12, half(4), Trees::Coloured), list(12, two, Trees::Coloured));
    }
    let heap = list("double-binary-tree", AllReduce, 12, Ports::ONE, Trees::Heap);
    assert_eq!(heap.root(), 0);
    let four = |ports| list("two-tree", Broadcast, 4, ports, Trees::Coloured);
    assert_eq!(four(Ports::full(2)), four(Ports::ONE), "both trees share a link below the root");
}
