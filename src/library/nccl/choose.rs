//! A call's choice: the cell with the lowest time, then its numbers of channels and threads.

use super::Arch;
use super::blocks::{Limit, collnet_direct_channels, is_short};
use super::communicator::Communicator;
use super::constants;
use super::cost_model::{Best, CostModel, Windows};
use super::lanes::{CELLS, Cells, LANES, Lanes, Prepared, RING};
use super::table::Table;
use super::{Algo, Call, Decision, Function, Micros, Operation, Proto, Reduction, Version, since};
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Ratio};

/// A communicator's table, prepared for many decisions.
#[derive(Debug, Clone)]
pub struct Chooser {
    functions: [Prepared; 5],
    limits: [Limit; CELLS.len()],
    rare: Rare,
}

/// Data that few decisions need.
#[derive(Debug, Clone)]
struct Rare {
    /// The cost models that replace the table since 2.31.
    models: Option<Box<CostModel>>,
    /// The decision for a single rank, which needs no table.
    alone: Option<Decision>,
    /// The bandwidth of rings if no other algorithm is left, by function; until 2.23.
    backup: [[f32; 3]; 5],
    /// Bytes per thread below which channels are given up.
    thresholds: [u32; CELLS.len()],
    heads: u32,
    /// Operations of a group for which all algorithms but rings pay their latency once.
    pipelined: u32,
    /// Whether a time of the ring is multiplied by 1024, by function.
    avoids_ring: [bool; 5],
    /// Whether the release takes such calls at all, by function.
    takes: [bool; 5],
}

impl Chooser {
    /// Prepares a table for calls of one data type and reduction.
    #[must_use]
    pub fn new(comm: &Communicator, version: Version, table: &Table, reduction: Reduction) -> Self {
        let models = table.models.as_ref().map(|models| Box::new(models.with(reduction)));
        let scope = Scope { comm, version, reduction };
        let alone = (comm.ranks == 1).then(|| Decision {
            algo: Algo::Ring,
            proto: Proto::Simple,
            channels: comm.call_channels,
            threads: table.threads(Algo::Ring, Proto::Simple) + 32,
            time: version.has(since::ONE_TABLE).then_some(Micros(0.0)),
        });
        let threshold = |(a, p): (Algo, Proto)| table.thresholds[a as usize][p as usize];
        let is_plain = alone.is_none() && models.is_none();
        let avoids_ring = |f| reduction.shuns_rings(f, comm.ranks);
        let functions = Function::ALL.map(|f| scope.prepare(f, table, is_plain && !avoids_ring(f)));
        Self {
            functions,
            limits: CELLS.map(|cell| Limit::of(comm, version, table, cell)),
            rare: Rare {
                models,
                alone,
                backup: table.backup,
                thresholds: CELLS.map(threshold),
                heads: comm.collnet_heads,
                pipelined: constants::of(version).pipelined,
                avoids_ring: Function::ALL.map(avoids_ring),
                takes: Function::ALL.map(|f| scope.takes(f)),
            },
        }
    }

    /// NCCL's choice; `None` if nothing is available, which is an error in NCCL.
    #[must_use]
    pub fn decide(&self, call: &Call) -> Option<Decision> {
        let prepared = &self.functions[call.function as usize];
        let known = if call.pipelined == 1 { prepared.known(call.size.0) } else { None };
        match known {
            Some(known) => Some(self.decision(call, known)),
            None => self.compared(call),
        }
    }

    /// The decision without a known cell: by the least of all cells' times, or without the table.
    #[inline(never)]
    fn compared(&self, call: &Call) -> Option<Decision> {
        if !self.rare.takes[call.function as usize] {
            return None;
        }
        if self.rare.models.is_some() || self.rare.alone.is_some() {
            return self.rare.decide(call);
        }
        let prepared = &self.functions[call.function as usize];
        let best = prepared.least(&self.times(call, &prepared.bandwidths()));
        Some(self.decision(call, best.or_else(|| self.last_resort(call))?))
    }

    #[inline(always)]
    fn decision(&self, call: &Call, (lane, time): (usize, f32)) -> Decision {
        let (algo, proto) = CELLS[lane];
        let (channels, threads) = self.blocks(lane, call.size.0);
        Decision { algo, proto, channels, threads, time: Some(Micros(time)) }
    }

    /// The decision if no other algorithm may run; `None` if this one is not available, or cost models decide.
    #[must_use]
    pub fn only(&self, call: &Call, algo: Algo) -> Option<Decision> {
        let ranked = if self.rare.models.is_some() { Vec::new() } else { self.ranked(call) };
        let (_, proto, time) = ranked.into_iter().find(|found| found.0 == algo)?;
        let lane = CELLS.iter().position(|&cell| cell == (algo, proto))?;
        Some(self.decision(call, (lane, time.0)))
    }

