//! `docs/schema/` holds a JSON Schema of every report, and what the command prints keeps to them.
//!
//! `TRYCMD=overwrite cargo test --test command schemas` writes the present schemas.

#[path = "../support/shown.rs"]
mod shown;

use std::collections::BTreeMap;
use std::path::Path;

use collcost::answer::{self, convert, explain, list};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The schema of one report as it is printed, named as its `schema` key names it.
fn schema<Report: JsonSchema>(name: &str) -> (String, Value) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>().to_value();
    schema["title"] = json!(name);
    schema["properties"]["schema"]["const"] = json!(name);
    (name.to_owned(), schema)
}

fn schemas() -> BTreeMap<String, Value> {
    BTreeMap::from([
        schema::<answer::accuracy::Accuracy>("collcost/accuracy/1"),
        schema::<answer::accuracy_answer::AnswerAccuracy>("collcost/accuracy-answer/1"),
        schema::<answer::Bands>("collcost/bands/2"),
        schema::<answer::arrival::Arrival>("collcost/arrival/1"),
        schema::<answer::bucket::Buckets>("collcost/bucket/1"),
        schema::<answer::calibrate::Calibration>("collcost/calibrate/1"),
        schema::<answer::check::Check>("collcost/check/1"),
        schema::<answer::check_diff::CheckDiff>("collcost/check-diff/1"),
        schema::<answer::check::Inputs>("collcost/check-inputs/1"),
        schema::<answer::compare::Compare>("collcost/compare/1"),
        schema::<answer::compare::TwoView>("collcost/compare-two/1"),
        schema::<answer::Config>("collcost/config/1"),
        schema::<convert::Converted>("collcost/convert/1"),
        schema::<answer::Cost>("collcost/cost/2"),
        schema::<answer::Crossover>("collcost/crossover/1"),
        schema::<answer::curves::Fitted>("collcost/curves/1"),
        schema::<answer::devices::Devices>("collcost/devices/1"),
        schema::<explain::Explanation>("collcost/explain/1"),
        schema::<answer::fit::Fit>("collcost/fit/1"),
        schema::<answer::fleet::FleetView>("collcost/fleet/1"),
        schema::<answer::import::Import>("collcost/import/1"),
        schema::<answer::Intervals>("collcost/intervals/2"),
        schema::<answer::job::JobView>("collcost/job/1"),
        schema::<answer::job::JobSearch>("collcost/job-search/1"),
        schema::<answer::job::Jobs>("collcost/jobs/1"),
        schema::<list::List>("collcost/list/1"),
        schema::<answer::Map>("collcost/map/2"),
        schema::<answer::nccl::Choose>("collcost/nccl-choose/1"),
        schema::<answer::nccl_graphs::NcclGraphs>("collcost/nccl-graph/1"),
        schema::<answer::nccl_log::NcclLog>("collcost/nccl-log/1"),
        schema::<answer::nccl_tables::NcclTables>("collcost/nccl-table/1"),
        schema::<answer::optimum::Optimum>("collcost/optimum/1"),
        schema::<answer::nccl_diff::NcclDiff>("collcost/nccl-diff/1"),
        schema::<answer::nccl_whatif::NcclWhatif>("collcost/nccl-whatif/1"),
        schema::<answer::plan::Plan>("collcost/plan/1"),
        schema::<answer::plan::PlanDiff>("collcost/plan-diff/1"),
        schema::<answer::plan::PlanVary>("collcost/plan-vary/1"),
        schema::<answer::ProfileView>("collcost/profile/1"),
        schema::<answer::Profiles>("collcost/profiles/1"),
        schema::<answer::ProfilesCheck>("collcost/profiles-check/1"),
        schema::<answer::ProfilesDiff>("collcost/profiles-diff/2"),
        schema::<answer::race::Race>("collcost/race/1"),
        schema::<answer::run::Run>("collcost/run/2"),
        schema::<answer::select::Select>("collcost/select/1"),
        schema::<answer::select::SelectMap>("collcost/select-map/1"),
        schema::<answer::serve::ServeView>("collcost/serve/1"),
        schema::<answer::simulate::Simulation>("collcost/simulate/1"),
        schema::<answer::Sweep>("collcost/sweep/2"),
        schema::<answer::check::Thresholds>("collcost/thresholds/1"),
        schema::<answer::trace::Trace>("collcost/trace/1"),
        schema::<answer::traffic::Traffic>("collcost/traffic/1"),
        schema::<answer::verify::Verification>("collcost/verify/1"),
    ])
}

#[test]
fn the_published_schemas_are_those_of_the_reports() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
    let overwrite = std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite");
    for (name, schema) in schemas() {
        let file = name.replace("collcost/", "").replace('/', ".") + ".json";
        let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
        if overwrite {
            std::fs::write(folder.join(&file), &text).expect("the folder is there");
        }
        let published = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
        assert!(published == text, "docs/schema/{file} is not the schema of {name}");
    }
    assert_eq!(folder.read_dir().expect("it is there").count(), schemas().len());
}

/// What two ranks of Open MPI would race; absent where it is not installed.
fn race() -> Option<std::process::Output> {
    let mut command = std::process::Command::new("mpirun.openmpi");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]);
    command.arg(env!("CARGO_BIN_EXE_collcost")).args(["calibrate", "--library", "openmpi"]);
    command.arg("--on").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fitted.toml"));
    command.args(["--ops", "allreduce", "--time-budget", "5s", "--format", "json"]).output().ok()
}

#[test]
fn every_json_report_keeps_to_its_schema() {
    let compiled: BTreeMap<String, jsonschema::Validator> = schemas()
        .into_iter()
        .map(|(name, schema)| (name, jsonschema::validator_for(&schema).expect("a schema")))
        .collect();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    // What takes another time on each machine is shown nowhere.
    let more = [
        "list",
        "accuracy tests/data/published_points.csv",
        "profiles",
        "run allreduce ring 1KiB -n 2 --wait poll --reps 3 --alpha 1us --bw 1GB/s",
        "calibrate --dry-run --force",
        "compare tests/data/logs/imb.txt tests/data/logs/imb.txt tests/data/logs/imb.txt tests/data/logs/imb.txt tests/data/logs/imb.txt --fleet",
    ];
    let more = more.map(|line| line.split(' ').map(str::to_owned).collect());
    let shown = shown::commands().into_iter().chain(more).map(|words: Vec<String>| {
        let output = shown::run(&words, &["--format", "json"]);
        (words, output)
    });
    let race = race();
    if race.is_none() {
        eprintln!("not run: mpirun.openmpi is not installed (apt-get install openmpi-bin)");
        seen.insert("collcost/race/1".to_owned(), 0);
    }
    for (words, output) in shown.chain(race.map(|output| (vec!["a race".to_owned()], output))) {
        let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
        let Some(name) = report["schema"].as_str() else { continue };
        let validator = compiled.get(name).unwrap_or_else(|| panic!("{name} is not published"));
        let errors: Vec<String> =
            validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{words:?}: {errors:#?}");
        *seen.entry(name.to_owned()).or_default() += 1;
    }
    let missing: Vec<_> = compiled.keys().filter(|name| !seen.contains_key(*name)).collect();
    assert!(missing.is_empty(), "no command printed {missing:?}");
}
