//! Libraries: the algorithm that each will pick, its rules as policies with their sources, and the
//! files that it reads. One folder per library.
//!
//! A [`Policy`] answers two questions: which algorithm runs for a [`Call`], and at which sizes that
//! answer may change. From the second answer, [`intervals`] makes exact ranges without sampling. The
//! closed forms give the cost of a choice, through [`Runs`].
//!
//! To add a policy, add a file here with its [`Entry`], and name that in `MPI` or `OTHERS`.

mod call;
mod choice;
pub mod engines;
mod file_policy;
mod fold;
mod gloo;
mod inductor;
mod intervals;
pub mod mpich;
pub mod nccl;
pub mod openmpi;
mod priced;
mod rccl;
mod textbook;
pub mod tuning_file;
mod xla;

pub use call::{Call, Flavour, Operation, Site};
pub use choice::{Choice, FellBack, Part, Pipeline, Runs, Where};
pub use file_policy::of_file;
pub use intervals::{Interval, intervals};
pub use nccl::policy::Nccl;
pub(crate) use openmpi::numbered;
pub(crate) use priced::priced_by;
pub use priced::{Priced, priced, priced_on_links};
pub use xla::options::xla_sol_options;

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::Bytes;
use crate::library::engines::Conditions;
use crate::machine::sample::DataType;
use crate::model::algorithm::{self, Library, Reason};
use nccl::Version;

/// The description of a policy. No field has a default, so that nothing goes undocumented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The name on the command line: library, `@`, version, such as `openmpi@4.1`.
    pub id: String,
    /// The library whose algorithms it chooses from, if this crate has that library.
    pub library: Option<Library>,
    /// One line: whose rules, which version.
    pub title: String,
    /// What its thresholds count, if that is not this crate's M.
    pub counts: String,
    /// The public code that its rules were read from.
    pub source: String,
}

/// The rules by which a library chooses.
pub trait Policy {
    /// Its names, what its thresholds count, and its source.
    fn meta(&self) -> &Meta;

    /// What runs for this call, fall-backs included.
    ///
    /// # Errors
    /// A collective for which it has no rule; a call that the library refuses.
    fn choose(&self, call: &Call) -> Result<Choice>;

    /// The choice if the library may run only the algorithm of this crate called `algorithm`; `None` if it
    /// has none, or that is not known.
    fn only(&self, call: &Call, algorithm: &str) -> Option<Choice> {
        let _ = (call, algorithm);
        None
    }

    /// Every M at which the choice may differ from the choice one byte below, with the other fields of
    /// `call`: none, if its rules do not ask for the size. The sizes are in any order and may include
    /// sizes at which nothing changes.
    ///
    /// # Errors
    /// As [`Self::choose`].
    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        self.choose(call).map(|_| Vec::new())
    }

    /// Alternative policies under the same conditions: other engines.
    fn rivals(&self) -> Vec<Box<dyn Policy>> {
        Vec::new()
    }

    /// The same policy under settings that may change its choice, each with the settings.
    fn ways(&self) -> Vec<(String, Box<dyn Policy>)> {
        Vec::new()
    }

    /// What the library calls this crate's `algorithm` in calls of this operation, if it has it.
    fn name_of(&self, call: &Call, algorithm: &algorithm::Meta) -> Option<String> {
        algorithm.name_in(self.meta().library?, call.collective).map(str::to_owned)
    }

    /// The options or variables that make the library run the algorithm of this crate called
    /// `algorithm` for this call.
    ///
    /// # Errors
    /// Why it cannot be forced: the library has no such algorithm, or falls back to another.
    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        let _ = (call, algorithm);
        Err(Reason::new("it has no option for this"))
    }

    /// The same options with the one that cuts the vector into segments, where the library has one: without it,
    /// a forced pipeline may send the vector in one piece.
    fn cut(&self, call: &Call, forced: String, segment: Bytes) -> String {
        let _ = (call, segment);
        forced
    }
}

/// A policy in the list: its names, and how it is created for a machine.
#[derive(Clone)]
pub struct Entry {
    /// As in [`Meta`].
    pub id: &'static str,
    /// Other names that are accepted; a version may follow the last one's `-` or `@`.
    pub aliases: &'static [&'static str],
    made: Made,
}

/// What a policy is created from.
#[derive(Clone)]
enum Made {
    Nccl(Version),
    /// The fields of its [`Meta`], and who takes that for what is known about a machine.
    Plain {
        library: Option<Library>,
        title: &'static str,
        counts: &'static str,
        source: &'static str,
        make: fn(Meta, &Site) -> Result<Box<dyn Policy>>,
    },
}

