//! `collcost explain`: every algorithm, every topic, every contradiction, in every notation.

use std::num::NonZeroU32;
use std::process::Command;

use collcost::Collective;
use collcost::answer::explain::{self, AlgorithmView, Explanation, Subject};
use collcost::answer::notes::{self, CONTRADICTIONS, TOPICS};
use collcost::base::format::Format;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds, SecondsPerByte, Volume};
use collcost::cost::crossover::crossover;
use collcost::cost::price::Prepared;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Dims, Params, Shape};
use collcost::view::Look;
use collcost::view::explain::explanation;

/// α and BW on one tier, or on two with G ranks a node, around a switch.
fn query(collective: Collective, ranks: u32, per_node: Option<u32>, params: Params) -> Query {
    let two = per_node.is_some();
    let given = Given {
        alpha: Some(Seconds(1e-6)),
        bandwidth: Some(Bandwidth(1e11)),
        alpha_inter: two.then_some(Seconds(5e-6)),
        bandwidth_inter: two.then_some(Bandwidth(2.5e10)),
        alpha_switch: Some(Seconds(2e-7)),
        ..Given::default()
    };
    let machine = Machine::new(None, &given, collective).unwrap();
    let layout = Layout {
        ranks: NonZeroU32::new(ranks),
        nodes: None,
        per_node: per_node.and_then(NonZeroU32::new),
    };
    Query::new(machine, collective, Bytes(16 << 20), layout, params).unwrap()
}

/// Layouts of which every algorithm has one that suits it.
fn layouts(collective: Collective) -> Vec<Query> {
    let plain = Params::default();
    let dims = Params { dims: Dims::new(&[4, 4]), ..plain };
    let radix = Params { radix: Some(2), ..plain };
    let slices = Params { dims: Dims::new(&[2, 2]), ..plain };
    vec![
        query(collective, 16, None, plain),
        query(collective, 16, Some(4), plain),
        query(collective, 6, None, plain),
        query(collective, 16, None, dims),
        query(collective, 16, Some(4), slices),
        query(collective, 8, None, radix),
        adding_on_few_nics(query(collective, 24, Some(4), plain), 7e-12),
        adding_on_few_nics(query(collective, 24, Some(4), plain), 7e-9),
    ]
}

/// The same where four ranks share two NICs and take a while to add.
fn adding_on_few_nics(query: Query, gamma: f64) -> Query {
    let mut query = query;
    query.machine.fabric.tiers[1].nics = NonZeroU32::new(2);
    query.machine.fabric.gamma = Some(SecondsPerByte(gamma));
    query
}

fn written(report: &Explanation, format: Format) -> String {
    let mut out = Vec::new();
    explanation(report).write(&mut out, format, Look::default()).unwrap();
    String::from_utf8(out).unwrap()
}

fn view(report: &Explanation) -> &AlgorithmView {
    match &report.subject {
        Subject::Algorithm(view) => view,
        _ => panic!("no algorithm"),
    }
}

fn same(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-300), "{got:e} is not {want:e}");
}

/// What the command prints, and that it succeeds.
fn collcost(line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .args(line.split_whitespace())
        .current_dir(std::env::temp_dir())
        .output()
        .expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "collcost {line}: {error}");
    String::from_utf8(output.stdout).expect("it writes UTF-8")
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&collcost(&format!("{line} --format json"))).unwrap()
}

#[test]
fn every_algorithm_is_explained_wherever_it_runs() {
    let registry = Registry::builtin();
    for &collective in Collective::ALL {
        let queries = layouts(collective);
        for algorithm in registry.of(collective) {
            let id = algorithm.meta().id;
            let reports = queries.iter().filter_map(|q| {
                explain::algorithm(&registry, q, id).map(|report| (q, report)).ok()
            });
            let mut any = false;
            for (query, report) in reports {
                any = true;
                checked(query, &report, &registry);
            }
            // No layout here has a network that adds: tests/engine/pipelined.rs has one.
            let in_network = ["collnet-chain", "collnet-direct", "nvls-sharp"].contains(&id);
            assert!(any || in_network, "{collective} {id} runs on no layout");
        }
    }
}

