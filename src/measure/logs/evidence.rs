//! What a log says, besides its times, about how a run was done.
//!
//! ```text
//! n1:12:34 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC
//! n1:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
//! mpirun -np 16 -x NCCL_IB_HCA=mlx5_0 all_reduce_perf …
//!     ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ …            lspci -vvv
//!     HW Thermal Slowdown : Active                                              nvidia-smi -q
//! ```
//!
//! Lines of NCCL and RCCL, of launchers, and of tools that describe a host are recognised by their words;
//! all others are ignored. No conclusions are drawn here: [`crate::measure::verdict`] does that.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::num::NonZeroU32;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::line::Lines;
use crate::base::error::Result;

/// Something that a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// A channel goes over sockets.
    Socket,
    /// A channel goes over another network of the library.
    Network,
    /// A channel's NIC reads and writes the GPU's memory.
    Direct,
    /// NICs cannot access the GPUs' memory.
    DirectOff,
    /// A channel goes from GPU to GPU.
    Peer,
    /// A channel goes through host memory.
    Shared,
    /// The driver does not let GPUs access each other.
    PeerOff,
    /// Switches reduce (NVLS).
    Sums,
    /// Switches do not reduce.
    SumsOff,
    /// No device for RDMA, or no plugin for it, was found.
    NoDevice,
    /// A bridge redirects peer-to-peer traffic through the root complex.
    Redirected,
    /// A PCIe link runs below what both ends support.
    Downgraded,
    /// A topology has a link of PCIe's first generation and one lane.
    Narrow,
    /// A GPU lowers its clocks because of heat or power.
    Throttled,
    /// The driver reported an error of a GPU.
    DriverError,
    /// RDMA over frames of 1500 bytes.
    SmallFrames,
    /// A thread of nccl-tests starts the calls of several GPUs.
    OneThread,
    /// all_reduce_bench.py times each call alone, behind a barrier, with its start by the host (`timed_allreduce`,
    /// stas00/ml-engineering, network/benchmarks/all_reduce_bench.py).
    OneByOne,
    /// Hosts do not share an NVLink domain: those of a rack are nodes of their own.
    Apart,
}

/// Words that a line must all contain, and words of which it must contain none.
struct Pattern {
    sign: Sign,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
}