impl Entry {
    /// A one-line description.
    #[must_use]
    pub fn title(&self) -> Cow<'static, str> {
        let version = match self.made {
            Made::Nccl(version) => version,
            Made::Plain { title, .. } => return Cow::Borrowed(title),
        };
        let pins = match version.pytorch() {
            [] => String::new(),
            pins => format!("; PyTorch {}", pins.join(", ")),
        };
        let how =
            version.caveat().map_or("bit for bit", |_| "as last developed before its release");
        Cow::Owned(format!("NCCL {version}: tuner and search, {how}{pins}"))
    }

    /// The policy for what is known about a machine.
    ///
    /// # Errors
    /// A policy that does not know this machine.
    pub fn make(&self, site: &Site) -> Result<Box<dyn Policy>> {
        match self.made {
            Made::Nccl(version) => nccl::policy::of(version, site),
            Made::Plain { library, title, counts, source, make } => {
                let [id, title, counts, source] =
                    [self.id, title, counts, source].map(str::to_owned);
                make(Meta { id, library, title, counts, source }, site)
            }
        }
    }
}

/// All policies that need no file; those of one library newest first.
pub static POLICIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let nccl = Version::ALL.into_iter().rev().map(release);
    MPI.iter().cloned().chain(nccl).chain(OTHERS.iter().cloned()).collect()
});

/// A release of NCCL in the list.
fn release(version: Version) -> Entry {
    Entry {
        id: version.policy(),
        aliases: if version == Version::NEWEST { &["nccl"] } else { &[] },
        made: Made::Nccl(version),
    }
}

const MPI: &[Entry] =
    &[openmpi::V5_0, openmpi::V4_1, openmpi::V4_0, openmpi::V3, mpich::V4, mpich::V4_0];

const OTHERS: &[Entry] = &[
    rccl::V2_30,
    rccl::V2_28,
    rccl::V2_27,
    gloo::GLOO,
    inductor::V2025,
    xla::SOL,
    textbook::REGIMES,
    textbook::THRESHOLDS,
];

/// The policy called `name` for a machine: an id, an alias, or a library, which means its newest.
///
/// # Errors
/// An unknown name, with the nearest known one; a policy that does not know this machine.
pub fn policy(name: &str, site: &Site) -> Result<Box<dyn Policy>> {
    if let Some(engine) = engines::asked(&plain(name), site) {
        return engine;
    }
    entry(name)?.make(site)
}

/// Whether `name` names a policy that needs no file, including an engine's.
#[must_use]
pub fn is_policy(name: &str) -> bool {
    is_engine(name) || entry(name).is_ok()
}

/// Whether `name` names an inference engine, as people type it.
#[must_use]
pub fn is_engine(name: &str) -> bool {
    engines::is_engine(&plain(name))
}

/// The bytes of an element for the rules of that policy: 2 in an engine unless told otherwise, 4 in a library.
#[must_use]
pub fn element(name: &str, dtype: Option<DataType>) -> Bytes {
    match dtype {
        Some(dtype) => dtype.bytes(),
        None if is_engine(name) => Conditions::default().dtype().bytes(),
        None => Bytes(4),
    }
}

/// Whether the rules of that policy read variables: an engine's own, or NCCL's.
fn reads_variables(name: &str) -> bool {
    is_engine(name) || entry(name).is_ok_and(|entry| matches!(entry.made, Made::Nccl(_)))
}

/// Why a setting is refused that the rules of `policy` do not read, and whose do.
#[must_use]
pub fn unread(policy: &str, readers: &str) -> Error {
    Error::input(format!("the rules of {policy} do not read it"))
        .help(format!("{readers}; leave it out"))
}

/// Refuses variables if none of the policies reads any.
///
/// # Errors
/// None does: the first is named.
pub fn refuse_variables<'a>(mut policies: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    match policies.clone().any(reads_variables) {
        true => Ok(()),
        false => Err(unread(policies.next().unwrap_or_default(), "NCCL and inference engines do")),
    }
}

/// The entry of the list called `name`: an id, an alias, or a more exact version of one.
///
/// `ompi-4.1.6` is `openmpi@4.1`: libraries have short names, `-` is accepted for `@`, and the first
/// parts of a version may be enough.
///
/// # Errors
/// An unknown name, with the nearest known one; a version that is not in the list.
pub fn entry(name: &str) -> Result<&'static Entry> {
    let mut typed = plain(name);
    // A release of NCCL has several names.
    if let Some(version) = typed.strip_prefix("nccl@") {
        typed = version.parse::<Version>()?.policy().to_owned();
    }
    let named = |name: &str| POLICIES.iter().find(|e| e.id == name || e.aliases.contains(&name));
    // `openmpi@4` is the newest 4 of the list; `openmpi@4.2` is none of those.
    let is_between = |head: &str| {
        POLICIES.iter().all(|e| e.id != head)
            && POLICIES.iter().any(|e| e.id.strip_prefix(head).is_some_and(|l| l.starts_with('.')))
    };
    let mut shorter = typed.as_str();
    loop {
        if let Some(found) = named(shorter) {
            return Ok(found);
        }
        // Only a version has parts to leave out.
        match shorter.rsplit_once('.') {
            Some((head, _)) if head.contains('@') && !is_between(head) => shorter = head,
            _ => break,
        }
    }
    let library = typed.split('@').next().unwrap_or_default();
    let versions: Vec<&str> =
        POLICIES.iter().map(|e| e.id).filter(|id| id.split('@').next() == Some(library)).collect();
    if !versions.is_empty() {
        return Err(Error::input(format!("`{name}` is a version whose rules are not known here"))
            .help(format!("known: {}", versions.join(", "))));
    }
    if let Some(other) = Library::printed(library) {
        return Err(Error::input(format!("the rules of {other} are not known here"))
            .help("it uses its own tables; collcost list policies shows whose rules are"));
    }
    let names =
        POLICIES.iter().flat_map(|e| std::iter::once(e.id).chain(e.aliases.iter().copied()));
    let names = names.chain(engines::ENGINES.iter().map(|e| e.id));
    Err(Error::input(format!("`{name}` is not a policy")).help(did_you_mean(&typed, names, || {
        let engines = engines::ENGINES.iter().map(|e| e.id);
        let ids: Vec<&str> = POLICIES.iter().map(|e| e.id).chain(engines).collect();
        format!("known: {}, and rules-file:PATH", ids.join(", "))
    })))
}

