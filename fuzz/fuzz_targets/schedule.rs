//! A schedule of another program is read or refused; what was read is verified or has a fault.
#![no_main]

use collcost::exchange::import;
use collcost::model::schedule::verify;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(foreign) = import::read(text, "file") {
        if let Err(fault) = verify(&foreign.list) {
            assert!(!fault.to_string().is_empty());
            let _ = foreign.line_of(&fault);
        }
    }
});