const fn pattern(
    sign: Sign,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Pattern {
    Pattern { sign, has, lacks }
}

const PATTERNS: &[Pattern] = &[
    pattern(Sign::Socket, &["via NET/Socket"], &[]),
    pattern(Sign::Socket, &["Using network Socket"], &[]),
    pattern(Sign::Network, &["via NET/"], &["NET/Socket"]),
    pattern(Sign::Network, &["Using network "], &["network Socket"]),
    pattern(Sign::Direct, &["via NET/", "/GDRDMA"], &[]),
    pattern(Sign::DirectOff, &["via NET/", "send]"], &["/GDRDMA", "NET/Socket", "/Shared"]),
    pattern(Sign::DirectOff, &["GPU Direct RDMA Disabled for HCA"], &[]),
    pattern(Sign::Peer, &["via P2P/"], &[]),
    pattern(Sign::Shared, &["via SHM"], &[]),
    pattern(Sign::Shared, &["via direct shared memory"], &[]),
    pattern(Sign::PeerOff, &["P2P is disabled between"], &[]),
    pattern(Sign::Sums, &["NVLS multicast support is available"], &[]),
    pattern(Sign::SumsOff, &["NVLS multicast support is not available"], &[]),
    pattern(Sign::SumsOff, &["coll channels", " 0 nvls channels"], &[]),
    pattern(Sign::NoDevice, &["NET/IB : No device found"], &[]),
    pattern(Sign::NoDevice, &["NET/OFI", "No eligible providers"], &[]),
    pattern(Sign::Redirected, &["ACSCtl:", "ReqRedir+"], &["DirectTrans+"]),
    pattern(Sign::Redirected, &["Missing \"iommu=pt\""], &[]),
    // A port without a device has a width of 0, and an idle GPU lowers the speed alone.
    pattern(Sign::Downgraded, &["LnkSta:", "Width x1 (downgraded)"], &[]),
    pattern(Sign::Downgraded, &["LnkSta:", "Width x2 (downgraded)"], &[]),
    pattern(Sign::Downgraded, &["LnkSta:", "Width x4 (downgraded)"], &[]),
    pattern(Sign::Downgraded, &["LnkSta:", "Width x8 (downgraded)"], &[]),
    pattern(Sign::Narrow, &["link_speed=\"2.5 GT/s", "link_width=\"1\""], &[]),
    pattern(Sign::Throttled, &["Slowdown", ": Active"], &[]),
    pattern(Sign::DriverError, &["NVRM: Xid"], &[]),
    pattern(Sign::SmallFrames, &["NET/IB", " qpn ", " mtu 3 "], &[]),
    pattern(Sign::SmallFrames, &["active_mtu:", "1024 (3)"], &[]),
    pattern(Sign::OneThread, &["nThread ", " nGpus "], &[" nGpus 1 "]),
    pattern(Sign::OneByOne, &["| payload |", " busbw "], &[]),
    pattern(Sign::Apart, &[" localRanks ", " MNNVL 0"], &[" nNodes 1 "]),
];

/// Only lines with one of these are examined.
const WORDS: &[&str] = &[
    "NCCL",
    "RCCL",
    "ACSCtl",
    "LnkSta",
    "link_speed",
    "Slowdown",
    "active_mtu",
    "NVRM",
    "iommu",
    "nGpus",
    "| payload |",
    VIA,
];

/// It is also a word of other texts.
const VIA: &str = "via ";

/// How lines begin by which `env`, `printenv` and the kernel's log are known when they say nothing else.
const OF_HOSTS: [&str; 2] = ["PATH=", "Linux version "];

/// What lspci calls devices that calls go over.
const CARRIERS: [&str; 7] = [
    "3D controller",
    "VGA compatible controller: NVIDIA",
    "Processing accelerators",
    "Display controller",
    "Infiniband controller",
    "Ethernet controller",
    "Network controller",
];

/// All these words, looked for at once: logs have millions of lines, most of which say nothing.
static SEARCH: LazyLock<Search> = LazyLock::new(Search::new);

/// An automaton of words, each of which is a bit of what is found.
struct Search {
    /// None only where it would be too large, which these words are not.
    words: Option<AhoCorasick>,
    /// Those of [`WORDS`], of them [`VIA`], and of [`OF_HOSTS`].
    examined: u128,
    via: u128,
    of_hosts: u128,
    /// What each of [`PATTERNS`] has and lacks.
    patterns: Vec<(u128, u128)>,
}

impl Search {
    fn new() -> Self {
        let mut all: Vec<&str> = Vec::new();
        let mut bits = |words: &[&'static str]| {
            words.iter().fold(0, |bits, word| {
                let at = all.iter().position(|known| known == word).unwrap_or_else(|| {
                    all.push(word);
                    all.len() - 1
                });
                bits | 1 << at
            })
        };
        let (examined, via, of_hosts) = (bits(WORDS), bits(&[VIA]), bits(&OF_HOSTS));
        let patterns = PATTERNS.iter().map(|one| (bits(one.has), bits(one.lacks))).collect();
        Self { words: AhoCorasick::new(&all).ok(), examined, via, of_hosts, patterns }
    }

    fn found(&self, text: &str) -> u128 {
        let words = self.words.iter().flat_map(|words| words.find_overlapping_iter(text));
        words.fold(0, |found, word| found | 1 << word.pattern().as_u32())
    }
}

/// At most this many of a kind are kept.
const MOST: usize = 128;
/// A host with several domains has more buses than one.
const MOST_BUSES: usize = 1024;

/// The signs that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    signs: BTreeSet<Sign>,
    variables: BTreeMap<String, String>,
    /// NICs named by channels.
    used: BTreeSet<u32>,
    /// NICs that the library found.
    found: Option<u32>,
    /// GPUs whose calls one thread started.
    gpus_per_thread: Option<NonZeroU32>,
    /// Whether a line was of a kind that may be evidence.
    known: bool,
    /// Whether the device that lspci is listing carries no calls.
    elsewhere: bool,
    /// The domain of that device, and the buses behind it if it is a bridge.
    domain: u32,
    behind: Option<Buses>,
    /// Those behind bridges that redirect.
    redirecting: BTreeSet<Buses>,
    /// Buses with devices that are no bridges, and whether one of them carries calls.
    devices: BTreeMap<(u32, u8), bool>,
}

