//! Groups of nodes, as the routers of a dragonfly form them: written in the file as lists of names,
//! or known from the generator.

use std::collections::HashMap;

use super::Node;
use super::file::unknown;
use super::generate::Spec;
use crate::base::error::{Error, Result};

/// The group of each node, for routing by groups; empty if there are no groups.
///
/// A rank that is in no list belongs to the group of the first node with a group that it is connected
/// to: so a file lists its switches only.
pub(super) fn read(written: &Option<Vec<Vec<String>>>, spec: &Spec) -> Result<Vec<Option<u32>>> {
    let place = |e: Error| e.at("groups");
    let lists = match written {
        Some(_) if !spec.groups.is_empty() => {
            return Err(place(
                Error::input("the generated fabric has groups of its own").help("leave them out"),
            ));
        }
        Some(lists) => numbers(lists, spec).map_err(place)?,
        None => spec.groups.clone(),
    };
    if lists.is_empty() {
        return Ok(Vec::new());
    }
    let count = spec.ranks.len() + spec.switches.len();
    let mut groups = vec![None; count];
    for (group, list) in (0..).zip(&lists) {
        for &node in list {
            if groups[node as usize].replace(group).is_some() {
                let names = spec.ranks.iter().chain(&spec.switches);
                let name = names.map(String::as_str).nth(node as usize).unwrap_or_default();
                return Err(place(
                    Error::input(format!("`{name}` is listed twice"))
                        .help("a node is in one group at most"),
                ));
            }
        }
    }
    let listed = groups.clone();
    for link in &spec.links {
        let (rank, group) = (link.from as usize, listed[link.to as usize]);
        if rank < spec.ranks.len() && groups[rank].is_none() {
            groups[rank] = group;
        }
    }
    Ok(groups)
}

/// The nodes of each group by number.
fn numbers(lists: &[Vec<String>], spec: &Spec) -> Result<Vec<Vec<Node>>> {
    if lists.len() < 2 || lists.iter().any(Vec::is_empty) {
        return Err(Error::input("fewer than two groups, or an empty one")
            .help("list the switches of each group: groups = [[\"a0\", \"a1\"], [\"b0\"]]"));
    }
    let names = || spec.ranks.iter().chain(&spec.switches).map(String::as_str);
    let numbers: HashMap<&str, Node> = names().zip(0..).collect();
    let number = |name: &String| {
        numbers.get(name.as_str()).copied().ok_or_else(|| unknown(name, names(), "node"))
    };
    lists.iter().map(|list| list.iter().map(number).collect()).collect()
}
