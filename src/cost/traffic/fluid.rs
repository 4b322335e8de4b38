//! Messages that move at max-min fair rates.
//!
//! All rates are raised together; where a link is full, its messages keep what they have, and the
//! rest goes on. Rates are found anew whenever messages begin or end to move.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::messages::Tasks;
use crate::machine::graph::Graph;

/// Instants closer than this, relative, are one.
const SAME: f64 = 1e-13;

#[derive(Debug, Clone, Copy)]
struct Flow {
    task: u32,
    job: u32,
    left: f64,
    rate: f64,
    /// The link that holds it back.
    bound: u32,
}

/// A time that can be sorted: never negative, so its bits are in order.
fn key(time: f64) -> u64 {
    time.max(0.0).to_bits()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Everything it waited for has ended, and its time has come.
    Ready,
    /// Its latency is over.
    Moves,
}

pub(super) struct Fluid {
    capacity: Vec<f64>,
    flows: Vec<Flow>,
    now: f64,
    due: BinaryHeap<Reverse<(u64, Due, u32)>>,
    /// For each job and link the seconds for which the link held messages of the job back.
    held: Vec<f64>,
    /// For sharing: what is left of a link, how many messages still grow on it, who they are.
    left: Vec<f64>,
    growing: Vec<u32>,
    on: Vec<Vec<u32>>,
    busy: Vec<u32>,
}

impl Fluid {
    pub fn new(graph: &Graph, jobs: usize) -> Self {
        let capacity: Vec<f64> = graph.links.iter().map(|l| l.rate.bandwidth().0).collect();
        let links = capacity.len();
        Self {
            flows: Vec::new(),
            now: 0.0,
            due: BinaryHeap::new(),
            held: vec![0.0; jobs * links],
            left: vec![0.0; links],
            growing: vec![0; links],
            on: vec![Vec::new(); links],
            busy: Vec::new(),
            capacity,
        }
    }

    /// Runs all tasks and says when each ended.
    pub fn run(&mut self, tasks: &mut Tasks) -> Vec<f64> {
        let mut ends = vec![0.0; tasks.tasks.len()];
        for (task, number) in tasks.tasks.iter().zip(0..) {
            if task.open == 0 {
                self.due.push(Reverse((key(task.at), Due::Ready, number)));
            }
        }
        loop {
            let moved = self.flows.iter().map(|f| self.now + f.left / f.rate);
            let moved = moved.fold(f64::INFINITY, f64::min);
            let timed = self.due.peek().map_or(f64::INFINITY, |d| f64::from_bits(d.0.0));
            let next = moved.min(timed);
            if next == f64::INFINITY {
                return ends;
            }
            let changed = self.advance(next, tasks, &mut ends);
            if changed {
                self.share(tasks);
            }
        }
    }

    /// The link that held a job's messages back the longest, and for which part of the time.
    pub fn bound(&self, job: usize) -> Option<(u32, f64)> {
        let links = self.capacity.len();
        let held = &self.held[job * links..(job + 1) * links];
        let all: f64 = held.iter().sum();
        let most = (0..).zip(held).max_by(|a, b| a.1.total_cmp(b.1))?;
        (all > 0.0).then(|| (most.0, most.1 / all))
    }

    /// Lets everything happen that is due at `next`. Whether rates change by it.
    fn advance(&mut self, next: f64, tasks: &mut Tasks, ends: &mut [f64]) -> bool {
        let passed = next - self.now;
        let until = next + next * SAME;
        let links = self.capacity.len();
        let mut changed = false;
        let mut ended = Vec::new();
        let (now, held) = (self.now, &mut self.held);
        self.flows.retain_mut(|flow| {
            held[flow.job as usize * links + flow.bound as usize] += passed;
            if now + flow.left / flow.rate <= until {
                ended.push(flow.task);
                return false;
            }
            flow.left -= passed * flow.rate;
            true
        });
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
                Due::Ready if one.is_gate => ended.push(task),
                Due::Ready if one.wait > 0.0 => {
                    self.due.push(Reverse((key(next + one.wait), Due::Moves, task)));
                }
                Due::Ready | Due::Moves if one.bytes <= 0.0 || tasks.path(one).is_empty() => {
                    ended.push(task);
                }
                Due::Ready | Due::Moves => {
                    let (job, left) = (one.job, one.bytes);
                    self.flows.push(Flow { task, job, left, rate: 0.0, bound: 0 });
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
            if waiting.is_gate && waiting.at <= now {
                ended.push(next);
            } else {
                self.due.push(Reverse((key(waiting.at.max(now)), Due::Ready, next)));
            }
        }
    }

    /// Gives every moving message its fair rate.
    fn share(&mut self, tasks: &Tasks) {
        let Self { capacity, flows, left, growing, on, busy, .. } = self;
        for &link in &*busy {
            on[link as usize].clear();
        }
        busy.clear();
        for (i, flow) in (0..).zip(flows.iter_mut()) {
            flow.rate = 0.0;
            for &link in tasks.path(&tasks.tasks[flow.task as usize]) {
                let l = link as usize;
                if on[l].is_empty() {
                    busy.push(link);
                    (left[l], growing[l]) = (capacity[l], 0);
                }
                on[l].push(i);
                growing[l] += 1;
            }
        }
        let mut open: Vec<u32> = busy.clone();
        while !open.is_empty() {
            let room = |link: u32| left[link as usize] / f64::from(growing[link as usize]);
            let least = open.iter().map(|&link| room(link)).fold(f64::INFINITY, f64::min);
            let full = least + least * SAME;
            let tight: Vec<u32> = open.iter().copied().filter(|&link| room(link) <= full).collect();
            for link in tight {
                for &i in &on[link as usize] {
                    let flow = &mut flows[i as usize];
                    if flow.rate > 0.0 {
                        continue;
                    }
                    (flow.rate, flow.bound) = (least, link);
                    for &other in tasks.path(&tasks.tasks[flow.task as usize]) {
                        growing[other as usize] -= 1;
                        left[other as usize] = (left[other as usize] - least).max(0.0);
                    }
                }
            }
            open.retain(|&link| growing[link as usize] > 0);
        }
    }
}
