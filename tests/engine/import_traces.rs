//! Traces of jobs: what each rank saw becomes one row a call, and what is no row is said.

use std::io::Cursor;
use std::path::Path;

use collcost::Collective;
use collcost::base::quantity::Seconds;
use collcost::measure::logs::{
    Asked, Imported, Input, Measured, Table, Tested, Trace, format_of, look,
};

fn join(files: &[(&str, &str)]) -> Imported {
    let mut trace: Option<Trace> = None;
    for (name, text) in files {
        let mut input = Input::File(Box::new(Cursor::new(text.as_bytes().to_vec())));
        let format = format_of(&mut input, name).unwrap().expect("a trace");
        let trace = trace.get_or_insert_with(|| Trace::new(format, &Asked::default()));
        trace.add(input, name).unwrap();
    }
    trace.unwrap().finish(&Asked::default())
}

fn of(log: &Imported, collective: Collective) -> &Table {
    let is = |t: &&Table| t.tested == Tested::Collective(collective);
    log.tables.iter().find(is).unwrap_or_else(|| panic!("{log:?}"))
}

fn micros(table: &Table) -> Vec<(u64, f64)> {
    let time = |m: Measured| match m {
        Measured::Time(Seconds(t)) => (t * 1e9).round() / 1e3,
        Measured::Rate(_) => 0.0,
    };
    table.rows.iter().map(|r| (r.size.0, time(r.measured))).collect()
}

fn left_out(log: &Imported, word: &str) -> usize {
    let all = log.tables.iter().flat_map(|t| &t.left_out);
    all.filter(|l| l.why.contains(word)).map(|l| l.count).sum()
}

/// A line of the Inspector.
fn inspector(rank: u32, coll: &str, sn: u32, size: u64, time: u32, source: &str) -> String {
    format!(
        r#"{{"header": {{"id": "0x5b", "rank": {rank}, "n_ranks": 2, "nnodes": 1}}, "metadata": {{"hostname": "a"}}, "coll_perf": {{"coll": "{coll}", "coll_sn": {sn}, "coll_msg_size_bytes": {size}, "coll_exec_time_us": {time}, "coll_timing_source": "{source}"}}}}"#
    ) + "\n"
}

#[test]
fn the_shortest_time_over_the_ranks_is_the_transfer() {
    let rank = |rank, times: [u32; 3]| {
        (0..3)
            .map(|sn| inspector(rank, "AllReduce", sn, 4096, times[sn as usize], "kernel_gpu"))
            .collect::<String>()
            + &inspector(rank, "AllGather", 0, 1024, 50 + rank, "kernel_gpu")
            + &inspector(rank, "AllReduce", 9, 4096, 1, "kernel_cpu")
            + "{\"header\": {\"id\""
    };
    let (a, b) = (rank(0, [100, 130, 110]), rank(1, [120, 105, 140]));
    let log = join(&[("a.log", &a), ("b.log", &b)]);
    let table = of(&log, Collective::AllReduce);
    assert_eq!((table.ranks, table.nodes), (Some(2), Some(1)));
    // The shortest are 100, 105 and 110; rank 0 came last in two of three.
    assert_eq!(micros(table), [(4096, 105.0)]);
    let traced = table.rows[0].traced.unwrap();
    assert_eq!((traced.calls, traced.present, traced.at_most), (3, 2, false));
    assert_eq!((traced.latest.unwrap().0, (traced.waited.unwrap().0 * 1e6).round()), (0, 75.0));
    // The API counts a rank's block of an all-gather.
    assert_eq!(micros(of(&log, Collective::AllGather)), [(2048, 50.0)]);
    assert_eq!((left_out(&log, "timed by the CPU"), left_out(&log, "cut off")), (2, 2));
    let cut = &log.tables[0].caveats;
    assert!(cut.len() == 2 && cut[1].contains("b.log is cut off"), "{cut:?}");
}

