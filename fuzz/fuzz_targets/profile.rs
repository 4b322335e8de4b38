//! A machine's description, and a file of settings, is read or refused with the name of its file.
#![no_main]

use collcost::Collective;
use collcost::machine::profile::{Asked, Profile, Severity, check};
use collcost::plan::config::Layer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let found = check(text, &Asked::default());
    match Profile::parse(text, "x.toml") {
        Ok(profile) => assert!(!profile.fabric(Collective::AllReduce).tiers.is_empty()),
        Err(why) => {
            assert!(why.to_string().contains("x.toml"), "{why}");
            // What is refused is never found faultless.
            assert!(found.iter().any(|f| f.severity == Severity::Error), "{why}");
        }
    }
    for finding in found {
        assert!(finding.place.line <= text.matches('\n').count() + 1, "{finding:?}");
    }
    if let Err(why) = Layer::parse(text, "x.toml") {
        assert!(why.to_string().contains("x.toml"), "{why}");
    }
});
