//! A machine as the engine sees it: tiers of links with their rates, and the placement of ranks.

use std::num::NonZeroU32;
use std::ops::Range;
use std::str::FromStr;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte};
use crate::base::words::{one_of, words};
use crate::machine::link::{Link, Times};
use crate::machine::wires::{Torus, Wires};
use crate::model::algorithm::{Edges, Route, Step, skips};
use crate::model::formula::{Dims, Level, Params, Ports, Shape};
use crate::model::schedule::modulo;

/// Links of one kind: inside a node, or between nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// The name in reports.
    pub name: String,
    /// The kind of link between the ranks of a domain.
    pub kind: TierKind,
    /// Ranks in one domain of these links; absent: no limit.
    pub span: Option<NonZeroU32>,
    /// How the ranks of a domain are joined.
    pub wires: Wires,
    /// The time of a message on one of them.
    pub link: Link,
    /// Transfers a rank can make at once.
    pub ports: Ports,
    /// Ports that all ranks of a domain of the tier below share; absent: each has its own.
    pub nics: Option<NonZeroU32>,
    /// Bandwidth offered below over bandwidth towards the rest: 1 if the fabric is non-blocking.
    pub oversubscription: Ratio,
    /// How transfers that meet at a port share it. Simulations use it; in prices transfers take
    /// turns.
    pub discipline: Discipline,
    /// A switch that computes or multicasts.
    pub switch: Option<Switch>,
}

words! {
    /// The kind of link between ranks.
    #[derive(Default, serde::Deserialize)]
    pub enum TierKind {
        /// Memory that they share.
        Memory = "memory",
        /// Links inside a node: NVLink, PCIe, xGMI, ICI.
        #[default]
        Node = "node",
        /// A network between nodes.
        Network = "network",
    }
}

/// What a switch can do besides forwarding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Switch {
    /// α_sw: the time of one hop through it.
    pub alpha: Option<Seconds>,
    /// The rate of one port through it; absent: the tier's.
    pub bandwidth: Option<Bandwidth>,
    /// It can forward one message to many: broadcast, all-gather.
    pub multicast: bool,
    /// It can add: reduce, reduce-scatter; with multicast also all-reduce.
    pub alu: bool,
}

/// The usual α inside a node and between nodes, and of a hop through a switch: of the profiles here those of GPUs
/// have 0.2 to 1.6 µs, 2.4 to 5.3 µs and 150 ns.
const INSIDE: Seconds = Seconds(1e-6);
const BETWEEN: Seconds = Seconds(4e-6);
const HOP: Seconds = Seconds(150e-9);

words! {
    /// How transfers that meet at a port share it.
    #[derive(Default, serde::Deserialize)]
    pub enum Discipline {
        /// One after the other.
        #[default]
        Serial = "serial",
        /// All at once, each with its share of the rate.
        Fair = "fair",
    }
}

/// Where links are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Within a node.
    Inside,
    /// Between nodes.
    Between,
}

words! {
    /// The order in which ranks are placed on domains.
    #[derive(Hash, Default)]
    pub enum Order {
        /// Ranks 0 … G − 1 in the first domain, the next G in the second.
        #[default]
        Block = "block",
        /// Rank r in domain r mod D.
        Cyclic = "cyclic",
    }
}

impl Order {
    /// The most and the fewest ranks in a domain of `span`: blocks fill all domains but the last.
    pub(crate) fn filled(self, ranks: u32, span: u32) -> (u32, u32) {
        let domains = ranks.div_ceil(span.max(1)).max(1);
        match self {
            Self::Block => (span.min(ranks), ranks - (domains - 1) * span),
            Self::Cyclic => (ranks.div_ceil(domains), ranks / domains),
        }
    }
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        one_of(text, "a placement", Self::ALL.map(|order| (order.id(), order)))
    }
}

/// Tiers from the innermost out, and the time of a call besides its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// The tiers; at least one, and only the last may have no limit.
    pub tiers: Vec<Tier>,
    /// The order in which ranks are placed on domains.
    pub order: Order,
    /// The measured n_β of the double binary tree.
    pub c_real: Option<Ratio>,
    /// The tier whose domains are nodes; `None` for a network alone, and if all ranks share one
    /// node.
    pub node: Option<usize>,
    /// γ: the time to reduce one byte; absent: unknown, and not priced.
    pub gamma: Option<SecondsPerByte>,
    /// The time of one call before its first message.
    pub launch: Seconds,
}

impl Tier {
    /// The ports that so many of the `span` ranks of a domain of the tier below use: each drives those
    /// beside it.
    pub(crate) fn ports_of(&self, ranks: u32, span: u32) -> u32 {
        self.nics.map_or(ranks, |all| all.get().div_ceil(span).saturating_mul(ranks).min(all.get()))
    }