/// A domain of PCIe and its buses from one to another.
type Buses = (u32, u8, u8);

impl Evidence {
    /// The evidence in the lines of `input`, called `file`.
    ///
    /// # Errors
    /// The input is not text or cannot be read.
    pub fn read(input: impl BufRead, file: &str) -> Result<Self> {
        let mut evidence = Self::default();
        let mut lines = Lines::new(input, file);
        while let Some(line) = lines.next()? {
            evidence.take(line.text);
        }
        Ok(evidence)
    }

    /// The evidence in one line.
    pub(super) fn of(text: &str) -> Self {
        let mut evidence = Self::default();
        evidence.take(text);
        evidence
    }

    /// The variables of the environment that were set.
    pub(crate) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Leaves out variables of another run.
    pub(super) fn forget(&mut self, others: &BTreeMap<String, String>) {
        self.variables.retain(|name, value| others.get(name) != Some(value));
    }

    /// GPUs whose calls one thread started, if there were several.
    pub(crate) fn gpus_per_thread(&self) -> Option<NonZeroU32> {
        self.gpus_per_thread.filter(|_| self.says(Sign::OneThread))
    }

    /// Leaves out a sign.
    pub(crate) fn without(&mut self, sign: Sign) {
        self.signs.remove(&sign);
    }

    /// Leaves out a variable.
    pub(crate) fn without_variable(&mut self, name: &str) {
        self.variables.remove(name);
    }

    /// Leaves out all variables.
    pub(super) fn unset(&mut self) {
        self.variables.clear();
    }

    /// Whether `other` says something that this does not.
    pub(super) fn lacks(&self, other: &Self) -> bool {
        let mut both = self.clone();
        both.add(other);
        both.known = self.known;
        both != *self
    }

