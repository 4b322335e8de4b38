//! One search: channels one after another, GPU after GPU, as far as links and budget carry.
//!
//! A channel is an order of GPUs, between several nodes with a NIC before and behind it:
//!
//! ```text
//! ring   NIC → gpu → gpu → … → gpu → NIC          tree   NIC → gpu → gpu → … → gpu
//!                                                         NIC ◄──┘ (balanced: half from the second)
//! ```
//!
//! Whatever a channel takes from links, NICs and GPUs is given back when all that follows has been
//! tried. Every arrival at a GPU, and every channel that is complete, costs one step of the budget;
//! with none left nothing more is tried. So budget and order decide which channels are found, and
//! both are NCCL's.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc`.

use std::cmp::Reverse;

use super::order::{GpuOrder, NicOrder, Toward};
use super::routes::{Rate, Routes, Stop};
use super::trial::{Pattern, Trial};
use super::world::World;
use crate::error::Result;
use crate::nccl::Version;
use crate::nccl::topology::{Kind, Level, Path, Paths, nearest};

/// The steps of the attempt in PCI order that comes before all others.
const PCI_ORDER_STEPS: i32 = 1 << 10;

/// What is left once the best that can be was found.
pub(super) const PERFECT: i32 = -1;

/// How the next GPU is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The best first.
    Free,
    /// As the file has them.
    Pci,
    /// As in the channel before.
    Replay,
}

/// Where a channel turns back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turns {
    /// The position whose GPU goes back to a NIC.
    to_net: Option<usize>,
    /// The position whose GPU goes back to the first.
    to_first: Option<usize>,
}

impl Turns {
    const NONE: Self = Self { to_net: None, to_first: None };
}

/// What the channels of a search take from links.
#[derive(Debug, Clone, Copy)]
struct Rates {
    intra: Rate,
    /// Of a head of NVLS.
    double: Rate,
    /// Of one of the others of a head of in-network reduction.
    part: Rate,
    inter: Rate,
    /// Of each of the first two GPUs of a balanced tree.
    half: Rate,
}

impl Rates {
    fn of(trial: &Trial, gpus: usize) -> Self {
        Self {
            intra: Rate::new(trial.intra),
            double: Rate::new(trial.intra * 2.0),
            part: Rate::new(trial.intra * portion(gpus)),
            inter: Rate::new(trial.inter),
            half: Rate::new(trial.inter / 2.0),
        }
    }
}

/// What one of the others gets of a channel.
fn portion(gpus: usize) -> f32 {
    (1.0 / f64::from((gpus.max(2) - 1) as f32)) as f32
}

/// A NIC's port while channels use it.
#[derive(Debug, Clone)]
struct Port {
    left: f32,
    /// Ports of the same chip and number, itself too.
    shared: Vec<u16>,
}

/// The state of the searches of a system; links keep traces from one to the next, as in NCCL.
pub(super) struct Searcher {
    pub(super) world: World,
    routes: Routes,
    nics: NicOrder,
    gpu_order: GpuOrder,
    ports: Vec<Port>,
    /// By NIC the GPU that it is for.
    own_gpu: Vec<Option<usize>>,
    /// By NIC the GPUs where a channel begins.
    near: Vec<Vec<u32>>,
    /// By GPU the channels that it is in, a bit each.
    used: Vec<u64>,
    /// Candidates of the positions above, behind one another.
    pending: Vec<u16>,
    rates: Rates,
    pub(super) trial: Trial,
    pub(super) best: Trial,
    /// Steps left; 0 once they ran out, [`PERFECT`] once nothing better can come.
    pub(super) budget: i32,
    /// Steps taken by all searches.
    pub(super) steps: u64,
}

