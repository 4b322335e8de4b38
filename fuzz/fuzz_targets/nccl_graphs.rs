//! A file of NCCL's graphs is read or refused with its line; what was read is a communicator.
#![no_main]

use collcost::library::nccl::graphs_file::Graphs;
use collcost::library::nccl::{Capability, Settings, Table, Told, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Graphs::read(text, "g.xml") {
        Ok(graphs) => {
            for (nodes, version) in [(1, "2.21.5"), (2, "2.30.7")] {
                let version: Version = version.parse().expect("a release that is known");
                let gpu = Some(Capability(90));
                let told = Told { nodes: Some(nodes), gpu, ..Told::default() };
                if let Ok(comm) = graphs.communicator(&told, version) {
                    let _ = Table::new(&comm, version, &Settings::default());
                }
            }
        }
        Err(why) => assert!(why.to_string().contains("g.xml:"), "{why}"),
    }
});
