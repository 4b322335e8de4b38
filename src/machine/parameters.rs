//! The parameters of a question: one table, which the flags, `collcost.toml`, budgets, plans and
//! `batch` read.
//!
//! A new parameter needs one entry in [`PARAMETERS`]; everything else reads it from there.

use std::num::NonZeroU32;
use std::str::FromStr;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::machine::fabric::Links;
use crate::machine::presets;
use crate::machine::profile::Profile;
use crate::machine::query::{Given, Layout, Machine, Query};
use crate::model::algorithm::Library;
use crate::model::formula::{Params, Relay, Tie};

/// The given parameters of a question.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    /// The machine's name or file.
    pub profile: Option<String>,
    /// Parameters that override the machine's.
    pub given: Given,
    /// N, nodes, ranks on each.
    pub layout: Layout,
    /// Parameters of single algorithms.
    pub params: Params,
    /// The keys that were set.
    said: Vec<&'static str>,
}

/// One parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Its key in files and in `batch`.
    pub key: &'static str,
    /// Its flag, without dashes.
    pub flag: &'static str,
    /// The flag's letter.
    pub letter: Option<char>,
    /// Other names of the flag.
    pub aliases: &'static [&'static str],
    /// Its heading in the help.
    pub group: Group,
    /// Whether `-h` shows it; `--help` shows all.
    pub common: bool,
    /// Whether it is meaningless for any machine other than the one that it was written for.
    pub of_machine: bool,
    /// The links it applies to, if a machine has links inside nodes and between nodes.
    pub links: Option<Links>,
    /// The kind of its value.
    pub takes: Takes,
    /// What it means, in one line.
    pub help: &'static str,
    /// What its flag takes besides: several values.
    pub several: &'static str,
    /// A valid value.
    pub example: &'static str,
    /// Keys for the same quantity: only one of them may be set.
    pub excludes: &'static [&'static str],
    put: fn(&mut Parameters, &str) -> Result<()>,
}

/// A heading of `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// How many ranks, and their placement.
    Ranks,
    /// Which machine, and its parameters.
    Machine,
    /// Parameters of single algorithms.
    Algorithms,
}

impl Group {
    /// The heading's text.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Ranks => "Ranks",
            Self::Machine => "Machine",
            Self::Algorithms => "Parameters of single algorithms",
        }
    }
}

