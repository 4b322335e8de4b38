//! What `collcost mock` prints: nccl-tests' layout, figures that our own importer reads back, and
//! faults with the shapes that they have on machines.

use std::process::{Command, Output};

use collcost::Collective;
use collcost::base::quantity::{Bytes, Ratio};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::machine::sample::DataType;
use collcost::measure::logs::{self, Asked, Imported, Measured, Tested};
use collcost::measure::mock::{Ask, Fault, Mock, PROGRAMS, Program, Row, Sizes, Step, mock};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Params;

use crate::full::one_in;

const GIB: u64 = 1 << 30;
const F32: DataType = DataType::F32;
const F8: DataType = DataType::F8e4m3;

fn query(collective: Collective, profile: &str, ranks: u32) -> Query {
    let profile = Profile::builtin(profile).unwrap();
    let machine = Machine::new(Some((profile, "--on")), &Given::default(), collective);
    let layout = Layout { ranks: std::num::NonZeroU32::new(ranks), ..Layout::default() };
    Query::new(machine.unwrap(), collective, Bytes(8), layout, Params::default()).unwrap()
}

/// Sizes of which each is `factor` times the one before.
fn sizes(first: u64, last: u64, factor: u64) -> Sizes {
    Sizes { first: Bytes(first), last: Bytes(last), step: Step::Factor(factor) }
}

fn ask(program: &str, sizes: Sizes) -> Ask {
    Ask::new(Program::named(program).unwrap(), sizes)
}

fn on(profile: &str, ranks: u32, ask: &Ask) -> Mock {
    mock(&Registry::builtin(), &query(ask.program.collective, profile, ranks), ask).unwrap()
}

fn with(faults: &[&str], ask: Ask) -> Ask {
    let faults = faults.iter().map(|text| text.parse::<Fault>().unwrap()).collect();
    Ask { faults, ..ask }
}

/// How many times as long rows take with a fault: 16 ranks on two DGX H100, or as said.
fn shape_on(profile: &str, ranks: u32, program: &str, fault: &str, at: &[u64]) -> Vec<f64> {
    let time = |rows: &[Row]| rows[0].out_of_place.time.0;
    let ratio = |&size: &u64| {
        let plain = ask(program, sizes(size, size, 2));
        let broken = on(profile, ranks, &with(&[fault], plain.clone()));
        time(&broken.rows) / time(&on(profile, ranks, &plain).rows)
    };
    at.iter().map(ratio).collect()
}

fn shape(program: &str, fault: &str, at: &[u64]) -> Vec<f64> {
    shape_on("dgx-h100", 16, program, fault, at)
}

fn near(got: f64, wanted: f64, part: f64) -> bool {
    (got - wanted).abs() <= part * wanted
}

// ---- layout -------------------------------------------------------------------------------------

/// `%12li  %12li  %8s  %6s  %6s`, then `  %7s  %6s  %6s  %6g` for each place; under headings of
/// `# %10s  %12s  %8s  %6s  %6s` and `  %7s  %6s  %6s  %6s`.
#[test]
fn the_table_has_the_columns_of_nccl_tests() {
    let mocked = on("dgx-h100", 16, &ask("all_reduce_perf", sizes(8, 8 * GIB, 2)));
    let text = mocked.text(None);
    let lines: Vec<&str> = text.lines().collect();
    let names = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ";
    let at = lines.iter().position(|line| *line == names).expect("the names of the columns");
    assert_eq!(
        lines[at - 1],
        "#                                                              out-of-place                       in-place          "
    );
    assert_eq!(
        lines[at + 1],
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         "
    );
    let rows = &lines[at + 2..at + 2 + 31];
    // The last character of each field.
    let ends = [12, 26, 36, 44, 52, 61, 69, 77, 85, 94, 102, 110, 118];
    for row in rows {
        assert_eq!(row.len(), 118, "{row}");
        let bytes = row.as_bytes();
        for end in ends {
            assert_ne!(bytes[end - 1], b' ', "{row}: {end}");
            assert!(end == 118 || bytes[end] == b' ', "{row}: {end}");
        }
        assert_eq!(row.split_ascii_whitespace().count(), ends.len(), "{row}");
    }
    let place = mocked.rows[0].out_of_place;
    let (time, algbw, busbw) = (place.time.0 * 1e6, place.algbw.0 / 1e9, place.busbw.0 / 1e9);
    let figures = format!("  {time:7.2}  {algbw:6.2}  {busbw:6.2}       0");
    let before = "           8             2     float     sum      -1";
    assert_eq!(rows[0], format!("{before}{figures}{figures}"));
    let after = &lines[at + 33..];
    assert_eq!(after[0], "# Out of bounds values : 0 OK");
    assert!(after[1].starts_with("# Avg bus bandwidth    : ") && after[1].ends_with(' '));
    assert_eq!(after[2..], ["#", "# Collective test concluded: all_reduce_perf", "#", ""]);
    assert_eq!(
        lines[at - 20..at - 18],
        ["#", "# Using devices"],
        "behind the line of sizes, before 16 devices and an empty line"
    );
    assert_eq!(
        lines[at - 18],
        "#  Rank  0 Group  0 Pid 100000 on      node1 device  0 [0000:10:00] predicted dgx-h100"
    );
    assert_eq!(
        lines[at - 21],
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0"
    );
}

