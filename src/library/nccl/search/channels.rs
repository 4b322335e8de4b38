//! One search: channels one after another, GPU after GPU, as far as links and budget allow.
//!
//! A channel is an order of GPUs; with several nodes it has a NIC before and after the GPUs:
//!
//! ```text
//! ring   NIC → gpu → gpu → … → gpu → NIC          tree   NIC → gpu → gpu → … → gpu
//!                                                         NIC ◄──┘ (balanced: half from the second)
//! ```
//!
//! The bandwidth that a channel takes from links, NICs and GPUs is given back when all continuations
//! have been tried. Every arrival at a GPU and every complete channel costs one step of the budget.
//! When no step is left, the search stops. Therefore budget and order decide which channels are
//! found, and both are the same as in NCCL.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc`.

use std::cmp::Reverse;

use super::order::{GpuOrder, Toward};
use super::routes::{Rate, Stop};
use super::searcher::{PERFECT, Searcher};
use super::trial::Pattern;
use crate::library::nccl::since;
use crate::library::nccl::topology::{Kind, Level};

/// How the next GPU is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The best first.
    Free,
    /// In the order of the file.
    Pci,
    /// In the order of the previous channel.
    Replay,
}

/// Where a channel turns back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns {
    /// The position whose GPU goes back to a NIC.
    pub(super) to_net: Option<usize>,
    /// The position whose GPU goes back to the first.
    pub(super) to_first: Option<usize>,
}

impl Searcher {
    /// Goes to a GPU, if links carry it, and comes back.
    #[inline]
    pub(super) fn go(
        &mut self,
        from: Stop,
        gpu: usize,
        position: usize,
        turns: Turns,
        order: Order,
    ) {
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
    pub(super) fn arrive(&mut self, gpu: usize, position: usize, turns: Turns, order: Order) {
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

    /// Counts a complete channel: keeps it if it is better, and tries the next channel.
    pub(super) fn complete(&mut self) {
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
        let version = self.version();
        if trial.pattern == Pattern::Nvls && version.has(since::NVLS_MORE_CHANNELS) {
            let more = trial.channels > best.channels && trial.channels <= self.gpus();
            let rates = version.has(since::NVLS_RATE);
            return more || rates && trial.net_rate() > best.net_rate();
        }
        let mut least = best.rate();
        if version.has(since::CROSSING_COSTS) {
            // Channels that stay at one NIC are worth 15 % more.
            let crossing = i32::from(best.cross_nic) - i32::from(trial.cross_nic);
            least *= (1.0 - f64::from(crossing) * 0.15) as f32;
        }
        let rate = trial.rate();
        let alike = trial.pattern == best.pattern && trial.cross_nic == best.cross_nic;
        rate > least || rate >= least && alike && trial.hops < best.hops
    }

    /// Goes to a NIC, and continues from the same GPU.
    fn leave(&mut self, gpu: usize, position: usize, turns: Turns, order: Order) {
        let channel = self.trial.channels;
        let balanced = self.trial.pattern == Pattern::BalancedTree;
        let rate = if balanced { self.rates.half } else { self.rates.inter };
        // The second GPU of a balanced tree carries the other half.
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
        // Across hosts a rail may be defined by the place of its NICs.
        let version = self.version();
        let by_place = self.world.rail_per_host && version.has(since::RAIL_PER_HOST);
        let chip = match by_place && first.host != last.host {
            true => first.nic == last.nic,
            false => first.asic == last.asic,
        };
        let twin = chip && first.port == last.port;
        let returns =
            || channel.is_multiple_of(2) || net == usize::from(trial.nets[channel - 1][0]);
        let allowed = match trial.cross_nic {
            cross if !version.has(since::CROSSED_IS_2) => match cross {
                1 => !version.has(since::PAIRED_NICS) || returns(),
                _ => twin,
            },
            _ if trial.pattern == Pattern::Ring && trial.cross_nic == 2 => returns(),
            _ if trial.cross_nic == 0 => match (first.rail, last.rail) {
                (Some(a), Some(b)) => {
                    a == b
                        && (!version.has(since::RAILS_MADE_UP)
                            || first.shares_rail(last, self.world.rail_per_host))
                }
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
        let switched = self.world.has_switch();
        if switched && self.version().has(since::NEIGHBOURS_ONLY) {
            for next in self.neighbours(gpu).into_iter().flatten() {
                self.go(Stop::Gpu(gpu), next, position + 1, turns, order);
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
        if switched && self.version().has(since::NEIGHBOURS_FIRST) {
            for next in self.neighbours(gpu).into_iter().flatten().rev() {
                let listed = &mut self.pending[from..];
                if let Some(at) = listed.iter().position(|&other| usize::from(other) == next) {
                    listed[..=at].rotate_right(1);
                }
            }
        }
        for at in from..to {
            let next = usize::from(self.pending[at]);
            self.go(Stop::Gpu(gpu), next, position + 1, turns, order);
        }
        self.pending.truncate(from);
    }

    /// With an `NVSwitch` only neighbors by number are tried, since it prefers few peers.
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

    /// Adds the unused GPUs after the pending ones, best first.
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
        // PCI's remaining bandwidth comes between the rate and the length of the path from the NIC.
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

    /// Walks a path, if its type is allowed and every link carries it.
    #[inline]
    pub(super) fn walk(&mut self, from: Stop, to: Stop, rate: Rate) -> bool {
        self.ways += 1;
        let route = self.routes.get(from, to);
        if self.walks.no_hops_succeed && route.hops == 0 {
            return true;
        }
        let inside = !matches!(from, Stop::Net(_)) && !matches!(to, Stop::Net(_));
        let most = if inside { self.trial.level_intra } else { self.trial.level_inter };
        let far = |level: Level| level > most;
        let lost = self.world.levels.dis;
        if route.level >= lost && self.walks.lost_fail
            || far(route.level)
            || self.walks.trees_back && self.trial.pattern.is_tree() && far(route.back)
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
    pub(super) fn walk_back(&mut self, from: Stop, to: Stop, rate: Rate) {
        let route = self.routes.get(from, to);
        self.routes.give_back(route, rate);
        self.trial.hops -= route.hops as i32;
    }
}
