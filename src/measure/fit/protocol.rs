//! The costs of NCCL's protocols, from runs whose algorithm and protocol are known.
//!
//! ```text
//! T = o + n_α·α + n_β·M/BW          o, α, BW of a protocol; n_α, n_β of an algorithm
//! ```
//!
//! Each protocol has its own parameters: LL sends a flag with every four bytes, LL128 with every
//! 120, Simple one after a buffer, so neither a step nor a byte costs the same. All algorithms of a
//! protocol share its parameters, which therefore predict an algorithm that was not measured. This is
//! tested: each algorithm of each collective is predicted by a fit without it.
//!
//! Algorithms that reduce in the switch share nothing with those that send messages and are fitted
//! separately.

use std::collections::BTreeMap;

use super::bootstrap::{Estimate, draws, groups, widening};
use super::held_out::Errors;
use super::lad::{self, Row};
use super::nnls::MOST;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, SecondsPerByte};
use crate::base::random::Random;
use crate::base::stats::median;
use crate::library::nccl::{Algo, Proto};
use crate::machine::profile::{self, Interval, StatedError};
use crate::machine::sample::{Block, Chosen, Clock, Forced, Library, Op, Samples};

/// The cost of one protocol, for algorithms of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocol {
    /// The protocol.
    pub proto: Proto,
    /// The algorithms that were measured, in NCCL's order.
    pub algos: Vec<Algo>,
    /// o, the cost of a call before its first step.
    pub launch: Estimate<Seconds>,
    /// α, the time of a step; absent if all measured runs have the same number of steps, whose time is
    /// then part of the launch.
    pub alpha: Option<Estimate<Seconds>>,
    /// 1/BW.
    pub beta: Estimate<SecondsPerByte>,
    /// The smallest M that was measured.
    pub from: Bytes,
    /// The largest.
    pub to: Bytes,
    /// Collectives × ranks × sizes that were fitted.
    pub points: usize,
    /// The error of the fit on its own points.
    pub errors: Errors,
}

impl Protocol {
    /// Whether its parameters also hold for `chosen`.
    fn is_of(&self, chosen: Chosen) -> bool {
        let own = self.algos.first().map(|&algo| group(Chosen { algo, proto: self.proto }));
        own == Some(group(chosen))
    }

    fn time(&self, (n_alpha, n_beta): (f64, f64), size: Bytes) -> Seconds {
        let step = self.alpha.map_or(0.0, |alpha| alpha.value.0);
        let bytes = n_beta * size.0 as f64;
        Seconds(self.launch.value.0 + n_alpha * step + bytes * self.beta.value.0)
    }
}

/// An algorithm of a collective, predicted by a fit of its protocol that did not see it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOut {
    /// The operation.
    pub collective: Collective,
    /// Its algorithm and protocol.
    pub chosen: Chosen,
    /// How far it is off.
    pub errors: Errors,
    /// Above 1: predicted too slow; the median of predicted over measured.
    pub bias: Ratio,
}

/// The size from which NCCL itself changes algorithm or protocol of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Switch {
    /// The operation.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The smallest size that was seen with this choice.
    pub from: Bytes,
    /// Its algorithm and protocol.
    pub chosen: Chosen,
}

/// The costs of NCCL's protocols, and where NCCL switches between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocols {
    /// The protocols, those that send messages first.
    pub protocols: Vec<Protocol>,
    /// Every algorithm of every collective, held out.
    pub held_out: Vec<HeldOut>,
    /// The errors of all of those together: the fit's stated error.
    pub stated: Option<Errors>,
    /// NCCL's own times, where nothing was forced, compared with the cheapest protocol.
    pub envelope: Option<Errors>,
    /// Where NCCL changes its choice, by collective and ranks, the smallest sizes first.
    pub switches: Vec<Switch>,
    /// Forced choices that were not used, or are not known to be: the operation and how many blocks.
    pub unconfirmed: Vec<(String, usize)>,
}

impl Protocols {
    /// The time of M = `size` over `ranks` ranks on `nodes` nodes with the choice `chosen`; `None` if
    /// its steps are unknown or its protocol was not measured.
    #[must_use]
    pub fn time(
        &self,
        collective: Collective,
        chosen: Chosen,
        (ranks, nodes): (u32, u32),
        size: Bytes,
    ) -> Option<Seconds> {
        let steps = steps(collective, chosen.algo, ranks, nodes)?;
        let own = self.protocols.iter().find(|p| p.is_of(chosen))?;
        Some(own.time(steps, size))
    }