/// The kind of a parameter's value, with its name in `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A number or a quantity.
    Quantity(&'static str),
    /// A word.
    Word(&'static str),
    /// No value on the command line; true or false elsewhere.
    Nothing,
}

use Group::{Algorithms, Ranks};
use Takes::{Nothing, Quantity, Word};

const BASE: Parameter = Parameter {
    key: "",
    flag: "",
    letter: None,
    aliases: &[],
    group: Group::Machine,
    common: false,
    of_machine: true,
    links: None,
    takes: Nothing,
    help: "",
    several: "",
    example: "",
    excludes: &[],
    put: |_, _| Ok(()),
};

/// Every parameter, in the order of the documentation.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "profile",
        flag: "on",
        aliases: &["profile"],
        of_machine: false,
        common: true,
        takes: Word("NAME|FILE"),
        help: "A built-in machine, or a profile file",
        example: "dgx-a100",
        put: |p, text| set(&mut p.profile, Ok(text.to_owned())),
        ..BASE
    },
    Parameter {
        key: "n",
        flag: "n",
        letter: Some('n'),
        aliases: &["np", "ranks"],
        group: Ranks,
        of_machine: false,
        common: true,
        takes: Quantity("N"),
        help: "Total ranks",
        several: "; where a sweep is possible 2..1024 (doubling) or 2,4,8",
        example: "64",
        put: |p, text| set(&mut p.layout.ranks, count("ranks", text)),
        ..BASE
    },
    Parameter {
        key: "nodes",
        flag: "nodes",
        letter: Some('N'),
        group: Ranks,
        of_machine: false,
        common: true,
        takes: Quantity("N"),
        help: "Nodes",
        example: "8",
        put: |p, text| set(&mut p.layout.nodes, count("nodes", text)),
        ..BASE
    },
    Parameter {
        key: "gpus_per_node",
        flag: "gpus-per-node",
        letter: Some('g'),
        aliases: &["ppn"],
        group: Ranks,
        common: true,
        takes: Quantity("G"),
        help: "Ranks on each node",
        example: "4",
        put: |p, text| set(&mut p.layout.per_node, count("ranks per node", text)),
        ..BASE
    },
    Parameter {
        key: "nics",
        flag: "nics-per-node",
        group: Ranks,
        links: Some(Links::Between),
        takes: Quantity("K"),
        help: "NICs that the ranks of a node share",
        example: "4",
        put: |p, text| set(&mut p.given.nics, count("NICs", text)),
        ..BASE
    },
    Parameter {
        key: "placement",
        flag: "placement",
        group: Ranks,
        of_machine: false,
        takes: Word("HOW"),
        help: "Placement of ranks on nodes: block or cyclic",
        example: "cyclic",
        put: |p, text| plain(&mut p.given.order, text.parse()),
        ..BASE
    },
    Parameter {
        key: "alpha",
        flag: "alpha",
        common: true,
        links: Some(Links::Inside),
        takes: Quantity("TIME"),
        help: "Time of an empty message, such as 5us; inside a node if there are two tiers, of a machine that is a network alone between them",
        example: "5us",
        put: |p, text| set(&mut p.given.alpha, text.parse()),
        ..BASE
    },
    Parameter {
        key: "bw",
        flag: "bw",
        aliases: &["bandwidth"],
        common: true,
        links: Some(Links::Inside),
        takes: Quantity("RATE"),
        help: "Rate of one port in one direction, such as 50GB/s or 400Gb/s",
        example: "50GB/s",
        put: |p, text| set(&mut p.given.bandwidth, text.parse()),
        ..BASE
    },
    Parameter {
        key: "beta",
        flag: "beta",
        links: Some(Links::Inside),
        takes: Quantity("TIME/B"),
        help: "Time per byte, such as 10ps/B, instead of --bw",
        example: "10ps/B",
        excludes: &["bw"],
        put: |p, text| set(&mut p.given.bandwidth, inverse(text)),
        ..BASE
    },
    Parameter {
        key: "alpha_inter",
        flag: "alpha-inter",
        links: Some(Links::Between),
        takes: Quantity("TIME"),
        help: "Time of an empty message between nodes",
        example: "5us",
        put: |p, text| set(&mut p.given.alpha_inter, text.parse()),
        ..BASE
    },
    Parameter {
        key: "bw_inter",
        flag: "bw-inter",
        links: Some(Links::Between),
        takes: Quantity("RATE"),
        help: "Rate of one NIC in one direction",
        example: "50GB/s",
        put: |p, text| set(&mut p.given.bandwidth_inter, text.parse()),
        ..BASE
    },
    Parameter {
        key: "gamma",
        flag: "gamma",
        takes: Quantity("TIME"),
        help: "Time to add one byte, such as 20ps/B, or the rate, 50GB/s",
        example: "20ps/B",
        put: |p, text| set(&mut p.given.gamma, text.parse()),
        ..BASE
    },
    Parameter {
        key: "alpha_switch",
        flag: "alpha-switch",
        takes: Quantity("TIME"),
        help: "Time through a switch that adds and multicasts, or nvswitch, tomahawk-ultra; for \
               the network's switches: sharp, or inter=TIME",
        example: "300ns",
        put: switch,
        ..BASE
    },
    Parameter {
        key: "launch",
        flag: "launch",
        takes: Quantity("TIME"),
        help: "Time of a call before its first message",
        example: "5us",
        put: |p, text| set(&mut p.given.launch, text.parse()),
        ..BASE
    },
    Parameter {
        key: "ports",
        flag: "ports",
        of_machine: false,
        takes: Quantity("K"),
        help: "Messages a rank sends and receives at once: 1, 2 …, 1hd (half duplex) or unbounded",
        example: "2",
        put: |p, text| set(&mut p.given.ports, text.parse()),
        ..BASE
    },
    Parameter {
        key: "library",
        flag: "library",
        aliases: &["ships"],
        takes: Word("NAME"),
        help: "The library that runs, instead of the machine's: nccl, rccl, openmpi, mpich or gloo",
        example: "openmpi",
        put: |p, text| set(&mut p.given.library, library(text)),
        ..BASE
    },
    Parameter {
        key: "gpus_per_thread",
        flag: "gpus-per-thread",
        of_machine: false,
        takes: Quantity("G"),
        help: "GPUs whose calls one thread starts, one after another (nccl-tests -g)",
        example: "8",
        put: |p, text| set(&mut p.given.gpus_per_thread, count("GPUs", text)),
        ..BASE
    },
    Parameter {
        key: "eta_alpha",
        flag: "eta-alpha",
        takes: Quantity("X"),
        help: "Contention: every α is multiplied by this",
        example: "1.5",
        put: |p, text| set(&mut p.given.eta_alpha, ratio(text)),
        ..BASE
    },
    Parameter {
        key: "eta_beta",
        flag: "eta-beta",
        takes: Quantity("X"),
        help: "Contention: every rate is multiplied by this",
        example: "0.8",
        put: |p, text| set(&mut p.given.eta_beta, share(text)),
        ..BASE
    },
    Parameter {
        key: "contention",
        flag: "contention",
        takes: Word("NAME"),
        help: "Contention by fabric, both factors: ideal, crossbar, nvls or torus",
        example: "torus",
        excludes: &["eta_alpha", "eta_beta"],
        put: |p, text| {
            let found = presets::contention(text)?;
            (p.given.eta_alpha, p.given.eta_beta) = (Some(found.alpha), Some(found.beta));
            Ok(())
        },
        ..BASE
    },
    Parameter {
        key: "protocol",
        flag: "protocol",
        of_machine: false,
        takes: Word("NAME"),
        help: "NCCL's wire protocol: Simple, LL or LL128",
        example: "LL",
        put: |p, text| set(&mut p.given.protocol, text.parse()),
        ..BASE
    },
    Parameter {
        key: "segments",
        flag: "segments",
        takes: Quantity("P"),
        help: "Segments of a pipeline; default: the best number",
        example: "8",
        put: |p, text| set(&mut p.params.segments, count("segments", text)),
        ..ALGORITHM
    },
    Parameter {
        key: "radix",
        flag: "radix",
        takes: Quantity("K"),
        help: "Radix of k-nomial trees, recursive multiplying and bcube",
        example: "8",
        put: |p, text| match count("is not a radix", text)?.get() {
            1 => Err(Error::input("a radix is at least 2").help("write 2 or more, such as 4")),
            radix => set(&mut p.params.radix, Ok(radix)),
        },
        ..ALGORITHM
    },
    Parameter {
        key: "pat_agg",
        flag: "pat-agg",
        takes: Quantity("A"),
        help: "PAT: the most chunks in one message",
        example: "2",
        put: |p, text| set(&mut p.params.aggregation, count("chunks", text)),
        ..ALGORITHM
    },
    Parameter {
        key: "c_real",
        flag: "c-real",
        takes: Quantity("C"),
        help: "Double binary tree: n_β of the asymptotic form",
        example: "1.5",
        put: |p, text| {
            let found = ratio(text)?;
            if found.0 < 1.0 {
                return Err(Error::input(format!(
                    "`{text}` is less than 1: every rank gets all of the vector"
                ))
                .help("write 1 or more, such as 1.5"));
            }
            set(&mut p.params.c_real, Ok(found))
        },
        ..ALGORITHM
    },
    Parameter {
        key: "inc_hops",
        flag: "inc-hops",
        takes: Quantity("H"),
        help: "In-network: hops through switches, 2 for one level of them",
        example: "4",
        put: |p, text| set(&mut p.params.switch_hops, count("hops", text).map(NonZeroU32::get)),
        ..ALGORITHM
    },
    Parameter {
        key: "relay_chunks",
        flag: "relay-chunks",
        help: "Ring relay: one chunk per message",
        example: "true",
        put: |p, text| {
            let relay = |chunk| if chunk { Relay::Chunk } else { Relay::Aggregated };
            plain(&mut p.params.relay, yes(text).map(relay))
        },
        ..ALGORITHM
    },
    Parameter {
        key: "split_ties",
        flag: "split-ties",
        help: "Ring relay: split data that is equally far both ways",
        example: "true",
        put: |p, text| {
            let tie = |split| if split { Tie::Split } else { Tie::Right };
            plain(&mut p.params.tie, yes(text).map(tie))
        },
        ..ALGORITHM
    },
    Parameter {
        key: "dims",
        flag: "dims",
        takes: Word("AxB…"),
        help: "Sides of a torus or mesh, such as 8x8x8",
        example: "8x8",
        put: |p, text| set(&mut p.params.dims, text.parse()),
        ..ALGORITHM
    },
    Parameter {
        key: "root_speedup",
        flag: "root-speedup",
        takes: Quantity("X"),
        help: "Naive and flat: the root's port is this much faster",
        example: "2",
        put: |p, text| set(&mut p.params.root_speedup, ratio(text)),
        ..ALGORITHM
    },
];

