//! Lists the files under `profiles/`, and links the unwinder into the binary where the C compiler has
//! it as an archive.
//!
//! A machine, a node kind or a network is a file and nothing else: no list has to be kept beside it.
//!
//! The shared `libgcc_s` costs a tenth of a millisecond at every start, an eighth of what a program
//! that does nothing takes. Where the archive is not found the shared one is used as always.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=profiles");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("profiles.rs"), profiles()?)?;
    link_unwinder();
    Ok(())
}

/// The tables of machines, node kinds and networks: names and texts, in alphabetical order.
fn profiles() -> io::Result<String> {
    let mut out = String::from("pub(super) static BUILTIN: &[Builtin] = &[\n");
    for (name, path) in files("machines")? {
        let text = fs::read_to_string(&path)?;
        let names: Vec<&str> = std::iter::once(name.as_str()).chain(aliases(&text)).collect();
        out += &format!("Builtin {{ names: &{names:?}, text: include_str!({path:?}) }},\n");
    }
    out += "];\n";
    for (table, folder) in [("NODES", "nodes"), ("NETWORKS", "networks")] {
        out += &format!("pub(super) static {table}: &[(&str, &str)] = &[\n");
        for (id, path) in files(folder)? {
            out += &format!("({id:?}, include_str!({path:?})),\n");
        }
        out += "];\n";
    }
    Ok(out)
}

/// The TOML files of a folder under `profiles/` with their names, in alphabetical order.
fn files(folder: &str) -> io::Result<Vec<(String, PathBuf)>> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("profiles").join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
        {
            found.push((name.to_owned(), path));
        }
    }
    found.sort();
    Ok(found)
}

/// What is quoted between `aliases = [` and `]`. The library reads the files with a reader of TOML,
/// and a test compares.
fn aliases(text: &str) -> impl Iterator<Item = &str> {
    let list = text.split_once("\naliases = [").and_then(|(_, rest)| rest.split_once(']'));
    list.map_or("", |(list, _)| list).split('"').skip(1).step_by(2)
}

fn link_unwinder() {
    let target = |key: &str| env::var(key).unwrap_or_default();
    let native = env::var("HOST") == env::var("TARGET");
    let gnu = target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu";
    // Who embeds the library decides for themselves how to link.
    let command = env::var("CARGO_FEATURE_CLI").is_ok();
    if !native || !gnu || !command {
        return;
    }
    let Ok(found) = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output() else { return };
    let archive = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    // A compiler that does not have it repeats the bare name.
    if let Some(dir) = Path::new(&archive).parent().filter(|d| d.is_absolute()) {
        println!("cargo:rustc-link-search=native={}", dir.display());
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}
