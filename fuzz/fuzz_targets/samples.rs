//! Samples are read or refused, also with the right sums put in; what was read is fitted or refused,
//! without a crash.
#![no_main]

use collcost::machine::sample;
use collcost::measure::fit::{Asked, fit};
use collcost::model::algorithm::Registry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let summed: String = text
        .lines()
        .map(|line| match line.strip_suffix('}') {
            Some(body) => format!("{body},\"c\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes())),
            None => format!("{line}\n"),
        })
        .collect();
    for text in [text, &summed] {
        match sample::read(text, "file") {
            Ok((_, samples)) => {
                let asked = Asked { draws: 2, ..Asked::default() };
                if let Ok(fitted) = fit(&Registry::builtin(), &samples, &asked) {
                    assert!(!fitted.gates.is_empty());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
