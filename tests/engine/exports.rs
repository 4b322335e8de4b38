//! What is written for other programs comes back as the same data flow, and what is wrong in their
//! files is refused with its line.

use std::collections::BTreeMap;

use collcost::base::collective::Collective;
use collcost::base::quantity::{Bytes, Volume};
use collcost::cost::simulate::{Setup, simulate};
use collcost::exchange::export::FORMATS;
use collcost::exchange::export::Job;
use collcost::exchange::import;
use collcost::model::algorithm::Registry;
use collcost::model::formula::Shape;
use collcost::model::schedule::combine::Relabel;
use collcost::model::schedule::{Endpoint, Frame, Layout, List, Op, Schedule, verify};

use crate::command;

/// Every schedule of some shapes, with another root where there is one.
fn schedules() -> Vec<(String, Box<dyn Schedule>)> {
    let mut found: Vec<(String, Box<dyn Schedule>)> = Vec::new();
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for (n, p) in [(2, 1), (3, 2), (4, 3), (5, 1), (6, 2), (8, 1)] {
                let shape = Shape::new(collective, n).with_segments(p);
                if algorithm.applies(&shape).is_err() {
                    continue;
                }
                let Some(schedule) = algorithm.schedule(&shape) else { continue };
                let name = format!("{} {} {n} {p}", collective.id(), algorithm.meta().id);
                let moves = collective.has_root() && schedule.frame().layout == Layout::Shared;
                let schedule: Box<dyn Schedule> =
                    if moves { Box::new(Relabel::new(schedule, n - 1)) } else { schedule };
                found.push((name, schedule));
            }
        }
    }
    found
}

/// How often each chunk goes from one rank to another in each round, and how.
fn carried(schedule: &dyn Schedule) -> BTreeMap<(u64, Endpoint, Endpoint, bool, u32), u32> {
    let mut carried = BTreeMap::new();
    for message in List::of(schedule).iter() {
        for chunk in message.runs.iter().flat_map(|run| run.chunks()) {
            let key = (message.round, message.from, message.to, message.op == Op::Copy, chunk);
            *carried.entry(key).or_default() += 1;
        }
    }
    carried
}

/// The same chunks, numbered as blocks in rank order, as MSCCL wants them.
fn in_rank_order(schedule: &dyn Schedule) -> List {
    let Frame { ranks, parts, layout, collective, .. } = schedule.frame();
    let blocks = layout == Layout::Shared
        && matches!(
            collective,
            Collective::AllGather
                | Collective::ReduceScatter
                | Collective::Gather
                | Collective::Scatter
        );
    let mut list = List::new(schedule.frame());
    let mut position: Vec<u32> = (0..schedule.chunks()).collect();
    if blocks {
        let mut owned = vec![0; ranks as usize];
        for chunk in 0..parts {
            let owner = schedule.owner(chunk);
            position[chunk as usize] = owner * (parts / ranks) + owned[owner as usize];
            owned[owner as usize] += 1;
        }
    }
    for message in List::of(schedule).iter() {
        let chunks = message.runs.iter().flat_map(|run| run.chunks());
        let runs: Vec<_> = chunks
            .map(|chunk| collcost::model::schedule::Run::one(position[chunk as usize]))
            .collect();
        list.push(message.round, message.from, message.to, message.op, &runs);
    }
    list
}

#[test]
fn every_schedule_comes_back() {
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, schedule) in schedules() {
        let size = Bytes(u64::from(schedule.parts()) * 64);
        for format in FORMATS {
            let job = Job { schedule: &*schedule, name: "test", size, gamma: None };
            let text = match format.write(&job) {
                Ok(written) => written.to_string(),
                Err(why) => {
                    assert!(why.is_unsupported(), "{name} {}: {why}", format.id);
                    continue;
                }
            };
            let name = format!("{name} {}", format.id);
            let back =
                import::read(&text, "file").unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            if let Err(fault) = verify(&back.list) {
                panic!("{name}: {fault}\n{text}");
            }
            let original = match format.id {
                "msccl" => in_rank_order(&*schedule),
                _ => List::of(&*schedule),
            };
            assert_eq!(carried(&original), carried(&back.list), "{name}");
            assert_eq!(back.list.root(), schedule.root(), "{name}");
            *written.entry(format.id).or_default() += 1;
        }
    }
    assert!(written["msccl"] > 250 && written["goal"] > 300, "{written:?}");
}

