//! The command as a process: answers, errors, exit codes, pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

use crate::full::one_in;

fn collcost(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(line.split_whitespace());
    command
}

fn output(line: &str) -> Output {
    collcost(line).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it writes UTF-8")
}

#[test]
fn the_main_command_leads_with_what_is_expected() {
    let answer = output("allreduce --n 64 --size 16MiB");
    assert!(answer.status.success());
    let table = text(&answer.stdout);
    for part in [
        "all-reduce, 16 MiB per rank, 64 ranks on 8 nodes of dgx-h100 (default)",
        "  expected ",
        "  runs        NVLSTree/Simple",
        "  known from ",
        "  ideal  × bound",
    ] {
        assert!(table.contains(part), "{part}:\n{table}");
    }
    assert!(answer.stderr.is_empty());
}

#[test]
fn a_collective_is_taken_as_people_type_it() {
    let flags = "--n 8 --size 1MiB --alpha 1us --bw 100GB/s --format json";
    let plain = output(&format!("allreduce {flags}")).stdout;
    for name in ["all_reduce", "AllReduce", "ar", "MPI_Allreduce"] {
        assert_eq!(output(&format!("{name} {flags}")).stdout, plain, "{name}");
    }
}

/// As `batch` says: one rank needs no links, whose α may be unknown.
#[test]
fn one_rank_needs_no_links() {
    for name in ["allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce"] {
        let answer = output(&format!("{name} 1MiB -n 1 --on trn2"));
        let said = text(&answer.stdout);
        assert!(said.contains("nothing is communicated"), "{name}: {}", text(&answer.stderr));
    }
}

#[test]
fn a_size_may_be_a_range() {
    let on = "-n 8 --on dgx-h100 --format json";
    let plain = output(&format!("allreduce -b 1K -e 1M {on}"));
    assert!(plain.status.success());
    for range in ["1K..1M", "1K..=1M", "--size 1K..1M"] {
        assert_eq!(output(&format!("allreduce {range} {on}")).stdout, plain.stdout, "{range}");
    }
    assert_eq!(output(&format!("allreduce 1M..1K {on}")).status.code(), Some(2));
}

/// Numbers that can be read in two ways are refused; the same number twice is one row.
#[test]
fn typed_numbers_mean_what_they_say() {
    for (line, said) in [
        ("allreduce 1K...1G -n 64", "`1K...1G` is not a size"),
        ("allreduce 1MiB -n 1,024", "begins with 0"),
        ("allreduce 1MiB -n 8,0", "`0` ranks"),
        ("allreduce 1MiB -n 8 --launch 1e300s", "thirty years"),
        ("plan tests/data/jobs/two.toml --svg two.svg", "these are several jobs"),
        (
            "plan tests/data/jobs/llama3-70b.toml --search --gpus 64 --plot",
            "a picture shows one step",
        ),
        ("plan --presets --format json", "--presets"),
        ("import /dev/null", "the file is empty"),
    ] {
        let answer = output(line);
        let error = text(&answer.stderr);
        assert!(answer.status.code() == Some(2) && error.contains(said), "{line}: {error}");
    }
    let rows = |counts: &str| output(&format!("allreduce 1MiB -n {counts} --format csv")).stdout;
    assert_eq!(rows("8,16,8"), rows("8,16"));
}

#[test]
fn help_keeps_to_the_characters_of_the_locale() {
    for line in ["--help", "allreduce --help", "allreduce 1MiB -n 8 --frobnicate"] {
        let answer = collcost(line).env("LC_ALL", "C").output().expect("the command starts");
        let (out, error) = (answer.stdout, answer.stderr);
        assert!(out.is_ascii() && error.is_ascii() && out.len() + error.len() > 50, "{line}");
    }
}

#[test]
fn json_has_the_promised_keys() {
    let answer = output("allreduce --n 16 --size 1MiB --format json --all");
    let report: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(report["schema"], "collcost/cost/2");
    for key in [
        "question",
        "machine",
        "expect",
        "bound_s",
        "algorithms",
        "runs",
        "fastest",
        "ideal_switch_points",
        "notes",
    ] {
        assert!(!report[key].is_null(), "{key}");
    }
    let rows = report["algorithms"].as_array().unwrap();
    let keys = [
        "id",
        "applies",
        "reason",
        "n_alpha",
        "n_beta",
        "latency_s",
        "bandwidth_s",
        "compute_s",
        "time_s",
        "bound_ratio",
        "algbw_Bps",
        "busbw_Bps",
        "ships",
    ];
    for row in rows {
        for key in keys {
            assert!(row.get(key).is_some(), "{key} of {row}");
        }
        assert_eq!(row["applies"].as_bool().unwrap(), row["reason"].is_null());
    }
}

#[test]
fn a_crossover_is_exact() {
    let answer =
        output("crossover allreduce tree ring --n 64 --alpha 1us --bw 100GB/s --format json");
    let report: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert!((report["size_bytes"].as_f64().unwrap() - 1_136_448.598_130_84).abs() < 1e-3);
    assert_eq!((&report["below"], &report["above"]), (&"tree".into(), &"ring".into()));
}

