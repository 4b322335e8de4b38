//! The known machines as topology files, each written from a few parameters, so that any release's
//! search can run on them in any environment.
//!
//! Source: the makers' data sheets (GPUs, NICs, switches), and for what NCCL reads of them
//! NVIDIA/nccl, `src/graph/topo.cc`.

use std::fmt::Write as _;

use super::topology::Description;
use super::topology_file;
use crate::machine::nccl::counted;

/// How the GPUs of a machine are linked.
#[derive(Debug, Clone, Copy)]
enum Links {
    /// Only by PCI.
    None,
    /// This many `NVLinks` from each GPU to the switch.
    Switch(u32),
    /// This many between two GPUs.
    Pair(u32),
    /// The hybrid cube mesh of a DGX-1V.
    Mesh,
}

/// A machine by its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Its name, such as `dgx_h100_8x400g`.
    pub name: &'static str,
    hosts: usize,
    /// `<cpu>`'s attributes.
    cpu: &'static str,
    sockets: usize,
    /// PCI switches of a socket; without any, devices are attached to the socket.
    switches: usize,
    /// GPUs of all its hosts.
    pub gpus: usize,
    nics: usize,
    cc: u32,
    links: Links,
    /// PCI speeds of GPUs and switches, and of NICs.
    speeds: [&'static str; 2],
    /// The speed of a NIC in Mbit/s.
    mbits: u32,
    /// Attributes of GPUs and NICs: `gdr` and `coll`.
    gdr: u32,
    coll: u32,
    /// MB/s and number of chip-to-chip links.
    c2c: Option<(u32, u32)>,
}

const BROADWELL: &str = r#"arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79""#;
const SKYLAKE: &str = r#"arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85""#;
const SAPPHIRE: &str = r#"arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143""#;
const EMERALD: &str = r#"arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207""#;
const MILAN: &str = r#"arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1""#;
const GRACE: &str = r#"arch="arm64""#;

/// A DGX H100; other machines are described by their differences from it.
const DGX_H100: Machine = Machine {
    name: "dgx_h100_8x400g",
    hosts: 1,
    cpu: SAPPHIRE,
    sockets: 2,
    switches: 4,
    gpus: 8,
    nics: 8,
    cc: 90,
    links: Links::Switch(18),
    speeds: ["32.0", "32.0"],
    mbits: 400_000,
    gdr: 1,
    coll: 0,
    c2c: None,
};

const DGX_A100: Machine = Machine {
    name: "dgx_a100_8x200g",
    cpu: MILAN,
    switches: 2,
    cc: 80,
    links: Links::Switch(12),
    speeds: ["16.0", "16.0"],
    mbits: 200_000,
    ..DGX_H100
};

const L40S: Machine = Machine {
    name: "l40s_pcie8_2x100g",
    switches: 0,
    cc: 89,
    nics: 2,
    links: Links::None,
    mbits: 100_000,
    ..DGX_A100
};

const P100: Machine = Machine {
    name: "pcie_p100_1x100g",
    cpu: BROADWELL,
    switches: 1,
    gpus: 4,
    nics: 1,
    cc: 60,
    links: Links::None,
    speeds: ["8.0", "8.0"],
    mbits: 100_000,
    ..DGX_H100
};

const GB200: Machine = Machine {
    name: "gb200_nvl4_4x400g",
    cpu: GRACE,
    switches: 2,
    gpus: 4,
    nics: 4,
    cc: 100,
    c2c: Some((44_712, 10)),
    ..DGX_H100
};

