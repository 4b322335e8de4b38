//! Faults: links, or all links of some nodes, whose rate differs from the built one.
//!
//! A fabric file's `[[faults]]` and the command's `--fault` are equivalent:
//!
//! | in a file | as a flag | what |
//! |---|---|---|
//! | `between = ["g0", "nv0"]`, `times = 0` | `link=g0-nv0:0` | a dead cable |
//! | `from = "g0"`, `to = "nv0"`, `times = 0.5` | `link=g0>nv0:0.5` | one direction at half its rate |
//! | `node = "rail3"`, `times = 0` | `node=rail3:0` | a dead switch |
//! | `node = "spine*"`, `times = 2` | `node=spine*:2` | twice the spines |
//! | `nic = "g3"`, `times = 0` | `nic=g3:0` | a removed NIC: the slowest of a rank's links |

use std::collections::HashMap;
use std::str::FromStr;

use serde::Deserialize;

use super::file::{ends, unknown};
use super::{Graph, Link, Node};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, decimal};
use crate::model::formula::Rational;

/// Links whose rate is multiplied by `times`.
#[derive(Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    between: Option<[String; 2]>,
    from: Option<String>,
    to: Option<String>,
    /// All links of this node, or, with a `*` at its end, of all nodes whose names begin with it.
    node: Option<String>,
    /// The slowest links of this rank, if it has other links.
    nic: Option<String>,
    times: f64,
}

impl FromStr for Fault {
    type Err = Error;

    /// `link=g0-nv0:0`, `link=g0>nv0:0.5`, `node=spine*:2`, `nic=g3:0`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::input(format!("`{text}` is not a fault")).help(
                "write link=g0-nv0:0 (dead), link=g0>nv0:0.5 (one way), node=spine*:2 or nic=g3:0",
            )
        };
        let (kind, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (what, times) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let times = times.trim().parse().map_err(|_| wrong())?;
        let fault = Self { times, ..Self::default() };
        let what = what.trim();
        match kind.trim() {
            "node" => Ok(Self { node: Some(what.to_owned()), ..fault }),
            "nic" => Ok(Self { nic: Some(what.to_owned()), ..fault }),
            "link" => match (what.split_once('>'), what.split_once('-')) {
                (Some((a, b)), _) => {
                    Ok(Self { from: Some(a.to_owned()), to: Some(b.to_owned()), ..fault })
                }
                // Names may contain dashes: which dash separates two nodes is known later.
                (None, Some(_)) => {
                    Ok(Self { between: Some([what.to_owned(), String::new()]), ..fault })
                }
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl Graph {
    /// The same with further faults.
    ///
    /// # Errors
    /// Nodes or links that do not exist; ranks that no longer reach each other.
    pub fn with_faults(&self, faults: &[Fault]) -> Result<Self> {
        let mut graph = self.clone();
        let numbers = self.nodes.iter().map(String::as_str).zip(0..).collect();
        apply(faults, &mut graph.links, &numbers)?;
        graph.check_reach()?;
        Ok(graph)
    }
}

/// Changes the rates of links and removes dead ones.
pub(super) fn apply(
    faults: &[Fault],
    links: &mut Vec<Link>,
    numbers: &HashMap<&str, Node>,
) -> Result<()> {
    for fault in faults {
        fault.apply(links, numbers)?;
    }
    links.retain(|link| link.rate.0 > Rational::from_integer(0));
    Ok(())
}

impl Fault {
    fn apply(&self, links: &mut [Link], numbers: &HashMap<&str, Node>) -> Result<()> {
        let times = decimal(&self.times.to_string()).filter(|t| *t >= Rational::from_integer(0));
        let times = times.ok_or_else(|| {
            Error::input(format!("`{}` times", self.times)).help("write 0 for dead, 0.5 for half")
        })?;
        let met = self.met(links, numbers)?;
        if !met.contains(&true) {
            return Err(Error::input(format!("the fault of {} applies to no link", self.what()))
                .help("name two nodes that a link joins"));
        }
        for (link, _) in links.iter_mut().zip(met).filter(|(_, met)| *met) {
            link.rate = Rate(link.rate.0 * times);
        }
        Ok(())
    }

    /// The links that it applies to.
    fn met(&self, links: &[Link], numbers: &HashMap<&str, Node>) -> Result<Vec<bool>> {
        let number = |name: &str| {
            let known = numbers.get(name).copied();
            known.ok_or_else(|| unknown(name, numbers.keys().copied(), "node"))
        };
        let of = |node: Node| move |link: &Link| link.from == node || link.to == node;
        match (&self.node, &self.nic) {
            (None, None) => {
                let (a, b, both) = ends(&self.joined(numbers), &self.from, &self.to, numbers)?;
                let is_met = |link: &Link| {
                    (link.from, link.to) == (a, b) || both && (link.from, link.to) == (b, a)
                };
                Ok(links.iter().map(is_met).collect())
            }
            (Some(name), None) => {
                let Some(start) = name.strip_suffix('*') else {
                    return Ok(links.iter().map(of(number(name)?)).collect());
                };
                let nodes: Vec<Node> =
                    numbers.iter().filter(|(n, _)| n.starts_with(start)).map(|(_, &n)| n).collect();
                let is_met = |link: &Link| nodes.contains(&link.from) || nodes.contains(&link.to);
                Ok(links.iter().map(is_met).collect())
            }
            (None, Some(name)) => {
                let own = of(number(name)?);
                let rates = || links.iter().filter(|link| own(link)).map(|link| link.rate.0);
                let (least, most) = (rates().min(), rates().max());
                if least == most {
                    return Err(Error::input(format!(
                        "no link of `{name}` is slower than its others"
                    ))
                    .help(format!("name its NIC's link: link={name}-ib:0")));
                }
                Ok(links.iter().map(|link| own(link) && Some(link.rate.0) == least).collect())
            }
            _ => Err(Error::input("a fault names several things").help("write one fault for each")),
        }
    }

    /// The two nodes of `between`; a flag has them in one text.
    fn joined(&self, numbers: &HashMap<&str, Node>) -> Option<[String; 2]> {
        let [text, rest] = self.between.as_ref()?;
        if !rest.is_empty() {
            return self.between.clone();
        }
        let ends = |(at, _): (usize, &str)| [&text[..at], &text[at + 1..]];
        let mut splits = text.match_indices('-').map(ends);
        let known = splits.clone().find(|ends| ends.iter().all(|end| numbers.contains_key(end)));
        known.or_else(|| splits.next()).map(|ends| ends.map(str::to_owned))
    }

    fn what(&self) -> String {
        let ends = self.between.as_ref().map(|[a, b]| format!("{a} {b}"));
        let one_way = self.from.iter().chain(&self.to).cloned().collect::<Vec<_>>().join(" ");
        let named = [&self.node, &self.nic].into_iter().flatten().next().cloned();
        ends.or(named).unwrap_or(one_way).trim().to_owned()
    }
}
