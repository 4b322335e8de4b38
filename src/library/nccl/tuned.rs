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

use super::allowed::has_code;
use super::point_to_point::{ALWAYS, choice, sends};
use super::policy::{function, runs};
use super::{Algo, Function, Proto, Version, since};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::{Call, Choice, Meta, Policy, Runs, Site};
use crate::machine::profile::NcclTuner;
use crate::model::algorithm::{Library, Reason};

/// NCCL under that tuner.
pub(crate) struct Tuned {
    meta: Meta,
    machine: String,
    tuner: NcclTuner,
    version: Version,
    /// The only protocol that NCCL may choose: the tuner passes over regions of others.
    only: Option<Proto>,
}

/// A polygon over the logarithms of bytes and ranks.
struct Region {
    tuner: NcclTuner,
    per_node: u32,
    collective: Collective,
    way: (Algo, Proto),
    corners: Vec<Point>,
}

type Point = (f64, f64);

static REGIONS: LazyLock<Vec<Region>> =
    LazyLock::new(|| include_str!("tuned.csv").lines().skip(1).filter_map(Region::read).collect());

/// The variable that switches the tuner off, and its value.
const SWITCH: &str = "OFI_NCCL_TUNER_TYPE";
const OFF: &str = "Internal";

/// The name of what NCCL chooses between two regions.
pub(crate) const GAP: &str = "NCCL's own";

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
        let tuner = next()?;
        let tuner = NcclTuner::ALL.into_iter().find(|known| known.id() == tuner)?;
        let (per_node, collective) = (next()?.parse().ok()?, next()?.parse().ok()?);
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
    /// `None` on a machine without such a tuner, where it leaves all to NCCL, and for releases whose interface for tuners
    /// has no table of costs.
    pub(crate) fn of(site: &Site, version: Version) -> Option<Self> {
        let tuner = site.nccl_tuner.filter(|_| site.nodes >= LEAST_NODES)?;
        let is_off = site.conditions.variables.all().any(|(name, value)| {
            name == SWITCH && value.eq_ignore_ascii_case(OFF) || name == "OFI_NCCL_FORCE_NUM_RAILS"
        });
        if is_off || !version.has(since::TUNER_PLUGINS) {
            return None;
        }
        let meta = Meta {
            id: version.policy().to_owned(),
            library: Some(Library::Nccl),
            title: format!("NCCL {version} under AWS's tuner, {tuner}"),
            counts: "the largest buffer: the vector, or all ranks' blocks".to_owned(),
            source: "aws/aws-ofi-nccl at 2daf7d30, src/tuner/nccl_ofi_regions.cpp; for sends and receives NVIDIA/nccl, \
                     src/enqueue.cc"
                .to_owned(),
        };
        let only = site.protocol.and_then(|protocol| Proto::named(&protocol.to_string()).ok());
        Some(Self { meta, machine: site.machine.clone(), tuner, version, only })
    }

    /// The regions for a call, but for what NCCL has not.
    fn regions(&self, call: &Call) -> Vec<&'static Region> {
        let per_node = call.ranks.checked_div(call.nodes).filter(|n| n * call.nodes == call.ranks);
        let has = |region: &&Region| {
            let (algo, proto) = region.way;
            let function = Function::of(region.collective);
            function.is_some_and(|function| has_code(self.version, function, algo))
                && self.only.is_none_or(|only| only == proto)
        };
        let of_call = REGIONS.iter().filter(|region| {
            region.tuner == self.tuner
                && region.collective == call.collective
                && Some(region.per_node) == per_node
        });
        of_call.filter(has).collect()
    }
}

