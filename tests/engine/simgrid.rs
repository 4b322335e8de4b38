//! Both simulators beside SimGrid, which times the same messages: rings, recursive doubling,
//! all-to-alls, ports that are shared, ranks that start late.
//!
//! What the messages are, and what each waits for, is written here from the definitions and not
//! asked of the schedules. `tests/peers/simgrid.cpp` is SimGrid's part; where a compiler or SimGrid
//! is not installed nothing is tested, which standard error says. `.ci/run` installs Debian's.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::full::one_in;
use collcost::Collective;
use collcost::base::quantity::{Bandwidth, Seconds, SecondsPerByte, Volume};
use collcost::cost::simulate::{Setup, Timed, simulate_with};
use collcost::cost::traffic;
use collcost::machine::fabric::{Discipline, Fabric, Tier};
use collcost::machine::graph::Graph;
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Ports, Shape};
use collcost::model::schedule::{Endpoint, Frame, List, Op, Run, Schedule};
use serde_json::json;

const CASES: usize = 200;
const TOLERANCE: f64 = 1e-9;

/// Numbers drawn by a multiplicative generator; the high half is good enough.
struct Dice(u64);

impl Dice {
    /// Below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }

    /// From `low` to `high`.
    fn among(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

#[derive(Debug, Clone)]
struct Message {
    round: u64,
    from: u32,
    to: u32,
    bytes: u64,
    adds: bool,
    /// What must have been added before it starts, and what must have been sent.
    added: Vec<usize>,
    sent: Vec<usize>,
}

struct Case {
    name: String,
    ranks: u32,
    /// Ports that share their rate, so many each way; else one port that serves one after the other.
    shared: Option<u32>,
    alpha: f64,
    rate: f64,
    gamma: f64,
    starts: Vec<f64>,
    size: u64,
    schedule: Box<dyn Schedule>,
    messages: Vec<Message>,
}

/// A schedule that the registry has.
fn known(collective: Collective, name: &str, n: u32) -> Box<dyn Schedule> {
    let found = Registry::builtin().find(collective, name).unwrap();
    found.algorithm.schedule(&Shape::new(collective, n)).unwrap()
}

/// Blocks go round once to be added and once to be stored; rank i has block i − r in round r.
fn ring(n: u32, block: u64) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for round in 0..2 * u64::from(n - 1) {
        for from in 0..n {
            let before = |rank: u32| (round > 0).then(|| (round as u32 - 1) * n + rank % n);
            let before = |rank: u32| before(rank).into_iter().map(|i| i as usize).collect();
            messages.push(Message {
                round,
                from,
                to: (from + 1) % n,
                bytes: block,
                adds: round < u64::from(n - 1),
                added: before(from + n - 1),
                sent: before(from),
            });
        }
    }
    messages
}

/// In round k whole vectors are exchanged over a distance of 2^k; n is a power of two.
fn recursive_doubling(n: u32, bytes: u64) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for round in 0..u64::from(n.ilog2()) {
        for from in 0..n {
            let added =
                messages.iter().enumerate().filter(|(_, m)| m.round < round && m.to == from);
            let added = added.map(|(i, _)| i).collect();
            let to = from ^ 1 << round;
            messages.push(Message { round, from, to, bytes, adds: true, added, sent: Vec::new() });
        }
    }
    messages
}

/// In round k every rank sends to the k-th after it what nobody else has: nothing waits.
fn all_to_all(n: u32, block: u64) -> Vec<Message> {
    let pairs = (1..n).flat_map(|by| (0..n).map(move |from| (by, from)));
    let message = |(by, from)| Message {
        round: u64::from(by - 1),
        from,
        to: (from + by) % n,
        bytes: block,
        adds: false,
        added: Vec::new(),
        sent: Vec::new(),
    };
    pairs.map(message).collect()
}

