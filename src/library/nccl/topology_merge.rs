//! Topologies that clouds publish, completed to machines.
//!
//! Such a file is a frame: processors, switches and places of GPUs and NICs. NCCL queries the machine
//! for the rest at start-up: GPUs with their `NVLinks` from NVML, ports from the network plugin,
//! classes and speeds from sysfs. It keeps what the file says, right or wrong. Here the kind of GPU
//! and the number of NICs replace the machine.
//!
//! Source: NVIDIA/nccl, `src/graph/topo.cc` (`ncclTopoGetSystem`), `src/graph/xml.cc`.

use std::fmt::Write as _;
use std::str::FromStr;

use quick_xml::escape::escape;

use super::topology_file::{Element, Read, elements};
use super::{Arch, Capability, Processor, Vendor, Version};
use crate::base::error::{Error, Result};
use crate::base::refused::Refused;

/// GPUs of a node: `h100:8`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpus {
    kind: String,
    cc: Capability,
    count: usize,
}

/// NICs of a node, with their speed in Gb/s: `8x400`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nics {
    count: usize,
    gigabits: u32,
}

/// The GPUs, NICs and processors that replace the machine.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Its GPUs.
    pub gpus: Option<Gpus>,
    /// Its NICs; if absent, none is added.
    pub nics: Option<Nics>,
    /// Its processors, if the file does not name them.
    pub processor: Option<Processor>,
}

/// A completed file, and notes on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The file, as `NCCL_TOPO_DUMP_FILE` would have it.
    pub xml: String,
    /// What was assumed, and what NCCL does with the unchanged file.
    pub notes: Vec<String>,
}

/// GPUs whose `NVLinks` all go to switches, and how many they have; other GPUs have none.
const SWITCHED: [(&str, u32); 8] = [
    ("a100", 12),
    ("a800", 8),
    ("h100", 18),
    ("h200", 18),
    ("h800", 8),
    ("h20", 18),
    ("b200", 18),
    ("b300", 18),
];

/// From this release on ranks fuse what each of them has read; before, all read the same file.
const FUSES: (u8, u8) = (22, 3);

impl FromStr for Gpus {
    type Err = Error;

    /// Reads `h100:8`.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::input(format!("`{text}` does not describe a node's GPUs"))
                .help("write their kind and number, such as h100:8")
        };
        let (kind, count) = text.split_once(':').ok_or_else(refuse)?;
        let count =
            count.trim().parse().ok().filter(|n| (1..=256).contains(n)).ok_or_else(refuse)?;
        let kind = kind.trim().to_ascii_lowercase();
        Ok(Self { cc: kind.parse()?, kind, count })
    }
}

impl FromStr for Nics {
    type Err = Error;

    /// Reads `8x400`, eight of 400 Gb/s.
    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(['x', 'X']);
        let read = parts.and_then(|(count, speed)| {
            let count = count.trim().parse().ok().filter(|n| (1..=256).contains(n))?;
            let speed = speed.trim().trim_end_matches(['g', 'G']).parse().ok();
            Some(Self { count, gigabits: speed.filter(|g| (1..=10_000).contains(g))? })
        });
        read.ok_or_else(|| {
            Error::input(format!("`{text}` does not describe a node's NICs"))
                .help("write their number and speed in Gb/s, such as 8x400")
        })
    }
}

impl Gpus {
    fn nvlinks(&self) -> u32 {
        SWITCHED.iter().find(|(kind, _)| *kind == self.kind).map_or(0, |(_, links)| *links)
    }
}

/// Completes the text of `file` for a release: until 2.22 NCCL keeps the file's order; since then
/// the order is that in which ranks fuse what they see.
///
/// # Errors
/// Text that is not a topology; GPUs or NICs that do not fit the places of the file; processors
/// without a name.
pub fn merge(text: &str, file: &str, machine: &Machine, version: Version) -> Result<Merged> {
    let mut root = elements(text).map_err(|refused| refused.error(file))?;
    let mut notes = lint_of(&root);
    complete(&mut root, machine, &mut notes).map_err(|refused| refused.error(file))?;
    if version.tag() >= FUSES {
        root = fused(&root);
    }
    let mut xml = String::new();
    write_element(&mut xml, &root, 0);
    Ok(Merged { xml, notes })
}

