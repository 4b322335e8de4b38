//! A complete question: the machine, the ranks on it, the operation.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::machine::curve::{Curve, Placed};
use crate::machine::fabric::{Fabric, Links, Order, Switch, Tier, TierKind, no_network};
use crate::machine::graph::Graph;
use crate::machine::link::Link;
use crate::machine::nccl::{Description, with_nics};
use crate::machine::placement::Placement;
use crate::machine::profile::{
    Calibration, Hardware, How, Measured, Nccl, NcclTuner, NetworkKind, Profile,
};
use crate::machine::sample::DataType;
use crate::machine::what_if::Figure;
use crate::machine::wires::Wires;
use crate::model::algorithm::Library;
use crate::model::formula::{Dims, Params, Ports, Protocol, Shape};

/// Parameters that a person gives; they override a profile's.
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
    /// α_sw of the network's switches, which then add and multicast (SHARP); of the only tier if
    /// there is one.
    pub alpha_switch_inter: Option<Seconds>,
    /// The time of a call before its first message.
    pub launch: Option<Seconds>,
    /// Transfers a rank can make at once, on every tier.
    pub ports: Option<Ports>,
    /// NICs per node.
    pub nics: Option<NonZeroU32>,
    /// How ranks are placed on nodes.
    pub order: Order,
    /// η_α: messages take this much longer under contention.
    pub eta_alpha: Option<Ratio>,
    /// η_β: the part of the rate that contention leaves.
    pub eta_beta: Option<Ratio>,
    /// NCCL's wire protocol.
    pub protocol: Option<Protocol>,
    /// The library that runs.
    pub library: Option<Library>,
    /// GPUs whose calls one thread starts, one after another.
    pub gpus_per_thread: Option<NonZeroU32>,
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

/// A machine with the known origin of each parameter.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The name in reports.
    pub name: String,
    /// A description in one line; empty if only given parameters define it.
    pub title: String,
    /// What chose it: `default`, `flags`, or what named the profile, such as `--on`.
    pub chosen: &'static str,
    /// The communication library that people run on it.
    pub library: Option<String>,
    /// The name under which NCCL's graphs on it are known; `None` if rates or NICs were changed.
    pub nccl_graphs: Option<String>,
    /// The same for the ranks of one node, where those of several nodes are not known.
    pub(crate) nccl_inside: Option<String>,
    /// What NCCL ran on it when it was measured, under the same conditions.
    pub nccl_measured: Option<Arc<Nccl>>,
    /// The tuner that NCCL loads on it, whatever its rates.
    pub(crate) nccl_tuner: Option<NcclTuner>,
    /// The input of NCCL's search, under the same conditions.
    pub topology: Option<Arc<Description>>,
    /// The links between its ranks, one by one, under the same conditions.
    pub graph: Option<Arc<Graph>>,
    /// The only wire protocol that NCCL may choose, if one was given.
    pub protocol: Option<Protocol>,
    /// GPUs whose calls one thread starts, one after another; `None` is a process or a thread a GPU.
    pub gpus_per_thread: Option<NonZeroU32>,
    /// The rates.
    pub fabric: Fabric,
    /// Whether the number of NICs in use was given.
    pub nics_given: bool,
    /// Settings that belong to another machine, and do not apply to this one.
    pub left_out: Vec<String>,
    /// For each tier, how α and the rate were obtained, and the efficiency that was applied.
    pub origins: Vec<Origin>,
    /// How the launch overhead was obtained.
    pub launch: Option<How>,
    /// The profile's rates, if there is a profile: expectations belong to those, and are scaled
    /// with changes to them.
    pub stock: Option<Fabric>,
    /// How its parameters were fitted, and how far to trust them.
    pub fit: Option<Calibration>,
    /// Its hardware, if known.
    pub hardware: Option<Hardware>,
    /// The network between its nodes, if known.
    pub network: Option<NetworkKind>,
    /// Whether NICs may access the memory of GPUs.
    pub gpu_direct: bool,
    /// The measured time of collectives in its library, on the unchanged machine.
    pub curves: Vec<Curve>,
}

/// What chose the machine if nobody named one.
pub const DEFAULT_CHOSEN: &str = "default";

