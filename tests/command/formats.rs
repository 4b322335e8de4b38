//! Every report is written in every format. `tests/data/formats.txt` asks each verb that has
//! `--format`; a test of the command line holds the list to them.

use std::process::{Command, Output};

use serde_json::Value;

use crate::full::one_in;

fn asked() -> impl Iterator<Item = &'static str> {
    include_str!("../data/formats.txt").lines()
}

fn run(line: &str, format: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(line.split(' ')).args(["--format", format]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("it starts")
}

/// What a report says; some say with their exit code that something is not well.
fn written(line: &str, format: &str) -> String {
    let output = run(line, format);
    let error = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(!text.trim().is_empty(), "{line} --format {format}: {error}");
    assert!(!error.contains("error: invalid"), "{line} --format {format}: {error}");
    text
}

#[test]
fn every_report_has_every_format() {
    for line in asked().step_by(one_in(2)) {
        for format in ["text", "markdown", "latex"] {
            written(line, format);
        }
        let report: Value = serde_json::from_str(&written(line, "json")).expect(line);
        assert!(report["schema"].as_str().is_some_and(|s| s.starts_with("collcost/")), "{line}");
        for table in written(line, "csv").split("\n\n") {
            let mut reader = csv::Reader::from_reader(table.trim_start().as_bytes());
            let columns = reader.headers().expect(line).len();
            // Rows of another length are errors.
            let rows = reader.records().map(|row| row.expect(line).len()).collect::<Vec<_>>();
            assert!(columns > 0 && rows.iter().all(|cells| *cells == columns), "{line}");
        }
    }
}

#[test]
fn formats_have_other_names() {
    for (format, alias) in [("text", "table"), ("markdown", "md"), ("latex", "tex")] {
        assert_eq!(written("list", format), written("list", alias));
    }
}

#[test]
fn an_unknown_format_is_refused_with_what_there_is() {
    let output = run("config", "jsn");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("text, markdown, csv, json, latex"), "{error}");
    assert!(error.contains("a similar value exists: 'json'"), "{error}");
    assert_eq!(run("trace allreduce ring -n 4", "nccl-tests").status.code(), Some(2));
}

/// Behind the end of a line, LaTeX reads `[` and `*` as what belongs to it.
#[test]
fn no_row_of_latex_begins_with_an_option() {
    let table = written("list parameters", "latex");
    assert!(table.contains("{[}defaults{]}"), "{table}");
    for line in asked() {
        let text = written(line, "latex");
        assert!(!text.lines().any(|l| l.starts_with(['[', '*'])), "{line}: {text}");
    }
}

/// The page of one size is the same in all notations for people.
#[test]
fn the_choice_of_a_size_has_its_tables_in_documents() {
    let line = "choose allreduce 16MiB -n 16 --on dgx-h100 --policy openmpi";
    let text = written(line, "text");
    assert!(text.contains("the library's name") && text.contains("source"), "{text}");
    for format in ["markdown", "latex"] {
        let document = written(line, format);
        assert!(
            document.contains("the library's name") && document.contains("source"),
            "{document}"
        );
    }
    assert_eq!(written(line, "csv").lines().count(), 2);
}

/// What a star marks in a table of states is said below it, and is no list.
#[test]
fn the_legend_of_a_trace_is_no_markup() {
    let page = written("trace allreduce ring -n 4", "markdown");
    assert!(page.contains("\n\\*         written in this step\n"), "{page}");
    // The table says the same as on a terminal.
    assert!(page.contains("* |"), "{page}");
}
