//! Ranks in the namespaces of a network, and a small plan of blocks over them.

use std::path::PathBuf;

use collcost::algorithm::Registry;
use collcost::execute::{Block, Check, Runner, Start, Timed};
use collcost::launch::{Executor, Group, Setup};
use collcost::quantity::{Bytes, Seconds};
use collcost::sample::{Block as Measured, Mode, Op, Origin, Samples};
use collcost::transport::{Delay, Kind, Wait};

use crate::network::Network;

/// The longest that a run of a plan may take.
const LONGEST: Seconds = Seconds(0.3);
/// The least time of a block, and the least and most runs in it.
const BLOCK: (Seconds, u32, u32) = (Seconds(0.01), 4, 200);

/// Ranks, one in each of the first namespaces.
pub fn ranks(network: &Network, ranks: u32, wait: Option<Wait>, delay: Option<Delay>) -> Executor {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_collcost"));
    let setup = Setup {
        program: (program, vec!["run-rank".to_owned()]),
        ranks,
        transport: Kind::Tcp,
        wait,
        pin: true,
        places: network.places(),
        delay,
        interrupt: None,
    };
    let group = Group::start(setup).unwrap_or_else(|e| panic!("ranks start: {e}"));
    Executor::new(Registry::builtin(), group)
}

/// The operation of this name.
pub fn op(name: &str) -> Op {
    name.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What is measured.
pub struct Plan<'a> {
    pub ops: &'a [&'a str],
    pub sizes: Vec<u64>,
    pub launches: u32,
    pub wait: Option<Wait>,
    pub delay: Option<Delay>,
}

/// Samples of a plan, and how long messages were really held up.
pub fn measure(network: &Network, n: u32, plan: &Plan<'_>) -> (Samples, Option<Seconds>) {
    let (mut blocks, mut held) = (Vec::new(), Vec::new());
    let mut wait = plan.wait;
    for launch in 0..plan.launches {
        let mut executor = ranks(network, n, plan.wait, plan.delay);
        wait = Some(executor.group().wait());
        for name in plan.ops {
            let op = op(name);
            for &size in &plan.sizes {
                let Some(timed) = block(&mut executor, &op, Bytes(size)) else { break };
                held.extend(timed.held_up.map(|time| time.0));
                blocks.push(Measured {
                    op: op.clone(),
                    ranks: n,
                    size: Bytes(size),
                    launch,
                    block: blocks.len() as u32,
                    mode: Mode::Isolated,
                    preempted: Some(timed.switches),
                    samples: timed.samples,
                });
            }
        }
        executor.end();
    }
    let origin = Origin { transport: Some("tcp".to_owned()), wait, ..Origin::default() };
    held.sort_by(f64::total_cmp);
    let held = held.get(held.len() / 2).copied().map(Seconds);
    (Samples { origin, blocks, ..Samples::default() }, held)
}

/// One block of as many runs as fit; none where a run takes too long.
fn block(executor: &mut Executor, op: &Op, size: Bytes) -> Option<Timed> {
    let spins = executor.group().wait() == Wait::Spin;
    let start = if spins { Start::Window } else { Start::Barrier };
    let mut run = |warm: u32, reps: u32| {
        let block =
            Block { warm, reps, inner: 1, start, check: Check::Once, predicted: Some(LONGEST) };
        executor.time(op, size, &block).unwrap_or_else(|e| panic!("{op} of {size}: {e}"))
    };
    let once = run(0, 1).median()?;
    let (time, least, most) = BLOCK;
    let reps = (time.0 / once.0) as u32;
    (once <= LONGEST).then(|| run(if once.0 < 1e-3 { 10 } else { 1 }, reps.clamp(least, most)))
}
