//! Lists the files under `profiles/` and the lines of NCCL's machines, and links the command such that
//! it starts fast.
//!
//! A machine, a node kind or a network is a file and nothing else: no list has to be kept beside it.
//!
//! The command has a fixed address: moved to another at every start, it would have ten thousand
//! pointers written, on fifty pages that are copied for that. Its libraries, heap and stack still lie
//! anywhere.
//!
//! The unwinder is linked into it where the C compiler has it as an archive. The shared `libgcc_s`
//! costs a tenth of a millisecond at every start, an eighth of what a program that does nothing takes.
//! Where the archive is not found the shared one is used as always. `COLLCOST_LINK=plain` leaves all of it
//! to the linker, for programs that are to run with an older C library than the compiler's: its archive
//! asks for what only the newer one has.

#![allow(clippy::disallowed_methods, reason = "it writes where cargo says")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use toml::{Table, Value};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=profiles");
    println!("cargo:rerun-if-changed={NCCL_MACHINES}");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("profiles.rs"), profiles()?)?;
    fs::write(out.join("nccl_machines.rs"), nccl_machines()?)?;
    link_command();
    Ok(())
}

/// The tables of machines, node kinds and networks: names and files, in alphabetical order. Files are
/// embedded as JSON, which an answer reads in a quarter of the time.
fn profiles() -> io::Result<String> {
    let mut out = String::from("pub(super) static BUILTIN: &[Builtin] = &[\n");
    for (name, file) in files("machines")? {
        let aliases = file.get("aliases").and_then(Value::as_array).into_iter().flatten();
        let names: Vec<&str> =
            std::iter::once(&*name).chain(aliases.filter_map(Value::as_str)).collect();
        out += &format!("Builtin {{ names: &{names:?}, json: {:?} }},\n", json(&file)?);
    }
    out += "];\n";
    for (table, folder) in [("NODES", "nodes"), ("NETWORKS", "networks")] {
        out += &format!("pub(super) static {table}: &[(&str, &str)] = &[\n");
        for (id, file) in files(folder)? {
            out += &format!("({id:?}, {:?}),\n", json(&file)?);
        }
        out += "];\n";
    }
    Ok(out)
}

/// The machines whose graphs NCCL's search found, a line each.
const NCCL_MACHINES: &str = "src/library/nccl/machines.csv";

/// Their table, with what recognizes a line apart: a start looks for one of a hundred.
fn nccl_machines() -> io::Result<String> {
    let text = fs::read_to_string(NCCL_MACHINES)?;
    let mut lines = text.lines();
    let columns = lines.next().unwrap_or_default();
    let count = lines.clone().count();
    let mut out =
        format!("const COLUMNS: &str = {columns:?};\nstatic LINES: [Line; {count}] = [\n");
    for line in lines {
        let [version, from, to, machine, per_node, ..] = line.split(',').collect::<Vec<_>>()[..]
        else {
            return Err(io::Error::other(format!("{NCCL_MACHINES}: {line}")));
        };
        let to = if to.is_empty() { "None".to_owned() } else { format!("Some({to})") };
        let nodes = format!("Nodes({from}, {to})");
        out += &format!("Line::new({version:?}, {machine:?}, {nodes}, {per_node}, {line:?}),\n");
    }
    Ok(out + "];\n")
}

fn json(file: &Table) -> io::Result<String> {
    Ok(serde_json::to_string(file)?)
}

/// The TOML files of a folder under `profiles/` with their names, in alphabetical order.
fn files(folder: &str) -> io::Result<Vec<(String, Table)>> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut found: Vec<(String, Table)> = Vec::new();
    for entry in fs::read_dir(root.join("profiles").join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
        {
            let text = fs::read_to_string(&path)?;
            let file: Table = text.parse().map_err(|e| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display()))
            })?;
            found.push((name.to_owned(), file));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn link_command() {
    let target = |key: &str| env::var(key).unwrap_or_default();
    let native = env::var("HOST") == env::var("TARGET");
    let gnu = target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu";
    // Who embeds the library decides for themselves how to link.
    let command = env::var("CARGO_FEATURE_CLI").is_ok();
    println!("cargo:rerun-if-env-changed=COLLCOST_LINK");
    let plain = env::var("COLLCOST_LINK").is_ok_and(|how| how == "plain");
    if !native || !gnu || !command || plain {
        return;
    }
    println!("cargo:rustc-link-arg-bins=-no-pie");
    let Ok(found) = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output() else { return };
    let archive = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    // A compiler that does not have it repeats the bare name.
    if let Some(dir) = Path::new(&archive).parent().filter(|d| d.is_absolute()) {
        println!("cargo:rustc-link-search=native={}", dir.display());
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}
