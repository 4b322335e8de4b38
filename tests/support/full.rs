//! Long suites: whole in `.ci/full`, one part of their cases everywhere else.

/// Of how many cases one is looked at: of `many`, or each where `COLLCOST_FULL` is set.
pub fn one_in(many: usize) -> usize {
    if std::env::var_os("COLLCOST_FULL").is_some() { 1 } else { many }
}
