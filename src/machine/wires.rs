//! How the ranks of a domain are joined.
//!
//! Behind a switch any rank reaches any other at the rate of its ports. Without one, fewer ranks have fewer
//! links, and data between ranks without a link pass others on their way: what every half has for the other
//! must go through the links between them.

use crate::base::collective::Collective;
use crate::base::quantity::Ratio;
use crate::model::formula::Dims;

/// What joins the ranks of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wires {
    /// A switch, or links that amount to one.
    #[default]
    Switch,
    /// Each two have a link of their own; the rate of the tier is that of all the links of a rank.
    Mesh,
    /// Eight GPUs with six links each, of which a pair has none, one or two; the rate of the tier is that of
    /// the six.
    CubeMesh,
    /// Links between neighbours; the rate of the tier is that of one.
    Torus(Torus),
}

/// The GPUs that a hybrid cube mesh joins.
pub(crate) const CUBE_MESH: u32 = 8;

/// Links of a GPU of a hybrid cube mesh.
const CUBE_LINKS: f64 = 6.0;

/// Of the first N GPUs of a hybrid cube mesh, the links to the others of the one that has the fewest: of GPUs
/// 0 and 1 one, within half of the box four (NVIDIA, DGX-1 With Tesla V100 System Architecture,
/// WP-08437-002).
const CUBE_JOINED: [f64; CUBE_MESH as usize] = [1.0, 1.0, 2.0, 4.0, 2.0, 3.0, 4.0, CUBE_LINKS];

impl Wires {
    /// The part of a rank's links that join it to others, if so many of the `span` ranks take part.
    #[must_use]
    pub fn in_use(self, ranks: u32, span: u32) -> Ratio {
        let others = |ranks: u32| f64::from(ranks.saturating_sub(1).max(1));
        Ratio(match self {
            Self::Mesh => others(ranks.min(span)) / others(span),
            Self::CubeMesh => {
                let place = ranks.clamp(1, CUBE_MESH) - 1;
                CUBE_JOINED[place as usize] / CUBE_LINKS
            }
            Self::Switch | Self::Torus(_) => 1.0,
        })
    }

    /// The least that some link carries in an all-to-all of so many ranks because it is between two halves of
    /// them: as a share of a rank's M, at the rate of the tier; 0 if that is not known to be a limit.
    #[must_use]
    pub fn exchange(self, ranks: u32) -> Ratio {
        Ratio(match self {
            // Of each of four GPUs half the data go to the other four, over six links, which are one rate.
            Self::CubeMesh if ranks == CUBE_MESH => f64::from(ranks) / 4.0,
            Self::Torus(torus) => torus.slice(ranks).map_or(0.0, |slice| slice.exchange()),
            _ => 0.0,
        })
    }

    /// The torus.
    #[must_use]
    pub fn torus(self) -> Option<Torus> {
        if let Self::Torus(torus) = self { Some(torus) } else { None }
    }

    /// The words in reports.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Switch => "switch".to_owned(),
            Self::Mesh => "mesh".to_owned(),
            Self::CubeMesh => "cube mesh".to_owned(),
            Self::Torus(Torus { sides, .. }) => format!("torus {sides}"),
        }
    }
}

/// Chips with links to their neighbours along each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torus {
    /// The most chips along each side.
    pub sides: Dims,
    /// A side of a slice has links that close it, so that its ends are neighbours, if it is a multiple of
    /// this.
    pub wraps: u32,
    /// Whether only slices of whole cubes, whose sides all are such multiples, have such links.
    #[serde(default)]
    pub cubes: bool,
}