const ALGORITHM: Parameter = Parameter { group: Algorithms, of_machine: false, ..BASE };

impl Parameter {
    /// The parameter of this key.
    ///
    /// # Errors
    /// An unknown key, with the nearest known one.
    pub fn named(key: &str) -> Result<&'static Self> {
        Self::find(key).ok_or_else(|| {
            let known = PARAMETERS.iter().map(|p| p.key);
            Error::input(format!("`{key}` is not a parameter")).help(advice(key, known))
        })
    }
}

impl Parameter {
    /// The parameter of this key, if it exists. It does not search for a similar name, which takes
    /// longer than a price.
    #[must_use]
    pub fn find(key: &str) -> Option<&'static Self> {
        PARAMETERS.iter().find(|p| p.key == key)
    }

    /// Whether settings of it apply beside the keys that a question itself says: those win, and figures of
    /// a machine do not apply if these keys name another one.
    #[must_use]
    pub fn is_settled(&self, says: impl Fn(&str) -> bool) -> bool {
        let ranks = || says("n") || says("nodes");
        let is_said =
            PARAMETERS.iter().any(|p| (p.key == self.key || p.is_instead_of(self)) && says(p.key));
        !(is_said
            || self.is_of_another(&says)
            // Both set the number of ranks; together they set the ranks per node.
            || matches!(self.key, "n" | "nodes") && ranks()
            || self.key == "gpus_per_node" && says("n") && says("nodes"))
    }

    /// Whether settings of it belong to another machine than these keys name.
    #[must_use]
    pub fn is_of_another(&self, says: impl Fn(&str) -> bool) -> bool {
        (self.of_machine || self.key == "profile") && names_machine(says)
    }

    /// Whether it is for the same quantity as another.
    #[must_use]
    pub fn is_instead_of(&self, other: &Self) -> bool {
        self.excludes.contains(&other.key) || other.excludes.contains(&self.key)
    }
}

