//! What a job's environment lets NCCL see of a machine: which NICs, which of them as one, and which
//! hosts together.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/transport/net_ib.cc` (`NCCL_IB_HCA`),
//! `src/graph/topo.cc` (virtual NICs), `src/misc/utils.cc` (lists of interfaces).

use super::fuse::{Apart, fuse, merge_ports};
use crate::base::error::{Error, Result};
use crate::library::nccl::{Version, since};
use crate::machine::nccl::{Description, Device, Micros, Net, Pci};

/// What NCCL sees; the default is everything in the description.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// `NCCL_IB_HCA`: the NICs that are used, or after `^` those that are not.
    pub nics: Option<String>,
    /// `NCCL_IB_DISABLE=1`: sockets instead of the NICs.
    pub ib_disabled: bool,
    /// `NCCL_NET=Socket`: the same.
    pub net_is_socket: bool,
    /// `NCCL_IB_MERGE_NICS`: whether NICs may be fused; read since 2.20.3. If it is not set, NCCL
    /// fuses ports of an adapter, but here the description's NICs remain unchanged.
    pub merges: Option<bool>,
    /// `NCCL_NET_MERGE_LEVEL`: how far apart fused NICs may be; read since 2.24.3.
    pub merge: Option<Apart>,
    /// `NCCL_NET_FORCE_MERGE`: NICs that are fused, `a,b;c,d`; read since 2.24.3.
    pub groups: Option<String>,
    /// `NCCL_MNNVL_ENABLE=0`: hosts of an `NVLink` domain are separate nodes; read since 2.21.5.
    pub apart: bool,
}

/// A machine as NCCL sees it.
pub(in crate::library::nccl) struct View {
    pub(in crate::library::nccl) description: Description,
    /// The number of such machines in the description.
    pub(in crate::library::nccl) nodes: u32,
}

impl Seen {
    /// The accepted variables.
    pub const KNOWN: [&'static str; 7] = [
        "NCCL_IB_HCA",
        "NCCL_IB_DISABLE",
        "NCCL_NET",
        "NCCL_IB_MERGE_NICS",
        "NCCL_NET_MERGE_LEVEL",
        "NCCL_NET_FORCE_MERGE",
        "NCCL_MNNVL_ENABLE",
    ];