/// How the parameters of one tier were obtained; absent if a person gave them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin {
    /// α.
    pub alpha: Option<How>,
    /// The low end of the profile's α, if it states one.
    pub least_alpha: Option<Seconds>,
    /// The rate.
    pub bandwidth: Option<How>,
    /// The rate before the efficiency, the efficiency, and how that was obtained.
    pub efficiency: Option<(Bandwidth, Ratio, How)>,
    /// The low end of the efficiency.
    pub least: Option<Ratio>,
    /// The profile's rate before the efficiency, whatever rate was given since.
    pub(crate) line: Option<Bandwidth>,
}

/// A question ready for the engine.
#[derive(Debug, Clone)]
pub struct Query {
    /// The machine.
    pub machine: Machine,
    /// The operation, N, ports and parameters.
    pub shape: Shape,
    /// The nodes of the ranks.
    pub placement: Placement,
    /// How nodes were taken, if the question or the machine left that open.
    pub nodes_are: Option<NodesAre>,
    /// M.
    pub size: Bytes,
    /// Bytes of an element, if messages hold whole elements; absent: data divides anywhere.
    pub element: Option<Bytes>,
    /// The parameters as given; those of the shape are filled from the machine.
    pub given: Params,
    /// The measured times of this call at some sizes: expectations of other sizes are scaled with
    /// them.
    pub seen: Vec<(Bytes, Seconds)>,
}

/// What nodes were taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodesAre {
    /// So many hosts were given as nodes of a machine whose node is a rack of them.
    Racks {
        /// The hosts.
        hosts: NonZeroU32,
    },
    /// The machine is a network alone: the ranks of a node share memory, and so many ports.
    Hosts {
        /// The ports.
        ports: NonZeroU32,
    },
}