    /// Whether there is no evidence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { signs, variables, used, found, redirecting, .. } = self;
        let said = signs.is_empty() && variables.is_empty() && redirecting.is_empty();
        said && used.is_empty() && found.is_none()
    }

    /// Whether lines were of a kind that may be evidence, such as those of a healthy host.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Whether a line has this sign.
    #[must_use]
    pub fn says(&self, sign: Sign) -> bool {
        let redirects = || self.redirecting.iter().any(|buses| self.may_carry(*buses));
        self.signs.contains(&sign) || sign == Sign::Redirected && redirects()
    }

    /// Whether calls may go over a bridge: unless all that is listed behind it are devices that carry none.
    fn may_carry(&self, (domain, from, to): Buses) -> bool {
        let mut behind = (from <= to)
            .then(|| self.devices.range((domain, from)..=(domain, to)).map(|(_, carries)| *carries))
            .into_iter()
            .flatten()
            .peekable();
        behind.peek().is_none() || behind.any(|carries| carries)
    }

    /// A variable of the environment, such as `NCCL_ALGO`.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// How many NICs of a node carry channels, if lines name them.
    #[must_use]
    pub fn used(&self) -> Option<u32> {
        (!self.used.is_empty()).then_some(self.used.len() as u32)
    }

    /// How many NICs of a node the library found, if it prints them.
    #[must_use]
    pub fn found(&self) -> Option<u32> {
        self.found
    }

    /// Adds the evidence of `other`.
    pub fn add(&mut self, other: &Self) {
        self.signs.extend(&other.signs);
        self.variables.extend(other.variables.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.used.extend(&other.used);
        self.redirecting.extend(&other.redirecting);
        for (bus, carries) in &other.devices {
            *self.devices.entry(*bus).or_default() |= carries;
        }
        self.found = self.found.max(other.found);
        self.gpus_per_thread = self.gpus_per_thread.max(other.gpus_per_thread);
        self.known |= other.known;
    }

    /// Reads a line.
    pub(super) fn take(&mut self, text: &str) {
        self.device(text);
        let found = SEARCH.found(text);
        let examined = found & SEARCH.examined;
        if examined == 0 {
            self.known |= found & SEARCH.of_hosts != 0;
            return;
        }
        self.known |= examined != SEARCH.via;
        for (pattern, (has, lacks)) in PATTERNS.iter().zip(&SEARCH.patterns) {
            if pattern.sign == Sign::Downgraded && self.elsewhere {
                continue;
            }
            if found & has == *has && found & lacks == 0 {
                match self.behind.filter(|_| pattern.sign == Sign::Redirected) {
                    Some(buses) if self.redirecting.len() < MOST_BUSES => {
                        self.redirecting.insert(buses);
                    }
                    Some(_) => {}
                    None => {
                        self.signs.insert(pattern.sign);
                        if pattern.sign == Sign::OneThread {
                            let count = text.split_once(" nGpus ").map(|(_, rest)| rest.split(' '));
                            let count = count.and_then(|mut words| words.next()?.parse().ok());
                            self.gpus_per_thread = self.gpus_per_thread.max(count);
                        }
                    }
                }
            }
        }
        self.nics(text);
        self.set(text);
    }

    /// `81:00.0 Infiniband controller: …`, `Capabilities: [60] Express (v2) Upstream Port, …`: whether calls go over
    /// the device. A root port is narrow where the device below it is.
    fn device(&mut self, text: &str) {
        let is_address = |word: &str| {
            let rest = word.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == ':');
            matches!(word.len() - rest.len(), 5 | 10) && rest.len() == 2 && rest.starts_with('.')
        };
        let named = text.split_once(' ').filter(|(word, _)| is_address(word));
        if let Some((_, class)) = named {
            self.elsewhere = !CARRIERS.iter().any(|carrier| class.starts_with(carrier));
            self.behind = None;
            let bus = named.and_then(|(word, _)| bus(word));
            self.domain = bus.map_or(0, |(domain, _)| domain);
            let bus = bus.filter(|_| !class.contains("bridge") && self.devices.len() < MOST_BUSES);
            if let Some(bus) = bus {
                *self.devices.entry(bus).or_default() |= !self.elsewhere;
            }
        } else if let Some((_, buses)) = text.split_once("Bus: primary=") {
            let number = |name: &str| {
                let (_, rest) = buses.split_once(name)?;
                u8::from_str_radix(rest.get(..2)?, 16).ok()
            };
            let ends = number("secondary=").zip(number("subordinate="));
            self.behind = ends.map(|(from, to)| (self.domain, from, to));
        } else if text.contains("Express (v") && text.contains(" Upstream Port") {
            self.elsewhere = false;
        }
    }

    /// `via NET/IB/3/GDRDMA`; `NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE`.
    fn nics(&mut self, text: &str) {
        let network = text.split_once("via NET/").filter(|(_, rest)| !rest.starts_with("Socket"));
        if let Some((_, rest)) = network {
            let number = rest.split('/').nth(1).and_then(|n| n.split(['(', ' ']).next());
            let number = number.and_then(|n| n.parse::<u32>().ok());
            self.used.extend(number.filter(|_| self.used.len() < MOST));
        }
        if let Some((_, rest)) = text.split_once("NET/IB : Using ") {
            let devices = rest.split(';').next().unwrap_or(rest);
            let count =
                devices.split_whitespace().filter(|w| w.starts_with('[') && w.contains(':'));
            self.found = self.found.max(Some(count.count() as u32));
        }
    }

    /// `NCCL_X set by environment to V`, `NCCL_X=V`.
    fn set(&mut self, text: &str) {
        let is_name = |word: &str| {
            (word.starts_with("NCCL_") || word.starts_with("RCCL_"))
                && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        let value = |v: &str| v.trim_matches(['"', '\'', '.', ',', '`']).to_owned();
        let mut found: Vec<(String, String)> = Vec::new();
        for by in [" set by environment to ", " set to "] {
            if let Some((before, after)) = text.split_once(by) {
                let name = before.split_whitespace().next_back().unwrap_or("");
                let set = after.split_whitespace().next().unwrap_or("");
                found.extend(is_name(name).then(|| (name.to_owned(), value(set))));
            }
        }
        // `#export NCCL_X=V` is a comment; a `#` apart may be the prompt of root's shell.
        let is_code = |word: &&str| *word == "#" || !word.starts_with('#');
        for word in text.split_whitespace().take_while(is_code) {
            let pair = word.trim_start_matches(['"', '\'', '`']).split_once('=');
            let pair = pair.filter(|(name, _)| is_name(name));
            found.extend(pair.map(|(name, set)| (name.to_owned(), value(set))));
        }
        let room = MOST.saturating_sub(self.variables.len());
        self.variables.extend(found.into_iter().take(room));
    }
}

