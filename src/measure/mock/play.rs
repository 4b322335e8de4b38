//! How much longer calls take on a faulty or noisy machine: their schedules are simulated on it and on
//! the healthy one.
//!
//! The expected time is multiplied by the ratio of both, so a fault has its own shape over sizes: calls
//! that only wait for latency do not notice a missing NIC. The time for which a call waits for a late rank
//! is added, since it does not depend on how fast the links are. If there is no explicit schedule, or it is
//! too long for repeated simulation, the closed form is priced twice instead, with every link of a kind as
//! slow as the slowest of them: rings and pipelines run at that pace.

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::fault::Broken;
use super::rails::{Rails, Shift};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::base::random::Random;
use crate::cost::price::{Prepared, Price};
use crate::cost::rank::{Candidate, candidates, keep_shipped};
use crate::cost::simulate::{Setup, Simulator, Trouble};
use crate::machine::fabric::{Discipline, Fabric, Tier};
use crate::machine::query::Query;
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Ports;
use crate::model::schedule::chain::Chain;
use crate::model::schedule::combine::Relabel;
use crate::model::schedule::{Layout, Schedule, messages, turns};

/// Messages that are simulated for a whole table: a few seconds.
const MESSAGES: u64 = 12_000_000;

/// A schedule is played only if this many of it are within the messages of a size.
const PLAYS: u64 = 6;

/// What the library runs for a size.
pub(super) struct Take {
    pub algorithm: &'static dyn Algorithm,
    pub price: Price,
    /// Whether the library's rules are unknown, so that it may run another.
    pub guessed: bool,
}

/// A machine with the algorithms that its library may run.
pub(super) struct Bench {
    pub query: Query,
    ready: Vec<Candidate>,
    root: u32,
}

impl Bench {
    /// # Errors
    /// An unknown parameter of the machine.
    pub(super) fn new(registry: &Registry, query: &Query, root: u32) -> Result<Self> {
        let shape = &query.shape;
        let (mut ready, _) = candidates(registry, shape, &query.machine.fabric)?;
        // If the library ships none, as for send/recv, all of them count.
        keep_shipped(registry, &mut ready, query.library(), shape, &query.machine.fabric)?;
        if ready.is_empty() {
            let what = format!("no {} algorithm has a price for these ranks", shape.collective);
            return Err(Error::unsupported(what));
        }
        Ok(Self { query: query.clone(), ready, root })
    }

    /// The algorithm that the library runs, if its schedule is known; otherwise the fastest shipped one.
    pub(super) fn run(&self, id: &str, size: Bytes) -> Take {
        match self.ready.iter().find(|one| one.algorithm.meta().id == id) {
            Some(Candidate { algorithm, prepared, .. }) => {
                let price = prepared.price(Volume::from(size));
                Take { algorithm: *algorithm, price, guessed: false }
            }
            None => self.take(size),
        }
    }

    /// The fastest shipped algorithm; the first one on a tie.
    pub(super) fn take(&self, size: Bytes) -> Take {
        let size = Volume::from(size);
        let mut best = 0;
        for (i, one) in self.ready.iter().enumerate() {
            if one.prepared.time(size).0 < self.ready[best].prepared.time(size).0 {
                best = i;
            }
        }
        let Candidate { algorithm, prepared, .. } = self.ready[best];
        Take { algorithm, price: prepared.price(size), guessed: false }
    }

    /// The algorithm named `id`, with the best number of segments on this machine.
    fn same(&self, take: &Take, size: Bytes) -> Take {
        let found = self.ready.iter().find(|c| c.algorithm.meta().id == take.algorithm.meta().id);
        let price = found.map_or(take.price, |c| c.prepared.price(Volume::from(size)));
        Take { price: Price { segments: take.price.segments, ..price }, ..*take }
    }

