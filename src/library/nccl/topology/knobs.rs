//! The variables of a job's environment on which paths, searches and start-up depend.

use super::seen::Seen;
use crate::base::error::{Error, Result};
use crate::library::nccl::settings::whole;
use crate::library::nccl::{PathType, Starting};

/// The settings of a job's environment for paths, graphs and channels; the default is an empty
/// environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// Which NICs and hosts NCCL sees at all.
    pub seen: Seen,
    /// The opposite of `NCCL_SHM_DISABLE`: whether GPUs that do not reach each other's memory
    /// communicate through the processor's memory; otherwise they are on different nodes.
    pub shared_memory: bool,
    /// The opposite of `NCCL_NET_DISABLE_INTRA`: whether GPUs to which the network is faster than to each other are
    /// on different nodes.
    pub network_inside: bool,
    /// `NCCL_CROSS_NIC`: 0 never, 1 always, 2 if it helps.
    pub cross_nic: u8,
    /// `NCCL_P2P_DISABLE`: whether no GPU reaches another one's memory, whatever the level.
    pub p2p_disabled: bool,
    /// `NCCL_P2P_LEVEL`: how far apart GPUs may be that reach each other's memory.
    pub p2p: Option<PathType>,
    /// `NCCL_NET_GDR_LEVEL`: how far a NIC may be from a GPU whose memory it reaches.
    pub gdr: Option<PathType>,
    /// `NCCL_NET_GDR_READ`: whether a NIC may read a GPU's memory.
    pub gdr_read: Option<bool>,
    /// `NCCL_NET_GDR_C2C`: whether it may do so through the processor, if that has a chip-to-chip
    /// link; if not set, the version decides.
    pub gdr_c2c: Option<bool>,
    /// The opposite of `NCCL_PXN_DISABLE`: whether a GPU sends through the NIC of another GPU.
    pub pxn: bool,
    /// `NCCL_PXN_C2C`: whether it does so if that NIC is attached to the processor; if not set, the
    /// version decides.
    pub pxn_c2c: Option<bool>,
    /// The opposite of `NCCL_NVB_DISABLE`: whether paths lead through another GPU.
    pub nvb: bool,
    /// `NCCL_NETDEVS_POLICY`: how many NICs a GPU uses; read since 2.28.3.
    pub nics: Nics,
    /// `NCCL_MNNVL_SCATTER_NETS_ENABLE`: whether NICs of several hosts are tried channel by channel.
    pub scatters_nics: bool,
    /// `NCCL_MNNVL_RAIL_PER_HOST`: whether NICs of several hosts with the same address, or since
    /// 2.32.3 with the same position, are one rail; if not set, the version decides.
    pub rail_per_host: Option<bool>,
    /// The settings for start-up.
    pub start: Starting,
}

/// How many NICs a GPU uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nics {
    /// The nearest ones, shared with the other GPUs that they are nearest to.
    Auto,
    /// All of the nearest ones.
    All,
    /// At most this many of the nearest ones.
    Max(u32),
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            seen: Seen::default(),
            shared_memory: true,
            network_inside: true,
            cross_nic: 2,
            p2p_disabled: false,
            p2p: None,
            gdr: None,
            gdr_read: None,
            gdr_c2c: None,
            pxn: true,
            pxn_c2c: None,
            nvb: true,
            nics: Nics::Auto,
            scatters_nics: true,
            rail_per_host: None,
            start: Starting::default(),
        }
    }
}

/// The variables of paths and searches.
const SEARCHES: [&str; 14] = [
    "NCCL_SHM_DISABLE",
    "NCCL_NET_DISABLE_INTRA",
    "NCCL_CROSS_NIC",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C",
    "NCCL_PXN_DISABLE",
    "NCCL_PXN_C2C",
    "NCCL_NVB_DISABLE",
    "NCCL_NETDEVS_POLICY",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE",
    "NCCL_MNNVL_RAIL_PER_HOST",
];

impl Knobs {
    /// The accepted variables: those of `Seen`, of paths and searches, then those of start-up.
    pub fn known() -> impl Iterator<Item = &'static str> {
        Seen::KNOWN.into_iter().chain(SEARCHES).chain(Starting::KNOWN)
    }

    /// Sets one variable if it is one of [`Self::known`], and tells whether it is. A value replaces
    /// the one before, and an empty one leaves NCCL's default.
    ///
    /// # Errors
    /// A value that the variable does not accept.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let value = value.trim();
        let refuse = |takes: &str| {
            Error::input(format!("`{value}` is not a value of {name}"))
                .at(format!("{name}={value}"))
                .help(format!("write {takes}"))
        };
        let flag = || match value {
            "" => Ok(None),
            "0" => Ok(Some(false)),
            "1" => Ok(Some(true)),
            _ => Err(refuse("0 or 1")),
        };
        let is_set = || flag().map(|set| set == Some(true));
        let far = || match value {
            "" => Ok(None),
            _ => level(value).map(Some).ok_or_else(|| refuse(LEVELS)),
        };
        if let Some(set) = self.seen.set(name, value) {
            return set.map(|()| true).map_err(refuse);
        }
        match name {
            "NCCL_SHM_DISABLE" => self.shared_memory = !is_set()?,
            "NCCL_NET_DISABLE_INTRA" => self.network_inside = !is_set()?,
            "NCCL_CROSS_NIC" if value.is_empty() => self.cross_nic = Self::default().cross_nic,
            "NCCL_CROSS_NIC" => {
                let number = value.parse().ok().filter(|&number: &u8| number <= 2);
                self.cross_nic = number.ok_or_else(|| refuse("0, 1 or 2"))?;
            }
            "NCCL_P2P_DISABLE" => self.p2p_disabled = is_set()?,
            "NCCL_P2P_LEVEL" => self.p2p = far()?,
            "NCCL_NET_GDR_LEVEL" => self.gdr = far()?,
            "NCCL_NET_GDR_READ" => self.gdr_read = flag()?,
            "NCCL_NET_GDR_C2C" => self.gdr_c2c = flag()?,
            "NCCL_PXN_DISABLE" => self.pxn = !is_set()?,
            "NCCL_PXN_C2C" => self.pxn_c2c = flag()?,
            "NCCL_NVB_DISABLE" => self.nvb = !is_set()?,
            "NCCL_NETDEVS_POLICY" => {
                self.nics =
                    nics(value).ok_or_else(|| refuse("AUTO, ALL or MAX:n, such as MAX:2"))?;
            }
            "NCCL_MNNVL_SCATTER_NETS_ENABLE" => self.scatters_nics = flag()? != Some(false),
            "NCCL_MNNVL_RAIL_PER_HOST" => self.rail_per_host = flag()?,
            _ if !Starting::KNOWN.contains(&name) => return Ok(false),
            _ => {
                let number = match value {
                    "" => None,
                    _ => Some(whole(value).ok_or_else(|| refuse("a whole number"))?),
                };
                self.start.set(name, value, number);
            }
        }
        Ok(true)
    }

    /// How far apart GPUs may be that reach each other's memory, if the environment says so.
    pub(super) fn p2p_level(&self) -> Option<PathType> {
        if self.p2p_disabled { Some(PathType::Loc) } else { self.p2p }
    }
}