    /// The least time of all measured choices: what NCCL would pick if it knew the times.
    #[must_use]
    pub fn least(
        &self,
        collective: Collective,
        (ranks, nodes): (u32, u32),
        size: Bytes,
    ) -> Option<Seconds> {
        let ways = self.protocols.iter().flat_map(|p| p.algos.iter().map(move |&algo| (p, algo)));
        let time = |(p, algo): (&Protocol, Algo)| {
            Some(p.time(steps(collective, algo, ranks, nodes)?, size))
        };
        ways.filter_map(time).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// What is fitted together: a protocol, and whether the switch reduces.
type Group = (bool, Algo, Proto);

/// A time with what it measures.
#[derive(Debug, Clone, Copy)]
struct Point {
    collective: Collective,
    chosen: Chosen,
    ranks: u32,
    nodes: u32,
    size: Bytes,
    /// n_α and n_β.
    steps: (f64, f64),
    time: f64,
}

/// Whether `samples` state NCCL's algorithm and protocol.
#[must_use]
pub fn has_protocols(samples: &Samples) -> bool {
    samples.blocks.iter().any(|b| b.chose.is_some() || matches!(b.op, Op::Forced(_)))
}

/// The protocols in `samples`; intervals come from `times` draws by `seed`.
///
/// Runs with a forced choice are fitted if there are any and their log confirms the choice; otherwise
/// runs whose choice is stated.
///
/// # Errors
/// No choice was confirmed, or too few runs of every protocol.
pub fn protocols(samples: &Samples, times: u32, seed: u64) -> Result<Protocols> {
    let mut unconfirmed: BTreeMap<String, usize> = BTreeMap::new();
    for block in samples.blocks.iter().filter(|b| !b.is_confirmed()) {
        *unconfirmed.entry(block.op.to_string()).or_default() += 1;
    }
    let is_told = samples.blocks.iter().any(|b| matches!(b.op, Op::Forced(_)) && b.is_confirmed());
    let points = points(samples, |block| {
        block.is_confirmed() && is_told == matches!(block.op, Op::Forced(_))
    });
    let mut by_group: BTreeMap<Group, Vec<Point>> = BTreeMap::new();
    for point in &points {
        by_group.entry(group(point.chosen)).or_default().push(*point);
    }
    let (mut protocols, mut held_out, mut off) = (Vec::new(), Vec::new(), Vec::new());
    for points in by_group.values() {
        let Some(protocol) = protocol(points, times, seed) else { continue };
        protocols.push(protocol);
        for held in hold_out(points) {
            off.extend(held.1);
            held_out.push(held.0);
        }
    }
    if protocols.is_empty() {
        let files = samples.origin.files.join(", ");
        let what = match unconfirmed.is_empty() {
            true => "too few times of every protocol for its three parameters",
            false => "no run is known to have followed its settings",
        };
        return Err(Error::input(what)
            .at(files)
            .help("measure more sizes with NCCL 2.20 or later, whose log states its choice"));
    }
    let mut found = Protocols {
        protocols,
        held_out,
        stated: Errors::of(off.into_iter()),
        envelope: None,
        switches: switches(samples),
        unconfirmed: unconfirmed.into_iter().collect(),
    };
    found.envelope = envelope(samples, &found);
    Ok(found)
}

/// Messages of all algorithms form one kind; algorithms that reduce in the switch form another.
fn group(chosen: Chosen) -> Group {
    let through_switch = !matches!(chosen.algo, Algo::Tree | Algo::Ring | Algo::Pat);
    let kind = if through_switch { chosen.algo } else { Algo::Ring };
    (through_switch, kind, chosen.proto)
}

/// n_α and n_β of an algorithm; `None` if its steps are unknown.
///
/// Inside a node NCCL's trees are chains. All ranks but two send the vector up and down; between
/// two ranks each sends half of it each way.
fn steps(collective: Collective, algo: Algo, ranks: u32, nodes: u32) -> Option<(f64, f64)> {
    use Collective as C;
    let n = f64::from(ranks);
    let lg = |x: u32| f64::from(x.next_power_of_two().trailing_zeros());
    let share = (n - 1.0) / n;
    Some(match (algo, collective) {
        _ if ranks < 2 => (0.0, 0.0),
        (Algo::Ring, C::AllReduce) => (2.0 * (n - 1.0), 2.0 * share),
        (Algo::Ring, C::AllGather | C::ReduceScatter) => (n - 1.0, share),
        (Algo::Ring, C::Broadcast | C::Reduce) => (n - 1.0, 1.0),
        (Algo::Tree, C::AllReduce) => {
            let inside = f64::from(ranks.div_ceil(nodes.max(1)) - 1);
            (2.0 * (inside + lg(nodes.max(1))), if ranks == 2 { 1.0 } else { 2.0 })
        }
        (Algo::Pat, C::AllGather | C::ReduceScatter) => (lg(ranks), share),
        (Algo::Nvls, C::AllReduce) => (1.0, 1.0),
        (Algo::Nvls, C::AllGather | C::ReduceScatter) => (1.0, share),
        _ => return None,
    })
}

/// The median time of each collective, choice, number of ranks and size.
fn points(samples: &Samples, wanted: impl Fn(&Block) -> bool) -> Vec<Point> {
    type Key = (Collective, Chosen, u32, u32, Bytes);
    let by_events = samples.blocks.iter().any(|b| b.clock == Clock::Event);
    let mut times: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for block in samples.blocks.iter().filter(|b| wanted(b)) {
        let collective = match block.op {
            Op::Forced(Forced { collective, .. }) => collective,
            Op::Library(Library { collective, in_place: false, .. }) => collective,
            _ => continue,
        };
        let (Some(chosen), false) = (block.chose, by_events && block.clock == Clock::Host) else {
            continue;
        };
        let key = (collective, chosen, block.ranks, block.nodes.unwrap_or(1), block.size);
        times.entry(key).or_default().extend(block.spans().iter().map(|span| span.0));
    }
    let point = |((collective, chosen, ranks, nodes, size), times): (Key, Vec<f64>)| {
        let steps = steps(collective, chosen.algo, ranks, nodes)?;
        Some(Point { collective, chosen, ranks, nodes, size, steps, time: median(times)? })
    };
    times.into_iter().filter_map(point).filter(|p| p.time > 0.0).collect()
}

/// The columns of o, β and α, the last only where steps differ.
struct Rows {
    rows: Vec<Row>,
    p: usize,
}

impl Rows {
    fn of(points: &[Point]) -> Self {
        let first = points.first().map_or(0.0, |p| p.steps.0);
        let differ = points.iter().any(|p| p.steps.0 != first);
        let row = |p: &Point| Row::of([1.0, p.steps.1 * p.size.0 as f64, p.steps.0], p.time);
        Self { rows: points.iter().map(row).collect(), p: if differ { 3 } else { 2 } }
    }

    fn fit(&self, chosen: &[usize]) -> [f64; MOST] {
        lad::fit(chosen.iter().map(|&i| &self.rows[i]), self.p)
    }

    fn errors(&self, x: &[f64; MOST]) -> Vec<f64> {
        self.rows.iter().map(|row| row.error(x, self.p)).collect()
    }
}

/// Fewer points do not determine three parameters.
const LEAST: usize = 5;

fn protocol(points: &[Point], times: u32, seed: u64) -> Option<Protocol> {
    let rows = Rows::of(points);
    let every: Vec<usize> = (0..points.len()).collect();
    if points.len() < LEAST {
        return None;
    }
    let x = rows.fit(&every);
    if x[1] <= 0.0 {
        return None;
    }
    let groups = groups(points.iter().map(|p| (p.collective, p.chosen, p.ranks)));
    let wider = widening(&groups, rows.p);
    let mut fits = Vec::with_capacity(times as usize);
    draws(&groups, times, &mut Random::new(seed), |drawn| fits.push(rows.fit(drawn)));
    let estimate =
        |i: usize| Estimate::widened(x[i], fits.iter().map(|fit| fit[i]).collect(), wider);
    let mut algos: Vec<Algo> = points.iter().map(|p| p.chosen.algo).collect();
    algos.sort_unstable();
    algos.dedup();
    let sizes = || points.iter().map(|p| p.size);
    Some(Protocol {
        proto: points[0].chosen.proto,
        algos,
        launch: estimate(0).map(Seconds),
        alpha: (rows.p == 3).then(|| estimate(2).map(Seconds)),
        beta: estimate(1).map(SecondsPerByte),
        from: sizes().min()?,
        to: sizes().max()?,
        points: points.len(),
        errors: Errors::of(rows.errors(&x).into_iter())?,
    })
}

/// Each algorithm of each collective by the fit of the others, with its signed errors.
fn hold_out(points: &[Point]) -> Vec<(HeldOut, Vec<f64>)> {
    let rows = Rows::of(points);
    let mark = |p: &Point| (p.collective, p.chosen);
    let mut marks: Vec<_> = points.iter().map(mark).collect();
    marks.sort_unstable();
    marks.dedup();
    let predicted = |(collective, chosen)| {
        let held = |i: &usize| mark(&points[*i]) == (collective, chosen);
        let (own, shown): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(held);
        let seen: Vec<Point> = shown.iter().map(|&i| points[i]).collect();
        // If all others have the same number of steps, a step cannot be separated from a launch.
        if shown.len() < LEAST || Rows::of(&seen).p < rows.p {
            return None;
        }
        let x = rows.fit(&shown);
        let errors: Vec<f64> = own.iter().map(|&i| rows.rows[i].error(&x, rows.p)).collect();
        let bias = Ratio(1.0 + median(errors.clone())?);
        let errors_of = Errors::of(errors.iter().copied())?;
        Some((HeldOut { collective, chosen, errors: errors_of, bias }, errors))
    };
    marks.into_iter().filter_map(predicted).collect()
}

/// The cost of the cheapest choice compared with NCCL's own times.
fn envelope(samples: &Samples, found: &Protocols) -> Option<Errors> {
    let own = points(samples, |block| matches!(block.op, Op::Library(_)));
    let off = |p: &Point| {
        let least = found.least(p.collective, (p.ranks, p.nodes), p.size)?;
        Some(least.0 / p.time - 1.0)
    };
    Errors::of(own.iter().filter_map(off))
}

/// Where NCCL's own choice changes.
fn switches(samples: &Samples) -> Vec<Switch> {
    let mut own: Vec<Switch> = samples
        .blocks
        .iter()
        .filter_map(|block| match (&block.op, block.chose) {
            (Op::Library(Library { collective, .. }), Some(chosen)) => {
                let (collective, ranks, from) = (*collective, block.ranks, block.size);
                Some(Switch { collective, ranks, from, chosen })
            }
            _ => None,
        })
        .collect();
    own.sort_unstable();
    own.dedup_by(|b, a| (a.collective, a.ranks, a.chosen) == (b.collective, b.ranks, b.chosen));
    own
}

impl Protocols {
    /// As a profile keeps it, with the version of the library.
    #[must_use]
    pub fn stored(&self, version: Option<String>) -> profile::Nccl {
        // A file cannot state an error of 0: anything below a millionth is written as a millionth.
        let least = |r: Ratio| Ratio(r.0.max(1e-6));
        let error = |e: Errors| StatedError { median: least(e.median), p90: least(e.p90) };
        let protocol = |p: &Protocol| profile::Protocol {
            name: p.proto.name().to_owned(),
            algorithms: p.algos.iter().map(|algo| algo.name().to_owned()).collect(),
            launch: interval(p.launch),
            alpha: p.alpha.map(interval),
            bandwidth: interval(p.beta.bandwidth()),
            from: p.from,
            to: p.to,
            points: u32::try_from(p.points).unwrap_or(u32::MAX),
            error: error(p.errors),
        };
        let switch = |s: &Switch| profile::SwitchPoint {
            collective: s.collective.id().to_owned(),
            ranks: s.ranks,
            from: s.from,
            algorithm: s.chosen.algo.name().to_owned(),
            protocol: s.chosen.proto.name().to_owned(),
        };
        profile::Nccl {
            version,
            held_out: self.stated.map(error),
            envelope: self.envelope.map(error),
            protocols: self.protocols.iter().map(protocol).collect(),
            switches: self.switches.iter().map(switch).collect(),
        }
    }
}

fn interval<T>(Estimate { value, low, high }: Estimate<T>) -> Interval<T> {
    Interval { value, low, high }
}
