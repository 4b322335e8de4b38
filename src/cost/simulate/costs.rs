//! A machine, a size and trouble, resolved to the cost of single messages.

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::jobs::Message;
use super::{Mode, Setup};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::machine::fabric::{Discipline, Fabric, Order, Tier};
use crate::machine::link::{Exchange, Slopes, Times};
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Frame, Layout, Op, Run, Schedule, Transfer};

/// The links of one tier.
#[derive(Debug, Clone)]
pub(super) struct TierCost {
    /// The time of a message.
    pub times: Times,
    /// Ranks in a domain; the last tier has no limit.
    pub span: u32,
    pub ports: Ports,
    /// NICs that a domain of the tier below shares, if they are fewer than its messages at once.
    pub nics: Option<u32>,
    pub is_fair: bool,
    /// The rate in each direction of an exchange over the one-way rate.
    pub duplex: f64,
}

/// The costs and needs of a message.
pub(super) struct Costs {
    pub frame: Frame,
    pub mode: Mode,
    pub tiers: Vec<TierCost>,
    order: Order,
    /// Seconds to add a byte.
    gamma: f64,
    /// α_sw and seconds per byte through a switch inside domains, and through one between them.
    switches: [(f64, f64); 2],
    /// Byte offsets of parts: M divides evenly, or whole elements are distributed.
    sizes: Sizes,
    starts: Vec<f64>,
    slow_ranks: Vec<f64>,
    slow_links: HashMap<(u32, u32), f64>,
}

/// The time of the previous message on a sound machine: the next one mostly has the same size.
pub(super) struct Last {
    bytes: u64,
    terms: (f64, f64),
}

impl Default for Last {
    fn default() -> Self {
        Self { bytes: f64::NAN.to_bits(), terms: (0.0, 0.0) }
    }
}

/// How M is divided into parts.
#[derive(Debug, Clone, Copy)]
enum Sizes {
    /// Every part has the same number of bytes.
    Even { part: f64 },
    /// The vector has this many elements of this many bytes each.
    Elements { elements: u64, bytes: f64 },
}

impl Costs {
    pub fn new(schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) -> Result<Self> {
        let frame = schedule.frame();
        let depth = fabric.depth(frame.ranks.max(1))?;
        let empty = setup.size.0 == 0.0 || frame.collective == Collective::Barrier;
        let mut tiers: Vec<TierCost> = Vec::new();
        for (at, tier) in fabric.tiers[..depth].iter().enumerate() {
            // As many NICs as ports are never the ones that are exhausted. What goes to the tiers further
            // out passes them, too, from ports of its own.
            let ports = |tiers: &[Tier], below: &TierCost| {
                let mut tiers = tiers.iter();
                let each = tiers
                    .try_fold(0, |sum: u32, tier| Some(sum.saturating_add(limit(tier.ports)?)));
                each.map(|each| below.span.saturating_mul(each))
            };
            let own = tiers.last().and_then(|below| ports(&fabric.tiers[at..=at], below));
            let passing = tiers.last().and_then(|below| ports(&fabric.tiers[at..depth], below));
            let nics = tier.nics.map(NonZeroU32::get).or(own.filter(|_| at + 1 < depth));
            let is_fair = tier.discipline == Discipline::Fair;
            let binds = |nics: &u32| is_fair || passing.is_none_or(|ports| *nics < ports);
            tiers.push(TierCost {
                times: times(tier, empty)?,
                span: tier.span.map_or(u32::MAX, NonZeroU32::get),
                ports: setup.ports.filter(|_| at == 0).unwrap_or(tier.ports),
                nics: nics.filter(binds),
                is_fair,
                duplex: tier.link.duplex.0,
            });
        }
        // Where both tiers have switches, those inside belong to the innermost tier.
        let inside = if frame.far_switches > 0 { 1 } else { fabric.tiers.len() };
        let near = fabric.tiers[..inside].iter().find(|tier| tier.switch.is_some());
        let far = fabric.tiers[..depth].last().filter(|tier| tier.switch.is_some());
        let through = |used: bool, tier: Option<&Tier>| match used {
            true => switch_of(tier, empty),
            false => Ok((0.0, 0.0)),
        };
        let switches = [
            through(frame.switches > frame.far_switches, near)?,
            through(frame.far_switches > 0, far)?,
        ];
        let mut costs = Self {
            frame,
            mode: setup.mode,
            tiers,
            order: fabric.order,
            gamma: fabric.gamma.map_or(0.0, |gamma| gamma.0),
            switches,
            sizes: sizes(&frame, setup, empty)?,
            starts: Vec::new(),
            slow_ranks: Vec::new(),
            slow_links: HashMap::new(),
        };
        costs.put_in(setup)?;
        Ok(costs)
    }

