//! A schedule of another program is read or refused; what was read is verified or has a fault, and
//! operations without data are played or wait for ever.
#![no_main]

use collcost::base::quantity::{Bandwidth, Seconds};
use collcost::cost::simulate::arrival::{Overheads, arrive};
use collcost::exchange::import;
use collcost::machine::fabric::Fabric;
use collcost::model::schedule::verify;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(foreign) = import::read(text, "file")
        && let Err(fault) = verify(&foreign.list)
    {
        assert!(!fault.to_string().is_empty());
        let _ = foreign.line_of(&fault);
    }
    if let Ok(Some(bare)) = import::bare(text, "file") {
        let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
        if let Ok(arrived) = arrive(&bare.operations, &fabric, Overheads::default(), &[]) {
            assert!(arrived.makespan.0.is_finite());
        }
    }
});
