//! The built-in machines, node kinds and networks: the files under `profiles/`, as `build.rs` found
//! them.
//!
//! Names stand beside the texts so that one answer parses one machine and its parts; a test compares
//! them with those in the files.

/// A built-in machine.
pub(super) struct Builtin {
    /// Its name, then its aliases.
    pub(super) names: &'static [&'static str],
    /// Its file.
    pub(super) text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/profiles.rs"));
