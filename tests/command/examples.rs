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
    let held = embed_in_ci::budgets(&format!("{folder}/collcost.toml")).map(|c| c.outcomes.len());
    assert_eq!(held, Ok(5));
    let faults = embed_in_ci::budgets(&format!("{folder}/wrong.toml")).err().unwrap();
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
