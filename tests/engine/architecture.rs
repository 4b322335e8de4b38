//! Data flows one way: a room uses only those above it in the list.

use std::fs;
use std::path::{Path, PathBuf};

const ROOMS: &[&str] = &[
    "base", "model", "machine", "cost", "exchange", "library", "measure", "run", "plan", "answer",
    "view",
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Each file of the library, by its place below `src`, without its tests.
fn library() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let named = files.into_iter().filter(|file| !file.ends_with("tests.rs")).map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("").to_owned();
        (file.strip_prefix(&src).unwrap().to_string_lossy().into_owned(), code)
    });
    // The command stands above the library.
    named.filter(|(name, _)| name != "main.rs" && !name.starts_with("cli")).collect()
}

#[test]
fn rooms_use_only_what_lies_below() {
    let floor = |room: &str| ROOMS.iter().position(|r| *r == room);
    for (name, code) in library().iter().filter(|(name, _)| name.contains('/')) {
        let own =
            floor(name.split('/').next().unwrap()).unwrap_or_else(|| panic!("{name}: no room"));
        for rest in code.split("crate::").skip(1) {
            let used = rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or("");
            assert!(floor(used).is_none_or(|used| used <= own), "{name} must not use `{used}`");
        }
    }
}

#[test]
fn the_library_neither_prints_nor_exits_nor_reads_the_environment() {
    for (name, code) in library() {
        for word in ["println!", "eprint", "process::exit", "env::var", "todo!", "unimplemented!"] {
            assert!(!code.contains(word), "{name} contains {word}");
        }
    }
}