/// The domain and the bus of `81:00.0` or `0000:81:00.0`.
fn bus(address: &str) -> Option<(u32, u8)> {
    let mut parts = address.rsplit(':').skip(1);
    let bus = u8::from_str_radix(parts.next()?, 16).ok()?;
    let domain = parts.next().map_or(Some(0), |domain| u32::from_str_radix(domain, 16).ok())?;
    Some((domain, bus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_how_many_gpus_a_thread_starts() {
        let of = |line: &str| {
            let mut whole = Evidence::default();
            whole.add(&Evidence::of(line));
            whole.gpus_per_thread().map(NonZeroU32::get)
        };
        assert_eq!(of("# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728"), Some(8));
        assert_eq!(of("# nThread 4 nGpus 2 minBytes 8 maxBytes 134217728"), Some(2));
        assert_eq!(of("# nThread 8 nGpus 1 minBytes 8 maxBytes 134217728"), None);
    }

    fn evidence(text: &str) -> Evidence {
        Evidence::read(text.as_bytes(), "log").unwrap()
    }

    #[test]
    fn lines_are_known_by_their_words() {
        let said = evidence(
            "n1:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC\n\
             n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n\
             n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1\n\
             n1:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n\
             n1:1:2 [0] NCCL INFO Channel 00 : 7[ca000] -> 6[c7000] via SHM/direct/direct\n\
             mpirun -np 16 -x NCCL_ALGO=Tree -x \"NCCL_IB_HCA=mlx5_0\" all_reduce_perf\n\
             \tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n\
             \t\tLnkSta: Speed 8GT/s (downgraded), Width x8 (downgraded)\n\
             a line of somebody else\n",
        );
        assert_eq!(said.variable("NCCL_P2P_LEVEL"), Some("LOC"));
        assert_eq!(said.variable("NCCL_ALGO"), Some("Tree"));
        assert_eq!(said.variable("NCCL_IB_HCA"), Some("mlx5_0"));
        assert_eq!((said.found(), said.used()), (Some(2), Some(2)));
        use Sign::{Direct, DirectOff, Downgraded, Network, Redirected, Shared, Socket};
        for sign in [Direct, DirectOff, Network, Shared, Redirected, Downgraded] {
            assert!(said.says(sign), "{sign:?}");
        }
        assert!(!said.says(Socket));
        assert!(evidence("a line of somebody else\n").is_empty());
        let socket = "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";
        assert_eq!(evidence(socket).used(), None);
    }

    #[test]
    fn comments_set_nothing() {
        assert_eq!(evidence("#export NCCL_ALGO=Ring\n").variable("NCCL_ALGO"), None);
        let said = evidence("export NCCL_PROTO=LL #NCCL_ALGO=Ring\n");
        assert_eq!((said.variable("NCCL_PROTO"), said.variable("NCCL_ALGO")), (Some("LL"), None));
        assert_eq!(evidence("# mpirun -x NCCL_ALGO=Ring\n").variable("NCCL_ALGO"), Some("Ring"));
    }

    #[test]
    fn only_a_narrow_link_is_downgraded() {
        let says = |state: &str| evidence(&format!("\t\tLnkSta: {state}\n")).says(Sign::Downgraded);
        assert!(says("Speed 16GT/s (ok), Width x8 (downgraded)"));
        assert!(!says("Speed 2.5GT/s (downgraded), Width x16 (ok)"));
        assert!(!says("Speed 2.5GT/s (downgraded), Width x0 (downgraded)"));
    }

    #[test]
    fn only_links_that_carry_calls_are_downgraded() {
        let says = |device: &str, more: &str| {
            let text = format!(
                "0000:{device}\n\tCapabilities: [40] Express (v2) {more}, MSI 00\n\t\tLnkSta: Speed 8GT/s (ok), Width x4 (downgraded)\n"
            );
            evidence(&text).says(Sign::Downgraded)
        };
        for (device, more, carries) in [
            ("81:00.0 Infiniband controller: Mellanox Technologies MT28908", "Endpoint", true),
            ("81:00.0 Ethernet controller: Broadcom Inc. BCM57508", "Endpoint", true),
            ("3b:00.0 3D controller: NVIDIA Corporation GA100", "Endpoint", true),
            ("01:00.0 Non-Volatile memory controller: Samsung", "Endpoint", false),
            ("00:1c.0 PCI bridge: Intel Corporation", "Root Port (Slot+)", false),
            ("02:00.0 PCI bridge: Broadcom PEX 8796", "Upstream Port", true),
        ] {
            assert_eq!(says(device, more), carries, "{device} {more}");
        }
    }

    #[test]
    fn only_bridges_that_carry_calls_redirect() {
        let says = |below: &str| {
            let text = format!(
                "00:1c.0 PCI bridge: Intel Corporation Root Port #1\n\
                 \tBus: primary=00, secondary=01, subordinate=03, sec-latency=0\n\
                 \tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00\n\
                 \t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n\
                 {below}"
            );
            evidence(&text).says(Sign::Redirected)
        };
        assert!(says(""), "what is behind it is not known");
        assert!(!says("01:00.0 Non-Volatile memory controller: Samsung\n"));
        assert!(says(
            "01:00.0 Non-Volatile memory controller: Samsung\n0000:03:00.0 3D controller: NVIDIA\n"
        ));
        assert!(!says(
            "01:00.0 Non-Volatile memory controller: Samsung\n81:00.0 3D controller: NVIDIA\n"
        ));
    }

    #[test]
    fn a_healthy_host_is_known_and_says_nothing() {
        for text in [
            "    HW Slowdown                       : Not Active\n",
            "[    4.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54\n",
            "[    0.0] Linux version 6.8.0\n",
            "HOME=/root\nPATH=/usr/bin\n",
            "\t\tLnkSta: Speed 16GT/s (ok), Width x16 (ok)\n",
        ] {
            let said = evidence(text);
            assert!(said.is_known() && said.is_empty(), "{text}");
        }
        assert!(!evidence("they came via Rome\n").is_known());
    }

    #[test]
    fn bridges_that_translate_are_no_fault() {
        let acs = "ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+\n";
        assert!(!evidence(acs).says(Sign::Redirected));
    }
}
