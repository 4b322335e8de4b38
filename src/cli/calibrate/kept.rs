//! The file of samples of a calibration: opened by one process at a time, continued, never
//! overwritten.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cli::input;
use crate::cli::named::short;
use crate::cli::output::{is_of_place, rename_new, write_whole};
use crate::cli::streams::say;
use collcost::base::error::{Error, Result};
use collcost::machine::sample::{self, Header, Record, Samples, Writer};

/// How the names of files of samples end.
pub(super) const SAMPLES: &str = ".samples.jsonl";
/// How often samples are synced to disk.
const SYNC: Duration = Duration::from_secs(2);

/// What to do if there are samples already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// Rename the old samples.
    SetAside,
    /// Stop, and leave them unchanged.
    Refuse,
    /// Continue them if plan and machine are the same.
    GoOn,
    /// Continue them in any case.
    Mix,
}

impl Existing {
    /// Refuses samples that are there, and a folder, before anything is measured.
    pub(super) fn check(self, path: &Path) -> Result<()> {
        let name = path.to_string_lossy();
        match std::fs::metadata(path) {
            Ok(folder) if folder.is_dir() => {
                Err(Error::input("the samples cannot be kept in a folder")
                    .at(format!("--samples {name}"))
                    .help("name a file"))
            }
            Ok(file) if self == Self::Refuse && file.len() > 0 => Err(already(&name)),
            _ => Ok(()),
        }
    }
}

fn already(name: &str) -> Error {
    Error::input("there are samples already")
        .at(format!("--samples {name}"))
        .help("continue with --resume, or name another file")
}

/// The file.
pub(super) struct Kept {
    path: PathBuf,
    /// Its name in messages.
    pub(super) name: String,
    writer: Writer<File>,
    synced: Instant,
}

impl Kept {
    /// Opens the file; returns the samples to continue, none for a new file. Samples that are set aside
    /// stay those of the `profile` that was fitted to them.
    pub(super) fn open(
        path: PathBuf,
        what: Existing,
        header: Header,
        profile: &Path,
    ) -> Result<(Self, Samples)> {
        let name = path.to_string_lossy().into_owned();
        let cannot = |e: &std::io::Error| cannot_keep(&name, e);
        let append = || {
            Writer::append(&path).map_err(|e| match e.kind() {
                std::io::ErrorKind::WouldBlock => {
                    Error::environment("another calibration writes to these samples")
                        .at(name.clone())
                        .help("wait until it has ended, or name another file with --samples")
                }
                _ => cannot(&e),
            })
        };
        let mut writer = append()?;
        let text = input::text(&path).map_err(|e| cannot(&e))?;
        let before = match what {
            _ if text.is_empty() => {
                if matches!(what, Existing::GoOn | Existing::Mix) {
                    say(format_args!("note: {name} has no samples yet: nothing is resumed"));
                }
                None
            }
            Existing::Refuse => return Err(already(&name)),
            Existing::SetAside => {
                let other = set_aside(&path).map_err(|e| cannot(&e))?;
                follow(profile, &name, &other.to_string_lossy())?;
                writer = append()?;
                None
            }
            Existing::GoOn | Existing::Mix => {
                let (old, samples) = sample::read(&text, &name)?;
                of_one_transport(&old, &header, &name)?;
                if what == Existing::GoOn {
                    same(&old, &header, &name)?;
                }
                Some(samples)
            }
        };
        if before.is_none() {
            writer.write(&Record::Header(header)).map_err(|e| cannot(&e))?;
        }
        let kept = Self { path, name, writer, synced: Instant::now() };
        Ok((kept, before.unwrap_or_default()))
    }

    /// Appends a record.
    pub(super) fn keep(&mut self, record: &Record) -> Result<()> {
        let mut kept = self.writer.write(record);
        if kept.is_ok() && self.synced.elapsed() >= SYNC {
            kept = self.writer.sync();
            self.synced = Instant::now();
        }
        kept.map_err(|e| cannot_keep(&self.name, &e))
    }

    /// The samples in the file, as a later run reads them.
    pub(super) fn read(self) -> Result<Samples> {
        let cannot = |e: &std::io::Error| cannot_keep(&self.name, e);
        self.writer.sync().map_err(|e| cannot(&e))?;
        let text = input::text(&self.path).map_err(|e| cannot(&e))?;
        let (_, mut samples) = sample::read(&text, &self.name)?;
        samples.origin.files = vec![short(&self.name)];
        Ok(samples)
    }
}

/// Refuses samples that moved in another way: together they are of no link, and no force makes them so.
fn of_one_transport(old: &Header, new: &Header, name: &str) -> Result<()> {
    if old.transport == new.transport {
        return Ok(());
    }
    let what = match old.transport.as_str() {
        "" => "the samples are imported".to_owned(),
        other => format!("the samples are of {other}, not of {}", new.transport),
    };
    Err(Error::input(what)
        .at(name)
        .help("name another file with --samples, or leave out --resume and --force-resume"))
}

/// Refuses samples of another plan or machine.
fn same(old: &Header, new: &Header, name: &str) -> Result<()> {
    let differs = [
        ("machine, or from before its last boot", &old.fingerprint, &new.fingerprint),
        ("plan", &old.plan_hash, &new.plan_hash),
    ];
    match differs.iter().find(|(_, old, new)| old != new) {
        None => Ok(()),
        Some((what, ..)) => Err(Error::input(format!("the samples are from another {what}"))
            .at(name)
            .help("name another file, or mix them with --force-resume")),
    }
}

/// Writes the new name of samples that were set aside into the profile that was fitted to them: it may stay,
/// where the calibration that follows ends without one.
fn follow(profile: &Path, old: &str, new: &str) -> Result<()> {
    // A pipe would be waited for.
    let read = profile.is_file().then(|| input::text(profile));
    let Some(Ok(text)) = read else { return Ok(()) };
    let (old, new) = (short(old), short(new));
    let is_list =
        |line: &str| line.starts_with("samples =") && line.contains(&format!("\"{old}\""));
    if !text.lines().any(is_list) {
        return Ok(());
    }
    // What was typed stays as it was.
    let line = |line: &str| match line.starts_with("command =") {
        true => line.to_owned(),
        false => line.replace(&old, &new),
    };
    let text: String = text.split_inclusive('\n').map(line).collect();
    write_whole("--out", profile, &text)
}

/// Renames the samples of an earlier calibration, so that they are never lost; their new name.
pub(super) fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let split = |ending: &'static str| name.strip_suffix(ending).map(|stem| (stem, ending));
    let (stem, ending) =
        split(".race.jsonl").or_else(|| split(SAMPLES)).unwrap_or((name.as_str(), SAMPLES));
    for number in 1_u32..100_000 {
        let other = path.with_file_name(format!("{stem}.{number}{ending}"));
        match rename_new(path, &other) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            done => return done.map(|()| other),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

fn cannot_keep(name: &str, error: &std::io::Error) -> Error {
    let what = format!("the samples cannot be kept: {error}");
    match is_of_place(error) {
        true => Error::input(what)
            .at(name)
            .help("name a file with --samples in a folder that can be written to"),
        false => {
            Error::lost(what).at(name).help("name a file with --samples on a disk with free space")
        }
    }
}