/// From v4.3 on the header is once before the calls of a dump, which says how many it lacks; times may have figures behind
/// the point (plugins/profiler/inspector/README.md of NVIDIA/nccl 2.32).
#[test]
fn records_have_the_header_of_their_dump() {
    let dump = |rank: u32, id: &str, dropped: u32, times: [f64; 2]| {
        let call = |sn: usize| {
            format!(
                "{{\"coll_perf\": {{\"coll\": \"AllReduce\", \"coll_sn\": {sn}, \"coll_msg_size_bytes\": 4096, \
                 \"coll_exec_time_us\": {:.1}, \"coll_timing_source\": \"kernel_gpu\"}}}}\n",
                times[sn]
            )
        };
        format!(
            "{{\"header\": {{\"id\": \"{id}\", \"rank\": {rank}, \"n_ranks\": 2, \"nnodes\": 1}}, \"metadata\": \
             {{\"hostname\": \"a\"}}, \"dump_stats\": {{\"coll_records\": 2, \"coll_dropped_total\": {dropped}}}}}\n{}\
             {{\"proxy_trace\": {{\"record_type\": \"proxy_op\"}}}}\n{}",
            call(0),
            call(1)
        )
    };
    let rank = |rank, times| dump(rank, "0x5b", 0, times) + &dump(rank, "0x6c", 3, [7.5, 8.5]);
    let log = join(&[("a.log", &rank(0, [100.5, 130.0])), ("b.log", &rank(1, [120.0, 102.5]))]);
    let all: Vec<_> = log.tables.iter().map(micros).collect();
    assert_eq!(all, [[(4096, 101.5)], [(4096, 8.0)]]);
    assert!(log.tables.iter().all(|table| table.left_out.is_empty()), "{:?}", log.tables);
    let warned = |table: &Table| table.warnings.iter().any(|one| one.contains("overwrote calls"));
    assert!(log.tables.iter().any(warned), "{:?}", log.tables);
}

/// As the Inspector's README and `jq .` print records.
#[test]
fn records_may_be_laid_out_over_lines() {
    let lines = |rank| -> String {
        (0..3).map(|sn| inspector(rank, "AllReduce", sn, 4096, 100 + sn, "kernel_gpu")).collect()
    };
    let pretty = |text: &str| -> String {
        let each =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        each.map(|value| format!("{value:#}\n")).collect()
    };
    let (a, b) = (lines(0), lines(1));
    let (one, laid_out) = (
        join(&[("a.log", &a), ("b.log", &b)]),
        join(&[("a.log", &pretty(&a)), ("b.log", &pretty(&b))]),
    );
    assert_eq!(
        micros(of(&laid_out, Collective::AllReduce)),
        micros(of(&one, Collective::AllReduce))
    );
    assert_eq!(left_out(&laid_out, ""), 0);
    let cut = pretty(&a);
    let log = join(&[("a.log", &cut[..cut.len() - 9]), ("b.log", &pretty(&b))]);
    assert_eq!(left_out(&log, "cut off"), 1);
}

#[test]
fn one_rank_of_several_is_an_upper_bound() {
    let log = join(&[("a.log", &inspector(0, "AllReduce", 1, 4096, 100, "kernel_gpu"))]);
    let table = of(&log, Collective::AllReduce);
    let traced = table.rows[0].traced.unwrap();
    assert!(traced.at_most && traced.skew.is_none() && traced.waited.is_none(), "{traced:?}");
    assert!(
        table.warnings[0].contains("1 of 2 ranks") && table.warnings[0].contains("upper bounds")
    );
    assert!(log.samples().blocks.is_empty(), "no fit rests on waiting");
    assert_eq!(again(&log).tables[0].rows[0].traced, table.rows[0].traced);
    // Both ranks: what is known of their calls comes back too.
    let both = [(0, 100), (1, 140)]
        .map(|(rank, us)| inspector(rank, "AllReduce", 1, 4096, us, "kernel_gpu"));
    let log = join(&[("a.log", &both[0]), ("b.log", &both[1])]);
    // The CSV has whole nanoseconds.
    let nanos = |time: Option<Seconds>| time.map(|t| (t.0 * 1e9).round());
    let of = |log: &Imported| {
        let traced = log.tables[0].rows[0].traced.unwrap();
        let late = traced.latest.map(|(rank, share)| (rank, share.0));
        (traced.calls, traced.at_most, nanos(traced.skew), nanos(traced.waited), late)
    };
    assert_eq!(of(&log), (1, false, Some(40_000.0), Some(40_000.0), Some((0, 1.0))));
    assert_eq!(of(&again(&log)), of(&log));
}

/// A log as it is read from the CSV that is written of it.
fn again(log: &Imported) -> Imported {
    let mut csv = Vec::new();
    collcost::view::import::csv(&mut csv, collcost::answer::import::measurements(log)).unwrap();
    look(csv.as_slice(), "x.csv", &Asked::default()).unwrap()
}