    fn put_in(&mut self, setup: &Setup) -> Result<()> {
        let n = self.frame.ranks;
        let there = |rank: u32| {
            if rank < n {
                return Ok(rank);
            }
            Err(Error::input(format!("there is no rank {rank}"))
                .help(format!("ranks are 0 to {}", n.saturating_sub(1))))
        };
        let trouble = &setup.trouble;
        if trouble.starts.len() > n as usize {
            return Err(Error::input(format!(
                "{} start times for {n} ranks",
                trouble.starts.len()
            )));
        }
        if trouble.starts.iter().any(|start| start.0 != 0.0) {
            self.starts = trouble.starts.iter().map(|start| start.0).collect();
            self.starts.resize(n as usize, 0.0);
        }
        for &(rank, factor) in &trouble.slow_ranks {
            self.slow_ranks.resize(n as usize, 1.0);
            self.slow_ranks[there(rank)? as usize] = factor.0;
        }
        for &(from, to, factor) in &trouble.slow_links {
            self.slow_links.insert((there(from)?, there(to)?), factor.0);
        }
        Ok(())
    }

    /// Endpoints: the ranks and, after them, the switches.
    pub fn places(&self) -> usize {
        self.frame.ranks as usize + self.frame.switches as usize
    }

    /// Whether all links are equal and nothing goes wrong.
    pub fn is_uniform(&self) -> bool {
        self.tiers.len() == 1
            && self.frame.switches == 0
            && !self.shares()
            && self.starts.is_empty()
            && self.slow_ranks.is_empty()
            && self.slow_links.is_empty()
    }

    /// Whether a rank has one port on links of one kind.
    pub fn is_plain(&self) -> bool {
        self.tiers.len() == 1 && self.has_one_port()
    }

    /// Whether a rank has one port in each tier: its links are free when its ports are.
    fn has_one_port(&self) -> bool {
        let mut tiers = self.tiers.iter();
        self.frame.switches == 0 && tiers.all(|tier| limit(tier.ports) == Some(1))
    }

    /// Whether a message needs nothing but two ports.
    pub fn needs_ports_alone(&self) -> bool {
        let alike =
            self.tiers.windows(2).all(|two| two[0].ports.is_half() == two[1].ports.is_half());
        self.has_one_port() && alike && !self.has_nics() && !self.shares()
    }

    pub fn is_half(&self) -> bool {
        self.tiers.iter().any(|tier| tier.ports.is_half())
    }

    pub fn has_nics(&self) -> bool {
        self.tiers.iter().skip(1).any(|tier| tier.nics.is_some())
    }

    /// Whether rates change while messages are under way.
    pub fn shares(&self) -> bool {
        self.tiers.iter().any(|tier| tier.is_fair || tier.duplex < 1.0 || tier.times.saved > 0.0)
    }

    /// Whether every rank sends what rank 0 sends, and as many bytes.
    pub fn all_are_alike(&self) -> bool {
        (self.frame.turns || self.frame.mirrors)
            && self.frame.switches == 0
            && matches!(self.sizes, Sizes::Even { .. })
    }

    /// Whether ranks start at different times.
    pub fn starts_apart(&self) -> bool {
        !self.starts.is_empty()
    }

