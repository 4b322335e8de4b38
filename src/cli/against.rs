//! Files of another revision, read from git without touching the work tree.

use std::process::Command;

use super::files::Here;
use collcost::base::error::{Error, Result};
use collcost::machine::profile::Profile;
use collcost::plan::config::is_file;
use collcost::plan::table::Files;

/// A revision's files. Logs, and machines given by name, come from the work tree.
pub(super) struct At<'a> {
    pub revision: &'a str,
}

impl Files for At<'_> {
    fn profile(&self, name: &str) -> Result<Profile> {
        if !is_file(name) {
            return Here.profile(name);
        }
        Profile::parse(&self.text(name)?, name)
    }

    fn text(&self, path: &str) -> Result<String> {
        let object = format!("{}:./{}", self.revision, path.trim_start_matches("./"));
        let refuse = |why: String| {
            Error::input(format!("`{path}` cannot be read at {}: {why}", self.revision))
                .help("name a revision that git knows here, or a file")
        };
        let shown = Command::new("git").args(["show", &object]).output();
        let shown = shown.map_err(|e| refuse(e.to_string()))?;
        if !shown.status.success() {
            return Err(refuse(String::from_utf8_lossy(&shown.stderr).trim().to_owned()));
        }
        String::from_utf8(shown.stdout).map_err(|_| refuse("it is not text".to_owned()))
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Here.matching(pattern)
    }
}
