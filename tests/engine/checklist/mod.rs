//! The checklist: what the documents behind this project say that software could do, row by row.
//!
//! Each row is a test named after it, `row_000_10` for row 000-10. The first part of a row's number
//! is its document: 000 the chapter on rings and trees, 001 Gloo's index of algorithms, 002 the
//! chapter that prices collectives, 003 the topology-free introduction, 004 the interactive lesson,
//! C the companion notes of 003, X what goes beyond them. `docs/dev/coverage.md` lists all rows with
//! their tests, and the tests below hold it to that.

mod beyond;
mod companion;
mod gloo;
mod introduction;
mod lesson;
mod pricing;
mod ring_and_tree;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use collcost::Collective;
use collcost::answer::batch::Batch;
use collcost::base::quantity::{Bandwidth, Seconds, Volume};
use collcost::cost::crossover::crossover;
use collcost::cost::price::{Prepared, Price};
use collcost::machine::fabric::{Fabric, Switch, Tier};
use collcost::model::algorithm::{Algorithm, Named, Registry};
use collcost::model::formula::{At, Params, Phase, Ports, Shape};

/// One algorithm for one shape, under the names of the checklist.
#[derive(Clone, Copy)]
struct Ask {
    named: Named,
    shape: Shape,
}

/// `ask("allreduce", "ring", 64)`: on one full-duplex port.
fn ask(collective: &str, name: &str, ranks: u32) -> Ask {
    let collective: Collective = collective.parse().unwrap();
    let named = Registry::builtin().find(collective, name).unwrap_or_else(|e| panic!("{e}"));
    Ask { named, shape: Shape::new(collective, ranks) }
}

impl Ask {
    /// Under k full-duplex ports; 0 is unbounded.
    fn ports(mut self, k: u32) -> Self {
        self.shape.ports = Ports::full(k);
        self
    }

    /// Under one half-duplex port.
    fn half_duplex(mut self) -> Self {
        self.shape.ports = Ports::Half(NonZeroU32::MIN);
        self
    }

    /// With P segments; otherwise [`Self::time`] takes the best and [`Self::phase`] takes 1.
    fn segments(mut self, p: u32) -> Self {
        self.shape = self.shape.with_segments(p);
        self
    }

    /// In domains of G ranks.
    fn group(mut self, g: u32) -> Self {
        self.shape.group = NonZeroU32::new(g);
        self
    }

    /// With other parameters.
    fn with(mut self, set: impl FnOnce(&mut Params)) -> Self {
        set(&mut self.shape.params);
        self
    }

    fn algorithm(&self) -> &'static dyn Algorithm {
        self.named.algorithm
    }

    /// The reason why it does not apply.
    fn refusal(&self) -> Option<String> {
        self.algorithm().applies(&self.shape).err().map(|why| why.to_string())
    }

    /// The coefficients on equal links.
    fn phase(&self) -> Phase<f64> {
        assert_eq!(self.refusal(), None);
        let cost = self.algorithm().price_form(&At::numbers(self.shape), self.named.form);
        cost.unwrap_or_else(|| panic!("no such form of {}", self.algorithm().meta().id)).total()
    }

    /// n_α with switch hops, and n_β.
    fn coefficients(&self) -> (f64, f64) {
        let phase = self.phase();
        (phase.alpha + phase.switch, phase.beta)
    }

    /// The share of M that the busiest rank sends.
    fn sent(&self) -> f64 {
        self.algorithm().sent(&At::numbers(self.shape))
    }

    /// With the machine put in.
    fn on(&self, fabric: &Fabric) -> Prepared {
        let stated = Prepared::stated(self.algorithm(), self.named.form, &self.shape, fabric);
        stated.unwrap_or_else(|e| panic!("{e}"))
    }

    /// What `size` bytes cost on `fabric`.
    fn price(&self, fabric: &Fabric, size: f64) -> Price {
        self.on(fabric).price(Volume(size))
    }

    /// Seconds for `size` bytes on equal links.
    fn time(&self, size: f64, alpha: f64, bandwidth: f64) -> f64 {
        self.price(&flat(alpha, bandwidth), size).total().0
    }
}

/// Equal links.
fn flat(alpha: f64, bandwidth: f64) -> Fabric {
    Fabric::flat(Seconds(alpha), Bandwidth(bandwidth))
}

/// Equal links around a switch that adds and multicasts.
fn switched(alpha: f64, bandwidth: f64, hop: f64) -> Fabric {
    let mut fabric = flat(alpha, bandwidth);
    let switch = Switch { alpha: Some(Seconds(hop)), bandwidth: None, multicast: true, alu: true };
    fabric.tiers[0].switch = Some(switch);
    fabric
}