/// What NCCL will do with a file at run time that a reader of the file might not expect.
///
/// # Errors
/// Text that is not a topology.
pub fn lint(text: &str, file: &str) -> Result<Vec<String>> {
    Ok(lint_of(&elements(text).map_err(|refused| refused.error(file))?))
}

/// All elements of a name, in the file's order.
fn all<'a>(root: &'a Element, name: &str) -> Vec<&'a Element> {
    let mut found = Vec::new();
    let mut rest = vec![root];
    while let Some(element) = rest.pop() {
        if element.name == name {
            found.push(element);
        }
        rest.extend(element.inside.iter().rev());
    }
    found
}

fn is_class(pci: &Element, class: &str) -> bool {
    pci.get("class").is_some_and(|code| code.starts_with(class))
}

/// Whether nothing in the file says what a device is.
fn is_bare(pci: &Element) -> bool {
    pci.get("class").is_none() && pci.inside.is_empty()
}

/// Whether a device is a place for a GPU: by its class, or because nothing says what it is.
fn is_gpu(pci: &Element) -> bool {
    is_class(pci, "0x03") || is_bare(pci) || pci.named("gpu").next().is_some()
}

fn is_nic(pci: &Element) -> bool {
    is_class(pci, "0x02") || pci.named("nic").next().is_some()
}

fn lint_of(root: &Element) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            notes.push(what.replace("{}", &count.to_string()).replace("(s)", s));
        }
    };
    let (pcis, gpus, nets) = (all(root, "pci"), all(root, "gpu"), all(root, "net"));
    let count = |is: &dyn Fn(&Element) -> bool| pcis.iter().filter(|pci| is(pci)).count();
    let cpus = all(root, "cpu").iter().filter(|cpu| cpu.get("arch").is_none()).count();
    note(cpus, "{} <cpu> without arch: NCCL asks the machine for it and for the vendor");
    note(
        count(&|pci| pci.get("class").is_none()),
        "{} <pci> without class: NCCL reads the class from sysfs",
    );
    note(
        count(&|pci| is_class(pci, "0x03") && pci.named("gpu").next().is_none()),
        "{} GPU(s) without <gpu>: each rank adds its own GPU, matched by exactly this busid",
    );
    note(
        count(&|pci| is_class(pci, "0x02") && pci.named("nic").next().is_none()),
        "{} NIC(s) without <net>: the network plugin gives the ports; NICs without one are dropped",
    );
    let links = |gpu: &&&Element| gpu.named("nvlink").next().is_none();
    note(
        gpus.iter().filter(links).count(),
        "{} <gpu> without <nvlink>: NCCL asks NVML for the links; the file alone has no NVLink",
    );
    let guids: Vec<&str> = nets.iter().filter_map(|net| net.get("guid")).collect();
    note(
        guids.iter().filter(|guid| !guid.trim().starts_with("0x")).count(),
        "{} guid(s) without 0x: NCCL before 2.28.7 reads 0 and treats all of these as one NIC",
    );
    if let [first, rest @ ..] = &guids[..]
        && !rest.is_empty()
        && rest.iter().all(|guid| guid == first)
    {
        note(guids.len(), "one guid for all {} ports: NCCL treats them as one NIC");
    }
    let ports =
        |nic: &&&Element| nic.named("net").filter(|net| net.get("port") != Some("0")).count() > 1;
    note(
        all(root, "nic").iter().filter(ports).count(),
        "{} adapter(s) with several ports: NCCL since 2.20.3 uses the ports as one NIC; \
         --env NCCL_IB_MERGE_NICS=1 does the same here",
    );
    let odd = |pci: &Element| {
        let speed = pci.get("link_speed").unwrap_or("?");
        let known = ["2.5", "5", "8", "16", "32", "5.0", "8.0", "16.0", "32.0", "64.0"];
        let number = speed.strip_suffix(" GT/s").or_else(|| speed.strip_suffix(" GT/s PCIe"));
        speed != "?" && number.is_none_or(|number| !known.contains(&number))
    };
    note(count(&odd), "{} <pci> with an empty or unrecognized link_speed: treated as generation 3");
    let invented = |pci: &Element| pci.get("busid").is_some_and(|id| id.starts_with("ffff:ff"));
    note(
        count(&invented),
        "invented switches (ffff:ff:…), {} of them: not devices of the machine, kept unchanged",
    );
    notes
}