    /// Links with one full-duplex port per rank and no limit.
    #[must_use]
    pub fn new(name: impl Into<String>, alpha: Seconds, bandwidth: Bandwidth) -> Self {
        Self {
            name: name.into(),
            kind: TierKind::default(),
            span: None,
            wires: Wires::Switch,
            link: Link::new(alpha, bandwidth),
            ports: Ports::ONE,
            nics: None,
            oversubscription: Ratio(1.0),
            discipline: Discipline::Serial,
            switch: None,
        }
    }

    /// Leaves the links to idle ranks of a domain unused, where ranks have links to each other: `ranks` of
    /// it take part. In a send/recv each of them talks to only one other.
    pub(crate) fn use_ranks(&mut self, ranks: NonZeroU32, collective: Collective) {
        let pairs = collective == Collective::SendRecv;
        let meshed = matches!(self.wires, Wires::Mesh | Wires::CubeMesh);
        if let (true, Some(span), Some(rate)) = (meshed, self.span, self.link.bandwidth) {
            let used = if pairs { 2 } else { ranks.get() };
            let mut rate = rate * self.wires.in_use(used, span.get());
            let crossing = self.wires.exchange(ranks.get());
            if collective == Collective::AllToAll && crossing.0 > 0.0 {
                rate = rate * Ratio(collective.busbw_factor(ranks.get()).0 / crossing.0);
            }
            self.set_bandwidth(rate);
            // What is left of a cube mesh, or one link, cannot be divided again.
            if pairs || self.wires == Wires::CubeMesh {
                self.wires = Wires::Switch;
            }
        }
        self.span = Some(self.span.map_or(ranks, |span| span.min(ranks)));
    }

    /// Replaces the rate of a port. A separate rate of the switch is scaled with it, since both are
    /// parts of one link's rate.
    pub fn set_bandwidth(&mut self, rate: Bandwidth) {
        if let (Some(old), Some(switch)) = (self.link.bandwidth, &mut self.switch) {
            switch.bandwidth = switch.bandwidth.map(|own| own * Ratio(rate.0 / old.0));
        }
        self.link.set_bandwidth(rate);
    }

    pub(crate) fn alpha(&self) -> Result<f64> {
        let unknown = || {
            Error::unknown("a parameter is unknown, and messages need it")
                .at(format!("α of {}", self.name))
        };
        self.link.alpha.map(|a| a.0).ok_or_else(unknown)
    }

    /// The time of a message on its links.
    pub(crate) fn times(&self) -> Result<Times> {
        // The error names the parameter that is unknown.
        self.alpha()?;
        self.inverse()?;
        Ok(self.link.times_or_zero())
    }

    /// Seconds per byte through the switch, if it computes or multicasts.
    pub(crate) fn switch_inverse(&self) -> Result<f64> {
        match self.switch.and_then(|s| s.bandwidth) {
            Some(rate) => Ok(1.0 / rate.0),
            None => self.inverse(),
        }
    }

    /// Seconds per byte.
    pub(crate) fn inverse(&self) -> Result<f64> {
        let unknown = || {
            Error::unknown("a parameter is unknown, and data need it")
                .at(format!("the bandwidth of {}", self.name))
        };
        self.link.bandwidth.map(|b| 1.0 / b.0).ok_or_else(unknown)
    }
}

/// The load of one step on the machine's links.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Crossing {
    /// The outermost tier that it crosses: its α counts.
    pub tier: usize,
    /// The bytes of the step through one port of that tier, over those of one flow.
    pub load: f64,
    /// Of the tiers below that, without the innermost, the one whose ports are busy the longest, and the
    /// same for it: what goes far passes them beside what goes no farther.
    pub between: Option<(usize, f64)>,
    /// The same on the innermost tier, for the flows that stay inside meanwhile.
    pub inner_load: f64,
}

/// Ranks that memory or the links of a node cannot join.
pub(super) fn no_network(ranks: u32) -> Error {
    Error::input(format!("{ranks} ranks need a network, and the machine has none"))
}

impl Fabric {
    /// Whether it is a network without the links inside nodes: unless nodes are given, every rank is one.
    #[must_use]
    pub fn is_network_alone(&self) -> bool {
        self.node.is_none() && self.tiers[0].kind == TierKind::Network
    }

    /// One tier of equal links.
    #[must_use]
    pub fn flat(alpha: Seconds, bandwidth: Bandwidth) -> Self {
        Self::new(vec![Tier::new("link", alpha, bandwidth)])
    }

