//! The error of the default answer on published points, with their cluster left out of everything that
//! was learned: constants, series and bands.
//!
//! It is compared with NCCL's own estimate, PyTorch's, and the ideal price of what runs, each on the points
//! for which it has an answer. These are made to rank, not to predict real times.

mod figures;
mod published;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Seconds};
use crate::library::{Call, Site, policy};
use crate::machine::profile::{LinkKind, Profile};
use crate::machine::query::{Given, Layout, Machine, Query};
use crate::measure::expect::{Basis, Clusters, Expectation, Expecting, Learned, Study};
use crate::model::algorithm::Registry;
use crate::model::formula::Params;

pub use figures::{Figures, figures};
pub use published::{Mapped, Published, is_published, map, of_logs, published};

/// The answers for a point.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The point.
    pub point: Published,
    /// The machine that was left out; `None` if nothing was learned from the cluster.
    pub left_out: Option<String>,
    /// The link between the ranks of a node.
    pub link: Option<LinkKind>,
    /// Whether the cluster was published in 2024 or later, if known.
    pub recent: bool,
    /// The default answer.
    pub answer: Expectation,
    /// The same after one point of the series was seen; `None` for that point itself.
    pub seen: Option<Expectation>,
    /// NCCL's own estimate.
    pub nccl: Option<Seconds>,
    /// PyTorch inductor's.
    pub pytorch: Option<Seconds>,
    /// The ideal price of what runs.
    pub ideal: Option<Seconds>,
    /// Its time over ideal links as the library pipelines it.
    pub pipelined: Option<Seconds>,
}

/// One collective of one cluster on one number of ranks and nodes.
type Series<'p> = (&'p str, &'p str, Collective, u32, u32);

/// Every point's answer, and why points of a series have none.
///
/// # Errors
/// The built-in data cannot be learned from.
pub fn answers(points: &[Published]) -> Result<(Vec<Answered>, Vec<String>)> {
    let clusters = Clusters::built_in()?;
    let registry = Registry::builtin();
    let mut series: BTreeMap<Series<'_>, Vec<&Published>> = BTreeMap::new();
    for p in points {
        let key = (p.cluster.as_str(), p.profile.as_str(), p.collective, p.ranks, p.nodes);
        series.entry(key).or_default().push(p);
    }
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    let is_known = |p: &Published| clusters.machine_of(&p.cluster).is_some();
    // If nothing was learned from any of them, the built-in model answers unchanged.
    let study = points.iter().any(is_known).then(|| Study::new(&clusters)).transpose()?;
    let mut models: BTreeMap<Option<&str>, Learned> = BTreeMap::new();
    for ((cluster, profile, collective, ranks, nodes), points) in series {
        let machine = clusters.machine_of(cluster);
        let learned = models.entry(machine).or_insert_with(|| match study.as_ref().zip(machine) {
            Some((study, machine)) => study.without(machine),
            None => Learned::built_in().clone(),
        });
        let published = points[0].published.as_deref().or(clusters.published(cluster));
        let about = About { left_out: machine, recent: published.is_none_or(|p| p >= RECENT) };
        if let Err(why) = of_series(&registry, &points, learned, &about, &mut all) {
            let on = format!("{} on {ranks} ranks of {nodes} nodes", collective.name());
            refused.push(format!("{cluster}: {on} ({profile}): {}", why.what()));
        }
    }
    Ok((all, refused))
}

/// Software from this year on behaves similarly.
const RECENT: &str = "2024";

/// The seen size of each series is the one nearest to this.
const SEEN: f64 = 1048576.0;

struct About<'a> {
    left_out: Option<&'a str>,
    recent: bool,
}

fn of_series(
    registry: &Registry,
    points: &[&Published],
    learned: &Learned,
    about: &About<'_>,
    all: &mut Vec<Answered>,
) -> Result<()> {
    let first = points[0];
    let profile = Profile::builtin(&first.profile)?;
    let machine = Machine::on(&profile, "profile", &Given::default(), first.collective)?;
    let layout = Layout {
        ranks: NonZeroU32::new(first.ranks),
        nodes: NonZeroU32::new(first.nodes),
        per_node: None,
    };
    let mut query = Query::new(machine, first.collective, first.size, layout, Params::default())?;
    let expecting = Expecting::new(registry, &query)?.taught(&query, learned);
    let far = |p: &&&Published| (p.size.0.max(1) as f64 / SEEN).ln().abs();
    let seen =
        points.iter().min_by(|a, b| far(a).total_cmp(&far(b)).then_with(|| a.size.cmp(&b.size)));
    query.seen = seen.iter().map(|p| (p.size, p.time)).collect();
    let knowing = Expecting::new(registry, &query)?.taught(&query, learned);
    let pytorch = pytorch(&profile, first);
    for point in points {
        let own = seen.is_some_and(|s| std::ptr::eq(*s, *point));
        let priced = expecting.ideal(point.size).time;
        all.push(Answered {
            point: (*point).clone(),
            left_out: about.left_out.map(str::to_owned),
            link: profile.link,
            recent: about.recent,
            answer: expecting.at(point.size),
            seen: (!own).then(|| knowing.at(point.size)),
            nccl: expecting.estimate(point.size).filter(|t| t.0 > 0.0),
            pytorch: pytorch.as_ref().and_then(|tell| tell(point.size)),
            ideal: (priced.0 > 0.0 && priced.0.is_finite()).then_some(priced),
            pipelined: expecting.pipelined(point.size),
        });
    }
    Ok(())
}