#[test]
fn the_first_line_says_that_it_is_predicted() {
    let mocked = on("dgx-a100", 8, &ask("all_reduce_perf", sizes(8, 8, 2)));
    let first = mocked.text(None).lines().next().unwrap().to_owned();
    assert!(first.starts_with("# PREDICTED by collcost ") && first.contains("not measured"));
    assert!(mocked.text(None).lines().all(|line| !line.contains("NVIDIA")));
    let document: serde_json::Value = serde_json::from_str(&mocked.json()).unwrap();
    let told = document["predicted"][0].as_str().unwrap();
    assert!(told.starts_with("PREDICTED"), "{told}");
}

/// `awk '$1 ~ /^[0-9]+$/ {print $8}'`
#[test]
fn the_eighth_word_is_the_busbw() {
    let mocked = on("dgx-h100", 16, &ask("all_reduce_perf", sizes(8, 8 * GIB, 2)));
    let text = mocked.text(None);
    let is_row = |line: &&str| {
        line.split_ascii_whitespace().next().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()))
    };
    let printed: Vec<f64> = text
        .lines()
        .filter(is_row)
        .map(|line| line.split_ascii_whitespace().nth(7).unwrap().parse().unwrap())
        .collect();
    assert_eq!(printed.len(), mocked.rows.len());
    for (printed, row) in printed.iter().zip(&mocked.rows) {
        assert!((printed - row.out_of_place.busbw.0 / 1e9).abs() <= 0.0051, "{printed}");
    }
}

#[test]
fn columns_say_what_each_program_says() {
    for (program, redop, root, wrong) in [
        ("all_reduce_perf", "sum", "-1", "0"),
        ("all_gather_perf", "none", "-1", "0"),
        ("reduce_scatter_perf", "sum", "-1", "0"),
        ("broadcast_perf", "none", "3", "0"),
        ("reduce_perf", "sum", "3", "0"),
        ("alltoall_perf", "none", "-1", "N/A"),
        ("gather_perf", "none", "3", "0"),
        ("scatter_perf", "none", "3", "0"),
        ("sendrecv_perf", "sum", "-1", "N/A"),
    ] {
        let asked = Ask { root: 3, ..ask(program, sizes(1 << 20, 1 << 20, 2)) };
        let text = on("dgx-h100", 16, &asked).text(None);
        let row = text.lines().find(|line| line.starts_with("     1048576")).unwrap();
        let words: Vec<&str> = row.split_ascii_whitespace().collect();
        assert_eq!((words[3], words[4], words[12]), (redop, root, wrong), "{program}");
    }
    let unchecked = Ask { check: 0, ..ask("all_reduce_perf", sizes(8, 8, 2)) };
    let text = on("dgx-h100", 16, &unchecked).text(None);
    let row = text.lines().find(|line| line.starts_with("           8 ")).unwrap();
    let words: Vec<&str> = row.split_ascii_whitespace().collect();
    assert_eq!((words[8], words[12], row.len()), ("N/A", "N/A", 116), "one character less a place");
}