/// A hint that names flags, for someone who writes keys: `--alpha-inter` is `alpha_inter`, and `-n 4` is `n = 4`.
#[must_use]
pub fn in_keys(hint: &str) -> String {
    let mut words = hint.split(' ').peekable();
    let mut all: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        let (flag, mark) = word.split_at(word.trim_end_matches([',', '.', ';', ':']).len());
        let is_of = |p: &&Parameter| match flag.strip_prefix("--") {
            Some(name) => p.flag == name,
            None => p.letter.is_some_and(|letter| {
                flag.strip_prefix('-') == Some(letter.encode_utf8(&mut [0; 4]))
            }),
        };
        let Some(parameter) = PARAMETERS.iter().find(is_of) else {
            all.push(word.to_owned());
            continue;
        };
        let is_number = |next: &&str| next.starts_with(|c: char| c.is_ascii_digit());
        let equals =
            if mark.is_empty() && words.peek().is_some_and(is_number) { " =" } else { mark };
        all.push(format!("{}{equals}", parameter.key));
    }
    all.join(" ")
}

/// Whether the given keys define a machine by themselves, to which the settings do not apply.
#[must_use]
pub fn names_machine(says: impl Fn(&str) -> bool) -> bool {
    says("profile") || says("alpha") && (says("bw") || says("beta"))
}