    /// When the rank at `place` starts; switches are always there.
    #[inline]
    pub fn start(&self, place: u32) -> f64 {
        self.starts.get(place as usize).copied().unwrap_or(0.0)
    }

    /// A message of the schedule between places.
    ///
    /// A message of the schedule between places.
    /// An endpoint or a chunk that does not exist; [`verify`](crate::model::schedule::verify()) names it.
    #[inline(always)]
    pub fn message(&self, from: Endpoint, transfer: Transfer<'_>) -> Result<Message> {
        let Transfer { to, op, runs } = transfer;
        let (from, to) = (self.place(from), self.place(to));
        let mut end = 0;
        for run in runs {
            end = end.max(u64::from(run.start) + u64::from(run.len));
        }
        let places = self.frame.ranks + self.frame.switches;
        if from >= places || to >= places || end > u64::from(self.frame.chunks()) {
            return Err(Error::input(
                "the schedule uses an endpoint or a chunk that does not exist",
            )
            .help("verify it first"));
        }
        Ok(Message { from, to, bytes: self.bytes(runs), op })
    }

    /// The place of an endpoint: ranks first, then switches.
    #[inline(always)]
    pub fn place(&self, endpoint: Endpoint) -> u32 {
        match endpoint {
            Endpoint::Rank(rank) if rank < self.frame.ranks => rank,
            Endpoint::Switch(switch) => self.frame.ranks.saturating_add(switch),
            Endpoint::Rank(_) => u32::MAX,
        }
    }

    /// The bytes of a message.
    #[inline(always)]
    pub fn bytes(&self, runs: &[Run]) -> f64 {
        match self.sizes {
            Sizes::Even { part } => {
                // Signed integers become floats in one instruction.
                let chunks: i64 = runs.iter().map(|run| i64::from(run.len)).sum();
                chunks as f64 * part
            }
            Sizes::Elements { elements, bytes } => {
                let chunks = runs.iter().flat_map(|run| run.chunks());
                let ranges = chunks.map(|chunk| self.frame.range(chunk, elements));
                ranges.map(|range| range.end - range.start).sum::<u64>() as f64 * bytes
            }
        }
    }

    /// The innermost tier that joins two ranks, as those around it do: a pair of three ranks on a node may reach into
    /// the next.
    #[inline]
    pub fn tier(&self, from: u32, to: u32) -> usize {
        // The last tier joins all.
        let inner = (0..self.tiers.len().saturating_sub(1)).rev();
        let joins = inner.take_while(|&t| self.domain(t, from) == self.domain(t, to));
        joins.last().unwrap_or(self.tiers.len().saturating_sub(1))
    }

    /// The domain of tier `tier` that `rank` is in.
    #[inline]
    pub fn domain(&self, tier: usize, rank: u32) -> u32 {
        let span = self.tiers[tier].span;
        match self.order {
            Order::Block => rank / span,
            Order::Cyclic => rank % self.frame.ranks.div_ceil(span),
        }
    }

    /// Whether no rank and no link is slow.
    #[inline]
    fn is_sound(&self) -> bool {
        self.slow_ranks.is_empty() && self.slow_links.is_empty()
    }

    /// The factor by which a message takes longer than on a sound machine.
    #[inline]
    pub fn factor(&self, from: u32, to: u32) -> f64 {
        if self.is_sound() {
            return 1.0;
        }
        let rank = |place: u32| self.slow_ranks.get(place as usize).copied().unwrap_or(1.0);
        let link = self.slow_links.get(&(from, to)).copied().unwrap_or(1.0);
        rank(from).max(rank(to)) * link
    }

    /// Seconds that a message takes alone.
    #[inline(always)]
    pub fn duration(&self, message: &Message) -> f64 {
        let (latency, moving) = self.terms(message);
        latency + moving
    }

