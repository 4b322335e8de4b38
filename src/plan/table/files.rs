//! Access to profiles, other files and results. The engine asks; its caller answers.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::base::encoding;
use crate::base::error::{Error, Result};
use crate::machine::profile::Profile;

/// Resolves the names in a file.
pub trait Files {
    /// The machine called `name`, or in the file of that path.
    ///
    /// # Errors
    /// An unknown name, a file that cannot be read.
    fn profile(&self, name: &str) -> Result<Profile>;

    /// The text of a file.
    ///
    /// # Errors
    /// The file does not exist or cannot be read.
    fn text(&self, path: &str) -> Result<String>;

    /// The bytes of a log, unpacked where it is packed.
    ///
    /// # Errors
    /// As [`Files::text`].
    fn log(&self, path: &str) -> Result<Vec<u8>> {
        self.text(path).map(String::into_bytes)
    }

    /// The files that match a path with `*`, in order; the path itself if it has no `*`.
    ///
    /// # Errors
    /// A folder that cannot be read.
    fn matching(&self, pattern: &str) -> Result<Vec<String>>;
}

/// The built-in machines and no files.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn;

impl Files for BuiltIn {
    fn profile(&self, name: &str) -> Result<Profile> {
        Profile::builtin(name)
    }

    fn text(&self, path: &str) -> Result<String> {
        Err(Error::input("no files are read here").at(path.to_owned()))
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Err(Error::input("no files are read here").at(pattern.to_owned()))
    }
}

/// The built-in machines, and one text under any name.
#[cfg(test)]
pub(crate) struct OneText<T>(pub T);

#[cfg(test)]
impl<T: AsRef<str>> Files for OneText<T> {
    fn profile(&self, name: &str) -> Result<Profile> {
        Profile::builtin(name)
    }

    fn text(&self, _: &str) -> Result<String> {
        Ok(self.0.as_ref().to_owned())
    }

    fn matching(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The error for a text file that cannot be read.
#[must_use]
pub fn unreadable(path: &str, error: &std::io::Error) -> Error {
    Error::input(format!("`{path}` cannot be read: {error}")).help(encoding::mend(
        error,
        "name an existing file; paths in a file are relative to its folder",
    ))
}

/// The built-in machines, and files of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn profile(&self, name: &str) -> Result<Profile> {
        if !crate::plan::config::is_file(name) {
            return Profile::builtin(name);
        }
        let text = whole(name).and_then(encoding::text).map_err(|e| {
            Error::profile(format!("the profile cannot be read: {e}")).at(name.to_owned())
        })?;
        super::with_files(Profile::parse(&text, name)?, name, &|path| self.text(path))
    }

    fn text(&self, path: &str) -> Result<String> {
        whole(path).and_then(encoding::text).map_err(|e| unreadable(path, &e))
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        if !pattern.contains('*') {
            return Ok(vec![pattern.to_owned()]);
        }
        let path = Path::new(pattern);
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let refuse = |why: String| Error::input(why).help("write a * in the last part of a path");
        if folder.to_string_lossy().contains('*') {
            return Err(refuse(format!("`{pattern}` has a * in a folder's name")));
        }
        let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let entries = std::fs::read_dir(listed)
            .map_err(|e| refuse(format!("`{}` cannot be read: {e}", listed.display())))?;
        let named = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut found: Vec<PathBuf> =
            named.filter(|file| fits(&name, file)).map(|file| folder.join(file)).collect();
        found.sort();
        Ok(found.iter().map(|path| path.to_string_lossy().into_owned()).collect())
    }
}

/// The bytes of a file that is no longer than a text may be.
fn whole(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    encoding::Bounded::new(std::fs::File::open(path)?, encoding::LONGEST)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a name matches a pattern, in which every `*` matches any characters.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let (first, mut rest) = (parts.next().unwrap_or(""), parts.collect::<Vec<_>>());
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let Some(last) = rest.pop() else { return left.is_empty() };
    for part in rest {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let yes =
            [("a*", "abc"), ("*.json", "x.json"), ("r*s*.json", "results-1.json"), ("a", "a")];
        let no =
            [("a*", "ba"), ("*.json", "x.jsn"), ("a*b*c", "acb"), ("a", "ab"), ("ab*ba", "aba")];
        assert!(yes.iter().all(|(p, n)| fits(p, n)));
        assert!(no.iter().all(|(p, n)| !fits(p, n)));
    }
}
