//! The objects of an hwloc XML that matter to GPUs, and its matrices of bandwidths.

use quick_xml::events::Event;

use super::{BETWEEN, Read, Refused, giga};
use crate::base::xml::{Attributes, Events};
use crate::model::formula::Rational;

/// The role of an object in a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A processor, by its number.
    Package {
        number: usize,
    },
    /// A bridge between two PCI buses.
    Bridge,
    Gpu,
    NvSwitch,
    Nic,
    /// Another PCI device; a GPU if it has a GPU's software devices.
    Device,
    Other,
}

pub(super) struct Object {
    pub line: usize,
    /// The object around it, which comes before it.
    pub parent: Option<usize>,
    pub kind: Kind,
    /// The bus address as written, and as a number.
    pub place: String,
    pub bus: u64,
    /// B/s of its PCI link, if the file gives it.
    pub speed: Option<Rational>,
    /// hwloc's own number of it.
    pub number: Option<u64>,
}

/// The file's information about its processors.
#[derive(Default)]
pub(super) struct Infos {
    pub arch: String,
    pub vendor: String,
    /// Family and model.
    pub model: (u32, u32),
    /// The link between packages, with its line.
    pub between: Option<(usize, String)>,
}

/// Bandwidths between objects in MB/s, row by row.
pub(super) struct Matrix {
    pub line: usize,
    /// Whether its links are xGMI; `NVLink` otherwise.
    pub of_xgmi: bool,
    pub objects: Vec<u64>,
    pub values: Vec<u64>,
}

#[derive(Default)]
pub(super) struct File {
    pub objects: Vec<Object>,
    pub infos: Infos,
    pub matrices: Vec<Matrix>,
}

