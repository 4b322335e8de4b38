//! Messages that move at max-min fair rates.
//!
//! All rates rise together. When a link is full, its messages keep their rates, and the others
//! continue to rise. Rates are recomputed whenever messages begin or end to move.
//!
//! Of a message whose packets take several paths, a link carries only a share; its rate rises until one
//! of these links is full.
//!
//! Messages on one path always have the same rate. So a path counts the bytes that each of its
//! messages has received since it was last empty, and a message ends when this count has grown by
//! its size. The cost of an event depends on the number of paths in use, however many messages
//! there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::messages::Tasks;
use crate::base::error::{Error, Result};
use crate::machine::graph::Graph;

/// The most visits of links while rates are shared, where packets take several paths: each share visits
/// all links of all moving messages, dozens where a path has a few. That is less than a minute.
const VISITS: u64 = 1 << 32;

/// Instants closer than this, relative, count as one.
const SAME: f64 = 1e-13;

/// The messages on one path.
#[derive(Debug, Default)]
struct Way {
    path: Vec<u32>,
    /// The share of a message that each link of the path carries; empty if each carries all of it.
    shares: Vec<f64>,
    /// The bytes that each of its messages has received since the path was last empty, and receives
    /// per second.
    got: f64,
    rate: f64,
    /// The link of the path that limits them, by position.
    bound: usize,
    /// For each link of the path, how long it has limited them.
    held: Vec<f64>,
    /// The received bytes at which a message ends; its task.
    moving: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Way {
    /// The share of its messages on a link of the path, by position.
    fn share(&self, place: usize) -> f64 {
        self.shares.get(place).copied().unwrap_or(1.0)
    }

    /// When the first of its messages ends.
    fn next(&self, now: f64) -> f64 {
        self.moving.peek().map_or(f64::INFINITY, |first| {
            now + (f64::from_bits(first.0.0) - self.got).max(0.0) / self.rate
        })
    }
}

/// A time as a sortable number: it is never negative, so its bits are in order.
fn key(time: f64) -> u64 {
    time.max(0.0).to_bits()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// All its predecessors have ended, and its time has come.
    Ready,
    /// Its latency is over.
    Moves,
}

pub(super) struct Fluid {
    capacity: Vec<f64>,
    ways: Vec<Way>,
    /// The way of each path.
    known: HashMap<u32, usize>,
    /// The ways with moving messages.
    used: Vec<usize>,
    now: f64,
    due: BinaryHeap<Reverse<(u64, Due, u32)>>,
    /// By job and link, the seconds for which the link limited messages of the job.
    held: BTreeMap<(u32, u32), f64>,
    /// For sharing: the remaining rate of a link, its messages whose rates still grow, how much of
    /// a message they are by their shares, and their ways.
    left: Vec<f64>,
    growing: Vec<u32>,
    wanted: Vec<f64>,
    /// How many links may still be visited.
    visits: u64,
    on: Vec<Vec<usize>>,
    busy: Vec<u32>,
}

impl Fluid {
    pub fn new(graph: &Graph) -> Self {
        let capacity: Vec<f64> = graph.links.iter().map(|l| l.rate.bandwidth().0).collect();
        let links = capacity.len();
        Self {
            ways: Vec::new(),
            known: HashMap::new(),
            used: Vec::new(),
            now: 0.0,
            due: BinaryHeap::new(),
            held: BTreeMap::new(),
            left: vec![0.0; links],
            growing: vec![0; links],
            wanted: vec![0.0; links],
            visits: VISITS,
            on: vec![Vec::new(); links],
            busy: Vec::new(),
            capacity,
        }
    }

    /// Runs all tasks and returns when each ended.
    ///
    /// # Errors
    /// Packets that take so many paths that it would take minutes.
    pub fn run(&mut self, tasks: &mut Tasks) -> Result<Vec<f64>> {
        let mut ends = vec![0.0; tasks.tasks.len()];
        for (task, number) in tasks.tasks.iter().zip(0..) {
            if task.open == 0 {
                self.due.push(Reverse((key(task.at), Due::Ready, number)));
            }
        }
        loop {
            let moved = self.used.iter().map(|&way| self.ways[way].next(self.now));
            let moved = moved.fold(f64::INFINITY, f64::min);
            let timed = self.due.peek().map_or(f64::INFINITY, |d| f64::from_bits(d.0.0));
            let next = moved.min(timed);
            if next == f64::INFINITY {
                return Ok(ends);
            }
            let changed = self.advance(next, tasks, &mut ends);
            if changed {
                self.pay()?;
                self.share();
            }
        }
    }