/// GOAL keeps messages whole and their rounds, so that a schedule takes as long afterwards; rounds that data
/// do not need are those of a pipeline.
#[test]
fn goal_keeps_messages_and_size() {
    use collcost::base::quantity::{Bandwidth, Seconds};
    use collcost::machine::fabric::Fabric;
    let fabric = Fabric::flat(Seconds(1.0), Bandwidth(16.0));
    let setup = Setup::new(Volume(640.0));
    for (name, ranks, segments) in [
        ("ring", 8, 1),
        ("tree", 8, 1),
        ("recursive-doubling", 8, 1),
        ("single-binary-tree", 3, 10),
    ] {
        let shape = Shape::new(Collective::AllReduce, ranks).with_segments(segments);
        let named = Registry::builtin().find(Collective::AllReduce, name).unwrap();
        let schedule = named.algorithm.schedule(&shape).unwrap();
        let job = Job { schedule: &*schedule, name, size: Bytes(640), gamma: None };
        let goal = FORMATS.iter().find(|format| format.id == "goal").unwrap();
        let back = import::read(&goal.write(&job).unwrap().to_string(), "file").unwrap();
        assert_eq!(back.size, Some(Bytes(640)));
        let before = simulate(&*schedule, &fabric, &setup).unwrap();
        let after = simulate(&back.list, &fabric, &setup).unwrap();
        assert_eq!(before, after, "{name}");
    }
}

/// MSCCL's file keeps the order in which a rank sends, by its blocks.
#[test]
fn msccl_keeps_the_order_of_sends() {
    use collcost::base::quantity::{Bandwidth, Seconds};
    use collcost::machine::fabric::Fabric;
    let fabric = Fabric::flat(Seconds(5e-6), Bandwidth(5e10));
    let setup = Setup::new(Volume(1_048_576.0));
    let msccl = FORMATS.iter().find(|format| format.id == "msccl").unwrap();
    for (collective, name) in [
        (Collective::AllToAll, "direct"),
        (Collective::AllToAll, "pairwise"),
        (Collective::Gather, "flat"),
        (Collective::Scatter, "flat"),
    ] {
        let shape = Shape::new(collective, 5);
        let named = Registry::builtin().find(collective, name).unwrap();
        let schedule = named.algorithm.schedule(&shape).unwrap();
        let job = Job { schedule: &*schedule, name, size: Bytes(1 << 20), gamma: None };
        let back = import::read(&msccl.write(&job).unwrap().to_string(), "file").unwrap();
        let time = |schedule: &dyn Schedule| simulate(schedule, &fabric, &setup).unwrap().makespan;
        assert_eq!(time(&*schedule), time(&back.list), "{collective} {name}");
    }
}

/// What MSCCL refuses is said: steps of a block, blocks of a channel, chunks of a step.
#[test]
fn the_limits_of_msccl_are_said() {
    let msccl = FORMATS.iter().find(|format| format.id == "msccl").unwrap();
    for (collective, name, ranks, limit) in [
        (Collective::AllReduce, "ring", 8, None),
        (Collective::AllReduce, "ring", 130, Some("MSCCL_MAX_NUM_STEPS")),
        (Collective::AllToAll, "direct", 33, Some("RCCL's MSCCL_MAX_NUM_THREAD_BLOCKS ")),
        (Collective::AllToAll, "pairwise", 40, Some("MSCCL_MAX_NUM_THREAD_BLOCKS_PER_CHANNEL")),
        (Collective::AllGather, "recursive-doubling", 256, Some("MSCCL_MAX_COUNT")),
    ] {
        let named = Registry::builtin().find(collective, name).unwrap();
        let schedule = named.algorithm.schedule(&Shape::new(collective, ranks)).unwrap();
        let job = Job { schedule: &*schedule, name, size: Bytes(1 << 20), gamma: None };
        let notes = msccl.write(&job).unwrap().notes;
        let said = |limit: &str| notes.iter().any(|note| note.contains(limit));
        assert!(limit.map_or(notes.is_empty(), said), "{collective} {name}: {notes:?}");
    }
}

