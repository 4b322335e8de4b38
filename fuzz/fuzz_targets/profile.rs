//! A machine's description is read or refused with the name of its file.
#![no_main]

use collcost::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match Profile::parse(text, "x.toml") {
    Ok(profile) => assert!(!profile.fabric(collcost::Collective::AllReduce).tiers.is_empty()),
    Err(why) => assert!(why.to_string().contains("x.toml"), "{why}"),
});
