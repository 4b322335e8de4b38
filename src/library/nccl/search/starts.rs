//! Where a channel begins: at a NIC and a GPU after it, or, on a single node, at any GPU.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc`.

use super::channels::{Order, Turns};
use super::routes::Stop;
use super::searcher::{PERFECT, Searcher};
use super::trial::Pattern;
use crate::library::nccl::since;
use crate::library::nccl::topology::Kind;

/// The steps of the attempt in PCI order that comes before all others.
const PCI_ORDER_STEPS: i32 = 1 << 10;

/// The result of trying a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// The next NIC follows.
    Next,
    /// The next NIC follows, and the charge of this one is not taken back.
    NextCharged,
    /// No other NIC is tried.
    Found,
    /// 2.18 gave up, and did not take back the charge of the NIC.
    Broken,
}

impl Searcher {
    /// The next channel.
    pub(super) fn channel(&mut self) {
        let last = Some(self.gpus() - 1);
        let ring = self.trial.pattern == Pattern::Ring;
        if self.world.inter {
            let to_net = if ring { last } else { Some(0) };
            self.behind_nics(Turns { to_net, to_first: None });
        } else {
            let to_first = if ring { last } else { None };
            self.among_gpus(Turns { to_net: None, to_first });
        }
    }

    /// A channel of one node.
    fn among_gpus(&mut self, turns: Turns) {
        let channel = self.trial.channels;
        if self.trial.pattern == Pattern::Nvls {
            return self.start(None, channel, turns, Order::Free);
        }
        if channel == 0 {
            self.start(None, 0, turns, Order::Pci);
        } else {
            let first = self.trial.gpu(channel - 1, 0);
            self.start(None, first, turns, Order::Replay);
        }
        if !self.trial.same || channel == 0 {
            for gpu in 0..self.gpus() {
                self.start(None, gpu, turns, Order::Free);
            }
        }
    }

    /// A channel that enters through a NIC.
    fn behind_nics(&mut self, turns: Turns) {
        let whole = f32::trunc(self.trial.inter);
        let count = self.nics.all.len();
        for turn in 0..count {
            let channel = self.trial.channels;
            let version = self.version();
            let in_turn = version.has(since::NICS_IN_TURN);
            let at = if in_turn { (channel + turn) % count } else { turn };
            let net = usize::from(self.nics.all[at]);
            let once = version.has(since::HEADS_CHARGED) && !version.has(since::HEADS_ONCE);
            if self.trial.pattern == Pattern::Nvls && once && turn > 0 {
                return;
            }
            if self.trial.collnet && !self.world.system.net(net).collective
                || self.ports[net].left < whole
                || !self.follows(channel, net)
            {
                continue;
            }
            self.trial.nets[channel][0] = net as u16;
            self.trial.latency = self.world.system.net(net).latency;
            self.charge(net, -whole);
            let heads = self.trial.pattern.has_heads() && version.has(since::HEADS);
            let done = if heads { self.head(net, turns) } else { self.through(net, turns) };
            match done {
                Done::Next => self.charge(net, whole),
                Done::NextCharged => {}
                Done::Found => return self.charge(net, whole),
                Done::Broken => return,
            }
        }
    }

    /// Whether a channel may begin at a NIC: of two channels that cross, the second begins where
    /// the first ended.
    fn follows(&self, channel: usize, net: usize) -> bool {
        let pairs = match self.version() {
            version if version.has(since::CROSSED_IS_2) => {
                self.trial.pattern == Pattern::Ring && self.trial.cross_nic == 2
            }
            version => version.has(since::PAIRED_NICS) && self.trial.cross_nic != 0,
        };
        !pairs || channel.is_multiple_of(2) || usize::from(self.trial.nets[channel - 1][1]) == net
    }

    /// Adds to the remaining bandwidth of a port and of its twins.
    fn charge(&mut self, net: usize, rate: f32) {
        for at in 0..self.ports[net].shared.len() {
            let twin = usize::from(self.ports[net].shared[at]);
            self.ports[twin].left += rate;
        }
    }

    /// A head at a NIC, for NVLS and in-network reduction.
    fn head(&mut self, net: usize, turns: Turns) -> Done {
        let channel = self.trial.channels;
        let version = self.version();
        if !version.has(since::HEADS_OF_NICS) {
            return self.head_2_18(turns);
        }
        if channel >= self.nics.all.len() {
            return Done::Next;
        }
        let charged = version.has(since::HEADS_CHARGED);
        let head_of = if charged { net } else { usize::from(self.nics.all[channel]) };
        let Some(gpu) = self.own_gpu[head_of] else { return Done::Next };
        let once = version.has(since::HEADS_ONCE);
        if once && (0..channel).any(|c| self.trial.gpu(c, 0) == gpu) {
            return Done::Next;
        }
        self.start(charged.then_some(net), gpu, turns, Order::Free);
        if once { Done::Found } else { Done::Next }
    }