/// Two GPUs that send each other the chunks that they overwrite wait for each other's whole step: a connection holds
/// two chunks of it.
#[test]
fn what_an_msccl_step_waits_for_fits_a_connection() {
    let msccl = FORMATS.iter().find(|format| format.id == "msccl").unwrap();
    let mut shape = Shape::new(Collective::AllReduce, 4).with_segments(5);
    shape.group = std::num::NonZeroU32::new(2);
    let named = Registry::builtin().find(Collective::AllReduce, "leader-doubling").unwrap();
    let schedule = named.algorithm.schedule(&shape).unwrap();
    let job = Job { schedule: &*schedule, name: "x", size: Bytes(64 << 20), gamma: None };
    let text = msccl.write(&job).unwrap().to_string();
    let (_, block) = text.split_once("send=\"2\"").unwrap();
    let (block, _) = block.split_once("</tb>").unwrap();
    let counts: Vec<&str> =
        block.split("cnt=\"").skip(1).map(|step| step.split('"').next().unwrap()).collect();
    assert_eq!(counts, ["2", "2", "1"], "{text}");
}

/// microsoft/msccl and ROCm/rccl read different names.
#[test]
fn a_reduce_scatter_has_the_name_of_msccl_and_a_note_for_rccl() {
    let msccl = FORMATS.iter().find(|format| format.id == "msccl").unwrap();
    let named = Registry::builtin().find(Collective::ReduceScatter, "ring").unwrap();
    let schedule = named.algorithm.schedule(&Shape::new(Collective::ReduceScatter, 4)).unwrap();
    let job = Job { schedule: &*schedule, name: "x", size: Bytes(1 << 20), gamma: None };
    let written = msccl.write(&job).unwrap();
    let text = written.to_string();
    assert!(text.contains("coll=\"reduce_scatter\""), "{text}");
    assert!(written.notes[0].contains("for RCCL and msccl-scheduler"), "{:?}", written.notes);
    let back = import::read(&text, "x").unwrap();
    assert_eq!(back.list.collective(), Collective::ReduceScatter);
}

/// What MSCCL's readers say of a schedule's file, and the file.
fn msccl(collective: Collective, name: &str, ranks: u32, size: u64) -> (Vec<String>, String) {
    let format = FORMATS.iter().find(|format| format.id == "msccl").unwrap();
    let named = Registry::builtin().find(collective, name).unwrap();
    let schedule = named.algorithm.schedule(&Shape::new(collective, ranks)).unwrap();
    let job = Job { schedule: &*schedule, name, size: Bytes(size), gamma: None };
    let written = format.write(&job).unwrap();
    let text = written.to_string();
    (written.notes, text)
}

/// MSCCL allocates maxBytes · s_chunks / nchunksperloop bytes as it starts.
#[test]
fn scratch_of_msccl_is_for_calls_of_a_known_size() {
    let most = |text: &str| -> u64 {
        let (_, rest) = text.split_once("maxBytes=\"").unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let (notes, text) = msccl(Collective::AllToAll, "bruck", 8, 16 << 20);
    assert_eq!(most(&text), (128 << 20) + 1);
    assert!(notes.iter().any(|note| note.contains("up to 128 MiB")), "{notes:?}");
    assert_eq!(most(&msccl(Collective::AllToAll, "bruck", 8, 1 << 30).1), (1 << 30) + 1);
    let (notes, text) = msccl(Collective::AllReduce, "ring", 8, 16 << 20);
    assert_eq!((most(&text), notes), (i64::MAX as u64, Vec::new()));
}

/// `count % nChunksPerLoop`, of all ranks' elements in MSCCL and of one's in RCCL and msccl-scheduler.
#[test]
fn chunks_that_do_not_divide_the_elements_are_said() {
    for (collective, ranks, size, said) in [
        (Collective::AllReduce, 6, 16 << 20, Some("MSCCL, RCCL and msccl-scheduler use it")),
        (Collective::AllReduce, 6, 12 << 20, None),
        (Collective::AllGather, 3, 12 << 20, Some("RCCL and msccl-scheduler use it")),
        (Collective::AllGather, 3, 9 << 20, None),
        (Collective::AllGather, 8, 16 << 20, None),
    ] {
        let notes = msccl(collective, "ring", ranks, size).0;
        assert_eq!(notes.len(), usize::from(said.is_some()), "{notes:?}");
        assert!(said.is_none_or(|said| notes[0].starts_with(said)), "{notes:?}");
    }
    let notes = msccl(Collective::AllReduce, "ring", 6, 16 << 20).0;
    assert!(
        notes[0].ends_with("the 6 chunks divide the elements: of floats at 12 MiB, not at 16 MiB"),
        "{notes:?}"
    );
}

#[test]
fn what_msccl_alone_refuses_is_said() {
    for collective in [Collective::Gather, Collective::Scatter] {
        let notes = msccl(collective, "flat", 4, 16 << 20).0;
        assert!(notes[0].starts_with("MSCCL refuses"), "{notes:?}");
    }
}

/// A ring over two GPUs that gathers, as MSCCL writes it.
const GATHER: &str = r#"<algo name="x" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="1">
  <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="1" chan="0">
      <step s="0" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"#;

/// The third line of a refusal says how to mend it; the first two are compared.
fn refused(text: &str) -> String {
    let error = import::read(text, "x").expect_err(text).to_string();
    assert_eq!(error.lines().count(), 3, "{error}");
    error.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" @ ")
}

