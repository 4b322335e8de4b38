//! A link graph: ranks and switches, joined by directed links that each have a rate and a latency.
//!
//! ```text
//!   g0 ─┐        ┌─ g2          a rank stores, copies, adds and forwards;
//!       nv0 ── nv1              a switch forwards a packet to one next hop
//!   g1 ─┘        └─ g3
//! ```
//!
//! [`super::fabric`] describes a machine as tiers, which is what closed forms need; a graph is for
//! what tiers cannot describe: rails, oversubscription, a dead cable, several jobs on one link. A
//! person writes one as a fabric file ([`Graph::parse`]), link by link or as one of the generated
//! kinds.

mod fault;
mod file;
mod generate;
mod groups;
mod import;
pub mod routes;

pub use fault::Fault;
pub(crate) use file::Amount;

use std::collections::HashMap;

use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds};

/// A node: ranks have the numbers 0 … N − 1, switches those after.
pub type Node = u32;

/// A directed link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Where it begins.
    pub from: Node,
    /// Where it ends.
    pub to: Node,
    /// Its rate.
    pub rate: Rate,
    /// The latency of each message on it.
    pub latency: Seconds,
}

/// How the path of a message is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Routing {
    /// The fewest links; of equally good next hops the first in node order.
    #[default]
    Shortest,
    /// The fewest links; equally good next hops take turns by the numbers of sender and receiver.
    Spread,
    /// Ranks in a grid, whose coordinates are corrected one after the other.
    DimensionOrder {
        /// Ranks along each side; the last changes fastest.
        sides: Vec<u32>,
        /// Whether sides wrap around to rings.
        wraps: bool,
    },
    /// All shortest paths at once: at each node packets divide equally among the next hops that are
    /// equally good. Where nodes form groups, as in a dragonfly, a path first has as few links
    /// between groups as possible (Kim, Dally, Scott, Abts, ISCA 2008).
    Minimal {
        /// The group of each node; empty if there are none.
        groups: Vec<Option<u32>>,
    },
    /// Minimal to an intermediate place and minimal from there, packets divided equally among all
    /// places: the groups that neither end is in, or without groups all switches that ranks are
    /// connected to, or without switches all ranks (Valiant, Brebner, STOC 1981).
    Valiant {
        /// The group of each node; empty if there are none.
        groups: Vec<Option<u32>>,
    },
}

/// Ranks, switches and links.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// The names of all nodes, ranks first.
    pub nodes: Vec<String>,
    /// N.
    pub ranks: u32,
    /// The links that are not dead; at most one from one node to another.
    pub links: Vec<Link>,
    /// How messages are routed.
    pub routing: Routing,
    /// The time of each message in addition to its links' latencies.
    pub alpha: Seconds,
    /// Whether its file says that a switch multicasts or adds, which no answer about it uses.
    pub switches_add: bool,
}

