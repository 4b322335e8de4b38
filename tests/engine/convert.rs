//! `collcost convert`: rates, times and sizes, against values that are known.

use collcost::Collective;
use collcost::answer::convert::{Amount, Conversion, Converted, Kind, convert};
use collcost::base::quantity::{Bandwidth, Bytes};
use collcost::model::algorithm::Registry;

use crate::command::{self, text};

fn collcost(line: &str) -> String {
    let output = command::collcost(&line.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "collcost {line}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&collcost(&format!("convert {line} --format json"))).unwrap()
}

#[track_caller]
fn number(value: &serde_json::Value, want: f64) {
    let got = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((got - want).abs() <= 1e-9 * want.abs(), "{got:e} is not {want:e}");
}

#[test]
fn busbw_is_nccl_tests() {
    // PERFORMANCE.md's factors; 100 ranks at 450 GB/s of algbw are 891 GB/s of busbw.
    number(&json("450GB/s algbw busbw allreduce -n 100")["busbw_Bps"], 891e9);
    number(&json("120GB/s algbw busbw reducescatter -n 16")["busbw_Bps"], 112.5e9);
    number(&json("120GB/s algbw busbw broadcast -n 16")["busbw_Bps"], 120e9);
    number(&json("120GB/s algbw busbw alltoall -n 4")["busbw_Bps"], 90e9);
    number(&json("112.5GB/s busbw algbw reducescatter -n 16")["algbw_Bps"], 120e9);
    assert!(collcost("convert 120GB/s algbw busbw reducescatter -n 16").contains("= 112.5 GB/s"));
}

#[test]
fn time_comes_with_a_size() {
    // 1 GB in 10 ms is 100 GB/s.
    let report = json("10ms algbw allreduce -n 8 --size 1GB");
    number(&report["algbw_Bps"], 100e9);
    number(&report["busbw_Bps"], 175e9);
    number(&json("175GB/s busbw time allreduce -n 8 --size 1GB")["time_s"], 10e-3);
}

#[test]
fn efficiency_is_busbw_over_the_port() {
    number(&json("360GB/s busbw -n 8 --peak 450GB/s")["efficiency"], 0.8);
}

#[test]
fn words_come_in_any_form() {
    let plain = json("120GB/s algbw busbw allgather -n 8");
    for words in [
        "120GB/s algbw->busbw allgather -n 8",
        "120GB/s algbw:busbw allgather -n 8",
        "allgather 120GB/s algbw to busbw -n 8",
        "960Gb/s algbw busbw all_gather --np 8",
    ] {
        assert_eq!(json(words), plain, "{words}");
    }
}

/// A reader of nccl-tests, NCCL, MPI and its benchmarks means different bytes.
#[test]
fn sizes_are_what_each_tool_counts() {
    let size = |line: &str, tool: &str| {
        let report = json(line);
        let rows = report["sizes"].as_array().unwrap();
        rows.iter().find(|r| r["tool"] == tool).unwrap_or_else(|| panic!("{tool}"))["size_bytes"]
            .as_f64()
            .unwrap()
    };
    let gib = f64::from(1 << 30);
    for tool in ["nccl", "osu", "imb", "openmpi", "mpi", "oneccl"] {
        assert_eq!(size("1GiB size allgather -n 16", tool), gib / 16.0, "{tool}");
    }
    for tool in ["nccl-tests", "torch", "mpich"] {
        assert_eq!(size("1GiB size allgather -n 16", tool), gib, "{tool}");
    }
    for tool in ["nccl", "osu", "mpich", "openmpi"] {
        assert_eq!(size("1GiB size alltoall -n 16", tool), gib / 16.0, "{tool}");
    }
    // A rank's block since 2019 Update 1 (`IMB_reduce_scatter.c`).
    assert_eq!(size("1GiB size reducescatter -n 16", "imb"), gib / 16.0);
    assert_eq!(size("64MiB osu nccl-tests allgather -n 16", "nccl-tests"), gib);
    for tool in ["nccl-tests", "nccl", "torch", "mpi", "osu", "imb", "mpich", "openmpi"] {
        assert_eq!(size("1GiB size allreduce -n 16", tool), gib, "{tool}");
    }
}

/// What was taken from memory is not passed off as read.
#[test]
fn what_is_unverified_says_so() {
    let report = json("1GiB size allgather -n 16");
    let rows = report["sizes"].as_array().unwrap();
    let basis = |tool: &str| rows.iter().find(|r| r["tool"] == tool).unwrap()["basis"].clone();
    assert_eq!(
        (basis("mpi"), basis("nccl"), basis("osu")),
        ("unverified".into(), "source".into(), "logs".into())
    );
}

#[test]
fn other_tools_rates_are_known() {
    let rate = |line: &str, tool: &str| {
        let report = json(line);
        report["rates"].as_array().unwrap().iter().find(|r| r["tool"] == tool).unwrap()["algbw_Bps"]
            .as_f64()
            .unwrap()
    };
    // DeepSpeed doubles an all-reduce.
    assert_eq!(rate("100GB/s algbw allreduce -n 8", "deepspeed"), 200e9);
    number(&json("1600Gb/s deepspeed algbw allreduce -n 8")["algbw_Bps"], 100e9);
    // Before June 2020 (N − 1)/N stood in the all-gather's algbw.
    assert_eq!(rate("100GB/s algbw allgather -n 8", "old-nccl-tests"), 87.5e9);
    number(&json("87.5GB/s old-nccl-tests algbw allgather -n 8")["algbw_Bps"], 100e9);
}

/// Two nodes of eight: half of an all-to-all leaves the node, eight GPUs' worth over four NICs.
#[test]
fn the_wire_is_shown_beside_busbw() {
    let report = json("15GB/s busbw alltoall -n 16 -g 8 --nics-per-node 4");
    let row = |report: &serde_json::Value, name: &str| {
        let rows = report["wire"].as_array().unwrap();
        rows.iter().find(|r| r["algorithm"] == name).unwrap().clone()
    };
    number(&report["algbw_Bps"], 16e9);
    number(&row(&report, "pairwise")["sent_share"], 15.0 / 16.0);
    number(&row(&report, "pairwise")["nic_share"], 1.0);
    number(&row(&report, "pairwise")["nic_Bps"], 16e9);
    // Through a switch every rank sends M, which busbw counts as 1.75 M.
    let report = json("100GB/s algbw allreduce -n 8");
    number(&row(&report, "ring")["sent_Bps"], 175e9);
    number(&row(&report, "inc")["sent_Bps"], 100e9);
}

#[test]
fn slips_get_three_lines() {
    let cases = [
        ("120GB/s algbw-", "quote 'algbw->busbw'"),
        ("120GB/s", "algbw or busbw?"),
        ("120GB/s algbw busbw", "how many ranks?"),
        ("120GB/s busbw time -n 8", "--size 1GiB"),
        ("120 busbw -n 8", "a rate is written"),
        ("5ms algbw -n 8", "add --size"),
        ("120GB/s algwb busbw -n 8", "did you mean `algbw`?"),
        ("120GB/s algbw busbw time -n 8", "one too many"),
        ("120GB/s busbw algbw -n 1", "two ranks or more"),
        ("120GB/s 3ms algbw -n 8", "second number"),
        ("1GiB size torch gather -n 8", "has no size"),
    ];
    for (line, part) in cases {
        let words: Vec<&str> = ["convert"].into_iter().chain(line.split_whitespace()).collect();
        let output = command::collcost(&words);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(message.contains(part), "{line}: {message}");
        assert!(message.lines().count() <= 3, "{line}: {message}");
    }
}

/// There and back is where one began, for every collective and any number of ranks.
#[test]
fn conversions_are_inverse() {
    let registry = Registry::builtin();
    for &collective in Collective::ALL {
        for ranks in [2, 3, 8, 72] {
            let ask = |rate: f64, from, to| -> Converted {
                let asked = Conversion {
                    collective,
                    ranks: std::num::NonZeroU32::new(ranks).unwrap(),
                    per_node: None,
                    nics: None,
                    amount: Amount::Rate(Bandwidth(rate)),
                    from,
                    to: Some(to),
                    size: Some(Bytes(1 << 30)),
                    peak: None,
                };
                convert(&registry, &asked).unwrap()
            };
            let busbw = ask(1e11, Kind::Algbw, Kind::Busbw).busbw.unwrap();
            let back = ask(busbw, Kind::Busbw, Kind::Time);
            assert!((back.algbw.unwrap() / 1e11 - 1.0).abs() < 1e-12, "{collective} {ranks}");
            assert!((back.time_s.unwrap() * 1e11 / f64::from(1 << 30) - 1.0).abs() < 1e-12);
        }
    }
}