/// The parts of an explanation agree with the engine and with each other.
fn checked(query: &Query, report: &Explanation, registry: &Registry) {
    let v = view(report);
    let id = v.id;
    let fabric = &query.machine.fabric;
    let found = registry.find(query.shape.collective, id).unwrap().algorithm;
    let price = Prepared::new(found, &query.shape, fabric).unwrap().price(Volume::from(query.size));
    same(v.time_s, price.total().0);
    if v.time_s > 0.0 {
        same(v.terms.iter().map(|t| t.time_s).sum(), v.time_s);
        same(v.terms.iter().map(|t| t.share).sum(), 1.0);
        assert!(v.dominant.is_some(), "{id}");
    }
    if v.steps_left_out == 0 {
        let steps: f64 = v.steps.iter().map(|s| s.latency_s + s.bandwidth_s).sum();
        same(steps, price.latency.0 + price.bandwidth.0);
    }
    assert!(!v.formula.is_empty() && !v.numbers.is_empty() && !v.source.is_empty(), "{id}");
    assert!(v.formula_latex.matches('{').count() == v.formula_latex.matches('}').count(), "{id}");
    for format in [Format::Text, Format::Markdown, Format::Latex] {
        let text = written(report, format);
        assert!(text.contains("Formula") && text.contains("Ports"), "{id}: {text}");
        if format == Format::Latex {
            assert!(text.is_ascii(), "{id}: {text}");
        }
    }
    let value = serde_json::to_value(report).unwrap();
    assert_eq!(
        (&value["schema"], &value["kind"]),
        (&"collcost/explain/1".into(), &"algorithm".into())
    );
    assert_eq!(value["id"], id);
}

/// BW₂ is the rate of the network where its switches add, too: 48 GB/s, not that of NVLink's switches.
#[test]
fn the_numbers_of_switches_between_nodes_are_those_of_the_network() {
    for ask in [
        "allreduce nvls-sharp",
        "allreduce collnet-chain",
        "allreduce collnet-direct",
        "allgather collnet-direct",
        "reducescatter collnet-direct",
    ] {
        let line = format!("explain {ask} 8MB -n 32 --on dgx-h100 --alpha-switch inter=1.3us");
        let report = json(&line);
        let numbers = report["numbers"].as_str().unwrap();
        let formula = report["formula"].as_str().unwrap();
        assert_eq!(
            numbers.matches("/(48 GB/s)").count(),
            formula.matches("/BW₂").count(),
            "{numbers}"
        );
    }
}

#[test]
fn every_collective_lists_all_its_algorithms() {
    let registry = Registry::builtin();
    for &collective in Collective::ALL {
        for query in layouts(collective) {
            let report = explain::collective(&registry, &query, true).unwrap();
            let Subject::Collective(v) = &report.subject else { panic!("no collective") };
            assert_eq!(v.algorithms.len(), registry.of(collective).count());
            for row in &v.algorithms {
                assert_eq!(row.applies, row.reason.is_none(), "{}", row.id);
                let ratios = [row.latency_ratio, row.bandwidth_ratio];
                let below = |r: &f64| *r < 1.0 - 1e-9;
                assert!(!ratios.iter().flatten().any(below), "{collective} {}", row.id);
            }
            for format in [Format::Text, Format::Markdown, Format::Latex] {
                assert!(written(&report, format).contains("ost of its algorithms"));
            }
        }
    }
}

#[test]
fn every_topic_is_written_in_every_notation() {
    for topic in TOPICS {
        let report = explain::topic(topic.id, None, None).unwrap();
        let text = written(&report, Format::Text);
        assert!(text.starts_with(topic.title), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 90), "{}:\n{text}", topic.id);
        assert!(written(&report, Format::Latex).is_ascii(), "{}", topic.id);
        assert!(written(&report, Format::Markdown).starts_with("# "));
    }
}