impl Machine {
    /// A machine from a profile, or of only the given parameters, with those parameters applied.
    ///
    /// `named` is a profile and what named it. Without one, α and BW together define a machine;
    /// otherwise the parameters change the default machine.
    ///
    /// # Errors
    /// Parameters between nodes for a machine that has no links there.
    pub fn new(
        named: Option<(Profile, &'static str)>,
        given: &Given,
        collective: Collective,
    ) -> Result<Self> {
        let mut machine = match (named, given.alpha, given.bandwidth) {
            (Some((profile, by)), ..) => return Self::on(&profile, by, given, collective),
            (None, Some(alpha), Some(bandwidth)) => {
                Self::plain(alpha, bandwidth, given, collective)
            }
            (None, ..) => Self::of(
                &Profile::builtin(crate::machine::profile::DEFAULT)?,
                DEFAULT_CHOSEN,
                collective,
            ),
        };
        machine.put_in(given)?;
        Ok(machine)
    }

    /// A profile's machine with the parameters applied, for many questions that share the profile.
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
            least_alpha: tier.alpha.as_ref().and_then(|alpha| alpha.low),
            bandwidth: tier.bandwidth.as_ref().map(|b| b.how),
            efficiency: tier
                .efficiency
                .as_ref()
                .zip(tier.bandwidth.as_ref())
                .map(|(e, b)| (b.value, e.value, e.how)),
            least: tier.efficiency.as_ref().and_then(|e| e.low),
            line: tier.efficiency.as_ref().and(tier.bandwidth.as_ref()).map(|b| b.value),
        });
        // This machine is used for nothing else; a barrier may be an all-reduce.
        let or = if collective == Collective::Barrier { Collective::AllReduce } else { collective };
        let curves = profile.curves.iter().filter(|c| [collective, or].contains(&c.collective));
        Self {
            name: profile.name.clone(),
            title: profile.title.clone(),
            chosen,
            library: profile.library.clone(),
            nccl_graphs: profile.nccl_graphs.clone(),
            nccl_inside: profile.nccl_inside.clone(),
            nccl_measured: profile.nccl.clone().map(Arc::new),
            nccl_tuner: profile.nccl_tuner,
            topology: profile.topology.clone(),
            graph: profile.graph.clone(),
            origins: origins.collect(),
            launch: profile.launch_of(collective).map(|launch| launch.how),
            stock: Some(profile.fabric(collective)),
            hardware: profile.hardware(),
            network: profile.network,
            gpu_direct: profile.gpu_direct.unwrap_or(true),
            fabric: profile.fabric(collective),
            protocol: None,
            gpus_per_thread: None,
            nics_given: false,
            left_out: Vec::new(),
            fit: profile.fit.clone(),
            curves: curves.cloned().collect(),
        }
    }

    /// One tier of the given α and BW; two if parameters between nodes are given.
    fn plain(alpha: Seconds, bandwidth: Bandwidth, given: &Given, collective: Collective) -> Self {
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
        let node = (tiers.len() > 1).then_some(0);
        if let (Some(hop), Some(tier)) = (given.alpha_switch_inter, tiers.last_mut()) {
            tier.switch =
                Some(Switch { alpha: Some(hop), bandwidth: None, multicast: true, alu: true });
        }
        let unknown = Profile::bare("the given parameters".to_owned(), String::new());
        Self {
            origins: vec![Origin::default(); tiers.len()],
            stock: None,
            fabric: Fabric { node, ..Fabric::new(tiers) },
            ..Self::of(&unknown, "flags", collective)
        }
    }

    fn put_in(&mut self, given: &Given) -> Result<()> {
        if let Some(library) = given.library {
            self.run(library);
        }
        self.refuse_protocol(given.protocol)?;
        self.refuse_threads(given.gpus_per_thread)?;
        self.add_network(given);
        let alone = self.alone_on_nodes();
        let has_nics = self.fabric.tiers.len() > 1 || alone;
        let fabric = &mut self.fabric;
        // Links of a network alone are between nodes, and have either name.
        let either = [
            (given.alpha.is_some(), given.alpha_inter.is_some()),
            (given.bandwidth.is_some(), given.bandwidth_inter.is_some()),
        ];
        let is_known = |&(own, between): &(bool, bool)| !between || !own && alone;
        if fabric.tiers.len() < 2 && !either.iter().all(is_known)
            || given.nics.is_some() && !has_nics
        {
            return Err(Error::input(format!("{} has no links between nodes", self.name))
                .at(format!("machine {}", self.name))
                .help(
                    "leave out --alpha-inter, --bw-inter and --nics-per-node, or give both \
                     --alpha-inter and --bw-inter",
                ));
        }
        // NCCL's search depends on rates: with others it would find other graphs.
        if given.bandwidth.is_some() || given.bandwidth_inter.is_some() {
            self.forget_graphs();
        }
        let fabric = &mut self.fabric;
        let last = fabric.tiers.len() - 1;
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
        if let Some(hop) = given.alpha_switch_inter {
            // A time for them implies that the network's switches add.
            let sharp = Switch { alpha: None, bandwidth: None, multicast: true, alu: true };
            fabric.tiers[last].switch.get_or_insert(sharp).alpha = Some(hop);
        }
        if let Some(launch) = given.launch {
            (fabric.launch, self.launch) = (launch, None);
        }
        fabric.gamma = given.gamma.or(fabric.gamma);
        fabric.order = given.order;
        let one = Ratio(1.0);
        contend(fabric, given.eta_alpha.unwrap_or(one), given.eta_beta.unwrap_or(one));
        if let Some(protocol) = given.protocol {
            let (alpha, bytes) = protocol.factors();
            // Ideal prices differ by it on any links; measurements are of what the library ran.
            for fabric in std::iter::once(fabric).chain(&mut self.stock) {
                contend(fabric, alpha, Ratio(1.0 / bytes.0));
            }
            self.protocol = Some(protocol);
        }
        self.gpus_per_thread = given.gpus_per_thread;
        Ok(())
    }
}

impl Machine {
    /// Refuses a protocol of NCCL for a machine whose library is another.
    fn refuse_protocol(&self, protocol: Option<Protocol>) -> Result<()> {
        match (protocol, self.library.as_deref().and_then(Library::named)) {
            (Some(protocol), Some(library)) if !library.connects_as_nccl() => Err(Error::input(
                format!("{protocol} is a protocol of NCCL, and {} has {}", self.name, library.id()),
            )
            .at(format!("--protocol {protocol}"))
            .help("leave it out, or name a machine with NCCL")),
            _ => Ok(()),
        }
    }

