//! Ranks in the namespaces of a network, and plans that are measured on them.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use collcost::base::error::Result;
use collcost::base::quantity::{Bytes, Ratio, Seconds};
use collcost::machine::sample::{LaunchRecord, Op, Origin, Record, Samples};
use collcost::model::algorithm::Registry;
use collcost::run::calibrate::{Launch, Outside, Plan, Progress, clock_step, measure};
use collcost::run::execute::{Block, Runner, Start, Timed};
use collcost::run::launch::{Executor, Group, Pin, Setup};
use collcost::run::transport::{Delay, Kind, Wait};

use crate::network::Network;

/// How ranks are started, one in each of the first namespaces.
pub fn setup(network: &Network, ranks: u32, wait: Wait, delay: Option<Delay>) -> Setup {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_collcost"));
    Setup {
        program: (program, vec!["run-rank".to_owned()]),
        ranks,
        transport: Kind::Tcp,
        wait: Some(wait),
        pin: Pin::InOrder,
        places: network.places(),
        delay,
        interrupt: None,
    }
}

/// Such ranks.
pub fn ranks(setup: &Setup) -> Executor {
    let group = setup.try_clone().and_then(Group::start);
    Executor::new(Registry::builtin(), group.unwrap_or_else(|e| panic!("ranks start: {e}")))
}

/// The operation of this name.
pub fn op(name: &str) -> Op {
    name.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Samples of `ops` × `sizes`, and how long messages were really held up, in the median block.
pub fn measured(
    setup: Setup,
    (ops, sizes): (&[&str], &[u64]),
    launches: u32,
    budget: Duration,
) -> (Samples, Option<Seconds>) {
    let plan = Plan {
        ranks: setup.ranks,
        ops: ops.iter().map(|name| op(name)).collect(),
        sizes: sizes.iter().copied().map(Bytes).collect(),
        launches,
        seed: 1,
        precision: Ratio(0.02),
        budget,
        longest: budget,
        drain: Seconds(0.5),
        wire: false,
    };
    let origin = Origin { transport: Some("tcp".into()), wait: setup.wait, ..Origin::default() };
    let mut desk = Desk { setup, held: Rc::default() };
    let before = Samples { origin, ..Samples::default() };
    let samples = measure(&Registry::builtin(), &plan, clock_step(), before, &mut desk);
    let samples = samples.unwrap_or_else(|e| panic!("{e}"));
    let mut held = desk.held.take();
    held.sort_by(f64::total_cmp);
    (samples, held.get(held.len() / 2).copied().map(Seconds))
}

/// Starts ranks, keeps nothing, and notes how long messages were held up.
struct Desk {
    setup: Setup,
    held: Rc<RefCell<Vec<f64>>>,
}

impl Outside for Desk {
    fn launch(&mut self) -> Result<Launch> {
        let executor = ranks(&self.setup);
        let start = match executor.group().wait() {
            Wait::Spin => Start::Window,
            Wait::Poll => Start::Barrier,
        };
        let runner = Box::new(Noting { executor, held: Rc::clone(&self.held) });
        Ok(Launch { runner, record: LaunchRecord::default(), start })
    }

    fn keep(&mut self, _: &Record) -> Result<()> {
        Ok(())
    }

    fn show(&mut self, _: &Progress) {}
}

struct Noting {
    executor: Executor,
    held: Rc<RefCell<Vec<f64>>>,
}

impl Runner for Noting {
    fn ranks(&self) -> u32 {
        self.executor.ranks()
    }

    fn time(&mut self, op: &Op, size: Bytes, block: &Block) -> Result<Timed> {
        let timed = self.executor.time(op, size, block)?;
        self.held.borrow_mut().extend(timed.held_up.map(|time| time.0));
        Ok(timed)
    }
}
