//! Messages whose packets take several paths at once.
//!
//! ```text
//!          ┌─ s0 ─┐            minimal: half of g0's packets to g1 pass s0, half s1
//!  g0 ─ a ─┤      ├─ b ─ g1
//!          └─ s1 ─┘            valiant: first to some place, then from there to g1
//! ```
//!
//! Networks choose per packet: adaptive routers by load, Valiant's scheme by chance. A long message
//! has many packets, so each of its paths carries the share that a packet takes it with. Shares are
//! added up link by link; there is no chance in an answer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::rc::Rc;

use super::{Net, Route};
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::graph::{Graph, Node};

/// The cost of a link: those between groups first, then all.
const BETWEEN_GROUPS: u64 = 1 << 32;
const FAR: u64 = u64::MAX;

/// Where packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Goal {
    Node(Node),
    /// Any node of this group.
    Group(u32),
}

/// Packets on their way.
#[derive(Debug, Clone, Default)]
struct Flow {
    /// The share of the message over each link that it used so far.
    shares: BTreeMap<u32, f64>,
    /// The nodes where packets are now: their share, and the latency of the slowest.
    at: BTreeMap<Node, (f64, f64)>,
}

/// What is known of a graph's paths.
#[derive(Default)]
pub(super) struct Sprayed {
    /// Where packets may go first.
    places: Vec<Goal>,
    /// By node, and whether ranks forward: the places that it reaches, and that reach it.
    reached: HashMap<(Node, bool), Rc<[bool]>>,
    reaching: HashMap<(Node, bool), Rc<[bool]>>,
    /// The cost from each node to a goal, through ranks or not.
    costs: HashMap<(Goal, bool), Rc<Vec<u64>>>,
    /// The first halves of Valiant's ways: they are the same for many receivers.
    halves: HashMap<(Node, bool, Vec<Goal>), Flow>,
}

impl Sprayed {
    pub fn new(graph: &Graph, groups: &[Option<u32>]) -> Self {
        if let Some(last) = groups.iter().flatten().max() {
            return Self { places: (0..=*last).map(Goal::Group).collect(), ..Self::default() };
        }
        let mut places: Vec<Node> = match graph.switches() {
            0 => (0..graph.ranks).collect(),
            _ => {
                let ends = graph.links.iter().filter(|link| graph.is_rank(link.from));
                ends.map(|link| link.to).filter(|&to| !graph.is_rank(to)).collect()
            }
        };
        places.sort_unstable();
        places.dedup();
        Self { places: places.into_iter().map(Goal::Node).collect(), ..Self::default() }
    }

    /// All paths of least cost, or none if there is no path.
    pub fn minimal(&mut self, net: &Net<'_>, from: Node, to: Node) -> Option<Route> {
        let goal = Goal::Node(to);
        let through = self.costs(net, goal, false)[from as usize] == FAR;
        let start = Flow { at: [(from, (1.0, 0.0))].into(), ..Flow::default() };
        self.advance(net, start, (goal, through)).map(Flow::route)
    }

    /// All paths over all places between, or the minimal ones if there is no such place.
    pub fn valiant(&mut self, net: &Net<'_>, from: Node, to: Node) -> Option<Route> {
        let goal = Goal::Node(to);
        let costs = self.costs(net, goal, false);
        // Where all nodes are ranks, all of them forward.
        let through = net.graph.switches() == 0 || costs[from as usize] == FAR;
        let places = self.between(net, (from, to), through);
        if from == to || places.is_empty() {
            return self.minimal(net, from, to);
        }
        let key = (from, through, places);
        let half = match self.halves.get(&key) {
            Some(half) => half.clone(),
            None => {
                let half = self.first_half(net, &key)?;
                self.halves.insert(key, half.clone());
                half
            }
        };
        self.advance(net, half, (goal, through)).map(Flow::route)
    }

    /// The places that packets between two nodes may visit first.
    fn between(&mut self, net: &Net<'_>, (from, to): (Node, Node), through: bool) -> Vec<Goal> {
        let own = [from, to].map(|node| net.groups.get(node as usize).copied().flatten());
        if !net.groups.is_empty() && own[0] == own[1] {
            return Vec::new();
        }
        let [starts, ends] = [self.reached(net, from, through), self.reaching(net, to, through)];
        let places = self.places.iter().zip(starts.iter().zip(&*ends));
        let is_open = |place: &Goal| match *place {
            Goal::Group(group) => !own.contains(&Some(group)),
            Goal::Node(_) => true,
        };
        let places = places.filter(|(place, (starts, ends))| **starts && **ends && is_open(place));
        places.map(|(place, _)| *place).collect()
    }

    /// Which places packets from a node reach.
    fn reached(&mut self, net: &Net<'_>, from: Node, through: bool) -> Rc<[bool]> {
        if let Some(known) = self.reached.get(&(from, through)) {
            return Rc::clone(known);
        }
        let places = self.places.clone();
        let reached = places.into_iter().map(|place| self.costs(net, place, through));
        let reached: Rc<[bool]> = reached.map(|costs| costs[from as usize] != FAR).collect();
        self.reached.insert((from, through), Rc::clone(&reached));
        reached
    }

