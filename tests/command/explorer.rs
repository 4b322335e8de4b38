//! The explorer: its formulas against the engine over a grid, and its page in a browser.
//!
//! ```sh
//! cargo test --test command explorer                                # what Node and Chromium allow
//! COLLCOST_EXPLORER=required cargo test --test command explorer     # missing ones are a failure
//! ```
//!
//! The grid needs Node; the browser Chromium and `npm ci` in `tests/explorer`. Without them the test
//! passes and says on standard error what was not tested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use collcost::Collective;
use collcost::answer::explorer::{Explorer, explorer};
use collcost::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use collcost::cost::price::Prepared;
use collcost::machine::fabric::Fabric;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Params, Ports, Shape};
use collcost::view::explorer as page;

fn report() -> &'static Explorer {
    static REPORT: OnceLock<Explorer> = OnceLock::new();
    REPORT.get_or_init(|| explorer(&Registry::builtin()).unwrap())
}

/// Whether what a test needs is there; where it is required and is not, that fails.
fn is_there(what: &str, found: bool) -> bool {
    if !found {
        let required = std::env::var_os("COLLCOST_EXPLORER").is_some_and(|v| v == "required");
        assert!(!required, "{what} is missing");
        eprintln!("{what} is missing: the explorer was not tested with it");
    }
    found
}

fn has_node() -> bool {
    let found = Command::new("node").arg("--version").output().is_ok_and(|o| o.status.success());
    is_there("node", found)
}

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("COLLCOST_CHROMIUM").map(PathBuf::from);
    let found = named.or_else(|| {
        let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        usual.into_iter().map(PathBuf::from).find(|p| p.exists())
    });
    is_there("chromium", found.is_some()).then_some(found).flatten()
}

/// A file that is gone when the test has ended.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("collcost-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const SIZES: [f64; 4] = [1.0, 4_097.0, 1_048_576.0, 1e10];
const ALPHA: [f64; 2] = [1.7e-6, 6.1e-6];
const RATE: [f64; 2] = [310e9, 47e9];

/// Every price that the page can compute, in a fixed order; null where nothing applies.
const GRID: &str = r#"
const { DATA, Price } = require(process.argv[2]);
const [sizes, alpha, rate] = JSON.parse(process.argv[3]);
const out = [];
const row = (entry, ports, ranks, group, links) => ranks.forEach((n, i) => {
  const at = { n, group, links, tables: DATA.algorithms[entry.algorithm].tables };
  for (const M of sizes) { const p = Price.own(entry, ports, i, at, M); out.push(p && p.time); }
});
const outer = [{ alpha: alpha[1], bw: rate[1] }], both = [{ alpha: alpha[0], bw: rate[0] }, ...outer];
for (const c of DATA.collectives) {
  for (const entry of DATA.flat[c.id]) DATA.ports.forEach((_, p) => row(entry, p, DATA.ranks, 1, outer));
  for (const entry of DATA.two_tier[c.id]) row(entry, 0, DATA.two_tier_ranks, DATA.two_tier_group, both);
}
for (const m of DATA.machines) for (const by of Object.values(m.prices)) for (const lines of Object.values(by))
  for (const line of lines) for (const M of sizes) out.push(Price.known(line, M).time);
console.log(JSON.stringify(out));
"#;