impl Torus {
    /// The part of it that so many chips are: itself, or else, of the boxes that it has room for, one with
    /// closed sides, with the shortest of them. `None` if it has no such box.
    #[must_use]
    pub fn slice(self, ranks: u32) -> Option<Self> {
        if self.sides.ranks() == u64::from(ranks) {
            return Some(self);
        }
        let mut room = self.sides.lengths().to_vec();
        room.sort_unstable();
        let mut found = Vec::new();
        boxes(ranks, &room, &mut Vec::new(), &mut found);
        let slice = |sides| Some(Self { sides: Dims::new(sides)?, ..self });
        found
            .iter()
            .filter_map(|sides: &Vec<u32>| slice(sides))
            .min_by_key(|s| (!s.is_closed(), s.sides.lengths().iter().sum::<u32>()))
    }

    /// The part of it with these sides; those that are left out are of one chip.
    #[must_use]
    pub fn part(self, sides: Dims) -> Self {
        let ones = self.sides.lengths().iter().skip(sides.lengths().len()).map(|_| 1);
        let all: Vec<u32> = sides.lengths().iter().copied().chain(ones).collect();
        Self { sides: Dims::new(&all).unwrap_or(sides), ..self }
    }

    /// Whether every side is a ring.
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.sides.lengths().iter().all(|&d| self.closes(d))
    }

    /// Whether no side is a ring.
    #[must_use]
    pub fn is_open(self) -> bool {
        !self.sides.lengths().iter().any(|&d| self.closes(d))
    }

    /// Which sides are no rings.
    #[must_use]
    pub fn open(self) -> [bool; 4] {
        let mut open = [false; 4];
        let sides = self.sides.lengths().iter().zip(&mut open);
        sides.for_each(|(&d, open)| *open = !self.closes(d));
        open
    }

    /// Whether a side of so many chips is a ring.
    fn closes(self, side: u32) -> bool {
        let fits = |d: u32| d.is_multiple_of(self.wraps.max(1));
        side > 2 && fits(side) && (!self.cubes || self.sides.lengths().iter().all(|&d| fits(d)))
    }

    /// The links of the chip that has the most.
    #[must_use]
    pub fn most_links(self) -> u32 {
        self.sides.lengths().iter().map(|&d| (d - 1).min(2)).sum()
    }

    /// The links of the chip that has the fewest.
    #[must_use]
    pub fn links_of_corner(self) -> u32 {
        let sides = self.sides.lengths().iter();
        sides.map(|&d| if self.closes(d) { 2 } else { u32::from(d > 1) }).sum()
    }

    /// The links through which every algorithm must send what it sends at least: of an all-reduce the mean
    /// of all chips; where each receives or sends as much as any, those of a corner; where a root does, the
    /// most.
    #[must_use]
    pub fn links_for(self, collective: Collective) -> Ratio {
        use Collective as C;
        let sum = |of: &dyn Fn(u32) -> f64| self.sides.lengths().iter().map(|&d| of(d)).sum();
        Ratio(match collective {
            C::AllReduce => sum(&|d| {
                if self.closes(d) { 2.0 } else { 2.0 * f64::from(d - 1) / f64::from(d) }
            }),
            C::AllGather | C::ReduceScatter | C::AllToAll | C::Broadcast | C::Reduce => {
                f64::from(self.links_of_corner())
            }
            C::Gather | C::Scatter | C::SendRecv | C::Barrier => f64::from(self.most_links()),
        })
    }

    /// See [`Wires::exchange`]: along a side of d each of two halves has half its data for the other. A slice
    /// of n × n × 2n or n × 2n × 2n may be twisted, so that the links which close its short sides are between
    /// the halves of the long ones (Cloud TPU's page on v5p): then only the short ones count.
    fn exchange(self) -> f64 {
        let sides = self.sides.lengths();
        let short = sides.iter().copied().min().unwrap_or(1);
        let twists = self.is_closed()
            && sides.len() == 3
            && sides.iter().all(|&d| d == short || d == short.saturating_mul(2));
        let along = |&d: &u32| {
            let d = u64::from(if twists { short } else { d });
            let ways = if self.closes(d as u32) { 2 } else { 1 };
            (d * d / 4) as f64 / (d * ways) as f64
        };
        sides.iter().map(along).fold(0.0, f64::max)
    }
}

