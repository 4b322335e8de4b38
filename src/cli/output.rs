//! Files that the command writes: each written atomically, whatever happens meanwhile.
//!
//! A file has no name while it is written, so that a killed run leaves nothing behind. It gets the
//! mode and owner of the file that it replaces, is synced to disk, and then gets the name in one
//! step. The folder is synced too before success is reported. Links are followed and kept. A target
//! that is not a file, such as a pipe or a device, is written to directly.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use collcost::base::error::{Error, Result};
use tempfile::NamedTempFile;

/// The most links that are followed to one file; more of them form a circle.
const MOST_LINKS: usize = 40;

/// The prefix and suffix of the name that a file has briefly before it replaces another.
const BESIDE: &str = ".collcost-";
const PART: &str = ".part";

/// Writes `text` to `file`, which `flag` named.
///
/// # Errors
/// A file that cannot exist there, which is the caller's fault; a full disk or a reader that left,
/// which is not.
pub(super) fn write_whole(flag: &str, file: &Path, text: impl Display) -> Result<()> {
    refuse_dash(flag, file)?;
    let written = match Place::of(file) {
        Ok(Place::Open(open)) => put(open, text),
        Ok(Place::File(target)) => target.write(text, Taken::Replaced),
        Err(e) => Err(e),
    };
    written.map_err(|e| fault(flag, file, &e))
}

/// Refuses to write to `file`, which `flag` named, what is read from one of `inputs`.
///
/// # Errors
/// It is one of them, by whatever name.
pub(super) fn refuse_input<'a>(
    flag: &str,
    file: &str,
    inputs: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    // What does not exist yet is told by its folder; what is not a file cannot be lost.
    let place = |name: &str| {
        let path = Path::new(name);
        fs::canonicalize(path).ok().or_else(|| Target::named(path).ok().map(|to| to.path))
    };
    let known = place(file).filter(|path| !path.exists() || path.is_file());
    let same = |input: &&str| *input != "-" && known.is_some() && place(input) == known;
    match inputs.into_iter().find(same) {
        None => Ok(()),
        Some(input) => Err(Error::input(format!("{input} would be overwritten"))
            .at(format!("{flag} {file}"))
            .help("name another file")),
    }
}

/// Refuses `-`, which means standard output to most: what else is printed there would be mixed with the file.
fn refuse_dash(flag: &str, file: &Path) -> Result<()> {
    if file != Path::new("-") {
        return Ok(());
    }
    Err(Error::input("a file is written here, not standard output")
        .at(format!("{flag} -"))
        .help("name a file, or /dev/stdout; a file of this name is ./-"))
}

/// Writes a new file; false if it exists.
///
/// # Errors
/// As [`write_whole`].
pub(super) fn write_new(flag: &str, file: &Path, text: impl Display) -> Result<bool> {
    let written = Target::named(file).and_then(|target| target.write(text, Taken::Refused));
    match written {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(fault(flag, file, &e)),
    }
}

/// Appends `text` to a file to which others may also be writing; a partial write is undone.
///
/// # Errors
/// As [`write_whole`].
pub(super) fn append(flag: &str, file: &Path, text: &str) -> Result<()> {
    refuse_dash(flag, file)?;
    let append = || {
        let mut open = OpenOptions::new().create(true).append(true).open(file)?;
        if !open.metadata()?.is_file() {
            return put(&mut open, text);
        }
        open.lock()?;
        let before = open.metadata()?.len();
        disk::asked(|| put(&mut open, text))
            .and_then(|()| disk::asked(|| open.sync_all()))
            .inspect_err(|_| {
                // The first error is the one to report.
                let _ = open.set_len(before);
            })
    };
    append().map_err(|e| fault(flag, file, &e))
}

/// Gives a file a name that is not in use.
///
/// # Errors
/// The system's: `AlreadyExists` if the name is in use.
#[cfg(target_os = "linux")]
pub(super) fn rename_new(file: &Path, name: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, file, CWD, name, RenameFlags::NOREPLACE) {
        // A file system without this flag supports links.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(file, name).and_then(|()| fs::remove_file(file))
        }
        done => Ok(done?),
    }
}

/// Whether a file cannot be written because of the place that was named for it, which is the caller's fault.
pub(super) fn is_of_place(error: &io::Error) -> bool {
    use ErrorKind as K;
    matches!(
        error.kind(),
        K::NotFound
            | K::PermissionDenied
            | K::IsADirectory
            | K::NotADirectory
            | K::AlreadyExists
            | K::ReadOnlyFilesystem
            | K::InvalidFilename
            | K::InvalidInput
            | K::ExecutableFileBusy
    )
}

