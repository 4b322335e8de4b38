//! The engine held to truth: formulas, schedules, choices, fits, expectations.

#![allow(clippy::disallowed_methods, reason = "tests write and read as they like")]
#![allow(clippy::duplicate_mod, reason = "each test says what it shares with others")]

mod accuracy;
mod architecture;
mod arrival;
mod chakra;
mod checklist;
mod closed_forms;
#[path = "../support/command.rs"]
mod command;
mod compare;
mod convert;
#[path = "../support/cores.rs"]
mod cores;
mod curve;
mod determinism;
mod engines;
mod expect;
mod exports;
mod fabric;
mod fabric_imports;
mod faults;
mod fit;
mod fleet;
mod formulas;
mod formulas_page;
#[path = "../support/full.rs"]
mod full;
#[path = "../support/gzip.rs"]
mod gzip;
mod import_logs;
mod import_traces;
mod jobs;
mod mock;
mod nccl;
mod nccl_cost_model;
mod nccl_files;
mod nccl_library;
mod nccl_releases;
mod nccl_search;
mod nccl_seen;
mod nccl_symmetric;
mod nccl_tuned;
mod odd_logs;
mod one_answer;
mod one_choice;
mod pipelined;
mod properties;
mod rccl;
mod reference;
mod routes;
mod schedules;
mod select;
mod servers;
mod shared_nics;
mod simgrid;
mod simulate;
mod simulated;
mod slices;
mod slowdown;
mod stated;
mod threads;
mod truth;
mod tuning_files;
mod verify;
