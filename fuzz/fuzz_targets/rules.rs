//! A tuning file is read or refused; what was read says what runs, without a crash.
#![no_main]

use collcost::base::quantity::Bytes;
use collcost::library::openmpi::rules as openmpi;
use collcost::library::tuning_file;
use collcost::library::tuning_file::TuningFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match tuning_file::read_rules(text, "file") {
        Ok(
            TuningFile::OpenMpi(rules)
            | TuningFile::OpenMpiVersioned(rules)
            | TuningFile::OpenMpiJson(rules),
        ) => {
            for coll in openmpi::Coll::all() {
                for edge in rules.edges(coll, 5) {
                    assert!(rules.rule(coll, 5, edge).is_some());
                }
                let _ = rules.rule(coll, u32::MAX, Bytes(u64::MAX));
            }
        }
        Ok(TuningFile::Mpich(tree)) => assert!(tree.missing().len() < 44),
        Ok(TuningFile::Nccl(rules)) => {
            for rule in &rules.rules {
                assert!(rules.edges(rule.collective).contains(&rule.from));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // Each reader by itself, whatever the text looks like.
    let _ = tuning_file::read_openmpi_rules(text, "file");
    let _ = tuning_file::read_mpich_json(text, "file");
    let _ = tuning_file::read_nccl_tuner_csv(text, "file");
});
