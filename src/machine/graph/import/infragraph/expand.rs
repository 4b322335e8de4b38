//! Expands devices, counts and slices to nodes and edges.
//!
//! A device is a block of node numbers: those of each component in turn. An end of an edge is then
//! a few strides over such a block, without look-ups by name.

use std::collections::HashMap;

use super::Read;
use super::file::{Component, Device, Edge, Infra, Kind, LONGEST, Part, Scheme};
use crate::base::error::did_you_mean;
use crate::base::refused::Refused;

/// The most nodes, before any are left out.
const NODES: u64 = 1 << 17;

/// The most edges.
const EDGES: u64 = 1 << 17;

/// The most nested devices.
const DEEPEST: usize = 8;

/// The most bytes of all names together.
const NAMES: usize = 1 << 25;

/// Nodes by number, and each edge with its link.
pub(super) struct Expanded {
    pub is_rank: Vec<bool>,
    pub edges: Vec<(u32, u32, u32)>,
}

pub(super) fn expand(infra: &Infra<'_>) -> Read<Expanded> {
    let blocks = Blocks::new(infra)?;
    let mut nodes = 0_u64;
    let mut begins = HashMap::with_capacity(infra.instances.len());
    for (place, instance) in infra.instances.iter().enumerate() {
        let all = instance.count.saturating_mul(blocks.sizes[instance.device]);
        if begins.insert(instance.name, (nodes, place)).is_some() {
            let what = format!("two instances are called `{}`", instance.name);
            return Err(Refused { line: None, ..Refused::at(1, what) }.help("rename one"));
        }
        nodes = nodes.saturating_add(all);
    }
    if nodes > NODES {
        let what = format!("the infrastructure has {nodes} nodes");
        let help = format!("at most {NODES} are supported: give fewer instances or components");
        return Err(Refused { line: None, ..Refused::at(1, what) }.help(help));
    }
    let mut is_rank = Vec::with_capacity(nodes as usize);
    walk(infra, &blocks.sizes, &mut |component, _| {
        is_rank.push(component.kind == Kind::Xpu);
        Ok(())
    })?;

    let mut joins = Joins::default();
    // The edges inside each device, expanded once, as strides over its block.
    let mut inside = Vec::with_capacity(infra.devices.len());
    for (place, device) in infra.devices.iter().enumerate() {
        let strides = device.edges.iter().map(|edge| {
            let end = |parts: &[Part<'_>]| blocks.end(edge, place, parts);
            Ok((edge, end(&edge.ends[0])?, end(&edge.ends[1])?))
        });
        inside.push(strides.collect::<Read<Vec<_>>>()?);
    }
    for instance in &infra.instances {
        let (begin, _) = begins[instance.name];
        let size = blocks.sizes[instance.device];
        let count = if size == 0 { 0 } else { instance.count };
        for i in 0..count {
            joins.device(&blocks, &inside, instance.device, begin + i * size)?;
        }
    }
    for edge in &infra.edges {
        let end = |parts: &[Part<'_>]| {
            let Some((first, components)) = parts.split_first() else {
                return Err(Refused::at(edge.line, "an end does not name its instance"));
            };
            let &(begin, place) = begins.get(first.name).ok_or_else(|| {
                Refused::at(edge.line, format!("there is no instance `{}`", first.name))
                    .help("list the instances in `instances`")
            })?;
            let instance = &infra.instances[place];
            let mut end = blocks.end(edge, instance.device, components)?;
            end.first += begin;
            let stride = blocks.sizes[instance.device];
            end.strides.insert(0, stride_of(edge, first, instance.count, stride, &mut end.first)?);
            Ok(end)
        };
        let ends = (end(&edge.ends[0])?, end(&edge.ends[1])?);
        joins.edge(edge, &ends.0, &ends.1, 0)?;
    }
    Ok(Expanded { is_rank, edges: joins.edges })
}

/// The number of nodes of each device, and where those of each component begin.
struct Blocks<'i> {
    devices: &'i [Device<'i>],
    sizes: Vec<u64>,
    begins: Vec<Vec<u64>>,
}

impl<'i> Blocks<'i> {
    fn new(infra: &'i Infra<'i>) -> Read<Self> {
        let count = infra.devices.len();
        let mut blocks = Self {
            devices: &infra.devices,
            sizes: vec![0; count],
            begins: vec![Vec::new(); count],
        };
        let mut heights = vec![0; count];
        (0..count).try_for_each(|device| blocks.size(device, 1, &mut heights))?;
        Ok(blocks)
    }

    /// Finds the size of a device, after those inside it; a height of 0 is not known yet.
    fn size(&mut self, device: usize, depth: usize, heights: &mut [usize]) -> Read<()> {
        let Device { line, name, components, .. } = &self.devices[device];
        if depth.max(depth + heights[device] - 1) > DEEPEST {
            let what = format!("devices are nested more than {DEEPEST} deep at `{name}`");
            return Err(Refused::at(*line, what).help("a device cannot be inside itself"));
        }
        if heights[device] > 0 {
            return Ok(());
        }
        let (mut size, mut height) = (0_u64, 1);
        let mut begins = Vec::with_capacity(components.len());
        for component in components {
            begins.push(size);
            let one = match component.kind {
                Kind::Device(inner) => {
                    self.size(inner, depth + 1, heights)?;
                    height = height.max(1 + heights[inner]);
                    self.sizes[inner]
                }
                _ => 1,
            };
            size = size.saturating_add(component.count.saturating_mul(one));
        }
        (self.sizes[device], self.begins[device], heights[device]) = (size, begins, height);
        Ok(())
    }