    /// Tiers from the innermost out, ranks in blocks, γ unknown, no launch overhead.
    #[must_use]
    pub fn new(tiers: Vec<Tier>) -> Self {
        Self {
            tiers,
            order: Order::Block,
            node: None,
            c_real: None,
            gamma: None,
            launch: Seconds(0.0),
        }
    }

    /// How many tiers `ranks` ranks span.
    ///
    /// # Errors
    /// More ranks than the outermost tier joins.
    pub fn depth(&self, ranks: u32) -> Result<usize> {
        let fits = |t: &Tier| t.span.is_none_or(|s| s.get() >= ranks);
        self.tiers.iter().position(fits).map(|i| i + 1).ok_or_else(|| {
            let most = self.tiers.iter().filter_map(|t| t.span).max().map_or(0, NonZeroU32::get);
            let error = match self.tiers.iter().any(|t| t.kind == TierKind::Network) {
                true => {
                    Error::input(format!("{ranks} ranks are more than the machine's network joins"))
                        .help(format!("use at most {most}"))
                }
                false => no_network(ranks).help(
                    "name a profile with a network, or give one: --alpha-inter and --bw-inter",
                ),
            };
            error.at(match most {
                0 | 1 => "1 rank on each node".to_owned(),
                _ => format!("links of {most} ranks"),
            })
        })
    }

    /// The same, with the usual latencies where they are unknown: enough to tell by how much other parameters
    /// change a time, not for a price.
    #[must_use]
    pub(crate) fn or_usual(&self) -> Self {
        let mut fabric = self.clone();
        for tier in &mut fabric.tiers {
            let usual = if tier.kind == TierKind::Network { BETWEEN } else { INSIDE };
            tier.link.alpha.get_or_insert(usual);
            if let Some(switch) = &mut tier.switch {
                switch.alpha.get_or_insert(HOP);
            }
        }
        fabric
    }

    /// Ranks in a domain of the innermost tier.
    #[must_use]
    pub fn group(&self) -> Option<NonZeroU32> {
        self.tiers.first().and_then(|t| t.span)
    }

    /// The transfers that a rank can make at once on every tier that `ranks` ranks span: a step may
    /// cross any.
    ///
    /// # Errors
    /// More ranks than the machine joins.
    pub fn ports(&self, ranks: u32) -> Result<Ports> {
        // One rank of each domain talks to none inside it.
        let tiers = self.tiers[..self.depth(ranks)?].iter();
        let used = tiers.filter(|t| t.span.is_none_or(|span| span.get() > 1)).map(|t| t.ports);
        let slice = self.torus(ranks).and_then(|torus| torus.slice(ranks));
        if let Some(ports) = slice.and_then(|slice| self.ports_in(slice)) {
            return Ok(ports);
        }
        // With equally many sends at once, half duplex is the lesser.
        Ok(used.min_by_key(|p| (p.sends(u32::MAX), !p.is_half())).unwrap_or(Ports::ONE))
    }

    /// The transfers that a rank of a slice can make at once: no more than it has links there.
    fn ports_in(&self, slice: Torus) -> Option<Ports> {
        match self.tiers.first()?.ports {
            Ports::Full(k) => Some(Ports::full(k.get().min(slice.most_links().max(1)))),
            _ => None,
        }
    }

    /// The shape of a question on this machine: the machine's ports, rails and domains.
    ///
    /// # Errors
    /// More ranks than the machine joins.
    pub fn shape(&self, collective: Collective, ranks: u32) -> Result<Shape> {
        let shape = Shape { ports: self.ports(ranks)?, ..Shape::new(collective, ranks) };
        Ok(self.fill(&shape))
    }

    /// The shape, with its missing parts taken from the machine.
    pub(crate) fn fill(&self, shape: &Shape) -> Shape {
        let group = self.group().filter(|g| g.get() < shape.ranks);
        let slice = self.slice_of(shape.ranks, shape.params.dims);
        let inside = slice.filter(|_| group.is_some()).and_then(|slice| self.ports_in(slice));
        let params = Params {
            rails: shape.params.rails.or_else(|| self.rails(shape.ranks)),
            c_real: shape.params.c_real.or(self.c_real),
            dims: shape.params.dims.or_else(|| Some(slice?.sides)),
            open: slice.map_or(shape.params.open, Torus::open),
            ports_inside: shape.params.ports_inside.or(inside),
            beside_root: group.and_then(|group| self.beside_root(shape.ranks, group)),
            // Dealt to domains in turn, each rank is in another than the one before it.
            leaving: group
                .filter(|_| self.order == Order::Block)
                .map(|group| shape.ranks.div_ceil(group.get()) - 1),
            ..shape.params
        };
        Shape { group: shape.group.or(group), params, ports: self.ports_of_root(shape), ..*shape }
    }

