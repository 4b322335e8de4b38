//! A machine is a node kind, a network, and its own parameters.
//!
//! ```toml
//! node = "hgx-h100"           # profiles/nodes/hgx-h100.toml
//! nics = "8 x ndr-400g"       # profiles/networks/ndr-400g.toml, eight ports for a node's ranks
//! ```
//!
//! The file that names the parts overrides them. A parameter is replaced as a whole, with its
//! source. A bandwidth also replaces the efficiency, which belongs to that rate only. Launch and
//! curves belong to a library: a machine that runs another library does not take them over. NCCL finds
//! the same graphs on machines of the same parts.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use super::builtin::{self, BUILTIN, NETWORKS, NODES};
use super::{
    Call, Discipline, Generation, LinkKind, Links, Measured, NetworkKind, Profile, SwitchLinks,
    TierKind, curves, letters,
};
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Ratio, Seconds, SecondsPerByte};
use crate::machine::curve::Curve;

/// The ports of a node into a network: `8 x ndr-400g`, or `tcp-25g` if each rank has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nics {
    count: Option<NonZeroU32>,
    network: String,
}

impl FromStr for Nics {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((count, network)) = text.split_once(" x ") else {
            return Ok(Self { count: None, network: text.trim().to_owned() });
        };
        let count = count.trim().parse().map_err(|_| {
            Error::input(format!("`{text}` has no number of NICs")).help("write 8 x ndr-400g")
        })?;
        Ok(Self { count: Some(count), network: network.trim().to_owned() })
    }
}

/// Everything inside a node of one kind: `profiles/nodes/<id>.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    generation: Option<Generation>,
    /// Absent if a node has one rank.
    link: Option<LinkKind>,
    /// False if NICs cannot access the GPUs' memory.
    gpu_direct: Option<bool>,
    p2p: Option<bool>,
    library: Option<String>,
    /// The upper part of a machine's picture.
    picture: Option<String>,
    notes: Vec<String>,
    /// Empty if a node has one rank.
    #[serde(default, rename = "tier")]
    tiers: Vec<Links>,
    #[serde(default)]
    launch: BTreeMap<Call, Measured<Seconds>>,
    gamma: Option<Measured<SecondsPerByte>>,
    c_real: Option<Measured<Ratio>>,
    #[serde(default, rename = "measured", deserialize_with = "curves::read")]
    curves: Vec<Curve>,
}

/// The links between nodes: `profiles/networks/<id>.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    kind: NetworkKind,
    #[serde(default)]
    notes: Vec<String>,
    tier: Links,
}

/// A part that does not exist: the key that names it, and what is wrong.
pub(super) struct NoPart {
    pub(super) key: &'static str,
    pub(super) what: String,
    pub(super) help: Option<String>,
}

/// The part called `id`, which `key` names.
fn part<T: DeserializeOwned>(
    parts: &[(&'static str, &'static str)],
    key: &'static str,
    id: &str,
) -> std::result::Result<T, NoPart> {
    let found = parts.iter().find(|(name, _)| *name == id);
    let Some((_, json)) = found else {
        let known: Vec<&str> = parts.iter().map(|&(name, _)| name).collect();
        let what = match key {
            "node" => format!("`{id}` is not a node kind"),
            _ => format!("`{id}` is not a network"),
        };
        return Err(NoPart { key, what, help: Some(advice(id, &known)) });
    };
    builtin::read(id, json).map_err(|what| NoPart { key, what, help: None })
}

/// The ids of the node kinds that profiles can be made of, in alphabetical order.
pub fn nodes() -> impl Iterator<Item = &'static str> {
    NODES.iter().map(|&(id, _)| id)
}

/// The ids of the networks that profiles can be made of, in alphabetical order.
pub fn networks() -> impl Iterator<Item = &'static str> {
    NETWORKS.iter().map(|&(id, _)| id)
}

/// The name of NCCL's graphs on the built-in machine of the same node, and of the same NICs if they are given:
/// between the GPUs of one node its search takes no NIC.
fn graphs(node: &str, nics: Option<&Nics>) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Parts {
        node: Option<String>,
        nics: Option<Nics>,
        nccl_graphs: Option<String>,
    }
    BUILTIN.iter().filter(|b| b.json.contains("\"nccl_graphs\"")).find_map(|b| {
        let parts: Parts = builtin::read(b.names[0], b.json).ok()?;
        let same = parts.node.as_deref() == Some(node)
            && nics.is_none_or(|nics| parts.nics.as_ref() == Some(nics));
        parts.nccl_graphs.filter(|_| same)
    })
}

