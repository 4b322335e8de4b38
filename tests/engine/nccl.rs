//! NCCL's tuner against what NVIDIA's own code answered.
//!
//! The decisions and tables of `tests/data/nccl_*.csv.gz` come from NVIDIA/nccl 2.18.3, 2.21.5,
//! 2.27.3 and 2.30.7, compiled without a GPU and asked. They are kept in short: algorithms and
//! protocols as letters with the number of sizes that they hold for, everything else of the answers
//! as a digest of the text that NCCL's numbers print as.

#[path = "../support/plain_nccl.rs"]
mod plain_nccl;

use std::collections::HashMap;

use collcost::answer::batch::nccl::{Replay, write_tables};
use collcost::base::dtype::DataType;
use collcost::base::quantity::Bytes;
use collcost::library::nccl::comms::{self, Named};
use collcost::library::nccl::{
    self, Algo, Call, Chooser, Function, Place, Proto, Range, Reduction, Settings, Table, Version,
    envs, ranges, why_not,
};

use crate::full::one_in;
use crate::gzip::inflate;

/// The releases of the tables here; those of others are in `nccl_releases`.
const KNOWN: [&str; 4] = ["2.18.3", "2.21.5", "2.27.3", "2.30.7"];

fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

/// Some releases for each of many communicators, and all for eight of them.
fn some(turn: usize) -> impl Iterator<Item = Version> {
    Version::ALL.into_iter().skip(turn % 8).step_by(8)
}

fn communicators() -> Vec<Named> {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    comms::read(&text).expect("they are communicators")
}

fn environments() -> Vec<(String, Settings)> {
    envs::read(include_str!("../data/nccl_environments.csv")).expect("they are environments")
}

/// 64-bit FNV-1a.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// `Ring/LL` as `Rl`.
fn letters(algo: &str, proto: &str) -> String {
    let algo = match algo {
        "CollNetDirect" => "D",
        "CollNetChain" => "C",
        "NVLSTree" => "V",
        "NONE" => "-",
        "TUNE_RC5" => "X",
        other => &other[..1],
    };
    let proto = match proto {
        "LL" => "l",
        "LL128" => "m",
        "Simple" => "s",
        _ => "",
    };
    format!("{algo}{proto}")
}

#[test]
fn every_decision_is_nvidias() {
    let text = inflate(include_bytes!("../data/nccl_choices.csv.gz"));
    let (sizes, groups): (Vec<_>, Vec<_>) = text.lines().skip(1).partition(|l| l.starts_with('#'));
    let sizes: Vec<Vec<&str>> = sizes
        .iter()
        .map(|line| line.split(' ').skip(1).filter(|s| !s.is_empty()).collect())
        .collect();
    let mut questions = String::from("id,version,env,pipeops,collective,nbytes\n");
    for group in &groups {
        let (asked, rest) = split(group, 5);
        let of = &sizes[rest.split(',').next().unwrap().parse::<usize>().unwrap()];
        // A refused environment has one question without a size.
        for size in if of.is_empty() { &[""][..] } else { of } {
            questions += &format!("{asked},{size}\n");
        }
    }
    let comms = communicators();
    let envs: HashMap<_, _> = environments().into_iter().collect();
    let mut answers = Vec::new();
    Replay::new(&comms, &envs)
        .answer(questions.as_bytes(), &mut answers)
        .expect("all are questions");
    let answers = String::from_utf8(answers).unwrap();
    let mut answers = answers.lines().skip(1);
    let mut decisions = 0;
    let mut wrong = Vec::new();
    for group in &groups {
        let (asked, rest) = split(group, 5);
        let rest: Vec<_> = rest.split(',').collect();
        let count = sizes[rest[0].parse::<usize>().unwrap()].len().max(1);
        let mut runs: Vec<(String, usize)> = Vec::new();
        let mut all = String::new();
        for line in answers.by_ref().take(count) {
            let (_, answer) = split(line, 6);
            let fields: Vec<_> = answer.split(',').collect();
            let cell = letters(fields[0], fields[1]);
            match runs.last_mut() {
                Some(run) if run.0 == cell => run.1 += 1,
                _ => runs.push((cell, 1)),
            }
            all += answer;
            all.push('\n');
            decisions += 1;
        }
        let runs: Vec<_> = runs.iter().map(|(cell, n)| format!("{cell}{n}")).collect();
        if runs.join(" ") != rest[1] || digest(&all) != rest[2] {
            wrong.push(format!("{asked}: {} where NCCL has {}\n{all}", runs.join(" "), rest[1]));
        }
    }
    assert_eq!(decisions, 279_000 + 126_438);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), groups.len(), wrong[0]);
}

