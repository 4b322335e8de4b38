//! NCCL's search: steps a second on machines of several kinds, and from a topology file to
//! channels. NVIDIA's own search takes 3 to 8 million steps a second.

use std::hint::black_box;

use collcost::library::nccl::Version;
use collcost::library::nccl::described::MACHINES;
use collcost::library::nccl::search::{Job, Searched, search};
use collcost::library::nccl::topology::{Description, Knobs};
use collcost::library::nccl::topology_file::read;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn described(name: &str) -> Description {
    let machine = MACHINES.iter().find(|machine| machine.name == name).expect("it is there");
    read(&machine.xml(), name).expect("it is a topology")
}

fn searched(description: &Description, version: Version, job: Job) -> Searched {
    search(description, version, job, &Knobs::default()).expect("it can be searched")
}

fn searches(c: &mut Criterion) {
    let mut group = c.benchmark_group("nccl-search");
    group.sample_size(10);
    // The last is the longest known: 14 million steps.
    let cases = [
        ("dgx_h100_8x400g", "2.30.7", 2, None),
        ("dgx_a100_8x200g", "2.30.7", 2, None),
        ("dgx1_v100_4x100g", "2.21.5", 2, None),
        ("dgx_h100_8x400g", "2.30.7", 2, Some(4)),
        ("hgx_h100_amd_8x400g", "2.18.3", 2, Some(4)),
        ("gb200_nvl8_2host", "2.27.3", 2, None),
    ];
    for (name, version, nodes, per_node) in cases {
        let version: Version = version.parse().expect(version);
        let description = described(name);
        let job = Job { nodes, per_node };
        let steps = searched(&description, version, job).steps;
        group.throughput(Throughput::Elements(steps));
        let ranks = per_node.map_or(String::new(), |ranks| format!(", {ranks} a node"));
        group.bench_function(format!("{name} {version}{ranks}: {steps} steps"), |b| {
            b.iter(|| black_box(searched(&description, version, job).steps));
        });
    }
    group.finish();
}

criterion_group!(benches, searches);
criterion_main!(benches);
