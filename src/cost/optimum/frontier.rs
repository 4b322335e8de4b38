//! Latency against bandwidth: the fewest rounds per chunk for each number of steps.
//!
//! A schedule has S steps. Step s has r_s rounds, and in it a link of b units carries at most b·r_s
//! chunks, of chunks that its sender had before the step. R = Σ r_s over C chunks per rank is the
//! bandwidth cost, S the latency cost: S·α + (R/C)·(M/N)·β (Cai, Liu, Maleki, Musuvathi, Mytkowicz,
//! Nelson, Saarikivi: SCCL, PPoPP 2021). Few steps and few rounds per chunk exclude each other; the
//! frontier contains the schedules that cannot be improved in both.
//!
//! For S steps the least R/C is a linear program over trees in time, whose rounds are variables
//! too. The cheapest tree under given prices comes from a table over sets of ranks, step by step.
//! The fractional solution, times its common denominator, is a schedule in whole chunks.

use super::cut;
use super::simplex::{Column, Exact, Simplex, Sparse};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, nearest};
use crate::machine::graph::{Graph, Node};
use crate::model::formula::Rational;

/// The most ranks: the tables have an entry for each set of ranks.
const RANKS: u32 = 10;
/// How many steps beyond the fewest are examined.
const FURTHER: u32 = 4;
/// This many chunks per rank are enough for small vectors.
const CHUNKS: i128 = 6;
/// The most changed entries of the inverse: some seconds.
const WORK: u64 = 3_000_000_000;

/// The path of a chunk: the step and the link of each delivery.
pub type Deliveries = Vec<(u32, u32)>;

/// A point of the frontier.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Steps.
    pub steps: u32,
    /// Rounds per chunk.
    pub cost: Rational,
    /// Rounds of each step in its schedule.
    pub rounds: Vec<i64>,
    /// Chunks of each root in its schedule.
    pub chunks: i64,
    /// Trees in time: root, number of chunks sent along it, and its (step, link) pairs.
    pub trees: Vec<(Node, i64, Deliveries)>,
}

/// The frontier of an all-gather (all ranks are roots) or a broadcast (one is), in rounds of
/// `unit`, and the lower bound for any number of steps.
///
/// # Errors
/// Switches, links that are not multiples of the unit, too many ranks.
pub fn frontier(graph: &Graph, roots: &[Node], unit: Rate) -> Result<(Rational, Vec<Point>)> {
    if graph.switches() > 0 {
        return Err(Error::unsupported("no frontier is available for a fabric with switches")
            .help("use a fabric whose ranks are joined only by links"));
    }
    if graph.ranks > RANKS {
        return Err(Error::unsupported(format!(
            "no frontier is available for {} ranks",
            graph.ranks
        ))
        .help(format!("at most {RANKS}; without --frontier any number")));
    }
    let units = graph.links.iter().map(|link| {
        let units = link.rate.0 / unit.0;
        (units.is_integer() && *units.numer() < 1 << 20).then(|| *units.numer() as i64)
    });
    let units: Vec<i64> = units.collect::<Option<_>>().ok_or_else(|| {
        Error::input("some links are not multiples of the unit")
            .at("--unit")
            .help("give a rate that divides the rates of all links")
    })?;
    let low = cut::tightest(graph, &units, roots)?.each().recip();
    let fewest = fewest_steps(graph, roots);
    let mut points: Vec<Point> = Vec::new();
    for steps in fewest..=fewest + FURTHER {
        let Some(point) = least(graph, &units, roots, steps) else { break };
        let is_enough = point.cost == low || point.least().1 >= CHUNKS;
        if points.last().is_none_or(|last| point.cost < last.cost) {
            points.push(point);
        }
        if is_enough {
            break;
        }
    }
    Ok((low, points))
}

/// The fewest steps in which every rank can be reached.
fn fewest_steps(graph: &Graph, roots: &[Node]) -> u32 {
    let leaving = graph.leaving();
    let far = |root: Node| {
        let mut far = vec![u32::MAX; graph.nodes.len()];
        let mut open = std::collections::VecDeque::from([root]);
        far[root as usize] = 0;
        while let Some(node) = open.pop_front() {
            for &i in &leaving[node as usize] {
                let to = graph.links[i as usize].to as usize;
                if far[to] == u32::MAX {
                    far[to] = far[node as usize] + 1;
                    open.push_back(to as Node);
                }
            }
        }
        far.into_iter().max().unwrap_or(0)
    };
    roots.iter().map(|&root| far(root)).max().unwrap_or(0)
}

