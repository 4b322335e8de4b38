//! Chakra traces as timing, beside times worked out by hand and beside the same jobs in JSON.

use collcost::base::quantity::{Bandwidth, Seconds};
use collcost::cost::simulate::arrival::{Overheads, arrive};
use collcost::cost::traffic::{self, Jobs, simulate};
use collcost::exchange::import::{self, Bare};
use collcost::machine::fabric::Fabric;
use collcost::machine::graph::Graph;

/// A number of protobuf: 7 bits a byte, the lowest first.
fn number(mut x: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while x >= 0x80 {
        bytes.push(x as u8 | 0x80);
        x >>= 7;
    }
    bytes.push(x as u8);
    bytes
}

fn whole(field: u64, x: u64) -> Vec<u8> {
    [number(field << 3), number(x)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [number(field << 3 | 2), number(content.len() as u64), content.to_vec()].concat()
}

const COMPUTES: u64 = 4;
const SENDS: u64 = 5;
const RECEIVES: u64 = 6;
const CALLS: u64 = 7;

const ALL_REDUCE: u64 = 0;
const ALL_GATHER: u64 = 2;

/// A node with the nodes that it waits for, its duration, and attributes of type int64.
fn node(id: u64, kind: u64, after: &[u64], micros: u64, attributes: &[(&str, u64)]) -> Vec<u8> {
    let mut node = [whole(1, id), bytes(2, b"a name"), whole(3, kind)].concat();
    let packed: Vec<u8> = after.iter().flat_map(|&id| number(id)).collect();
    node.extend(bytes(5, &packed));
    node.extend(whole(7, micros));
    for &(name, value) in attributes {
        node.extend(bytes(10, &[bytes(1, name.as_bytes()), whole(9, value)].concat()));
    }
    node
}

/// A call of a named group.
fn call(id: u64, after: &[u64], kind: u64, size: u64, group: &str) -> Vec<u8> {
    let attributes = [("comm_type", kind), ("comm_size", size)];
    let name = [bytes(1, b"pg_name"), bytes(29, group.as_bytes())].concat();
    [node(id, CALLS, after, 0, &attributes), bytes(10, &name)].concat()
}

/// A file: its metadata, then the nodes, each after its length.
fn file(nodes: &[Vec<u8>]) -> Vec<u8> {
    let metadata = bytes(1, b"0.0.4");
    let all = std::iter::once(&metadata).chain(nodes);
    all.flat_map(|message| [number(message.len() as u64), message.clone()].concat()).collect()
}

fn trace(files: &[Vec<u8>], algorithm: Option<&str>) -> Result<Bare, String> {
    let named =
        files.iter().enumerate().map(|(rank, file)| Ok((format!("t.{rank}.et"), file.clone())));
    import::chakra(named, algorithm).map_err(|e| e.to_string())
}

/// Ranks that are joined each to each by cables of 1 GB/s; a message waits 2 µs, of which 0.5 are
/// the cable's.
fn full(ranks: u32) -> Graph {
    let text = format!(
        "alpha = \"1.5us\"\n[generate]\nkind = \"full\"\nranks = {ranks}\nbw = \"1GB/s\"\n"
    );
    Graph::parse(&text, "f").unwrap()
}

fn on_fabric(ranks: u32, files: &[Vec<u8>], algorithm: Option<&str>) -> f64 {
    let Bare { operations, messages, .. } = trace(files, algorithm).unwrap();
    let jobs = Jobs::of("t", operations, messages.unwrap());
    simulate(&full(ranks), &jobs).unwrap().makespan.0 * 1e6
}

/// Rank 0 computes 100 µs, sends 1 MB and calls an all-reduce of 1 MB; rank 1 receives, computes
/// 50 µs and calls it too.
fn two() -> [Vec<u8>; 2] {
    two_after(COMPUTES)
}

fn two_after(first: u64) -> [Vec<u8>; 2] {
    let tag = ("comm_tag", 5);
    let size = ("comm_size", 1_000_000);
    let reduce = |id, after: &[u64]| node(id, CALLS, after, 0, &[("comm_type", ALL_REDUCE), size]);
    [
        file(&[
            node(1, first, &[], 100, &[("num_ops", 7)]),
            node(2, SENDS, &[1], 0, &[("comm_dst", 1), tag, size]),
            reduce(3, &[2]),
        ]),
        file(&[
            node(1, RECEIVES, &[], 0, &[("comm_src", 0), tag, size]),
            node(2, COMPUTES, &[1], 50, &[("is_cpu_op", 0)]),
            reduce(3, &[2]),
        ]),
    ]
}

/// Types 8 to 10 of et_def.proto: storage, batch, checkpoint.
#[test]
fn what_storage_does_takes_its_time() {
    for kind in 8..=10 {
        assert_eq!(on_fabric(2, &two_after(kind), None), on_fabric(2, &two(), None), "{kind}");
    }
}

#[test]
fn a_trace_takes_the_time_worked_out_by_hand() {
    // Rank 0's message and its half of the vector move from 102 µs on and share the link: the half
    // ends at 1102 and the message at 1602. Rank 1 computes until 1652; its half moves from 1654 to
    // 2154. Then each sends the other half back, from 2156 to 2656: rank 1 only after its first
    // message, as the messages of a pair take turns.
    let took = on_fabric(2, &two(), None);
    assert!((took - 2656.0).abs() < 1e-6, "{took}");
}

#[test]
fn on_flat_rates_a_nic_sends_one_message_after_another() {
    // α is 2 µs and 1 GB/s is 1 ns a byte; a message that enters a rank holds its processor for
    // messages, as in LogGOPSim. Rank 0's message enters rank 1 from 102 to 1102, and its half from
    // there to 1602. So rank 1 sends its half at 1602, which enters rank 0 from 1604 to 2104, and
    // the other, which is behind it, to 2604. Only then rank 0 sends its second: there at 3106.
    let bare = trace(&two(), None).unwrap();
    let fabric = Fabric::flat(Seconds(2e-6), Bandwidth(1e9));
    let arrived = arrive(&bare.operations, &fabric, Overheads::default(), &[]).unwrap();
    let took = arrived.makespan.0 * 1e6;
    assert!((took - 3106.0).abs() < 0.01, "{took}");
}

#[test]
fn a_collective_alone_takes_as_long_as_the_job_in_json() {
    for (kind, name, times) in [(ALL_REDUCE, "allreduce", 1), (ALL_GATHER, "allgather", 4)] {
        for algorithm in ["ring", "recursive-doubling", "bruck"] {
            let size = 4_000_000_u64;
            let files: Vec<Vec<u8>> =
                (0..4).map(|_| file(&[call(9, &[], kind, size, "g")])).collect();
            let jobs = format!(
                r#"{{"jobs": [{{"name": "j", "collective": "{name}", "algorithm": "{algorithm}", "size": {}}}]}}"#,
                size * times
            );
            let Ok(truth) = simulate(&full(4), &traffic::parse(&jobs, "j").unwrap()) else {
                continue;
            };
            let truth = truth.makespan.0 * 1e6;
            let took = on_fabric(4, &files, Some(algorithm));
            assert!((took - truth).abs() < 1e-6, "{name} {algorithm}: {took} {truth}");
        }
    }
}

#[test]
fn a_group_is_who_calls_it() {
    // Two pairs at once, without a link in common, then nothing: each takes as long as alone.
    let files: Vec<Vec<u8>> = ["a", "b", "a", "b"]
        .iter()
        .map(|group| file(&[call(1, &[], ALL_REDUCE, 1_000_000, group)]))
        .collect();
    let took = on_fabric(4, &files, None);
    assert!((took - 1004.0).abs() < 1e-6, "{took}");
}

#[test]
fn what_is_wrong_in_a_trace_is_refused_with_its_node() {
    let size = ("comm_size", 8);
    let send = |tag| node(4, SENDS, &[], 0, &[("comm_dst", 1), ("comm_tag", tag), size]);
    let receive = node(7, RECEIVES, &[], 0, &[("comm_src", 0), ("comm_tag", 1), size]);
    let empty = || file(&[node(1, 1, &[], 0, &[])]);
    let reduce = |bytes| node(1, CALLS, &[], 0, &[("comm_type", 0), ("comm_size", bytes)]);
    let cases: Vec<(Vec<Vec<u8>>, &str)> = vec![
        (vec![b"{\"schema\"".to_vec()], "not a Chakra trace"),
        (vec![file(&[])], "no nodes"),
        (vec![empty()[..empty().len() - 1].to_vec()], "end within a value"),
        (vec![file(&[node(1, 11, &[], 0, &[])])], "11 is not a type of node"),
        (vec![file(&[node(1, COMPUTES, &[], 0, &[("num_ops", 5)])])], "duration_micros"),
        (vec![file(&[node(3, COMPUTES, &[8], 0, &[])])], "waits for node 8"),
        (vec![file(&[node(3, COMPUTES, &[3], 0, &[])])], "waits for itself"),
        (
            vec![file(&[node(3, COMPUTES, &[4], 0, &[]), node(4, COMPUTES, &[3], 0, &[])])],
            "2 nodes wait for each other",
        ),
        (vec![file(&[send(1)]), empty()], "does not receive it"),
        (vec![file(&[send(2)]), file(std::slice::from_ref(&receive))], "does not receive it"),
        (vec![empty(), file(&[receive])], "does not send it"),
        (vec![file(&[send(1)])], "sends to or receives from rank 1"),
        (vec![file(&[reduce(8)]), file(&[reduce(16)])], "16 B of all-reduce"),
        (vec![file(&[reduce(8)]), empty()], "rank 0 calls 1 collectives and rank 1 0"),
    ];
    for (files, what) in cases {
        let error = trace(&files, None).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
    }
    let error = trace(&two(), Some("pairwise")).unwrap_err();
    assert!(error.contains("no collective of the trace"), "{error}");
}

/// The trace of the documentation: two boxes of four ranks. The first computes 300 µs, adds over
/// its box and sends 8 MiB on; the second receives, computes and adds; then each rank adds with its
/// partner in the other box.
#[test]
fn the_trace_of_the_documentation_is_this() {
    let mib = 1 << 20;
    for rank in 0..8_u64 {
        let (first, local) = (rank < 4, rank % 4);
        let computes = |after: &[u64]| node(1, COMPUTES, after, 300, &[]);
        let inside =
            call(2, &[1], ALL_REDUCE, 16 * mib, if first { "tensor 0" } else { "tensor 1" });
        let between = call(4, &[2], ALL_REDUCE, 32 * mib, &format!("data {local}"));
        let size = ("comm_size", 8 * mib);
        let nodes = if first {
            let sends = node(3, SENDS, &[2], 0, &[("comm_dst", rank + 4), size]);
            vec![computes(&[]), inside, sends, between]
        } else {
            let receives = node(3, RECEIVES, &[], 0, &[("comm_src", rank - 4), size]);
            vec![receives, computes(&[3]), inside, between]
        };
        let path = format!("{}/tests/data/fabrics/step.{rank}.et", env!("CARGO_MANIFEST_DIR"));
        if std::env::var("TRYCMD").is_ok_and(|how| how == "overwrite") {
            std::fs::write(&path, file(&nodes)).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), file(&nodes), "{path}");
    }
}
