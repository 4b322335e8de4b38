//! The machines that NCCL reads from `NCCL_TOPO_FILE` and writes to `NCCL_TOPO_DUMP_FILE`.
//!
//! ```text
//! <system version="1">
//!   <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="AuthenticAMD" …>
//!     <pci busid="0000:10:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
//!       <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="…" count="4" tclass="…"/></gpu>
//!     </pci>
//!     <pci busid="0000:60:00.0" class="0x020000" …>
//!       <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x…" gdr="1"/></nic>
//!     </pci>
//!   </cpu>
//! </system>
//! ```
//!
//! NCCL reads anything that is not a number as 0, and it stops at anything missing without saying
//! where. Here both are errors with the line. Elements and attributes that the search does not use
//! are ignored, as in NCCL. What NCCL marks with `keep` on a live machine is not needed.
//!
//! Source: NVIDIA/nccl, `src/graph/topo.cc` and `src/graph/xml.cc`.

use quick_xml::events::{BytesStart, Event};

use crate::base::error::Result;
use crate::base::refused::Refused;
use crate::base::xml::{Attributes, Events};
use crate::library::nccl::topology::{
    Bus, C2c, Class, Cpu, Description, Device, Far, Gpu, Guid, LaneSpeed, Net, NvLink, Pci,
};
use crate::library::nccl::topology_merge::{is_of_rccl, refuse_rccl};
use crate::library::nccl::{Arch, Micros, Vendor};

/// The deepest nesting of elements; NCCL's own files have up to nine levels.
const DEEPEST: usize = 64;

/// The most elements; 18 hosts of four GPUs have about 1,200.
const MOST_ELEMENTS: usize = 65_536;

/// The most `NVLinks`, or chip-to-chip links, of one GPU to one place.
const MOST_LINKS: u32 = 4096;

/// Reads the text of `file`.
///
/// # Errors
/// Text that is not XML or is cut off; another file of NCCL's; an attribute that is missing or has
/// a wrong value; no processor; a GPU that is split into parts. Each names the line.
pub fn read(text: &str, file: &str) -> Result<Description> {
    let described = elements(text).and_then(|root| described(&root));
    match described {
        Ok(cpus) => Ok(Description { origin: file.to_owned(), cpus }),
        Err(refused) => {
            let help = "write the file again with NCCL_TOPO_DUMP_FILE, or correct that line";
            Err(refused.error(file).or_help(help))
        }
    }
}

pub(super) type Read<T> = std::result::Result<T, Refused>;

/// An element with its attributes and the elements inside.
#[derive(Clone)]
pub(super) struct Element {
    pub line: usize,
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub inside: Vec<Self>,
}

impl Element {
    fn new(start: &BytesStart<'_>, line: usize) -> Read<Self> {
        let attributes = Attributes::of(start, line)?.into_owned();
        Ok(Self { line, name: start.name().as_ref().to_owned(), attributes, inside: Vec::new() })
    }

    /// An element without attributes.
    pub fn bare(name: &str, line: usize) -> Self {
        Self { line, name: name.to_owned(), attributes: Vec::new(), inside: Vec::new() }
    }

    /// Sets an attribute that does not exist yet.
    pub fn set(&mut self, name: &str, value: &str) {
        self.attributes.push((name.to_owned(), value.to_owned()));
    }

    /// The first element of a name inside, added if there is none.
    pub fn inside_named(&mut self, name: &str) -> &mut Self {
        let found = self.inside.iter().position(|inside| inside.name == name);
        let index = found.unwrap_or_else(|| {
            self.inside.push(Self::bare(name, self.line));
            self.inside.len() - 1
        });
        &mut self.inside[index]
    }

    pub fn refuse(&self, what: impl Into<String>) -> Refused {
        Refused::at(self.line, what)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Read<&str> {
        self.get(name).ok_or_else(|| self.refuse(format!("<{}> has no `{name}`", self.name)))
    }

    /// A whole number, also in hexadecimal after `0x`.
    fn whole(&self, name: &str, text: &str) -> Read<i64> {
        let plain = text.trim();
        let (sign, digits) = match plain.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, plain),
        };
        let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        match number {
            Ok(number) if number >= 0 => Ok(sign * number),
            _ => Err(self.refuse(format!("{name}=\"{text}\" is not a whole number"))),
        }
    }

    fn signed(&self, name: &str) -> Read<i64> {
        self.whole(name, self.text(name)?)
    }

    pub fn maybe(&self, name: &str) -> Read<Option<i64>> {
        self.get(name).map(|text| self.whole(name, text)).transpose()
    }

    fn fits(&self, name: &str, number: i64, most: u32) -> Read<u32> {
        let small = u32::try_from(number).ok().filter(|&number| number <= most);
        small.ok_or_else(|| self.refuse(format!("{name}=\"{number}\" is not between 0 and {most}")))
    }

    fn count(&self, name: &str, most: u32) -> Read<u32> {
        self.fits(name, self.signed(name)?, most)
    }

    /// A number of at least 0; a missing or negative one, as some drivers write, is 0.
    fn count_or_none(&self, name: &str, most: u32) -> Read<u32> {
        let number = self.maybe(name)?.unwrap_or(0).max(0);
        self.fits(name, number, most)
    }

    fn flag(&self, name: &str) -> Read<bool> {
        Ok(self.maybe(name)?.unwrap_or(0) != 0)
    }

    /// 64 bits in hexadecimal, with or without `0x`.
    fn bits(&self, name: &str) -> Read<Option<u64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let plain = text.trim().trim_start_matches("0x").trim_start_matches("0X");
        match u64::from_str_radix(plain, 16) {
            Ok(bits) => Ok(Some(bits)),
            Err(_) => Err(self.refuse(format!("{name}=\"{text}\" is not a hexadecimal number"))),
        }
    }

    pub fn bus(&self, name: &str) -> Read<Bus> {
        let text = self.text(name)?;
        let digits: String = text.trim().chars().filter(|c| !matches!(c, ':' | '.')).collect();
        match u64::from_str_radix(&digits, 16) {
            Ok(bus) if digits.len() <= 13 => Ok(Bus(bus)),
            _ => Err(self
                .refuse(format!("{name}=\"{text}\" is not a PCI address"))
                .help("write one such as 0000:10:00.0")),
        }
    }

    pub fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Self> {
        self.inside.iter().filter(move |element| element.name == name)
    }
}

