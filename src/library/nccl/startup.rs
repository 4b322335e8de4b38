//! How many channels a communicator starts with, from the graphs that the search found and from the
//! job's environment.
//!
//! The search counts one channel per path; a communicator has two per path, and more with in-network
//! reduction and with fast rings. NVLS has its own number.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/connect.cc` (doubling, bounds),
//! `src/init.cc` and `src/transport/nvls.cc` (channels of NVLS, in-network reduction).

use super::communicator::{Ctas, MOST_BLOCKS};
use super::topology::{is_rubin_or_later, most_channels};
use super::{Communicator, Gbps, Version, since};

/// The settings of a job's environment for start-up; the default is an empty environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Starting {
    numbers: [Option<i64>; Starting::KNOWN.len()],
    /// Whether `NCCL_COLLNET_ENABLE` is exactly the text `1`, not another form of 1.
    is_plain_one: bool,
}

/// Variables by their place in [`Starting::KNOWN`].
#[derive(Debug, Clone, Copy)]
enum Variable {
    MaxChannels,
    MinChannels,
    MaxRings,
    MinRings,
    MaxCtas,
    MinCtas,
    Nvls,
    NvlsChannels,
    Collnet,
    CollnetNodes,
}

impl Starting {
    /// The accepted variables.
    pub const KNOWN: [&'static str; 10] = [
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NRINGS",
        "NCCL_MIN_NRINGS",
        "NCCL_MAX_CTAS",
        "NCCL_MIN_CTAS",
        "NCCL_NVLS_ENABLE",
        "NCCL_NVLS_NCHANNELS",
        "NCCL_COLLNET_ENABLE",
        "NCCL_COLLNET_NODE_THRESHOLD",
    ];

    /// Sets one variable to a number, or to `None`, and tells whether it is one of [`Self::KNOWN`].
    pub(super) fn set(&mut self, name: &str, value: &str, number: Option<i64>) -> bool {
        let Some(index) = Self::KNOWN.iter().position(|known| *known == name) else { return false };
        self.numbers[index] = number;
        if index == Variable::Collnet as usize {
            self.is_plain_one = value == "1";
        }
        true
    }

    /// The same with in-network reduction requested, unless it is set already.
    #[must_use]
    pub fn or_collnet(mut self) -> Self {
        if self.get(Variable::Collnet).is_none() {
            self.set("NCCL_COLLNET_ENABLE", "1", Some(1));
        }
        self
    }

    fn get(&self, variable: Variable) -> Option<i64> {
        self.numbers[variable as usize]
    }

    /// Whether NVLS may be used at all: anything but 0.
    pub(super) fn nvls(&self) -> bool {
        self.get(Variable::Nvls) != Some(0)
    }

    /// Whether NVLS is searched for without querying the driver for the GPUs' support.
    pub(super) fn forces_nvls(&self) -> bool {
        self.get(Variable::Nvls).is_some_and(|number| number != 2)
    }

    /// Whether in-network reduction was requested; by default it is not.
    pub(super) fn collnet(&self, version: Version) -> bool {
        match version.has(since::COLLNET_NUMBER) {
            true => self.get(Variable::Collnet) == Some(1),
            false => self.is_plain_one,
        }
    }

    /// The least and the most channels that `NCCL_MIN_NCHANNELS` and `NCCL_MAX_NCHANNELS` allow.
    fn channels(&self, room: u32) -> (u32, u32) {
        let either = |new, old| self.get(new).or(self.get(old)).filter(|&number| number != -2);
        let most = either(Variable::MaxChannels, Variable::MaxRings).unwrap_or(room.into());
        let least = either(Variable::MinChannels, Variable::MinRings).unwrap_or(0);
        (within(least, 0, room), within(most, 1, room))
    }

    /// The least and the most blocks of a kernel: `NCCL_MIN_CTAS`, `NCCL_MAX_CTAS`.
    fn ctas(&self, room: u32) -> (u32, u32) {
        let set = |variable| self.get(variable).filter(|&number| number > 0);
        let most = set(Variable::MaxCtas).map_or(room, |most| within(most, 1, room));
        let least = set(Variable::MinCtas).map_or(1, |least| within(least, 1, room));
        (least.min(most), most)
    }
}

/// A number within the bounds of channels.
fn within(number: i64, least: u32, most: u32) -> u32 {
    number.clamp(least.into(), most.into()) as u32
}

/// The result of start-up with the graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Startup {
    /// Channels of rings and trees, after duplication.
    pub channels: u32,
    /// Channels that a call starts from; only 2.20 and 2.21 raise the others above them.
    pub call_channels: u32,
    /// Whether NVLS is used.
    pub nvls: bool,
    /// Channels of NVLS; 0 if it is not used.
    pub nvls_channels: u32,
    /// Whether the network reduces.
    pub collnet: bool,
    /// The blocks that the environment allows a kernel.
    pub ctas: Ctas,
}

impl Startup {
    /// The rule of a version in an empty environment. It reads the ranks, nodes, compute
    /// capability, `collnet` and graphs of `comm`, but not the values that start-up itself sets.
    ///
    /// The rate of a NIC, which 2.30.3 uses on Blackwell, is taken from the fastest graph between
    /// nodes: the search tries rates just below those of NICs.
    #[must_use]
    pub fn of(version: Version, comm: &Communicator) -> Self {
        Self::under(version, comm, &Starting::default(), None)
    }

