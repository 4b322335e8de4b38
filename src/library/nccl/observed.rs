//! What NCCL ran when a machine was measured, as its log said: the choices of a machine whose graphs are
//! not known.
//!
//! A choice is known for the numbers of ranks that were measured, from the smallest size on. Between two
//! measured sizes with different choices, that of the smaller one is said to go on.

use super::point_to_point::{choice, unforced};
use super::policy::{function, runs};
use super::{Algo, Proto, Version};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::{Call, Choice, Meta, Policy, Site};
use crate::model::algorithm::{Library, Reason};

/// NCCL on a measured machine.
pub(crate) struct Observed {
    meta: Meta,
    /// For the site's ranks, in order of sizes.
    points: Vec<Point>,
}

/// A choice of a collective, from a size on.
struct Point {
    collective: String,
    from: Bytes,
    way: (Algo, Proto),
}

impl Observed {
    /// `None` if nothing was measured for the site's ranks.
    pub(crate) fn of(site: &Site) -> Option<Self> {
        let measured = site.nccl_measured.as_ref()?;
        let own = measured.switches.iter().filter(|point| point.ranks == site.ranks);
        let mut points: Vec<Point> = own
            .filter_map(|point| {
                let algo = Algo::named(&point.algorithm).ok()?;
                let way = (algo, Proto::named(&point.protocol).ok()?);
                Some(Point { collective: point.collective.clone(), from: point.from, way })
            })
            .collect();
        points.sort_by_key(|point| point.from);
        let meta = Meta {
            id: measured.version.as_deref().unwrap_or("nccl").replacen(' ', "@", 1),
            library: Some(Library::Nccl),
            title: format!("what NCCL ran when {} was measured", site.machine),
            counts: "the largest buffer: the vector, or all ranks' blocks".to_owned(),
            source:
                "NCCL's log of the calibration; for sends and receives src/enqueue.cc, src/init.cc"
                    .to_owned(),
        };
        (!points.is_empty()).then_some(Self { meta, points })
    }

    /// Whether it was this release that ran; any is asked for by the newest, which is the default.
    pub(super) fn answers(&self, version: Version) -> bool {
        version == Version::NEWEST || self.meta.id == version.policy()
    }

    fn points(&self, call: &Call) -> impl DoubleEndedIterator<Item = &Point> {
        let id = call.collective.id();
        self.points.iter().filter(move |point| point.collective == id)
    }
}

impl Policy for Observed {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if let Some(choice) = choice(call) {
            return Ok(choice);
        }
        function(call)?;
        let Some(point) = self.points(call).rfind(|point| point.from <= call.size) else {
            let what = format!("no {} of NCCL was measured there", call.collective.name());
            return Err(
                Error::unsupported(what).help("measure it: collcost calibrate --transport nccl")
            );
        };
        let (algo, proto) = point.way;
        let rule = format!("NCCL's log of the measurement, from {} on", point.from);
        let runs = runs((call.ranks, call.nodes), call.collective, point.way);
        Ok(Choice::new(format!("{algo}/{proto}"), rule, runs))
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        Ok(self.points(call).map(|point| point.from).collect())
    }

    fn force(&self, call: &Call, _: &str) -> std::result::Result<String, Reason> {
        Err(unforced(call.collective))
    }
}
