//! Large operations alone: their time against what the wire's counter says that they must take.

use collcost::base::quantity::{Bytes, Seconds};
use collcost::run::execute::{Block, Check, Runner, Start};
use collcost::run::transport::Wait;

use crate::measure::{op, ranks, setup};
use crate::network::{Cap, Network};
use crate::quiet::{Measured, measured};
use crate::table::{Table, percent};

/// How long one run is to take.
const RUN: f64 = 0.15;
/// Warm-ups, and the run that is checked.
const BEFORE: u32 = 2 + 1;

/// What one block saw.
pub struct Seen {
    /// The median over the time that the wire's bytes take at the cap, minus 1.
    pub error: f64,
    /// Bytes on the wire for a byte of M that leaves the busiest rank.
    pub overhead: f64,
}

/// Runs `op` over two ranks, each of which sends at most M. They sleep while they wait: one that
/// spins loses its CPU to others for whole time slices, 2 to 3 % of a run.
pub fn bulk(network: &Network, name: &str, reps: u32) -> Seen {
    let rate = network.cap().rate().expect("a cap");
    let size = Bytes((RUN * rate) as u64 / 4096 * 4096);
    let mut executor = ranks(&setup(network, 2, Wait::Poll, None));
    let block = Block {
        warm: BEFORE - 1,
        reps,
        inner: 1,
        start: Start::Barrier,
        check: Check::Once,
        spill: Bytes(0),
        predicted: Some(Seconds(RUN)),
    };
    let before = network.sent();
    let timed = executor.time(&op(name), size, &block);
    let timed = timed.unwrap_or_else(|e| panic!("{name} of {size}: {e}"));
    let after = network.sent();
    executor.end();
    // One direction decides: the one with more bytes.
    let wire = after.iter().zip(&before).map(|(after, before)| after - before).max();
    let wire = wire.expect("ranks") as f64 / f64::from(BEFORE + reps);
    let median = timed.median().expect("samples");
    Seen { error: median.0 / (wire / rate) - 1.0, overhead: wire / size.0 as f64 }
}

/// Bulk blocks over every cap.
pub fn rows(table: &mut Table, caps: &[Cap], reps: u32) {
    for &cap in caps {
        let network = Network::new(2, cap).unwrap_or_else(|e| panic!("{e}"));
        for name in ["shift", "allreduce/ring", "broadcast/binomial"] {
            let limits = (0.01, 0.003);
            let Measured { seen: Seen { error, overhead }, disturbed } =
                measured(|| bulk(&network, name, reps), |seen| seen.error.abs() <= limits.0);
            let seen = format!("{}; wire/payload {overhead:.4}", percent(error));
            let quantity = format!("bulk {name}, N = 2, {cap}");
            table.within(quantity, limits, error, seen);
            table.excuse(disturbed);
        }
    }
}

/// A root's two children share its link one after the other, if its queue is drained in between.
pub fn drained(table: &mut Table) {
    let network = Network::new(4, Cap::Mbit(200)).unwrap_or_else(|e| panic!("{e}"));
    let rate = network.cap().rate().expect("a cap");
    for size in [Bytes(256 << 10), Bytes(512 << 10), Bytes(2 << 20)] {
        let mut executor = ranks(&setup(&network, 4, Wait::Poll, None));
        let block = Block { predicted: Some(Seconds(0.2)), ..Block::default() };
        let before = network.sent();
        let timed = executor.time(&op("broadcast/binomial"), size, &block);
        let median = timed.unwrap_or_else(|e| panic!("{e}")).median().expect("samples");
        let after = network.sent();
        executor.end();
        // Two steps are on the critical path, and both leave the root.
        let runs = f64::from(block.reps + block.warm + 1);
        let wire = (after[0] - before[0]) as f64 / runs;
        let error = median.0 / (wire / rate) - 1.0;
        let seen = format!("{} ({:.2} ms)", percent(error), 1e3 * median.0);
        let quantity = format!("broadcast/binomial of {size}, N = 4, 200 Mbit/s");
        table.within(quantity, (0.03, 0.01), error, seen);
    }
}