    /// The schedule, and how many of its rings run in parallel over nodes, 1 in most cases.
    fn spelled(&self, take: &Take) -> Option<(Box<dyn Schedule>, u32)> {
        let query = &self.query;
        let (ranks, rails) = (query.shape.ranks, query.shape.rails());
        if query.shape.collective == Collective::SendRecv {
            return Some((Box::new(Shift { ranks }), 1));
        }
        if take.algorithm.meta().id == "ring-rails" {
            if query.placement.is_spread() {
                let node = query.placement.per_node;
                let rings = Rails::new(query.shape.collective, ranks, node, rails)?;
                return Some((Box::new(rings), rails));
            }
            let ring = crate::model::schedule::ring::Ring::new(query.shape.collective, ranks);
            return Some((Box::new(ring), 1));
        }
        let shape = match take.algorithm.is_pipelined() {
            true => query.shape.with_segments(take.price.segments),
            false => query.shape,
        };
        let schedule = match take.algorithm.meta().id {
            // One of the chains represents all: a root's vector takes the same path on each.
            "chain-rails" => Box::new(Chain::new(shape.collective, ranks, shape.segments())),
            _ => query.machine.fabric.schedule(take.algorithm, &shape)?,
        };
        if self.root > 0 && schedule.frame().layout == Layout::Shared {
            return Some((Box::new(Relabel::new(schedule, self.root)), 1));
        }
        Some((schedule, 1))
    }

    /// The machine for the simulation of schedules. Messages that meet at NICs share them, as several
    /// connections do: if they waited for each other, every latency would count. The same holds if a
    /// rank serves several rings at once, whose latencies overlap.
    fn stage(&self, rings: u32, fair: bool) -> Fabric {
        let mut fabric = self.query.machine.fabric.clone();
        let leaving = rings.div_ceil(self.query.placement.per_node.max(1));
        if let [inner, .., outer] = &mut fabric.tiers[..] {
            if fair {
                outer.discipline = Discipline::Fair;
            }
            if rings > 1 {
                let beside = f64::from(rings.saturating_sub(leaving).max(1));
                inner.link.alpha = inner.link.alpha.map(|alpha| Seconds(alpha.0 / beside));
            }
            if let (Ports::Full(k), Some(more)) = (outer.ports, NonZeroU32::new(leaving)) {
                outer.ports = Ports::Full(k.max(more));
            }
        }
        fabric
    }
}

/// How the time of a size is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// By simulating the schedule, this many times per place.
    Played(u32),
    /// By the closed form, this many times per place.
    Priced(u32),
}

/// The healthy and the faulty machine.
pub(super) struct Lab {
    pub healthy: Bench,
    broken: Bench,
    trouble: Trouble,
    lost: u32,
    chooses: bool,
    noise: Ratio,
    iterations: u32,
    seed: u64,
    /// The limit of simulated messages for one size.
    share: u64,
    /// The number of messages in the schedules counted so far, by algorithm and segments, on which machine, and whether
    /// rates are shared.
    counted: HashMap<(&'static str, u32, bool, bool), Option<u64>>,
    /// The healthy machine's times found so far, by size, algorithm and segments, how, and whether rates are shared.
    usual: HashMap<(Bytes, &'static str, u32, Way, bool), Seconds>,
    simulator: Simulator,
}

/// The result for one size.
pub(super) struct Found {
    /// The time, out of place and in place.
    pub times: [Seconds; 2],
    /// How.
    pub way: Option<Way>,
    /// The library's choice on the faulty machine, if it chooses again.
    pub chosen: Option<&'static str>,
}

impl Found {
    /// The expected time, unchanged.
    pub(super) fn as_expected(time: Seconds) -> Self {
        Self { times: [time; 2], way: None, chosen: None }
    }
}

/// The conditions of the simulation.
struct Conditions<'a> {
    trouble: &'a Trouble,
    lost: u32,
}

impl Lab {
    /// # Errors
    /// An unknown parameter of the machine.
    pub(super) fn new(
        registry: &Registry,
        (healthy, broken): (Bench, &Broken),
        (noise, iterations, seed): (Ratio, u32, u64),
        sizes: usize,
    ) -> Result<Self> {
        Ok(Self {
            broken: Bench::new(registry, &broken.query, healthy.root)?,
            healthy,
            trouble: broken.trouble.clone(),
            lost: broken.lost,
            chooses: broken.chooses,
            noise,
            iterations: iterations.max(1),
            seed,
            share: MESSAGES / (sizes as u64).max(1),
            counted: HashMap::new(),
            usual: HashMap::new(),
            simulator: Simulator::default(),
        })
    }

