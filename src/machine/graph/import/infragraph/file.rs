//! The contents of an InfraGraph before expansion.

use std::collections::HashMap;

use super::{Read, giga};
use crate::base::error::did_you_mean;
use crate::base::refused::Refused;
use crate::base::yaml::Node;
use crate::model::formula::Rational;

/// The longest name, in bytes.
pub(super) const LONGEST: usize = 128;

pub(super) struct Infra<'t> {
    pub name: Option<&'t str>,
    pub devices: Vec<Device<'t>>,
    pub instances: Vec<Instance<'t>>,
    /// All links, of the infrastructure and of devices.
    pub links: Vec<LinkKind<'t>>,
    /// Edges between instances.
    pub edges: Vec<Edge<'t>>,
}

pub(super) struct Device<'t> {
    pub line: usize,
    pub name: &'t str,
    pub components: Vec<Component<'t>>,
    /// Components by name.
    pub places: HashMap<&'t str, usize>,
    pub edges: Vec<Edge<'t>>,
}

pub(super) struct Component<'t> {
    pub name: &'t str,
    pub count: u64,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An accelerator.
    Xpu,
    /// An inner device, by its index.
    Device(usize),
    /// A component that forwards.
    Other,
}

pub(super) struct Instance<'t> {
    pub name: &'t str,
    pub device: usize,
    pub count: u64,
}

pub(super) struct LinkKind<'t> {
    pub name: &'t str,
    /// The device that has it; `None` if the infrastructure has it.
    pub owner: Option<&'t str>,
    pub line: usize,
    pub bandwidth: Bandwidth,
    /// Seconds.
    pub latency: f64,
}

pub(super) enum Bandwidth {
    /// B/s.
    Rate(Rational),
    /// Transfers per second, of an unknown number of bytes.
    Transfers,
    Missing,
}

pub(super) struct Edge<'t> {
    pub line: usize,
    /// Each end: an instance, for edges between instances, and then components from the outside in.
    pub ends: [Vec<Part<'t>>; 2],
    pub scheme: Scheme,
    /// The index of its link.
    pub link: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    OneToOne,
    ManyToMany,
    Ring,
}

/// `xpu[0:4]`: a name, and the first, the end and the step of its slice, if given.
pub(super) struct Part<'t> {
    pub name: &'t str,
    pub slice: [Option<u64>; 3],
}

pub(super) fn read<'t>(top: &'t Node<'t>) -> Read<Infra<'t>> {
    let top = top.get("infrastructure").unwrap_or(top);
    let devices = top.list("devices")?;
    let mut places = HashMap::with_capacity(devices.len());
    for (device, place) in devices.iter().zip(0..) {
        let name = name(device)?;
        if places.insert(name, place).is_some() {
            return Err(device.refuse(format!("two devices are called `{name}`")));
        }
    }
    let (mut links, mut read) = (Vec::new(), Vec::with_capacity(devices.len()));
    for device in devices {
        read.push(self::device(device, &places, &mut links)?);
    }
    let instances = top.list("instances")?.iter().map(|instance| {
        let device = instance.text("device")?;
        let known = places.get(device).copied();
        let device = known.ok_or_else(|| unknown(instance, "device", device, &places))?;
        Ok(Instance { name: name(instance)?, device, count: count(instance)? })
    });
    let instances = instances.collect::<Read<Vec<_>>>()?;
    let known = add_links(top, None, &mut links)?;
    let edges = top.list("edges")?.iter();
    let edges = edges.map(|edge| self::edge(edge, &known, "instance")).collect::<Read<_>>()?;
    let name = top.get("name").map(|_| top.text("name")).transpose()?;
    Ok(Infra { name, devices: read, instances, links, edges })
}