    /// Refuses threads of several GPUs where another library runs.
    fn refuse_threads(&self, gpus: Option<NonZeroU32>) -> Result<()> {
        match (gpus, self.library.as_deref().and_then(Library::named)) {
            (Some(gpus), Some(library)) if !library.connects_as_nccl() => {
                let what = format!(
                    "a thread starts GPUs for NCCL or RCCL, and {} runs on {}",
                    library.id(),
                    self.name
                );
                Err(Error::input(what)
                    .at(format!("gpus_per_thread {gpus}"))
                    .help("leave it out, or name a machine with NCCL"))
            }
            _ => Ok(()),
        }
    }

    /// Both parameters between nodes are a network for a profile that knows only the links inside a node.
    fn add_network(&mut self, given: &Given) {
        let (Some(alpha), Some(rate)) = (given.alpha_inter, given.bandwidth_inter) else { return };
        let inside = |tier: &Tier| matches!(tier.kind, TierKind::Memory | TierKind::Node);
        let tiers = &self.fabric.tiers;
        let Some(span) = tiers.last().filter(|_| tiers.iter().all(inside)).and_then(|t| t.span)
        else {
            return;
        };
        if self.stock.is_none() {
            return;
        }
        let node = tiers.len() - 1;
        let network = Tier { kind: TierKind::Network, ..Tier::new("inter", alpha, rate) };
        for fabric in std::iter::once(&mut self.fabric).chain(&mut self.stock) {
            fabric.tiers.push(network.clone());
            fabric.node = Some(node);
        }
        self.origins.push(Origin::default());
        // What was learned of other machines asks for the NICs, too.
        if let Some(hardware) = &mut self.hardware {
            let nics = given.nics.unwrap_or(span);
            hardware.nics = nics.get();
            hardware.between = Some(rate * Ratio(f64::from(nics.get()) / f64::from(span.get())));
        }
    }
}

fn contend(fabric: &mut Fabric, alpha: Ratio, bandwidth: Ratio) {
    let links = std::mem::replace(fabric, Fabric::new(Vec::new()));
    *fabric = links.contended(alpha, bandwidth);
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
    /// The parameters that were given instead of the profile's; none if there is no profile.
    #[must_use]
    pub fn given(&self) -> Vec<Figure> {
        let Some(stock) = &self.stock else { return Vec::new() };
        let differs = |figure: Figure| figure.get(&self.fabric) != figure.get(stock);
        let is_given = |figure: &Figure| match *figure {
            // Contention changes both, without either being given.
            Figure::Alpha(tier) => self.origins[tier].alpha.is_none() && differs(*figure),
            Figure::Bandwidth(tier) => self.origins[tier].bandwidth.is_none() && differs(*figure),
            // It is scaled with its links' rate.
            Figure::SwitchBandwidth => differs(*figure) && !differs(Figure::Bandwidth(0)),
            _ => differs(*figure),
        };
        Figure::all(&self.fabric).into_iter().filter(is_given).collect()
    }

    /// Whether the switches inside its nodes add and multicast, which NCCL calls NVLS.
    pub(crate) fn has_nvls(&self) -> bool {
        self.hardware.as_ref().is_some_and(|hardware| hardware.nvls)
    }

    /// How many NICs of a node are in use, if the given number differs from the profile's.
    #[must_use]
    pub fn other_nics(&self) -> Option<NonZeroU32> {
        let of = |fabric: &Fabric| fabric.tiers.last().and_then(|tier| tier.nics);
        let stock = self.stock.as_ref().filter(|_| self.nics_given)?;
        of(&self.fabric).filter(|&nics| of(stock) != Some(nics))
    }

    /// `fabric` with the rates of this machine's links before what is measured to be lost of them.
    pub(crate) fn at_line_rate(&self, fabric: &Fabric) -> Fabric {
        let mut line = fabric.clone();
        for (tier, (own, origin)) in
            line.tiers.iter_mut().zip(self.fabric.tiers.iter().zip(&self.origins))
        {
            let is_own = tier.link.bandwidth == own.link.bandwidth;
            if let Some((rate, ..)) = origin.efficiency.filter(|_| is_own) {
                tier.set_bandwidth(rate);
            }
        }
        line
    }

    /// The machine with the graphs of all NICs that the profile has, if others are in use.
    pub(crate) fn with_all_nics(&self) -> Option<Self> {
        self.other_nics()?;
        let all = self.stock.as_ref()?.tiers.last()?.nics?;
        let graphs = self.nccl_graphs.as_deref()?;
        Some(Self { nccl_graphs: with_nics(graphs, all), ..self.clone() })
    }

    /// What was given in place of the profile's: `inter.bw 24 GB/s`.
    #[must_use]
    pub fn given_in_words(&self) -> Vec<String> {
        let fabric = &self.fabric;
        let in_words =
            |figure: Figure| Some(format!("{} {}", figure.name(fabric), figure.get(fabric)?));
        let nics = self.other_nics().map(|nics| match nics.get() {
            1 => "1 NIC per node".to_owned(),
            nics => format!("{nics} NICs per node"),
        });
        self.given().into_iter().filter_map(in_words).chain(nics).collect()
    }

    /// Whether nobody named it, so that it is the default machine.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.chosen == DEFAULT_CHOSEN
    }

    /// What to know about settings that do not apply to it.
    #[must_use]
    pub fn settings_note(&self) -> Option<String> {
        let left_out = match self.left_out.as_slice() {
            [] => return None,
            [one] => format!("{one} is"),
            many => format!("{} are", many.join(", ")),
        };
        let name = &self.name;
        Some(format!("{left_out} for questions that name no machine, and not applied to {name}"))
    }

    /// Runs `library` in place of the profile's, of which the measured times are.
    fn run(&mut self, library: Library) {
        if self.library.as_deref().and_then(Library::named) != Some(library) {
            self.curves.clear();
        }
        self.library = Some(library.id().to_owned());
    }

    /// The link-by-link description no longer matches the machine.
    fn forget_graphs(&mut self) {
        (self.nccl_graphs, self.nccl_inside) = (None, None);
        (self.topology, self.graph) = (None, None);
        self.nccl_measured = None;
    }

    /// Marks a parameter as given: its former source no longer applies.
    pub fn forget(&mut self, figure: Figure) {
        match figure {
            Figure::Alpha(tier) => self.origins[tier].alpha = None,
            Figure::Bandwidth(tier) => {
                (self.origins[tier].bandwidth, self.origins[tier].efficiency) = (None, None);
                self.forget_graphs();
            }
            Figure::Launch => self.launch = None,
            Figure::SwitchAlpha
            | Figure::FarSwitchAlpha
            | Figure::SwitchBandwidth
            | Figure::Gamma => {}
        }
    }
}