impl Parameters {
    /// Sets a parameter from `text`.
    ///
    /// # Errors
    /// A value that cannot be read; a second parameter for the same quantity.
    pub fn put(&mut self, parameter: &Parameter, text: &str) -> Result<()> {
        let mut said = self.said.iter().filter_map(|key| Parameter::find(key));
        let other = said.find(|other| parameter.is_instead_of(other)).map(|other| other.key);
        if let Some(other) = other {
            let key = parameter.key;
            return Err(Error::input(format!("`{other}` and `{key}` set the same quantity"))
                .help("leave one of them out"));
        }
        (parameter.put)(self, text)?;
        self.said.push(parameter.key);
        Ok(())
    }

    /// Whether a parameter was set.
    #[must_use]
    pub fn says(&self, key: &str) -> bool {
        self.said.contains(&key)
    }

    /// The first of the parameters that were set, and are the question's `own`, for links that no message of the
    /// question uses, and why it is refused.
    #[must_use]
    pub fn idle(&self, query: &Query, own: impl Fn(&str) -> bool) -> Option<(&'static str, Error)> {
        let mut own = PARAMETERS.iter().filter(|p| self.says(p.key) && own(p.key));
        own.find_map(|p| Some((p.key, query.refuse_idle(p.links?, p.key).err()?)))
    }

    /// The question, on the machine that was found (with what named it), else on a machine of the
    /// given parameters, else on the default machine.
    ///
    /// # Errors
    /// As [`Machine::new`] and [`Query::new`].
    pub fn query(
        &self,
        machine: Option<(Profile, &'static str)>,
        collective: Collective,
        size: Bytes,
    ) -> Result<Query> {
        let machine = Machine::new(machine, &self.given, collective)?;
        Query::new(machine, collective, size, self.layout, self.params)
    }
}

fn plain<T>(slot: &mut T, read: Result<T>) -> Result<()> {
    *slot = read?;
    Ok(())
}

fn set<T>(slot: &mut Option<T>, read: Result<T>) -> Result<()> {
    plain(slot, read.map(Some))
}

/// The most ranks or nodes. Pricing visits each rank once and must not seem to hang.
const MOST: u32 = 1 << 24;

/// A whole number above 0 of `what`.
///
/// # Errors
/// Any other text, with the numbers that would be accepted.
pub fn count(what: &str, text: &str) -> Result<NonZeroU32> {
    match text.trim().replace('_', "").parse::<i128>() {
        Ok(number) => counted(what, number),
        Err(_) => Err(no_count(what, text, "that is not a whole number")),
    }
}

/// The same of a number.
///
/// # Errors
/// 0, a negative number, or more than any machine has.
pub fn counted(what: &str, number: impl Into<i128>) -> Result<NonZeroU32> {
    let number = number.into();
    match u32::try_from(number).ok().filter(|&n| n <= most(what)).and_then(NonZeroU32::new) {
        Some(n) => Ok(n),
        None => Err(no_count(
            what,
            &number.to_string(),
            match number {
                0 => "there must be at least one",
                ..0 => "it cannot be negative",
                _ => "that is more than any machine has",
            },
        )),
    }
}

fn most(what: &str) -> u32 {
    if matches!(what, "ranks" | "nodes") { MOST } else { u32::MAX }
}

fn no_count(what: &str, given: &str, why: &str) -> Error {
    Error::input(format!("`{given}` {what}: {why}"))
        .help(format!("write a whole number from 1 to {}", most(what)))
}

/// A finite number above 0.
///
/// # Errors
/// Another text.
pub fn ratio(text: &str) -> Result<Ratio> {
    match text.trim().parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(Ratio(x)),
        _ => Err(Error::input(format!("`{text}` is not a number above 0"))
            .help("write a plain number, such as 1.5")),
    }
}

