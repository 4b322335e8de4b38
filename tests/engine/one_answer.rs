//! The same question asked of every verb: one expected time and one choice, bit for bit.

use crate::full::one_in;
use std::num::NonZeroU32;

use collcost::Collective;
use collcost::answer;
use collcost::answer::batch::Batch;
use collcost::answer::explain::Subject;
use collcost::base::quantity::{Bytes, Seconds};
use collcost::library::{Call, policy};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::machine::sample::DataType;
use collcost::measure::expect::{Expecting, Rules, site};
use collcost::measure::verdict::{Facts, judge};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Params;
use collcost::plan;
use collcost::plan::bucket::{Gradients, Rule};
use collcost::plan::check::{Files, Options};
use collcost::plan::table::Machines;

/// A small generator with a fixed start: the questions are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Files of one text, and built-in machines.
struct One(String);

impl Files for One {
    fn profile(&self, name: &str) -> collcost::Result<Profile> {
        Profile::builtin(name)
    }

    fn text(&self, _: &str) -> collcost::Result<String> {
        Ok(self.0.clone())
    }

    fn matching(&self, _: &str) -> collcost::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

struct Question {
    machine: &'static str,
    collective: Collective,
    ranks: u32,
    per_node: Option<u32>,
    size: u64,
}

impl Question {
    fn drawn(dice: &mut Dice, machines: &[&'static str]) -> Self {
        const COLLECTIVES: [Collective; 5] = [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::ReduceScatter,
            Collective::AllToAll,
            Collective::Broadcast,
        ];
        let per_node = (dice.below(2) == 0).then(|| 1 << dice.below(4));
        let ranks = match per_node {
            Some(each) => each << dice.below(6),
            None => 2 << dice.below(3),
        };
        let unit = 16 * u64::from(ranks.max(2));
        let size = (1_u64 << (8 + dice.below(23))).div_ceil(unit) * unit;
        Self {
            machine: dice.one(machines),
            collective: dice.one(&COLLECTIVES),
            ranks: ranks.max(2),
            per_node,
            size,
        }
    }

    fn query(&self) -> collcost::Result<Query> {
        let named = Some((Profile::builtin(self.machine)?, "--on"));
        let machine = Machine::new(named, &Given::default(), self.collective)?;
        let layout = Layout {
            ranks: NonZeroU32::new(self.ranks),
            per_node: self.per_node.and_then(NonZeroU32::new),
            ..Layout::default()
        };
        Query::new(machine, self.collective, Bytes(self.size), layout, Params::default())
    }

    fn per_node(&self) -> String {
        self.per_node.map_or(String::new(), |g| format!("gpus_per_node = {g}\n"))
    }
}

/// Also where α inside the nodes is unknown, which what always crosses the network does not need.
#[test]
fn what_has_a_price_is_explained_with_it() {
    let registry = Registry::builtin();
    let (mut priced, mut refused) = (0, 0);
    for (machine, known) in [("mi325x", false), ("mi355x", false), ("mi300x", true)] {
        for collective in [Collective::AllReduce, Collective::Broadcast, Collective::AllToAll] {
            let q = Question { machine, collective, ranks: 16, per_node: None, size: 1 << 20 };
            let mut query = q.query().unwrap();
            let alpha = &mut query.machine.fabric.tiers[0].link.alpha;
            *alpha = alpha.filter(|_| known);
            for row in answer::cost(&registry, &query, None, false).unwrap().algorithms {
                let place = format!("{machine} {collective} {}", row.id);
                let found = answer::explain::algorithm(&registry, &query, row.id);
                let Some(time) = row.time_s else {
                    assert!(found.is_err(), "{place}");
                    refused += 1;
                    continue;
                };
                let Subject::Algorithm(view) = found.expect(&place).subject else {
                    panic!("{place}")
                };
                assert!((view.time_s / time - 1.0).abs() < 1e-9, "{place}");
                assert_eq!(view.bound.time_s.is_some(), known, "{place}");
                priced += 1;
            }
        }
    }
    assert!(priced > 60 && refused > 60, "{priced} {refused}");
}

#[test]
fn every_verb_gives_one_answer() {
    let registry = Registry::builtin();
    let machines: Vec<&str> = Profile::names().collect();
    let mut dice = Dice(20);
    let mut batch = Batch::default();
    let (mut asked, mut drawn, mut selected) = (0, 0, 0);
    let questions = 1000 / one_in(16);
    while asked < questions {
        drawn += 1;
        assert!(drawn < 20_000, "only {asked} questions have an answer");
        let q = Question::drawn(&mut dice, &machines);
        let Ok(query) = q.query() else { continue };
        let Ok(expecting) = Expecting::new(&registry, &query) else { continue };
        let size = Bytes(q.size);
        let (expected, runs) = (expecting.at(size), expecting.runs(size).name());
        let place =
            format!("{} {} -n {} {:?} {}", q.machine, q.collective, q.ranks, q.per_node, q.size);
        let same = |verb: &str, time: f64, ran: &str| {
            assert_eq!(time.to_bits(), expected.time.0.to_bits(), "{verb}: {place}");
            assert_eq!(ran, runs, "{verb}: {place}");
        };
        let Ok(screen) = answer::cost(&registry, &query, None, false) else { continue };
        asked += 1;
        same("the main screen", screen.expect.time_s, &screen.expect.runs.name());

        let swept = &answer::sizes(&registry, &query, &[size], None).unwrap().points[0];
        same("a sweep", swept.expect.time_s, &swept.expect.runs.name());

        let budget = format!(
            "[[budget]]\nname = \"q\"\ncollective = \"{}\"\nn = {}\nsize = \"{}\"\nprofile = \"{}\"\n{}max_time = \"{:e}s\"\n",
            q.collective.id(),
            q.ranks,
            q.size,
            q.machine,
            q.per_node(),
            expected.time.0
        );
        let checked = collcost::plan::check::check(&One(budget), "b.toml", &Options::default());
        assert_eq!(checked.faults, [], "{place}");
        let outcome = &checked.outcomes[0];
        let (told, ran) = outcome.expected.as_ref().unwrap();
        same("check", told.time.0, &ran.name());

        let step = format!(
            "[step.q]\nparams = \"1M\"\nlayers = 1\nhidden = 64\ndp = {}\nprofile = \"{}\"\n{}[[step.q.call]]\nname = \"own\"\ncollective = \"{}\"\nsize = \"{}\"\ngroup = {}\n",
            q.ranks,
            q.machine,
            q.per_node(),
            q.collective.id(),
            q.size,
            q.ranks
        );
        let files = One(step);
        let asked_of = plan::Asked::File { name: "p.toml", step: None };
        let loaded = plan::load(&Machines::new(&files), &asked_of, &[]).unwrap();
        let priced = plan::price(&registry, &loaded[0], &plan::Tweak::default()).unwrap();
        let call = priced.calls.iter().find(|c| c.call.name == "own").unwrap();
        same("plan", call.time.0, &call.algorithm);

        let times = [(size, Seconds(expected.time.0))];
        let verdict = judge(&registry, &query, None, false, &times, &Facts::default()).unwrap();
        same("compare", verdict.points[0].expected.time.0, &runs);

        if screen.expect.runs.rules == Rules::Own {
            let library = screen.expect.runs.library.unwrap();
            let rules = policy(library, &site(&query)).unwrap();
            let nodes = query.placement.nodes();
            let call = Call { nodes, ..Call::new(q.collective, q.ranks, size) };
            let policies = (&*rules, None);
            let select =
                answer::select::select(&registry, &query, &call, policies, (size, size)).unwrap();
            let choice = &select.intervals[0].choice;
            same("select", choice.expect.as_ref().unwrap().time_s, &choice.name);
            selected += 1;
        }

        let gpus = q.per_node.map_or(String::new(), |g| format!(",\"gpus_per_node\":{g}"));
        let line = format!(
            "{{\"id\":1,\"kind\":\"expect\",\"collective\":\"{}\",\"n\":{}{gpus},\"size_bytes\":{},\"profile\":\"{}\"}}",
            q.collective.id(),
            q.ranks,
            q.size,
            q.machine
        );
        let mut out = Vec::new();
        batch.answer(&line, &mut out);
        let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let runs_of = |v: &serde_json::Value| {
            let text = |key: &str| v[key].as_str().map(str::to_owned);
            match text("protocol") {
                Some(protocol) => format!("{}/{protocol}", text("algorithm").unwrap()),
                None => text("algorithm").unwrap(),
            }
        };
        let told = &answer["expect"];
        // The reader of JSON may be off by the last bit: the digits themselves are read.
        let text = std::str::from_utf8(&out).unwrap();
        let digits = text.split("\"time_s\":").nth(1).unwrap().split(',').next().unwrap();
        same("batch", digits.parse().unwrap(), &runs_of(&told["runs"]));

        if q.collective == Collective::AllReduce {
            let gradients = Gradients::alike(1, size, DataType::F32);
            let rule = Rule::named("greedy").unwrap();
            let cap = collcost::plan::bucket::Limit::Bytes(Bytes(1 << 40));
            let rule = rule.with_cap(cap, None);
            let priced = Some((&query, &expecting));
            let buckets = answer::bucket::bucket(&gradients, &rule, priced, None).unwrap();
            let view = &buckets.buckets[0];
            same("bucket", view.time_s.unwrap(), view.algorithm.as_ref().unwrap());
        }
    }
    assert!(5 * selected > questions, "rules are known for {selected} of the questions alone");
}

/// What the explorer holds of built-in machines is what the command says of the same call.
#[test]
fn the_explorer_holds_the_same_answer() {
    let registry = Registry::builtin();
    let mut dice = Dice(21);
    let mut held = 0;
    for machine in answer::explorer::explorer(&registry).unwrap().machines {
        for (collective, by_ranks) in &machine.expected {
            for (&ranks, times) in by_ranks {
                let name = Profile::names().find(|name| *name == machine.name).unwrap();
                let collective: Collective = collective.parse().unwrap();
                let place = dice.below(times.len() as u64) as usize;
                let size = 1 << (4 + 2 * place);
                let q = Question { machine: name, collective, ranks, per_node: None, size };
                let screen = answer::cost(&registry, &q.query().unwrap(), None, false).unwrap();
                let (page, told) = (times[place][0], screen.expect.time_s);
                assert_eq!(page.to_bits(), told.to_bits(), "{name} {collective} {ranks} {size}");
                held += 1;
            }
        }
    }
    assert!(held > 100, "the page holds {held} of them alone");
}

fn asked(line: &str) -> serde_json::Value {
    let mut out = Vec::new();
    Batch::default().answer(line, &mut out);
    serde_json::from_slice(&out).unwrap()
}

/// What the command refuses to judge or to price, the library and `batch` refuse in the same words.
#[test]
fn every_door_refuses_the_same() {
    use collcost::{Question, compare, expect};
    let on = |collective, size, ranks| {
        Question::new(collective, Bytes(size)).on("dgx-h100").unwrap().ranks(ranks)
    };
    let times = |size| [(Bytes(size), Seconds(5e-3))];
    let (all, barrier) = (Collective::AllReduce, Collective::Barrier);
    let [alone, empty, full] = ["one rank has no peer", "0 bytes has no rate", "moves no data"];
    let at_once = "a call of 0 bytes returns at once";
    let says = |found: collcost::Result<f64>, words: &str| {
        let said = found.map_err(|e| e.to_string()).unwrap_err();
        assert!(said.contains(words), "{said}");
    };
    let judged = |question: &Question, size| {
        compare(question, &times(size)).map(|verdict| verdict.points[0].measured.0)
    };
    says(judged(&on(all, 0, 1), 1 << 30), alone);
    says(judged(&on(all, 0, 8), 0), empty);
    says(judged(&on(barrier, 0, 8), 1 << 20), full);
    says(expect(&on(barrier, 1 << 20, 8)).map(|e| e.time_s), full);
    assert!(judged(&on(barrier, 0, 8), 0).is_ok() && expect(&on(barrier, 0, 8)).is_ok());

    for (question, words) in [
        (r#""kind":"compare","collective":"allreduce","points":[["1GiB","5ms"]],"n":1"#, alone),
        (
            r#""kind":"compare","collective":"allreduce","points":[["0","1ms"],["1GiB","5ms"]],"n":8"#,
            empty,
        ),
        (
            r#""kind":"choose","engine":"vllm","collective":"allgather","size_bytes":0,"n":8"#,
            at_once,
        ),
        (
            r#""kind":"choose","library":"nccl","collective":"allgather","size_bytes":0,"n":8"#,
            at_once,
        ),
        (r#""kind":"compare","collective":"barrier","points":[["1MiB","5ms"]],"n":8"#, full),
        (r#""kind":"compare","collective":"barrier","points":[["0","200GB/s"]],"n":8"#, full),
        (r#""kind":"expect","collective":"barrier","size_bytes":"1MiB","n":16"#, full),
        (r#""kind":"choose","library":"nccl","collective":"barrier","size_bytes":8,"n":16"#, full),
        (
            r#""kind":"choose","engine":"vllm","collective":"allgather","size_bytes":0,"n":8"#,
            "nothing is chosen: a call of 0 bytes",
        ),
    ] {
        let answer = asked(&format!("{{{question}}}"));
        let said = answer["error"].as_str().unwrap_or("answered");
        assert!(said.contains(words), "{question}: {said}");
    }
    let barrier = asked(r#"{"kind":"expect","collective":"barrier","size_bytes":0,"n":16}"#);
    assert!(barrier["expect"]["time_s"].as_f64().unwrap() > 0.0, "{barrier}");
}

/// What the command says besides its numbers, `batch` says too.
#[test]
fn batch_keeps_notes_variables_and_promises() {
    let engine = |variable: &str| {
        asked(&format!(
            r#"{{"kind":"choose","engine":"vllm","size_bytes":"1MiB","n":8,"env":{{"{variable}":"0"}}}}"#
        ))
    };
    let misspelled = engine("VLLM_ALLREDUCE_USE_SYM_MEM");
    assert!(misspelled["notes"].to_string().contains("is not a variable"), "{misspelled}");
    assert!(!engine("VLLM_ALLREDUCE_USE_SYMM_MEM")["notes"].to_string().contains("is not a"));

    let library = |name: &str| {
        asked(&format!(
            r#"{{"kind":"choose","library":"{name}","size_bytes":"1MiB","n":8,"profile":"dgx-h100","env":{{"NCCL_ALGO":"Tree"}}}}"#
        ))
    };
    let name = library("nccl")["choose"]["intervals"][0]["choice"]["name"].to_string();
    assert!(name.contains("Tree"), "{name}");
    assert!(library("openmpi")["error"].to_string().contains("do not read it"));

    let promised = |algorithm: &str, n: u32| {
        let answer = asked(&format!(
            r#"{{"kind":"cost","primitive":"broadcast","algorithm":"{algorithm}","n":{n},"size_bytes":1000003,"alpha_s":1e-6,"bandwidth_Bps":1e9}}"#
        ));
        answer["guarantee"].as_str().map(str::to_owned)
    };
    assert_eq!(promised("two-tree", 2).as_deref(), Some("upper-bound"));
    assert_eq!(promised("binomial", 8).as_deref(), Some("equal"));
}
