//! The fabric file: a link graph as a person writes it, in TOML or JSON.
//!
//! ```toml
//! name     = "two boxes"
//! ranks    = 4                  # a number (g0 … g3), or a list of names
//! switches = ["nv0", "ib"]
//! routing  = "shortest"         # spread, dimension-order (with sides and wrap), minimal, valiant
//! groups   = [["a0", "a1"], ["b0", "b1"]]  # of a dragonfly, for minimal and valiant
//! alpha    = "2us"
//! [[links]]
//! between = ["g0", "nv0"]       # both ways; from and to: one way
//! bw      = "300GB/s"           # each way
//! latency = "700ns"
//! [[faults]]                    # see the next file
//! between = ["g0", "nv0"]
//! times   = 0.5                 # 0: dead
//! [generate]                    # instead of ranks, switches and links
//! kind = "fat-tree"
//! k    = 4
//! bw   = "50GB/s"
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;

use super::fault::Fault;
use super::generate::{Generate, Spec};
use super::{Graph, Link, Node, Routing, groups};
use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::{Rate, Seconds, decimal};
use crate::base::text_pos::Refused;
use crate::model::formula::Rational;

/// The most nodes of a fabric.
const NODES: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Without it, the name of the file.
    name: Option<String>,
    ranks: Option<Ranks>,
    switches: Option<Vec<String>>,
    routing: Option<String>,
    sides: Option<Vec<u32>>,
    wrap: Option<bool>,
    groups: Option<Vec<Vec<String>>>,
    alpha: Option<Amount>,
    #[serde(default)]
    links: Vec<Cable>,
    #[serde(default)]
    faults: Vec<Fault>,
    generate: Option<Generate>,
    /// What switches can do besides forwarding; bounds of plain forwarding do not use it.
    #[serde(default)]
    switch: BTreeMap<String, Ability>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ranks {
    Count(u32),
    Names(Vec<String>),
}

/// A quantity with its unit as text, or in base units as a number.
#[derive(Deserialize, Clone, Debug)]
#[serde(untagged)]
pub(crate) enum Amount {
    Text(String),
    Number(f64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cable {
    between: Option<[String; 2]>,
    from: Option<String>,
    to: Option<String>,
    bw: Amount,
    latency: Option<Amount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ability {
    #[serde(default)]
    multicast: bool,
    #[serde(default)]
    reduce: bool,
}

impl Amount {
    /// The exact rate that `key` has; a bare number counts bytes per second.
    pub(super) fn rate(&self, key: &str) -> Result<Rate> {
        let rate = match self {
            Self::Text(text) => text.parse(),
            Self::Number(x) => decimal(&x.to_string())
                .filter(|x| *x > Rational::from_integer(0))
                .map(Rate)
                .ok_or_else(|| {
                    Error::input(format!("`{x}` is not a bandwidth")).help("write it as 50GB/s")
                }),
        };
        rate.map_err(|e: Error| e.at(key))
    }

    /// The time that `key` has; a bare number counts seconds.
    pub(crate) fn seconds(&self, key: &str) -> Result<Seconds> {
        let time = match self {
            Self::Text(text) => text.parse(),
            Self::Number(x) if x.is_finite() && *x >= 0.0 => Ok(Seconds(*x)),
            Self::Number(x) => {
                Err(Error::input(format!("`{x}` is not a time")).help("write it as 700ns"))
            }
        };
        time.map_err(|e: Error| e.at(key))
    }
}

pub(super) fn parse(text: &str, origin: &str) -> Result<Graph> {
    let file: File = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|e| Error::input(e.to_string()).at(origin))?
    } else {
        toml::from_str(text).map_err(|e| Refused::new(&e, text).error(origin))?
    };
    let mut graph = file.graph().map_err(|e| e.within(origin))?;
    if graph.name.is_empty() {
        graph.name = stem(origin);
    }
    Ok(graph)
}

/// What a fabric without a name is called: as its file is, without folder and ending.
fn stem(origin: &str) -> String {
    let stem = Path::new(origin).file_stem().and_then(|stem| stem.to_str());
    stem.map_or_else(|| "the fabric".to_owned(), str::to_owned)
}

impl File {
    fn graph(self) -> Result<Graph> {
        let mut spec = match &self.generate {
            Some(generate) => {
                if self.ranks.is_some() || self.switches.is_some() || !self.links.is_empty() {
                    return Err(Error::input("`generate` together with ranks, switches or links")
                        .help("write only one of them: `generate` makes all three"));
                }
                generate.spec()?
            }
            None => Spec { name: String::new(), ..self.written()? },
        };
        if let Some(name) = &self.name {
            spec.name.clone_from(name);
        }
        check_names(&spec)?;
        let routing = self.routing(&spec)?;
        let numbers: HashMap<&str, Node> =
            spec.ranks.iter().chain(&spec.switches).map(String::as_str).zip(0..).collect();
        for name in self.switch.keys() {
            if !spec.switches.contains(name) {
                return Err(unknown(name, spec.switches.iter(), "switch"));
            }
        }
        super::fault::apply(&self.faults, &mut spec.links, &numbers).map_err(|e| e.at("faults"))?;
        let mut graph = Graph::new(spec.name, (spec.ranks, spec.switches), spec.links)?;
        graph.switches_add = self.switch.values().any(|can| can.multicast || can.reduce);
        graph.routing = routing;
        graph.alpha =
            self.alpha.as_ref().map_or(Ok(Seconds(0.0)), |alpha| alpha.seconds("alpha"))?;
        graph.check_reach()?;
        Ok(graph)
    }

