//! From a description to nodes and links, in the order in which NCCL makes them: the tree first,
//! then `NVLinks`, links chip to chip, links between switches, and last the processors.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/topo.cc`.

use super::rules::{UNLIMITED, between_cpus as rate_between, model, nvlink};
use super::system::{Cpu, Gpu, Kind, MADE_UP, Net, System, What, Wire};
use crate::base::error::{Error, Result};
use crate::library::nccl::since;
use crate::machine::nccl as description;
use crate::machine::nccl::{Bus, Description, Device, Far, Pci};

/// The part of a node's id below the host.
const LOCAL: u64 = (1 << 56) - 1;

fn id(host: u64, local: u64) -> u64 {
    (host << 56) + (local & LOCAL)
}

/// Processors, the PCI trees below them, GPUs and NICs.
pub(super) fn nodes(system: &mut System, description: &Description) -> Result<()> {
    for cpu in &description.cpus {
        let host = host(system, cpu.host);
        let what = What::Cpu(Cpu {
            arch: cpu.arch,
            vendor: cpu.vendor,
            model: model(system.version, cpu),
            between: rate_between(system.version, cpu),
        });
        let numa = match system.version.has(since::NICS_BY_HOST) {
            true => id(host, cpu.numa as u64),
            // Not cut to a node's part.
            false => (host << 56).wrapping_add(cpu.numa as u64),
        };
        let node = system.add(Kind::Cpu, numa, what, cpu.line)?;
        for device in &cpu.below {
            match device {
                Device::Pci(pci) => below(system, pci, node, host)?,
                Device::Nic(nets) => {
                    // All NICs of a host without a PCI device are one, also those of other
                    // processors: NCCL shifts the processor's number out of the id.
                    let local = id(host, 0);
                    let nic = match system.find(Kind::Nic, local) {
                        Some(nic) => nic,
                        None => {
                            let nic = system.add(Kind::Nic, local, What::Other, cpu.line)?;
                            system.join(node, nic, Wire::Pci, UNLIMITED);
                            nic
                        }
                    };
                    ports(system, nets, nic, (host, None))?;
                }
            }
        }
    }
    Ok(())
}

/// The number of the host with that hash. Until 2.20.5 all hosts are one.
fn host(system: &mut System, hash: u64) -> u64 {
    let hash = if system.version.has(since::HOSTS) { hash } else { 0 };
    let known = system.hosts.iter().position(|&other| other == hash);
    known.unwrap_or_else(|| {
        system.hosts.push(hash);
        system.hosts.len() - 1
    }) as u64
}

/// A PCI device and the devices below it. The link up is created last, which determines its
/// position.
fn below(system: &mut System, pci: &Pci, parent: usize, host: u64) -> Result<()> {
    let lanes = if pci.lanes == 0 { 16 } else { pci.lanes };
    let rate = (f64::from(lanes) * f64::from(pci.speed.0) / 80.0) as f32;
    if !pci.gpus.is_empty() {
        gpus(system, pci, parent, host, rate)?;
    } else if let Some(nets) = &pci.nets {
        // Functions of one device are one NIC, depending on the version.
        let mask = if system.version.has(since::NIC_FUNCTIONS) { 0 } else { 0xf };
        let local = id(host, pci.bus.0 & !mask);
        if let Some(nic) = system.find(Kind::Nic, local) {
            ports(system, nets, nic, (host, Some(pci)))?;
        } else {
            let nic = system.add(Kind::Nic, local, What::Other, pci.line)?;
            ports(system, nets, nic, (host, Some(pci)))?;
            system.join(nic, parent, Wire::Pci, rate);
        }
    } else if pci.class == description::Class::Switch {
        let what = What::Pci(pci.id);
        let switch = system.add(Kind::Pci, id(host, pci.bus.0), what, pci.line)?;
        for device in &pci.below {
            below(system, device, switch, host)?;
        }
        system.join(switch, parent, Wire::Pci, rate);
    }
    Ok(())
}

/// Help on how to distinguish devices.
fn apart(system: &System, usual: &str) -> String {
    match system.version {
        version if version.has(since::HOSTS) => usual.to_owned(),
        version => format!("{usual}; NCCL {version} treats all hosts of a file as one"),
    }
}