// ---- our own importer ---------------------------------------------------------------------------

fn read(text: &str) -> Imported {
    logs::read(text.as_bytes(), "mock.txt", &Asked::default()).unwrap()
}

/// N, the collective, sizes and times come back to the printed digits, from text and JSON.
#[test]
fn our_importer_reads_back_what_was_mocked() {
    for program in PROGRAMS {
        let asked =
            Ask { noise: Ratio(0.03), iterations: 5, ..ask(program.name, sizes(1024, GIB, 32)) };
        let mocked = on("dgx-a100", 16, &with(&["slow-rank=2"], asked));
        for (imported, digits) in [(read(&mocked.text(None)), 6e-3), (read(&mocked.json()), 1e-6)] {
            assert_eq!(imported.tables.len(), 1, "{}", program.name);
            let table = &imported.tables[0];
            assert_eq!((table.ranks, table.nodes), (Some(16), Some(2)), "{}", program.name);
            match program.collective {
                Collective::SendRecv => assert_eq!(table.tested, Tested::Shift),
                collective => assert_eq!(table.tested, Tested::Collective(collective)),
            }
            assert_eq!(table.iterations, 5);
            assert!(table.refused.is_none(), "{:?}", table.refused);
            assert!(table.left_out.is_empty(), "{}: {:?}", program.name, table.left_out);
            let wanted: Vec<(Bytes, bool, f64)> = mocked
                .rows
                .iter()
                .flat_map(|row| {
                    [(row.size, false, row.out_of_place), (row.size, true, row.in_place)]
                        .map(|(size, in_place, place)| (size, in_place, place.time.0))
                })
                .collect();
            let got: Vec<_> = table.rows.iter().map(|r| (r.size, r.in_place, r.measured)).collect();
            assert_eq!(got.len(), wanted.len(), "{}", program.name);
            for ((size, in_place, time), (got_size, got_place, measured)) in
                wanted.into_iter().zip(got)
            {
                assert_eq!((size, in_place), (got_size, got_place));
                let Measured::Time(got) = measured else { panic!("{measured:?}") };
                let slack = digits * 1e-6 + time * if digits > 1e-5 { 1e-5 } else { 0.0 };
                assert!((got.0 - time).abs() <= slack, "{} {size}: {got} {time}", program.name);
            }
        }
    }
}

#[test]
fn a_healthy_mock_gives_no_warning_and_shared_devices_do() {
    let plain = ask("all_reduce_perf", sizes(8, 1 << 20, 2));
    assert_eq!(read(&on("dgx-h100", 16, &plain).text(None)).tables[0].warnings, [""; 0]);
    let shared = on("dgx-h100", 16, &with(&["shared-gpu"], plain));
    for text in [shared.text(None), shared.json()] {
        let warnings = &read(&text).tables[0].warnings;
        assert!(warnings.iter().any(|w| w.contains("share the GPU [0000:10:00]")), "{warnings:?}");
    }
}

// ---- faults -------------------------------------------------------------------------------------

#[test]
fn a_healthy_row_is_what_is_expected() {
    let mocked = on("dgx-h100", 16, &ask("all_reduce_perf", sizes(8, GIB, 1 << 9)));
    let query = query(Collective::AllReduce, "dgx-h100", 16);
    for row in &mocked.rows {
        let query = Query { size: row.size, ..query.clone() };
        let cost = collcost::answer::cost(&Registry::builtin(), &query, None, false).unwrap();
        let ran = cost.algorithms.iter().find(|r| Some(r.id) == cost.runs).unwrap();
        assert_eq!(row.out_of_place.time.0, cost.expect.time_s);
        assert_eq!(row.algorithm, ran.title);
        assert_eq!(row.in_place, row.out_of_place);
    }
}

