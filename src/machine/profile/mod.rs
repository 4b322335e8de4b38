//! Machines as data: tiers of links, each parameter with how it was obtained and its source.
//!
//! A profile is a TOML file. A parameter that is absent is unknown; it is never zero.

mod builtin;
mod calibration;
mod check;
mod compose;
mod curves;
mod diff;
mod figure;
mod gpu;
mod hardware;
mod kind;
mod measured;
mod names;
mod write;

pub use crate::machine::link::{Bucket, Knot};
pub use calibration::{
    Calibration, OtherLink, Quality, Regime, StatedBand, StatedBands, StatedError, StatedErrors,
};
pub use check::{Asked, Finding, Kind, Need, Severity, check};
pub use compose::{networks, nodes};
pub use diff::{Change, Diff, Moved, SAME, diff};
pub use figure::{Amount, Figure};
pub use gpu::{Device, Interval, Nccl, Protocol, SwitchPoint};
pub use hardware::Hardware;
pub(crate) use hardware::line_rate;
pub use kind::{Generation, LinkKind, NcclTuner, NetworkKind, Vendor};
pub use measured::{Date, How, Measured};
pub(crate) use names::{Slice, slice};
pub use names::{same, unknown};

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::base::text_pos::{Document, Refused};
use crate::machine::curve::Curve;
pub use crate::machine::fabric::{Discipline, TierKind};
use crate::machine::fabric::{Fabric, Switch, Tier};
use crate::machine::graph::Graph;
use crate::machine::link::{Link, Share};
use crate::machine::nccl::Description;
use crate::machine::wires::{Torus, Wires};
use crate::model::formula::Ports;
use builtin::BUILTIN;
use compose::Nics;
use names::{find, letters};

/// The machine that is used if none is named.
pub const DEFAULT: &str = "dgx-h100";

/// A machine.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of this format: 1.
    pub schema: u32,
    /// The name under which it is found.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Other names of a built-in machine.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The kind of its nodes: machines with the same board share the measurements inside it.
    pub board: Option<String>,
    /// The generation of its chips.
    pub generation: Option<Generation>,
    /// The kind of link between the ranks of a node.
    pub link: Option<LinkKind>,
    /// The kind of network between its nodes.
    pub network: Option<NetworkKind>,
    /// Whether its NICs can access the memory of its GPUs (GPUDirect RDMA); absent: they can, or nobody
    /// knows.
    pub gpu_direct: Option<bool>,
    /// Whether GPUs access each other's memory over PCIe; absent: they do. Otherwise what they send each
    /// other passes through the host's.
    pub p2p: Option<bool>,
    /// The node kind to take over; absent once that is done.
    #[serde(rename = "node")]
    pub(crate) node_part: Option<String>,
    /// The network to take over; absent once that is done.
    pub(crate) nics: Option<Nics>,
    /// The communication library that people run on it.
    pub library: Option<String>,
    /// The name under which NCCL's graphs on it are known, such as `dgx_h100_8x400g`.
    pub nccl_graphs: Option<String>,
    /// The same of one node alone, where those of several are not known.
    pub(crate) nccl_inside: Option<String>,
    /// The tuner that NCCL loads on it.
    pub(crate) nccl_tuner: Option<NcclTuner>,
    /// A topology file, as for `NCCL_TOPO_FILE`, next to this one: the input of NCCL's search.
    pub nccl_topology: Option<String>,
    /// What that file describes; whoever reads the profile's file reads that one too.
    #[serde(skip)]
    pub topology: Option<Arc<Description>>,
    /// A fabric file next to this one: the links between its ranks, one by one.
    #[serde(rename = "fabric")]
    pub fabric_file: Option<String>,
    /// What that file describes; whoever reads the profile's file reads that one too.
    #[serde(skip)]
    pub graph: Option<Arc<Graph>>,
    /// A drawing of the connections.
    pub picture: Option<String>,
    /// What to know before its parameters are used.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Its links, from the innermost out.
    #[serde(default, rename = "tier")]
    pub tiers: Vec<Links>,
    /// The time of a call before its first message.
    #[serde(default)]
    pub launch: BTreeMap<Call, Measured<Seconds>>,
    /// γ: the time to reduce one byte.
    pub gamma: Option<Measured<SecondsPerByte>>,
    /// The measured n_β of the double binary tree, instead of the derived one.
    pub c_real: Option<Measured<Ratio>>,
    /// How the parameters were fitted, and how far to trust them.
    pub fit: Option<Calibration>,
    /// The measured times of its library's collectives.
    #[serde(default, rename = "measured", deserialize_with = "curves::read")]
    pub curves: Vec<Curve>,
    /// The costs of NCCL's protocols on it, and where NCCL switches between them.
    pub nccl: Option<Nccl>,
    /// The times of GPU operations outside collectives.
    #[serde(default, rename = "device")]
    pub devices: Vec<Device>,
}

