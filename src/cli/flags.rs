//! Flags that several verbs share: what was typed, and turning it into values with units.
//!
//! Everything is taken as text and parsed here, so that each error has the same three lines.

use std::num::NonZeroU32;
use std::str::FromStr;

use super::config::settings;
use super::profiles::find;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use collcost::base::size_is::SizeIs;
use collcost::machine::presets;
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Params, Relay, Tie};
use collcost::plan::config::{Setting, Settings};

// The ranks and where they sit. No doc comments on these structs: clap would show them as the
// verb's own description.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Ranks")]
pub(super) struct RankFlags {
    /// Ranks in all; a sweep as 2..1024 (doubling) or 2,4,8
    #[arg(short, long, visible_aliases = ["np", "ranks"], value_name = "N", allow_hyphen_values = true)]
    n: Option<String>,
    /// Nodes
    #[arg(short = 'N', long, value_name = "N", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// Ranks on each node
    #[arg(short, long, visible_alias = "ppn", value_name = "G", allow_hyphen_values = true)]
    gpus_per_node: Option<String>,
    /// NICs that the ranks of a node share
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    nics_per_node: Option<String>,
    /// How ranks are laid over nodes: block or cyclic
    #[arg(long, value_name = "HOW")]
    placement: Option<String>,
}

#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Machine")]
pub(super) struct MachineFlags {
    /// A built-in machine, or a profile's file
    #[arg(long, visible_alias = "on", value_name = "NAME|FILE")]
    profile: Option<String>,
    /// Time of an empty message, such as 5us; inside a node where there are two tiers
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    alpha: Option<String>,
    /// Rate of one port one way, such as 50GB/s or 400Gb/s
    #[arg(long, visible_alias = "bandwidth", value_name = "RATE", allow_hyphen_values = true)]
    bw: Option<String>,
    /// Time a byte, such as 10ps/B, instead of --bw
    #[arg(long, value_name = "TIME/B", allow_hyphen_values = true, conflicts_with = "bw")]
    beta: Option<String>,
    /// The same between nodes
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    alpha_inter: Option<String>,
    /// The same of one NIC
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    bw_inter: Option<String>,
    /// Time to add one byte, such as 20ps/B, or the rate, 50GB/s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    gamma: Option<String>,
    /// Time through a switch that adds and multicasts; or nvswitch, tomahawk-ultra. The network's:
    /// sharp, or inter=TIME
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    alpha_switch: Option<String>,
    /// What a call costs before its first message
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    launch: Option<String>,
    /// Messages a rank sends and receives at once: 1, 2 …, 1hd (half duplex) or unbounded
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    ports: Option<String>,
    /// Contention: every α takes this much longer
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    eta_alpha: Option<String>,
    /// Contention: the part of every rate that is left
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    eta_beta: Option<String>,
    /// Both at once by fabric: crossbar, nvls, torus
    #[arg(long, value_name = "NAME", conflicts_with_all = ["eta_alpha", "eta_beta"])]
    contention: Option<String>,
    /// NCCL's wire protocol: Simple, LL or LL128
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
}

#[derive(Default, clap::Args)]
#[command(next_help_heading = "Parameters of single algorithms")]
pub(super) struct ParamFlags {
    /// Segments of a pipeline; without it the best number
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    segments: Option<String>,
    /// Radix of k-nomial trees, recursive multiplying and bcube
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    radix: Option<String>,
    /// PAT: the most chunks in one message
    #[arg(long, value_name = "A", allow_hyphen_values = true)]
    pat_agg: Option<String>,
    /// Double binary tree: n_β of the asymptotic form
    #[arg(long, value_name = "C", allow_hyphen_values = true)]
    c_real: Option<String>,
    /// In-network: hops through switches, 2 for one level of them
    #[arg(long, value_name = "H", allow_hyphen_values = true)]
    inc_hops: Option<String>,
    /// Ring relay: one chunk a message
    #[arg(long)]
    relay_chunks: bool,
    /// Ring relay: split what has both ways equally far
    #[arg(long)]
    split_ties: bool,
    /// Sides of a torus or mesh, such as 8x8x8
    #[arg(long, value_name = "AxB…")]
    dims: Option<String>,
    /// Naive and flat: the root's port is this much faster
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    root_speedup: Option<String>,
}