    /// The ports of a shape, of which a root uses no more than its chip has links: rank 0 is a corner of a slice.
    fn ports_of_root(&self, shape: &Shape) -> Ports {
        let has_root = matches!(shape.collective, Collective::Gather | Collective::Scatter);
        match self.slice(shape.ranks).filter(|_| has_root && !shape.ports.is_half()) {
            Some(slice) => Ports::full(shape.ports.sends(slice.links_of_corner().max(1))),
            None => shape.ports,
        }
    }

    /// Ranks in the root's domain, where ranks that are dealt to domains of `group` do not fill them.
    fn beside_root(&self, ranks: u32, group: NonZeroU32) -> Option<NonZeroU32> {
        let (most, _) = self.order.filled(ranks, group.get());
        NonZeroU32::new(most).filter(|&most| most < group)
    }

    /// The torus of which `ranks` ranks are a part, if they do not leave it.
    #[must_use]
    pub fn torus(&self, ranks: u32) -> Option<Torus> {
        let first = self.tiers.first().filter(|_| self.depth(ranks).is_ok_and(|depth| depth == 1));
        first?.wires.torus()
    }

    /// Whether ranks are joined as a torus, or as several of them.
    #[must_use]
    pub fn has_torus(&self) -> bool {
        self.tiers.first().is_some_and(|first| first.wires.torus().is_some())
    }

    /// The part of a torus that so many ranks are, or that a domain of them is, if it has such a part.
    #[must_use]
    pub fn slice(&self, ranks: u32) -> Option<Torus> {
        self.slice_of(ranks, None)
    }

    /// The same with these sides, if they are those of so many ranks.
    pub(super) fn slice_of(&self, ranks: u32, dims: Option<Dims>) -> Option<Torus> {
        let first = self.tiers.first()?;
        let torus = first.wires.torus()?;
        let ranks = first.span.map_or(ranks, |span| span.get().min(ranks));
        match dims.filter(|dims| dims.ranks() == u64::from(ranks)) {
            Some(sides) => Some(torus.part(sides)),
            None => torus.slice(ranks),
        }
    }

    /// NICs over which a pattern can be spread at once; `None` inside one node.
    fn rails(&self, ranks: u32) -> Option<NonZeroU32> {
        let outer = self.tiers.last()?;
        let node = self.tiers[self.node?].span?.get();
        let nics = outer.nics.or(self.group()).filter(|_| node < ranks)?;
        // Each rail passes all that have NICs of their own, also where the fewest ranks are.
        let below = self.tiers.iter().rev().nth(1).and_then(|tier| tier.span)?.get();
        let (_, fewest) = self.order.filled(ranks, below);
        NonZeroU32::new(outer.ports_of(fewest, below).min(nics.get()))
    }

    /// The same under contention: α · `alpha`, BW · `beta` (spiceMonkey/collective-comm 04).
    #[must_use]
    pub fn contended(mut self, alpha: Ratio, beta: Ratio) -> Self {
        for tier in &mut self.tiers {
            tier.link.alpha = tier.link.alpha.map(|a| a * alpha);
            if let Some(rate) = tier.link.bandwidth {
                tier.set_bandwidth(rate * beta);
            }
        }
        self
    }

    /// Which links a step of a collective over `ranks` ranks crosses.
    pub(crate) fn crossing(&self, step: &Step, ranks: u32) -> Result<Crossing> {
        let depth = self.depth(ranks)?;
        let crossed = |tier| Some((tier, self.through(step, ranks, tier)?));
        let outermost = match step.level {
            Level::Inner => None,
            Level::Flat | Level::Outer => (1..depth).rev().find_map(crossed),
        };
        let Some((tier, load)) = outermost else {
            return Ok(Crossing { tier: 0, load: 1.0, between: None, inner_load: 0.0 });
        };
        // Where a rate is unknown, the price says so.
        let time = |&(tier, load): &(usize, f64)| load * self.tiers[tier].inverse().unwrap_or(0.0);
        let between = (1..tier).filter_map(crossed);
        let between = between.max_by(|a, b| time(a).total_cmp(&time(b)));
        Ok(Crossing { tier, load, between, inner_load: self.inner_load(step, ranks) })
    }

