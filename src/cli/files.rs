//! Finds the files and machines that a project's file names, including the user's own machines.

use std::cell::RefCell;

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
        let text = if path == "-" { super::input::standard() } else { super::input::text(path) };
        text.map_err(|e| unreadable(path, &e))
    }

    fn log(&self, path: &str) -> Result<Vec<u8>> {
        super::input::log_bytes(path)
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Disk.matching(pattern)
    }
}

/// The same, and which files were read, in order.
#[derive(Default)]
pub(super) struct Noted {
    pub read: RefCell<Vec<String>>,
}

impl Noted {
    fn note(&self, file: &str) {
        // As git writes it.
        let file = file.trim_start_matches("./");
        let mut read = self.read.borrow_mut();
        if !read.iter().any(|known| known == file) {
            read.push(file.to_owned());
        }
    }
}

impl Files for Noted {
    fn profile(&self, name: &str) -> Result<Profile> {
        let found = Here.profile(name)?;
        super::profiles::files(name)?.iter().for_each(|file| self.note(file));
        Ok(found)
    }

    fn text(&self, path: &str) -> Result<String> {
        self.note(path);
        Here.text(path)
    }

    fn log(&self, path: &str) -> Result<Vec<u8>> {
        self.note(path);
        Here.log(path)
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Here.matching(pattern)
    }
}
