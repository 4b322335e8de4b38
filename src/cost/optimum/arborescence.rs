//! The cheapest tree out of a root (Chu and Liu 1965; Edmonds 1967).

use std::ops::{Add, Sub};

/// The costs of edges: doubles while searching, integers for proofs.
pub(super) trait Cost: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> {}

impl<T: Copy + PartialOrd + Add<Output = T> + Sub<Output = T>> Cost for T {}

/// The numbers of the edges of the cheapest tree from `root` to all of `nodes` nodes; `None` if
/// some node cannot be reached.
pub(super) fn cheapest<T: Cost>(
    nodes: usize,
    root: u32,
    edges: &[(u32, u32, T)],
) -> Option<Vec<u32>> {
    const NONE: u32 = u32::MAX;
    let mut best = vec![NONE; nodes];
    for (i, &(from, to, cost)) in edges.iter().enumerate() {
        let held = best[to as usize];
        if from != to && to != root && (held == NONE || cost < edges[held as usize].2) {
            best[to as usize] = i as u32;
        }
    }
    if (0..nodes).any(|v| v as u32 != root && best[v] == NONE) {
        return None;
    }
    // Walk backwards from every node; a walk that meets itself has found a cycle.
    let mut group = vec![NONE; nodes];
    let mut seen = vec![NONE; nodes];
    let mut groups = 0;
    for start in 0..nodes as u32 {
        let mut at = start;
        while at != root && seen[at as usize] == NONE {
            seen[at as usize] = start;
            at = edges[best[at as usize] as usize].0;
        }
        if at != root && seen[at as usize] == start && group[at as usize] == NONE {
            let first = at;
            loop {
                group[at as usize] = groups;
                at = edges[best[at as usize] as usize].0;
                if at == first {
                    break;
                }
            }
            groups += 1;
        }
    }
    let chosen = |best: Vec<u32>| best.into_iter().filter(|&edge| edge != NONE).collect();
    if groups == 0 {
        return Some(chosen(best));
    }
    let in_cycle = groups;
    for group in &mut group {
        if *group == NONE {
            *group = groups;
            groups += 1;
        }
    }
    let mut origin = Vec::with_capacity(edges.len());
    let mut inner = Vec::with_capacity(edges.len());
    for (i, &(from, to, cost)) in edges.iter().enumerate() {
        let (a, b) = (group[from as usize], group[to as usize]);
        if a != b && to != root {
            let cost = if b < in_cycle { cost - edges[best[to as usize] as usize].2 } else { cost };
            origin.push(i as u32);
            inner.push((a, b, cost));
        }
    }
    for edge in cheapest(groups as usize, group[root as usize], &inner)? {
        let edge = origin[edge as usize];
        best[edges[edge as usize].1 as usize] = edge;
    }
    Some(chosen(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_entered_where_it_is_cheapest() {
        let edges = [(0, 1, 10), (0, 2, 11), (1, 2, 1), (2, 1, 1), (2, 3, 4), (1, 3, 9)];
        let tree = cheapest(4, 0, &edges).unwrap();
        let cost: i32 = tree.iter().map(|&e| edges[e as usize].2).sum();
        assert_eq!((tree.len(), cost), (3, 15));
        assert_eq!(cheapest(3, 0, &[(0, 1, 1)]), None);
    }
}