fn fault(flag: &str, file: &Path, error: &io::Error) -> Error {
    use ErrorKind as K;
    let place = format!("{flag} {}", file.display());
    let what = format!("the file cannot be written: {error}");
    match error.kind() {
        _ if is_of_place(error) => Error::input(what)
            .at(place)
            .help("name a file in a folder that exists and can be written to"),
        K::BrokenPipe => Error::lost(what).at(place).help("the process that read it has ended"),
        _ => Error::lost(what).at(place).help("the file is unchanged; write to another place"),
    }
}

/// Bytes that are written at once.
const AT_ONCE: usize = 1 << 16;

/// Writes what `text` displays, which may be more than fits in memory.
fn put(open: impl Write, text: impl Display) -> io::Result<()> {
    let mut open = BufWriter::with_capacity(AT_ONCE, open);
    let done = write!(open, "{text}").and_then(|()| open.flush());
    // What is left of a failed write is not tried again.
    let _ = open.into_parts();
    done
}

/// What to do with a file that exists already.
#[derive(Clone, Copy, PartialEq)]
enum Taken {
    Replaced,
    Refused,
}

/// What a name refers to.
enum Place {
    /// A file, existing or not.
    File(Target),
    /// A target that is not a file, or is open already.
    Open(File),
}

impl Place {
    /// Follows links one by one, since the last may name a file that does not exist yet.
    fn of(file: &Path) -> io::Result<Self> {
        let mut target = Target::named(file)?;
        for _ in 0..MOST_LINKS {
            // What /proc shows is open already, whatever its name.
            if target.folder.starts_with("/proc") {
                return open(file, &target).map(Self::Open);
            }
            match fs::symlink_metadata(&target.path) {
                Ok(found) if found.is_symlink() => {
                    target = Target::named(&target.folder.join(fs::read_link(&target.path)?))?;
                }
                Ok(found) if !found.is_file() && !found.is_dir() => {
                    return open(file, &target).map(Self::Open);
                }
                _ => return Ok(Self::File(target)),
            }
        }
        Err(io::Error::other("too many links lead to it"))
    }
}

/// Opens a target that is not a file. This program's own outputs are continued, not overwritten.
fn open(file: &Path, target: &Target) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    if target.folder == Path::new(&format!("/proc/{}/fd", std::process::id())) {
        use std::os::fd::AsFd as _;
        match target.path.file_name().and_then(|name| name.to_str()) {
            Some("1") => return io::stdout().as_fd().try_clone_to_owned().map(File::from),
            Some("2") => return io::stderr().as_fd().try_clone_to_owned().map(File::from),
            _ => {}
        }
    }
    let _ = target;
    OpenOptions::new().append(true).open(file)
}

/// A file in its folder, on a path without links.
struct Target {
    folder: PathBuf,
    path: PathBuf,
}

impl Target {
    fn named(file: &Path) -> io::Result<Self> {
        let name: OsString = file.file_name().ok_or(ErrorKind::IsADirectory)?.to_owned();
        if file.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(ErrorKind::IsADirectory.into());
        }
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => fs::canonicalize(folder)?,
            _ => fs::canonicalize(".")?,
        };
        Ok(Self { path: folder.join(name), folder })
    }

    fn write(&self, text: impl Display, taken: Taken) -> io::Result<()> {
        let before = self.before()?;
        if before.is_some() && taken == Taken::Refused {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let unnamed = match disk::has_unnamed() {
            true => disk::asked(|| unnamed::create(&self.folder))?,
            false => None,
        };
        if let Some(file) = unnamed {
            fill(&file, text, before.as_ref())?;
            match disk::asked(|| unnamed::name(&file, &self.path)) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists && taken == Taken::Replaced => {
                    self.sweep();
                    let part = named()
                        .make_in(&self.folder, |part| disk::asked(|| unnamed::name(&file, part)))?;
                    disk::asked(|| part.persist(&self.path).map_err(|e| e.error))?;
                }
                done => done?,
            }
        } else {
            self.sweep();
            let part = self.part()?;
            fill(part.as_file(), text, before.as_ref())?;
            disk::asked(|| match taken {
                Taken::Replaced => part.persist(&self.path).map_err(|e| e.error),
                Taken::Refused => part.persist_noclobber(&self.path).map_err(|e| e.error),
            })?;
        }
        disk::asked(|| sync_folder(&self.folder))
    }

    /// The file that is replaced, if it may be written to.
    fn before(&self) -> io::Result<Option<Metadata>> {
        let found = match fs::symlink_metadata(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_file() {
            return Err(match found.is_dir() {
                true => ErrorKind::IsADirectory.into(),
                false => io::Error::other("it is no longer a file"),
            });
        }
        OpenOptions::new().write(true).open(&self.path)?;
        Ok(Some(found))
    }

    /// A file with a temporary name, if the file system has no files without names.
    fn part(&self) -> io::Result<NamedTempFile> {
        loop {
            let part = disk::asked(|| named().tempfile_in(&self.folder))?;
            disk::asked(|| part.as_file().lock())?;
            // Between the two, another process may have removed it as a leftover.
            if part.path().exists() {
                return Ok(part);
            }
        }
    }

    /// Removes the files of runs that were killed between two steps. A run that is still active
    /// holds a lock.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            let is_part = name.starts_with(BESIDE.as_bytes()) && name.ends_with(PART.as_bytes());
            if !is_part || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let left = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if left {
                // Another process may have removed it already.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(BESIDE).suffix(PART).rand_bytes(10);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Reduced by the user's umask, as for any new file.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder
}

/// Writes the whole text, sets the mode and owner of the replaced file, and syncs.
fn fill(file: &File, text: impl Display, before: Option<&Metadata>) -> io::Result<()> {
    put(Asked(file), text)?;
    if let Some(before) = before {
        keep_owner(file, before)?;
        disk::asked(|| file.set_permissions(before.permissions()))?;
    }
    disk::asked(|| file.sync_all())
}

/// A file whose disk is asked before each part.
struct Asked<'a>(&'a File);

