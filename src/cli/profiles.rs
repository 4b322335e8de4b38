//! `collcost profiles`: lists the known machines, shows one, and checks a file.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Stop;
use super::config::folder;
use super::files::Here;
use super::format::{FormatFlag, OfProfile, Report};
use collcost::answer::{self, Entry};
use collcost::base::encoding;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::base::text_pos::Document;
use collcost::machine::profile::check;
use collcost::machine::profile::{self, Asked, Date, Finding, Kind, Need, Profile, Severity, same};
use collcost::plan::config::is_file;
use collcost::plan::table::{Files as _, fabric, joined, with_files};
use collcost::view;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Show a machine: every parameter with its origin and source, and what is unknown
    Show(Show),
    /// Check a description for what is missing, contradictory, suspicious or unsourced
    Check(Check),
    /// Show what changed between two machines, compared with both intervals
    Diff(Diff),
}

#[derive(clap::Args)]
struct Diff {
    /// The old machine: a name, or the file of a profile
    #[arg(value_name = "OLD")]
    old: String,
    /// The new machine
    #[arg(value_name = "NEW")]
    new: String,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

#[derive(clap::Args)]
struct Show {
    /// The name of a machine, or the file of a profile
    #[arg(value_name = "NAME|FILE")]
    name: String,
    #[command(flatten)]
    format: FormatFlag<OfProfile>,
}

#[derive(clap::Args)]
struct Check {
    /// Profiles to check: files, or names of known machines
    #[arg(value_name = "FILE", required_unless_present = "builtin")]
    files: Vec<String>,
    /// Check all built-in machines
    #[arg(long)]
    builtin: bool,
    /// Parameters that must be present: alpha, efficiency, launch, gamma
    #[arg(long, value_name = "FIGURES", value_delimiter = ',')]
    need: Vec<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        match self.what {
            Some(What::Show(show)) => show.run(out),
            Some(What::Check(check)) => check.run(out),
            Some(What::Diff(diff)) => diff.run(out),
            None => list(self.format, out),
        }
    }
}

fn list(format: FormatFlag<Report>, out: &mut impl Write) -> std::result::Result<(), Stop> {
    let mut entries = Vec::new();
    for name in Profile::names() {
        entries.push(Entry::new(&Profile::builtin(name)?, BUILT_IN));
    }
    for (name, path) in own() {
        let file = path.to_string_lossy();
        match find(&file) {
            Ok(profile) => entries.push(Entry { name, ..Entry::new(&profile, &file) }),
            Err(why) => entries.push(Entry {
                name,
                title: format!("unreadable: {}", why.what()),
                aliases: Vec::new(),
                library: None,
                tiers: Vec::new(),
                origin: file.into_owned(),
            }),
        }
    }
    let report = answer::profiles(entries);
    format.write(out, &report, |look| view::profiles::list(&report, look.width).into())
}

impl Show {
    fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let place = || format!("profiles show {}", self.name);
        let source = Source::of(&self.name).map_err(|e| e.at(place()))?;
        let profile = source.profile()?;
        if self.format.get()? == Format::Toml {
            return Ok(out.write_all(profile.to_toml().as_bytes())?);
        }
        let report = answer::profile(&profile, &shown(source.origin()));
        self.format.write(out, &report, |look| view::profiles::show(&report, look))
    }
}

impl Check {
    fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let need = |n: &String| n.parse().map_err(|e: Error| e.at(format!("--need {n}")));
        let need = self.need.iter().map(need).collect::<Result<Vec<Need>>>()?;
        let asked = Asked { today: today(), need: &need };
        let builtin = Profile::names().filter(|_| self.builtin).map(str::to_owned);
        let mut files = Vec::new();
        for name in self.files.iter().cloned().chain(builtin) {
            let place = || format!("profiles check {name}");
            let source = Source::of(&name).map_err(|e| e.at(place()))?;
            let figures = source.profile().map_or(0, |p| p.figures().count());
            let mut found = check(&source.text()?, &asked);
            found.extend(source.unusable_files());
            files.push((source.origin().to_owned(), figures, found));
        }
        let report = answer::profiles_check(files);
        self.format.write(out, &report, |look| view::profiles::check(&report, look))?;
        if report.errors > 0 { Err(Stop::Failed) } else { Ok(()) }
    }
}