/// Messages of several chunks between pairs as they fall, some of which pass on what others brought.
fn mixed(n: u32, chunk: u64, dice: &mut Dice) -> (Vec<Message>, List) {
    let mut list = List::new(Frame::new(Collective::AllGather, n, n, 0));
    let mut messages: Vec<Message> = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut pairs: Vec<(u32, u32)> =
        (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
    let rounds = dice.among(1, 4);
    for round in 0..rounds {
        let mut drawn: Vec<(u32, u32)> = (0..dice.among(2, u64::from(2 * n)))
            .filter_map(|_| {
                let last = pairs.len() as u64;
                (last > 0).then(|| pairs.swap_remove(dice.below(last) as usize))
            })
            .collect();
        drawn.sort_unstable();
        for (from, to) in drawn {
            let start = dice.below(u64::from(n)) as u32;
            let run = Run { start, len: dice.among(1, u64::from(n - start)) as u32 };
            let brought = |other: &Run| run.chunks().any(|chunk| other.chunks().contains(&chunk));
            let added = (0..messages.len())
                .filter(|&i| messages[i].round < round && messages[i].to == from)
                .filter(|&i| brought(&runs[i]))
                .collect();
            let bytes = chunk * u64::from(run.len);
            list.push(round, Endpoint::Rank(from), Endpoint::Rank(to), Op::Copy, &[run]);
            messages.push(Message { round, from, to, bytes, adds: false, added, sent: Vec::new() });
            runs.push(run);
        }
    }
    (messages, list.sort())
}

/// The case of that number: by turns each of five kinds.
fn case(number: u64) -> Case {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    dice.below(2);
    let kind =
        ["ring", "recursive doubling", "all-to-all", "fair sharing", "skew"][(number % 5) as usize];
    let which = if kind == "skew" { dice.below(4) } else { number % 5 };
    let most = 1 << dice.among(1, 24);
    let block = dice.among(1, most);
    let two_to_16 = dice.among(2, 16) as u32;
    let (ranks, parts, schedule, messages): (u32, u64, Box<dyn Schedule>, _) = match which {
        0 => {
            let n = two_to_16;
            (n, u64::from(n), known(Collective::AllReduce, "ring", n), ring(n, block))
        }
        1 => {
            let n = 1 << dice.among(1, 4);
            let schedule = known(Collective::AllReduce, "recursive-doubling", n);
            (n, 1, schedule, recursive_doubling(n, block))
        }
        2 => {
            let n = two_to_16;
            (n, u64::from(n), known(Collective::AllToAll, "pairwise", n), all_to_all(n, block))
        }
        _ => {
            let n = two_to_16.max(3);
            let (messages, list) = mixed(n, block, &mut dice);
            (n, u64::from(n), Box::new(list), messages)
        }
    };
    let alpha = dice.below(50) as f64 * 1e-7;
    let rate = dice.among(1, 4000) as f64 * 1e8;
    // What shares a port may come at one instant, of which SimGrid knows no order to add it in.
    let adds = which == 0 || which == 1 && kind != "skew";
    // Where ranks start together, what is exchanged in rounds meets at no port.
    let is_serial = which < 2 && kind != "skew" && dice.below(2) == 0;
    let late = (alpha + block as f64 / rate) * 3e-3;
    Case {
        name: format!("{number}, {kind}"),
        ranks,
        shared: (!is_serial).then(|| dice.among(1, 3) as u32),
        alpha,
        rate,
        gamma: if adds { dice.below(3) as f64 * 0.4 / rate } else { 0.0 },
        starts: (0..ranks)
            .map(|_| if kind == "skew" { dice.below(1000) as f64 * late } else { 0.0 })
            .collect(),
        size: block * parts,
        schedule,
        messages,
    }
}

impl Case {
    /// Each rank's ports are two links, and every pair has a wire of the rate of one message.
    fn for_simgrid(&self) -> String {
        let n = self.ranks;
        let ports = f64::from(self.shared.unwrap_or(1)) * self.rate;
        let mut text = format!("{}\n", 2 * n + n * n);
        (0..2 * n).for_each(|_| writeln!(text, "{ports}").unwrap());
        (0..n * n).for_each(|_| writeln!(text, "{}", self.rate).unwrap());
        writeln!(text, "{n}\n{}", n * (n - 1)).unwrap();
        for (a, b) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            writeln!(text, "{a} {b} 3 {a} {} {}", n + b, 2 * n + a * n + b).unwrap();
        }
        writeln!(text, "{}", self.messages.len()).unwrap();
        for m in &self.messages {
            let adding = if m.adds { self.gamma * m.bytes as f64 } else { 0.0 };
            let at = self.there(m);
            write!(text, "{} {} {} {at:e} {:e} {adding:e}", m.from, m.to, m.bytes, self.alpha)
                .unwrap();
            for list in [&m.added, &m.sent] {
                write!(text, " {}", list.len()).unwrap();
                list.iter().for_each(|i| write!(text, " {i}").unwrap());
            }
            text.push('\n');
        }
        text
    }

    /// When both of a message's ranks have started.
    fn there(&self, m: &Message) -> f64 {
        self.starts[m.from as usize].max(self.starts[m.to as usize])
    }

    /// When each message was sent and added, by ports.
    fn by_ports(&self) -> Vec<(f64, f64)> {
        let discipline = if self.shared.is_some() { Discipline::Fair } else { Discipline::Serial };
        let ports = Ports::full(self.shared.unwrap_or(1));
        let tier = Tier::new("link", Seconds(self.alpha), Bandwidth(self.rate));
        let mut fabric = Fabric::new(vec![Tier { ports, discipline, ..tier }]);
        fabric.gamma = (self.gamma > 0.0).then_some(SecondsPerByte(self.gamma));
        let mut setup = Setup::new(Volume(self.size as f64));
        setup.trouble.starts = self.starts.iter().map(|&start| Seconds(start)).collect();
        let mut times = vec![None; self.messages.len()];
        let mut listener = |timed: &Timed<'_>| {
            let is_it = |m: &Message| {
                let ends = (Endpoint::Rank(m.from), Endpoint::Rank(m.to));
                (m.round, ends) == (timed.round, (timed.from, timed.to))
            };
            let i = self.messages.iter().position(is_it).expect("a message of the definition");
            assert_eq!(timed.bytes.0, self.messages[i].bytes as f64, "{}: message {i}", self.name);
            assert!(times[i].replace((timed.end.0, timed.added.0)).is_none(), "{}", self.name);
        };
        simulate_with(&*self.schedule, &fabric, &setup, &mut listener).unwrap();
        times.into_iter().map(|time| time.expect("all messages are sent")).collect()
    }

    /// When the last message was sent, over links: a star, on which a message is as quick as a port.
    fn by_links(&self) -> Option<f64> {
        if self.gamma > 0.0 || self.shared.is_some_and(|ports| ports > 1) {
            return None;
        }
        let cable = |rank| json!({"between": [format!("g{rank}"), "sw"], "bw": self.rate});
        let star = json!({"ranks": self.ranks, "switches": ["sw"], "alpha": self.alpha,
                          "links": (0..self.ranks).map(cable).collect::<Vec<_>>()});
        let after = |m: &Message| -> Vec<String> {
            m.added.iter().chain(&m.sent).map(usize::to_string).collect()
        };
        let messages: Vec<_> = (self.messages.iter().enumerate())
            .map(|(i, m)| {
                json!({"id": i.to_string(), "from": format!("g{}", m.from), "to": format!("g{}", m.to),
                       "bytes": m.bytes, "at": self.there(m), "after": after(m)})
            })
            .collect();
        let jobs = json!({"jobs": [{"name": "all", "messages": messages}]}).to_string();
        let graph = Graph::parse(&star.to_string(), "star.json").unwrap();
        let jobs = traffic::parse(&jobs, "jobs.json").unwrap();
        Some(traffic::simulate(&graph, &jobs).unwrap().makespan.0)
    }
}

