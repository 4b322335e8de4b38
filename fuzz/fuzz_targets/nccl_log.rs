//! A log of NCCL's is read or refused with its line; what was read is held against the tuner.
#![no_main]

use collcost::answer::nccl_log::{Asked, nccl_log};
use collcost::library::nccl::log::Log;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Log::read(text, "x.log") {
        Ok(log) => {
            let _ = nccl_log(&log, &Asked::default());
            let _ = nccl_log(&log, &Asked { table: Some(1), ..Asked::default() });
        }
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("x.log:") || why.contains("no line of NCCL's tuner"), "{why}");
        }
    }
});