/// All of them.
pub const MACHINES: [Machine; 15] = [
    DGX_A100,
    Machine {
        name: "p4d_a100_4x100g",
        cpu: SKYLAKE,
        nics: 4,
        speeds: ["16.0", "8.0"],
        mbits: 100_000,
        ..DGX_A100
    },
    DGX_H100,
    Machine { name: "hgx_h100_amd_8x400g", cpu: MILAN, ..DGX_H100 },
    Machine { name: "dgx_h100_sharp", coll: 1, ..DGX_H100 },
    Machine { name: "dgx_b200_8x400g", cpu: EMERALD, cc: 100, ..DGX_H100 },
    Machine { name: "l40s_pcie4_1x100g", gpus: 4, nics: 1, ..L40S },
    L40S,
    Machine {
        name: "dgx1_v100_4x100g",
        switches: 2,
        gpus: 8,
        nics: 4,
        cc: 70,
        links: Links::Mesh,
        ..P100
    },
    Machine {
        name: "tcp25g_t4",
        cpu: SKYLAKE,
        sockets: 1,
        switches: 0,
        gpus: 1,
        cc: 75,
        mbits: 25_000,
        gdr: 0,
        ..P100
    },
    Machine { name: "nvbridge2_a6000", gpus: 2, nics: 1, cc: 86, links: Links::Pair(4), ..L40S },
    Machine {
        name: "h100nvl_bridge2",
        sockets: 1,
        switches: 1,
        gpus: 2,
        nics: 1,
        links: Links::Pair(12),
        mbits: 200_000,
        ..DGX_H100
    },
    GB200,
    Machine { name: "gb200_nvl8_2host", hosts: 2, gpus: 8, ..GB200 },
    P100,
];

/// Machines whose lines of the table are the search's here: racks that are one `NVLink` domain, of 18 hosts (of the
/// second only what is inside is as NCCL sees it: no file of its NICs was found, nor of those of B300), and boards with
/// fewer `NVLinks`.
pub const SEARCHED: [Machine; 5] = [
    Machine { name: "hgx_a800_8x200g", links: Links::Switch(8), ..DGX_A100 },
    Machine { name: "hgx_h800_8x400g", links: Links::Switch(8), ..DGX_H100 },
    Machine { name: "gb200_nvl72_72x400g", hosts: 18, gpus: 72, ..GB200 },
    Machine { name: "gb300_nvl72", hosts: 18, gpus: 72, cc: 103, ..GB200 },
    Machine { name: "hgx_b300", cpu: EMERALD, cc: 103, ..DGX_H100 },
];

/// `NVLinks` from GPU to GPU of a DGX-1V.
const MESH: [[u32; 8]; 8] = [
    [0, 1, 1, 2, 2, 0, 0, 0],
    [1, 0, 2, 1, 0, 2, 0, 0],
    [1, 2, 0, 2, 0, 0, 1, 0],
    [2, 1, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 1, 1, 2],
    [0, 2, 0, 0, 1, 0, 2, 1],
    [0, 0, 1, 0, 1, 2, 0, 2],
    [0, 0, 0, 1, 2, 1, 2, 0],
];

