//! NCCL's tuner as a policy: its decisions bit for bit, on a machine whose graphs are known.
//!
//! Source: [`crate::library::nccl`].

use std::sync::OnceLock;

use crate::base::collective::Collective;
use crate::base::dtype::DataType;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::library::nccl::allowed::has_protocols;
use crate::library::nccl::call::{known, no_type};
use crate::library::nccl::observed::Observed;
use crate::library::nccl::point_to_point::{ALWAYS, PointToPoint, choice, no_barrier, sends};
use crate::library::nccl::ranges::cell;
use crate::library::nccl::search::{Job, search};
use crate::library::nccl::topology::Knobs;
use crate::library::nccl::tuned::Tuned;
use crate::library::nccl::{
    self, Algo, Chooser, Communicator, Decision, Function, Micros, Operation, Place, Proto, Range,
    Reduction, Settings, Table, Version, chunks, ranges, since,
};
use crate::library::{Call, Choice, Meta, Part, Pipeline, Policy, Runs, Site, Where};
use crate::model::algorithm::{Library, Reason};
use crate::model::formula::Protocol;

/// The rules of a release: without graphs, what NCCL ran when the machine was measured, or what needs
/// no graphs.
///
/// # Errors
/// A data type or a variable that NCCL does not know.
pub(in crate::library) fn of(version: Version, site: &Site) -> Result<Box<dyn Policy>> {
    element(site)?;
    settings(site)?;
    Ok(match Known::at(site, version) {
        Ok(Known::Rules(nccl)) => nccl,
        Ok(Known::Measured(observed)) => Box::new(observed),
        Ok(Known::Tuner(tuned)) => Box::new(tuned),
        Err(unknown) => Box::new(PointToPoint::new(version, unknown)),
    })
}

/// How NCCL's choices at a site are known: the first that is there counts.
pub(crate) enum Known {
    /// By its own rules, on known graphs.
    Rules(Box<Nccl>),
    /// By what its log said when the machine was measured.
    Measured(Observed),
    /// By those of the tuner that is loaded there.
    Tuner(Tuned),
}

impl Known {
    /// # Errors
    /// Why its own rules do not answer, where nothing else does.
    pub(crate) fn at(site: &Site, version: Version) -> Result<Self> {
        Nccl::new(site, version).map(|nccl| Self::Rules(Box::new(nccl))).or_else(|unknown| {
            // What was measured, and the tuner, ran without the settings of the question.
            if !settings(site)?.is_empty() {
                return Err(unknown);
            }
            Observed::of(site)
                .filter(|observed| observed.answers(version))
                .map(Self::Measured)
                .or_else(|| Tuned::of(site, version).map(Self::Tuner))
                .ok_or(unknown)
        })
    }
}

/// The data type of a site's calls: float if none is given.
fn element(site: &Site) -> Result<DataType> {
    let asked = site.conditions.dtype.unwrap_or(Reduction::default().element);
    known(asked).ok_or_else(|| no_type(asked.id()))
}

/// NCCL's settings at a site. Variables of other programs are not among them.
fn settings(site: &Site) -> Result<Settings> {
    let mut settings = Settings::default();
    for (name, value) in site.conditions.variables.all().filter(|(name, _)| is_own(name)) {
        settings.set(name, value)?;
    }
    Ok(settings)
}

/// Whether a variable is NCCL's.
fn is_own(variable: &str) -> bool {
    variable.starts_with("NCCL_")
}

/// NCCL on one communicator.
pub struct Nccl {
    meta: Meta,
    comm: Communicator,
    version: Version,
    table: Table,
    element: DataType,
    /// Decides calls with a predefined operation, as sums.
    chooser: Chooser,
    /// Decides calls with an operation of the program, which NCCL has as scaled sums.
    scaled: OnceLock<Chooser>,
    notes: Vec<String>,
    /// The only protocol, with whose rates the links are priced.
    only: Option<Protocol>,
}

/// The largest size up to which changes of the tuner's choice are found.
pub(in crate::library) const LARGEST: Bytes = Bytes(1 << 50);

