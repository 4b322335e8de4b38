//! Whatever people type is read or refused, and what is printed is read back.
//!
//! `cargo +nightly fuzz run quantities`; `tests/properties.rs` runs the same on fewer texts.
#![no_main]

use collcost::Collective;
use collcost::base::dtype::DataType;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds, SecondsPerByte};
use collcost::machine::fabric::Order;
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Dims, Ports, Protocol};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(size) = text.parse::<Bytes>() {
        let back: Bytes = size.to_string().parse().expect("a printed size is read");
        assert!(size.0.abs_diff(back.0) as f64 <= 1e-3 * size.0 as f64, "{size:?} {back:?}");
    }
    let _ = text.parse::<Seconds>();
    let _ = text.parse::<Bandwidth>();
    let _ = text.parse::<SecondsPerByte>();
    let _ = text.parse::<Collective>();
    let _ = text.parse::<Ports>();
    let _ = text.parse::<Dims>();
    let _ = text.parse::<Order>();
    let _ = text.parse::<Protocol>();
    let _ = text.parse::<DataType>();
    let registry = Registry::builtin();
    for &collective in Collective::ALL {
        let _ = registry.find(collective, text);
    }
});