    /// The bytes of a step through one port of `tier`, over those of one message; `None` if no message
    /// leaves the domains of the tier below.
    fn through(&self, step: &Step, ranks: u32, tier: usize) -> Option<f64> {
        let span = self.tiers[tier - 1].span?.get();
        if step.level == Level::Outer {
            let flows = step.flows.saturating_mul(step.at_once);
            // The route is one of domains of the innermost tier: each message leaves its own.
            let group = self.tiers[0].span?.get();
            if tier == 1 || step.route == Route::Switch {
                let one = self.sharing(tier, flows);
                let Route::Edges { edges, slots } = step.route else { return Some(one) };
                // A domain with several ports sends along several edges at once.
                let all = self.edge_load(edges, slots, (ranks / group, 1), step.flows, tier);
                return Some(one.max(all));
            }
            return self.load(step, (ranks / group, span / group), tier);
        }
        if step.rails == 1 {
            return self.load(step, (ranks, span), tier);
        }
        let crosses = self.flows(step.route, ranks, span) > 0;
        crosses.then(|| self.rail_load(tier, step.rails, ranks))
    }

    /// The same where `n` members, in domains of `span`, each send as many messages as leave a domain of the
    /// innermost tier.
    fn load(&self, step: &Step, (n, span): (u32, u32), tier: usize) -> Option<f64> {
        let shards = if step.level == Level::Outer { step.flows } else { 1 };
        let sharing = |flows: u32| self.sharing(tier, flows.saturating_mul(shards));
        let flows = match (step.route, self.order) {
            _ if n <= span => return None,
            (Route::Edges { edges, slots }, _) => {
                return Some(self.edge_load(edges, slots, (n, span), shards, tier));
            }
            // On average over the rounds.
            (Route::Skips, Order::Block) => {
                let skips = skips(n);
                let rounds = skips.len() as f64;
                let each = skips.into_iter().map(|skip| sharing(offset_flows(skip, n, span)));
                return Some(each.sum::<f64>() / rounds);
            }
            (Route::Offsets { first, last }, _) if step.at_once > 1 => {
                let each = (first..=last).map(|d| self.flows(Route::Offset(d), n, span));
                each.fold(0, u32::saturating_add)
            }
            // Its flows are all messages of all ranks.
            (Route::All, _) => self.flows(Route::All, n, span),
            (route, _) => self.flows(route, n, span).saturating_mul(step.at_once),
        };
        (flows > 0).then(|| sharing(flows))
    }

    /// The same along trees: on average over the slots in which every edge is used.
    fn edge_load(
        &self,
        edges: Edges,
        slots: u64,
        (n, span): (u32, u32),
        shards: u32,
        tier: usize,
    ) -> f64 {
        let over = self.tiers[tier].oversubscription.0;
        let at_once = self.at_once(tier);
        let ports = f64::from(self.tiers[tier].ports.sends(u32::MAX));
        // With a NIC for every message of a rank none waits.
        if at_once >= f64::from(span) * f64::from(shards) * ports {
            return over;
        }
        let domains = n.div_ceil(span);
        let domain = |rank: u32| match self.order {
            Order::Block => rank / span,
            Order::Cyclic => rank % domains,
        };
        let messages = f64::from(edges.crossing(n, domains, domain)) * f64::from(shards);
        (messages / (slots.max(1) as f64 * at_once)).max(1.0) * over
    }

    /// The load on the innermost tier of the messages that stay there while others leave.
    fn inner_load(&self, step: &Step, ranks: u32) -> f64 {
        let Some(span) = self.tiers[0].span.filter(|_| step.level == Level::Flat) else {
            return 0.0;
        };
        let span = span.get();
        match step.rails {
            // With as many rails as ranks, one in `span` of a rank's flows leaves the domain.
            rails if rails >= span => 1.0 - 1.0 / f64::from(span),
            // On average over the rounds.
            1 if step.route == Route::Skips && self.order == Order::Block => {
                let skips = skips(ranks);
                skips.iter().filter(|&&skip| skip < span).count() as f64 / skips.len() as f64
            }
            1 if self.all_leave(step.route, ranks, span) => 0.0,
            _ => 1.0,
        }
    }

    /// Whether messages that ranks of one domain send at once wait for each other at NICs that they share.
    #[must_use]
    pub fn shares_nics(&self, ranks: u32) -> bool {
        let used = &self.tiers[..self.depth(ranks).unwrap_or(self.tiers.len())];
        used.windows(2).any(|two| {
            let sent =
                two[0].span.map(|span| span.get().saturating_mul(two[1].ports.sends(u32::MAX)));
            two[1].nics.is_some_and(|nics| sent.is_none_or(|sent| nics.get() < sent))
        })
    }