/// The communicator of a site, with its name: the result of the search in the site's topology, or
/// the known communicator of its machine.
fn communicator(
    site: &Site,
    per_node: u32,
    nodes: u32,
    version: Version,
) -> Result<(Communicator, String)> {
    if let Some(description) = &site.topology {
        let job = Job { nodes, per_node: Some(per_node) };
        let found = search(description, version, job, &Knobs::default())?;
        let name = format!("{}, {nodes} x {per_node}", description.origin);
        return Ok((found.communicator(), name));
    }
    let machine = site.nccl_graphs.as_deref().ok_or_else(|| {
        Error::unsupported(format!("NCCL's graphs on {} are not known", site.machine)).help(
            "name a profile with `nccl_graphs` or `nccl_topology`, such as dgx-h100, with its own \
             rates and NICs, or run `collcost nccl choose` with --topo, --graph or --log",
        )
    })?;
    let place = Place { machine, per_node, nodes, search: Some(version) };
    Ok((place.communicator()?, place.to_string()))
}

impl Nccl {
    /// NCCL on the machine of a site.
    ///
    /// # Errors
    /// A machine whose graphs are not known for this many ranks and nodes.
    pub fn new(site: &Site, version: Version) -> Result<Self> {
        let nodes = site.nodes.max(1);
        if !site.ranks.is_multiple_of(nodes) {
            return Err(Error::unsupported(format!(
                "{} ranks do not spread evenly over {nodes} nodes",
                site.ranks
            ))
            .help("give --gpus-per-node a number of ranks by which every node has equally many"));
        }
        let (comm, place) = communicator(site, site.ranks / nodes, nodes, version)?;
        let mut settings = settings(site)?;
        if let Some(protocol) = site.protocol {
            settings.set("NCCL_PROTO", &protocol.to_string())?;
        }
        let table = Table::new(&comm, version, &settings)?;
        let element = element(site)?;
        let operation = Operation::Sum;
        let chooser = Chooser::new(&comm, version, &table, Reduction { element, operation });
        let foreign = site.conditions.variables.names().filter(|name| !is_own(name));
        let note = |name| format!("`{name}` is not a variable that NCCL reads");
        let notes = foreign.map(note).collect();
        let meta = Meta {
            id: version.policy().to_owned(),
            library: Some(Library::Nccl),
            title: format!("NCCL {version}'s tuner on {place}"),
            counts: "the largest buffer: the vector, or all ranks' blocks".to_owned(),
            source: format!("NVIDIA/nccl v{version}-1, {}, src/enqueue.cc", tuner_of(version)),
        };
        let (scaled, only) = (OnceLock::new(), site.protocol);
        Ok(Self { meta, comm, version, table, element, chooser, scaled, notes, only })
    }

    /// What decides a call.
    fn chooser(&self, call: &Call) -> &Chooser {
        if call.builtin_op {
            return &self.chooser;
        }
        self.scaled.get_or_init(|| {
            let reduction = Reduction { element: self.element, operation: Operation::Scaled };
            Chooser::new(&self.comm, self.version, &self.table, reduction)
        })
    }

    /// The decision for a call; `None` if NCCL returns an error.
    ///
    /// # Errors
    /// A collective that the tuner does not decide.
    pub fn decide(&self, call: &Call) -> Result<Option<Decision>> {
        Ok(self.chooser(call).decide(&tuned(call)?))
    }

    /// Whether an algorithm and a protocol take part in the choice for a call.
    pub(in crate::library) fn considers(&self, call: &Call, algo: Algo, proto: Proto) -> bool {
        function(call).is_ok_and(|function| self.chooser(call).considers(function, algo, proto))
    }

    /// The version whose rules are used.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The prefix that limits a list to one collective, possible since 2.24.
    fn scope(&self, collective: Collective) -> String {
        if self.version.has(since::LISTS_BY_COLLECTIVE) {
            format!("{}:", collective.id())
        } else {
            String::new()
        }
    }

    /// A decision as algorithms, with NCCL's own estimate and what forces it.
    fn choice(&self, call: &Call, decision: &Decision) -> Result<Choice> {
        let name = format!("{}/{}", decision.algo, decision.proto);
        let rule = match self.chooser.models() {
            None => "the least latency + size / bandwidth of its table".to_owned(),
            Some(_) => "the least estimate of its cost models".to_owned(),
        };
        let choice = Choice::new(name, rule, self.runs(call.collective, decision));
        let scope = self.scope(call.collective);
        let size = Bytes(call.size.0);
        let function = function(call)?;
        let latency = self.chooser(call).latency(
            &nccl::Call { function, size, pipelined: 1 },
            decision.algo,
            decision.proto,
        );
        let micro = |t: Micros| Seconds(f64::from(t.0) * 1e-6);
        let caveat = self.version.caveat().map(str::to_owned);
        let notes = caveat.into_iter().chain(self.notes.iter().cloned());
        Ok(Choice {
            pipeline: latency.map(|latency| Pipeline {
                segment: chunks::segment(&self.comm, decision, size),
                latency: micro(latency),
            }),
            notes: notes.map(Into::into).collect(),
            estimate: decision.time.map(micro),
            force: vec![
                format!("NCCL_ALGO={scope}{}", decision.algo),
                format!("NCCL_PROTO={scope}{}", decision.proto),
            ],
            ..choice
        })
    }

