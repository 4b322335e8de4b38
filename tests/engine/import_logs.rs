//! Logs of benchmarks: one test a trap of their formats, named after it, and what is refused.

use collcost::Collective::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, ReduceScatter, Scatter,
};
use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::sample::{DataType, Op};
use collcost::measure::logs::{self, Asked, Imported, Measured, Row, Table, Tested};

const ALL_REDUCE: &str = include_str!("../data/logs/all_reduce.txt");
const ALL_GATHER: &str = include_str!("../data/logs/all_gather.txt");
const OLD: &str = include_str!("../data/logs/all_reduce_2.8.txt");
const RCCL: &str = include_str!("../data/logs/rccl.txt");
const JSON: &str = include_str!("../data/logs/reduce_scatter.json");
const OSU: &str = include_str!("../data/logs/osu_allreduce.txt");
const OSU_P2P: &str = include_str!("../data/logs/osu_p2p.txt");
const IMB: &str = include_str!("../data/logs/imb.txt");
const BANDWIDTH: &str = include_str!("../data/logs/ib_write_bw.txt");
const LATENCY: &str = include_str!("../data/logs/ib_write_lat.txt");
const NCCOM: &str = include_str!("../data/logs/nccom.txt");
const MEASURED: &str = include_str!("../data/logs/measured.csv");

fn look(text: &str) -> Imported {
    asked(text, &Asked::default())
}