fn complete(root: &mut Element, machine: &Machine, notes: &mut Vec<String>) -> Read<()> {
    for cpu in root.inside.iter_mut().filter(|element| element.name == "cpu") {
        processor(cpu, machine.processor)?;
    }
    if let (Some(gpus), Some(nics)) = (&machine.gpus, machine.nics) {
        let bare = all(root, "pci").into_iter().filter(|pci| is_bare(pci)).count();
        let classed = all(root, "pci").into_iter().any(|pci| is_gpu(pci) && !is_bare(pci));
        if !classed && bare == gpus.count + nics.count {
            // Bridges that do not say what is below them; those of the NICs come after those of the
            // GPUs.
            notes.push(format!(
                "of {bare} <pci> without class, the last {} are treated as NICs",
                nics.count
            ));
            nics_behind(root, &mut gpus.count.clone());
        }
    }
    let places = |is: fn(&Element) -> bool| {
        let mut buses: Vec<u64> = Vec::new();
        for pci in all(root, "pci").into_iter().filter(|pci| is(pci)) {
            buses.push(pci.bus("busid")?.0);
        }
        Ok(buses)
    };
    let mut gpus = places(is_gpu)?;
    let mut nics = places(|pci| is_nic(pci) && !is_gpu(pci))?;
    if let Some(asked) = &machine.gpus {
        let bare = places(is_bare)?.len();
        if bare == gpus.len() && (asked.count + 1..=2 * asked.count).contains(&bare) {
            gpus.truncate(asked.count);
            notes.push(format!(
                "of {bare} <pci> without class, the first {} are treated as GPUs",
                asked.count
            ));
        }
        if asked.count != gpus.len() {
            let what = format!("the file has places for {} GPUs, not {}", gpus.len(), asked.count);
            return Err(root.refuse(what).help(match gpus.len() {
                places if places == bare && places > 0 => format!(
                    "its {places} <pci> without class may be NICs: give each class=\"0x020000\", and \
                     add a <pci class=\"0x030200\"> for each GPU"
                ),
                places => format!("give --gpus {}:{places}", asked.kind),
            }));
        }
        if asked.nvlinks() == 0 && asked.count > 1 {
            notes.push(format!(
                "no <nvlink> is written for {}: if it has links to other GPUs, add them as \
                 `nvidia-smi topo -m` shows them",
                asked.kind
            ));
        }
    }
    if let Some(asked) = machine.nics
        && (nics.is_empty() || !asked.count.is_multiple_of(nics.len()))
    {
        let what = format!("the file has places for {} NICs, not {}", nics.len(), asked.count);
        return Err(root.refuse(what).help(match nics.len() {
            0 => "leave out --nics, or add a <pci class=\"0x020000\"> for each".to_owned(),
            n => format!("give {n}, or a multiple of that if NICs have several ports"),
        }));
    }
    gpus.sort_unstable();
    nics.sort_unstable();
    let filling = Filling { machine, gpus: &gpus, nics: &nics };
    for cpu in root.inside.iter_mut().filter(|element| element.name == "cpu") {
        filling.below(cpu)?;
    }
    Ok(())
}

