//! Fabrics held to tables that another program made: exact rates by SciPy's flows and HiGHS'
//! linear programs, makespans that are SimGrid's to the last digit, frontiers by CP-SAT.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};

use collcost::Collective;
use collcost::answer::optimum::{Optimum, ProofKind, TreeView, best, schedule_of};
use collcost::answer::what_if::what_if;
use collcost::base::quantity::Bytes;
use collcost::cost::traffic;
use collcost::exchange::import;
use collcost::library::nccl::{self, topology_file};
use collcost::machine::graph::{Fault, Graph, Link};
use flate2::read::GzDecoder;
use num_rational::Ratio;
use serde_json::{Value, json};

use crate::full::one_in;

type Fraction = Ratio<i128>;

/// The rows of a table.
fn rows(name: &str) -> Vec<Value> {
    let file = format!("{}/tests/data/fabrics/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(file).unwrap())).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

fn graph(file: &Value) -> Graph {
    Graph::parse(&file.to_string(), "fabric.json").unwrap()
}

fn fraction(text: &str) -> Fraction {
    let (a, b) = text.split_once('/').unwrap_or((text, "1"));
    Fraction::new(a.parse().unwrap(), b.parse().unwrap())
}

/// The rates of a graph's links by the names of their ends.
fn rates(graph: &Graph) -> HashMap<(&str, &str), Fraction> {
    let name = |node| graph.name_of(node);
    graph.links.iter().map(|l| ((name(l.from), name(l.to)), l.rate.0)).collect()
}

#[test]
fn generated_fabrics_are_those_of_the_table() {
    let mut seen = 0;
    for row in rows("optimum").iter().filter(|row| row["generate"]["kind"] != "random") {
        let mut generate = row["generate"].clone();
        let fault = generate.as_object_mut().unwrap().remove("fault");
        let faults = fault.map_or(json!([]), |fault| match fault.get("between") {
            Some(ends) => json!([{"between": ends, "times": fault["times"]}]),
            None => {
                let ends = &fault["from_to"];
                json!([{"from": ends[0], "to": ends[1], "times": fault["times"]}])
            }
        });
        let made = graph(&json!({"generate": generate, "faults": faults}));
        let wanted = graph(&row["fabric"]);
        assert_eq!(made.nodes, wanted.nodes, "{}", row["id"]);
        assert_eq!(rates(&made), rates(&wanted), "{}", row["id"]);
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn rates_are_exact_and_proven() {
    let mut seen = 0;
    for row in rows("optimum").iter().step_by(one_in(3)) {
        let graph = graph(&row["fabric"]);
        for (collective, wanted) in row["rates"].as_object().unwrap() {
            let what = format!("{} {collective}", row["id"]);
            let collective: Collective = collective.parse().unwrap();
            let found = best(&graph, collective, 0, true).expect(&what);
            assert_eq!(found.rate, wanted.as_str().unwrap(), "{what}");
            if let Some(cut) = &found.cut {
                assert_eq!(
                    proven_by(&graph, collective, &cut.nodes),
                    fraction(&found.rate),
                    "{what}"
                );
            } else {
                assert!(found.lengths.is_some(), "{what} has no proof");
            }
            check_trees(&graph, &found, &what);
            seen += 1;
        }
    }
    assert!(seen > 150, "{seen}");
}

/// What is written is read again: a schedule with more chunks than a reader follows is refused.
#[test]
fn schedules_of_trees_are_read_again() {
    let mesh = |sides: Value| {
        graph(&json!({"generate": {"kind": "mesh", "sides": sides, "bw": "10GB/s"}}))
    };
    let (text, _) = schedule_of(&mesh(json!([2, 2])), Collective::AllReduce, 0).unwrap();
    assert!(import::read(&text, "a.xml").is_ok());
    let error = schedule_of(&mesh(json!([3, 3])), Collective::AllReduce, 0).unwrap_err();
    assert!(error.what().contains("more than 2^21 chunks"), "{error}");
}

/// The rate that a cut allows, by its definition.
fn proven_by(graph: &Graph, collective: Collective, nodes: &[String]) -> Fraction {
    let is_in = |name: &str| nodes.iter().any(|node| node == name);
    let sums = |way: bool| {
        let crosses = |&((a, b), _): &(&(&str, &str), &Fraction)| {
            (is_in(a), is_in(b)) == if way { (true, false) } else { (false, true) }
        };
        let all = rates(graph);
        all.iter().filter(crosses).map(|(_, rate)| *rate).fold(0.into(), |a: Fraction, b| a + b)
    };
    let n = i128::from(graph.ranks);
    let inside = (0..graph.ranks).filter(|&rank| is_in(graph.name_of(rank))).count() as i128;
    assert!(inside > 0 && inside < n);
    match collective {
        Collective::AllGather => sums(true) * n / inside,
        Collective::ReduceScatter => sums(false) * n / inside,
        Collective::Broadcast if is_in("g0") => sums(true),
        Collective::Reduce if is_in("g0") => sums(false),
        other => panic!("no cut proves {other}"),
    }
}

/// Trees span, parts sum to one, and no link carries more than it can.
fn check_trees(graph: &Graph, found: &Optimum, what: &str) {
    let n = i128::from(graph.ranks);
    let mut parts: BTreeMap<String, Fraction> = BTreeMap::new();
    let mut loads: HashMap<(String, String), Fraction> = HashMap::new();
    let trees = found.trees.as_ref().expect(what);
    for tree in trees {
        let weight = fraction(&tree.weight);
        let (key, share) = match found.collective {
            Collective::AllReduce => (String::new(), weight),
            Collective::AllToAll => {
                let path = tree.path.as_ref().unwrap();
                (format!("{} {}", path[0], path[path.len() - 1]), weight / n)
            }
            Collective::AllGather | Collective::ReduceScatter => {
                (tree.root.clone().unwrap(), weight / n)
            }
            _ => (tree.root.clone().unwrap(), weight),
        };
        *parts.entry(key).or_insert(0.into()) += weight;
        let to_root = matches!(found.collective, Collective::ReduceScatter | Collective::Reduce);
        for (paths, up) in ways(tree, to_root) {
            if found.collective != Collective::AllToAll {
                spans(graph, tree.root.as_ref().unwrap(), &paths, up, what);
            }
            for ends in paths.iter().flat_map(|path| path.windows(2)) {
                *loads.entry((ends[0].clone(), ends[1].clone())).or_insert(0.into()) += share;
            }
        }
    }
    assert!(parts.values().all(|part| *part == 1.into()), "{what}: {parts:?}");
    let links = rates(graph);
    for ((a, b), load) in loads {
        let room = links[&(a.as_str(), b.as_str())];
        let carried = load * fraction(&found.rate);
        let over = *carried.numer() as f64
            / *carried.denom() as f64
            / (*room.numer() as f64 / *room.denom() as f64);
        assert!(over <= 1.0 + 1e-9, "{what}: {a} to {b} carries {over}");
    }
}

/// From 33 ranks on trees are found between nodes first, and within them by stars or, where all data enter
/// at one rank, by chains; beyond 256 ranks only so.
#[test]
fn trees_go_between_nodes_and_then_within_them() {
    let boxes = |boxes: u32| {
        json!({"kind": "boxes", "boxes": boxes, "gpus": 4, "nvswitch": "450GB/s", "nic": "50GB/s",
               "fabric": "rail"})
    };
    let dead = json!([{"between": ["g3", "rail3"], "times": 0}]);
    let switches: Vec<String> =
        (0..9).map(|node| format!("nv{node}")).chain(["ib".into()]).collect();
    let inside = (0..36)
        .map(|g| json!({"between": [format!("g{g}"), format!("nv{}", g / 4)], "bw": "120GB/s"}));
    let outside =
        (0..9).map(|b| json!({"between": [format!("g{}", 4 * b), "ib"], "bw": "100GB/s"}));
    let links: Vec<Value> = inside.chain(outside).collect();
    for fabric in [
        json!({"generate": boxes(9)}),
        json!({"generate": boxes(9), "faults": dead}),
        json!({"ranks": 36, "switches": switches, "links": links}),
    ] {
        let graph = graph(&fabric);
        for collective in [
            Collective::AllGather,
            Collective::ReduceScatter,
            Collective::Broadcast,
            Collective::AllReduce,
        ] {
            let found = best(&graph, collective, 1, true).unwrap();
            check_trees(&graph, &found, &format!("{} {collective}", graph.name));
        }
    }
    let large = graph(&json!({"generate": boxes(65), "faults": dead}));
    let found = best(&large, Collective::AllGather, 0, true).unwrap();
    assert_eq!(fraction(&found.rate), Fraction::new(150_000_000_000 * 260, 256));
    let of_first =
        found.trees.unwrap().into_iter().filter(|tree| tree.root.as_deref() == Some("g0"));
    assert_eq!(of_first.map(|tree| fraction(&tree.weight)).sum::<Fraction>(), 1.into());
    let ring = graph(&json!({"generate": {"kind": "ring", "ranks": 1500, "bw": "1GB/s"}}));
    let refused = best(&ring, Collective::AllGather, 0, true).err().unwrap().to_string();
    assert!(refused.contains("leave out --trees"), "{refused}");
}

/// Cables between ranks, the same number at each: drawn until no two join the same ranks.
fn random_regular(ranks: usize, cables: usize) -> Value {
    let mut state = 7_u64;
    let mut below = |end: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let mut ends: Vec<[usize; 2]> =
        (0..ranks).flat_map(|a| (1..=cables / 2).map(move |far| [a, (a + far) % ranks])).collect();
    let has = |ends: &[[usize; 2]], a, b| ends.contains(&[a, b]) || ends.contains(&[b, a]);
    for _ in 0..10 * ends.len() {
        let (i, j) = (below(ends.len()), below(ends.len()));
        let ([a, b], [c, d]) = (ends[i], ends[j]);
        if a != d && c != b && i != j && !has(&ends, a, d) && !has(&ends, c, b) {
            (ends[i], ends[j]) = ([a, d], [c, b]);
        }
    }
    let links: Vec<Value> = ends
        .iter()
        .map(|[a, b]| json!({"between": [format!("g{a}"), format!("g{b}")], "bw": "50GB/s"}))
        .collect();
    json!({"ranks": ranks, "links": links})
}

/// All links lead into ranks that get no more than they can: trees that reach the rate fill them.
#[test]
fn trees_of_any_graph_fill_the_links_that_limit_it() {
    let torus =
        |sides: Value| json!({"generate": {"kind": "torus", "sides": sides, "bw": "50GB/s"}});
    for fabric in [torus(json!([4, 4, 3])), random_regular(48, 4), random_regular(60, 6)] {
        let graph = graph(&fabric);
        let degree = i128::try_from(graph.links.len()).unwrap() / i128::from(graph.ranks);
        for collective in [Collective::AllGather, Collective::ReduceScatter] {
            let what = format!("{} {} ranks {collective}", graph.name, graph.ranks);
            let found = best(&graph, collective, 0, true).unwrap();
            let n = i128::from(graph.ranks);
            let wanted = Fraction::new(50_000_000_000 * degree * n, n - 1);
            assert_eq!(fraction(&found.rate), wanted, "{what}");
            check_trees(&graph, &found, &what);
            assert!(found.loads.iter().all(|load| (load - 1.0).abs() < 1e-9), "{what}");
        }
    }
    let large = graph(&torus(json!([17, 17])));
    let found = best(&large, Collective::AllGather, 0, true).unwrap();
    assert_eq!(fraction(&found.rate), Fraction::new(200_000_000_000 * 289, 288));
    assert!(found.loads.iter().all(|load| (load - 1.0).abs() < 1e-9));
    let trees = found.trees.unwrap();
    let parts = trees.iter().map(|tree| fraction(&tree.weight));
    assert_eq!(parts.sum::<Fraction>(), 289.into());
    for tree in trees.iter().step_by(40) {
        spans(&large, tree.root.as_ref().unwrap(), tree.edges.as_ref().unwrap(), false, "289");
    }
}

/// A flow that is near its bound after a few steps is not yet the best rate: 10.5 GB/s, by HiGHS.
#[test]
fn a_small_all_to_all_is_exact_where_a_flow_comes_close() {
    let links =
        [("g0", "g1", 7), ("g2", "g0", 5), ("g1", "g2", 9), ("g2", "g1", 5), ("g1", "g0", 8)];
    let links =
        links.map(|(from, to, rate)| json!({"from": from, "to": to, "bw": format!("{rate}GB/s")}));
    let graph = graph(&json!({"ranks": 3, "links": links}));
    let found = best(&graph, Collective::AllToAll, 0, false).unwrap();
    assert_eq!(fraction(&found.rate), Fraction::from_integer(10_500_000_000));
}

/// On a torus every message takes the fewest hops, and all links are alike: λ is their rate over the
/// sum of all distances. With a dead link lengths prove a bound, which a flow comes close to.
#[test]
fn all_to_alls_of_many_ranks_lie_between_bounds() {
    let torus = |sides: [u32; 3]| {
        let built = graph(&json!({"generate": {"kind": "torus", "sides": sides, "bw": "50GB/s"}}));
        let found = best(&built, Collective::AllToAll, 0, false).unwrap();
        assert_eq!((found.reached, found.proof), (None, ProofKind::Lengths));
        (built, found.rate)
    };
    // Small enough for a packing, which takes half a minute: both bounds meet at once.
    assert_eq!(torus([3, 3, 3]).1, "150000000000");
    let (built, rate) = torus([4, 4, 4]);
    assert_eq!(rate, "100000000000");
    let faulty = built.with_faults(&["link=g0-g1:0".parse().unwrap()]).unwrap();
    let found = best(&faulty, Collective::AllToAll, 0, false).unwrap();
    let rate = found.rate_per_second;
    assert_eq!(fraction(&found.rate), bound_of_all_to_all(&faulty, &found));
    let reached = found.reached.unwrap_or(rate);
    assert!(rate < 100e9 && reached <= rate && reached > 0.99 * rate, "{reached} {rate}");
    assert!(best(&faulty, Collective::AllToAll, 0, true).is_err());
    // Where every pair has its own ways, too.
    let random = graph(&random_regular(200, 4));
    let found = best(&random, Collective::AllToAll, 0, false).unwrap();
    assert_eq!(fraction(&found.rate), bound_of_all_to_all(&random, &found));
    let reached = found.reached.unwrap();
    assert!(reached <= found.rate_per_second && reached > 0.99 * found.rate_per_second);
    // A rank's own link, which an all-gather fills too, proves more than a flow's lengths; and all alike are 1.
    let dragonfly = json!({"generate": {"kind": "dragonfly", "groups": 9, "routers": 4, "hosts": 2,
        "global": 2, "bw": "1GB/s", "local_bw": "1GB/s", "global_bw": "1GB/s"}});
    let dragonfly = graph(&dragonfly);
    let found = best(&dragonfly, Collective::AllToAll, 0, false).unwrap();
    assert_eq!(fraction(&found.rate), Fraction::new(72_000_000_000, 71));
    assert_eq!(fraction(&found.rate), bound_of_all_to_all(&dragonfly, &found));
    let ring = graph(&json!({"generate": {"kind": "ring", "ranks": 8, "bw": "1GB/s"}}));
    let lengths = best(&ring, Collective::AllToAll, 0, false).unwrap().lengths.unwrap();
    assert!(lengths.iter().all(|(_, _, length)| length == "1"), "{lengths:?}");
}

/// Hosts that one cable joins to a leaf start there together: all links carry what they would one by one.
#[test]
fn all_to_alls_of_hosts_that_are_alike_lie_between_bounds() {
    let leaves = json!({"generate": {"kind": "leaf-spine", "leaves": 6, "hosts": 30, "spines": 4, "bw": "1GB/s"}});
    let built = graph(&leaves);
    let found = best(&built, Collective::AllToAll, 0, false).unwrap();
    assert_eq!((found.proof, found.reached), (ProofKind::Lengths, None));
    assert_eq!(fraction(&found.rate), Fraction::new(180_000_000_000, 179));
    assert_eq!(fraction(&found.rate), bound_of_all_to_all(&built, &found));
    // A slow uplink, and slow hosts.
    let faults = ["link=leaf0-spine0:0.5", "link=g7-leaf0:0.5", "link=g0-leaf0:0.5"];
    let faults = faults.map(|fault| fault.parse().unwrap());
    for count in 1..=faults.len() {
        let faulty = built.with_faults(&faults[..count]).unwrap();
        let found = best(&faulty, Collective::AllToAll, 0, false).unwrap();
        let rate = found.rate_per_second;
        assert_eq!(fraction(&found.rate), bound_of_all_to_all(&faulty, &found));
        let reached = found.reached.unwrap_or(rate);
        assert!(reached <= rate && reached > 0.99 * rate, "{reached} {rate}");
    }
    let slow = built.with_faults(&faults[1..2]).unwrap();
    let found = best(&slow, Collective::AllToAll, 0, false).unwrap();
    assert_eq!(fraction(&found.rate), Fraction::new(90_000_000_000, 179));
}

/// What lengths prove, by Bellman and Ford.
fn bound_of_all_to_all(graph: &Graph, found: &Optimum) -> Fraction {
    let lengths: HashMap<(&str, &str), i128> = (found.lengths.iter().flatten())
        .map(|(a, b, length)| ((a.as_str(), b.as_str()), length.parse().unwrap()))
        .collect();
    let of = |link: &Link| lengths.get(&(graph.name_of(link.from), graph.name_of(link.to)));
    let links: Vec<(Link, i128)> =
        graph.links.iter().map(|link| (*link, *of(link).unwrap_or(&0))).collect();
    let mut distances = 0;
    for rank in 0..graph.ranks {
        let mut far = vec![i128::MAX / 2; graph.nodes.len()];
        far[rank as usize] = 0;
        let mut is_moving = true;
        while std::mem::take(&mut is_moving) {
            for (link, length) in &links {
                let next = far[link.from as usize] + length;
                if next < far[link.to as usize] {
                    far[link.to as usize] = next;
                    is_moving = true;
                }
            }
        }
        distances += far[..graph.ranks as usize].iter().sum::<i128>();
    }
    let all =
        links.iter().fold(Fraction::from(0), |all, (link, length)| all + link.rate.0 * *length);
    all * i128::from(graph.ranks) / distances
}

/// 359,400 links, all alike: each rank gets what enters it.
#[test]
fn a_full_mesh_of_many_ranks_has_a_rate() {
    let mesh = graph(&json!({"generate": {"kind": "full", "ranks": 600, "bw": "1GB/s"}}));
    let found = best(&mesh, Collective::AllGather, 0, false).unwrap();
    assert_eq!(found.rate, "600000000000");
}

fn ways(tree: &TreeView, to_root: bool) -> Vec<(Vec<Vec<String>>, bool)> {
    let mut ways = Vec::new();
    ways.extend(tree.up.clone().map(|paths| (paths, true)));
    ways.extend(tree.down.clone().map(|paths| (paths, false)));
    ways.extend(tree.edges.clone().map(|paths| (paths, to_root)));
    ways.extend(tree.path.clone().map(|path| (vec![path], false)));
    ways
}

fn spans(graph: &Graph, root: &str, paths: &[Vec<String>], up: bool, what: &str) {
    let mut above: HashMap<&str, &str> = HashMap::new();
    for path in paths {
        let (a, b) = (path[0].as_str(), path[path.len() - 1].as_str());
        let (near, far) = if up { (b, a) } else { (a, b) };
        assert!(above.insert(far, near).is_none() && far != root, "{what}: {far} twice");
    }
    assert_eq!(above.len() as u32, graph.ranks - 1, "{what}");
    for rank in above.keys() {
        let mut at = *rank;
        for _ in 0..graph.ranks {
            at = above.get(at).copied().unwrap_or(root);
        }
        assert_eq!(at, root, "{what}: {rank}");
    }
}

#[test]
fn makespans_are_simgrids() {
    for row in rows("makespans") {
        let jobs = json!({"jobs": row["jobs"]}).to_string();
        let jobs = traffic::parse(&jobs, "jobs.json").unwrap();
        let times = traffic::simulate(&graph(&row["fabric"]), &jobs).unwrap();
        let wanted = row["truth"]["makespan"].as_f64().unwrap();
        let near = |a: f64, b: &Value| (a - b.as_f64().unwrap()).abs() <= 1e-9 * wanted;
        assert!(near(times.makespan.0, &row["truth"]["makespan"]), "{}", row["id"]);
        for job in &times.jobs {
            let truth = &row["truth"]["jobs"][&job.name];
            assert!(near(job.start.0, &truth["start"]), "{} {}", row["id"], job.name);
            assert!(near(job.finish.0, &truth["finish"]), "{} {}", row["id"], job.name);
        }
    }
}

#[test]
fn jobs_that_cannot_run_are_refused() {
    let ring = |more: Value| {
        let mut job = json!({"name": "a", "collective": "allreduce", "algorithm": "ring",
                             "size": "1MiB", "ranks": [0, 1]});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    let cases = [
        (json!([ring(json!({"ranks": [0, 1, 0]}))]), "rank 0 is listed twice"),
        (json!([ring(json!({"ranks": [0, 9]}))]), "there is no rank 9"),
        (json!([ring(json!({"ranks": [0]}))]), "at least two ranks"),
        (json!([ring(json!({})), ring(json!({}))]), "two jobs are named `a`"),
        (json!([ring(json!({"after": ["b"]}))]), "`b` is not an earlier job"),
        (json!([ring(json!({"messages": []}))]), "either messages or a collective"),
        (json!([{"name": "a"}]), "either messages or a collective"),
    ];
    let fabric = json!({"generate": {"kind": "ring", "ranks": 4, "bw": "50GB/s"}});
    for (jobs, wanted) in cases {
        let parsed = traffic::parse(&json!({"jobs": jobs}).to_string(), "jobs.json");
        let refused = parsed.and_then(|jobs| traffic::simulate(&graph(&fabric), &jobs));
        let error = refused.err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|e| e.contains(wanted)), "{wanted}: {error:?}");
    }
}

/// For each point of the table one as good, and none below what cuts allow. Points are better
/// where the table's limit of six chunks stood in the way.
#[test]
fn frontiers_are_no_worse_than_the_tables() {
    for row in rows("pareto").iter().step_by(one_in(3)) {
        let what = format!("{} {}", row["name"], row["collective"]);
        let graph = graph(&row["fabric"]);
        let collective: Collective = row["collective"].as_str().unwrap().parse().unwrap();
        let unit = row["unit"].as_str().unwrap().parse().unwrap();
        let found = best(&graph, collective, 0, false).unwrap();
        let found = found.with_frontier(&graph, 0, Some(unit)).unwrap();
        assert_eq!(found.frontier_low.as_deref(), row["low"].as_str(), "{what}");
        let points = found.frontier.unwrap();
        for wanted in row["points"].as_array().unwrap() {
            let cost = fraction(wanted["rounds_per_chunk"].as_str().unwrap());
            let is_met = points.iter().any(|point| {
                u64::from(point.steps) <= wanted["steps"].as_u64().unwrap()
                    && Fraction::new(point.rounds, point.chunks) <= cost
            });
            assert!(is_met, "{what}: {wanted} {points:?}");
        }
    }
}

/// Rates that others published or computed; docs/background/fabrics.md says who.
#[test]
fn published_rates_are_reproduced() {
    let boxes = |boxes: u32| {
        json!({"kind": "boxes", "boxes": boxes, "gpus": 8, "nvswitch": "300GB/s",
               "nic": "25GB/s", "fabric": "parity"})
    };
    for (generate, wanted) in [
        (boxes(2), 346.667),
        (boxes(4), 266.667),
        (json!({"kind": "mi250", "boxes": 1, "gcds": 16}), 342.857),
        (json!({"kind": "mi250", "boxes": 2, "gcds": 16}), 354.133),
        (json!({"kind": "dgx-1v"}), 171.429),
        (json!({"kind": "fat-tree", "k": 4, "bw": "50GB/s"}), 53.333),
    ] {
        let graph = graph(&json!({"generate": generate}));
        let found = best(&graph, Collective::AllGather, 0, false).unwrap();
        let rate = found.rate_per_second / 1e9;
        assert!((rate - wanted).abs() < 5e-4, "{generate}: {rate}, not {wanted}");
    }
}

#[test]
fn faults_are_the_same_in_a_file_and_as_a_flag() {
    let generate =
        json!({"kind": "leaf-spine", "leaves": 2, "hosts": 2, "spines": 2, "bw": "50GB/s"});
    let built = graph(&json!({"generate": generate}));
    for (flag, fault) in [
        ("link=g0-leaf0:0.5", json!({"between": ["g0", "leaf0"], "times": 0.5})),
        ("link=leaf0>spine1:0", json!({"from": "leaf0", "to": "spine1", "times": 0})),
        ("node=spine0:0", json!({"node": "spine0", "times": 0})),
        ("node=spine*:2", json!({"node": "spine*", "times": 2})),
    ] {
        let by_file = graph(&json!({"generate": generate, "faults": [fault]}));
        let by_flag = built.with_faults(&[flag.parse().unwrap()]).unwrap();
        assert_eq!(by_file.links, by_flag.links, "{flag}");
        assert_ne!(by_flag.links, built.links, "{flag}");
    }
    let boxes = json!({"kind": "boxes", "boxes": 2, "gpus": 2, "nvswitch": "300GB/s", "nic": "25GB/s",
                       "fabric": "one"});
    let boxes = graph(&json!({"generate": boxes}));
    let without = boxes.with_faults(&["nic=g1:0".parse().unwrap()]).unwrap();
    assert_eq!(boxes.links.len() - without.links.len(), 2);
    for wrong in
        ["link=g0", "link=g0-g9:0", "link=g0-g3:0", "nic=ib:0", "node=x*:0", "g0:0", "node=ib:0"]
    {
        let fault: Result<Fault, _> = wrong.parse();
        assert!(fault.and_then(|fault| boxes.with_faults(&[fault])).is_err(), "{wrong}");
    }
}

/// The best is no slower than what libraries run, and slower with a slow link.
#[test]
fn what_if_compares_the_best_with_what_runs() {
    let generate = json!({"kind": "boxes", "boxes": 2, "gpus": 4, "nvswitch": "300GB/s", "nic": "25GB/s",
                          "fabric": "rail"});
    let built = graph(&json!({"generate": generate}));
    let faults = [("nic=g1:0".to_owned(), "nic=g1:0".parse().unwrap())];
    let size = Bytes(256 << 20);
    let found = what_if(&built, &faults, (Collective::AllReduce, 0), size, None).unwrap();
    assert!(found.least_s > found.built_least_s, "{found:?}");
    let names: Vec<&str> = found.runs.iter().map(|run| run.name).collect();
    assert!(names.contains(&"Ring") && names.contains(&"Tree"), "{names:?}");
    for run in &found.runs {
        assert!(run.built_s.unwrap() >= found.built_least_s, "{run:?}");
        assert!(run.time_s.unwrap() >= found.least_s, "{run:?}");
    }
}

/// The best rate takes any way; a library's messages take that of the routing, which may be dead.
#[test]
fn what_has_no_way_by_dimension_order_has_no_time() {
    let torus = graph(&json!({"generate": {"kind": "torus", "sides": [4, 4], "bw": "10GB/s"},
                              "routing": "dimension-order"}));
    let faults = [("link=g0-g1:0".to_owned(), "link=g0-g1:0".parse().unwrap())];
    let found = what_if(&torus, &faults, (Collective::AllGather, 0), Bytes(1 << 20), None).unwrap();
    assert!(found.least_s > 0.0 && !found.runs.is_empty(), "{found:?}");
    for run in &found.runs {
        assert!(run.built_s.is_some() && run.time_s.is_none(), "{run:?}");
    }
}

#[test]
fn nccls_topologies_are_fabrics() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nccl_topologies/two-sockets.xml");
    let text = std::fs::read_to_string(file).unwrap();
    let described = topology_file::read(&text, "two-sockets.xml").unwrap();
    let graph = nccl::fabric(&described).unwrap();
    assert_eq!(graph.ranks as usize, text.matches("<gpu ").count());
    let found = best(&graph, Collective::AllGather, 0, false).unwrap();
    assert!(found.rate_per_second > 1e9, "{found:?}");
}

#[test]
fn goal_is_played_on_a_fabric() {
    let text =
        "ranks = 2\n[[links]]\nbetween = [\"g0\", \"g1\"]\nbw = \"1GB/s\"\nlatency = \"1us\"";
    let graph = Graph::parse(text, "f").unwrap();
    // Computes 1 ms, sends 1 MB in 1 ms behind 1 µs, and gets it back; what requires the send's
    // begin, not its bytes, runs beside.
    let goal = "num_ranks 2\nrank 0 {\na: calc 1000000\nb: send 1000000b to 1 tag 5\nb requires a\n\
                c: recv 1000000b from 1 tag 6\nd: calc 500000\nd irequires b\n}\n\
                rank 1 {\na: recv 1000000b from 0 tag 5\nb: send 1000000b to 0 tag 6\nb requires a\n}";
    let bare = collcost::exchange::import::bare(goal, "g").unwrap().unwrap();
    let jobs = traffic::Jobs::of("g", bare.operations, bare.messages.unwrap());
    let times = traffic::simulate(&graph, &jobs).unwrap();
    assert!((times.makespan.0 - 3.002e-3).abs() < 1e-12, "{times:?}");
    assert_eq!(times.messages, 2);
}

#[test]
fn what_is_wrong_in_a_fabric_file_is_said() {
    let refused = |text: &str| Graph::parse(text, "f.toml").unwrap_err().to_string();
    let two = "ranks = 2\n[[links]]\nbetween = [\"g0\", \"g1\"]\n";
    assert!(Graph::parse(&format!("{two}bw = \"1GB/s\""), "f").is_ok());
    for (text, says) in [
        (format!("{two}bw = \"0GB/s\""), "above 0"),
        (format!("{two}bandwidth = \"1GB/s\""), "bandwidth"),
        ("ranks = 2\n[[links]]\nfrom = \"g0\"\nto = \"g1\"\nbw = 1e9".to_owned(), "cannot reach"),
        ("ranks = [\"a\", \"a\"]".to_owned(), "two nodes are called `a`"),
        ("ranks = 2\n[[links]]\nbetween = [\"g0\", \"g2\"]\nbw = 1".to_owned(), "no node `g2`"),
        ("ranks = 2\n[[links]]\nbetween = [\"g0\", \"g0\"]\nbw = 1".to_owned(), "to itself"),
        ("[generate]\nkind = \"fat-tree\"\nk = 3\nbw = \"1GB/s\"".to_owned(), "k is even"),
        ("[generate]\nkind = \"blob\"".to_owned(), "blob"),
    ] {
        assert!(refused(&text).contains(says), "{text}: {}", refused(&text));
    }
}