    /// Whether no message that others send meanwhile stays in a domain of `span` ranks.
    fn all_leave(&self, route: Route, ranks: u32, span: u32) -> bool {
        let flows = self.flows(route, ranks, span);
        match (route, self.order) {
            // One message at a time.
            (Route::Root, _) => flows > 0,
            // Dealt to domains in turn, all that send in a doubling tree leave theirs, or none.
            (Route::Grow(_), Order::Cyclic) => flows > 0,
            // The first domain alone has children of its own ranks.
            (Route::Heap { first, .. }, Order::Block) => first >= span,
            (Route::Xor(distance), Order::Block) => distance >= span,
            _ => flows >= span,
        }
    }

    /// Messages that the ports of `tier` carry at once for a domain of the tier below: one per NIC, or as
    /// many as its ranks send if each has its own.
    fn at_once(&self, tier: usize) -> f64 {
        let below = self.tiers[tier - 1].span.map_or(f64::INFINITY, |span| span.get().into());
        let own = below * f64::from(self.tiers[tier].ports.sends(u32::MAX));
        self.tiers[tier].nics.map_or(own, |nics| nics.get().into())
    }

    /// Messages in turn over the busiest port of `tier` when `flows` leave each domain at once.
    fn sharing(&self, tier: usize, flows: u32) -> f64 {
        let turns = (f64::from(flows) / self.at_once(tier)).ceil();
        turns.max(1.0) * self.tiers[tier].oversubscription.0
    }

    /// The same if a pattern is spread over `rails` rails, each with its part.
    ///
    /// The last domain may have few ranks, which use few of its NICs.
    fn rail_load(&self, tier: usize, rails: u32, ranks: u32) -> f64 {
        let below = self.tiers[tier - 1].span.map_or(ranks, NonZeroU32::get);
        let (_, fewest) = self.order.filled(ranks, below);
        let nics = self.tiers[tier].ports_of(fewest, below);
        let oversubscription = self.tiers[tier].oversubscription.0;
        f64::from(rails.div_ceil(nics)) / f64::from(rails) * oversubscription
    }

    /// Flows that leave a domain of `span` ranks at once.
    fn flows(&self, route: Route, n: u32, span: u32) -> u32 {
        if n <= span {
            return 0;
        }
        match self.order {
            Order::Block => block_flows(route, n, span),
            Order::Cyclic => cyclic_flows(route, n, span),
        }
    }
}

fn block_flows(route: Route, n: u32, span: u32) -> u32 {
    match route {
        Route::Offset(d) | Route::Side(d) => offset_flows(d, n, span),
        Route::Offsets { first, last } => {
            // The distance nearest to half the ring makes most flows leave.
            offset_flows((n / 2).clamp(first, last), n, span)
        }
        Route::Folded { distance, pairs, stays } => {
            let partner = |r| folded_partner(r, distance, pairs, stays);
            most_crossing(n, span, &folded_domains(n, span, distance, pairs), partner)
        }
        Route::Xor(d) if span.is_multiple_of(2 * d) => 0,
        Route::Xor(d) if d >= span => span,
        Route::Xor(d) => {
            // Domains that start at the same place of the period are alike, except the last ones,
            // some of whose partners do not exist.
            let last = n.div_ceil(span);
            let windows = [0..alike(d.saturating_mul(2), span), last.saturating_sub(4)..last];
            most_crossing(n, span, &windows, |r| r ^ d)
        }
        Route::Pairs(d) => {
            // Domains that start with the same parity are alike, except the last.
            let last = n.div_ceil(span);
            most_crossing(n, span, &[0..2, last - 1..last], |r| paired(r, d, n))
        }
        Route::Grow(d) if 2 * d <= span => 0,
        Route::Grow(d) if d >= span => span,
        Route::Grow(d) => 2 * d - span,
        Route::Split { of, by, .. } => {
            // Edges of one length do not overlap, so at most one crosses the start of a domain.
            let crosses = |domain: u32| {
                let start = domain * span;
                let (from, to) = (start - start % of, (start - start % of).saturating_add(by));
                from < start && start <= to && to < n
            };
            let last = alike(of, span).saturating_add(1).min(n.div_ceil(span));
            u32::from((1..last).any(crosses))
        }
        Route::Heap { first, end, both } => {
            // The children of a domain's ranks are a range, and only the first domain has any of them.
            // Those of the first domains that send in this range are as many as of any other.
            let (n, first, end, span) = (u64::from(n), first.into(), end.into(), u64::from(span));
            let leaves = |domain: u64| {
                let own = if domain == 0 { span } else { 2 * domain * span + 1 };
                let beyond = 2 * (domain + 1) * span + 1;
                beyond.min(end).min(n).saturating_sub(own.max(first))
            };
            let sends = first.saturating_sub(1) / (2 * span);
            let most = (sends..sends + 3).map(leaves).max().unwrap_or(0);
            one_child_or_both(most, both)
        }
        Route::Tree | Route::Edges { .. } | Route::Root => 1,
        Route::Skips => offset_flows(n.div_ceil(2), n, span),
        Route::All => span.saturating_mul(n - span),
        Route::Switch => 0,
    }
}

