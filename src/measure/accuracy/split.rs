//! What is held out.

use super::Cell;
use crate::base::quantity::Bytes;
use crate::machine::curve::{Observation, Placed};

/// What is held out of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Every second size.
    Sizes,
    /// The largest number of ranks.
    LargestN,
    /// Each number of ranks between others.
    MiddleN,
    /// The smallest number of ranks.
    SmallestN,
    /// Twice the remaining ranks.
    #[serde(rename = "x2-n")]
    Twice,
    /// Four times.
    #[serde(rename = "x4-n")]
    FourTimes,
    /// Eight times.
    #[serde(rename = "x8-n")]
    EightTimes,
    /// All sizes but three: 1 KiB, 1 MiB and the largest.
    ThreeSizes,
    /// The whole cell: the fit uses another machine of its kind, or another version on the same machine.
    Sibling,
}

/// The fitted and the predicted rows, which are disjoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What is fitted.
    pub train: Vec<Observation>,
    /// What is predicted.
    pub test: Vec<Observation>,
    /// Whether both are of one machine.
    pub same_machine: bool,
}

/// Generations of one kind.
const SIBLINGS: &[(&str, &str)] =
    &[("h100", "h200"), ("b200", "b300"), ("gb200", "gb300"), ("mi300x", "mi325x")];

impl Split {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Sizes,
        Self::LargestN,
        Self::MiddleN,
        Self::SmallestN,
        Self::Twice,
        Self::FourTimes,
        Self::EightTimes,
        Self::ThreeSizes,
        Self::Sibling,
    ];

    /// The name in reports.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Sizes => "sizes",
            Self::LargestN => "largest-n",
            Self::MiddleN => "middle-n",
            Self::SmallestN => "smallest-n",
            Self::Twice => "x2-n",
            Self::FourTimes => "x4-n",
            Self::EightTimes => "x8-n",
            Self::ThreeSizes => "three-sizes",
            Self::Sibling => "sibling",
        }
    }

    /// The parts of a cell; `None` if it has too few sizes, ranks or relatives.
    #[must_use]
    pub fn parts(self, cell: &Cell, cells: &[Cell]) -> Vec<Part> {
        let placed = cell.placed();
        let mut sizes: Vec<Bytes> = cell.rows.iter().map(|o| o.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let without = |out: Placed| part(cell, |o| o.placed != out);
        match self {
            Self::Sizes if sizes.len() >= 4 => {
                let even =
                    |o: &Observation| sizes.iter().position(|&s| s == o.size).unwrap_or(0) % 2 == 0;
                vec![part(cell, even)]
            }
            Self::ThreeSizes if sizes.len() >= 6 => {
                let kept = [near(&sizes, 1 << 10), near(&sizes, 1 << 20), sizes.last().copied()];
                vec![part(cell, |o| kept.contains(&Some(o.size)))]
            }
            Self::LargestN if placed.len() >= 3 => {
                placed.last().map(|&p| without(p)).into_iter().collect()
            }
            Self::SmallestN if placed.len() >= 3 => {
                placed.first().map(|&p| without(p)).into_iter().collect()
            }
            Self::MiddleN if placed.len() >= 3 => {
                placed[1..placed.len() - 1].iter().map(|&p| without(p)).collect()
            }
            Self::Twice => beyond(cell, &placed, 2),
            Self::FourTimes => beyond(cell, &placed, 4),
            Self::EightTimes => beyond(cell, &placed, 8),
            Self::Sibling => relatives(cell, cells),
            _ => Vec::new(),
        }
    }
}

fn part(cell: &Cell, keep: impl Fn(&Observation) -> bool) -> Part {
    let (train, test) = cell.rows.iter().partition(|o| keep(o));
    Part { train, test, same_machine: true }
}

/// A multiple of each number of ranks, predicted from that and fewer ranks; over nodes only if some of
/// those ran on several, as a fit cannot know a tier that was not measured.
fn beyond(cell: &Cell, placed: &[Placed], times: u32) -> Vec<Part> {
    let to = |most: Placed| placed.iter().copied().filter(move |p| p.ranks == times * most.ranks);
    let pairs = placed.iter().flat_map(|&most| to(most).map(move |asked| (most, asked)));
    let known = |(most, asked): &(Placed, Placed)| {
        placed.iter().any(|p| p.ranks <= most.ranks && p.between() == asked.between())
    };
    let of = |rows: &dyn Fn(&Placed) -> bool| -> Vec<Observation> {
        cell.rows.iter().filter(|o| rows(&o.placed)).copied().collect()
    };
    pairs
        .filter(known)
        .map(|(most, asked)| Part {
            train: of(&|p| p.ranks <= most.ranks),
            test: of(&|p| *p == asked),
            same_machine: true,
        })
        .collect()
}

/// The size nearest to `wanted` by their ratio.
fn near(sizes: &[Bytes], wanted: u64) -> Option<Bytes> {
    let far = |s: &Bytes| (s.0.max(1) as f64 / wanted as f64).ln().abs();
    sizes.iter().copied().min_by(|a, b| far(a).total_cmp(&far(b)))
}

/// The cell, predicted from each of its relatives.
fn relatives(cell: &Cell, cells: &[Cell]) -> Vec<Part> {
    let related = cells.iter().filter(|other| {
        !std::ptr::eq(*other, cell)
            && (other.collective, other.dtype) == (cell.collective, cell.dtype)
            && other.placed() == cell.placed()
            && kind(&other.system) == kind(&cell.system)
    });
    related
        .map(|other| Part {
            train: other.rows.clone(),
            test: cell.rows.clone(),
            same_machine: false,
        })
        .collect()
}

/// The name of a machine's kind.
fn kind(system: &str) -> &str {
    let (name, rest) = system.split_once('_').unwrap_or((system, ""));
    match SIBLINGS.iter().find(|(_, younger)| *younger == name) {
        Some((elder, _)) => elder,
        // Only the name of a GPU identifies a kind: a100_sxm, b200_sxm; rented machines count by their whole name.
        None if rest.is_empty() || rest == "sxm" => name,
        None => system,
    }
}
