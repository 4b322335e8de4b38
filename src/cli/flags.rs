//! Flags that several verbs share: what was typed, and turning it into values with units.
//!
//! Everything is taken as text and parsed here, so that each error has the same three lines.

use std::num::NonZeroU32;
use std::str::FromStr;

use collcost::collective::Collective;
use collcost::error::{Error, Result};
use collcost::formula::{Params, Relay, Tie};
use collcost::presets;
use collcost::profile::Profile;
use collcost::quantity::{Bytes, Ratio, Seconds};
use collcost::query::{Given, Layout, Machine, Query};

// The ranks and where they sit. No doc comments on these structs: clap would show them as the
// verb's own description.
#[derive(clap::Args)]
#[command(next_help_heading = "Ranks")]
pub(super) struct RankFlags {
    /// Ranks in all
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

#[derive(clap::Args)]
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
    /// The same between nodes
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    alpha_inter: Option<String>,
    /// The same of one NIC
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    bw_inter: Option<String>,
    /// Time to add one byte, such as 20ps/B, or the rate, 50GB/s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    gamma: Option<String>,
    /// Time through a switch that adds and multicasts; or nvswitch, tomahawk-ultra, sharp
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

#[derive(clap::Args)]
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

/// A whole number above 0.
fn count(flag: &str, what: &str, text: Option<&String>) -> Result<Option<NonZeroU32>> {
    let Some(text) = text else { return Ok(None) };
    let refuse = |why: &str| {
        Err(Error::input(format!("`{text}` {what}: {why}"))
            .at(format!("{flag} {text}"))
            .mend(format!("write a whole number from 1 to {}", u32::MAX)))
    };
    match text.trim().parse::<i128>() {
        Ok(0) => refuse("there must be at least one"),
        Ok(n) if n < 0 => refuse("there cannot be fewer than none"),
        Ok(n) => match u32::try_from(n) {
            Ok(n) => Ok(NonZeroU32::new(n)),
            Err(_) => refuse("that is more than any machine has"),
        },
        Err(_) => refuse("that is no whole number"),
    }
}

/// A finite number above 0.
fn ratio(flag: &str, text: Option<&String>) -> Result<Option<Ratio>> {
    let Some(text) = text else { return Ok(None) };
    match text.trim().parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(Some(Ratio(x))),
        _ => Err(Error::input(format!("`{text}` is no number above 0"))
            .at(format!("{flag} {text}"))
            .mend("write a plain number, such as 1.5")),
    }
}

/// A time, or the middle of what texts give for a switch of that name.
fn switch_hop(text: Option<&String>) -> Result<Option<Seconds>> {
    let Some(text) = text else { return Ok(None) };
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let hop = presets::find(presets::SWITCH_HOPS, text)
            .map_err(|e| e.at(format!("--alpha-switch {text}")))?;
        return Ok(Some(Seconds((hop.low.0 + hop.high.0) / 2.0)));
    }
    value("--alpha-switch", Some(text))
}

impl MachineFlags {
    fn given(&self, ranks: &RankFlags) -> Result<Given> {
        let named = |name: &String| {
            presets::contention(name).map_err(|e| e.at(format!("--contention {name}")))
        };
        let contention = self.contention.as_ref().map(named).transpose()?;
        let eta_alpha = ratio("--eta-alpha", self.eta_alpha.as_ref())?;
        let eta_beta = ratio("--eta-beta", self.eta_beta.as_ref())?;
        Ok(Given {
            alpha: value("--alpha", self.alpha.as_ref())?,
            bandwidth: value("--bw", self.bw.as_ref())?,
            alpha_inter: value("--alpha-inter", self.alpha_inter.as_ref())?,
            bandwidth_inter: value("--bw-inter", self.bw_inter.as_ref())?,
            gamma: value("--gamma", self.gamma.as_ref())?,
            alpha_switch: switch_hop(self.alpha_switch.as_ref())?,
            launch: value("--launch", self.launch.as_ref())?,
            ports: value("--ports", self.ports.as_ref())?,
            nics: count("--nics-per-node", "NICs", ranks.nics_per_node.as_ref())?,
            placement: value("--placement", ranks.placement.as_ref())?.unwrap_or_default(),
            eta_alpha: contention.map(|c| c.alpha).or(eta_alpha),
            eta_beta: contention.map(|c| c.beta).or(eta_beta),
            protocol: value("--protocol", self.protocol.as_ref())?.unwrap_or_default(),
        })
    }

    /// A built-in machine by its name; anything that looks like a path is read.
    fn read_profile(&self) -> Result<Option<Profile>> {
        let Some(name) = &self.profile else { return Ok(None) };
        let flag = || format!("--profile {name}");
        if !name.contains('/') && !name.ends_with(".toml") {
            return Profile::builtin(name).map(Some).map_err(|e| e.at(flag()));
        }
        let text = std::fs::read_to_string(name).map_err(|e| {
            Error::profile(format!("the profile cannot be read: {e}"))
                .at(flag())
                .mend("name a TOML file, or a machine such as dgx-h100")
        })?;
        Profile::parse(&text, name).map(Some)
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

/// The query that all these flags make.
pub(super) fn query(
    collective: Collective,
    size: Bytes,
    ranks: &RankFlags,
    machine: &MachineFlags,
    params: &ParamFlags,
) -> Result<Query> {
    let given = machine.given(ranks)?;
    let layout = Layout {
        ranks: count("--n", "ranks", ranks.n.as_ref())?,
        nodes: count("--nodes", "nodes", ranks.nodes.as_ref())?,
        per_node: count("--gpus-per-node", "ranks a node", ranks.gpus_per_node.as_ref())?,
    };
    let machine = Machine::new(machine.read_profile()?, &given)?;
    Query::new(machine, collective, size, layout, params.params()?)
}