    /// The same on links of one kind, if the previous message took `last`.
    #[inline(always)]
    pub fn duration_after(&self, message: &Message, last: &mut Last) -> f64 {
        if message.bytes.to_bits() != last.bytes {
            let times = &self.tiers[0].times;
            let moving = times.slopes.of(message.bytes);
            *last = Last { bytes: message.bytes.to_bits(), terms: (times.alpha, moving) };
        }
        let (latency, moving) = last.terms;
        if self.is_sound() {
            return latency + moving;
        }
        let factor = self.factor(message.from, message.to);
        latency * factor + moving * factor
    }

    /// The same as separate terms: latency and data.
    #[inline(always)]
    pub fn terms(&self, &Message { from, to, bytes, .. }: &Message) -> (f64, f64) {
        let n = self.frame.ranks;
        if from >= n || to >= n {
            let (alpha, inverse) = self.switches[usize::from(self.is_far(from.max(to)))];
            // A slow rank is also slow on its way to the switch; a link has no rank at that end.
            let factor = self.factor(from, to);
            return (alpha * factor, bytes * inverse * factor);
        }
        let tier = if self.tiers.len() == 1 { 0 } else { self.tier(from, to) };
        let (alpha, moving) = (self.tiers[tier].times.alpha, self.moving(tier, bytes));
        if self.is_sound() {
            return (alpha, moving);
        }
        let factor = self.factor(from, to);
        (alpha * factor, moving * factor)
    }

    /// Seconds of data to another domain: a NIC on the way may be slower than the links that it leads to.
    #[inline(always)]
    fn moving(&self, tier: usize, bytes: f64) -> f64 {
        let moving = |tier: &TierCost| tier.times.slopes.of(bytes);
        let own = moving(&self.tiers[tier]);
        self.tiers[..tier].iter().skip(1).map(moving).fold(own, f64::max)
    }

    /// The part of a message's moving time that an exchange does not lengthen.
    pub fn quick(&self, &Message { from, to, bytes, .. }: &Message) -> f64 {
        if from.max(to) >= self.frame.ranks {
            return 0.0;
        }
        let tier = &self.tiers[self.tier(from, to)];
        // One port for both ways is shared from the first byte on.
        let quick = if tier.ports.is_half() { 0.0 } else { tier.times.quick(bytes) };
        quick * self.factor(from, to)
    }

    /// Whether the switch at a place is between domains.
    #[inline]
    pub fn is_far(&self, place: u32) -> bool {
        place >= self.frame.ranks + self.frame.switches - self.frame.far_switches
    }

    /// α_sw of the switch at a place.
    #[inline]
    pub fn hop(&self, place: u32) -> f64 {
        self.switches[usize::from(self.is_far(place))].0
    }

    /// The tier whose ports a message between two places uses.
    #[inline]
    pub fn held_tier(&self, from: u32, to: u32) -> usize {
        match from.max(to) {
            switch if switch < self.frame.ranks => self.tier(from, to),
            switch if self.is_far(switch) => self.tiers.len() - 1,
            _ => 0,
        }
    }

    /// Seconds that the receiver then takes to add the data; switches add while data pass.
    #[inline(always)]
    pub fn adding(&self, &Message { from, to, bytes, op }: &Message) -> f64 {
        if self.gamma == 0.0 || to >= self.frame.ranks {
            return 0.0;
        }
        let adds = op == Op::Reduce
            || self.frame.layout == Layout::Owned && self.frame.collective.reduces();
        let own = match self.frame.own {
            Some(_) => self.own(from, to, op),
            None => 0.0,
        };
        let added = own + if adds { bytes } else { 0.0 };
        if added > 0.0 { added * self.gamma * self.factor(to, to) } else { 0.0 }
    }

    /// Bytes of its own that rank `to` adds with a message.
    fn own(&self, from: u32, to: u32, op: Op) -> f64 {
        // A switch is no rank after another.
        let sender = match from < self.frame.ranks {
            true => Endpoint::Rank(from),
            false => Endpoint::Switch(from - self.frame.ranks),
        };
        match (self.frame.adds_own(sender, Endpoint::Rank(to), op), self.sizes) {
            (false, _) => 0.0,
            (true, Sizes::Even { part }) => part * f64::from(self.frame.parts),
            (true, Sizes::Elements { elements, bytes }) => elements as f64 * bytes,
        }
    }