/// The accepted values of a level.
const LEVELS: &str = "LOC, NVL, PIX, PXB, PHB, SYS, or a number from 0 to 5";

/// A path type by its name, or by its number in NCCL before 2.4.
fn level(text: &str) -> Option<PathType> {
    const NUMBERED: [PathType; 6] =
        [PathType::Loc, PathType::Pix, PathType::Pxb, PathType::Phb, PathType::Sys, PathType::Sys];
    if let Ok(number) = text.parse::<usize>() {
        return Some(NUMBERED[number.min(NUMBERED.len() - 1)]);
    }
    PathType::named(text).ok().filter(|level| !matches!(level, PathType::Net | PathType::Dis))
}

fn nics(text: &str) -> Option<Nics> {
    let text = text.to_ascii_uppercase();
    match text.as_str() {
        "AUTO" | "" => Some(Nics::Auto),
        "ALL" => Some(Nics::All),
        _ => {
            let most = text.strip_prefix("MAX:")?.parse().ok();
            most.filter(|&most| most > 0).map(Nics::Max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_say_what_they_take() {
        let mut knobs = Knobs::default();
        assert!(knobs.set("NCCL_P2P_LEVEL", "3").unwrap());
        assert_eq!(knobs.p2p_level(), Some(PathType::Phb));
        knobs.set("NCCL_P2P_DISABLE", "1").unwrap();
        knobs.set("NCCL_P2P_LEVEL", "SYS").unwrap();
        assert_eq!(knobs.p2p_level(), Some(PathType::Loc));
        knobs.set("NCCL_NETDEVS_POLICY", "max:3").unwrap();
        assert_eq!(knobs.nics, Nics::Max(3));
        assert!(!knobs.set("NCCL_ALGO", "Ring").unwrap());
        for (name, value) in
            [("NCCL_CROSS_NIC", "3"), ("NCCL_NET_GDR_LEVEL", "NET"), ("NCCL_PXN_C2C", "yes")]
        {
            assert!(knobs.set(name, value).unwrap_err().is_input(), "{name}={value}");
        }
        // An empty one is the default; for these NCCL has no such value and starts no network.
        let refused = ["NCCL_NET", "NCCL_NET_MERGE_LEVEL"];
        for name in Knobs::known().filter(|name| !refused.contains(name)) {
            let mut knobs = Knobs::default();
            assert!(knobs.set(name, "").unwrap(), "{name}");
            assert_eq!(knobs, Knobs::default(), "{name}");
        }
        let named = ["NCCL_IB_HCA", "NCCL_NET_FORCE_MERGE"];
        for name in Knobs::known().filter(|name| !named.contains(name)) {
            assert!(knobs.set(name, "no").is_err(), "{name}");
        }
    }

    /// A process has one value per name: the last one that was set.
    #[test]
    fn a_value_replaces_the_one_before() {
        for (name, first, last) in [
            ("NCCL_IB_DISABLE", "1", "0"),
            ("NCCL_NET", "Socket", "IB"),
            ("NCCL_P2P_DISABLE", "1", "0"),
            ("NCCL_P2P_LEVEL", "LOC", "SYS"),
            ("NCCL_SHM_DISABLE", "1", "0"),
            ("NCCL_MNNVL_ENABLE", "0", "2"),
        ] {
            let (mut twice, mut once, mut before) =
                (Knobs::default(), Knobs::default(), Knobs::default());
            twice.set(name, first).unwrap();
            twice.set(name, last).unwrap();
            once.set(name, last).unwrap();
            before.set(name, first).unwrap();
            assert_eq!(twice, once, "{name}");
            assert_ne!(before, once, "{name}");
        }
        // Two variables for one thing keep a value each.
        let mut knobs = Knobs::default();
        for (name, value) in
            [("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "IB"), ("NCCL_P2P_DISABLE", "1")]
        {
            knobs.set(name, value).unwrap();
        }
        knobs.set("NCCL_P2P_LEVEL", "SYS").unwrap();
        assert!(knobs.seen.takes_sockets());
        assert_eq!(knobs.p2p_level(), Some(PathType::Loc));
        knobs.set("NCCL_P2P_DISABLE", "0").unwrap();
        assert_eq!(knobs.p2p_level(), Some(PathType::Sys));
    }
}