/// Makes NICs of the devices without a class that come after this many GPUs.
fn nics_behind(element: &mut Element, gpus: &mut usize) {
    for pci in &mut element.inside {
        if pci.name != "pci" || !is_bare(pci) {
            nics_behind(pci, gpus);
        } else if *gpus > 0 {
            *gpus -= 1;
        } else {
            pci.set("class", "0x020000");
        }
    }
}

fn processor(cpu: &mut Element, told: Option<Processor>) -> Read<()> {
    if cpu.get("arch").is_some() {
        return Ok(());
    }
    let Some(Processor { arch, vendor }) = told else {
        return Err(cpu
            .refuse("the file does not name the processor")
            .help("give --cpu, such as --cpu amd"));
    };
    cpu.set("arch", arch.name());
    if arch == Arch::X86 {
        // For Intel the newest model that NCCL distinguishes, for AMD Zen 3 and 4.
        let (name, family, model) = match vendor {
            Vendor::Amd => ("AuthenticAMD", "25", "1"),
            Vendor::Zhaoxin => ("CentaurHauls", "7", "91"),
            _ => ("GenuineIntel", "6", "143"),
        };
        cpu.set("vendor", name);
        cpu.set("familyid", family);
        cpu.set("modelid", model);
    }
    Ok(())
}

/// The devices that are put into the places of a file.
struct Filling<'a> {
    machine: &'a Machine,
    /// Addresses in ascending order, in which NVML and plugins count.
    gpus: &'a [u64],
    nics: &'a [u64],
}

impl Filling<'_> {
    fn below(&self, element: &mut Element) -> Read<()> {
        for pci in element.inside.iter_mut().filter(|inside| inside.name == "pci") {
            let bus = pci.bus("busid")?.0;
            if is_gpu(pci) {
                self.gpu(pci, bus);
            } else if is_nic(pci) {
                self.nic(pci, bus);
            } else {
                self.below(pci)?;
            }
            for (name, default) in [("link_speed", ""), ("link_width", "0")] {
                if pci.get(name).is_none() {
                    pci.set(name, default);
                }
            }
        }
        Ok(())
    }

    fn gpu(&self, pci: &mut Element, bus: u64) {
        let place = self.gpus.iter().position(|&gpu| gpu == bus);
        let (Some(asked), Some(place)) = (&self.machine.gpus, place) else { return };
        let place = place.to_string();
        if pci.get("class").is_none() {
            pci.set("class", "0x030200");
        }
        let gpu = pci.inside_named("gpu");
        let sm = asked.cc.0.to_string();
        for (name, value) in [("dev", &*place), ("sm", &*sm), ("rank", &*place), ("gdr", "1")] {
            if gpu.get(name).is_none() {
                gpu.set(name, value);
            }
        }
        if gpu.named("nvlink").next().is_none() && asked.nvlinks() > 0 {
            let link = gpu.inside_named("nvlink");
            // As reported by a driver that hides its switches.
            link.set("target", "fffffff:ffff:ff");
            link.set("count", &asked.nvlinks().to_string());
            link.set("tclass", "0x068000");
        }
    }

    fn nic(&self, pci: &mut Element, bus: u64) {
        let Some(asked) = self.machine.nics else { return };
        if pci.named("nic").next().is_some() {
            return;
        }
        let ports = asked.count / self.nics.len();
        let place = self.nics.iter().position(|&nic| nic == bus).unwrap_or(0);
        let (speed, line) = ((asked.gigabits * 1000).to_string(), pci.line);
        let nic = pci.inside_named("nic");
        for port in 0..ports {
            let device = place * ports + port;
            let mut net = Element::bare("net", line);
            net.set("name", &format!("net{device}"));
            net.set("dev", &device.to_string());
            net.set("speed", &speed);
            net.set("port", &(port + 1).to_string());
            net.set("latency", "0");
            net.set("guid", &format!("0x{:x}", 0x1000 + place));
            net.set("maxconn", "131072");
            net.set("gdr", "1");
            nic.inside.push(net);
        }
    }
}

