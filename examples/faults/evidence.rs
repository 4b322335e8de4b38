//! The published curves of healthy clusters, `evidence/clusters.toml`, as the truth that faults are
//! put into.

use std::num::NonZeroU32;

use collcost::Collective;
use collcost::base::quantity::Bytes;
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::formula::Params;

/// One collective of one cluster on so many ranks and nodes.
pub struct Series {
    pub cluster: String,
    /// What is left out together where an expectation is learned of the others.
    pub machine: String,
    pub collective: Collective,
    pub ranks: u32,
    pub nodes: u32,
    /// How far, as a logarithm, measured times lie around the curve.
    pub scatter: f64,
    /// Octaves of bytes, and ln of seconds.
    knots: Vec<(f64, f64)>,
    /// The question on the profile, without any curve that was measured on it.
    pub query: Query,
}

impl Series {
    /// Seconds of a healthy call of 2^octave bytes.
    pub fn time(&self, octave: f64) -> f64 {
        let above = self.knots.partition_point(|k| k.0 <= octave);
        let (a, b) = match above {
            0 => (self.knots[0], self.knots[0]),
            i if i == self.knots.len() => (self.knots[i - 1], self.knots[i - 1]),
            i => (self.knots[i - 1], self.knots[i]),
        };
        let part = if b.0 > a.0 { (octave - a.0) / (b.0 - a.0) } else { 0.0 };
        (a.1 + part * (b.1 - a.1)).exp()
    }

    /// The whole octaves at which it was measured, from 8 bytes on.
    pub fn octaves(&self) -> impl Iterator<Item = f64> + use<> {
        let (first, last) = (self.knots[0].0, self.knots[self.knots.len() - 1].0);
        (first.max(3.0).ceil() as u32..=last.floor() as u32).map(f64::from)
    }
}

/// Fewer octaves are no run to judge, and curves that scatter more hide a fault of 1.15.
const FEWEST: f64 = 8.0;
const MOST_SCATTER: f64 = 0.1;

/// All series that show faults.
pub fn series() -> Vec<Series> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/evidence/clusters.toml");
    let text = std::fs::read_to_string(path).expect("the clusters are there");
    let file: toml::Table = text.parse().expect("they are TOML");
    let mut all = Vec::new();
    for cluster in file["cluster"].as_array().expect("clusters") {
        let word = |key: &str| cluster.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        let name = word("name").expect("a name");
        let profile = Profile::builtin(&word("profile").expect("a profile")).expect("built in");
        for curve in cluster["curves"].as_array().expect("curves") {
            let count = |i: usize| curve[i].as_integer().expect("a count") as u32;
            let number = |x: &toml::Value| {
                x.as_float().or_else(|| x.as_integer().map(|x| x as f64)).expect("a number")
            };
            let numbers = |i: usize| -> Vec<f64> {
                curve[i].as_array().expect("numbers").iter().map(number).collect()
            };
            let collective: Collective = curve[0].as_str().expect("a word").parse().expect("known");
            let octaves = numbers(4);
            let scatter = number(&curve[3]);
            if octaves[octaves.len() - 1] - octaves[0] < FEWEST || scatter > MOST_SCATTER {
                continue;
            }
            let (ranks, nodes) = (count(1), count(2));
            let mut machine =
                Machine::on(&profile, "profile", &Given::default(), collective).expect("a machine");
            machine.curves.clear();
            let layout = Layout {
                ranks: NonZeroU32::new(ranks),
                nodes: NonZeroU32::new(nodes),
                per_node: None,
            };
            let query = Query::new(machine, collective, Bytes(1), layout, Params::default());
            let knots = octaves.into_iter().zip(numbers(5).into_iter().map(|us| (1e-6 * us).ln()));
            all.push(Series {
                cluster: name.clone(),
                machine: word("machine").unwrap_or_else(|| name.clone()),
                collective,
                ranks,
                nodes,
                scatter,
                knots: knots.collect(),
                query: query.expect("it fits"),
            });
        }
    }
    all
}
