//! Paths: from every node to every processor, GPU, NIC and switch, level by level.
//!
//! A search starts at the target and goes outwards, so a path is the link back and then the path of
//! the node it came from. Lists share their ends; a path is never changed, only replaced.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/paths.cc`.

use std::collections::HashMap;

use super::Knobs;
use super::rules::{Level, Levels, UNLIMITED};
use super::system::{Kind, System, Wire};
use crate::base::error::{Error, Result};
use crate::library::nccl::since;

/// The most entries of all tables together: a machine of 640 GPUs with as many NICs has 3.4
/// million.
const MOST_ENTRIES: usize = 6_000_000;

/// The most links that all searches together may check.
const MOST_LOOKS: u64 = 500_000_000;

/// The most links of paths that are kept, with shared ends.
const MOST_CELLS: usize = 24_000_000;

/// A path to a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::library::nccl) struct Path {
    /// GB/s of the narrowest link; 0 if there is no path.
    pub(in crate::library::nccl) rate: f32,
    pub(in crate::library::nccl) hops: u32,
    first: u32,
    pub(in crate::library::nccl) level: Level,
}

impl Path {
    /// The same links at another level.
    pub(super) fn at(self, level: Level) -> Self {
        Self { level, ..self }
    }
}

/// A link of a path, and the cell after it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    link: u32,
    next: u32,
}

/// The end of a list.
const END: u32 = u32::MAX;

/// A link of the whole system, with its number.
#[derive(Debug, Clone, Copy)]
pub(in crate::library::nccl) struct Way {
    pub(in crate::library::nccl) from: usize,
    pub(in crate::library::nccl) to: usize,
    pub(in crate::library::nccl) wire: Wire,
    pub(in crate::library::nccl) rate: f32,
    /// The link back, if there is one.
    pub(in crate::library::nccl) back: Option<u32>,
}

/// All paths of a system.
#[derive(Debug, Clone)]
pub(in crate::library::nccl) struct Paths {
    pub(in crate::library::nccl) levels: Levels,
    pub(in crate::library::nccl) ways: Vec<Way>,
    /// Where the links of a node begin.
    first_way: Vec<usize>,
    tables: [Vec<Path>; Kind::ALL.len()],
    counts: [usize; Kind::ALL.len()],
    cells: Vec<Cell>,
    looks: u64,
}

/// The kinds of targets, in the order in which NCCL computes them.
const TARGETS: [Kind; 5] = [Kind::Cpu, Kind::Dev, Kind::Gpu, Kind::Net, Kind::Nvs];

impl Paths {
    /// The direct paths, before any detour.
    ///
    /// # Errors
    /// A one-way link where a path needs both directions; more nodes or links than can be followed.
    pub(super) fn direct(system: &System, knobs: &Knobs) -> Result<Self> {
        let nodes = system.nodes.len();
        let counts = Kind::ALL.map(|kind| system.count(kind));
        let targets: usize = TARGETS.iter().map(|&kind| system.count(kind)).sum();
        if nodes * targets > MOST_ENTRIES {
            return Err(too_large(system));
        }
        let levels = Levels::of(system.version);
        // In old versions targets that are not reached have the nearest type of all.
        let far = system.version.has(since::STARTS_FAR);
        let none = if far { levels.dis } else { levels.loc };
        let none = Path { rate: 0.0, hops: 0, first: END, level: none };
        let mut paths = Self {
            levels,
            ways: Vec::new(),
            first_way: Vec::new(),
            tables: Default::default(),
            counts,
            cells: Vec::new(),
            looks: 0,
        };
        paths.number(system);
        for kind in TARGETS {
            paths.tables[kind as usize] = vec![none; nodes * system.count(kind)];
            for (index, &base) in system.of(kind).iter().enumerate() {
                paths.search(system, knobs, kind, index, base)?;
            }
        }
        Ok(paths)
    }

    /// The path from a node to a target.
    pub(in crate::library::nccl) fn get(&self, node: usize, kind: Kind, target: usize) -> Path {
        self.tables[kind as usize][node * self.counts[kind as usize] + target]
    }

    /// The paths from a node to all targets of a kind.
    pub(in crate::library::nccl) fn to_all(&self, node: usize, kind: Kind) -> &[Path] {
        let count = self.counts[kind as usize];
        &self.tables[kind as usize][node * count..(node + 1) * count]
    }

    pub(super) fn set(&mut self, node: usize, kind: Kind, target: usize, path: Path) {
        self.tables[kind as usize][node * self.counts[kind as usize] + target] = path;
    }

    /// The links of a path, by their numbers.
    pub(in crate::library::nccl) fn links(&self, path: Path) -> impl Iterator<Item = u32> {
        let mut at = path.first;
        std::iter::from_fn(move || {
            let cell = *self.cells.get(at as usize)?;
            at = cell.next;
            Some(cell.link)
        })
    }

    /// One path followed by another, with the lower rate; the caller sets the level.
    pub(super) fn then(&mut self, before: Path, after: Path, level: Level) -> Path {
        let links: Vec<u32> = self.links(before).collect();
        let mut first = after.first;
        for &link in links.iter().rev() {
            first = self.cell(link, first);
        }
        let rate = if after.rate < before.rate { after.rate } else { before.rate };
        Path { rate, hops: before.hops + after.hops, first, level }
    }

    fn cell(&mut self, link: u32, next: u32) -> u32 {
        self.cells.push(Cell { link, next });
        (self.cells.len() - 1) as u32
    }

