//! Flat trees: the root exchanges data with every other rank directly.
//!
//! ```text
//!   1 ─┐
//!   2 ─┼─► 0        naive all-reduce: every rank sends its vector to 0, which adds them,
//!   3 ─┘            and 0 sends the sum to every rank
//! ```
//!
//! The root's port is the bottleneck: N − 1 messages one after another, ⌈(N − 1)/k⌉ on k ports
//! (full or half duplex: the root only sends, or only receives), one on unbounded ports. Broadcast
//! and reduce move the whole vector each time, scatter and gather M/N. The naive all-reduce is a
//! reduce and a broadcast: 2(N − 1)(α + M/BW). Exact at any N (Thakur, Rabenseifner, Gropp, IJHPCA
//! 19(1) 2005). The root adds all N − 1 vectors itself, however many ports it has.
//!
//! A root whose port is r times faster divides the bandwidth term by r: this is the textbook
//! exercise 2(N − 1)/r·M/BW. It assumes that the other end's port is no bottleneck, which holds up
//! to r = N − 1 messages shared out at once.

use super::{Algorithm, ClosedForm, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{self, AllReduce, Broadcast, Gather, Reduce, Scatter};
use crate::base::quantity::Ratio;
use crate::model::formula::{At, Cost, Field, Level, Shape, Symbol};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The algorithms in which the root does everything.
pub static FAMILY: &[&dyn Algorithm] = &[&Naive, &Flat];

/// All-reduce through the root.
struct Naive;

impl ClosedForm for Naive {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "naive",
            title: "naive (through the root)",
            collectives: &[AllReduce],
            aliases: &["naive_ar", "flat", "flat_ar", "linear", "basic_linear"],
            known_as: &[(Library::OpenMpi, &[AllReduce], "1 basic_linear")],
            summary: "every rank sends its vector to rank 0, which sends the sum to every rank",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        check_root(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        by_root(v, 2, &F::int(1), true)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        partners(shape, &mut |count, level, at_once| {
            let step = Step::new(count, root_share(shape, Share::ALL), Route::Root);
            let step = step.over(level).at_once(at_once);
            emit(step.reducing_share(Share::new(at_once, 1_u32)));
            emit(step);
        });
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Star { collective: shape.collective, ranks: shape.ranks }))
    }
}

/// Broadcast, reduce, scatter and gather by the root.
struct Flat;

impl ClosedForm for Flat {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "flat",
            title: "linear (root and each rank)",
            collectives: &[Broadcast, Reduce, Scatter, Gather],
            aliases: &[
                "linear",
                "basic_linear",
                "one_to_all",
                "broadcast_one_to_all",
                "flat_bcast",
                "flat_reduce",
                "flat_scatter",
                "flat_gather",
            ],
            known_as: &[
                (Library::Nccl, &[Scatter, Gather], "SendRecv"),
                (Library::Rccl, &[Scatter, Gather], "SendRecv"),
                (Library::OpenMpi, &[Broadcast, Scatter, Gather], "1 basic_linear"),
                (Library::OpenMpi, &[Reduce], "1 linear"),
                (Library::Gloo, &[Broadcast], "broadcast_one_to_all"),
                (Library::Gloo, &[Scatter], "scatter"),
                (Library::Gloo, &[Gather], "gather"),
            ],
            summary: "the root sends to, or receives from, every other rank directly",
            source: "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        check_root(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let share = if whole(&v.shape) { F::int(1) } else { F::int(1) / v.n.clone() };
        by_root(v, 1, &share, v.shape.collective.reduces())
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        match v.shape.collective {
            Broadcast => v.others(),
            Scatter => v.others_share(),
            Gather => F::int(1) / v.n.clone(),
            _ => F::int(1),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let share = if whole(shape) { Share::ALL } else { Share::new(1_u32, shape.ranks) };
        let share = root_share(shape, share);
        partners(shape, &mut |count, level, at_once| {
            let step = Step::new(count, share, Route::Root).over(level).at_once(at_once);
            let reduced = Share::new(at_once, 1_u32);
            emit(if shape.collective.reduces() { step.reducing_share(reduced) } else { step });
        });
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Star { collective: shape.collective, ranks: shape.ranks }))
    }
}

/// With nine decimals of r there must be something left to divide by.
fn check_root(shape: &Shape) -> Result<(), Reason> {
    match shape.params.root_speedup {
        Some(Ratio(r)) if r.is_nan() || r < 1e-9 => {
            Err(Reason::new("the root's port must have a rate above 0"))
        }
        _ => Ok(()),
    }
}

/// Whether each message is the whole vector.
fn whole(shape: &Shape) -> bool {
    !matches!(shape.collective, Scatter | Gather)
}