#[test]
fn what_is_wrong_in_msccl_is_refused_with_its_line() {
    assert!(verify(&import::read(GATHER, "x").unwrap().list).is_ok());
    let without = |line: usize| {
        let lines: Vec<&str> = GATHER.lines().collect();
        [&lines[..line - 1], &lines[line..]].concat().join("\n")
    };
    let with = |from: &str, to: &str| GATHER.replacen(from, to, 1);
    let twice = |line: usize| {
        let lines: Vec<&str> = GATHER.lines().collect();
        let again = lines[line - 1].replace("s=\"0\"", "s=\"1\"");
        [&lines[..line], &[again.as_str()], &lines[line..]].concat().join("\n")
    };
    let cases = [
        (without(4), "gpu 1 receives from gpu 0 on channel 0, which does not send it @ x:14"),
        (without(7), "gpu 1 sends to gpu 0 on channel 0, which does not receive it @ x:11"),
        (twice(4), "gpu 0 sends to gpu 1 on channel 0, which does not receive it @ x:5"),
        (
            // Both sends wait for what the other GPU sends.
            GATHER.replace(
                "type=\"s\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\"",
                "type=\"s\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"1\" deps=\"0\"",
            )
            .replace(
                "type=\"s\" srcbuf=\"o\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\" depid=\"-1\" deps=\"-1\"",
                "type=\"s\" srcbuf=\"o\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\" depid=\"1\" deps=\"0\"",
            )
            .replace("hasdep=\"0\"", "hasdep=\"1\""),
            "a cycle: lines 4, 7, 12, 15 wait for each other @ x:4",
        ),
        (
            with("depid=\"-1\" deps=\"-1\"", "depid=\"1\" deps=\"0\""),
            "it waits for step 0 of thread block 1, which has hasdep=\"0\" and tells nobody @ x:4",
        ),
        (with("cnt=\"1\"", "cnt=\"2\""), "2 chunks are sent and 1 received @ x:15"),
        (with("srcoff=\"0\"", "srcoff=\"1\""), "gpu 0 has nothing at o[1] @ x:4"),
        (with("dstoff=\"1\"", "dstoff=\"0\""), "at the end output 0 of gpu 0 is not chunk 0 @ x"),
        (with("type=\"s\"", "type=\"x\""), "`x` is not a known type of step @ x:4"),
        (with("depid=\"-1\"", "depid=\"9\""), "step -1 of thread block 9 does not exist @ x:4"),
        (with("ngpus=\"2\"", "ngpus=\"3\""), "2 chunks per loop do not divide over 3 GPUs @ x:1"),
        (with("nchunksperloop=\"2\"", "nchunksperloop=\"2000000000\""),
            "following 4000000000 chunks takes 488281 MiB of memory, more than 256 @ x:1"),
        (with("</tb>", "</gpu>"), "the text is not XML from here on: ill-formed document: expected `</tb>`, but `</gpu>` was found @ x:5"),
    ];
    for (text, what) in cases {
        assert_eq!(refused(&text), what);
    }
}

