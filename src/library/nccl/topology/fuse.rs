//! Several NICs used as one: which, and where the one stands that NCCL makes of them.
//!
//! It carries what they do together, has the first one's other figures, and hangs where their ways up
//! meet: behind the others on that switch, or on the processor. One for NICs of two processors hangs
//! on none, and NCCL loses it.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`](crate::library::nccl::Version) from 2.24.3 on,
//! `src/graph/topo.cc` (`ncclTopoGetPath`, `ncclTopoAutoMerge`, `ncclTopoForceMerge`),
//! `src/transport/net_ib.cc` (`ncclIbMakeVDevice`).

use super::seen::{Interfaces, keep};
use crate::base::error::{Error, Result};
use crate::machine::nccl::{Bus, Description, Device, Net, Pci};

/// How far apart two NICs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Apart {
    /// The same.
    Loc,
    /// Ports of one adapter.
    #[default]
    Port,
    /// On one switch.
    Pix,
    /// Below one switch.
    Pxb,
    /// On one processor.
    Phb,
    /// On one host.
    Sys,
}

impl Apart {
    pub(super) fn named(text: &str) -> Option<Self> {
        Some(match text {
            "LOC" => Self::Loc,
            "PORT" => Self::Port,
            "PIX" => Self::Pix,
            // Nothing lies between the two.
            "PXB" | "PXN" => Self::Pxb,
            "PHB" => Self::Phb,
            "SYS" => Self::Sys,
            _ => return None,
        })
    }
}

/// A NIC with its way up: the processor, then switches and its own device.
#[derive(Debug, Clone)]
struct Nic {
    net: Net,
    cpu: usize,
    way: Vec<Bus>,
}

/// Where two ways up meet: how many of their steps are the same.
fn meet(nics: &[&Nic]) -> (Apart, Option<usize>) {
    let first = nics[0];
    if nics.iter().any(|nic| nic.cpu != first.cpu) {
        return (Apart::Sys, None);
    }
    let same = (0..).take_while(|&step| {
        first.way.get(step).is_some_and(|bus| nics.iter().all(|nic| nic.way.get(step) == Some(bus)))
    });
    let same = same.count();
    if nics.iter().all(|nic| nic.way.len() == same) {
        return (Apart::Port, Some(same.saturating_sub(1)));
    }
    // Addresses that differ in the function alone.
    let function = |nic: &Nic| nic.way.get(same).map(|bus| bus.0 >> 4);
    let ports =
        function(first).is_some() && nics.iter().all(|nic| function(nic) == function(first));
    let apart = match same {
        _ if ports => Apart::Port,
        0 => Apart::Phb,
        _ if nics.iter().all(|nic| nic.way.len() == same + 1) => Apart::Pix,
        _ => Apart::Pxb,
    };
    (apart, Some(same))
}