    /// Whether additions take time.
    pub fn adds(&self) -> bool {
        self.gamma > 0.0
    }

    /// The tier of a message, for listeners.
    pub fn tier_of(&self, from: Endpoint, to: Endpoint) -> Option<usize> {
        match (from, to) {
            (Endpoint::Rank(from), Endpoint::Rank(to)) => Some(self.tier(from, to)),
            _ => None,
        }
    }
}

/// How many messages a rank sends at once, if that is limited.
fn limit(ports: Ports) -> Option<u32> {
    match ports {
        Ports::Full(k) | Ports::Half(k) => Some(k.get()),
        Ports::Unbounded => None,
    }
}

/// The time of a message on the links of a tier; without data no rate is needed.
fn times(tier: &Tier, empty: bool) -> Result<Times> {
    if empty {
        return Ok(Times::of(tier.alpha()?, Slopes::new([], 0.0), Exchange::AS_ONE_WAY));
    }
    let mut times = tier.times()?;
    times.slopes = times.slopes.scaled(tier.oversubscription.0);
    Ok(times)
}

/// α_sw and seconds per byte of a tier with a switch that computes or multicasts.
fn switch_of(tier: Option<&Tier>, empty: bool) -> Result<(f64, f64)> {
    let tier = tier.ok_or_else(|| {
        Error::unknown("the machine has no switch that adds or multicasts")
            .help("give --alpha-switch, or use a profile that has one")
    })?;
    let alpha = tier.switch.and_then(|switch| switch.alpha).ok_or_else(|| {
        Error::unknown("messages through the switch need a parameter that is unknown")
            .at(format!("α_sw of {}", tier.name))
    })?;
    let inverse = if empty { 0.0 } else { tier.switch_inverse()? };
    Ok((alpha.0, inverse))
}

