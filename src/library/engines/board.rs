//! The properties of the hardware on which the engines' rules depend.

use crate::library::Site;
use crate::machine::profile::{Generation, Hardware, LinkKind, NetworkKind, Vendor};

/// A node's GPUs as engines see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// NVIDIA's compute capability without the dot, such as 90 or 103; `None` for other vendors.
    pub sm: Option<u32>,
    /// AMD's GPUs of the MI300 or MI350 series.
    pub cdna: bool,
    /// Whether every pair of a node has a direct link, NVLink or xGMI, of one hop.
    pub linked: bool,
    /// Whether GPUs can write into one another's memory.
    pub peer_access: bool,
    /// Whether switches multicast.
    pub multicast: bool,
    /// GPUs of a node, as an operating system counts nodes.
    pub tray: u32,
    /// GPUs that share NVLink.
    pub domain: u32,
    /// Whether the host is an Arm CPU.
    pub aarch64: bool,
}

/// A word in a machine's name, and the compute capability that it means.
const CAPABILITIES: &[(&str, u32)] = &[
    ("B300", 103),
    ("B200", 100),
    ("GB10", 121),
    ("RTX PRO 6000", 120),
    ("5090", 120),
    ("A100", 80),
    ("A30", 80),
    ("A40", 86),
    ("3090", 86),
];

/// GeForce cards, between which NVIDIA's driver gives no peer access.
const NO_PEERS: [&str; 3] = ["RTX 3090", "RTX 4090", "RTX 5090"];

impl Board {
    /// The board of a machine; `None` if the machine does not say what its chips are.
    #[must_use]
    pub fn of(site: &Site) -> Option<Self> {
        let hardware = site.hardware.as_ref()?;
        let generation = hardware.generation?;
        let board = hardware.board.as_deref().unwrap_or_default();
        let text = format!("{} {} {board}", site.title, site.machine).to_uppercase();
        let env = &site.conditions.variables;
        let bridged = hardware.link == LinkKind::NvLink && board.ends_with("-nvlink");
        let linked = matches!(hardware.link, LinkKind::NvLink | LinkKind::Xgmi) && !bridged;
        let rack = ["GB200", "GB300", "NVL72"].iter().any(|word| text.contains(word));
        let domain = match hardware.network {
            Some(NetworkKind::NvlinkRack) => 72,
            _ => hardware.span,
        };
        let peers = !NO_PEERS.iter().any(|word| text.contains(word)) || bridged;
        match generation.vendor() {
            Vendor::Nvidia | Vendor::Amd => Some(Self {
                sm: capability(generation, hardware, &text),
                cdna: matches!(generation, Generation::Cdna3 | Generation::Cdna4),
                linked,
                peer_access: env.is_on("p2p", peers),
                multicast: hardware.nvls,
                tray: hardware.host(),
                domain,
                aarch64: rack || generation == Generation::Blackwell && text.contains("GB10"),
            }),
            _ => None,
        }
    }

    /// Whether it is NVIDIA's.
    #[must_use]
    pub fn cuda(&self) -> bool {
        self.sm.is_some()
    }

    /// Whether one multicast address spans this many ranks.
    pub(super) fn spans(&self, ranks: u32) -> bool {
        self.multicast && ranks <= self.domain
    }
}

/// The compute capability: by name, else by generation.
fn capability(generation: Generation, hardware: &Hardware, text: &str) -> Option<u32> {
    let by_generation = match generation {
        Generation::Volta => 70,
        Generation::Turing => 75,
        Generation::Ampere => 80,
        Generation::Ada => 89,
        Generation::Hopper => 90,
        Generation::Blackwell if hardware.link == LinkKind::NvLink => 100,
        Generation::Blackwell => 120,
        Generation::Rubin => 107,
        _ => return None,
    };
    let named = CAPABILITIES.iter().find(|(word, _)| text.contains(word)).map(|(_, sm)| *sm);
    let family = |sm: u32| match generation {
        Generation::Ampere => sm / 10 == 8,
        Generation::Blackwell => sm >= 100,
        _ => false,
    };
    Some(named.filter(|sm| family(*sm)).unwrap_or(by_generation))
}