impl Profile {
    /// Fills in the parts that the file names; the file's own values win.
    pub(super) fn compose(&mut self) -> std::result::Result<(), NoPart> {
        let own = std::mem::take(&mut self.tiers);
        let own_notes = std::mem::take(&mut self.notes);
        self.library = self.library.take().map(|name| letters(&name).collect());
        let rewired = own.iter().any(Links::is_rewired) || self.nccl_topology.is_some();
        if !rewired
            && self.nccl_graphs.is_none()
            && self.nccl_inside.is_none()
            && self.library.as_deref().is_none_or(|l| l == "nccl")
        {
            let node = self.node_part.as_deref();
            let both = node.zip(self.nics.as_ref());
            self.nccl_graphs = both.and_then(|(node, nics)| graphs(node, Some(nics)));
            if self.nccl_graphs.is_none() {
                self.nccl_inside = node.and_then(|node| graphs(node, None));
            }
        }
        if let Some(id) = self.node_part.take() {
            let node = part(NODES, "node", &id)?;
            self.contain(id, node);
        }
        if let Some(nics) = self.nics.take() {
            let network: Network = part(NETWORKS, "nics", &nics.network)?;
            self.network.get_or_insert(network.kind);
            self.notes.extend(network.notes);
            self.tiers.push(Links {
                nics: nics.count,
                kind: Some(TierKind::Network),
                ..network.tier
            });
        }
        self.notes.extend(own_notes);
        let parts = self.tiers.len();
        for tier in own {
            match self.tiers[..parts].iter_mut().find(|t| t.name == tier.name) {
                Some(under) => under.replace(tier),
                None => self.tiers.push(tier),
            }
        }
        Ok(())
    }

    fn contain(&mut self, id: String, node: Node) {
        self.board.get_or_insert(id);
        self.generation = self.generation.or(node.generation);
        self.link = self.link.or(node.link);
        self.gpu_direct = self.gpu_direct.or(node.gpu_direct);
        self.p2p = self.p2p.or(node.p2p);
        let same_library = self.library.is_none() || self.library == node.library;
        self.library = self.library.take().or(node.library);
        if same_library {
            if self.launch.is_empty() {
                self.launch = node.launch;
            }
            self.c_real = self.c_real.take().or(node.c_real);
            self.curves.splice(0..0, node.curves);
        }
        self.gamma = self.gamma.take().or(node.gamma);
        self.notes = node.notes;
        self.picture = match (node.picture, self.picture.take()) {
            (Some(upper), Some(lower)) => Some(upper + &lower),
            (one, other) => one.or(other),
        };
        let inside = |tier| Links { kind: Some(TierKind::Node), ..tier };
        self.tiers = node.tiers.into_iter().map(inside).collect();
    }
}

impl Links {
    /// Whether it states how a part is wired, or at which rate: what NCCL's search reads.
    fn is_rewired(&self) -> bool {
        self.span.is_some()
            || self.nics.is_some()
            || self.bandwidth.is_some()
            || self.mesh.is_some()
            || self.cube_mesh.is_some()
            || self.torus.is_some()
    }

    /// Takes over every parameter that `over` has.
    fn replace(&mut self, over: Self) {
        if over.bandwidth.is_some() {
            let reached = self.efficiency.take().filter(|_| over.efficiency.is_none());
            self.bandwidth = over.bandwidth;
            if let (Some(reached), Some(switch)) = (reached, &mut self.switch) {
                switch.rescale(reached.value);
            }
        }
        self.kind = over.kind.or(self.kind);
        self.span = over.span.or(self.span);
        self.mesh = over.mesh.or(self.mesh);
        self.cube_mesh = over.cube_mesh.or(self.cube_mesh);
        self.torus = over.torus.or(self.torus);
        self.nics = over.nics.or(self.nics);
        self.ports = over.ports.or(self.ports);
        self.alpha = over.alpha.or_else(|| self.alpha.take());
        self.efficiency = over.efficiency.or_else(|| self.efficiency.take());
        self.duplex_factor = over.duplex_factor.or_else(|| self.duplex_factor.take());
        self.duplex_above = over.duplex_above.or(self.duplex_above);
        self.switch = match (self.switch.take(), over.switch) {
            (Some(under), Some(over)) => Some(under.with(over)),
            (under, over) => over.or(under),
        };
        if over.discipline != Discipline::default() {
            self.discipline = over.discipline;
        }
        if !over.knots.is_empty() {
            self.knots = over.knots;
        }
        self.sharing.extend(over.sharing);
    }
}

impl SwitchLinks {
    /// The same over links whose rate is now said as what transfers reach, which was `reached` of what it was:
    /// the switch's part is of that.
    fn rescale(&mut self, reached: Ratio) {
        if let Some(Measured { value, low, high, .. }) = &mut self.efficiency {
            for part in [Some(value), low.as_mut(), high.as_mut()].into_iter().flatten() {
                part.0 /= reached.0;
            }
        }
    }

    /// The same with every parameter that `over` has.
    fn with(self, over: Self) -> Self {
        let Self { alpha, efficiency, .. } = self;
        Self { alpha: over.alpha.or(alpha), efficiency: over.efficiency.or(efficiency), ..over }
    }
}