impl Searcher {
    pub(super) fn new(mut world: World) -> Result<Self> {
        let gpus = world.gpus();
        let nets = world.nets();
        let net = |index: usize| world.system.net(index);
        let twins = |index: usize| {
            let (asic, port) = (net(index).asic, net(index).port);
            let same = (0..nets).filter(|&n| net(n).asic == asic && net(n).port == port);
            same.map(|n| n as u16).collect()
        };
        let ports =
            (0..nets).map(|n| Port { left: net(n).rate, shared: twins(n) }).collect::<Vec<_>>();
        let own_gpu = if world.inter {
            let own = |n| world.locals.gpu(&world.system, &world.paths, n);
            (0..nets).map(own).collect::<Result<Vec<_>>>()?
        } else {
            vec![None; nets]
        };
        let begin = if world.version().is_new() { nearest } else { fastest };
        let near = world.system.of(Kind::Net).iter();
        let near = near.map(|&net| begin(&world.paths, net, Kind::Gpu)).collect();
        let empty = Trial::empty(Pattern::Ring, world.levels.loc, gpus, 0);
        Ok(Self {
            routes: Routes::new(&world),
            nics: NicOrder::default(),
            gpu_order: GpuOrder::new(&world),
            ports,
            own_gpu,
            near,
            used: vec![0; gpus],
            pending: Vec::new(),
            rates: Rates::of(&empty, gpus),
            trial: empty.clone(),
            best: empty,
            budget: 0,
            steps: 0,
            world,
        })
    }

    /// Tries to make `best` better with what `trial` is held to, within the budget.
    pub(super) fn search(&mut self) {
        if self.world.inter {
            self.nics.prepare(&mut self.world, self.trial.level_inter);
        }
        self.rates = Rates::of(&self.trial, self.gpus());
        self.channel();
    }

    fn version(&self) -> Version {
        self.world.version()
    }

    fn gpus(&self) -> usize {
        self.used.len()
    }