    /// The same in an environment, and with the rate of the slowest NIC, if known.
    #[must_use]
    pub fn under(
        version: Version,
        comm: &Communicator,
        start: &Starting,
        slowest_nic: Option<Gbps>,
    ) -> Self {
        let rules = Rules { version, comm, start, slowest_nic, room: room(version) };
        let nvls = rules.has_nvls();
        let nvls_channels = if nvls { rules.nvls_channels() } else { 0 };
        let collnet = rules.has_collnet();
        let call_channels = rules.channels(collnet);
        let raised = version.has(since::RAISED_TO_NVLS);
        let channels = if raised { call_channels.max(nvls_channels) } else { call_channels };
        let call_channels =
            if version.has(since::CALLS_NOT_RAISED) { call_channels } else { channels };
        let (least, most) = start.ctas(MOST_BLOCKS);
        let ctas = Ctas { least, most };
        Self { channels, call_channels, nvls, nvls_channels, collnet, ctas }
    }

    /// The communicator with the result of start-up.
    #[must_use]
    pub fn on(self, comm: Communicator) -> Communicator {
        let Self { channels, call_channels, nvls, nvls_channels, collnet, ctas } = self;
        Communicator { channels, call_channels, nvls, nvls_channels, collnet, ctas, ..comm }
    }
}

impl Communicator {
    /// The same communicator with the channels that the version starts with.
    #[must_use]
    pub fn started(self, version: Version) -> Self {
        Startup::of(version, &self).on(self)
    }
}

fn room(version: Version) -> u32 {
    most_channels(version) as u32
}

struct Rules<'a> {
    version: Version,
    comm: &'a Communicator,
    start: &'a Starting,
    slowest_nic: Option<Gbps>,
    room: u32,
}

impl Rules<'_> {
    fn channels(&self, collnet: bool) -> u32 {
        let Self { version, comm, .. } = *self;
        let searched = comm.ring.channels.min(comm.tree.channels);
        let mut channels = searched.saturating_mul(2).min(self.room);
        let chain = &comm.collnet_chain_graph;
        if collnet && chain.intra > chain.inter && comm.ranks > comm.nodes {
            channels = (channels / 2 * 3).min(self.room);
        }
        // One ring of such a rate cannot fill a NIC with its number of channels.
        if comm.nodes > 1 && comm.ring.intra.0 > 45.0 {
            let known = comm.min_cc == 90 || comm.min_cc > 90 && version.has(since::BLACKWELL);
            let few = match version.has(since::FAST_RINGS_BELOW_16) {
                true => channels < 16,
                false => 2 * channels <= 32,
            };
            if known && few {
                channels *= 2;
            }
        }
        let (least, most) = self.start.channels(self.room);
        let (least_ctas, most_ctas) = self.start.ctas(self.room);
        channels.min(most).min(most_ctas).max(least).max(least_ctas)
    }

    fn has_nvls(&self) -> bool {
        let Self { version, comm, .. } = *self;
        let least = if version.has(since::NVLS_TWO_GPUS) { 2 } else { 3 };
        let home = comm.nodes == 1 || !version.has(since::NVLS_ONE_NODE);
        let enough = comm.min_cc >= 90 && comm.local_ranks >= least;
        comm.nvls_graph.channels > 0 && enough && home && self.start.nvls()
    }

    fn nvls_channels(&self) -> u32 {
        let Self { version, comm, .. } = *self;
        let set = self.start.get(Variable::NvlsChannels);
        let lowest = if version.has(since::NVLS_CHANNELS_POSITIVE) { 1 } else { 0 };
        let set =
            set.filter(|&number| number >= lowest || version.has(since::NVLS_CHANNELS_SIGNED));
        let (least, most) = self.start.ctas(self.room);
        let channels = set.unwrap_or_else(|| match comm.min_cc {
            100.. if version.has(since::NVLS_24_CHANNELS) => self.blackwell_channels().into(),
            100.. if version.has(since::BLACKWELL) => 32,
            _ => 16,
        });
        channels.min(most.into()).max(least.into()) as u32
    }

    fn blackwell_channels(&self) -> u32 {
        let Self { version, comm, .. } = *self;
        let rubin = is_rubin_or_later(comm.min_cc) && version.has(since::NVLS_48_CHANNELS);
        let (one, several) = if rubin { (48, 64) } else { (24, 32) };
        if comm.nodes == 1 {
            return one;
        }
        if !version.has(since::NVLS_BY_NIC) {
            return 32;
        }
        let nic = self.slowest_nic.map_or_else(
            || {
                let nic = [&comm.ring, &comm.tree, &comm.nvls_graph].map(|graph| graph.inter.0);
                nic.into_iter().fold(0.0, f32::max)
            },
            |nic| nic.0,
        );
        match comm.nodes {
            2 if nic >= 48.0 => 32,
            nodes if nic >= 96.0 && comm.ranks <= 8 * nodes => 24,
            _ if nic >= 96.0 => 32,
            _ if nic >= 48.0 => 24,
            _ => several,
        }
    }

    fn has_collnet(&self) -> bool {
        let comm = self.comm;
        let nodes = self.start.get(Variable::CollnetNodes).unwrap_or(2);
        let wide = comm.local_ranks > 8 && self.version.has(since::COLLNET_8_RANKS);
        comm.collnet
            && i64::from(comm.nodes) >= nodes
            && comm.collnet_chain_graph.channels > 0
            && !wide
    }
}
