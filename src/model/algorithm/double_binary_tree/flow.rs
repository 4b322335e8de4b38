//! One pair of segments, event by event.

use super::colouring::{Forest, Phase, Transfer};

/// Rounds of one pair, event by event: [`unsegmented_steps`](super::lengths::unsegmented_steps)
/// gives them without playing it out.
#[must_use]
pub fn unsegmented_flow(ranks: u32) -> u32 {
    flow(ranks).iter().map(|transfer| transfer.slot + 1).max().unwrap_or(0)
}

/// The transfers of one pair, each in the first round in which its data and both ports are free.
///
/// Among ready transfers those going up come first, starting at the deepest level, then those going
/// down, starting at the root. Within a level the order is tree 1 before tree 2, then by sender,
/// then by distance to the receiver. Another order may take a round more or less.
pub(super) fn flow(ranks: u32) -> Vec<Transfer> {
    let forest = Forest::new(ranks);
    let mut depth = vec![0_u32; 2 * forest.ranks];
    for &node in forest.leaves_first.iter().rev() {
        depth[node] = depth[forest.parent[node]] + 1;
    }
    let height = depth.iter().max().copied().unwrap_or(0);
    let mut waiting: Vec<usize> = forest.edges().collect();
    waiting.sort_by_key(|&edge| {
        let d = depth[edge % (2 * forest.ranks)];
        let t = forest.transfer(edge, 0);
        let (down, level) = match t.phase {
            Phase::Up => (false, height - d),
            Phase::Down => (true, d),
        };
        (down, level, t.tree, t.from, (t.to + ranks - t.from) % ranks)
    });
    // The round in which an edge ends, and the round in which a port becomes free.
    let mut end = vec![u32::MAX; 4 * forest.ranks];
    let mut sent = vec![0_u32; forest.ranks];
    let mut received = vec![0_u32; forest.ranks];
    let mut round = 0;
    let mut transfers = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        waiting.retain(|&edge| {
            let (from, to) = (forest.from[edge] as usize, forest.to[edge] as usize);
            let idle = sent[from] <= round && received[to] <= round;
            let starts = idle && forest.before(edge).all(|source| end[source] <= round);
            if starts {
                (end[edge], sent[from], received[to]) = (round + 1, round + 1, round + 1);
                transfers.push(forest.transfer(edge, round));
            }
            !starts
        });
        round += 1;
    }
    transfers
}