#[test]
fn what_is_wrong_in_goal_is_refused_with_its_line() {
    let good = "\
// collcost goal 1: test
// collective broadcast root 0 parts 1 layout shared size 8
num_ranks 3

rank 0 {
// message 0 copy chunks 0
l1: send 8b to 1 tag 0
}
rank 1 {
l1: recv 8b from 0 tag 0
// message 1 copy chunks 0
l2: send 8b to 2 tag 1
l2 requires l1
}
rank 2 {
l1: recv 8b from 1 tag 1
}
";
    assert!(verify(&import::read(good, "x").unwrap().list).is_ok());
    let with = |from: &str, to: &str| good.replace(from, to);
    // As in LogGOPSim's grammar, braces need no lines of their own.
    let short = with("num_ranks 3", "num_ranks 4").replace("}\nrank 1 {", "} rank 1 { // second");
    assert!(import::read(&format!("{short}rank 3 {{ }}\n"), "x").is_ok());
    assert!(import::read(&format!("{short}rank 3{{}}\n"), "x").is_ok());
    let cases = [
        (
            with("l1: recv 8b from 1 tag 1\n", ""),
            "rank 1 sends tag 1 to rank 2, which does not receive it @ x:12",
        ),
        (
            with("l1: send 8b to 1 tag 0\n", ""),
            "rank 1 receives tag 0 from rank 0, which does not send it @ x:9",
        ),
        (
            with("l2 requires l1", "l2 requires l1\nl1 requires l2"),
            "a cycle: lines 10, 12 wait for each other @ x:10",
        ),
        (
            with("l2 requires l1\n", ""),
            "chunk 0 of rank 1 is used here and in line 10, and nothing defines which comes first @ x:12",
        ),
        (with("l2 requires l1", "l2 requires l9"), "`l9` is not an operation of this rank @ x:13"),
        (with("l2: send", "l1: send"), "the label `l1` appears twice @ x:12"),
        (with("message 1", "message 0"), "message 0 appears twice, first in line 7 @ x:12"),
        (with("recv 8b from 1", "recv 9b from 1"), "8 bytes are sent and 9 received @ x:16"),
        (
            with("// message 1 copy chunks 0\n", ""),
            "sends and receives match, but the file does not say which data they carry @ x:11",
        ),
        (
            with("message 1 copy", "message 1 round 99999999 copy"),
            "round 99999999 is beyond the limit @ x:12",
        ),
        (with("l2: send 8b", "l2: put 8b"), "`put` is not send, recv or calc @ x:12"),
        (
            with("chunks 0\nl1", "chunks 0-99999999\nl1"),
            "following the chunks up to here takes 6103 MiB of memory, more than 256 @ x:6",
        ),
    ];
    for (text, what) in cases {
        assert_eq!(refused(&text), what);
    }
}

