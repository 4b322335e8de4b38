//! The values of the built-in curves at each octave: versions of one machine are averaged.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::clusters::Clusters;
use crate::base::error::Result;
use crate::measure::expect::transfer::OCTAVES;
use crate::measure::expect::transfer::base::{Asked, Family};
use crate::measure::expect::transfer::features::Features;
use crate::measure::expect::transfer::series::{Series, TIER, alike, likeness};

/// One collective of one machine on one number of ranks and nodes.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// The index in [`Evidence::machines`].
    pub(super) machine: usize,
    pub(super) features: Features,
    pub(super) asked: Asked,
    /// Without a part in the constants, and with a small one in what is learned beside them.
    pub(super) unlike: bool,
    /// The series that will be learned; its residuals are still zero.
    pub(super) series: Series,
    /// The octaves with ln µs.
    pub(super) values: Vec<(f64, f64)>,
}

/// All lines, and the position of each one's values among all values.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub(super) family: Family,
    pub(super) machines: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) starts: Vec<usize>,
}

impl Evidence {
    /// The lines of a family.
    pub(super) fn new(clusters: &Clusters, family: Family) -> Result<Self> {
        let mut found: BTreeMap<_, (usize, Vec<_>)> = BTreeMap::new();
        for (i, cluster) in clusters.all.iter().enumerate() {
            for curve in &cluster.curves {
                let Some(asked) = curve.asked(family, cluster.hosts) else { continue };
                let (own, is) = (cluster.machine.clone(), cluster.unlike);
                // Hosts may be on two networks.
                let on = cluster.profile.clone();
                let key = (own, on, asked.what, curve.ranks, curve.nodes, is);
                found.entry(key).or_insert((i, Vec::new())).1.push((asked, curve));
            }
        }
        let mut machines: Vec<String> = found.keys().map(|k| k.0.clone()).collect();
        machines.dedup();
        let (mut lines, mut starts, mut count) = (Vec::new(), Vec::new(), 0);
        for ((machine, _, what, ranks, nodes, unlike), (cluster, curves)) in found {
            let cluster = &clusters.all[cluster];
            let features = cluster
                .features(ranks / nodes)
                .map_err(|e| e.at(format!("evidence of {}", cluster.name)))?;
            let mut octaves: Vec<u8> = curves.iter().flat_map(|c| c.1.octaves()).collect();
            octaves.sort_unstable();
            octaves.dedup();
            let mean = |octave: f64| {
                let all: Vec<f64> = curves.iter().filter_map(|c| c.1.at(octave)).collect();
                (octave, all.iter().sum::<f64>() / all.len() as f64)
            };
            let values: Vec<_> = octaves.iter().map(|&k| mean(f64::from(k))).collect();
            let (Some(&from), Some(&to)) = (octaves.first(), octaves.last()) else { continue };
            starts.push(count);
            count += values.len();
            lines.push(Line {
                machine: machines.iter().position(|m| *m == machine).unwrap_or(0),
                asked: Asked { old: cluster.old, ..curves[0].0 },
                unlike,
                series: Series {
                    class: features.class,
                    generation: features.generation,
                    board: Cow::Owned(features.board.clone()),
                    net: features.net,
                    nic: features.nic as f32,
                    mesh: features.is_mesh(),
                    what,
                    ranks,
                    nodes,
                    from,
                    to,
                    left: [0.0; OCTAVES],
                },
                features,
                values,
            });
        }
        starts.push(count);
        Ok(Self { family, machines, lines, starts })
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The positions of the values of lines for which `which` holds.
    pub(super) fn places(&self, which: impl Fn(&Line) -> bool) -> Vec<usize> {
        let lines = self.lines.iter().zip(self.starts.windows(2));
        lines.filter(|(line, _)| which(line)).flat_map(|(_, of)| of[0]..of[1]).collect()
    }

    /// The prior covariance of all values, by rows.
    pub(super) fn covariance(&self) -> Vec<f64> {
        let n = self.len();
        let mut k = vec![0.0; n * n];
        for (a, at) in self.lines.iter().zip(self.starts.windows(2)) {
            for (b, to) in self.lines.iter().zip(self.starts.windows(2)) {
                let (own, level) = own(a, b);
                let shared = likeness(&a.asked, &a.features, &b.series) + own;
                for (i, (x, _)) in (at[0]..at[1]).zip(&a.values) {
                    for (j, (y, _)) in (to[0]..to[1]).zip(&b.values) {
                        k[i * n + j] = shared * fades(x - y) + level;
                    }
                }
            }
        }
        for i in 0..n {
            k[i * n + i] += NOISE;
        }
        k
    }
}

/// The machine's own deviation, by size and at all sizes; only what other machines share is learned.
fn own(a: &Line, b: &Line) -> (f64, f64) {
    if a.machine != b.machine {
        return (0.0, 0.0);
    }
    let several = |line: &Line| line.asked.nodes > 1.0;
    let each = |line: &Line| if several(line) { MORE_OVER_NODES } else { 1.0 };
    let weight = each(a) * each(b) * alike(a.asked.what, b.asked.what);
    let apart = |x: f64, y: f64| (x / y).log2().abs();
    let far = apart(a.asked.per_node, b.asked.per_node) + apart(a.asked.nodes, b.asked.nodes);
    let near = if several(a) == several(b) { (-far / OWN_FADES).exp() } else { TIER };
    let cause = if a.unlike && b.unlike { CAUSE } else { 0.0 };
    (weight * OWN * near, weight * LEVEL + cause)
}

/// The correlation of residuals at two sizes, by their distance in octaves.
pub(super) fn fades(octaves: f64) -> f64 {
    (-octaves.abs() / FADES_SIZE).exp()
}

/// Prior variances of a machine's own deviation by size, at all sizes, and of noise; clusters of one
/// kind differ more over nodes. Chosen, like those of `series`.
const OWN: f64 = 0.01;
const LEVEL: f64 = 0.0225;
const NOISE: f64 = 0.0009;
/// The prior variance of what made runs unlike others, which nobody says: half or twice of what was expected. Little of
/// it is then learned about other machines.
const CAUSE: f64 = 0.48;
const MORE_OVER_NODES: f64 = 2.5;
const OWN_FADES: f64 = 4.0;
const FADES_SIZE: f64 = 6.0;
