//! Fabrics of other programs, each format in its own module.

mod astra_sim;
mod hwloc;
mod infragraph;
mod ns3;

use super::Graph;
use crate::base::error::Result;
use crate::base::quantity::decimal;
use crate::model::formula::Rational;

/// The most ranks of a network.
const RANKS: u64 = 1 << 17;

/// A number times 10^9, such as of GB/s.
fn giga(text: &str) -> Option<Rational> {
    times(text, 1_000_000_000)
}

/// A number times a unit: at least 0, and small enough for sums and products of rates.
fn times(text: &str, unit: i128) -> Option<Rational> {
    let whole = Rational::from_integer;
    let number = decimal(text).filter(|x| (whole(0)..=whole(1_000_000_000)).contains(x))?;
    Some(number * whole(unit))
}

/// A format: a test whether a text is in it, and a reader for a file with a given name.
struct Format {
    is_it: fn(&str) -> bool,
    read: fn(&str, &str) -> Result<Graph>,
}

/// The formats, tried in this order.
const FORMATS: [Format; 4] = [
    Format { is_it: ns3::is_it, read: ns3::read },
    Format { is_it: hwloc::is_it, read: hwloc::read },
    Format { is_it: infragraph::is_it, read: infragraph::read },
    Format { is_it: astra_sim::is_it, read: astra_sim::read },
];

/// The fabric of another program's file, if `text` looks like one.
pub(super) fn foreign(text: &str, origin: &str) -> Option<Result<Graph>> {
    let format = FORMATS.iter().find(|format| (format.is_it)(text))?;
    Some((format.read)(text, origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The links of a network by the names of their ends, in B/s.
    pub(super) fn links(text: &str) -> Vec<(String, String, f64)> {
        let graph = Graph::parse(text, "network").unwrap();
        let name = |node| graph.name_of(node).to_owned();
        graph.links.iter().map(|l| (name(l.from), name(l.to), l.rate.bandwidth().0)).collect()
    }
}