impl Machine {
    /// The measurement of a collective over elements of `dtype` on ranks with this placement, or
    /// the nearest to it.
    #[must_use]
    pub fn curve(
        &self,
        collective: Collective,
        dtype: Option<DataType>,
        placed: Placed,
    ) -> Option<&Curve> {
        let nearest = crate::machine::curve::nearest(&self.curves, collective, dtype, placed);
        // Far from all ranks that were measured the links say more, if they are known.
        let are_known =
            self.fabric.tiers.iter().all(|t| t.link.alpha.is_some() && t.link.bandwidth.is_some());
        nearest.filter(|curve| !are_known || curve.is_near(placed))
    }
}

impl Query {
    /// The library that people run on the machine, if one is known.
    #[must_use]
    pub fn library(&self) -> Option<Library> {
        self.machine.library.as_deref().and_then(Library::named)
    }

    /// Places the ranks on the machine.
    ///
    /// # Errors
    /// Ranks, nodes and ranks per node that contradict each other or the machine.
    pub fn new(
        mut machine: Machine,
        collective: Collective,
        size: Bytes,
        layout: Layout,
        params: Params,
    ) -> Result<Self> {
        let node = machine.fabric.node.and_then(|i| machine.fabric.tiers[i].span);
        let open = machine.fabric.node.is_some() && node.is_none();
        if open && layout.per_node.is_none() && layout.nodes.is_none() {
            return Err(Error::input("there are links between nodes: how many ranks per node?")
                .at(format!("machine {}", machine.name))
                .help("give --gpus-per-node or --nodes"));
        }
        let (layout, mut nodes_are) = layout.in_domains(machine.hardware.as_ref());
        let (ranks, mut per_node) = layout.solve(node, machine.alone_on_nodes())?;
        if layout.per_node.is_none() && layout.nodes.is_none() {
            per_node = alike(&machine.fabric, ranks, per_node);
        }
        // Memory ends with its host, also where a profile does not say how many ranks that holds.
        if per_node < ranks && machine.fabric.tiers.iter().all(|t| t.kind == TierKind::Memory) {
            let error = no_network(ranks).at(format!("{} nodes", ranks.div_ceil(per_node)));
            return Err(error.help("name a profile with a network, such as ib-hdr"));
        }
        let lone = machine.hardware.as_ref().filter(|h| machine.alone_on_nodes() && h.is_lone());
        let most = node.or(lone.map(|_| NonZeroU32::MIN));
        if let Some(span) = most.filter(|s| s.get() < per_node) {
            return Err(Error::input(format!(
                "{} ranks do not fit on a node of {}: it has {span}",
                per_node, machine.name
            ))
            .at(format!("{per_node} ranks per node"))
            .help(format!("use at most {span}")));
        }
        let given = machine.nics_given;
        if machine.alone_on_nodes() {
            nodes_are = machine.put_on_hosts(ranks, per_node)?;
        }
        let rate = machine
            .given()
            .contains(&Figure::Bandwidth(0))
            .then(|| machine.fabric.tiers[0].link.bandwidth);
        let both = [(Some(&mut machine.fabric), given), (machine.stock.as_mut(), false)];
        for (fabric, nics_given) in both {
            let Some(fabric) = fabric else { continue };
            use_nodes(fabric, node, per_node, nics_given);
            use_links(fabric, per_node, collective);
            use_sides(fabric, ranks.min(per_node), params.dims);
        }
        // A given rate is the one in use.
        if let Some(rate) = rate.flatten() {
            machine.fabric.tiers[0].set_bandwidth(rate);
        }
        let given = params;
        let mut shape = machine.fabric.shape(collective, ranks)?;
        shape.params = Params {
            rails: params.rails.or(shape.params.rails),
            c_real: params.c_real.or(shape.params.c_real),
            dims: params.dims.or(shape.params.dims),
            open: shape.params.open,
            ports_inside: shape.params.ports_inside,
            beside_root: shape.params.beside_root,
            leaving: shape.params.leaving,
            ..params
        };
        let placement = Placement { ranks, per_node, order: machine.fabric.order };
        // Nodes of one rank have no links inside, but NCCL's algorithms ask for the ranks of a node.
        let library = machine.library.as_deref().and_then(Library::named);
        let nccl = library.is_some_and(Library::connects_as_nccl);
        if nccl && per_node == 1 && placement.is_spread() {
            shape.group = NonZeroU32::new(1);
        }
        // NCCL's search depends on NICs, too, if data leaves the node.
        if let Some(nics) = machine.other_nics().filter(|_| placement.nodes() > 1) {
            let graphs = machine.nccl_graphs.take();
            machine.forget_graphs();
            machine.nccl_graphs = graphs.and_then(|graphs| with_nics(&graphs, nics));
        }
        if placement.nodes() == 1 {
            machine.nccl_graphs = machine.nccl_graphs.or(machine.nccl_inside.take());
        }
        Ok(Self {
            machine,
            shape,
            placement,
            nodes_are,
            size,
            element: None,
            given,
            seen: Vec::new(),
        })
    }