    /// The same with another number of messages for the whole table.
    pub(super) fn within(self, messages: u64, sizes: usize) -> Self {
        Self { share: messages / (sizes as u64).max(1), ..self }
    }

    /// The same with another faulty machine: what is known of the healthy one stays.
    ///
    /// # Errors
    /// An unknown parameter of the machine.
    pub(super) fn turn_to(&mut self, registry: &Registry, broken: &Broken) -> Result<()> {
        self.broken = Bench::new(registry, &broken.query, self.healthy.root)?;
        self.trouble = broken.trouble.clone();
        self.lost = broken.lost;
        self.chooses = broken.chooses;
        self.counted.retain(|&(_, _, of_broken, _), _| !of_broken);
        Ok(())
    }

    /// Whether both machines are the same and nothing varies.
    fn is_plain(&self) -> bool {
        self.trouble.is_none() && self.lost == 0 && !self.chooses && self.noise.0 == 0.0
    }

    /// How long a call of `size` takes, the `row`-th of the table, that is `expected` to take so long on the
    /// healthy machine.
    ///
    /// # Errors
    /// An unknown parameter of the machine.
    pub(super) fn look(
        &mut self,
        row: usize,
        size: Bytes,
        take: &Take,
        expected: Seconds,
    ) -> Result<Found> {
        if self.is_plain() {
            return Ok(Found::as_expected(expected));
        }
        let other = match self.chooses {
            // An algorithm that needs nothing missing is kept.
            true => self.broken.run(take.algorithm.meta().id, size),
            false => self.broken.same(take, size),
        };
        let chosen = self.chooses.then_some(other.algorithm.meta().title);
        if size.0 == 0 {
            return Ok(Found { chosen, ..Found::as_expected(expected) });
        }
        let way = self.way([take, &other]);
        let late = self.trouble.clone();
        let prompt = Trouble { starts: Vec::new(), ..late.clone() };
        let most = late.starts.iter().map(|start| start.0).fold(0.0, f64::max);
        let at = |trouble, lost| Conditions { trouble, lost };
        let usual = self.usual(take, size, way)?;
        let varies = self.noise.0 > 0.0;
        let mut place = |place: u64| -> Result<Seconds> {
            let drawn = (self.seed, (row as u64) << 1 | place, false);
            let time = self.mean(true, &other, size, way, drawn, &at(&prompt, self.lost))?;
            let mut found =
                match take.guessed && other.algorithm.meta().id != take.algorithm.meta().id {
                    // Nothing says that the library ran what is missing.
                    true => Seconds(expected.0.max(time.0)),
                    false if usual.0 > 0.0 => expected * Ratio(time.0 / usual.0),
                    false => expected,
                };
            if most > 0.0 {
                let waited = self.mean(true, &other, size, way, drawn, &at(&late, self.lost))?;
                // All ranks could begin as late as the last.
                found.0 += (waited.0 - time.0).clamp(0.0, most);
            }
            Ok(found)
        };
        let out_of_place = place(0)?;
        let in_place = if varies { place(1)? } else { out_of_place };
        Ok(Found { times: [out_of_place, in_place], way: Some(way), chosen })
    }

