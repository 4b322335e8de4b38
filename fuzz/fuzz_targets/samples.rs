//! Samples are read or refused, as JSON Lines (with the right sums put in) and as CSV; what was
//! read is fitted or refused, without a crash.
#![no_main]

use collcost::machine::sample;
use collcost::measure::fit::{Asked, fit};
use collcost::measure::samples_csv;
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
    let lines = [text, &summed].map(|text| sample::read(text, "file").map(|(_, samples)| samples));
    for read in lines.into_iter().chain([samples_csv::read(text, "file")]) {
        match read {
            Ok(samples) => {
                let asked = Asked { draws: 2, ..Asked::default() };
                if let Ok(fitted) = fit(&Registry::builtin(), &samples, &asked) {
                    assert!(!fitted.gates.is_empty());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
