//! A question with everything known: the machine, the ranks on it, the operation.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::collective::Collective;
use crate::curve::{Curve, Placed};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Placement, Switch, Tier};
use crate::formula::{Params, Ports, Protocol, Shape};
use crate::link::Link;
use crate::nccl::topology::Description;
use crate::profile::{Calibration, How, Measured, Profile};
use crate::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::sample::DataType;
use crate::what_if::Figure;

/// Figures that a person gives; they win over a profile's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    /// α inside a node, or everywhere.
    pub alpha: Option<Seconds>,
    /// The rate of one port inside a node, or everywhere.
    pub bandwidth: Option<Bandwidth>,
    /// α between nodes.
    pub alpha_inter: Option<Seconds>,
    /// The rate of one NIC.
    pub bandwidth_inter: Option<Bandwidth>,
    /// γ.
    pub gamma: Option<SecondsPerByte>,
    /// α_sw of the switch inside a node.
    pub alpha_switch: Option<Seconds>,
    /// What a call costs before its first message.
    pub launch: Option<Seconds>,
    /// Transfers a rank can make at once, on every tier.
    pub ports: Option<Ports>,
    /// NICs a node.
    pub nics: Option<NonZeroU32>,
    /// How ranks are laid over nodes.
    pub placement: Placement,
    /// η_α: messages take this much longer under contention.
    pub eta_alpha: Option<Ratio>,
    /// η_β: the part of the rate that contention leaves.
    pub eta_beta: Option<Ratio>,
    /// NCCL's wire protocol.
    pub protocol: Protocol,
}

/// N, the nodes and the ranks on each: two give the third.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// N.
    pub ranks: Option<NonZeroU32>,
    /// Nodes.
    pub nodes: Option<NonZeroU32>,
    /// Ranks on each node.
    pub per_node: Option<NonZeroU32>,
}

/// A machine with what is known of each figure's origin.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The name in reports.
    pub name: String,
    /// What it is, in one line; empty where figures alone make it.
    pub title: String,
    /// Who chose it: `default`, `flags`, or what named the profile, such as `--profile`.
    pub chosen: &'static str,
    /// The communication library that people run on it.
    pub library: Option<String>,
    /// Under which name NCCL's graphs on it are known; none where rates or NICs were changed.
    pub nccl_graphs: Option<String>,
    /// What NCCL's search starts from, under the same conditions.
    pub topology: Option<Arc<Description>>,
    /// The rates.
    pub fabric: Fabric,
    /// The tier whose domains are nodes; none on a network alone.
    pub node: Option<usize>,
    /// Whether a person said how many NICs are in use.
    pub nics_given: bool,
    /// For each tier, how α and the rate were obtained, and the efficiency put in.
    pub origins: Vec<Origin>,
    /// How the launch overhead was obtained.
    pub launch: Option<How>,
    /// Between what single figures lie; those that a person gave are taken as exact.
    pub spreads: Vec<Spread>,
    /// How its figures were fitted, and how far to trust them.
    pub fit: Option<Calibration>,
    /// n_β of the double binary tree as it was measured.
    pub c_real: Option<Ratio>,
    /// What the collective takes in its library, as it was measured; none where figures were changed.
    pub curves: Vec<Curve>,
}

/// Between what a figure lies, as factors of its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The figure.
    pub figure: Figure,
    /// The least that is likely, over the value.
    pub low: Ratio,
    /// The most that is likely, over the value.
    pub high: Ratio,
}

/// How the figures of one tier were obtained; absent where a person gave them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin {
    /// α.
    pub alpha: Option<How>,
    /// The rate.
    pub bandwidth: Option<How>,
    /// The rate before the efficiency, the efficiency, and how that was obtained.
    pub efficiency: Option<(Bandwidth, Ratio, How)>,
}

/// A question ready for the engine.
#[derive(Debug, Clone)]
pub struct Query {
    /// The machine.
    pub machine: Machine,
    /// The operation, N, ports and parameters.
    pub shape: Shape,
    /// Ranks on a node, where there are several nodes.
    pub per_node: u32,
    /// M.
    pub size: Bytes,
    /// Bytes of an element, where messages hold whole ones; absent: bytes divide as they like.
    pub element: Option<Bytes>,
}

