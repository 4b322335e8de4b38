//! The examples are programs that run, and their own tests are run with the others.

use collcost::Collective;

#[allow(dead_code, reason = "its `main` is not run here")]
#[path = "../../examples/custom_algorithm.rs"]
mod custom_algorithm;

#[test]
fn the_custom_algorithm_runs() {
    custom_algorithm::main().unwrap();
}

#[allow(dead_code, reason = "its `main` reads the command line")]
#[path = "../../examples/embed_in_ci.rs"]
mod embed_in_ci;

#[path = "../../examples/plan_a_training_step.rs"]
mod plan_a_training_step;

#[test]
fn budgets_are_held_from_a_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/budgets");
    let budgets = |name: &str, day: &str| {
        embed_in_ci::budgets(&format!("{folder}/{name}"), Some(day.parse().unwrap()))
    };
    let held = |name: &str, day: &str| budgets(name, day).map(|report| report.held);
    assert_eq!(held("collcost.toml", "2026-06-01"), Ok(5));
    // Two of six are waived until the end of the year; one only warns, whatever it does.
    assert_eq!(held("review.toml", "2026-12-31"), Ok(4));
    let late = held("review.toml", "2027-01-01").unwrap_err();
    assert_eq!(late.lines().filter(|line| line.contains("its waiver ended")).count(), 2, "{late}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("warns.toml");
    let budget = "[[budget]]\nname = \"a\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
                  profile = \"dgx-h100\"\nmax_time = \"1ms\"\nlevel = \"warning\"\n";
    std::fs::write(&file, budget).unwrap();
    let warns = embed_in_ci::budgets(file.to_str().unwrap(), None).unwrap();
    assert_eq!((warns.held, warns.failed, warns.warned), (0, 0, 1));
    let faults = budgets("wrong.toml", "2026-06-01").err().unwrap();
    assert!(faults.contains("wrong.toml:5:1: unknown key `collectiv`"), "{faults}");
}

#[test]
fn a_training_step_is_planned_from_a_program() {
    plan_a_training_step::main().unwrap();
    let inside = plan_a_training_step::step(8).unwrap();
    let all = plan_a_training_step::step(256).unwrap();
    // Parts gather faster inside a node, and are summed between nodes.
    let of = |step: &collcost::plan::Priced, collective| -> f64 {
        let calls = step.calls.iter().filter(|c| c.call.collective == collective);
        calls.map(|c| c.total.0).sum()
    };
    assert!(of(&inside, Collective::AllGather) < of(&all, Collective::AllGather));
    assert!(of(&inside, Collective::AllReduce) > of(&all, Collective::AllReduce));
}
