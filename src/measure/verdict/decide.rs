//! What would decide a verdict that cannot tell.

use super::{Facts, Point};
use crate::machine::query::Query;
use crate::measure::expect::Basis;

/// With fewer sizes than this no cause has a shape.
const SIZES: usize = 3;

/// What to run or to give next.
pub(super) fn steps(query: &Query, points: &[Point], facts: &Facts) -> Vec<String> {
    let name = &query.machine.name;
    if facts.other_gpus(query).is_some() {
        return vec![
            "name the machine that ran it with --on; collcost profiles lists them".to_owned(),
        ];
    }
    if facts.at_most {
        return vec![
            "give the traces of all ranks, with times of the devices: they show the waiting"
                .to_owned(),
        ];
    }
    let mpi = facts.run_by(query).is_mpi();
    let mut steps = Vec::new();
    if points.len() < SIZES {
        let sweep = if mpi { "osu_* -m 8:1073741824" } else { "*_perf -b 8 -e 8G -f 2" };
        steps
            .push(format!("measure more sizes ({sweep}): a cause is known by its shape over them"));
    }
    let late = points.iter().filter(|p| p.is_late()).count();
    if late > 0 && late < points.len() {
        steps.push(
            "repeat the run: what is late only once was disturbed, and is no fault".to_owned(),
        );
    }
    if facts.evidence.is_empty() {
        let which = if mpi { "env, lspci -vvv" } else { "NCCL_DEBUG=INFO's log, env, lspci -vvv" };
        steps.push(format!("add what the run itself says: --evidence FILE ({which})"));
    }
    if points.iter().any(|p| p.expected.basis != Basis::Measured) {
        steps.push(format!(
            "compare it with a run that was good: collcost compare GOOD THIS --two, or collcost fit GOOD --on {name} \
             --out site.toml"
        ));
    }
    if steps.is_empty() {
        steps.push("repeat the run: the band is that of this machine's own runs".to_owned());
    }
    steps
}
