//! Every schedule runs for real, over every transport, and its results are right; whatever goes
//! wrong ends with one clear line and the named exit code, and leaves nothing behind.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use collcost::base::collective::Collective;
use collcost::base::quantity::Bytes;
use collcost::machine::sample::Op;
use collcost::model::algorithm::Registry;
use collcost::model::formula::Shape;
use collcost::model::schedule::combine::Relabel;
use collcost::model::schedule::{Layout, List, Schedule};
use collcost::run::execute::{Block, Check, Runner, Start, compile};
use collcost::run::launch::{Executor, Group, Pin, Place, Setup, usable};
use collcost::run::transport::{Action, Kind, Part, Wait, tcp};

#[path = "../support/process.rs"]
mod process;
use process::{PATIENCE, at_work, collcost, end, said, signal, soon, started};

/// One run whose result is checked, and none that counts.
const CHECKED: Block = Block {
    warm: 0,
    reps: 0,
    inner: 1,
    start: Start::Barrier,
    check: Check::Once,
    spill: Bytes(0),
    predicted: None,
};

fn setup(ranks: u32, transport: Kind) -> Setup {
    Setup {
        program: (PathBuf::from(env!("CARGO_BIN_EXE_collcost")), vec!["run-rank".to_owned()]),
        ranks,
        transport,
        wait: Some(Wait::Poll),
        pin: Pin::Free,
        places: Vec::new(),
        delay: None,
        interrupt: None,
    }
}

fn group(ranks: u32, transport: Kind) -> Group {
    Group::start(setup(ranks, transport)).expect("ranks start")
}

/// Every schedule without a switch that the registry spells out for these ranks, once each.
fn schedules(ranks: u32) -> Vec<(String, Box<dyn Schedule>)> {
    let mut found: BTreeMap<String, (Box<dyn Schedule>, List)> = BTreeMap::new();
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            let plain = Shape::new(collective, ranks);
            let segments: &[u32] = if algorithm.is_pipelined() { &[1, 3] } else { &[1] };
            for &p in segments {
                let shape = plain.with_segments(p);
                let Some(schedule) =
                    algorithm.applies(&shape).ok().and_then(|()| algorithm.schedule(&shape))
                else {
                    continue;
                };
                if schedule.switches() > 0 {
                    continue;
                }
                let list = List::of(&*schedule);
                let name = format!("{} {} P={p}", collective.id(), algorithm.meta().id);
                if found.values().all(|(_, other)| *other != list) {
                    found.insert(name, (schedule, list));
                }
            }
        }
    }
    found.into_iter().map(|(name, (schedule, _))| (name, schedule)).collect()
}

/// Runs and checks `schedule` once.
fn run(group: &mut Group, name: &str, schedule: &dyn Schedule, size: u64) {
    let programs = compile(schedule, Bytes(size)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let n = group.ranks();
    let timed = group.run(programs, &CHECKED, name);
    let timed = timed.unwrap_or_else(|e| panic!("{name}, {size} B, {n} ranks: {e}"));
    assert_eq!(timed.checked, 1, "{name}");
}

/// No bytes, one element, and a number that nothing divides.
fn sizes(collective: Collective) -> &'static [u64] {
    match collective {
        Collective::Barrier => &[0],
        collective if collective.reduces() => &[0, 4, 4 * 1009],
        _ => &[0, 1, 4099],
    }
}

fn every_schedule(transport: Kind) {
    for ranks in 1..=6 {
        let mut group = group(ranks, transport);
        for (name, schedule) in schedules(ranks) {
            for &size in sizes(schedule.collective()) {
                run(&mut group, &name, &*schedule, size);
            }
        }
        group.end();
    }
}

#[test]
fn ranks_stay_on_the_cpus_that_they_are_given() {
    let cpus: Vec<usize> = usable().unwrap().cpus.into_iter().rev().take(2).collect();
    let pinned = Setup { pin: Pin::To(cpus.clone()), ..setup(2, Kind::Shm) };
    let given: Vec<_> = cpus.iter().cycle().take(2).copied().map(Some).collect();
    assert_eq!(Group::start(pinned).unwrap().cpus(), given);
    let nowhere = Setup { pin: Pin::To(vec![1 << 20]), ..setup(2, Kind::Shm) };
    let refused = Group::start(nowhere).map(|group| group.ranks()).unwrap_err();
    assert!(refused.is_input() && refused.what().contains("CPU 1048576"), "{refused}");
    // Two ranks that spin on one CPU would wait for each other's time slices.
    let together =
        Setup { pin: Pin::To(vec![cpus[0]]), wait: Some(Wait::Spin), ..setup(2, Kind::Shm) };
    assert!(Group::start(together).is_err());
}

