//! AWS's tuner for NCCL over EFA (aws-ofi-nccl), which NCCL loads on P5 and P6 instances: regions of bytes and ranks, each
//! with an algorithm and a protocol. What no region has, NCCL decides itself, and so it does on one and two nodes.
//!
//! ```text
//!   ranks ▲      │       ╱          ╱  NVLSTree/Simple
//!         │ LL   │ LL128 ╱  Ring    ╱              a polygon each, over the logarithms
//!         └──────┴──────╱──────────╱────────► bytes      of both; the first that holds a call counts
//! ```
//!
//! Source: aws/aws-ofi-nccl at 2daf7d30, `src/tuner/nccl_ofi_regions.cpp`; the corners are in `tuned.csv`.

use std::sync::LazyLock;

use super::point_to_point::{choice, unforced};
use super::policy::{LARGEST, function, runs};
use super::{Algo, Proto, Version, since};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::{Call, Choice, Meta, Policy, Site};
use crate::model::algorithm::{Library, Reason};

/// NCCL under that tuner.
pub(crate) struct Tuned {
    meta: Meta,
    machine: String,
    tuner: &'static str,
    /// The only protocol that NCCL may choose: the tuner passes over regions of others.
    only: Option<Proto>,
}

/// A polygon over the logarithms of bytes and ranks.
struct Region {
    tuner: &'static str,
    per_node: u32,
    collective: Collective,
    way: (Algo, Proto),
    corners: Vec<Point>,
}

type Point = (f64, f64);

static REGIONS: LazyLock<Vec<Region>> =
    LazyLock::new(|| include_str!("tuned.csv").lines().skip(1).filter_map(Region::read).collect());

/// Nodes from which on the tuner decides.
const LEAST_NODES: u32 = 3;

/// How near an edge a point is on it; its corners count in bytes and ranks, as whole numbers of both.
const NEAR: f64 = 1e-10;

/// What stands for no bytes, whose logarithm does not exist.
const NO_BYTES: f64 = 1e-6;

/// Beyond all regions: twice 100 GiB, and twice a million ranks.
const OUTSIDE: Point = (200.0 * GIB, 2.0 * 1_048_576.0);
const GIB: f64 = 1_073_741_824.0;

fn logarithms((bytes, ranks): Point) -> Point {
    (bytes.max(NO_BYTES).log2(), ranks.log2())
}

impl Region {
    /// `aws-p5,8,allreduce,Tree,LL128,0:16 31457280:16 …`.
    fn read(line: &'static str) -> Option<Self> {
        let mut cells = line.split(',');
        let mut next = || cells.next();
        let (tuner, per_node, collective) = (next()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let way = (Algo::named(next()?).ok()?, Proto::named(next()?).ok()?);
        let corner = |text: &str| {
            let (bytes, ranks) = text.split_once(':')?;
            Some(logarithms((bytes.parse().ok()?, ranks.parse().ok()?)))
        };
        let corners = next()?.split(' ').map(corner).collect::<Option<_>>()?;
        Some(Self { tuner, per_node, collective, way, corners })
    }

    fn edges(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        let next = self.corners.iter().cycle().skip(1);
        self.corners.iter().copied().zip(next.copied())
    }

    /// Whether a point is inside, or on an edge.
    fn holds(&self, point: Point) -> bool {
        if self.edges().any(|edge| is_on(point, edge)) {
            return true;
        }
        let far = logarithms(OUTSIDE);
        self.edges().filter(|&edge| crosses((point, far), edge)).count() % 2 == 1
    }

    /// Where its edges have so many ranks, as logarithms of bytes.
    fn borders(&self, ranks: f64) -> impl Iterator<Item = f64> + '_ {
        self.edges().filter_map(move |(a, b)| {
            let part = (ranks - a.1) / (b.1 - a.1);
            match part {
                _ if a.1 == b.1 => (a.1 == ranks).then_some(a.0),
                _ if (-NEAR..=1.0 + NEAR).contains(&part) => Some(a.0 + part * (b.0 - a.0)),
                _ => None,
            }
        })
    }
}