    /// The algorithms of the decision, as far as closed forms have them.
    fn runs(&self, collective: Collective, decision: &Decision) -> Runs {
        let Communicator { ranks, nodes, .. } = self.comm;
        let on_the_wire = if self.only.is_some() { Proto::Simple } else { decision.proto };
        runs((ranks, nodes), collective, (decision.algo, on_the_wire))
    }
}

/// What an algorithm and a protocol of NCCL are over so many ranks and nodes, as far as closed forms have
/// them.
pub(in crate::library) fn runs(
    (ranks, nodes): (u32, u32),
    collective: Collective,
    (algo, proto): (Algo, Proto),
) -> Runs {
    let alone = nodes == 1 || nodes == ranks;
    let (algorithm, pipelined) = match algo {
        Algo::Ring => match collective {
            Collective::Broadcast | Collective::Reduce if alone => ("chain", true),
            Collective::Broadcast | Collective::Reduce => ("chain-rails", true),
            _ if alone => ("ring", false),
            _ => ("ring-rails", false),
        },
        Algo::Tree if alone => ("double-binary-tree", true),
        Algo::Tree => ("tree-rails", true),
        Algo::NvlsTree => ("nvlstree", true),
        Algo::Nvls if nodes == 1 => ("inc", false),
        Algo::Pat => ("pat", false),
        Algo::CollNetDirect | Algo::CollNetChain if nodes == 1 => {
            return Runs::unpriced("no network reduces for the ranks of one node");
        }
        // With one rank per node, the stages inside a node are empty.
        Algo::Nvls | Algo::CollNetDirect | Algo::CollNetChain if alone => ("inc", false),
        Algo::Nvls => ("nvls-sharp", true),
        Algo::CollNetDirect => ("collnet-direct", true),
        Algo::CollNetChain => ("collnet-chain", true),
    };
    let mut part = Part::new(collective, ranks, Where::All, algorithm);
    part.best_segments = pipelined;
    part.wire = wire(proto);
    Runs::Parts(vec![part])
}

/// Bytes on the wire for each byte of data, with a protocol's flags.
pub(in crate::library) fn wire(proto: Proto) -> Ratio {
    match proto {
        Proto::Ll => Ratio(2.0),
        Proto::Ll128 => Ratio(128.0 / 120.0),
        Proto::Simple => Ratio(1.0),
    }
}

/// The place of the tuner in a release's source.
fn tuner_of(version: Version) -> &'static str {
    if version.has(since::COST_MODELS) { "src/tuning" } else { "src/graph/tuning.cc" }
}

/// Near a change, times that round to the same float32 alternate from size to size. An edge is the
/// first of this many sizes at which the choice after the change is made.
const FLICKER: u64 = 256;

/// The tuner sees sizes as multiples of this many bytes.
pub(in crate::library) fn grain(call: &Call, function: Function) -> u64 {
    let blocks = if function.gathers() { u64::from(call.ranks.max(1)) } else { 1 };
    blocks * call.element.0.max(1)
}

/// The call as the tuner sees it.
fn tuned(call: &Call) -> Result<nccl::Call> {
    let function = function(call)?;
    let size = Bytes(call.size.0 / grain(call, function) * grain(call, function));
    Ok(nccl::Call { function, size, pipelined: 1 })
}

/// NCCL's algorithm that the one called `algorithm` here stands for.
pub(in crate::library) fn named(algorithm: &str) -> Option<Algo> {
    Some(match algorithm {
        "ring" | "ring-rails" | "chain" | "chain-rails" => Algo::Ring,
        "double-binary-tree" | "tree-rails" => Algo::Tree,
        "nvlstree" => Algo::NvlsTree,
        "inc" | "nvls-sharp" => Algo::Nvls,
        "collnet-direct" => Algo::CollNetDirect,
        "collnet-chain" => Algo::CollNetChain,
        "pat" => Algo::Pat,
        _ => return None,
    })
}