/// The order in which the ranks of a host fuse what they see: first what rank 0 keeps, which is the
/// NICs and its own GPU, then the GPU of each further rank at the end of its place.
fn fused(root: &Element) -> Element {
    let mut ranks: Vec<(i64, Vec<usize>)> = Vec::new();
    walk(root, &mut Vec::new(), &mut |element, path| {
        let gpu = element.named("gpu").next().and_then(|gpu| gpu.maybe("rank").ok().flatten());
        ranks.extend(gpu.map(|rank| (rank, path.to_vec())));
    });
    ranks.sort();
    if ranks.is_empty() {
        return root.clone();
    }
    let mut kept: Vec<Vec<usize>> = Vec::new();
    walk(root, &mut Vec::new(), &mut |element, path| {
        let first = ranks.first().is_some_and(|(_, gpu)| gpu == path);
        // A port without a place on PCI is attached to its processor.
        let port = element.name == "cpu" && element.named("nic").next().is_some();
        if first || port || (element.name == "pci" && is_nic(element) && !is_gpu(element)) {
            kept.push(path.to_vec());
        }
    });
    kept.extend(ranks.into_iter().skip(1).map(|(_, path)| path));
    let mut order: Vec<Vec<usize>> = Vec::new();
    for path in kept {
        for depth in 1..=path.len() {
            let part = path[..depth].to_vec();
            if !order.contains(&part) {
                order.push(part);
            }
        }
    }
    ordered(root, &[], &order)
}

/// Visits processors and devices with their places, outer ones before inner ones.
fn walk(element: &Element, path: &mut Vec<usize>, visit: &mut impl FnMut(&Element, &[usize])) {
    visit(element, path);
    for (index, inside) in element.inside.iter().enumerate() {
        if matches!(inside.name.as_str(), "cpu" | "pci") {
            path.push(index);
            walk(inside, path, visit);
            path.pop();
        }
    }
}

/// An element with the elements inside in the given order; devices that are not in the order are
/// left out.
fn ordered(element: &Element, path: &[usize], order: &[Vec<usize>]) -> Element {
    let is_place = |inside: &&Element| matches!(inside.name.as_str(), "cpu" | "pci");
    let mut inside: Vec<Element> =
        element.inside.iter().filter(|inside| !is_place(inside)).cloned().collect();
    let next = order.iter().filter(|next| next.len() == path.len() + 1 && next.starts_with(path));
    inside.extend(next.map(|next| ordered(&element.inside[next[path.len()]], next, order)));
    Element {
        line: element.line,
        name: element.name.clone(),
        attributes: element.attributes.clone(),
        inside,
    }
}

fn write_element(xml: &mut String, element: &Element, depth: usize) {
    let indent = "  ".repeat(depth);
    // Writing to a string cannot fail.
    let _ = write!(xml, "{indent}<{}", element.name);
    for (name, value) in &element.attributes {
        let _ = write!(xml, " {name}=\"{}\"", escape(value.as_str()));
    }
    if element.inside.is_empty() {
        xml.push_str("/>\n");
        return;
    }
    xml.push_str(">\n");
    for inside in &element.inside {
        write_element(xml, inside, depth + 1);
    }
    let _ = writeln!(xml, "{indent}</{}>", element.name);
}

/// Whether a text is an RCCL model, which is not a topology.
pub(super) fn is_of_rccl(element: &Element) -> bool {
    element.name == "system" && element.get("version") == Some("2")
}

/// The error for an RCCL model.
pub(super) fn refuse_rccl(element: &Element) -> Refused {
    element
        .refuse("version=\"2\": this is an RCCL model, not an NCCL topology")
        .unsupported()
        .help("give the file of NCCL_TOPO_DUMP_FILE")
}
