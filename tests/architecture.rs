//! Data flows one way: which module may use which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module and what it may use; a module always may use itself.
///
/// `formula` and `algorithm` know each other: a composition asks the field for its parts' costs.
const ALLOWED: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("quantity", &["error"]),
    ("link", &["quantity"]),
    ("collective", &["error", "quantity"]),
    ("topology", &["error", "quantity"]),
    ("presets", &["error", "quantity", "formula", "collective"]),
    ("host", &["quantity"]),
    ("size_is", &["collective", "error", "quantity"]),
    ("schedule", &["collective", "formula"]),
    ("formula", &["algorithm", "collective", "error", "quantity"]),
    ("algorithm", &["collective", "error", "formula", "quantity", "schedule"]),
    ("fabric", &["algorithm", "collective", "error", "formula", "link", "quantity"]),
    ("peers", &["error", "fabric", "quantity"]),
    ("bound", &["collective", "error", "fabric", "formula", "quantity"]),
    ("price", &["algorithm", "collective", "error", "fabric", "formula", "link", "quantity"]),
    ("rank", &["algorithm", "error", "fabric", "formula", "price", "quantity"]),
    ("crossover", &["price", "quantity", "rank"]),
    (
        "select",
        &[
            "algorithm",
            "collective",
            "error",
            "fabric",
            "formula",
            "nccl",
            "price",
            "quantity",
            "rules",
        ],
    ),
    ("bucket", &["error", "quantity", "sample"]),
    (
        "entry",
        &["collective", "config", "error", "formula", "place", "profile", "quantity", "query"],
    ),
    (
        "check",
        &[
            "algorithm",
            "bound",
            "collective",
            "entry",
            "error",
            "expect",
            "import",
            "place",
            "plan",
            "quantity",
            "query",
            "size_is",
            "expect",
            "verdict",
        ],
    ),
    (
        "plan",
        &[
            "algorithm",
            "bucket",
            "collective",
            "entry",
            "error",
            "fabric",
            "formula",
            "place",
            "price",
            "quantity",
            "query",
            "sample",
            "expect",
            "what_if",
        ],
    ),
    ("what_if", &["error", "fabric", "quantity"]),
    ("place", &["error"]),
    ("config", &["error", "fabric", "formula", "place", "quantity"]),
    ("nccl", &["collective", "error", "quantity"]),
    ("sample", &["collective", "error", "formula", "nccl", "quantity"]),
    (
        "fit",
        &[
            "algorithm",
            "collective",
            "curve",
            "error",
            "formula",
            "link",
            "nccl",
            "profile",
            "quantity",
            "random",
            "sample",
        ],
    ),
    ("curve", &["collective", "error", "quantity", "sample"]),
    ("placement", &["curve", "fabric"]),
    (
        "expect",
        &[
            "algorithm",
            "bound",
            "collective",
            "curve",
            "error",
            "fabric",
            "formula",
            "nccl",
            "placement",
            "price",
            "profile",
            "quantity",
            "query",
            "rank",
            "sample",
            "select",
        ],
    ),
    (
        "accuracy",
        &[
            "algorithm",
            "collective",
            "curve",
            "error",
            "expect",
            "formula",
            "import",
            "profile",
            "quantity",
            "query",
            "sample",
            "select",
        ],
    ),
    (
        "verdict",
        &[
            "algorithm",
            "bound",
            "collective",
            "curve",
            "error",
            "expect",
            "import",
            "mock",
            "nccl",
            "quantity",
            "query",
            "rank",
            "sample",
        ],
    ),
    ("replay", &["error", "schedule"]),
    ("secret", &["error"]),
    ("transport", &["error", "sample", "secret"]),
    (
        "execute",
        &["algorithm", "collective", "error", "quantity", "sample", "schedule", "transport"],
    ),
    ("random", &[]),
    (
        "calibrate",
        &["algorithm", "error", "execute", "fit", "link", "quantity", "random", "sample"],
    ),
    ("gpu", &["error", "import", "launch", "nccl", "quantity", "random", "rendezvous", "sample"]),
    ("launch", &["algorithm", "error", "execute", "quantity", "sample", "secret", "transport"]),
    (
        "rendezvous",
        &[
            "algorithm",
            "calibrate",
            "error",
            "execute",
            "launch",
            "quantity",
            "sample",
            "secret",
            "transport",
        ],
    ),
    (
        "mock",
        &[
            "algorithm",
            "collective",
            "curve",
            "error",
            "expect",
            "fabric",
            "formula",
            "nccl",
            "price",
            "profile",
            "quantity",
            "query",
            "random",
            "rank",
            "sample",
            "schedule",
            "simulate",
        ],
    ),
    ("notes", &["collective", "error"]),
    (
        "profile",
        &[
            "collective",
            "curve",
            "error",
            "fabric",
            "formula",
            "link",
            "nccl",
            "place",
            "quantity",
            "sample",
        ],
    ),
    (
        "query",
        &[
            "collective",
            "curve",
            "error",
            "fabric",
            "formula",
            "link",
            "nccl",
            "placement",
            "profile",
            "quantity",
            "sample",
            "what_if",
        ],
    ),
    ("simulate", &["collective", "error", "fabric", "formula", "link", "quantity", "schedule"]),
    (
        "batch",
        &[
            "algorithm",
            "collective",
            "crossover",
            "error",
            "expect",
            "fabric",
            "fit",
            "formula",
            "nccl",
            "profile",
            "quantity",
            "query",
            "replay",
            "schedule",
            "simulate",
        ],
    ),
    ("export", &["collective", "error", "fabric", "quantity", "rules", "schedule"]),
    ("rules", &["collective", "error", "nccl", "quantity"]),
    (
        "import",
        &[
            "collective",
            "error",
            "export",
            "nccl",
            "quantity",
            "rules",
            "sample",
            "schedule",
            "size_is",
        ],
    ),
    (
        "spell_out",
        &[
            "algorithm",
            "error",
            "expect",
            "formula",
            "price",
            "quantity",
            "query",
            "rank",
            "schedule",
        ],
    ),
    (
        "trial",
        &[
            "algorithm",
            "collective",
            "error",
            "fabric",
            "formula",
            "price",
            "quantity",
            "schedule",
            "simulate",
        ],
    ),
    (
        "tune",
        &[
            "algorithm",
            "collective",
            "error",
            "expect",
            "formula",
            "import",
            "nccl",
            "quantity",
            "query",
            "rules",
            "sample",
            "schedule",
            "select",
        ],
    ),
    (
        "report",
        &[
            "accuracy",
            "algorithm",
            "batch",
            "bound",
            "bucket",
            "calibrate",
            "check",
            "collective",
            "config",
            "crossover",
            "curve",
            "error",
            "execute",
            "fabric",
            "fit",
            "formula",
            "import",
            "launch",
            "link",
            "nccl",
            "notes",
            "place",
            "plan",
            "presets",
            "price",
            "profile",
            "quantity",
            "query",
            "rank",
            "replay",
            "sample",
            "schedule",
            "select",
            "simulate",
            "spell_out",
            "expect",
            "trial",
            "what_if",
            "verdict",
        ],
    ),
    (
        "render",
        &[
            "accuracy",
            "algorithm",
            "check",
            "collective",
            "curve",
            "error",
            "expect",
            "fit",
            "nccl",
            "profile",
            "quantity",
            "report",
            "simulate",
            "verdict",
        ],
    ),
    ("lib", &["collective", "error"]),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Module → the modules that its files name behind `crate::`.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let inside = file.strip_prefix(&src).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs").to_owned();
        // The command stands above the library.
        if matches!(module.as_str(), "main" | "cli") {
            continue;
        }
        // A test may look anywhere.
        if file.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        let used = code.split("crate::").skip(1).map(|rest| {
            rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or("")
        });
        let lower = used.filter(|m| m.starts_with(|c: char| c.is_ascii_lowercase()));
        let entry = arrows.entry(module.clone()).or_default();
        entry.extend(lower.filter(|m| *m != module).map(str::to_owned));
    }
    arrows
}

#[test]
fn modules_use_only_what_lies_below() {
    let mut wrong = Vec::new();
    for (module, used) in arrows() {
        let allowed = ALLOWED.iter().find(|(m, _)| *m == module);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("`{module}` is not in the list"));
        for other in used {
            if !allowed.contains(&other.as_str()) {
                wrong.push(format!("`{module}` must not use `{other}`"));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

#[test]
fn the_library_neither_prints_nor_exits_nor_reads_the_environment() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    for file in files {
        let name = file.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        if name == "main.rs" || name.starts_with("cli") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for word in ["println!", "eprint", "process::exit", "env::var", "todo!", "unimplemented!"] {
            assert!(!code.contains(word), "{name} contains {word}");
        }
    }
}