impl Machine {
    /// A machine from a profile, or of the given figures alone, with the figures put in.
    ///
    /// `named` is a profile and who named it. Without one α and BW together make a machine of their
    /// own; less than both changes the default machine.
    ///
    /// # Errors
    /// Figures between nodes for a machine that has no links there.
    pub fn new(
        named: Option<(Profile, &'static str)>,
        given: &Given,
        collective: Collective,
    ) -> Result<Self> {
        let mut machine = match (named, given.alpha, given.bandwidth) {
            (Some((profile, by)), ..) => return Self::on(&profile, by, given, collective),
            (None, Some(alpha), Some(bandwidth)) => Self::plain(alpha, bandwidth, given),
            (None, ..) => {
                Self::of(&Profile::builtin(crate::profile::DEFAULT)?, "default", collective)
            }
        };
        machine.put_in(given)?;
        Ok(machine)
    }

    /// A profile's machine with the figures put in, where many questions share the profile.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on(
        profile: &Profile,
        chosen: &'static str,
        given: &Given,
        collective: Collective,
    ) -> Result<Self> {
        let mut machine = Self::of(profile, chosen, collective);
        machine.put_in(given)?;
        Ok(machine)
    }

    fn of(profile: &Profile, chosen: &'static str, collective: Collective) -> Self {
        let how = |m: &Option<Measured<Seconds>>| m.as_ref().map(|m| m.how);
        let origins = profile.tiers.iter().map(|tier| Origin {
            alpha: how(&tier.alpha),
            bandwidth: tier.bandwidth.as_ref().map(|b| b.how),
            efficiency: tier
                .efficiency
                .as_ref()
                .zip(tier.bandwidth.as_ref())
                .map(|(e, b)| (b.value, e.value, e.how)),
        });
        // Nothing else is asked of this machine.
        let curves = profile.curves.iter().filter(|c| c.collective == collective);
        Self {
            name: profile.name.clone(),
            title: profile.title.clone(),
            chosen,
            library: profile.library.clone(),
            nccl_graphs: profile.nccl_graphs.clone(),
            topology: profile.topology.clone(),
            origins: origins.collect(),
            launch: profile.launch_of(collective).map(|launch| launch.how),
            spreads: spreads(profile, collective),
            fabric: profile.fabric(collective),
            node: profile.node(),
            nics_given: false,
            fit: profile.fit.clone(),
            c_real: profile.c_real.as_ref().map(|c| c.value),
            curves: curves.cloned().collect(),
        }
    }

    /// One tier of the given α and BW; two where figures between nodes are given.
    fn plain(alpha: Seconds, bandwidth: Bandwidth, given: &Given) -> Self {
        let mut tiers = vec![Tier::new("link", alpha, bandwidth)];
        if given.alpha_inter.is_some() || given.bandwidth_inter.is_some() {
            tiers[0].name = "intra".to_owned();
            tiers.push(Tier {
                link: Link {
                    alpha: given.alpha_inter,
                    bandwidth: given.bandwidth_inter,
                    ..Link::unknown()
                },
                ..Tier::new("inter", alpha, bandwidth)
            });
        }
        if let Some(hop) = given.alpha_switch {
            tiers[0].switch =
                Some(Switch { alpha: Some(hop), bandwidth: None, multicast: true, alu: true });
        }
        Self {
            name: "of the given figures".to_owned(),
            title: String::new(),
            chosen: "flags",
            library: None,
            nccl_graphs: None,
            topology: None,
            origins: vec![Origin::default(); tiers.len()],
            launch: None,
            node: (tiers.len() > 1).then_some(0),
            spreads: Vec::new(),
            nics_given: false,
            fit: None,
            c_real: None,
            curves: Vec::new(),
            fabric: Fabric::new(tiers),
        }
    }