/// A machine without an α of its NICs: measurements of others tell the time, and a fault needs a simulation.
#[test]
fn a_machine_without_prices_has_a_healthy_run() {
    let plain = ask("all_reduce_perf", sizes(GIB, GIB, 2));
    let row = on("a3-megagpu-8g", 16, &plain).rows[0];
    let query = Query { size: Bytes(GIB), ..query(Collective::AllReduce, "a3-megagpu-8g", 16) };
    let cost = collcost::answer::cost(&Registry::builtin(), &query, None, false).unwrap();
    assert_eq!(row.out_of_place.time.0, cost.expect.time_s);
    let broken = mock(&Registry::builtin(), &query, &with(&["slow-rank=3:2"], plain));
    assert!(broken.unwrap_err().is_unknown());
}

/// Four nodes: over two, NVLink is what NVLSTree waits for, and a NIC less is not felt.
#[test]
fn a_missing_nic_is_felt_by_data_alone() {
    let over_four = |fault, at: &[u64]| shape_on("dgx-h100", 32, "all_reduce_perf", fault, at);
    let ratios = over_four("missing-nic", &[8, GIB]);
    assert!(near(ratios[0], 1.0, 1e-4) && near(ratios[1], 8.0 / 7.0, 0.02), "{ratios:?}");
    let half = over_four("missing-nic=4", &[8, GIB]);
    assert!(near(half[0], 1.0, 1e-4) && near(half[1], 2.0, 0.03), "{half:?}");
    let two = shape("all_reduce_perf", "missing-nic", &[GIB]);
    assert!(near(two[0], 1.0, 1e-4), "{two:?}");
    // Where latency dominates a Ring (one per rail) does not notice either.
    let gather = shape("all_gather_perf", "missing-nic", &[4096, GIB]);
    assert!(near(gather[0], 1.0, 0.01) && near(gather[1], 8.0 / 7.0, 0.03), "{gather:?}");
    // Too many ranks to be played: the closed form.
    let many = shape_on("dgx-h100", 1024, "all_reduce_perf", "missing-nic", &[8, 64 * GIB]);
    assert!(near(many[0], 1.0, 1e-4) && near(many[1], 8.0 / 7.0, 0.03), "{many:?}");
}

#[test]
fn a_slow_link_slows_what_goes_over_it() {
    // A NIC is one of eight, but what waits for its part waits for all.
    let nic = shape_on("dgx-h100", 32, "all_reduce_perf", "slow-link=3:4", &[8, GIB]);
    assert!(nic[0] > 1.5 && nic[0] < 4.0 && near(nic[1], 4.0, 0.02), "{nic:?}");
    // Switches carry data past the link between two ranks; trees and rings over rails do not.
    let inner = shape("all_reduce_perf", "slow-link=0-1:8", &[8, GIB]);
    assert!(inner[0] > 3.0 && near(inner[1], 1.0, 1e-9), "{inner:?}");
    // Inside one node a rank has one link.
    let alone = shape_on("dgx-h100", 8, "all_reduce_perf", "slow-link=3:4", &[GIB]);
    assert!(near(alone[0], 4.0, 0.01), "{alone:?}");
    let gone = shape_on("dgx-a100", 16, "broadcast_perf", "slow-link=7-8:3", &[GIB]);
    assert!(near(gone[0], 3.0, 0.1), "{gone:?}");
}

/// NCCL returns at once from a call of 0 bytes.
#[test]
fn a_row_of_no_bytes_takes_no_time() {
    let step = Step::Plus(Bytes(8));
    let ask = ask("all_reduce_perf", Sizes { first: Bytes(0), last: Bytes(8), step });
    let times: Vec<f64> =
        on("dgx-h100", 8, &ask).rows.iter().map(|row| row.out_of_place.time.0).collect();
    assert!(times[0] == 0.0 && times[1] > 1e-6, "{times:?}");
}