    /// Sets one variable if it is one of [`Self::KNOWN`]; if the value is not accepted, returns
    /// what is.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<std::result::Result<(), &str>> {
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        Some(match (name, value) {
            ("NCCL_IB_HCA", _) => {
                self.nics = text();
                Ok(())
            }
            ("NCCL_IB_DISABLE", "" | "0" | "1") => {
                self.ib_disabled = value == "1";
                Ok(())
            }
            ("NCCL_IB_DISABLE", _) => Err("0 or 1"),
            ("NCCL_NET", _) => match value.to_ascii_lowercase().as_str() {
                name @ ("socket" | "ib") => {
                    self.net_is_socket = name == "socket";
                    Ok(())
                }
                _ => Err("IB or Socket; what a plugin reports is not known"),
            },
            ("NCCL_IB_MERGE_NICS", "" | "0" | "1") => {
                self.merges = (!value.is_empty()).then_some(value == "1");
                Ok(())
            }
            ("NCCL_IB_MERGE_NICS", _) => Err("0 or 1"),
            ("NCCL_NET_MERGE_LEVEL", _) => match Apart::named(value) {
                Some(level) => {
                    self.merge = Some(level);
                    Ok(())
                }
                None => Err("LOC, PORT, PIX, PXB, PHB or SYS"),
            },
            ("NCCL_NET_FORCE_MERGE", _) => {
                self.groups = text();
                Ok(())
            }
            ("NCCL_MNNVL_ENABLE", "" | "0" | "1" | "2") => {
                self.apart = value == "0";
                Ok(())
            }
            ("NCCL_MNNVL_ENABLE", _) => Err("0, 1 or 2"),
            _ => return None,
        })
    }

    /// Whether sockets stand in for the NICs.
    pub(super) fn takes_sockets(&self) -> bool {
        self.ib_disabled || self.net_is_socket
    }

    /// The machine as a version sees it.
    ///
    /// # Errors
    /// Hosts with unequal numbers of ranks; named NICs that do not exist; no NIC left.
    pub(in crate::library::nccl) fn view(
        &self,
        description: &Description,
        version: Version,
    ) -> Result<View> {
        let mut view = View { description: description.clone(), nodes: 1 };
        if self.apart && version.has(since::HOSTS) {
            view = first_host(view.description)?;
        }
        let machine = &mut view.description;
        if let Some(list) = &self.nics {
            let list = Interfaces::read(list);
            keep(machine, |_, net| list.names(net));
            if numbers(machine).is_empty() && !numbers(description).is_empty() {
                return Err(Error::input("no NIC of the machine is left")
                    .at(format!("NCCL_IB_HCA={}", self.nics.as_deref().unwrap_or_default()))
                    .help("name NICs as in the topology's <net name=\"…\">"));
            }
            number(machine, description);
        }
        if self.takes_sockets() && !numbers(machine).is_empty() {
            // It is attached to the first processor, which exists in any case.
            let mut cpus = machine.cpus.iter_mut();
            if let Some(cpu) = cpus.next() {
                cpu.below.push(Device::Nic(vec![socket(cpu.line)]));
            }
            keep(machine, |_, net| net.name == SOCKET);
        }
        let says = self.merges.is_some() || self.merge.is_some() || self.groups.is_some();
        if self.takes_sockets() || !says {
            return Ok(view);
        }
        if version.has(since::NIC_FUSION) {
            let mut fused = machine.clone();
            fuse(&mut fused, version, self.merge.unwrap_or_default(), self.groups.as_deref())?;
            let asks = self.groups.is_some() || !version.has(since::FUSES_IN_PLACE);
            if self.merges != Some(false) {
                *machine = fused;
            } else if asks && fused != *machine {
                return Err(Error::input(format!(
                    "NCCL {version} does not start with this setting"
                ))
                .at("NCCL_IB_MERGE_NICS=0")
                .help("set NCCL_NET_MERGE_LEVEL=LOC and leave out NCCL_NET_FORCE_MERGE"));
            }
        } else if self.merges == Some(true)
            && version.has(since::PORTS_MERGED)
            && merge_ports(machine)
        {
            number(machine, description);
        }
        Ok(view)
    }
}

/// The part of a machine that is the first rank's host, if all hosts have equally many ranks.
fn first_host(mut description: Description) -> Result<View> {
    let mut ranks: Vec<(u64, u32, u32)> = Vec::new();
    for cpu in &description.cpus {
        let (mut count, mut first) = (0, u32::MAX);
        for rank in cpu.ranks() {
            (count, first) = (count + 1, first.min(rank));
        }
        match ranks.iter_mut().find(|(host, ..)| *host == cpu.host) {
            Some(known) => (known.1, known.2) = (known.1 + count, known.2.min(first)),
            None => ranks.push((cpu.host, count, first)),
        }
    }
    ranks.retain(|&(_, count, _)| count > 0);
    let Some(&(host, each, _)) = ranks.iter().min_by_key(|&&(_, _, first)| first) else {
        return Ok(View { description, nodes: 1 });
    };
    if ranks.iter().any(|&(_, count, _)| count != each) {
        return Err(Error::unsupported("the hosts have different numbers of ranks")
            .at("NCCL_MNNVL_ENABLE=0")
            .help("use the same number of GPUs on each host"));
    }
    description.cpus.retain(|cpu| cpu.host == host);
    Ok(View { description, nodes: ranks.len() as u32 })
}

/// The name of a socket's device.
const SOCKET: &str = "a socket of the first interface";

/// A socket, which is attached to no PCI device: 10 Gbit/s, without access to GPUs' memory.
fn socket(line: usize) -> Net {
    Net {
        line,
        name: SOCKET.to_owned(),
        device: 0,
        speed: 10_000,
        latency: Micros(0.0),
        port: 0,
        guid: None,
        gdr: false,
        collective: false,
        rail: None,
        plane: None,
        carries: true,
    }
}

/// A list of interfaces: names or prefixes of names, each with a port or for all ports.
pub(crate) struct Interfaces<'a> {
    excludes: bool,
    exact: bool,
    pub(super) named: Vec<(&'a str, Option<i64>)>,
}

