//! k-nomial trees: broadcast and reduce whose number of active ranks grows K-fold per round.
//!
//! ```text
//!   K = 3, N = 9
//!   round 0   0 ─► 1, 2
//!   round 1   0 ─► 3, 6    1 ─► 4, 7    2 ─► 5, 8     r < K^j sends to r + c·K^j, c = 1 … K − 1
//! ```
//!
//! Let w = K^levels be the largest power of K below N, and children(K, N) = ⌈N/w⌉ − 1 the partners
//! in the last round. The cost is ((K − 1)·levels(K, N) + children(K, N))(α + M/BW) on one port,
//! full or half duplex, at any N, and levels(K, N) + 1 messages on K − 1 ports. In general a round
//! with c partners takes ⌈c/k⌉ messages on k ports, an upper bound where children start before the
//! round is over. `radix` is K, 4 by default. Binomial is K = 2. The reduce is the mirror image,
//! with additions, whose number does not depend on the ports. MPICH (`MPIR_CVAR_BCAST_TREE_KVAL`)
//! ships it.
//!
//! ```text
//!   in order  round 0   0 ─► 3, 6                              multiples r of K^(j + 1) send
//!             round 1   0 ─► 1, 2    3 ─► 4, 5    6 ─► 7, 8    to r + c·K^j, the largest j first
//! ```
//!
//! In the *in-order* tree (Open MPI, `ompi_coll_base_topo_build_kmtree`) the partners of the last
//! round come first, and every subtree is a range of ranks: as many messages, of which one at most
//! leaves a node at once whose ranks are neighbours, where all ranks of a node leave it in the other.

use std::ops::RangeInclusive;

use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{self, Broadcast, Reduce};
use crate::model::formula::{At, Cost, Field, Function, Named, Ports, Shape};
use crate::model::schedule::binomial::Edges;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// k-nomial trees.
pub static FAMILY: &[&dyn Algorithm] = &[&Knomial(Edges::NearFirst), &Knomial(Edges::InOrder)];

struct Knomial(Edges);

impl ClosedForm for Knomial {
    fn meta(&self) -> &'static Meta {
        static IN_ORDER: Meta = Meta {
            id: "in-order-knomial",
            title: "in-order k-nomial tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["in_order_knomial"],
            known_as: &[(Library::OpenMpi, &[Broadcast], "7 knomial")],
            summary: "a k-nomial tree whose subtrees are ranges of ranks, the largest ones first",
            source: "Open MPI, coll/base: k-nomial trees",
        };
        static META: Meta = Meta {
            id: "knomial",
            title: "k-nomial tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["knomial_bcast", "knomial_reduce"],
            known_as: &[],
            summary: "the number of ranks that have the vector grows K-fold in every round",
            source: "MPICH, MPIR_CVAR_BCAST_TREE_KVAL",
        };
        if self.0 == Edges::InOrder { &IN_ORDER } else { &META }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        if radix(shape) < 2 {
            return Err(Reason::new("its radix must be at least 2"));
        }
        Ok(())
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let [k, n] = [radix(&v.shape).into(), v.shape.ranks.into()];
        let radix = F::int(i64::from(radix(&v.shape)));
        let call = |named: &'static Named| {
            F::call(Function::Named(named), &[&radix, &v.n], (named.rule)(&[k, n]))
        };
        let levels = call(&LEVELS);
        let partners = radix.clone() - F::int(1);
        let added = partners.clone() * levels.clone() + call(&CHILDREN);
        let messages = match v.shape.ports.sends(u32::MAX) {
            1 => added.clone(),
            ports if u64::from(ports) >= k - 1 => levels + F::int(1),
            ports => {
                let waves = |of: F, value: u64| {
                    v.ceil(&(of / F::int(ports.into())), value.div_ceil(ports.into()))
                };
                waves(partners, k - 1) * levels + waves(call(&CHILDREN), children(&[k, n]))
            }
        };
        let gamma = if v.shape.collective.reduces() { added } else { F::int(0) };
        Cost::new(messages.clone(), messages).reducing(gamma)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.ports {
            Ports::Full(k) if k.get() == 1 || k.get() + 1 == radix(shape) => Guarantee::Equal,
            Ports::Half(k) if k.get() == 1 => Guarantee::Equal,
            _ => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if v.shape.collective == Reduce {
            return F::int(1);
        }
        let [k, n] = [radix(&v.shape).into(), v.shape.ranks.into()];
        F::int(((k - 1) * levels(&[k, n]) + children(&[k, n])) as i64)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let [k, n] = [radix(shape).into(), shape.ranks.into()];
        let rounds = levels(&[k, n]) as u32;
        let ports = u64::from(shape.ports.sends(u32::MAX));
        for j in 0..=rounds {
            let (partners, near) = (if j == rounds { children(&[k, n]) } else { k - 1 }, k.pow(j));
            for first in (1..=partners).step_by(usize::try_from(ports).unwrap_or(usize::MAX)) {
                let last = (first + ports - 1).min(partners);
                let step = Step::new(1_u32, Share::ALL, self.route(shape, near, first..=last));
                let step = step.at_once(u32::try_from(last + 1 - first).unwrap_or(u32::MAX));
                let added = Share::new(last + 1 - first, 1_u32);
                emit(if shape.collective.reduces() { step.reducing_share(added) } else { step });
            }
        }
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        (radix(shape) - 1).min(shape.ranks - 1)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let Shape { collective, ranks, .. } = *shape;
        Some(Box::new(Tree { collective, ranks, radix: radix(shape), edges: self.0 }))
    }
}