/// A table's columns may be in any order, its fields in quotes.
#[test]
fn questions_are_the_same_however_they_are_written() {
    let comms = communicators();
    let none = HashMap::new();
    let asked = |head: &str, row: &dyn Fn([&str; 6]) -> String| {
        let mut text = format!("{head}\n");
        for comm in &comms[..3] {
            for (version, collective, size) in [
                ("2.27.3", "allreduce", "8"),
                ("2.27.3", "allreduce", "67108864"),
                ("2.27.3", "broadcast", "67108864"),
                ("2.18.3", "broadcast", "67108864"),
            ] {
                text += &row([&comm.id, version, "", "1", collective, size]);
                text.push('\n');
            }
        }
        let mut answers = Vec::new();
        Replay::new(&comms, &none)
            .answer(text.as_bytes(), &mut answers)
            .expect("all are questions");
        String::from_utf8(answers).unwrap()
    };
    let plain = asked("id,version,env,pipeops,collective,nbytes", &|fields| fields.join(","));
    assert_eq!(plain.lines().count(), 13);
    let turned =
        asked("nbytes,note,collective,pipeops,env,version,id", &|[id, v, env, ops, of, size]| {
            format!("{size},x,{of},{ops},{env},{v},{id}")
        });
    assert_eq!(turned, plain);
    let quoted =
        asked("id,version,env,pipeops,collective,nbytes", &|[id, v, env, ops, of, size]| {
            format!("\"{id}\",{v},{env},{ops},{of},\"{size}\"")
        });
    assert_eq!(quoted, plain);
}

/// A line's first fields, and the others.
fn split(line: &str, fields: usize) -> (&str, &str) {
    let at = line.match_indices(',').nth(fields - 1).expect("it has so many fields").0;
    (&line[..at], &line[at + 1..])
}

#[test]
fn every_table_is_nvidias() {
    let comms = communicators();
    let mut ours = Vec::new();
    let mut envs = environments();
    envs.insert(0, (String::new(), Settings::default()));
    write_tables(&mut ours, &comms, &KNOWN.map(release), &envs).expect("a vector takes everything");
    let ours = String::from_utf8(ours).unwrap();
    let mut tables: HashMap<&str, String> = HashMap::new();
    for line in ours.lines().skip(1) {
        let (of, cell) = split(line, 3);
        let table = tables.entry(of).or_default();
        *table += cell;
        table.push('\n');
    }
    let truth = inflate(include_bytes!("../data/nccl_tables.csv.gz"));
    for line in truth.lines().skip(1) {
        let (of, expected) = split(line, 3);
        assert_eq!(digest(&tables[of]), expected, "{of}\n{}", tables[of]);
    }
    assert_eq!(truth.lines().count() - 1, 3034);
}

#[test]
fn a_plain_reading_of_the_rules_agrees() {
    let mut state = 1_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let several = communicators().into_iter().filter(|n| n.comm.ranks > 1);
    for (turn, Named { id, comm }) in several.enumerate() {
        let comm = &comm;
        for version in some(turn) {
            let table = Table::new(comm, version, &Settings::default()).unwrap();
            // Cost models are held to NVIDIA's answers in nccl_cost_model.rs.
            if table.models().is_some() {
                continue;
            }
            let chooser = Chooser::new(comm, version, &table, Reduction::default());
            for function in Function::ALL {
                for _ in 0..40 {
                    let bytes = (1 + random()) << (random() % 8) >> (random() % 32);
                    let pipelined = 1 + u32::try_from(random() % 20).unwrap();
                    let call = Call { function, size: Bytes(bytes), pipelined };
                    let ours = chooser
                        .decide(&call)
                        .map(|d| (d.algo, d.proto, d.channels, d.threads, d.time.unwrap().0));
                    let plain =
                        plain_nccl::choose(comm, version, &table, function, bytes, pipelined);
                    assert_eq!(ours, plain, "{id} {version} {function} {bytes} x {pipelined}");
                }
            }
        }
    }
}

#[test]
fn the_known_machines_are_those_of_the_table() {
    let mut known = 0;
    for Named { id, comm } in communicators() {
        if id.starts_with("fuzz") {
            continue;
        }
        let place = Place::named(&id).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(place.communicator().unwrap_or_else(|e| panic!("{id}: {e}")), comm, "{id}");
        known += 1;
    }
    assert_eq!(known, 270);
}