/// The GPU of a PCI device. Since 2.30.3 the device is a node, and its ranks are separate nodes.
fn gpus(system: &mut System, pci: &Pci, parent: usize, host: u64, rate: f32) -> Result<()> {
    let kind = system.device_kind();
    let local = id(host, pci.bus.0);
    if system.find(kind, local).is_some() {
        return Err(Error::input("two GPUs have the same busid")
            .at(format!("{}:{}", system.origin, pci.line))
            .help(apart(system, "give each the address that `nvidia-smi` prints")));
    }
    let ranked = pci.gpus.iter().filter_map(|gpu| Some((gpu, gpu.rank?)));
    for (index, (gpu, rank)) in ranked.enumerate() {
        let what = |dev| {
            let description::Gpu { device, cc, gdr, .. } = *gpu;
            What::Gpu(Gpu { rank, device, cc, gdr, dev })
        };
        if kind == Kind::Gpu {
            // Before 2.30 only the first GPU of a device is read.
            let node = system.add(kind, local, what(system.nodes.len()), gpu.line)?;
            system.join(node, parent, Wire::Pci, rate);
            break;
        }
        let dev = match system.find(kind, local) {
            Some(dev) => dev,
            None => {
                let dev =
                    system.add(kind, local, What::Dev { cc: gpu.cc, number: pci.id }, gpu.line)?;
                system.join(dev, parent, Wire::Pci, rate);
                dev
            }
        };
        let own = id(host, pci.bus.0 | (index as u64) << 40);
        let node = system.add(Kind::Gpu, own, what(dev), gpu.line)?;
        system.join(dev, node, Wire::Loc, UNLIMITED);
    }
    Ok(())
}

/// Vendor and device of a ConnectX-8.
const CONNECTX_8: [u64; 2] = [0x15b3_1023, 0x15b3_2100];

/// Makes up the rails and planes that are not given. Each host counts its chips by the numbers of
/// their ports.
pub(super) fn rails(system: &mut System) {
    let mut ports: Vec<usize> = system.of(Kind::Net).to_vec();
    ports.sort_by_key(|&node| match &system.nodes[node].what {
        What::Net(net) => (net.host, net.device),
        _ => (0, 0),
    });
    let mut chips: Vec<(u64, u64)> = Vec::new();
    for node in ports {
        let What::Net(net) = &mut system.nodes[node].what else { continue };
        if net.rail.is_none() {
            let chip = (net.host, net.asic);
            if !chips.contains(&chip) {
                chips.push(chip);
            }
            let of_host = chips.iter().filter(|(host, _)| *host == net.host);
            let index = of_host.take_while(|&&other| other != chip).count() as i64;
            net.rail = Some(MADE_UP | index);
        }
        net.plane.get_or_insert(MADE_UP | net.port);
    }
}

/// The ports of a NIC.
fn ports(
    system: &mut System,
    nets: &[description::Net],
    nic: usize,
    (host, pci): (u64, Option<&Pci>),
) -> Result<()> {
    for net in nets {
        if !net.carries && system.version.has(since::NET_CARRIES) {
            continue;
        }
        let own = id(host, u64::from(net.device));
        // NCCL lists devices without a PCI device below each processor, and reads each of them as a port of its own.
        let is_listed = |node: usize| {
            pci.is_none() && matches!(&system.nodes[node].what, What::Net(net) if net.nic == 0)
        };
        if system.find(Kind::Net, own).is_some_and(|node| !is_listed(node)) {
            return Err(Error::input(format!("dev=\"{}\" appears at two ports", net.device))
                .at(format!("{}:{}", system.origin, net.line))
                .help(apart(system, "number the ports of a host from 0")));
        }
        // Versions that do not read a number without 0x read 0.
        let reads = system.version.has(since::PLAIN_GUID);
        let asic = match net.guid {
            Some(guid) if reads || guid.is_prefixed => guid.number,
            Some(_) => 0,
            None if reads => own,
            None => u64::from(net.device),
        };
        let speed = if net.speed == 0 { 10_000 } else { net.speed };
        let rate = (f64::from(speed) / 8000.0) as f32;
        let rails = system.version.has(since::RAILS);
        let what = What::Net(Net {
            device: net.device,
            asic,
            nic: system.nodes[nic].id & LOCAL,
            host,
            port: net.port,
            rate,
            latency: net.latency.0,
            gdr: net.gdr,
            collective: net.collective,
            rail: net.rail.filter(|_| rails),
            plane: net.plane.filter(|_| rails),
            connectx_8: pci.is_some_and(|pci| CONNECTX_8.contains(&(pci.id >> 32))),
        });
        let node = system.add(Kind::Net, own, what, net.line)?;
        system.join(nic, node, Wire::Net, rate);
    }
    Ok(())
}

