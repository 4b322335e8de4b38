//! Finds the files and machines that a project's file names, including the user's own machines.

use collcost::base::error::Result;
use collcost::machine::profile::Profile;
use collcost::plan::table::{Disk, Files, unreadable};

/// Files of this machine, and profiles as `--on` finds them.
pub(super) struct Here;

impl Files for Here {
    fn profile(&self, name: &str) -> Result<Profile> {
        super::profiles::find(name)
    }

    fn text(&self, path: &str) -> Result<String> {
        super::input::text(path).map_err(|e| unreadable(path, &e))
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Disk.matching(pattern)
    }
}
