//! The `collcost` command: parse, run, exit code.

// All output goes through `cli::streams`, which handles a full disk and a reader that goes away.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Tests may print and read freely.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