    /// Whether as many ranks on so many hosts are on the question's nodes. Links that say nothing of nodes have
    /// them on any.
    #[must_use]
    pub fn is_on(&self, hosts: u32) -> bool {
        let domains =
            self.machine.hardware.as_ref().and_then(|h| h.domains(self.shape.ranks, hosts));
        let is_flat = self.machine.stock.is_none() && self.machine.fabric.tiers.len() == 1;
        is_flat || domains.unwrap_or(hosts) == self.placement.nodes()
    }

    /// Adds measured times of the call.
    ///
    /// # Errors
    /// A time or a size that says nothing of other sizes; a size that has another time.
    pub fn see(&mut self, seen: impl IntoIterator<Item = (Bytes, Seconds)>) -> Result<()> {
        for (size, time) in seen {
            if size.0 == 0 {
                return Err(Error::input("a call of 0 bytes says nothing of others")
                    .help("write a size above 0, as in 1MiB=88us"));
            }
            if !(time.0 > 0.0 && time.0.is_finite()) {
                return Err(Error::input("a measured time must be above 0")
                    .help("write what a run took, as in 1MiB=88us"));
            }
            if let Some((_, other)) = self.seen.iter().find(|(known, _)| *known == size) {
                return Err(Error::input(format!("{size} was seen twice, at {other} and {time}"))
                    .help("give one time for each size"));
            }
            self.seen.push((size, time));
        }
        Ok(())
    }