/// The point with the fewest rounds per chunk; `None` if its fractions have too many digits.
fn least(graph: &Graph, units: &[i64], roots: &[Node], steps: u32) -> Option<Point> {
    // Rows: links in each step, the sum of rounds, roots. Columns: chunks per root, rounds of
    // steps.
    let links = units.len();
    let timed = links * steps as usize;
    let mut right = vec![0_i64; timed + 1 + roots.len()];
    right[timed] = 1;
    let chunks = (timed + 1..right.len()).map(|row| (row, 1)).collect();
    let rounds = (0..steps as usize).map(|step| {
        let room = (0..links).map(|link| (step * links + link, -units[link]));
        room.chain([(timed, 1)]).collect()
    });
    let fixed = std::iter::once(chunks).chain(rounds).collect();
    let floats = right.iter().map(|&right| right as f64).collect();
    let mut simplex = Simplex::new(floats, |_| 1e-7, fixed);
    let mut known: Vec<(usize, Deliveries)> = Vec::new();
    let tables: Vec<Trees<'_>> = roots.iter().map(|&root| Trees::new(graph, root, steps)).collect();
    let mut prices: Vec<f64> = (0..timed).map(|row| 1.0 / units[row % links] as f64).collect();
    while simplex.work() < WORK {
        let held = simplex.prices();
        let mut further = Vec::new();
        for (root, table) in tables.iter().enumerate() {
            let tree = table.cheapest(&prices)?;
            let rows = tree.iter().map(|&(step, link)| (step as usize * links + link as usize, 1));
            let entries = rows.chain([(timed + 1 + root, -1)]).collect();
            let sparse = Sparse { entries, pattern: known.len() };
            if simplex.is_new() || simplex.gain(&sparse, &held) > 1e-9 {
                known.push((root, tree));
                further.push(sparse);
            }
        }
        if further.is_empty() {
            simplex.refresh();
            return read(&simplex, &right, roots, &known, steps);
        }
        simplex.improve(further);
        prices = simplex.prices()[..timed].iter().map(|price| price.max(0.0)).collect();
    }
    None
}

/// The basis as whole rounds and chunks; if its fractions have many digits, as multiples of a
/// millionth of a millionth, which are within a billionth.
fn read(
    simplex: &Simplex,
    right: &[i64],
    roots: &[Node],
    known: &[(usize, Deliveries)],
    steps: u32,
) -> Option<Point> {
    const FINE: f64 = 1e12;
    let Exact { prices, values, columns } = simplex.exactly(right);
    // All rounds together are 1, so their price is their yield: chunks per round.
    let rounds = units_row(right);
    let cost = prices.map(|prices| prices[rounds]).filter(|x| *x > Rational::from_integer(0))?;
    let common = |values: &Vec<Rational>| {
        values.iter().try_fold(1_i128, |common, value| {
            let next =
                (common / num_integer::gcd(common, *value.denom())).checked_mul(*value.denom())?;
            (next < 1 << 40).then_some(next)
        })
    };
    let exact = values.and_then(|values| common(&values).map(|common| (values, common)));
    let counts: Vec<i64> = match exact {
        Some((values, common)) => values
            .iter()
            .map(|value| i64::try_from(value.numer() * (common / value.denom())))
            .collect::<std::result::Result<_, _>>()
            .ok()?,
        None => {
            columns.iter().map(|&c| (simplex.value(c).max(0.0) * FINE).round() as i64).collect()
        }
    };
    let rounds = vec![0; steps as usize];
    let mut point = Point { steps, cost: cost.recip(), rounds, chunks: 0, trees: Vec::new() };
    for (column, &count) in columns.iter().zip(&counts) {
        match *column {
            Column::Fixed(0) => point.chunks = count,
            Column::Fixed(step) => point.rounds[step - 1] = count,
            Column::Pattern(i) if count != 0 => {
                let (root, tree) = &known[simplex.pattern(i)];
                point.trees.push((roots[*root], count, tree.clone()));
            }
            _ => {}
        }
    }
    let shared = point.trees.iter().map(|tree| tree.1).chain(point.rounds.iter().copied());
    let shared = shared.fold(point.chunks, num_integer::gcd).max(1);
    point.chunks /= shared;
    point.rounds.iter_mut().for_each(|rounds| *rounds /= shared);
    point.trees.iter_mut().for_each(|tree| tree.1 /= shared);
    Some(point)
}

/// The row of the sum of all rounds.
fn units_row(right: &[i64]) -> usize {
    right.iter().position(|&right| right == 1).unwrap_or(0)
}

impl Point {
    /// Its rounds and chunks in the smallest integers that have one round per step.
    #[must_use]
    pub fn least(&self) -> (i128, i128) {
        let (rounds, chunks) = (*self.cost.numer(), *self.cost.denom());
        let times = (i128::from(self.steps) + rounds - 1) / rounds;
        (rounds * times, chunks * times)
    }