impl<'a> Interfaces<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let (excludes, text) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (exact, text) = match text.strip_prefix('=') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let entry = |entry: &'a str| match entry.split_once(':') {
            // The text after a second colon is ignored, and a port that is not a number is 0.
            Some((name, port)) => {
                let port = port.split(':').next().unwrap_or(port);
                (name, Some(port.parse().unwrap_or(0)).filter(|&port| port != -1))
            }
            None => (entry, None),
        };
        let named = text.split(',').map(entry).filter(|(name, _)| !name.is_empty()).collect();
        Self { excludes, exact, named }
    }

    /// How many devices it names individually; `None` if it excludes some, or if a prefix names
    /// several, such as `mlx5` or `mlx5_bond`.
    pub(crate) fn devices(&self) -> Option<u32> {
        let is_one = |&(name, _): &(&str, Option<i64>)| {
            self.exact || name.rsplit_once('_').is_some_and(|(_, n)| n.parse::<u32>().is_ok())
        };
        let each = !self.excludes && !self.named.is_empty() && self.named.iter().all(is_one);
        each.then_some(self.named.len() as u32)
    }

    /// The same list, compared as whole names.
    pub(super) fn exactly(self) -> Self {
        Self { exact: true, ..self }
    }

    pub(super) fn names(&self, net: &Net) -> bool {
        let is = |&(name, port): &(&str, Option<i64>)| {
            let same = if self.exact { net.name == name } else { net.name.starts_with(name) };
            same && port.is_none_or(|port| port == net.port)
        };
        (self.named.is_empty() || self.named.iter().any(is)) != self.excludes
    }
}

/// Removes NICs, by host and port, and whatever becomes empty without them.
pub(super) fn keep(description: &mut Description, kept: impl Fn(u64, &Net) -> bool) {
    description.cpus.retain_mut(|cpu| {
        let (host, was_empty) = (cpu.host, cpu.below.is_empty());
        let kept = |net: &Net| kept(host, net);
        cpu.below.retain_mut(|device| match device {
            Device::Pci(pci) => keep_below(pci, &kept),
            Device::Nic(nets) => {
                nets.retain(&kept);
                !nets.is_empty()
            }
        });
        was_empty || !cpu.below.is_empty()
    });
}

/// Whether anything of a PCI device is kept; a device that was empty before stays.
fn keep_below(pci: &mut Pci, kept: &impl Fn(&Net) -> bool) -> bool {
    let had = pci.nets.is_some() || !pci.below.is_empty();
    if let Some(nets) = &mut pci.nets {
        nets.retain(kept);
        if nets.is_empty() {
            pci.nets = None;
        }
    }
    pci.below.retain_mut(|below| keep_below(below, kept));
    !had || pci.nets.is_some() || !pci.below.is_empty() || !pci.gpus.is_empty()
}

/// The hosts and numbers of NICs, in order.
fn numbers(description: &Description) -> Vec<(u64, u32)> {
    let mut numbers = Vec::new();
    description.each_nets(|host, nets| numbers.extend(nets.iter().map(|net| (host, net.device))));
    numbers.sort_unstable();
    numbers
}

/// Renumbers the NICs of each host, in the order of their numbers, from the lowest number in the
/// file.
fn number(description: &mut Description, file: &Description) {
    let (before, now) = (numbers(file), numbers(description));
    description.each_nets_mut(|host, nets| {
        let least = before.iter().find(|&&(other, _)| other == host).map_or(0, |&(_, least)| least);
        let first = now.partition_point(|&(other, _)| other < host);
        for net in nets {
            let at = now.partition_point(|&number| number < (host, net.device));
            net.device = least + (at - first) as u32;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_where_each_is_named() {
        for (value, count) in [
            ("mlx5_0", Some(1)),
            ("=mlx5_0:1,mlx5_1:1", Some(2)),
            ("mlx5_0,,mlx5_1,", Some(2)),
            ("mlx5", None),
            ("^mlx5_0", None),
            ("mlx5_bond", None),
            ("mlx5_bond_0", Some(1)),
            ("=rdma0", Some(1)),
            ("", None),
        ] {
            assert_eq!(Interfaces::read(value).devices(), count, "{value}");
        }
    }
}