    /// 2.18 uses a NIC's number as a GPU's, and reads past the end of its list: zeroes up to the
    /// end of the allocated memory, then a value that makes it give up.
    fn head_2_18(&mut self, turns: Turns) -> Done {
        let channel = self.trial.channels;
        let nets = self.world.nets();
        let bytes = ((4 * nets + 8).div_ceil(16) * 16).max(32) - 8;
        let gpu = match self.nics.all.get(channel) {
            Some(&net) => usize::from(net),
            None if channel < bytes / 4 => 0,
            None => return Done::Broken,
        };
        if gpu < self.gpus() {
            self.start(None, gpu, turns, Order::Free);
        } else if self.budget > 0 {
            // A GPU that does not exist leads nowhere, and costs its step.
            self.budget -= 1;
            self.steps += 1;
        }
        Done::Next
    }

    /// Rings and trees from a NIC on.
    fn through(&mut self, net: usize, turns: Turns) -> Done {
        let channel = self.trial.channels;
        let version = self.version();
        let replay = channel > 0 && (self.trial.same || !version.has(since::BEGINS_AT_OWN));
        if replay {
            let first = self.trial.gpu(channel - 1, 0);
            self.start(Some(net), first, turns, Order::Replay);
        }
        if channel > 0 && self.trial.same {
            return Done::Next;
        }
        let switched = self.world.has_switch() && version.has(since::PCI_ORDER_UNSWITCHED);
        if channel == 0 && !switched {
            let budget = std::mem::replace(&mut self.budget, PCI_ORDER_STEPS);
            self.start(Some(net), 0, turns, Order::Pci);
            self.budget = if self.budget == PERFECT { PERFECT } else { budget };
        }
        if version.has(since::BEGINS_NEAR) {
            self.behind_near(net, turns)
        } else {
            self.behind_fastest(net, turns)
        }
    }

    /// Begins at the GPUs that are nearest to a NIC.
    fn behind_near(&mut self, net: usize, turns: Turns) -> Done {
        let own = self.own_gpu[net].filter(|_| self.version().has(since::BEGINS_AT_OWN));
        if let Some(gpu) = own {
            self.start(Some(net), gpu, turns, Order::Free);
        }
        let reached = self.near[net].first().is_some_and(|&gpu| {
            let path = self.world.path((Kind::Net, net), (Kind::Gpu, gpu as usize));
            path.level < self.world.levels.dis
        });
        if !reached {
            return Done::NextCharged;
        }
        for at in 0..self.near[net].len() {
            let gpu = self.near[net][at] as usize;
            if own != Some(gpu) {
                self.start(Some(net), gpu, turns, Order::Free);
            }
        }
        Done::Next
    }

    /// Before 2.27: begins at the GPUs with the fastest path, and among them the shortest.
    fn behind_fastest(&mut self, net: usize, turns: Turns) -> Done {
        let Some(&first) = self.near[net].first() else { return Done::Next };
        let rate = self.world.path((Kind::Net, net), (Kind::Gpu, first as usize)).rate;
        if rate < f32::trunc(self.trial.inter) {
            return Done::Next;
        }
        if !self.version().has(since::BEGINS_IN_TURN) {
            // First those whose PCI link still has bandwidth.
            for spent in [false, true] {
                for at in 0..self.near[net].len() {
                    let gpu = self.near[net][at] as usize;
                    if (self.routes.pci_left(gpu) <= 0) == spent {
                        self.start(Some(net), gpu, turns, Order::Free);
                    }
                }
            }
        } else {
            let count = self.near[net].len();
            let first = (self.trial.channels % self.gpus()) as u32;
            let split = self.near[net].partition_point(|&gpu| gpu < first);
            for at in 0..count {
                let gpu = self.near[net][(split + at) % count] as usize;
                self.start(Some(net), gpu, turns, Order::Free);
            }
        }
        Done::Next
    }

    /// Begins a channel at a GPU.
    fn start(&mut self, net: Option<usize>, gpu: usize, turns: Turns, order: Order) {
        match net {
            Some(net) => self.go(Stop::Net(net), gpu, 0, turns, order),
            None => {
                let bit = 1 << self.trial.channels;
                self.used[gpu] ^= bit;
                self.arrive(gpu, 0, turns, order);
                self.used[gpu] ^= bit;
            }
        }
    }
}
