//! An NCCL machine as a fabric: ranks, switches and directed links with the rates that NCCL uses.
//!
//! GPUs are ranks; PCI switches, processors and all `NVSwitches` together are switches. NICs matter
//! if there are several hosts: then each NIC's port is a switch, and another switch connects them all.

use super::Version;
use super::topology::{Description, Kind, System, Wire};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds, decimal};
use crate::machine::graph::{Graph, Link};
use crate::model::formula::Rational;

/// The release whose rates are used: later ones put a node without a rate before each GPU.
const COUNTED_BY: &str = "2.27.7";

/// The fabric of a described machine.
///
/// # Errors
/// A system that no release of NCCL could build; no GPU; ranks that do not reach each other.
pub fn fabric(description: &Description) -> Result<Graph> {
    let version: Version = COUNTED_BY.parse()?;
    let system = System::new(description, version)?;
    if system.count(Kind::Gpu) == 0 {
        description.with_gpus(None)?;
    }
    let is_many = system.hosts() > 1;
    let is_kept = |kind: Kind| match kind {
        Kind::Gpu | Kind::Pci | Kind::Nvs | Kind::Cpu => true,
        Kind::Nic | Kind::Net => is_many,
        Kind::Dev => false,
    };
    let mut gpus: Vec<usize> = (0..system.count(Kind::Gpu)).collect();
    gpus.sort_by_key(|&index| system.gpu(index).rank);
    let switches = Kind::ALL.into_iter().filter(|&kind| kind != Kind::Gpu && is_kept(kind));
    let mut names = Vec::new();
    let mut places = vec![None; system.nodes.len()];
    for (i, &index) in gpus.iter().enumerate() {
        places[system.of(Kind::Gpu)[index]] = Some(i as u32);
    }
    for kind in switches {
        for (i, &node) in system.of(kind).iter().enumerate() {
            places[node] = Some((gpus.len() + names.len()) as u32);
            names.push(format!("{}{i}", kind.name().to_lowercase()));
        }
    }
    let mut links = Vec::new();
    for (node, from) in system.nodes.iter().zip(&places) {
        let Some(from) = *from else { continue };
        for link in &node.links {
            // A GPU's path to itself is not a link.
            if let Some(to) = places[link.to].filter(|&to| to != from && link.wire != Wire::Loc) {
                links.push(Link { from, to, rate: rate(link.rate)?, latency: Seconds(0.0) });
            }
        }
    }
    if is_many {
        let joint = (gpus.len() + names.len()) as u32;
        names.push("network".to_owned());
        for (i, &node) in system.of(Kind::Net).iter().enumerate() {
            let (Some(port), rate) = (places[node], rate(system.net(i).rate)?) else { continue };
            let link = Link { from: port, to: joint, rate, latency: Seconds(0.0) };
            links.extend([link, Link { from: joint, to: port, ..link }]);
        }
    }
    let ranks = (0..gpus.len()).map(|i| format!("g{i}")).collect();
    Graph::joined(format!("{} GPUs of {}", gpus.len(), description.origin), (ranks, names), links)
        .map_err(|e| e.at(&description.origin))
}

/// GB/s as NCCL stores it.
fn rate(gigabytes: f32) -> Result<Rate> {
    let exact = decimal(&gigabytes.to_string()).filter(|x| *x > Rational::from_integer(0));
    let exact =
        exact.ok_or_else(|| Error::input(format!("a link cannot have {gigabytes} GB/s")))?;
    Ok(Rate(exact * Rational::from_integer(1_000_000_000)))
}