/// The first region that holds a size.
fn first(regions: &[&'static Region], ranks: u32, size: Bytes) -> Option<&'static Region> {
    let point = logarithms((size.0 as f64, f64::from(ranks)));
    regions.iter().copied().find(|region| region.holds(point))
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
        let regions = self.regions(call);
        if regions.is_empty() {
            return Err(Error::unsupported(format!(
                "AWS's tuner leaves {} on {} ranks to NCCL, whose graphs on {} are not known",
                call.collective.name(),
                call.ranks,
                self.machine
            ))
            .help("run `collcost nccl choose` with --topo, --graph or --log"));
        }
        let Some(region) = first(&regions, call.ranks, call.size) else {
            let runs = Runs::unpriced("NCCL's graphs here are not known");
            return Ok(Choice::new(GAP, "no region of AWS's tuner: NCCL decides itself", runs));
        };
        let (algo, proto) = region.way;
        let rule = "a region of bytes and ranks of AWS's tuner";
        let runs = runs((call.ranks, call.nodes), call.collective, region.way);
        let notes = vec![
            format!(
                "what NCCL cannot run here (NVLS off, another type or operation than a sum of floats) the tuner passes \
                 over; {SWITCH}={OFF} leaves all to NCCL"
            )
            .into(),
        ];
        Ok(Choice { notes, ..Choice::new(format!("{algo}/{proto}"), rule, runs) })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let regions = self.regions(call);
        let ranks = f64::from(call.ranks).log2();
        let way = |size| first(&regions, call.ranks, Bytes(size)).map(|region| region.way);
        let mut edges = Vec::new();
        for border in regions.iter().flat_map(|region| region.borders(ranks)).map(f64::exp2) {
            // What is near an edge is on it.
            let near = (border * 2.0 * NEAR).ceil() as u64 + 2;
            let (from, last) = ((border as u64).saturating_sub(near).max(1), border as u64 + near);
            edges.extend([from, last + 1].map(Bytes));
            edges.extend((from + 1..=last).filter(|&s| way(s) != way(s - 1)).map(Bytes));
        }
        Ok(edges)
    }

    fn force(&self, call: &Call, _: &str) -> std::result::Result<String, Reason> {
        Err(match sends(call.collective) {
            true => ALWAYS,
            false => Reason::new("nothing is forced beside AWS's tuner"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::intervals;

    fn tuned(tuner: NcclTuner, (ranks, nodes): (u32, u32)) -> Option<Tuned> {
        let site = Site { ranks, nodes, nccl_tuner: Some(tuner), ..Site::default() };
        Tuned::of(&site, Version::NEWEST)
    }

    fn told(
        tuner: NcclTuner,
        (ranks, nodes): (u32, u32),
        collective: Collective,
        size: u64,
    ) -> String {
        let call = Call { nodes, ..Call::new(collective, ranks, Bytes(size)) };
        let choice = tuned(tuner, (ranks, nodes)).map(|tuned| tuned.choose(&call));
        choice.map_or("off".to_owned(), |choice| {
            choice.map_or("none".to_owned(), |choice| choice.name.into_owned())
        })
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
        use NcclTuner::{AwsP5, AwsP5en, AwsP6B200};
        let sums = |tuner, ranks, size| told(tuner, (ranks, ranks / 8), AllReduce, size);
        for (size, way) in [(37_748_736, "Tree/LL128"), (37_748_737, "Ring/LL128")] {
            assert_eq!(sums(AwsP5, 32, size), way, "{size}");
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
            assert_eq!(sums(AwsP6B200, 64, size), way, "{size}");
        }
        // Two nodes, what has no region, and a gap between two: NCCL's own.
        assert_eq!(sums(AwsP5, 16, 1 << 20), "off");
        assert_eq!(told(AwsP5, (64, 8), AllGather, 1 << 20), "none");
        assert_eq!(told(AwsP5, (33, 8), AllReduce, 1 << 20), "none");
        assert_eq!(sums(AwsP5, 64, 2_147_483_649), GAP);
        assert_eq!(told(AwsP5en, (64, 8), ReduceScatter, 1 << 10), "Ring/LL");
    }

    /// PAT came with 2.23.4, and the tuner's interface with 2.22.3.
    #[test]
    fn a_release_runs_what_it_has() {
        let site =
            Site { ranks: 64, nodes: 64, nccl_tuner: Some(NcclTuner::AwsP5en), ..Site::default() };
        let call = Call { nodes: 64, ..Call::new(Collective::AllGather, 64, Bytes(1 << 16)) };
        let of = |version: &str| {
            let tuned = Tuned::of(&site, version.parse().unwrap());
            tuned.map(|tuned| tuned.choose(&call).unwrap().name.into_owned())
        };
        assert_eq!(of("2.30.7").as_deref(), Some("PAT/Simple"));
        assert_ne!(of("2.22.3").as_deref(), Some("PAT/Simple"));
        assert_eq!(of("2.21.5"), None);
    }

    /// Every interval has one choice, from its first byte to its last.
    #[test]
    fn intervals_have_one_choice_each() {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        for tuner in NcclTuner::ALL {
            for (per_node, nodes) in [(8, 3), (8, 8), (8, 100), (8, 256), (1, 12), (1, 300), (2, 9)]
            {
                let place = (per_node * nodes, nodes);
                let tuned = tuned(tuner, place).unwrap();
                for collective in [AllReduce, AllGather, ReduceScatter] {
                    let call = Call { nodes, ..Call::new(collective, place.0, Bytes(1)) };
                    let name = |size| tuned.choose(&Call { size, ..call }).unwrap().name;
                    let Ok(found) = intervals(&tuned, &call, Bytes(1), Bytes(1 << 40)) else {
                        assert!(tuned.regions(&call).is_empty(), "{tuner} {place:?} {collective}");
                        continue;
                    };
                    let ends = found.iter().skip(1).map(|next| next.from.0 - 1).chain([1 << 40]);
                    for (interval, last) in found.iter().zip(ends) {
                        let from = interval.from.0;
                        for size in
                            [from, from.midpoint(last), last.saturating_sub(7).max(from), last]
                        {
                            let own = &interval.choice.name;
                            assert_eq!(
                                name(Bytes(size)),
                                *own,
                                "{tuner} {place:?} {collective} {size}"
                            );
                        }
                    }
                }
            }
        }
    }
}
