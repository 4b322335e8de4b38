//! Several NICs used as one: which NICs, and where NCCL attaches the fused NIC.
//!
//! The fused NIC has their total rate and the first one's other properties. Ports of one device stay
//! on that device. Other NICs are attached where their paths up meet: to a device like the first
//! one's below that switch, or to the processor. A fused NIC for NICs of two processors is attached to
//! neither, and NCCL loses it. Since 2.28.3 its links have the lanes of all NICs, except for ports of
//! one adapter.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/transport/net_ib.cc` (`ncclIbFindMatchingDev`
//! until 2.23.4, `ncclIbMakeVDevice`), `src/graph/topo.cc` from 2.24.3 on (`ncclTopoGetPath`,
//! `ncclTopoAutoMerge`, `ncclTopoForceMerge`, `ncclTopoGetVNicParent`, `ncclTopoWidenLinks`).

use super::seen::{Interfaces, keep};
use crate::base::error::{Error, Result};
use crate::library::nccl::{Version, since};
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
    /// On the same processor.
    Phb,
    /// On the same host.
    Sys,
}

impl Apart {
    pub(super) fn named(text: &str) -> Option<Self> {
        Some(match text {
            "LOC" => Self::Loc,
            "PORT" => Self::Port,
            "PIX" => Self::Pix,
            // No type is between these two.
            "PXB" | "PXN" => Self::Pxb,
            "PHB" => Self::Phb,
            "SYS" => Self::Sys,
            _ => return None,
        })
    }
}

/// A NIC with its path up: the processor, then switches and its own device.
#[derive(Debug, Clone)]
struct Nic {
    net: Net,
    cpu: usize,
    way: Vec<Bus>,
}

impl Nic {
    /// Sockets have no ports and are never fused.
    fn is_port(&self) -> bool {
        self.net.port > 0
    }
}

/// How far apart NICs are, and how many steps of their paths up are the same; `None` if they are on
/// two processors.
fn meet(nics: &[&Nic]) -> (Apart, Option<usize>) {
    let first = nics[0];
    if nics.iter().any(|nic| nic.cpu != first.cpu) {
        return (Apart::Sys, None);
    }
    let same = (0..).take_while(|&step| {
        first.way.get(step).is_some_and(|bus| nics.iter().all(|nic| nic.way.get(step) == Some(bus)))
    });
    let same = same.count();
    // Addresses that differ only in the function.
    let function = |nic: &Nic| nic.way.get(same).map(|bus| bus.0 >> 4);
    let ports =
        function(first).is_some() && nics.iter().all(|nic| function(nic) == function(first));
    let apart = match same {
        _ if ports || nics.iter().all(|nic| nic.way.len() == same) => Apart::Port,
        0 => Apart::Phb,
        _ if nics.iter().all(|nic| nic.way.len() == same + 1) => Apart::Pix,
        _ => Apart::Pxb,
    };
    (apart, Some(same))
}

/// Fuses each named group into one NIC, then those that are near enough.
///
/// # Errors
/// A group that names NICs that do not exist, or too many; NICs of two processors, since 2.30.7.
pub(super) fn fuse(
    description: &mut Description,
    version: Version,
    level: Apart,
    groups: Option<&str>,
) -> Result<()> {
    let most = if version.has(since::FUSES_8) { 8 } else { 4 };
    for host in hosts(description) {
        let nics = nics(description, host);
        let groups = grouped(&nics, level, groups, most)?;
        if groups.iter().all(|group| group.len() == 1) {
            continue;
        }
        // NCCL numbers a fused NIC after the existing NICs.
        let free = nics.iter().map(|nic| nic.net.device + 1).max().unwrap_or(0);
        let stay = version.has(since::FUSES_IN_PLACE);
        let mut gone: Vec<u32> = Vec::new();
        let made = groups.iter().filter(|group| group.len() > 1 || !stay);
        for (number, group) in (free..).zip(made) {
            match group[..] {
                [one] => description.each_nets_mut(|of, nets| {
                    let same = |net: &&mut Net| of == host && net.device == one.net.device;
                    nets.iter_mut().filter(same).for_each(|net| net.device = number);
                }),
                _ => {
                    gone.extend(group.iter().map(|nic| nic.net.device));
                    place(description, version, group, number)?;
                }
            }
        }
        keep(description, |of, net| of != host || !gone.contains(&net.device));
    }
    Ok(())
}

/// Fuses two ports of an adapter, in releases that support nothing else, and tells whether there
/// are such ports.
pub(super) fn merge_ports(description: &mut Description) -> bool {
    let mut merged = false;
    for host in hosts(description) {
        let nics = nics(description, host);
        let adapter = |nic: &Nic| {
            let at = nic.way.split_last().map(|(bus, way)| (way.to_vec(), bus.0 >> 4));
            (nic.cpu, at, nic.net.guid)
        };
        let mut taken = vec![false; nics.len()];
        for (index, first) in nics.iter().enumerate().filter(|(_, nic)| nic.is_port()) {
            let second = (index + 1..nics.len())
                .find(|&i| !taken[i] && nics[i].is_port() && adapter(&nics[i]) == adapter(first));
            let Some(second) = second.filter(|_| !taken[index]) else { continue };
            (taken[second], merged) = (true, true);
            let (one, gone) = (one(&[first, &nics[second]], first.net.device), &nics[second].net);
            keep(description, |of, net| of != host || net.device != gone.device);
            description.each_nets_mut(|of, nets| {
                let same = |net: &&mut Net| of == host && net.device == one.device;
                nets.iter_mut().filter(same).for_each(|net| *net = one.clone());
            });
        }
    }
    merged
}

