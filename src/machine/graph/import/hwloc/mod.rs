//! One host as hwloc describes it: what `lstopo --of xml` writes.
//!
//! ```text
//! <object type="Package" …>                                     a switch
//!   <object type="Bridge" bridge_type="0-1" …>                  the package's own port
//!     <object type="Bridge" bridge_type="1-1" pci_link_speed="31.5" …>     a switch
//!       <object type="PCIDev" pci_type="0302 [10de:20b2] …" pci_link_speed="31.5" …/>   a rank
//! …
//! <distances2 type="OSDev" name="NVLinkBandwidth" …>            links from GPU to GPU
//! ```
//!
//! GPUs are ranks in the order of their bus addresses. A bridge with one downward branch is a port.
//! It and the device below describe the same link: the smaller of their rates is used, or the only
//! one given. Packages and bridges with several downward branches are switches. Branches without a
//! GPU are left out, NICs too: one host has no network. If a tree could belong to several packages,
//! it is attached to an extra switch, `machine`. The rate between packages is the one that NCCL
//! assumes for processors of their kind, since hwloc does not know it, or the one of the file's
//! info `CollcostBetweenPackages`. `NVLinks` come from their matrix, in MB/s each way; all
//! `NVSwitches` together are one switch, as for NCCL. The matrix of xGMI is read only if the links'
//! rates were written into it; hwloc itself does not query them.
//!
//! Source: the documentation of hwloc 2, "I/O Devices" and "Topology Attributes", and its
//! `hwloc2.dtd` (open-mpi.org/projects/hwloc).

mod file;

use std::collections::HashMap;

use file::{File, Kind, Matrix, Object};

use super::giga;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds};
use crate::base::refused::Refused;
use crate::base::xml::Events;
use crate::machine::graph::{Graph, Link, Node};
use crate::machine::nccl::{Arch, Vendor, between};
use crate::model::formula::Rational;

/// The most GPUs of a host.
const GPUS: usize = 1024;

/// The most packages with GPUs; every pair is joined.
const PACKAGES: usize = 256;

/// The info that gives the rate between packages.
const BETWEEN: &str = "CollcostBetweenPackages";

/// The value that hwloc writes for xGMI, in MB/s: `hwloc/topology-rsmi.c` queries no rate.
const UNKNOWN_XGMI: u64 = 100_000;

type Read<T> = std::result::Result<T, Refused>;