#[test]
fn a_slow_rank_slows_all_and_a_straggler_the_small() {
    for ratio in shape("all_reduce_perf", "slow-rank=3:2", &[1 << 20, GIB]) {
        assert!(ratio > 1.2 && ratio < 2.01, "{ratio}");
    }
    let late = shape("all_reduce_perf", "straggler=3:100us", &[8, GIB]);
    assert!(late[0] > 4.0 && late[1] < 1.05, "{late:?}");
    // A call waits for the late rank: the same time whatever the links are, and never longer than it is late.
    for (machine, ranks) in [("dgx-h100", 8), ("p5.48xlarge", 8), ("dgx-h100", 64)] {
        for size in [8, 1 << 16, GIB] {
            let plain = ask("all_reduce_perf", sizes(size, size, 2));
            let time = |ask: &Ask| on(machine, ranks, ask).rows[0].out_of_place.time.0;
            for late in [100e-6, 200e-6, 1e-3] {
                let fault = format!("straggler=3:{}us", late * 1e6);
                let more = time(&with(&[&fault], plain.clone())) - time(&plain);
                let least = if size == GIB { 0.0 } else { 0.8 * late };
                assert!(
                    (least..=late * 1.000001).contains(&more),
                    "{machine} {ranks} {size} {more}"
                );
            }
        }
    }
    let shift = shape("sendrecv_perf", "slow-rank=3:2", &[GIB]);
    assert!(shift[0] >= 1.0, "{shift:?}");
}

#[test]
fn other_links_and_no_nvls_take_other_algorithms() {
    let wrong = shape_on("dgx-h100", 8, "all_reduce_perf", "wrong-tier=a100-pcie", &[8, GIB]);
    assert!(wrong[0] > 1.0 && wrong[1] > 10.0, "{wrong:?}");
    let over_nics = shape_on("dgx-h100", 8, "all_reduce_perf", "wrong-tier", &[GIB]);
    assert!(over_nics[0] > 4.0, "{over_nics:?}");
    // Half of 2(N − 1)/N·M over links, all of M through the switch, at 0.8 and 0.565 of the rate.
    let nvls = shape_on("dgx-h100", 8, "all_reduce_perf", "nvls-off", &[8, GIB]);
    // At 8 B NCCL's ring asks nothing of the switch.
    assert!(near(nvls[0], 1.0, 1e-9) && near(nvls[1], 1.75 * 0.565 / 0.8, 0.02), "{nvls:?}");
    // Nor does it on other machines of the board, or where nothing says what the library runs.
    for machine in ["p5.48xlarge", "a3-megagpu-8g", "dgx-b300", "hgx-h800"] {
        let small = shape_on(machine, 8, "all_reduce_perf", "nvls-off", &[8, GIB]);
        assert!(near(small[0], 1.0, 1e-9) && small[1] > 1.05, "{machine} {small:?}");
    }
    let ask = with(&["nvls-off"], ask("all_reduce_perf", sizes(8, GIB, 1 << 9)));
    let text = on("dgx-h100", 8, &ask).text(None);
    assert!(text.contains("# note with the fault it runs ring"), "{text}");
}

#[test]
fn a_protocol_that_is_off_changes_its_sizes_alone() {
    let ll = shape("all_reduce_perf", "protocol-off=LL", &[8, GIB]);
    assert!(ll[0] > 1.2 && near(ll[1], 1.0, 1e-9), "{ll:?}");
    let both = ["protocol-off=LL", "protocol-off=LL128"];
    let plain = ask("all_reduce_perf", sizes(8, 8, 2));
    let time = |mocked: &Mock| mocked.rows[0].out_of_place.time.0;
    let both = time(&on("dgx-h100", 16, &with(&both, plain.clone())));
    assert!(both >= time(&on("dgx-h100", 16, &with(&["protocol-off=LL"], plain))));
}

#[test]
fn faults_add_up() {
    let at = sizes(GIB, GIB, 2);
    let time = |faults: &[&str]| {
        let mocked = on("dgx-h100", 16, &with(faults, ask("all_reduce_perf", at)));
        mocked.rows[0].out_of_place.time.0
    };
    let (one, two) = (time(&["missing-nic"]), time(&["missing-nic", "slow-link=3:4"]));
    assert!(two > 1.5 * one, "{one} {two}");
}

// ---- noise and seeds ----------------------------------------------------------------------------