fn of_node() -> Vec<Option<f64>> {
    let module = Scratch::new("module.js", &page::module(report()).unwrap());
    let grid = Scratch::new("grid.js", GRID);
    let figures = serde_json::to_string(&(SIZES, ALPHA, RATE)).unwrap();
    let mut node = Command::new("node");
    let output = node.arg(&grid.0).arg(&module.0).arg(figures).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same by the engine, with what each is.
fn of_engine() -> Vec<(String, Option<f64>)> {
    let registry = Registry::builtin();
    let report = report();
    let by_id = |place: usize| report.algorithms[place].id;
    let mut out = Vec::new();
    let mut push = |what: String, price: Option<Prepared>| {
        for size in SIZES {
            let time = price.as_ref().map(|p| p.time(Volume(size)).0);
            out.push((format!("{what}, {size} bytes"), time));
        }
    };
    for &collective in Collective::ALL {
        let find = |place| registry.find(collective, by_id(place)).unwrap().algorithm;
        let outer = Fabric::flat(Seconds(ALPHA[1]), Bandwidth(RATE[1]));
        for entry in &report.flat[collective.id()] {
            let algorithm = find(entry.algorithm);
            for ports in report.ports {
                for &n in report.ranks {
                    let shape =
                        Shape::new(collective, n).with_ports(ports.parse::<Ports>().unwrap());
                    let price = Prepared::new(algorithm, &shape, &outer).ok();
                    push(
                        format!(
                            "{collective} {}, {n} ranks, ports {ports}",
                            by_id(entry.algorithm)
                        ),
                        price,
                    );
                }
            }
        }
        for entry in &report.two_tier[collective.id()] {
            for &n in report.two_tier_ranks {
                let query = two_tiers(collective, n, report.two_tier_group);
                let price =
                    Prepared::new(find(entry.algorithm), &query.shape, &query.machine.fabric).ok();
                push(format!("{collective} {}, {n} ranks on nodes", by_id(entry.algorithm)), price);
            }
        }
    }
    out
}

fn two_tiers(collective: Collective, n: u32, group: u32) -> Query {
    let given = Given {
        alpha: Some(Seconds(ALPHA[0])),
        bandwidth: Some(Bandwidth(RATE[0])),
        alpha_inter: Some(Seconds(ALPHA[1])),
        bandwidth_inter: Some(Bandwidth(RATE[1])),
        nics: group.try_into().ok(),
        ..Given::default()
    };
    let machine = Machine::new(None, &given, collective).unwrap();
    let layout = Layout { ranks: n.try_into().ok(), nodes: None, per_node: group.try_into().ok() };
    Query::new(machine, collective, Bytes(1), layout, Params::default()).unwrap()
}

#[test]
fn formulas_in_the_page_are_the_engines() {
    if !has_node() {
        return;
    }
    let (node, engine) = (of_node(), of_engine());
    assert!(engine.len() > 50_000 && node.len() > engine.len(), "{} {}", node.len(), engine.len());
    let mut compared = 0;
    for (own, (what, price)) in node.iter().zip(&engine) {
        match (own, price) {
            (Some(own), Some(price)) => {
                assert!((own - price).abs() <= 1e-11 * price.abs(), "{what}: {own} is not {price}");
                compared += 1;
            }
            // Two tiers leave out what no formula says; one tier does not.
            (None, Some(_)) => assert!(what.contains("on nodes"), "{what} is left out"),
            (Some(_), None) => panic!("{what} does not apply"),
            (None, None) => {}
        }
    }
    assert!(compared > 40_000, "{compared}");
    // Built-in machines' prices, behind the others: the command's own.
    assert!(node[engine.len()..].iter().all(|t| t.is_some_and(|t| t.is_finite() && t > 0.0)));
}

/// What the lesson's widget shows: the flat ring and a hierarchy for 512 ranks and 14 GB.
#[test]
fn hierarchies_are_among_what_sliders_price() {
    let report = report();
    let ids =
        |all: &BTreeMap<&str, Vec<collcost::answer::explorer::FormOf>>, c: &str| -> Vec<&str> {
            all[c].iter().map(|f| report.algorithms[f.algorithm].id).collect()
        };
    let offered = ids(&report.two_tier, "allreduce");
    for id in ["ring", "2d-ring", "leader"] {
        assert!(offered.contains(&id), "{id} is not among {offered:?}");
    }
}

#[test]
fn the_page_is_one_small_file_that_asks_for_nothing() {
    let text = page::page(report()).unwrap();
    assert!(text.len() < 1_050_000, "{} bytes", text.len());
    assert!(!text.contains("/*DATA*/") && !text.contains("/*FORMS*/"));
    for word in ["http://", "https://", "@import", "src=", "fetch(", "XMLHttpRequest"] {
        let allowed = text.replace("http://www.w3.org/2000/svg", "");
        let used = allowed.lines().filter(|l| l.contains(word) && !l.starts_with("const DATA"));
        assert_eq!(used.count(), 0, "{word}");
    }
}

/// Every widget by pointer and by keyboard, its numbers beside the command's.
#[test]
fn the_page_works_in_a_browser() {
    if !has_node() {
        return;
    }
    let Some(chromium) = chromium() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explorer");
    let modules = folder.join("node_modules/playwright-core").exists();
    if !is_there("tests/explorer/node_modules (npm ci)", modules) {
        return;
    }
    let html = Scratch::new("explore.html", &page::page(report()).unwrap());
    let mut node = Command::new("node");
    node.arg("drive.mjs").arg(&html.0).arg(env!("CARGO_BIN_EXE_collcost")).arg(chromium);
    let output = node.current_dir(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    eprintln!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