impl Diff {
    fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let place = || format!("profiles diff {} {}", self.old, self.new);
        let one = |name: &str| find(name).map_err(|e| e.at(place()));
        let report = answer::profiles_diff(&one(&self.old)?, &one(&self.new)?);
        self.format.write(out, &report, |_| view::profiles::diff(&report))?;
        if report.changed { Err(Stop::Failed) } else { Ok(()) }
    }
}

/// Today's date by this computer's clock; none if the clock is before 1970.
pub(super) fn today() -> Option<Date> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u32::try_from(since.as_secs() / 86_400).ok().map(Date::after_epoch)
}

/// The time by this computer's clock, as 2026-11-20T17:33:00Z; empty if the clock is before 1970.
#[cfg(target_os = "linux")]
pub(super) fn now() -> String {
    let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) else { return String::new() };
    let second = since.as_secs() % 86_400;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    today().map_or(String::new(), |day| format!("{day}T{hour:02}:{minute:02}:{:02}Z", second % 60))
}

const BUILT_IN: &str = "built in";

/// `built in`, or the file.
fn shown(origin: &str) -> String {
    if is_file(origin) { origin.to_owned() } else { BUILT_IN.to_owned() }
}

/// The machine of that name or in that file.
///
/// # Errors
/// An unknown name, with the nearest one; or a description that is refused, with its line.
pub(super) fn find(name: &str) -> Result<Profile> {
    let source = Source::of(name)?;
    let origin = source.origin();
    let as_fabric = || source.text().and_then(|text| fabric(&text, origin));
    let profile = source.profile().map_err(|refused| match as_fabric() {
        Ok(fabric) if is_file(origin) => {
            let what = format!("this is a fabric of {} ranks, not a machine", fabric.ranks);
            Error::profile(what).help(format!(
                "collcost optimum COLLECTIVE --on {origin}; or name it in a profile, as fabric = \"…\""
            ))
        }
        // A machine is TOML: in JSON it can only be a fabric.
        Err(fault) if source.text().is_ok_and(|text| text.trim_start().starts_with('{')) => fault,
        _ => refused,
    })?;
    with_files(profile, origin, &|path| Here.text(path))
}

/// The files that describe the machine called `name`; none if it is built in.
///
/// # Errors
/// As [`find`].
pub(super) fn files(name: &str) -> Result<Vec<String>> {
    let source = Source::of(name)?;
    let Source::File(file, _) = &source else { return Ok(Vec::new()) };
    let profile = source.profile()?;
    let named = [profile.fabric_file, profile.nccl_topology].into_iter().flatten();
    Ok([file.clone()].into_iter().chain(named.map(|n| joined(file, &n))).collect())
}

/// Where a machine is described.
enum Source {
    /// A built-in machine of that name.
    BuiltIn(String),
    /// A file and its text.
    File(String, String),
}