#[test]
fn every_schedule_is_right_over_shared_memory() {
    every_schedule(Kind::Shm);
}

#[test]
fn every_schedule_is_right_over_tcp() {
    every_schedule(Kind::Tcp);
}

/// More than a ring of slots or a socket holds: nobody waits in a circle.
#[test]
fn large_messages_go_both_ways_at_once() {
    for transport in Kind::ALL {
        let mut group = group(4, transport);
        for name in ["ring", "recursive-doubling", "rabenseifner"] {
            let named = Registry::builtin().find(Collective::AllReduce, name).unwrap();
            let schedule = named.algorithm.schedule(&Shape::new(Collective::AllReduce, 4)).unwrap();
            run(&mut group, name, &*schedule, 3_000_004);
        }
        for (collective, name) in
            [(Collective::AllToAll, "pairwise"), (Collective::Broadcast, "binomial")]
        {
            let named = Registry::builtin().find(collective, name).unwrap();
            let schedule = named.algorithm.schedule(&Shape::new(collective, 4)).unwrap();
            run(&mut group, name, &*schedule, 3_000_003);
        }
        group.end();
    }
}

/// Large enough for messages of several slots, and odd enough for slots to be cut anywhere.
#[test]
fn every_schedule_is_right_with_messages_of_several_slots() {
    for ranks in [2, 3, 5, 6] {
        let mut group = group(ranks, Kind::Shm);
        for (name, schedule) in schedules(ranks) {
            let size = match schedule.collective() {
                Collective::Barrier => 0,
                collective if collective.reduces() => 4 * 50_021,
                _ => 200_003,
            };
            run(&mut group, &name, &*schedule, size);
        }
        group.end();
    }
}

#[test]
fn any_rank_can_be_the_root() {
    let mut group = group(5, Kind::Shm);
    for (name, schedule) in schedules(5) {
        if schedule.frame().layout == Layout::Shared && schedule.collective().has_root() {
            run(&mut group, &name, &Relabel::new(schedule, 3), 4096);
        }
    }
    group.end();
}

#[test]
fn a_runner_times_operations_by_their_names() {
    for start in [Start::Barrier, Start::Window] {
        let mut executor = Executor::new(Registry::builtin(), group(3, Kind::Shm));
        let ops = [
            "one-way",
            "shift",
            "fan-out/2",
            "copy",
            "local-reduce",
            "allreduce/ring",
            "broadcast/chain/P=4",
        ];
        for op in ops {
            let op: Op = op.parse().unwrap();
            let block = Block { reps: 7, inner: 3, start, ..CHECKED };
            let timed = executor.time(&op, Bytes(1024), &block).unwrap();
            assert_eq!((timed.samples.len(), timed.checked), (7, 1), "{op}");
            assert!(timed.samples.iter().all(|sample| sample.span.0 > 0.0), "{op}");
            let block = Block { check: Check::Each, inner: 1, ..block };
            assert_eq!(executor.time(&op, Bytes(1024), &block).unwrap().checked, 8, "{op}");
        }
        let refused = |executor: &mut Executor, op: &str| {
            executor.time(&op.parse().unwrap(), Bytes(1024), &CHECKED).unwrap_err().to_string()
        };
        assert!(refused(&mut executor, "allreduce/square").contains("square"));
        assert!(refused(&mut executor, "fan-out/3").contains("needs 4 ranks"));
        executor.end();
    }
}

#[test]
fn a_wrong_result_is_found() {
    let named = Registry::builtin().find(Collective::AllReduce, "ring").unwrap();
    let schedule = named.algorithm.schedule(&Shape::new(Collective::AllReduce, 3)).unwrap();
    let forget = |part: &mut Part| part.action = Action::Store;
    let misplace = |part: &mut Part| part.span = part.span.start ^ 4..part.span.end ^ 4;
    for wrong in [forget, misplace] {
        let mut programs = compile(&*schedule, Bytes(1200)).unwrap();
        wrong(&mut programs[1].steps[0].receives[0].parts[0]);
        let error = group(3, Kind::Shm).run(programs, &CHECKED, "ring").unwrap_err();
        assert!(error.is_lost() && error.what().contains("wrong result"), "{error}");
    }
}