    /// Counts the links that packets on several paths visit.
    fn pay(&mut self) -> Result<()> {
        let sprayed = self.used.iter().map(|&way| self.ways[way].shares.len() as u64);
        let left = self.visits.checked_sub(sprayed.sum());
        self.visits = left.ok_or_else(|| {
            Error::unsupported("the packets of so many messages take too many paths")
                .help("simulate fewer messages at once, or with routing = \"spread\"")
        })?;
        Ok(())
    }

    /// The link that limited a job's messages the longest, and for which part of the time; of
    /// several with equal times, the last.
    pub fn bound(&self, job: u32) -> Option<(u32, f64)> {
        let held = || self.held.range((job, 0)..=(job, u32::MAX)).map(|(&(_, link), s)| (link, *s));
        let all: f64 = held().map(|(_, seconds)| seconds).sum();
        let most = held().map(|(_, seconds)| seconds).fold(0.0, f64::max);
        let (link, seconds) = held().rfind(|h| h.1 >= most * (1.0 - 1e-9))?;
        (most > 0.0).then(|| (link, seconds / all))
    }

    /// Adds the times for which the links of a way were limiting so far, or subtracts them from the
    /// times that they will have when a message of the job ends.
    fn hold(&mut self, way: usize, job: u32, sign: f64) {
        let way = &self.ways[way];
        for (&link, held) in way.path.iter().zip(&way.held) {
            *self.held.entry((job, link)).or_default() += sign * held;
        }
    }

    /// Starts a message.
    fn begin(&mut self, task: u32, tasks: &Tasks) {
        let one = &tasks.tasks[task as usize];
        let path = tasks.path(one);
        let way = *self.known.entry(one.way()).or_insert_with(|| {
            let held = vec![0.0; path.len()];
            let shares = tasks.shares(one).to_vec();
            self.ways.push(Way { path: path.to_vec(), shares, held, ..Way::default() });
            self.ways.len() - 1
        });
        if self.ways[way].moving.is_empty() {
            self.ways[way].got = 0.0;
            self.ways[way].held.fill(0.0);
            self.used.push(way);
        }
        let until = self.ways[way].got + one.bytes;
        self.ways[way].moving.push(Reverse((key(until), task)));
        self.hold(way, one.job, -1.0);
    }

    /// Processes all events due at `next`. Returns whether they change rates.
    fn advance(&mut self, next: f64, tasks: &mut Tasks, ends: &mut [f64]) -> bool {
        let passed = next - self.now;
        let until = next + next * SAME;
        let mut changed = false;
        let mut ended = Vec::new();
        for way in std::mem::take(&mut self.used) {
            let now = self.now;
            let one = &mut self.ways[way];
            one.held[one.bound] += passed;
            let first = ended.len();
            while one.next(now) <= until {
                ended.extend(one.moving.pop().map(|Reverse((_, task))| task));
            }
            one.got += passed * one.rate;
            let moves = !one.moving.is_empty();
            for &task in &ended[first..] {
                self.hold(way, tasks.tasks[task as usize].job, 1.0);
            }
            if moves {
                self.used.push(way);
            }
        }
        changed |= !ended.is_empty();
        self.now = next;
        while let Some(task) = ended.pop() {
            self.end(task, next, tasks, ends, &mut ended);
        }
        while let Some(&Reverse((time, due, task))) = self.due.peek() {
            if f64::from_bits(time) > until {
                break;
            }
            self.due.pop();
            let one = &tasks.tasks[task as usize];
            match due {
                Due::Ready if one.is_gate && one.wait == 0.0 => ended.push(task),
                Due::Ready if one.wait > 0.0 => {
                    self.due.push(Reverse((key(next + one.wait), Due::Moves, task)));
                }
                Due::Ready | Due::Moves if one.bytes <= 0.0 || tasks.path(one).is_empty() => {
                    ended.push(task);
                }
                Due::Ready | Due::Moves => {
                    self.begin(task, tasks);
                    changed = true;
                }
            }
            while let Some(task) = ended.pop() {
                self.end(task, next, tasks, ends, &mut ended);
            }
        }
        changed
    }