impl Machine {
    /// The machine of that name, or with another number of its NICs: `dgx_h100_4x400g` is a DGX H100 with every second
    /// one. A switch or socket has at most one more than another.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let known = || MACHINES.iter().chain(&SEARCHED).copied();
        known().find(|machine| machine.name == name).or_else(|| {
            let (parts, nics) = counted(name)?;
            let nics = usize::try_from(nics).ok()?;
            let whole = known().find(|machine| {
                counted(machine.name) == u32::try_from(machine.nics).ok().map(|all| (parts, all))
            })?;
            (1..=whole.gpus).contains(&nics).then_some(Self { nics, ..whole })
        })
    }

    /// The hosts of it on which a job of so many ranks runs.
    #[must_use]
    pub fn hosting(self, ranks: u32) -> Self {
        let each = self.gpus / self.hosts;
        let hosts = (ranks as usize).div_ceil(each).clamp(1, self.hosts);
        Self { hosts, gpus: hosts * each, ..self }
    }

    /// Whether its network reduces.
    #[must_use]
    pub fn reduces(&self) -> bool {
        self.coll > 0
    }

    /// The machine as a description.
    #[must_use]
    pub fn description(&self) -> Description {
        let read = topology_file::read(&self.xml(), self.name);
        read.expect("the text written above is valid")
    }

    /// The machine as a topology file.
    #[must_use]
    pub fn xml(&self) -> String {
        let mut text = String::from("<system version=\"1\">\n");
        let places = self.sockets * self.switches.max(1);
        for host in 0..self.hosts {
            for place in 0..places {
                let each = self.switches.max(1);
                if place % each == 0 {
                    let numa = place / each;
                    let hash = 0x51 + host;
                    let cpu = self.cpu;
                    let _ = writeln!(text, "<cpu host_hash=\"{hash:#x}\" numaid=\"{numa}\" {cpu}>");
                }
                if self.switches > 0 {
                    pci(&mut text, 0xc0 + place, "0x060400", self.speeds[0]);
                }
                self.devices(&mut text, host, place, places);
                if self.switches > 0 {
                    text.push_str("</pci>\n");
                }
                if place % each == each - 1 {
                    text.push_str("</cpu>\n");
                }
            }
        }
        text + "</system>\n"
    }

    /// The GPUs and NICs of one place: its share of all.
    fn devices(&self, text: &mut String, host: usize, place: usize, places: usize) {
        let (gpus, nics) = (self.gpus / self.hosts, self.nics);
        let share =
            |all: usize| (place * all).div_ceil(places)..((place + 1) * all).div_ceil(places);
        for gpu in share(gpus) {
            pci(text, 0x20 + gpu, "0x030200", self.speeds[0]);
            let (cc, gdr, rank) = (self.cc, self.gdr, host * gpus + gpu);
            let _ = writeln!(text, "<gpu dev=\"{gpu}\" sm=\"{cc}\" rank=\"{rank}\" gdr=\"{gdr}\">");
            self.nvlinks(text, gpu);
            if let Some((rate, count)) = self.c2c {
                let _ = writeln!(text, "<c2c bw=\"{rate}\" count=\"{count}\"/>");
            }
            text.push_str("</gpu></pci>\n");
        }
        for nic in share(nics) {
            pci(text, 0x80 + nic, "0x020000", self.speeds[1]);
            let (dev, guid) = (host * nics + nic, 0xfee0 + 16 * host + nic);
            let (mbits, gdr, coll) = (self.mbits, self.gdr, self.coll);
            let _ = writeln!(
                text,
                "<nic><net name=\"n{nic}\" dev=\"{dev}\" speed=\"{mbits}\" port=\"1\" \
                 guid=\"{guid:#x}\" latency=\"0\" gdr=\"{gdr}\" coll=\"{coll}\"/></nic></pci>"
            );
        }
    }

    fn nvlinks(&self, text: &mut String, gpu: usize) {
        let mut link = |target: usize, count: u32, class: &str| {
            let _ = writeln!(
                text,
                "<nvlink target=\"0000:{target:02x}:00.0\" count=\"{count}\" tclass=\"{class}\"/>"
            );
        };
        match self.links {
            Links::None => {}
            Links::Switch(count) => link(0xf8, count, "0x068000"),
            Links::Pair(count) => link(0x20 + (gpu ^ 1), count, "0x030200"),
            Links::Mesh => {
                for (other, &count) in MESH[gpu].iter().enumerate().filter(|(_, count)| **count > 0)
                {
                    link(0x20 + other, count, "0x030200");
                }
            }
        }
    }
}

fn pci(text: &mut String, bus: usize, class: &str, speed: &str) {
    let _ = writeln!(
        text,
        "<pci busid=\"0000:{bus:02x}:00.0\" class=\"{class}\" link_speed=\"{speed} GT/s PCIe\" \
         link_width=\"16\">"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nics_are_spread_and_counted_in_names() {
        let beside = |name: &str| {
            let xml = Machine::named(name)?.xml();
            let parts = xml.split("class=\"0x060400\"").skip(1);
            Some(parts.map(|part| part.matches("<net ").count()).collect::<Vec<_>>())
        };
        assert_eq!(beside("dgx_h100_8x400g").unwrap(), [1; 8]);
        assert_eq!(beside("dgx_h100_4x400g").unwrap(), [1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(beside("dgx_a100_2x200g").unwrap(), [1, 0, 1, 0]);
        for no in ["dgx_h100_0x400g", "dgx_h100_9x400g", "dgx_h100_8x200g", "gb200_nvl72_4x400g"] {
            assert_eq!(beside(no), None, "{no}");
        }
    }
}