/// The file's elements; the root must be `system`.
pub(super) fn elements(text: &str) -> Read<Element> {
    let mut events = Events::new(text);
    let mut open: Vec<Element> = Vec::new();
    let mut seen = 0;
    let mut root = None;
    loop {
        let (here, event) = events.next()?;
        let (element, closes) = match &event {
            Event::Start(start) => (Some(Element::new(start, here)?), false),
            Event::Empty(start) => (Some(Element::new(start, here)?), true),
            Event::End(_) => (None, true),
            Event::Eof => break,
            _ => (None, false),
        };
        if let Some(element) = element {
            seen += 1;
            if seen > MOST_ELEMENTS || open.len() == DEEPEST {
                let what = if seen > MOST_ELEMENTS {
                    format!("more than {MOST_ELEMENTS} elements are not a machine")
                } else {
                    format!("more than {DEEPEST} elements are nested")
                };
                return Err(Refused::at(here, what).help("describe one node"));
            }
            if open.is_empty() {
                begins(&element)?;
            }
            open.push(element);
        }
        if closes && let Some(element) = open.pop() {
            match open.last_mut() {
                Some(outer) => outer.inside.push(element),
                None => root = root.or(Some(element)),
            }
        }
    }
    let last = text.lines().count().max(1);
    if let Some(inside) = open.last() {
        let what = format!("the file ends inside <{}>", inside.name);
        return Err(Refused::at(last, what).help("copy the whole file"));
    }
    root.ok_or_else(|| {
        Refused::at(last, "the file has no <system>")
            .help("give the file of NCCL_TOPO_DUMP_FILE, or one made for NCCL_TOPO_FILE")
    })
}

/// Whether this is the beginning of a topology.
fn begins(element: &Element) -> Read<()> {
    match (element.name.as_str(), element.get("version")) {
        ("system", None | Some("1")) => Ok(()),
        _ if is_of_rccl(element) => Err(refuse_rccl(element)),
        ("system", Some(other)) => {
            Err(element.refuse(format!("version=\"{other}\" of system is not known; known: 1")))
        }
        ("graphs", _) => Err(element.refuse("these are graphs, not a topology").help(
            "give the file of NCCL_TOPO_DUMP_FILE, not that of NCCL_GRAPH_DUMP_FILE; --graph reads \
             that one",
        )),
        (other, _) => Err(element
            .refuse(format!("the file begins with <{other}>, not <system>"))
            .help("give the file of NCCL_TOPO_DUMP_FILE, or one made for NCCL_TOPO_FILE")),
    }
}

fn described(root: &Element) -> Read<Vec<Cpu>> {
    let cpus = root.named("cpu").map(cpu).collect::<Read<Vec<_>>>()?;
    if cpus.is_empty() {
        return Err(root.refuse("the topology has no <cpu>").help(
            "put the devices into one, such as <cpu numaid=\"0\" arch=\"x86_64\" \
             vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">",
        ));
    }
    Ok(cpus)
}

fn cpu(at: &Element) -> Read<Cpu> {
    let arch = at.text("arch")?;
    let arch = Arch::named(arch).map_err(|_| {
        at.refuse(format!("arch=\"{arch}\" is not a processor that NCCL knows"))
            .help("known: x86_64, arm64, ppc64")
    })?;
    let (mut vendor, mut model) = (Vendor::Other, (0, 0));
    if arch == Arch::X86 {
        vendor = maker(at.text("vendor")?);
        if matches!(vendor, Vendor::Intel | Vendor::Zhaoxin) {
            model = (at.count("familyid", u32::MAX)?, at.count("modelid", u32::MAX)?);
        } else {
            // Only the newest releases use those of other processors, and older files may not have
            // them.
            let part = |name| at.maybe(name).map(|part| part.unwrap_or(0).clamp(0, 0xffff) as u32);
            model = (part("familyid")?, part("modelid")?);
        }
    }
    let mut below = Vec::new();
    for inside in &at.inside {
        match inside.name.as_str() {
            "pci" => below.push(Device::Pci(pci(inside)?)),
            "nic" => below.push(Device::Nic(nets(inside)?)),
            _ => {}
        }
    }
    Ok(Cpu {
        line: at.line,
        host: at.bits("host_hash")?.unwrap_or(0),
        numa: at.signed("numaid")?,
        arch,
        vendor,
        model,
        below,
    })
}

