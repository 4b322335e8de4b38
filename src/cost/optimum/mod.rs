//! The best rate of a collective on a link graph, proven.
//!
//! The rate is the size over the time where latency counts nothing. Two kinds of proof can be
//! checked by hand: a [`Cut`], whose leaving links would have to be faster, and lengths on links,
//! under which everything that has to be sent costs more than all links together can pay.
//!
//! | collective | rate | proof |
//! |---|---|---|
//! | all-gather, broadcast; backwards reduce-scatter, reduce | by the tightest cut, which trees reach where switches are balanced ([`cut`]); else by packing trees | cut, or lengths |
//! | all-reduce | the best pairs of trees, up to a root and down from it, roots free | lengths |
//! | all-to-all | the largest flow of all pairs at once | lengths |

mod arborescence;
pub mod cut;
mod exact;
mod flow;
mod packing;
pub mod pattern;
mod simplex;

pub use cut::Cut;
pub use packing::Packing;
pub use pattern::{Demand, Pattern};

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Rate;
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// How a rate is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// A cut allows no more, and trees reach it.
    Cut(Cut),
    /// Lengths allow no more, by link, and a packing reaches it.
    Lengths(Vec<i128>),
    /// The sum of two proven phases, reduce-scatter and all-gather; pairs of trees may be better.
    TwoPhases,
    /// A cut allows no more; whether it can be reached is open.
    Bound(Cut),
}

/// The best rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimum {
    /// Size over time.
    pub rate: Rate,
    /// How it is known.
    pub proof: Proof,
    /// What reaches it, with the part of its commodity that each carries, where it was asked.
    pub patterns: Option<Vec<(Rational, Pattern)>>,
}

/// The best rate of `collective` on `graph`; `with_trees` asks for what reaches it, too.
///
/// # Errors
/// A collective without an optimum here; rates that are no small multiples of a unit; a graph that
/// is too large for what is asked.
pub fn optimum(
    graph: &Graph,
    collective: Collective,
    root: Node,
    with_trees: bool,
) -> Result<Optimum> {
    let (demand, is_backwards) = Demand::of(collective, root).ok_or_else(|| {
        Error::unsupported(format!("no optimum of {collective} is known here"))
            .help("ask allgather, reducescatter, broadcast, reduce, allreduce or alltoall")
    })?;
    if graph.ranks < 2 {
        return Err(Error::input("a collective of one rank"));
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
        Demand::Pairs => question.by_packing().ok_or_else(|| too_large(graph)),
    }
}

struct Question<'a> {
    graph: &'a Graph,
    rates: &'a [i64],
    unit: Rate,
    demand: Demand,
    with_trees: bool,
}

impl Question<'_> {
    /// The rate where each commodity sends so much.
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
        if is_reached && !self.with_trees {
            return Ok(Optimum { rate, proof: Proof::Cut(cut), patterns: None });
        }
        match self.by_packing() {
            Some(packed) if packed.rate == rate => {
                Ok(Optimum { proof: Proof::Cut(cut), ..packed })
            }
            Some(packed) => Ok(packed),
            None if self.with_trees => Err(too_large(self.graph)),
            None => Ok(Optimum { rate, proof: Proof::Bound(cut), patterns: None }),
        }
    }

    fn by_packing(&self) -> Option<Optimum> {
        let packing = packing::pack(self.graph, self.rates, self.demand)?;
        let part = |(weight, pattern): (Rational, Pattern)| (weight / packing.each, pattern);
        let patterns = packing.patterns.into_iter().map(part).collect();
        Some(Optimum {
            rate: self.rate(packing.each),
            proof: Proof::Lengths(packing.lengths),
            patterns: self.with_trees.then_some(patterns),
        })
    }

    fn all_reduce(&self) -> Result<Optimum> {
        if let Some(packed) = self.by_packing() {
            return Ok(packed);
        }
        if self.with_trees {
            return Err(too_large(self.graph));
        }
        let all = Self { demand: Demand::FromAll, ..*self };
        let turned = self.graph.reversed();
        let back = Question { graph: &turned, ..all };
        let (Rate(gather), Rate(scatter)) = (all.by_cut()?.rate, back.by_cut()?.rate);
        let rate = Rate(gather * scatter / (gather + scatter));
        Ok(Optimum { rate, proof: Proof::TwoPhases, patterns: None })
    }
}

fn too_large(graph: &Graph) -> Error {
    let (ranks, links) = (graph.ranks, graph.links.len());
    Error::unsupported(format!("{ranks} ranks and {links} links are too many for an exact packing"))
        .help("ask allgather, reducescatter, broadcast or reduce without --trees, or fewer ranks")
}