#[test]
fn what_a_topic_names_next_runs() {
    for topic in TOPICS {
        for line in topic.next {
            collcost(line.strip_prefix("collcost ").expect("a command"));
        }
        for piece in topic.pieces {
            if let notes::Piece::Command(line) = piece {
                collcost(line.strip_prefix("collcost ").expect("a command"));
            }
        }
    }
}

#[test]
fn every_contradiction_is_found_where_it_belongs() {
    let registry = Registry::builtin();
    for c in CONTRADICTIONS {
        let page = written(&explain::topic(c.id, None, None).unwrap(), Format::Text);
        assert!(page.starts_with(&format!("{}: {}", c.id, c.title)), "{page}");
        assert!(page.contains(c.texts[0].name()), "{page}");
        for (collective, ids) in c.about {
            let all = explain::collective(&registry, &layouts(*collective)[0], false).unwrap();
            let Subject::Collective(v) = &all.subject else { panic!("no collective") };
            assert!(v.contradictions.iter().any(|n| n.id == c.id), "{} {collective}", c.id);
            for id in *ids {
                let found = registry.find(*collective, id).unwrap().algorithm;
                assert_eq!(found.meta().id, *id, "{}: an alias", c.id);
                let report = layouts(*collective)
                    .iter()
                    .find_map(|q| explain::algorithm(&registry, q, id).ok())
                    .unwrap();
                let notes = &view(&report).contradictions;
                assert!(notes.iter().any(|n| n.id == c.id), "{} {collective} {id}", c.id);
                assert!(written(&report, Format::Text).contains(c.title));
            }
        }
    }
}