/// Parses a flag's text; an error names the flag.
pub(super) fn value<T: FromStr<Err = Error>>(
    flag: &str,
    text: Option<&String>,
) -> Result<Option<T>> {
    text.map(|t| t.parse().map_err(|e: Error| e.at(format!("{flag} {t}").trim_start()))).transpose()
}

/// Tells sizes from algorithms among words such as `ring 1G`, and puts them into the slots of both.
///
/// # Errors
/// A second algorithm or size.
pub(super) fn sort_words(
    registry: &Registry,
    collective: Collective,
    words: Vec<String>,
    (algorithm, size): (&mut Option<String>, &mut Option<String>),
) -> Result<()> {
    for word in words {
        let known = registry.find(collective, &word).is_ok();
        // A name such as 2d-ring begins with a digit too.
        let number = word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('-');
        let slot = if !known && number { &mut *size } else { &mut *algorithm };
        if let Some(other) = slot.replace(word) {
            return Err(Error::input(format!("`{other}` is one too many"))
                .mend("give one algorithm and one size"));
        }
    }
    Ok(())
}

/// The bytes that `size` means where --size-is says what it counts.
pub(super) fn counted(query: &Query, size: Bytes, size_is: Option<&String>) -> Result<Bytes> {
    let counts: SizeIs = value("--size-is", size_is)?.unwrap_or_default();
    let typed = size_is.map_or("total", String::as_str);
    let total = counts.total(query.shape.collective, query.shape.ranks, size);
    total.map_err(|e| e.at(format!("--size-is {typed}")))
}

/// The most ranks or nodes; pricing asks each rank once, and must not seem to hang.
const MOST: u32 = 1 << 24;

/// A whole number above 0.
pub(super) fn count(flag: &str, what: &str, text: Option<&String>) -> Result<Option<NonZeroU32>> {
    let Some(text) = text else { return Ok(None) };
    let most = if matches!(what, "ranks" | "nodes") { MOST } else { u32::MAX };
    let refuse = |why: &str| {
        Err(Error::input(format!("`{text}` {what}: {why}"))
            .at(format!("{flag} {text}"))
            .mend(format!("write a whole number from 1 to {most}")))
    };
    match text.trim().parse::<i128>() {
        Ok(0) => refuse("there must be at least one"),
        Ok(n) if n < 0 => refuse("there cannot be fewer than none"),
        Ok(n) => match u32::try_from(n) {
            Ok(n) if n <= most => Ok(NonZeroU32::new(n)),
            _ => refuse("that is more than any machine has"),
        },
        Err(_) => refuse("that is no whole number"),
    }
}

/// A whole number from 0.
pub(super) fn whole(flag: &str, what: &str, text: Option<&String>) -> Result<Option<u32>> {
    let Some(text) = text else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| {
        Error::input(format!("`{text}` is no {what}"))
            .at(format!("{flag} {text}"))
            .mend("write a whole number, counted from 0")
    })
}

/// A finite number above 0.
pub(super) fn ratio(flag: &str, text: Option<&String>) -> Result<Option<Ratio>> {
    let Some(text) = text else { return Ok(None) };
    match text.trim().parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(Some(Ratio(x))),
        _ => Err(Error::input(format!("`{text}` is no number above 0"))
            .at(format!("{flag} {text}"))
            .mend("write a plain number, such as 1.5")),
    }
}

/// Times through the switch of a node, and through those of the network: SHARP's is the network's,
/// and so is what is given as `inter=300ns`.
fn switch_hops(text: Option<&String>) -> Result<[Option<Seconds>; 2]> {
    let Some(text) = text else { return Ok([None, None]) };
    match text.strip_prefix("inter=") {
        Some(inter) => Ok([None, switch_hop(inter)?]),
        None if text == "sharp" => Ok([None, switch_hop(text)?]),
        None => Ok([switch_hop(text)?, None]),
    }
}