/// Whether NCCL runs the algorithm called `algorithm` here in a protocol.
pub(crate) fn runs_in(algorithm: &str, protocol: Protocol) -> bool {
    protocol == Protocol::Simple || named(algorithm).is_none_or(has_protocols)
}

/// The tuner's function for a call; an error for a barrier.
pub(super) fn function(call: &Call) -> Result<Function> {
    Function::of(call.collective).ok_or_else(no_barrier)
}

impl Policy for Nccl {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if let Some(choice) = choice(call) {
            let notes = self.notes.iter().cloned().map(Into::into).collect();
            return Ok(Choice { notes, ..choice });
        }
        let Some(decision) = self.decide(call)? else {
            let reduction = Reduction { element: self.element, operation: Operation::Sum };
            reduction.check(self.version, function(call)?, self.comm.min_cc)?;
            return Err(Error::unsupported(format!("NCCL {} returns an error here", self.version)));
        };
        self.choice(call, &decision)
    }

    fn only(&self, call: &Call, algorithm: &str) -> Option<Choice> {
        let decision = self.chooser(call).only(&tuned(call).ok()?, named(algorithm)?)?;
        self.choice(call, &decision).ok()
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        if sends(call.collective) {
            return Err(ALWAYS);
        }
        let Some(algo) = named(algorithm) else {
            return Err(Reason::new("NCCL has no such algorithm"));
        };
        let function = function(call).map_err(|e| Reason::from(e.what().to_owned()))?;
        let left = Proto::ALL.iter().any(|&p| self.chooser(call).considers(function, algo, p));
        match left {
            true => Ok(format!("NCCL_ALGO={}{algo}", self.scope(call.collective))),
            false => Err(Reason::new("NCCL does not consider it here")),
        }
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        if sends(call.collective) {
            return Ok(Vec::new());
        }
        let function = function(call)?;
        let grain = grain(call, function);
        let chooser = self.chooser(call);
        let found = ranges(chooser, function, Bytes(1), LARGEST);
        let edge = |range: &Range| {
            let at = |size| chooser.decide(&nccl::Call { function, size, pipelined: 1 });
            let first = range.from.0.next_multiple_of(grain);
            let mut sizes = (0..FLICKER).map(|k| Bytes(first + k * grain));
            let settled = sizes.find(|&size| cell(at(size)) == cell(range.first));
            settled.unwrap_or(Bytes(first))
        };
        Ok(found.iter().map(edge).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Bandwidth;
    use crate::library::{Priced, intervals, priced};
    use crate::machine::fabric::{Fabric, Switch, Tier};
    use crate::model::algorithm::Registry;
    use crate::model::formula::Shape;
    use std::num::NonZeroU32;

    /// Links inside nodes and between them, with switches that add on both.
    fn fabric(per_node: u32) -> Fabric {
        let alpha = Some(Seconds(1e-6));
        let switch = Switch { alpha, bandwidth: None, multicast: true, alu: true };
        let tier = |name, rate| {
            let plain = Tier::new(name, Seconds(2e-6), Bandwidth(rate));
            Tier { switch: Some(switch), ..plain }
        };
        let inside = Tier { span: NonZeroU32::new(per_node), ..tier("inside", 4e11) };
        let between = Tier { nics: NonZeroU32::new(per_node), ..tier("between", 5e10) };
        Fabric::new(if per_node > 1 { vec![inside, between] } else { vec![between] })
    }

    fn site(machine: &str, per_node: u32, nodes: u32) -> Site {
        Site {
            machine: machine.to_owned(),
            nccl_graphs: Some(machine.to_owned()),
            ranks: per_node * nodes,
            nodes,
            fabric: Some(fabric(per_node)),
            ..Site::default()
        }
    }

    /// Every choice of NCCL on a machine with known graphs has a price.
    #[test]
    fn every_choice_has_a_price() {
        let (registry, mut asked, mut seen) = (Registry::builtin(), 0, Vec::new());
        let places = nccl::machines().into_iter().flat_map(|machine| {
            [1, 2, 4, 8].into_iter().flat_map(move |per_node| {
                [1, 2, 3, 4, 16].into_iter().map(move |nodes| (machine, per_node, nodes))
            })
        });
        for (machine, per_node, nodes) in places.filter(|(_, p, n)| p * n > 1) {
            for version in Version::ALL.into_iter().rev().step_by(9) {
                // The graphs of older releases are searched for: of a few.
                if version < Version::NEWEST && (per_node, nodes) != (8, 2) {
                    continue;
                }
                let site = site(machine, per_node, nodes);
                let Ok(policy) = Nccl::new(&site, version) else { continue };
                let fabric = fabric(per_node);
                for function in Function::ALL {
                    let collective = function.collective();
                    for size in (10..=33).step_by(3).map(|bits| Bytes(1 << bits)) {
                        let call = Call { nodes, ..Call::new(collective, site.ranks, size) };
                        let Ok(choice) = policy.choose(&call) else { continue };
                        let shape = Shape::new(collective, site.ranks);
                        let price = priced(&registry, &choice, &shape, &fabric, size).unwrap();
                        let place = format!("{machine} {nodes} x {per_node} {collective} {size}");
                        assert!(matches!(price, Priced::Time(_)), "{place} {choice:?}: {price:?}");
                        seen.push(choice.name);
                        asked += 1;
                    }
                }
            }
        }
        assert!(asked > 10_000, "{asked}");
        for name in ["Ring/LL", "Tree/LL128", "NVLS/Simple", "NVLSTree/Simple", "PAT/Simple"] {
            assert!(seen.iter().any(|n| n == name), "{name} is never chosen");
        }
    }

    /// Near a change float32 times alternate from byte to byte. A range found there must still be
    /// what the policy chooses at its first size.
    #[test]
    fn no_range_is_lost_where_times_flicker() {
        let mut asked = 0;
        for machine in nccl::machines() {
            for (per_node, nodes) in [(8, 1), (4, 2), (8, 2), (8, 4), (8, 8), (8, 16)] {
                for version in Version::ALL.into_iter().rev().step_by(9) {
                    if version < Version::NEWEST && nodes > 4 {
                        continue;
                    }
                    let site = site(machine, per_node, nodes);
                    let Ok(policy) = Nccl::new(&site, version) else { continue };
                    for function in Function::ALL {
                        let collective = function.collective();
                        let call = Call { nodes, ..Call::new(collective, site.ranks, Bytes(1)) };
                        let found = ranges(&policy.chooser, function, Bytes(1), LARGEST);
                        // If NCCL returns an error, nothing can be lost.
                        let Ok(told) = intervals(&policy, &call, Bytes(1), LARGEST) else {
                            continue;
                        };
                        for range in found.iter().filter(|r| r.to.0 - r.from.0 > 1 << 16) {
                            let own = range.first.unwrap();
                            let own = format!("{}/{}", own.algo, own.proto);
                            let middle = Bytes(range.from.0 / 2 + range.to.0 / 2);
                            let there = told.iter().rfind(|i| i.from <= middle).unwrap();
                            let place = format!("{machine} {nodes} x {per_node} {version}");
                            assert_eq!(there.choice.name, own, "{place} {collective} {middle}");
                        }
                        asked += 1;
                    }
                }
            }
        }
        assert!(asked > 500, "{asked}");
    }

    /// CollNet needs a plugin, which no known communicator has. Its algorithms are priced too,
    /// except where there is no network to reduce in.
    #[test]
    fn what_is_never_chosen_there_has_a_price_too() {
        let registry = Registry::builtin();
        for (per_node, nodes) in [(8, 1), (8, 2), (8, 4), (1, 4)] {
            let site = site("dgx_h100_8x400g", per_node, nodes);
            let policy = Nccl::new(&site, Version::NEWEST).unwrap();
            let size = Bytes(1 << 24);
            let call = Call { nodes, ..Call::new(Collective::AllReduce, site.ranks, size) };
            let decision = policy.decide(&call).unwrap().unwrap();
            for algo in Algo::ALL {
                let alone = nodes == 1 || per_node == 1;
                if algo == Algo::NvlsTree && alone || algo == Algo::Pat {
                    continue;
                }
                let runs = policy.runs(Collective::AllReduce, &Decision { algo, ..decision });
                let choice = Choice::new(algo.name(), "", runs);
                let shape = Shape::new(Collective::AllReduce, site.ranks);
                let price = priced(&registry, &choice, &shape, &fabric(per_node), size).unwrap();
                let needs_network = matches!(algo, Algo::CollNetDirect | Algo::CollNetChain);
                let known = price.time().is_some();
                assert_eq!(known, nodes > 1 || !needs_network, "{algo} {nodes} x {per_node}");
            }
        }
    }
}
