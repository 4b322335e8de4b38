//! The built-in measured clusters: the TOML files of `evidence/`.

use serde::Deserialize;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Seconds, Volume};
use crate::machine::fabric::Order;
use crate::machine::placement::Placement;
use crate::machine::profile::Profile;
use crate::measure::expect::knots;
use crate::measure::expect::transfer::base::{Asked, Family};
use crate::measure::expect::transfer::features::Features;

/// Measured clusters, smoothed.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    pub(super) all: Vec<Cluster>,
}

/// One cluster under one version of its library.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cluster {
    pub(super) name: String,
    /// The group that is left out together.
    pub(super) machine: String,
    pub(super) profile: String,
    /// Whether its ranks are processes on hosts …
    pub(super) hosts: bool,
    /// … and of these the line rate of one, and the time of a small message between two; absent: the profile's.
    rate: Option<Bandwidth>,
    alpha: Option<Seconds>,
    /// The library that ran.
    library: String,
    pub(super) published: Option<String>,
    /// The source of the measurements.
    source: String,
    pub(super) old: bool,
    /// Far from the others for an unknown reason: it teaches what its board does, and no constants.
    pub(super) unlike: bool,
    pub(super) curves: Vec<Curve>,
}

/// One measured collective, for display.
pub(crate) struct Measured<'a> {
    pub library: &'a str,
    pub published: Option<&'a str>,
    pub source: &'a str,
    pub ranks: u32,
    pub nodes: u32,
    /// M, and the time.
    pub points: Vec<(Volume, Seconds)>,
}

/// One collective on one number of ranks and nodes: straight lines between knots, constant beyond them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) collective: Collective,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    /// The scatter of measured times around it, as a logarithm (root mean square).
    pub(super) scatter: f64,
    /// Octaves of bytes, and the logarithm of µs.
    pub(super) knots: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Whether all ranks are processes on hosts.
    #[serde(default)]
    hosts: bool,
    cluster: Vec<Entry>,
}

/// A curve: collective, ranks, nodes, scatter, octaves and logarithms of microseconds.
type Stored = (String, u32, u32, f64, Vec<f64>, Vec<f64>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    machine: Option<String>,
    profile: String,
    rate: Option<Bandwidth>,
    alpha: Option<Seconds>,
    library: String,
    published: Option<String>,
    #[serde(default)]
    old: bool,
    #[serde(default)]
    unlike: bool,
    source: String,
    curves: Vec<Stored>,
}

impl Clusters {
    /// The clusters from which the built-in expectations are learned.
    ///
    /// # Errors
    /// A built-in file is wrong.
    pub fn built_in() -> Result<Self> {
        macro_rules! parse {
            ($name:literal) => {
                Self::parse(include_str!(concat!("../../../../../", $name)), $name)
            };
        }
        let files = [
            parse!("evidence/clusters.toml"),
            parse!("evidence/exchanges.toml"),
            parse!("evidence/sends.toml"),
            parse!("evidence/hosts.toml"),
        ];
        let files = files.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(Self { all: files.into_iter().flat_map(|file| file.all).collect() })
    }

    /// The clusters in a file's `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// Not a TOML of clusters; an unknown collective; knots that are not in order or not above 0.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|e| {
            Error::input(format!("not a file of measured clusters: {}", e.message()))
                .at(origin)
                .help("write entries like those in evidence/clusters.toml")
        })?;
        let all = file.cluster.into_iter().map(|entry| entry.read(file.hosts, origin));
        Ok(Self { all: all.collect::<Result<_>>()? })
    }

    /// The machine of a cluster's measurements; `None` for an unknown cluster.
    #[must_use]
    pub fn machine_of(&self, cluster: &str) -> Option<&str> {
        self.all.iter().find(|c| c.name == cluster).map(|c| c.machine.as_str())
    }

    /// The measurements of `collective` on the hardware of a built-in machine, of which hosts have their ranks alone.
    pub(crate) fn measured(
        &self,
        profile: &str,
        collective: Collective,
    ) -> impl Iterator<Item = Measured<'_>> {
        let of = self.all.iter().filter(move |c| c.profile == profile && !c.hosts);
        of.flat_map(move |c| {
            let curves = c.curves.iter().filter(move |curve| curve.collective == collective);
            curves.map(|curve| Measured {
                library: &c.library,
                published: c.published.as_deref(),
                source: &c.source,
                ranks: curve.ranks,
                nodes: curve.nodes,
                points: curve.points(),
            })
        })
    }

    /// When a cluster was published, if known.
    #[must_use]
    pub fn published(&self, cluster: &str) -> Option<&str> {
        self.all.iter().find(|c| c.name == cluster)?.published.as_deref()
    }
}

