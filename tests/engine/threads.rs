//! Verdicts held to solved public threads, `tests/data/solved_threads.toml`, by the command.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cores;

/// What may be wrong, by thread, with why.
const MISSED: &[(i64, &str)] = &[
    // 57 GB/s over two p4d in 2021, with three of four EFA; AWS's own of today has 78, by the same tree.
    (3, "healthy"),
    // One GPU on each of two nodes at 2 MiB: between two clusters that are a third faster and what is slow. Inside
    // the band, as a run that is slowed by 1.5 might be.
    (8, "healthy"),
    // 150 of 200 GB/s over five nodes is what healthy clusters have, too.
    (9, "ill"),
    // Two p3dn at 1.08 times what nine of ten healthy runs take: other clusters of two nodes are faster.
    (26, "healthy"),
    // Two p3dn at half of what the same thread calls healthy, by a tree.
    (26, "cannot tell"),
];

struct Question {
    number: i64,
    words: Vec<String>,
    verdicts: Vec<String>,
    causes: Vec<String>,
}

fn texts(of: Option<&toml::Value>) -> Vec<String> {
    let all = of.and_then(|v| v.as_array()).into_iter().flatten();
    all.map(|v| v.as_str().expect("a word").to_owned()).collect()
}

fn file(name: &str, content: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("threads");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn value(words: &[String], flag: &str) -> f64 {
    let at = words.iter().position(|w| w == flag).expect("the flag");
    words[at + 1].parse().expect("a number")
}

/// Figures of several sizes as a file, with what is asked beside it.
fn figures(name: &str, words: &[String], points: &[toml::Value], as_times: bool) -> Vec<String> {
    let n = value(words, "-n");
    let mut csv = "collective,n_ranks,nodes,bytes,dtype,time_us\n".to_owned();
    for point in points {
        let bytes = point[0].as_str().unwrap().parse::<collcost::base::quantity::Bytes>().unwrap();
        let figure = point[1].as_float().unwrap_or_else(|| point[1].as_integer().unwrap() as f64);
        let time = match as_times {
            true => figure,
            false => bytes.0 as f64 * 2.0 * (n - 1.0) / n / figure / 1e3,
        };
        csv += &format!("all_reduce,{n},{},{},float,{time:.4}\n", value(words, "--nodes"), bytes.0);
    }
    let at = words.iter().position(|w| w == "--on").expect("a machine");
    vec![file(name, &csv), "--on".to_owned(), words[at + 1].clone()]
}

fn questions() -> Vec<Question> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/solved_threads.toml");
    let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let mut all = Vec::new();
    for thread in table["thread"].as_array().unwrap() {
        let number = thread["number"].as_integer().unwrap();
        for question in thread["question"].as_array().unwrap() {
            let ask = question["ask"].as_str().unwrap();
            let mut words: Vec<String> = ask.split(' ').map(str::to_owned).collect();
            for (key, as_times) in [("points", false), ("points_us", true)] {
                if let Some(points) = question.get(key).and_then(|p| p.as_array()) {
                    words = figures(&format!("{number}.csv"), &words, points, as_times);
                }
            }
            let said = texts(question.get("said"));
            if !said.is_empty() {
                let said = file(&format!("{number}-said.txt"), &(said.join("\n") + "\n"));
                words.extend(["--evidence".to_owned(), said]);
            }
            all.push(Question {
                number,
                words,
                verdicts: texts(question.get("verdict")),
                causes: texts(question.get("cause")),
            });
        }
    }
    all
}

/// The verdict of a question, and the causes' ids.
fn asked(words: &[String]) -> (String, Vec<String>) {
    let command = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .arg("compare")
        .args(words)
        .args(["--format", "json"])
        .output()
        .expect("it starts");
    if command.status.code() == Some(2) {
        return ("refused".to_owned(), Vec::new());
    }
    let report: Value = serde_json::from_slice(&command.stdout).expect("JSON");
    let run = &report["runs"][0];
    let causes = run["causes"].as_array().expect("causes").iter();
    let ids = causes.map(|c| c["id"].as_str().expect("an id").to_owned());
    (run["verdict"].as_str().expect("a verdict").to_owned(), ids.collect())
}

#[test]
fn threads_get_the_right_verdict() {
    let all: Vec<Question> = questions();
    let answers = cores::spread(&all, |question| asked(&question.words));
    let (mut wrong, mut sums) = (Vec::new(), [0; 3]);
    for half in [1, 0] {
        let (mut right, mut of, mut ill, mut first, mut three) = (0, 0, 0, 0, 0);
        for (question, (verdict, causes)) in all.iter().zip(&answers) {
            if question.number % 2 != half {
                continue;
            }
            of += 1;
            right += u32::from(question.verdicts.contains(verdict));
            if !question.verdicts.contains(verdict) {
                wrong.push((question.number, question.verdicts[0].clone(), verdict.clone()));
            }
            if question.verdicts == ["ill"] {
                let place = causes.iter().position(|c| question.causes.contains(c));
                ill += 1;
                first += u32::from(place == Some(0));
                three += u32::from(place.is_some_and(|place| place < 3));
            }
        }
        sums = [sums[0] + ill, sums[1] + first, sums[2] + three];
        println!(
            "half {half}: {right} of {of} verdicts; of {ill} ill a right cause first {first}, among three {three}"
        );
    }
    let known = |w: &(i64, String, String)| MISSED.contains(&(w.0, w.1.as_str()));
    assert!(wrong.iter().all(known), "{wrong:?}");
    // docs/background/verdicts.md has the three whose cause is not first.
    assert_eq!(sums, [12, 9, 11]);
}