    /// The numbers of an end of an edge, in the block of a device.
    fn end(&self, edge: &Edge<'_>, mut device: usize, parts: &[Part<'_>]) -> Read<End> {
        let mut end = End { first: 0, strides: Vec::with_capacity(parts.len() + 1) };
        for (i, part) in parts.iter().enumerate() {
            let Device { name, components, places, .. } = &self.devices[device];
            let begins = &self.begins[device];
            let Some(&place) = places.get(part.name) else {
                let what = format!("there is no component `{}` in the device `{name}`", part.name);
                let near = places.keys().copied().filter(|_| part.name.len() <= LONGEST);
                let help = did_you_mean(part.name, near, || {
                    format!("the device has {} components in its list `components`", places.len())
                });
                return Err(Refused::at(edge.line, what).help(help));
            };
            let component = &components[place];
            let is_last = i + 1 == parts.len();
            let stride = match component.kind {
                Kind::Device(inner) if !is_last => {
                    device = inner;
                    self.sizes[inner]
                }
                Kind::Device(_) => {
                    let what = format!("`{}` is a device, and an edge joins components", part.name);
                    let help = format!("name one inside it, such as {}.port[0]", part.name);
                    return Err(Refused::at(edge.line, what).help(help));
                }
                _ if !is_last => {
                    let what = format!("there is nothing inside `{}`", part.name);
                    return Err(Refused::at(edge.line, what));
                }
                _ => 1,
            };
            end.first = end.first.saturating_add(begins[place]);
            let stride = stride_of(edge, part, component.count, stride, &mut end.first)?;
            end.strides.push(stride);
        }
        Ok(end)
    }
}

/// The numbers of one end of an edge, in steps; the last step varies fastest.
struct End {
    first: u64,
    strides: Vec<Stride>,
}

/// A count of numbers and their distance.
struct Stride {
    count: u64,
    apart: u64,
}

/// The steps of a slice of `count` components that have `size` numbers each.
fn stride_of(
    edge: &Edge<'_>,
    part: &Part<'_>,
    count: u64,
    size: u64,
    first: &mut u64,
) -> Read<Stride> {
    let [start, stop, step] = part.slice;
    let (start, stop, step) = (start.unwrap_or(0), stop.unwrap_or(count), step.unwrap_or(1));
    if start >= stop || stop > count {
        let what =
            format!("`{}[{start}:{stop}]`, and there are {count} of `{}`", part.name, part.name);
        let help = "a slice counts from 0, excludes its end, and has at least one element";
        return Err(Refused::at(edge.line, what).help(help));
    }
    *first = first.saturating_add(start.saturating_mul(size));
    Ok(Stride { count: (stop - start).div_ceil(step), apart: step.saturating_mul(size) })
}

impl End {
    fn len(&self) -> u64 {
        self.strides.iter().fold(1, |all, stride| all.saturating_mul(stride.count))
    }

    /// The number at a place of the whole end.
    fn number(&self, mut place: u64) -> u64 {
        let mut number = self.first;
        for stride in self.strides.iter().rev() {
            number += place % stride.count * stride.apart;
            place /= stride.count;
        }
        number
    }
}

type Inside<'e, 't> = Vec<Vec<(&'e Edge<'t>, End, End)>>;

/// Edges during the expansion.
#[derive(Default)]
struct Joins {
    edges: Vec<(u32, u32, u32)>,
    /// The place of the edge between two nodes.
    places: HashMap<(u32, u32), usize>,
    /// How many were made, including those that were replaced.
    made: u64,
}

impl Joins {
    /// The edges inside a device whose block begins at a number, and inside the devices in it.
    fn device(
        &mut self,
        blocks: &Blocks<'_>,
        inside: &Inside<'_, '_>,
        device: usize,
        begin: u64,
    ) -> Read<()> {
        for (edge, a, b) in &inside[device] {
            self.edge(edge, a, b, begin)?;
        }
        for (component, from) in
            blocks.devices[device].components.iter().zip(&blocks.begins[device])
        {
            let Kind::Device(inner) = component.kind else { continue };
            let size = blocks.sizes[inner];
            let count = if size == 0 { 0 } else { component.count };
            for i in 0..count {
                self.device(blocks, inside, inner, begin + from + i * size)?;
            }
        }
        Ok(())
    }