/// A time, or the middle of what texts give for a switch of that name.
fn switch_hop(text: &str) -> Result<Option<Seconds>> {
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let hop = presets::find(presets::SWITCH_HOPS, text)
            .map_err(|e| e.at(format!("--alpha-switch {text}")))?;
        return Ok(Some(Seconds((hop.low.0 + hop.high.0) / 2.0)));
    }
    value("--alpha-switch", Some(&text.to_owned()))
}

/// The rate of which a time a byte is the inverse.
fn inverse(text: Option<&String>) -> Result<Option<Bandwidth>> {
    let Some(beta) = value::<SecondsPerByte>("--beta", text)? else { return Ok(None) };
    if beta.0 > 0.0 {
        return Ok(Some(Bandwidth(1.0 / beta.0)));
    }
    Err(Error::input("no time a byte is an endless rate")
        .at(format!("--beta {}", text.map_or("", String::as_str)))
        .mend("write a time above 0, such as 10ps/B"))
}

impl RankFlags {
    /// Whether nothing says how many ranks there are.
    pub(super) fn is_silent(&self) -> bool {
        let said = |key| settings().is_ok_and(|s| s.get(key).is_some());
        self.n.is_none()
            && self.nodes.is_none()
            && self.gpus_per_node.is_none()
            && !["n", "nodes", "gpus_per_node"].into_iter().any(said)
    }

    /// The same for ranks that a communicator says.
    ///
    /// # Errors
    /// Ranks that were typed beside it.
    pub(super) fn placed(&self, nodes: u32, per_node: u32) -> Result<Self> {
        let typed = [("--n", &self.n), ("--nodes", &self.nodes)];
        let typed = typed.into_iter().chain([("--gpus-per-node", &self.gpus_per_node)]);
        if let Some((flag, text)) = typed.into_iter().find_map(|(f, t)| Some((f, t.as_ref()?))) {
            return Err(Error::input("the communicator says how many ranks there are")
                .at(format!("{flag} {text}"))
                .mend(format!("leave out {flag}")));
        }
        let (nodes, per_node) = (Some(nodes.to_string()), Some(per_node.to_string()));
        Ok(Self { nodes, gpus_per_node: per_node, ..self.clone() })
    }

    /// Whether nodes, or ranks on one, were typed.
    pub(super) fn names_nodes(&self) -> bool {
        self.nodes.is_some() || self.gpus_per_node.is_some()
    }

    /// The same with the settings where nothing was typed.
    fn settled(&self, machine: &MachineFlags, settings: &Settings) -> Self {
        let mut flags = self.clone();
        // N and the nodes are two answers to one question, and both together a third.
        if self.n.is_none() && self.nodes.is_none() {
            fill(&mut flags.n, settings, "n");
            fill(&mut flags.nodes, settings, "nodes");
        }
        fill(&mut flags.placement, settings, "placement");
        if !machine.names_another() {
            if self.n.is_none() || self.nodes.is_none() {
                fill(&mut flags.gpus_per_node, settings, "gpus_per_node");
            }
            fill(&mut flags.nics_per_node, settings, "nics");
        }
        flags
    }

    /// N where it is given.
    pub(super) fn count(&self) -> Result<Option<NonZeroU32>> {
        count("--n", "ranks", self.n.as_ref())
    }

    /// The same for the `n` ranks of a schedule from `file`.
    pub(super) fn for_ranks(self, n: u32, file: &str) -> Result<Self> {
        match self.count()? {
            Some(asked) if asked.get() != n => {
                Err(Error::input(format!("the schedule has {n} ranks, not {asked}"))
                    .at(format!("--n {asked} --schedule {file}"))
                    .mend("leave out --n"))
            }
            _ => Ok(Self { n: Some(n.to_string()), ..self }),
        }
    }

    /// The same for the `n` ranks of a log.
    pub(super) fn with_ranks(self, n: u32) -> Self {
        Self { n: Some(n.to_string()), ..self }
    }

    /// The same over that many nodes.
    pub(super) fn with_nodes(self, nodes: u32) -> Self {
        Self { nodes: Some(nodes.to_string()), ..self }
    }
}

