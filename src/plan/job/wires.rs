//! The expected times of a job's collectives on the machine; results are cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Ratio};
use crate::library::engines::{Conditions, Kernel};
use crate::library::{self, Site, policy};
use crate::measure::expect::{Expectation, ExpertTimes, Kernels, Tokens, site};
use crate::model::algorithm::Registry;
use crate::plan::price::{Asked, Tweak, World, once_a_node};
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

/// Seconds: the expected ones, and the ends of their band. Errors on one machine are correlated, so ends are
/// summed with ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Span {
    pub time: f64,
    pub low: f64,
    pub high: f64,
}

impl From<Expectation> for Span {
    fn from(expected: Expectation) -> Self {
        Self { time: expected.time.0, low: expected.low.0, high: expected.high.0 }
    }
}

impl std::ops::Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let Self { time, low, high } = other;
        Self { time: self.time + time, low: self.low + low, high: self.high + high }
    }
}

impl std::ops::Mul<f64> for Span {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { time: self.time * times, low: self.low * times, high: self.high * times }
    }
}

impl Span {
    /// How often it happens in a second.
    pub fn per(self) -> Self {
        Self { time: self.time.recip(), low: self.high.recip(), high: self.low.recip() }
    }
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
        Ok(self.span(collective, among, bytes)?.time)
    }

    /// The same with its band.
    ///
    /// # Errors
    /// As [`Self::time`].
    pub fn span(&self, collective: Collective, among: Among, bytes: f64) -> Result<Span> {
        if among.group.ranks < 2 || bytes <= 0.0 {
            return Ok(Span::default());
        }
        let asked = self.asked(collective, among)?;
        Ok(asked.expected(Bytes(bytes.round() as u64)).into())
    }

    /// Seconds of a dispatch that sends each of `tokens` once to every node that it needs.
    ///
    /// # Errors
    /// As [`Self::time`]; an unknown rate.
    pub fn once_a_node(
        &self,
        among: Among,
        (tokens, width, node_limit): (f64, f64, Option<u32>),
        (experts, top_k): (u32, u32),
    ) -> Result<Span> {
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
        Ok(once_a_node(&asked, &traffic, routing.skew)?.0.into())
    }

    /// Seconds of an all-reduce of `bytes` by an inference engine's rules in a graph, and what runs;
    /// `None` if its kernel's time is not known.
    pub fn by_engine(
        &self,
        engine: &str,
        among: Among,
        bytes: f64,
        conditions: Conditions,
    ) -> Option<(Kernel, Span)> {
        if among.group.ranks < 2 {
            return None;
        }
        let query = &self.asked(Collective::AllReduce, among).ok()?.query;
        let size = Bytes(bytes.round() as u64);
        let element = conditions.dtype().bytes();
        let site = Site { conditions, ..site(query) };
        let call = library::Call { element, size, ..library::Call::of(query) };
        let kernel = policy(engine, &site).ok()?.choose(&call).ok()?.kernel?;
        let told = Kernels::new(self.registry, query).ok()?.at(kernel, size)?;
        Some((kernel, told.into()))
    }

    /// Seconds of a dispatch of tokens of a width, and of their combine, whose width is in `tokens`, as these
    /// kernels were measured. `None` where nobody measured them.
    pub fn by_kernels(
        &self,
        among: Among,
        kernels: &str,
        (out, tokens): (Bytes, Tokens),
    ) -> Option<Span> {
        let asked = self.asked(Collective::AllToAll, among).ok()?;
        let at = |phase, width| -> Option<Span> {
            let tokens = Tokens { width, ..tokens };
            let told = ExpertTimes::built_in().at(&asked.query, kernels, phase, tokens);
            told.map(Span::from)
        };
        Some(at("dispatch", out)? + at("combine", tokens.width)?)
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
