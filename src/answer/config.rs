//! The settings in effect, and where each comes from.

use serde::Serialize;

use crate::machine::profile::DEFAULT;
use crate::plan::config::{From, Setting, Settings};

/// Every setting with its origin.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Config {
    /// `collcost/config/1`.
    pub schema: &'static str,
    /// The settings that apply without flags.
    pub settings: Vec<SettingView>,
    /// Settings that are given somewhere but not in effect.
    pub left_out: Vec<LeftOut>,
    /// The keys that are not set anywhere.
    pub unset: Vec<&'static str>,
    /// The files that are read, the nearest first.
    pub files: Vec<FileView>,
}

/// One setting.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingView {
    /// The key.
    pub key: &'static str,
    /// The value, as written.
    pub value: String,
    /// The source: a file with its line, a variable, or `built in`.
    pub from: String,
    /// The file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<usize>,
}

/// One setting that is not in effect.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The setting.
    #[serde(flatten)]
    pub setting: SettingView,
    /// The source of the value that applies instead.
    pub instead: Option<String>,
}

/// A file that is read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileView {
    /// Its name.
    pub path: String,
    /// Whether it exists.
    pub found: bool,
}

/// Lists the settings; `files` are names, each with whether the file was found.
#[must_use]
pub fn config(settings: &Settings, files: Vec<(String, bool)>) -> Config {
    let mut held: Vec<SettingView> = settings.held().map(view).collect();
    if settings.get("profile").is_none() {
        let (value, from) = (DEFAULT.to_owned(), "built in".to_owned());
        held.insert(0, SettingView { key: "profile", value, from, file: None, line: None });
    }
    let left_out = settings.left_out().map(|(setting, instead)| LeftOut {
        setting: view(setting),
        instead: instead.map(|s| s.from.to_string()),
    });
    Config {
        schema: "collcost/config/1",
        left_out: left_out.collect(),
        unset: Settings::keys()
            .map(|(_, key)| key)
            .filter(|key| !held.iter().any(|s| s.key == *key))
            .collect(),
        files: files.into_iter().map(|(path, found)| FileView { path, found }).collect(),
        settings: held,
    }
}

fn view(setting: &Setting) -> SettingView {
    let (file, line) = match &setting.from {
        From::File { file, line } => (Some(file.clone()), Some(*line)),
        From::Environment(_) => (None, None),
    };
    SettingView {
        key: setting.key,
        value: setting.value.clone(),
        from: setting.from.to_string(),
        file,
        line,
    }
}