/// PyTorch writes only the peer of a message, in `Rank` too; the other end is the trace's own rank.
#[test]
fn a_message_ends_at_the_traces_own_rank() {
    let trace = |rank: u32, what: &str, info: &str| {
        let (peer, end) = (1 - rank, if what == "send" { "Dst" } else { "Src" });
        let time = 100 - 10 * rank;
        let args = format!(
            r#""External id": 1, "Collective name": "{what}", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Rank": {peer}, "{end} Rank": {peer}"#
        );
        format!(
            r#"{{"schemaVersion": 1, {info}"traceEvents": [{{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 1.0, "dur": 1.0, "args": {{{args}}}}}, {{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv()", "ts": 5.0, "dur": {time}.0, "args": {{{args}}}}}]}}"#
        )
    };
    let known = |rank: u32| format!(r#""distributedInfo": {{"rank": {rank}, "world_size": 2}}, "#);
    let (a, b) = (trace(0, "send", &known(0)), trace(1, "recv", &known(1)));
    let log = join(&[("a.json", &a), ("b.json", &b)]);
    let table = of(&log, Collective::SendRecv);
    assert_eq!(micros(table), [(2048, 90.0)]);
    let traced = table.rows[0].traced.unwrap();
    assert!(!traced.at_most && traced.latest.unwrap().0 == 1, "{traced:?}");
    let silent = join(&[("a.json", &trace(0, "send", ""))]);
    assert_eq!(left_out(&silent, "does not say its rank"), 1);
}

/// A job has many groups of one description: only ranks of one group are compared.
#[test]
fn a_recorders_groups_are_told_apart_by_their_members() {
    let first = recorder("", "completed");
    // Another stage, whose last call is of another size.
    let other = first.replace("\"0\"", "\"1\"").replace("[0, 1]", "[2, 3]");
    let at = other.rfind("[[256]], \"input_dtypes\"").unwrap();
    let other = format!("{}[[512]]{}", &other[..at], &other[at + 7..]);
    let dumps = [("rank_0", &first), ("rank_1", &first), ("rank_2", &other), ("rank_3", &other)];
    let log = join(&dumps.map(|(name, text)| (name, text.as_str())));
    let notes: Vec<_> = log.tables[0].warnings.iter().filter(|w| w.starts_with("group ")).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    for (note, ranks) in notes.iter().zip(["of ranks 0, 1, 2 ranks", "of ranks 2, 3, 2 ranks"]) {
        assert!(note.contains(ranks) && note.contains("the same calls in one order"), "{note}");
    }
}

#[test]
fn ranks_that_lost_step_are_not_joined() {
    let a = inspector(0, "AllReduce", 1, 4096, 100, "kernel_gpu");
    let b = inspector(1, "AllReduce", 1, 8192, 100, "kernel_gpu");
    let log = join(&[("a.log", &a), ("b.log", &b)]);
    assert!(log.usable().is_err());
    assert_eq!(left_out(&log, "lost"), 1);
    // The same file twice is no second rank.
    let log = join(&[("a.log", &a), ("copy.log", &a)]);
    assert_eq!(left_out(&log, "another file"), 1);
}

/// A trace of torch.profiler with two all-reduces, a barrier, a graph's kernel and computation.
fn kineto(rank: u32, times: [f64; 2]) -> String {
    let kernel = |ts: f64, dur: f64, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce(x<4096ul>)", "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
        )
    };
    let call = |name: &str, n: u32, seq: u32| {
        format!(
            r#""Collective name": "{name}", "In msg nelems": {n}, "Out msg nelems": {n}, "Group size": 2, "dtype": "BFloat16", "In split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": {seq}"#
        )
    };
    let events = [
        r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm \"{}\"", "ts": 1.0, "dur": 5.0, "args": {"x": [{}]}}"#.to_owned(),
        kernel(100.0, times[0], &call("allreduce", 1024, 1)),
        r#"{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 110.0, "dur": 5.0, "args": {}}"#.to_owned(),
        kernel(300.0, times[1], &call("allreduce", 1024, 2)),
        kernel(500.0, 9.0, &call("barrier", 1, 3)),
        kernel(600.0, 9.0, r#""graph node id": 7"#),
    ];
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}, "traceEvents": [{}]}}"#,
        events.join(",\n")
    )
}