impl MachineFlags {
    fn given(&self, ranks: &RankFlags) -> Result<Given> {
        let named = |name: &String| {
            presets::contention(name).map_err(|e| e.at(format!("--contention {name}")))
        };
        let contention = self.contention.as_ref().map(named).transpose()?;
        let eta_alpha = ratio("--eta-alpha", self.eta_alpha.as_ref())?;
        let eta_beta = ratio("--eta-beta", self.eta_beta.as_ref())?;
        let [alpha_switch, alpha_switch_inter] = switch_hops(self.alpha_switch.as_ref())?;
        Ok(Given {
            alpha: value("--alpha", self.alpha.as_ref())?,
            bandwidth: value("--bw", self.bw.as_ref())?.or(inverse(self.beta.as_ref())?),
            alpha_inter: value("--alpha-inter", self.alpha_inter.as_ref())?,
            bandwidth_inter: value("--bw-inter", self.bw_inter.as_ref())?,
            gamma: value("--gamma", self.gamma.as_ref())?,
            alpha_switch,
            alpha_switch_inter,
            launch: value("--launch", self.launch.as_ref())?,
            ports: value("--ports", self.ports.as_ref())?,
            nics: count("--nics-per-node", "NICs", ranks.nics_per_node.as_ref())?,
            order: value("--placement", ranks.placement.as_ref())?.unwrap_or_default(),
            eta_alpha: contention.map(|c| c.alpha).or(eta_alpha),
            eta_beta: contention.map(|c| c.beta).or(eta_beta),
            protocol: value("--protocol", self.protocol.as_ref())?.unwrap_or_default(),
        })
    }

    /// Whether the flags name a machine of their own, so that no settled figure is of it.
    fn names_another(&self) -> bool {
        let rate = self.bw.is_some() || self.beta.is_some();
        self.profile.is_some() || self.alpha.is_some() && rate
    }

    /// The same with the settings where nothing was typed.
    fn settled(&self, settings: &Settings) -> Self {
        let mut flags = self.clone();
        fill(&mut flags.ports, settings, "ports");
        if !self.names_another() {
            fill(&mut flags.alpha, settings, "alpha");
            if self.beta.is_none() {
                fill(&mut flags.bw, settings, "bw");
            }
            fill(&mut flags.alpha_inter, settings, "alpha_inter");
            fill(&mut flags.bw_inter, settings, "bw_inter");
            fill(&mut flags.gamma, settings, "gamma");
            fill(&mut flags.launch, settings, "launch");
        }
        flags
    }

    /// The machine that is named, and by whom; none where figures make one or nobody names any.
    fn read_profile(&self, settings: &Settings) -> Result<Option<(Profile, &'static str)>> {
        if let Some(name) = &self.profile {
            let found = find(name).map_err(|e| e.at(format!("--profile {name}")))?;
            return Ok(Some((found, "--profile")));
        }
        let settled = settings.get("profile").filter(|_| !self.names_another());
        let Some(Setting { value, from, .. }) = settled else { return Ok(None) };
        let found = find(value).map_err(|e| e.at(format!("{from}: {value}")))?;
        Ok(Some((found, from.short())))
    }
}

/// Puts in what is settled where nothing was typed.
fn fill(flag: &mut Option<String>, settings: &Settings, key: &str) {
    if flag.is_none() {
        *flag = settings.get(key).map(|s| s.value.clone());
    }
}

impl ParamFlags {
    fn params(&self) -> Result<Params> {
        let number =
            |flag: &str, what: &str, text: &Option<String>| count(flag, what, text.as_ref());
        let get = |n: Option<NonZeroU32>| n.map(NonZeroU32::get);
        let radix = get(number("--radix", "is no radix", &self.radix)?);
        if radix == Some(1) {
            return Err(Error::input("a radix is at least 2").at("--radix 1"));
        }
        Ok(Params {
            segments: number("--segments", "segments", &self.segments)?,
            radix,
            aggregation: number("--pat-agg", "chunks", &self.pat_agg)?,
            c_real: ratio("--c-real", self.c_real.as_ref())?,
            switch_hops: get(number("--inc-hops", "hops", &self.inc_hops)?),
            relay: if self.relay_chunks { Relay::Chunk } else { Relay::Aggregated },
            tie: if self.split_ties { Tie::Split } else { Tie::Right },
            dims: value("--dims", self.dims.as_ref())?,
            root_speedup: ratio("--root-speedup", self.root_speedup.as_ref())?,
            ..Params::default()
        })
    }
}

