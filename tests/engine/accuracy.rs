//! Accuracy: fits see training rows only, bands hold what they promise, scores are right.

use collcost::base::quantity::Ratio;
use collcost::measure::accuracy::answer::{is_published, map, published};
use collcost::measure::accuracy::{Cell, Family, Model, Split, accuracy, cells};
use collcost::measure::logs::{Asked, Imported, read};

/// splitmix64: noise that is the same on every machine.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal, by the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// All-reduce by a made-up library on one node or several: µs by N, nodes and bytes.
fn time(n: f64, nodes: f64, m: f64) -> f64 {
    let rate = if nodes > 1.0 { 20e3 } else { 230e3 };
    let latency = 8.0 + 0.9 * (n - nodes) + 5.0 * (nodes - 1.0);
    let bytes = m * (2.0 * (n - 1.0) / n + 0.4) / rate;
    latency + 0.3 * (latency * bytes).sqrt() + bytes
}

fn table(system: &str, library: &str, on: &[(u32, u32)], noise: f64, seed: u64) -> Imported {
    let mut random = Noise(seed);
    let mut text = String::from("system,library,collective,n_ranks,nodes,bytes,dtype,time_us\n");
    for &(n, nodes) in on {
        for i in 9..=29 {
            let m = 1_u64 << i;
            let us = time(n.into(), nodes.into(), m as f64) * (noise * random.normal()).exp();
            text += &format!("{system},{library},all_reduce,{n},{nodes},{m},half,{us:.4}\n");
        }
    }
    read(text.as_bytes(), &format!("{system}.csv"), &Asked::default()).unwrap()
}

const NODE: [(u32, u32); 3] = [(2, 1), (4, 1), (8, 1)];
const CLUSTER: [(u32, u32); 5] = [(8, 1), (16, 2), (32, 4), (64, 8), (128, 16)];