fn asked(text: &str, asked: &Asked) -> Imported {
    logs::look(text.as_bytes(), "x.log", asked).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn only(text: &str) -> Table {
    let Imported { mut tables, .. } = look(text);
    assert_eq!(tables.len(), 1, "{text}");
    tables.remove(0)
}

fn error(text: &str) -> String {
    logs::read(text.as_bytes(), "x.log", &Asked::default()).unwrap_err().to_string()
}

fn time(row: &Row) -> f64 {
    match row.measured {
        Measured::Time(Seconds(time)) => (time * 1e9).round() / 1e3,
        Measured::Rate(rate) => panic!("a rate: {rate}"),
    }
}

fn out_of_place(table: &Table) -> Vec<&Row> {
    table.rows.iter().filter(|r| !r.in_place).collect()
}

/// Lines of a log, changed one by one; none takes one away.
fn lines(text: &str, change: impl Fn(usize, &str) -> Option<String>) -> String {
    (1..).zip(text.lines()).filter_map(|(i, l)| change(i, l)).map(|l| l + "\n").collect()
}

fn without(text: &str, part: &str) -> String {
    lines(text, |_, l| (!l.contains(part)).then(|| l.to_owned()))
}

fn is_row(line: &str) -> bool {
    line.contains(" float ")
}

#[test]
fn trap_01_columns_move_between_versions() {
    let (new, old) = (only(ALL_REDUCE), only(OLD));
    assert_eq!((new.rows.len(), old.rows.len()), (14, 10));
    assert_eq!((time(&new.rows[0]), new.rows[0].wrong), (12.0, Some(0)));
    // In the old layout the column is the size of an error, no number of wrong elements.
    assert_eq!((time(&old.rows[0]), old.rows[0].wrong), (20.0, None));
    // An old all-gather has neither `redop` nor `root`, and an old broadcast `root` alone.
    let gather = OLD.replace("   redop ", " ").replace("     sum ", " ");
    let gather = lines(&gather, |_, l| {
        let elements = |l: &str| l.replacen("8388608   float", "1048576   float", 1);
        let wide = is_row(l) && !l.contains("33554432");
        (!wide).then(|| elements(l))
    });
    let gather = asked(&gather, &Asked { collective: Some(AllGather), ..Asked::default() });
    assert_eq!(gather.tables[0].tested, Tested::Collective(AllGather));
    let broadcast = OLD.replace("redop", " root").replace("   sum", "     0");
    let broadcast = lines(&broadcast, |_, l| {
        // busbw is algbw there.
        let fields: Vec<&str> = l.split_whitespace().collect();
        if !is_row(l) {
            return Some(l.to_owned());
        }
        let mut f: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
        (f[6], f[10]) = (f[5].clone(), f[9].clone());
        Some(f.join("  "))
    });
    let broadcast = only(&broadcast);
    assert_eq!(broadcast.tested, Tested::Collective(Broadcast));
    assert_eq!((broadcast.rows.len(), time(&broadcast.rows[0])), (10, 20.0));
}

/// Until June 2020 an all-gather's algbw was its busbw; quotations omit the heading.
#[test]
fn rows_of_an_old_all_gather_are_read() {
    let rows = "  65536  4096  float  20.00  2.46  2.46  0e+00  18.00  2.73  2.73  0e+00\n\
                1048576  65536  float  50.00  15.73  15.73  0e+00  48.00  16.38  16.38  0e+00\n\
                # Out of bounds values : 0 OK\n# Avg bus bandwidth    : 9.325\n";
    let gather = Asked { collective: Some(AllGather), ..Asked::default() };
    let head = OLD.lines().take_while(|l| !is_row(l)).filter(|l| !l.contains("Rank"));
    let head = head.map(|l| l.replace("   redop ", " ") + "\n").collect::<String>();
    for text in [rows.to_owned(), head + rows] {
        let table = asked(&text, &gather).tables.remove(0);
        assert_eq!(
            (table.ranks, table.rows.len(), table.left_out.len()),
            (Some(4), 4, 0),
            "{text}"
        );
        assert_eq!((time(&table.rows[0]), table.rows[3].in_place), (20.0, true));
    }
    // No number of ranks makes 40 of 52 GB/s, nor other rates for the two, nor an all-reduce.
    for (from, to) in
        [("2.46  2.46", "2.00  2.00"), ("2.46  2.46", "2.46  2.40"), ("20.00  2.46", "10.00  2.46")]
    {
        let table = asked(&rows.replacen(from, to, 1), &gather);
        let read = table.tables[0].rows.iter().any(|row| row.size == Bytes(65536));
        assert!(!read, "{to}");
    }
}

#[test]
fn trap_02_wrong_is_text_and_warns_where_it_is_not_zero() {
    let unchecked = only(&lines(ALL_REDUCE, |_, l| {
        Some(if is_row(l) { l.replace("       0", "     N/A") } else { l.to_owned() })
    }));
    assert_eq!((unchecked.rows.len(), unchecked.rows[0].wrong), (14, None));
    assert!(unchecked.warnings.is_empty());
    let wrong = only(&ALL_REDUCE.replacen("0.02       0", "0.02      17", 1));
    assert_eq!(wrong.rows[2].wrong, Some(17));
    let said = wrong.wrong().unwrap();
    assert!(said.contains("1 rows, the first in line 19"), "{said}");
    // A place that was not run.
    let one = lines(ALL_REDUCE, |_, l| {
        let fields: Vec<&str> = l.split_whitespace().collect();
        Some(if is_row(l) {
            format!("{} N/A N/A N/A N/A", fields[..9].join(" "))
        } else {
            l.into()
        })
    });
    assert_eq!((only(&one).rows.len(), only(&one).left_out.len()), (7, 0));
}

/// The run's own verdict counts where no row says which results were wrong: in all releases up to 2.10, and where the
/// row was lost. Where a row says it, the others are right.
#[test]
fn a_run_that_failed_has_wrong_results() {
    let wrong =
        |table: &Table| -> Vec<Option<u64>> { table.rows.iter().map(|r| r.wrong).collect() };
    for text in [ALL_REDUCE, OLD] {
        let failed = only(&text.replace(": 0 OK", ": 3 FAILED"));
        assert!(wrong(&failed).iter().all(|n| *n == Some(1)), "{:?}", failed.rows);
        assert!(failed.caveats[0].starts_with("out of bounds values: 3 (FAILED)"), "{failed:?}");
    }
    let named = ALL_REDUCE.replacen("0.02       0", "0.02      17", 1);
    let named = only(&named.replace(": 0 OK", ": 3 FAILED"));
    assert_eq!(wrong(&named).iter().flatten().sum::<u64>(), 17);
    assert!(named.warnings[0].contains("3 results") && named.caveats.is_empty(), "{named:?}");
    // A wrong row of one cycle says it for all cycles of the run.
    let head = ALL_REDUCE.find("           8  ").unwrap();
    let cycle = |rows: &str| format!("# Testing 1 cycle.\n{rows}");
    let row = "     1048576        262144     float     sum      -1    88.00   11.92   20.85       0    \
               88.00   11.92   20.85       0\n";
    let bad = row.replacen("20.85       0", "20.85       9", 1);
    let text = format!(
        "{}{}{}# Out of bounds values : 1 FAILED\n# Avg bus bandwidth    : 20.85\n",
        &ALL_REDUCE[..head],
        cycle(&bad),
        cycle(row)
    );
    let tables = look(&text).tables;
    let counts: Vec<u64> = tables.iter().map(|t| wrong(t).iter().flatten().sum()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 9, "{tables:?}");
    let json = JSON.replace("\"out_of_bounds\":{\"count\":0", "\"out_of_bounds\":{\"count\":7");
    assert_ne!(json, JSON);
    let failed = only(&json);
    assert!(wrong(&failed).iter().all(|n| *n == Some(1)) && failed.failed());
    // A build of IMB with -DCHECK.
    let checked = |defects: &str| {
        let text = format!(
            "# Benchmarking Allreduce\n# #processes = 4\n\
             #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]      defects\n\
             65536 1000 80.00 82.00 81.00 {defects}\n"
        );
        only(&text).rows[0].wrong
    };
    assert_eq!((checked("3.00"), checked("0.00")), (Some(1), Some(0)));
}

#[test]
fn trap_03_a_hash_tells_neither_rows_nor_headings() {
    let hashed = lines(ALL_REDUCE, |_, l| Some(if is_row(l) { format!("#{l}") } else { l.into() }));
    assert_eq!(only(&hashed).rows, only(ALL_REDUCE).rows);
    let bare = ALL_REDUCE.replace('#', "").replace(" wrong", "#wrong");
    let (bare, whole) = (only(&bare), only(ALL_REDUCE));
    assert_eq!((bare.rows, bare.ranks, bare.tested), (whole.rows, whole.ranks, whole.tested));
}

#[test]
fn trap_04_prefixes_and_lines_of_others_between_rows() {
    let whole = only(ALL_REDUCE);
    for prefix in ["[1,0]<stdout>:", "0: ", "> ", "    ", "2026-11-20T06:00:00.5Z "] {
        let text = lines(ALL_REDUCE, |i, l| {
            let noise = "\nnode1:4000:4007 [0] NCCL INFO comm 0x1 rank 0 nranks 8 - Init COMPLETE";
            Some(format!("{prefix}{l}{}", if i % 3 == 0 { noise } else { "" }))
        });
        let table = only(&text);
        assert_eq!(table.rows.len(), 14, "{prefix}");
        assert_eq!((table.ranks, &table.tested), (Some(8), &whole.tested), "{prefix}");
    }
}

/// Rows are also quoted alone: with a tag in front of each piece that a rank wrote, with a host's name, or as code.
#[test]
fn rows_alone_are_read_behind_tags_and_hosts() {
    let rows: Vec<&str> = ALL_REDUCE.lines().filter(|l| is_row(l)).collect();
    let of = |change: &dyn Fn(&str) -> String| {
        let text: String = rows.iter().map(|row| change(row) + "\n").collect();
        let tables = asked(&text, &Asked { ranks: Some(8), ..Asked::default() }).tables;
        tables.iter().map(|table| table.rows.len()).sum::<usize>()
    };
    let tagged = |tag: &str| {
        let tag = tag.to_owned();
        move |row: &str| format!("{tag}{}", row.replacen("  -1  ", &format!("  -1{tag}"), 1))
    };
    assert!(rows[0].contains("  -1  "), "{}", rows[0]);
    assert_eq!(of(&tagged("[0]")), 14);
    assert_eq!(of(&tagged("[1,0]<stdout>:")), 14);
    assert_eq!(of(&|row: &str| format!("node-7: {row}")), 14);
    assert_eq!(of(&|row: &str| format!("`{row}`")), 14);
}

#[test]
fn trap_05_tables_stay_apart_and_processes_that_ran_alone_are_refused() {
    let both = look(&format!("{ALL_REDUCE}\n{ALL_GATHER}\n{OSU_P2P}\n{IMB}"));
    assert_eq!(both.tables.len(), 2 + 3 + 7);
    assert_eq!(both.tables[1].tested, Tested::Collective(AllGather));
    assert_eq!(both.tables[2].format, "osu");
    let rank = |n: u32| {
        format!("#  Rank  {n} Group  0 Pid   {} on node1 device  {n} [0000:10:00] X\n", 9 + n)
    };
    let devices = rank(0) + &rank(0).replace("Pid   9", "Pid   10");
    let alone = lines(ALL_REDUCE, |_, l| match l {
        l if l.contains("Rank  0") => Some(devices.trim_end().to_owned()),
        l => (!l.contains("Rank ")).then(|| l.to_owned()),
    });
    // One rank's busbw is 0.
    let alone = lines(&alone, |_, l| {
        let mut fields: Vec<&str> = l.split_whitespace().collect();
        if !is_row(l) {
            return Some(l.to_owned());
        }
        (fields[7], fields[11]) = ("0.00", "0.00");
        Some(fields.join("  "))
    });
    let error = error(&alone);
    assert!(error.contains("of one rank") && error.contains("MPI=1"), "{error}");
    // Nobody says which collective: columns do, or the user.
    let unnamed = without(ALL_REDUCE, "Collective test");
    assert_eq!(only(&unnamed).tested, Tested::Collective(AllReduce));
    assert!(only(&unnamed).warnings[0].contains("inferred"));
    let unnamed = without(ALL_GATHER, "Collective test");
    assert!(only(&unnamed).refused.unwrap().help.contains("--collective"));
    let told = asked(&unnamed, &Asked { collective: Some(AllToAll), ..Asked::default() });
    assert_eq!(
        (told.tables[0].rows.len(), &told.tables[0].tested),
        (12, &Tested::Collective(AllToAll))
    );
}

#[test]
fn trap_06_ranks_of_a_broken_list_or_of_none() {
    let last = lines(ALL_REDUCE, |_, l| {
        (!l.contains("Rank ") || l.contains("Rank  7")).then(|| l.to_owned())
    });
    assert_eq!((only(&last).ranks, only(&last).ranks_by), (Some(8), Some("list of devices")));
    let broken = ALL_REDUCE.replace(" Group  0 Pid   4003 on      node1", "");
    assert_eq!(only(&broken).ranks, Some(8));
    let none = without(ALL_REDUCE, "Rank ");
    assert_eq!((only(&none).ranks, only(&none).ranks_by), (Some(8), Some("columns")));
    // A list that was cut in its middle against the rates.
    let cut = lines(ALL_REDUCE, |_, l| {
        let late = ["4", "5", "6", "7"].iter().any(|r| l.contains(&format!("Rank  {r}")));
        (!late).then(|| l.to_owned())
    });
    assert_eq!(only(&cut).ranks, Some(8));
    assert!(only(&cut).warnings.iter().any(|w| w.contains("are those of 8")));
    // Rates without digits tell nothing: somebody must.
    let small = lines(&none, |_, l| {
        let large = is_row(l) && !l.contains("     8     ") && !l.contains("   128   ");
        (!large).then(|| l.to_owned())
    });
    let error = error(&small);
    assert!(error.contains("how many ranks") && error.contains("--n N"), "{error}");
    let told = asked(&small, &Asked { ranks: Some(8), ..Asked::default() });
    assert_eq!(told.tables[0].ranks_by, Some("--n"));
    // A split run: each half is a communicator.
    let split = lines(ALL_REDUCE, |_, l| {
        Some(if l.contains("node2") { l.replace("Group  0", "Group  1") } else { l.to_owned() })
    });
    assert!(only(&split).warnings.iter().any(|w| w.contains("2 groups")));
}

#[test]
fn trap_07_rows_of_zero_bytes_and_odd_sizes() {
    let table = only(ALL_GATHER);
    assert_eq!((table.rows.len(), table.left_out.len()), (12, 1));
    assert!(table.left_out[0].why.contains("0 bytes"));
    assert_eq!(table.left_out[0].lines, [18]);
    let doubled =
        lines(ALL_REDUCE, |_, l| Some(if is_row(l) { format!("{l}\n{l}") } else { l.to_owned() }));
    assert_eq!(only(&doubled).rows.len(), 28);
}

#[test]
fn trap_08_sizes_are_of_all_ranks_and_counts_of_one() {
    let table = only(ALL_GATHER);
    assert_eq!(table.rows[0].size, Bytes(128));
    // The count, 4 floats at 128 bytes, tells N where the list does not.
    let none = without(ALL_GATHER, "Rank ");
    assert_eq!((only(&none).ranks, only(&none).ranks_by), (Some(8), Some("columns")));
    let table = only(JSON);
    assert_eq!((table.ranks, table.rows[0].size), (Some(8), Bytes(128)));
}

/// A gather's and an all-to-all's columns are the same: where no line says which it was, the name of the
/// file may, unless it says something that the columns do not fit.
#[test]
fn a_file_named_for_its_collective_says_which_it_is() {
    let nameless = without(ALL_GATHER, "_perf");
    let read = |file: &str| {
        let mut log = logs::look(nameless.as_bytes(), file, &Asked::default()).unwrap();
        let table = log.tables.remove(0);
        (table.refused.is_none()).then_some(table.tested)
    };
    assert_eq!(read("n2.g4_all_gather_output.dat.5"), Some(Tested::Collective(AllGather)));
    assert_eq!(read("folder/AlltoAll-8.txt"), Some(Tested::Collective(AllToAll)));
    assert_eq!(read("all gather.csv"), Some(Tested::Collective(AllGather)));
    let others =
        ["x.log", "all_reduce.log", "all_gather_alltoall.log", "all_gather/x.log", "smallgather"];
    for other in others {
        assert_eq!(read(other), None, "{other}");
    }
}

/// Tables of nccl-tests as CSV, without the lines around them.
#[test]
fn commas_may_separate_the_columns() {
    let rows = lines(ALL_REDUCE, |_, l| {
        is_row(l).then(|| l.split_whitespace().collect::<Vec<_>>().join(","))
    });
    let head = "size,count,type,redop,root,time,algbw,busbw,#wrong,time,algbw,busbw,#wrong\n";
    let (csv, plain) = (only(&format!("{head}{rows}")), only(ALL_REDUCE));
    let of = |table: &Table| -> Vec<_> {
        table.rows.iter().map(|row| (row.size, time(row), row.in_place)).collect()
    };
    assert_eq!((of(&csv), csv.ranks), (of(&plain), plain.ranks));
    let quoted =
        lines(&format!("{head}{rows}"), |_, l| Some(format!("\"{}\"", l.replace(',', "\", \""))));
    assert_eq!(of(&only(&quoted)), of(&plain));
    // What the columns say is not overruled.
    let asked = asked(
        &format!("{head}{rows}"),
        &Asked { collective: Some(ReduceScatter), ..Asked::default() },
    );
    let why = asked.tables[0].refused.as_ref().map(|r| r.what.clone()).unwrap_or_default();
    assert!(
        why.contains("are those of allreduce") || why.contains("are those of all-reduce"),
        "{why}"
    );
}

#[test]
fn trap_09_the_time_is_used_and_algbw_checks_it() {
    let table = only(ALL_REDUCE);
    let first = table.rows[0];
    assert_eq!((first.size, time(&first)), (Bytes(8), 12.0));
    assert!(ALL_REDUCE.contains("12.00    0.00    0.00"), "algbw has no digit there");
    // Digits of a time change with its length: 12.00 and 1232.16.
    assert_eq!(time(out_of_place(&table)[6]), 1232.16);
    // A time of 10 s is wider than its column.
    let slow = lines(ALL_REDUCE, |_, l| {
        Some(if l.contains(" 134217728 ") {
            l.replacen("1232.16  108.93  190.63", "1.2e+07    0.01    0.02", 1)
        } else {
            l.into()
        })
    });
    assert_eq!(time(out_of_place(&only(&slow))[6]), 12e6);
    // A figure that was lost moves all others.
    let moved = only(&lines(ALL_REDUCE, |_, l| {
        Some(if l.contains(" 8388608 ") { l.replacen("   88.26", "   8.826", 1) } else { l.into() })
    }));
    assert_eq!(moved.rows.len(), 12, "{moved:?}");
    assert!(moved.left_out[0].why.contains("contradict"));
}

#[test]
fn trap_10_an_average_over_sizes_is_no_measurement() {
    let error = error("INFO - NCCL Test Succeeded: Avg bus bandwidth is 230.167\n");
    assert!(error.contains("measures nothing") && error.contains("x.log:1"), "{error}");
    let table = only(ALL_REDUCE);
    assert!(out_of_place(&table).len() == 7, "the line of averages is no row");
}

#[test]
fn trap_11_busbw_above_any_link_is_read() {
    let fast = lines(ALL_REDUCE, |_, l| (!is_row(l)).then(|| l.to_owned()));
    let row = "  1073741824     268435456     float     sum      -1   1073.7  1000.0  1750.0       0   \
               1073.7  1000.0  1750.0       0\n";
    let text = fast.replace("# Out of", &format!("{row}# Out of"));
    assert_eq!(only(&text).rows.len(), 2);
}

#[test]
fn trap_12_ranks_that_share_a_gpu_are_told() {
    let shared = ALL_REDUCE.replace("device  1 [0000:20:00]", "device  0 [0000:10:00]");
    assert!(
        only(&shared).warnings[0].contains("ranks 0 and 1 share the GPU [0000:10:00] of node1")
    );
    // The short form of old versions is the same for neighbours.
    assert!(only(OLD).warnings.iter().all(|w| !w.contains("share")), "{:?}", only(OLD).warnings);
    // It leaves out the PCI domain, and a rank may see one device: ranks 0 to 7 of GH200s.
    let mut short = ALL_REDUCE.to_owned();
    for i in 0..8 {
        let (long, bus) = (format!("device  {i} ["), format!("[0000:{}0:00]", i + 1));
        short = short.replace(&long, "device  0 [").replace(&bus, "[0x01]");
    }
    let alike = only(&short);
    assert!(short.contains("device  0 [0x01]") && !alike.shares_gpus, "{:?}", alike.warnings);
}

#[test]
fn trap_13_what_is_cut_off_is_left_out_with_its_line() {
    let end = ALL_REDUCE.find("   134217728").unwrap();
    for more in [13, 40, 60, 80, 100] {
        let table = only(&ALL_REDUCE[..end + more]);
        assert_eq!(table.rows.len(), 12, "{more}");
        assert_eq!(table.left_out[0].lines, [24], "{more}");
        assert!(table.left_out[0].why.contains("cut off"), "{:?}", table.left_out);
        assert!(table.warnings.iter().any(|w| w.contains("not end with a line of averages")));
    }
    let heading = ALL_REDUCE.find("           8  ").unwrap();
    assert!(error(&ALL_REDUCE[..heading]).contains("before the table's first row"));
    let devices = ALL_REDUCE.find("#  Rank  7").unwrap();
    let error = error(&ALL_REDUCE[..devices]);
    assert!(error.contains("ends before its table") && error.contains("x.log:3"), "{error}");
}

#[test]
fn trap_14_rccl_tests() {
    let log = look(RCCL);
    assert_eq!(log.tables.len(), 2, "a cycle is a table");
    assert!(log.tables.iter().all(|t| t.ranks == Some(8) && t.rows.len() == 14));
    assert_eq!(log.tables[0].nodes, Some(2));
    // One place alone, where the collective has only that.
    let single = lines(ALL_REDUCE, |_, l| {
        let fields: Vec<&str> = l.split_whitespace().collect();
        Some(match l {
            l if is_row(l) => fields[..9].join("  "),
            l if l.contains("out-of-place") => "#              in-place".into(),
            l if l.contains("size  ") => fields[..10].join("  "),
            l => l.to_owned(),
        })
    });
    let single = only(&single);
    assert!(single.rows.len() == 7 && single.rows.iter().all(|r| r.in_place));
}

/// What rccl-tests prints since 2026: its versions first, and a time by events beside each time.
#[test]
fn rccl_tests_of_2026() {
    let first = "# rccl-tests version 2.17.9-develop:2596ca5f71 rccl-headers=22803 rccl-library=22707\n\
                 # Collective test starting: all_reduce_perf\n";
    let rows = lines(&without(RCCL, "rccl-tests: Version"), |_, l| {
        let fields: Vec<&str> = l.split_whitespace().collect();
        Some(match l {
            l if is_row(l) => {
                let (words, out, place) = (&fields[..5], &fields[5..9], &fields[9..13]);
                let five = |of: &[&str]| format!("{}  9.99  {}", of[0], of[1..].join("  "));
                format!("{}  {}  {}", words.join("  "), five(out), five(place))
            }
            l => l.replace(" time ", " time  hipevt ").replace("(us) ", "(us)  (us) "),
        })
    });
    let today = look(&format!("{first}{rows}"));
    let before = look(RCCL);
    assert_eq!(today.tables.len(), before.tables.len());
    for (today, before) in today.tables.iter().zip(&before.tables) {
        let plain = |table: &Table| -> Vec<(Bytes, bool, f64, Option<u64>)> {
            table.rows.iter().map(|r| (r.size, r.in_place, time(r), r.wrong)).collect()
        };
        assert_eq!(plain(today), plain(before));
        assert_eq!(today.library.as_deref(), Some("RCCL 2.27.7"));
        assert_eq!((today.ranks, today.tested.collective()), (Some(8), Some(AllReduce)));
    }
    // Without the heading, too.
    let bare = lines(&rows, |_, l| is_row(l).then(|| l.to_owned()));
    let asked = Asked { collective: Some(AllReduce), ranks: Some(8), ..Asked::default() };
    let bare = &self::asked(&bare, &asked).tables[0];
    assert_eq!((bare.rows.len(), bare.left_out.len()), (28, 0), "{:?}", bare.left_out);
    assert_eq!(time(&bare.rows[0]), 12.0);
    let json = only(&JSON.replace("\"nccl_version\":22907", "\"rccl_version\":22707"));
    assert_eq!(json.library.as_deref(), Some("RCCL 2.27.7"));
}

#[test]
fn trap_15_prose_and_elisions_around_a_table() {
    let prose = format!(
        "## Result\n```\n{}```\nThe busbw of 190 GB/s at 134217728 is 1.7 times that of 8388608.\n\
         8 ranks are enough; 2 nodes 4 GPUs.\n1. First 2. Second\n",
        lines(ALL_REDUCE, |_, l| Some(if l.contains("  2048  ") {
            "...".into()
        } else {
            l.into()
        }))
    );
    let table = only(&prose);
    assert_eq!((table.rows.len(), table.left_out.len()), (12, 0), "{:?}", table.left_out);
}

#[test]
fn trap_16_osu_sizes_and_units() {
    let table = &look(OSU).tables[0];
    assert_eq!((table.rows[0].size, table.rows[0].dtype), (Bytes(4), Some(DataType::F32)));
    let gather = OSU.replace("Allreduce", "Allgather").replace("MPI_FLOAT", "MPI_CHAR");
    assert_eq!(only(&gather).rows[0].size, Bytes(4 * 32), "a rank's block");
    let exchange = OSU.replace("Allreduce", "All-to-All Personalized Exchange");
    assert_eq!(only(&exchange).rows[0].size, Bytes(4 * 32), "a block for a peer");
    assert_eq!(only(&OSU.replace("Allreduce", "Reduce_scatter")).rows[0].size, Bytes(4));
    for (title, collective) in [
        ("All-to-Allv Personalized Exchange", AllToAll),
        ("Allgatherv", AllGather),
        ("Gatherv", Gather),
        ("Scatterv", Scatter),
        ("Reduce_scatter_block", ReduceScatter),
    ] {
        let log = OSU.replace("Allreduce", title).replace("osu_allreduce", "osu_x");
        let table = only(&log);
        assert_eq!(table.tested, Tested::Collective(collective), "equal counts");
        assert_eq!(table.warnings.is_empty(), collective == ReduceScatter, "{title}");
    }
    // `osu_reduce_scatter_block.c` divides the elements by the ranks, and the rest is not sent.
    let block = only(&OSU.replace("Allreduce", "Reduce_scatter_block"));
    assert_eq!((block.rows.len(), block.left_out[0].count), (table.rows.len() - 2, 2), "{block:?}");
    let derived = OSU.replace("Avg Latency(us)", "Avg Latency(us)  Transmit Size");
    assert!(look(&derived).tables[0].refused.as_ref().unwrap().what.contains("derived datatype"));
    // Over NCCL each rank has whole elements, and what is left of a size is not sent.
    let over = |library: &str| {
        let rows =
            OSU.replace("4                            3.00", "2048                         3.00");
        let rows = rows.replace("srun -N2 --ntasks-per-node=16", "srun -N2 --ntasks-per-node=12");
        let table = only(&rows.replace("Allreduce", "Reduce_scatter").replace("MPI", library));
        let sizes: Vec<u64> = table.rows.iter().map(|r| r.size.0).collect();
        (sizes, table.left_out.iter().map(|left| left.count).sum::<usize>())
    };
    assert_eq!(over("MPI").0[..4], [2048, 64, 1024, 16384]);
    let (sizes, none) = over("NCCL");
    assert_eq!(
        (&sizes[..3], none),
        (&[2016, 960, 16320][..], 1),
        "64 bytes are 16 floats for 24 ranks"
    );
    for (title, why) in [
        ("All-to-Allw Personalized Exchange", "datatype"),
        ("Allgatherv Persistent", "set up before"),
        ("Non-blocking Gatherv", "overlaps"),
        ("Neighborhood Allgatherv", "neighbours"),
    ] {
        let refused = look(&OSU.replace("Allreduce", title)).tables[0].refused.clone().unwrap();
        assert!(refused.what.contains(why), "{title}: {}", refused.what);
    }
    let both = &look(OSU_P2P).tables[1];
    assert_eq!(both.tested, Tested::Rate { both_ways: true });
    let Measured::Rate(rate) = both.rows[6].measured else { panic!("a rate") };
    assert_eq!((rate.0 / 1e6).round() / 1e3, 23.959, "MB are 10^6 bytes");
    let barrier = "# OSU MPI Barrier Latency Test v5.8\n# Avg Latency(us)\n   12.34\n";
    let barrier = asked(barrier, &Asked { ranks: Some(4), ..Asked::default() });
    assert_eq!(barrier.tables[0].tested, Tested::Collective(Barrier));
    assert_eq!((barrier.tables[0].rows.len(), time(&barrier.tables[0].rows[0])), (1, 12.34));
}

#[test]
fn trap_17_osu_says_nothing_of_ranks() {
    let table = only(OSU);
    assert_eq!((table.ranks, table.ranks_by, table.nodes), (Some(32), Some("command"), Some(2)));
    let none = without(OSU, "srun");
    assert!(error(&none).contains("--n N"));
    let job = r#"{"resources": [{"type": "node", "count": 4, "with": [{"type": "slot", "count": 6}]}], "tasks": [{"count": {"per_slot": 1}}]}"#;
    let table = only(&format!("{none}START OF JOBSPEC\n{job}\n{{\"timestamp\":1.5}}\n"));
    assert_eq!(
        (table.ranks, table.nodes, table.ranks_by),
        (Some(24), Some(4), Some("job description"))
    );
    assert_eq!(table.rows.len(), 6);
}

#[test]
fn trap_18_osu_suffixes_and_warnings_of_others() {
    for suffix in ["", "-ROCM", "-ZE", "-OPENACC"] {
        assert_eq!(only(&OSU.replace("-CUDA", suffix)).rows.len(), 6);
    }
    let noise = lines(OSU, |i, l| {
        Some(format!("{l}\n[161.2{i}] [g1:14:0] ucp.c:14 UCX  WARN  UCP version\nreal 9.67"))
    });
    assert_eq!(only(&noise).rows, only(&noise).rows);
    assert_eq!(only(&noise).rows.len(), 6);
}

#[test]
fn trap_19_pairs_and_message_rates_are_no_times() {
    let log = look(OSU_P2P);
    assert_eq!(log.tables[2].tested, Tested::Rate { both_ways: false });
    assert_eq!(log.tables[2].rows.len(), 7);
    let several = OSU_P2P.replace("OSU MPI Latency", "OSU MPI Multi Latency");
    assert!(look(&several).tables[0].refused.as_ref().unwrap().what.contains("how many ranks"));
    let two = asked(&several, &Asked { ranks: Some(2), ..Asked::default() });
    assert_eq!(two.tables[0].op(&two.tables[0].rows[0]), Some(Op::OneWay));
    let samples = log.samples();
    assert_eq!((samples.blocks.len(), samples.left_out.len()), (8, 2), "rates are left out");
}

#[test]
fn trap_20_outliers_are_kept_for_the_fit_to_judge() {
    let slow = OSU.replace("13.67", "9943.35");
    assert_eq!(only(&slow).rows.len(), only(OSU).rows.len());
}

#[test]
fn trap_21_imb_counts_those_who_take_part_and_lasts_until_the_last() {
    let log = look(IMB);
    assert_eq!(log.tables[0].tested, Tested::OneWay);
    assert_eq!((log.tables[0].ranks, log.tables[0].rows[0].size), (Some(2), Bytes(0)));
    let allreduce = &log.tables[1];
    assert_eq!((allreduce.ranks, allreduce.rows.len()), (Some(4), 3), "4 of 8 processes");
    assert_eq!(time(&allreduce.rows[0]), 2.2, "t_max");
    assert!(allreduce.left_out[0].why.contains("0 bytes"));
    assert_eq!(log.tables[5].tested, Tested::Collective(Barrier));
    let why = |i: usize| log.tables[i].refused.as_ref().map_or("", |r| r.what.as_str());
    assert!(why(4).contains("Alltoallv") && why(6).contains("t_ovrl"));
    let groups = IMB.replace(
        "# ( 4 additional processes waiting in MPI_Barrier)",
        "# ( 2 groups of 4 processes each running simultaneous )",
    );
    assert!(look(&groups).tables[1].refused.is_some());
}

#[test]
fn trap_22_imb_sizes() {
    let log = look(IMB);
    assert_eq!(log.tables[2].tested, Tested::Collective(ReduceScatter));
    assert_eq!(log.tables[2].rows[0].size, Bytes(16), "four blocks of four bytes");
    assert_eq!(log.tables[3].rows[0].size, Bytes(4), "four blocks of one byte");
    // Up to 2019 `IMB_reduce_scatter.c` divided the size by the ranks.
    for (release, size) in [("2018 Update 3", 4), ("2019", 4), ("2019 Update 1", 16), ("4.1", 4)] {
        let log = look(&IMB.replace("2021.8", release));
        assert_eq!(log.tables[2].rows[0].size, Bytes(size), "{release}");
        assert!(log.tables[2].warnings.is_empty(), "{release}");
        let block =
            IMB.replace("2021.8", release).replace("Reduce_scatter", "Reduce_scatter_block");
        assert_eq!(look(&block).tables[2].rows[0].size, Bytes(16), "{release}");
    }
    let silent = look(&without(IMB, "Intel(R)"));
    assert_eq!(silent.tables[2].rows[0].size, Bytes(16));
    assert!(silent.tables[2].warnings[0].contains("names no release"), "{silent:?}");
    // A row that was not measured stands in the table.
    let last = "262144           40        48.99        59.87        54.43\n";
    let over = " 524288 time-out.; Time limit (secs_per_sample * msg_sizes_list_len) is over\n";
    let over = &look(&IMB.replacen(last, &format!("{last}{over}"), 1)).tables[1];
    assert!(over.left_out.iter().any(|left| left.why == "not measured: time-out"), "{over:?}");
    // Copied through a spreadsheet.
    let tabs = look(
        &IMB.replace("Benchmarking Allreduce", "Benchmarking\tAllreduce\t")
            .replace("#processes = 4", "#processes\t=\t4"),
    );
    assert_eq!((tabs.tables[1].ranks, tabs.tables[1].rows.len()), (Some(4), 3));
}

#[test]
fn oneccl_counts_what_a_rank_sends() {
    let of = |what: &str| {
        let text = format!(
            "  datatypes:      float32\n# Benchmarking: {what}\n# #processes: 8\n\
             #bytes  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n\
             4194304            16        310.00        330.00        318.00        2.31\n"
        );
        only(&text).rows[0].size
    };
    assert_eq!((of("reduce_scatter"), of("allreduce")), (Bytes(4 << 20), Bytes(4 << 20)));
    assert_eq!((of("allgather"), of("alltoall")), (Bytes(32 << 20), Bytes(32 << 20)));
}

/// In place is another operation, other reductions are told, and several calls at once are no time of one.
#[test]
fn oneccls_options_are_read() {
    let of = |options: &str| {
        format!(
            "options:\n  processes:       8\n{options}  datatypes:       float32 \n# Benchmarking: allreduce \n\
             # #processes: 8\n#bytes  #elem_count  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n\
             4194304  1048576  16        310.00        330.00        318.00        2.31\n"
        )
    };
    let plain = only(&of("  buf_count:       1\n  inplace:         0\n  reductions:      sum \n"));
    assert!(plain.warnings.is_empty() && !plain.rows[0].in_place, "{plain:?}");
    let other = only(&of("  buf_count:       1\n  inplace:         1\n  reductions:      max \n"));
    assert!(other.caveats[0].contains("not a sum") && other.rows[0].in_place, "{other:?}");
    assert!(error(&of("  buf_count:       4\n")).contains("4 calls run at once"));
    // The options of the run before do not hold for the next.
    let two = look(&(of("  buf_count:       4\n") + &of("")));
    assert_eq!((two.tables[0].rows.len(), two.tables[1].rows.len()), (0, 1));
}

/// A row without a number is left out, and told; a line that begins with a number is no row.
#[test]
fn osus_rows_without_numbers_are_told() {
    let text = "# OSU MPI Allreduce Latency Test v7.1\n# Size       Avg Latency(us)\n4   2.10\n8   nan\n16   inf\n\
                32   2,50\n64 lines follow\n128   3.10\n";
    let table = &asked(text, &Asked { ranks: Some(4), ..Asked::default() }).tables[0];
    assert_eq!(table.rows.len(), 2);
    let lines: Vec<usize> = table.left_out.iter().flat_map(|left| left.lines.clone()).collect();
    assert_eq!(lines, [4, 5, 6], "{:?}", table.left_out);
}

/// Neither HCCL's tests nor NVSHMEM's print how many ranks ran: the command above them does.
#[test]
fn commands_say_how_many_ranks_ran() {
    let hccl = "$ mpirun -np 16 ${HOME}/hccl_test/bin/all_reduce_test -b 2M -e 2M -d fp32 -o sum -p 8\n\
        data_size(Bytes): |   aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n\
        2097152           | 1000.00        | 2.09715              | success\n";
    let table = only(hccl);
    assert_eq!(
        (table.ranks, table.nodes, table.rows[0].dtype),
        (Some(16), Some(2), Some(DataType::F32))
    );
    assert!(
        table.warnings.is_empty() && table.tested == Tested::Collective(AllReduce),
        "{table:?}"
    );
    let nvshmem = "$ srun -N2 --ntasks-per-node=4 --mpi=pmix /usr/local/perftest/device/coll/alltoall_latency\n\
        #alltoall_device\nsize(B)     count     type      scope     latency(us)       algbw(GB/s)   busbw(GB/s)\n\
        32          8         32-bit    block     90.000000         0.000         0.000\n";
    let table = only(nvshmem);
    assert_eq!((table.ranks, table.nodes, table.rows.len()), (Some(8), Some(2), 1));
}

/// Releases of 2023 print nothing before the heading (microsoft/mscclpp pull request 87).
#[test]
fn mscclpps_table_may_begin_at_its_heading() {
    let text = "#                                    in-place                       out-of-place\n\
                #       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n\
                #        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n  \
                1073741824      33554432                                    7186.2  149.42  130.74      0\n\n\
                # Out of bounds values : 0 OK\n";
    let all_gather = Asked { ranks: Some(8), collective: Some(AllGather), ..Asked::default() };
    let table = &asked(text, &all_gather).tables[0];
    assert_eq!((table.format, table.rows.len()), ("mscclpp", 1), "{table:?}");
    assert_eq!((time(&table.rows[0]), table.rows[0].in_place), (7186.2, false));
    let failed = &asked(&text.replace("0 OK", "2 FAILED"), &all_gather).tables[0];
    assert_eq!(failed.rows[0].wrong, Some(1));
}

/// Kernels are libraries of their own, and replays of a graph are told.
#[test]
fn mscclpps_kernels_and_graphs_are_told() {
    let table = |graph: u32, rows: &str| {
        let text = format!(
            "# minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 10 iters: 100 validation: 0 \
             graph: {graph} kernel num: 6\n\
             #       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n{rows}"
        );
        asked(&text, &Asked { ranks: Some(8), collective: Some(AllReduce), ..Asked::default() })
            .tables[0]
            .clone()
    };
    // Without a check there is no column of it; a row that is cut off has fewer digits.
    let rows = "1048576  262144  12.64  82.96  145.18\n2097152  524288  20.10  104.34  182.5\n";
    for graph in [1, 15, 20] {
        let table = table(graph, rows);
        assert_eq!((table.rows.len(), table.left_out[0].count), (1, 1));
        assert_eq!(table.library.as_deref(), Some("MSCCL++ kernel 6"));
        assert!(table.caveats[0].contains("CUDA graph"), "{graph}");
    }
    assert!(table(0, rows).caveats.is_empty());
    let json = |kernel: u32| {
        format!(
            "{{\"name\": \"allreduce\", \"kernel\": {kernel}, \"ranks\": 8, \"ranksPerNode\": 8, \"size\": 1024, \
             \"time\": 5.0}}\n"
        )
    };
    let log = look(&(json(2) + &json(6)));
    let libraries: Vec<_> = log.tables.iter().map(|t| t.library.as_deref().unwrap()).collect();
    assert_eq!(libraries, ["MSCCL++ kernel 2", "MSCCL++ kernel 6"]);
    assert!(log.tables.iter().all(|t| t.caveats[0].contains("CUDA graph")));
}

#[test]
fn each_benchmark_of_gloo_has_its_own_name() {
    let table = |name: &str| {
        format!(
            "                         {name}\nOptions:            processes=4, inputs=1, threads=1, verify=true\n   \
             size (B)   elements   min (us)   p50 (us)   p99 (us)   max (us)      bandwidth (GB/s)   iterations\n       \
             400000     100000        540        600        970       1450                 0.057          500\n"
        )
    };
    let log = look(&(table("ALLREDUCE_RING") + &table("ALLTOALL") + &table("NEW_ALLREDUCE_RING")));
    let read = |i: usize| (log.tables[i].tested.clone(), log.tables[i].rows.len());
    assert_eq!(read(0), (Tested::Collective(AllReduce), 1));
    assert_eq!(read(1), (Tested::Other("alltoall".into()), 0));
    assert_eq!(read(2), (Tested::Collective(AllReduce), 1));
    for (name, why) in [("ALLREDUCE_LOCAL", "sends anything"), ("ALLGATHER_V", "unequal")] {
        assert!(error(&table(name)).contains(why), "{name}");
    }
}

#[test]
fn blanks_of_browsers_are_blanks() {
    let odd = ALL_REDUCE.replace("  ", " \u{a0}");
    assert_eq!(only(&odd).rows, only(ALL_REDUCE).rows);
}

/// A split run: each line has the number of its communicator, and the rank of the whole job.
#[test]
fn nodes_of_a_group_are_counted_as_its_ranks_are() {
    let device = |rank: u32, host: &str, group: u32| {
        format!(
            "#  Rank {rank:2} Group {group:2} Pid   1000 on {host} device  {} [0000:07:00] NVIDIA H100 80GB HBM3\n",
            rank % 4
        )
    };
    let head = |group: fn(u32) -> u32| -> String {
        (0..8)
            .map(|rank| device(rank, if rank < 4 { "node1" } else { "node2" }, group(rank)))
            .collect()
    };
    let table = |devices: &str| {
        let text = format!(
            "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n\
             # Using devices\n{devices}#\n\
             #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
             #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n     \
             1048576        262144     float     sum      -1    30.00   34.95   FACTOR      0    30.00   34.95   FACTOR      0\n\
             # Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n"
        );
        only(&text.replace("FACTOR", if devices.contains("Group  1") { "52.43" } else { "61.17" }))
    };
    let blocks = table(&head(|rank| rank / 4));
    assert_eq!((blocks.ranks, blocks.nodes), (Some(4), Some(1)));
    let across = table(&head(|rank| rank % 2));
    assert_eq!((across.ranks, across.nodes), (Some(4), Some(2)));
    let whole = table(&head(|_| 0));
    assert_eq!((whole.ranks, whole.nodes), (Some(8), Some(2)));
    // The end of the list is missing: the columns tell how many ranks there are, and nothing how many hosts.
    let end = ["Rank  4", "Rank  5", "Rank  6", "Rank  7"];
    let cut = only(&end.iter().fold(ALL_GATHER.to_owned(), |text, line| without(&text, line)));
    assert_eq!((cut.ranks, cut.nodes), (Some(8), None), "{:?}", cut.warnings);
}

#[test]
fn trap_23_and_24_a_debug_log_goes_elsewhere() {
    let error = error("node1:1:1 [0] NCCL INFO AllReduce | 8.5/ 0.0 |\n");
    assert!(error.contains("debug log") && error.contains("collcost nccl log"), "{error}");
}

#[test]
fn prefixes_of_loggers_and_pods_are_read_through() {
    let whole = only(ALL_REDUCE);
    type Prefix = fn(usize, &str) -> String;
    let prefixed: [Prefix; 4] = [
        |i, l| format!("[2026-11-20 10:11:{:02},{:03}] INFO - {l}", i % 60, i),
        |i, l| format!("nccl-worker-0 main 2026-11-20T10:11:{:02}.{}Z {l}", i % 60, i + 1),
        |i, l| format!("2026-11-20T10:11:{:02}.5Z stdout F {l}", i % 60),
        |_, l| serde_json::json!({"log": format!("{l}\n"), "stream": "stdout"}).to_string(),
    ];
    for prefix in prefixed {
        let text = lines(ALL_REDUCE, |i, l| Some(prefix(i, l)));
        let read = only(&text);
        assert_eq!((&read.rows, read.ranks), (&whole.rows, whole.ranks), "{text}");
    }
    // A prefix with other letters in each line is not learned, and the reason says so.
    let text = lines(ALL_REDUCE, |i, l| Some(format!("{} {l}", "x".repeat(i))));
    let left_out = &only(&text).left_out;
    assert!(left_out[0].why.contains("behind other text on its line"), "{left_out:?}");
    let bare = "x size count type redop root time   algbw   busbw\nx Avg bus bandwidth : 4.2\n";
    assert!(error(bare).contains("cannot be read"), "{}", error(bare));
}

#[test]
fn a_row_behind_another_line_is_reported() {
    let whole = only(ALL_REDUCE);
    let first = whole.rows[0].line;
    let said = "node2:99:1 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] via P2P/CUMEM";
    let log = lines(ALL_REDUCE, |i, l| {
        Some(if i == first { format!("{said} {}", l.trim_start()) } else { l.to_owned() })
    });
    let table = only(&log);
    assert_eq!(table.rows.len() + 2, whole.rows.len());
    assert_eq!(table.left_out[0].lines, [first], "{table:?}");
    assert!(table.left_out[0].why.contains("behind other text"), "{table:?}");
}

/// The last line of a run names its own tables, and not those below it.
#[test]
fn a_closing_line_names_the_table_above_it() {
    let table = |name: &str| {
        let rows = without(&without(ALL_GATHER, "starting:"), "nThread");
        rows.replace("all_gather_perf", name)
    };
    let (first, second) = (table("alltoall_perf"), table("all_gather_perf"));
    let tested = |text: &str| -> Vec<Tested> {
        look(text).tables.into_iter().map(|table| table.tested).collect()
    };
    let both = [Tested::Collective(AllToAll), Tested::Collective(AllGather)];
    assert_eq!(tested(&(first.clone() + &second)), both);
    // Without a closing line of its own the second one stays open, and a command above does not count against one.
    let open = without(&second, "concluded");
    assert!(tested(&(first.clone() + &open))[1] != both[0]);
    let command = format!("mpirun -np 8 ./all_gather_perf -b 8\n{first}");
    assert_eq!(tested(&command), both[..1]);
    // One whose table is missing names none.
    assert_eq!(tested(&(first + "# Collective test concluded: all_reduce_perf\n")), both[..1]);
}

/// NCCL writes between the pieces of a row: they are joined if each is whole and in its place.
#[test]
fn pieces_of_a_row_between_lines_of_nccl_are_joined() {
    let whole = only(ALL_REDUCE);
    let said = |host: &str| format!("{host}:12:12 [1] NCCL INFO AllReduce: opCount 0 count 2\n");
    let split = |host: &str, glued: bool| {
        lines(ALL_REDUCE, |_, l| {
            if !is_row(l) {
                return Some(l.to_owned());
            }
            let fields: Vec<&str> = l.split_whitespace().collect();
            let pieces = [&fields[..5], &fields[5..9], &fields[9..]].map(|piece| piece.join("  "));
            let between = |piece: &str| match glued {
                true => format!("{piece}{}{}", said(host), said("node2")),
                false => format!("{piece}\n{}", said("node2")),
            };
            Some(format!("{}{}{}", between(&pieces[0]), between(&pieces[1]), pieces[2]))
        })
    };
    let figures = |table: &Table| -> Vec<(u64, bool, f64)> {
        table.rows.iter().map(|r| (r.size.0, r.in_place, time(r))).collect()
    };
    for text in [split("node1", true), split("node1", false)] {
        let read = only(&text);
        assert_eq!(figures(&read), figures(&whole), "{text}");
        assert!(read.left_out.is_empty(), "{:?}", read.left_out);
    }
    // Digits of a host's name may be the row's.
    let open = error(&split("1node", true));
    assert!(open.contains("between the pieces") && open.contains("NCCL_DEBUG_FILE"), "{open}");
    // A piece is missing: the others do not make a row, and the next row is read.
    let first = split("node1", true);
    let piece = first.lines().find(|l| l.contains("0.17    0.30") || l.contains("0.17  0.30"));
    let cut = first.replacen(&format!("{}\n", piece.unwrap()), "", 1);
    let read = only(&cut);
    assert_eq!(read.rows.len() + 2, whole.rows.len(), "{cut}");
    assert_eq!(read.left_out.len(), 1, "{:?}", read.left_out);
}

/// Some write the heading of two places, and the figures of the first.
#[test]
fn rows_with_the_figures_of_one_place_are_read() {
    let whole = only(ALL_REDUCE);
    let half = lines(ALL_REDUCE, |_, l| {
        let fields: Vec<&str> = l.split_whitespace().collect();
        Some(if is_row(l) { fields[..9].join("  ") } else { l.to_owned() })
    });
    let read = only(&half);
    let places = |table: &Table| -> Vec<(u64, f64)> {
        out_of_place(table).into_iter().map(|r| (r.size.0, time(r))).collect()
    };
    assert_eq!((read.rows.len(), places(&read)), (7, places(&whole)));
    assert!(read.warnings[0].contains("only the figures out of place"), "{:?}", read.warnings);
    // Behind whole rows such a row is one that is cut off.
    let last = ALL_REDUCE.lines().rfind(|l| is_row(l)).unwrap();
    let fields: Vec<&str> = last.split_whitespace().collect();
    let cut = only(&ALL_REDUCE.replace(last, &fields[..9].join("  ")));
    assert_eq!(cut.rows.len() + 2, whole.rows.len());
    assert!(cut.left_out[0].why.contains("cut off"), "{:?}", cut.left_out);
}

#[test]
fn trap_25_perftest_counts_in_2_20_and_one_way() {
    let table = only(BANDWIDTH);
    assert_eq!((table.rows.len(), &table.tested), (5, &Tested::Rate { both_ways: false }));
    let Measured::Rate(rate) = table.rows[4].measured else { panic!("a rate") };
    assert_eq!((rate.0 / 1e7).round(), 1198.0, "12 GB/s but for the start");
    // The message rate says which MB they are: 2^20 under either name.
    assert_eq!(only(&BANDWIDTH.replace("MiB/sec", "MB/sec")).rows, table.rows);
    let bits = only(&BANDWIDTH.replace("MiB/sec", "Gb/sec"));
    assert!(bits.rows.is_empty() && bits.left_out[0].why.contains("message rate"));
    let both = only(&BANDWIDTH.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW"));
    assert_eq!(both.tested, Tested::Rate { both_ways: true });
    let latency = only(LATENCY);
    assert_eq!((time(&latency.rows[0]), &latency.tested), (1.2, &Tested::OneWay));
    // Reads and atomics print the whole round trip.
    for verb in ["RDMA_Read", "Atomic FETCH_AND_ADD"] {
        let table = only(&LATENCY.replace("RDMA_Write", verb));
        assert!(table.refused.is_some_and(|r| r.what.contains("round trips")), "{verb}");
    }
    // With two ports each has its columns.
    let ports = "                    RDMA_Write BW Test\n #bytes     #iterations    BW peak[Gb/sec]    \
                 BW average[Gb/sec]   MsgRate[Mpps]   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   \
                 BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n 65536      5000             392.30            \
                 392.22   0.748100        196.10    0.374000      196.12   0.374100\n";
    let table = only(ports);
    assert_eq!((table.rows.len(), table.left_out.len()), (1, 0), "{table:?}");
}

#[test]
fn nccom_test_takes_ranks_and_collective_of_its_command() {
    let table = only(NCCOM);
    assert_eq!((table.ranks, &table.tested), (Some(4), &Tested::Collective(AllReduce)));
    assert_eq!((time(&table.rows[0]), table.rows[0].dtype), (61.0, Some(DataType::F32)));
    assert!(error(&without(NCCOM, "nccom-test -r")).contains("which collective"));
}

#[test]
fn json_says_the_same_as_text() {
    let table = only(JSON);
    assert_eq!((table.ranks, table.nodes, table.iterations), (Some(8), Some(2), 20));
    assert_eq!(table.tested, Tested::Collective(ReduceScatter));
    assert_eq!((table.rows.len(), table.library.as_deref()), (12, Some("NCCL 2.29.7")));
    // Rows of a document over several lines have lines of their own; documents stand in a row.
    let wide = JSON.replace("{\"size\"", "\n{\"size\"");
    let twice = look(&format!("{wide}{JSON}"));
    assert_eq!((twice.tables[0].rows[0].line, twice.tables[0].rows[11].line), (3, 8));
    assert_eq!((twice.tables.len(), twice.tables[1].line), (2, 9));
    for (text, what) in [
        (JSON[..900].to_owned(), "cut off"),
        (JSON.replace("\"time\":12.0", "\"time\":-12.0"), "negative time"),
        (JSON.replace("results", "rows"), "not a document of nccl-tests"),
    ] {
        let error = error(&text);
        assert!(error.contains(what) && error.contains("x.log:1"), "{error}");
    }
    let nan = only(&JSON.replacen("\"time\":12.001164", "\"time\":\"nan\"", 1));
    assert_eq!(nan.rows.len(), 11);
}

#[test]
fn json_of_a_split_run_is_about_its_groups() {
    // Without what tells N by itself.
    let plain = JSON.replace("\"bus_bw\":", "\"x\":").replace(",\"count\":", ",\"y\":");
    let table = |groups: [u32; 2]| {
        let [first, second] = groups.map(|group| format!("\"group\":{group}"));
        let devices = plain.replacen("\"rank\":4,\"group\":0", &format!("\"rank\":4,{second}"), 1);
        let table = only(&devices.replacen("\"group\":0", &first, 1));
        (table.ranks, table.nodes)
    };
    assert_eq!(table([0, 0]), (Some(8), Some(2)));
    assert_eq!(table([0, 1]), (Some(4), Some(1)));
}

#[test]
fn json_says_of_its_run_what_a_printed_log_says() {
    let env = "\"env\":[\"A=NCCL_ALGO=Tree\",\"NCCL_IB_DISABLE=1\",\"NCCL_DEBUG=INFO\"]";
    let set = JSON.replace("\"env\":[\"A=B\"]", env);
    let said = look(&format!("{set}{JSON}"));
    let (first, of) = said.evidence.of(0);
    assert_eq!((of.variable("NCCL_IB_DISABLE"), of.variable("NCCL_ALGO")), (Some("1"), None));
    assert!(of.says(logs::Sign::OneThread), "4 GPUs in a thread");
    let (second, of) = said.evidence.of(1);
    assert!(first != second && of.variable("NCCL_IB_DISABLE").is_none());
    let one = look(&JSON.replace("\"ngpus\":4", "\"ngpus\":1"));
    assert!(!one.evidence.of(0).1.says(logs::Sign::OneThread));
}

#[test]
fn measurements_are_read_as_they_are_written() {
    let log = look(MEASURED);
    assert_eq!(log.tables.len(), 2);
    assert_eq!((log.tables[0].ranks, log.tables[0].rows[0].dtype), (Some(4), Some(DataType::F16)));
    let written = |log: &Imported| {
        let mut csv = Vec::new();
        let rows = collcost::answer::import::measurements(log);
        collcost::view::import::csv(&mut csv, rows).unwrap();
        String::from_utf8(csv).unwrap()
    };
    for text in [ALL_REDUCE, ALL_GATHER, JSON, OSU, OSU_P2P, LATENCY, BANDWIDTH] {
        let log = look(text);
        let rows = || collcost::answer::import::measurements(&log);
        let again = look(&written(&log));
        let strip = |m: collcost::answer::import::Measurement| {
            (m.measured, m.ranks, m.bytes, m.dtype, m.in_place, m.time_us, m.nodes)
        };
        let again = collcost::answer::import::measurements(&again).map(strip);
        assert_eq!(rows().map(strip).collect::<Vec<_>>(), again.collect::<Vec<_>>());
    }
    // What says whether times may be trusted comes back too.
    let wrong =
        ALL_REDUCE.replacen("0.02       0", "0.02      17", 1).replace("graph: 0", "graph: 20");
    let shared = wrong.replace("device  1 [0000:20:00]", "device  0 [0000:10:00]");
    for text in [wrong, shared] {
        let log = look(&text);
        let again = &look(&written(&log)).tables[0];
        assert_eq!(again.rows.iter().filter_map(|row| row.wrong).sum::<u64>(), 17);
        assert_eq!(
            (&again.caveats, again.shares_gpus),
            (&log.tables[0].caveats, log.tables[0].shares_gpus)
        );
        assert_eq!(again.system, log.tables[0].gpus);
        assert!(again.wrong().unwrap().contains("results were wrong in 1 rows"), "{again:?}");
    }
    for (text, what) in [
        (MEASURED.replace("9.75", "fast"), "`fast` is not a time"),
        (MEASURED.replace("9.75", "-9.75"), "negative time"),
        (
            "collective,ranks,nodes,bytes,time_us\nallreduce,8,16,1024,9.75\n".to_owned(),
            "8 ranks on 16 nodes",
        ),
        (
            "collective,ranks,bytes,time_us,time_us\nallreduce,8,1024,9.75,8.75\n".to_owned(),
            "two columns `time_us`",
        ),
        (MEASURED.replace("2048,half,9.75", "2048,half"), "8 fields, not 9"),
        (MEASURED.replace("all_gather", "all_gathr"), "not a collective"),
        (
            "Nodes,GPUs,size(MB),out algbw(GB/s)\n2,16,32,140.06\n".to_owned(),
            "an unknown kind of MB",
        ),
    ] {
        let error = error(&text);
        assert!(error.contains(what) && error.contains("x.log:"), "{what}: {error}");
    }
}

#[test]
fn negative_times_and_foreign_units_stop_the_reading_at_their_line() {
    for (text, what, line) in [
        (ALL_REDUCE.replacen("   12.00    0.00", "  -12.00    0.00", 1), "negative time", 18),
        (ALL_REDUCE.replace("(us)", "(ms)"), "unit (ms)", 17),
        (
            ALL_REDUCE.replace("           8             2 ", "          8K             2 "),
            "`8K`",
            18,
        ),
        (OSU.replace("64     ", "64K    "), "`64K` has a unit", 7),
        (OSU.replace("Avg Latency(us)", "Avg Latency(ms)"), "unit `ms`", 5),
        (OSU_P2P.replacen("1.60", "-1.60", 1), "negative", 4),
        (OSU_P2P.replace("Latency (us)", "Latency (MB/s)"), "MB/s in a latency test", 3),
        (IMB.replace("t_max[usec]", "t_max[msec]"), "unit [msec]", 26),
        (IMB.replacen("1.50         0.00", "-1.50        0.00", 1), "negative time", 14),
        (BANDWIDTH.replace("[MiB/sec]", "[KB/sec]"), "unit [KB/sec]", 5),
        (LATENCY.replacen("1.20 ", "-1.20 ", 1), "negative time", 6),
        (NCCOM.replace("time:avg(us)", "time:avg(ms)"), "unit in `time:avg(ms)`", 2),
    ] {
        let error = error(&text);
        assert!(error.contains(what), "{what}: {error}");
        assert!(error.contains(&format!("x.log:{line}\n")), "{what}: {error}");
        assert_eq!(error.lines().count(), 3, "what, where, how tohelp: {error}");
    }
}

#[test]
fn samples_of_a_library_are_read_again_and_left_out_of_a_fit() {
    use collcost::measure::fit::{Asked, fit};
    use collcost::model::algorithm::Registry;
    let samples = look(ALL_REDUCE).samples();
    assert_eq!(samples.blocks.len(), 14);
    let names: Vec<String> = samples.blocks[..2].iter().map(|b| b.op.to_string()).collect();
    assert_eq!(names, ["library/allreduce/f32", "library/allreduce/f32/in-place"]);
    let refused = fit(&Registry::builtin(), &samples, &Asked::default()).unwrap_err();
    assert!(refused.to_string().contains("only of a library's collectives"), "{refused}");
    let mixed = samples.join(look(&(OSU_P2P.to_owned() + LATENCY)).samples()).unwrap();
    let fitted =
        fit(&Registry::builtin(), &mixed, &Asked { draws: 10, ..Asked::default() }).unwrap();
    assert!(fitted.points.iter().all(|p| p.op == Op::OneWay));
    let report = collcost::answer::fit::fit(&fitted, &mixed, false, None);
    assert!(report.left_out.iter().any(|l| l.op == "library/allreduce/f32" && l.blocks == 7));
}

#[test]
fn any_cut_of_any_log_is_read_or_refused_in_words() {
    for text in
        [ALL_REDUCE, OLD, RCCL, JSON, OSU, OSU_P2P, IMB, BANDWIDTH, LATENCY, NCCOM, MEASURED]
    {
        for end in (0..text.len()).step_by(7).filter(|&e| text.is_char_boundary(e)) {
            match logs::look(&text.as_bytes()[..end], "x.log", &Asked::default()) {
                Ok(log) => {
                    for table in &log.tables {
                        assert!(table.rows.is_empty() == table.refused.is_some(), "{table:?}");
                    }
                }
                Err(error) => assert!(error.to_string().contains("x.log"), "{error}"),
            }
        }
    }
}

/// busbw is above what any number of ranks makes of an all-to-all's algbw, and rows that reduce are of no all-gather.
#[test]
fn a_name_that_the_columns_exclude_is_refused() {
    let plain = without(ALL_REDUCE, "Collective test");
    for (program, said) in [
        ("alltoall_perf", "all-to-all, which reduces nothing"),
        ("reduce_scatter_perf", "fits no number of ranks of reduce-scatter"),
    ] {
        let table = only(&format!("$ mpirun -np 8 ./build/{program} -b 8\n{plain}"));
        let why = table.refused.unwrap();
        assert!(why.what.contains(said) && why.help.contains("one run"), "{why:?}");
    }
}

/// A command says nothing of what ran after its output, nor does the version of its library.
#[test]
fn what_is_said_of_a_run_ends_with_it() {
    let plain = without(&without(ALL_GATHER, "Collective test"), "nccl-tests version");
    let first =
        format!("$ mpirun -np 8 ./build/alltoall_perf -b 8\nNCCL version 2.29.3+cuda13.0\n{plain}");
    let log = look(&format!("{first}{plain}"));
    let of = |table: &Table| (table.tested.clone(), table.library.clone());
    let named = (Tested::Collective(AllToAll), Some("NCCL 2.29.3".to_owned()));
    assert_eq!(of(&log.tables[0]), named);
    let why = log.tables[1].refused.as_ref().unwrap();
    assert_eq!(log.tables[1].library, None);
    assert!(why.help.contains("--collective allgather or alltoall"), "{why:?}");
    // The next command names what follows.
    let log = look(&format!("{first}{first}"));
    assert_eq!(of(&log.tables[1]), named);
}

#[test]
fn variables_behind_a_table_are_of_the_next_run() {
    let set = "export NCCL_ALGO=Ring\n";
    let log = look(&format!("{ALL_REDUCE}{set}{ALL_GATHER}"));
    let variable =
        |log: &Imported, at| log.evidence.of(at).1.variable("NCCL_ALGO").map(str::to_owned);
    assert_eq!((variable(&log, 0), variable(&log, 1)), (None, Some("Ring".to_owned())));
    assert_eq!(variable(&look(&format!("{ALL_REDUCE}{set}")), 0), None);
    assert_eq!(variable(&look(&format!("{set}{ALL_REDUCE}")), 0).as_deref(), Some("Ring"));
}

/// Maxima that were wrong are wrong results, though only sums are compared.
#[test]
fn wrong_results_of_rows_that_are_left_out_are_told() {
    let log = lines(ALL_REDUCE, |_, l| {
        let max = l.replace("    sum ", "    max ").replacen("       0 ", "       7 ", 1);
        Some(if is_row(l) { format!("{l}\n{max}") } else { l.to_owned() })
    });
    let table = only(&log);
    assert_eq!((table.rows.len(), table.wrong_left_out.len()), (14, 7));
    assert!(table.wrong().unwrap().contains("wrong in 7 rows"), "{:?}", table.wrong());
}

#[test]
fn misaligned_buffers_and_other_kernels_are_told() {
    let log = ALL_REDUCE.replace("graph: 0", "graph: 0 unalign: 3");
    let table = only(&format!("$ mpirun -np 8 ./build/all_reduce_perf -b 8 -R 2 -D 1\n{log}"));
    let notes: Vec<&str> = table.caveats.iter().map(String::as_str).collect();
    assert!(matches!(notes[..], [a, b] if a.contains("(-u)") && b.contains("(-D)")), "{notes:?}");
    assert_eq!(only(ALL_REDUCE).caveats, [""; 0]);
}

/// Ansible shows the lines of an output as a list of JSON.
#[test]
fn lines_in_a_list_of_json_are_read() {
    let listed = lines(ALL_REDUCE, |_, l| Some(format!("        \"{l}\",")));
    assert_eq!(only(&listed).rows, only(ALL_REDUCE).rows);
}

/// One rate that was copied wrongly is left out; where half of the rates differ, nobody knows which are right.
#[test]
fn a_row_that_contradicts_the_rest_is_left_out() {
    let table = |rates: [&str; 4]| {
        let rows: String = (0..2)
            .map(|i| {
                format!(
                    " {} {} float none -1 {} {} {} 0 {} {} {} 0\n",
                    33_554_432_u64 << i,
                    1_048_576 << i,
                    100 << i,
                    "335.54",
                    rates[2 * i],
                    100 << i,
                    "335.54",
                    rates[2 * i + 1],
                )
            })
            .collect();
        let head = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
        let asked = Asked { collective: "alltoall".parse().ok(), ..Asked::default() };
        logs::look(format!("{head}{rows}").as_bytes(), "x.log", &asked).unwrap().tables.remove(0)
    };
    let right = "293.60";
    let one = table([right, "293.90", right, right]);
    assert_eq!((one.refused.as_ref(), one.ranks, one.rows.len()), (None, Some(8), 3), "{one:?}");
    assert!(one.left_out[0].why.contains("of other ranks than in the other rows"), "{one:?}");
    let two = table([right, "293.90", "293.10", right]);
    assert!(two.refused.is_some(), "{two:?}");
}
