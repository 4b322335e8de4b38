//! The network of ASTRA-sim's analytical backend.
//!
//! ```text
//! topology: [ Ring, Switch ]          one per dimension, the first one changes fastest;
//! npus_count: [ 4, 2 ]                each row of ranks gets a switch
//! bandwidth: [ 50.0, 25.0 ]           2^30 bytes per second of a link
//! latency: [ 500, 2000 ]              ns
//! ```
//!
//! Source: astra-sim/astra-network-analytical, `common/NetworkParser.cpp`, `common/NetworkFunction.cpp`, where
//! "1 GB is 2^30 B", and `topology`.

use super::{RANKS, times};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds, nearest};
use crate::base::yaml::{self, Node, Value};
use crate::machine::graph::{self, Graph, Link};
use crate::model::formula::Rational;

/// Whether a text is in this format.
pub(super) fn is_it(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("npus_count:"))
}

/// The fabric of a file.
pub(super) fn read(text: &str, origin: &str) -> Result<Graph> {
    let top = yaml::parse(text).map_err(|e| e.error(origin))?;
    network(&top).map_err(|e| e.at(origin))
}

/// The values of a key, which has a list of them.
fn listed<'t>(top: &'t Node<'t>, key: &str) -> Result<Vec<&'t str>> {
    let missing = || {
        Error::input(format!("no `{key}`"))
            .help(format!("write {key}: [ … ] with a value for each dimension"))
    };
    let Some(Node { value: Value::List(values), .. }) = top.get(key) else { return Err(missing()) };
    let text = |one: &'t Node<'t>| match &one.value {
        Value::Text(text) => Ok(text.as_ref()),
        _ => Err(missing()),
    };
    values.iter().map(text).collect()
}

/// The number of a list in a unit.
fn number(text: &str, key: &str, unit: i128) -> Result<Rational> {
    let wrong = || Error::input(format!("`{text}` is not a number")).at(key.to_owned());
    times(text, unit).ok_or_else(wrong)
}

fn network(top: &Node<'_>) -> Result<Graph> {
    let kinds = listed(top, "topology")?;
    let counts = listed(top, "npus_count")?;
    let (rates, waits) = (listed(top, "bandwidth")?, listed(top, "latency")?);
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
        let rate = number(rates[dimension], "bandwidth", 1 << 30)?;
        let wait = Seconds(nearest(number(waits[dimension], "latency", 1)?) / 1e9);
        if rate <= Rational::from_integer(0) {
            return Err(Error::input("a bandwidth of 0").at("bandwidth"));
        }
        let mut cable = |a: graph::Node, b: graph::Node| {
            let link = Link { from: a, to: b, rate: Rate(rate), latency: wait };
            links.extend([link, Link { from: b, to: a, ..link }]);
        };
        // Ranks that differ only in this coordinate.
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
                    return Err(Error::input(format!("`{other}` is not a kind of dimension"))
                        .at("topology")
                        .help("known: Ring, FullyConnected and Switch"));
                }
            }
        }
        stride *= side;
    }
    let ranks = (0..all).map(|i| format!("g{i}")).collect();
    Graph::joined(format!("{} of {all}", kinds.join(" x ")), (ranks, switches), links)
}

#[cfg(test)]
mod tests {
    use super::super::tests::links;
    use super::*;

    #[test]
    fn astra_sims_dimensions_are_rows_of_ranks() {
        let text = "topology: [ Ring, Switch ]  # two\nnpus_count: [ 3, 2 ]\nbandwidth: [ 50.0, 12.5 ]\nlatency: [ 500, 2000 ]\n";
        let found = links(text);
        // Two rings of three and three switches of two, both ways.
        assert_eq!(found.len(), 2 * (2 * 3 + 3 * 2));
        let has = |a: &str, b: &str, rate: f64| found.contains(&(a.to_owned(), b.to_owned(), rate));
        let giga = f64::from(1 << 30);
        let (ring, switch) = (50.0 * giga, 12.5 * giga);
        assert!(has("g0", "g1", ring) && has("g2", "g0", ring) && has("g5", "g3", ring));
        assert!(has("g0", "sw1.0", switch) && has("g3", "sw1.0", switch));
        assert!(has("sw1.2", "g5", switch) && !has("g1", "sw1.0", switch));
        let wrong = text.replace("Switch", "Blob");
        assert!(Graph::parse(&wrong, "n").unwrap_err().to_string().contains("`Blob`"));
    }
}