fn sizes(frame: &Frame, setup: &Setup, empty: bool) -> Result<Sizes> {
    let parts = u64::from(frame.parts.max(1));
    let Some(element) = setup.element.filter(|_| !empty) else {
        let size = if empty { 0.0 } else { setup.size.0 };
        return Ok(Sizes::Even { part: size / parts as f64 });
    };
    let elements = setup.size.0 / element.0 as f64;
    if elements.fract() != 0.0 {
        return Err(Error::input(format!(
            "{} bytes are not a whole number of elements of {} bytes",
            setup.size.0, element.0
        )));
    }
    Ok(Sizes::Elements { elements: elements as u64, bytes: element.0 as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte, Volume};
    use crate::machine::fabric::Switch;
    use crate::model::schedule::List;

    /// Nodes of two ranks; the first tier has a switch.
    fn nodes() -> Fabric {
        let switch = Switch {
            alpha: Some(Seconds(7.0)),
            bandwidth: Some(Bandwidth(0.5)),
            multicast: true,
            alu: true,
        };
        let inner = Tier::new("inside", Seconds(1.0), Bandwidth(0.5));
        let inner = Tier { span: NonZeroU32::new(2), switch: Some(switch), ..inner };
        Fabric::new(vec![inner, Tier::new("between", Seconds(3.0), Bandwidth(0.25))])
    }

    /// Of five ranks and a switch.
    fn costs(collective: Collective, fabric: &Fabric, setup: &Setup) -> Costs {
        let frame = Frame { switches: 1, ..Frame::new(collective, 5, 5, 0) };
        Costs::new(&List::new(frame), fabric, setup).unwrap()
    }

    fn message(from: u32, to: u32, op: Op) -> Message {
        Message { from, to, bytes: 10.0, op }
    }

    #[test]
    fn what_is_slow_takes_longer_in_both_terms() {
        let mut setup = Setup::new(Volume(50.0));
        let terms = |setup: &Setup, from, to| {
            costs(Collective::AllReduce, &nodes(), setup).terms(&message(from, to, Op::Copy))
        };
        assert_eq!(terms(&setup, 0, 1), (1.0, 20.0));
        assert_eq!(terms(&setup, 0, 2), (3.0, 40.0));
        assert_eq!((terms(&setup, 0, 5), terms(&setup, 5, 0)), ((7.0, 20.0), (7.0, 20.0)));
        setup.trouble.slow_ranks = vec![(1, Ratio(4.0)), (2, Ratio(2.0))];
        setup.trouble.slow_links = vec![(1, 2, Ratio(3.0))];
        assert_eq!(terms(&setup, 0, 1), (4.0, 80.0));
        assert_eq!(terms(&setup, 2, 0), (6.0, 80.0));
        assert_eq!(terms(&setup, 2, 1), (12.0, 160.0));
        assert_eq!(terms(&setup, 1, 2), (36.0, 480.0));
        assert_eq!(terms(&setup, 0, 3), (3.0, 40.0));
        assert_eq!((terms(&setup, 1, 5), terms(&setup, 5, 1)), ((28.0, 80.0), (28.0, 80.0)));
        assert_eq!(terms(&setup, 0, 5), (7.0, 20.0));
    }

    #[test]
    fn ranks_add_what_is_reduced() {
        let mut setup = Setup::new(Volume(50.0));
        let none = costs(Collective::AllReduce, &nodes(), &setup);
        assert!(!none.adds());
        assert_eq!(none.adding(&message(0, 1, Op::Reduce)), 0.0);
        let fabric = Fabric { gamma: Some(SecondsPerByte(0.5)), ..nodes() };
        let some = costs(Collective::AllReduce, &fabric, &setup);
        assert!(some.adds());
        let adding = |costs: &Costs| {
            let ends = [(0, 1, Op::Reduce), (0, 1, Op::Copy), (0, 5, Op::Reduce)];
            ends.map(|(from, to, op)| costs.adding(&message(from, to, op)))
        };
        assert_eq!(adding(&some), [5.0, 0.0, 0.0]);
        // Vectors of single ranks are added when they are used, however they arrived.
        let mut frame = Frame::new(Collective::ReduceScatter, 5, 1, 0);
        frame.layout = Layout::Owned;
        let owned = |collective| {
            let list = List::new(Frame { collective, ..frame });
            Costs::new(&list, &fabric, &setup).unwrap().adding(&message(0, 1, Op::Copy))
        };
        assert_eq!(owned(Collective::ReduceScatter), 5.0);
        assert_eq!(owned(Collective::AllGather), 0.0);
        // A slow rank adds incoming data slowly; a slow link or another slow rank has no effect on
        // that.
        setup.trouble.slow_ranks = vec![(0, Ratio(7.0)), (1, Ratio(3.0))];
        setup.trouble.slow_links = vec![(0, 1, Ratio(2.0))];
        assert_eq!(adding(&costs(Collective::AllReduce, &fabric, &setup)), [15.0, 0.0, 0.0]);
    }

    #[test]
    fn nics_are_those_between_nodes() {
        let has_nics = |inner: u32, outer: u32| {
            let mut fabric = nodes();
            fabric.tiers[0].nics = NonZeroU32::new(inner);
            fabric.tiers[1].nics = NonZeroU32::new(outer);
            costs(Collective::AllReduce, &fabric, &Setup::new(Volume(1.0))).has_nics()
        };
        assert!(has_nics(0, 1) && has_nics(1, 1));
        assert!(!has_nics(0, 0) && !has_nics(1, 0));
    }

    #[test]
    fn ranks_start_apart_where_one_starts_late() {
        let mut setup = Setup::new(Volume(1.0));
        let apart = |setup: &Setup| costs(Collective::AllReduce, &nodes(), setup).starts_apart();
        assert!(!apart(&setup));
        setup.trouble.starts = vec![Seconds(0.0)];
        assert!(!apart(&setup));
        setup.trouble.starts.push(Seconds(1.0));
        assert!(apart(&setup));
    }
}