    /// Nodes and links as written in the file.
    fn written(&self) -> Result<Spec> {
        let ranks = match &self.ranks {
            Some(Ranks::Count(count)) if *count as usize <= NODES => {
                (0..*count).map(|i| format!("g{i}")).collect()
            }
            Some(Ranks::Count(count)) => {
                return Err(Error::input(format!("{count} ranks"))
                    .help(format!("a fabric has at most {NODES} nodes")));
            }
            Some(Ranks::Names(names)) => names.clone(),
            None => {
                return Err(Error::input("a fabric without ranks")
                    .help("write ranks = 8 or their names, or a [generate] section"));
            }
        };
        let mut spec = Spec { ranks, ..Spec::default() };
        spec.switches = self.switches.clone().unwrap_or_default();
        let numbers: HashMap<&str, Node> =
            spec.ranks.iter().chain(&spec.switches).map(String::as_str).zip(0..).collect();
        let mut links = Vec::with_capacity(2 * self.links.len());
        for (i, cable) in self.links.iter().enumerate() {
            let place = |e: Error| e.within(&format!("link {}", i + 1));
            let (a, b, both) =
                ends(&cable.between, &cable.from, &cable.to, &numbers).map_err(place)?;
            let rate = cable.bw.rate("bw").map_err(place)?;
            let latency = cable.latency.as_ref().map(|latency| latency.seconds("latency"));
            let latency = latency.transpose().map_err(place)?.unwrap_or(Seconds(0.0));
            links.push(Link { from: a, to: b, rate, latency });
            if both {
                links.push(Link { from: b, to: a, rate, latency });
            }
        }
        spec.links = links;
        Ok(spec)
    }

    fn routing(&self, spec: &Spec) -> Result<Routing> {
        let name = self.routing.as_deref().unwrap_or("shortest");
        if self.groups.is_some() && !matches!(name, "minimal" | "valiant") {
            return Err(Error::input(format!("routing {name} does not use `groups`"))
                .help("write routing = \"minimal\" or \"valiant\", or leave groups out"));
        }
        match name {
            "minimal" => Ok(Routing::Minimal { groups: groups::read(&self.groups, spec)? }),
            "valiant" => Ok(Routing::Valiant { groups: groups::read(&self.groups, spec)? }),
            "shortest" => Ok(Routing::Shortest),
            "spread" => Ok(Routing::Spread),
            "dimension-order" => {
                let (sides, wraps) = match (&self.sides, &spec.grid) {
                    (Some(sides), _) => (sides.clone(), self.wrap.unwrap_or(false)),
                    (None, Some((sides, wraps))) => (sides.clone(), *wraps),
                    (None, None) => {
                        return Err(Error::input("dimension-order without sides")
                            .help("write sides = [4, 4], and wrap = true on a torus"));
                    }
                };
                let there: u64 = sides.iter().map(|&s| u64::from(s)).product();
                if there != spec.ranks.len() as u64 {
                    return Err(Error::input(format!(
                        "sides {sides:?} hold {there} ranks, not {}",
                        spec.ranks.len()
                    )));
                }
                Ok(Routing::DimensionOrder { sides, wraps })
            }
            other => Err(Error::input(format!("`{other}` is not a routing"))
                .help("write shortest, spread, dimension-order, minimal or valiant")),
        }
    }
}

/// The two nodes that a link or a fault names, and whether it goes both ways.
pub(super) fn ends(
    between: &Option<[String; 2]>,
    from: &Option<String>,
    to: &Option<String>,
    numbers: &HashMap<&str, Node>,
) -> Result<(Node, Node, bool)> {
    let (a, b, both) = match (between, from, to) {
        (Some([a, b]), None, None) => (a, b, true),
        (None, Some(a), Some(b)) => (a, b, false),
        _ => {
            return Err(Error::input("a link without its two ends")
                .help("write between = [\"g0\", \"sw\"], or from and to for one way"));
        }
    };
    let number = |name: &String| {
        numbers
            .get(name.as_str())
            .copied()
            .ok_or_else(|| unknown(name, numbers.keys().copied(), "node"))
    };
    let (a, b) = (number(a)?, number(b)?);
    if a == b {
        return Err(Error::input("a link from a node to itself"));
    }
    Ok((a, b, both))
}

pub(super) fn unknown<S: AsRef<str>>(
    name: &str,
    known: impl Iterator<Item = S>,
    what: &str,
) -> Error {
    let known: Vec<S> = known.collect();
    Error::input(format!("there is no {what} `{name}`")).help(did_you_mean(
        name,
        known.iter().map(AsRef::as_ref),
        || "ranks given as a number are g0, g1, …".to_owned(),
    ))
}

fn check_names(spec: &Spec) -> Result<()> {
    if spec.ranks.is_empty() {
        return Err(Error::input("a fabric without ranks"));
    }
    let mut seen = std::collections::HashSet::new();
    match spec.ranks.iter().chain(&spec.switches).find(|name| !seen.insert(name.as_str())) {
        Some(twice) => Err(Error::input(format!("two nodes are called `{twice}`"))),
        None => Ok(()),
    }
}
