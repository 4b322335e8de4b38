//! The rate that no schedule can beat, from the tightest cut.
//!
//! The data owned by the ranks in a set S must leave S over the links that leave it. So blocks of
//! one byte per rank take at least max |S ∩ ranks| / B⁺(S) over all S that exclude some rank. If
//! every switch sends as much as it receives, some schedule attains this (Zhao, Liu, Basu,
//! Khojastepour, Krishnamurthy: ForestColl, arXiv 2402.06787; for one root Edmonds 1972).
//!
//! Found without a search over floats (Newton; Dinkelbach, Management Science 13(7) 1967): given a
//! rate x, a source gives x to every root. A rank that does not get all of it is behind a cut of a
//! lower rate, which is the next x. All arithmetic is in integers.

use super::flow::Flow;
use crate::base::error::{Error, Result};
use crate::machine::graph::{Graph, Link, Node};
use crate::model::formula::Rational;

/// The most link visits in the search for a tightest cut: seconds.
const WORK: u64 = 1 << 29;

/// A cut, and the rate per root that it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The nodes inside.
    pub inside: Vec<Node>,
    /// How many roots are inside.
    pub roots: i64,
    /// The total rate of the links leaving it, in the integer rates' unit.
    pub leaves: i64,
}

impl Cut {
    /// The most that each root can send, in that unit.
    #[must_use]
    pub fn each(&self) -> Rational {
        Rational::new(self.leaves.into(), self.roots.into())
    }
}

/// The tightest cut for roots that each send to all ranks; `rates` are integers, one per link.
///
/// # Errors
/// Numbers beyond 64 bits; a graph of one rank.
pub fn tightest(graph: &Graph, rates: &[i64], roots: &[Node]) -> Result<Cut> {
    let all: i128 = rates.iter().map(|&rate| i128::from(rate)).sum();
    if all * (roots.len() as i128 + 1) > i128::from(i64::MAX) / 4 {
        return Err(Error::unsupported("the links' rates are too fine for whole numbers")
            .help("round them, for example 12.5GB/s and 50GB/s, not 12.4999999GB/s"));
    }
    // Each rank is visited at least once; in a full mesh that visits half of the links.
    if u64::from(graph.ranks) * (graph.nodes.len() + graph.links.len()) as u64 > 2 * WORK {
        return Err(too_long(graph));
    }
    let mut cut = around_one(graph, rates, roots)?;
    let mut looked = 0;
    while let Some(tighter) = violated(graph, rates, roots, &cut, &mut looked)? {
        cut = tighter;
    }
    Ok(cut)
}

fn too_long(graph: &Graph) -> Error {
    let (ranks, links) = (graph.ranks, graph.links.len());
    Error::unsupported(format!("the best rate of {ranks} ranks over {links} links takes too long"))
        .help("use a part of the fabric, or one with fewer hops between ranks")
}

/// All nodes except one rank: the one that can receive the least.
fn around_one(graph: &Graph, rates: &[i64], roots: &[Node]) -> Result<Cut> {
    let mut enters = vec![0; graph.nodes.len()];
    for (link, &rate) in graph.links.iter().zip(rates) {
        enters[link.to as usize] += rate;
    }
    let mut own = vec![0; graph.nodes.len()];
    roots.iter().for_each(|&root| own[root as usize] += 1);
    let others = |rank: Node| roots.len() as i64 - own[rank as usize];
    let rank = (0..graph.ranks).filter(|&rank| others(rank) > 0).min_by(|&a, &b| {
        let each = |rank: Node| Rational::new(enters[rank as usize].into(), others(rank).into());
        each(a).cmp(&each(b))
    });
    let rank = rank.ok_or_else(|| Error::input("a collective needs at least two ranks"))?;
    let inside = (0..graph.nodes.len() as Node).filter(|&node| node != rank).collect();
    Ok(Cut { inside, roots: others(rank), leaves: enters[rank as usize] })
}

/// The network for a rate x = p/q: links carry q times their rate, and a source gives p to each
/// root.
struct Asked {
    flow: Flow,
    source: u32,
    wanted: i64,
}