/// A file of its own for this test.
fn file(name: &str, text: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("collcost-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn collcost(words: &[&str]) -> (Option<i32>, String, String) {
    let output = command::collcost(words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn files_are_verified_simulated_and_written_whole() {
    let good = file("good", GATHER);
    let path = good.to_str().unwrap();
    let (code, text, _) = collcost(&["verify", "--schedule", path]);
    assert_eq!(code, Some(0), "{text}");
    let flags = ["--alpha", "1us", "--bw", "1GB/s"];
    let (code, text, _) =
        collcost(&[&["simulate", "--schedule", path, "--size", "2kB"], &flags[..]].concat());
    assert_eq!(code, Some(0));
    assert!(text.contains("1 round, 2 messages with 1.953 KiB in all"), "{text}");

    // The second send goes before its data have come.
    let events = "\
{\"collective\":\"broadcast\",\"ranks\":3,\"root\":0,\"chunk_bytes\":[8]}
{\"round\":0,\"from\":0,\"to\":1,\"chunks\":[0],\"op\":\"copy\"}
{\"round\":0,\"from\":1,\"to\":2,\"chunks\":[0],\"op\":\"copy\"}
";
    let wrong = file("wrong", events);
    let path = wrong.to_str().unwrap();
    let (code, text, _) = collcost(&["verify", "--schedule", path]);
    assert_eq!(code, Some(1));
    let what = "round 0: rank 1 sends chunk 0 to rank 2 but does not hold it";
    assert!(text.contains(&format!("{path}:3: {what}")), "{text}");
    let (code, _, text) = collcost(&[&["simulate", "--schedule", path], &flags[..]].concat());
    assert_eq!((code, text.lines().count()), (Some(2), 3), "{text}");
    assert!(text.contains(what) && text.contains(&format!("{path}:3")), "{text}");

    let written = good.with_extension("xml");
    let target = written.to_str().unwrap();
    let question = ["export", "msccl", "allreduce", "ring", "-n", "4"];
    let (code, shown, _) = collcost(&question);
    assert_eq!(code, Some(0));
    let (code, nothing, _) = collcost(&[&question[..], &["--output", target]].concat());
    assert_eq!((code, nothing.as_str()), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(&written).unwrap(), shown);
    for path in [good, wrong, written] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Whatever stands in a file, reading it and verifying what was read only ever refuses.
#[test]
fn damaged_files_never_panic() {
    let shape = Shape::new(Collective::AllReduce, 3);
    let ring = Registry::builtin().find(Collective::AllReduce, "ring").unwrap().algorithm;
    let schedule = ring.schedule(&shape).unwrap();
    let job = Job { schedule: &*schedule, name: "ring", size: Bytes(300), gamma: None };
    let mut texts: Vec<String> =
        FORMATS.iter().map(|f| f.write(&job).unwrap().to_string()).collect();
    texts.push(GATHER.to_owned());
    let numbers = ["-1", "0", "2", "4294967295", "99999999999999999999", "x", ""];
    for text in texts {
        let lines: Vec<&str> = text.lines().collect();
        for line in 0..lines.len() {
            let mut damaged = vec![
                [&lines[..line], &lines[line + 1..]].concat().join("\n"),
                [&lines[..=line], &lines[line..]].concat().join("\n"),
                lines[..line].join("\n"),
            ];
            let digits: Vec<usize> = lines[line]
                .char_indices()
                .filter(|(_, c)| c.is_ascii_digit())
                .map(|c| c.0)
                .collect();
            for (at, number) in digits.into_iter().flat_map(|at| numbers.map(|n| (at, n))) {
                let changed = format!("{}{number}{}", &lines[line][..at], &lines[line][at + 1..]);
                damaged.push(
                    [&lines[..line], &[changed.as_str()], &lines[line + 1..]].concat().join("\n"),
                );
            }
            for text in damaged {
                if let Ok(foreign) = import::read(&text, "x") {
                    let fault = verify(&foreign.list).err();
                    let _ = fault.and_then(|fault| foreign.line_of(&fault));
                }
            }
        }
    }
}

#[test]
fn events_are_read_and_faults_have_a_line() {
    let good = "\
{\"collective\":\"broadcast\",\"ranks\":3,\"root\":0,\"chunk_bytes\":[8],\"holds\":[[0],[],[]],\"wants\":[[0],[0],[0]]}
{\"round\":0,\"start_s\":0,\"end_s\":1,\"from\":0,\"to\":1,\"chunks\":[0],\"op\":\"copy\"}
{\"round\":1,\"start_s\":1,\"end_s\":2,\"from\":1,\"to\":2,\"chunks\":[0],\"op\":\"copy\"}
";
    let back = import::read(good, "x").unwrap();
    assert_eq!((verify(&back.list), back.size), (Ok(()), Some(Bytes(8))));
    let early = import::read(&good.replace("\"round\":1", "\"round\":0"), "x").unwrap();
    assert_eq!(early.line_of(&verify(&early.list).unwrap_err()), Some(3));
    let cases = [
        (
            good.replace("\"holds\":[[0],[]", "\"holds\":[[],[0]"),
            "`holds` of rank 0 is not that of broadcast @ x:1",
        ),
        (
            good.replace("\"from\":1", "\"from\":\"hub\""),
            "`hub` is neither a rank nor a switch such as switch0 @ x:3",
        ),
        (
            good.replace("\"op\":\"copy\"}\n{", "\"op\":\"put\"}\n{"),
            "`put` is not copy, reduce or or @ x:2",
        ),
    ];
    for (text, what) in cases {
        assert_eq!(refused(&text), what);
    }
    assert_eq!(refused("nonsense"), "the file holds no schedule @ x");
}

/// Four GPUs, every chunk sent to its owner at once; what came is added in a tree, beside the owner's
/// part, before it is added to that.
fn pairs_that_add_aside() -> String {
    let step = |s: u32, kind: &str, from: (&str, u32), to: (&str, u32), after: (i32, i32)| {
        format!(
            "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" \
             cnt=\"1\" depid=\"{}\" deps=\"{}\"/>\n",
            from.0, from.1, to.0, to.1, after.0, after.1
        )
    };
    let none = (-1, -1);
    let mut xml =
        "<algo name=\"pairs\" coll=\"allreduce\" ngpus=\"4\" nchunksperloop=\"4\" inplace=\"1\">\n"
            .to_owned();
    for own in 0..4_u32 {
        xml += &format!("<gpu id=\"{own}\">\n");
        for (block, other) in (0..4).filter(|&other| other != own).enumerate() {
            xml += &format!("<tb id=\"{block}\" send=\"{other}\" recv=\"{other}\" chan=\"0\">\n");
            let aside = ("s", block as u32);
            xml += &step(0, "s", ("i", other), ("s", 0), none);
            xml += &step(1, "r", ("i", own), aside, none);
            xml += &step(2, "s", ("i", own), ("i", own), (3, 4));
            xml += &step(3, "r", ("i", other), ("i", other), none);
            xml += "</tb>\n";
        }
        xml += "<tb id=\"3\" send=\"-1\" recv=\"-1\" chan=\"0\">\n";
        xml += &step(0, "nop", ("i", 0), ("i", 0), (1, 1));
        xml += &step(1, "nop", ("i", 0), ("i", 0), (2, 1));
        xml += &step(2, "re", ("s", 2), ("s", 0), (0, 1));
        xml += &step(3, "re", ("s", 1), ("i", own), none);
        xml += &step(4, "re", ("s", 0), ("i", own), none);
        xml += "</tb>\n</gpu>\n";
    }
    xml + "</algo>\n"
}

#[test]
fn parts_may_be_added_to_each_other_first() {
    let xml = pairs_that_add_aside();
    let foreign = import::read(&xml, "x").unwrap_or_else(|e| panic!("{e}"));
    assert!(verify(&foreign.list).is_ok());
    assert_eq!((foreign.list.len(), foreign.list.rounds()), (24, 2));
    // A part that is added twice is no sum.
    let twice = xml.replace("srcbuf=\"s\" srcoff=\"1\"", "srcbuf=\"s\" srcoff=\"2\"");
    let error = import::read(&twice, "x").unwrap_err().to_string();
    assert!(error.contains("has an old state of chunk"), "{error}");
}

#[test]
fn times_that_cannot_be_are_found() {
    let head = r#"{"collective":"broadcast","ranks":3,"chunk_bytes":[4.0],"ports":1,"duplex":"full","mode":"flow"}"#;
    let line = |round: u32, from: u32, to: u32, start: f64, end: f64| {
        format!(
            "\n{{\"round\":{round},\"start_s\":{start},\"end_s\":{end},\"from\":{from},\"to\":{to},\
             \"chunks\":[0],\"op\":\"copy\"}}"
        )
    };
    let claim = |lines: &[String]| {
        let text = format!("{head}{}", lines.concat());
        import::read(&text, "x").unwrap().wrong_claim.map(|claim| (claim.line, claim.what))
    };
    assert_eq!(claim(&[line(0, 0, 1, 0.0, 1.0), line(1, 1, 2, 1.0, 2.0)]), None);
    let early = claim(&[line(0, 0, 1, 0.0, 1.0), line(1, 1, 2, 0.5, 1.5)]).unwrap();
    assert_eq!(early.0, 3);
    assert!(early.1.contains("chunk 0 is sent at 0.5 s but arrives at 1 s"), "{}", early.1);
    let crowded = claim(&[line(0, 0, 1, 0.0, 1.0), line(0, 0, 2, 0.5, 1.5)]).unwrap();
    assert!(crowded.1.contains("rank 0 has 2 messages at once on 1 port"), "{}", crowded.1);
    let back = claim(&[line(0, 0, 1, 2.0, 1.0), line(1, 0, 2, 2.0, 3.0)]).unwrap();
    assert!(back.1.contains("ends before it starts"), "{}", back.1);
}

#[test]
fn what_a_few_words_ask_for_is_refused_at_once() {
    let read = |ranks: u64, switches: u64, round: u64| {
        let text = format!(
            "{{\"collective\":\"allreduce\",\"ranks\":{ranks},\"switches\":{switches},\
             \"chunk_bytes\":[1.0]}}\n{{\"round\":{round},\"from\":0,\"to\":1,\"chunks\":[0],\
             \"op\":\"reduce\"}}"
        );
        import::read(&text, "x").map(|_| ()).map_err(|e| e.to_string())
    };
    assert!(read(2, 0, 0).is_ok());
    for (ranks, switches, round) in [(2, 1 << 31, 0), (u64::from(u32::MAX), 0, 0), (4, 0, 1 << 23)]
    {
        assert!(read(ranks, switches, round).unwrap_err().contains("are too many"));
    }
}
