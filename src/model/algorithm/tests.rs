//! What every registered algorithm has to fulfil. Nothing here names one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{Algorithm, FAMILIES, Library, Registry, Route, Step};
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Ratio, Seconds, Volume};
use crate::cost::bound::bound;
use crate::machine::fabric::{Fabric, Switch};
use crate::model::formula::{
    At, Cost, Dims, Form, Level, Params, Phase, Ports, Rational, Relay, Shape, Tie,
};

#[path = "../../../tests/support/shapes.rs"]
mod shapes;

use shapes::{PORTS, ranks, shapes};

/// What is wrong, by algorithm: one list instead of the first panic.
#[derive(Default)]
struct Faults(BTreeMap<String, Vec<String>>);

impl Faults {
    fn add(&mut self, algorithm: &dyn Algorithm, shape: &Shape, what: String) {
        let name = format!("{} {}", algorithm.meta().id, shape.collective);
        self.0.entry(name).or_default().push(format!("{what} for {shape:?}"));
    }

    fn none(self) {
        let list = |(name, all): (&String, &Vec<String>)| {
            let some = all[..all.len().min(3)].join("\n  ");
            format!("{name}: {} faults, such as\n  {some}", all.len())
        };
        let lists: Vec<_> = self.0.iter().map(list).collect();
        assert!(lists.is_empty(), "\n{}", lists.join("\n"));
    }
}

/// Every algorithm with each of its collectives.
fn each() -> impl Iterator<Item = (&'static dyn Algorithm, Collective)> {
    let all = FAMILIES.iter().flat_map(|family| family.iter());
    all.flat_map(|&a| a.meta().collectives.iter().map(move |&c| (a, c)))
}

