//! The best rate of a collective on a link graph, proven.
//!
//! The rate is the size over the time with latency ignored. Two kinds of proof can be checked by
//! hand: a [`Cut`], whose leaving links would have to be faster, and lengths on links, under which
//! all data to be sent cost more than all links together can pay.
//!
//! | collective | rate | proof |
//! |---|---|---|
//! | all-gather, broadcast; backwards reduce-scatter, reduce | by the tightest cut, which trees reach where switches are balanced ([`cut`]); else by packing trees | cut, or lengths |
//! | all-reduce | the best pairs of trees, up to a root and down from it, roots free | lengths |
//! | all-to-all | the largest flow of all pairs at once; on large graphs between bounds (`concurrent`) | lengths |

mod arborescence;
mod concurrent;
pub mod cut;
mod exact;
mod flow;
pub mod frontier;
mod groups;
mod growth;
mod packing;
pub mod pattern;
mod schedule;
mod simplex;
mod split;
mod trees;

use concurrent::{Between, LITTLE, WORK, between, proven_by};
pub use cut::Cut;
pub use packing::Packing;
pub use pattern::{Demand, Pattern};
pub use schedule::schedule;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Rate, nearest};
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// The proof of a rate.
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// A cut allows no more, and trees attain it.
    Cut(Cut),
    /// Lengths, by link, allow no more, and a packing attains it.
    Lengths(Vec<i128>),
    /// The sum of two proven phases, reduce-scatter and all-gather; pairs of trees may be better.
    TwoPhases,
    /// A cut allows no more; whether it is attainable is unknown.
    Bound(Cut),
    /// Lengths, by link, allow no more; a flow that attains this rate is known.
    Between(Vec<i128>, Bandwidth),
}

/// The best rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimum {
    /// Size over time.
    pub rate: Rate,
    /// How it is known.
    pub proof: Proof,
    /// The patterns that attain it, with the part of its commodity that each carries, if requested.
    pub patterns: Option<Vec<(Rational, Pattern)>>,
}

/// The best rate of `collective` on `graph`; `with_trees` also requests the patterns that attain
/// it.
///
/// # Errors
/// A collective without an optimum here; rates that are not small multiples of a unit; a graph that
/// is too large for the request.
pub fn optimum(
    graph: &Graph,
    collective: Collective,
    root: Node,
    with_trees: bool,
) -> Result<Optimum> {
    let (demand, is_backwards) = Demand::of(collective, root).ok_or_else(|| {
        Error::unsupported(format!("no optimum is available for {collective}"))
            .help("use allgather, reducescatter, broadcast, reduce, allreduce or alltoall")
    })?;
    if graph.ranks < 2 {
        return Err(Error::input("a collective needs at least two ranks"));
    }
    let (rates, unit) = graph.whole_rates()?;
    let turned;
    let graph = if is_backwards {
        turned = graph.reversed();
        &turned
    } else {
        graph
    };
    let question = Question { graph, rates: &rates, unit, demand, with_trees };
    match demand {
        Demand::FromAll | Demand::FromOne(_) => question.by_cut(),
        Demand::UpAndDown => question.all_reduce(),
        Demand::Pairs => question.all_to_all(),
    }
}

/// The most ranks for which an all-reduce is compared with pairs of trees: lengths need the
/// cheapest trees of every root.
const PROVEN: u32 = 128;
/// The most visits of nodes for that: each rank finds the nearest again and again.
const NEAREST: u64 = 1 << 32;
/// A flow this near to a bound reaches it: sums of doubles differ by their rounding.
const EXACT: f64 = 1e-9;

/// Lengths that were rounded are multiples of a tiny one: their bound is near the best rate, but not it.
const ROUNDED: i128 = 1 << 16;

struct Question<'a> {
    graph: &'a Graph,
    rates: &'a [i64],
    unit: Rate,
    demand: Demand,
    with_trees: bool,
}