#[test]
fn equal_seeds_give_equal_bytes_and_others_do_not() {
    let asked = Ask {
        noise: Ratio(0.03),
        ..ask("all_reduce_perf", sizes(8, 1 << 24, 2 * one_in(8) as u64))
    };
    let text = |seed| on("dgx-h100", 16, &Ask { seed, ..asked.clone() });
    assert_eq!(text(7), text(7));
    assert_eq!(text(7).text(None), text(7).text(None));
    assert_eq!(text(7).json(), text(7).json());
    assert_ne!(text(7).rows, text(8).rows);
    // A rank that is drawn is drawn by the seed.
    let drawn: std::collections::BTreeSet<String> = (0..12)
        .map(|seed| {
            let asked = Ask { seed, ..ask("all_reduce_perf", sizes(8, 8, 2)) };
            on("dgx-h100", 16, &with(&["slow-rank=2"], asked)).faults[0].clone()
        })
        .collect();
    assert!(drawn.len() > 5, "{drawn:?}");
}

#[test]
fn noise_lies_around_what_is_expected() {
    let plain = ask("all_reduce_perf", sizes(8, 1 << 24, 2));
    let expected = on("dgx-h100", 16, &plain);
    let mut ratios = Vec::new();
    for seed in 0..4 {
        let noisy = Ask { noise: Ratio(0.03), seed, ..plain.clone() };
        for (row, sound) in on("dgx-h100", 16, &noisy).rows.iter().zip(&expected.rows) {
            for place in [row.out_of_place, row.in_place] {
                ratios.push(place.time.0 / sound.out_of_place.time.0);
            }
        }
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let deviation = (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n).sqrt();
    assert!(near(mean, 1.0, 0.005), "{mean}");
    assert!(deviation > 0.003 && deviation < 0.03, "{deviation}");
    // Places of a row differ.
    assert!(ratios.windows(2).any(|w| w[0] != w[1]));
}

// ---- the command --------------------------------------------------------------------------------

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.arg("mock").args(words).env("HOME", "/nowhere").env("NO_COLOR", "1");
    command.output().expect("the command is built")
}

