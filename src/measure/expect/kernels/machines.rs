//! The machines on which kernels were measured, and their relation to the requested one.

use crate::base::quantity::{Bandwidth, Seconds};
use crate::machine::profile::{Generation, LinkKind, NetworkKind};
use crate::machine::query::Query;

/// A machine on which kernels were measured.
pub(in crate::measure::expect) struct Measured {
    pub name: &'static str,
    pub board: &'static str,
    pub generation: Generation,
    pub link: LinkKind,
    /// α of its links in µs, as in its profile.
    pub alpha: f64,
    /// GB/s of a GPU's links in one direction.
    pub rate: f64,
    /// Whether its nodes are trays of a rack, which have another kind of host.
    pub rack: bool,
}

const fn measured(
    (name, board): (&'static str, &'static str),
    generation: Generation,
    link: LinkKind,
    (alpha, rate): (f64, f64),
) -> Measured {
    Measured { name, board, generation, link, alpha, rate, rack: false }
}

pub(super) const MACHINES: [Measured; 5] = {
    use Generation::{Ada, Ampere, Blackwell, Hopper};
    use LinkKind::{NvLink, Pcie};
    [
        measured(("a100_sxm", "hgx-a100"), Ampere, NvLink, (0.92, 300.0)),
        measured(("h100_sxm", "hgx-h100"), Hopper, NvLink, (0.81, 450.0)),
        measured(("b200_sxm", "hgx-b200"), Blackwell, NvLink, (1.29, 900.0)),
        Measured {
            rack: true,
            ..measured(("gb200", "gb200-nvl72"), Blackwell, NvLink, (1.26, 900.0))
        },
        measured(("l40s", "l40s-pcie"), Ada, Pcie, (1.6, 31.0)),
    ]
};

impl Measured {
    /// The machine as a requested board, to compare answers with its own measurements.
    pub fn as_board(&self) -> Board {
        Board {
            id: Some(self.board.to_owned()),
            generation: self.generation,
            link: self.link,
            rack: self.rack,
            alpha: Some(Seconds(self.alpha * 1e-6)),
            rate: Bandwidth(self.rate * 1e9),
            memory: memory(self.generation, self.link, self.name),
        }
    }
}

/// The properties of the requested machine that fits need.
pub(in crate::measure::expect) struct Board {
    pub id: Option<String>,
    pub generation: Generation,
    pub link: LinkKind,
    pub rack: bool,
    pub alpha: Option<Seconds>,
    pub rate: Bandwidth,
    /// The device's memory.
    pub memory: Bandwidth,
}

impl Board {
    pub fn of(query: &Query) -> Option<Self> {
        let hardware = query.machine.hardware.as_ref()?;
        let generation = hardware.generation?;
        Some(Self {
            id: hardware.board.clone(),
            generation,
            link: hardware.link,
            rack: hardware.network == Some(NetworkKind::NvlinkRack),
            alpha: query.machine.fabric.tiers.first().and_then(|tier| tier.link.alpha),
            rate: hardware.inside,
            memory: memory(generation, hardware.link, &query.machine.title),
        })
    }

    /// Machines of the same generation and links, those with the same kind of node first, then by the
    /// start time of a message.
    pub fn siblings(&self) -> Vec<&'static Measured> {
        let same = |m: &&Measured| m.generation == self.generation && m.link == self.link;
        let mut found: Vec<&Measured> = MACHINES.iter().filter(same).collect();
        let apart = |m: &Measured| self.alpha.map_or(0.0, |a| (a.0 * 1e6 - m.alpha).abs());
        found.sort_by(|a, b| {
            (a.rack != self.rack).cmp(&(b.rack != self.rack)).then(apart(a).total_cmp(&apart(b)))
        });
        found
    }

    /// The machine itself, or its siblings.
    pub fn nearest(&self) -> Vec<&'static Measured> {
        let own = MACHINES.iter().filter(|m| self.id.as_deref() == Some(m.board));
        own.chain(self.siblings()).collect()
    }

    /// How many µs longer the benchmark's copy of the input takes here than on a sibling.
    pub fn copies_more(&self, sibling: &str, bytes: f64) -> f64 {
        let other = MACHINES.iter().find(|m| m.name == sibling);
        let there = other.map_or(self.memory, |m| m.as_board().memory);
        copy(bytes, self.memory) - copy(bytes, there)
    }
}

/// The part of a memory's rate that a copy reaches.
const COPY_REACHES: f64 = 0.87;

/// µs that a copy of the input takes to read and write it.
pub(super) fn copy(bytes: f64, memory: Bandwidth) -> f64 {
    2.0 * bytes / (COPY_REACHES * memory.0) * 1e6
}

fn memory(generation: Generation, link: LinkKind, title: &str) -> Bandwidth {
    Bandwidth(match generation {
        Generation::Ampere => 2.04e12,
        Generation::Hopper if title.contains("H200") => 4.8e12,
        Generation::Hopper => 3.35e12,
        Generation::Blackwell if link == LinkKind::NvLink => 8e12,
        Generation::Rubin => 22e12,
        _ => 0.864e12,
    })
}
