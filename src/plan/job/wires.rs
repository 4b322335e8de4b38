//! The expected times of a job's collectives on the machine; results are cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio};
use crate::library::engines::{Conditions, Kernel};
use crate::library::{self, Site, policy};
use crate::measure::expect::{ExpertTimes, Kernels, Tokens, site};
use crate::model::algorithm::Registry;
use crate::plan::price::{Asked, SCALES, Tweak, World};
use crate::plan::table::MachineEntry;
use crate::plan::{Group, Routing};

/// The machine's links, for any group and size.
pub(crate) struct Wires<'r> {
    registry: &'r Registry,
    machine: MachineEntry,
    known: RefCell<HashMap<(Collective, Group, u64), Rc<Asked<'r>>>>,
}

/// How many ranks there are, and which of them take part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Among {
    pub world: u64,
    pub group: Group,
}

impl<'r> Wires<'r> {
    pub fn new(registry: &'r Registry, machine: &MachineEntry) -> Self {
        Self { registry, machine: machine.clone(), known: RefCell::default() }
    }

    fn asked(&self, collective: Collective, among: Among) -> Result<Rc<Asked<'r>>> {
        let key = (collective, among.group, among.world);
        if let Some(asked) = self.known.borrow().get(&key) {
            return Ok(Rc::clone(asked));
        }
        let per_node = self.machine.said.layout.per_node.map(std::num::NonZeroU32::get);
        let world = World { machine: &self.machine, ranks: among.world, per_node };
        let none = Tweak::default();
        let asked = Asked::on(self.registry, &world, (collective, among.group), None, &none)?;
        let asked = Rc::new(asked);
        self.known.borrow_mut().insert(key, Rc::clone(&asked));
        Ok(asked)
    }

    /// Seconds of one collective of `bytes`.
    ///
    /// # Errors
    /// Ranks that the machine does not join.
    pub fn time(&self, collective: Collective, among: Among, bytes: f64) -> Result<f64> {
        if among.group.ranks < 2 || bytes <= 0.0 {
            return Ok(0.0);
        }
        let asked = self.asked(collective, among)?;
        Ok(asked.expected(Bytes(bytes.round() as u64)).time.0)
    }

    /// Seconds of a dispatch that sends each of `tokens` once to every node that it needs: the
    /// network and the links inside nodes at once.
    ///
    /// # Errors
    /// As [`Self::time`]; an unknown rate.
    pub fn once_a_node(
        &self,
        among: Among,
        (tokens, width, node_limit): (f64, f64, Option<u32>),
        (experts, top_k): (u32, u32),
    ) -> Result<f64> {
        let asked = self.asked(Collective::AllToAll, among)?;
        let routing = Routing {
            experts,
            top_k,
            node_limit,
            skew: Ratio(1.0),
            dispatch: crate::machine::sample::DataType::Bf16,
            kernels: None,
        };
        let nodes = asked.lies.nodes;
        let traffic = routing.traffic(tokens, Bytes(width as u64), among.group.ranks, nodes);
        let fabric = &asked.query.machine.fabric;
        let unknown = || Error::unknown("a rate is unknown, and tokens need it");
        let inner = fabric.tiers.first().and_then(|t| t.link.bandwidth).ok_or_else(unknown)?;
        let mut data = (traffic.inside / inner).0;
        if nodes > 1 {
            let outer = fabric.tiers.last().ok_or_else(unknown)?;
            let rate = outer.link.bandwidth.ok_or_else(unknown)?;
            let own =
                outer.nics.map_or(1.0, |n| f64::from(n.get()) / f64::from(asked.lies.per_node));
            data = data.max((traffic.between / rate).0 * asked.sharing.0 / own.min(1.0));
        }
        // DeepEP reaches about 0.7 of the links (deepseek-ai/DeepEP, README: 43 to 58 of 50 GB/s with a
        // token's own node counted).
        const REACHED: f64 = 0.7;
        Ok(fabric.launch.0 + data / REACHED)
    }

    /// Seconds of an all-reduce of `bytes` by an inference engine's rules in a graph, and what runs;
    /// `None` if its kernel's time is not known.
    pub fn by_engine(
        &self,
        engine: &str,
        among: Among,
        (bytes, hidden): (f64, u32),
    ) -> Option<(Kernel, f64)> {
        if among.group.ranks < 2 {
            return None;
        }
        let query = &self.asked(Collective::AllReduce, among).ok()?.query;
        let conditions = Conditions { hidden: Some(u64::from(hidden)), ..Conditions::default() };
        let size = Bytes(bytes.round() as u64);
        let element = conditions.dtype.bytes();
        let site = Site { conditions, ..site(query) };
        let call = library::Call { element, size, ..library::Call::of(query) };
        let kernel = policy(engine, &site).ok()?.choose(&call).ok()?.kernel?;
        let told = Kernels::new(self.registry, query).ok()?.at(kernel, size)?;
        Some((kernel, told.time.0))
    }

    /// Seconds of a dispatch and a combine of tokens, whose width is that of bf16, as these kernels
    /// were measured: FP8 with its scales out, bf16 back. `None` over nodes, and where nobody measured
    /// them.
    pub fn by_kernels(&self, among: Among, kernels: &str, tokens: Tokens) -> Option<f64> {
        let asked = self.asked(Collective::AllToAll, among).ok().filter(|a| a.lies.nodes == 1)?;
        let fp8 = Bytes((tokens.width.0 as f64 / 2.0 * SCALES).round() as u64);
        let at = |phase, width| {
            let told = ExpertTimes::built_in().at(
                &asked.query,
                kernels,
                phase,
                Tokens { width, ..tokens },
            );
            told.map(|told| told.time.0)
        };
        Some(at("dispatch", fp8)? + at("combine", tokens.width)?)
    }

    /// Ranks that share the fastest links.
    pub fn domain(&self) -> u32 {
        let machine = self.machine.machine(Collective::AllReduce);
        let span = machine.ok().and_then(|m| {
            let tier = m.fabric.node?;
            m.fabric.tiers[tier].span
        });
        span.map_or(8, std::num::NonZeroU32::get)
    }
}