    fn put_in(&mut self, given: &Given) -> Result<()> {
        let fabric = &mut self.fabric;
        let between = [given.alpha_inter.is_some(), given.bandwidth_inter.is_some()];
        if fabric.tiers.len() < 2 && (between.contains(&true) || given.nics.is_some()) {
            return Err(Error::input(format!("{} has no links between nodes", self.name)).mend(
                "leave out --alpha-inter, --bw-inter and --nics-per-node, or give both rates",
            ));
        }
        let last = fabric.tiers.len() - 1;
        // NCCL's search looks at rates and NICs: with others it would find other graphs.
        let nics = given.nics.is_some_and(|nics| fabric.tiers[last].nics != Some(nics));
        if given.bandwidth.is_some() || given.bandwidth_inter.is_some() || nics {
            (self.nccl_graphs, self.topology) = (None, None);
        }
        set(&mut fabric.tiers[0], &mut self.origins[0], given.alpha, given.bandwidth);
        let inter = (given.alpha_inter, given.bandwidth_inter);
        set(&mut fabric.tiers[last], &mut self.origins[last], inter.0, inter.1);
        if given.nics.is_some() {
            fabric.tiers[last].nics = given.nics;
            self.nics_given = true;
        }
        for tier in &mut fabric.tiers {
            tier.ports = given.ports.unwrap_or(tier.ports);
        }
        if let (Some(hop), Some(switch)) = (given.alpha_switch, &mut fabric.tiers[0].switch) {
            switch.alpha = Some(hop);
        }
        if let Some(launch) = given.launch {
            (fabric.launch, self.launch) = (launch, None);
        }
        fabric.gamma = given.gamma.or(fabric.gamma);
        let exact = [
            given.alpha.map(|_| Figure::Alpha(0)),
            given.bandwidth.map(|_| Figure::Bandwidth(0)),
            given.alpha_inter.map(|_| Figure::Alpha(last)),
            given.bandwidth_inter.map(|_| Figure::Bandwidth(last)),
            given.alpha_switch.map(|_| Figure::SwitchAlpha),
            given.launch.map(|_| Figure::Launch),
            given.gamma.map(|_| Figure::Gamma),
        ];
        self.spreads.retain(|s| !exact.contains(&Some(s.figure)));
        let contended = given.eta_alpha.is_some() || given.eta_beta.is_some();
        let other = given.protocol != Protocol::default() || given.ports.is_some();
        if exact.iter().any(Option::is_some) || nics || contended || other {
            self.curves.clear();
        }
        fabric.placement = given.placement;
        let (alpha, beta) = given.protocol.factors();
        let eta_alpha = given.eta_alpha.unwrap_or(Ratio(1.0));
        let eta_beta = given.eta_beta.unwrap_or(Ratio(1.0));
        let unmoved = Fabric::new(Vec::new());
        let taken = std::mem::replace(fabric, unmoved);
        *fabric = taken.contended(Ratio(eta_alpha.0 * alpha.0), Ratio(eta_beta.0 / beta.0));
        Ok(())
    }
}

fn set(tier: &mut Tier, origin: &mut Origin, alpha: Option<Seconds>, rate: Option<Bandwidth>) {
    if alpha.is_some() {
        (tier.link.alpha, origin.alpha) = (alpha, None);
    }
    if let Some(rate) = rate {
        tier.set_bandwidth(rate);
        (origin.bandwidth, origin.efficiency) = (None, None);
    }
}

impl Machine {
    /// Marks a figure as given: where it came from no longer says anything.
    pub fn forget(&mut self, figure: Figure) {
        self.spreads.retain(|s| s.figure != figure);
        self.curves.clear();
        match figure {
            Figure::Alpha(tier) => self.origins[tier].alpha = None,
            Figure::Bandwidth(tier) => {
                (self.origins[tier].bandwidth, self.origins[tier].efficiency) = (None, None);
                (self.nccl_graphs, self.topology) = (None, None);
            }
            Figure::Launch => self.launch = None,
            Figure::SwitchAlpha | Figure::SwitchBandwidth | Figure::Gamma => {}
        }
    }
}

impl Machine {
    /// What was measured of a collective over elements of `dtype`, or the nearest to it.
    #[must_use]
    pub fn curve(&self, collective: Collective, dtype: Option<DataType>) -> Option<&Curve> {
        crate::curve::nearest(&self.curves, collective, dtype)
    }