/// A pipeline is straight where it has one segment, and bends: a line may be cheaper in between.
#[test]
fn every_crossover_is_said() {
    let line = "crossover reduce chain reduce-scatter-gather -n 5 --alpha 1us --bw 1GB/s";
    let report: serde_json::Value =
        serde_json::from_slice(&output(&format!("{line} --format json")).stdout).unwrap();
    let ids = [&report["below"], &report["above"], &report["further"][0]["above"]];
    assert_eq!(ids, ["chain", "reduce-scatter-gather", "chain"]);
    assert!((report["size_bytes"].as_f64().unwrap() - 1000.0 / 0.9).abs() < 1e-3);
    assert!(report["always"].is_null() && report["further"].as_array().unwrap().len() == 1);
    let text = String::from_utf8(output(line).stdout).unwrap();
    assert!(!text.contains("never slower"), "{text}");
    for said in
        ["chain wins for the smallest sizes", "on reduce-scatter-gather wins", "on chain wins"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn every_crossover_is_a_row() {
    let line =
        "crossover reduce chain reduce-scatter-gather -n 5 --alpha 1us --bw 1GB/s --format csv";
    let csv = String::from_utf8(output(line).stdout).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 3, "{csv}");
    assert!(rows[1].contains("chain,reduce-scatter-gather,1111"), "{csv}");
    assert!(rows[2].contains("reduce-scatter-gather,chain,"), "{csv}");
}

/// An interval holds the ranks that were looked at, and what does not apply is named.
#[test]
fn a_crossover_over_ranks_says_where_it_looked() {
    let line = "crossover allreduce swing bine -n 4,6,8 --size 1MiB --alpha 1us --bw 100GB/s";
    let report: serde_json::Value =
        serde_json::from_slice(&output(&format!("{line} --format json")).stdout).unwrap();
    let found = report["intervals"].as_array().unwrap();
    let ends: Vec<_> = found.iter().map(|i| (i["from"].as_f64(), i["to"].as_f64())).collect();
    assert_eq!(ends, [(Some(4.0), Some(4.0)), (Some(8.0), Some(8.0))], "{report}");
    assert_eq!(report["at_ranks"], serde_json::json!([4, 6, 8]));
    assert_eq!(report["left_out"][0]["id"], "swing");
    assert_eq!(report["left_out"][0]["ranks"], serde_json::json!([6]));
    let said = text(&output(line).stdout);
    for part in [
        "only 4, 6, 8 ranks are looked at; between them another may win",
        "left out  `swing` does not apply: 6 ranks are not a power of two (at 6 ranks)",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let said =
        text(&output("crossover allreduce swing bine ring -n 12 --alpha 1us --bw 100GB/s").stdout);
    assert!(
        said.contains("left out  `swing` does not apply: 12 ranks are not a power of two"),
        "{said}"
    );
    let said =
        text(&output("crossover allreduce -n 7,8 --size 1MiB --alpha 1us --bw 1GB/s").stdout);
    assert!(!said.contains("looked at"), "{said}");
    let said = text(&output("crossover barrier -n 2..8 --alpha 1us --bw 1GB/s").stdout);
    assert!(said.starts_with("barrier over ranks, machine"), "{said}");
}

#[test]
fn elements_round_the_largest_message_up() {
    let time = |flags: &str| {
        let line = format!(
            "allreduce --n 3 --size 40 --alpha 0 --bw 1GB/s --algorithm ring --format json {flags}"
        );
        let report: serde_json::Value = serde_json::from_slice(&output(&line).stdout).unwrap();
        report["algorithms"][0]["time_s"].as_f64().unwrap()
    };
    // 40 bytes over 3 ranks: 13.33 bytes a message, or 4 of 10 floats.
    assert!((time("") - 4.0 * 40.0 / 3.0 * 1e-9).abs() < 1e-18);
    assert!((time("--elements float") - 4.0 * 16.0 * 1e-9).abs() < 1e-18);
}

/// What is wrong, where, how to mend it: three lines and exit code 2.
#[test]
fn wrong_input_gets_three_lines() {
    let cases = [
        ("allreduce --n 8 --size 1MB --algorithm rabenseifer", "did you mean `rabenseifner`?"),
        ("allreduce --n 8 --size 16parsecs", "unit `parsecs` is unknown"),
        ("allreduce 1M,8M,1G --n 8", "-b 1M -e 1G -f 2"),
        ("allreduce --n 8 --size 16Mb", "16 megabits, not bytes"),
        ("allreduce --n -4 --size 1MB", "it cannot be negative"),
        ("allreduce --n 0 --size 1MB", "there must be at least one"),
        ("allreduce --n 8 --size 1e30", "more than any memory"),
        ("allreduce --n 8 --size 7B", "write 7 for bytes, or 7B@bf16"),
        ("explain allreduce ring 70B -n 8", "write 70 for bytes, or 70B@bf16"),
        ("barrier -n 8 --size 4", "leave out the size"),
        ("allreduce --n 8 --size NaN", "does not start with a number"),
        ("allreduce --n 8 --size -1", "negative"),
        ("allreduce --n 8 --size 1MB --bw 100", "without unit"),
        ("allreduce --n 8 --size 1MB --alpha 5", "without unit"),
        ("allgather --n 6 --size 1MB --algorithm recursive_doubling", "6 is not one"),
        ("allreduce --n 60 --nodes 8 --gpus-per-node 8 --size 1MB", "are 64, not 60"),
        ("allreduce --n 64 --nodes 3 --size 1MB", "do not divide"),
        ("allreduce --n 32 --gpus-per-node 16 --size 1MB", "do not fit"),
        ("allreduce 1M -n 2 --nodes 2 --on a100-pcie", "2 ranks need a network"),
        ("allreduce 1M -n 4 --nodes 2 --on shm-x86", "4 ranks need a network"),
        ("compare allreduce -n 4 -g 1 --size 1M --time 300us --on shm-x86", "need a network"),
        ("allreduce 1M -n 16 --on a100-pcie", "or give one: --alpha-inter and --bw-inter"),
        (
            "allreduce --n 64 --gpus-per-node 8 --size 1MB --alpha 1us --bw 1GB/s --alpha-inter 5us",
            "unknown",
        ),
        ("allreduce --n 8 --size 1MB --on dgx-h10", "did you mean `dgx-h100`?"),
        ("allreduce --n 8 --size 1MB --on /nowhere.toml", "cannot be read"),
        ("allreduce --n 8 --algorithm ring", "how many bytes?"),
        ("allreduce --n 8 --vary bw=1GB/s..2GB/s", "not a parameter"),
        ("allreduce --n 8 -b 1M", "both ends"),
        ("allreduce --n 8 -b 1K -e 1M --vary inter.alpha=1us..2us", "one range at a time"),
        ("allreduce --n 2,4 --size 1M --vary inter.alpha=1us..2us", "--n and --vary"),
        ("allreduce --n 8 -b 1K -e 1M --sort busbw", "columns and order"),
        ("allreduce --n 8 --size 1MB --set inter.bq=1GB/s", "did you mean `inter.bw`?"),
        ("allreduce --n 1024..2 --size 1MB", "has no ranks"),
        ("allreduce --n 8 --size 1MB --columns stepps", "did you mean `steps`?"),
        ("allreduce --n 8 --size 1MB --library rocl", "is not a library"),
        ("crossover allreduce ring bruck --n 8", "only for all-to-all"),
        ("crossover allreduce tree ring --n 1", "one rank communicates nothing"),
        ("crossover allreduce --n 1", "one rank communicates nothing"),
        ("crossover allreduce swing --n 12 --alpha 1us --bw 1GB/s", "not a power of two"),
        (
            "crossover allreduce swing bine ring-tree --n 12 --alpha 1us --bw 1GB/s",
            "not a power of two",
        ),
        ("crossover allreduce swing bine --n 6,12 --size 1MiB", "not a power of two"),
        ("crossover allreduce --n 64 --size 1MiB", "for one number of ranks the size varies"),
        ("crossover barrier --n 7", "a barrier moves no data"),
        ("crossover barrier dissemination tree --n 7", "a barrier moves no data"),
        ("crossover barrier --size 1KiB --n 2..8", "a barrier moves no data"),
        (
            "allreduce 1M -n 16 -g 8 --alpha 1us --bw 9GB/s --alpha-inter 5us --bw-inter 1GB/s --vary x=1us..2us",
            "known: intra.alpha, intra.bw, inter.alpha",
        ),
        (
            "allreduce 1M -n 16 --on a100-pcie --bw-inter 50GB/s",
            "give both --alpha-inter and --bw-inter",
        ),
        ("simulate allreduce", "how many bytes?"),
        ("simulate allreduce rign 1M -n 8", "did you mean `ring`?"),
        ("simulate allreduce ring 1M -n 8 --root 1", "has no root"),
        ("simulate broadcast chain 1M -n 8 --root 8", "there is no rank 8"),
        ("simulate allreduce ring 1M -n 8 --start 8=1us", "there is no rank 8"),
        ("simulate allreduce ring 1M -n 8 --start 3", "is incomplete"),
        ("simulate allreduce ring 1M -n 8 --start 3=5", "without unit"),
        ("simulate allreduce ring 1M -n 8 --slow-rank x=2", "is not a rank"),
        ("simulate allreduce ring 1M -n 8 --slow-link 0-1=0", "not a number above 0"),
        ("simulate allreduce ring 1M -n 8 --slow-link 0-5=2", "0 sends to 1"),
        ("allreduce 1M -n 8 --alpha-inter 5us", "`--alpha-inter` changes nothing"),
        ("allreduce 1M -n 8 --nics-per-node 4", "use more nodes"),
        ("allreduce 1M -n 8 --set inter.bw=50GB/s", "all ranks are on one node"),
        ("allreduce 1M -n 8 --vary inter.alpha=1us..2us", "all ranks are on one node"),
        ("allreduce 1M -n 8 -g 1 --bw 1GB/s", "each rank is alone on its node"),
        ("allreduce 1M -n 8 --eta-beta 1.2", "contention makes no link faster"),
        ("allreduce 1M -n 8 --c-real 0.5", "every rank gets all of the vector"),
        ("simulate allreduce ring 1M -n 8 --mode fast", "is not a mode"),
        ("simulate allreduce ring 1M -n 8 --discipline rude", "not a way to share a port"),
        ("simulate allreduce ring 1M -n 8 --duplex-factor 2", "is not a duplex factor"),
        ("simulate broadcast chain 1G -n 64 --segments 100000000", "MiB, more than the"),
        ("verify allreduce --algorithm rign", "did you mean `ring`?"),
        ("verify --n 9..3", "has no ranks"),
        ("verify --n 1..1000000", "more than 4096"),
        ("allreduce --n 8 --simulate", "how many bytes?"),
        ("allreduce --n 8 -b 1K -e 1M --simulate", "cannot be simulated"),
        ("export mscl allreduce ring -n 4", "did you mean `msccl`?"),
        ("export msccl barrier dissemination -n 4", "knows no barrier"),
        (
            "export msccl allreduce inc -n 4 --alpha 1us --bw 1GB/s --alpha-switch 1us",
            "knows no switches",
        ),
        ("export goal allreduce ring 3 -n 4", "do not divide into"),
        ("export goal allreduce ring -n 4 --output /nowhere/x", "cannot be written"),
        ("simulate --schedule /nowhere/x", "cannot be read"),
        ("simulate gather flat 1MiB -n 4 --root-speedup 2", "a root with faster links"),
        ("verify --schedule Cargo.toml", "holds no schedule"),
        ("torus --n 8", "unrecognized"),
        ("trace alreduce", "did you mean `allreduce`?"),
        ("trace allreduce rinq -n 4", "did you mean `ring`?"),
        ("trace allreduce ring -n 4 --step 7", "steps are 0, the start, to 6"),
        ("trace allreduce ring -n 4 --root 1", "has no root"),
        ("trace broadcast chain -n 4 --root 4", "ranks are 0 to 3"),
        ("trace allreduce ring -n 4 --mode slow", "sync, local or flow"),
        ("trace allreduce ring -n 2 --data 1,2;3", "give every rank the same number"),
        ("trace allreduce ring -n 2 --data 1,x;3,4", "`x` is not a number"),
        ("trace allreduce ring -n 2 --data /nowhere", "cannot be read"),
        ("trace barrier -n 2 --data 1;2", "carries no data"),
        ("trace allreduce ring -n 3 42 --elements float", "not a whole number of elements"),
        ("trace allreduce ring -n 600", "--events"),
        ("nccl choose alreduce --comm dgx_h100_8x400g.p8.n2", "did you mean `allreduce`?"),
        ("nccl choose alltoall --comm dgx_h100_8x400g.p8.n2", "does not tune all-to-all"),
        ("nccl choose allreduce", "which communicator?"),
        ("nccl choose allreduce --comm dgx_h10_8x400g.p8.n2", "did you mean `dgx_h100_8x400g`?"),
        ("nccl choose allreduce --comm dgx_h100_8x400g", "write machine.pRANKS_PER_NODE.nNODES"),
        ("nccl choose allreduce --comm dgx_h100_8x400g.p5.n2", "p1 on 2 nodes or more"),
        ("nccl choose allreduce --comm dgx_h100_8x400g.p8.n999999999", "ranks are too many"),
        ("nccl choose allreduce --comm dgx_h100_8x400g.p8.n2 --nccl 2.17.1", "2.18 or later"),
        ("nccl choose allreduce --comm dgx_h100_8x400g.p8.n2 --nccl new", "is not an NCCL version"),
        (
            "nccl choose allreduce --comm dgx_h100_8x400g.p8.n2 --env NCCL_ALGO",
            "is not an assignment",
        ),
        (
            "nccl choose allreduce --comm dgx_h100_8x400g.p8.n2 --env NCCL_ALG=Ring",
            "does not read `NCCL_ALG`",
        ),
        (
            "nccl choose allreduce --comm dgx_h100_8x400g.p8.n2 --env NCCL_ALGO=Rin",
            "refuses the name",
        ),
        (
            "nccl choose allreduce --comm dgx_h100_8x400g.p8.n2 --env NCCL_NTHREADS=x",
            "whole number",
        ),
        ("nccl choose allreduce 0 --comm dgx_h100_8x400g.p8.n2", "above 0"),
        ("nccl choose allreduce -b 8M -e 1M --comm dgx_h100_8x400g.p8.n2", "--begin 8M --end 1M"),
        ("nccl choose allreduce 16Mb --comm dgx_h100_8x400g.p8.n2", "16 megabits, not bytes"),
        (
            "nccl choose allreduce 1M --comm dgx_h100_8x400g.p8.n2 --op mean",
            "is not an operation of NCCL",
        ),
        (
            "nccl table --comms tests/data/nccl_comms.csv --format log",
            "the table of one communicator",
        ),
        (
            "nccl table --comms tests/data/nccl_comms.csv --nodes 4",
            "says this of each of its communicators",
        ),
        ("explain K1 ring", "`K1` is a topic, without algorithms"),
        ("explain K1 --on dgx-h100", "the page is about no call"),
        ("nccl replay --comms tests/data/nccl_envs.csv", "has no column `id`"),
        ("nccl log tests/data/nccl_logs/one-nic.log --ranks 8", "has 16 ranks, not 8"),
        ("choose opnmpi allreduce 1M -n 8", "did you mean `openmpi`?"),
        ("choose openmpi@7 allreduce 1M -n 8", "known: openmpi@5.0"),
        ("choose nccl@2.17 allreduce 1M -n 8", "2.18 or later"),
        ("choose allreduce 1M -n 8 --policy nccl@2.17", "2.18 or later"),
        ("choose allreduce 1M -n 8", "which library's rules?"),
        ("choose openmpi allreduce 8M..1M -n 8", "write the smaller size first"),
        ("choose rules-file:/nowhere allreduce 1M -n 8", "name a text file"),
        ("choose rules-file:Cargo.toml allreduce 1M -n 8", "Cargo.toml:1"),
        ("choose nccl allreduce 1M -n 16 --on dgx-h100 --bw-inter 24GB/s", "are not known"),
        ("export openmpi-rules -n 8 --for openmpi@6", "known versions: openmpi@4.1"),
        ("export nccl-tuner-csv --comm dgx_h10_8x400g.p8.n2 --on dgx-h100", "did you mean"),
        ("man nccl chose", "did you mean `choose`?"),
        ("bucket --model 7B -n 64", "7B@bf16"),
        ("select rccl allreduce 1M -n 8", "RCCL's rules on dgx-h100 are not known"),
        ("select oneccl allreduce 1M -n 8", "the rules of oneCCL are not known"),
        ("choose mvapich2 allreduce 1M -n 8", "the rules of MVAPICH2 are not known"),
        ("choose openmpi barrier 1M -n 8", "a barrier moves no data"),
        ("explain barrier 1M -n 8", "a barrier moves no data"),
        ("simulate barrier dissemination 1M -n 8", "a barrier moves no data"),
        ("simulate allreduce ring 1M -n 8 --start 3=6us --start 3=1us", "rank 3 starts twice"),
        ("nccl whatif allreduce 1M --on /nowhere.xml --try NCCL_DEBUG=WARN", "--on /nowhere.xml"),
    ];
    for (line, part) in cases {
        let answer = output(line);
        let message = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{line}: {message}");
        assert!(message.starts_with("error: ") && message.contains(part), "{line}: {message}");
        assert!(answer.stdout.is_empty(), "{line}");
        if !message.contains("unrecognized") {
            assert_eq!(message.lines().count(), 3, "{line}: {message}");
        }
    }
}

#[test]
fn an_argument_that_cannot_be_placed_gets_a_tip() {
    let cases = [
        ("allreduce 16 MiB -n 8", "as one word: 16MiB"),
        ("allreduce --plott -n 8", "a similar argument exists: '--plot'"),
        ("allreduce 16MiB --slow-link 3=2", "`--slow-link` is a flag of `collcost simulate`"),
        ("plan train.sh --on dgx-h100", "`--on` is a key here: --set profile=…"),
        ("plan train.sh --tp=4", "--set tp=…"),
        ("compare allreduce --set bw=1GB/s", "`collcost allgather` and "),
        ("allreduce 16MiB --machine dgx-h100", "`--on` is the flag for that"),
        ("allreduce 16MiB --latency 1us", "`--alpha` is the flag for that"),
        ("select nccl allreduce 16MiB --hosts 2", "`--nodes` is the flag for that"),
        ("allreduce 16MiB --json", "write --format json"),
        ("allreduce 16MiB -np 8", "write -n 8"),
    ];
    for (line, tip) in cases {
        let answer = output(line);
        let message = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{line}");
        assert!(message.contains("\n  tip: ") && message.contains(tip), "{line}: {message}");
    }
}

#[test]
fn an_algorithm_is_explained_without_its_collective_in_any_case() {
    for name in ["NVLSTree", "Rabenseifner", "Ring (one per rail)", "rabenseifner"] {
        let answer = Command::new(env!("CARGO_BIN_EXE_collcost"))
            .args(["explain", name, "-n", "64"])
            .output()
            .unwrap();
        assert!(answer.status.success(), "{name}: {}", text(&answer.stderr));
    }
}

#[test]
fn batch_exits_by_how_many_of_its_lines_are_answered() {
    let right =
        r#"{"kind":"expect","collective":"allreduce","n":8,"size_bytes":8,"profile":"dgx-h100"}"#;
    for (lines, code) in
        [(right.to_owned(), 0), (format!("{right}\n{{}}"), 1), ("{}".to_owned(), 2)]
    {
        let mut batch = Command::new(env!("CARGO_BIN_EXE_collcost"));
        let mut batch =
            batch.arg("batch").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        batch.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert_eq!(batch.wait().unwrap().code(), Some(code), "{lines}");
    }
}

/// What is no number is no answer, and a file may begin with a byte-order mark.
/// A question that is long is not repeated, only the point that is wrong.
#[test]
fn batch_names_the_point_that_is_wrong() {
    let of = |points: &str| {
        format!(
            r#"{{"kind":"compare","collective":"allreduce","n":8,"profile":"dgx-h100","points":[["1GiB","5ms"],{points}]}}"#
        )
    };
    for (points, place) in [
        (r#"["2GiB",5,5]"#, r#"points[1]: ["2GiB",5,5]"#),
        (r#"["2GiB","foo"]"#, r#"points[1]: ["2GiB","foo"]"#),
        ("[8,1],[-1,5]", "points[2]: [-1,5]"),
    ] {
        let mut batch = collcost("batch");
        let mut batch = batch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        batch.stdin.take().unwrap().write_all(of(points).as_bytes()).unwrap();
        let said = text(&batch.wait_with_output().unwrap().stdout);
        assert!(said.replace('\\', "").contains(&format!("n  {place}n  write ")), "{said}");
        assert!(!said.contains("5ms"), "{said}");
    }
}

/// A folder as standard input is the caller's fault, not a loss.
#[cfg(unix)]
#[test]
fn a_folder_as_standard_input_is_refused() {
    for line in ["batch", "import -", "mcp"] {
        let folder = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        let answer = collcost(line).stdin(folder).output().unwrap();
        let said = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{line}: {said}");
        let whole = "error: a folder cannot be read\n  standard input\n  give a file: < FILE\n";
        assert_eq!(said, whole, "{line}");
    }
}

/// Nothing is measured in it, whatever could be held out of more.
#[test]
fn a_folder_without_files_is_refused_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let answer = collcost("accuracy").arg(folder.path()).output().unwrap();
    let said = text(&answer.stderr);
    assert_eq!(answer.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: the folder has no files\n"), "{said}");
}

#[test]
fn batch_writes_json_or_an_error() {
    let pipeline =
        r#"{"kind":"pipeline","depth":7,"n":8,"size_bytes":1e6,"alpha_s":0,"bandwidth_Bps":1e11}"#;
    let cost = r#"{"kind":"cost","algorithm":"ring","n":8,"size_bytes":1e300,"alpha_s":1e300,"bandwidth_Bps":1e-300}"#;
    let seen = |seen: &str| {
        format!(
            r#"{{"kind":"expect","collective":"allreduce","n":8,"size_bytes":8,"profile":"dgx-h100","seen":"{seen}"}}"#
        )
    };
    let lines = [
        format!("\u{feff}{}", seen("1MiB=88us")),
        pipeline.to_owned(),
        cost.to_owned(),
        seen("1MiB=0us"),
        seen("0=1us"),
    ];
    let mut batch = Command::new(env!("CARGO_BIN_EXE_collcost"));
    let mut batch =
        batch.arg("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    batch.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let answers = text(&batch.wait_with_output().unwrap().stdout);
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let refused: Vec<bool> = answers.iter().map(|answer| answer.get("error").is_some()).collect();
    assert_eq!(refused, [false, true, true, true, true], "{answers:?}");
    assert_eq!((&answers[0]["machine"], &answers[0]["ranks"]), (&"dgx-h100".into(), &8.into()));
}

/// The id of a line that is refused, whole numbers as programs write them, and what nobody can mean.
#[test]
fn batch_reads_what_programs_write() {
    let ask = |more: &str| {
        format!(
            r#"{{"id":7,"kind":"expect","collective":"allreduce","profile":"dgx-h100",{more}}}"#
        )
    };
    let large = format!(r#"{{"id":8,"kind":"trace","x":"{}"}}"#, "y".repeat(3 << 20));
    let lines = [
        ask(r#""n":8.0,"size_bytes":1e6"#),
        ask(r#""n":8,"size_bytes":1e6"#),
        ask(r#""n":8,"size_bytes":1e30"#),
        ask(r#""n":8,"size_bytes":"7B""#),
        ask(r#""n":8,"size_bytes":1,"primitive":"allgather""#),
        r#"{"id":5,"kind":"cost","algorithm":5}"#.to_owned(),
        large,
    ];
    let mut batch = Command::new(env!("CARGO_BIN_EXE_collcost"));
    let mut batch =
        batch.arg("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    batch.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let answers = text(&batch.wait_with_output().unwrap().stdout);
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(answers[0], answers[1]);
    let said = |at: usize| answers[at]["error"].as_str().unwrap_or("answered").to_owned();
    for (at, part) in [(2, "2^64"), (3, "billions"), (4, "two collectives"), (6, "`x`")] {
        assert!(said(at).contains(part), "{}", said(at));
    }
    let ids: Vec<_> = answers.iter().map(|a| a["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [7, 7, 7, 7, 7, 5, 8]);
}

/// A line that is no text has no id to give back, and the next one is answered.
#[test]
fn batch_refuses_what_is_not_utf8() {
    let mut batch = Command::new(env!("CARGO_BIN_EXE_collcost"));
    let mut batch =
        batch.arg("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = b"{\"id\":\"\xff\",\"kind\":\"expect\"}\n".to_vec();
    lines.extend_from_slice(
        br#"{"id":2,"kind":"expect","collective":"allreduce","n":8,"size_bytes":1,"profile":"dgx-h100"}"#,
    );
    batch.stdin.take().unwrap().write_all(&lines).unwrap();
    let answers = text(&batch.wait_with_output().unwrap().stdout);
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(answers[0]["id"].is_null() && answers[0]["error"].as_str().unwrap().contains("UTF-8"));
    assert_eq!((answers.len(), &answers[1]["id"]), (2, &2.into()));
}

/// The choices of `batch` by libraries, for types of elements.
fn choices_of_batch(asked: &[(&str, &str)]) -> Vec<serde_json::Value> {
    let lines: Vec<String> = asked
        .iter()
        .map(|(library, dtype)| {
            format!(r#"{{"kind":"choose","library":"{library}","collective":"allreduce","dtype":"{dtype}","size_bytes":"4MiB","profile":"dgx-h100","n":8}}"#)
        })
        .collect();
    let mut batch = Command::new(env!("CARGO_BIN_EXE_collcost"));
    let mut batch =
        batch.arg("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    batch.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let answers = text(&batch.wait_with_output().unwrap().stdout);
    answers.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// A tool's choice is the command's, with the type of the elements.
#[test]
fn a_choice_of_batch_heeds_the_type_of_elements() {
    let answers = choices_of_batch(&[("nccl", "float"), ("nccl", "char")]);
    let chosen: Vec<String> = answers
        .iter()
        .map(|answer| answer["choose"]["intervals"][0]["choice"]["name"].to_string())
        .collect();
    assert!(chosen[0].contains("NVLS") && chosen[1].contains("Ring"), "{chosen:?}");
}

/// Libraries have releases, and another library than the machine's leaves the machine as it is.
#[test]
fn a_choice_of_batch_is_the_commands_for_every_library() {
    let libraries = ["nccl@2.27.7", "openmpi@4.1", "textbook", "mpich", "gloo"];
    let answers = choices_of_batch(&libraries.map(|library| (library, "float")));
    for (library, answer) in libraries.into_iter().zip(answers) {
        let asked = format!("choose {library} allreduce 4MiB -n 8 --on dgx-h100 --format json");
        let output = collcost(&asked).output().unwrap();
        let own: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for key in ["intervals", "notes"] {
            assert_eq!(answer["choose"][key], own[key], "{library}: {answer}");
        }
    }
}

/// Files of NCCL that are damaged, or contradict themselves: the line, and how to mend it.
#[test]
fn damaged_files_of_nccl_are_refused_at_their_line() {
    let graphs = include_str!("../data/nccl_graphs_small.xml");
    let log = include_str!("../data/nccl_logs/h100-2x8.log");
    let first = |text: &str, lines: usize| -> String {
        text.lines().take(lines).map(|line| format!("{line}\n")).collect()
    };
    let both = format!("{log}{}", include_str!("../data/nccl_logs/t4-4x1.log"));
    let graph = "nccl choose allreduce --nodes 4 --gpu a100 --graph";
    let cases = [
        (graph, "cut.xml", first(graphs, 5), 5, "ends inside <graph>"),
        (graph, "path.xml", graphs.replacen("NVL", "NVX", 1), 2, "is not a path type of NCCL"),
        (
            graph,
            "count.xml",
            graphs.replacen("nchannels=\"1\"", "nchannels=\"2\"", 1),
            2,
            "1 channels",
        ),
        (
            graph,
            "pattern.xml",
            graphs.replacen("pattern=\"4\"", "pattern=\"1\"", 1),
            2,
            "pattern 1",
        ),
        ("nccl log", "two.log", both, 53, "--table 1, --table 2"),
        ("nccl log", "cut.log", first(log, 30), 30, "the table ends before"),
        ("nccl log", "none.log", "hello\n".to_owned(), 0, "NCCL_DEBUG=INFO"),
    ];
    for (command, name, content, line, part) in cases {
        let file = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&file, content).unwrap();
        let answer = output(&format!("{command} {file}"));
        let message = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{name}: {message}");
        assert!(answer.stdout.is_empty() && message.contains(part), "{name}: {message}");
        assert_eq!(message.lines().count(), 3, "{name}: {message}");
        let place = if line == 0 { file } else { format!("{file}:{line}") };
        assert!(message.lines().nth(1).unwrap().trim() == place, "{name}: {message}");
    }
}

#[test]
fn batch_answers_in_order_while_the_pipe_stays_open() {
    let mut child = collcost("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for id in 0..3 {
        let line = format!(
            r#"{{"id":{id},"kind":"busbw","primitive":"allreduce","n":4,"algbw_Bps":1e9}}"#
        );
        writeln!(questions, "{line}").unwrap();
        questions.flush().unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, format!("{{\"id\":{id},\"busbw_Bps\":1500000000}}\n"));
    }
    writeln!(questions, "nonsense\n{{\"id\":\"x\",\"kind\":\"cots\"}}").unwrap();
    drop(questions);
    let mut rest = String::new();
    answers.read_to_string(&mut rest).unwrap();
    let lines: Vec<&str> = rest.lines().collect();
    assert!(lines[0].starts_with("{\"id\":null,\"error\":"), "{rest}");
    assert!(
        lines[1].starts_with("{\"id\":\"x\",\"error\":") && lines[1].contains("`cost`"),
        "{rest}"
    );
    // One of the lines is an error.
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Whether latency or bandwidth is at fault shows only beside other sizes.
#[test]
fn a_single_size_has_no_side() {
    for size in ["512KiB", "1MiB", "8GiB"] {
        let ask = format!("compare allreduce --n 16 --size {size} --busbw 1GB/s --on dgx-h100");
        let said = text(&output(&ask).stdout);
        assert!(said.contains("verdict  ill: slow; 1 of 1 sizes"), "{said}");
    }
}

#[test]
fn the_batch_page_shows_what_batch_prints() {
    let page = include_str!("../../docs/reference/batch.md");
    let block = |fence: &str| {
        let (_, rest) = page.split_once(fence).expect("the page has such a block");
        rest.split_once("```").expect("the block ends").0.trim().to_owned()
    };
    let question = block("```sh");
    let question = question.lines().find(|l| l.starts_with('{')).expect("a question");
    let mut child = collcost("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{question}").unwrap();
    let answer = child.wait_with_output().unwrap();
    assert_eq!(text(&answer.stdout).trim(), block("```json"));
}

#[test]
fn the_nccl_page_shows_what_replay_prints() {
    let page = include_str!("../../docs/reference/nccl.md");
    let (_, shell) = page.split_once("collcost nccl replay ").expect("the page replays");
    let (flags, rest) = shell.split_once(" <<'END'\n").expect("questions follow");
    let (questions, rest) = rest.split_once("END\n").expect("they end");
    let answers = rest.split_once("```csv\n").and_then(|(_, r)| r.split_once("```")).unwrap().0;
    let mut command = collcost(&format!("nccl replay {flags}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(questions.as_bytes()).unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), answers);
}

#[test]
fn a_closed_pipe_is_success() {
    let mut child = collcost("allreduce --n 64 --size 16MiB --all --format json")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// What a refusal says: the place and the way out, before anything else is written.
fn refusal(line: &str) -> String {
    let answer = output(line);
    assert_eq!(answer.status.code(), Some(2), "{line}");
    assert!(answer.stdout.is_empty(), "{line}");
    let said = text(&answer.stderr);
    assert_eq!(said.lines().count(), 3, "{line}:\n{said}");
    said
}

#[test]
fn every_verb_knows_the_same_data_types() {
    for (verb, dtypes) in [
        ("nccl choose allreduce 1MiB --comm dgx_h100_8x400g.p8.n2", ["i32", "f64"]),
        ("choose openmpi allreduce 1MiB -n 8", ["i32", "i16"]),
        ("compare allreduce --n 8 --size 1GiB --busbw 200GB/s --on dgx-a100", ["i32", "fp8"]),
        ("bucket --tensors 100x1MB -n 8 --on dgx-a100", ["i32", "fp8"]),
    ] {
        for dtype in dtypes {
            let line = format!("{verb} --dtype {dtype}");
            assert_ne!(output(&line).status.code(), Some(2), "{line}");
        }
        assert!(
            refusal(&format!("{verb} --dtype floaty")).contains("is not a data type"),
            "{verb}"
        );
    }
    // NCCL has no integers of 16 bits.
    let line = "nccl choose allreduce 1MiB --comm dgx_h100_8x400g.p8.n2 --dtype i16";
    assert!(refusal(line).contains("is not a data type of NCCL"));
    // It adds 8-bit floats on H100 and later, since 2.24.
    for (line, what) in [
        ("nccl choose allreduce 1MiB --comm dgx_a100_8x200g.p8.n2 --dtype fp8", "capability 80"),
        ("nccl choose allreduce 1MiB --comm dgx_a100_8x200g.p8.n2 --dtype fp8 --emit env", "80"),
        ("choose nccl allreduce 1MiB -n 8 --on dgx-a100 --dtype fp8", "capability 80"),
        ("choose nccl@2.23.4 allgather 1MiB -n 8 --on dgx-h100 --dtype fp8", "has no 8-bit floats"),
    ] {
        assert!(refusal(line).contains(what), "{line}");
    }
}

/// A dump of graphs is written before start-up reads these.
#[test]
fn variables_of_start_up_are_read_beside_a_dump() {
    let line = "nccl choose allgather 1MiB --graph tests/data/nccl_graphs_small.xml --nodes 4 \
                --gpu a100 --format json --env";
    let channels = |set: &str| {
        let said = text(&output(&format!("{line} {set}")).stdout);
        let at = said.find("\"channels_to\":").unwrap_or_else(|| panic!("{said}"));
        said[at + 14..].trim_start().chars().next().unwrap()
    };
    assert_eq!(channels("NCCL_DEBUG=WARN"), '2');
    assert_eq!(channels("NCCL_MAX_NCHANNELS=1"), '1');
    assert!(refusal(&format!("{line} NCCL_CROSS_NIC=1")).contains("give the graphs"));
}

#[test]
fn questions_of_libraries_that_make_no_sense_are_refused_with_their_place() {
    let comm = "--comm dgx_h100_8x400g.p8.n2";
    for (line, parts) in [
        (format!("nccl choose allreduce 0 {comm}"), ["above 0", "nccl choose allreduce 0"]),
        (format!("nccl choose allreduce -1 {comm}"), ["-1", "write"]),
        (format!("nccl choose allreduce -b 8 -e 4 {comm}"), ["8 B and 4 B", "--begin 8 --end 4"]),
        (
            format!("nccl choose allreduce 1KiB {comm} --env NCCL_IB_HCA=mlx5_0"),
            ["no NIC of the machine is left", "NCCL_IB_HCA=mlx5_0"],
        ),
        (
            "nccl choose allreduce 1KiB --comm dgx_h100_8x400g.p8 --nodes 4294967295".into(),
            ["more than any machine has", "--nodes 4294967295"],
        ),
        ("choose allreduce -1 -n 8 --policy mpich".into(), ["-1", "write"]),
        (
            "select allreduce --policy mpich --nodes 4294967295".into(),
            ["more than any machine", "--nodes"],
        ),
        ("choose allreduce -n 8 --policy rules-file:nosuch".into(), ["cannot be read", "nosuch"]),
        ("choose openmpi allreduce -n 8 --env A=b".into(), ["openmpi do not read it", "--env A=b"]),
        ("choose gloo allreduce -n 8 --hidden 64".into(), ["gloo do not read it", "--hidden"]),
        ("choose nccl allreduce -n 8 --eager".into(), ["nccl do not read it", "--eager"]),
        (
            "export mpich-json -n 4 --on netns-50m -o /nosuch/file".into(),
            ["cannot be written", "--output /nosuch/file"],
        ),
    ] {
        let said = refusal(&line);
        assert!(parts.iter().all(|part| said.contains(part)), "{line}:\n{said}");
    }
}

#[test]
fn files_of_another_kind_are_refused_as_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let utf16: Vec<u8> = "\u{feff}schema = 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16 = file("utf16", &utf16);
    let binary = file("binary", b"\x7fELF\x02\x01\x01\0\0\0\xff");
    let said = |line: &str| {
        let answer = output(line);
        assert_eq!(answer.status.code(), Some(2), "{line}");
        // `check` lists faults as results.
        text(&answer.stdout) + &text(&answer.stderr)
    };
    for verb in [
        "allreduce 1MiB -n 8 --on",
        "optimum allreduce --fabric",
        "verify --schedule",
        "nccl log",
        "plan",
        "check",
        "fit",
        "choose allreduce 1MiB -n 8 --policy rules-file:",
    ] {
        let space = if verb.ends_with(':') { "" } else { " " };
        let said_of = |file: &str| said(&format!("{verb}{space}{file}"));
        let error = said_of(&utf16);
        assert!(error.contains("UTF-16") && error.contains("iconv"), "{verb}: {error}");
        let error = said_of(&binary);
        assert!(error.contains("binary, not text"), "{verb}: {error}");
    }
    let on = |file: &str| said(&format!("allreduce 1MiB -n 8 --on {file}"));
    for file in [file("empty", b""), file("prose", b"hello\n")] {
        assert!(on(&file).contains("begins with schema = 1"), "{file}");
    }
    // A name without a folder or an ending is that of a machine: such a file is not read.
    let here = collcost("allreduce 1MiB -n 8 --on prose").current_dir(folder.path()).output();
    assert!(text(&here.unwrap().stderr).contains("write ./prose"));
    let platform = file("platform.xml", b"<platform version=\"4.1\"/>\n");
    let error = said(&format!("optimum allreduce --fabric {platform}"));
    assert!(error.contains("<platform>") && error.contains("ns-3"), "{error}");
    let dragonfly = b"[generate]\nkind = \"dragonfly\"\ngroups = 2\nrouters = 2\nhosts = 2\n\
                      global = 1\nbw = \"50GB/s\"\n";
    let error = said(&format!("optimum allreduce --fabric {}", file("d.toml", dragonfly)));
    assert!(error.contains("add local_bw"), "{error}");
}

/// A barrier has no size on a fabric either, and faults are in CSV what they are on the page.
#[test]
fn fabrics_answer_as_machines_do() {
    let said = |line: &str| {
        let answer = output(line);
        assert!(answer.status.success(), "{line}: {}", text(&answer.stderr));
        text(&answer.stdout)
    };
    let barrier = "simulate barrier dissemination --fabric tests/data/fabrics/ring.toml";
    assert_eq!(said(barrier), said(&format!("{barrier} --size 0")));
    let refused = text(&output(&format!("{barrier} --size 16MiB")).stderr);
    assert!(refused.contains("a barrier moves no data"), "{refused}");
    let csv = said(
        "optimum allreduce --fabric tests/data/fabrics/two_boxes.toml --fault link=nv0-ib:0.5 \
         --format csv",
    );
    let (best, compared) = csv.split_once("\n\n").unwrap();
    assert_eq!(best.lines().count(), 2, "{csv}");
    let rows: Vec<&str> = compared.lines().collect();
    assert!(rows[0].starts_with("faults,size_bytes,algorithm,library,segments,built_s,time_s"));
    assert!(rows[1].starts_with("link=nv0-ib:0.5,67108864,optimal,,,"), "{csv}");
    assert!(rows[2..].iter().any(|row| row.contains(",ring,nccl,")), "{csv}");
}

/// A log is of the nodes that are asked about, and damaged rows are said to be damaged.
#[test]
fn a_seen_log_is_of_the_nodes_that_are_asked_about() {
    let log = "tests/data/logs/all_reduce.txt";
    let line = format!("allreduce 64MiB -n 8 --on dgx-h100 --seen {log}");
    let said = refusal(&line);
    assert!(said.contains("8 ranks were on other nodes: 2, not 1"), "{said}");
    assert!(said.contains("--nodes 2"), "{said}");
    assert!(output(&format!("{line} --nodes 2")).status.success());
    // The log's two hosts are trays of one rack.
    let rack = format!("allreduce 64MiB -n 8 --on gb200-nvl72 --seen {log}");
    assert!(output(&rack).status.success());

    // Its row of 8 MiB alone, with times that contradict its rates.
    let log = std::fs::read_to_string(log).unwrap();
    let kept = log.lines().filter(|line| line.starts_with('#') || line.contains(" 8388608 "));
    let damaged: Vec<&str> = kept.collect();
    let damaged = damaged.join("\n").replace(" 88.26", "188.26").replace(" 86.49", "186.49");
    let file = std::env::temp_dir().join(format!("collcost-{}-damaged.txt", std::process::id()));
    std::fs::write(&file, damaged).unwrap();
    let said = refusal(&format!("allreduce 64MiB -n 8 --seen {}", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert!(said.contains("no row is usable") && said.contains("damaged.txt:"), "{said}");
}

/// NCCL refuses a GPU that two ranks share.
#[test]
fn a_node_of_one_gpu_has_one_rank() {
    let said = refusal("allreduce 64MiB -n 8 -g 2 --on dgx-spark");
    assert!(said.contains("2 ranks do not fit on a node of dgx-spark: it has 1"), "{said}");
    for line in ["-n 4 --on dgx-spark", "-n 4 -N 4 --on dgx-spark", "-n 8 -g 2 --on ib-hdr"] {
        assert!(output(&format!("allreduce 64MiB {line}")).status.success(), "{line}");
    }
}

/// GOAL is a job also with the comments that say which data it moves.
#[test]
fn exported_goal_is_a_job_on_a_fabric() {
    let goal = text(&output("export goal alltoall pairwise 1MiB -n 8 --on ib-hdr").stdout);
    let bare: String =
        goal.lines().filter(|l| !l.trim().starts_with("//")).map(|l| l.to_owned() + "\n").collect();
    assert!(bare.len() < goal.len());
    let file = std::env::temp_dir().join(format!("collcost-{}-jobs.goal", std::process::id()));
    let fabric = "--fabric tests/data/fabrics/two_boxes.toml";
    let simulated = [goal, bare, "nothing of the kind".to_owned()].map(|written| {
        std::fs::write(&file, written).unwrap();
        output(&format!("simulate {fabric} --jobs {} --format csv", file.display()))
    });
    std::fs::remove_file(&file).unwrap();
    let [goal, bare, none] = simulated;
    assert!(goal.status.success(), "{}", text(&goal.stderr));
    assert_eq!(text(&goal.stdout), text(&bare.stdout));
    assert!(text(&none.stderr).contains("\n  give JSON of messages"), "{}", text(&none.stderr));
}

#[test]
fn without_an_algorithm_the_librarys_own_runs() {
    let answer = output("run allreduce 1KiB -n 2 --reps 1");
    let said = text(&answer.stdout) + &text(&answer.stderr);
    assert!(said.contains("is what NCCL runs on dgx-h100"), "{said}");
}

#[test]
fn budgets_come_from_standard_input_too() {
    let asked = |line: &str, budgets: &str| {
        let mut command = collcost(line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(budgets.as_bytes()).unwrap();
        let answer = child.wait_with_output().unwrap();
        (answer.status.code(), text(&answer.stdout))
    };
    let budget = "[[budget]]\nname = \"gradients\"\ncollective = \"allreduce\"\nn = 64\n\
                  size = \"1GiB\"\nprofile = \"dgx-h100\"\nmax_time = \"60ms\"\n";
    let (code, said) = asked("check -", budget);
    assert!(code == Some(0) && said.contains("gradients"), "{code:?} {said}");
    let short = budget.replace("60ms", "60us");
    let (code, said) = asked("check -", &short);
    assert!(code == Some(1) && said.contains("\n1 of 1 budgets fail\n"), "{code:?} {said}");
    // What the last line says is what the exit code says.
    let warned = format!("{short}level = \"warning\"\n");
    let (code, said) = asked("check -", &warned);
    let line = "\n1 of 1 budgets fail only as a warning\n";
    assert!(code == Some(0) && said.contains(line), "{code:?} {said}");
    let (_, said) = asked("check - --format summary", &warned);
    assert!(said.starts_with("### Collective budgets: 0 hold, 1 only warn, 0 fail\n"), "{said}");
    let risk = budget.replace("60ms", "7ms");
    let line = "the budget is at risk: its limit is inside the band";
    for (flags, code, end) in [("", 0, "\n"), (" --strict", 1, ", which fails the check\n")] {
        let (found, said) = asked(&format!("check -{flags}"), &risk);
        assert!(found == Some(code) && said.contains(&format!("{line}{end}")), "{found:?} {said}");
    }
    let (code, said) = asked("check -", "[[budget]]\n");
    assert!(code == Some(2) && said.contains("-:1"), "{code:?} {said}");
    assert!(refusal("check - --update").contains("cannot be updated"));
    // Before the file is read: 10 is neither taken for 10 % nor for 1000 %.
    let said = refusal("check gone.toml --update --margin 10");
    assert!(
        said.contains("may mean 10 % or 1000 %") && said.contains("write 10%, or 0.1"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn what_is_no_file_stays_what_it_is() {
    let ask = "export openmpi-rules -n 4 --on netns-50m";
    // Standard output is a pipe here, to which nothing can be renamed.
    let through = output(&format!("{ask} -o /dev/stdout"));
    assert!(through.status.success(), "{}", text(&through.stderr));
    let plain = text(&output(ask).stdout).replace("THIS_FILE", "/dev/stdout");
    assert_eq!(text(&through.stdout), plain);
    let folder = std::env::temp_dir().join(format!("collcost-link-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, link) = (folder.join("rules.conf"), folder.join("link"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(output(&format!("{ask} -o {}", link.display())).status.success());
    let (is_link, new) = (link.is_symlink(), std::fs::read_to_string(&file).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(is_link && new.contains("written by collcost"), "{is_link} {new}");
}

#[test]
fn a_page_about_no_call_takes_no_flags_of_one() {
    for flags in ["--alpha 5us", "--bw 1GB/s", "--on dgx-h100", "--size 1MiB"] {
        let said = refusal(&format!("explain pipeline {flags}"));
        assert!(said.contains("has numbers of its own") && said.contains(flags), "{said}");
    }
    let page = text(&output("explain pipeline -n 64").stdout);
    assert!(page.contains("N = 64") && page.contains(" 63 "), "{page}");
}

#[test]
fn a_trace_says_whose_block_a_chunk_is() {
    let note = |algorithm: &str| {
        let page = text(&output(&format!("trace allgather {algorithm} -n 4")).stdout);
        page.contains("c0 is rank 3's block, c1 is rank 0's block")
    };
    assert!(note("ring") && !note("bruck"));
}

/// A tree over two nodes sends the vector once each way through all their NICs.
#[test]
fn what_a_nic_sends_is_counted() {
    let words = "convert 100GB/s algbw busbw allreduce -n 16 -g 8 --format json --nics-per-node";
    for (nics, share) in [(8, 1.0), (4, 2.0)] {
        let report: serde_json::Value =
            serde_json::from_slice(&output(&format!("{words} {nics}")).stdout).unwrap();
        let rows = report["wire"].as_array().unwrap();
        let tree = rows.iter().find(|row| row["algorithm"] == "tree").unwrap();
        assert_eq!(tree["nic_share"], share, "{tree}");
    }
}

#[test]
fn an_older_release_of_nccl_has_the_graphs_of_its_own_search() {
    // The search of 2.20 finds no NVLS over several nodes.
    let runs = |name: &str| {
        text(&output(&format!("choose nccl{name} allreduce 16MiB -n 32 --on dgx-h100")).stdout)
    };
    assert!(runs("@2.20.5").contains("  runs        Tree/LL128"), "{}", runs("@2.20.5"));
    assert!(runs("").contains("  runs        NVLSTree/Simple"), "{}", runs(""));
    let file = "export nccl-tuner-csv -n 32 --on dgx-h100 --for nccl@2.20.5";
    assert!(!text(&output(file).stdout).contains("nvls_tree"));
}

#[test]
fn a_gain_that_is_none_to_rely_on_is_not_the_first() {
    let all = [
        ("allreduce 1MiB --on l40s_pcie8_2x100g.p8.n2", "NCCL_PROTO=LL128", "corrupt data"),
        (
            "allreduce 8KiB --on dgx_h100_8x400g.p8.n1 --env NCCL_NET_DISABLE_INTRA=1",
            "NCCL_P2P_DISABLE=1",
            "lacks 25 µs",
        ),
        ("allgather 64MiB --on dgx_b200_8x400g.p8.n2", "NCCL_PAT_ENABLE=1", "one rank per node"),
    ];
    for (line, setting, why) in all.into_iter().step_by(one_in(3)) {
        let page = text(&output(&format!("nccl whatif {line}")).stdout);
        let rows: Vec<&str> = page.lines().skip_while(|l| !l.contains("unchanged")).collect();
        assert!(!rows[1].contains(setting), "{page}");
        let said = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("{setting}: ")) && said.contains(why), "{page}");
    }
}

#[test]
fn manual_pages_have_a_word_on_each_option() {
    for verb in ["mock", "allreduce", "plan", "calibrate"] {
        let page = text(&output(&format!("man {verb}")).stdout);
        let lines: Vec<&str> = page.lines().collect();
        let bare = lines.windows(2).find(|pair| {
            pair[0].starts_with("\\fB\\-") && (pair[1].is_empty() || pair[1].starts_with('.'))
        });
        assert_eq!(bare, None, "{verb}");
    }
    let page = text(&output("man allreduce").stdout).replace('\\', "");
    assert!(page.contains("[aliases: --np, --ranks]") && page.contains("[alias: --ppn]"), "{page}");
}

/// Examples are as they are typed: no line is filled or hyphenated.
#[test]
fn manual_pages_have_examples_as_they_are_typed() {
    let page = text(&output("man check").stdout);
    let (_, examples) = page.split_once(".SH EXAMPLES\n.PP\n.nf\n").unwrap();
    let (typed, rest) = examples.split_once(".fi\n").unwrap();
    assert!(typed.contains("\n  collcost check \\-\\-update \\-\\-margin 10%\n"), "{typed}");
    assert!(rest.contains(".nf\n  [[budget]]\n") && !page.contains("EXTRA"), "{rest}");
}

/// What is fitted to a log without a machine's name says of its largest calls what the log says.
#[test]
fn a_fitted_curve_is_not_bounded_by_its_mean_rate() {
    let folder = std::env::temp_dir().join(format!("collcost-fitted-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let log = output("mock all_reduce_perf -b 8 -e 8G -f 4 --on gb200-nvl72 -n 72").stdout;
    std::fs::write(file("log.txt"), log).unwrap();
    let fitted = output(&format!("fit {} --out {}", file("log.txt"), file("site.toml")));
    assert!(fitted.status.success(), "{}", text(&fitted.stderr));
    let time = |on: &str| {
        let line = format!("allreduce 8GiB -n 72 --on {on} --format json");
        let report: serde_json::Value = serde_json::from_slice(&output(&line).stdout).unwrap();
        report["expect"]["time_s"].as_f64().unwrap()
    };
    let (site, log) = (time(&file("site.toml")), time("gb200-nvl72"));
    assert!((site / log - 1.0).abs() < 0.05, "{site} {log}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// On a fabric a pipeline has segments, and only what exists for so many ranks runs.
#[test]
fn a_fabric_runs_what_applies_in_the_segments_that_it_needs() {
    let folder = std::env::temp_dir().join(format!("collcost-star-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let star = |ranks: u32| {
        let file = folder.join(format!("{ranks}.toml")).to_str().unwrap().to_owned();
        let spec = format!("[generate]\nkind = \"star\"\nranks = {ranks}\nbw = \"10GB/s\"\n");
        std::fs::write(&file, spec).unwrap();
        file
    };
    let makespan = |line: &str| {
        let report: serde_json::Value =
            serde_json::from_slice(&output(&format!("{line} --format json")).stdout).unwrap();
        report["makespan_s"].as_f64().unwrap()
    };
    let least = (64 << 20) as f64 / 10e9;
    for algorithm in ["chain", "two-tree", "circulant", "binomial-pipeline"] {
        let line = format!("simulate broadcast {algorithm} 64MiB --fabric {}", star(8));
        let ratio = makespan(&line) / least;
        assert!((1.0..1.25).contains(&ratio), "{algorithm}: {ratio}");
    }
    for (what, ranks) in [
        ("broadcast binomial-pipeline", 3),
        ("allreduce recursive-multiplying", 3),
        ("allreduce bcube", 3),
        ("reducescatter butterfly", 3),
        ("allgather neighbor-exchange", 5),
    ] {
        let answer = output(&format!("simulate {what} 60MB --fabric {}", star(ranks)));
        let said = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{what} on {ranks}: {said}");
        assert!(said.contains("does not apply") || said.contains("no schedule"), "{said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Each micro-batch's gradients go in buckets: a row's size is that of one.
#[test]
fn a_bucket_has_its_size_with_any_number_of_micro_batches() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    let row = |batches: u32| {
        let text = format!(
            "[step.x]\nprofile = \"dgx-h100\"\nparams = \"8B\"\nlayers = 32\nhidden = 4096\ndp = 64\n\
             shard = \"zero2\"\nmicrobatches = {batches}\n"
        );
        std::fs::write(&file, text).unwrap();
        let answer = output(&format!("plan {} --format json", file.display()));
        let report: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
        let call = &report["steps"][0]["calls"][0];
        assert_eq!(call["collective"], "reducescatter");
        (call["size_bytes"].as_f64().unwrap(), call["calls"].as_f64().unwrap())
    };
    let (one, four) = (row(1), row(4));
    assert!(
        (four.0 / one.0 - 1.0).abs() < 1e-9 && (four.1 / one.1 - 4.0).abs() < 1e-9,
        "{one:?} {four:?}"
    );
}

/// A job whose transfers are healthy while all wait for one rank is told which one.
#[test]
fn a_rank_that_always_comes_last_is_named() {
    let told = |late: u32| {
        let here = tempfile::tempdir().unwrap();
        for rank in 0..8 {
            let call = |at: u32| {
                let (ts, dur) = (3000 * at, if rank == 3 { 280 } else { 280 + late });
                format!(
                    r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL()","ts":{ts},"dur":{dur},"args":{{"stream":7,"Collective name":"allreduce","In msg nelems":33554432,"Out msg nelems":33554432,"Group size":8,"dtype":"BFloat16","Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]"}}}}"#
                )
            };
            let calls: Vec<String> = (1..=20).map(call).collect();
            let trace = format!(
                r#"{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":8}},"traceEvents":[{}]}}"#,
                calls.join(",")
            );
            std::fs::write(here.path().join(format!("r{rank}.json")), trace).unwrap();
        }
        let mut command = collcost("compare --on dgx-h100");
        command.args((0..8).map(|rank| format!("r{rank}.json")));
        let answer = command.current_dir(here.path()).output().unwrap();
        assert_eq!(answer.status.code(), Some(0), "{}", text(&answer.stderr));
        text(&answer.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let named = "rank 3 comes last in 100 % of 20 calls of 64 MiB, and the others wait 500 µs for it, 1.8 times";
    assert!(told(500).contains(named), "{}", told(500));
    assert!(!told(10).contains("comes last in 100 % of 20 calls"));
}
