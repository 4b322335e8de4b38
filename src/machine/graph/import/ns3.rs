//! A network of ns-3, as HPCC and SimAI write it.
//!
//! ```text
//! 5 1 4                               nodes, switches, cables
//! 4                                   which nodes are switches
//! 0 4 400Gbps 0.0005ms 0              a cable: both ends, its rate each way, its latency, errors
//! ```
//!
//! SimAI's first line has five numbers (nodes, GPUs per server, NVSwitches, other switches, cables), and then
//! the model of the GPU.
//!
//! Source: alibaba-edu/High-Precision-Congestion-Control, `simulation/mix`; aliyun/SimAI,
//! `astra-sim-alibabacloud/inputs/topo/gen_Topo_Template.py`.

use super::RANKS;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds};
use crate::machine::graph::{Graph, Link, Node};

/// Whether a text is in this format: its first line has at least three numbers, or five and a word.
pub(super) fn is_it(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let words: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let numbers = words.iter().take_while(|word| word.parse::<u64>().is_ok()).count();
    numbers >= 3 && numbers == words.len() || numbers == 5 && words.len() == 6
}

/// The fabric of a file. Hosts are ranks in the order of their numbers. Files with directed lines,
/// as forks write them, already contain both directions.
pub(super) fn read(text: &str, origin: &str) -> Result<Graph> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let refuse = |line: usize, what: &str| {
        Error::input(what.to_owned()).at(format!("{origin}:{line}"))
            .help("the first line says how many nodes, switches and links there are, the second which nodes are switches; then each link: 0 4 400Gbps 0.0005ms 0")
    };
    let whole = |line: usize, text: &str| {
        text.parse::<u32>().map_err(|_| refuse(line, &format!("`{text}` is not a whole number")))
    };
    let (line, first) = lines.next().ok_or_else(|| refuse(1, "an empty network"))?;
    let head: Vec<u32> =
        first.split_whitespace().take(5).map(|word| whole(line, word).unwrap_or(0)).collect();
    // SimAI's line: nodes, GPUs per server, NVSwitches, other switches, links.
    let (nodes, count) = match head[..] {
        [nodes, _, nvswitches, others, _] => (nodes, u64::from(nvswitches) + u64::from(others)),
        [nodes, switches, ..] => (nodes, u64::from(switches)),
        _ => return Err(refuse(line, "too few numbers")),
    };
    if u64::from(nodes) > RANKS {
        return Err(refuse(line, &format!("{nodes} nodes; at most {RANKS} are supported")));
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
    use super::super::tests::links;
    use super::*;

    #[test]
    fn lines_of_ns3_are_cables_unless_both_ways_are_there() {
        let cables = "3 1 2\n1\n0 1 400Gbps 0.0005ms 0\n2 1 100Gbps 0.0005ms 0\n";
        let found = links(cables);
        assert_eq!(found.len(), 4);
        assert!(found.contains(&("s1".to_owned(), "g2".to_owned(), 12.5e9)));
        // SimAI names the GPU behind the counts.
        let simai = "4 1 1 1 4 H100\n2 3\n0 2 2400Gbps 25ns 0\n1 2 2400Gbps 25ns 0\n0 3 200Gbps 500ns 0\n1 3 200Gbps 500ns 0\n";
        assert_eq!(links(simai).len(), 8);
        assert_eq!(links(simai), links(&simai.replace(" H100", "")));
        let both = "2 0 2\n0 1 400Gbps 500ns 0\n1 0 200Gbps 500ns 0\n";
        assert_eq!(links(both).len(), 2);
        let error = Graph::parse("3 1 2\n7\n0 1 400Gbps 1ms 0\n", "n.txt").unwrap_err().to_string();
        assert!(error.contains("no node 7") && error.contains("n.txt:2"), "{error}");
    }
}
