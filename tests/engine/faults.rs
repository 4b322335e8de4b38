//! Verdicts held to faults of known causes, which `examples/faults` puts into published healthy curves
//! without `mock`. A part of the series here; all of them, and beside expectations that were learned
//! without the cluster, in `.ci/full`. docs/how-to/diagnose-a-slow-run.md has the figures of all.

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

fn run(beside: Beside, part: usize) -> Counts {
    let all: Vec<_> = (1..).zip(evidence::series()).step_by(one_in(part)).collect();
    sum(cores::spread(&all, |(seed, series)| trial(series, beside, 2, *seed)))
}

#[test]
fn beside_their_own_runs_faults_are_seen_and_named() {
    let counts = run(Beside::OwnRuns, 13);
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
    let counts = run(Beside::Others(&study), 25);
    let (all, healthy, slowed) = (faults(&counts), counts[HEALTHY], counts[SLOWED]);
    let text = table(&counts);
    println!("{text}");
    assert!(all.part(|c| c.ill + c.unclear) >= 0.95, "{text}");
    assert!(all.first >= all.ill * 8 / 10, "{text}");
    assert!(healthy.part(|c| c.ill) <= 0.03, "{text}");
    assert_eq!(slowed.ill + slowed.unclear, slowed.all, "{text}");
}