/// The one query that all these flags make.
pub(super) fn query(
    collective: Collective,
    size: Bytes,
    ranks: &RankFlags,
    machine: &MachineFlags,
    params: &ParamFlags,
) -> Result<Query> {
    let ranks = ranks.settled(machine, settings()?);
    let n = count("--n", "ranks", ranks.n.as_ref())?;
    let (machine, layout) = placed(collective, &ranks, machine)?;
    Query::new(machine, collective, size, Layout { ranks: n, ..layout }, params.params()?)
}

/// The same for the size that was typed, or `default` where none was, counted as --size-is says;
/// a barrier has none.
pub(super) fn sized_query(
    collective: Collective,
    (size, default): (Option<&String>, Bytes),
    size_is: Option<&String>,
    (ranks, machine, params): (&RankFlags, &MachineFlags, &ParamFlags),
) -> Result<Query> {
    let size = match collective {
        Collective::Barrier => Bytes(0),
        _ => value("--size", size)?.unwrap_or(default),
    };
    let mut query = query(collective, size, ranks, machine, params)?;
    query.size = counted(&query, size, size_is)?;
    Ok(query)
}

/// A query for every number of ranks that --n names.
pub(super) fn queries(
    collective: Collective,
    size: Bytes,
    ranks: &RankFlags,
    machine: &MachineFlags,
    params: &ParamFlags,
) -> Result<Vec<Query>> {
    let ranks = ranks.settled(machine, settings()?);
    let counts = rank_counts(ranks.n.as_ref())?;
    let (machine, layout) = placed(collective, &ranks, machine)?;
    let params = params.params()?;
    let query =
        |n| Query::new(machine.clone(), collective, size, Layout { ranks: n, ..layout }, params);
    counts.into_iter().map(query).collect()
}

/// The most rank counts of a sweep.
const MOST_COUNTS: usize = 1000;

/// One count, `2..1024` doubling, or `2,4,8`.
fn rank_counts(text: Option<&String>) -> Result<Vec<Option<NonZeroU32>>> {
    let Some(text) = text else { return Ok(vec![None]) };
    let one = |part: &str| count("--n", "ranks", Some(&part.trim().to_owned()));
    let Some((first, last)) = text.split_once("..") else {
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > MOST_COUNTS {
            return Err(Error::input(format!("more than {MOST_COUNTS} rank counts")).at("--n"));
        }
        return parts.into_iter().map(one).collect();
    };
    let (Some(first), Some(last)) = (one(first)?, one(last.trim_start_matches('='))?) else {
        return Ok(vec![None]);
    };
    if first > last {
        return Err(Error::input(format!("`{text}` has no ranks"))
            .at(format!("--n {text}"))
            .mend("write the smaller number first, as 2..1024"));
    }
    let doubled = std::iter::successors(Some(first.get()), |n| n.checked_mul(2));
    Ok(doubled.take_while(|n| *n <= last.get()).map(NonZeroU32::new).collect())
}

/// The machine, and how ranks lie on it but for their number; `ranks` are settled already.
fn placed(
    collective: Collective,
    ranks: &RankFlags,
    machine: &MachineFlags,
) -> Result<(Machine, Layout)> {
    let settings = settings()?;
    let named = machine.read_profile(settings)?;
    let given = machine.settled(settings).given(ranks)?;
    let layout = Layout {
        ranks: None,
        nodes: count("--nodes", "nodes", ranks.nodes.as_ref())?,
        per_node: count("--gpus-per-node", "ranks a node", ranks.gpus_per_node.as_ref())?,
    };
    let own = named.is_none() && !machine.names_another();
    let mut machine = Machine::new(named, &given, collective)?;
    if let Some(settled) = settings.get("alpha").filter(|_| own && machine.chosen == "flags") {
        machine.chosen = settled.from.short();
    }
    Ok((machine, layout))
}