/// The calls that a launch applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// All calls without a separate launch.
    Any,
    /// Those of one collective.
    Of(Collective),
}

impl Call {
    /// The key in a file: `any`, `allreduce`.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Of(collective) => collective.id(),
        }
    }
}

impl<'de> Deserialize<'de> for Call {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let every = || [Self::Any].into_iter().chain(Collective::ALL.iter().map(|&c| Self::Of(c)));
        every().find(|call| call.id() == text).ok_or_else(|| {
            let known: Vec<String> = every().map(|call| format!("`{}`", call.id())).collect();
            let known = known.join(", ");
            de::Error::custom(format!("unknown field `{text}`, expected one of {known}"))
        })
    }
}

/// A number of messages that leave one port at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flows(pub NonZeroU32);

impl std::fmt::Display for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Flows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| {
            de::Error::custom(format!(
                "`{text}` is not a number of messages\nwrite [tier.sharing.3]"
            ))
        })
    }
}

/// Links of one kind.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// The name in reports.
    pub name: String,
    /// Where they are; absent: as [`Profile::tier_kind`] derives it from the other tiers.
    pub kind: Option<TierKind>,
    /// Ranks in one domain; absent: no limit.
    pub span: Option<NonZeroU32>,
    /// Whether each two ranks of a domain have a link of their own: a port's rate is that of all its
    /// links, of which fewer ranks leave some idle.
    pub mesh: Option<bool>,
    /// Whether eight GPUs are a hybrid cube mesh: a port's rate is that of its six links.
    pub cube_mesh: Option<bool>,
    /// The sides of the torus that the ranks of a domain are, whose links a port's rate is of one.
    pub torus: Option<Torus>,
    /// Ports that the ranks of a domain of the tier below share; absent: each has its own.
    pub nics: Option<NonZeroU32>,
    /// Transfers a rank can make at once; absent: one each way.
    pub ports: Option<Ports>,
    /// How transfers share a port; simulations use it, ideal prices do not.
    #[serde(default)]
    pub discipline: Discipline,
    /// α.
    pub alpha: Option<Measured<Seconds>>,
    /// The rate of one port, one way.
    pub bandwidth: Option<Measured<Bandwidth>>,
    /// The part of that rate which transfers reach; absent: the rate is what they reach.
    pub efficiency: Option<Measured<Ratio>>,
    /// The rate of an exchange over the rate one way; absent: 1 is assumed.
    /// Expectations and simulations use it, ideal prices do not.
    pub duplex_factor: Option<Measured<Ratio>>,
    /// The bytes of a message after which that factor holds, of a tier that has one; absent: of all.
    pub duplex_above: Option<Bytes>,
    /// The bytes of a message below which another rate applies, in ascending order. Expectations
    /// and simulations use them, ideal prices use the one rate.
    #[serde(default)]
    pub knots: Vec<Knot>,
    /// For k messages out of one port at once, the part of the rate that they reach together.
    #[serde(default)]
    pub sharing: BTreeMap<Flows, Measured<Ratio>>,
    /// A switch that computes or multicasts.
    pub switch: Option<SwitchLinks>,
}

/// What the switch of a tier can do.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchLinks {
    /// It can forward one message to many.
    pub multicast: bool,
    /// It can add.
    pub alu: bool,
    /// α_sw.
    pub alpha: Option<Measured<Seconds>>,
    /// The part of the tier's rate that in-network collectives reach; absent: the tier's own.
    pub efficiency: Option<Measured<Ratio>>,
}

/// How knots are written.
const ASCENDING: &str = "write them in ascending order";

