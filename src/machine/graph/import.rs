//! Networks of other simulators: ASTRA-sim's analytical backend, and ns-3 as HPCC and SimAI write it.
//!
//! ```text
//! topology: [ Ring, Switch ]          an ASTRA-sim network: a dimension each, the first one
//! npus_count: [ 4, 2 ]                changes fastest; a switch stands for every row of ranks
//! bandwidth: [ 50.0, 25.0 ]           GB/s of a link
//! latency: [ 500, 2000 ]              ns
//! ```
//! ```text
//! 5 1 4                               an ns-3 network: nodes, switches, cables
//! 4                                   which nodes are switches
//! 0 4 400Gbps 0.0005ms 0              a cable: both ends, its rate each way, its latency, errors
//! ```
//!
//! Sources: astra-sim/astra-network-analytical, `src/common/NetworkParser.cpp` and
//! `src/topology`; alibaba-edu/High-Precision-Congestion-Control, `simulation/mix`.

use super::{Graph, Link, Node};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds, decimal, nearest};
use crate::model::formula::Rational;

/// The most ranks of a network.
const RANKS: u64 = 1 << 17;

/// The fabric of a network of another simulator, if `text` looks like one.
pub(super) fn foreign(text: &str, origin: &str) -> Option<Result<Graph>> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let numbers = first.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).count();
    if numbers >= 3 && numbers == first.split_whitespace().count() {
        return Some(ns3(text, origin));
    }
    let is_astra = text.lines().any(|line| line.trim_start().starts_with("npus_count:"));
    is_astra.then(|| astra_sim(text).map_err(|e| e.at(origin)))
}

/// The values of a key in YAML's short form, `key: [ a, b ]`.
fn listed<'t>(text: &'t str, key: &str) -> Result<Vec<&'t str>> {
    let missing = || {
        Error::input(format!("no `{key}`"))
            .help(format!("write it as {key}: [ … ], a value for each dimension"))
    };
    let plain = |line: &'t str| line.split('#').next().unwrap_or("").trim();
    let value = text.lines().map(plain).find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let value = value.ok_or_else(missing)?.trim();
    let inside = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    Ok(inside.ok_or_else(missing)?.split(',').map(str::trim).collect())
}

fn number(text: &str, key: &str) -> Result<Rational> {
    let found = decimal(text).filter(|x| *x >= Rational::from_integer(0));
    found.ok_or_else(|| Error::input(format!("`{text}` is no number")).at(key.to_owned()))
}

/// An ASTRA-sim analytical network.
fn astra_sim(text: &str) -> Result<Graph> {
    let kinds = listed(text, "topology")?;
    let counts = listed(text, "npus_count")?;
    let (rates, waits) = (listed(text, "bandwidth")?, listed(text, "latency")?);
    if [counts.len(), rates.len(), waits.len()] != [kinds.len(); 3] {
        return Err(Error::input("the four lists are not equally long")
            .help("write a value for each dimension"));
    }
    let count = |text: &&str| {
        let count = text.parse::<u32>().ok().filter(|&count| count > 0);
        count.ok_or_else(|| Error::input(format!("`{text}` ranks")).at("npus_count"))
    };
    let counts: Vec<u32> = counts.iter().map(count).collect::<Result<_>>()?;
    let all = counts.iter().try_fold(1_u64, |all, &one| all.checked_mul(one.into()));
    let Some(all) = all.filter(|&all| all <= RANKS) else {
        return Err(Error::input("too many ranks").help(format!("at most {RANKS}")));
    };
    // At most 2^17.
    let all = all as u32;
    let (mut switches, mut links) = (Vec::new(), Vec::new());
    let mut stride = 1;
    for (dimension, (kind, &side)) in kinds.iter().zip(&counts).enumerate() {
        let giga = Rational::from_integer(1_000_000_000);
        let rate = number(rates[dimension], "bandwidth")? * giga;
        let wait = Seconds(nearest(number(waits[dimension], "latency")?) * 1e-9);
        if rate <= Rational::from_integer(0) {
            return Err(Error::input("a bandwidth of 0").at("bandwidth"));
        }
        let mut cable = |a: Node, b: Node| {
            let link = Link { from: a, to: b, rate: Rate(rate), latency: wait };
            links.extend([link, Link { from: b, to: a, ..link }]);
        };
        // Ranks that differ in this coordinate alone.
        for first in (0..all).filter(|rank| rank / stride % side == 0) {
            let rank = |i: u32| first + i * stride;
            match *kind {
                "Ring" if side == 2 => cable(rank(0), rank(1)),
                "Ring" if side > 2 => (0..side).for_each(|i| cable(rank(i), rank((i + 1) % side))),
                "FullyConnected" => {
                    (0..side).for_each(|i| (0..i).for_each(|j| cable(rank(j), rank(i))));
                }
                "Switch" if side > 1 => {
                    let switch = all + switches.len() as u32;
                    switches.push(format!("sw{dimension}.{}", switches.len()));
                    (0..side).for_each(|i| cable(rank(i), switch));
                }
                "Ring" | "Switch" => {}
                other => {
                    return Err(Error::input(format!("`{other}` is no dimension"))
                        .at("topology")
                        .help("Ring, FullyConnected and Switch are"));
                }
            }
        }
        stride *= side;
    }
    let ranks = (0..all).map(|i| format!("g{i}")).collect();
    Graph::joined(format!("{} of {all}", kinds.join(" x ")), (ranks, switches), links)
}