/// Short names of libraries.
const SHORT: &[(&str, &str)] =
    &[("ompi", "openmpi"), ("open-mpi", "openmpi"), ("torch-inductor", "pytorch-inductor")];

/// `library@version` in lowercase letters.
fn plain(name: &str) -> String {
    let lower = name.trim().to_ascii_lowercase().replace('_', "-");
    let versioned = |(_, version): &(&str, &str)| {
        version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
    };
    let split = lower.split_once('@').or_else(|| lower.rsplit_once('-').filter(versioned));
    let (library, version) = split.map_or((lower.as_str(), None), |(l, v)| (l, Some(v)));
    let full = SHORT.iter().find(|(short, _)| *short == library).map_or(library, |(_, full)| full);
    match version {
        Some(version) => format!("{full}@{}", version.trim_start_matches('v')),
        None => full.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_people_type_them() {
        let id = |name: &str| entry(name).unwrap().id;
        assert_eq!(id("nccl"), "nccl@2.30.7");
        assert_eq!(id("nccl-2.28.3"), "nccl@2.28.3");
        assert_eq!(id("nccl@2.24"), "nccl@2.24.3");
        assert_eq!(id("nccl@torch-2.10-cu13"), "nccl@2.28.9");
        for name in ["openmpi@4.1", "ompi-4.1", "OMPI@4.1.6", "open-mpi@v4.1", "openmpi-4.1.8"] {
            assert_eq!(id(name), "openmpi@4.1", "{name}");
        }
        assert_eq!(id("ompi"), "openmpi@5.0");
        assert_eq!([id("openmpi@4.0.7"), id("ompi-3.1.6")], ["openmpi@4.0", "openmpi@3"]);
        assert_eq!([id("mpich-4.2.3"), id("mpich@4.0.3")], ["mpich@4", "mpich@4.0"]);
        assert_eq!([id("openmpi@2.1"), id("mpich@5.0.1")], ["openmpi@3", "mpich@4"]);
        assert_eq!(id("inductor"), "pytorch-inductor@2025");
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_or_the_versions() {
        let text = |name: &str| entry(name).err().unwrap().to_string();
        assert!(text("openmpy").contains("`openmpi`"));
        for unknown in ["openmpi@9", "openmpi@4.2", "openmpi@5.1.0"] {
            assert!(text(unknown).contains("openmpi@4.1"), "{unknown}");
        }
        assert!(text("zzzzzzzzzzzz").contains("rules-file:PATH"));
        for (name, printed) in [
            ("cray-mpich", "Cray MPICH"),
            ("craympich", "Cray MPICH"),
            ("hcoll", "HCOLL"),
            ("ucc", "UCC"),
        ] {
            let said = text(name);
            assert!(said.contains(&format!("the rules of {printed} are not known here")), "{said}");
        }
    }

    #[test]
    fn entries_are_named_once_and_say_what_they_are() {
        let mi300x = crate::machine::profile::Profile::builtin("mi300x").unwrap();
        let site = Site {
            ranks: 8,
            nodes: 1,
            hardware: mi300x.hardware(),
            nccl_graphs: Some("dgx_h100_8x400g".to_owned()),
            fabric: Some(crate::machine::fabric::Fabric::flat(
                crate::base::quantity::Seconds(1e-6),
                crate::base::quantity::Bandwidth(1e9),
            )),
            ..Site::default()
        };
        let mut names = Vec::new();
        for entry in POLICIES.iter() {
            let policy = entry.make(&site).unwrap();
            assert_eq!(policy.meta().id, entry.id);
            assert!(!policy.meta().source.is_empty() && !policy.meta().counts.is_empty());
            names.push(entry.id);
            names.extend(entry.aliases);
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