impl Entry {
    fn read(self, hosts: bool, origin: &str) -> Result<Cluster> {
        let place = format!("{origin}: cluster {}", self.name);
        let curves = self.curves.into_iter().map(|(collective, ranks, nodes, scatter, at, us)| {
            let wrong = |what: &str, help: &str| {
                Error::input(what).at(format!("{place}: {collective} of {ranks}")).help(help)
            };
            if at.len() != us.len() || at.is_empty() || !at.is_sorted_by(|a, b| a < b) {
                let help = "give as many times as octaves, with increasing octaves";
                return Err(wrong("octaves and times do not match", help));
            }
            if us.iter().any(|t| !t.is_finite() || *t <= 0.0) || scatter < 0.0 {
                return Err(wrong("a time is not above 0", "remove that knot"));
            }
            if nodes == 0 || ranks < 2 || ranks % nodes != 0 {
                return Err(wrong(
                    &format!("{ranks} ranks are not spread evenly over {nodes} nodes"),
                    "give curves of evenly filled nodes only",
                ));
            }
            let knots = at.into_iter().zip(us.into_iter().map(f64::ln)).collect();
            let collective = collective.parse::<Collective>().map_err(|e| e.at(place.clone()))?;
            Ok(Curve { collective, ranks, nodes, scatter, knots })
        });
        Ok(Cluster {
            machine: self.machine.unwrap_or_else(|| self.name.clone()),
            curves: curves.collect::<Result<_>>()?,
            hosts,
            rate: self.rate,
            alpha: self.alpha,
            name: self.name,
            profile: self.profile,
            library: self.library,
            published: self.published,
            source: self.source,
            old: self.old,
            unlike: self.unlike,
        })
    }
}

impl Cluster {
    /// Its hardware with so many ranks on a node.
    pub(super) fn features(&self, per_node: u32) -> Result<Features> {
        let profile = Profile::builtin(&self.profile)?;
        if !self.hosts {
            let hardware = profile.hardware();
            return hardware.as_ref().and_then(|h| Features::of(h, per_node)).ok_or_else(|| {
                let what = "not a GPU machine with known links between its GPUs";
                Error::input(format!("{} is {what}", self.profile)).help(
                    "name a built-in machine with NVLink, xGMI or PCIe, or say `hosts = true`",
                )
            });
        }
        let links = profile.tiers.last();
        let alpha = links.and_then(|l| l.alpha.as_ref()).map(|alpha| alpha.value);
        let rate = links.and_then(|l| l.bandwidth.as_ref()).map(|rate| rate.value);
        let (alpha, rate) = (self.alpha.or(alpha), self.rate.or(rate));
        alpha
            .zip(rate)
            .map(|(alpha, rate)| Features::of_hosts(profile.network, alpha, rate))
            .ok_or_else(|| {
                Error::input(format!("{} has no α or no rate", self.profile))
                    .help("give `alpha` and `rate`")
            })
    }
}

impl Curve {
    /// The knots as bytes and seconds.
    fn points(&self) -> Vec<(Volume, Seconds)> {
        let point = |&(octave, ln_us): &(f64, f64)| {
            (Volume(octave.exp2().round()), Seconds(ln_us.exp() * 1e-6))
        };
        self.knots.iter().map(point).collect()
    }

    /// What it answers, if that family is learned from it.
    pub(super) fn asked(&self, family: Family, hosts: bool) -> Option<Asked> {
        let per_node = self.ranks / self.nodes;
        let placement = Placement { ranks: self.ranks, per_node, order: Order::Block };
        let asked = Asked::new(self.collective, placement, hosts);
        asked.filter(|asked| family.learns(asked))
    }

    /// ln µs, where it was measured.
    pub(super) fn at(&self, octave: f64) -> Option<f64> {
        knots::at(&self.knots, octave)
    }

    /// The whole octaves at which it was measured.
    pub(super) fn octaves(&self) -> impl Iterator<Item = u8> + use<> {
        knots::octaves(&self.knots)
    }
}
