//! The glossary and the explanations are what `collcost explain` says of words and topics.
//!
//! `TRYCMD=overwrite cargo test --test command glossary` writes both pages.

use std::fs;

use collcost::answer::explain;
use collcost::answer::notes::{Piece, TOPICS, Topic, WORDS, Word};
use collcost::base::format::Format;
use collcost::view::Look;
use collcost::view::explain::explanation;

use super::pages::{END, overwrite, root};

const HEAD: &str = "\
# Explanations

Every page of `collcost explain TOPIC` but `words`, which is [the glossary](glossary.md), and the contradictions K1 to
K26; written by `TRYCMD=overwrite cargo test --test command glossary` and checked by `cargo test`. Numbers are for 8 ranks; `-n` asks for others. `collcost explain COLLECTIVE` and
`collcost explain COLLECTIVE ALGORITHM` derive formulas with numbers put in, and are not repeated here.
";

const WORDS_HEAD: &str = "\
# Glossary

What the words on the screens mean: the table behind `collcost explain WORD`, written by `TRYCMD=overwrite cargo
test --test command glossary` and checked by `cargo test`. In parentheses are other words for the same. The last
column is a command that says more. [Explanations](explanations.md) treat topics in full.

| word | meaning | more |
| --- | --- | --- |
";

/// Writes the page, or holds it to `page`; what leads to its neighbours stays.
fn fresh(name: &str, page: &str) {
    let file = root().join(name);
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let (kept, neighbours) = kept.split_once(END).unwrap_or((&kept, ""));
    if overwrite() {
        fs::write(&file, format!("{page}{END}{neighbours}")).expect("it can be written");
    } else {
        assert!(kept == page, "{name} is not what the command says");
    }
}

#[test]
fn the_explanations_are_what_the_command_says() {
    let mut page = HEAD.to_owned();
    // The glossary has the words.
    let words = |topic: &&Topic| topic.pieces.iter().any(|piece| matches!(piece, Piece::Words));
    for topic in TOPICS.iter().filter(|topic| !words(topic)) {
        let report = explain::topic(topic.id, None, None).expect("a topic explains itself");
        let mut text = Vec::new();
        explanation(&report).write(&mut text, Format::Markdown, Look::default()).expect("memory");
        let text = String::from_utf8(text).expect("text");
        // One title a page: the topics' headings go one level down, and are named as they are asked.
        let (_, body) = text.trim().split_once('\n').expect("a heading and more");
        let body = body.replace("\n#", "\n##");
        page += &format!("\n## {}\n\n{}\n\n{}\n", topic.id, topic.title, body.trim());
    }
    fresh("docs/reference/explanations.md", &page);
}

/// Every command that a word names has a help of its own.
#[test]
fn words_name_commands_that_exist() {
    for word in WORDS {
        let in_text = word.means.split('`').filter_map(|part| part.strip_prefix("collcost "));
        for line in in_text.chain([word.next]) {
            let verbs = line.split(' ').take_while(|part| !part.starts_with('-'));
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_collcost"));
            let said = command.args(verbs).arg("--help").output().expect("it starts");
            assert!(said.status.success(), "{}: collcost {line}", word.names[0]);
        }
    }
}

/// A cell of a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_glossary_is_the_words_that_the_command_explains() {
    let mut words: Vec<&Word> = WORDS.iter().collect();
    words.sort_by_key(|word| word.names[0].to_lowercase());
    let mut page = WORDS_HEAD.to_owned();
    for Word { names, means, next } in words {
        let others = names[1..].join(", ");
        let others = if others.is_empty() { others } else { format!(" ({others})") };
        let topic = next.strip_prefix("explain ").filter(|id| TOPICS.iter().any(|t| t.id == *id));
        let more = topic.map_or_else(
            || format!("`collcost {next}`"),
            |id| format!("[`collcost {next}`](explanations.md#{id})"),
        );
        page +=
            &format!("| **{}**{} | {} | {more} |\n", cell(names[0]), cell(&others), cell(means));
    }
    fresh("docs/reference/glossary.md", &page);
}
