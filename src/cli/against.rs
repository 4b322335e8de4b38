//! Files of another revision, read from git without touching the work tree.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::files::Here;
use collcost::base::error::{Error, Result};
use collcost::machine::profile::Profile;
use collcost::plan::config::is_file;
use collcost::plan::table::{Files, with_files};

/// A revision's files. Logs, and machines given by name, come from the work tree.
pub(super) struct At<'a> {
    revision: &'a str,
}

impl<'a> At<'a> {
    /// The files of a revision.
    ///
    /// # Errors
    /// git knows no such revision here.
    pub(super) fn new(revision: &'a str) -> Result<Self> {
        let commit = format!("{revision}^{{commit}}");
        let mut known = Command::new("git");
        known.args(["rev-parse", "--verify", "--quiet", &commit]);
        let refuse = |why: String| {
            let error = Error::input(why).at(format!("--against {revision}"));
            Err(match revision {
                "" => error.help("is a variable unset?"),
                _ => error.help("name a revision such as origin/main, fetched before, or a file"),
            })
        };
        match known.output() {
            Ok(found) if found.status.success() && !revision.is_empty() => Ok(Self { revision }),
            Ok(_) => {
                refuse(format!("`{revision}` is neither a file nor a revision that git knows here"))
            }
            Err(e) => refuse(format!("git cannot be asked for `{revision}`: {e}")),
        }
    }
}

impl Files for At<'_> {
    fn profile(&self, name: &str) -> Result<Profile> {
        if !is_file(name) {
            return Here.profile(name);
        }
        let profile = Profile::parse(&self.text(name)?, name)?;
        with_files(profile, name, &|path| self.text(path))
    }

    fn text(&self, path: &str) -> Result<String> {
        // git takes paths relative to the working folder.
        let here = std::env::current_dir().unwrap_or_default();
        let path = Path::new(path).strip_prefix(&here).unwrap_or(Path::new(path));
        let path = if path.is_absolute() { from_here(&here, path) } else { path.to_owned() };
        let path = path.display();
        let object = format!("{}:./{}", self.revision, path.to_string().trim_start_matches("./"));
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

    fn log(&self, path: &str) -> Result<Vec<u8>> {
        Here.log(path)
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Here.matching(pattern)
    }
}

/// An absolute path as seen from a folder.
fn from_here(here: &Path, path: &Path) -> PathBuf {
    let shared = here.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = here.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}
