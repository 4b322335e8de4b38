//! The ways of messages, held to times worked out by hand.

use collcost::cost::traffic::{self, Times};
use collcost::machine::graph::Graph;
use serde_json::{Value, json};

fn graph(fabric: &Value) -> Graph {
    Graph::parse(&fabric.to_string(), "folder/fabric.json").unwrap()
}

/// Messages of `bytes` from and to the given ranks, all at once.
fn times(fabric: &Value, bytes: f64, pairs: impl Iterator<Item = (u32, u32)>) -> Times {
    let message = |(from, to): (u32, u32)| json!({"from": format!("g{from}"), "to": format!("g{to}"), "bytes": bytes});
    let messages: Vec<Value> = pairs.map(message).collect();
    let jobs = json!({"jobs": [{"name": "all", "messages": messages}]}).to_string();
    traffic::simulate(&graph(fabric), &traffic::parse(&jobs, "jobs.json").unwrap()).unwrap()
}

fn is_near(time: f64, wanted: f64, what: &str) {
    // Generated links have latencies: microseconds beside minutes.
    assert!((time / wanted - 1.0).abs() < 1e-6, "{what}: {time}, not {wanted}");
}

/// Nine groups of four routers with two hosts and two links to other groups each. If all hosts send
/// to the next group, minimal routes put eight messages on one link. Valiant's put a seventh of each
/// on each link that leaves the group but that one, and as much of others passes these links.
#[test]
fn a_dragonfly_with_all_traffic_to_the_next_group() {
    const HOSTS: u32 = 8;
    const GROUPS: u32 = 9;
    let fabric = |routing: &str| {
        json!({"routing": routing, "generate": {"kind": "dragonfly", "groups": GROUPS, "routers": 4,
               "hosts": 2, "global": 2, "bw": "100GB/s", "local_bw": "100GB/s",
               "global_bw": "1GB/s"}})
    };
    let ranks = HOSTS * GROUPS;
    let next = || (0..ranks).map(|rank| (rank, (rank + HOSTS) % ranks));
    // To all other groups alike: one message of a 64th to each of their 64 hosts.
    let others = || {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from / HOSTS != to / HOSTS)
    };
    let second = |routing, wanted: f64, of_uniform: f64| {
        let time = times(&fabric(routing), 64e9, next()).makespan.0;
        is_near(time, 64.0 * wanted, &format!("{routing}, next group"));
        let time = times(&fabric(routing), 1e9, others()).makespan.0;
        is_near(time, 64.0 * of_uniform, &format!("{routing}, uniform"));
    };
    second("minimal", 8.0, 1.0);
    second("valiant", 16.0 / 7.0, 2.0);
    // Inside a group packets leave it under neither: a local link has all its rate for one message.
    for routing in ["minimal", "valiant"] {
        is_near(times(&fabric(routing), 1e12, [(0, 2)].into_iter()).makespan.0, 10.0, routing);
    }
}