#[test]
fn a_profilers_trace_is_joined_by_sequence() {
    let (a, b) = (kineto(0, [20.0, 30.0]), kineto(1, [26.0, 24.0]));
    let log = join(&[("a.json", &a), ("b.json", &b)]);
    let table = of(&log, Collective::AllReduce);
    assert_eq!(micros(table), [(2048, 22.0)]);
    let exposed = table.rows[0].traced.unwrap().exposed.unwrap().0;
    // Of the first call five of twenty microseconds lie under computation, of the second none.
    assert!((exposed - 0.875).abs() < 1e-6, "{exposed}");
    assert_eq!((left_out(&log, "barrier"), left_out(&log, "graph")), (2, 2));
    // A trace that is cut off keeps what was read.
    let cut = &a[..a.find("\"Seq\": 2").unwrap()];
    let log = join(&[("a.json", cut)]);
    assert_eq!(micros(of(&log, Collective::AllReduce)), [(2048, 20.0)]);
    assert_eq!(left_out(&log, "cut off"), 1);
}

/// ProcessGroupNCCL.cpp states the splits of every `all_to_all`, and `all_to_all_single` those it was given.
#[test]
fn equal_splits_are_an_all_to_all() {
    let trace = |rank: u32, name: &str, splits: &str, out: u32| {
        let args = format!(
            r#""Collective name": "{name}", "In msg nelems": 4096, "Out msg nelems": {out}, "Group size": 2, "dtype": "BFloat16", "In split size": "{splits}", "Out split size": "{splits}", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": 1"#
        );
        format!(
            r#"{{"schemaVersion": 1, "distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv()", "ts": 5.0, "dur": 50.0, "args": {{{args}}}}}]}}"#
        )
    };
    let both = |name: &str, splits: &str, out: u32| {
        join(&[("a.json", &trace(0, name, splits, out)), ("b.json", &trace(1, name, splits, out))])
    };
    for (name, splits) in
        [("all_to_all", "[2048, 2048]"), ("all_to_allv", "[2, 2]"), ("all_to_all", "[]")]
    {
        let log = both(name, splits, 4096);
        assert_eq!(micros(of(&log, Collective::AllToAll)), [(8192, 50.0)], "{name} {splits}");
    }
    for (splits, out) in [("[2048, 2047]", 4096), ("[2048, 2048]", 4000)] {
        assert_eq!(left_out(&both("all_to_allv", splits, out), "different sizes"), 2, "{splits}");
    }
}

/// Kernels that send without NCCL hide nothing of NCCL's, whatever their names' spelling.
#[test]
fn kernels_that_communicate_are_no_computation() {
    for (name, is) in [
        ("void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8>(x)", true),
        ("void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8>(x)", true),
        ("void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<float>(x)", true),
        ("void (anonymous namespace)::all_reduce_kernel<AllReducePushImpl<bf16>, 1>(x)", true),
        ("void mscclpp::collective::allreduceRsAg<float>(x)", true),
        ("void quickreduce::allreduce_prototype_twoshot<x>(x)", true),
        ("void moe_alltoall::moeA2ADispatchKernel<8>(x)", true),
        ("void deep_ep::internode_ll::dispatch<true>(x)", true),
        ("void cross_device_reduce_2stage<half, 8>(x)", true),
        ("triton_poi_fused_add_all_reduce_wait_tensor_0", false),
        ("nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", false),
    ] {
        let trace = kineto(0, [20.0, 30.0]).replace("\"gemm\"", &format!("\"{name}\""));
        assert_eq!(
            left_out(&join(&[("a.json", &trace)]), "without NCCL"),
            usize::from(is),
            "{name}"
        );
    }
}