fn device<'t>(
    node: &'t Node<'t>,
    devices: &HashMap<&str, usize>,
    links: &mut Vec<LinkKind<'t>>,
) -> Read<Device<'t>> {
    let name = name(node)?;
    let mut components = Vec::new();
    let mut places = HashMap::new();
    for component in node.list("components")? {
        let read = self::component(component, devices)?;
        if places.insert(read.name, components.len()).is_some() {
            let what = format!("`{name}` has two components `{}`", read.name);
            return Err(component.refuse(what));
        }
        components.push(read);
    }
    let known = add_links(node, Some(name), links)?;
    let edges = node.list("edges")?.iter();
    let edges = edges.map(|edge| self::edge(edge, &known, "device")).collect::<Read<_>>()?;
    Ok(Device { line: node.line, name, components, places, edges })
}

fn component<'t>(node: &'t Node<'t>, devices: &HashMap<&str, usize>) -> Read<Component<'t>> {
    let name = name(node)?;
    if node.get("choice").is_none() && node.get("type").is_some() {
        return Err(node
            .refuse(
                "the component has a `type` and no `choice`, as in an older InfraGraph than 2.4",
            )
            .help("write the file as InfraGraph 2.4 has it: {name: xpu, count: 4, choice: xpu}"));
    }
    let choice = node.text("choice")?;
    let kind = match choice {
        "xpu" => Kind::Xpu,
        "device" => {
            let known = devices.get(name).copied();
            Kind::Device(known.ok_or_else(|| unknown(node, "device", name, devices))?)
        }
        "custom" => match node.get("custom") {
            Some(custom) if custom.text("type")? == "xpu" => Kind::Xpu,
            _ => Kind::Other,
        },
        "cpu" | "nic" | "memory" | "port" | "switch" => Kind::Other,
        _ => {
            return Err(node
                .refuse(format!("`{choice}` is not a choice of a component"))
                .help("known: custom, device, cpu, xpu, nic, memory, port and switch"));
        }
    };
    Ok(Component { name, count: count(node)?, kind })
}

/// Adds the links of an infrastructure or a device, and returns them by name.
fn add_links<'t>(
    node: &'t Node<'t>,
    owner: Option<&'t str>,
    links: &mut Vec<LinkKind<'t>>,
) -> Read<HashMap<&'t str, usize>> {
    let mut known = HashMap::new();
    for link in node.list("links")? {
        let name = name(link)?;
        let physical = link.get("physical");
        let bandwidth = match physical.and_then(|physical| physical.get("bandwidth")) {
            Some(bandwidth) => self::bandwidth(bandwidth)?,
            None => Bandwidth::Missing,
        };
        let latency = match physical.and_then(|physical| physical.get("latency")) {
            Some(latency) => self::latency(latency)?,
            None => 0.0,
        };
        known.insert(name, links.len());
        links.push(LinkKind { name, owner, line: link.line, bandwidth, latency });
    }
    Ok(known)
}

/// The unit in which a quantity is given, and its number.
fn chosen<'t>(node: &'t Node<'t>, units: &[&'static str]) -> Read<Option<(&'static str, &'t str)>> {
    let given = units.iter().copied().filter(|unit| node.get(unit).is_some());
    // `choice` selects one if there are several.
    let unit = match node.get("choice") {
        Some(_) => {
            let choice = node.text("choice")?;
            units.iter().copied().find(|unit| *unit == choice).ok_or_else(|| {
                node.refuse(format!("`{choice}` is not a unit here"))
                    .help(format!("{} are", units.join(", ")))
            })?
        }
        None => match given.clone().next() {
            Some(unit) => unit,
            None => return Ok(None),
        },
    };
    Ok(Some((unit, node.text(unit)?)))
}

fn bandwidth(node: &Node<'_>) -> Read<Bandwidth> {
    let units = ["gigabits_per_second", "gigabytes_per_second", "gigatransfers_per_second"];
    let Some((unit, number)) = chosen(node, &units)? else { return Ok(Bandwidth::Missing) };
    let rate = giga(number).filter(|rate| *rate > Rational::from_integer(0));
    let rate =
        rate.ok_or_else(|| node.refuse(format!("`{number}` {unit} is not a bandwidth above 0")))?;
    Ok(match unit {
        "gigabits_per_second" => Bandwidth::Rate(rate / Rational::from_integer(8)),
        "gigabytes_per_second" => Bandwidth::Rate(rate),
        _ => Bandwidth::Transfers,
    })
}

