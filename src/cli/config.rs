//! `collcost config`, and where settings are looked for.
//!
//! The nearest wins: flags, `COLLCOST_PROFILE`, `collcost.toml` in this folder or above, the user's
//! `config.toml`. Only the command looks there; the library reads no file and no environment.

use std::env;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Stop;
use super::format::{FormatFlag, Report};
use collcost::answer;
use collcost::base::encoding;
use collcost::base::error::{Error, Result};
use collcost::plan::config::{Layer, Settings};
use collcost::view;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let found = find()?;
        let report = answer::config(&found.settings, found.files);
        self.format.write(out, &report, |_| view::profiles::config(&report))
    }
}

/// The machine that the environment names.
const VARIABLE: &str = "COLLCOST_PROFILE";

/// The file of a project.
const PROJECT: &str = "collcost.toml";

/// The most parent folders that are searched.
const MOST_FOLDERS: usize = 32;

struct Found {
    settings: Settings,
    /// The files that may hold settings, and whether each exists.
    files: Vec<(String, bool)>,
}

/// The settings from outside the flags; searched for once.
///
/// # Errors
/// A file that cannot be read, with its line.
pub(super) fn settings() -> Result<&'static Settings> {
    static SETTINGS: OnceLock<Result<Settings>> = OnceLock::new();
    let found = SETTINGS.get_or_init(|| find().map(|found| found.settings));
    found.as_ref().map_err(Clone::clone)
}

fn find() -> Result<Found> {
    let mut layers = Vec::new();
    if let Some(name) = env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        layers.push(Layer::environment(VARIABLE, &name.to_string_lossy()));
    }
    let mut files = Vec::new();
    // Without a working folder there is no project.
    let here = env::current_dir().ok();
    let project = here.map(|here| project(&here)).transpose()?.flatten();
    let name = project.as_ref().map_or(PROJECT, |(name, _)| name);
    files.push((name.to_owned(), project.is_some()));
    if let Some((name, text)) = project {
        layers.push(Layer::parse(&text, &name)?);
    }
    if let Some(path) = folder().map(|folder| folder.join("config.toml")) {
        let name = path.to_string_lossy().into_owned();
        let text = read(&path, &name)?;
        files.push((name.clone(), text.is_some()));
        if let Some(text) = text {
            layers.push(Layer::parse(&text, &name)?);
        }
    }
    Ok(Found { settings: Settings::new(layers), files })
}

/// The nearest `collcost.toml`, up to a folder with `.git` or the home folder.
fn project(here: &Path) -> Result<Option<(String, String)>> {
    let home = env::var_os("HOME").map(PathBuf::from);
    for folder in here.ancestors().take(MOST_FOLDERS) {
        let path = folder.join(PROJECT);
        let name =
            if folder == here { PROJECT.into() } else { path.to_string_lossy().into_owned() };
        if let Some(text) = read(&path, &name)? {
            return Ok(Some((name, text)));
        }
        if home.as_deref() == Some(folder) || folder.join(".git").exists() {
            break;
        }
    }
    Ok(None)
}

/// The user's own folder of settings and machines.
pub(super) fn folder() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    base.map(|base| base.join("collcost"))
}

/// A file's text, if the file exists.
fn read(path: &Path, name: &str) -> Result<Option<String>> {
    match super::input::text(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Error::input(format!("the settings cannot be read: {e}"))
            .at(name.to_owned())
            .help(encoding::mend(&e, "make it readable, or remove it"))),
    }
}
