//! How often verdicts are right: faults are put into the published curves of healthy clusters by what
//! they change in hardware, and judged beside what all other clusters teach, and beside the cluster's own
//! healthy runs. `cargo run --release --example faults [DRAWS [PART]]`: so many draws of each fault, of every
//! PART-th series; docs/background/verdicts.md holds the figures.

#![allow(clippy::disallowed_methods, reason = "an example writes as it likes")]
#![allow(dead_code, reason = "the tests use the rest")]

#[path = "../../tests/support/cores.rs"]
mod cores;
mod evidence;
mod physics;
mod trial;

use std::time::Instant;

use collcost::measure::expect::{Clusters, Study};
use trial::{Beside, Counts, sum, table, trial};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let draws = std::env::args().nth(1).map_or(Ok(2), |n| n.parse())?;
    let part = std::env::args().nth(2).map_or(Ok(1), |n| n.parse())?;
    let start = Instant::now();
    let all = evidence::series();
    let run = |beside: Beside| -> Counts {
        let some: Vec<_> = (1..).zip(&all).step_by(part).collect();
        sum(cores::spread(&some, |&(seed, series)| trial(series, beside, draws, seed)))
    };
    println!("beside the cluster's own runs\n\n{}", table(&run(Beside::OwnRuns)));
    eprintln!("{:?}", start.elapsed());
    let study = Study::new(&Clusters::built_in()?)?;
    println!("beside what all other clusters teach\n\n{}", table(&run(Beside::Others(&study))));
    eprintln!("{:?}", start.elapsed());
    Ok(())
}