impl Source {
    /// A file, one of the user's own, or a built-in machine.
    fn of(name: &str) -> Result<Self> {
        if is_file(name) {
            return Self::read(name);
        }
        // Only this file is tried; the folder is listed if nothing else has the name.
        if let Some(path) = folder().map(|f| f.join(format!("profiles/{name}.toml")))
            && path.is_file()
        {
            return Self::read(&path.to_string_lossy());
        }
        // By any of its names a machine is the user's if the user has one of that name.
        let (own, names) = (own(), Profile::names_of(name));
        let is_named = |known: &str| same(known, name) || names.iter().any(|n| same(known, n));
        if let Some((_, path)) = own.iter().find(|(known, _)| is_named(known)) {
            return Self::read(&path.to_string_lossy());
        }
        if !names.is_empty() {
            return Ok(Self::BuiltIn(name.to_owned()));
        }
        for (_, path) in &own {
            let Ok(source) = Self::read(&path.to_string_lossy()) else { continue };
            if source.profile().is_ok_and(|p| p.aliases.iter().any(|alias| same(alias, name))) {
                return Ok(source);
            }
        }
        // It is not read: names of machines also come from agents, for which no files are read.
        if Path::new(name).exists() {
            return Err(Error::profile(format!("the file `{name}` is not called like a profile"))
                .help(format!(
                    "write ./{name} if it is one, TOML that begins with schema = 1; `collcost \
                     profiles` lists the known machines"
                )));
        }
        let here = format!("{name}.toml");
        if Path::new(&here).is_file() {
            return Err(Error::profile(format!("`{name}` is not a machine"))
                .help(format!("`{here}` in this folder is one by its name: write {here}")));
        }
        Err(profile::unknown(name, own.iter().map(|(known, _)| known.as_str())))
    }

    fn read(file: &str) -> Result<Self> {
        let text = super::input::text(file).map_err(|e| {
            Error::profile(format!("the profile cannot be read: {e}"))
                .help(encoding::mend(&e, "name a TOML file, or a machine such as dgx-h100"))
        })?;
        Ok(Self::File(file.to_owned(), text))
    }

    /// The name that errors repeat.
    fn origin(&self) -> &str {
        match self {
            Self::BuiltIn(origin) | Self::File(origin, _) => origin,
        }
    }

    fn profile(&self) -> Result<Profile> {
        match self {
            Self::BuiltIn(name) => Profile::builtin(name),
            Self::File(file, text) => Profile::parse(text, file).map_err(|refused| {
                match text.lines().any(|line| line.trim_start().starts_with("schema")) {
                    true => refused,
                    false => Error::profile("the file is not the profile of a machine")
                        .at(file.clone())
                        .help(
                            "a profile is TOML that begins with schema = 1; `collcost profiles \
                             show dgx-h100 --format toml` prints one",
                        ),
                }
            }),
        }
    }

    /// The files that it names and that cannot be used.
    fn unusable_files(&self) -> Vec<Finding> {
        let Self::File(origin, text) = self else { return Vec::new() };
        let (Ok(profile), Ok(document)) = (self.profile(), Document::parse(text)) else {
            return Vec::new();
        };
        // Each by itself, so that all are said.
        let only = |key: &str| {
            let mut one = profile.clone();
            match key {
                "fabric" => one.nccl_topology = None,
                _ => one.fabric_file = None,
            }
            one
        };
        let unusable = |key: &str| {
            let refused = with_files(only(key), origin, &|path| Here.text(path)).err()?;
            Some(Finding {
                severity: Severity::Error,
                kind: Kind::Unreadable,
                what: format!("the file that `{key}` names: {}", refused.what()),
                help: refused.mending().map(str::to_owned),
                place: document.value(key),
            })
        };
        ["fabric", "nccl_topology"].into_iter().filter_map(unusable).collect()
    }

    /// The text of the file, or of the one that describes the built-in machine.
    fn text(&self) -> Result<Cow<'_, str>> {
        match self {
            Self::BuiltIn(_) => Ok(Cow::Owned(self.profile()?.to_toml())),
            Self::File(_, text) => Ok(Cow::Borrowed(text)),
        }
    }
}

/// The user's own machines: names and files, in alphabetical order.
fn own() -> Vec<(String, PathBuf)> {
    let Some(folder) = folder().map(|f| f.join("profiles")) else { return Vec::new() };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|f| f.path());
    let toml = files.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    let mut own: Vec<(String, PathBuf)> = toml
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path.clone())))
        .collect();
    own.sort();
    own
}
