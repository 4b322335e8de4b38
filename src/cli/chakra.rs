//! The files of a Chakra trace: `NAME.0.et`, `NAME.1.et` and so on, one for each rank.

use std::path::{Path, PathBuf};

use super::input;
use collcost::base::error::{Error, Result};
use collcost::exchange::import::{self, Bare};

/// Whether `file` is named as one of these is.
pub(super) fn is(file: &str) -> bool {
    file.ends_with(".et")
}

/// The operations of all ranks; `file` is the file of any of them.
pub(super) fn read(file: &str, algorithm: Option<&str>) -> Result<Bare> {
    let files = files(file)?.into_iter().map(|file| {
        let name = file.display().to_string();
        match input::bytes(&file) {
            Ok(bytes) => Ok((name, bytes)),
            Err(e) => Err(Error::input(format!("the trace cannot be read: {e}"))
                .at(name)
                .help("give a trace of files that are there and shorter")),
        }
    });
    import::chakra(files, algorithm)
}

/// The files of all ranks, in order.
fn files(file: &str) -> Result<Vec<PathBuf>> {
    let path = Path::new(file);
    let place = |what: String, help: &str| Err(Error::input(what).at(file).help(help));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let missing =
        || place("there is no such file".to_owned(), "name the file of any rank of the trace");
    let Some((stem, _)) = number(name) else {
        if !path.exists() {
            return missing();
        }
        let what = "the name does not say which rank's file of the trace this is".to_owned();
        return place(what, "name the files as Chakra's converters do: NAME.0.et, NAME.1.et, …");
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => return place(format!("its folder cannot be read: {e}"), "correct the path"),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut ranks: Vec<u32> = names
        .filter_map(|name| number(&name).filter(|(other, _)| *other == stem).map(|(_, rank)| rank))
        .collect();
    ranks.sort_unstable();
    if ranks.is_empty() {
        return missing();
    }
    let gap = (0..).zip(&ranks).find(|(expected, rank)| *expected != **rank);
    if let Some((missing, _)) = gap {
        return place(
            format!("the file of rank {missing}, {stem}.{missing}.et, is missing"),
            "give the files of all ranks, numbered from 0",
        );
    }
    let named = |rank: &u32| path.with_file_name(format!("{stem}.{rank}.et"));
    Ok(ranks.iter().map(named).collect())
}

/// `NAME.3.et` as NAME and 3.
fn number(name: &str) -> Option<(&str, u32)> {
    let (stem, rank) = name.strip_suffix(".et")?.rsplit_once('.')?;
    let rank = rank.parse().ok().filter(|number: &u32| number.to_string() == rank)?;
    Some((stem, rank))
}
