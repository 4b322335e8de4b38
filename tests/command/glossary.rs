//! The glossary defines what the screens print, and `explanations.md` is what `collcost explain` says.
//!
//! `TRYCMD=overwrite cargo test --test command glossary` writes the latter.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use collcost::answer::explain;
use collcost::answer::notes::TOPICS;
use collcost::base::format::Format;
use collcost::view::Look;
use collcost::view::explain::explanation;

use super::pages::{END, overwrite, read, root};

const HEAD: &str = "\
# Explanations

Every page of `collcost explain TOPIC`, written by `TRYCMD=overwrite cargo test --test command glossary` and
checked by `cargo test`. Numbers are for 8 ranks; `-n` asks for others. `collcost explain COLLECTIVE` and
`collcost explain COLLECTIVE ALGORITHM` derive formulas with numbers put in, and are not repeated here.
";

#[test]
fn the_explanations_are_what_the_command_says() {
    let mut page = HEAD.to_owned();
    for topic in TOPICS {
        let report = explain::topic(topic.id, None, None).expect("a topic explains itself");
        let mut text = Vec::new();
        explanation(&report).write(&mut text, Format::Markdown, Look::default()).expect("memory");
        let text = String::from_utf8(text).expect("text");
        // One title a page: the topics' headings go one level down, and are named as they are asked.
        let (_, body) = text.trim().split_once('\n').expect("a heading and more");
        let body = body.replace("\n#", "\n##");
        page += &format!("\n## {}\n\n{}\n\n{}\n", topic.id, topic.title, body.trim());
    }
    let file = root().join("docs/reference/explanations.md");
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let (kept, neighbours) = kept.split_once(END).unwrap_or((&kept, ""));
    if overwrite() {
        fs::write(&file, format!("{page}{END}{neighbours}")).expect("it can be written");
    } else {
        assert!(kept == page, "docs/reference/explanations.md is not what the command says");
    }
}

/// Term, meaning and where there is more, of each row.
fn rows(page: &str) -> impl Iterator<Item = [&str; 3]> {
    page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| term |")).map(
        |line| {
            let mut cells = line[1..line.len() - 1].split('|').map(str::trim);
            [(); 3].map(|()| cells.next().expect("three cells"))
        },
    )
}

#[test]
fn the_glossary_defines_what_the_first_screens_print() {
    let page = read(&root().join("docs/reference/glossary.md"));
    let mut terms = BTreeSet::new();
    let mut linked = BTreeSet::new();
    for [term, meaning, more] in rows(&page) {
        assert!(!meaning.is_empty(), "{term}");
        for name in term.split(", ") {
            assert!(terms.insert(name.to_owned()), "{name} is defined twice");
        }
        if let Some((_, id)) = more.split_once("(explanations.md#") {
            linked.insert(id.trim_end_matches(')'));
        }
    }
    let all: BTreeSet<&str> = TOPICS.iter().map(|t| t.id).collect();
    assert_eq!(linked, all, "each topic is reached from a word of the glossary");

    // The labels before the answer, and the heads of the table's columns.
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    let output = command.args("allreduce -n 64 --size 16MiB".split(' ')).output();
    let screen = String::from_utf8(output.expect("it starts").stdout).expect("text");
    let [_, answer, table] = screen.split("\n\n").collect::<Vec<_>>()[..] else {
        panic!("the screen is not question, answer, table:\n{screen}")
    };
    let words = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let labels = answer.lines().map(|line| words(line).swap_remove(0));
    let heads = words(table.lines().next().expect("a head"));
    for word in labels.chain(heads) {
        assert!(terms.contains(&word), "`{word}` is printed and not in the glossary");
    }
}