    /// From which places, from all nodes of a group, packets reach a node.
    fn reaching(&mut self, net: &Net<'_>, to: Node, through: bool) -> Rc<[bool]> {
        if let Some(known) = self.reaching.get(&(to, through)) {
            return Rc::clone(known);
        }
        let costs = self.costs(net, Goal::Node(to), through);
        let reaches = |place: &Goal| match *place {
            Goal::Node(node) => costs[node as usize] != FAR,
            Goal::Group(group) => {
                let mut inside =
                    net.groups.iter().zip(&*costs).filter(|(of, _)| **of == Some(group));
                inside.clone().next().is_some() && inside.all(|(_, cost)| *cost != FAR)
            }
        };
        let reaching: Rc<[bool]> = self.places.iter().map(reaches).collect();
        self.reaching.insert((to, through), Rc::clone(&reaching));
        reaching
    }

    /// From a node to all places, the same share to each.
    fn first_half(
        &mut self,
        net: &Net<'_>,
        (from, through, places): &(Node, bool, Vec<Goal>),
    ) -> Option<Flow> {
        let each = 1.0 / places.len() as f64;
        let mut all = Flow::default();
        for &place in places {
            let start = Flow { at: [(*from, (each, 0.0))].into(), ..Flow::default() };
            let flow = self.advance(net, start, (place, *through))?;
            for (link, share) in flow.shares {
                *all.shares.entry(link).or_default() += share;
            }
            for (node, packets) in flow.at {
                join(all.at.entry(node).or_default(), packets);
            }
        }
        Some(all)
    }

    /// Moves all packets to a goal: those that are furthest away first, so that all packets of a
    /// node leave it together.
    fn advance(
        &mut self,
        net: &Net<'_>,
        flow: Flow,
        (goal, through): (Goal, bool),
    ) -> Option<Flow> {
        let costs = self.costs(net, goal, through);
        let Flow { mut shares, at } = flow;
        let mut open: BTreeMap<(u64, Node), (f64, f64)> = BTreeMap::new();
        for (node, packets) in at {
            open.insert((costs[node as usize], node), packets);
        }
        let mut arrived = BTreeMap::new();
        while let Some(((cost, node), (share, latency))) = open.pop_last() {
            match cost {
                FAR => return None,
                0 => {
                    arrived.insert(node, (share, latency));
                    continue;
                }
                _ => {}
            }
            let is_best = |&&i: &&u32| {
                let next = net.graph.links[i as usize].to;
                let rest = costs[next as usize];
                let may_pass = through || rest == 0 || !net.graph.is_rank(next);
                may_pass && rest.checked_add(net.cost(i)) == Some(cost)
            };
            let best: Vec<u32> =
                net.leaving[node as usize].iter().filter(is_best).copied().collect();
            let each = share / best.len() as f64;
            for i in best {
                let link = net.graph.links[i as usize];
                *shares.entry(i).or_default() += each;
                let there = open.entry((costs[link.to as usize], link.to)).or_default();
                join(there, (each, latency + link.latency.0));
            }
        }
        Some(Flow { shares, at: arrived })
    }

    /// The cost of the best path from each node to a goal; ranks are passed only if they forward.
    fn costs(&mut self, net: &Net<'_>, goal: Goal, through: bool) -> Rc<Vec<u64>> {
        let known = self.costs.entry((goal, through));
        Rc::clone(known.or_insert_with(|| Rc::new(net.costs(goal, through))))
    }
}

impl Flow {
    fn route(self) -> Route {
        let (links, shares) = self.shares.into_iter().map(|(i, share)| (i, Ratio(share))).unzip();
        let latency = self.at.values().fold(0.0, |most: f64, (_, latency)| most.max(*latency));
        Route { links, shares, latency: Seconds(latency) }
    }
}

/// Adds packets to those that are there; the slowest of them counts.
fn join(there: &mut (f64, f64), (share, latency): (f64, f64)) {
    there.0 += share;
    there.1 = there.1.max(latency);
}

impl Net<'_> {
    fn cost(&self, link: u32) -> u64 {
        let link = &self.graph.links[link as usize];
        let of = |node: Node| self.groups.get(node as usize).copied().flatten();
        match (of(link.from), of(link.to)) {
            (Some(a), Some(b)) if a != b => BETWEEN_GROUPS + 1,
            _ => 1,
        }
    }

    /// Dijkstra's distances, against the direction of links.
    fn costs(&self, goal: Goal, through: bool) -> Vec<u64> {
        let graph = self.graph;
        let mut costs = vec![FAR; graph.nodes.len()];
        let mut open = BinaryHeap::new();
        let goals: Vec<Node> = match goal {
            Goal::Node(only) => vec![only],
            Goal::Group(group) => {
                let inside = (0..).zip(self.groups).filter(|(_, of)| **of == Some(group));
                let inside: Vec<Node> = inside.map(|(node, _)| node).collect();
                // Ranks of the group are entered only where they forward, that is, without switches.
                let switches = inside.iter().copied().filter(|&node| !graph.is_rank(node));
                let switches: Vec<Node> = switches.collect();
                if switches.is_empty() { inside } else { switches }
            }
        };
        for node in goals {
            costs[node as usize] = 0;
            open.push((Reverse(0), node));
        }
        while let Some((Reverse(cost), node)) = open.pop() {
            let passes = cost == 0 || through || !graph.is_rank(node);
            if cost > costs[node as usize] || !passes {
                continue;
            }
            for &i in &self.entering[node as usize] {
                let from = graph.links[i as usize].from;
                let more = cost + self.cost(i);
                if more < costs[from as usize] {
                    costs[from as usize] = more;
                    open.push((Reverse(more), from));
                }
            }
        }
        costs
    }
}
