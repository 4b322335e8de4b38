//! Acceptance of measuring and fitting: links whose rate is known, in network namespaces that the
//! test makes itself, and the counter of the wire's own queue as the truth.
//!
//! ```sh
//! cargo test --test netns                                  # the short form, where it may run
//! cargo test --test netns -- --ignored --nocapture         # all rows, with their table
//! COLLCOST_NETNS=required cargo test --test netns          # not being able to is a failure
//! COLLCOST_NETNS_KEEP=. cargo test --test netns -- --ignored     # samples stay in this folder
//! cargo test --test netns -- --ignored --nocapture buckets_of_every_size
//! COLLCOST_NETNS_CELLS='caps=120 ranks=2 budgets=20 bursts=65536' cargo test --test netns buckets_are
//! ```
//!
//! Each row has a limit that fails the test, an aim that is reported, and what was seen;
//! docs/dev/calibration-acceptance.md has the last table.
#![allow(clippy::disallowed_methods, reason = "tests write and read as they like")]
#![cfg(target_os = "linux")]

mod bulk;
mod bursts;
#[path = "../support/full.rs"]
mod full;
mod hosts;
mod joint;
mod latency;
mod measure;
#[path = "../support/netns.rs"]
mod network;
mod quiet;
mod slow;
mod table;
mod tiers;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{panic, process};

use network::{Cap, Network, is_possible};
use table::Table;

/// One test at a time has the processors; none where namespaces are not possible.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that another could see.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    is_possible().then_some(turn)
}

#[test]
fn networks_are_gone_afterwards() {
    let Some(_turn) = turn() else { return };
    let own = || network::names().into_iter().filter(|name| network::is_of(name, process::id()));
    let failed = panic::catch_unwind(|| {
        let _network = Network::new(2, Cap::Mbit(200)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(own().count(), 3);
        panic::resume_unwind(Box::new(()));
    });
    assert!(failed.is_err());
    assert_eq!(own().collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn short_form() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    bulk::rows(&mut table, &[Cap::Mbit(200)], 8);
    joint::short(&mut table);
    table.end();
}

#[test]
#[ignore = "takes a minute, and a quiet machine"]
fn bulk_blocks() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    bulk::rows(&mut table, &[100, 200, 500].map(Cap::Mbit), 20);
    bulk::drained(&mut table);
    table.end();
}

#[test]
#[ignore = "takes minutes, and a quiet machine"]
fn injected_latencies() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    latency::injected(&mut table);
    table.end();
}

#[test]
#[ignore = "takes minutes, and a quiet machine"]
fn latencies() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    latency::launches(&mut table);
    table.end();
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn rates_at_100_mbit() {
    rates(Cap::Mbit(100));
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn rates_at_200_mbit() {
    rates(Cap::Mbit(200));
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn rates_at_500_mbit() {
    rates(Cap::Mbit(500));
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn rates_under_launchers() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    for mpirun in ["mpirun.openmpi", "mpirun.mpich"] {
        match is_installed(mpirun) {
            true => joint::launched(&mut table, mpirun, "50s"),
            false => eprintln!("not tested: there is no {mpirun}"),
        }
    }
    table.end();
}

#[test]
fn ranks_of_launchers_calibrate() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    for mpirun in ["mpirun.openmpi", "mpirun.mpich"].into_iter().step_by(full::one_in(2)) {
        match is_installed(mpirun) {
            true => joint::launched_shortly(&mut table, mpirun),
            false => eprintln!("not tested: there is no {mpirun}"),
        }
    }
    table.end();
}

#[test]
fn buckets_are_found_before_rates() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    let few = bursts::Cells::or("caps=120 ranks=2 budgets=10 bursts=16384,1048576");
    bursts::cells(&mut table, &few);
    table.end();
}

#[test]
#[ignore = "takes hours: caps, ranks, budgets and buckets of every size"]
fn buckets_of_every_size() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    let all = bursts::Cells::or(
        "caps=10,50,120,300,700 ranks=2,3,4,6 budgets=10,20,45 \
         bursts=16384,65536,262144,1048576,16777216",
    );
    let (given, possible) = bursts::cells(&mut table, &all);
    let quantity = "β where 16 bursts fit into a quarter of the time";
    let seen = format!("{given} of {possible}");
    table.must(quantity, "given in 9 of 10", 10 * given >= 9 * possible, seen);
    table.end();
}

#[test]
#[ignore = "takes an hour: 30 trials of each kind"]
fn slow_hosts_and_links_are_named() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    for ranks in [3, 4, 6, 8] {
        slow::named(&mut table, ranks, 30);
    }
    table.end();
}

#[test]
fn ranks_of_a_host_are_a_tier_of_their_own() {
    if std::env::var_os("COLLCOST_FULL").is_none() {
        // Four ranks that poll on two cores measure too little in their time.
        eprintln!("not tested without COLLCOST_FULL, where the command is built for speed");
        return;
    }
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    tiers::of_hosts(&mut table);
    table.end();
}

#[test]
#[ignore = "takes sixteen minutes: three trials of each kind"]
fn racks_are_told_apart() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    tiers::of_racks(&mut table, 3);
    table.end();
}

#[test]
fn a_link_that_goes_down_is_named() {
    let Some(_turn) = turn() else { return };
    hosts::link_down();
}

fn is_installed(program: &str) -> bool {
    let found = process::Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

fn rates(cap: Cap) {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    joint::links(&mut table, cap);
    table.end();
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn rates_that_the_processors_limit() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    joint::limits(&mut table);
    table.end();
}

#[test]
#[ignore = "takes a minute"]
fn rates_beside_busy_processes() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    joint::loaded(&mut table, 16);
    table.end();
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn runs_without_flags() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    joint::defaults(&mut table);
    table.end();
}

#[test]
#[ignore = "takes three minutes, and a quiet machine"]
fn intervals() {
    let Some(_turn) = turn() else { return };
    let mut table = Table::default();
    joint::intervals(&mut table, 10, "10s");
    table.end();
}