impl Question<'_> {
    /// The rate if each commodity sends this much.
    fn rate(&self, each: Rational) -> Rate {
        let parts = self.demand.commodities(self.graph);
        Rate(each * self.unit.0 * Rational::from_integer(parts.into()))
    }

    fn roots(&self) -> Vec<Node> {
        match self.demand {
            Demand::FromOne(root) => vec![root],
            _ => (0..self.graph.ranks).collect(),
        }
    }

    fn by_cut(&self) -> Result<Optimum> {
        let cut = cut::tightest(self.graph, self.rates, &self.roots())?;
        let rate = self.rate(cut.each());
        let is_reached = cut::is_balanced(self.graph, self.rates);
        if is_reached {
            let pack = || trees::pack(self.graph, self.rates, self.demand, &self.roots(), &cut);
            let patterns =
                if self.with_trees { Some(pack().ok_or_else(|| self.too_large())?) } else { None };
            return Ok(Optimum { rate, proof: Proof::Cut(cut), patterns });
        }
        match self.by_packing() {
            Some(packed) if packed.rate == rate => Ok(Optimum { proof: Proof::Cut(cut), ..packed }),
            Some(packed) => Ok(packed),
            None if self.with_trees => Err(self.too_large()),
            None => Ok(Optimum { rate, proof: Proof::Bound(cut), patterns: None }),
        }
    }

    fn too_large(&self) -> Error {
        let (ranks, links) = (self.graph.ranks, self.graph.links.len());
        let (what, help) = match self.with_trees {
            true => ("for trees", "leave out --trees, or use fewer ranks"),
            false => ("for the best rate of this collective", "use fewer ranks"),
        };
        Error::unsupported(format!("{ranks} ranks and {links} links are too many {what}"))
            .help(help)
    }

    fn by_packing(&self) -> Option<Optimum> {
        let packing = packing::pack(self.graph, self.rates, self.demand)?;
        Some(Optimum {
            rate: self.rate(packing.each),
            proof: Proof::Lengths(packing.lengths),
            patterns: self.with_trees.then_some(packing.patterns),
        })
    }

    /// Exact where both bounds meet at once or the graph is small, otherwise between two bounds.
    fn all_to_all(&self) -> Result<Optimum> {
        let is_exact = |best: &Optimum| match &best.proof {
            Proof::Lengths(lengths) => lengths.iter().all(|length| *length < ROUNDED),
            _ => false,
        };
        let at_once = self.by_flow(LITTLE).filter(is_exact);
        at_once
            .or_else(|| self.by_packing())
            .or_else(|| self.by_flow(WORK))
            .ok_or_else(|| self.too_large())
    }

    /// The rate of all pairs between two bounds, if no patterns are requested.
    fn by_flow(&self, work: u64) -> Option<Optimum> {
        let found = if self.with_trees { None } else { between(self.graph, self.rates, work) };
        let Between { mut most, mut lengths, reached } = found?;
        // An all-to-all moves no less over a cut than an all-gather, whose tightest cut may prove more. Lengths that
        // are all alike are exact, and others are rounded.
        let is_met =
            reached >= nearest(most) * (1.0 - EXACT) && lengths.windows(2).all(|l| l[0] == l[1]);
        if !is_met
            && reached < nearest(most)
            && let Ok(cut) = cut::tightest(self.graph, self.rates, &self.roots())
        {
            let crossed = cut::crossed(self.graph, self.rates, &self.roots(), &cut);
            let each = proven_by(self.graph, self.rates, &crossed);
            if let Some(each) = each.filter(|each| *each < most) {
                (most, lengths) = (each, crossed);
            }
        }
        let shared = lengths.iter().copied().fold(0, num_integer::gcd).max(1);
        lengths.iter_mut().for_each(|length| *length /= shared);
        let rate = self.rate(most);
        let reached = Bandwidth(rate.bandwidth().0 * (reached / nearest(most)).min(1.0));
        let is_exact = reached.0 >= rate.bandwidth().0 * (1.0 - EXACT);
        let proof =
            if is_exact { Proof::Lengths(lengths) } else { Proof::Between(lengths, reached) };
        Some(Optimum { rate, proof, patterns: None })
    }

    /// Reduce-scatter and then all-gather if that is the best, otherwise pairs of trees.
    fn all_reduce(&self) -> Result<Optimum> {
        let roots = self.roots();
        let turned = self.graph.reversed();
        let gather = Question { demand: Demand::FromAll, ..*self };
        let scatter = Question { graph: &turned, ..gather };
        let (down, up) = (gather.by_cut()?, scatter.by_cut()?);
        let rate = Rate(down.rate.0 * up.rate.0 / (down.rate.0 + up.rate.0));
        let nodes = self.graph.nodes.len() as u64;
        let is_small =
            self.graph.ranks <= PROVEN && u64::from(self.graph.ranks) * nodes * nodes <= NEAREST;
        let mut proof = Proof::TwoPhases;
        if let (Proof::Cut(a), Proof::Cut(b)) = (&down.proof, &up.proof)
            && is_small
        {
            let lengths = cut::crossed(self.graph, self.rates, &roots, a);
            let back = cut::crossed(&turned, self.rates, &roots, b);
            let lengths: Vec<i128> = lengths.iter().zip(back).map(|(a, b)| a + b).collect();
            if pattern::bound(self.graph, self.rates, self.demand, &lengths)
                .is_some_and(|each| self.rate(each) == rate)
            {
                proof = Proof::Lengths(lengths);
            }
        }
        if proof == Proof::TwoPhases
            && let Some(packed) = self.by_packing()
        {
            return Ok(packed);
        }
        let patterns = match (up.patterns, down.patterns) {
            (Some(up), Some(down)) => Some(pairs(self.graph, &up, &down)),
            _ => None,
        };
        Ok(Optimum { rate, proof, patterns })
    }
}

/// Trees to each root and from it as pairs, with an equal share for each root.
fn pairs(
    graph: &Graph,
    up: &[(Rational, Pattern)],
    down: &[(Rational, Pattern)],
) -> Vec<(Rational, Pattern)> {
    let of = |all: &[(Rational, Pattern)], root: Node| -> Vec<(Rational, pattern::Tree)> {
        let own = all.iter().filter(|(_, pattern)| pattern.root == root);
        own.map(|(part, pattern)| (*part, pattern.trees[0].clone())).collect()
    };
    let share = Rational::new(1, graph.ranks.into());
    let mut found = Vec::new();
    for root in 0..graph.ranks {
        let (mut up, mut down) = (of(up, root), of(down, root));
        while let (Some(a), Some(b)) = (up.last_mut(), down.last_mut()) {
            let part = a.0.min(b.0);
            // Up trees were found on the reversed graph, so their paths run the other way.
            let above = a.1.iter().map(|way| way.iter().rev().copied().collect()).collect();
            let trees = vec![above, b.1.clone()];
            found.push((part * share, Pattern { commodity: 0, root, trees }));
            (a.0, b.0) = (a.0 - part, b.0 - part);
            let none = Rational::from_integer(0);
            up.retain(|one| one.0 > none);
            down.retain(|one| one.0 > none);
        }
    }
    found
}