type Tell = Box<dyn Fn(Bytes) -> Option<Seconds>>;

/// PyTorch's estimate of a series; it covers only some machines and collectives.
fn pytorch(profile: &Profile, of: &Published) -> Option<Tell> {
    let site = Site {
        machine: profile.name.clone(),
        title: profile.title.clone(),
        ranks: of.ranks,
        nodes: of.nodes,
        nccl_graphs: profile.nccl_graphs.clone(),
        ..Site::default()
    };
    let policy = policy("pytorch-inductor", &site).ok()?;
    let (collective, ranks, nodes) = (of.collective, of.ranks, of.nodes);
    Some(Box::new(move |size| {
        let call = Call { nodes, element: Bytes(2), ..Call::new(collective, ranks, size) };
        policy.choose(&call).ok()?.estimate.filter(|t| t.0 > 0.0)
    }))
}

/// Points that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// All of them.
    All,
    /// NVIDIA's GPUs on NVLink, published in 2024 or later.
    Nvlink2024,
    /// AMD's GPUs.
    Amd,
    /// GPUs on PCIe.
    Pcie,
    /// 2 to 16 nodes, 32 MiB and more: typical for training.
    OverNodes,
}

impl Pool {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::All, Self::Nvlink2024, Self::Amd, Self::Pcie, Self::OverNodes];

    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Nvlink2024 => "NVIDIA NVLink, 2024 or later",
            Self::Amd => "AMD",
            Self::Pcie => "PCIe",
            Self::OverNodes => "2–16 nodes, 32 MiB or more",
        }
    }

    /// Whether a point belongs to it.
    #[must_use]
    pub fn has(self, of: &Answered) -> bool {
        match self {
            Self::All => true,
            Self::Nvlink2024 => of.link == Some(LinkKind::NvLink) && of.recent,
            Self::Amd => of.link == Some(LinkKind::Xgmi),
            Self::Pcie => of.link == Some(LinkKind::Pcie),
            Self::OverNodes => {
                (2..=16).contains(&of.point.nodes) && of.point.size >= Bytes(32 << 20)
            }
        }
    }
}

/// Numbers of nodes that form a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Nodes {
    /// One.
    One,
    /// Two.
    Two,
    /// 3 to 16.
    Some,
    /// More.
    Many,
}

impl Nodes {
    /// The class of a number of nodes.
    #[must_use]
    pub fn of(nodes: u32) -> Self {
        match nodes {
            ..=1 => Self::One,
            2 => Self::Two,
            3..=16 => Self::Some,
            _ => Self::Many,
        }
    }

    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Some => "3–16",
            Self::Many => "> 16",
        }
    }
}

/// Sizes that form a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// Up to 64 KiB.
    Small,
    /// Up to 16 MiB.
    Middle,
    /// Above.
    Large,
}

impl Sizes {
    /// The class of a number of bytes.
    #[must_use]
    pub fn of(size: Bytes) -> Self {
        match size.0 {
            0..=0x1_0000 => Self::Small,
            0x1_0001..=0x100_0000 => Self::Middle,
            _ => Self::Large,
        }
    }

    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Small => "≤ 64 KiB",
            Self::Middle => "≤ 16 MiB",
            Self::Large => "> 16 MiB",
        }
    }
}

/// The points of a cell's statistics.
pub type Key = (Nodes, Sizes, Basis);

/// The points of each cell.
#[must_use]
pub fn by_cell(all: &[Answered]) -> BTreeMap<Key, Vec<&Answered>> {
    let mut cells: BTreeMap<Key, Vec<&Answered>> = BTreeMap::new();
    for of in all {
        let key = (Nodes::of(of.point.nodes), Sizes::of(of.point.size), of.answer.basis);
        cells.entry(key).or_default().push(of);
    }
    cells
}