pub(super) fn read(text: &str) -> Read<File> {
    let mut events = Events::new(text);
    let mut file = File::default();
    let mut packages = 0;
    // Open elements: the object that each is, if it is one.
    let mut open: Vec<(Inside, Option<usize>)> = Vec::new();
    loop {
        let (line, event) = events.next()?;
        match event {
            Event::Start(ref start) | Event::Empty(ref start) => {
                let outer = open.last().and_then(|(_, object)| *object);
                let mut object = outer;
                let mut inside = Inside::Other;
                match start.name().as_ref() {
                    "object" => {
                        object = Some(file.objects.len());
                        let attributes = Attributes::of(start, line)?;
                        file.object(&attributes, outer, &mut packages)?;
                    }
                    "info" => file.infos.add(&Attributes::of(start, line)?),
                    "distances2" | "distances2hetero" => {
                        inside = file.begin_matrix(&Attributes::of(start, line)?)?;
                    }
                    "indexes" | "u64values" => {
                        let is_matrix = matches!(open.last(), Some((Inside::Matrix, _)));
                        inside = match start.name().as_ref() {
                            _ if !is_matrix => Inside::Other,
                            "indexes" => Inside::Indexes,
                            _ => Inside::Values,
                        };
                    }
                    _ => {}
                }
                if matches!(event, Event::Start(_)) {
                    open.push((inside, object));
                }
            }
            Event::End(_) => drop(open.pop()),
            Event::Text(words) => {
                if let Some((inside @ (Inside::Indexes | Inside::Values), _)) = open.last() {
                    file.numbers(*inside, &words, line)?;
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if !open.is_empty() {
        let what = "the file ends before its last element does";
        return Err(Refused::at(text.lines().count().max(1), what).help("copy the whole file"));
    }
    Ok(file)
}

/// The element that texts belong to.
#[derive(Clone, Copy)]
enum Inside {
    /// A matrix that is being read.
    Matrix,
    Indexes,
    Values,
    Other,
}

impl File {
    fn object(
        &mut self,
        attributes: &Attributes<'_>,
        parent: Option<usize>,
        packages: &mut usize,
    ) -> Read<()> {
        let place = of(attributes, "pci_busid").to_owned();
        let kind = match of(attributes, "type") {
            // hwloc 1 called a package a socket.
            "Package" | "Socket" => {
                *packages += 1;
                Kind::Package { number: *packages - 1 }
            }
            // A host bridge begins a tree and is not a link itself.
            "Bridge" if !of(attributes, "bridge_type").starts_with("0-") => Kind::Bridge,
            "PCIDev" => device(of(attributes, "pci_type"), of(attributes, "subtype")),
            "OSDev" => {
                self.mark_gpu(of(attributes, "name"), parent);
                Kind::Other
            }
            _ => Kind::Other,
        };
        self.objects.push(Object {
            line: attributes.line,
            parent,
            kind,
            bus: bus(&place),
            place,
            speed: speed(attributes)?,
            number: of(attributes, "gp_index").parse().ok(),
        });
        Ok(())
    }

    /// A PCI device is a GPU if CUDA, OpenCL, NVML, ROCm SMI or Level Zero see one in it.
    fn mark_gpu(&mut self, name: &str, parent: Option<usize>) {
        let makers = ["cuda", "opencl", "nvml", "rsmi", "ze"];
        let is_gpu = makers.iter().any(|maker| {
            name.strip_prefix(maker)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let device = parent.map(|parent| &mut self.objects[parent]);
        if let Some(device) = device.filter(|device| is_gpu && device.kind == Kind::Device) {
            device.kind = Kind::Gpu;
        }
    }

    /// Begins a matrix of links between GPUs; other matrices are ignored.
    fn begin_matrix(&mut self, attributes: &Attributes<'_>) -> Read<Inside> {
        let of_xgmi = match of(attributes, "name") {
            "NVLinkBandwidth" => false,
            "XGMIBandwidth" => true,
            "XeLinkBandwidth" => {
                let what = "Xe links are not supported: hwloc counts them in bits by 2^20, and twice where a \
                            GPU has parts";
                let help =
                    "write the fabric with its links, as docs/how-to/bound-a-fabric.md shows";
                return Err(Refused::at(attributes.line, what).help(help).unsupported());
            }
            _ => return Ok(Inside::Other),
        };
        if of(attributes, "indexing") == "os" {
            let what = "this matrix uses the operating system's object numbers";
            let help = "only hwloc's own numbers are supported: indexing=\"gp\"";
            return Err(Refused::at(attributes.line, what).help(help).unsupported());
        }
        let (objects, values) = (Vec::new(), Vec::new());
        self.matrices.push(Matrix { line: attributes.line, of_xgmi, objects, values });
        Ok(Inside::Matrix)
    }

    /// Numbers of a matrix; only the number of `OSDev:802` is used.
    fn numbers(&mut self, inside: Inside, words: &str, line: usize) -> Read<()> {
        let Some(matrix) = self.matrices.last_mut() else { return Ok(()) };
        for word in words.split_whitespace() {
            let number = word.rsplit(':').next().and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| {
                Refused::at(line, format!("`{word}` is not a number of a matrix"))
            })?;
            match inside {
                Inside::Indexes => matrix.objects.push(number),
                _ => matrix.values.push(number),
            }
        }
        Ok(())
    }
}

impl Infos {
    /// The first value of each is used: the packages of a host are alike.
    fn add(&mut self, attributes: &Attributes<'_>) {
        let (name, value) = (of(attributes, "name"), of(attributes, "value"));
        let number = || value.parse().unwrap_or(0);
        match name {
            "Architecture" if self.arch.is_empty() => value.clone_into(&mut self.arch),
            "CPUVendor" if self.vendor.is_empty() => value.clone_into(&mut self.vendor),
            "CPUFamilyNumber" if self.model.0 == 0 => self.model.0 = number(),
            "CPUModelNumber" if self.model.1 == 0 => self.model.1 = number(),
            BETWEEN => self.between = Some((attributes.line, value.to_owned())),
            _ => {}
        }
    }
}

/// The kind of a PCI device by its class, maker and subtype: `0302 [10de:20b2] …`.
fn device(class: &str, subtype: &str) -> Kind {
    let maker = class.split(['[', ':']).nth(1).unwrap_or("");
    let (nvidia, amd, intel, habana) = ("10de", "1002", "8086", "1da3");
    match class.get(..4).unwrap_or("") {
        "0302" => Kind::Gpu,
        // Display adapters have these classes, too: the one for a server's console is not a GPU of
        // a rank.
        "0300" if [nvidia, amd].contains(&maker) => Kind::Gpu,
        "0380" if [nvidia, amd, intel].contains(&maker) => Kind::Gpu,
        "1200" if [amd, habana].contains(&maker) => Kind::Gpu,
        "0680" if maker == nvidia => Kind::NvSwitch,
        _ if subtype == "NVSwitch" => Kind::NvSwitch,
        "0200" | "0207" | "0208" | "0280" => Kind::Nic,
        _ => Kind::Device,
    }
}

/// A bus address as a number that orders addresses: domain, bus, device, function.
fn bus(text: &str) -> u64 {
    let part = |digits: &str| u64::from_str_radix(digits, 16).unwrap_or(0) & 0xffff_ffff;
    text.split([':', '.']).zip([32, 16, 8, 0]).fold(0, |all, (digits, shift)| {
        all | (part(digits) & if shift == 32 { 0xffff_ffff } else { 0xff }) << shift
    })
}

/// The value of an attribute; empty if it is missing.
fn of<'a>(attributes: &'a Attributes<'_>, name: &str) -> &'a str {
    attributes.get(name).unwrap_or("")
}

/// B/s of a PCI link; `None` if hwloc did not know it, which it writes as 0.
fn speed(attributes: &Attributes<'_>) -> Read<Option<Rational>> {
    let text = of(attributes, "pci_link_speed");
    if text.is_empty() {
        return Ok(None);
    }
    let speed = giga(text).ok_or_else(|| {
        let what = format!("pci_link_speed=\"{text}\" is not a number of GB/s");
        Refused::at(attributes.line, what)
    })?;
    Ok(Some(speed).filter(|speed| *speed > Rational::from_integer(0)))
}