    /// The machine with every figure at the end of its range that makes calls fast, and slow.
    ///
    /// Absent where no figure has a range.
    #[must_use]
    pub fn extremes(&self) -> Option<(Fabric, Fabric)> {
        if self.spreads.is_empty() {
            return None;
        }
        let (mut fast, mut slow) = (self.fabric.clone(), self.fabric.clone());
        for Spread { figure, low, high } in &self.spreads {
            // A rate is good when it is high, everything else when it is low.
            let rate = matches!(figure, Figure::Bandwidth(_) | Figure::SwitchBandwidth);
            let (good, bad) = if rate { (high, low) } else { (low, high) };
            for (fabric, factor) in [(&mut fast, good), (&mut slow, bad)] {
                // Of the machine's own figure: a switch has followed its links by now.
                if let Some(value) = figure.get(&self.fabric) {
                    figure.set(fabric, value.scaled(*factor));
                }
            }
        }
        Some((fast, slow))
    }
}

/// The ranges of a profile's figures; a rate's range holds that of its efficiency.
fn spreads(profile: &Profile, collective: Collective) -> Vec<Spread> {
    let mut spreads = Vec::new();
    let mut add = |figure: Figure, low: f64, high: f64| {
        // A switch's is said even where it is a point: the range of the links is not the switch's.
        if (low, high) != (1.0, 1.0) || figure == Figure::SwitchBandwidth {
            spreads.push(Spread { figure, low: Ratio(low), high: Ratio(high) });
        }
    };
    for (i, tier) in profile.tiers.iter().enumerate() {
        if let Some(alpha) = &tier.alpha {
            let (low, high) = range(alpha, |a| a.0);
            add(Figure::Alpha(i), low, high);
        }
        let rate = tier.bandwidth.as_ref().map_or((1.0, 1.0), |b| range(b, |b| b.0));
        let part = tier.efficiency.as_ref().map_or((1.0, 1.0), |e| range(e, |e| e.0));
        add(Figure::Bandwidth(i), rate.0 * part.0, rate.1 * part.1);
    }
    if let Some(switch) = &profile.tiers[0].switch {
        if let Some(hop) = &switch.alpha {
            let (low, high) = range(hop, |a| a.0);
            add(Figure::SwitchAlpha, low, high);
        }
        if let Some(part) = &switch.efficiency {
            let (low, high) = range(part, |e| e.0);
            add(Figure::SwitchBandwidth, low, high);
        }
    }
    if let Some(launch) = profile.launch_of(collective) {
        let (low, high) = range(launch, |o| o.0);
        add(Figure::Launch, low, high);
    }
    if let Some(gamma) = &profile.gamma {
        let (low, high) = range(gamma, |g| g.0);
        add(Figure::Gamma, low, high);
    }
    spreads
}

/// Low and high over the value; 1 where they are not known.
fn range<T>(figure: &Measured<T>, number: impl Fn(&T) -> f64) -> (f64, f64) {
    let value = number(&figure.value);
    let over = |end: &Option<T>| end.as_ref().map_or(1.0, |e| number(e) / value);
    if value > 0.0 { (over(&figure.low), over(&figure.high)) } else { (1.0, 1.0) }
}

impl Query {
    /// Places the ranks on the machine.
    ///
    /// # Errors
    /// Ranks, nodes and ranks a node that contradict each other or the machine.
    pub fn new(
        mut machine: Machine,
        collective: Collective,
        size: Bytes,
        layout: Layout,
        params: Params,
    ) -> Result<Self> {
        let node = machine.node.and_then(|i| machine.fabric.tiers[i].span);
        let open = machine.node.is_some() && node.is_none();
        if open && layout.per_node.is_none() && layout.nodes.is_none() {
            return Err(Error::input("there are links between nodes: how many ranks has a node?")
                .at(format!("machine {}", machine.name))
                .mend("give --gpus-per-node or --nodes"));
        }
        let (ranks, per_node) = layout.solve(node)?;
        if let Some(span) = node.filter(|s| s.get() < per_node) {
            return Err(Error::input(format!(
                "{} ranks do not fit on a node of {}: it has {span}",
                per_node, machine.name
            ))
            .at(format!("{per_node} ranks a node"))
            .mend(format!("ask for at most {span}")));
        }
        machine.leave_nics_idle(node, per_node);
        if let (Some(node), Some(ranks)) = (machine.node, NonZeroU32::new(per_node)) {
            for tier in &mut machine.fabric.tiers[..=node] {
                tier.span = Some(tier.span.map_or(ranks, |span| span.min(ranks)));
            }
        }
        machine.fabric.depth(ranks)?;
        let rails = machine.rails(ranks);
        let ports = machine.fabric.ports(ranks)?;
        let c_real = params.c_real.or(machine.c_real);
        let params = Params { rails: params.rails.or(rails), c_real, ..params };
        let group = machine.fabric.group().filter(|g| g.get() < ranks);
        let shape = Shape { ports, params, group, ..Shape::new(collective, ranks) };
        Ok(Self { machine, shape, per_node, size, element: None })
    }

