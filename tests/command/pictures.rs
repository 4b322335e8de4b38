//! Pictures: their marks lie where the reports say, and each kind looks as it did.
//!
//! `TRYCMD=overwrite cargo test --test command pictures` writes the present pictures into
//! `docs/pictures`; look at what changed before keeping it.

#[path = "../support/drawn.rs"]
mod drawn;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use drawn::{Drawn, Element};
use serde_json::Value;

/// Every kind: its name, and the command that draws it.
const KINDS: &[(&str, &str)] = &[
    ("cost-curves", "crossover allreduce tree ring -n 64 --alpha 1us --bw 100GB/s"),
    (
        "cost-curves-ranks",
        "crossover allreduce tree ring -n 2..1024 --size 1MiB --alpha 1us --bw 100GB/s",
    ),
    ("sweep", "allreduce -n 64 -b 1K -e 4G -f 4 --on dgx-h100"),
    ("bars", "allreduce 16MiB -n 64 --on dgx-h100"),
    ("winners", "allreduce -n 8..1024 --on dgx-h100"),
    ("policy", "select nccl allreduce 8..1TiB -n 8..256 --on dgx-h100"),
    ("measured", "compare tests/data/logs/twelve_nodes_before.txt --on abci-v100"),
    ("residuals", "fit tests/data/synthetic.samples.jsonl"),
    ("held-out", "fit tests/data/made_up_times.csv --on dgx-h100"),
    ("timeline", "simulate allreduce ring 1MiB -n 4 --alpha 1us --bw 100GB/s"),
    ("space-time", "trace broadcast chain -n 4 --segments 3 --alpha 1us --bw 100GB/s"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(words: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    let output = command.args(words).current_dir(root()).env_clear().output().unwrap();
    // A run that is not healthy is drawn too.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {output:?}");
    output.stdout
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn command(kind: &str) -> &'static str {
    KINDS.iter().find(|(name, _)| *name == kind).unwrap().1
}

/// The picture of a kind, as the command writes it.
fn svg(kind: &str) -> String {
    // Tests of one kind run side by side.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let file: PathBuf =
        std::env::temp_dir().join(format!("collcost-{}-{count}-{kind}.svg", std::process::id()));
    let mut words = words(command(kind));
    words.extend(["--svg", file.to_str().unwrap()]);
    run(&words);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    text
}

fn drawn(kind: &str) -> Drawn {
    Drawn::of(&svg(kind))
}

/// The report of the same command.
fn report(kind: &str, more: &[&str]) -> Value {
    let mut words = words(command(kind));
    words.extend(["--format", "json"]);
    words.extend(more);
    serde_json::from_slice(&run(&words)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Two places in the picture are one: marks and the ticks that tell the axis have two decimals.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.02
}

#[test]
fn each_kind_looks_as_it_did() {
    let overwrite = std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite");
    let folder = root().join("docs/pictures");
    for (kind, _) in KINDS {
        let file = folder.join(format!("{kind}.svg"));
        let text = svg(kind);
        if overwrite {
            std::fs::write(&file, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(text == kept, "{kind} is not docs/pictures/{kind}.svg");
    }
    assert_eq!(folder.read_dir().unwrap().count(), KINDS.len());
}

/// A picture needs nothing from elsewhere, and says its colours for light and dark.
#[test]
fn pictures_stand_alone() {
    for (kind, _) in KINDS {
        let text = svg(kind);
        assert!(!text.replace("http://www.w3.org/2000/svg", "").contains("http"), "{kind}");
        assert!(!text.contains("<script") && text.contains("prefers-color-scheme:dark"), "{kind}");
        assert!(text.contains("<title id=\"t\">") && text.contains("NaN").eq(&false), "{kind}");
    }
}

#[test]
fn cost_curves_and_their_crossing_lie_where_the_engine_says() {
    let (drawn, report) = (drawn("cost-curves"), report("cost-curves", &[]));
    let (x, y) = (drawn.x_bytes(), drawn.y_seconds());
    let rings = drawn.of_class("ring");
    let [crossing] = rings.as_slice() else { panic!("{rings:?}") };
    assert!(same(crossing.number("cx"), x.place(number(&report["size_bytes"]))));
    assert!(same(crossing.number("cy"), y.place(number(&report["time_s"]))));
    // The forms written out by hand.
    let (alpha, rate) = (1e-6, 100e9);
    let ring = |m: f64| 126.0 * alpha + 126.0 / 64.0 * m / rate;
    let tree = |m: f64| 12.0 * (alpha + m / rate);
    let least = |m: f64| (6.0 * alpha).max(126.0 / 64.0 * m / rate);
    let forms: [(&str, &dyn Fn(f64) -> f64); 3] =
        [("ring", &ring), ("binomial reduce + broadcast", &tree), ("lower bound", &least)];
    for (name, form) in forms {
        let line = drawn.line(name);
        assert!(line.len() > 20, "{name}");
        for (px, py) in line {
            // A size of two decimals of a place is only so exact.
            let near = y.place(form(x.value(px)));
            assert!((py - near).abs() < 0.03, "{name}: {py} is not {near}");
        }
    }
}

#[test]
fn winners_over_ranks_change_where_they_do() {
    let (drawn, report) = (drawn("cost-curves-ranks"), report("cost-curves-ranks", &[]));
    let (x, y) = (drawn.x_count(), drawn.y_seconds());
    let intervals = report["intervals"].as_array().unwrap();
    let rings = drawn.of_class("ring");
    assert_eq!(rings.len(), intervals.len() - 1);
    for (ring, interval) in rings.iter().zip(&intervals[1..]) {
        assert!(same(ring.number("cx"), x.place(number(&interval["from"]))));
        assert!(same(ring.number("cy"), y.place(number(&interval["time_s"]))));
    }
}

#[test]
fn a_sweep_has_its_points() {
    let (drawn, report) = (drawn("sweep"), report("sweep", &[]));
    let (x, y) = (drawn.x_bytes(), drawn.y_seconds());
    let points = report["points"].as_array().unwrap();
    let lines = [
        ("expected", "/expect/time_s"),
        ("lowest ideal time", "/fastest/time_s"),
        ("lower bound", "/bound_s"),
    ];
    for (name, time) in lines {
        let line = drawn.line(name);
        assert_eq!(line.len(), points.len(), "{name}");
        for ((px, py), point) in line.into_iter().zip(points) {
            assert!(same(px, x.place(number(&point["size_bytes"]))), "{name}");
            assert!(same(py, y.place(number(point.pointer(time).unwrap()))), "{name}");
        }
    }
}

#[test]
fn bars_are_as_long_as_their_terms() {
    let (drawn, report) = (drawn("bars"), report("bars", &["--all"]));
    let x = drawn.x_seconds();
    let rows = drawn.rows();
    assert!(rows.len() >= 16);
    let algorithms = report["algorithms"].as_array().unwrap();
    let mut seen = 0;
    for (name, at) in &rows {
        let bare = name.trim_start_matches("* ");
        let bare = bare.split_once(", P = ").map_or(bare, |(title, _)| title);
        let row = algorithms.iter().find(|a| a["title"] == bare).unwrap();
        let blocks: Vec<&Element> =
            drawn.of_class("block").into_iter().filter(|b| b.covers(*at)).collect();
        let ends = |b: &Element| (b.number("x"), b.number("x") + b.number("width"));
        let of = |term: &str| blocks.iter().find(|b| b.title.contains(&format!(": {term} ")));
        let (latency, bandwidth) = (number(&row["latency_s"]), number(&row["bandwidth_s"]));
        let launch = number(&row["time_s"]) - latency - bandwidth;
        let (from, to) = ends(of("latency").unwrap());
        assert!(same(from, x.place(launch)) && same(to, x.place(launch + latency)), "{name}");
        let (from, to) = ends(of("bandwidth").unwrap());
        assert!(same(from, x.place(launch + latency)), "{name}");
        assert!((to - x.place(number(&row["time_s"]))).abs() < 0.02, "{name}");
        seen += 1;
    }
    assert_eq!(seen, rows.len());
    let rules = drawn.of_class("rule");
    assert!(same(rules[0].number("x1"), x.place(number(&report["bound_s"]))));
}

#[test]
fn regions_end_where_the_best_changes() {
    let (drawn, report) = (drawn("winners"), report("winners", &[]));
    let x = drawn.x_bytes();
    let rows = drawn.rows();
    let blocks = drawn.marks("block");
    let mut count = 0;
    for row in report["rows"].as_array().unwrap() {
        let ranks = row["ranks"].to_string();
        let at = rows.iter().find(|(name, _)| *name == ranks).unwrap().1;
        let intervals = row["fastest_shipped"].as_array().unwrap();
        for (i, interval) in intervals.iter().enumerate() {
            let from = number(&interval["from_bytes"]);
            let to = intervals
                .get(i + 1)
                .map_or(number(&report["to_bytes"]), |f| number(&f["from_bytes"]));
            let title = interval["title"].as_str().unwrap();
            let found = blocks.iter().any(|b| {
                b.covers(at)
                    && b.title.ends_with(title)
                    && same(b.number("x"), x.place(from))
                    && (b.number("x") + b.number("width") - x.place(to)).abs() < 0.02
            });
            assert!(found, "{} ranks: {title} from {from}", row["ranks"]);
            count += 1;
        }
    }
    assert_eq!(blocks.len(), count);
}

#[test]
fn a_policy_has_its_choices_and_regrets() {
    let (drawn, report) = (drawn("policy"), report("policy", &[]));
    let x = drawn.x_bytes();
    let (choices, heats): (Vec<_>, Vec<_>) =
        drawn.marks("block").into_iter().partition(|b| !b.class.contains("fh"));
    let (mut own, mut regrets) = (0, 0);
    for one in report["by_ranks"].as_array().unwrap() {
        let ranks = &one["ranks"];
        for span in one["intervals"].as_array().unwrap() {
            let name = span["choice"]["name"].as_str().unwrap();
            let start = x.place(number(&span["from_bytes"]));
            let prefix = format!("{ranks} ranks, ");
            let found = choices.iter().any(|b| {
                b.title.starts_with(&prefix) && b.title.contains(name) && same(b.number("x"), start)
            });
            assert!(found, "{ranks}: {name}");
            own += 1;
            for regret in span["choice"]["regrets"].as_array().unwrap() {
                let (at, value) = (number(&regret["size_bytes"]), number(&regret["regret"]));
                let level = [1.05, 1.5, 3.0].iter().filter(|most| value > **most).count();
                let found = heats.iter().any(|b| {
                    b.title.starts_with(&prefix)
                        && same(b.number("x"), x.place(at))
                        && b.class.contains(&format!("fh{level}"))
                });
                assert!(found, "{ranks}: regret {value} at {at}");
                regrets += 1;
            }
        }
    }
    assert_eq!((choices.len(), heats.len()), (own, regrets));
}

#[test]
fn measured_points_and_bands_are_those_of_the_verdict() {
    let (drawn, report) = (drawn("measured"), report("measured", &[]));
    let (x, y) = (drawn.x_bytes(), drawn.y_seconds());
    let points: Vec<&Value> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r["points"].as_array().unwrap())
        .collect();
    let dots = drawn.of_class("dot");
    assert_eq!(dots.len(), points.len());
    for (dot, point) in dots.iter().zip(&points) {
        assert!(same(dot.number("cx"), x.place(number(&point["size_bytes"]))));
        assert!(same(dot.number("cy"), y.place(number(&point["measured_s"]))));
    }
    let corners: Vec<(f64, f64)> = drawn.of_class("band").iter().flat_map(|b| b.points()).collect();
    assert_eq!(corners.len(), 2 * points.len());
    for point in &points {
        for end in ["low_s", "high_s"] {
            let at = (x.place(number(&point["size_bytes"])), y.place(number(&point[end])));
            assert!(corners.iter().any(|c| same(c.0, at.0) && same(c.1, at.1)), "{point}");
        }
    }
}

#[test]
fn residuals_lie_at_their_errors() {
    let (drawn, report) = (drawn("residuals"), report("residuals", &["--explain"]));
    let (x, y) = (drawn.x_bytes(), drawn.y_share());
    let rows: Vec<&Value> = report["residuals"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["error"].is_number() && number(&r["size_bytes"]) > 0.0)
        .collect();
    let dots = drawn.of_class("dot");
    assert!(!rows.is_empty());
    assert_eq!(dots.len(), rows.len());
    for (dot, row) in dots.iter().zip(rows) {
        assert!(same(dot.number("cx"), x.place(number(&row["size_bytes"]))), "{row}");
        assert!((dot.number("cy") - y.place(number(&row["error"]))).abs() < 0.1, "{row}");
    }
}

#[test]
fn held_out_errors_reach_from_p10_to_p90() {
    let (drawn, report) = (drawn("held-out"), report("held-out", &[]));
    let x = drawn.x_number();
    let held: Vec<&Value> = report["curves"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|c| c["held_out"].as_array().unwrap())
        .collect();
    let blocks = drawn.marks("block");
    assert_eq!(blocks.len(), held.len());
    for (block, one) in blocks.iter().zip(held) {
        assert!((block.number("x") - x.place(number(&one["low"]))).abs() < 0.05);
        let end = block.number("x") + block.number("width");
        assert!((end - x.place(number(&one["high"]))).abs() < 0.05);
    }
}

#[test]
fn a_timeline_has_every_message_and_its_critical_path() {
    let drawn = drawn("timeline");
    let line = "trace allreduce ring 1MiB -n 4 --alpha 1us --bw 100GB/s --format json";
    let trace: Value = serde_json::from_slice(&run(&words(line))).unwrap();
    let simulated = report("timeline", &[]);
    let x = drawn.x_seconds();
    let rows = drawn.rows();
    let blocks = drawn.marks("block");
    let mut count = 0;
    for step in trace["steps"].as_array().unwrap() {
        for t in step["transfers"].as_array().unwrap() {
            let from = t["from"].to_string();
            let at = rows.iter().find(|(name, _)| *name == from).unwrap().1;
            let found = blocks.iter().any(|b| {
                b.covers(at)
                    && b.title.contains(&format!("{} → {}", t["from"], t["to"]))
                    && same(b.number("x"), x.place(number(&t["start_s"])))
                    && (b.number("x") + b.number("width") - x.place(number(&t["end_s"]))).abs()
                        < 0.02
            });
            assert!(found, "{t}");
            count += 1;
        }
    }
    assert_eq!(blocks.len(), count);
    let strong = blocks.iter().filter(|b| b.class.contains("strong")).count();
    assert_eq!(strong, simulated["critical_path"]["hops"].as_array().unwrap().len());
}

/// The introduction's table of a pipeline: 3 links and 3 segments take 5 slots.
#[test]
fn three_links_and_three_segments_take_five_slots() {
    let drawn = drawn("space-time");
    let x = drawn.x_count();
    let rows = drawn.rows();
    assert_eq!(rows.iter().map(|r| r.0.as_str()).collect::<Vec<_>>(), ["0 → 1", "1 → 2", "2 → 3"]);
    let blocks = drawn.marks("block");
    assert_eq!(blocks.len(), 9);
    for (link, (_, at)) in rows.iter().enumerate() {
        for segment in 0..3 {
            // Segment s passes link l in slot l + s.
            let slot = (link + segment + 1) as f64;
            let found = blocks.iter().any(|b| {
                b.covers(*at)
                    && same(b.number("x") + b.number("width") / 2.0, x.place(slot))
                    && b.title.contains(&format!("c{segment},"))
            });
            assert!(found, "link {link}, segment {segment}");
        }
    }
    let last = blocks.iter().map(|b| b.number("x") + b.number("width")).fold(0.0, f64::max);
    assert!(same(last, x.place(5.5)));
}

/// What cannot be drawn, or written, is one clear error.
#[test]
fn what_cannot_be_drawn_is_refused() {
    let refused = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
        let output = command.args(line.split(' ')).current_dir(root()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("simulate allreduce ring 1MiB -n 256 --plot").contains("too many to draw"));
    assert!(refused("trace allreduce ring -n 200 --plot").contains("too many to draw"));
    let lost = refused("allreduce 1MiB -n 8 --svg /nowhere/at/all.svg");
    assert!(lost.contains("--svg /nowhere/at/all.svg"), "{lost}");
    assert!(!Path::new("/nowhere").exists());
    refused("allreduce 1MiB -n 8 --plot --format json");
    refused("trace allreduce ring -n 4 --events --plot");
}
