//! Kind `hierarchical`: two levels of links, phase by phase.

use super::answer::number;
use super::question::{Question, needed, rate, time};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::{At, Level, Shape};

/// Names that questions use, with the algorithm and NICs per node for each; any other name is that
/// of an algorithm.
const NAMES: &[(&str, &str, Nics)] = &[
    ("flat", "ring", Nics::Each),
    ("rs-ar-ag", "2d-ring", Nics::Each),
    ("rs-ar-ag-1nic", "2d-ring", Nics::One),
    ("ring-tree", "ring-tree", Nics::Each),
    ("leader", "leader", Nics::Each),
];

#[derive(Clone, Copy, PartialEq)]
enum Nics {
    /// One per GPU.
    Each,
    /// One per node: the flows of its GPUs share it.
    One,
}

pub(super) fn answer(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let name: &str = needed(&q.algorithm, "algorithm")?;
    let known = NAMES.iter().find(|(n, ..)| *n == name);
    let (id, nics) = known.map_or((name, Nics::Each), |&(_, id, nics)| (id, nics));
    let gpus = needed(&q.gpus_per_node, "gpus_per_node")?.whole("gpus_per_node", 1)?;
    let nodes = needed(&q.nodes, "nodes")?.whole("nodes", 1)?;
    let ranks = gpus.checked_mul(nodes).ok_or_else(|| Error::input("too many ranks"))?;
    let mut shape = Shape::new(Collective::AllReduce, ranks);
    shape.group = std::num::NonZeroU32::new(gpus);
    let named = Registry::builtin().find(Collective::AllReduce, id)?;
    named
        .algorithm
        .applies(&shape)
        .map_err(|why| Error::unsupported(format!("`{name}` does not apply: {why}")))?;
    let phases = phases(named.algorithm, shape, nics, q)?;
    out.extend_from_slice(b",\"phases_s\":[");
    for (i, phase) in phases.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        // A finite number always serialises.
        let _ = serde_json::to_writer(&mut *out, phase);
    }
    out.push(b']');
    number(out, "time_s", phases.iter().sum())?;
    Ok(())
}

/// The time of each phase on its own links; a flat algorithm runs on the slow ones.
fn phases(
    algorithm: &dyn Algorithm,
    shape: Shape,
    nics: Nics,
    q: &Question<'_>,
) -> Result<Vec<f64>> {
    let size = q.size()?;
    let cost = algorithm.price(&At::numbers(shape));
    let mut times = Vec::new();
    for phase in cost.phases() {
        let (alpha, bandwidth) = match phase.level {
            Level::Inner => {
                (time(&q.alpha_intra_s, "alpha_intra_s")?, rate(&q.bw_intra, "bw_intra_Bps")?)
            }
            Level::Outer | Level::Flat => {
                (time(&q.alpha_inter_s, "alpha_inter_s")?, rate(&q.bw_inter, "bw_inter_Bps")?)
            }
        };
        let one = phase.alpha * alpha.0 + phase.beta * (size / bandwidth).0;
        let shared = phase.level == Level::Outer && nics == Nics::One;
        times.push(if shared { one * f64::from(shape.group()) } else { one });
    }
    Ok(times)
}