#[test]
fn a_cell_that_is_not_considered_has_a_reason() {
    let mut settings = environments();
    settings.push((String::new(), Settings::default()));
    for (turn, Named { id, comm }) in communicators().iter().step_by(7 * one_in(5)).enumerate() {
        for (version, (env, settings)) in
            some(turn).flat_map(|v| settings.iter().map(move |s| (v, s)))
        {
            let Ok(table) = Table::new(comm, version, settings) else { continue };
            let chooser = Chooser::new(comm, version, &table, Reduction::default());
            for function in Function::ALL {
                let call = Call { function, size: Bytes(1 << 20), pipelined: 1 };
                let ranked = chooser.ranked(&call);
                for (algo, proto) in Algo::ALL.iter().flat_map(|&a| Proto::ALL.map(|p| (a, p))) {
                    let why = why_not(comm, version, settings, &chooser, (function, algo, proto));
                    let runs = ranked.iter().any(|r| (r.0, r.1) == (algo, proto));
                    assert_eq!(
                        why.is_none(),
                        runs,
                        "{id} {version} {env} {function} {algo}/{proto}"
                    );
                }
            }
        }
    }
}

#[test]
fn ranges_are_the_choices_of_single_sizes() {
    for (turn, Named { id, comm }) in communicators().iter().step_by(11).enumerate() {
        for version in some(turn) {
            let table = Table::new(comm, version, &Settings::default()).unwrap();
            let chooser = Chooser::new(comm, version, &table, Reduction::default());
            for function in Function::ALL {
                let found = ranges(&chooser, function, Bytes(8), Bytes(1 << 33));
                assert!(found.windows(2).all(|w| w[0].to.0 + 1 == w[1].from.0), "{id}");
                assert_eq!((found[0].from.0, found[found.len() - 1].to.0), (8, 1 << 33));
                for octave in 3..33 {
                    for sixteenth in 0..16 {
                        let size = (16 + sixteenth) << octave >> 4;
                        holds(&chooser, function, &found, size, id);
                    }
                }
            }
        }
    }
}

fn holds(chooser: &Chooser, function: Function, found: &[Range], size: u64, id: &str) {
    let call = Call { function, size: Bytes(size), pipelined: 1 };
    let one = chooser.decide(&call).map(|d| (d.algo, d.proto));
    let range =
        found.iter().find(|r| r.from.0 <= size && size <= r.to.0).expect("sizes are covered");
    assert_eq!(one, range.first.map(|d| (d.algo, d.proto)), "{id} {function} {size}");
}

#[test]
fn floats_print_as_c_prints_them() {
    for (number, expected) in [
        (0.0, "0"),
        (24.0, "24"),
        (0.1, "0.100000001"),
        (9.301_333, "9.30133343"),
        (3.6e9, "3.6e+09"),
        (123_456_789.0, "123456792"),
        (1e-5, "9.99999975e-06"),
        (1e-4, "9.99999975e-05"),
        (0.000_123, "0.000123000005"),
        (1e20, "1.00000002e+20"),
    ] {
        assert_eq!(nccl::float(number), expected);
        assert_eq!(nccl::float(number).parse::<f32>().unwrap().to_bits(), number.to_bits());
    }
}

#[test]
fn releases_go_by_several_names() {
    for (text, found) in [
        ("2.18.3", "2.18.3"),
        ("2.18", "2.18.6"),
        ("2.24", "2.24.3"),
        ("v2.27.3-1", "2.27.3"),
        ("2.29.7+cuda12.9", "2.29.7"),
        ("torch-2.1", "2.18.1"),
        ("torch-2.4", "2.20.5"),
        ("torch-2.7", "2.26.2"),
        ("PyTorch-2.10-cu13", "2.28.9"),
        ("torch-2.10-cu12", "2.27.5"),
        ("torch-2.10.1+cu128", "2.27.5"),
        ("torch-2.5.1+cu121", "2.21.5"),
        ("torch-2.14.1", "2.30.7"),
        ("torch-2.15", "2.30.7"),
    ] {
        assert_eq!(release(text).id(), found, "{text}");
    }
    for version in Version::ALL {
        assert_eq!(release(version.id()), version);
        for pin in version.pytorch() {
            assert_eq!(release(&format!("torch-{pin}")), version);
        }
    }
}

