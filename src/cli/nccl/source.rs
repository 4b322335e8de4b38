//! Files that `collcost nccl` reads.

use std::collections::HashMap;
use std::fs;

use collcost::error::{Error, Result};
use collcost::nccl::Settings;
use collcost::nccl::{comms, envs};

/// A whole file as text.
pub(super) fn text(flag: &str, file: &str) -> Result<String> {
    fs::read_to_string(file).map_err(|e| {
        Error::input(format!("the file cannot be read: {e}"))
            .at(format!("{flag} {file}"))
            .mend("name a text file that is there")
    })
}

/// The communicators of `--comms`.
pub(super) fn comms(file: &str) -> Result<Vec<comms::Named>> {
    comms::read(&text("--comms", file)?).map_err(|e| e.within(file))
}

/// The environments of `--envs`.
pub(super) fn envs(file: &str) -> Result<Vec<(String, Settings)>> {
    envs::read(&text("--envs", file)?).map_err(|e| e.within(file))
}

/// The same by their names.
pub(super) fn by_name(envs: Vec<(String, Settings)>) -> HashMap<String, Settings> {
    envs.into_iter().collect()
}
