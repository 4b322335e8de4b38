//! Verdicts held to faults of known causes, which `examples/faults` puts into published healthy curves
//! without `mock`. A part of the series here; all of them, and beside expectations that were learned
//! without the cluster, in `.ci/full`. docs/background/verdicts.md has the figures of all.

#![allow(dead_code, reason = "the example uses the rest")]

#[path = "../../examples/faults/evidence.rs"]
mod evidence;
#[path = "../../examples/faults/physics.rs"]
mod physics;
#[path = "../../examples/faults/trial.rs"]
mod trial;

use collcost::measure::expect::{Clusters, Study};
use trial::{Beside, Counts, HEALTHY, SLOWED, faults, sum, table, trial};

use crate::cores;
use crate::full::one_in;

/// By cluster, for each of its series.
fn run(beside: Beside, part: usize) -> Vec<(String, Counts)> {
    let all: Vec<_> = (1..).zip(evidence::series()).step_by(one_in(part)).collect();
    let one = |(seed, series): &(u64, evidence::Series)| {
        (series.cluster.clone(), trial(series, beside, 2, *seed))
    };
    cores::spread(&all, one).into_iter().collect()
}

#[test]
fn beside_their_own_runs_faults_are_seen_and_named() {
    let counts = sum(run(Beside::OwnRuns, 29).into_iter().map(|(_, counts)| counts));
    let (all, healthy, slowed) = (faults(&counts), counts[HEALTHY], counts[SLOWED]);
    let text = table(&counts);
    println!("{text}");
    assert!(all.part(|c| c.ill) >= 0.95, "{text}");
    assert!(all.first >= all.ill * 8 / 10, "{text}");
    assert!(healthy.part(|c| c.ill) <= 0.03, "{text}");
    assert_eq!(slowed.ill + slowed.unclear, slowed.all, "{text}");
}

/// Minutes, since all clusters are learned of anew: in `.ci/full` alone.
#[test]
fn beside_other_machines_no_slowed_run_is_healthy() {
    if one_in(2) > 1 {
        return;
    }
    let study = Study::new(&Clusters::built_in().unwrap()).unwrap();
    let each = run(Beside::Others(&study), 25);
    let which = |of: fn(&Counts) -> bool| -> Vec<&str> {
        let those = each.iter().filter(|(_, counts)| of(counts));
        those.map(|(cluster, _)| &**cluster).collect()
    };
    let ill = which(|counts| counts[HEALTHY].ill > 0);
    let missed = which(|counts| counts[SLOWED].ill + counts[SLOWED].unclear < counts[SLOWED].all);
    let (slower, surprising): (Vec<&str>, Vec<&str>) =
        ill.iter().partition(|cluster| SLOWER.contains(cluster));
    let series = each.len();
    let counts = sum(each.iter().map(|(_, counts)| counts.clone()));
    let all = faults(&counts);
    let text = table(&counts);
    println!("{text}");
    assert!(all.part(|c| c.ill + c.unclear) >= 0.95, "{text}");
    // On the clusters below, a fault is named as what makes a healthy run there look ill.
    assert!(all.first * 100 >= all.ill * 78, "{text}");
    assert!(surprising.len() * 100 <= 3 * series, "{surprising:?}");
    assert!(SLOWER.iter().all(|cluster| slower.contains(cluster)), "{slower:?}");
    assert!(missed.iter().all(|cluster| FASTER.contains(cluster)), "{missed:?}");
    assert!(FASTER.iter().all(|cluster| missed.contains(cluster)), "{missed:?}");
}

/// Clusters with a published run that is slower than the same board elsewhere, and is called ill for that: NCCL
/// of 2020 and 2021, the latter with three of four NICs; TCPX; three boxes of L40S that differ.
const SLOWER: [&str; 4] = [
    "abci_v100_nccl_2.8.4",
    "aws_p4d_a100_efa400_misc_nccltests_nccl_various",
    "gcp-a3-high-dstack",
    "l40s_nccl_2.27.3",
];

/// Clusters that are so much faster than all others teach that a run slowed by 1.5 is as fast as expected: the only
/// P6-B300, whose network takes half the time of earlier EFA for small messages; Slingshot at a site whose large
/// all-reduces take two thirds of the other sites'.
const FASTER: [&str; 2] = ["aws-p6-b300", "cscs-alps-docs"];
