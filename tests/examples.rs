//! The examples are programs that run, and their own tests are run with the others.

#[allow(dead_code, reason = "its `main` is not run here")]
#[path = "../examples/custom_algorithm.rs"]
mod custom_algorithm;

#[test]
fn the_custom_algorithm_runs() {
    custom_algorithm::main().unwrap();
}