#[test]
fn strangers_are_turned_away() {
    let run = tcp::Run::new().unwrap();
    let (first, at) = tcp::listen(Ipv4Addr::LOCALHOST.into()).unwrap();
    let (second, other) = tcp::listen(Ipv4Addr::LOCALHOST.into()).unwrap();
    let mut stranger = TcpStream::connect(at).unwrap();
    stranger.write_all(&[7; 48]).unwrap();
    let addresses = [at, other];
    let join = |listener, rank| {
        tcp::join(listener, rank, &addresses, &run, (Wait::Poll, PATIENCE)).map(drop)
    };
    thread::scope(|scope| {
        let caller = scope.spawn(|| join(&second, 1));
        join(&first, 0).unwrap();
        caller.join().unwrap().unwrap();
    });
}

#[test]
fn who_does_not_come_is_named() {
    let (listener, at) = tcp::listen(Ipv4Addr::LOCALHOST.into()).unwrap();
    let how = (Wait::Poll, Duration::from_millis(50));
    let run = tcp::Run::new().unwrap();
    let error = tcp::join(&listener, 0, &[at, at, at], &run, how).map(drop).unwrap_err();
    assert!(error.is_lost() && error.what().contains("from rank 1, 2"), "{error}");
}

// What follows uses the command as a process.

const SENDING: &str = "run allreduce ring 8MiB -n 2 --reps 100000000 --wait poll --check-once";
const MEETING: &str = "run barrier -n 3 --reps 100000000 --wait poll --check-once";

#[test]
fn a_rank_killed_while_it_sends_is_named() {
    for transport in ["shm", "tcp"] {
        let (child, ranks) = at_work(&format!("{SENDING} --transport {transport}"), 2);
        signal("KILL", ranks[1]);
        let (code, text) = said(&end(child, &ranks));
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("rank 1 was lost: killed by signal 9"), "{text}");
    }
}

#[test]
fn a_rank_killed_in_a_barrier_is_named() {
    for transport in ["shm", "tcp"] {
        let (child, ranks) = at_work(&format!("{MEETING} --transport {transport}"), 3);
        signal("KILL", ranks[2]);
        let (code, text) = said(&end(child, &ranks));
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("rank 2 was lost: killed by signal 9"), "{text}");
    }
}

#[test]
fn a_rank_killed_between_two_blocks_is_named() {
    let ring = Registry::builtin().find(Collective::AllReduce, "ring").unwrap();
    let schedule = ring.algorithm.schedule(&Shape::new(Collective::AllReduce, 3)).unwrap();
    for transport in [Kind::Shm, Kind::Tcp] {
        let mut group = group(3, transport);
        run(&mut group, "ring", &*schedule, 4096);
        let process = group.processes()[1];
        signal("KILL", process);
        // Its connections are closed, and nobody has looked at it since.
        soon("its end", || {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            stat.contains(") Z ").then_some(())
        });
        let programs = compile(&*schedule, Bytes(4096)).unwrap();
        let error = group.run(programs, &CHECKED, "ring").unwrap_err();
        assert!(error.what().contains("rank 1 was lost: killed by signal 9"), "{error}");
    }
}

#[test]
fn a_rank_killed_while_it_starts_is_named() {
    for transport in ["shm", "tcp"] {
        let (child, ranks) = started(&format!("{MEETING} --transport {transport}"), 1);
        signal("KILL", ranks[0]);
        let (code, text) = said(&end(child, &ranks));
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("rank 0 was lost"), "{text}");
    }
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    for transport in ["shm", "tcp"] {
        let (child, ranks) = at_work(&format!("{SENDING} --transport {transport}"), 2);
        signal("STOP", ranks[1]);
        let (code, text) = said(&end(child, &ranks));
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("rank 1 was lost: its process is stopped"), "{text}");
    }
}

#[test]
fn an_interruption_ends_all() {
    let (child, ranks) = at_work(SENDING, 2);
    signal("INT", child.id());
    let (code, text) = said(&end(child, &ranks));
    assert_eq!(code, Some(130), "{text}");
}