    /// The time of a healthy call. A machine's parameters come from runs with the usual noise, so both sides have it; the
    /// healthy one's does not depend on the seed.
    fn usual(&mut self, take: &Take, size: Bytes, way: Way) -> Result<Seconds> {
        let (id, segments) = (take.algorithm.meta().id, take.price.segments);
        let key = (size, id, segments, way, self.lost > 0);
        if let Some(known) = self.usual.get(&key) {
            return Ok(*known);
        }
        let healthy = Conditions { trouble: &Trouble::default(), lost: 0 };
        let time = self.mean(false, take, size, way, (0, u64::MAX, true), &healthy)?;
        self.usual.insert(key, time);
        Ok(time)
    }

    /// Whether the schedules of both machines can be simulated, and how often.
    fn way(&mut self, takes: [&Take; 2]) -> Way {
        let ranks = self.healthy.query.shape.ranks;
        let mut each = 0;
        for (i, take) in takes.into_iter().enumerate() {
            match self.weigh(i == 1, take) {
                Some(messages) => each = each.max(messages),
                None => return Way::Priced(self.draws(ranks.into())),
            }
        }
        Way::Played(self.draws(each))
    }

    /// The number of simulations per place, for this many messages each: a quarter of what is allowed, since
    /// one that stands for several varies as their mean does.
    fn draws(&self, each: u64) -> u32 {
        let draws = self.share / 12 / each.max(1);
        u32::try_from(draws).unwrap_or(u32::MAX).clamp(1, self.iterations)
    }

    /// The cost of one simulation in messages; `None` if it is too high.
    fn weigh(&mut self, broken: bool, take: &Take) -> Option<u64> {
        let key = (take.algorithm.meta().id, take.price.segments, broken, self.lost > 0);
        if let Some(known) = self.counted.get(&key) {
            return *known;
        }
        let bench = if broken { &self.broken } else { &self.healthy };
        // If rates are shared, all messages in flight are updated whenever one ends.
        let ranks = u64::from(bench.query.shape.ranks);
        let weight = if self.lost > 0 { 1 + ranks / 8 } else { 1 };
        let most = self.share / PLAYS / weight;
        // All ranks but one send each segment, or receive it; a schedule that is too long is not built.
        if ranks * u64::from(take.price.segments.max(1)) > 2 * most {
            self.counted.insert(key, None);
            return None;
        }
        // Senders with nothing to send also count.
        let told = bench.spelled(take).filter(|(schedule, _)| turns(&**schedule) <= 2 * most);
        let counted = told.and_then(|(schedule, _)| Some(messages(&*schedule, most)? * weight));
        self.counted.insert(key, counted);
        counted
    }

