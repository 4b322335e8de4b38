//! Links the unwinder into the binary where the C compiler has it as an archive.
//!
//! The shared `libgcc_s` costs a tenth of a millisecond at every start, an eighth of what a program
//! that does nothing takes. Where the archive is not found the shared one is used as always.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
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