/// The vendor of a processor, by the beginning of its text in `/proc/cpuinfo`.
fn maker(vendor: &str) -> Vendor {
    let known = [
        ("GenuineIntel", Vendor::Intel),
        ("AuthenticAMD", Vendor::Amd),
        ("CentaurHauls", Vendor::Zhaoxin),
        ("  Shanghai  ", Vendor::Zhaoxin),
    ];
    let found = known.into_iter().find(|(start, _)| vendor.starts_with(start));
    found.map_or(Vendor::Other, |(_, maker)| maker)
}

fn pci(at: &Element) -> Read<Pci> {
    let class = Class::of(at.text("class")?);
    let gpus = at.named("gpu").map(gpu).collect::<Read<Vec<_>>>()?;
    let mut nics = None;
    // NCCL reads the first NIC of a device.
    if let Some(nic) = at.named("nic").next() {
        nics = Some(nets(nic)?);
    }
    let leaf = !gpus.is_empty() || nics.is_some();
    let below = if leaf { Vec::new() } else { at.named("pci").map(pci).collect::<Read<_>>()? };
    let peers = at.named("pcilink").map(|link| link.bus("target")).collect::<Read<_>>()?;
    let mut id = 0_u64;
    for part in ["vendor", "device", "subsystem_vendor", "subsystem_device"] {
        id = id << 16 | u64::from(at.count_or_none(part, 0xffff)?);
    }
    Ok(Pci {
        line: at.line,
        bus: at.bus("busid")?,
        class,
        id,
        lanes: at.count("link_width", 1024)?,
        speed: LaneSpeed::of(at.text("link_speed")?),
        gpus,
        nets: nics,
        below,
        peers,
    })
}

fn gpu(at: &Element) -> Read<Gpu> {
    if at.maybe("mlopart")?.is_some_and(|part| part >= 0) {
        return Err(at
            .refuse("GPUs split into parts (MLOPart) are not supported")
            .unsupported()
            .help("describe the GPU as a whole, without `mlopart`"));
    }
    let rank = match at.maybe("rank")? {
        Some(rank) => Some(at.fits("rank", rank, u32::MAX)?),
        None => None,
    };
    Ok(Gpu {
        line: at.line,
        device: at.count("dev", 1 << 16)?,
        cc: at.count("sm", 999)?,
        rank,
        gdr: at.signed("gdr")? != 0,
        nvlinks: at.named("nvlink").map(nvlink).collect::<Read<_>>()?,
        c2c: at.named("c2c").map(c2c).collect::<Read<_>>()?,
    })
}

fn nvlink(at: &Element) -> Read<NvLink> {
    let to = match Class::of(at.text("tclass")?) {
        Class::Gpu => Far::Gpu(at.bus("target")?),
        Class::Cpu => Far::Cpu,
        Class::NvSwitch | Class::Switch | Class::Nic => Far::Switch,
    };
    Ok(NvLink { count: at.count("count", MOST_LINKS)?, to })
}

fn c2c(at: &Element) -> Read<C2c> {
    Ok(C2c { rate: at.count("bw", 100_000_000)?, count: at.count("count", MOST_LINKS)? })
}

/// The ports of a NIC; NCCL does not use those without a number.
fn nets(at: &Element) -> Read<Vec<Net>> {
    at.named("net").filter(|net| net.get("dev").is_some()).map(net).collect()
}

fn net(at: &Element) -> Read<Net> {
    let latency = at.get("latency").map_or(Ok(0.0), |text| {
        let number = text.trim().parse::<f32>().ok();
        let number = number.filter(|number| number.is_finite() && (0.0..1e9).contains(number));
        number.ok_or_else(|| at.refuse(format!("latency=\"{text}\" is not a time in microseconds")))
    })?;
    Ok(Net {
        line: at.line,
        name: at.get("name").unwrap_or_default().to_owned(),
        device: at.count("dev", 1 << 16)?,
        speed: at.count_or_none("speed", 1_000_000_000)?,
        latency: Micros(latency),
        port: at.maybe("port")?.unwrap_or(0),
        guid: at.bits("guid")?.map(|number| Guid {
            number,
            is_prefixed: at.get("guid").is_some_and(|text| text.trim().starts_with("0x")),
        }),
        gdr: at.flag("gdr")?,
        collective: at.flag("coll")?,
        rail: at.maybe("rail")?.filter(|&rail| rail >= 0),
        plane: at.maybe("plane")?.filter(|&plane| plane >= 0),
        carries: at.maybe("net")?.unwrap_or(1) != 0,
    })
}