/// The hosts of a machine.
fn hosts(description: &Description) -> Vec<u64> {
    let mut hosts: Vec<u64> = description.cpus.iter().map(|cpu| cpu.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
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
            let what = format!("{} of the {} named NICs exist", group.len(), list.named.len());
            return Err(Error::input(what)
                .at(format!("NCCL_NET_FORCE_MERGE={text}"))
                .help(format!("name at most {most}, as in the topology's <net name=\"…\">")));
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
                && nics[first].is_port()
                && nics[other].is_port()
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

/// The NIC that several are fused into.
fn one(group: &[&Nic], number: u32) -> Net {
    let speed = group.iter().map(|nic| nic.net.speed).fold(0, u32::saturating_add);
    let names: Vec<&str> = group.iter().map(|nic| nic.net.name.as_str()).collect();
    Net { speed, name: names.join("+"), device: number, ..group[0].net.clone() }
}

/// Adds the fused NIC.
fn place(
    description: &mut Description,
    version: Version,
    group: &[&Nic],
    number: u32,
) -> Result<()> {
    let first = group[0];
    let net = one(group, number);
    let (apart, steps) = meet(group);
    let Some(mut steps) = steps else {
        return match version.has(since::FUSED_LANES_ALONE) {
            true => Err(Error::input("NICs of two processors cannot be used as one")
                .at(&net.name)
                .help(format!(
                    "NCCL {version} does not start this way: name NICs of one processor"
                ))),
            false => Ok(()),
        };
    };
    let in_place = version.has(since::FUSES_IN_PLACE);
    if steps > 0 && steps == first.way.len() {
        if in_place {
            let nets = find(description, first, steps).and_then(|pci| pci.nets.as_mut());
            nets.into_iter().for_each(|nets| nets.push(net.clone()));
            return Ok(());
        }
        // Each port has its own function there.
        steps -= 1;
    }
    let lanes = (apart >= Apart::Pix && version.has(since::FUSED_LANES))
        .then(|| together(description, group, steps));
    if let Some(lanes) = lanes.filter(|_| !version.has(since::FUSED_LANES_ALONE)) {
        for nic in group {
            for step in steps.max(1)..=nic.way.len() {
                find(description, nic, step).into_iter().for_each(|pci| pci.lanes = lanes);
            }
        }
    }
    let device = find(description, first, first.way.len()).cloned();
    let own = device.filter(|_| steps > 0 || version.has(since::FUSED_LANES));
    match own {
        Some(device) => {
            let bus = unused(description, first.cpu, device.bus);
            let lanes = lanes.unwrap_or(device.lanes);
            let (gpus, below, peers) = (Vec::new(), Vec::new(), Vec::new());
            let own = Pci { bus, lanes, nets: Some(vec![net]), gpus, below, peers, ..device };
            match find(description, first, steps) {
                Some(switch) => {
                    if apart >= Apart::Pix && version.has(since::FUSED_LANES) {
                        switch.lanes = lanes;
                    }
                    switch.below.push(own);
                }
                None => description.cpus[first.cpu].below.push(Device::Pci(own)),
            }
        }
        None => {
            let below = &mut description.cpus[first.cpu].below;
            match below.iter_mut().find_map(Device::nets_mut) {
                Some(known) => known.push(net),
                None => below.push(Device::Nic(vec![net])),
            }
        }
    }
    Ok(())
}

/// The device at a step of a NIC's path up; the first step is the device on the processor.
fn find<'a>(description: &'a mut Description, nic: &Nic, step: usize) -> Option<&'a mut Pci> {
    let (first, rest) = nic.way.get(..step)?.split_first()?;
    let mut pci = description.cpus[nic.cpu].below.iter_mut().find_map(|device| match device {
        Device::Pci(pci) if pci.bus == *first => Some(pci),
        _ => None,
    })?;
    for bus in rest {
        pci = pci.below.iter_mut().find(|pci| pci.bus == *bus)?;
    }
    Some(pci)
}

/// The lanes of several NICs together, below the point where their paths meet.
fn together(description: &mut Description, group: &[&Nic], steps: usize) -> u32 {
    let numbers: Vec<u32> = group.iter().map(|nic| nic.net.device).collect();
    let below: Vec<&Pci> = match steps {
        0 => description.cpus[group[0].cpu].below.iter().filter_map(Device::pci).collect(),
        _ => find(description, group[0], steps).into_iter().flat_map(|pci| &pci.below).collect(),
    };
    below.into_iter().filter_map(|pci| lanes(pci, &numbers)).sum()
}

/// The lanes of NICs at or below a device, at most its own; `None` if there is no NIC.
fn lanes(pci: &Pci, numbers: &[u32]) -> Option<u32> {
    let own = pci.nets.iter().flatten().any(|net| numbers.contains(&net.device));
    let below: Vec<u32> = pci.below.iter().filter_map(|pci| lanes(pci, numbers)).collect();
    let sum = below.iter().sum();
    match (own || !below.is_empty(), sum, pci.lanes) {
        (false, ..) => None,
        (true, 0, lanes) => Some(lanes),
        (true, sum, 0) => Some(sum),
        (true, sum, lanes) => Some(sum.min(lanes)),
    }
}

/// The next address that no device of the processor uses.
fn unused(description: &Description, cpu: usize, Bus(bus): Bus) -> Bus {
    let mut taken = Vec::new();
    let mut rest: Vec<&Pci> = description.cpus[cpu].below.iter().filter_map(Device::pci).collect();
    while let Some(pci) = rest.pop() {
        taken.push(pci.bus);
        rest.extend(&pci.below);
    }
    Bus((bus + 1..).find(|&bus| !taken.contains(&Bus(bus))).unwrap_or(bus))
}