impl Asked {
    fn new(graph: &Graph, rates: &[i64], roots: &[Node], cut: &Cut) -> Self {
        let common = num_integer::gcd(cut.leaves, cut.roots);
        let (p, q) = (cut.leaves / common, cut.roots / common);
        let source = graph.nodes.len() as u32;
        let mut flow = Flow::new(graph.nodes.len() + 1);
        for (link, &rate) in graph.links.iter().zip(rates) {
            flow.edge(link.from, link.to, rate * q);
        }
        for &root in roots {
            flow.edge(source, root, p);
        }
        Self { flow, source, wanted: p * roots.len() as i64 }
    }
}

/// A cut that allows less than `cut`, if there is one.
fn violated(
    graph: &Graph,
    rates: &[i64],
    roots: &[Node],
    cut: &Cut,
    looked: &mut u64,
) -> Result<Option<Cut>> {
    let mut asked = Asked::new(graph, rates, roots, cut);
    // One flow serves all ranks: what has arrived at one rank is sent on to the next.
    let mut at = asked.source;
    for rank in 0..graph.ranks {
        if asked.flow.push(at, rank, asked.wanted) < asked.wanted {
            let mut alone = Asked::new(graph, rates, roots, cut);
            alone.flow.push(alone.source, rank, i64::MAX);
            *looked += asked.flow.looked + alone.flow.looked;
            return Ok(Some(near_side(graph, rates, roots, alone.flow, alone.source)));
        }
        if *looked + asked.flow.looked > WORK {
            return Err(too_long(graph));
        }
        at = rank;
    }
    Ok(None)
}

/// How many of the tightest cuts each link crosses: for each rank, the tightest cut nearest to it.
/// As lengths they are as good as the cut, and on a graph with equal ranks they are also equal.
#[must_use]
pub fn crossed(graph: &Graph, rates: &[i64], roots: &[Node], cut: &Cut) -> Vec<i128> {
    let mut asked = Asked::new(graph, rates, roots, cut);
    let mut lengths = vec![0; rates.len()];
    let mut seen = std::collections::HashSet::new();
    let mut at = asked.source;
    for rank in 0..graph.ranks {
        asked.flow.push(at, rank, asked.wanted);
        at = rank;
        let far = asked.flow.reaching(rank);
        let leaves = |link: &Link| !far[link.from as usize] && far[link.to as usize];
        if roots.iter().any(|&root| !far[root as usize]) && seen.insert(far.clone()) {
            for (length, link) in lengths.iter_mut().zip(&graph.links) {
                *length += i128::from(leaves(link));
            }
        }
    }
    lengths
}

fn near_side(graph: &Graph, rates: &[i64], roots: &[Node], mut flow: Flow, source: u32) -> Cut {
    let reached = flow.reached(source);
    let inside: Vec<Node> =
        (0..graph.nodes.len() as Node).filter(|&node| reached[node as usize]).collect();
    of(graph, rates, roots, inside)
}

/// The cut around a set of nodes.
#[must_use]
pub fn of(graph: &Graph, rates: &[i64], roots: &[Node], inside: Vec<Node>) -> Cut {
    let mut is_in = vec![false; graph.nodes.len()];
    inside.iter().for_each(|&node| is_in[node as usize] = true);
    let leaves = graph.links.iter().zip(rates);
    let leaves = leaves.filter(|(l, _)| is_in[l.from as usize] && !is_in[l.to as usize]);
    Cut {
        leaves: leaves.map(|(_, rate)| rate).sum(),
        roots: roots.iter().filter(|&&root| is_in[root as usize]).count() as i64,
        inside,
    }
}

/// Whether every switch sends as much as it receives; then the tightest cut is attainable.
#[must_use]
pub fn is_balanced(graph: &Graph, rates: &[i64]) -> bool {
    let mut gain = vec![0_i64; graph.nodes.len()];
    for (link, rate) in graph.links.iter().zip(rates) {
        gain[link.from as usize] -= rate;
        gain[link.to as usize] += rate;
    }
    gain[graph.ranks as usize..].iter().all(|&gain| gain == 0)
}
