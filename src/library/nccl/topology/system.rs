//! Nodes and links: what a version of NCCL makes of a [`Description`].

use std::collections::HashMap;

use super::rules::{most_links, most_nodes, plural};
use super::{build, flatten};
use crate::base::error::{Error, Result};
use crate::library::nccl::{Arch, Vendor, Version, since};
use crate::machine::nccl::Description;

/// What a node represents. Nodes of a kind are numbered in the order in which they are created;
/// these numbers are the indices in every rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::library::nccl) enum Kind {
    /// A rank's GPU.
    Gpu,
    /// A PCI switch.
    Pci,
    /// All `NVSwitches` together.
    Nvs,
    /// A NUMA node.
    Cpu,
    /// A NIC.
    Nic,
    /// A port of a NIC.
    Net,
    /// The GPU as a device, which several ranks may share; since 2.30.3.
    Dev,
}

impl Kind {
    pub(in crate::library::nccl) const ALL: [Self; 7] =
        [Self::Gpu, Self::Pci, Self::Nvs, Self::Cpu, Self::Nic, Self::Net, Self::Dev];

    /// The name in logs.
    pub(in crate::library::nccl) fn name(self) -> &'static str {
        ["GPU", "PCI", "NVS", "CPU", "NIC", "NET", "DEV"][self as usize]
    }
}

/// The medium of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::library::nccl) enum Wire {
    /// Inside one device.
    Loc,
    /// `NVLink`.
    Nvl,
    /// Chip to chip.
    C2c,
    /// PCI.
    Pci,
    /// Between processors.
    Sys,
    /// The network.
    Net,
}

impl Wire {
    /// The name in logs.
    pub(in crate::library::nccl) fn name(self) -> &'static str {
        ["LOC", "NVL", "C2C", "PCI", "SYS", "NET"][self as usize]
    }
}

/// A link in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::library::nccl) struct Link {
    pub(in crate::library::nccl) wire: Wire,
    /// The node at its end.
    pub(in crate::library::nccl) to: usize,
    /// GB/s.
    pub(in crate::library::nccl) rate: f32,
}

/// A node with its links, in the order in which paths are searched.
#[derive(Debug, Clone)]
pub(in crate::library::nccl) struct Node {
    pub(in crate::library::nccl) kind: Kind,
    /// The host in the highest byte, then a bus address, a NUMA node or a number.
    pub(in crate::library::nccl) id: u64,
    pub(in crate::library::nccl) links: Vec<Link>,
    pub(in crate::library::nccl) what: What,
}

/// The properties that only nodes of some kind have.
#[derive(Debug, Clone)]
pub(in crate::library::nccl) enum What {
    Gpu(Gpu),
    Cpu(Cpu),
    Net(Net),
    Dev {
        /// The compute capability.
        cc: u32,
        /// The device's 64-bit number.
        number: u64,
    },
    /// The device's 64-bit number.
    Pci(u64),
    Other,
}

/// A rank's GPU.
#[derive(Debug, Clone, Copy)]
pub(in crate::library::nccl) struct Gpu {
    pub(in crate::library::nccl) rank: u32,
    pub(in crate::library::nccl) device: u32,
    pub(in crate::library::nccl) cc: u32,
    pub(in crate::library::nccl) gdr: bool,
    /// The node of its device; itself before 2.30.
    pub(in crate::library::nccl) dev: usize,
}

/// A NUMA node.
#[derive(Debug, Clone, Copy)]
pub(in crate::library::nccl) struct Cpu {
    pub(in crate::library::nccl) arch: Arch,
    pub(in crate::library::nccl) vendor: Vendor,
    /// NCCL's number of the model; -1 if it has none.
    pub(in crate::library::nccl) model: i32,
    /// The rate of a link to another one.
    pub(in crate::library::nccl) between: f32,
}

/// A port of a NIC.
#[derive(Debug, Clone, Copy)]
pub(in crate::library::nccl) struct Net {
    pub(in crate::library::nccl) device: u32,
    /// The same for all ports of one chip.
    pub(in crate::library::nccl) asic: u64,
    /// Its NIC's number on the host.
    pub(in crate::library::nccl) nic: u64,
    pub(in crate::library::nccl) host: u64,
    pub(in crate::library::nccl) port: i64,
    pub(in crate::library::nccl) rate: f32,
    pub(in crate::library::nccl) latency: f32,
    pub(in crate::library::nccl) gdr: bool,
    pub(in crate::library::nccl) collective: bool,
    pub(in crate::library::nccl) rail: Option<i64>,
    pub(in crate::library::nccl) plane: Option<i64>,
    /// Whether it is a ConnectX-8.
    pub(in crate::library::nccl) connectx_8: bool,
}

/// This bit marks rails and planes that NCCL made up.
pub(in crate::library::nccl) const MADE_UP: i64 = 1 << 16;

impl Net {
    /// Whether two NICs of the same rail may be the ends of a channel: made-up rails are those of
    /// one host.
    pub(in crate::library::nccl) fn shares_rail(self, other: Self, across_hosts: bool) -> bool {
        let made_up = self.rail.is_some_and(|rail| rail & MADE_UP != 0);
        !made_up || across_hosts || self.host == other.host
    }
}

/// Nodes and links of a machine, as a version of NCCL builds them.
#[derive(Debug, Clone)]
pub(in crate::library::nccl) struct System {
    pub(in crate::library::nccl) version: Version,
    pub(in crate::library::nccl) nodes: Vec<Node>,
    of: [Vec<usize>; Kind::ALL.len()],
    ids: HashMap<(Kind, u64), usize>,
    /// Hashes of the hosts, in the order in which they appeared.
    pub(super) hosts: Vec<u64>,
    /// The origin of the description.
    pub(in crate::library::nccl) origin: String,
}