/// Whether a text is XML whose first element is `topology`.
pub(super) fn is_it(text: &str) -> bool {
    use quick_xml::events::Event;
    if !text.trim_start().starts_with('<') {
        return false;
    }
    let mut events = Events::new(text);
    loop {
        match events.next() {
            Ok((_, Event::Start(start) | Event::Empty(start))) => {
                return start.name().as_ref() == "topology";
            }
            Ok((_, Event::Eof)) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// The fabric of a file.
pub(super) fn read(text: &str, origin: &str) -> Result<Graph> {
    let help = "copy the whole file that lstopo wrote";
    let file = file::read(text).map_err(|e| e.error(origin).or_help(help))?;
    let host = Host::new(&file).map_err(|e| e.error(origin))?;
    host.graph(origin).map_err(|e| e.at(origin))
}

/// What a device is attached to: a node, a package, or the switch between packages.
#[derive(Clone, Copy)]
enum Above {
    Node(Node),
    Package(Option<usize>),
}

/// Nodes and links found so far.
struct Host<'f> {
    file: &'f File,
    /// The number of each GPU's rank, by object.
    ranks: HashMap<usize, Node>,
    switches: Vec<String>,
    /// The switches of packages, and the switch of trees outside packages.
    packages: HashMap<Option<usize>, Node>,
    links: Vec<Link>,
}

impl<'f> Host<'f> {
    fn new(file: &'f File) -> Read<Self> {
        let objects = &file.objects;
        let mut gpus: Vec<usize> =
            (0..objects.len()).filter(|&i| objects[i].kind == Kind::Gpu).collect();
        if gpus.len() > GPUS {
            let what = format!("a host of {} GPUs", gpus.len());
            return Err(Refused::at(objects[gpus[GPUS]].line, what).help(format!(
                "at most {GPUS} are supported; use an InfraGraph for several hosts"
            )));
        }
        gpus.sort_by_key(|&i| objects[i].bus);
        let ranks = gpus.into_iter().zip(0..).collect();
        let (switches, packages) = (Vec::new(), HashMap::new());
        let mut host = Self { file, ranks, switches, packages, links: Vec::new() };
        host.tree()?;
        host.between_packages()?;
        file.matrices.iter().try_for_each(|matrix| host.matrix(matrix))?;
        Ok(host)
    }

    fn graph(self, origin: &str) -> Result<Graph> {
        if self.ranks.is_empty() {
            return Err(Error::input("no GPU in this file").help(
                "write it on the host, with its PCI devices: lstopo --whole-io --of xml host.xml",
            ));
        }
        let nics = self.file.objects.iter().filter(|object| object.kind == Kind::Nic).count();
        let mut name = format!("{} GPUs of {origin}", self.ranks.len());
        if nics > 0 {
            name += &format!(", {nics} NICs left out");
        }
        let ranks = (0..self.ranks.len()).map(|i| format!("g{i}")).collect();
        Graph::joined(name, (ranks, self.switches), self.links)
    }

    fn switch(&mut self, name: String) -> Node {
        self.switches.push(name);
        (self.ranks.len() + self.switches.len() - 1) as Node
    }

    fn one_way(&mut self, from: Node, to: Node, rate: Rational) {
        self.links.push(Link { from, to, rate: Rate(rate), latency: Seconds(0.0) });
    }

    fn cable(&mut self, a: Node, b: Node, rate: Rational) {
        self.one_way(a, b, rate);
        self.one_way(b, a, rate);
    }

    /// The PCI trees, from each package down to its GPUs.
    fn tree(&mut self) -> Read<()> {
        let objects = &self.file.objects;
        let packages = packages(objects);
        // Which objects lead to a GPU, and how many downward branches each has; children come after
        // parents.
        let mut leads: Vec<bool> = objects.iter().map(|o| o.kind == Kind::Gpu).collect();
        let mut ways = vec![0_u32; objects.len()];
        for (i, object) in objects.iter().enumerate().rev() {
            if let Some(parent) = object.parent.filter(|_| leads[i]) {
                leads[parent] = true;
                ways[parent] += 1;
            }
        }
        let mut bridges = 0;
        let mut found: Vec<(Above, Option<Rational>)> = Vec::with_capacity(objects.len());
        for (i, object) in objects.iter().enumerate() {
            let (above, rate) =
                object.parent.map_or((Above::Package(packages[i]), None), |parent| found[parent]);
            let rate = rate.into_iter().chain(object.speed).min();
            found.push(match object.kind {
                _ if !leads[i] => (above, None),
                Kind::Gpu => {
                    let rank = self.ranks[&i];
                    self.hang(object, rank, above, rate)?;
                    (Above::Node(rank), None)
                }
                Kind::Bridge if ways[i] == 1 => (above, rate),
                Kind::Bridge => {
                    let switch = self.switch(format!("pci{bridges}"));
                    bridges += 1;
                    self.hang(object, switch, above, rate)?;
                    (Above::Node(switch), None)
                }
                _ => (Above::Package(packages[i]), None),
            });
        }
        Ok(())
    }

    /// The link from a device to its parent.
    fn hang(
        &mut self,
        object: &Object,
        node: Node,
        above: Above,
        rate: Option<Rational>,
    ) -> Read<()> {
        let rate = rate.ok_or_else(|| {
            Refused::at(
                object.line,
                format!("pci_link_speed does not give the rate of the PCI link of {}", object.place),
            )
            .help(
                "write the file again as root, while the GPUs work, on the machine itself and not in a \
                 virtual one; or write GB/s there yourself: 15.75 for PCIe 3.0 of 16 lanes, 31.5 for 4.0",
            )
        })?;
        let above = match above {
            Above::Node(above) => above,
            Above::Package(package) => match self.packages.get(&package) {
                Some(&there) => there,
                None => {
                    let name = match package {
                        Some(number) => format!("cpu{number}"),
                        None => "machine".to_owned(),
                    };
                    let new = self.switch(name);
                    self.packages.insert(package, new);
                    new
                }
            },
        };
        self.cable(node, above, rate);
        Ok(())
    }

    /// The links between all pairs of packages.
    fn between_packages(&mut self) -> Read<()> {
        let mut nodes: Vec<Node> = self.packages.values().copied().collect();
        nodes.sort_unstable();
        if nodes.len() < 2 {
            return Ok(());
        }
        if nodes.len() > PACKAGES {
            let what = format!("GPUs hang on {} packages", nodes.len());
            let help = format!("a host may have at most {PACKAGES}");
            return Err(Refused { line: None, ..Refused::at(1, what) }.help(help));
        }
        let rate = self.file.between()?;
        for (i, &a) in nodes.iter().enumerate() {
            nodes[..i].iter().for_each(|&b| self.cable(b, a, rate));
        }
        Ok(())
    }

    /// The links of a matrix of bandwidths.
    fn matrix(&mut self, matrix: &Matrix) -> Read<()> {
        let side = matrix.objects.len();
        if side.checked_mul(side) != Some(matrix.values.len()) {
            let what = format!("{side} objects and {} values", matrix.values.len());
            let help = "a matrix has a value for each pair of objects; copy the whole file";
            return Err(Refused::at(matrix.line, what).help(help));
        }
        let numbers: HashMap<u64, usize> =
            self.file.objects.iter().zip(0..).filter_map(|(o, i)| Some((o.number?, i))).collect();
        let mut nodes = Vec::with_capacity(side);
        for number in &matrix.objects {
            let Some(&object) = numbers.get(number) else {
                let what = format!("no object has the gp_index {number} of this matrix");
                return Err(Refused::at(matrix.line, what).help("write the file with --whole-io"));
            };
            nodes.push(self.end(object));
        }
        // The diagonal holds a very large number.
        let values = matrix.values.iter().zip(0..);
        let between = values.filter(|&(&value, place)| place / side != place % side && value > 0);
        let mut known = between.clone().map(|(&value, _)| value != UNKNOWN_XGMI);
        if matrix.of_xgmi && known.clone().count() > 0 && !known.any(|known| known) {
            let what = "hwloc writes 100000 MB/s for any two GPUs that reach each other over xGMI, \
                        whatever the rates of their links";
            let help = "write their own MB/s into XGMIBandwidth, 0 where two GPUs have no link: 64000 for \
                        MI300X, 50000 a link for MI250";
            return Err(Refused::at(matrix.line, what).help(help).unsupported());
        }
        let mega = Rational::from_integer(1_000_000);
        for (&value, place) in between {
            let (Some(a), Some(b)) = (nodes[place / side], nodes[place % side]) else { continue };
            if a != b {
                self.one_way(a, b, mega * i128::from(value));
            }
        }
        Ok(())
    }

    /// The node that an object of a matrix belongs to; `None` if no GPU needs it.
    fn end(&mut self, object: usize) -> Option<Node> {
        let objects = &self.file.objects;
        let mut upwards = std::iter::successors(Some(object), |&i| objects[i].parent);
        let known = upwards.find(|&i| {
            matches!(objects[i].kind, Kind::Gpu | Kind::NvSwitch | Kind::Package { .. })
        })?;
        match objects[known].kind {
            Kind::Gpu => self.ranks.get(&known).copied(),
            // POWER processors have NVLinks, too.
            Kind::Package { number } if known == object => {
                self.packages.get(&Some(number)).copied()
            }
            Kind::NvSwitch => {
                let there = self.switches.iter().position(|name| name == "nvs0");
                Some(match there {
                    Some(place) => (self.ranks.len() + place) as Node,
                    None => self.switch("nvs0".to_owned()),
                })
            }
            _ => None,
        }
    }
}

/// For each object the number of its package: the package that it is in, otherwise the only package
/// of its nearest neighbours in the tree, as NUMA nodes may surround packages; `None` if several
/// are possible.
fn packages(objects: &[Object]) -> Vec<Option<usize>> {
    let mut below: Vec<(u32, Option<usize>)> = vec![(0, None); objects.len()];
    for (i, object) in objects.iter().enumerate().rev() {
        if let Kind::Package { number } = object.kind {
            below[i] = (1, Some(number));
        }
        if let (Some(parent), (count @ 1.., one)) = (object.parent, below[i]) {
            below[parent] = (below[parent].0.saturating_add(count), one);
        }
    }
    let mut found: Vec<Option<usize>> = Vec::with_capacity(objects.len());
    for (object, below) in objects.iter().zip(below) {
        found.push(match (object.parent, below) {
            (_, (1, one)) => one,
            (Some(parent), (0, _)) => found[parent],
            _ => None,
        });
    }
    found
}

impl File {
    /// The rate between two packages.
    fn between(&self) -> Read<Rational> {
        if let Some((line, text)) = &self.infos.between {
            let rate = text.parse::<Rate>().map_err(|e| Refused::at(*line, e.what()));
            return Ok(rate.map_err(|e| e.help(format!("{BETWEEN} is a rate such as 20GB/s")))?.0);
        }
        let unknown = || {
            let what = "the file does not give the rate between its packages, and NCCL assumes none for \
                        such processors";
            let help = format!(
                "add it below the object Machine: <info name=\"{BETWEEN}\" value=\"20GB/s\"/>"
            );
            Refused { line: None, ..Refused::at(1, what) }.help(help)
        };
        let vendor = match self.infos.vendor.as_str() {
            "GenuineIntel" => Vendor::Intel,
            "AuthenticAMD" => Vendor::Amd,
            "CentaurHauls" | "  Shanghai  " => Vendor::Zhaoxin,
            _ => Vendor::Other,
        };
        // Older releases of hwloc do not write the architecture; these makers have only one.
        let arch = match Arch::named(&self.infos.arch) {
            Ok(arch) => arch,
            Err(_) if vendor != Vendor::Other => Arch::X86,
            Err(_) => return Err(unknown()),
        };
        let rate = between(arch, vendor, self.infos.model).ok_or_else(unknown)?;
        giga(&rate.to_string()).ok_or_else(unknown)
    }
}