#[test]
fn ranks_end_with_their_group() {
    let (child, ranks) = at_work(SENDING, 2);
    signal("KILL", child.id());
    assert_eq!(end(child, &ranks).status.code(), None);
}

#[test]
fn more_ranks_than_cpus_do_not_spin() {
    let ranks = usable().unwrap().at_once + 1;
    if ranks > 64 {
        eprintln!("not tested: this machine has more CPUs than ranks may run on one host");
        return;
    }
    let line = format!("run allreduce ring 1KiB -n {ranks} --wait spin");
    let (code, text) = said(&collcost(&line).output().expect("it starts"));
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("--wait poll"), "{text}");
}

#[test]
fn a_run_says_what_it_took_and_that_it_was_right() {
    let line = "run allreduce rd 4KiB -n 2 --reps 3 --wait poll --alpha 1us --bw 1GB/s";
    let output = collcost(line).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for part in
        ["recursive-doubling over shared memory", "median of 3", "6 results", "expect  5.096"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = collcost(&format!("{line} --format json")).output().expect("it starts");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["reps"], &report["wait"]), (&3.into(), &"poll".into()));
    let [median, error] = ["median_s", "error"].map(|key| report[key].as_f64().unwrap());
    let expected = report["expect"]["time_s"].as_f64().unwrap();
    assert!(median > 0.0 && (expected / median - 1.0 - error).abs() < 1e-9, "{report}");
}

#[test]
fn what_cannot_run_is_refused() {
    let refused = [
        ("run allreduce ring 6 -n 2", 2, "multiple of 4"),
        ("run allreduce ring -n 2", 2, "how many bytes?"),
        ("run allreduce nvls 1KiB -n 2", 2, "switch"),
        ("run allreduce ring 1KiB -n 65", 3, "65 ranks on one host"),
        ("run allreduce ring 1KiB -n 2 --transport ib", 2, "`ib` is not a transport"),
        ("run allreduce ring 1KiB -n 2 --netns a=1.2.3.4", 2, "shared memory"),
        ("run allreduce ring 1KiB -n 2 --transport tcp --netns a", 2, "r1=10.0.0.1"),
        ("run allgather ring 10TiB -n 2", 3, "MiB that are free"),
        ("run-rank", 2, "collcost run"),
    ];
    for (line, wanted, part) in refused {
        let output = collcost(line).stdin(Stdio::null()).output().expect("it starts");
        let (code, text) = said(&output);
        assert_eq!(code, Some(wanted), "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
}

/// Two namespaces with a cable between them, gone when dropped.
struct Cable {
    names: [String; 2],
}

impl Cable {
    /// None where this user may not make namespaces.
    fn new() -> Option<Self> {
        let names = [0, 1].map(|i| format!("collcost-test-{}-{i}", std::process::id()));
        let ip = |words: &str| {
            let done = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
            done.is_ok_and(|status| status.success())
        };
        let cable = Self { names };
        let [a, b] = &cable.names;
        let made = ip(&format!("netns add {a}"))
            && ip(&format!("netns add {b}"))
            && ip(&format!("-n {a} link add e0 type veth peer name e0 netns {b}"));
        let up = |name: &str, last: u8| {
            ip(&format!("-n {name} addr add 10.99.0.{last}/24 dev e0"))
                && ip(&format!("-n {name} link set e0 up"))
        };
        (made && up(a, 1) && up(b, 2)).then_some(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

#[test]
fn ranks_run_in_namespaces_of_their_own() {
    let Some(cable) = Cable::new() else {
        eprintln!("not tested: this user may not make network namespaces");
        return;
    };
    let place = |(name, last): (&String, u8)| Place {
        namespace: Some(PathBuf::from("/run/netns").join(name)),
        address: Ipv4Addr::new(10, 99, 0, last).into(),
    };
    let places = cable.names.iter().zip(1..).map(place).collect();
    let mut group = Group::start(Setup { places, ..setup(2, Kind::Tcp) }).expect("ranks start");
    for (name, schedule) in schedules(2) {
        let size = if schedule.collective() == Collective::Barrier { 0 } else { 300_000 };
        run(&mut group, &name, &*schedule, size);
    }
    group.end();
}