impl System {
    /// Builds the system of a machine as a version sees it.
    ///
    /// # Errors
    /// A GPU or a NIC that contradicts another; an `NVLink` without a link back; more nodes or
    /// links than the version can hold.
    pub(in crate::library::nccl) fn new(
        description: &Description,
        version: Version,
    ) -> Result<Self> {
        let mut system = Self {
            version,
            nodes: Vec::new(),
            of: Default::default(),
            ids: HashMap::new(),
            hosts: Vec::new(),
            origin: description.origin.clone(),
        };
        build::nodes(&mut system, description)?;
        if version.has(since::RAILS_MADE_UP) {
            build::rails(&mut system);
        }
        build::nvlinks(&mut system, description)?;
        build::c2c(&mut system, description)?;
        build::peers(&mut system, description)?;
        flatten::broadcom_switches(&mut system);
        build::between_cpus(&mut system);
        build::sort(&mut system);
        for node in &system.nodes {
            let most = most_links(version);
            if node.links.len() > most {
                let what = format!(
                    "{}/{:x} has {} links; NCCL {version} holds {most}",
                    node.kind.name(),
                    node.id,
                    node.links.len(),
                );
                return Err(Error::unsupported(what).at(&system.origin).help("describe fewer"));
            }
        }
        Ok(system)
    }

    /// The nodes of a kind, in their order.
    pub(in crate::library::nccl) fn of(&self, kind: Kind) -> &[usize] {
        &self.of[kind as usize]
    }

    /// How many nodes of a kind there are.
    pub(in crate::library::nccl) fn count(&self, kind: Kind) -> usize {
        self.of(kind).len()
    }

    /// Hosts.
    pub(in crate::library::nccl) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The kind whose nodes represent GPUs as devices.
    pub(in crate::library::nccl) fn device_kind(&self) -> Kind {
        if self.version.has(since::DEVICES) { Kind::Dev } else { Kind::Gpu }
    }

    /// A GPU by its number.
    pub(in crate::library::nccl) fn gpu(&self, index: usize) -> Gpu {
        match self.nodes[self.of(Kind::Gpu)[index]].what {
            What::Gpu(gpu) => gpu,
            _ => unreachable!("nodes of a kind have what the kind has"),
        }
    }

    /// A NUMA node by its number.
    pub(in crate::library::nccl) fn cpu(&self, index: usize) -> Cpu {
        match self.nodes[self.of(Kind::Cpu)[index]].what {
            What::Cpu(cpu) => cpu,
            _ => unreachable!("nodes of a kind have what the kind has"),
        }
    }

    /// A port by its number.
    pub(in crate::library::nccl) fn net(&self, index: usize) -> Net {
        match self.nodes[self.of(Kind::Net)[index]].what {
            What::Net(net) => net,
            _ => unreachable!("nodes of a kind have what the kind has"),
        }
    }

    /// The device of a GPU's node.
    pub(super) fn home(&self, node: usize) -> usize {
        match &self.nodes[node].what {
            What::Gpu(gpu) => gpu.dev,
            _ => node,
        }
    }

    /// The id of a node by its kind and number.
    pub(in crate::library::nccl) fn id(&self, kind: Kind, index: usize) -> u64 {
        self.nodes[self.of(kind)[index]].id
    }

    /// The host of a node by its kind and number.
    pub(in crate::library::nccl) fn host(&self, kind: Kind, index: usize) -> u64 {
        self.id(kind, index) >> 56
    }

    /// The node of a kind with that id.
    pub(super) fn find(&self, kind: Kind, id: u64) -> Option<usize> {
        self.ids.get(&(kind, id)).copied()
    }

    /// Adds a node; `line` is its line in the description.
    pub(super) fn add(&mut self, kind: Kind, id: u64, what: What, line: usize) -> Result<usize> {
        let most = most_nodes(self.version);
        if self.count(kind) == most {
            let what =
                format!("more than {most} {}: NCCL {} holds no more", plural(kind), self.version);
            return Err(Error::unsupported(what)
                .at(format!("{}:{line}", self.origin))
                .help("describe one node, or fewer of its GPUs"));
        }
        let node = self.nodes.len();
        self.nodes.push(Node { kind, id, links: Vec::new(), what });
        self.of[kind as usize].push(node);
        self.ids.entry((kind, id)).or_insert(node);
        Ok(node)
    }

    /// Removes a node, with the links to it.
    pub(super) fn remove(&mut self, gone: usize) {
        let kind = self.nodes[gone].kind;
        self.of[kind as usize].retain(|&node| node != gone);
        for node in &mut self.nodes {
            node.links.retain(|link| link.to != gone);
        }
        self.nodes[gone].links.clear();
    }

    /// Removes nodes.
    pub(in crate::library::nccl) fn trim(&mut self, gone: &[usize]) {
        for &node in gone {
            self.remove(node);
        }
    }

    /// Adds a link, or adds its rate to an existing one. Faster links come before slower ones,
    /// equal ones in the order in which they were added.
    pub(super) fn connect(&mut self, from: usize, to: usize, wire: Wire, rate: f32) {
        let links = &mut self.nodes[from].links;
        let same = links.iter().position(|link| link.to == to && link.wire == wire);
        let mut at = same.unwrap_or_else(|| {
            links.push(Link { wire, to, rate: 0.0 });
            links.len() - 1
        });
        links[at].rate += rate;
        while at > 0 && links[at - 1].rate < links[at].rate {
            links.swap(at - 1, at);
            at -= 1;
        }
    }

    /// Adds links in both directions.
    pub(super) fn join(&mut self, a: usize, b: usize, wire: Wire, rate: f32) {
        self.connect(a, b, wire, rate);
        self.connect(b, a, wire, rate);
    }
}