#[test]
fn an_unknown_release_is_refused_with_the_nearest() {
    for (text, said) in [
        ("2.21.1", "2.21.5"),
        ("2.26.4", "2.26.3"),
        ("2.19.2", "2.19.1"),
        ("2.99.1", "2.32.6"),
        ("torch-2.10", "torch-2.10-cu12 or torch-2.10-cu13"),
        ("torch-2.10.1", "torch-2.10-cu12 or torch-2.10-cu13"),
        ("torch-1.13", "torch-2.1"),
    ] {
        let refused = text.parse::<Version>().unwrap_err().to_string();
        assert!(refused.contains(said), "{text}: {refused}");
    }
    for text in ["", "2", "2.17.1", "3.1.0", "2.x", "2.18.3.1"] {
        assert!(text.parse::<Version>().is_err(), "{text}");
    }
}

/// What is decided for an all-reduce of 1 MiB on two DGX H100 with that environment, or nothing
/// where NCCL starts no communicator.
fn under(version: Version, ranks: u32, settings: &str) -> Option<Option<Algo>> {
    let mut comm = Place::named("dgx_h100_8x400g.p8.n2").unwrap().communicator().unwrap();
    if ranks == 1 {
        (comm.ranks, comm.nodes, comm.local_ranks) = (1, 1, 1);
    }
    let table = Table::new(&comm, version, &Settings::read(settings).unwrap()).ok()?;
    let chooser = Chooser::new(&comm, version, &table, Reduction::default());
    let call = Call { function: Function::AllReduce, size: Bytes(1 << 20), pipelined: 1 };
    Some(chooser.decide(&call).map(|decision| decision.algo))
}

// Read in src/graph/tuning.cc of 2.18.3 to 2.30.7: parseList and its place.

#[test]
fn an_empty_list_names_nothing_until_2_23_and_changes_nothing_since() {
    let own = under(release("2.27.3"), 16, "");
    assert_eq!(under(release("2.27.3"), 16, "NCCL_ALGO= NCCL_PROTO=''"), own);
    // No protocol is left, and then no cell: 2.18.3 fails, 2.21.5 puts its rings back.
    assert_eq!(under(release("2.18.3"), 16, "NCCL_PROTO="), Some(None));
    assert_eq!(under(release("2.21.5"), 16, "NCCL_PROTO="), Some(Some(Algo::Ring)));
    // A list of commas is not empty: it names nothing in any version.
    assert_eq!(under(release("2.27.3"), 16, "NCCL_ALGO=,"), Some(None));
    // Only the first entry may stand without its function, and behind `;` it is not the first.
    assert_eq!(under(release("2.27.3"), 16, "NCCL_ALGO=;ring"), None);
}

#[test]
fn a_rank_alone_does_not_read_its_environment() {
    assert_eq!(under(release("2.30.7"), 16, "NCCL_ALGO=bogus"), None);
    assert_eq!(under(release("2.30.7"), 1, "NCCL_ALGO=bogus"), Some(Some(Algo::Ring)));
}

#[test]
fn rings_and_trees_have_as_many_channels_as_the_smaller_of_the_two() {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    let mut lines = text.lines();
    let (header, line) = (lines.next().unwrap(), lines.next().unwrap());
    let at = header.split(',').position(|name| name == "tree_nch").unwrap();
    let mut fields: Vec<_> = line.split(',').collect();
    fields[at] = "1000";
    let more = comms::read(&format!("{header}\n{}\n", fields.join(","))).unwrap();
    assert_eq!(more, comms::read(&format!("{header}\n{line}\n")).unwrap());
}

#[test]
fn variables_of_nccl_that_are_not_the_tuners_are_told_apart() {
    let mut settings = Settings::default();
    settings.set("NCCL_DEBUG", "INFO").unwrap();
    assert!(settings.is_empty());
    let before = settings.set("NCCL_MAX_NCHANNELS", "4").unwrap_err().to_string();
    assert!(before.contains("when a communicator starts"), "{before}");
    assert!(before.contains("--graph"), "{before}");
    let search = settings.set("NCCL_CROSS_NIC", "1").unwrap_err().to_string();
    assert!(search.contains("give the graphs"), "{search}");
    let slip = settings.set("NCCL_ALG", "Ring").unwrap_err().to_string();
    assert!(slip.contains("did you mean `NCCL_ALGO`?"), "{slip}");
}