impl Knomial {
    /// The links of the messages to r + c·near for all c in `partners` at once.
    ///
    /// A doubling by d = (c + 1)·near/2 reaches as far in a block of ranks. Where ranks are assigned to
    /// domains in turn, they stay in their domain on whole turns around the domains: d is a whole turn
    /// only if all c·near are.
    fn route(&self, shape: &Shape, near: u64, partners: RangeInclusive<u64>) -> Route {
        let ranks = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        if self.0 == Edges::InOrder {
            let of = ranks(near.saturating_mul(radix(shape).into()));
            let apart = if partners.start() < partners.end() { ranks(near) } else { 0 };
            return Route::Split { of, by: ranks(partners.end() * near), apart };
        }
        let span = u64::from(shape.group());
        let domains = u64::from(shape.ranks).div_ceil(span);
        let reach = (partners.end() + 1) * near;
        let leaves = partners.into_iter().any(|c| !(c * near).is_multiple_of(domains));
        let half = reach.div_ceil(2);
        let d = match half.is_multiple_of(domains) && leaves {
            true if reach <= span => half - 1,
            true => half + 1,
            false => half,
        };
        Route::Grow(ranks(d))
    }
}

/// K.
fn radix(shape: &Shape) -> u32 {
    shape.params.radix.unwrap_or(4)
}

static LEVELS: Named =
    Named { name: "levels", means: "levels(k, N) is the largest m with k^m < N", rule: levels };

static CHILDREN: Named =
    Named {
        name: "children", means: "children(k, N) = ⌈N/k^levels(k, N)⌉ − 1", rule: children
    };

fn levels(arguments: &[u64]) -> u64 {
    let &[k, n] = arguments else { return 0 };
    let below = |m: &u32| k.checked_pow(*m).is_some_and(|power| power < n);
    (1..u64::BITS).take_while(below).count() as u64
}

fn children(arguments: &[u64]) -> u64 {
    let &[k, n] = arguments else { return 0 };
    let w = k.pow(levels(arguments) as u32);
    n.div_ceil(w) - 1
}

/// The tree as an explicit schedule: one round per level; the reduce is the reversal.
#[derive(Debug, Clone, Copy)]
struct Tree {
    collective: Collective,
    ranks: u32,
    radix: u32,
    edges: Edges,
}

impl Schedule for Tree {
    fn frame(&self) -> Frame {
        let rounds = match self.ranks {
            0 | 1 => 0,
            n => levels(&[self.radix.into(), n.into()]) + 1,
        };
        Frame::new(self.collective, self.ranks, 1, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let reduces = self.collective == Reduce;
        let grows = reduces == (self.edges == Edges::InOrder);
        let level = if grows { round } else { self.rounds() - 1 - round };
        // Below N, which is a u32.
        let near = self.radix.pow(level as u32);
        let Some(digit) = self.digit(rank, near) else { return };
        if reduces && digit > 0 {
            out.push(Endpoint::Rank(rank - digit * near), Op::Reduce, [Run::one(0)]);
        } else if !reduces && digit == 0 {
            let children = (1..self.radix).map_while(|c| rank.checked_add(c.checked_mul(near)?));
            for child in children.take_while(|&child| child < self.ranks) {
                out.push(Endpoint::Rank(child), Op::Copy, [Run::one(0)]);
            }
        }
    }
}

impl Tree {
    /// The digit of `rank` at K^j = `near` if it takes part in that round: 0 for a parent.
    fn digit(self, rank: u32, near: u32) -> Option<u32> {
        let (digit, other) = match self.edges {
            Edges::NearFirst => (rank / near, 0),
            Edges::InOrder => (rank / near % self.radix, rank % near),
        };
        (other == 0 && digit < self.radix).then_some(digit)
    }
}
