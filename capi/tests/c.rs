//! The header and the library from a C program: `examples/c/price.c`, compiled with `cc` and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the shared library, which cargo builds for nobody who asks for tests alone.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("a test has a path");
        let folder = test.parent().and_then(Path::parent).expect("target/debug/deps");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--package", env!("CARGO_PKG_NAME")])
            .arg("--target-dir")
            .arg(folder.parent().expect("target"))
            .status();
        assert!(status.expect("cargo starts").success());
        folder.to_owned()
    })
}

/// Compiles a program against the header, as C11 and strictly, and runs it.
fn run(source: &Path, name: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("collcost-c-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join(name);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
        .arg(source)
        .arg(format!("-I{}", root.display()))
        .arg(format!("-L{}", built().display()))
        .args(["-lcollcost", "-o"])
        .arg(&program)
        .output()
        .expect("cc starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output =
        Command::new(&program).env("LD_LIBRARY_PATH", built()).output().expect("it starts");
    std::fs::remove_dir_all(&folder).expect("ours");
    output
}

#[test]
fn a_c_program_prices_an_all_reduce() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = run(&root.join("../examples/c/price.c"), "price");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // The numbers are those of the Rust library, asked here.
    let question = collcost_core::Question::new(
        collcost_core::Collective::AllReduce,
        collcost_core::Bytes(16 << 20),
    );
    let question = question.on("dgx-h100").expect("known").ranks(64);
    let expect = collcost_core::expect(&question).expect("an answer");
    let first = format!(
        "expected {:.1} us ({:.1} to {:.1})",
        1e6 * expect.time_s,
        1e6 * expect.low_s,
        1e6 * expect.high_s
    );
    assert!(text.starts_with(&first), "{text} is not {first}");
    assert!(text.contains(&format!("runs {}\n", expect.runs.name())), "{text}");
    let ring = collcost_core::price(&question, "ring").expect("a price").time_s.expect("a time");
    assert!(text.contains(&format!("ring ideal {:.1} us", 1e6 * ring)), "{text}");
    assert_eq!(text.matches("nccl at ").count(), 3, "{text}");
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = run(&root.join("tests/wrong.c"), "wrong");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out, "all refused\n");
}

/// Every function of the header is one of the library, and the other way round.
#[test]
fn the_header_names_what_is_there() {
    let names = |text: &str, before: &str| -> Vec<String> {
        let mut names: Vec<String> = text
            .split(before)
            .skip(1)
            .filter_map(|rest| rest.split('(').next())
            .map(|name| name.trim().to_owned())
            .filter(|name| name.starts_with("collcost_"))
            .collect();
        names.sort();
        names
    };
    let ours = names(include_str!("../src/lib.rs"), "extern \"C\" fn ");
    let mut header: Vec<String> = include_str!("../collcost.h")
        .lines()
        .filter(|line| !line.starts_with([' ', '*', '/']))
        .filter_map(|line| line.split('(').next().filter(|_| line.contains('(')))
        .filter_map(|line| line.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("collcost_"))
        .map(str::to_owned)
        .collect();
    header.sort();
    assert!(header.len() >= 10);
    assert_eq!(header, ours);
}