fn minus(a: Point, b: Point) -> Point {
    (a.0 - b.0, a.1 - b.1)
}

fn cross(a: Point, b: Point) -> f64 {
    a.0 * b.1 - a.1 * b.0
}

/// Whether a point is on an edge, which has a length.
fn is_on(point: Point, (from, to): (Point, Point)) -> bool {
    let (along, off) = (minus(to, from), minus(point, from));
    let length = along.0.hypot(along.1);
    let part = (along.0 * off.0 + along.1 * off.1) / (length * length);
    length * length >= NEAR
        && (-NEAR..=1.0 + NEAR).contains(&part)
        && cross(along, off).abs() / length < NEAR
}

/// Whether a ray crosses an edge between its ends.
fn crosses((start, far): (Point, Point), (from, to): (Point, Point)) -> bool {
    let (ray, along) = (minus(far, start), minus(to, from));
    let both = cross(along, ray);
    if both.abs() < NEAR {
        return false;
    }
    let on_edge = (cross(start, ray) - cross(from, ray)) / both;
    let on_ray = (cross(start, along) - cross(from, along)) / both;
    (NEAR..=1.0 - NEAR).contains(&on_edge) && (0.0..=1.0).contains(&on_ray)
}

impl Tuned {
    /// `None` on a machine without such a tuner, where it leaves all to NCCL, and for releases that do not load it.
    pub(crate) fn of(site: &Site, version: Version) -> Option<Self> {
        let tuner = site.nccl_tuner.as_deref().filter(|_| site.nodes >= LEAST_NODES)?;
        let known = REGIONS.iter().find(|region| region.tuner == tuner);
        let tuner = known.filter(|_| version.has(since::TUNER_PLUGINS))?.tuner;
        let meta = Meta {
            id: version.policy().to_owned(),
            library: Some(Library::Nccl),
            title: format!("NCCL {version} under AWS's tuner, {tuner}"),
            counts: "the largest buffer: the vector, or all ranks' blocks".to_owned(),
            source: "aws/aws-ofi-nccl at 2daf7d30, src/tuner/nccl_ofi_regions.cpp".to_owned(),
        };
        let only = site.protocol.and_then(|protocol| Proto::named(&protocol.to_string()).ok());
        Some(Self { meta, machine: site.machine.clone(), tuner, only })
    }

    /// The regions for a call.
    fn regions(&self, call: &Call) -> impl Iterator<Item = &'static Region> {
        let (tuner, collective, only) = (self.tuner, call.collective, self.only);
        let per_node = call.ranks.checked_div(call.nodes).filter(|n| n * call.nodes == call.ranks);
        REGIONS.iter().filter(move |region| {
            region.tuner == tuner
                && region.collective == collective
                && Some(region.per_node) == per_node
                && only.is_none_or(|proto| region.way.1 == proto)
        })
    }
}