    /// The ranks on the nodes in use.
    #[must_use]
    pub fn placed(&self) -> Placed {
        Placed { ranks: self.shape.ranks, nodes: self.nodes() }
    }

    /// Nodes in use.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.shape.ranks.div_ceil(self.per_node.max(1))
    }
}

impl Machine {
    /// A rank drives the NICs beside it: fewer ranks a node than it has leave the others' idle.
    fn leave_nics_idle(&mut self, span: Option<NonZeroU32>, per_node: u32) {
        let (Some(span), Some(node), false) = (span, self.node, self.nics_given) else { return };
        if let Some(outer) = self.fabric.tiers.get_mut(node + 1) {
            let each = |nics: NonZeroU32| nics.get().div_ceil(span.get()).saturating_mul(per_node);
            outer.nics = outer.nics.and_then(|nics| NonZeroU32::new(each(nics).min(nics.get())));
        }
    }

    /// NICs over which a pattern can be laid at once; none inside one node.
    fn rails(&self, ranks: u32) -> Option<NonZeroU32> {
        let outer = self.fabric.tiers.last()?;
        let node = self.node.and_then(|i| self.fabric.tiers[i].span);
        let inside = node.is_none_or(|g| g.get() >= ranks);
        if inside { None } else { outer.nics.or(self.fabric.group()) }
    }
}

impl Layout {
    /// N and the ranks on a node, which is `node` unless given.
    fn solve(self, node: Option<NonZeroU32>) -> Result<(u32, u32)> {
        let number = |v: Option<NonZeroU32>| v.map(NonZeroU32::get);
        let (n, nodes, each) = (number(self.ranks), number(self.nodes), number(self.per_node));
        let node = number(node);
        match (n, nodes, each) {
            (Some(n), Some(nodes), Some(each)) if nodes.checked_mul(each) != Some(n) => {
                let product = u64::from(nodes) * u64::from(each);
                Err(Error::input(format!("{nodes} nodes x {each} ranks are {product}, not {n}"))
                    .at(format!("--n {n} --nodes {nodes} --gpus-per-node {each}"))
                    .mend("give two of the three; the third follows"))
            }
            (Some(n), Some(nodes), None) if n % nodes != 0 => {
                Err(Error::input(format!("{n} ranks do not divide over {nodes} nodes"))
                    .at(format!("--n {n} --nodes {nodes}"))
                    .mend(format!("ask for a multiple of {nodes} ranks")))
            }
            (Some(n), Some(nodes), _) => Ok((n, n / nodes)),
            (Some(n), None, each) => Ok((n, each.or(node).unwrap_or(n).min(n))),
            (None, nodes, each) => {
                let Some(each) = each.or(node) else {
                    return Err(Error::input("how many ranks?").mend("give --n, such as --n 64"));
                };
                let n = each.checked_mul(nodes.unwrap_or(1));
                n.map(|n| (n, each)).ok_or_else(|| {
                    let nodes = nodes.unwrap_or(1);
                    Error::input(format!("{nodes} nodes x {each} ranks are too many ranks"))
                        .at(format!("--nodes {nodes}"))
                        .mend(format!("ask for at most {} nodes", u32::MAX / each))
                })
            }
        }
    }
}