/// Domains of `span` ranks with α and BW inside, and α and BW between; each rank has its own NIC.
fn two_tiers(span: u32, inside: (f64, f64), between: (f64, f64)) -> Fabric {
    let tier = |name: &str, (alpha, rate)| Tier::new(name, Seconds(alpha), Bandwidth(rate));
    let mut inner = tier("inside", inside);
    inner.span = NonZeroU32::new(span);
    Fabric::new(vec![inner, tier("between", between)])
}

/// The size from which `b` is cheaper than `a` on equal links.
fn flip(a: Ask, b: Ask, alpha: f64, bandwidth: f64) -> Option<f64> {
    let fabric = flat(alpha, bandwidth);
    crossover(&a.on(&fabric), &b.on(&fabric)).map(|size| size.0)
}

/// The answer of `collcost batch` to one question.
fn batch(question: serde_json::Value) -> serde_json::Value {
    let mut line = Vec::new();
    Batch::default().answer(&question.to_string(), &mut line);
    serde_json::from_slice(&line).unwrap()
}

/// The number called `field` in an answer.
fn number(answer: &serde_json::Value, field: &str) -> f64 {
    answer[field].as_f64().unwrap_or_else(|| panic!("no number `{field}` in {answer}"))
}

/// Equal to nine digits.
#[track_caller]
fn same(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-300), "{got:e} is not {want:e}");
}

/// Both equal to nine digits.
#[track_caller]
fn both(got: (f64, f64), want: (f64, f64)) {
    same(got.0, want.0);
    same(got.1, want.1);
}

/// Reads as the document prints it, to the last decimal.
#[track_caller]
fn prints(got: f64, text: &str) {
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    assert_eq!(format!("{got:.decimals$}"), text);
}

/// The first and last number of each document's rows.
const ROWS: [(&str, u32); 7] =
    [("000", 64), ("001", 16), ("002", 40), ("003", 113), ("004", 26), ("C", 22), ("X", 16)];

fn ids() -> BTreeSet<String> {
    let rows = ROWS.iter().flat_map(|&(document, last)| (1..=last).map(move |k| (document, k)));
    rows.map(|(document, k)| format!("{document}-{k:02}")).collect()
}

/// The rows of the table: id, what, covered by.
fn listed() -> Vec<[&'static str; 3]> {
    let cells = |line: &'static str| {
        let mut cells = line.trim().trim_matches('|').splitn(3, '|').map(str::trim);
        [(); 3].map(|()| cells.next().unwrap_or(""))
    };
    let text = include_str!("../../../docs/dev/coverage.md");
    let rows = text.lines().filter(|l| l.starts_with("| ")).map(cells);
    rows.filter(|[id, ..]| id.contains('-') && !id.starts_with('-')).collect()
}

/// The names behind `marker` in `text`.
fn names<'t>(text: &'t str, marker: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(marker).skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn the_table_lists_every_row_once() {
    let rows = listed();
    assert_eq!(rows.len(), 297);
    let unique: BTreeSet<String> = rows.iter().map(|[id, ..]| (*id).to_owned()).collect();
    assert_eq!(unique, ids());
    for [id, what, covered] in rows {
        assert!(!what.is_empty() && !covered.is_empty(), "{id}");
    }
}

#[test]
fn the_table_and_the_tests_name_each_other() {
    let sources = [
        include_str!("beyond.rs"),
        include_str!("companion.rs"),
        include_str!("gloo.rs"),
        include_str!("introduction.rs"),
        include_str!("lesson.rs"),
        include_str!("pricing.rs"),
        include_str!("ring_and_tree.rs"),
    ];
    let tests: Vec<&str> = sources.iter().flat_map(|s| names(s, "fn row_")).collect();
    let unique: BTreeSet<&str> = tests.iter().copied().collect();
    assert_eq!(unique.len(), tests.len(), "a row has two tests");
    let table: BTreeSet<&str> =
        listed().iter().flat_map(|[_, _, covered]| names(covered, "row_")).collect();
    assert_eq!(table, unique);
    // A row is tested under its own name.
    for [id, _, covered] in listed() {
        let own = id.replace('-', "_").to_ascii_lowercase();
        for test in names(covered, "row_") {
            assert_eq!(test, own, "{id}");
        }
    }
}

/// A transcript that the table names is there, and each that is there is named.
#[test]
fn the_table_and_the_transcripts_name_each_other() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/pages");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let covered = listed().into_iter().flat_map(|[_, _, covered]| covered.split("`pages/").skip(1));
    let table: BTreeSet<String> =
        covered.map(|rest| rest.split_once('`').unwrap().0.to_owned()).collect();
    assert_eq!(table, files);
}