/// Messages at once of a heap, of which both children's leave a domain.
fn one_child_or_both(leaving: u64, both: bool) -> u32 {
    let at_once = if both { leaving } else { leaving.div_ceil(2) };
    u32::try_from(at_once).unwrap_or(u32::MAX)
}

fn offset_flows(d: u32, n: u32, span: u32) -> u32 {
    (d % n).min(n - d % n).min(span)
}

/// The partner of a rank in an exchange of even ranks with those d further.
fn paired(rank: u32, d: u32, n: u32) -> u32 {
    let by = if rank.is_multiple_of(2) { d % n } else { n - d % n };
    modulo(u64::from(rank) + u64::from(by), n)
}

/// The partner of a rank after a fold; the rank itself if it sits out.
fn folded_partner(rank: u32, distance: u32, pairs: u32, stays: u32) -> u32 {
    let number = match rank {
        r if r >= 2 * pairs => r - pairs,
        r if r % 2 == stays => r / 2,
        r => return r,
    };
    let partner = number ^ distance;
    if partner < pairs { 2 * partner + stays } else { partner + pairs }
}

fn cyclic_flows(route: Route, n: u32, span: u32) -> u32 {
    let domains = n.div_ceil(span);
    let distance = match route {
        Route::Split { of, by, apart } => {
            let by = if by % domains == 0 { by - apart } else { by };
            // Every so many ranks one that sends is in the first domain.
            let period = num_integer::lcm(u64::from(of), u64::from(domains));
            let senders = u64::from(n.saturating_sub(by)).div_ceil(period);
            return if by % domains == 0 { 0 } else { senders.min(span.into()) as u32 };
        }
        Route::Heap { first, end, both } => {
            let parents = (end.min(n) / 2).saturating_sub(first.saturating_sub(1) / 2);
            // Of two domains, each rank has one of its children in its own.
            let out = if domains == 2 { 1 } else { 2 };
            return one_child_or_both(u64::from(parents.div_ceil(domains)) * out, both);
        }
        Route::Offset(d) | Route::Side(d) => d,
        Route::Xor(d) | Route::Pairs(d) | Route::Grow(d) => d,
        Route::Offsets { first, last } if first == last => first,
        Route::Offsets { .. } | Route::Folded { .. } => return span,
        Route::Tree | Route::Edges { .. } | Route::Skips => return span,
        Route::Root => return 1,
        Route::All => {
            // Domains are as full as each other, but for one rank.
            let out = |own: u32| own.saturating_mul(n - own);
            return out(n.div_ceil(domains)).max(out(n / domains));
        }
        Route::Switch => return 0,
    };
    // A distance of whole turns around the domains returns to the same domain. With wrap-around at
    // N this holds only if N is whole turns; for an exclusive or only if the number of domains is a
    // power of two.
    let whole = distance % domains == 0;
    let stays = match route {
        Route::Xor(_) => whole && domains.is_power_of_two(),
        Route::Grow(_) => whole,
        _ => whole && n.is_multiple_of(domains),
    };
    match route {
        _ if stays => 0,
        // The senders are the first ranks, and dealt to the domains in turn.
        Route::Grow(d) => d.div_ceil(domains).min(span),
        _ => span,
    }
}

/// The number of domains of `span` ranks after which they begin at the same place of a period
/// again.
fn alike(period: u32, span: u32) -> u32 {
    period / num_integer::gcd(period, span)
}

/// Domains that represent all domains of a fold: those at the beginning, where one of two ranks
/// sits out, those around the end of that part, and the last ones.
fn folded_domains(n: u32, span: u32, distance: u32, pairs: u32) -> [Range<u32>; 3] {
    let last = n.div_ceil(span);
    // Partners are at least the distance apart: if that is a domain or more, all that take part
    // leave it.
    let (first, after, begins, ends) = if distance >= span {
        (alike(2, span), 1, 2 * pairs, 2 * pairs)
    } else {
        // A block of numbers holds both partners; the block at the fold's end has some of both
        // kinds.
        let block = pairs / (2 * distance) * 2 * distance;
        let (first, after) = (alike(distance.saturating_mul(4), span), alike(2 * distance, span));
        (first, after, 2 * block, block + 2 * distance + pairs)
    };
    [
        0..first,
        (begins / span).saturating_sub(1)..ends / span + after + 2,
        last.saturating_sub(2)..last,
    ]
}