    /// The mean over the iterations of a place. With the usual noise, `afresh`, each is a separate run.
    fn mean(
        &mut self,
        broken: bool,
        take: &Take,
        size: Bytes,
        way: Way,
        (seed, thing, afresh): (u64, u64, bool),
        conditions: &Conditions<'_>,
    ) -> Result<Seconds> {
        let bench = if broken { &self.broken } else { &self.healthy };
        let spelled = match way {
            Way::Played(_) => bench.spelled(take),
            Way::Priced(_) => None,
        };
        let stage = spelled.as_ref().map(|(_, rings)| bench.stage(*rings, self.lost > 0));
        let simulator = &mut self.simulator;
        let mut once = |trouble: &Trouble| match (&spelled, &stage) {
            (Some((schedule, _)), Some(stage)) => {
                let trouble = trouble.clone();
                let setup = Setup { trouble, ..Setup::new(Volume::from(size)) };
                let outcome = simulator.run(&**schedule, stage, &setup, None)?;
                Ok::<_, Error>(outcome.makespan + stage.launch)
            }
            _ => priced(bench, take, size, trouble, conditions.lost),
        };
        if self.noise.0 == 0.0 {
            return once(conditions.trouble);
        }
        let (Way::Played(draws) | Way::Priced(draws)) = way;
        let ranks = bench.query.shape.ranks as usize;
        let mut random = Random::of(seed, thing);
        let mut drawn = |deviation: f64| -> Vec<f64> {
            // A rank is never ten times as fast as usual.
            (0..ranks).map(|_| (1.0 + deviation * random.normal()).max(0.1)).collect()
        };
        // An iteration that represents several varies as their mean does.
        let each = self.noise.0 * (f64::from(draws) / f64::from(self.iterations)).sqrt();
        // Runs that represent several vary less, too.
        let mut run = drawn(if afresh { each } else { self.noise.0 });
        let mut sum = 0.0;
        for i in 0..draws {
            if afresh && i > 0 {
                run = drawn(each);
            }
            let mut factors = drawn(each);
            factors.iter_mut().zip(&run).for_each(|(factor, run)| *factor *= run);
            for (rank, slow) in &conditions.trouble.slow_ranks {
                factors[*rank as usize] *= slow.0;
            }
            let slow_ranks = (0..).zip(factors.into_iter().map(Ratio)).collect();
            sum += once(&Trouble { slow_ranks, ..conditions.trouble.clone() })?.0;
        }
        Ok(Seconds(sum / f64::from(draws)))
    }
}

/// The closed form with every link of a kind as slow as the slowest.
fn priced(
    bench: &Bench,
    take: &Take,
    size: Bytes,
    trouble: &Trouble,
    lost: u32,
) -> Result<Seconds> {
    let query = &bench.query;
    let mut fabric = query.machine.fabric.clone();
    let rank = trouble.slow_ranks.iter().map(|(_, slow)| slow.0).fold(0.0, f64::max);
    let rank = if rank > 0.0 { rank } else { 1.0 };
    let depth = fabric.depth(query.shape.ranks)?;
    for (i, tier) in fabric.tiers[..depth].iter_mut().enumerate() {
        let outer = i > 0 && i + 1 == depth;
        let link = |(from, to, slow): &(u32, u32, Ratio)| {
            let leaves = query.placement.node_of(*from) != query.placement.node_of(*to);
            if leaves == outer || depth == 1 { slow.0 } else { 1.0 }
        };
        slow_down(tier, rank * trouble.slow_links.iter().map(link).fold(1.0, f64::max));
    }
    let shape = query.shape.with_segments(take.price.segments);
    let time = |fabric: &Fabric, rails| -> Result<f64> {
        let mut shape = shape;
        shape.params.rails = rails;
        Ok(Prepared::new(take.algorithm, &shape, fabric)?.time(Volume::from(size)).0)
    };
    let late = trouble.starts.iter().map(|start| start.0).fold(0.0, f64::max);
    let rails = query.shape.params.rails;
    let nics = fabric.tiers[depth - 1].nics.filter(|_| lost > 0 && depth > 1);
    let Some(left) = nics else { return Ok(Seconds(time(&fabric, rails)? + late)) };
    // Flows over all NICs share the remaining ones; with fewer flows than remaining NICs nothing changes.
    let few = time(&fabric, rails)?;
    let all = left.saturating_add(lost);
    let outer = &mut fabric.tiers[depth - 1];
    outer.nics = Some(all);
    if let Some(Bandwidth(rate)) = outer.link.bandwidth {
        outer.set_bandwidth(Bandwidth(rate * f64::from(left.get()) / f64::from(all.get())));
    }
    Ok(Seconds(few.min(time(&fabric, rails)?) + late))
}

/// Makes everything that crosses a tier take `factor` times as long.
fn slow_down(tier: &mut Tier, factor: f64) {
    tier.link.alpha = tier.link.alpha.map(|alpha| Seconds(alpha.0 * factor));
    if let Some(Bandwidth(rate)) = tier.link.bandwidth {
        tier.set_bandwidth(Bandwidth(rate / factor));
    }
    if let Some(switch) = &mut tier.switch {
        switch.alpha = switch.alpha.map(|alpha| Seconds(alpha.0 * factor));
    }
}
