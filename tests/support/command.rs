//! The command, run to its end.

use std::process::{Command, Output};

pub fn collcost(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_collcost")).args(words).output().expect("it starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