/// v2.24.3-1 to v2.30.7-1 `src/enqueue.cc`: all-gather and broadcast become bytes before anything is chosen, and
/// below compute capability 90 8-bit floats are refused; since 2.28.3 only where they are added.
#[test]
fn floats_of_8_bits_are_bytes_unless_they_are_added() {
    let chooser = |place: &str, version: &str, element| {
        let comm = Place::named(place).unwrap().communicator().unwrap();
        let table = Table::new(&comm, release(version), &Settings::default()).unwrap();
        Chooser::new(&comm, release(version), &table, Reduction { element, ..Default::default() })
    };
    let call = |function, bits| Call { function, size: Bytes(1_u64 << bits), pipelined: 1 };
    for version in ["2.24.3", "2.27.5", "2.30.7", "2.31.2"] {
        let [floats, bytes] = [DataType::F8e4m3, DataType::I8]
            .map(|element| chooser("dgx_h100_8x400g.p1.n16", version, element));
        for bits in 3..34 {
            for function in [Function::AllGather, Function::Broadcast] {
                let call = call(function, bits);
                assert_eq!(floats.decide(&call), bytes.decide(&call), "{version} {call:?}");
            }
            let call = call(Function::AllReduce, bits);
            let added = floats.decide(&call).unwrap();
            assert_ne!(added.algo, Algo::Ring, "{version} {call:?}");
        }
        let ring = bytes.decide(&call(Function::AllGather, 33)).unwrap();
        assert_eq!(ring.algo, Algo::Ring, "{version}");
    }
    for (version, taken) in [
        ("2.23.4", [false; 2]),
        ("2.24.3", [false; 2]),
        ("2.27.7", [false; 2]),
        ("2.28.3", [false, true]),
        ("2.31.2", [false, true]),
    ] {
        let old = chooser("dgx_a100_8x200g.p8.n2", version, DataType::F8e5m2);
        let new = chooser("dgx_h100_8x400g.p8.n2", version, DataType::F8e5m2);
        let reduction = Reduction { element: DataType::F8e5m2, ..Default::default() };
        for (function, taken) in [Function::AllReduce, Function::AllGather].into_iter().zip(taken) {
            let call = call(function, 20);
            assert_eq!(old.decide(&call).is_some(), taken, "{version} {function}");
            assert_eq!(old.ranked(&call).is_empty(), !taken, "{version} {function}");
            assert_eq!(old.considers(function, Algo::Ring, Proto::Simple), taken, "{version}");
            assert_eq!(reduction.check(release(version), function, 80).is_ok(), taken);
            assert_eq!(new.decide(&call).is_some(), version != "2.23.4", "{version} {function}");
        }
    }
    let said = Reduction { element: DataType::F8e5m2, ..Default::default() }
        .check(release("2.23.4"), Function::AllGather, 90)
        .unwrap_err()
        .to_string();
    assert!(said.contains("2.23.4 has no 8-bit floats"), "{said}");
}

/// v2.18.1-1 to v2.30.7-1 `src/graph/tuning.cc`: -2 is the value of a parameter that is not set.
#[test]
fn an_overhead_of_minus_2_is_none() {
    let comm = Place::named("hgx_h100_amd_8x400g.p8.n4").unwrap().communicator().unwrap();
    let times = |settings: &str| {
        let settings = Settings::read(settings).unwrap();
        let table = Table::new(&comm, release("2.30.7"), &settings).unwrap();
        Chooser::new(&comm, release("2.30.7"), &table, Reduction::default()).ranked(&Call {
            function: Function::AllReduce,
            size: Bytes(1 << 20),
            pipelined: 1,
        })
    };
    assert_eq!(times("NCCL_NET_OVERHEAD=-2"), times(""));
    assert_ne!(times("NCCL_NET_OVERHEAD=-1"), times(""));
}

#[test]
fn tables_without_what_they_are_for_are_refused_with_their_line() {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    let mut lines = text.lines();
    let (header, line) = (lines.next().unwrap(), lines.next().unwrap());
    for empty in ["", header] {
        let said = comms::read(empty).unwrap_err().to_string();
        assert!(said.contains("no communicator"), "{said}");
    }
    let at = header.split(',').position(|name| name == "nchannels").unwrap();
    let mut fields: Vec<_> = line.split(',').collect();
    fields[at] = "0";
    let said = comms::read(&format!("{header}\n{}\n", fields.join(","))).unwrap_err().to_string();
    assert!(said.contains("0 channels") && said.contains("line 2"), "{said}");
    let said = envs::read("env,settings\nA,NCCL_ALGO=Ring\nB,NCCL_FOO=1\n").unwrap_err();
    assert!(said.to_string().contains("line 3, NCCL_FOO=1"), "{said}");
}