impl Policy for Tuned {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if let Some(choice) = choice(call) {
            return Ok(choice);
        }
        function(call)?;
        let point = logarithms((call.size.0 as f64, f64::from(call.ranks)));
        let Some(region) = self.regions(call).find(|region| region.holds(point)) else {
            let size = match self.regions(call).next() {
                Some(_) => format!(" of {}", call.size),
                None => String::new(),
            };
            return Err(Error::unsupported(format!(
                "AWS's tuner leaves {}{size} on {} ranks to NCCL, whose graphs on {} are not known",
                call.collective.name(),
                call.ranks,
                self.machine
            ))
            .help("run `collcost nccl choose` with --topo, --graph or --log"));
        };
        let (algo, proto) = region.way;
        let rule = "a region of bytes and ranks of AWS's tuner";
        let runs = runs((call.ranks, call.nodes), call.collective, region.way);
        let notes = vec![
            "what NCCL does not have here (NVLS off, an operation of one's own) the tuner passes over; \
             OFI_NCCL_TUNER_TYPE=Internal leaves all to NCCL"
                .into(),
        ];
        Ok(Choice { notes, ..Choice::new(format!("{algo}/{proto}"), rule, runs) })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let ranks = f64::from(call.ranks).log2();
        let borders = self.regions(call).flat_map(|region| region.borders(ranks));
        // An edge belongs to the region that comes first.
        let around = borders.filter(|border| border.exp2() < LARGEST.0 as f64).flat_map(|border| {
            let size = border.exp2().round() as u64;
            [size.saturating_sub(1), size, size + 1, size + 2].map(|size| Bytes(size.max(1)))
        });
        Ok(around.collect())
    }

    fn force(&self, call: &Call, _: &str) -> std::result::Result<String, Reason> {
        Err(unforced(call.collective))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tuner: &str, (ranks, nodes): (u32, u32), collective: Collective, size: u64) -> String {
        let site = Site { ranks, nodes, nccl_tuner: Some(tuner.to_owned()), ..Site::default() };
        let call = Call { nodes, ..Call::new(collective, ranks, Bytes(size)) };
        let tuned = Tuned::of(&site, Version::NEWEST);
        let choice = tuned.map(|tuned| tuned.choose(&call).map(|choice| choice.name.into_owned()));
        choice.map_or("none".to_owned(), |choice| choice.unwrap_or("NCCL".to_owned()))
    }

    #[test]
    fn every_line_is_read() {
        assert_eq!(REGIONS.len(), 88);
        assert!(REGIONS.iter().all(|region| region.corners.len() > 2));
    }

    /// What the tuner's own code says (2daf7d30), on both sides of its borders; edges are inside.
    #[test]
    fn borders_are_the_tuners() {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let sums = |tuner, ranks, size| told(tuner, (ranks, ranks / 8), AllReduce, size);
        for (size, way) in [(37_748_736, "Tree/LL128"), (37_748_737, "Ring/LL128")] {
            assert_eq!(sums("aws-p5", 32, size), way, "{size}");
        }
        for (size, way) in [
            (393_216, "Tree/LL"),
            (393_217, "Tree/LL128"),
            (40_370_176, "Tree/LL128"),
            (50_855_935, "NVLSTree/Simple"),
            (50_855_936, "Ring/LL128"),
            (120_061_952, "Ring/LL128"),
            (1_072_693_248, "NVLSTree/Simple"),
            (2_147_483_648, "Ring/Simple"),
        ] {
            assert_eq!(sums("aws-p6-b200", 64, size), way, "{size}");
        }
        // Two nodes, and what has no region: NCCL's own.
        assert_eq!(sums("aws-p5", 16, 1 << 20), "none");
        assert_eq!(told("aws-p5", (64, 8), AllGather, 1 << 20), "NCCL");
        assert_eq!(told("aws-p5", (33, 8), AllReduce, 1 << 20), "NCCL");
        assert_eq!(told("aws-p5en", (64, 8), ReduceScatter, 1 << 10), "Ring/LL");
        assert_eq!(told("aws-p7", (64, 8), AllReduce, 1 << 20), "none");
    }

    /// Between two edges nothing changes.
    #[test]
    fn edges_are_where_choices_change() {
        for (tuner, nodes) in [("aws-p5", 4), ("aws-p5en", 12), ("aws-p6-b300", 40)] {
            for per_node in [1, 2, 8] {
                let ranks = per_node * nodes;
                let site =
                    Site { ranks, nodes, nccl_tuner: Some(tuner.to_owned()), ..Site::default() };
                let call = Call { nodes, ..Call::new(Collective::AllReduce, ranks, Bytes(1)) };
                let tuned = Tuned::of(&site, Version::NEWEST).unwrap();
                let name = |size| tuned.choose(&Call { size, ..call }).ok().map(|c| c.name);
                let mut edges = tuned.edges(&call).unwrap();
                edges.sort_unstable();
                for pair in edges.windows(2) {
                    let (from, last) = (pair[0].0, pair[1].0 - 1);
                    for size in [from, from.midpoint(last), last].map(|s| Bytes(s.max(from))) {
                        assert_eq!(name(size), name(Bytes(from)), "{tuner} {ranks} {size}");
                    }
                }
            }
        }
    }
}
