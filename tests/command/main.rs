//! The command, its screens, files and pictures.

#![allow(clippy::duplicate_mod, reason = "each test says what it shares with others")]

mod against;
mod command;
mod examples;
mod explain;
mod explorer;
mod formats;
mod parameters;
mod pictures;
mod profiles;
mod schemas;
mod trace;
mod transcripts;
