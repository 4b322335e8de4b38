//! Tuning files of libraries as tables, and the rule of a table that decides.
//!
//! A table looks up its rules as the library does, pitfalls included, so that one can see what a file
//! makes a library run without running it. The readers report as an error what a library would
//! silently drop. Tables, readers and writers are in the folder of each library.

use super::{mpich, nccl, openmpi};
use crate::base::error::{Error, Result};

pub use mpich::rules::write::mpich_json;
pub use nccl::rules::write::nccl_tuner_csv;
pub use openmpi::rules::write::{Remark, openmpi_rules};

/// The line of a rule in its file, from 1; 0 if it was not read from a file.
///
/// Equal rules are equal on any line, so any two lines compare as equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Line(pub usize);

impl PartialEq for Line {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Line {}

/// A tuning file of one of the libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TuningFile {
    /// Open MPI's dynamic rules of `coll/tuned`.
    OpenMpi(openmpi::rules::Rules),
    /// The same after the text `rule-file-version-N`, which 5.0.7 and later read.
    OpenMpiVersioned(openmpi::rules::Rules),
    /// The same as JSON, which 6.0 reads.
    OpenMpiJson(openmpi::rules::Rules),
    /// MPICH's selection tree.
    Mpich(mpich::rules::Tree),
    /// The table of NCCL's example tuner plugin.
    Nccl(nccl::rules::Rules),
}

/// Reads a tuning file in the format of any of the libraries.
///
/// # Errors
/// The errors of the format's reader; text that looks like none of the formats.
pub fn read_rules(text: &str, file: &str) -> Result<TuningFile> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let first = lines.clone().next().unwrap_or("");
    let number = |c: char| c.is_ascii_digit();
    if first.starts_with('{') && openmpi::rules::json::is(text) {
        let read = openmpi::rules::json::read(text).map_err(|refused| refused.error(file));
        read.map(TuningFile::OpenMpiJson)
    } else if first.starts_with('{') {
        read_mpich_json(text, file).map(TuningFile::Mpich)
    } else if first.starts_with(openmpi::rules::read::VERSION) {
        read_openmpi_rules(text, file).map(TuningFile::OpenMpiVersioned)
    } else if first.starts_with(number) {
        read_openmpi_rules(text, file).map(TuningFile::OpenMpi)
    } else if lines.clone().any(|l| l.contains(',')) {
        read_nccl_tuner_csv(text, file).map(TuningFile::Nccl)
    } else {
        Err(Error::input("the file has no rules of a known library").at(file).help(
            "give Open MPI's dynamic rules, MPICH's JSON or the CSV of NCCL's example plugin",
        ))
    }
}

/// Reads the dynamic rules of Open MPI's `coll/tuned`.
///
/// # Errors
/// Faults for which Open MPI silently drops the whole file or skips a part of it; an algorithm that
/// it does not have; a rule that it never reaches.
pub fn read_openmpi_rules(text: &str, file: &str) -> Result<openmpi::rules::Rules> {
    openmpi::rules::read::read(text).map_err(|refused| refused.error(file))
}

/// Reads a selection tree of MPICH.
///
/// # Errors
/// Text that is not JSON with nested objects; tests that MPICH does not have, or not for the
/// collective; lists of tests without a last test for the remaining cases; numbers that it would
/// truncate.
pub fn read_mpich_json(text: &str, file: &str) -> Result<mpich::rules::Tree> {
    mpich::rules::read::read(text).map_err(|refused| refused.error(file))
}

/// Reads the table of NCCL's example tuner plugin.
///
/// # Errors
/// Lines that the plugin silently drops, and words that it silently reads as other words.
pub fn read_nccl_tuner_csv(text: &str, file: &str) -> Result<nccl::rules::Rules> {
    nccl::rules::read::read(text).map_err(|refused| refused.error(file))
}
