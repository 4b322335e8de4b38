//! Maximum flows in integers (Dinic, Soviet Math. Doklady 11, 1970).

/// A network of directed edges; edge `i ^ 1` is the reverse of edge `i`.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    /// The head of each edge, and its remaining capacity.
    edges: Vec<(u32, i64)>,
    /// Edges by node, sorted by their heads once something was sent.
    leaving: Vec<Vec<u32>>,
    is_sorted: bool,
    level: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
    /// The number of edge visits: the total work.
    pub looked: u64,
}

const FAR: u32 = u32::MAX;

impl Flow {
    /// A network with this many nodes and no edges.
    pub fn new(nodes: usize) -> Self {
        Self { leaving: vec![Vec::new(); nodes], ..Self::default() }
    }

    /// Adds an edge, and returns its number.
    pub fn edge(&mut self, from: u32, to: u32, capacity: i64) -> u32 {
        let number = self.edges.len() as u32;
        self.edges.push((to, capacity));
        self.edges.push((from, 0));
        self.leaving[from as usize].push(number);
        self.leaving[to as usize].push(number + 1);
        self.is_sorted = false;
        number
    }

    /// Gives an edge this capacity, and no flow.
    pub fn set(&mut self, edge: u32, capacity: i64) {
        self.edges[edge as usize].1 = capacity;
        self.edges[edge as usize ^ 1].1 = 0;
    }

    /// Sends as much as possible, at most `most`, in addition to the existing flow; returns the
    /// amount.
    pub fn push(&mut self, from: u32, to: u32, most: i64) -> i64 {
        if !std::mem::replace(&mut self.is_sorted, true) {
            let edges = &self.edges;
            let sort = |leaving: &mut Vec<u32>| leaving.sort_by_key(|&edge| edges[edge as usize].0);
            self.leaving.iter_mut().for_each(sort);
        }
        let mut sent = 0;
        while sent < most && self.levels(from, to) {
            self.next.clear();
            self.next.resize(self.leaving.len(), 0);
            loop {
                let more = self.augment(from, to, most - sent);
                if more == 0 {
                    break;
                }
                sent += more;
            }
        }
        sent
    }

    /// The nodes that can still be reached: after a maximum flow, the near side of a minimum cut.
    pub fn reached(&mut self, from: u32) -> Vec<bool> {
        self.levels(from, FAR);
        self.level.iter().map(|&level| level != FAR).collect()
    }

    /// The nodes that can still reach `to`: after a maximum flow, the far side of a minimum cut.
    pub fn reaching(&self, to: u32) -> Vec<bool> {
        let mut reaches = vec![false; self.leaving.len()];
        reaches[to as usize] = true;
        let mut open = vec![to];
        while let Some(node) = open.pop() {
            for &edge in &self.leaving[node as usize] {
                let from = self.edges[edge as usize].0;
                let left = self.edges[edge as usize ^ 1].1;
                if left > 0 && !std::mem::replace(&mut reaches[from as usize], true) {
                    open.push(from);
                }
            }
        }
        reaches
    }

    fn levels(&mut self, from: u32, to: u32) -> bool {
        self.level.clear();
        self.level.resize(self.leaving.len(), FAR);
        self.level[from as usize] = 0;
        self.queue.clear();
        self.queue.push(from);
        let mut head = 0;
        while head < self.queue.len() {
            let node = self.queue[head];
            head += 1;
            self.looked += self.leaving[node as usize].len() as u64;
            for &edge in &self.leaving[node as usize] {
                let (end, left) = self.edges[edge as usize];
                if left > 0 && self.level[end as usize] == FAR {
                    self.level[end as usize] = self.level[node as usize] + 1;
                    if end == to {
                        return true;
                    }
                    self.queue.push(end);
                }
            }
        }
        false
    }

    fn augment(&mut self, node: u32, to: u32, most: i64) -> i64 {
        if node == to {
            return most;
        }
        let mut sent = 0;
        // From the last level only an edge to the end leads there.
        let is_last = self.level[node as usize] + 1 == self.level[to as usize];
        if is_last && self.next[node as usize] == 0 {
            let before = |&edge: &u32| self.edges[edge as usize].0 < to;
            self.next[node as usize] = self.leaving[node as usize].partition_point(before) as u32;
        }
        while let Some(&edge) = self.leaving[node as usize].get(self.next[node as usize] as usize) {
            self.looked += 1;
            let (end, left) = self.edges[edge as usize];
            if is_last && end != to {
                return sent;
            }
            if left > 0 && self.level[end as usize] == self.level[node as usize] + 1 {
                let more = self.augment(end, to, left.min(most - sent));
                self.edges[edge as usize].1 -= more;
                self.edges[edge as usize ^ 1].1 += more;
                sent += more;
                if sent == most {
                    return sent;
                }
            }
            self.next[node as usize] += 1;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_and_cuts() {
        let mut flow = Flow::new(4);
        for (a, b, c) in [(0, 1, 3), (0, 2, 2), (1, 2, 5), (1, 3, 2), (2, 3, 3)] {
            flow.edge(a, b, c);
        }
        assert_eq!(flow.push(0, 3, i64::MAX), 5);
        assert_eq!(flow.reached(0), [true, false, false, false]);
    }
}