impl Graph {
    /// Reads a fabric file, TOML or JSON, or one of another program as [`Self::foreign`] does, and
    /// checks it.
    ///
    /// # Errors
    /// A fault in it, with its place if known: unknown keys or nodes, duplicate names, links from a
    /// node to itself, rates of 0, ranks that do not reach each other.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        Self::foreign(text, origin).unwrap_or_else(|| file::parse(text, origin))
    }

    /// Reads a network of ASTRA-sim or ns-3, an InfraGraph or a host as hwloc describes it, if `text`
    /// looks like one of them.
    #[must_use]
    pub fn foreign(text: &str, origin: &str) -> Option<Result<Self>> {
        import::foreign(text, origin)
    }

    /// A graph of named nodes; links between the same two nodes add up.
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub(crate) fn new(
        name: String,
        (ranks, switches): (Vec<String>, Vec<String>),
        links: Vec<Link>,
    ) -> Result<Self> {
        let count = ranks.len();
        let mut nodes = ranks;
        nodes.extend(switches);
        let mut merged: Vec<Link> = Vec::with_capacity(links.len());
        let mut places = HashMap::with_capacity(links.len());
        for link in links {
            let place = *places.entry((link.from, link.to)).or_insert(merged.len());
            match merged.get_mut(place) {
                Some(there) => there.rate = Rate(there.rate.0 + link.rate.0),
                None => merged.push(link),
            }
        }
        Ok(Self {
            name,
            ranks: u32::try_from(count).map_err(|_| Error::input("more ranks than 2^32"))?,
            nodes,
            links: merged,
            switches_add: false,
            routing: Routing::default(),
            alpha: Seconds(0.0),
        })
    }

    /// The same, checked: every rank reaches every other.
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub(crate) fn joined(
        name: String,
        nodes: (Vec<String>, Vec<String>),
        links: Vec<Link>,
    ) -> Result<Self> {
        if nodes.0.is_empty() {
            return Err(Error::input("a fabric without ranks"));
        }
        let graph = Self::new(name, nodes, links)?;
        graph.check_reach()?;
        Ok(graph)
    }

    /// Whether a node is a rank.
    #[must_use]
    pub fn is_rank(&self, node: Node) -> bool {
        node < self.ranks
    }

    /// A node's name.
    #[must_use]
    pub fn name_of(&self, node: Node) -> &str {
        &self.nodes[node as usize]
    }

    /// How many switches there are.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.nodes.len() - self.ranks as usize
    }

    /// For each node the numbers of the links that leave it, in node order of their ends.
    #[must_use]
    pub fn leaving(&self) -> Vec<Vec<u32>> {
        let mut out = vec![Vec::new(); self.nodes.len()];
        for (i, link) in (0..).zip(&self.links) {
            out[link.from as usize].push(i);
        }
        for links in &mut out {
            links.sort_by_key(|&i: &u32| self.links[i as usize].to);
        }
        out
    }

    /// All links reversed.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let turn = |link: &Link| Link { from: link.to, to: link.from, ..*link };
        Self { links: self.links.iter().map(turn).collect(), ..self.clone() }
    }

    /// Rates as whole numbers of one unit, the largest that divides them all, and that unit.
    ///
    /// # Errors
    /// Rates so different that their whole numbers do not fit.
    pub fn whole_rates(&self) -> Result<(Vec<i64>, Rate)> {
        let unit = self.links.iter().fold(None, |unit: Option<Rate>, link| match unit {
            None => Some(link.rate),
            Some(Rate(unit)) => {
                let (a, b) = (unit, link.rate.0);
                let common = num_integer::gcd(a.numer() * b.denom(), b.numer() * a.denom());
                Some(Rate(num_rational::Ratio::new(common, a.denom() * b.denom())))
            }
        });
        let unit = unit.ok_or_else(|| Error::input("a fabric without links"))?;
        let whole = |link: &Link| i64::try_from((link.rate.0 / unit.0).to_integer());
        let rates: Vec<i64> = self
            .links
            .iter()
            .map(whole)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| too_far())?;
        // Sums over all links and factors of N must stay far below the limit of 64 bits.
        if rates.iter().any(|&rate| rate > 1 << 40) {
            return Err(too_far());
        }
        Ok((rates, unit))
    }

    /// Refuses a graph in which some rank cannot reach some other.
    fn check_reach(&self) -> Result<()> {
        for (graph, other_way) in [(self, false), (&self.reversed(), true)] {
            let leaving = graph.leaving();
            let mut seen = vec![false; graph.nodes.len()];
            let mut open = vec![0_u32];
            seen[0] = true;
            while let Some(node) = open.pop() {
                for &i in &leaving[node as usize] {
                    let to = graph.links[i as usize].to;
                    if !std::mem::replace(&mut seen[to as usize], true) {
                        open.push(to);
                    }
                }
            }
            if let Some(lost) = (0..graph.ranks).find(|&rank| !seen[rank as usize]) {
                let (a, b) = if other_way { (lost, 0) } else { (0, lost) };
                let (a, b) = (self.name_of(a), self.name_of(b));
                return Err(Error::input(format!("rank {a} cannot reach rank {b}"))
                    .help("add a link, or remove the fault that cuts them off"));
            }
        }
        Ok(())
    }
}

fn too_far() -> Error {
    Error::input("the links' rates have no common unit that they are small multiples of")
        .help("round them: 12.5GB/s and 50GB/s, not 12.4999999GB/s")
}