    fn end(
        &mut self,
        task: u32,
        now: f64,
        tasks: &mut Tasks,
        ends: &mut [f64],
        ended: &mut Vec<u32>,
    ) {
        ends[task as usize] = now;
        for place in tasks.waiting(task) {
            let next = tasks.waits(place);
            let waiting = &mut tasks.tasks[next as usize];
            waiting.open -= 1;
            if waiting.open > 0 {
                continue;
            }
            if waiting.is_gate && waiting.at <= now && waiting.wait == 0.0 {
                ended.push(next);
            } else {
                self.due.push(Reverse((key(waiting.at.max(now)), Due::Ready, next)));
            }
        }
    }

    /// Gives every moving message its fair rate.
    fn share(&mut self) {
        let Self { capacity, ways, used, left, growing, wanted, on, busy, .. } = self;
        for &link in &*busy {
            on[link as usize].clear();
        }
        busy.clear();
        for &way in &*used {
            ways[way].rate = 0.0;
            let count = ways[way].moving.len() as u32;
            for (place, &link) in ways[way].path.iter().enumerate() {
                let l = link as usize;
                if on[l].is_empty() {
                    busy.push(link);
                    (left[l], growing[l], wanted[l]) = (capacity[l], 0, 0.0);
                }
                on[l].push(way);
                growing[l] += count;
                wanted[l] += f64::from(count) * ways[way].share(place);
            }
        }
        let mut open: Vec<u32> = busy.clone();
        // Rates only rise; differences of shares would round to a little less.
        let mut least = 0.0_f64;
        while !open.is_empty() {
            // What rounding leaves of differences of shares must not become zero or less.
            let room =
                |link: u32| left[link as usize] / wanted[link as usize].max(f64::MIN_POSITIVE);
            least = open.iter().map(|&link| room(link)).fold(f64::INFINITY, f64::min).max(least);
            let full = least + least * SAME;
            let tight: Vec<u32> = open.iter().copied().filter(|&link| room(link) <= full).collect();
            for link in tight {
                for &way in &on[link as usize] {
                    let way = &mut ways[way];
                    if way.rate > 0.0 {
                        continue;
                    }
                    way.rate = least;
                    way.bound = way.path.iter().position(|l| *l == link).unwrap_or(0);
                    let count = way.moving.len() as u32;
                    for (place, &other) in way.path.iter().enumerate() {
                        let part = f64::from(count) * way.share(place);
                        let other = other as usize;
                        growing[other] -= count;
                        wanted[other] -= part;
                        left[other] = (left[other] - least * part).max(0.0);
                    }
                }
            }
            open.retain(|&link| growing[link as usize] > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::traffic::parse;
    use crate::machine::graph::routes::Routes;

    /// Both ways have four links. At first both are shared; after a second, when the message of one
    /// byte and the one that goes back have ended, one of them is: twelve visits.
    #[test]
    fn too_many_paths_are_refused() {
        let jobs = r#"{"jobs": [{"name": "j", "messages": [
            {"from": "g0", "to": "g1", "bytes": 1}, {"from": "g0", "to": "g1", "bytes": 2},
            {"from": "g1", "to": "g0", "bytes": 2}]}]}"#;
        let runs = |routing: &str, visits: u64| {
            let text = format!(
                r#"{{"ranks": 2, "switches": ["a", "b"], "routing": "{routing}", "links": [
                {{"between": ["g0", "a"], "bw": 1}}, {{"between": ["a", "g1"], "bw": 1}},
                {{"between": ["g0", "b"], "bw": 1}}, {{"between": ["b", "g1"], "bw": 1}}]}}"#
            );
            let graph = Graph::parse(&text, "f.json").unwrap();
            let mut tasks = Tasks::of(&graph, &parse(jobs, "j.json").unwrap()).unwrap();
            tasks.route(&graph, &mut Routes::new(&graph)).unwrap();
            let mut fluid = Fluid::new(&graph);
            fluid.visits = visits;
            fluid.run(&mut tasks).is_ok()
        };
        assert!(!runs("minimal", 11) && runs("minimal", 12));
        assert!(runs("shortest", 0));
    }
}