/// A network of ns-3. Hosts are ranks in the order of their numbers; of directed lines, as forks write
/// them, both ways are there already.
fn ns3(text: &str, origin: &str) -> Result<Graph> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let refuse = |line: usize, what: &str| {
        Error::input(what.to_owned()).at(format!("{origin}:{line}"))
            .help("the first line says how many nodes, switches and links there are, the second which nodes are switches; then each link: 0 4 400Gbps 0.0005ms 0")
    };
    let whole = |line: usize, text: &str| {
        text.parse::<u32>().map_err(|_| refuse(line, &format!("`{text}` is no whole number")))
    };
    let (line, first) = lines.next().ok_or_else(|| refuse(1, "an empty network"))?;
    let head: Vec<u32> =
        first.split_whitespace().take(5).map(|word| whole(line, word).unwrap_or(0)).collect();
    // SimAI's line: nodes, GPUs a server, NVSwitches, other switches, links.
    let (nodes, count) = match head[..] {
        [nodes, _, nvswitches, others, _] => (nodes, u64::from(nvswitches) + u64::from(others)),
        [nodes, switches, ..] => (nodes, u64::from(switches)),
        _ => return Err(refuse(line, "too few numbers")),
    };
    if u64::from(nodes) > RANKS {
        return Err(refuse(line, &format!("{nodes} nodes; at most {RANKS} are read")));
    }
    let mut is_switch = vec![false; nodes as usize];
    if count > 0 {
        let (line, second) = lines.next().ok_or_else(|| refuse(line, "no line of switches"))?;
        for word in second.split_whitespace() {
            let node = whole(line, word)? as usize;
            let place = is_switch.get_mut(node);
            *place.ok_or_else(|| refuse(line, &format!("there is no node {node}")))? = true;
        }
        let named = is_switch.iter().filter(|is| **is).count();
        if named as u64 != count {
            return Err(refuse(line, &format!("{named} switches are named, not {count}")));
        }
    }
    // Ranks come first, whatever their numbers.
    let mut numbers = vec![0; nodes as usize];
    let (mut ranks, mut switches) = (Vec::new(), Vec::new());
    for (node, number) in numbers.iter_mut().enumerate().filter(|(n, _)| !is_switch[*n]) {
        *number = ranks.len() as Node;
        ranks.push(format!("g{node}"));
    }
    for (node, number) in numbers.iter_mut().enumerate().filter(|(n, _)| is_switch[*n]) {
        *number = (ranks.len() + switches.len()) as Node;
        switches.push(format!("s{node}"));
    }
    let mut links: Vec<Link> = Vec::new();
    for (line, text) in lines {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [from, to, rate, latency, ..] = words[..] else {
            return Err(refuse(line, "a link without ends, rate and latency"));
        };
        let end = |word: &str| {
            let node = whole(line, word)?;
            let known = numbers.get(node as usize).copied();
            known.ok_or_else(|| refuse(line, &format!("there is no node {node}")))
        };
        let (from, to) = (end(from)?, end(to)?);
        let rate: Rate = rate
            .replace("bps", "b/s")
            .parse()
            .map_err(|e: Error| e.at(format!("{origin}:{line}")))?;
        let latency: Seconds =
            latency.parse().map_err(|e: Error| e.at(format!("{origin}:{line}")))?;
        links.push(Link { from, to, rate, latency });
    }
    let pairs: std::collections::HashSet<(Node, Node)> =
        links.iter().map(|link| (link.from, link.to)).collect();
    let is_directed = links.iter().all(|link| pairs.contains(&(link.to, link.from)));
    if !is_directed {
        let back: Vec<Link> =
            links.iter().map(|link| Link { from: link.to, to: link.from, ..*link }).collect();
        links.extend(back);
    }
    let name = format!("{} ranks of {origin}", ranks.len());
    Graph::joined(name, (ranks, switches), links).map_err(|e| e.at(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(text: &str) -> Vec<(String, String, f64)> {
        let graph = Graph::parse(text, "network").unwrap();
        let name = |node| graph.name_of(node).to_owned();
        graph.links.iter().map(|l| (name(l.from), name(l.to), l.rate.bandwidth().0)).collect()
    }

    #[test]
    fn astra_sims_dimensions_are_rows_of_ranks() {
        let text = "topology: [ Ring, Switch ]  # two\nnpus_count: [ 3, 2 ]\nbandwidth: [ 50.0, 12.5 ]\nlatency: [ 500, 2000 ]\n";
        let found = links(text);
        // Two rings of three and three switches of two, both ways.
        assert_eq!(found.len(), 2 * (2 * 3 + 3 * 2));
        let has = |a: &str, b: &str, rate: f64| found.contains(&(a.to_owned(), b.to_owned(), rate));
        assert!(has("g0", "g1", 50e9) && has("g2", "g0", 50e9) && has("g5", "g3", 50e9));
        assert!(has("g0", "sw1.0", 12.5e9) && has("g3", "sw1.0", 12.5e9));
        assert!(has("sw1.2", "g5", 12.5e9) && !has("g1", "sw1.0", 12.5e9));
        let wrong = text.replace("Switch", "Blob");
        assert!(Graph::parse(&wrong, "n").unwrap_err().to_string().contains("`Blob`"));
    }

    #[test]
    fn lines_of_ns3_are_cables_unless_both_ways_are_there() {
        let cables = "3 1 2\n1\n0 1 400Gbps 0.0005ms 0\n2 1 100Gbps 0.0005ms 0\n";
        let found = links(cables);
        assert_eq!(found.len(), 4);
        assert!(found.contains(&("s1".to_owned(), "g2".to_owned(), 12.5e9)));
        let both = "2 0 2\n0 1 400Gbps 500ns 0\n1 0 200Gbps 500ns 0\n";
        assert_eq!(links(both).len(), 2);
        let error = Graph::parse("3 1 2\n7\n0 1 400Gbps 1ms 0\n", "n.txt").unwrap_err().to_string();
        assert!(error.contains("no node 7") && error.contains("n.txt:2"), "{error}");
    }
}