/// Every PCI device of a description with its host and the node of its processor, in order.
fn devices<'a>(
    system: &System,
    description: &'a Description,
) -> impl Iterator<Item = (&'a Pci, usize, u64)> {
    let cpus: Vec<usize> = system.of(Kind::Cpu).to_vec();
    let hosts: Vec<u64> = cpus.iter().map(|&cpu| system.nodes[cpu].id >> 56).collect();
    let places = cpus.into_iter().zip(hosts);
    description.cpus.iter().zip(places).flat_map(|(cpu, (node, host))| {
        let mut found = Vec::new();
        let mut rest: Vec<&Pci> = Vec::new();
        for device in cpu.below.iter().rev() {
            if let Device::Pci(pci) = device {
                rest.push(pci);
            }
        }
        while let Some(pci) = rest.pop() {
            found.push((pci, node, host));
            rest.extend(pci.below.iter().rev());
        }
        found
    })
}

/// Links from GPU to GPU are one-way, since the other GPU has its own; to a switch or a processor
/// they are two-way. All switches of all hosts are one node.
pub(super) fn nvlinks(system: &mut System, description: &Description) -> Result<()> {
    let found: Vec<_> = devices(system, description).collect();
    let kind = system.device_kind();
    for (pci, cpu, host) in found {
        let Some(dev) = system.find(kind, id(host, pci.bus.0)) else { continue };
        let Some(gpu) = pci.gpus.first() else { continue };
        for link in &gpu.nvlinks {
            let rate = link.count as f32 * nvlink(system.version, gpu.cc);
            match link.to {
                Far::Gpu(bus) => {
                    if let Some(other) = system.find(kind, id(host, bus.0)) {
                        system.connect(dev, other, Wire::Nvl, rate);
                    }
                }
                Far::Cpu => system.join(dev, cpu, Wire::Nvl, rate),
                Far::Switch => {
                    let switch = match system.of(Kind::Nvs).first() {
                        Some(&switch) => switch,
                        None => system.add(Kind::Nvs, 0, What::Other, gpu.line)?,
                    };
                    system.join(dev, switch, Wire::Nvl, rate);
                }
            }
        }
    }
    Ok(())
}

/// Links from a GPU to its processor. 2.18 does not know them, and until 2.25 they are `NVLinks`.
pub(super) fn c2c(system: &mut System, description: &Description) -> Result<()> {
    let wire = match system.version {
        version if !version.has(since::C2C) => return Ok(()),
        version if !version.has(since::C2C_TYPE) => Wire::Nvl,
        _ => Wire::C2c,
    };
    let found: Vec<_> = devices(system, description).collect();
    for (pci, cpu, host) in found {
        let Some(dev) = system.find(system.device_kind(), id(host, pci.bus.0)) else { continue };
        let Some(gpu) = pci.gpus.first() else { continue };
        for link in &gpu.c2c {
            let rate = f64::from(link.rate) * f64::from(link.count) / 1000.0;
            system.join(dev, cpu, wire, rate as f32);
        }
    }
    Ok(())
}

/// Links between switches; since 2.22.
pub(super) fn peers(system: &mut System, description: &Description) -> Result<()> {
    if !system.version.has(since::PCI_LINKS) {
        return Ok(());
    }
    let found: Vec<_> = devices(system, description).collect();
    for (pci, _, host) in found {
        let Some(switch) = system.find(Kind::Pci, id(host, pci.bus.0)) else { continue };
        for &Bus(bus) in &pci.peers {
            if let Some(other) = system.find(Kind::Pci, id(host, bus)) {
                system.connect(switch, other, Wire::Loc, UNLIMITED);
            }
        }
    }
    Ok(())
}

/// Links each processor of a host with each other one.
pub(super) fn between_cpus(system: &mut System) {
    let cpus = system.of(Kind::Cpu).to_vec();
    for (index, &cpu) in cpus.iter().enumerate() {
        let rate = system.cpu(index).between;
        for &other in &cpus {
            if cpu != other && system.nodes[cpu].id >> 56 == system.nodes[other].id >> 56 {
                system.connect(cpu, other, Wire::Sys, rate);
            }
        }
    }
}

/// Moves the link up after all others in every node below a processor.
pub(super) fn sort(system: &mut System) {
    let mut rest: Vec<(usize, Option<usize>)> =
        system.of(Kind::Cpu).iter().map(|&cpu| (cpu, None)).collect();
    while let Some((node, up)) = rest.pop() {
        let links = &mut system.nodes[node].links;
        if let Some(at) = links.iter().position(|link| Some(link.to) == up) {
            let link = links.remove(at);
            links.push(link);
        }
        let down = links.iter().filter(|link| link.wire == Wire::Pci && Some(link.to) != up);
        rest.extend(down.map(|link| (link.to, Some(node))));
    }
}