impl Links {
    /// What is wrong if its knots do not ascend.
    fn knots_out_of_order(&self) -> Option<String> {
        let pair = self.knots.windows(2).find(|pair| pair[0].below >= pair[1].below)?;
        Some(format!("a knot at {} comes after one at {}", pair[1].below, pair[0].below))
    }
}

impl Profile {
    /// The built-in machine called `name`: case and `-`, `_`, `.` do not matter.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn builtin(name: &str) -> Result<Self> {
        let found = find(name).ok_or_else(|| unknown(name, std::iter::empty()))?;
        let id = found.names[0];
        let refuse = |what, help| Refused { what, place: None, help }.error(id);
        let mut profile: Self = builtin::read(id, found.json).map_err(|what| refuse(what, None))?;
        profile.compose().map_err(|compose::NoPart { what, help, .. }| refuse(what, help))?;
        Ok(profile)
    }

    /// Whether there is a built-in machine called `name`.
    #[must_use]
    pub fn is_builtin(name: &str) -> bool {
        find(name).is_some()
    }

    /// All names of the built-in machine called `name`; none if there is none.
    #[must_use]
    pub fn names_of(name: &str) -> &'static [&'static str] {
        find(name).map_or(&[], |found| found.names)
    }

    /// The names of the built-in machines, in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|b| b.names[0])
    }

    /// Reads a profile; `origin` is the file name that errors repeat.
    ///
    /// # Errors
    /// Invalid TOML, an unknown key, a parameter without unit, no tier: with file, line and column.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let profile = Self::read(text).map_err(|refused| refused.error(origin))?;
        let refuse = |path: String, what, help: Option<&str>| {
            let place = Document::parse(text).ok().map(|d| d.value(&path));
            Err(Refused { what, place, help: help.map(str::to_owned) }.error(origin))
        };
        match (profile.contradiction(), profile.slip()) {
            (Some((path, what)), _) => refuse(path, what, None),
            (None, Some((path, what, help))) => refuse(path, what, Some(help)),
            (None, None) => Ok(profile),
        }
    }

    /// The first slip of an edit by hand: its path, what is wrong, and how to mend it.
    fn slip(&self) -> Option<(String, String, &'static str)> {
        let outside = self.figures().find_map(|figure| {
            let (key, what) = figure.outside().find(|_| figure.is_of_another_unit())?;
            let help = "write the unit of the interval, or mend low and high";
            Some((format!("{}.{key}", figure.path()), what, help))
        });
        let knots = || {
            let mut tiers = self.tiers.iter().enumerate();
            tiers.find_map(|(i, tier)| {
                let what = tier.knots_out_of_order()?;
                Some((format!("tier.{i}.knots"), what, ASCENDING))
            })
        };
        outside.or_else(knots)
    }

    /// Reads the text and the parts that it names, without checking them.
    fn read(text: &str) -> std::result::Result<Self, Refused> {
        let mut profile: Self = toml::from_str(text).map_err(|e| Refused::new(&e, text))?;
        profile.compose().map_err(|compose::NoPart { key, what, help }| {
            let place = Document::parse(text).ok().map(|d| d.value(key));
            Refused { what, place, help }
        })?;
        Ok(profile)
    }

    /// A machine of which nothing else is known.
    #[must_use]
    pub fn bare(name: String, title: String) -> Self {
        Self { schema: 1, name, title, ..Self::default() }
    }

    /// The first impossible statement, with its path.
    fn contradiction(&self) -> Option<(String, String)> {
        if self.schema != 1 {
            return Some((
                "schema".into(),
                format!("schema {} is not supported, only 1", self.schema),
            ));
        }
        if self.tiers.is_empty() {
            return Some(("tier".into(), "the profile has no tier".into()));
        }
        let more = |part: &Option<Measured<Ratio>>| part.as_ref().is_some_and(|p| p.value.0 > 1.0);
        for (i, tier) in self.tiers.iter().enumerate() {
            let of_switch = tier.switch.as_ref().map_or(&None, |switch| &switch.efficiency);
            for (key, part) in [("", &tier.efficiency), ("switch.", of_switch)] {
                if more(part) {
                    let what = format!(
                        "an efficiency of `{}` is above 1: more than the link carries",
                        tier.name
                    );
                    return Some((format!("tier.{i}.{key}efficiency"), what));
                }
            }
        }
        self.tiers.windows(2).enumerate().find_map(|(i, pair)| {
            let (inner, outer) = (&pair[0], &pair[1]);
            if inner.span.is_none() {
                let what =
                    format!("`{}` has no span, and `{}` is outside it", inner.name, outer.name);
                return Some((format!("tier.{i}.name"), what));
            }
            outer.span.filter(|&span| Some(span) <= inner.span).map(|span| {
                let (a, b) = (&outer.name, &inner.name);
                let what = format!("`{a}` spans {span} ranks, no more than `{b}` inside it");
                (format!("tier.{}.span", i + 1), what)
            })
        })
    }

    /// The time of a call of a collective before its first message.
    #[must_use]
    pub fn launch_of(&self, collective: Collective) -> Option<&Measured<Seconds>> {
        self.launch.get(&Call::Of(collective)).or_else(|| self.launch.get(&Call::Any))
    }

    /// The tier whose domains are nodes: the outermost one that is not a network, if it has a span.
    /// `None` for a network alone.
    #[must_use]
    pub fn node(&self) -> Option<usize> {
        let inside = |&i: &usize| self.tier_kind(i) != TierKind::Network;
        let node = (0..self.tiers.len()).rev().find(inside)?;
        self.tiers[node].span.map(|_| node)
    }

    /// Where the links of a tier are, counted from the innermost: as its file says, otherwise
    /// derived from all tiers. If the outermost tier has no span, the network is the first tier
    /// whose domains share NICs and the tiers outside it, or only the outermost tier if none share
    /// NICs. A fit to shared memory is memory.
    #[must_use]
    pub fn tier_kind(&self, tier: usize) -> TierKind {
        if let Some(kind) = self.tiers.get(tier).and_then(|t| t.kind) {
            return kind;
        }
        let shared = self.fit.as_ref().and_then(|fit| fit.transport.as_deref()) == Some("shm");
        if shared || self.link == Some(LinkKind::Memory) {
            return TierKind::Memory;
        }
        let endless = self.tiers.last().is_some_and(|outermost| outermost.span.is_none());
        let nics = || self.tiers.iter().skip(1).position(|t| t.nics.is_some()).map(|i| i + 1);
        let first = endless.then(|| nics().unwrap_or(self.tiers.len() - 1));
        match first {
            Some(first) if tier >= first => TierKind::Network,
            _ => TierKind::Node,
        }
    }

    /// Whether the switches inside a node add and multicast, which NCCL calls NVLS.
    #[must_use]
    pub fn has_nvls(&self) -> bool {
        let adds = |(i, tier): (usize, &Links)| {
            self.tier_kind(i) == TierKind::Node
                && tier.switch.as_ref().is_some_and(|s| s.multicast && s.alu)
        };
        self.tiers.iter().enumerate().any(adds)
    }

    /// The machine as the engine sees it for one collective.
    #[must_use]
    pub fn fabric(&self, collective: Collective) -> Fabric {
        let mut fabric = Fabric::new(self.tiers.iter().map(Links::tier).collect());
        for (i, tier) in fabric.tiers.iter_mut().enumerate() {
            tier.kind = self.tier_kind(i);
        }
        fabric.node = self.node();
        fabric.c_real = self.c_real.as_ref().map(|c| c.value);
        // A calibration states that of its outermost tier.
        if let Some(links) = fabric.tiers.last_mut() {
            links.link.bucket = self.fit.as_ref().and_then(|fit| fit.bucket);
        }
        fabric.gamma = self.gamma.as_ref().map(|g| g.value);
        fabric.launch = self.launch_of(collective).map_or(Seconds(0.0), |o| o.value);
        fabric
    }
}