/// Tornado traffic on a ring of k: all ranks send the same way, just less than half round. Valiant's
/// packets travel 2 x 1 links each way in the mean on a ring of 8 (0 to 3 either way, 4 both ways by
/// halves) and 2 x 3/5 on one of 5, whatever the traffic.
#[test]
fn tornado_traffic_on_a_ring() {
    let fabric = |routing: &str, k: u32| json!({"routing": routing, "generate": {"kind": "torus", "sides": [k], "bw": "1GB/s"}});
    for (k, shift, minimal, valiant) in [(8, 3, 3.0, 2.0), (5, 2, 2.0, 1.2)] {
        for (routing, wanted) in [
            ("shortest", minimal),
            ("dimension-order", minimal),
            ("minimal", minimal),
            ("valiant", valiant),
        ] {
            let pairs = (0..k).map(|rank| (rank, (rank + shift) % k));
            let time = times(&fabric(routing, k), 100e9, pairs).makespan.0;
            is_near(time, 100.0 * wanted, &format!("{routing} on {k}"));
        }
    }
    // An eighth to each other rank: distances 1, 2, 3 one way and half of 4.
    for (routing, wanted) in [("minimal", 1.0), ("valiant", 2.0 * 7.0 / 8.0)] {
        let pairs = (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let time = times(&fabric(routing, 8), 100e9, pairs).makespan.0;
        is_near(time, 800.0 * wanted, &format!("{routing}, uniform"));
    }
}

/// Whole pods to the pod two further: with the first of all paths four messages share one link; over
/// all paths each message has all of its own link's rate.
#[test]
fn a_fat_tree_without_contention() {
    let generate = json!({"kind": "fat-tree", "k": 4, "bw": "1GB/s"});
    for (routing, wanted) in [("shortest", 4.0), ("minimal", 1.0)] {
        let fabric = json!({"routing": routing, "generate": generate});
        let pairs = (0..16).map(|rank| (rank, (rank + 8) % 16));
        is_near(times(&fabric, 100e9, pairs).makespan.0, 100.0 * wanted, routing);
    }
}

/// Two switches beside each other, one further away; g2 sends over one of them only.
#[test]
fn packets_take_equal_shares_of_all_shortest_paths() {
    let cable = |a: &str, b: &str, bw: &str, latency: &str| json!({"between": [a, b], "bw": bw, "latency": latency});
    let fabric = |routing: &str, bw: &str| {
        json!({"ranks": 4, "switches": ["a", "b", "s0", "s1"], "routing": routing, "links": [
            cable("g0", "a", "100GB/s", "1us"), cable("a", "s0", "100GB/s", "1us"),
            cable("a", "s1", "100GB/s", "1us"), cable("s0", "b", "10GB/s", "1us"),
            cable("s1", "b", bw, "6us"), cable("b", "g1", "100GB/s", "1us"),
            cable("g2", "s0", "100GB/s", "1us"), cable("b", "g3", "100GB/s", "1us")]})
    };
    let one = || [(0, 1)].into_iter();
    let exactly =
        |time: f64, wanted: f64| assert!((time - wanted).abs() < 1e-12, "{time} {wanted}");
    exactly(times(&fabric("shortest", "10GB/s"), 1e6, one()).makespan.0, 104e-6);
    // Half over each, and the last packet comes over the longer way.
    exactly(times(&fabric("minimal", "10GB/s"), 1e6, one()).makespan.0, 59e-6);
    // Packets do not know that one way is slower.
    exactly(times(&fabric("minimal", "2GB/s"), 1e6, one()).makespan.0, 259e-6);
    // Half a message and a whole one share a link: each moves at two thirds of its rate.
    let both = times(&fabric("minimal", "10GB/s"), 100e9, [(0, 1), (2, 3)].into_iter());
    is_near(both.makespan.0, 15.0, "shared");
    let built = graph(&fabric("minimal", "10GB/s"));
    let carried = |from: &str, to: &str| {
        let is = |l: &collcost::machine::graph::Link| {
            built.name_of(l.from) == from && built.name_of(l.to) == to
        };
        both.carried[built.links.iter().position(is).unwrap()]
    };
    assert_eq!(
        ["a", "s1", "s0"].map(|a| carried(a, if a == "a" { "s1" } else { "b" })),
        [50e9, 50e9, 150e9]
    );
}

/// The fewest links lead over two links between groups, minimal routes over one.
#[test]
fn minimal_routes_leave_a_group_once() {
    let cable = |a: &str, b: &str, bw: &str| json!({"between": [a, b], "bw": bw, "latency": "1us"});
    let fabric = |routing: &str, groups: Value| {
        let mut file = json!({"ranks": ["x", "y", "z"], "switches": ["a0", "a1", "b0", "b1", "c0"],
               "routing": routing, "links": [
            cable("x", "a0", "100GB/s"), cable("y", "b1", "100GB/s"), cable("z", "c0", "100GB/s"),
            cable("a0", "a1", "100GB/s"), cable("b0", "b1", "100GB/s"), cable("a1", "b0", "10GB/s"),
            cable("a0", "c0", "5GB/s"), cable("c0", "b1", "5GB/s")]});
        if !groups.is_null() {
            file["groups"] = groups;
        }
        file
    };
    let groups = json!([["a0", "a1"], ["b0", "b1"], ["c0"]]);
    let jobs =
        json!({"jobs": [{"name": "j", "messages": [{"from": "x", "to": "y", "bytes": 1e6}]}]});
    let jobs = traffic::parse(&jobs.to_string(), "jobs.json").unwrap();
    for (routing, groups, micros) in [
        ("shortest", Value::Null, 4.0 + 200.0),
        ("minimal", Value::Null, 4.0 + 200.0),
        ("minimal", groups.clone(), 5.0 + 100.0),
        // The only other group is c.
        ("valiant", groups.clone(), 4.0 + 200.0),
        // With two groups there is no other.
        ("valiant", json!([["a0", "a1"], ["b0", "b1", "c0"]]), 4.0 + 200.0),
        ("valiant", json!([["a0", "a1", "c0"], ["b0", "b1"]]), 4.0 + 200.0),
    ] {
        let time = traffic::simulate(&graph(&fabric(routing, groups)), &jobs).unwrap().makespan.0;
        assert!((time - micros * 1e-6).abs() < 1e-12, "{routing}: {time}, not {micros} us");
    }
    for (routing, wrong, wanted) in [
        ("ecmp", Value::Null, "`ecmp` is not a routing"),
        ("shortest", groups, "routing shortest does not use `groups`"),
        ("minimal", json!([["a0"], ["a9"]]), "there is no node `a9`"),
        ("valiant", json!([["a0", "a1"], ["a1"]]), "`a1` is listed twice"),
        ("valiant", json!([["a0", "a1"]]), "fewer than two groups"),
    ] {
        let refused = Graph::parse(&fabric(routing, wrong).to_string(), "f.json").unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(wanted) && text.contains("f.json"), "{wanted}: {text}");
    }
}

/// On a star there is one switch, on two joined stars there are two: packets that go to the other
/// star first come back.
#[test]
fn valiants_places_are_the_switches_of_ranks() {
    let fabric = json!({"ranks": 4, "switches": ["l", "r"], "routing": "valiant", "links": [
        {"between": ["g0", "l"], "bw": "10GB/s"}, {"between": ["g1", "l"], "bw": "10GB/s"},
        {"between": ["g2", "r"], "bw": "10GB/s"}, {"between": ["g3", "r"], "bw": "10GB/s"},
        {"between": ["l", "r"], "bw": "1GB/s"}]});
    // Half of g0's message to g1 goes over the slow cable and back.
    let both = times(&fabric, 1e9, [(0, 1)].into_iter());
    assert!((both.makespan.0 - 0.5).abs() < 1e-12, "{both:?}");
    // To the other star all of it crosses once, whichever switch it visits.
    assert!((times(&fabric, 1e9, [(0, 2)].into_iter()).makespan.0 - 1.0).abs() < 1e-12);
}

#[test]
fn a_fabric_without_a_name_is_called_as_its_file() {
    let fabric = json!({"ranks": 2, "links": [{"between": ["g0", "g1"], "bw": "1GB/s"}]});
    assert_eq!(graph(&fabric).name, "fabric");
    let named = json!({"name": "n", "ranks": 2, "links": fabric["links"]});
    assert_eq!(graph(&named).name, "n");
}