fn latency(node: &Node<'_>) -> Read<f64> {
    let Some((unit, number)) = chosen(node, &["ms", "us", "ns"])? else { return Ok(0.0) };
    let time = number.parse::<f64>().ok().filter(|time| (0.0..1e9).contains(time));
    let time = time.ok_or_else(|| node.refuse(format!("`{number}` {unit} is not a latency")))?;
    let unit = match unit {
        "ms" => 1e3,
        "us" => 1e6,
        _ => 1e9,
    };
    Ok(time / unit)
}

fn edge<'t>(
    node: &'t Node<'t>,
    links: &HashMap<&str, usize>,
    outer: &'static str,
) -> Read<Edge<'t>> {
    let link = node.text("link")?;
    let known = links.get(link).copied();
    let link = known.ok_or_else(|| unknown(node, "link", link, links))?;
    let scheme = match node.text("scheme")? {
        "one2one" => Scheme::OneToOne,
        "many2many" => Scheme::ManyToMany,
        "ring" => Scheme::Ring,
        other => {
            return Err(node
                .refuse(format!("`{other}` is not a scheme"))
                .help("known: one2one, many2many and ring"));
        }
    };
    let end = |key: &str| {
        let end = node.get(key).ok_or_else(|| node.refuse(format!("`{key}` is missing")))?;
        // Only edges between instances must name one; an inner device is optional.
        let first = match end.get(outer) {
            None if outer == "device" => None,
            _ => Some(end.text(outer)?),
        };
        let component = end.text("component")?;
        let parts = first.into_iter().chain([component]).flat_map(|text| text.split('.'));
        parts.map(|text| part(end, text)).collect::<Read<Vec<_>>>()
    };
    Ok(Edge { line: node.line, ends: [end("ep1")?, end("ep2")?], scheme, link })
}

/// `xpu`, `xpu[3]`, `xpu[0:4]` or `xpu[0:8:2]`.
fn part<'t>(node: &Node<'_>, text: &'t str) -> Read<Part<'t>> {
    let wrong = || {
        node.refuse(format!("`{text}` names no components"))
            .help("write xpu, xpu[3], xpu[0:4] (without the fourth) or xpu[0:8:2]")
    };
    let Some((name, slice)) = text.split_once('[') else {
        return Ok(Part { name: text.trim(), slice: [None; 3] });
    };
    let slice = slice.trim_end().strip_suffix(']').ok_or_else(wrong)?;
    let mut numbers = [None; 3];
    let mut pieces = slice.split(':');
    for (number, piece) in numbers.iter_mut().zip(&mut pieces) {
        let piece = piece.trim();
        if !piece.is_empty() {
            *number = Some(piece.parse().map_err(|_| wrong())?);
        }
    }
    if pieces.next().is_some() || numbers[2] == Some(0) {
        return Err(wrong());
    }
    if !slice.contains(':') {
        let index: u64 = numbers[0].ok_or_else(wrong)?;
        numbers[1] = Some(index.saturating_add(1));
    }
    Ok(Part { name: name.trim(), slice: numbers })
}

fn name<'t>(node: &'t Node<'t>) -> Read<&'t str> {
    let name = node.text("name")?;
    if name.len() > LONGEST {
        let what = format!("a name of {} bytes; the longest has {LONGEST}", name.len());
        return Err(node.refuse(what));
    }
    Ok(name)
}

fn count(node: &Node<'_>) -> Read<u64> {
    let text = node.text("count")?;
    let wrong = || node.refuse(format!("`{text}` is not a count")).help("write a whole number");
    text.parse().map_err(|_| wrong())
}

fn unknown(node: &Node<'_>, what: &str, name: &str, known: &HashMap<&str, usize>) -> Refused {
    // A text longer than the longest name is not a typo of a name.
    let near = known.keys().copied().filter(|_| name.len() <= LONGEST);
    let help = did_you_mean(name, near, || {
        format!("list each {what} that is referred to in `{what}s`, with its name")
    });
    node.refuse(format!("there is no {what} `{name}`")).help(help)
}