#[test]
fn hosts_ranges_over_gloo_are_upper_bounds() {
    let range = |name: &str, dims: &str| {
        format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "gloo:{name}", "ts": 1.0, "dur": 50.0, "args": {{"Input type": ["float"], "Input Dims": {dims}}}}}"#
        )
    };
    let trace = format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "gloo", "rank": 0, "world_size": 2, "pg_count": 1}}, "traceEvents": [{}, {}, {}, {}, {}]}}"#,
        range("all_reduce", "[[1024]]"),
        range("all_gather", "[[1024]]"),
        // The root's blocks, one for each rank.
        range("scatter", "[[512], [512]]"),
        range("send", "[[1024]]"),
        r#"{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "ts": 1.0, "dur": 5.0, "args": {}}"#
    );
    let log = join(&[("a.json", &trace), ("b.json", &trace.replace("\"rank\": 0", "\"rank\": 1"))]);
    assert_eq!(micros(of(&log, Collective::AllReduce)), [(4096, 50.0)]);
    assert_eq!(micros(of(&log, Collective::AllGather)), [(8192, 50.0)]);
    assert_eq!(micros(of(&log, Collective::Scatter)), [(4096, 50.0)]);
    assert_eq!(left_out(&log, "between which ranks"), 2);
    assert!(log.tables[0].rows[0].traced.unwrap().at_most);
    assert!(log.tables[0].warnings[0].contains("host's clock"));
    assert_eq!(left_out(&log, "record_shapes"), 2);
}

/// A dump of the flight recorder.
fn recorder(duration: &str, state: &str) -> String {
    let entry = |seq: u32, name: &str, input: u32, output: u32, state: &str, more: &str| {
        format!(
            r#"{{"process_group": ["0", "default_pg"], "collective_seq_id": {seq}, "profiling_name": "nccl:{name}", "input_sizes": [[{input}]], "input_dtypes": ["Float"], "output_sizes": [[{output}]], "output_dtypes": ["Float"], "state": "{state}"{more}}}"#
        )
    };
    format!(
        r#"{{"version": "2.4", "pg_config": {{"0": {{"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}}}, "entries": [{}, {}, {}, {}]}}"#,
        entry(1, "all_reduce", 256, 256, "completed", duration),
        entry(2, "_all_gather_base", 256, 512, "completed", duration),
        entry(3, "all_reduce_barrier", 1, 1, "completed", duration),
        entry(4, "all_reduce", 256, 256, state, ""),
    )
}