/// Runs `check` on every shape of every algorithm.
fn on_every_shape(mut check: impl FnMut(&'static dyn Algorithm, Shape)) {
    for (algorithm, collective) in each() {
        for n in ranks() {
            for shape in shapes(algorithm, collective, n) {
                check(algorithm, shape);
            }
        }
    }
}

fn zero() -> Rational {
    Rational::from_integer(0)
}

/// n_α, n_β, n_γ, n_sw.
type Four = [Rational; 4];

fn four(phase: &Phase<Rational>) -> Four {
    [phase.alpha, phase.beta, phase.gamma, phase.switch]
}

fn proof(algorithm: &dyn Algorithm, shape: Shape) -> Four {
    four(&algorithm.prove(&At::numbers(shape)).total())
}

fn plus(sum: Four, more: Four) -> Four {
    std::array::from_fn(|i| sum[i] + more[i])
}

/// The coefficients of the phases over `level`.
fn phases_over(cost: &Cost<Rational>, level: Level) -> Four {
    cost.phases().filter(|p| p.level == level).map(four).fold([zero(); 4], plus)
}

/// What the steps over `level` sum to.
fn steps_over(steps: &[Step], level: Level) -> Four {
    let mut sum = [zero(); 4];
    for step in steps.iter().filter(|s| s.level == level) {
        let count = Rational::from_integer(step.count.into());
        sum[if step.route == Route::Switch { 3 } else { 0 }] += count;
        sum[1] += count * step.share.exact();
        sum[2] += count * step.reduced.exact();
    }
    sum
}

#[test]
fn every_algorithm_is_tried() {
    for (algorithm, collective) in each() {
        let tried: usize = ranks().map(|n| shapes(algorithm, collective, n).len()).sum();
        let id = algorithm.meta().id;
        assert!(tried >= PORTS.len(), "{id} {collective} applies to {tried} shapes of the tests");
    }
}

#[test]
fn steps_sum_to_the_closed_form() {
    let mut faults = Faults::default();
    on_every_shape(|algorithm, shape| {
        let cost = algorithm.prove(&At::numbers(shape));
        let mut steps = Vec::new();
        algorithm.steps(&shape, &mut |step| steps.push(step));
        for level in [Level::Flat, Level::Inner, Level::Outer] {
            let (form, sum) = (phases_over(&cost, level), steps_over(&steps, level));
            if form != sum {
                let show = |f: Four| f.map(|c| c.to_string()).join(", ");
                let what = format!("{level:?} form {} but steps {}", show(form), show(sum));
                faults.add(algorithm, &shape, what);
            }
        }
    });
    faults.none();
}

#[test]
fn pipelines_are_two_lines_from_two_segments_on() {
    let mut faults = Faults::default();
    let whole = |p: u32| Rational::from_integer(p.into());
    // What the lines from P = 2 and 3 say of another P: a + b·P for messages, c + d/P for bytes.
    let line = |two: &Four, three: &Four, p: u32| {
        let grown = whole(p) - whole(2);
        let split = (whole(2).recip() - whole(p).recip()) * whole(6);
        [(0, grown), (1, split), (2, split), (3, grown)]
            .map(|(i, steps)| two[i] + (three[i] - two[i]) * steps)
    };
    let pipelined = each().filter(|(a, _)| a.is_pipelined());
    for (algorithm, collective) in pipelined {
        for shape in ranks().flat_map(|n| shapes(algorithm, collective, n)) {
            if shape.segments() != 2 {
                continue;
            }
            let at = |p: u32| proof(algorithm, shape.with_segments(p));
            let (two, three) = (at(2), at(3));
            for p in [5, 9] {
                let (expected, seen) = (line(&two, &three, p), at(p));
                if seen != expected {
                    let what = format!("{seen:?} at P = {p} instead of {expected:?}");
                    faults.add(algorithm, &shape, what);
                }
            }
        }
    }
    faults.none();
}

#[test]
fn prices_equal_their_proofs() {
    let mut faults = Faults::default();
    let number = |r: Rational| *r.numer() as f64 / *r.denom() as f64;
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
    on_every_shape(|algorithm, shape| {
        let price = algorithm.price(&At::numbers(shape)).total();
        let proof = proof(algorithm, shape).map(number);
        let price = [price.alpha, price.beta, price.gamma, price.switch];
        if !price.iter().zip(proof).all(|(&a, b)| near(a, b)) {
            faults.add(algorithm, &shape, format!("price {price:?}, proof {proof:?}"));
        }
        let (sent, exactly) =
            (algorithm.sent(&At::numbers(shape)), algorithm.sent_exactly(&At::numbers(shape)));
        if !near(sent, number(exactly)) {
            faults.add(algorithm, &shape, format!("sent {sent}, exactly {exactly}"));
        }
    });
    faults.none();
}

#[test]
fn costs_are_not_negative_and_something_is_sent() {
    let mut faults = Faults::default();
    on_every_shape(|algorithm, shape| {
        let cost = algorithm.prove(&At::numbers(shape));
        if cost.phases().any(|p| four(p).into_iter().any(|c| c < zero())) {
            faults.add(algorithm, &shape, "a negative coefficient".to_owned());
        }
        let [alpha, beta, gamma, switch] = four(&cost.total());
        if alpha + switch <= zero() {
            faults.add(algorithm, &shape, "no message".to_owned());
        }
        let sent = algorithm.sent_exactly(&At::numbers(shape));
        let data = shape.collective != Collective::Barrier;
        if (sent > zero(), beta > zero()) != (data, data) {
            faults.add(algorithm, &shape, format!("sent {sent}, n_β {beta}"));
        }
        // A switch may add instead of the ranks.
        let adds = gamma > zero();
        if adds != shape.collective.reduces() && (adds || switch == zero()) {
            faults.add(algorithm, &shape, format!("n_γ {gamma}"));
        }
    });
    faults.none();
}

#[test]
fn one_rank_costs_nothing() {
    for (algorithm, collective) in each() {
        for ports in PORTS {
            let shape = Shape::new(collective, 1).with_ports(ports);
            let id = algorithm.meta().id;
            assert!(algorithm.applies(&shape).is_ok(), "{id}");
            assert_eq!(proof(algorithm, shape), [zero(); 4], "{id}");
            assert_eq!(algorithm.price(&At::numbers(shape)), Cost::zero(), "{id}");
            assert_eq!(algorithm.sent_exactly(&At::numbers(shape)), zero(), "{id}");
            algorithm.steps(&shape, &mut |step| panic!("{id}: {step:?}"));
        }
    }
}

/// The least n_α and n_β possible: the bound on links of α = 1 and BW = 1.
fn least(shape: &Shape, in_network: bool) -> (f64, f64) {
    let mut fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
    fabric.tiers[0].ports = shape.ports;
    fabric.tiers[0].switch = in_network.then_some(Switch {
        alpha: Some(Seconds(1.0)),
        bandwidth: None,
        multicast: true,
        alu: true,
    });
    let bound = bound(shape, Volume(1.0), &fabric).unwrap();
    (bound.latency.0, bound.bandwidth.0)
}

#[test]
fn nothing_beats_the_bound() {
    let mut faults = Faults::default();
    on_every_shape(|algorithm, shape| {
        // A measured constant means that the schedule is a different one.
        if shape.params.c_real.is_some() {
            return;
        }
        let cost = algorithm.price(&At::numbers(shape)).total();
        let (messages, share) = least(&shape, cost.switch > 0.0);
        let latency = cost.alpha + cost.switch;
        if latency < messages {
            faults.add(algorithm, &shape, format!("n_α {latency} below {messages}"));
        }
        if cost.beta < share * (1.0 - 1e-12) {
            faults.add(algorithm, &shape, format!("n_β {} below {share}", cost.beta));
        }
    });
    faults.none();
}

#[test]
fn a_name_means_one_algorithm() {
    let registry = Registry::builtin();
    let legal = |name: &str, separators: &[char]| {
        let part = |p: &str| {
            !p.is_empty() && p.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        name.split(separators).all(part)
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    for &collective in Collective::ALL {
        let mut owners = BTreeMap::new();
        for meta in registry.of(collective).map(Algorithm::meta) {
            assert!(legal(meta.id, &['-']), "`{}` is not kebab-case", meta.id);
            for name in std::iter::once(&meta.id).chain(meta.aliases) {
                assert!(legal(name, &['-', '_']), "`{name}` of {}", meta.id);
                let other = owners.insert(*name, meta.id);
                assert_eq!(other, None, "`{name}` also names {} {collective}", meta.id);
                assert!(registry.find(collective, name).is_ok(), "{name}");
            }
            let titled = registry.find(collective, &meta.title.to_uppercase());
            assert_eq!(titled.map(|named| named.algorithm.meta().id), Ok(meta.id));
        }
    }
}

#[test]
fn every_algorithm_says_what_it_is() {
    let mut faults = Vec::new();
    for meta in Registry::builtin().iter().map(Algorithm::meta) {
        let mut check = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("{}: {what}", meta.id));
            }
        };
        let width = meta.title.chars().count();
        check((1..=34).contains(&width), &format!("`{}` is {width} letters wide", meta.title));
        check(meta.summary.split_whitespace().count() >= 4, "its summary is no sentence");
        check(meta.source.len() > 10, "it has no source");
        let unique: BTreeSet<_> = meta.collectives.iter().collect();
        check(!unique.is_empty() && unique.len() == meta.collectives.len(), "its collectives");
        for (library, collectives, name) in meta.known_as {
            let own = !collectives.is_empty() && collectives.iter().all(|c| unique.contains(c));
            check(own && !name.is_empty(), &format!("its name in {library}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The files beside this one that hold a family, with their text.
fn families() -> BTreeMap<String, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/algorithm");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&here).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // The parts of a family are in the folder of its name.
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path).unwrap();
        if text.contains("\npub static FAMILY:") {
            found.insert(name, text);
        }
    }
    found
}

/// The names before `::FAMILY` in the list of families, in its order.
fn listed() -> Vec<&'static str> {
    let text = include_str!("mod.rs");
    let (_, list) = text.split_once("pub static FAMILIES").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let before = list.split("::FAMILY").map(|part| {
        let start = part.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1);
        &part[start..]
    });
    before.filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_file_is_registered_once() {
    let text = include_str!("mod.rs");
    let listed = listed();
    assert_eq!(listed.len(), FAMILIES.len());
    assert!(FAMILIES.iter().all(|family| !family.is_empty()));
    let mut faults = Vec::new();
    for name in families().keys() {
        if !text.lines().any(|line| line.ends_with(&format!("mod {name};"))) {
            faults.push(format!("src/model/algorithm/{name}.rs has no `mod` line"));
        }
        let times = listed.iter().filter(|n| *n == name).count();
        if times != 1 {
            faults.push(format!("{name}::FAMILY is listed {times} times in FAMILIES"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_draws_its_algorithm_and_names_its_source() {
    let texts = families();
    let mut faults = Vec::new();
    for (name, family) in listed().iter().zip(FAMILIES) {
        let docs = texts[*name].lines().filter_map(|line| line.strip_prefix("//!"));
        let docs = docs.collect::<Vec<_>>().join("\n");
        if !docs.contains("```text") {
            faults.push(format!("the module doc of {name}.rs has no drawing"));
        }
        let telling = |word: &&str| word.len() > 3 && word.starts_with(char::is_uppercase);
        let sources = family.iter().map(|a| a.meta().source);
        let mut words = sources.flat_map(|s| s.split(|c: char| !c.is_alphanumeric()));
        if !words.any(|word| telling(&word) && docs.contains(word)) {
            faults.push(format!("the module doc of {name}.rs names none of its sources"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// RCCL's names are NCCL's where both have an algorithm; PAT and what switches add are NCCL's alone.
#[test]
fn rccl_follows_nccl_without_pat_and_switches() {
    let names = |library: Library| {
        let registry = Registry::builtin();
        let all = registry.iter().flat_map(|a| a.meta().known_as.iter()).copied();
        let own = all.filter(move |(of, _, _)| *of == library);
        own.flat_map(|(_, of, name)| of.iter().map(move |c| (c.id(), name))).collect()
    };
    let [nccl, rccl]: [BTreeSet<_>; 2] = [Library::Nccl, Library::Rccl].map(names);
    let only_nccl: BTreeSet<_> = nccl.difference(&rccl).map(|(_, name)| *name).collect();
    let only_rccl: BTreeSet<_> = rccl.difference(&nccl).copied().collect();
    let switches = ["CollNetChain", "CollNetDirect", "NVLS", "NVLSTree"];
    assert_eq!(only_nccl, switches.into_iter().chain(["PAT"]).collect());
    assert_eq!(only_rccl, [("allreduce", "DDA or MSCCL")].into());
}