/// A factor of at most 1.
fn share(text: &str) -> Result<Ratio> {
    let found = ratio(text)?;
    if found.0 > 1.0 {
        return Err(Error::input(format!(
            "`{text}` is more than 1: contention makes no link faster"
        ))
        .help("write a share, such as 0.8"));
    }
    Ok(found)
}

fn library(text: &str) -> Result<Library> {
    let known = || Library::ALL.iter().map(|library| library.id());
    Library::named(text).ok_or_else(|| match Library::printed(text) {
        Some(other) => Error::input(format!("the rules of {other} are not known here"))
            .help(format!("known: {}", known().collect::<Vec<_>>().join(", "))),
        None => Error::input(format!("`{text}` is not a library")).help(advice(text, known())),
    })
}

fn yes(text: &str) -> Result<bool> {
    bool::from_str(text)
        .map_err(|_| Error::input(format!("`{text}` is neither true nor false")).help("write true"))
}

/// The rate that is the inverse of a time per byte.
fn inverse(text: &str) -> Result<Bandwidth> {
    let beta: SecondsPerByte = text.parse()?;
    if beta.0 > 0.0 {
        return Ok(Bandwidth(1.0 / beta.0));
    }
    Err(Error::input("a time of 0 per byte is an infinite rate")
        .help("write a time above 0, such as 10ps/B"))
}

/// A time through the switch of a node, or through those of the network: `sharp` and `inter=300ns`
/// are for the network.
fn switch(p: &mut Parameters, text: &str) -> Result<()> {
    match text.strip_prefix("inter=") {
        Some(inter) => set(&mut p.given.alpha_switch_inter, switch_hop(inter)),
        None if text == "sharp" => set(&mut p.given.alpha_switch_inter, switch_hop(text)),
        None => set(&mut p.given.alpha_switch, switch_hop(text)),
    }
}

/// A time, or the middle of the published range for a switch of that name.
fn switch_hop(text: &str) -> Result<Seconds> {
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let hop = presets::find(presets::SWITCH_HOPS, text)?;
        return Ok(Seconds((hop.low.0 + hop.high.0) / 2.0));
    }
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_keys_where_no_flags_are() {
        for (hint, keys) in [
            ("or give one: --alpha-inter and --bw-inter", "or give one: alpha_inter and bw_inter"),
            ("write --on tpu-v5p -n 64: a slice", "write profile tpu-v5p n = 64: a slice"),
            ("at b.toml:2\n  give --nodes, such as 4", "at b.toml:2\n  give nodes, such as 4"),
            ("collcost import LOG --to csv", "collcost import LOG --to csv"),
        ] {
            assert_eq!(in_keys(hint), keys);
        }
    }

    #[test]
    fn every_parameter_takes_its_example() {
        for parameter in PARAMETERS {
            let mut said = Parameters::default();
            said.put(parameter, parameter.example).unwrap();
            assert!(said.says(parameter.key));
            assert!(!parameter.help.is_empty() && !parameter.flag.is_empty());
            for wrong in ["", "-1", "no such thing"] {
                let mut said = Parameters::default();
                let refused = said.put(parameter, wrong).is_err();
                assert!(refused || parameter.key == "profile", "{} {wrong:?}", parameter.key);
            }
        }
    }

    /// Contention makes no link faster, and each rank gets all of the vector.
    #[test]
    fn impossible_factors_are_refused() {
        for (key, allowed, refused) in [("eta_beta", "1", "1.01"), ("c_real", "1", "0.99")] {
            let put = |text| Parameters::default().put(Parameter::named(key).unwrap(), text);
            put(allowed).unwrap();
            let error = put(refused).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{refused}` is")) && error.contains("write"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_says_the_same_is_said_once() {
        for parameter in PARAMETERS {
            for other in parameter.excludes {
                let other = Parameter::named(other).unwrap();
                for (a, b) in [(parameter, other), (other, parameter)] {
                    let mut said = Parameters::default();
                    said.put(a, a.example).unwrap();
                    let error = said.put(b, b.example).unwrap_err().to_string();
                    assert!(error.contains("set the same quantity"), "{error}");
                }
            }
        }
    }
}
