//! A topology is read or refused with its line; what was read is searched in bounded time, and its
//! communicator is one.
#![no_main]

use collcost::library::nccl::search::{Job, picture, search};
use collcost::library::nccl::topology::Knobs;
use collcost::library::nccl::topology_file::read;
use collcost::library::nccl::{Settings, Table, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let description = match read(text, "t.xml") {
        Ok(description) => description,
        Err(why) => return assert!(why.to_string().contains("t.xml:"), "{why}"),
    };
    // A few GPUs show every rule; with many, a search is long, not different.
    if description.with_gpus(None).is_ok_and(|all| all.ranks() > 4) {
        return;
    }
    // Which release searches, and for how many nodes, is the text's length: all of them at every
    // input would be the same work eighteen times.
    let version = Version::ALL[text.len() % Version::ALL.len()];
    let nodes = 1 + (text.len() / Version::ALL.len() % 2) as u32;
    let job = Job { nodes, per_node: None };
    let _ = picture(&description, version, job, &Knobs::default());
    if let Ok(found) = search(&description, version, job, &Knobs::default()) {
        let comm = found.communicator();
        let _ = Table::new(&comm, version, &Settings::default());
    }
});