    /// Refuses the given parameter `name` for links that no message uses.
    ///
    /// # Errors
    /// Links between nodes for ranks of one node; links inside nodes for one rank on each.
    pub fn refuse_idle(&self, links: Links, name: &str) -> Result<()> {
        let has_both = self.machine.stock.is_some() && self.machine.fabric.node.is_some();
        let spread = self.placement.is_spread();
        let (where_from, idle, help) = match links {
            Links::Between => ("all ranks are on one node", !spread, "use more nodes"),
            Links::Inside => (
                "each rank is alone on its node",
                spread && self.placement.per_node == 1,
                "use more ranks per node",
            ),
        };
        if !(has_both && idle) {
            return Ok(());
        }
        Err(Error::input(format!("{where_from}: `{name}` changes nothing"))
            .help(format!("leave it out, or {help}")))
    }
}

impl Machine {
    /// Whether each rank is its own node by default.
    fn alone_on_nodes(&self) -> bool {
        self.fabric.is_network_alone()
    }

    /// The rates, with each α at the low end of what the profile knows of it: of an assumed one without such an end
    /// nothing. What a person gave stays as it is.
    pub(crate) fn fabric_at_least_alpha(&self) -> Fabric {
        let mut fabric = self.fabric.clone();
        for (tier, origin) in fabric.tiers.iter_mut().zip(&self.origins) {
            let least = match (origin.alpha, origin.least_alpha) {
                (None, _) => None,
                (Some(_), Some(least)) => Some(least),
                (Some(how), None) => (how == How::Assumed).then_some(Seconds(0.0)),
            };
            if let (Some(alpha), Some(least)) = (tier.link.alpha, least) {
                tier.link.alpha = Some(Seconds(alpha.0.min(least.0)));
            }
        }
        fabric
    }

    /// Several ranks on each node of a network alone share its ports, one if not more were given, and the
    /// memory of an x86 host.
    fn put_on_hosts(&mut self, ranks: u32, per_node: u32) -> Result<Option<NodesAre>> {
        let ports = self.fabric.tiers[0].nics.unwrap_or(NonZeroU32::MIN);
        if self.nics_given && (per_node == 1 || per_node >= ranks) {
            let (what, help) = match per_node {
                1 => (
                    "each rank has a node, and a port, of its own: more change nothing",
                    "leave it out, or put several ranks on a node: --gpus-per-node 8",
                ),
                _ => (
                    "all ranks are on one node: no port is used",
                    "leave it out, or use more nodes",
                ),
            };
            return Err(Error::input(what).at(format!("--nics-per-node {ports}")).help(help));
        }
        if per_node == 1 {
            return Ok(None);
        }
        self.fabric.tiers[0].nics = Some(ports);
        let memory = Profile::builtin(MEMORY)?.fabric(Collective::AllReduce).tiers.swap_remove(0);
        let memory = Tier { span: NonZeroU32::new(per_node), ..memory };
        for fabric in std::iter::once(&mut self.fabric).chain(&mut self.stock) {
            fabric.tiers[0].nics.get_or_insert(NonZeroU32::MIN);
            fabric.tiers.insert(0, memory.clone());
            fabric.node = Some(0);
        }
        let how = Some(How::Assumed);
        self.origins.insert(0, Origin { alpha: how, bandwidth: how, ..Origin::default() });
        Ok(Some(NodesAre::Hosts { ports }))
    }
}

/// The built-in machine whose memory ranks share on a network that says nothing of its nodes.
const MEMORY: &str = "shm-x86";

/// Leaves idle the NICs that this many ranks per node do not use, since a rank drives those beside it, unless
/// the number in use was given.
fn use_nodes(fabric: &mut Fabric, span: Option<NonZeroU32>, per_node: u32, nics_given: bool) {
    let Some(node) = fabric.node else { return };
    if let (Some(span), Some(outer), false) = (span, fabric.tiers.get_mut(node + 1), nics_given) {
        outer.nics = outer.nics.and_then(|_| NonZeroU32::new(outer.ports_of(per_node, span.get())));
    }
}