/// Makes one NIC of each group that is named, then of those that are near enough.
///
/// # Errors
/// A group that names NICs which are not there, or too many.
pub(super) fn fuse(
    description: &mut Description,
    level: Apart,
    groups: Option<&str>,
    most: usize,
) -> Result<()> {
    let mut hosts: Vec<u64> = description.cpus.iter().map(|cpu| cpu.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    for host in hosts {
        let nics = nics(description, host);
        // NICs that NCCL makes of others, or of one, are numbered behind those that are there.
        let free = nics.iter().map(|nic| nic.net.device + 1).max().unwrap_or(0);
        for (number, group) in (free..).zip(grouped(&nics, level, groups, most)?) {
            match group[..] {
                [one] => description.each_nets_mut(|of, nets| {
                    let same = |net: &&mut Net| of == host && net.device == one.net.device;
                    nets.iter_mut().filter(same).for_each(|net| net.device = number);
                }),
                _ => place(description, &group, number),
            }
        }
        keep(description, |of, net| of != host || net.device >= free);
    }
    Ok(())
}

/// The NICs of a host, by their numbers.
fn nics(description: &Description, host: u64) -> Vec<Nic> {
    let mut found = Vec::new();
    for (index, cpu) in description.cpus.iter().enumerate().filter(|(_, cpu)| cpu.host == host) {
        let mut add = |nets: &[Net], way: &[Bus]| {
            let nic = |net: &Net| Nic { net: net.clone(), cpu: index, way: way.to_vec() };
            found.extend(nets.iter().map(nic));
        };
        let mut rest: Vec<(&Pci, Vec<Bus>)> = Vec::new();
        for device in &cpu.below {
            match device {
                Device::Nic(nets) => add(nets, &[]),
                Device::Pci(pci) => rest.push((pci, vec![pci.bus])),
            }
        }
        while let Some((pci, way)) = rest.pop() {
            add(pci.nets.as_deref().unwrap_or_default(), &way);
            for below in &pci.below {
                rest.push((below, [&way[..], &[below.bus]].concat()));
            }
        }
    }
    found.sort_by_key(|nic| nic.net.device);
    found
}

fn grouped<'a>(
    nics: &'a [Nic],
    level: Apart,
    groups: Option<&str>,
    most: usize,
) -> Result<Vec<Vec<&'a Nic>>> {
    let mut placed = vec![false; nics.len()];
    let mut found: Vec<Vec<&Nic>> = Vec::new();
    for text in groups.unwrap_or_default().split(';').filter(|text| !text.is_empty()) {
        let list = Interfaces::read(text).exactly();
        let group: Vec<usize> = (0..nics.len()).filter(|&i| list.names(&nics[i].net)).collect();
        if group.len() != list.named.len() || group.len() > most {
            let what = format!("{} of the {} NICs are there", group.len(), list.named.len());
            return Err(Error::input(what)
                .at(format!("NCCL_NET_FORCE_MERGE={text}"))
                .help(format!("name at most {most} as the topology's <net name=\"…\"> does")));
        }
        group.iter().for_each(|&i| placed[i] = true);
        found.push(group.into_iter().map(|i| &nics[i]).collect());
    }
    for first in 0..nics.len() {
        if placed[first] {
            continue;
        }
        placed[first] = true;
        let mut group = vec![&nics[first]];
        for other in 0..nics.len() {
            if group.len() < most
                && !placed[other]
                && meet(&[&nics[first], &nics[other]]).0 <= level
            {
                placed[other] = true;
                group.push(&nics[other]);
            }
        }
        found.push(group);
    }
    Ok(found)
}

/// Adds the one NIC that several are used as.
fn place(description: &mut Description, group: &[&Nic], number: u32) {
    let first = group[0];
    let (_, Some(steps)) = meet(group) else { return };
    let speed = group.iter().map(|nic| nic.net.speed).fold(0, u32::saturating_add);
    let names: Vec<&str> = group.iter().map(|nic| nic.net.name.as_str()).collect();
    let net = Net { speed, name: names.join("+"), device: number, ..first.net.clone() };
    let device = device(description, first);
    let below = &mut description.cpus[first.cpu].below;
    match (parent(below, &first.way[..steps]), device) {
        (Some(parent), Some(device)) => {
            let bus = unused(parent, device.bus);
            let (gpus, below, peers) = (Vec::new(), Vec::new(), Vec::new());
            parent.push(Pci { bus, nets: Some(vec![net]), gpus, below, peers, ..device });
        }
        _ => match below.iter_mut().find_map(Device::nets_mut) {
            Some(known) => known.push(net),
            None => below.push(Device::Nic(vec![net])),
        },
    }
}

/// The device of a NIC.
fn device(description: &Description, nic: &Nic) -> Option<Pci> {
    let mut below: Vec<&Pci> =
        description.cpus[nic.cpu].below.iter().filter_map(Device::pci).collect();
    let mut found = None;
    for bus in &nic.way {
        let pci = below.into_iter().find(|pci| pci.bus == *bus)?;
        (found, below) = (Some(pci), pci.below.iter().collect());
    }
    found.cloned()
}

/// What is below the last switch of a way; none where that is the processor.
fn parent<'a>(below: &'a mut [Device], way: &[Bus]) -> Option<&'a mut Vec<Pci>> {
    let (first, rest) = way.split_first()?;
    let mut pci = below.iter_mut().find_map(|device| match device {
        Device::Pci(pci) if pci.bus == *first => Some(pci),
        _ => None,
    })?;
    for bus in rest {
        pci = pci.below.iter_mut().find(|pci| pci.bus == *bus)?;
    }
    Some(&mut pci.below)
}

/// The next address that no neighbour has.
fn unused(beside: &[Pci], Bus(bus): Bus) -> Bus {
    let taken = |bus: u64| beside.iter().any(|pci| pci.bus == Bus(bus));
    Bus((bus + 1..).find(|&bus| !taken(bus)).unwrap_or(bus))
}