impl Links {
    /// Links of which only the name is known.
    #[must_use]
    pub fn bare(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// The time of a message on one of them; a token bucket belongs to the whole fit.
    fn link(&self) -> Link {
        let efficiency = self.efficiency.as_ref().map_or(Ratio(1.0), |e| e.value);
        let sharing = self.sharing.iter();
        Link {
            alpha: self.alpha.as_ref().map(|a| a.value),
            bandwidth: self.bandwidth.as_ref().map(|b| b.value * efficiency),
            knots: self.knots.clone(),
            duplex: self.duplex_factor.as_ref().map_or(Ratio(1.0), |d| d.value),
            duplex_above: self.duplex_above.unwrap_or(Bytes(0)),
            sharing: sharing.map(|(k, part)| Share { flows: k.0, part: part.value }).collect(),
            bucket: None,
        }
    }

    /// Whether each two ranks of a domain have a link of their own.
    #[must_use]
    pub fn is_mesh(&self) -> bool {
        self.mesh == Some(true)
    }

    /// How the ranks of a domain are joined.
    #[must_use]
    pub fn wires(&self) -> Wires {
        match self.torus {
            Some(torus) => Wires::Torus(torus),
            None if self.cube_mesh == Some(true) => Wires::CubeMesh,
            None if self.is_mesh() => Wires::Mesh,
            None => Wires::Switch,
        }
    }

    fn tier(&self) -> Tier {
        Tier {
            discipline: self.discipline,
            name: self.name.clone(),
            kind: TierKind::Node,
            span: self.span,
            wires: self.wires(),
            link: self.link(),
            ports: self.ports.unwrap_or(Ports::ONE),
            nics: self.nics,
            oversubscription: Ratio(1.0),
            switch: self.switch.as_ref().map(|s| Switch {
                alpha: s.alpha.as_ref().map(|a| a.value),
                bandwidth: self
                    .bandwidth
                    .as_ref()
                    .zip(s.efficiency.as_ref())
                    .map(|(b, e)| b.value * e.value),
                multicast: s.multicast,
                alu: s.alu,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_place() {
        let text = "schema = 1\nname = \"x\"\ntitle = \"x\"\n[[tier]]\nname = \"a\"\n\
                    [tier.alpha]\nvalue = \"5\"\nhow = \"assumed\"\nsource = \"nobody\"\n";
        let e = Profile::parse(text, "x.toml").unwrap_err();
        assert!(e.to_string().contains("x.toml:7:9: value = \"5\""), "{e}");
        assert!(e.to_string().contains("without unit"), "{e}");
        assert!(e.to_string().contains("write a time with its unit"), "{e}");
    }

    /// The commonest slip of an edit by hand: another unit than that of the interval.
    #[test]
    fn a_value_beyond_its_own_interval_and_knots_out_of_order_are_refused() {
        let text = |value: &str, knots: &str| {
            format!(
                "schema = 1\nname = \"x\"\ntitle = \"x\"\n[[tier]]\nname = \"a\"\n{knots}[tier.alpha]\nvalue = \"{value}\"\n\
                 how = \"fitted\"\nsource = \"a run of the test\"\nlow = \"240ns\"\nhigh = \"270ns\"\n"
            )
        };
        let refused =
            |value, knots| Profile::parse(&text(value, knots), "x.toml").unwrap_err().to_string();
        for value in ["257ns", "500ns", "100ns"] {
            assert!(Profile::parse(&text(value, ""), "x.toml").is_ok(), "{value}");
        }
        let error = refused("257us", "");
        assert!(
            error.contains("value 257 µs is above high 270 ns") && error.contains("x.toml:11"),
            "{error}"
        );
        assert!(refused("257ps", "").contains("low 240 ns is above value"));
        let knots = "knots = [{ below = \"4KiB\", bandwidth = \"1GB/s\" }, { below = \"2KiB\", bandwidth = \"2GB/s\" }]\n";
        assert!(refused("257ns", knots).contains("a knot at 2 KiB comes after one at 4 KiB"));
    }

    #[test]
    fn a_launch_is_of_its_collective_or_of_any() {
        let h100 = Profile::builtin("dgx-h100").unwrap();
        let launch = |collective| h100.launch_of(collective).unwrap().value;
        assert_eq!(launch(Collective::ReduceScatter), Seconds(4.6e-6));
        assert_eq!(launch(Collective::Broadcast), Seconds(4.3e-6));
        assert_eq!(h100.fabric(Collective::ReduceScatter).launch, Seconds(4.6e-6));
    }

    #[test]
    fn a_node_is_what_a_network_joins() {
        let node = |name: &str| {
            let profile = Profile::builtin(name).unwrap();
            profile.node().and_then(|i| profile.tiers[i].span).map(NonZeroU32::get)
        };
        assert_eq!(node("dgx-h100"), Some(8));
        assert_eq!(node("l40s-pcie"), Some(8));
        assert_eq!(node("tpu-v5p"), Some(6144));
        assert_eq!(node("ib-hdr"), None);
    }

    #[test]
    fn machines_with_one_board_share_what_was_measured_inside_it() {
        let of = |name: &str| Profile::builtin(name).unwrap();
        let (h100, p5, a3) = (of("dgx-h100"), of("p5"), of("a3-megagpu-8g"));
        assert_eq!(h100.board.as_deref(), Some("hgx-h100"));
        assert_eq!((&p5.board, &a3.board), (&h100.board, &h100.board));
        assert_eq!(a3.curves, h100.curves);
        // Measurements over several nodes stay with the machine.
        assert_eq!(p5.curves[..h100.curves.len()], h100.curves);
        assert!(
            p5.curves[h100.curves.len()..].iter().all(|c| c.placed.iter().all(|p| p.nodes > 1))
        );
        assert_eq!((h100.network, a3.network), (Some(NetworkKind::Ib), Some(NetworkKind::Tcpxo)));
        assert!(h100.has_nvls() && !of("dgx-a100").has_nvls() && !of("ib-ndr").has_nvls());
        // Open MPI's times are not NCCL's.
        let text =
            "schema = 1\nname = \"x\"\ntitle = \"x\"\nnode = \"hgx-a100\"\nlibrary = \"openmpi\"\n";
        let mpi = Profile::parse(text, "x.toml").unwrap();
        assert!(mpi.curves.is_empty() && mpi.launch.is_empty());
    }

    #[test]
    fn a_file_of_a_machines_parts_is_that_machine_to_nccl() {
        let of = |parts: &str| {
            let text =
                format!("schema = 1\nname = \"x\"\ntitle = \"x\"\nnode = \"hgx-h100\"\n{parts}");
            Profile::parse(&text, "x.toml").unwrap()
        };
        let eight = "nics = \"8 x ndr-400g\"\n";
        let graphs = |parts: &str| of(parts).nccl_graphs;
        let dgx = Profile::builtin("dgx-h100").unwrap();
        assert_eq!(graphs(eight), dgx.nccl_graphs);
        assert_eq!(graphs("nics = \"4 x ndr-400g\"\n"), None);
        // Inside a node its NICs do not matter.
        let inside = of("nics = \"4 x ndr-400g\"\n").nccl_inside;
        assert_eq!((inside, of(eight).nccl_inside), (dgx.nccl_graphs.clone(), None));
        assert_eq!(graphs(&format!("{eight}library = \"openmpi\"\n")), None);
        let tier = |more: &str| format!("{eight}[[tier]]\nname = \"NDR 400G\"\n{more}");
        assert_eq!(graphs(&tier("")), dgx.nccl_graphs);
        assert_eq!(graphs(&tier("nics = 4\n")), None);
        // A library's name is written as people write it.
        let named = |library: &str| of(&format!("{eight}library = \"{library}\"\n"));
        assert_eq!(named("NCCL").curves, dgx.curves[..named("nccl").curves.len()]);
        assert_eq!(named("Open MPI").library.as_deref(), Some("openmpi"));
        let text = |library: &str| {
            format!(
                "schema = 1\nname = \"x\"\ntitle = \"x\"\nlibrary = \"{library}\"\nnode = \"b60\"\n"
            )
        };
        let found = |library: &str| check(&text(library), &Asked::default());
        assert!(found("RCCL").is_empty() && found("oneCCL").is_empty());
        let [slip] = &found("nccll")[..] else { panic!("{:?}", found("nccll")) };
        assert_eq!((slip.severity, slip.place.line), (Severity::Warning, 4));
        assert!(slip.help.as_ref().unwrap().contains("`nccl`"), "{slip:?}");
    }

    #[test]
    fn a_file_overrides_how_its_parts_are_wired_and_what_their_switches_do() {
        let of = |node: &str, tier: &str, more: &str| {
            let text = format!(
                "schema = 1\nname = \"x\"\ntitle = \"x\"\nnode = \"{node}\"\n[[tier]]\nname = \"{tier}\"\n{more}"
            );
            Profile::parse(&text, "x.toml").unwrap().tiers.remove(0)
        };
        assert_eq!(of("hgx-v100", "NVLink2", "").wires(), Wires::CubeMesh);
        assert_eq!(of("hgx-v100", "NVLink2", "cube_mesh = false\n").wires(), Wires::Switch);
        assert_eq!(of("mi300x", "xGMI", "mesh = false\n").wires(), Wires::Switch);
        let how = "how = \"measured\"\nsource = \"our own run of 2026\"\n";
        let switch = "[tier.switch]\nmulticast = true\nalu = true\n";
        let efficiency = format!("{switch}[tier.switch.efficiency]\nvalue = 0.58\n{how}");
        let own = of("hgx-h100", "NVLink4", &efficiency).tier().switch.unwrap();
        assert_eq!(own.bandwidth, Some(Bandwidth(0.58 * 450e9)));
        assert!(own.alpha.is_some());
        // What transfers reach is as before, and so is what the switch reaches.
        let reached = format!("[tier.bandwidth]\nvalue = \"360GB/s\"\n{how}");
        let [stock, own] = ["", &reached].map(|more| of("hgx-h100", "NVLink4", more).tier());
        let rates = |tier: &Tier| {
            [tier.link.bandwidth, tier.switch.unwrap().bandwidth]
                .map(|rate| rate.unwrap().0.round())
        };
        assert_eq!(rates(&stock), rates(&own));
    }

    #[test]
    fn every_part_belongs_to_a_machine() {
        let used = |key: &str, id: &str| {
            BUILTIN.iter().any(|b| {
                let file: serde_json::Value = serde_json::from_str(b.json).unwrap();
                file[key].as_str().is_some_and(|text| text.ends_with(id))
            })
        };
        assert!(nodes().all(|id| used("node", id)) && nodes().is_sorted());
        assert!(networks().all(|id| used("nics", id)) && networks().is_sorted());
    }

    #[test]
    fn kinds_are_derived_where_a_file_says_nothing() {
        let text = |tiers: &str| format!("schema = 1\nname = \"x\"\ntitle = \"x\"\n{tiers}");
        let kinds = |tiers: &str| {
            let profile = Profile::parse(&text(tiers), "x.toml").unwrap();
            (0..profile.tiers.len()).map(|i| profile.tier_kind(i).id()).collect::<Vec<_>>()
        };
        let tier = |more: &str| format!("[[tier]]\nname = \"{}\"\n{more}\n", more.len());
        let (a, b, c) = (tier("span = 2"), tier("span = 4  # far"), tier("nics = 4"));
        assert_eq!(kinds(&format!("{a}{b}{c}")), ["node", "node", "network"]);
        assert_eq!(kinds(&format!("{a}{b}")), ["node", "node"]);
        assert_eq!(kinds(&format!("{a}{}", tier(""))), ["node", "network"]);
        assert_eq!(kinds(&tier("")), ["network"]);
        assert_eq!(kinds(&format!("link = \"memory\"\n{}", tier(""))), ["memory"]);
        assert_eq!(kinds(&tier("kind = \"node\"")), ["node"]);
    }

    #[test]
    fn a_file_is_made_of_parts() {
        let head = "schema = 1\nname = \"rack\"\ntitle = \"x\"\n";
        let parse = |more: &str| Profile::parse(&format!("{head}{more}"), "rack.toml");
        let rack = parse(
            "node = \"hgx-h100\"\nnics = \"4 x ndr-400g\"\n[[tier]]\nname = \"NDR 400G\"\n\
             [tier.alpha]\nvalue = \"2us\"\nhow = \"measured\"\nsource = \"node 3\"\n",
        )
        .unwrap();
        let network = &rack.tiers[1];
        assert_eq!(network.nics, NonZeroU32::new(4));
        assert_eq!(network.alpha.as_ref().unwrap().value, Seconds(2e-6));
        assert_eq!(network.bandwidth.as_ref().unwrap().value, Bandwidth(48e9));
        assert_eq!(rack.tier_kind(1), TierKind::Network);
        assert_eq!(rack.board.as_deref(), Some("hgx-h100"));
        let said = parse("node = \"hgx-h1000\"").unwrap_err().to_string();
        assert!(said.contains("rack.toml:4:8: node = \"hgx-h1000\""), "{said}");
        assert!(said.contains("did you mean `hgx-h100`?"), "{said}");
        let said = parse("nics = \"x x ndr-400g\"").unwrap_err().to_string();
        assert!(said.contains("write 8 x ndr-400g"), "{said}");
        let said = parse("").unwrap_err().to_string();
        assert!(said.contains("no tier"), "{said}");
    }
}