/// The largest number of ranks of one of these domains whose partner is in another domain.
fn most_crossing(n: u32, span: u32, domains: &[Range<u32>], partner: impl Fn(u32) -> u32) -> u32 {
    let last = n.div_ceil(span);
    let domains = domains.iter().flat_map(|range| range.start..range.end.min(last));
    let crossing = domains.map(|domain| {
        let first = domain * span;
        let ranks = first..first.saturating_add(span).min(n);
        let leaves = |&r: &u32| partner(r) < n && partner(r) / span != domain;
        ranks.filter(leaves).count() as u32
    });
    crossing.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result over all domains, one by one.
    fn counted(n: u32, span: u32, partner: impl Fn(u32) -> u32) -> u32 {
        let all = 0..n.div_ceil(span);
        most_crossing(n, span, std::slice::from_ref(&all), partner)
    }

    #[test]
    fn edges_of_a_split_are_counted() {
        for n in 3..=130_u32 {
            for span in (2..40).filter(|&span| span < n) {
                for near in [1, 2, 3, 4, 8, 9, 16, 27, 32, 64] {
                    for (of, by) in (1..4).map(|c| (4 * near, c * near)) {
                        let to = |r: u32| if r.is_multiple_of(of) { r + by } else { r };
                        let split = Route::Split { of, by, apart: 0 };
                        assert_eq!(block_flows(split, n, span), counted(n, span, to));
                        let domains = n.div_ceil(span);
                        let out = |d: u32| {
                            let ranks = (d..n).step_by(domains as usize);
                            ranks.filter(|&r| to(r) < n && to(r) % domains != d).count()
                        };
                        let most = (0..domains).map(out).max().unwrap_or(0);
                        assert_eq!(cyclic_flows(split, n, span) as usize, most, "{n} {span} {of}");
                    }
                }
            }
        }
    }

    #[test]
    fn edges_of_a_heap_are_counted() {
        for n in 3..=200_u32 {
            for span in (2..40).filter(|&span| span < n) {
                let levels = (1..=n.ilog2()).map(|k| ((1 << k) - 1, (2 << k) - 1));
                for (first, end) in levels.chain([(1, n)]) {
                    let edges = || (first..end.min(n)).map(|child| ((child - 1) / 2, child));
                    let most = |domain: &dyn Fn(u32) -> u32| {
                        let mut out = vec![0_u32; n as usize];
                        for (parent, child) in edges() {
                            out[domain(parent) as usize] +=
                                u32::from(domain(parent) != domain(child));
                        }
                        out.into_iter().max().unwrap_or(0)
                    };
                    let heap = Route::Heap { first, end, both: true };
                    assert_eq!(
                        block_flows(heap, n, span),
                        most(&|r| r / span),
                        "{n} {span} {first}"
                    );
                    // In turn: one rank's two more at most, where a level does not fill all domains.
                    let domains = n.div_ceil(span);
                    let (said, counted) = (cyclic_flows(heap, n, span), most(&|r| r % domains));
                    assert!((counted..=counted + 2).contains(&said), "{n} {span} {first}");
                }
            }
        }
    }

    #[test]
    fn exchanges_of_even_with_odd_ranks_are_counted() {
        for n in (4..=64_u32).step_by(2) {
            for span in 2..n {
                for d in (1..n).step_by(2) {
                    let all = counted(n, span, |r| paired(r, d, n));
                    assert_eq!(block_flows(Route::Pairs(d), n, span), all, "{n} {span} {d}");
                    let domains = n.div_ceil(span);
                    let out = |first: u32| {
                        let ranks = (first..n).step_by(domains as usize);
                        ranks.filter(|&r| paired(r, d, n) % domains != first).count() as u32
                    };
                    let most = (0..domains).map(out).max().unwrap_or(0);
                    assert!(cyclic_flows(Route::Pairs(d), n, span) >= most, "{n} {span} {d}");
                }
            }
        }
    }

    #[test]
    fn a_few_domains_stand_for_all() {
        for n in 3..=260_u32 {
            let power = 1 << n.ilog2();
            for span in (2..40).filter(|&span| span < n) {
                for distance in (0..n.ilog2()).map(|k| 1 << k) {
                    let (pairs, d) = (n - power, distance);
                    if pairs > 0 {
                        for stays in [0, 1] {
                            let fold = Route::Folded { distance, pairs, stays };
                            let all = counted(n, span, |r| folded_partner(r, d, pairs, stays));
                            assert_eq!(block_flows(fold, n, span), all, "{n} {span} {d} {stays}");
                        }
                    }
                    let all = counted(n, span, |r| r ^ d);
                    assert_eq!(block_flows(Route::Xor(d), n, span), all, "{n} {span} {d}");
                }
            }
        }
    }
}