    /// The next channel.
    fn channel(&mut self) {
        let last = Some(self.gpus() - 1);
        let ring = self.trial.pattern == Pattern::Ring;
        if self.world.inter {
            let to_net = if ring { last } else { Some(0) };
            self.from_nics(Turns { to_net, to_first: None });
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

    /// A channel that comes in through a NIC.
    fn from_nics(&mut self, turns: Turns) {
        let whole = f32::trunc(self.trial.inter);
        let count = self.nics.all.len();
        for turn in 0..count {
            let channel = self.trial.channels;
            let version = self.version();
            let at = if version == Version::V2_18 { turn } else { (channel + turn) % count };
            let net = usize::from(self.nics.all[at]);
            if self.trial.pattern == Pattern::Nvls && version == Version::V2_21 && turn > 0 {
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
            let heads = self.trial.pattern.has_heads();
            let done = if heads { self.head(net, turns) } else { self.through(net, turns) };
            match done {
                Done::Next => self.charge(net, whole),
                Done::NextCharged => {}
                Done::Found => return self.charge(net, whole),
                Done::Broken => return,
            }
        }
    }

    /// Whether a channel may begin at a NIC: of pairs that cross, the second begins where the first
    /// ended.
    fn follows(&self, channel: usize, net: usize) -> bool {
        let pairs = match self.version() {
            Version::V2_18 => false,
            Version::V2_21 => self.trial.cross_nic != 0,
            _ => self.trial.pattern == Pattern::Ring && self.trial.cross_nic == 2,
        };
        !pairs || channel % 2 == 0 || usize::from(self.trial.nets[channel - 1][1]) == net
    }

    /// Adds to what a port has left, and to what its twins have.
    fn charge(&mut self, net: usize, rate: f32) {
        for at in 0..self.ports[net].shared.len() {
            let twin = usize::from(self.ports[net].shared[at]);
            self.ports[twin].left += rate;
        }
    }

    /// A head behind a NIC, for NVLS and in-network reduction.
    fn head(&mut self, net: usize, turns: Turns) -> Done {
        let channel = self.trial.channels;
        if self.version() == Version::V2_18 {
            return self.head_2_18(turns);
        }
        if channel >= self.nics.all.len() {
            return Done::Next;
        }
        let Some(gpu) = self.own_gpu[net] else { return Done::Next };
        if self.version().is_new() && (0..channel).any(|c| self.trial.gpu(c, 0) == gpu) {
            return Done::Next;
        }
        self.start(Some(net), gpu, turns, Order::Free);
        if self.version().is_new() { Done::Found } else { Done::Next }
    }

    /// 2.18 takes a NIC's number for a GPU's, and reads behind its list: zeroes as far as memory was
    /// handed out, then what makes it give up.
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
            // A GPU that is none leads nowhere, and costs its step.
            self.budget -= 1;
            self.steps += 1;
        }
        Done::Next
    }

    /// Rings and trees behind a NIC.
    fn through(&mut self, net: usize, turns: Turns) -> Done {
        let channel = self.trial.channels;
        let version = self.version();
        let replay = channel > 0 && (self.trial.same || version < Version::V2_30);
        if replay {
            let first = self.trial.gpu(channel - 1, 0);
            self.start(Some(net), first, turns, Order::Replay);
        }
        if channel > 0 && self.trial.same {
            return Done::Next;
        }
        if channel == 0 && (!self.world.has_switch() || version == Version::V2_18) {
            let budget = std::mem::replace(&mut self.budget, PCI_ORDER_STEPS);
            self.start(Some(net), 0, turns, Order::Pci);
            self.budget = if self.budget == PERFECT { PERFECT } else { budget };
        }
        if version.is_new() { self.from_near(net, turns) } else { self.from_fastest(net, turns) }
    }

    /// Begins at the GPUs that are nearest to a NIC.
    fn from_near(&mut self, net: usize, turns: Turns) -> Done {
        let own = self.own_gpu[net].filter(|_| self.version() >= Version::V2_30);
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

    /// Before 2.27: at those with the fastest path, of these the shortest.
    fn from_fastest(&mut self, net: usize, turns: Turns) -> Done {
        let Some(&first) = self.near[net].first() else { return Done::Next };
        let rate = self.world.path((Kind::Net, net), (Kind::Gpu, first as usize)).rate;
        if rate < f32::trunc(self.trial.inter) {
            return Done::Next;
        }
        if self.version() == Version::V2_18 {
            // First those whose PCI link still carries something.
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

    /// Goes to a GPU, if links carry it, and comes back.
    #[inline]
    fn go(&mut self, from: Stop, gpu: usize, position: usize, turns: Turns, order: Order) {
        let rate = if let Stop::Net(_) = from { self.rates.inter } else { self.rates.intra };
        if !self.walk(from, Stop::Gpu(gpu), rate) {
            return;
        }
        let bit = 1 << self.trial.channels;
        self.used[gpu] ^= bit;
        self.arrive(gpu, position, turns, order);
        self.used[gpu] ^= bit;
        self.walk_back(from, Stop::Gpu(gpu), rate);
    }

    /// Arrives at a GPU.
    fn arrive(&mut self, gpu: usize, position: usize, turns: Turns, order: Order) {
        if self.budget <= 0 {
            return;
        }
        self.budget -= 1;
        self.steps += 1;
        let gpus = self.gpus();
        let channel = self.trial.channels;
        self.trial.put(channel, position, gpu);
        if turns.to_net == Some(position) {
            self.leave(gpu, position, turns, order);
        } else if self.trial.pattern == Pattern::Nvls {
            self.switch(gpu);
        } else if self.trial.pattern == Pattern::CollnetDirect {
            self.all_others(gpu);
        } else if position + 1 < gpus {
            self.next(gpu, position, turns, order);
        } else if turns.to_first == Some(position) {
            let first = Stop::Gpu(self.trial.gpu(channel, 0));
            let rate = self.rates.intra;
            if self.walk(Stop::Gpu(gpu), first, rate) {
                self.complete();
                self.walk_back(Stop::Gpu(gpu), first, rate);
            }
        } else {
            self.complete();
        }
    }

    /// A channel is complete: is it better, and what comes next?
    fn complete(&mut self) {
        if self.budget <= 0 {
            return;
        }
        self.budget -= 1;
        self.steps += 1;
        self.trial.channels += 1;
        if self.is_better() {
            self.best.take(&self.trial);
            if self.trial.channels == self.trial.most {
                self.budget = PERFECT;
            }
        }
        if self.trial.channels < self.trial.most {
            self.channel();
        }
        self.trial.channels -= 1;
    }

    fn is_better(&self) -> bool {
        let (trial, best) = (&self.trial, &self.best);
        if trial.channels < trial.least {
            return false;
        }
        let old = self.version() == Version::V2_18;
        if trial.pattern == Pattern::Nvls {
            let more = trial.channels > best.channels && trial.channels <= self.gpus();
            return more || !old && trial.net_rate() > best.net_rate();
        }
        let mut least = best.rate();
        if old {
            // 2.18 gives channels that stay at one NIC 15 % more.
            let crossing = i32::from(best.cross_nic) - i32::from(trial.cross_nic);
            least *= (1.0 - f64::from(crossing) * 0.15) as f32;
        }
        let rate = trial.rate();
        let alike = trial.pattern == best.pattern && trial.cross_nic == best.cross_nic;
        rate > least || rate >= least && alike && trial.hops < best.hops
    }

    /// Leaves for a NIC, and goes on from the same GPU.
    fn leave(&mut self, gpu: usize, position: usize, turns: Turns, order: Order) {
        let channel = self.trial.channels;
        let balanced = self.trial.pattern == Pattern::BalancedTree;
        let rate = if balanced { self.rates.half } else { self.rates.inter };
        // The second GPU of a balanced tree bears the other half.
        let to_net = (balanced && position == 0).then_some(1);
        let turns = Turns { to_net, ..turns };
        let count = self.nics.of(&mut self.world, gpu).len();
        for at in 0..count {
            let net = usize::from(self.nics.of(&mut self.world, gpu)[at]);
            if !self.may_end(channel, net, position) {
                continue;
            }
            if self.walk(Stop::Gpu(gpu), Stop::Net(net), rate) {
                self.trial.nets[channel][1] = net as u16;
                self.arrive(gpu, position, turns, order);
                self.walk_back(Stop::Gpu(gpu), Stop::Net(net), rate);
            }
        }
    }

    /// Whether a channel may end at a NIC.
    fn may_end(&self, channel: usize, net: usize, position: usize) -> bool {
        let trial = &self.trial;
        let start = usize::from(trial.nets[channel][0]);
        let (first, last) = (self.world.system.net(start), self.world.system.net(net));
        if let (Some(a), Some(b)) = (first.plane, last.plane)
            && a != b
        {
            return false;
        }
        if trial.pattern == Pattern::Tree && net != start {
            return false;
        }
        let twin = first.asic == last.asic && first.port == last.port;
        let returns = || channel % 2 == 0 || net == usize::from(trial.nets[channel - 1][0]);
        let allowed = match self.version() {
            Version::V2_18 => trial.cross_nic == 1 || twin,
            Version::V2_21 => (trial.cross_nic == 1 || twin) && (trial.cross_nic == 0 || returns()),
            _ if trial.pattern == Pattern::Ring && trial.cross_nic == 2 => returns(),
            _ if trial.cross_nic == 0 => match (first.rail, last.rail) {
                (Some(a), Some(b)) => a == b,
                _ => twin,
            },
            _ => true,
        };
        let half = trial.pattern == Pattern::BalancedTree && position != 0;
        allowed && (!half || net == usize::from(trial.nets[channel][1]))
    }

    /// Tries every GPU that may come next.
    fn next(&mut self, gpu: usize, position: usize, turns: Turns, order: Order) {
        match order {
            Order::Pci => {
                return self.go(Stop::Gpu(gpu), position + 1, position + 1, turns, order);
            }
            Order::Replay => {
                let next = self.trial.gpu(self.trial.channels - 1, position + 1);
                return self.go(Stop::Gpu(gpu), next, position + 1, turns, order);
            }
            Order::Free => {}
        }
        if self.world.has_switch() && self.version() > Version::V2_18 {
            for next in self.neighbours(gpu) {
                if let Some(next) = next {
                    self.go(Stop::Gpu(gpu), next, position + 1, turns, order);
                }
            }
            return;
        }
        let toward = match turns.to_net {
            None => Toward::Gpus,
            Some(last) if last == position + 1 => Toward::NicNext,
            Some(_) => Toward::NicLater,
        };
        let from = self.pending.len();
        self.list(gpu, toward);
        let to = self.pending.len();
        for at in from..to {
            let next = usize::from(self.pending[at]);
            self.go(Stop::Gpu(gpu), next, position + 1, turns, order);
        }
        self.pending.truncate(from);
    }

    /// Behind an `NVSwitch` only neighbours by number are tried, since it prefers few peers.
    #[inline]
    fn neighbours(&self, gpu: usize) -> [Option<usize>; 2] {
        let gpus = self.gpus();
        let bit = 1 << self.trial.channels;
        let free = |next: usize| {
            let reached = self.routes.get(Stop::Gpu(gpu), Stop::Gpu(next)).hops > 0;
            (reached && next != gpu && self.used[next] & bit == 0).then_some(next)
        };
        let before = if gpu == 0 { gpus - 1 } else { gpu - 1 };
        let after = if gpu + 1 == gpus { 0 } else { gpu + 1 };
        let both = before != after;
        match self.trial.pattern {
            Pattern::Ring => [if both { free(before) } else { None }, free(after)],
            Pattern::BalancedTree => [free(after), if both { free(before) } else { None }],
            _ => [free(after), None],
        }
    }

    /// Puts the unused GPUs behind the pending ones, the best first.
    fn list(&mut self, gpu: usize, toward: Toward) {
        let from = self.pending.len();
        let bit = 1 << self.trial.channels;
        let used = &self.used;
        let free = |next: &&u16| used[usize::from(**next)] & bit == 0;
        if toward == Toward::Gpus {
            self.pending.extend(self.gpu_order.plain(gpu).iter().filter(free));
            return;
        }
        let net = usize::from(self.trial.nets[self.trial.channels][0]);
        self.pending.extend(self.gpu_order.netted(&self.world, net, gpu).iter().filter(free));
        let found = &mut self.pending[from..];
        // Between the rate and the length of the way from the NIC stands what PCI has left.
        let key = |gpu: u16| {
            let gpu = usize::from(gpu);
            let rate = self.world.path((Kind::Net, net), (Kind::Gpu, gpu)).rate as i32;
            (Reverse(rate), Reverse(self.routes.pci_left(gpu)))
        };
        if !found.is_sorted_by_key(|&gpu| key(gpu)) {
            found.sort_by_key(|&gpu| key(gpu));
        }
        let alike = |two: &[u16]| {
            GpuOrder::alike(&self.world, gpu, usize::from(two[0]), usize::from(two[1]))
        };
        if toward == Toward::NicLater && found.windows(2).all(alike) {
            found.reverse();
        }
    }

    /// A head of NVLS: the switch sends to every GPU and every GPU to the switch, twice as much for
    /// the head.
    fn switch(&mut self, head: usize) {
        let gpus = self.gpus();
        let (mut down, mut up) = (0, 0);
        while down < gpus && self.share(Stop::Switch, Stop::Gpu(down), down == head) {
            down += 1;
        }
        if down == gpus {
            while up < gpus && self.share(Stop::Gpu(up), Stop::Switch, up == head) {
                up += 1;
            }
            if up == gpus {
                self.complete();
            }
        }
        for gpu in (0..up).rev() {
            self.share_back(Stop::Gpu(gpu), Stop::Switch, gpu == head);
        }
        for gpu in (0..down).rev() {
            self.share_back(Stop::Switch, Stop::Gpu(gpu), gpu == head);
        }
    }

    /// A way between GPU and switch; the head's is twice as wide, and may be of any type.
    fn share(&mut self, from: Stop, to: Stop, head: bool) -> bool {
        if !head {
            return self.walk(from, to, self.rates.intra);
        }
        let route = self.routes.get(from, to);
        if route.level >= self.world.levels.dis && self.version().is_new() {
            return false;
        }
        let taken = self.routes.take(route, self.rates.double);
        self.trial.hops += if taken { 2 * route.hops as i32 } else { 0 };
        taken
    }

    fn share_back(&mut self, from: Stop, to: Stop, head: bool) {
        let (times, rate) = if head { (2, self.rates.double) } else { (1, self.rates.intra) };
        let route = self.routes.get(from, to);
        self.routes.give_back(route, rate);
        self.trial.hops -= times * route.hops as i32;
    }

    /// A head of in-network reduction by all GPUs at once: it sends every other its share.
    fn all_others(&mut self, head: usize) {
        let gpus = self.gpus();
        let (mut out, mut back) = (0, 0);
        while out < gpus && self.part(Stop::Gpu(head), Stop::Gpu(out)) {
            out += 1;
        }
        if out == gpus {
            while back < gpus && self.part(Stop::Gpu(back), Stop::Gpu(head)) {
                back += 1;
            }
            if back == gpus {
                let others = (0..gpus).filter(|&gpu| gpu != head);
                for (index, gpu) in others.enumerate() {
                    self.trial.put(self.trial.channels, index + 1, gpu);
                }
                self.complete();
            }
        }
        for gpu in (0..back).rev() {
            self.part_back(Stop::Gpu(gpu), Stop::Gpu(head));
        }
        for gpu in (0..out).rev() {
            self.part_back(Stop::Gpu(head), Stop::Gpu(gpu));
        }
    }

    fn part(&mut self, from: Stop, to: Stop) -> bool {
        let portion = portion(self.gpus());
        if portion == 1.0 {
            return self.walk(from, to, self.rates.intra);
        }
        let route = self.routes.get(from, to);
        if route.level >= self.world.levels.dis {
            return false;
        }
        let taken = self.routes.take(route, self.rates.part);
        if taken {
            self.trial.hops = (self.trial.hops as f32 + portion * route.hops as f32) as i32;
        }
        taken
    }

    fn part_back(&mut self, from: Stop, to: Stop) {
        let portion = portion(self.gpus());
        let route = self.routes.get(from, to);
        self.routes.give_back(route, self.rates.part);
        self.trial.hops = (self.trial.hops as f32 - portion * route.hops as f32) as i32;
    }

    /// Walks a path, if its type is allowed and every link carries it.
    #[inline]
    fn walk(&mut self, from: Stop, to: Stop, rate: Rate) -> bool {
        let route = self.routes.get(from, to);
        let old = self.world.system.version == Version::V2_18;
        if old && route.hops == 0 {
            return true;
        }
        let inside = !matches!(from, Stop::Net(_)) && !matches!(to, Stop::Net(_));
        let most = if inside { self.trial.level_intra } else { self.trial.level_inter };
        let far = |level: Level| level > most;
        let lost = self.world.levels.dis;
        if route.level >= lost && self.version().is_new()
            || far(route.level)
            || self.trial.pattern.is_tree() && far(route.back)
        {
            return false;
        }
        let taken = self.routes.take(route, rate);
        if taken {
            self.trial.hops += route.hops as i32;
        }
        taken
    }

    #[inline]
    fn walk_back(&mut self, from: Stop, to: Stop, rate: Rate) {
        let route = self.routes.get(from, to);
        self.routes.give_back(route, rate);
        self.trial.hops -= route.hops as i32;
    }
}

/// Before 2.27: the GPUs with the fastest path from a NIC, of these those with the shortest.
fn fastest(paths: &Paths, net: usize, kind: Kind) -> Vec<u32> {
    let to = paths.to_all(net, kind);
    let rate = to.iter().map(|path| path.rate).fold(0.0, f32::max);
    let fast = |path: &&Path| path.rate == rate;
    let hops = to.iter().filter(fast).map(|path| path.hops).min();
    let best = to.iter().enumerate().filter(|(_, path)| fast(path) && Some(path.hops) == hops);
    best.map(|(gpu, _)| gpu as u32).collect()
}

/// How a NIC was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// The next NIC follows.
    Next,
    /// The next one follows, and what this one was charged with is forgotten.
    NextCharged,
    /// No other NIC is looked at.
    Found,
    /// 2.18 gave up, and forgot what the NIC was charged with.
    Broken,
}