/// The boxes of `ranks` that fit into `room`, both with ascending sides.
fn boxes(ranks: u32, room: &[u32], sides: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    let least = sides.last().copied().unwrap_or(1);
    let (most, rest) = match room {
        [] => return,
        [most] => {
            if (least..=*most).contains(&ranks) {
                found.push([sides.as_slice(), &[ranks]].concat());
            }
            return;
        }
        [most, rest @ ..] => (*most, rest),
    };
    // The others are no shorter.
    let fits = |side: &u32| u64::from(*side).pow(2) <= ranks.into() && *side <= most;
    for side in (least..).take_while(fits).filter(|&side| ranks.is_multiple_of(side)) {
        sides.push(side);
        boxes(ranks / side, rest, sides, found);
        sides.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torus(sides: &str, wraps: u32) -> Torus {
        Torus { sides: sides.parse().unwrap(), wraps, cubes: wraps == 4 }
    }

    #[test]
    fn slices_are_those_of_the_vendors() {
        let v5e = torus("16x16", 16);
        let v5p = torus("16x20x28", 4);
        // (Torus, chips, sides, closed): cloud.google.com/tpu/docs/v5e and v5p, "Supported configurations".
        for (whole, chips, sides, closed) in [
            (v5e, 4, "2x2", false),
            (v5e, 8, "2x4", false),
            (v5e, 16, "4x4", false),
            (v5e, 32, "4x8", false),
            (v5e, 64, "8x8", false),
            (v5e, 128, "8x16", false),
            (v5e, 256, "16x16", true),
            (v5p, 4, "1x2x2", false),
            (v5p, 8, "2x2x2", false),
            (v5p, 16, "2x2x4", false),
            (v5p, 32, "2x4x4", false),
            (v5p, 64, "4x4x4", true),
            (v5p, 128, "4x4x8", true),
            (v5p, 256, "4x8x8", true),
            (v5p, 512, "8x8x8", true),
            (v5p, 576, "4x12x12", true),
            (v5p, 6144, "16x16x24", true),
            (v5p, 8960, "16x20x28", true),
        ] {
            let slice = whole.slice(chips).unwrap();
            assert_eq!((slice.sides.to_string().as_str(), slice.is_closed()), (sides, closed));
        }
        let exchange = |torus: Torus, chips| Wires::Torus(torus).exchange(chips).0;
        assert_eq!([64, 128, 256].map(|chips| exchange(v5e, chips)), [2.0, 2.0, 2.0]);
        // 4x4x8 may be twisted; 8x8x12 may not.
        assert_eq!([64, 128, 768].map(|chips| exchange(v5p, chips)), [0.5, 0.5, 1.5]);
        // One side of 8 x 16 is a ring on v5e, and none of 2 x 4 x 4 on v5p, however it is written.
        let open = |torus: Torus| torus.open()[..3].to_vec();
        assert_eq!(open(v5e.slice(128).unwrap()), [true, false, false]);
        let flat = |sides: &str| v5p.part(sides.parse().unwrap());
        assert_eq!((flat("4x4"), open(flat("4x4"))), (flat("4x4x1"), vec![true; 3]));
        assert_eq!((open(flat("2x4x4")), open(flat("4x4x8"))), (vec![true; 3], vec![false; 3]));
        assert_eq!((v5e.slice(17), v5e.slice(7).unwrap().sides.to_string()), (None, "1x7".into()));
    }

    #[test]
    fn a_half_of_a_cube_mesh_has_as_many_links_as_one_gpu() {
        let wires = Wires::CubeMesh;
        assert_eq!([2, 4, 8].map(|n| 150.0 * wires.in_use(n, 8).0), [25.0, 100.0, 150.0]);
        assert_eq!((wires.exchange(8), wires.exchange(4)), (Ratio(2.0), Ratio(0.0)));
        assert_eq!(Wires::Mesh.in_use(2, 8), Ratio(1.0 / 7.0));
    }
}