    /// Whether a cell takes part in the choice.
    #[must_use]
    pub fn considers(&self, function: Function, algo: Algo, proto: Proto) -> bool {
        if !self.rare.takes[function as usize] {
            return false;
        }
        if let Some(models) = &self.rare.models {
            return models.considers(function, algo, proto);
        }
        if let Some(alone) = self.rare.alone {
            return (algo, proto) == (alone.algo, alone.proto);
        }
        let lane = CELLS.iter().position(|&cell| cell == (algo, proto));
        lane.is_some_and(|i| self.functions[function as usize].bandwidths()[i] > 0.0)
    }

    /// The cost models that replace the table since 2.31.
    #[must_use]
    pub fn models(&self) -> Option<&CostModel> {
        self.rare.models.as_deref()
    }

    /// A caveat about the answers, if they are less certain than others.
    #[must_use]
    pub fn caveat(&self) -> Option<&'static str> {
        self.models().and_then(CostModel::caveat)
    }

    /// The size from which the ring's latency in Simple is longer for a large all-reduce.
    pub(super) fn plateau(&self) -> u64 {
        self.functions[Function::AllReduce as usize].plateau
    }

    /// The fraction of its bandwidth that a tree or a similar algorithm reaches at a size; 1 for
    /// others.
    #[must_use]
    pub fn factor(&self, algo: Algo, proto: Proto, size: Bytes) -> Ratio {
        if let Some(models) = &self.rare.models {
            return models.reached(size, algo, proto);
        }
        let lane = CELLS.iter().position(|&cell| cell == (algo, proto));
        lane.map_or(Ratio(1.0), |i| Ratio(f64::from(self.functions[0].row(size.0)[i])))
    }

    /// The latency that a cell's time at a size contains; `None` if the time comes from a cost model.
    #[must_use]
    pub fn latency(&self, call: &Call, algo: Algo, proto: Proto) -> Option<Micros> {
        if self.rare.models.is_some() || self.rare.alone.is_some() {
            return None;
        }
        let lane = CELLS.iter().position(|&cell| cell == (algo, proto))?;
        let prepared = &self.functions[call.function as usize];
        let latency = match lane == RING + 2 {
            true => prepared.ring_latency(call.size.0),
            false => prepared.latencies()[lane],
        };
        Some(Micros(latency))
    }

    /// Every available cell with its time, fastest first; ties in NCCL's order.
    #[must_use]
    pub fn ranked(&self, call: &Call) -> Vec<(Algo, Proto, Micros)> {
        if !self.rare.takes[call.function as usize] {
            return Vec::new();
        }
        if let Some(models) = &self.rare.models {
            let ranked = models.ranked(call, Windows::None);
            let cell = |best: &Best| best.decision().and_then(|d| Some((d.algo, d.proto, d.time?)));
            return ranked.iter().filter_map(cell).collect();
        }
        if let Some(d) = self.rare.alone {
            return vec![(d.algo, d.proto, d.time.unwrap_or_default())];
        }
        let prepared = &self.functions[call.function as usize];
        let times = self.times(call, &prepared.bandwidths());
        let available = CELLS.iter().zip(times).filter(|&(_, t)| t < prepared.slowest);
        let mut ranked: Vec<_> = available.map(|(&(a, p), t)| (a, p, Micros(t))).collect();
        rising(&mut ranked, |a| f64::from(a.2.0));
        ranked
    }

    /// The rings that NCCL until 2.23 falls back to, even if they are disabled.
    #[cold]
    fn last_resort(&self, call: &Call) -> Option<(usize, f32)> {
        let mut rings = [0.0; LANES];
        rings[RING..RING + 3].copy_from_slice(&self.rare.backup[call.function as usize]);
        let prepared = &self.functions[call.function as usize];
        prepared.least(&self.times(call, &rings))
    }

    /// Every cell's time in microseconds; infinite if it has no bandwidth.
    // Inlined, like everything that it calls, so that the lanes stay in registers.
    #[inline(always)]
    fn times(&self, call: &Call, bandwidth: &Lanes) -> Lanes {
        let prepared = &self.functions[call.function as usize];
        if call.pipelined != 1 || self.rare.avoids_ring[call.function as usize] {
            return self.times_of_many(call, &prepared.moving(call.size.0, bandwidth));
        }
        prepared.times(call.size.0, bandwidth)
    }

    /// The same for several operations at once, or if rings are a last resort.
    #[cold]
    fn times_of_many(&self, call: &Call, moving: &Lanes) -> Lanes {
        let prepared = &self.functions[call.function as usize];
        let mut times = prepared.latencies();
        times[RING + 2] = prepared.ring_latency(call.size.0);
        let other = call.pipelined.div_ceil(self.rare.pipelined) as f32;
        for (i, time) in times.iter_mut().enumerate() {
            let is_ring = (RING..RING + 3).contains(&i);
            *time = *time * if is_ring { call.pipelined as f32 } else { other } + moving[i];
            if is_ring && self.rare.avoids_ring[call.function as usize] {
                *time *= 1024.0;
            }
        }
        times
    }

    /// Channels and threads of a cell. Written so that sizes need no branch.
    #[inline(always)]
    fn blocks(&self, lane: usize, size: u64) -> (u32, u32) {
        let limit = &self.limits[lane];
        if limit.is_odd {
            return self.odd_blocks(lane, size);
        }
        let channels = limit.filled(size).clamp(limit.least.into(), limit.channels.into());
        let halvings: u32 = limit.halvings.iter().map(|&h| u32::from(size < h.into())).sum();
        (channels, limit.helped(u32::from(limit.threads) >> halvings))
    }

    #[cold]
    fn odd_blocks(&self, lane: usize, size: u64) -> (u32, u32) {
        let limit = &self.limits[lane];
        let threshold = self.rare.thresholds[lane];
        let (mut channels, mut threads) = (u32::from(limit.channels), u32::from(limit.threads));
        if CELLS[lane].0 == Algo::CollNetDirect {
            return (
                collnet_direct_channels(self.rare.heads, channels, threads, threshold, size),
                threads,
            );
        }
        while channels >= 2 && is_short(size, [channels, threads, threshold]) {
            channels -= 1;
        }
        if channels == 1 {
            while threads.is_multiple_of(128) && is_short(size, [1, threads, threshold]) {
                threads /= 2;
            }
        }
        (channels, limit.helped(threads))
    }
}

