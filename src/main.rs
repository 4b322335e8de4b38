//! The `collcost` command: parse, run, exit code.

// What is said goes through `cli::streams`, which no full disk and no reader's leaving stops.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Tests write and read as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