#[test]
fn bad_input_gets_one_clear_error() {
    for (words, says) in [
        (&["alreduce_perf"][..], "did you mean `all_reduce_perf`?"),
        (&["all_reduce_perf", "-b", "16", "-e", "8"], "the smaller size after -b"),
        (&["all_reduce_perf", "-b", "0", "-e", "8", "-f", "2"], "begin with a size above 0"),
        (&["all_reduce_perf", "-b", "8", "-e", "8G", "-i", "8"], "more than 10000 sizes"),
        (&["all_reduce_perf", "-b", "8", "-e", "16", "-i", "0"], "never end"),
        (&["all_reduce_perf", "-b", "-8"], "-8"),
        (&["all_reduce_perf", "-n", "1"], "one rank alone communicates nothing"),
        (&["all_reduce_perf", "-n", "0"], "at least one"),
        (&["all_reduce_perf", "--noise", "300%"], "write it as 3% or 0.03"),
        (&["all_reduce_perf", "--noise", "nan"], "write it as 3% or 0.03"),
        (&["all_reduce_perf", "--seed", "x"], "is not a seed"),
        (&["all_reduce_perf", "--iters", "0"], "at least one"),
        (&["all_reduce_perf", "-d", "int16"], "has no type"),
        (&["all_reduce_perf", "-d", "floaty"], "is not a data type"),
        (&["all_reduce_perf", "-o", "all"], "is not an operation"),
        (&["broadcast_perf", "-n", "16", "-r", "16"], "there is no rank 16"),
        (&["all_reduce_perf", "--fault", "slow"], "no fault"),
        (&["all_reduce_perf", "-n", "8", "--fault", "slow-rank=8:2"], "ranks are 0 to 7"),
        (&["all_reduce_perf", "-n", "8", "--fault", "missing-nic"], "all ranks are on one node"),
        (&["all_reduce_perf", "-n", "16", "--fault", "missing-nic=8"], "at most 7"),
        (&["all_reduce_perf", "-n", "16", "--fault", "slow-link=3-3:2"], "no link to itself"),
        (&["all_reduce_perf", "-n", "8", "--on", "a100-pcie", "--fault", "nvls-off"], "no switch"),
        (
            &["all_reduce_perf", "-n", "8", "--on", "a100-pcie", "--fault", "wrong-tier"],
            "links of one kind",
        ),
        (&["all_reduce_perf", "-n", "8", "--fault", "wrong-tier=dgx-h10"], "dgx-h100"),
        (&["alltoall_perf", "-n", "8", "--fault", "protocol-off=LL"], "does not tune all-to-all"),
        (
            &[
                "all_reduce_perf",
                "-n",
                "8",
                "--alpha",
                "5us",
                "--bw",
                "9GB/s",
                "--fault",
                "protocol-off=LL",
            ],
            "NCCL's graphs",
        ),
        (&["all_reduce_perf", "-J", "run.txt"], "does not end in .json"),
        (&["all_reduce_perf", "-J", "/no/where/run.json"], "cannot be written"),
    ] {
        let output = run(words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(says), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

/// Switches with NVLS add sums of most types, minima and maxima of some, and no products (NVIDIA/nccl
/// v2.30.7-1, src/enqueue.cc, `ncclNvlsSupported`).
#[test]
fn what_switches_do_not_add_runs_without_them() {
    let ask = ask("all_reduce_perf", sizes(256 << 20, 256 << 20, 2));
    let run = |ask: &Ask| {
        let mocked = on("dgx-h100", 8, ask);
        (mocked.rows[0].out_of_place.time.0, mocked.takes.clone(), mocked.notes.join("\n"))
    };
    let (time, _, notes) = run(&ask);
    assert!(!notes.contains("switches do not add"), "{notes}");
    let off = run(&with(&["nvls-off"], ask.clone())).0;
    assert!(off > 1.1 * time, "{off} {time}");
    let of = |dtype, operation| run(&Ask { dtype, operation, ..ask.clone() });
    for (dtype, operation) in
        [(F32, "prod"), (F32, "avg"), (F32, "max"), (F8, "sum"), (DataType::I8, "sum")]
    {
        let (slower, takes, notes) = of(dtype, operation);
        assert!(near(slower, off, 1e-9), "{dtype} {operation}: {slower} {off}");
        assert!(takes.iter().all(|take| !take.1.contains("in-network")), "{takes:?}");
        assert!(notes.contains("switches do not add"), "{notes}");
    }
    for (dtype, operation) in [(DataType::Bf16, "max"), (DataType::I32, "min"), (F32, "sum")] {
        assert!(near(of(dtype, operation).0, time, 0.02), "{dtype} {operation}");
    }
    // Nothing is added in a broadcast.
    let ask = Ask { operation: "prod", ..self::ask("broadcast_perf", sizes(1 << 20, 1 << 20, 2)) };
    assert!(!on("dgx-h100", 8, &ask).notes.join("").contains("add"));
}

#[test]
fn arguments_tell_the_operation_and_the_root() {
    let asked = Ask { operation: "max", root: 3, ..ask("reduce_perf", sizes(8, 8, 2)) };
    let document = on("dgx-h100", 16, &asked).json();
    assert!(document.contains("\"-d\",\"float\",\"-o\",\"max\",\"-r\",\"3\"]"), "{document}");
    let heading = on("dgx-h100", 12, &ask("all_reduce_perf", sizes(8, 8, 2))).heading().join("\n");
    assert!(heading.contains("12 ranks on 2 nodes of at most 8"), "{heading}");
}

#[test]
fn documents_are_written_beside_the_text_and_never_over_another() {
    let folder = std::env::temp_dir().join(format!("collcost-mock-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("run.json");
    let name = file.to_str().unwrap();
    let words = ["all_reduce_perf", "-b", "8", "-e", "1M", "-f", "2", "-n", "16", "-J", name];
    for written in [name.to_owned(), format!("{name}.0"), format!("{name}.1")] {
        let output = run(&words);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("# PREDICTED"), "{text}");
        assert!(text.contains(&format!("\n# Writing JSON output to {written}\n")), "{text}");
        let document = std::fs::read_to_string(&written).unwrap();
        assert_eq!(
            document,
            String::from_utf8(run(&[&words[..9], &["--json"]].concat()).stdout).unwrap().trim_end()
        );
        assert_eq!(read(&document).tables[0].rows.len(), 36);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