    /// Expands one edge of the file.
    fn edge(&mut self, edge: &Edge<'_>, a: &End, b: &End, begin: u64) -> Read<()> {
        let (from, to) = (a.len(), b.len());
        let all = match edge.scheme {
            Scheme::ManyToMany => from.saturating_mul(to),
            // A server's two NICs may be joined to the first two of a switch's 16 ports.
            Scheme::OneToOne => from.min(to),
            Scheme::Ring if from == to => from,
            Scheme::Ring => {
                let what = format!("the ends of a ring have {from} and {to} components");
                let help = "give both ends the same number, such as xpu[0:8] and xpu[0:8]";
                return Err(Refused::at(edge.line, what).help(help));
            }
        };
        self.made = self.made.saturating_add(all);
        if self.made > EDGES {
            let what = format!("the infrastructure has at least {} edges", self.made);
            return Err(Refused::at(edge.line, what).help(format!("at most {EDGES} are supported")));
        }
        for place in 0..all {
            let (i, j) = match edge.scheme {
                Scheme::OneToOne => (place, place),
                Scheme::ManyToMany => (place / to, place % to),
                Scheme::Ring => (place, (place + 1) % to),
            };
            // It is below the number of nodes, which fits.
            self.add((begin + a.number(i)) as u32, (begin + b.number(j)) as u32, edge.link as u32);
        }
        Ok(())
    }

    /// Adds an edge; it replaces an earlier one between the same two nodes.
    fn add(&mut self, a: u32, b: u32, link: u32) {
        if a == b {
            return;
        }
        let place = *self.places.entry((a.min(b), a.max(b))).or_insert(self.edges.len());
        match self.edges.get_mut(place) {
            Some(there) => there.2 = link,
            None => self.edges.push((a, b, link)),
        }
    }
}

impl Expanded {
    /// The nodes on a path between ranks: without dead ends and nodes that no rank reaches.
    pub fn on_a_way(&self) -> Vec<bool> {
        let count = self.is_rank.len();
        let mut neighbours = vec![Vec::new(); count];
        for &(a, b, _) in &self.edges {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        let mut degree: Vec<usize> = neighbours.iter().map(Vec::len).collect();
        let mut is_left = vec![true; count];
        let mut open: Vec<usize> =
            (0..count).filter(|&node| degree[node] <= 1 && !self.is_rank[node]).collect();
        while let Some(node) = open.pop() {
            is_left[node] = false;
            for &next in &neighbours[node] {
                let next = next as usize;
                degree[next] = degree[next].saturating_sub(1);
                if degree[next] == 1 && is_left[next] && !self.is_rank[next] {
                    open.push(next);
                }
            }
        }
        let mut kept = vec![false; count];
        let mut open: Vec<usize> = (0..count).filter(|&node| self.is_rank[node]).collect();
        open.iter().for_each(|&node| kept[node] = true);
        while let Some(node) = open.pop() {
            for &next in &neighbours[node] {
                let next = next as usize;
                if is_left[next] && !std::mem::replace(&mut kept[next], true) {
                    open.push(next);
                }
            }
        }
        kept
    }
}

/// The names of the nodes that are kept, in order, and whether each is a rank.
pub(super) fn names(
    infra: &Infra<'_>,
    is_rank: &[bool],
    kept: &[bool],
) -> Read<Vec<(bool, String)>> {
    let blocks = Blocks::new(infra)?;
    let (mut names, mut bytes, mut node) = (Vec::new(), 0, 0);
    walk(infra, &blocks.sizes, &mut |_, name| {
        if kept[node] {
            bytes += name.len();
            if bytes > NAMES {
                let what = format!("the names of all nodes have more than {NAMES} bytes");
                return Err(
                    Refused { line: None, ..Refused::at(1, what) }.help("give shorter names")
                );
            }
            names.push((is_rank[node], name.to_owned()));
        }
        node += 1;
        Ok(())
    })?;
    Ok(names)
}

/// The visitor of a component and the name of its node.
type Visit<'v> = dyn FnMut(&Component<'_>, &str) -> Read<()> + 'v;

/// Visits all nodes in order.
fn walk(infra: &Infra<'_>, sizes: &[u64], visit: &mut Visit<'_>) -> Read<()> {
    let mut name = String::new();
    for instance in &infra.instances {
        let count = if sizes[instance.device] == 0 { 0 } else { instance.count };
        for i in 0..count {
            name.clear();
            name += &format!("{}.{i}", instance.name);
            walk_device(infra, sizes, instance.device, &mut name, visit)?;
        }
    }
    Ok(())
}

fn walk_device(
    infra: &Infra<'_>,
    sizes: &[u64],
    device: usize,
    name: &mut String,
    visit: &mut Visit<'_>,
) -> Read<()> {
    let before = name.len();
    for component in &infra.devices[device].components {
        let inner = match component.kind {
            Kind::Device(inner) if sizes[inner] == 0 => continue,
            Kind::Device(inner) => Some(inner),
            _ => None,
        };
        for i in 0..component.count {
            name.truncate(before);
            *name += &format!(".{}.{i}", component.name);
            match inner {
                Some(inner) => walk_device(infra, sizes, inner, name, visit)?,
                None => visit(component, name)?,
            }
        }
    }
    name.truncate(before);
    Ok(())
}
