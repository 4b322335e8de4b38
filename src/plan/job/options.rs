//! The file of options that a launch names: what its script writes, a text among the data of its YAML, a file that
//! is named with it, or one beside it.

use super::files::is_yaml;
use super::shell::written;
use crate::base::yaml::scalars;
use crate::plan::table::{Files, joined};

/// Where a launch is read, with the other files that were named.
pub(super) struct Beside<'a> {
    pub files: &'a dyn Files,
    pub file: &'a str,
    pub text: &'a str,
    pub named: &'a [String],
}

/// A text of options, and the file that was named for it.
pub(super) struct Options {
    pub text: String,
    pub taken: Option<String>,
}

impl Beside<'_> {
    /// The options at a path, which may be one of a container.
    pub fn options(&self, path: &str) -> Option<Options> {
        let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let own = |text| Options { text, taken: None };
        if let Some(text) = written(self.text, path) {
            return Some(own(text));
        }
        let data = is_yaml(self.file).then(|| {
            let mut all = scalars(self.text)
                .into_iter()
                .filter(|one| one.path.len() > 1 && one.text.contains(':'));
            all.find(|one| one.path.last() == last(path).as_ref()).map(|one| one.text)
        });
        if let Some(text) = data.flatten() {
            return Some(own(text));
        }
        let mut others = self.named.iter().filter(|name| *name != self.file && is_yaml(name));
        let named = match path.contains('$') {
            // Which file it is only a run decides.
            true => others.next().filter(|_| others.next().is_none()),
            false => others.find(|name| last(name) == last(path)),
        };
        if let Some((name, text)) = named.and_then(|name| Some((name, self.files.text(name).ok()?)))
        {
            return Some(Options { text, taken: Some(name.clone()) });
        }
        self.files.text(&joined(self.file, path)).ok().map(own)
    }
}