#[test]
fn a_flight_recorder_says_what_it_lacks() {
    let dump = recorder(r#", "duration_ms": 0.5"#, "scheduled");
    let log = join(&[("nccl_trace_rank_0", &dump), ("nccl_trace_rank_1", &dump)]);
    assert_eq!(micros(of(&log, Collective::AllReduce)), [(1024, 500.0)]);
    assert_eq!(micros(of(&log, Collective::AllGather)), [(2048, 500.0)]);
    assert_eq!((left_out(&log, "state is scheduled"), left_out(&log, "barrier")), (2, 2));
    let untimed = join(&[("nccl_trace_rank_0", &recorder("", "completed"))]);
    let why = untimed.usable().unwrap_err().to_string();
    assert!(why.contains("TORCH_NCCL_ENABLE_TIMING"), "{why}");
}

/// A dump has one name for all all-to-alls (`alltoall_base` in ProcessGroupNCCL.cpp), and ranks of an uneven one state
/// their own sizes: they did not lose step.
#[test]
fn uneven_all_to_alls_are_one_call_of_all_ranks() {
    let dump = |timed: &str, sizes: [(u32, u32); 2]| {
        let entry = |(seq, (input, output)): (usize, (u32, u32))| {
            format!(
                r#"{{"process_group": ["0", "default_pg"], "collective_seq_id": {seq}, "profiling_name": "nccl:all_to_all", "input_sizes": [[{input}]], "input_dtypes": ["Float"], "output_sizes": [[{output}]], "output_dtypes": ["Float"], "state": "completed"{timed}}}"#
            )
        };
        let entries = [(5, sizes[0]), (6, sizes[1])].map(entry).join(", ");
        recorder(timed, "completed")
            .replace("\"entries\": [", &format!("\"entries\": [{entries}, "))
    };
    let of_two =
        |timed: &str, a, b| join(&[("rank_0", &dump(timed, a)), ("rank_1", &dump(timed, b))]);
    // Dispatch and combine; an all-to-all of which each rank keeps its size.
    for (a, b) in [
        ([(4096, 3800), (3800, 4096)], [(4096, 4392), (4392, 4096)]),
        ([(4096, 4096), (4096, 4096)], [(8192, 8192), (8192, 8192)]),
    ] {
        let log = of_two("", a, b);
        let note = log.tables[0].warnings.iter().find(|w| w.starts_with("group ")).unwrap();
        assert!(note.contains("the same calls in one order"), "{note}");
        let log = of_two(", \"duration_ms\": 0.5", a, b);
        assert!(
            left_out(&log, "different sizes") > 0 && left_out(&log, "lost step") == 0,
            "{log:?}"
        );
    }
}

#[test]
fn files_without_rows_are_refused_for_what_they_lack() {
    for (text, what) in [
        ("# HELP x\n# TYPE nccl_bus_bandwidth_gbs gauge\n", "bucket"),
        ("{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": []}", "no times"),
        ("Job summary\n===\nCommunicators... (0.00s)\n", "RAS"),
        ("Time (%),Total Time (ns),Instances\n", "nsys export"),
        ("\x07\n\x050.0.4", "protobuf"),
        ("\u{80}", "no table"),
    ] {
        let error = look(text.as_bytes(), "x", &Asked::default()).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    let pickled =
        look(&b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R."[..], "rank0", &Asked::default());
    let why = pickled.unwrap_err().to_string();
    assert!(why.contains("is a program, which is not run"), "{why}");
}

/// What is refused says what the trace lacks, and how to record it with that.
#[test]
fn a_trace_without_usable_calls_says_what_it_lacks() {
    let trace = |events: &str| {
        let text = format!(
            r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": 0, "world_size": 8, "pg_count": 3}}, "traceEvents": [{events}]}}"#
        );
        let log = join(&[("a.json", &text)]);
        let refused = log.tables[0].refused.clone().unwrap();
        format!("{}; {}", refused.what, refused.help)
    };
    let host = r#"{"ph": "X", "cat": "cpu_op", "name": "nccl:all_reduce", "ts": 1.0, "dur": 5.0, "args": {"Input Dims": [[394241]], "Input type": ["float"]}}"#;
    let kernel = r#"{"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce(x)", "ts": 5.0, "dur": 50.0, "args": {"stream": 20}}"#;
    let gloo = r#"{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "ts": 1.0, "dur": 50.0, "args": {"Input Dims": [[8]]}}"#;
    let compute =
        r#"{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5.0, "dur": 50.0, "args": {}}"#;
    for (events, what, help) in [
        (format!("{host}, {kernel}"), "its size and its group", "a newer PyTorch"),
        (gloo.to_owned(), "whose group the trace does not state", "a newer PyTorch"),
        (format!("{host}, {compute}"), "a call of the host", "ProfilerActivity.CUDA"),
        (compute.to_owned(), "contains no collective call", "whose ranks communicate"),
    ] {
        let said = trace(&events);
        assert!(said.contains(what) && said.contains(help), "{said}");
    }
}

#[test]
fn damage_anywhere_ends_without_a_crash() {
    let texts = [
        kineto(0, [1.0, 2.0]),
        recorder(", \"duration_ms\": 0.5", "completed"),
        inspector(0, "Send", 1, 4, 5, ""),
    ];
    for text in &texts {
        for at in (0..text.len()).step_by(7) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = b"{}[]\",:\\0"[at % 9];
            let _ = look(bytes.as_slice(), "x_rank_0.json", &Asked::default());
            let _ = look(&bytes[..at], "x_rank_0.json", &Asked::default());
        }
    }
}

/// The tables of benchmarks that have a row here; each counts sizes in its own way.
#[test]
fn benchmarks_count_as_nccl_tests() {
    let asked =
        Asked { ranks: Some(8), collective: Some(Collective::AllReduce), ..Asked::default() };
    let none = Asked::default();
    for (text, asked, size, time) in [
        (
            "The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):\n| payload | busbw | algbw |\n| 32KiB | 0.37GBps | 0.20GBps |\n| 1GiB | 376.41GBps | 200.75GBps |\n",
            none,
            1 << 30,
            5348.6,
        ),
        (
            "options:\n  datatypes:      float32\n# Benchmarking: allgather\n# #processes: 4\n        #bytes  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n 1024 16 1.0 3.0 2.0 2.31\n",
            none,
            4096,
            2.0,
        ),
        (
            "{\"name\": \"allreduce\", \"kernel\": 6, \"ranks\": 8, \"ranksPerNode\": 8, \"size\": 1024, \"time\": 5.0, \"algBw\": 0.2, \"busBw\": 0.35}\n",
            none,
            1024,
            5.0,
        ),
        (
            "data_size(Bytes): | aveg_time(us):  | alg_bandwidth(GB/s): | check_result:\n8192 | 20.85 | 0.39282 | success\n",
            asked,
            8192,
            20.85,
        ),
        (
            "   ALLREDUCE_RING\nOptions:  processes=2, inputs=1, threads=1\n   size (B)   elements   min (us)   p50 (us)   p99 (us)   max (us)   bandwidth (GB/s)   iterations\n 4000 1000 54 60 97 145 0.057 500\n",
            none,
            4000,
            60.0,
        ),
        (
            "#reduction_on_stream\nsize(B) count type redop latency(us) min_lat(us) max_lat(us) algbw(GB/s) busbw(GB/s)\n4194304 1048576 int sum 67.973 63.2 81.5 61.705 107.984\n",
            none,
            4_194_304,
            67.973,
        ),
        (
            "\n\tCOMMS-RES                          total-size (B)  nElementsPerRank      Time(us):p50         p75         p95         Min         Max    AlgBW(GB/s) BusBW(GB/s) TotalTime(us):p50\n\tCOMMS-RES-all_reduce-float32          67108864          16777216             721.7       750.6       801.1       692.9       866.1         92.984     162.723                 0.0\n",
            none,
            67_108_864,
            721.7,
        ),
        (
            // Before 2026 a reduce-scatter's rates were made with N times its size.
            "Comm. Op  Message Size  Count  Total Latency(ms)  Avg Latency(ms)  tput_avg (Gbps)  busbw_avg (Gbps)\nreduce_scatter_tensor\n 96.0 MB 40 16.08 0.40 16026.00 14022.75\n",
            Asked { collective: None, ..asked },
            100_663_296,
            402.0,
        ),
    ] {
        let log = look(text.as_bytes(), "x.txt", &asked).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let rows: Vec<_> = log.tables.iter().flat_map(micros).collect();
        assert_eq!(rows.len(), 1, "{log:?}");
        assert!(rows[0].0 == size && (rows[0].1 / time - 1.0).abs() < 1e-3, "{rows:?}: {text}");
    }
}

#[test]
fn what_the_user_says_never_overrides_a_file() {
    let text = "# Benchmarking: allreduce\n# #processes: 8\n#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] stddev[%]\n1024 16 1.0 3.0 2.0 2.31\n";
    let asked = Asked { ranks: Some(16), ..Asked::default() };
    let error = look(text.as_bytes(), "x", &asked).unwrap().usable().unwrap_err().to_string();
    assert!(error.contains("8 ranks") && error.contains("not 16"), "{error}");
}

/// Databases, where the samples are at hand.
#[test]
fn a_database_is_read_page_by_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces/samples");
    let (Ok(a), Ok(b)) = (
        std::fs::read(folder.join("nsys_rank0.sqlite")),
        std::fs::read(folder.join("nsys_rank1.sqlite")),
    ) else {
        return;
    };
    let mut trace: Option<Trace> = None;
    for bytes in [&a, &b] {
        let mut input = Input::File(Box::new(Cursor::new(bytes.clone())));
        let format = format_of(&mut input, "x.sqlite").unwrap().unwrap();
        trace
            .get_or_insert_with(|| Trace::new(format, &Asked::default()))
            .add(input, "x.sqlite")
            .unwrap();
    }
    let log = trace.unwrap().finish(&Asked::default());
    assert_eq!(of(&log, Collective::AllGather).rows[0].size.0, 33_554_432);
    // Damage anywhere ends without a crash.
    for at in (0..a.len()).step_by(97) {
        let mut bytes = a.clone();
        bytes[at] ^= 0x5a;
        let mut input = Input::File(Box::new(Cursor::new(bytes)));
        if let Ok(Some(format)) = format_of(&mut input, "x.sqlite") {
            let _ = Trace::new(format, &Asked::default()).add(input, "x.sqlite");
        }
    }
}

/// The keys of a document are in any order: what other programs write in front of the events may be long.
#[test]
fn events_of_a_trace_may_begin_late() {
    let trace = kineto(0, [20.0, 30.0]);
    let more = format!("{{\"metadata\": {{\"args\": \"{}\"}}, ", "x".repeat(20_000));
    let late = trace.replacen('{', &more, 1);
    let late = late.replacen("\"distributedInfo\"", "\"info\"", 1);
    assert!(late.find("traceEvents").unwrap() > 20_000);
    assert_eq!(
        look(late.as_bytes(), "late.json", &Asked::default()).unwrap().tables[0].format,
        "kineto"
    );
}