/// Leaves idle the links inside nodes that so many ranks on each do not use.
fn use_links(fabric: &mut Fabric, per_node: u32, collective: Collective) {
    let (Some(node), Some(ranks)) = (fabric.node, NonZeroU32::new(per_node)) else { return };
    for tier in &mut fabric.tiers[..=node] {
        tier.use_ranks(ranks, collective);
    }
}

/// The ranks of each slice, if so many of a torus do not fill the largest ones: slices of a job are alike.
fn alike(fabric: &Fabric, ranks: u32, most: u32) -> u32 {
    let Some(torus) = fabric.torus(most).filter(|_| !ranks.is_multiple_of(most)) else {
        return most;
    };
    let fits = |each: &u32| ranks.is_multiple_of(*each) && torus.slice(*each).is_some();
    (2..most).rev().find(fits).unwrap_or(most)
}

/// Takes the part of a torus that is asked for, once for all that is priced on it.
fn use_sides(fabric: &mut Fabric, ranks: u32, dims: Option<Dims>) {
    if let Some(slice) = fabric.slice_of(ranks, dims) {
        fabric.tiers[0].wires = Wires::Torus(slice);
    }
}

impl Layout {
    /// The layout over the domains of racks if its nodes are hosts of these.
    fn in_domains(self, hardware: Option<&Hardware>) -> (Self, Option<NodesAre>) {
        let (Some(n), Some(hosts), None, Some(hardware)) =
            (self.ranks, self.nodes, self.per_node, hardware)
        else {
            return (self, None);
        };
        match hardware.domains(n.get(), hosts.get()) {
            None => (self, None),
            domains => {
                let nodes = domains.and_then(NonZeroU32::new);
                (Self { nodes, ..self }, Some(NodesAre::Racks { hosts }))
            }
        }
    }

    /// N and the ranks per node: as given, else `node`, or one if ranks are `alone`.
    fn solve(self, node: Option<NonZeroU32>, alone: bool) -> Result<(u32, u32)> {
        let number = |v: Option<NonZeroU32>| v.map(NonZeroU32::get);
        let (n, nodes, each) = (number(self.ranks), number(self.nodes), number(self.per_node));
        let node = number(node);
        match (n, nodes, each) {
            (Some(n), Some(nodes), Some(each)) if nodes.checked_mul(each) != Some(n) => {
                let product = u64::from(nodes) * u64::from(each);
                Err(Error::input(format!("{nodes} nodes x {each} ranks are {product}, not {n}"))
                    .at(format!("--n {n} --nodes {nodes} --gpus-per-node {each}"))
                    .help("give two of the three; the third follows"))
            }
            (Some(n), Some(nodes), None) if n % nodes != 0 => {
                // With one less on the last node, the ranks of a full node say it.
                let each = n.div_ceil(nodes);
                let uneven = match n % each == each - 1 && n.div_ceil(each) == nodes {
                    true => {
                        format!(", or give those of a full node instead: --gpus-per-node {each}")
                    }
                    false => String::new(),
                };
                Err(Error::input(format!("{n} ranks do not divide over {nodes} nodes"))
                    .at(format!("--n {n} --nodes {nodes}"))
                    .help(format!("use a multiple of {nodes} ranks{uneven}")))
            }
            (Some(n), Some(nodes), _) => Ok((n, n / nodes)),
            // All ranks on one node would leave nothing to do for a network, unless it is asked for.
            (Some(n), None, None) if alone => Ok((n, 1)),
            (Some(n), None, each) => Ok((n, each.or(node).unwrap_or(n).min(n))),
            (None, nodes, each) => {
                let Some(each) = each.or(node) else {
                    return Err(Error::input("how many ranks?").help("give --n, such as --n 64"));
                };
                let n = each.checked_mul(nodes.unwrap_or(1));
                n.map(|n| (n, each)).ok_or_else(|| {
                    let nodes = nodes.unwrap_or(1);
                    Error::input(format!("{nodes} nodes x {each} ranks are too many ranks"))
                        .at(format!("--nodes {nodes}"))
                        .help(format!("use at most {} nodes", u32::MAX / each))
                })
            }
        }
    }
}
