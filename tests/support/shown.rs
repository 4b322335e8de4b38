//! Every command that the documents and the transcripts show.

use std::path::PathBuf;
use std::process::{Command, Output};

#[path = "pages.rs"]
mod pages;

/// Every Markdown file that shows commands.
fn documents() -> Vec<PathBuf> {
    let folders = ["docs", "tests/cmd/questions", "tests/cmd/pages"];
    let mut files: Vec<PathBuf> = folders.into_iter().flat_map(pages::pages).collect();
    files.push(pages::root().join("README.md"));
    files.sort();
    files
}

/// The words of a command line; quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().expect("there is one").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

pub fn commands() -> Vec<Vec<String>> {
    let texts = documents().into_iter().map(|f| std::fs::read_to_string(f).expect("text"));
    let lines = texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut all: Vec<_> = lines.filter_map(|l| l.strip_prefix("$ collcost").map(words)).collect();
    all.sort();
    all.dedup();
    all
}

pub fn run(words: &[String], more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(words).args(more).output().expect("it starts")
}