impl Write for Asked<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        disk::asked(|| self.0.write(&part[..part.len().min(AT_ONCE)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(unix)]
fn keep_owner(file: &File, before: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    disk::asked(|| fchown(file, Some(before.uid()), Some(before.gid()))).map_err(|e| {
        io::Error::new(e.kind(), format!("it belongs to another user, who would lose it ({e})"))
    })
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Syncs the names in a folder to disk, if the system supports it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

/// Files without a name, which vanish with the process that has them open.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::Errno;

    /// A locked file in that folder; none if the file system does not support it.
    pub(super) fn create(folder: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match open(folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => {
                let file = File::from(file);
                // It can be given a name only through /proc.
                let is_shown = Path::new(&shown(&file)).exists();
                file.lock()?;
                Ok(is_shown.then_some(file))
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives it a name that is not in use.
    pub(super) fn name(file: &File, path: &Path) -> io::Result<()> {
        Ok(linkat(CWD, shown(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn shown(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

#[cfg(not(target_os = "linux"))]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn create(_: &Path) -> io::Result<Option<File>> {
        Ok(None)
    }

    pub(super) fn name(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Every operation on the disk; in tests any of them may fail.
mod disk {
    #[cfg(not(test))]
    use std::io;

    #[cfg(not(test))]
    pub(super) fn asked<T>(of: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        of()
    }

    #[cfg(not(test))]
    pub(super) fn has_unnamed() -> bool {
        true
    }

    #[cfg(test)]
    pub(super) use faults::{asked, has_unnamed};

    #[cfg(test)]
    pub(super) mod faults {
        use std::cell::Cell;
        use std::io;

        thread_local! {
            /// Operations that still succeed before the disk is full.
            static GRANTED: Cell<usize> = const { Cell::new(usize::MAX) };
            /// Whether the file system lacks files without a name.
            static NAMED: Cell<bool> = const { Cell::new(false) };
        }

        pub(in super::super) fn without_unnamed(named: bool) {
            NAMED.set(named);
        }

        pub(in super::super) fn has_unnamed() -> bool {
            !NAMED.get()
        }

        pub(in super::super) fn grant(count: usize) {
            GRANTED.set(count);
        }

        pub(in super::super) fn asked<T>(of: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
            match GRANTED.get().checked_sub(1) {
                Some(left) => {
                    GRANTED.set(left);
                    of()
                }
                None => Err(io::ErrorKind::StorageFull.into()),
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

    use super::disk::faults::{grant, without_unnamed};
    use super::*;

    /// The contents of a folder: links with their targets, files with their text.
    fn all(folder: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let shown = entries.map(|entry| {
            let path = entry.path();
            let shown = match fs::read_link(&path) {
                Ok(target) => format!("-> {}", target.display()),
                Err(_) => fs::read_to_string(&path).unwrap(),
            };
            (entry.file_name().into_string().unwrap(), shown)
        });
        shown.collect()
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_file_keeps_its_mode_and_links_stay() {
        let here = folder();
        let (file, link) = (here.path().join("file"), here.path().join("link"));
        let dangling = here.path().join("dangling");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", &link).unwrap();
        symlink("made", &dangling).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        write_whole("--out", &link, "new").unwrap();
        write_whole("--out", &dangling, "first").unwrap();
        let found = all(here.path());
        assert_eq!(found["file"], "new");
        assert_eq!(
            (&*found["link"], &*found["dangling"], &*found["made"]),
            ("-> file", "-> made", "first")
        );
        assert_eq!(found.len(), 4);
        let about = fs::metadata(&file).unwrap();
        assert_eq!(about.mode() & 0o777, 0o600);
        assert_ne!(about.ino(), inode, "another file took its place");
        // The umask decides the mode of a new file.
        let plain = here.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&here.path().join("made")), mode(&plain));
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        let here = folder();
        let pipe = here.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                File::open(pipe).unwrap().read_to_string(&mut text).map(|_| text).unwrap()
            }
        });
        write_whole("--out", &pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        let null = here.path().join("null");
        symlink("/dev/null", &null).unwrap();
        write_whole("--out", &null, "nowhere").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let full = write_whole("--out", Path::new("/dev/full"), "x").unwrap_err();
        assert!(full.is_lost(), "{full}");
    }

    #[test]
    fn a_planted_link_is_nobodys_target() {
        let here = folder();
        fs::write(here.path().join("precious"), "kept").unwrap();
        for name in ["file.part", ".collcost-x.part"] {
            symlink("precious", here.path().join(name)).unwrap();
        }
        write_whole("--out", &here.path().join("file"), "new").unwrap();
        write_whole("--out", &here.path().join("file"), "newer").unwrap();
        let found = all(here.path());
        assert_eq!((&*found["precious"], &*found["file"]), ("kept", "newer"));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn what_cannot_be_is_the_readers_to_mend() {
        let here = folder();
        let circle = here.path().join("circle");
        symlink("circle", &circle).unwrap();
        for wrong in [here.path().to_owned(), here.path().join("no/file"), here.path().join("x/")] {
            let error = write_whole("--out", &wrong, "x").unwrap_err();
            assert!(error.is_input(), "{error}");
        }
        assert!(write_whole("--out", &circle, "x").is_err());
        let new = here.path().join("new");
        assert!(write_new("--out", &new, "1").unwrap() && !write_new("--out", &new, "2").unwrap());
        assert_eq!(fs::read_to_string(new).unwrap(), "1");
    }

    /// Whatever fails first, the file is the old or the new one, and nothing else is in the folder.
    #[test]
    fn a_failure_at_every_step_leaves_a_whole_file_and_nothing_else() {
        let (old, new) = ("old".to_owned(), "new ".repeat(50_000));
        for named in [false, true] {
            without_unnamed(named);
            for there in [false, true] {
                let mut failures = 0;
                for granted in 0.. {
                    let here = folder();
                    let file = here.path().join("file");
                    if there {
                        fs::write(&file, &old).unwrap();
                    }
                    grant(granted);
                    let done = write_whole("--out", &file, &new);
                    grant(usize::MAX);
                    let found = all(here.path());
                    assert!(found.len() <= 1, "{granted}: {found:?}");
                    match found.get("file") {
                        Some(text) => assert!(*text == new || there && *text == old, "{granted}"),
                        None => assert!(!there, "{granted}"),
                    }
                    let Err(error) = done else {
                        assert_eq!(found["file"], new);
                        break;
                    };
                    assert!(error.is_lost(), "{error}");
                    failures += 1;
                }
                assert!(failures >= 7, "{named} {there}: {failures} steps");
            }
        }
        without_unnamed(false);
    }

    #[test]
    fn a_summary_that_does_not_fit_leaves_what_others_wrote() {
        let here = folder();
        let file = here.path().join("summary");
        append("--write", &file, "one\n").unwrap();
        append("--write", &file, "two\n").unwrap();
        for granted in 0..2 {
            grant(granted);
            assert!(append("--write", &file, "three\n").unwrap_err().is_lost());
            grant(usize::MAX);
            assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        }
    }

    #[test]
    fn what_killed_runs_left_goes_with_the_next_that_is_written() {
        let here = folder();
        let (left, busy) =
            (here.path().join(".collcost-a.part"), here.path().join(".collcost-b.part"));
        fs::write(&left, "").unwrap();
        let busy_file = File::create(&busy).unwrap();
        busy_file.lock().unwrap();
        let file = here.path().join("file");
        for text in ["1", "2"] {
            write_whole("--out", &file, text).unwrap();
        }
        assert!(!left.exists() && busy.exists());
    }
}
