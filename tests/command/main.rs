//! The command, its screens, files and pictures.

#![allow(clippy::disallowed_methods, reason = "tests write and read as they like")]
#![allow(clippy::duplicate_mod, reason = "each test says what it shares with others")]

mod against;
mod command;
mod examples;
mod explain;
mod explorer;
mod formats;
#[path = "../support/full.rs"]
mod full;
mod glossary;
#[path = "../support/gzip.rs"]
mod gzip;
mod mcp;
mod outputs;
mod pages;
mod parameters;
mod pictures;
mod profiles;
mod schemas;
mod trace;
mod transcripts;
mod words;
mod worst;
