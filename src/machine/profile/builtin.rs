//! The built-in machines, node kinds and networks: the files under `profiles/`, as `build.rs` found
//! them.
//!
//! Names are stored separately, so that an answer reads only one machine and its parts; a test
//! compares the names and the contents with the files.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

/// A built-in machine.
pub(super) struct Builtin {
    /// The machine's name, then its aliases.
    pub(super) names: &'static [&'static str],
    /// Its file, as JSON.
    pub(super) json: &'static str,
}

/// The contents of a built-in file.
pub(super) fn read<T: DeserializeOwned>(id: &str, json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|e| format!("the built-in {id} cannot be read: {e}"))
}

/// The libraries of built-in machines and node kinds.
pub(super) fn libraries() -> BTreeSet<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        library: Option<String>,
    }
    let files = BUILTIN.iter().map(|b| b.json).chain(NODES.iter().map(|&(_, json)| json));
    files.filter_map(|json| serde_json::from_str::<Named>(json).ok()?.library).collect()
}

include!(concat!(env!("OUT_DIR"), "/profiles.rs"));