    /// Whether every rank gets every chunk in time, and no link carries more than it can: checked
    /// by executing the schedule.
    #[must_use]
    pub fn holds(&self, graph: &Graph, roots: &[Node], unit: Rate) -> bool {
        let links = graph.links.len();
        let mut loads = vec![0_i64; links * self.steps as usize];
        let mut sent = vec![0_i64; graph.ranks as usize];
        for (root, count, tree) in &self.trees {
            sent[*root as usize] += count;
            let mut has = vec![u32::MAX; graph.ranks as usize];
            has[*root as usize] = 0;
            let mut tree = tree.clone();
            tree.sort_unstable();
            for (step, link) in tree {
                let ends = graph.links[link as usize];
                // Data sent in a step were there before it.
                if has[ends.from as usize] > step {
                    return false;
                }
                let got = &mut has[ends.to as usize];
                *got = (*got).min(step + 1);
                loads[step as usize * links + link as usize] += count;
            }
            if has.contains(&u32::MAX) {
                return false;
            }
        }
        let near = |a: f64, b: f64| a <= b * (1.0 + 1e-9) + 1.0e-9;
        let fits = loads.iter().enumerate().all(|(i, &load)| {
            let room = nearest(graph.links[i % links].rate.0 / unit.0);
            near(load as f64, room * self.rounds[i / links] as f64)
        });
        let all: i64 = self.rounds.iter().sum();
        let reached = near(all as f64, nearest(self.cost) * self.chunks as f64);
        let chunks = self.chunks as f64;
        let sent = roots.iter().all(|&root| near(chunks, sent[root as usize] as f64));
        fits && reached && self.chunks > 0 && sent
    }
}

/// Cheapest trees in time from one root.
struct Trees<'a> {
    graph: &'a Graph,
    entering: Vec<Vec<u32>>,
    root: Node,
    steps: u32,
}

impl<'a> Trees<'a> {
    fn new(graph: &'a Graph, root: Node, steps: u32) -> Self {
        let mut entering = vec![Vec::new(); graph.ranks as usize];
        for (i, link) in (0..).zip(&graph.links) {
            entering[link.to as usize].push(i);
        }
        Self { graph, entering, root, steps }
    }

    /// The cheapest deliveries that reach all ranks, for given prices of links in each step: for
    /// every set of ranks that has the chunk, the least cost to get there.
    fn cheapest(&self, prices: &[f64]) -> Option<Deliveries> {
        let ranks = self.graph.ranks as usize;
        let (sets, links) = (1_usize << ranks, self.graph.links.len());
        let mut tables = vec![vec![(f64::INFINITY, 0_usize); sets]];
        tables[0][1 << self.root] = (0.0, 0);
        let mut costs = vec![(f64::INFINITY, 0_u32); ranks];
        for step in 0..self.steps as usize {
            let mut next: Vec<(f64, usize)> =
                tables[step].iter().enumerate().map(|(set, &(cost, _))| (cost, set)).collect();
            for set in 1..sets {
                let cost = tables[step][set].0;
                if cost == f64::INFINITY {
                    continue;
                }
                self.price(set, &prices[step * links..(step + 1) * links], &mut costs);
                let can = (0..ranks).filter(|&r| set >> r & 1 == 0 && costs[r].0.is_finite());
                let can: usize = can.map(|rank| 1 << rank).sum();
                // All subsets of the ranks that can get it now.
                let mut more = can;
                while more > 0 {
                    let added: f64 =
                        (0..ranks).filter(|rank| more >> rank & 1 == 1).map(|r| costs[r].0).sum();
                    if cost + added < next[set | more].0 {
                        next[set | more] = (cost + added, set);
                    }
                    more = (more - 1) & can;
                }
            }
            tables.push(next);
        }
        self.walk(prices, &tables)
    }

    /// The cheapest link to each rank from the ranks in a set.
    fn price(&self, set: usize, prices: &[f64], costs: &mut [(f64, u32)]) {
        for (rank, cost) in costs.iter_mut().enumerate() {
            *cost = (f64::INFINITY, 0);
            for &link in &self.entering[rank] {
                let is_from = set >> self.graph.links[link as usize].from & 1 == 1;
                if is_from && prices[link as usize] < cost.0 {
                    *cost = (prices[link as usize], link);
                }
            }
        }
    }

    fn walk(&self, prices: &[f64], tables: &[Vec<(f64, usize)>]) -> Option<Deliveries> {
        let ranks = self.graph.ranks as usize;
        let links = self.graph.links.len();
        let mut set = (1_usize << ranks) - 1;
        if tables[self.steps as usize][set].0 == f64::INFINITY {
            return None;
        }
        let mut costs = vec![(f64::INFINITY, 0_u32); ranks];
        let mut found = Vec::with_capacity(ranks);
        for step in (0..self.steps).rev() {
            let before = tables[step as usize + 1][set].1;
            let at = step as usize * links;
            self.price(before, &prices[at..at + links], &mut costs);
            let got = (0..ranks).filter(|rank| (set & !before) >> rank & 1 == 1);
            found.extend(got.map(|rank| (step, costs[rank].1)));
            set = before;
        }
        Some(found)
    }
}
