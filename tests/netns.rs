//! Acceptance of measuring and fitting: links whose rate is known, in network namespaces that the
//! test makes itself, and the counter of the wire's own queue as the truth.
//!
//! ```sh
//! cargo test --test netns                                  # the short form, where it may run
//! cargo test --test netns -- --ignored --nocapture         # all rows, with their table
//! COLLCOST_NETNS=required cargo test --test netns          # not being able to is a failure
//! ```
//!
//! Each row has a limit that fails the test, an aim that is reported, and what was seen;
//! docs/CALIBRATION-ACCEPTANCE.md has the last table.
#![cfg(target_os = "linux")]

#[path = "netns/bulk.rs"]
mod bulk;
#[path = "netns/joint.rs"]
mod joint;
#[path = "netns/latency.rs"]
mod latency;
#[path = "netns/measure.rs"]
mod measure;
#[path = "support/netns.rs"]
mod network;
#[path = "netns/table.rs"]
mod table;

use network::{Cap, is_possible};
use table::Table;

#[test]
fn short_form() {
    if !is_possible() {
        return;
    }
    let mut table = Table::default();
    bulk::rows(&mut table, &[Cap::Mbit(200)], 8);
    table.end();
}

#[test]
#[ignore = "takes minutes, and a quiet machine"]
fn all_rows() {
    if !is_possible() {
        return;
    }
    let mut table = Table::default();
    bulk::rows(&mut table, &[100, 200, 500].map(Cap::Mbit), 20);
    bulk::drained(&mut table);
    latency::injected(&mut table);
    latency::launches(&mut table);
    joint::rows(&mut table);
    table.end();
}