#[test]
fn the_ring_is_derived_as_the_chapter_does() {
    let line = "explain allreduce ring --n 64 --size 1GB --alpha 5us --bw 100GB/s";
    let text = collcost(line);
    for part in [
        "T = 2·(N − 1)·α + 2·(N − 1)/N·M/BW",
        "= 2·(64 − 1)·5 µs + 2·(64 − 1)/64·1 GB/(100 GB/s)",
        "126 x 5 µs",
        "20317.50",
        "Bandwidth-bound",
        "takes exactly this time",
        "Patarasuk",
        "K1 ",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let report = json(line);
    same(report["time_s"].as_f64().unwrap(), 20.3175e-3);
    same(report["half_bytes"].as_f64().unwrap(), 64.0 * 5e-6 * 1e11);
    same(report["rates"]["sent_share"].as_f64().unwrap(), 2.0 * 63.0 / 64.0);
    assert_eq!(report["bound"]["messages"], 6);
    let latex = collcost(&format!("{line} --format latex"));
    assert!(latex.contains("\\[ T = 2 \\cdot (N - 1) \\cdot \\alpha"), "{latex}");
}

/// A small vector is bound by latency, a large one by bandwidth: the size decides.
#[test]
fn the_dominant_term_follows_the_size() {
    let dominant = |size| json(&format!("explain allreduce ring {size} -n 64"))["dominant"].clone();
    assert_eq!((dominant("1KiB"), dominant("1GiB")), ("latency".into(), "bandwidth".into()));
    let a2a = |size| json(&format!("explain alltoall pairwise {size} -n 8"))["dominant"].clone();
    assert_eq!((a2a("1KiB"), a2a("1GiB")), ("latency".into(), "bandwidth".into()));
}

/// 16 MiB over a chain of 8 at 1 µs and 100 GB/s: P* = 31.73, the √ term 63.46 µs.
#[test]
fn a_pipeline_shows_its_best_number_of_segments() {
    let report = json("explain broadcast chain 16MiB -n 8 --alpha 1us --bw 100GB/s");
    let p = &report["pipeline"];
    let near = |got: &serde_json::Value, want: f64, digits: f64| {
        let got = got.as_f64().unwrap();
        assert!((got - want).abs() < digits, "{got} is not {want}");
    };
    near(&p["best_real"], 31.73, 0.005);
    near(&p["correction_s"], 63.455e-6, 0.0005e-6);
    let x = 16_777_216.0 / 1e11_f64;
    near(&p["time_at_real_s"], 6e-6 + x + 2.0 * (6e-6_f64 * x).sqrt(), 1e-12);
    assert_eq!(p["segments"], 32);
    let rows = p["rows"].as_array().unwrap();
    let least = rows.iter().map(|r| r["time_s"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    same(report["time_s"].as_f64().unwrap(), least);
    assert_eq!((&rows[0]["segments"], &rows[0]["slots"]), (&1.into(), &7.0.into()));
}

/// Two ranks a node over a slow network: the NIC binds, not the links inside.
#[test]
fn the_links_that_bind_are_named() {
    let report = json("explain allreduce ring 1GiB -n 16 --gpus-per-node 8");
    assert_eq!(report["binds"], "NDR 400G");
    let report = json("explain allreduce 2d-ring 64MiB");
    assert_eq!(report["question"]["nodes"], 8);
    assert!(report["terms"].as_array().unwrap().len() >= 4);
}

#[test]
fn printed_forms_stand_beside_the_exact_one() {
    let report = json("explain allreduce dbt 16MiB -n 64 --alpha 1us --bw 100GB/s --segments 1");
    let forms = report["forms"].as_array().unwrap();
    let by = |name: &str| forms.iter().find(|f| f["form"] == name).unwrap();
    assert_eq!((&by("exact")["n_alpha"], &by("paper")["n_alpha"]), (&22.0.into(), &12.0.into()));
    let printed =
        json("explain allreduce dbt(paper) 16MiB -n 64 --alpha 1us --bw 100GB/s --segments 1");
    assert_eq!(printed["form"], "paper");
    same(printed["time_s"].as_f64().unwrap(), by("paper")["time_s"].as_f64().unwrap());
}

#[test]
fn tables_compare_latency_bandwidth_ports_and_ranks() {
    let row = |report: &serde_json::Value, id: &str| {
        let rows = report["algorithms"].as_array().unwrap();
        rows.iter().find(|r| r["id"] == id).unwrap().clone()
    };
    let report = json("explain allreduce -n 64 --alpha 1us --bw 100GB/s");
    let (ring, tree) = (row(&report, "ring"), row(&report, "tree"));
    assert_eq!(
        (&ring["latency"], &ring["bandwidth"]),
        (&"2·(N − 1)·α".into(), &"2·(N − 1)/N·M/BW".into())
    );
    assert_eq!(
        (&tree["latency"], &tree["bandwidth"]),
        (&"2·⌈lg N⌉·α".into(), &"2·⌈lg N⌉·M/BW".into())
    );
    same(ring["bandwidth_ratio"].as_f64().unwrap(), 1.0);
    same(ring["latency_ratio"].as_f64().unwrap(), 21.0);
    same(tree["latency_ratio"].as_f64().unwrap(), 2.0);
    same(tree["bandwidth_ratio"].as_f64().unwrap(), 12.0 * 32.0 / 63.0);
    same(row(&report, "recursive-doubling")["latency_ratio"].as_f64().unwrap(), 1.0);
    let gather = json("explain allgather");
    assert_eq!(row(&gather, "ring")["ranks"], "any");
    assert_eq!(row(&gather, "recursive-doubling")["ranks"], "2^m");
    assert_eq!(row(&gather, "neighbor-exchange")["ranks"], "even");
    // A bidirectional ring waits on one port and not on two.
    let fits = |ports| {
        let report =
            json(&format!("explain allreduce -n 8 --alpha 1us --bw 1GB/s --ports {ports}"));
        row(&report, "bidirectional-ring-split")["fits"].clone()
    };
    assert_eq!((fits(1), fits(2)), (false.into(), true.into()));
}

#[test]
fn the_states_of_all_collectives_are_in_one_table() {
    let text = collcost("explain collectives");
    for c in Collective::ALL {
        assert!(text.contains(c.name()), "{c}");
    }
    assert!(text.contains("block i of Σ V, M/N"));
}

/// Question by question, what the answer must contain.
#[test]
fn questions_of_users_find_their_answer() {
    let cases: &[(&str, &[&str])] = &[
        ("explain links", &["450 GB/s one", "370", "NVLS", "275", "230 to 240 of 300", "18 times"]),
        ("explain allreduce 8G -n 8", &["450 GB/s one way, 900 GB/s both ways"]),
        ("explain busbw -n 8", &["1.7500", "(n + 1)/n", "2(n − 1)/n", "475 GB/s"]),
        ("explain busbw --algo nvls -n 8", &["busbw counts", "1.7500 M", "1.0000 M"]),
        ("explain allreduce nvls -n 8", &["busbw", "sent", "the busiest rank actually sends 1 M"]),
        ("explain nvls", &["5/6", "480 GB/s at 8", "411 at 5", "647"]),
        ("explain average", &["mean of busbw over all sizes", "0 where every busbw is 0"]),
        ("explain two-nodes", &["4/3", "2(N − 1)/N·M"]),
        ("explain allreduce 1G -n 16 --gpus-per-node 8", &["up to 2 times the NICs' rate"]),
        ("explain allreduce 1G -n 24 --gpus-per-node 8", &["up to 4/3 times"]),
        ("explain nics", &["50 of 200 GB/s", "90 GB/s"]),
        ("explain map", &["all-gather + reduce-scatter", "send/recv", "all-to-all", "all-reduce"]),
        ("explain pytorch", &["dist.all_reduce", "SUM", "/= world"]),
        ("explain names", &["binomial reduce", "recursive-halving"]),
        ("explain regimes", &["All-to-all is latency-bound", "n½ = N·α·BW"]),
        ("explain ports", &["nvlink-channels", "4–18", "from 9"]),
        ("explain pipeline", &["N − 1", "2⌈lg N⌉", "31.73"]),
        ("explain units", &["14 GB = 13.04 GiB", "400·10^9 bits = 50 GB/s"]),
        ("explain ring-default", &["511 messages", "1.022 ms", "any N"]),
        ("explain allgather", &["Libraries default to the ring"]),
        (
            "explain alltoall 256M -n 16 --gpus-per-node 8",
            &["own block does not travel", "50.0 % leave the node"],
        ),
        ("explain frontier", &["fp8", "hierarchies", "once, not twice"]),
        ("explain K4", &["spiceMonkey/collective-comm 01", "max(2/k, e/2)"]),
    ];
    for (line, parts) in cases {
        // Markdown breaks no line inside a phrase.
        let text = collcost(&format!("{line} --format markdown"));
        for part in *parts {
            assert!(text.contains(part), "{line}: {part}:\n{text}");
        }
    }
}

/// The line of numbers under a formula has the total for its value: near and far links have letters of
/// their own, and shared NICs are in it.
#[test]
fn numbers_under_a_formula_are_those_of_its_letters() {
    let numbers = |line: &str| {
        let line = format!(
            "explain {line} 1200000 --alpha 10ns --bw 8GB/s --alpha-inter 40ns --bw-inter 1GB/s"
        );
        json(&line)["numbers"].as_str().unwrap().to_owned()
    };
    let flat = numbers("broadcast flat -N 2 -g 4");
    let near = "(4 − 1)·10 ns + (4 − 1)·1.2 MB/(8 GB/s)";
    assert!(
        flat.starts_with(near) && flat.contains("·40 ns") && flat.contains("/(1 GB/s)"),
        "{flat}"
    );
    // Two of four ranks share each NIC, which sends M/4 of each.
    let rails = numbers("allreduce 2d-ring-pipelined -n 8 -g 4 --nics-per-node 2");
    assert!(rails.starts_with("6 x 10 ns + ") && rails.ends_with("600 kB/(1 GB/s)"), "{rails}");
}

/// What the pages say in numbers is what the engine computes.
#[test]
fn the_numbers_on_the_pages_hold() {
    let busbw = |n: f64| 370.0 * 5.0 / 6.0 * 2.0 * (n - 1.0) / (n + 1.0);
    assert_eq!((busbw(8.0).round(), busbw(5.0).round()), (480.0, 411.0));
    assert_eq!((370.0_f64 * 2.0 * 7.0 / 8.0).round(), 648.0);
    same(7e9 * 2.0, 14e9);
    assert_eq!(format!("{:.2}", 14e9 / 2_f64.powi(30)), "13.04");
    // K11 and K15: crossovers, in bytes and in units of α·BW.
    let registry = Registry::builtin();
    let flip = |collective, a: &str, b: &str, n: u32| {
        let fabric = collcost::machine::fabric::Fabric::flat(Seconds(1e-6), Bandwidth(1e11));
        let one = |name: &str| {
            let found = registry.find(collective, name).unwrap().algorithm;
            Prepared::new(found, &Shape::new(collective, n), &fabric).unwrap()
        };
        crossover(&one(a), &one(b)).unwrap().0
    };
    let bruck = |n| flip(Collective::AllToAll, "bruck", "pairwise", n) / 1e5;
    assert_eq!((bruck(4).round(), bruck(64).round(), bruck(512).round()), (4.0, 28.0, 143.0));
    // K19: the shortcut against the exact crossing of tree and ring.
    let error = |n: u32| {
        let lg = f64::from(n).log2();
        let exact = flip(Collective::AllReduce, "tree", "ring", n);
        (1e5 * f64::from(n) / (lg - 1.0) / exact - 1.0) * 100.0
    };
    assert_eq!((error(64).round(), error(1024).round(), error(8).floor()), (13.0, 1.0, 112.0));
}

#[test]
fn slips_get_three_lines() {
    let cases = [
        ("explain alreduce", "did you mean `allreduce`?"),
        ("explain busbv", "did you mean `busbw`?"),
        ("explain allreduce rign", "did you mean `ring`?"),
        ("explain allreduce ring tree", "is one too many"),
        ("explain map ring", "collcost explain allreduce ring"),
        ("explain allreduce ring 16Mb", "16 megabits"),
        ("list algoritms", "did you mean `algorithms`?"),
        ("man allreduc", "did you mean `allreduce`?"),
    ];
    for (line, part) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_collcost"))
            .args(line.split_whitespace())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(message.contains(part), "{line}: {message}");
        assert_eq!(message.lines().count(), 3, "{line}: {message}");
    }
}

#[test]
fn everything_with_a_name_is_listed() {
    let report = json("list");
    assert_eq!(report["schema"], "collcost/list/1");
    let registry = Registry::builtin();
    let algorithms = report["algorithms"].as_array().unwrap();
    assert_eq!(algorithms.len(), registry.iter().count());
    assert_eq!(report["topics"].as_array().unwrap().len(), TOPICS.len());
    assert_eq!(report["contradictions"].as_array().unwrap().len(), 26);
    assert!(report["batch"].as_array().unwrap().contains(&"crossover".into()));
    let topics = json("list topics");
    assert!(topics.get("algorithms").is_none());
}

/// Bare `collcost`: at most twenty lines, and its five commands run.
#[test]
fn the_first_screen_is_short_and_true() {
    let screen = collcost("");
    assert!(screen.lines().count() <= 20, "{screen}");
    let commands: Vec<&str> =
        screen.lines().filter_map(|l| l.strip_prefix("  collcost ")?.split("   ").next()).collect();
    assert_eq!(commands.len(), 5, "{screen}");
    for line in commands {
        collcost(line);
    }
}

#[test]
fn help_groups_the_verbs() {
    let help = collcost("--help");
    for heading in ["Ask:", "Choose:", "Measure:", "More:"] {
        assert!(help.contains(heading), "{help}");
    }
    assert_eq!(help, collcost("-h"));
    assert_eq!(help, collcost("help"));
    assert!(collcost("help explain").contains("Usage: collcost explain"));
}

#[test]
fn completions_and_pages_know_every_verb() {
    for shell in ["bash", "zsh", "fish", "nushell", "powershell", "elvish"] {
        let script = collcost(&format!("completions {shell}"));
        for verb in ["allreduce", "explain", "convert", "crossover", "choose", "replay"] {
            assert!(script.contains(verb), "{shell} {verb}");
        }
        assert!(script.contains("gpus-per-node"), "{shell}");
        // Clap's scripts for the other two complete no values.
        let values = !["powershell", "elvish"].contains(&shell);
        for name in ["dgx-h100", "nvlstree", "nccl@2.27.7"] {
            assert!(script.contains(name) == values, "{shell} {name}");
        }
    }
    // zsh runs what follows a colon that nothing escapes.
    let zsh = collcost("completions zsh");
    assert!(zsh.contains(r":NAME|rules-file\:FILE:(") && !zsh.contains("rules-file:FILE"));
    assert!(zsh.contains(r":ADDRESS\:PORT:") || !cfg!(target_os = "linux"));
    // fish completes no values of what has no flag.
    for shell in ["bash", "zsh", "nushell"] {
        assert!(collcost(&format!("completions {shell}")).contains("nccl-tuner-csv"), "{shell}");
    }
    assert!(collcost("man").contains("collcost\\-explain"));
    let page = collcost("man explain");
    assert!(page.contains(".TH") && page.contains("\\-\\-gpus\\-per\\-node"), "{page}");
    let nested = collcost("man nccl choose");
    assert!(
        nested.contains("collcost\\-nccl\\-choose") && nested.contains("\\-\\-emit"),
        "{nested}"
    );
}

/// Of an empty message the rate is still that of its links, and the switches between nodes are theirs.
#[test]
fn links_are_named_and_rated_as_they_are() {
    let explained = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
        let answer = command.args(line.split_whitespace()).output().unwrap();
        String::from_utf8(answer.stdout).unwrap()
    };
    let ring = explained("explain allreduce ring 0 -n 8 --on dgx-h100");
    assert!(ring.contains("0 B/(360 GB/s)") && !ring.contains("inf"), "{ring}");
    let rails = explained("explain allreduce ring-rails 0 -n 16 --on dgx-h100");
    assert!(!rails.contains("inf") && !rails.contains("411"), "{rails}");
    let sharp =
        explained("explain allreduce nvls-sharp 16MiB -n 64 --on dgx-h100 --alpha-switch sharp");
    assert!(sharp.contains("the switch of NDR 400G"), "{sharp}");
}

/// What pages say of a time, a minimum and a next step is what the other verbs answer.
#[test]
fn pages_agree_with_the_other_verbs() {
    let exactly = "exactly this time";
    let alike = "explain allreduce ring 16MiB -n 16 --alpha 1us --bw 100GB/s";
    assert!(collcost(alike).contains(exactly));
    for line in [
        "explain broadcast chain 4KiB -n 16",
        "explain scatter binomial 1GB -n 17 --on tcp-25g",
        "explain gather flat 16MiB -n 12 --alpha 1us --bw 100GB/s --root-speedup 2",
    ] {
        let page = collcost(line);
        assert!(page.contains("sum of the steps") && !page.contains(exactly), "{line}: {page}");
    }
    let json = |line: &str| -> serde_json::Value {
        serde_json::from_str(&collcost(&format!("{line} --format json"))).unwrap()
    };
    let tiers = json("simulate broadcast chain 4KiB -n 16");
    assert_eq!(tiers["closed_form"]["guarantee"], "sum-of-steps");
    // A root with faster links: no price is below the bound.
    let fast =
        json("gather 16MiB --algorithm flat -n 12 --alpha 1us --bw 100GB/s --root-speedup 2");
    let ratio = fast["algorithms"][0]["bound_ratio"].as_f64().unwrap();
    assert!(ratio >= 1.0, "{ratio}");
    // On a switch that adds all rows have the same minimum.
    let page = json("explain allreduce -n 8");
    let row = |id: &str| {
        let rows = page["algorithms"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == id).unwrap()["bandwidth_ratio"].as_f64().unwrap()
    };
    assert_eq!((page["least_share"].as_f64(), row("inc"), row("ring")), (Some(1.0), 1.0, 1.75));
    assert_eq!(json("explain allreduce ring 16MiB -n 1")["time_s"], 0.0);
    let barrier = collcost("explain barrier -n 8");
    let next = barrier.lines().filter_map(|line| line.trim().strip_prefix("collcost "));
    let next: Vec<&str> = next.filter(|line| !line.contains('`')).collect();
    assert!(next.len() > 2, "{barrier}");
    for line in next {
        collcost(line);
    }
}