impl Rare {
    #[cold]
    fn decide(&self, call: &Call) -> Option<Decision> {
        match &self.models {
            Some(models) => models.decide(call, Windows::None)?.decision(),
            None => self.alone,
        }
    }
}

/// What decides about cells besides the table.
struct Scope<'a> {
    comm: &'a Communicator,
    version: Version,
    reduction: Reduction,
}

impl Scope<'_> {
    fn prepare(&self, function: Function, table: &Table, is_plain: bool) -> Prepared {
        let f = function as usize;
        let mut latency = [0.0; LANES];
        let mut bandwidth = [0.0; LANES];
        for (i, &(algo, proto)) in CELLS.iter().enumerate() {
            if self.takes(function) && self.may(function, algo) {
                latency[i] = table.latency[f][algo as usize][proto as usize];
                bandwidth[i] = table.bandwidth[f][algo as usize][proto as usize];
            }
        }
        let ring = latency[RING + 2];
        let longer = if self.comm.min_cc < 80 { 1.9 } else { 1.4 };
        let plateaus = function == Function::AllReduce && self.comm.nodes > 1;
        let comm = self.comm;
        let blackwell = self.version.has(since::NVLS_TREE_FACTORS)
            && comm.min_cc >= 100
            && comm.arch == Arch::X86;
        Prepared::new(Cells {
            latency,
            bandwidth,
            plateau: 64 * u64::from(comm.channels) * u64::from(comm.ranks),
            plateau_latency: if plateaus { (f64::from(ring) * longer) as f32 } else { ring },
            slowest: constants::of(self.version).slowest,
            nvls_tree: blackwell,
            // Old versions put less than 64 bytes into the first class of sizes.
            smallest: u8::from(!self.version.has(since::ONE_TABLE)),
            is_plain,
        })
    }

    /// Whether the release takes such calls at all.
    fn takes(&self, function: Function) -> bool {
        self.reduction.is_taken(self.version, function, self.comm.min_cc)
    }

    /// Whether an algorithm is considered at all.
    fn may(&self, function: Function, algo: Algo) -> bool {
        let Communicator { ranks, nodes, collnet, local_ranks, .. } = *self.comm;
        let has = |rule| self.version.has(rule);
        let over_8 = local_ranks > 8;
        match algo {
            Algo::CollNetDirect => collnet && !(has(since::DIRECT_8_RANKS) && over_8),
            Algo::CollNetChain => collnet && !(has(since::CHAIN_8_RANKS) && over_8),
            Algo::Nvls | Algo::NvlsTree => {
                let gathers = function.gathers();
                let wide = has(since::NVLS_32_RANKS) && gathers && local_ranks > 32
                    || has(since::NVLS_32_RANKS_IN_ALL) && gathers && ranks > 32;
                let at_home = has(since::NVLS_GATHERS_AT_HOME) && gathers;
                let alone = algo == Algo::Nvls && nodes > 1 && (!collnet || at_home);
                self.nvls_supports(function) && !wide && !alone
            }
            Algo::Pat => {
                !(function == Function::ReduceScatter
                    && self.reduction.operation == Operation::Scaled)
            }
            Algo::Tree | Algo::Ring => true,
        }
    }

    /// Whether the communicator's switch supports the call.
    fn nvls_supports(&self, function: Function) -> bool {
        let has = |rule| self.version.has(rule);
        let all_gather = function == Function::AllGather;
        if all_gather && has(since::NVLS_GATHERS_UNASKED) && !has(since::NVLS_GATHERS_ASKED) {
            return true;
        }
        let gathers_any = all_gather && has(since::NVLS_GATHERS_ANY);
        let reduces = gathers_any || self.reduction.is_added_in_switch();
        reduces && (self.comm.nvls || !has(since::NVLS_ASKS_COMM))
    }
}