/// SimGrid's part, compiled; none where it is not installed.
fn peer(folder: &Path) -> Option<PathBuf> {
    let compiles = |arguments: &[&str]| {
        let mut command = Command::new("c++");
        command.args(arguments).current_dir(folder);
        command.output()
    };
    std::fs::write(folder.join("none.cpp"), "#include <simgrid/s4u.hpp>\n").unwrap();
    if !compiles(&["-std=c++17", "-E", "none.cpp", "-o", "none"]).is_ok_and(|o| o.status.success())
    {
        eprintln!("not run: SimGrid is not installed (apt-get install g++ libsimgrid-dev)");
        return None;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/simgrid.cpp");
    let compiled = compiles(&["-std=c++17", "-O1", source, "-o", "simgrid", "-lsimgrid"]).unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(folder.join("simgrid"))
}

fn asked(peer: &Path, question: &str) -> Vec<(f64, f64)> {
    let mut command = Command::new(peer);
    command.arg("--log=root.thres:error").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(question.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{question}");
    let text = String::from_utf8(output.stdout).unwrap();
    let times = text.lines().map(|line| {
        let (sent, added) = line.split_once(' ').unwrap();
        (sent.parse().unwrap(), added.parse().unwrap())
    });
    times.collect()
}

#[test]
fn both_simulators_say_what_simgrid_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(peer) = peer(folder.path()) else { return };
    let (mut messages, mut adding, mut serial, mut over_links, mut furthest) = (0, 0, 0, 0, 0.0);
    let part = one_in(4);
    for number in (0..CASES as u64).step_by(part) {
        let case = case(number);
        let truth = asked(&peer, &case.for_simgrid());
        assert_eq!(truth.len(), case.messages.len(), "{}", case.name);
        let last = truth.iter().fold(0.0, |last: f64, (sent, added)| last.max(*sent).max(*added));
        let mut near = |a: f64, b: f64| {
            furthest = f64::max(furthest, (a - b).abs() / last);
            (a - b).abs() <= TOLERANCE * last
        };
        for (i, (found, wanted)) in case.by_ports().iter().zip(&truth).enumerate() {
            let is_near = near(found.0, wanted.0) && near(found.1, wanted.1);
            let what = &case.messages[i];
            assert!(is_near, "{}: {found:?}, not {wanted:?} of {last}: {what:?}", case.name);
        }
        if let Some(found) = case.by_links() {
            assert!(near(found, last), "{}: over links {found}, not {last}", case.name);
            over_links += 1;
        }
        messages += truth.len();
        adding += usize::from(case.gamma > 0.0);
        serial += usize::from(case.shared.is_none());
    }
    println!(
        "{} cases, {messages} messages, {adding} with additions, {serial} of serial ports, \
         {over_links} over links too; furthest apart {furthest:.1e} of the makespan",
        CASES / part
    );
    let all = [(adding, 20), (serial, 20), (over_links, 40), (messages, 10_000)];
    assert!(all.iter().all(|(seen, least)| *seen > least / part), "{all:?}");
}