    /// Numbers the links, and finds the link back of each. 2.18 uses the first of any kind.
    fn number(&mut self, system: &System) {
        let any = !system.version.has(since::SAME_WAY_BACK);
        let key = |from: usize, to: usize, wire: Wire| (from, to, (!any).then_some(wire));
        let mut firsts = HashMap::new();
        for (from, node) in system.nodes.iter().enumerate() {
            self.first_way.push(self.ways.len());
            for link in &node.links {
                let number = self.ways.len() as u32;
                firsts.entry(key(from, link.to, link.wire)).or_insert(number);
                let (to, wire, rate) = (link.to, link.wire, link.rate);
                self.ways.push(Way { from, to, wire, rate, back: None });
            }
        }
        self.first_way.push(self.ways.len());
        for way in &mut self.ways {
            way.back = firsts.get(&key(way.to, way.from, way.wire)).copied();
        }
    }

    /// All paths to one target.
    fn search(
        &mut self,
        system: &System,
        knobs: &Knobs,
        kind: Kind,
        index: usize,
        base: usize,
    ) -> Result<()> {
        let rules = Rules::new(system, knobs, base, self.levels);
        let own = Path { rate: UNLIMITED, hops: 0, first: END, level: self.levels.loc };
        self.set(base, kind, index, own);
        let mut level = vec![base];
        let mut listed = vec![usize::MAX; system.nodes.len()];
        let mut round = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for &node in &level {
                // A node's own path cannot change while its links are checked.
                let path = self.get(node, kind, index);
                let links = self.first_way[node]..self.first_way[node + 1];
                self.looks += links.len() as u64;
                if self.looks > MOST_LOOKS || self.cells.len() > MOST_CELLS {
                    return Err(too_large(system));
                }
                for link in links {
                    let way = self.ways[link];
                    let before = self.get(way.to, kind, index);
                    let Some(level) = rules.accepts(path, &way, before) else { continue };
                    let Some(back) = way.back else { return Err(one_way(system, &way)) };
                    let first = self.cell(back, path.first);
                    let rate = if way.rate < path.rate { way.rate } else { path.rate };
                    let found = Path { rate, hops: path.hops + 1, first, level };
                    self.set(way.to, kind, index, found);
                    if listed[way.to] != round {
                        listed[way.to] = round;
                        next.push(way.to);
                    }
                }
            }
            level = next;
            round += 1;
        }
        Ok(())
    }
}

/// The steps that a search may take.
struct Rules<'a> {
    system: &'a System,
    levels: Levels,
    nvb: bool,
    /// The device of the target, or the target itself.
    home: usize,
    /// The most hops before a step from one GPU to another.
    most_before: u32,
}

impl<'a> Rules<'a> {
    fn new(system: &'a System, knobs: &Knobs, base: usize, levels: Levels) -> Self {
        let devices = system.device_kind() == Kind::Dev;
        let gpus = devices && system.nodes[base].kind == Kind::Gpu;
        let home = if gpus { system.home(base) } else { base };
        Self { system, levels, nvb: knobs.nvb, home, most_before: if gpus { 2 } else { 1 } }
    }

    /// The level of the path over this link, if the link is used.
    fn accepts(&self, path: Path, way: &Way, before: Path) -> Option<Level> {
        if !self.passes(path, way) {
            return None;
        }
        let level = self.level(path, way).max(path.level);
        let rate = if way.rate < path.rate { way.rate } else { path.rate };
        let taken = if self.system.version.has(since::NEARER_FIRST) {
            level < before.level
                || level == before.level
                    && (before.rate < rate || before.rate == rate && before.hops > path.hops + 1)
        } else {
            (before.rate == 0.0 || before.hops > path.hops) && before.rate < rate
        };
        taken.then_some(level)
    }

    /// Paths lead through a GPU only from one `NVLink` to the next, and only once.
    fn passes(&self, path: Path, way: &Way) -> bool {
        let kind = |node: usize| self.system.nodes[node].kind;
        let device = self.system.device_kind();
        if way.from == self.home || kind(way.from) != device {
            return true;
        }
        if device == Kind::Dev && way.wire == Wire::Loc && kind(way.to) == Kind::Gpu {
            return true;
        }
        self.nvb && way.wire == Wire::Nvl && kind(way.to) == device && path.hops <= self.most_before
    }

    fn level(&self, path: Path, way: &Way) -> Level {
        let levels = self.levels;
        let kind = |node: usize| self.system.nodes[node].kind;
        let (from, to) = (kind(way.from), kind(way.to));
        if from == Kind::Pci && to == Kind::Pci {
            return levels.pxb;
        }
        match way.wire {
            Wire::Pci if from == Kind::Cpu || to == Kind::Cpu => levels.phb,
            Wire::Pci => levels.pix,
            Wire::Nvl => {
                let second = if self.system.device_kind() == Kind::Dev {
                    path.hops == self.most_before
                } else {
                    path.hops > 0
                };
                let through = from == self.system.device_kind() && path.level == levels.nvl;
                if through && second { levels.nvb } else { levels.nvl }
            }
            Wire::C2c => levels.c2c,
            Wire::Sys => levels.sys,
            // Only the direction from NIC to GPU counts.
            Wire::Loc | Wire::Net => levels.loc,
        }
    }
}

fn too_large(system: &System) -> Error {
    Error::unsupported("the topology has too many nodes and links to follow all paths")
        .at(&system.origin)
        .help("describe one node, or fewer of its GPUs and NICs")
}

fn one_way(system: &System, way: &Way) -> Error {
    let name = |node: usize| {
        let node = &system.nodes[node];
        format!("{}/{:x}", node.kind.name(), node.id)
    };
    let what =
        format!("a link goes from {} to {}, but none goes back", name(way.from), name(way.to));
    Error::input(what)
        .at(&system.origin)
        .help("give the device at its other end an <nvlink> or <pcilink> to this one")
}
