//! Searches of the released libraries of NCCL 2.31.2 and 2.32.3 (`nvidia-nccl-cu13` on PyPI), whose
//! functions can be called by their debug symbols, without a GPU.
//!
//! `data/nccl_library_searches.txt.gz` has 284 made-up machines: NICs of one port or two, fewer or
//! more than GPUs, with and without rails and planes, ConnectX-8 and others, on one host or two. After
//! each come the graphs that the libraries find there for one node and for two, as `nccl graph`
//! prints them, and the channels of rings, trees and NVLS: a NIC, GPUs, a NIC.

use std::fmt::Write as _;

use collcost::library::nccl::search::{Found, Job, Searched, search};
use collcost::library::nccl::topology::Knobs;
use collcost::library::nccl::topology_file::read;
use collcost::library::nccl::{Graph, float};

use super::full::one_in;
use crate::gzip::inflate;

fn figures(found: &Found) -> String {
    let Graph { pattern, channels, type_intra, type_inter, cross_nic, same_channels, .. } =
        found.graph;
    let [intra, inter] = [found.graph.intra, found.graph.inter].map(|rate| float(rate.0));
    let latency = float(found.graph.latency_inter.0);
    let same = u8::from(same_channels);
    format!(
        "{pattern},{channels},{intra},{inter},{latency},{type_intra},{type_inter},{cross_nic},{same}"
    )
}

/// As the file has it.
fn text(found: &Searched) -> String {
    let Searched { ring, tree, collnet_direct, collnet_chain, nvls_graph, .. } = found;
    let graphs = [ring, tree, collnet_direct, collnet_chain, nvls_graph];
    let mut text = graphs.map(figures).join(",") + "\n";
    for (name, graph) in [("ring", ring), ("tree", tree), ("nvls", nvls_graph)] {
        for (number, channel) in graph.channels.iter().enumerate() {
            // Of NVLS only the heads are ranks.
            let gpus = if name == "nvls" { &channel.gpus[..1] } else { &channel.gpus[..] };
            let ranks: Vec<String> =
                gpus.iter().map(|&gpu| found.devices[gpu].rank.to_string()).collect();
            let [from, to] = match channel.nets {
                Some(nets) => nets.map(|net| format!("{net:x}")),
                None => Default::default(),
            };
            writeln!(text, "{name} {number}: {from} | {} | {to}", ranks.join(" ")).unwrap();
        }
    }
    text
}

#[test]
fn searches_find_what_the_libraries_find() {
    let all = inflate(include_bytes!("../data/nccl_library_searches.txt.gz"));
    let mut compared = 0;
    for machine in all.split("machine ").skip(1).step_by(one_in(15)) {
        let (file, jobs) = machine.split_once("</system>\n").unwrap();
        let (name, file) = file.split_once('\n').unwrap();
        let description = read(&format!("{file}</system>\n"), name).unwrap();
        for job in jobs.split("search ").skip(1) {
            let (head, truth) = job.split_once('\n').unwrap();
            let (version, nodes) = head.split_once(' ').unwrap();
            let job = Job { nodes: nodes.parse().unwrap(), per_node: None };
            let version = version.parse().unwrap();
            let found = search(&description, version, job, &Knobs::default()).unwrap();
            assert_eq!(text(&found), truth, "{name}: {head} nodes");
            compared += 1;
        }
    }
    assert!(compared >= 4 * 284 / one_in(15) - 4, "{compared}");
}