/// The root's rounds, `times` over; those in its own domain are separate where there are several
/// domains.
fn by_root<F: Field>(v: &At<F>, times: i64, share: &F, adds: bool) -> Cost<F> {
    let phase = |rounds: F, added: F| {
        let messages = F::int(times) * rounds;
        let volume = at_root_rate(v, messages.clone() * share.clone());
        Cost::new(messages, volume).reducing(if adds { added } else { F::int(0) })
    };
    let others = v.shape.ranks - 1;
    let k = v.shape.ports.sends(others);
    let all = over_ports(v, v.others(), others, k);
    if near_rounds(&v.shape) == 0 {
        return phase(all, v.others());
    }
    let near = whole_rounds(v, own_domain(v) - F::int(1), v.shape.beside_root() - 1, k);
    let added = F::int(k.into()) * near.clone();
    phase(near.clone(), added.clone())
        .over(Level::Inner)
        .then(phase(all - near, v.others() - added))
}

/// ⌈partners/k⌉.
fn over_ports<F: Field>(v: &At<F>, partners: F, value: u32, k: u32) -> F {
    match k {
        1 => partners,
        k if k == value => F::int(1),
        k => v.ceil(&(partners / F::int(k.into())), value.div_ceil(k).into()),
    }
}

/// ⌊partners/k⌋.
fn whole_rounds<F: Field>(v: &At<F>, partners: F, value: u32, k: u32) -> F {
    if k == 1 { partners } else { v.floor(&(partners / F::int(k.into())), (value / k).into()) }
}

/// Rounds in which all partners are in the root's own domain, if there are other domains.
fn near_rounds(shape: &Shape) -> u32 {
    let several = shape.group() < shape.ranks;
    if several { (shape.beside_root() - 1) / shape.ports.sends(shape.ranks - 1) } else { 0 }
}

/// Ranks in the root's domain: G, or ⌈N/⌈N/G⌉⌉ where they are dealt to domains that they do not fill.
fn own_domain<F: Field>(v: &At<F>) -> F {
    let own = v.shape.beside_root();
    if own == v.shape.group() {
        return v.g.clone();
    }
    let domains =
        v.ceil(&(v.n.clone() / v.g.clone()), v.shape.ranks.div_ceil(v.shape.group()).into());
    v.ceil(&(v.n.clone() / domains), own.into())
}

/// The volume divided by r, where the root's port is r times faster.
fn at_root_rate<F: Field>(v: &At<F>, volume: F) -> F {
    match v.shape.params.root_speedup {
        Some(r) => volume / F::parameter(Symbol::RootSpeedup, r),
        None => volume,
    }
}

/// The same for the message of a step: r with nine decimals, since exact fractions need it.
fn root_share(shape: &Shape, share: Share) -> Share {
    const DECIMALS: u64 = 1_000_000_000;
    let Some(Ratio(r)) = shape.params.root_speedup else { return share };
    let scaled = (r * DECIMALS as f64).round() as u64;
    let common = num_integer::gcd(scaled, DECIMALS);
    Share::new(share.chunks * (DECIMALS / common), share.of * (scaled / common))
}

/// The rounds of the root with its partners: how many, over which links, with how many partners at
/// once. Rounds inside its own domain come first; a round with partners in both crosses domains.
fn partners(shape: &Shape, emit: &mut dyn FnMut(u32, Level, u32)) {
    let others = shape.ranks - 1;
    let k = shape.ports.sends(others);
    let (full, rest) = (others / k, others % k);
    let near = near_rounds(shape);
    let mut some = |count, level, at_once| {
        if count > 0 {
            emit(count, level, at_once);
        }
    };
    some(near, Level::Inner, k);
    some(full - near, Level::Flat, k);
    some(u32::from(rest > 0), Level::Flat, rest);
}

/// All ranks to rank 0 in one round, then rank 0 to all ranks in one.
#[derive(Debug, Clone, Copy)]
struct Star {
    collective: Collective,
    ranks: u32,
}

impl Star {
    /// Whether each rank has or gets its own block.
    fn has_blocks(self) -> bool {
        matches!(self.collective, Scatter | Gather)
    }
}

impl Schedule for Star {
    fn frame(&self) -> Frame {
        let passes = if self.collective == AllReduce { 2 } else { 1 };
        let parts = if self.has_blocks() { self.ranks } else { 1 };
        let rounds = if self.ranks < 2 { 0 } else { passes };
        Frame::new(self.collective, self.ranks, parts, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let inwards = match self.collective {
            AllReduce => round == 0,
            collective => matches!(collective, Reduce | Gather),
        };
        let block = |rank| [Run::one(if self.has_blocks() { rank } else { 0 })];
        if inwards && rank > 0 {
            let op = if self.has_blocks() { Op::Copy } else { Op::Reduce };
            out.push(Endpoint::Rank(0), op, block(rank));
        } else if !inwards && rank == 0 {
            (1..self.ranks).for_each(|to| out.push(Endpoint::Rank(to), Op::Copy, block(to)));
        }
    }
}