/// The promise that matters: what was held out cannot have been looked at.
#[test]
fn changing_held_out_values_changes_no_prediction() {
    let logs = [
        table("h100_sxm", "nccl", &NODE, 0.02, 1),
        table("h200_sxm", "nccl", &NODE, 0.02, 2),
        table("site", "nccl", &CLUSTER, 0.02, 3),
    ];
    let cells = cells(&logs);
    let mut seen = 0;
    for cell in &cells {
        for split in Split::ALL {
            for part in split.parts(cell, &cells) {
                let spoilt: Vec<_> = part
                    .test
                    .iter()
                    .enumerate()
                    .map(|(i, o)| {
                        let factor = Ratio(10.0 + i as f64);
                        collcost::machine::curve::Observation { time: o.time * factor, ..*o }
                    })
                    .collect();
                for model in Model::ALL {
                    let honest = model.predict(cell, &part.train, &part.test);
                    let spoilt = model.predict(cell, &part.train, &spoilt);
                    assert_eq!(honest, spoilt, "{} {}", split.id(), model.id());
                    seen += usize::from(honest.is_some());
                }
                assert!(part.train.iter().all(|t| !part.same_machine
                    || !part.test.iter().any(|o| (o.placed, o.size) == (t.placed, t.size))));
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

/// The same through the whole command: only the scores of what was spoilt change.
#[test]
fn a_cell_is_split_as_it_is_told() {
    let log = [table("site", "nccl", &CLUSTER, 0.0, 1)];
    let cells = cells(&log);
    assert_eq!(cells.len(), 1);
    let parts = |split: Split| split.parts(&cells[0], &cells);
    let ranks = |split: Split| -> Vec<u32> {
        parts(split).iter().map(|p| p.test[0].placed.ranks).collect()
    };
    assert_eq!(ranks(Split::LargestN), [128]);
    assert_eq!(ranks(Split::SmallestN), [8]);
    assert_eq!(ranks(Split::MiddleN), [16, 32, 64]);
    // Of one node nothing is said of several: 16 ranks cannot be asked of 8.
    assert_eq!(ranks(Split::Twice), [32, 64, 128]);
    assert_eq!(ranks(Split::FourTimes), [64, 128]);
    assert_eq!(ranks(Split::EightTimes), [128]);
    for part in [Split::Twice, Split::FourTimes, Split::EightTimes].map(parts).concat() {
        let most = part.train.iter().map(|o| o.placed.ranks).max().unwrap();
        assert!(part.test[0].placed.ranks >= 2 * most, "{most}");
    }
    let sizes: Vec<u64> = parts(Split::Sizes)[0].train.iter().map(|o| o.size.0).collect();
    assert!(sizes.contains(&512) && !sizes.contains(&1024) && sizes.contains(&(1 << 29)));
    let mut three: Vec<u64> = parts(Split::ThreeSizes)[0].train.iter().map(|o| o.size.0).collect();
    three.sort_unstable();
    three.dedup();
    assert_eq!(three, [1 << 10, 1 << 20, 1 << 29]);
    assert!(parts(Split::Sibling).is_empty());
}

/// A sweep of each number of ranks is often a log of its own.
#[test]
fn logs_of_one_machine_are_joined() {
    let log = |nodes: u32| table("site", "nccl", &[(8 * nodes, nodes)], 0.0, 1);
    let all = cells(&[log(1), log(2), table("other", "nccl", &NODE, 0.0, 1), log(4)]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].placed().len(), 3);
    assert_eq!(all[0].file, "site.csv + site.csv + site.csv");
    // Another sweep of the same ranks may be of another version.
    assert_eq!(cells(&[log(1), log(2), log(1)]).len(), 2);
}

const HEAD: &str = "cluster,profile,collective,n,nodes,bytes,time_us,judged\n";

#[test]
fn published_points_read_or_say_where_not() {
    assert!(is_published(HEAD) && !is_published("system,library,n_ranks\n"));
    let read = |rows: &str| published(&format!("{HEAD}{rows}"), "points.csv");
    let points = read("a,dgx-h100,allreduce,8,1,1024,20,1\na,dgx-h100,allreduce,8,1,9,9,0\n");
    assert_eq!(points.unwrap().len(), 1);
    for (row, word) in [
        ("a,dgx-h100,allreduce,8,3,1024,20,1\n", "evenly"),
        ("a,dgx-h100,allreduce,8,1,1024,0,1\n", "above 0"),
        ("a,dgx-h100,allsum,8,1,1024,20,1\n", "allsum"),
        ("a,dgx-h100,allreduce,x,1,1024,20,1\n", "not a table"),
    ] {
        let said = read(row).unwrap_err().to_string();
        assert!(said.contains(word) && said.contains("points.csv:2"), "{said}");
    }
    assert!(map("file,profile\na.csv,dgx-h100\n", "m.csv").unwrap().contains_key("a.csv"));
    assert!(map("file,machine\na.csv,dgx-h100\n", "m.csv").is_err());
}

#[test]
fn machines_of_one_kind_are_siblings() {
    let logs = [
        table("b200_sxm", "nccl", &NODE, 0.0, 1),
        table("b300_sxm", "nccl", &NODE, 0.0, 2),
        table("l40s", "nccl", &NODE, 0.0, 3),
    ];
    let cells = cells(&logs);
    let siblings =
        |c: &Cell| Split::Sibling.parts(c, &cells).iter().filter(|p| !p.same_machine).count();
    assert_eq!(cells.iter().map(siblings).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn families_are_told_by_library_nodes_and_rate() {
    let family = |system: &str, library: &str, on: &[(u32, u32)]| {
        cells(&[table(system, library, on, 0.0, 1)])[0].family
    };
    assert_eq!(family("h100_sxm", "nccl", &NODE), Family::Nvlink);
    assert_eq!(family("site", "nccl", &CLUSTER), Family::NcclMultinode);
    assert_eq!(family("site", "openmpi", &CLUSTER), Family::Mpi);
    assert_eq!(family("azure_hb120", "openmpi", &CLUSTER), Family::Cloud);
}

#[test]
fn a_model_that_made_the_times_predicts_them_and_the_textbook_does_not() {
    let scores = accuracy(&[table("site", "nccl", &CLUSTER, 0.0, 1)]).scores;
    let of = |split, model| {
        let found = scores.iter().find(|s| s.split == split && s.model == model);
        found.map_or_else(|| panic!("no {split:?} by {model:?}"), |s| (s.median.0, s.p90.0))
    };
    // Without 16 ranks, the fewest over nodes, two tiers stand between what is left.
    for (split, most) in [(Split::Sizes, 0.02), (Split::MiddleN, 0.25), (Split::LargestN, 0.1)] {
        let (median, p90) = of(split, Model::Profile);
        assert!(median < 0.02 && p90 < most, "{split:?} {median} {p90}");
        assert!(of(split, Model::TextbookRing).0 > 3.0 * median, "{split:?}");
    }
    assert!(scores.iter().all(|s| s.family == Family::NcclMultinode));
}

/// Bands are as wide as what is held out varies. The factors in them are for times with the structure
/// of real ones, of which 8 of 10 lie inside; of noise alone somewhat fewer do.
#[test]
fn bands_hold_what_they_promise() {
    let logs: Vec<Imported> =
        (0..12).map(|i| table(&format!("m{i}"), "nccl", &NODE, 0.03, 100 + i)).collect();
    let scores = accuracy(&logs).scores;
    let found =
        scores.iter().find(|s| s.split == Split::Sizes && s.model == Model::Profile).unwrap();
    let (rows, inside) = found.inside.unwrap();
    assert_eq!(rows, 12 * 3 * 10);
    assert!((0.62..=0.90).contains(&inside.0), "{inside:?}");
}
